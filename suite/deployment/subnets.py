"""Subnets, summaries, loopbacks and point-to-point links of a segment fabric, and the address of every NIC.

A unit is what advertises a summary of its own: a rail switch, or the switches that bundle the same NICs. Subnets of a
unit, units of a segment, segments of a pod and pods follow each other, each at a multiple of its size rounded up to a
power of two: every unit, segment and pod has one summary, and none overlaps another's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address

import numpy as np
import pandas as pd

from railcore.catalog.arguments import NonNegativeInt, checked
from railcore.catalog.checks import Ints, whole
from railcore.catalog.derived_fields import derive, given
from railcore.catalog.units import counted, number
from suite.deployment.port_map import (
    PEER_LINKS,
    InterfaceRule,
    checked_vlan_base,
    fabric_switches,
    free_interfaces,
    host_port_map,
    leaf_names,
    nic_bundling,
    peer_link_count,
    trunk_port_map,
)
from suite.deployment.segments import SegmentFabric
from suite.deployment.summaries import first_free, free_network, ipv4_network, refuse_overlaps

NETWORK_AND_BROADCAST = 2
MLAG_GATEWAYS = 3  # one of each switch, and the one that they share
_OCTETS = np.array([str(n) for n in range(256)], dtype=object)


@checked
@dataclass(frozen=True)
class AddressPlan:
    """Interfaces, VLANs, subnets and addresses of a fabric.

    rule, bundling, vlan_base, peer_links, trunk_bundles: of the port map, see `host_port_map` and `trunk_port_map`.
    pool: of the NICs' subnets.
    link_pool: of the /31 of routed links between switches.
    loopback_pool: of the switches' /32.
    reserved: networks that are in use already, which no pool may touch and which the subnets go round.
    gateways: addresses of each subnet for its rail switches, by default one (where several switches bundle a NIC, they
        share it), three for an MLAG pair (one each and the shared one).
    prefix_length: of the NICs' subnets, by default the longest that holds servers, gateways, network and broadcast
        address.
    own_subnets: subnets of one's own in place of the pool's, in the order of the table `subnets`.
    servers: that are there, the first ones of the fabric; by default as many as it has room for. Switches and subnets
        are those of the whole fabric.

    Raises ValueError naming what overlaps, does not suffice or does not fit, and what would.
    """

    fabric: SegmentFabric
    rule: InterfaceRule = field(default="by server", compare=False)
    bundling: str = ""
    vlan_base: NonNegativeInt = 101
    peer_links: NonNegativeInt = PEER_LINKS
    trunk_bundles: bool = True
    pool: str = "10.0.0.0/8"
    link_pool: str = "172.16.0.0/12"
    loopback_pool: str = "192.168.0.0/16"
    reserved: Sequence[str] = ()
    gateways: NonNegativeInt = 0
    prefix_length: NonNegativeInt = 0
    own_subnets: Sequence[str] = ()
    servers: NonNegativeInt = 0

    def __post_init__(self) -> None:
        room = self.fabric.domains
        derive(self, "servers", int(whole("servers", given(self, "servers"), 0, room)) or room)
        derive(self, "bundling", nic_bundling(self.fabric, given(self, "bundling")))
        derive(self, "peer_links", peer_link_count(self.fabric, self.bundling, given(self, "peer_links")))
        derive(self, "gateways", given(self, "gateways") or (MLAG_GATEWAYS if self.bundling == "mlag" else 1))
        if self.is_bundled and 1 < self.gateways <= self.fabric.homing:
            raise ValueError(
                f"gateways is {self.gateways} for {self.fabric.homing} switches that bundle the same NICs: give 1, "
                f"which they share, or {self.fabric.homing + 1}, one each and the shared one"
            )
        derive(self, "vlan_base", checked_vlan_base(self.fabric, self.bundling, given(self, "vlan_base")))
        free_interfaces(self.fabric, self.rule, self.peer_links)
        derive(self, "prefix_length", self._checked_prefix(given(self, "prefix_length")))
        for name in ("reserved", "own_subnets"):
            object.__setattr__(self, name, tuple(map(str, getattr(self, name))))
        self._check_pools()
        self._starts  # noqa: B018

    def _checked_prefix(self, asked: int) -> int:
        """Prefix length of a subnet, 0 for the longest. Raises ValueError for one that does not hold its hosts."""
        taken = self.gateways + NETWORK_AND_BROADCAST
        longest = 32 - (self.fabric.servers + taken - 1).bit_length()
        prefix = int(whole("prefix_length", asked or longest, 1, 30))
        if prefix > longest:
            raise ValueError(
                f"prefix_length is {prefix}: {2 ** (32 - prefix)} addresses less {self.gateways} for gateways, network "
                f"and broadcast hold {counted(max(0, 2 ** (32 - prefix) - taken), 'hosts')}, but servers is "
                f"{self.fabric.servers}: give {longest} or less"
            )
        return prefix

    @property
    def gpus(self) -> int:
        """GPUs that are there."""
        return self.servers * self.fabric.gpus_per_server

    @property
    def is_bundled(self) -> bool:
        """Whether the ports of a NIC are one port channel with one address."""
        return self.bundling != "none"

    @property
    def units_of_segment(self) -> int:
        """Units of a segment: groups of switches that bundle the same NICs, or rail switches."""
        return self.fabric.rail_switches_of_segment // (self.fabric.homing if self.is_bundled else 1)

    @property
    def subnets_of_unit(self) -> int:
        """Subnets of a unit: its rails, times the ports of a NIC at the switch where each has an address."""
        return self.fabric.rails_per_switch * (1 if self.is_bundled else self.fabric.nic_ports // self.fabric.homing)

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        return self.fabric.pods, self.fabric.segments, self.units_of_segment, self.subnets_of_unit

    @property
    def prefix_of_level(self) -> dict[str, int]:
        """Prefix length of the subnets, and of the summaries of a unit, a segment and a pod taken from the pool."""
        _, *inner = self._shape
        lengths, prefix = {"subnet": self.prefix_length}, self.prefix_length
        for level, count in zip(("unit", "segment", "pod"), reversed(inner), strict=True):
            prefix -= (count - 1).bit_length()
            lengths[level] = prefix
        return lengths

    def _check_pools(self) -> None:
        """Refuse pools that overlap or do not hold what they are for."""
        pools = {name: ipv4_network(name, getattr(self, name)) for name in ("pool", "link_pool", "loopback_pool")}
        taken = {f"reserved {text}": ipv4_network("reserved", text) for text in self.reserved}
        if self.own_subnets:
            del pools["pool"]
            taken |= {f"own_subnets {text}": ipv4_network("own_subnets", text) for text in self.own_subnets}
        needed = {"link_pool": 2 * self.routed_links, "loopback_pool": sum(self.fabric.switches_by_tier) + 1}
        for name, pool in pools.items():
            if name in needed and needed[name] > pool.num_addresses:
                prefix = 32 - (needed[name] - 1).bit_length()
                raise ValueError(
                    f"{name} is {pool} with {number(pool.num_addresses)} addresses, the plan takes "
                    f"{number(needed[name])}: give a /{prefix} or shorter"
                )
            for other, network in taken.items():
                if network.overlaps(pool) and not (name == "pool" and other.startswith("reserved")):
                    free = free_network(32 - (needed.get(name, 2) - 1).bit_length(), taken.values())
                    raise ValueError(f"{name} is {pool}, which overlaps {other}: give others, such as {free}")
            taken[f"{name} {pool}"] = pool

    @property
    def routed_links(self) -> int:
        """Routed links between switches with a /31 each: port channels, where parallel links are bundled."""
        parallel = (1, self.fabric.spine_links, self.fabric.super_spine_links)
        counts = zip(self.fabric.links_by_tier[1:], parallel[1:], strict=False)
        return sum(links // (count if self.trunk_bundles else 1) for links, count in counts)

    @cached_property
    def _starts(self) -> Ints:
        """First address of every subnet [pods, segments, units, subnets]."""
        if self.own_subnets:
            return self._own_starts()
        prefixes = self.prefix_of_level
        pod, segment, unit, subnet = np.indices(self._shape)
        offset = sum(
            index.astype(np.int64) << (32 - prefixes[level])
            for index, level in zip((pod, segment, unit, subnet), ("pod", "segment", "unit", "subnet"), strict=True)
            if prefixes[level] >= 0
        )
        return np.asarray(self._region_start(prefixes["pod"]) + offset)

    def _region_start(self, pod_prefix: int) -> int:
        """First address of the pods in the pool, beside what is reserved. Raises ValueError where they do not fit."""
        pool, pods, size = ipv4_network("pool", self.pool), self.fabric.pods, 2 ** (32 - pod_prefix)
        reserved = [ipv4_network("reserved", text) for text in self.reserved]
        first = first_free(size, reserved, pool, pods)
        if first is not None:
            return first
        whole_bits = (32 - pod_prefix) + (pods - 1).bit_length()
        would = f"A /{32 - whole_bits} would fit" if whole_bits <= 31 else "No IPv4 pool holds them: give fewer servers"
        fit = next((n for n in range(pods - 1, 0, -1) if first_free(size, reserved, pool, n) is not None), 0)
        beside = f" beside {counted(len(reserved), 'reserved networks')}" if reserved else ""
        raise ValueError(
            f"pool is {pool} with {number(pool.num_addresses)} addresses{beside}: {counted(pods, 'pods')} of "
            f"{number(size)} addresses (a /{pod_prefix} each, of /{self.prefix_length} subnets) "
            f"do not fit. {would}" + (f", or {counted(fit, 'pods')} in this one" if fit else "")
        )

    def _own_starts(self) -> Ints:
        networks = refuse_overlaps("own_subnets", (ipv4_network("own_subnets", text) for text in self.own_subnets))
        if len(networks) != (count := int(np.prod(self._shape))):
            raise ValueError(
                f"own_subnets has {counted(len(networks), 'networks')}, but the fabric takes {count}: give {count}"
            )
        sizes = {network.prefixlen for network in networks}
        if len(sizes) > 1:
            raise ValueError(f"own_subnets have prefix lengths {sorted(sizes)}: give one length")
        (prefix,) = sizes
        derive(self, "prefix_length", self._checked_prefix(prefix))
        return np.array([int(network.network_address) for network in networks], np.int64).reshape(self._shape)

    @cached_property
    def unit_names(self) -> np.ndarray:
        """Name of every unit [pods, segments, units]: its switch, or "Pod1.Seg1.Leaf1+Leaf2"."""
        names = leaf_names(self.fabric).reshape(*self._shape[:3], -1)
        groups = names.reshape(-1, names.shape[-1]).tolist()
        units = ["+".join([first, *(name.rpartition(".")[2] for name in more)]) for first, *more in groups]
        return np.array(units, dtype=object).reshape(self._shape[:3])

    @cached_property
    def subnets(self) -> pd.DataFrame:
        """Every subnet of NICs.

        Columns pod, segment, unit, rail, nic_port (0 where all ports share the address), vlan, subnet, gateway (the
        last of the gateways, which hosts use), addresses, reserved (network, broadcast and gateways), hosts, spare.
        """
        pod, segment, unit, sub = np.indices(self._shape).reshape(4, -1)
        starts, fabric = self._starts.ravel(), self.fabric
        k = self.subnets_of_unit // fabric.rails_per_switch
        group, member = (unit, 0 * unit) if self.is_bundled else (unit // fabric.homing, unit % fabric.homing)
        rail = group * fabric.rails_per_switch + sub // k
        nic_port = 0 * unit if self.is_bundled else sub % k * fabric.homing + member + 1
        size, reserved = 2 ** (32 - self.prefix_length), self.gateways + NETWORK_AND_BROADCAST
        vlan = self.vlan_base + rail + np.maximum(nic_port - 1, 0) * fabric.rails
        before = (pod * fabric.segments + segment) * fabric.servers
        hosts = np.clip(self.servers - before, 0, fabric.servers)
        return pd.DataFrame(
            {
                "pod": pod + 1,
                "segment": segment + 1,
                "unit": self.unit_names[pod, segment, unit],
                "rail": rail + 1,
                "nic_port": nic_port,
                "vlan": vlan,
                "subnet": address_texts(starts, self.prefix_length),
                "gateway": address_texts(starts + self.gateways),
                "addresses": size,
                "reserved": reserved,
                "hosts": hosts,
                "spare": size - reserved - hosts,
            }
        )

    @cached_property
    def summaries(self) -> pd.DataFrame:
        """The summary route of every unit, segment and pod: columns level, name, pod, segment, summary, subnets, valid.

        valid: it overlaps no other of its level.
        """
        frames, size = [], 2 ** (32 - self.prefix_length)
        for level, axes in (("unit", 3), ("segment", 2), ("pod", 1)):
            starts = self._starts.reshape(*self._shape[:axes], -1)
            first, last = starts.min(axis=-1).ravel(), (starts.max(axis=-1) + size - 1).ravel()
            bits = np.array([int(span).bit_length() for span in first ^ last], dtype=np.int64)
            begin = first >> bits << bits
            clash = _overlapping(begin, begin + (np.int64(1) << bits))
            at = np.indices(self._shape[:axes]).reshape(axes, -1) + 1
            pod, segment = at[0], at[1] if axes > 1 else 0 * at[0]
            places = zip(pod, segment, strict=True)
            names = self.unit_names.ravel() if axes == 3 else [f"Pod{p}" + f".Seg{s}" * bool(s) for p, s in places]
            lengths = np.array([f"/{32 - n}" for n in bits.tolist()], dtype=object)
            columns = {"level": level, "name": names, "pod": pod, "segment": segment}
            columns["summary"] = address_texts(begin) + lengths
            frames.append(pd.DataFrame({**columns, "subnets": starts.shape[-1], "valid": ~clash}))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def ports(self) -> pd.DataFrame:
        """`host_port_map` with subnet and address of every NIC port; ports of a bundle share one address."""
        table = host_port_map(self.fabric, self.rule, self.bundling, self.vlan_base)
        table = table[table["domain"] <= self.servers].reset_index(drop=True)
        pod, segment, gpu, port = (table[name].to_numpy() - 1 for name in ("pod", "segment", "gpu", "nic_port"))
        r, homing = self.fabric.rails_per_switch, self.fabric.homing
        if self.is_bundled:
            unit, sub = gpu // r, gpu % r
        else:
            unit = gpu // r * homing + port % homing
            sub = gpu % r * (self.fabric.nic_ports // homing) + port // homing
        starts = self._starts[pod, segment, unit, sub]
        names = address_texts(self._starts.ravel(), self.prefix_length)
        table["subnet"] = names[np.ravel_multi_index((pod, segment, unit, sub), self._shape)]
        table["address"] = address_texts(starts + self.gateways + table["server"].to_numpy())
        return table

    @cached_property
    def trunks(self) -> pd.DataFrame:
        """`trunk_port_map` with the /31 of every routed link: subnet, address, peer_address ("" for a peer link)."""
        table = trunk_port_map(self.fabric, self.rule, self.bundling, self.peer_links, self.trunk_bundles)
        routed = (table["kind"] == "trunk").to_numpy()
        first = routed & ((table["port_channel"] == 0) | (table["link"] == 1)).to_numpy()
        start = int(ipv4_network("link_pool", self.link_pool).network_address) + 2 * (np.cumsum(first) - 1)
        ends = {"subnet": address_texts(start, 31), "address": address_texts(start)}
        ends["peer_address"] = address_texts(start + 1)
        return table.assign(**{name: np.where(routed, texts, "") for name, texts in ends.items()})

    @cached_property
    def switches(self) -> pd.DataFrame:
        """`fabric_switches` with unit ("" above the rail switches) and loopback."""
        table = fabric_switches(self.fabric)
        units = np.repeat(self.unit_names.ravel(), self.fabric.rail_switches_of_segment // self.units_of_segment)
        table["unit"] = np.append(units, np.full(len(table) - units.size, "", dtype=object))
        start = int(ipv4_network("loopback_pool", self.loopback_pool).network_address)
        table["loopback"] = address_texts(start + 1 + np.arange(len(table)))
        return table


def _overlapping(begin: Ints, end: Ints) -> np.ndarray:
    """For each range of addresses, whether it overlaps another."""
    order = np.argsort(begin, kind="stable")
    start, stop = begin[order], np.maximum.accumulate(end[order])
    overlaps = np.zeros(begin.size, dtype=bool)
    overlaps[order[1:]] = stop[:-1] > start[1:]
    overlaps[order[:-1]] |= start[1:] < end[order[:-1]]  # the next one begins before this one ends
    return overlaps


def address_texts(addresses: Ints, prefix_length: int = 32) -> np.ndarray:
    """Dotted texts of addresses, with a prefix length where it is less than 32."""
    addresses = np.asarray(addresses, dtype=np.int64)
    high, low = addresses >> 16, addresses & 0xFFFF
    at_high, which = np.unique(high, return_inverse=True)
    heads = np.array([str(IPv4Address(int(address) << 16)).removesuffix("0.0") for address in at_high], dtype=object)
    texts = heads[which] + _OCTETS[low >> 8] + "." + _OCTETS[low & 255]
    return texts if prefix_length == 32 else texts + f"/{prefix_length}"


def address_use(plan: AddressPlan) -> pd.DataFrame:
    """Addresses that a plan takes: columns use, networks, addresses, used."""
    size, count = 2 ** (32 - plan.prefix_length), plan._starts.size
    used = count * plan.gateways + int(plan.subnets["hosts"].sum())
    links, switches = plan.routed_links, sum(plan.fabric.switches_by_tier)
    rows = [
        ("NIC subnets", count, count * size, used),
        ("links between switches", links, 2 * links, 2 * links),
        ("loopbacks", switches, switches, switches),
    ]
    return pd.DataFrame(rows, columns="use networks addresses used".split())


def bundling_warnings(plan: AddressPlan) -> tuple[str, ...]:
    """Warnings about how switches bundle NICs."""
    if plan.bundling != "evpn" or plan.fabric.spines:
        return ()
    return ("Nothing joins the switches that share Ethernet segments (EVPN): give spines.",)
