"""Traffic of one transformer layer for one micro-batch on one rank: between tensor, context and expert ranks.

Symbols as in `rank`.
"""

from typing import NamedTuple

from railcore.facts.arguments import checked
from railcore.training.expert_dispatch import dispatch_bytes, parts_groups
from railcore.training.link_times import NO_LINK, LinkTimes, exposed_beside, exposed_time
from railcore.training.products import ELEMENT_BYTES
from railcore.training.rank import Passes, Rank


class LayerTraffic(NamedTuple):
    """A kind of traffic: seconds that it adds to each pass, and how long it takes and keeps links busy there."""

    exposed: Passes
    forward: LinkTimes
    backward: LinkTimes


@checked
def tensor_traffic(rank: Rank, forward_products: float, input_products: float, weight_products: float) -> LayerTraffic:
    """Between tensor ranks: each operator gathers its input and scatters its output, an AllReduce in two halves.

    With sequence parallelism the backward pass gathers the input once more, unless it is kept, and `fp8_tensor` gathers
    one byte an element. `overlap_tensor` hides
    as much as the forward traffic of the backward pass behind the products of the weights' gradients;
    `overlap_tensor_forward` exchanges in t pieces behind the products, of which one stays exposed, where the ranks are
    in one HB domain: its copies go from GPU to GPU over NVLink. What routed experts need (`routed_gathers`) is not
    hidden.

    Parameters
    ----------
    rank
        With its strategy.
    forward_products, input_products, weight_products
        Of `linear_times`, behind which it hides [s].

    Returns
    -------
    Exposed time and link times of both passes.
    """
    runtime, t = rank.runtime, rank.strategy.tensor
    gather = rank.gather(ELEMENT_BYTES * rank.tokens * rank.model.hidden, "tensor")
    sliced = rank.strategy.sequence_parallel
    narrow = 0.5 if runtime.fp8_tensor and rank.fp8 and sliced else 1.0
    again = narrow if sliced and not rank.strategy.keep_gathered else 0.0
    forward = gather.times(rank.operators * (1 + narrow))
    backward = gather.times(rank.operators * (1 + narrow + again))
    if runtime.overlap_tensor_forward and rank.places["tensor"].domains == 1:
        behind = forward_products, input_products + weight_products
        exposed = [
            exposed_time(link.time_s, (t - 1) / t * window, rank.lost, 1 / t)
            for link, window in zip((forward, backward), behind, strict=True)
        ]
    else:
        beside = exposed_time(forward.time_s, weight_products, rank.lost) if runtime.overlap_tensor else forward.time_s
        exposed = [forward.time_s, backward.time_s - forward.time_s + beside]
    routed = gather.times(rank.routed_gathers)
    both = Passes(*(float(time + routed.time_s) for time in exposed))
    return LayerTraffic(both, forward.plus(routed), backward.plus(routed))


def context_traffic(rank: Rank, scores: Passes) -> LayerTraffic:
    """Between context ranks: keys and values are gathered behind the scores, twice in the backward pass."""
    model, strategy = rank.model, rank.strategy
    elements = model.sequence_length * strategy.micro_batch * model.key_value_elements(strategy.tensor)
    ring = rank.gather(ELEMENT_BYTES * elements, "context")
    forward, backward = ring, ring.times(2)
    exposed = [
        exposed_time(link.time_s, window, rank.lost) for link, window in zip((forward, backward), scores, strict=True)
    ]
    return LayerTraffic(Passes(*map(float, exposed)), forward, backward)


def expert_traffic(rank: Rank, others: Passes, busy: tuple[LinkTimes, LinkTimes]) -> LayerTraffic:
    """Tokens on their way to their experts and back, in each pass.

    `overlap_expert` hides at most exchange_hidden_share of it behind another micro-batch: behind its compute and its
    exposed traffic, as far as that leaves the links free.

    Parameters
    ----------
    rank
        With its strategy.
    others, busy
        A layer's passes without this traffic, and how long they keep the links busy [s].

    Returns
    -------
    Exposed time and link times of both passes.
    """
    if not rank.model.experts:
        return LayerTraffic(Passes(0.0, 0.0), NO_LINK, NO_LINK)
    there, home = _dispatch(rank, rank.runtime.dispatch_bytes), _dispatch(rank, ELEMENT_BYTES)
    forward, backward = there.plus(home).times(rank.mixtures), home.times(2 * rank.mixtures)
    if not rank.runtime.overlap_expert:
        return LayerTraffic(Passes(forward.time_s, backward.time_s), forward, backward)
    least = 1 - rank.machine.host.exchange_hidden_share
    exposed = [
        exposed_beside(link, window, used, rank.lost, least)
        for link, window, used in zip((forward, backward), others, busy, strict=True)
    ]
    return LayerTraffic(Passes(*map(float, exposed)), forward, backward)


def _dispatch(rank: Rank, element_bytes: int) -> LinkTimes:
    """One way of the tokens of a rank: a copy for each expert, or one for each HB domain with one of them."""
    model, (x, y, share, direct) = rank.model, rank.places["expert"]
    tokens = rank.tokens / rank.dispatched_slices
    if rank.runtime.dispatcher == "copies":
        return rank.machine.all_to_all_links(element_bytes * tokens * model.hidden * rank.copies, x, y, share, direct)
    if parts_groups(rank.runtime.dispatcher, model.expert_groups, x * y, y):
        x, y = 1, 1  # has its obstacle elsewhere
    sizes = (tokens, model.hidden, model.experts, model.top_k, x * y, x)
    nic_bytes, hb_bytes = dispatch_bytes(*sizes, "nodes", element_bytes, model.expert_groups, model.token_groups)
    busiest = rank.copies / model.top_k  # rows of the busiest rank over the mean
    return rank.machine.routed_links(busiest * hb_bytes, busiest * nic_bytes, x, y, share)
