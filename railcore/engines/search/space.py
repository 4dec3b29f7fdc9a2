"""The strategies of a cluster: values allowed, splits of the GPUs, and the rows of layers and stages that they are of.

A strategy is a stage (its split, experts, placement, chunks, sharding), a layer (micro-batch, recompute) and a batch.
The first two are rows of tables: a million strategies have some thousand rows. Strategies are in the order of KEY. Of
those that differ in their placement alone, and have all groups as near in HB domains, the first one counts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from railcore.engines.strategies.iteration import OBSTACLES, STRATEGY_COLUMNS, STRATEGY_RANGES
from railcore.engines.strategies.layer_time import LAYER_COLUMNS
from railcore.engines.strategies.stage_costs import STAGE_COLUMNS
from railcore.engines.strategies.unique_rows import Columns, unique_places, unique_rows
from railcore.facts.arguments import checked
from railcore.facts.checks import whole
from railcore.training.expert_dispatch import parts_groups
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import indivisible
from railcore.training.rank import mixture_shares
from railcore.training.rank_order import PLACEMENTS, group_levels
from railcore.training.runtime import MODERN, Runtime, as_runtime
from railcore.training.transformer import LEVELS, RECOMPUTE, Transformer, as_model

SPLIT = ("tensor", "context", "pipeline", "data")
_GROUP = (*SPLIT, "expert", "whole_experts", "placement")
_CHOICES = ("sequence_parallel", "recompute", "keep_gathered")
DESIGN = (*SPLIT, "expert", "placement")  # what tells designs apart that are no neighbours
KEY = (  # by which strategies are in order
    *(*_GROUP, "interleave", "sharding", "ends_as_layers"),
    *("micro_batch", "sequence_parallel", "recompute", "keep_gathered", "global_batch"),
)
_NAMES = LEVELS | {"placement": PLACEMENTS}
_BLOCK_ROWS = 131_072  # strategies of a block at most, unless one stage has more
_PIECE_ROWS = 49_152  # of layers before choices, unless one split has more
Allowed = tuple[tuple[str, tuple[int, ...] | None], ...]  # of each of STRATEGY_COLUMNS, None for whatever divides


@lru_cache(maxsize=4096)
def divisors(n: int) -> np.ndarray:
    """Divisors of n in order."""
    small = np.arange(1, math.isqrt(n) + 1)
    small = small[n % small == 0]
    found = np.unique(np.concatenate([small, n // small]))
    found.setflags(write=False)
    return found


def allowed_values(global_batch: Any, limits: dict[str, Any]) -> Allowed:
    """Values allowed for each name in STRATEGY_COLUMNS. Raises ValueError as `strategy_blocks`."""
    if unknown := sorted(set(limits) - set(STRATEGY_COLUMNS)):
        raise ValueError(f"limit {unknown[0]!r} is unknown: name one of {', '.join(STRATEGY_COLUMNS)}")
    given = {"placement": "all", **limits, "global_batch": global_batch}
    allowed: dict[str, tuple[int, ...] | None] = dict.fromkeys(STRATEGY_COLUMNS)
    for name, values in given.items():
        names = _NAMES.get(name, ())
        listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
        if name == "placement" and values == "all":
            listed = list(names)
        array = np.asarray([names.index(value) if value in names else value for value in listed])
        least, most = (0, len(names) - 1) if names else STRATEGY_RANGES[name]
        if array.dtype.kind not in "biu" or not array.size or array.min() < least or array.max() > most:
            named = f"{', '.join(names)}, or " if names else ""
            raise ValueError(f"{name} is {values!r}: give {named}whole numbers from {least} to {most}")
        allowed[name] = tuple(np.unique(array.astype(np.int64)).tolist())
    return tuple(allowed.items())


def _among(values: np.ndarray, allowed: tuple[int, ...] | None) -> np.ndarray:
    """The values that are allowed, all where there is no limit."""
    return values if allowed is None else values[np.isin(values, allowed)]


def exact_splits(model: Transformer, gpus: int, allowed: Allowed) -> tuple[np.ndarray, dict[str, int]]:
    """Splits of all GPUs over tensor, context, pipeline and data ranks that divide [n, 4]; all splits by obstacle."""
    limits = dict(allowed)
    rows = [
        (t, c, p, gpus // (t * c * p))
        for t in _among(divisors(gpus), limits["tensor"]).tolist()
        for c in _among(divisors(gpus // t), limits["context"]).tolist()
        for p in _among(divisors(gpus // (t * c)), limits["pipeline"]).tolist()
    ]
    splits = np.array(rows, np.int64).reshape(-1, len(SPLIT))
    if limits["data"] is not None:
        splits = splits[np.isin(splits[:, 3], limits["data"])]
    obstacle = _split_obstacles(model, splits, limits)
    good = obstacle == len(OBSTACLES)
    return splits[good], dict(Counter([*OBSTACLES, "feasible"][i] for i in obstacle))


def _split_obstacles(model: Transformer, splits: np.ndarray, limits: dict[str, Any]) -> np.ndarray:
    """Place in OBSTACLES of what no batch and no ends change for a split, and the next number where nothing is."""
    columns = {name: splits[:, i, None, None] for i, name in enumerate(SPLIT)}
    ends = np.asarray(limits["ends_as_layers"] or (0, 1))
    columns |= {"global_batch": np.asarray(limits["global_batch"])[:, None], "ends_as_layers": ends}
    wrong = indivisible(model, columns)
    obstacle = np.full(len(splits), len(OBSTACLES))
    for name in reversed(wrong):
        every = np.broadcast_to(wrong[name], (len(splits), columns["global_batch"].size, ends.size)).all(axis=(1, 2))
        obstacle[every] = OBSTACLES.index(name)
    return obstacle


def _degrees_at_most(
    model: Transformer, gpus: int, limits: dict[str, Any], domain: int, ragged: bool
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Tensor ranks, context ranks, and the numbers of layers that a pipeline may split, its ends among them or not."""
    t = _among(divisors(model.heads), limits["tensor"])
    t = t[(t <= gpus) & (ragged | (domain % t == 0) | (t % domain == 0))]
    c = _among(divisors(model.sequence_length), limits["context"])
    return t, c[c <= gpus], sorted({model.layers + 2 * ends for ends in limits["ends_as_layers"] or (0, 1)})


