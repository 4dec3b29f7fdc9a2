"""Arguments as a person types them: a text with its unit becomes an SI number, another kind of thing is refused."""

import dataclasses
import inspect
import math
import numbers
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.catalog import checks, units
from railcore.catalog.lookup import UnknownName
from railcore.catalog.readings import SeveralMeanings, count, quantity


class Range(NamedTuple):
    """Numbers that an argument may be, each of an array.

    infinite: infinity too, which means no limit. above_0: 0 is none of them. example: a text of its dimension, such as
    "400 Gbps", which may stand for the number.
    """

    least: float = -math.inf
    most: float = math.inf
    infinite: bool = False
    above_0: bool = False
    example: str = ""


Quantity = float | Any  # a number in SI units, or a text with its unit, which `checked` reads
Quantities = checks.Floats | Any  # the same of each of an array
NonNegative = Annotated[float, Range(0)]
NonNegativeArray = Annotated[Quantities, Range(0)]
Unbounded = Annotated[float, Range(0, infinite=True)]  # infinity: no limit
UnboundedArray = Annotated[ArrayLike, Range(0, infinite=True)]
Positive = Annotated[float, Range(0, above_0=True)]
PositiveArray = Annotated[Quantities, Range(0, above_0=True)]
Share = Annotated[float, Range(0, 1)]
Flags = bool | NDArray[np.bool_]
NonNegativeInt = Annotated[int, Range(0)]
NonNegativeInts = Annotated[checks.Ints, Range(0)]
Count = Annotated[int, Range(1, 2**36)]
CountArray = Annotated[ArrayLike, Range(0, 2**36)]  # shares of one, too
MOST_LISTED = 2**22
Listed = Annotated[int, Range(1, MOST_LISTED)]  # a count of what is made one by one, in memory
MOST_GPUS = 2**22  # of a job and a plan: no cluster has nearly as many
MOST_ENDS = 2**24  # of a fabric that is looked at switch by switch
Gpus = Annotated[int, Range(1, MOST_GPUS)]
Few = Annotated[int, Range(1, 2**10)]  # planes, and ports of a NIC
ListedOrNone = Annotated[int, Range(0, MOST_LISTED)]  # as `Listed`, or 0
Bandwidth = Annotated[Quantity, Range(0, example="400 Gbps")]
Bytes = Annotated[Quantity, Range(0, example="141 GB")]
BytesArray = Annotated[Quantities, Range(0, example="141 GB")]
Seconds = Annotated[Quantity, Range(0, example="5 ms")]
SecondsArray = Annotated[Quantities, Range(0, example="5 ms")]
Metres = Annotated[Quantity, Range(0, example="75 km")]
MetresArray = Annotated[Quantities, Range(0, example="75 km")]
Watts = Annotated[Quantity, Range(0, example="1.2 GW")]
WattsArray = Annotated[Quantities, Range(0, example="1.2 GW")]
MOST_USD_PER_J = 1e-5  # 36 USD/kWh: more is another unit
EnergyPrice = Annotated[Quantity, Range(0, MOST_USD_PER_J, example="0.1 USD/kWh")]
DollarsArray = Annotated[Quantities, Range(0, example="10 B USD")]
FlopArray = Annotated[Quantities, Range(0, example="1e25 FLOP")]
PositiveShare = Annotated[float, Range(0, 1, above_0=True)]
PositiveShareArray = Annotated[Quantities, Range(0, 1, above_0=True)]
PositiveBandwidth = Annotated[Quantity, Range(0, above_0=True, example="400 Gbps")]
PositiveBandwidthArray = Annotated[Quantities, Range(0, above_0=True, example="400 Gbps")]
PositiveBytes = Annotated[Quantity, Range(0, above_0=True, example="141 GB")]
PositiveBytesArray = Annotated[Quantities, Range(0, above_0=True, example="141 GB")]
PositiveFlopRate = Annotated[Quantity, Range(0, above_0=True, example="1 PFLOP/s")]
PositiveFlopRateArray = Annotated[Quantities, Range(0, above_0=True, example="1 PFLOP/s")]
T = TypeVar("T")


