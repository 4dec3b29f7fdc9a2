"""Designs from what is asked: sized, addressed, priced; one that cannot be built is named with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from railcore.catalog.arguments import Listed, checked
from railcore.catalog.units import counted, significant
from railcore.deploy.cabling import Floor, rail_link_lengths
from railcore.network.bill import bill_total
from railcore.network.price_books import ItemBook
from suite.deployment.cables import CABLE_KINDS
from suite.deployment.part_counts import bill_of_parts, cost_of_parts, design_parts
from suite.deployment.routing import BgpDesign
from suite.deployment.segment_sizing import SegmentDemand, SegmentSizing, smallest_segment_fabric
from suite.deployment.segments import SegmentFabric, rails_name
from suite.deployment.subnets import AddressPlan, bundling_warnings
from suite.deployment.switch_configs import check_exportable


@dataclass(frozen=True)
class BuiltDesign:
    """A design as it is bought and deployed: the smallest fabric for a demand, its addresses, parts and prices.

    lengths_m: longest cable of each kind.
    parts: of `design_parts`.
    bought: with prices, of `cost_of_parts`.
    with_spines: the same demand with rails that meet in the network, None where no such fabric is to be had.
    """

    sizing: SegmentSizing
    bgp: BgpDesign
    lengths_m: dict[str, float]
    parts: pd.DataFrame
    bought: pd.DataFrame
    with_spines: "BuiltDesign | None" = None

    @property
    def asked(self) -> int:
        """GPUs asked for."""
        return self.sizing.demand.gpus

    @property
    def plan(self) -> AddressPlan:
        """Its addresses, for the servers asked for, not for all that the fabric could hold."""
        return self.bgp.plan

    @property
    def fabric(self) -> SegmentFabric:
        """Its switches and links."""
        return self.sizing.fabric

    @property
    def name(self) -> str:
        """Such as dual-rail."""
        return rails_name(self.fabric.rails_per_switch, self.fabric.rails)

    @property
    def rails_apart(self) -> bool:
        """Whether rails meet in no switch, but in the servers alone."""
        return not self.fabric.spines and self.fabric.rails_per_switch < self.fabric.rails

    @property
    def spare_gpus(self) -> int:
        """GPUs that the fabric could hold beyond those in use."""
        return self.fabric.gpus - self.plan.gpus

    @property
    def cost_per_gpu_usd(self) -> float:
        """Cost of all parts over the GPUs in use [USD]."""
        return float(self.bought["cost_usd"].sum()) / self.plan.gpus

    @property
    def power_per_gpu_w(self) -> float:
        """Maximum power of switches and transceivers over the GPUs in use [W]."""
        return self._power_w("power") / self.plan.gpus

    @property
    def typical_power_per_gpu_w(self) -> float:
        """Typical power of switches and transceivers over the GPUs in use [W]."""
        return self._power_w("typical_power") / self.plan.gpus

    def _power_w(self, what: str) -> float:
        return float(bill_total(bill_of_parts(self.parts), ItemBook(what)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the design."""
        named = f"{self.name} for {self.asked:,} GPUs"
        texts = [*bundling_warnings(self.plan), *(f"{named}: {text}" for text in self.bgp.warnings)]
        if self.spare_gpus:
            texts.append(
                f"{named}: segments of one size have room for {self.fabric.gpus:,}. The "
                f"places of {counted(self.spare_gpus, 'GPUs')} stay empty: no NICs, cables or addresses are counted "
                "for them, but their switch ports are bought."
            )
        return tuple(texts)


