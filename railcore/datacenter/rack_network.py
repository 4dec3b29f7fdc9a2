"""The scale-out network of racks: its price and its power, from its bill of materials."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.checks import Ints
from railcore.network.bill import bill_total
from railcore.network.price_books import PriceBook, matching_books
from railcore.network.switches import switch_model, usual_networks
from railcore.network.topology.clos import rail_parts


class NetworkOfRacks(ABC):
    """Price and power of the scale-out network by number of racks; `Sizing` adds them to those of the racks."""

    @abstractmethod
    def price_usd(self, racks: Any) -> Any:
        """Price of the network of so many racks [USD]."""

    @abstractmethod
    def power_w(self, racks: Any) -> Any:
        """Power of the network of so many racks [W]."""


@dataclass(frozen=True)
class CountedNetwork(NetworkOfRacks):
    """A network of any kind, counted anew for each number of racks.

    totals: number of racks -> price [USD] and power [W] of their network.
    """

    totals: Callable[[int], tuple[Any, Any]]

    def price_usd(self, racks: Any) -> Any:
        """Price of the network of so many racks [USD]."""
        return self._total(racks, 0)

    def power_w(self, racks: Any) -> Any:
        """Power of the network of so many racks [W]."""
        return self._total(racks, 1)

    def _total(self, racks: Any, which: int) -> Any:
        counts = _at_least_one(racks)
        return np.array([self.totals(count)[which] for count in counts.ravel().tolist()]).reshape(counts.shape)[()]


@dataclass(frozen=True)
class PricedNetwork(NetworkOfRacks):
    """A network of known price [USD] and power [W], for the racks that there are; arrays are sweeps."""

    usd: Any
    w: Any

    def price_usd(self, racks: Any) -> Any:
        """Its price [USD]."""
        return self.usd

    def power_w(self, racks: Any) -> Any:
        """Its power [W]."""
        return self.w


@dataclass(frozen=True)
class RackNetwork(NetworkOfRacks):
    """Rails over racks that are one HB domain (scale-up or NVLink domain) each, with optics at both ends of all links.

    Rail-optimized: the layer over the rails is not oversubscribed.

    rack_gpus: GPUs of a rack, each on a rail of its own.
    radix: ports of a switch at the NIC's full speed.
    prices, powers: books of prices [USD] and of listed maxima of power [W], of the NIC's link rate.
    """

    rack_gpus: ArrayLike
    radix: int
    prices: PriceBook
    powers: PriceBook

    def price_usd(self, racks: Any) -> Any:
        """Price of the network of so many racks [USD]."""
        return self._total(racks, self.prices)

    def power_w(self, racks: Any) -> Any:
        """Power of the network of so many racks [W]."""
        return self._total(racks, self.powers)

    def _total(self, racks: Any, book: PriceBook) -> Any:
        gpus = _at_least_one(racks) * np.asarray(self.rack_gpus)
        return bill_total(rail_parts(gpus, self.rack_gpus, self.radix, 1.0).bill(), book)[()]


def _at_least_one(racks: Any) -> Ints:
    """Whole racks. 0, where not even one fits, has the network of one."""
    return np.maximum(np.asarray(racks, float), 1).astype(np.int64)


def rack_network(rack_gpus: ArrayLike, nic_Bps: float, price_book: str) -> RackNetwork:
    """The network of the usual scale-out switch, at catalog prices and powers.

    rack_gpus: GPUs of a rack. nic_Bps: of a GPU's NIC, one direction [bytes/s]. price_book: of the catalog; powers are
    from the power book of that name, else from the default one. Raises UnknownName for a book that the catalog lacks,
    and ValueError for a NIC that the switch has no ports for.
    """
    switch = switch_model(usual_networks()["scale-out"]["switch"])
    radix = switch.ports * switch.ports_of_interface(nic_Bps)
    return RackNetwork(rack_gpus, radix, *matching_books(price_book, rate_Bps=nic_Bps))


def most_that_fit(fits: Callable[[Any], Any], most: Any) -> Any:
    """The largest whole numbers up to `most` that fit, by halving; 0 where not even 1 fits.

    fits: array of numbers -> where they fit. Cost should rise with the number; where it falls a little on the way, a
    larger number may fit too.
    """
    low, high = np.zeros_like(np.asarray(most, dtype=float)), np.asarray(most, dtype=float)
    while np.any(low < high):
        middle = np.ceil((low + high) / 2)
        fit = fits(middle)
        low, high = np.where(fit, np.maximum(middle, low), low), np.where(fit, high, np.minimum(middle - 1, high))
        high = np.maximum(low, high)
    return low
