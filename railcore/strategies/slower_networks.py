"""Searches on networks that are nowhere faster than one that was searched: of few splits, with the same best."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from railcore.network.topology.rails import RailFabric
from railcore.strategies.result import SearchResult
from railcore.strategies.space import pieces
from railcore.strategies.splits import SPLIT
from railcore.training.machine import Machine

_FIRST = 8  # splits that are searched at first; then twice as many each time
_ROUNDING = 1 + 1e-9  # times a time: equal but for rounding
_MOST_PORTS = 2**22


def fastest_network(gpus: int, hb_domain_size: int, **links: Any) -> RailFabric:
    """One switch that joins all GPUs: no strategy is faster on another network of the same links.

    All traffic has the NIC's full rate, and tokens may go straight to their experts' rails. links: fields of
    `RailFabric`: nic_Bps, hb_Bps, hb_switches.
    """
    return RailFabric(gpus, hb_domain_size, max(4, min(gpus + gpus % 2, _MOST_PORTS)), rails=1, **links)


def search_slower(
    fastest: SearchResult, machine: Machine, designs: int = 0, below_s: float = math.inf, top: int | None = None
) -> SearchResult:
    """A search on a network where no strategy is faster than on the one that was searched.

    A split whose least time there is longer than what is looked for is not searched again. What is found, and its
    order, is what a search of all finds.

    Parameters
    ----------
    fastest
        The search on the faster network, with all its splits.
    machine
        On the slower network, with as many GPUs in use of each HB domain.
    designs
        How many of the best designs are looked for; 0 for all strategies up to `below_s`.
    below_s
        Time of a sequence up to which strategies are looked for [s].
    top
        How many of the best strategies to keep; None for as many as the other search.

    Returns
    -------
    A `SearchResult` that has these, some slower ones, and the split that had the design with the least memory.
    """
    parts = [replace(part, machine=machine, top=top or part.top) for part in fastest.parts]
    splits = np.column_stack([fastest.bounds[name] for name in SPLIT])
    least_s = np.where(_thriftiest(fastest), 0.0, fastest.bounds["least_s"])
    result = SearchResult.merged(part.searched(splits[:0]) for part in parts)
    for places in _twice_as_many(np.argsort(least_s, kind="stable")):
        places = places[np.isfinite(least_s[places]) & (least_s[places] <= below_s * _ROUNDING)]
        if not places.size:
            break
        searched = [result]
        for number, part in enumerate(parts):
            some = splits[places[fastest.bounds["part"][places] == number]]
            searched += [part.searched(piece, below_s=below_s) for piece in pieces(part.model, some, part.allowed)]
        result = SearchResult.merged(searched)
        times_s = result.leaders["sequence_s"]
        if designs and times_s.size >= designs:
            below_s = min(below_s, float(times_s[designs - 1]))
    return result


def _thriftiest(result: SearchResult) -> np.ndarray:
    """Which of the splits is that of the design with the least memory."""
    least = np.argsort(result.leaders["memory_bytes"], kind="stable")[:1]
    names = [*SPLIT, "part"]
    rows = [np.equal(result.bounds[name], result.leaders[name][least]) for name in names] if least.size else [[False]]
    return np.all(rows, axis=0)


def _twice_as_many(order: np.ndarray) -> Iterator[np.ndarray]:
    """Runs of an order, each twice as long as the one before."""
    begin, size = 0, _FIRST
    while begin < order.size:
        yield order[begin : begin + size]
        begin, size = begin + size, 2 * size
