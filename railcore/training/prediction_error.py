"""The error of a modelled iteration time: an interval from published runs, and from a user's own.

An answer is of a given strategy, or of the best of all. The first is held against runs with their own strategy, the
second against the best published time of each job, beside our best for it. A user's own runs tell of given strategies.
Intervals hold nine of ten runs, or half of them, of a place that is not seen: `vote_interval` says how.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog import files
from railcore.catalog.arguments import Count, checked
from railcore.catalog.checks import one_of
from railcore.catalog.units import counted, number, show
from railcore.training.error_spreads import ErrorSpreads, Floats, KnownErrors, vote_interval, with_places
from railcore.training.machine import Machine, as_machine
from railcore.training.runs import EVIDENCE, YOURS, predictions, published_table
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, as_model

ANSWERS = {"strategy": "modelled_s", "best": "best_s"}  # what an answer is of, and its column of modelled times
SOLVED_FROM = "looked at"  # runs from which spreads are solved
_OWN_COLUMNS = "mixture model gpu precision runtime gpus place measured_iteration_s modelled_s".split()
_KINDS = {"dense": "dense models", "experts": "mixtures of experts", "adapters": "models with adapters"}
# What makes runs of one place a job, whose best time is the one that an answer of the best strategy is held against.
_JOB = ["place", "mixture", "model", "layers", "hidden", "seq_len", "experts", "precision", "gpus", "global_batch"]
_JOB += ["lora_rank", "frozen_bytes", "nic_gbps"]
_STREAM = 62  # any number: random numbers apart from those of catalog rows
_DIGITS = 9  # that are kept: processes differ in the last bits of an inverse
_SAME = 1e-9  # relative difference of two modelled times up to which they are of one strategy
_FAR = 2.0  # times as many GPUs as the largest run like it has, from which a statement says so


class ExpectedError(NamedTuple):
    """What measured times are expected to be, over the modelled one.

    low, lower, upper, high: 5, 25, 75 and 95% of measured / modelled. middle: where its error is expected, near 50%.
    runs, largest: runs like it (this kind of model, GPU and precision), and GPUs of the largest; 0 without any.
    places: whose they are on which platform, how many.
    nearest: the published run nearest to it, a row of `published_errors`.
    with_software: of this kind of model on this GPU with this software: runs, and GPUs of the largest.
    order: of pairs of published runs of one job, in which the faster one is modelled faster too, the share; pairs: how
        many.
    own: own runs that are counted.
    missing: what has no runs, in words.
    group: runs like it, in words. answer: of ANSWERS.
    log_middle, log_spread: of log(measured / modelled), for draws.
    """

    low: float
    lower: float
    middle: float
    upper: float
    high: float
    runs: int
    largest: int
    places: int
    nearest: pd.Series
    with_software: tuple[int, int]
    order: float
    pairs: int
    own: int
    missing: tuple[str, ...]
    group: str
    answer: str
    log_middle: float
    log_spread: float

    @property
    def evidence(self) -> str:
        """What the interval rests on, in words."""
        if not self.runs:
            but = [f"but {counted(self.own, 'runs')} of yours"] if self.own else []
            return "; ".join([f"no published run like it ({self.group})", *self.missing, *but])
        like = f"{counted(self.runs, 'published runs')} like it ({self.group}), the largest on {self.largest:,} GPUs"
        yours = f"{counted(self.own, 'runs')} of yours, and " if self.own else ""
        return "; ".join([f"{yours}{like}", *self.missing])

    def nearest_run(self, same_job_s: float | None = None) -> str:
        """The nearest published run in words, beside our best for its job with its software.

        same_job_s: modelled time of the answer, where it is of the run's job [s].
        """
        run = self.nearest
        text = f"{run['model']} with {run['software']} on {run['gpus']:,} GPUs of {run['platform']}"
        ours = {"ours": same_job_s, "ours with its software": run["best_s"]}
        times = [
            f"{name} {show(seconds, 's', 3)} ({100 * (seconds / run['measured_iteration_s'] - 1):+.0f}%)"
            for name, seconds in ours.items()
            if seconds is not None
        ]
        doubt = f"; its source leaves open: {run['flag']}" if run["flag"] else ""
        return f"{text}: measured {show(run['measured_iteration_s'], 's', 3)}, {', '.join(times)}{doubt}"

    def between(self, modelled: float, unit: str) -> str:
        """The interval of a modelled quantity that goes with the time, in words."""
        low, high = (show(modelled * end, unit, 3) for end in (self.low, self.high))
        return f"between {low} and {high} in nine of ten cases"

    def draws(self, count: int, seed: int) -> Floats:
        """Random factors, measured over modelled; of `count` equal parts of the probability each gives one."""
        random = np.random.default_rng([seed, _STREAM])
        share = (random.permutation(count) + random.random(count)) / count
        below, above = scores(self.answer, np.abs(2 * share - 1))
        return np.exp(self.log_middle + np.where(share < 0.5, below, above) * self.log_spread)

    def __str__(self) -> str:
        most = f"between {number(self.low, 3)} and {number(self.high, 3)} times the modelled in nine of ten cases"
        half = f"between {number(self.lower, 3)} and {number(self.upper, 3)} in half of them"
        return f"{most}, {half}; {self.evidence}"


def published_errors() -> pd.DataFrame:
    """Published runs with `gpu`, `place`, and stored times: modelled_s (own strategy; blank where none can be said)
    and best_s (of all strategies with the run's software). Columns otherwise as of `published_runs`.
    """
    stored = pd.read_csv(files.data("derived/iteration_errors.csv"), index_col="run")
    table = with_places(published_table())
    table = table[table["use"].isin(EVIDENCE)]
    return table.join(stored[["modelled_s", "best_s"]])


def own_errors(runs: pd.DataFrame, models: Mapping[str, Transformer] | None = None) -> pd.DataFrame:
    """Own runs with the columns that `expected_error` takes: modelled_s of their own strategy, gpu, place.

    runs: as `run_file.own_runs` gives them. models: by name of an architecture, before the catalog's.
    """
    return runs if runs.empty else with_places(predictions(runs, models=models))


def errors_of(table: pd.DataFrame, answer: str) -> pd.DataFrame:
    """Runs that an answer is held against, with `log_error`, log(measured / modelled).

    table: with the columns of `published_errors`. answer: of ANSWERS; for "best" only the best run of each job at a
    place is left.
    """
    modelled = table[ANSWERS[one_of("answer", answer, ANSWERS)]]
    table = table.assign(log_error=np.log(table["measured_iteration_s"] / modelled)).dropna(subset=["log_error"])
    if answer == "strategy" or table.empty:
        return table
    jobs = table.astype(dict.fromkeys(_JOB, str)).groupby(_JOB, sort=False)["measured_iteration_s"]
    return table.loc[sorted(jobs.idxmin())]


@cache
def published_spreads(answer: str) -> ErrorSpreads:
    """How alike the errors of published runs are, from data/derived/error_spreads.csv."""
    table = pd.read_csv(files.data("derived/error_spreads.csv")).set_index("answer")
    return ErrorSpreads(*table.loc[one_of("answer", answer, ANSWERS), list(ErrorSpreads._fields)].astype(float))


def known_errors(answer: str, own: pd.DataFrame | None = None) -> KnownErrors:
    """Errors of published runs, and of own ones, with the columns of `published_errors`."""
    if own is None or own.empty:
        return _published(answer)
    return _with_own(answer, tuple(own.columns), tuple(own.itertuples(index=False, name=None)))


@lru_cache(8)  # plans ask for many numbers of GPUs and runtimes
def _with_own(answer: str, columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> KnownErrors:
    own = pd.DataFrame(rows, columns=list(columns))
    table = pd.concat([_published(answer).table, errors_of(own, answer)], ignore_index=True)
    return KnownErrors(table, table["log_error"], published_spreads(answer))


@cache
def _published(answer: str) -> KnownErrors:
    table = errors_of(published_errors(), answer)
    return KnownErrors(table, table["log_error"], published_spreads(answer))


@cache
def _score_table(answer: str) -> tuple[Floats, Floats]:
    known = _published(answer)
    middle, spread = known.left_out(known.table["place"])
    return (known.logs - middle) / spread, known.table["place"].to_numpy()


def scores(answer: str, shares: Any) -> Floats:
    """Spreads from the middle to the lower and the upper end of intervals, shape (2, shares).

    They hold these shares of published runs whose place is left out (`vote_interval`).
    """
    return vote_interval(*_score_table(answer), shares).round(_DIGITS)


def model_kind(model: Transformer) -> str:
    """Kind of a model, as column `mixture` of published runs has it."""
    return "experts" if model.experts else "adapters" if model.lora_rank else "dense"


@checked
def expected_error(
    model: Transformer | str,
    machine: Machine | str,
    gpus: Count,
    runtime: Runtime | str | None = None,
    answer: str = "",
    own: pd.DataFrame | None = None,
) -> ExpectedError:
    """What a measured iteration time is expected to be, over the modelled one, from published and own runs.

    The errors log(measured / modelled) of all runs are known, and how alike two are by what they share: place, GPU,
    precision, software, model, kind of model. From them follow the middle and the spread of this one's error
    (`error_spreads.KnownErrors`). The interval is as many spreads wide as it takes to hold 50 or 90% of published runs
    whose place is left out, each place counting once (`vote_interval`). What has no runs widens it: a GPU, a model, a
    precision, software, or many more GPUs than runs at one place had.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog, then in bf16.
    gpus
        Of the job.
    runtime
        Training software: a `Runtime`, or its name in the catalog; None for the newest for the GPU.
    answer
        "best" for the time of the best of all strategies, "strategy" for that of a given one. By default "best", and
        "strategy" with own runs: these tell of given strategies, as the best one is for who has timed others.
    own
        Runs of your own, as `own_errors` gives them; None for none.

    Returns
    -------
    An `ExpectedError`: quantiles of measured / modelled, and what they rest on.

    Raises
    ------
    ValueError
        For another answer, and for "best" beside own runs; UnknownName for a model, a platform or a runtime.

    Examples
    --------
    >>> import railcore as rc
    >>> error = rc.expected_error("Llama-3 70B", "DGX H100", 1024)
    >>> error.low < error.middle < error.high
    True
    """
    model, machine, runs = as_model(model), as_machine(machine), own is not None and not own.empty
    answer = answer or ("strategy" if runs else "best")
    if own is not None and runs and (missing := [column for column in _OWN_COLUMNS if column not in own]):
        raise ValueError(f"own has no column {missing[0]!r}: give own_errors(own_runs(...)), or leave it out")
    if runs and answer == "best":
        raise ValueError("answer is 'best' beside own runs, which tell of given strategies: leave it out")
    job = {
        "mixture": model_kind(model),
        "runtime": as_runtime(runtime, machine).name,
        "gpu": machine.gpu or "a GPU without a name",
        "precision": machine.precision,
        "model": model.name or "a model without a name",
        "gpus": int(gpus),
        "flag": "",
        "place": f"{YOURS}, {machine.platform}",
    }
    return _expected(answer, known_errors(answer, own), tuple(job.items()))


@lru_cache(256)  # a plan asks for each of its networks, a sweep for each of its points
def _expected(answer: str, known: KnownErrors, columns: tuple[tuple[str, Any], ...]) -> ExpectedError:
    """`expected_error` of a job by the columns of `error_spreads.shared`, from known errors."""
    job = dict(columns)
    kind, gpu, software = (job[name] for name in ("mixture", "gpu", "runtime"))
    middle, spread = (round(float(values[0]), _DIGITS) for values in known.expected(pd.DataFrame([job])))
    (lower, low), (upper, high) = scores(answer, (0.5, 0.9))
    low, lower, centre, upper, high = np.exp(middle + spread * np.array([low, lower, 0.0, upper, high])).tolist()
    table = _published(answer).table
    of_kind = table[table["mixture"] == kind]
    like = of_kind[(of_kind["gpu"] == gpu) & (of_kind["precision"] == job["precision"])]
    of_software = of_kind[(of_kind["gpu"] == gpu) & (of_kind["runtime"] == software)]
    order, pairs = choice_order(kind)
    return ExpectedError(
        low=low,
        lower=lower,
        middle=centre,
        upper=upper,
        high=high,
        runs=len(like),
        largest=_largest(like),
        places=like["place"].nunique(),
        nearest=_nearest(of_kind, job),
        with_software=(len(of_software), _largest(of_software)),
        order=order,
        pairs=pairs,
        own=len(known.table) - len(table),
        missing=tuple(_missing(table, of_kind, like, job)),
        group=f"{_KINDS[kind]} in {job['precision']} on {gpu}",
        answer=answer,
        log_middle=middle,
        log_spread=spread,
    )


def _largest(runs: pd.DataFrame) -> int:
    return int(runs["gpus"].max()) if len(runs) else 0


def _missing(table: pd.DataFrame, of_kind: pd.DataFrame, like: pd.DataFrame, job: dict[str, Any]) -> Sequence[str]:
    """What has no published runs, in words."""
    on_gpu = of_kind[of_kind["gpu"] == job["gpu"]]
    words = [f"none on {job['gpu']} in any precision"] if on_gpu.empty else []
    if job["runtime"] not in (names := sorted(set(on_gpu["runtime"]))):
        others = f", but with {', '.join(names)}" if names else ""
        words.append(f"none there with the software {job['runtime']}{others}")
    if not (table["model"] == job["model"]).any():
        words.append(f"none of {job['model']}")
    if len(like) and job["gpus"] > _FAR * like["gpus"].max():
        words.append(f"none on nearly as many as {job['gpus']:,} GPUs")
    return words


def _nearest(of_kind: pd.DataFrame, job: dict[str, Any]) -> pd.Series:
    """The published run that shares most: model, GPU, precision; then one without a flag, near in GPUs."""
    away = [of_kind[name] != job[name] for name in ("model", "gpu", "precision")] + [of_kind["flag"] != ""]
    doublings = np.abs(np.log2(of_kind["gpus"] / job["gpus"])).round(6)
    order = np.lexsort([of_kind["runtime"] != job["runtime"], doublings, *away[::-1]])
    return of_kind.iloc[order[0]]


@cache
def choice_order(kind: str = "") -> tuple[float, int]:
    """How often the model orders two published runs of one job with different strategies as they were measured.

    The share, each place counting once, and the number of pairs: of one page, with the same software. kind: dense,
    experts or adapters; "" for all.
    """
    table = published_errors().dropna(subset=["modelled_s"])
    table = table[table["mixture"] == one_of("kind", kind, _KINDS)] if kind else table
    table = table.dropna(subset=[*_JOB, "runtime", "source"])
    codes = [pd.factorize(table[name])[0] for name in (*_JOB, "runtime", "source")]
    _, jobs = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    times, places, right = table[["measured_iteration_s", "modelled_s"]].to_numpy(float), table["place"].to_numpy(), []
    for runs in (np.flatnonzero(jobs == job) for job in np.flatnonzero(np.bincount(jobs.ravel()) > 1)):
        above = np.triu_indices(runs.size, 1)
        measured, modelled = (np.subtract.outer(column, column)[above] for column in times[runs].T)
        apart = (measured != 0) & (np.abs(modelled) > _SAME * times[runs[0], 1])
        right += [(places[runs[0]], agree) for agree in (measured * modelled > 0)[apart]]
    pairs = pd.DataFrame(right, columns=["place", "agree"])
    return float(pairs.groupby("place")["agree"].mean().mean()), len(pairs)
