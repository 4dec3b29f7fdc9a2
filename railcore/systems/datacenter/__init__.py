"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters."""

from railcore.systems.datacenter.exposed import OVERLAP_RULES, layer_times
from railcore.systems.datacenter.layouts import model_layer, rack_layout
from railcore.systems.datacenter.sizing import datacenter_site, datacenter_size
from railcore.training.formats import catalog_precision

__all__ = [
    "OVERLAP_RULES",
    "catalog_precision",
    "datacenter_site",
    "datacenter_size",
    "layer_times",
    "model_layer",
    "rack_layout",
]
