"""Time and memory of one transformer layer for one micro-batch on one rank, for many strategies at once.

It equals the readable model, `training.layer`; a test holds it to that.

Compute by kind, communication as link time and exposed time, and activations. Symbols as in
`railcore.training.transformer`, and u = s b / c tokens of a micro-batch on a rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.engines.strategies.layer_passes import (
    LAYER_COLUMNS,
    LINK_KINDS,
    Ranks,
    both_passes,
    products_by_pass,
    shared_values,
    sum_of_links,
    work_by_kind,
)
from railcore.facts.unique_rows import each_array
from railcore.training.layer import logits_gathers, logits_time, projection_time
from railcore.training.link_times import LinkTimes
from railcore.training.machine import Machine
from railcore.training.products import ELEMENT_BYTES
from railcore.training.rank import mixture_shares
from railcore.training.recompute import ForwardWork, kept_bytes, recomputed_modules, working_bytes
from railcore.training.runtime import Runtime
from railcore.training.transformer import RECOMPUTE, Transformer

_NOT_RECOMPUTE = tuple(name for name in LAYER_COLUMNS if name != "recompute")
_OF_PRODUCTS = ("micro_batch", "tensor", "context", "expert", "pipeline", "whole_experts")
_OF_TOKENS = ("micro_batch", "tensor", "context")
_OF_ACTIVATIONS = ("micro_batch", "tensor", "context", "pipeline", "sequence_parallel", "whole_experts")


@dataclass(frozen=True)
class LayerCosts:
    """Seconds and bytes of a layer for one micro-batch on one rank, arrays of one shape; fields as in `LayerTime`."""

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
    kept_bytes: np.ndarray
    working_bytes: np.ndarray
    logits_bytes: np.ndarray


def layer_costs(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    columns: Mapping[str, np.ndarray],
    by_kind: bool = True,
    on_first_stage: bool = False,
) -> LayerCosts:
    """Times and bytes of a layer; in a model with mixture layers, of the average layer of a stage.

    Without a pipeline all layers are averaged. Recompute: "selective" repeats the runtime's modules, "full" the forward
    pass. Host: what a layer's operators take to start beyond their time on the GPU (`Runtime.eager`).

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
    mixed = mixture_shares(model, columns["pipeline"])[0 if on_first_stage else 1]
    rank = Ranks(model, machine, runtime, columns, mixed)
    model, level = rank.model, rank.recompute
    full, selective = level == 2, level == 1
    once = shared_values(rank, _NOT_RECOMPUTE, lambda ranks: _OnePass.of(ranks, by_kind))

    def made_again(whole: Any, modules: Any) -> Any:
        return each_array(lambda all_, some: np.select([full, selective], [all_, some], 0.0), whole, modules)

    again = made_again(once.forward_s, once.modules_s)
    forward_busy = once.forward_busy
    backward_busy = once.backward_busy.plus(made_again(forward_busy, once.modules_busy))
    links = {
        name: forward.plus(backward).plus(made_again(forward, modules))
        for name, (forward, backward, modules) in once.links.items()
    }
    logits, further = once.logits_gather, model.mtp_layers
    logits_s, logits_link = once.logits_s, logits
    if further:
        one = once.forward_s + once.backward_s + again + once.projection_s + logits_s
        logits_s = logits_s + further * one
        one_link = forward_busy.plus(backward_busy).plus(logits).plus(once.projection_gather)
        logits_link = logits.plus(one_link.times(further))
    return LayerCosts(
        compute_s=once.compute_s + again,
        seconds=once.seconds | {"recompute": again} if by_kind else {},
        links=links,
        forward_s=once.forward_s,
        backward_s=once.backward_s + again,
        forward_busy=forward_busy,
        backward_busy=backward_busy,
        weights_s=once.weights_s,
        logits_s=logits_s,
        logits_link=logits_link,
        boundary_bytes=once.boundary_bytes,
        boundary_gather=once.boundary_gather,
        kept_bytes=np.choose(level, once.kept_bytes) + once.regained_bytes * (level < 2),
        working_bytes=working_bytes(once.kept_bytes, level),
        logits_bytes=once.logits_bytes,
    )


