"""Which candidate wins: hard limits first, then wishes, then the least of what the spec ranks by."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from railcore.catalog.units import significant
from railcore.network.topology.collapse import collapse_warning, rail_only_warning
from railcore.network.topology.rails import RailFabric
from railcore.planner.answer import Answer
from railcore.planner.candidates import AnyFabric
from railcore.planner.goals import FOUND, GOALS, NO_DIFFERENCE, RANKS
from railcore.planner.shown_numbers import shown
from railcore.planner.spec import GoalsSpec, Spec

_SAME = 1e-9


def missed_limits(answer: Answer, goals: GoalsSpec) -> dict[str, float]:
    """How far an answer is off each goal that it misses, as a share of the goal; infinite for unknown numbers."""
    missed = {}
    for key, name in GOALS.items():
        goal = getattr(goals, key)
        if goal is None:
            continue
        value = answer.numbers.get(name, math.nan)
        off = (goal - value) / goal if key == "goodput" else (value - goal) / goal
        if not off <= _SAME:
            missed[key] = off if math.isfinite(off) else math.inf
    return missed


def missed_text(answer: Answer, goals: GoalsSpec, key: str) -> str:
    """The number that an answer has, and the goal that it misses."""
    name, goal = GOALS[key], getattr(goals, key)
    value = shown(name, answer.numbers[name]) if name in answer.numbers else "unknown"
    return f"{value}, asked {'at least' if key == 'goodput' else 'at most'} {shown(name, goal)}"


def rank_number(spec: Spec) -> str:
    """Number of which the least is best: that of `find`, else that of wishes.rank."""
    of_find = next((name for key, name in FOUND.items() if spec.find and getattr(spec.find, key)), None)
    return of_find or RANKS[spec.wishes.rank]


def ranked(answers: Sequence[Answer], spec: Spec) -> list[Answer]:
    """Answers in order: first those that meet all limits, then by fewest wishes missed, then by least `rank_number`.

    Those that miss limits are ordered by their farthest miss. Those without a strategy are last. Of those that the
    models cannot tell from the least (`NO_DIFFERENCE`), the first as given comes first: candidates are given in the
    order of how much they are built. GPUs are counted, so that there fewer are fewer. Equal ones are in the order of
    cost and purchase, then as given.
    """
    limits, wishes, number = spec.limits, spec.wishes, rank_number(spec)

    def standing(answer: Answer) -> tuple:
        missed = missed_limits(answer, limits)
        far = round(max(missed.values(), default=0.0), 3)  # nearly as far counts as equal
        return (answer.design is None, bool(missed), far, len(missed_limits(answer, wishes)))

    least: dict[tuple, float] = {}
    for answer in answers:
        group = standing(answer)
        least[group] = min(least.get(group, math.inf), answer.numbers.get(number, math.inf))
    widest = 0.0 if number == FOUND["gpus"] else NO_DIFFERENCE

    def key(place: int) -> tuple:
        answer = answers[place]
        group, value = standing(answer), answer.numbers.get(number, math.inf)
        if value <= least[group] * (1 + widest) and widest:
            return (*group, 0, place)
        names = (number, "cost_usd", "purchase_usd")
        return (*group, 1, *(significant(answer.numbers.get(name, math.inf), 9) for name in names), place)

    return [answers[place] for place in sorted(range(len(answers)), key=key)]


def merged(answers: Sequence[Answer]) -> list[Answer]:
    """Answers with those of equal parts and times made one, which has all names and the reason."""
    different: list[Answer] = []
    for answer in answers:
        place = next((i for i, other in enumerate(different) if _equal(answer, other)), None)
        if place is None:
            different.append(answer)
        else:
            first = different[place]
            reasons = filter(None, (first.why_same, f"{answer.name}: {_why_equal(answer.fabric)}"))
            different[place] = replace(first, also=(*first.also, answer.name), why_same=" ".join(reasons))
    return different


def _equal(one: Answer, other: Answer) -> bool:
    """Whether two answers have the same parts and numbers."""
    same_parts = one.racks == other.racks and type(one.fabric) is type(other.fabric)
    if not same_parts or one.fabric is None or one.note or one.numbers.keys() != other.numbers.keys():
        return False
    return all(math.isclose(value, other.numbers[name], rel_tol=_SAME) for name, value in one.numbers.items())


@lru_cache(maxsize=256)  # points of a sweep that differ in prices have the same fabrics
def _why_equal(fabric: AnyFabric | None) -> str:
    why = collapse_warning(fabric) or rail_only_warning(fabric) if isinstance(fabric, RailFabric) else ""
    return why or "it takes the same parts and gives all traffic the same share of the NICs."
