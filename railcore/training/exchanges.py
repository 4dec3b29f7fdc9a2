"""What one rank sends in a training step: the one table that traffic, iteration time and the simulated step read.

Symbols: h hidden, k copies of a token (top_k) of the model; t tensor ranks, u = s b h / c activation elements of one
micro-batch (in `rank` and `layer` u counts its tokens, without h), "in slices" where tensor ranks split them.
Operators of a layer: attention and feed-forward, one where they are parallel (PaLM).

    kind      group           operation, and how often on one rank
    tensor    tensor          all_reduce of u for each operator, forward and backward
    sequence  tensor          in its place all_gather and reduce_scatter of u, of k u around routed experts; backward a
                              second all_gather of u, unless the operator's gathered input was kept or its weights are
                              frozen
    tensor    tensor          adapters beside frozen weights: see `adapter_exchanges`
    context   context         keys and values (of latent attention the heads' own): all_gather forward and backward,
                              reduce_scatter of gradients backward
    expert    expert          all_to_all of k u (k u / t in slices) to the experts and back, forward and backward
    pipeline  pipeline        send of u (u / t in slices) for each of v chunks, forward and backward
    data      replica         gradients and weights by sharding; of experts over expert_replica; of frozen weights what
                              is gathered in passes

Where tensor ranks split each expert, without sequence parallelism, they sum the results of experts and of shared
experts in one all_reduce. Whole experts take the tokens in slices; without sequence parallelism their results are
gathered. Selective recompute repeats what its modules exchange. Numbers are arrays of strategies (`Rank`).

Sources: Shoeybi et al. 2019 (tensor); Korthikanti et al. 2022 (sequence); Narayanan et al. 2021 (pipeline); Rajbhandari
et al. 2020 (sharding); Llama Team 2024, Section 3.3 (context).
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from railcore.training.expert_dispatch import DispatchBytes, dispatch_bytes, splits_groups
from railcore.training.formats import ELEMENT_BYTES, WEIGHT_BYTES, LinearFormat
from railcore.training.layer_products import SPLIT_INSIDE, layer_products
from railcore.training.rank import Rank
from railcore.training.recompute import recomputed_operators
from railcore.training.runtime import Runtime
from railcore.training.transformer import SHARDING, Transformer
from railcore.training.transformer_memory import EVERY_OPERATOR

TRAFFIC_KINDS = ("tensor", "sequence", "context", "expert", "pipeline", "data")


class Exchange(NamedTuple):
    """Collectives of one kind in one pass of one micro-batch.

    kind: of TRAFFIC_KINDS.
    phase: "forward", "backward", or "again": what selective recompute repeats in the backward pass.
    operation: a collective, or "send_receive".
    group: kind of group, of `group_levels`; or "expert domain" and "expert rail", members of an expert group in one HB
        domain, and those at the same place in each domain.
    calls: number of collectives, for the average layer or as its function says.
    unit_bytes: full gathered buffer on one rank; of an all_to_all and a send what one rank sends.
    part: share of unit_bytes that one collective moves.
    routed: whether routed experts need it.
    alone: whether no product can hide it piece by piece.
    """

    kind: str
    phase: str
    operation: str
    group: str
    calls: Any
    unit_bytes: Any
    part: Any = 1.0
    routed: bool = False
    alone: bool = False

    @property
    def message_bytes(self) -> Any:
        """Bytes of one collective."""
        return self.unit_bytes * self.part


def gathers(exchanges: Iterable[Exchange]) -> Any:
    """AllGathers of unit_bytes that take as long as these exchanges: a ReduceScatter is one, an AllReduce two."""
    return sum((1 + (row.operation == "all_reduce")) * row.part * row.calls for row in exchanges)


def tensor_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of a layer's activations, among tensor ranks. In fp8 some software gathers one byte an element (`fp8_tensor`).

    An adapter takes the input that the product beside it gathered, in bf16, which is then gathered before both. Input
    gradients are summed in pieces behind the product of the weights' gradients, which frozen weights do not have.

    Sources: GitHub NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/peft/utils.py@29836cc
    (return_layernorm_output_gathered, tp_comm_overlap_disable_qkv); NVIDIA/TransformerEngine,
    transformer_engine/pytorch/module/layernorm_linear.py (ub_bulk_wgrad).
    """
    u, sliced, whole = rank.activation_bytes, rank.sequence_parallel, rank.whole_experts
    gathered_part = 0.5 if rank.runtime.fp8_tensor and rank.narrow else 1.0
    frozen = rank.model.lora_rank > 0
    repeated = recomputed_operators(rank), float("moe" in rank.runtime.recompute_modules)
    shares = {"forward": (1.0, 1.0), "backward": (1.0, 1.0), "again": repeated}  # of operators, and of routed experts
    for phase, (operator_share, routed_share) in shares.items():
        operators = operator_share * rank.operators
        gathered = operators
        if phase == "backward":
            gathered = operators + rank.gathered_operators * ~rank.keeps_gathered
        yield Exchange("tensor", phase, "all_reduce", "tensor", operators * ~sliced, u)
        if frozen and phase != "backward":
            adapted = operator_share * rank.gathered_operators
            yield Exchange("sequence", phase, "all_gather", "tensor", adapted * sliced, u, alone=True)
            gathered = operators - adapted
        yield Exchange("sequence", phase, "all_gather", "tensor", gathered * sliced, u, gathered_part)
        summed_alone = frozen and phase == "backward"
        yield Exchange("sequence", phase, "reduce_scatter", "tensor", operators * sliced, u, alone=summed_alone)
        if not rank.model.experts:
            continue
        routed = routed_share * rank.mixtures
        if not rank.model.shared_hidden:
            yield Exchange("tensor", phase, "all_reduce", "tensor", routed * ~(sliced | whole), u, routed=True)
        yield Exchange("tensor", phase, "all_gather", "tensor", routed * (whole & ~sliced), u, routed=True)
        for operation in ("all_gather", "reduce_scatter"):
            calls = routed * (sliced & ~whole)
            yield Exchange("sequence", phase, operation, "tensor", calls, u, rank.copies, routed=True)


