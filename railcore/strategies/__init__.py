"""Search over all strategies of a cluster: the best, designs, and why others are out.

`search` answers at once; `search_parts` cuts it for other processes. `best_times` sweeps HB domains, NICs and batches.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
