"""All strategies of a cluster, evaluated together as arrays: the best, the Pareto front of time and memory, and why
others are out."""

from railcore.training.search.enumeration import divisors
from railcore.training.search.result import search, strategy_label, with_labels

__all__ = ["divisors", "search", "strategy_label", "with_labels"]
