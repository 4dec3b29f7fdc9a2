"""Parameters cells: what a reader may change in a notebook, and whether a given value fits.

A line is `name: type = value  # unit, meaning`. A default of another type than the value is declared:
`nic: str | None = None  # Gbps per GPU; None: the platform's`. There a comment that starts with a unit asks for a
quantity of its dimension; where the default is a quantity, it says which.
"""

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from railcore.catalog import UnknownName
from railcore.catalog.units import dimension_of

_PARSING = Lock()  # notebooks run side by side, and CPython 3.11 counts the depth of a tree for all threads together
_PLAIN = (bool, int, float, str)
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)  # of ast, for any text
_KIND_NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", list: "a list"}
_OPTIONAL = {f"{kind.__name__} | None": kind for kind in _PLAIN}


@dataclass(frozen=True)
class _Parameter:
    """Default of a parameter, type of its values, whether None is one, and a quantity of their dimension or ""."""

    default: object
    kind: type
    optional: bool
    like: str

    def example(self) -> str:
        """What to give, for a person."""
        shown = self.like if self.default is None else self.default
        what = "write a quantity" if self.like else f"give {_KIND_NAMES.get(self.kind, 'a value')}"
        such = f" such as {shown!r}{', with its unit' * bool(self.like)}" if shown else ""
        return f"{what}{such}{', or None' * self.optional}"


def defaults(notebook: Mapping) -> dict[str, object]:
    """Names and default values of the cell tagged `parameters`; none where a notebook has no such cell.

    Raises ValueError for anything in the cell but `name: type = literal`.
    """
    return {name: parameter.default for name, parameter in _declared(notebook).items()}


def _declared(notebook: Mapping) -> dict[str, _Parameter]:
    cells = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) > 1:
        raise ValueError("two cells are tagged 'parameters': leave one")
    source = cells[0]["source"] if cells else ""
    try:
        with _PARSING:
            statements = ast.parse(source, "parameters cell").body
    except _UNREADABLE as error:
        raise ValueError(f"{error}: write only lines `name: type = value  # unit, meaning`") from None
    parameters = {}
    for statement in statements:
        where = f"parameters cell, line {statement.lineno}"
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value):
            raise ValueError(f"{where}: write only `name: type = value  # unit, meaning`")
        try:
            default = ast.literal_eval(statement.value)
        except _UNREADABLE as error:
            raise ValueError(f"{where}: the value is no literal ({error})") from None
        annotation, optional = ast.unparse(statement.annotation), _OPTIONAL.get(ast.unparse(statement.annotation))
        if default is None and not optional:
            raise ValueError(f"{where}: the value is None: declare `{annotation.split()[0]} | None`, of a plain type")
        kind = optional or type(default)
        like = default if isinstance(default, str) else f"400 {_unit(source, statement)}" if kind is str else ""
        parameter = _Parameter(default, kind, bool(optional), like if dimension_of(like) else "")
        if default is not None and optional and type(default) is not kind:
            raise ValueError(f"{where}: the value is {default!r}: {parameter.example()}")
        parameters[statement.target.id] = parameter
    return parameters


def _unit(source: str, statement: ast.stmt) -> str:
    """First word of the comment behind a statement."""
    behind = source.splitlines()[(statement.end_lineno or 0) - 1].encode()[statement.end_col_offset :].decode()
    words = behind.partition("#")[2].split()
    return words[0].rstrip(",;:") if words else ""


def read_parameters(texts: list[list[str]], notebook: Mapping, name: str) -> dict[str, object]:
    """Values for a notebook's parameters from pairs of texts, each of the type and dimension that is declared.

    Raises ValueError (UnknownName for a name the notebook lacks) before anything runs.
    """
    declared = _declared(notebook)
    values: dict[str, object] = {}
    for key, text in texts:
        if key not in declared:
            raise UnknownName(f"parameter of {name}", key, list(declared))
        if key in values:
            raise ValueError(f"parameter {key!r} is given twice: give it once")
        values[key] = _value(key, text, declared[key])
    return values


def _value(key: str, text: str, parameter: _Parameter) -> object:
    kind = parameter.kind
    if parameter.optional and text == "None":
        return None
    value: object = text
    if kind is not str:
        with suppress(*_UNREADABLE):
            value = ast.literal_eval(text.capitalize() if kind is bool else text)
    if kind is float and type(value) is int:
        value = float(value)
    like = parameter.like if kind is str else value if parameter.default is None else parameter.default
    if type(value) is not kind or not _alike(value, like):
        raise ValueError(f"parameter {key!r} is {text!r}: {parameter.example()}")
    return value


def _alike(value, like) -> bool:
    """True when a text is a quantity of the dimension of `like`, if that is one; when the entries of a list are of the
    types and dimensions of those of `like`, texts where that is empty."""
    if isinstance(like, str):
        return not like or dimension_of(value) == dimension_of(like)
    if not isinstance(like, list):
        return isinstance(like, _PLAIN)
    kinds, value_kinds = (
        {(type(entry), dimension_of(entry)) for entry in entries} for entries in (like or ["text"], value)
    )
    if (float, None) in kinds:
        kinds.add((int, None))
    return bool(value or not like) and value_kinds <= kinds
