"""SI multipliers, reading quantities such as "400 Gbps" or "1,300 kW", and showing numbers to a person.

Inside railcore every number is in bytes, bytes/s, seconds, FLOP/s, watts, joules, metres, kilograms or
USD. Bits, hours, kWh and prefixes exist at the edges only, through this module.
"""

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import Any

from railcore.catalog import checks

kilo, mega, giga, tera, peta, exa = 1e3, 1e6, 1e9, 1e12, 1e15, 1e18
KB, MB, GB, TB, PB = kilo, mega, giga, tera, peta
KiB, MiB, GiB, TiB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
Mbps, Gbps, Tbps, Pbps = mega / 8, giga / 8, tera / 8, peta / 8
kW, MW, GW = kilo, mega, giga
ms, us, ns = 1e-3, 1e-6, 1e-9
minute, hour, day, week, year = 60.0, 3600.0, 86400.0, 7 * 86400.0, 365.0 * 86400.0
kWh = kilo * hour
km = kilo

_SMALL = {"n": 1e-9, "u": 1e-6, "\N{MICRO SIGN}": 1e-6, "\N{GREEK SMALL LETTER MU}": 1e-6, "m": 1e-3}
_LARGE = {"k": kilo, "M": mega, "G": giga, "T": tera, "P": peta, "E": exa}
_BINARY = {"Ki": KiB, "Mi": MiB, "Gi": GiB, "Ti": TiB}
_MONEY = {"k": kilo, "M": mega, "B": giga} | _LARGE  # of equal ones the first is shown
_NOT_SHOWN = {*_BINARY, "K", "c", "u", "\N{GREEK SMALL LETTER MU}"}
# symbol: (dimension, SI factor, prefixes that may stand before it)
_UNITS: dict[str, tuple[str, float, dict[str, float]]] = {
    "B": ("B", 1.0, {**_LARGE, "K": kilo, **_BINARY}),
    "bit": ("B", 1 / 8, {**_LARGE, "K": kilo, **_BINARY}),
    "bits": ("B", 1 / 8, {**_LARGE, "K": kilo}),
    "b": ("B", 1 / 8, {**_LARGE, "K": kilo}),
    "bps": ("B/s", 1 / 8, _LARGE),
    "FLOP": ("FLOP", 1.0, _LARGE),
    "s": ("s", 1.0, _SMALL),
    "W": ("W", 1.0, {**_SMALL, **_LARGE}),
    "J": ("J", 1.0, _LARGE),
    "Wh": ("J", hour, _LARGE),
    "m": ("m", 1.0, {**_SMALL, "c": 1e-2, "k": kilo}),
    "g": ("kg", 1e-3, {**_SMALL, "k": kilo}),
    "t": ("kg", kilo, {"k": kilo, "M": mega, "G": giga}),
    "dB": ("dB", 1.0, {}),
    "USD": ("USD", 1.0, _MONEY),
    "$": ("USD", 1.0, _MONEY),
    "%": ("1", 1e-2, {}),
}
_COUNTS = (
    "1 x fraction GPUs ports links switches NICs sockets chips racks tiers rails planes transceivers cables "
    "servers sites parameters layers sequences elements heads experts packets paths"
).split()
_TIMES = {
    **dict.fromkeys(("sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), minute),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), hour),
    **dict.fromkeys(("d", "day", "days"), day),
    **dict.fromkeys(("wk", "wks", "week", "weeks"), week),
    **dict.fromkeys(("yr", "yrs", "year", "years"), year),
}
_UNITS |= {word: ("1", 1.0, {}) for word in _COUNTS} | {"tokens": ("1", 1.0, {**_LARGE, "B": giga})}
_UNITS |= {word: ("s", size, {}) for word, size in _TIMES.items()}
_WORDS = {"gpus": "GPUs", "gpu": "GPU", "hb": "HB", "nic": "NIC", "nics": "NICs", "pue": "PUE"}
_LABELS = {
    "gpus": "GPUs",
    "hb_domain_size": "HB domain size [GPUs]",
    "radix": "switch radix [ports]",
    "oversubscription": "oversubscription, down : up",
}
_COUNT_WORDS = ("no", "one", "two", "three", "four", "five", "six")  # by the count
_SINGULARS = {"ies": "y", "sses": "ss", "tches": "tch", "s": ""}  # endings, the longest first
_DIVIDERS = ",_' \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"  # of thousands, in groups of three digits
NUMBER = re.compile(
    rf"[-+]?(?:[1-9]\d{{0,2}}(?P<divider>[{_DIVIDERS}])\d{{3}}(?:(?P=divider)\d{{3}})*(?:\.\d*)?|\d+\.?\d*|\.\d+)"
    r"(?:[eE][-+]?\d+)?"
)
_QUANTITY = re.compile(rf"\s*(?P<number>{NUMBER.pattern})\s*(?P<unit>[^\s\d.,+-].*?|1/\S+)\s*")


def _simple(symbol: str) -> tuple[str, float] | None:
    if symbol in _UNITS:
        return _UNITS[symbol][:2]
    for cut in (1, 2):
        prefix, rest = symbol[:cut], symbol[cut:]
        if rest in _UNITS and prefix in _UNITS[rest][2]:
            return _UNITS[rest][0], _UNITS[rest][1] * _UNITS[rest][2][prefix]
    return None


def unit(symbol: str) -> tuple[str, float]:
    """Dimension and SI factor of a unit, such as ("B/s", 1.25e8) for "Gbps" or ("USD/J", 2.8e-7) for "USD/kWh".

    Raises ValueError for an unknown unit.
    """
    parts = [_simple(part) for part in symbol.replace(" ", "").split("/")]
    if not 1 <= len(parts) <= 2 or None in parts:
        raise ValueError(f"unit {symbol!r} is unknown: write for example Gbps, GB, GB/s, kW, ms, USD/kWh or GPUs")
    (dimension, factor), *below = [part for part in parts if part]
    return (f"{dimension}/{below[0][0]}", factor / below[0][1]) if below else (dimension, factor)


@cache
def _symbols() -> dict[str, list[str]]:
    """Every symbol, with its prefix, by its small letters."""
    found: dict[str, list[str]] = {}
    for symbol, (_, _, prefixes) in _UNITS.items():
        for prefix in ("", *prefixes):
            found.setdefault(f"{prefix}{symbol}".lower(), []).append(f"{prefix}{symbol}")
    return found


def symbols_like(text: str) -> list[str]:
    """Symbols of units that differ from a text in small and capital letters alone: mW and MW are like "mw"."""
    return _symbols().get(text.lower(), [])


def plain_number(text: str) -> float:
    """A number of `NUMBER`, whose thousands may be divided: plain_number("40,000") = 4e4."""
    return float(text.translate(dict.fromkeys(map(ord, _DIVIDERS))))


def parse(text: str, like: str | None = None) -> float:
    """SI value of a quantity: parse("400 Gbps") = 5e10 (bytes/s), parse("1,600k tokens") = 1.6e6.

    `like` is a unit whose dimension the quantity must have. Raises ValueError for what is no finite number with a
    known unit, or for another dimension.
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None or not math.isfinite(number := plain_number(match["number"])):
        raise ValueError(f"quantity {text!r} cannot be read: write a number, a space and a unit, as in '400 Gbps'")
    dimension, factor = unit(match["unit"])
    if not math.isfinite(number * factor):
        raise ValueError(f"quantity {text!r} is too large for a number")
    if like is not None and dimension != (wanted := unit(like)[0]):
        raise ValueError(f"quantity {text!r} is in {dimension!r}: write it in {like} or another unit of {wanted!r}")
    return number * factor


def dimension_of(text: str) -> str | None:
    """Dimension of a quantity written with its unit, or None where `text` is not one."""
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    try:
        return unit(match["unit"])[0] if match else None
    except ValueError:
        return None


def convert(value: Any, to: str) -> Any:
    """SI `value` (a number or an array) in the unit `to`: convert(5e10, "bit/s") = 4e11."""
    return value / unit(to)[1]


def show(value: float, symbol: str = "", digits: int = 6) -> str:
    """An SI value as text with a prefix, such as "400 Gbps".

    The prefix is the largest that leaves at least 1 before the unit.

    value: in the SI unit of the symbol.
    symbol: of the unit, such as "bps", "W" or "USD".
    digits: significant ones at most.

    Examples
    --------
    >>> import railcore as rc
    >>> rc.show(5e10, "bps"), rc.show(1.234e9, "W", 3), rc.show(0.375)
    ('400 Gbps', '1.23 GW', '0.375')
    """
    if not isinstance(symbol, str):
        raise ValueError(f"symbol is {checks.short(symbol)}: give a unit, such as 'W'")
    for name, of_it in (("value", checks.numbers("value", value)), ("digits", checks.whole("digits", digits))):
        if of_it.ndim:
            raise ValueError(f"{name} is an array: give one number")
    digits = int(digits)
    if not symbol:
        return number(value, digits)
    _, factor = unit(symbol)
    scaled = value / factor
    *_, prefixes = _UNITS.get(symbol.partition("/")[0], ("", 1.0, {}))
    multipliers = {"": 1.0} | {name: size for name, size in prefixes.items() if name not in _NOT_SHOWN}
    rounded = {name: abs(float(f"{significant(scaled / size):.{digits}g}")) for name, size in multipliers.items()}
    fitting = [name for name, amount in rounded.items() if 1 <= amount < math.inf]
    prefix = max(fitting, key=multipliers.__getitem__, default="")
    gap = " " if symbol == "USD" and prefix else ""
    return f"{number(scaled / multipliers[prefix], digits)} {prefix}{gap}{symbol}"


def either(texts: list[str]) -> str:
    """Texts as "a, b or c"."""
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last


def counted(count: float, nouns: str) -> str:
    """A count with what is counted, given in the plural: counted(1, "places") = "1 place"."""
    one = next((nouns.removesuffix(many) + end for many, end in _SINGULARS.items() if nouns.endswith(many)), nouns)
    return f"{number(count)} {one if count == 1 else nouns}"


def count_word(count: int) -> str:
    """A count in a sentence: count_word(2) = "two", and digits above six."""
    return _COUNT_WORDS[count] if count < len(_COUNT_WORDS) else number(count)


def words(name: str) -> str:
    """A name of the code as people write it: words("hb_domain_size") = "HB domain size"."""
    return " ".join(_WORDS.get(word, word) for word in name.split("_"))


def label(name: str) -> str:
    """A name of the code for an axis or a slider, with its unit where the name is a common one."""
    return _LABELS.get(name, words(name))


def significant(value: float, digits: int = 12) -> float:
    """A number rounded to so many significant digits: what a person sees is rounded from twelve.

    The last bits differ from machine to machine, so that 6487.499999999977 here is 6487.500000000003 there: rounded
    from them the one reads 6,487 and the other 6,488.
    """
    return float(f"{value:.{digits}g}")


def distinct(values: Iterable[float], digits: int = 12) -> list[float]:
    """Numbers in rising order, rounded to so many significant digits, each once.

    Numbers that are meant to be the same may differ in the last bits, and do on one machine but not on another: 1e-5 as
    read and as a power of ten is one number here, and one or two in a set.
    """
    return sorted({significant(value, digits) for value in values})


def number(value: float, digits: int = 6) -> str:
    """A number with `digits` significant digits at most, thousands grouped, without an exponent up to 1e15."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    value = significant(value)
    text = f"{value:.{digits}g}"
    return f"{Decimal(text):,f}" if 1e-5 <= abs(value) < 1e15 else text
