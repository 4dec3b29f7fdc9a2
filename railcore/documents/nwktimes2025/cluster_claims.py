"""nwktimes2025's claims about the cluster of Fig. 1-1 to 1-6, and where its chapters contradict each other."""

import pandas as pd

from railcore.documents.nwktimes2025.cluster import FIRST_RAIL
from railcore.documents.nwktimes2025.profiles import HOST_PORT, OTHER_HOST_PORT, document_profiles
from railcore.documents.readings import Entries, with_prefix
from railcore.network.addressing.profiles import build_fabric
from railcore.network.topology.cluster import Cluster


def cluster_claims(cluster: Cluster) -> Entries:
    """GPUs, rails and GPUs of a rail, counted in the graph of the scale-out network: NICs that meet on a rail."""
    graph = cluster.graph("scale-out")
    gpus = [node for node, at in graph.nodes(data=True) if at["kind"] == "gpu"]
    rails: dict[int, set[str]] = {}
    for switch, at in graph.nodes(data=True):
        if at["rail"] is not None:
            nics = {node for node in graph[switch] if graph.nodes[node]["kind"] == "nic"}
            rails.setdefault(at["rail"], set()).update(nics)
    values = {
        "fig1_6.gpus": float(len(gpus)),
        "fig1_1.rails": float(len(rails)),
        "fig1_1.gpus_per_rail": float(max(map(len, rails.values()), default=0)),
    }
    return with_prefix("nwktimes2025", values, {}, {})


def network_contradictions() -> pd.DataFrame:
    """What the document says twice in different words about clusters and fabrics: columns subject, one, other, here."""
    try:
        build_fabric(document_profiles(OTHER_HOST_PORT))
        refused = "it fits both ways"
    except ValueError as error:
        field, _, why = str(error).splitlines()[-1].strip().partition(": ")
        refused = f"with {OTHER_HOST_PORT} the profiles refuse it, {field.partition('.')[2]}: {why.rpartition(': ')[0]}"
    rows = [
        (
            "number of the first rail",
            f"Fig. 1-1: rail {FIRST_RAIL} joins the GPUs of local rank {FIRST_RAIL}",
            f"Fig. 13-4 and later: rail {FIRST_RAIL + 1} is the first port of a host",
            "names count from 1; first_rail sets what a picture shows",
        ),
        (
            "host ports of a pod",
            f"Fig. 13-7: two ports of {OTHER_HOST_PORT} a NIC",
            f"Fig. 13-8: {HOST_PORT} a port, for the same hosts",
            f"{HOST_PORT}; {refused}",
        ),
        (
            "where the global settings are drawn",
            "text on Fig. 13-13: Fig. 13-10 shows them",
            "Fig. 13-10 shows VLANs and routes of one switch",
            "drawn in Fig. 13-13, over all layers",
        ),
        (
            "DCQCN",
            "Preface: quantized congestion notification",
            "chapter on backend topologies: quantized congestion control",
            "notification: ECN marks and PFC together",
        ),
        (
            "start of a training job",
            "Frontend Network: in a tenant's segment of the frontend",
            "Management Network: coordinated over the management network",
            "not modelled: both have links to every node",
        ),
        (
            "PCIe",
            "Scale-Up Networks: beside NVLink, and slower than it",
            "Summary and Ultra Ethernet: one of the scale-up networks",
            "links from a GPU to its NICs; scale-up is NVLink",
        ),
    ]
    return pd.DataFrame(rows, columns=["subject", "one", "other", "here"])
