"""What every model says of one candidate: parts, price, power, strategy, time, failures, energy, cost of the training.

It has no formula of its own: each number is what its model gives when it is asked alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog.units import day, hour, number, show, year
from railcore.datacenter.operation import run_of_time, training_time
from railcore.datacenter.ownership import cost_rates
from railcore.datacenter.rack_network import CountedNetwork, PricedNetwork
from railcore.datacenter.sizing import Sizing, datacenter_size
from railcore.network.bill import bill_counts, bill_table
from railcore.network.reliability import host_gpus, hosts_to_spare
from railcore.network.topology.photonic import PhotonicRails, ring_lengths
from railcore.network.topology.rails import RailFabric
from railcore.photonics.circuit_search import best_on_circuits
from railcore.planner.candidates import AnyFabric, Candidate, switch_books
from railcore.planner.case import Case, Values
from railcore.planner.fabrics import limiting_fabric, switching_time
from railcore.planner.goals import NO_DIFFERENCE
from railcore.planner.goodput import training_goodput
from railcore.planner.spec import OperationSpec
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.strategies.result import SearchResult
from railcore.strategies.slower_networks import fastest_network, search_slower
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine
from railcore.training.runtime import Runtime
from railcore.training.software import dated_runtimes
from railcore.training.strategy_columns import STRATEGY_COLUMNS, column_numbers
from railcore.training.transformer import model_flops_utilization
from railcore.training.unique_rows import Columns

KEPT = 8  # designs of a candidate, which draws time again
_SEARCHED = 64  # strategies, of which the best designs are kept
_PARTS_ONLY: dict[str, Any] = {"compute_share": 1.0, "network_share": 0.0, "other_power_share": 0.0}  # no rule of thumb
CIRCUIT_KEYS = ("nic_ports", "circuit_switch", "reconfiguration")  # of network: strategies on circuits depend on them
_SWITCHES = ("tier-1 switch", "circuit switch")


class EnergyPrices(NamedTuple):
    """Price [USD/J] and carbon [kg/J] of energy; None where unknown."""

    usd_per_J: float | None = None
    carbon_kg_per_J: float | None = None


@dataclass(frozen=True)
class Design:
    """The best strategies of a job on a fabric.

    result: of the search.
    rows: the kept strategies, the best first.
    machine: with the GPUs in use of each HB domain, and the fabric.
    added_s: time that circuits add to an iteration of the best [s].
    warnings: of the search on circuits.
    """

    result: SearchResult
    rows: Columns
    machine: Machine
    added_s: float = 0.0
    warnings: tuple[str, ...] = ()
    _times: dict[tuple, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def offload(self) -> str | tuple[str, ...]:
        """What the best strategy keeps in the host's memory."""
        return self.result.parts[int(self.rows["part"][0])].offload or "none"

    @cached_property
    def strategy(self) -> dict[str, Any]:
        """The best strategy, by name, as `iteration_times` takes it."""
        best = {name: values[:1] for name, values in self.rows.items()}
        return self.result.table(best)[list(STRATEGY_COLUMNS)].to_dict("records")[0]

    @property
    def gpus(self) -> int:
        """GPUs that it takes."""
        return math.prod(int(self.rows[name][0]) for name in ("tensor", "context", "pipeline", "data"))

    @cached_property
    def iteration_s(self) -> float:
        """Time of an iteration of the best [s]."""
        return float(self.rows["total_s"][0]) + self.added_s

    def times(self, **changes: Any) -> np.ndarray:
        """Seconds per sequence of the kept strategies on a changed machine; infinite where one does not fit."""
        key = tuple(sorted(changes.items()))
        if key not in self._times:  # draws of plans that share the design
            times = self.result.estimates(self.rows, **changes)
            self._times[key] = np.where(times.feasible, times.total_s / self.rows["global_batch"], np.inf)
        return self._times[key]


