"""Models of networks for LLM training: traffic, iteration time, cost, datacenters and where they stand.

What a user needs first is here, loaded when it is used: `import railcore as rc`, then `rc.search(...)`.

A folder is a subject. From the ground up, each imports those before it: `catalog` (numbers of the world, units,
checks), `compiled` (loops by Numba), `network` (fabrics, parts, cost, reliability), `deploy` (servers, a cluster's networks,
cables), `training` (model, parallelism, traffic, iteration time), `strategies` (the search over all of them),
`photonics` (circuits, the simulated step), `datacenter` (a budget to racks and model), `siting` (where power is),
`transport` (packets and flows), `planner` (one spec in, every model's answer out).
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
