"""Inside a rail switch: interfaces by VLAN with their MAC tables, and its routes on their way to the spines."""

from textwrap import wrap
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from suite.drawing.diagram import ALERT, Box, Diagram
from suite.drawing.symbols import rail_colour

_PAGE, _MARGIN, _HEAD = 10.0, 0.12, 0.3  # inches
_LINE = 0.138  # height of a line of a table [inches]
_FONT = 8.0  # [points]
_MOST_LINES = 16  # of a MAC table before it takes another column
_STRETCH = 2.0  # most that lines of MAC tables move apart where the routes are higher
_ROUTES = 4.35  # width of the routes' side [inches]


def switch_tables(
    vlans: pd.DataFrame, macs: pd.DataFrame, routes: pd.DataFrame, title: str, note: str = ""
) -> plt.Figure:
    """A rail switch from its interfaces to what it tells the spines.

    Parameters
    ----------
    vlans
        Columns vlan, rail, interfaces (as text), subnet, gateway.
    macs
        The MAC tables: columns vlan, interface, mac.
    routes
        Columns table ("RIB", "Loc-RIB", "output policy" and "Adj-RIB-Out"), variant (such as "document"), prefix,
        via (beside it), text (lines below it), valid. A prefix that is not valid is red.
    title, note
        Over the picture, and a line below it.

    Returns
    -------
    The figure.
    """
    tables = {vlan: part for vlan, part in macs.groupby("vlan")}
    longest = max(len(part) for part in tables.values())
    across = 2 if len(vlans) > 1 else 1
    columns = -(-longest // _MOST_LINES)
    lines = -(-longest // columns)
    deep = -(-len(vlans) // across)
    fixed = deep * (_HEAD + 0.12 + 0.07) + 0.07 + 0.28  # of the height, whatever the size of the lines
    text_high = deep * (lines + 1) * _LINE
    routes_high = _routes_high(routes)
    stretch = min(max((routes_high - fixed) / text_high, 1.0), _STRETCH)
    inside = fixed - 0.28 + stretch * text_high
    high = max(inside + 0.28, routes_high)
    low = 0.08 + 0.2 * bool(note)
    page = Diagram(_PAGE, high + low + 0.07, title)
    page.text(_MARGIN, 0.13, note, ha="left")
    wide = _PAGE - _ROUTES - 2 * _MARGIN - 0.15
    frame = page.enclosure(_MARGIN, low + high - inside - 0.28, wide, inside + 0.28, facecolor="#E9E9E9")
    head = "VLANs, and the MAC address table of each" if len(vlans) > 1 else "its VLAN and MAC address table"
    page.text(frame.middle[0], frame.top - 0.14, f"Rail switch: {head}", weight="bold")
    cells = Box(frame.left, frame.bottom, wide, inside)
    for cell, row in zip(cells.cells(across, deep, 0.07), vlans.itertuples(), strict=False):
        _vlan(page, cell, row, tables[row.vlan], columns, stretch)
    _route_tables(page, routes, Box(_PAGE - _MARGIN - _ROUTES, low, _ROUTES, high))
    return page.figure


def _vlan(page: Diagram, cell: Box, row, macs: pd.DataFrame, columns: int, stretch: float) -> None:
    """A VLAN: its name in its rail's colour, its subnet, and its MAC table in columns of lines `stretch` as high."""
    page.box(cell.left, cell.bottom, cell.width, cell.height)
    text = f"VLAN {row.vlan}, rail {row.rail}: interfaces {row.interfaces}\n{row.subnet}, gateway {row.gateway}"
    head = page.box(cell.left, cell.top - _HEAD, cell.width, _HEAD, text, face=rail_colour(row.rail), font=8)
    lines = [f"{port:>4}  {mac}" for port, mac in zip(macs["interface"], macs["mac"], strict=True)]
    row_height, step = -(-len(lines) // columns), cell.width / columns
    for i in range(columns):
        left, top = cell.left + i * step + 0.12, head.bottom - 0.05
        shown = ["port  MAC address", *lines[i * row_height : (i + 1) * row_height]]
        style = {"ha": "left", "va": "top", "family": "monospace", "linespacing": 72 * stretch * _LINE / _FONT}
        page.text(left, top, "\n".join(shown), _FONT, **style)


def _table_heights(routes: pd.DataFrame) -> dict[str, float]:
    """Height of each table of routes, the longest of its variants [inches]."""
    high = {}
    for name, part in routes.groupby("table", sort=False):
        variants = [of for _, of in part.groupby("variant", sort=False)]
        width = _ROUTES / len(variants)
        lines = [sum(1 + len(_lines(text, width)) for text in of["text"]) for of in variants]
        high[str(name)] = 0.34 + max(lines) * _LINE
    return high


def _routes_high(routes: pd.DataFrame) -> float:
    high = _table_heights(routes)
    return sum(high.values()) + 0.3 * (len(high) - 1)


def _route_tables(page: Diagram, routes: pd.DataFrame, place: Box) -> None:
    """Connected routes, the same in BGP, the output policy, and what peers are told; variants side by side."""
    high = _table_heights(routes)
    names = list(high)
    gap = (place.height - sum(high.values())) / max(len(names) - 1, 1)
    top, before = place.top, list[Box]()
    for name in names:
        mine = list(routes[routes["table"] == name].groupby("variant", sort=False))
        step, here = place.width / len(mine), list[Box]()
        for i, (variant, part) in enumerate(mine):
            left = place.left + i * step + 0.04
            head = name + (f", {variant}" if variant else "")
            here.append(_route_box(page, Box(left, top - high[name], step - 0.08, high[name]), head, part))
        for box in here:
            above = next((b for b in before if b.left == box.left), before[0] if before else None)
            if above is not None:
                x = box.middle[0]
                page.link([(x, above.bottom), (x, box.top)], arrow="->", linewidth=1.2)
        before, top = here, top - high[name] - gap


def _route_box(page: Diagram, box: Box, head: str, part: pd.DataFrame) -> Box:
    valid = bool(part["valid"].all())
    frame: dict[str, Any] = {} if valid else {"kind": "alert", "edgecolor": ALERT, "linewidth": 1.4}
    page.box(*box.place, **frame)
    page.text(box.left + 0.07, box.top - 0.13, head, ha="left", weight="bold")
    style: dict[str, Any] = {"ha": "left", "va": "top", "linespacing": 72 * _LINE / _FONT}
    style |= {} if valid else {"color": ALERT}
    y = box.top - 0.25
    for texts, look in (
        ([f"{row.prefix:<15} {row.via}".rstrip() for row in part.itertuples()], {"family": "monospace"}),
        ([line for text in part["text"] for line in _lines(text, box.width)], {}),
    ):
        if texts:
            page.text(box.left + 0.1, y, "\n".join(texts), _FONT, **style, **look)
        y -= len(texts) * _LINE + 0.02
    return box


def _lines(text: str, width: float) -> list[str]:
    """Lines of a text that fit a box of a width [inches]."""
    letters = int(72 * (width - 0.25) / (_FONT * 0.54))
    return [line for part in text.split("\n") for line in wrap(part, letters)]
