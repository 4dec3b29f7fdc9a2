"""photonic2025's measured run, computed: Llama-3 8B on four Perlmutter nodes, and what the schedule explains of it.

Known of the run: model, platform, strategy, and the bandwidth that each operation reached over the rails (`trace`). Not
known is the bandwidth between the GPUs of a node, whose direct links were switched off: it is solved from one window,
and the others follow.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.checks import whole
from railcore.photonics.simulation import ElectricalRails, StepTimeline, simulate
from railcore.photonics.stage_program import fsdp_options
from railcore.photonics.workload import Workload, training_step
from railcore.training.machine import Machine, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import MODERN
from railcore.training.transformer import Transformer, catalog_model
from suite.photonic2025.trace import (
    WINDOW_RAIL,
    measured_rates,
    measured_run,
    measured_windows,
    window_classes,
    window_distribution,
)
from suite.photonic2025.windows import all_rail_windows, rail_bursts, rail_phases, rail_windows, window_count

MODEL, PLATFORM, GPU = "Llama-3 8B", "Perlmutter GPU node", "A100"
SOLVED_WINDOW = 4  # forward and backward pass of stage 1, in which nothing is on the rail
_SLOW_BPS = units.GB  # of the second run from which the HB bandwidth follows
EAGER = replace(MODERN, overlap_tensor=False, overlap_pipeline=False)  # PyTorch without compilation


def run_strategy(pipeline: int = 2, chunks: int = 1) -> Strategy:
    """The run's strategy, TP 4 and FSDP 2, with p stages of v chunks."""
    return Strategy(
        tensor=4,
        data=2,
        pipeline=pipeline,
        interleave=chunks,
        sequence_parallel=True,
        sharding="weights",
        recompute="selective",
    )


def run_workload(
    strategy: Strategy,
    microbatches: int = 2,
    machine: Machine | str = PLATFORM,
    iterations: int = 2,
    detail: bool = False,
    model: Transformer | str = MODEL,
) -> Workload:
    """Steps of the run, its weights gathered once an iteration and gradients reduced after the last backward pass.

    Parameters
    ----------
    strategy, microbatches
        How the model is split; micro-batches of a pipeline in a step.
    machine, model
        What is trained, on which GPU.
    iterations, detail
        Steps, and whether tensor collectives are operations of their own.

    Returns
    -------
    The dependency graph.
    """
    batch = microbatches * strategy.data * strategy.micro_batch
    return training_step(model, machine, strategy, batch, fsdp_options(detail=detail), EAGER, iterations)


def run_timeline(workload: Workload, jitter: float = 0.0, seed: int = 0) -> StepTimeline:
    """The workload on electrical rails at the bandwidths that were measured. jitter and seed as in `simulate`."""
    return simulate(workload, ElectricalRails(rates_Bps=measured_rates()), jitter, seed)


def solved_machine() -> Machine:
    """A GPU of the platform whose HB bandwidth gives the measured mean of window `SOLVED_WINDOW` over all rails.

    Nothing hides the traffic between GPUs in that window, so its length is linear in the seconds that a byte takes: two
    runs give it.
    """
    windows = measured_windows(None)
    wanted = windows.loc[windows["window"] == SOLVED_WINDOW, "duration_s"].mean()
    box = catalog_machine(PLATFORM)
    byte_s, found_s = [1 / box.hb_Bps, 1 / _SLOW_BPS], []
    for seconds in byte_s:
        step = run_workload(run_strategy(), machine=box.changed(hb_Bps=1 / seconds), iterations=1)
        found_s.append(rail_windows(run_timeline(step))["duration_s"].iloc[SOLVED_WINDOW - 1])
    slope = (found_s[1] - found_s[0]) / (byte_s[1] - byte_s[0])
    return box.changed(hb_Bps=float(1 / (byte_s[0] + (wanted - found_s[0]) / slope)))


def jittered_windows(machine: Machine, jitter: float, seeds: int) -> list[pd.DataFrame]:
    """Windows of all rails of computed runs with jitter, a table for each seed: ten iterations of the first, else one.

    machine: a GPU of the run; jitter as in `simulate`.
    """
    whole("seeds", seeds)
    first, other = (run_workload(run_strategy(), machine=machine, iterations=n) for n in (11, 2))  # no last windows
    return [all_rail_windows(run_timeline(other if seed else first, jitter, seed)) for seed in range(seeds)]


