"""How a document is read: entries for the ledger, all readings of what a text leaves open, and values solved for.

A reading is a row of choices. Its values are a row of a table with a column for each claim, named without its document.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.catalog import units
from railcore.catalog.checks import Floats
from suite import workspace
from suite.ledger import claims

Values = Mapping[str, float | None]


class Entries(NamedTuple):
    """Arguments of `claims.record`, each by claim id: our values, why they disagree, and which reading was taken."""

    values: dict[str, Any]  # float, or None without data
    reasons: dict[str, str]
    readings: dict[str, str]


def with_prefix(prefix: str, values: Mapping, reasons: Mapping[str, str], readings: Mapping[str, str]) -> Entries:
    """Entries whose ids begin with a prefix, such as "railonly2023" or "railonly2025.fig8".

    Parameters
    ----------
    prefix
        Without the dot that follows it.
    values, reasons, readings
        By the rest of the id.

    Returns
    -------
    The same by whole ids.
    """
    parts = (values, reasons, readings)
    return Entries(*({f"{prefix}.{name}": x for name, x in part.items()} for part in parts))


def merge_entries(*groups: Entries) -> Entries:
    """Several groups of entries as one."""
    return Entries(*({key: x for part in parts for key, x in part.items()} for parts in zip(*groups, strict=True)))


def claim_verdicts(values: Values) -> dict[str, str]:
    """Verdict of each claim's value."""
    entries = {claim_id: claims.claim(claim_id) for claim_id in values}
    return {key: claims.verdict(values[key], e.paper_value, e.relation, e.tolerance) for key, e in entries.items()}


def changed_verdicts(ours: Values, others: Values) -> list[str]:
    """Claims whose verdict changes with other values, in the order of ours; a claim that `others` lacks keeps its own.

    Verdicts are compared, not values: a relation that holds with both readings depends on neither.
    """
    mine, theirs = claim_verdicts(ours), claim_verdicts(others)
    return [claim_id for claim_id in mine if theirs.get(claim_id, mine[claim_id]) != mine[claim_id]]


def verdict_readings(ours: Values, choices: Mapping[str, Mapping[str, Values]]) -> dict[str, str]:
    """Texts for `claims.record`, of the claims whose verdict depends on how the text is read.

    choices: for each reading that was taken, in words, the values of the other readings by their names:
    {"32k is 32,000": {"32,768": {claim: value}}} gives {claim: "32k is 32,000 (32,768: 8.003 GB)"}. Empty in a run with
    the user's own numbers, which has no verdicts.
    """
    if workspace.parameterized():
        return {}
    texts = []
    for taken, others in choices.items():
        deciding = {claim_id for values in others.values() for claim_id in changed_verdicts(ours, values)}
        texts.append({key: f"{taken} ({_shown_values(key, others)})" for key in ours if key in deciding})
    return joined_texts(*texts)


def _shown_values(claim_id: str, others: Mapping[str, Values]) -> str:
    unit = claims.claim(claim_id).unit
    shown = {name: values.get(claim_id) for name, values in others.items()}
    return ", ".join(
        f"{name}: {claims.claim_amount(value, unit)}" for name, value in shown.items() if value is not None
    )


