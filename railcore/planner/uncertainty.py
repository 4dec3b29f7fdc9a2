"""How sure a plan is: draws of the model's error and of catalog rows, the same for all candidates, and what flips it.

The time of an iteration is drawn by its error against measured runs (`prediction_error.expected_error`): one factor for
all candidates. It has what differs between clusters in it. Between candidates, times differ by rows that differ from
site to site or are assumed: these are drawn once for fifty draws, because the kept designs' times are then computed
again, and count over the best candidate's. Rows of prices, powers, failures and costs of time that have a low and a
high end are drawn by their shape (`catalog.distributions`). Time that circuits add to an iteration is not drawn.
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
from railcore.datacenter.ownership import term_keys
from railcore.network.price_books import rows_of_book
from railcore.network.reliability import failure_rows, host_gpus, rate_and_repair
from railcore.network.topology.photonic import PhotonicRails
from railcore.planner.answer import Answer, EnergyPrices, costed, sizing_of
from railcore.planner.candidates import Candidate, switch_rows
from railcore.planner.case import Case, Values
from railcore.planner.goals import GOALS, NO_DIFFERENCE
from railcore.planner.goodput import lost_shares
from railcore.planner.price_basis import basis_keys
from railcore.strategies.answers import machine_changes, uncertain_inputs
from railcore.training.prediction_error import ExpectedError

DRAWN = (
    *("network_usd", "purchase_usd", "power_w", "days", "goodput"),
    *("energy_J", "cost_usd", "token_usd", "gpu_hour_usd", "carbon_kg"),
)
# Efficiencies that differ from card to card, from rack to rack, from fabric to fabric, and between a card and a job.
_BY_SITE = (
    "matmul_sustained",
    "rank_spread",
    "rack_spread",
    "rack_gpus",
    "layer_spare_power",
    "nic_fraction",
)
_PER_MACHINE = 50  # draws that share a GPU's efficiencies
_STEPS = 8  # from a row's value to each of its ends, at which a flip is looked for
_SAME = 1e-9  # relative difference up to which two numbers are equal
TIE = 0.05  # of the draws in which a candidate is better than the best one

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Situation:
    """What draws are of: a case, its candidates and answers, and prices of a site."""

    case: Case
    candidates: Mapping[str, Candidate]
    answers: Sequence[Answer]
    site: EnergyPrices

    def cost_rows(self) -> list[catalog.Value]:
        """Rows of prices, powers, failures and costs of time that have a range and that the spec does not replace."""
        case, books, operation = self.case, self.case.spec.books, self.case.spec.operation
        rows = [*rows_of_book(case.prices).values(), *rows_of_book(case.powers).values()]
        for switch in sorted({answer.switch for answer in self._possible}):
            rows += switch_rows(switch)
        electricity = self.site.usd_per_J if operation.electricity is None else operation.electricity
        replaced: list[tuple[str, str, str, Any]] = [
            ("platforms", case.rack.name, "price", books.server),
            ("platforms", case.rack.name, "power", books.server_power),
            ("prices", "energy", "pue", operation.pue),
            ("prices", "energy", "electricity_price", electricity),
            ("operation", "machine", "useful_life", operation.years),
            ("operation", "machine", "mean_load", operation.load),
        ]
        rows += [catalog.item(*key[:2]).row(key[2]) for *key, value in replaced if value is None]
        keys = [*term_keys(case.left_out).values()]
        keys += basis_keys(case.rack, books.basis) if books.server is None else ()
        rows += [catalog.item(*key[:2]).row(key[2]) for key in keys]
        if operation.failures == "value":
            kinds = {kind for answer in self._possible for kind in answer.goodput["kind"] if kind}
            rows += failure_rows(kinds, operation.checkpoint, operation.restart)
        return list({key_of(row): row for row in rows if row.shape}.values())

    @property
    def _possible(self) -> list[Any]:
        return [answer for answer in self.answers if answer.design is not None]

    def machine_rows(self) -> list[catalog.Value]:
        """Rows of the GPU's efficiencies with a range: assumed ones, and those that differ from site to site."""
        rows = [row for row, _ in uncertain_inputs(self.case.machine) if row.shape]
        return [row for row in rows if row.kind == "assumed" or row.parameter.startswith(_BY_SITE)]

    def modelled_times(
        self, values: Sequence[Values], progress: Callable[[str], Any] | None = None
    ) -> dict[str, np.ndarray]:
        """Iteration time of the best kept design of each candidate, for each set of machine rows [s]."""
        times: dict[int, np.ndarray] = {}
        for answer in self._possible:
            design = answer.design
            if id(design) not in times:
                if progress:
                    progress(f"times of {answer.name} on {len(values):,} machines")
                sequence_s = [design.times(**machine_changes(design.machine, rows)).min() for rows in values]
                times[id(design)] = np.array(sequence_s) * design.rows["global_batch"][0] + design.added_s
        return {answer.name: times[id(answer.design)] for answer in self._possible}

    def numbers(self, values: Values, times_s: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Numbers of DRAWN of the candidates that have times, arrays over draws. times_s: of an iteration."""
        case, numbers = self.case, {}
        for answer in (answer for answer in self._possible if answer.name in times_s):
            cost = self.candidates[answer.name].cost(case, int(answer.numbers["gpus"]), values)
            sizing = sizing_of(case, answer.racks, cost["cost_usd"], cost["power_w"], values)
            goodput = self._goodput(answer, values)
            job = (times_s[answer.name], int(answer.numbers["batch"]), goodput)
            bought = {"gpus": answer.numbers["gpus"], "network_usd": cost["cost_usd"], "goodput": goodput}
            numbers[answer.name] = bought | costed(case, sizing, values, self.site, *job)
        return numbers

    def time_scales(self) -> dict[str, float]:
        """What own runs multiply each candidate's times by: it depends on its GPUs."""
        return {answer.name: self.case.time_scale(answer.design.gpus) for answer in self._possible}

    def scaled_times(self, name: str, factors: np.ndarray) -> np.ndarray:
        """Modelled iteration time of a candidate, times factors of the model's error [s]."""
        return factors * next(answer.design.iteration_s for answer in self._possible if answer.name == name)

    def reference(self, best: str) -> str:
        """The candidate whose times have the model's error alone: the best, but a packet network where there is one.

        What circuits add differs from draw to draw by far more than packet networks differ from each other.
        """
        packets = [answer.name for answer in self._possible if not isinstance(answer.fabric, PhotonicRails)]
        return best if best in packets or not packets else packets[0]

    def standing(self, numbers: Mapping[str, Mapping[str, Any]], rank: str) -> dict[str, np.ndarray]:
        """The number that each candidate is ranked by, infinite where it misses a limit."""
        limits, standing = self.case.spec.limits, {}
        for name, of_name in numbers.items():
            value = np.asarray(of_name[rank], float)
            for key, number in GOALS.items():
                goal = getattr(limits, key)
                if goal is not None and number in of_name:
                    missed = _less(of_name[number], goal) if key == "goodput" else _less(goal, of_name[number])
                    value = np.where(missed, np.inf, value)
            standing[name] = value
        return standing

    def _goodput(self, answer: Any, values: Values) -> np.ndarray:
        """Goodput: events scale with failure rates, parts that are down with rates and repair times.

        Stops that the spec gives stay as they are: then the draws change only what they are made of.
        """
        parts, operation = answer.goodput.iloc[:-1], self.case.spec.operation
        factors = [
            [values.get(key_of(row), row.value) / row.value for row in rate_and_repair(kind)] for kind in parts["kind"]
        ]
        events = [count * rate for count, (rate, _) in zip(parts["events_per_year"], factors, strict=True)]
        down = [count * rate * repair for count, (rate, repair) in zip(parts["parts_down"], factors, strict=True)]
        if operation.stops is not None:
            stops = parts["stops"].astype(bool)
            in_all = sum(number for number, stop in zip(events, stops, strict=True) if stop)
            scale = answer.goodput["events_per_year"].iloc[-1] / in_all
            events = [number * scale if stop else number for number, stop in zip(events, stops, strict=True)]
        job = catalog.item("failure_rates", "job")
        checkpoint_s, restart_s = (
            values.get(key_of(job.row(name)), getattr(job.row(name), operation.failures)) if time_s is None else time_s
            for name, time_s in (("checkpoint_time", operation.checkpoint), ("restart_time", operation.restart))
        )
        shape = np.broadcast_shapes(*map(np.shape, (*events, *down, checkpoint_s, restart_s)))
        drawn = parts.assign(
            events_per_year=[np.broadcast_to(number, shape) for number in events],
            parts_down=[np.broadcast_to(number, shape) for number in down],
        )
        spares = None if operation.spares is None else int(answer.numbers["gpus"] - answer.numbers["gpus_used"])
        spare_hosts = None if spares is None else spares // host_gpus(self.case.rack.name)
        known = operation.checkpoint_interval, spare_hosts
        return np.maximum(1 - lost_shares(drawn, checkpoint_s, restart_s, *known).sum(axis=0), 0.0)

    def widest(self, answer: Answer, most: int = 3) -> list[tuple[catalog.Value, float, float]]:
        """Rows of failures that alone change goodput most, with its least and greatest from their 5% to their 95%."""
        rows = [row for row in self.cost_rows() if row.family == "failure_rates"]
        ends = [self._goodput(answer, {key_of(row): quantile(row, (0.05, 0.95))}) for row in rows]
        found = [(row, float(np.min(end)), float(np.max(end))) for row, end in zip(rows, ends, strict=True)]
        return sorted(found, key=lambda each: each[1] - each[2])[:most]


def key_of(row: catalog.Value) -> Key:
    """Family, item and parameter of a row."""
    return row.family, row.name, row.parameter


@dataclass(frozen=True)
class Uncertainty:
    """Draws of a plan.

    table: a row for each candidate and number of DRAWN: candidate, number, low (5%), median, high (95%), and shares of
        the draws: below, below the plan's own number; better, the candidate is better than the best one by this number
        (by the deciding one: within the limits); met, it meets the limits; lost, none of its kept strategies fits.
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
        """Share of the draws in which none of a candidate's kept strategies fits, in words."""
        lost = dict(self.table[["candidate", "lost"]].itertuples(index=False))
        return [
            f"{name}: no kept strategy fits in {100 * share:.3g}% of draws." for name, share in lost.items() if share
        ]


def uncertainty(
    situation: Situation,
    best: str,
    rank: str,
    error: ExpectedError,
    draws: int,
    seed: int,
    progress: Callable[[str], Any] | None = None,
) -> Uncertainty:
    """Draws of the model's error and of all rows at once, common to all candidates.

    Parameters
    ----------
    situation
        A case with its answers.
    best
        Candidate that the others are compared with.
    rank
        Number of DRAWN that decides; less is better.
    error
        Of iteration times.
    draws, seed
        How many; of the random numbers.
    progress
        Called with a text before what takes long.

    Returns
    -------
    An `Uncertainty`.
    """
    machines = -(-draws // _PER_MACHINE)
    of_machine = row_draws(situation.machine_rows(), machines, seed)
    sets = [{key: values[i] for key, values in of_machine.items()} for i in range(machines)]
    usual = situation.reference(best)
    modelled_s = situation.modelled_times(sets, progress)
    usual_s, scales = situation.scaled_times(usual, error.draws(draws, seed)), situation.time_scales()
    with np.errstate(invalid="ignore"):  # where nothing that was kept fits
        over_usual = {
            name: np.where(np.isinf(times), np.inf, times / modelled_s[usual] * scales[name] / scales[usual])
            for name, times in modelled_s.items()
        }
    times_s = {name: usual_s * np.repeat(over, _PER_MACHINE)[:draws] for name, over in over_usual.items()}
    samples = situation.numbers(row_draws(situation.cost_rows(), draws, seed), times_s)
    standing, rows = situation.standing(samples, rank), []
    for answer in situation.answers:
        numbers = samples.get(answer.name, {})
        for name in filter(numbers.__contains__, DRAWN):
            drawn, sign = np.broadcast_to(numbers[name], draws), -1 if name == "goodput" else 1
            pair = (standing[answer.name], standing[best]) if name == rank else (numbers[name], samples[best][name])
            better = np.mean(np.broadcast_to(_less(*(sign * np.asarray(values) for values in pair)), draws))
            low, median, high = np.quantile(drawn, (0.05, 0.5, 0.95), method="nearest")
            point = answer.numbers[name]
            below = 0.5 + 0.5 * (np.mean(_less(drawn, point)) - np.mean(_less(point, drawn)))
            lost = np.mean(np.broadcast_to(np.isinf(numbers["days"]), draws))
            met = np.mean(np.broadcast_to(np.isfinite(standing[answer.name]), draws))
            rows.append((answer.name, name, low, median, high, *map(float, (below, better, met, lost))))
    columns = ["candidate", "number", "low", "median", "high", "below", "better", "met", "lost"]
    return Uncertainty(pd.DataFrame(rows, columns=columns), samples)


def best_interval(
    situation: Situation, best: str, number: str, error: ExpectedError, draws: int, seed: int
) -> tuple[float, float]:
    """5 and 95% of a number of the best candidate: those of `uncertainty`, without timing what is kept again.

    Parameters
    ----------
    situation, best
        A case with its answers, and its best candidate.
    number
        Of DRAWN.
    error, draws, seed
        As for `uncertainty`.

    Returns
    -------
    Low and high end.
    """
    times_s = {best: situation.scaled_times(best, error.draws(draws, seed))}
    drawn = situation.numbers(row_draws(situation.cost_rows(), draws, seed), times_s)[best][number]
    low, high = np.quantile(np.broadcast_to(drawn, draws), (0.05, 0.95), method="nearest")
    return float(low), float(high)


def win_shares(standing: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, float]:
    """Share of the draws in which each candidate is the best, by name; in the other draws all miss a limit.

    standing: of `Situation.standing`. names: candidates that can be the best; of equal ones the first wins.
    """
    if not names:
        return {}
    table = np.array(np.broadcast_arrays(*(standing[name] for name in names)))
    first = np.argmax(~_less(table.min(axis=0), table), axis=0)
    won = np.where(np.isfinite(table.min(axis=0)), first, -1)
    return {name: float(np.mean(won == place)) for place, name in enumerate(names)}


def _less(one: Any, other: Any) -> np.ndarray:
    """Where one is less than the other by more than rounding."""
    with np.errstate(invalid="ignore"):  # two infinite numbers are equal
        return np.asarray(one) < np.asarray(other) - _SAME * np.abs(other)


def flips(situation: Situation, rank: str, allowed: Sequence[str]) -> pd.DataFrame:
    """Rows of prices, powers, failures and costs of time that alone, within their range, make another candidate best.

    rank: number of DRAWN that decides; less is better. allowed: candidates that can be the best, the best one first.

    Better by less than NO_DIFFERENCE is no flip.

    A row for each such row and end of its range, the likeliest first: family, name, parameter, value, at (of eight
    steps to the end, the nearest value that flips), best (the candidate then, "none" where all miss a limit).
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
    flat = {key: array.ravel() for key, array in values.items()}
    standing = situation.standing(situation.numbers(flat, point), rank)
    table = np.array([np.broadcast_to(standing[name], tried.size).reshape(tried.shape) for name in names])
    beaten = (table[1:].min(axis=0) < table[0] * (1 - NO_DIFFERENCE)) | np.isinf(table[0])
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
