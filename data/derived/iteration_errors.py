"""Cases of iteration_errors.csv: what the model says of each published run, and of its job under the best strategy."""

import pandas as pd

from railcore.strategies import search
from railcore.training.machine import catalog_machine
from railcore.training.runs import EVIDENCE, MODELLED, job_of, predictions, published_table
from railcore.training.software import as_runtime

CODE = ("railcore",)
CASE = "case"
_TABLE = published_table()
EVERY, RUNS = (_TABLE[_TABLE["use"].isin(uses)] for uses in (EVIDENCE, MODELLED))  # RUNS: strategies it can say
GROUPS = {", ".join(kind): runs for kind, runs in EVERY.groupby(["platform", "precision", "mixture"])}


def cases() -> list[str]:
    """All groups of runs."""
    return list(GROUPS)


def size(case: str) -> int:
    """Runs of the group."""
    return len(GROUPS[case])


def key(case: str) -> tuple:
    """What the rows of a case are computed from, but the code and the sizes of named models."""
    platform, precision, _ = case.split(", ")
    machine = sorted(catalog_machine(platform, precision).values.items())
    runs = GROUPS[case].drop(columns=["note", "kind"])
    return case, machine, runs.to_csv(), list(map(as_runtime, sorted(set(runs["runtime"]))))


def run(case: str) -> pd.DataFrame:
    """The rows of one case."""
    runs = GROUPS[case]
    modelled = predictions(runs[runs["use"].isin(MODELLED)])["modelled_s"].reindex(runs.index)
    columns = {"case": case, "run": runs.index, "modelled_s": modelled, "best_s": _best_times(runs)}
    return pd.DataFrame(columns).reset_index(drop=True)


def _best_times(runs: pd.DataFrame) -> list[float]:
    """Iteration time of the best strategy for the job of each run; the same job is searched once."""
    times: dict[tuple[object, ...], float] = {}
    jobs = [(*job_of(row), row.gpus, row.global_batch) for row in runs.itertuples()]
    for model, machine, runtime, gpus, batch in dict.fromkeys(jobs):
        best = search(model, machine, gpus, batch, runtime=runtime, top=1, only_best=True).best  # type: ignore[arg-type]
        times[model, machine, runtime, gpus, batch] = float(best["total_s"].iloc[0])
    return [times[job] for job in jobs]


def named(case: str) -> str:
    """A case in a line."""
    return f"{case}: {size(case)} runs"
