"""Failed ports and circuit switches on photonic rails: what is left of a job.

A NIC holds as many rings as it has pairs of ports. Where a failed port leaves none, the rings through the NIC move to
another rail: their traffic passes the HB domain (scale-up or NVLink domain) to the GPUs on that rail and shares their
NICs. When the circuit switch of a rail fails, all rings of the rail move. A packet switch joins any pair, so that there
one port takes only its part of the NIC's bandwidth. The passage through the HB domain is taken to be free.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from railcore.catalog.checks import whole
from railcore.network.reliability import expected_failures, parts_at_risk
from railcore.network.switches import SwitchModel
from railcore.network.topology.photonic import PhotonicRails, rings_of_ports
from railcore.photonics.circuits import PhotonicCircuits, electrical_twin
from railcore.photonics.simulation import RAIL, RailNetwork, StaticPartition, simulate
from railcore.photonics.workload import Workload
from suite.deployment.segments import SegmentFabric


@dataclass(frozen=True, eq=False)
class ReroutedWorkload(Workload):
    """A workload of which some traffic takes NICs of another rail; made by `moved_rings`.

    nic_of: by operation, the rank whose NIC is used in place of a rank's.
    """

    nic_of: dict[int, dict[int, int]] = field(kw_only=True)

    def transfers(self, op: int, forwarded: bool = False) -> list[tuple[int, int]]:
        """Pairs of ranks whose NICs an operation uses, as those of a workload."""
        nics, pairs = self.nic_of.get(op, {}), super().transfers(op, forwarded)
        return [(nics.get(a, a), nics.get(b, b)) for a, b in pairs] if nics else pairs


def moved_rings(workload: Workload, lost: Sequence[int], rings: Sequence[str] = ()) -> ReroutedWorkload:
    """Rings through lost NICs, each moved as a whole to the next rail whose NICs are left.

    Parameters
    ----------
    workload
        Of `training_step`.
    lost
        Ranks without a NIC.
    rings
        Those that move, as `Workload.ring` names them; by default all.

    Returns
    -------
    A workload with the same operations and bytes.

    Raises
    ------
    ValueError
        Where no rail is left.
    """
    gone, size = set(lost), workload.machine.hb_domain_size
    nic_of: dict[int, dict[int, int]] = {}
    for op, link in enumerate(workload.link):
        if link != RAIL or (rings and workload.ring(op) not in rings):
            continue
        nics = {nic for pair in workload.transfers(op, forwarded=True) for nic in pair}
        if rails := {nic % size for nic in nics & gone}:
            nic_of[op] = _next_rail({nic for nic in nics if nic % size in rails}, gone, size)
    fields = {name: getattr(workload, name) for name in Workload.__dataclass_fields__}
    return ReroutedWorkload(**fields, nic_of=nic_of)


def _next_rail(nics: set[int], gone: set[int], size: int) -> dict[int, int]:
    """By NIC, that of the next rail in the same HB domain on which none of them is lost."""
    for further in range(1, size):
        moved = {nic: nic - nic % size + (nic + further) % size for nic in nics}
        if not gone & set(moved.values()):
            return moved
    raise ValueError(
        f"lost leaves no rail for ranks {sorted(nics)} with hb_domain_size {size}: give fewer, or larger domains"
    )


def slower_nic(workload: Workload, rank: int, left: float, rings: Sequence[str] = ()) -> Workload:
    """The workload with one NIC at a share `left` of its bandwidth: bytes through it count 1 / left times.

    Parameters
    ----------
    workload
        Of `training_step`.
    rank, left
        Of the NIC, and the share of its bandwidth that is left.
    rings
        Those concerned, as `Workload.ring` names them; by default all.

    Returns
    -------
    A workload with the same operations.
    """
    slow = [
        link == RAIL
        and (not rings or workload.ring(op) in rings)
        and any(rank in pair for pair in workload.transfers(op, forwarded=True))
        for op, link in enumerate(workload.link)
    ]
    sent, around = (
        [size / left if slower else size for size, slower in zip(sizes, slow, strict=True)]
        for sizes in (workload.sent_bytes, workload.ring_bytes)
    )
    return replace(workload, sent_bytes=sent, ring_bytes=around)


@dataclass(frozen=True)
class FailedPort(PhotonicCircuits):
    """Photonic rails on which a port of one NIC has failed, that of `rank`.

    The NIC holds the rings of ports - 1 ports.
    """

    rank: int = 0

    def slots_of(self, lane: tuple) -> int:
        """Circuits that one side of a NIC can hold at a time."""
        failed = lane in (("out", self.rank), ("in", self.rank))
        return rings_of_ports(self.ports - 1) if failed else super().slots_of(lane)


def failure_slowdowns(workload: Workload, network: PhotonicCircuits, ports: Sequence[int] = (2, 4)) -> pd.DataFrame:
    """Iteration time after a failed NIC port or rail switch: packet switches, circuits, and circuits that are set once.

    What fails is the first rank's port, or its rail's switch.

    Parameters
    ----------
    workload
        Of all replicas.
    network
        Of the circuits that change during the job; its ports are not used.
    ports
        Of a NIC. Packets and circuits set once have an equal part of its bandwidth on each; circuits that change have
        the NIC's on any, unless `network` says bandwidth="per port".

    Returns
    -------
    Columns way, ports, failure, left (what is left at the NIC or rail), iteration_s, slowdown (over the same way with
    all parts), events_per_year (of the whole job, with a switch for each rail; a port fails with its link and
    transceivers) and time_share (in which such a part is down: 1 - exp(-parts down)). Circuits set once per job lose
    the ring of the kind of traffic that costs most. A partition that lacks ports is left out, with the refusal in
    attrs["warnings"].

    Raises
    ------
    ValueError
        For HB domains of one GPU, and as `simulate`.
    """
    rail = [rank for rank in workload.simulated if rank % workload.machine.hb_domain_size == 0]
    rows, refused = [], []
    for count in whole("ports", list(ports), 2).tolist():
        changed = replace(network, ports=count, order=None)
        ways: dict[str, RailNetwork] = {
            "electrical rails": electrical_twin(network),
            "circuits change": changed,
            "circuits set once": StaticPartition(ports=count, algorithm=network.algorithm, rates_Bps=network.rates_Bps),
        }
        for way, circuits in ways.items():
            try:
                intact_s = simulate(workload, circuits).iteration_s
            except ValueError as error:
                if not isinstance(circuits, StaticPartition):
                    raise
                refused.append(str(error))
                continue
            port_left, port_s = _with_failed_port(workload, circuits, count)
            switch_s = simulate(moved_rings(workload, rail), circuits).iteration_s
            failures = [("none", "all", intact_s), ("port", port_left, port_s)]
            failures += [("switch of a rail", "the next rail carries two", switch_s)]
            year_of = _year_of_failures(workload, circuits, count)
            rows += [(way, count, *case, case[-1] / intact_s, *year_of[case[0]]) for case in failures]
    columns = ["way", "ports", "failure", "left", "iteration_s", "slowdown", "events_per_year", "time_share"]
    table = pd.DataFrame(rows, columns=columns)
    table.attrs["warnings"] = tuple(refused)
    return table


def _year_of_failures(workload: Workload, network: RailNetwork, ports: int) -> dict[str, tuple]:
    """Events a year and share of time with a failed part, by failure, on rails with a switch each."""
    gpus, size = workload.strategy.gpus, workload.machine.hb_domain_size
    domains = -(-gpus // size)
    fabric: PhotonicRails | SegmentFabric = PhotonicRails(gpus, size, domains * ports, nic_ports=ports)
    if not isinstance(network, PhotonicCircuits | StaticPartition):
        port_Bps = workload.machine.nic_Bps / ports
        switch = SwitchModel("packet switch", domains * ports, port_Bps)
        fabric = SegmentFabric(domains, switch, size, nic_ports=ports, homing=1, port_Bps=port_Bps, rails_per_switch=1)
    table = expected_failures(parts_at_risk(fabric)).set_index("part")[["events_per_year", "parts_down"]]
    first = "circuit switch" if isinstance(fabric, PhotonicRails) else "tier-1 switch"
    parts = {"none": [], "port": ["host link", "host transceiver"], "switch of a rail": [first]}
    sums = {failure: table.loc[names].sum() for failure, names in parts.items()}
    return {failure: (rate.events_per_year, -math.expm1(-rate.parts_down)) for failure, rate in sums.items()}


def _with_failed_port(workload: Workload, network: RailNetwork, ports: int) -> tuple[str, float]:
    """Rings that a failed port of rank 0 leaves, in words, and the iteration time with it."""
    if isinstance(network, PhotonicCircuits):
        rings, held = rings_of_ports(ports), rings_of_ports(ports - 1)
        left = f"{held} of {rings} rings"
        if not held:
            return f"{left}: the next rail carries them", simulate(moved_rings(workload, [0]), network).iteration_s
        fields = {name: getattr(network, name) for name in PhotonicCircuits.__dataclass_fields__}
        return left, simulate(workload, FailedPort(**fields)).iteration_s
    if isinstance(network, StaticPartition):
        each_port = ports // (2 * len(workload.rail_rings))
        times = {}
        for ring in workload.rail_rings:
            less = slower_nic(workload, 0, (each_port - 1) / each_port, [ring]) if each_port > 1 else None
            times[ring] = simulate(less or moved_rings(workload, [0], [ring]), network).iteration_s
        worst = max(times, key=lambda ring: times[ring])
        left = f"{each_port - 1} of {each_port} rings of {worst} traffic"
        return left if each_port > 1 else f"{left}: the next rail carries it", times[worst]
    slower = slower_nic(workload, 0, (ports - 1) / ports)
    return f"{ports - 1} of {ports} ports", simulate(slower, network).iteration_s
