"""A fabric with a failed part: what of the bandwidth is left where it is least, in closed form."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.facts.arguments import checked
from railcore.facts.checks import Floats, one_of
from railcore.network.topology.photonic import PhotonicRails, rings_of_ports
from railcore.network.topology.rails import RailFabric

SLOWING_PARTS = ("NIC", "host link", "rail switch", "trunk link", "spine", "plane", "HB switch", "circuit switch")
MOVES = ("all other rails", "one other rail")


@checked
@dataclass(frozen=True)
class FailedPart:
    """A fabric without one part, while the job goes on with all its GPUs.

    A NIC without a link sends by the other rails of its HB domain (scale-up or NVLink domain), and so do those that
    send to it: n of its K NICs carry what K did. With several planes the others carry what a link or a switch next to
    the hosts did. Switches split traffic over their own links (equal-cost multipath) and do not see that a trunk
    farther on has become thinner: of a trunk of w > 1 links that loses one, the rest sets the pace, (w - 1) / w; a
    trunk of one link is taken by none. Circuits of photonic rails hold whole rings: where a port or a switch leaves a
    NIC none, its rings move to the next rail.

    fabric: with all its parts.
    part: of SLOWING_PARTS. A spine is a switch of tier 2; the HB domain goes on with its other HB switches.
    moved_to: where the traffic of a NIC without a link goes, of MOVES.

    Raises ValueError for a part that the fabric does not have, or after which GPUs have no way left.
    """

    fabric: RailFabric | PhotonicRails
    part: str
    moved_to: str = MOVES[0]
    made_by = 'FailedPart(fabric, "spine")'

    def __post_init__(self) -> None:
        one_of("part", self.part, SLOWING_PARTS)
        one_of("moved_to", self.moved_to, MOVES)
        if not self._is_there:
            raise ValueError(f"part is {self.part!r}: this fabric has no such part, give another")
        if self.nic_share <= 0 or self.hb_share <= 0:
            raise ValueError(f"part is {self.part!r}: without it GPUs have no way left, so that the job stops")

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
    def nic_Bps(self) -> float:
        """Bandwidth of a NIC with all its ports [bytes/s]."""
        return self.fabric.nic_Bps

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the fabric."""
        return self.fabric.warnings

    @property
    def _is_there(self) -> bool:
        fabric = self.fabric
        if self.part == "HB switch":
            return bool(fabric.hb_switches) and fabric.hb_domain_size > 1
        if isinstance(fabric, PhotonicRails):
            return self.part in ("NIC", "host link", "circuit switch") and fabric.domains > 1
        if self.part in ("trunk link", "spine"):
            return fabric.tiers > 1
        return fabric.tiers > 0 and self.part != "circuit switch" and (self.part != "plane" or fabric.planes > 1)

    @property
    def nics_cut(self) -> int:
        """NICs of the HB domain that is worst off that have no link left, or no ring."""
        fabric = self.fabric
        if isinstance(fabric, PhotonicRails):
            return int(self.part == "NIC" or self._rings_left == 0) * (
                int(fabric.parts.rails_per_switch) if self.part == "circuit switch" else 1
            )
        if self.part == "NIC" or (self.part == "host link" and fabric.planes == 1):
            return 1
        if self.part != "rail switch" or fabric.planes > 1:
            return 0
        layout = fabric.layout
        rails = int(layout.rails_per_pod) if layout.pod_tier == 1 else 1
        of_rail = min(math.ceil(fabric.hb_domain_size / fabric.rails), int(layout.hosts_per_leaf))
        return min(rails * of_rail, fabric.hb_domain_size)

    @property
    def _rings_left(self) -> float:
        """Share of its rings that a NIC of photonic rails keeps."""
        ports, fibres = self.fabric.nic_ports, self.fabric.fibres_per_port
        gone = {"host link": 1, "circuit switch": ports // self.fabric.planes}.get(self.part, 0)
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
        whole = self.part not in ("host link", "rail switch", "plane")
        return 1.0 if whole else 1 - 1 / self.fabric.planes

    @property
    def hb_share(self) -> float:
        """Share of its bandwidth in the HB domain that a GPU has where it is least."""
        return 1 - 1 / self.fabric.hb_switches if self.part == "HB switch" else 1.0

    def uplinks(self, tier: int, links: Floats) -> Floats:
        """What is left of the links out of each block of a tier of a plane, as links that are used alike.

        tier: of the block's head. links: of each block, with all parts.
        """
        layout: Any = getattr(self.fabric, "layout", None)
        if self.part not in ("trunk link", "spine") or tier > 2:
            return links
        of_leaf = float(layout.uplinks(1, layout.hosts_per_leaf))
        trunk = min(float(layout.down[1] // layout.fan_in[1]) or 1.0, of_leaf)
        if self.part == "spine":  # every leaf below it loses its trunk to it; the block above, what led out of it
            spines = math.ceil(of_leaf / trunk)
            return links * (1 - (trunk / of_leaf if tier == 1 else 1 / spines))
        if tier == 2:
            return links
        left = 1 - (1 / trunk if trunk > 1 else 1 / of_leaf)
        return links * np.where(np.arange(links.size) == 0, left, 1.0)
