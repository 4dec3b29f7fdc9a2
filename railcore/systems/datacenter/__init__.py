"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters."""

from railcore.systems.datacenter.exposed import OVERLAP_RULES, exposed_share, times
from railcore.systems.datacenter.layer import layer, precision
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.site import site
from railcore.systems.datacenter.sizing import size

__all__ = ["OVERLAP_RULES", "exposed_share", "layer", "layout", "precision", "site", "size", "times"]
