"""What one stage of a pipeline holds and does besides the passes of its layers; arrays of strategies.

The fullest stage has n = ceil((L + 2 w) / p) layers, w = 1 where embedding and loss take the place of a layer each.
It holds weights, gradients and optimizer states, exchanges them with its replicas, and sends to its neighbours. Some
runtimes run a pipeline from both ends (DualPipe, `dual`): a rank then has two stages, one from each end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.training.critical_path import EXCHANGES, STAGE_ROW
from railcore.training.exchanges import replica_element_bytes, replicas_exchange
from railcore.training.formats import WEIGHT_BYTES
from railcore.training.link_times import NO_LINK, LinkTimes
from railcore.training.machine import GroupPlace, Machine
from railcore.training.machine_parts import GpuRates
from railcore.training.pipeline_schedule import microbatches_in_flight
from railcore.training.rank import mixture_shares
from railcore.training.rank_order import GroupLevels, gpus_of, group_levels
from railcore.training.runtime import Runtime
from railcore.training.transformer import SHARDING, Transformer
from railcore.training.transformer_memory import WHOLE_LAYERS, RankParameters, sharded_parameters

STAGE_COLUMNS = (
    *("tensor", "context", "expert", "pipeline", "data", "interleave", "sharding"),
    *("ends_as_layers", "whole_experts", "placement"),
)
STAGES = ("first", "middle", "last")
EAGER_UPDATE_BYTES = 80  # bytes a parameter of Adam an operator at a time, in eight kernels
COPY_BYTES = 8  # bytes per parameter of bf16 gradients: 4 to concatenate those of a layer, 4 to scale them
ONCE_CALLS = 2  # AllReduces of a number over all ranks: the gradients' norm, and the loss
_REPLICAS = ("replica", "expert_replica")  # groups that exchange gradients: of shared weights, and of experts
_MANY = 2.0**30  # groups of p micro-batches, so many that their number no longer matters


@dataclass(frozen=True)
class StageCosts:
    """Costs of the stages, arrays of one shape.

    rows: records of STAGE_ROW:
        layers: n, of the fullest stage.
        first_layers, last_layers: whose activations the first and the last stage hold.
        spare_layers: how many fewer layers than n the last stage has.
        logits_share: share of the micro-batches whose logits a rank of the last stage computes.
        first_flight, middle_flight, last_flight: micro-batches whose activations a stage holds, of whole groups of p.
        fill_passes, fill_backward, fill_hops: forward passes, backward passes and hops that fill and drain a pipeline.
        fill_weights, fill_weights_each: computations of weights' gradients that fill it (DualPipe): at most, and for
            each micro-batch.
        hops_hide: whether hops run beside the work of other chunks.
        hop_Bps, hop_latency_s, hop_on_nic: link to the next stage. Where hops do not hide, the host waits for each
            before it starts the next operator.
        optimizer_s, offload_s: the optimizer's step, on the GPU and on the host.
        once_s: what else is done once an iteration: casts of new weights, norms over all GPUs, the host's work.
        copies_s: copies of gradients in each backward pass.
        streamed_bytes: weights that come from the host in each pass.
        in_forward, in_backward (_s, _hb_s, _nic_s): exchanges with replicas in every forward and backward pass.
        after, before (_s, _hb_s, _nic_s): exchanges with replicas once an iteration, after its passes and before them.
        first_bytes, middle_bytes, last_bytes: states on the GPU.
        spread: how much longer than the mean the slowest of all GPUs computes, as a share of the mean.
    states: bytes of weights, gradients and optimizer on the GPU, by stage of STAGES.
    """

    rows: np.ndarray
    states: dict[str, dict[str, np.ndarray]]


def stage_costs(
    model: Transformer, machine: Machine, runtime: Runtime, offload: tuple[str, ...], columns: Mapping[str, np.ndarray]
) -> StageCosts:
    """What a stage holds, sends, and does once an iteration. Filling and draining takes (L + 2 w) / n - 1 stages.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    offload
        What stays in the host's memory, of OFFLOADS.
    columns
        Arrays of one shape by the names in STAGE_COLUMNS.

    Returns
    -------
    Costs, arrays of the same shape.
    """
    shape = np.broadcast_shapes(*(np.shape(value) for value in columns.values()))
    columns = {name: np.broadcast_to(columns.get(name, 0), shape) for name in STAGE_COLUMNS}
    p, gpus, groups = columns["pipeline"], gpus_of(columns), group_levels(columns)
    layers_and_ends = model.layers + 2 * columns["ends_as_layers"]
    layers = np.ceil(layers_and_ends / p)
    dual = runtime.dual(p, columns["interleave"])
    rows = np.zeros(shape, STAGE_ROW)
    _layer_counts(rows, model, columns, layers, dual)
    _filling(rows, runtime, p, columns["interleave"], layers_and_ends / layers - 1, dual)

    # Parameters and states: those of the fullest stage are exchanged and updated, if they are trained.
    held = model.trained_and_frozen(columns["tensor"], columns["expert"], columns["whole_experts"])
    trained, frozen = (_stage_parameters(model, rank, columns, layers, dual) for rank in held)
    most, most_frozen = (_of_fullest(parameters, p) for parameters in (trained, frozen))
    on_host = "weights" in offload
    states = {
        stage: _state_bytes(model, runtime, columns, layers, trained[stage], frozen[stage], on_host) for stage in STAGES
    }
    fullest = _state_bytes(model, runtime, columns, layers, most, most_frozen, on_host)
    updated = fullest["optimizer"] / runtime.optimizer_bytes
    rows["streamed_bytes"] = fullest["streamed"]
    offloads_optimizer = "optimizer" in offload
    for stage in STAGES:
        del states[stage]["streamed"]
        if offloads_optimizer:
            states[stage]["optimizer"] = 0.0 * states[stage]["optimizer"]
        rows[f"{stage}_bytes"] = sum(states[stage].values())

    # Links to the next stage and to the replicas.
    places = machine.places({kind: groups[kind] for kind in ("pipeline", *_REPLICAS)}, gpus)
    near = places["pipeline"].domains == 1
    rows["hop_Bps"], rows["hop_latency_s"] = machine.hop_link(near, places["pipeline"].nic_share)
    rows["hop_latency_s"] += np.where(rows["hops_hide"], 0.0, machine.host.launch_s)
    rows["hop_on_nic"] = ~near
    for name, links in replica_exchanges(model, machine, runtime, places, layers, most, most_frozen, columns).items():
        rows[f"{name}_s"], rows[f"{name}_hb_s"], rows[f"{name}_nic_s"] = links

    # Once an iteration.
    host, host_link_bytes = machine.host, runtime.gradient_bytes + WEIGHT_BYTES
    host_s = host_link_bytes / host.host_Bps + (runtime.update_bytes + runtime.clip_bytes) / host.host_memory_Bps
    clip_s = runtime.clip_bytes / machine.hbm_Bps
    rows["optimizer_s"] = 0.0 if offloads_optimizer else (adam_time(runtime, machine) + clip_s) * updated
    rows["offload_s"] = host_s * updated if offloads_optimizer else 0.0
    copied = runtime.eager * replicas_exchange(columns["sharding"], "gradients", "backward")
    rows["copies_s"] = copied * COPY_BYTES / machine.hbm_Bps * sum(most)
    all_ranks = GroupLevels(gpus, 1).in_domains(machine.hb_domain_size)
    # Adapters stay in bf16; frozen weights that take more than the products' format are cast to it like trained ones.
    form = runtime.linear_format(machine)
    cast = sum(most_frozen) * (model.frozen_bytes > form.element_bytes) if model.lora_rank else sum(most)
    rows["once_s"] = form.cast_bytes / machine.cast_Bps * cast
    rows["once_s"] += ONCE_CALLS * machine.all_reduce_links(0.0, *all_ranks).time_s
    rows["once_s"] += runtime.waiting_operators * host.launch_s
    rows["spread"] = slowest_gpu(machine.rates, gpus)
    return StageCosts(rows, states)


def adam_time(runtime: Runtime, machine: Machine) -> float:
    """Of a parameter, in one kernel for all that the optimizer does, or in one for each operator [s]."""
    one_kernel = runtime.update_bytes + machine.memory.adam_extra_bytes
    return (EAGER_UPDATE_BYTES if runtime.eager else one_kernel) / machine.hbm_Bps


def _layer_counts(
    rows: np.ndarray, model: Transformer, columns: Mapping[str, np.ndarray], layers: np.ndarray, dual: np.ndarray
) -> None:
    """Layers of the fullest stage and of the ends. dual: where a rank has a stage from each end of the pipeline."""
    first, last, spare = _layers_at_ends(model, columns, layers)
    rows["spare_layers"] = np.where(dual, (layers - first + spare) / 2, spare)
    last = last + model.mtp_layers
    rows["layers"] = layers
    rows["first_layers"] = np.where(columns["pipeline"] == 1, last, np.where(dual, (first + last) / 2, first))
    rows["last_layers"] = np.where(dual, (first + last) / 2, last)


def _layers_at_ends(
    model: Transformer, columns: Mapping[str, np.ndarray], layers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Layers of the first and the last stage, and how many fewer than the fullest the last one has.

    That is one where the loss takes the place of a layer. With layers that predict further tokens, which are on the
    last stage, all other stages are full: then it is p n - L.
    """
    ends = np.asarray(columns["ends_as_layers"])
    spare = np.minimum(columns["pipeline"] * layers - model.layers, layers) if model.mtp_layers else ends
    return layers - ends, layers - spare, spare


