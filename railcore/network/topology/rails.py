"""Rail fabrics: rail-only, rail-optimized, all between them, multi-plane, the fat tree as one rail."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from railcore import catalog
from railcore.catalog.arguments import (
    Count,
    Few,
    Listed,
    NonNegativeInt,
    PositiveBandwidth,
    Unbounded,
    check_gpus,
    checked,
)
from railcore.catalog.derived_fields import derive, given
from railcore.network.topology.clos import ClosLayout, Parts, Rules, clos_layout, rail_parts, rail_size

if TYPE_CHECKING:
    import networkx as nx

_GROUPS = 5  # sizes of groups that are tried, each half of the one before
_DEFAULT_PLATFORM = "DGX H100"  # of the catalog: bandwidths of a fabric that is given none


def default_bandwidth(network: str) -> float:
    """Bandwidth of a GPU of the catalog's default platform on its "hb" or "nic", one direction [bytes/s]."""
    return catalog.item("platforms", _DEFAULT_PLATFORM)[f"{network}_bandwidth"]


def domain_warnings(gpus: int, hb_domain_size: int, advice: str = "") -> tuple[str, ...]:
    """A text where GPUs do not fill HB domains (scale-up or NVLink domains), with the nearest numbers that do.

    gpus, hb_domain_size [GPUs]. advice: in place of those numbers. Empty where they fill.
    """
    full, rest = divmod(gpus, hb_domain_size)
    if not rest:
        return ()
    more = (full + 1) * hb_domain_size
    if not full:
        return (f"{gpus:,} GPUs do not fill an HB domain of {hb_domain_size:,}. {advice or f'{more:,} do.'}",)
    last = f"the last of {full + 1:,} has {rest:,}. {advice or f'{full * hb_domain_size:,} or {more:,} do.'}"
    return (f"{gpus:,} GPUs do not fill HB domains of {hb_domain_size:,}: {last}",)


@checked
@dataclass(frozen=True)
class HBDomains:
    """GPUs in HB domains (scale-up or NVLink domains); the last one may be part-filled.

    gpus: GPUs in all.
    hb_domain_size: GPUs of an HB domain; at most all GPUs.
    nic_Bps: of a GPU's NIC, one direction [bytes/s]; None: a job takes its machine's.
    hb_Bps: of a GPU into its HB domain, one direction [bytes/s]; None: a job takes its machine's.
    hb_switches: of a domain, each joining all its GPUs; 0 for a full mesh of GPUs.
    warnings: what is odd but allowed, by `domain_warnings`.

    Raises ValueError naming the argument that is out of range.
    """

    gpus: Count
    hb_domain_size: Count
    nic_Bps: PositiveBandwidth | None = field(default=None, kw_only=True)
    hb_Bps: PositiveBandwidth | None = field(default=None, kw_only=True)
    hb_switches: NonNegativeInt = field(default=1, kw_only=True)
    warnings: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size = given(self, "hb_domain_size")
        object.__setattr__(self, "warnings", domain_warnings(self.gpus, size))
        derive(self, "hb_domain_size", min(size, self.gpus))

    @property
    def nic_rate_Bps(self) -> float:
        """`nic_Bps`, or where it is not given that of the catalog's default platform [bytes/s]."""
        return default_bandwidth("nic") if self.nic_Bps is None else self.nic_Bps

    @property
    def hb_rate_Bps(self) -> float:
        """`hb_Bps`, or where it is not given that of the catalog's default platform [bytes/s]."""
        return default_bandwidth("hb") if self.hb_Bps is None else self.hb_Bps

    @property
    def domains(self) -> int:
        """HB domains, the last part-filled perhaps."""
        return math.ceil(self.gpus / self.hb_domain_size)

    @property
    def hb_bisection_Bps(self) -> float:
        """Bandwidth between the halves of an HB domain, one direction [bytes/s].

        Behind HB switches half the GPUs' HB bandwidth; in a full mesh of K GPUs what of it crosses, half of K times the
        other half of K links of hb_Bps / (K - 1).
        """
        half = self.hb_domain_size // 2
        mesh = (self.hb_domain_size - half) / max(self.hb_domain_size - 1, 1)
        return half * self.hb_rate_Bps * (1.0 if self.hb_switches else mesh)


