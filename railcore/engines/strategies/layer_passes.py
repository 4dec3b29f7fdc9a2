"""Work of one transformer layer for one micro-batch on one rank by kind and pass, for many strategies at once.

It equals the readable model, `training.layer` and `layer_traffic`; a test holds it to that. Symbols as in
`railcore.training.transformer`, and u = s b / c tokens of a micro-batch on a rank.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from railcore.facts.unique_rows import each_array, unique_places
from railcore.training.expert_dispatch import dispatch_bytes, parts_groups
from railcore.training.layer import (
    OWN_KERNELS,
    attention_times,
    expert_kernel_bytes,
    gated_kernel_bytes,
    host_waits,
)
from railcore.training.link_times import NO_LINK, LinkTimes, exposed_beside, exposed_time
from railcore.training.machine import GroupPlace, Machine
from railcore.training.products import ELEMENT_BYTES, product_passes
from railcore.training.rank import LayerShare, expert_rows, mixture_shares, routed_gathers
from railcore.training.rank_order import gpus_of, group_levels
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer

LAYER_COLUMNS = (
    *("micro_batch", "tensor", "context", "expert", "data", "pipeline"),
    *("sequence_parallel", "recompute", "keep_gathered", "whole_experts", "placement"),
)
COMPUTE_PARTS = ("linear", "attention", "elementwise", "recompute", "host")
LINK_KINDS = ("tensor", "context", "expert")
_OF_GROUPS = ("tensor", "context", "pipeline", "data", "expert", "whole_experts", "placement")
_MANY_RANKS = 2048  # from which on equal ones are worth finding
LAYER_PARTS = (*COMPUTE_PARTS, *LINK_KINDS)


class PassTimes(NamedTuple):
    """Seconds of one kind of work in a layer: on the critical path, and how long it takes and keeps links busy."""

    forward: Any
    backward: Any
    link_forward: LinkTimes = NO_LINK
    link_backward: LinkTimes = NO_LINK


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
    rank = Ranks(model, machine, runtime, columns, mixture_shares(model, columns["pipeline"])[1])
    return work_by_kind(rank, products_by_pass(rank))


class Ranks:
    """What a rank has of a layer, as `training.rank.Rank`, in arrays of one shape: b, t, c, e ranks and u tokens.

    mixed: share of mixture layers.
    """

    def __init__(
        self, model: Transformer, machine: Machine, runtime: Runtime, columns: Mapping[str, np.ndarray], mixed: Any
    ) -> None:
        self.model, self.machine, self.runtime, self.columns = model, machine, runtime, columns
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

    def at(self, places: np.ndarray) -> "Ranks":
        """Some of them."""
        columns = {name: np.asarray(values)[places] for name, values in self.columns.items()}
        return Ranks(self.model, self.machine, self.runtime, columns, self.mixed[places])

    @property
    def lost(self) -> float:
        """Share of a second of compute that a collective beside it takes."""
        return self.runtime.interference(self.machine)

    @cached_property
    def places(self) -> dict[str, GroupPlace]:
        """By kind of traffic, where its groups lie, and what share of a NIC they get."""

        def found(ranks: "Ranks") -> dict[str, GroupPlace]:
            levels = group_levels(ranks.columns)
            return self.machine.places({kind: levels[kind] for kind in LINK_KINDS}, gpus_of(ranks.columns))

        return shared_values(self, _OF_GROUPS, found)

    def gather(self, message_bytes: Any, group: str) -> LinkTimes:
        """An AllGather, or a ReduceScatter, of so many bytes in a kind of group."""
        place = self.places[group]
        return self.machine.gather_links(message_bytes, place.inside, place.domains, nic_share=place.nic_share)

    @cached_property
    def input_gather(self) -> LinkTimes:
        """AllGather of a layer's input among its tensor ranks."""
        return self.gather(ELEMENT_BYTES * self.u * self.model.hidden, "tensor")

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
    def routed_gathers(self) -> Any:
        """`training.rank.routed_gathers`."""
        return routed_gathers(self.model, self.mixed, self.copies, self.sliced, self.whole)


