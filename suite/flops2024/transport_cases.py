"""The network and the flows of flops2024's Fig. 5 and 6, as cases of the packet model."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.training import transformer
from railcore.training.formats import catalog_precision
from railcore.transport.fabric import hop_latencies
from suite.flops2024.specification import DOCUMENT, document_site, document_size
from suite.flops2024.training_case import TrainingCase
from suite.flops2024.transport_runs import case_grid

DRAWN = ("single path", "RoCEv2")  # whose last flow is a draw of the hash
FEW_SEEDS = 3  # of large flows, where it is none, or where other settings have the same draws
NAMED = "NDP"  # the way to spray that the document names first, with its authors' own queues of 8 packets
SPRAYED: dict[str, dict[str, Any]] = {  # packets over many paths. The document names no other detail of spraying
    "spraying, all paths": {"transport": "spraying", "entropies": 0},  # over every path of the fabric
    "spraying, hashed": {"transport": "spraying"},  # as many header values as a public simulator has, each by the hash
    "NDP, queues of 32": {"transport": "NDP", "queue_packets": 32},
    NAMED: {"transport": "NDP"},
    "UEC NSCC": {"transport": "UEC NSCC"},
    "UEC RCCC": {"transport": "UEC RCCC"},
}
HASHED = {name: {"transport": name} for name in ("flowlets", "single path", "RoCEv2 with DCQCN", "RoCEv2")}
FIG5_WAYS = SPRAYED | HASHED
FIG6_WAYS = {name: FIG5_WAYS[name] for name in ("spraying, all paths", NAMED, "single path", "RoCEv2")}  # drawn in both
RATE, RECOMPUTED = "fp4_sparse_rate", 3.0  # as notebook 10, calibrated: data/calibrations.csv
PAUSES = ((3, 2), (7, 5), (15, 12), (30, 24), (60, 48))  # packets at which a link is told to pause, and to go on
LOADS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0)


def document_cases() -> dict[str, TrainingCase]:
    """The document's two models on its machine, as notebook 10 has them: "dense" and "moe"."""
    machine = document_site(int(document_size().racks), rate=RATE)
    models = {"dense": "flops2024 dense", "moe": "flops2024 MoE"}
    return {
        key: TrainingCase(
            transformer.catalog_model(name), catalog_precision("flops2024"), machine, {"recomputed": RECOMPUTED}
        )
        for key, name in models.items()
    }


def document_network(small: bool = False) -> dict[str, float]:
    """Columns of a case for Fig. 5; small: for Fig. 6. The send is the mixture's; latencies are ours."""
    site = catalog.item("sites", DOCUMENT)
    link, size = (site["small_link"], site["small_flow"]) if small else (site["simulated_link"], 0.0)
    return {
        "hosts": int(site["simulated_hosts"]),
        "hosts_per_leaf": int(site["simulated_hosts_per_leaf"]),
        "link_Bps": link,
        "flow_bytes": size or round(pipeline_send_bytes(document_cases()["moe"])),
        **hop_latencies(link),
    }


def fig5_cases(network: Mapping[str, float], seeds: int = 20) -> list[dict[str, Any]]:
    """Every transport on a permutation of large flows: many seeds for those whose tail is a draw, else `FEW_SEEDS`.

    network: of `document_network`.
    """
    counts = {name: seeds if name in DRAWN else min(seeds, FEW_SEEDS) for name in FIG5_WAYS}
    return [case for name, way in FIG5_WAYS.items() for case in case_grid(**way, **network, seed=range(counts[name]))]


def fig6_cases(network: Mapping[str, float], loads: Sequence[float] = LOADS, seeds: int = 5) -> list[dict[str, Any]]:
    """Small flows where a share of the hosts send. network: of `document_network`."""
    shape = {**network, "load": list(loads), "seed": range(seeds)}
    return [case for way in FIG6_WAYS.values() for case in case_grid(**way, **shape)]


def named_runs(runs: pd.DataFrame, cases: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Runs of `fig5_cases` or `fig6_cases` with the names of `FIG5_WAYS` as their transports."""
    fields = {field for way in FIG5_WAYS.values() for field in way}
    names = {frozenset(way.items()): name for name, way in FIG5_WAYS.items()}
    ways = [frozenset((field, case[field]) for field in fields & case.keys()) for case in cases]
    return runs.assign(transport=[names[way] for way in ways])


def pause_cases(network: Mapping[str, float], seeds: int = FEW_SEEDS) -> list[dict[str, Any]]:
    """RoCEv2 with other pause thresholds, at most `FEW_SEEDS` of each. network: of `document_network`."""
    return [
        case
        for pause, resume in PAUSES
        for case in case_grid(
            transport="RoCEv2",
            **network,
            pause_packets=pause,
            resume_packets=resume,
            seed=range(min(seeds, FEW_SEEDS)),
        )
    ]


def pause_settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of `pause_cases` with a column setting, "15 / 12": packets at which a link pauses, and goes on."""
    pairs = zip(runs["pause_packets"], runs["resume_packets"], strict=True)
    return runs.assign(setting=[f"{pause:g} / {resume:g}" for pause, resume in pairs])


def document_runs() -> list[dict[str, Any]]:
    """All cases that the document's claims and figures need, for data/derived."""
    large, small = document_network(), document_network(small=True)
    return [*fig5_cases(large), *fig6_cases(small), *pause_cases(large)]


def pipeline_send_bytes(case: TrainingCase) -> float:
    """What a GPU sends to the next stage in a pass [bytes]: s b h r over the tensor ranks."""
    return float(case.layer.tensor_bytes / case.layout.tensor)
