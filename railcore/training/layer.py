"""Time and bytes of one transformer layer, for one micro-batch on one rank; arrays of strategies.

A layer's time is that of its work (`layer_work`: matrix products, attention, all other kernels, the host), of traffic
that the work does not hide (`layer_traffic`), and of what the backward pass makes again (`recompute`). Symbols as in
`rank`. In a model with mixture layers it is the average layer of a stage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from railcore.training.exchanges import boundary_exchanges, gathers, logits_exchanges, projection_exchanges
from railcore.training.formats import ELEMENT_BYTES, FP32_BYTES
from railcore.training.layer_traffic import (
    LINK_KINDS,
    LayerLinks,
    LayerTraffic,
    context_traffic,
    expert_traffic,
    layer_links,
    sum_of_links,
    tensor_traffic,
)
from railcore.training.layer_work import (
    Passes,
    Products,
    attention_times,
    elementwise_times,
    host_waits,
    linear_times,
    logits_time,
    projection_time,
)
from railcore.training.link_times import LinkTimes
from railcore.training.machine import Machine
from railcore.training.rank import LAYER_COLUMNS, Rank
from railcore.training.recompute import kept_bytes, recomputed_compute, working_bytes
from railcore.training.runtime import Runtime
from railcore.training.transformer import RECOMPUTE, Transformer
from railcore.training.transformer_memory import EVERY_OPERATOR
from railcore.training.unique_rows import each_array, unique_places

COMPUTE_PARTS = ("linear", "attention", "elementwise", "recompute", "host")
LAYER_PARTS = (*COMPUTE_PARTS, *LINK_KINDS)
_MANY_RANKS = 2048  # from which on equal ones are worth finding
# Columns that a part of a layer's costs depends on.
_LINK_COLUMNS = (
    *("micro_batch", "tensor", "context", "pipeline", "data", "expert"),
    *("sequence_parallel", "whole_experts", "placement"),
)
_PRODUCT_COLUMNS = ("micro_batch", "tensor", "context", "expert", "pipeline", "whole_experts")
_TOKEN_COLUMNS = ("micro_batch", "tensor", "context")
_ACTIVATION_COLUMNS = ("micro_batch", "tensor", "context", "pipeline", "sequence_parallel", "whole_experts")
_BASE_COLUMNS = tuple(name for name in LAYER_COLUMNS if name not in ("recompute", "recompute_group"))


@dataclass(frozen=True)
class LayerCosts:
    """Seconds and bytes of a layer for one micro-batch on one rank, arrays of one shape.

    compute_s: compute of both passes, recompute included [s].
    seconds: both passes together, by LAYER_PARTS; of communication what is not hidden [s].
    links: link time by LINK_KINDS in both passes, hidden or not [s].
    forward_s, backward_s: all kinds together, by pass; recompute is in backward [s].
    forward_busy, backward_busy: link time of all traffic, by pass [s].
    weights_s: time that a backward pass saves without the weights' gradients, for pipelines from both ends (DualPipe);
        else 0 [s].
    logits_s: logits and loss of the last stage, and layers that predict further tokens with their logits [s].
    logits_link: link time in them [s].
    boundary_bytes: from a rank to the next stage.
    boundary_gather: link time of what the next stage's tensor ranks then gather [s].
    again_s, again_busy: of what is recomputed, its time and its link time, both in the above [s].
    again_links: by LINK_KINDS, in `links` [s].
    kept_bytes: activations kept for the backward pass.
    spared_bytes: how many more a layer keeps that is not recomputed.
    working_bytes: activations of the layer that is computed again.
    logits_bytes: logits of the last stage.
    """

    compute_s: np.ndarray
    seconds: dict[str, np.ndarray]
    links: dict[str, LinkTimes]
    forward_s: np.ndarray
    backward_s: np.ndarray
    forward_busy: LinkTimes
    backward_busy: LinkTimes
    weights_s: np.ndarray
    logits_s: np.ndarray
    logits_link: LinkTimes
    boundary_bytes: np.ndarray
    boundary_gather: LinkTimes
    again_s: np.ndarray
    again_busy: LinkTimes
    again_links: dict[str, LinkTimes]
    kept_bytes: np.ndarray
    spared_bytes: np.ndarray
    working_bytes: np.ndarray
    logits_bytes: np.ndarray


@dataclass(frozen=True)
class LayerPasses:
    """A layer's work and traffic without recompute.

    work: seconds by kind and pass, of LAYER_PARTS but recompute; of communication what is not hidden.
    traffic: by LINK_KINDS.
    """

    work: dict[str, Passes]
    traffic: dict[str, LayerTraffic]

    @property
    def both(self) -> Passes:
        """Of all kinds together."""
        return reduce(Passes.plus, self.work.values())


def layer_passes(rank: Rank, machine: Machine) -> LayerPasses:
    """Work and traffic of a layer by kind and pass, without recompute."""
    return _layer_passes(rank, machine, layer_links(rank, machine), *_products(rank, machine))


def _products(rank: Rank, machine: Machine) -> tuple[Products, Products]:
    """Products one after the other, and at full clock."""
    return linear_times(rank, machine), linear_times(rank, machine.at_full_clock)


def _layer_passes(
    rank: Rank, machine: Machine, links: LayerLinks, products: Products, full_clock: Products
) -> LayerPasses:
    heads = rank.micro_batch * rank.model.heads / rank.tensor
    scores = Passes(*attention_times(rank.model, machine, rank.runtime, heads, rank.queries))
    kernels = elementwise_times(rank, machine)
    # Unfused attention is products itself.
    other = scores.plus(kernels) if rank.runtime.fused_attention else kernels
    products = products.beside(full_clock, other.times(machine.rates.layer_spare_power))
    work = {"linear": products.passes, "attention": scores, "elementwise": kernels}
    traffic = {
        "tensor": tensor_traffic(rank, machine, links, products),
        "context": context_traffic(rank, machine, links, scores),
    }
    work |= {name: kind.exposed for name, kind in traffic.items()}
    traffic["expert"] = expert_traffic(rank, machine, links, LayerPasses(work, {}).both, traffic)
    work["expert"] = traffic["expert"].exposed
    work["host"] = host_waits(rank, machine, LayerPasses(work, {}).both)
    return LayerPasses(work, traffic)


def layer_costs(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    columns: Mapping[str, np.ndarray],
    by_kind: bool = True,
    on_first_stage: bool = False,
) -> LayerCosts:
    """Time and bytes of a layer: compute, traffic that compute does not hide, what the host adds, what is done again.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    columns
        Arrays of one shape by the names in LAYER_COLUMNS, recompute and placement as indices; the last three are 0
        where they are missing.
    by_kind
        Whether times by kind are wanted; else `seconds` and `links` are empty.
    on_first_stage
        Whether the stage is the first one, which has the dense first layers, or the last one (`mixture_shares`).

    Returns
    -------
    Costs, arrays of the same shape.
    """
    rank = Rank.on(machine, model, runtime, columns, on_first_stage)
    base = _for_equal_ranks(rank, _BASE_COLUMNS, lambda ranks: _layer_base(ranks, machine, by_kind))
    level = rank.column("recompute")
    full, selective = level == RECOMPUTE.index("full"), level == RECOMPUTE.index("selective")

    def made_again(forward: Any, modules: Any) -> Any:
        """Full recompute repeats the forward pass, with its traffic; selective recompute some modules."""
        return each_array(lambda whole, part: np.select([full, selective], [whole, part], 0.0), forward, modules)

    again = made_again(base.forward_s, base.modules_s)
    forward_busy, again_busy = base.forward_busy, made_again(base.forward_busy, base.modules_busy)
    backward_busy = base.backward_busy.plus(again_busy)
    again_links = {name: made_again(kind.forward, kind.again) for name, kind in base.traffic.items()}
    links = {name: kind.forward.plus(kind.backward).plus(again_links[name]) for name, kind in base.traffic.items()}
    # The input of the first of so many layers is kept, at most of all layers of a stage.
    group = np.clip(rank.column("recompute_group"), 1, np.ceil(model.layers / rank.column("pipeline")))
    kept = np.choose(level, base.kept_bytes) / np.where(full, group, 1) + base.gathered_bytes * ~full
    logits_s, logits_link, predicting = base.logits_s, base.logits_link, model.mtp_layers
    if predicting:  # each has a layer, a projection, and logits
        one_s = base.forward_s + base.backward_s + again + base.projection_s + logits_s
        one_link = forward_busy.plus(backward_busy).plus(logits_link).plus(base.projection_link)
        logits_s, logits_link = logits_s + predicting * one_s, logits_link.plus(one_link.times(predicting))
    return LayerCosts(
        compute_s=base.compute_s + again,
        seconds=base.seconds | {"recompute": again} if by_kind else {},
        links=links,
        forward_s=base.forward_s,
        backward_s=base.backward_s + again,
        forward_busy=forward_busy,
        backward_busy=backward_busy,
        weights_s=base.weights_s,
        logits_s=logits_s,
        logits_link=logits_link,
        boundary_bytes=base.boundary_bytes,
        boundary_gather=base.boundary_gather,
        again_s=again,
        again_busy=again_busy,
        again_links=again_links,
        kept_bytes=kept,
        spared_bytes=base.kept_bytes[0] + base.gathered_bytes - kept,
        working_bytes=working_bytes(base.kept_bytes, level) * np.where(full, group, 1),
        logits_bytes=base.logits_bytes,
    )


@dataclass(frozen=True)
class _LayerBase:
    """Costs of a layer before its recompute is added: the fields of `LayerCosts`, and these.

    seconds, traffic: by kind, where these are wanted.
    modules_s, modules_busy: time and link time of what selective recompute would make again.
    projection_s, projection_link: of a predicting layer; 0 where there is none.
    kept_bytes: for each level of recompute.
    gathered_bytes: gathered inputs that are kept (`keep_gathered`).
    """

    seconds: dict[str, np.ndarray]
    traffic: dict[str, LayerTraffic]
    compute_s: np.ndarray
    forward_s: np.ndarray
    backward_s: np.ndarray
    forward_busy: LinkTimes
    backward_busy: LinkTimes
    weights_s: np.ndarray
    modules_s: np.ndarray
    modules_busy: LinkTimes
    logits_s: np.ndarray
    logits_link: LinkTimes
    projection_s: np.ndarray
    projection_link: LinkTimes
    boundary_bytes: np.ndarray
    boundary_gather: LinkTimes
    kept_bytes: tuple[np.ndarray, ...]
    gathered_bytes: np.ndarray
    logits_bytes: np.ndarray


def _layer_base(rank: Rank, machine: Machine, by_kind: bool) -> _LayerBase:
    model, runtime, nothing = rank.model, rank.runtime, 0 * rank.tokens
    links = _for_equal_ranks(rank, _LINK_COLUMNS, lambda ranks: layer_links(ranks, machine))
    products, full_clock = _for_equal_ranks(rank, _PRODUCT_COLUMNS, lambda ranks: _products(ranks, machine))
    passes = _layer_passes(rank, machine, links, products, full_clock)
    both, work = passes.both, passes.work
    weights_s = nothing
    if runtime.schedule == "dualpipe":
        no_weights = (kind._replace(weights=nothing) for kind in (products, full_clock))
        without = _layer_passes(rank, machine, links, *no_weights)
        weights_s = both.backward - without.both.backward
    modules_s = sum(kind.again_s for kind in passes.traffic.values()) + recomputed_compute(rank, machine)
    if "core_attn" in runtime.recompute_modules and not runtime.fused_attention:
        modules_s = modules_s + work["attention"].forward
    if EVERY_OPERATOR in runtime.recompute_modules:
        modules_s = modules_s + work["elementwise"].forward
    send, gather = list(boundary_exchanges(rank))[:2]
    logits, projection = (links.tensor.times(gathers(rows(rank))) for rows in (logits_exchanges, projection_exchanges))
    logits_s, projection_s = _for_equal_ranks(rank, _TOKEN_COLUMNS, lambda ranks: _logits_times(ranks, machine))
    seconds = {name: kind.forward + kind.backward for name, kind in work.items()}
    return _LayerBase(
        seconds=seconds if by_kind else {},
        traffic=passes.traffic if by_kind else {},
        compute_s=seconds["linear"] + seconds["attention"] + seconds["elementwise"],
        forward_s=both.forward,
        backward_s=both.backward,
        forward_busy=sum_of_links(kind.forward for kind in passes.traffic.values()),
        backward_busy=sum_of_links(kind.backward for kind in passes.traffic.values()),
        weights_s=weights_s,
        modules_s=modules_s,
        modules_busy=sum_of_links(kind.again for kind in passes.traffic.values()),
        logits_s=logits_s + logits.time_s,
        logits_link=logits,
        projection_s=projection_s + projection.time_s,
        projection_link=projection,
        boundary_bytes=send.message_bytes,
        boundary_gather=links.tensor.times(gathers([gather])),
        kept_bytes=_for_equal_ranks(rank, _ACTIVATION_COLUMNS, _kept_bytes),
        gathered_bytes=rank.gathered_operators * rank.activation_bytes * (1 - 1 / rank.tensor) * rank.keeps_gathered,
        # In bf16 and in fp32, for each token that is predicted.
        logits_bytes=(1 + model.mtp_layers)
        * (ELEMENT_BYTES + FP32_BYTES)
        * rank.tokens
        * model.vocabulary
        / rank.tensor,
    )


def _logits_times(rank: Rank, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Compute of logits, and of a predicting layer's projection, 0 where there is none [s]."""
    return logits_time(rank, machine), projection_time(rank, machine) if rank.model.mtp_layers else 0 * rank.tokens


def _kept_bytes(rank: Rank) -> tuple[np.ndarray, ...]:
    """Activations that a layer keeps, by level of recompute [bytes]."""
    return tuple(kept_bytes(rank, level) + 0 * rank.tokens for level in range(len(RECOMPUTE)))


def _for_equal_ranks(rank: Rank, names: Sequence[str], values: Callable[[Rank], Any]) -> Any:
    """Arrays of the ranks; of many they are computed once for ranks that are equal in the columns `names`."""
    if rank.tokens.size < _MANY_RANKS:
        return values(rank)
    first, index = unique_places(rank.columns, names)
    return each_array(lambda array: array[index] if np.ndim(array) else array, values(rank.at(first)))
