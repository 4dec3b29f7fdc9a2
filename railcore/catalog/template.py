"""Blank rows for a new item of the catalog: what railcore asks of it, with units, by file."""

import codecs
from pathlib import Path

from railcore import catalog
from railcore.catalog import files, items, tables, units
from railcore.catalog.text_files import csv_cells

_PRINTED = "processors"  # of efficiencies: makers print it, so that it is not taken from another GPU


def template(family: str, name: str, gpu: str = "", like: str = "") -> dict[str, list[dict[str, str]]]:
    """Rows that an item lacks, by family: its own, and those of what belongs to it.

    Parameters
    ----------
    family, name
        Such as "gpus", "B300". A GPU has rows in efficiencies too, a book in prices and powers.
    gpu
        Of a new platform.
    like
        GPU of the catalog whose efficiencies are filled in, as assumed, and its maker; by default the efficiencies of
        the one with the nearest name.

    Returns
    -------
    Rows of `catalog.COLUMNS` as texts, the required ones first. Values are blank but for `like`.

    Raises
    ------
    UnknownName
        For a family of which railcore asks no certain rows, and for `like`.
    """
    if like:
        catalog.item("efficiencies", like)
    families = {need.family for need in catalog.row_needs()}
    if family not in families:
        raise catalog.UnknownName("template of the catalog family", family, families)
    if not (name := name.strip()):
        raise ValueError("name is blank: give the new item's")
    if gpu and family != "platforms":
        raise ValueError(f"gpu is {gpu!r}: give it for a platform alone, not for {family}")
    together = [family]
    for group in (catalog.GPU_FAMILIES, tuple(catalog.BOOKS)):
        together = list(group) if family in group else together
    wanted = dict.fromkeys(together, name)  # item by family
    if family == "platforms":
        of_gpu = {key: item for key, item in catalog.related_items(family, name, gpu) if key != family and item}
        unknown = any(need.required for item in of_gpu.items() for need in catalog.missing_rows(*item))
        wanted |= of_gpu if unknown else {}
    rows = {key: [_blank_row(need, item) for need in catalog.missing_rows(key, item)] for key, item in wanted.items()}
    for other in catalog.BOOKS.keys() - {family}:  # a book may have prices or powers alone
        for row in rows.get(other, ()):
            row["note"] = f"optional: {row['note'].removeprefix('optional: ')}"
    for row in rows.get("platforms", ()):
        if row["parameter"] == "gpu" and gpu:
            row |= {"value": gpu, "source": catalog.GIVEN}
    if lacking := [row for row in rows.get("efficiencies", ()) if row["parameter"] != _PRINTED]:
        lender = like or _nearest_gpu(wanted["efficiencies"])
        for row in lacking:
            row |= _borrowed(row, lender)
    for row in rows.get("gpus", ()):
        if row["parameter"] == "maker" and like:
            row |= {"value": catalog.item("gpus", like).get("maker", ""), "source": catalog.GIVEN}
    return {key: blank for key, blank in rows.items() if blank}


def _blank_row(need: catalog.RowNeed, name: str) -> dict[str, str]:
    use = f" (for {', '.join(need.uses)})" if need.uses else ""
    note = f"{'' if need.required else 'optional: '}{need.meaning}{use}"
    filled = {"name": name, "parameter": need.parameter, "unit": need.unit, "kind": "datasheet", "note": note}
    return dict.fromkeys(catalog.COLUMNS, "") | filled


def _nearest_gpu(name: str) -> str:
    """GPU of the catalog with all efficiencies whose name is the nearest."""
    whole = [
        gpu
        for gpu in catalog.names("efficiencies")
        if gpu != name and not any(need.required for need in catalog.missing_rows("efficiencies", gpu))
    ]
    return catalog.near_names(name, whole, alike=0)[0]


def _borrowed(row: dict[str, str], gpu: str) -> dict[str, str]:
    """The value of another GPU, and as low and high those of all GPUs; nothing where it has no such row."""
    item, parameter = catalog.item("efficiencies", gpu), row["parameter"]
    if parameter not in item:
        return {}
    alike = [value for value in catalog.values() if (value.family, value.parameter) == ("efficiencies", parameter)]
    ends = [end for value in alike for end in (value.low, value.value, value.high) if end is not None]
    numbers = {"value": item[parameter], "low": min(ends), "high": max(ends)}
    source = f"modelled on {gpu}: its value; low and high of all GPUs here"
    texts = {key: f"{units.convert(number, row['unit']):.12g}" for key, number in numbers.items()}
    return texts | {"kind": "assumed", "source": source}


def template_text(rows: dict[str, list[dict[str, str]]]) -> str:
    """Templates as CSV text, each after the name of its file where there are several."""
    texts = {family: tables.csv_text(catalog.COLUMNS, blank) for family, blank in rows.items()}
    return "".join(f"# {family}.csv\n{text}" if len(texts) > 1 else text for family, text in texts.items())


def write_template(rows: dict[str, list[dict[str, str]]], folder: Path) -> dict[Path, int]:
    """Add rows to the files of a folder, and give how many each got; what is there already stays as it is.

    A file without the column shape stays so, and one keeps its mark and its line ends.

    Raises ValueError for a file with other columns than the catalog's, with an open quote, and for what is no regular
    file.
    """
    contents: dict[Path, str | bytes | None] = {}
    added = {}
    for family, blank in rows.items():
        path = folder / f"{family}.csv"
        there = files.regular_file(path)
        before = items.csv_content(path, str(path)) if there else ""
        header, keys = _header_and_keys(before, str(path)) if before.strip() else (catalog.COLUMNS, set())
        new = [row for row in blank if (row["name"], row["parameter"]) not in keys]
        if new:
            contents[path] = _with_rows(path.read_bytes() if there else b"", tables.csv_text(header, new))
        added[path] = len(new)
    files.write_all(contents)
    return added


def _header_and_keys(text: str, where: str) -> tuple[tuple[str, ...], set[tuple[str, str]]]:
    """Columns of a file, and names and parameters of its rows. Raises ValueError as `write_template`."""
    header, *rows = (cells for _, cells in csv_cells(text, where))
    if tuple(header) not in (catalog.COLUMNS, catalog.OLD_COLUMNS):
        raise ValueError(f"{where} has other columns than {','.join(catalog.COLUMNS)}: write its first line so")
    return tuple(header), {(row[0].strip(), row[1].strip()) for row in rows if len(row) > 1}


def _with_rows(before: bytes, text: str) -> bytes:
    """The bytes of a file with the rows of a CSV's text behind them, and its header where the file is blank."""
    end = next((end for end in (b"\r\n", b"\n", b"\r") if end in before), b"\n")
    kept = before if before.removeprefix(codecs.BOM_UTF8).strip() else before.rstrip()
    rows = text if kept in (b"", codecs.BOM_UTF8) else text.partition("\n")[2]
    gap = b"" if rows is text or kept.endswith((b"\n", b"\r")) else end
    return kept + gap + rows.encode().replace(b"\n", end)
