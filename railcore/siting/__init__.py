"""Where places for a datacenter are: areas, the best k places of a demand, and grid data of your own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
