"""Number formats of linear layers: what their operands take, and what it takes to cast them."""

from typing import NamedTuple


class LinearFormat(NamedTuple):
    """A number format of linear layers.

    rate: row of a GPU with its dense peak.
    element_bytes: with scales.
    cast_bytes: that pass HBM to cast an element from bf16, along rows and along columns.
    cast_kernels: of a cast of one matrix.
    scale_kernels: that order the scales of a product's two operands for it.
    gathered_bytes: of an element of sharded weights that travel as the linear layers need them.
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
    "bf16": LinearFormat("bf16_dense_rate", 2, 0, 0, 0, 2),
    "fp8": LinearFormat("fp8_dense_rate", 1, 4, 1, 0, 1),
    "mxfp8": LinearFormat("mxfp8_dense_rate", 1 + 1 / 32, 4 + 2 / 32, 1, 2, 2),
    "nvfp4": LinearFormat("nvfp4_dense_rate", 1 / 2 + 1 / 16, 5 + 2 / 16, 2, 2, 2),
}
BF16 = FORMATS["bf16"]
