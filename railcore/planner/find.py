"""The inverse: the number of racks that meets limits with the fewest GPUs, the least cost or the fewest days.

Days fall as racks are added while a job may leave GPUs idle; price and power rise. The cost of a training is not
monotonic: racks that the job cannot use only add to it. So the numbers of racks that are tried are those that a number
of GPUs which divides the job just fills (`useful_racks`), and the fewest that limits allow.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from railcore.planner.answer import Answer
from railcore.planner.case import Case
from railcore.planner.choice import missed_limits, missed_text
from railcore.planner.spec import FindSpec, GoalsSpec

_MOST_RACKS = 2**17
_GROWING = ("power", "purchase", "gpus")  # limits that more racks only break
_WIDE = 16  # times the fewest racks, up to which the cheapest are looked for
_LADDER = 1.3  # steps at which useful racks are asked for
_TRIED, _QUICK = 16, 4  # useful racks that are tried: those that look cheapest, and quickest
_AS_QUICK = 1.001  # times the fewest days, that count as equal

Asked = Callable[[int], Answer]  # the answer for a number of racks


def racks_found(case: Case, ask: Asked, size: Asked, find: FindSpec, limits: GoalsSpec) -> int:
    """Racks of one candidate that meet the limits with the least of what is looked for.

    Parameters
    ----------
    case
        Of the plan.
    ask, size
        The answer for a number of racks; the same without a strategy, which is quick.
    find
        What is the least.
    limits
        What must hold.

    Returns
    -------
    Racks.

    Raises
    ------
    ValueError
        Where no number of racks meets the limits: the nearest, and what it misses.
    """
    growing = {name for name in _GROWING if getattr(limits, name) is not None}
    most = _largest(size, limits, growing)

    def meets(racks: int) -> bool:
        answer = ask(racks)
        return answer.design is not None and not missed_limits(answer, limits)

    if find.days:
        return _quickest(case, ask, meets, most, limits)
    least = _soon_enough(ask, limits, most)
    if find.cost:
        return _cheapest(case, ask, meets, least, min(_WIDE * least, most), limits)
    return _fewest(case, ask, meets, least, min(_WIDE * least, most), limits)


def useful_racks(case: Case, low: int, high: int) -> pd.DataFrame:
    """Racks from `low` to `high` that a number of GPUs dividing the job just fills: columns racks, sequence_s."""
    steps, asked = {high}, float(low)
    while asked < high:
        steps.add(int(asked))
        asked = max(asked * _LADDER, asked + 1)
    tables, of_rack = [], case.rack_gpus
    for racks in sorted(steps):
        table = case.counts(racks * of_rack)
        domains = np.ceil(table["gpus"].to_numpy(float) / table["hb_domain_size"].to_numpy(float))
        filled = domains * min(case.machine.hb_domain_size, racks * of_rack)
        tables.append(table.assign(racks=np.maximum(np.ceil(filled / of_rack), low).astype(int)))
    table = pd.concat([table for table in tables if len(table)] or tables)
    fastest = table[table["racks"] <= high].sort_values("sequence_s", kind="stable").drop_duplicates("racks")
    return fastest.sort_values("racks")[["racks", "sequence_s"]].reset_index(drop=True)


def _largest(size: Asked, limits: GoalsSpec, growing: set[str]) -> int:
    """The most racks within the limits that more racks only break. Raises ValueError where one rack breaks them."""
    if not growing:
        return _MOST_RACKS

    def fits(racks: int) -> bool:
        answer = size(racks)
        return bool(answer.numbers) and not growing & set(missed_limits(answer, limits))

    low = 1
    while not size(low).numbers and low < _MOST_RACKS:  # photonic rails need two HB domains
        low *= 2
    if not fits(low):
        raise ValueError(_nearest(size(low), limits))
    high = 2 * low
    while high < _MOST_RACKS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _soon_enough(ask: Asked, limits: GoalsSpec, most: int) -> int:
    """The fewest racks that run the job, within `limits.days` where that is given."""

    def enough(racks: int) -> bool:
        answer = ask(racks)
        return answer.design is not None and "days" not in missed_limits(answer, limits)

    high = 1
    while not enough(high):
        if high >= most or (high > 2 and not ask(high).numbers):
            tried = [answer for i in range(high.bit_length()) if "days" in (answer := ask(2**i)).numbers]
            nearest = min(tried, key=lambda answer: answer.numbers["days"], default=ask(high))
            raise ValueError(_nearest(nearest, limits))
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _fewest(case: Case, ask: Asked, meets: Callable[[int], bool], least: int, most: int, limits: GoalsSpec) -> int:
    """The fewest racks from `least` on that meet all limits: those next to it, then useful ones."""
    near = range(least, min(least + 1, most) + 1)
    useful = useful_racks(case, least, most)["racks"].tolist() if not meets(least) else []
    for racks in dict.fromkeys([*near, *useful]):
        if meets(racks):
            return racks
    raise ValueError(_nearest(ask(least), limits))


def _cheapest(case: Case, ask: Asked, meets: Callable[[int], bool], least: int, most: int, limits: GoalsSpec) -> int:
    """The racks on which the training costs least, of those that look cheapest by racks times time."""
    useful = useful_racks(case, least, most)
    looks = (useful["racks"] * useful["sequence_s"]).sort_values(kind="stable").index[:_TRIED]
    tried = [racks for racks in dict.fromkeys([*useful["racks"][looks], least]) if meets(racks)]
    if not tried:
        raise ValueError(_nearest(ask(least), limits))
    return min(tried, key=lambda racks: (ask(racks).numbers["cost_usd"], racks))


def _quickest(case: Case, ask: Asked, meets: Callable[[int], bool], most: int, limits: GoalsSpec) -> int:
    """The fewest racks of those on which the training takes the fewest days."""
    useful = useful_racks(case, max(most // 2, 1), most)
    looks = useful.sort_values(["sequence_s", "racks"], kind="stable")["racks"].tolist()[:_QUICK]
    tried = [racks for racks in dict.fromkeys([*looks, most]) if meets(racks)]
    if not tried:
        raise ValueError(_nearest(ask(most), limits))
    quickest = min(ask(racks).numbers["days"] for racks in tried)
    return min(racks for racks in tried if ask(racks).numbers["days"] <= _AS_QUICK * quickest)


def _nearest(answer: Answer, limits: GoalsSpec) -> str:
    """What the nearest number of racks misses."""
    missed = [key for key, off in missed_limits(answer, limits).items() if math.isfinite(off)]
    if not missed:
        return f"no number of GPUs within the limits will do: {answer.note}"
    told = " and ".join(missed_text(answer, limits, key) for key in missed)
    return f"no number of GPUs meets the limits: the nearest, {answer.numbers['gpus']:,.0f}, has {told}"
