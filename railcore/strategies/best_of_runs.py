"""The best strategy for the job of a measured run: same model, GPUs, batch, precision and software."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore.strategies.parts import search
from railcore.training.error_spreads import with_places
from railcore.training.runs import job_of, predictions
from railcore.training.transformer import Transformer


def best_of_runs(table: pd.DataFrame, models: Mapping[str, Transformer] | None = None) -> np.ndarray:
    """Iteration time of the best strategy for the job of each run [s]; NaN where none fits.

    table: runs with the columns of data/measured/iterations.csv; jobs that are there several times are searched once.
    models: by name of an architecture, before the catalog's.
    """
    times: dict[tuple, float] = {}
    found = []
    for row in table.itertuples():
        model, machine, runtime = job_of(row, models)
        job = (model, machine, int(row.gpus), int(row.global_batch), runtime)
        if job not in times:
            best = search(*job[:4], runtime=runtime, top=1, only_best=True).best
            times[job] = float(best["total_s"].iloc[0]) if len(best) else float("nan")
        found.append(times[job])
    return np.array(found, float)


def own_errors(table: pd.DataFrame, models: Mapping[str, Transformer] | None = None) -> pd.DataFrame:
    """Own runs with the model's times, as `prediction_error.expected_error` takes them.

    modelled_s is under their own strategy, best_s that of the best for their job.

    table: as `run_file.own_runs` gives it; without rows it is given back as it is. models: as of `best_of_runs`.
    """
    if table.empty:
        return table
    return with_places(predictions(table, models=models).assign(best_s=best_of_runs(table, models)))
