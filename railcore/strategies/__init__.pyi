from .hb_domains import best_times as best_times
from .hb_domains import hb_domain_summary as hb_domain_summary
from .hb_domains import slowdown_by_sustained_rate as slowdown_by_sustained_rate
from .labels import strategy_label as strategy_label
from .parts import search as search
