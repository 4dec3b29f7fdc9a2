"""Good calls of what is public in railcore.engines.emulator."""

import numpy as np

from railcore.engines.emulator.collective_schedules import (
    DomainRailBytes,
    Schedule,
    ScheduleBytes,
    collective_schedule,
    count_bytes,
    domain_rail_bytes,
    hierarchical_schedule,
    pipelined_schedule,
    run_schedule,
)
from railcore.engines.emulator.comparison import (
    emulated_idle_shares,
    emulated_run,
    possible_strategies,
    sized_strategy,
    strategy_traffic,
)
from railcore.engines.emulator.feedforward import (
    FeedForward,
    TrainingStep,
    emulated_sizes,
    layer_stages,
    one_rank_step,
    refuse_too_large,
)
from railcore.engines.emulator.ranks import EmulatedRanks, TransferLabel
from railcore.training.parallelism import Strategy

STRATEGY = Strategy(tensor=2, pipeline=2, data=2)

DomainRailBytes(np.array([4.0, 4.0]), np.array([2.0, 2.0]), 0.0)
Schedule(parts=3, steps=(), operation="all_gather", ranks=1)
collective_schedule("all_gather", "ring", 3).end(2)
collective_schedule("all_gather", "ring", 3).start(2)
ScheduleBytes(0, np.array([0.0]), np.array([0.0]), {}, np.array([]))
collective_schedule("all_gather", "ring", 2)
count_bytes(collective_schedule("all_gather", "ring", 2), 840.0)
domain_rail_bytes(hierarchical_schedule("all_gather", 2, 2), 4, 2)
hierarchical_schedule("all_gather", 2, 2)
pipelined_schedule(collective_schedule("all_gather", "ring", 2), 3)
run_schedule(
    collective_schedule("all_gather", "ring", 2),
    [
        np.array([[701248451, 273923374], [22272959, -460426573]]),
        np.array([[-384341155, -918052953], [-849519717, -649465415]]),
    ],
)
emulated_idle_shares((2, 3), (1, 2, 3))
emulated_run(FeedForward([4, 4, 4, 4, 4]), STRATEGY, 2, 2)
possible_strategies(FeedForward([8, 8, 8, 8], "linear"), 8, 16, 2)
sized_strategy(16, 2, 2, 2, 2, ("tensor", "context", "data", "pipeline"))
strategy_traffic(FeedForward([4, 4]), {"one": Strategy(), "two": Strategy(data=2)}, 4, 1)
FeedForward((8, 4))
FeedForward((8, 4)).activated(1, np.array([[0.51], [0.95]]))
FeedForward((8, 4)).initial_weights(3565)
FeedForward([4, 4, 4, 4, 4]).samples(16, 3565)
FeedForward((4, 3, 2, 1)).slope(3, np.array([[1.77]]))
TrainingStep(
    0.0625, [np.array([[0.25]])], [np.array([[0.5]])], [np.array([[0.5]])], [np.array([[0.1]])], [[np.array([[0.1]])]]
)
emulated_sizes(FeedForward((8, 4)), Strategy(tensor=2), 1)
layer_stages(4, 2)
one_rank_step(FeedForward(widths=(1, 1)), [np.array([[0.178]])], np.array([[0.637]]), np.array([[0.27]]), 0.5)
refuse_too_large(FeedForward((8, 4)), STRATEGY)
EmulatedRanks(8, 8)
EmulatedRanks(16, 2, 2).all_gather(
    [14, 15],
    [np.array([[[1.12], [1.51], [1.77], [1.97]]]), np.array([[[1.22], [1.65], [1.17], [1.74]]])],
    TransferLabel(phase="forward", kind="loss", microbatch=0),
)
EmulatedRanks(8, 2, 2).all_reduce(
    [4, 6], [np.array([1.65]), np.array([1.7])], TransferLabel(phase="after", kind="loss")
)
EmulatedRanks(8, 2, 2).compute(4, "forward", 2, 0)
EmulatedRanks(8, 2, 2).holds(4, "summed output")
EmulatedRanks(8, 2, 2).link((2, 3))
TransferLabel("forward", "tensor", None, 2)
