"""Plots of a datacenter for one model: loss-optimal sizes, memory of a GPU, what budgets train."""

from typing import TYPE_CHECKING

from railcore.facts.units import number
from railcore.workbench.plotting import COLOURS, MARKERS, lines, plain_axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

TIMES = {"1 hour": 1 / 24, "1 day": 1, "1 week": 7, "1 month": 30, "1 year": 365, "4 years": 1460, "50 years": 18250}


def optimal_sizes(data: "pd.DataFrame", chosen: "pd.DataFrame", ax: "Axes") -> "Axes":
    """Loss-optimal parameters against training time, a line for each `law`; sizes of `chosen` are marked on the lines.

    Columns law, training_days, parameters, warning, of both.
    """
    laws = list(data["law"].unique())
    for i, name in enumerate(laws):
        part, picked = data[data["law"] == name], chosen[chosen["law"] == name]
        style: dict = {"color": COLOURS[i % 8], "linestyle": ("-", "--", "-.", ":")[i % 4]}
        ax.plot(part["training_days"], part["parameters"], label=name.replace("Hoffmann", "Hoffmann approach"), **style)
        ax.plot(picked["training_days"], picked["parameters"], MARKERS[i % 8], color=COLOURS[i % 8], markersize=6)
    for i, size in enumerate(sorted(chosen["parameters"].round(-9).unique())):
        ax.axhline(size, color="black", linewidth=0.8, linestyle=(0, (2, 3)))
        text: dict = {"textcoords": "offset points", "xytext": (4, 4 if i else -12), "fontsize": 9}
        ax.annotate(f"{number(size / 1e12)}T", (0, size), xycoords=ax.get_yaxis_transform(), **text)
    first, last = data["training_days"].min(), data["training_days"].max()
    shown = {text: days for text, days in TIMES.items() if first <= days <= last}
    ax.set(xscale="log", yscale="log", xlim=(first, last), xlabel="training time on the whole machine")
    ax.set_xticks(list(shown.values()), list(shown))
    _trillions(ax)
    ax.set_ylabel("loss-optimal parameters [trillion]")
    if data["warning"].all():
        ax.set_title("every point is extrapolated from far smaller experiments", fontsize=9)
    ax.legend(loc="upper left")
    return ax


def memory_by_degree(data: "pd.DataFrame", limit_bytes: float, ax: "Axes", title: str = "") -> "Axes":
    """Memory of a GPU against the tensor-parallel degree, a line for each `model`; degrees that fit are filled.

    Columns model, tensor, bytes; limit_bytes: of a GPU.
    """
    from matplotlib.ticker import LogLocator

    lines(data.assign(gigabytes=data["bytes"] / 1e9), "tensor", "gigabytes", "model", ax)
    for line in ax.get_lines():
        line.set_markerfacecolor("white")
    for i, model in enumerate(data["model"].unique()):
        fits = data[(data["model"] == model) & (data["bytes"] <= limit_bytes)]
        ax.plot(fits["tensor"], fits["bytes"] / 1e9, MARKERS[i], color=COLOURS[i], markersize=5)
    ax.axhline(limit_bytes / 1e9, color="black", linestyle="--", linewidth=1, label="a GPU's memory")
    ax.set(xscale="log", yscale="log", xlabel="GPUs that share a layer (tensor-parallel degree)")
    degrees = sorted(data["tensor"].unique())
    ax.set_xticks(degrees, [number(degree) for degree in degrees])
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plain_axis(ax.yaxis)
    ax.minorticks_off()
    ax.set_ylabel("memory of a GPU [GB]")
    ax.set_title(title, fontsize=9)
    ax.legend()
    return ax


def machines(data: "pd.DataFrame", ax: "Axes") -> "Axes":
    """Loss-optimal parameters against the budget, hollow, and those that fit on the racks, filled, by platform.

    Columns platform, format, budget_usd, optimal_parameters, parameters (NaN where nothing fits).
    """
    for i, (platform, part) in enumerate(data.groupby("platform", sort=False)):
        style: dict = {"color": COLOURS[i % 8], "marker": MARKERS[i % 8], "markersize": 6}
        label = f"{platform}, {part['format'].iloc[0].upper()}"
        ax.plot(part["budget_usd"], part["optimal_parameters"], "-", markerfacecolor="white", label=label, **style)
        ax.plot(part["budget_usd"], part["parameters"], ":", **style)
    budgets = sorted(data["budget_usd"].unique())
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="budget [USD]",
        ylabel="parameters [trillion], loss-optimal (hollow) and fitting (filled)",
    )
    ax.set_xticks(budgets, [f"{number(budget / 1e9)} billion" for budget in budgets])
    ax.margins(0.08)
    _trillions(ax)
    ax.legend()
    return ax


def _trillions(ax: "Axes") -> None:
    """Powers of ten of a logarithmic y axis as plain numbers of trillions."""
    low, high = ax.get_ylim()
    shown = [10.0**k for k in range(6, 24) if low <= 10.0**k <= high]
    ax.set_yticks(shown, [number(value / 1e12) for value in shown])
    ax.minorticks_off()
    ax.set_ylim(low, high)