def _filling(
    rows: np.ndarray, runtime: Runtime, p: np.ndarray, v: np.ndarray, others: np.ndarray, dual: np.ndarray
) -> None:
    """What fills and drains a pipeline: passes, backward passes and hops; whether hops hide; a rank's share of logits.

    From one end it is a forward and a backward pass of each other stage. From both ends (`dual`) it is
    (p / 2 - 1) (F&B + B - 3 W): F&B a forward and a backward pass beside each other, B a backward pass, W the weights'
    gradients in it (DeepSeek-AI 2024, arXiv:2412.19437, Section 3.2.1 and Table 2).
    """
    rows["logits_share"] = np.where(dual, 0.5, 1.0)
    # From both ends all stages have p + 1 micro-batches, as a stage before the first would.
    for stage, place in (("first", 0 * p), ("middle", 1 + 0 * p), ("last", p - 1)):
        rows[f"{stage}_flight"] = microbatches_in_flight(p, _MANY * p, v, np.where(dual, -1, place))
    hides = hops_hide(runtime, p, v)
    rows["hops_hide"] = hides
    rows["fill_hops"] = np.where(hides & (p > 1), p - 1 / v, others / v)
    half = np.where(dual, np.maximum(0.5 * (others - 1), 0.0), 0.0)
    rows["fill_passes"], rows["fill_backward"] = np.where(dual, (half, 2 * half), others / v)
    rows["fill_weights"] = 3 * half  # with the 2 p micro-batches that the schedule asks for; with fewer less
    rows["fill_weights_each"] = rows["fill_weights"] / (2 * p)


