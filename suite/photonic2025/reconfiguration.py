"""photonic2025's Fig. 8: the replay of its measured run, simulations beside it, and its authors' later emulation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import files, units
from railcore.photonics import circuits
from railcore.photonics.circuits import PhotonicCircuits
from railcore.photonics.control_plane import ControlPlane, catalog_control_plane, saturating_gpus
from railcore.photonics.simulation import simulate
from railcore.photonics.workload import Workload, differing_replicas, training_step
from railcore.training.machine import Machine, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.software import newest_runtime
from suite.ledger import claims
from suite.ledger.readings import Entries, with_prefix
from suite.photonic2025 import circuit_lanes
from suite.photonic2025.ring_limits import ring_all_to_all_ratio
from suite.photonic2025.run import EAGER, GPU, MODEL, PLATFORM, solved_machine
from suite.photonic2025.trace import (
    WINDOW_RAIL,
    measured_rates,
    measured_run,
    measured_windows,
    replayed_iteration_times,
)
from suite.photonic2025.window_claims import MILLISECONDS_S

REQUESTS = {"on demand": False, "provisioned": True}  # provisioning or not
QUOTED_S = 0.1  # reconfiguration delay at which the document quotes overheads
MEASURED = f"{MODEL} on {GPU}, measured with links at a small part of their rate"  # network of `measured_overheads`
_RING_RANKS = 16  # of the claim on experts
_ROUNDING = 1e-12  # shares below it are sums of the same times in another order
# By the authors' labels; AR after a window is the AllReduce over the pipeline, since that over data-parallel ranks is
# counted with the ReduceScatter.
_CIRCUIT_TRAFFIC = {"AG": "data", "RS": "data", "AR": "pipeline", "PP": "pipeline"}


def step_settings(platform: str, measured: bool) -> tuple[Machine, dict[str, float], Runtime]:
    """A GPU, bandwidths over the rails by operation [bytes/s], and what the software overlaps.

    measured: as in the document's run, its HB bandwidth solved where the platform is the run's; else the platform's
    own, with no rates.
    """
    if not measured:
        return catalog_machine(platform), {}, newest_runtime(platform)
    return solved_machine() if platform == PLATFORM else catalog_machine(platform), measured_rates(), EAGER


def windows_on_circuits(frontend_bytes: float) -> pd.DataFrame:
    """Measured windows that are left when messages below a size [bytes] take the hosts' network and need no circuit.

    Traffic before and after such a message meets. Where both are of the same parallelism, no window is left. Columns
    iteration, window (its number among all), before, after, start_s, duration_s.
    """
    windows = measured_windows()
    large = (windows["volume_after_bytes"] >= frontend_bytes).to_numpy()
    rows: list[dict[str, Any]] = []
    last, freed = windows["before"].iloc[0], windows["start_s"].iloc[0]
    ends = windows["start_s"].to_numpy()
    for i, row in enumerate(windows.itertuples()):
        if not large[i]:
            continue
        if _CIRCUIT_TRAFFIC[last] != _CIRCUIT_TRAFFIC[row.after]:
            named = {"iteration": row.iteration, "window": row.window, "before": last, "after": row.after}
            begins = row.start_s + row.duration_s
            rows.append({**named, "start_s": freed, "duration_s": max(begins - freed, 0.0)})
        last, freed = row.after, ends[i + 1] if i + 1 < len(ends) else np.nan
    return pd.DataFrame(rows, columns="iteration window before after start_s duration_s".split())


def replayed_fig8(delays_s: Sequence[float]) -> pd.DataFrame:
    """Fig. 8 by the document's replay: columns requests, reconfiguration_s, iteration_s, measured (False)."""
    parts = [
        pd.DataFrame(
            {
                "requests": way,
                "reconfiguration_s": delays_s,
                "iteration_s": replayed_iteration_times(delays_s, early),
                "measured": False,
            }
        )
        for way, early in REQUESTS.items()
    ]
    return pd.concat(parts, ignore_index=True)


