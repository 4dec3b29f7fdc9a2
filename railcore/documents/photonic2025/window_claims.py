"""photonic2025's claims about windows: section 3's constraints, Fig. 3, Fig. 4 and Eq. (1), computed or measured."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from railcore.documents.photonic2025.run import (
    PLATFORM,
    overlapped_share,
    run_strategy,
    run_timeline,
    run_workload,
    unordered_pairs,
)
from railcore.documents.photonic2025.trace import measured_run, measured_windows, window_classes
from railcore.documents.photonic2025.windows import definition_error, largest_rail_difference, rail_bursts, window_count
from railcore.documents.readings import Entries, with_prefix
from railcore.engines.photonics import ring_limits
from railcore.engines.steps.simulation import StepTimeline
from railcore.engines.validation import predictions, published_runs
from railcore.facts import catalog, claims, files, units
from railcore.facts.tables import read_csv
from railcore.network.topology.photonic import rings_of_ports
from railcore.training.machine import Machine
from railcore.training.parallelism import Strategy

_LONG_S = 1e-3  # windows that the document counts as long
_TIMED_GPUS = 1152  # of the run of reference [41], "about 1k" in the text
_CLASSES = ("AR", "PP", "AG")  # those that the window before the ReduceScatters is held against


def limit_claims(nic: str, platform: str) -> Entries:
    """Section 3: degree of a rank, and what the ports of a NIC allow to the data and the pipeline group of a GPU.

    nic, platform: of the catalog; the tensor ranks fill the platform's HB domain.
    """
    size = int(catalog.item("platforms", platform)["gpus"])
    modes = ring_limits.nic_port_modes(nic)
    rate = catalog.item("nics", nic)["bandwidth"]
    ports = int(modes["ports"].max())
    degree = ring_limits.ring_neighbours(Strategy(tensor=size, data=4, pipeline=4), size)
    inner = degree.loc[degree["neighbours"].idxmax()]
    shared = ring_limits.static_port_partition({"data": 4, "pipeline": 4}, ports, rate)
    total = modes.loc[(modes["total_Bps"] - rate).abs().idxmax(), "total_Bps"]
    values = {
        "degree_3d": float(inner["neighbours"]),
        "nic_modes": total * 8,
        "c1_ring_latency": float(ring_limits.ring_step_ratio(2 ** np.arange(2, 11)).min()),
        "c2_ring_groups": float(rings_of_ports(ports)),
        "c3_bandwidth_share": float(shared["share"].min()),
    }
    reasons = {"degree_3d": f"{inner['on_rail']} of them are on the rail; the first and the last stage have one fewer"}
    return with_prefix("photonic2025.sec3", values, reasons, {})


def order_claims() -> Entries:
    """Rails of the measured run, and ranks that rank 0 talks to, of a strategy in the usual order."""
    strategy = run_strategy()
    peers = {kind: int(strategy.groups(kind)[0][1]) for kind in ("pipeline", "data")}
    values = {
        "fig3.rails": float(catalog.item("platforms", PLATFORM)["gpus"]),
        "fig3.pp_peer": float(peers["pipeline"]),
        "fig5.dp_peer": float(peers["data"]),
    }
    return with_prefix("photonic2025", values, {}, {})


def measured_claims(computed: Sequence[pd.DataFrame]) -> Entries:
    """Lengths of windows in the authors' trace, on all four rails; the same of computed runs beside them.

    computed: windows of all rails of runs with jitter, a table for each seed.
    """
    every, first = measured_windows(None), measured_windows()
    long = every["duration_s"] > _LONG_S
    classes = [window_classes(windows) for windows in (every, *computed)]
    broken = [case for table in classes for case in _larger_classes(table)]
    before = first.loc[first["after"] == "RS"].groupby("window")["duration_s"].mean()
    ours = classes[1].loc[classes[1]["after"] == "RS", "duration_s"].mean()
    differences = [largest_rail_difference(windows) for windows in computed]
    values = {
        "windows_over_1ms": float((first["duration_s"] > _LONG_S).mean()),
        "window_before_reducescatter": float(before.mean()),
        "rails_similar": largest_rail_difference(every),
        "largest_first": float(np.mean(broken)),
    }
    reasons = {
        "rails_similar": f"measured; computed runs with jitter differ by {max(differences):.2%} at most",
        "largest_first": f"{len(broken)} cases: four measured rails, and those of {len(computed)} computed runs",
    }
    waited = measured_run()["reduce_scatter_wait"]
    readings = {
        "windows_over_1ms": f"rail 0, as the text's share needs; all four rails: {long.sum()} of {len(every)}, "
        f"{long.mean():.1%}",
        "window_before_reducescatter": "the authors' two windows, "
        + " and ".join(units.show(value, "s", 3) for value in before)
        + "; the second ends where stage 1 sums its gradient norm, 4 bytes, but stage 0 reduces its gradients "
        f"{units.show(waited, 's', 3)} after its last receive, by which the mean would be "
        f"{units.show((before.iloc[0] + waited) / 2, 's', 3)}; computed, counted as the authors do: "
        f"{units.show(ours, 's', 3)}",
    }
    return with_prefix("photonic2025.fig4", values, reasons, readings)


def _larger_classes(classes: pd.DataFrame) -> list[bool]:
    """For each rail and class of windows, whether its mean is longer than that before the ReduceScatters."""
    means = classes.pivot(index="rail", columns="after", values="duration_s")
    return [bool(row[name] >= row["RS"]) for _, row in means.iterrows() for name in _CLASSES if name in means]


def volume_claims(timeline: StepTimeline) -> Entries:
    """Volumes of the run's bursts on rail 0, by the authors' count."""
    bursts = rail_bursts(timeline)
    sizes = bursts.drop_duplicates(["label", "stage"]).set_index(["label", "stage"])["volume_bytes"]
    pair = timeline.workload.strategy.data  # pairs of ranks of a rail that send at the same time
    values = {
        "pp_message": pair * bursts.loc[bursts["label"] == "PP", "volume_bytes"].iloc[0] / units.MiB,
        "allgather_volume": sizes["AG", 0] / units.MiB,
        "reducescatter_volume": sizes["RS", 0] / units.MiB,
        "sync_allreduce_volume": sizes["AR"].max() / units.MB,
    }
    reading = "messages of 2-byte elements of all four ranks; the authors add up two pairs at 4 bytes an element"
    return with_prefix("photonic2025.fig4", values, {}, {"pp_message": reading})


def concurrency_claims(machine: Machine) -> Entries:
    """Traffic at the same time: data-parallel beside tensor traffic, and what no dependency orders at PP 3.

    machine: a GPU of the run.
    """
    overlap, nvlink = (
        overlapped_share(
            run_timeline(run_workload(run_strategy(), machine=box, iterations=1, detail=True)), "data", "tensor"
        )
        for box in (machine, PLATFORM)
    )
    three_stages = run_workload(run_strategy(3), 3, machine, iterations=1)
    reason = (
        "AllGathers of the next layer run during the forward pass, as the same paragraph says, and that pass holds the "
        "tensor collectives; they use the node's links, and data-parallel traffic the NICs"
    )
    reading = (
        "bandwidth between the GPUs of a node solved from a measured window, since NVLink was off in the run; at its "
        f"datasheet bandwidth tensor collectives are so short that the share is {nvlink:.2%}"
    )
    values = {"dp_tp_overlap": overlap, "concurrent_pp3": float(unordered_pairs(three_stages, 2))}
    return with_prefix("photonic2025.fig3", values, {"dp_tp_overlap": reason}, {"dp_tp_overlap": reading})


def configuration_windows() -> pd.DataFrame:
    """Windows of Llama 3.1 405B by configuration: columns configuration, pipeline, interleave, windows, iteration_s,
    per_second, note; times as printed, NaN where none is."""
    table = pd.DataFrame(read_csv(files.data("rules/photonic2025_configurations.csv")))
    table[["pipeline", "interleave"]] = table[["pipeline", "interleave"]].astype(int)
    table["iteration_s"] = pd.to_numeric(table["iteration_s"])
    table["windows"] = window_count(table["pipeline"], table["interleave"])
    table["per_second"] = table["windows"] / table["iteration_s"]
    return table[["configuration", "pipeline", "interleave", "windows", "iteration_s", "per_second", "note"]]


def window_equation_claims(configurations: pd.DataFrame) -> Entries:
    """The definition of a window, Eq. (1) for Llama 3.1 405B, and its windows per second.

    configurations: of `configuration_windows`, the document's own first.
    """
    runs = published_runs("check")
    mine = runs[(runs["model"] == "Llama-3.1 405B") & (runs["precision"] == "bf16") & (runs["gpus"] == _TIMED_GPUS)]
    modelled = float(predictions(mine)["modelled_s"].iloc[0])
    own, trained, timed = (configurations.iloc[i] for i in range(3))
    values = {
        "window_definition": definition_error(),
        "windows_llama405b": float(own["windows"]),
        "iteration_llama405b": modelled,
        "windows_per_second": own["windows"] / modelled,
    }
    printed = claims.paper_value("photonic2025.eq1.iteration_llama405b")
    reasons = {
        "windows_llama405b": f"the reference's own v of {trained['interleave']} gives {trained['windows']}",
        "iteration_llama405b": f"{timed['iteration_s']:g} s were measured there; over 1,024 GPUs ours would be "
        f"{modelled * _TIMED_GPUS / 1024:.1f} s",
        "windows_per_second": f"windows of PP {own['pipeline']} over the time of PP {timed['pipeline']}; over the "
        f"printed {printed:g} s they are {own['windows'] / printed:.3g} a second, and the {timed['windows']} of "
        f"PP {timed['pipeline']} over our time {timed['windows'] / modelled:.1f}",
    }
    return with_prefix("photonic2025.eq1", values, reasons, {})
