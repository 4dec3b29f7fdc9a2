"""Arguments as a person types them: a text with its unit becomes an SI number, another kind of thing is refused."""

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.catalog import checks, units
from railcore.catalog.lookup import UnknownName


class Range(NamedTuple):
    """Numbers that an argument may be, each of an array.

    infinite: infinity too, which means no limit. above_0: 0 is none of them.
    """

    least: float = 0
    most: float = math.inf
    infinite: bool = False
    above_0: bool = False


Quantity = float | Any  # an SI number; as an argument of what is `checked` also a text with its unit
Signed = Annotated[float, Range(-math.inf)]  # a number that may be below 0, too
SignedArray = Annotated[ArrayLike, Range(-math.inf)]
Unbounded = Annotated[float, Range(infinite=True)]  # a number, or infinity for no limit
UnboundedArray = Annotated[ArrayLike, Range(infinite=True)]
Flags = bool | NDArray[np.bool_]
Positive = Annotated[float, Range(above_0=True)]
PositiveArray = Annotated[ArrayLike, Range(above_0=True)]
Share = Annotated[float, Range(0, 1)]
ShareArray = Annotated[ArrayLike, Range(0, 1)]
Count = Annotated[int, Range(1)]
Listed = Annotated[int, Range(1, 2**22)]  # a count of what is made one by one, in memory
T = TypeVar("T")
_COUNTS = {  # whole numbers of at least 1 wherever they are asked for, and the most that any network or model has
    **dict.fromkeys(
        "gpus hb_domain_size tensor context expert pipeline data ranks micro_batch racks hosts servers hidden".split(),
        2**36,
    ),
    **dict.fromkeys("radix layers heads stages chunks microbatches iterations".split(), 2**24),
    **dict.fromkeys("planes nic_ports fibres_per_port".split(), 2**10),
}
_RANGES = {  # of names that mean the same everywhere; all others are 0 or more
    **{name: Range(1, most) for name, most in _COUNTS.items()},
    "oversubscription": Range(infinite=True),
    **dict.fromkeys(("latitude", "latitude_a", "latitude_b"), Range(-90, 90)),
    **dict.fromkeys(("longitude", "longitude_a", "longitude_b"), Range(-180, 180)),
}
_EXAMPLES = {  # last word of an argument's name: a quantity of its dimension
    "Bps": "400 Gbps",
    "bytes": "141 GB",
    "w": "1.2 GW",
    "usd": "10 GUSD",
    "m": "75 km",
    "s": "5 ms",
    "time": "90 days",
    "rate": "1 PFLOP/s",
    "flops": "1 PFLOP/s",
    "compute": "1e25 FLOP",
    "electricity_price": "0.1 USD/kWh",  # the whole name
}
_EMPTY = inspect.Parameter.empty
_PLAIN = frozenset((float, int, np.float64, np.int64))  # held against a range without an array
_MOST_SHOWN = 60  # letters of a value that is refused
_NUMBERS = frozenset(get_args(ArrayLike) or [ArrayLike])  # NumPy has a union, and one name from Python 3.12 on
_REMEDIES = {
    str: "a text",
    int: "a whole number",
    bool: "True or False",
    Mapping: "a dictionary or a table",
    Sequence: "a list",
}


def checked(target: T) -> T:
    """A function, or a dataclass at its construction, whose arguments are held against their annotations.

    Numbers and arrays may be texts with a unit, such as nic_Bps="400 Gbps", where the last word of the name tells the
    dimension; what else is of another kind than annotated is refused, and so is an unknown name. Numbers are finite and
    0 or more, those of int whole, and counts such as gpus 1 or more, unless a `Range` in the annotation says otherwise;
    a text is one of its Literal. help() shows the annotations in few letters.
    """
    function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    signature = inspect.signature(function)
    parameters = signature.parameters
    readers = {name: _Reader(name, each.annotation, each.default) for name, each in parameters.items()}
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    in_order, names = list(readers.values()), {*readers} - {"self"}

    @wraps(function)
    def reading(*args: Any, **named: Any) -> Any:
        if not any_name and (stray := [name for name in named if name not in readers]):
            raise UnknownName(f"argument of {target.__name__}", stray[0], names)  # type: ignore
        placed = [reader.read(value) for reader, value in zip(in_order, args, strict=False)]
        options = {name: (readers.get(name) or _any_reader(name)).read(value) for name, value in named.items()}
        return function(*placed, *args[len(placed) :], **options)

    setattr(reading, "__signature__", _in_few_letters(signature))  # noqa: B010
    if not isinstance(target, type):
        return reading  # type: ignore[return-value]
    setattr(target, "__init__", reading)  # noqa: B010
    return target


