"""How sure a plan is: draws of what is assumed or varies, the same for all candidates, and what flips its answer.

Rows of prices, powers, failures and what time costs that have a low and a high end are drawn by their shape
(`catalog.distributions`), once for each draw. Of what a GPU reaches, assumed rows are drawn for every tenth, as the
kept designs' times are then computed again; the rest is in the error against published runs. What circuits add to an
iteration stays as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.distributions import draws as row_draws
from railcore.catalog.distributions import quantile
from railcore.network.price_books import rows_of_book
from railcore.network.reliability import failure_rows, rate_and_repair
from railcore.planner.answer import Answer, EnergyPrices, costed, sizing_of
from railcore.planner.candidates import Candidate
from railcore.planner.case import Case, Values
from railcore.planner.goals import GOALS
from railcore.planner.goodput import lost_shares
from railcore.strategies.answers import machine_changes, uncertain_inputs

DRAWN = ("network_usd", "purchase_usd", "power_w", "days", "goodput", "energy_J", "cost_usd", "token_usd", "carbon_kg")
_EACH = 10  # draws that share what a GPU reaches
_STEPS = 8  # from a row's value to each of its ends, at which a flip is looked for
_SAME = 1e-9  # two numbers that differ by less of themselves are equal
TIE = 0.05  # of the draws in which a candidate is better than the best one

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Situation:
    """What is the same for all candidates: a case, prices of a site, and rows that are drawn."""

    case: Case
    candidates: Mapping[str, Candidate]
    answers: Sequence[Answer]
    site: EnergyPrices

    def cost_rows(self) -> list[catalog.Value]:
        """Rows of prices, powers, failures and what time costs that have a range, but for what the spec gives."""
        case, own = self.case, self.case.spec
        rows = [*rows_of_book(case.prices).values(), *rows_of_book(case.powers).values()]
        electricity = self.site.usd_per_J if own.operation.electricity is None else own.operation.electricity
        asked: list[tuple[str, str, str, Any]] = [
            ("platforms", case.rack.name, "price", own.books.server),
            ("platforms", case.rack.name, "power", own.books.server_power),
            ("prices", "energy", "pue", own.operation.pue),
            ("prices", "energy", "electricity_price", electricity),
            ("operation", "machine", "useful_life", own.operation.years),
            ("operation", "machine", "mean_load", own.operation.load),
        ]
        rows += [catalog.item(*key[:2]).row(key[2]) for *key, given in asked if given is None]
        if own.operation.failures == "value":
            kinds = {kind for answer in self._possible for kind in answer.goodput["kind"] if kind}
            rows += failure_rows(kinds, own.operation.checkpoint, own.operation.restart)
        return list({key_of(row): row for row in rows if row.shape}.values())

    @property
    def _possible(self) -> list[Any]:
        return [answer for answer in self.answers if answer.design is not None]

    def machine_rows(self) -> list[catalog.Value]:
        """Assumed rows of what a GPU reaches; what measured ones leave open is in the error against published runs."""
        rows = [row for row, _ in uncertain_inputs(self.case.machine)]
        return [row for row in rows if row.shape and row.kind == "assumed"]

    def times(self, values: Sequence[Values], progress: Callable[[str], Any] | None = None) -> dict[str, np.ndarray]:
        """Iteration time of the best kept design of each candidate, for each set of machine rows [s]."""
        found: dict[Any, np.ndarray] = {}
        for answer in self._possible:
            design = answer.design
            if id(design) not in found:
                if progress:
                    progress(f"times of {answer.name} on {len(values):,} machines")
                each = [design.times(**machine_changes(design.machine, given)).min() for given in values]
                found[id(design)] = np.array(each) * design.rows["global_batch"][0] + design.added_s
        return {answer.name: found[id(answer.design)] for answer in self._possible}

    def numbers(self, values: Values, times_s: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Numbers of DRAWN of each candidate, arrays over draws. times_s: of an iteration."""
        case, found = self.case, {}
        for answer in self._possible:
            cost = self.candidates[answer.name].cost(case, int(answer.numbers["gpus"]), values)
            sizing = sizing_of(case, answer.racks, cost["cost_usd"], cost["power_w"], values)
            goodput = self._goodput(answer, values)
            job = (times_s[answer.name], int(answer.numbers["batch"]), goodput)
            own = {"gpus": answer.numbers["gpus"], "network_usd": cost["cost_usd"], "goodput": goodput}
            found[answer.name] = own | costed(case, sizing, values, self.site, *job)
        return found

    def standing(self, numbers: Mapping[str, Mapping[str, Any]], rank: str) -> dict[str, np.ndarray]:
        """What each candidate is ranked by, infinite where it misses a limit."""
        limits, found = self.case.spec.limits, {}
        for name, own in numbers.items():
            value = np.asarray(own[rank], float)
            for key, number in GOALS.items():
                goal = getattr(limits, key)
                if goal is not None and number in own:
                    missed = _less(own[number], goal) if key == "goodput" else _less(goal, own[number])
                    value = np.where(missed, np.inf, value)
            found[name] = value
        return found

    def _goodput(self, answer: Any, values: Values) -> np.ndarray:
        """Goodput, as events rise with the rates and parts that are down with rates and repair times."""
        parts, own = answer.goodput.iloc[:-1], self.case.spec.operation
        factors = [
            [values.get(key_of(row), row.value) / row.value for row in rate_and_repair(kind)] for kind in parts["kind"]
        ]
        events = [count * rate for count, (rate, _) in zip(parts["events_per_year"], factors, strict=True)]
        down = [count * rate * repair for count, (rate, repair) in zip(parts["parts_down"], factors, strict=True)]
        job = catalog.item("failure_rates", "job")
        delta, restart = (
            values.get(key_of(job.row(name)), getattr(job.row(name), own.failures)) if given is None else given
            for name, given in (("checkpoint_time", own.checkpoint), ("restart_time", own.restart))
        )
        shapes = np.broadcast_shapes(*map(np.shape, (*events, *down, delta, restart)))
        events, down = ([np.broadcast_to(each, shapes) for each in some] for some in (events, down))
        drawn = parts.assign(events_per_year=list(events), parts_down=list(down))
        return 1 - lost_shares(drawn, delta, restart).sum(axis=0)


