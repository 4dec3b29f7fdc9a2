"""How a training job is split over GPUs: a strategy, its ranks and groups, and where the groups lie in a cluster.

Symbols: t tensor, c context, p pipeline, d data, e expert parallel ranks; v interleave, the model chunks of a device.
N = t c p d GPUs. A rank's number is its place in the grid of these four, the first of `order` varying fastest.
Expert parallel ranks are no dimension of their own: the c d ranks that hold the same layers and tensor slice (the group
"replica") are cut into runs of e, each of which holds every expert once. So e must divide c d; with whole experts the
tensor ranks are cut too, and e must divide t c d.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.catalog.arguments import Count, NonNegativeArray, NonNegativeInt, check_gpus, checked
from railcore.catalog.checks import one_of, whole
from railcore.training.rank_order import DIMENSIONS, ORDERS, PLACEMENTS, GroupLevels, group_levels
from railcore.training.transformer import LEVELS, Transformer

GROUP_KINDS = ("tensor", "context", "pipeline", "data", "expert", "replica", "expert_replica")
_VOCABULARY_MULTIPLE = 128
_SPLIT_WIDTHS = ("heads", "ffn_hidden", "expert_hidden", "shared_hidden")  # what tensor ranks divide
_COUNTS = ("tensor", "context", "pipeline", "data", "expert", "interleave", "micro_batch")
STRATEGY_SWITCHES = ("sequence_parallel", "ends_as_layers", "keep_gathered", "whole_experts")
ALL_LAYERS = 0  # recomputed, as recomputed_layers says it
RECOMPUTE_COUNTS = ("recompute_group", "recomputed_layers")
LEVEL_NAMES = LEVELS | {"placement": tuple(ORDERS)}  # columns of strategies with names: their values in order
_OTHER_ORDER = "or the dimensions in order, such as 'tensor, data, context, pipeline'"


def level_places(name: str, values: Any) -> NDArray[np.int64]:
    """A column's levels, given as names in LEVEL_NAMES[name] or as places in it, as places [whole numbers].

    Raises ValueError naming the column for an unknown name or place.
    """
    places = {level: place for place, level in enumerate(LEVEL_NAMES[name])}
    array = np.asarray(values, None if hasattr(values, "dtype") else object)
    levels = array.ravel().tolist() if array.dtype.kind in "OUT" else []
    if any(isinstance(level, str) for level in levels):
        if unknown := [level for level in levels if isinstance(level, str) and level not in places]:
            choices = ", ".join((*PLACEMENTS, _OTHER_ORDER) if name == "placement" else places)
            raise ValueError(f"{name} is {unknown[0]!r}: give one of {choices}")
        values = np.reshape([places.get(level, level) for level in levels], array.shape)
    return whole(name, values, 0, len(places) - 1)


def indivisible(model: Transformer, strategy: Mapping[str, Any]) -> dict[str, NDArray[np.bool_]]:
    """What does not divide, by reason: True where a strategy cannot split the model or the batch evenly.

    A strategy divides where

    - heads: t divides heads and the widths of feed-forward and experts, and t divides kv_heads or kv_heads divides t;
    - layers: each of p v chunks has a layer at least, embedding and loss counted where they take a layer's place;
    - batch: d b divides G;
    - interleave: with v > 1 there are p > 1 stages, and at least p micro-batches;
    - sequence: c divides it, or c t where sequence_parallel, which needs t > 1;
    - experts: e divides them, and c d, or t c d where experts are whole.

    strategy: arrays that broadcast, by the names of `Strategy` and global_batch [sequences]. What is missing is taken
    to divide, so that columns can be checked a few at a time. The first reason in this order is named first.
    """
    t, c, p, d, e, v, b = (np.asarray(strategy.get(name, 1)) for name in _COUNTS)
    sliced, ends, whole_experts = (
        np.asarray(strategy.get(name, False), bool) for name in ("sequence_parallel", "ends_as_layers", "whole_experts")
    )
    batch, together = np.asarray(strategy.get("global_batch", d * b * p)), d * b  # sequences that run at a time
    kv, uneven = model.kv_heads, [getattr(model, name) % t > 0 for name in _SPLIT_WIDTHS]
    return {
        "heads": np.any(uneven, axis=0) | ((kv % t > 0) & (t % kv > 0)),
        "layers": (model.layers + 2 * ends < p * v) | (ends & (p == 1)),
        "batch": batch % together > 0,
        "interleave": (v > 1) & ((p == 1) | (-(-batch // together) < p)),
        "sequence": (model.sequence_length % (c * np.where(sliced, t, 1)) > 0) | (sliced & (t == 1)),
        "experts": (max(model.experts, 1) % e > 0)
        | (c * d * np.where(whole_experts, t, 1) % e > 0)
        | (whole_experts & (model.experts == 0)),
    }


@checked
@dataclass(frozen=True)
class Strategy:
    """How one model is split over N = t × c × p × d GPUs.

    tensor: t, ranks that share each layer's matrices.
    context: c, ranks that share a sequence.
    pipeline: p, stages that the layers are spread over.
    data: d, replicas, each with other sequences.
    expert: e, ranks that the experts are spread over; they are among the others.
    interleave: v, model chunks of a stage.
    micro_batch: b, sequences that pass a stage at a time.
    recompute: activations computed again in the backward pass: "none", "selective" (the modules that the software says,
        by default attention scores) or "full".
    sequence_parallel: whether tensor ranks split the activations between the tensor-parallel parts.
    sharding: what data-parallel ranks split: "none", "optimizer" (ZeRO-1), "gradients" (ZeRO-2), "weights" (FSDP).
    order: dimensions, the fastest-varying first; by default Megatron-LM's tp-cp-ep-dp-pp.
    ends_as_layers: whether embedding and loss take the place of a layer each on the first and last stage.
    keep_gathered: whether inputs gathered from sequence-parallel ranks are kept for the backward pass.
    whole_experts: whether tensor ranks hold whole experts, so that e ranks are runs of t c d.
    recomputed_layers: of each stage, whose forward pass full recompute repeats; 0 for all (Megatron's block method, the
        chunks of a stage together, the first ones with one more where they do not divide).
    recompute_group: layers that full recompute repeats together, of which the first one's input is kept (Megatron's
        uniform method); of more than a stage has, those of the stage.
    warnings: what a launch line said that is not used here; comparisons leave it out.

    Raises ValueError naming the argument that is out of range or contradicts another.

    Examples
    --------
    >>> import railcore as rc
    >>> strategy = rc.Strategy(tensor=8, pipeline=4, data=16, micro_batch=2)
    >>> strategy.gpus, strategy.microbatches(1024)
    (512, 32)
    """

    tensor: Count = 1
    context: Count = 1
    pipeline: Count = 1
    data: Count = 1
    expert: Count = 1
    interleave: Count = 1
    micro_batch: Count = 1
    recompute: str = "none"
    sequence_parallel: bool = False
    sharding: str = "none"
    order: tuple[str, ...] = DIMENSIONS
    ends_as_layers: bool = False
    keep_gathered: bool = False
    whole_experts: bool = False
    recomputed_layers: NonNegativeInt = 0
    recompute_group: Count = 1
    warnings: tuple[str, ...] = field(default=(), compare=False)
    made_by = "Strategy(tensor=8, data=4, ...)"

    def __post_init__(self) -> None:
        for name, levels in LEVELS.items():
            one_of(name, getattr(self, name), levels)
        for name in STRATEGY_SWITCHES:
            object.__setattr__(self, name, bool(getattr(self, name)))
        object.__setattr__(self, "order", tuple(self.order))
        if sorted(self.order) != sorted(DIMENSIONS):
            raise ValueError(f"order is {self.order!r}: give {', '.join(DIMENSIONS)}, each once")
        if self.sequence_parallel and self.tensor == 1:
            raise ValueError("sequence_parallel is True with tensor 1: it splits over the tensor ranks, give 2 or more")
        if self.interleave > 1 and self.pipeline == 1:
            raise ValueError(
                f"interleave is {self.interleave} with pipeline 1: give pipeline 2 or more, or interleave 1"
            )
        if self.recompute != "full" and (self.recomputed_layers or self.recompute_group > 1):
            name = "recomputed_layers" if self.recomputed_layers else "recompute_group"
            raise ValueError(
                f"{name} is {getattr(self, name)} with recompute {self.recompute!r}: give recompute 'full', or leave "
                "it out"
            )
        if self.recomputed_layers and self.recompute_group > 1:
            raise ValueError(
                f"recomputed_layers is {self.recomputed_layers} with recompute_group {self.recompute_group}: give one "
                "of them, groups are of all layers"
            )
        spread = self._expert_dimensions
        if math.prod(getattr(self, name) for name in spread) % self.expert:
            sizes = " x ".join(str(getattr(self, name)) for name in spread)
            raise ValueError(
                f"expert is {self.expert}: give a divisor of {' x '.join(spread)}, {sizes} "
                "(experts are spread over the ranks of one replica group)"
            )

    @property
    def gpus(self) -> int:
        """GPUs of the job, N = t c p d."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def _expert_dimensions(self) -> tuple[str, ...]:
        """Dimensions of the ranks that experts are spread over."""
        return ("tensor", "context", "data") if self.whole_experts else ("context", "data")

    @checked
    def microbatches(self, global_batch: Count) -> int:
        """Micro-batches that a pipeline runs in one step: m = B / (d b). Raises ValueError unless whole.

        global_batch: B [sequences].
        """
        together = self.data * self.micro_batch  # sequences that run at a time
        if global_batch % together:
            raise ValueError(
                f"global_batch is {global_batch}: give a multiple of data x micro_batch, "
                f"{self.data} x {self.micro_batch} = {together}"
            )
        return global_batch // together

    @checked
    def columns(self, global_batch: NonNegativeInt) -> dict[str, int]:
        """The strategy and its batch as arrays take them: recompute, sharding and order by their place."""
        places = {name: levels.index(getattr(self, name)) for name, levels in LEVELS.items()}
        counts = {name: int(getattr(self, name)) for name in (*_COUNTS, *STRATEGY_SWITCHES, *RECOMPUTE_COUNTS)}
        return {**counts, **places, "placement": list(ORDERS.values()).index(self.order), "global_batch": global_batch}

    @classmethod
    def from_columns(cls, row: Mapping[str, Any]) -> "Strategy":
        """The strategy of a row of `search`'s tables, its batch left out; levels by name or place in LEVEL_NAMES.

        Raises ValueError where columns miss, for several rows, and for an unknown level.
        """
        if missing := [name for name in (*_COUNTS, *LEVELS, "sequence_parallel") if name not in row]:
            raise ValueError(f"strategy lacks {', '.join(missing)}: give Strategy(...), or all that a search's row has")
        if tables := [name for name, value in row.items() if np.ndim(value)]:
            raise ValueError(f"strategy has several values of {tables[0]}: give one row of a search's table")
        counts: dict[str, Any] = {name: int(row[name]) for name in _COUNTS}
        names: dict[str, Any] = {name: levels[level_places(name, row[name])] for name, levels in LEVELS.items()}
        names |= {name: bool(row[name]) for name in STRATEGY_SWITCHES if name in row}
        counts |= {name: int(row[name]) for name in RECOMPUTE_COUNTS if name in row}
        return cls(**counts, **names, order=list(ORDERS.values())[level_places("placement", row.get("placement", 0))])

    @checked
    def check(
        self, model: Transformer, global_batch: Count, gpus: Count | None = None, layers_listed: bool = False
    ) -> tuple[str, ...]:
        """What is odd but allowed, as texts. Raises ValueError for what `indivisible` finds, naming it.

        Parameters
        ----------
        model, global_batch
            What is split, and sequences of an iteration.
        gpus
            Of the cluster.
        layers_listed
            Whether the layers of each stage are given, so that uneven ones are meant.

        Returns
        -------
        Texts.
        """
        if gpus is not None and gpus != self.gpus:
            factors = " x ".join(f"{name} {getattr(self, name)}" for name in DIMENSIONS)
            raise ValueError(f"gpus is {gpus}, but the strategy takes {factors} = {self.gpus}: change one of them")
        uneven = [name for name in _SPLIT_WIDTHS if getattr(model, name) % self.tensor]
        of_width = f"a divisor of {uneven[0]} {getattr(model, uneven[0])}" if uneven else ""
        of_experts = f": give a divisor of experts {model.experts}" if model.experts else ""
        together = self.data * self.micro_batch
        remedies = {
            "heads": f"tensor is {self.tensor}: give "
            + (of_width or f"a divisor or a multiple of kv_heads {model.kv_heads}"),
            "layers": f"pipeline x interleave is {self.pipeline} x {self.interleave}, ends_as_layers "
            f"{self.ends_as_layers}: give at most one chunk for each of layers {model.layers}, and more than one stage "
            "for ends as layers",
            "batch": f"global_batch is {global_batch}: give a multiple of data x micro_batch, "
            f"{self.data} x {self.micro_batch} = {together}",
            "interleave": f"interleave is {self.interleave}: give 1, or at most {-(-global_batch // together)} stages, "
            f"one for each micro-batch, not {self.pipeline}",
            "sequence": f"context is {self.context}, sequence_parallel {self.sequence_parallel}: give a divisor of "
            f"sequence_length {model.sequence_length} as context, or as context x tensor",
            "experts": f"expert is {self.expert}" + (of_experts or f", but {model.name} has no experts: give 1"),
        }
        wrong = indivisible(model, {**vars(self), "global_batch": global_batch})
        if faults := [remedies[reason] for reason in remedies if wrong[reason]]:
            raise ValueError(f"{'; '.join(faults)} ({model.name})")
        return self._oddities(model, self.microbatches(global_batch), layers_listed)

    def _oddities(self, model: Transformer, microbatches: int, layers_listed: bool) -> tuple[str, ...]:
        """What is odd but allowed, as texts."""
        texts, multiple = [], _VOCABULARY_MULTIPLE * self.tensor
        if model.kv_heads % self.tensor:
            texts.append(f"kv_heads {model.kv_heads} over tensor {self.tensor}: heads of keys and values are copied")
        if model.vocabulary % self.tensor:
            padded = -(-model.vocabulary // multiple) * multiple
            texts.append(f"vocabulary {model.vocabulary} is padded to {padded}, a multiple of {multiple}")
        places = model.layers + 2 * self.ends_as_layers
        if places % (self.pipeline * self.interleave) and not layers_listed:
            texts.append(
                f"layers {model.layers} do not divide over {self.pipeline} stages x {self.interleave} chunks: the "
                f"fullest stage has {-(-places // self.pipeline)}"
            )
        if microbatches < self.pipeline:
            texts.append(
                f"{microbatches} micro-batches leave some of {self.pipeline} pipeline stages idle at all times"
            )
        return tuple(texts)

    def _shape(self) -> tuple[int, ...]:
        """Sizes of the rank grid, the slowest dimension first."""
        return tuple(getattr(self, name) for name in reversed(self.order))

    @checked
    def coordinates(self, rank: NonNegativeArray) -> dict[str, NDArray[np.int64]]:
        """Place of ranks in every dimension, and among the expert ranks: {"tensor": ..., ..., "expert": ...}.

        rank: of any shape, each array of the answer has it. Raises ValueError for a rank that does not exist.
        """
        ranks = whole("rank", rank, 0, self.gpus - 1)
        places = dict(zip(reversed(self.order), np.unravel_index(ranks, self._shape()), strict=True))
        replica, size = np.zeros_like(ranks), 1
        for name in self._dimensions("expert"):
            replica, size = replica + places[name] * size, size * getattr(self, name)
        return {name: np.asarray(places[name]) for name in DIMENSIONS} | {"expert": replica % self.expert}

    @checked
    def rank_of(
        self,
        tensor: NonNegativeArray = 0,
        context: NonNegativeArray = 0,
        data: NonNegativeArray = 0,
        pipeline: NonNegativeArray = 0,
    ) -> NDArray[np.int64]:
        """Ranks at coordinates.

        Parameters
        ----------
        tensor, context, data, pipeline
            Places from 0, broadcast against each other.

        Returns
        -------
        Ranks, of the arguments' shape.

        Raises
        ------
        ValueError
            For a place that does not exist.
        """
        by_name = {"tensor": tensor, "context": context, "data": data, "pipeline": pipeline}
        places = [whole(name, by_name[name], 0, getattr(self, name) - 1) for name in reversed(self.order)]
        return np.asarray(np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), self._shape()))

    def _dimensions(self, kind: str) -> list[str]:
        """Dimensions that a kind of group spans, the fastest first."""
        if one_of("kind", kind, GROUP_KINDS) in DIMENSIONS:
            return [kind]
        spread = self._expert_dimensions if kind.startswith("expert") else ("context", "data")
        return [name for name in self.order if name in spread]

    @checked
    def groups(self, kind: str) -> NDArray[np.int64]:
        """Ranks of every group of a kind [groups, members], members in their order within the group.

        tensor, context, pipeline, data: the ranks that differ in that alone. replica: the c d ranks that hold the same
        weights (their gradients are summed). expert: runs of e ranks that hold each expert once (of t c d ranks with
        whole experts); expert_replica: the ranks that hold the same experts. Every rank is in one group of each kind.
        """
        check_gpus("strategy", self.gpus)
        grid, names = np.arange(self.gpus).reshape(self._shape()), list(reversed(self.order))
        spanned = self._dimensions(kind)[::-1]
        axes = [names.index(name) for name in spanned]
        members = math.prod(getattr(self, name) for name in spanned)
        groups = np.moveaxis(grid, axes, range(-len(axes), 0)).reshape(-1, members)
        if not kind.startswith("expert"):
            return groups
        runs = groups.reshape(-1, members // self.expert, self.expert)
        runs = runs if kind == "expert" else runs.swapaxes(1, 2)
        return runs.reshape(-1, runs.shape[2])

    def group_levels(self) -> dict[str, GroupLevels]:
        """How many GPUs the ranks of each kind of group are apart, in closed form; see `rank_order.group_levels`."""
        return group_levels(self.columns(0))

    @checked
    def group_places(self, kind: str, hb_domain_size: Count, rails: NonNegativeInt = 0) -> pd.DataFrame:
        """Where each group of a kind lies. Ranks fill HB domains (scale-up or NVLink domains) in their order.

        GPU j of a domain is on rail j mod rails. Columns group, members, domains (that it touches), largest_share (its
        members in one domain at most), rail (of all members, -1 where they are on several), neighbours_on_rail (all
        neighbours of its ring that are in two domains are on one rail; 1 where there are none).
        hb_domain_size [GPUs]; rails: by default one for each GPU of a domain.
        Raises ValueError for an HB domain larger than the cluster, or more rails than its GPUs.
        """
        whole("hb_domain_size", hb_domain_size, most=self.gpus)
        rails = int(whole("rails", rails or hb_domain_size, most=hb_domain_size))
        ranks = self.groups(kind)
        domain, rail = ranks // hb_domain_size, ranks % hb_domain_size % rails
        ordered = np.sort(domain, axis=1)
        starts = np.diff(ordered, axis=1, prepend=-1) > 0
        place = np.arange(ranks.shape[1])
        run = place - np.maximum.accumulate(np.where(starts, place, 0), axis=1) + 1
        across = domain != np.roll(domain, -1, axis=1)
        strays = across & (rail != np.roll(rail, -1, axis=1))
        columns = {
            "group": np.arange(len(ranks)),
            "members": ranks.shape[1],
            "domains": starts.sum(axis=1),
            "largest_share": run.max(axis=1),
            "rail": np.where((rail == rail[:, :1]).all(axis=1), rail[:, 0], -1),
            "neighbours_on_rail": ~strays.any(axis=1),
        }
        return pd.DataFrame(columns)

    @checked
    def placement(self, hb_domain_size: Count, rails: NonNegativeInt = 0) -> pd.DataFrame:
        """Which groups stay within an HB domain and which leave it, and on which rail; a row for each kind.

        Columns kind, groups, members, within (groups that stay in one domain), leaving, largest_share (members of a
        group in one domain at most), on_one_rail (leaving groups with all members on one rail), neighbours_on_rail
        (leaving groups whose ring needs no other rail), rails (that leaving groups of one rail use).
        Arguments and errors are those of `group_places`.
        """
        kinds = {kind: self.group_places(kind, hb_domain_size, rails) for kind in GROUP_KINDS}
        places = pd.concat(kinds, names=["kind"])
        leaving = places["domains"] > 1
        on_one = leaving & (places["rail"] >= 0)
        places = places.assign(within=~leaving, leaving=leaving, on_one_rail=on_one, rails=places["rail"].where(on_one))
        places["neighbours_on_rail"] &= leaving
        how = {"group": "count", "members": "first", "within": "sum", "leaving": "sum", "largest_share": "max"}
        how |= {"on_one_rail": "sum", "neighbours_on_rail": "sum", "rails": "nunique"}
        return places.groupby("kind", sort=False).agg(how).rename(columns={"group": "groups"}).reset_index()


def as_strategy(strategy: Strategy | Mapping[str, Any]) -> Strategy:
    """A strategy as it is, or that of a row of `search`'s tables (`Strategy.from_columns`)."""
    return strategy if isinstance(strategy, Strategy) else Strategy.from_columns(strategy)
