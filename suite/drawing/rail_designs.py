"""Hosts, rails and switches as block diagrams: NIC ports wired to interfaces, a front panel, pods and multi-pods.

Port maps have the columns server, gpu, nic_port, rail, switch and interface; fabrics are graphs whose switches have
tier, pod and segment.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import pandas as pd

from railcore.catalog.units import show
from suite.colours import PARTS
from suite.drawing.diagram import EDGE, FAINT, INK, KINDS, Box, Diagram
from suite.drawing.symbols import rail_colour
from suite.plotting import ink_on

if TYPE_CHECKING:
    import networkx as nx

_PAGE, _MARGIN = 10.0, 0.12  # inches
_NAME, _CELL, _LINKS, _LEFT = 0.26, 0.3, 0.75, 0.7  # _LEFT: room for the names of rows
_HOST_NAME = 0.22  # width of a host's name, upright
_PEER = 0.33  # width of a peer link's interface
_THIN = 0.9  # of a line to a NIC port [points]
_MOST_PORTS = 1000  # NIC ports in a picture of all rail switches
_TIER = 0.24  # width of the names of tiers, upright
_LINE = 0.19  # height of a line of text below a picture [inches]
_ARROWS = {"up": "↑", "down": "↓"}
_SEGMENT, _RISE, _SWITCH = 2.2, 0.8, 0.78  # heights of a segment, of the links between two tiers, and of a switch


def nic_wiring(
    ports: pd.DataFrame,
    trunks: pd.DataFrame,
    switches: Mapping[str, str],
    title: str,
    notes: Sequence[tuple[str, str]] = (),
    by: str = "interface",
) -> plt.Figure:
    """Every NIC port and where it goes: hosts in the middle, the first switch above them, the second below.

    Parameters
    ----------
    ports
        Port map of one or two switches, with the numbers to show.
    trunks
        Links between switches: columns kind, switch, interface, peer and peer_interface. Those of kind peer between
        the two switches are drawn, at the left.
    switches
        Text for each switch, by its name in the map.
    title
        Over the picture.
    notes
        Lines below it: what the document has, with our verdict, or ours, with "".
    by
        "interface" draws every interface with its number, in the order of the hosts; "rail" one box for each rail.

    Returns
    -------
    The figure.
    """
    names = list(dict.fromkeys(ports["switch"]))
    several, links = len(names) > 1, _LINKS if by == "interface" else 1.35
    host_high = 0.3 + (_CELL - 0.04) * len(names) + 0.2
    side = _NAME + _CELL + 0.14 + links  # of a switch and its links
    notes_high = _LINE * len(notes)
    legend = 0.3 + notes_high
    peers = _peer_interfaces(trunks, names)
    shift = (_PEER * len(peers) + 0.2) * bool(peers)  # room for peer links and their name, left of all else
    page = Diagram(_PAGE, legend + host_high + side * len(names) + 0.1, title)
    low = legend + side * several
    nics = _hosts(page, ports, names, low, host_high, shift)
    peer_rows = list[float]()
    for i, name in enumerate(names):
        of_switch, above = ports[ports["switch"] == name], i == 0
        bottom = low + host_high + links if above else low - side
        frame = page.enclosure(_MARGIN, bottom, _PAGE - 2 * _MARGIN, _NAME + _CELL + 0.14, facecolor="#E9E9E9")
        level = frame.top - _NAME / 2 if above else frame.bottom + _NAME / 2
        page.text(_PAGE / 2, level, switches[name], font=8, weight="bold")
        cells = frame.bottom + 0.1 if above else frame.top - 0.1 - _CELL
        side_of_hosts = "bottom" if above else "top"
        if by == "interface":
            _interfaces(page, of_switch, nics, cells, side_of_hosts)
        else:
            row = Box(_MARGIN + 0.06 + shift, cells, _PAGE - 2 * _MARGIN - 0.12 - shift, _CELL)
            _rails(page, of_switch, nics, row, side_of_hosts)
        peer_rows.append(cells)
    if peers:
        _peer_links(page, peers, *peer_rows)
    _rail_legend(page, ports, notes_high)
    _notes(page, notes)
    return page.figure


def _notes(page: Diagram, notes: Sequence[tuple[str, str]]) -> None:
    """Lines at the foot of the page, the document's in the colour of the verdict."""
    for i, (text, verdict) in enumerate(reversed(notes)):
        y = 0.13 + _LINE * i
        if verdict:
            page.document_text(_MARGIN, y, text, verdict)
        else:
            page.text(_MARGIN, y, text, ha="left")