def sum_of_links(links: list[Any]) -> LinkTimes:
    """Of kinds one after the other."""
    total = links[0]
    for each in links[1:]:
        total = total.plus(each)
    return total


def work_by_kind(rank: Ranks, products: list[Any]) -> dict[str, PassTimes]:
    """Times by kind, of LAYER_PARTS but recompute. products: of `products_by_pass`."""
    heads, queries = rank.b * rank.model.heads / rank.t, rank.model.sequence_length / rank.c
    attention = PassTimes(*attention_times(rank.model, rank.machine, rank.runtime, heads, queries))
    work = {
        "linear": PassTimes(products[0], products[1] + products[2]),
        "attention": attention,
        "elementwise": _elementwise(rank),
        "tensor": _tensor_traffic(rank, products),
        "context": _context_traffic(rank, attention),
    }
    work["expert"] = _expert_traffic(rank, work)
    waits = host_waits(rank.model, rank.machine, rank.runtime, rank.share, both_passes(work))
    return work | {"host": PassTimes(*waits)}


def both_passes(work: Mapping[str, PassTimes]) -> tuple[Any, Any]:
    """Forward and backward time of all kinds together."""
    return sum(kind.forward for kind in work.values()), sum(kind.backward for kind in work.values())


def products_by_pass(rank: Ranks) -> list[Any]:
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
    moved, form, machine = rank.runtime.gradient_result_bytes, rank.runtime.linear_format(rank.machine), rank.machine
    passes = [[share * time for time in product_passes(machine, m, n, k, q, form, moved)] for share, m, n, k, q in rows]
    return [sum(times) for times in zip(*passes, strict=True)]


def _elementwise(rank: Ranks) -> PassTimes:
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
    m, dropout, eager = model.ffn_matrices, rank.runtime.dropout, rank.runtime.eager
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
    counts = rank.machine.host.forward_operators, rank.machine.host.backward_operators
    kernels = [max(count - own, 0) for count, own in zip(counts, OWN_KERNELS, strict=True)]
    return PassTimes(
        *(
            rank.u * size / rank.machine.hbm_Bps + n * rank.machine.host.kernel_s
            for size, n in zip(moved, kernels, strict=True)
        )
    )


def _tensor_traffic(rank: Ranks, products: list[Any]) -> PassTimes:
    """Of tensor ranks: gathers and sums of activations around the products, hidden as the runtime can.

    Each of two operators (one in a parallel block; routed experts have `routed_gathers`) has an AllReduce, or an
    AllGather and a ReduceScatter, each way; sequence parallelism gathers the input once more for the weights' gradient,
    unless it is kept. overlap_tensor hides two gathers' time of the backward pass behind the products of the weights'
    gradients: without sequence parallelism all, with it all but one. overlap_tensor_forward exchanges in t pieces
    behind all products but the first piece's, (t - 1) / t of them, in both passes; one piece stays exposed; only within
    an HB domain. fp8_tensor: a gather of sequence parallelism moves half the bytes. What routed experts need is never
    hidden.
    """
    runtime, gather, lost = rank.runtime, rank.input_gather, rank.lost
    narrow = np.where(rank.sliced, 0.5, 1.0) if runtime.fp8_tensor and rank.machine.narrow else 1.0
    again = np.where(rank.sliced & ~(rank.kept_inputs > 0), narrow, 0.0)
    forward = gather.times(rank.operators * (1 + narrow))
    backward = gather.times(rank.operators * (1 + narrow + again))
    first = forward.time_s
    beside = exposed_time(forward.time_s, products[2], lost) if runtime.overlap_tensor else forward.time_s
    second = backward.time_s - forward.time_s + beside
    if runtime.overlap_tensor_forward:
        near = rank.places["tensor"].domains == 1
        behind = (rank.t - 1) / rank.t
        windows = behind * products[0], behind * (products[1] + products[2])
        pieces = (
            exposed_time(link.time_s, window, lost, 1 / rank.t)
            for link, window in zip((forward, backward), windows, strict=True)
        )
        first, second = (np.where(near, each, whole) for each, whole in zip(pieces, (first, second), strict=True))
    experts = gather.times(rank.routed_gathers)
    return PassTimes(
        first + experts.time_s,
        second + experts.time_s,
        forward.plus(experts),
        backward.plus(experts),
    )


