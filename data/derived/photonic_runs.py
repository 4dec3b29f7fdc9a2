"""Cases of photonic_runs.csv: simulated iterations on photonic rails, 64 to 256 GPUs and 2,048.

One replica stands for all.
"""

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.photonics import circuits
from railcore.photonics.estimate import STEP_SOFTWARE as ESTIMATED
from railcore.photonics.stage_program import fsdp_options
from railcore.training.machine import as_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import as_model

CODE = ("railcore",)
PLATFORM = "DGX H200"
SWITCHES = ("RotorNet (InFocus)", "3D MEMS (Calient)", "Piezo (Polatis)", "Liquid crystal (Coherent)")
DELAYS_S = tuple(catalog.item("circuit_switches", name)["reconfiguration_time"] for name in SWITCHES)
ROWS = 2 * len(DELAYS_S)  # of a case
DDP, ZERO1, ZERO2, KEPT, FREED = ESTIMATED
STEP_SOFTWARE = ESTIMATED | {KEPT: ("weights", fsdp_options())}  # the same exchanges, of weights that stay gathered
Case = tuple[str, str, int, int, int, int, int, int]  # model, software, t, c, p, d, v, sequences

SHAPES = {  # t, c, p, d, v, m; the first ones with every software
    "Llama-3 8B": ((1, 1, 4, 32, 1, 8), (8, 1, 2, 4, 1, 4), (2, 1, 2, 16, 1, 8), (8, 1, 4, 4, 2, 8)),
    "Llama-3 70B": (
        (8, 1, 4, 2, 1, 8),
        (8, 1, 4, 8, 1, 8),
        (8, 1, 2, 16, 1, 4),
        (8, 1, 8, 4, 1, 8),
        (8, 1, 4, 2, 2, 4),
        (8, 1, 4, 4, 5, 4),
        (8, 1, 8, 4, 2, 8),
        (8, 2, 4, 2, 1, 4),
        (8, 4, 1, 8, 1, 4),
    ),
    "Llama-3 405B": ((8, 1, 9, 2, 1, 9), (8, 1, 9, 2, 2, 9)),
}
EVERY = {"Llama-3 8B": 4, "Llama-3 70B": 4, "Llama-3 405B": 0}  # shapes with every software; others with one gather
LARGE, SEQUENCES = 2048, 2048  # GPUs, and sequences of 8,192 tokens: 16.8 million a step
LARGE_SHAPES = {  # (p, v) with t = 8
    ("Llama-3 70B", KEPT): ((4, 1), (8, 1), (16, 1)),
    ("Llama-3 70B", FREED): ((1, 1), (2, 1), (4, 1), (8, 1)),
    ("Llama-3 70B", ZERO1): ((4, 1), (8, 1), (8, 5), (16, 1)),
    ("Llama-3 405B", KEPT): ((8, 1), (16, 1)),
    ("Llama-3 405B", FREED): ((1, 1), (4, 1)),
    ("Llama-3 405B", ZERO1): ((8, 1), (16, 1), (16, 2)),
}


def cases() -> list[Case]:
    """All that is simulated."""
    found: list[Case] = []
    for model, shapes in SHAPES.items():
        for place, (t, c, p, d, v, m) in enumerate(shapes):
            software = STEP_SOFTWARE if place < EVERY[model] else (DDP, ZERO1, KEPT)
            found += [(model, name, t, c, p, d, v, m * d) for name in software]
    for (model, name), large in LARGE_SHAPES.items():
        found += [(model, name, 8, 1, p, LARGE // (8 * p), v, SEQUENCES) for p, v in large]
    return found


def size(case: Case) -> int:
    """Passes of micro-batches through the chunks of a replica; micro-batches have one sequence each."""
    *_, p, d, v, sequences = case
    return p * v * sequences // d


def key(case: Case) -> tuple:
    """What the rows of a case are computed from, but the code."""
    machine = sorted(as_machine(PLATFORM).values.items())
    return case, machine, DELAYS_S, as_model(case[0]), STEP_SOFTWARE[case[1]]


def run(case: Case) -> pd.DataFrame:
    """Rows of one case: each delay, without and with provisioning."""
    model, software, t, c, p, d, v, sequences = case
    sharding, options = STEP_SOFTWARE[software]
    split = {"tensor": t, "context": c, "pipeline": p, "data": d, "interleave": v}
    strategy = Strategy(**split, sharding=sharding, sequence_parallel=t > 1)
    table = circuits.photonic_overhead(
        model, PLATFORM, strategy, np.array(DELAYS_S), sequences, options=options, runtime="modern"
    )
    what = {"model": model, "platform": PLATFORM, "software": software, **split, "global_batch": sequences}
    return pd.concat([pd.DataFrame(what, index=table.index), table], axis=1)


def named(case: Case) -> str:
    """A case in a line."""
    model, software, *split = case
    return f"{model}, {software}, " + ", ".join(f"{name} {n}" for name, n in zip("tcpdvG", split, strict=True))
