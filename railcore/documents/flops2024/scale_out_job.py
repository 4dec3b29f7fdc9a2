"""The training job of flops2024 on the racks of one datacenter, and the traffic that a GPU of it sends."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from railcore.documents.flops2024 import specification
from railcore.facts import catalog
from railcore.facts.checks import whole
from railcore.systems import datacenter as dc
from railcore.systems.datacenter.sizing import Sizing
from railcore.training import transformer


@dataclass(frozen=True)
class RackJob:
    """A job laid out on the racks of one datacenter.

    machine: of `job_racks`; racks, gpus: of the datacenter; stages, and racks_of_a_stage in the datacenter; ring_bytes,
    chain_bytes: what a GPU sends in a step on its ring and along the pipeline; outside: share of a NIC's bandwidth that
    goes to other datacenters.
    """

    machine: dict[str, Any]
    racks: int
    gpus: int
    stages: int
    racks_of_a_stage: int
    ring_bytes: float
    chain_bytes: float
    outside: float

    def table(self) -> pd.DataFrame:
        """The job in one row, for a reader."""
        rack = self.gpus // self.racks
        job = {"stages": self.stages, "racks_of_a_stage": self.racks_of_a_stage}
        job["gpus_at_work"] = self.stages * self.racks_of_a_stage * rack
        return pd.DataFrame([self.machine | job | {"nic_share_to_other_datacenters": self.outside}])


def job_racks(gpus: int, hb_domain_size: int, bought_racks: int) -> dict[str, Any]:
    """Racks of a job's datacenter: those that a budget buys where they hold its GPUs within 1%, else the GPUs'.

    gpus: of the datacenter, perhaps a rounded number; hb_domain_size: GPUs of a rack; bought_racks: of one datacenter.
    Keys bought_gpus; datacenter_gpus; difference (datacenter_gpus / bought_gpus - 1); racks; racks_of ("budget" or
    "datacenter_gpus"). Raises ValueError for GPUs that fill no rack.
    """
    n, k = int(whole("gpus", gpus)), int(whole("hb_domain_size", hb_domain_size))
    if n < k:
        raise ValueError(f"gpus is {n}, less than a rack: give at least {k}")
    bought = int(whole("bought_racks", bought_racks)) * k
    agree = abs(n / bought - 1) <= 0.01
    found: dict[str, Any] = {"bought_gpus": bought, "datacenter_gpus": n, "difference": f"{n / bought - 1:+.1%}"}
    return found | {"racks": bought // k if agree else n // k, "racks_of": "budget" if agree else "datacenter_gpus"}


def rack_job(
    gpus: int, bought: Sizing, datacenters: int, platform: str, document: str, nic_Bps: float, model: str, bytes_of: str
) -> RackJob:
    """The job of a model on the racks of one of several datacenters.

    Parameters
    ----------
    gpus
        GPUs of the datacenter, perhaps a rounded number.
    bought, datacenters
        What the budget of all datacenters buys; datacenters that share the budget and the job.
    platform, document
        Catalog platform, and the document whose own rows of it are taken.
    nic_Bps
        Bandwidth of a GPU's NIC, one direction [bytes/s].
    model, bytes_of
        Catalog model, and the precision that gives the bytes of its gradients and activations.

    Returns
    -------
    The job.

    Raises
    ------
    ValueError
        The GPUs fill no rack, or the model does not fit.
    """
    rack = int(catalog.item("platforms", platform)["gpus"])
    try:
        machine = job_racks(gpus, rack, int(bought.racks) // datacenters)
        racks = machine["racks"]
        site = specification.document_site(
            racks * datacenters, platform, document, nic_Bps=nic_Bps, datacenters=datacenters
        )
        layer = dc.layer(transformer.catalog_model(model), dc.precision(bytes_of))
        laid = dc.layout(layer, site)
    except ValueError as error:
        hint = "Parameters for racks: datacenter_gpus, budget, datacenters; for memory: platform, model, bytes_of"
        raise ValueError(f"{error}. {hint}") from error
    steps = dc.layer_times(layer, laid, site).steps_bytes
    return RackJob(
        machine,
        racks,
        racks * rack,
        int(laid.layers),
        int(laid.racks_per_layer_here),
        float(steps[1] + steps[3]),
        float(2 * layer.tensor_bytes / laid.tensor),
        float(site.wan_Bps / nic_Bps * (datacenters > 1)),
    )
