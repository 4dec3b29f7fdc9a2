"""Tokens per second that a job keeps when failures stop it, on rail-only and on rail-optimized networks."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import positive
from railcore.facts.units import year
from railcore.network import reliability
from railcore.network.topology import rail_only, rail_optimized
from railcore.network.topology.rails import rails_that_share
from railcore.training.iteration.critical_path import REASONS, iteration_times
from railcore.training.iteration.machine import Machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

RATES = ("low", "value", "high")


def training_goodput(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    gpus: ArrayLike,
    global_batch: ArrayLike,
    radix: int,
    platform: str,
    checkpoint_time: float | None = None,
    restart_time: float | None = None,
    rate_factor: float = 1.0,
) -> pd.DataFrame:
    """Tokens per second that a job keeps when failures stop it, on both networks, by GPUs of a cluster.

    A failure costs the work since the last checkpoint and a restart, on spare GPUs. M = year / events, checkpoints
    after `reliability.checkpoint_interval`, tokens/s = `reliability.goodput` x B s / T.

    Parameters
    ----------
    model, machine
        What is trained; a GPU and its links, K among them.
    strategy
        Its d becomes gpus / (t c p).
    gpus, global_batch
        Of a cluster; B [sequences]. They broadcast against each other.
    radix
        Ports of a switch.
    platform
        Of the catalog, for its HB switches and hosts.
    checkpoint_time, restart_time
        [s], by default those of a job in the catalog.
    rate_factor
        The catalog's failure rates are multiplied by it.

    Returns
    -------
    Columns gpus, fabric, stops (as `job_interruptions`), rates ("low", "value", "high"), events_per_year, mtbf_s,
    checkpoint_interval_s, goodput, iteration_s, tokens_per_s, effective_tokens_per_s, limit.

    Raises
    ------
    ValueError
        For GPUs that are no multiple of t c p, and for times and a factor that are not positive.
    """
    positive("rate_factor", rate_factor)
    job = catalog.item("failure_rates", "job")
    saving = job["checkpoint_time"] if checkpoint_time is None else checkpoint_time
    restart = job["restart_time"] if restart_time is None else restart_time
    counts, batches = (array.ravel() for array in np.broadcast_arrays(np.asarray(gpus), np.asarray(global_batch)))
    ranks = strategy.gpus // strategy.data
    if np.any(counts % ranks) or np.any(counts < ranks):
        raise ValueError(f"gpus is {gpus!r}: give multiples of tensor x context x pipeline, {ranks}")
    rows = {**strategy.columns(0), "global_batch": batches, "data": counts // ranks}
    found = iteration_times(model, machine, rows)
    tables = []
    for i, n in enumerate(counts.tolist()):
        events = job_interruptions(n, machine.hb_domain_size, radix, platform)
        tokens = float(batches[i] * model.sequence_length / found.total_s[i])
        done = {"gpus": n, "iteration_s": found.total_s[i], "tokens_per_s": tokens, "limit": REASONS[found.reason[i]]}
        tables.append(events.assign(**done))
    table = pd.concat(tables, ignore_index=True)
    table["events_per_year"] *= rate_factor
    mtbf = year / table["events_per_year"].to_numpy()
    interval, share = reliability.checkpoint_interval(mtbf, saving), reliability.goodput(mtbf, saving, restart)
    table = table.assign(mtbf_s=mtbf, checkpoint_interval_s=interval, goodput=share)
    table["effective_tokens_per_s"] = table["tokens_per_s"] * share
    columns = "gpus fabric stops rates events_per_year mtbf_s checkpoint_interval_s goodput iteration_s tokens_per_s"
    return table[[*columns.split(), "effective_tokens_per_s", "limit"]]


def job_interruptions(
    gpus: int, hb_domain_size: int, radix: int, platform: str, rates: Sequence[str] = RATES
) -> pd.DataFrame:
    """Failures a year that stop a job on all GPUs of a cluster.

    "what cuts GPUs off" counts GPUs, NICs, HB switches, hosts, software, and of the network host links and tier-1
    switches; "every part" counts all of the network. In rail-only, rails that are less than a switch share one.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster; K [GPUs]; ports of a switch.
    platform
        Of the catalog, for its HB switches and hosts.
    rates
        Of "low", "value", "high": which failure rates of the catalog.

    Returns
    -------
    Columns fabric, stops, rates, events_per_year.
    """
    hb, share = catalog.item("platforms", platform), int(rails_that_share(gpus, hb_domain_size, radix))
    software, rows = catalog.item("failure_rates", "job").row("software_failure_rate"), []
    fabrics = {
        "rail-only": rail_only(gpus, hb_domain_size, radix, rails_per_switch=share, hb_switches=hb["hb_switches"]),
        "rail-optimized": rail_optimized(gpus, hb_domain_size, radix, hb_switches=hb["hb_switches"]),
    }
    for name, fabric in fabrics.items():
        every = reliability.parts_at_risk(fabric, int(hb["hb_switch_parts"])) | {
            "host": -(-gpus // host_gpus(platform))
        }
        near = {"switch": 0, "link": 0, "transceiver": 0}
        if fabric.tiers and fabric.planes == 1:
            near = {"switch": int(fabric.parts.switches_by_tier[0]), "link": gpus, "transceiver": 2 * gpus}
        for stops, counts in (("what cuts GPUs off", every | near), ("every part", every)):
            for rate in rates:
                parts = reliability.expected_failures(counts, dict.fromkeys(counts, 0.0), rate)
                events = parts["events_per_year"].sum() + gpus * getattr(software, rate) * year
                rows.append((name, stops, rate, events))
    return pd.DataFrame(rows, columns=["fabric", "stops", "rates", "events_per_year"])


def host_gpus(platform: str) -> int:
    """GPUs of a host of a platform; where the catalog does not say, of the hosts whose failures were counted."""
    measured = catalog.item("failure_rates", "host")["gpus"]
    return int(catalog.item("platforms", platform).get("host_gpus", measured))
