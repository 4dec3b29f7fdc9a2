"""What the choices of photonic rails cost one workload: order, predictions, granularity, ports, and jitter by seed.

Every run is of the same workload; `photonics.overhead` builds one and sweeps the switch's time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, at_least
from railcore.systems.photonics import GRANULARITIES, PhotonicCircuits, electrical_twin, learned_order
from railcore.training.simulation import StaticPartition, StepTimeline, simulate
from railcore.training.workload import Workload

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
    delays = np.unique(at_least("reconfiguration_s", reconfiguration_s))
    switches = [replace(network, reconfiguration_s=float(each), provisioning=False, order=None) for each in delays]
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
    the iteration gets shorter), largest_fall (over the time before), hurt (steps with provisioning longer than without,
    of the same order; 0 elsewhere)."""
    rows = []
    whole = times.pivot_table(index=["seed", "reconfiguration_s"], columns="order", values="iteration_s")
    for name, part in times.groupby("order", sort=False):
        before = part.groupby("seed")["iteration_s"].shift()
        fall = (1 - part["iteration_s"] / before)[part["fell"]].max()
        longer = whole[name] > whole[ORDERS[2]] * (1 + _LEAST_FALL)
        hurt = int(longer.sum()) if name == ORDERS[3] else 0
        rows.append((name, int(before.notna().sum()), int(part["fell"].sum()), np.nan_to_num(fall), hurt))
    return pd.DataFrame(rows, columns=["order", "steps", "falls", "largest_fall", "hurt"])


def times_by_prediction(
    workload: Workload,
    network: PhotonicCircuits,
    wrong_predictions: Sequence[float],
    seeds: Iterable[int] = (0,),
    jitter: float = 0.0,
) -> pd.DataFrame:
    """Iteration time against the share of predictions that are wrong, beside no predictions at all.

    A wrong prediction tears down circuits: the right ones come up after those that nobody wanted.

    Parameters
    ----------
    workload, jitter
        As for `times_by_order`.
    network
        With the switch's time; its provisioning is not used.
    wrong_predictions
        Shares from 0 to 1.
    seeds
        Of which predictions are wrong, and of the jitter.

    Returns
    -------
    Columns wrong_predictions, seed, iteration_s, on_demand_s and electrical_s (without provisioning; electrical rails).
    """
    rows = []
    free = replace(network, provisioning=False, wrong_predictions=0.0, order=None)
    order = learned_order(simulate(workload, free))
    for seed in seeds:
        known = [simulate(workload, each, jitter, seed).iteration_s for each in (free, electrical_twin(network))]
        for share in wrong_predictions:
            early = replace(free, provisioning=True, wrong_predictions=float(share), order=order)
            rows.append((share, seed, simulate(workload, early, jitter, seed).iteration_s, *known))
    return pd.DataFrame(rows, columns=["wrong_predictions", "seed", "iteration_s", "on_demand_s", "electrical_s"])


def prediction_summary(times: pd.DataFrame) -> pd.DataFrame:
    """`times_by_prediction` over electrical rails: columns wrong_predictions, mean, least, most (of the seeds),
    on_demand (mean)."""
    added = times.assign(
        added=times["iteration_s"] / times["electrical_s"] - 1,
        on_demand=times["on_demand_s"] / times["electrical_s"] - 1,
    )
    shares = added.groupby("wrong_predictions")
    table = shares["added"].agg(mean="mean", least="min", most="max")
    return table.assign(on_demand=shares["on_demand"].mean()).reset_index()


def times_by_granularity(
    workload: Workload,
    network: PhotonicCircuits,
    reconfiguration_s: ArrayLike,
    provisioning: Sequence[bool] = (False, True),
) -> pd.DataFrame:
    """Reconfiguration of a communication group's ports against that of a whole rail at once.

    Parameters
    ----------
    workload
        Of `training_step`.
    network
        What all runs share.
    reconfiguration_s
        Times of the switch [s].
    provisioning
        Whether circuits change before they are asked for; a run for each.

    Returns
    -------
    Columns granularity, provisioning, reconfiguration_s, iteration_s, overhead (over electrical rails), changes (of
    circuits, in the last iteration), stalled (operations that wait for circuits longer than on electrical rails),
    stall_s (their waiting in all, each rank's own counted).
    """
    rows = []
    electrical = simulate(workload, electrical_twin(network))
    for how in GRANULARITIES:
        for early in provisioning:
            for delay in np.atleast_1d(at_least("reconfiguration_s", reconfiguration_s)):
                chosen = replace(network, granularity=how, provisioning=early, reconfiguration_s=float(delay))
                run = simulate(workload, chosen)
                extra = _waiting_s(run) - _waiting_s(electrical)
                stalled = extra > _LEAST_FALL * run.total_s
                changed = run.workload.iteration_of[[op for op, *_ in run.reconfiguration_log]]
                time, changes = run.iteration_s, int((changed == workload.iterations - 1).sum())
                added = time / electrical.iteration_s - 1
                rows.append((how, early, delay, time, added, changes, int(stalled.sum()), float(extra[stalled].sum())))
    columns = "granularity provisioning reconfiguration_s iteration_s overhead changes stalled stall_s".split()
    return pd.DataFrame(rows, columns=columns)


