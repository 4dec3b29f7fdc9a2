"""Books of prices and powers: what the parts of a network cost or draw, by kind of part or by item of the catalog."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from railcore import catalog
from railcore.catalog import units
from railcore.catalog.arguments import Count, PositiveBandwidth, Quantities, Quantity, Range, checked, si
from railcore.catalog.checks import at_least, one_of, positive
from railcore.catalog.readings import may_be_in
from railcore.network.topology.bill_line import BillLine

DEFAULT_BOOK = "street2025"  # of the catalog: gives what a book of one's own leaves out, powers or copper
_IN_WORDS = "street offers of 2025"  # that book, in a picture
FARTHEST_RATE = 16  # times a book's link rate, or a part of it, beyond which users of books do not scale it


_NUMBERS = ("port", "transceiver", "dac", "circuit_port", "typical_port")


@checked
@dataclass(frozen=True)
class PriceBook:
    """Price [USD] or peak power [W] of a network's parts.

    Texts with a unit, such as "600 USD" or "25 W", are all of one dimension.

    port: a switch port, which is its part of the price of a switch.
    transceiver: one end of an optical link.
    dac: a copper cable; None where the book has none, and `cable` may be another book's.
    circuit_port: a port of an optical circuit switch, at any link rate; None as for dac, with `circuit`.
    typical_port: in a book of powers, what a switch port draws on average; None where the book has none.
    ends_per_module: ends of links that one optical module serves: 2 for a twin-port one.
    name: where the numbers come from; tables show it.
    copper_name: book of the catalog whose copper counts where this one has none; "" for no such book. It is read when
        it is asked for.
    circuit_name: the same for ports of circuit switches.
    rate_Bps: link rate of the parts, one direction [bytes/s], or None.
    source_Bps: link rate that the numbers were scaled from [bytes/s]; None where none were.
    copper_source_Bps: the same of the copper.
    unit: "USD" or "W"; "" where only numbers are given. A book of one unit is not taken for the other.
    rate_exponent: how the numbers rise with the link rate; None for the catalog's, row rate_exponent of `scaling`.

    Raises ValueError for what is below 0.

    Examples
    --------
    >>> import railcore as rc
    >>> book = rc.PriceBook(
    ...     port="600 USD", transceiver="400 USD", rate_Bps="400 Gbps", name="quote"
    ... )
    >>> book.port, book.unit, book.at_rate("800 Gbps").port
    (600.0, 'USD', 1200.0)
    """

    port: Quantity
    transceiver: Quantity
    dac: Quantity | None = None
    circuit_port: Quantity | None = field(default=None, kw_only=True)
    typical_port: Quantity | None = field(default=None, kw_only=True)
    ends_per_module: float = field(default=1, kw_only=True)
    name: str = field(default="given", kw_only=True)
    copper_name: str = field(default="", kw_only=True)
    circuit_name: str = field(default="", kw_only=True)
    rate_Bps: PositiveBandwidth | None = field(default=None, kw_only=True)
    source_Bps: Quantity | None = field(default=None, kw_only=True)
    copper_source_Bps: Quantity | None = field(default=None, kw_only=True)
    unit: str = field(default="", kw_only=True)
    rate_exponent: Quantity | None = field(default=None, kw_only=True)
    made_by = "PriceBook(port=..., transceiver=...), price_book(name) or power_book(name)"

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        said = [unit for unit in ("USD", "W") if any(may_be_in(value, unit) for value in numbers.values())]
        if len(said) > 1:
            values = ", ".join(f"{name} {value!r}" for name, value in numbers.items() if value is not None)
            raise ValueError(f"book {self.name!r} mixes USD and W ({values}): give all in USD or all in W")
        one_of("unit", self.unit, ("", "USD", "W"))
        object.__setattr__(self, "unit", self.unit or "".join(said))
        for name, value in numbers.items():
            if value is not None or name in ("port", "transceiver"):
                object.__setattr__(self, name, si(name, value, "25 W" if self.unit == "W" else "600 USD"))
                at_least(name, getattr(self, name))
        positive("ends_per_module", self.ends_per_module)
        for name in ("rate_Bps", "source_Bps", "copper_source_Bps"):
            if (rate := getattr(self, name)) is not None:
                object.__setattr__(self, name, si(name, rate, "400 Gbps"))
                positive(name, getattr(self, name), "bytes/s")
        if self.rate_exponent is not None:
            at_least("rate_exponent", self.rate_exponent, -math.inf)

    @property
    def cable(self) -> float:
        """`dac`, or that of book `copper_name` at this one's link rate. Raises ValueError where there is none."""
        if (number := self._filled("dac").dac) is None:
            raise ValueError(f"book {self.name!r} has no dac, the number of a copper cable: give it")
        return number

    @property
    def circuit(self) -> float:
        """`circuit_port`, or that of book `circuit_name`. Raises ValueError where there is none."""
        if (number := self._filled("circuit_port").circuit_port) is None:
            raise ValueError(
                f"book {self.name!r} has no circuit_port, the number of a port of an optical circuit switch: give it"
            )
        return number

    def _filled(self, *parts: str) -> "PriceBook":
        """The book with numbers of these fields: its own, or those of the books `copper_name` and `circuit_name`."""
        others: dict[str, Any] = {}
        if not self.unit:
            return self
        if "dac" in parts and self.dac is None and self.copper_name:
            usual = replace(_book(self._family, self.copper_name), rate_exponent=self.rate_exponent)
            usual = usual if self.rate_Bps is None else usual.at_rate(self.rate_Bps)
            usual = usual._filled("dac")
            others |= {"dac": usual.dac, "copper_source_Bps": usual.copper_source_Bps or usual.source_Bps}
        if "circuit_port" in parts and self.circuit_port is None and self.circuit_name:
            others["circuit_port"] = _book(self._family, self.circuit_name).circuit
        return replace(self, **others) if others else self

    @property
    def _family(self) -> str:
        """The catalog's family of books of this unit."""
        return next(family for family, (_, unit) in catalog.BOOKS.items() if unit == self.unit)

    @property
    def typical(self) -> "PriceBook | None":
        """The book of powers with what a port draws on average as its port, None where it has none."""
        return None if self.typical_port is None else replace(self, port=self.typical_port)

    @property
    def listed(self) -> "PriceBook":
        """The book without what ports draw on average."""
        return replace(self, typical_port=None)

    def of(self, line: BillLine) -> np.ndarray:
        """What a line of a bill costs [USD] or draws [W]: its units times the number of their kind, at their rate.

        Raises ValueError for a part that the book has no number of, and for a line with a rate where it has none.
        """
        book = self if line.rate_Bps is None else self.at_rate(line.rate_Bps)
        if line.part == "NIC":
            text = "leave 'NICs' out of include, or give an ItemBook"
            raise ValueError(f"book {self.name!r} has no number of a NIC: {text}")
        parts = {"switch": "port", "circuit switch": "circuit", "transceiver": "transceiver", "copper cable": "cable"}
        return getattr(book, parts[line.part]) * np.asarray(line.units)

    def pieces(self, line: BillLine) -> np.ndarray:
        """Pieces of a line: as it says, or modules of `ends_per_module` ends."""
        if line.count is not None or self.ends_per_module == 1:
            return np.asarray(line.units if line.count is None else line.count)
        return np.ceil(np.asarray(line.units) / self.ends_per_module).astype(np.int64)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A text where the numbers are scaled from those of another link rate."""
        if self.source_Bps in (None, self.rate_Bps):
            return ()
        what = {"USD": "Prices", "W": "Powers"}.get(self.unit, "Numbers")
        links = f"{_rate_text(self.source_Bps)} links: they are scaled to {_rate_text(self.rate_Bps)}."
        return (f"{what} of {self.name} are of {links}",)

    @checked
    def at_rate(self, rate_Bps: PositiveBandwidth) -> "PriceBook":
        """The book for links of another rate, all times (rate / its own) ** rate_exponent; `label`, `warnings` say so.

        Light passes a circuit switch at any rate: its port stays what it is. Raises ValueError for a book without a
        rate, and for one that has no rate_exponent and says neither USD nor W.
        """
        if self.rate_Bps is None:
            raise ValueError(
                f"book {self.name!r} has no rate_Bps, and links are of {_rate_text(rate_Bps)}: give it the link "
                "rate of its parts, one direction"
            )
        if rate_Bps == self.rate_Bps:
            return self
        factor = (rate_Bps / self.rate_Bps) ** self._rate_exponent
        scaled = self.times({part: factor for part in _NUMBERS if getattr(self, part) is not None})
        sources: dict[str, Any] = {"source_Bps": self.source_Bps or self.rate_Bps, "circuit_port": self.circuit_port}
        return replace(scaled, rate_Bps=rate_Bps, copper_source_Bps=self.copper_source_Bps or self.rate_Bps, **sources)

    @checked
    def of_ports(self, ports: Count) -> "PriceBook":
        """The book for NICs of its rate that are split into so many ports; raises ValueError where it has no rate."""
        if ports == 1:
            return self
        if self.rate_Bps is None:
            text = "give it the link rate of its parts, one direction"
            raise ValueError(f"book {self.name!r} has no rate_Bps, and NICs are split into {ports} ports: {text}")
        return self.at_rate(self.rate_Bps / ports)

    @property
    def _rate_exponent(self) -> float:
        """How prices or powers rise with the link rate: the book's own, or as the catalog declares it."""
        if self.rate_exponent is not None:
            return self.rate_exponent
        if self.unit:
            return catalog.item(self._family, "scaling")["rate_exponent"]
        raise ValueError(
            f"book {self.name!r} is of {_rate_text(self.rate_Bps)} links, and prices scale otherwise than "
            "powers: give its unit, 'USD' or 'W', or its rate_exponent"
        )

    @checked
    def with_exponent(self, exponent: Annotated[Quantities, Range()]) -> "PriceBook":
        """The book with another rate_exponent: what was scaled to the book's rate is scaled anew."""
        old, rate = self._rate_exponent, self.rate_Bps
        sources: dict[str, float | None] = dict.fromkeys(("port", "transceiver", "typical_port"), self.source_Bps)
        sources["dac"] = self.copper_source_Bps or self.source_Bps
        factors = {
            part: (rate / source) ** (exponent - old)
            for part, source in sources.items()
            if source and rate and getattr(self, part) is not None
        }
        return replace(self.times(factors), rate_exponent=exponent)

    @checked
    def times(self, factors: Mapping[str, Any]) -> "PriceBook":
        """The book with some numbers, by field, times a factor each; arrays are a sweep."""
        if stray := [part for part in factors if part not in _NUMBERS]:
            raise catalog.UnknownName("factors: number of a book", stray[0], _NUMBERS)
        book = self._filled(*factors)
        numbers = {part: getattr(book, part) for part in factors}
        scaled: dict[str, Any] = {
            part: None if number is None else number * factors[part] for part, number in numbers.items()
        }
        return replace(book, **scaled)

    @checked
    def label(self, copper: bool = False, circuits: bool = False, rate: bool = False) -> str:
        """Name for a table or picture, and the link rate that the numbers are scaled from.

        copper, circuits: name the books of copper cables and of circuit switches too. rate: say the link rate.
        """
        sources = {self.name: self.source_Bps}
        if copper and self.copper_name:
            sources[f"copper of {self.copper_name}"] = self._filled("dac").copper_source_Bps
        links = _rate_text(self.rate_Bps) if self.rate_Bps else ""
        texts = []
        for name, source in sources.items():
            scaled = f"scaled from {_rate_text(source)} to {links}" if source not in (None, self.rate_Bps) else ""
            note = scaled or (links if rate and name == self.name else "")
            texts.append(f"{name} ({note})" if note else name)
        if circuits and self.circuit_name:
            texts.append(f"circuit ports of {self.circuit_name}")
        return ", ".join(texts)


