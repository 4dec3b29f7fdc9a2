"""Save a figure or a table together with the numbers under it, or a page of HTML."""

import io
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from railcore.catalog import UnknownName, files, units
from railcore.catalog.tables import (
    Markdown,
    MarkdownText,
    folded,
    frame_csv,
    markdown_table,
    markdown_words,
    read_csv,
    readable,
)
from suite import legible, workspace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MIN_WIDTH_PX = 1200
MAX_SVG_B = 1_000_000
MAX_PAGE_B = 2_000_000
DPI = 160
THUMBNAIL_PX = 240
PUBLISHED = "../figures"  # as seen from the notebooks
_GRID = ("", " ", "  ")  # columns of the gallery, without a heading
_WARNINGS = "warnings.txt"  # of a run; at the top of its folder, so that it is not published


@cache
def items() -> dict[str, dict[str, str]]:
    """Figures, tables and pages by id.

    Those of the documents are in data/figures.csv, what goes beyond them in data/extras.csv.
    """
    return {row["id"]: row for name in ("figures.csv", "extras.csv") for row in read_csv(files.data(name))}


def alternative(item_id: str) -> str:
    """What a picture shows, in words, for who cannot see it: an attribute of HTML in a cell of a table."""
    return escape(items()[item_id]["must_show"]).replace("|", "/").replace("$", "&#36;")


def _own_item(item_id: str) -> dict[str, str]:
    """An item of the running notebook. Raises UnknownName for an unknown id, ValueError for another notebook's."""
    if item_id not in items():
        raise UnknownName("figure, table or page (of data/figures.csv and data/extras.csv)", item_id, list(items()))
    item = items()[item_id]
    workspace.check_owner(item["notebook"], f"{item['kind']} {item_id!r}")
    return item


def save(
    item_id: str,
    data: "pd.DataFrame",
    figure: "Figure | None" = None,
    shown: "pd.DataFrame | None" = None,
    digits: int = 6,
    title: str = "",
    rows: str = "",
    below: Mapping[str, Sequence[str]] | None = None,
) -> MarkdownText | None:
    """Write figures/<document>/<item>.<ext> below the folder RAILCORE_OUT, every extension the item is listed with.

    Parameters
    ----------
    item_id
        "railonly2025.fig1", or "extra.01_saving_map" for what goes beyond the documents.
    data
        The numbers, for the CSV.
    figure
        For PNG and SVG.
    shown, digits
        The table as people read it, for Markdown and TeX; by default `readable(data)` with so many significant digits.
    title
        Over the table: what is the same in every row.
    rows
        As of `show_table`: what is shown is folded, the files are not.
    below
        Columns of sentences by the column below whose cells they stand in Markdown: in a narrow column of its own a
        sentence makes its row a page high.

    Returns
    -------
    The table, to be shown, where there is no figure.

    Raises
    ------
    ValueError
        Before anything is written: for an unknown or foreign id, a page's id, missing or empty input, a PNG narrower
        than 1,200 pixels, and an SVG over 1 MB. With published parameters also for a picture that cannot be read by
        itself (`legible.faults`) and a table of more than 8 columns; the reader's own numbers may need more.
    """
    item = _own_item(item_id)
    if item["kind"] == "page":
        raise ValueError(f"{item_id!r} is a page: give its HTML to outputs.save_page")
    extensions = item["files"].split()
    if data is None or data.empty:
        raise ValueError(f"{item_id!r} has no data: give the DataFrame under it, for the CSV")
    if figure is None and {"png", "svg"} & set(extensions):
        raise ValueError(f"{item_id!r} is listed with {' '.join(extensions)}: give its matplotlib figure")
    table = readable(data if shown is None else shown, digits) if {"md", "tex"} & set(extensions) else None
    texts = {"csv": frame_csv(data, "%.10g")}
    if table is not None:
        over, comment = (f"{title}\n\n", f"% {title}\n") if title else ("", "")
        markdown, tex = markdown_table(_below(table, below or {})), table.to_latex(index=False, escape=True)
        texts |= {"md": over + markdown, "tex": comment + tex}
    content: dict = {extension: text for extension, text in texts.items() if extension in extensions}
    if figure is not None:
        _lay_out(figure)
    if not workspace.parameterized():
        _check_legible(item_id, figure, table)
    if figure is not None:
        content |= {end: _picture(item_id, figure, end) for end in ("png", "svg") if end in extensions}
    for extension, whole in content.items():
        files.write_whole(workspace.output_folder() / item["document"] / f"{item['item']}.{extension}", whole)
    return _shown(texts["md"], len(table), rows) if figure is None and table is not None else None


