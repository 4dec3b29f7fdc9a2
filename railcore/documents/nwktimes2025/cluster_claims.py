"""nwktimes2025's claims about the cluster of Fig. 1-1 to 1-6, and where its chapters contradict each other."""

from railcore.documents.readings import Entries, with_prefix
from railcore.engines.deployment.cluster import Cluster


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
