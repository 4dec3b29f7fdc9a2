"""Good calls of what is public in railcore.engines.steps."""

import numpy as np

from railcore.engines.steps.simulation import (
    ElectricalRails,
    Lane,
    RailNetwork,
    StaticPartition,
    simulate,
    uniform_deviation,
)
from railcore.engines.steps.stage_program import StageProgram, StepOptions
from railcore.engines.steps.timetable import Timetable, schedule
from railcore.engines.steps.workload import training_step
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import catalog_runtime
from railcore.training.transformer import catalog_model

MODEL = catalog_model("Llama-3 8B")
MACHINE = catalog_machine("DGX H100")
STRATEGY = Strategy(tensor=2, pipeline=2, data=2)
RUNTIME = catalog_runtime("modern")
MIXTURE = catalog_model("DeepSeek-V3")

ElectricalRails(algorithm="ring")
Lane(1)
Lane(1).queue(4, 4)
ElectricalRails(algorithm="ring", rates_Bps={}).slots_of(("send", 32))
StaticPartition(ports=4)
simulate(training_step(MIXTURE, "DGX H100", STRATEGY, 8, one_replica=True), ElectricalRails(algorithm="ring"))
uniform_deviation("jitter", 0.0)
StageProgram(MODEL, MACHINE, Strategy(), 1, StepOptions(), RUNTIME)
StageProgram(MODEL, MACHINE, Strategy(), 1, StepOptions(), RUNTIME).add_iteration(0)
StepOptions(False)
Timetable(
    "1f1b",
    1,
    1,
    1,
    0.0,
    "overlapped",
    np.array([[0, 1]]),
    np.array([[0.0], [1.0]]),
    np.array([[1.0], [2.0]]),
    np.array([[1.0], [2.0]]),
    np.array([[0.0], [1.0]]),
    np.array([[0.0], [1.0]]),
)
Timetable(
    kind="1f1b",
    stages=2,
    microbatches=1,
    chunks=1,
    send_s=0.0,
    transfers="overlapped",
    order=np.array([[0, 3], [1, 2]]),
    start_s=np.array([[0.0], [1.0], [2.0], [2.5]]),
    end_s=np.array([[1.0], [2.0], [2.5], [3.0]]),
    send_start_s=np.array([[1.0], [2.0], [2.5], [3.0]]),
    input_ready_s=np.array([[0.0], [1.0], [2.0], [2.5]]),
    stage_ready_s=np.array([[0.0], [0.0], [2.0], [1.0]]),
).peer_to_peer_bytes(1000000.0)
schedule("interleaved", 2, 4, 0.488, 0.976, chunks=3)
training_step(MODEL, MACHINE, STRATEGY, 2, StepOptions(sync_groups=(), detail=True))
RailNetwork()
