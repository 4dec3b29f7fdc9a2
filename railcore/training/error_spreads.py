"""How alike the errors of the iteration-time model are, and what those of some runs say of another answer.

The error of a run is y = log(measured / modelled). It is a sum of independent parts, each common to the runs that share
something: a kind of model, a runtime, a GPU, a place, ... (`ErrorSpreads`). Two runs are the more alike the more they
share. So an answer on a GPU, with software or a model of which nothing was published is expected less exactly than one
that has runs, and a user's own runs at a place say more of this place than those of others.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from railcore import catalog
from railcore.training.runs import YOURS

FEW_GPUS = 64  # from which doublings are counted
LARGEST_LOG = 0.4  # of an error: a run that is 1.5 times off or more counts as that when spreads are solved
_BOUNDS = np.log([1e-3, 1.0])  # of a spread
_JITTER = 1e-6  # added to the variance of a run, for runs of the same job
_KEYS = ("mixture", "runtime", "gpu", "precision", "place", "model")  # that runs share or do not
Floats = NDArray[np.float64]


class ErrorSpreads(NamedTuple):
    """Standard deviations of the parts of log(measured / modelled), by what runs share.

    kind: dense, mixture of experts, or adapters.
    software: runtime of the catalog.
    gpu; precision: of this GPU, by kind.
    place: whose runs on which platform, by kind.
    model; place_model: at this place, in this precision.
    growth: by place, for each doubling of GPUs beyond 64.
    run: what no other run tells.
    mixture: the same, for mixtures in addition.
    flagged: the same, where the source leaves something open (column `flag`).
    """

    kind: float
    software: float
    gpu: float
    precision: float
    place: float
    model: float
    place_model: float
    growth: float
    run: float
    mixture: float
    flagged: float


def with_places(table: pd.DataFrame) -> pd.DataFrame:
    """Runs with `gpu`, and `place`: whose runs on which platform. A user's own are of one software."""
    gpus = {name: str(catalog.item("platforms", name)["gpu"]) for name in table["platform"].unique()}
    whose = table["software"].mask(table["use"] == YOURS, YOURS)
    return table.assign(gpu=table["platform"].map(gpus), place=whose + ", " + table["platform"])


def shared(one: pd.DataFrame, other: pd.DataFrame) -> Floats:
    """What runs share, shape (spreads, len(one), len(other)): 1, 0, or for growth a product of doublings.

    Of the last three spreads nothing is shared: they are of a run with itself (`own_shares`).
    one, other: with the columns of _KEYS, gpus and flag.
    """

    codes = {}
    for column in _KEYS:
        every = pd.factorize(np.concatenate([table[column].to_numpy(object) for table in (one, other)]))[0]
        codes[column] = every[: len(one), None] == every[len(one) :]

    def same(*columns: str) -> Floats:
        return np.logical_and.reduce([codes[column] for column in columns]).astype(float)

    at_place = same("place", "mixture")
    doublings = [_doublings(table) for table in (one, other)]
    nothing = np.zeros_like(at_place)
    parts = [same("mixture"), same("runtime"), same("gpu"), same("gpu", "precision", "mixture"), at_place]
    parts += [same("model"), same("place", "model", "precision"), same("place") * np.outer(*doublings)]
    return np.array([*parts, nothing, nothing, nothing])


def _doublings(table: pd.DataFrame) -> Floats:
    """Doublings of GPUs beyond FEW_GPUS."""
    return np.log2(np.maximum(table["gpus"].to_numpy(float) / FEW_GPUS, 1.0))


def own_shares(table: pd.DataFrame) -> Floats:
    """What a run shares with itself, shape (spreads, runs)."""
    each = np.ones(len(table))
    own = [each, each * (table["mixture"] == "experts"), each * (table["flag"] != "")]
    return np.array([*[each] * 7, _doublings(table) ** 2, *own])


def covariance(one: pd.DataFrame, other: pd.DataFrame, spreads: ErrorSpreads) -> Floats:
    """Covariance of the errors of runs with those of other runs, shape (len(one), len(other))."""
    return np.tensordot(np.square(spreads), shared(one, other), 1)


def _with_itself(table: pd.DataFrame) -> Floats:
    """`shared` of runs with themselves, and on the diagonal `own_shares`."""
    parts = shared(table, table)
    for part, own in zip(parts, own_shares(table), strict=True):
        np.fill_diagonal(part, own)
    return parts


def far_variance(logs: Floats) -> Floats:
    """What adds to the variance of runs that are farther off than LARGEST_LOG: the square of the rest."""
    return np.square(np.maximum(np.abs(logs) - LARGEST_LOG, 0.0)) + _JITTER