@checked
@dataclass(frozen=True)
class RailFabric(HBDomains):
    """A cluster's scale-out network together with its HB domains (scale-up or NVLink domains).

    gpus, hb_domain_size, nic_Bps, hb_Bps, hb_switches, warnings: as in `HBDomains`.
    radix: ports of a switch at the NIC's full speed.
    oversubscription: of the any-to-any layer over the rails: math.inf is rail-only, 1 is rail-optimized.
    rails: GPU j of a domain is on rail j modulo `rails`; 0 stands for a rail for each GPU of a domain, 1 is a fat tree.
    rails_per_switch: rails that share one switch, each in a VLAN of its own (rail-only with one-switch rails); None for
        as many as fit.
    planes: networks that every NIC's ports are split over, each at 1/planes of the speed.
    tier_oversubscription: of the tiers within a rail, tier 1 first.
    fan_in: of scalable units: hosts of a leaf, leaves of a group, ... at most, tier 1 first.
    one_pod: whether blocks above the leaves hold leaves of any rails, as vendors build it, in place of pods of whole
        rails under a layer; at oversubscription 1.

    Raises ValueError naming the argument that is out of range.
    """

    radix: Listed
    oversubscription: Unbounded = math.inf
    rails: NonNegativeInt = 0
    rails_per_switch: Count | None = 1
    planes: Few = 1
    tier_oversubscription: tuple[float, ...] = ()
    fan_in: tuple[int, ...] = ()
    one_pod: bool = False
    made_by = "rail_only(gpus, hb_domain_size, radix), rail_optimized(...) or fat_tree(endpoints, radix)"

    def __post_init__(self) -> None:
        super().__post_init__()
        derive(self, "rails", min(given(self, "rails") or self.hb_domain_size, self.hb_domain_size))
        _ = self.parts

    @cached_property
    def layout(self) -> ClosLayout:
        """Tiers, pods and blocks of one plane."""
        size = int(rail_size(self.gpus, self.hb_domain_size, self.rails))
        rules = Rules(self.tier_oversubscription, self.fan_in, self.one_pod)
        ports = self.radix * self.planes
        return clos_layout(size, self.rails, ports, self.oversubscription, self.rails_per_switch, rules)

    @cached_property
    def parts(self) -> Parts:
        """Whole parts, all planes together, in closed form."""
        names = "gpus hb_domain_size radix oversubscription rails rails_per_switch planes"
        names += " tier_oversubscription fan_in one_pod"
        return rail_parts(**{name: getattr(self, name) for name in names.split()})

    @property
    def layout_name(self) -> str:
        """What it is called in tables and titles, from its rails, its layer over them and its planes."""
        planes = f", {self.planes} planes" if self.planes > 1 else ""
        if self.rails == 1:
            return f"fat tree{planes}"
        over = self.oversubscription
        return {math.inf: "rail-only", 1.0: "rail-optimized"}.get(over, f"rails under {over:g}:1") + planes

    @property
    def tiers(self) -> int:
        """Switch tiers, 0 where no link is needed."""
        return int(self.parts.tiers)

    @property
    def switches_by_tier(self) -> tuple[int, ...]:
        """Switches of each tier, the lowest first."""
        return tuple(int(count) for count in self.parts.switches_by_tier)

    @property
    def links_by_tier(self) -> tuple[int, ...]:
        """Links below each tier, all planes together."""
        return tuple(int(count) for count in self.parts.links_by_tier)

    @property
    def nic_ports(self) -> int:
        """Ports of a NIC, one for each plane."""
        return self.planes

    @property
    def homing(self) -> int:
        """Switches that the ports of a NIC are on."""
        return self.planes

    @cached_property
    def is_oversubscribed(self) -> bool:
        """Whether its oversubscription takes parts away: not where one pod or one switch joins all GPUs at full rate.

        That of the layer over the rails; without such a layer, or with a full one, that of the tiers within rails.
        """
        layered = 1 < self.oversubscription < math.inf
        full = (replace(self, oversubscription=1.0) if layered else replace(self, tier_oversubscription=())).parts
        return (self.parts.switches, self.parts.links) != (full.switches, full.links)

    @property
    def link_Bps(self) -> float:
        """Bandwidth of one link, one direction [bytes/s]."""
        return self.nic_rate_Bps / self.planes

    def block_uplinks(self, tier: int) -> float:
        """Links of one plane out of a block of a tier below the top; all its blocks have as many."""
        return float(self.links_by_tier[tier] / (float(self.layout.blocks[tier - 1]) * self.planes))

    @cached_property
    def nic_shares(self) -> tuple[float, float]:
        """Share of its NIC's bandwidth that a GPU has at worst while all GPUs send at once, flows spread evenly.

        (To a GPU of its own rail, to one of another rail; both in another HB domain, over the network alone.) At worst
        all GPUs below a block of switches send beyond it: the least, over the blocks that such routes leave, of uplinks
        / GPUs of a full block of a tier, at most 1. Routes within a rail stay in its pod. 0 where rails do not meet;
        NaN where there are no such GPUs. GPUs of different rank are of different rails, also where their rails are
        fewer.
        """
        layout, shares, gpus = self.layout, [], 1.0
        for tier in range(1, self.tiers):
            gpus *= float(layout.fan_in[tier - 1])
            shares.append(min(1.0, self.block_uplinks(tier) / gpus))
        if self.domains == 1:
            return math.nan, math.nan
        within = min(shares[: int(layout.pod_tier) - 1], default=1.0)
        if self.hb_domain_size == 1:
            return within, math.nan
        joined = self.rails == 1 or math.isfinite(self.oversubscription)
        return within, min(shares, default=1.0) if joined else 0.0

    def endpoints(self, rail: int) -> list[tuple[int, int]]:
        """(domain, rank), both from 1, of the GPUs on a rail, in the order in which leaves take them."""
        check_gpus("fabric", self.gpus)
        ranks = range(rail, self.hb_domain_size + 1, self.rails)
        last = self.gpus - (self.domains - 1) * self.hb_domain_size
        return [(d, j) for d in range(1, self.domains + 1) for j in ranks if d < self.domains or j <= last]

    def graph(self, rails: range | None = None) -> "nx.Graph":
        """The fabric as a networkx graph; see `railcore.network.topology.graph.build_graph`."""
        from railcore.network.topology.graph import build_graph

        return build_graph(self, rails)

    @checked
    def with_layer(self, oversubscription: Unbounded) -> "RailFabric":
        """The same cluster with another any-to-any layer over its rails."""
        one_pod = self.one_pod and oversubscription == 1
        return replace(self, oversubscription=oversubscription, rails_per_switch=1, one_pod=one_pod)


