"""Every switch, host link and trunk of a fabric: as lists, and as arrays in which parts can fail.

GPUs count from 0, domain by domain; switches count from 0 in the order in which they are wired, plane by plane.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from railcore.catalog.arguments import MOST_LISTED, Listed, check_gpus


class Switch(NamedTuple):
    """A switch of `WireList`.

    name: as drawings show it.
    chassis: the box it is in; with VLANs one for several.
    tier: 1 next to the hosts.
    rail: from 1; None for several.
    plane: from 1.
    """

    name: str
    tier: int
    rail: int | None
    plane: int
    chassis: str


@dataclass
class WireList:
    """Switches and what they join: hosts as (leaf, GPUs as (domain, rank) from 1), trunks as (lower, upper, links)."""

    fabric: Any
    switches: list[Switch] = field(default_factory=list)
    hosts: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    trunks: list[tuple[int, int, int]] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def add_plane(self, plane: int, rails: range) -> None:
        """Wire these rails (from 1) in one plane."""
        layout, blocks = self.fabric.layout, []
        for pod in rails_of_pods(self.fabric):
            if members := [rail for rail in pod if rail in rails]:
                blocks += self.add_pod(plane, members)
        for tier in range(layout.pod_tier + 1, layout.tiers + 1):
            groups = 1 if tier == layout.tiers else math.ceil(len(blocks) / int(layout.most[tier - 1]))
            blocks = [self._block(plane, tier, children, None) for children in _spread(blocks, groups)]

    def add_pod(self, plane: int, rails: Sequence[int]) -> list[list[tuple[int, int]]]:
        """Wire leaves and inner tiers of the rails of one pod; gives its blocks, each (switch, uplinks) of its head."""
        fabric, layout = self.fabric, self.fabric.layout
        leaf_uplinks, only = int(layout.uplinks(1, layout.hosts_per_leaf)), rails[0] if len(rails) == 1 else None
        if layout.pod_tier == 1 and not only and math.isinf(fabric.oversubscription):  # a VLAN of one switch a rail
            box = f"{self._prefix(plane)}R{rails[0]}-{rails[-1]}.T1"
            for rail in rails:
                self.hosts.append((self._switch(plane, 1, rail, box), fabric.endpoints(rail)))
            return []  # no layer above
        if layout.pod_tier == 1:
            leaf = self._switch(plane, 1, only)
            self.hosts += [(leaf, fabric.endpoints(rail)) for rail in rails]
            return [[(leaf, leaf_uplinks)]]
        blocks = []
        for rail in rails:
            for members in _spread(fabric.endpoints(rail), int(layout.leaves_per_rail)):
                leaf = self._switch(plane, 1, rail)
                self.hosts.append((leaf, members))
                blocks.append([(leaf, leaf_uplinks)])
        for tier in range(2, layout.pod_tier + 1):
            groups = 1 if tier == layout.pod_tier else int(layout.blocks[tier - 1] // layout.pods)
            blocks = [self._block(plane, tier, children, only) for children in _spread(blocks, groups)]
        return blocks

    def _block(self, plane: int, tier: int, children: list, rail: int | None) -> list[tuple[int, int]]:
        """Switches of `tier` over the children: switches at one place in their blocks share a group of switches."""
        layout = self.fabric.layout
        fan_in, heads = int(layout.fan_in[tier - 1]), []
        for place, (_, uplinks) in enumerate(children[0]):
            left, trunk = uplinks, int(layout.trunk(tier, uplinks))
            while left > 0:
                width = min(trunk, left)
                switch = self._switch(plane, tier, rail)
                self.trunks += [(child[place][0], switch, width) for child in children]
                heads.append((switch, int(layout.uplinks(tier, fan_in * width))))
                left -= width
        return heads

    def _prefix(self, plane: int) -> str:
        return f"P{plane}." if self.fabric.planes > 1 else ""

    def _switch(self, plane: int, tier: int, rail: int | None, chassis: str = "") -> int:
        """Add a switch, numbered by its place and tier."""
        place = f"{self._prefix(plane)}{f'R{rail}.' if rail else ''}T{tier}"
        self._numbers[place] = self._numbers.get(place, 0) + 1
        name = f"{place}.S{self._numbers[place]}"
        self.switches.append(Switch(name, tier, rail, plane, chassis or name))
        return len(self.switches) - 1


def wire_list(fabric, rails: range | None = None) -> WireList:
    """Switches and links of a fabric, of some of its rails (from 1) or of all."""
    check_gpus("fabric", fabric.gpus, MOST_LISTED)
    wires = WireList(fabric)
    for plane in range(1, fabric.planes + 1) if fabric.tiers else ():
        wires.add_plane(plane, rails or range(1, fabric.rails + 1))
    return wires


def rails_of_pods(fabric) -> list[range]:
    """Rails (from 1) of each pod."""
    rails, size = range(1, fabric.rails + 1), int(fabric.layout.rails_per_pod)
    return [rails[at : at + size] for at in range(0, fabric.rails, size)]


def even_cuts(items: int, groups: Listed) -> np.ndarray:
    """Where consecutive groups begin and the last one ends, whose lengths differ by one at most."""
    size, more = divmod(items, groups)
    places = np.arange(groups + 1)
    return places * size + np.minimum(places, more)


def _spread(items: list, groups: int) -> list[list]:
    """Groups of `even_cuts`."""
    return [items[a:b] for a, b in pairwise(even_cuts(len(items), groups).tolist())]


@dataclass(frozen=True, eq=False)
class Wiring:
    """The parts of a fabric that work, as arrays.

    fabric: as it was built.
    switches: of its `WireList`.
    gpu_works, switch_works: of each GPU, of each switch.
    leaf: by plane and GPU, the switch that a NIC's link goes to; -1 without one.
    lower, upper, links: of each trunk, the switches at its ends and the links that work.
    hb_share: of each GPU, of its bandwidth in the HB domain (scale-up or NVLink domain); 1 where it never had any.
    """

    fabric: Any
    switches: list[Switch]
    gpu_works: np.ndarray
    switch_works: np.ndarray
    leaf: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    links: np.ndarray
    hb_share: np.ndarray

    @cached_property
    def domain(self) -> np.ndarray:
        """HB domain of every GPU, from 0."""
        return np.arange(self.fabric.gpus) // self.fabric.hb_domain_size

    @cached_property
    def hb_works(self) -> np.ndarray:
        """GPUs that reach others in their HB domain."""
        alone = np.bincount(self.domain)[self.domain] == 1 if not self.fabric.hb_switches else False
        return self.gpu_works & (self.fabric.hb_domain_size > 1) & (self.hb_share > 0) & ~np.asarray(alone)

    def without_gpus(self, count: int) -> "Wiring":
        """What is left when the first GPUs of domain 1 fail."""
        gone, (of_domain,) = np.arange(self.fabric.gpus) < count, np.nonzero(self.domain == 0)
        share = self.hb_share.copy()
        if not self.fabric.hb_switches and of_domain.size > 1:  # a mesh loses the links to them
            share[of_domain] = max(of_domain.size - 1 - count, 0) / (of_domain.size - 1)
        return replace(self, gpu_works=~gone, leaf=np.where(gone, -1, self.leaf), hb_share=share)

    def without_switches(self, gone: np.ndarray) -> "Wiring":
        """What is left when switches fail, given as True in an array of all."""
        leaf = np.where((self.leaf >= 0) & gone[self.leaf], -1, self.leaf) if gone.size else self.leaf
        links = np.where(gone[self.lower] | gone[self.upper], 0, self.links)
        return replace(self, switch_works=~gone, leaf=leaf, links=links)


@lru_cache(maxsize=4)
def whole_wiring(fabric) -> Wiring:
    """All parts of a fabric; kept for the next call."""
    wires, size = wire_list(fabric), fabric.hb_domain_size
    leaf = np.full((fabric.planes, fabric.gpus), -1)
    for switch, gpus in wires.hosts:
        domain, rank = np.array(gpus, int).reshape(-1, 2).T
        leaf[wires.switches[switch].plane - 1, (domain - 1) * size + rank - 1] = switch
    lower, upper, links = np.array(wires.trunks, int).reshape(-1, 3).T
    works = np.ones(fabric.gpus, bool), np.ones(len(wires.switches), bool)
    return Wiring(fabric, wires.switches, *works, leaf, lower, upper, links, np.ones(fabric.gpus))
