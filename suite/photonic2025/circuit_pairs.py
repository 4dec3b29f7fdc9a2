"""Fig. 1 of photonic2025: which GPUs a rail's circuits join while one kind of traffic is sent, one to one."""

import pandas as pd

from railcore.training.parallelism import Strategy

RAIL_KINDS = ("pipeline", "data")  # of traffic that crosses HB domains; tensor traffic stays inside them


def circuit_pairs(strategy: Strategy, hb_domain_size: int) -> pd.DataFrame:
    """Circuits of each kind of traffic on each rail, in the order of the ranks.

    Stages of a pipeline have a circuit from each to the next, which the backward pass takes in reverse; replicas have a
    ring. hb_domain_size: GPUs of an HB domain (scale-up or NVLink domain), one for each rail.

    Columns kind, rail (from 1), source and target (HB domains from 1).
    """
    rows = []
    for kind in RAIL_KINDS:
        for group in strategy.groups(kind).tolist():
            following = group[1:] + (group[:1] if kind == "data" else [])
            for source, target in zip(group, following, strict=False):
                (first, rail), (second, other) = divmod(source, hb_domain_size), divmod(target, hb_domain_size)
                if first != second and rail == other:
                    rows.append((kind, rail + 1, first + 1, second + 1))
    return pd.DataFrame(rows, columns=["kind", "rail", "source", "target"]).sort_values(["kind", "rail"], kind="stable")


def domain_texts(strategy: Strategy, hb_domain_size: int) -> list[str]:
    """What each HB domain of a job holds, such as "stage 1, replica 2"."""
    places = strategy.coordinates(range(0, strategy.gpus, hb_domain_size))
    return [f"stage {p + 1}, replica {d + 1}" for p, d in zip(places["pipeline"], places["data"], strict=True)]
