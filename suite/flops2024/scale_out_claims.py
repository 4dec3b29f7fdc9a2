"""flops2024 on scale-out networks (section 6.1): values, readings and reasons of the claims, and the training job.

The job is that of a model on the racks of one datacenter, and the traffic that a GPU of it sends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from railcore import catalog
from railcore import datacenter as dc
from railcore.catalog import units
from railcore.catalog.checks import whole
from railcore.datacenter.sizing import Sizing
from railcore.network.topology.clos import clos_reach
from railcore.training import transformer
from railcore.training.formats import catalog_precision
from suite.flops2024.scale_out import COUNT_METHODS, chip_modes, counts_side_by_side
from suite.flops2024.specification import document_site
from suite.ledger import claims
from suite.ledger.readings import Entries, verdict_readings

_WIRE_COST, _LINK_REDUCTION = "flops2024.fattree.wire_cost", "flops2024.multiplane.link_reduction"
_OVER_BUDGET, _TWO_TIERS = "flops2024.fattree.cost_over_budget", "flops2024.fig5.two_tier_chip"
_COUNT_DESCRIPTIONS = {
    "smooth": "parts as fractions",
    "rounded": "chips rounded up",
    "whole": "wired with equal trunks",
}


def chip_entries(chip: str, nic_Bps: float, planes: int) -> Entries:
    """Claims on the chip: its capacity in the mode that differs most, ports with planes, and hosts that two tiers hold.

    Parameters
    ----------
    chip
        Of the catalog's switches.
    nic_Bps, planes
        Bandwidth of a GPU's NIC, one direction [bytes/s], and planes over which it is split.

    Returns
    -------
    For `claims.record`.
    """
    modes, link_Bps = chip_modes(chip, nic_Bps), catalog.item("sites", "flops2024")["simulated_link"]
    capacities = [units.convert(ports * nic_Bps / count, "bit/s") for count, ports in modes.items()]
    values = {
        "flops2024.fattree.chip_modes": max(capacities, key=lambda capacity: abs(capacity - capacities[0])),
        "flops2024.multiplane.ports": modes.get(planes, 0),
        _TWO_TIERS: _two_tier_chip_bps(1),
    }
    link = units.show(link_Bps, "bps")
    held = clos_reach(catalog.item("switches", chip)["capacity"] / link_Bps, 2)
    readings = verdict_readings(
        values,
        {
            f"links of {link}, as printed": {
                f"in {planes} planes, each of its own": {_TWO_TIERS: _two_tier_chip_bps(planes)}
            }
        },
    )
    return Entries(values, {_TWO_TIERS: f"two tiers of {chip} with links of {link} hold {held:,.0f} hosts"}, readings)


def chip_price_range(port_price: catalog.Value, chip_usd: float) -> tuple[float, float, float]:
    """Low, middle and high price of a switch chip that costs `chip_usd`, in proportion to the catalog's port price."""
    low, high = (chip_usd * (end or port_price.value) / port_price.value for end in (port_price.low, port_price.high))
    return low, chip_usd, high