def _peer_interfaces(trunks: pd.DataFrame, names: list[str]) -> list[tuple[int, int]]:
    """Interfaces of the first and the second switch that peer links between them take."""
    mine = trunks[(trunks["kind"] == "peer") & trunks["switch"].isin(names)]
    return list(zip(mine["interface"], mine["peer_interface"], strict=True))


def _peer_links(page: Diagram, peers: Sequence[tuple[int, int]], above: float, below: float) -> None:
    """Peer links at the left of the page, from the first switch's row of interfaces to the second's."""
    cells, ends, x = list[tuple[Box, str, str]](), [], _MARGIN + 0.06
    for ports in peers:
        high, low = (Box(x, y, _PEER - 0.05, _CELL) for y in (above, below))
        cells += [(box, KINDS["plain"], f"{port}") for box, port in zip((high, low), ports, strict=True)]
        ends.append((high.edge("bottom"), low.edge("top")))
        x += _PEER
    _draw_cells(page, cells)
    page.links(ends, INK, 1.4)
    page.text(x + 0.02, (above + below + _CELL) / 2, "Peer links of MLAG", rotation=90)


def _columns(ports: pd.DataFrame, left: float) -> dict[tuple[int, int], float]:
    """Middle of each NIC's column on the page, by server and GPU."""
    nics = list(dict.fromkeys(zip(ports["server"], ports["gpu"], strict=True)))
    hosts, gap = len({server for server, _ in nics}), 0.12
    wide = (_PAGE - 2 * _MARGIN - left - (hosts - 1) * gap - hosts * (_HOST_NAME + 0.06)) / len(nics)
    places, x = {}, _MARGIN + left
    for i, nic in enumerate(nics):
        x += _HOST_NAME if i == 0 else 0.06 + _HOST_NAME + gap if nic[0] != nics[i - 1][0] else 0
        places[nic] = x + wide / 2
        x += wide
    return places


def _hosts(
    page: Diagram, ports: pd.DataFrame, names: list[str], low: float, high: float, shift: float
) -> dict[tuple[str, int, int], Box]:
    """Draw servers with their GPUs; the box of every NIC port, by switch, server and GPU."""
    places, several = _columns(ports, _LEFT + shift), len(names) > 1
    xs = list(places.values())
    wide = min((b - a for a, b in pairwise(xs)), default=1.0) - 0.07
    gpu_low = low + 0.1 + (_CELL - 0.04) * several
    rows = {"GPU": gpu_low + 0.15, "NIC port 1" if several else "NIC": gpu_low + 0.3 + (_CELL - 0.04) / 2}
    rows |= {"NIC port 2": low + 0.1 + (_CELL - 0.04) / 2} if several else {}
    for text, y in rows.items():
        page.text(_MARGIN + shift, y, text, font=8, ha="left")
    hosts, cells = {}, []
    for server, part in ports.groupby("server", sort=False):
        mine = [places[nic] for nic in places if nic[0] == server]
        left = mine[0] - wide / 2 - _HOST_NAME
        frame = page.enclosure(left, low, mine[-1] + wide / 2 + 0.06 - left, high)
        page.text(left + _HOST_NAME / 2, frame.middle[1], f"Host {server}", font=8, rotation=90)
        page.boxes(
            [Box(x - wide / 2 - 0.02, low + 0.06, wide + 0.04, high - 0.12) for x in mine],
            [PARTS["nic"]] * len(mine),
            [EDGE] * len(mine),
        )
        for gpu, x in ((gpu, x) for (at, gpu), x in places.items() if at == server):
            cells.append((Box(x - wide / 2, gpu_low, wide, 0.3), KINDS["gpu"], f"{gpu}"))
        for gpu, switch, rail in zip(part["gpu"], part["switch"], part["rail"], strict=True):
            place = places[server, gpu] - wide / 2, gpu_low + 0.3 if switch == names[0] else low + 0.1
            hosts[switch, server, gpu] = box = Box(*place, wide, _CELL - 0.04)
            cells.append((box, rail_colour(rail), ""))
    _draw_cells(page, cells)
    return hosts


