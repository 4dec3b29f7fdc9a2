"""The strategies of a cluster as tables of stages and layers.

A strategy is a stage (split, experts, placement, chunks, sharding), a layer (micro-batch, recompute) and a batch.
Of full recompute a search finds by itself how many layers of a stage it must be of (FEWEST_LAYERS).
Stages and layers are rows of tables: a few thousand rows make a million strategies. Strategies are in the order of KEY.
Where placements alone differ, and put all groups as near in HB domains with equal shares of a NIC, only the first is
kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from railcore.strategies.kernel import FEWEST_LAYERS, FEWEST_LAYERS_ALONE
from railcore.strategies.splits import SPLIT, Allowed, allowed_values, among, divisors, exact_splits
from railcore.training.expert_dispatch import splits_groups
from railcore.training.group_shares import Fabric, group_shares
from railcore.training.layer_traffic import LINK_KINDS
from railcore.training.machine import Machine, as_machine
from railcore.training.machine_parts import GpuLinks
from railcore.training.parallelism import ALL_LAYERS, RECOMPUTE_COUNTS, indivisible
from railcore.training.rank import LAYER_COLUMNS, mixture_shares
from railcore.training.rank_order import gpus_of, group_levels
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.stage import STAGE_COLUMNS
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import LEVELS, RECOMPUTE, Transformer, as_model
from railcore.training.unique_rows import Columns, unique_places, unique_rows

_GROUP = (*SPLIT, "expert", "whole_experts", "placement")
_CHOICES = ("sequence_parallel", "recompute", "recomputed_layers", "recompute_group", "keep_gathered")
DESIGN = (*SPLIT, "expert", "placement")  # columns that tell designs apart
KEY = (  # the order of strategies
    *(*_GROUP, "interleave", "sharding", "ends_as_layers"),
    *("micro_batch", *_CHOICES, "global_batch"),
)
_BLOCK_ROWS = 131_072  # strategies of a block at most, unless one stage has more
_PIECE_ROWS = 49_152  # of layers before choices, unless one split has more


@dataclass(frozen=True)
class Space:
    """The strategies of some splits as rows of tables.

    layers, stages: columns LAYER_COLUMNS and STAGE_COLUMNS; a layer stands once for all stages that it serves.
    layer_of: rows of layers, those of one stage after those of another.
    layer_first, layer_last: the part of layer_of of each stage.
    first, last: the part of `batches` of each entry of layer_of; first_interleaved in place of first where v > 1.
    design: a number for the DESIGN of each stage.
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
        counts = [sums[self.layer_last] - sums[self.layer_first] for sums in (interleaved, plain)]
        return np.where(self.stages["interleave"] > 1, *counts).astype(np.int64)

    def strategies(self, stage: np.ndarray, entry: np.ndarray, batch: np.ndarray) -> Columns:
        """Columns STRATEGY_COLUMNS of strategies given by their stage, their entry of layer_of and their batch."""
        layer = self.layer_of[entry]
        columns = {name: self.stages[name][stage] for name in STAGE_COLUMNS}
        columns |= {name: self.layers[name][layer] for name in ("micro_batch", *_CHOICES)}
        columns["recomputed_layers"] = np.maximum(columns["recomputed_layers"], ALL_LAYERS)
        columns["global_batch"] = self.batches[batch]
        return {name: columns[name] for name in STRATEGY_COLUMNS}

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
    """The splits in their order, in pieces whose tables stay small.

    A split has a row for each micro-batch, number of expert ranks and placement.
    """
    limits = dict(allowed)
    batches = np.asarray(limits["global_batch"])
    steps = {
        d: _batches_by_micro_batch(tuple(batches[batches % d == 0].tolist()), d, limits["micro_batch"])[0].size
        for d in np.unique(splits[:, 3]).tolist()
    }
    per_step = len(divisors(max(model.experts, 1))) * (1 + (model.experts > 0)) * len(limits["placement"] or ())
    rows = np.cumsum([per_step * steps[d] for d in splits[:, 3].tolist()])
    begin = 0
    while begin < len(splits):
        before = rows[begin - 1] if begin else 0
        end = max(int(np.searchsorted(rows, before + _PIECE_ROWS, "right")), begin + 1)
        yield np.ascontiguousarray(splits[begin:end])
        begin = end