def frontend_table(simulated: pd.DataFrame, fewer: pd.DataFrame, frontend_bytes: float) -> pd.DataFrame:
    """What tiny calls on the hosts' network save at 100 ms, in the replay and in a simulation.

    simulated, fewer: of `photonic_overhead` without and with this size below which messages take the hosts' network.
    Columns source, requests, all_on_circuits, tiny_on_frontend: increases of the iteration time.
    """
    base, left = measured_run()["iteration_time"], windows_on_circuits(frontend_bytes)
    rows = []
    for way, early in REQUESTS.items():
        replays = [
            float(replayed_iteration_times(QUOTED_S, early, windows) / base - 1) if len(windows) else 0.0
            for windows in (measured_windows(), left)
        ]
        rows.append(("replay of the trace", way, *replays))
        rows.append(("simulated", way, *(_quoted(table)[early] for table in (simulated, fewer))))
    return pd.DataFrame(rows, columns=["source", "requests", "all_on_circuits", "tiny_on_frontend"]).sort_values(
        "source", kind="stable", ignore_index=True
    )


def _quoted(simulated: pd.DataFrame) -> pd.Series:
    """Increase at 100 ms by provisioning."""
    return simulated[np.isclose(simulated["reconfiguration_s"], QUOTED_S, atol=0)].set_index("provisioning")["overhead"]


def emulated_runs(gpus: int = 16) -> pd.DataFrame:
    """Runs of the authors' later emulation: columns requests, controller, reconfiguration_s, iteration_s, deviation_s.

    gpus: 16 or 64. requests is empty in the run without a control plane.
    """
    table = pd.read_csv(files.data("measured/photonic_emulation.csv"), keep_default_na=False)
    return table[table["gpus"] == gpus].drop(columns="gpus").reset_index(drop=True)


def emulation_summary() -> pd.DataFrame:
    """What the emulation says of the control plane, by GPUs and way to ask.

    Columns gpus, requests, without_s (iteration without a control plane), control_plane (what it adds at no delay, a
    share), changes (on the critical path: slope of the iteration time over delays up to 1 s, least squares),
    added (at the document's 100 ms, over the run at no delay), each_change_s (what the control plane adds, over
    changes).
    """
    rows = []
    for gpus in (16, 64):
        runs = emulated_runs(gpus)
        without = runs.loc[runs["controller"] == "no", "iteration_s"].iloc[0]
        for way in REQUESTS:
            mine = runs[(runs["requests"] == way) & (runs["reconfiguration_s"] <= 1)]
            delays, times = mine["reconfiguration_s"].to_numpy(), mine["iteration_s"].to_numpy()
            changes, at_once = np.polyfit(delays, times, 1)[0], times[delays == 0][0]
            added = times[np.isclose(delays, QUOTED_S, atol=0)][0] / at_once - 1
            row = (gpus, way, without, at_once / without - 1, changes, added, (at_once - without) / changes)
            rows.append(row)
    names = "gpus requests without_s control_plane changes added each_change_s".split()
    return pd.DataFrame(rows, columns=names)


