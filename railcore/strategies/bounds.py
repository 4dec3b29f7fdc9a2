"""A lower bound on the time of a split's strategies: it says which splits of fewer GPUs are worth a search."""

from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from railcore.strategies.splits import divisors
from railcore.training.layer import layer_costs
from railcore.training.machine import Machine
from railcore.training.machine_parts import DomainCollectives
from railcore.training.rank import LAYER_COLUMNS, mixture_shares
from railcore.training.rank_order import PLACEMENTS
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer
from railcore.training.unique_rows import unique_places

_AT_A_TIME = 1 << 20  # splits x micro-batches, so that memory stays small


def by_least_time(part: Any, splits: np.ndarray, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits that are not done, in the order of the least time that a sequence may take, with that time [s].

    part: a `SearchPart`. splits, done: rows of t, c, p, d.
    """
    both = dict(zip("tcpd", np.concatenate([done, splits]).T, strict=True))
    numbers = unique_places(both, "tcpd")[1][len(done) :]
    splits = splits[numbers >= len(done)]
    least_s = least_sequence_s(part, splits)
    order = np.argsort(least_s, kind="stable")
    return splits[order], least_s[order]


def least_sequence_s(part: Any, splits: np.ndarray) -> np.ndarray:
    """Time of a sequence that no strategy of a split goes below: passes of its layers and the pipeline's filling [s].

    It is the least of t n (1 + f / m) / (d b) over micro-batches b, batches G, experts, and ends as layers or not:

    - t: time of a layer, with all its traffic in one HB domain, over both links together, without latency;
    - n = ceil(L / p): layers of the fullest stage;
    - m = G / (d b): micro-batches;
    - f = (L / n - 1) / v: filling of the pipeline, in micro-batches; 0 where the schedule fills it from both ends;
    - v: chunks, the most allowed; by default L / p where that is whole, else 1.

    part: a `SearchPart`. splits: rows of t, c, p, d.
    """
    model, limits = part.model, dict(part.allowed)
    t, c, p, d = splits.T
    sizes = np.unique(np.concatenate([divisors(batch) for batch in limits["global_batch"]]))
    # One p for all p with equal stages. Degrees are those of the whole cluster, so that all parts share the table.
    every = np.arange(1, model.layers + 3)
    shares = np.unique(mixture_shares(model, every), axis=1, return_inverse=True)[1].ravel()
    tensor, context = divisors(model.heads), divisors(model.sequence_length)
    tensor, context = tensor[tensor <= part.gpus], context[context <= part.gpus]
    pipeline = every[np.unique(shares, return_index=True)[1]]
    links = part.machine.links
    box = part.machine.changed(
        hb_domain_size=model.heads * model.sequence_length * max(model.experts, 1),  # whose groups all of them divide
        hb_Bps=links.hb_Bps + links.nic_Bps,
        hb_fraction=max(links.hb_fraction, links.nic_fraction),
        fabric=None,
        **dict.fromkeys(("hb_latency_s", "nic_latency_s", "call_latency_s"), 0.0),
        **asdict(DomainCollectives()),  # which start at once and reach all of it
    )
    degrees = (tuple(values.tolist()) for values in (tensor, context, pipeline, sizes))
    table = _least_layer_s(model, box, part.runtime, *degrees)
    at = np.searchsorted(tensor, t), np.searchsorted(context, c), shares[p - 1]
    least = np.full(len(splits), np.inf)
    for ends in limits["ends_as_layers"] or (0, 1):
        places = model.layers + 2 * ends
        n = -(-places // p)
        chunks = max(limits["interleave"]) if limits["interleave"] else np.where(places % p == 0, places // p, 1)
        filling = (places / n - 1) / chunks * (part.runtime.schedule == "1f1b")
        for batch in limits["global_batch"]:
            for degree in np.unique(d[batch % d == 0]).tolist():
                b = np.flatnonzero(batch // degree % sizes == 0)
                m = batch // degree / sizes[b]
                of_degree = np.flatnonzero(d == degree)
                for rows in np.split(of_degree, range(_AT_A_TIME // b.size, of_degree.size, _AT_A_TIME // b.size)):
                    layer_s = table[(*(place[rows, None] for place in at), b)]
                    sequence_s = layer_s / sizes[b] * (1 + filling[rows, None] / m)
                    least[rows] = np.minimum(least[rows], n[rows] / degree * sequence_s.min(axis=1))
    return least


@lru_cache(maxsize=4)
def _least_layer_s(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    tensor: tuple[int, ...],
    context: tuple[int, ...],
    pipeline: tuple[int, ...],
    micro_batch: tuple[int, ...],
) -> np.ndarray:
    """Least time of a layer by t, c, p and b, over experts and choices [s]."""
    axes = {
        "context": np.asarray(context),
        "pipeline": np.asarray(pipeline),
        "micro_batch": np.asarray(micro_batch),
        "sequence_parallel": np.arange(2),
        "expert": divisors(max(model.experts, 1)),
        "whole_experts": np.arange(1 + (model.experts > 0)),
    }
    grids = np.meshgrid(*axes.values(), indexing="ij")
    columns = {name: grid.ravel() for name, grid in zip(axes, grids, strict=True)}
    columns |= {"data": columns["expert"], "keep_gathered": columns["sequence_parallel"]}  # then gathered less
    columns |= {name: 0 * columns["data"] for name in ("recompute", "recompute_group")}
    columns |= {"placement": 0 * columns["data"] + PLACEMENTS.index("data first")}

    def least(t: int) -> np.ndarray:
        rows = {name: columns.get(name, t + 0 * columns["data"]) for name in LAYER_COLUMNS}
        costs = layer_costs(model, machine, runtime, rows, by_kind=False)
        return (costs.forward_s + costs.backward_s).reshape(*grids[0].shape[:3], -1).min(axis=3)

    return np.stack([least(t) for t in tensor])
