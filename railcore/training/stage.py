"""What one stage of a pipeline holds and does besides the passes of its layers.

The fullest stage has n = ceil((L + 2 w) / p) layers, w = 1 where embedding and loss take the place of a layer each.
It holds weights, gradients and optimizer states, exchanges them with its replicas, and sends to its neighbours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from railcore.facts.arguments import checked
from railcore.training.link_times import NO_LINK, LinkTimes
from railcore.training.machine import Machine
from railcore.training.rank import Rank
from railcore.training.rank_order import GroupLevels
from railcore.training.runtime import Runtime
from railcore.training.transformer import SHARDING
from railcore.training.transformer_memory import WEIGHT_BYTES, WHOLE_LAYERS, sharded_parameters

EAGER_UPDATE_BYTES = 92  # of Adam an operator at a time: 80 in eight kernels, 12 to norm and clip the gradient
COPY_BYTES = 8  # of bf16 gradients a parameter: 4 to join those of a layer, 4 to scale them before they are reduced
ONCE_CALLS = 2  # AllReduces of a number over all ranks: the gradients' norm, and the loss


@dataclass(frozen=True)
class Stage:
    """Seconds and bytes of the fullest stage.

    layers: n.
    spare: layers that the last stage has fewer.
    others: stages that fill and drain before and after it, (L + 2 w) / n - 1.
    hop_Bps, hop_latency_s, hop_on_nic: link to the next stage. Where hops do not hide, the host waits for each, and
        starts the next operator then.
    hops_hide: whether they go on behind other chunks.
    after, before: exchanges once an iteration, after its passes and before them.
    in_forward, in_backward: exchanges of every pass.
    states: bytes by kind, on the first, a middle and the last stage.
    streamed_bytes: weights that come from the host in each pass.
    optimizer_s, offload_s: the update, on the GPU and on the host.
    copies_s: copies of gradients in each backward pass.
    once_s: what else is done once an iteration: casts of new weights, norms over all GPUs, the host's work.
    spread: by how much the slowest of all GPUs computes longer, over the mean.
    """

    layers: int
    spare: int
    others: float
    hop_Bps: float
    hop_latency_s: float
    hop_on_nic: bool
    hops_hide: bool
    after: LinkTimes
    before: LinkTimes
    in_forward: LinkTimes
    in_backward: LinkTimes
    states: dict[str, dict[str, float]]
    streamed_bytes: float
    optimizer_s: float
    offload_s: float
    copies_s: float
    once_s: float
    spread: float


def stage_of(rank: Rank, offload: tuple[str, ...] = ()) -> Stage:
    """What a stage holds, sends, and does once an iteration. offload: what stays in the host's memory, of OFFLOADS."""
    machine, runtime, strategy = rank.machine, rank.runtime, rank.strategy
    places = rank.model.layers + 2 * strategy.ends_as_layers
    layers = math.ceil(places / strategy.pipeline)
    held = held_parameters(rank, layers)
    there = ["first", "last"] + ["middle"] * (strategy.pipeline > 2)
    most = max(held[stage][0] for stage in there), max(held[stage][1] for stage in there)
    states = {stage: stage_state_bytes(rank, held[stage], layers, offload) for stage in there}
    fullest = stage_state_bytes(rank, most, layers, ())
    updated = fullest["optimizer"] / runtime.optimizer_bytes
    on_host = "optimizer" in offload
    host, sent = machine.host, runtime.gradient_bytes + WEIGHT_BYTES
    host_s = sent / host.host_Bps + runtime.update_bytes / host.host_memory_Bps
    update = (EAGER_UPDATE_BYTES if runtime.eager else runtime.update_bytes) / machine.hbm_Bps
    copied = runtime.eager and strategy.sharding in ("gradients", "weights")
    everyone = GroupLevels(strategy.gpus, 1).in_domains(machine.hb_domain_size)
    reduced_s = ONCE_CALLS * machine.all_reduce_links(0.0, *everyone).time_s
    casts_s = runtime.linear_format(machine).cast_bytes * sum(most) / machine.cast_Bps
    place = rank.places["pipeline"]
    near = bool(place.domains == 1)
    hop_Bps, hop_latency_s = machine.hop_link(near, place.nic_share)
    hides = bool(hops_hide(runtime, strategy.pipeline, strategy.interleave))
    return Stage(
        layers=layers,
        spare=spare_layers(rank, layers),
        others=places / layers - 1,
        hop_Bps=float(hop_Bps),
        hop_latency_s=float(hop_latency_s) + (0.0 if hides else machine.host.launch_s),
        hop_on_nic=not near,
        hops_hide=hides,
        **replica_exchanges(rank, most, layers),
        states=states,
        streamed_bytes=WEIGHT_BYTES * _own(rank, most, layers) if "weights" in offload else 0.0,
        optimizer_s=0.0 if on_host else update * updated,
        offload_s=host_s * updated if on_host else 0.0,
        copies_s=COPY_BYTES * sum(most) / machine.hbm_Bps if copied else 0.0,
        once_s=float(reduced_s) + machine.host.iteration_host_s + casts_s,
        spread=machine.rates.rank_spread * expected_maximum(strategy.gpus),
    )


