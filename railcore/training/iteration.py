"""The time of a training iteration, for one strategy: the model, as one would explain it.

A pipeline of p stages passes m micro-batches. The fullest stage sets the pace. It works on its n layers forward and
backward, exchanges what is sharded, sends to its neighbours, and computes the logits. Then:

    T = m (passes + exchanges of every pass + hops + logits) + bubble + exchanges once an iteration
        + optimizer step + what is done once + waiting for the slowest GPU

Communication hides behind compute as far as the software can, and as far as the links are free: what one kind takes of
a link, another has not. What hides slows the compute beside it.

`engines.strategies` computes the same for arrays of strategies, and `engines.search` for millions of them; tests hold
both to this model.

Source: railonly2025, Iteration Time Modeling; Narayanan et al. 2021, arXiv:2104.04473, Section 2.2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import pandas as pd

from railcore.facts.arguments import checked
from railcore.facts.checks import whole
from railcore.facts.units import show
from railcore.training.expert_dispatch import parts_groups
from railcore.training.group_shares import Fabric
from railcore.training.layer import LayerTime, layer_time
from railcore.training.link_times import LinkTimes, exposed_time
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy, indivisible
from railcore.training.pipeline_schedule import LAYERS_IN_MEMORY, dualpipe_bubble_time, microbatches_in_flight
from railcore.training.rank import Rank, wide_dense_layers
from railcore.training.runtime import Runtime, checked_offload
from railcore.training.software import as_runtime
from railcore.training.stage import Stage, stage_of
from railcore.training.transformer import Transformer, as_model

_MEMORY = ("weights", "gradients", "optimizer", "activations", "reserved")  # kinds of a GPU's memory


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


@checked
def iteration_time(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping,
    global_batch: int,
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
    fabric: Fabric | None = None,
) -> IterationTime:
    """The time of one iteration, what it consists of, and the memory that it takes.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software; names of the catalog do. None for the newest software for
        the GPU.
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
    """
    rank, away, m = _read(model, as_machine(machine, fabric), strategy, global_batch, runtime, offload)
    ends = [_with_layers_of(end, away, m) for end in _ends(rank)]
    longest, fullest = max(ends, key=attrgetter("total_s")), max(ends, key=attrgetter("memory_bytes"))
    limits = _obstacles(rank, global_batch, longest.total_s, fullest.memory_bytes)
    return replace(longest, memory=fullest.memory, obstacles=limits)


def _ends(rank: Rank) -> list[Rank]:
    """The rank on the last stage, and where the dense first layers are wide also on the first one."""
    both = rank.strategy.pipeline > 1 and wide_dense_layers(rank.model)
    return [rank, *[replace(rank, on_first_stage=True)] * both]


def _stage(rank: Rank, away: tuple[str, ...]) -> Stage:
    """The fullest stage, with the experts of the last one."""
    return stage_of(replace(rank, on_first_stage=False), away)


def _with_layers_of(rank: Rank, away: tuple[str, ...], m: int) -> IterationTime:
    """`iteration_time` with all stages as full as the rank's; obstacles apart."""
    layer, stage, strategy = layer_time(rank), _stage(rank, away), rank.strategy
    n, p, v = stage.layers, strategy.pipeline, strategy.interleave

    # 1. One micro-batch in the fullest stage: its layers forward and backward, with the exchanges of every pass.
    offloaded = n * layer.kept_bytes * ("activations" in away) + stage.streamed_bytes
    forward = _stage_pass(rank, n, layer.forward_s, layer.forward_busy, stage.in_forward, offloaded)
    backward = _stage_pass(rank, n, layer.backward_s, layer.backward_busy, stage.in_backward, offloaded)
    passes_s = forward.time_s + backward.time_s + stage.copies_s
    busy = forward.busy.plus(backward.busy)

    # 2. Hops: two a chunk, one forward, one backward; a stage sends and receives at once. They hide behind other chunks
    # while the links are free.
    hops = _hops(rank, layer, stage)
    dual = bool(rank.runtime.dual(p, v))
    spare = (rank.strategy.ends_as_layers + stage.spare) / 2 if dual else stage.spare
    free_s = passes_s - max(busy.hb_s, busy.nic_s)
    hidden, hidden_last = (
        hops.time_s - float(exposed_time(hops.time_s, share * free_s, rank.lost)) if stage.hops_hide else 0.0
        for share in (1.0, 1 - spare / n)
    )
    steady_s, busy = passes_s + hops.time_s - hidden, busy.plus(hops)

    # 3. Logits and loss on the last stage, beyond the layer whose place they may take. From both ends, each rank that
    # has that stage meets half of the micro-batches there. With fewer layers it hides less of its hops.
    relief_s = spare * passes_s / n - (hidden - hidden_last)
    logits_s = max(layer.logits_s / (2 if dual else 1) - relief_s, 0.0)

    # 4. The pipeline fills and drains: every other stage's passes, over the chunks, and their hops. From both ends it
    # has half of the way, and the weights' gradients for the time that is left.
    critical_hops = (p * v - 1 if stage.hops_hide else stage.others) * hops.time_s / v
    filled, filling_s = stage.others / v, stage.others * passes_s / v
    if dual:
        filled, each_s = max((stage.others - 1) / 2, 0.0), backward.time_s + stage.copies_s
        alone_s = layer.backward_s - layer.weights_s
        inputs = _stage_pass(rank, n, alone_s, layer.backward_busy, stage.in_backward, offloaded)
        weights = backward.time_s - inputs.time_s, min(m / (2 * p), 1.0)
        filling_s = dualpipe_bubble_time(stage.others + 1, forward.time_s, each_s, *weights)
    bubble_s = float(filling_s) + (critical_hops if p > 1 else 0.0)

    # 5. Exchanges once an iteration: gradients leave as chunks end their last backward pass, weights come before.
    exchanged_once_s = 0.0
    for link, one_pass in ((stage.after, backward), (stage.before, forward)):
        # The last stage may have fewer layers to hide it.
        hiding = (1 - spare / n) * one_pass.time_s * steady_s / passes_s if rank.runtime.overlap_data else 0.0
        least = _never_hidden(rank, link, n)
        exchanged_once_s += _exposed_once(link, busy, steady_s, hiding, v, min(p, m), least)

    # 6. The slowest of all GPUs is waited for.
    straggler_s = stage.spread * (m * (n * layer.compute_s + logits_s) + filled * n * layer.compute_s)

    breakdown = {f"{kind}_s": m * n * time for kind, time in layer.seconds.items()} | {
        "logits_s": m * logits_s,
        "pipeline_s": m * (hops.time_s - hidden),
        "bubble_s": bubble_s,
        "data_s": m * (forward.exchange_s + backward.exchange_s + stage.copies_s) + exchanged_once_s,
        "optimizer_s": stage.optimizer_s,
        "offload_s": m * (forward.offload_s + backward.offload_s) + stage.offload_s,
        "once_s": stage.once_s,
        "straggler_s": straggler_s,
    }
    total_s = sum(breakdown.values())
    exchanges = stage.in_forward.plus(stage.in_backward).times(m).plus(stage.after).plus(stage.before)
    links = {f"{kind}_link_s": m * n * link.time_s for kind, link in layer.links.items()} | {
        "logits_link_s": m * layer.logits_link.time_s / (2 if dual else 1),
        "pipeline_link_s": m * hops.time_s,
        "data_link_s": exchanges.time_s,
    }
    all_busy = busy.times(m).plus(layer.logits_link.times(m * logits_s / layer.logits_s))
    all_busy = all_busy.plus(stage.after).plus(stage.before)
    return IterationTime(
        total_s=total_s,
        breakdown={kind: float(time) for kind, time in breakdown.items()},
        links={kind: float(time) for kind, time in links.items()},
        hb_utilization=float(all_busy.hb_s / total_s),
        nic_utilization=float(all_busy.nic_s / total_s),
        memory=_fullest(_memory_by_stage(rank, layer, stage, m, away)),
        obstacles=(),
    )