@dataclass(frozen=True)
class Answer:
    """Everything about one candidate.

    name: of the candidate. also: others with the same parts and times. why_same: why they have them.
    note: why there is no such network or no strategy; then the rest is missing.
    fabric: of all GPUs bought. switch: of the candidate, in place of the plan's.
    racks: bought.
    design: the best strategies; None where none fits.
    sizing: price and power of racks and network.
    goodput: table of `training_goodput`.
    numbers: by name, in SI units.
    """

    name: str
    note: str = ""
    also: tuple[str, ...] = ()
    why_same: str = ""
    fabric: AnyFabric | None = field(default=None, repr=False)
    switch: str = field(default="", repr=False)
    racks: int = 0
    design: Design | None = field(default=None, repr=False)
    sizing: Sizing | None = field(default=None, repr=False)
    goodput: pd.DataFrame | None = field(default=None, repr=False)
    numbers: Mapping[str, float] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """The best strategy in words."""
        if self.design is None:
            return ""
        away = self.design.offload
        return strategy_label(self.design.strategy) + (f", offloads {' and '.join(away)}" if away != "none" else "")


class Designs:
    """Best strategies of a case and what failures cost them; searched once for fabrics that give the same times.

    Cases that differ only in sizes, prices, operation, site and goals may share them (`planning.Shared`).
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._best: dict[Any, Design | None] = {}
        self._fastest: dict[tuple[int, int, int], SearchResult] = {}
        self._timed: dict[Any, tuple[pd.DataFrame, dict[str, float]]] = {}
        self._notes: dict[int, str] = {}

    def of(self, fabric: AnyFabric, spares: int = 0) -> Design | None:
        """The best strategies on all GPUs of a fabric but the spares; None where none fits."""
        gpus = fabric.gpus - spares
        if isinstance(fabric, PhotonicRails):
            return self._once((fabric.gpus, gpus, "circuits"), lambda: self._on_circuits(fabric, gpus))
        limits = limiting_fabric(fabric, self.case.model)
        return self._once((gpus, limits), lambda: self._on_packets(gpus, limits))

    def _once(self, key: Any, best: Callable[[], Design | None]) -> Design | None:
        if key not in self._best:
            self._best[key] = best()
        return self._best[key]

    def timed(
        self, fabric: AnyFabric, design: Design, operation: OperationSpec
    ) -> tuple[pd.DataFrame, dict[str, float]]:
        """Table of `training_goodput` of a design on its fabric, and the numbers of time and failures."""
        options: dict[str, Any] = {
            "rates": operation.failures,
            "checkpoint_time": operation.checkpoint,
            "restart_time": operation.restart,
            "checkpoint_interval": operation.checkpoint_interval,
            "spares": None if operation.spares is None else fabric.gpus - design.gpus,
            "stop_rate": operation.stops and operation.stops / year,
        }
        key = (fabric, *options.values())
        if key not in self._timed:
            self._timed[key] = _timed(self.case, fabric, design, options)
        return self._timed[key]

    def nothing_fits(self, gpus: int) -> str:
        """Why no strategy is possible on this number of GPUs, in the search's words."""
        if gpus < 1:
            return "operation.spares keeps all GPUs: give fewer than are bought"
        if gpus not in self._notes:
            self._notes[gpus] = _nothing_fits(self.case, gpus)
        return self._notes[gpus]

    @property
    def _options(self) -> dict[str, Any]:
        job = self.case.spec.job
        return {"runtime": self.case.runtime, "offload": job.offload, **job.search}

    def _on_packets(self, cluster: int, limits: RailFabric | None) -> Design | None:
        best = None
        for machine, gpus, batch in self._tried(cluster):
            fastest = self._on_the_fastest(machine, gpus, batch)
            same = fastest.machine.links.fabric == limits
            result = fastest if same else search_slower(fastest, machine.on(limits), KEPT)
            if result.fastest["part"].size:
                best = _faster(best, Design(result, _kept(result), result.machine))
        return best

    def _on_the_fastest(self, machine: Machine, gpus: int, batch: int) -> SearchResult:
        """The search that says which strategies are worth a look on any other network."""
        key = machine.hb_domain_size, gpus, batch
        if key not in self._fastest:
            links: dict[str, Any] = {"nic_Bps": machine.nic_Bps, "hb_Bps": machine.hb_Bps}
            links |= {"hb_switches": int(self.case.rack["hb_switches"])}
            limits = limiting_fabric(fastest_network(gpus, machine.hb_domain_size, **links), self.case.model)
            options: dict[str, Any] = {"fabric": limits, "top": _SEARCHED, "only_best": True}
            self._fastest[key] = search(self.case.model, machine, gpus, batch, **options, **self._options)
        return self._fastest[key]

    def _on_circuits(self, fabric: PhotonicRails, gpus_left: int) -> Design | None:
        spec, best = self.case.spec.network, None
        delay_s = switching_time(spec.circuit_switch, spec.reconfiguration)
        rings = ring_lengths(spec.nic_ports, fabric.planes, fabric.fibres_per_port)
        options: dict[str, Any] = {"ports": spec.nic_ports, "rings": rings, **self._options}
        for machine, gpus, batch in self._tried(gpus_left, circuits=True):
            options["fastest"] = self._on_the_fastest(machine, gpus, batch)
            table = best_on_circuits(self.case.model, machine, gpus, batch, delay_s, **options)
            row = table.iloc[0]
            if math.isnan(row["iteration_s"]):
                continue
            limits: dict[str, Any] = {name: row[name] for name in STRATEGY_COLUMNS if name != "global_batch"}
            result = search(self.case.model, machine, gpus, batch, **{"top": KEPT, **self._options, **limits})
            same = [np.equal(result.fastest[name], column_numbers(name, [row[name]])) for name in STRATEGY_COLUMNS]
            rows = {name: values[np.all(same, axis=0)] for name, values in result.fastest.items()}
            added_s = float(row["iteration_s"] - row["electrical_s"])
            best = _faster(best, Design(result, rows, result.machine, added_s, table.attrs["warnings"]))
        return best

    def _tried(self, gpus: int, circuits: bool = False) -> Iterator[tuple[Machine, int, int]]:
        """Machine with its GPUs in use of each HB domain, GPUs and batch, by rows of `Case.tried`."""
        if gpus < 1:
            return
        for row in self.case.tried(gpus, circuits).itertuples():
            used = min(int(row.hb_domain_size), int(row.gpus))
            yield self.case.machine.changed(hb_domain_size=used), int(row.gpus), int(row.global_batch)


