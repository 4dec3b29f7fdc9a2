"""BGP of an address plan: AS numbers, neighbours, and how many routes each switch holds.

Rail switches advertise what they originate and carry no one else's routes. With summaries a rail switch advertises its
unit's one route, and spines under super-spines advertise their pod's one route upwards. A summary hides a lost subnet:
packets to it are dropped where it is summarised.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.deployment.subnets import AddressPlan
from railcore.facts.arguments import checked
from railcore.facts.checks import one_of, whole
from railcore.facts.units import counted

PRIVATE_ASNS = ((64512, 65534), (4200000000, 4294967294))  # of 2 and of 4 bytes: RFC 6996
CONTROL_PLANES = ("eBGP", "BGP EVPN")
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
    summarised: whether units and pods advertise summaries.

    Raises ValueError naming what does not fit, and what would.
    """

    plan: AddressPlan
    control_plane: str = "eBGP"
    first_asn: int = 0
    summarised: bool = True

    def __post_init__(self) -> None:
        one_of("control_plane", self.control_plane, CONTROL_PLANES)
        object.__setattr__(self, "first_asn", self._checked_first())

    def _checked_first(self) -> int:
        fabric = self.plan.fabric
        count = bool(fabric.super_spines) + fabric.pods * bool(fabric.spines) + fabric.switches_by_tier[0]
        rooms = [last - first + 1 for first, last in PRIVATE_ASNS]
        if not self.first_asn:
            return PRIVATE_ASNS[count > rooms[0]][0]
        first = int(whole("first_asn", self.first_asn))
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
    def route_counts(self) -> pd.DataFrame:
        """Routes that a switch of each tier holds.

        Columns role, subnets_without_summaries (all of the fabric, its own too), subnets_with_summaries, loopbacks.
        """
        plan, fabric = self.plan, self.plan.fabric
        own, others = plan.subnets_of_unit, fabric.pods - 1
        table = pd.DataFrame({"role": ROLES[: fabric.tiers]})
        if not fabric.spines:
            return table.assign(subnets_without_summaries=own, subnets_with_summaries=own, loopbacks=1)
        units = fabric.segments * plan.units_of_segment
        aggregate, pod_summary = int(own > 1), int(fabric.super_spines > 0 and units > 1)
        table["subnets_without_summaries"] = len(plan.subnets)
        summarised = (own + aggregate + units - 1 + others, units + pod_summary + others, fabric.pods)
        table["subnets_with_summaries"] = summarised[: fabric.tiers]
        return table.assign(loopbacks=len(self.switches))
