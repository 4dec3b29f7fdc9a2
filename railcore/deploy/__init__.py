"""What a cluster is built of: servers, the networks of a cluster and what they cost, halls and cable lengths."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