class NeededColumns(tuple[str, ...]):
    """Names of columns that a table needs, in the annotation of an argument."""


_EMPTY = inspect.Parameter.empty
_PLAIN = frozenset((float, int, np.float64, np.int64))  # held against a range without an array
_NUMBERS = frozenset(get_args(ArrayLike) or [ArrayLike])  # NumPy has a union, and one name from Python 3.12 on
_LISTS = (Iterable, Sequence, Collection, tuple, list)
_REMEDIES = {
    str: "a text",
    "pd.DataFrame": "a table, a DataFrame of pandas",
    int: "a whole number",
    bool: "True or False",
    Callable: "a function",
    Path: "a path",
    Mapping: "a dictionary or a table",
    Sequence: "a list",
}


def checked(target: T) -> T:
    """A function, or a dataclass at its construction, whose arguments are held against their annotations.

    It stands at the public edge alone: what users call and make. Numbers are finite, those of int whole, and within the
    `Range` of their annotation; where that has an example, a text with its unit may stand for the number, such as
    nic_Bps="400 Gbps". A text is one of its Literal. What else is of another kind than annotated is refused, and so is
    an unknown name. A table has the `NeededColumns` of its annotation. An object of a class that is checked too is read
    once more, field by field, as its fields may have been changed since. help() shows the annotations in few letters.
    """
    function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    readers = {parameter.name: _Reader(parameter.name, parameter.annotation) for parameter in parameters}
    further = next((parameter for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), None)
    in_order, names = list(readers.values()), {*readers} - {"self"}

    @wraps(function)
    def reading(*args: Any, **named: Any) -> Any:
        options = {}
        for name, value in named.items():
            if name in readers:
                options[name] = readers[name].read(value)
            elif further:
                options[name] = _reader(name, further.annotation).read(value)
            elif name in (foreign := getattr(target, "foreign_names", {})):
                raise ValueError(f"{name} is {foreign[name]}")
            else:
                raise UnknownName(f"argument of {target.__name__}", name, names)  # type: ignore[attr-defined]
        placed = [reader.read(value) for reader, value in zip(in_order, args, strict=False)]
        return function(*placed, *args[len(placed) :], **options)

    setattr(reading, "__signature__", _in_few_letters(signature))  # noqa: B010
    if not isinstance(target, type):
        return reading  # type: ignore[return-value]
    setattr(target, "__init__", reading)  # noqa: B010
    again = [readers[each.name] for each in dataclasses.fields(target) if each.init]  # type: ignore[arg-type]
    setattr(target, "_read_again", again)  # noqa: B010
    return target


def si(name: str, value: Any, example: str) -> Any:
    """A text in SI units, texts as an array, and what is no text as it is. example: as of `readings.quantity`.

    Raises ValueError naming the argument for a text that cannot be read, or of another dimension.
    """
    texts = value if isinstance(value, list | tuple) else [value]
    if not any(isinstance(text, str) for text in texts):
        return value
    try:
        if any(isinstance(text, bool | np.bool_) for text in texts):
            raise TypeError("no number")
        values = np.asarray([quantity(text, example) if isinstance(text, str) else text for text in texts], float)
    except SeveralMeanings as error:
        raise ValueError(f"{name} is {value!r}: {error}") from None
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}: give {_in_unit(example)}") from None
    return float(values[0]) if isinstance(value, str) else values


def check_gpus(what: str, gpus: int, most: int = MOST_ENDS) -> None:
    """Raises ValueError for something of more GPUs than are looked at one by one."""
    if gpus > most:
        raise ValueError(f"{what} has {gpus:,} GPUs, which are looked at one by one: give one of at most {most:,}")


class _AsWritten(str):
    """An annotation that help() shows without quotes."""

    __repr__ = str.__str__


def _in_few_letters(signature: inspect.Signature) -> inspect.Signature:
    """A signature whose annotations name no modules, and ArrayLike in place of its some ten members."""

    def short(annotation: Any) -> Any:
        return annotation if annotation is _EMPTY else _AsWritten(_written(annotation))

    parameters = [part.replace(annotation=short(part.annotation)) for part in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=short(signature.return_annotation))


