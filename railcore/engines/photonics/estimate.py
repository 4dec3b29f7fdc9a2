"""Closed-form estimate of what photonic rails add to an iteration, for sweeps over delays, GPUs and strategies.

Symbols: p stages of v chunks with L layers each, V = p v; m micro-batches; d time of a change of circuits; f and b
forward and backward pass of a layer; g and r AllGather of its weights and sum of its gradients; h a hop to the next
stage. Traffic of data and context ranks needs other circuits than hops do.

Source: photonic2025, sections 3.1 and 4.2 (phases of a pipeline, changes that windows hide).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.engines.search import search, strategy_label
from railcore.engines.steps.stage_program import DEFAULT_STEP, StepOptions, fsdp_options
from railcore.engines.strategies.iteration import STRATEGY_COLUMNS, iteration_times, strategy_columns
from railcore.engines.strategies.layer_time import layer_costs
from railcore.facts.arguments import checked
from railcore.facts.checks import Floats, at_least, one_of, whole
from railcore.training.collectives import rings_time
from railcore.training.machine import Machine, as_machine
from railcore.training.rank_order import group_levels
from railcore.training.runtime import MODERN, Runtime
from railcore.training.transformer import SHARDING, Transformer, as_model
from railcore.training.transformer_memory import GRADIENT_BYTES, WEIGHT_BYTES

_KEYS_BYTES = 2  # an element of keys and values in bf16
STEP_SOFTWARE: dict[str, tuple[str, StepOptions]] = {
    "data parallel": ("none", DEFAULT_STEP),
    "ZeRO-1": ("optimizer", DEFAULT_STEP),
    "ZeRO-2": ("gradients", DEFAULT_STEP),
    "FSDP, weights kept": ("weights", fsdp_options()),
    "FSDP, resharded": ("weights", DEFAULT_STEP),
}


@dataclass(frozen=True)
class OverheadEstimate:
    """Times [s] of an iteration, arrays of one shape.

    iteration_s: on photonic rails; electrical_s: on electrical rails of equal bandwidth, by the same model.
    """

    iteration_s: Floats
    electrical_s: Floats

    @property
    def overhead(self) -> Floats:
        """Share that reconfiguration adds."""
        return self.iteration_s / self.electrical_s - 1


@dataclass(frozen=True)
class _Step:
    """Times [s] and counts of a step, arrays of one shape; symbols as in the module.

    logits_s, optimizer_s: of logits and optimizer.
    keys: gather of a layer's keys and values over the rails.
    edge_g, edge_r, head_g, head_r: g and r of the embedding and of the output.
    hops, data: whether there are hops over the rails, and context or data ranks that share weights.
    first, every: weights are gathered in the first forward pass, in every pass.
    sums: gradients are exchanged in every backward pass, else in the last.
    ring: context ranks use the rails in every pass.
    both: on circuits other than the data ranks'.
    """

    p: Any
    v: Any
    m: Any
    L: Any
    f: Any
    b: Any
    g: Any
    r: Any
    h: Any
    logits_s: Any
    optimizer_s: Any
    keys: Any
    edge_g: Any
    edge_r: Any
    head_g: Any
    head_r: Any
    hops: Any
    data: Any
    first: Any
    every: Any
    sums: Any
    ring: Any
    both: Any


@checked
def overhead_estimate(
    model: Transformer | str,
    machine: Machine | str,
    strategies: Mapping,
    reconfiguration_s: ArrayLike,
    provisioning: bool = False,
    options: StepOptions = DEFAULT_STEP,
    runtime: Runtime = MODERN,
    ports: int = 2,
) -> OverheadEstimate:
    """Iteration time on photonic rails and on electrical ones, in closed form.

    T(d) = P(d) + ((m - p) v + p - 1) C(d) + optimizer

    P: one micro-batch through all V chunks and back, with hops and changes. C: what another one adds, a forward and a
    backward pass of a chunk with their changes, on the slowest stage. Each change adds max(0, d - w), w = 0 without
    provisioning. With it, w is how long the ports are free before they are needed:

    - hop, then AllGather or keys and values: 0, since these are asked for when the input is there;
    - AllGather, then hop: f + max(0, f - g), what is left of the pass;
    - hop, then sum of gradients: b, or the whole pass L b with `gradients_after_pass`;
    - sum of gradients, then hop: what is left of the pass, or 0 with `gradients_after_pass`;
    - traffic of data ranks, then the short AllReduces of the pipeline: 0; these, then AllGather: the optimizer.

    Provisioned or not: gradients summed behind a pass hide their change as far as the pass reaches; data ranks on other
    circuits than context ranks change twice a layer, 2 d; a hop between AllGathers of interleaved chunks changes twice,
    less 2 f of the layers that go on. With weights kept (`fsdp_options`), v = 1 and m > 1, there are 4 V changes: V
    before AllGathers and V after them, V before ReduceScatters, V - 1 after them, 1 before the short AllReduces.
    Nothing changes where the ports have circuits for all kinds of traffic.

    Against the simulation (data/derived/photonic_runs.csv): without interleaving and context ranks on the rails the
    electrical time is within 3%, and the overhead to a few percent of itself, but for sums of gradients in every pass
    or longer than it (ZeRO-2, AllReduces: 0.5 to 2.2 times). Context ranks: 1 to 1.5 times. Interleaved, hops of other
    micro-batches fall between AllGathers, which is estimated roughly: most within 2 times, some far below; simulate.

    Parameters
    ----------
    model, machine, runtime
        As for `iteration_times`.
    strategies
        Columns as for `iteration_times`, such as `Strategy.columns(global_batch)`.
    reconfiguration_s
        d, of the switch with its control plane; broadcasts with the strategies [s].
    provisioning
        Whether circuits change before they are asked for.
    options
        How the software runs a step.
    ports
        Of a NIC; a ring takes two. They only decide whether circuits change: with fewer rings than kinds of traffic on
        the rails the estimate is that of one ring.

    Returns
    -------
    Times of each strategy and delay.

    Raises
    ------
    ValueError
        As `iteration_times`; for negative delays; for expert ranks, whose exchanges `photonic_overhead` simulates.
    """
    model, machine = as_model(model), as_machine(machine)
    d, circuits = at_least("reconfiguration_s", reconfiguration_s), int(whole("ports", ports, least=2)) // 2
    optimizer_s = iteration_times(model, machine, strategies, runtime).breakdown["optimizer_s"]
    flat, shape = strategy_columns(strategies, None)
    columns = {name: values.reshape(shape) for name, values in flat.items()}
    if (columns["expert"] > 1).any():
        raise ValueError("expert is more than 1: these exchanges have no closed form, take circuits.photonic_overhead")
    step, kinds = _read_step(model, machine, columns, options, runtime, optimizer_s)
    slow = np.where(kinds > circuits, d, 0.0)
    times = [_Iteration(step, each, provisioning, options).total_s() for each in (slow, np.zeros_like(d))]
    return OverheadEstimate(*np.broadcast_arrays(*times))


def _ring_s(machine: Machine, size: Any, inside: Any, domains: Any) -> Any:
    """AllGather or ReduceScatter as rings, which take a step to every other domain."""
    time = rings_time(size, inside, domains, machine.collective_hb_Bps, machine.collective_nic_Bps)
    return time + (domains - 1) * machine.links.nic_latency_s


def _read_step(
    model: Transformer,
    machine: Machine,
    columns: dict[str, Any],
    options: StepOptions,
    runtime: Runtime,
    optimizer_s: Any,
) -> tuple[_Step, Any]:
    """Times of a step, and how many kinds of traffic leave their HB domain."""
    columns = dict(zip(columns, np.broadcast_arrays(*columns.values()), strict=True))
    names = ("tensor", "context", "pipeline", "data", "interleave", "micro_batch", "sharding", "global_batch")
    t, c, p, data_ranks, v, size, level, batch = (columns[name] for name in names)
    layer, layers = layer_costs(model, machine, runtime, columns), model.layers
    held, mixed = model.rank_parameters(t), model.mixture_share
    parts = held.layers(1 - mixed, mixed) + mixed * held.experts, held.first, held.last(p)
    spread = {kind: group.in_domains(machine.hb_domain_size) for kind, group in group_levels(columns).items()}
    on_rails = {kind: domains > 1 for kind, (_, domains) in spread.items()}
    rate, latency = machine.hop_link(~on_rails["pipeline"])
    n, twice = c * data_ranks, np.where(level == SHARDING.index("none"), 2, 1)
    gather_times, sum_times = (
        [_ring_s(machine, bytes_each * part, *spread["replica"]) for part in parts]
        for bytes_each in (WEIGHT_BYTES, GRADIENT_BYTES)
    )
    keys = _KEYS_BYTES * model.key_value_elements(t) * size * model.sequence_length
    own = on_rails["replica"] & (data_ranks > 1)  # else the data ranks' circuits are the context ranks'
    step = _Step(
        p=p,
        v=v,
        m=np.ceil(batch / (data_ranks * size)),
        L=np.ceil(layers / (p * v)),
        f=layer.forward_s,
        b=layer.backward_s,
        g=gather_times[0],
        r=twice * sum_times[0],
        h=(p > 1) * (latency + layer.boundary_bytes / rate + layer.boundary_gather.time_s),
        logits_s=layer.logits_s,
        optimizer_s=optimizer_s,
        keys=_ring_s(machine, keys, *spread["context"]),
        edge_g=gather_times[1],
        edge_r=twice * sum_times[1],
        head_g=gather_times[2],
        head_r=twice * sum_times[2],
        hops=on_rails["pipeline"],
        data=n > 1,
        first=(n > 1) & (level >= SHARDING.index("optimizer")),
        every=(n > 1) & (level == SHARDING.index("weights")) & options.reshard_after_forward,
        sums=(n > 1) & (level >= SHARDING.index("gradients")) & (not options.accumulate_gradients),
        ring=on_rails["context"],
        both=on_rails["context"] & own,
    )
    return step, own.astype(int) + on_rails["context"] + on_rails["pipeline"]


@dataclass(frozen=True)
class _Iteration:
    """T(d) of steps. early: with provisioning."""

    s: _Step
    d: Any
    early: bool
    options: StepOptions

    @property
    def after(self) -> bool:
        """Whether gradients are summed after a pass."""
        return self.options.gradients_after_pass

    @property
    def sums_pipeline(self) -> bool:
        """Whether a short AllReduce over the pipeline ends the step."""
        return "pipeline" in self.options.sync_groups

    @property
    def always(self) -> Any:
        """Whether all passes have traffic besides hops."""
        return self.s.every | self.s.ring

    def change(self, window_s: Any = 0.0, where: Any = True) -> Any:
        """What a change between hops and other traffic adds."""
        return np.where(self.s.hops & where, np.maximum(self.d - self.early * window_s, 0.0), 0.0)

    def gathered(self, layer_s: Any, where: Any, sums_s: Any = 0.0) -> Any:
        """A pass with an AllGather before each layer, one layer ahead, and sums of gradients behind them."""
        s, rails = self.s, where * self.s.g + sums_s
        rails = rails + np.where(s.both & (rails > 0), s.keys + 2 * self.d, 0.0)
        return where * s.g + (s.L - 1) * np.maximum(layer_s, rails) + layer_s

    def late(self, layer_s: Any, more_s: Any) -> Any:
        """What a longer AllGather of a pass's last layer adds."""
        return np.maximum(self.s.g + more_s - np.maximum(layer_s, self.s.g), 0.0)

    def window(self) -> Any:
        """How long the ports are free at the end of a forward pass."""
        s = self.s
        left = s.f + np.where(s.L > 1, np.maximum(s.f - s.g, 0.0), 0.0)
        return np.where(s.ring, np.maximum(s.f - s.keys, 0.0), left)

    def between(self) -> Any:
        """What a hop between two AllGathers adds: two changes, less the layers that go on."""
        return np.where(self.s.hops & (self.s.v > 1), np.maximum(2 * (self.d - self.s.f), 0.0), 0.0)

    def backward(self, sums: Any, new: Any = True, head_s: Any = 0.0) -> tuple[Any, Any, Any]:
        """A backward pass: time till its hop can start, window before that, and what its sums take beyond.

        sums: whether gradients are exchanged; new: on circuits that are not up; head_s: of the output.
        """
        s, sums, behind = self.s, sums & self.s.data, sums & self.s.data & (not self.after)
        whole_s, several = s.L * s.b, s.L > 1
        # with AllGathers, keys and values in the pass
        rails = np.maximum(s.b, s.g + s.r)
        inside = self.gathered(s.b, s.every, behind * s.r)
        inside += behind * s.every * several * np.maximum(s.g + s.r + head_s - rails, 0.0)
        slack = s.b + np.where(s.every, np.maximum(s.b - s.g, 0.0), 0.0)
        slack = np.where(behind & several, np.maximum(s.b - s.r, 0.0), slack)
        # Alone: each sum is asked for after the one before, so the hop waits for the one that it meets, and goes first.
        start = s.b + self.change(s.b, new) + head_s
        known = s.b + self.d * (s.hops & new) + head_s  # when the order is learnt, without provisioning
        met = np.clip(np.ceil((whole_s - known) / np.maximum(s.r, 1e-30)), 1, np.maximum(s.L - 1, 1))
        on_time = (s.L - 1) * s.b + s.r
        done = np.where(known + (s.L - 1) * s.r > on_time, start + met * s.r, on_time)
        done = np.where(behind & several, done, 0.0)
        alone = np.maximum(whole_s, done)
        rest = np.where(behind, np.maximum(start + s.L * s.r, whole_s + s.r) - alone, 0.0)
        time, free = np.where(self.always, inside, alone), np.where(self.always, slack, alone - done)
        if self.after:
            time = time + np.where(sums, self.change(whole_s, new & ~self.always) + s.L * s.r + head_s, 0.0)
            free = np.where(sums, 0.0, free)
        return time, free, np.where(self.always, behind * s.r, rest)

    def forward_s(self) -> Any:
        """The first micro-batch through all chunks, and on the last stage to the next one."""
        s, rings = self.s, self.s.first | self.s.ring
        V, first = s.p * s.v, self.gathered(s.f, s.first)
        time = (
            self.change(s.optimizer_s, rings & self.sums_pipeline)
            + V * first
            + s.first * (s.edge_g + self.late(s.f, s.head_g))
        )
        time += (V - 1) * (self.change(self.window(), rings) + s.h + self.change(0.0, rings)) + s.logits_s
        # Interleaved, later micro-batches' hops fall between AllGathers till the last has come, one a layer at most.
        coming = (s.p - 1) * first
        met = np.minimum(np.ceil(coming / np.maximum(2 * self.d - s.f, s.f)), s.L - 1)
        time += np.where(s.first & ~s.every & (self.d < coming), V * met * self.between(), 0.0)
        turns = s.first & ~self.always & ~s.sums & (s.m > 1)
        return time + self.change(self.window() + s.L * s.b + s.logits_s, turns)

    def backward_s(self) -> Any:
        """The last micro-batch back through all chunks, and the short AllReduces."""
        s, V = self.s, self.s.p * self.s.v
        last, last_free, last_rest = self.backward(True, (s.m > 1) | ~s.first, s.head_r)
        other, free, rest = self.backward(True)
        changes = self.always | (s.data & ((s.L > 1) | self.after))
        time = last + (V - 1) * (s.h + self.change(0.0, self.always) + other)
        time += (V > 1) * self.change(last_free, changes) + np.maximum(V - 2, 0) * self.change(free, changes)
        time += s.every * (s.head_g + self.late(s.b, s.edge_g)) + np.where(V > 1, rest, last_rest) + s.data * s.edge_r
        return time + self.change(0.0, (s.data | s.ring) & self.sums_pipeline)

    def cycle_s(self) -> Any:
        """C(d), on the slowest of the last stage, the first one and those between them."""
        s, single = self.s, self.s.v == 1
        other, free, _ = self.backward(s.sums)
        head = self.backward(s.sums, True, s.head_r)[0] - other
        both = self.gathered(s.f, s.every) + other + np.where(s.every & s.sums, s.r, 0.0)
        once = self.change(0.0, self.always) + self.change(free, self.always | (s.sums & s.data & (s.L > 1)))
        twice = once + self.change(0.0, self.always) + self.change(self.window(), self.always)
        twice += np.where(self.always, self.between(), 0.0)  # assumed: in one of the two passes
        at_head = (s.logits_s + head + s.every * (self.late(s.f, s.head_g) + s.head_g)) / s.v
        at_edge = s.every * (s.edge_g + self.late(s.b, s.edge_g) + s.sums * s.edge_r) / s.v
        ends = np.maximum(at_head, at_edge) + single * s.h + np.where(single, once, twice)
        inner = np.where(s.p * s.v > 2, 2 * single * s.h + twice, 0.0)
        return both + np.where(s.p == 1, at_head + at_edge, np.maximum(ends, inner))

    def total_s(self) -> Any:
        """T(d)."""
        s = self.s
        more = (s.m - s.p) * s.v + s.p - 1
        return self.forward_s() + self.backward_s() + more * self.cycle_s() + s.optimizer_s


