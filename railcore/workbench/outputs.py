"""Save a figure or a table together with the numbers under it."""

import csv
import io
from functools import cache
from typing import TYPE_CHECKING

from railcore.facts import files
from railcore.facts.catalog import UnknownName
from railcore.facts.units import number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MIN_WIDTH_PX = 1200
MAX_SVG_B = 1_000_000
DPI = 200


@cache
def items() -> dict[str, dict[str, str]]:
    """The documents' figures and tables by id, as data/figures.csv lists them."""
    with files.data("figures.csv").open(newline="", encoding="utf-8") as stream:
        return {row["id"]: row for row in csv.DictReader(stream)}


def save(
    item_id: str, data: "pd.DataFrame", figure: "Figure | None" = None, shown: "pd.DataFrame | None" = None
) -> "pd.DataFrame | None":
    """Write figures/<document>/<item>.<ext> below the folder RAILCORE_OUT, every extension the item is listed with.

    item_id: "railonly2025.fig1", or "extra.01_saving_map" for what goes beyond the documents.
    data: the numbers, for the CSV; figure: for PNG and SVG; shown: the table as people read it, for Markdown and TeX
    (by default `data` with six significant digits), returned where there is no figure.
    Raises ValueError for an unknown or foreign id, missing or empty input, a PNG narrower than 1,200 pixels and an SVG
    over 1 MB, before anything is written.
    """
    folder, name, extensions = _target(item_id, figure)
    if data is None or data.empty:
        raise ValueError(f"{item_id!r} has no data: give the DataFrame under it, for the CSV")
    if figure is None and {"png", "svg"} & set(extensions):
        raise ValueError(f"{item_id!r} is listed with {' '.join(extensions)}: give its matplotlib figure")
    content: dict[str, str | bytes] = {}
    for extension in extensions:
        if extension == "csv":
            content[extension] = data.to_csv(index=False, float_format="%.10g", lineterminator="\n")
        elif extension in ("md", "tex"):
            content[extension] = _table(data if shown is None else shown, extension)
        elif figure is not None:
            content[extension] = _picture(item_id, figure, extension)
    for extension, whole in content.items():
        files.write_whole(files.out() / folder / f"{name}.{extension}", whole)
    return None if figure is not None else _readable(data if shown is None else shown)


def gallery() -> "pd.DataFrame":
    """The documents' figures and tables, and what goes beyond them, with links to the files that are in figures/.

    Columns item, shows, notebook, files: the last two as Markdown links from the folder of the notebooks.
    """
    import pandas as pd

    rows = []
    for item_id, item in items().items():
        place = f"{item['document']}/{item['item']}"
        rows.append((item_id, item["must_show"], item["notebook"], place, item["files"].split()))
    stems = sorted({path.stem for path in (files.FIGURES / "extra").glob("*_*.csv")})
    notebooks = {item["notebook"][:2]: item["notebook"] for item in items().values()}
    for stem in stems:
        found = [end for end in ("png", "svg", "csv", "md", "tex") if (files.FIGURES / f"extra/{stem}.{end}").exists()]
        rows.append((f"extra.{stem}", stem[3:].replace("_", " "), notebooks[stem[:2]], f"extra/{stem}", found))
    table = []
    for item_id, shows, notebook, place, ends in rows:
        links = [f"[{end}](../figures/{place}.{end})" for end in ends if (files.FIGURES / f"{place}.{end}").exists()]
        made = f"[{notebook}]({notebook}.ipynb)" if (files.NOTEBOOKS / f"{notebook}.ipynb").exists() else notebook
        table.append((item_id, shows, made, " ".join(links) or "not yet"))
    return pd.DataFrame(table, columns=["item", "shows", "notebook", "files"])


def _target(item_id: str, figure) -> tuple[str, str, list[str]]:
    document, _, name = item_id.partition(".")
    if document == "extra" and name[:2].isdigit() and name[2:3] == "_":
        files.answer_for(name, f"extra {item_id!r}")
        return "extra", name, ["csv", "md", "tex"] if figure is None else ["png", "svg", "csv"]
    if item_id not in items():
        raise UnknownName("figure or table", item_id, [*items(), "extra.<NN>_<name>"])
    item = items()[item_id]
    files.answer_for(item["notebook"], f"{item['kind']} {item_id!r}")
    return item["document"], item["item"], item["files"].split()


def _table(table: "pd.DataFrame", extension: str) -> str:
    text = _readable(table)
    if extension == "tex":
        return text.to_latex(index=False, escape=True)
    right = ["left" if isinstance(column.iloc[0], str) else "right" for _, column in table.items()]
    return text.to_markdown(index=False, disable_numparse=True, colalign=right) + "\n"


def _readable(table: "pd.DataFrame") -> "pd.DataFrame":
    return table.map(lambda cell: cell if isinstance(cell, str) else number(cell))


def _picture(item_id: str, figure: "Figure", extension: str) -> bytes:
    import matplotlib as mpl

    stream = io.BytesIO()
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}[extension]
    with mpl.rc_context({"svg.hashsalt": "railcore", "savefig.bbox": None}):
        figure.savefig(stream, format=extension, dpi=DPI, metadata=metadata)
    width = round(figure.get_size_inches()[0] * DPI)
    if extension == "png" and width < MIN_WIDTH_PX:
        raise ValueError(f"{item_id!r} is {width} pixels wide: draw it at least {MIN_WIDTH_PX / DPI:g} inches wide")
    if extension == "svg" and stream.tell() > MAX_SVG_B:
        raise ValueError(f"{item_id!r} has an SVG of {stream.tell()} bytes: rasterise its dense marks")
    return stream.getvalue()
