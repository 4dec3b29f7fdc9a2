"""Cases of mechanism_effects.csv: errors of the iteration-time model without each of its mechanisms, one a case."""

import iteration_errors
import pandas as pd

from suite.run_errors import MECHANISMS, mechanism_effects, with_families

CODE = ("railcore", "suite/run_errors.py")
WHOLE = "nothing"  # is switched off
ROWS = with_families(iteration_errors.RUNS)["family"].nunique()  # of a case
Case = str


def cases() -> list[Case]:
    """The whole model, then each mechanism."""
    return [WHOLE, *MECHANISMS]


def size(case: Case) -> int:
    """All take the same runs."""
    return 1


def key(case: Case) -> tuple:
    """What the rows of a case are computed from, but the code."""
    off = MECHANISMS.get(case)
    return case, getattr(off, "__name__", off), *map(iteration_errors.key, iteration_errors.cases())


def run(case: Case) -> pd.DataFrame:
    """Rows of one case: each family of runs."""
    off = {} if case == WHOLE else {case: MECHANISMS[case]}
    return mechanism_effects(iteration_errors.RUNS, off).tail(ROWS)


def named(case: Case) -> str:
    """A case in a line."""
    return f"without {case}"
