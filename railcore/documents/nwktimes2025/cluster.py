"""The cluster of Fig. 1-1 to 1-6: six nodes of four GPUs, and how the document numbers its parts."""

from railcore.engines.deployment.cluster import Cluster

NODES, GPUS_PER_NODE = 6, 4
FIRST_RAIL = 0  # Fig. 1-1 has rails and local ranks from 0, chapter 13 rails from 1


def document_cluster(**options) -> Cluster:
    """The document's cluster; `options` are fields of `Cluster`.

    Its networks are run as the chapter says. It prints neither how many servers stand beside the nodes, nor the speed
    of the management and the storage network: two servers of each kind here, and the catalog's speeds.
    """
    printed = {"nodes": NODES, "gpus_per_node": GPUS_PER_NODE}
    servers = {"gateways": 2, "management_servers": 2, "storage_servers": 2}
    return Cluster(**{**printed, **servers, **options})
