"""Families of the catalog as tables for a person: the main columns with units, the user's own items marked."""

import textwrap
from typing import Any

from railcore import catalog
from railcore.catalog import units

_BILLION = 1e9
_SOURCE_WIDTH = 72
_NONE = "-"


def listed_families() -> list[str]:
    """What `family_list` takes: the catalog's families, and "books"."""
    return [*catalog.families(), "books"]


def family_list(family: str) -> list[dict[str, str]]:
    """Items of a family with their main columns; a star follows the name of an item with rows of the user's own.

    family: its name, or the first letters that it alone begins with, such as "platform". "books" lists prices and
    powers side by side, with their source. A family without main columns has a row for each value.
    Raises UnknownName.
    """
    family = catalog.full_name("family", family, listed_families())
    if family == "books":
        return _books()
    items = [catalog.item(family, name) for name in catalog.names(family)]
    if not (columns := _columns(family, items)):
        values = [(_starred(item), row.parameter, _text(row.value, row.unit)) for item in items for row in item.rows]
        return [dict(zip(("name", "parameter", "value"), texts, strict=True)) for texts in values]
    rows = [{head: texts[i] for head, texts in columns.items()} for i in range(len(items))]
    return [{"name": _starred(item)} | row for item, row in zip(items, rows, strict=True) if {*row.values()} != {_NONE}]


def _starred(*items: catalog.Item) -> str:
    return items[0].name + " *" * any(row.own for item in items for row in item.rows)


def _text(value: Any, unit: str) -> str:
    """A value in its unit, which follows unless it is a plain number."""
    if value is None or unit == "name":
        return _NONE if value is None else value
    return f"{units.number(units.convert(value, unit))} {'' if unit == '1' else unit}".strip()


def _columns(family: str, items: list[catalog.Item]) -> dict[str, list[str]]:
    """Texts of the main columns of items, by heading with unit."""
    columns = {}
    for need in catalog.row_needs(family):
        values = [item.get(need.parameter) for item in items]
        if need.unit == "name" or units.unit(need.unit)[0] != "1":
            head = need.heading if need.unit == "name" else f"{need.heading} [{need.unit}]"
            texts = [_text(value, need.unit).removesuffix(f" {need.unit}") for value in values]
        else:
            large = any(value is not None and value >= _BILLION for value in values)
            head = f"{need.heading} [1e9]" if large else need.heading
            texts = [_text(value and value / (_BILLION if large else 1), "1") for value in values]
        if need.heading:
            columns[head] = texts
    return columns


def _books() -> list[dict[str, str]]:
    rows = []
    for name in dict.fromkeys([name for family in catalog.BOOKS for name in catalog.names(family)]):
        there = {family: catalog.item(family, name) for family in catalog.BOOKS if name in catalog.names(family)}
        ports = {family: f"port_{what}" for family, (what, _) in catalog.BOOKS.items()}
        priced = [item.row(ports[family]) for family, item in there.items() if ports[family] in item]
        if not priced:  # no book but, say, the price of energy
            continue
        row = {"book": _starred(*there.values())}
        for family in catalog.BOOKS:
            columns = _columns(family, [there.get(family, catalog.Item(name, family, ()))])
            row |= {head: text for head, (text,) in columns.items()}
        source = textwrap.shorten(f"{priced[0].kind}: {priced[0].source}", _SOURCE_WIDTH, placeholder=" ...")
        rows.append(row | {"source": source})
    return rows