def _check_legible(item_id: str, figure: "Figure | None", table: "pd.DataFrame | None") -> None:
    if figure is not None and (faults := legible.faults(figure)):
        raise ValueError(f"{item_id!r} cannot be read by itself: {'; '.join(faults)}")
    if table is not None and len(table.columns) > legible.MAX_COLUMNS:
        columns, most = len(table.columns), legible.MAX_COLUMNS
        raise ValueError(f"{item_id!r} shows {columns} columns: give `shown` with the {most} that a reader compares")


def save_page(item_id: str, html: str) -> MarkdownText:
    """Write a page, whole in one file, as figures/<document>/<item>.html below the folder RAILCORE_OUT.

    item_id: such as "plans.h100_1024". html: the whole document, at most 2 MB in UTF-8; lines are ended by "\\n".
    Gives a link to the page, to be shown. Raises ValueError before anything is written: for an unknown or foreign id,
    one that is no page's, an empty page and one over 2 MB.
    """
    item = _own_item(item_id)
    if item["kind"] != "page":
        raise ValueError(f"{item_id!r} is a {item['kind']} and no page: give it to outputs.save")
    if not html.strip():
        raise ValueError(f"{item_id!r} has no html: give the whole page")
    content = html.replace("\r\n", "\n").replace("\r", "\n").encode()
    if len(content) > MAX_PAGE_B:
        raise ValueError(
            f"{item_id!r} is a page of {len(content)} bytes: at most {MAX_PAGE_B} may be published, leave detail out"
        )
    place = f"{item['document']}/{item['item']}.html"
    files.write_whole(workspace.output_folder() / place, content)
    return MarkdownText(f"[{item['item']}]({_linked_folder()}/{place})")


def _linked_folder() -> str:
    """Where a link to a result leads: figures/, as seen from the notebooks.

    With the user's own numbers it is the folder that this run writes into. The driver keeps the notebook in it, too.
    """
    if not workspace.parameterized():
        return PUBLISHED
    return "." if "RAILCORE_NOTEBOOK" in os.environ else Path(os.path.relpath(workspace.output_folder())).as_posix()


def answer(text: str, picture: str) -> MarkdownText:
    """The notebook's answer, for its head, the index and the site, with its most telling picture.

    text: Markdown, its numbers filled in from what was computed: one or two sentences that answer the notebook's
    title, and an advice. picture: id of a figure that the notebook saves.
    Raises UnknownName for an unknown id, ValueError for one without a PNG or of another notebook, and with published
    parameters for a text that is too long to be read at once (`legible.answer_faults`).
    """
    item = _own_item(picture)
    if "png" not in item["files"].split():
        raise ValueError(f"{picture!r} has no PNG: name a figure")
    if not workspace.parameterized() and (faults := legible.answer_faults(text)):
        raise ValueError(f"the answer {text!r} has {'; '.join(faults)}: say the rest below")
    link = f"../{item['document']}/{item['item']}.png"
    path = workspace.output_folder() / "extra" / f"{item['notebook'][:2]}_answer.md"
    shown = MarkdownText(text)
    files.write_whole(path, f"{shown.text}\n\n[![{picture}]({link})]({link})\n")
    return shown


def show_warnings(*texts: str) -> None:
    """Show warnings as text, and keep them for whoever runs the notebook: `kept_warnings`. Nothing where none is."""
    if texts := tuple(dict.fromkeys(texts)):
        print("\n".join(f"Warning: {text}" for text in texts))
        kept = dict.fromkeys((*kept_warnings(workspace.output_folder()), *texts))
        files.write_whole(workspace.output_folder() / _WARNINGS, "".join(f"{text}\n" for text in kept))