def window_lengths_table(timeline: StepTimeline, datasheet: StepTimeline) -> pd.DataFrame:
    """The eight windows of an iteration: measured on all rails, and computed on rail 0.

    timeline, datasheet: the run at its measured and solved bandwidths, and at those of the datasheets. Columns window,
    before, after, measured_s (mean), least_s, largest_s, computed_s, solved (True where the HB bandwidth was solved
    from it), datasheet_s.
    """
    measured = measured_windows(None).groupby("window")["duration_s"].agg(["mean", "min", "max"])
    windows = rail_windows(timeline).iloc[: len(measured)].set_index("window")
    table = windows[["before", "after"]].join(measured)
    table.columns = pd.Index(["before", "after", "measured_s", "least_s", "largest_s"])
    table["computed_s"] = windows["duration_s"]
    fast = rail_windows(datasheet)["duration_s"].iloc[: len(table)].to_numpy()
    return table.reset_index().assign(solved=table.index == SOLVED_WINDOW, datasheet_s=fast)


def run_times_table(timeline: StepTimeline) -> pd.DataFrame:
    """Other times of the run that the schedule predicts: columns quantity, measured_s, computed_s, difference."""
    table, measured = timeline.table, measured_run()
    mine = table[(table["kind"] == "compute") & (table["iteration"] == 0) & table["ranks"].isin([(0,)])]
    passes = mine.groupby(["phase", "microbatch"])[["start_s", "end_s"]].agg({"start_s": "min", "end_s": "max"})
    second, first = passes.loc[("forward", 1)], passes.loc[("backward", 0)]
    bursts = rail_bursts(timeline)
    bursts = bursts[bursts["iteration"] == 0]
    scatter = bursts[(bursts["label"] == "RS") & (bursts["stage"] == 0)].iloc[0]
    last_hop = bursts.loc[bursts["label"] == "PP", "end_s"].max()
    computed = {
        "forward_time": second["end_s"] - second["start_s"],
        "backward_time": first["end_s"] - first["start_s"],
        "reduce_scatter_wait": scatter["start_s"] - last_hop,
        "iteration_time": timeline.iteration_s,
    }
    rows = [(name, measured[name], value, value / measured[name] - 1) for name, value in computed.items()]
    return pd.DataFrame(rows, columns=["quantity", "measured_s", "computed_s", "difference"])