def scale_out_entries(
    table: pd.DataFrame,
    gpus: int,
    own_gpus: int,
    count: str,
    names: Sequence[str],
    budget_usd: float,
    chip_usd: Sequence[float],
) -> Entries:
    """Values, reasons and readings of the claims on parts and cost, for `claims.record`.

    Parameters
    ----------
    table
        `compare_shapes` of `network_shapes` over the section's GPUs, `own_gpus` and others.
    gpus, own_gpus, count
        One number of GPUs for all claims but the counts of the section's own choice, the GPUs of its rails; one way to
        count.
    names
        Of the fat tree, planes alone, rails alone, both, and the section's own choice.
    budget_usd
        For the network of one datacenter [USD].
    chip_usd
        Low, middle and high price of a switch chip [USD].

    Returns
    -------
    Three tables by claim id.
    """
    cases = table.groupby(["gpus", "count"], sort=False)
    counts = {case: rows.set_index("network").reindex(names) for case, rows in cases}
    chosen, own = counts[gpus, count], {way: counts[own_gpus, way].iloc[-1] for way in COUNT_METHODS}
    values = {(n, way): _values(rows, own[way], budget_usd) for (n, way), rows in counts.items()}
    tree, multi = chosen.iloc[0], chosen.iloc[1]
    same = {(n, way): _own_counts(rows.iloc[-1]) for (n, way), rows in counts.items() if way == count}
    readings = verdict_readings(
        values[gpus, count],
        {
            f"{gpus:,} GPUs, as the section says": {
                f"{n:,}": value for (n, way), value in values.items() if n not in (gpus, own_gpus) and way == count
            },
            f"{own[count]['rails']:.0f} rails of {own_gpus / own[count]['rails']:,.0f} GPUs, as the section says": {
                f"{n:,} GPUs in all": value for (n, _), value in same.items() if n != own_gpus
            },
            "equal GPUs before and after": {"the section's two counts": _reductions(tree, own[count])},
            "switches at the catalog's assumed price, and the links between them": {
                "the wires alone, whose price the section prints": {_OVER_BUDGET: tree["links_usd"] / budget_usd}
            },
            _COUNT_DESCRIPTIONS[count]: {
                _COUNT_DESCRIPTIONS[way]: value for (n, way), value in values.items() if n == gpus and way != count
            },
            "links that share a wire count once": {
                "each of them": {_LINK_REDUCTION: 1 - multi["switch_links"] / tree["switch_links"]}
            },
            "links between switches, as the sentence before": {
                "with those to the hosts": {_WIRE_COST: tree["links_usd"] + tree["host_links_usd"]}
            },
        },
    )
    reasons = _reasons(chosen, own[count], counts[gpus, "whole"], budget_usd, chip_usd)
    return Entries(values[gpus, count], reasons, readings)


def _own_counts(own: pd.Series) -> dict[str, float]:
    return {"flops2024.multirail4p.chips": own["chips"], "flops2024.multirail4p.cables": own["cables"]}


def _reductions(tree: pd.Series, own: pd.Series) -> dict[str, float]:
    """How far chips and cables of the section's own choice are below those of the fat tree."""
    return {
        "flops2024.multirail4p.chip_cost_reduction": 1 - own["chips"] / tree["chips"],
        "flops2024.multirail4p.link_cost_reduction": 1 - own["cables"] / tree["cables"],
    }


def _two_tier_chip_bps(planes: int) -> float:
    """Capacity of a switch with which two tiers hold the hosts that section 6.3 simulates [bit/s]: 2 (k/2)^2 hosts."""
    site = catalog.item("sites", "flops2024")
    ports = 2 * math.ceil(math.sqrt(site["simulated_hosts"] / 2))
    return units.convert(ports * site["simulated_link"] / planes, "bit/s")


def _values(networks: pd.DataFrame, own: pd.Series, budget_usd: float) -> dict[str, float]:
    tree, multi, rail, both, rows = (row for _, row in networks.iterrows())
    values = {
        "fattree.tiers": tree["tiers"],
        "fattree.switches": tree["chips"],
        "fattree.links": tree["cables"],
        "fattree.wire_cost": tree["links_usd"],
        "multiplane.tiers": multi["tiers"],
        "multiplane.switch_reduction": 1 - multi["chips"] / tree["chips"],
        "multiplane.link_reduction": 1 - multi["cables"] / tree["cables"],
        "multiplane.tor_gpus_ratio": multi["leaf_gpus"] / tree["leaf_gpus"],
        "multirail.rails": rail["rails"],
        "multirail.gpus_per_rail": rail["gpus"] / rail["rails"],
        "multirail.tiers": rail["tiers"],
        "multirail4p.tiers": both["tiers"],
        "fattree.budget_per_dc": budget_usd,
        "fattree.cost_over_budget": tree["cost_usd"] / budget_usd,
    }
    return {f"flops2024.{key}": value for key, value in values.items()} | _own_counts(own) | _reductions(tree, rows)