@checked
@dataclass(frozen=True)
class ItemBook:
    """Price [USD] or power [W] of each item that a bill names, such as a switch model: the catalog's, or given.

    what: "price", "power" (listed maximum) or "typical_power".
    end: "value", "low" or "high" of the catalog's rows.
    given: by item, before the catalog's; its low and high are the same.

    """

    what: str = "price"
    end: str = "value"
    given: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate_Bps(self) -> None:
        """None: an item has its own."""
        return None

    def of(self, line: BillLine) -> np.ndarray:
        """What a line of a bill costs [USD] or draws [W]: its pieces times the number of its item.

        The catalog's power of a copper cable is of one end. Raises ValueError for an item without a number.
        """
        ends = 2 if line.part == "copper cable" and self.what != "price" else 1
        return self.pieces(line) * (ends * self.number(line))

    def pieces(self, line: BillLine) -> np.ndarray:
        """Pieces of a line. Raises ValueError for one that names no item."""
        if not line.item or line.count is None:
            text = "give a PriceBook, which counts by kind"
            raise ValueError(f"the bill names no item for {line.part} ({line.scope}): {text}")
        return np.asarray(line.count)

    def number(self, line: BillLine) -> float:
        """Of one piece of a line [USD or W]. Modules and cables have one power."""
        name, family = line.item, _FAMILIES[line.part]
        if name in self.given:
            return float(at_least(f"given of {name}", self.given[name]))
        what = "power" if self.what == "typical_power" and family != "switches" else self.what
        if name not in catalog.names(family) or what not in catalog.item(family, name):
            argument, unit = ("prices", "USD") if what == "price" else ("given", "W")
            raise ValueError(
                f"{name!r} of {family} has no {what}: give {argument}={{{name!r}: 30000}} with yours in {unit}, or a "
                f"row {what} in {family}.csv of your catalog"
            )
        row = catalog.item(family, name).row(what)
        number = getattr(row, self.end)
        return row.value if number is None else number