def quantity(text: Any, example: str) -> float:
    """SI value of a text with its unit. example: a quantity of the dimension.

    Raises ValueError that says what to write for what is no such text.
    """
    try:
        return units.parse(text, example.partition(" ")[2])
    except ValueError:
        raise ValueError(f"give a text with its unit, such as {example!r}") from None


def si(name: str, value: Any, example: str) -> Any:
    """A text in SI units, texts as an array, and what is no text as it is. example: as of `quantity`.

    Raises ValueError naming the argument for a text that cannot be read, or of another dimension.
    """
    texts = value if isinstance(value, list | tuple) else [value]
    if not any(isinstance(text, str) for text in texts):
        return value
    try:
        found = np.asarray([quantity(text, example) if isinstance(text, str) else text for text in texts], float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}: give {_in_unit(example)}") from None
    return float(found[0]) if isinstance(value, str) else found


class _AsWritten(str):
    """An annotation that help() shows without quotes."""

    __repr__ = str.__str__


def _in_few_letters(signature: inspect.Signature) -> inspect.Signature:
    """A signature whose annotations name no modules, and ArrayLike in place of its some ten members."""
    empty = inspect.Parameter.empty
    given = [*(each.annotation for each in signature.parameters.values()), signature.return_annotation]
    *texts, result = (each if each is empty else _AsWritten(_written(each)) for each in given)
    parameters = [
        each.replace(annotation=text) for each, text in zip(signature.parameters.values(), texts, strict=True)
    ]
    return signature.replace(parameters=parameters, return_annotation=result)