@lru_cache(maxsize=8)
def space_of(model: Transformer, splits: bytes, allowed: Allowed, runtime: Runtime, links: GpuLinks) -> Space:
    """The strategies of some splits; cached for searches on other machines.

    Parameters
    ----------
    model
        What is trained.
    splits
        Rows of t, c, p, d as bytes of 64-bit integers.
    allowed
        Values allowed of each column.
    runtime
        Its selective recompute and dispatcher count.
    links
        Its HB domains and fabric count: how near groups of ranks lie, and their shares of a NIC.

    Returns
    -------
    Tables.
    """
    limits = dict(allowed)
    table = np.frombuffer(splits, np.int64).reshape(-1, len(SPLIT))
    split = dict(zip(SPLIT, table.T, strict=True))
    group, kind_of, kinds = _groups(model, split, limits, runtime, links)
    stages, of_group = _stages(model, group, limits)
    pairs, pair = unique_rows(group, ("pipeline", "data"))
    steps = _micro_batches(model, pairs, limits)
    begin = np.searchsorted(steps["pair"], np.arange(pairs["data"].size + 1))
    row, step = _ranges(begin[pair], begin[pair + 1])
    # A layer is a kind of group, a micro-batch, and a choice that this kind has.
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
        layers={name: layers[name] for name in (*LAYER_COLUMNS, "recomputed_layers")},
        stages=stages,
        layer_of=layer_of,
        layer_first=of_entry[of_group],
        layer_last=of_entry[of_group + 1],
        **{name: steps[name][step][entry] for name in ("first", "first_interleaved", "last")},
        batches=steps["batches"],
        design=unique_places(stages, DESIGN)[1],
    )


def _groups(
    model: Transformer, split: Columns, limits: dict[str, Any], runtime: Runtime, links: GpuLinks
) -> tuple[Columns, np.ndarray, Columns]:
    """Groups: splits with experts and placement, a row each; the kind of layers of each group; a group of each kind.

    Layers are of one kind where sizes are equal, and tensor, context and expert ranks lie equally near and get equal
    shares of a NIC.
    """
    axes = {
        "expert": among(divisors(max(model.experts, 1)), limits["expert"]),
        "whole_experts": among(np.arange(2), limits["whole_experts"]),
        "placement": np.asarray(limits["placement"]),
    }
    row, choice = _combined(split["tensor"].size, axes)
    group = {name: values[row] for name, values in split.items()} | choice
    good = ~indivisible(model, group)["experts"] & ~((group["whole_experts"] > 0) & (group["tensor"] == 1))
    group = {name: values[good] for name, values in group.items()}
    groups = group_levels(group)
    near = {kind: levels.in_domains(links.hb_domain_size) for kind, levels in groups.items()}
    shares = group_shares(links.fabric, groups, links.hb_domain_size, gpus_of(group))
    codes = group | {f"{kind} near": inside for kind, (inside, _) in near.items()}
    for kind, of_nic in {**shares.by_kind, "direct": shares.direct}.items():
        codes[f"{kind} share"] = np.unique(of_nic + 0.0 * group["tensor"], return_inverse=True)[1]
    codes["pipeline near"] = near["pipeline"][1] == 1
    first, _ = unique_places(codes, [name for name in codes if name != "placement"])
    if model.experts and runtime.dispatcher == "nodes":
        inside, domains = (values[first] for values in near["expert"])
        first = first[~splits_groups(model.expert_groups, inside * domains, domains)]
    first = np.sort(first)
    group, codes = ({name: values[first] for name, values in columns.items()} for columns in (group, codes))
    codes["mixtures"] = np.unique(mixture_shares(model, group["pipeline"]), axis=1, return_inverse=True)[1].ravel()
    names = ["tensor", "context", "expert", "whole_experts", "mixtures"]
    names += [f"{kind} {what}" for kind in LINK_KINDS for what in ("near", "share")]
    kinds, kind_of = unique_places(codes, [*names, "direct share"])
    return group, kind_of, {name: values[kinds] for name, values in group.items()}


