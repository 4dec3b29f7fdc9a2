"""Rebuild data/derived, which takes longer than a notebook may, and compare it with what is stored.

python data/derived/rebuild.py [--write]

photonic_runs.csv: simulated iterations on photonic rails, 64 to 256 GPUs and 2,048; one replica stands for all.
photonic_runs.sha256: hash of its inputs: the cases, models, platform and switches as the
catalog has them, and software.

Exit status 0 where stored and new agree, 1 where they do not.
"""

import argparse
import hashlib
import sys

import numpy as np
import pandas as pd

from railcore.facts import catalog, files
from railcore.systems import photonics
from railcore.systems.photonic_estimate import STEP_SOFTWARE
from railcore.training.machine import as_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import as_model

TABLE, HASH = "derived/photonic_runs.csv", "derived/photonic_runs.sha256"
PLATFORM = "DGX H200"
SWITCHES = ("RotorNet (InFocus)", "3D MEMS (Calient)", "Piezo (Polatis)", "Liquid crystal (Coherent)")
DELAYS_S = tuple(catalog.item("circuit_switches", name)["reconfiguration_time"] for name in SWITCHES)
ROWS = 2 * len(DELAYS_S)  # of a case
DDP, ZERO1, ZERO2, KEPT, FREED = STEP_SOFTWARE
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


def inputs_hash() -> str:
    """Hash of what the table is computed from, but the code."""
    what = [as_machine(PLATFORM), DELAYS_S, STEP_SOFTWARE, cases(), *map(as_model, SHAPES)]
    return hashlib.sha256("\n".join(map(repr, what)).encode()).hexdigest()


def run(case: Case) -> pd.DataFrame:
    """Rows of one case: each delay, without and with provisioning."""
    model, software, t, c, p, d, v, sequences = case
    sharding, options = STEP_SOFTWARE[software]
    split = {"tensor": t, "context": c, "pipeline": p, "data": d, "interleave": v}
    strategy = Strategy(**split, sharding=sharding, sequence_parallel=t > 1)
    table = photonics.overhead(model, PLATFORM, strategy, np.array(DELAYS_S), sequences, options=options)
    what = {"model": model, "platform": PLATFORM, "software": software, **split, "global_batch": sequences}
    return pd.concat([pd.DataFrame(what, index=table.index), table], axis=1)


def as_stored(new: pd.DataFrame, old: pd.DataFrame) -> bool:
    """Whether rows agree, numbers to 1e-8."""
    try:
        pd.testing.assert_frame_equal(new.reset_index(drop=True), old.reset_index(drop=True), rtol=1e-8, atol=1e-12)
    except AssertionError:
        return False
    return True


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace what is stored")
    write, every, parts, differing = parser.parse_args().write, cases(), [], 0
    old = pd.DataFrame() if write else pd.read_csv(files.data(TABLE))
    for place, case in enumerate(every):
        model, software, *split = case
        shape = ", ".join(f"{name} {n}" for name, n in zip("tcpdvG", split, strict=True))
        parts.append(run(case))
        same = write or as_stored(parts[-1], old[place * ROWS : (place + 1) * ROWS])
        differing += not same
        what = "" if write else ": as stored" if same else ": differs"
        print(f"{place + 1} of {len(every)}: {model}, {software}, {shape}{what}", file=sys.stderr, flush=True)
    if write:
        text = pd.concat(parts).to_csv(index=False, float_format="%.10g", lineterminator="\n")
        files.write_all({files.DATA / TABLE: text, files.DATA / HASH: inputs_hash() + "\n"})
    elif differing or len(old) != ROWS * len(every) or files.data(HASH).read_text().strip() != inputs_hash():
        print(f"{TABLE} is not what comes out ({differing} cases differ): find out why, then give --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
