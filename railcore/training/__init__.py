"""Training: models and memory, parallelism, collectives, traffic, iteration time, and runs it is held against."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
