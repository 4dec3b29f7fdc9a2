"""Cases of plan_checks.csv: what plans and their models give of published clusters, one check a case."""

from functools import cache

import pandas as pd

from suite.plan_checks import CHECKS, computed_checks

CODE = ("railcore", "suite/plan_checks.py")
ROWS = 1  # of a case
Case = str


def cases() -> list[Case]:
    """All checks."""
    return list(CHECKS)


def size(case: Case) -> int:
    """Counts of parts and failures take no time."""
    return 0 if case.startswith(("topologies2025", "superpod_h100", "meta_rsc")) else 1


@cache
def key(case: Case) -> tuple:
    """What a case is computed from, but the code and the catalog."""
    return case, CHECKS[case].remark


def run(case: Case) -> pd.DataFrame:
    """The row of one check."""
    return computed_checks([case])


def named(case: Case) -> str:
    """A case in a line."""
    return case