def _context_traffic(rank: Ranks, attention: PassTimes) -> PassTimes:
    """Of context ranks, which gather keys and values behind the scores, twice in the backward pass."""
    elements = rank.model.sequence_length * rank.b * rank.model.key_value_elements(rank.t)
    ring = rank.gather(ELEMENT_BYTES * elements, "context")
    first = exposed_time(ring.time_s, attention.forward, rank.lost)
    return PassTimes(first, exposed_time(2 * ring.time_s, attention.backward, rank.lost), ring, ring.times(2))


def _expert_traffic(rank: Ranks, others: Mapping[str, PassTimes]) -> PassTimes:
    """Tokens on their way to their experts and back, in each pass.

    overlap_expert: behind another micro-batch's other work, as far as that leaves the links free, and no more than
    exchange_hidden_share of them.
    """
    if not rank.model.experts:
        return PassTimes(0 * rank.u, 0 * rank.u, *[LinkTimes(0 * rank.u, 0 * rank.u, 0 * rank.u)] * 2)
    there, back = (_exchange(rank, size) for size in (rank.runtime.dispatch_bytes, ELEMENT_BYTES))
    forward, backward = there.plus(back).times(rank.mixed), back.times(2 * rank.mixed)
    if not rank.runtime.overlap_expert:
        return PassTimes(forward.time_s, backward.time_s, forward, backward)
    least = 1 - rank.machine.host.exchange_hidden_share
    kinds, windows = others.values(), both_passes(others)
    busy = sum_of_links([kind.link_forward for kind in kinds]), sum_of_links([kind.link_backward for kind in kinds])
    exposed = [
        exposed_beside(links, window, used, rank.lost, least)
        for links, window, used in zip((forward, backward), windows, busy, strict=True)
    ]
    return PassTimes(exposed[0], exposed[1], forward, backward)


def _exchange(rank: Ranks, element_bytes: int) -> LinkTimes:
    """One way of the tokens of a rank: a copy for each expert, or for each HB domain with one of them."""
    model, (x, y, share, direct) = rank.model, rank.places["expert"]
    tokens = rank.u / np.where(rank.sliced | rank.whole, rank.t, 1.0)
    if rank.runtime.dispatcher == "copies":
        return rank.machine.all_to_all_links(element_bytes * tokens * model.hidden * rank.copies, x, y, share, direct)
    # What does not divide has its obstacle elsewhere.
    wrong = parts_groups("nodes", model.expert_groups, x * y, y)
    ranks = np.where(wrong, 1, np.gcd(x * y, model.experts))
    inside = np.gcd(x, ranks)
    sizes = (tokens, model.hidden, model.experts, model.top_k, ranks, inside)
    nic_bytes, hb_bytes = dispatch_bytes(*sizes, "nodes", element_bytes, model.expert_groups, model.token_groups)
    busiest = rank.copies / model.top_k  # rank's rows over the mean
    return rank.machine.routed_links(busiest * hb_bytes, busiest * nic_bytes, x, y, share)


def shared_values(rank: "Ranks", names: Sequence[str], values: Callable[["Ranks"], Any]) -> Any:
    """Arrays of the ranks, computed once for those that are equal in some columns, where there are many."""
    if rank.u.size < _MANY_RANKS:
        return values(rank)
    first, index = unique_places(rank.columns, names)
    return each_array(lambda array: array[index] if np.ndim(array) else array, values(rank.at(first)))