def _faster(one: Design | None, other: Design) -> Design:
    """The other design where a sequence takes it clearly less time; else the first, whose batch is nearer."""
    if one is None:
        return other
    sequence_s = [design.iteration_s / int(design.rows["global_batch"][0]) for design in (one, other)]
    return other if sequence_s[1] < (1 - NO_DIFFERENCE) * sequence_s[0] else one


def _kept(result: SearchResult) -> Columns:
    """The best designs of a search, and its design of least memory."""
    leaders = result.leaders
    first = np.arange(min(KEPT, leaders["part"].size))
    places = np.unique([*first, int(np.argmin(leaders["memory_bytes"]))])
    return {name: values[places] for name, values in leaders.items()}


def check_cluster_size(case: Case) -> None:
    """Raises ValueError, by dotted key, for a cluster of more racks than a plan looks at."""
    costs, asked = case.rack_costs({}), case.spec.cluster
    of_rack = {"gpus": case.rack_gpus, "racks": 1, "budget": costs["rack_usd"], "power": costs["rack_w"] * costs["pue"]}
    given = {key: value for key in of_rack if (value := getattr(asked, key)) is not None}
    if given and all(given[key] > case.most_racks * of_rack[key] for key in given):
        key, unit = next(iter(given)), {"budget": "USD", "power": "W"}
        numbers = given[key], case.most_racks * of_rack[key]
        asked_for, most = (show(n, unit[key], 4) if key in unit else number(n, 9) for n in numbers)
        gpus = "" if key == "gpus" else f", for {case.most_racks * case.rack_gpus:,} GPUs"
        raise ValueError(f"cluster.{key} is {asked_for}: give at most {most}{gpus}; a plan looks at no more")


def racks_of(case: Case, candidate: Candidate) -> int:
    """Whole racks that are bought: as many as asked for, or the most within budget and power."""
    asked = case.spec.cluster
    racks = asked.racks or (math.ceil(asked.gpus / case.rack_gpus) if asked.gpus else None)
    if asked.budget is None and asked.power is None:
        return int(racks or 0)

    def totals(count: int) -> tuple[float, float]:
        try:
            cost = candidate.cost(case, count * case.rack_gpus)
        except ValueError:  # there is no such network of so many
            return math.inf, math.inf
        return cost["cost_usd"], cost["power_w"]

    limits: dict[str, Any] = {"budget_usd": asked.budget, "power_w": asked.power, "racks": racks}
    costs = _PARTS_ONLY | case.rack_costs({})
    sized = datacenter_size(platform=case.rack.name, network=CountedNetwork(totals), **limits, **costs)
    return int(sized.racks)


