"""A job on a fabric that is not whole or not even: routed flows, failed parts, uneven experts, local traffic."""

from railcore.engines.degraded.goodput import training_goodput
from railcore.engines.degraded.slowdowns import (
    dense_slowdown,
    dense_slowdowns,
    fabrics_side_by_side,
    failed_part_slowdowns,
    mixture_slowdowns,
    platform_fabric,
    rail_only_and_optimized,
)
