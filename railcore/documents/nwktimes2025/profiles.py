"""The profiles of Fig. 13-13: which values the document names for each field, and those of its multi-pod design."""

import pandas as pd

from railcore.engines.deployment.profiles import (
    FabricProfiles,
    GlobalAIFabricProfile,
    GpuIoTopology,
    RailSwitchFabricProfile,
    SpineSwitchProfile,
    SuperSpineSwitchProfile,
    profile_table,
)
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
