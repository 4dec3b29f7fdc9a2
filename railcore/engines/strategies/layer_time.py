"""Time and memory of one transformer layer for one micro-batch on one rank, for many strategies at once.

It equals the readable model, `training.layer`; a test holds it to that.

Compute by kind, communication as link time and exposed time, and activations. Symbols as in
`railcore.training.transformer`, and u = s b / c tokens of a micro-batch on a rank.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from railcore.engines.strategies.unique_rows import each_array, unique_places
from railcore.training.expert_dispatch import dispatch_bytes, parts_groups
from railcore.training.layer import (
    OWN_KERNELS,
    attention_times,
    expert_kernel_bytes,
    gated_kernel_bytes,
    host_waits,
    logits_time,
    projection_time,
)
from railcore.training.link_times import NO_LINK, LinkTimes, exposed_beside, exposed_time
from railcore.training.machine import Machine
from railcore.training.products import ELEMENT_BYTES, product_passes
from railcore.training.rank import LayerShare, expert_rows, mixture_shares, wide_dense_layers
from railcore.training.rank_order import GroupLevels, group_levels
from railcore.training.recompute import ForwardWork, kept_bytes, recomputed_modules
from railcore.training.runtime import Runtime
from railcore.training.transformer import RECOMPUTE, Transformer

LAYER_COLUMNS = (
    *("micro_batch", "tensor", "context", "expert", "data", "pipeline"),
    *("sequence_parallel", "recompute", "keep_gathered", "whole_experts", "placement"),
)
COMPUTE_PARTS = ("linear", "attention", "elementwise", "recompute", "host")
LINK_KINDS = ("tensor", "context", "expert")
_NOT_RECOMPUTE = tuple(name for name in LAYER_COLUMNS if name != "recompute")
_OF_PRODUCTS = ("micro_batch", "tensor", "context", "expert", "pipeline", "whole_experts")
_OF_GROUPS = ("tensor", "context", "pipeline", "data", "expert", "whole_experts", "placement")
_OF_ACTIVATIONS = ("micro_batch", "tensor", "context", "pipeline", "sequence_parallel")
_MANY_RANKS = 2048  # from which on equal ones are worth finding
LAYER_PARTS = (*COMPUTE_PARTS, *LINK_KINDS)


class PassTimes(NamedTuple):
    """Seconds of one kind of work in a layer: on the critical path, and how long it takes and keeps links busy."""

    forward: Any
    backward: Any
    link_forward: LinkTimes = NO_LINK
    link_backward: LinkTimes = NO_LINK


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
    model: Transformer, machine: Machine, runtime: Runtime, columns: Mapping[str, np.ndarray], by_kind: bool = True
) -> LayerCosts:
    """Times and bytes of a layer; in a model with mixture layers, of the average layer of the slowest stage.

    Where the first layers are dense, that is the last stage; where they are wide, the slower of both ends; without a
    pipeline all layers are averaged. Recompute: "selective" repeats the runtime's modules, "full" the forward pass.
    Host: what a layer's operators take to start beyond their time on the GPU (`Runtime.eager`).

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    columns
        Arrays of one shape by the names in LAYER_COLUMNS, recompute and placement as indices; the last three are 0
        where they are missing.
    by_kind
        Whether times by kind are wanted; else `seconds` and `links` are empty.

    Returns
    -------
    Costs, arrays of the same shape.
    """
    first, last = mixture_shares(model, columns["pipeline"])
    costs = _layer_costs(machine, runtime, _Ranks(model, runtime, columns, last), by_kind)
    if not wide_dense_layers(model):
        return costs
    other = _layer_costs(machine, runtime, _Ranks(model, runtime, columns, first), by_kind)
    slower = other.forward_s + other.backward_s > costs.forward_s + costs.backward_s
    return each_array(lambda one, two: np.where(slower, one, two), other, costs)


def _layer_costs(machine: Machine, runtime: Runtime, rank: "_Ranks", by_kind: bool) -> LayerCosts:
    """`layer_costs` of the ranks' stage."""
    model, level = rank.model, rank.recompute
    full, selective = level == 2, level == 1
    once = _shared(rank, _NOT_RECOMPUTE, lambda ranks: _OnePass.of(machine, runtime, ranks, by_kind))

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
        logits_link = logits.plus(forward_busy.plus(backward_busy).plus(logits.times(2)).times(further))
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
        working_bytes=(once.kept_bytes[0] - once.kept_bytes[1]) * selective + once.kept_bytes[0] * full,
        logits_bytes=once.logits_bytes,
    )


