"""nwktimes2025's claims about servers, memory, delays and Ultra Ethernet's terms: Fig. 1-2, 13-1 to 13-3 and 14-1."""

from dataclasses import replace

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.units import GB, counted, number, show
from railcore.deploy.server import (
    NETWORK,
    Server,
    flow_bandwidths,
    part_bandwidth,
    pcie_bandwidth,
    pcie_lane_use,
    pcie_switches_needed,
)
from railcore.training import transformer
from railcore.transport.delay import DelayPath
from suite.ledger import claims
from suite.ledger.readings import Entries, merge_entries, verdict_readings, with_prefix
from suite.nwktimes2025 import servers
from suite.nwktimes2025.model_memory import gpu_memory
from suite.nwktimes2025.ultra_ethernet import UltraEthernetSystem, fabric_planes

_HB = ("hb",)
_PAIR = servers.BASEBOARD_PAIRS[0]
_SAME_BOARD = ("GPU 0", "GPU 1")


def _gigabytes(speed: float) -> str:
    return f"{number(speed / GB, 4)} GB/s"


def server_claims(crossings: pd.DataFrame) -> Entries:
    """Fig. 13-1 and 13-2: links and bandwidths of both servers, one direction or, where they are printed so, both.

    crossings: of `baseboard_crossings`.
    """
    shared, servers_drawn = servers.shared_nic_server(), servers.nic_per_gpu_server()
    graph = shared.graph()
    nic = part_bandwidth(graph, "NIC 1", NETWORK).value_Bps
    pcie = part_bandwidth(graph, "GPU 0", "NIC 1", ("pcie",)).value_Bps
    two = servers.network_share(replace(shared, nics=servers.OPENING_NICS))
    chips = [node for node, at in graph.nodes(data=True) if at["kind"] == "hb" and at["board"] == 1]
    pairs = {graph.edges[a, b]["links"] for a in chips for b in graph[a] if graph.nodes[b]["kind"] == "hb"}
    values = {
        "fig13_1.nvlink4_links": float(sum(graph.edges["GPU 0", chip]["links"] for chip in chips)),
        "fig13_1.nvlink4_bandwidth": 2 * part_bandwidth(graph, *_SAME_BOARD, _HB).value_Bps,
        "fig13_1.shared_nic_bandwidth": nic,
        "fig13_1.pcie_bandwidth": 2 * pcie,
        "fig13_1.pcie_one_direction": pcie,
        "fig13_1.pcie_over_nic": pcie / nic,
        "fig13_1.nic_share": servers.network_share(shared),
        "fig13_1.switch_pair_links": float(max(pairs)),
        "fig13_1.cross_baseboard_bandwidth": 2 * part_bandwidth(graph, *_PAIR, _HB).value_Bps,
        "fig13_2.gpu_pcie_bandwidth": 2 * part_bandwidth(servers_drawn.graph(), "GPU 0", "NIC 1", ("pcie",)).value_Bps,
        "fig13_2.pcie_switches": float(pcie_switches_needed(servers_drawn)),
    }
    older = shared.pcie_generation - 1
    printed = (
        f"x{shared.pcie_lanes} of PCIe Gen{shared.pcie_generation} carries {_gigabytes(pcie)} a direction; the printed "
        f"numbers are Gen{older}'s, {_gigabytes(pcie_bandwidth(older, shared.pcie_lanes))} a direction"
    )
    printed_Bps = claims.paper_value("nwktimes2025.fig13_1.pcie_one_direction")
    reasons = {
        "fig13_1.pcie_bandwidth": printed,
        "fig13_1.pcie_one_direction": printed,
        "fig13_1.pcie_over_nic": f"with the printed {show(printed_Bps, 'B/s')} it is {printed_Bps / nic:.3g}",
        "fig13_1.cross_baseboard_bandwidth": _crossing_reason(crossings, shared),
        "fig13_1.switch_pair_links": "an input: the server is built with the links printed",
        "fig13_2.gpu_pcie_bandwidth": f"{printed}, and the NIC behind it has {_gigabytes(nic)}",
        "fig13_2.pcie_switches": "lanes are not printed: one switch with as many as all parts need would do",
    }
    readings = {
        "fig13_1.nic_share": f"one NIC, as the section has it; with the two of the chapter's opening {_gigabytes(two)}",
        "fig13_2.pcie_switches": _lanes_reading(servers_drawn),
    }
    return with_prefix("nwktimes2025", values, reasons, readings)


