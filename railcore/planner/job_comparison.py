"""What each network of a cluster costs, and how long a job takes on it with its best strategy there."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import Count, Few, Listed, Positive, Range, Seconds, checked
from railcore.catalog.checks import one_of
from railcore.catalog.units import day
from railcore.datacenter.operation import training_time
from railcore.network.cost import cluster_fabrics, fabric_cost
from railcore.network.price_books import PriceBook, book_of_links
from railcore.network.topology.collapse import collapse_warning
from railcore.network.topology.photonic import ring_lengths
from railcore.network.topology.rails import RailFabric
from railcore.photonics.circuit_search import best_on_circuits
from railcore.planner.fabrics import limiting_fabric, photonic_fabric, switching_time
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.training.machine import Machine, as_machine
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer, as_model

_TOKENS = 1e12  # of a training where nobody says


@checked
def job_networks(
    model: Transformer | str,
    machine: Machine | str,
    gpus: Listed,
    global_batch: Count,
    radix: Listed,
    prices: PriceBook,
    powers: PriceBook,
    tokens: Positive | None = None,
    hb_domain_size: Count | None = None,
    oversubscriptions: Sequence[float] = (2, 4),
    planes: Few = 2,
    circuit_switch: str = "Piezo (Polatis)",
    nic_ports: Annotated[int, Range(2, 2**10)] = 2,
    reconfiguration_s: Seconds | None = None,
    **options: Any,
) -> pd.DataFrame:
    """What each network of a cluster costs to buy, and how long a job takes on it with its own best strategy.

    Parameters
    ----------
    model, machine, gpus, global_batch
        The job, as for `search`.
    radix
        Ports of a switch.
    prices, powers
        Books of prices [USD] and of peak powers [W], scaled to the rate of the machine's NICs. Ports of a plane or of
        photonic rails are slower: they have no cost in a book that does not say its rate.
    tokens
        Of the whole training; None for the model's own in the catalog, or a trillion where it has none.
    hb_domain_size
        GPUs in use of each HB domain; None for all. The network has ports for all GPUs of these domains.
    oversubscriptions, planes
        As for `cluster_fabrics`.
    circuit_switch, nic_ports
        Of photonic rails: of the catalog; each port of a NIC is on a switch of its own.
    reconfiguration_s
        Time of a change of circuits [s]; None for the switch's own.
    options
        Of `search`: runtime, offload and limits.

    Returns
    -------
    Columns network, cost_usd, power_w, strategy ("none fits" where none does), iteration_s, days, slowdown (over the
    fastest network's), note: why a network is not there, with NaN in all numbers. attrs["warnings"]: those of the
    fabrics, of the books and of `best_on_circuits`, and the notes.

    Raises
    ------
    ValueError
        As `search`, and for a machine on a fabric.
    """
    model, machine = as_model(model), as_machine(machine).off_fabrics("networks that are compared")
    for name in options:
        one_of("options", name, ("runtime", "offload", *STRATEGY_COLUMNS))
    books = [
        book_of_links(family, book, machine.nic_Bps if book.rate_Bps else None)
        for family, book in (("prices", prices), ("powers", powers))
    ]
    delay_s = switching_time(circuit_switch, reconfiguration_s)
    used = machine.hb_domain_size if hb_domain_size is None else hb_domain_size
    cluster = math.ceil(gpus / used) * machine.hb_domain_size
    row = catalog.item("models", model.name) if model.name in catalog.names("models") else {}
    trained = row.get("training_tokens", _TOKENS) if tokens is None else tokens
    texts = dict.fromkeys(text for book in books for text in book.warnings)
    if tokens is None and "training_tokens" not in row:
        texts[f"The catalog has no tokens of a training of {model.name}: days are of {_TOKENS:.0e} tokens."] = None
    rows, best_on = list[dict[str, Any]](), dict[RailFabric | None, pd.DataFrame]()
    for name, fabric in cluster_fabrics(cluster, machine.hb_domain_size, radix, oversubscriptions, planes).items():
        texts |= dict.fromkeys(fabric.warnings)
        if note := collapse_warning(fabric):
            rows.append({"network": name, "note": note})
            continue
        limits = limiting_fabric(fabric, model)
        if limits not in best_on:
            limited = {"fabric": limits, "hb_domain_size": used, "only_best": True, "top": 1, **options}
            best_on[limits] = search(model, machine, gpus, global_batch, **limited).best
        best = best_on[limits]
        label = strategy_label(best.iloc[0]) if len(best) else "none fits"
        times = {"strategy": label, "iteration_s": best["total_s"].min()}
        rows.append({"network": name, "note": "", **times, **fabric_cost(fabric, *books)})
    rows.append({"network": "photonic rails", "note": ""})
    try:
        optical = photonic_fabric(cluster, machine.hb_domain_size, circuit_switch, nic_ports)
    except ValueError as error:
        rows[-1]["note"] = str(error)
    else:
        box = machine.changed(hb_domain_size=used)
        on_circuits = options | {"ports": nic_ports, "rings": ring_lengths(nic_ports, optical.planes)}
        best = best_on_circuits(model, box, gpus, global_batch, delay_s, **on_circuits)
        texts |= dict.fromkeys((*optical.warnings, *best.attrs["warnings"]))
        rows[-1] |= {**best.iloc[0][["strategy", "iteration_s"]], **fabric_cost(optical, *books)}
    columns = ["network", "cost_usd", "power_w", "strategy", "iteration_s", "days", "slowdown", "note"]
    table = pd.DataFrame(rows).reindex(columns=columns)
    table["days"] = training_time(table["iteration_s"], global_batch * model.sequence_length, trained) / day
    table["slowdown"] = table["iteration_s"] / table["iteration_s"].min() - 1
    left_out = [f"{row.network} is left out: {row.note}" for row in table.itertuples() if row.note]
    table.attrs["warnings"] = (*texts, *left_out)
    return table