def _read(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping,
    global_batch: int,
    runtime: Runtime | str | None,
    offload: str | Sequence[str],
) -> tuple[Rank, tuple[str, ...], int]:
    """What was asked for: a rank of the job, what stays in the host's memory, and m micro-batches."""
    box = as_machine(machine)
    rank = Rank(as_model(model), box, as_runtime(runtime, box), as_strategy(strategy))
    each = rank.strategy.data * rank.strategy.micro_batch
    return rank, checked_offload(offload), math.ceil(int(whole("global_batch", global_batch)) / each)


@dataclass(frozen=True)
class _StagePass:
    """A micro-batch's forward or backward pass of a stage.

    time_s: of it.
    exchange_s: of that, exchanges that it does not hide.
    offload_s: waiting for the host's link.
    busy: of its links.
    """

    time_s: float
    exchange_s: float
    offload_s: float
    busy: LinkTimes


def _stage_pass(
    rank: Rank, n: int, layer_s: float, layer_busy: LinkTimes, exchange: LinkTimes, offloaded_bytes: float
) -> _StagePass:
    """n layers one after the other, with an exchange a layer that hides behind all but one of them.

    The window is W = (n - 1) layers. Exposed is the largest of: what is longer than W; what one link has beyond what
    other kinds leave it of W; one layer's part, which nothing hides, and what compute loses beside the rest.

    Parameters
    ----------
    rank
        With its runtime.
    n, layer_s, layer_busy
        Layers, the time of one, and what it keeps links busy for.
    exchange
        Of all layers.
    offloaded_bytes
        To or from the host in the pass.

    Returns
    -------
    The pass.
    """
    work, busy = n * layer_s, layer_busy.times(n)
    window = (n - 1) / n if rank.runtime.overlap_data else 0.0
    exposed = max(
        exchange.time_s - window * work,
        exchange.hb_s - window * (work - busy.hb_s),
        exchange.nic_s - window * (work - busy.nic_s),
        _never_hidden(rank, exchange, n),
    )
    time_s = max(work + exposed, offloaded_bytes / rank.machine.host.host_Bps)
    return _StagePass(time_s, exposed, time_s - work - exposed, busy.plus(exchange))