@dataclass(frozen=True)
class _OnePass:
    """What is the same of a layer for all recompute: fields as in `LayerCosts`, without what is made again.

    seconds, links: by kind, where these are wanted; of the forward and the backward pass, and of what selective
        recompute makes again.
    modules_s, modules_busy: what it makes again, and how long links are busy with it.
    projection_s: of a predicting layer, with its gathers.
    logits_gather: of tensor ranks, in logits.
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
    boundary_bytes: np.ndarray
    boundary_gather: LinkTimes
    kept_bytes: tuple[np.ndarray, ...]
    regained_bytes: np.ndarray
    logits_bytes: np.ndarray

    @classmethod
    def of(cls, machine: Machine, runtime: Runtime, rank: "_Ranks", by_kind: bool) -> "_OnePass":
        """Of each rank."""
        model, u, t = rank.model, rank.u, rank.t
        of_rank = model, machine, runtime, rank.share
        products = _shared(rank, _OF_PRODUCTS, lambda ranks: _linear_times(machine, runtime, ranks))
        work, gather = _passes(machine, runtime, rank, products), _input_gather(machine, rank)
        forward_s, backward_s = _both_passes(work)
        weights_s = 0 * forward_s
        if runtime.schedule == "dualpipe":
            without = _passes(machine, runtime, rank, [*products[:2], 0 * products[2]])
            weights_s = backward_s - _both_passes(without)[1]
        tensor, expert = work["tensor"], work["expert"]
        forward_work = ForwardWork(
            scores_s=work["attention"].forward,
            rest_s=work["elementwise"].forward,
            tensor_s=tensor.forward,
            expert_s=expert.forward,
            tensor=tensor.link_forward,
            expert=expert.link_forward,
        )
        routed = gather.times(2 * rank.expert_operators * (model.experts > 0))
        modules_s, modules_links = recomputed_modules(*of_rank, rank.operators, forward_work, routed)
        modules_links = each_array(lambda time: time + 0 * u, modules_links)
        links = {name: (work[name].link_forward, work[name].link_backward, modules_links[name]) for name in LINK_KINDS}
        forward_busy, backward_busy, modules_busy = (_sum([each[i] for each in links.values()]) for i in range(3))
        seconds = {name: kind.forward + kind.backward for name, kind in work.items()}
        logits, whole = gather.times(2), u * model.hidden
        return cls(
            seconds=seconds if by_kind else {},
            links=links if by_kind else {},
            compute_s=seconds["linear"] + seconds["attention"] + seconds["elementwise"],
            forward_s=forward_s,
            backward_s=backward_s,
            forward_busy=forward_busy,
            backward_busy=backward_busy,
            weights_s=weights_s,
            modules_s=modules_s + 0 * u,
            modules_busy=modules_busy,
            logits_s=logits_time(*of_rank) + logits.time_s,
            projection_s=projection_time(*of_rank) + logits.time_s if model.mtp_layers else 0 * u,
            logits_gather=logits,
            boundary_bytes=ELEMENT_BYTES * whole / (t if runtime.scatter_gather else rank.sliced_by),
            boundary_gather=gather.times(np.where(rank.sliced, 0.0, 1.0) * runtime.scatter_gather),
            kept_bytes=_shared(rank, _OF_ACTIVATIONS, lambda ranks: _kept_bytes(machine, runtime, ranks)),
            regained_bytes=rank.operators * ELEMENT_BYTES * whole * (1 - 1 / t) * rank.kept_inputs,
            logits_bytes=(1 + model.mtp_layers) * (ELEMENT_BYTES + 4) * u * model.vocabulary / t,
        )


def _kept_bytes(machine: Machine, runtime: Runtime, rank: "_Ranks") -> tuple[np.ndarray, ...]:
    """Activations that a layer keeps, by level of recompute [bytes]."""
    levels = range(len(RECOMPUTE))
    return tuple(kept_bytes(rank.model, machine, runtime, rank.share, level) + 0 * rank.u for level in levels)


def _shared(rank: "_Ranks", names: Sequence[str], values: Callable[["_Ranks"], Any]) -> Any:
    """Arrays of the ranks, computed once for those that are equal in some columns, where there are many."""
    if rank.u.size < _MANY_RANKS:
        return values(rank)
    first, index = unique_places(rank.columns, names)
    return each_array(lambda array: array[index] if np.ndim(array) else array, values(rank.at(first)))


def layer_passes(
    model: Transformer, machine: Machine, runtime: Runtime, columns: Mapping[str, np.ndarray]
) -> dict[str, PassTimes]:
    """Times of a layer's work by kind and pass, without recompute: LAYER_PARTS but that one.

    Parameters
    ----------
    model, machine, runtime, columns
        As for `layer_costs`.

    Returns
    -------
    Seconds, arrays of the columns' shape.
    """
    rank = _Ranks(model, runtime, columns, mixture_shares(model, columns["pipeline"])[1])
    return _passes(machine, runtime, rank, _linear_times(machine, runtime, rank))


class _Ranks:
    """What a rank has of a layer, as `training.rank.Rank`, in arrays of one shape: b, t, c, e ranks and u tokens."""

    def __init__(self, model: Transformer, runtime: Runtime, columns: Mapping[str, np.ndarray], mixed: Any) -> None:
        self.model, self.runtime, self.columns = model, runtime, columns
        self.b, self.t, self.c, self.e = (
            np.asarray(columns[name], float) for name in ("micro_batch", "tensor", "context", "expert")
        )
        self.sliced, self.recompute = (np.asarray(columns[name]) for name in ("sequence_parallel", "recompute"))
        self.sliced_by = np.where(self.sliced, self.t, 1.0)
        self.kept_inputs = self.sliced * np.asarray(columns.get("keep_gathered", 0))
        self.whole = np.asarray(columns.get("whole_experts", 0), bool)
        self.u = model.sequence_length * self.b / self.c
        self.copies = expert_rows(model, runtime)
        self.local = np.maximum(model.experts // self.e, 1)  # experts of a rank
        self.mixed = mixed + 0 * self.u

    def at(self, places: np.ndarray) -> "_Ranks":
        """Some of them."""
        columns = {name: np.asarray(values)[places] for name, values in self.columns.items()}
        return _Ranks(self.model, self.runtime, columns, self.mixed[places])

    @cached_property
    def groups(self) -> dict[str, GroupLevels]:
        """Where each kind of group lies."""
        return _shared(self, _OF_GROUPS, lambda ranks: group_levels(ranks.columns))

    @property
    def share(self) -> LayerShare:
        """The same for what numbers and arrays have in common."""
        slices = np.where(self.whole, self.t, 1.0)
        of_expert = self.u / slices * self.copies * self.e / max(self.model.experts, 1)
        widths = self.u, self.t, self.sliced_by, self.mixed, self.copies
        return LayerShare(*widths, self.local, of_expert, self.t / slices)

    @property
    def operators(self) -> Any:
        """Operators of a layer that exchange activations among the tensor ranks once each way, routed experts apart."""
        dense = 1 if self.model.parallel_block else 2
        return dense - self.mixed * (0 if self.model.shared_hidden else 1)

    @property
    def expert_operators(self) -> Any:
        """The same of the routed experts of the average layer, each copy of a token; whole experts take the slices."""
        return np.where(self.whole, 0.0, self.mixed * self.copies)


def _sum(links: list[Any]) -> LinkTimes:
    """Of kinds one after the other."""
    total = links[0]
    for each in links[1:]:
        total = total.plus(each)
    return total


def _passes(machine: Machine, runtime: Runtime, rank: _Ranks, products: list[Any]) -> dict[str, PassTimes]:
    """Times by kind, of LAYER_PARTS but recompute. products: of `_linear_times`."""
    heads, queries = rank.b * rank.model.heads / rank.t, rank.model.sequence_length / rank.c
    attention = PassTimes(*attention_times(rank.model, machine, runtime, heads, queries))
    work = {
        "linear": PassTimes(products[0], products[1] + products[2]),
        "attention": attention,
        "elementwise": _elementwise(machine, runtime, rank),
        "tensor": _tensor_traffic(machine, runtime, rank, products),
        "context": _context_traffic(machine, runtime, rank, attention),
    }
    work["expert"] = _expert_traffic(machine, runtime, rank, work)
    waits = host_waits(rank.model, machine, runtime, rank.share, _both_passes(work))
    return work | {"host": PassTimes(*waits)}


def _both_passes(work: Mapping[str, PassTimes]) -> tuple[Any, Any]:
    """Forward and backward time of all kinds together."""
    return sum(kind.forward for kind in work.values()), sum(kind.backward for kind in work.values())


def _gather(machine: Machine, message_bytes: Any, group: GroupLevels) -> LinkTimes:
    return machine.gather_links(message_bytes, *group.in_domains(machine.hb_domain_size))


def _input_gather(machine: Machine, rank: _Ranks) -> LinkTimes:
    """AllGather of a layer's input among its tensor ranks."""
    return _gather(machine, ELEMENT_BYTES * rank.u * rank.model.hidden, rank.groups["tensor"])


