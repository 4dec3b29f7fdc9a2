"""Fig. 1 of photonic2025: which GPUs a rail's circuits join while one kind of traffic is sent, one to one."""

import pandas as pd

from railcore.catalog import units
from railcore.training.parallelism import Strategy

RAIL_KINDS = ("pipeline", "data")  # of traffic that crosses HB domains; tensor traffic stays inside them


def circuit_pairs(strategy: Strategy, hb_domain_size: int) -> pd.DataFrame:
    """Circuits of each kind of traffic on each rail, in the order of the ranks.

    Stages of a pipeline have a circuit from each to the next, which the backward pass takes in reverse; replicas have a
    ring. hb_domain_size: GPUs of an HB domain (scale-up or NVLink domain), one for each rail.

    Columns kind, rail (from 0), source and target (HB domains from 0).
    """
    rows = []
    for kind in RAIL_KINDS:
        for group in strategy.groups(kind).tolist():
            following = group[1:] + (group[:1] if kind == "data" else [])
            for source, target in zip(group, following, strict=False):
                (first, rail), (second, other) = divmod(source, hb_domain_size), divmod(target, hb_domain_size)
                if first != second and rail == other:
                    rows.append((kind, rail, first, second))
    return pd.DataFrame(rows, columns=["kind", "rail", "source", "target"]).sort_values(["kind", "rail"], kind="stable")


def domain_texts(strategy: Strategy, hb_domain_size: int) -> list[str]:
    """What each HB domain of a job holds, such as "stage 0, replica 1"."""
    places = strategy.coordinates(range(0, strategy.gpus, hb_domain_size))
    return [f"stage {p}, replica {d}" for p, d in zip(places["pipeline"], places["data"], strict=True)]


def panel_titles(pairs: pd.DataFrame, ports: int, nic_Bps: float) -> dict[str, str]:
    """By kind of traffic what Fig. 1 shows, with the ports of a NIC that it uses.

    pairs: of `circuit_pairs`; ports, nic_Bps: of a NIC, all ports together [bytes/s].
    """
    ends = pd.concat([pairs[["kind", "rail", end]].rename(columns={end: "domain"}) for end in ("source", "target")])
    used = ends.value_counts().groupby("kind").max()
    words = {"pipeline": "pipeline traffic (PP)", "data": "data-parallel traffic (DP)"}
    return {
        kind: f"circuits for {text}, {used.get(kind, 0)} of {units.counted(ports, 'ports')} of a NIC: "
        f"{units.show(used.get(kind, 0) * nic_Bps / ports, 'bps')}"
        for kind, text in words.items()
    }