def _interfaces(page: Diagram, ports: pd.DataFrame, nics: Mapping, low: float, side: str) -> None:
    """Interfaces of a switch, each straight over (or under) the NIC port that it goes to."""
    ends, cells = [], []
    for row in ports.itertuples():
        nic = nics[row.switch, row.server, row.gpu]
        cell = Box(nic.left, low, nic.width, _CELL)
        cells.append((cell, rail_colour(row.rail), f"{row.interface}"))
        ends.append((nic.edge("top" if side == "bottom" else "bottom"), cell.edge(side)))
    _draw_cells(page, cells)
    page.links(ends, [rail_colour(rail) for rail in ports["rail"]], _THIN)


def _draw_cells(page: Diagram, cells: Sequence[tuple[Box, str, str]], font: float = 8.0) -> None:
    """Draw small boxes with a face and a short text each."""
    boxes, faces, texts = zip(*cells, strict=True)
    page.boxes(boxes, faces, [EDGE] * len(boxes))
    page.lines((*box.middle, text, font, ink_on(face)) for box, face, text in zip(boxes, faces, texts, strict=True))


def _rails(page: Diagram, ports: pd.DataFrame, nics: Mapping, row: Box, side: str) -> None:
    """A box for each rail of a switch, with a line to each NIC port of it."""
    rails = sorted(set(ports["rail"]))
    ends, colours = [], []
    for cell, rail in zip(row.cells(len(rails), gap=0.05), rails, strict=True):
        mine, colour = ports[ports["rail"] == rail], rail_colour(rail)
        text = f"Rail {rail}:\n{', '.join(map(str, sorted(mine['interface'])))}"
        box = page.box(cell.left, row.bottom, cell.width, _CELL, text, face=colour, font=8)
        for i, port in enumerate(mine.itertuples()):
            nic = nics[port.switch, port.server, port.gpu]
            ends.append((nic.edge("top" if side == "bottom" else "bottom"), box.edge(side, (i + 0.5) / len(mine))))
            colours.append(colour)
    page.links(ends, colours, _THIN)


def _rail_legend(page: Diagram, ports: pd.DataFrame, low: float) -> None:
    """Colours of the rails, with their VLANs, and what a frame is; low: where the line begins [inches]."""
    vlans = ports.groupby("rail")["vlan"].unique()
    names = [f"{rail} ({', '.join(map(str, sorted(names)))})" for rail, names in vlans.items()]
    page.text(_MARGIN, low + 0.13, "Rail (its VLAN):", ha="left")
    entries = [*zip(names, map(rail_colour, vlans.index), strict=True), ("a GPU with its NIC", PARTS["nic"])]
    page.legend(entries, _MARGIN + 1.1, low + 0.04)


def front_panel(panel: pd.DataFrame, rows: int, title: str, notes: Sequence[str], peers: Sequence[int]) -> plt.Figure:
    """Interfaces of a switch as on its front, coloured by rail; numbers run down the columns.

    Parameters
    ----------
    panel
        Columns interface and rail, 0 for one without a rail.
    rows
        Interfaces above each other.
    title, notes
        Over the picture, and lines below it.
    peers
        Interfaces without a rail that take peer links.

    Returns
    -------
    The figure.
    """
    note_high = _LINE * len(notes) + 0.06
    page = Diagram(_PAGE, 0.62 + 0.46 * rows + note_high, title)
    frame = page.enclosure(_MARGIN, 0.36 + note_high, _PAGE - 2 * _MARGIN, 0.46 * rows + 0.16, facecolor="#E9E9E9")
    columns = len(panel) // rows
    cells = frame.cells(columns, rows, 0.07)
    drawn = []
    for interface, rail in zip(panel["interface"], panel["rail"], strict=True):
        column, line = divmod(interface - 1, rows)
        face = rail_colour(rail) if rail else FAINT if interface in peers else KINDS["plain"]
        drawn.append((cells[line * columns + column], face, f"{interface}"))
    _draw_cells(page, drawn, 9.0)
    entries = [(f"Rail {rail}", rail_colour(rail)) for rail in sorted(set(panel["rail"]) - {0})]
    entries += [("peer link of MLAG", FAINT)] * bool(peers)
    page.legend([*entries, ("free", KINDS["plain"])], _MARGIN, 0.04 + note_high)
    _notes(page, [(note, "") for note in notes])
    return page.figure


