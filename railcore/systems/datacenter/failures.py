"""What failures do to a job laid out over racks: the GPUs that each part stops, and how often.

Tensor groups stay inside a rack; L groups, one of each layer, are a replica, and all groups of a layer hold the same
weights. Symbols: t GPUs of a group, g groups of a rack, s its spare GPUs, L layers.
A part that fails at rate f and is repaired in r is out of service for the share u = f r / (1 + f r) of the time; parts
are independent, in steady state.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from railcore.facts import catalog, checks
from railcore.facts.units import day, hour, year
from railcore.network import reliability
from railcore.systems.datacenter.layout import Layout

BLAST_COLUMNS = ["part", "count", "failures_per_year", "repair_h", "events_per_day", "out_of_service"]
BLAST_COLUMNS += ["gpus", "groups", "replicas", "replica_gpus"]


@dataclass(frozen=True)
class ReplicaGrid:
    """Tensor groups of a layout by layer and rack, in whole numbers.

    layers: L; tensor: t; groups_per_rack: g; rack_gpus: GPUs of a rack; racks: of a layer in one datacenter.
    Raises ValueError naming the argument that is out of range.
    """

    layers: int
    tensor: int
    groups_per_rack: int
    rack_gpus: int
    racks: int
    datacenters: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            checks.whole(name, value)
        if self.spares < 0:
            raise ValueError(f"groups_per_rack is {self.groups_per_rack}: give what {self.rack_gpus} GPUs hold")

    @property
    def replicas(self) -> int:
        """Groups of a layer in all datacenters, which is the number of replicas."""
        return self.groups_per_rack * self.racks * self.datacenters

    @property
    def all_racks(self) -> int:
        """Racks of all layers and datacenters."""
        return self.racks * self.datacenters * self.layers

    @property
    def gpus(self) -> int:
        """GPUs of all groups."""
        return self.all_racks * self.groups_per_rack * self.tensor

    @property
    def spares(self) -> int:
        """GPUs of a rack that no group needs, s."""
        return self.rack_gpus - self.tensor * self.groups_per_rack

    def groups_met(self, block: int) -> float:
        """Mean number of groups that a block of neighbouring GPUs of a rack belongs to; spares come last."""
        owner = np.arange(self.rack_gpus - self.spares) // self.tensor
        return float(np.mean([len(np.unique(owner[i : i + block])) for i in range(0, len(owner), block)]))


def replica_grid(laid: Layout, tensor: int = 0) -> ReplicaGrid:
    """Groups of one layout, of a model that fits. tensor: groups of another size, as many as a rack has room for."""
    if np.ndim(laid.tensor) or not laid.tensor > 0:
        raise ValueError(f"laid has the tensor degree {laid.tensor!r}: give one layout, of a model that fits")
    t, rack = tensor or int(laid.tensor), int(laid.rack_gpus)
    return ReplicaGrid(int(laid.layers), t, rack // t, rack, int(laid.racks_per_layer_here), int(laid.datacenters))


def blast_radius(
    job: ReplicaGrid, platform: str, radix: int = 64, planes: int = 1, leaf_layers: int = 1, rates: str = "value"
) -> pd.DataFrame:
    """What one failed part of each kind stops, and how often; spare GPUs are not counted.

    A GPU stops its group, a group its replica. A host stops the groups of its GPUs, an HB switch its rack (assumed), a
    leaf switch one GPU in each of radix / 2 racks. With several planes, links, transceivers and leaf switches take
    bandwidth only. process: the catalog's software failures, assumed to stop the GPU of one process.

    Parameters
    ----------
    job
        Groups of the job.
    platform
        Of the catalog.
    radix, planes
        Of the scale-out network.
    leaf_layers
        Layers among the racks below a leaf: 1 where all hold the same one, up to radix / 2.
    rates
        "low", "value" or "high" of failure and repair.

    Returns
    -------
    Columns part, count, failures_per_year (of one), repair_h, events_per_day, out_of_service (share u), gpus (that fail
    at once), groups, replicas (that stop), replica_gpus (theirs).

    Raises
    ------
    ValueError
        For numbers out of range.
    """
    checks.whole("radix", radix, 2)
    checks.whole("planes", planes)
    leaf = radix // 2
    checks.whole("leaf_layers", leaf_layers, 1, leaf)
    box, one, g = catalog.item("platforms", platform), int(planes == 1), job.groups_per_rack
    host = int(box["host_gpus"] if "host_gpus" in box else catalog.item("failure_rates", "host")["gpus"])
    met = job.groups_met(host)
    parts = pd.DataFrame.from_dict(
        {
            "GPU": (job.gpus, 1, 1, 1),
            "NIC": (job.gpus, 1, 1, 1),
            "host": (-(-job.gpus // host), host, met, met),
            "HB switch": (job.all_racks * int(box["hb_switch_parts"]), job.rack_gpus, g, g),
            "link": (job.gpus * one, 1, 1, 1),
            "transceiver": (2 * job.gpus * one, 1, 1, 1),
            "switch": (-(-job.gpus // leaf) * one, leaf, leaf, leaf / leaf_layers),
            "process": (job.gpus, 1, 1, 1),
        },
        orient="index",
        columns=["count", "gpus", "groups", "replicas"],
    )
    hardware = parts.drop("process")
    expected = reliability.expected_failures(hardware["count"].to_dict(), hardware["gpus"].to_dict(), rates)
    table = parts.join(expected.set_index("part")[["failures_per_year", "repair_h"]])
    job_rows = catalog.item("failure_rates", "job")
    software, restart = (getattr(job_rows.row(name), rates) for name in ("software_failure_rate", "restart_time"))
    table.loc["process", ["failures_per_year", "repair_h"]] = software * year, restart / hour
    down = table["failures_per_year"] * table["repair_h"] * hour / year
    table["events_per_day"] = table["count"] * table["failures_per_year"] * day / year
    table["out_of_service"] = down / (1 + down)
    table["replica_gpus"] = table["replicas"] * job.tensor * job.layers
    return table.rename_axis("part").reset_index()[BLAST_COLUMNS]


def interruption_time(blast: pd.DataFrame) -> float:
    """Mean time between failures that stop GPUs of the job [s], from `blast_radius`."""
    return reliability.mean_time_between_failures(float(blast["events_per_day"].sum()) * year / day)
