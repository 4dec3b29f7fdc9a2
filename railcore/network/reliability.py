"""What fails in a cluster, how often, and what one failed part stops and slows; goodput of a job that restarts.

The one account of failures: `parts_at_risk` lists the parts of a cluster, `expected_failures` their year.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import Value
from railcore.catalog.arguments import NeededColumns, checked
from railcore.catalog.checks import at_least, one_of, positive
from railcore.catalog.units import hour, year
from railcore.network.topology.photonic import PhotonicRails, rings_of_ports
from railcore.network.topology.rails import RailFabric, rail_only, rail_optimized

RATES = ("low", "value", "high")  # of the catalog's rows
STOPS = ("what cuts GPUs off", "every part")  # what counts as a stop of a job
COVERED = 0.99  # of the time, by the spares that are named
_TAIL = 40  # standard deviations of hosts down, beyond which nothing is left
Row = tuple[str, str, float, float, float, float]  # of _COLUMNS
_BELOW = ("tier-1 switch", "host link", "host transceiver")  # between a NIC and its first switch
_COLUMNS = ["part", "kind", "count", "gpus_stopped", "gpus_slowed", "share_lost"]
PartsTable = Annotated[pd.DataFrame, NeededColumns(_COLUMNS)]
_TAKE_THEIR_HOST = ("GPU", "NIC", "host", "link", "transceiver")


class PacketFabric(Protocol):
    """A network of packet switches under HB domains, as `RailFabric` is one."""

    @property
    def gpus(self) -> int:
        """GPUs."""
        ...

    @property
    def hb_domain_size(self) -> int:
        """GPUs of an HB domain."""
        ...

    @property
    def domains(self) -> int:
        """HB domains."""
        ...

    @property
    def hb_switches(self) -> int:
        """HB switches of a domain."""
        ...

    @property
    def tiers(self) -> int:
        """Tiers of switches."""
        ...

    @property
    def switches_by_tier(self) -> Sequence[int]:
        """Switches, from tier 1 on."""
        ...

    @property
    def links_by_tier(self) -> Sequence[int]:
        """Links below each tier, all planes together."""
        ...

    @property
    def nic_ports(self) -> int:
        """Ports of a NIC."""
        ...

    @property
    def homing(self) -> int:
        """Switches of tier 1 that the ports of a NIC lie on."""
        ...


def host_gpus(platform: str = "") -> int:
    """GPUs of a host of a platform; where its rows do not say, of the hosts whose failures were counted."""
    measured = catalog.item("failure_rates", "host")["gpus"]
    return int(catalog.item("platforms", platform).get("host_gpus", measured) if platform else measured)


@checked
def parts_at_risk(fabric: PhotonicRails | PacketFabric, platform: str = "") -> pd.DataFrame:
    """Parts of a cluster that can fail, and what one failure of each takes.

    What stops: a GPU, its NIC or its software stops one GPU, a host its GPUs. An HB switch stops the GPUs of its HB
    domain, which can go on without its share of the HB bandwidth. A tier-1 switch, host link or its transceiver, or a
    circuit switch stops GPUs whose NICs it leaves without a link; on photonic rails without a ring. What only slows:
    with several planes, or NIC ports on several switches, these parts take one plane's or port's share of a NIC. A part
    above tier 1 takes its share of the links or switches of its tier from all GPUs, as traffic spreads evenly; the
    GPUs nearest to it lose more, see `planner.slowdowns`.

    What is out of service until it is repaired: a GPU, NIC, link or transceiver that cuts a GPU off takes its whole
    host, as in a public trace (rows of `server` in the catalog's failure rates). An HB switch takes its HB domain, for
    it is mended with the domain at rest: an assumption. A switch takes the GPUs that it stops. Software and parts that
    only slow take none.

    Parameters
    ----------
    fabric
        The network and its HB domains: `PhotonicRails`, a fabric such as `rail_only(...)`, or another `PacketFabric`.
    platform
        Platform of the catalog, for its hosts and HB switch chips or trays. By default hosts are those of `host_gpus`,
        with one HB switch for each plane of an HB domain.

    Returns
    -------
    Columns part; kind (of the catalog's failure rates); count; of one failure, mean over all parts: gpus_stopped (GPUs
    whose job stops), gpus_slowed (GPUs that have less until it is repaired), share_lost (of what they have: of a GPU or
    NIC that does nothing all, else of HB, NIC or network bandwidth) and gpus_out (GPUs out of service until then).

    Examples
    --------
    >>> import railcore as rc
    >>> parts = rc.parts_at_risk(rc.rail_only(1024, 8, 64), "DGX H100")
    >>> parts.set_index("part")["count"].astype(int)[["GPU", "host"]].to_dict()
    {'GPU': 1024, 'host': 128}
    """
    n, k = fabric.gpus, fabric.hb_domain_size
    switches = int(catalog.item("platforms", platform)["hb_switch_parts"]) if platform else fabric.hb_switches
    hosts = -(-n // host_gpus(platform))
    rows: list[Row] = [(part, part, n, 1, 1, 1.0) for part in ("GPU", "NIC", "software")]
    rows.append(("host", "host", hosts, n / hosts, n / hosts, 1.0))
    rows.append(("HB switch", "HB switch", fabric.domains * switches if k > 1 else 0, k, k, 1 / max(switches, 1)))
    rows += _circuit_parts(fabric) if isinstance(fabric, PhotonicRails) else _packet_parts(fabric)
    parts = pd.DataFrame(rows, columns=_COLUMNS)
    whole_host = parts["kind"].isin(_TAKE_THEIR_HOST) & (parts["gpus_stopped"] > 0)
    out = parts["gpus_stopped"].astype(float).where(~whole_host, n / hosts)
    return parts.assign(gpus_out=out.where(parts["kind"] != "software", 0.0))


def _packet_parts(fabric: PacketFabric) -> list[Row]:
    """Rows of `parts_at_risk` of switches, links and transceivers at both ends of a link."""
    n = fabric.gpus
    switches, links, ports, homes = fabric.switches_by_tier, fabric.links_by_tier, fabric.nic_ports, fabric.homing
    leaves, above = sum(switches[:1]), sum(switches[1:])
    hosts, trunks = sum(links[:1]), sum(links[1:])
    upper = max(fabric.tiers - 1, 0)
    return [
        _cut("tier-1 switch", "switch", leaves, n * homes / max(leaves, 1), 1 / homes),
        _cut("host link", "link", hosts, 1, 1 / ports),
        _cut("host transceiver", "transceiver", 2 * hosts, 1, 1 / ports),
        ("upper switch", "switch", above, 0, n, upper / max(above, 1)),
        ("trunk link", "link", trunks, 0, n, upper / max(trunks, 1)),
        ("trunk transceiver", "transceiver", 2 * trunks, 0, n, upper / max(trunks, 1)),
    ]


def _circuit_parts(fabric: PhotonicRails) -> list[Row]:
    """Rows of `parts_at_risk` of circuit switches, fibres and the NICs' transceivers. A failed fibre takes its port."""
    n, ports, fibres, modules = fabric.gpus, fabric.nic_ports, fabric.fibres_per_port, fabric.transceivers
    switches, whole = int(fabric.parts.switches), rings_of_ports(ports, fibres)

    def lost(gone: int) -> float:
        """Share of its rings that a NIC without so many ports loses; of its ports where it has no ring."""
        return 1 - rings_of_ports(ports - gone, fibres) / whole if whole else gone / ports

    return [
        _cut("circuit switch", "circuit switch", switches, n * fabric.planes / switches, lost(ports // fabric.planes)),
        _cut("host link", "link", int(fabric.parts.used_ports), 1, lost(1)),
        _cut("host transceiver", "transceiver", modules, 1, lost(-(-ports * n // modules))),
    ]


def _cut(part: str, kind: str, count: int, gpus: float, share: float) -> Row:
    """A row of `parts_at_risk`: GPUs stop where they lose all of their NIC."""
    return part, kind, int(count), gpus if share >= 1 else 0, gpus, share


def rate_and_repair(kind: str) -> tuple[Value, Value]:
    """The catalog's rows of failure rate and repair time; software is in service again when its job has restarted."""
    if kind == "software":
        job = catalog.item("failure_rates", "job")
        return job.row("software_failure_rate"), job.row("restart_time")
    item = catalog.item("failure_rates", kind)
    return item.row("failure_rate"), item.row("repair_time")


def failure_rows(
    kinds: Iterable[str], checkpoint_time: float | None = None, restart_time: float | None = None
) -> list[Value]:
    """Rows of the catalog that a job's failures rest on: rates and repair times of kinds of parts, checkpoint, restart.

    kinds: of parts. checkpoint_time, restart_time: the user's, in place of the catalog's rows [s]; None for the rows.
    """
    rows = [row for kind in sorted(kinds) for row in rate_and_repair(kind)]
    job = catalog.item("failure_rates", "job")
    rows += [job.row("checkpoint_time"), job.row("restart_time")]
    replaced = {"checkpoint_time": checkpoint_time, "restart_time": restart_time}
    kept = [row for row in rows if row.name != "job" or replaced.get(row.parameter) is None]
    return list({(row.name, row.parameter): row for row in kept}.values())


@checked
def expected_failures(parts: PartsTable, rates: str = "value") -> pd.DataFrame:
    """Failures a year of each part, and what is lost until they are repaired.

    events = count x failure rate; down = events x repair time / year, parts out of service at a moment on average.
    GPU-hours lost, of parts that stop GPUs: events x repair time x gpus_slowed x share_lost. Hours slowed, of parts
    that stop none: events x repair time, as part-hours.

    Parameters
    ----------
    parts
        Columns of `parts_at_risk`.
    rates
        "value", "low" or "high" of the catalog's rows.

    Returns
    -------
    Columns part, kind, count, failures_per_year (of one), repair_h, events_per_year, parts_down,
    lost_gpu_hours_per_year, slowed_hours_per_year.

    Raises
    ------
    ValueError
        For a negative count; UnknownName for a kind without a rate.

    Examples
    --------
    >>> import railcore as rc
    >>> parts = rc.parts_at_risk(rc.rail_only(1024, 8, 64), "DGX H100")
    >>> table = rc.readable(rc.expected_failures(parts), 3)
    >>> print(table[["part", "events per year"]].head(3).to_string(index=False))
        part events per year
         GPU             106
         NIC            5.45
    software            26.6
    """
    one_of("rates", rates, RATES)
    for name in _COLUMNS[2:]:
        for part, number in zip(parts["part"], parts[name], strict=True):
            at_least(f"{name} of {part!r}", number)
    rows = {kind: [getattr(row, rates) for row in rate_and_repair(kind)] for kind in parts["kind"].unique()}
    rate, repair = np.array([rows[kind] for kind in parts["kind"]]).reshape(-1, 2).T
    events = parts["count"] * rate * year
    hours, stops = events * repair / hour, parts["gpus_stopped"] > 0
    table = parts[["part", "kind", "count"]].assign(failures_per_year=rate * year, repair_h=repair / hour)
    return table.assign(
        events_per_year=events,
        parts_down=events * repair / year,
        lost_gpu_hours_per_year=(hours * parts["gpus_slowed"] * parts["share_lost"]).where(stops, 0.0),
        slowed_hours_per_year=hours.where(~stops & (parts["share_lost"] > 0), 0.0),
    )


def platform_fabrics(
    gpus: int, hb_domain_size: int, radix: int, platform: str, planes: int = 1
) -> dict[str, RailFabric]:
    """Rail-only, whose rails share a switch where they are less than one, and rail-optimized.

    Parameters
    ----------
    gpus, hb_domain_size, radix, planes
        GPUs of the cluster and of an HB domain; ports of a switch; planes of the network.
    platform
        Of the catalog, for its HB switches.

    Returns
    -------
    Fabrics by name.
    """
    shape = gpus, hb_domain_size, radix
    options = {"hb_switches": catalog.item("platforms", platform)["hb_switches"], "planes": planes}
    return {
        "rail-only": rail_only(*shape, rails_per_switch=None, **options),
        "rail-optimized": rail_optimized(*shape, **options),
    }


def cluster_failures(gpus: int, hb_domain_size: int, radix: int, platform: str, planes: int = 1) -> pd.DataFrame:
    """A year's failures of a rail-only and a rail-optimized cluster at the catalog's low, middle and high rates.

    Parameters
    ----------
    gpus, hb_domain_size, radix, platform, planes
        As for `platform_fabrics`.

    Returns
    -------
    Columns fabric, part (a kind of part), count, and of events, lost_gpu_hours and slowed_hours in a year
    (`expected_failures`) the low, the middle and the high. Each fabric's kinds, then "network" (switches, transceivers
    and links) and "all".
    attrs["warnings"]: `domain_warnings` of the cluster.
    """
    tables = []
    for name, fabric in platform_fabrics(gpus, hb_domain_size, radix, platform, planes).items():
        parts = parts_at_risk(fabric, platform)
        of_kind = {rates: expected_failures(parts, rates).groupby("kind", sort=False).sum() for rates in RATES}
        table = of_kind["value"][["count"]]
        for column in ("events", "lost_gpu_hours", "slowed_hours"):
            ends = {f"{column}_{rates}".removesuffix("_value"): of_kind[rates][f"{column}_per_year"] for rates in RATES}
            table = table.assign(**ends)
        network = table.loc[["switch", "transceiver", "link"]].sum()
        table.loc["network"], table.loc["all"] = network, table.sum()
        tables.append(table.assign(fabric=name).rename_axis("part").reset_index())
    failures = pd.concat(tables)[["fabric", "part", *table.columns]]
    failures.attrs["warnings"] = fabric.warnings
    return failures


def job_interruptions(gpus: int, hb_domain_size: int, radix: int, platform: str, planes: int = 1) -> pd.DataFrame:
    """Failures a year that stop a job on all GPUs of a cluster, and how many parts slow it at a moment.

    Stops: "what cuts GPUs off" counts the parts that stop GPUs (`parts_at_risk`), "every part" all of them.

    Parameters
    ----------
    gpus, hb_domain_size, radix, platform, planes
        As for `platform_fabrics`.

    Returns
    -------
    Columns fabric, stops, rates ("low", "value" or "high" of the catalog), events_per_year, planes_down: parts down on
    average that take one plane of a NIC each.
    """
    rows = []
    for name, fabric in platform_fabrics(gpus, hb_domain_size, radix, platform, planes).items():
        parts = parts_at_risk(fabric, platform)
        cuts = parts["gpus_stopped"] > 0
        slows = ~cuts & parts["part"].isin(_BELOW)
        years = {rates: expected_failures(parts, rates) for rates in RATES}
        for stops, counted in zip(STOPS, (cuts, cuts | True), strict=True):
            for rates, failures in years.items():
                events, down = failures["events_per_year"][counted].sum(), failures["parts_down"][slows].sum()
                rows.append((name, stops, rates, events, down))
    return pd.DataFrame(rows, columns=["fabric", "stops", "rates", "events_per_year", "planes_down"])


def hosts_to_spare(down: float, covered: float = COVERED) -> int:
    """Fewest spare hosts that stand for those out of service in a share of the time.

    The least s with sum_(k <= s) exp(-D) D^k / k! >= covered, of D hosts down on average that fail apart. Hosts that
    fail together need more: the catalog's public trace had at most 31 of 400 down in 99% of the time, D = 9.3, s = 17.

    down: D. covered: share of the time, below 1.

    >>> hosts_to_spare(9.26)
    17
    """
    at_least("down", down)
    if not 0 < covered < 1:
        raise ValueError(f"covered is {covered}: give a share of the time between 0 and 1, such as 0.99")
    if not down:
        return 0
    hosts = np.arange(1, int(down + _TAIL * np.sqrt(down) + _TAIL))
    shares = np.exp(np.cumsum([-down, *(np.log(down) - np.log(hosts))]))
    # A hair less keeps a share that is reached exactly from the next number.
    return int(np.searchsorted(np.cumsum(shares / shares.sum()), covered * (1 - 1e-12)))


def mean_time_between_failures(events_per_year: float) -> float:
    """Time between interruptions [s]: year / events."""
    return year / events_per_year


def checkpoint_interval(mtbf: ArrayLike, checkpoint_time: ArrayLike) -> np.ndarray:
    """Best computing time between checkpoints [s]: tau = sqrt(2 delta M) - delta, at least delta.

    M mtbf, delta checkpoint_time [s]. Source: Young 1974 and Daly 2006, first order.
    """
    delta = np.asarray(checkpoint_time, float)
    return np.maximum(np.sqrt(2 * delta * mtbf) - delta, delta)


def goodput(
    mtbf: ArrayLike, checkpoint_time: ArrayLike, restart_time: ArrayLike, interval: ArrayLike | None = None
) -> np.ndarray:
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
    tau = checkpoint_interval(m, delta) if interval is None else np.asarray(interval, float)
    with np.errstate(over="ignore"):  # a stretch that takes for ever: the share is 0
        return tau / (m * np.exp(np.asarray(restart_time, float) / m) * np.expm1((tau + delta) / m))
