"""What the training software overlaps, fuses and keeps: runtimes by name, from data/catalog/runtimes.csv."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import numpy as np

from railcore import catalog
from railcore.catalog import checks
from railcore.catalog.arguments import NonNegative, NonNegativeInt, checked
from railcore.training.expert_dispatch import DISPATCHERS
from railcore.training.formats import (
    BF16_ELEMENTS,
    ELEMENT_BYTES,
    GRADIENT_BYTES,
    MASTER_BYTES,
    MOMENT_BYTES,
    WEIGHT_BYTES,
    ElementBytes,
    LinearFormat,
)
from railcore.training.machine import ATTENTION_KERNELS, Machine
from railcore.training.transformer_memory import EVERY_OPERATOR, RECOMPUTE_MODULES

_CURRENT_KERNELS = 3  # for the largest element, its scale, and the cast
GRAPHS = ("none", "parts", "whole")
EXPERT_PRODUCTS = ("loop", "streams", "grouped")
FP8_SCALINGS = ("delayed", "current")
PIPELINE_SCHEDULES = ("1f1b", "dualpipe")
OFFLOADS = ("none", "optimizer", "activations", "weights")


@checked
@dataclass(frozen=True)
class Runtime:
    """What the training software overlaps, fuses and keeps.

    name: that tables show.
    overlap_tensor: the backward pass hides traffic of tensor ranks behind products for the weights' gradients.
    overlap_tensor_forward: ring exchange hides it behind the products themselves, in both passes, where tensor ranks
        are in one HB domain (userbuffers).
    fp8_tensor: gathers between tensor ranks move one byte an element in fp8.
    adapter_all_to_all: with sequence parallelism, tensor ranks exchange their columns of an adapter's result for a
        slice of the tokens; else each gathers the whole result.
    overlap_pipeline: with interleaved chunks, sends to the next stage are hidden behind other chunks.
    scatter_gather: where all tensor ranks have the activations for the next stage, each sends a share of them, and the
        receivers gather them.
    overlap_data: gradients and sharded weights are exchanged behind backward and forward passes.
    gradient_bytes: of a gradient on its way [bytes].
    accumulation_bytes: of a gradient in memory [bytes].
    sharded_gradients: with sharding "optimizer", a chunk's gradients leave when all its micro-batches have passed, and
        a rank keeps its share of them; two chunks are whole at a time.
    moment_bytes: of each of the optimizer's two moments of a parameter [bytes].
    master_bytes: of the optimizer's copy of a weight, besides the one that is computed with: 4 for fp32, 2 for the bits
        that bf16 lacks, 0 for none [bytes].
    fp32_shards: with sharding "weights", a rank's share of the weights is the optimizer's copy alone, and is cast a
        layer at a time (PyTorch FSDP).
    schedule: of pipelines without chunks, one of PIPELINE_SCHEDULES.
    overlap_expert: tokens travel behind another micro-batch's other work.
    dispatcher: a token goes to each of its experts ("copies"), or once to each HB domain with one of them ("nodes").
    dispatch_bytes: of an element on its way to the experts; 2 on the way back [bytes].
    capacity: tokens that an expert takes, over the mean: each is filled up to it, and other tokens are dropped. 0 drops
        none (dropless).
    graphs: CUDA graphs, one of GRAPHS: of the "whole" layer, so that the GPU never waits for the host; of "parts", all
        but the routed experts; or "none".
    expert_products: how the products of experts are started, one of EXPERT_PRODUCTS: one after the other ("loop"),
        over a few streams at once ("streams", Transformer Engine), or all in one kernel ("grouped").
    attention: the kernel: one of ATTENTION_KERNELS, "best", or "unfused", which stores the scores.
    fp8_attention: products of attention in fp8, where linear layers compute in 8 bits or fewer.
    dropout: after attention and feed-forward.
    fp8_scaling: of a tensor in fp8, by its largest element so far ("delayed"), or by its own, which is read first
        ("current").
    fp8_weights: sharded weights are gathered in fp8 where linear layers compute in it.
    eager: every operator is a kernel of its own, the host starts them one by one, and gradients of a sharded layer are
        copied into one array and scaled.
    recompute_modules: what recompute "selective" makes again: of RECOMPUTE_MODULES, as Megatron-Core names them,
        or "op", as torchtitan does.
    fp8_activations: where linear layers compute in fp8, inputs of activation functions are kept in it too, and what
        attention made in 12 bits.
    compiled: residuals are part of the norms' kernels, and the loss is as torch.compile makes it; else kernels are
        written by hand, and residuals have their own.
    fused_loss: cross entropy stores nothing in fp32, as where it is compiled; else it takes an operator at a time.
    gradient_passes: times that a gradient in memory is moved once an iteration beside Adam: 1 for their norm, 2 to clip
        and 1 to clear them.
    waiting_operators: that the host starts once an iteration while the GPU has nothing to do, since it waited for a
        number of the GPU: the gradients' norm, the loss for the log, a scaler's check.
    persistent_kernels: products keep all processors of the GPU, and slow down beside a collective by the machine's
        overlap_slowdown; else they lose the share of processors that the collective keeps.

    Raises ValueError naming the argument that is out of range.

    Examples
    --------
    >>> import railcore as rc
    >>> rc.Runtime(name="ours", overlap_data=False)
    Runtime('ours', overlap_data=False)
    """

    name: str = "modern"
    overlap_tensor: bool = True
    overlap_tensor_forward: bool = False
    fp8_tensor: bool = False
    adapter_all_to_all: bool = False
    overlap_pipeline: bool = True
    scatter_gather: bool = True
    overlap_data: bool = True
    gradient_bytes: NonNegativeInt = GRADIENT_BYTES
    accumulation_bytes: NonNegativeInt = GRADIENT_BYTES
    sharded_gradients: bool = False
    moment_bytes: NonNegativeInt = MOMENT_BYTES
    master_bytes: NonNegativeInt = MASTER_BYTES
    fp32_shards: bool = False
    schedule: str = "1f1b"
    overlap_expert: bool = False
    dispatcher: str = "copies"
    dispatch_bytes: NonNegativeInt = ELEMENT_BYTES
    capacity: NonNegative = 0.0
    graphs: str = "whole"
    expert_products: str = "grouped"
    attention: str = "best"
    fp8_attention: bool = False
    dropout: bool = False
    fp8_scaling: str = "delayed"
    fp8_weights: bool = False
    eager: bool = False
    compiled: bool = True
    fused_loss: bool = False
    gradient_passes: NonNegativeInt = 4
    waiting_operators: NonNegativeInt = 30
    persistent_kernels: bool = False
    recompute_modules: tuple[str, ...] = ("core_attn",)
    fp8_activations: bool = False
    made_by = "Runtime(...), or the name of a runtime in the catalog"

    def __post_init__(self) -> None:
        checks.one_of("attention", self.attention, ("best", "unfused", *ATTENTION_KERNELS))
        checks.one_of("dispatcher", self.dispatcher, DISPATCHERS)
        checks.one_of("graphs", self.graphs, GRAPHS)
        checks.one_of("expert_products", self.expert_products, EXPERT_PRODUCTS)
        checks.one_of("fp8_scaling", self.fp8_scaling, FP8_SCALINGS)
        for name in ("gradient_bytes", "accumulation_bytes"):
            checks.one_of(name, getattr(self, name), (2, 4))
        checks.one_of("dispatch_bytes", self.dispatch_bytes, (1, 2))
        checks.one_of("moment_bytes", self.moment_bytes, (2, 4))
        checks.one_of("master_bytes", self.master_bytes, (0, 2, 4))
        checks.one_of("schedule", self.schedule, PIPELINE_SCHEDULES)
        for module in self.recompute_modules:
            checks.one_of("recompute_modules", module, (*RECOMPUTE_MODULES, EVERY_OPERATOR))
        object.__setattr__(self, "recompute_modules", tuple(self.recompute_modules))
        if self.fp32_shards and self.master_bytes != 4:
            raise ValueError(
                f"master_bytes is {self.master_bytes} with fp32_shards: give 4, shards are the optimizer's fp32 copy"
            )
        if self.capacity and not self.capacity >= 1:
            raise ValueError(
                f"capacity is {self.capacity!r}: give at least 1, most tokens of an expert over the mean, or 0 to "
                "drop none"
            )

    def __repr__(self) -> str:
        """The name, and what is not as by default: short enough for help()."""
        values = ((field, getattr(self, field.name)) for field in fields(self)[1:])
        changes = [f"{field.name}={value!r}" for field, value in values if value != field.default]
        return f"Runtime({', '.join([repr(self.name), *changes])})"

    @property
    def graphs_of_parts(self) -> bool:
        """Whether CUDA graphs start all of a layer but the routed experts. Eager software starts every operator."""
        return self.graphs == "parts" and not self.eager

    @property
    def compiles(self) -> bool:
        """Whether torch.compile made the kernels of norms, activations and loss."""
        return self.compiled and not self.eager

    @property
    def fused_attention(self) -> bool:
        """Whether scores are never stored; then their recompute changes nothing."""
        return self.attention != "unfused"

    @property
    def selective_is_none(self) -> bool:
        """Whether selective recompute changes nothing: it repeats attention alone, which is fused."""
        return self.fused_attention and set(self.recompute_modules) <= {"core_attn"}

    def element_bytes(self, fp8: bool) -> ElementBytes:
        """Bytes of kept elements. In fp8 inputs of products have one byte; with fp8_activations others are cut too.

        Source: DeepSeek-AI 2024, arXiv:2412.19437, Section 3.3.3 (inputs of SwiGLU in fp8, of the product behind
        attention in E5M6).
        """
        if not fp8:
            return BF16_ELEMENTS
        return ElementBytes(1, 1, 1, 1.5) if self.fp8_activations else ElementBytes(1, 1)

    @property
    def optimizer_bytes(self) -> int:
        """Of the optimizer's states of a parameter: two moments, and its copy of the weight [bytes]."""
        return 2 * self.moment_bytes + self.master_bytes

    @property
    def update_bytes(self) -> int:
        """Bytes that Adam in one kernel moves for a parameter: states both ways, gradient and weight.

        The weight is written; it is read as well where no whole copy of it is among the states. Shards in fp32 are
        that copy alone.
        """
        weight = 0 if self.fp32_shards else WEIGHT_BYTES * (1 if self.master_bytes == MASTER_BYTES else 2)
        return 2 * self.optimizer_bytes + self.accumulation_bytes + weight

    @property
    def clip_bytes(self) -> int:
        """Bytes that norm, clip and clear a parameter's gradient once an iteration."""
        return self.gradient_passes * self.accumulation_bytes

    def dual(self, pipeline: Any, interleave: Any) -> Any:
        """Whether a pipeline runs from both ends (DualPipe): p stages, an even number, of v = 1 chunk; else 1F1B.

        Numbers, or arrays of one shape.
        """
        p, v = np.asarray(pipeline), np.asarray(interleave)
        return (self.schedule == "dualpipe") & (p % 2 == 0) & (v == 1)

    @property
    def gradient_result_bytes(self) -> int:
        """Bytes that a product moves for each element of the weights' gradient: read, added to and written back."""
        return ELEMENT_BYTES if self.eager else 2 * self.accumulation_bytes

    def linear_format(self, machine: Machine) -> LinearFormat:
        """Number format of the linear layers, with what its casts read."""
        form = machine.format
        if machine.precision == "fp8" and self.fp8_scaling == "current":
            return form._replace(cast_bytes=form.cast_bytes + ELEMENT_BYTES, cast_kernels=_CURRENT_KERNELS)
        return form

    def contends(self, machine: Machine) -> bool:
        """Whether compute slows down only while the HB interconnect is busy, because both need the memory."""
        return self.persistent_kernels and machine.collectives.memory_contention

    def interference(self, machine: Machine) -> float:
        """Share of a second of compute that is lost to a collective beside it.

        The share of the processors that the collective keeps, n / P; 1 - 1 / f for products that keep all processors
        and take f times as long.
        """
        if self.persistent_kernels:
            return 1 - 1 / machine.collectives.overlap_slowdown
        return min(machine.collectives.collective_processors / machine.rates.processors, 1.0)


MODERN = Runtime()


def catalog_runtime(name: str, **changes: Any) -> Runtime:
    """A runtime of the catalog, such as catalog_runtime("megatron2022", dropout=False).

    Raises UnknownName, and ValueError for a row whose value is none of its kind.
    """
    item, kinds = catalog.item("runtimes", name), get_type_hints(Runtime)
    values = {field.name: item[field.name] for field in fields(Runtime) if field.name in item}
    for field, value in values.items():
        if kinds[field] is bool:
            values[field] = bool(checks.one_of(f"{field} of {name}", value, (0, 1)))
        elif kinds[field] is int:
            values[field] = int(checks.whole(f"{field} of {name}", value, 0))
        elif field == "recompute_modules":
            values[field] = tuple(str(value).split())
    return Runtime(**{**values, "name": name, **changes})


def checked_offload(offload: str | Sequence[str]) -> tuple[str, ...]:
    """What stays in the host's memory, as names. Raises ValueError for what is not one of OFFLOADS."""
    names = (offload,) if isinstance(offload, str) else tuple(offload)
    return tuple(checks.one_of("offload", name, OFFLOADS) for name in names if name != "none")
