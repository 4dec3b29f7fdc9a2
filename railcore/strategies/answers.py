"""What a search says to a designer: distinct designs, what would let another one win, and which one is robust.

A design is a way to split the GPUs (tensor, context, expert, pipeline, data ranks), a placement, an offload, software,
and the GPUs in use of an HB domain. It stands for all strategies that differ only in the rest; the fastest is shown.
`result` is a `SearchResult`.
"""

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.strategies.labels import with_strategy_labels
from railcore.training.machine import Machine
from railcore.training.machine_rows import (
    RESERVED,
    cast_share_row,
    epilogue_row,
    full_clock_row,
    product_share_row,
)
from railcore.training.strategy_columns import STRATEGY_RANGES
from railcore.training.unique_rows import Columns

KEPT_DESIGNS = 100  # best ones that a search keeps
_CHANGES = {  # what a designer buys besides memory: fields of a machine that it scales
    "NIC bandwidth": ("nic_Bps",),
    "HB bandwidth": ("hb_Bps",),
    "memory bandwidth": ("memory_Bps",),
    "GPU rate": ("linear_rate", "bf16_rate"),
}
_MOST = 4.0  # a change is looked for from 1 / _MOST to _MOST times
_RANGE = f"from 1/{_MOST:g} to {_MOST:g}"
_STEP = _MOST ** (1 / 8)  # between factors that are tried
_PRECISION = _STEP ** (1 / 32)  # of a crossing
_MOST_BATCHES = 2000
_FIELDS = {  # of a machine, by parameters of the catalog's efficiencies with another name
    "kernel_time": "kernel_s",
    **dict.fromkeys(("reserved_memory", *RESERVED), "reserved_bytes"),
    "host_memory_bandwidth": "host_memory_Bps",
    "launch_time": "launch_s",
    "peer_bandwidth": "peer_Bps",
}
_COUNTED = ("processors", "collective_processors", "rack_gpus")  # fields that are whole numbers


def designs(result: Any, n: int = 5) -> pd.DataFrame:
    """The best n designs in order of time, each by its fastest strategy; none where nothing fits.

    result: a `SearchResult`. Columns strategy, those of `SearchResult.best`, times_best (time over the best one's),
    parts of the time that any of them has [s], memory by kind [bytes], hb_utilization and nic_utilization.
    """
    rows = _first(result, n)
    table = with_strategy_labels(result.table(rows))
    times = result.estimates(rows)
    parts = {name: values for name, values in (times.breakdown | times.memory).items() if values.max(initial=0) > 0}
    busy = {"hb_utilization": times.hb_utilization, "nic_utilization": times.nic_utilization}
    table.insert(0, "strategy", table.pop("strategy"))
    times_best = table["sequence_s"] / table["sequence_s"].min()
    return table.assign(times_best=times_best, **parts, **busy)


def _first(result: Any, n: int) -> Columns:
    """The best n designs as columns of strategies."""
    return {name: values[:n] for name, values in result.leaders.items()}


def _leading(result: Any, n: int) -> Columns:
    """The best n designs. Raises ValueError where nothing fits."""
    if not len(result.leaders["part"]):
        result.strategy()  # says why there is none
    return _first(result, n)


def _times(result: Any, rows: Columns, **changes: Any) -> np.ndarray:
    """Seconds per sequence of strategies on a changed machine; infinite where something rules one out."""
    times = result.estimates(rows, **changes)
    return np.where(times.feasible, times.total_s / rows["global_batch"], math.inf)


def runner_up_wins(result: Any, n: int = 2) -> pd.DataFrame:
    """What would have to change for design n to be faster than the best, all else and both strategies as they are.

    It wins where it is faster, or where it fits or can split the batch and the best does not. How exact an answer is:

    - Memory changes what fits, and no time: design n wins from its own need up to that of the best, to the last bit.
    - All batches that both can split are tried; where they are many, evenly spaced ones.
    - Bandwidths and rates are tried at steps, and a crossing between two is halved; the column `known` has both widths.
      A window narrower than a step may be missed. Intervals that monotonicity excludes are skipped: a machine that is f
      times as good is taken to be never slower, and at most f times as fast.

    n: the design, from 1 (the best itself). A row for each change, with columns change; below and above, the factors
    nearest to 1 at which design n wins, NaN for none; until, of memory the least such factor, NaN of others; text;
    known, how exact that is.
    """
    rows = _leading(result, n)
    if len(rows["part"]) < n:
        raise ValueError(f"n is {n}: the search has {len(rows['part'])} designs that fit, give at most that")
    pair = {name: values[[0, n - 1]] for name, values in rows.items()}
    best_bytes, other_bytes = pair["memory_bytes"].tolist()
    until, most = _memory_window(best_bytes, other_bytes, result.machine.memory_bytes)
    table = [_crossing_row(result, pair, change) for change in _CHANGES]
    table.insert(2, ("memory", most, math.nan, until, _memory_text(until, most), "exactly"))
    table.append(_batch_row(result, pair))
    return pd.DataFrame(table, columns=["change", "below", "above", "until", "text", "known"])


