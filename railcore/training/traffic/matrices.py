"""From a step's transfers to matrices: which member of a group sends to which under an algorithm.

    ring                  to the next member
    bidirectional_ring    half to the next, half to the one before
    direct                equal parts to every other member
    tree                  all_reduce alone: to the parent and to the children of a binary tree, the root first
    hierarchical          rings: among the members in one HB domain, and among those at the same place in each domain,
                          which move 1 / x of the buffer with x members in a domain (kinds "... within", "... between")
    hierarchical_direct   the same with equal parts to every other in place of the rings

An all_to_all is always direct.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railcore.facts import catalog
from railcore.training.iteration import two_stage
from railcore.training.iteration.two_stage import TwoStage
from railcore.training.parallelism import Strategy
from railcore.training.traffic.sparse import Floats, Matrix, Ranks, Traffic, joined
from railcore.training.traffic.step import SENT, WIRE, Transfer, Wire, transfers
from railcore.training.transformer import Transformer

ALGORITHMS = ("ring", "bidirectional_ring", "direct", "tree", "hierarchical", "hierarchical_direct")
# Members that one sends to, and its share of what goes to each, both [members, k].
_Pattern = tuple[NDArray[np.int64], Floats]


def matrix(
    model: Transformer,
    strategy: Strategy,
    global_batch: int,
    wire: Wire = WIRE,
    algorithms: Mapping[str, str] | None = None,
    hb_domain_size: int = 0,
) -> Traffic:
    """Traffic of one training step as sparse matrices by kind; every row sums to the bytes that the GPU sends.

    global_batch [sequences]; algorithms: one of ALGORITHMS for each kind, by default "ring"; hb_domain_size [GPUs]:
    for the hierarchical ones. Raises ValueError as `Strategy.check`, for an unknown algorithm, and for a hierarchical
    one whose groups do not have equally many members in each HB domain.
    """
    return from_transfers(strategy, transfers(model, strategy, global_batch, wire), algorithms, hb_domain_size)


def two_stage_cases(names: Iterable[str], **options: Any) -> dict[str, tuple[TwoStage, float]]:
    """Models of the catalog with the batches [tokens] that railonly2023 trains them with, by name.

    Where the document gives a range of batches the model is there with the smallest and the largest, its name followed
    by a line with the sequences. options: of `two_stage.from_catalog`. Raises UnknownName.
    """
    found = {}
    for name in names:
        item = catalog.item("models", name)
        batch, s = item.row("batch_railonly2023"), item["sequence_length"]
        rounds = item["collective_rounds_railonly2023"]
        model = two_stage.from_catalog(name, 1.0, 1.0, 1.0, rounds, **options)  # rates do not change bytes
        tokens = {f"{name}\n{b:g} seq.": b * s for b in (batch.low, batch.high) if b} or {name: batch.value}
        found.update({case: (model, size) for case, size in tokens.items()})
    return found


def two_stage_matrix(
    model: TwoStage,
    gpus: int,
    hb_domain_size: int,
    batch_tokens: float,
    group_size: int | None = None,
    algorithm: str = "direct",
) -> Traffic:
    """Traffic of railonly2023's plan: model parallel in groups of N_M, and data parallel in two stages.

    N = N_M N_Ds N_Df and K = N_M N_Ds. A GPU sends l M_cc b d e (N_M - 1) / N bytes to its model group, then
    2 l S_T (N_Ds - 1) / K within its HB domain and 2 l S_T (N_Df - 1) / N between domains.
    gpus N, hb_domain_size K; batch_tokens b; group_size N_M, by default the model's own; algorithm: "direct", as in
    the document, or "ring". Kinds "tensor", "data within" (the second stage) and "data between" (the first).
    Raises ValueError where N_M does not divide K, or K does not divide N. Source: railonly2023, Section 3.2, Eq. (1).
    """
    n_m = float(model.group_size(gpus, batch_tokens, hb_domain_size)) if group_size is None else group_size
    if gpus % hb_domain_size or n_m < 1 or hb_domain_size % n_m:
        raise ValueError(
            f"gpus {gpus}, hb_domain_size {hb_domain_size}, group_size {n_m:g}: each must divide the one before"
        )
    if algorithm not in ("direct", "ring"):
        raise ValueError(f"algorithm is {algorithm!r}: give 'direct' or 'ring'")
    strategy = Strategy(tensor=int(n_m), data=gpus // int(n_m))
    gathered = batch_tokens * model.hidden * model.element_bytes * n_m / gpus
    calls, gradients = model.layers * model.collective_rounds, model.layers * model.block_bytes / n_m
    rows = [
        Transfer("tensor", "forward", "all_gather", "layer", "tensor", "every", calls, gathered, strategy.tensor),
        Transfer("data", "after", "all_reduce", "model", "data", "every", 1, gradients, strategy.data),
    ]
    rows = [row for row in rows if row.ranks > 1]
    data = "hierarchical_direct" if algorithm == "direct" else "hierarchical"
    return from_transfers(strategy, rows, {"tensor": algorithm, "data": data}, hb_domain_size)


def from_transfers(
    strategy: Strategy,
    rows: Iterable[Transfer],
    algorithms: Mapping[str, str] | None = None,
    hb_domain_size: int = 0,
) -> Traffic:
    """Sparse matrices of any transfers. Arguments and errors as in `matrix`."""
    chosen = dict(algorithms or {})
    for kind, algorithm in chosen.items():
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm of {kind} is {algorithm!r}: give one of {', '.join(ALGORITHMS)}")
    stage = strategy.coordinates(np.arange(strategy.gpus))["pipeline"]
    bytes_of: dict[tuple[str, str, str], Floats] = {}
    for row in rows:
        share = SENT[row.operation](row.ranks)
        amount = row.calls * row.message_bytes * share * row.stage_weights(strategy)[stage]
        key = row.kind, row.group, _way(row, chosen.get(row.kind, "ring"))
        bytes_of[key] = bytes_of.get(key, 0.0) + amount
    parts: dict[str, list[tuple[Ranks, Floats]]] = {}
    for (kind, group, way), amount in bytes_of.items():
        for suffix, ranks, pattern, factor in _stages(_groups(strategy, group), way, hb_domain_size):
            parts.setdefault(kind + suffix, []).append(_placed(ranks, pattern, amount * factor))
    every = np.arange(strategy.gpus, dtype=np.int32)
    return Traffic({kind: Matrix(*joined(every, found)) for kind, found in parts.items()})


def _way(row: Transfer, algorithm: str) -> str:
    if row.operation == "send_receive":
        return {"forward": "next", "backward": "previous"}[row.phase]
    if row.operation == "all_to_all":
        return "direct"
    if algorithm == "tree" and row.operation != "all_reduce":
        raise ValueError(f"algorithm of {row.kind} is 'tree', which has no {row.operation}: give 'ring'")
    return algorithm


def _groups(strategy: Strategy, group: str) -> Ranks:
    found = strategy.groups("pipeline")[:, [0, -1]] if group == "ends" else strategy.groups(group)
    return found.astype(np.int32)


def _stages(groups: Ranks, way: str, hb_domain_size: int) -> list[tuple[str, Ranks, _Pattern, float]]:
    """Each phase of a collective as (suffix of the kind, groups, pattern, its bytes over a flat collective's)."""
    n = groups.shape[1]
    if not way.startswith("hierarchical"):
        return [("", groups, _pattern(way, n), 1.0)]
    if hb_domain_size < 1:
        raise ValueError(f"hb_domain_size is {hb_domain_size}: a hierarchical algorithm needs the HB domain's GPUs")
    domain = groups // hb_domain_size
    y = len(np.unique(domain[0]))
    x, flat = n // y, (n - 1) / n
    if n % y or np.any(np.diff(domain.reshape(len(groups), y, -1), axis=2)) or np.any(np.diff(domain[:, ::x]) <= 0):
        raise ValueError(
            f"hb_domain_size is {hb_domain_size}: groups of {n} do not have equally many members in each HB domain, "
            "give another size or a flat algorithm"
        )
    inner = "direct" if way.endswith("direct") else "ring"
    grid = groups.reshape(-1, y, x)
    found = []
    if x > 1:
        found.append((" within", grid.reshape(-1, x), _pattern(inner, x), (x - 1) / x / flat))
    if y > 1:
        across = grid.swapaxes(1, 2).reshape(-1, y)
        found.append((" between", across, _pattern(inner, y), (y - 1) / y / x / flat))
    return found


def _pattern(way: str, n: int) -> _Pattern:
    """Members that each of n sends to [n, k], and the share of its bytes for each [n or 1, k]; itself with 0: none."""
    i = np.arange(n)[:, None]
    if way == "tree":
        family = np.hstack([(i - 1) // 2, 2 * i + 1, 2 * i + 2])
        there = (family >= 0) & (family < n) & (family != i)
        return np.where(there, family, i), there * n / (2 * (n - 1))  # each edge carries the buffer, up and down
    if way == "bidirectional_ring" and n > 2:
        return (i + np.array([1, -1])) % n, np.full((1, 2), 0.5)
    if way == "direct":
        return (i + np.arange(1, n)) % n, np.full((1, n - 1), 1 / (n - 1))
    return (i + (-1 if way == "previous" else 1)) % n, np.ones((1, 1))


def _placed(groups: Ranks, pattern: _Pattern, amount: Floats) -> tuple[Ranks, Floats]:
    """Targets and bytes of every GPU [N, k] from the members of groups [groups, n] and each GPU's bytes [N]."""
    members, share = pattern
    every = np.arange(len(amount), dtype=np.int32)
    targets = np.empty((len(amount), members.shape[1]), np.int32)
    if groups.size < len(amount):  # ranks that have no part in it
        targets[:] = every[:, None]
    for some in np.array_split(groups, max(targets.size >> 20, 1)):  # no second array as large as the first
        targets[some] = np.take(some, members, axis=1)
    if len(share) == 1:  # one row of bytes stands for a GPU's whole row, without a copy
        size = np.broadcast_to(amount[:, None] * share[:, :1], targets.shape)
    else:
        size = np.zeros(targets.shape)
        size[groups] = amount[groups][:, :, None] * share
    silent = size == 0 if len(share) > 1 else (amount == 0)[:, None]
    if silent.any():
        np.copyto(targets, every[:, None], where=silent)
    return targets, size
