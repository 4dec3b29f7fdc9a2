"""photonic2025's claims about windows: section 3's constraints, Fig. 3, Fig. 4 and Eq. (1), computed or measured."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import files, units
from railcore.catalog.tables import read_csv
from railcore.network.topology.photonic import rings_of_ports
from railcore.photonics.simulation import StepTimeline
from railcore.training.machine import Machine
from railcore.training.parallelism import Strategy
from railcore.training.runs import predictions, published_runs
from suite.ledger import claims
from suite.ledger.readings import Entries, merge_entries, with_prefix
from suite.photonic2025 import ring_limits
from suite.photonic2025.run import PLATFORM, overlapped_share, run_strategy, run_timeline, run_workload, unordered_pairs
from suite.photonic2025.trace import MESSAGES, measured_windows, window_classes
from suite.photonic2025.windows import definition_error, largest_rail_difference, rail_bursts, window_count

LONG_S, MILLISECONDS_S = 1e-3, 1e-2  # windows that the document counts as long; the longest of order milliseconds
_TIMED_GPUS, _CLAIMED_GPUS = 1152, 1024  # of the run of reference [41], and "1k" of the text
_MESSAGES_READING = "the four ranks of 2-byte elements; the authors add two pairs of ranks at 4 bytes an element"
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
    long, on_rail = (windows["duration_s"] > LONG_S for windows in (every, first))
    milliseconds = every["duration_s"].between(LONG_S, MILLISECONDS_S)
    classes = [window_classes(windows) for windows in (every, *computed)]
    broken = [case for table in classes for case in _larger_classes(table)]
    before = first.loc[first["after"] == "RS"].groupby("window")["duration_s"].mean()
    differences = [largest_rail_difference(windows) for windows in computed] or [0.0]
    values = {
        "fig4.windows_over_1ms": float(long.mean()),
        "fig4.window_before_reducescatter": float(before.mean()),
        "fig4.rails_similar": largest_rail_difference(every),
        "fig4.largest_first": float(np.mean(broken)),
        "fig3.windows_milliseconds": float(milliseconds.mean()),
    }
    shorter, longer = (int(mask.sum()) for mask in (~long, every["duration_s"] > MILLISECONDS_S))
    reasons = {
        "fig4.windows_over_1ms": f"{long.sum()} of {len(every)} windows of the four rails that Fig. 4(a) shows; rail "
        f"0 alone has {on_rail.sum()} of {len(first)}, {on_rail.mean():.1%}",
        "fig4.window_before_reducescatter": f"mean of {' and '.join(units.show(value, 's', 3) for value in before)}",
        "fig4.rails_similar": f"measured; computed runs with jitter differ by {max(differences):.2%} at most",
        "fig4.largest_first": f"{len(broken)} cases: four measured rails, and those of {len(computed)} computed runs",
        "fig3.windows_milliseconds": f"{milliseconds.sum()} of {len(every)}; {shorter} are shorter than "
        f"{units.show(LONG_S, 's')} and {longer} longer than {units.show(MILLISECONDS_S, 's')}",
    }
    return with_prefix("photonic2025", values, reasons, {})


def _larger_classes(classes: pd.DataFrame) -> list[bool]:
    """For each rail and class of windows, whether its mean is longer than that before the ReduceScatters."""
    means = classes.pivot(index="rail", columns="after", values="duration_s")
    return [bool(row[name] >= row["RS"]) for _, row in means.iterrows() for name in _CLASSES if name in means]


def marked_windows() -> tuple[dict[str, float], dict[str, bool]]:
    """The document's numbers of Fig. 4 and whether ours differ, by the last words of their ids."""
    names = ("windows_over_1ms", "window_before_reducescatter")
    ours, _, _ = measured_claims([])
    document = {name: claims.paper_value(f"photonic2025.fig4.{name}") for name in names}
    return document, {name: claims.differs(key, ours[key]) for name in names for key in (f"photonic2025.fig4.{name}",)}


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
    message = measured_windows().query("after == 'PP'")["volume_after_bytes"].iloc[0] / MESSAGES
    workload = timeline.workload
    # Bytes of a message for one sequence: s h elements of 2 bytes over the tensor ranks.
    one_sequence = 2 * workload.model.sequence_length * workload.model.hidden / workload.strategy.tensor
    entries = with_prefix("photonic2025.fig4", values, {}, {"pp_message": _MESSAGES_READING})
    taken = {"micro_batch": "the trace's bytes are those of four messages; of two messages they would be two sequences"}
    sequences = {"micro_batch": message / one_sequence}
    reason = {
        "micro_batch": f"a rank sends {units.show(message, 'B', 4)}, one sequence's share of 16-bit activations; two "
        f"sequences would be {units.show(2 * one_sequence, 'B', 4)}"
    }
    return merge_entries(entries, with_prefix("photonic2025.fig3", sequences, reason, taken))


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
        "computed, not measured: AllGathers run during the forward pass, as the same paragraph says, and that pass has "
        f"the tensor collectives. At the datasheet rate of NVLink these are so short that the share is {nvlink:.2%}"
    )
    values = {"dp_tp_overlap": overlap, "concurrent_pp3": float(unordered_pairs(three_stages, 2))}
    return with_prefix("photonic2025.fig3", values, {"dp_tp_overlap": reason}, {})


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
    document, trained, timed = (configurations.iloc[i] for i in range(3))
    scaled = modelled * _TIMED_GPUS / _CLAIMED_GPUS
    values = {
        "window_definition": definition_error(),
        "windows_llama405b": float(document["windows"]),
        "iteration_llama405b": scaled,
        "windows_per_second": document["windows"] / scaled,
    }
    reasons = {
        "windows_llama405b": "with the window into the next iteration, which the trace and Fig. 8 count; one less "
        f"without it. The reference's own v of {trained['interleave']} gives {trained['windows']}",
        "iteration_llama405b": f"{modelled:.1f} s on the {_TIMED_GPUS:,} GPUs of the reference, where "
        f"{timed['iteration_s']:g} s were measured, times {_TIMED_GPUS:,} / {_CLAIMED_GPUS:,}",
        "windows_per_second": f"{document['windows']} windows of {document['configuration']} over {scaled:.1f} s, the "
        f"time of {timed['configuration']}, which has {timed['windows']} windows by the same count",
    }
    return with_prefix("photonic2025.eq1", values, reasons, {})
