"""photonic2025's windows between parallelisms: Eq. of section 3.1, the authors' way to count, and its closed form.

The authors count changes between the traffic of one parallelism and that of another on a rail, in the order in which
bursts end. A burst is all per-layer collectives of a group in one pass of a chunk. Bursts of the same kind that follow
each other are one phase. A phase that starts before the one before it ends has a window of 0. The window into the next
iteration counts. The AllReduce of gradient norms over data-parallel ranks belongs to the ReduceScatters that end next
on the rail, or, after the last of them, to those.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog.checks import Floats, Ints
from railcore.photonics.simulation import StepTimeline

_LABELS = {"all_gather": "AG", "reduce_scatter": "RS", "all_reduce": "AR", "send_receive": "PP", "all_to_all": "A2A"}


def window_lengths(joined_s: ArrayLike, end_s: ArrayLike, phase: ArrayLike, group: ArrayLike) -> Floats:
    """Windows between consecutive phases by the document's definition; negative where phases overlap.

    T_window = min over comm_j in P2 of T_j_start - max over comm_i in P1 of T_i_end, for the comm_j whose group is not
    in P1, and T_j_start = max over ranks x of comm_j of T_x_j_start. As printed the condition is comm_i != comm_i.

    Parameters
    ----------
    joined_s
        When each rank joins a communication [communications, ranks], NaN for a rank that has no part in it [s].
    end_s
        When each ends [s].
    phase, group
        Of each communication, both counted from 0.

    Returns
    -------
    One window for each phase but the last [s].

    References
    ----------
    photonic2025, section 3.1.
    """
    end, part, group = np.asarray(end_s, float), np.asarray(phase), np.asarray(group)
    start, phases, groups = np.nanmax(np.asarray(joined_s, float), axis=1), part.max() + 1, group.max() + 1
    new = ~np.isin((part - 1) * groups + group, part * groups + group)
    starts, ends = np.full(phases, np.inf), np.full(phases, -np.inf)
    np.minimum.at(starts, part[new], start[new])
    np.maximum.at(ends, part, end)
    return starts[1:] - ends[:-1]


def counted_window(joined: Ints, end: Ints, phase: Ints, group: Ints) -> int:
    """The window between phases 0 and 1, counted tick by tick: those when nothing runs, minus those of an overlap.

    Parameters
    ----------
    joined
        When each rank joins a communication [communications, ranks], in ticks, -1 where it has no part.
    end, phase, group
        As in `window_lengths`, the end in ticks.

    Returns
    -------
    Ticks.
    """
    before = {int(number) for number, at in zip(group, phase, strict=True) if at == 0}
    count = 0
    for tick in range(int(end.max()) + 1):
        running = any(tick < last for last, at in zip(end, phase, strict=True) if at == 0)
        begun = any(
            all(tick >= when for when in times if when >= 0)
            for times, at, number in zip(joined, phase, group, strict=True)
            if at == 1 and int(number) not in before
        )
        count += not running and not begun
        count -= running and begun
    return count


def definition_error() -> float:
    """Largest relative error of `window_lengths` against `counted_window` over 100 random pairs of phases.

    Phases have one to five communications of two to four ranks; a fifth of the groups of the second phase is of the
    first one too, and phases may overlap.
    """
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(100):
        sizes = rng.integers(1, 6, 2)
        phase = np.repeat((0, 1), sizes)
        group = np.concatenate([np.arange(sizes[0]), np.arange(10, 10 + sizes[1])])
        again = np.flatnonzero((phase == 1) & (rng.random(len(phase)) < 0.2))[: sizes[1] - 1]
        group[again] = rng.integers(0, sizes[0], len(again))
        joined = rng.integers(0, 30, (len(phase), 4)) + 20 * phase[:, None]
        joined[:, 2:][rng.random((len(phase), 2)) < 0.5] = -1
        end = joined.max(axis=1) + rng.integers(1, 20, len(phase))
        ours = window_lengths(np.where(joined < 0, np.nan, joined), end, phase, group)[0]
        theirs = counted_window(joined, end, phase, group)
        worst = max(worst, abs(ours - theirs) / max(abs(theirs), 1))
    return worst


def window_count(pipeline: ArrayLike, chunks: ArrayLike = 1, microbatches: ArrayLike = 2) -> Ints:
    """Windows of an iteration on one rail with sharded weights, the one into the next iteration included: 4 p v.

    With V = p v chunks of layers: 2 V - 1 phases of gathered weights and sent activations alternate, then the steady
    exchange, then 2 V - 1 of reduced gradients and sent gradients, then the pipeline's AllReduce: 4 V phases, each with
    a window after it. One micro-batch has no steady exchange, two windows fewer. Without a pipeline all traffic of the
    rail is of one kind, and there is no window. The authors' trace and Fig. 8 count so; the 127 of Eq. (1) is one less.

    Parameters
    ----------
    pipeline, chunks, microbatches
        p, v and m; they broadcast.

    Returns
    -------
    Windows.

    References
    ----------
    photonic2025, Eq. (1), which the text that we have lacks.
    """
    p, v, m = np.asarray(pipeline), np.asarray(chunks), np.asarray(microbatches)
    return np.where(p > 1, 4 * p * v - 2 * (m == 1), 0)


def rail_bursts(timeline: StepTimeline, rail: int = 0) -> pd.DataFrame:
    """Traffic of one rail, a row for each burst in the order in which they end.

    Columns kind, label (AG, RS, AR, PP, A2A), group, stage, iteration, phase, start_s, end_s, volume_bytes. Hops
    between the same two ranks that start together are one exchange. Volume by the authors' count: what one rank gives
    to a collective, its shard in an AllGather; the messages of both ranks of an exchange, once.
    """
    rails, table = timeline.workload.machine.hb_domain_size, timeline.table
    table = table[(table["link"] == "rail").to_numpy()]
    table = table[[group[0] % rails == rail for group in table["ranks"]]].sort_values("end_s", kind="stable")
    ranks, hop = list(table["ranks"]), (table["operation"] == "send_receive").to_numpy()
    members = np.array([len(members) for members in ranks])
    volume = table["message_bytes"] * np.where(
        hop, members, np.where(table["operation"] == "all_gather", 1 / members, 1)
    )
    names = [
        (min(ends), max(ends), start) if between else burst
        for ends, between, start, burst in zip(ranks, hop, table["start_s"], table["burst"], strict=True)
    ]
    _, first, burst = np.unique(pd.factorize(pd.Series(names, dtype=object))[0], True, True)
    once = ~hop | np.isin(np.arange(len(hop)), first)
    start, end = np.full(len(first), np.inf), np.zeros(len(first))
    np.minimum.at(start, burst, table["start_s"].to_numpy())
    np.maximum.at(end, burst, table["end_s"].to_numpy())
    columns = ["kind", "group", "stage", "iteration", "phase"]
    bursts = table.assign(label=table["operation"].map(_LABELS)).iloc[first][[*columns, "label"]]
    bursts = bursts.assign(start_s=start, end_s=end, volume_bytes=np.bincount(burst, volume * once, len(first)))
    return bursts.sort_values("end_s", kind="stable").reset_index(drop=True)


def rail_phases(timeline: StepTimeline, rail: int = 0, by_ends: bool = False) -> pd.DataFrame:
    """Phases of one rail: kind, iteration, label (of most bytes), last (label), start_s, end_s, volume_bytes.

    by_ends: the order of ends alone counts, for AllReduces of gradient norms too.
    """
    bursts = rail_bursts(timeline, rail)
    ends = bursts["end_s"].where(bursts["label"] == "RS")
    norms = (bursts["kind"] == "data") & (bursts["phase"] == "after") & (not by_ends)
    following = ends.groupby(bursts["iteration"]).bfill().where(norms).fillna(bursts["end_s"])
    bursts = bursts.iloc[np.lexsort((bursts["end_s"], following))].reset_index(drop=True)
    first = np.flatnonzero(bursts["kind"] != bursts["kind"].shift())
    label, volume = bursts["label"].to_numpy(), bursts["volume_bytes"].to_numpy()
    phase = np.repeat(np.arange(len(first)), np.diff([*first, len(bursts)]))
    by_volume = np.lexsort((-np.arange(len(volume)), volume, phase))  # the last of a phase has most bytes
    last = np.append(first[1:], len(bursts)) - 1
    columns = {
        "label": label[by_volume[last]],
        "last": label[last],
        "start_s": np.minimum.reduceat(bursts["start_s"].to_numpy(), first),
        "end_s": np.maximum.reduceat(bursts["end_s"].to_numpy(), first),
        "volume_bytes": np.add.reduceat(volume, first),
    }
    return bursts.iloc[first][["kind", "iteration"]].reset_index(drop=True).assign(**columns)


def rail_windows(timeline: StepTimeline, rail: int = 0, by_ends: bool = False) -> pd.DataFrame:
    """Windows of one rail of a computed timeline, with the columns of `trace.measured_windows`.

    The last iteration is left out where there are several, since no other follows it. by_ends: as in `rail_phases`.
    """
    phases = rail_phases(timeline, rail, by_ends)
    after = phases.shift(-1)
    table = pd.DataFrame(
        {
            "rail": rail,
            "iteration": phases["iteration"],
            "window": phases.groupby("iteration").cumcount() + 1,
            "before": phases["last"],
            "after": after["label"],
            "start_s": phases["end_s"],
            "duration_s": (after["start_s"] - phases["end_s"]).clip(lower=0.0),
            "volume_after_bytes": after["volume_bytes"],
        }
    ).dropna()
    last = timeline.workload.iterations - 1
    return table[(table["iteration"] < last) | (last == 0)].reset_index(drop=True)


def all_rail_windows(timeline: StepTimeline) -> pd.DataFrame:
    """`rail_windows` of every rail, one below the other."""
    rails = range(timeline.workload.machine.hb_domain_size)
    return pd.concat([rail_windows(timeline, rail) for rail in rails], ignore_index=True)


def largest_rail_difference(windows: pd.DataFrame) -> float:
    """Largest difference between rails of the mean window, over the mean of all."""
    means = windows.groupby("rail")["duration_s"].mean()
    return float((means.max() - means.min()) / means.mean())


def largest_difference_of_a_window(windows: pd.DataFrame) -> float:
    """`largest_rail_difference` of each window of an iteration, the largest of them."""
    return max(largest_rail_difference(rows) for _, rows in windows.groupby("window"))
