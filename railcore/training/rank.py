"""What one rank of a job has of it: tokens, experts, the groups that it is in, and the seconds of its passes.

Symbols as in `transformer`; t tensor, c context, e expert ranks, b sequences of a micro-batch, and u = s b / c its
tokens on a rank.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from railcore.facts.arguments import checked
from railcore.training.expert_dispatch import capacity_copies
from railcore.training.link_times import LinkTimes
from railcore.training.machine import GroupPlace, Machine
from railcore.training.parallelism import Strategy
from railcore.training.rank_order import group_levels
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer


class Passes(NamedTuple):
    """Seconds of a kind of work in the forward and in the backward pass of a layer."""

    forward: float
    backward: float


class LayerShare(NamedTuple):
    """What one rank has of a layer, in numbers or in arrays of one shape.

    tokens: u of a micro-batch.
    tensor: t ranks.
    norm_ranks: ranks that split norms, t with sequence parallelism, else 1.
    mixtures: share of mixture layers.
    copies: rows of routed experts, over the tokens.
    experts: routed experts of the rank, at least 1, of a mixture layer.
    expert_tokens: of one of them.
    expert_ranks: tensor ranks that split one of them, t or 1.
    """

    tokens: Any
    tensor: Any
    norm_ranks: Any
    mixtures: Any
    copies: Any
    experts: Any
    expert_tokens: Any
    expert_ranks: Any


@dataclass(frozen=True)
class Rank:
    """What one rank of a job has of it.

    model, machine, runtime, strategy: what is trained, on which GPU, with which software, split how.
    on_first_stage: whether its layers are those of the first stage, which has the dense first layers of a mixture;
        else of the last one, which has the fewest of them.
    """

    model: Transformer
    machine: Machine
    runtime: Runtime
    strategy: Strategy
    on_first_stage: bool = False

    @property
    def tokens(self) -> float:
        """u = s b / c, tokens of a micro-batch."""
        return self.model.sequence_length * self.strategy.micro_batch / self.strategy.context

    @cached_property
    def places(self) -> dict[str, GroupPlace]:
        """Where each kind of group lies in the cluster, and what share of a NIC it gets."""
        return self.machine.places(group_levels(self.strategy.columns(1)), self.strategy.gpus)

    @property
    def mixtures(self) -> float:
        """Share of mixture layers in the rank's stage."""
        first, last = mixture_shares(self.model, self.strategy.pipeline)
        return float(first if self.on_first_stage else last)

    @property
    def copies(self) -> float:
        """Rows that the experts of the busiest rank compute, over its own tokens."""
        return expert_rows(self.model, self.runtime)

    @property
    def operators(self) -> float:
        """Operators of a layer whose activations tensor ranks exchange, routed experts apart."""
        return (1 if self.model.parallel_block else 2) - self.mixtures * (0 if self.model.shared_hidden else 1)

    @property
    def routed_gathers(self) -> float:
        """`routed_gathers` of the rank's stage."""
        switches = self.strategy.sequence_parallel, self.strategy.whole_experts
        return float(routed_gathers(self.model, self.mixtures, self.copies, *switches))

    @property
    def dispatched_slices(self) -> int:
        """Slices of its tokens that tensor ranks send to the experts; 1 where each sends all."""
        return self.strategy.tensor if self.strategy.sequence_parallel or self.strategy.whole_experts else 1

    @cached_property
    def share(self) -> LayerShare:
        """What it has of a layer."""
        strategy, experts = self.strategy, self.model.experts
        slices = strategy.tensor if strategy.whole_experts else 1
        return LayerShare(
            tokens=self.tokens,
            tensor=strategy.tensor,
            norm_ranks=strategy.tensor if strategy.sequence_parallel else 1,
            mixtures=self.mixtures,
            copies=self.copies,
            experts=max(experts // strategy.expert, 1),
            expert_tokens=self.tokens / slices * self.copies * strategy.expert / max(experts, 1),
            expert_ranks=strategy.tensor / slices,
        )

    @property
    def fp8(self) -> bool:
        """Whether linear layers compute in 8 bits or fewer."""
        return self.machine.narrow

    @property
    def lost(self) -> float:
        """Share of a second of compute that a collective beside it takes."""
        return self.runtime.interference(self.machine)

    @checked
    def gather(self, message_bytes: float, group: str, calls: float = 1) -> LinkTimes:
        """An AllGather, or a ReduceScatter, of so many bytes in a kind of group."""
        place = self.places[group]
        return self.machine.gather_links(message_bytes, place.inside, place.domains, calls, place.nic_share)


def mixture_shares(model: Transformer, pipeline: Any) -> tuple[Any, Any]:
    """Share of mixture layers on the first and on the last of p stages.

    Without dense first layers, and without a pipeline, it is the model's on both. Else a stage has n = ceil(L / p)
    layers, and as many of the dense ones as lie there.

    Parameters
    ----------
    model
        A transformer.
    pipeline
        p, a number or an array.

    Returns
    -------
    Shares, of its shape.
    """
    p, every = np.asarray(pipeline), model.mixture_share
    n = np.ceil(model.layers / p)
    dense = np.minimum(model.dense_layers, n), np.clip(model.dense_layers - (model.layers - n), 0, n)
    staged = (p > 1) & (model.dense_layers > 0)
    first, last = (np.where(staged, (1 - some / n) / model.expert_layer_interval, every) for some in dense)
    return first, last


def routed_gathers(model: Transformer, mixtures: Any, copies: float, sequence_parallel: Any, whole_experts: Any) -> Any:
    """Gathers of a layer's input, or sums of as many bytes, that tensor ranks need for routed experts in each pass.

    Sliced experts: their tokens, k copies of each, are gathered and their results scattered; without sequence
    parallelism all ranks have the tokens, and sum the results, together with those of shared experts. Whole experts
    take slices: without sequence parallelism their results are gathered.

    Parameters
    ----------
    model
        A transformer.
    mixtures, copies
        Share of mixture layers; rows of routed experts, over the tokens.
    sequence_parallel, whole_experts
        Of the strategy; with mixtures numbers or arrays of one shape.

    Returns
    -------
    Of the average layer.
    """
    sliced = np.where(sequence_parallel, 2 * copies, 0.0 if model.shared_hidden else 2.0)
    return bool(model.experts) * mixtures * np.where(whole_experts, 1 - np.asarray(sequence_parallel), sliced)


def wide_dense_layers(model: Transformer) -> bool:
    """Whether dense first layers compute more than a mixture layer does.

    Then the first stage of a pipeline may be the slowest, and the fullest, as well as the last one: times and memory
    are computed with the layers of each, and the larger ones count.
    """
    return model.dense_layers > 0 and model.ffn_hidden > model.top_k * model.expert_hidden + model.shared_hidden


def expert_rows(model: Transformer, runtime: Runtime) -> float:
    """Rows that the experts of the busiest rank compute, over its own tokens; padded to the capacity where it drops.

    Raises ValueError for a capacity above the model's number of experts, which no routing fills.
    """
    if not model.experts:
        return 1.0
    if runtime.capacity > model.experts:
        raise ValueError(f"capacity is {runtime.capacity:g}: give at most experts {model.experts} of {model.name}")
    capacity = runtime.capacity or math.inf
    return float(capacity_copies(model.top_k, capacity, model.imbalance, padded=bool(runtime.capacity)))
