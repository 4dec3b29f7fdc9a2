"""Closed-form estimate of a training iteration on photonic rails, for sweeps over delays, GPUs and strategies.

The time on electrical rails is that of `iteration_times`. What circuits add comes on top, from the same costs of a
layer and of a stage: `circuit_changes` has its equations. `circuit_search` finds the best strategies with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog.checks import Floats
from railcore.photonics.circuit_changes import Rings, Step
from railcore.photonics.stage_program import DEFAULT_STEP, StepOptions
from railcore.training.exchanges import context_exchanges, gathers, replicas_exchange
from railcore.training.iteration import iteration_times, recomputed_layers
from railcore.training.layer import LayerCosts, layer_costs
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy
from railcore.training.rank import LAYER_COLUMNS, Rank
from railcore.training.rank_order import group_levels
from railcore.training.runtime import MODERN, Runtime, checked_offload
from railcore.training.software import as_runtime
from railcore.training.stage import STAGE_COLUMNS, stage_costs
from railcore.training.strategy_columns import STRATEGY_COLUMNS, strategy_columns
from railcore.training.transformer import RECOMPUTE, SHARDING, Transformer, as_model
from railcore.training.transformer_memory import EVERY_OPERATOR
from railcore.training.unique_rows import Columns, each_array, unique_rows

STEP_SOFTWARE: dict[str, tuple[str, StepOptions]] = {
    "data parallel": ("none", DEFAULT_STEP),
    "ZeRO-1": ("optimizer", DEFAULT_STEP),
    "ZeRO-2": ("gradients", DEFAULT_STEP),
    "FSDP, weights kept": ("optimizer", StepOptions(gradients_after_pass=True)),
    "FSDP, resharded": ("weights", DEFAULT_STEP),
}


@dataclass(frozen=True)
class OverheadEstimate:
    """Times of an iteration on rails of equal bandwidth, arrays of one shape [s].

    electrical_s: on electrical rails, of `iteration_times`.
    changes_s: what changes of circuits add on photonic ones.
    detour_s: what all-to-alls of expert ranks take longer there, because a ring passes tokens on to other ranks.
    warnings: those of `iteration_times`.
    """

    electrical_s: Floats
    changes_s: Floats
    detour_s: Floats
    warnings: tuple[str, ...] = ()

    @property
    def iteration_s(self) -> Floats:
        """On photonic rails."""
        return self.electrical_s + self.changes_s + self.detour_s

    @property
    def overhead(self) -> Floats:
        """Share that photonic rails add."""
        return (self.changes_s + self.detour_s) / self.electrical_s


def overhead_estimate(
    model: Transformer | str,
    machine: Machine | str,
    strategies: Strategy | Mapping | Sequence,
    reconfiguration_s: ArrayLike,
    provisioning: bool = False,
    options: StepOptions = DEFAULT_STEP,
    runtime: Runtime | str | None = None,
    ports: int = 2,
    offload: str | Sequence[str] = "none",
    global_batch: int | None = None,
) -> OverheadEstimate:
    """Iteration time on photonic rails and on electrical ones, in closed form.

    T = electrical_s + T(d) - T(0) + detour_s

    electrical_s is that of `iteration_times`, to the last digit. T(d) = P(d) + ((m - p) v + p - 1) C(d), symbols as in
    `circuit_changes`: P is one micro-batch through all V chunks and back, C what another one adds on the slowest
    stage. The times come from the same `layer_costs` and `stage_costs`; `sharding` says where exchanges are.

    Each change adds max(0, d - w), w = 0 without provisioning. With it, w is the time for which the ports are free
    before the change is needed:

    - hop, then gather of weights or keys and values: 0, since these are asked for when the input is there;
    - gather, then hop: f + max(0, f - g), the rest of the pass; 0 where tokens return from their experts last;
    - hop, then sum of gradients: b, or the whole pass L b with `gradients_after_pass`;
    - sum of gradients, then hop: the rest of the pass, or 0 with `gradients_after_pass`;
    - hop, then tokens: the compute of a layer before they leave;
    - traffic of data ranks, then the short AllReduces: 0; these, then the next step: the optimizer.

    Within a pass k > 1 kinds of circuits change k times a layer, hidden by the compute of the layer. Where expert ranks
    have circuits of their own, tokens leave and return around the exchanges of a layer on q rings (2 for weights, of
    shared parameters and of experts, and 2 for gradients): q + 1 changes in a mixture layer, and one or two more where
    changes are so long that tokens come between the exchanges. With kept weights (`gradients_after_pass`), v = 1 and
    m > 1 there are 4 V changes. Nothing changes where the ports have circuits for all kinds of traffic.

    detour_s: on y domains a ring passes each byte on y / 2 times, where packet switches send it once.
    `photonic_overhead` has rings on both sides: compare it with changes_s alone.

    `detail` and overlap_pipeline change no circuits. Offload lengthens the passes that hide changes. Layers that do not
    divide count as full ones, groups that lie unevenly as their worst one, and where some are recomputed each as the
    average. `keep_gathered`, `recompute` and `ends_as_layers` count in the times of layers.

    Estimated over simulated time of changes (data/derived/photonic_runs.csv, and random small steps), where it is 1% of
    the iteration or more: without chunks and context ranks 0.75 to 1.75, and nearly always 0.9 to 1.25; 0.55 for sums
    in every pass (ZeRO-2), 0.55 to 2.6 for AllReduces, as long as the pass. Expert ranks 0.75 to 1.5; where only some
    layers are mixtures 0.65 to 3, and nearly always 0.8 to 1.5. Context ranks 0.5 to 2.1, and mostly 0.95 to 1.2.
    Interleaved mostly 0.35 to 2.5, since hops of other micro-batches fall between gathers: simulate these.

    Parameters
    ----------
    model, machine, strategies, runtime, offload, global_batch
        As for `iteration_times`.
    reconfiguration_s
        d, of the switch with its control plane; broadcasts with the strategies [s].
    provisioning
        Whether circuits change before they are asked for.
    options
        How the software runs a step: `gradients_after_pass` and `sync_groups`, which decide when circuits change.
    ports
        Of a NIC; a ring takes two. They decide only whether circuits change: with fewer rings than kinds of traffic on
        the rails the estimate is that of one ring.

    Returns
    -------
    Times of each strategy and delay.

    Raises
    ------
    ValueError
        As `iteration_times`. For options without a time there: gradients accumulated with sharding "gradients" or
        "weights", or weights kept with "weights"; sharding "optimizer" has the same exchanges. For what has no closed
        form: tensor ranks on the rails, pipelines from both ends, exchanges that are not overlapped, and with expert
        ranks on the rails: context ranks there, chunks, whole experts, tokens hidden behind other micro-batches or
        exchanged again, and layers that predict further tokens.
    """
    model, machine = as_model(model), as_machine(machine).off_fabrics("circuits")
    runtime = as_runtime(runtime, machine)
    electrical = iteration_times(model, machine, strategies, runtime, offload, global_batch)
    flat, shape = strategy_columns(strategies, global_batch)
    columns = {name: values.reshape(shape) for name, values in flat.items()}
    terms = circuit_terms(model, machine, runtime, checked_offload(offload), columns, options, ports)
    if refusal := next((text for text, where in terms.refused.items() if where.any()), None):
        raise ValueError(refusal)
    changes_s = terms.changes_s(np.asarray(reconfiguration_s, float), provisioning)
    electrical_s, changes_s, detour_s = np.broadcast_arrays(electrical.total_s, changes_s, terms.detour_s)
    return OverheadEstimate(electrical_s, changes_s, detour_s, electrical.warnings)


@dataclass(frozen=True)
class CircuitTerms:
    """What circuits add to strategies, arrays of one shape.

    step: its times and counts.
    change: whether circuits change: the rails have more kinds of circuits than the ports hold.
    detour_s: of all-to-alls around rings [s].
    refused: text of what has no closed form -> strategies that have it.
    """

    step: Step
    change: Any
    detour_s: Any
    refused: dict[str, Any]

    def changes_s(self, reconfiguration_s: Any, provisioning: bool) -> Any:
        """What changes of circuits add [s]; reconfiguration_s broadcasts with the strategies."""
        return np.where(self.change, self.step.added_s(reconfiguration_s, provisioning), 0.0)


def circuit_terms(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    offload: tuple[str, ...],
    columns: Columns,
    options: StepOptions = DEFAULT_STEP,
    ports: int = 2,
) -> CircuitTerms:
    """What circuits add, from the costs of a layer and of a stage.

    Parameters
    ----------
    model, machine, runtime, offload
        What is trained, on which GPU, with which software; what stays in the host's memory.
    columns
        Arrays of one shape by STRATEGY_COLUMNS.
    options, ports
        As for `overhead_estimate`.

    Returns
    -------
    Terms, arrays of the same shape.
    """
    _refuse_options(options, columns["sharding"])
    if model.lora_rank:
        raise ValueError(f"lora_rank is {model.lora_rank}: circuits do not have the traffic of adapters, give 0")
    layer, stage = _costs(model, machine, runtime, offload, columns)
    groups = group_levels(columns)
    rings = Rings.of(groups, machine.hb_domain_size)
    level, hops = columns["sharding"], groups["pipeline"].in_domains(machine.hb_domain_size)[1] > 1
    data = rings.kinds > 0  # whether any ring is on the rails: all are among context and data ranks
    some = recomputed_layers(columns, stage["layers"])
    others = 1 - some / stage["layers"]  # share of the layers that are not recomputed: a layer is taken as the average
    kept_bytes = layer.kept_bytes + others * layer.spared_bytes
    away_s = (("activations" in offload) * kept_bytes + stage["streamed_bytes"] / stage["layers"]) / (
        machine.host.host_Bps
    )
    step = Step(
        p=columns["pipeline"],
        v=columns["interleave"],
        m=np.ceil(columns["global_batch"] / (columns["data"] * columns["micro_batch"])),
        L=np.ceil(stage["layers"] / columns["interleave"]),
        f=np.maximum(layer.forward_s, away_s),
        b=np.maximum(layer.backward_s - others * layer.again_s, away_s),
        **_traffic_times(Rank.on(machine, model, runtime, columns), layer, stage, columns),
        logits_s=layer.logits_s,
        optimizer_s=stage["optimizer_s"] + stage["offload_s"],
        hops=hops,
        rings=rings,
        data=data,
        first=data & replicas_exchange(level, "weights"),
        every=data & replicas_exchange(level, "weights", "forward"),
        sums=data & replicas_exchange(level, "gradients", "backward"),
        after=options.gradients_after_pass,
        sums_pipeline="pipeline" in options.sync_groups,
        tied=hops & model.tied_embeddings,
    )
    farther = np.where(rings.expert, groups["expert"].in_domains(machine.hb_domain_size)[1] / 2 - 1, 0.0)
    steps = 4 * (2 + step.twice * (1 - others)) * step.mixed  # of dispatch and combine, in the passes of a layer
    sent_s = layer.links["expert"].nic_s - others * layer.again_links["expert"].nic_s
    detour_s = farther * (sent_s + steps * machine.links.nic_latency_s)
    change = rings.kinds + hops + (step.tied & (step.p > 2)) > ports // 2
    refused = _no_closed_form(model, machine, runtime, columns, step, change)
    return CircuitTerms(step, change, (step.m + stage["fill_passes"]) * stage["layers"] * detour_s, refused)


def _traffic_times(rank: Rank, layer: LayerCosts, stage: np.ndarray, columns: Columns) -> dict[str, Any]:
    """Fields of a `Step` about traffic: the stage's exchanges divided by its layers, its ends counted as layers."""
    level, p, full = columns["sharding"], columns["pipeline"], columns["recompute"] == RECOMPUTE.index("full")
    model, mixed = rank.model, rank.mixtures
    held = model.rank_parameters(columns["tensor"], columns["expert"])
    of_layer = held.layers(1 - mixed, mixed) + mixed * held.experts
    edge, head = held.first / of_layer, held.last(p) / of_layer
    layers = stage["layers"] + np.maximum(edge, head)
    gathered = replicas_exchange(level, "weights", "forward")
    gathers_s = np.where(gathered, stage["in_forward_s"], stage["before_s"])
    in_pass = replicas_exchange(level, "gradients", "backward")
    sums_s = np.where(in_pass, stage["in_backward_s"] - stage["in_forward_s"], stage["after_s"])
    keys = list(context_exchanges(rank))
    repeated = full * gathers(row for row in keys if row.phase == "forward")
    tokens = layer.seconds["expert"] / 2
    half = 0.0 if model.parallel_block else 0.5  # of a layer's compute comes before its tokens leave
    before_f, before_b = (half * np.maximum(time - tokens, 0.0) for time in (layer.forward_s, layer.backward_s))
    return {
        "g": gathers_s / layers,
        "r": sums_s / layers,
        "h": (p > 1)
        * (stage["hop_latency_s"] + layer.boundary_bytes / stage["hop_Bps"] + layer.boundary_gather.time_s),
        "before_f": before_f,
        "before_b": np.where(full, before_f, before_b),
        "tokens": tokens,
        "twice": full,
        "edge": edge,
        "head": head,
        "keys": layer.links["context"].time_s / (gathers(keys) + repeated),
        "mixed": mixed,
    }