def baseboard_crossings() -> pd.DataFrame:
    """GPUs that talk across the baseboards: what each gets, by how many do, with the links printed and with more.

    Columns pair_links (text), pairs, bandwidth_Bps (of each GPU, one direction), both_directions_Bps, bottleneck. The
    last server has its chips on one baseboard, shared by all GPUs, as in HGX H100.
    """
    shared, pairs, rows = servers.shared_nic_server(), servers.BASEBOARD_PAIRS, []
    together = [tuple(len(pairs) * links for links in shared.chip_links)]
    for links in (shared.pair_links, shared.chip_links, *together):
        rows += _crossing_rows("/".join(map(str, links)), replace(shared, pair_links=links))
    rows += _crossing_rows("chips shared by all", replace(shared, baseboards=1, pair_links=()))
    columns = ["pair_links", "pairs", "bandwidth_Bps", "both_directions_Bps", "bottleneck"]
    return pd.DataFrame(rows, columns=columns)


def _crossing_rows(name: str, server: Server) -> list[tuple]:
    graph, rows = server.graph(), []
    for count in (1, len(servers.BASEBOARD_PAIRS)):
        flows = flow_bandwidths(graph, servers.BASEBOARD_PAIRS[:count], _HB)
        rate = float(flows["bandwidth_Bps"].min())
        rows.append((name, count, rate, 2 * rate, flows["bottleneck"].iloc[0]))
    return rows


def _crossing_reason(table: pd.DataFrame, server: Server) -> str:
    wanted = 2 * server.hb_Bps
    enough = table[table["both_directions_Bps"] > wanted * (1 - 1e-9)].drop_duplicates("pairs")["pair_links"]
    one, every = (_gigabytes(speed) for speed in table["both_directions_Bps"].iloc[:2])
    return (
        f"the {sum(server.pair_links)} links between the baseboards carry {one} for one pair of GPUs, {every} each for "
        f"all {len(servers.BASEBOARD_PAIRS)} pairs at once. {_gigabytes(wanted)} needs {enough.iloc[0]} links between "
        f"paired chips for one pair, {enough.iloc[1]} for all"
    )


def _lanes_reading(server: Server) -> str:
    lanes = pcie_lane_use(server).iloc[0]
    return (
        f"the switch is the {servers.PCIE_SWITCH} of Fig. 13-1, of {lanes['lanes']} lanes by its maker; {server.gpus} "
        f"GPUs and {server.nics} NICs at x{server.pcie_lanes} take {lanes['needed']}"
    )


def memory_claims() -> Entries:
    """Fig. 13-3: memory of the three models, and the GPUs and servers that hold them."""
    tables, wider = (servers.document_models(name).set_index("model") for name in (servers.MODEL_PRECISION, "fp32"))
    named, shared = catalog.item("gpus", servers.GPU)["memory"], gpu_memory(servers.GPU)
    values = {"server_memory": servers.GPUS * named, "servers_405b": float(tables.loc["405B", "servers"])}
    readings, decimal = {}, {}
    said = show(claims.paper_value("nwktimes2025.fig13_3.memory_8b"), "B")
    for model in tables.index:
        size = tables.loc[model, "memory_bytes"]
        values[f"memory_{model.lower()}"] = size
        values[f"gpus_{model.lower()}"] = float(tables.loc[model, "gpus"])
        decimal[f"nwktimes2025.fig13_3.gpus_{model.lower()}"] = float(np.ceil(size / named))
        readings[f"memory_{model.lower()}"] = (
            f"2 bytes a parameter, from the printed {said} of 8B; with the 4 of the section on model parallelism "
            f"{show(wider.loc[model, 'memory_bytes'], 'B')} and {counted(wider.loc[model, 'gpus'], 'GPUs')}"
        )
    ours = with_prefix("nwktimes2025.fig13_3", values, {}, readings)
    taken = f"{show(named, 'B')} are counted in powers of two, {show(shared, 'B', 4)} as its driver shows"
    binary = verdict_readings(ours.values, {taken: {"in powers of ten": decimal}})
    return Entries(ours.values, ours.reasons, {**ours.readings, **binary})


