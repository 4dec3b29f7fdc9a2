"""A fabric with a failed part: what of the bandwidth is left where it is least, in closed form."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.catalog.arguments import check_gpus, checked
from railcore.catalog.checks import Floats, Ints, one_of
from railcore.network.topology.blocks import rail_blocks
from railcore.network.topology.photonic import PhotonicRails, rings_of_ports
from railcore.network.topology.rails import RailFabric

STOPPING_PARTS = ("GPU", "HB domain")
SLOWING_PARTS = ("NIC", "host link", "rail switch", "trunk link", "spine", "plane", "HB switch", "circuit switch")
MOVES = ("all other rails", "one other rail")


@checked
@dataclass(frozen=True)
class FailedPart:
    """A fabric without one part, while the job goes on with all its GPUs.

    - NIC without a link: its traffic takes the other rails of its HB domain (scale-up or NVLink domain) at both ends: n
      of K NICs carry what K did.
    - Several planes: the other planes carry the traffic of a failed link or switch next to the hosts.
    - Trunk of w > 1 links that loses one: (w - 1) / w of all, since switches split traffic evenly over their own links
      (equal-cost multipath) and do not see that a trunk farther on is thinner. No traffic takes a trunk that lost its
      only link. With more than two tiers of switches this is approximate.
    - Photonic rails: circuits hold whole rings. Where a NIC has no ring left, its rings move to the next rail.

    fabric: with all its parts.
    part: of SLOWING_PARTS. A spine is a switch of tier 2; the HB domain goes on with its other HB switches.
    moved_to: where the traffic of a NIC without a link goes, of MOVES.

    Raises ValueError for a part that the fabric does not have.
    """

    fabric: RailFabric | PhotonicRails
    part: str
    moved_to: str = MOVES[0]
    made_by = 'FailedPart(fabric, "spine")'

    def __post_init__(self) -> None:
        one_of("part", self.part, SLOWING_PARTS)
        one_of("moved_to", self.moved_to, MOVES)
        if not has_part(self.fabric, self.part):
            raise ValueError(f"part is {self.part!r}: this fabric has no such part, give another")

    @property
    def gpus(self) -> int:
        """Of the fabric."""
        return self.fabric.gpus

    @property
    def hb_domain_size(self) -> int:
        """GPUs of an HB domain."""
        return self.fabric.hb_domain_size

    @property
    def domains(self) -> int:
        """HB domains."""
        return self.fabric.domains

    @property
    def nic_Bps(self) -> float | None:
        """Of the fabric [bytes/s], None where it is not given."""
        return self.fabric.nic_Bps

    @property
    def hb_Bps(self) -> float | None:
        """Of the fabric [bytes/s], None where it is not given."""
        return self.fabric.hb_Bps

    @property
    def stops(self) -> bool:
        """Whether GPUs have no way left, so that the job stops (`lost_gpus`)."""
        return not self.nic_share or not self.hb_share

    def check_goes_on(self) -> None:
        """Raises ValueError where the job stops."""
        if self.stops:
            raise ValueError(f"fabric has lost its {self.part}: GPUs have no way left, so that the job stops")

    @property
    def nics_cut(self) -> int:
        """NICs without a link, or without a ring, in the HB domain that has most of them."""
        fabric = self.fabric
        if isinstance(fabric, PhotonicRails):
            rails = int(fabric.parts.rails_per_switch) if self.part == "circuit switch" else 1
            return rails if self.part == "NIC" or not self._rings_left else 0
        if self.part == "NIC" or (self.part == "host link" and fabric.planes == 1):
            return 1
        if fabric.planes > 1 or not (self.part == "rail switch" or self._leaf_is_cut):
            return 0
        layout = fabric.layout
        rails = int(layout.rails_per_pod) if layout.pod_tier == 1 else 1
        of_rail = min(math.ceil(fabric.hb_domain_size / fabric.rails), int(layout.hosts_per_leaf))
        return min(rails * of_rail, fabric.hb_domain_size)

    @property
    def _rings_left(self) -> float:
        """Share of its rings that a NIC of photonic rails keeps."""
        fabric: Any = self.fabric
        ports, fibres = fabric.nic_ports, fabric.fibres_per_port
        gone = {"host link": 1, "circuit switch": ports // fabric.planes}.get(self.part, 0)
        rings = rings_of_ports(ports, fibres)
        return rings_of_ports(ports - gone, fibres) / rings if rings else float(not gone)

    @property
    def nic_share(self) -> float:
        """Share of a NIC's bandwidth that a GPU has where it is least."""
        K, cut = self.hb_domain_size, self.nics_cut
        if cut:
            one = self.moved_to == "one other rail" or isinstance(self.fabric, PhotonicRails)
            return 0.0 if cut >= K else 1 / (1 + cut) if one else (K - cut) / K
        if isinstance(self.fabric, PhotonicRails):
            return self._rings_left
        slowed = self.part in ("host link", "rail switch", "plane") or self._leaf_is_cut
        return 1 - slowed / self.fabric.planes

    @property
    def hb_share(self) -> float:
        """Share of its bandwidth in the HB domain that a GPU has where it is least."""
        return 1 - 1 / self.fabric.hb_switches if self.part == "HB switch" else 1.0

    def uplinks(self, tier: int, links: Floats) -> Floats:
        """Effective uplinks of each block after the failure: equal-cost paths run at the pace of the slowest.

        tier: of the block's head. links: uplinks of each block in a plane, with all parts.
        """
        if self.part not in ("trunk link", "spine") or tier > 2 or self._leaf_is_cut:
            return links
        of_leaf, trunk = self._leaf_uplinks
        if self.part == "spine":  # each leaf below it loses its trunk to it; the block above loses the spine's uplinks
            return links * (1 - (trunk / of_leaf if tier == 1 else 1 / math.ceil(of_leaf / trunk)))
        return links * (1 - 1 / (trunk if trunk > 1 else of_leaf)) if tier == 1 else links

    @property
    def _leaf_uplinks(self) -> tuple[float, float]:
        """Links out of a leaf, and those of a trunk to a spine."""
        layout: Any = self.fabric.layout  # type: ignore[union-attr]
        of_leaf = float(layout.uplinks(1, layout.hosts_per_leaf))
        return of_leaf, min(float(layout.trunk(2, of_leaf)), of_leaf)

    @property
    def _leaf_is_cut(self) -> bool:
        """Whether a leaf loses all its uplinks: its GPUs then send by other rails, as if the leaf had failed."""
        if self.part not in ("trunk link", "spine"):
            return False
        of_leaf, trunk = self._leaf_uplinks
        return of_leaf <= (trunk if self.part == "spine" else 1)


