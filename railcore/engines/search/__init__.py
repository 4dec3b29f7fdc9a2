"""Search over all strategies of a cluster: the best, designs, and why others are out.

`search` answers at once; `search_parts` cuts it for other processes. `best_times` sweeps HB domains, NICs and batches.
"""

from railcore.engines.search.hb_domains import (
    best_times,
    hb_domain_summary,
    increasing_returns_share,
    slowdown_by_sustained_rate,
    smallest_hb_domain_near_ideal,
)
from railcore.engines.search.labels import strategy_label
from railcore.engines.search.parts import search, search_parts
from railcore.engines.search.result import SearchResult
from railcore.engines.search.space import strategy_blocks