def pod_figure(graph: "nx.Graph", title: str, notes: Sequence[tuple[str, str]] = ()) -> plt.Figure:
    """A pod or several: hosts, rail switches by segment, spines by pod, super-spines, with what each switch carries.

    Hosts and switches of a kind are numbered through. graph: of a SegmentFabric with spines, its hosts as HB domains.
    notes: lines below the picture, what the document has with our verdict, or ours, with "".
    """
    supers, pods = _tier(graph, 3), sorted({graph.nodes[name]["pod"] for name in _tier(graph, 1)})
    pod_high = _SEGMENT + 0.24 + _RISE + _SWITCH + 0.12
    notes = [*notes, *((line, "") for line in _links_text(graph))]
    low = _LINE * len(notes) + 0.08
    page = Diagram(_PAGE, low + pod_high + (_RISE - 0.05 + _SWITCH if supers else 0.08), title)
    wide, boxes = (_PAGE - _TIER - _MARGIN - (len(pods) - 1) * 0.1) / len(pods), dict[str, Box]()
    for i, pod in enumerate(pods):
        frame = page.enclosure(_TIER + i * (wide + 0.1), low, wide, pod_high, facecolor="#FFFFFF")
        _pod(page, graph, pod, frame, boxes)
    if supers:
        row = Box(_PAGE * 0.1, low + pod_high + _RISE - 0.05, _PAGE * 0.8, _SWITCH)
        for cell, name in zip(row.cells(len(supers), gap=0.12), supers, strict=True):
            boxes[name] = _switch(page, graph, name, cell, f"Super-Spine {name.removeprefix('Super')}")
    for tier in range(1, 4 if supers else 3):
        page.text(_TIER / 2, boxes[_tier(graph, tier)[0]].middle[1], f"tier {tier}", rotation=90)
    trunks = []
    for a, b, at in graph.edges(data=True):
        if at["kind"] == "trunk":
            lower, upper = sorted((a, b), key=lambda node: graph.nodes[node]["tier"])
            above, below = (_neighbours(graph, node, at["tier"], way) for node, way in ((lower, 0), (upper, -1)))
            ends = boxes[lower].edge("top", _share(above, upper)), boxes[upper].edge("bottom", _share(below, lower))
            trunks.append(ends)
    page.links(trunks, EDGE, 0.6)
    _notes(page, notes)
    return page.figure


def _tier(graph: "nx.Graph", tier: int) -> list[str]:
    return [name for name, at in graph.nodes(data=True) if at["kind"] == "switch" and at["tier"] == tier]


def _number(graph: "nx.Graph", name: str) -> int:
    """Number of a switch among all of its tier."""
    return _tier(graph, graph.nodes[name]["tier"]).index(name) + 1


def _neighbours(graph: "nx.Graph", name: str, tier: int, way: int) -> list[str]:
    """Switches on the other side of a node's trunks of a tier: above it (way 0) or below it (-1)."""
    return [n for n in graph[name] if graph.edges[n, name]["tier"] == tier and graph.nodes[n]["tier"] == tier + way]


def _share(names: list[str], name: str) -> float:
    """How far along its side a box's line to one of its neighbours begins."""
    return 0.12 + 0.76 * (names.index(name) + 0.5) / len(names)


