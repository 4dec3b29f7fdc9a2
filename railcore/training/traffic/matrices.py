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

import numpy as np
from numpy.typing import NDArray

from railcore.facts.checks import Floats, one_of
from railcore.training.parallelism import Strategy
from railcore.training.traffic.communication import WIRE, Transfer, Wire, transfers
from railcore.training.traffic.sparse import Matrix, Ranks, Traffic, merged_rows
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

    Parameters
    ----------
    model, strategy, wire
        The model, how it is split, and what goes over the wire.
    global_batch
        Sequences of the step.
    algorithms
        One of ALGORITHMS for each kind, by default "ring".
    hb_domain_size
        GPUs of an HB domain, for the hierarchical ones.

    Returns
    -------
    A sparse matrix for each kind.

    Raises
    ------
    ValueError
        As `Strategy.check`, for an unknown algorithm, and for a hierarchical one whose groups do not have equally many
        members in each HB domain.
    """
    return from_transfers(strategy, transfers(model, strategy, global_batch, wire), algorithms, hb_domain_size)


def from_transfers(
    strategy: Strategy,
    rows: Iterable[Transfer],
    algorithms: Mapping[str, str] | None = None,
    hb_domain_size: int = 0,
) -> Traffic:
    """Sparse matrices of any transfers.

    Parameters
    ----------
    strategy, rows
        How the GPUs are grouped, and what the groups do.
    algorithms, hb_domain_size
        As in `matrix`, and so are the errors.

    Returns
    -------
    A sparse matrix for each kind.
    """
    chosen = dict(algorithms or {})
    for kind, algorithm in chosen.items():
        one_of(f"algorithm of {kind}", algorithm, ALGORITHMS)
    stage = strategy.coordinates(np.arange(strategy.gpus))["pipeline"]
    bytes_of: dict[tuple[str, str, str], Floats] = {}
    for row in rows:
        amount = row.sent_bytes * row.stage_weights(strategy)[stage]
        key = row.kind, row.group, _way(row, chosen.get(row.kind, "ring"))
        bytes_of[key] = bytes_of.get(key, 0.0) + amount
    parts: dict[str, list[tuple[Ranks, Floats]]] = {}
    for (kind, group, way), amount in bytes_of.items():
        for suffix, ranks, pattern, factor in _stages(_groups(strategy, group), way, hb_domain_size):
            parts.setdefault(kind + suffix, []).append(_placed(ranks, pattern, amount * factor))
    every = np.arange(strategy.gpus, dtype=np.int32)
    return Traffic({kind: Matrix(*merged_rows(every, found)) for kind, found in parts.items()})


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
    if len(share) == 1:  # all targets of a GPU get the same bytes: no copy
        size = np.broadcast_to(amount[:, None] * share[:, :1], targets.shape)
    else:
        size = np.zeros(targets.shape)
        size[groups] = amount[groups][:, :, None] * share
    silent = size == 0 if len(share) > 1 else (amount == 0)[:, None]
    if silent.any():
        np.copyto(targets, every[:, None], where=silent)
    return targets, size