def _linear_times(machine: Machine, runtime: Runtime, rank: _Ranks) -> list[Any]:
    """Times of a layer's products with weights: forward, of the inputs' gradients, of the weights' gradients.

    Rows x columns, inner side: attention u x its `attention_matrices`; feed-forward u x (m - 1) f / t, h and
    u x h, f / t, of shared experts likewise; of a routed expert u q e / E tokens, E / e of them in turn, q their
    `expert_rows`. A whole expert has the full width, and of each rank's u / t tokens. Gradients of weights are added up
    over micro-batches in the product itself, unless each goes its way at once (eager).
    """
    model = rank.model

    def feed_forward(width: Any) -> tuple[tuple[Any, Any], ...]:
        return ((model.ffn_matrices - 1) * width, model.hidden), (model.hidden, width)

    slices = np.where(rank.whole, rank.t, 1.0)
    each = rank.u / slices * rank.copies * rank.e / max(model.experts, 1)  # tokens of an expert
    rows: list[tuple[Any, ...]] = [(1.0, rank.u, n, k, 1) for n, k in model.attention_matrices(rank.t)]
    if model.mixture_share < 1:
        rows += [(1 - rank.mixed, rank.u, n, k, 1) for n, k in feed_forward(model.ffn_hidden / rank.t)]
    if model.experts:
        width = model.expert_hidden * slices / rank.t
        rows += [(rank.mixed * rank.local, each, n, k, 1) for n, k in feed_forward(width)]
        if model.shared_hidden:
            rows += [(rank.mixed, rank.u, n, k, 1) for n, k in feed_forward(model.shared_hidden / rank.t)]
    moved, form = runtime.gradient_result_bytes, runtime.linear_format(machine)
    passes = [[share * time for time in product_passes(machine, m, n, k, q, form, moved)] for share, m, n, k, q in rows]
    return [sum(times) for times in zip(*passes, strict=True)]


