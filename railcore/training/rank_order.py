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
ORDERS = _NAMED | {", ".join(order): order for order in permutations(DIMENSIONS) if order not in _NAMED.values()}


class GroupLevels(NamedTuple):
    """A group of ranks as runs of equal length.

    inner, inner_stride: ranks of a run, and GPUs from one to the next.
    outer, outer_stride: runs, and GPUs from one to the next.
    regular: whether the group has this form. Expert ranks and a run may not divide each other; such a group is taken to
        have one rank in an HB domain (scale-up or NVLink domain).
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
        """The group as one run, where its runs follow each other at the inner stride."""
        inner, stride = np.asarray(self.inner, np.int64), np.asarray(self.inner_stride, np.int64)
        together = np.equal(self.outer_stride, inner * stride)
        return self._replace(inner=inner * np.where(together, self.outer, 1), outer=np.where(together, 1, self.outer))

    def in_domains(self, hb_domain_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Fewest ranks x that a group has in an HB domain of K GPUs, and domains y = n / x that it is in.

        x = gcd(inner, max(K // inner_stride, 1)). Where a whole run is in a domain, x is the run times the same of the
        outer level.
        """
        x, between = self.between_domains(hb_domain_size)
        return x, between.ranks

    def between_domains(self, hb_domain_size: int) -> tuple[np.ndarray, "GroupLevels"]:
        """Ranks x of `in_domains`, and the first rank in each domain as a group of its own."""
        inner, inner_stride, outer, outer_stride, regular = (np.asarray(value) for value in self.joined())
        run = np.where(regular, np.gcd(inner, np.maximum(hb_domain_size // inner_stride, 1)), 1)
        within = regular & (run == inner)
        runs = np.where(within, np.gcd(outer, np.maximum(hb_domain_size // outer_stride, 1)), 1)
        first = GroupLevels(inner // run, inner_stride * run, outer // runs, outer_stride * runs, regular)
        return run * runs, first

    def lie_unevenly(self, hb_domain_size: int) -> np.ndarray:
        """Whether some groups have more ranks in an HB domain than others, or the groups are not regular."""
        inner, inner_stride, outer, outer_stride, regular = self.joined()
        uneven = ~np.asarray(regular, bool) & (self.ranks > 1)
        for count, stride in ((inner, inner_stride), (outer, outer_stride)):
            most, rest = np.divmod(hb_domain_size, np.asarray(stride, np.int64))
            in_domain = np.gcd(count, np.maximum(most, 1))
            cut = (in_domain < count) & (in_domain < most)
            uneven = uneven | ((count > 1) & (most > 0) & ((rest > 0) | cut))
        return uneven


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
    tensor, context, data, pipeline, expert, whole, place = np.broadcast_arrays(*arrays)
    sizes = dict(zip(DIMENSIONS, (tensor, context, data, pipeline), strict=True))
    stride = _strides(sizes, place)
    # The ranks that hold the same shared weights, as two runs: context and data ranks, the nearer ones first.
    near, far = stride["context"], stride["data"]
    first = near <= far  # where they are equal, one of them has one rank
    replica = GroupLevels(
        np.where(first, context, data), np.minimum(near, far), np.where(first, data, context), np.maximum(near, far)
    ).joined()
    run, run_stride, runs, runs_stride, _ = replica
    if whole.any():
        # Whole experts are spread over all ranks but pipeline ranks, which alone may stand between them.
        fast = {name: np.where(stride[name] < stride["pipeline"], sizes[name], 1) for name in DIMENSIONS[:3]}
        inner = np.prod(list(fast.values()), axis=0)
        outer = tensor * context * data // inner
        of_stage = GroupLevels(inner, np.ones_like(expert), outer, stride["pipeline"] * pipeline).joined()
        run, run_stride, runs, runs_stride = (
            np.where(whole > 0, *pair) for pair in zip(of_stage[:4], replica[:4], strict=True)
        )
    inside = np.gcd(expert, run)
    beyond = expert // inside
    divides = run * runs % expert == 0  # what does not is ruled out elsewhere
    regular = (inside == expert) | (inside == run) | ~divides
    holders = np.maximum(run // inside, 1), run_stride * inside, np.maximum(runs // beyond, 1), runs_stride * beyond
    return {
        **{name: GroupLevels(sizes[name], stride[name]) for name in ("tensor", "context", "pipeline")},
        "replica": replica,
        "expert": GroupLevels(inside, run_stride, beyond, runs_stride, regular),
        "expert_replica": GroupLevels(*holders, regular),
    }


def _strides(sizes: Mapping[str, np.ndarray], place: np.ndarray) -> dict[str, np.ndarray]:
    """How many GPUs neighbours in each dimension are apart: the ranks of all dimensions that vary faster."""
    indices, which = np.unique(place, return_inverse=True)
    orders, which = [list(ORDERS.values())[k] for k in indices.tolist() or [0]], which.reshape(place.shape)
    strides: dict[str, list[np.ndarray]] = {name: [] for name in DIMENSIONS}
    for order in orders:
        apart = np.ones_like(place)
        for name in order:
            strides[name].append(apart)
            apart = apart * sizes[name]
    if len(orders) == 1:
        return {name: of_order[0] for name, of_order in strides.items()}
    return {name: np.choose(which, by_order) for name, by_order in strides.items()}
