"""The inverse: the number of racks that meets limits with the fewest GPUs, the least cost or the fewest days.

Batch, GPUs in use and racks are searched as one. A short search gives times for every number of racks and every batch
that is allowed (`racks_by_time`); of racks that are no faster than fewer ones none is worth buying. These estimates say
which number of racks is worth a whole search on a network, and each whole search corrects them.
Few searches are made. For networks of switches what is found is the least, as the models tell it. Circuits suit some
numbers of GPUs badly, which no estimate knows: there some racks fewer may do too.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.units import day
from railcore.planner.answer import Answer
from railcore.planner.case import Case, next_step
from railcore.planner.choice import missed_limits, missed_text
from railcore.planner.goals import FOUND, NO_DIFFERENCE
from railcore.planner.spec import FindSpec, GoalsSpec
from railcore.strategies.gpu_counts import SIZES_FROM

_GROWING = ("power", "purchase", "gpus")  # limits that more racks only break
_ASKED = 6  # whole searches of a network at most, where estimates can tell no difference
_ABOVE = np.arange(1, 13) / 200  # shares of racks above those that limits allow, where a price may have fallen
_SURELY = 0.9  # of the racks that time in inverse proportion would need
_NEAR = math.log(1.25)  # of racks, of answers by which others are estimated
_WIDER = 2  # times the racks of the least cost or time are looked at: whole batches divide by some racks only
_PRICED = 16  # numbers of racks whose price is looked at before one is searched
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
    most = min(_largest(size, limits, case.most_racks), case.most_racks)
    search = _Search(case, ask, size, find, limits)
    top = most if find.days else min(next_step(_fewest_by_peak(case, limits)), most)
    while top:
        before = search.least
        search.add(racks_by_time(case, top))
        search.run()
        if find.days:
            if math.isfinite(before) and search.least >= before:
                break  # fewer racks are no faster
            top = _step_below(top)
        elif top == most or top >= search.last:
            break
        else:
            top = min(next_step(math.ceil(top * search.growth)), most)
    return search.found(most)


def _step_below(racks: int) -> int:
    """The most racks of a `next_step` that are fewer, so that tables of steps touch; 0 for one rack."""
    step = math.floor(racks * SIZES_FROM)
    while (above := next_step(step + 1)) < racks:
        step = above
    return step


def _fewest_by_peak(case: Case, limits: GoalsSpec) -> int:
    """Racks that would meet the limit of days at the GPUs' peak rate; 1 without one."""
    flops = case.machine.rates.bf16_rate * case.rack_gpus * (limits.days or math.inf) * day
    return max(math.ceil(case.flops / flops), 1)


def racks_by_time(case: Case, most: int) -> pd.DataFrame:
    """Numbers of racks up to `most`, from about four fifths of them on, that are each faster than all fewer ones.

    By the short search. Columns racks, sequence_s, gpus and global_batch (in use); the fewest racks first.
    """
    of_rack, spares = case.rack_gpus, case.spec.operation.spares or 0
    table, K = case.sizes(most * of_rack), min(case.machine.hb_domain_size, most * of_rack)
    domains = np.ceil(table["gpus"].to_numpy(float) / table["hb_domain_size"].to_numpy(float))
    filled = np.where(domains > 1, domains * K, table["gpus"])
    table = table.assign(racks=np.ceil((filled + spares) / of_rack).astype(int))
    if case.spec.cluster.use == "all":
        table = table[table["gpus"] + spares == table["racks"] * of_rack]
    table = table[table["racks"] <= most].sort_values(["racks", "sequence_s"], kind="stable")
    before = table["sequence_s"].cummin().shift(fill_value=math.inf)
    return table.loc[table["sequence_s"] < before, ["racks", "sequence_s", "gpus", "global_batch"]].drop_duplicates(
        "racks", ignore_index=True
    )