def _hops(rank: Rank, layer: LayerTime, stage: Stage) -> LinkTimes:
    """Sends of a micro-batch to both neighbours, forward and backward, for each chunk of the stage."""
    if rank.strategy.pipeline == 1:
        return LinkTimes(0.0, 0.0, 0.0)
    on_link_s, gather = layer.boundary_bytes / stage.hop_Bps, layer.boundary_gather
    hop = LinkTimes(
        on_link_s + stage.hop_latency_s + gather.time_s,
        (0.0 if stage.hop_on_nic else on_link_s) + gather.hb_s,
        (on_link_s if stage.hop_on_nic else 0.0) + gather.nic_s,
    )
    return hop.times(2 * rank.strategy.interleave)


def _never_hidden(rank: Rank, exchange: LinkTimes, n: int) -> float:
    """Of an exchange: one of n layers' part, and what compute loses beside the rest [s].

    It loses its share of each second, or, where both want the memory, of each second that the HB interconnect is busy.
    """
    beside = exchange.hb_s if rank.runtime.contends(rank.machine) else exchange.time_s
    return float(exchange.time_s / n + rank.lost * (1 - 1 / n) * beside)


def _exposed_once(
    link: LinkTimes, busy: LinkTimes, steady_s: float, pass_s: float, v: int, last: int, least_s: float
) -> float:
    """What is exposed of an exchange that comes once an iteration.

    It goes on at the rate r that the fuller of its links has left, 1 - busy / time. A chunk's gradients leave after its
    last micro-batch, while `last` micro-batches of each chunk that remains run backward: behind r t_b (1 + (v - 1)
    last) / v in all, and the last chunk's own share behind r t_b / v.

    Parameters
    ----------
    link
        Times of the exchange.
    busy, steady_s
        Of links in a micro-batch's steady time.
    pass_s
        t_b, of the pass behind which it hides; 0 where nothing is hidden.
    v, last
        Chunks, and micro-batches that remain.
    least_s
        What is never hidden.

    Returns
    -------
    Seconds.
    """
    shares = [1 - used / steady_s for used, own in ((busy.hb_s, link.hb_s), (busy.nic_s, link.nic_s)) if own]
    behind = min([1.0, *shares]) * pass_s
    return max((link.time_s - behind) / v, link.time_s - behind * (1 + (v - 1) * last) / v, least_s)