def _data_degrees(batch: int, limits: dict[str, Any]) -> np.ndarray:
    """Data ranks that divide a batch, with a micro-batch that is allowed."""
    each = [batch // b for b in limits["micro_batch"] or (1,) if batch % b == 0]
    return _among(np.unique(np.concatenate([divisors(k) for k in each] or [np.zeros(0, int)])), limits["data"])


def splits_at_most(
    model: Transformer, gpus: int, allowed: Allowed, domain: int, ragged: bool
) -> tuple[np.ndarray, dict[str, int]]:
    """Splits [n, 4] that use most of the GPUs, and all splits that were tried by obstacle.

    For each t, c and p the largest d that divides a batch: n = t c p d is at most `gpus`. Of the numbers of stages that
    leave as many layers on the fullest one only the least, unless p is limited.

    Parameters
    ----------
    model, gpus, allowed
        What is trained, GPUs that can be used, values allowed.
    domain, ragged
        GPUs used of an HB domain, K'; whether tensor ranks need not be K' / t in a domain or t / K' domains.

    Returns
    -------
    Rows of t, c, p, d in order; counts.
    """
    limits = dict(allowed)
    t, c, places = _degrees_at_most(model, gpus, limits, domain, ragged)
    p = np.unique([-(-many // -(-many // n)) for many in places for n in range(1, many + 1)])
    if limits["pipeline"] is not None:
        p = np.asarray(limits["pipeline"])
    t, c, p = (grid.ravel() for grid in np.meshgrid(t, c, p, indexing="ij"))
    most = gpus // (t * c * p)
    found = []
    for batch in limits["global_batch"] or ():
        d = _data_degrees(batch, limits)
        place = np.searchsorted(d, most, "right") - 1
        found.append(np.column_stack([t, c, p, d[place]])[place >= 0] if d.size else np.zeros((0, 4), int))
    splits = np.unique(np.concatenate(found), axis=0)
    obstacle = _split_obstacles(model, splits, limits)
    return splits[obstacle == len(OBSTACLES)], dict(Counter([*OBSTACLES, "feasible"][i] for i in obstacle))


def all_splits_at_most(model: Transformer, gpus: int, allowed: Allowed, domain: int, ragged: bool) -> np.ndarray:
    """All splits of at most so many GPUs that divide.

    Parameters
    ----------
    model, gpus, allowed, domain, ragged
        As for `splits_at_most`.

    Returns
    -------
    Rows of t, c, p, d in order.
    """
    limits = dict(allowed)
    t, c, places = _degrees_at_most(model, gpus, limits, domain, ragged)
    p = _among(np.arange(1, min(places[-1], gpus) + 1), limits["pipeline"])
    degrees = [_data_degrees(batch, limits) for batch in limits["global_batch"] or ()]
    d = np.unique(np.concatenate(degrees))
    grids = np.meshgrid(t, c, p, d[d <= gpus], indexing="ij")
    splits = np.column_stack([grid.ravel() for grid in grids])
    splits = splits[np.prod(splits, axis=1) <= gpus]
    return splits[_split_obstacles(model, splits, limits) == len(OBSTACLES)]


@dataclass(frozen=True)
class Space:
    """The strategies of some splits as rows of tables.

    layers, stages: columns LAYER_COLUMNS and STAGE_COLUMNS, a row each; layers are given once for all splits that they
        serve: layer_of are their rows.
    layer_first, layer_last: of each stage, its part of layer_of.
    first, first_interleaved, last: of each entry of layer_of, its part of `batches`, by whether v > 1.
    design: of each stage, a number of its DESIGN.
    """

    layers: Columns
    stages: Columns
    layer_of: np.ndarray
    layer_first: np.ndarray
    layer_last: np.ndarray
    first: np.ndarray
    first_interleaved: np.ndarray
    last: np.ndarray
    batches: np.ndarray
    design: np.ndarray

    @cached_property
    def counts(self) -> np.ndarray:
        """Strategies of each stage."""
        plain, interleaved = (
            np.concatenate([[0], np.cumsum(self.last - first)]) for first in (self.first, self.first_interleaved)
        )
        each = np.where(self.stages["interleave"] > 1, *(
            sums[self.layer_last] - sums[self.layer_first] for sums in (interleaved, plain)
        ))  # fmt: skip
        return each.astype(np.int64)

    def strategies(self, stage: np.ndarray, entry: np.ndarray, batch: np.ndarray) -> Columns:
        """Columns STRATEGY_COLUMNS of strategies given by their stage, their entry of layer_of and their batch."""
        layer = self.layer_of[entry]
        found = {name: self.stages[name][stage] for name in STAGE_COLUMNS}
        found |= {name: self.layers[name][layer] for name in ("micro_batch", *_CHOICES)}
        found["global_batch"] = self.batches[batch]
        return {name: found[name] for name in STRATEGY_COLUMNS}

    def blocks(self) -> Iterator[Columns]:
        """All strategies in their order, in blocks of columns."""
        counts = self.counts
        ends = np.cumsum(counts)
        begin = 0
        while begin < counts.size:
            before = ends[begin] - counts[begin]
            end = max(int(np.searchsorted(ends, before + _BLOCK_ROWS, "right")), begin + 1)
            stage, entry = _ranges(self.layer_first[begin:end], self.layer_last[begin:end])
            interleaved = self.stages["interleave"][begin:end][stage] > 1
            first = np.where(interleaved, self.first_interleaved[entry], self.first[entry])
            pair, batch = _ranges(first, self.last[entry])
            if pair.size:
                yield self.strategies(stage[pair] + begin, entry[pair], batch)
            begin = end


def _ranges(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All numbers from `first` up to `last` of each row, one row after the other, and their rows."""
    counts = np.maximum(last - first, 0)
    row = np.repeat(np.arange(counts.size), counts)
    return row, np.arange(row.size) - np.repeat(np.cumsum(counts) - counts - first, counts)


def pieces(model: Transformer, splits: np.ndarray, allowed: Allowed) -> Iterator[np.ndarray]:
    """The splits in their order, cut so that the tables of each piece stay small.

    A split has as many rows as micro-batches, experts and placements.
    """
    limits = dict(allowed)
    batches = np.asarray(limits["global_batch"])
    steps = {
        d: _batches_by_micro_batch(tuple(batches[batches % d == 0].tolist()), d, limits["micro_batch"])[0].size
        for d in np.unique(splits[:, 3]).tolist()
    }
    each = len(divisors(max(model.experts, 1))) * (1 + (model.experts > 0)) * len(limits["placement"] or ())
    rows = np.cumsum([each * steps[d] for d in splits[:, 3].tolist()])
    begin = 0
    while begin < len(splits):
        before = rows[begin - 1] if begin else 0
        end = max(int(np.searchsorted(rows, before + _PIECE_ROWS, "right")), begin + 1)
        yield np.ascontiguousarray(splits[begin:end])
        begin = end


@lru_cache(maxsize=8)
def space_of(model: Transformer, splits: bytes, allowed: Allowed, runtime: Runtime, hb_domain_size: int) -> Space:
    """The strategies of some splits, kept for searches on other machines.

    Parameters
    ----------
    model
        What is trained.
    splits
        Rows of t, c, p, d as the bytes of whole numbers of 64 bits.
    allowed
        Values allowed of each column.
    runtime
        Of which it counts whether selective recompute is none, and how tokens find their experts.
    hb_domain_size
        K, of whose domains groups of ranks are in one or several.

    Returns
    -------
    Tables.
    """
    limits = dict(allowed)
    table = np.frombuffer(splits, np.int64).reshape(-1, len(SPLIT))
    split = dict(zip(SPLIT, table.T, strict=True))
    group, kind_of, kinds = _groups(model, split, limits, runtime, hb_domain_size)
    stages, of_group = _stages(model, group, limits)
    pairs, pair = unique_rows(group, ("pipeline", "data"))
    steps = _micro_batches(model, pairs, limits)
    begin = np.searchsorted(steps["pair"], np.arange(pairs["data"].size + 1))
    row, step = _ranges(begin[pair], begin[pair + 1])
    # A layer is of a kind of group, a micro-batch, and a choice of those that its kind has.
    micro_batch = steps["micro_batch"][step]
    place, layer = unique_places({"kind": kind_of[row], "micro_batch": micro_batch}, ("kind", "micro_batch"))
    choices, good = _choices(model, kinds, limits, runtime)
    of_layer, choice = np.nonzero(good[kind_of[row][place]])
    starts = np.searchsorted(of_layer, np.arange(place.size + 1))
    layers = {name: values[kind_of[row][place]][of_layer] for name, values in kinds.items()}
    layers |= {"micro_batch": micro_batch[place][of_layer]} | {name: values[choice] for name, values in choices.items()}
    entry, layer_of = _ranges(starts[layer], starts[layer + 1])
    of_entry = np.searchsorted(row[entry], np.arange(group["tensor"].size + 1))
    return Space(
        layers={name: layers[name] for name in LAYER_COLUMNS},
        stages=stages,
        layer_of=layer_of,
        layer_first=of_entry[of_group],
        layer_last=of_entry[of_group + 1],
        **{name: steps[name][step][entry] for name in ("first", "first_interleaved", "last")},
        batches=steps["batches"],
        design=unique_places(stages, DESIGN)[1],
    )


def _groups(
    model: Transformer, split: Columns, limits: dict[str, Any], runtime: Runtime, hb_domain_size: int
) -> tuple[Columns, np.ndarray, Columns]:
    """Splits with experts and placement, a row each; which kind of layers each has, and of each kind one of them.

    Layers are of one kind where sizes are equal, and tensor, context and expert ranks are as near each other.
    """
    axes = {
        "expert": _among(divisors(max(model.experts, 1)), limits["expert"]),
        "whole_experts": _among(np.arange(2), limits["whole_experts"]),
        "placement": np.asarray(limits["placement"]),
    }
    row, choice = _combined(split["tensor"].size, axes)
    group = {name: values[row] for name, values in split.items()} | choice
    good = ~indivisible(model, group)["experts"] & ~((group["whole_experts"] > 0) & (group["tensor"] == 1))
    group = {name: values[good] for name, values in group.items()}
    near = {kind: levels.in_domains(hb_domain_size) for kind, levels in group_levels(group).items()}
    codes = group | {f"{kind} near": inside for kind, (inside, _) in near.items()}
    codes["pipeline near"] = near["pipeline"][1] == 1
    first, _ = unique_places(codes, [name for name in codes if name != "placement"])
    if model.experts and runtime.dispatcher == "nodes":
        inside, domains = (values[first] for values in near["expert"])
        first = first[~parts_groups("nodes", model.expert_groups, inside * domains, domains)]
    first = np.sort(first)
    group, codes = ({name: values[first] for name, values in each.items()} for each in (group, codes))
    codes["mixtures"] = np.unique(mixture_shares(model, group["pipeline"]), axis=1, return_inverse=True)[1].ravel()
    names = ("tensor", "context", "expert", "whole_experts", "mixtures")
    kinds, kind_of = unique_places(codes, [*names, *(f"{kind} near" for kind in ("tensor", "context", "expert"))])
    return group, kind_of, {name: values[kinds] for name, values in group.items()}


def _choices(
    model: Transformer, kinds: Columns, limits: dict[str, Any], runtime: Runtime
) -> tuple[Columns, np.ndarray]:
    """Choices of a layer in order, and whether layers of each kind have them [kinds, choices]."""
    levels = _among(np.arange(len(RECOMPUTE)), limits["recompute"])
    if runtime.selective_is_none and 0 in levels:
        levels = levels[levels != RECOMPUTE.index("selective")]
    axes = {"sequence_parallel": np.arange(2), "recompute": levels, "keep_gathered": np.arange(2)}
    _, choice = _combined(1, {name: _among(values, limits[name]) for name, values in axes.items()})
    sliced = choice["sequence_parallel"] > 0
    split = {name: kinds[name][:, None] for name in ("tensor", "context")}
    good = ~indivisible(model, split | {"sequence_parallel": sliced})["sequence"]
    good &= sliced | (kinds["whole_experts"][:, None] == 0)
    good &= (choice["keep_gathered"] == 0) | (sliced & (choice["recompute"] < RECOMPUTE.index("full")))
    return choice, good


def _combined(rows: int, axes: Columns) -> tuple[np.ndarray, Columns]:
    """Every row with every combination of the axes' values, in order: its number, and the values."""
    places = [grid.ravel() for grid in np.meshgrid(np.arange(rows), *axes.values(), indexing="ij")]
    return places[0], dict(zip(axes, places[1:], strict=True))


def _stages(model: Transformer, group: Columns, limits: dict[str, Any]) -> tuple[Columns, np.ndarray]:
    """Stages of all groups, and the group of each."""
    L, chosen = model.layers, limits["interleave"]
    chunks = np.union1d(divisors(L), divisors(L + 2)) if chosen is None else np.asarray(chosen)
    axes = {
        "interleave": chunks,
        "sharding": _among(np.arange(len(LEVELS["sharding"])), limits["sharding"]),
        "ends_as_layers": _among(np.arange(2), limits["ends_as_layers"]),
    }
    row, choice = _combined(group["tensor"].size, axes)
    columns = {name: values[row] for name, values in group.items()} | choice
    wrong = indivisible(model, {name: values for name, values in columns.items() if name in STAGE_COLUMNS})
    good = ~wrong["layers"] & ~wrong["interleave"]
    v, places = columns["interleave"], L + 2 * columns["ends_as_layers"]
    if chosen is None:
        good &= (v == 1) | (places % (columns["pipeline"] * v) == 0)
    ranks = columns["context"] * columns["data"]
    holders = ranks * np.where(columns["whole_experts"] > 0, columns["tensor"], 1) // columns["expert"]
    if axes["sharding"].size:
        good &= (ranks > 1) | (holders > 1) | (columns["sharding"] == axes["sharding"][0])
    return {name: columns[name][good] for name in STAGE_COLUMNS}, row[good]


def _micro_batches(model: Transformer, pairs: Columns, limits: dict[str, Any]) -> Columns:
    """Micro-batches of each pair of p and d, and the part of the batches that each divides, in order."""
    batches = np.asarray(limits["global_batch"])
    found: list[list[np.ndarray]] = [[], [], []]
    for number, d in enumerate(pairs["data"].tolist()):
        b, batch = _batches_by_micro_batch(tuple(batches[batches % d == 0].tolist()), d, limits["micro_batch"])
        for values, kept in zip((np.full(b.size, number), b, batch), found, strict=True):
            kept.append(values)
    pair, b, batch = (np.concatenate([np.zeros(0, np.int64), *values]) for values in found)
    new = np.ones(pair.size, bool)
    new[1:] = (np.diff(pair) != 0) | (np.diff(b) != 0)
    first = np.flatnonzero(new)
    columns = {
        "pipeline": pairs["pipeline"][pair],
        "data": pairs["data"][pair],
        "micro_batch": b,
        "global_batch": batch,
    }
    too_few = indivisible(model, {**columns, "interleave": 2})["interleave"]  # the first ones, as batches are in order
    few = np.add.reduceat(too_few.astype(np.int64), first) if first.size else first
    return {
        "pair": pair[first],
        "micro_batch": b[first],
        "first": first,
        "first_interleaved": first + few,
        "last": np.append(first[1:], pair.size) if first.size else first,
        "batches": batch,
    }


@lru_cache(maxsize=512)
def _batches_by_micro_batch(
    batches: tuple[int, ...], d: int, allowed: tuple[int, ...] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Micro-batches with the batches that they divide at d data ranks, in order."""
    found = [_among(divisors(batch // d), allowed) for batch in batches]
    b = np.concatenate([np.zeros(0, np.int64), *found])
    batch = np.repeat(np.asarray(batches, np.int64), [len(some) for some in found])
    order = np.lexsort((batch, b))
    return b[order], batch[order]


@checked
def strategy_blocks(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str = MODERN,
    **limits: int | str | Sequence,
) -> Iterator[Columns]:
    """Every strategy of `gpus` GPUs that divides heads, sequence, experts and batch, in blocks of columns.

    Layers need not divide over stages: the fullest one has them rounded up. Chunks do: v with p v a divisor of the
    layers (two more where ends_as_layers), or v = 1. What changes nothing is left out: selective recompute beside
    none where attention is fused, sharding over one rank, gathered inputs kept that are not sliced or are recomputed,
    embedding and loss as layers of one stage, whole experts of one tensor rank or without sequence parallelism, and
    placements that put all groups as near in HB domains as another one does.

    Parameters
    ----------
    model
        What is trained, or its name in the catalog.
    machine
        A GPU and its links, or its platform's name; its HB domain counts.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    runtime
        Of which it counts whether attention is fused, and how tokens find their experts.
    limits
        The values allowed of any name in STRATEGY_COLUMNS, such as tensor=8, recompute=["none", "full"], placement=
        "tensor first", or interleave=[4], which is taken as it is, layers rounded up. By default whatever divides, and
        all of PLACEMENTS.

    Returns
    -------
    Arrays of one shape by the names in STRATEGY_COLUMNS.

    Raises
    ------
    ValueError
        For a count or limit out of range.
    """
    model, allowed = as_model(model), allowed_values(global_batch, dict(limits))
    whole("gpus", gpus, most=STRATEGY_RANGES["data"][1])
    splits = exact_splits(model, gpus, allowed)[0]
    shared = allowed, as_runtime(runtime), as_machine(machine).hb_domain_size
    found = (space_of(model, piece.tobytes(), *shared) for piece in pieces(model, splits, allowed))
    return (block for space in found for block in space.blocks())