class _Search:
    """Numbers of racks with their estimated times, and the answers that were asked for."""

    def __init__(self, case: Case, ask: Asked, size: Asked, find: FindSpec, limits: GoalsSpec) -> None:
        self.case, self.ask, self.size, self.limits = case, ask, size, limits
        self.number = next(name for key, name in FOUND.items() if getattr(find, key))
        self.table = pd.DataFrame()
        self.answers: dict[int, Answer] = {}

    def add(self, table: pd.DataFrame) -> None:
        """More numbers of racks."""
        both = pd.concat([self.table, table]).sort_values("sequence_s", kind="stable")
        self.table = both.drop_duplicates("racks").sort_values("racks", ignore_index=True)

    def run(self) -> None:
        """Ask for the numbers of racks that may be the best, the likeliest first."""
        for _ in range(_ASKED):
            if (racks := self._next()) is None:
                return
            self.answers[racks] = self.ask(racks)

    @property
    def least(self) -> float:
        """The least of what is looked for, of answers that meet the limits; infinite without any."""
        return min((answer.numbers[self.number] for answer in self._met.values()), default=math.inf)

    @property
    def last(self) -> float:
        """Racks from which on more are not looked at: times the best, or the fastest by the short search."""
        if met := self._met:
            best = min(met, key=lambda racks: met[racks].numbers[self.number])
            return _WIDER * best if self.number == "cost_usd" else best
        return _WIDER * int(self.table.loc[self.table["sequence_s"].idxmin(), "racks"]) if len(self.table) else math.inf

    @property
    def growth(self) -> float:
        """Times so many racks are looked at next: most of what days lack, as time is in inverse proportion at best."""
        lacking = 1.0
        if self.limits.days and not self._met and len(self.table):
            lacking = _SURELY * float(self._estimated()["days"].min()) / self.limits.days
        return max(lacking, 1.01) if len(self.table) else 2.0

    def found(self, most: int) -> int:
        """Racks of the best answer. Raises ValueError where none meets the limits."""
        if met := self._met:
            least = self.least * (_AS_QUICK if self.number == "days" else 1)
            return min(racks for racks, answer in met.items() if answer.numbers[self.number] <= least)
        tried = self._run or [self.ask(racks) for racks in self.table["racks"].tail(1)] or [self.ask(most)]
        far = [max(missed_limits(answer, self.limits).values(), default=0.0) for answer in tried]
        raise ValueError(_nearest(tried[int(np.argmin(far))], self.limits))

    @property
    def _run(self) -> list[Answer]:
        """Answers with a strategy."""
        return [answer for answer in self.answers.values() if answer.design is not None]

    @property
    def _met(self) -> dict[int, Answer]:
        return {answer.racks: answer for answer in self._run if not missed_limits(answer, self.limits)}

    def _next(self) -> int | None:
        """The number of racks to ask for next; None where all others are worse, or miss a limit."""
        table = self._estimated()
        table = table[~table["racks"].isin(self.answers)]
        if self.limits.days is not None:
            table = table[table["days"] <= (1 + NO_DIFFERENCE) * self.limits.days]
        if self.limits.goodput is not None:
            table = table[table["goodput"] >= (1 - NO_DIFFERENCE) * self.limits.goodput]
        if self.number == "cost_usd":
            looks = (table["days"] * table["racks"]).sort_values(kind="stable").index[:_PRICED]
            table = table.loc[looks].assign(cost_usd=lambda rows: [self._cost(row) for row in rows.itertuples()])
        margin = 1 if self.number == "gpus" else 1 + NO_DIFFERENCE  # the number of GPUs is no estimate
        for row in table.sort_values([self.number, "racks"], kind="stable").itertuples():
            if getattr(row, self.number) >= margin * self.least:
                return None
            dear = self._run and self.limits.cost and self._cost(row) > (1 + NO_DIFFERENCE) * self.limits.cost
            if not dear and _within(self.size(int(row.racks)), self.limits):
                return int(row.racks)
        return None

    def _cost(self, row: Any) -> float:
        """Estimated cost of a row of `_estimated`; infinite where there is no such network."""
        return row.days * row.of_purchase * self.size(int(row.racks)).numbers.get("purchase_usd", math.inf)

    def _estimated(self) -> pd.DataFrame:
        """The table with gpus (bought), days, goodput and of_purchase (cost over days and price), by near answers.

        Days are in proportion to times of the short search, by the quickest of the answers that are near: circuits suit
        some numbers of GPUs badly, which says little of the next. Lost time grows with racks at least as their square
        root, as with Young's interval of checkpoints, and falls at most as they do. Before anything is asked all time
        advances the job.
        """
        case, answers = self.case, sorted(self._run, key=lambda answer: answer.racks)
        table = self.table.assign(gpus=self.table["racks"] * case.rack_gpus)
        racks, short_s = (table[name].to_numpy(float) for name in ("racks", "sequence_s"))
        if not answers:
            iterations = case.tokens / case.model.sequence_length * (1 + case.spec.operation.contingency)
            return table.assign(days=short_s * iterations / day, goodput=1.0, of_purchase=1.0)
        known = np.array([answer.racks for answer in answers])
        far = np.abs(np.log(racks[:, None] / known))
        nearest, near = far.argmin(axis=1), far <= np.maximum(far.min(axis=1, keepdims=True), _NEAR)
        days, cost_usd, purchase_usd, goodput = (
            np.array([answer.numbers[name] for answer in answers])
            for name in ("days", "cost_usd", "purchase_usd", "goodput")
        )
        more = racks / known[nearest]
        lost = (1 / goodput - 1)[nearest] * np.minimum(more, np.sqrt(more))
        of_short = days / short_s[np.maximum(np.searchsorted(racks, known, "right") - 1, 0)]
        of_purchase = (cost_usd / days / purchase_usd)[nearest]
        quickest = np.where(near, of_short, math.inf).min(axis=1)
        return table.assign(days=quickest * short_s, goodput=1 / (1 + lost), of_purchase=of_purchase)