def kept_warnings(folder: Path) -> list[str]:
    """Warnings that a notebook showed while it wrote into a folder, in order."""
    path = folder / _WARNINGS
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def gallery() -> MarkdownText:
    """Every picture in a grid by document, small, with its name, its notebook and a line.

    Below are links to the pages, where there are any, and the tables, folded away.
    """
    listed: dict[str, list[dict[str, str]]] = {}
    for item in items().values():
        if item["kind"] != "answer":  # these are shown above the gallery
            without_picture = "pages" if item["kind"] == "page" else "tables"
            place = item["document"] if "png" in item["files"].split() else without_picture
            listed.setdefault(place, []).append(item)
    tables, pages = ([_row(item) for item in listed.pop(place, [])] for place in ("tables", "pages"))
    lines = []
    for document, pictures in listed.items():
        tiles = [_tile(item) for item in pictures]
        starts = range(0, len(tiles), len(_GRID))
        rows = [dict(zip_longest(_GRID, tiles[i : i + len(_GRID)], fillvalue="")) for i in starts]
        lines += [f"### {'Beyond the documents' if document == 'extra' else document}\n", markdown_table(rows)]
    if pages:
        lines += ["### Pages\n", markdown_table(pages)]
    count = units.counted(len(tables), "tables")
    return MarkdownText("\n".join([*lines, folded(count, markdown_table(tables))]))


def _tile(item: dict[str, str]) -> Markdown:
    """A picture of the gallery that leads to itself in full size, its name, its files and what it shows."""
    place = f"{item['document']}/{item['item']}.png"
    image = f'<img src="../figures/{place}" width="{THUMBNAIL_PX}" alt="{alternative(item["id"])}">'
    image = f'<a href="../figures/{place}">{image}</a><br>' if (workspace.FIGURES / place).is_file() else ""
    return Markdown(f"{image}**{item_name(item)}** {_item_links(item)}<br>{markdown_words(item['must_show'])}")


def _row(item: dict[str, str]) -> dict[str, str]:
    """A table or a page of the gallery: its name, what it shows, its notebook and files."""
    name, kind = item_name(item), "page" if item["kind"] == "page" else "table"
    if kind == "table" and item["document"] != "extra":
        name = f"{item['document']}, {name}"
    return {kind: name, "shows": item["must_show"], "files": _item_links(item)}


def _item_links(item: dict[str, str]) -> Markdown:
    """Notebook and files of an item, as far as they are in figures/."""
    place, notebook = f"{item['document']}/{item['item']}", item["notebook"]
    endings = [end for end in item["files"].split() if (workspace.FIGURES / f"{place}.{end}").is_file()]
    links = [f"[{notebook[:2]}]({notebook}.ipynb)", *(f"[{end}](../figures/{place}.{end})" for end in endings)]
    return Markdown("\u00a0".join(links) if endings else "not\u00a0yet")


def item_name(item: dict[str, str]) -> str:
    """ "Fig. 13-6" of "fig13_6", "Table 1" of "table1", "saving map" of "01_saving_map", "h100 1024" of "h100_1024"."""
    printed = re.fullmatch(r"(fig|table)(\w+)", item["item"])
    if not printed:
        return units.words(re.sub(r"^\d\d_", "", item["item"]))
    return f"{'Fig.' if printed[1] == 'fig' else 'Table'} {printed[2].replace('_', '-')}"


def show_table(table: "pd.DataFrame", rows: str = "", digits: int = 6) -> MarkdownText:
    """A table for a person, as a cell's result: `readable`, without index.

    rows: what they are, such as "clusters": a table that only backs a picture is folded away under their count.
    digits: as `readable` has them.
    """
    return _shown(markdown_table(readable(table, digits).to_dict("records")), len(table), rows)


def _shown(text: str, count: int, rows: str) -> MarkdownText:
    return MarkdownText(folded(units.counted(count, rows), text) if rows else text)


