"""Where the groups of a strategy lie: ranks are numbered dimension by dimension, and fill HB domains in that order."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from railcore.training.link_times import ranks_in_domain

ORDERS = {
    "tensor first": ("tensor", "context", "data", "pipeline"),
    "pipeline near": ("tensor", "context", "pipeline", "data"),
    "data first": ("data", "tensor", "context", "pipeline"),
}
PLACEMENTS = tuple(ORDERS)  # a column of strategies has them as indices


class GroupLevels(NamedTuple):
    """A group of ranks as runs: `inner` ranks `inner_stride` GPUs apart, `outer` runs `outer_stride` GPUs apart."""

    inner: Any
    inner_stride: Any
    outer: Any
    outer_stride: Any

    def in_domains(self, hb_domain_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Ranks of a group in an HB domain at worst, and domains that it is in; see `ranks_in_domain`."""
        return ranks_in_domain(hb_domain_size, *self)


def group_levels(columns: Mapping[str, Any]) -> dict[str, GroupLevels]:
    """Where each kind of group lies, for arrays of strategies.

    tensor, context, pipeline; replica: ranks with the same shared weights, c d; expert: its runs of e ranks that hold
    each expert once, also of tensor ranks with `whole_experts`; expert_replica: ranks with the same experts.

    columns: tensor, context, data, pipeline, expert, and whole_experts and placement where they are not 0.
    """
    names = ("tensor", "context", "data", "pipeline", "expert")
    t, c, d, p, e = (np.asarray(columns.get(name, 1), np.int64) for name in names)
    whole, place = np.asarray(columns.get("whole_experts", 0), bool), np.asarray(columns.get("placement", 0))
    place = np.where((p == 1) & (place == PLACEMENTS.index("pipeline near")), 0, place)  # the same places
    one = np.ones_like(t * c * d * p * e * whole * place)

    def by_place(*values: Any) -> Any:
        return np.choose(place, [one * value for value in values])

    def levels(inner: Any, inner_stride: Any, outer: Any = 1, outer_stride: Any = 1) -> GroupLevels:
        return GroupLevels(*(one * value for value in (inner, inner_stride, outer, outer_stride)))

    # Ranks over which experts are spread, as two runs: those with a layer's slices, or with `whole` all of its tokens.
    size = np.where(whole, by_place(t * c * d, t * c, t * c * d), by_place(c * d, c, d))
    stride = np.where(whole, 1, by_place(t, t, 1))
    runs = np.where(whole, by_place(1, d, 1), by_place(1, d, c))
    apart = np.where(whole, by_place(1, t * c * p, 1), by_place(1, t * c * p, d * t))
    inside = np.gcd(e, size)
    beyond = e // inside
    return {
        "tensor": levels(t, by_place(1, 1, d)),
        "context": levels(c, by_place(t, t, d * t)),
        "pipeline": levels(p, by_place(t * c * d, t * c, t * c * d)),
        "replica": levels(by_place(c * d, c, d), by_place(t, t, 1), by_place(1, d, c), by_place(1, t * c * p, d * t)),
        "expert": levels(inside, stride, beyond, apart),
        "expert_replica": levels(
            np.maximum(size // inside, 1), stride * inside, np.maximum(runs // beyond, 1), apart * beyond
        ),
    }
