"""Networks that a plan compares: how each is built for a number of GPUs, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from railcore import catalog
from railcore.network.cost import cluster_fabrics, fabric_cost
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric
from railcore.planner.case import Case, Values
from railcore.planner.fabrics import photonic_fabric

PHOTONIC = "photonic rails"
AnyFabric = RailFabric | PhotonicRails


@dataclass(frozen=True)
class Candidate:
    """A network by name. build: of a number of GPUs, its fabric; raises ValueError where there is none."""

    name: str
    build: Callable[[int], AnyFabric]

    def cost(self, case: Case, gpus: int, values: Values | None = None) -> dict[str, Any]:
        """cost_usd and power_w of its fabric of so many GPUs and of the networks of cluster.include."""
        totals = fabric_cost(self.build(gpus), *case.books(values or {}))
        if case.spec.cluster.include:
            sides = case.side_networks(gpus)
            totals = {name: total + float(sides[name].sum()) for name, total in totals.items()}
        return totals


def network_candidates(case: Case) -> list[Candidate]:
    """Candidates of a case: the usual ones in their order, then the spec's own in the order of their names.

    Raises UnknownName for a network that is none of the usual ones.
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
        return photonic_fabric(gpus, box.hb_domain_size, spec.circuit_switch, spec.nic_ports, **links)

    def named(name: str) -> Candidate:
        return Candidate(name, lambda gpus: rail_fabric(gpus, name))

    candidates = [named(name) for name in usual(2 * box.hb_domain_size)] + [Candidate(PHOTONIC, photonic)]
    if spec.candidates != "all":
        names = [candidate.name for candidate in candidates]
        listed = {name: catalog.listed_name(name, names) for name in spec.candidates}
        if stray := [name for name in listed if listed[name] is None]:
            raise catalog.UnknownName("network.candidates: network", stray[0], names)
        candidates = [candidate for candidate in candidates if candidate.name in listed.values()]
    if taken := {network.name for network in spec.candidate} & {candidate.name for candidate in candidates}:
        name = sorted(taken)[0]
        raise ValueError(f"network.candidate {name!r} has the name of another network: give it a name of its own")
    for network in sorted(spec.candidate, key=attrgetter("name")):
        if network.layout == PHOTONIC:
            candidates.append(Candidate(network.name, photonic))
            continue
        shapes: dict[str, dict[str, Any]] = {
            "rail-optimized": {"oversubscription": network.oversubscription},
            "Clos": {"rails": 1, "tier_oversubscription": (network.oversubscription,) * (network.oversubscription > 1)},
            "rail-only": {},
        }
        radix = network.radix or (case.radix_of_planes(network.planes) if network.planes > 1 else case.radix)
        shape = {"rails_per_switch": None, "planes": network.planes, **links, **shapes[network.layout]}
        build = lru_cache(maxsize=256)(
            lambda gpus, radix=radix, shape=shape: RailFabric(gpus, box.hb_domain_size, radix, **shape)
        )
        candidates.append(Candidate(network.name, build))
    return candidates
