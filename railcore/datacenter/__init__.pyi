from .exposed import OVERLAP_RULES as OVERLAP_RULES
from .exposed import layer_times as layer_times
from .layouts import model_layer as model_layer
from .layouts import rack_layout as rack_layout
from .operation import models_by_budget as models_by_budget
from .operation import training_runs as training_runs
from .sizing import datacenter_site as datacenter_site
from .sizing import datacenter_size as datacenter_size
