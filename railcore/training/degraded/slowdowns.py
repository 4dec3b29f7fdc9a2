"""Iteration time on the fabrics of `topology`: rail-only against rail-optimized, whole, with failed parts, restarted.

`wired` routes a job's flows on the graph and gives the share of its NICs' bandwidth that the job gets; iteration time
is then that with NICs of this share. Ranks fill HB domains (scale-up or NVLink domains) in their order.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.units import year
from railcore.network import reliability
from railcore.network.topology import RailFabric, faults, rail_only, rail_optimized
from railcore.network.topology.rails import rails_that_share
from railcore.training import traffic
from railcore.training.degraded.nic_loads import gpu_names, named_flows, nic_share, patterns, wired_loads
from railcore.training.iteration.critical_path import REASONS, iteration_times
from railcore.training.iteration.layer import MODERN, Runtime
from railcore.training.iteration.machine import Machine
from railcore.training.iteration.two_stage import TwoStage
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

Flows = Sequence["pd.DataFrame"]
HOST_GPUS = 8  # of the servers that the catalog's failure rate of a host was measured on


def rails_of(platform: str, gpus: int, radix: int) -> RailFabric:
    """The rail-only network of a cluster of a catalog platform, its HB domains and bandwidths from there."""
    box = catalog.item("platforms", platform)
    links = {"nic_Bps": box["nic_bandwidth"], "hb_Bps": box["hb_bandwidth"], "hb_switches": int(box["hb_switches"])}
    return rail_only(gpus, int(box["gpus"]), radix, **links)


def on_both(fabric: RailFabric) -> dict[str, RailFabric]:
    """The cluster of a fabric without a layer over its rails and with a full one, by name."""
    return {"rail-only": fabric.any_to_any(math.inf), "rail-optimized": fabric.any_to_any(1.0)}


def dense_slowdown(
    fabric: RailFabric,
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    runtime: Runtime = MODERN,
) -> "pd.DataFrame":
    """A job on the rail-only and on the rail-optimized network of a cluster, from the loads of their links.

    Columns fabric, busiest_link_s (all traffic of an iteration between domains over the busiest link of the network),
    hb_forwarded_bytes (that HB domains carry of it), nic_share (`wired.nic_share`), iteration_s, and slowdown: its
    iteration_s over that of rail-optimized, less 1.
    fabric: of strategy.gpus GPUs, wired one by one, some thousands at most; global_batch B [sequences].
    Raises ValueError for a fabric of another size, and as `Strategy.check`.
    """
    import pandas as pd

    _check_size(fabric, strategy)
    K, row, rows = fabric.hb_domain_size, strategy.columns(global_batch), []
    kinds = list(patterns(model, strategy, global_batch, K).values())
    whole = traffic.matrix(model, strategy, global_batch).entries()
    flows = named_flows(whole[whole["source"] // K != whole["target"] // K], K)
    for name, network in on_both(fabric).items():
        loads = wired_loads(network.graph(), flows)
        hb = loads["kind"] == "hb"
        times = {
            "busiest_link_s": loads.loc[~hb, "time_s"].max() if len(flows) else 0.0,
            "hb_forwarded_bytes": loads.loc[hb & loads["to"].str.contains("GPU"), "bytes"].sum(),
            "nic_share": (share := nic_share(network, kinds)),
            "iteration_s": _iteration(model, machine, network, row, runtime, share)[0],
        }
        rows.append({"fabric": name, **times})
    table = pd.DataFrame(rows)
    return table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[-1] - 1)


def _check_size(fabric: RailFabric, strategy: Strategy) -> None:
    if fabric.gpus != strategy.gpus:
        raise ValueError(f"fabric has {fabric.gpus} GPUs, the strategy takes {strategy.gpus}: make them equal")


def _iteration(model, machine, fabric, row, runtime, nic=1.0, hb=1.0) -> tuple[float, str]:
    """Iteration time [s] with shares of the NICs' and the HB interconnect's bandwidth, and what rules it out."""
    left = machine.on(fabric)
    left = replace(left, nic_Bps=left.nic_Bps * nic, hb_Bps=left.hb_Bps * hb)
    found = iteration_times(model, left, row, runtime)
    return found.total_s.item(), REASONS[found.reason.item()]


def degraded(
    fabric: RailFabric,
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    runtime: Runtime = MODERN,
) -> "pd.DataFrame":
    """What one failed part of each kind does to a job, a row for each way in which the job can go on.

    GPUs that fail or are cut off from NICs and HB domain both ("none", the first row, is the whole fabric): spare ones
    take over; or the job drops the replicas they were part of, and runs the batch with the rest, or so much less of it.
    A NIC without its rail: its traffic moves to other rails at both ends (`wired.moved`), alike to all or to one. A
    trunk or spine: its traffic takes the others. HB switches: the rest carry all, as a slower HB domain; without a rest
    its GPUs count as cut off.
    Columns fabric, fault, job, gpus_failed, gpus_idle (live ones that stand still), nics_cut, nic_share and hb_share
    (of bandwidth that the job gets), data (replicas), global_batch, iteration_s, tokens_share (tokens/s over the whole
    fabric's), limit ("feasible", or the first thing that rules the strategy out).
    Arguments and errors are those of `dense_slowdown`. Source: railonly2025, Fault Tolerance Properties.
    """
    _check_size(fabric, strategy)
    kinds = list(patterns(model, strategy, global_batch, fabric.hb_domain_size).values())
    rows = []
    for found, lost, ways in _cases(fabric, kinds):
        for way in [*ways, *(_without(strategy, global_batch, lost) if lost else [])]:
            row = {"nic_share": ways[0]["nic_share"], "hb_share": 1.0, "data": strategy.data}
            row |= {"global_batch": global_batch} | way
            time, limit = math.inf, "no replica left"
            if row["data"]:
                parts = _padded(strategy, row["global_batch"], row["data"])
                time, limit = _iteration(model, machine, fabric, parts, runtime, row["nic_share"], row["hb_share"])
            stopped = fabric.gpus // strategy.data * (strategy.data - row["data"])
            rows.append(found | row | _outcome(found, stopped, time, row["global_batch"]) | {"limit": limit})
    return _compared(fabric, rows, "data global_batch", "limit")


def two_stage_degraded(fabric: RailFabric, model: TwoStage, batch_tokens: float) -> "pd.DataFrame":
    """What one failed part of each kind does to iteration time by Eq. (1), a row for each way to go on.

    Rings of GPUs of equal rank are routed over the wired fabric, whose bandwidths count, not the model's. Where GPUs
    are lost, spare ones take over, or their HB domain is left out: N - K GPUs run the batch. N_M stays as it was.
    Columns are those of `degraded`, with gpus (that compute) in place of data, global_batch and limit.
    batch_tokens b [tokens]. Source: railonly2023, Eq. (1); railonly2025, Fault Tolerance Properties.
    """
    import pandas as pd

    n, k, ranks = fabric.gpus, fabric.hb_domain_size, np.arange(fabric.gpus)
    if n % k:
        raise ValueError(f"fabric has {n} GPUs: give whole HB domains of {k}")
    ring = pd.DataFrame({"source": ranks, "target": (ranks + k) % n, "bytes": 1.0})
    group, rows = model.group_size(n, batch_tokens, k), []
    for found, lost, ways in _cases(fabric, [named_flows(ring, k)] if n > k else []):
        left = n - k * np.unique(np.asarray(lost, int) // k).size
        for way in [*ways, *([{"job": "HB domain left out, whole batch", "gpus": left}] if lost else [])]:
            row = {"nic_share": ways[0]["nic_share"], "hb_share": 1.0, "gpus": n} | way
            rates = {"nic_Bps": fabric.nic_Bps * row["nic_share"], "hb_Bps": fabric.hb_Bps * row["hb_share"]}
            time = math.inf
            if row["gpus"]:
                time = float(replace(model, **rates).iteration(row["gpus"], k, batch_tokens, group).iteration_s)
            rows.append(found | row | _outcome(found, n - row["gpus"], time, batch_tokens))
    return _compared(fabric, rows, "gpus")


def _outcome(found: dict[str, Any], stopped: int, time: float, work: float) -> dict[str, float]:
    return {"gpus_idle": max(stopped - found["gpus_failed"], 0), "iteration_s": time, "tokens_share": work / time}


def _compared(fabric: RailFabric, rows: list[dict[str, Any]], scale: str, limit: str = "") -> "pd.DataFrame":
    import pandas as pd

    columns = (
        f"fabric fault job gpus_failed gpus_idle nics_cut nic_share hb_share {scale} iteration_s tokens_share {limit}"
    )
    table = pd.DataFrame(rows).assign(fabric=fabric.graph().name)[columns.split()]
    return table.assign(tokens_share=table["tokens_share"] / table["tokens_share"].iloc[0])


def _cases(fabric: RailFabric, kinds: Flows) -> Iterator[tuple[dict[str, Any], list[int], list[dict[str, Any]]]]:
    """Each fault as (`faults.effect`, ranks lost to the job, ways to go on with all GPUs), first the whole fabric."""
    graph, share = fabric.graph(), nic_share(fabric, kinds)
    whole = {"fault": "none", "gpus_failed": 0, "nics_cut": 0}
    yield whole, [], [{"job": "whole", "nic_share": share}]
    for found in faults.effects(fabric).to_dict("records"):
        fault, lost = found["fault"], _lost_ranks(fabric, graph, found["fault"])
        if lost:
            ways = [{"job": "spare GPUs take over", "nic_share": share}]
        elif fault == "HB switch":
            ways = [{"job": "HB domain on its other switches", "nic_share": share, "hb_share": found["hb_bandwidth"]}]
        elif not found["nics_cut"]:
            ways = [{"job": "rerouted over the other links", "nic_share": nic_share(fabric, kinds, fault)}]
        else:
            ways = [{"job": "moved to all other rails", "nic_share": nic_share(fabric, kinds, fault)}]
            ways += [{"job": "moved to one other rail", "nic_share": nic_share(fabric, kinds, fault, True)}]
        yield {name: found[name] for name in whole}, lost, ways


def _padded(strategy: Strategy, global_batch: int, data: int) -> dict[str, Any]:
    """The strategy on fewer replicas, with the micro-batches of each rounded up to what its schedule takes."""
    unit = strategy.pipeline if strategy.interleave > 1 else 1
    each = data * strategy.micro_batch * unit
    return strategy.columns(-(-global_batch // each) * each) | {"data": data}


def _lost_ranks(fabric: RailFabric, graph: "nx.Graph", fault: str) -> list[int]:
    """Ranks that a fault takes from the job: failed, cut off from most others, or without an HB domain they had."""
    import networkx as nx

    after = faults.fail(graph, fault)
    most: set[str] = max(nx.connected_components(after), key=len, default=set())
    lost = []
    for rank, name in enumerate(gpu_names(range(fabric.gpus), fabric.hb_domain_size)):
        if name not in most or (fabric.hb_domain_size > 1 and not faults.bandwidth(after, name, ("hb",))):
            lost.append(rank)
    return lost


def _without(strategy: Strategy, global_batch: int, lost: list[int]) -> Iterator[dict[str, Any]]:
    """Ways to go on without some ranks."""
    each = strategy.expert // math.gcd(strategy.expert, strategy.context)  # replicas that share experts go together
    data = strategy.data - each * np.unique(strategy.coordinates(lost)["data"] // each).size
    yield {"job": "replicas dropped, whole batch", "data": data}
    yield {"job": "replicas dropped, less batch", "data": data, "global_batch": global_batch // strategy.data * data}


def beside(tables: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of `degraded` of several fabrics side by side, a row for each fault and job.

    Columns fault, job, then nics_cut, nic_share, iteration_s and tokens_share of each fabric ("nic_share, rail-only"),
    NaN where it has no such part.
    """
    shown = ["nics_cut", "nic_share", "iteration_s", "tokens_share"]
    keys = tables[["fault", "job"]].drop_duplicates()
    wide = tables.pivot(index=["fault", "job"], columns="fabric", values=shown)
    wide.columns = [f"{name}, {fabric}" for name, fabric in wide.columns]
    return keys.merge(wide.reset_index(), how="left")


def goodput_of_training(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    gpus: ArrayLike,
    global_batch: ArrayLike,
    radix: int,
    platform: str,
    checkpoint_time: float | None = None,
    restart_time: float | None = None,
    rates: Sequence[str] = ("low", "value", "high"),
    rate_factor: float = 1.0,
    runtime: Runtime = MODERN,
) -> "pd.DataFrame":
    """Tokens per second that a job keeps when failures stop it, on rail-only and rail-optimized, by GPUs of a cluster.

    A failure costs the work since the last checkpoint and a restart, on spare GPUs; M = year / events, checkpoints
    after `reliability.checkpoint_interval`, tokens/s = `reliability.goodput` x B s / T.
    stops: "what cuts GPUs off" counts GPUs, NICs, HB switches, hosts, software, and of the network host links and
    tier-1 switches; "every part" all of the network.
    gpus, global_batch: broadcast against each other; the strategy's d becomes gpus / (t c p). radix: of the switches.
    platform: of the catalog, for its HB switches; K is the machine's. checkpoint_time, restart_time [s]: by default
    the catalog's for a job; rates: "low", "value", "high" of the failure rates; rate_factor: times these.
    Columns gpus, fabric, stops, rates, events_per_year, mtbf_s, checkpoint_interval_s, goodput, iteration_s,
    tokens_per_s, effective_tokens_per_s, limit. Raises ValueError for GPUs that do not divide by t c p, and for times
    and a factor that are not positive.
    """
    import pandas as pd

    if not 0 < rate_factor < math.inf:
        raise ValueError(f"rate_factor is {rate_factor!r}: give a positive number, 1 for the catalog's rates")
    job = catalog.item("failure_rates", "job")
    saving = job["checkpoint_time"] if checkpoint_time is None else checkpoint_time
    restart = job["restart_time"] if restart_time is None else restart_time
    counts, batches = (array.ravel() for array in np.broadcast_arrays(np.asarray(gpus), np.asarray(global_batch)))
    ranks = strategy.gpus // strategy.data
    if np.any(counts % ranks) or np.any(counts < ranks):
        raise ValueError(f"gpus is {gpus!r}: give multiples of tensor x context x pipeline, {ranks}")
    found = iteration_times(
        model, machine, {**strategy.columns(0), "global_batch": batches, "data": counts // ranks}, runtime
    )
    tables = []
    for i, n in enumerate(counts.tolist()):
        events = interruptions(n, machine.hb_domain_size, radix, platform, rates)
        events["events_per_year"] *= rate_factor
        tokens = float(batches[i] * model.sequence_length / found.total_s[i])
        done = {"gpus": n, "iteration_s": found.total_s[i], "tokens_per_s": tokens, "limit": REASONS[found.reason[i]]}
        tables.append(events.assign(**done))
    table = pd.concat(tables, ignore_index=True)
    mtbf = year / table["events_per_year"].to_numpy()
    interval, share = reliability.checkpoint_interval(mtbf, saving), reliability.goodput(mtbf, saving, restart)
    table = table.assign(mtbf_s=mtbf, checkpoint_interval_s=interval, goodput=share)
    table["effective_tokens_per_s"] = table["tokens_per_s"] * share
    columns = "gpus fabric stops rates events_per_year mtbf_s checkpoint_interval_s goodput iteration_s tokens_per_s"
    return table[[*columns.split(), "effective_tokens_per_s", "limit"]]


def interruptions(
    gpus: int, hb_domain_size: int, radix: int, platform: str, rates: Sequence[str] = ("low", "value", "high")
) -> "pd.DataFrame":
    """Failures a year that stop a job on all GPUs of a cluster: columns fabric, stops, rates, events_per_year.

    Arguments as in `goodput_of_training`; rails that are less than a switch share one in rail-only.
    """
    import pandas as pd

    hb, share = catalog.item("platforms", platform), int(rails_that_share(gpus, hb_domain_size, radix))
    job, rows = catalog.item("failure_rates", "job").row("software_failure_rate"), []
    fabrics = {
        "rail-only": rail_only(gpus, hb_domain_size, radix, rails_per_switch=share, hb_switches=hb["hb_switches"]),
        "rail-optimized": rail_optimized(gpus, hb_domain_size, radix, hb_switches=hb["hb_switches"]),
    }
    for name, fabric in fabrics.items():
        every = reliability.parts_at_risk(fabric, int(hb["hb_switch_parts"])) | {"host": -(-gpus // HOST_GPUS)}
        near = {"switch": 0, "link": 0, "transceiver": 0}
        if fabric.tiers and fabric.planes == 1:
            near = {"switch": int(fabric.parts.switches_by_tier[0]), "link": gpus, "transceiver": 2 * gpus}
        for stops, counts in (("what cuts GPUs off", every | near), ("every part", every)):
            for rate in rates:
                parts = reliability.expected_failures(counts, dict.fromkeys(counts, 0.0), rate)
                events = parts["events_per_year"].sum() + gpus * getattr(job, rate) * year
                rows.append((name, stops, rate, events))
    return pd.DataFrame(rows, columns=["fabric", "stops", "rates", "events_per_year"])


def moe_iteration(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    hb_domain_sizes: Sequence[int],
    oversubscriptions: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
    runtime: Runtime = MODERN,
) -> "pd.DataFrame":
    """Iteration time of a mixture of experts by HB domain size and by the way tokens take to their experts.

    Rows for each size: direct over an any-to-any layer of each oversubscription (1 is rail-optimized), and rail-only
    with two hops, pipelined and in turn (oversubscription infinite). Columns hb_domain_size, way, oversubscription,
    expert_s (on the critical path), expert_link_s (a rank's links), iteration_s, and slowdown: over direct with a full
    layer, less 1. Nothing but the all-to-all is taken to cross the layer.
    Raises ValueError for a model without experts and an HB domain larger than the cluster.
    """
    import pandas as pd

    if not model.experts:
        raise ValueError(f"model {model.name} has no experts: give a mixture of experts")
    if max(hb_domain_sizes) > strategy.gpus:
        raise ValueError(f"hb_domain_sizes is {hb_domain_sizes!r}: give at most the strategy's {strategy.gpus} GPUs")
    ways = [("direct", True, float(ratio)) for ratio in oversubscriptions]
    ways += [("two-hop", True, math.inf), ("two-hop", False, math.inf)]
    tables, row = [], strategy.columns(global_batch)
    for size in hb_domain_sizes:
        rows = []
        for routing, pipelined, ratio in [("direct", True, 1.0), *ways]:
            options: dict[str, Any] = {"routing": routing, "pipelined": pipelined, "oversubscription": ratio}
            found = iteration_times(model, replace(machine, hb_domain_size=size, **options), row, runtime)
            way = routing if routing == "direct" else f"two-hop, {'pipelined' if pipelined else 'in turn'}"
            times = (found.breakdown["expert_s"], found.links["expert_link_s"], found.total_s)
            rows.append((size, way, ratio, *(float(time) for time in times)))
        table = pd.DataFrame(
            rows, columns="hb_domain_size way oversubscription expert_s expert_link_s iteration_s".split()
        )
        tables.append(table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[0] - 1).iloc[1:])
    return pd.concat(tables, ignore_index=True)