def adapter_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of a layer's adapters x A B, among the t tensor ranks that split them; r their rank, in bf16.

    Behind A r elements of a token are gathered, or summed where A is split inside (`linear_proj`, `linear_fc2`);
    backward those of B's input gradient are summed. B has columns of the result on each rank: those of `linear_proj`
    and `linear_fc2` are gathered, backward too with sequence parallelism, whose slice of the tokens a rank keeps; or
    with `adapter_all_to_all` exchanged for it, 1 / t of the result on each rank. Without sequence parallelism the input
    gradient of the others' A is summed. Nothing hides these exchanges. Adapters of routed experts are left out, and
    latent attention has them on all its products alike.

    Sources: GitHub NVIDIA/NeMo, nemo/collections/nlp/modules/common/megatron/adapters/parallel_adapters.py@f85c9e5, and
    NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/peft/utils.py@29836cc (ParallelLinearAdapter); NVIDIA/Megatron-LM,
    megatron/core/tensor_parallel/mappings.py@00caa53.
    """
    model, sliced, modules = rank.model, rank.sequence_parallel, {*rank.runtime.recompute_modules}
    swapped = sliced & rank.runtime.adapter_all_to_all
    for product in layer_products(rank) if model.lora_rank else ():
        if product.routed or not model.has_adapter(product.name):
            continue
        inside, token_bytes = product.name in SPLIT_INSIDE, ELEMENT_BYTES * product.rows
        thin, wide = token_bytes * model.lora_rank, token_bytes * (product.columns if inside else product.inner)
        repeated = 0.5 if EVERY_OPERATOR in modules else float(bool(modules & {*product.modules}))
        for phase, share in (("forward", 1.0), ("backward", 1.0), ("again", repeated)):
            backward, calls = phase == "backward", share * product.share
            operation = "all_reduce" if inside or backward else "all_gather"
            yield Exchange("tensor", phase, operation, "tensor", calls, thin)
            if inside:
                gathered = ~swapped & (sliced | (not backward))
                yield Exchange("tensor", phase, "all_gather", "tensor", calls * gathered, wide)
                yield Exchange("tensor", phase, "all_to_all", "tensor", calls * swapped, wide / product.ranks)
            elif backward:
                yield Exchange("tensor", phase, "all_reduce", "tensor", calls * ~sliced, wide)


def context_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of a layer's keys and values, among context ranks."""
    elements = rank.model.sequence_length * rank.micro_batch * rank.model.key_value_elements(rank.tensor)
    for phase, operation in (("forward", "all_gather"), ("backward", "all_gather"), ("backward", "reduce_scatter")):
        yield Exchange("context", phase, operation, "context", 1.0, ELEMENT_BYTES * elements)


