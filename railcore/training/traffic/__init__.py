"""Traffic of one training iteration: the step's transfers, and GPU-by-GPU bytes by kind as sparse matrices."""

from railcore.training.traffic.matrices import ALGORITHMS, from_transfers, matrix, two_stage_cases, two_stage_matrix
from railcore.training.traffic.sparse import Matrix, Traffic, compared
from railcore.training.traffic.step import WIRE, Transfer, Wire, step, transfers

__all__ = [
    "ALGORITHMS",
    "WIRE",
    "Matrix",
    "Traffic",
    "Transfer",
    "Wire",
    "compared",
    "from_transfers",
    "matrix",
    "step",
    "transfers",
    "two_stage_cases",
    "two_stage_matrix",
]
