"""Goodput of a job on a fabric: time lost to stops, and time lost while parts that only slow it are down."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.arguments import Count, NonNegativeInt, Positive, Seconds, checked
from railcore.catalog.checks import one_of
from railcore.catalog.units import year
from railcore.network import reliability
from railcore.network.topology.failed_part import FailedPart, has_part, lost_gpus
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric
from railcore.planner.slowdowns import checked_job, feasibility_warnings
from railcore.training.group_shares import Fabric
from railcore.training.iteration import IterationEstimate, iteration_times
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer, as_model

_FAILED = {  # parts of `FailedPart`, by those of `reliability.parts_at_risk`
    **{"HB switch": "HB switch", "tier-1 switch": "rail switch", "circuit switch": "circuit switch"},
    **{"host link": "host link", "host transceiver": "host link", "upper switch": "spine"},
    **{"trunk link": "trunk link", "trunk transceiver": "trunk link"},
}


@checked
def training_goodput(
    fabric: RailFabric | PhotonicRails,
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Count,
    platform: str = "",
    rates: str = "value",
    checkpoint_time: Seconds | None = None,
    restart_time: Seconds | None = None,
    runtime: Runtime | str | None = None,
    offload: str | Sequence[str] = "none",
    checkpoint_interval: Seconds | None = None,
    spares: NonNegativeInt | None = None,
    stop_rate: Positive | None = None,
) -> pd.DataFrame:
    """What failures cost a job: of which part, by stops and by slow time.

    A part that leaves GPUs without a link, or fails itself, stops the job (`reliability.parts_at_risk`): it restarts
    from its last checkpoint with spare hosts, G = `reliability.goodput` of all stops. Where more of the job's hosts are
    out of service than spares stand by, it stands still: with D hosts out on average, of h GPUs, and s spare GPUs it
    goes on P = sum_(k <= s / h) exp(-D) D^k / k! of the time. Another part slows it until it is repaired, to the
    tokens/s on `FailedPart`; the slowest part that is down sets the pace. With u parts of a kind down on average, one
    of them is with q = 1 - exp(-u); kinds from the slowest on, independent:

        goodput = G P (1 - sum_i (1 - tokens_share_i) q_i prod_{j < i} (1 - q_j))

    Parameters
    ----------
    fabric
        Rails, a Clos, or photonic rails. It may have more GPUs than the strategy takes: failures of the others stop
        nothing.
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    strategy
        How the model is split over GPUs: a `Strategy`, or a row of `search`'s tables.
    global_batch
        Sequences of an iteration.
    runtime
        Training software: a `Runtime`, or its name in the catalog; None for the newest for the GPU.
    platform
        Of the catalog, for its hosts and HB switches, as for `reliability.parts_at_risk`.
    rates
        "value", "low" or "high" of the catalog's failure rates, repair times, checkpoint and restart.
    checkpoint_time
        Time that training stands still for a checkpoint [s]; by default the catalog's.
    restart_time
        Time from a stop until training goes on, lost work left out [s]; by default the catalog's.
    offload
        What stays in the host's memory: "none", or one or several of "optimizer", "activations", "weights".
    checkpoint_interval
        Work between checkpoints [s]; by default the best, `reliability.checkpoint_interval`.
    spares
        GPUs that stand by for the job; None for as many as it takes, P = 1.
    stop_rate
        Stops of a job over its GPUs, measured on the cluster [1/s]: scales how often parts stop it, not what is out of
        service; None leaves the catalog's rates.

    Returns
    -------
    Columns part, kind, count, events_per_year, parts_down (on average), stops (whether it stops the job), gpus_stopped
    and gpus_out (mean of one failure, as `reliability.parts_at_risk`), tokens_share (while it is down; 0 where the job
    stops), lost (share of the time: of stops as there are more of a part's, of slow parts the sum's term). The last
    row, "all", has the stops of a year, as tokens_share the goodput, and as gpus_out the GPUs out of service on
    average. attrs["warnings"] as of `failed_part_slowdowns`.

    Raises
    ------
    ValueError
        As `failed_part_slowdowns` and `reliability.goodput`, and for other rates.

    Examples
    --------
    >>> import railcore as rc
    >>> table = rc.training_goodput(
    ...     rc.rail_only(64, 8, 16),
    ...     "Llama-3 8B",
    ...     "DGX H100",
    ...     rc.Strategy(tensor=8, data=8),
    ...     global_batch=64,
    ...     platform="DGX H100",
    ... )
    >>> table["part"].iloc[-1], bool(table["tokens_share"].iloc[-1] > 0.99)
    ('all', True)
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    warnings = checked_job(fabric, model, strategy, global_batch, whole=False)
    one_of("rates", rates, reliability.RATES)
    job = catalog.item("failure_rates", "job")
    checkpoint_s, restart_s = (
        getattr(job.row(name), rates) if time_s is None else float(time_s)
        for name, time_s in (("checkpoint_time", checkpoint_time), ("restart_time", restart_time))
    )
    parts = reliability.parts_at_risk(fabric, platform)
    stop = parts["gpus_stopped"] > 0
    # GPUs and HB domains that the job does not use stop nothing when they fail.
    of_job = strategy.gpus / fabric.gpus
    of_domains = min(-(-strategy.gpus // machine.hb_domain_size) / fabric.domains, 1.0)
    used = np.where(parts["part"] == "HB switch", of_domains, of_job)
    parts["count"] = (parts["count"] * used).where(stop & (used < 1), parts["count"])
    table = reliability.expected_failures(parts, rates)
    table = table[["part", "kind", "count", "events_per_year", "parts_down"]].assign(
        stops=stop, gpus_stopped=parts["gpus_stopped"], gpus_out=parts["gpus_out"], tokens_share=0.0, lost=0.0
    )
    table = table[table["count"] > 0].reset_index(drop=True)
    if stop_rate is not None:
        scale = stop_rate * strategy.gpus * year / table.loc[table["stops"], "events_per_year"].sum()
        table["events_per_year"] = table["events_per_year"].where(~table["stops"], table["events_per_year"] * scale)

    def iteration(network: Fabric) -> IterationEstimate:
        return iteration_times(model, machine, strategy.columns(global_batch), runtime, offload, fabric=network)

    whole = iteration(fabric)

    @cache
    def tokens_share(part: str) -> float:
        if not has_part(fabric, part):  # one HB domain uses no network
            return 1.0
        if lost_gpus(fabric, part).size:
            return 0.0
        return (whole.total_s / iteration(FailedPart(fabric, part)).total_s).item()

    table["tokens_share"] = [
        0.0 if stops else tokens_share(_FAILED[part]) for part, stops in zip(table["part"], table["stops"], strict=True)
    ]
    interval_s = None if checkpoint_interval is None else float(checkpoint_interval)
    spare_hosts = None if spares is None else spares // reliability.host_gpus(platform)
    table["lost"] = lost_shares(table, checkpoint_s, restart_s, interval_s, spare_hosts)
    lost, stops = table["lost"].sum(), table.loc[table["stops"], "events_per_year"].sum()
    gone, down = table["gpus_stopped"].max(), table["parts_down"].sum()
    out = (table["parts_down"] * table["gpus_out"]).sum()
    table.loc[len(table)] = ["all", "", table["count"].sum(), stops, down, True, gone, out, 1 - lost, lost]
    table.attrs["warnings"] = (*warnings, *feasibility_warnings(whole.limits.item()))
    return table


def lost_shares(
    parts: pd.DataFrame,
    checkpoint_time: ArrayLike,
    restart_time: ArrayLike,
    checkpoint_interval: float | None = None,
    spare_hosts: int | None = None,
) -> np.ndarray:
    """Shares of the time that failures take, by part, shape (parts, ...): the equation of `training_goodput`.

    Parameters
    ----------
    parts
        Columns stops, tokens_share, gpus_out, events_per_year and parts_down of `training_goodput`; cells of the last
        two may be arrays of one shape, such as draws of the failure rates.
    checkpoint_time, restart_time
        Of that shape or one number [s].
    checkpoint_interval
        Work between checkpoints [s]; None for the best.
    spare_hosts
        That stand by for the job; None for as many as it takes.

    Returns
    -------
    Shares; goodput is 1 less their sum.
    """
    events, down = (np.array(parts[name].tolist(), float) for name in ("events_per_year", "parts_down"))
    stops, share = parts["stops"].to_numpy(bool), parts["tokens_share"].to_numpy(float)
    in_all = events[stops].sum(axis=0)
    left = np.maximum(reliability.goodput(year / in_all, checkpoint_time, restart_time, checkpoint_interval), 0.0)
    if spare_hosts is not None:
        from scipy.special import pdtr  # only where spares are given: it takes a fifth of a second

        hosts_out = parts["gpus_out"].to_numpy(float) / parts.loc[parts["part"] == "host", "gpus_out"].iloc[0]
        left = left * pdtr(spare_hosts, np.tensordot(hosts_out, down, 1))
    lost = np.zeros(np.broadcast_shapes(events.shape, np.shape(left)))
    lost[stops] = (1 - left) * events[stops] / in_all
    none_slower = np.ones(np.shape(left))  # share of the time in which no slower part is down
    for place in np.flatnonzero(~stops)[np.argsort(share[~stops], kind="stable")]:
        one_down = -np.expm1(-down[place])
        lost[place] = left * none_slower * one_down * (1 - share[place])
        none_slower = none_slower * (1 - one_down)
    return lost