def key_of(row: catalog.Value) -> Key:
    """Family, item and parameter of a row."""
    return row.family, row.name, row.parameter


@dataclass(frozen=True)
class Uncertainty:
    """Draws of a plan.

    table: a row for each candidate and number of DRAWN: candidate, number, low (5%), median, high (95%); below, the
        share of the draws below the plan's own number; better, the share in which the candidate is better than the
        best one by this number, and by the deciding one within the limits; met, the share in which it meets the limits;
        lost, the share in which none of its kept strategies fits.
    samples: by candidate and number, arrays over draws; empty where the table was stored.
    """

    table: pd.DataFrame
    samples: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    def interval(self, candidate: str, number: str) -> tuple[float, float]:
        """5 and 95% of a number of a candidate; NaN where it is not drawn."""
        return self._cell(candidate, number, "low"), self._cell(candidate, number, "high")

    def met(self, candidate: str) -> float:
        """Share of the draws in which a candidate meets the limits."""
        return self._cell(candidate, "days", "met")

    def better(self, candidate: str, number: str) -> float:
        """Share of the draws in which a candidate is better than the best one by a number."""
        return self._cell(candidate, number, "better")

    @cached_property
    def _rows(self) -> dict[tuple[str, str], Any]:
        return {(row.candidate, row.number): row for row in self.table.itertuples()}

    def _cell(self, candidate: str, number: str, column: str) -> float:
        return float(getattr(self._rows.get((candidate, number)), column, np.nan))

    @property
    def notes(self) -> list[str]:
        """In how many draws none of a candidate's kept strategies fits into memory."""
        lost = dict(self.table[["candidate", "lost"]].itertuples(index=False))
        return [
            f"{name}: no kept strategy fits in {100 * share:.3g}% of draws." for name, share in lost.items() if share
        ]