def _written(annotation: Any) -> str:
    if annotation == Quantity:
        return "Quantity"
    if get_origin(annotation) is Annotated:
        return _written(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " | ".join(map(repr, get_args(annotation)))
    members = _members(annotation)
    numbers = {*members} >= _NUMBERS
    texts = ["ArrayLike"] if numbers else []
    texts += [inspect.formatannotation(each) for each in members if not (numbers and each in _NUMBERS)]
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", " | ".join(texts)).replace("NoneType", "None")


def _members(annotation: Any) -> tuple:
    """The members of a union in order, or the annotation alone."""
    union = isinstance(annotation, UnionType) or get_origin(annotation) is Union
    return get_args(annotation) if union else (annotation,)


def _plain_members(annotation: Any) -> list:
    """Members of an annotation without ranges, and a text for words."""
    if get_origin(annotation) is Annotated:
        return _plain_members(get_args(annotation)[0])
    members = _members(annotation)
    if members != (annotation,):
        return [inner for part in members for inner in _plain_members(part)]
    return [str if get_origin(annotation) is Literal else annotation]


def _kinds(annotation: Any) -> frozenset:
    """What an annotation allows, brackets left out: ndarray for numbers of any shape, Sequence for lists."""
    members = frozenset(_plain_members(annotation))
    if members >= _NUMBERS:
        members = members - _NUMBERS | {np.ndarray}
    plain = {get_origin(each) or each for each in members}
    same = {inspect.Parameter.empty: Any, Iterable: Sequence, tuple: Sequence, list: Sequence}
    return frozenset(same.get(each, each) for each in plain)


class _Reader:
    """How one argument is read: its kinds, its range or its words, and a quantity of its dimension."""

    def __init__(self, name: str, annotation: Any = _EMPTY, default: Any = _EMPTY) -> None:
        self.name, self.kinds = name, _kinds(annotation)
        self._real = bool(self.kinds & {float, np.ndarray}) and bool not in self.kinds
        self._whole, self._typed = self.kinds - {NoneType} == {int}, {*_plain_members(annotation)} >= _NUMBERS
        ranges = [each for part in _members(annotation) for each in getattr(part, "__metadata__", ())]
        usual = _RANGES.get(name, Range())
        usual = usual._replace(least=0) if self._real and name in _COUNTS else usual  # shares of one, too
        self.allowed = next((each for each in ranges if type(each) is Range), usual)
        if isinstance(default, int | float):  # what stands for "not given" may be given
            least = min(self.allowed.least, default)
            self.allowed = self.allowed._replace(least=least, infinite=self.allowed.infinite or default == math.inf)
        least, most, _, above_0 = self.allowed
        self._low = max(least, checks.ABOVE_0 if above_0 else -checks.LARGEST)
        self._high = min(most, checks.LARGEST)
        self._words = tuple(
            word for part in _members(annotation) if get_origin(part) is Literal for word in get_args(part)
        )
        quantity = self._real or self.kinds & {Sequence, Any}
        self._example = (_EXAMPLES.get(name) or _EXAMPLES.get(name.rpartition("_")[2], "")) if quantity else ""

    def read(self, value: Any) -> Any:
        """The value that is meant. Raises ValueError where it is of none of the kinds, or out of range."""
        if value is None and NoneType in self.kinds:
            return value
        if self._example:
            value = si(self.name, value, self._example)
        if self._real:
            return self._number(value)
        if self._whole:
            return self._whole_number(value)
        if self._words and isinstance(value, str):
            return checks.one_of(self.name, value, self._words)
        if not any(_is_a(value, kind) for kind in self.kinds):
            remedies = {getattr(kind, "made_by", "") for kind in self.kinds} - {""}
            plain = {_REMEDIES.get(kind, f"a {kind.__name__}") for kind in self.kinds - {NoneType}}
            raise ValueError(f"{self.name} is {_shown(value)}: give {' or '.join(sorted(remedies or plain))}")
        return value

    def _number(self, value: Any) -> Any:
        if type(value) in _PLAIN and self._low <= value <= self._high:
            return value
        if isinstance(value, np.ndarray) and value.dtype == bool and not self._typed:
            return value
        wanted = _in_unit(self._example) if self._example else "a number"
        array = checks.numbers(self.name, value, wanted)
        if (not array.size and isinstance(value, list | tuple)) or (array.ndim and np.ndarray not in self.kinds):
            raise ValueError(f"{self.name} is {value!r}: give {wanted}")
        if checks.within(array, self._low, self._high):
            return value
        least, most, infinite, above_0 = self.allowed
        if above_0:
            checks.positive(self.name, value)
        endless = infinite and np.any(array == math.inf)
        checks.at_least(self.name, array[array != math.inf] if endless else value, least, most)
        return value

    def _whole_number(self, value: Any) -> Any:
        least, most, *_ = self.allowed
        if type(value) is int and least <= value <= min(most, checks.MOST_WHOLE):
            return value
        if np.ndim(checks.numbers(self.name, value, "a whole number")):
            raise ValueError(f"{self.name} is {value!r}: give a whole number")
        found = int(checks.whole(self.name, value, least, most if np.any(np.asarray(value) > most) else None))
        return value if isinstance(value, int) else found


@lru_cache(maxsize=256)
def _any_reader(name: str) -> _Reader:
    """How an argument is read of which only the name is known."""
    return _Reader(name)


def _shown(value: Any) -> str:
    """A value in few letters."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN].splitlines()[0]}..."


def _in_unit(example: str) -> str:
    """What to write for a quantity."""
    return f"a number in {units.unit(example.partition(' ')[2])[0]}, or a text such as {example!r}"


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind of `_kinds`."""
    if kind is Mapping:
        return hasattr(value, "keys")  # tables too
    if kind is Sequence:  # arrays and ranges too
        return isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    if kind is bool:
        return np.ndim(value) == 0 and value in (True, False)
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)
