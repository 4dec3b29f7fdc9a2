"""A job on a fabric that is whole or has a failed part: iteration time, what it does without lost GPUs, goodput.

Times are those of `iteration_times` on the fabric: each kind of traffic has its share of a NIC (`group_shares`), with a
failed part that of `FailedPart`. Ranks fill HB domains (scale-up or NVLink domains) in their order.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import checks
from railcore.catalog.arguments import Count, NonNegativeInt, checked
from railcore.network.topology.failed_part import MOVES, SLOWING_PARTS, STOPPING_PARTS, FailedPart, has_part, lost_gpus
from railcore.network.topology.graph import fabric_name
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only
from railcore.network.topology.routed_flows import fabric_loads
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.training import traffic
from railcore.training.exchanges import TRAFFIC_KINDS
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, as_model


def platform_fabric(platform: str, gpus: int, radix: int, machine: Machine | None = None) -> RailFabric:
    """The rail-only network of a cluster of a catalog platform, its HB domains and bandwidths from there.

    Parameters
    ----------
    platform
        Of the catalog.
    gpus, radix
        Of the cluster; ports of a switch.
    machine
        Whose HB domains and bandwidths stand in place of the platform's.

    Returns
    -------
    The fabric.
    """
    box = catalog.item("platforms", platform)
    size, nic_Bps, hb_Bps = (box[name] for name in ("gpus", "nic_bandwidth", "hb_bandwidth"))
    if machine:
        size, nic_Bps, hb_Bps = machine.hb_domain_size, machine.nic_Bps, machine.hb_Bps
    return rail_only(gpus, int(size), radix, nic_Bps=nic_Bps, hb_Bps=hb_Bps, hb_switches=int(box["hb_switches"]))


def rail_only_and_optimized(fabric: RailFabric) -> dict[str, RailFabric]:
    """The cluster of a fabric without a layer over its rails and with a full one, by name."""
    return {"rail-only": fabric.with_layer(math.inf), "rail-optimized": fabric.with_layer(1.0)}


def dense_slowdown(
    fabric: RailFabric,
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """A job on the rail-only and on the rail-optimized network of a cluster, with the loads of their links.

    Loads are of flows routed over the wired graph: rings within HB domains and a ring on every rail between them, as in
    the iteration time; where groups lie unevenly in HB domains, one ring in the order of ranks. The iteration time
    leaves out what forwarding takes in HB domains.

    Parameters
    ----------
    fabric
        Of strategy.gpus GPUs.
    model, machine, strategy
        The job, and a GPU with its links.
    global_batch
        B [sequences].
    runtime
        The software; None for the newest for the GPU.

    Returns
    -------
    Columns fabric, busiest_link_s (all traffic of an iteration between domains over the busiest link of the network),
    hb_forwarded_bytes (of it, what HB domains carry), iteration_s, and slowdown: its iteration_s over that of
    rail-optimized, less 1.

    Raises
    ------
    ValueError
        For a fabric of another size, and as `Strategy.check`.
    """
    checked_job(fabric, model, strategy, global_batch)
    row, rows, software = strategy.columns(global_batch), [], as_runtime(runtime, machine)
    options = {"hb_domain_size": fabric.hb_domain_size, "precision": machine.precision}
    flows = _flows_between_domains((model, strategy, global_batch, software), options)
    for name, network in rail_only_and_optimized(fabric).items():
        loads = fabric_loads(network, flows)
        hb = loads["kind"] == "hb"
        busiest = loads.loc[~hb, "time_s"].max() if len(flows) else 0.0
        forwarded = loads.loc[hb & loads["to"].str.contains("GPU"), "bytes"].sum()
        iteration_s = iteration_times(model, machine, row, software, fabric=network).total_s.item()
        rows.append((name, busiest, forwarded, iteration_s))
    columns = ["fabric", "busiest_link_s", "hb_forwarded_bytes", "iteration_s"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[-1] - 1)


def _flows_between_domains(job: tuple[Any, ...], options: Mapping[str, Any]) -> pd.DataFrame:
    """All flows of an iteration between HB domains, with a ring on every rail where groups lie evenly in domains."""
    rings, size = dict.fromkeys(TRAFFIC_KINDS, "hierarchical"), options["hb_domain_size"]
    try:
        whole = traffic.iteration_traffic(*(*job, rings), **options).entries()
    except ValueError:  # uneven groups
        whole = traffic.iteration_traffic(*job, **options).entries()
    return whole[whole["source"] // size != whole["target"] // size]


def dense_slowdowns(
    fabric: RailFabric,
    models: Mapping[str, Transformer],
    machine: Machine,
    batch: int,
    splits: Count,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """`dense_slowdown` of each model's best strategies: the best one of each of the fastest ways to split the GPUs.

    Parameters
    ----------
    fabric
        The cluster.
    models
        By name; a model that fits no strategy is left out.
    machine
        A GPU; its links are those of the fabric.
    batch
        [sequences].
    splits
        Ways to split the GPUs over tensor, context, pipeline and data ranks for each model.
    runtime
        The software; None for the newest for the GPU.

    Returns
    -------
    Columns model, strategy, times_best (its time over the best strategy's), and those of `dense_slowdown`, a row for
    each network.
    """
    found = []
    for name, model in models.items():
        best = search(model, machine, fabric.gpus, batch, runtime, top=500).best
        each = best.drop_duplicates(["tensor", "context", "pipeline", "data"]).head(splits)
        for row in each.to_dict("records"):
            table = dense_slowdown(fabric, model, machine, Strategy.from_columns(row), batch, runtime)
            over = row["sequence_s"] / best["sequence_s"].iloc[0]
            found.append(table.assign(model=name, strategy=strategy_label(row), times_best=over))
    table = pd.concat(found, ignore_index=True)
    return table[["model", "strategy", "times_best", *table.columns[:-3]]]


def checked_job(
    fabric: RailFabric | PhotonicRails, model: Transformer, strategy: Strategy, global_batch: int, whole: bool = True
) -> tuple[str, ...]:
    """Refuse a job that does not divide or is not of the fabric's size.

    Parameters
    ----------
    fabric
        That the job has to itself.
    whole
        Whether the job takes all its GPUs; else it may take fewer.
    model, strategy
        The job.
    global_batch
        B [sequences].

    Returns
    -------
    What is odd but allowed, as texts: the fabric's, and those of `Strategy.check`.

    Raises
    ------
    ValueError
        For a fabric whose GPUs are not as many as the strategy's, and as `Strategy.check`.
    """
    odd = strategy.check(model, int(checks.whole("global_batch", global_batch)))
    if fabric.gpus < strategy.gpus or (whole and fabric.gpus > strategy.gpus):
        raise ValueError(f"fabric has {fabric.gpus} GPUs, the strategy takes {strategy.gpus}: make them equal")
    return (*fabric.warnings, *odd)


def mixture_slowdowns(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    hb_domain_sizes: Sequence[int],
    oversubscriptions: Sequence[float],
    radix: int,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """Iteration time of a mixture of experts by HB domain size and network.

    Rows for each size: a Clos over all GPUs with leaves of each oversubscription; and rail-only, whose HB domains
    forward tokens while others are on the NICs, or in turn with them.

    Parameters
    ----------
    model, machine, strategy
        The job, and a GPU with its links.
    global_batch
        B [sequences].
    hb_domain_sizes
        K [GPUs].
    oversubscriptions
        Of the leaves.
    radix
        Ports of a switch.
    runtime
        The software; None for the newest for the GPU.

    Returns
    -------
    Columns hb_domain_size, way, oversubscription (infinite for rail-only), expert_s (on the critical path),
    expert_link_s (a rank's links), iteration_s, and slowdown: over a rail-optimized network, less 1.

    Raises
    ------
    ValueError
        For a model without experts and an HB domain larger than the cluster.
    """
    if not model.experts:
        raise ValueError(f"model {model.name} has no experts: give a mixture of experts")
    gpus = strategy.gpus
    if max(hb_domain_sizes) > gpus:
        raise ValueError(f"hb_domain_sizes is {hb_domain_sizes!r}: give at most the strategy's {gpus} GPUs")
    row, rows = strategy.columns(global_batch), []
    for size in hb_domain_sizes:
        rails = rail_only(gpus, size, radix)
        ways: list[tuple[str, float, RailFabric, bool]] = [("rail-optimized", 1.0, rails.with_layer(1.0), True)]
        ways += [
            ("Clos", float(ratio), fat_tree(gpus, radix, size, tier_oversubscription=(float(ratio),)), True)
            for ratio in oversubscriptions
        ]
        ways += [("rail-only, forwarding at once", math.inf, rails, True)]
        ways += [("rail-only, forwarding before sending", math.inf, rails, False)]
        for way, ratio, fabric, pipelined in ways:
            box = machine.changed(hb_domain_size=size, pipelined=pipelined)
            found = iteration_times(model, box, row, runtime, fabric=fabric)
            times = (found.breakdown["expert_s"], found.links["expert_link_s"], found.total_s)
            rows.append((size, way, ratio, *(time.item() for time in times)))
    columns = ["hb_domain_size", "way", "oversubscription", "expert_s", "expert_link_s", "iteration_s"]
    table = pd.DataFrame(rows, columns=columns)
    of_size = table.groupby("hb_domain_size", sort=False)
    slowdown = table["iteration_s"] / of_size["iteration_s"].transform("first") - 1
    return table.assign(slowdown=slowdown)[of_size.cumcount() > 0].reset_index(drop=True)


@checked
def failed_part_slowdowns(
    fabric: RailFabric | PhotonicRails,
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: NonNegativeInt,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """Iteration time of a job with one failed part, a row for each kind of part and way to go on.

    The first row, fault "none", is the whole fabric. What happens after a fault:

    - A GPU fails, or has neither NICs nor an HB domain: a spare one takes over, or the job drops the replicas that it
      was part of, and a few more where those left fill HB domains unevenly. The others then run the whole batch, or
      only their part of it.
    - A NIC loses its rail: its traffic moves to other rails at both ends, in equal parts to all of them or to one.
    - Another part of the network fails: its traffic takes the others (`FailedPart`).
    - An HB switch fails: the others carry all, as a slower HB domain. Without others its GPUs count as cut off.

    An iteration waits for its slowest ranks: all NICs have the shares of those for which the fault is worst.

    Parameters
    ----------
    fabric
        Of strategy.gpus GPUs: rails, a Clos, or photonic rails, whose circuits are up when they are asked for.
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    strategy
        How the model is split over GPUs: a `Strategy`, or a row of `search`'s tables.
    global_batch
        B [sequences].
    runtime
        The software, or its name in the catalog; None for the newest for the GPU.

    Returns
    -------
    Columns fabric, fault, job (way to go on), gpus_failed, gpus_idle (live ones that stand still), nics_cut (of the HB
    domain that is worst off), nic_share (least share of a NIC that a kind of the job's traffic gets), hb_share (of the
    bandwidth in the HB domain), data (replicas), global_batch, iteration_s, tokens_share (tokens/s over the whole
    fabric's), limit ("feasible", or the first thing that rules the strategy out). attrs["warnings"]: of
    `checked_job`, and a text where the whole job is not feasible.

    Raises
    ------
    ValueError
        For a fabric of another size or with smaller HB domains than the machine, and as `Strategy.check`.

    References
    ----------
    railonly2025, Fault Tolerance Properties.

    Examples
    --------
    >>> import railcore as rc
    >>> fabric, strategy = rc.rail_only(64, 8, 16), rc.Strategy(tensor=8, data=8)
    >>> table = rc.failed_part_slowdowns(fabric, "Llama-3 8B", "DGX H100", strategy, global_batch=64)
    >>> table[["fault", "job"]].drop_duplicates().head(3).to_dict("list")
    {'fault': ['none', 'GPU', 'GPU'], 'job': ['whole', 'spare GPUs take over', 'replicas dropped, whole batch']}
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    odd = checked_job(fabric, model, strategy, global_batch)
    nothing_failed = {"gpus_failed": 0, "nics_cut": 0, "data": strategy.data, "global_batch": global_batch}
    rows: list[dict[str, Any]] = [{"fault": "none", "job": "whole", "network": fabric, **nothing_failed}]
    for part in filter(lambda part: has_part(fabric, part), (*STOPPING_PARTS, *SLOWING_PARTS)):
        fault = {"fault": part, "network": fabric} | nothing_failed
        if (lost := lost_gpus(fabric, part)).size:
            fault["gpus_failed"] = lost.size if part in STOPPING_PARTS else 0
            ways = _without_ranks(model, machine.on(fabric), strategy, global_batch, lost, runtime)
        else:
            ways = _rerouted(fabric, part)
        rows += [fault | way for way in ways]
    levels = strategy.group_levels()
    for row in rows:
        box = machine.on(network := row.pop("network"))
        places = [place for place in box.places(levels, strategy.gpus).values() if place.domains > 1]
        row["nic_share"] = float(min((place.nic_share for place in places), default=1.0))
        row["hb_share"] = getattr(network, "hb_share", 1.0)
        row["iteration_s"], row["limit"] = math.inf, "no replica left"
        if row["data"]:
            found = iteration_times(model, box, _padded(strategy, row["global_batch"], row["data"]), runtime)
            row["iteration_s"], row["limit"] = found.total_s.item(), found.limits.item()
    table = _slowdown_table(fabric, strategy, rows)
    table.attrs["warnings"] = (*odd, *feasibility_warnings(table["limit"].iloc[0]))
    return table


def _slowdown_table(fabric: RailFabric | PhotonicRails, strategy: Strategy, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """What `failed_part_slowdowns` returns."""
    name = "photonic rails" if isinstance(fabric, PhotonicRails) else fabric_name(fabric)
    table = pd.DataFrame(rows).assign(fabric=name)
    stopped = fabric.gpus // strategy.data * (strategy.data - table["data"])
    speed = table["global_batch"] / table["iteration_s"]
    table = table.assign(gpus_idle=(stopped - table["gpus_failed"]).clip(lower=0), tokens_share=speed / speed.iloc[0])
    columns = (
        "fabric fault job gpus_failed gpus_idle nics_cut nic_share hb_share data global_batch iteration_s "
        "tokens_share limit"
    )
    return table[columns.split()]


def feasibility_warnings(limit: str) -> tuple[str, ...]:
    """A text where the whole job is not feasible, by its limit."""
    if limit == "feasible":
        return ()
    return (f"The job is not feasible even with nothing failed ({limit}): no run has its times.",)


def _rerouted(fabric: RailFabric | PhotonicRails, part: str) -> list[dict[str, Any]]:
    """Ways to go on without a part that takes no rank from the job."""
    left = FailedPart(fabric, part)
    if part == "HB switch":
        return [{"job": "HB domain on its other switches", "network": left}]
    if not left.nics_cut:
        return [{"job": "rerouted over the other links", "network": left}]
    moves = MOVES[1:] if isinstance(fabric, PhotonicRails) else MOVES  # rings move as a whole
    return [
        {"job": f"moved to {move}", "nics_cut": left.nics_cut, "network": FailedPart(fabric, part, move)}
        for move in moves
    ]


def _without_ranks(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    lost: np.ndarray,
    runtime: Runtime | str | None,
) -> list[dict[str, Any]]:
    """Ways to go on after a fault that takes ranks from the job.

    Replicas that are left may fill HB domains unevenly, which slows their collectives: the job does without up to K
    more, whatever gives the most tokens/s.
    """
    spread = ("context", "tensor") if strategy.whole_experts else ("context",)
    faster = [name for name in strategy.order[: strategy.order.index("data")] if name in spread]
    within = math.prod(getattr(strategy, name) for name in faster)  # ranks of a replica that come before the next one's
    each = min(strategy.expert // math.gcd(strategy.expert, within), strategy.data)  # replicas that share experts
    most = strategy.data - each * np.unique(strategy.coordinates(lost)["data"] // each).size
    data = np.arange(most, max(most - machine.hb_domain_size, 0), -each)
    rows: list[dict[str, Any]] = [{"job": "spare GPUs take over"}]
    batches = {"whole": np.full_like(data, global_batch), "less": global_batch // strategy.data * data}
    for name, batch in batches.items():
        best = {"data": 0, "global_batch": global_batch}
        if data.size:
            found = iteration_times(model, machine, _padded(strategy, batch, data), runtime)
            feasible = found.feasible
            speed = np.where(feasible | ~feasible.any(), batch / found.total_s, 0)  # by time alone where nothing fits
            best = {"data": int(data[speed.argmax()]), "global_batch": int(batch[speed.argmax()])}
        rows.append({"job": f"replicas dropped, {name} batch", **best})
    return rows


def _padded(strategy: Strategy, global_batch: ArrayLike, data: ArrayLike) -> dict[str, Any]:
    """The strategy on fewer replicas, with the micro-batches of each rounded up."""
    each = np.asarray(data) * strategy.micro_batch
    return strategy.columns(1) | {"data": data, "global_batch": -(-np.asarray(global_batch) // each) * each}


def fabrics_side_by_side(tables: pd.DataFrame) -> pd.DataFrame:
    """Rows of `failed_part_slowdowns` of several fabrics side by side, a row for each fault and job.

    Columns fault, job, then nics_cut, nic_share, iteration_s and tokens_share of each fabric ("rail-only_nic_share"),
    NaN where it has no such part.
    """
    shown = ["nics_cut", "nic_share", "iteration_s", "tokens_share"]
    keys = tables[["fault", "job"]].drop_duplicates()
    wide = tables.pivot(index=["fault", "job"], columns="fabric", values=shown)
    wide.columns = [f"{fabric}_{name}" for name, fabric in wide.columns]  # units stay at the end
    return keys.merge(wide.reset_index(), how="left")
