"""Cases of plan_draws.csv: how sure the worked examples of data/plans are, one number of one example a case."""

from functools import cache

import pandas as pd

from railcore.catalog import files
from railcore.planner.planning import plan
from railcore.planner.uncertainty import DRAWN

CODE = ("railcore",)
ROWS = 8  # of a case: candidates at most; the others are blank
EXAMPLES = sorted(path.stem for path in (files.DATA / "plans").glob("*.toml"))
Case = tuple[str, str]


def cases() -> list[Case]:
    """Each number of each example."""
    return [(example, number) for example in EXAMPLES for number in DRAWN]


def size(case: Case) -> int:
    """The first example is the quickest."""
    return ("h100_1024", "rail_only_32768", "flops2024_100t").index(case[0])


def key(case: Case) -> tuple:
    """What the rows of a case are computed from, but the code and the catalog."""
    return *case, (files.DATA / f"plans/{case[0]}.toml").read_text(encoding="utf-8")


@cache
def _drawn(example: str) -> pd.DataFrame:
    found = plan(files.DATA / f"plans/{example}.toml").uncertainty
    return pd.DataFrame() if found is None else found.table


def run(case: Case) -> pd.DataFrame:
    """Rows of one case, a row for each candidate."""
    example, number = case
    rows = _drawn(example)
    mine = rows[rows["number"] == number].drop(columns="number").reset_index(drop=True).reindex(range(ROWS))
    mine.insert(0, "plan", example)
    mine.insert(1, "number", number)
    return mine


def named(case: Case) -> str:
    """A case in a line."""
    return f"{case[0]}, {case[1]}"
