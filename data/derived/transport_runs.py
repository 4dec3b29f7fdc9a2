"""Cases of transport_runs.csv: runs of the packet model, small ones first."""

from functools import cache
from typing import Any

import pandas as pd

from suite.flops2024 import transport_accuracy, transport_cases, transport_studies
from suite.flops2024.transport_runs import case_hash, packet_hops, run_case

CODE = ("railcore/catalog", "railcore/compiled.py", "railcore/deploy", "railcore/network", "railcore/transport")
CODE += ("suite/flops2024/transport_runs.py",)
ROWS = 1  # of a case
COLUMNS = ("transport", "hosts", "hosts_per_leaf", "link_Bps", "flow_bytes")  # first; then what cases name besides


@cache
def cases() -> list[dict[str, Any]]:
    """All that is simulated: each case once, in the order of their packet hops."""
    asked = [case for study in transport_studies.STUDIES.values() for case in study()]
    published = [*transport_accuracy.reference_cases(), *transport_accuracy.uec_cases()]
    every = {case_hash(case): case for case in (*published, *transport_cases.document_runs(), *asked)}
    names = dict.fromkeys([*COLUMNS, *(name for case in every.values() for name in case)])
    sized = sorted(every, key=lambda each: (packet_hops(every[each]), each))
    return [{name: every[each].get(name) for name in names} for each in sized]


def _given(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case.items() if value is not None}


def size(case: dict[str, Any]) -> int:
    """Hops of all packets."""
    return packet_hops(_given(case))


def key(case: dict[str, Any]) -> str:
    """What a row is computed from, but the code: the case, and what the catalog says of its transport."""
    return case_hash(_given(case))


def run(case: dict[str, Any]) -> pd.DataFrame:
    """The row of a case."""
    return pd.DataFrame([case | run_case(_given(case))])


def named(case: dict[str, Any]) -> str:
    """A case in a line."""
    own = {name: value for name, value in _given(case).items() if name not in COLUMNS}
    return f"{case['transport']}, {case['hosts']:,} hosts, {case['flow_bytes'] / 1e6:g} MB, {own}"