def expert_ways(runtime: Runtime) -> dict[str, tuple[float, float]]:
    """By phase, bytes of an element on its way to the experts, and on its way back."""
    there, back = float(runtime.dispatch_bytes), float(ELEMENT_BYTES)
    ways = {"forward": (there, back), "backward": (back, back)}
    return ways | {"again": (there, back)} if "moe" in runtime.recompute_modules else ways


def expert_message_bytes(rank: Rank, element_bytes: float) -> Any:
    """Bytes of a rank one way with the dispatcher "copies": one for each expert, those for itself counted in."""
    return element_bytes * rank.dispatched_tokens * rank.model.hidden * rank.copies


def sent_by_domain(rank: Rank, element_bytes: float) -> DispatchBytes:
    """Bytes that a rank sends one way with the dispatcher "nodes": a copy for each HB domain, which forwards it."""
    model = rank.model
    x, y = rank.groups["expert"].in_domains(rank.hb_domain_size)
    # Ranks that do not divide the experts or split their groups rule the strategy out elsewhere: any divisor will do.
    ranks = np.where(splits_groups(model.expert_groups, x * y, y), 1, np.gcd(x * y, model.experts))
    token_bytes = rank.dispatched_tokens * model.hidden * element_bytes
    groups = model.expert_groups, model.token_groups
    sent = dispatch_bytes(token_bytes, model.experts, model.top_k, ranks, np.gcd(x, ranks), *groups)
    busiest = rank.copies / model.top_k  # rows of the busiest rank over the mean
    return DispatchBytes(busiest * sent.nic_bytes, busiest * sent.hb_bytes)


def expert_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of a layer's tokens, to their experts and back."""
    if not rank.model.experts:
        return
    for phase, ways in expert_ways(rank.runtime).items():
        for element_bytes in ways:
            if rank.runtime.dispatcher == "copies":
                size = expert_message_bytes(rank, element_bytes)
                yield Exchange("expert", phase, "all_to_all", "expert", rank.mixtures, size)
                continue
            sent = sent_by_domain(rank, element_bytes)
            x, y = rank.groups["expert"].in_domains(rank.hb_domain_size)
            for group, n, size in (("expert rail", y, sent.nic_bytes), ("expert domain", x, sent.hb_bytes)):
                message = size * n / np.maximum(n - 1, 1)  # with the part that stays on the rank
                yield Exchange("expert", phase, "all_to_all", group, rank.mixtures * (n > 1), message)


def layer_exchanges(rank: Rank) -> list[Exchange]:
    """All of a layer."""
    return [*tensor_exchanges(rank), *adapter_exchanges(rank), *context_exchanges(rank), *expert_exchanges(rank)]


def boundary_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of a chunk: its output to the next stage, and its input's gradient back.

    They go in slices with sequence parallelism, and with scatter_gather, where the receiver's tensor ranks gather them.
    """
    gathered = rank.runtime.scatter_gather & ~rank.sequence_parallel
    size = rank.activation_bytes / np.where(gathered | rank.sequence_parallel, rank.tensor, 1.0)
    for phase in ("forward", "backward"):
        yield Exchange("pipeline", phase, "send_receive", "pipeline", 1.0, size)
        yield Exchange("tensor", phase, "all_gather", "tensor", 1.0 * gathered, rank.activation_bytes)


def embedding_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of the embedding's output: tensor ranks sum their parts of the vocabulary."""
    u, sliced = rank.activation_bytes, rank.sequence_parallel
    yield Exchange("tensor", "forward", "all_reduce", "tensor", 1.0 * ~sliced, u)
    yield Exchange("sequence", "forward", "reduce_scatter", "tensor", 1.0 * sliced, u)
    yield Exchange("sequence", "backward", "all_gather", "tensor", 1.0 * sliced, u)


