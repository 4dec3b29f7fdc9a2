"""What one rank of a job has of it, for one strategy or for arrays of strategies: tokens, experts, and their groups.

Symbols as in `transformer`; b sequences of a micro-batch, t tensor, c context, e expert ranks, and u = s b / c tokens
of a micro-batch on a rank. All numbers are arrays of the columns' shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from railcore.training.formats import ELEMENT_BYTES
from railcore.training.machine import Machine
from railcore.training.rank_order import GroupLevels, group_levels
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer

LAYER_COLUMNS = (
    *("micro_batch", "tensor", "context", "expert", "data", "pipeline"),
    *("sequence_parallel", "recompute", "recompute_group", "keep_gathered", "whole_experts", "placement"),
)


@dataclass(frozen=True)
class Rank:
    """What one rank has of a layer, and what of its job decides what it sends.

    model, runtime: what is trained, with which software.
    columns: of strategies, arrays of one shape by LAYER_COLUMNS, recompute and placement as indices; the last three of
        them are 0 where they are missing.
    mixtures: share of mixture layers in the rank's stage.
    precision: of linear layers.
    hb_domain_size: GPUs of an HB domain (scale-up or NVLink domain).
    """

    model: Transformer
    runtime: Runtime
    columns: Mapping[str, np.ndarray]
    mixtures: np.ndarray
    precision: str
    hb_domain_size: int

    @classmethod
    def on(
        cls,
        machine: Machine,
        model: Transformer,
        runtime: Runtime,
        columns: Mapping[str, np.ndarray],
        on_first_stage: bool = False,
    ) -> "Rank":
        """A rank on a machine.

        Parameters
        ----------
        machine, model, runtime, columns
            The GPU; what is trained with which software, split how.
        on_first_stage
            Whether its layers are those of the first stage, which has the dense first layers of a mixture; else of the
            last one, which has the fewest of them.

        Returns
        -------
        The rank.
        """
        mixtures = mixture_shares(model, columns["pipeline"])[0 if on_first_stage else 1]
        return cls(model, runtime, columns, mixtures, machine.precision, machine.hb_domain_size)

    def at(self, places: np.ndarray) -> "Rank":
        """Some of the strategies."""
        columns = {name: np.asarray(values)[places] for name, values in self.columns.items()}
        return replace(self, columns=columns, mixtures=self.mixtures[places])

    def column(self, name: str) -> np.ndarray:
        """One of LAYER_COLUMNS."""
        return np.asarray(self.columns.get(name, 0))

    @cached_property
    def micro_batch(self) -> np.ndarray:
        """Sequences b."""
        return np.asarray(self.columns["micro_batch"], float)

    @cached_property
    def tensor(self) -> np.ndarray:
        """Tensor ranks t."""
        return np.asarray(self.columns["tensor"], float)

    @cached_property
    def sequence_parallel(self) -> np.ndarray:
        """Whether tensor ranks split norms and what lies between operators."""
        return self.column("sequence_parallel").astype(bool)

    @cached_property
    def keeps_gathered(self) -> np.ndarray:
        """Whether what sequence parallelism gathers in the forward pass is kept for the backward pass.

        Beside frozen weights, what adapters read is always kept.
        """
        return self.sequence_parallel & (self.column("keep_gathered").astype(bool) | (self.model.lora_rank > 0))

    @cached_property
    def whole_experts(self) -> np.ndarray:
        """Whether a tensor rank has whole experts, rather than a slice of each."""
        return self.column("whole_experts").astype(bool)

    @cached_property
    def queries(self) -> np.ndarray:
        """Tokens of a sequence on a rank, s / c."""
        return self.model.sequence_length / np.asarray(self.columns["context"], float)

    @cached_property
    def tokens(self) -> np.ndarray:
        """Tokens of a micro-batch on a rank, u = s b / c."""
        return self.queries * self.micro_batch

    @cached_property
    def activation_bytes(self) -> np.ndarray:
        """Of the tokens between two operators, in bf16."""
        return ELEMENT_BYTES * self.tokens * self.model.hidden

    @cached_property
    def norm_ranks(self) -> np.ndarray:
        """Ranks that split norms: t with sequence parallelism, else 1."""
        return np.where(self.sequence_parallel, self.tensor, 1.0)

    @property
    def narrow(self) -> bool:
        """Whether linear layers compute in 8 bits or fewer."""
        return self.precision != "bf16"

    @property
    def operators(self) -> np.ndarray:
        """Operators of a layer whose activations tensor ranks exchange; routed experts are counted apart."""
        both = 1 if self.model.parallel_block else 2
        return both - self.mixtures * (0 if self.model.shared_hidden else 1)

    @property
    def gathered_operators(self) -> Any:
        """Those whose gathered input the backward pass needs, for gradients of weights or adapters."""
        attention, feed_forward = (self.model.needs_input(name) for name in ("linear_qkv", "linear_fc1"))
        if self.model.parallel_block or attention == feed_forward:
            return self.operators * (attention or feed_forward)
        return attention + feed_forward * (self.operators - 1) + 0 * self.operators

    @cached_property
    def copies(self) -> float:
        """Rows that the experts of the busiest rank compute, for each of its own tokens."""
        return expert_rows(self.model, self.runtime)

    @cached_property
    def experts(self) -> np.ndarray:
        """Routed experts of a rank, at least 1."""
        return np.maximum(self.model.experts // np.asarray(self.columns["expert"], float), 1)

    @cached_property
    def expert_slices(self) -> np.ndarray:
        """Slices of the tokens that experts of a rank take: t where each tensor rank has whole experts, else 1."""
        return np.where(self.whole_experts, self.tensor, 1.0)

    @property
    def expert_tokens(self) -> np.ndarray:
        """Rows of one expert, u q e / E, q = `copies`."""
        ranks = np.asarray(self.columns["expert"], float)
        return self.tokens / self.expert_slices * self.copies * ranks / max(self.model.experts, 1)

    @property
    def expert_ranks(self) -> np.ndarray:
        """Tensor ranks that split an expert: t, or 1 for whole ones."""
        return self.tensor / self.expert_slices

    @property
    def dispatched_tokens(self) -> np.ndarray:
        """Tokens that a rank sends to the experts: its slice where tensor ranks split them, else all."""
        return self.tokens / np.where(self.sequence_parallel | self.whole_experts, self.tensor, 1.0)

    @cached_property
    def groups(self) -> dict[str, GroupLevels]:
        """Where each kind of group lies."""
        return group_levels(self.columns)


def mixture_shares(model: Transformer, pipeline: Any) -> tuple[Any, Any]:
    """Share of mixture layers on the first and on the last of p stages. pipeline: p, a number or an array.

    Without dense first layers, and without a pipeline, it is the model's on both. Else a stage has n = ceil(L / p)
    layers, and as many of the dense ones as lie there.
    """
    p = np.asarray(pipeline)
    n = np.ceil(model.layers / p)
    dense_on_first = np.minimum(model.dense_layers, n)
    dense_on_last = np.clip(model.dense_layers - (model.layers - n), 0, n)
    differ = (p > 1) & (model.dense_layers > 0)
    first, last = (
        np.where(differ, (1 - dense / n) / model.expert_layer_interval, model.mixture_share)
        for dense in (dense_on_first, dense_on_last)
    )
    return first, last


def wide_dense_layers(model: Transformer) -> bool:
    """Whether dense first layers compute more than a mixture layer does.

    Then the first stage of a pipeline may be the slowest and the fullest, or the last one: times and memory are
    computed for both, and the larger ones count.
    """
    return model.dense_layers > 0 and model.ffn_hidden > model.top_k * model.expert_hidden + model.shared_hidden


def expert_rows(model: Transformer, runtime: Runtime) -> float:
    """Rows that the experts of the busiest rank compute, for each of its own tokens.

    k m with top_k k and imbalance m. With a capacity c it is k c: an expert takes at most c u k / E of the u tokens of
    each rank, drops the rest, and computes zeros up to that. Raises ValueError for a capacity above the model's number
    of experts, which no routing fills.

    Sources: Lepikhin et al. 2020, arXiv:2006.16668, 2.2; Megatron-Core, moe README (moe-expert-capacity-factor,
    moe-pad-expert-input-to-capacity).
    """
    if not model.experts:
        return 1.0
    if runtime.capacity > model.experts:
        raise ValueError(f"capacity is {runtime.capacity:g}: give at most experts {model.experts} of {model.name}")
    return float(model.top_k * (runtime.capacity or model.imbalance))
