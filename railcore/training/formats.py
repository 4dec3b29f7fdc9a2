"""Bytes of an element: by number format, and by what the element is to training."""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from railcore import catalog
from railcore.catalog.arguments import NonNegative, checked

BF16_BYTES, FP32_BYTES = 2, 4
ELEMENT_BYTES = WEIGHT_BYTES = BF16_BYTES  # of activations and of weights, as they are computed with and sent
GRADIENT_BYTES = MOMENT_BYTES = MASTER_BYTES = FP32_BYTES  # in memory: summed, and Adam's two moments and copy
OPTIMIZER_BYTES = 2 * MOMENT_BYTES + MASTER_BYTES


def format_bytes(number_format: str) -> float:
    """Bytes of a number by the bits that end the name of its format: "fp32" 4, "bf16" 2, "int8" 1, "fp4" 0.5.

    Scales that blocks of narrow numbers share are not counted. Raises ValueError for a name without bits.
    """
    bits = re.fullmatch(r"[a-z]+(\d+)", number_format) if isinstance(number_format, str) else None
    if not bits or not int(bits[1]):
        raise ValueError(f"number_format is {number_format!r}: give a format such as 'bf16', 'fp8' or 'int4'")
    return int(bits[1]) / 8


class ElementBytes(NamedTuple):
    """Bytes of an element that is kept for the backward pass.

    of_product: inputs of products alone: what norms and activation functions made.
    dispatched: inputs of routed experts.
    before_activation: inputs of activation functions.
    of_attention: what attention made, an input of a product and of its own backward pass.
    """

    of_product: float = ELEMENT_BYTES
    dispatched: float = ELEMENT_BYTES
    before_activation: float = ELEMENT_BYTES
    of_attention: float = ELEMENT_BYTES


BF16_ELEMENTS = ElementBytes()


class LinearFormat(NamedTuple):
    """A number format of linear layers.

    rate: the catalog's row of a GPU with its dense peak.
    element_bytes: of an element with its scales.
    cast_bytes: that pass HBM to cast an element from bf16, along rows and along columns.
    cast_kernels: kernels that cast one matrix.
    scale_kernels: kernels that order the scales of a product's two operands.
    gathered_bytes: of an element of sharded weights, where software gathers them in this format.
    """

    rate: str
    element_bytes: float
    cast_bytes: float
    cast_kernels: int
    scale_kernels: int
    gathered_bytes: float


# A cast reads 2 bytes and writes the element twice. MXFP8 has a scale of one byte for 32 elements; NVFP4 one for 16,
# and its cast reads the matrix twice, for its largest element first. Weights in blocks travel in bf16 and are cast
# where they arrive (Megatron-Core: reuse_grad_buf_for_mxfp8_param_ag).
# Source: GitHub NVIDIA/TransformerEngine, transformer_engine/common/recipe, and pytorch/tensor/{mxfp8,nvfp4}_tensor.py.
FORMATS = {
    "bf16": LinearFormat("bf16_dense_rate", BF16_BYTES, 0, 0, 0, BF16_BYTES),
    "fp8": LinearFormat("fp8_dense_rate", 1, 4, 1, 0, 1),
    "mxfp8": LinearFormat("mxfp8_dense_rate", 1 + 1 / 32, 4 + 2 / 32, 1, 2, BF16_BYTES),
    "nvfp4": LinearFormat("nvfp4_dense_rate", 1 / 2 + 1 / 16, 5 + 2 / 16, 2, 2, BF16_BYTES),
}
BF16 = FORMATS["bf16"]


@checked
@dataclass(frozen=True)
class Precision:
    """Bytes that training in a number format keeps.

    rate_format: of the matrix products: "fp4", "fp8" or "bf16".
    master, weights, gradients, optimizer: of a parameter [bytes].
    element: r, of an activation kept or sent [bytes].
    mask: of an element of a dropout mask [bytes].

    Raises ValueError for bytes that are negative or not finite.
    """

    rate_format: Literal["fp4", "fp8", "bf16"]
    master: NonNegative
    weights: NonNegative
    gradients: NonNegative
    optimizer: NonNegative
    element: NonNegative
    mask: NonNegative
    made_by = "catalog_precision(name)"

    @property
    def state(self) -> float:
        """Bytes of a parameter with its copies, gradient and optimizer states."""
        return self.master + self.weights + self.gradients + self.optimizer


def catalog_precision(name: str) -> Precision:
    """Precision of the catalog, such as "fp8" or "bf16". Raises UnknownName for another name."""
    item = catalog.item("precisions", name)
    return Precision(**{field: item[field] for field in Precision.__dataclass_fields__})
