"""The share of its NIC that each kind of traffic gets on a fabric while it runs alone, in closed form.

Kinds take turns on a NIC: `critical_path` adds them up.

K GPUs of a job are in each HB domain (scale-up or NVLink domain), in the order of their ranks. Traffic between domains
stays on its rail: ring neighbours have equal places in their domains, and where a target is on another rail the HB
domain forwards to it (NCCL's PXN). A block of switches (a leaf, or leaves under spines) has a run of a rail's GPUs
below it, u uplinks above it, and f flows of a NIC each that leave it:

    share = min(1, min over blocks of u / f)

    ring         a group with some but not all of its members in the block sends one flow out of it
    all-to-all   c of n members in the block send c (n - c) / (n - 1)
    direct       an all-to-all without forwarding, over w rails: 1 / w of what a GPU sends is for its own rail and
                 leaves as above, the rest always leaves; where rails do not meet there is no such way

The flows of a block are counted as follows (`_leaving_flows`). Members of a group stand in runs: `inner` of them,
`inner_stride` GPUs apart, and `outer` such runs, `outer_stride` GPUs apart. The groups of one period of
outer outer_stride GPUs are numbered by their first GPU. How many members a group has before a GPU changes at three
numbers only (`_Position.steps`). Groups between two of these have equal counts and are counted together.

The assumptions: one job, traffic spread evenly over all shortest paths, equal parts for the planes, and no congestion
control, whose cost transports have (`transport`).

`network.topology.routed_flows` routes the flows one by one; tests hold this to it. It is exact for groups that lie
evenly in domains, with a rail for each GPU of a domain or one rail; but for hops between stages that share a domain
where leaves end within domains, which are up to a third off. Groups that lie unevenly are taken as even ones: most are
within 15%, a few up to 4 times off.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from railcore.catalog.checks import Floats
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

    by_kind: by names of groups (tensor, replica, ...): "pipeline" counts hops, "expert" a forwarded all-to-all, all
        others rings.
    direct: of exchanges with experts that are not forwarded; 0 where rails do not meet.
    """

    by_kind: dict[str, Any]
    direct: Any = 0.0


class _Senders(NamedTuple):
    """How the groups of a kind send between HB domains; numbers, or arrays of one shape.

    inner, inner_stride, outer, outer_stride: the members that send, one for each HB domain, as in `GroupLevels`.
    gpus: GPUs of the job.
    at_a_time: GPUs of an HB domain that send at the same time.
    rails: rails that the ranks of a group in one HB domain are on, w.
    rank_stride: GPUs from one rank of a group to the next.
    """

    inner: Any
    inner_stride: Any
    outer: Any
    outer_stride: Any
    gpus: Any
    at_a_time: Any
    rails: Any
    rank_stride: Any

    @property
    def members(self) -> Any:
        """Members of a group, n."""
        return self.inner * self.outer

    @property
    def period(self) -> Any:
        """GPUs after which the groups repeat."""
        return self.outer_stride * self.outer

    @property
    def groups(self) -> Any:
        """Groups of a period."""
        return self.outer_stride / self.inner


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
    failed = fabric if isinstance(fabric, FailedPart) else None
    if failed:
        failed.check_goes_on()
    whole, nic = (failed.fabric, failed.nic_share) if failed else (fabric, 1.0)
    if not isinstance(whole, RailFabric):
        return GroupShares(dict.fromkeys(groups, nic))
    blocks, pods = rail_blocks(whole), pod_blocks(whole)
    if failed:
        blocks = tuple(tier._replace(uplinks=failed.uplinks(tier.tier, tier.uplinks)) for tier in blocks)
        pods = tuple(tier._replace(uplinks=failed.uplinks(tier.tier, tier.uplinks)) for tier in pods)
    blocks = tuple(tier for tier in blocks if not tier.full)  # others limit nothing
    senders = {kind: _senders(kind, levels, whole.rails, hb_domain_size, gpus) for kind, levels in groups.items()}
    flows = {"pipeline": _hop_flows, "expert": _all_to_all_flows}
    shares = {
        kind: nic * _least_share(whole, blocks, of_kind, hb_domain_size, flows.get(kind, _ring_flows))
        for kind, of_kind in senders.items()
    }
    if "expert" not in groups or not (whole.rails == 1 or np.isfinite(whole.oversubscription)):
        return GroupShares(shares)
    direct = _least_share(whole, blocks, senders["expert"], hb_domain_size, _direct_flows)
    over_pods = _pod_share(pods, senders["expert"], min(whole.rails, hb_domain_size))
    return GroupShares(shares, nic * np.minimum(direct, over_pods))


