"""Networks that a plan compares: how each is built for a number of GPUs, and what it costs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from railcore import catalog
from railcore.catalog import files
from railcore.catalog.tables import read_csv
from railcore.network.cost import fabric_cost
from railcore.network.price_books import PriceBook
from railcore.network.reliability import host_gpus
from railcore.network.switches import switch_technology
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fewest_switches
from railcore.planner.case import Case, Values
from railcore.planner.fabrics import photonic_fabric
from railcore.planner.links import link_switch
from railcore.planner.spec import CandidateSpec

PHOTONIC = "photonic rails"
LARGE_SWITCH = "102.4T"  # of the catalog: a generation after the usual one
_UNPUBLISHED = "No table of its counts is published."
AnyFabric = RailFabric | PhotonicRails


@dataclass(frozen=True)
class Candidate:
    """A network by name.

    name: that tables show.
    build: of a number of GPUs, its fabric; raises ValueError where there is none.
    about: what it is, in a sentence or two.
    switch: of the catalog, in place of the plan's; "" for the plan's.
    """

    name: str
    build: Callable[[int], AnyFabric]
    about: str = ""
    switch: str = ""

    def cost(self, case: Case, gpus: int, values: Values | None = None) -> dict[str, Any]:
        """cost_usd and power_w of its fabric of so many GPUs and of the networks of cluster.include."""
        totals = fabric_cost(self.build(gpus), *switch_books(case, self.switch, values or {}))
        if case.spec.cluster.include:
            sides = case.side_networks(gpus)
            totals = {name: total + float(sides[name].sum()) for name, total in totals.items()}
        return totals


def switch_books(case: Case, switch: str, values: Values) -> tuple[PriceBook, PriceBook]:
    """Books of prices and powers for a network of a switch; with draws of their rows.

    A book has one number for a port: that of another switch is dearer or cheaper as the switch is for its capacity,
    and draws more or less likewise. switch: as in `Candidate`.
    """
    prices, powers = case.books(values)
    if not switch:
        return prices, powers

    boxes = catalog.item("switches", switch), catalog.item("switches", _compared(case, switch))

    def ratio(parameter: str) -> Any:
        if any(parameter not in box for box in boxes):  # no price is known: a port costs what others do
            return 1.0
        own = case.number(("switches", switch, parameter), values)
        return own / boxes[0]["capacity"] / (boxes[1][parameter] / boxes[1]["capacity"])

    typical = {} if powers.typical_port is None else {"typical_port": ratio("typical_power")}
    return prices.times({"port": ratio("price")}), powers.times({"port": ratio("power"), **typical})


def _compared(case: Case, switch: str) -> str:
    """The switch that another one's numbers are held against: on which they are modelled, else the plan's."""
    modelled = catalog.item("switches", switch).get("modelled_on")
    return str(modelled) if modelled else link_switch(case.spec.network, case.machine.nic_Bps)


def switch_rows(switch: str) -> list[catalog.Value]:
    """Rows of the catalog that the price and power of a candidate's own switch rest on."""
    if not switch:
        return []
    box = catalog.item("switches", switch)
    return [box.row(name) for name in ("price", "power") if name in box]


def network_candidates(case: Case) -> list[Candidate]:
    """Candidates of a case: the usual ones in their order, then the spec's own in the order of their names.

    Raises UnknownName for a network that is none of the usual ones.
    """
    spec = case.spec.network
    candidates = [_candidate(case, network, about) for network, about in _usual(case)]
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
        if network.layout != PHOTONIC:
            if network.switch and switch_technology(network.switch) != case.technology:
                theirs = switch_technology(network.switch)
                raise ValueError(
                    f"network.candidate {network.name!r}: switch {network.switch} is of {theirs}, and links are "
                    f'{case.technology}: give network.technology = "{theirs}" in a spec of its own'
                )
            _ports(case, network)  # a rate that the switch lacks is a fault of the spec
        candidates.append(_candidate(case, network, f"Of your own: {network.layout}."))
    return candidates