def _memory_window(best_bytes: float, other_bytes: float, memory_bytes: float) -> tuple[float, float]:
    """The least and the largest factor on a GPU's memory at which the other strategy fits and the best does not."""

    def least(need: float) -> float:
        """The least factor at which it fits: need / memory, to the last bit."""
        factor = need / memory_bytes
        while factor * memory_bytes >= need:
            factor = math.nextafter(factor, 0.0)
        while factor * memory_bytes < need:
            factor = math.nextafter(factor, math.inf)
        return factor

    until, most = least(other_bytes), math.nextafter(least(best_bytes), 0.0)
    return (until, most) if until <= most else (math.nan, math.nan)


def _memory_text(until: float, most: float) -> str:
    """The window in the fewest digits, at least three, that stay inside it and cover nine tenths of it."""
    if math.isnan(until):
        return "never by memory: it needs as much as the best or more"
    low, high = str(until), str(most)
    for digits in range(3, 17):
        inner = _rounded(until, digits, ROUND_CEILING), _rounded(most, digits, ROUND_FLOOR)
        if inner[0] < inner[1] and float(inner[1] - inner[0]) >= 0.9 * (most - until):
            low, high = map(str, inner)
            break
    return f"from {low} to {high} times the memory, where the best does not fit"


def _rounded(value: float, digits: int, way: str) -> Decimal:
    exact = Decimal(value)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), way)


def _crossing_row(result: Any, pair: Columns, change: str) -> tuple[str, float, float, float, str, str]:
    base = result.machine.values

    @cache
    def times(factor: float) -> tuple[float, float]:
        """Of the best and of the other."""
        changes = {name: factor * base[name] for name in _CHANGES[change]}
        best, other = pair["sequence_s"] if factor == 1 else _times(result, pair, **changes)
        return float(best), float(other)

    below, above = (_crossing(times, 1.0, end) for end in (1 / _MOST, _MOST))
    ways = " or ".join(f"{factor:.3g}" for factor in (below, above) if not math.isnan(factor))
    text = f"{f'at about {ways}' if ways else f'not at the steps tried {_RANGE}'} times the {change}"
    known = f"to {_PRECISION - 1:.1%}; may miss a window under {_STEP - 1:.0%}"
    return change, below, above, math.nan, text, known


def _crossing(times: Callable[[float], tuple[float, float]], near: float, far: float) -> float:
    """The factor nearest to 1 between `near`, where the other strategy is not faster, and `far`; NaN for none."""
    low, high = sorted((near, far))
    (best_low, other_low), (best_high, other_high) = times(low), times(high)
    if other_high >= best_low or low * other_low >= high * best_high:  # times fall with f, f times a time does not
        return math.nan
    best, other = times(far)
    if high / low <= (_PRECISION if other < best else _STEP) * (1 + 1e-9):
        return far if other < best else math.nan
    middle = math.sqrt(near * far)
    first = _crossing(times, near, middle)
    return _crossing(times, middle, far) if math.isnan(first) else first


