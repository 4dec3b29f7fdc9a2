"""Questions to the packet model as lists of cases: who recovers from failures, how many paths spraying needs.

They are asked on a small network, two tiers with full bisection: slowdowns hardly change with its size.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.transport.cases import TransportCase
from railcore.engines.transport.fabric import PathFabric, hop_latencies
from railcore.engines.transport.flows import Flows, split_flows
from railcore.engines.transport.hashing import ecmp_paths, most_loaded_links
from railcore.engines.transport.sharing import fair_sharing, ideal_spraying
from railcore.facts.checks import Floats
from railcore.facts.units import MB, Gbps, significant

SMALL = {"hosts": 1024, "hosts_per_leaf": 32, "link_Bps": 100 * Gbps, "flow_bytes": 2 * MB}
SINGLE_PATH = ("RoCEv2", "RoCEv2 with DCQCN", "single path")  # a flow keeps its path, whatever becomes of it
EVERY = ("spraying", "NDP", "UEC NSCC", "UEC RCCC", "flowlets", *SINGLE_PATH)
LINKS = {  # share of the cables over the leaves, their speed as a share, whether routing knows
    "all links up": (0.0, 0, 0.0, 1),
    "a tenth at half speed": (0.1, 0, 0.5, 1),
    "one spine at half speed": (0.0, 1, 0.5, 1),
    "a tenth dead, withdrawn": (0.1, 0, 0.0, 1),
    "a tenth dead, not yet withdrawn": (0.1, 0, 0.0, 0),
}
MOST_SHARED = 4  # flows of a transfer up to which fair sharing is computed: its time grows with their square


def case_grid(**values: Any) -> list[TransportCase]:
    """Every combination of values of a case's fields, each given once or in a list; the last named changes fastest."""
    lists = [value if isinstance(value, list | tuple | range) else [value] for value in values.values()]
    return [TransportCase(**dict(zip(values, each, strict=True))) for each in product(*lists)]


def _small_grid(**values: Any) -> list[TransportCase]:
    """`case_grid` on the small network."""
    return case_grid(**SMALL | hop_latencies(SMALL["link_Bps"]) | values)


def failure_cases() -> list[TransportCase]:
    """A tenth of the cables over the leaves slow, dead, and dead without routing that knows: `LINKS`.

    Where it does not know, those of `SINGLE_PATH` are not simulated: a single path over a dead link stays dead.
    """
    ways = [(name, "") for name in EVERY]
    ways[3:3] = [("UEC NSCC", f"balancing={each}") for each in ("oblivious", "bitmap", "reps")]
    return [
        case
        for degraded, spines, rate, knows in LINKS.values()
        for name, options in ways
        if knows or name not in SINGLE_PATH
        for case in _small_grid(
            transport=name,
            options=options,
            degraded=degraded,
            slow_spines=spines,
            degraded_rate=rate,
            converged=knows,
            seed=range(5),
        )
    ]


def recovery_slowdowns(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of `failure_cases` with columns way, links (of `LINKS`) and slowdown over the optimum with all links up.

    Those of `SINGLE_PATH` have an infinite one where routing does not know: a row for each.
    """
    names = {conditions: name for name, conditions in LINKS.items()}
    ideal_s = float(runs.loc[(runs["degraded"] == 0) & (runs["slow_spines"] == 0), "optimum_s"].min())
    links = [names[key] for key in runs[["degraded", "slow_spines", "degraded_rate", "converged"]].itertuples(index=False, name=None)]
    option = runs["options"].str.removeprefix("balancing=").str.replace("reps", "REPS")
    way = runs["transport"] + (", " + option).where(option != "", "")
    found = runs.assign(links=links, slowdown=runs["last_s"] / ideal_s, way=way)
    stuck = pd.DataFrame({"way": SINGLE_PATH, "transport": SINGLE_PATH, "links": list(LINKS)[-1], "slowdown": np.inf})
    return pd.concat([found, stuck], ignore_index=True)


def path_cases() -> list[TransportCase]:
    """Ultra Ethernet's window over 1 to 256 entropies, taken in turn, without bad ones, and recycled."""
    counts = [2**power for power in range(9)]
    ways = [f"balancing={way} entropies={count}" for way in ("oblivious", "bitmap", "reps") for count in counts]
    return _small_grid(transport="UEC NSCC", options=ways, seed=range(3))


def load_map_cases(
    loads: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 1.0), ratios: Sequence[float] = (1, 2, 4, 8)
) -> list[TransportCase]:
    """Single path and spraying over the share of hosts that send and the leaves' oversubscription."""
    shape = {"oversubscription": ratios, "load": loads, "seed": range(3)}
    return _small_grid(transport=["single path", "UEC NSCC"], **shape)


STUDIES: dict[str, Callable[[], list[TransportCase]]] = {
    "failures": failure_cases,
    "paths": path_cases,
    "load map": load_map_cases,
}


def split_transfers_s(fabric: PathFabric, flows: Flows, parts: int, seed: int) -> Floats:
    """Completion times by fair sharing of transfers that are split into equal flows, each on one path by ECMP [s].

    Parameters
    ----------
    fabric, flows
        Where the transfers run, and the transfers, whole.
    parts
        Flows that each is split into; a transfer is complete when the last of them is.
    seed
        Of the hash.

    Returns
    -------
    Of each transfer, shape [flows].
    """
    each = split_flows(flows, parts)
    return fair_sharing(fabric, each, ecmp_paths(fabric, each, seed)).completion_s.reshape(-1, parts).max(1)


def subflow_slowdowns(fabric: PathFabric, flows: Sequence[Flows], subflows: Sequence[int]) -> pd.DataFrame:
    """The last of transfers that are split for ECMP, over one alone.

    fabric, flows: where they run; one draw each, whose place is the seed of the hash. subflows: of a transfer.
    Columns model ("most loaded link", or "fair sharing" up to `MOST_SHARED` subflows), subflows, seed, slowdown.
    """
    rows = []
    for seed, each in enumerate(flows):
        alone = ideal_spraying(fabric, each).alone_s
        for parts in subflows:
            loaded = most_loaded_links(fabric, each, 1, seed, parts)["slowdown"].iloc[0]
            rows.append(("most loaded link", parts, seed, loaded))
            if parts <= MOST_SHARED:
                slow = split_transfers_s(fabric, each, parts, seed) / alone
                rows.append(("fair sharing", parts, seed, slow.max()))
    return pd.DataFrame(rows, columns=["model", "subflows", "seed", "slowdown"])


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