def _costs(
    model: Transformer, machine: Machine, runtime: Runtime, offload: tuple[str, ...], columns: Columns
) -> tuple[LayerCosts, np.ndarray]:
    """Costs of the layers and of the stages of strategies. Equal ones are computed once."""
    shape, flat = columns["pipeline"].shape, {name: values.ravel() for name, values in columns.items()}
    layers, layer_of = unique_rows(flat, LAYER_COLUMNS)
    stages, stage_of = unique_rows(flat, STAGE_COLUMNS)
    layer = each_array(
        lambda values: values[layer_of].reshape(shape) if np.ndim(values) else values,
        layer_costs(model, machine, runtime, layers),
    )
    return layer, stage_costs(model, machine, runtime, offload, stages).rows[stage_of].reshape(shape)


def _refuse_options(options: StepOptions, sharding: Any) -> None:
    """Raise ValueError for options that `iteration_times` has no time for."""
    for name, wrong, least, what in (
        ("accumulate_gradients", True, "gradients", "sums gradients in every pass"),
        ("reshard_after_forward", False, "weights", "gathers weights in every pass"),
    ):
        level = SHARDING.index(least)
        if getattr(options, name) is wrong and (sharding >= level).any():
            raise ValueError(
                f"{name} is {wrong} with sharding {SHARDING[int(sharding.max())]!r}, which {what}: "
                "give sharding 'optimizer', which does so once an iteration"
            )


