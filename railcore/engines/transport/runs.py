"""Runs of cases: stored ones are looked up, others simulated now; and the same cases by fair sharing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.transport.cases import PERCENTILES, TransportCase, run_case
from railcore.engines.transport.fabric import PathFabric
from railcore.engines.transport.flows import Flows
from railcore.engines.transport.hashing import ecmp_paths
from railcore.engines.transport.optimum import Framing, optimum_s, single_flow_s
from railcore.engines.transport.packets import simulate_packets
from railcore.engines.transport.sharing import fair_sharing, ideal_spraying
from railcore.engines.transport.transports import Transport
from railcore.facts import files
from railcore.facts.checks import Floats

STORED = "derived/transport_runs.csv"
LONG_RUN = 1e7  # packet hops, about half a second
_COLUMNS = [*(field.name for field in fields(TransportCase)), "settings"]


def _key(values: Iterable[Any]) -> tuple:
    """What a run is found by: numbers as a file has them, with ten digits."""
    return tuple(float(f"{value:.10g}") if isinstance(value, float) else value for value in values)


def _case_key(case: TransportCase) -> tuple:
    return _key((*vars(case).values(), case.settings))


def _places(runs: pd.DataFrame) -> dict[tuple, int]:
    """Row of each run."""
    return {_key(row): place for place, row in enumerate(runs[_COLUMNS].to_numpy(object).tolist())}


def _as_made(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with their options as texts, where a file has no value. Raises ValueError for tables of something else."""
    if missing := set(_COLUMNS) - set(runs.columns):
        raise ValueError(f"runs have no column {', '.join(sorted(missing))}: give rows of `run_case`")
    return runs.assign(options=runs["options"].astype(object).fillna(""))


@cache
def _stored(path: Path) -> tuple[pd.DataFrame, dict[tuple, int]]:
    runs = _as_made(pd.read_csv(path))
    return runs, _places(runs)


def runs_of_cases(cases: Iterable[TransportCase], runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rows of a table of `run_case` that belong to the cases, in their order.

    runs: the table; by default what data/derived has. Raises ValueError where a case was not run.
    """
    wanted, given = list(cases), None if runs is None else _as_made(runs)
    table, places = _stored(files.data(STORED)) if given is None else (given, _places(given))
    found = [places.get(_case_key(case)) for case in wanted]
    if None in found:
        first = wanted[found.index(None)]
        raise ValueError(
            f"{found.count(None)} cases were not run, the first with transport {first.transport}, hosts "
            f"{first.hosts}, seed {first.seed}: run data/derived/rebuild.py"
        )
    return table.iloc[found].reset_index(drop=True)


def case_optimum_s(case: TransportCase) -> float:
    """When the last flow of a case can be complete at best, from links and sizes alone [s]."""
    return optimum_s(case.fabric(), case.flows(), case.framing)


def study_runs(cases: Sequence[TransportCase], progress: Callable[[str], Any] | None = print) -> pd.DataFrame:
    """Runs of cases with their optimum: stored ones as they are, others simulated now, also where your catalog differs.

    progress: told before every case of over `LONG_RUN` and each twentieth, and how far a run is. Columns of `run_case`;
    optimum_s, and slowdown: last_s over it.
    """
    stored, known = _stored(files.data(STORED))
    new = [case for case in dict.fromkeys(cases) if _case_key(case) not in known]
    rows = []
    for place, case in enumerate(new, start=1):
        if progress and (case.packet_hops > LONG_RUN or place % 20 == 1):
            progress(f"{place} of {len(new)}: {case.transport}, {case.hosts:,} hosts, seed {case.seed}")
        rows.append(run_case(case, partial(simulate_packets, progress=progress)))
    runs = runs_of_cases(cases, pd.concat([stored, pd.DataFrame(rows)], ignore_index=True) if rows else None)
    optimum = _optima_s(cases)
    return runs.assign(optimum_s=optimum, slowdown=runs["last_s"] / optimum)


def _optima_s(cases: Sequence[TransportCase]) -> Floats:
    """`case_optimum_s` of each, computed once for all transports."""
    own = ("transport", "options", "subflows")
    shared = [tuple(value for name, value in vars(case).items() if name not in own) for case in cases]
    best = {key: case_optimum_s(case) for key, case in dict(zip(shared, cases, strict=True)).items()}
    return np.array([best[key] for key in shared])


def completed_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """Share of the flows that are complete over time: columns transport, seed, share, time_s."""
    long = runs.melt(["transport", "seed"], list(PERCENTILES), "share", "time_s")
    return long.assign(share=long["share"].map(PERCENTILES) / 100).sort_values(
        ["transport", "seed", "share"], kind="stable"
    )


def flow_level(
    fabric: PathFabric,
    flows: Flows,
    transport: Transport,
    framing: Framing,
    seed: int,
    loss: float = 0.0,
    converged: bool = True,
) -> SimpleNamespace:
    """What `simulate_packets` gives, by fair sharing: on single paths (flowlets too), or ideal spraying.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    transport
        Its balancing alone counts.
    framing, seed, loss, converged
        As there; there are no losses.

    Returns
    -------
    completion_s [flows], and no tallies.
    """
    if transport.balancing in ("single path", "flowlets"):
        run = fair_sharing(fabric, flows, ecmp_paths(fabric, flows, seed, converged), framing)
    else:
        run = ideal_spraying(fabric, flows, framing=framing)
    return SimpleNamespace(completion_s=run.completion_s, tallies={})


def flow_level_runs(cases: Sequence[TransportCase]) -> pd.DataFrame:
    """Rows of `run_case` from the flow-level model."""
    return pd.DataFrame([run_case(case, flow_level) for case in cases])


def explored_flow_times(case: TransportCase, progress: Callable[[str], Any] | None = None) -> pd.DataFrame:
    """Completion times of a case's flows by model: columns model, share (of the flows that are complete), time_s.

    The optimum, the flow-level model's single path and spraying; and the packet model's, where `progress` is given.
    """
    fabric, flows, framing = case.fabric(), case.flows(), case.framing
    path = ecmp_paths(fabric, flows, case.seed)
    times = {
        "optimum of each flow": single_flow_s(fabric, flows, framing),
        "all paths, fair sharing": ideal_spraying(fabric, flows, framing=framing).completion_s,
        "one path a flow, fair sharing": fair_sharing(fabric, flows, path, framing).completion_s,
    }
    if progress:
        hops = case.packet_hops / 1e6
        progress(f"{case.transport}: {hops:,.0f} million packet hops; a second of one core does about 20 million")
        run = simulate_packets(fabric, flows, case.preset, framing, case.seed, progress=progress)
        times[f"{case.transport}, packets"] = run.completion_s
    share = np.arange(1, len(flows) + 1) / len(flows)
    parts = [pd.DataFrame({"model": name, "share": share, "time_s": np.sort(each)}) for name, each in times.items()]
    return pd.concat(parts, ignore_index=True)