@dataclass(frozen=True)
class _OnePass:
    """What is the same of a layer for all recompute: fields as in `LayerCosts`, without what is made again.

    seconds, links: by kind, where these are wanted; of the forward and the backward pass, and of what selective
        recompute makes again.
    modules_s, modules_busy: what it makes again, and how long links are busy with it.
    projection_s: of a predicting layer, with its gathers.
    logits_gather, projection_gather: of tensor ranks, in logits and in the projection.
    kept_bytes: for each level of recompute.
    regained_bytes: gathered inputs that are kept.
    """

    seconds: dict[str, np.ndarray]
    links: dict[str, tuple[LinkTimes, LinkTimes, LinkTimes]]
    compute_s: np.ndarray
    forward_s: np.ndarray
    backward_s: np.ndarray
    forward_busy: LinkTimes
    backward_busy: LinkTimes
    weights_s: np.ndarray
    modules_s: np.ndarray
    modules_busy: LinkTimes
    logits_s: np.ndarray
    projection_s: np.ndarray
    logits_gather: LinkTimes
    projection_gather: LinkTimes
    boundary_bytes: np.ndarray
    boundary_gather: LinkTimes
    kept_bytes: tuple[np.ndarray, ...]
    regained_bytes: np.ndarray
    logits_bytes: np.ndarray

    @classmethod
    def of(cls, rank: Ranks, by_kind: bool) -> "_OnePass":
        """Of each rank."""
        model, runtime, u, t = rank.model, rank.runtime, rank.u, rank.t
        of_rank = model, rank.machine, runtime, rank.share
        products = shared_values(rank, _OF_PRODUCTS, products_by_pass)
        work, gather = work_by_kind(rank, products), rank.input_gather
        forward_s, backward_s = both_passes(work)
        weights_s = 0 * u
        if runtime.schedule == "dualpipe":
            without = work_by_kind(rank, [*products[:2], 0 * products[2]])
            weights_s = backward_s - both_passes(without)[1]
        tensor, expert = work["tensor"], work["expert"]
        forward_work = ForwardWork(
            scores_s=work["attention"].forward,
            rest_s=work["elementwise"].forward,
            tensor_s=tensor.forward,
            expert_s=expert.forward,
            tensor=tensor.link_forward,
            expert=expert.link_forward,
        )
        routed = gather.times(rank.routed_gathers)
        modules_s, modules_links = recomputed_modules(*of_rank, rank.operators, forward_work, routed)
        modules_links = each_array(lambda time: time + 0 * u, modules_links)
        links = {name: (work[name].link_forward, work[name].link_backward, modules_links[name]) for name in LINK_KINDS}
        busy = [sum_of_links([each[i] for each in links.values()]) for i in range(3)]
        seconds = {name: kind.forward + kind.backward for name, kind in work.items()}
        logits, projection = gather.times(logits_gathers(rank.sliced, rank.kept_inputs)), gather.times(2)
        whole = u * model.hidden
        after_layers = shared_values(rank, _OF_TOKENS, _logits_and_projection)
        return cls(
            seconds=seconds if by_kind else {},
            links=links if by_kind else {},
            compute_s=seconds["linear"] + seconds["attention"] + seconds["elementwise"],
            forward_s=forward_s,
            backward_s=backward_s,
            forward_busy=busy[0],
            backward_busy=busy[1],
            weights_s=weights_s,
            modules_s=modules_s + 0 * u,
            modules_busy=busy[2],
            logits_s=after_layers[0] + logits.time_s,
            projection_s=after_layers[1] + projection.time_s,
            logits_gather=logits,
            projection_gather=projection,
            boundary_bytes=ELEMENT_BYTES * whole / (t if runtime.scatter_gather else rank.sliced_by),
            boundary_gather=gather.times(np.where(rank.sliced, 0.0, 1.0) * runtime.scatter_gather),
            kept_bytes=shared_values(rank, _OF_ACTIVATIONS, _kept_bytes),
            regained_bytes=rank.operators * ELEMENT_BYTES * whole * (1 - 1 / t) * rank.kept_inputs,
            logits_bytes=(1 + model.mtp_layers) * (ELEMENT_BYTES + 4) * u * model.vocabulary / t,
        )


def _logits_and_projection(rank: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Compute of logits, and of a predicting layer's projection, 0 where there is none [s]."""
    of_rank = rank.model, rank.machine, rank.runtime, rank.share
    return logits_time(*of_rank), projection_time(*of_rank) if rank.model.mtp_layers else 0 * rank.u


def _kept_bytes(rank: Ranks) -> tuple[np.ndarray, ...]:
    """Activations that a layer keeps, by level of recompute [bytes]."""
    levels = range(len(RECOMPUTE))
    of_rank = rank.model, rank.machine, rank.runtime, rank.share
    return tuple(kept_bytes(*of_rank, level) + 0 * rank.u for level in levels)