def has_part(fabric: RailFabric | PhotonicRails, part: str) -> bool:
    """Whether a fabric has such a part, of STOPPING_PARTS or SLOWING_PARTS."""
    if part in STOPPING_PARTS:
        return True
    if part == "HB switch":
        return bool(fabric.hb_switches) and fabric.hb_domain_size > 1
    if fabric.domains == 1:  # no network
        return False
    if isinstance(fabric, PhotonicRails):
        return part in ("NIC", "host link", "circuit switch")
    if part in ("trunk link", "spine"):
        return fabric.tiers > 1
    return fabric.tiers > 0 and part != "circuit switch" and (part != "plane" or fabric.planes > 1)


def lost_gpus(fabric: RailFabric | PhotonicRails, part: str) -> Ints:
    """GPUs that a failed part takes from a job: those that failed, or have no way left, or lost their HB domain.

    GPUs count from 0, domain by domain. part: one that the fabric has.
    """
    if part == "GPU":
        return np.arange(1)
    check_gpus("fabric", fabric.gpus)
    domain = np.arange(min(fabric.hb_domain_size, fabric.gpus))
    if part == "HB domain":
        return domain
    if not FailedPart(fabric, part).stops:
        return np.arange(0)
    if part == "HB switch":
        return domain
    if part in ("NIC", "host link"):  # a GPU that is a domain of its own
        return np.arange(1)
    blocks = rail_blocks(fabric) if isinstance(fabric, RailFabric) else ()
    if not blocks:  # the switch joined all domains: one goes on, the others are lost
        return np.arange(domain.size, fabric.gpus)
    of_leaf = int(blocks[0].last[0]) // domain.size * domain.size
    return np.arange(of_leaf, fabric.gpus) if part == "spine" else np.arange(of_leaf)
