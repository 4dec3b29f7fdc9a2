"""Models of networks for LLM training: traffic, iteration time, cost, datacenters and where they stand.

What a user needs first is here, loaded when it is used: `import railcore as rc`, then `rc.search(...)`.

A folder is a subject, and imports itself and those before it in this list:

- `catalog`: numbers of the world with source, units, checks of arguments; `compiled`: loops that Numba compiles
- `network`: fabrics, what a failed part takes, parts and their cost, reliability
- `deploy`: servers, a cluster's networks, cables
- `training`: model and memory, parallelism, collectives, traffic, iteration time, and the runs it is held against
- `strategies`: the search over all strategies
- `photonics`: circuits, and the simulated step
- `datacenter`: from a budget to racks, model and layout
- `siting`: where power is free
- `transport`: completion times of flows, by packets and by fair shares
- `planner`: one spec in, every model's answer out; sweeps of specs
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