def _of_fullest(parameters: Mapping[str, tuple[np.ndarray, ...]], p: np.ndarray) -> tuple[np.ndarray, ...]:
    """The most parameters of either kind that one of p stages has."""
    inner = np.where(p > 2, 1.0, 0.0)  # pipelines of two stages have none between their ends
    by_size = zip(*(parameters[name] for name in ("first", "last", "middle")), strict=True)
    return tuple(np.maximum(np.maximum(first, last), inner * middle) for first, last, middle in by_size)


def _stage_parameters(
    model: Transformer,
    rank: RankParameters,
    columns: Mapping[str, np.ndarray],
    layers: np.ndarray,
    dual: np.ndarray,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Parameters of a rank on each of STAGES before sharding: shared by all tokens, and of routed experts.

    Parameters
    ----------
    model, columns, layers
        What is trained, how it is split, and layers of the fullest stage.
    rank
        Parameters of a rank by part.
    dual
        Where a rank has two stages, and both ends of the pipeline are on one.

    Returns
    -------
    Both kinds, by stage.
    """
    p = columns["pipeline"]
    shared = rank.layers(1 - model.mixture_share, model.mixture_share)  # of a layer
    experts = mixture_shares(model, p)[1] * rank.experts
    first_layers, last_layers, _ = _layers_at_ends(model, columns, layers)
    first = first_layers * shared + rank.first, first_layers * experts
    last = (
        last_layers * shared + rank.last(np.where(dual, 1, p)),
        last_layers * experts + model.mtp_layers * rank.experts,
    )
    only = last[0] + rank.first, last[1]  # of a pipeline of one stage
    both = first[0] + last[0], first[1] + last[1]
    first, last = (
        tuple(np.where(p == 1, one, np.where(dual, two, end)) for one, two, end in zip(only, both, ends, strict=True))
        for ends in (first, last)
    )
    inner_layers = layers * (1 + dual)
    return {"first": first, "middle": (inner_layers * shared, inner_layers * experts), "last": last}


def _state_bytes(
    model: Transformer,
    runtime: Runtime,
    columns: Mapping[str, np.ndarray],
    layers: np.ndarray,
    trained: tuple[np.ndarray, ...],
    frozen: tuple[np.ndarray, ...],
    weights_on_host: bool,
) -> dict[str, np.ndarray]:
    """Bytes of weights, gradients and optimizer states of a rank, and of weights that come from the host in each pass.

    A trained parameter has 2 bytes of weights, `accumulation_bytes` of gradients and `optimizer_bytes`, a frozen one
    the model's frozen_bytes of weights, sharded as `sharded_parameters` says (ZeRO, FSDP). Shards in fp32 are part of
    the optimizer's states alone. Weights on the host leave WHOLE_LAYERS on the GPU: the layer at work and the next one.
    """
    t, c, d, e, level, whole = (
        columns[name] for name in ("tensor", "context", "data", "expert", "sharding", "whole_experts")
    )
    replicas = c * d * np.where(runtime.dual(columns["pipeline"], columns["interleave"]), 2, 1)
    expert_replicas = np.maximum(replicas * np.where(whole, t, 1) // e, 1)
    options: dict[str, Any] = {"sharded_gradients": runtime.sharded_gradients, "chunks": columns["interleave"]}
    places = replicas, expert_replicas, layers, level
    on_rank, base = (sharded_parameters(parameters, *places, **options) for parameters in (trained, frozen))

    def weights(held: Mapping[str, Any], all_weights: Any, kept: Any) -> Any:
        at_work = np.maximum(kept * np.minimum(WHOLE_LAYERS / layers, 1.0), held["gathered"])
        return at_work if weights_on_host else np.minimum(kept + held["gathered"], all_weights)

    kept = np.where(runtime.fp32_shards & (level == SHARDING.index("weights")), 0.0, on_rank["weights"])
    frozen_weights = weights(base, sum(frozen), base["weights"])
    streamed = WEIGHT_BYTES * on_rank["weights"] + model.frozen_bytes * base["weights"]
    return {
        "weights": WEIGHT_BYTES * weights(on_rank, sum(trained), kept) + model.frozen_bytes * frozen_weights,
        "gradients": runtime.accumulation_bytes * on_rank["gradients"],
        "optimizer": runtime.optimizer_bytes * on_rank["optimizer"],
        "streamed": streamed * weights_on_host,
    }


def replica_exchanges(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    places: Mapping[str, GroupPlace],
    layers: np.ndarray,
    trained: tuple[np.ndarray, ...],
    frozen: tuple[np.ndarray, ...],
    columns: Mapping[str, np.ndarray],
) -> dict[str, LinkTimes]:
    """Link times of gradients and weights among ranks that hold the same ones: REPLICA_EXCHANGES of each sharding.

    They are exchanged a layer at a time where they are sharded (FSDP), else in `bucket_calls` of each chunk. Of frozen
    weights there are no gradients and no new ones: they are gathered in the passes (FSDP) alone.

    Parameters
    ----------
    model, machine, runtime, places
        What is trained, the GPU, the software, and where the groups of _REPLICAS lie.
    layers, trained, frozen
        Of the stage, and its parameters on a rank: shared by all tokens, and of routed experts.
    columns
        By STAGE_COLUMNS.

    Returns
    -------
    By EXCHANGES: after and before an iteration's passes, in each forward and backward pass [s].
    """
    level, chunks = columns["sharding"], columns["interleave"]
    element_bytes = replica_element_bytes(runtime, machine.format, model)
    link_times = dict.fromkeys(EXCHANGES, NO_LINK)
    for operation, what in (("all_reduce", "gradients"), ("reduce_scatter", "gradients"), ("all_gather", "weights")):
        phases = {phase: replicas_exchange(level, what, phase, operation) for phase in ("forward", "backward", "after")}
        if not any(sent.any() for sent in phases.values()):
            continue
        collective = machine.all_reduce_links if operation == "all_reduce" else machine.gather_links
        links, in_passes = NO_LINK, phases["forward"] & (what == "weights")
        for count, fixed, group in zip(trained, frozen, _REPLICAS, strict=True):
            x, y, share, _ = places[group]
            message = element_bytes[what] * count + element_bytes["frozen"] * fixed * in_passes
            buckets = chunks * bucket_calls(count / chunks, x * y)
            calls = np.where(phases["after"], buckets, layers) * (message > 0)
            links = links.plus(collective(message, x, y, calls, share))
        for phase, sent in phases.items():
            # Weights that are gathered after a step are charged before the next one.
            slot = f"in_{phase}" if phase != "after" else "after" if what == "gradients" else "before"
            link_times[slot] = link_times[slot].plus(links.times(sent))
    return link_times


def hops_hide(runtime: Runtime, pipeline: Any, interleave: Any) -> Any:
    """Whether a pipeline's hops run beside the work of other chunks, or of the other end's stage."""
    return runtime.overlap_pipeline & ((np.asarray(interleave) > 1) | runtime.dual(pipeline, interleave))


def bucket_calls(parameters: np.ndarray | float, ranks: np.ndarray | float) -> np.ndarray:
    """Collectives that exchange so many parameters: buckets of 40 million, or of a million a rank where that is more.

    Source: GitHub NVIDIA/Megatron-LM, megatron/core/distributed/distributed_data_parallel.py (bucket_size).
    """
    return np.ceil(np.asarray(parameters) / np.maximum(40e6, 1e6 * np.asarray(ranks)))


def slowest_gpu(rates: GpuRates, gpus: ArrayLike) -> np.ndarray:
    """How much longer than the mean the slowest of N GPUs is expected to compute, as a share of the mean.

        s_g E(n) + sqrt(s_r^2 + s_g^2 V(n)^2) E(ceil(N / n)),  n = min(N, GPUs of a rack)

    Times of a rack's GPUs are normal around the rack's mean with deviation s_g, and means of racks with s_r. E(n) and
    V(n) are mean and deviation of the largest of n standard normals: the slowest of a rack, then the slowest rack.

    Parameters
    ----------
    rates
        With s_g `rank_spread`, s_r `rack_spread`, and `rack_gpus`.
    gpus
        N of the job.

    Returns
    -------
    Shares of gpus' shape.

    Examples
    --------
    >>> from railcore.training import catalog_machine
    >>> slowest_gpu(catalog_machine("DGX H100").rates, [1, 8, 64, 4096]).round(3).tolist()
    [0.0, 0.022, 0.035, 0.072]
    """
    number = np.asarray(gpus)
    in_rack = np.minimum(number, rates.rack_gpus)
    most, deviation = _largest_normal(in_rack)
    between = np.hypot(rates.rack_spread, rates.rank_spread * deviation)
    return rates.rank_spread * most + between * _largest_normal(-(-number // in_rack))[0]


def _largest_normal(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected largest of n standard normals, and its standard deviation; 0 and 1 for one.

    Blom's approximation Phi^-1((n - 3/8) / (n + 1/4)), and half of what lies between the largest's quantiles at one
    deviation; rounded, so that every CPU has the same.
    """
    normal, sizes, index = NormalDist(), *np.unique(numbers, return_inverse=True)
    low, high = normal.cdf(-1), normal.cdf(1)
    most = [round(normal.inv_cdf((n - 0.375) / (n + 0.25)), 6) for n in sizes.tolist()]
    ends = [(normal.inv_cdf(low ** (1 / n)), normal.inv_cdf(high ** (1 / n))) for n in sizes.tolist()]
    deviation = [round((upper - lower) / 2, 6) for lower, upper in ends]
    shape = np.shape(numbers)
    return np.asarray(most)[index].reshape(shape), np.asarray(deviation)[index].reshape(shape)
