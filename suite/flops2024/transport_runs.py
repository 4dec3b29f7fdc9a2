"""Runs of the packet model as rows of a plain table: a case by name in, times and counts out, found by its hash.

A case is a dictionary: `transport`, the columns of `CASE`, and any field of a transport that differs from the preset.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import files
from railcore.transport.fabric import LATENCIES, PathFabric, leaf_spine, three_tier
from railcore.transport.flows import Flows, all_to_all, incast, permutation
from railcore.transport.optimum import Framing, optimum_s
from railcore.transport.packets import TALLIES, simulate_packets
from railcore.transport.transports import Transport, transport

STORED = "derived/transport_runs.csv"
LONG_RUN = 1e7  # packet hops, about half a second
CASE: dict[str, Any] = {  # columns of a case, and what one has that does not name them; None: it must
    "hosts": None,
    "hosts_per_leaf": None,
    "link_Bps": None,
    "flow_bytes": None,
    "pattern": "permutation",  # or incast, or all to all in groups that are drawn
    "senders": 0,  # to each receiver, but of a permutation; all to all: the others of a group
    "start_spread_s": 0.0,  # of an incast
    "load": 1.0,  # of a permutation
    "tiers": 2,  # or 3
    "oversubscription": 1.0,
    "degraded": 0.0,  # share of the cables over the leaves that are slow
    "slow_spines": 0,  # spines all of whose cables are
    "degraded_rate": 0.0,  # their speed
    "converged": True,
    "mtu_bytes": 4096.0,
    "header_bytes": 64.0,
    "link_latency_s": 1e-6,  # the default latencies are those of the published runs in data/measured
    "switch_latency_s": 0.0,
    "nic_latency_s": 0.0,
    "seed": 0,
}
_BETWEEN = (1, 5, 10, 25, 40, 50, 60, 75, 90, 95, 99, 99.9)
PERCENTILES = {  # columns with completion times of a run: percent of the flows that are complete
    "first_s": 0.0,
    **{f"p{percent:g}_s".replace(".", ""): percent for percent in _BETWEEN},
    "last_s": 100.0,
}
RESULTS = ("mean_s", *PERCENTILES, "flows", "packets", *TALLIES)  # of a run; the flow level has no tallies


def case_grid(**values: Any) -> list[dict[str, Any]]:
    """Every combination of a case's values, each given once or in a list; the last named changes fastest."""
    lists = [value if isinstance(value, list | tuple | range) else [value] for value in values.values()]
    return [dict(zip(values, combination, strict=True)) for combination in product(*lists)]


def _columns(case: Mapping[str, Any]) -> dict[str, Any]:
    return {name: case.get(name, usual) for name, usual in CASE.items()}


def _split(case: Mapping[str, Any]) -> tuple[dict[str, Any], Transport]:
    """All columns of a case, and its transport. Raises ValueError naming a column that is none."""
    columns = _columns(case)
    changes = {name: value for name, value in case.items() if name not in {"transport", *CASE}}
    return columns, transport(case["transport"], **changes)


def case_inputs(case: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `simulate_packets`: fabric, flows, transport, framing, seed, converged."""
    columns, preset = _split(case)
    value = columns.__getitem__
    pattern = value("pattern")
    build, switch = (leaf_spine, 1) if value("tiers") == 2 else (three_tier, 2)
    shape = value("hosts"), switch * value("hosts_per_leaf"), value("link_Bps"), value("oversubscription")
    fabric: PathFabric = build(*shape, **{name: value(name) for name in LATENCIES})
    if value("degraded") or value("slow_spines"):
        fabric = fabric.degraded(value("degraded"), value("seed"), value("degraded_rate"), value("slow_spines"))
    if pattern == "incast":
        spread_s = value("start_spread_s")
        flows = incast(value("senders"), 0, value("flow_bytes"), value("hosts"), spread_s, value("seed"))
    elif pattern == "all to all":
        drawn = np.random.default_rng(value("seed")).permutation(value("hosts")).reshape(-1, value("senders") + 1)
        flows = all_to_all(drawn, value("flow_bytes"))
    else:
        flows = permutation(value("hosts"), value("flow_bytes"), value("load"), value("seed"))
    framing = Framing(value("mtu_bytes"), value("header_bytes"), acknowledged=True)
    return {"fabric": fabric, "flows": flows, "transport": preset, "framing": framing, "seed": value("seed"),
            "converged": bool(value("converged"))}  # fmt: skip


def _plain(value: Any) -> str:
    """A value as a hash has it: numbers with ten digits."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_plain(value[name])}" for name in sorted(value))
    return value if isinstance(value, str) else f"{float(value):.10g}"


