"""What a failed part leaves: failover of NICs, and GPUs that a failed switch of each tier cuts off."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore.catalog.units import Gbps
from suite.deployment.routing import ROLES, BgpDesign
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

FAILURES = ("NIC port", "host link", "NIC", "rail switch", "rail switches of a NIC")
SPINE_LINKS = "links to a spine"


def failover(plan: AddressPlan) -> pd.DataFrame:
    """What is left when one part fails, a row for each kind of part, counted in the port map.

    The part is the first that serves GPU 1 of the first host. Columns failure, part, gpus_touched; gpus_isolated: whose
    NIC has no link left; nic_share_left and nic_Gbps_left: of the NIC bandwidth of the GPU that is worst off;
    addresses_lost: that no port carries any more, so that sessions to them end; flows_lost, flows_lost_with_summaries:
    share of the flows from other pods to the other addresses that are lost until the part is mended, as of
    `BgpDesign.flows_lost`. Where NICs are bundled their address moves to the ports that are left. With spines the last
    row is all links between a rail switch and a spine; one of several parallel ones takes bandwidth alone.
    """
    ports, fabric = plan.ports, plan.fabric
    gpu = ((ports["domain"] - 1) * fabric.rails + ports["gpu"] - 1).to_numpy()
    first = gpu == 0
    switch = ports["switch"].to_numpy()
    mine = ports.loc[first, "switch"].unique()
    port = first & (ports["nic_port"] == 1).to_numpy()
    link = f"{ports['host'].iloc[0]} GPU1 port 1"
    failed: Mapping[str, tuple[str, np.ndarray]] = {
        "NIC port": (link, port),
        "host link": (f"{link} to {mine[0]}", port),
        "NIC": (f"{ports['host'].iloc[0]} GPU1", first),
        "rail switch": (mine[0], switch == mine[0]),
        "rail switches of a NIC": (" ".join(mine), np.isin(switch, mine)),
    }
    address = pd.factorize(ports["address"])[0]
    rows: list[tuple] = []
    for failure in FAILURES:
        part, gone = failed[failure]
        left = np.bincount(gpu[~gone], minlength=fabric.gpus)
        carried = np.bincount(address[~gone], minlength=address.max() + 1)
        touched = np.unique(gpu[gone])
        worst = left[touched].min()
        row = (failure, part, touched.size, int((left[touched] == 0).sum()), worst / fabric.nic_ports)
        rows.append((*row, round(worst * fabric.port_Bps / Gbps, 6), int((carried == 0).sum()), 0.0, 0.0))
    if fabric.spines:
        spine = plan.trunks.loc[(plan.trunks["kind"] == "trunk") & (plan.trunks["switch"] == mine[0]), "peer"].iloc[0]
        lost = [BgpDesign(plan, summarised=summarised).flows_lost for summarised in (False, True)]
        served = np.unique(gpu[switch == mine[0]]).size
        row = (SPINE_LINKS, f"{mine[0]} to {spine}", served, 0, 1.0)
        rows.append((*row, round(fabric.nic_Bps / Gbps, 6), 0, *lost))
    columns = "failure part gpus_touched gpus_isolated nic_share_left nic_Gbps_left addresses_lost".split()
    return pd.DataFrame(rows, columns=[*columns, "flows_lost", "flows_lost_with_summaries"])


def failure_domains(fabric: SegmentFabric) -> pd.DataFrame:
    """What a failed switch stops, a row for each tier.

    Columns role; switches: of the tier; gpus_touched: GPUs whose NIC, or whose way between rail switches or pods, runs
    through one; gpus_lost: of these, whose NIC is on it alone; rails_touched, rails_lost: rails of its segment;
    share_left: of the bandwidth of these NICs, or between the rail switches of the pod, or between pods;
    gpus_cut_off: of the GPUs touched those lost, and those that lose their only way over the network to GPUs on other
    switches or pods.
    """
    of_leaf, of_pod = fabric.servers * fabric.rails_per_switch, fabric.gpus // fabric.pods
    alone, rails = fabric.homing == 1, fabric.rails_per_switch
    lone_spine = fabric.spines == 1 and (fabric.rail_switches_of_pod > fabric.homing or fabric.pods > 1)
    lone_top = fabric.super_spines == 1 and fabric.pods > 1
    names = "gpus_touched gpus_lost rails_touched rails_lost share_left gpus_cut_off"
    rows = [(of_leaf, of_leaf * alone, rails, rails * alone, 1 - 1 / fabric.homing, of_leaf * alone)]
    if fabric.spines:
        rows.append((of_pod, 0, fabric.rails, 0, 1 - 1 / fabric.spines, of_pod * lone_spine))
    if fabric.super_spines:
        rows.append((fabric.gpus, 0, fabric.rails, 0, 1 - 1 / fabric.super_spines, fabric.gpus * lone_top))
    table = pd.DataFrame(rows, columns=names.split())
    table.insert(0, "role", ROLES[: fabric.tiers])
    table.insert(1, "switches", fabric.switches_by_tier)
    return table