def _check_size(fabric: Fabric, hb_domain_size: int, gpus: int) -> None:
    """Raises ValueError for a job that is larger than the fabric."""
    K, full = hb_domain_size, fabric.domains - 1
    if gpus > full * K + min(K, fabric.gpus - full * fabric.hb_domain_size):
        of_each = "" if fabric.hb_domain_size == K else f", or a machine with hb_domain_size={fabric.hb_domain_size}"
        raise ValueError(
            f"fabric has {fabric.gpus:,} GPUs in {fabric.domains:,} HB domains, and the job takes {gpus:,}, {K:,} in "
            f"each of {-(-gpus // K):,}: give a larger fabric or a strategy of fewer GPUs{of_each}"
        )


def _senders(kind: str, levels: GroupLevels, rails: int, hb_domain_size: int, gpus: Any) -> _Senders:
    """The senders of a kind: of `GroupLevels.between_domains` a single outer run becomes the inner one."""
    inside, (n1, stride1, n2, stride2, _) = levels.between_domains(hb_domain_size)
    inner, outer = np.where(n1 == 1, n2, n1), np.where(n1 == 1, 1, n2)
    inner_stride = np.maximum(np.where(n1 == 1, stride2, stride1), hb_domain_size)
    run = inner_stride * inner
    rank_stride = np.asarray(levels.inner_stride)
    return _Senders(
        inner=inner,
        inner_stride=inner_stride,
        outer=outer,
        outer_stride=np.where(outer == 1, run, np.maximum(stride2, run)),
        gpus=gpus,
        at_a_time=np.minimum(rank_stride, hb_domain_size) if kind == "pipeline" else hb_domain_size,
        rails=np.minimum(inside, rails // np.gcd(rank_stride, rails)),
        rank_stride=rank_stride,
    )


def _least_share(
    fabric: RailFabric,
    tiers: Sequence[Blocks],
    senders: _Senders,
    hb_domain_size: int,
    leaving: Callable[[Floats, Floats, _Senders], Floats],
) -> Any:
    """Least share over all blocks. leaving: flows out of the GPUs from one up to another, on all rails."""
    arrays = np.broadcast_arrays(*senders)
    columns = dict(zip(_Senders._fields, map(np.ravel, arrays), strict=True))
    places, index = unique_places(columns, _Senders._fields)
    rows = _Senders._make(column[places].astype(float)[:, None] for column in columns.values())
    share = np.ones(places.size)
    most_gpus = rows.gpus.max(initial=1)
    for tier in tiers:
        tier = tier.in_use(_gpus_before(fabric, tier.first, hb_domain_size) < most_gpus)  # others send nothing
        firsts, lasts = (_gpus_before(fabric, ends, hb_domain_size) for ends in (tier.first, tier.last))
        step = max(_AT_A_TIME // tier.first.size, 1)
        for begin in range(0, places.size, step):
            some = _Senders._make(column[begin : begin + step] for column in rows)
            flows = leaving(np.minimum(firsts, some.gpus), np.minimum(lasts, some.gpus), some)
            flows = flows * np.ceil(some.at_a_time / fabric.rails) / some.at_a_time  # of the fullest rail
            if tier.starts.size < tier.first.size:
                flows = np.add.reduceat(flows, tier.starts, axis=1)
            least = (tier.uplinks / np.maximum(flows, tier.uplinks)).min(axis=1)
            share[begin : begin + step] = np.minimum(share[begin : begin + step], least)
    return share[index].reshape(arrays[0].shape)[()]


def _gpus_before(fabric: RailFabric, endpoints: np.ndarray, hb_domain_size: int) -> Floats:
    """GPUs in use, of all rails, before an endpoint of a rail."""
    domain_endpoints = -(-fabric.hb_domain_size // fabric.rails)  # of a domain on a rail
    domain, rest = np.divmod(endpoints, domain_endpoints)
    return (domain * hb_domain_size + np.minimum(rest * fabric.rails, hb_domain_size)).astype(float)


def _ring_flows(first: Floats, last: Floats, senders: _Senders) -> Floats:
    """Flows of rings out of GPUs first..last: one of each group with some but not all of its members there."""
    return _leaving_flows(first, last, senders, lambda c, n: ((c > 0) & (c < n)).astype(float))


def _hop_flows(first: Floats, last: Floats, senders: _Senders) -> Floats:
    """Flows to the next stage out of GPUs first..last.

    One stage of an HB domain sends at a time, from `rank_stride` GPUs next to each other.
    """
    sending = np.minimum(senders.rank_stride / np.clip(last - first, 1.0, senders.inner_stride), 1.0)
    return _ring_flows(first, last, senders) * sending


def _all_to_all_flows(first: Floats, last: Floats, senders: _Senders) -> Floats:
    """Flows of all-to-alls out of GPUs first..last: c (n - c) / (n - 1) of a group with c of n members there."""
    return _leaving_flows(first, last, senders, lambda c, n: c * (n - c) / np.maximum(n - 1.0, 1.0))


def _direct_flows(first: Floats, last: Floats, senders: _Senders) -> Floats:
    """Flows of an all-to-all without forwarding: of 1 / w as with it, and all that is for other rails."""
    gpus = last - first
    return gpus + (_all_to_all_flows(first, last, senders) - gpus) / senders.rails


def _leaving_flows(
    first: Floats, last: Floats, senders: _Senders, flows_of: Callable[[Floats, Floats], Floats]
) -> Floats:
    """Flows of all groups out of GPUs first..last.

    flows_of: flows of a group with c of its n members there; as many for c as for n - c.
    """
    begin, end = _Position.of(first, senders), _Position.of(last, senders)
    steps = [0.0, senders.groups, *begin.steps(senders), *end.steps(senders)]
    # Groups from one edge to the next have equal counts.
    edges = np.sort(np.minimum(np.stack(np.broadcast_arrays(*steps, first + last)[:-1]), steps[1]), axis=0)
    group, equal_groups = edges[:-1], np.diff(edges, axis=0)
    before, after, n = begin.members_before(group, senders), end.members_before(group, senders), senders.members
    one_period = np.floor(first / senders.period) == np.floor(last / senders.period)
    # Between two periods each has its own groups; whole periods between them send nothing out.
    flows = np.where(one_period, flows_of(np.abs(after - before), n), flows_of(before, n) + flows_of(after, n))
    return (equal_groups * flows).sum(axis=0)


class _Position(NamedTuple):
    """Where a GPU stands in its period: after so many outer strides, runs, inner strides, and GPUs.

    outer: whole outer strides before it.
    run: whole runs of inner inner_stride GPUs before it in its outer stride.
    inner: whole inner strides before it in its run.
    rest: GPUs before it in its inner stride.
    """

    outer: Any
    run: Any
    inner: Any
    rest: Any

    @classmethod
    def of(cls, gpu: Floats, senders: _Senders) -> "_Position":
        """The position of a GPU."""
        rest = gpu - np.floor(gpu / senders.period) * senders.period
        counts = []
        for size in (senders.outer_stride, senders.inner_stride * senders.inner, senders.inner_stride):
            counts.append(np.floor(rest / size))
            rest = rest - counts[-1] * size
        return cls._make([*counts, rest])

    def steps(self, senders: _Senders) -> tuple[Any, Any, Any]:
        """Numbers of groups below which a group has more members before the GPU.

        Below the first all of a run are before it, below the second `inner` + 1, below the third `inner`, else none.
        """
        whole_runs = self.run * senders.inner_stride
        return whole_runs, whole_runs + self.rest, whole_runs + senders.inner_stride

    def members_before(self, group: Any, senders: _Senders) -> Any:
        """Members of a group before the GPU."""
        all_of_run, one_more, some = self.steps(senders)
        of_run = np.where(group < one_more, self.inner + 1, np.where(group < some, self.inner, 0.0))
        return senders.inner * self.outer + np.where(group < all_of_run, senders.inner, of_run)


def _pod_share(tiers: Sequence[PodBlocks], senders: _Senders, rails: int) -> Any:
    """Least share of an all-to-all without forwarding over the blocks of pods. rails: in use."""
    share: Any = 1.0
    for tier in tiers:
        for count, uplinks in np.unique([tier.rails, tier.uplinks], axis=1).T:
            # Of its groups `more` have one rank more there than the others.
            ranks, more = np.divmod(count, senders.rank_stride)
            most, least = np.minimum(ranks + 1, senders.rails), np.minimum(ranks, senders.rails)
            there = more * most + (senders.rank_stride - more) * least
            staying = (more * most**2 + (senders.rank_stride - more) * least**2) / (there * senders.rails)
            sent = np.asarray(senders.gpus) * min(count / rails, 1.0) * (1 - staying)
            share = np.minimum(share, uplinks / np.maximum(sent, uplinks))
    return share
