"""The datacenter that flops2024 specifies: prices, powers, memory and speeds of its own in place of the catalog's.

In notebooks the parameter `document` names whose rows these are; empty for the catalog's alone.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.units import Gbps
from railcore.systems.datacenter.exposed import Case
from railcore.systems.datacenter.layouts import Layer, layout, layout_summary, tensor_degree_memory
from railcore.systems.datacenter.layouts import precision as precision_of
from railcore.systems.datacenter.sizing import Site, Sizing, site, size

BOOK = "flops2024"  # of the catalog's prices and sites


def document_size(
    budget_usd: ArrayLike | None = None,
    platform: str = "GB200 NVL72",
    document: str = BOOK,
    rate_format: str = "",
    **changes: Any,
) -> Sizing:
    """`sizing.size` of the document's budget and platform, with its lowest and highest PUE as an array of two.

    Parameters
    ----------
    budget_usd
        By default the document's [USD].
    platform
        Of the catalog's platforms.
    document
        Whose own rows replace the catalog's where it has some, "" for none.
    rate_format, **changes
        As in `sizing.size`.

    Returns
    -------
    A `Sizing`.
    """
    if document and "pue" not in changes:
        energy = catalog.item("prices", "energy")
        changes["pue"] = np.array([energy[f"pue_{end}_{document}"] for end in ("low", "high")])
    budget = catalog.item("prices", BOOK)["datacenter_price"] if budget_usd is None else budget_usd
    return size(budget, platform, BOOK, document, rate_format, **changes)


def document_site(
    racks: ArrayLike,
    platform: str = "GB200 NVL72",
    document: str = BOOK,
    rate: str = "bf16_dense_rate",
    **changes: Any,
) -> Site:
    """`sizing.site` in the document's datacenters, by default of its platform.

    Parameters
    ----------
    racks
        Of all datacenters.
    platform
        Of the catalog's platforms.
    document
        Whose own rows replace the catalog's where it has some, "" for none.
    rate, **changes
        As in `sizing.site`.

    Returns
    -------
    A `Site`.
    """
    return site(racks, platform, rate, BOOK, document, **changes)


def memory_view(model: str, one: Layer, budget_usd: float, platform: str, datacenters: int) -> dict[str, Any]:
    """Memory of a GPU by tensor-parallel degree on the racks that a budget buys, by the catalog's own rows.

    Parameters
    ----------
    model, one
        Name and layer of a model.
    budget_usd, platform, datacenters
        Of the whole datacenter [USD]; of the catalog; that share the racks.

    Returns
    -------
    Arguments of `charts.memory_by_degree`: data, limit_bytes and title.
    """
    machine = document_size(budget_usd, platform, "")
    where = document_site(int(machine.racks), platform, "", datacenters=datacenters)
    return {
        "data": tensor_degree_memory({model: one}, where.rack_gpus),
        "limit_bytes": where.memory_bytes,
        "title": layout_summary(machine, layout(one, where, strict=False)),
    }


def changed_case(
    case: Case,
    platform: str,
    rule: str,
    rate: str,
    precision: str,
    hb_gbps: float,
    nic_gbps: float,
    wan_gbps: float,
    datacenters: int,
) -> Case:
    """A case under other settings, as a person gives them.

    Parameters
    ----------
    case, platform
        What is changed, and the catalog's platform whose GPU it has.
    rule, rate, precision
        Of `exposed.OVERLAP_RULES`, of the GPU's rows, of the catalog's precisions.
    hb_gbps, nic_gbps, wan_gbps
        Scale-up, scale-out and wide-area bandwidth of a GPU, one direction [Gbps].
    datacenters
        That share the racks.

    Returns
    -------
    A `Case`.
    """
    gpu = catalog.item("gpus", catalog.item("platforms", platform)["gpu"])
    speeds = {"hb_Bps": hb_gbps * Gbps, "nic_Bps": nic_gbps * Gbps, "wan_Bps": wan_gbps * Gbps}
    return case.changed(
        case={"rule": rule, "precision": precision_of(precision)},
        site={"gpu_rate": gpu[rate], "datacenters": datacenters, **speeds},
    )
