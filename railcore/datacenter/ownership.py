"""Cost of ownership: what a second of training costs on a machine that is bought, by item.

Servers, network and building wear out over their lives; what is not yet paid back bears interest; spares, maintenance
and staff come on top; energy is drawn while the machine trains; and training pays for the time between trainings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from railcore import catalog
from railcore.datacenter.operation import OperatingPrices
from railcore.datacenter.sizing import Sizing

Key = tuple[str, str, str]  # of a catalog row: family, item and parameter


class _Term(NamedTuple):
    """Where the catalog has a term of ownership, and the item that is left out without it."""

    item: str
    key: Key


_TERMS = {
    "building_usd_per_W": _Term("building", ("ownership", "building", "price")),
    "building_life": _Term("building", ("ownership", "building", "useful_life")),
    "interest": _Term("interest", ("ownership", "capital", "interest_rate")),
    "spares": _Term("spares", ("ownership", "spares", "share")),
    "maintenance": _Term("maintenance", ("ownership", "maintenance", "rate")),
    "staff_usd_per_J": _Term("staff", ("ownership", "staff", "cost")),
    "busy": _Term("idle time", ("ownership", "cluster", "busy_share")),
}
ADDED = tuple(dict.fromkeys(term.item for term in _TERMS.values()))  # items beside wear and electricity
ITEMS = ("servers", "network", *ADDED[:-1], "electricity", ADDED[-1])


@dataclass(frozen=True)
class OwnershipTerms:
    """What owning a machine costs beside wear and electricity. Fields may be arrays; by default they add nothing.

    building_usd_per_W: price of building and electrical plant for a watt of IT [USD/W].
    building_life: time over which both wear out in equal parts [s].
    interest: r, on what is not yet paid back [1/s].
    spares: servers bought on top, over those of the machine.
    maintenance: share of the purchase of servers, network and building [1/s].
    staff_usd_per_J: people, for each joule of IT at full load [USD/J].
    busy: u, share of the time in which the machine trains, above 0 to 1.
    """

    building_usd_per_W: Any = 0.0
    building_life: Any = 1.0
    interest: Any = 0.0
    spares: Any = 0.0
    maintenance: Any = 0.0
    staff_usd_per_J: Any = 0.0
    busy: Any = 1.0


def term_keys(left_out: Iterable[str] = ()) -> dict[str, Key]:
    """Keys of the catalog rows of ownership by field of `OwnershipTerms`, without those of items left out."""
    out = set(left_out)
    return {name: term.key for name, term in _TERMS.items() if term.item not in out}


def item_keys(item: str) -> list[Key]:
    """Keys of the catalog rows that an item of ADDED rests on."""
    return [term.key for term in _TERMS.values() if term.item == item]


def ownership_terms(left_out: Iterable[str] = (), values: Mapping[Key, Any] | None = None) -> OwnershipTerms:
    """Terms of the catalog. left_out: items of ADDED that add nothing. values: draws that stand for rows, by key.

    Examples
    --------
    >>> from railcore.datacenter.ownership import ADDED, OwnershipTerms, ownership_terms
    >>> ownership_terms(ADDED) == OwnershipTerms()
    True
    """
    drawn = values or {}
    return OwnershipTerms(
        **{
            name: drawn[key] if key in drawn else catalog.item(*key[:2])[key[2]]
            for name, key in term_keys(left_out).items()
        }
    )


def cost_rates(machine: Sizing, prices: OperatingPrices, terms: OwnershipTerms) -> dict[str, Any]:
    """Cost of a second of training by item of ITEMS [USD/s].

    Wear is P / L of each purchase P with its life L. Interest is what a loan that is paid back evenly over L costs on
    top, P / L (x / (1 - exp(-x)) - 1) with x = r L, the mean over that life. Spares are servers with their interest.
    Electricity is load x power of the facility x price. All but electricity also runs while nobody trains: idle time is
    (1 / u - 1) of the sum of the others. Energy drawn while idle is not counted.

    Parameters
    ----------
    machine
        What is bought: prices of racks and network, power of IT and facility.
    prices
        Of electricity, with the load and the life of servers and network.
    terms
        Of ownership; `ownership_terms` has the catalog's.

    Returns
    -------
    By item, arrays where an argument has some. A year of training is 365 x 86,400 s of it.

    Examples
    --------
    >>> from railcore.datacenter.operation import operating_prices
    >>> from railcore.datacenter.ownership import OwnershipTerms, cost_rates
    >>> from railcore.datacenter.sizing import datacenter_size
    >>> machine = datacenter_size(gpus=1024, platform="DGX H100")
    >>> rates = cost_rates(machine, operating_prices(), OwnershipTerms())
    >>> [name for name, rate in rates.items() if rate > 0]
    ['servers', 'network', 'electricity']
    """
    life, it_w = prices.useful_life, np.asarray(machine.it_w, float)
    servers, network = (np.asarray(usd, float) for usd in (machine.racks_usd, machine.network_usd))
    building, building_life = it_w * terms.building_usd_per_W, terms.building_life
    bought_interest, building_interest = (_interest(terms.interest, years) for years in (life, building_life))
    rates = {
        "servers": servers / life,
        "network": network / life,
        "building": building / building_life,
        "interest": (servers + network) * bought_interest + building * building_interest,
        "spares": terms.spares * servers * (1 / np.asarray(life) + bought_interest),
        "maintenance": terms.maintenance * (servers + network + building),
        "staff": it_w * terms.staff_usd_per_J,
    }
    idle = (1 / np.asarray(terms.busy, float) - 1) * sum(rates.values())
    rates |= {"electricity": prices.per_second(machine)[0], "idle time": idle}
    return {item: rates[item] for item in ITEMS}


def _interest(rate: Any, life: Any) -> Any:
    """Mean interest over the life on a purchase of 1 that is paid back evenly [1/s]: (x / (1 - exp(-x)) - 1) / L."""
    x = np.asarray(rate, float) * life
    positive = np.where(x > 0, x, 1.0)
    return np.where(x > 0, positive / -np.expm1(-positive) - 1, 0.0) / life