def case_hash(case: Mapping[str, Any]) -> str:
    """A hash of all that a run is computed from: columns of the case, and all numbers of its transport."""
    columns, preset = _split(case)
    told = f"{_plain(columns)}; {type(preset.control).__name__}: {_plain(asdict(preset))}"
    return f"h{hashlib.sha256(told.encode()).hexdigest()[:12]}"  # no number, whatever its digits


def packet_hops(case: Mapping[str, Any]) -> int:
    """Packets of a case over ports, none sent twice; the time of a run goes with it."""
    inputs = case_inputs(case)
    passed = inputs["fabric"].tables(inputs["flows"].source, inputs["flows"].destination)[0] >= 0
    return int(passed.sum() * inputs["framing"].packets(inputs["flows"].size_bytes[:1])[0])


def run_case(case: Mapping[str, Any], simulate: Callable[..., Any] | None = None) -> dict[str, Any]:
    """The columns of a case, its hash, then what its run gives.

    first_s, mean_s, p1_s and other percentiles, last_s: when the last acknowledgements of flows are back, from the
    start of the first on [s]; flows and packets; the tallies of a `PacketRun`. simulate: in place of the packet model.
    """
    inputs = case_inputs(case)
    run = (simulate or simulate_packets)(**inputs)
    flows: Flows = inputs["flows"]
    ends = flows.start_s - flows.start_s.min() + run.completion_s
    times = np.percentile(ends, list(PERCENTILES.values())).tolist()
    return {
        **case,
        "hash": case_hash(case),
        "mean_s": float(ends.mean()),
        **dict(zip(PERCENTILES, times, strict=True)),
        "flows": len(flows),
        "packets": int(inputs["framing"].packets(flows.size_bytes).sum()),
        **getattr(run, "tallies", {}),
    }


@cache
def _stored(path: Path) -> pd.DataFrame:
    return pd.read_csv(path).set_index("hash")


def runs_of_cases(cases: Iterable[Mapping[str, Any]], runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """The cases with what their runs gave, in their order.

    runs: a table of `run_case`; by default what data/derived has. Raises ValueError where a case was not run.
    """
    wanted = list(cases)
    table = _stored(files.data(STORED)) if runs is None else runs.set_index("hash")
    table = table[~table.index.duplicated()]
    hashes = [case_hash(case) for case in wanted]
    missing = [case for case, digest in zip(wanted, hashes, strict=True) if digest not in table.index]
    if missing:
        raise ValueError(f"{len(missing)} cases were not run, the first {missing[0]}: run data/derived/rebuild.py")
    results = table.loc[hashes, [name for name in RESULTS if name in table]].reset_index()
    return pd.concat([pd.DataFrame([CASE | dict(case) for case in wanted]), results], axis=1)


def study_runs(cases: Sequence[Mapping[str, Any]], progress: Callable[[str], Any] | None = print) -> pd.DataFrame:
    """Runs of cases with their optimum: stored ones as they are, others simulated now, also where your catalog differs.

    progress: told before every case of over `LONG_RUN` and each twentieth, and how far a run is. Columns of `run_case`;
    optimum_s: when the last flow can be complete at best, from links and sizes alone [s]; slowdown: last_s over it.
    """
    stored, new = _stored(files.data(STORED)), {}
    for case in cases:
        if (key := case_hash(case)) not in stored.index:
            new[key] = case
    rows = []
    for place, case in enumerate(new.values(), start=1):
        if progress and (packet_hops(case) > LONG_RUN or place % 20 == 1):
            progress(f"{place} of {len(new)}: {case['transport']}, {case['hosts']:,} hosts, seed {case.get('seed', 0)}")
        rows.append(run_case(case, partial(simulate_packets, progress=progress)))
    runs = runs_of_cases(cases, pd.concat([stored.reset_index(), pd.DataFrame(rows)]) if rows else None)
    shapes, best = [tuple(_columns(case).values()) for case in cases], {}
    for case, shape in zip(cases, shapes, strict=True):
        if shape not in best:
            inputs = case_inputs(case)
            best[shape] = optimum_s(inputs["fabric"], inputs["flows"], inputs["framing"])
    optimum = np.array([best[shape] for shape in shapes])
    return runs.assign(optimum_s=optimum, slowdown=runs["last_s"] / optimum)


def completed_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """Share of the flows that are complete over time: columns transport, seed, share, time_s."""
    long = runs.melt(["transport", "seed"], list(PERCENTILES), "share", "time_s")
    return long.assign(share=long["share"].map(PERCENTILES) / 100).sort_values(
        ["transport", "seed", "share"], kind="stable"
    )