@checked
def technology_overheads(
    models: Sequence[str],
    machine: Machine | str,
    gpus: Sequence[int],
    reconfiguration_s: ArrayLike,
    global_batch: int,
    software: Sequence[str] = ("ZeRO-1",),
    provisioning: bool = True,
    **limits: Any,
) -> pd.DataFrame:
    """Estimated overhead over GPUs and delays, each cluster with its best strategy on electrical rails.

    Parameters
    ----------
    models, machine
        Names in the catalog; a GPU and its links.
    gpus, reconfiguration_s
        GPUs of the clusters; times of a change [s].
    global_batch
        Sequences of an iteration.
    software
        Names in STEP_SOFTWARE. Kept weights need the memory of ZeRO-1.
    provisioning
        Whether circuits change before they are asked for.
    **limits
        Of `search`, such as pipeline=[4, 8, 16]; by default without context ranks, and tensor ranks first.

    Returns
    -------
    Columns model, software, gpus, strategy ("none fits" where no strategy does), reconfiguration_s, electrical_s,
    overhead (NaN there).
    """
    delays = np.atleast_1d(at_least("reconfiguration_s", reconfiguration_s))
    kinds = {name: STEP_SOFTWARE[one_of("software", name, tuple(STEP_SOFTWARE))] for name in software}
    memories = {name: held if step.reshard_after_forward else "optimizer" for name, (held, step) in kinds.items()}
    # The estimate is rough with context ranks on the rails.
    asked = {"context": 1, "placement": "tensor first", **limits, "top": 1, "only_best": True}
    sizes, parts = pd.Index(gpus, name="gpus"), []
    for model in models:
        best = {
            held: pd.concat(
                [search(model, machine, n, global_batch, **{"sharding": held, **asked}).best for n in gpus],
                keys=gpus,
            ).droplevel(1)
            for held in set(memories.values())
        }
        for name, (_, options) in kinds.items():
            rows = best[memories[name]]
            table = pd.DataFrame("none fits", index=sizes, columns=["strategy"])
            over = pd.DataFrame(np.nan, index=sizes, columns=delays)
            table["electrical_s"] = np.nan
            if len(rows):
                found = overhead_estimate(model, machine, rows, delays[:, None], provisioning, options)
                table.loc[rows.index, "strategy"] = [strategy_label(row) for row in rows.to_dict("records")]
                table.loc[rows.index, "electrical_s"] = found.electrical_s[0]
                over.loc[rows.index] = found.overhead.T
            cells = over.melt(ignore_index=False, var_name="reconfiguration_s", value_name="overhead")
            cells["reconfiguration_s"] = cells["reconfiguration_s"].astype(float)
            parts.append(table.join(cells).reset_index().assign(model=model, software=name))
    order = ["model", "software", "gpus", "strategy", "reconfiguration_s", "electrical_s", "overhead"]
    return pd.concat(parts, ignore_index=True)[order]


