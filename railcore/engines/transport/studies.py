"""Questions to the packet model as lists of cases: who recovers from failures, how many paths spraying needs.

They are asked on a small network, two tiers with full bisection: slowdowns hardly change with its size.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.transport.cases import TransportCase
from railcore.engines.transport.fabric import hop_latencies
from railcore.engines.transport.optimum import Framing
from railcore.facts.units import MB, Gbps, significant

SMALL = {"hosts": 1024, "hosts_per_leaf": 32, "link_Bps": 100 * Gbps, "flow_bytes": 2 * MB}
NETWORKS: dict[str, dict[str, Any]] = {  # four planes: four links a NIC, and four times as much to send
    "two tiers": {},
    "three tiers": {"tiers": 3, "hosts_per_leaf": 8},
    "8 rails": {"rails": 8, "hosts_per_leaf": 16},
    "4 planes": {"planes": 4, "flow_bytes": 4 * SMALL["flow_bytes"]},
}
SINGLE_PATH = ("RoCEv2", "RoCEv2 with DCQCN", "single path")  # a flow keeps its path, whatever becomes of it
EVERY = ("spraying", "NDP", "UEC NSCC", "UEC RCCC", "flowlets", *SINGLE_PATH)
LATENCIES_S = {"datacenter, 8 us": 1e-6, "coast to coast, 60 ms": 7.5e-3}  # of one of four links, by round trip
LOSSY = ("UEC NSCC", "NDP", "single path", "RoCEv2")
LINKS = {  # share of the cables over the leaves, their speed as a share, whether routing knows
    "all links up": (0.0, 0.0, 1),
    "a tenth at half speed": (0.1, 0.5, 1),
    "a tenth dead, withdrawn": (0.1, 0.0, 1),
    "a tenth dead, not yet withdrawn": (0.1, 0.0, 0),
}


def case_grid(**values: Any) -> list[TransportCase]:
    """Every combination of values of a case's fields, each given once or in a list; the last named changes fastest."""
    lists = [value if isinstance(value, list | tuple | range) else [value] for value in values.values()]
    return [TransportCase(**dict(zip(values, each, strict=True))) for each in product(*lists)]


def _small_grid(**values: Any) -> list[TransportCase]:
    """`case_grid` on the small network."""
    return case_grid(**SMALL | hop_latencies(SMALL["link_Bps"]) | values)


def network_cases(seeds: int = 3) -> list[TransportCase]:
    """A permutation on each of `NETWORKS`; on planes also transfers of several flows, each on one path."""
    draws = {"seed": range(seeds)}
    plain = [case for each in NETWORKS.values() for case in _small_grid(**each, transport=EVERY, **draws)]
    return plain + _small_grid(**NETWORKS["4 planes"], transport=["single path", "RoCEv2"], subflows=[4, 16], **draws)


def slowdowns_by_network(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of `network_cases` with columns network (of `NETWORKS`) and way: transport, and flows of a transfer."""
    network = np.select([runs["tiers"] == 3, runs["rails"] > 0, runs["planes"] > 1], list(NETWORKS)[1:], "two tiers")
    split = ", " + runs["subflows"].astype(str) + " flows"
    return runs.assign(network=network, way=runs["transport"] + split.where(runs["subflows"] > 1, ""))


def failure_cases(seeds: int = 5) -> list[TransportCase]:
    """A tenth of the cables over the leaves slow, dead, and dead without routing that knows: `LINKS`.

    Where it does not know, those of `SINGLE_PATH` are not simulated: a single path over a dead link stays dead.
    """
    ways = [(name, "") for name in EVERY]
    ways[3:3] = [("UEC NSCC", f"balancing={each}") for each in ("oblivious", "bitmap", "reps")]
    return [
        case
        for degraded, rate, knows in LINKS.values()
        for name, options in ways
        if knows or name not in SINGLE_PATH
        for case in _small_grid(
            transport=name,
            options=options,
            degraded=degraded,
            degraded_rate=rate,
            converged=knows,
            seed=range(seeds),
        )
    ]


def recovery_slowdowns(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of `failure_cases` with columns way, links (of `LINKS`) and slowdown over the optimum with all links up.

    Those of `SINGLE_PATH` have an infinite one where routing does not know: a row for each.
    """
    names = {conditions: name for name, conditions in LINKS.items()}
    ideal_s = float(runs.loc[runs["degraded"] == 0, "optimum_s"].min())
    links = [names[key] for key in runs[["degraded", "degraded_rate", "converged"]].itertuples(index=False, name=None)]
    option = runs["options"].str.removeprefix("balancing=").str.replace("reps", "REPS")
    way = runs["transport"] + (", " + option).where(option != "", "")
    found = runs.assign(links=links, slowdown=runs["last_s"] / ideal_s, way=way)
    stuck = pd.DataFrame({"way": SINGLE_PATH, "transport": SINGLE_PATH, "links": list(LINKS)[-1], "slowdown": np.inf})
    return pd.concat([found, stuck], ignore_index=True)


def path_cases(paths: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128, 256), seeds: int = 3) -> list[TransportCase]:
    """Ultra Ethernet's window over so many entropies, taken in turn, without bad ones, and recycled."""
    ways = [f"balancing={way} entropies={count}" for way in ("oblivious", "bitmap", "reps") for count in paths]
    return _small_grid(transport="UEC NSCC", options=ways, seed=range(seeds))