def grok_claims() -> Entries:
    """Parameters of Grok-1, counted from the shapes of its published code."""
    model = transformer.catalog_model("Grok-1")
    layers = model.total_parameters - model.vocabulary * model.hidden
    reasons = {
        "grok1_parameters": f"its layers have {number(layers / 1e9, 4)}e9, its embedding, used at both ends, "
        f"{number(model.vocabulary * model.hidden / 1e9, 3)}e9; its maker prints 314B too, and not what it counts"
    }
    return with_prefix("nwktimes2025", {"grok1_parameters": float(model.total_parameters)}, reasons, {})


def scale_up_claims() -> Entries:
    """Fig. 1-2: what a GPU has to its scale-up network, over PCIe and over its NIC."""
    server = servers.shared_nic_server()
    slow, fast = servers.rdma_nic_speeds()
    values = {"nvlink_over_pcie": server.hb_Bps / server.pcie_Bps, "scale_up_over_scale_out": server.hb_Bps / fast}
    other = f"against {show(slow, 'bps')} {number(server.hb_Bps / slow)}"
    reasons = {"scale_up_over_scale_out": f"against a NIC of {show(fast, 'bps')}; {other}"}
    return with_prefix("nwktimes2025.fig1_2", values, reasons, {})


def ultra_ethernet_claims(system: UltraEthernetSystem) -> Entries:
    """Fig. 14-1: fabric interfaces and planes of the two-node system, found on its graph."""
    graph = system.graph()
    planes, together = fabric_planes(graph), fabric_planes(graph, ("leaf", "spine"))
    interfaces = sum(at["kind"] == "fi" for _, at in graph.nodes(data=True))
    values = {"fabric_interfaces": float(interfaces), "planes": float(len(planes))}
    reading = (
        f"a plane is a leaf switch, as the text names one for each; over shared spines it would be {len(together)}"
    )
    return with_prefix("nwktimes2025.fig14_1", values, {}, {"planes": reading})


def delay_claims(scale_out: DelayPath, cables_m: list[float], scale_up: DelayPath) -> Entries:
    """The document's bounds on delays, held against an unloaded path of each network.

    cables_m: of the scale-out path; the scale-up path has `servers.SCALE_UP_CABLE_M`.
    """
    paths = {"scale_out_delay": (scale_out, sum(cables_m)), "scale_up_delay": (scale_up, servers.SCALE_UP_CABLE_M)}
    values, reasons, readings = {}, {}, {}
    for name, (path, length) in paths.items():
        bound = claims.paper_value(f"nwktimes2025.fig14_1.{name}")
        value, low, high = path.delay_s(length)
        longest, _, shortest = path.longest_cables_m(bound)
        values[name] = value
        if shortest:
            breaks = f"At the high latencies it breaks with {number(shortest, 3)} m"
            readings[name] = (
                f"{number(length, 3)} m of cable, between racks of the catalog's hall, as no length is printed (over "
                f"{number(longest, 3)} m: more than the bound)"
            )
        else:
            breaks = (
                f"It fails at the high ends of the assumed latencies, {show(high, 's', 3)}, however short the cable"
            )
        reasons[name] = (
            f"{counted(len(path.switches), 'switches')} ({path.switches[0]}) and {number(length, 3)} m of cable: "
            f"{show(value, 's', 3)}, and {show(low, 's', 3)} to {show(high, 's', 3)} over the bounds of the latencies. "
            f"{breaks}"
        )
    return with_prefix("nwktimes2025.fig14_1", values, reasons, readings)


def all_server_claims(crossings: pd.DataFrame) -> Entries:
    """All claims of this module, for the document's own servers, system and paths; crossings: as `server_claims`."""
    delays = delay_claims(servers.scale_out_path(), servers.scale_out_cables(), servers.scale_up_path())
    system = ultra_ethernet_claims(servers.two_node_system())
    memory = memory_claims(), grok_claims()
    return merge_entries(scale_up_claims(), server_claims(crossings), *memory, system, delays)
