"""Networks that a plan compares: how each is built for a number of GPUs, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from railcore import catalog
from railcore.network.cost import cluster_fabrics, fabric_cost
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric
from railcore.planner.case import Case, Values

PHOTONIC = "photonic rails"
AnyFabric = RailFabric | PhotonicRails


@dataclass(frozen=True)
class Candidate:
    """A network by name. build: of a number of GPUs, its fabric; raises ValueError where there is none."""

    name: str
    build: Callable[[int], AnyFabric]

    def cost(self, case: Case, gpus: int, values: Values | None = None) -> dict[str, Any]:
        """cost_usd and power_w of its fabric of so many GPUs and of the networks of cluster.include."""
        found = fabric_cost(self.build(gpus), *case.books(values or {}))
        if case.spec.cluster.include:
            sides = case.side_networks(gpus)
            found = {name: total + float(sides[name].sum()) for name, total in found.items()}
        return found


def network_candidates(case: Case) -> list[Candidate]:
    """Candidates of a case: the usual ones in one order, then its own by name, in whichever order the spec has them.

    Of equal ones the first gives its name. Raises UnknownName for a name that is none.
    """
    spec, box = case.spec.network, case.machine
    links: dict[str, Any] = {"nic_Bps": box.nic_Bps, "hb_Bps": box.hb_Bps, "hb_switches": int(case.rack["hb_switches"])}

    @lru_cache(maxsize=256)
    def usual(gpus: int) -> dict[str, RailFabric]:
        return cluster_fabrics(gpus, box.hb_domain_size, case.radix, spec.oversubscriptions, spec.planes, **links)

    @lru_cache(maxsize=256)
    def rail_fabric(gpus: int, name: str) -> RailFabric:
        fabric = usual(gpus)[name]
        return fabric if fabric.planes == 1 else replace(fabric, radix=case.radix_of_planes(fabric.planes))

    @lru_cache(maxsize=256)
    def photonic(gpus: int) -> PhotonicRails:
        if gpus <= box.hb_domain_size:
            raise ValueError("one HB domain holds all GPUs, which need no network")
        ports = int(catalog.item("circuit_switches", spec.circuit_switch)["ports"])
        sizes = (gpus, box.hb_domain_size, ports, spec.nic_ports)
        return PhotonicRails(*sizes, planes=spec.nic_ports, rails_per_switch=None, **links)

    def named(name: str) -> Candidate:
        return Candidate(name, lambda gpus: rail_fabric(gpus, name))

    found = [named(name) for name in usual(2 * box.hb_domain_size)] + [Candidate(PHOTONIC, photonic)]
    if spec.candidates != "all":
        known = [each.name for each in found]
        if stray := [name for name in spec.candidates if name not in known]:
            raise catalog.UnknownName("network.candidates: network", stray[0], known)
        found = [each for each in found if each.name in spec.candidates]
    if taken := [own.name for own in spec.candidate if own.name in {each.name for each in found}]:
        raise ValueError(f"network.candidate {taken[0]!r} has the name of another network: give it a name of its own")
    for own in sorted(spec.candidate, key=lambda each: each.name):
        if own.layout == PHOTONIC:
            found.append(Candidate(own.name, photonic))
            continue
        shapes: dict[str, dict[str, Any]] = {
            "rail-optimized": {"oversubscription": own.oversubscription},
            "Clos": {"rails": 1, "tier_oversubscription": (own.oversubscription,) * (own.oversubscription > 1)},
            "rail-only": {},
        }
        radix = own.radix or (case.radix_of_planes(own.planes) if own.planes > 1 else case.radix)
        whole = {"rails_per_switch": None, "planes": own.planes, **links, **shapes[own.layout]}
        build = lru_cache(maxsize=256)(
            lambda gpus, radix=radix, whole=whole: RailFabric(gpus, box.hb_domain_size, radix, **whole)
        )
        found.append(Candidate(own.name, build))
    return found
