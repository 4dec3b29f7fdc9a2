"""A cluster's five networks in one picture, one or all in colour; and a fabric's profiles beside its layers."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.lines import Line2D

from railcore.catalog.units import counted, number, show
from suite.drawing.diagram import EDGE, FAINT, INK, KINDS, Box, Diagram
from suite.drawing.symbols import rail_colour
from suite.plotting import GREY, LINKS, ink_on

if TYPE_CHECKING:
    import networkx as nx

_SHARED = ("frontend", "management", "storage")  # reached through a NIC that a node's GPUs share
_NAMES = {"scale-out": "Scale-out", "scale-up": "Scale-up"} | {name: name.capitalize() for name in _SHARED}
_PALE, _PALE_LINE, _PALE_INK = "#F3F3F3", "#DDDDDD", "#8C8C8C"
_WIDTH, _LEFT, _EDGE = 10.0, 1.85, 0.12  # page, where nodes begin, margin [inches]
_BAR, _PITCH = 0.13, 0.27  # a bar's height, and from bar to bar [inches]
_MOST_NODES, _MOST_GPUS, _MOST_CELLS, _MOST_SERVERS = 6, 8, 32, 4  # drawn: nodes, GPUs of one and of all, servers
_NOTE_LINE = 0.145  # height of a line of the note [inches]
_NODE = 1.6  # height of a node [inches]
_ABOVE = _NODE + 0.2  # from a node's bottom to the first rail [inches]
_FIELD = 0.18  # height of a field of a profile [inches]
_LEVELS = 0.7  # width of the names of a fabric's rows [inches]
_SECOND_INK = GREY
_LAYER_KINDS = {"Segment": "nic", "Pod": "gpu", "Multi-Pod": "hb", "Global": "pcie"}


def cluster_figure(
    graph: "nx.Graph", table: pd.DataFrame, lit: str = "", first: int = 1, title: str = "", said: str = ""
) -> plt.Figure:
    """A cluster: nodes with GPUs and NICs, rails above them, the networks of shared NICs and their servers below.

    Parameters
    ----------
    graph
        Of all networks: nodes with kind, network, domain, rank, rail and tier, edges with network.
    table
        A row for each network: network, port_Bps, node_Bps, technology, transport, control_plane, data_plane,
        isolation, lossless, joins, nic.
    lit
        Network drawn in colour, the others faint; "" for all.
    first
        Number of the first rail, GPU and node rank, 0 or 1.
    title
        Above the picture.
    said
        What a document says of the lit network, or of all: lines below it.

    Returns
    -------
    The figure. Of many nodes, or GPUs of a node, the first ones are drawn, and the title says of how many.
    """
    return _ClusterPage(graph, table.set_index("network"), lit, first, title, said).page.figure


class _ClusterPage:
    """Places of a cluster's parts on a page, from the bottom up."""

    def __init__(self, graph: "nx.Graph", table: pd.DataFrame, lit: str, first: int, title: str, said: str):
        self.graph, self.table, self.lit, self.first = graph, table, lit, first
        self.gpus = _gpus_by_node(graph)
        most = max(map(len, self.gpus.values()))
        drawn = min(most, _MOST_GPUS)
        shown = list(self.gpus)[: max(1, min(_MOST_NODES, _MOST_CELLS // drawn))]
        self.gpus = {domain: self.gpus[domain][:drawn] for domain in shown}
        self.rows = _rows_of_switches(graph, {nic for gpus in self.gpus.values() for gpu in gpus for nic in graph[gpu]})
        lines = "\n".join(filter(None, (self._note() if lit else "", said)))
        high = _NOTE_LINE * (lines.count("\n") + 1) + 0.14
        note = _EDGE + (high + 0.1 if lines else 0.0)
        self.bars = {name: note + 0.68 + i * _PITCH for i, name in enumerate(reversed(_SHARED))}
        self.nodes_at = note + 0.78 + len(_SHARED) * _PITCH
        few = [f"{len(shown)} of {number(len(_gpus_by_node(graph)))} nodes"] * (len(shown) < len(_gpus_by_node(graph)))
        few += [f"{drawn} of {number(most)} GPUs of a node"] * (drawn < most)
        whole = f"{title} (drawn: {', '.join(few)})" if few else title
        self.page = Diagram(_WIDTH, self.nodes_at + _ABOVE + (len(self.rows) + 1) * _PITCH, whole)
        self.taps: list[float] = []
        self.boxes: list[tuple[Box, str, str]] = []
        self.words: list[tuple[float, float, str, float, str]] = []
        self.lines: dict[tuple[str, str], list] = {}
        self.dots: dict[tuple[str, str], list] = {}
        for i, (name, members) in enumerate(self.rows.items()):
            self._bar("scale-out", self._row_name(name), self._row_at(i), self._row_colour(members))
        for name, y in self.bars.items():
            speed = f"{_NAMES[name]}, {show(table.loc[name, 'node_Bps'], 'bps')} a node"
            self._bar(name, speed, y, LINKS[name])
        wide = (_WIDTH - _EDGE - _LEFT) / len(shown)
        for i, domain in enumerate(shown):
            self._node(domain, Box(_LEFT + i * wide + 0.04, self.nodes_at, wide - 0.08, _NODE))
        for network, y, text in (
            ("scale-out", 1.4, f"NIC of each GPU, {self._rate('scale-out')}"),
            ("", 1.12, "GPUs, by local rank"),
            ("scale-up", 0.8, f"scale-up, {self._rate('scale-up')} a GPU"),
            ("", 0.22, "NICs that GPUs share"),
        ):
            on = self._on(network) if network else not lit or lit in _SHARED or y > 1
            self._text(Box(_EDGE, self.nodes_at + y - 0.11, _LEFT - _EDGE - 0.05, 0.22), text, on)
        self._uplinks()
        self._backend_bracket()
        self._servers(Box(_LEFT, note, _WIDTH - _EDGE - _LEFT, 0.42))
        self._draw_all()
        if lines:
            self.page.box(_EDGE, _EDGE, _WIDTH - 2 * _EDGE, high, lines, kind="note", font=8)

    def _row_at(self, row: int) -> float:
        """Bottom of a bar above the nodes."""
        return self.nodes_at + _ABOVE + row * _PITCH

    def _rate(self, network: str) -> str:
        return show(self.table.loc[network, "port_Bps"], "bps")

    def _backend_bracket(self) -> None:
        """A bracket around the scale-out backend's rows, with its name above theirs."""
        low, high, x = self._row_at(0), self._row_at(len(self.rows) - 1) + _BAR, _LEFT - 0.1
        self._line([(x + 0.06, low), (x, low), (x, high), (x + 0.06, high)], "scale-out", INK)
        head = Box(_EDGE, high + 0.04, _LEFT - _EDGE - 0.05, 0.23)
        self._text(head, "Scale-out backend", self._on("scale-out"), weight="bold")

    def _on(self, network: str) -> bool:
        return self.lit in ("", network)

    def _box(self, box: Box, network: str, face: str) -> None:
        """A box of a network, drawn with the others by `_draw_all`."""
        on = self._on(network)
        self.boxes.append((box, face if on else _PALE, EDGE if on else _PALE_LINE))

    def _line(self, points: Sequence[tuple[float, float]], network: str, colour: str) -> None:
        """A line, drawn with the others of its network and colour by `_draw_all`."""
        self.lines.setdefault((network, colour if self._on(network) else _PALE_LINE), []).append(points)

    def _draw_all(self) -> None:
        self.page.boxes(*zip(*self.boxes, strict=True))
        self.page.lines(self.words)
        for (network, colour), lines in self.lines.items():
            self.page.links(lines, colour, *((1.1, 2) if self._on(network) else (0.7, 1)))
        for (network, colour), dots in self.dots.items():
            look: dict[str, Any] = {
                "color": colour if self._on(network) else _PALE_LINE,
                "markeredgecolor": "white",
                "zorder": 4,
            }
            marks = Line2D(*zip(*dots, strict=True), marker="o", linestyle="", markersize=4.2, **look)
            marks.set_markeredgewidth(0.5)
            self.page.ax.add_artist(marks)

    def _row_colour(self, members: list[str]) -> str:
        rail = self.graph.nodes[members[0]]["rail"]
        return rail_colour(rail) if rail else EDGE

    def _text(self, box: Box, text: str, on: bool, font: float = 8.0, **style: Any) -> None:
        """A text in a box that is drawn already, pale where it is not lit."""
        self.page.label(box, text, font, **{"color": INK if on else _PALE_INK, **style})

    def _word(self, box: Box, text: str, on: bool, face: str = "#FFFFFF") -> None:
        """A line of text in a box of a colour, drawn with the others by `_draw_all`."""
        ink = _PALE_INK if not on else INK if face == "#FFFFFF" else ink_on(face)
        self.words.append((*box.middle, text, self.page.fitted(text, 8.0, box), ink))

    def _bar(self, network: str, name: str, y: float, colour: str) -> None:
        self._box(Box(_LEFT, y, _WIDTH - _EDGE - _LEFT, _BAR), network, colour)
        self._text(Box(_EDGE, y + _BAR / 2 - 0.115, _LEFT - _EDGE - 0.05, 0.23), name, self._on(network))

    def _row_name(self, name: str) -> str:
        """Of a row of switches: "Rail 0", with its switches where there are several."""
        members = self.rows[name]
        rail = self.graph.nodes[members[0]]["rail"]
        label = f"Rail {rail - 1 + self.first}" if rail else name
        return f"{label}, {counted(len(members), 'switches')}" if len(members) > 1 or not rail else label

    def _node(self, domain: int, box: Box) -> None:
        gpus = self.gpus[domain]
        self.page.enclosure(*box.place)
        nics, cells, inner, name, shared = (
            Box(box.left, box.bottom + low, box.width, high)
            for low, high in ((1.26, 0.28), (0.95, 0.34), (0.68, 0.24), (0.44, 0.22), (0.0, 0.44))
        )
        self._text(name, f"Node {domain}", True, 8, weight="bold")
        inner = Box(inner.left + 0.05, inner.bottom, inner.width - 0.1, inner.height)
        every = self.graph.nodes(data=True)
        hb = [node for node, at in every if at["kind"] == "hb" and at["domain"] == domain]
        self._box(inner, "scale-up", KINDS["hb"])
        self._word(inner, self._scale_up_text(len(hb)), self._on("scale-up"))
        pairs = zip(cells.cells(len(gpus), gap=0.035), nics.cells(len(gpus), gap=0.035), strict=True)
        for node, (cell, nic_cell) in zip(gpus, pairs, strict=True):
            label = f"GPU {self.graph.nodes[node]['rank'] - 1 + self.first}"
            self._box(cell, self.lit, KINDS["gpu"])
            self._word(cell, label if cell.width > 0.42 else label[4:], True)
            for nic in (n for n in self.graph[node] if self.graph.nodes[n]["network"] == "scale-out"):
                self._dedicated(nic, cell, nic_cell)
            ends = cell.edge("bottom"), (cell.middle[0], inner.top)
            self._line(ends, "scale-up", LINKS["scale-up"])
        for cell, network in zip(shared.cells(len(_SHARED), gap=0.03), _SHARED, strict=True):
            self._shared(cell, network)

    def _scale_up_text(self, switches: int) -> str:
        name = str(self.table.loc["scale-up", "technology"])
        return f"{name}, {counted(switches, 'switches')}" if switches else f"{name}, mesh"

    def _dedicated(self, nic: str, gpu: Box, cell: Box) -> None:
        """The NIC of a GPU and its line to the rail."""
        rows = [i for i, members in enumerate(self.rows.values()) if set(members) & set(self.graph[nic])]
        colour = self._row_colour(list(self.rows.values())[rows[0]]) if rows else EDGE
        self._box(cell, "scale-out", colour)
        self._line([gpu.edge("top"), cell.edge("bottom")], "scale-out", colour)
        for row in rows:
            self._tap(cell.edge("top"), self._row_at(row) + _BAR / 2, "scale-out", colour)

    def _tap(self, start: tuple[float, float], y: float, network: str, colour: str) -> None:
        """A line straight to a bar, with a dot where it ends."""
        self._line([start, (start[0], y)], network, colour)
        self.dots.setdefault((network, colour), []).extend([start, (start[0], y)])

    def _shared(self, cell: Box, network: str) -> None:
        colour = LINKS[network]
        self._box(cell, network, colour)
        short = {"frontend": "Front", "management": "Mgmt", "storage": "Stor."}[network]
        name = _NAMES[network] if cell.width > 0.075 * len(network) else short
        self._word(cell, name, self._on(network), colour)
        self.taps.append(cell.middle[0])
        self._tap(cell.edge("bottom"), self.bars[network] + _BAR / 2, network, colour)

    def _uplinks(self) -> None:
        """Lines from rails to what joins them."""
        names = list(self.rows)
        for i, members in enumerate(self.rows.values()):
            for j, upper in enumerate(self.rows.values()):
                if j > i and any(self.graph.has_edge(a, b) for a in members for b in upper):
                    ys = [self._row_at(row) + _BAR / 2 for row in (i, j)]
                    x = _WIDTH - _EDGE - 0.08 - 0.1 * (len(names) - i)
                    self._line([(x, ys[0]), (x, ys[1])], "scale-out", self._row_colour(members))

    def _servers(self, box: Box) -> None:
        """Machines beside the nodes, a few of each network, and their lines to its bar."""
        kinds = {
            name: [node for node, at in self.graph.nodes(data=True) if at["kind"] == "server" and at["network"] == name]
            for name in _SHARED
        }
        texts = []
        for name, servers in kinds.items():
            kept = servers if len(servers) <= _MOST_SERVERS else servers[: _MOST_SERVERS - 1]
            texts += [(name, node + "\nto users" * (name == "frontend")) for node in kept]
            if len(kept) < len(servers):
                texts.append((name, f"{number(len(servers) - len(kept))} more"))
        cells = Box(box.left - 0.04, box.bottom - 0.04, box.width + 0.08, box.height + 0.08).cells(len(texts), gap=0.08)
        for (name, text), cell in zip(texts, cells, strict=True):
            narrow = min(cell.width, 1.7)
            middle = cell.middle[0]
            cell = Box(middle - narrow / 2, cell.bottom, narrow, cell.height)
            self._box(cell, name, KINDS["user"])
            if "\n" in text or narrow < 0.07 * len(text):
                self._text(cell, text if "\n" in text else text.replace(" ", "\n", 1), self._on(name))
            else:
                self._word(cell, text, self._on(name))
            shares = (cell.edge("top", 0.5 + sign * step / 20) for step in range(10) for sign in (1, -1))
            free = next((at for at in shares if all(abs(at[0] - x) > 0.06 for x in self.taps)), cell.edge("top"))
            self._tap(free, self.bars[name] + _BAR / 2, name, LINKS[name])
        self._text(
            Box(_EDGE, box.bottom, _LEFT - _EDGE - 0.05, box.height), "beside the nodes", self.lit in ("", *_SHARED)
        )

    def _note(self) -> str:
        """What the lit network is, in two lines."""
        row = self.table.loc[self.lit]
        one = "GPU" if self.lit in ("scale-out", "scale-up") else "port"
        rates = [f"{show(row[f'{part}_Bps'], 'bps')} a {name}" for part, name in (("port", one), ("node", "node"))]
        speed = f"{row['nic']}, {rates[0]}, {rates[1]}, one direction"
        if self.lit == "scale-up":
            ratio = row["port_Bps"] / self.table.loc["scale-out", "port_Bps"]
            speed += (
                f"; {show(row['port_Bps'], 'B/s')} a GPU, {number(ratio, 3)} x its NIC of {self._rate('scale-out')}"
            )
        run = f"{row['technology']}, {row['transport']}; control plane: {row['control_plane']}; data plane: "
        run += f"{row['data_plane']}; isolation: {row['isolation']}; "
        run += "lossless" if row["lossless"] else "packets may be dropped"
        return f"Joins {row['joins']}: {speed}\n{run}. Grey: the other networks"


def _gpus_by_node(graph: "nx.Graph") -> dict[int, list[str]]:
    """GPUs of each node, by rank."""
    every = [(at["domain"], at["rank"], node) for node, at in graph.nodes(data=True) if at["kind"] == "gpu"]
    return {domain: [node for *_, node in part] for domain, part in groupby(sorted(every), key=lambda gpu: gpu[0])}


def _rows_of_switches(graph: "nx.Graph", nics: set[str]) -> dict[str, list[str]]:
    """Switches of the scale-out network by rail, then those above the rails by tier; rails of these NICs alone."""
    every = [
        (at, node) for node, at in graph.nodes(data=True) if at["kind"] == "switch" and at["network"] == "scale-out"
    ]
    rails = {at["rail"] for at, node in every if nics & set(graph[node])}
    rows: dict[str, list[str]] = {}
    for at, node in sorted(every, key=lambda pair: (pair[0]["rail"] is None, pair[0]["rail"] or 0, pair[0]["tier"])):
        if at["rail"] is None or at["rail"] in rails:
            name = f"Rail {at['rail']}" if at["rail"] else f"Tier {at['tier']}" if at["tier"] > 1 else "Rails"
            rows.setdefault(name, []).append(node)
    return rows


def profiles_figure(graph: "nx.Graph", table: pd.DataFrame, title: str, note: str = "") -> plt.Figure:
    """A fabric's domains on the left, each with its profiles' fields and values beside it, the global profile over all.

    Parameters
    ----------
    graph
        Of a fabric of three tiers: switches with tier, pod and segment, GPUs with domain.
    table
        Of its profiles: layer, profile, name and value of a field, document (the values named there).
    title, note
        Over the picture, and a line below it.

    Returns
    -------
    The figure.
    """
    low = _EDGE + 0.16 * bool(note)
    wide, gap = 4.7, 0.1
    left = 10.0 - wide - _EDGE
    overall = table[table["layer"] == "Global"]
    others = dict(list(table[table["layer"] != "Global"].groupby("profile", sort=False)))
    body = sum(0.36 + _FIELD * len(rows) for rows in others.values()) + gap * (len(others) - 1)
    top = 0.76 + 0.14 * max(len(_options(row)) for row in overall.itertuples())
    page = Diagram(10.0, low + body + top + 2 * _EDGE, title)
    page.text(_EDGE, 0.13, note, ha="left")
    _global_profile(page, Box(_EDGE, low + body + _EDGE, 10.0 - 2 * _EDGE, top), overall)
    y, bands = low, dict[str, tuple[float, float]]()
    for name, rows in others.items():
        box, layer = Box(left, y, wide, 0.36 + _FIELD * len(rows)), str(rows["layer"].iloc[0])
        _profile_list(page, box, f"{layer}: {name}", _LAYER_KINDS[layer], rows)
        bands[layer] = (bands.get(layer, (y, y))[0], box.top)
        y = box.top + gap
    _Domains(page, graph, Box(_EDGE, low, left - 2 * _EDGE, body), bands)
    return page.figure


def _profile_list(page: Diagram, box: Box, name: str, kind: str, rows: pd.DataFrame) -> None:
    """A profile's name, and its fields and values in columns of text."""
    page.box(*box.place, kind="note")
    head = Box(box.left, box.top - 0.27, box.width, 0.27)
    page.box(*head.place, name, kind=kind, font=9, weight="bold")
    plain, bold = [], []
    for i, row in enumerate(rows.itertuples()):
        y = head.bottom - 0.11 - _FIELD * i
        plain.append((box.left + 0.1, y, row.name, 8.0, INK))
        bold.append((box.left + 1.68, y, row.value, 8.0, INK))
        plain.append((box.left + 3.0, y, row.document, 8.0, _SECOND_INK))
    page.lines(plain, left=True)
    page.lines(bold, left=True, bold=True)


def _global_profile(page: Diagram, box: Box, rows: pd.DataFrame) -> None:
    """The profile over all, a cell for each field."""
    page.box(*box.place, kind="note")
    head = Box(box.left, box.top - 0.27, box.width, 0.27)
    name = rows["profile"].iloc[0]
    page.box(*head.place, f"All domains: {name}", kind=_LAYER_KINDS["Global"], font=9, weight="bold")
    plain, bold = [], []
    for row, cell in zip(rows.itertuples(), box.cells(len(rows), gap=0.02), strict=True):
        x, y = cell.middle[0], head.bottom
        plain.append((x, y - 0.13, row.name, 8.0, INK))
        bold.append((x, y - 0.3, row.value, 8.0, INK))
        plain += [(x, y - 0.48 - 0.14 * i, line, 8.0, _SECOND_INK) for i, line in enumerate(_options(row))]
    page.lines(plain)
    page.lines(bold, bold=True)


def _options(row: Any) -> list[str]:
    """Values that the text names for a field of the global profile, in lines."""
    return wrap(row.document, 20, break_on_hyphens=False)


class _Domains:
    """Super Spine switches over Pods over Segments of GPU hosts, in the bands of their profiles."""

    def __init__(self, page: Diagram, graph: "nx.Graph", box: Box, bands: Mapping[str, tuple[float, float]]):
        self.page, self.graph, self.at, self.band = page, graph, dict[str, Box](), bands["Pod"]
        self.boxes: list[tuple[Box, str, str]] = []
        self.words: list[tuple[float, float, str, float, str]] = []
        self.levels: dict[str, Box] = {}
        low, high = bands["Multi-Pod"]
        whole = page.enclosure(box.left, box.bottom, box.width, high - box.bottom, "Multi-Pod: 3-tier, 5-stage")
        inner = Box(box.left + _LEVELS, box.bottom + 0.08, box.width - _LEVELS - 0.06, low - box.bottom - 0.14)
        top = Box(inner.left, low + 0.25 * (high - low), inner.width, 0.4)
        self._row(top, self._tier(3), "Super Spine switches", "hb")
        self._inside(inner, self._grouped(self._tier(1), "pod"), "Pod", self._pod)
        self._links()
        for name, row in self.levels.items():
            for i, word in enumerate(lines := name.split()):
                y = row.middle[1] + 0.14 * ((len(lines) - 1) / 2 - i)
                self.words.append((whole.left + _LEVELS / 2, y, word, 8.0, INK))
        page.boxes(*zip(*self.boxes, strict=True))
        page.lines(self.words)

    def _tier(self, tier: int) -> list[str]:
        return [node for node, at in self.graph.nodes(data=True) if at["kind"] == "switch" and at["tier"] == tier]

    def _grouped(self, switches: list[str], key: str) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for node in switches:
            groups.setdefault(self.graph.nodes[node][key], []).append(node)
        return groups

    def _inside(self, box: Box, parts: Mapping[int, list[str]], name: str, draw: Callable) -> None:
        """Some parts side by side."""
        for (number_, leaves), cell in zip(parts.items(), box.cells(len(parts), gap=0.05), strict=True):
            draw(cell, leaves, f"{name} {number_}")

    def _pod(self, box: Box, leaves: list[str], name: str) -> None:
        (low, high), pod = self.band, self.graph.nodes[leaves[0]]["pod"]
        self.page.enclosure(*box.place, facecolor="#EDEDED")
        self.page.text(box.middle[0], box.bottom + 0.11, f"{name}: 2-tier, 3-stage")  # below, clear of links
        spines = self._grouped(self._tier(2), "pod")[pod]
        self._row(Box(box.left, low + 0.35 * (high - low), box.width, 0.38), spines, "Spine switches", "gpu")
        box = Box(box.left + 0.02, box.bottom + 0.22, box.width - 0.04, low - box.bottom - 0.27)
        self._inside(box, self._grouped(leaves, "segment"), "Segment", self._segment)

    def _segment(self, box: Box, leaves: list[str], name: str) -> None:
        self.page.enclosure(*box.place)
        self._row(Box(box.left, box.bottom + 0.6 * box.height, box.width, 0.38), leaves, "Rail switches", "nic")
        gpus = [
            self.graph.nodes[n] for leaf in leaves for n in self.graph[leaf] if self.graph.nodes[n]["kind"] == "gpu"
        ]
        hosts, rails = sorted({at["domain"] for at in gpus}), len({at["rank"] for at in gpus})
        place = Box(box.left, box.bottom + 0.5, box.width, 0.36)
        self._row(place, [f"D{host}" for host in hosts], "GPU hosts", "user")
        self.page.text(box.middle[0], box.bottom + 0.4, f"{counted(rails, 'GPUs')} each")
        self.page.text(box.middle[0], box.bottom + 0.15, name)  # below, clear of links

    def _row(self, box: Box, nodes: list[str], name: str, kind: str) -> None:
        """Switches or hosts side by side, numbered, the name of the row at its left."""
        self.levels.setdefault(name, box)
        for i, (node, cell) in enumerate(zip(nodes, box.cells(len(nodes), gap=0.05), strict=True), start=1):
            self.at[node] = cell
            self.boxes.append((cell, KINDS[kind], EDGE))
            self.words.append((*cell.middle, f"{i}", 8.0, INK))

    def _links(self) -> None:
        """Lines between switches and hosts; a host for all its GPUs."""
        done, lines = set(), []
        for a, b, at in self.graph.edges(data=True):
            if at["kind"] == "hb":
                continue
            ends = [f"D{self.graph.nodes[n]['domain']}" if self.graph.nodes[n]["kind"] == "gpu" else n for n in (a, b)]
            if frozenset(ends) not in done:
                done.add(frozenset(ends))
                lower, upper = sorted((self.at[end] for end in ends), key=lambda box: box.bottom)
                lines.append([lower.edge("top"), upper.edge("bottom")])
        self.page.links(lines, FAINT, 0.7)
