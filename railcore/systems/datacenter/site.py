"""The machine as a layer sees it: racks, GPUs, memory, and the three networks between them."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog


@dataclass(frozen=True)
class Site:
    """Racks that train one model, in one or several datacenters; every field may be an array, all of one shape.

    racks: of all datacenters. rack_gpus: GPUs of a rack, which is one HB domain (scale-up or NVLink domain).
    gpu_rate: of a GPU's products [FLOP/s]. memory_bytes: of a GPU.
    hb_Bps, nic_Bps, wan_Bps: scale-up, scale-out and wide-area bandwidth of a GPU, one direction [bytes/s].
    host_Bps: between a GPU and its host's memory, one direction [bytes/s].
    datacenters: that share the racks evenly. one_way_delay_s: propagation between two of them [s].
    tail_loss_rtts: round trips that loss at the end of a wide-area transfer adds.

    Raises ValueError naming the argument that is out of range.
    """

    racks: Any
    rack_gpus: Any
    gpu_rate: Any
    memory_bytes: Any
    hb_Bps: Any
    nic_Bps: Any
    wan_Bps: Any
    host_Bps: Any
    datacenters: Any = 1
    one_way_delay_s: Any = 0.0
    tail_loss_rtts: Any = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = np.asarray(given := getattr(self, field.name), float)
            count = field.name in ("racks", "rack_gpus", "datacenters")
            free = field.name in ("one_way_delay_s", "tail_loss_rtts")
            if not np.all(np.isfinite(value) & ((value >= 0) if free else (value > 0))):
                raise ValueError(f"{field.name} is {given!r}: give {'0 or more' if free else 'more than 0'}")
            if count and np.any(value != np.floor(value)):
                raise ValueError(f"{field.name} is {given!r}: give whole numbers from 1 up")

    @property
    def gpus(self) -> Any:
        """GPUs of all datacenters."""
        return np.asarray(self.racks) * self.rack_gpus


def site(
    racks: ArrayLike,
    platform: str = "GB200 NVL72",
    document: str = "",
    rate: str = "bf16_dense_rate",
    where: str = "flops2024",
    **changes: Any,
) -> Site:
    """A machine of catalog racks, such as site(23333, document="flops2024", rate="fp4_sparse_rate", nic_Bps=1e11).

    platform: of the catalog's platforms. document: key whose own rows replace the catalog's where it has some.
    rate: row of the GPU. where: of the catalog's sites: how many datacenters, wide-area capacity and delay.
    changes: any field of `Site`. Raises UnknownName for names that the catalog lacks.
    """
    box, place = catalog.item("platforms", platform), catalog.item("sites", where)
    gpu = catalog.item("gpus", box["gpu"])
    known = {
        "rack_gpus": lambda: int(box["gpus"]),
        "gpu_rate": lambda: gpu[rate],
        "memory_bytes": lambda: own(gpu, "memory", document),
        "hb_Bps": lambda: own(box, "hb_bandwidth", document),
        "nic_Bps": lambda: own(box, "nic_bandwidth", document),
        "wan_Bps": lambda: place["wan_bandwidth"],
        "host_Bps": lambda: gpu["cpu_bandwidth" if "cpu_bandwidth" in gpu else "pcie_bandwidth"],
        "datacenters": lambda: int(place["datacenters"]),
        "one_way_delay_s": lambda: place["one_way_delay"],
    }
    return Site(racks=racks, **{**{name: read() for name, read in known.items() if name not in changes}, **changes})


def own(item: catalog.Item, parameter: str, document: str = "") -> Any:
    """A document's own row of an item where it has one, such as price_flops2024, else the catalog's."""
    named = f"{parameter}_{document}"
    return item[named if named in item else parameter]
