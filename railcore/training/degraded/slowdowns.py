"""Iteration time on rail-only against rail-optimized networks, from the loads of their links.

Flows of a job are routed over the wired graph. They give the share of NIC bandwidth that the job receives; iteration
time is that with NICs of this share. Ranks fill HB domains (scale-up or NVLink domains) in their order.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from railcore.facts import catalog
from railcore.network.topology import RailFabric, rail_only
from railcore.training import traffic
from railcore.training.degraded.routed_flows import fabric_loads, flow_patterns, named_flows, nic_bandwidth_share
from railcore.training.iteration.critical_path import REASONS, iteration_times
from railcore.training.iteration.machine import Machine
from railcore.training.parallelism import Strategy
from railcore.training.search import search, strategy_label
from railcore.training.transformer import Transformer


def platform_fabric(platform: str, gpus: int, radix: int) -> RailFabric:
    """The rail-only network of a cluster of a catalog platform, its HB domains and bandwidths from there."""
    box = catalog.item("platforms", platform)
    links = {"nic_Bps": box["nic_bandwidth"], "hb_Bps": box["hb_bandwidth"], "hb_switches": int(box["hb_switches"])}
    return rail_only(gpus, int(box["gpus"]), radix, **links)


def both_fabrics(fabric: RailFabric) -> dict[str, RailFabric]:
    """The cluster of a fabric without a layer over its rails and with a full one, by name."""
    return {"rail-only": fabric.any_to_any(math.inf), "rail-optimized": fabric.any_to_any(1.0)}


def dense_slowdown(
    fabric: RailFabric, model: Transformer, machine: Machine, strategy: Strategy, global_batch: int
) -> pd.DataFrame:
    """A job on the rail-only and on the rail-optimized network of a cluster, from the loads of their links.

    Parameters
    ----------
    fabric
        Of strategy.gpus GPUs, wired link by link, some thousands at most.
    model, machine, strategy
        The job, and a GPU; its links are those of the fabric.
    global_batch
        B [sequences].

    Returns
    -------
    Columns fabric, busiest_link_s (all traffic of an iteration between domains over the busiest link of the network),
    hb_forwarded_bytes (of it, what HB domains carry), nic_share (`nic_bandwidth_share`), iteration_s, and slowdown: its
    iteration_s over that of rail-optimized, less 1.

    Raises
    ------
    ValueError
        For a fabric of another size, and as `Strategy.check`.
    """
    check_fabric_size(fabric, strategy)
    K, row, rows = fabric.hb_domain_size, strategy.columns(global_batch), []
    patterns = list(flow_patterns(model, strategy, global_batch, K).values())
    whole = traffic.matrix(model, strategy, global_batch).entries()
    flows = named_flows(whole[whole["source"] // K != whole["target"] // K], K)
    for name, network in both_fabrics(fabric).items():
        loads = fabric_loads(network, flows)
        hb = loads["kind"] == "hb"
        share = nic_bandwidth_share(network, patterns)
        times = {
            "busiest_link_s": loads.loc[~hb, "time_s"].max() if len(flows) else 0.0,
            "hb_forwarded_bytes": loads.loc[hb & loads["to"].str.contains("GPU"), "bytes"].sum(),
            "nic_share": share,
            "iteration_s": time_on_fabric(model, machine, network, row, share)[0],
        }
        rows.append({"fabric": name, **times})
    table = pd.DataFrame(rows)
    return table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[-1] - 1)


def dense_slowdowns(
    fabric: RailFabric, models: Mapping[str, Transformer], machine: Machine, batch: int, splits: int
) -> pd.DataFrame:
    """`dense_slowdown` of each model's best strategies: the best one of each of the fastest ways to split the GPUs.

    Parameters
    ----------
    fabric
        Wired link by link, some thousands of GPUs at most.
    models
        By name; a model that fits no strategy is left out.
    machine
        A GPU; its links are those of the fabric.
    batch
        [sequences].
    splits
        Ways to split the GPUs over tensor, context, pipeline and data ranks for each model.

    Returns
    -------
    Columns model, strategy, times_best (its time over the best strategy's), and those of `dense_slowdown`, a row for
    each network.
    """
    found = []
    for name, model in models.items():
        best = search(model, machine, fabric.gpus, batch, top=500).best
        each = best.drop_duplicates(["tensor", "context", "pipeline", "data"]).head(splits)
        for row in each.to_dict("records"):
            table = dense_slowdown(fabric, model, machine, Strategy.from_columns(row), batch)
            over = row["sequence_s"] / best["sequence_s"].iloc[0]
            found.append(table.assign(model=name, strategy=strategy_label(row), times_best=over))
    table = pd.concat(found, ignore_index=True)
    return table[["model", "strategy", "times_best", *table.columns[:-3]]]


def check_fabric_size(fabric: RailFabric, strategy: Strategy) -> None:
    """Raises ValueError for a fabric whose GPUs are not as many as the strategy's."""
    if fabric.gpus != strategy.gpus:
        raise ValueError(f"fabric has {fabric.gpus} GPUs, the strategy takes {strategy.gpus}: make them equal")


def time_on_fabric(
    model: Transformer, machine: Machine, fabric: RailFabric, row: Mapping[str, Any], nic: float, hb: float = 1.0
) -> tuple[float, str]:
    """Iteration time on a fabric whose links give the job a share of their bandwidth.

    Parameters
    ----------
    model, machine
        The model, and a GPU.
    fabric
        Its HB domain and bandwidths count.
    row
        A strategy as `iteration_times` takes it.
    nic, hb
        Shares of the bandwidth of NICs; of the HB interconnect.

    Returns
    -------
    Time [s], and "feasible" or the first thing that rules the strategy out.
    """
    left = machine.on(fabric)
    left = replace(left, nic_Bps=left.nic_Bps * nic, hb_Bps=left.hb_Bps * hb)
    found = iteration_times(model, left, row)
    return found.total_s.item(), REASONS[found.reason.item()]


def mixture_slowdowns(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    hb_domain_sizes: Sequence[int],
    oversubscriptions: Sequence[float],
) -> pd.DataFrame:
    """Iteration time of a mixture of experts by HB domain size and by the way that tokens take to their experts.

    Rows for each size: direct over an any-to-any layer of each oversubscription (1 is rail-optimized), and rail-only
    with two hops, pipelined and in turn. Only the all-to-all is taken to cross the layer.

    Parameters
    ----------
    model, machine, strategy
        The job, and a GPU with its links.
    global_batch
        B [sequences].
    hb_domain_sizes
        K [GPUs].
    oversubscriptions
        Of the any-to-any layer.

    Returns
    -------
    Columns hb_domain_size, way, oversubscription (infinite for rail-only), expert_s (on the critical path),
    expert_link_s (a rank's links), iteration_s, and slowdown: over direct with a full layer, less 1.

    Raises
    ------
    ValueError
        For a model without experts and an HB domain larger than the cluster.
    """
    if not model.experts:
        raise ValueError(f"model {model.name} has no experts: give a mixture of experts")
    if max(hb_domain_sizes) > strategy.gpus:
        raise ValueError(f"hb_domain_sizes is {hb_domain_sizes!r}: give at most the strategy's {strategy.gpus} GPUs")
    ways: list[tuple[str, float, dict[str, Any]]]
    ways = [("direct", float(ratio), {"routing": "direct", "pipelined": True}) for ratio in (1.0, *oversubscriptions)]
    ways += [("two-hop, pipelined", math.inf, {"routing": "two-hop", "pipelined": True})]
    ways += [("two-hop, in turn", math.inf, {"routing": "two-hop", "pipelined": False})]
    tables, row = [], strategy.columns(global_batch)
    for size in hb_domain_sizes:
        rows = []
        for way, ratio, routing in ways:
            box = replace(machine, hb_domain_size=size, oversubscription=ratio, **routing)
            found = iteration_times(model, box, row)
            times = (found.breakdown["expert_s"], found.links["expert_link_s"], found.total_s)
            rows.append((size, way, ratio, *(float(time) for time in times)))
        columns = ["hb_domain_size", "way", "oversubscription", "expert_s", "expert_link_s", "iteration_s"]
        table = pd.DataFrame(rows, columns=columns)
        tables.append(table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[0] - 1).iloc[1:])
    return pd.concat(tables, ignore_index=True)