def _elementwise(machine: Machine, runtime: Runtime, rank: _Ranks) -> PassTimes:
    """Kernels that move their operands through HBM once.

    A row is bytes of a token forward and backward. Norms and residuals are over t where sequence_parallel, and half as
    many in a parallel block. Kernels are as many as the machine's operators of a layer, those of products and attention
    left out, which count their own. Eager, the backward pass reads a norm's operands once more
    for the gradients of its weights, adds up the gradients at every residual, sums a product's gradient over the tokens
    for its bias, and joins the gradients of queries, keys and values; see `gated_kernel_bytes` for more.
    """
    model, t = rank.model, rank.t
    norms = 1 if model.parallel_block else 2
    narrow = norms * model.hidden / rank.sliced_by
    mixture = model.expert_hidden * rank.copies + model.shared_hidden
    wide = (model.ffn_hidden + (mixture - model.ffn_hidden) * rank.mixed) / t
    ordered = 8 * model.hidden * rank.copies * rank.mixed / t * np.where(rank.local > 1, 2, 1)
    rotary = model.rope_dim * (model.heads + 1) if model.kv_rank else model.head_dim * (model.heads + model.kv_heads)
    turned = 0 if model.positions else 4 * rotary / t
    joined = model.head_dim * (model.heads + 2 * model.kv_heads) / t
    outputs = joined + (model.ffn_matrices - 1) * wide + norms * model.hidden
    m, dropout, eager = model.ffn_matrices, runtime.dropout, runtime.eager
    rows = [
        (4 * narrow, (10 if eager else 8) * narrow),  # norms
        ((7 if dropout else 6) * narrow, (5 * dropout + 6 * eager) * narrow),  # residual and dropout
        (0, 2 * outputs * (eager and model.biases) + 4 * joined * eager),  # biases; queries, keys and values
        (2 * m * wide, (4 * m - 2) * wide),  # activation
        (ordered, ordered),  # tokens in the order of their ranks and back, and of the experts of a rank
        (turned, turned),  # rotary positions
        tuple(size * rank.copies * rank.mixed / t for size in expert_kernel_bytes(model)),
        gated_kernel_bytes(model, narrow, wide, turned, t) if eager else (0, 0),
    ]
    moved = (sum(column) for column in zip(*rows, strict=True))
    counts = machine.host.forward_operators, machine.host.backward_operators
    kernels = [max(count - own, 0) for count, own in zip(counts, OWN_KERNELS, strict=True)]
    return PassTimes(
        *(rank.u * size / machine.hbm_Bps + n * machine.host.kernel_s for size, n in zip(moved, kernels, strict=True))
    )