def _gpus(graph: "nx.Graph", switches: list[str]) -> list[str]:
    return list(dict.fromkeys(n for name in switches for n in graph[name] if graph.nodes[n]["kind"] == "gpu"))


def _pod(page: Diagram, graph: "nx.Graph", pod: int, frame: Box, boxes: dict[str, Box]) -> None:
    """Draw a pod: its segments with hosts and rail switches, and its spines."""
    leaves = [name for name in _tier(graph, 1) if graph.nodes[name]["pod"] == pod]
    segments = sorted({graph.nodes[name]["segment"] for name in leaves})
    wide = (frame.width - 0.12 - (len(segments) - 1) * 0.08) / len(segments)
    page.text(frame.middle[0], frame.bottom + 0.13, f"Pod {pod}: {len(_gpus(graph, leaves))} GPUs", weight="bold")
    for i, segment in enumerate(segments):
        mine = [name for name in leaves if graph.nodes[name]["segment"] == segment]
        box = page.enclosure(frame.left + 0.06 + i * (wide + 0.08), frame.bottom + 0.24, wide, _SEGMENT)
        page.text(box.middle[0], box.bottom + 0.12, f"Segment {segment}: {len(_gpus(graph, mine))} GPUs")
        row = Box(box.left, box.top - _SWITCH - 0.14, wide, _SWITCH + 0.14)
        for cell, name in zip(row.cells(len(mine), gap=0.07), mine, strict=True):
            boxes[name] = _switch(page, graph, name, cell, f"Rail switch {_number(graph, name)}", rails=True)
        _segment_hosts(page, graph, mine, Box(box.left, box.bottom + 0.2, wide, 0.5), boxes)
    spines = [name for name in _tier(graph, 2) if graph.nodes[name]["pod"] == pod]
    row = Box(frame.left + 0.03 * frame.width, frame.top - 0.08 - _SWITCH, 0.94 * frame.width, _SWITCH)
    for cell, name in zip(row.cells(len(spines), gap=0.08), spines, strict=True):
        boxes[name] = _switch(page, graph, name, cell, f"Spine {_number(graph, name)}")


def _segment_hosts(page: Diagram, graph: "nx.Graph", leaves: list[str], row: Box, boxes: Mapping[str, Box]) -> None:
    """Hosts of a segment, a line from each to each of its rail switches."""
    domains, lines = dict[int, list[str]](), []
    for name in _gpus(graph, leaves):
        domains.setdefault(graph.nodes[name]["domain"], []).append(name)
    for place, (cell, host) in enumerate(zip(row.cells(len(domains), gap=0.05), sorted(domains), strict=True)):
        members = domains[host]
        box = page.box(cell.left, cell.bottom, cell.width, cell.height, f"Host {host}\n{len(members)} GPUs", kind="gpu")
        for i, leaf in enumerate(leaves):
            if any(graph.has_edge(gpu, leaf) for gpu in members):
                start = box.edge("top", (i + 0.5) / len(leaves))
                lines.append(
                    (start, boxes[leaf].edge("bottom", (place + 0.5) / len(domains)))
                )  # all rails of the host: one bundle
    page.links(lines, EDGE, 0.7)


def _switch(page: Diagram, graph: "nx.Graph", name: str, cell: Box, text: str, rails: bool = False) -> Box:
    """Draw a switch with what it carries up and down, and its rails as a strip of colours."""
    tier, carried = graph.nodes[name]["tier"], dict[str, list[float]]()
    for *_, at in graph.edges(name, data=True):
        carried.setdefault("up" if at["tier"] > tier else "down", []).append(at["bandwidth_Bps"])
    ways = sorted(carried.items(), reverse=True)
    lines = [f"{_ARROWS[way]} {len(speeds)} x {show(speeds[0], 'bps')}" for way, speeds in ways]
    sums = {way: show(sum(speeds), "bps") for way, speeds in ways}
    whole = [f"{_ARROWS[way]} {total}" for way, total in sums.items()]
    lines.append(f"↑↓ {sums['up']}" if len(sums) == 2 == len({*sums.values()}) + 1 else ", ".join(whole))
    place = Box(cell.left, cell.bottom + 0.08 * rails, cell.width, cell.height - 0.08 * rails)
    page.box(*place.place, "\n".join([text, *lines]), kind="switch")
    if rails:
        numbers = sorted({graph.nodes[gpu]["rail"] for gpu in _gpus(graph, [name])})
        step, look = cell.width / len(numbers), {"edgecolors": INK, "linewidths": 0.3, "zorder": 3}
        strips: Any = [(cell.left + i * step, step) for i in range(len(numbers))]
        bars: Any = {**look, "facecolors": [rail_colour(rail) for rail in numbers]}
        page.ax.broken_barh(strips, (cell.bottom, 0.08), **bars)
    return cell


