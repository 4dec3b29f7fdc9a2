"""BGP of an address plan: AS numbers, neighbours, and how many routes each switch holds.

Rail switches advertise what they originate and carry no one else's routes. With summaries a rail switch advertises its
unit's one route, and spines under super-spines advertise their pod's one route upwards. A pod's summary hides a rail
switch that its spine has lost: packets to it are dropped there. A unit's hides nothing that another switch could reach.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from railcore.catalog.arguments import NonNegativeInt, checked
from railcore.catalog.derived_fields import derive, given
from railcore.catalog.units import counted
from suite.deployment.subnets import AddressPlan

PRIVATE_ASNS = ((64512, 65534), (4200000000, 4294967294))  # of 2 and of 4 bytes: RFC 6996
ROLES = ("rail switch", "spine", "super-spine")
UNICAST, EVPN = "ipv4 unicast", "l2vpn evpn"


@checked
@dataclass(frozen=True)
class BgpDesign:
    """Who speaks BGP with whom over an address plan.

    control_plane: "eBGP" has a session on every routed link; "BGP EVPN" has EVPN sessions between loopbacks beside it.
    first_asn: of the AS numbers, super-spines first, which have one together, then spines, one for those of a pod, so
        that no path goes down and up again, then rail switches, one each. By default the first private one of 2 bytes
        where these suffice, else of 4 bytes.
    summarised: whether units and pods advertise summaries. Under super-spines they save routes (`route_counts`), but
        flows are lost while a link between rail switch and spine is cut (`flows_lost`, `warnings`).

    Raises ValueError naming what does not fit, and what would.
    """

    plan: AddressPlan
    control_plane: Literal["eBGP", "BGP EVPN"] = "eBGP"
    first_asn: NonNegativeInt = 0
    summarised: bool = False

    def __post_init__(self) -> None:
        derive(self, "first_asn", self._checked_first(given(self, "first_asn")))

    def _checked_first(self, asked: int) -> int:
        fabric = self.plan.fabric
        count = bool(fabric.super_spines) + fabric.pods * bool(fabric.spines) + fabric.switches_by_tier[0]
        rooms = [last - first + 1 for first, last in PRIVATE_ASNS]
        if not asked:
            return PRIVATE_ASNS[count > rooms[0]][0]
        first = int(asked)
        for low, high in PRIVATE_ASNS:
            if low <= first and first + count - 1 <= high:
                return first
        fits = " or ".join(f"{low} to {high - count + 1}" for low, high in PRIVATE_ASNS if low + count - 1 <= high)
        raise ValueError(
            f"first_asn is {first}: {counted(count, 'AS numbers')} from there leave the private ones: give {fits}"
        )

    @cached_property
    def switches(self) -> pd.DataFrame:
        """The plan's switches with role and asn."""
        table, fabric = self.plan.switches.copy(), self.plan.fabric
        tier = table["tier"].to_numpy()
        spines = self.first_asn + bool(fabric.super_spines)
        leaves = spines + fabric.pods * bool(fabric.spines) + np.arange(len(table))
        table.insert(1, "role", np.array(ROLES, dtype=object)[tier - 1])
        table["asn"] = np.select([tier == 1, tier == 2], [leaves, spines + table["pod"] - 1], self.first_asn)
        return table

    @cached_property
    def asns(self) -> dict[str, int]:
        """AS number by switch."""
        return dict(zip(self.switches["switch"], self.switches["asn"].tolist(), strict=True))

    @cached_property
    def neighbours(self) -> pd.DataFrame:
        """Every session, a row for each end.

        Columns switch, asn, address, neighbour, neighbour_asn, neighbour_address, session (link or loopback), family.
        """
        links = self.plan.trunks[self.plan.trunks["kind"] == "trunk"].drop_duplicates("subnet")
        frames = [self._sessions(links, "link", UNICAST)]
        if self.control_plane == "BGP EVPN":
            loopbacks = dict(zip(self.switches["switch"], self.switches["loopback"], strict=True))
            pairs = links.drop_duplicates(["switch", "peer"])
            pairs = pairs.assign(address=pairs["switch"].map(loopbacks), peer_address=pairs["peer"].map(loopbacks))
            frames.append(self._sessions(pairs, "loopback", EVPN))
        return pd.concat(frames, ignore_index=True)

    def _sessions(self, links: pd.DataFrame, session: str, family: str) -> pd.DataFrame:
        ends: list[Any] = []
        for name, address in (("switch", "address"), ("peer", "peer_address")):
            ends += [links[name].to_numpy(), links[name].map(self.asns).to_numpy(), links[address].to_numpy()]
        columns = "switch asn address neighbour neighbour_asn neighbour_address".split()
        both = [np.concatenate([one, two]) for one, two in zip(ends, ends[3:] + ends[:3], strict=True)]
        return pd.DataFrame(dict(zip(columns, both, strict=True))).assign(session=session, family=family)

    @property
    def flows_lost(self) -> float:
        """Share of the flows from other pods to a rail switch that are lost while its links to one spine are cut.

        For as long as they are cut, not the seconds in which BGP finds other paths. Each of S spines carries 1 / S of
        the flows: all are lost with S = 1, else those of the spine where a pod's summary hides the cut. None are where
        the spine reaches another switch that bundles the same NICs.
        """
        fabric = self.plan.fabric
        if not fabric.spines or (self.plan.is_bundled and fabric.homing > 1):
            return 0.0
        return 1 / fabric.spines if self._hides_cuts or fabric.spines == 1 else 0.0

    @property
    def _hides_cuts(self) -> bool:
        """Whether super-spines learn one summary for several units of a pod."""
        units = self.plan.fabric.segments * self.plan.units_of_segment
        return self.summarised and self.plan.fabric.pods > 1 and units > 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: flows that summaries of pods lose, and the routes that they save."""
        plan, spines = self.plan, self.plan.fabric.spines
        if not self._hides_cuts or spines == 1:
            return ()
        pair = plan.is_bundled and plan.fabric.homing > 1
        cut = f"all {plan.fabric.homing} rail switches that bundle the same NICs" if pair else "a rail switch"
        held = ", ".join(
            f"a {row.role} {row.subnets_without_summaries:,} in place of {row.subnets_with_summaries:,}"
            for row in self.route_counts.itertuples()
        )
        return (
            f"summarised is True: a spine whose links to {cut} are cut still announces its pod's summary. 1 in "
            f"{spines} of the flows from other pods to the NICs there is lost until a link is mended. Give summarised "
            f"False, and BGP finds other paths. What it takes is routes to NICs: {held}.",
        )

    @property
    def route_counts(self) -> pd.DataFrame:
        """Routes that a switch of each tier holds.

        Columns role, subnets_without_summaries (all of the fabric, its own too), subnets_with_summaries, loopbacks.
        """
        plan, fabric = self.plan, self.plan.fabric
        unit_routes, others = plan.subnets_of_unit, fabric.pods - 1
        table = pd.DataFrame({"role": ROLES[: fabric.tiers]})
        if not fabric.spines:
            return table.assign(subnets_without_summaries=unit_routes, subnets_with_summaries=unit_routes, loopbacks=1)
        units = fabric.segments * plan.units_of_segment
        aggregate, pod_summary = int(unit_routes > 1), int(fabric.super_spines > 0 and units > 1)
        table["subnets_without_summaries"] = len(plan.subnets)
        summarised = (unit_routes + aggregate + units - 1 + others, units + pod_summary + others, fabric.pods)
        table["subnets_with_summaries"] = summarised[: fabric.tiers]
        return table.assign(loopbacks=len(self.switches))
