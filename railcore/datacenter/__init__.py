"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
