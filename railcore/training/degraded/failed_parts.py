"""What one failed part of each kind leaves of a job's speed, a row for each way in which the job can go on."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from railcore.network.topology import RailFabric, faults
from railcore.training.degraded.routed_flows import domain_ring, flow_patterns, gpu_names, nic_bandwidth_share
from railcore.training.degraded.slowdowns import check_fabric_size, time_on_fabric
from railcore.training.iteration.machine import Machine
from railcore.training.iteration.two_stage import TwoStage
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import networkx as nx

Row = Mapping[str, Any]


def failed_part_slowdowns(
    fabric: RailFabric, model: Transformer, machine: Machine, strategy: Strategy, global_batch: int
) -> pd.DataFrame:
    """What one failed part of each kind does to a job; the first row, fault "none", is the whole fabric.

    A GPU that fails, or that has neither NICs nor an HB domain: a spare one takes over, or the job drops the replicas
    that it was part of. The other replicas then run the whole batch, or so much less of it. A NIC without its rail: its
    traffic moves to other rails at both ends, in equal parts to all or to one. A trunk or spine: its traffic takes the
    others. HB switches: the others carry all, as a slower HB domain; without others its GPUs count as cut off.

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
    Columns fabric, fault, job (way to go on), gpus_failed, gpus_idle (live ones that stand still), nics_cut, nic_share
    and hb_share (of the bandwidth that the job receives), data (replicas), global_batch, iteration_s, tokens_share
    (tokens/s over the whole fabric's), limit ("feasible", or the first thing that rules the strategy out).

    Raises
    ------
    ValueError
        For a fabric of another size, and as `Strategy.check`.

    References
    ----------
    railonly2025, Fault Tolerance Properties.
    """
    check_fabric_size(fabric, strategy)

    def outcome(row: Row) -> dict[str, Any]:
        time, limit = math.inf, "no replica left"
        if row["data"]:
            parts = _padded(strategy, row["global_batch"], row["data"])
            time, limit = time_on_fabric(model, machine, fabric, parts, row["nic_share"], row["hb_share"])
        stopped = fabric.gpus // strategy.data * (strategy.data - row["data"])
        return {"stopped": stopped, "iteration_s": time, "work": row["global_batch"], "limit": limit}

    flows = list(flow_patterns(model, strategy, global_batch, fabric.hb_domain_size).values())
    start = {"data": strategy.data, "global_batch": global_batch}
    cases = _cases(fabric, flows, start, lambda lost: _without(strategy, global_batch, lost))
    return _table(fabric, [row | outcome(row) for row in cases], ["data", "global_batch"], ["limit"])


def two_stage_failed_part_slowdowns(fabric: RailFabric, model: TwoStage, batch_tokens: float) -> pd.DataFrame:
    """What one failed part of each kind does to iteration time by Eq. (1), a row for each way to go on.

    Rings of GPUs of equal rank are routed over the wired fabric; its bandwidths count, not the model's. Where GPUs are
    lost, spare ones take over, or their HB domain is left out: N - K GPUs run the batch. N_M stays as it was.
    Columns are those of `failed_part_slowdowns`, with gpus (that compute) in place of data, global_batch and limit.
    batch_tokens b [tokens]. Source: railonly2023, Eq. (1); railonly2025, Fault Tolerance Properties.
    """
    n, k = fabric.gpus, fabric.hb_domain_size
    if n % k:
        raise ValueError(f"fabric has {n} GPUs: give whole HB domains of {k}")
    group = model.group_size(n, batch_tokens, k)

    def outcome(row: Row) -> dict[str, Any]:
        rates = {"nic_Bps": fabric.nic_Bps * row["nic_share"], "hb_Bps": fabric.hb_Bps * row["hb_share"]}
        time = math.inf
        if row["gpus"]:
            time = float(replace(model, **rates).iteration(row["gpus"], k, batch_tokens, group).iteration_s)
        return {"stopped": n - row["gpus"], "iteration_s": time, "work": batch_tokens}

    def without(lost: list[int]) -> list[dict[str, Any]]:
        return [{"job": "HB domain left out, whole batch", "gpus": n - k * np.unique(np.array(lost) // k).size}]

    cases = _cases(fabric, [domain_ring(n, k)] if n > k else [], {"gpus": n}, without)
    return _table(fabric, [row | outcome(row) for row in cases], ["gpus"], [])


def _table(fabric: RailFabric, rows: list[dict[str, Any]], scale: list[str], limit: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows).assign(fabric=fabric.graph().name)
    speed = table["work"] / table["iteration_s"]
    idle = (table["stopped"] - table["gpus_failed"]).clip(lower=0)
    table = table.assign(gpus_idle=idle, tokens_share=speed / speed.iloc[0])
    columns = ["fabric", "fault", "job", "gpus_failed", "gpus_idle", "nics_cut", "nic_share", "hb_share"]
    return table[[*columns, *scale, "iteration_s", "tokens_share", *limit]]


def _cases(
    fabric: RailFabric,
    flows: Sequence[pd.DataFrame],
    start: Row,
    without: Callable[[list[int]], list[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    """A row for the whole fabric, then for each fault and way to go on; `without` gives those without lost ranks."""
    graph, kept = fabric.graph(), ("fault", "gpus_failed", "nics_cut")
    usual = {"nic_share": nic_bandwidth_share(fabric, flows), "hb_share": 1.0, **start}
    yield dict(zip(kept, ("none", 0, 0), strict=True)) | usual | {"job": "whole"}
    for found in faults.effects(fabric).to_dict("records"):
        fault = found["fault"]
        if lost := _lost_ranks(fabric, graph, fault):
            ways = [{"job": "spare GPUs take over"}, *without(lost)]
        elif fault == "HB switch":
            ways = [{"job": "HB domain on its other switches", "hb_share": found["hb_bandwidth"]}]
        elif not found["nics_cut"]:
            ways = [{"job": "rerouted over the other links", "nic_share": nic_bandwidth_share(fabric, flows, fault)}]
        else:
            every, one = (nic_bandwidth_share(fabric, flows, fault, alone) for alone in (False, True))
            ways = [{"job": "moved to all other rails", "nic_share": every}]
            ways += [{"job": "moved to one other rail", "nic_share": one}]
        yield from ({name: found[name] for name in kept} | usual | way for way in ways)


def _padded(strategy: Strategy, global_batch: int, data: int) -> dict[str, Any]:
    """The strategy on fewer replicas, with the micro-batches of each rounded up to what its schedule takes."""
    unit = strategy.pipeline if strategy.interleave > 1 else 1
    each = data * strategy.micro_batch * unit
    return strategy.columns(-(-global_batch // each) * each) | {"data": data}


def _lost_ranks(fabric: RailFabric, graph: "nx.Graph", fault: str) -> list[int]:
    """Ranks that a fault takes from the job: failed, cut off from most others, or without an HB domain they had."""
    import networkx as nx

    after = faults.fail(graph, fault)
    most: set[str] = max(nx.connected_components(after), key=len, default=set())
    lost = []
    for rank, name in enumerate(gpu_names(range(fabric.gpus), fabric.hb_domain_size)):
        if name not in most or (fabric.hb_domain_size > 1 and not faults.bandwidth(after, name, ("hb",))):
            lost.append(rank)
    return lost


def _without(strategy: Strategy, global_batch: int, lost: list[int]) -> list[dict[str, Any]]:
    """Ways to go on without some ranks."""
    each = strategy.expert // math.gcd(strategy.expert, strategy.context)  # replicas that share experts go together
    data = strategy.data - each * np.unique(strategy.coordinates(lost)["data"] // each).size
    less = global_batch // strategy.data * data
    return [
        {"job": "replicas dropped, whole batch", "data": data},
        {"job": "replicas dropped, less batch", "data": data, "global_batch": less},
    ]


def fabrics_side_by_side(tables: pd.DataFrame) -> pd.DataFrame:
    """Rows of `failed_part_slowdowns` of several fabrics side by side, a row for each fault and job.

    Columns fault, job, then nics_cut, nic_share, iteration_s and tokens_share of each fabric ("nic_share, rail-only"),
    NaN where it has no such part.
    """
    shown = ["nics_cut", "nic_share", "iteration_s", "tokens_share"]
    keys = tables[["fault", "job"]].drop_duplicates()
    wide = tables.pivot(index=["fault", "job"], columns="fabric", values=shown)
    wide.columns = [f"{name}, {fabric}" for name, fabric in wide.columns]
    return keys.merge(wide.reset_index(), how="left")
