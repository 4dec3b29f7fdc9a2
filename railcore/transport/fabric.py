"""A fabric as the paths between its hosts: every path is a row of output ports, one a stage."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.arguments import (
    Count,
    Few,
    Metres,
    NonNegativeInt,
    NonNegativeInts,
    PositiveBandwidth,
    Range,
    Seconds,
    Share,
    checked,
)
from railcore.catalog.checks import Floats, Ints, whole
from railcore.network.topology.rails import RailFabric
from railcore.network.topology.wiring import whole_wiring
from railcore.transport import delay
from railcore.transport.flows import Hosts

LATENCIES = ("link_latency_s", "switch_latency_s", "nic_latency_s")
MOST_PORTS = 2**25  # of a fabric: a quarter of a gigabyte for their rates alone
SKIPPED = -1  # a stage that a pair does not pass: both ends are under one switch or in one pod


@checked
def hop_latencies(
    link_Bps: PositiveBandwidth, cable_m: Metres | None = None, switch: str = "SN5600", nic: str = "ConnectX-7"
) -> dict[str, float]:
    """The latencies of a `PathFabric`, from the catalog [s]: `LATENCIES` by name.

    Parameters
    ----------
    link_Bps
        Of a port, one direction [bytes/s]: a receiver waits for the codewords of 400GBASE-R to correct errors.
    cable_m
        Length of every cable [m]; None for the catalog's usual one in a hall.
    switch, nic
        Items of the catalog's latencies.

    Returns
    -------
    The fields by name.
    """
    fibre = catalog.item("wide_area", "fibre")
    length = fibre["hall_length"] if cable_m is None else float(cable_m)
    link_s = length * fibre["delay"] + float(delay.correction_delay(link_Bps)[0])
    return dict(zip(LATENCIES, (link_s, *(float(delay.latency(name)[0]) for name in (switch, nic))), strict=True))


def _fits(ports: int) -> None:
    if ports > MOST_PORTS:
        raise ValueError(
            f"the fabric would have {ports:,} ports, and there is room for {MOST_PORTS:,}: give fewer hosts, or a "
            f"smaller radix"
        )


@checked
@dataclass(frozen=True)
class PathFabric:
    """Hosts under leaves, leaves under spines (two tiers) or under aggregation and core switches of pods (three).

    A packet passes one output port at each stage. Two tiers: host, leaf up, spine down, leaf down. Three tiers: host,
    leaf up, aggregation up, core down, aggregation down, leaf down. The port that flow f passes at stage s on path q
    is base[f, s] + offset[q, s], with the ports of all stages numbered in one row; `tables` gives both.

    leaf [hosts]: leaf of every host.
    uplinks: cables of a leaf to the switches above it, of one plane; 0 for a single tier.
    link_Bps: of one port, one direction [bytes/s]; a NIC has `planes` ports.
    group [leaves]: leaves of one group reach each other; a rail is a group. Empty: one group.
    pod [leaves]: pod of every leaf, for three tiers. Empty: one pod.
    cores: uplinks of an aggregation switch; 0 for two tiers.
    planes: separate equal networks; every NIC has one port in each.
    link_latency_s: of one cable with its error correction [s]; the default is that of public simulators.
    switch_latency_s: of one switch that forwards [s].
    nic_latency_s: between memory and wire, at each end [s].
    rates [ports]: speed of every port as a share of link_Bps; 0 is a dead port. Empty: all at full speed.

    Raises ValueError for arrays of a wrong length, cores without uplinks, and too many ports.
    """

    leaf: NonNegativeInts
    uplinks: NonNegativeInt
    link_Bps: PositiveBandwidth
    group: NonNegativeInts = field(default_factory=lambda: np.zeros(0, np.int64))
    pod: NonNegativeInts = field(default_factory=lambda: np.zeros(0, np.int64))
    cores: NonNegativeInt = 0
    planes: Few = 1
    link_latency_s: Seconds = 1e-6
    switch_latency_s: Seconds = 0.0
    nic_latency_s: Seconds = 0.0
    rates: Annotated[Floats, Range(0, 1)] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "leaf", whole("leaf", self.leaf, 0))
        leaves = int(self.leaf.max(initial=-1)) + 1
        if not leaves:
            raise ValueError("leaf is empty: give the leaf of every host")
        for name in ("group", "pod"):
            numbers = whole(name, getattr(self, name), 0)
            if numbers.size not in (0, leaves):
                raise ValueError(f"{name} has {numbers.size:,} values: give one for each of {leaves:,} leaves")
            put(self, name, numbers if numbers.size else np.zeros(leaves, np.int64))
        if self.cores and not self.uplinks:
            raise ValueError("uplinks is 0: a fabric of three tiers needs uplinks of its leaves")
        _fits(self.ports)
        rates = np.asarray(self.rates, float)
        if rates.size not in (0, self.ports):
            raise ValueError(f"rates has {rates.size:,} values: give one for each of {self.ports:,} ports")
        put(self, "rates", rates if rates.size else np.ones(self.ports))

    @property
    def hosts(self) -> int:
        """Hosts, each with a NIC of `planes` ports."""
        return len(self.leaf)

    @property
    def leaves(self) -> int:
        """Leaf switches of a plane."""
        return len(self.group)

    @property
    def tiers(self) -> int:
        """1, 2 or 3 tiers of switches."""
        return 3 if self.cores else 2 if self.uplinks else 1

    @property
    def oversubscription(self) -> float:
        """Hosts over uplinks of the fullest leaf, or links to leaves over links to cores of an aggregation switch."""
        if not self.uplinks:
            return 1.0
        leaves = int(np.bincount(self.pod).max())  # of a pod, each with a link to every aggregation switch
        over = [np.bincount(self.leaf).max() / self.uplinks, leaves / self.cores if self.cores else 1.0]
        return float(max(1.0, *over))

    @property
    def paths_per_plane(self) -> int:
        """Paths between the two hosts that are farthest apart, in one plane."""
        return max(1, self.uplinks) * max(1, self.cores)

    @property
    def paths(self) -> int:
        """Paths between the two hosts that are farthest apart, in all planes."""
        return self.planes * self.paths_per_plane

    @cached_property
    def stage_ports(self) -> Ints:
        """Output ports of each stage, all planes together; shape [stages]."""
        pods = int(self.pod.max()) + 1
        if self.tiers == 3:
            up = self.leaves * self.uplinks
            per_plane = [self.hosts, up, pods * self.paths_per_plane, pods * self.paths_per_plane, up, self.hosts]
        else:
            up = self.leaves * max(1, self.uplinks)
            per_plane = [self.hosts, up, up, self.hosts]
        return self.planes * np.array(per_plane, np.int64)

    @property
    def stages(self) -> int:
        """Output ports on the longest path: cables a packet passes."""
        return 6 if self.tiers == 3 else 4

    @property
    def ports(self) -> int:
        """Output ports of all stages."""
        return int(self.stage_ports.sum())

    @cached_property
    def stage_start(self) -> Ints:
        """First port of each stage, and the number of ports at the end; shape [stages + 1]."""
        return np.concatenate([[0], np.cumsum(self.stage_ports)])

    def tables(self, source: ArrayLike, destination: ArrayLike) -> tuple[Ints, Ints]:
        """base [flows, stages], offset [paths, stages]: the port at stage s is base[f, s] + offset[q, s].

        base is `SKIPPED` where a flow does not pass the stage. Path q is plane q // paths_per_plane.
        Raises ValueError for hosts that do not exist or do not reach each other, and for flows of a host to itself.
        """
        src = whole("source", source, 0, self.hosts - 1)
        dst = whole("destination", destination, 0, self.hosts - 1)
        leaf_s, leaf_d = self.leaf[src], self.leaf[dst]
        if np.any(src == dst):
            at = int(np.argmax(src == dst))
            raise ValueError(f"flow {at} goes from host {src[at]} to itself: give another destination")
        apart = self.group[leaf_s] != self.group[leaf_d]
        alone = (leaf_s != leaf_d) & (not self.uplinks)
        if np.any(apart | alone):
            at = int(np.argmax(apart | alone))
            raise ValueError(
                f"destination {dst[at]} cannot be reached from host {src[at]}: no path joins their switches; "
                f"choose hosts of one rail, or a fabric with a layer over its rails"
            )
        q = np.arange(self.paths)
        plane, k = q // self.paths_per_plane, q % self.paths_per_plane
        starts = self.stage_start[:-1] + plane[:, None] * (self.stage_ports // self.planes)
        leaves, up = self.leaves, max(1, self.uplinks)
        if self.tiers == 3:
            pods, cores = int(self.pod.max()) + 1, self.cores
            a, pod_s, pod_d = k // cores, self.pod[leaf_s], self.pod[leaf_d]
            zero = np.zeros_like(k)
            offset = np.stack([zero, a, k, k * pods, a * leaves, zero], 1)
            base = np.stack([src, leaf_s * up, pod_s * up * cores, pod_d, leaf_d, dst], 1)
            base[:, 2:4][pod_s == pod_d] = SKIPPED
        else:
            zero = np.zeros_like(k)
            offset = np.stack([zero, k, k * leaves, zero], 1)
            base = np.stack([src, leaf_s * up, leaf_d, dst], 1)
        base[:, 1:-1][leaf_s == leaf_d] = SKIPPED
        return base, offset + starts

    def port_table(self, source: ArrayLike, destination: ArrayLike, path: ArrayLike) -> Ints:
        """Ports of flows, each on its path [flows, stages]; `SKIPPED` where a stage is not passed."""
        base, offset = self.tables(source, destination)
        return np.where(base == SKIPPED, SKIPPED, base + offset[whole("path", path, 0, self.paths - 1)])

    def latency_s(self, source: ArrayLike, destination: ArrayLike) -> Floats:
        """One-way delay without queues and without the time of sending [s]: both ends, cables, switches between."""
        base, _ = self.tables(source, destination)
        return self._latency_s((base != SKIPPED).sum(1))

    @property
    def longest_latency_s(self) -> float:
        """`latency_s` of the two hosts that are farthest apart [s]."""
        return float(self._latency_s(2 * self.tiers))

    def _latency_s(self, links: Any) -> Any:
        """One-way delay over so many links [s]."""
        cables_s, switches_s = links * float(self.link_latency_s), (links - 1) * float(self.switch_latency_s)
        return cables_s + switches_s + 2 * float(self.nic_latency_s)

    @cached_property
    def cables(self) -> Ints:
        """Cables over the leaves as pairs of ports, up and down [cables, 2]; those of the cores come last."""
        leaves, up, planes = self.leaves, max(1, self.uplinks), self.planes
        plane, at, k = (index.ravel() for index in np.mgrid[:planes, :leaves, : self.uplinks])
        first, last = self.stage_start[1], self.stage_start[-3]
        pairs = [np.stack([first + plane * leaves * up + at * up + k, last + plane * leaves * up + k * leaves + at], 1)]
        if self.cores:
            pods, paths = int(self.pod.max()) + 1, self.paths_per_plane
            plane, at, k = (index.ravel() for index in np.mgrid[:planes, :pods, :paths])
            first, last = self.stage_start[2], self.stage_start[3]
            pairs.append(np.stack([first + (plane * pods + at) * paths + k, last + (plane * paths + k) * pods + at], 1))
        return np.concatenate(pairs)

    @checked
    def degraded(
        self, fraction: Share = 0.0, seed: NonNegativeInt = 0, rate: Share = 0.0, spines: NonNegativeInt = 0
    ) -> "PathFabric":
        """The fabric with some of the cables over its leaves at another rate, both directions of each.

        Parameters
        ----------
        fraction
            Share of the cables, drawn without bias; rounded to whole cables.
        spines
            Spines (with three tiers: cores), drawn without bias, whose cables are all at that rate, too.
        seed
            Of the draw.
        rate
            Speed of these cables as a share of link_Bps; 0 for dead ones.

        Returns
        -------
        The fabric. Cables that are not drawn keep their rates.
        """
        count, top = round(fraction * len(self.cables)), self._top_cables
        if fraction and not len(self.cables):
            raise ValueError(f"fraction is {fraction:g}: one tier has no cables over its leaves; give 0")
        whole("spines", spines, 0, len(top))
        draw = np.random.default_rng(seed)
        chosen = self.cables[draw.permutation(len(self.cables))[:count]]
        rates = self.rates.copy()
        rates[chosen] = rate
        rates[top[draw.permutation(len(top))[:spines]]] = rate
        return replace(self, rates=rates)

    @property
    def _top_cables(self) -> Ints:
        """Cables of each spine, or of each core where there are three tiers, as pairs of ports."""
        below = int(self.pod.max()) + 1 if self.cores else self.leaves
        top = self.cables[-self.planes * below * self.paths_per_plane :] if len(self.cables) else self.cables
        return top.reshape(self.planes, below, -1, 2).swapaxes(1, 2).reshape(-1, below, 2)


@checked
def leaf_spine(
    hosts: Hosts,
    hosts_per_leaf: Count,
    link_Bps: PositiveBandwidth,
    oversubscription: Annotated[float, Range(1)] = 1.0,
    **options: Any,
) -> PathFabric:
    """A two-tier fabric: each leaf has hosts_per_leaf / oversubscription uplinks, one to each spine.

    Parameters
    ----------
    hosts, hosts_per_leaf
        The last leaf may be part-filled.
    link_Bps
        Of a host's port and of an uplink [bytes/s].
    oversubscription
        Of the leaves, 1 or more.
    options
        planes and latencies of `PathFabric`.

    Returns
    -------
    A `PathFabric`; of one tier where one leaf holds all hosts.

    Raises
    ------
    ValueError
        Where the uplinks are no whole number.
    """
    _fits(4 * hosts)
    uplinks = hosts_per_leaf / oversubscription
    if abs(uplinks - round(uplinks)) > 1e-9:
        raise ValueError(
            f"oversubscription is {oversubscription:g}: {hosts_per_leaf} hosts a leaf would have {uplinks:g} uplinks; "
            f"choose one that divides {hosts_per_leaf}"
        )
    leaf = np.arange(hosts) // hosts_per_leaf
    return PathFabric(leaf, round(uplinks) if hosts > hosts_per_leaf else 0, link_Bps, **options)


def three_tier(hosts: int, radix: int, link_Bps: float, oversubscription: float = 1.0, **options: Any) -> PathFabric:
    """A three-tier fat tree of switches with `radix` ports: pods of radix/2 leaves with radix/2 hosts each.

    Parameters
    ----------
    hosts
        At most radix^3 / 4; the last pod may be part-filled.
    radix
        Ports of a switch, even.
    link_Bps
        Of every port [bytes/s].
    oversubscription
        Of the aggregation switches towards the cores, 1 or more.
    options
        planes and latencies of `PathFabric`.

    Returns
    -------
    A `PathFabric`.

    Raises
    ------
    ValueError
        For an odd radix, more hosts than fit, or uplinks that are no whole number.
    """
    half = radix // 2
    _fits(6 * hosts)
    if radix % 2:
        raise ValueError(f"radix is {radix}: give an even number of ports")
    if hosts > 2 * half**3:
        raise ValueError(f"hosts is {hosts:,}: at most {2 * half**3:,} fit under three tiers of radix {radix}")
    cores = half / oversubscription
    if abs(cores - round(cores)) > 1e-9:
        raise ValueError(f"oversubscription is {oversubscription:g}: choose one that divides {half}")
    leaf = np.arange(hosts) // half
    pod = np.arange(leaf[-1] + 1) // half
    return PathFabric(leaf, half, link_Bps, pod=pod, cores=round(cores), **options)


def rail_paths(fabric: RailFabric, **options: Any) -> PathFabric:
    """The network of a `RailFabric` as paths: host i is GPU i, and a rail is a group of leaves.

    Leaves and pods are those of its wiring, of up to three tiers, each with the uplinks of a full one. Without a layer
    over the rails (rail-only) hosts of two rails do not reach each other, even where the rails share switches.

    Parameters
    ----------
    fabric
        The cluster: GPUs, rails, radix, planes, oversubscription of the layer over the rails and within them.
    options
        Latencies of `PathFabric`.

    Returns
    -------
    A `PathFabric` with one host for each GPU.

    Raises
    ------
    ValueError
        Where the network has four tiers.
    """
    layout, tiers, joined = fabric.layout, fabric.tiers, np.isfinite(fabric.oversubscription)
    if tiers > 3:
        raise ValueError(
            f"gpus is {fabric.gpus:,}: the network would have {tiers} tiers of radix {fabric.radix * fabric.planes}, "
            f"and paths have at most 3; choose a larger radix or fewer GPUs"
        )
    wiring, rail = whole_wiring(fabric), np.arange(fabric.gpus) % fabric.hb_domain_size % fabric.rails
    rail = np.zeros_like(rail) if joined else rail
    (switch, rail), leaf = np.unique([wiring.leaf[0], rail], axis=1, return_inverse=True)
    head = np.full(len(wiring.switches), len(wiring.switches))  # of each switch's block
    np.minimum.at(head, wiring.lower, wiring.upper)
    _, pod = np.unique(head[switch] if tiers == 3 else np.zeros_like(switch), return_inverse=True)
    uplinks, cores = (int(layout.uplinks(tier, layout.fan_in[tier - 1])) if tiers > tier else 0 for tier in (1, 2))
    return PathFabric(
        leaf.ravel(),
        uplinks,
        fabric.link_Bps,
        rail,
        pod,
        cores,
        planes=fabric.planes,
        **options,
    )