def _links_text(graph: "nx.Graph") -> list[str]:
    """What a line stands for, tier by tier, and what the signs mean."""
    hosts, trunks = dict[tuple, list[float]](), set()
    for a, b, at in graph.edges(data=True):
        if at["kind"] == "trunk":
            kind = {2: "rail switch to spine", 3: "spine to Super-Spine"}[at["tier"]]
            links, Bps = at["links"], at["bandwidth_Bps"]
            trunks.add(
                (at["tier"], f"{kind} {show(Bps, 'bps')}" + f" ({links} x {show(Bps / links, 'bps')})" * (links > 1))
            )
        elif at["kind"] == "host":
            gpu, leaf = (a, b) if graph.nodes[a]["kind"] == "gpu" else (b, a)
            hosts.setdefault((graph.nodes[gpu]["domain"], leaf), []).append(at["bandwidth_Bps"])
    widths = {f"host to rail switch {len(speeds)} x {show(speeds[0], 'bps')}" for speeds in hosts.values()}
    parts = [*sorted(widths), *(text for _, text in sorted(trunks))]
    signs = (
        "↑ up, ↓ down, in one direction. Strip of colours: the rails of a switch; a host's line goes to all of them."
    )
    return [f"Lines: {'; '.join(parts)}.", signs]


def rail_switch_strips(ports: pd.DataFrame, notes: Mapping[str, str], title: str) -> plt.Figure:
    """The interfaces of every rail switch of a segment that NIC ports take, coloured by rail, a line a switch.

    An interface that breaks out has its lanes above each other, lane 1 uppermost. ports: port map of one segment.
    notes: text beside each switch, by its name. Of many switches the first are drawn, and it says of how many.
    """
    every = list(dict.fromkeys(ports["switch"]))
    names = every[: max(1, _MOST_PORTS * len(every) // len(ports))]
    if len(names) < len(every):
        title += f" ({len(names)} of {len(every)} switches)"
    lanes = max(int(ports["lane"].max()), 1)
    high, left = 0.38 + 0.1 * (lanes > 1), 1.05
    page = Diagram(_PAGE, 0.36 + high * len(names), title)
    drawn, most = ports[ports["switch"].isin(names)], int(ports["interface"].max())
    step, cells = min(5.8 / most, 0.42), []
    for i, name in enumerate(names):
        y = page.height - (i + 1) * high
        page.text(_MARGIN, y + high / 2, name.rpartition(".")[2].replace("Leaf", "Rail switch "), ha="left", font=8)
        mine = ports[ports["switch"] == name].sort_values(["interface", "lane"])
        cell = (high - 0.08) / lanes
        for interface, lane, rail in zip(mine["interface"], mine["lane"], mine["rail"], strict=True):
            text = f"{interface}" if lane < 2 else ""
            place = Box(left + (interface - 1) * step, y + 0.04 + (lanes - max(lane, 1)) * cell, 0.94 * step, cell)
            fits = 72 * place.width > 4 + 8.0 * 0.6 * len(text)
            cells.append((place, rail_colour(rail), text if fits else ""))
        page.text(left + step * most + 0.1, y + high / 2, notes[name], ha="left", linespacing=1.15)
    _draw_cells(page, cells)
    page.legend([(f"Rail {rail}", rail_colour(rail)) for rail in sorted(set(drawn["rail"]))], _MARGIN, 0.06)
    return page.figure
