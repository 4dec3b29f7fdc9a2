"""What no strategy of a split can be faster than: which splits of fewer GPUs are worth a search."""

from typing import Any

import numpy as np

from railcore.engines.search.space import divisors
from railcore.engines.strategies.layer_time import LAYER_COLUMNS, layer_costs
from railcore.engines.strategies.unique_rows import unique_places
from railcore.training.rank import mixture_shares


def faster_splits(part: Any, splits: np.ndarray, done: np.ndarray) -> np.ndarray:
    """Splits without those that are done, of which a sequence may take no longer than `part.below_s`.

    Parameters
    ----------
    part
        A `SearchPart`.
    splits, done
        Rows of t, c, p, d.

    Returns
    -------
    Rows, in their order.
    """
    both = dict(zip("tcpd", np.concatenate([done, splits]).T, strict=True))
    known = unique_places(both, "tcpd")[1][len(done) :]
    splits = splits[known >= len(done)]
    return splits[least_sequence_s(part, splits) <= part.below_s * (1 + 1e-9)]


def least_sequence_s(part: Any, splits: np.ndarray) -> np.ndarray:
    """Time of a sequence that no strategy of a split goes below: passes of its layers and what fills the pipeline [s].

    n t (1 + f / m) / (d b), least over micro-batches b, batches G, experts, and ends as layers or not: t of a layer,
    all of whose traffic stays in one HB domain with the faster of both links; n = ceil(L / p) layers; m = G / (d b)
    micro-batches; f = (L / n - 1) / v stages, v = L / p chunks where that is whole, else 1, and 0 from both ends.

    Parameters
    ----------
    part
        A `SearchPart`.
    splits
        Rows of t, c, p, d.

    Returns
    -------
    Seconds, one a split.
    """
    model, limits = part.model, dict(part.allowed)
    t, c, p, d = splits.T
    shares = np.unique(mixture_shares(model, p), axis=1, return_inverse=True)[1].ravel()
    kinds, kind = unique_places({"t": t, "c": c, "shares": shares}, ("t", "c", "shares"))
    sizes = np.unique(np.concatenate([divisors(batch) for batch in limits["global_batch"]]))
    layer_s = _least_layer_s(part, {"tensor": t[kinds], "context": c[kinds], "pipeline": p[kinds]}, sizes)
    least = np.full(len(splits), np.inf)
    for ends in limits["ends_as_layers"] or (0, 1):
        places = model.layers + 2 * ends
        n = -(-places // p)
        chunks = np.where(places % p == 0, places // p, 1)
        filling = (places / n - 1) / chunks * (part.runtime.schedule == "1f1b")
        for batch in limits["global_batch"]:
            for degree in np.unique(d[batch % d == 0]).tolist():
                rows = np.flatnonzero(d == degree)
                b = np.flatnonzero(batch // degree % sizes == 0)
                m = batch // degree / sizes[b]
                each = layer_s[kind[rows]][:, b] / sizes[b] * (1 + filling[rows, None] / m)
                least[rows] = np.minimum(least[rows], n[rows] / degree * each.min(axis=1))
    return least


def _least_layer_s(part: Any, kinds: dict[str, np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Least time of a layer by kind of split and micro-batch [kinds, sizes], over experts and choices [s]."""
    model = part.model
    box = part.machine.changed(
        hb_domain_size=2**40,
        hb_Bps=max(part.machine.hb_Bps, part.machine.nic_Bps),
        hb_latency_s=min(part.machine.links.hb_latency_s, part.machine.links.nic_latency_s),
    )
    axes = {
        "micro_batch": sizes,
        "expert": divisors(max(model.experts, 1)),
        "whole_experts": np.arange(1 + (model.experts > 0)),
        "keep_gathered": np.arange(2),
        "sequence_parallel": np.arange(2),
    }
    number = np.arange(kinds["tensor"].size)
    grids = dict(zip(["kind", *axes], np.meshgrid(number, *axes.values(), indexing="ij"), strict=True))
    shape = grids["kind"].shape
    columns = {name: grid.ravel() for name, grid in grids.items()}
    columns |= {name: values[columns["kind"]] for name, values in kinds.items()}
    columns["data"] = np.maximum(columns["expert"], 1)
    columns |= {name: np.zeros_like(columns["kind"]) for name in ("recompute", "placement")}
    costs = layer_costs(model, box, part.runtime, {name: columns[name] for name in LAYER_COLUMNS}, by_kind=False)
    return (costs.forward_s + costs.backward_s).reshape(*shape[:2], -1).min(axis=2)
