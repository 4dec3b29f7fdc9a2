"""How many claims come out, and how far the ledger's values are from the documents' numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from suite import plotting
from suite.colours import VERDICTS
from suite.plotting import COLOURS, GREY, VERDICT_MARKERS, ink_on

_LEAST = 1e-4  # what is nearer is drawn here
_PALE = 0.75  # share of white in marks of claims that no model was put to
_TICKS = {_LEAST: "≤ 0.01%", 1e-3: "0.1%", 1e-2: "1%", 1e-1: "10%", 1.0: "100%", 10.0: "1,000%", 100.0: "10,000%"}
_CAME_OUT = {"came out": VERDICTS["reproduced"], "came within 10%": VERDICTS["close"]}
_CAME_OUT |= {"did not come out": VERDICTS["differs"], "set a parameter": GREY, "no data": plotting.paler(GREY, _PALE)}


def deviations_by_document(data: pd.DataFrame, title: str) -> plt.Figure:
    """Claims of each document from the nearest to the farthest, a panel for each document.

    Parameters
    ----------
    data
        Columns document, verdict, evidence, off (absolute deviation as a share of the printed number).
    title
        Of the figure.

    Returns
    -------
    The figure; dark marks are claims that were put to a model.
    """
    documents = list(data["document"].unique())
    figure, axes = plt.subplots(1, len(documents), figsize=(10, 4.6), sharey=True, squeeze=False)
    figure.suptitle(title)
    for ax, document in zip(axes.flat, documents, strict=True):
        mine = data[data["document"] == document].sort_values(["off", "verdict"], kind="stable")
        places, off = np.arange(1, len(mine) + 1), np.maximum(mine["off"].to_numpy(float), _LEAST)
        ax.axhspan(0.1, 1e3, color="#F2F2F2", linewidth=0)
        for verdict, colour in VERDICTS.items():
            for model in (True, False):
                here = ((mine["verdict"] == verdict) & ((mine["evidence"] == "model") == model)).to_numpy()
                face = colour if model else plotting.paler(colour, _PALE)
                look: dict = {"marker": VERDICT_MARKERS[verdict], "s": 16, "linewidth": 0.9, "clip_on": False}
                look |= {"facecolor": face, "edgecolor": colour}
                ax.scatter(places[here], off[here], **look, zorder=3)
        ax.set(yscale="log", ylim=(_LEAST * 0.8, 100), xlim=(0, len(mine) + 1), xticks=[1, len(mine)])
        ax.set_yticks([*_TICKS], [*_TICKS.values()])
        ax.minorticks_off()
        plotting.panel_title(ax, document)
        ax.set_xlabel("claims, sorted")
    plotting.text_beside(axes[0, 0], "off by more than 10%", (1, 60), (4, 0), fontsize=9, va="center")
    axes[0, 0].set_ylabel("deviation from the document's number")
    marks: dict = {"linestyle": "", "markersize": 5}
    handles = [
        plt.Line2D([], [], color=colour, marker=VERDICT_MARKERS[verdict], label=verdict, **marks)
        for verdict, colour in VERDICTS.items()
    ]
    grey = {"color": COLOURS[7], "marker": "o", **marks}
    handles.append(plt.Line2D([], [], label="dark: put to a model", **grey))
    grey["markerfacecolor"] = plotting.paler(COLOURS[7], _PALE)
    handles.append(plt.Line2D([], [], label="pale: looked up or multiplied", **grey))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    return figure


def claims_put_to_a_model(counts: Sequence[Mapping[str, Any]], title: str) -> plt.Figure:
    """Claims of each document that were put to a model, a bar each, by what became of them.

    counts: of `claims.evidence_counts`, without the row of all. title: of the figure.
    """
    names, ends = [row["document"] for row in counts], np.zeros(len(counts))
    figure, ax = plt.subplots(figsize=(10, 1.6 + 0.5 * len(names)))
    for kind, colour in _CAME_OUT.items():
        some = np.array([row[kind] for row in counts])
        ax.barh(names, some, 0.66, ends, color=colour, edgecolor="white", label=kind)
        for place in np.flatnonzero(some):
            style: dict = {"ha": "center", "va": "center", "fontsize": 9, "color": ink_on(colour)}
            ax.text(ends[place] + some[place] / 2, float(place), f"{some[place]}", **style)
        ends += some
    ax.set(xlabel="claims that were put to a model", xlim=(0, None), title=title)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    plotting.legend_below(figure, ax, len(_CAME_OUT))
    return figure
