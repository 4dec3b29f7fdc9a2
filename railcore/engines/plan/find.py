"""The inverse: the number of racks that meets limits with the least of something."""

import math
from collections.abc import Callable
from typing import Any

from railcore.engines.plan.answer import Answer
from railcore.engines.plan.choice import missed_limits
from railcore.engines.plan.spec import FindSpec, GoalsSpec

_MOST_RACKS = 2**17
_GROWING = ("power", "purchase", "gpus")  # limits that more racks only break
_GRID = 9  # numbers of racks among which the cheapest is looked for first

Asked = Callable[[int], Answer]  # the answer for a number of racks


def racks_found(ask: Asked, find: FindSpec, limits: GoalsSpec) -> int:
    """Racks of one candidate that meet the limits with the least GPUs, cost or days.

    Days fall as racks are added, while a job may leave GPUs idle; power and purchase rise.

    Parameters
    ----------
    ask
        The answer for a number of racks.
    find, limits
        What is looked for, and what must hold.

    Returns
    -------
    Racks.

    Raises
    ------
    ValueError
        Where no number of racks meets the limits: the nearest, and what it misses.
    """
    growing = {name: getattr(limits, name) for name in _GROWING if getattr(limits, name) is not None}
    if find.gpus and limits.days is None and limits.cost is None:
        raise ValueError("find.gpus needs limits.days or limits.cost: without them one rack would do")
    if find.days and not growing:
        raise ValueError("find.days needs limits.power, limits.purchase or limits.gpus: without them it never ends")
    most = _largest(lambda racks: not set(missed_limits(ask(racks), limits)) & set(growing), _MOST_RACKS, ask, limits)
    if find.days:
        return most
    least = _fewest(ask, limits, most)
    return _cheapest(ask, limits, least, most) if find.cost else least


def _largest(fits: Callable[[int], bool], most: int, ask: Asked, limits: GoalsSpec) -> int:
    """The most racks that fit; grows from one, then halves. Raises ValueError where not even one does."""
    if not fits(1):
        raise ValueError(_why(ask(1), limits))
    low, high = 1, 2
    while high < most and fits(high):
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _fewest(ask: Asked, limits: GoalsSpec, most: int) -> int:
    """The fewest racks that meet all limits but those that more racks break."""

    def meets(racks: int) -> bool:
        answer = ask(racks)
        return answer.design is not None and not set(missed_limits(answer, limits)) - set(_GROWING)

    high = 1
    while not meets(high):
        if high >= most:
            raise ValueError(_why(ask(most), limits))
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def _cheapest(ask: Asked, limits: GoalsSpec, least: int, most: int) -> int:
    """Racks from `least` up to 16 times as many, within `most`, on which the training costs least."""

    def cost(racks: int) -> float:
        answer = ask(racks)
        missed = missed_limits(answer, limits) if answer.design is not None else {"days": 0}
        return math.inf if missed else answer.numbers["cost_usd"]

    low, high = least, min(16 * least, most)
    while True:
        steps = [round(low * (high / low) ** (i / (_GRID - 1))) for i in range(_GRID)]
        tried = sorted(set(steps))
        place = min(range(len(tried)), key=lambda i: cost(tried[i]))
        if high - low < _GRID:
            return tried[place]
        low, high = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]


def _why(answer: Answer, limits: GoalsSpec) -> str:
    """What the nearest number of racks misses."""
    if answer.design is None:
        return f"no number of GPUs within the limits will do: {answer.note}"
    from railcore.engines.plan.choice import missed_text

    missed: dict[str, Any] = missed_limits(answer, limits)
    told = " and ".join(missed_text(answer, limits, name) for name in missed)
    return f"no number of GPUs meets the limits: the nearest, {answer.numbers['gpus']:,.0f}, has {told}"
