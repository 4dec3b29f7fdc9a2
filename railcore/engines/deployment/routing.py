"""BGP of an address plan: AS numbers, neighbours, what each switch advertises, routes it holds, and its tables.

Rail switches advertise what they originate and carry no one else's routes. With summaries a rail switch advertises its
unit's one route, and spines under super-spines advertise their pod's one route upwards. A summary hides a lost subnet:
packets to it are dropped where it is summarised.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.deployment.subnets import AddressPlan
from railcore.engines.deployment.summaries import summary_check
from railcore.facts.arguments import checked
from railcore.facts.checks import one_of, whole
from railcore.facts.units import counted

PRIVATE_ASNS = ((64512, 65534), (4200000000, 4294967294))  # of 2 and of 4 bytes: RFC 6996
BGP_CONTROL_PLANES = ("eBGP", "iBGP", "BGP EVPN")
ROLES = ("rail switch", "spine", "super-spine")
UNICAST, EVPN = "ipv4 unicast", "l2vpn evpn"
SELF = "0.0.0.0"  # next hop of what a switch originates itself


def lacks_evpn(data_plane: str, control_plane: str) -> bool:
    """Whether VXLAN tunnels have nobody who tells them which addresses are behind which switch: BGP EVPN does."""
    return data_plane == "VXLAN" and control_plane != "BGP EVPN"


@checked
@dataclass(frozen=True)
class BgpDesign:
    """Who speaks BGP with whom over an address plan.

    control_plane: "eBGP" has a session on every routed link. "iBGP" has one AS and sessions between loopbacks, which an
        interior routing protocol joins; spines reflect routes to rail switches, super-spines to spines. "BGP EVPN" is
        eBGP with EVPN sessions between loopbacks beside it.
    leaf_asns: "each" rail switch its own, or "unit", those that bundle the same NICs one.
    spine_asns: "pod" gives the spines of a pod one, so that no path goes down and up again; "each" spine its own.
        Super-spines have one together.
    first_asn: of the numbers, super-spines first, then spines, then rail switches; by default the first private one of
        2 bytes where these suffice, else of 4 bytes.
    summarised: whether units and pods advertise summaries.

    Raises ValueError naming what does not fit, and what would.
    """

    plan: AddressPlan
    control_plane: str = "eBGP"
    leaf_asns: str = "each"
    spine_asns: str = "pod"
    first_asn: int = 0
    summarised: bool = True

    def __post_init__(self) -> None:
        one_of("control_plane", self.control_plane, BGP_CONTROL_PLANES)
        one_of("leaf_asns", self.leaf_asns, ("each", "unit"))
        one_of("spine_asns", self.spine_asns, ("pod", "each"))
        object.__setattr__(self, "first_asn", self._checked_first())

    @property
    def is_internal(self) -> bool:
        """Whether all switches are of one AS."""
        return self.control_plane == "iBGP"

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """AS numbers of super-spines, spines and rail switches."""
        fabric = self.plan.fabric
        if self.is_internal:
            return 0, 0, 1
        leaves, spines, tops = (*fabric.switches_by_tier, 0, 0)[:3]
        units = fabric.pods * fabric.segments * self.plan.units_of_segment
        of_spines = fabric.pods * bool(spines) if self.spine_asns == "pod" else spines
        return int(bool(tops)), of_spines, leaves if self.leaf_asns == "each" else units

    def _checked_first(self) -> int:
        count = sum(self._counts)
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
        """The plan's switches with role, asn and reflects (whether it reflects routes to the tier below)."""
        table, (tops, spines, _), first = self.plan.switches.copy(), self._counts, self.first_asn
        tier = table["tier"].to_numpy()
        asn: Any = np.full(len(table), first)
        if not self.is_internal:
            each = table["pod"] - 1 if self.spine_asns == "pod" else np.arange(len(table)) - (tier == 1).sum()
            leaf = pd.factorize(table["unit"])[0] if self.leaf_asns == "unit" else np.arange(len(table))
            asn = np.select([tier == 1, tier == 2], [first + tops + spines + leaf, first + tops + each], first)
        table.insert(1, "role", np.array(ROLES, dtype=object)[tier - 1])
        table["asn"] = asn
        table["reflects"] = self.is_internal & (tier > 1)
        return table

    @cached_property
    def asns(self) -> dict[str, int]:
        """AS number by switch."""
        return dict(zip(self.switches["switch"], self.switches["asn"].tolist(), strict=True))

    @cached_property
    def neighbours(self) -> pd.DataFrame:
        """Every session, a row for each end.

        Columns switch, asn, address, neighbour, neighbour_asn, neighbour_address, session (link or loopback), family,
        kind (external or internal), client (whether the switch reflects routes to this neighbour).
        """
        links = self.plan.trunks[self.plan.trunks["kind"] == "trunk"].drop_duplicates("subnet")
        frames = [] if self.is_internal else [self._sessions(links, "link", UNICAST)]
        if self.control_plane != "eBGP":
            loopbacks = dict(zip(self.switches["switch"], self.switches["loopback"], strict=True))
            pairs = links.drop_duplicates(["switch", "peer"])
            pairs = pairs.assign(address=pairs["switch"].map(loopbacks), peer_address=pairs["peer"].map(loopbacks))
            frames.append(self._sessions(pairs, "loopback", UNICAST if self.is_internal else EVPN))
        return pd.concat(frames, ignore_index=True)

    def _sessions(self, links: pd.DataFrame, session: str, family: str) -> pd.DataFrame:
        ends = []
        for name, address in (("switch", "address"), ("peer", "peer_address")):
            ends += [links[name].to_numpy(), links[name].map(self.asns).to_numpy(), links[address].to_numpy()]
        columns = "switch asn address neighbour neighbour_asn neighbour_address".split()
        both = [np.concatenate([one, two]) for one, two in zip(ends, ends[3:] + ends[:3], strict=True)]
        table = pd.DataFrame(dict(zip(columns, both, strict=True)))
        table["session"], table["family"] = session, family
        table["kind"] = np.where(table["asn"] == table["neighbour_asn"], "internal", "external")
        table["client"] = self.is_internal & (np.arange(len(table)) >= len(links))
        return table

    @cached_property
    def advertised(self) -> pd.DataFrame:
        """What each switch originates: columns switch, prefix, origin, to, subnets, valid.

        origin: subnet, summary or loopback. to: the tier that it goes to first. valid: no other unit or pod has a
        summary that overlaps it.
        """
        table, fabric = self.switches, self.plan.fabric
        frames = [_originated(table["switch"], table["loopback"] + "/32", "loopback", "all", 0)]
        leaves, spines = (table[table["tier"] == tier] for tier in (1, 2))
        if fabric.spines and self.summarised and self.plan.subnets_of_unit > 1:
            frames.append(self._summaries_of(leaves["switch"], leaves["unit"], "spines"))
        elif fabric.spines:
            own = leaves[["switch", "unit"]].merge(self.plan.subnets[["unit", "subnet"]], on="unit", sort=False)
            frames.append(_originated(own["switch"], own["subnet"], "subnet", "spines", 1))
        if self.summarised and fabric.super_spines:
            frames.append(self._summaries_of(spines["switch"], "Pod" + spines["pod"].astype(str), "super-spines"))
        return pd.concat(frames, ignore_index=True)

    def _summaries_of(self, switch: pd.Series, name: pd.Series, to: str) -> pd.DataFrame:
        rows = self.plan.summaries.set_index("name").loc[name]
        return _originated(switch, rows["summary"], "summary", to, rows["subnets"], rows["valid"])

    @cached_property
    def route_counts(self) -> pd.DataFrame:
        """Routes that each switch holds.

        Columns switch, role, connected (subnets of its own NICs), subnets_without_summaries (all of the fabric, its own
        too), subnets_with_summaries, loopbacks, links (routed ones of its own), sessions.
        """
        plan, fabric = self.plan, self.plan.fabric
        units = fabric.segments * plan.units_of_segment
        own, every = plan.subnets_of_unit, len(plan.subnets)
        if not fabric.spines:
            every = own
        aggregate, pod_summary = int(own > 1), int(fabric.super_spines > 0 and units > 1)
        others = fabric.pods - 1
        summarised = {1: own + aggregate + units - 1 + others, 2: units + pod_summary + others, 3: fabric.pods}
        table = self.switches[["switch", "role"]].copy()
        tier = self.switches["tier"]
        table["connected"] = np.where(tier == 1, own, 0)
        table["subnets_without_summaries"] = every
        table["subnets_with_summaries"] = tier.map(summarised) if fabric.spines else own
        table["loopbacks"] = len(table) if fabric.spines else 1
        routed = plan.trunks[plan.trunks["kind"] == "trunk"].drop_duplicates("subnet")
        ends = pd.concat([routed["switch"], routed["peer"]]).value_counts()
        table["links"] = table["switch"].map(ends).fillna(0).astype(int)
        sessions = self.neighbours["switch"].value_counts()
        table["sessions"] = table["switch"].map(sessions).fillna(0).astype(int)
        return table

    def leaf_tables(self, switch: str, aggregate: str = "", learned: bool = False) -> pd.DataFrame:
        """RIB, BGP's Loc-RIB and Adj-RIB-Out of a rail switch, for the subnets of NICs.

        Parameters
        ----------
        switch
            Name of a rail switch, such as "Pod1.Seg1.Leaf1".
        aggregate
            Summary of one's own in place of its unit's.
        learned
            Whether routes to other units are listed too, a row for each neighbour that they come from. With iBGP the
            next hop is the loopback of the first switch that has them.

        Returns
        -------
        Columns table, prefix, source (connected, summary or bgp), out (VLAN or neighbour), next_hop ("" where it is
        directly connected), as_path, valid and reason (of a summary, beside all subnets of other units).

        Raises
        ------
        ValueError
            No rail switch has this name, or the aggregate is no network.
        """
        leaves = self.switches[self.switches["tier"] == 1].set_index("switch")
        if switch not in leaves.index:
            names = leaves.index
            raise ValueError(f"switch is {switch!r}: give a rail switch, {names[0]} to {names[-1]}")
        unit, plan = leaves.loc[switch, "unit"], self.plan
        mine = plan.subnets["unit"] == unit
        own = plan.subnets[mine]
        rows: list[tuple] = []

        def add(table: str, prefix: str, source: str, out: str, hop: str, path: str = "") -> None:
            rows.append((table, prefix, source, out, hop, path))

        vlans = [f"VLAN {vlan}" for vlan in own["vlan"]]
        for prefix, vlan in zip(own["subnet"], vlans, strict=True):
            add("RIB", prefix, "connected", vlan, "")
            add("Loc-RIB", prefix, "connected", vlan, SELF)
        summary = aggregate or plan.summaries.set_index("name").loc[unit, "summary"]
        send = [(prefix, "connected") for prefix in own["subnet"]]
        to = self.neighbours[(self.neighbours["switch"] == switch) & (self.neighbours["family"] == UNICAST)]
        if aggregate or (self.summarised and len(own) > 1 and len(to)):
            add("Loc-RIB", summary, "summary", "", SELF)
            send = [(summary, "summary")]
        if learned:
            for prefix, hop, out, path in self._learned(switch, unit, to):
                add("RIB", prefix, "bgp", out, hop)
                add("Loc-RIB", prefix, "bgp", out, hop, path)
        path = "" if self.is_internal else str(self.asns[switch])
        for prefix, source in send:
            for peer, address in zip(to["neighbour"], to["address"], strict=True):
                add("Adj-RIB-Out", prefix, source, peer, address, path)
        table = pd.DataFrame(rows, columns="table prefix source out next_hop as_path".split())
        check = summary_check(summary, own["subnet"], plan.subnets.loc[~mine, "subnet"])
        is_summary = table["source"] == "summary"
        table["valid"] = ~is_summary | check.valid
        table["reason"] = np.where(is_summary, check.reason, "")
        order = {name: n for n, name in enumerate(("RIB", "Loc-RIB", "Adj-RIB-Out"))}
        return table.sort_values("table", key=lambda names: names.map(order), kind="stable", ignore_index=True)

    def _learned(self, switch: str, unit: str, to: pd.DataFrame) -> Iterable[tuple[str, str, str, str]]:
        """(prefix, next hop, neighbour, AS path) of the routes to other units and, with summaries, to other pods."""
        plan, table = self.plan, self.switches
        first = table[table["tier"] == 1].drop_duplicates("unit").set_index("unit")
        spine = table[table["tier"] == 2].drop_duplicates("pod").set_index("pod")
        tops, home = table.loc[table["tier"] == 3, "asn"].tolist()[:1], first.loc[unit, "pod"]
        summaries, found = plan.summaries.set_index("name")["summary"], []
        for other, row in first.iterrows():
            if other == unit or (self.summarised and row["pod"] != home):
                continue
            beyond = [] if row["pod"] == home else [*tops, spine.loc[row["pod"], "asn"]]
            whole_unit = self.summarised and plan.subnets_of_unit > 1
            prefixes = [summaries[other]] if whole_unit else plan.subnets.loc[plan.subnets["unit"] == other, "subnet"]
            found += [(prefix, [*beyond, row["asn"]], row["loopback"]) for prefix in prefixes]
        for pod, row in spine.iterrows() if self.summarised else ():
            if pod != home:
                found.append((summaries[f"Pod{pod}"], [*tops, row["asn"]], row["loopback"]))
        for prefix, end, loopback in found:
            for peer, address, asn in zip(to["neighbour"], to["neighbour_address"], to["neighbour_asn"], strict=True):
                path = "" if self.is_internal else " ".join(map(str, [asn, *end]))
                yield prefix, loopback if self.is_internal else address, peer, path


def _originated(switch: Any, prefix: Any, origin: str, to: str, subnets: Any, valid: Any = True) -> pd.DataFrame:
    table = pd.DataFrame({"switch": np.asarray(switch), "prefix": np.asarray(prefix), "origin": origin, "to": to})
    return table.assign(subnets=np.asarray(subnets), valid=np.asarray(valid))