_FAMILIES = {  # of the catalog
    "switch": "switches",
    "circuit switch": "circuit_switches",
    "transceiver": "transceivers",
    "copper cable": "transceivers",
    "NIC": "nics",
}


def switch_book(family: str, switch: str, optic: str, rate_Bps: float) -> PriceBook:
    """Prices or powers of a switch and a transceiver of the catalog, as a book for links of a rate.

    A port has its share of the switch, rate / capacity; an end of a link its share of the module, rate / bandwidth.

    Parameters
    ----------
    family
        "prices" or "powers".
    switch, optic
        Of the catalog's switches and transceivers.
    rate_Bps
        Of the links, one direction [bytes/s].

    Returns
    -------
    A book; powers are listed maxima, with typical_port where the switch has a typical power.

    Raises
    ------
    UnknownName
        For names or numbers that the catalog lacks.
    """
    what, unit = catalog.BOOKS[family]
    box, module = catalog.item("switches", switch), catalog.item("transceivers", optic)
    share, ends = rate_Bps / box["capacity"], module["bandwidth"] / rate_Bps
    typical = box.get("typical_power") if family == "powers" else None
    return PriceBook(
        share * box[what],
        module[what] / ends,
        typical_port=None if typical is None else share * typical,
        ends_per_module=max(ends, 1.0),
        name=f"{switch} and {optic}",
        rate_Bps=rate_Bps,
        unit=unit,
    )


