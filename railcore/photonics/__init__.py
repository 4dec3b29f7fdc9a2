"""Photonic rails: circuits that change during a job, their control plane, their cost in time, and failed parts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
