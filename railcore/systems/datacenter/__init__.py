"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters."""

from railcore.systems.datacenter.exposed import RULES, Times, exposed_share, times
from railcore.systems.datacenter.layer import layer, precision
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.site import Site, site
from railcore.systems.datacenter.sizing import Sizing, size

__all__ = [
    "RULES",
    "Site",
    "Sizing",
    "Times",
    "exposed_share",
    "layer",
    "layout",
    "precision",
    "site",
    "size",
    "times",
]
