"""The control plane of reconfigurable rails as a diagram: who is asked, and the messages of one reconfiguration."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.patches import Ellipse, FancyBboxPatch

from railcore.catalog import units
from suite.colours import BUSY, PARTS
from suite.plotting import COLOURS, panel_title

_FILLS = {
    "application": "#FFFFFF",
    "shim client": PARTS["gpu"],
    "shim manager": PARTS["manager"],
    "collective library": "#FFFFFF",
    "controller": PARTS["nic"],
    "circuit switch": "#FFFFFF",
}
_INK, _HOST, _LIGHT, _ALERT = "#333333", "#F6F6F6", *COLOURS[:2]
_HIGH = 0.66  # of a box
_SWITCH_STEP = "switch"
_STORED_STEP = "new circuits"  # looked up from the second iteration on
# Steps that are over when a rank calls, if its client asks by the profiled schedule.
_AHEAD = ("request", "barrier", _STORED_STEP, "command", _SWITCH_STEP, "acknowledgement")
_PROVISIONED = (
    "Shaded: with provisioning, from the second iteration on, these steps run before the call. The shim asks\n"
    "right after the last traffic of another group, and in step {} the controller reads stored circuits.\n"
    "A call then waits only where the window before it is shorter than these steps."
)
# Places in a host: left, bottom, width, height of a box. The other parties are in the middle of the page.
_IN_HOST = {
    "application": (0.2, 6.45, 2.0, _HIGH),
    "shim client": (0.2, 4.75, 2.0, _HIGH),
    "collective library": (0.2, 2.75, 2.0, _HIGH),
    "shim manager": (2.75, 3.75, 2.6, 2.4),
}
_HOST_SIZE = (5.5, 5.3)
_WIDTH = 12.0  # of the page; the second host is the first one's mirror image
_CONTROLLER = (3.0, 8.45, 6.0, 1.15)
_SWITCH = (6.0, 0.65)
# Start and end of the arrow from a sender to a receiver; its number is in the middle. One party alone has no arrow.
_WAYS = {
    ("application", "shim client"): ((1.2, 6.45), (1.2, 5.41)),
    ("shim client", "shim client"): ((0.2, 5.41), (0.2, 5.41)),
    ("shim client", "collective library"): ((1.2, 4.75), (1.2, 3.41)),
    ("shim client", "shim manager"): ((2.2, 5.25), (2.75, 5.25)),
    ("shim manager", "shim client"): ((2.75, 4.85), (2.2, 4.85)),
    ("shim manager", "controller"): ((3.6, 6.15), (3.6, 8.45)),
    ("controller", "shim manager"): ((4.6, 8.45), (4.6, 6.15)),
    ("controller", "controller"): ((3.0, 9.6), (3.0, 9.6)),
    ("controller", "circuit switch"): ((5.8, 8.45), (5.8, 1.45)),
    ("circuit switch", "controller"): ((6.2, 1.45), (6.2, 8.45)),
    ("circuit switch", "circuit switch"): ((4.6, 0.9), (4.6, 0.9)),
}
_ALONE = ("controller", "circuit switch")
_NAMES = {"shim client": "Opus shim client"}  # in the document's words


def control_plane_figure(
    sequence: pd.DataFrame, groups: Mapping[int, Sequence[str]], rails: int, title: str, source: str
) -> plt.Figure:
    """(a) The parties of a control plane with the steps of one reconfiguration, (b) its messages in order.

    Parameters
    ----------
    sequence
        As `control_plane.reconfiguration_sequence` gives it; drawn are the first two ranks.
    groups
        Lines of the managers' tables of groups, by rank.
    rails, title, source
        Circuit switches, one a rail; title of the figure; where the times are from.

    Returns
    -------
    The figure.
    """
    ranks = list(sequence["rank"].dropna().unique()[:2])
    shown = sequence[sequence["rank"].isna() | sequence["rank"].isin(ranks)]
    heights = (6.4, 0.3 * shown["number"].nunique() + 1.6)
    figure, (left, right) = plt.subplots(2, 1, figsize=(10, sum(heights) + 0.6), height_ratios=heights)
    figure.suptitle(title)
    _parties(left, shown, ranks, groups, rails)
    _messages(right, shown, ranks, source)
    return figure


def _box(ax: plt.Axes, party: str, place: Sequence[float], text: str, **style) -> None:
    x, y, wide, high = place
    corners: dict[str, Any] = {
        "boxstyle": "round,pad=0,rounding_size=0.12",
        "facecolor": _FILLS.get(party, _HOST),
        "edgecolor": _INK,
    }
    ax.add_patch(FancyBboxPatch((x, y), wide, high, linewidth=1, **corners))
    ax.text(x + wide / 2, y + high / 2, text, **{"ha": "center", "va": "center", "fontsize": 9, **style})


def _number(ax: plt.Axes, text: str, x: float, y: float) -> None:
    disc: dict[str, Any] = {"boxstyle": "circle,pad=0.18", "facecolor": _INK, "edgecolor": "white", "linewidth": 0.8}
    ax.text(x, y, text, color="white", fontsize=8, weight="bold", ha="center", va="center", bbox=disc, zorder=6)


def _arrow(ax: plt.Axes, start: tuple, end: tuple, **style) -> None:
    line: dict[str, Any] = {"arrowstyle": "-|>", "color": _INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0, **style}
    ax.annotate("", end, start, arrowprops=line, zorder=4)


def _parties(ax: plt.Axes, sequence: pd.DataFrame, ranks: Sequence, groups: Mapping, rails: int) -> None:
    """Panel (a): hosts with application, shim and library, the controller above, the circuit switches below."""
    ax.set(xlim=(-0.1, _WIDTH + 0.1), ylim=(-0.1, 9.9))
    ax.axis("off")
    ax.set_title("(a) who asks whom", fontsize=10, loc="left")
    for second, rank in enumerate(ranks):
        _host(ax, bool(second), f"HB domain of rank {rank}", groups.get(rank, ()))
    _box(ax, "controller", _CONTROLLER, "Opus controller\ngroups of the job, stored circuits", linespacing=1.5)
    for i in range(min(rails, 3) - 1, -1, -1):
        middle = (_SWITCH[0] + 0.16 * i, _SWITCH[1] + 0.16 * i)
        ax.add_patch(Ellipse(middle, 3.0, 0.95, facecolor="white", edgecolor=_LIGHT, linewidth=2))
    several = f"circuit switches\nof {rails} rails" if rails > 1 else "circuit switch"
    ax.text(*_SWITCH, several, fontsize=9, ha="center", va="center")
    ways = sequence.groupby(["sender", "receiver"])["number"].agg(lambda values: sorted(set(values)))
    for pair, numbers in ways.items():
        for second in (False,) if set(pair) <= set(_ALONE) else range(len(ranks)):
            (xa, ya), (xb, yb) = _WAYS[pair]
            if second:
                xa, xb = _WIDTH - xa, _WIDTH - xb
            if (xa, ya) != (xb, yb):
                _arrow(ax, (xa, ya), (xb, yb))
            for i, number in enumerate(numbers):
                _number(ax, str(number), (xa + xb) / 2 + 0.42 * i, (ya + yb) / 2)


def _host(ax: plt.Axes, second: bool, name: str, groups: Sequence[str]) -> None:
    """An HB domain with its parties and its fibre to the circuit switch."""

    def left(x: float, wide: float = 0.0) -> float:
        return _WIDTH - x - wide if second else x

    corners: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.2", "facecolor": _HOST, "edgecolor": "#9A9A9A"}
    ax.add_patch(FancyBboxPatch((left(0, _HOST_SIZE[0]), 2.2), *_HOST_SIZE, linewidth=1, zorder=0, **corners))
    ax.text(left(0.25, 2.4), 7.28, name, fontsize=9, color=_INK, va="center")
    for party, (x, low, wide, high) in _IN_HOST.items():
        _box(ax, party, (left(x, wide), low, wide, high), "" if party == "shim manager" else _NAMES.get(party, party))
    x, low, wide, high = _IN_HOST["shim manager"]
    ax.text(left(x, wide) + wide / 2, low + high - 0.3, "Opus shim manager", fontsize=9, ha="center", va="center")
    table = "\n".join(["group: ranks, network", *groups])
    ax.text(left(x, wide) + 0.1, low + high - 0.6, table, fontsize=8, va="top", linespacing=1.5, color=_INK)
    ax.text(left(1.2), 2.45, "GPU, NIC", fontsize=8, ha="center", va="center", color=_INK)
    ax.plot([left(1.2), left(1.2), left(4.7)], [2.2, 1.6, 0.95], color=_LIGHT, linewidth=2, zorder=1)


def _messages(ax: plt.Axes, sequence: pd.DataFrame, ranks: Sequence, source: str) -> None:
    """Panel (b): a row for each step, in order and not to scale, with the start of each rank's and its length."""
    lanes = {rank: 2 * i for i, rank in enumerate(ranks)} | {"controller": 1, "circuit switch": len(ranks) + 1}
    steps, last = sequence.groupby("number", sort=True), len(ranks) + 1
    starting = "; ".join(f"rank {rank}" for rank in ranks)
    ax.set(xlim=(min(-1.35, -0.45 - 0.06 * len(starting)), last + 2.6), ylim=(steps.ngroups + 1.8, -1.6))
    ax.axis("off")
    panel_title(ax, f"(b) in order, not to scale; {source}", left=True)
    for party, x in lanes.items():
        name = str(party).replace(" ", "\n") if party in _ALONE else f"rank {party}"
        ax.plot([x, x], [-0.6, steps.ngroups - 0.5], color="#B5B5B5", linewidth=1, zorder=1)
        ax.text(x, -0.75, name, fontsize=9, ha="center", va="bottom")
    ax.text(-0.45, -0.75, f"starts at\n{starting}", fontsize=9, ha="right", va="bottom")
    ax.text(last + 0.35, -0.75, "message, time it takes", fontsize=9, va="bottom")
    stored = sequence.loc[sequence["step"] == _STORED_STEP, "number"].iloc[0]
    for y, (number, rows) in enumerate(steps):
        starts = dict.fromkeys(units.show(start, "s") for start in rows["start_s"])
        ax.text(-0.45, y, "; ".join(starts), fontsize=8.5, ha="right", va="center")
        _number(ax, str(number), -0.25, y)
        for row in rows.itertuples():
            start, end = (_lane(lanes, party, row.rank) for party in (row.sender, row.receiver))
            ink = _ALERT if row.step == _SWITCH_STEP else _INK
            if start == end:
                ax.plot([start, start], [y - 0.34, y + 0.34], color=ink, linewidth=5, solid_capstyle="butt", zorder=3)
            else:
                _arrow(ax, (start, y), (end, y), color=ink)
        took = row.end_s - row.start_s
        text = f"{row.message}, {units.show(took, 's', 3)}" if took else row.message
        ax.text(last + 0.35, y, text, fontsize=8.5, va="center", color=ink)
        if row.step in _AHEAD:
            ax.axhspan(y - 0.5, y + 0.5, color=BUSY, zorder=0, linewidth=0)
    ax.text(-1.3, steps.ngroups - 0.1, _PROVISIONED.format(stored), fontsize=8.5, va="top", linespacing=1.4)


def _lane(lanes: Mapping, party: str, rank: Any) -> int:
    return lanes[party] if party in _ALONE else lanes[rank]
