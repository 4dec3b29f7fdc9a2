"""The share of its NIC that each kind of traffic gets on a fabric while it runs, in closed form.

K GPUs of a job are in each HB domain (scale-up or NVLink domain), in the order of their ranks. Traffic between domains
stays on its rail: ring neighbours have equal places in their domains, and where a target is on another rail the HB
domain forwards to it (NCCL's PXN). A block of switches (a leaf, or leaves under spines) has a run of a rail's GPUs
below it, u uplinks above it, and f flows of a NIC each that leave it:

    share = min(1, min over blocks of u / f)

    ring         a group with some but not all of its members in the block sends one flow out of it
    all-to-all   c of n members in the block send c (n - c) / (n - 1)
    direct       an all-to-all without forwarding, over w rails: 1 / w of what a GPU sends is for its own rail and
                 leaves as above, the rest always leaves; where rails do not meet there is no such way

Groups send from y1 GPUs at stride S1, and that y2 times at stride S2. Planes carry equal parts. Taken for granted: one
job, traffic spread evenly over all shortest paths, and no congestion control, whose cost transports have
(`transport`).

`network.topology.routed_flows` routes the flows one by one; tests hold this to it. It is exact for groups that lie
evenly in domains, with a rail for each GPU of a domain or one rail; but for hops between stages that share a domain
where leaves end within domains, which are up to a third off. Groups that lie unevenly are taken as even ones: most are
within 15%, a few up to 4 times off.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from railcore.network.topology.blocks import Blocks, PodBlocks, pod_blocks, rail_blocks
from railcore.network.topology.failed_part import FailedPart
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric
from railcore.training.rank_order import GroupLevels
from railcore.training.unique_rows import unique_places

Fabric = RailFabric | PhotonicRails | FailedPart
_AT_A_TIME = 1 << 18  # groups x blocks, so that arrays stay in the processor's cache


class GroupShares(NamedTuple):
    """Shares of a NIC, 0 to 1, numbers or arrays of the groups' shape.

    by_kind: of each kind of group: of rings, hops of the pipeline, and exchanges with experts that are forwarded.
    direct: of exchanges with experts that are not forwarded; 0 where rails do not meet.
    """

    by_kind: dict[str, Any]
    direct: Any = 0.0


class _Spread(NamedTuple):
    """How groups send over rails, in numbers or in arrays.

    S1, y1, S2, y2: GPUs that send, y1 at stride S1, and that y2 times at stride S2 [GPUs in use].
    gpus: of the job.
    senders: GPUs of a domain that send at a time.
    apart: rails that the ranks of a group in one domain are on, w.
    stride: GPUs from one rank of a group to the next.
    """

    S1: Any
    y1: Any
    S2: Any
    y2: Any
    gpus: Any
    senders: Any
    apart: Any
    stride: Any

    @property
    def period(self) -> Any:
        """GPUs after which groups repeat."""
        return self.S2 * self.y2


def group_shares(
    fabric: Fabric | None, groups: Mapping[str, GroupLevels], hb_domain_size: int, gpus: Any
) -> GroupShares:
    """Shares of a NIC that kinds of groups get on a fabric.

    Parameters
    ----------
    fabric
        Whole or with a failed part; None for a network that limits nothing, and on which experts' tokens are forwarded.
        On photonic rails circuits are up when they are asked for (`photonics` has what changing them costs).
    groups
        By kind, as `group_levels` has them.
    hb_domain_size
        K, GPUs in use of each HB domain, no more than the fabric's.
    gpus
        Of the job, a number or an array of the groups' shape.

    Returns
    -------
    Shares.

    Raises
    ------
    ValueError
        For a job that is larger than the fabric, and a failed part that stops it.
    """
    if fabric is None:
        return GroupShares(dict.fromkeys(groups, 1.0))
    _check_size(fabric, hb_domain_size, int(np.max(gpus, initial=1)))
    if isinstance(fabric, FailedPart):
        fabric.check_goes_on()
    whole, nic = (fabric.fabric, fabric.nic_share) if isinstance(fabric, FailedPart) else (fabric, 1.0)
    if not isinstance(whole, RailFabric):
        return GroupShares(dict.fromkeys(groups, nic))
    blocks, pods = rail_blocks(whole), pod_blocks(whole)
    if isinstance(fabric, FailedPart):
        blocks = tuple(each._replace(uplinks=fabric.uplinks(each.tier, each.uplinks)) for each in blocks)
        pods = tuple(each._replace(uplinks=fabric.uplinks(each.tier, each.uplinks)) for each in pods)
    blocks = tuple(each for each in blocks if not each.full)  # others limit nothing
    leaving = {"pipeline": _hop, "expert": _exchanged}
    spreads = {kind: _spread(kind, levels, whole.rails, hb_domain_size, gpus) for kind, levels in groups.items()}
    found = {
        kind: nic * _least_share(whole, blocks, spread, hb_domain_size, leaving.get(kind, _ring))
        for kind, spread in spreads.items()
    }
    if "expert" not in groups or not (whole.rails == 1 or np.isfinite(whole.oversubscription)):
        return GroupShares(found)
    direct = _least_share(whole, blocks, spreads["expert"], hb_domain_size, _sent_directly)
    over_pods = _pod_share(pods, spreads["expert"], min(whole.rails, hb_domain_size))
    return GroupShares(found, nic * np.minimum(direct, over_pods))


def _check_size(fabric: Fabric, hb_domain_size: int, gpus: int) -> None:
    """Raises ValueError for a job that is larger than the fabric."""
    K, full = hb_domain_size, fabric.domains - 1
    if gpus > full * K + min(K, fabric.gpus - full * fabric.hb_domain_size):
        of_each = "" if fabric.hb_domain_size == K else f", or a machine with hb_domain_size={fabric.hb_domain_size}"
        raise ValueError(
            f"fabric has {fabric.gpus:,} GPUs in {fabric.domains:,} HB domains, and the job takes {gpus:,}, {K:,} in "
            f"each of {-(-gpus // K):,}: give a larger fabric or a strategy of fewer GPUs{of_each}"
        )


def _spread(kind: str, levels: GroupLevels, rails: int, K: int, gpus: Any) -> _Spread:
    """How the groups of a kind send between HB domains: `GroupLevels.between_domains`, with who sends where."""
    inside, (n1, s1, n2, s2, _) = levels.between_domains(K)
    S1, y1 = np.maximum(np.where(n1 == 1, s2, s1), K), np.where(n1 == 1, n2, n1)
    y2 = np.where(n1 == 1, 1, n2)
    stride = np.asarray(levels.inner_stride)
    return _Spread(
        S1=S1,
        y1=y1,
        S2=np.where(y2 == 1, S1 * y1, np.maximum(s2, S1 * y1)),
        y2=y2,
        gpus=gpus,
        senders=np.minimum(stride, K) if kind == "pipeline" else K,
        apart=np.minimum(inside, rails // np.gcd(stride, rails)),
        stride=stride,
    )


def _least_share(
    fabric: RailFabric,
    tiers: Sequence[Blocks],
    spread: _Spread,
    K: int,
    leaving: Callable[[Any, Any, _Spread], Any],
) -> Any:
    """Least share over all blocks. leaving: flows out of a run of GPUs from one up to another, of all rails."""
    arrays = np.broadcast_arrays(*spread)
    columns = dict(zip(_Spread._fields, map(np.ravel, arrays), strict=True))
    first, index = unique_places(columns, _Spread._fields)
    rows = _Spread._make(column[first].astype(float)[:, None] for column in columns.values())
    share = np.ones(first.size)
    for tier in tiers:
        if tier.full:
            continue
        begins, ends = (_gpus_before(fabric, places, K) for places in (tier.first, tier.last))
        step = max(_AT_A_TIME // tier.first.size, 1)
        for begin in range(0, first.size, step):
            some = _Spread._make(column[begin : begin + step] for column in rows)
            flows = leaving(np.minimum(begins, some.gpus), np.minimum(ends, some.gpus), some)
            flows = flows * np.ceil(some.senders / fabric.rails) / some.senders  # of the fullest rail
            if tier.starts.size < tier.first.size:
                flows = np.add.reduceat(flows, tier.starts, axis=1)
            least = (tier.uplinks / np.maximum(flows, tier.uplinks)).min(axis=1)
            share[begin : begin + step] = np.minimum(share[begin : begin + step], least)
    return share[index].reshape(arrays[0].shape)[()]


def _gpus_before(fabric: RailFabric, places: np.ndarray, K: int) -> np.ndarray:
    """GPUs in use, of all rails, before a place on a rail."""
    each = -(-fabric.hb_domain_size // fabric.rails)  # of a domain on a rail
    domain, rest = np.divmod(places, each)
    return (domain * K + np.minimum(rest * fabric.rails, K)).astype(float)


def _ring(first: Any, last: Any, g: _Spread) -> Any:
    """What rings send out of the GPUs between two: a flow of each group with some but not all of its members there."""
    return _leaving(first, last, g, lambda c, n: 1.0 * ((c > 0) & (c < n)))


def _hop(first: Any, last: Any, g: _Spread) -> Any:
    """What hops to the next stage send out of them: of the stages in a domain one sends, from GPUs next to each other.

    These are as many as lie between two ranks of a group.
    """
    return _ring(first, last, g) * np.minimum(g.stride / np.clip(last - first, 1.0, g.S1), 1.0)


def _exchanged(first: Any, last: Any, g: _Spread) -> Any:
    """What all-to-alls send out of the GPUs between two: c (n - c) / (n - 1) of each group."""
    return _leaving(first, last, g, lambda c, n: c * (n - c) / np.maximum(n - 1, 1))


def _leaving(first: Any, last: Any, g: _Spread, sent: Callable[[Any, Any], Any]) -> Any:
    """Flows of all groups. sent: of a group with c of n members there, as many as of the others; equal ones at once."""
    n, ends = g.y1 * g.y2, (_Place.of(first, g), _Place.of(last, g))
    cuts = [0.0, g.S2 / g.y1, *(each.cut(more, g) for each in ends for more in range(3))]
    edges = np.sort(np.minimum(np.stack(np.broadcast_arrays(*cuts, first + last)[:-1]), cuts[1]), axis=0)
    group, wide = edges[:-1], np.diff(edges, axis=0)
    before, after = (each.members_before(group, g) for each in ends)
    one_period = np.floor(first / g.period) == np.floor(last / g.period)
    flows = np.where(one_period, sent(np.abs(after - before), n), sent(before, n) + sent(after, n))
    return (wide * flows).sum(axis=0)


class _Place(NamedTuple):
    """A place among the GPUs of a period: in which repetition, in which run of it, after how many members, and GPUs."""

    repetition: Any
    run: Any
    members: Any
    rest: Any

    @classmethod
    def of(cls, place: Any, g: _Spread) -> "_Place":
        """Of a GPU."""
        left = place - np.floor(place / g.period) * g.period
        found = []
        for size in (g.S2, g.S1 * g.y1, g.S1):
            found.append(np.floor(left / size))
            left = left - found[-1] * size
        return cls._make([*found, left])

    def cut(self, number: int, g: _Spread) -> Any:
        """Groups before which others have members before the place: in all of their run, one more, and some."""
        return self.run * g.S1 + (0.0, self.rest, g.S1)[number]

    def members_before(self, group: Any, g: _Spread) -> Any:
        """Members of a group before the place."""
        here = np.where(group < self.cut(1, g), self.members + 1, np.where(group < self.cut(2, g), self.members, 0.0))
        return g.y1 * self.repetition + np.where(group < self.cut(0, g), g.y1, here)


def _sent_directly(first: Any, last: Any, g: _Spread) -> Any:
    """What an all-to-all without forwarding sends out of them: the part of the own rail, and all of the rest."""
    return last - first + (_exchanged(first, last, g) - (last - first)) / g.apart


def _pod_share(tiers: Sequence[PodBlocks], spread: _Spread, rails: int) -> Any:
    """Least share of an all-to-all without forwarding over the blocks of pods. rails: in use."""
    share: Any = 1.0
    for tier in tiers:
        for count, uplinks in np.unique([tier.rails, tier.uplinks], axis=1).T:
            # Of its groups `more` have one rank more there than the others.
            ranks, more = np.divmod(count, spread.stride)
            most, least = np.minimum(ranks + 1, spread.apart), np.minimum(ranks, spread.apart)
            there = more * most + (spread.stride - more) * least
            staying = (more * most**2 + (spread.stride - more) * least**2) / (there * spread.apart)
            sent = np.asarray(spread.gpus) * min(count / rails, 1.0) * (1 - staying)
            share = np.minimum(share, uplinks / np.maximum(sent, uplinks))
    return share
