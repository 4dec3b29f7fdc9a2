"""railonly2025's job of a mixture of experts (Fig. 4): bytes of an iteration by path, and times one after the other.

Every GPU holds its share of the experts and a copy of all other weights. In an iteration all GPUs exchange activations
with the experts X times, and an AllReduce sums the gradients S of the copies. An expert's biases belong to the expert.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from railcore.catalog.checks import whole
from railcore.training.collectives import hierarchical_time
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.traffic import Traffic, from_transfers
from railcore.training.transfers import Transfer, step_transfers
from railcore.training.transformer import Transformer
from suite.railonly2025.dense_traffic import PAPER_RUNTIME
from suite.railonly2025.expert_routing import expert_all_to_all_time


@dataclass(frozen=True)
class ExpertJob:
    """Training a mixture of experts with one data-parallel copy of the rest on every GPU, the experts spread over all.

    model: with experts.
    gpus: N, in whole HB domains.
    hb_domain_size: K.
    sequences_per_gpu: of an iteration; a fraction for what-if.
    runtime: bytes of a gradient.
    recompute: "full" exchanges a third time with the experts.

    Raises ValueError for a dense model, experts that do not divide over the GPUs, and part-filled domains.
    """

    model: Transformer
    gpus: int
    hb_domain_size: int
    sequences_per_gpu: float
    runtime: Runtime = PAPER_RUNTIME
    recompute: str = "none"

    def __post_init__(self) -> None:
        whole("gpus", self.gpus, 2)
        whole("hb_domain_size", self.hb_domain_size)
        if not self.model.experts or self.model.experts % self.gpus:
            raise ValueError(
                f"model has {self.model.experts} experts: give a mixture with a multiple of gpus {self.gpus}"
            )
        if self.gpus % self.hb_domain_size:
            raise ValueError(f"gpus is {self.gpus}: give a multiple of hb_domain_size {self.hb_domain_size}")

    @property
    def domains(self) -> int:
        """HB domains, y."""
        return self.gpus // self.hb_domain_size

    @property
    def strategy(self) -> Strategy:
        """Data parallel over all GPUs, and so are the experts."""
        return Strategy(data=self.gpus, expert=self.gpus, recompute=self.recompute)

    @cached_property
    def iteration_transfers(self) -> list[Transfer]:
        """`step_transfers` of one sequence a GPU, the activations `sequences_per_gpu` times as large."""
        rows = step_transfers(self.model, self.strategy, self.gpus, self.runtime)
        times = {"expert": self.sequences_per_gpu}
        return [row._replace(message_bytes=row.message_bytes * times.get(row.kind, 1)) for row in rows]

    @property
    def exchanges(self) -> float:
        """Exchanges of an iteration, X: of each mixture layer, to the experts and back, in every pass."""
        return sum(row.calls for row in self.iteration_transfers if row.kind == "expert")

    @property
    def exchange_bytes(self) -> float:
        """What a GPU sends in one exchange, its own share included [bytes]: D = s b h top_k element_bytes."""
        return next(row.message_bytes for row in self.iteration_transfers if row.kind == "expert")

    @property
    def shared_gradient_bytes(self) -> float:
        """Gradients that all GPUs sum, those of everything but the experts [bytes]: S."""
        return sum(row.calls * row.message_bytes for row in self.iteration_transfers if row.kind == "data")

    @cached_property
    def iteration_traffic(self) -> Traffic:
        """Bytes of an iteration between GPUs: the AllReduce in hierarchical rings, the all-to-all before forwarding."""
        return from_transfers(self.strategy, self.iteration_transfers, {"data": "hierarchical"}, self.hb_domain_size)

    def volumes(self) -> pd.DataFrame:
        """Bytes of all GPUs in an iteration, counted from `iteration_traffic`: columns kind, path, bytes."""
        table = self.iteration_traffic.summary(self.hb_domain_size).query("kind != 'all'")
        kind = np.where(table["kind"] == "expert", "all-to-all", "AllReduce")
        paths = {
            "HB domain": table["bytes"] - table["network_bytes"],
            "NIC, same rail": table["network_bytes"] - table["cross_rail_bytes"],
            "NIC, other rail": table["cross_rail_bytes"],
        }
        wide = pd.DataFrame(paths).groupby(kind).sum().rename_axis(index="kind", columns="path")
        return wide.stack().rename("bytes").reset_index()

    @property
    def all_to_all_share(self) -> float:
        """Share of the all-to-all in all bytes, HB included: X D / (X D + 2 S).

        The common factor (N - 1) / N of both drops out.
        """
        sent = self.exchanges * self.exchange_bytes
        return sent / (sent + 2 * self.shared_gradient_bytes)

    def sequences_for_share(self, share: float) -> float:
        """Sequences per GPU that would make `share` the all-to-all's: b share (1 - share_b) / (share_b (1 - share))."""
        return self.sequences_per_gpu * share / (1 - share) * (1 / self.all_to_all_share - 1)

    def times(self, hb_Bps: float, nic_Bps: float, rate: float) -> dict[str, float]:
        """Seconds of an iteration by kind, one after the other, nothing overlapped.

        "all-to-all, rail-optimized" direct, "all-to-all, rail-only" two-hop in turn, "AllReduce" (hierarchical, alike
        in both), "compute" at `rate` [FLOP/s] of a GPU.
        """
        link = (self.exchange_bytes, self.gpus, self.hb_domain_size, hb_Bps, nic_Bps)
        reduce = hierarchical_time(
            "all_reduce", self.shared_gradient_bytes, self.hb_domain_size, self.domains, hb_Bps, nic_Bps
        )
        times = {
            "all-to-all, rail-optimized": self.exchanges * expert_all_to_all_time(*link, "direct", 1.0),
            "all-to-all, rail-only": self.exchanges * expert_all_to_all_time(*link),
            "AllReduce": reduce,
            "compute": self.model.training_flops(self.sequences_per_gpu, self.recompute, causal=False) / rate,
        }
        return {kind: float(seconds) for kind, seconds in times.items()}
