"""The document's servers, its two-node Ultra Ethernet system, its models, and paths on which its delay bounds hold."""

from dataclasses import replace

import pandas as pd

from railcore import catalog
from railcore.catalog.units import GB, Gbps, MiB, counted, number, show
from railcore.deploy import cabling
from railcore.deploy.server import (
    NETWORK,
    Server,
    flow_bandwidths,
    part_bandwidth,
    pcie_bandwidth,
    pcie_lane_use,
    pcie_switches_needed,
)
from railcore.transport.delay import DelayPath, hall_cables
from suite.ledger import claims
from suite.nwktimes2025.model_memory import gpu_memory, model_memory_table
from suite.nwktimes2025.ultra_ethernet import FabricEndpoint, UltraEthernetSystem, longest_way

PLATFORM, GPU, NIC, PCIE_SWITCH = "DGX H100", "H100", "ConnectX-7", "PEX89144"
GPUS, BASEBOARDS = 8, 2
CHIP_LINKS, PAIR_LINKS = (5, 4, 4, 5), (4, 4, 4, 4)  # NVLinks of a GPU to its chips, and of each pair of chips
NIC_Bps = 200 * Gbps  # chapter 13
OPENING_NICS = 2  # of the server that shares NICs, in the chapter's opening; its section has one
MODEL_PARAMETERS = {"8B": 8e9, "70B": 70e9, "405B": 405e9}
MODEL_PRECISION = "bf16"  # 16 GB / 8e9: 2 bytes; the section on model parallelism stores 4
BASEBOARD_PAIRS = [(f"GPU {i}", f"GPU {i + GPUS // BASEBOARDS}") for i in range(GPUS // BASEBOARDS)]
SCALE_UP_CABLE_M = 1.0  # traces and cables from GPU to GPU; ours
_ENDPOINTS = (  # plane, node, FEP, leaf switch and its interface, as in Fig. 14-1
    (1, 1, "FEP 111", "Leaf 101", "E1"),
    (1, 2, "FEP 122", "Leaf 101", "E2"),
    (2, 1, "FEP 211", "Leaf 102", "E1"),
    (2, 2, "FEP 222", "Leaf 102", "E2"),
)


def rdma_nic_speeds() -> tuple[float, float]:
    """Chapter 1: slowest and fastest NIC of a GPU, one direction [bytes/s]."""
    row = catalog.item("cluster_networks", "scale-out").row("bandwidth")
    return float(row.low or row.value), float(row.high or row.value)


def packet_bytes() -> float:
    """Packet whose delay is told: the largest RDMA payload. The document names none."""
    return float(catalog.item("protocols", "RoCEv2")["payload"])


def shared_nic_server() -> Server:
    """Fig. 13-1: two baseboards of four H100, chips in pairs, one shared NIC."""
    part = catalog.item("pcie_switches", PCIE_SWITCH)
    return Server(
        gpus=GPUS,
        hb_link_Bps=catalog.item("platforms", PLATFORM)["hb_link_bandwidth"],
        nics=1,
        nic_Bps=NIC_Bps,
        pcie_generation=int(part["generation"]),
        chip_links=CHIP_LINKS,
        baseboards=BASEBOARDS,
        pair_links=PAIR_LINKS,
        switch_lanes=int(part["lanes"]),
        name="Fig. 13-1, shared NIC",
    )


def nic_per_gpu_server() -> Server:
    """Fig. 13-2: the same with a NIC for each GPU, on one PCIe switch as the text has it."""
    return replace(shared_nic_server(), nics=GPUS, name="Fig. 13-2, NIC per GPU")


def server_notes(server: Server) -> dict[str, str]:
    """Models, counts and findings in a drawing of one of the document's servers, by the part's name."""
    parts = f"{counted(server.gpus, 'GPUs')} and {counted(server.nics, 'NICs')}"
    name, notes = f"{PCIE_SWITCH}, PCIe Gen{server.pcie_generation}", dict[str, str]()
    for row in pcie_lane_use(server).itertuples():
        notes[row.pcie_switch] = f"{name}: {row.lanes} lanes, {row.needed} needed by {parts}"
        if row.needed > row.lanes:
            needed = pcie_switches_needed(server)
            marks = claims.marks({"nwktimes2025.fig13_2.pcie_switches": float(needed)})
            said = "".join(f" as in the document: {mark.text}" for mark in marks.values())
            text = f"{row.lanes} lanes are too few, {parts} need {row.needed}: {counted(needed, 'switches')}"
            notes[row.pcie_switch] = f"{name}: {text} (drawn{said or ': ' + counted(server.pcie_switches, 'switches')})"
    return notes | {f"NIC {i}": f"{NIC}\n{show(server.nic_Bps, 'bps')}" for i in range(1, server.nics + 1)}


def across_note(server: Server) -> str:
    """What GPUs on different baseboards of one of the document's servers get, one pair and all pairs at once."""
    graph, pairs = server.graph(), BASEBOARD_PAIRS
    far = part_bandwidth(graph, *pairs[0], ("hb",)).value_Bps
    together = flow_bandwidths(graph, pairs, ("hb",))["bandwidth_Bps"].min()
    return (
        f"GPU to GPU of the other\nbaseboard, one pair:\n{_speed(far)} one way,\n{_speed(2 * far)} both ways;\n"
        f"all {len(pairs)} pairs at once:\n{_speed(together)} each one way"
    )


def server_lines(server: Server) -> list[str]:
    """What GPUs of one of the document's servers get, in words, for a drawing of it; one direction."""
    out = f"To the network, all {server.gpus} GPUs at once: {_speed(network_share(server))} each"
    if server.nics == 1:
        both = network_share(replace(server, nics=OPENING_NICS))
        out += f"; with the {OPENING_NICS} NICs of the chapter's opening {_speed(both)}"
    older = server.pcie_generation - 1
    carried = number(pcie_bandwidth(older, server.pcie_lanes) / GB, 3)
    marks = claims.marks({"nwktimes2025.fig13_1.pcie_one_direction": server.pcie_Bps})
    return [f"{out}, one way."] + [
        f"PCIe: {mark.text} one way is what x{server.pcie_lanes} of Gen{older} carries ({carried}); "
        f"Gen{server.pcie_generation}, which the document names, carries {number(mark.ours / GB, 3)}."
        for mark in marks.values()
    ]


def network_share(server: Server) -> float:
    """What each GPU of a server gets to the network when all send at once [bytes/s]."""
    flows = [(f"GPU {i}", NETWORK) for i in range(server.gpus)]
    return float(flow_bandwidths(server.graph(), flows)["bandwidth_Bps"].min())


def server_alerts(server: Server) -> dict[str | tuple[str, str], str]:
    """Parts and links to show in red, and why: PCIe switches without lanes enough, NICs that several GPUs share."""
    lanes = pcie_lane_use(server)
    short = {name: "" for name in lanes.loc[lanes["needed"] > lanes["lanes"], "pcie_switch"]}
    why = f"the bottleneck: {server.gpus} GPUs share it"
    return short | {(f"NIC {i}", NETWORK): why for i in range(1, server.nics + 1) if server.nics < server.gpus}


def documents_bandwidths(server: Server) -> dict[str, tuple[str, str]]:
    """Marks of the links of one of the document's servers: its numbers in words as there, and our verdict.

    Of a GPU's NVLinks ("hb"), a PCIe link ("pcie"), a NIC ("nic"), and of two GPUs on different baseboards ("across").
    """
    across = part_bandwidth(server.graph(), *BASEBOARD_PAIRS[0], ("hb",)).value_Bps
    ours = {
        "nvlink4_bandwidth": 2 * server.hb_Bps,
        "pcie_bandwidth": 2 * server.pcie_Bps,
        "shared_nic_bandwidth": server.nic_Bps,
        "cross_baseboard_bandwidth": 2 * across,
        "nvlink4_links": float(sum(server.chip_links)),
        "pcie_one_direction": server.pcie_Bps,
    }
    marks = claims.marks({f"nwktimes2025.fig13_1.{name}": value for name, value in ours.items()})
    if not marks:
        return {}
    nvlink, pcie, nic, pairs, links, half = marks.values()
    return {
        "hb": (f"{links.text},\n{nvlink.text} in total", nvlink.verdict),
        "pcie": (f"{pcie.text}\nboth ways, {number(half.value / GB)} one\nway", pcie.verdict),
        "nic": (nic.text, nic.verdict),
        "across": (f"{pairs.text}\nin total", pairs.verdict),
    }


def gpu_memory_lines(gpu: str, table: pd.DataFrame) -> list[str]:
    """Below a drawing of models in GPUs: how GPU memory is counted, and where powers of ten would take more GPUs.

    gpu: of the catalog. table: of `model_memory_table`, its rows of models drawn.
    """
    named, whole = catalog.item("gpus", gpu)["memory"], gpu_memory(gpu)
    decimal = zip(table["model"], table["gpus"], -(-table["memory_bytes"] // named), strict=True)
    more = [f"{model} takes {number(gpus)} GPUs" for model, ours, gpus in decimal if gpus > ours]
    if whole <= named:
        return []
    line = (
        f"A GPU sold with {show(named, 'B')} shows {number(whole / MiB)} MiB, {show(whole, 'B', 3)}: memory is counted "
    )
    line += "in powers of two, models in powers of ten."
    return [f"{line} With {show(named, 'B')} in powers of ten, {', '.join(more)}." if more else line]


def documents_models(table: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Marks of each model of `document_models`: the document's numbers in words, the verdict on our number of GPUs.

    "server": that of a server.
    """
    memory = "nwktimes2025.fig13_3.server_memory"
    whole = claims.marks({memory: GPUS * catalog.item("gpus", GPU)["memory"]}).get(memory)
    if not whole:
        return {}
    text = f"a server of {GPUS} GPUs of {show(whole.value / GPUS, 'B')} has {whole.text}"
    models = {"server": (text, whole.verdict)}
    for row in table.itertuples():
        memory, gpus = (f"nwktimes2025.fig13_3.{part}_{str(row.model).lower()}" for part in ("memory", "gpus"))
        size, count = claims.marks({memory: row.memory_bytes, gpus: float(row.gpus)}).values()
        least = "at least " * ("at least" in claims.claim(gpus).claim)
        models[str(row.model)] = f"{size.text}, {least}{count.text}", count.verdict
    return models


def models_to_show(table: pd.DataFrame, said: dict[str, tuple[str, str]], gpu: str) -> pd.DataFrame:
    """`model_memory_table` for people, sizes in GB: first the document's rows, with what it has beside them.

    said: of `documents_models`, by model; empty without the document. gpu: of the catalog, holds the models.
    """
    of_book = ((table["use"] == "inference") & (table["precision"] == MODEL_PRECISION)).to_numpy()
    names = table["model"].where(of_book, "").map(lambda name: said[name][0] if name in said else "–")
    shown = table.assign(memory=table["memory_bytes"] / GB, document=names)
    size = f"GPUs of {show(gpu_memory(gpu), 'B', 3)} (sold as {show(catalog.item('gpus', gpu)['memory'], 'B')})"
    columns = {"use": "kept for", "precision": "format", "memory": "memory [GB]", "gpus": size}
    columns |= {"network": "GPUs talk over"}
    kept = ["model", "use", "precision", "memory", "gpus", "servers", "network", *["document"] * bool(said)]
    return pd.concat([shown[of_book], shown[~of_book]], ignore_index=True)[kept].rename(columns=columns)


def _speed(value_Bps: float) -> str:
    return f"{number(value_Bps / GB, 4)} GB/s"


def two_node_system() -> UltraEthernetSystem:
    """Fig. 14-1: two nodes of two GPUs, leaf switches 101 and 102. Plane p is on GPU and FI p of each node.

    The figure's text names FEPs, leaf switches and their interfaces; the other names, and two spines, are ours.
    """
    return UltraEthernetSystem([_endpoint(*row) for row in _ENDPOINTS], ["Spine 1", "Spine 2"])


def _endpoint(plane: int, node: int, fep: str, leaf: str, leaf_port: str) -> FabricEndpoint:
    at, interface = f"Node {node}", f"FI {2 * (node - 1) + plane}"
    return FabricEndpoint(
        name=fep,
        address=fep.replace("FEP", "FA"),
        node=at,
        gpu=f"{at} GPU {plane - 1}",
        interface=f"{at} {interface}",
        port=f"{at} {interface} port",
        leaf=leaf,
        leaf_port=leaf_port,
        process=f"{at} PID {plane}",
        address_space=f"{at} PASID {plane}",
    )


def scale_out_path() -> DelayPath:
    """From NIC to NIC over the longest way of Fig. 14-1, all its switches of one model."""
    switches = longest_way(two_node_system().graph())
    return DelayPath(NIC, ["SN5600"] * len(switches), rdma_nic_speeds()[0], packet_bytes())


def scale_out_cables() -> list[float]:
    """Longest cables of that path between two racks of the catalog's hall, leaf switches in the racks [m]."""
    return hall_cables(cabling.catalog_floor("GPU hall"), 2, 1, [1])


def scale_up_path() -> DelayPath:
    """From GPU to GPU over one NVSwitch, with all NVLinks of a GPU."""
    hb = catalog.item("platforms", PLATFORM)["hb_bandwidth"]
    return DelayPath("H100 NVLink port", ["NVSwitch 3"], hb, packet_bytes(), code="")


def documents_delays() -> dict[str, tuple[str, str, str]]:
    """Of Fig. 14-1's networks our delay in words, and the mark: the document's bound and our verdict, or "" twice."""
    networks = {
        "scale-out": ("scale_out_delay", scale_out_path(), sum(scale_out_cables())),
        "scale-up": ("scale_up_delay", scale_up_path(), SCALE_UP_CABLE_M),
    }
    delays = {}
    for network, (name, path, length_m) in networks.items():
        claim_id, ours = f"nwktimes2025.fig14_1.{name}", float(path.delay_s(length_m)[0])
        mark = claims.marks({claim_id: ours}).get(claim_id)
        told = (mark.text, mark.verdict) if mark else ("", "")
        delays[network] = f"{number(1e6 * ours, 2)} µs", *told
    return delays


def document_models(precision: str = MODEL_PRECISION) -> pd.DataFrame:
    """Fig. 13-3: memory of its models' weights, and the GPUs and servers that hold them."""
    return model_memory_table(MODEL_PARAMETERS, [precision], GPU, GPUS, ["inference"])
