"""What a budget buys: racks, GPUs, watts, FLOP/s, memory, and what is left for the network."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.systems.datacenter.site import own

FORMATS = ("fp4", "fp8", "bf16")
ABOVE_0 = np.finfo(float).tiny


@dataclass(frozen=True)
class Sizing:
    """A budget and what its racks cost, draw and compute; every field may be an array, all of shapes that broadcast.

    budget_usd: of the whole datacenter; compute_share, network_share: of it for racks and for the network.
    rack_usd, rack_w, rack_gpus: price, power at full load and GPUs of a rack or server.
    gpu_dense_flops, gpu_sparse_flops: peak rate of a GPU without and with 2:4 sparsity [FLOP/s], NaN where unknown.
    gpu_memory_bytes: of a GPU. other_power_share: power of network and storage over that of the racks.
    pue: power usage effectiveness, facility power over IT power.

    Raises ValueError naming the argument that is out of range, and for a budget that buys no rack what one needs.
    """

    budget_usd: Any
    rack_usd: Any
    rack_w: Any
    rack_gpus: Any
    gpu_dense_flops: Any
    gpu_memory_bytes: Any
    gpu_sparse_flops: Any = np.nan
    compute_share: Any = 1.0
    network_share: Any = 0.0
    other_power_share: Any = 0.0
    pue: Any = 1.0

    def __post_init__(self) -> None:
        for name in ("budget_usd", "rack_usd", "rack_w", "rack_gpus", "gpu_dense_flops", "gpu_memory_bytes"):
            self._within(name, ABOVE_0, np.inf, "more than 0")
        self._within("compute_share", ABOVE_0, 1, "a share above 0 and at most 1")
        self._within("network_share", 0, 1, "a share from 0 to 1")
        self._within("other_power_share", 0, np.inf, "0 or more")
        self._within("pue", 1, np.inf, "1 or more")
        if np.any(np.asarray(self.compute_share) + self.network_share > 1 + 1e-12):
            raise ValueError(f"network_share is {self.network_share!r}: with compute_share it is more than the budget")
        if np.any(self.racks < 1):
            least = float(np.max(np.asarray(self.rack_usd) / self.compute_share))
            raise ValueError(
                f"budget_usd is {self.budget_usd!r}, which buys no rack: give at least {least:,.0f} USD for one"
            )

    def _within(self, name: str, least: float, most: float, what: str) -> None:
        value = np.asarray(given := getattr(self, name), float)
        if not np.all((value >= least) & (value <= most) & np.isfinite(value)):
            raise ValueError(f"{name} is {given!r}: give {what}")

    @property
    def racks(self) -> Any:
        """Whole racks: floor(budget x compute share / price)."""
        return np.floor(np.asarray(self.budget_usd) * self.compute_share / self.rack_usd * (1 + 1e-12))

    @property
    def gpus(self) -> Any:
        """GPUs of all racks."""
        return self.racks * self.rack_gpus

    @property
    def racks_w(self) -> Any:
        """Power of the racks [W]."""
        return self.racks * self.rack_w

    @property
    def it_w(self) -> Any:
        """Power of all IT equipment [W]: racks x (1 + other_power_share)."""
        return self.racks_w * (1 + np.asarray(self.other_power_share))

    @property
    def total_w(self) -> Any:
        """Power of the facility [W]: PUE x IT."""
        return self.it_w * np.asarray(self.pue)

    @property
    def dense_flops(self) -> Any:
        """Peak rate without sparsity [FLOP/s]."""
        return self.gpus * self.gpu_dense_flops

    @property
    def sparse_flops(self) -> Any:
        """Peak rate with 2:4 sparsity [FLOP/s], NaN where the catalog has none."""
        return self.gpus * self.gpu_sparse_flops

    @property
    def memory_bytes(self) -> Any:
        """Memory of all GPUs [bytes]."""
        return self.gpus * self.gpu_memory_bytes

    @property
    def network_usd(self) -> Any:
        """Budget of the network [USD]."""
        return np.asarray(self.budget_usd) * self.network_share


def best_format(gpu: str) -> str:
    """Narrowest number format that a catalog GPU has a dense rate for: "fp4", "fp8" or "bf16"."""
    rates = catalog.item("gpus", gpu)
    return next((name for name in FORMATS if f"{name}_dense_rate" in rates), FORMATS[-1])


def format_of(rate: str) -> str:
    """Number format of a row of a GPU's rates: "fp8" of "fp8_sparse_rate". Raises ValueError for another row."""
    form, _, kind = rate.partition("_")
    if form not in FORMATS or kind not in ("dense_rate", "sparse_rate"):
        raise ValueError(f"rate is {rate!r}: give {', '.join(FORMATS)} with _dense_rate or _sparse_rate")
    return form


def size(
    budget_usd: ArrayLike | None = None,
    platform: str = "GB200 NVL72",
    document: str = "",
    rate_format: str = "",
    book: str = "flops2024",
    **changes: Any,
) -> Sizing:
    """A datacenter of catalog racks, such as size(1e11), size(document="flops2024") or size(np.logspace(9, 12)).

    budget_usd: by default the book's. platform: of the catalog's platforms, with a price and a power. document: key
    whose own rows replace the catalog's where it has some; its lowest and highest PUE then come as an array of two.
    rate_format: "fp4", "fp8" or "bf16", by default the GPU's narrowest. book: of the catalog's prices, for the shares.
    changes: any field of `Sizing`. Raises UnknownName for names or rows that the catalog lacks.
    """
    box, prices, energy = (
        catalog.item(*key) for key in (("platforms", platform), ("prices", book), ("prices", "energy"))
    )
    gpu = catalog.item("gpus", box["gpu"])
    form = rate_format or best_format(gpu.name)
    known = {
        "budget_usd": lambda: prices["datacenter_price"] if budget_usd is None else budget_usd,
        "rack_usd": lambda: own(box, "price", document),
        "rack_w": lambda: own(box, "power", document),
        "rack_gpus": lambda: int(box["gpus"]),
        "gpu_dense_flops": lambda: gpu[f"{form}_dense_rate"],
        "gpu_sparse_flops": lambda: gpu.get(f"{form}_sparse_rate", np.nan),
        "gpu_memory_bytes": lambda: own(gpu, "memory", document),
        "compute_share": lambda: prices["compute_share"],
        "network_share": lambda: prices["network_share"],
        "other_power_share": lambda: prices["storage_network_power_share"],
        "pue": lambda: (
            np.array([energy[f"pue_{end}_{document}"] for end in ("low", "high")]) if document else energy["pue"]
        ),
    }
    return Sizing(**{**{name: read() for name, read in known.items() if name not in changes}, **changes})