def _no_closed_form(
    model: Transformer, machine: Machine, runtime: Runtime, columns: Columns, step: Step, change: Any
) -> dict[str, Any]:
    """Text of what is not modelled -> strategies that have it."""
    size, experts = machine.hb_domain_size, step.rings.expert
    tensor = group_levels(columns)["tensor"].in_domains(size)[1] > 1
    again = sorted({"moe", EVERY_OPERATOR} & {*runtime.recompute_modules})
    selective = columns["recompute"] == RECOMPUTE.index("selective")
    beside = "with expert ranks on the rails"
    refused = {
        f"tensor ranks leave their HB domain of {size}: give a divisor of it, and tensor first": (
            tensor & (step.hops | step.data)
        ),
        f"schedule is {runtime.schedule!r}: give '1f1b'": change & runtime.dual(step.p, step.v),
        "overlap_data is False: give True": change & step.data & (not runtime.overlap_data),
        f"context is more than 1 {beside}: photonic_overhead simulates both": change & experts & step.rings.context,
        f"interleave is more than 1 {beside}: photonic_overhead simulates both": change & experts & (step.v > 1),
        f"whole_experts is True {beside}: give False": experts & (columns["whole_experts"] > 0),
        f"overlap_expert is True {beside}: give False": experts & runtime.overlap_expert,
        f"mtp_layers is {model.mtp_layers} {beside}: give 0": experts & (model.mtp_layers > 0),
        f"recompute_modules has {', '.join(again)} {beside}: leave it out": experts & selective & bool(again),
    }
    return {f"no closed form on circuits where {text}": where for text, where in refused.items()}


