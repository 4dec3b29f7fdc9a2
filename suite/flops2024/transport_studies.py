"""Questions to the packet model as lists of cases: who recovers from failures, how many paths spraying needs.

They are asked on a small network, two tiers with full bisection: slowdowns hardly change with its size.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.checks import Floats
from railcore.catalog.units import MB, Gbps, number, significant
from railcore.transport.fabric import PathFabric, hop_latencies
from railcore.transport.flows import Flows, split_flows
from railcore.transport.hashing import ecmp_paths, most_loaded_links
from railcore.transport.optimum import single_flow_s
from railcore.transport.packets import simulate_packets
from railcore.transport.sharing import fair_sharing, ideal_spraying
from suite.flops2024.transport_runs import case_grid, case_inputs, packet_hops

SMALL = {"hosts": 1024, "hosts_per_leaf": 32, "link_Bps": 100 * Gbps, "flow_bytes": 2 * MB}
SINGLE_PATH = ("RoCEv2", "RoCEv2 with DCQCN", "single path")  # a flow keeps its path, whatever becomes of it
EVERY = ("spraying", "NDP", "UEC NSCC", "UEC RCCC", "flowlets", *SINGLE_PATH)
SPRAYS = ("oblivious", "bitmap", "reps")  # ways of NSCC, beside the preset's
FULL = {"degraded": 0.0, "slow_spines": 0, "degraded_rate": 0.0, "converged": True}
LINKS: dict[str, dict[str, Any]] = {  # what differs from `FULL`
    "all links up": {},
    "a tenth at half speed": {"degraded": 0.1, "degraded_rate": 0.5},
    "one spine at half speed": {"slow_spines": 1, "degraded_rate": 0.5},
    "a tenth dead, withdrawn": {"degraded": 0.1},
    "a tenth dead, not yet withdrawn": {"degraded": 0.1, "converged": False},
}
MOST_SHARED = 4  # flows of a transfer up to which fair sharing is computed: its time grows with their square


def _small_grid(**values: Any) -> list[dict[str, Any]]:
    """`case_grid` on the small network."""
    return case_grid(**SMALL | hop_latencies(SMALL["link_Bps"]) | values)


def failure_cases() -> list[dict[str, Any]]:
    """Cables over the leaves slow, dead, and dead without routing that knows: `LINKS`; and all of one spine slow.

    Where routing does not know, those of `SINGLE_PATH` are not simulated: a single path over a dead link stays dead.
    """
    ways: list[dict[str, Any]] = [{"transport": name} for name in EVERY]
    ways[3:3] = [{"transport": "UEC NSCC", "balancing": spray} for spray in SPRAYS]
    return [
        case
        for links in LINKS.values()
        for way in ways
        if links.get("converged", True) or way["transport"] not in SINGLE_PATH
        for case in _small_grid(**way, **links, seed=range(5))
    ]


def recovery_slowdowns(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of `failure_cases` with columns way, links (of `LINKS`) and slowdown over the optimum with all links up.

    Those of `SINGLE_PATH` have an infinite one where routing does not know: a row for each.
    """
    columns = list(FULL)
    names = {tuple({**FULL, **links}.values()): name for name, links in LINKS.items()}
    links = [names[key] for key in runs[columns].itertuples(index=False, name=None)]
    ideal_s = float(runs.loc[[name == next(iter(LINKS)) for name in links], "optimum_s"].min())
    way = runs["transport"] + (", " + runs["balancing"].replace("reps", "REPS")).fillna("")
    rows = runs.assign(links=links, slowdown=runs["last_s"] / ideal_s, way=way)
    stuck = pd.DataFrame({"way": SINGLE_PATH, "transport": SINGLE_PATH, "links": list(LINKS)[-1], "slowdown": np.inf})
    return pd.concat([rows, stuck], ignore_index=True)


def path_cases() -> list[dict[str, Any]]:
    """Ultra Ethernet's window over 1 to 256 entropies, taken in turn, without bad ones, and recycled."""
    counts = [2**power for power in range(9)]
    return _small_grid(transport="UEC NSCC", balancing=SPRAYS, entropies=counts, seed=range(3))


def load_map_cases(
    loads: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 1.0), ratios: Sequence[float] = (1, 2, 4, 8)
) -> list[dict[str, Any]]:
    """Single path and spraying over the share of hosts that send and the leaves' oversubscription."""
    shape = {"oversubscription": list(ratios), "load": list(loads), "seed": range(3)}
    return _small_grid(transport=["single path", "UEC NSCC"], **shape)


STUDIES: dict[str, Callable[[], list[dict[str, Any]]]] = {
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
    times = split_flows(flows, parts)
    return fair_sharing(fabric, times, ecmp_paths(fabric, times, seed)).completion_s.reshape(-1, parts).max(1)


def subflow_slowdowns(fabric: PathFabric, flows: Sequence[Flows], subflows: Sequence[int]) -> pd.DataFrame:
    """The last of transfers that are split for ECMP, over one alone.

    fabric, flows: where they run; one draw each, whose place is the seed of the hash. subflows: of a transfer.
    Columns model ("most loaded link", or "fair sharing" up to `MOST_SHARED` subflows), subflows, seed, slowdown.
    """
    rows = []
    for seed, flow in enumerate(flows):
        alone = ideal_spraying(fabric, flow).alone_s
        for parts in subflows:
            loaded = most_loaded_links(fabric, flow, 1, seed, parts)["slowdown"].iloc[0]
            rows.append(("most loaded link", parts, seed, loaded))
            if parts <= MOST_SHARED:
                slow = split_transfers_s(fabric, flow, parts, seed) / alone
                rows.append(("fair sharing", parts, seed, slow.max()))
    return pd.DataFrame(rows, columns=["model", "subflows", "seed", "slowdown"])


def explored_case(transport: str, hosts: int, load: float, flow_bytes: float, link_Bps: float) -> dict[str, Any]:
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
    shape = {"hosts": hosts, "hosts_per_leaf": 2 ** round(significant(np.log2(hosts / 2) / 2)), "link_Bps": link_Bps}
    return {"transport": transport, **shape, "flow_bytes": flow_bytes, "load": load, **hop_latencies(link_Bps)}


def explored_flow_times(progress: Callable[[str], Any] | None = None, **chosen: Any) -> pd.DataFrame:
    """Completion times of an `explored_case`'s flows by model: columns model, share (of the flows), time_s.

    The optimum, the flow-level model's single path and spraying; and the packet model's, where `progress` is given.
    """
    case = explored_case(**chosen)
    inputs = case_inputs(case)
    fabric, flows, framing = inputs["fabric"], inputs["flows"], inputs["framing"]
    path = ecmp_paths(fabric, flows, inputs["seed"])
    times = {
        "optimum of each flow": single_flow_s(fabric, flows, framing),
        "all paths, fair sharing": ideal_spraying(fabric, flows, framing).completion_s,
        "one path a flow, fair sharing": fair_sharing(fabric, flows, path, framing).completion_s,
    }
    if progress:
        hops = packet_hops(case) / 1e6
        progress(
            f"{case['transport']}: {number(hops, 2)} million packet hops; a second of one core does about 20 million"
        )
        times[f"{case['transport']}, packets"] = simulate_packets(**inputs, progress=progress).completion_s
    share = np.arange(1, len(flows) + 1) / len(flows)
    parts = [
        pd.DataFrame({"model": name, "share": share, "time_s": np.sort(flow_times)})
        for name, flow_times in times.items()
    ]
    return pd.concat(parts, ignore_index=True)
