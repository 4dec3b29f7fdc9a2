"""Rails of optical circuit switches with the circuits that they hold while one kind of traffic is sent."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from railcore.catalog.units import counted
from suite.drawing.diagram import EDGE, FAINT, Box, Diagram
from suite.plotting import TRAFFIC

_PAGE, _SIDE, _GAP = 10.0, 0.95, 0.12  # width of the page, where boxes begin, between boxes [inches]
_DOMAIN, _SWITCH, _PANEL, _LEGEND = 0.78, 0.5, 2.95, 0.35  # heights [inches]
_FONT, _GREY = 8.5, "#E4E4E4"


def circuits_figure(
    circuits: pd.DataFrame, rails: int, domains: Sequence[str], ports: int, panels: Mapping[str, str], title: str
) -> plt.Figure:
    """A panel for each kind of traffic: HB domains below, a circuit switch for each rail above, circuits in it.

    Parameters
    ----------
    circuits
        Columns kind, rail, source and target (HB domains), all from 0.
    rails
        GPUs of a domain.
    domains
        What each HB domain (scale-up or NVLink domain) holds, in order.
    ports
        Of a NIC, each with a fibre to its rail's circuit switch.
    panels
        Kind of traffic: title of its panel.
    title
        Of the page.

    Returns
    -------
    The figure.

    Raises
    ------
    ValueError
        Where a kind takes more circuits at a NIC than it has ports.
    """
    page = Diagram(_PAGE, _PANEL * len(panels) + _LEGEND, title)
    for number, (kind, name) in enumerate(panels.items()):
        low = page.height - (number + 1) * _PANEL
        _Panel(page, low, circuits[circuits["kind"] == kind], rails, domains, ports, f"({'abcd'[number]}) {name}")
    entries = [(TRAFFIC["tensor"], "tensor traffic (TP), in the HB domain")]
    entries += [(TRAFFIC[kind], f"circuit for {kind} traffic ({kind[0].upper()}P)") for kind in panels]
    handles = [Line2D([], [], color=colour, linewidth=2.4, label=text) for colour, text in entries]
    handles.append(Line2D([], [], color=FAINT, linewidth=0.8, label="fibre without a circuit"))
    look: dict = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.0), "fontsize": _FONT, "columnspacing": 1.4}
    page.ax.legend(handles=handles, ncols=len(handles), **look)
    return page.figure


def _fitting(box: Box, *texts: str) -> str:
    """The first of these texts that fits a box in a line, "" for none."""
    return next((text for text in texts if 0.073 * len(text) + 0.06 < box.width), "")


class _Panel:
    """Places of domains and switches in a band of the page."""

    def __init__(
        self,
        page: Diagram,
        low: float,
        circuits: pd.DataFrame,
        rails: int,
        domains: Sequence[str],
        ports: int,
        name: str,
    ):
        self.page, self.ports = page, ports
        page.text(0.08, low + _PANEL - 0.18, name, font=9.5, ha="left")
        row, top = (self._row(low + y, high, count) for y, high, count in self._rows(len(domains), rails))
        names = {"optical\ncircuit\nswitches": top[0].middle[1], "GPUs,\nby rank": row[0].top - 0.2}
        for text, y in (names | {"HB\ndomains": row[0].bottom + 0.24}).items():
            page.text(_SIDE, y, text, font=_FONT, ha="right")
        self.gpus = [self._domain(box, f"Domain {i}: {domains[i]}", i * rails, rails) for i, box in enumerate(row)]
        for rail, box in enumerate(top):
            self._switch(box, rail, circuits[circuits["rail"] == rail])

    def _rows(self, domains: int, rails: int) -> list[tuple[float, float, int]]:
        """Lower edge in the panel, height, and how many boxes: of domains, of switches."""
        return [(0.1, _DOMAIN, domains), (_PANEL - 0.5 - _SWITCH, _SWITCH, rails)]

    def _row(self, bottom: float, high: float, count: int) -> list[Box]:
        """Equal boxes side by side."""
        wide = (_PAGE - _SIDE - 0.1 - count * _GAP) / count
        return [Box(_SIDE + _GAP + i * (wide + _GAP), bottom, wide, high) for i in range(count)]

    def _domain(self, box: Box, text: str, first: int, rails: int) -> list[Box]:
        """An HB domain with its GPUs, by rank from the first, and their tensor traffic; the boxes of the GPUs."""
        self.page.box(*box.place, face="#F6F6F6", edgecolor="#7A7A7A", zorder=1)
        cells = Box(box.left, box.top - 0.34, box.width, 0.36).cells(rails, gap=min(0.08, 0.1 * box.width / rails))
        for rank, cell in enumerate(cells, start=first):
            self.page.box(*cell.place, _fitting(cell, str(rank)), face=_GREY, font=_FONT, linewidth=0.5)
        y = box.top - 0.43
        lines = [[cell.edge("bottom"), (cell.middle[0], y)] for cell in cells]
        self.page.links([[(cells[0].middle[0], y), (cells[-1].middle[0], y)], *lines], TRAFFIC["tensor"], 2.2, 3)
        self.page.label(
            Box(box.left, box.bottom + 0.04, box.width, 0.24),
            _fitting(box, text, text.split(":")[0].removeprefix("Domain ")),
            _FONT,
        )
        return cells

    def _switch(self, box: Box, rail: int, circuits: pd.DataFrame) -> None:
        """A circuit switch: ports in the order of the domains, fibres below, circuits inside."""
        self.page.box(*box.place, face="#FFFFFF", edgecolor=EDGE, linewidth=1.4)
        self.page.text(box.middle[0], box.top + 0.12, f"Rail {rail}", font=_FONT)
        places, used = self._places(box), dict[int, str]()
        for row in circuits.itertuples():
            ends = [self._free(used, domain) for domain in (row.source, row.target)]
            used |= dict.fromkeys(ends, TRAFFIC[row.kind])
            (x, y), (other, _) = sorted(places[end] for end in ends)
            angle, tall = np.linspace(0, np.pi, 25), 0.1 + 0.3 * (other - x) / box.width
            arc = np.stack([(x + other) / 2 - (other - x) / 2 * np.cos(angle), y + tall * np.sin(angle)], axis=-1)
            self.page.links([arc], TRAFFIC[row.kind], 2.0, 5)
        for port, place in enumerate(places):
            gpu = self.gpus[port // self.ports][rail]
            start = gpu.edge("top", (port % self.ports + 1) / (self.ports + 1))
            look = (used[port], 1.2, 4) if port in used else (FAINT, 0.8, 2)
            self.page.links([[start, place]], *look)
        for face in {used.get(port, "#FFFFFF"): None for port in range(len(places))}:
            xs, ys = zip(
                *(place for port, place in enumerate(places) if used.get(port, "#FFFFFF") == face), strict=True
            )
            dots = Line2D(xs, ys, marker="o", linestyle="", markersize=4, markerfacecolor=face, markeredgecolor=EDGE)
            dots.set(markeredgewidth=0.6, zorder=6)
            self.page.ax.add_artist(dots)

    def _places(self, box: Box) -> list[tuple[float, float]]:
        """Ports of a switch, those of a NIC nearer to each other."""
        step = box.width / len(self.gpus)
        shares = [0.3 + 0.4 * (port + 0.5) / self.ports for port in range(self.ports)]
        shares = [0.5] if self.ports == 1 else shares
        return [(box.left + (i + share) * step, box.bottom + 0.08) for i in range(len(self.gpus)) for share in shares]

    def _free(self, used: Mapping[int, str], domain: int) -> int:
        """The first port of a domain without a circuit."""
        for port in range(domain * self.ports, (domain + 1) * self.ports):
            if port not in used:
                return port
        have = counted(self.ports, "ports")
        raise ValueError(f"a NIC of HB domain {domain} has {have}, and its circuits take more: give more ports")
