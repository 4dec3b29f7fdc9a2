"""Search over all strategies of a cluster: the best, designs, and why others are out.

`search` answers at once; `search_parts` cuts it for other processes. `best_times` sweeps HB domains, NICs and batches.
"""

from railcore.strategies.hb_domains import best_times, hb_domain_summary, slowdown_by_sustained_rate
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
