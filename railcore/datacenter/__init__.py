"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters.

The order in which to read the modules, each a step:

1. `sizing`: racks, GPUs and watts from a budget, a power or a count (`datacenter_size`); the racks of a site
   (`datacenter_site`).
2. `rack_network`: the scale-out network that the racks need, part by part.
3. `layouts`: what a layer of a model needs (`model_layer`), and how it lies on racks (`rack_layout`).
4. `exposed`: times of that layer, and the communication that nothing hides (`layer_times`).
5. `operation`: what a year trains, and what it costs in energy and carbon.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
