"""Cases of sweep_winners.csv: the sweep of data/sweeps/winners.toml with draws, one GPU count and HB domain a case."""

import pandas as pd

from railcore.catalog import files
from railcore.planner.sweep_grid import sweep_points
from railcore.planner.sweeping import sweep

CODE = ("railcore",)
CASE = "case"
DRAWS = 200
KEYS = ["cluster.gpus", "cluster.hb_domain_size"]
COLUMNS = ["rank", "candidate", "also", "days", "network_usd", "cost_usd", "low", "high", "wins"]
_SPEC = files.DATA / "sweeps/winners.toml"


def _points() -> pd.DataFrame:
    rows = pd.DataFrame(sweep_points(_SPEC).rows)
    return rows.assign(case=[f"{gpus}/{size}" for gpus, size in rows[KEYS].itertuples(index=False)])


def cases() -> list[str]:
    """Each number of GPUs with each HB domain."""
    return list(dict.fromkeys(_points()[CASE]))


def size(case: str) -> int:
    """Few GPUs are searched quickly."""
    return int(case.partition("/")[0])


def key(case: str) -> tuple:
    """What the rows of a case are computed from, but the code and the catalog."""
    return case, DRAWS, _SPEC.read_text(encoding="utf-8")


def run(case: str) -> pd.DataFrame:
    """Rows of one case: a row for each candidate and price of a transceiver."""
    points = _points()
    mine = points[points[CASE] == case].drop(columns=CASE)
    spec = sweep_points(_SPEC).base
    found = sweep(spec, mine, draws=DRAWS)
    found.insert(0, CASE, case)
    return found[[CASE, *mine, *COLUMNS]]


def named(case: str) -> str:
    """A case in a line: GPUs, and GPUs of an HB domain."""
    return case