def sizing_of(case: Case, racks: int, network_usd: Any, network_w: Any, values: Values) -> Sizing:
    """Price and power of racks and a network, part by part.

    Parameters
    ----------
    case
        Whose racks they are.
    racks
        How many.
    network_usd, network_w
        Price [USD] and power [W] of the network.
    values
        Draws of catalog rows.

    Returns
    -------
    A `Sizing` without a rule of thumb; its fields are arrays where draws are.
    """
    network, costs = PricedNetwork(network_usd, network_w), case.rack_costs(values)
    return datacenter_size(platform=case.rack.name, racks=racks, network=network, **(_PARTS_ONLY | costs))


def sized_answer(case: Case, candidate: Candidate, racks: int) -> Answer:
    """Parts, price and power of a candidate with this number of racks; a note where it cannot be built."""
    try:
        fabric = candidate.build(racks * case.rack_gpus)
    except ValueError as error:
        return Answer(candidate.name, note=str(error))
    cost = candidate.cost(case, fabric.gpus)
    if not math.isfinite(cost["cost_usd"]):
        return Answer(candidate.name, note=f"book {case.prices.name} does not say its link rate")
    sizing = sizing_of(case, racks, cost["cost_usd"], cost["power_w"], {})
    pieces = {name: float(count) for name, count in bill_counts(fabric.parts.bill(), case.prices).items()}
    numbers = {
        "gpus": fabric.gpus,
        "switches": pieces["switches"],
        "link_ends": pieces["link_ends"],
        "modules": pieces["transceivers"],
        "network_usd": float(cost["cost_usd"]),
        "network_w": float(cost["power_w"]),
        "purchase_usd": float(sizing.total_usd),
        "power_w": float(sizing.total_w),
    }
    built: dict[str, Any] = {"fabric": fabric, "switch": candidate.switch, "racks": racks, "warnings": fabric.warnings}
    return Answer(candidate.name, sizing=sizing, numbers=numbers, **built)


def answer_of(case: Case, candidate: Candidate, designs: Designs, racks: int) -> Answer:
    """Everything about a candidate but what energy costs and emits, which `with_energy` adds.

    Parameters
    ----------
    case, candidate
        A network of a case.
    designs
        Best strategies, shared by candidates.
    racks
        Bought.

    Returns
    -------
    An `Answer`; a note says what is not possible.
    """
    answer = sized_answer(case, candidate, racks)
    if answer.fabric is None:
        return answer
    spares = case.spec.operation.spares or 0
    design = designs.of(answer.fabric, spares)
    if design is None:
        return replace(answer, note=designs.nothing_fits(answer.fabric.gpus - spares))
    table, numbers = designs.timed(answer.fabric, design, case.spec.operation)
    scale = case.time_scale(design.gpus)
    numbers = {**answer.numbers, **numbers, "iteration_s": scale * design.iteration_s, "mfu": numbers["mfu"] / scale}
    warnings = (*answer.warnings, *design.warnings)
    return replace(answer, design=design, goodput=table, numbers=numbers, warnings=warnings)


def _timed(
    case: Case, fabric: AnyFabric, design: Design, options: Mapping[str, Any]
) -> tuple[pd.DataFrame, dict[str, float]]:
    strategy, batch = design.strategy, int(design.strategy["global_batch"])
    job = (case.model, design.machine.changed(fabric=None), strategy, batch, case.rack.name)
    table = training_goodput(fabric, *job, runtime=case.runtime, offload=design.offload, **options)
    flops = float(case.model.training_flops(batch))
    mfu = model_flops_utilization(flops, design.iteration_s, design.gpus, design.machine.rates.bf16_rate)
    parts, failed = table.iloc[:-1], table[table["part"].isin(_SWITCHES)]
    stops, host = parts["stops"].astype(bool), host_gpus(case.rack.name)
    down = float(table["gpus_out"].iloc[-1])
    numbers = {
        "gpus_used": design.gpus,
        "batch": batch,
        "iteration_s": design.iteration_s,
        "circuits_s": design.added_s,
        "mfu": float(mfu),
        "goodput": float(table["tokens_share"].iloc[-1]),
        "stopped": float(parts["lost"][stops].sum()),
        "slowed": float(parts["lost"][~stops].sum()),
        "gpus_down": down,
        "gpus_spare": float(host * hosts_to_spare(down / host)),
        "failed_switch_gpus": float(failed["gpus_stopped"].max()) if len(failed) else 0.0,
        "failed_switch_tokens_share": float(failed["tokens_share"].min()) if len(failed) else 1.0,
    }
    return table, numbers