def _batch_row(result: Any, pair: Columns) -> tuple[str, float, float, float, str, str]:
    """Batches k / whole times the given ones; whole: the most such parts that both can split."""
    batch = pair["global_batch"]
    whole = math.gcd(*(batch // (pair["data"] * pair["micro_batch"])).tolist())
    apart = math.ceil(_MOST * whole / _MOST_BATCHES)
    most = min(int(_MOST * whole), STRATEGY_RANGES["global_batch"][1] * whole // int(batch.max()))
    k = np.arange(whole - int((whole - whole / _MOST) / apart) * apart, most + 1, apart)
    rows = {name: np.repeat(values, k.size) for name, values in pair.items()}
    best, other = _times(result, rows | {"global_batch": np.outer(batch // whole, k).ravel()}).reshape(2, -1)
    wins = k[other < best]
    below = float(max(wins[wins < whole], default=math.nan) / whole)
    above = float(min(wins[wins > whole], default=math.nan) / whole)
    ways = " or ".join(f"{factor:.4g}" for factor in (below, above) if not math.isnan(factor))
    text = f"{f'at {ways}' if ways else f'not at the batches tried {_RANGE}'} times the batch"
    known = f"{'at all' if apart == 1 else 'at'} {k.size - 1:,} other batches that both can split"
    return "batch", below, above, math.nan, text, known


def robust(result: Any, n: int = 5) -> pd.DataFrame:
    """The best n designs with each uncertain input of the machine at its low and at its high end.

    Inputs are the rows of the catalog's efficiencies, of the GPU and of all, that have both ends. Regret of a design is
    its time over the best design's in that case, less 1. The robust design has the least largest regret; of equal ones
    it is the faster.

    n: designs compared. A row for each case, with columns input ("as given" first), end, value, one for each design
    (its label, in seconds per sequence, infinite where it does not fit), best (label). attrs: "best", "robust"
    (labels), "regret" (largest regret by label).
    """
    rows = _leading(result, n)
    labels = [f"{i}: {text}" for i, text in enumerate(with_strategy_labels(result.table(rows))["strategy"], start=1)]
    cases: list[tuple[str, str, float, dict[str, Any]]] = [("as given", "", math.nan, {})]
    for row, _ in uncertain_inputs(result.machine):
        key = (row.family, row.name, row.parameter)
        for end in ("low", "high"):
            changes = machine_changes(result.machine, {key: getattr(row, end)})
            value = changes["reserved_bytes"] if row.parameter in RESERVED else getattr(row, end)
            cases.append((f"{row.name} {row.parameter}", end, value, changes))
    times = np.array([_times(result, rows, **changes) for *_, changes in cases])
    least = times.min(axis=1, keepdims=True)
    fits = np.isfinite(least)
    regret = np.where(fits, times, 1.0) / np.where(fits, least, 1.0) - 1
    worst = regret.max(axis=0)
    table = pd.DataFrame([case[:3] for case in cases], columns=["input", "end", "value"])
    table = table.join(pd.DataFrame(times, columns=labels))
    table["best"] = [labels[i] for i in times.argmin(axis=1)]
    regrets = dict(zip(labels, worst.tolist(), strict=True))
    table.attrs |= {"best": labels[0], "robust": labels[int(worst.argmin())], "regret": regrets}
    return table


def uncertain_inputs(machine: Machine) -> list[tuple[catalog.Value, tuple[str, ...]]]:
    """Rows of the catalog's efficiencies that have a low and a high end, each with its fields of a machine.

    A row of all GPUs counts where the GPU has none of its own.
    A part of the reserved memory has the field `reserved_bytes`, which `machine_changes` sums over all parts.
    """
    shares = catalog.item("efficiencies", machine.gpu) if machine.gpu in catalog.names("efficiencies") else {}
    of_products = {"fraction": product_share_row, "full_clock": full_clock_row, "epilogue_rate": epilogue_row}
    fields = {
        f"{kind}_{name}": row_of(shares, precision)
        for name, row_of in of_products.items()
        for kind, precision in (("linear", machine.precision), ("bf16", "bf16"))
    } | {"cast_fraction": cast_share_row(machine.precision)}
    uncertain = []
    for name in (machine.gpu, "all"):
        if name not in catalog.names("efficiencies"):
            continue
        for row in catalog.item("efficiencies", name).rows:
            if name == "all" and row.parameter in shares:
                continue
            candidates = [_FIELDS.get(row.parameter, row.parameter), f"{row.parameter}_s"]
            candidates += [field for field, parameter in fields.items() if parameter == row.parameter]
            names = tuple(dict.fromkeys(field for field in candidates if field in machine.values))
            if names and row.low is not None and row.high is not None and row.low < row.high:
                uncertain.append((row, names))
    return uncertain


def machine_changes(machine: Machine, values: Mapping[tuple[str, str, str], float]) -> dict[str, Any]:
    """Fields for `Machine.changed` from other values of rows of `uncertain_inputs`.

    machine: as the catalog has it. values: by family, item and parameter; other rows are ignored. Reserved memory
    changes by the sum of its parts' changes.
    """
    changes, reserved = dict[str, Any](), list[float]()
    for row, names in uncertain_inputs(machine):
        value = values.get((row.family, row.name, row.parameter))
        if value is None:
            continue
        if row.parameter in RESERVED:
            reserved.append(value - row.value)
        else:
            changes |= {name: int(value) if name in _COUNTED else value for name in names}
    if reserved:
        changes["reserved_bytes"] = max(machine.memory.reserved_bytes + sum(reserved), 0.0)
    return changes
