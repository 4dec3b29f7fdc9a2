"""All strategies of a cluster, evaluated together as arrays: the best, the Pareto front of time and memory, and why
others are out."""

from railcore.training.search.enumeration import divisors, strategy_blocks
from railcore.training.search.result import EDGES, SearchResult, pareto_front, search, strategy_label, with_labels

__all__ = [
    "EDGES",
    "SearchResult",
    "divisors",
    "pareto_front",
    "search",
    "strategy_blocks",
    "strategy_label",
    "with_labels",
]