def joined_texts(*parts: Mapping[str, str]) -> dict[str, str]:
    """Texts for one claim in several tables as one sentence, in their order."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: "; ".join(part[key] for part in parts if key in part) for key in keys}


def reading_combinations(ours: Mapping, choices: Mapping[str, Sequence]) -> pd.DataFrame:
    """Every combination of `choices`, a row each, with the reading `ours` as row 0."""
    rows = pd.DataFrame(list(product(*choices.values())), columns=list(choices))
    return pd.concat([pd.DataFrame([ours])[list(choices)], rows]).drop_duplicates(ignore_index=True)


def _printed(names: Iterable[str], document: str) -> tuple[Floats, Floats]:
    """Values of claims as the document prints them, and their tolerances with room for rounding."""
    entries = [claims.claim(f"{document}.{name}") for name in names]
    return np.array([e.paper_value for e in entries]), np.array([e.tolerance for e in entries]) + 1e-12


def nearest_readings(values: pd.DataFrame, document: str, used: Sequence[str]) -> NDArray[np.intp]:
    """Rows of the readings that meet most of the claims `used` and are nearest to them; several where they tie.

    values: of the claims, a row for each reading; used: some of its columns. Nearest: least mean relative deviation.
    """
    paper, tolerance = _printed(used, document)
    off = np.abs(values[list(used)].to_numpy() / paper - 1)
    met = (off <= tolerance).sum(axis=1)
    most = np.flatnonzero(met == met.max())
    mean = off[most].mean(axis=1)
    return most[mean <= mean.min() + 1e-9]


def reading_null_test(
    values: pd.DataFrame, document: str, used: Sequence[str], spreads: Sequence[float], draws: int
) -> pd.DataFrame:
    """How many claims the best of many readings meets by chance: the same search for numbers that nobody printed.

    In each draw every printed value is multiplied by a random factor from 1 - spread to 1 + spread; its tolerance
    stays. If the readings were enough to meet any number, they would meet these as well as the printed ones.

    Parameters
    ----------
    values
        Of the claims, a row for each reading.
    document
        Prefix of the claims' ids.
    used
        Columns of `values` from which the nearest reading is chosen.
    spreads, draws
        Largest relative changes of the printed values; draws for each of them.

    Returns
    -------
    Columns spread; met (claims that the best reading meets, printed values); share (of the draws in which the best
    reading meets as many); predicted (other claims that the reading nearest to `used` meets, printed values);
    share_predicted (of the draws in which it meets as many); mean_met.
    """
    every = list(values)
    paper, tolerance = _printed(every, document)
    numbers = np.unique(values.round(9).to_numpy(), axis=0).T.copy()
    mine = np.isin(every, list(used))

    def best(targets: Floats) -> tuple[int, int]:
        low, high = (targets * (1 + side * tolerance) for side in (-1, 1))
        met = (numbers >= low[:, None]) & (numbers <= high[:, None])
        of_used = met[mine].sum(axis=0)
        most = np.flatnonzero(of_used == of_used.max())
        off = np.abs(numbers[:, most][mine] / targets[mine, None] - 1).mean(axis=0)
        nearest = most[off.round(12).argmin()]
        return int(met.sum(axis=0).max()), int(met[~mine, nearest].sum())

    choices, rng, rows = best(paper), np.random.default_rng(0), []
    for spread in spreads:
        drawn = np.array([best(paper * rng.uniform(1 - spread, 1 + spread, len(paper))) for _ in range(draws)])
        share = (drawn >= choices).mean(axis=0)
        rows.append((spread, choices[0], share[0], choices[1], share[1], drawn[:, 0].mean()))
    return pd.DataFrame(rows, columns=["spread", "met", "share", "predicted", "share_predicted", "mean_met"])


def reading_scores(tried: pd.DataFrame, values: pd.DataFrame, document: str, **only) -> pd.DataFrame:
    """Readings worth a look: claims met, mean deviation and values. The first row has the document's own values.

    Then our reading (row 0); the eight best of all (most claims met, then least mean deviation, equal values once); the
    two best with the choices of `only`; and every reading that differs from ours in one choice.

    Parameters
    ----------
    tried
        `reading_combinations`.
    values
        Of the claims, a row for each reading.
    document
        Prefix of the claims' ids.
    only
        One value for some of the choices.

    Returns
    -------
    Columns reading (what differs from ours), claims_met, mean_deviation, and those of `values`.
    """
    paper, tolerance = _printed(values, document)
    off = (values / paper - 1).abs()
    table = values.assign(claims_met=(off <= tolerance).sum(axis=1), mean_deviation=off.mean(axis=1).round(12))
    order = table.sort_values(["claims_met", "mean_deviation"], ascending=[False, True], kind="stable").index
    order = values.loc[order].round(6).drop_duplicates().index
    changed = tried.ne(tried.iloc[0])
    fits = (tried[list(only)] == list(only.values())).all(axis=1)
    picked = [0, *order[:8], *order[fits[order]][:2], *np.flatnonzero(changed.sum(axis=1) == 1)]
    picked = list(dict.fromkeys(int(row) for row in picked))
    said = [_changes(tried.loc[row][changed.loc[row]]) for row in picked]
    printed = pd.DataFrame([paper], columns=list(values)).assign(claims_met=len(values.columns), mean_deviation=0.0)
    scores = pd.concat([printed, table.loc[picked]], ignore_index=True)
    scores.insert(0, "reading", ["the document", *said])
    return scores[["reading", "claims_met", "mean_deviation", *values]]


def _changes(changes: pd.Series) -> str:
    texts = []
    for key, value in changes.items():
        stem, _, suffix = str(key).rpartition("_")
        symbol = {"Bps": "B/s", "flops": "FLOP/s"}.get(suffix, "")
        text = value if isinstance(value, str) else units.show(value, symbol)
        texts.append(f"{units.words(stem if symbol and stem else str(key))} {text}")
    return ", ".join(texts) or "ours"


def solve_for_target(quantity: Callable[[float], float], target: float, near: float) -> float:
    """Argument from near / 16 to 16 near at which a quantity is `target`; not a number where there is none.

    quantity: monotone, of one positive argument.
    """
    from scipy.optimize import elementwise

    off = np.vectorize(lambda power: quantity(np.exp(power)) - target, otypes=[float])
    ends = np.log(near / 16), np.log(16 * near)
    root = elementwise.find_root(off, ends, tolerances={"xatol": 1e-9})
    return float(np.exp(root.x)) if root.success else float("nan")