def _choices(
    model: Transformer, kinds: Columns, limits: dict[str, Any], runtime: Runtime
) -> tuple[Columns, np.ndarray]:
    """Choices of a layer in order, and whether layers of each kind have them [kinds, choices]."""
    levels = among(np.arange(len(RECOMPUTE)), limits["recompute"])
    if runtime.selective_is_none and 0 in levels:
        levels = levels[levels != RECOMPUTE.index("selective")]
    fewest = FEWEST_LAYERS if 0 in levels else FEWEST_LAYERS_ALONE
    axes = {
        "sequence_parallel": among(np.arange(2), limits["sequence_parallel"]),
        "recompute": levels,
        "recomputed_layers": np.asarray(limits["recomputed_layers"] or (fewest,)),
        "recompute_group": np.asarray(limits["recompute_group"] or (1,)),
        "keep_gathered": among(np.arange(2), limits["keep_gathered"]),
    }
    _, choice = _combined(1, axes)
    sliced = choice["sequence_parallel"] > 0
    split = {name: kinds[name][:, None] for name in ("tensor", "context")}
    good = ~indivisible(model, split | {"sequence_parallel": sliced})["sequence"]
    good &= sliced | (kinds["whole_experts"][:, None] == 0)
    full, group, some = choice["recompute"] == RECOMPUTE.index("full"), *(choice[name] for name in RECOMPUTE_COUNTS)
    good &= (choice["keep_gathered"] == 0) | (sliced & ~full & (model.lora_rank == 0))
    good &= full | (group == axes["recompute_group"][0])
    partly = full & (group == 1)  # groups are of all layers
    good &= partly | (some == axes["recomputed_layers"][0])
    choice |= {"recompute_group": np.where(full, group, 1), "recomputed_layers": np.where(partly, some, ALL_LAYERS)}
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
        "sharding": among(np.arange(len(LEVELS["sharding"])), limits["sharding"]),
        "ends_as_layers": among(np.arange(2), limits["ends_as_layers"]),
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
    steps = [np.zeros((0, 3), np.int64)]
    for number, d in enumerate(pairs["data"].tolist()):
        b, batch = _batches_by_micro_batch(tuple(batches[batches % d == 0].tolist()), d, limits["micro_batch"])
        steps.append(np.column_stack([np.full(b.size, number), b, batch]))
    pair, b, batch = np.concatenate(steps).T.copy()
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
    of_batch = [among(divisors(batch // d), allowed) for batch in batches]
    b = np.concatenate([np.zeros(0, np.int64), *of_batch])
    batch = np.repeat(np.asarray(batches, np.int64), [len(values) for values in of_batch])
    order = np.lexsort((batch, b))
    return b[order], batch[order]


def strategy_blocks(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | None = None,
    fabric: Fabric | None = None,
    **limits: int | str | Sequence,
) -> Iterator[Columns]:
    """Every strategy of `gpus` GPUs that divides heads, sequence, experts and batch, in blocks of columns.

    Layers need not divide over stages: the fullest one has them rounded up. Chunks do: v with p v a divisor of the
    layers (two more where ends_as_layers), or v = 1. What changes nothing is left out: selective recompute beside
    none where attention is fused, sharding over one rank, gathered inputs kept that are not sliced or are recomputed,
    embedding and loss as layers of one stage, whole experts of one tensor rank or without sequence parallelism, and
    placements that put all groups as near in HB domains as another one does. Full recompute is of all layers, one by
    one, unless recomputed_layers or recompute_group say otherwise; `search` takes the fewest that fit.

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
        Of which it counts whether attention is fused, and how tokens find their experts; None for the newest.
    fabric
        That the NICs are on, of which it counts what shares of a NIC groups get.
    limits
        The values allowed of any name in STRATEGY_COLUMNS, such as tensor=8, recompute=["none", "full"], placement=
        "tensor first", or interleave=[4], which is taken as it is, layers rounded up. By default whatever divides, and
        of placements, which may be any of ORDERS, those in PLACEMENTS ("all").

    Returns
    -------
    Arrays of one shape by the names in STRATEGY_COLUMNS.

    Raises
    ------
    ValueError
        For a limit out of range.
    """
    model, allowed = as_model(model), allowed_values(global_batch, dict(limits))
    splits = exact_splits(model, gpus, allowed)[0]
    box = as_machine(machine, fabric)
    shared = allowed, as_runtime(runtime, box), box.links
    spaces = (space_of(model, piece.tobytes(), *shared) for piece in pieces(model, splits, allowed))
    return (block for space in spaces for block in space.blocks())
