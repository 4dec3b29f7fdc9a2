"""The time of a training iteration, its breakdown, how busy its links are, memory, and what rules a strategy out.

`critical_path` is the model: six steps from the costs of a layer (`layer`) and of a stage (`stage`). Here it is asked:
`iteration_time` for one strategy, which is an array of one, and `iteration_times` for arrays of them.

`strategies` goes through millions with the same `critical_path` compiled, and passes over what its bounds rule out:
the one place where time is stated again. A test holds it to this model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog.arguments import Count, checked
from railcore.catalog.units import show
from railcore.training.critical_path import LAYER_ROW, MEMORY, NETWORK, SETTING, CriticalPath, critical_path
from railcore.training.expert_dispatch import splits_groups
from railcore.training.group_shares import Fabric
from railcore.training.layer import LAYER_PARTS, LayerCosts, layer_costs
from railcore.training.layer_traffic import LINK_KINDS
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import ALL_LAYERS, Strategy, as_strategy, indivisible
from railcore.training.pipeline_schedule import LAYERS_IN_MEMORY, microbatches_in_flight
from railcore.training.rank import LAYER_COLUMNS, wide_dense_layers
from railcore.training.rank_order import group_levels
from railcore.training.runtime import Runtime, checked_offload
from railcore.training.software import as_runtime
from railcore.training.stage import STAGE_COLUMNS, STAGES, StageCosts, stage_costs
from railcore.training.strategy_columns import strategy_columns
from railcore.training.transformer import RECOMPUTE, Transformer, as_model
from railcore.training.unique_rows import Columns, each_array, unique_rows

_RANK_PARTS = ("logits", "pipeline", "bubble", "data", "optimizer", "offload", "once", "straggler")
TIME_PARTS = tuple(f"{name}_s" for name in (*LAYER_PARTS, *_RANK_PARTS))
OBSTACLES = ("heads", "layers", "batch", "interleave", "sequence", "experts", "network", "memory")
_MEMORY = ("weights", "gradients", "optimizer", "activations", "reserved")  # kinds of a GPU's memory
_PLACED = {"tensor": "tensor", "context": "context", "expert": "expert", "data": "replica"}  # kinds of groups by name


@dataclass(frozen=True)
class IterationTime:
    """An iteration of one strategy.

    total_s: its time [s].
    breakdown: what is on the critical path by kind [s]; it adds up to total_s.
    links: how long a GPU takes for each kind of traffic, hidden or not [s].
    hb_utilization, nic_utilization: share of the iteration for which a GPU's links are busy, one direction.
    memory: of the fullest GPU by kind [bytes].
    obstacles: what rules the strategy out, by name; empty for nothing.
    """

    total_s: float
    breakdown: dict[str, float]
    links: dict[str, float]
    hb_utilization: float
    nic_utilization: float
    memory: dict[str, float]
    obstacles: tuple[str, ...]

    @property
    def memory_bytes(self) -> float:
        """Of the fullest GPU [bytes]."""
        return sum(self.memory.values())

    def table(self) -> pd.DataFrame:
        """Time and memory by kind with units and shares, time by size, and what rules the strategy out."""
        total, memory = self.total_s, self.memory_bytes
        parts = sorted(((time, name) for name, time in self.breakdown.items()), reverse=True)
        rows = [("iteration", show(total, "s", 4), 1.0)]
        rows += [(f"  {name.removesuffix('_s')}", show(time, "s", 4), time / total) for time, name in parts if time > 0]
        rows += [("HB interconnect busy", "", self.hb_utilization), ("NIC busy", "", self.nic_utilization)]
        rows += [("memory of the fullest GPU", show(memory, "B", 4), 1.0)]
        held = [(name.removesuffix("_bytes"), size) for name, size in self.memory.items() if size > 0]
        rows += [(f"  {name}", show(size, "B", 4), size / memory) for name, size in held]
        rows += [("limit", ", ".join(self.obstacles) or "feasible", math.nan)]
        table = pd.DataFrame(rows, columns=["what", "value", "share"])
        return table.assign(share=["" if math.isnan(share) else f"{share:.1%}" for share in table["share"]])

    def __str__(self) -> str:
        return self.table().to_string(index=False)


@dataclass(frozen=True)
class IterationEstimate:
    """Times and bytes of each strategy, arrays of one shape.

    total_s: of an iteration [s].
    breakdown: what is on the critical path, by TIME_PARTS [s]; it adds up to total_s.
    links: how long a rank takes for each kind of traffic, hidden or not [s].
    hb_utilization, nic_utilization: share of the iteration for which a GPU's HB interconnect and NIC are busy with all
        kinds, one direction; never above 1.
    memory: of the fullest rank, by kind [bytes].
    obstacles: what rules a strategy out, bit i for OBSTACLES[i]; 0 for nothing.
    warnings: where groups of ranks lie unevenly in HB domains, as texts.
    """

    total_s: np.ndarray
    breakdown: dict[str, np.ndarray]
    links: dict[str, np.ndarray]
    hb_utilization: np.ndarray
    nic_utilization: np.ndarray
    memory: dict[str, np.ndarray]
    obstacles: np.ndarray
    warnings: tuple[str, ...] = ()

    @property
    def memory_bytes(self) -> np.ndarray:
        """Bytes on the fullest rank."""
        return np.asarray(sum(self.memory.values()))

    @property
    def feasible(self) -> np.ndarray:
        """Whether nothing rules a strategy out."""
        return self.obstacles == 0

    @cached_property
    def limits(self) -> np.ndarray:
        """All that rules a strategy out as a text, such as "layers, memory"; "feasible" where nothing does."""
        return obstacle_names(self.obstacles)

    def one(self) -> IterationTime:
        """Of the only strategy, in numbers."""
        breakdown, links, memory = (
            {name: value.item() for name, value in parts.items()} for parts in (self.breakdown, self.links, self.memory)
        )
        return IterationTime(
            self.total_s.item(),
            breakdown,
            links,
            self.hb_utilization.item(),
            self.nic_utilization.item(),
            memory,
            tuple(name for i, name in enumerate(OBSTACLES) if self.obstacles.item() >> i & 1),
        )

    def table(self) -> pd.DataFrame:
        """One strategy as a table to read: time and memory by kind, with units; of several a row each, in SI units."""
        if self.total_s.size > 1:
            flat = {"total_s": self.total_s, "memory_bytes": self.memory_bytes, "limit": self.limits}
            flat |= {"hb_utilization": self.hb_utilization, "nic_utilization": self.nic_utilization}
            return pd.DataFrame({name: np.ravel(values) for name, values in (flat | self.breakdown).items()})
        return self.one().table()

    def __str__(self) -> str:
        return "\n".join([self.table().to_string(index=False), *self.warnings])

    def _repr_html_(self) -> str:
        return "".join([self.table().to_html(index=False), *(f"<p>{text}</p>" for text in self.warnings)])


def obstacle_names(obstacles: np.ndarray) -> np.ndarray:
    """Texts of OBSTACLES given as bits, "feasible" for 0."""
    codes, place = np.unique(obstacles, return_inverse=True)
    names = [", ".join(name for i, name in enumerate(OBSTACLES) if code >> i & 1) or "feasible" for code in codes]
    return np.asarray(np.asarray(names, object)[place.reshape(np.shape(obstacles))], object)


@checked
def iteration_time(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Count,
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
    fabric: Fabric | None = None,
) -> IterationTime:
    """The time of one iteration, what it consists of, and the memory that it takes.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    runtime
        Training software: a `Runtime`, or its name in the catalog; None for the newest for the GPU.
    strategy
        How it is split over GPUs; or a row of `search`'s tables.
    global_batch
        Sequences of an iteration.
    offload
        What stays in the host's memory: "none", or one or several of "optimizer", "activations", "weights".
    fabric
        That the NICs are on, as `rail_only(...)`, `fat_tree(...)`, or `FailedPart` of one: each kind of traffic gets
        its share of a NIC (`group_shares`). Bandwidths are the machine's. By default NICs alone limit traffic, and
        rails do not meet. Left out are other jobs, uneven spreading over equal paths, and congestion control: a smaller
        `nic_fraction` of the machine gives what a transport takes.

    Returns
    -------
    Seconds and bytes. What does not divide is computed rounded up. Layers need not divide over stages; what is not
    allowed is in `obstacles`.

    Raises
    ------
    ValueError
        For a batch that is no whole number above 0, for another offload, and a fabric that is smaller than the job or
        has smaller HB domains than the machine.

    Examples
    --------
    >>> import railcore as rc
    >>> strategy = rc.Strategy(
    ...     tensor=8, pipeline=4, data=4, sequence_parallel=True, sharding="optimizer"
    ... )
    >>> time = rc.iteration_time("Llama-3 70B", "DGX H100", strategy, global_batch=128)
    >>> round(time.total_s), time.obstacles
    (8, ())
    """
    strategy = as_strategy(strategy)
    return iteration_times(model, machine, strategy, runtime, offload, global_batch, fabric).one()


@checked
def iteration_times(
    model: Transformer | str,
    machine: Machine | str,
    strategies: Strategy | Mapping[str, object] | Sequence[Strategy | Mapping[str, object]],
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
    global_batch: Count | None = None,
    fabric: Fabric | None = None,
) -> IterationEstimate:
    """Iteration time of every strategy, its breakdown, how busy its links are, and memory.

    Ranks are placed tensor first, then context, data, pipeline, or as the strategy's order says; expert ranks are
    neighbours among the context and data ranks. Layers that do not divide over stages are rounded up on the fullest
    one. What a strategy cannot split is computed rounded up, and carries all its obstacles (`indivisible`), as do a
    time that is not finite ("network") and a GPU that is too small ("memory").

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    runtime
        Training software: a `Runtime`, or its name in the catalog; None for the newest for the GPU.
    strategies
        A `Strategy`, several, or a table or a row as `SearchResult.best` has them: values that broadcast, by the names
        in STRATEGY_COLUMNS. They are whole numbers, switches also True or False, and recompute, sharding and placement
        also names in LEVEL_NAMES, else places in it. keep_gathered, ends_as_layers, whole_experts, placement,
        recomputed_layers and recompute_group may be missing; the last two count with full recompute.
    offload
        What the host's memory holds, one of OFFLOADS or several: the optimizer's states and step, activations, weights.
    global_batch
        Sequences of an iteration; with a `Strategy`.
    fabric
        That the NICs are on, as for `iteration_time`.

    Returns
    -------
    An estimate, arrays of the strategies' common shape.

    Raises
    ------
    ValueError
        For a missing column or batch, for values that are not whole or out of range, for unknown names, and for a
        fabric that is smaller than a job or has smaller HB domains than the machine.

    Examples
    --------
    >>> import railcore as rc
    >>> strategies = [
    ...     rc.Strategy(tensor=tensor, data=64 // tensor, sharding="optimizer")
    ...     for tensor in (2, 4, 8)
    ... ]
    >>> times = rc.iteration_times("Llama-3 8B", "DGX H100", strategies, global_batch=128)
    >>> times.total_s.round(1).tolist(), times.limits.tolist()
    ([1.7, 1.9, 2.4], ['feasible', 'feasible', 'feasible'])
    """
    model, machine = as_model(model), as_machine(machine, fabric)
    runtime = as_runtime(runtime, machine)
    away = checked_offload(offload)
    columns, shape = strategy_columns(strategies, global_batch)
    layer_rows, layer_of = unique_rows(columns, LAYER_COLUMNS)
    stage_rows, stage_of = unique_rows(columns, STAGE_COLUMNS)
    stages = stage_costs(model, machine, runtime, away, stage_rows)
    setting = iteration_setting(machine, runtime, away)
    sizes = [columns[name].astype(float) for name in ("micro_batch", "pipeline", "data", "interleave", "global_batch")]
    stage = stages.rows[stage_of].view(np.recarray)
    recomputed = recomputed_layers(columns, stage.layers)
    ends = []
    for on_first_stage in ends_of(model):
        layers = layer_costs(model, machine, runtime, layer_rows, on_first_stage=on_first_stage)
        path = critical_path(layer_records(layers)[layer_of], stage, setting, *sizes, recomputed)
        costs = layers, layer_of, stage, path, recomputed
        ends.append(_End(path, _breakdown(*costs), _links(*costs)))
    path, breakdown, links = _longest(ends)
    wrong = indivisible(model, columns)
    if model.experts and runtime.dispatcher == "nodes":
        inside, domains = group_levels(columns)["expert"].in_domains(machine.hb_domain_size)
        wrong["experts"] = wrong["experts"] | splits_groups(model.expert_groups, inside * domains, domains)
    obstacles = sum(indivisible_by << OBSTACLES.index(name) for name, indivisible_by in wrong.items())
    short = np.asarray(path.short, np.int64)
    obstacles |= ((short & NETWORK) > 0) << OBSTACLES.index("network")
    obstacles |= ((short & MEMORY) > 0) << OBSTACLES.index("memory")
    estimate = IterationEstimate(
        total_s=path.total_s,
        breakdown=breakdown,
        links=links,
        hb_utilization=path.hb_s / path.total_s,
        nic_utilization=path.nic_s / path.total_s,
        memory=_memory(stages, stage_of, path, machine),
        obstacles=obstacles,
        warnings=_placement_warnings(machine, stage_rows),
    )
    return _shaped(estimate, shape)


def recomputed_layers(columns: Columns, layers: np.ndarray) -> np.ndarray:
    """Layers of the fullest stage for which the recompute of strategies is meant: all of them, or some for "full".

    columns: by STRATEGY_COLUMNS. layers: of the stage.
    """
    some = np.where(columns["recompute"] == RECOMPUTE.index("full"), columns["recomputed_layers"], ALL_LAYERS)
    return np.where(some == ALL_LAYERS, layers, np.minimum(some, layers))


class _End(NamedTuple):
    """An iteration with all stages as full as one end of the pipeline: path, and times by kind."""

    path: CriticalPath
    breakdown: Columns
    links: Columns


def ends_of(model: Transformer) -> tuple[bool, ...]:
    """Ends of the pipeline that an iteration is computed for, as `on_first_stage` of `layer_costs`.

    The last stage, and where dense first layers are wide the first stage too.
    """
    return (False, True) if wide_dense_layers(model) else (False,)


def _longest(ends: list[_End]) -> _End:
    """The end with the longer iteration, with the memory of the fuller one; of equal ones the last stage."""
    last, first = ends[0], ends[-1]
    if len(ends) == 1:
        return last
    slower, fuller = first.path.total_s > last.path.total_s, first.path.memory_bytes > last.path.memory_bytes
    longest = each_array(lambda one, other: np.where(slower, one, other), first, last)
    memory = {
        name: np.where(fuller, getattr(first.path, name), getattr(last.path, name))
        for name in ("memory_bytes", "fullest", "activation_bytes")
    }
    short = np.asarray(first.path.short, np.int64) | np.asarray(last.path.short, np.int64)
    return longest._replace(path=longest.path._replace(**memory, short=short))


def iteration_setting(machine: Machine, runtime: Runtime, offload: tuple[str, ...]) -> Any:
    """What `critical_path` needs of a machine and its software: a record of SETTING."""
    values = {
        "overlap_data": runtime.overlap_data,
        "interference": runtime.interference(machine),
        "contends": runtime.contends(machine),
        "memory_bytes": machine.memory_bytes,
        "reserved_bytes": machine.memory.reserved_bytes,
        "host_Bps": machine.host.host_Bps,
        "offload_activations": "activations" in offload,
    }
    return np.array([tuple(values[name] for name in SETTING.names or ())], SETTING).view(np.recarray)[0]


def layer_records(costs: LayerCosts) -> Any:
    """Costs of layers as records of LAYER_ROW."""
    rows = np.zeros(costs.forward_s.shape, LAYER_ROW)
    rows["compute_s"] = costs.compute_s
    busy = {"forward": costs.forward_busy, "backward": costs.backward_busy, "logits": costs.logits_link}
    busy |= {"boundary": costs.boundary_gather, "again": costs.again_busy}
    for name, links in busy.items():
        rows[f"{name}_hb_s"], rows[f"{name}_nic_s"] = links.hb_s, links.nic_s
    rows["boundary_s"] = costs.boundary_gather.time_s
    for name in (
        "forward_s",
        "backward_s",
        "weights_s",
        "logits_s",
        "boundary_bytes",
        "again_s",
        "kept_bytes",
        "spared_bytes",
        "working_bytes",
        "logits_bytes",
    ):
        rows[name] = getattr(costs, name)
    return rows.view(np.recarray)


def _breakdown(
    layers: LayerCosts, layer_of: np.ndarray, stage: Any, path: CriticalPath, recomputed: np.ndarray
) -> Columns:
    m = path.microbatches
    parts = {name: m * stage.layers * layers.seconds[name][layer_of] for name in LAYER_PARTS}
    parts["recompute"] = m * recomputed * layers.again_s[layer_of]
    parts |= {
        "logits": m * path.logits_s,
        "pipeline": m * path.hops_s,
        "bubble": path.bubble_s,
        "data": m * path.data_pass_s + path.data_once_s,
        "optimizer": stage.optimizer_s,
        "offload": m * path.offload_pass_s + stage.offload_s,
        "once": stage.once_s,
        "straggler": path.straggler_s,
    }
    return {name: np.asarray(parts[name.removesuffix("_s")]) for name in TIME_PARTS}


def _links(layers: LayerCosts, layer_of: np.ndarray, stage: Any, path: CriticalPath, recomputed: np.ndarray) -> Columns:
    m = path.microbatches
    others = stage.layers - recomputed
    links = {
        name: m
        * (
            stage.layers * np.asarray(layers.links[name].time_s)[layer_of]
            - others * np.asarray(layers.again_links[name].time_s)[layer_of]
        )
        for name in LINK_KINDS
    }
    links["logits"] = m * stage.logits_share * np.asarray(layers.logits_link.time_s)[layer_of]
    links["pipeline"] = m * path.hops_link_s
    links["data"] = m * (stage.in_forward_s + stage.in_backward_s) + stage.after_s + stage.before_s
    return {f"{name}_link_s": time for name, time in links.items()}


def _memory(stages: StageCosts, stage_of: np.ndarray, path: CriticalPath, machine: Machine) -> Columns:
    fullest = np.asarray(path.fullest, np.int64)
    memory = {
        f"{kind}_bytes": np.choose(fullest, [stages.states[stage][kind][stage_of] for stage in STAGES])
        for kind in stages.states["first"]
    }
    memory["activations_bytes"] = np.asarray(path.activation_bytes)
    return memory | {"reserved_bytes": np.full_like(path.total_s, machine.memory.reserved_bytes)}


def _shaped(estimate: IterationEstimate, shape: tuple[int, ...]) -> IterationEstimate:
    """An estimate in the shape of the strategies."""
    fields: dict[str, Any] = {}
    for name, value in vars(estimate).items():
        if isinstance(value, dict):
            fields[name] = {key: np.reshape(array, shape) for key, array in value.items()}
        else:
            fields[name] = value if isinstance(value, tuple) else np.reshape(value, shape)
    return IterationEstimate(**fields)


def _placement_warnings(machine: Machine, columns: Columns) -> tuple[str, ...]:
    """Which groups of ranks lie unevenly in HB domains, and what that does to the time."""
    groups = group_levels(columns)
    groups = {name: groups[kind] for name, kind in _PLACED.items()}
    uneven = {name: group.lie_unevenly(machine.hb_domain_size) for name, group in groups.items()}
    names = [name for name, strategies in uneven.items() if strategies.any()]
    if not names:
        return ()
    K, some = machine.hb_domain_size, "" if np.logical_or.reduce(list(uneven.values())).all() else " in some strategies"
    fewest = all((K % group.inner_stride[uneven[name]] == 0).all() for name, group in groups.items())
    what = (
        "the one with the fewest ranks in a domain sets the time of all, which is too long rather than too short."
        if fewest
        else "the model takes as many ranks in each domain, so that the time is approximate, perhaps too short."
    )
    whole = _whole_groups(columns, K)
    advice = f" With hb_domain_size={whole} of them in use they lie evenly." if whole > 1 else ""
    return (f"Groups of {' and '.join(names)} ranks lie unevenly in HB domains of {K:,}{some}: {what}{advice}",)


def _whole_groups(columns: Columns, size: int) -> int:
    """Largest number of GPUs in use of a domain with which no group lies unevenly; 0 if below half of the domain."""
    groups = group_levels(columns)
    for used in range(size - 1, max(size // 2, 1) - 1, -1):
        if not any(groups[kind].lie_unevenly(used).any() for kind in _PLACED.values()):
            return used
    return 0


@checked
def stage_memory(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Count,
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
) -> pd.DataFrame:
    """Peak memory of a GPU on each pipeline stage, a row a stage; the fullest is the memory of `iteration_time`.

    Activations are those of the micro-batches in flight (`in_flight`, of v chunks counting 1/v each), of the layer that
    is recomputed, and on the last stage of the logits. From both ends (DualPipe) every rank has two stages and p + 1
    micro-batches of one, and the ends have both. Where layers do not divide, each stage is taken to be as full as the
    fullest.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    strategy
        How the model is split over GPUs: a `Strategy`, or a row of `search`'s tables.
    global_batch
        Sequences of an iteration.
    runtime
        Training software: a `Runtime`, or its name in the catalog; None for the newest for the GPU.
    offload
        What stays in the host's memory: "none", or one or several of "optimizer", "activations", "weights".

    Returns
    -------
    Columns stage, layers, in_flight, then weights, gradients, optimizer, activations, reserved and total [bytes], and
    fits.

    Raises
    ------
    ValueError
        As `iteration_time`.

    Examples
    --------
    >>> import railcore as rc
    >>> strategy = rc.Strategy(tensor=8, pipeline=4, data=2, sequence_parallel=True)
    >>> table = rc.stage_memory("Llama-3 70B", "DGX H100", strategy, global_batch=64)
    >>> print(table[["stage", "layers", "fits"]].to_string(index=False))
     stage  layers  fits
         0    20.0  True
         1    20.0  True
         2    20.0  True
         3    20.0  True
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    runtime, away = as_runtime(runtime, machine), checked_offload(offload)
    columns, _ = strategy_columns(strategy, global_batch)
    costs = stage_costs(model, machine, runtime, away, {name: columns[name] for name in STAGE_COLUMNS})
    stage, p, v = costs.rows.view(np.recarray)[0], strategy.pipeline, strategy.interleave
    m = math.ceil(global_batch / (strategy.data * strategy.micro_batch))
    dual, number = bool(runtime.dual(p, v)), np.arange(p)
    position = np.where(number == 0, 0, np.where(number == p - 1, 2, 1))  # in STAGES
    layers = np.choose(position, [stage.first_layers, stage.layers, stage.last_layers])
    in_flight = np.minimum(p + 1, m) + 0.0 * number if dual else microbatches_in_flight(p, m, v, number)
    has_logits = (number == p - 1) | (dual & (number == 0))
    recomputed = strategy.recomputed_layers or stage.layers  # ALL_LAYERS is 0
    table = pd.DataFrame({"stage": number, "layers": layers, "in_flight": in_flight})
    for kind in costs.states["first"]:
        table[kind] = np.choose(position, [costs.states[name][kind][0] for name in STAGES])
    tables = []
    for on_first_stage in ends_of(model):
        layer = layer_costs(model, machine, runtime, columns, on_first_stage=on_first_stage)
        kept_layers, spared_layers = in_flight * layers, in_flight * np.maximum(layers - recomputed, 0.0)
        if "activations" in away:
            kept_layers = np.full(p, float(LAYERS_IN_MEMORY))
            spared_layers = kept_layers * (stage.layers > recomputed)
        activations = kept_layers * layer.kept_bytes + spared_layers * layer.spared_bytes
        activations = activations + layer.working_bytes + layer.logits_bytes * has_logits
        of_end = table.assign(activations=activations, reserved=machine.memory.reserved_bytes)
        tables.append(of_end.assign(total=of_end[list(_MEMORY)].sum(axis=1)))
    fullest = max(tables, key=lambda table: table["total"].max())
    return fullest.assign(fits=fullest["total"] <= machine.memory_bytes)
