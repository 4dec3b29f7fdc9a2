"""Traffic of one training iteration: the step's transfers, and GPU-by-GPU bytes by kind as sparse matrices."""

from railcore.training.traffic.communication import WIRE, Transfer, Wire, step, transfers
from railcore.training.traffic.matrices import ALGORITHMS, from_transfers, matrix
from railcore.training.traffic.sparse import Matrix, Traffic, traffic_summaries

__all__ = [
    "ALGORITHMS",
    "WIRE",
    "Matrix",
    "Traffic",
    "Transfer",
    "Wire",
    "from_transfers",
    "matrix",
    "step",
    "traffic_summaries",
    "transfers",
]
