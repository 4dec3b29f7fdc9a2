"""The page of `railcore plan`: documents of texts and numbers in, one HTML file that loads nothing out.

What is said is in the documents, how it looks in the templates.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railcore.catalog.colours import SCHEMES
from railcore.planner.pictures import FONT, bar_picture, place_picture, scatter_picture

if TYPE_CHECKING:
    import jinja2

# Which text stands on which ground: at least 4.5:1 in both schemes.
TEXT_PAIRS = [(text, on) for text in ("ink", "soft", "link", "good", "bad") for on in ("paper", "plate", "best")]
TEXT_PAIRS += [("paper", "ink")]  # hover texts

GRADES = {"measured": "M", "datasheet": "D", "paper": "P", "derived": "C", "assumed": "A", "mixed": "X"}
GRADES |= {"given": "G"}  # of the reader's own spec
STATES = ("best", "tie", "other", "missed", "grey")  # in this order they are listed
MARKERS = {
    "circle": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "square": "M-4.5 -4.5h9v9h-9z",
    "diamond": "M0 -6.2L6.2 0L0 6.2L-6.2 0z",
    "triangle": "M0 -6L5.8 4.5h-11.6z",
    "triangle-down": "M0 6L5.8 -4.5h-11.6z",
    "plus": "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
    "cross": "M0 -2.8L3.2 -6L6 -3.2L2.8 0L6 3.2L3.2 6L0 2.8L-3.2 6L-6 3.2L-2.8 0L-6 -3.2L-3.2 -6z",
    "star": "M0 -6.6L1.6 -2.2L6.3 -2L2.6 0.9L3.9 5.4L0 2.8L-3.9 5.4L-2.6 0.9L-6.3 -2L-1.6 -2.2z",
}


def page_html(documents: Sequence[Mapping[str, Any]]) -> str:
    """One page for all documents: the answer of each on its first screen, then its sections.

    One document has its sections' own ids; of several, the ids begin with s1-, s2-, and a first table compares them.
    Equal documents give equal bytes. Colours are #rrggbb; a limit has the unit of the values that it bounds.
    """
    prefixes = [""] if len(documents) == 1 else [f"s{count}-" for count in range(1, len(documents) + 1)]
    shown = [_shown(document, prefix) for document, prefix in zip(documents, prefixes, strict=True)]
    columns = {column["key"]: column for document in reversed(documents) for column in document["columns"]}
    keys = dict.fromkeys(column["key"] for document in documents for column in document["columns"])
    listed, bests = [columns[key] for key in keys], [scenario["best"] for scenario in shown if scenario["best"]]
    return _template().render(shown=shown, columns=listed, units=_units(listed, bests))


def _shown(document: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What the template needs of a document: itself, its candidates in order, its pictures wide and narrow."""
    candidates = sorted(document["candidates"], key=lambda candidate: STATES.index(candidate["state"]))
    drawn = [candidate for candidate in candidates if _drawable(candidate["numbers"], document["chart"])]
    return {
        "document": document,
        "prefix": prefix,
        "candidates": candidates,
        "best": next((candidate for candidate in candidates if candidate["state"] == "best"), None),
        "labels": {column["key"]: column["label"] for column in document["columns"]},
        "units": _units(document["columns"], candidates),
        "grades": _grades(document),
        "chart": drawn and [scatter_picture(document["chart"], drawn, *size) for size in ((520, 470), (340, 400))],
        "sections": [
            {
                "section": section,
                "bars": section.get("bars") and [bar_picture(section["bars"], width) for width in (720, 340)],
                "places": section.get("places") and [place_picture(section["places"], width) for width in (600, 340)],
            }
            for section in document["sections"]
        ],
    }


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
    environment.filters |= {"px": _px, "without": _without}
    environment.globals |= {"schemes": SCHEMES, "grades": GRADES, "markers": MARKERS, "font": FONT}
    return environment.get_template("plan.html.j2")


def _px(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


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