def _memory_by_stage(
    rank: Rank, layer: LayerTime, stage: Stage, m: int, away: tuple[str, ...]
) -> list[dict[str, float]]:
    """Layers, micro-batches in flight and bytes by _MEMORY on a GPU of each stage.

    Early stages have more micro-batches in flight; the ends have fewer layers and embedding or logits. From both ends
    (DualPipe) every rank has two stages and p + 1 micro-batches of one, and the ends have both.
    """
    p, v, rows = rank.strategy.pipeline, rank.strategy.interleave, []
    dual = bool(rank.runtime.dual(p, v))
    for place in range(p):
        kind = "first" if place == 0 else "last" if place == p - 1 else "middle"
        early, late = stage.layers - rank.strategy.ends_as_layers, stage.layers - stage.spare + rank.model.mtp_layers
        ends: dict[str, float] = {"first": early, "last": late, "middle": stage.layers}
        if p == 1:
            ends["first"] = late
        elif dual:
            ends["first"] = ends["last"] = (early + late) / 2
        layers = ends[kind]
        flight = float(min(p + 1, m) if dual else microbatches_in_flight(p, m, v, place))
        kept = LAYERS_IN_MEMORY if "activations" in away else flight * layers
        activations = (
            kept * layer.kept_bytes
            + layer.working_bytes
            + layer.logits_bytes * (place == p - 1 or (dual and place == 0))
        )
        held = stage.states[kind] | {"activations": activations, "reserved": rank.machine.memory.reserved_bytes}
        rows.append({"layers": layers, "in_flight": flight, **held})
    return rows


def _fullest(rows: list[dict[str, float]]) -> dict[str, float]:
    """Bytes by _MEMORY on the fullest GPU, of equal ones the first."""
    totals = [sum(row[kind] for kind in _MEMORY) for row in rows]
    place = next(i for i, total in enumerate(totals) if total >= max(totals) * (1 - 1e-12))
    return {f"{kind}_bytes": rows[place][kind] for kind in _MEMORY}


@checked
def stage_memory(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping,
    global_batch: int,
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
) -> pd.DataFrame:
    """Peak memory of a GPU on each pipeline stage, a row a stage; the fullest is the memory of `iteration_time`.

    Activations are those of the micro-batches in flight (`in_flight`, of v chunks counting 1/v each), of the layer that
    is recomputed, and on the last stage of the logits. Where layers do not divide, each stage is taken to be as full as
    the fullest.

    Parameters
    ----------
    model, machine, strategy, global_batch, runtime, offload
        As for `iteration_time`.

    Returns
    -------
    Columns stage, layers, in_flight, then weights, gradients, optimizer, activations, reserved and total [bytes], and
    fits.

    Raises
    ------
    ValueError
        As `iteration_time`.
    """
    rank, away, m = _read(model, machine, strategy, global_batch, runtime, offload)
    tables = [_memory_by_stage(end, layer_time(end), _stage(end, away), m, away) for end in _ends(rank)]
    table = pd.DataFrame(max(tables, key=lambda rows: sum(_fullest(rows).values())))
    table.insert(0, "stage", table.index)
    total = table[list(_MEMORY)].sum(axis=1)
    return table.assign(total=total, fits=total <= rank.machine.memory_bytes)


def _obstacles(rank: Rank, global_batch: int, total_s: float, memory_bytes: float) -> tuple[str, ...]:
    """What rules a strategy out: what does not divide, a time without end, and a GPU that is too small."""
    columns = rank.strategy.columns(global_batch)
    wrong = indivisible(rank.model, columns)
    x, y, *_ = rank.places["expert"]
    wrong["experts"] |= parts_groups(rank.runtime.dispatcher, rank.model.expert_groups, x * y, y)
    found = [name for name, is_wrong in wrong.items() if is_wrong]
    found += ["network"] * (not math.isfinite(total_s)) + ["memory"] * (memory_bytes > rank.machine.memory_bytes)
    return tuple(found)