def fewest_switches(fabric: RailFabric) -> RailFabric:
    """The fabric with groups of as many leaves as take the fewest switches, then the fewest links.

    As few groups as possible leave ports of their spines free where leaves do not divide them: 33 leaves below 64 ports
    take half of each. Smaller groups, of powers of 2, have several links to each spine. One group or tier stays as it
    is.
    """
    if fabric.tiers < 3:
        return fabric
    ports = fabric.radix * fabric.planes
    sizes = [ports // 2**step for step in range(1, _GROUPS + 1) if ports // 2**step >= 2]
    tried = [fabric, *(replace(fabric, fan_in=(ports, size)) for size in sizes)]
    return min(tried, key=lambda one: (int(one.parts.switches), int(one.parts.links)))


def rail_only(gpus: int, hb_domain_size: int, radix: int, **options: Any) -> RailFabric:
    """A rail-only network: rails without any layer over them.

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch.
    options
        Other fields of `RailFabric`, such as rails, planes, nic_Bps; `with_layer(4)` of the fabric has a 4:1 layer.

    Returns
    -------
    The fabric.

    References
    ----------
    railonly2023, section 3.1; railonly2025, Architecture Design.

    Examples
    --------
    >>> import railcore as rc
    >>> fabric = rc.rail_only(gpus=16384, hb_domain_size=8, radix=64, nic_Bps="400 Gbps")
    >>> fabric.rails, fabric.tiers, int(fabric.parts.switches)
    (8, 2, 768)
    """
    return RailFabric(gpus, hb_domain_size, radix, math.inf, **options)


def rail_optimized(gpus: int, hb_domain_size: int, radix: int, **options: Any) -> RailFabric:
    """A rail-optimized network: rails under a full-bisection any-to-any Clos.

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch.
    options
        Other fields of `RailFabric`.

    Returns
    -------
    The fabric.

    References
    ----------
    railonly2023, 2.1; railonly2025, Interplatform Connectivity.

    Examples
    --------
    >>> import railcore as rc
    >>> fabric = rc.rail_optimized(gpus=16384, hb_domain_size=8, radix=64)
    >>> fabric.tiers, int(fabric.parts.switches)
    (3, 1280)
    """
    return RailFabric(gpus, hb_domain_size, radix, 1.0, **options)


@checked
def fat_tree(endpoints: Count, radix: Listed, hb_domain_size: Count = 1, **options: Any) -> RailFabric:
    """A fat tree (Clos) over all endpoints in the order of their domains: top-of-rack, aggregation, spine.

    Parameters
    ----------
    endpoints
        GPUs or servers.
    radix
        Ports of a switch.
    hb_domain_size
        GPUs of an HB domain; 1 for servers.
    options
        Other fields of `RailFabric`.

    Returns
    -------
    The fabric.

    Examples
    --------
    >>> import railcore as rc
    >>> clos = rc.fat_tree(8192, radix=64, hb_domain_size=8, tier_oversubscription=(4,))
    >>> clos.tiers, int(clos.parts.switches)
    (3, 278)
    """
    return RailFabric(endpoints, hb_domain_size, radix, math.inf, rails=1, **options)
