"""What a search says to a designer: distinct designs, what would let another one win, and which one holds.

A design is a way to split the GPUs (tensor, context, expert, pipeline, data ranks), a placement, an offload, software,
and the GPUs in use of an HB domain. It stands for all strategies that differ in the rest, which are its neighbours: the
fastest of them is shown.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.search.labels import with_strategy_labels
from railcore.engines.strategies.iteration import Columns
from railcore.facts import catalog, checks
from railcore.training.machine import RESERVED, Machine

KEPT_DESIGNS = 100  # best ones that a search keeps
_CHANGES = {  # what a designer buys, and the fields of a machine that it scales
    "NIC bandwidth": ("nic_Bps",),
    "HB bandwidth": ("hb_Bps",),
    "memory": ("memory_bytes",),
    "memory bandwidth": ("memory_Bps",),
    "GPU rate": ("linear_rate", "bf16_rate"),
}
_FACTORS = (1.125, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0)  # tried upwards and, as shares 1 / f, downwards
_BATCHES = (2, 3, 4)
_HALVINGS = 12
_FIELDS = {  # of a machine, by parameters of the catalog's efficiencies that do not end in a unit's name alone
    "kernel_time": "kernel_s",
    **dict.fromkeys(("reserved_memory", *RESERVED), "reserved_bytes"),
    "host_memory_bandwidth": "host_memory_Bps",
    "launch_time": "launch_s",
    "iteration_host_time": "iteration_host_s",
}


def designs(result: Any, n: int = 5) -> pd.DataFrame:
    """The best n designs in order of time, each by its fastest strategy; none where nothing fits.

    result: a `SearchResult`. Columns strategy, those of `SearchResult.best`, times_best (time over the best one's),
    parts of the time that any of them has [s], memory by kind [bytes], hb_utilization and nic_utilization.
    """
    rows = _first(result, n)
    table = with_strategy_labels(result.table(rows))
    found = result.estimates(rows)
    parts = {name: values for name, values in (found.breakdown | found.memory).items() if values.max(initial=0) > 0}
    busy = {"hb_utilization": found.hb_utilization, "nic_utilization": found.nic_utilization}
    table.insert(0, "strategy", table.pop("strategy"))
    times = table["sequence_s"] / table["sequence_s"].min()
    return table.assign(times_best=times, **parts, **busy)


def _first(result: Any, n: int) -> Columns:
    """The best n designs as columns of strategies. Raises ValueError where n is out of range."""
    checks.whole("n", n, 1, KEPT_DESIGNS)
    return {name: values[:n] for name, values in result.leaders.items()}


def _leading(result: Any, n: int) -> Columns:
    """The same. Raises ValueError too where there is none: what nothing fits has no answer."""
    if not len(result.leaders["part"]):
        result.strategy()  # says why there is none
    return _first(result, n)


def _times(result: Any, rows: Columns, **changes: Any) -> np.ndarray:
    """Seconds per sequence of strategies on changed machines; infinite where something rules one out."""
    found = result.estimates(rows, **changes)
    return np.where(found.feasible, found.total_s / rows["global_batch"], math.inf)


def runner_up_wins(result: Any, n: int = 2) -> pd.DataFrame:
    """What would have to change for design n to be faster than the best, all else and both strategies as they are.

    result: a `SearchResult`. Columns change, below and above: the factors on it nearest to 1 from which on the other
    design is the faster one, NaN where it is not within 1/4 and 4 times; text. A change is looked for at steps, and
    found by halving between two of them: of a batch, the factors 1/4, 1/3, 1/2, 2, 3, 4 that both can split.
    """
    rows = _leading(result, n)
    if len(rows["part"]) < n:
        raise ValueError(f"n is {n}: the search has {len(rows['part'])} designs that fit, give at most that")
    pair = {name: values[[0, n - 1]] for name, values in rows.items()}
    base = result.parts[pair["part"][0]].machine

    def overtakes(names: tuple[str, ...]) -> Callable[[float], bool]:
        def better(factor: float) -> bool:
            best, other = _times(result, pair, **{name: factor * base.values[name] for name in names})
            return bool(other < best)

        return better

    table = [
        (what, *(_crossing(overtakes(names), way) for way in (lambda f: 1 / f, lambda f: f)))
        for what, names in _CHANGES.items()
    ]
    table.append(("batch", _batch_factor(result, pair, -1), _batch_factor(result, pair, 1)))
    found = pd.DataFrame(table, columns=["change", "below", "above"])
    return found.assign(text=[_wins_text(*row) for row in found.itertuples(index=False)])


def _crossing(better: Callable[[float], bool], way: Callable[[float], float]) -> float:
    """The factor nearest to 1, up or down, at which the other design is better; NaN for none."""
    before = 1.0
    for factor in map(way, _FACTORS):
        if better(factor):
            for _ in range(_HALVINGS):
                middle = (before + factor) / 2
                before, factor = (before, middle) if better(middle) else (middle, factor)
            return factor
        before = factor
    return math.nan


def _batch_factor(result: Any, pair: Columns, sign: int) -> float:
    for factor in _BATCHES:
        batch = pair["global_batch"]
        if sign < 0 and np.any(batch % factor):
            continue
        best, other = _times(result, pair | {"global_batch": batch * factor if sign > 0 else batch // factor})
        if other < best:
            return float(factor) if sign > 0 else 1 / factor
    return math.nan


def _wins_text(change: str, below: float, above: float) -> str:
    ways = [f"{factor:.3g}" for factor in (below, above) if not math.isnan(factor)]
    return f"at {' or '.join(ways)} times the {change}" if ways else f"never within 1/4 to 4 times the {change}"


def robust(result: Any, n: int = 5) -> pd.DataFrame:
    """The best n designs with each uncertain input of the machine at its low and at its high end.

    Inputs are the rows of the catalog's efficiencies, of the GPU and of all, that have such ends. Times are seconds per
    sequence, infinite where a design does not fit. Regret is the time over the best of the designs in that case, less
    1; the robust design is the one whose largest regret is least, of equal ones the faster.

    Parameters
    ----------
    result
        A `SearchResult`.
    n
        Designs compared.

    Returns
    -------
    A row for each case: columns input ("as given" first), end, value, one for each design (its label), best (label).
    attrs: "best", "robust" (labels), "regret" (largest regret by label).
    """
    rows = _leading(result, n)
    labels = [f"{i}: {text}" for i, text in enumerate(with_strategy_labels(result.table(rows))["strategy"], start=1)]
    cases: list[tuple[str, str, float, dict[str, Any]]] = [("as given", "", math.nan, {})]
    cases += [
        (
            f"{row.name} {row.parameter}",
            end,
            getattr(row, end),
            {name: _whole(name, getattr(row, end)) for name in names},
        )
        for row, names in uncertain_inputs(result.machine)
        for end in ("low", "high")
    ]
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


def _whole(name: str, value: float) -> float:
    """Processors are counted."""
    return int(value) if name == "processors" else value


def uncertain_inputs(machine: Machine) -> list[tuple[catalog.Value, tuple[str, ...]]]:
    """Rows of the catalog's efficiencies that have a low and a high end, with the fields of a machine that they are.

    A part of the reserved memory stands for `reserved_bytes` with the other parts as they are.
    """
    known = machine.values
    found = []
    for name in (machine.gpu, "all"):
        if name not in catalog.names("efficiencies"):
            continue
        for row in catalog.item("efficiencies", name).rows:
            if name == "all" and row.parameter in RESERVED and row.low is not None:
                rest = machine.memory.reserved_bytes - row.value
                row = replace(row, low=max(rest + row.low, 0.0), high=rest + row.high)
            candidates = [_FIELDS.get(row.parameter, row.parameter), f"{row.parameter}_s"]
            if row.parameter == f"matmul_fraction_{machine.precision}":
                candidates.append("linear_fraction")
            if row.parameter == "matmul_fraction_bf16":
                candidates.append("bf16_fraction")
            names = tuple(dict.fromkeys(each for each in candidates if each in known))
            if names and row.low is not None and row.high is not None and row.low < row.high:
                found.append((row, names))
    return found
