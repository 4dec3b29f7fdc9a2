"""Parameters cells: what a reader may change in a notebook, and whether a given value fits."""

import ast
from collections.abc import Mapping

from railcore.facts.catalog import UnknownName
from railcore.facts.units import dimension_of

_PLAIN = (bool, int, float, str)
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)  # of ast, for any text
_KIND_NAMES = {bool: "True or False", int: "a whole number", float: "a number", list: "a list"}


def defaults(notebook: Mapping) -> dict[str, object]:
    """Names and default values of the cell tagged `parameters`; none where a notebook has no such cell.

    Raises ValueError for anything in the cell but `name: type = literal`.
    """
    cells = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) > 1:
        raise ValueError("two cells are tagged 'parameters': leave one")
    found: dict[str, object] = {}
    try:
        statements = ast.parse(cells[0]["source"], "parameters cell").body if cells else []
    except _UNREADABLE as error:
        raise ValueError(f"{error}: write only lines `name: type = value  # unit, meaning`") from None
    for statement in statements:
        where = f"parameters cell, line {statement.lineno}"
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value):
            raise ValueError(f"{where}: write only `name: type = value  # unit, meaning`")
        try:
            found[statement.target.id] = ast.literal_eval(statement.value)
        except _UNREADABLE as error:
            raise ValueError(f"{where}: the value is no literal ({error})") from None
    return found


def read_parameters(given: list[list[str]], notebook: Mapping, name: str) -> dict[str, object]:
    """Values for a notebook's parameters from pairs of texts, each of the type and dimension of its default.

    Raises ValueError (UnknownName for a name the notebook lacks) before anything runs.
    """
    known = defaults(notebook)
    values: dict[str, object] = {}
    for key, text in given:
        if key not in known:
            raise UnknownName(f"parameter of {name}", key, list(known))
        if key in values:
            raise ValueError(f"parameter {key!r} is given twice: give it once")
        values[key] = _value(key, text, known[key])
    return values


def _value(key: str, text: str, default: object) -> object:
    kind = type(default)
    if kind is str:
        wanted = dimension_of(str(default))
        if wanted is not None and dimension_of(text) != wanted:
            raise ValueError(f"parameter {key!r} is {text!r}: write a quantity such as {default!r}, with its unit")
        return text
    try:
        value = ast.literal_eval(text.capitalize() if kind is bool else text)
    except _UNREADABLE:
        value = text
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or not _alike(value, default):
        raise ValueError(f"parameter {key!r} is {text!r}: give {_KIND_NAMES.get(kind, 'a value')} such as {default!r}")
    return value


def _alike(value, default) -> bool:
    """True when the entries of a list are of the types and dimensions of the default's; texts where that is empty."""
    if not isinstance(default, list):
        return isinstance(default, _PLAIN)
    kinds, given = ({(type(entry), dimension_of(entry)) for entry in each} for each in (default or ["text"], value))
    if (float, None) in kinds:
        kinds.add((int, None))
    return bool(value or not default) and given <= kinds
