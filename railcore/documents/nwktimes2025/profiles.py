"""The profiles of Fig. 13-13: which values the document names for each field, and those of its multi-pod design."""

from dataclasses import replace

import pandas as pd

from railcore.engines.deployment.profiles import (
    FabricProfiles,
    GlobalAIFabricProfile,
    GpuIoTopology,
    RailSwitchFabricProfile,
    SpineSwitchProfile,
    SuperSpineSwitchProfile,
    build_fabric,
    profile_breaks,
    profile_table,
)
from railcore.engines.deployment.segments import SegmentFabric
from railcore.network.switches import switch_model

HOST_PORT, OTHER_HOST_PORT = "100 Gbps", "200 Gbps"  # of Fig. 13-8, and of Fig. 13-7
SWITCH = "51.2T"  # of the catalog, with ports of 800 Gbps as in Fig. 13-8; the document names no model
_NAMED = {  # by field, what the text lets an engineer choose from
    "hosts": "multiple",
    "gpus_per_nic": "dedicated or shared NIC",
    "nic_ports": "single, dual, quad",
    "port": "100, 200, 400 Gbps",
    "interconnect": "InfiniBand, RoCEv2, NVLink",
    "rails_per_switch": "one, two, or more",
    "queues": "RoCEv2 to its queue",
    "segments": "n",
    "control_plane": "eBGP, iBGP, BGP EVPN",
    "data_plane": "Ethernet, VXLAN",
    "ecmp": "flow-based, flowlet-based, per-packet",
    "congestion_control": "ECN marking, PFC",
    "bfd": "global setting",
    "mtu": "global setting",
}


def document_profiles(host_port: str = HOST_PORT) -> FabricProfiles:
    """Profiles of the multi-pod design of Fig. 13-7 to 13-9: two pods of two segments of four hosts.

    host_port: rate of a NIC port. Fig. 13-8 has 100 Gbps, Fig. 13-7, whose segment it repeats, 200 Gbps.
    MLAG and the counts are printed; control plane, queues and MTU are usual ones, as the document prints none.
    """
    switch = switch_model(SWITCH)
    return FabricProfiles(
        GlobalAIFabricProfile(),
        GpuIoTopology(hosts=4, gpus_per_host=8, nic_ports=2, port_Bps=host_port),
        RailSwitchFabricProfile(switch, multihoming="MLAG"),
        SpineSwitchProfile(switch, spines=4, segments=2),
        SuperSpineSwitchProfile(switch, super_spines=4, pods=2),
    )


def named_values(profiles: FabricProfiles) -> pd.DataFrame:
    """`profile_table` with a column `document`: the values that the text names for a field, "" where it names none."""
    table = profile_table(profiles)
    return table.assign(document=table["field"].map(_NAMED).fillna(""))


def broken_designs() -> pd.DataFrame:
    """Designs near the document's that break a rule: what was changed, and `profile_breaks` of it.

    Columns design, field, wanted, found, why.
    """
    mine = document_profiles()
    fabric, overall, rail = build_fabric(mine), mine.overall, mine.rail
    vxlan = replace(overall, data_plane="VXLAN", mtu_bytes=4096)
    cases: dict[str, tuple[SegmentFabric | None, FabricProfiles]] = {
        f"host ports of {OTHER_HOST_PORT}": (
            replace(fabric, port_Bps=OTHER_HOST_PORT),
            document_profiles(OTHER_HOST_PORT),
        ),
        "VXLAN over eBGP, links of 4,096 bytes": (None, replace(mine, overall=vxlan)),
        "ports of a NIC bonded by nothing": (None, replace(mine, rail=replace(rail, multihoming="none"))),
        "EVPN pairs without EVPN": (None, replace(mine, rail=replace(rail, multihoming="EVPN"))),
        "no congestion control, no queue": (
            None,
            replace(mine, overall=replace(overall, congestion_control=()), rail=replace(rail, queues={})),
        ),
        "three tiers, two profiles": (fabric, replace(mine, super_spine=None)),
        "a pod grown by a segment": (replace(fabric, segments=3), mine),
    }
    tables = [profile_breaks(*case).assign(design=name) for name, case in cases.items()]
    return pd.concat(tables, ignore_index=True)[["design", "field", "wanted", "found", "why"]]