@checked
def estimates_of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Simulated runs with their estimates.

    runs: columns model, platform, software (in STEP_SOFTWARE), tensor, context, pipeline, data, interleave,
    global_batch, reconfiguration_s, provisioning, electrical_s, overhead. Added: rails ("context ranks",
    "interleaved" or "plain"), estimated_electrical_s, estimated.
    """
    same = ["model", "platform", "software", "provisioning"]
    fixed = {"expert": 1, "micro_batch": 1, "recompute": "none"}
    parts = []
    for (model, platform, software, early), part in runs.groupby(same, sort=False):
        sharding, options = STEP_SOFTWARE[software]
        columns = {name: part[name].to_numpy() for name in STRATEGY_COLUMNS if name in part}
        columns |= fixed | {"sharding": sharding, "sequence_parallel": columns["tensor"] > 1}
        found = overhead_estimate(model, platform, columns, part["reconfiguration_s"], bool(early), options)
        parts.append(part.assign(estimated_electrical_s=found.electrical_s, estimated=found.overhead))
    table = pd.concat(parts).sort_index()
    rails = np.select([table["context"] > 1, table["interleave"] > 1], ["context ranks", "interleaved"], "plain")
    return table.assign(rails=rails)


def estimate_errors(table: pd.DataFrame) -> pd.DataFrame:
    """How far the estimates of `estimates_of_runs` are off, by kind of strategy.

    Columns rails, software, runs, time_error (largest of the electrical iteration, as a share); median_error and
    largest_error of the overhead [share of the iteration]; low and high: least and largest ratio of estimate and
    simulation where this has an overhead of 1% or more.
    """
    error = (table["estimated"] - table["overhead"]).abs()
    ratio = (table["estimated"] / table["overhead"]).where(table["overhead"] >= 0.01)
    of_time = (table["estimated_electrical_s"] / table["electrical_s"] - 1).abs()
    each = table[["rails", "software"]].assign(error=error, ratio=ratio, of_time=of_time)
    return (
        each.groupby(["rails", "software"], sort=False)
        .agg(
            runs=("error", "size"),
            time_error=("of_time", "max"),
            median_error=("error", "median"),
            largest_error=("error", "max"),
            low=("ratio", "min"),
            high=("ratio", "max"),
        )
        .reset_index()
    )
