"""Failure rates to events a year, parts out of service, GPU-hours lost, and goodput of a job that restarts."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import at_least, one_of, positive
from railcore.facts.units import hour, year
from railcore.network.topology.rails import RailFabric, rail_only, rail_optimized

_RATES = {"_low": "low", "": "value", "_high": "high"}  # of the catalog, by the end of a column's name


def parts_at_risk(fabric: RailFabric, hb_parts: int | None = None) -> dict[str, int]:
    """Parts of a fabric that can fail, by the names of the catalog's failure rates.

    hb_parts: HB switch chips or trays of a domain, where a plane is made of several; by default one for each plane.
    """
    parts = fabric.parts
    each = fabric.hb_switches if hb_parts is None else hb_parts
    hb = fabric.domains * each if fabric.hb_domain_size > 1 else 0
    return {
        "GPU": fabric.gpus,
        "NIC": fabric.gpus,
        "HB switch": hb,
        "switch": int(parts.switches),
        "transceiver": int(parts.transceivers),
        "link": int(parts.links),
    }


def gpus_stopped(fabric: RailFabric, hb_parts: int | None = None) -> dict[str, float]:
    """GPUs that one failed part stops, mean over all parts of its kind, by the names of the catalog's failure rates.

    A GPU and its NIC stop one GPU. Each of the `hb_parts` HB switches of a domain (by default one for each plane) takes
    an equal share of its HB bandwidth, K / hb_parts GPUs' worth: the whole domain where it is one. Of the network only
    what lies between a NIC and its tier-1 switch, that switch included, stops GPUs: N of all links, 2 N of all
    transceivers, and N GPUs over all switches. With several planes none does. What lies higher takes bandwidth.
    """
    n, parts = fabric.gpus, fabric.parts
    shares = {"switch": parts.switches, "transceiver": parts.transceivers / 2, "link": parts.links}
    cut = {name: n / float(count) if fabric.planes == 1 and count else 0.0 for name, count in shares.items()}
    each = fabric.hb_switches if hb_parts is None else hb_parts
    return {"GPU": 1.0, "NIC": 1.0, "HB switch": fabric.hb_domain_size / max(each, 1), **cut}


def expected_failures(
    counts: Mapping[str, int], gpus_stopped: Mapping[str, float], rates: str = "value"
) -> pd.DataFrame:
    """Failures a year of each kind of part, and the GPU-hours lost until repair.

    events = count x failure rate; down = events x repair time / year, parts out of service at a moment on average;
    lost GPU-hours = events x repair time x GPUs stopped by one failure.
    counts: parts by name in the catalog's failure_rates; gpus_stopped: by the same names.
    rates: "value", "low" or "high" of the catalog's rows. Raises UnknownName for a part without a rate.
    """
    one_of("rates", rates, _RATES.values())
    rows = []
    for part, count in counts.items():
        if part not in gpus_stopped or not count >= 0:
            raise ValueError(f"counts[{part!r}] is {count!r}: give 0 or more, and gpus_stopped for the same part")
        item = catalog.item("failure_rates", part)
        rate, repair = getattr(item.row("failure_rate"), rates), getattr(item.row("repair_time"), rates)
        events = count * rate * year
        lost = events * repair / hour * gpus_stopped[part]
        rows.append((part, count, rate * year, repair / hour, events, events * repair / year, lost))
    columns = "part count failures_per_year repair_h events_per_year parts_down lost_gpu_hours_per_year".split()
    return pd.DataFrame(rows, columns=columns)


def platform_fabrics(gpus: int, hb_domain_size: int, radix: int, platform: str) -> dict[str, RailFabric]:
    """Rail-only, whose rails share a switch where they are less than one, and rail-optimized.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch.
    platform
        Of the catalog, for its HB switches.

    Returns
    -------
    Fabrics by name.
    """
    shape, hb = (gpus, hb_domain_size, radix), {"hb_switches": catalog.item("platforms", platform)["hb_switches"]}
    return {"rail-only": rail_only(*shape, rails_per_switch=None, **hb), "rail-optimized": rail_optimized(*shape, **hb)}


def cluster_failures(gpus: int, hb_domain_size: int, radix: int, platform: str) -> pd.DataFrame:
    """A year's failures of a rail-only and a rail-optimized cluster at the catalog's low, middle and high rates.

    Parameters
    ----------
    gpus, hb_domain_size, radix, platform
        As for `platform_fabrics`.

    Returns
    -------
    Columns fabric, part, count, and of events and lost_gpu_hours in a year (`expected_failures`) the low, the middle
    and the high. Each fabric's parts, then "network" (switches, transceivers and links) and "all".
    attrs["warnings"]: `domain_warnings` of the cluster.
    """
    hb_parts, tables = int(catalog.item("platforms", platform)["hb_switch_parts"]), []
    for name, fabric in platform_fabrics(gpus, hb_domain_size, radix, platform).items():
        counts, stopped = parts_at_risk(fabric, hb_parts), gpus_stopped(fabric, hb_parts)
        table = pd.DataFrame({"count": counts})
        for column, (end, rates) in product(("events", "lost_gpu_hours"), _RATES.items()):
            table[column + end] = expected_failures(counts, stopped, rates).set_index("part")[f"{column}_per_year"]
        table.loc["network"] = table.loc[["switch", "transceiver", "link"]].sum()
        table.loc["all"] = table.loc[list(counts)].sum()
        tables.append(table.assign(fabric=name).rename_axis("part").reset_index())
    found = pd.concat(tables)[["fabric", "part", *table.columns]]
    found.attrs["warnings"] = fabric.warnings
    return found


def mean_time_between_failures(events_per_year: float) -> float:
    """Time between interruptions [s]: year / events."""
    return year / float(positive("events_per_year", events_per_year))


def checkpoint_interval(mtbf: ArrayLike, checkpoint_time: ArrayLike) -> np.ndarray:
    """Best computing time between checkpoints [s]: tau = sqrt(2 delta M) - delta, at least delta.

    M mtbf, delta checkpoint_time [s]. Source: Young 1974 and Daly 2006, first order.
    """
    delta, m = positive("checkpoint_time", checkpoint_time, "seconds"), positive("mtbf", mtbf, "seconds")
    return np.maximum(np.sqrt(2 * delta * m) - delta, delta)


def goodput(mtbf: ArrayLike, checkpoint_time: ArrayLike, restart_time: ArrayLike, interval=None) -> np.ndarray:
    """Share of wall time that advances the job: G = tau / (M exp(R / M) (exp((tau + delta) / M) - 1)).

    Exponential failures; the denominator is the mean time that a stretch of tau + delta takes.

    Parameters
    ----------
    mtbf
        Mean time M between failures [s].
    checkpoint_time, restart_time
        delta and R [s].
    interval
        Work tau between checkpoints [s]; by default `checkpoint_interval`.

    Returns
    -------
    Share G.

    References
    ----------
    Daly 2006, complete model of wall time.
    """
    m, delta = positive("mtbf", mtbf, "seconds"), positive("checkpoint_time", checkpoint_time, "seconds")
    tau = checkpoint_interval(m, delta) if interval is None else positive("interval", interval, "seconds")
    return tau / (m * np.exp(at_least("restart_time", restart_time) / m) * np.expm1((tau + delta) / m))
