"""Servers as block diagrams: chips, GPUs, PCIe switches and NICs; models in their memory; Ultra Ethernet's parts.

Graphs are those of `deploy.server` and `nwktimes2025.ultra_ethernet`: of nodes kind, board, number and
node; of edges kind, links and bandwidth_Bps (one direction).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from railcore.catalog.units import GB, counted, number, show
from suite.colours import LINKS, PARTS
from suite.drawing.diagram import ALERT, EDGE, FAINT, INK, KINDS, Box, Diagram
from suite.drawing.layers import nodes_of_kind
from suite.drawing.symbols import rail_colour
from suite.plotting import ink_on

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

_WIDTH, _MARGIN = 10.0, 1.75  # inches of the page, and of it left for what links carry
_ROWS = {"network": (0.1, 0.3), "nic": (0.83, 0.52), "pcie": (1.85, 0.45), "gpu": (2.95, 0.45), "hb": (4.25, 0.45)}
_FACES = {"network": "user", "nic": "nic", "pcie": "pcie", "gpu": "gpu", "hb": "hb"}
_FILL = PARTS["memory"]  # memory in use
_STEP = 0.27  # inches between the links of chip pairs
_LINE = 0.18  # inches of a line of text
_TERMS = (
    "FI: Fabric Interface, a NIC that speaks Ultra Ethernet.  FEP: Fabric Endpoint, ends the transport protocol UET.  "
    "FA: Fabric Address.",
    "SES, PDS, TSS: UET's sublayers, Semantic, Packet Delivery and Transport Security.  PDC: Packet Delivery Context, "
    "one way.",
    "CCC: Congestion Control Context.  PID: Process ID.  VAS: Virtual Address Space, named by its PASID, Process "
    "Address Space ID.",
)
_FABRIC: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.6, "zorder": 2}
_GPU_WIDTH, _NIC_WIDTH = 1.2, 2.1  # of Ultra Ethernet's nodes [inches]


def server_diagram(
    graph: "nx.Graph",
    title: str,
    notes: Mapping[str, str],
    alert: Mapping[tuple[str, str] | str, str],
    lines: Sequence[str],
    document: Mapping[str, tuple[str, str]] | None = None,
    across_note: str = "",
) -> "Figure":
    """A server: switch chips, GPUs, PCIe switches, NICs and the network, row by row, with links and bandwidths.

    Parameters
    ----------
    graph
        Of a server whose switch chips join its GPUs; its host is left out.
    title
        Of the page.
    notes
        More lines in the boxes of parts, by name, such as a model.
    alert
        Links and parts to show in red, such as those that limit a flow, and why: text beside a link.
    lines
        Text below the drawing.
    document
        What the document has for links of a GPU ("hb"), PCIe ("pcie"), NICs ("nic") and chip pairs ("across"), in
        words, and our verdict.
    across_note
        What chip pairs of two baseboards give.

    Returns
    -------
    The figure.
    """
    names = {kind: nodes_of_kind(graph, kind) for kind in _ROWS}
    boards = list(dict.fromkeys(graph.nodes[gpu]["board"] for gpu in names["gpu"]))
    across = [(a, b) for a, b in graph.edges if graph.nodes[a]["kind"] == graph.nodes[b]["kind"]]
    low = _LINE * len(lines)
    top = low + _ROWS["hb"][0] + 0.85
    page = Diagram(_WIDTH, top + (_STEP * len(across) + 0.2 if across else 0.1), title)
    room, red = (_WIDTH - _MARGIN - 0.1) / len(boards), {pair for pair in alert if isinstance(pair, str)}
    place, at = _Row(page, low, notes, red), dict[str, Box]()
    for i, board in enumerate(boards):
        left = _MARGIN + i * room
        wide = room - 0.1 * (i + 1 < len(boards))
        page.enclosure(left, low + _ROWS["gpu"][0] - 0.1, wide, top - low - 2.85)
        for kind in ("gpu", "hb"):
            mine = [node for node in names[kind] if graph.nodes[node]["board"] == board]
            at |= place.boxes(mine, kind, left, room - 0.1)
        # the name stands between two chips, clear of the links that leave them
        x, name = left + (room - 0.1) / len(mine), f"baseboard {board}" if len(boards) > 1 else "baseboard"
        page.text(x, top - 0.13, name, font=8)
    for kind in ("pcie", "nic", "network"):
        at |= place.boxes(names[kind], kind, _MARGIN, _WIDTH - _MARGIN - 0.1)
    place.draw()
    limits = {frozenset(pair) for pair in alert if not isinstance(pair, str)}
    for (a, b), why in ((pair, why) for pair, why in alert.items() if not isinstance(pair, str)):
        x, y = (sum(ends) / 2 for ends in zip(*_straight(graph, at, a, b), strict=True))
        page.text(x + 0.1, y, why, ha="left", color=ALERT)
    drawn: list[tuple[list, str, float]] = []
    for a, b, edge in graph.edges(data=True):
        if a in at and b in at and (a, b) not in across:
            width = 0.4 + 0.2 * (edge["links"] if edge["kind"] == "hb" else 3)
            drawn.append((_straight(graph, at, a, b), *((ALERT, 2.0) if {a, b} in limits else (EDGE, width))))
    ways, colours, widths = zip(*drawn, strict=True)
    page.links(ways, colours, widths)
    for i, (a, b) in enumerate(across):
        colour = ALERT if {a, b} in limits else rail_colour(i + 1)
        last = max(at[chip].middle[0] for chip in names["hb"] if graph.nodes[chip]["board"] == graph.nodes[a]["board"])
        clear = (last + at[b].middle[0]) / 2  # links of further pairs go up before, those of earlier ones end below
        _over(page, at[a], at[b], graph.edges[a, b], colour, (clear, top + 0.18 + _STEP * i))
    _captions(page, graph, names, low, across_note, document or {})
    for i, line in enumerate(lines):
        page.text(0.08, low - 0.06 - _LINE * i, line, ha="left")
    return page.figure


class _Row:
    """Puts the parts of a kind on a page, side by side."""

    def __init__(self, page: Diagram, low: float, notes: Mapping[str, str], red: set[str]):
        self.page, self.low, self.notes, self.red = page, low, notes, red
        self.parts: list[tuple[Box, str, str]] = []  # with their faces and texts

    def boxes(self, names: Sequence[str], kind: str, left: float, room: float) -> dict[str, Box]:
        """Boxes by name, in a row that begins at `left`."""
        (bottom, height), frames = _ROWS[kind], {}
        for i, name in enumerate(names):
            slot = room / len(names)
            wide = min(slot * 0.88, 2.2) if kind in ("gpu", "hb", "nic") else slot - 0.1 * (len(names) > 1)
            text = f"{name}\n{self.notes[name]}" if name in self.notes else name
            frames[name] = Box(left + (i + 0.5) * slot - wide / 2, self.low + bottom, wide, height)
            self.parts.append((frames[name], KINDS["alert" if name in self.red else _FACES[kind]], text))
        return frames

    def draw(self) -> None:
        """All boxes and their texts."""
        self.page.boxes(*zip(*((box, face, EDGE) for box, face, _ in self.parts), strict=True))
        rows = []
        for box, face, text in self.parts:
            (x, y), font, lines = box.middle, self.page.fitted(text, 8.0, box), text.split("\n")
            first = y + 1.2 * font / 72 * (len(lines) - 1) / 2
            rows += [(x, first - 1.2 * font / 72 * i, line, font, ink_on(face)) for i, line in enumerate(lines)]
        self.page.lines(rows)


def _straight(graph: "nx.Graph", at: Mapping[str, Box], a: str, b: str) -> list[tuple[float, float]]:
    """A line from the upper part to the lower one: vertical where one is above the other, else between their edges."""
    upper, lower = (a, b) if at[a].bottom > at[b].bottom else (b, a)
    x = (at[lower] if at[lower].width < at[upper].width else at[upper]).middle[0]
    if graph.nodes[upper]["kind"] != "hb" and all(box.left <= x <= box.right for box in (at[upper], at[lower])):
        return [(x, at[upper].bottom), (x, at[lower].top)]
    ends = []
    for end, other, side in ((upper, lower, "bottom"), (lower, upper, "top")):
        alike = [n for n in graph[end] if n in at and graph.nodes[n]["kind"] == graph.nodes[other]["kind"]]
        ends.append(at[end].edge(side, (alike.index(other) + 1) / (len(alike) + 1)))
    return ends


def _over(page: Diagram, a: Box, b: Box, edge: Mapping, colour: str, place: tuple[float, float]) -> None:
    """A link drawn above the enclosures, with its text."""
    x, height = place
    (xa, _), (xb, _) = a.middle, b.middle
    page.link([(xa, a.top), (xa, height), (xb, height), (xb, b.top)], colour=colour, linewidth=1.6)
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    page.text(x, height, f"{counted(edge['links'], 'links')}, {_speed(edge['bandwidth_Bps'])}", bbox=ground)


def _captions(
    page: Diagram,
    graph: "nx.Graph",
    names: Mapping[str, Sequence[str]],
    low: float,
    across_note: str,
    document: Mapping[str, tuple[str, str]],
) -> None:
    """What the links of each layer carry, in the left margin, and below it what the document has.

    Parameters
    ----------
    page, graph, names
        The page, the server, and its parts by kind.
    low
        Where the drawing begins [inches].
    across_note, document
        As in `server_diagram`.

    Returns
    -------
    Nothing.
    """
    of_gpu = [edge for *_, edge in graph.edges(names["gpu"][0], data=True)]
    hb = [edge for edge in of_gpu if edge["kind"] == "hb"]
    pcie = next(edge for edge in of_gpu if edge["kind"] == "pcie")
    nics = [edge for *_, edge in graph.edges(data=True) if edge["kind"] == "ethernet"]
    lane, links = f"PCIe x{pcie['links']}", " + ".join(str(edge["links"]) for edge in hb)
    links += f" = {sum(edge['links'] for edge in hb)}" * (len(hb) > 1)
    nic = f"{counted(len(nics), 'NICs')}: {_speed(nics[0]['bandwidth_Bps'])}{' each' * (len(nics) > 1)}"
    layers = [
        ("across", 5.4, across_note),
        ("hb", 3.87, f"NVLink of a GPU:\n{links} links,\n{_both_ways(sum(edge['bandwidth_Bps'] for edge in hb))}"),
        ("pcie", 2.5, f"{lane} of a GPU:\n{_both_ways(pcie['bandwidth_Bps'])}"),
        ("", 1.5, f"{lane} of a NIC:\n{_both_ways(pcie['bandwidth_Bps'])}"),
        ("nic", 0.62, f"{nic},\none way"),
    ]
    line = 0.14  # height of one [inches]
    for kind, y, text in layers:
        said = document.get(kind, ("", ""))
        ours, theirs = (len(words.split("\n")) * bool(words) for words in (text, said[0]))
        top = low + y + line * (ours + theirs) / 2
        page.text(0.08, top - line * ours / 2, text, ha="left", linespacing=1.25)
        page.document_text(0.08, top - line * (ours + theirs / 2) - 0.03, *said)


def _both_ways(value_Bps: float) -> str:
    return f"{_speed(value_Bps)} one way,\n{_speed(2 * value_Bps)} both ways"


def _speed(value_Bps: float) -> str:
    return show(value_Bps, "B/s", 3)


def model_memory_diagram(
    table: pd.DataFrame,
    gpu_bytes: float,
    gpus_per_server: int,
    title: str,
    lines: Sequence[str] = (),
    document: Mapping[str, tuple[str, str]] | None = None,
) -> "Figure":
    """Models in the memory of servers: each fills GPU after GPU.

    Parameters
    ----------
    table
        Columns model, precision, memory_bytes, gpus, servers, network; a row of servers for each.
    gpu_bytes, gpus_per_server
        Memory of a GPU, and GPUs of a server.
    title
        Of the page.
    lines
        Text below the drawing.
    document
        What the document has for a model, and below all others for a server ("server"), in words, and our verdict.

    Returns
    -------
    The figure.
    """
    most, height, margin, document = int(table["servers"].max()), 1.25, 2.3, document or {}
    low = _LINE * (len(lines) + ("server" in document)) + 0.04
    page = Diagram(_WIDTH, height * len(table) + 0.1 + low, title)
    room = (_WIDTH - margin - 0.1) / most
    for i, row in enumerate(table.itertuples()):
        bottom = height * (len(table) - 1 - i) + 0.1 + low
        needs = [f"{show(row.memory_bytes, 'B', 3)}: {counted(row.gpus, 'GPUs')}, {counted(row.servers, 'servers')}"]
        needs += [f"over {row.network}"] if row.network != "none" else ["no network"]
        needs = [part for text in needs for part in text.replace(" and ", "\nand ").split("\n")]
        top = bottom + height - 0.24
        bits = "".join(filter(str.isdigit, row.precision))  # "16" of "bf16"
        page.text(0.08, top, f"{row.model} model, {bits} bits", font=9, ha="left", weight="bold")
        for line, text in enumerate(needs, start=1):
            page.text(0.08, top - 0.06 - 0.16 * line, text, ha="left")
        if row.model in document:
            page.document_text(0.08, top - 0.1 - 0.16 * (len(needs) + 1), *document[row.model])
        left = row.memory_bytes
        for server in range(row.servers):
            box = page.enclosure(margin + server * room, bottom, room - 0.1, height - 0.12, f"server {server + 1}")
            for cell in Box(box.left, box.bottom, box.width, box.height - 0.22).cells(gpus_per_server):
                used = min(left, gpu_bytes)
                left -= used
                page.box(*cell.place, face="#FFFFFF")
                if used > 0:
                    share = used / gpu_bytes
                    page.box(cell.left, cell.bottom, cell.width, cell.height * share, face=_FILL)
                    level = share / 2 if share > 0.5 else (1 + share) / 2  # clear of the line between full and free
                    page.text(cell.middle[0], cell.bottom + level * cell.height, f"{number(used / GB, 3)}\nGB")
    for i, text in enumerate(lines):
        page.text(0.08, low - 0.02 - _LINE * i, text, ha="left")
    if "server" in document:
        page.document_text(0.08, 0.14, *document["server"])
    return page.figure


def ultra_ethernet_diagram(
    graph: "nx.Graph",
    planes: Sequence[Sequence[str]],
    contexts: pd.DataFrame,
    title: str,
    delays: Mapping[str, tuple[str, str, str]],
) -> "Figure":
    """Two nodes of an Ultra Ethernet system with the fabric between them, a row for each plane.

    Parameters
    ----------
    graph
        Of the system.
    planes
        Fabric endpoints by plane, one of each node in each.
    contexts
        Packet delivery contexts: columns pdc, ccc, source, target.
    title
        Of the page.
    delays
        Of the networks scale-out and scale-up our delay and the document's bound, in words, and our verdict.

    Returns
    -------
    The figure.
    """
    nodes = nodes_of_kind(graph, "node")
    row, gap, node_width = 1.5, 0.75, 0.45 + _GPU_WIDTH + _NIC_WIDTH
    low = 0.16 + _LINE * len(_TERMS)
    page = Diagram(_WIDTH, row * len(planes) + gap + 0.75 + low, title)
    for i, terms in enumerate(_TERMS):
        page.text(0.1, low - 0.14 - _LINE * i, terms, ha="left")
    column = page.enclosure(4.0, low, 2.0, page.height - low - 0.1, "Scale-out network", linestyle="--")
    for node, left in zip(nodes, (0.1, _WIDTH - node_width - 0.1), strict=True):
        page.enclosure(left, low, node_width, page.height - low - 0.1, node)
    interfaces = counted(len(nodes_of_kind(graph, "fi")), "FIs")
    inner = 0.27 + _GPU_WIDTH
    around = page.enclosure(inner, low + 0.04, _WIDTH - 2 * inner, page.height - low - 0.42, **_FABRIC)
    page.text(around.left + 0.08, around.top - 0.11, f"fabric: {interfaces}, leaves, spines", ha="left", weight="bold")
    ours, bound, verdict = delays["scale-out"]
    page.text(5.0, around.top - 0.12, f"ours: {ours} one way")
    page.document_text(5.0, around.top - 0.28, bound, verdict, ha="center")
    spines, leaves, above = nodes_of_kind(graph, "spine"), dict[str, Box](), -(-len(planes) // 2)
    for i, members in enumerate(planes):
        bottom = low + 0.1 + row * (len(planes) - 1 - i) + gap * (i < above)
        leaves |= _plane(page, graph, i + 1, members, contexts, (bottom, row - 0.12), i < above)
    _scale_up(page, low + row * above - 0.02, gap + 0.12, delays["scale-up"])
    place = Box(column.left, low + row * (len(planes) - above) + 0.17, column.width, 0.42)
    for spine, cell in zip(spines, place.cells(max(len(spines), 1)), strict=False):
        page.box(*cell.place, spine, kind="switch")
        for leaf, box in leaves.items():
            if graph.has_edge(leaf, spine):
                sides = ("bottom", "top") if box.bottom > cell.top else ("top", "bottom")
                page.link([(cell.middle[0], box.edge(sides[0])[1]), cell.edge(sides[1])], colour=FAINT)
    return page.figure


def _scale_up(page: Diagram, bottom: float, height: float, delay: tuple[str, str, str]) -> None:
    """Links between the GPUs of each node, in the room between their rows, with the delay."""
    ours, bound, verdict = delay
    for x in (0.2 + 0.1, _WIDTH - 0.2 - 0.1):
        page.link([(x, bottom), (x, bottom + height)], colour=LINKS["scale-up"], linewidth=2.2)
    for x, side in ((0.4, "left"), (_WIDTH - 0.4, "right")):
        words = f"Scale-up network:\nNVLink and PCIe,\nours: {ours}"
        page.text(x, bottom + height / 2 + 0.15, words, ha=side, linespacing=1.25)
        page.document_text(x, bottom + height / 2 - 0.15, bound, verdict, ha=side)


def _plane(
    page: Diagram,
    graph: "nx.Graph",
    plane: int,
    members: Sequence[str],
    contexts: pd.DataFrame,
    place: tuple[float, float],
    above: bool,
) -> dict[str, Box]:
    """Draw a row: processes and memory, interface with its endpoint, leaf switch, and the same mirrored.

    place: its bottom and height; above: above the spines, where the leaf has its name above it.
    """
    bottom, height = place
    colour, nodes, leaves = rail_colour(plane), nodes_of_kind(graph, "node"), dict[str, Box]()
    for fep in members:
        node = graph.nodes[fep]["node"]
        left = node == nodes[0]
        near = {graph.nodes[other]["kind"]: other for other in graph[fep]}
        about = {graph.nodes[other]["kind"]: other for other in graph[near["process"]]}
        short = {kind: name.removeprefix(node).strip() for kind, name in (near | about).items()}
        (leaf,) = (other for other in graph[near["port"]] if graph.nodes[other]["kind"] == "leaf")
        x = 0.2 if left else _WIDTH - 0.2 - _GPU_WIDTH
        gpu = page.enclosure(x, bottom, _GPU_WIDTH, height, short["gpu"], facecolor=PARTS["gpu around"])
        run, memory = Box(gpu.left, gpu.bottom, gpu.width, gpu.height - 0.22).cells(1, 2)
        page.box(*run.place, f"process\n{short['process']}", kind="gpu")
        page.box(*memory.place, f"VAS\n{short['vas']}", kind="plain")
        page.link([run.edge("bottom"), memory.edge("top")])
        x = 0.35 + _GPU_WIDTH if left else _WIDTH - 0.35 - _GPU_WIDTH - _NIC_WIDTH
        nic = page.enclosure(x, bottom, _NIC_WIDTH, height, f"NIC, {short['fi']}", facecolor=PARTS["nic around"])
        sent = contexts[contexts["source"] == fep]
        lines = [f"{row.pdc} to {row.target},\nrate set by {row.ccc}" for row in sent.itertuples()]
        words = [f"{fep}, {graph.nodes[fep]['address']}", "UET: SES, PDS, TSS", *lines]
        text, inside = "\n".join(words), height - 0.36
        end = page.box(nic.left + (0.1 if left else 0.62), bottom + 0.1, 1.38, inside, text, kind="nic")
        y = end.middle[1]
        port = page.box(nic.right - 0.5 if left else nic.left + 0.08, y - 0.14, 0.42, 0.28, "port")
        ends = ("right", "left") if left else ("left", "right")
        page.link([(gpu.edge(ends[0])[0], y), end.edge(ends[1])])
        page.link([end.edge(ends[0]), port.edge(ends[1])])
        if leaf not in leaves:
            leaves[leaf] = page.box(4.4, y - 0.22, 1.2, 0.44, leaf, kind="switch", weight="bold")
            page.text(5.0, y + (0.36 if above else -0.36), f"fabric plane {plane}", font=8, color=colour, weight="bold")
        side = leaves[leaf].left if left else leaves[leaf].right
        page.link([port.edge(ends[0]), (side, y)], colour=colour, linewidth=2.2)
        page.text(side + (-0.16 if left else 0.16), y + 0.13, graph.edges[near["port"], leaf]["leaf_port"])
    return leaves
