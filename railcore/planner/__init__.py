"""One cluster and job in, every model's answer out: a spec, candidates, the answer of each, how sure it is, a page.

It holds no formula: each number is what the model gives when it is asked alone.
"""

from railcore.planner.goodput import training_goodput
from railcore.planner.job_comparison import job_networks, network_shares
from railcore.planner.planning import plan
from railcore.planner.published import checks_table
from railcore.planner.shown import NUMBERS, interval, shown
from railcore.planner.slowdowns import (
    dense_slowdowns,
    fabrics_side_by_side,
    failed_part_slowdowns,
    mixture_slowdowns,
    platform_fabric,
    rail_only_and_optimized,
)
from railcore.planner.sweeping import sweep