@checked
def spare_layers(rank: Rank, layers: int) -> int:
    """Layers that the last stage has fewer than the fullest.

    One where the loss takes the place of a layer. Beside layers that predict further tokens all that rounding leaves:
    the others are full, p n - L.
    """
    model, strategy = rank.model, rank.strategy
    return min(strategy.pipeline * layers - model.layers, layers) if model.mtp_layers else int(strategy.ends_as_layers)


@checked
def held_parameters(rank: Rank, layers: int) -> dict[str, tuple[float, float]]:
    """Parameters of a rank on the first, a middle and the last stage: shared by all tokens, and of routed experts."""
    model, strategy = rank.model, rank.strategy
    parts = model.rank_parameters(strategy.tensor, strategy.expert, strategy.whole_experts)
    inner = float(parts.layers(1 - model.mixture_share, model.mixture_share))
    experts = float(rank.mixtures * parts.experts)
    dual = bool(rank.runtime.dual(strategy.pipeline, strategy.interleave))  # two stages, and both ends on one rank
    first, last = float(parts.first), float(parts.last(1 if dual else strategy.pipeline))
    early, late = layers - strategy.ends_as_layers, layers - spare_layers(rank, layers)
    predicting, ends = model.mtp_layers * float(parts.experts), (early * inner + first, early * experts)
    both = ends[0] + late * inner + last, ends[1] + late * experts + predicting
    if dual:
        return {"first": both, "middle": (2 * layers * inner, 2 * layers * experts), "last": both}
    last_stage = late * inner + last, late * experts + predicting
    if strategy.pipeline == 1:
        ends = last_stage = last_stage[0] + first, last_stage[1]
    return {"first": ends, "middle": (layers * inner, layers * experts), "last": last_stage}


@checked
def stage_state_bytes(rank: Rank, held: tuple[float, float], layers: int, offload: tuple[str, ...]) -> dict[str, float]:
    """Bytes of weights, gradients and optimizer states, sharded as the strategy says (ZeRO, FSDP).

    A parameter has 2 bytes of weights, `accumulation_bytes` of gradients and `optimizer_bytes`. Shards in fp32 are part
    of these alone. Weights on the host leave the layer at work and the next one on the GPU.

    Parameters
    ----------
    rank
        With its strategy.
    held
        Parameters of the rank: shared, and of experts.
    layers
        Of the stage.
    offload
        What stays in the host's memory.

    Returns
    -------
    weights, gradients, optimizer [bytes].
    """
    found = _sharded(rank, held, layers)
    in_fp32 = rank.runtime.fp32_shards and rank.strategy.sharding == "weights"
    own = 0.0 if in_fp32 else found["own"]
    weights = min(own + found["gathered"], sum(held))
    if "weights" in offload:
        weights = max(own * min(WHOLE_LAYERS / layers, 1.0), found["gathered"])
    return {
        "weights": WEIGHT_BYTES * weights,
        "gradients": rank.runtime.accumulation_bytes * found["gradients"],
        "optimizer": 0.0 if "optimizer" in offload else rank.runtime.optimizer_bytes * found["optimizer"],
    }