def fig8_table(delays_s: Sequence[float], simulated: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
    """Fig. 8 thrice: the replay, a simulation, and the emulation up to the longest delay.

    simulated: of `photonic_overhead`, with and without provisioning. Gives the table for
    `charts.reconfiguration.iteration_time_by_reconfiguration`, and the iteration time without reconfiguration by
    source [s].
    """
    names = {early: way for way, early in REQUESTS.items()}
    ours = simulated.assign(requests=simulated["provisioning"].map(names), measured=False)
    runs = emulated_runs()
    emulated = runs[(runs["controller"] == "yes") & (runs["reconfiguration_s"] <= max(delays_s))].assign(measured=True)
    parts = {
        "replay of the trace": replayed_fig8(delays_s),
        "simulated": ours,
        "the authors' later emulation, messages cost time at 0 s too": emulated,
    }
    columns = ["source", "requests", "reconfiguration_s", "iteration_s", "measured"]
    table = pd.concat([part.assign(source=name)[columns] for name, part in parts.items()], ignore_index=True)
    without = runs.loc[runs["controller"] == "no", "iteration_s"].iloc[0]
    base = [measured_run()["iteration_time"], simulated["electrical_s"].iloc[0], without]
    return table, dict(zip(parts, map(float, base), strict=True))


def replay_claims(simulated: pd.DataFrame, tiny: pd.DataFrame) -> Entries:
    """Values, reasons and readings of Fig. 8, of the introduction's 3%, and of experts on rings.

    The rail of the replay is that of the authors' public script: GitHub chuhan-ouyang/torchtitan,
    traces-scripts/simulate_ocs_reconfig.sh, reads the windows of ranks 0, 4, 8 and 12; its stored result at 100 ms is
    that of `trace.replayed_iteration_times`.

    simulated: of `photonic_overhead`, with delays of 0 and 100 ms, of the document's run; tiny: `frontend_table`.
    """
    replay = {way: _replayed(QUOTED_S, early) for way, early in REQUESTS.items()}
    mine, base_s = _quoted(simulated), simulated["electrical_s"].iloc[0]
    tiny = tiny.set_index(["source", "requests"])["tiny_on_frontend"]
    zero = simulated[simulated["reconfiguration_s"] == 0]["overhead"].abs().max()
    names = {"on demand": "overhead_100ms_no_provisioning", "provisioned": "overhead_100ms_provisioning"}
    values = {f"fig8.{name}": replay[way] for way, name in names.items()}
    values |= {"fig8.overhead_zero_delay": float(zero), "intro.iteration_overhead": replay["provisioned"]}
    values["fig8.overhead_milliseconds"] = _replayed(MILLISECONDS_S, False)
    values["sec5.all_to_all_on_ring"] = ring_all_to_all_ratio(_RING_RANKS)
    values["fig8.reconfigurations"] = mine[False] * base_s / QUOTED_S
    summary = emulation_summary().set_index(["gpus", "requests"])
    emulated, slope = summary["added"], summary["changes"][16, "on demand"]
    readings = {
        "fig8.reconfigurations": "the simulated step, in which each window waits for one (the authors' later "
        f"emulation: {slope:.3g})"
    }
    for way, name in names.items():
        readings[f"fig8.{name}"] = (
            f"a replay of the measured windows (the simulated step: {mine[REQUESTS[way]]:.2%}; the authors' later "
            f"emulation: {emulated[16, way]:.2%}; tiny calls on the hosts' network: "
            f"{tiny['replay of the trace', way]:.2%})"
        )
    *others, slowest = _replayed_rails()
    on_rails = (
        f"rail 0, which the authors' public script replays (others: {', '.join(f'{share:.2%}' for share in others)}; a "
        f"job that waits for the slowest rail in each window: {slowest:.2%})"
    )
    readings["fig8.overhead_100ms_provisioning"] += f"; {on_rails}"
    readings["intro.iteration_overhead"] = f"the provisioned replay of section 4.2 at 100 ms; {on_rails}"
    reasons = {
        "fig8.overhead_milliseconds": f"{measured_windows()['window'].max()} windows, each longer by the whole delay",
        "sec5.all_to_all_on_ring": "traffic both ways around, each piece the shorter way; "
        f"{ring_all_to_all_ratio(_RING_RANKS, both_ways=False):.3g} one way around",
    }
    if claims.verdict_of("photonic2025.intro.iteration_overhead", replay["provisioned"]) != "reproduced":
        reasons["intro.iteration_overhead"] = "section 4.2 prints 3.5% for the same run"
    return with_prefix("photonic2025", values, reasons, readings)


def overhead_marks(values: Mapping[str, float]) -> dict[str, claims.Mark]:
    """Marks of the increase at 100 ms by way to ask. values: ours, by claim id."""
    names = {"on demand": "overhead_100ms_no_provisioning", "provisioned": "overhead_100ms_provisioning"}
    ids = {way: f"photonic2025.fig8.{name}" for way, name in names.items()}
    marks = claims.marks({name: values[name] for name in ids.values()})
    return {way: marks[name] for way, name in ids.items() if name in marks}


def _replayed(delay_s: float, early: bool, windows: pd.DataFrame | None = None) -> float:
    """Increase of the measured iteration by the replay."""
    return float(replayed_iteration_times(delay_s, early, windows) / measured_run()["iteration_time"] - 1)


def _replayed_rails() -> list[float]:
    """The provisioned replay at 100 ms on the rails but rail 0, and with the shortest window of all rails each time."""
    every = measured_windows(None)
    rails = [_replayed(QUOTED_S, True, windows) for rail, windows in every.groupby("rail") if rail != WINDOW_RAIL]
    shortest = every.groupby(["iteration", "window"], as_index=False)["duration_s"].min()
    return [*rails, _replayed(QUOTED_S, True, shortest)]


def table3_delays() -> dict[str, float]:
    """Reconfiguration times of the circuit switches of Table 3 by name [s]."""
    items = [catalog.item("circuit_switches", name) for name in catalog.names("circuit_switches")]
    return {item.name: float(item["reconfiguration_time"]) for item in items if "claim_key" in item}


def measured_overheads(delays_s: Sequence[float]) -> pd.DataFrame:
    """What delays of the switch [s] cost the measured run, with provisioning: network, reconfiguration_s, overhead."""
    shares = replayed_iteration_times(delays_s, True) / measured_run()["iteration_time"] - 1
    return pd.DataFrame({"network": MEASURED, "reconfiguration_s": delays_s, "overhead": shares})


def overhead_words(delay_s: float, run: str, full: float, measured: float | None = None) -> str:
    """What a delay of the switch costs with provisioning, and what to buy; sentences.

    Parameters
    ----------
    delay_s, run
        The delay [s], and the model on its platform in words.
    full, measured
        Increase of the iteration at the full rate of the links, and of the measured run; None leaves it out.

    Returns
    -------
    The sentences.
    """
    delay = f"if circuits take {units.show(delay_s, 's')} to change and change as early as they can"
    told = f"{_percent(full)} longer, for {run} at the full rate of its links, {delay}."
    if measured is not None:
        told = f"{_percent(measured)} longer in the measured run of {MODEL} on {GPU}, {delay}; its links ran at a "
        told += f"small part of their rate. At the full rate the same changes add {_percent(full)}."
    if full == 0 and delay_s > 0:
        return f"{told} Any circuit switch is fast enough."
    return f"{told} Buy a switch whose change is short beside your iteration."


def _percent(share: float) -> str:
    return f"{units.number(100 * share, 3)}%"


def group_rows(workload: Workload, rank: int, plane: ControlPlane) -> list[str]:
    """A manager's table of groups for one rank, "kind: ranks, network", a line for each; the first five."""
    table, size = workload.table, workload.machine.hb_domain_size
    mine = table[np.array([rank in members and len(members) > 1 for members in table["ranks"]], bool)]
    rows: dict[str, None] = {}
    t = workload.strategy.tensor
    if t > 1:
        first = rank - rank % t
        rows[f"tensor: {first}–{first + t - 1}, {plane.network(0, within_domain=True)}"] = None
    for row in mine.itertuples():
        inside = len({member // size for member in row.ranks}) == 1
        network = plane.network(row.message_bytes, inside)
        members = [str(member) for member in sorted(row.ranks)]
        named = ", ".join(members) if len(members) < 4 else f"{members[0]}, {members[1]} … {members[-1]}"
        name = row.kind if network != "frontend" else "small"
        rows[f"{name}: {named}, {network}"] = None
    return list(rows)[:5]


def latency_source(name: str) -> str:
    """Where the latencies of a control plane of the catalog are from: the kinds of its rows."""
    item = catalog.item("control_planes", name)
    times = [f"{field.name[:-2]}_time" for field in fields(ControlPlane) if field.name.endswith("_s")]
    return " or ".join(sorted({item.row(time).kind for time in times}))


def control_plane_table(
    name: str, ranks: int, hb_domain_size: int, changes: float, iteration_s: float, switches: Mapping[str, float]
) -> pd.DataFrame:
    """A control plane at its value and its bounds.

    Parameters
    ----------
    name
        Of the catalog's control planes.
    ranks
        Of a group on a rail.
    hb_domain_size, changes, iteration_s
        As in `control_plane.saturating_gpus`.
    switches
        Reconfiguration times by name [s].

    Returns
    -------
    Columns latencies (value, low, high), first_time_s, cached_s, up_s (from the last call to usable circuits beside the
    switch), faster_switches (that take less time than this, cached), full_at_gpus (one request from each HB domain) and
    full_at_gpus_each (from each rank).
    """
    rows = []
    for bound in ("low", "value", "high"):
        plane = catalog_control_plane(name, bound)
        first, cached, up = (plane.overhead_s(ranks, state) for state in ("first time", "cached", "up"))
        faster = sum(delay < cached for delay in switches.values())
        full = [saturating_gpus(plane, hb_domain_size, changes, iteration_s, ranks, early) for early in (True, False)]
        rows.append((bound, first, cached, up, faster, *(float(f"{gpus:.3g}") for gpus in full)))
    names = "latencies first_time_s cached_s up_s faster_switches full_at_gpus full_at_gpus_each".split()
    return pd.DataFrame(rows, columns=names)


def switch_table(switches: Mapping[str, float], added: pd.DataFrame) -> pd.DataFrame:
    """Circuit switches with the overhead of a step.

    switches: reconfiguration times by name [s]; added: of `photonic_overhead`, for these in their order, with their
    control plane. Columns switch, alone_s, whole_s (with the control plane), on_demand, provisioned.
    """
    times = added.pivot(index="reconfiguration_s", columns="provisioning", values="overhead")
    whole = added["reconfiguration_s"].to_numpy()[: len(switches)]
    shares = {way: times.loc[whole, early].to_numpy() for way, early in REQUESTS.items()}
    names = {"switch": list(switches), "alone_s": list(switches.values()), "whole_s": whole}
    return pd.DataFrame(names | {way.replace(" ", "_"): share for way, share in shares.items()})


def explored_timeline(
    model: str,
    machine: Machine,
    strategy: Strategy,
    micro_batches: int,
    network: PhotonicCircuits,
    draw: Callable,
    **how: Any,
) -> Any:
    """The iteration of two ranks, of the first two stages where there are several, and its time in the title.

    Parameters
    ----------
    model, machine, strategy
        As for `training_step`.
    micro_batches
        Of a replica.
    network
        Circuits.
    draw
        `charts.reconfiguration.circuit_timelines`.
    how
        Options and runtime of `training_step`.

    Returns
    -------
    What `draw` gives.
    """
    batch, one = strategy.data * micro_batches, not differing_replicas(machine, strategy)
    step = training_step(model, machine, strategy, batch, **how, iterations=2, one_replica=one)
    run = simulate(step, network)
    base = simulate(step, circuits.electrical_twin(network))
    more = _percent(run.iteration_s / base.iteration_s - 1)
    title = f"{units.show(run.iteration_s, 's', 4)}, {more} over electrical rails"
    return draw({title: circuit_lanes.rank_lanes(run, sorted(step.simulated)[:2])}, run.iteration_s)