def estimates_of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Simulated runs with their estimates, for the same software.

    runs: columns model, platform, software (in STEP_SOFTWARE), tensor, context, pipeline, data, interleave,
    global_batch, reconfiguration_s, provisioning, electrical_s, overhead. Added columns: rails ("context ranks",
    "interleaved" or "plain"), estimated_electrical_s (of `iteration_times`), and estimated, which is comparable with
    overhead: estimated time of changes over the simulated electrical iteration.
    """
    same = ["model", "platform", "software", "provisioning"]
    fixed = {"expert": 1, "micro_batch": 1, "recompute": "none"}
    parts = []
    for (model, platform, software, early), part in runs.groupby(same, sort=False):
        sharding, options = STEP_SOFTWARE[software]
        columns = {name: part[name].to_numpy() for name in STRATEGY_COLUMNS if name in part}
        columns |= fixed | {"sharding": sharding, "sequence_parallel": columns["tensor"] > 1}
        delays = part["reconfiguration_s"]
        times = overhead_estimate(model, platform, columns, delays, bool(early), options, runtime=MODERN)
        estimated = times.changes_s / part["electrical_s"]
        parts.append(part.assign(estimated_electrical_s=times.electrical_s, estimated=estimated))
    table = pd.concat(parts).sort_index()
    rails = np.select([table["context"] > 1, table["interleave"] > 1], ["context ranks", "interleaved"], "plain")
    return table.assign(rails=rails)


def estimate_errors(table: pd.DataFrame) -> pd.DataFrame:
    """How far the estimates of `estimates_of_runs` are off, by kind of strategy.

    Columns rails, software, runs; time_error: largest error of the electrical iteration, as a share; median_error and
    largest_error of the time of changes [share of the iteration]; low and high: least and largest estimated over
    simulated time of changes, where it is 1% or more.
    """
    error = (table["estimated"] - table["overhead"]).abs()
    ratio = (table["estimated"] / table["overhead"]).where(table["overhead"] >= 0.01)
    of_time = (table["estimated_electrical_s"] / table["electrical_s"] - 1).abs()
    errors = table[["rails", "software"]].assign(error=error, ratio=ratio, of_time=of_time)
    return (
        errors.groupby(["rails", "software"], sort=False)
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