def logits_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of the logits' input, as of an operator's."""
    u, sliced = rank.activation_bytes, rank.sequence_parallel
    again = sliced & ~rank.keeps_gathered
    yield Exchange("tensor", "backward", "all_reduce", "tensor", 1.0 * ~sliced, u)
    yield Exchange("sequence", "forward", "all_gather", "tensor", 1.0 * sliced, u)
    yield Exchange("sequence", "backward", "reduce_scatter", "tensor", 1.0 * sliced, u)
    yield Exchange("sequence", "backward", "all_gather", "tensor", 1.0 * again, u)


def projection_exchanges(rank: Rank) -> Iterator[Exchange]:
    """Of a predicting layer's projection: a product whose input and result tensor ranks exchange once."""
    for phase, operation in (("forward", "all_gather"), ("backward", "reduce_scatter")):
        for kind, sliced in (("tensor", ~rank.sequence_parallel), ("sequence", rank.sequence_parallel)):
            yield Exchange(kind, phase, operation, "tensor", 1.0 * sliced, rank.activation_bytes)


class ReplicaExchange(NamedTuple):
    """A collective among ranks with the same parameters.

    phase: "forward" or "backward", of each layer in each pass; or "after", once an iteration, of the whole stage.
    what: "gradients", or "weights"; those that are gathered "after" are for the next iteration.
    """

    phase: str
    operation: str
    what: str


# By sharding, which Rajbhandari et al. call ZeRO 1, 2 and 3; FSDP is "weights".
REPLICA_EXCHANGES = {
    "none": (ReplicaExchange("after", "all_reduce", "gradients"),),
    "optimizer": (
        ReplicaExchange("after", "reduce_scatter", "gradients"),
        ReplicaExchange("after", "all_gather", "weights"),
    ),
    "gradients": (
        ReplicaExchange("backward", "reduce_scatter", "gradients"),
        ReplicaExchange("after", "all_gather", "weights"),
    ),
    "weights": (
        ReplicaExchange("forward", "all_gather", "weights"),
        ReplicaExchange("backward", "all_gather", "weights"),
        ReplicaExchange("backward", "reduce_scatter", "gradients"),
    ),
}


def replicas_exchange(sharding: Any, what: str, phase: str | None = None, operation: str | None = None) -> Any:
    """Whether ranks with the same parameters exchange gradients or weights, by REPLICA_EXCHANGES.

    Parameters
    ----------
    sharding
        Index in SHARDING, a number or an array.
    what
        "gradients" or "weights".
    phase, operation
        Where and how; None for any.

    Returns
    -------
    Of the shape of sharding.
    """
    exchanged = [
        any(row.what == what and phase in (None, row.phase) and operation in (None, row.operation) for row in rows)
        for rows in (REPLICA_EXCHANGES[name] for name in SHARDING)
    ]
    return np.asarray(exchanged)[sharding]


def replica_element_bytes(runtime: Runtime, form: LinearFormat, model: Transformer) -> dict[str, float]:
    """Bytes of an element of gradients, of trained weights and of frozen ones on their way.

    form: of linear layers, in which some software gathers weights; adapters are in bf16. Frozen weights travel as they
    are kept, if that is no wider.
    """
    gathered = form.gathered_bytes if runtime.fp8_weights else WEIGHT_BYTES
    return {
        "gradients": runtime.gradient_bytes,
        "weights": WEIGHT_BYTES if model.lora_rank else gathered,
        "frozen": min(gathered, model.frozen_bytes),
    }