def design_lengths(fabric: SegmentFabric, floor: Floor, servers_per_rack: Listed) -> dict[str, float]:
    """Longest cable of each kind of a fabric on a floor of racks [m]: host, spine, super-spine.

    Switches stand in the middle of what they join, as of `cabling.rail_link_lengths`.
    """
    racks = -(-fabric.domains // servers_per_rack)
    blocks = (fabric.servers, fabric.servers * fabric.segments)[: fabric.tiers - 1]
    lengths = rail_link_lengths(floor, racks, servers_per_rack, blocks)
    return {kind: float(levels[-1]) for kind, levels in zip(CABLE_KINDS, lengths, strict=False)}


@checked
def build_design(
    demand: SegmentDemand,
    floor: Floor,
    servers_per_rack: Listed = 4,
    addresses: Mapping = {},
    sessions: Mapping = {},
) -> BuiltDesign:
    """The smallest fabric for a demand, with its addresses, the parts that it takes and what they cost.

    Parameters
    ----------
    demand
        GPUs and switches.
    floor, servers_per_rack
        Where racks stand, for the lengths of cables.
    addresses, sessions
        Arguments of `AddressPlan`, such as bundling and pool, and of `BgpDesign`, such as first_asn and summarised. The
        control plane is by default that which the bundling takes.

    Returns
    -------
    The design.

    Raises
    ------
    ValueError
        No such fabric, addresses that do not fit, a part without price, or what cannot be exported.
    """
    sizing = smallest_segment_fabric(demand)
    plan = AddressPlan(sizing.fabric, servers=demand.servers, **addresses)
    default = {"control_plane": "BGP EVPN" if plan.bundling == "evpn" else "eBGP"}
    bgp = BgpDesign(plan, **{**default, **{name: value for name, value in sessions.items() if value}})
    check_exportable(bgp)
    lengths_m = design_lengths(sizing.fabric, floor, servers_per_rack)
    parts = design_parts(plan, lengths_m)
    built = BuiltDesign(sizing, bgp, lengths_m, parts, cost_of_parts(parts))
    if not built.rails_apart:
        return replace(built, with_spines=built)
    try:
        joined = build_design(replace(demand, rails_apart=False), floor, servers_per_rack, addresses, sessions)
    except ValueError:
        return built
    return replace(built, with_spines=joined)


def build_designs(
    gpus: Sequence,
    rails_per_switch: Sequence,
    needs: Mapping,
    floor: Floor,
    **options: object,
) -> tuple[list[BuiltDesign], pd.DataFrame]:
    """A design for each number of GPUs and of rails per switch, and those that cannot be built.

    Parameters
    ----------
    gpus, rails_per_switch
        One or more of each; what is named twice is built once.
    needs
        Other arguments of `SegmentDemand`.
    floor
        Where racks stand.
    **options
        Of `build_design`.

    Returns
    -------
    The designs, and a table of those that cannot be: columns asked, design, why.

    Raises
    ------
    ValueError
        None can be built: the reason of the first.
    """
    built, refused = [], []
    for count in dict.fromkeys(gpus):
        for rails in dict.fromkeys(rails_per_switch):
            try:
                demand = SegmentDemand(count, rails_per_switch=rails, **needs)
                built.append(build_design(demand, floor, **options))  # type: ignore[arg-type]
            except ValueError as error:
                refused.append((count, rails_name(rails, needs.get("gpus_per_server", 8)), str(error)))
    table = pd.DataFrame(refused, columns="asked design why".split())
    if not built:
        empty = f"gpus is {list(gpus)}, rails_per_switch {list(rails_per_switch)}: give one or more of each"
        raise ValueError(f"no design can be built; {refused[0][1]}: {refused[0][2]}" if refused else empty)
    return built, table


def designs_sizing(built: Sequence[BuiltDesign], refused: pd.DataFrame) -> pd.DataFrame:
    """What each design is made of, a row for each, and why; those that cannot be built have their reason alone."""
    rows = []
    for design in built:
        row = {"asked": design.asked, "design": design.name, **design.sizing.counts, "gpus": design.plan.gpus}
        rows.append(row | {"spare_gpus": design.spare_gpus, "why": "; ".join(design.sizing.reasons)})
    table = pd.DataFrame(rows)
    table.insert(3, "spare_gpus", table.pop("spare_gpus"))
    if refused.empty:
        return table
    return pd.concat([table, refused]).sort_values("asked", kind="stable", ignore_index=True)


def design_cost_by_part(built: BuiltDesign) -> pd.Series:
    """Cost of a design's parts over the GPUs in use [USD], by part in words, such as "spines"."""
    words = {
        **{("switches", role): f"{role}es" if role.endswith("switch") else f"{role}s" for role in built.parts["where"]},
        **{("links", kind): f"links to {kind}s" for kind in CABLE_KINDS},
        ("NICs", "servers"): "NICs",
    }
    costs = built.bought.groupby(["part", "where"], sort=False)["cost_usd"].sum() / built.plan.gpus
    return costs.rename(index=None).set_axis([words[at] for at in costs.index])


def largest_cost_difference(one: BuiltDesign, other: BuiltDesign) -> tuple[str, float]:
    """The part whose cost a GPU differs most between two designs, in words, and how much more the other's costs."""
    difference = design_cost_by_part(other).sub(design_cost_by_part(one), fill_value=0.0)
    part = difference.abs().map(significant).idxmax()
    return str(part), float(difference[part])
