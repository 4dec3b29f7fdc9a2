"""Questions to the packet model as lists of cases: who recovers from failures, how many paths spraying needs.

They are asked on a small network, two tiers with full bisection: slowdowns hardly change with its size. What is stored
in data/derived is read; what is not is simulated.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts import files
from railcore.facts.units import MB, Gbps
from railcore.network.transport.cases import RANKS, TransportCase, run_case, runs_of_cases
from railcore.network.transport.fabric import PathFabric, hop_latencies
from railcore.network.transport.flows import Flows
from railcore.network.transport.hashing import ecmp_paths
from railcore.network.transport.optimum import Framing, optimum_s, single_flow_s
from railcore.network.transport.packets import simulate_packets
from railcore.network.transport.sharing import fair_sharing, ideal_spraying
from railcore.network.transport.transports import Transport

STORED = "derived/transport_runs.csv"
LONG_RUN = 1e7  # packet hops, about a second
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
LONG_BUFFER = "buffer_packets=50000"  # packets of two latencies of such a link, and more
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
    """A permutation on each of `NETWORKS`; on planes also transfers of several flows, for those of one path."""
    draws = {"seed": range(seeds)}
    plain = [case for each in NETWORKS.values() for case in _small_grid(**each, transport=EVERY, **draws)]
    return plain + _small_grid(**NETWORKS["4 planes"], transport=SINGLE_PATH, subflows=[4, 16], **draws)


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

    No link is ever told to pause; but a lossless switch needs room for what would still come: `LONG_BUFFER`.
    """
    shape = {"hosts": 16, "hosts_per_leaf": 1, "link_Bps": 100 * Gbps, "flow_bytes": 300 * MB}
    short_s, long_s = LATENCIES_S.values()
    near = case_grid(transport=LOSSY, link_latency_s=short_s, **shape, loss=losses, seed=range(seeds))
    far = {"link_latency_s": long_s, **shape, "loss": losses, "seed": range(seeds)}
    return near + case_grid(transport=LOSSY[:-1], **far) + case_grid(transport=LOSSY[-1], options=LONG_BUFFER, **far)


STUDIES: dict[str, Callable[[], list[TransportCase]]] = {
    "networks": network_cases,
    "failures": failure_cases,
    "paths": path_cases,
    "load map": load_map_cases,
    "patterns": pattern_cases,
    "loss": loss_cases,
}


def case_optimum_s(case: TransportCase) -> float:
    """When the last flow of a case can be complete at best, from links and sizes alone [s]."""
    return optimum_s(case.fabric(), case.flows(), case.framing)


def study_runs(cases: Sequence[TransportCase], progress: Callable[[str], Any] | None = print) -> pd.DataFrame:
    """Runs of cases with their optimum: stored ones as they are, others simulated now.

    progress: told before every case of over `LONG_RUN` (up to 40 s each), and before each twentieth. Columns of
    `run_case`; optimum_s, and slowdown: last_s over it.
    """
    stored = pd.read_csv(files.data(STORED), dtype={"options": str}).fillna({"options": ""})
    names = list(asdict(cases[0]))
    known = set(map(tuple, stored[names].to_numpy().tolist()))
    new = [case for case in dict.fromkeys(cases) if tuple(asdict(case).values()) not in known]
    rows = []
    for place, case in enumerate(new, start=1):
        if progress and (case.packet_hops > LONG_RUN or place % 20 == 1):
            progress(f"{place} of {len(new)}: {case.transport}, {case.hosts:,} hosts, seed {case.seed}")
        rows.append(run_case(case))
    runs = runs_of_cases(cases, pd.concat([stored, pd.DataFrame(rows)], ignore_index=True) if rows else stored)
    shared = [replace(case, transport="NDP", options="") for case in cases]  # transports share an optimum
    best = {case: case_optimum_s(case) for case in dict.fromkeys(shared)}
    optimum = np.array([best[case] for case in shared])
    return runs.assign(optimum_s=optimum, slowdown=runs["last_s"] / optimum)


def completed_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """Share of the flows that are complete over time: columns transport, seed, share, time_s."""
    long = runs.melt(["transport", "seed"], list(RANKS), "share", "time_s")
    return long.assign(share=long["share"].map(RANKS) / 100).sort_values(["transport", "seed", "share"], kind="stable")


def flow_level(
    fabric: PathFabric,
    flows: Flows,
    transport: Transport,
    framing: Framing,
    seed: int,
    loss: float = 0.0,
    converged: bool = True,
) -> SimpleNamespace:
    """What `simulate_packets` gives, by fair sharing: on single paths (flowlets too), or ideal spraying.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    transport
        Its balancing alone counts.
    framing, seed, loss, converged
        As there; there are no losses.

    Returns
    -------
    completion_s [flows], and no tallies.
    """
    if transport.balancing in ("single path", "flowlets"):
        run = fair_sharing(fabric, flows, ecmp_paths(fabric, flows, seed, converged), framing)
    else:
        run = ideal_spraying(fabric, flows, framing=framing)
    return SimpleNamespace(completion_s=run.completion_s, tallies={})


def flow_level_runs(cases: Sequence[TransportCase]) -> pd.DataFrame:
    """Rows of `run_case` from the flow-level model."""
    return pd.DataFrame([run_case(case, flow_level) for case in cases])


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
    per_leaf = 2 ** round(np.log2(hosts / 2) / 2)
    return TransportCase(transport, hosts, per_leaf, link_Bps, flow_bytes, load=load, **hop_latencies(link_Bps))


def explored_flow_times(case: TransportCase, progress: Callable[[str], Any] | None = None) -> pd.DataFrame:
    """Completion times of a case's flows by model: columns model, share (of the flows that are complete), time_s.

    The optimum, the flow-level model's single path and spraying; and the packet model's, where `progress` is given.
    """
    fabric, flows, framing = case.fabric(), case.flows(), case.framing
    path = ecmp_paths(fabric, flows, case.seed)
    times = {
        "optimum of each flow": single_flow_s(fabric, flows, framing),
        "all paths, fair sharing": ideal_spraying(fabric, flows, framing=framing).completion_s,
        "one path a flow, fair sharing": fair_sharing(fabric, flows, path, framing).completion_s,
    }
    if progress:
        hops = case.packet_hops / 1e6
        progress(f"{case.transport}: {hops:,.0f} million packet hops; a second of one core does about 10 million")
        run = simulate_packets(fabric, flows, case.preset, framing, case.seed)
        times[f"{case.transport}, packets"] = run.completion_s
    share = np.arange(1, len(flows) + 1) / len(flows)
    parts = [pd.DataFrame({"model": name, "share": share, "time_s": np.sort(each)}) for name, each in times.items()]
    return pd.concat(parts, ignore_index=True)
