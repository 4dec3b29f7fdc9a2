"""Goodput of a job on a fabric: the time that stops take and the time that it runs slower, apart."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.degraded.slowdowns import checked_job, feasibility_warnings
from railcore.engines.strategies.iteration import IterationEstimate, iteration_times
from railcore.facts import catalog
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import one_of
from railcore.facts.units import year
from railcore.network import reliability
from railcore.network.topology import FailedPart, PhotonicRails, RailFabric
from railcore.network.topology.failed_part import has_part, lost_gpus
from railcore.training.group_shares import Fabric
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import MODERN, Runtime
from railcore.training.transformer import Transformer, as_model

_FAILED = {  # parts of `reliability.parts_at_risk`: those of `FailedPart`
    **{"HB switch": "HB switch", "tier-1 switch": "rail switch", "circuit switch": "circuit switch"},
    **{"host link": "host link", "host transceiver": "host link", "upper switch": "spine"},
    **{"trunk link": "trunk link", "trunk transceiver": "trunk link"},
}


@checked
def training_goodput(
    fabric: RailFabric | PhotonicRails,
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, Any],
    global_batch: int,
    platform: str = "",
    rates: str = "value",
    checkpoint_time: Quantity | None = None,
    restart_time: Quantity | None = None,
    runtime: Runtime | str = MODERN,
) -> pd.DataFrame:
    """What failures cost a job: of which part, by stops and by slow time.

    A part that leaves GPUs without a link, or fails itself, stops the job (`reliability.parts_at_risk`): it restarts
    from its last checkpoint with spare GPUs, G = `reliability.goodput` of all stops. Another part slows it until it is
    repaired, to the tokens/s on `FailedPart`; the slowest part that is down sets the pace. With u parts of a kind down
    on average, one of them is with q = 1 - exp(-u); kinds from the slowest on, independent:

        goodput = G (1 - sum_i (1 - tokens_share_i) q_i prod_{j < i} (1 - q_j))

    Parameters
    ----------
    fabric, model, machine, strategy, global_batch, runtime
        As for `failed_part_slowdowns`.
    platform
        Of the catalog, for its hosts and HB switches, as for `reliability.parts_at_risk`.
    rates
        "value", "low" or "high" of the catalog's failure rates, repair times, checkpoint and restart.
    checkpoint_time, restart_time
        [s]; by default the catalog's.

    Returns
    -------
    Columns part, count, events_per_year, parts_down (on average), stops (whether it stops the job), tokens_share (while
    it is down; 0 where the job stops), lost (share of the time: of stops as there are more of a part's, of slow parts
    the sum's term). The last row, "all", has the stops of a year, and as tokens_share the goodput. attrs["warnings"] as
    of `failed_part_slowdowns`.

    Raises
    ------
    ValueError
        As `failed_part_slowdowns` and `reliability.goodput`, and for other rates.
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    odd = checked_job(fabric, model, strategy, global_batch)
    one_of("rates", rates, reliability.RATES)
    job = catalog.item("failure_rates", "job")
    delta, restart = (
        getattr(job.row(name), rates) if given is None else float(given)
        for name, given in (("checkpoint_time", checkpoint_time), ("restart_time", restart_time))
    )
    parts = reliability.parts_at_risk(fabric, platform)
    table = reliability.expected_failures(parts, rates)[["part", "count", "events_per_year", "parts_down"]]
    table = table.assign(stops=parts["gpus_stopped"] > 0, tokens_share=0.0, lost=0.0)
    table = table[table["count"] > 0].reset_index(drop=True)

    def iteration(network: Fabric) -> IterationEstimate:
        return iteration_times(model, machine, strategy.columns(global_batch), runtime, fabric=network)

    slow, whole = ~table["stops"], iteration(fabric)
    for place in table.index[slow]:
        part = _FAILED[table.loc[place, "part"]]
        if not has_part(fabric, part):  # of a network that one HB domain does not use
            table.loc[place, "tokens_share"] = 1.0
        elif not lost_gpus(fabric, part).size:
            table.loc[place, "tokens_share"] = (whole.total_s / iteration(FailedPart(fabric, part)).total_s).item()
    stops = table.loc[table["stops"], "events_per_year"]
    left = float(reliability.goodput(year / stops.sum(), delta, restart))
    table.loc[table["stops"], "lost"] = (1 - left) * stops / stops.sum()
    up = 1.0  # share of time in which no slower part is down
    for place in table.index[slow][np.argsort(table["tokens_share"][slow], kind="stable")]:
        down = -math.expm1(-table.loc[place, "parts_down"])
        table.loc[place, "lost"] = left * up * down * (1 - table.loc[place, "tokens_share"])
        up *= 1 - down
    lost = table["lost"].sum()
    table.loc[len(table)] = ["all", table["count"].sum(), stops.sum(), table["parts_down"].sum(), True, 1 - lost, lost]
    table.attrs["warnings"] = (*odd, *feasibility_warnings(whole.limits.item()))
    return table
