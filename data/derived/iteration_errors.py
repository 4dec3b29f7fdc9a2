"""Cases of iteration_errors.csv: errors of the iteration-time model on published runs, by what was run and where."""

import pandas as pd

from railcore.training.machine import catalog_machine
from railcore.training.runs import MODELLED, error_summary, joined_runs, predictions, published_runs
from railcore.training.software import as_runtime

CODE = ("railcore",)
ROWS = 1  # of a case
KINDS = ["platform", "precision", "mixture", "seen"]
Case = tuple[str, str, str, str]  # by KINDS
RUNS = joined_runs(*map(published_runs, MODELLED))
GROUPS: dict[Case, pd.DataFrame] = dict(iter(RUNS.groupby(KINDS)))  # type: ignore[arg-type]


def cases() -> list[Case]:
    """All groups of runs."""
    return list(GROUPS)


def size(case: Case) -> int:
    """Runs of the group."""
    return len(GROUPS[case])


def key(case: Case) -> tuple:
    """What the row of a case is computed from, but the code and the sizes of named models."""
    platform, precision, *_ = case
    machine = sorted(catalog_machine(platform, precision).values.items())
    runs = GROUPS[case].drop(columns=["note", "kind"])
    return case, machine, runs.to_csv(index=False), list(map(as_runtime, sorted(set(runs["runtime"]))))


def run(case: Case) -> pd.DataFrame:
    """The row of one case."""
    return error_summary(predictions(GROUPS[case]), KINDS)


def named(case: Case) -> str:
    """A case in a line."""
    return f"{', '.join(case)}: {size(case)} runs"