def _below(table: "pd.DataFrame", texts: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Rows of a table to show, with cells on lines of their own below that of another column, which is bold."""
    rows = table.to_dict("records")
    for row in rows:
        for name, below in texts.items():
            told = [f"{each}: {text}" for each in below if (text := row.pop(each))]
            row[name] = Markdown("<br>".join([f"**{markdown_words(row[name])}**", *map(markdown_words, told)]))
    return rows


def varying(table: "pd.DataFrame") -> "pd.DataFrame":
    """A table to show without the columns that have one value: what a reader compares. One row or none stays whole."""
    same = [name for name in table if len(table) > 1 and table[name].nunique(dropna=False) == 1]
    return table.drop(columns=same)


def said_once(table: "pd.DataFrame") -> str:
    """What `varying` leaves out of a table, in words to stand above it; "" where that is nothing."""
    same = [name for name in table if name not in varying(table)]
    told = readable(table[same].head(1)).to_dict("records") if same else []
    return "".join(f"Same for all: {'; '.join(f'{name} {text}' for name, text in row.items())}." for row in told)


def in_percent(table: "pd.DataFrame", *columns: str) -> "pd.DataFrame":
    """A table to show, its columns of shares as "6.48%"."""
    texts = {"nan": "–", "inf": "∞"}
    shares = {
        name: [texts.get(f"{share}", f"{units.number(100 * share, 3)}%") for share in table[name]] for name in columns
    }
    return table.assign(**shares)


def in_gigabytes(table: "pd.DataFrame") -> "pd.DataFrame":
    """A table to show, its columns of bytes as "... [GB]", names in one line."""
    named = {name: f"{name.removesuffix('bytes').rstrip('_') or 'in all'} [GB]" for name in table}
    columns = {name: label for name, label in named.items() if name.endswith("bytes") and not name.startswith("share")}
    sizes = {name: table[name] / units.GB for name in columns}
    return table.assign(**sizes).rename(columns=columns).replace("\n", ", ", regex=True)


def _lay_out(figure: "Figure") -> None:
    """One layout for PNG, SVG and notebook, and for every later save."""
    import matplotlib as mpl

    if engine := figure.get_layout_engine():
        shown_dpi, figure.dpi = figure.dpi, DPI  # texts are a little wider than at the notebook's dpi
        for _ in range(1 + any(ax.get_aspect() != "auto" for ax in figure.axes)):
            engine.execute(figure)  # again, once panels of equal aspect have their size
        figure.dpi = shown_dpi
        with mpl.rc_context({"figure.constrained_layout.use": False}):
            figure.set_layout_engine(None)  # none at all: for the empty one ("none") a notebook draws twice


def _picture(item_id: str, figure: "Figure", extension: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    stream, canvas, dpi = io.BytesIO(), figure.canvas, figure.dpi
    try:  # the canvas itself: savefig draws twice, the first time for a layout that is there already
        figure.dpi = DPI
        if extension == "png":
            FigureCanvasAgg(figure).print_png(stream, metadata={"Software": None}, pil_kwargs={"compress_level": 3})
        else:
            with mpl.rc_context({"svg.hashsalt": "railcore"}):
                FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None, "Creator": None})
    finally:
        figure.dpi = dpi
        figure.set_canvas(canvas)
    figure.stale = False  # or IPython draws it once more before it shows it
    content = stream.getvalue()
    width = round(figure.get_size_inches()[0] * DPI)
    if extension == "png" and width < MIN_WIDTH_PX:
        raise ValueError(f"{item_id!r} is {width} pixels wide: draw it at least {MIN_WIDTH_PX / DPI:g} inches wide")
    if extension == "svg":
        content = _numbered(content.decode()).encode()
    if extension == "svg" and len(content) > MAX_SVG_B:
        raise ValueError(f"{item_id!r} has an SVG of {len(content)} bytes: rasterise its dense marks")
    return content


def _numbered(svg: str) -> str:
    """An SVG with its generated ids counted in order; matplotlib's are hashes of coordinates, down to the last bit.

    Those of images, hashes of their pixels to which nothing refers, are left out.
    """
    numbers: dict[str, str] = {}

    def counted(text: re.Match) -> str:
        return text[1] + numbers.setdefault(text[0][len(text[1]) :], f"{text[2]}{len(numbers) + 1}")

    without = re.sub(r' id="image[0-9a-f]{10}"', "", svg)
    return re.sub(r'(id="|#)([A-Za-z]\w*?)[0-9a-f]{10}(?=["\)])', counted, without)
