"""One cluster and job in, every model's answer out: a spec, candidates, the answer of each, how sure it is, a page.

It holds no formula: each number is what the model gives when it is asked alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
