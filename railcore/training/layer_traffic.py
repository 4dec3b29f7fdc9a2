"""How long the traffic of one transformer layer takes, and how much of it compute does not hide.

`exchanges` says what is sent. Symbols as in `rank`; arrays of strategies.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from railcore.training.exchanges import (
    Exchange,
    adapter_exchanges,
    context_exchanges,
    expert_message_bytes,
    expert_ways,
    gathers,
    sent_by_domain,
    tensor_exchanges,
)
from railcore.training.layer_work import Passes, Products
from railcore.training.link_times import NO_LINK, LinkTimes, exposed_beside, exposed_time
from railcore.training.machine import GroupPlace, Machine
from railcore.training.rank import Rank
from railcore.training.rank_order import gpus_of

LINK_KINDS = ("tensor", "context", "expert")


class LayerTraffic(NamedTuple):
    """A kind of traffic of a layer.

    exposed: seconds that it adds to each pass.
    forward, backward: link times in each pass, hidden or not.
    again, again_s: link times and added seconds of what selective recompute repeats in the backward pass.
    """

    exposed: Passes
    forward: LinkTimes
    backward: LinkTimes
    again: LinkTimes = NO_LINK
    again_s: Any = 0.0


class LayerLinks(NamedTuple):
    """Link times that all traffic of a layer is made of.

    tensor, context: of an AllGather of the `unit_bytes` of their exchanges.
    near: whether tensor ranks are in one HB domain.
    ways: of tokens to their experts and back, by phase.
    adapters: of all that tensor ranks exchange for adapters, by phase.
    """

    tensor: LinkTimes
    near: np.ndarray
    context: LinkTimes
    ways: dict[str, LinkTimes]
    adapters: dict[str, LinkTimes]


def layer_links(rank: Rank, machine: Machine) -> LayerLinks:
    """Link times of a rank's groups on a machine."""
    places = machine.places({kind: rank.groups[kind] for kind in LINK_KINDS}, gpus_of(rank.columns))
    tensor, context = (
        _gather(machine, places[kind], next(rows(rank)).unit_bytes)
        for kind, rows in (("tensor", tensor_exchanges), ("context", context_exchanges))
    )
    ways = {}
    if rank.model.experts:
        by_size = {
            size: _one_way(rank, machine, places["expert"], size)
            for size in {size for ways in expert_ways(rank.runtime).values() for size in ways}
        }
        ways = {phase: by_size[there].plus(by_size[back]) for phase, (there, back) in expert_ways(rank.runtime).items()}
    rows = list(adapter_exchanges(rank))
    adapters = {
        phase: sum_of_links(_adapter_links(machine, places["tensor"], row) for row in rows if row.phase == phase)
        for phase in ("forward", "backward", "again")
    }
    return LayerLinks(tensor, places["tensor"].domains == 1, context, ways, adapters)


def _gather(machine: Machine, place: GroupPlace, message_bytes: Any) -> LinkTimes:
    return machine.gather_links(message_bytes, place.inside, place.domains, nic_share=place.nic_share)


def _adapter_links(machine: Machine, place: GroupPlace, row: Exchange) -> LinkTimes:
    if row.operation == "all_to_all":
        return machine.all_to_all_links(row.message_bytes, *place).times(row.calls)
    links = machine.all_reduce_links if row.operation == "all_reduce" else machine.gather_links
    return links(row.message_bytes, place.inside, place.domains, nic_share=place.nic_share).times(row.calls)


def _one_way(rank: Rank, machine: Machine, place: GroupPlace, element_bytes: float) -> LinkTimes:
    """Link times of tokens to their experts, or back: a copy for each expert, or for each HB domain with one."""
    x, y, share, direct = place
    if rank.runtime.dispatcher == "copies":
        return machine.all_to_all_links(expert_message_bytes(rank, element_bytes), x, y, share, direct)
    sent = sent_by_domain(rank, element_bytes)
    return machine.routed_links(sent.hb_bytes, sent.nic_bytes, x, y, share)


