"""A job on a fabric with a failed part: iteration time, and how the job goes on without lost GPUs.

Times are those of `iteration_times`; each kind of traffic has its share of a NIC on the fabric, with a failed part on
`FailedPart`. Ranks fill HB domains (scale-up or NVLink domains) in their order.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog.arguments import Count, checked
from railcore.network.topology.failed_part import MOVES, SLOWING_PARTS, STOPPING_PARTS, FailedPart, has_part, lost_gpus
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric
from railcore.training.iteration import iteration_times
from railcore.training.machine import GroupPlace, Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer, as_model


def checked_job(
    fabric: RailFabric | PhotonicRails, model: Transformer, strategy: Strategy, global_batch: int, whole: bool = True
) -> tuple[str, ...]:
    """Warnings of a fabric and of `Strategy.check`, which refuses a job that does not divide.

    Parameters
    ----------
    fabric
        That the job has to itself.
    model, strategy
        The job.
    global_batch
        B [sequences].
    whole
        Whether the job has to take all GPUs of the fabric.

    Returns
    -------
    Texts.

    Raises
    ------
    ValueError
        For a fabric of another size, and as `Strategy.check`.
    """
    odd = strategy.check(model, global_batch)
    if fabric.gpus < strategy.gpus or (whole and fabric.gpus > strategy.gpus):
        raise ValueError(f"fabric has {fabric.gpus} GPUs, the strategy takes {strategy.gpus}: make them equal")
    return (*fabric.warnings, *odd)


def places_between_domains(machine: Machine, strategy: Strategy) -> dict[str, GroupPlace]:
    """By kind of traffic, where its groups lie, for groups in more than one HB domain."""
    places = machine.places(strategy.group_levels(), strategy.gpus)
    return {kind: place for kind, place in places.items() if place.domains > 1}


@checked
def failed_part_slowdowns(
    fabric: RailFabric | PhotonicRails,
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Count,
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
    >>> table = rc.failed_part_slowdowns(
    ...     fabric, "Llama-3 8B", "DGX H100", strategy, global_batch=64
    ... )
    >>> print(table[["fault", "job"]].drop_duplicates().head(3).to_string(index=False))
    fault                           job
     none                         whole
      GPU          spare GPUs take over
      GPU replicas dropped, whole batch
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    warnings = checked_job(fabric, model, strategy, global_batch)
    whole = {"network": fabric, "gpus_failed": 0, "nics_cut": 0, "data": strategy.data, "global_batch": global_batch}
    rows: list[dict[str, Any]] = [{"fault": "none", "job": "whole", **whole}]
    for part in filter(lambda part: has_part(fabric, part), (*STOPPING_PARTS, *SLOWING_PARTS)):
        if (lost := lost_gpus(fabric, part)).size:
            failed = lost.size if part in STOPPING_PARTS else 0
            ways = _without_ranks(model, machine.on(fabric), strategy, global_batch, lost, runtime)
        else:
            failed, ways = 0, _rerouted(fabric, part)
        rows += [{**whole, "fault": part, "gpus_failed": failed, **way} for way in ways]
    for row in rows:
        box = machine.on(network := row.pop("network"))
        shares = [place.nic_share for place in places_between_domains(box, strategy).values()]
        row["nic_share"] = float(min(shares, default=1.0))
        row["hb_share"] = getattr(network, "hb_share", 1.0)
        row["iteration_s"], row["limit"] = math.inf, "no replica left"
        if row["data"]:
            times = iteration_times(model, box, _padded(strategy, row["global_batch"], row["data"]), runtime)
            row["iteration_s"], row["limit"] = times.total_s.item(), times.limits.item()
    table = _slowdown_table(fabric, strategy, rows)
    table.attrs["warnings"] = (*warnings, *feasibility_warnings(table["limit"].iloc[0]))
    return table


def _slowdown_table(fabric: RailFabric | PhotonicRails, strategy: Strategy, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The table of `failed_part_slowdowns`."""
    name = "photonic rails" if isinstance(fabric, PhotonicRails) else fabric.layout_name
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
    """A text where the whole job is not feasible. limit: what rules it out, or "feasible"."""
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

    Replicas that are left may fill HB domains unevenly, which slows their collectives: the job drops up to K more,
    however many give the most tokens/s.
    """
    spread = ("context", "tensor") if strategy.whole_experts else ("context",)
    faster = [name for name in strategy.order[: strategy.order.index("data")] if name in spread]
    within = math.prod(getattr(strategy, name) for name in faster)  # ranks of a replica before those of the next
    sharing = min(strategy.expert // math.gcd(strategy.expert, within), strategy.data)  # replicas that share experts
    most = strategy.data - sharing * np.unique(strategy.coordinates(lost)["data"] // sharing).size
    data = np.arange(most, max(most - machine.hb_domain_size, 0), -sharing)
    rows: list[dict[str, Any]] = [{"job": "spare GPUs take over"}]
    batches = {"whole": np.full_like(data, global_batch), "less": global_batch // strategy.data * data}
    for name, batch in batches.items():
        best = {"data": 0, "global_batch": global_batch}
        if data.size:
            times = iteration_times(model, machine, _padded(strategy, batch, data), runtime)
            feasible = times.feasible
            speed = np.where(feasible | ~feasible.any(), batch / times.total_s, 0)  # by time alone where nothing fits
            best = {"data": int(data[speed.argmax()]), "global_batch": int(batch[speed.argmax()])}
        rows.append({"job": f"replicas dropped, {name} batch", **best})
    return rows


def _padded(strategy: Strategy, global_batch: ArrayLike, data: ArrayLike) -> dict[str, Any]:
    """The strategy on fewer replicas, with the micro-batches of each rounded up."""
    step = np.asarray(data) * strategy.micro_batch
    return strategy.columns(1) | {"data": data, "global_batch": -(-np.asarray(global_batch) // step) * step}


def fabrics_side_by_side(tables: pd.DataFrame) -> pd.DataFrame:
    """Rows of `failed_part_slowdowns` of several fabrics side by side, a row for each fault and job.

    Columns fault, job, then nics_cut, nic_share, iteration_s and tokens_share of each fabric ("rail-only_nic_share"),
    NaN where it has no such part.
    """
    names = ["nics_cut", "nic_share", "iteration_s", "tokens_share"]
    keys = tables[["fault", "job"]].drop_duplicates()
    wide = tables.pivot(index=["fault", "job"], columns="fabric", values=names)
    wide.columns = [f"{fabric}_{name}" for name, fabric in wide.columns]  # units stay at the end
    return keys.merge(wide.reset_index(), how="left")
