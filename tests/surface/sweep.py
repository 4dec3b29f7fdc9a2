"""Good calls of what is public in railcore.engines.sweep."""

from railcore.engines.sweep.points import sweep_points, with_values
from railcore.engines.sweep.sweeping import check_numbers

SPEC = {
    "cluster": {"platform": "DGX H100", "gpus": 64},
    "job": {"model": "Llama-3 8B", "tokens": 1000000000000.0, "batch": 64},
}

with_values(SPEC, {"cluster.gpus": 128})
sweep_points(SPEC, {"cluster.gpus": [64, 128]})
check_numbers(1, None, 0)
