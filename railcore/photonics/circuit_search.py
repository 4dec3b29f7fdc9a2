"""Best strategies on photonic rails, by the closed form of `estimate`: one strategy for each time of a change."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog.arguments import Count, SecondsArray, checked
from railcore.catalog.checks import Floats
from railcore.photonics.estimate import STEP_SOFTWARE, circuit_terms
from railcore.photonics.simulation import Ports
from railcore.photonics.stage_program import DEFAULT_STEP, StepOptions
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.strategies.result import SearchResult
from railcore.strategies.slower_networks import search_slower
from railcore.strategies.space import strategy_blocks
from railcore.strategies.splits import divisors
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import LEVEL_NAMES, STRATEGY_SWITCHES
from railcore.training.rank_order import group_levels
from railcore.training.runtime import Runtime, checked_offload
from railcore.training.software import as_runtime
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer, as_model
from railcore.training.unique_rows import Columns

_AT_A_TIME = 1024  # strategies whose changes are computed before the next look whether a slower one can be best
_SEARCHED = 4096  # strategies that a search keeps, the fastest ones
_RING_KINDS = ("tensor", "context", "replica", "expert_replica")
TIMES = ("iteration_s", "electrical_s", "changes_s", "detour_s")


@checked
def best_on_circuits(
    model: Transformer | str,
    machine: Machine | str,
    gpus: Count,
    global_batch: Count,
    reconfiguration_s: SecondsArray,
    provisioning: bool = True,
    ports: Ports = 2,
    options: StepOptions = DEFAULT_STEP,
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
    rings: Literal["any", "even", "none"] = "any",
    fastest: SearchResult | None = None,
    **limits: int | str | Sequence,
) -> pd.DataFrame:
    """The strategy with the shortest iteration on photonic rails, for each time of a change of circuits.

    Strategies of `strategy_blocks` that fit are tried in order of their time on electrical rails. The search ends where
    that time is longer than the best time on circuits: circuits only add time, so that no later strategy is faster.

    Parameters
    ----------
    model, machine, gpus, global_batch
        As for `search`.
    limits
        The values allowed of columns of strategies, as for `search`.
    reconfiguration_s, provisioning, ports, options, runtime, offload
        As for `overhead_estimate`.
    rings
        Rings that close on the circuits. "any": all. "even": of an even number of HB domains. "none": of two HB domains
        alone. Strategies with other rings are left out.
    fastest
        Search of the same job on `slower_networks.fastest_network`: splits that are too slow there are not searched.

    Returns
    -------
    A row for each time: reconfiguration_s; the strategy in words ("none fits" where none does) and by STRATEGY_COLUMNS;
    iteration_s and its parts electrical_s, changes_s and detour_s; best_electrical_s of the fastest strategy on
    electrical rails; overhead = iteration_s / best_electrical_s - 1. attrs["warnings"]: strategies without a closed
    form, which are left out, where they might be faster.

    Raises
    ------
    ValueError
        As `strategy_blocks`; for negative times, and for options that `iteration_times` has no time for.
    """
    model, machine = as_model(model), as_machine(machine).off_fabrics("circuits")
    runtime = as_runtime(runtime, machine)
    away, d = checked_offload(offload), np.asarray(reconfiguration_s, float).ravel()
    best, rows = np.full((d.size, len(TIMES)), np.inf), np.zeros((d.size, len(STRATEGY_COLUMNS)), np.int64)
    fastest_s, left_out = np.inf, dict[str, float]()
    job = (model, machine, gpus, global_batch, runtime, away, limits)
    for electrical_s, columns in _by_electrical_time(*job, fastest, lambda: float(best[:, 0].max())):
        fastest_s = min(fastest_s, float(electrical_s[0]))
        if electrical_s[0] > best[:, 0].max():
            break
        terms = circuit_terms(model, machine, runtime, away, columns, options, ports)
        out = np.zeros(electrical_s.size, bool)
        for text, where in terms.refused.items():
            if np.any(where):
                left_out[text] = min(left_out.get(text, np.inf), float(electrical_s[where].min()))
            out |= where
        open_rings = _open_rings(machine, columns, rings)
        if np.any(open_rings):
            text = "rings of an odd number of HB domains do not close on these circuits"
            left_out[text] = min(left_out.get(text, np.inf), float(electrical_s[open_rings].min()))
        out |= open_rings
        changes_s = terms.changes_s(d[:, None], provisioning)
        total_s = np.where(out, np.inf, electrical_s + changes_s + terms.detour_s)
        place, every = np.argmin(total_s, axis=1), np.arange(d.size)
        better = total_s[every, place] < best[:, 0]
        times = total_s[every, place], electrical_s[place], changes_s[every, place], terms.detour_s[place]
        best[better] = np.stack(times, axis=1)[better]
        rows[better] = np.stack([columns[name][place] for name in STRATEGY_COLUMNS], axis=1)[better]
    return _best_table(d, best, rows, fastest_s, left_out)


def _open_rings(machine: Machine, columns: Columns, rings: str) -> np.ndarray:
    """Where a ring of a strategy joins a number of HB domains around which circuits do not close."""
    groups = group_levels(columns)
    domains = np.array([groups[kind].in_domains(machine.hb_domain_size)[1] for kind in _RING_KINDS])
    odd = (domains > 1) & (domains % 2 == 1)
    return {"any": odd & False, "even": odd, "none": domains > 2}[rings].any(axis=0)


def _by_electrical_time(
    model: Transformer,
    machine: Machine,
    gpus: int,
    global_batch: int,
    runtime: Runtime,
    offload: tuple[str, ...],
    limits: dict[str, Any],
    fastest: SearchResult | None,
    most_s: Callable[[], float],
) -> Iterator[tuple[Floats, Columns]]:
    """Strategies that fit, in order of their time on electrical rails, some at a time: times and columns.

    First those that a search keeps, which are soon there. All others come only where the caller asks for more.
    With the search on the fastest network the first ones come twice: they tell most_s, beyond which none is needed.
    """
    options: dict[str, Any] = {"offload": offload or "none", "top": _SEARCHED, "only_best": True}
    if fastest is None:
        best = search(model, machine, gpus, global_batch, runtime, **options, **limits).fastest
    else:
        yield from _some_at_a_time(search_slower(fastest, machine, 1).fastest)
        best = search_slower(fastest, machine, below_s=most_s() / global_batch, top=_SEARCHED).fastest
    yield from _some_at_a_time(best)
    if best["total_s"].size < _SEARCHED or best["total_s"][-1] > most_s():
        return
    times, parts = [], []
    for block in strategy_blocks(model, machine, gpus, global_batch, runtime, **limits):
        estimate = iteration_times(model, machine, block, runtime, offload)
        fits = np.flatnonzero(estimate.feasible & (estimate.total_s >= best["total_s"][-1]))
        times.append(estimate.total_s[fits])
        parts.append({name: values[fits] for name, values in block.items()})
    total_s = np.concatenate(times)
    order = np.argsort(total_s, kind="stable")
    columns = {name: np.concatenate([part[name] for part in parts])[order] for name in STRATEGY_COLUMNS}
    yield from _some_at_a_time(columns | {"total_s": total_s[order]})


def _some_at_a_time(rows: Columns) -> Iterator[tuple[Floats, Columns]]:
    for begin in range(0, rows["total_s"].size, _AT_A_TIME):
        some = slice(begin, begin + _AT_A_TIME)
        yield rows["total_s"][some], {name: rows[name][some] for name in STRATEGY_COLUMNS}


def _best_table(
    d: Floats, best: Floats, rows: np.ndarray, fastest_s: float, left_out: dict[str, float]
) -> pd.DataFrame:
    """What `best_on_circuits` returns."""
    fits = np.isfinite(best[:, 0])
    columns: dict[str, Any] = dict(zip(STRATEGY_COLUMNS, rows.T, strict=True))
    named = columns | {name: np.asarray(names)[columns[name]] for name, names in LEVEL_NAMES.items()}
    named |= {name: columns[name].astype(bool) for name in STRATEGY_SWITCHES}
    labels = pd.DataFrame(columns).to_dict("records")
    table = pd.DataFrame({"reconfiguration_s": d})
    table["strategy"] = [strategy_label(row) if fit else "none fits" for row, fit in zip(labels, fits, strict=True)]
    table = table.assign(**dict(zip(TIMES, np.where(fits[:, None], best, np.nan).T, strict=True)))
    table["best_electrical_s"] = fastest_s if np.isfinite(fastest_s) else np.nan
    table["overhead"] = table["iteration_s"] / table["best_electrical_s"] - 1
    table.attrs["warnings"] = tuple(
        f"Left out though perhaps faster: {text}." for text, least_s in left_out.items() if least_s < best[:, 0].max()
    )
    return table.assign(**{name: pd.Series(values).where(fits) for name, values in named.items()})


def technology_overheads(
    models: Sequence[str],
    machine: Machine | str,
    gpus: Sequence[int],
    reconfiguration_s: ArrayLike,
    global_batch: int,
    software: Sequence[str] = ("ZeRO-1",),
    provisioning: bool = True,
    **limits: Any,
) -> pd.DataFrame:
    """Estimated overhead over GPUs and delays, each cluster and delay with its own best strategy on circuits.

    The overhead is over the best strategy of the same cluster, software and limits on electrical rails.

    Parameters
    ----------
    models, machine
        Names in the catalog; a GPU and its links.
    gpus, reconfiguration_s
        GPUs of the clusters; times of a change [s].
    global_batch
        Sequences of an iteration.
    software
        Names in STEP_SOFTWARE.
    provisioning
        Whether circuits change before they are asked for.
    **limits
        Of `search`, such as pipeline=[4, 8, 16]; by default without context ranks, and tensor ranks first and within
        an HB domain.

    Returns
    -------
    Columns model, software, gpus, strategy ("none fits" where no strategy does), reconfiguration_s, electrical_s of
    that strategy, best_electrical_s, overhead (NaN there). attrs["warnings"]: of `best_on_circuits`.
    """
    machine = as_machine(machine)
    # The estimate is rough with context ranks on the rails.
    usual = {"context": 1, "placement": "tensor first", "tensor": divisors(machine.hb_domain_size)}
    parts = []
    for model in models:
        for name in software:
            sharding, options = STEP_SOFTWARE[name]
            named: dict[str, Any] = {"options": options, "sharding": sharding, **usual, **limits}
            for size in gpus:
                table = best_on_circuits(model, machine, size, global_batch, reconfiguration_s, provisioning, **named)
                parts.append(table.assign(model=model, software=name, gpus=size))
    order = ["model", "software", "gpus", "strategy", "reconfiguration_s", "electrical_s", "best_electrical_s"]
    table = pd.concat(parts, ignore_index=True)[[*order, "overhead"]]
    table.attrs["warnings"] = tuple(dict.fromkeys(text for part in parts for text in part.attrs["warnings"]))
    return table