def load_map_cases(
    loads: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 1.0), ratios: Sequence[float] = (1, 2, 4, 8), seeds: int = 3
) -> list[TransportCase]:
    """Single path and spraying over the share of hosts that send and the leaves' oversubscription."""
    shape = {"oversubscription": ratios, "load": loads, "seed": range(seeds)}
    return _small_grid(transport=["single path", "UEC NSCC"], **shape)


def pattern_cases(transports: Sequence[str] = EVERY, seeds: int = 3) -> list[TransportCase]:
    """Incasts of 8 and 64 senders, and an all-to-all of experts in groups of 64 hosts."""
    small = {"transport": transports, "flow_bytes": 128e3, "seed": range(seeds)}
    incasts = _small_grid(**small, pattern="incast", members=[8, 64])
    return incasts + _small_grid(**small, pattern="all to all", members=64)


def loss_cases(losses: Sequence[float] = (0.0, 1e-6, 1e-5, 1e-4), seeds: int = 3) -> list[TransportCase]:
    """300 MB over links that lose packets at random, short and long; every flow has a path of its own.

    No link is ever told to pause; but a lossless switch needs room for what would still come, so RoCEv2 is given it.
    """
    shape = {"hosts": 16, "hosts_per_leaf": 1, "link_Bps": 100 * Gbps, "flow_bytes": 300 * MB}
    short_s, long_s = LATENCIES_S.values()
    room = f"buffer_packets={round(3 * long_s * 100 * Gbps / Framing().packet_bytes)}"  # of three latencies of a link
    near = case_grid(transport=LOSSY, link_latency_s=short_s, **shape, loss=losses, seed=range(seeds))
    far = {"link_latency_s": long_s, **shape, "loss": losses, "seed": range(seeds)}
    return near + case_grid(transport=LOSSY[:-1], **far) + case_grid(transport=LOSSY[-1], options=room, **far)


STUDIES: dict[str, Callable[[], list[TransportCase]]] = {
    "networks": network_cases,
    "failures": failure_cases,
    "paths": path_cases,
    "load map": load_map_cases,
    "patterns": pattern_cases,
    "loss": loss_cases,
}


def explored_case(transport: str, hosts: int, load: float, flow_bytes: float, link_Bps: float) -> TransportCase:
    """A permutation on two tiers at full bisection, with leaves of the square root of half of the hosts, or near it.

    Parameters
    ----------
    transport
        Of `transports`.
    hosts, load
        All hosts, and the share that sends.
    flow_bytes, link_Bps
        Size of a flow [bytes]; speed of every link, one direction [bytes/s].

    Returns
    -------
    The case.
    """
    per_leaf = 2 ** round(significant(np.log2(hosts / 2) / 2))
    return TransportCase(transport, hosts, per_leaf, link_Bps, flow_bytes, load=load, **hop_latencies(link_Bps))
