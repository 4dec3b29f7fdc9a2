"""Blocks of switches of a fabric: what lies below each, and how many links lead out of it."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railcore.catalog.arguments import check_gpus
from railcore.catalog.checks import Floats, Ints
from railcore.network.topology.clos import rail_size
from railcore.network.topology.rails import RailFabric
from railcore.network.topology.wiring import even_cuts, rails_of_pods


class Blocks(NamedTuple):
    """Blocks of one tier; a block that spans rails is split into one piece per rail.

    tier: of the switches at their heads, 1 next to the hosts.
    first, last: by piece, its endpoints of a rail: from `first` up to `last`, which is not in it.
    starts: by block, the number of its first piece.
    uplinks: by block, in a plane [links].
    """

    tier: int
    first: Ints
    last: Ints
    starts: Ints
    uplinks: Floats

    @property
    def full(self) -> bool:
        """Whether as many links lead out of each block as endpoints lie below it."""
        return bool((np.add.reduceat(self.last - self.first, self.starts) <= self.uplinks).all())

    def in_use(self, used: NDArray[np.bool_]) -> "Blocks":
        """The blocks with a piece that is used, with all their pieces. used: by piece."""
        if used.all():
            return self
        keep = np.logical_or.reduceat(used, self.starts)
        sizes = np.diff(self.starts, append=self.first.size)
        pieces, sizes = np.repeat(keep, sizes), sizes[keep]
        return Blocks(self.tier, self.first[pieces], self.last[pieces], np.cumsum(sizes) - sizes, self.uplinks[keep])


class PodBlocks(NamedTuple):
    """Blocks of whole rails of a tier, below an any-to-any layer: by block its rails, and its uplinks in a plane.

    rail_size: endpoints of the largest rail.
    """

    tier: int
    rails: Ints
    uplinks: Floats
    rail_size: int

    @property
    def full(self) -> bool:
        """Whether as many links lead out of each block as endpoints lie below it."""
        return bool((self.rails * self.rail_size <= self.uplinks).all())


@lru_cache(maxsize=64)
def rail_blocks(fabric: RailFabric) -> tuple[Blocks, ...]:
    """The blocks inside a pod, by tier: traffic within a rail leaves them upwards.

    All pods are taken as the first one, all rails as the largest; endpoints are in the order of the leaves.
    """
    layout, size = fabric.layout, int(rail_size(fabric.gpus, fabric.hb_domain_size, fabric.rails))
    if not fabric.tiers:
        return ()
    check_gpus("fabric", fabric.gpus)
    ends = size * np.arange(int(layout.rails_per_pod) + 1)
    cuts = np.unique((ends[:-1, None] + even_cuts(size, int(layout.leaves_per_rail))).ravel())
    blocks = []
    for tier in range(1, int(layout.pod_tier)):
        if tier > 1:
            cuts = cuts[even_cuts(cuts.size - 1, int(layout.blocks[tier - 1] // layout.pods))]
        pieces = np.union1d(cuts, ends)
        first, last = pieces[:-1] % size, (pieces[1:] - 1) % size + 1
        starts = np.searchsorted(pieces, cuts[:-1])
        blocks.append(Blocks(tier, first, last, starts, np.full(starts.size, fabric.block_uplinks(tier))))
    return tuple(blocks)


@lru_cache(maxsize=64)
def pod_blocks(fabric: RailFabric) -> tuple[PodBlocks, ...]:
    """The blocks of whole pods, by tier: traffic between rails leaves them upwards. None without a layer over rails."""
    layout, size = fabric.layout, int(rail_size(fabric.gpus, fabric.hb_domain_size, fabric.rails))
    rails = np.array([len(pod) for pod in rails_of_pods(fabric)])
    blocks = []
    for tier in range(int(layout.pod_tier), int(layout.tiers)):
        if tier > layout.pod_tier:
            cuts = even_cuts(rails.size, -int(-rails.size // layout.most[tier - 1]))
            rails = np.add.reduceat(rails, cuts[:-1])
        blocks.append(PodBlocks(tier, rails, np.full(rails.size, fabric.block_uplinks(tier)), size))
    return tuple(blocks)
