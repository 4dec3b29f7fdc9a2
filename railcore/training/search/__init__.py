"""All strategies of a cluster, evaluated together as arrays: the best, the Pareto front of time and memory, and why
others are out."""

from railcore.training.search.enumeration import divisors, space
from railcore.training.search.result import EDGES, Found, listed, named, pareto_front, search, short

__all__ = ["EDGES", "Found", "divisors", "listed", "named", "pareto_front", "search", "short", "space"]