def _within(answer: Answer, limits: GoalsSpec) -> bool:
    """Whether there is such a network, and it meets the limits of `_GROWING`."""
    return bool(answer.numbers) and not {*_GROWING} & {*missed_limits(answer, limits)}


def _largest(size: Asked, limits: GoalsSpec, most: int) -> int:
    """The most racks within the limits that more racks break; `most` without such limits.

    Raises ValueError where one rack breaks them.

    A price can fall by a few percent where the tiers or the vendor's way to build change: some racks above are tried.
    """
    if all(getattr(limits, name) is None for name in _GROWING):
        return most

    def fits(racks: int) -> bool:
        return _within(size(racks), limits)

    low = 1
    while not size(low).numbers and low < most:  # photonic rails need two HB domains
        low *= 2
    if not fits(low):
        raise ValueError(_nearest(size(low), limits))
    high = 2 * low
    while high < most and fits(high):
        low, high = high, 2 * high
    low = last(fits, low, high)
    above = sorted({math.ceil(low * (1 + share)) for share in _ABOVE} - {low})
    fitting = [racks for racks in above if fits(racks)]
    if not fitting:
        return low
    return last(fits, fitting[-1], next((racks for racks in above if racks > fitting[-1]), fitting[-1] + 1))


def last(true: Callable[[int], bool], low: int, high: int) -> int:
    """The last number for which a statement is true, that is true of the low and not of the high one."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if true(middle) else (low, middle)
    return low


def _nearest(answer: Answer, limits: GoalsSpec) -> str:
    """What the nearest number of racks misses."""
    missed = [key for key, off in missed_limits(answer, limits).items() if math.isfinite(off)]
    if not missed:
        return f"no number of GPUs within the limits will do: {answer.note}"
    told = " and ".join(missed_text(answer, limits, key) for key in missed)
    return f"no number of GPUs meets the limits: the nearest, {answer.numbers['gpus']:,.0f}, has {told}"