def book_of_links(family: str, book: PriceBook, rate_Bps: float | None = None) -> PriceBook:
    """A book of prices or of powers for links of a rate: scaled where the book is of another rate.

    family: "prices" or "powers", as which it is given. rate_Bps: of the links, one direction [bytes/s]; None where it
    is not known: then that of the book counts. Raises ValueError for prices in the place of powers or the other way
    round, and for a book whose link rate is unknown where that of the links is known.
    """
    _, unit = catalog.BOOKS[family]
    if book.unit not in ("", unit):
        raise ValueError(f"{family} is book {book.name!r}, which is in {book.unit}: give one in {unit}")
    return book if rate_Bps is None else replace(book, unit=unit).at_rate(rate_Bps)


def rows_of_book(book: PriceBook) -> dict[str, catalog.Value]:
    """Rows of the catalog behind a book's numbers, by field; none for numbers that a user gave.

    rate_exponent is one of them: parts of slower ports are scaled by it.
    """
    rows = {}
    for family, (what, unit) in catalog.BOOKS.items():
        if unit == book.unit:
            items = {"dac": book.copper_name, "circuit_port": book.circuit_name}
            for part in _NUMBERS:
                name = items.get(part) or book.name
                if name in book_names(family) and f"{part}_{what}" in catalog.item(family, name):
                    rows[part] = catalog.item(family, name).row(f"{part}_{what}")
            if book.rate_exponent is None:
                rows["rate_exponent"] = catalog.item(family, "scaling").row("rate_exponent")
    return rows


def check_books(prices: PriceBook, powers: PriceBook) -> None:
    """Refuse books for one network that are in each other's place, or of unlike link rates. Raises ValueError."""
    book_of_links("prices", prices)
    book_of_links("powers", powers)
    if None not in (prices.rate_Bps, powers.rate_Bps) and prices.rate_Bps != powers.rate_Bps:
        rates = [_rate_text(book.rate_Bps) for book in (prices, powers)]
        raise ValueError(
            f"prices of {prices.name} are of {rates[0]} links, powers of {powers.name} of {rates[1]} links: give both "
            f"at the rate of the links, such as book.at_rate({rates[0]!r}) or matching_books(prices, powers, rate_Bps)"
        )


def _rate_text(rate_Bps: Any) -> str:
    return units.show(rate_Bps, "bps")