def _waiting_s(run: StepTimeline) -> Floats:
    """Of the operations of the last iteration: time from the slowest rank's call to the start [s]."""
    last = run.workload.iteration_of == run.workload.iterations - 1
    return (run.start_s - run.ready_s)[last]


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


def rank_lanes(run: StepTimeline, ranks: Sequence[int], iteration: int = -1) -> pd.DataFrame:
    """What some ranks compute, send over the rails and are joined to in one iteration, from its start on.

    Parameters
    ----------
    run
        On a network with circuits.
    ranks
        Whose lanes; of the workload's simulated ranks.
    iteration
        Of the workload; -1 for its last.

    Returns
    -------
    Columns rank, lane (compute, traffic, out circuit, in circuit, change), what (phase, operation, or other rank of a
    circuit), microbatch (-1 where none), asked_s (when its slowest rank joined), start_s, end_s. Traffic of one group
    in one pass is a row.

    Raises
    ------
    ValueError
        For a rank that the workload does not simulate.
    """
    workload = run.workload
    if stray := [rank for rank in ranks if rank not in workload.simulated]:
        some, count = ", ".join(map(str, sorted(workload.simulated)[:4])), len(workload.simulated)
        raise ValueError(f"ranks has {stray[0]}, which is not simulated: give some of the {count}, such as {some}")
    which = iteration % workload.iterations
    begin = run.end_s[workload.iteration_of < which].max(initial=0.0)
    end = run.end_s[workload.iteration_of == which].max()
    table = run.table[workload.iteration_of == which]
    changes = run.reconfigurations.merge(table[["op", "ranks"]], on="op")
    parts = []
    for rank in ranks:
        mine = table[_holds(table["ranks"], rank)]
        computes = mine[mine["kind"] == "compute"].assign(lane="compute", what=mine["phase"], asked_s=mine["ready_s"])
        bursts = mine[mine["link"] == "rail"].groupby("burst", sort=False)
        sent = bursts.agg(
            what=("operation", "first"),
            microbatch=("microbatch", "first"),
            asked_s=("ready_s", "min"),
            start_s=("start_s", "min"),
            end_s=("end_s", "max"),
        ).assign(lane="traffic")
        joined = run.circuits[(run.circuits["rank"] == rank) & (run.circuits["port"].str.contains("out|in"))]
        sides = joined["port"].str.partition(" ")[0]
        peers = np.where(
            sides == "out", joined["circuit"].str.partition("-")[2], joined["circuit"].str.partition("-")[0]
        )
        up = joined.assign(
            lane=sides + " circuit",
            what=peers,
            microbatch=-1,
            asked_s=joined["up_s"],
            start_s=joined["up_s"],
            end_s=joined["down_s"],
        )
        own = changes[_holds(changes["ranks"], rank)]
        changed = own.assign(lane="change", what=own["group"], microbatch=-1)
        parts += [each.assign(rank=rank) for each in (computes, sent, up, changed)]
    columns = "rank lane what microbatch asked_s start_s end_s".split()
    found = pd.concat([part[columns] for part in parts], ignore_index=True)
    found = found[(found["end_s"] > begin) & (found["start_s"] < end)]
    times = found[["asked_s", "start_s", "end_s"]].clip(lower=begin, upper=end) - begin
    return found.assign(**times).sort_values(["rank", "lane", "start_s"], kind="stable", ignore_index=True)


def _holds(groups: Iterable[tuple[int, ...]], rank: int) -> np.ndarray:
    return np.array([rank in members for members in groups], bool)


def warm_up_end_s(lanes: pd.DataFrame) -> float:
    """End of the warm-up stage of the ranks of `rank_lanes`, with a twentieth more: when the last of them begins its
    first backward pass, or the time of all where none does [s]."""
    computes = lanes[lanes["lane"] == "compute"]
    first = computes[computes["what"] == "backward"].groupby("rank")["start_s"].min()
    return 1.05 * float(first.max() if len(first) else lanes["end_s"].max())
