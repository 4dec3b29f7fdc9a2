"""One strategy of a job on several networks: iteration times, shares of the NICs and loads of links."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from railcore.network.topology.rails import RailFabric, fat_tree, rail_only
from railcore.network.topology.routed_flows import fabric_loads
from railcore.planner.fabrics import rail_only_and_optimized
from railcore.planner.slowdowns import checked_job, places_between_domains
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.training import traffic
from railcore.training.exchanges import TRAFFIC_KINDS
from railcore.training.group_shares import Fabric
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, as_model


def network_shares(
    fabrics: Mapping[str, Fabric],
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, Any],
    global_batch: int,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """The share of a NIC that each kind of a job's traffic gets on networks, and the time of an iteration.

    Parameters
    ----------
    fabrics
        By name.
    model, machine, strategy, global_batch, runtime
        The job, as for `iteration_times`.

    Returns
    -------
    Columns network; a share for each kind of traffic between HB domains, "<kind>_share"; direct_share of tokens that go
    straight to their experts' rails (0 where rails do not meet); iteration_s, and slowdown over the first network.
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    rows = []
    for name, fabric in fabrics.items():
        places = places_between_domains(machine.on(fabric), strategy)
        shares = {f"{kind}_share": float(place.nic_share) for kind, place in places.items()}
        if "expert" in places:
            shares["direct_share"] = float(places["expert"].direct_share)
        times = iteration_times(model, machine, strategy, runtime, global_batch=global_batch, fabric=fabric)
        rows.append({"network": name, **shares, "iteration_s": times.total_s.item()})
    table = pd.DataFrame(rows)
    return table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[0] - 1)


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
    leaves out forwarding in HB domains.

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
    columns, rows, software = strategy.columns(global_batch), [], as_runtime(runtime, machine)
    options = {"hb_domain_size": fabric.hb_domain_size, "precision": machine.precision}
    flows = _flows_between_domains((model, strategy, global_batch, software), options)
    for name, network in rail_only_and_optimized(fabric).items():
        loads = fabric_loads(network, flows)
        hb = loads["kind"] == "hb"
        busiest = loads.loc[~hb, "time_s"].max() if len(flows) else 0.0
        forwarded = loads.loc[hb & loads["to"].str.contains("GPU"), "bytes"].sum()
        iteration_s = iteration_times(model, machine, columns, software, fabric=network).total_s.item()
        rows.append((name, busiest, forwarded, iteration_s))
    table = pd.DataFrame(rows, columns=["fabric", "busiest_link_s", "hb_forwarded_bytes", "iteration_s"])
    return table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[-1] - 1)


def _flows_between_domains(job: tuple[Transformer, Strategy, int, Runtime], options: Mapping[str, Any]) -> pd.DataFrame:
    """All flows of an iteration between HB domains, with a ring on every rail where groups lie evenly in domains."""
    rings, size = dict.fromkeys(TRAFFIC_KINDS, "hierarchical"), options["hb_domain_size"]
    try:
        flows = traffic.iteration_traffic(*job, algorithms=rings, **options).entries()
    except ValueError:  # uneven groups
        flows = traffic.iteration_traffic(*job, **options).entries()
    return flows[flows["source"] // size != flows["target"] // size]


def dense_slowdowns(
    fabric: RailFabric,
    models: Mapping[str, Transformer],
    machine: Machine,
    batch: int,
    splits: int,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """`dense_slowdown` of each model's best strategies: one for each of the fastest ways to split the GPUs.

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
    tables = []
    for name, model in models.items():
        best = search(model, machine, fabric.gpus, batch, runtime, top=500).best
        of_splits = best.drop_duplicates(["tensor", "context", "pipeline", "data"]).head(splits)
        for row in of_splits.to_dict("records"):
            table = dense_slowdown(fabric, model, machine, Strategy.from_columns(row), batch, runtime)
            times_best = row["sequence_s"] / best["sequence_s"].iloc[0]
            tables.append(table.assign(model=name, strategy=strategy_label(row), times_best=times_best))
    table = pd.concat(tables, ignore_index=True)
    return table[["model", "strategy", "times_best", *table.columns[:-3]]]


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
    columns, rows = strategy.columns(global_batch), []
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
            times = iteration_times(model, box, columns, runtime, fabric=fabric)
            parts = (times.breakdown["expert_s"], times.links["expert_link_s"], times.total_s)
            rows.append((size, way, ratio, *(part.item() for part in parts)))
    names = ["hb_domain_size", "way", "oversubscription", "expert_s", "expert_link_s", "iteration_s"]
    table = pd.DataFrame(rows, columns=names)
    of_size = table.groupby("hb_domain_size", sort=False)
    slowdown = table["iteration_s"] / of_size["iteration_s"].transform("first") - 1
    return table.assign(slowdown=slowdown)[of_size.cumcount() > 0].reset_index(drop=True)
