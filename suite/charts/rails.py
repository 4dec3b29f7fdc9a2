"""Traffic of a training step on rails: by dimension with its dependencies, by rank with windows."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from railcore.catalog import units
from suite.charts.rail_operations import BY_SHORT, DIMENSIONS, OPERATIONS
from suite.charts.window_lengths import SHORTEST_S
from suite.plotting import GREY, PASSES, TRAFFIC, ink_on, paler, panel_title

_HALF = 0.36  # half of a box's height, lanes being 1 apart
_LANES = {  # of a rank in Fig. 2
    "compute": "compute",
    "tensor": "TP, in the node",
    "data": "FSDP, on the rail",
    "pipeline": "PP, on the rail",
}
_FREQUENCIES = {  # of a rank in the enlarged part
    "compute": "compute",
    "tensor": "TP, each operator",
    "data": "FSDP, each layer",
    "pipeline": "PP, each micro-batch",
}
_CIRCUITS = {  # background of a phase, by who has the circuits: name and colour
    "data": ("circuits of FSDP", paler(TRAFFIC["data"], 0.85)),
    "pipeline": ("circuits of PP", paler(TRAFFIC["pipeline"], 0.7)),
}
_CHARACTER = 0.0078  # width of one in the smallest text, over that of the axes


def _lane_boxes(ax: plt.Axes, x: np.ndarray, lane: np.ndarray, colour: str, least: float, edge: str = "white") -> None:
    """Boxes around lanes from x[:, 0] to x[:, 1], none narrower than `least`."""
    right = np.maximum(x[:, 1], x[:, 0] + least)
    corners = np.stack([x[:, 0], right, right, x[:, 0]], axis=1)
    y = lane[:, None] + [-_HALF, -_HALF, _HALF, _HALF]
    boxes = list(np.stack([corners, y], axis=-1))
    ax.add_collection(PolyCollection(boxes, facecolors=[colour], edgecolors=edge, linewidths=0.4))


def _lane_axis(ax: plt.Axes, names: Mapping[float, str], end: float, top: float) -> None:
    """Lanes by their places, downwards."""
    ax.set(xlim=(0, end), ylim=(max(names) + 0.6, top))
    ax.set_yticks(list(names), list(names.values()))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def traffic_by_dimension(operations: pd.DataFrame, dependencies: pd.DataFrame, title: str, note: str) -> plt.Figure:
    """(a) Operations of a few ranks over time, a lane for each dimension; (b) one forward pass of the first, enlarged.

    Parameters
    ----------
    operations
        Columns op, rank, lane (compute, tensor, data, pipeline), operation, microbatch, phase, start_s, end_s.
    dependencies
        Columns rank_from, lane_from, end_s_from, rank_to, lane_to, start_s_to: the arrows of (b), between dimensions.
    title, note
        Of the figure and of (b).

    Returns
    -------
    The figure.
    """
    ranks, apart = sorted(operations["rank"].unique()), len(_LANES) + 0.4  # with room for the names of passes
    place = {(rank, lane): i * apart + j for i, rank in enumerate(ranks) for j, lane in enumerate(_LANES)}
    figure, (top, low) = plt.subplots(2, 1, figsize=(10, 3.4 + 0.36 * len(place)), height_ratios=(0.36 * len(place), 2))
    figure.suptitle(title, fontsize=11)
    end, names = (
        operations["end_s"].max() * 1.005,
        {y: f"rank {rank}, {_LANES[lane]}" for (rank, lane), y in place.items()},
    )
    colours = _dimension_boxes(top, operations, place, end)
    hops = operations[operations["operation"] == "send_receive"]
    for _, rows in hops.groupby("op"):
        lanes = [place[rank, "pipeline"] for rank in rows["rank"]]
        look: dict = {"color": TRAFFIC["pipeline"], "linewidth": 1.5}
        top.plot([rows["start_s"].iloc[0]] * 2, [min(lanes), max(lanes)], **look)
    _pass_names(top, operations, place, end)
    _lane_axis(top, names, end, -1.0)
    for i in range(1, len(ranks)):
        top.axhline(i * apart - 0.92, color=GREY, linewidth=0.8)
    words = "(a) one iteration, F and B: forward and backward passes; a vertical line: a send from rank to rank"
    panel_title(top, words, left=True)
    top.set_xlabel("time [s]")
    mine = operations[operations["rank"] == ranks[0]]
    forward = mine[(mine["microbatch"] == 0) & (mine["phase"] == "forward")]
    passes = forward[forward["lane"].isin(["compute", "tensor"])]
    start, stop = passes["start_s"].min(), forward["end_s"].max()
    start, stop = start - 0.12 * (stop - start), stop + 0.02 * (stop - start)
    enlarged = {(ranks[0], lane): i for i, lane in enumerate(_LANES)}
    shown = forward[forward["end_s"] > start].assign(start_s=forward["start_s"].clip(lower=start))
    colours |= _dimension_boxes(low, shown, enlarged, stop - start)
    for row in _crossings(forward, dependencies).itertuples():
        if start < row.end_s_from and row.start_s_to < stop:
            ends = enlarged[ranks[0], row.lane_from], enlarged[ranks[0], row.lane_to]
            _waiting(low, (row.end_s_from, ends[0]), (row.start_s_to, ends[1]))
    _lane_axis(low, {i: f"rank {ranks[0]}, {_FREQUENCIES[lane]}" for i, lane in enumerate(_LANES)}, stop, -0.7)
    low.set(xlabel="time [s]", xlim=(start, stop))
    panel_title(low, f"(b) forward pass of micro-batch 1, enlarged; {note}", left=True)
    looks = [(name, colour, GREY if name == "compute" else None) for name, colour in colours.items()]
    handles: list = [Patch(facecolor=colour, edgecolor=edge, label=name) for name, colour, edge in looks]
    arrow: dict = {"color": "black", "linewidth": 0.9, "marker": ">", "markersize": 4, "markevery": [1]}
    handles.append(Line2D([], [], **arrow, label="from what ends to what waits for it"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def _dimension_boxes(ax: plt.Axes, operations: pd.DataFrame, place: Mapping, wide_s: float) -> dict[str, str]:
    """Boxes of operations in their lanes, with short names where they fit in axes so wide; colours by name."""
    colours, lasting = {}, operations[operations["end_s"] > operations["start_s"]]
    for (lane, operation), rows in lasting.groupby(["lane", "operation"], sort=False):
        name, colour = _operation_look(str(lane), str(operation))
        at = np.array([place[key] for key in zip(rows["rank"], rows["lane"], strict=True)], float)
        edge = GREY if lane == "compute" else "white"
        _lane_boxes(ax, rows[["start_s", "end_s"]].to_numpy(), at, colour, wide_s / 700, edge)
        colours[name] = colour
        short = "" if lane in ("compute", "pipeline") else OPERATIONS[str(operation)].short
        for y, row in zip(at, rows.itertuples(), strict=True):
            if short and row.end_s - row.start_s > 2.6 * len(short) * _CHARACTER * wide_s / 2:
                style: dict = {"ha": "center", "va": "center", "fontsize": 8, "color": ink_on(colour)}
                ax.text((row.start_s + row.end_s) / 2, y, short, **style)
    return colours


def _operation_look(lane: str, operation: str) -> tuple[str, str]:
    """Name and colour of an operation of a dimension: gathers are paler."""
    if lane == "compute":
        return "compute", PASSES["compute"]
    called = OPERATIONS[operation]
    if operation == "all_reduce":
        return called.traffic, called.colour
    name = f"{DIMENSIONS.get(lane, lane)} {called.name}" + f" ({called.short})" * (lane != "pipeline")
    return name, paler(TRAFFIC[lane], 0.5) if operation == "all_gather" else TRAFFIC[lane]


def _pass_names(ax: plt.Axes, operations: pd.DataFrame, place: Mapping, end: float) -> None:
    """F1, B1 and so on over the passes of each rank."""
    computes = operations[(operations["lane"] == "compute") & (operations["microbatch"] >= 0)]
    for (rank, phase, microbatch), rows in computes.groupby(["rank", "phase", "microbatch"]):
        middle = (rows["start_s"].min() + rows["end_s"].max()) / 2
        name = f"{phase[0].upper()}{microbatch + 1}"
        if rows["end_s"].max() - rows["start_s"].min() > 2 * _CHARACTER * end:
            ax.text(middle, place[rank, "compute"] - 0.62, name, ha="center", va="center", fontsize=9)


def _crossings(forward: pd.DataFrame, dependencies: pd.DataFrame) -> pd.DataFrame:
    """Dependencies between dimensions in one pass of a rank.

    A layer ends with a compute of no length; what waits for it waits for the TP traffic that ends then.
    """
    rank = forward["rank"].iloc[0]
    mine = dependencies[(dependencies["rank_from"] == rank) & (dependencies["rank_to"] == rank)].drop_duplicates()
    passes = forward[forward["lane"].isin(["compute", "tensor"])]
    joins = set(passes.loc[passes["end_s"] <= passes["start_s"], "end_s"])
    ended = mine["lane_from"].eq("compute") & mine["end_s_from"].isin(joins)
    mine = mine.assign(lane_from=mine["lane_from"].mask(ended, "tensor"))
    between = {("data", "tensor"), ("tensor", "pipeline"), ("compute", "pipeline")}
    between |= {("compute", "tensor"), ("tensor", "compute")}
    drawn = np.array([pair in between for pair in zip(mine["lane_from"], mine["lane_to"], strict=True)], bool)
    joining = mine["lane_to"].eq("compute") & mine["start_s_to"].isin(joins)
    return mine[drawn & ~joining & (mine["start_s_to"] <= passes["end_s"].max() + 1e-9)]


def _waiting(ax: plt.Axes, start: tuple[float, float], stop: tuple[float, float]) -> None:
    """A right-angled arrow from the end of an operation to the one that waits for it."""
    (x, y), (to, lane) = start, stop
    away = 1 if lane > y else -1
    gap = lane - 0.5 * away  # between the lanes, where nothing is drawn
    points = [(x, y + _HALF * away), (x, gap), (to, gap)]
    ax.plot(*zip(*points, strict=True), color="black", linewidth=0.9, zorder=4)
    arrow: dict = {"arrowstyle": "-|>", "linewidth": 0.9, "color": "black", "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (to, lane - _HALF * away), (to, gap), arrowprops={**arrow, "mutation_scale": 7}, zorder=4)


def rail_timelines(panels: Mapping[str, Mapping[str, pd.DataFrame]], heading: str = "") -> plt.Figure:
    """Traffic of the ranks of one rail over time, a panel for each title, below a heading.

    Each has tables. traffic: rank, kind, label (AG, RS, PP, AR, A2A), stage, messages, start_s, end_s. windows: window,
    start_s, duration_s, arrows below the ranks with numbers and lengths. circuits: kind, circuits, start_s, end_s,
    shaded, named in the lowest lane. unordered: send_rank, send_s, stage, gather_rank, gather_s: a send (its end) and
    an AllGather (its start) that no dependency orders, joined by an arrow, or no row. parts: part, start_s, end_s, over
    the panel.
    """
    sizes = [panel["traffic"]["rank"].nunique() + 5.3 for panel in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(10, 1.2 + 0.42 * sum(sizes)), squeeze=False, height_ratios=sizes
    )
    figure.suptitle(heading, fontsize=11)
    shown: dict[str, None] = {}
    twice = 0
    for letter, ax, (title, panel) in zip(ascii_lowercase, axes.flat, panels.items(), strict=False):
        traffic, ranks = panel["traffic"], sorted(panel["traffic"]["rank"].unique())
        end = max(traffic["end_s"].max(), panel["parts"]["end_s"].max()) * 1.01
        _circuit_bands(ax, panel["circuits"], len(ranks), end)
        for label, called in BY_SHORT.items():
            rows = traffic[traffic["label"] == label]
            lanes = rows["rank"].map(ranks.index).to_numpy(float)
            _lane_boxes(ax, rows[["start_s", "end_s"]].to_numpy(float), lanes, called.colour, end / 300)
            shown |= {label: None} if len(rows) else {}
        _window_arrows(ax, panel["windows"], len(ranks), end)
        beside = _unordered_pair(ax, panel["unordered"], ranks, end)
        twice += _exchanges(ax, traffic, ranks, end, beside)
        _closing_sums(ax, traffic, ranks)
        _part_names(ax, panel["parts"], end)
        lanes_at = {i: f"rank {rank}" for i, rank in enumerate(ranks)}
        _lane_axis(ax, lanes_at | {len(ranks): "windows", len(ranks) + 1.4: "circuits"}, end, -1.5)
        ax.set_ylim(bottom=len(ranks) + 3.8)
        panel_title(ax, f"({letter}) {title}" if len(panels) > 1 else title, left=True)
    axes[-1, 0].set_xlabel("time [s]")
    both = {"PP": ", ×2: both ways at once"} if twice else {}
    looks = [(BY_SHORT[label], both.get(label, "")) for label in BY_SHORT if label in shown]
    handles = [Patch(facecolor=called.colour, label=called.traffic + more) for called, more in looks]
    handles += [Patch(facecolor=colour, label=name) for name, colour in _CIRCUITS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _circuit_bands(ax: plt.Axes, circuits: pd.DataFrame, ranks: int, last: float) -> None:
    """Background of phases by their circuits, with the pairs that these join; lines lead to those of narrow ones."""
    starts = np.maximum.accumulate(circuits["start_s"].to_numpy())
    ends = np.append(starts[1:], min(circuits["end_s"].iloc[-1], last))
    taken = 0.0
    for kind, pairs, start, end in zip(circuits["kind"], circuits["circuits"], starts, ends, strict=True):
        ax.axvspan(start, end, color=_CIRCUITS.get(kind, ("", "white"))[1], zorder=0, linewidth=0)
        names = pairs.split(", ")
        for row in (2, 1):  # pairs in a line
            lines = [", ".join(names[i : i + row]) for i in range(0, min(len(names), 6 if row > 1 else 4), row)]
            lines[-1] += " ..." if len(names) > row * len(lines) else ""
            wide, middle, y = max(map(len, lines)) * _CHARACTER * last, (start + end) / 2, ranks + 1.4
            if end - start > wide:
                break
        else:
            middle, y = min(max(middle, taken + wide / 2), last - wide / 2), ranks + 2.9
            if middle < taken + 0.49 * wide or middle > (start + end) / 2 + wide:  # no room near it
                continue
            taken = middle + wide / 2
            ax.plot([(start + end) / 2, middle], [ranks + 0.75, ranks + 2.2], color=GREY, linewidth=0.8)
        ax.text(middle, y, "\n".join(lines), ha="center", va="center", fontsize=8)


def _window_arrows(ax: plt.Axes, windows: pd.DataFrame, lane: int, end: float) -> None:
    """A double arrow over each window, a tick where it is too short to see; number and length of those that fit."""
    near = (windows["start_s"].diff() > end / 30).cumsum()
    taken, firsts = 0.0, [*windows.groupby(near)["start_s"].min(), end][1:]
    for (_, rows), following in zip(windows.groupby(near), firsts, strict=True):
        for row in rows.itertuples():
            if row.duration_s > end / 120:
                style: dict = {"arrowstyle": "<|-|>", "color": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
                ax.annotate("", (row.start_s + row.duration_s, lane + 0.3), (row.start_s, lane + 0.3), arrowprops=style)
            else:
                ax.plot([row.start_s] * 2, [lane - 0.5, lane + 0.45], color="black", linewidth=1)
        lengths = rows["duration_s"].where(rows["duration_s"] > SHORTEST_S, 0.0)
        texts = [units.show(s, "s", 3 if len(rows) == 1 else 2) if s else "0" for s in lengths]
        lines = [f"{n}: {text}" for n, text in zip(rows["window"], texts, strict=True)]
        wide, first, last = max(map(len, lines)) * _CHARACTER * end, rows.iloc[0], rows.iloc[-1]
        x, align = last["start_s"] + 0.005 * end, 0.0
        if len(rows) == 1 and first["duration_s"] > wide:
            x, align = first["start_s"] + first["duration_s"] / 2, 0.5
        elif x + wide > following:
            x, align = first["start_s"] - 0.005 * end, 1.0
        if len(lines) <= 3 and x - align * wide >= taken:
            taken = x + (1 - align) * wide
            place = {0.0: "left", 0.5: "center", 1.0: "right"}[align]
            ax.text(x, lane - 0.05 - 0.2 * (align == 0.5), "\n".join(lines), ha=place, va="center", fontsize=8)


def _unordered_pair(ax: plt.Axes, unordered: pd.DataFrame, ranks: Sequence, end: float) -> tuple[float, float, float]:
    """An arrow between a send and an AllGather that no dependency orders; left, right, last lane of its words."""
    for row in unordered.itertuples():
        (x, y), (to, lane) = (row.send_s, ranks.index(row.send_rank)), (row.gather_s, ranks.index(row.gather_rank))
        x, to = x + 0.012 * end, to + 0.012 * end
        words = f"no dependency orders this\nsend and the AllGather of\nstage {row.stage}: can be concurrent"
        left = max(x, to) + 0.02 * end
        ax.text(left, 0.5, words, ha="left", va="center", fontsize=8)
        style: dict = {"arrowstyle": "<|-|>", "color": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
        ax.annotate("", (to, lane - _HALF), (x, y), arrowprops=style, zorder=5)
        return left, left + 21 * _CHARACTER * end, 1.2
    return 0.0, 0.0, -1.0


def _exchanges(ax: plt.Axes, traffic: pd.DataFrame, ranks: Sequence, end: float, beside: tuple) -> int:
    """×2 after boxes of two messages, where nothing stands; how many. beside: left, right, last lane of other words."""
    wide, written = 2.6 * _CHARACTER * end, 0
    for row in traffic[traffic["messages"] > 1].itertuples():
        right, lane = row.end_s + wide, ranks.index(row.rank)
        mine = traffic[(traffic["rank"] == row.rank) & (traffic["start_s"] >= row.start_s)].drop(row.Index)
        free = right < beside[0] or row.end_s > beside[1] or lane > beside[2]
        if free and not (mine["start_s"] < right).any():
            ax.text(row.end_s + end / 250, lane, "×2", ha="left", va="center", fontsize=8)
            written += 1
    return written


def _closing_sums(ax: plt.Axes, traffic: pd.DataFrame, ranks: Sequence) -> None:
    """The AllReduces at the end, too short to be told apart, in their order."""
    ends = traffic["end_s"].max()
    sums = traffic[(traffic["label"] == "AR") & (traffic["end_s"] > 0.99 * ends) & (traffic["start_s"] > 0.99 * ends)]
    last = traffic[(traffic["rank"] == ranks[-1]) & (traffic["label"] != "AR")]["end_s"].max()
    starts = sums.groupby("kind", sort=False)["start_s"].min().sort_values(kind="stable")
    if len(starts) > 1 and last < 0.8 * ends:
        words = ""
        for kind, start, before in zip(starts.index, starts, starts.shift(), strict=True):
            words += " and " if np.isclose(start, before, rtol=1e-9) else ", then " if words else ""
            words += DIMENSIONS.get(kind, kind)
        place = 0.985 * sums["start_s"].min(), len(ranks) - 1.5
        ax.text(*place, f"{len(starts)} AllReduces:\n{words}", ha="right", va="center", fontsize=8)


def _part_names(ax: plt.Axes, parts: pd.DataFrame, end: float) -> None:
    """Names of the parts of the iteration over the panel, with bars; a part too short for its name has none."""
    for row in parts.itertuples():
        if row.end_s - row.start_s > end / 12:
            style: dict = {"arrowstyle": "|-|", "mutation_scale": 3, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (row.start_s, -0.75), (row.end_s, -0.75), arrowprops=style)
            ax.text((row.start_s + row.end_s) / 2, -0.85, row.part, ha="center", va="bottom", fontsize=9)
