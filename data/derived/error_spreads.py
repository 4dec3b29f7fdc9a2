"""The cases of error_spreads.csv: how alike the model's errors are, by what an answer is."""

import iteration_errors
import pandas as pd

from railcore.training.error_spreads import solved_spreads
from railcore.training.prediction_error import ANSWERS, SOLVED_FROM, errors_of, published_errors

CODE = ("railcore",)
ROWS = 1  # of a case


def cases() -> list[str]:
    """Kinds of answers."""
    return list(ANSWERS)


def size(case: str) -> int:
    """Runs."""
    return len(iteration_errors.EVERY)


def key(case: str) -> tuple:
    """What the row is computed from, but the code."""
    return case, *map(iteration_errors.key, iteration_errors.cases())


def run(case: str) -> pd.DataFrame:
    """The row. Runs kept aside are left for holding the intervals against."""
    table = published_errors()
    table = errors_of(table[table["seen"] == SOLVED_FROM], case)
    spreads = solved_spreads(table, table["log_error"])
    return pd.DataFrame([{"answer": case, "runs": len(table), "places": table["place"].nunique(), **spreads._asdict()}])


def named(case: str) -> str:
    """A case in a line."""
    return f"answers for {case}"
