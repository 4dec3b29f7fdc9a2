"""Runs of the packet model as rows of a table: a case in plain numbers and names in, times and counts out."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, cast

import numpy as np

from railcore.engines.transport.fabric import LATENCIES, PathFabric, leaf_spine, rail_paths, three_tier
from railcore.engines.transport.flows import Flows, all_to_all, incast, permutation, permutation_in_groups, split_flows
from railcore.engines.transport.optimum import Framing
from railcore.engines.transport.packets import simulate_packets
from railcore.engines.transport.transports import Transport, transport
from railcore.facts import catalog
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import at_least, one_of, positive, share, whole
from railcore.network.topology import RailFabric

PATTERNS = ("permutation", "incast", "all to all")
_BETWEEN = (1, 5, 10, 25, 40, 50, 60, 75, 90, 95, 99, 99.9)
PERCENTILES = {  # columns with completion times of a run: percent of the flows that are complete
    "first_s": 0.0,
    **{f"p{percent:g}_s".replace(".", ""): percent for percent in _BETWEEN},
    "last_s": 100.0,
}


@checked
@dataclass(frozen=True)
class TransportCase:
    """One run, as a row of plain numbers and names.

    transport: a preset of `transports`.
    hosts, hosts_per_leaf: of the fabric.
    link_Bps: of every link, one direction [bytes/s].
    flow_bytes: payload of each transfer [bytes].
    options: what differs from the preset, as in "entropies=32 queue_packets=50".
    pattern: one of `PATTERNS`.
    members: senders of an incast; hosts of a group of an all to all, where hosts beyond whole groups stay idle.
    load: share of the hosts that send, in a permutation.
    start_spread_s: starts of an incast are uniform from 0 to this [s].
    subflows: flows that a transfer is split into.
    tiers: 2 or 3.
    oversubscription: of the top tier.
    planes: separate networks, all alike.
    rails: so many separate fabrics of such switches, a permutation in each; 0 for none.
    degraded: share of the cables over the leaves that are slow.
    degraded_rate: their speed as a share; 0 is dead.
    slow_spines: spines all of whose cables are slow, too.
    converged: 1 where routing has withdrawn dead paths, 0 where it has not yet.
    loss: probability that a packet is lost on a link.
    payload_bytes, header_bytes: of a packet [bytes]; 64 is the smallest Ethernet frame.
    link_latency_s, switch_latency_s, nic_latency_s: of `hop_latencies` [s]; the defaults are those of the published
        runs in data/measured.
    seed: of flows, paths and draws.

    Raises ValueError naming what is out of range.
    """

    transport: str
    hosts: int
    hosts_per_leaf: int
    link_Bps: Quantity
    flow_bytes: Quantity
    options: str = ""
    pattern: str = "permutation"
    members: int = 0
    load: float = 1.0
    start_spread_s: Quantity = 0.0
    subflows: int = 1
    tiers: int = 2
    oversubscription: float = 1.0
    planes: int = 1
    rails: int = 0
    degraded: float = 0.0
    degraded_rate: float = 0.0
    slow_spines: int = 0
    converged: int = 1
    loss: float = 0.0
    payload_bytes: Quantity = 4096
    header_bytes: Quantity = 64
    link_latency_s: Quantity = 1e-6
    switch_latency_s: Quantity = 0.0
    nic_latency_s: Quantity = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):  # plain numbers, so that a case reads the same from a file
            value, kind = getattr(self, field.name), cast(Any, field.type if field.type in (int, str) else float)
            if kind is not str and (type(value) is not kind or not 0 <= value < np.inf):
                plain = int(whole(field.name, value, 0)) if kind is int else float(at_least(field.name, value))
                object.__setattr__(self, field.name, plain)
        one_of("pattern", self.pattern, PATTERNS)
        one_of("tiers", self.tiers, (2, 3))
        one_of("converged", self.converged, (0, 1))
        whole("hosts", self.hosts, 2)
        for name in ("hosts_per_leaf", "planes", "subflows"):
            whole(name, getattr(self, name))
        positive("link_Bps", self.link_Bps, "bytes/s")
        for name in ("flow_bytes", "payload_bytes"):
            positive(name, getattr(self, name), "bytes")
        at_least("oversubscription", self.oversubscription, 1.0)
        share("degraded", self.degraded)
        share("degraded_rate", self.degraded_rate)
        share("loss", self.loss, below_1=True)
        share("load", self.load, above_0=True)
        least, most = {"incast": (1, self.hosts - 1), "all to all": (2, self.hosts)}.get(self.pattern, (0, 0))
        if not least <= self.members <= most:
            wanted = f"{least} to {most:,}" if most else "0, for a permutation has none"
            raise ValueError(f"members is {self.members}: give {wanted}")
        if self.rails and (self.pattern, self.load, self.tiers, self.oversubscription) != ("permutation", 1, 2, 1):
            wanted = "0, or a permutation of all hosts over two tiers without oversubscription"
            raise ValueError(f"rails is {self.rails}: give {wanted}")
        if self.rails and (self.hosts < 2 * self.rails or 2 * self.hosts_per_leaf % self.planes):
            wanted = "rails of two hosts or more, and planes that divide 2 hosts_per_leaf, the ports of a switch"
            raise ValueError(f"rails is {self.rails}: give {wanted}")
        _ = self.preset

    @property
    def preset(self) -> Transport:
        """The transport with its options."""
        return with_options(self.transport, self.options)

    @property
    def settings(self) -> str:
        """A hash of all numbers of the transport, which are the catalog's where `options` has none."""
        return f"h{hashlib.sha256(repr(self.preset).encode()).hexdigest()[:8]}"  # no number, whatever its digits

    def fabric(self) -> PathFabric:
        """The fabric, with its slow or dead cables."""
        options = {name: getattr(self, name) for name in LATENCIES}
        if self.rails:
            radix, nic_Bps = 2 * self.hosts_per_leaf // self.planes, self.link_Bps * self.planes
            built = rail_paths(
                RailFabric(self.hosts, self.rails, radix, planes=self.planes, nic_Bps=nic_Bps), **options
            )
        elif self.tiers == 3:
            ratio = self.oversubscription
            built = three_tier(self.hosts, 2 * self.hosts_per_leaf, self.link_Bps, ratio, planes=self.planes, **options)
        else:
            shape = (self.hosts, self.hosts_per_leaf, self.link_Bps, self.oversubscription)
            built = leaf_spine(*shape, planes=self.planes, **options)
        slow = self.degraded or self.slow_spines
        return built.degraded(self.degraded, self.seed, self.degraded_rate, self.slow_spines) if slow else built

    def flows(self) -> Flows:
        """Who sends how much to whom, and when; transfers that are split are whole."""
        if self.rails:
            fabric = self.fabric()
            return permutation_in_groups(fabric.group[fabric.leaf], self.flow_bytes, self.seed)
        if self.pattern == "permutation":
            return permutation(self.hosts, self.flow_bytes, self.load, self.seed)
        if self.pattern == "incast":
            return incast(self.members, 0, self.flow_bytes, self.hosts, self.start_spread_s, self.seed)
        hosts = np.random.default_rng(self.seed).permutation(self.hosts)
        return all_to_all(hosts[: self.hosts // self.members * self.members].reshape(-1, self.members), self.flow_bytes)

    @property
    def framing(self) -> Framing:
        """Packets, complete when their acknowledgements are back."""
        return Framing(self.payload_bytes, self.header_bytes, acknowledged=True)

    @property
    def packets(self) -> int:
        """Packets of a transfer."""
        return self.subflows * int(self.framing.packets(self.flow_bytes / self.subflows))

    @property
    def packet_hops(self) -> int:
        """Packets over ports, none sent twice; the time of a run goes with it."""
        flows = self.flows()
        passed = self.fabric().port_table(flows.source, flows.destination, np.zeros(len(flows), np.int64)) >= 0
        return int(passed.sum()) * self.packets


def without_idle_hosts(fabric: PathFabric, flows: Flows) -> tuple[PathFabric, Flows]:
    """The hosts that send or receive, under their leaves, and the flows between them: a run of few flows is faster.

    For two tiers at full speed; the leaves that no host needs are left out too.
    """
    hosts, ends = np.unique([flows.source, flows.destination], return_inverse=True)
    _, leaf = np.unique(fabric.leaf[hosts], return_inverse=True)
    names = ("uplinks", "link_Bps", "planes", *LATENCIES)
    kept = PathFabric(leaf, **{name: getattr(fabric, name) for name in names})
    source, destination = ends.reshape(2, -1)
    return kept, Flows(source, destination, flows.size_bytes, flows.start_s)


def with_options(name: str, options: str) -> Transport:
    """The transport of a name with other values for some fields, such as "entropies=32 queue_packets=50"."""
    return _with_options(name, options, catalog.own_version("transports"))


@cache
def _with_options(name: str, options: str, _version: tuple) -> Transport:  # anew once an own catalog has changed
    found: dict[str, Any] = {}
    for each in options.split():
        field, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"options has {each!r}: write name=value, such as entropies=32, with spaces between")
        found[field] = _plain(value)
    return transport(name, **found)


def _plain(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def run_case(case: TransportCase, simulate: Callable[..., Any] | None = None) -> dict[str, Any]:
    """Columns of a case, its settings, then what its run gives.

    first_s, mean_s, p1_s and other percentiles, last_s: when the last acknowledgements of transfers are back, from the
    start of the first on [s]; flows (transfers) and packets; the tallies of a `PacketRun`. simulate: in place of the
    packet model's.
    """
    fabric, flows = case.fabric(), case.flows()
    sent = split_flows(flows, case.subflows)
    run = (simulate or simulate_packets)(
        fabric, sent, case.preset, case.framing, case.seed, case.loss, bool(case.converged)
    )
    ends = sent.start_s - sent.start_s.min() + run.completion_s
    done = ends.reshape(-1, case.subflows).max(1)
    times = np.percentile(done, list(PERCENTILES.values())).tolist()
    return {
        **asdict(case),
        "settings": case.settings,
        "mean_s": float(done.mean()),
        **dict(zip(PERCENTILES, times, strict=True)),
        "flows": len(flows),
        "packets": len(flows) * case.packets,
        **run.tallies,
    }
