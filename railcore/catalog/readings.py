"""What a text that a person types can mean: a quantity, a number or a count.

A text with one meaning is read: a comma, a space or an underscore divides thousands, a point begins decimals, and small
and capital letters of units are the same where no other unit is meant. A text with several meanings, such as
"40.000 kW", "40 mw" or a count of "16k", is refused with all of them.
"""

import itertools
import re

from railcore.catalog import units

_TEXT = re.compile(
    r"(?:(?P<dollar>(?:US)?\$)\s*)?(?P<number>[-+]?(?=[\d.])[\d.,_'\s]*(?<=[\d.])(?:[eE][-+]?\d+)?)"
    r"\s*(?P<unit>(?:[^\s\d.,+-].*)?)"
)
_THREE_DECIMALS = re.compile(r"([-+]?[1-9]\d{0,2})\.(\d{3})")
_MAGNITUDES = {"thousand": "k", "million": "M", "billion": "G", "bn": "G", "trillion": "T"}
_SWAPPED = str.maketrans(",.", ".,")
_COUNT_PREFIXES = {"k": 1, "m": 2, "g": 3, "b": 3, "t": 4}  # powers of 1,000, or of 1,024
_MOST_COUNTED = 2**53
_PORT_RATE = re.compile(r"([kKmMgGtT])(b?|bits?|b?e|bps)", re.IGNORECASE)


class SeveralMeanings(ValueError):
    """A text that may mean several things, or one in another notation than ours; the message says what to write."""

    def __init__(self, meanings: list[str]):
        self.meanings = meanings
        doubt = ", as it may mean each" if len(meanings) > 1 else ""
        super().__init__(f"give {units.either([repr(meaning) for meaning in meanings])}{doubt}")


def number_and_unit(text: object) -> tuple[str, str]:
    """Number and unit of a text as they are typed; both are "" where it begins with no number."""
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return "", ""
    symbol = match["unit"]
    for word, prefix in _MAGNITUDES.items():
        if symbol.lower().startswith(word):
            symbol = f"{prefix}{symbol[len(word) :]}"
    if match["dollar"]:  # it stands before the number, and other units behind it: $0.08/kWh, $1.2M
        prefix, slash, below = symbol.partition("/")
        symbol = f"{prefix.strip()}${slash}{below}"
    return match["number"], symbol


def quantity(text: object, example: str) -> float:
    """SI value of a text with its unit. example: a quantity of the dimension.

    Raises ValueError that says what to write; `SeveralMeanings` where it says what the text may mean.
    """
    wanted = example.partition(" ")[2]
    number, symbol = number_and_unit(text)
    numbers, symbols = _numbers(number), _units_meant(symbol, wanted)
    if numbers and symbols:
        meanings = [f"{plain} {each}" for plain in numbers for each in symbols]
        if len(meanings) > 1 or numbers != [number]:
            raise SeveralMeanings(meanings)
        try:
            return units.parse(meanings[0], wanted)
        except ValueError:  # too large
            pass
    raise ValueError(f"give a text with its unit, such as {example!r}")


def typed_number(text: str) -> float:
    """A plain number. Raises ValueError that says what to write."""
    typed = text.strip()
    numbers = _numbers(typed)
    if not numbers:
        raise ValueError("give a number")
    if numbers != [typed]:
        raise SeveralMeanings(numbers)
    return units.plain_number(typed)


def one_meaning(value: float) -> str:
    """A number as a text with one meaning, of nine digits at most: 1.125 is "1.1250"."""
    return _numbers(f"{value:.9g}")[0]


def count(text: str) -> int:
    """A whole number. Raises ValueError that says what to write; of "16k" both 16,000 and 16,384."""
    typed, prefix = number_and_unit(text)
    numbers = _numbers(typed)
    power = _COUNT_PREFIXES.get(prefix.lower(), 0)
    if not numbers or (prefix and not power):
        raise ValueError("give a whole number")
    in_words = any(word in text.lower() for word in _MAGNITUDES)
    bases = (1000, 1024) if power and not in_words else (1000,)
    sizes = [units.plain_number(each) * base**power for each in numbers for base in bases]
    whole = [int(size) for size in sizes if size.is_integer() and abs(size) < _MOST_COUNTED]
    if not whole:
        raise ValueError("give a whole number")
    if len(whole) > 1 or numbers != [typed]:
        raise SeveralMeanings([f"{size:,}" for size in whole])
    return whole[0]


def _numbers(text: str) -> list[str]:
    """Numbers that a text may be, in our notation: itself, also with a point for thousands or a comma for decimals."""
    if match := _THREE_DECIMALS.fullmatch(text):
        whole, decimals = match.groups()
        kept = decimals.rstrip("0")
        fraction = f".{decimals}0" if len(kept) == len(decimals) else f".{kept}" if kept else ""
        return [f"{whole}{fraction}", f"{whole},{decimals}"]
    if units.NUMBER.fullmatch(text):
        return [text]
    swapped = text.translate(_SWAPPED)
    return [swapped] if units.NUMBER.fullmatch(swapped) else []


def _units_meant(text: str, wanted: str) -> list[str]:
    """Units of a dimension that a text may mean. wanted: a unit of it."""
    dimension = units.unit(wanted)[0]
    if not text:
        return []
    if dimension == "B/s" and (match := _PORT_RATE.fullmatch(text.replace(" ", ""))):
        return _port_rates(*match.groups())
    bits = dimension == "B" and text.endswith("b")
    if not bits and _dimension(text) == dimension:
        return [text]
    parts = [_parts_like(part) for part in text.replace(" ", "").split("/")]
    if len(parts) > 2:  # no unit has more
        return []
    found: dict[tuple[str, float], str] = {}
    for symbols in itertools.product(*parts):
        symbol = "/".join(symbols)
        if _dimension(symbol) == dimension:
            found.setdefault(units.unit(symbol), symbol)
    return list(found.values())


def _port_rates(prefix: str, name: str) -> list[str]:
    """What a rate without "/s" may mean: 800G and 400GbE are in bits, "400 gb" and "400 GBps" may be in bytes."""
    if not name and prefix.lower() not in "gt":
        return []
    large = "k" if prefix in "kK" else prefix.upper()
    in_bits = name.lower() in ("", "bit", "bits", "be", "e") or (name == "b" and prefix.isupper())
    if in_bits or (name.lower() == "bps" and name != "Bps"):
        return [f"{large}bps"]
    return [f"{large}bps", f"{large}B/s"]


def _parts_like(text: str) -> list[str]:
    """Known units that a text may mean: of "mw" mW and MW, of "Mw" that with its capital letter; bits in full."""
    alike = [symbol for symbol in units.symbols_like(text) if not _smaller(text, symbol)]
    capitals = [symbol for symbol in alike if all(a == b for a, b in zip(text, symbol, strict=True) if a.isupper())]
    exact = [text] if text in alike and not text.endswith("b") else []
    return [symbol + "it" if symbol.endswith("b") else symbol for symbol in exact or capitals or alike]


def _smaller(text: str, symbol: str) -> bool:
    """Whether a text has the capital letter of millions where a symbol has that of thousandths: "Ms" is no "ms"."""
    return text[:1] == "M" and symbol[:1] == "m" and bool(_dimension(symbol[1:]))


def may_be_in(text: object, unit: str) -> bool:
    """Whether a text is a quantity of a unit's dimension."""
    number, symbol = number_and_unit(text)
    return bool(number and _units_meant(symbol, unit))


def _dimension(symbol: str) -> str:
    """Dimension of a unit; "" where there is none of this name."""
    try:
        return units.unit(symbol)[0]
    except ValueError:
        return ""
