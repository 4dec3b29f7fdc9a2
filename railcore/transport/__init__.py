"""Transports: completion times of flows on a fabric, from the optimum over fair sharing to packets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