def lengths_side_by_side(computed: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What Fig. 4 shows, measured and computed: distributions on every rail, and classes on rail 0.

    computed: windows of all rails. Returns columns run, and those of `window_distribution`; and run, volume (text), and
    those of `window_classes`, the smallest volume first.
    """
    runs = {"measured": measured_windows(None), "computed": computed}
    every = [window_distribution(windows).assign(run=name) for name, windows in runs.items()]
    on_rail = {name: windows[windows["rail"] == WINDOW_RAIL] for name, windows in runs.items()}
    classes = [window_classes(windows).assign(run=name) for name, windows in on_rail.items()]
    table = pd.concat(classes, ignore_index=True).sort_values("volume_bytes", kind="stable", ignore_index=True)
    volumes = table["volume_bytes"]
    texts = [f"{units.number(x / units.MiB, 5)} MiB" if x > units.MB else units.show(x, "B") for x in volumes]
    return pd.concat(every, ignore_index=True), table.assign(volume=texts)


def window_count_table(cases: Iterable[tuple[int, int, int]]) -> pd.DataFrame:
    """Windows of an iteration, in closed form and counted in a computed step.

    cases: stages, chunks and micro-batches. A layer a chunk, two replicas, a GPU a node, datasheet links: a count does
    not depend on lengths. Columns pipeline, chunks, microbatches, closed_form, counted, by_ends (by the order
    of ends alone, which does depend on them).
    """
    rows, box = [], catalog_machine(PLATFORM, hb_domain_size=1)
    for pipeline, chunks, microbatches in cases:
        small = replace(catalog_model(MODEL), layers=pipeline * chunks)
        strategy = Strategy(data=2, pipeline=pipeline, interleave=chunks, sharding="weights")
        step = training_step(small, box, strategy, 2 * microbatches, fsdp_options(), EAGER, 2, one_replica=True)
        form = int(window_count(pipeline, chunks, microbatches))
        timeline = simulate(step)
        counted = [len(rail_windows(timeline, by_ends=ends)) for ends in (False, True)]
        rows.append((pipeline, chunks, microbatches, form, *counted))
    columns = ["pipeline", "chunks", "microbatches", "closed_form", "counted", "by_ends"]
    return pd.DataFrame(rows, columns=columns)


def overlapped_share(timeline: StepTimeline, kind: str, other: str) -> float:
    """Share of the time in which a rank has traffic of a kind during which it has traffic of another kind too."""
    table = timeline.table[["kind", "ranks", "start_s", "end_s"]].explode("ranks")
    both = alone = 0.0
    for _, rows in table[table["kind"].isin([kind, other])].groupby("ranks"):
        times = np.unique(rows[["start_s", "end_s"]].to_numpy())
        middle = (times[1:] + times[:-1]) / 2
        runs = {}
        for name in (kind, other):
            ends = rows.loc[rows["kind"] == name, ["start_s", "end_s"]].to_numpy().T
            begun, ended = (np.searchsorted(np.sort(moments), middle, side="right") for moments in ends)
            runs[name] = begun > ended
        alone += float(np.diff(times)[runs[kind]].sum())
        both += float(np.diff(times)[runs[kind] & runs[other]].sum())
    return both / alone


def unordered_pairs(workload: Workload, stage: int) -> list[tuple[int, int]]:
    """Pairs of a stage's AllGathers and a send/receive between other stages, on rail 0, that no dependency orders.

    All AllGathers of a group in a pass count as one: no path of the graph leads from any of them to the send/receive,
    nor back. Each: operation of the first AllGather, and of the send/receive.
    """
    table = workload.table
    table = table[(table["link"] == "rail") & (table["iteration"] == 0)]
    table = table[[ranks[0] % workload.machine.hb_domain_size == 0 for ranks in table["ranks"]]]
    stage_of = workload.strategy.coordinates(np.arange(workload.strategy.gpus))["pipeline"]
    gathers = table[(table["operation"] == "all_gather") & (table["stage"] == stage)]
    hops = table[table["operation"] == "send_receive"]
    hops = hops[[stage not in stage_of[list(ranks)] for ranks in hops["ranks"]]]
    bursts = [list(ops) for _, ops in gathers.groupby("burst")["op"]]
    ordered = [_reached(workload.followers, ops) | _reached(workload.after, ops) for ops in bursts]
    return [(ops[0], op) for ops, others in zip(bursts, ordered, strict=True) for op in hops["op"] if op not in others]


def unordered_example(timeline: StepTimeline) -> pd.DataFrame:
    """Of `unordered_pairs` of the last stage the one nearest to each other in time, for the picture; no row without.

    Columns send_rank, send_s (its end), stage, gather_rank, gather_s (its start).
    """
    table, stage = timeline.table, timeline.workload.strategy.pipeline - 1
    times = table[["op", "ranks", "start_s", "end_s"]].set_index("op")
    rows = []
    for gather, send in unordered_pairs(timeline.workload, stage):
        sent, begun = times.loc[send], times.loc[gather, "start_s"]
        pair = (min(sent["ranks"]), sent["end_s"], stage, min(times.loc[gather, "ranks"]), begun)
        rows.append((round(abs(sent["start_s"] - begun), 9), send, *pair))
    names = "apart op send_rank send_s stage gather_rank gather_s".split()
    nearest = pd.DataFrame(rows, columns=names).sort_values(["apart", "op"], kind="stable").iloc[:1]
    return nearest[names[2:]].reset_index(drop=True)


def unordered_share(workload: Workload, kind: str, other: str) -> float:
    """Share of the pairs of a rank's rail operations of two kinds that no dependency orders, of the rank with most."""
    table = workload.table[workload.table["link"] == "rail"].explode("ranks")
    ops = {name: table[table["kind"] == name].groupby("ranks")["op"].agg(list) for name in (kind, other)}
    later = {op: _reached(workload.followers, [op]) for rows in ops.values() for mine in rows for op in mine}
    return max(
        float(np.mean([b not in later[a] and a not in later[b] for a in ops[kind][rank] for b in ops[other][rank]]))
        for rank in ops[kind].index.intersection(ops[other].index)
    )


def wait_after_activation(timeline: StepTimeline) -> float:
    """Start of stage 1's first AllGather less the end of the transfer of its first activation, on rail 0 [s]."""
    table = timeline.table[(timeline.table["link"] == "rail") & (timeline.table["iteration"] == 0)]
    first = table[(table["phase"] == "forward") & (table["microbatch"] == 0)]
    gathers = first[(first["operation"] == "all_gather") & (first["stage"] == 1)]
    hops = first[(first["operation"] == "send_receive") & (first["stage"] == 0)]
    ranks = gathers.loc[gathers["start_s"].idxmin(), "ranks"]
    arrived = hops.loc[[bool(set(ranks) & set(ends)) for ends in hops["ranks"]], "end_s"].max()
    return float(gathers["start_s"].min() - arrived)


def _reached(followers: Sequence[Sequence[int]], sources: Iterable[int]) -> set[int]:
    """Operations that wait for one of the sources, directly or through others; followers: of each operation."""
    reached: set[int] = set()
    queue = deque(sources)
    while queue:
        for follower in followers[queue.popleft()]:
            if follower not in reached:
                reached.add(follower)
                queue.append(follower)
    return reached


def rail_picture(timeline: StepTimeline) -> dict[str, pd.DataFrame]:
    """What Fig. 3 shows of the first iteration on rail 0.

    traffic: a row for each burst and rank (rank, kind, label, stage, messages, start_s, end_s); windows: of
    `rail_windows`; circuits: phases with the pairs of ranks that circuits join; unordered: of `unordered_example`;
    parts: warm-up, steady, cool-down and optimizer, by the computes of the last stage (name, start_s, end_s).
    attrs["warnings"] of traffic: those of the workload.
    """
    bursts, phases = rail_bursts(timeline), rail_phases(timeline)
    bursts, phases = bursts[bursts["iteration"] == 0], phases[phases["iteration"] == 0]
    members = timeline.table.set_index("group")["ranks"].to_dict()
    traffic = bursts.assign(rank=bursts["group"].map(members)).explode("rank")
    pairs = [_pairs(bursts[bursts["kind"] == kind]["group"].map(members)) for kind in phases["kind"]]
    windows = rail_windows(timeline)
    hops = timeline.table[timeline.table["operation"] == "send_receive"]
    between = hops["ranks"].map(lambda ends: (min(ends), max(ends)))
    messages = hops.groupby([between, "start_s"]).size().to_dict()
    both = traffic["group"].map(members).map(lambda ends: (min(ends), max(ends)))
    traffic["messages"] = [messages.get(key, 1) for key in zip(both, traffic["start_s"], strict=True)]
    columns = ["rank", "kind", "label", "stage", "messages", "start_s", "end_s"]
    traffic = traffic[columns].reset_index(drop=True)
    traffic.attrs["warnings"] = timeline.workload.warnings
    return {
        "traffic": traffic,
        "windows": windows[windows["iteration"] == 0],
        "circuits": phases.assign(circuits=pairs)[["kind", "circuits", "start_s", "end_s"]].reset_index(drop=True),
        "unordered": unordered_example(timeline),
        "parts": pd.DataFrame(_parts(timeline)),
    }


def _pairs(groups: Iterable[tuple[int, ...]]) -> str:
    """Neighbours in the rings or chains of groups, such as "0-4, 8-12"."""
    pairs = {(min(a, b), max(a, b)) for ranks in groups for a, b in pairwise(ranks)}
    return ", ".join(f"{a}-{b}" for a, b in sorted(pairs))


def _parts(timeline: StepTimeline) -> list[Mapping[str, object]]:
    """Warm-up until the last stage computes, steady until it has computed, cool-down until all have, optimizer."""
    table = timeline.table[timeline.table["iteration"] == 0]
    computes = table[(table["kind"] == "compute") & (table["phase"] != "after")]
    last = computes[computes["stage"] == computes["stage"].max()]
    sums = table[(table["phase"] == "after") & (table["kind"] == "pipeline")]
    ends = [0.0, last["start_s"].min(), last["end_s"].max(), sums["start_s"].min(), sums["end_s"].max()]
    names = ("warm-up", "steady", "cool-down", "optimizer")
    return [
        {"part": name, "start_s": start, "end_s": end}
        for name, start, end in zip(names, ends[:-1], ends[1:], strict=True)
    ]


def traffic_picture(timeline: StepTimeline, ranks: Iterable[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What Fig. 2 shows: operations of some ranks by dimension, and the dependencies between them.

    Returns operations (op, rank, lane: compute, tensor, data or pipeline, operation, phase, microbatch, start_s, end_s)
    and dependencies (rank, lane and end_s of the one, rank, lane and start_s of the other). Rows of iteration 0.
    """
    shown, table = list(ranks), timeline.table
    rows = table[table["iteration"] == 0].explode("ranks")
    rows = rows[rows["ranks"].isin(shown)].rename(columns={"ranks": "rank", "kind": "lane"})
    columns = ["op", "rank", "lane", "operation", "phase", "microbatch", "start_s", "end_s"]
    operations = rows[columns].reset_index(drop=True)
    edges = [(before, op) for op in operations["op"].unique() for before in timeline.workload.after[op]]
    links = pd.DataFrame(edges, columns=["before", "op"])
    sides = operations[["op", "rank", "lane", "start_s", "end_s"]]
    links = links.merge(sides.add_suffix("_from"), left_on="before", right_on="op_from").merge(
        sides.add_suffix("_to"), left_on="op", right_on="op_to"
    )
    other = links["lane_from"] != links["lane_to"]
    links = links[other & ((links["rank_from"] == links["rank_to"]) | (links["before"] == links["op"]))]
    return operations, links[["rank_from", "lane_from", "end_s_from", "rank_to", "lane_to", "start_s_to"]]


def run_title(pipeline: str = ", FSDP 2 and PP 2", model: str = MODEL) -> str:
    """What was measured and computed, for titles of figures. pipeline: what is on the rails; model: its name."""
    nic = units.show(catalog_machine(PLATFORM).nic_Bps, "bps")
    return f"{model} on {PLATFORM}s of four {GPU}: TP 4 in the node{pipeline} on rails of {nic}"


def traffic_title(workload: Workload) -> str:
    """What Fig. 2 shows, for its title."""
    model = f"{workload.model.name} cut to {units.counted(workload.model.layers, 'layers')}"
    return run_title(", FSDP 2 and PP 2", model)


def traffic_note() -> str:
    """What to know of the times of tensor traffic in Fig. 2."""
    return "NVLink was off: the rate of TP is solved from the measured run"


def own_schedule(
    pipeline: int, chunks: int, microbatches: int, delay_s: float, machine: Machine, model: Transformer | str = MODEL
) -> dict[str, dict[str, pd.DataFrame]]:
    """The run with other stages, chunks, micro-batches or model: `rail_picture` by a title that counts its windows.

    Parameters
    ----------
    pipeline, chunks, microbatches
        p, at least 2, v and m; with chunks m is a multiple of p.
    delay_s
        Reconfiguration delay [s]: how many windows are at least as long.
    machine, model
        A GPU of the run, and what is trained.

    Returns
    -------
    Title and tables.

    Raises
    ------
    ValueError
        As `Strategy.check`, and with one stage, which has no windows.
    """
    if pipeline == 1:
        raise ValueError("pipeline is 1, which leaves a rail one kind of traffic and no windows: give 2 or more stages")
    strategy = run_strategy(pipeline, chunks)
    timeline = run_timeline(run_workload(strategy, microbatches, machine, model=model))
    picture = rail_picture(timeline)
    windows = picture["windows"]["duration_s"]
    split = f"{units.counted(chunks, 'chunks')} a stage, " if chunks > 1 else ""
    title = (
        f"PP={pipeline}, FSDP={strategy.data}, {split}"
        f"{units.counted(microbatches, 'micro-batches')}: {units.counted(len(windows), 'windows')} in "
        f"{units.show(timeline.iteration_s, 's', 4)}, {int((windows >= delay_s).sum())} of "
        f"{units.show(delay_s, 's')} or longer"
    )
    return {title: picture}
