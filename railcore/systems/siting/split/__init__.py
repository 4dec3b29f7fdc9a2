"""The best k places that feed a demand together."""

from railcore.systems.siting.split.options import Options, options, undominated
from railcore.systems.siting.split.solve import Split, split, splits

__all__ = ["Options", "Split", "options", "split", "splits", "undominated"]