def costed(
    case: Case,
    sizing: Sizing,
    values: Values,
    site: EnergyPrices,
    iteration_s: Any,
    batch: int,
    goodput: Any,
) -> dict[str, Any]:
    """What time and energy cost: the numbers of an answer, or arrays of them for draws.

    Parameters
    ----------
    case, sizing
        A case, and price and power of its racks and network.
    values
        Draws of catalog rows.
    site
        Price and carbon of energy.
    iteration_s, batch
        Time of an iteration [s]; its sequences.
    goodput
        Share of the time that advances the job.

    Returns
    -------
    purchase_usd, power_w, gpu_hour_usd, days, energy_J, cost_usd, token_usd and, where the carbon of the power is
    known, carbon_kg. Those of the run are infinite where the time is.
    """
    prices = case.operating_prices(values, site.usd_per_J)
    cost_rate = sum(cost_rates(sizing, prices, case.ownership(values)).values())
    tokens = batch * case.model.sequence_length
    with np.errstate(divide="ignore"):  # a job that never goes on: infinite
        seconds = np.asarray(training_time(iteration_s, tokens, case.tokens, goodput, case.spec.operation.contingency))
    fits = np.isfinite(seconds)
    run = run_of_time(case.tokens, case.flops, np.where(fits, seconds, 1.0), sizing, prices)
    cost_usd = cost_rate * run.time_s
    of_run = {"energy_J": run.energy_J, "cost_usd": cost_usd, "token_usd": cost_usd / run.tokens}
    of_run |= {} if site.carbon_kg_per_J is None else {"carbon_kg": run.carbon_kg(site.carbon_kg_per_J)}
    return {
        "purchase_usd": sizing.total_usd,
        "power_w": sizing.total_w,
        "gpu_hour_usd": cost_rate * hour / sizing.gpus,
        "days": seconds / day,
        **{name: np.where(fits, values, np.inf) for name, values in of_run.items()},
    }


def with_energy(case: Case, answer: Answer, site: EnergyPrices) -> Answer:
    """The answer with what time and energy cost at a site's prices."""
    sizing, numbers = answer.sizing, dict(answer.numbers)
    if sizing is None:
        return answer
    prices, terms = case.operating_prices({}, site.usd_per_J), case.ownership({})
    rates = cost_rates(sizing, prices, terms)
    costs = {"ownership_usd": sum(rates.values()) * terms.busy * prices.useful_life}
    if answer.design is not None:
        costs |= costed(case, sizing, {}, site, numbers["iteration_s"], int(numbers["batch"]), numbers["goodput"])
    return replace(answer, numbers=numbers | {name: float(cost) for name, cost in costs.items()})


def _nothing_fits(case: Case, gpus: int) -> str:
    use_all = case.spec.cluster.use == "all"
    options: dict[str, Any] = {"runtime": case.runtime, "offload": case.spec.job.offload, "at_most": not use_all}
    machine = case.machine.changed(hb_domain_size=min(case.machine.hb_domain_size, gpus))
    try:
        search(case.model, machine, gpus, case.batches(gpus), **options, **case.spec.job.search).strategy()
    except ValueError as error:
        return str(error)
    return "no strategy was found by the short search: give job.search, or another batch"


def software_band(case: Case, design: Design) -> tuple[float, float]:
    """Least and greatest time of the best strategy under other software, over its own time."""
    job, offload = (case.model, design.machine, design.strategy), design.offload
    runtimes: list[Runtime | str] = [case.runtime, *dated_runtimes(design.machine)]
    estimates = [iteration_times(*job, runtime, offload) for runtime in runtimes]
    feasible_s = [estimate.total_s.item() for estimate in estimates if estimate.feasible.item()]
    over = [(total_s + design.added_s) / design.iteration_s for total_s in feasible_s]
    return min(over, default=1.0), max(over, default=1.0)


def parts_table(case: Case, answer: Answer) -> pd.DataFrame:
    """Bill of a candidate's network, line by line; ports of split NICs have their slower rate."""
    assert answer.fabric is not None
    prices, powers = (book.of_ports(answer.fabric.nic_ports) for book in switch_books(case, answer.switch, {}))
    return bill_table(answer.fabric.parts.bill(), prices, powers).assign(network=answer.name)
