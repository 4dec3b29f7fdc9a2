"""Where the groups of a strategy lie, in closed form: ranks are numbered dimension by dimension, and fill HB domains.

`Strategy.groups` lists the ranks of each group; `group_levels` says for arrays of strategies how far they are apart.
"""

import math
from collections.abc import Mapping
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

DIMENSIONS = ("tensor", "context", "data", "pipeline")
_NAMED = {
    "tensor first": DIMENSIONS,
    "pipeline near": ("tensor", "context", "pipeline", "data"),
    "data first": ("data", "tensor", "context", "pipeline"),
}
PLACEMENTS = tuple(_NAMED)  # those that a search tries
# All orders of ranks by name, the fastest-varying dimension first; a column `placement` has them as indices.
ORDERS = _NAMED | {", ".join(each): each for each in permutations(DIMENSIONS) if each not in _NAMED.values()}


class GroupLevels(NamedTuple):
    """A group of ranks as runs of equal length.

    inner, inner_stride: ranks of a run, and GPUs from one to the next.
    outer, outer_stride: runs, and GPUs from one to the next.
    regular: whether the group is so. Experts may be spread over runs of which neither divides the other; such a group
        is taken to have one rank in an HB domain (scale-up or NVLink domain).
    """

    inner: Any
    inner_stride: Any
    outer: Any = 1
    outer_stride: Any = 1
    regular: Any = True

    @property
    def ranks(self) -> Any:
        """Ranks of the group, n."""
        return np.multiply(self.inner, self.outer)

    def joined(self) -> "GroupLevels":
        """As one run, where the runs follow each other at the inner stride."""
        n, stride = np.asarray(self.inner, np.int64), np.asarray(self.inner_stride, np.int64)
        together = np.equal(self.outer_stride, n * stride)
        return self._replace(inner=n * np.where(together, self.outer, 1), outer=np.where(together, 1, self.outer))

    def in_domains(self, hb_domain_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Ranks x of a group in an HB domain of K GPUs at worst, and domains y = n / x that it is in.

        x = gcd(inner, max(K // inner_stride, 1)), and where a whole run is in a domain the same of the outer level.
        """
        x, between = self.between_domains(hb_domain_size)
        return x, between.ranks

    def between_domains(self, hb_domain_size: int) -> tuple[np.ndarray, "GroupLevels"]:
        """Ranks x of `in_domains`, and the first rank in each domain as a group of its own."""
        inner, inner_stride, outer, outer_stride, regular = (np.asarray(each) for each in self.joined())
        run = np.where(regular, np.gcd(inner, np.maximum(hb_domain_size // inner_stride, 1)), 1)
        within = regular & (run == inner)
        runs = np.where(within, np.gcd(outer, np.maximum(hb_domain_size // outer_stride, 1)), 1)
        first = GroupLevels(inner // run, inner_stride * run, outer // runs, outer_stride * runs, regular)
        return run * runs, first

    def lie_unevenly(self, hb_domain_size: int) -> np.ndarray:
        """Whether of a kind's groups some have more ranks in an HB domain than others, or groups are not regular."""
        inner, inner_stride, outer, outer_stride, regular = self.joined()
        found = ~np.asarray(regular, bool) & (self.ranks > 1)
        for n, stride in ((inner, inner_stride), (outer, outer_stride)):
            most, left = np.divmod(hb_domain_size, np.asarray(stride, np.int64))
            x = np.gcd(n, np.maximum(most, 1))
            found = found | ((n > 1) & (most > 0) & ((left > 0) | ((x < n) & (x < most))))
        return found


def gpus_of(columns: Mapping[str, Any]) -> Any:
    """GPUs of strategies, t c d p."""
    return math.prod(np.asarray(columns[name], np.int64) for name in DIMENSIONS)


def group_levels(columns: Mapping[str, Any]) -> dict[str, GroupLevels]:
    """Where each kind of group lies, for arrays of strategies.

    tensor, context, pipeline; replica: ranks with the same shared weights, c d; expert: its runs of e ranks that hold
    each expert once, also of tensor ranks with `whole_experts`; expert_replica: ranks with the same experts.

    columns: tensor, context, data, pipeline, expert, and whole_experts and placement where they are not 0.
    """
    arrays = [np.asarray(columns.get(name, 1), np.int64) for name in (*DIMENSIONS, "expert")]
    arrays += [np.asarray(columns.get(name, 0), np.int64) for name in ("whole_experts", "placement")]
    t, c, d, p, e, whole, place = np.broadcast_arrays(*arrays)
    sizes = dict(zip(DIMENSIONS, (t, c, d, p), strict=True))
    stride = _strides(sizes, place)
    # Context and data ranks as two runs, and all but pipeline ranks, which only these may come between.
    near, far = stride["context"], stride["data"]
    first = near <= far  # where they are equal, one of them has one rank
    replica = GroupLevels(
        np.where(first, c, d), np.minimum(near, far), np.where(first, d, c), np.maximum(near, far)
    ).joined()
    n, s, runs, gap, _ = replica
    if whole.any():
        fast = {name: np.where(stride[name] < stride["pipeline"], sizes[name], 1) for name in DIMENSIONS[:3]}
        inner = np.prod(list(fast.values()), axis=0)
        every = GroupLevels(inner, np.ones_like(e), t * c * d // inner, stride["pipeline"] * p).joined()
        n, s, runs, gap = (np.where(whole > 0, *pair) for pair in zip(every[:4], replica[:4], strict=True))
    inside = np.gcd(e, n)
    beyond = e // inside
    regular = (inside == e) | (inside == n) | (n * runs % e > 0)  # the last has its obstacle elsewhere
    holders = np.maximum(n // inside, 1), s * inside, np.maximum(runs // beyond, 1), gap * beyond
    return {
        **{name: GroupLevels(sizes[name], stride[name]) for name in ("tensor", "context", "pipeline")},
        "replica": replica,
        "expert": GroupLevels(inside, s, beyond, gap, regular),
        "expert_replica": GroupLevels(*holders, regular),
    }


def _strides(sizes: Mapping[str, np.ndarray], place: np.ndarray) -> dict[str, np.ndarray]:
    """How many GPUs neighbours in each dimension are apart: the ranks of all dimensions that vary faster."""
    occurring, which = np.unique(place, return_inverse=True)
    orders, which = [list(ORDERS.values())[k] for k in occurring.tolist() or [0]], which.reshape(place.shape)
    found: dict[str, list[np.ndarray]] = {name: [] for name in DIMENSIONS}
    for order in orders:
        apart = np.ones_like(place)
        for name in order:
            found[name].append(apart)
            apart = apart * sizes[name]
    return {name: each[0] if len(orders) == 1 else np.choose(which, each) for name, each in found.items()}
