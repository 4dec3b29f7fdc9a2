"""The best k places that feed a demand together."""

from railcore.systems.siting.split.choices import Options, site_options, undominated
from railcore.systems.siting.split.solve import Split, split, splits

__all__ = ["Options", "Split", "site_options", "split", "splits", "undominated"]
