"""Arguments as a person types them: a text with its unit becomes an SI number, another kind of thing is refused."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks, units

Quantity = float | Any  # an SI number; as an argument of what is `checked` also a text with its unit
T = TypeVar("T")
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
    dimension; what else is of another kind than annotated is refused, and so is an unknown name. Ranges are checked
    where the values are used. help() shows the annotations in few letters.
    """
    function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    signature = inspect.signature(function)
    parameters = signature.parameters
    kinds = {name: _kinds(each.annotation) for name, each in parameters.items()}
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    names, unknown = list(kinds), frozenset({Any})

    @wraps(function)
    def reading(*args: Any, **named: Any) -> Any:
        if not any_name and (stray := [name for name in named if name not in kinds]):
            raise catalog.UnknownName(f"argument of {target.__name__}", stray[0], {*names} - {"self"})  # type: ignore
        placed = [_read(name, value, kinds[name]) for name, value in zip(names, args, strict=False)]
        options = {name: _read(name, value, kinds.get(name, unknown)) for name, value in named.items()}
        return function(*placed, *args[len(placed) :], **options)

    setattr(reading, "__signature__", _in_few_letters(signature))  # noqa: B010
    if not isinstance(target, type):
        return reading  # type: ignore[return-value]
    setattr(target, "__init__", reading)  # noqa: B010
    return target


def si(name: str, value: Any, example: str) -> Any:
    """A text in SI units, texts as an array, and what is no text as it is. example: a quantity of the dimension.

    Raises ValueError naming the argument for a text that cannot be read, or of another dimension.
    """
    texts = value if isinstance(value, list | tuple) else [value]
    if not any(isinstance(text, str) for text in texts):
        return value
    like = example.partition(" ")[2]
    try:
        found = np.asarray([units.parse(text, like) if isinstance(text, str) else text for text in texts], float)
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
    members = _members(annotation)
    numbers = {*members} >= _NUMBERS
    texts = ["ArrayLike"] if numbers else []
    texts += [inspect.formatannotation(each) for each in members if not (numbers and each in _NUMBERS)]
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", " | ".join(texts)).replace("NoneType", "None")


def _members(annotation: Any) -> tuple:
    """The members of a union in order, or the annotation alone."""
    union = isinstance(annotation, UnionType) or get_origin(annotation) is Union
    return get_args(annotation) if union else (annotation,)


def _kinds(annotation: Any) -> frozenset:
    """What an annotation allows, brackets left out: ndarray for numbers of any shape, Sequence for lists."""
    members = frozenset(_members(annotation))
    if members >= _NUMBERS:
        members = members - _NUMBERS | {np.ndarray}
    plain = {get_origin(each) or each for each in members}
    same = {inspect.Parameter.empty: Any, Iterable: Sequence, tuple: Sequence, list: Sequence}
    return frozenset(same.get(each, each) for each in plain)


def _read(name: str, value: Any, kinds: frozenset) -> Any:
    """The value that is meant. Raises ValueError where it is of none of the kinds."""
    if value is None and NoneType in kinds:
        return value
    example = _EXAMPLES.get(name) or _EXAMPLES.get(name.rpartition("_")[2], "")
    example = example if kinds & {float, np.ndarray, Sequence, Any} else ""
    if example:
        value = si(name, value, example)
    if kinds & {float, np.ndarray}:
        if isinstance(value, float):
            return value
        wanted = _in_unit(example) if example else "a number"
        array = checks.numbers(name, value, wanted)
        if not array.size or (array.ndim and np.ndarray not in kinds):
            raise ValueError(f"{name} is {value!r}: give {wanted}")
        return value
    if kinds - {NoneType} == {int}:
        if np.ndim(checks.numbers(name, value, "a whole number")):
            raise ValueError(f"{name} is {value!r}: give a whole number")
        if isinstance(value, int):
            return value
        return int(value) if value == value // 1 else value  # what is not whole is refused with its range
    if not any(_is_a(value, kind) for kind in kinds):
        remedies = {getattr(kind, "made_by", "") for kind in kinds} - {""}
        plain = {_REMEDIES.get(kind, f"a {kind.__name__}") for kind in kinds - {NoneType}}
        raise ValueError(f"{name} is {_shown(value)}: give {' or '.join(sorted(remedies or plain))}")
    return value


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
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)