class KnownErrors:
    """Errors of runs, from which those of other answers are expected.

        m = c' K^-1 y,   s^2 = k - c' K^-1 c

    with y the errors of n runs, K their covariance (n, n), c that of an answer with them, and k the answer's variance.
    A run that is farther off than LARGEST_LOG tells less (`far_variance`).

    table: runs, with the columns of `shared`. logs: y. spreads: how alike runs are.
    """

    def __init__(self, table: pd.DataFrame, logs: ArrayLike, spreads: ErrorSpreads) -> None:
        self.table, self.logs, self.spreads = table, np.asarray(logs, float), spreads
        known = np.tensordot(np.square(spreads), _with_itself(table), 1) + np.diag(far_variance(self.logs))
        self._inverse = np.linalg.inv(known)
        self._weights = self._inverse @ self.logs

    def expected(self, answers: pd.DataFrame) -> tuple[Floats, Floats]:
        """Middle m and spread s of the errors of answers, given with the columns of `shared`."""
        toward = covariance(answers, self.table, self.spreads)
        variance = np.square(self.spreads) @ own_shares(answers)
        left = variance - ((toward @ self._inverse) * toward).sum(axis=1)
        return toward @ self._weights, np.sqrt(np.maximum(left, _JITTER))

    def without(self, rows: np.ndarray) -> tuple[Floats, Floats]:
        """Middle and covariance of the errors of some runs, from all other runs. rows: their numbers in the table."""
        inside = np.linalg.inv(self._inverse[np.ix_(rows, rows)])
        return self.logs[rows] - inside @ self._weights[rows], inside - np.diag(far_variance(self.logs[rows]))

    def left_out(self, places: ArrayLike) -> tuple[Floats, Floats]:
        """Middle and spread of each run's error without the runs of its place. places: of each run."""
        middle, spread, codes = np.zeros_like(self.logs), np.zeros_like(self.logs), pd.factorize(np.asarray(places))[0]
        for rows in map(np.flatnonzero, codes == np.unique(codes)[:, None]):
            middle[rows], inside = self.without(rows)
            spread[rows] = np.sqrt(np.diag(inside))
        return middle, spread


def vote_quantiles(values: ArrayLike, places: ArrayLike, shares: ArrayLike) -> Floats:
    """Values below which these shares of the votes lie. Every place has one vote, shared by its runs.

    One vote more is that of a place not seen, above all values: shares that reach into it have the largest value.
    So a new place's run is below the quantile of a share p with at least this probability, if places are alike. It
    takes 1 / (1 - p) - 1 places. Source: hierarchical conformal prediction, Lee, Barber and Willett 2023
    (arXiv:2306.06342); groups of one exchangeable run are those of Dunn, Wasserman and Ramdas 2018 (arXiv:1809.07441).
    """
    numbers, voters = np.asarray(values, float), pd.factorize(np.asarray(places))[0]
    votes = 1 / np.bincount(voters)[voters]
    order = np.argsort(numbers, kind="stable")
    below = np.cumsum(votes[order])
    reached = np.searchsorted(below, np.asarray(shares) * (below[-1] + 1) * (1 - 1e-12))
    return numbers[order][np.minimum(reached, len(numbers) - 1)]


def vote_interval(values: ArrayLike, places: ArrayLike, shares: ArrayLike) -> Floats:
    """Lower and upper ends, shape (2, shares), between which these shares of the votes lie, as much left out below as
    above. The vote of a place not seen counts on each side (`vote_quantiles`).
    """
    upper = (1 + np.asarray(shares)) / 2
    return np.array([-vote_quantiles(-np.asarray(values), places, upper), vote_quantiles(values, places, upper)])


def solved_spreads(table: pd.DataFrame, logs: ArrayLike) -> ErrorSpreads:
    """Spreads under which the errors of runs are most likely, to 0.001.

    The log likelihood is -(log|K| + y' K^-1 y) / 2, with y and K as in `KnownErrors`.
    """
    from scipy.optimize import minimize  # only here: it takes a sixth of a second

    parts, y = _with_itself(table), np.clip(np.asarray(logs, float), -LARGEST_LOG, LARGEST_LOG)
    flat = parts.reshape(len(parts), -1)

    def unlikeliness(log_spreads: Floats) -> tuple[float, Floats]:
        """Minus the log likelihood, and its slope by the logs of the spreads."""
        variances = np.exp(2 * log_spreads)
        known = np.tensordot(variances, parts, 1) + _JITTER * np.eye(len(y))
        inverse = np.linalg.inv(known)
        pulled = inverse @ y
        value = (np.linalg.slogdet(known)[1] + y @ pulled) / 2
        return value, variances * (flat @ (inverse - np.outer(pulled, pulled)).ravel())

    start = np.full(len(parts), np.log(0.07))
    best = minimize(unlikeliness, start, jac=True, method="L-BFGS-B", bounds=[_BOUNDS] * len(start))
    return ErrorSpreads(*np.exp(best.x).round(3).tolist())
