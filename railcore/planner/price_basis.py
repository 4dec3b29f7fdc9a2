"""Prices of platforms on one basis: a maker's list, a reseller and a contract in volume have three prices."""

from collections.abc import Callable
from typing import Any

from railcore import catalog
from railcore.catalog.units import number, show

BASES = ("volume", "reseller", "list")
_WORDS = {"volume": "price in volume", "reseller": "price of a reseller", "list": "list price"}
_NONE = "price as the catalog has it"
Key = tuple[str, str, str]


def price_basis(rack: catalog.Item) -> str:
    """Whose price a platform has, of BASES; "" for one without a basis, and for a price of a user's own catalog."""
    if "price_basis" not in rack or (rack.row("price").own and not rack.row("price_basis").own):
        return ""
    return str(rack["price_basis"])


def basis_keys(rack: catalog.Item, wanted: str) -> list[Key]:
    """Keys of the catalog rows that bring a platform's price to a basis of BASES; none where it is there."""
    own = price_basis(rack)
    names = () if own in ("", wanted) else (own, wanted)
    return [("price_bases", name, "volume_share") for name in names if name != "volume"]


def basis_factor(rack: catalog.Item, wanted: str, value: Callable[[Key], Any]) -> Any:
    """What a platform's price is multiplied by: its share of the price in volume, over that of the wanted basis.

    value: of a catalog row by its key, or draws of it. A price without a basis is taken as it is.
    """
    factor: Any = 1.0
    for key in basis_keys(rack, wanted):
        factor = factor / value(key) if key[1] == wanted else factor * value(key)
    return factor


def basis_text(rack: catalog.Item, wanted: str) -> str:
    """A platform's price, whose it is, and what is counted in its place."""
    price, keys = rack["price"], basis_keys(rack, wanted)
    told = f"{rack.name}: {_WORDS.get(price_basis(rack), _NONE)}, {show(price, 'USD', 4)}."
    if not keys:
        return told

    def factor(own_end: str, wanted_end: str) -> float:
        ends = {key: getattr(catalog.item(*key[:2]).row(key[2]), own_end) for key in keys if key[1] != wanted}
        ends |= {key: getattr(catalog.item(*key[:2]).row(key[2]), wanted_end) for key in keys if key[1] == wanted}
        return float(basis_factor(rack, wanted, ends.__getitem__))

    value, low, high = factor("value", "value"), factor("low", "high"), factor("high", "low")
    span = f"{number(value, 2)} times that ({number(low, 2)} to {number(high, 2)}, assumed)"
    return f"{told} Counted is the {_WORDS[wanted]}, {show(price * value, 'USD', 4)}: {span}."
