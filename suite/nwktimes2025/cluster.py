"""The cluster of Fig. 1-1 to 1-6, six nodes of four GPUs, and nwktimes2025's claims about it."""

import pandas as pd

from railcore import catalog
from railcore.catalog.units import Gbps, count_word, number, show
from railcore.deploy.cluster import Cluster
from suite.ledger.readings import Entries, with_prefix

NODES, GPUS_PER_NODE = 6, 4
SCALE_UP = "DGX H100"  # platform of the catalog whose bandwidth inside a node is taken: the document names none


def document_cluster(**options) -> Cluster:
    """The document's cluster; `options` are fields of `Cluster`.

    Its networks are run as the chapter says. It prints neither how many servers stand beside the nodes, nor the speed
    of the management and the storage network: two servers of each kind here, and the catalog's speeds.
    """
    printed = {"nodes": NODES, "gpus_per_node": GPUS_PER_NODE}
    servers = {"gateways": 2, "management_servers": 2, "storage_servers": 2}
    inside = {"hb_Bps": catalog.item("platforms", SCALE_UP)["hb_bandwidth"]}
    return Cluster(**{**printed, **inside, **servers, **options})


def networks_words(networks: pd.DataFrame) -> str:
    """How many networks a node takes part in, and which: a sentence. networks: of `network_table`.

    A node of one GPU has no GPUs for a scale-up network to join.
    """
    ends = {"scale-up": "scale-up inside it", "scale-out": "scale-out to GPUs of other servers"}
    ports = networks.set_index("network")["node_ports"]
    joined = [name for name in ports.index if name != "scale-up" or ports[name] > 1]
    *first, last = [ends.get(name, name) for name in joined]
    return f"{count_word(len(joined)).capitalize()}: {', '.join(first)} and {last}."


def documents_notes() -> dict[str, str]:
    """What the document says of each network, by its name, and of all, by "": a line or two for its picture."""
    nic, shared = (catalog.item("cluster_networks", name).row("bandwidth") for name in ("scale-out", "frontend"))
    rates, one = f"{number(nic.low / Gbps)} to {number(nic.high / Gbps)} Gbps", show(shared.value, "bps")
    assumed = "No rate is named: that of the picture is assumed"
    notes = {
        "": f"NICs of {rates}, a frontend of {one}. It names no rate of scale-up, management and storage: "
        "those are ours",
        "scale-out": f"a NIC of {rates} for each GPU. Spine switches may join the rails: Clos of 3 or 5 stages",
        "scale-up": "NVLink, NVSwitch, AMD Infinity Fabric or UALink; generally much faster than the scale-out "
        "backend. No rate is named",
        "frontend": f"a shared NIC, commonly of {one}. A routed Clos with TCP; for several tenants BGP EVPN and VXLAN",
        "management": "also joins auxiliary systems: time (NTP, PTP), login (LDAP, Active Directory), licence servers, "
        f"telemetry,\nremote management (IPMI, Redfish), automation. Own ports, or VLANs or VRFs. {assumed}",
        "storage": f"NVMe-oF, Fibre Channel, or Ethernet with RDMA. {assumed}",
    }
    return {network: f"document: {text}" for network, text in notes.items()}


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