@checked
def price_book(name: str) -> PriceBook:
    """Prices of a book of the catalog [USD].

    name: of the book. Copper and circuit ports are `DEFAULT_BOOK`'s where the book has none.
    Raises UnknownName listing the nearest books, and ValueError listing all rows that the book lacks.

    Examples
    --------
    >>> import railcore as rc
    >>> book = rc.price_book("street2025")
    >>> book.unit, rc.show(book.rate_Bps, "bps")
    ('USD', '400 Gbps')
    """
    return _book("prices", name)


@checked
def power_book(name: str) -> PriceBook:
    """Peak powers of a book of the catalog [W].

    name: of the book. Copper and circuit ports are `DEFAULT_BOOK`'s where the book has none.
    Raises UnknownName listing the nearest books, and ValueError listing all rows that the book lacks.

    Examples
    --------
    >>> import railcore as rc
    >>> rc.power_book("street2025").unit
    'W'
    """
    return _book("powers", name)


@checked
def matching_books(
    prices: str, powers: str | None = None, rate_Bps: PositiveBandwidth | None = None
) -> tuple[PriceBook, PriceBook]:
    """Prices and peak powers for the links of one network.

    Parameters
    ----------
    prices
        Name of a book of prices in the catalog.
    powers
        Name of a book of powers. By default that of the same name, or `DEFAULT_BOOK`'s where the catalog has none
        of it. Powers without a link rate are at that of the prices.
    rate_Bps
        Link rate, one direction [bytes/s]; by default that of the prices. A book of another rate is scaled, and
        says so.

    Returns
    -------
    Books of prices [USD] and of powers [W].

    Raises
    ------
    UnknownName
        For names that the catalog lacks; ValueError listing all rows that a book lacks.

    Examples
    --------
    >>> import railcore as rc
    >>> prices, powers = rc.matching_books("street2025", rate_Bps="400 Gbps")
    >>> prices.unit, powers.unit, rc.show(prices.rate_Bps, "bps")
    ('USD', 'W', '400 Gbps')
    """
    listed = price_book(prices)
    bought = book_of_links("prices", listed, rate_Bps)
    name = powers or (prices if prices in book_names("powers") else DEFAULT_BOOK)
    drawn = _book("powers", name, listed.rate_Bps)
    return bought, book_of_links("powers", drawn, bought.rate_Bps)


def books_text(prices: PriceBook, powers: PriceBook, circuits: bool = False) -> str:
    """Names of the books of a picture, as people read them; circuits: of one with circuit switches too."""
    names = [book.label(circuits=circuits).replace(DEFAULT_BOOK, _IN_WORDS) for book in (prices, powers)]
    if names[0] == names[1]:
        return f"prices and powers of {names[0]}"
    return f"prices of {names[0]}, powers of {names[1]}"


def book_names(family: str) -> list[str]:
    """Items of a family that price or power a network's parts, in whole or in part."""
    what, _ = catalog.BOOKS[family]
    parts = {"bandwidth", *(f"{part}_{what}" for part in _NUMBERS)}
    return [name for name in catalog.names(family) if parts & set(catalog.item(family, name))]


def _book(family: str, name: str, rate_Bps: float | None = None) -> PriceBook:
    """A book of the catalog; rate_Bps: of one that has no link rate."""
    what, unit = catalog.BOOKS[family]
    if name not in (names := book_names(family)):
        raise catalog.UnknownName(f"book of {family}", name, names, catalog.rows_to_add(family, name))
    item = catalog.item(family, name)
    for row in item.rows:
        if row.parameter.endswith(f"_{what}") and units.unit(row.unit)[0] != unit:
            raise ValueError(f"{family} book {name!r}: {row.parameter} is in {row.unit}: give it in {unit}")
    port, transceiver = item[f"port_{what}"], item[f"transceiver_{what}"]
    rate = item["bandwidth"] if family == "prices" else item.get("bandwidth")
    if rate is None and name in catalog.names("prices"):  # of the prices of the same name
        rate = catalog.item("prices", name).get("bandwidth")
    rate = rate_Bps if rate is None else rate
    others = {part: item.get(f"{part}_{what}") for part in _NUMBERS[2:]}
    ends = item.get("ends_per_module", 1)
    usual = {"copper_name": "dac", "circuit_name": "circuit_port"} if name != DEFAULT_BOOK else {}
    others |= {field: DEFAULT_BOOK for field, part in usual.items() if others[part] is None}
    return PriceBook(port, transceiver, **others, ends_per_module=ends, name=name, rate_Bps=rate, unit=unit)