def tensor_traffic(rank: Rank, machine: Machine, links: LayerLinks, products: Products) -> LayerTraffic:
    """Traffic of tensor ranks: each operator gathers its input and scatters its output, an AllReduce in two halves.

    overlap_tensor: in the backward pass, as much traffic as the forward pass has, but what is `alone`, is hidden behind
    the products of the weights' gradients. overlap_tensor_forward: in both passes, traffic is cut into t pieces and
    hidden behind the products, all but one piece and what is `alone`; where the ranks are in one HB domain, since
    copies go from GPU to GPU over NVLink. What routed experts need, and what adapters exchange, is never hidden.

    Parameters
    ----------
    rank, machine, links
        Of the strategies, on which GPU; `layer_links`.
    products
        Of `linear_times`, behind which it hides [s].

    Returns
    -------
    Exposed time and link times.
    """
    runtime, lost, rows = rank.runtime, rank.runtime.interference(machine), list(tensor_exchanges(rank))

    def of_pass(phase: str, routed: bool) -> LinkTimes:
        return links.tensor.times(gathers(_rows(rows, phase, routed)))

    forward, backward = of_pass("forward", False), of_pass("backward", False)
    alone = [
        links.tensor.times(gathers(row for row in rows if row.alone and row.phase == phase)).time_s
        for phase in ("forward", "backward")
    ]
    hidden_s = np.minimum(forward.time_s, backward.time_s - alone[1])
    beside = exposed_time(hidden_s, products.weights, lost) if runtime.overlap_tensor else hidden_s
    first_s, second_s = forward.time_s, backward.time_s - hidden_s + beside
    if runtime.overlap_tensor_forward:
        hiding, pieces = (rank.tensor - 1) / rank.tensor, 1 / rank.tensor
        in_pieces = [
            exposed_time(link.time_s - alone_s, hiding * window, lost, pieces) + alone_s
            for link, alone_s, window in zip((forward, backward), alone, products.passes, strict=True)
        ]
        first_s, second_s = (np.where(links.near, *pair) for pair in zip(in_pieces, (first_s, second_s), strict=True))
    again_s = first_s * _share(gathers(_rows(rows, "again", False)), gathers(_rows(rows, "forward", False)))
    others = {phase: of_pass(phase, True).plus(adapters) for phase, adapters in links.adapters.items()}
    return LayerTraffic(
        Passes(first_s + others["forward"].time_s, second_s + others["backward"].time_s),
        forward.plus(others["forward"]),
        backward.plus(others["backward"]),
        of_pass("again", False).plus(others["again"]),
        again_s + others["again"].time_s,
    )


def _rows(rows: list[Exchange], phase: str, routed: bool) -> list[Exchange]:
    return [row for row in rows if row.phase == phase and row.routed is routed]


def _share(part: Any, whole: Any) -> Any:
    """part / whole, 0 where there is nothing."""
    return part / np.where(np.equal(whole, 0), 1.0, whole)


def context_traffic(rank: Rank, machine: Machine, links: LayerLinks, scores: Passes) -> LayerTraffic:
    """Traffic of context ranks: keys and values, hidden behind the scores; in the backward pass twice as much.

    Parameters
    ----------
    rank, machine, links
        Of the strategies, on which GPU; `layer_links`.
    scores
        Of `attention_times`, behind which it hides [s].

    Returns
    -------
    Exposed time and link times.
    """
    rows, lost = list(context_exchanges(rank)), rank.runtime.interference(machine)
    forward, backward = (links.context.times(gathers(_rows(rows, phase, False))) for phase in ("forward", "backward"))
    exposed = (
        exposed_time(link.time_s, window, lost) for link, window in zip((forward, backward), scores, strict=True)
    )
    return LayerTraffic(Passes(*exposed), forward, backward)


def expert_traffic(
    rank: Rank, machine: Machine, links: LayerLinks, others: Passes, beside: Mapping[str, LayerTraffic]
) -> LayerTraffic:
    """Traffic of experts: tokens to them and back, in each pass.

    overlap_expert: at most exchange_hidden_share of it is hidden behind another micro-batch's compute and exposed
    traffic, as far as these leave the links free.

    Parameters
    ----------
    rank, machine, links
        Of the strategies, on which GPU; `layer_links`.
    others, beside
        A layer's passes without this traffic [s], and their traffic.

    Returns
    -------
    Exposed time and link times.
    """
    if not rank.model.experts:
        nothing = NO_LINK.plus(LinkTimes(*[0 * rank.tokens] * 3))
        return LayerTraffic(Passes(nothing.time_s, nothing.time_s), nothing, nothing, nothing)
    forward, backward = (links.ways[phase].times(rank.mixtures) for phase in ("forward", "backward"))
    exposed = Passes(forward.time_s, backward.time_s)
    if rank.runtime.overlap_expert:
        least, lost = 1 - machine.host.exchange_hidden_share, rank.runtime.interference(machine)
        busy = [sum_of_links(getattr(kind, phase) for kind in beside.values()) for phase in ("forward", "backward")]
        exposed = Passes(
            *(
                exposed_beside(link, window, used, lost, least)
                for link, window, used in zip((forward, backward), others, busy, strict=True)
            )
        )
    if "again" not in links.ways:
        return LayerTraffic(exposed, forward, backward)
    return LayerTraffic(exposed, forward, backward, links.ways["again"].times(rank.mixtures), exposed.forward)


def sum_of_links(links: Iterable[LinkTimes]) -> LinkTimes:
    """Link times of kinds one after the other."""
    return reduce(LinkTimes.plus, links, NO_LINK)
