"""What one run of a user's own gains: published runs of a page are hidden but one or a few, and these predict the rest.

A page stands for a user: runs of one source on one platform. Its place (software on a platform) is left out whole, so
that all that is known of it is what its own shown runs say.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from railcore.training.error_spreads import Floats, far_variance
from railcore.training.prediction_error import known_errors, scores
from railcore.training.runs import YOURS

LIKENESS = ("same model, GPU and precision", "same model and GPU, other precision", "same GPU, other model")
ANY = "any runs of the page"
NUMBERS = (0, 1, 2, 3, 4)  # of own runs, drawn from those of a page
_LEAST = max(NUMBERS) + 1  # runs of a page from which they are drawn: one is predicted
_DRAWS = 20  # of a page
_SHARE = 0.9  # of runs that the interval holds
_KEYS = ["page", "likeness", "own_runs", "seen"]
_MEANS = ["before", "after", "width_before", "width_after", "within_before", "within_after"]


def own_run_gains(pages: pd.DataFrame | None = None) -> pd.DataFrame:
    """Errors and intervals of runs before and after own runs of their page are known, by page.

    With y_o the errors of own runs, m the middles and C the covariance of the page's errors from all other places, the
    error of run t is expected at m_t + C_to C_oo^-1 (y_o - m_o), with the variance C_tt - C_to C_oo^-1 C_ot. Each run
    of a page is taken as the only own one, and predicts each other run, by likeness of the two; and so many runs as
    NUMBERS has, drawn with a fixed seed, predict another one, on pages with more runs than that.

    Parameters
    ----------
    pages
        Runs of your own, with the columns of `prediction_error.published_errors`: then their pages are the ones that
        are reported. None for those of published runs.

    Returns
    -------
    A row for each page, likeness (of LIKENESS, or ANY where runs are drawn), own_runs (how many) and seen (of the runs
    predicted): cases; before (mean absolute error of the modelled time, as a share) and after (of it times the middle
    of what is expected); width_before, width_after (of the 90% interval: high / low - 1); within_before, within_after
    (share of cases inside it).
    """
    known, rows = known_errors("strategy", pages), []
    table = known.table.reset_index(drop=True)
    reported = table if pages is None else table.tail(len(known.table) - len(known_errors("strategy").table))
    pages_of = table["source"].mask(table["use"] == YOURS, YOURS).to_numpy(object)  # all own runs are of one page
    for place, of_place in reported.groupby("place", sort=False).indices.items():
        inside = reported.index.to_numpy()[of_place]
        middle, covariance = known.without(inside)
        sources = pages_of[inside]
        for source in pd.unique(sources):
            at = np.flatnonzero(sources == source)
            if len(at) > 1:
                errors = known.logs[inside[at]], middle[at], covariance[np.ix_(at, at)]
                rows += list(_cases(f"{source}, {place}", table.iloc[inside[at]], *errors))
    cases = pd.DataFrame(rows, columns=[*_KEYS, *_MEANS])
    groups = cases.groupby(_KEYS, sort=False)
    gains = groups.mean().assign(cases=groups.size()).reset_index()
    return gains.sort_values("likeness", key=_order, kind="stable", ignore_index=True)


def _order(likeness: pd.Series) -> pd.Series:
    """Places of names in LIKENESS, ANY last."""
    return likeness.map({name: i for i, name in enumerate((*LIKENESS, ANY))})


def with_own_runs(
    logs: Floats, middle: Floats, covariance: Floats, own: np.ndarray, others: np.ndarray
) -> tuple[Floats, Floats]:
    """Middle and spread of the errors of other runs, given those of own ones.

    Parameters
    ----------
    logs
        Errors of all runs.
    middle, covariance
        What is expected of them from published runs of other places.
    own, others
        Their numbers in these arrays.

    Returns
    -------
    Two arrays.
    """
    known = covariance[np.ix_(own, own)] + np.diag(far_variance(logs[own]))
    weights = np.linalg.solve(known, covariance[np.ix_(own, others)])
    variance = covariance[others, others] - np.einsum("ot,ot->t", weights, covariance[np.ix_(own, others)])
    return middle[others] + (logs[own] - middle[own]) @ weights, np.sqrt(variance)


def _cases(page: str, runs: pd.DataFrame, logs: Floats, middle: Floats, covariance: Floats) -> Iterator[tuple]:
    """Rows of one page: one for each pair of runs, and one for each draw and number of own runs."""
    every, (below, above) = np.arange(len(runs)), scores("strategy", _SHARE)
    likeness, seen = _likeness(runs), runs["seen"].to_numpy(object)
    spread = np.sqrt(np.diag(covariance))

    def predicted(own: np.ndarray, others: np.ndarray, names: list[str]) -> Iterator[tuple]:
        expected, left = with_own_runs(logs, middle, covariance, own, others)
        y, off_before, off = logs[others], logs[others] - middle[others], logs[others] - expected
        errors = np.abs(np.expm1(-y)), np.abs(np.expm1(-off))
        widths = [np.expm1((above - below) * each) for each in (spread[others], left)]
        within = [
            (below * each <= away) & (away <= above * each)
            for away, each in ((off_before, spread[others]), (off, left))
        ]
        for name, when, *row in zip(names, seen[others], *errors, *widths, *within, strict=True):
            yield page, name, len(own), when, *row

    for own in every:
        others = np.delete(every, own)
        yield from predicted(every[own : own + 1], others, [LIKENESS[kind] for kind in likeness[own, others]])
    if len(runs) >= _LEAST:
        draws = np.random.default_rng(len(runs))
        for _ in range(_DRAWS):
            order = draws.permutation(every)
            for number in NUMBERS:
                yield from predicted(order[1 : number + 1], order[:1], [ANY])


def _likeness(runs: pd.DataFrame) -> np.ndarray:
    """For each two runs of a page, which are on one GPU, the place in LIKENESS."""
    model, precision = (codes[:, None] == codes for codes in (pd.factorize(runs[n])[0] for n in ("model", "precision")))
    return np.select([model & precision, model], [0, 1], 2)


def gain_summary(gains: pd.DataFrame) -> pd.DataFrame:
    """Means of `own_run_gains` over pages by likeness, own_runs and seen, each page counting once.

    Columns likeness, own_runs, seen, pages, the errors, widths and shares of `own_run_gains`, and better: share of
    pages whose error falls.
    """
    gains = gains.assign(better=gains["after"] < gains["before"], order=_order(gains["likeness"]))
    keys = ["order", *_KEYS[1:]]
    groups = gains.groupby(keys)
    summary = groups[[*_MEANS, "better"]].mean().assign(pages=groups.size()).reset_index()
    return summary.sort_values(keys, ascending=[True, True, True, False], ignore_index=True).drop(columns="order")


def gains_as_text(summary: pd.DataFrame) -> pd.DataFrame:
    """A `gain_summary` for people: shares in percent; without own runs only what published runs say is corrected."""

    def both(name: str) -> list[str]:
        pairs = zip(summary[f"{name}before"], summary[f"{name}after"], strict=True)
        return [f"{before:.0%} to {after:.0%}" for before, after in pairs]

    pairs = zip(summary["before"], summary["after"], strict=True)
    names = {"likeness": "own runs: how alike", "own_runs": "how many", "seen": "runs predicted"}
    shown = summary[[*names, "pages"]].rename(columns=names)
    return shown.assign(
        **{
            "mean error, before to after": [f"{before:.1%} to {after:.1%}" for before, after in pairs],
            "pages where it falls": [f"{share:.0%}" for share in summary["better"]],
            "width of the 90% interval": both("width_"),
            "runs inside it": both("within_"),
        }
    )
