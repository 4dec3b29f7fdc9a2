"""What a plan's page draws of a network: servers, tiers of switches, and where they are joined."""

import math
from typing import Any

import pandas as pd

from railcore.catalog.units import counted, number, show
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric
from railcore.planner.candidates import AnyFabric

_TIERS = {1: ("switches",), 2: ("leaves", "spines"), 3: ("leaves", "spines", "cores")}
_TIERS |= {count: tuple(f"switches of tier {tier}" for tier in range(1, count + 1)) for count in range(4, 9)}


def diagram(fabric: AnyFabric, bill: pd.DataFrame, racks: int, platform: str, colour: str) -> dict[str, Any]:
    """The network in a few boxes.

    Parameters
    ----------
    fabric
        That is drawn.
    bill
        Its lines: columns scope, tier, count, units.
    racks, platform
        Servers or racks, and what they are.
    colour
        Of its switches.

    Returns
    -------
    hosts: the servers in words. servers: how many. tiers: from below, each with label (switches) and links (to below).
    groups: of switches beside each other in tier 1: rails, or leaves of a Clos. joined_from: the tier from which groups
    are joined, None where they never are. planes: copies of all. all_groups: whether each server has links to each
    group. note: rails and planes in words. colour: as given.
    """
    circuits = isinstance(fabric, PhotonicRails)
    switches = bill[bill["scope"] == "switches"].groupby("tier")["count"].sum().astype(int)
    names = ("circuit switches",) if circuits else _TIERS[len(switches)]
    rate, rails = show(fabric.nic_rate_Bps / fabric.nic_ports, "bps"), _rails(fabric)
    tiers = []
    for name, (tier, count) in zip(names, switches.items(), strict=True):
        links = fabric.links_by_tier[tier - 1] if isinstance(fabric, RailFabric) else fabric.gpus * fabric.nic_ports
        label = counted(int(count), "leaf" if name == "leaves" and count == 1 else name)
        tiers.append({"label": label, "links": f"{number(links, 12)} links of {rate}"})
    planes = 1 if circuits else fabric.planes  # circuit switches may hold the ports of several planes
    beside = rails if rails > 1 else int(switches.iloc[0]) // planes
    of_planes = f"{planes} planes that do not meet" if planes > 1 else ""
    of_planes = f"{fabric.nic_ports} ports of each NIC" if circuits else of_planes
    apart = ", not joined" if _joined_from(fabric) is None else ""
    of_rails = f"{rails} rails{apart}" if rails > 1 else ""
    return {
        "hosts": f"{number(racks, 12)} {platform}",
        "servers": racks,
        "tiers": tiers,
        "groups": max(beside, 1),
        "joined_from": _joined_from(fabric),
        "planes": planes,
        "all_groups": rails > 1,
        "note": ", ".join(filter(None, (of_rails, of_planes))),
        "colour": colour,
    }


def _rails(fabric: AnyFabric) -> int:
    return fabric.rails if isinstance(fabric, RailFabric) else fabric.hb_domain_size


def _joined_from(fabric: AnyFabric) -> int | None:
    """The lowest tier whose switches join rails, or leaves of a Clos; None where rails never meet."""
    if not isinstance(fabric, RailFabric) or (fabric.rails > 1 and math.isinf(fabric.oversubscription)):
        return None
    above_pod = fabric.rails > 1 and int(fabric.layout.rails_per_pod) <= 1
    return min(max(int(fabric.layout.pod_tier) + above_pod, 2), fabric.tiers) if fabric.rails > 1 else fabric.tiers
