"""The best k places that feed a demand together."""

from railcore.systems.siting.split.options import SiteOptions, site_options
from railcore.systems.siting.split.solve import Split, split, splits

__all__ = ["SiteOptions", "Split", "site_options", "split", "splits"]