def _tensor_traffic(machine: Machine, runtime: Runtime, rank: _Ranks, products: list[Any]) -> PassTimes:
    """Of tensor ranks: gathers and sums of activations around the products, hidden as the runtime can.

    Each of two operators (one in a parallel block; a mixture's routed experts count with each copy of a token, with
    whole experts not at all) has an AllReduce, or an AllGather and a ReduceScatter, each way; sequence parallelism
    gathers the input once more for the weights' gradient, unless it is kept. overlap_tensor hides two gathers' time of
    the backward pass behind the products of the weights' gradients: without sequence parallelism all, with it all but
    one. overlap_tensor_forward exchanges in t pieces behind all products but the first piece's, (t - 1) / t of them, in
    both passes; one piece stays exposed; only within an HB domain. fp8_tensor: a gather moves half the bytes. What is
    sliced of the routed experts is gathered with their tokens, and never hidden.
    """
    gather = _input_gather(machine, rank)
    narrow, lost = 0.5 if runtime.fp8_tensor and machine.narrow else 1.0, runtime.interference(machine)
    again = np.where(rank.sliced & ~(rank.kept_inputs > 0), narrow, 0.0)
    forward = gather.times(rank.operators * (1 + narrow))
    backward = gather.times(rank.operators * (1 + narrow + again))
    first = forward.time_s
    beside = exposed_time(forward.time_s, products[2], lost) if runtime.overlap_tensor else forward.time_s
    second = backward.time_s - forward.time_s + beside
    if runtime.overlap_tensor_forward:
        near = rank.groups["tensor"].in_domains(machine.hb_domain_size)[1] == 1
        behind = (rank.t - 1) / rank.t
        windows = behind * products[0], behind * (products[1] + products[2])
        pieces = (
            exposed_time(link.time_s, window, lost, 1 / rank.t)
            for link, window in zip((forward, backward), windows, strict=True)
        )
        first, second = (np.where(near, each, whole) for each, whole in zip(pieces, (first, second), strict=True))
    experts = gather.times(2 * rank.expert_operators)
    return PassTimes(
        first + experts.time_s,
        second + experts.time_s,
        forward.plus(experts),
        backward.plus(experts),
    )