def _written(annotation: Any) -> str:
    if annotation in (Quantity, Quantities):
        return "Quantity" if annotation == Quantity else "Quantities"
    if get_origin(annotation) is Annotated:
        return _written(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " | ".join(map(repr, get_args(annotation)))
    members = _members(annotation)
    arrays = {*members} >= _NUMBERS
    if len(members) == 1 and not arrays:
        return re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation)).replace("NoneType", "None")
    texts = [_written(member) for member in members if not (arrays and member in {*_NUMBERS, Any})]
    return " | ".join(["ArrayLike"] * arrays + texts)


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
    same: dict[Any, Any] = {inspect.Parameter.empty: Any, **dict.fromkeys(_LISTS, Sequence)}
    return frozenset(same.get(each, each) for each in plain)


class _Reader:
    """How one argument is read: its kinds, its range or its words, and a quantity of its dimension."""

    def __init__(self, name: str, annotation: Any) -> None:
        self.name, self.kinds = name, _kinds(annotation)
        notes = [note for member in _members(annotation) for note in getattr(member, "__metadata__", ())]
        real = self.kinds & {float, np.ndarray}
        self._real = bool(real) and bool not in self.kinds and (bool(notes) or Any not in self.kinds)
        self._whole = self.kinds - {NoneType} == {int}
        self._typed = bool(notes) or {*_plain_members(annotation)} >= _NUMBERS
        self.allowed = next((note for note in notes if type(note) is Range), Range())
        self._low = max(self.allowed.least, checks.ABOVE_0 if self.allowed.above_0 else -checks.LARGEST)
        self._high = min(self.allowed.most, checks.LARGEST)
        literals = [member for member in _members(annotation) if get_origin(member) is Literal]
        self._columns = next((note for note in notes if isinstance(note, NeededColumns)), ())
        lists = [each for each in _plain_members(annotation) if get_origin(each) in _LISTS]
        named = [get_args(each)[1:] for each in _plain_members(annotation) if get_origin(each) is Mapping]
        self._plain = bool(named) and all(_kinds(*part) <= {float, int, str} for part in named)
        self._lists = Sequence in self.kinds and np.ndarray not in self.kinds
        self._parts = frozenset().union(*(_kinds(part) for each in lists for part in get_args(each) if part is not ...))
        if self._parts & {Any, int, float, np.ndarray}:  # numbers of a list are held where they are used
            self._parts = frozenset()
        self._words = tuple(word for literal in literals for word in get_args(literal))
        self._example = self.allowed.example

    def read(self, value: Any) -> Any:
        """The value that is meant. Raises ValueError where it is of none of the kinds, or out of range."""
        if self.kinds == {Any} or (value is None and NoneType in self.kinds):
            return value
        if self._example:
            value = si(self.name, value, self._example)
        if self._real:
            return self._number(value)
        if self._whole:
            return self._whole_number(value)
        if self._words and isinstance(value, str):
            return checks.one_of(self.name, value, self._words)
        if self._plain and hasattr(value, "columns"):
            raise ValueError(f"{self.name} is a table: give a dictionary")
        if not any(_is_a(value, kind) for kind in self.kinds):
            raise ValueError(f"{self.name} is {checks.short(value)}: give {_remedy(self.kinds)}")
        if self._lists and isinstance(value, np.ndarray):
            value = value.tolist()
        of_table = Mapping in self.kinds and _is_a(value, Mapping)  # a row of a table is a list too
        if self._parts and not of_table and _is_a(value, Sequence) and isinstance(value, Collection):
            for part in value:
                if not any(_is_a(part, kind) for kind in self._parts):
                    remedy = _remedy(self._parts)
                    raise ValueError(f"{self.name} has {checks.short(part)}: give a list of which each is {remedy}")
        if missing := [column for column in self._columns if column not in value]:
            raise ValueError(f"{self.name} has no column {missing[0]!r}: give a table with {', '.join(self._columns)}")
        for reader in getattr(type(value), "_read_again", ()):
            held = vars(value).get(reader.name, _EMPTY)
            try:
                meant = reader.read(held)
            except ValueError as error:
                raise ValueError(f"{self.name}.{error}") from None
            if isinstance(held, str) and not isinstance(meant, str):  # no text stays one in an object as it was made
                raise ValueError(
                    f"{self.name}.{reader.name} is {held!r}, changed by hand: give an object that was made with it"
                )
        return value

    def _number(self, value: Any) -> Any:
        if type(value) in _PLAIN and self._low <= value <= self._high:
            return value
        if isinstance(value, np.ndarray) and value.dtype == bool and not self._typed:
            return value
        wanted = _in_unit(self._example) if self._example else "a number"
        if hasattr(value, "columns"):
            raise ValueError(f"{self.name} is a table: give {wanted}")
        array = checks.numbers(self.name, value, wanted)
        if (not array.size and isinstance(value, list | tuple)) or (array.ndim and np.ndarray not in self.kinds):
            raise ValueError(f"{self.name} is {value!r}: give {wanted}")
        if checks.within(array, self._low, self._high):
            return value
        least, most, infinite, above_0, _ = self.allowed
        finite = array[array != math.inf] if infinite and np.any(array == math.inf) else value
        if self._example and np.any(array > most):
            raise ValueError(f"{self.name} is {value!r}, more than {most:g}: give {wanted}")
        if above_0:
            checks.positive(self.name, finite)
        checks.at_least(self.name, finite, least, most)
        return value

    def _whole_number(self, value: Any) -> Any:
        least, most, *_ = self.allowed
        if isinstance(value, str):
            try:
                value = count(value)
            except ValueError as error:
                raise ValueError(f"{self.name} is {value!r}: {error}") from None
        if type(value) is int and least <= value <= min(most, checks.MOST_WHOLE):
            return value
        if np.ndim(checks.numbers(self.name, value, "a whole number")):
            raise ValueError(f"{self.name} is {value!r}: give a whole number")
        number = int(checks.whole(self.name, value, least, most if np.any(np.asarray(value) > most) else None))
        return value if isinstance(value, int) else number


