"""Plots of iteration time: DataFrames in, figures or Axes out."""

from string import ascii_lowercase
from typing import TYPE_CHECKING

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TERM_NAMES = {
    "compute_s": "compute",
    "first_dp_s": "data parallel across HB domains",
    "second_dp_s": "data parallel inside",
    "model_parallel_s": "model parallel",
}


def networks(data: "pd.DataFrame") -> "Figure":
    """Iteration time as bars, a panel for each `model` and a bar for each `network`, stacked by its terms.

    Columns model, network and those of TERM_NAMES [s].
    """
    import matplotlib.pyplot as plt

    models = list(data["model"].unique())
    figure, axes = plt.subplots(1, len(models), figsize=(3.4 * len(models), 4.6))
    for ax, model in zip(axes, models, strict=True):
        stacked_terms(data[data["model"] == model], "network", ax)
        ax.set(title=model, xlabel="")
        ax.get_legend().remove()
    for ax in axes[1:]:
        ax.set_ylabel("")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def stacked_terms(data: "pd.DataFrame", x: str, ax: "Axes", title: str = "") -> "Axes":
    """Iteration time at each `x`, stacked from the terms of TERM_NAMES [s], with its total and the first over it."""
    places, bottom = [v if isinstance(v, str) else number(v) for v in data[x]], [0.0] * len(data)
    for i, (term, name) in enumerate(TERM_NAMES.items()):
        ax.bar(places, data[term], bottom=bottom, color=COLOURS[i], label=name, width=0.65)
        bottom = [b + h for b, h in zip(bottom, data[term], strict=True)]
    for i, total in enumerate(bottom):
        speedup = f"\n{number(bottom[0] / total, 3)}x" if i and total != bottom[0] else ""
        ax.annotate(number(total, 3) + speedup, (i, total), (0, 3), textcoords="offset points", ha="center", fontsize=9)
    ax.set(xlabel=units.label(x), ylabel="iteration time [s]")
    ax.set_title(title, fontsize=9)
    ax.grid(axis="x", visible=False)
    ax.margins(y=0.18)
    ax.legend()
    return ax


def domain_sizes(data: "pd.DataFrame") -> "Figure":
    """Iteration time against HB domain size, a panel for each `model`, a line for each `gpus` and its ideal dashed.

    Columns model, gpus, hb_domain_size, iteration_s, ideal_s.
    """
    import matplotlib.pyplot as plt

    models = list(data["model"].unique())
    figure, axes = plt.subplots(1, len(models), figsize=(4.8 * len(models), 4.6))
    for letter, ax, model in zip(ascii_lowercase, axes, models, strict=False):
        part = data[data["model"] == model]
        for i, (gpus, rows) in enumerate(part.groupby("gpus")):
            style = {"color": COLOURS[i], "label": f"{gpus:,} GPUs"}
            ax.plot(rows["hb_domain_size"], rows["iteration_s"], marker=MARKERS[i], markersize=4.5, **style)
            ax.axhline(rows["ideal_s"].iloc[0], color=COLOURS[i], linestyle="--", linewidth=1.2)
        plotting.gpu_axis(ax, sorted(part["hb_domain_size"].unique()))
        ax.set(title=f"({letter}) {model}", xlabel="HB domain size [GPUs]", ylabel="iteration time [s]", ylim=(0, None))
    axes[0].plot([], [], color="black", linestyle="--", label="ideal: one HB domain")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def batches(data: "pd.DataFrame", domain: str = "HB domain of {} GPUs") -> "Figure":
    """(a) Iteration time and (b) performance relative to the ideal against batch, a line for each HB domain size.

    Columns hb_domain_size, batch_sequences, group_size, iteration_s, ideal_s, relative. Where another size of the
    model-parallel groups begins, the lines bend: a vertical line with both sizes says so.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.6))
    sizes = list(data["hb_domain_size"].unique())
    for ax, column in zip(axes, ("iteration_s", "relative"), strict=True):
        plotting.lines(data, "batch_sequences", column, "hb_domain_size", ax, sizes, domain)
    ideal = data[data["hb_domain_size"] == sizes[0]]
    axes[0].plot(ideal["batch_sequences"], ideal["ideal_s"], color="black", linestyle=":", label="ideal: one HB domain")
    for ax in axes:
        ax.set_xticks(ideal["batch_sequences"], [number(count) for count in ideal["batch_sequences"]])
    if data.groupby("batch_sequences")["group_size"].nunique().max() == 1:
        for ax in axes:
            ax.margins(x=0.09)
            _group_sizes(ideal, ax)
    axes[0].set(title="(a)", xlabel="batch [sequences]", ylabel="iteration time [s]", ylim=(0, None))
    axes[1].set(title="(b)", xlabel="batch [sequences]", ylabel="performance relative to ideal", ylim=(0, 1))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _group_sizes(data: "pd.DataFrame", ax: "Axes") -> None:
    """Sizes of model-parallel groups N_M at the foot of the axes, a vertical line where they change."""
    x, size = data["batch_sequences"].to_numpy(float), data["group_size"].to_numpy(float)
    starts = [0, *(i for i in range(1, len(x)) if size[i] != size[i - 1])]
    if len(starts) < 2:
        return
    ends = [*starts[1:], len(x)]
    for first, last in zip(starts, ends, strict=True):
        if first:
            ax.axvline((x[first - 1] + x[first]) / 2, color=COLOURS[7], linestyle=(0, (2, 2)), linewidth=1)
        place: dict = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "bottom", "fontsize": 8}
        wide = last - first > 1
        words = f"{'model-parallel ' * wide}groups\nof {number(size[first], 3)}{' GPUs' * wide}"
        ax.annotate(words, (x[first:last].mean(), 0.02), **place)


def rails(data: "pd.DataFrame") -> "Figure":
    """Iteration time over that with a rail for every GPU, against rails, a line for each `model`.

    Columns model, rails, slowdown.
    """
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.4))
    plotting.lines(data, "rails", "slowdown", "model", ax)
    counts = sorted(data["rails"].unique())
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(counts, [number(count) for count in counts])
    plotting.plain_axis(ax.yaxis)
    ax.set(xlabel="rails (NICs of an HB domain)", ylabel="iteration time over that of a rail for every GPU")
    ax.legend()
    return figure


def optimum(data: "pd.DataFrame", marks: "pd.DataFrame") -> "Figure":
    """Iteration time over its least against N_M, a line for each `model`, with points for the `rule` that gives them.

    Columns of both model, group_size, slowdown; of marks rule too.
    """
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.6))
    for i, (model, rows) in enumerate(data.groupby("model", sort=False)):
        ax.plot(rows["group_size"], rows["slowdown"], color=COLOURS[i], linestyle=("-", "--", "-.")[i % 3], label=model)
    for i, (rule, rows) in enumerate(marks.groupby("rule", sort=False)):
        style: dict = {"marker": MARKERS[i], "markersize": 8, "markerfacecolor": "white" if i else "black"}
        ax.plot(rows["group_size"], rows["slowdown"], color="black", linestyle="none", label=rule, **style)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    for axis in (ax.xaxis, ax.yaxis):
        plotting.plain_axis(axis)
    ax.set(xlabel="GPUs of a model-parallel group, N_M", ylabel="iteration time over its least")
    ax.legend(ncols=2)
    return figure
