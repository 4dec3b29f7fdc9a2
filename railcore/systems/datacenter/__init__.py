"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters."""

from railcore.systems.datacenter.exposed import OVERLAP_RULES, exposed_share, layer_times
from railcore.systems.datacenter.layouts import layer, layout, precision
from railcore.systems.datacenter.sizing import site, size

__all__ = ["OVERLAP_RULES", "exposed_share", "layer", "layer_times", "layout", "precision", "site", "size"]
