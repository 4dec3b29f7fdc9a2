"""What the choices of photonic rails cost one workload: order, predictions, granularity, ports, and jitter by seed.

Every run is of the same workload; `photonics.overhead` builds one and sweeps the switch's time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts.checks import at_least
from railcore.facts.units import distinct
from railcore.systems.photonics import GRANULARITIES, PhotonicCircuits, electrical_twin, learned_order
from railcore.training.simulation import StaticPartition, StepTimeline, simulate
from railcore.training.workload import LINKS, Workload

ORDERS = ("first come first served", "learnt order, provisioned", "fixed order", "fixed order, provisioned")
_LEAST_FALL = 1e-9  # share of the time: smaller ones are rounding


def times_by_order(
    workload: Workload,
    network: PhotonicCircuits,
    reconfiguration_s: ArrayLike,
    jitter: float = 0.0,
    seeds: Iterable[int] = (0,),
) -> pd.DataFrame:
    """Iteration time against the switch's time, with circuits first come first served and in a fixed order.

    The fixed order is that of the run with the shortest switch's time, first come first served and of the same seed;
    the learnt one that of a run without jitter, at each time of the switch.

    Parameters
    ----------
    workload
        Of `training_step`, of all replicas where there is jitter.
    network
        What all runs share: ports, granularity, bandwidth.
    reconfiguration_s
        Times of the switch [s]; taken in rising order.
    jitter, seeds
        Of the compute times, as for `simulate`; a run for each seed.

    Returns
    -------
    Columns seed, order (one of ORDERS), reconfiguration_s, iteration_s, fell (it is shorter than at the time before).
    """
    delays = distinct(np.atleast_1d(at_least("reconfiguration_s", reconfiguration_s)))
    switches = [replace(network, reconfiguration_s=each, provisioning=False, order=None) for each in delays]
    learnt = [learned_order(simulate(workload, each)) for each in switches]
    rows = []
    for seed in seeds:
        fixed: tuple[int, ...] | None = None
        last = dict.fromkeys(ORDERS, 0.0)
        for delay, free, order in zip(delays, switches, learnt, strict=True):
            served = simulate(workload, free, jitter, seed)
            fixed = fixed or learned_order(served)
            ways = ((True, order), (False, fixed), (True, fixed))
            others = [replace(free, provisioning=early, order=its) for early, its in ways]
            runs = [served, *(simulate(workload, each, jitter, seed) for each in others)]
            for name, run in zip(ORDERS, runs, strict=True):
                time = run.iteration_s
                rows.append((seed, name, delay, time, time < last[name] * (1 - _LEAST_FALL)))
                last[name] = time
    return pd.DataFrame(rows, columns=["seed", "order", "reconfiguration_s", "iteration_s", "fell"])


def order_exceptions(times: pd.DataFrame) -> pd.DataFrame:
    """Exceptions in `times_by_order`: columns order, steps (from one time of the switch to the next), falls (in which
    the iteration gets shorter), largest_fall (over the time before), runs, hurt (provisioned runs that take longer than
    the same without: first come first served, or in the fixed order; NaN where nothing is provisioned)."""
    rows = []
    whole = times.pivot_table(index=["seed", "reconfiguration_s"], columns="order", values="iteration_s")
    without = {ORDERS[1]: ORDERS[0], ORDERS[3]: ORDERS[2]}
    for name, part in times.groupby("order", sort=False):
        before = part.groupby("seed")["iteration_s"].shift()
        fall = (1 - part["iteration_s"] / before)[part["fell"]].max()
        hurt = (whole[name] > whole[without[name]] * (1 + _LEAST_FALL)).sum() if name in without else np.nan
        rows.append((name, int(before.notna().sum()), int(part["fell"].sum()), np.nan_to_num(fall), len(part), hurt))
    return pd.DataFrame(rows, columns=["order", "steps", "falls", "largest_fall", "runs", "hurt"])


def overhead_by_prediction(
    workload: Workload, network: PhotonicCircuits, wrong_predictions: Sequence[float], seeds: Sequence[int] = (0,)
) -> pd.DataFrame:
    """Iteration time over electrical rails against the share of predictions that are wrong.

    A wrong prediction tears down circuits: the right ones come up after those that nobody wanted.

    Parameters
    ----------
    workload
        Of `training_step`.
    network
        With the switch's time; its provisioning is not used.
    wrong_predictions
        Shares from 0 to 1.
    seeds
        Of which predictions are wrong; a run for each.

    Returns
    -------
    Columns wrong_predictions, mean, least, most (of the seeds), on_demand (without predictions).
    """
    free = replace(network, provisioning=False, wrong_predictions=0.0, order=None)
    served, base = simulate(workload, free), simulate(workload, electrical_twin(network)).iteration_s
    early = replace(free, provisioning=True, order=learned_order(served))
    rows = []
    for share in wrong_predictions:
        chosen = replace(early, wrong_predictions=float(share))
        added = [simulate(workload, chosen, seed=seed).iteration_s / base - 1 for seed in seeds]
        rows.append((share, np.mean(added), min(added), max(added), served.iteration_s / base - 1))
    return pd.DataFrame(rows, columns=["wrong_predictions", "mean", "least", "most", "on_demand"])


def overhead_by_granularity(workload: Workload, network: PhotonicCircuits) -> pd.DataFrame:
    """Reconfiguration of a communication group's ports against that of a whole rail at once.

    workload: of several iterations, the last of which counts; network: with the switch's time. Columns granularity,
    overlapping_hops (of the pipeline, that meet collectives on their rail where rails are electrical), on_demand and
    provisioned (iteration time over electrical rails); of the run on demand: changes, hops_stall_s and
    collectives_stall_s (waiting for circuits in all, each operation's own counted).
    """
    electrical = simulate(workload, electrical_twin(network))
    last = workload.iteration_of == workload.iterations - 1
    table = electrical.table[last & (np.array(workload.link) == LINKS.index("rail"))]
    hop = table["operation"] == "send_receive"
    begin, end = (table[~hop][name].to_numpy()[:, None] for name in ("start_s", "end_s"))
    meets = (begin < table[hop]["end_s"].to_numpy()) & (table[hop]["start_s"].to_numpy() < end)
    size = workload.machine.hb_domain_size
    rail, its = (np.array([ranks[-1] % size for ranks in table[which]["ranks"]]) for which in (~hop, hop))
    overlapping = int((meets & (rail[:, None] == its)).any(axis=0).sum()) if len(table) else 0
    rows = []
    for granularity in GRANULARITIES:
        ways = [replace(network, granularity=granularity, provisioning=early) for early in (False, True)]
        asked, early = (simulate(workload, way) for way in ways)
        stall = pd.Series(asked.start_s - asked.ready_s - electrical.start_s + electrical.ready_s)[table["op"]]
        stalls = [float(stall[part].clip(lower=0).sum()) for part in (hop.to_numpy(), ~hop.to_numpy())]
        added = [run.iteration_s / electrical.iteration_s - 1 for run in (asked, early)]
        rows.append((granularity, overlapping, *added, len(_last_changes(asked)), *stalls))
    names = "granularity overlapping_hops on_demand provisioned changes hops_stall_s collectives_stall_s"
    return pd.DataFrame(rows, columns=names.split())


def _last_changes(run: StepTimeline) -> list[int]:
    """Operations whose circuits changed in the last iteration."""
    last = run.workload.iterations - 1
    return [op for op, *_ in run.reconfiguration_log if run.workload.iteration_of[op] == last]


def changes_of_a_rank(run: StepTimeline) -> float:
    """Changes of circuits in the last iteration that a rank takes part in, the mean of all simulated."""
    ranks, simulated = run.workload.ranks, run.workload.simulated
    return sum(len(simulated.intersection(ranks[op])) for op in _last_changes(run)) / len(simulated)


def times_by_ports(
    workload: Workload,
    network: PhotonicCircuits,
    reconfiguration_s: ArrayLike,
    ports: Sequence[int] = (2, 4),
    partitioned: Sequence[int] = (4,),
) -> pd.DataFrame:
    """Ways to use a NIC's ports: electrical, circuits with all of its bandwidth or one port's, and a static partition.

    Parameters
    ----------
    workload
        Of `training_step`.
    network
        What the runs with circuits share.
    reconfiguration_s
        Times of the switch [s].
    ports, partitioned
        Ports of a NIC: with a circuit at one port's bandwidth each, and in a static partition; a run for each. A
        partition that lacks ports is left out, with the refusal in attrs["warnings"].

    Returns
    -------
    Columns way, reconfiguration_s, iteration_s, overhead (over electrical rails). Ways without circuits that change
    have the same time at each.
    """
    delays = np.atleast_1d(at_least("reconfiguration_s", reconfiguration_s))
    base = simulate(workload, electrical_twin(network)).iteration_s
    times, refused = {"electrical rails": np.full(len(delays), base)}, []
    for count in partitioned:
        partition = StaticPartition(ports=count, algorithm=network.algorithm, rates_Bps=network.rates_Bps)
        way = f"static partition of {count} ports"
        try:
            times[way] = np.full(len(delays), simulate(workload, partition).iteration_s)
        except ValueError as error:
            refused.append(f"{way}: {error}")
    ways = {"circuits, all bandwidth": replace(network, bandwidth="equal")}
    ways |= {f"circuits, 1 of {n} ports each": replace(network, bandwidth="per port", ports=n) for n in ports}
    for way, circuits in ways.items():
        runs = [simulate(workload, replace(circuits, reconfiguration_s=float(delay))) for delay in delays]
        times[way] = np.array([run.iteration_s for run in runs])
    rows = [(way, delay, time) for way, of_way in times.items() for delay, time in zip(delays, of_way, strict=True)]
    table = pd.DataFrame(rows, columns=["way", "reconfiguration_s", "iteration_s"])
    table = table.assign(overhead=table["iteration_s"] / base - 1)
    table.attrs["warnings"] = tuple(refused)
    return table


def times_by_seed(
    workload: Workload,
    network: PhotonicCircuits,
    jitters: Sequence[float],
    seeds: Iterable[int] = (0,),
) -> pd.DataFrame:
    """Iteration time by seed where compute times and the switch's time vary.

    Parameters
    ----------
    workload
        Of `training_step`, of all replicas.
    network
        With the switch's time.
    jitters
        Standard deviations over the mean, of both times.
    seeds
        A run for each.

    Returns
    -------
    Columns jitter, seed, provisioning (without, and with the order of a run without jitter), iteration_s, electrical_s
    (of the same seed), overhead.
    """
    rows = []
    free = replace(network, provisioning=False, order=None)
    order = learned_order(simulate(workload, free))
    for jitter in jitters:
        varying = replace(free, reconfiguration_jitter=float(jitter))
        early = replace(varying, provisioning=True, order=order)
        for seed in seeds:
            base = simulate(workload, electrical_twin(network), jitter, seed).iteration_s
            for chosen in (varying, early):
                time = simulate(workload, chosen, jitter, seed).iteration_s
                rows.append((jitter, seed, chosen.provisioning, time, base, time / base - 1))
    return pd.DataFrame(rows, columns="jitter seed provisioning iteration_s electrical_s overhead".split())


def rank_lanes(run: StepTimeline, ranks: Sequence[int]) -> pd.DataFrame:
    """What some ranks compute, send over the rails and are joined to in the last iteration, from its start on.

    Columns rank, lane (compute, traffic, out circuit, in circuit, change), what (phase, operation, or other rank of a
    circuit), microbatch (-1 where none), asked_s (when its slowest rank joined), start_s, end_s. Traffic of one group
    in one pass is a row. Raises ValueError for a rank that the workload does not simulate.
    """
    workload = run.workload
    if stray := [rank for rank in ranks if rank not in workload.simulated]:
        some, count = ", ".join(map(str, sorted(workload.simulated)[:4])), len(workload.simulated)
        raise ValueError(f"ranks has {stray[0]}, which is not simulated: give some of the {count}, such as {some}")
    last = workload.iteration_of == workload.iterations - 1
    begin, end = run.end_s[~last].max(initial=0.0), run.total_s
    table = run.table[last]
    computes = table[table["kind"] == "compute"]
    computes = computes.assign(lane="compute", what=computes["phase"], asked_s=computes["ready_s"])
    sent = table[table["link"] == "rail"].groupby("burst", sort=False)
    sent = sent.agg(
        ranks=("ranks", "first"),
        what=("operation", "first"),
        microbatch=("microbatch", "first"),
        asked_s=("ready_s", "min"),
        start_s=("start_s", "min"),
        end_s=("end_s", "max"),
    ).assign(lane="traffic")
    changes = run.reconfigurations.merge(table[["op", "ranks"]], on="op")
    changes = changes.assign(lane="change", what=changes["group"], microbatch=-1)
    every = pd.concat([computes, sent, changes], ignore_index=True)
    up = run.circuits[run.circuits["rank"].isin(ranks) & run.circuits["port"].str.contains("out|in")]
    up = up.rename(columns={"up_s": "start_s", "down_s": "end_s"})
    sides, ends = up["port"].str.partition(" ")[0], up["circuit"].str.partition("-")
    peers = ends[2].where(sides == "out", ends[0])
    up = up.assign(lane=sides + " circuit", what=peers, microbatch=-1, asked_s=up["start_s"])
    parts = [up, *(every[_holds(every["ranks"], rank)].assign(rank=rank) for rank in ranks)]
    columns = "rank lane what microbatch asked_s start_s end_s".split()
    found = pd.concat([part[columns] for part in parts], ignore_index=True)
    found = found[(found["end_s"] > begin) & (found["start_s"] < end)]
    times = found[["asked_s", "start_s", "end_s"]].clip(lower=begin, upper=end) - begin
    return found.assign(**times).sort_values(["rank", "lane", "start_s"], kind="stable", ignore_index=True)


def _holds(groups: Iterable[tuple[int, ...]], rank: int) -> np.ndarray:
    return np.array([rank in members for members in groups], bool)


def ranks_on_rails_with(workload: Workload, rank: int, most: int = 3) -> list[int]:
    """A rank and others that it sends to over the rails: the first of its groups of each kind, in order of use.

    Raises ValueError for a rank without traffic over the rails.
    """
    table = workload.table
    table = table[(table["link"] == "rail") & _holds(table["ranks"], rank)]
    if table.empty:
        raise ValueError(
            f"rank is {rank}, which sends nothing over the rails in this job of {workload.strategy.gpus}: give one of "
            "its ranks, and more GPUs than an HB domain has"
        )
    firsts = (sorted(set(ranks) - {rank})[0] for ranks in table.groupby("kind", sort=False)["ranks"].first())
    return list(dict.fromkeys((rank, *firsts)))[:most]


def warm_up_end_s(lanes: pd.DataFrame) -> float:
    """End of the warm-up stage of the ranks of `rank_lanes`, with a twentieth more: when the last of them begins its
    first backward pass, or the time of all where none does [s]."""
    computes = lanes[lanes["lane"] == "compute"]
    first = computes[computes["what"] == "backward"].groupby("rank")["start_s"].min()
    return 1.05 * float(first.max() if len(first) else lanes["end_s"].max())
