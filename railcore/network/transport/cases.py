"""Runs of the packet model as rows of a table: a case in plain numbers and names in, times and counts out."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import at_least, one_of, positive, share, whole
from railcore.network.transport.fabric import PathFabric, leaf_spine
from railcore.network.transport.flows import Flows, all_to_all, incast, permutation
from railcore.network.transport.optimum import Framing
from railcore.network.transport.packets import simulate_packets
from railcore.network.transport.transports import transport as transport_preset

PATTERNS = ("permutation", "incast", "all to all")
_PERCENTILES = (1, 5, 10, 25, 40, 50, 60, 75, 90, 95, 99, 99.9)
RANKS = {  # columns with completion times of a run: percentile
    "first_s": 0.0,
    **{f"p{rank:g}_s".replace(".", ""): rank for rank in _PERCENTILES},
    "last_s": 100.0,
}


@checked
@dataclass(frozen=True)
class TransportCase:
    """One run on a leaf-spine fabric, as a row of plain numbers and names.

    hosts, hosts_per_leaf, link_Bps [bytes/s], oversubscription, planes, link_latency_s, switch_latency_s: the fabric.
    degraded, degraded_rate: share of the cables over the leaves that are slow, and their speed as a share; 0 is dead.
    converged: 1 where routing has withdrawn dead paths, 0 where it has not yet. loss: of a packet on a link.
    pattern: one of `PATTERNS`; flow_bytes: payload of each flow; load: share of the hosts in a permutation.
    members: senders of an incast, hosts of a group of an all to all; start_spread_s: of the starts of an incast.
    transport, options: a preset of `transports`, and what differs from it, as in "entropies=32 queue_packets=50".
    payload_bytes, header_bytes: of a packet. seed: of flows, paths and everything drawn.
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
    oversubscription: float = 1.0
    planes: int = 1
    degraded: float = 0.0
    degraded_rate: float = 0.0
    converged: int = 1
    loss: float = 0.0
    payload_bytes: Quantity = 4096
    header_bytes: Quantity = 64
    link_latency_s: Quantity = 1e-6
    switch_latency_s: Quantity = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):  # plain numbers, so that a case reads the same from a file
            value = getattr(self, field.name)
            if field.type is not str:
                plain = int(whole(field.name, value, 0)) if field.type is int else float(at_least(field.name, value))
                object.__setattr__(self, field.name, plain)
        one_of("pattern", self.pattern, PATTERNS)
        positive("payload_bytes", self.payload_bytes, "bytes")
        share("degraded", self.degraded)
        _ = self.option_values

    @property
    def option_values(self) -> dict[str, Any]:
        """`options` by name; whole numbers, numbers, and names as they are."""
        found: dict[str, Any] = {}
        for each in self.options.split():
            name, equals, value = each.partition("=")
            if not equals:
                raise ValueError(f"options has {each!r}: write name=value, such as entropies=32, with spaces between")
            found[name] = _plain(value)
        return found

    def fabric(self) -> PathFabric:
        """The fabric, with its slow or dead cables."""
        built = leaf_spine(
            self.hosts,
            self.hosts_per_leaf,
            self.link_Bps,
            self.oversubscription,
            planes=self.planes,
            link_latency_s=self.link_latency_s,
            switch_latency_s=self.switch_latency_s,
        )
        return built.degraded(self.degraded, self.seed, self.degraded_rate) if self.degraded else built

    def flows(self) -> Flows:
        """Who sends how much to whom, and when."""
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
        """Packets of a flow."""
        return int(self.framing.packets(self.flow_bytes))

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
    names = ("uplinks", "link_Bps", "planes", "link_latency_s", "switch_latency_s")
    kept = PathFabric(leaf, **{name: getattr(fabric, name) for name in names})
    source, destination = ends.reshape(2, -1)
    return kept, Flows(source, destination, flows.size_bytes, flows.start_s)


def _plain(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def run_case(case: TransportCase, simulate: Callable[..., Any] | None = None) -> dict[str, Any]:
    """Columns of a case, then what its run gives.

    first_s, mean_s, p1_s and other percentiles, last_s: when the last acknowledgements of flows are back, from the
    start of the first flow on [s]; flows and packets; the tallies of a `PacketRun`. simulate: in place of the packet
    model's.
    """
    fabric, flows = case.fabric(), case.flows()
    if case.pattern == "incast" and not case.degraded:
        fabric, flows = without_idle_hosts(fabric, flows)
    run = (simulate or simulate_packets)(
        fabric,
        flows,
        transport_preset(case.transport, **case.option_values),
        case.framing,
        case.seed,
        case.loss,
        bool(case.converged),
    )
    done = flows.start_s - flows.start_s.min() + run.completion_s
    times = np.percentile(done, list(RANKS.values())).tolist()
    return {
        **asdict(case),
        "mean_s": float(done.mean()),
        **dict(zip(RANKS, times, strict=True)),
        "flows": len(flows),
        "packets": len(flows) * case.packets,
        **run.tallies,
    }