def uncertainty(
    situation: Situation,
    best: str,
    rank: str,
    draws: int,
    seed: int,
    progress: Callable[[str], Any] | None = None,
) -> Uncertainty:
    """Draws of all rows at once, common to all candidates.

    Parameters
    ----------
    situation
        A case with its answers.
    best, rank
        Candidate that the others are compared with, and the number of DRAWN that decides, of which less is better.
    draws, seed
        How many, and of which random numbers.
    progress
        Called with a text before what takes long.

    Returns
    -------
    An `Uncertainty`.
    """
    machines = -(-draws // _EACH)
    of_machine = row_draws(situation.machine_rows(), machines, seed)
    sets = [{key: values[i] for key, values in of_machine.items()} for i in range(machines)]
    times = {name: np.repeat(each, _EACH)[:draws] for name, each in situation.times(sets, progress).items()}
    samples = situation.numbers(row_draws(situation.cost_rows(), draws, seed), times)
    standing, rows = situation.standing(samples, rank), []
    for answer in situation.answers:
        mine = samples.get(answer.name, {})
        for name in filter(mine.__contains__, DRAWN):
            drawn, sign = np.broadcast_to(mine[name], draws), -1 if name == "goodput" else 1
            pair = (standing[answer.name], standing[best]) if name == rank else (mine[name], samples[best][name])
            better = np.mean(np.broadcast_to(_less(*(sign * np.asarray(each) for each in pair)), draws))
            low, median, high = np.quantile(drawn, (0.05, 0.5, 0.95), method="nearest")
            own = answer.numbers[name]
            below = 0.5 + 0.5 * (np.mean(_less(drawn, own)) - np.mean(_less(own, drawn)))
            lost = np.mean(np.broadcast_to(np.isinf(mine["days"]), draws))
            met = np.mean(np.broadcast_to(np.isfinite(standing[answer.name]), draws))
            rows.append((answer.name, name, low, median, high, *map(float, (below, better, met, lost))))
    columns = ["candidate", "number", "low", "median", "high", "below", "better", "met", "lost"]
    return Uncertainty(pd.DataFrame(rows, columns=columns), samples)


def win_shares(standing: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, float]:
    """Share of the draws in which each candidate is the best; in the others all miss a limit.

    Parameters
    ----------
    standing
        Of `Situation.standing`.
    names
        Candidates that can be the best, the better ones first: of two that are equal the first one wins.

    Returns
    -------
    By name; of no names an empty dictionary.
    """
    if not names:
        return {}
    table = np.array(np.broadcast_arrays(*(standing[name] for name in names)))
    first = np.argmax(~_less(table.min(axis=0), table), axis=0)
    won = np.where(np.isfinite(table.min(axis=0)), first, -1)
    return {name: float(np.mean(won == place)) for place, name in enumerate(names)}


def _less(one: Any, other: Any) -> np.ndarray:
    """Where one is less than the other by more than the last bits of a machine."""
    with np.errstate(invalid="ignore"):  # two that are infinite are equal
        return np.asarray(one) < np.asarray(other) - _SAME * np.abs(other)


def flips(situation: Situation, rank: str, allowed: Sequence[str]) -> pd.DataFrame:
    """Rows of prices, powers, failures and time's cost that alone, within their range, make another candidate the best.

    Parameters
    ----------
    situation
        A case with its answers.
    rank
        Number of DRAWN of which less is better.
    allowed
        Candidates that can be the best, the best one first.

    Returns
    -------
    A row for each such row and end: family, name, parameter, value, at (the value nearest to it, of eight steps to its
    end, that flips), best (the candidate then, "none" where all miss a limit); the least likely change last.
    """
    columns = ["family", "name", "parameter", "value", "at", "best"]
    point = {answer.name: answer.numbers["iteration_s"] for answer in situation.answers if answer.design is not None}
    names, rows = [name for name in allowed if name in point], situation.cost_rows()
    if len(names) < 2:
        return pd.DataFrame(columns=columns)
    away = np.arange(1, _STEPS + 1) / 2 / _STEPS  # of a row's probability, from its value
    steps = np.concatenate([0.5 - away, 0.5 + away])
    tried = np.array([quantile(row, steps) for row in rows])
    values = {key_of(row): np.full(tried.shape, float(row.value)) for row in rows}
    for place, row in enumerate(rows):
        values[key_of(row)][place] = tried[place]
    flat = {key: each.ravel() for key, each in values.items()}
    found = situation.numbers(flat, point)
    standing = situation.standing(found, rank)
    table = np.array([np.broadcast_to(standing[name], tried.size).reshape(tried.shape) for name in names])
    beaten = _less(table[1:].min(axis=0), table[0]) | np.isinf(table[0])
    first = np.where(np.isinf(table.min(axis=0)), -1, 1 + table[1:].argmin(axis=0))
    listed = []
    for place, row in enumerate(rows):
        for side in range(2):
            changed = np.flatnonzero(beaten[place, side * _STEPS : (side + 1) * _STEPS])
            if changed.size:
                at = place, side * _STEPS + changed[0]
                then = "none" if first[at] < 0 else names[first[at]]
                listed.append((*key_of(row), row.value, float(tried[at]), then, int(changed[0])))
    whole = pd.DataFrame(listed, columns=[*columns, "step"]).sort_values("step", kind="stable", ignore_index=True)
    return whole[columns]