def _context_traffic(machine: Machine, runtime: Runtime, rank: _Ranks, attention: PassTimes) -> PassTimes:
    """Of context ranks, which gather keys and values behind the scores, twice in the backward pass."""
    elements = rank.model.sequence_length * rank.b * rank.model.key_value_elements(rank.t)
    ring = _gather(machine, ELEMENT_BYTES * elements, rank.groups["context"])
    lost = runtime.interference(machine)
    first = exposed_time(ring.time_s, attention.forward, lost)
    return PassTimes(first, exposed_time(2 * ring.time_s, attention.backward, lost), ring, ring.times(2))


def _expert_traffic(machine: Machine, runtime: Runtime, rank: _Ranks, others: Mapping[str, PassTimes]) -> PassTimes:
    """Tokens on their way to their experts and back, in each pass.

    overlap_expert: behind another micro-batch's other work, as far as that leaves the links free, and no more than
    exchange_hidden_share of them.
    """
    if not rank.model.experts:
        return PassTimes(0 * rank.u, 0 * rank.u, *[LinkTimes(0 * rank.u, 0 * rank.u, 0 * rank.u)] * 2)
    there, back = (_exchange(machine, runtime, rank, size) for size in (runtime.dispatch_bytes, ELEMENT_BYTES))
    forward, backward = there.plus(back).times(rank.mixed), back.times(2 * rank.mixed)
    if not runtime.overlap_expert:
        return PassTimes(forward.time_s, backward.time_s, forward, backward)
    least = 1 - machine.host.exchange_hidden_share
    windows, lost = _both_passes(others), runtime.interference(machine)
    busy = _sum([kind.link_forward for kind in others.values()]), _sum([kind.link_backward for kind in others.values()])
    exposed = [
        exposed_beside(links, window, used, lost, least)
        for links, window, used in zip((forward, backward), windows, busy, strict=True)
    ]
    return PassTimes(exposed[0], exposed[1], forward, backward)


def _exchange(machine: Machine, runtime: Runtime, rank: _Ranks, element_bytes: int) -> LinkTimes:
    """One way of the tokens of a rank: a copy for each expert, or for each HB domain with one of them."""
    model, (x, y) = rank.model, rank.groups["expert"].in_domains(machine.hb_domain_size)
    tokens = rank.u / rank.t
    if runtime.dispatcher == "copies":
        return machine.all_to_all_links(element_bytes * tokens * model.hidden * rank.copies, x, y)
    # What does not divide has its obstacle elsewhere.
    wrong = parts_groups("nodes", model.expert_groups, x * y, y)
    ranks = np.where(wrong, 1, np.gcd(x * y, model.experts))
    inside = np.gcd(x, ranks)
    sizes = (tokens, model.hidden, model.experts, model.top_k, ranks, inside)
    nic_bytes, hb_bytes = dispatch_bytes(*sizes, "nodes", element_bytes, model.expert_groups, model.token_groups)
    busiest = rank.copies / model.top_k  # rank's rows over the mean
    return machine.routed_links(busiest * hb_bytes, busiest * nic_bytes, x, y)