@checked
def replica_exchanges(rank: Rank, held: tuple[float, float], layers: int) -> dict[str, LinkTimes]:
    """Gradients and weights among ranks that hold the same ones, a layer at a time where they are sharded (FSDP).

    Otherwise they go in `bucket_calls` of each chunk. Not sharded: an AllReduce of the gradients after the last
    backward pass. "optimizer": a ReduceScatter then, and an AllGather of the weights before the first forward pass.
    "gradients": the ReduceScatter in every backward pass. "weights": besides, an AllGather of the weights in every
    pass.

    held: parameters of the rank, shared and of experts.
    """

    machine, level = rank.machine, SHARDING.index(rank.strategy.sharding)

    def exchange(
        size: float, links: Callable[..., LinkTimes] = machine.gather_links, by_layer: bool = True
    ) -> LinkTimes:
        found = NO_LINK
        for parameters, group in zip(held, ("replica", "expert_replica"), strict=True):
            inside, domains, share, _ = rank.places[group]
            chunks = rank.strategy.interleave
            calls = layers if by_layer else chunks * float(bucket_calls(parameters / chunks, inside * domains))
            found = found.plus(links(size * parameters, inside, domains, calls if parameters else 0, share))
        return found

    sent = rank.runtime.gradient_bytes
    gathered = gathered_bytes(machine, rank.runtime)
    if level == 0:
        whole = exchange(sent, machine.all_reduce_links, False)
        return {"after": whole, "before": NO_LINK, "in_forward": NO_LINK, "in_backward": NO_LINK}
    gradients, weights = exchange(sent, by_layer=level >= 2), exchange(gathered, by_layer=level == 3)
    return {
        "after": gradients if level == 1 else NO_LINK,
        "before": weights if level < 3 else NO_LINK,
        "in_forward": weights if level == 3 else NO_LINK,
        "in_backward": {1: NO_LINK, 2: gradients, 3: weights.plus(gradients)}[level],
    }


def gathered_bytes(machine: Machine, runtime: Runtime) -> float:
    """Of an element of sharded weights on its way."""
    return machine.format.gathered_bytes if runtime.fp8_weights else WEIGHT_BYTES


def hops_hide(runtime: Runtime, pipeline: Any, interleave: Any) -> Any:
    """Whether a pipeline's hops go on behind other chunks: of several, or of the other end's. Numbers, or arrays."""
    return runtime.overlap_pipeline & ((np.asarray(interleave) > 1) | runtime.dual(pipeline, interleave))


@checked
def bucket_calls(parameters: np.ndarray | float, ranks: np.ndarray | float) -> np.ndarray:
    """Collectives that so many parameters are exchanged in: buckets of 40 million, or a million a rank where more.

    Source: GitHub NVIDIA/Megatron-LM, megatron/core/distributed/distributed_data_parallel.py (bucket_size).
    """
    return np.ceil(np.asarray(parameters) / np.maximum(40e6, 1e6 * np.asarray(ranks)))


@checked
def expected_maximum(ranks: int) -> float:
    """Standard deviations by which the largest of n normal numbers is expected above the mean, 0 for one.

    Blom's approximation, Phi^-1((n - 3/8) / (n + 1/4)); rounded, so that every CPU has the same.
    """
    return round(NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)), 6)


def _sharded(rank: Rank, held: tuple[float, float], layers: int) -> dict[str, float]:
    strategy = rank.strategy
    twice = bool(rank.runtime.dual(strategy.pipeline, strategy.interleave))  # another rank has the same two stages
    replicas = strategy.context * strategy.data * (1 + twice)
    same_experts = max(replicas * (strategy.tensor if strategy.whole_experts else 1) // strategy.expert, 1)
    level, kept = SHARDING.index(strategy.sharding), rank.runtime.sharded_gradients
    options: dict[str, Any] = {"sharded_gradients": kept, "chunks": strategy.interleave}
    found = sharded_parameters(held, replicas, same_experts, layers, level, **options)
    return {name: float(size) for name, size in found.items()}


def _own(rank: Rank, held: tuple[float, float], layers: int) -> float:
    """Parameters whose weights are the rank's own."""
    return _sharded(rank, held, layers)["own"]
