"""The page of `railcore plan`: documents of texts and numbers in, one HTML file that loads nothing out.

What is said is in the documents, how it looks in the templates.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railcore.catalog.colours import SCHEMES
from railcore.planner.pictures import drawn, network_drawing, network_intervals, place_map, stacked_bars

if TYPE_CHECKING:
    import jinja2

# Which text stands on which ground: at least 4.5:1 in both schemes.
TEXT_PAIRS = [(text, on) for text in ("ink", "soft", "link", "good", "bad") for on in ("paper", "plate", "best")]
TEXT_PAIRS += [("paper", "ink")]  # hover texts

GRADES = {"measured": "M", "datasheet": "D", "paper": "P", "derived": "C", "assumed": "A", "mixed": "X"}
GRADES |= {"given": "G"}  # of the reader's own spec
STATES = ("best", "tie", "other", "missed", "grey")  # in this order they are listed


def page_html(documents: Sequence[Mapping[str, Any]], differences: Mapping[str, Any] | None = None) -> str:
    """One page for all documents: of each first a sheet that decides, of one A4 page, and folded below what defends it.

    Parameters
    ----------
    documents
        One's ids have no prefix; those of several begin with s1-, s2-, and a first table compares them.
    differences
        Of two plans: as of `differences.Differences.document`.

    Returns
    -------
    The page; equal documents give equal bytes. Colours are #rrggbb; a limit has the unit of the values that it bounds.

    Raises
    ------
    ValueError
        Where Matplotlib, which draws the pictures, is not installed.
    """
    prefixes = [""] if len(documents) == 1 else [f"s{count}-" for count in range(1, len(documents) + 1)]
    shown = [_shown(document, prefix) for document, prefix in zip(documents, prefixes, strict=True)]
    columns = {column["key"]: column for document in reversed(documents) for column in document["columns"]}
    keys = dict.fromkeys(column["key"] for document in documents for column in document["columns"])
    listed, bests = [columns[key] for key in keys], [scenario["best"] for scenario in shown if scenario["best"]]
    return _template().render(shown=shown, columns=listed, units=_units(listed, bests), differences=differences)


def _shown(document: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What the template needs of a document: itself, its candidates in order, its pictures."""
    candidates = sorted(document["candidates"], key=lambda candidate: STATES.index(candidate["state"]))
    return {
        "document": document,
        "prefix": prefix,
        "candidates": candidates,
        "best": next((candidate for candidate in candidates if candidate["state"] == "best"), None),
        "labels": {column["key"]: column["label"] for column in document["columns"]},
        "units": _units(document["columns"], candidates),
        "grades": _grades(document),
        "pictures": [*_first_pictures(document, candidates, prefix)],
        "sections": [
            {"section": section, "pictures": [*_section_pictures(section, prefix)]} for section in document["sections"]
        ],
    }


def _first_pictures(
    document: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], prefix: str
) -> Iterator[dict[str, Any]]:
    """Of the first sheet: the networks with their intervals, and what the best one is built of."""
    chart = document["chart"]
    listed = [candidate for candidate in candidates if _drawable(candidate["numbers"], chart)]
    if listed:
        title = f"{chart['x']['label']} and {chart['y']['label']} of each network"
        told = "A dot for each network, with a bar from 5 to 95%; dashed lines are limits. The table has the numbers."
        svg = drawn(network_intervals, f"{prefix}networks", title, told, chart=chart, candidates=listed)
        kinds = {"limit": "dashed lines are limits", "wish": "dotted lines are wishes"}
        lines = "".join(f"; {text}" for kind, text in kinds.items() if _limited(chart, kind))
        hollow = "; hollow marks miss a limit" if any(each["state"] == "missed" for each in listed) else ""
        yield {"svg": svg, "caption": f"Bars are 5 to 95% intervals{lines}{hollow}."}
    if document["drawing"]:
        told = f"{document['drawing']['hosts']}; " + "; ".join(
            f"{tier['label']}, {tier['links']} below" for tier in document["drawing"]["tiers"]
        )
        caption = document["drawing"]["caption"]
        svg = drawn(network_drawing, f"{prefix}drawing", caption, told, drawing=document["drawing"])
        yield {"svg": svg, "caption": caption}


def _limited(chart: Mapping[str, Any], kind: str) -> bool:
    return any(chart[way].get(kind) is not None for way in ("x", "y"))


def _section_pictures(section: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Of a section: bars with a legend and their numbers, a map with its list."""
    name = f"{prefix}{section['id']}"
    if bars := section.get("bars"):
        caption = f"{bars['caption']} ({bars['unit']})"
        svg = drawn(
            stacked_bars, f"{name}-bars", caption, "Bars of parts from zero; the numbers stand below.", bars=bars
        )
        legend = {part["label"]: part["colour"] for row in bars["rows"] for part in row["parts"]}
        lists = {
            row["label"]: ", ".join(f"{part['label']} {part['text']}" for part in row["parts"]) for row in bars["rows"]
        }
        yield {"svg": svg, "caption": caption, "legend": legend, "lists": lists}
    if places := section.get("places"):
        told = "Places by longitude and latitude, numbered as in the list below."
        svg = drawn(place_map, f"{name}-places", places["caption"], told, points=places["points"])
        lists = {f"{count} {point['label']}": point["text"] for count, point in enumerate(places["points"], start=1)}
        yield {"svg": svg, "caption": places["caption"], "legend": {}, "lists": lists}


def _grades(document: Mapping[str, Any]) -> dict[str, str]:
    """Grades and letters that stand on the page: of numbers that decide, and of cells of sections."""
    columns = {column["key"] for column in document["columns"]} & set(document["deciding"])
    told = {number["grade"] for it in document["candidates"] for key, number in it["numbers"].items() if key in columns}
    tables = [table for section in document["sections"] for table in section["tables"]]
    told |= {cell["grade"] for table in tables for row in table["rows"] for cell in row if isinstance(cell, Mapping)}
    return {grade: letter for grade, letter in GRADES.items() if grade in told}


@cache
def _template() -> "jinja2.Template":
    import jinja2  # only for who asks for the page

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"without": _without}
    environment.globals |= {"schemes": SCHEMES, "grades": GRADES}
    return environment.get_template("plan.html.j2")


def _units(columns: Iterable[Mapping[str, Any]], candidates: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The unit in each column's head: the one that all its texts share, such as "M USD", else the column's own."""
    units = {}
    for column in columns:
        entries = [candidate["numbers"].get(column["key"]) for candidate in candidates]
        texts = [entry["text"] for entry in entries if entry]
        ends = {text.partition(" ")[2] for text in texts}
        units[column["key"]] = (ends.pop() if len(ends) == 1 else "") or column["unit"]
    return units


def _without(text: str, unit: str) -> str:
    """A number, or a range, without the unit of its column's head; unchanged where it has another unit."""
    parts = [re.fullmatch(r"((?:from )?[-−\d.,]+) ?(.*)", part) for part in text.split(" to ")]
    left_out = ("", unit, unit.partition(" ")[0])  # the first number of "11 M to 26 M USD" has no USD
    bare = [part[1] for part in parts if part and part[2] in left_out]
    return " to ".join(bare) if len(bare) == len(parts) else text


def _drawable(numbers: Mapping[str, Any], chart: Mapping[str, Any]) -> bool:
    values = [(numbers.get(chart[way]["key"]) or {}).get("value") for way in ("x", "y")]
    return all(value is not None and math.isfinite(value) for value in values)
