"""photonic2025's claims about windows: section 3's constraints, Fig. 3, Fig. 4 and Eq. (1), computed or measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from suite.ledger.readings import Entries, Values, merge_entries, verdict_readings, with_prefix
from suite.photonic2025 import ring_limits
from suite.photonic2025.run import (
    PLATFORM,
    overlapped_share,
    run_strategy,
    run_timeline,
    run_workload,
    unordered_pairs,
    unordered_share,
    wait_after_activation,
)
from suite.photonic2025.trace import MESSAGES, measured_windows, window_classes
from suite.photonic2025.windows import (
    definition_error,
    largest_difference_of_a_window,
    largest_rail_difference,
    rail_bursts,
    window_count,
)

LONG_S, MILLISECONDS_S = 1e-3, 1e-2  # windows that the document counts as long; the longest of order milliseconds
_TIMED_GPUS, _CLAIMED_GPUS = 1152, 1024  # of the run of reference [41], and "1k" of the text
_MESSAGES_READING = "the four ranks of 2-byte elements; the authors add two pairs of ranks at 4 bytes an element"
_Choices = Mapping[str, Mapping[str, Values]]
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
    strategy, names = run_strategy(), {"pipeline": "fig3.pp_peer", "data": "fig5.dp_peer"}
    stages_first = replace(strategy, order=("tensor", "context", "pipeline", "data"))
    ours, others = (
        {name: float(plan.groups(kind)[0][1]) for kind, name in names.items()} for plan in (strategy, stages_first)
    )
    values = {"fig3.rails": float(catalog.item("platforms", PLATFORM)["gpus"])} | ours
    text = "ranks in the order TP, FSDP, PP, which the text's rank 8 asks for (TP, PP, FSDP: rank {:.0f})"
    return with_prefix("photonic2025", values, {}, {name: text.format(rank) for name, rank in others.items()})


def measured_claims(computed: Sequence[pd.DataFrame]) -> Entries:
    """Lengths of windows in the authors' trace, on all four rails; the same of computed runs beside them.

    computed: windows of all rails of runs with jitter, a table for each seed.
    """
    every, first = measured_windows(None), measured_windows()
    long, on_rail = (windows["duration_s"] > LONG_S for windows in (every, first))
    milliseconds, up_to_100_ms = (every["duration_s"].between(LONG_S, k * MILLISECONDS_S) for k in (1, 10))
    classes = [window_classes(windows) for windows in (every, *computed)]
    broken = [case for table in classes for case in _larger_classes(table)]
    before = first.loc[first["after"] == "RS"].groupby("window")["duration_s"].mean()
    differences = [largest_rail_difference(windows) for windows in computed] or [0.0]
    sums = every[every["before"] == "AR"].groupby(["rail", "iteration"]).size()
    values = {
        "fig4.windows_over_1ms": float(long.mean()),
        "fig4.window_before_reducescatter": float(before.mean()),
        "fig4.rails_similar": largest_rail_difference(every),
        "fig4.largest_first": float(np.mean(broken)),
        "fig3.windows_milliseconds": float(milliseconds.mean()),
        "sec5.closing_allreduces": float(sums.mean()),
    }
    others = {
        "the four rails that Fig. 4(a) shows": {"rail 0 alone": {"fig4.windows_over_1ms": float(on_rail.mean())}},
        "means of all windows of a rail": {
            "of each of the eight windows": {"fig4.rails_similar": largest_difference_of_a_window(every)}
        },
    }
    shorter, longer = (int(mask.sum()) for mask in (~long, every["duration_s"] > MILLISECONDS_S))
    reasons = {
        "fig4.windows_over_1ms": f"{long.sum()} of {len(every)} windows, and {on_rail.sum()} of {len(first)}",
        "fig4.window_before_reducescatter": f"mean of {' and '.join(units.show(value, 's', 3) for value in before)}",
        "fig4.rails_similar": f"measured; computed runs with jitter differ by {max(differences):.2%} at most",
        "fig4.largest_first": f"{len(broken)} cases: four measured rails, and those of {len(computed)} computed runs",
        "fig3.windows_milliseconds": f"{milliseconds.sum()} of {len(every)}; {shorter} are shorter than "
        f"{units.show(LONG_S, 's')} and {longer} longer than {units.show(MILLISECONDS_S, 's')}; up to "
        f"{units.show(10 * MILLISECONDS_S, 's')} they are {up_to_100_ms.mean():.0%}",
        "sec5.closing_allreduces": f"in each of {len(sums)} iterations of a rail",
    }
    return _read("photonic2025", values, reasons, others)


def _read(prefix: str, values: Values, reasons: Mapping[str, str], choices: _Choices) -> Entries:
    """Entries below a prefix; choices: as for `verdict_readings`, by the rest of the ids."""
    whole = {
        taken: {name: {f"{prefix}.{key}": value for key, value in part.items()} for name, part in others.items()}
        for taken, others in choices.items()
    }
    entries = with_prefix(prefix, values, reasons, {})
    return entries._replace(readings=verdict_readings(entries.values, whole))


def _larger_classes(classes: pd.DataFrame) -> list[bool]:
    """For each rail and class of windows, whether its mean is longer than that before the ReduceScatters."""
    means = classes.pivot(index="rail", columns="after", values="duration_s")
    return [bool(row[name] >= row["RS"]) for _, row in means.iterrows() for name in _CLASSES if name in means]


def marked_windows(values: Mapping[str, float]) -> tuple[dict[str, claims.Mark], dict[str, str]]:
    """Marks of Fig. 4 by the last words of their ids, and volumes as the document writes them, by what follows.

    values: ours, by claim id.
    """
    names = {"AR": "sync_allreduce_volume", "PP": "pp_message", "AG": "allgather_volume", "RS": "reducescatter_volume"}
    wanted = ("windows_over_1ms", "window_before_reducescatter", *names.values())
    keys = {name: f"photonic2025.fig4.{name}" for name in wanted}
    drawn = claims.marks({key: values[key] for key in keys.values()})
    marks = {name: drawn[key] for name, key in keys.items() if key in drawn}
    volumes = {
        label: f"{'< ' if marks[name].relation == '<' else ''}{units.number(marks[name].value)} MB"  # for MiB
        for label, name in names.items()
        if name in marks
    }
    return marks, volumes


def solved_note() -> str:
    """What the computed mean window before ReduceScatters is not."""
    return "computed: no prediction.\nThe TP bandwidth is solved\nfrom one of these windows"


def volume_claims(timeline: StepTimeline) -> Entries:
    """Volumes of the run's bursts on rail 0, by the authors' count."""
    bursts, workload = rail_bursts(timeline), timeline.workload
    sizes = bursts.drop_duplicates(["label", "stage"]).set_index(["label", "stage"])["volume_bytes"]
    pair = workload.strategy.data  # pairs of ranks of a rail that send at the same time
    values = {
        "pp_message": pair * bursts.loc[bursts["label"] == "PP", "volume_bytes"].iloc[0] / units.MiB,
        "allgather_volume": sizes["AG", 0] / units.MiB,
        "reducescatter_volume": sizes["RS", 0] / units.MiB,
        "sync_allreduce_volume": sizes["AR"].max() / units.MB,
    }
    gathered, gradients = workload.strategy.data * values["allgather_volume"], values["reducescatter_volume"]
    choices: _Choices = {
        "what one rank gives, as the authors' trace counts": {
            "all that it then has": {"allgather_volume": gathered},
            "what it keeps": {"reducescatter_volume": gradients / workload.strategy.data},
        },
        "gradients in FP32": {"in BF16": {"reducescatter_volume": gradients / 2}},
    }
    message = measured_windows().query("after == 'PP'")["volume_after_bytes"].iloc[0] / MESSAGES
    # Bytes of a message for one sequence: s h elements of 2 bytes over the tensor ranks.
    one_sequence = 2 * workload.model.sequence_length * workload.model.hidden / workload.strategy.tensor
    entries = _read("photonic2025.fig4", values, {}, choices)
    entries.readings["photonic2025.fig4.pp_message"] = _MESSAGES_READING
    taken = {"micro_batch": "the trace's bytes are those of four messages; of two messages they would be two sequences"}
    sequences = {"micro_batch": message / one_sequence}
    reason = {
        "micro_batch": f"the four ranks of rail 0 send {units.show(MESSAGES * message, 'B', 4)} in the trace, one "
        f"sequence in 16 bits; two would be {units.show(2 * MESSAGES * one_sequence, 'B', 4)}"
    }
    return merge_entries(entries, with_prefix("photonic2025.fig3", sequences, reason, taken))


def concurrency_claims(machine: Machine) -> Entries:
    """Traffic in sequence and at the same time, with two stages (Fig. 3 (a)) and with three (b).

    machine: a GPU of the run.
    """
    one, two, fast = (
        run_timeline(run_workload(run_strategy(stages), stages, box, iterations=1, detail=True))
        for stages, box in ((2, machine), (3, machine), (2, PLATFORM))
    )
    three_stages = run_workload(run_strategy(3), 3, machine, iterations=1)
    as_printed, nvlink = (overlapped_share(run, "data", "tensor") for run in (one, fast))
    unordered = unordered_share(three_stages, "data", "pipeline")
    values = {
        "dp_tp_overlap": overlapped_share(one, "data", "pipeline"),
        "pp_dp_sequence": overlapped_share(two, "data", "pipeline"),
        "concurrent_pp3": float(len(unordered_pairs(three_stages, 2))),
        "stage1_allgather": wait_after_activation(one),
    }
    choices: _Choices = {
        "TP is a misprint of PP, of which the next sentences are": {"as printed": {"dp_tp_overlap": as_printed}},
        "in sequence in time": {"pairs of a rank that no dependency orders": {"pp_dp_sequence": unordered}},
    }
    reasons = {
        "dp_tp_overlap": "TP does overlap: AllGathers run during the forward pass, which has the tensor collectives; "
        f"at the datasheet rate of NVLink {nvlink:.2%}",
        "stage1_allgather": "it is built so: no AllGather of a pass before its input; the trace has "
        f"{units.show(measured_windows(None).query('window == 2')['duration_s'].max(), 's', 2)} at most",
    }
    return _read("photonic2025.fig3", values, reasons, choices)


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
    readings = {
        "window_definition": "groups of P2 that are not in P1; the printed comm_i ≠ comm_i can never hold",
        "iteration_llama405b": f"1k is {_CLAIMED_GPUS:,} GPUs (1,000: {modelled * _TIMED_GPUS / 1000:.1f} s; the "
        f"reference's own {_TIMED_GPUS:,}: {modelled:.1f} s); this run was looked at while the model was built",
        "windows_per_second": f"1k is {_CLAIMED_GPUS:,} GPUs (1,000: "
        f"{document['windows'] / (modelled * _TIMED_GPUS / 1000):.2f}; the reference's own {_TIMED_GPUS:,}: "
        f"{document['windows'] / modelled:.2f})",
    }
    return with_prefix("photonic2025.eq1", values, reasons, readings)
