"""What each network that a cluster can have costs, and what it costs a job in time, with the best strategy on each."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import Count, Few, Listed, NonNegative, NonNegativeInt, Seconds, checked
from railcore.catalog.checks import one_of, positive, whole
from railcore.catalog.units import day
from railcore.datacenter.operation import training_time
from railcore.network.cost import cluster_fabrics, fabric_cost
from railcore.network.price_books import PriceBook, book_of_links
from railcore.network.topology.blocks import rail_blocks
from railcore.network.topology.collapse import collapse_warning
from railcore.network.topology.photonic import PhotonicRails, ring_lengths
from railcore.network.topology.rails import RailFabric
from railcore.photonics.circuit_search import best_on_circuits
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.training.group_shares import Fabric
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer, as_model

_TOKENS = 1e12  # of a training where nobody says


@checked
def job_networks(
    model: Transformer | str,
    machine: Machine | str,
    gpus: Listed,
    global_batch: NonNegativeInt,
    radix: Listed,
    prices: PriceBook,
    powers: PriceBook,
    tokens: NonNegative | None = None,
    hb_domain_size: Count | None = None,
    oversubscriptions: Sequence[float] = (2, 4),
    planes: Few = 2,
    circuit_switch: str = "Piezo (Polatis)",
    nic_ports: Few = 2,
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
        book_of_links(*pair, machine.nic_Bps if pair[1].rate_Bps else None)
        for pair in (("prices", prices), ("powers", powers))
    ]
    used = machine.hb_domain_size if hb_domain_size is None else int(whole("hb_domain_size", hb_domain_size))
    whole("nic_ports", nic_ports, least=2)
    cluster = math.ceil(gpus / used) * machine.hb_domain_size
    known = catalog.item("models", model.name) if model.name in catalog.names("models") else {}
    trained = float(positive("tokens", known.get("training_tokens", _TOKENS) if tokens is None else tokens))
    asked = {"hb_domain_size": used, "only_best": True, "top": 1, **options}
    rows, found = [], dict[RailFabric | None, pd.DataFrame]()
    texts = dict.fromkeys(text for book in books for text in book.warnings)
    if tokens is None and "training_tokens" not in known:
        texts[f"The catalog has no tokens of a training of {model.name}: days are of {_TOKENS:.0e} tokens."] = None
    for name, fabric in cluster_fabrics(cluster, machine.hb_domain_size, radix, oversubscriptions, planes).items():
        texts |= dict.fromkeys(fabric.warnings)
        if note := collapse_warning(fabric):
            rows.append({"network": name, "note": note})
            continue
        limits = limiting_fabric(fabric, model)
        if limits not in found:
            found[limits] = search(model, machine, gpus, global_batch, fabric=limits, **asked).best
        best = found[limits]
        label = strategy_label(best.iloc[0]) if len(best) else "none fits"
        row = {"network": name, "strategy": label, "iteration_s": best["total_s"].min(), "note": ""}
        rows.append(row | fabric_cost(fabric, *books))
    switch = catalog.item("circuit_switches", circuit_switch)
    circuits: dict[str, Any] = {"network": "photonic rails", "note": ""}
    try:  # as many rails on a switch as fit
        if cluster == machine.hb_domain_size:
            raise ValueError("one HB domain holds all GPUs, which need no network")
        optical = PhotonicRails(
            *(cluster, machine.hb_domain_size, int(switch["ports"]), nic_ports), planes=nic_ports, rails_per_switch=None
        )
    except ValueError as error:
        circuits["note"] = str(error)
    else:
        delay = switch["reconfiguration_time"] if reconfiguration_s is None else reconfiguration_s
        box = machine.changed(hb_domain_size=used)
        on_circuits = options | {"ports": nic_ports, "rings": ring_lengths(nic_ports, optical.planes)}
        best = best_on_circuits(model, box, gpus, global_batch, delay, **on_circuits)
        texts |= dict.fromkeys((*optical.warnings, *best.attrs["warnings"]))
        circuits |= {**best.iloc[0][["strategy", "iteration_s"]], **fabric_cost(optical, *books)}
    columns = ["network", "cost_usd", "power_w", "strategy", "iteration_s", "days", "slowdown", "note"]
    table = pd.DataFrame([*rows, circuits]).reindex(columns=columns)
    table["days"] = training_time(table["iteration_s"], global_batch * model.sequence_length, trained) / day
    table["slowdown"] = table["iteration_s"] / table["iteration_s"].min() - 1
    table.attrs["warnings"] = (
        *texts,
        *(f"{row.network} is left out: {row.note}" for row in table[table["note"] != ""].itertuples()),
    )
    return table


def limiting_fabric(fabric: RailFabric, model: Transformer) -> RailFabric | None:
    """A fabric that changes a model's times, or None for one that gives all traffic the NICs' full rate.

    Tokens of experts may go straight to another rail where rails meet, so that a full fabric counts for them too.
    """
    meet = model.experts and (fabric.rails == 1 or math.isfinite(fabric.oversubscription))
    return None if is_full(fabric) and not meet else fabric


def is_full(fabric: RailFabric) -> bool:
    """Whether no link above the leaves is oversubscribed."""
    return all(each.full for each in rail_blocks(fabric))


def network_shares(
    fabrics: Mapping[str, Fabric],
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, Any],
    global_batch: int,
    runtime: Runtime | str | None = None,
) -> pd.DataFrame:
    """The share of a NIC that each kind of a job's traffic gets on networks, and the time of an iteration.

    Parameters
    ----------
    fabrics
        By name.
    model, machine, strategy, global_batch, runtime
        The job, as for `iteration_times`.

    Returns
    -------
    Columns network; a share for each kind of traffic between HB domains, "<kind>_share"; direct_share of tokens that go
    straight to their experts' rails (0 where rails do not meet); iteration_s, and slowdown over the first network.
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    if not fabrics:
        raise ValueError("fabrics is empty: give one or more by name")
    rows = []
    for name, fabric in fabrics.items():
        places = machine.on(fabric).places(strategy.group_levels(), strategy.gpus)
        between = {kind: place for kind, place in places.items() if place.domains > 1}
        shares = {f"{kind}_share": float(place.nic_share) for kind, place in between.items()}
        if "expert" in between:
            shares["direct_share"] = float(between["expert"].direct_share)
        found = iteration_times(model, machine, strategy, runtime, global_batch=global_batch, fabric=fabric)
        rows.append({"network": name, **shares, "iteration_s": found.total_s.item()})
    table = pd.DataFrame(rows)
    return table.assign(slowdown=table["iteration_s"] / table["iteration_s"].iloc[0] - 1)
