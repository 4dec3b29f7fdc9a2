"""Cases of level_errors.csv: the last flow by the flow level beside packets, where `completion_times` may choose it."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.units import Gbps
from railcore.transport.fabric import LATENCIES, hop_latencies
from railcore.transport.levels import completion_times
from suite.flops2024 import transport_runs as runs
from suite.flops2024.transport_runs import case_grid, case_hash, case_inputs, packet_hops

CODE = ("railcore/catalog", "railcore/compiled.py", "railcore/deploy", "railcore/network", "railcore/transport")
CODE += ("suite/flops2024/transport_runs.py",)
ROWS = 1  # of a case
ROUND_TRIP_S = 9.4e-6  # of two tiers with links of 1 us, and a little more: sizes are in its products with the rate
SPRAYS = ["spraying", "UEC NSCC", "UEC RCCC", "NDP"]
SIX = [2, 8]  # seeds that put six flows or more on a link
USUAL = {name: runs.CASE[name] for name in ("mtu_bytes", *LATENCIES)}


def _sized(products: list[int], gbps: list[int], catalog: bool = False, **values: Any) -> list[dict[str, Any]]:
    """Cases of sizes in products; catalog: with its latencies, not those of public simulators."""
    return [
        {**case, "link_Bps": rate * Gbps, "flow_bytes": round(product * rate * Gbps * ROUND_TRIP_S)}
        for product in products
        for rate in gbps
        for case in case_grid(
            link_Bps=0.0, flow_bytes=0.0, **USUAL | values | (hop_latencies(rate * Gbps) if catalog else {})
        )
    ]


@cache
def cases() -> list[dict[str, Any]]:
    """Incasts, single paths and sprays, of sizes from the limits on; all to all within one leaf and over several."""
    incast = {"pattern": "incast", "senders": [8, 16, 32], "start_spread_s": 2e-5, "load": 1.0, "seed": range(2)}
    spread = {"pattern": "permutation", "senders": 0, "start_spread_s": 0.0}
    every = {"pattern": "all to all", "senders": [7, 31], "start_spread_s": 0.0, "load": 1.0, "seed": range(2)}
    leaves = {"hosts": 64, "hosts_per_leaf": [8, 64], "mtu_bytes": [4096.0, 9000.0]}
    small, large = {"hosts": 64, "hosts_per_leaf": 8}, {"hosts": [512, 1024], "hosts_per_leaf": 16}
    return [
        *_sized([25, 60], [100], transport=[*SPRAYS, "single path"], **small, **incast),
        *_sized([65, 120], [100, 400], transport="single path", **large, **spread, load=1.0, seed=SIX),
        *_sized([110, 160], [400, 800], transport=SPRAYS, **small, **spread, load=[0.5, 1.0], seed=range(2)),
        *_sized([90], [25, 100, 400], catalog=True, transport="single path", **leaves, **every),
    ]


def size(case: dict[str, Any]) -> int:
    """Hops of all packets."""
    return packet_hops(case)


def key(case: dict[str, Any]) -> str:
    """What a row is computed from, but the code."""
    return case_hash(case)


def run(case: dict[str, Any]) -> pd.DataFrame:
    """The row of a case: what it is, kind and stated error of the flow level (blank: none is stated), and its error."""
    given = case_inputs(case)
    start_s = given["flows"].start_s
    flows, packets = (completion_times(**given, level=level) for level in ("flows", "packets"))
    last = [float((start_s + each.completion_s).max() - start_s.min()) for each in (flows, packets)]
    stated = flows.error if np.isfinite(flows.error) else np.nan
    kind = flows.reason.partition(":")[0]
    return pd.DataFrame([{**case, "kind": kind, "stated": stated, "error": last[0] / last[1] - 1}])


def named(case: dict[str, Any]) -> str:
    """A case in a line."""
    return f"{case['transport']}, {case['pattern']}, {case['flow_bytes'] / 1e6:g} MB, seed {case['seed']}"
