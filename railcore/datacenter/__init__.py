"""A budget to racks, power, model, layout and exposed communication, over one or several datacenters."""

from railcore.datacenter.exposed import OVERLAP_RULES, layer_times
from railcore.datacenter.layouts import model_layer, rack_layout
from railcore.datacenter.operation import models_by_budget, training_runs
from railcore.datacenter.sizing import datacenter_site, datacenter_size
from railcore.training.formats import catalog_precision