def _reasons(
    networks: pd.DataFrame, own: pd.Series, whole: pd.DataFrame, budget_usd: float, chip_usd: Sequence[float]
) -> dict[str, str]:
    """Why a claim comes out as it does. whole: the networks wired with equal trunks."""
    tree, multi, _, both, rows = (row for _, row in networks.iterrows())
    low, high = ((price * tree["chips"] + tree["links_usd"]) / budget_usd for price in chip_usd[::2])
    with_hosts = (tree["cost_usd"] + tree["host_links_usd"]) / budget_usd
    wired = whole.iloc[3]  # by place: with a rail for each GPU of a rack the section's own choice has the same name
    planes, cut = multi["planes"], claims.paper_value("flops2024.multirail4p.link_cost_reduction")
    reasons = {
        "fattree.cost_over_budget": f"with the optics of the links to GPUs {with_hosts:.2f}; the low and high ends of "
        f"the switch price give {low:.2f} and {high:.2f}",
        "multiplane.switch_reduction": f"{tree['chips']:,.0f} chips become {multi['chips']:,.0f}, "
        f"1 - {2 * multi['tiers'] - 1:.0f}/{2 * tree['tiers'] - 1:.0f}; in boxes of {planes:.0f} chips the fall is "
        f"{1 - multi['boxes'] / tree['boxes']:.2f}; a third would leave {tree['chips'] * 2 / 3:,.0f} chips",
        "multirail4p.chips": f"{both.name} have {both['tiers']:.0f} tiers too",
        "multirail4p.chip_cost_reduction": f"{tree['chips']:,.0f} to {rows['chips']:,.0f} chips; the section's two "
        f"counts give {_reductions(tree, own)['flops2024.multirail4p.chip_cost_reduction']:.3f}; half would be "
        f"{tree['chips'] / 2:,.0f}, near the {wired['chips']:,.0f} that {both.name} take wired with equal trunks",
        "multirail4p.link_cost_reduction": f"{tree['cables']:,.0f} to {rows['cables']:,.0f} cables, of which the "
        f"document cuts off all but two digits; the printed value would be {tree['cables'] * (1 - cut):,.0f} cables",
    }
    return {f"flops2024.{key}": text for key, text in reasons.items()}


def networks_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Networks for a reader, a row for each and number of GPUs: what every way to count gives stands in one cell.

    table: of `compare_shapes`. Boxes and power are those of the wiring that exists.
    """
    counts, ways = counts_side_by_side(table), "smooth / rounded / whole"

    def cells(name: str, unit: float = 1) -> list[str]:
        columns = (counts[name.format(way)] / unit for way in COUNT_METHODS)
        return [
            " / ".join(f"{count:,.{0 if unit == 1 else 2}f}" for count in row) for row in zip(*columns, strict=True)
        ]

    return counts[["network", "gpus", "tiers"]].assign(
        **{
            f"chips: {ways}": cells("chips_{}"),
            "boxes": counts["boxes"],
            f"cables: {ways}": cells("cables_{}"),
            f"cost between switches [B USD]: {ways}": cells("cost_{}_usd", 1e9),
            "power_w": counts["power_w"],
        }
    )


@dataclass(frozen=True)
class RackJob:
    """A job laid out on the racks of one datacenter.

    machine: of `job_racks`.
    racks, gpus: of the datacenter.
    stages, racks_of_a_stage: of the job, in the datacenter.
    ring_bytes: what a GPU sends in a step on its ring.
    outside: share of a NIC's bandwidth that goes to other datacenters.
    """

    machine: dict[str, Any]
    racks: int
    gpus: int
    stages: int
    racks_of_a_stage: int
    ring_bytes: float
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
    Keys bought_gpus; gpus; difference (gpus / bought_gpus - 1); racks; racks_of ("budget" or "gpus"). Raises ValueError
    for GPUs that fill no rack.
    """
    n, k = gpus, hb_domain_size
    if n < k:
        raise ValueError(f"gpus is {n}, less than a rack: give at least {k}")
    bought = int(whole("bought_racks", bought_racks)) * k
    agree = abs(n / bought - 1) <= 0.01
    entries: dict[str, Any] = {"bought_gpus": bought, "gpus": n, "difference": f"{n / bought - 1:+.1%}"}
    return entries | {"racks": bought // k if agree else n // k, "racks_of": "budget" if agree else "gpus"}


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
        site = document_site(racks * datacenters, platform, document, nic_Bps=nic_Bps, datacenters=datacenters)
        layer = dc.model_layer(transformer.catalog_model(model), catalog_precision(bytes_of))
        laid = dc.rack_layout(layer, site)
    except ValueError as error:
        hint = "Parameters for racks: gpus, budget, datacenters; for memory: platform, model, bytes_of"
        raise ValueError(f"{error}. {hint}") from error
    steps = dc.layer_times(layer, laid, site).steps_bytes
    return RackJob(
        machine,
        racks,
        racks * rack,
        int(laid.layers),
        int(laid.racks_per_layer_here),
        float(steps[1] + steps[3]),
        float(site.wan_Bps / nic_Bps * (datacenters > 1)),
    )