def _usual(case: Case) -> Iterator[tuple[CandidateSpec, str]]:
    """The usual networks and what each is, those that are built more first; docs/guide/networks.md says more."""
    spec, size = case.spec.network, case.machine.hb_domain_size

    def network(name: str, layout: str, *about: str, **keys: Any) -> tuple[CandidateSpec, str]:
        return CandidateSpec.model_construct(name=name, layout=layout, **keys), " ".join(about)

    rails = f"{_rails(case)} rails, one for each NIC of a host, which spines join at full bandwidth:"
    held = "as in NVIDIA's DGX SuperPOD, against whose tables counts are held."
    yield network("rail-optimized", "rail-optimized", rails, held)
    if spec.planes > 1:
        apart = f"Rail-optimized in {spec.planes} planes that never meet, a port of every NIC in each:"
        held = "as in Alibaba's HPN and the DGX SuperPOD of B300, against whose table counts are held."
        name = f"rail-optimized, {spec.planes} planes"
        yield network(name, "rail-optimized", apart, held, planes=spec.planes)
    tree = "A fat tree over all GPUs, host by host, at full bandwidth."
    yield network("Clos", "Clos", tree, "Counts are held against published tables.")
    if spec.oversubscriptions:
        most = max(spec.oversubscriptions)
        thin = f"Rails at full bandwidth; the layer that joins them has one link out for each {most:g} into it."
        yield network(f"rails + layer {most:g}:1", "rail-optimized", thin, _UNPUBLISHED, oversubscription=most)
    for ratio in spec.oversubscriptions:
        thin = f"A fat tree whose leaves have {ratio:g} links down for each link up."
        yield network(f"Clos, leaves {ratio:g}:1", "Clos", thin, _UNPUBLISHED, oversubscription=ratio)
    alone = f"A rail for each of the {size} GPUs of an HB domain; rails never meet: the HB domain carries the rest."
    yield network("rail-only", "rail-only", alone, "DeepSeek-V3 trained on one; its eight planes have these counts.")
    if spec.planes > 1:
        apart = f"Rail-only in {spec.planes} planes that never meet. A proposal."
        yield network(f"rail-only, {spec.planes} planes", "rail-only", apart, _UNPUBLISHED, planes=spec.planes)
    if spec.radix is None and spec.switch is None and case.technology == switch_technology(LARGE_SWITCH):
        larger = "A fat tree of switches of the next generation, with twice the ports."
        guess = f"{_UNPUBLISHED} Price and power of the switch are estimates."
        yield network(f"Clos, {LARGE_SWITCH} switches", "Clos", larger, guess, switch=LARGE_SWITCH)
    light = "Rails of optical circuit switches, whose circuits change within an iteration. A proposal."
    yield network(PHOTONIC, PHOTONIC, light, _UNPUBLISHED)


def _rails(case: Case) -> int:
    """NICs of a host, each on a rail of its own where rails meet: 8 of a DGX server, 4 of a tray of an NVL72 rack."""
    return min(host_gpus(case.rack.name), case.machine.hb_domain_size)


def _ports(case: Case, network: CandidateSpec) -> int:
    """Ports of its switches at the NIC's rate. Raises ValueError for a rate that they lack."""
    return network.radix or case.ports_of(network.planes, network.switch)


@cache
def _scalable_units() -> list[dict[str, str]]:
    """How a vendor builds the rails of a platform where its switches are not filled: data/rules/scalable_units.csv."""
    return read_csv(files.data("rules/scalable_units.csv"))


def _scalable_unit(case: Case, network: CandidateSpec, gpus: int, radix: int) -> tuple[int, ...]:
    """Hosts of a leaf and leaves of a group as the vendor builds them; empty where it fills its leaves."""
    if network.rails or network.planes > 1 or network.oversubscription > 1:
        return ()
    of_platform = case.machine.hb_domain_size == case.rack_gpus
    for unit in _scalable_units() if of_platform else ():
        built = unit["platform"] == case.rack.name and int(unit["switch_ports"]) == radix
        if built and int(unit["least_gpus"]) <= gpus <= int(unit["most_gpus"]):
            return int(unit["leaf_gpus"]), int(unit["group_leaves"])
    return ()


def _candidate(case: Case, network: CandidateSpec, about: str) -> Candidate:
    """A network as a candidate."""
    box = case.machine
    links: dict[str, Any] = {"nic_Bps": box.nic_Bps, "hb_Bps": box.hb_Bps, "hb_switches": int(case.rack["hb_switches"])}
    spec = case.spec.network

    @lru_cache(maxsize=256)
    def photonic(gpus: int) -> PhotonicRails:
        return photonic_fabric(gpus, box.hb_domain_size, spec.circuit_switch, spec.nic_ports, **links)

    @lru_cache(maxsize=256)
    def fabric(gpus: int) -> RailFabric:
        radix, ratio = _ports(case, network), network.oversubscription
        rails = {"rail-optimized": network.rails or _rails(case), "Clos": 1, "rail-only": network.rails or 0}
        shape = {"rails": rails[network.layout], "planes": network.planes, "rails_per_switch": None, **links}
        if network.layout != "rail-optimized":
            ratios = (ratio,) * (ratio > 1)
            return fewest_switches(RailFabric(gpus, box.hb_domain_size, radix, tier_oversubscription=ratios, **shape))
        vendor = _scalable_unit(case, network, gpus, radix)
        full = RailFabric(gpus, box.hb_domain_size, radix, 1.0, fan_in=vendor, one_pod=True, **shape)
        if not vendor:  # rails that are less than a leaf share one where that takes fewer switches
            shared = replace(full, one_pod=False)
            full = min(map(fewest_switches, (full, shared)), key=lambda built: int(built.parts.switches))
        if ratio == 1:
            return full
        layered = replace(full, oversubscription=ratio, fan_in=(), one_pod=False)
        return layered if layered.is_oversubscribed else replace(layered, fan_in=full.fan_in)

    build = photonic if network.layout == PHOTONIC else fabric
    return Candidate(network.name, build, about, network.switch or "")
