"""Errors of the iteration-time model by group of runs: the goals set for it, and what each of its mechanisms gains."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.catalog import files
from railcore.training.machine import UNLIMITED_BANDWIDTH, Machine
from railcore.training.runs import YOURS, error_summary, predictions
from railcore.training.runtime import Runtime

SAME_RATE = {"mxfp8": "fp8"}  # with scales of blocks, at the same rate
_GENERATIONS = {"V": "Volta", "A": "Ampere", "H": "Hopper", "B": "Blackwell", "R": "Rubin", "MI": "CDNA"}
# How each mechanism of the model is switched off: fields of `Machine` and `Runtime` to set, another machine in place of
# each, or the part of the breakdown to leave out.
Off = Mapping[str, Any] | str | Callable[[Machine], Machine]


def best_products(machine: Machine) -> Machine:
    """The machine with the share of its rates that the best product reaches, in place of the sustained one."""
    shares = catalog.item("efficiencies", machine.gpu)
    linear = shares.get(f"matmul_fraction_{'fp8' if machine.narrow else 'bf16'}", machine.rates.linear_fraction)
    return machine.changed(linear_fraction=linear, bf16_fraction=shares["matmul_fraction_bf16"])


def whole_casts(machine: Machine) -> Machine:
    """The machine whose casts to blocks pass memory as fast as other kernels do."""
    return machine.changed(cast_fraction=machine.memory.memory_fraction)


_NO_DOMAIN_LATENCY = dict.fromkeys(
    ("hb_latency_s", "domain_call_latency_s", "domain_step_latency_s", "bulk_latency_s", "all_to_all_latency_s"), 0.0
)
MECHANISMS: Mapping[str, Off] = {
    "products below the peak": {"linear_fraction": 1.0, "bf16_fraction": 1.0},
    "sustained products, not the best": best_products,
    "products between kernels that leave power": {"layer_spare_power": 0.0},
    "ends of a product's tiles": {"linear_epilogue_rate": math.inf, "bf16_epilogue_rate": math.inf},
    "whole waves of tiles": {"whole_waves": False},
    "sides that no 64 divides": {"unaligned_share": 1.0},
    "products of experts by software": {"expert_products": "loop"},
    "slower casts of MXFP8 and NVFP4": whole_casts,
    "FP8 scaled by each tensor's largest element": {"fp8_scaling": "delayed"},
    "attention by library and by heads": {"attention_kernels": (), "attention_shapes": ()},
    "tiles and masks of windows": {"window_keys": 0.0},
    "recompute of modules": {"recompute_modules": ("core_attn",)},
    "experts that wait for the host": {"graphs": "whole"},
    "CUDA graphs": {"graphs": "none"},
    "latency of collectives": {**_NO_DOMAIN_LATENCY, "nic_latency_s": 0.0, "call_latency_s": 0.0},
    "memory traffic": {"memory_Bps": UNLIMITED_BANDWIDTH},
    "kernel starts": {"kernel_s": 0.0, "grouped_start_s": 0.0},
    "the slowest GPU": {"rank_spread": 0.0, "rack_spread": 0.0},
    "compute lost to collectives beside it": {"collective_processors": 0, "overlap_slowdown": 1.0},
    "contention for the memory": {"memory_contention": False},
    "host between iterations": {"waiting_operators": 0},
    "HB links": {"hb_Bps": UNLIMITED_BANDWIDTH, "peer_Bps": UNLIMITED_BANDWIDTH, **_NO_DOMAIN_LATENCY},
    "NICs": {"nic_Bps": UNLIMITED_BANDWIDTH, "nic_latency_s": 0.0},
    "attention": "attention_s",
    "elementwise kernels": "elementwise_s",
    "logits and loss": "logits_s",
    "pipeline hops": "pipeline_s",
    "pipeline bubble": "bubble_s",
    "exchange of gradients": "data_s",
    "optimizer step": "optimizer_s",
    "hiding of tensor traffic": {"overlap_tensor": False, "overlap_tensor_forward": False},
    "hiding of gradients and weights": {"overlap_data": False},
    "hiding of expert traffic": {"overlap_expert": False},
}
_OF_SOFTWARE = {field.name for field in fields(Runtime)}
_MEASURES = ("mean", "worst model", "worst sign")
_MANY = 10  # runs of a size, from which its sign counts


def gpu_generation(gpu: str) -> str:
    """Generation of a GPU by the letters of its name, such as Blackwell for B200 and GB200; else the name itself.

    A G before another letter is NVIDIA's CPU on the same board.
    """
    letters = re.match(r"(?:G(?=[A-Z]))?([A-Z]+)\d", gpu)
    return _GENERATIONS.get(letters[1], gpu) if letters else gpu


def with_families(table: pd.DataFrame) -> pd.DataFrame:
    """The table of runs with `generation` of the GPU, and `family`: the group that errors are judged by.

    family: mixtures; adapters (LoRA); of dense models those on Hopper by precision, and those on each other generation;
    the user's own runs by themselves.
    """
    generation = table["platform"].map(lambda name: gpu_generation(str(catalog.item("platforms", name)["gpu"])))
    precision = table["precision"].replace(SAME_RATE)
    family = ("dense, " + generation).mask(generation == "Hopper", "dense, " + precision + ", Hopper")
    family = family.mask(table["experts"] > 0, "mixtures").mask(table["mixture"] == "adapters", "adapters")
    return table.assign(generation=generation, family=family.mask(table["seen"] == YOURS, YOURS))


def goals() -> pd.DataFrame:
    """Goals of the iteration-time model, from data/iteration_goals.csv; data/README.md has its columns."""
    return pd.read_csv(files.data("iteration_goals.csv"), keep_default_na=False)


def goals_reached(table: pd.DataFrame) -> pd.DataFrame:
    """Whether a table of predictions reaches each goal, for runs looked at while the model was built and for others.

    The user's own runs are left out. Columns goal, below, seen, runs, error (that the goal is about), model (the worst
    one where the goal is about each model, the worst size where it is about the sign at each, else blank) and reached
    ("no runs" where there are none).
    """
    table, rows = with_families(table[table["seen"] != YOURS]), []
    table = table.assign(precision=table["precision"].replace(SAME_RATE))
    looked_at = table["seen"] == "looked at"
    for goal in goals().itertuples():
        mine = pd.Series(True, table.index)
        for column in ("mixture", "precision", "generation"):
            if wanted := getattr(goal, column):
                mine &= table[column].isin(wanted.split())
        if goal.without:
            mine &= ~table["software"].str.contains(goal.without)
        for seen, some in (("looked at", looked_at), ("kept aside", ~looked_at)):
            part, model = table[mine & some], ""
            error = part["error"].abs().mean()
            if goal.measure == _MEASURES[1] and not part.empty:
                by_model = part["error"].abs().groupby(part["model"]).mean()
                error, model = by_model.max(), by_model.idxmax()
            if goal.measure == _MEASURES[2] and not part.empty:
                by_size = part.groupby("size")["error"].agg(["mean", "size"]).query("size >= @_MANY")["mean"].abs()
                error, model = by_size.max(), f"{by_size.idxmax()} GPUs" if len(by_size) else ""
            reached = "no runs" if part.empty else "yes" if error < goal.below else "no"
            rows.append((goal.goal, goal.below, seen, len(part), error, model, reached))
    return pd.DataFrame(rows, columns=["goal", "below", "seen", "runs", "error", "model", "reached"])


def mechanism_effects(table: pd.DataFrame, mechanisms: Mapping[str, Off] = MECHANISMS) -> pd.DataFrame:
    """What the model loses without each mechanism, everything else as it is, for each family of a table of runs.

    mechanisms: how each is switched off, in the form of MECHANISMS.
    Columns mechanism ("nothing" first), family, runs, time_share (mean share of the iteration that goes with it),
    mean_error, mean_absolute_error and largest_error without it, and gained: the mean absolute error without it less
    that with it, above 0 where the mechanism brings the model nearer to the runs.
    Raises ValueError for a field that neither Machine nor Runtime has.
    """
    table = with_families(table)
    whole = predictions(table)
    errors = whole["error"].abs().groupby(whole["family"], sort=False).mean()
    rows = [_without(whole, "nothing", whole["modelled_s"])]
    rows += [_without(whole, name, _switched_off(table, whole, off)) for name, off in mechanisms.items()]
    effects = pd.concat(rows, ignore_index=True)
    return effects.assign(gained=effects["mean_absolute_error"] - effects["family"].map(errors))


def _switched_off(table: pd.DataFrame, whole: pd.DataFrame, off: Off) -> pd.Series:
    """Modelled times without a mechanism."""
    if isinstance(off, str):
        return whole["modelled_s"] - whole[off]
    if callable(off):
        return predictions(table, altered=off)["modelled_s"]
    software = {name: value for name, value in off.items() if name in _OF_SOFTWARE}
    return predictions(table, software, **{name: off[name] for name in off.keys() - software.keys()})["modelled_s"]


def _without(whole: pd.DataFrame, name: str, modelled_s: pd.Series) -> pd.DataFrame:
    share = 1 - modelled_s / whole["modelled_s"]
    changed = whole.assign(error=modelled_s / whole["measured_iteration_s"] - 1, share=share)
    shares = changed.groupby("family", sort=False)["share"].mean().rename("time_share").reset_index()
    return shares.merge(error_summary(changed, "family"), on="family").assign(mechanism=name)[
        ["mechanism", "family", "runs", "time_share", "mean_error", "mean_absolute_error", "largest_error"]
    ]


def stored_effects() -> pd.DataFrame:
    """`mechanism_effects` of all published runs that are modelled, from data/derived/mechanism_effects.csv."""
    return pd.read_csv(files.data("derived/mechanism_effects.csv"))


def effects_by_family(effects: pd.DataFrame) -> pd.DataFrame:
    """A row for each mechanism, and for each family with its runs what it gained, in percentage points.

    The first row has the mean absolute errors of the whole model [%].
    """
    shown = 100 * effects["gained"].mask(effects["mechanism"] == "nothing", effects["mean_absolute_error"])
    effects = effects.assign(
        shown=shown.map(lambda value: f"{value:.1f}" if abs(value) >= 0.05 else "0"),
        family=effects["family"] + " (" + effects["runs"].astype(str) + " runs)",
    )
    wide = effects.pivot(index="mechanism", columns="family", values="shown")
    wide = wide.loc[effects["mechanism"].unique(), effects["family"].unique()]
    return wide.rename(index={"nothing": "error of the whole model, %"}).rename_axis(columns=None).reset_index()