@lru_cache(maxsize=256)
def _reader(name: str, annotation: Any) -> _Reader:
    """How an argument is read that ** gathers."""
    return _Reader(name, annotation)


def _remedy(kinds: Collection[Any]) -> str:
    """What to give: an object that is made so, or else each of some kinds."""
    remedies = {getattr(kind, "made_by", "") for kind in kinds} - {""}
    plain = {_REMEDIES.get(kind) or f"a {kind.__name__}" for kind in kinds if kind is not NoneType}
    return " or ".join(sorted(remedies or plain))


def _in_unit(example: str) -> str:
    """What to write for a quantity."""
    return f"a number in {units.unit(example.partition(' ')[2])[0]}, or a text such as {example!r}"


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind of `_kinds`."""
    if isinstance(value, type) and kind is not Any:  # a class in place of its objects
        return kind is type
    if kind is Mapping:
        return hasattr(value, "keys")  # tables too
    if kind == "pd.DataFrame":  # pandas is not loaded for an annotation
        names = [(each.__module__.partition(".")[0], each.__name__) for each in type(value).__mro__]
        return ("pandas", "DataFrame") in names
    if kind is Sequence:  # arrays and ranges too
        listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping) and not hasattr(value, "columns")
        return listed and getattr(value, "ndim", 1) == 1
    if kind is bool:
        return isinstance(value, numbers.Real | np.bool_) and value in (True, False)
    if kind is int:
        return isinstance(value, numbers.Real | np.bool_) and value == value // 1
    if getattr(kind, "_is_protocol", False):
        wanted = [name for name in vars(kind) if not name.startswith("_")]
        return all(inspect.getattr_static(value, name, _EMPTY) is not _EMPTY for name in wanted)
    if kind is Any or not isinstance(kind, type):
        return True
    return isinstance(value, kind)
