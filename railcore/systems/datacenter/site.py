"""The machine as a layer sees it: racks, GPUs, memory, and the three networks between them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks


@dataclass(frozen=True)
class Site:
    """Racks that train one model, in one or several datacenters; every field may be an array, all of one shape.

    racks: of all datacenters. rack_gpus: GPUs of a rack, which is one HB domain (scale-up or NVLink domain).
    gpu_rate: matrix products of a GPU [FLOP/s]. memory_bytes: of a GPU.
    hb_Bps, nic_Bps, wan_Bps: scale-up, scale-out and wide-area bandwidth of a GPU, one direction [bytes/s].
    host_Bps: between a GPU and its host's memory, one direction [bytes/s].
    datacenters: they share the racks evenly. one_way_delay_s: propagation between two of them [s].
    tail_loss_rtts: round trips that a loss at the end of a wide-area transfer adds.

    Raises ValueError naming the argument that is out of range; several datacenters need a finite wan_Bps.
    """

    racks: Any
    rack_gpus: Any
    gpu_rate: Any
    memory_bytes: Any
    hb_Bps: Any
    nic_Bps: Any
    host_Bps: Any
    wan_Bps: Any = np.inf
    datacenters: Any = 1
    one_way_delay_s: Any = 0.0
    tail_loss_rtts: Any = 0.0

    def __post_init__(self) -> None:
        for name in ("racks", "rack_gpus", "datacenters"):
            checks.whole(name, getattr(self, name))
        for name in ("gpu_rate", "memory_bytes", "hb_Bps", "nic_Bps", "host_Bps"):
            checks.positive(name, getattr(self, name))
        for name in ("one_way_delay_s", "tail_loss_rtts"):
            checks.at_least(name, getattr(self, name))
        if np.any(np.asarray(self.datacenters) > 1):
            checks.positive("wan_Bps", self.wan_Bps)

    @property
    def gpus(self) -> Any:
        """GPUs of all datacenters."""
        return np.asarray(self.racks) * self.rack_gpus


def site(racks: ArrayLike, platform: str, rate: str, where: str = "", variant: str = "", **changes: Any) -> Site:
    """A machine of catalog racks, such as site(1000, "GB200 NVL72", "fp8_dense_rate", nic_Bps=1e11).

    Parameters
    ----------
    racks
        Racks of all datacenters.
    platform
        Of the catalog's platforms: a rack or a server, one HB domain.
    rate
        Row of the platform's GPU with its rate, such as "fp8_dense_rate".
    where
        Of the catalog's sites: datacenters, wide-area capacity and delay. By default one datacenter.
    variant
        Its rows replace others where an item has them: `variant_row`.
    **changes
        Any field of `Site`, in place of the catalog's.

    Returns
    -------
    A `Site`.

    Raises
    ------
    UnknownName
        For names that the catalog lacks.
    """
    box = catalog.item("platforms", platform)
    gpu = catalog.item("gpus", box["gpu"])
    known = {
        "rack_gpus": lambda: int(box["gpus"]),
        "gpu_rate": lambda: gpu[rate],
        "memory_bytes": lambda: variant_row(gpu, "memory", variant),
        "hb_Bps": lambda: variant_row(box, "hb_bandwidth", variant),
        "nic_Bps": lambda: variant_row(box, "nic_bandwidth", variant),
        "host_Bps": lambda: gpu["cpu_bandwidth" if "cpu_bandwidth" in gpu else "pcie_bandwidth"],
    }
    if where:
        place = catalog.item("sites", where)
        known |= {
            "wan_Bps": lambda: place["wan_bandwidth"],
            "datacenters": lambda: int(place["datacenters"]),
            "one_way_delay_s": lambda: place["one_way_delay"],
        }
    return Site(racks=racks, **{name: read() for name, read in known.items() if name not in changes}, **changes)


def variant_row(item: catalog.Item, parameter: str, variant: str = "") -> Any:
    """Value of the row <parameter>_<variant>, such as an announced size, or of <parameter> where there is none."""
    named = f"{parameter}_{variant}"
    return item[named if named in item else parameter]
