"""Cases of transport_runs.csv: runs of the packet model, small ones first."""

from functools import cache

import pandas as pd

from railcore.documents.flops2024 import transport_cases
from railcore.engines.transport import reference, studies
from railcore.engines.transport.cases import TransportCase, run_case
from railcore.engines.transport.transports import Transport

CODE = ("railcore/facts", "railcore/network", "railcore/engines/transport")
ROWS = 1  # of a case


@cache
def cases() -> list[TransportCase]:
    """All that is simulated: each case once, in the order of their packet hops."""
    asked = [case for study in studies.STUDIES.values() for case in study()]
    every = [*reference.reference_cases(), *reference.uec_cases(), *transport_cases.document_runs(), *asked]
    return sorted(dict.fromkeys(every), key=lambda case: (size(case), repr(case)))


@cache
def size(case: TransportCase) -> int:
    """Hops of all packets."""
    return case.packet_hops


def key(case: TransportCase) -> tuple[TransportCase, Transport]:
    """What a row is computed from, but the code: the case, and what the catalog says of its transport."""
    return case, case.preset


def run(case: TransportCase) -> pd.DataFrame:
    """The row of a case."""
    return pd.DataFrame([run_case(case)])


def named(case: TransportCase) -> str:
    """A case in a line."""
    told = [case.transport, case.options, f"{case.hosts:,} hosts", case.pattern, f"{case.flow_bytes / 1e6:g} MB"]
    return ", ".join(filter(None, [*told, f"seed {case.seed}"]))
