"""How many runs of a place, a GPU or software not seen are inside the intervals, and how wide these are.

Coverage alone says little: an interval that is wide enough covers everything. So each table has both, and beside our
intervals those of two plain rules, quantiles of the errors of all other runs of the same kind of model.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from railcore.training.error_spreads import Floats, KnownErrors, vote_interval
from railcore.training.prediction_error import ANSWERS, SOLVED_FROM, known_errors

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of runs that an interval should hold
LEFT_OUT = {"place": "place", "gpu": "GPU", "runtime": "software"}  # columns whose values are left out, in words
ALL, ASIDE = "all", "kept aside, from runs looked at"  # runs that are predicted
KINDS = {"dense": "dense models", "experts": "mixtures of experts", "adapters": "adapters (LoRA)"}
OURS, POOLED, VOTED = "by what runs share", "quantiles of all runs", "quantiles, one vote a place"
METHODS = (OURS, POOLED, VOTED)
_PEOPLE = 0.5, 0.9  # shares that a table for people has


class _LeftOut(NamedTuple):
    """A group of runs that is left out. rows: of it. others: rows that its intervals come from.

    middle, spread: of its runs' errors, from the others.
    """

    rows: np.ndarray
    others: np.ndarray
    middle: Floats
    spread: Floats


def interval_coverage(
    answers: Sequence[str] = tuple(ANSWERS), left_out: Sequence[str] = tuple(LEFT_OUT)
) -> pd.DataFrame:
    """Share of left-out runs inside an interval, and its width, by kind of model and method; each place counts once.

    A whole place, GPU or software is left out: its runs are predicted from all others, and the multiples of the spread
    are those that other runs take when their own place is left out. (Leaving the first out there, too, changes shares
    by about one point.)
    Runs kept aside are predicted from runs looked at in other places alone.

    Parameters
    ----------
    answers
        Of `prediction_error.ANSWERS`: "strategy" against all runs, "best" against the best of each job at a place.
    left_out
        Columns of LEFT_OUT.

    Returns
    -------
    A row for each answer, left_out (in words), seen (ALL or ASIDE), kind (of KINDS), method (of METHODS) and share (of
    SHARES, that should be inside): held (share inside), width (median of high / low - 1), places and runs.
    """
    rows = [row for answer in answers for row in _answer_rows(known_errors(answer), answer, left_out)]
    return pd.DataFrame(rows).sort_values(["answer", "left_out"], key=_order, kind="stable", ignore_index=True)


def _order(names: pd.Series) -> pd.Series:
    """Places of names in ANSWERS or LEFT_OUT."""
    return names.map({name: i for i, name in enumerate((*ANSWERS, *LEFT_OUT.values()))})


def _answer_rows(known: KnownErrors, answer: str, left_out: Sequence[str]) -> Iterator[dict]:
    table = known.table
    aside, places = (table["seen"] != SOLVED_FROM).to_numpy(), pd.factorize(table["place"])[0]
    looked = KnownErrors(table[~aside], known.logs[~aside], known.spreads)
    everywhere = np.arange(len(table))
    scores, looked_scores = (np.full(len(table), np.nan) for _ in range(2))
    scores[:] = _scores(known)
    looked_scores[~aside] = _scores(looked)
    for column in left_out:
        parts = []
        for rows in table.reset_index(drop=True).groupby(column).indices.values():
            middle, inside = known.without(rows)
            parts.append(_LeftOut(rows, np.setdiff1d(everywhere, rows), middle, np.sqrt(np.diag(inside))))
        names = {"answer": answer, "left_out": LEFT_OUT[column], "seen": ALL}
        yield from _rows(table, known.logs, scores, parts, names)
    parts = []
    for place in np.unique(places[aside]):
        rows, hidden = np.flatnonzero(aside & (places == place)), np.flatnonzero(aside | (places == place))
        middle, inside = known.without(hidden)
        own = np.isin(hidden, rows)
        parts.append(_LeftOut(rows, np.setdiff1d(everywhere, hidden), middle[own], np.sqrt(np.diag(inside))[own]))
    yield from _rows(
        table, known.logs, looked_scores, parts, {"answer": answer, "left_out": LEFT_OUT["place"], "seen": ASIDE}
    )


def _scores(known: KnownErrors) -> Floats:
    """Spreads from the middle to each run, with its place left out."""
    middle, spread = known.left_out(pd.factorize(known.table["place"])[0])
    return (known.logs - middle) / spread


def _rows(
    table: pd.DataFrame, logs: Floats, scores: Floats, parts: Sequence[_LeftOut], names: dict[str, str]
) -> Iterator[dict]:
    """Rows of one answer and one thing left out."""
    places, kinds = pd.factorize(table["place"])[0], table["mixture"].to_numpy(object)
    ends = {method: np.full((2, len(table), len(SHARES)), np.nan) for method in METHODS}  # log of low, of high
    for rows, others, middle, spread in parts:
        spreads = vote_interval(scores[others], places[others], SHARES)
        ends[OURS][:, rows] = middle[:, None] + spread[:, None] * spreads[:, None]
        for kind in pd.unique(kinds[rows]):
            alike, mine = others[kinds[others] == kind], rows[kinds[rows] == kind]
            if len(alike):
                ends[POOLED][:, mine] = _pooled_ends(logs[alike])[:, None]
                ends[VOTED][:, mine] = vote_interval(logs[alike], places[alike], SHARES)[:, None]
    predicted = np.concatenate([part.rows for part in parts])
    for kind, words in KINDS.items():
        of_kind = np.sort(predicted[kinds[predicted] == kind])
        if not len(of_kind):
            continue
        for method in METHODS:
            low, high = ends[method][:, of_kind]
            inside = pd.DataFrame((low <= logs[of_kind, None]) & (logs[of_kind, None] <= high))
            held = inside.groupby(places[of_kind]).mean().mean().to_numpy()
            widths = np.median(np.expm1(high - low), axis=0)
            for share, holds, width in zip(SHARES, np.where(np.isnan(widths), np.nan, held), widths, strict=True):
                yield {
                    **names,
                    "kind": words,
                    "method": method,
                    "share": share,
                    "held": float(holds),
                    "width": float(width),
                    "places": len(np.unique(places[of_kind])),
                    "runs": len(of_kind),
                }


def _pooled_ends(logs: Floats) -> Floats:
    return np.array([np.quantile(logs, (1 + side * np.array(SHARES)) / 2) for side in (-1, 1)])


def coverage_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`interval_coverage` for people: for intervals of 50 and 90%, the share inside and the width, in percent."""
    table = table.dropna(subset=["held"])
    order = table.drop(columns=["share", "held", "width"]).drop_duplicates()
    shown = order.drop(columns=["places", "runs"])
    shown = shown.assign(
        **{"places (runs)": [f"{n} ({m})" for n, m in zip(order["places"], order["runs"], strict=True)]}
    )
    for share in _PEOPLE:
        rows = table[table["share"] == share]
        both = [f"{held:.0%}, {width:.0%}" for held, width in zip(rows["held"], rows["width"], strict=True)]
        shown[f"{share:.0%}: inside, width"] = both
    return shown.rename(columns={"left_out": "left out", "seen": "runs predicted"})


def coverage_text() -> str:
    """What `python -m suite coverage` prints."""
    shown = coverage_as_text(interval_coverage())
    return (
        "Runs inside the intervals of measured / modelled time when their place, GPU or software is left out.\n"
        "inside: share of runs, each place counting once. width: median of high / low - 1.\n\n"
        f"{shown.to_string(index=False)}\n"
    )
