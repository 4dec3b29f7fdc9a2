"""Whether two versions of a published file say the same: they may differ by the last bits of another machine.

Numbers of a table to 1e-8; a PNG by matplotlib's `compare_images`; an SVG apart from its ids, with coordinates to 1e-3;
a notebook by these rules for the pictures in it; a page of HTML as text, its numbers as those of a table and a PNG in
it as any other; everything else exactly.
"""

import base64
import csv
import io
import json
import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from xml.etree import ElementTree

_RELATIVE, _ABSOLUTE = 1e-8, 1e-12  # of numbers in tables
_RMS = 1.0  # of a picture's colour values, 0 to 255
_COORDINATE = 1e-3  # of a drawing, in its own units: points
_PNG = "data:image/png;base64,"
# What in an attribute is not compared as text: a reference to an id, and a number that is neither a colour's nor a
# factor of the whole text or marker.
_TOKEN = re.compile(
    r"(url\(#[^)]*\)|(?:scale|matrix)\([^)]*\)|(?<![\w#.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w.]))"
)
# What in a page is not compared as text: a PNG and a number, also one beside letters, as in a path of a drawing.
# Only a sign after e makes an exponent: digits with an e between them may be a colour or an id.
_PAGE_TOKEN = re.compile(rf"({_PNG}[\w+/=]*|-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]\d+)?)", re.ASCII)


def same_value(ours: str, theirs: str, relative: float = _RELATIVE, absolute: float = _ABSOLUTE) -> bool:
    """True for two texts that are the same, or numbers within the tolerance: by default two cells of tables.

    Parameters
    ----------
    ours, theirs
        The texts.
    relative, absolute
        Tolerance of numbers; one of the two suffices.

    Returns
    -------
    Whether they are the same.
    """
    if ours == theirs:
        return True
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=relative, abs_tol=absolute)
    except ValueError:
        return False


def difference(name: str, ours: bytes, theirs: bytes) -> str:
    """Where two versions of a file differ by more than its kind allows, "" if nowhere; name: tells the kind."""
    if ours == theirs:
        return ""
    rules = {".csv": _table, ".png": _picture, ".svg": _drawing, ".ipynb": _notebook, ".html": _page}
    rule = rules.get(PurePath(name).suffix)
    try:
        return rule(ours, theirs) if rule else "the text"
    except (ValueError, SyntaxError, csv.Error) as error:  # damaged bytes, JSON, XML or CSV
        return f"one cannot be read: {error}"


def _table(ours: bytes, theirs: bytes) -> str:
    tables = [list(csv.reader(io.StringIO(data.decode(), newline=""))) for data in (ours, theirs)]
    if [len(row) for row in tables[0]] != [len(row) for row in tables[1]]:
        return "rows or columns"
    rows = enumerate(zip(*tables, strict=True))
    pairs = ((number, pair) for number, both in rows for pair in zip(*both, strict=True))
    return next((f"row {number}: {a!r} and {b!r}" for number, (a, b) in pairs if not same_value(a, b)), "")


def _picture(ours: bytes, theirs: bytes) -> str:
    from matplotlib.testing.compare import compare_images

    with tempfile.TemporaryDirectory() as folder:  # where it leaves a picture of the difference
        paths = [Path(folder, f"{number}.png") for number in range(2)]
        for path, data in zip(paths, (ours, theirs), strict=True):
            path.write_bytes(data)
        try:
            difference = compare_images(str(paths[0]), str(paths[1]), tol=_RMS, in_decorator=True)
        except Exception as error:  # another size, or no picture: it raises bare ones
            return f"the picture: {error}"
    return f"the picture, by {difference['rms']:.2f} of 255" if difference else ""


def _drawing(ours: bytes, theirs: bytes) -> str:
    mine, other = (list(_tree(data).iter()) for data in (ours, theirs))
    ids: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for number, (a, b) in enumerate(zip(mine, other, strict=False)):
        if (a.tag, a.text, a.tail, len(a), list(a.attrib)) != (b.tag, b.text, b.tail, len(b), list(b.attrib)):
            return f"element {number}: {a.text if a.tag is ElementTree.Comment else a.tag}"
        for key, value in a.attrib.items():
            if not _same_attribute(key, value, b.attrib[key], ids):
                return f"element {number}: {key} of {a.tag}"
    return ""


def _tree(data: bytes) -> ElementTree.Element:
    builder = ElementTree.TreeBuilder(insert_comments=True)  # matplotlib's comments are the texts
    return ElementTree.fromstring(data, ElementTree.XMLParser(target=builder))


def _same_attribute(key: str, ours: str, theirs: str, ids: tuple[dict[str, str], dict[str, str]]) -> bool:
    """True for equal attributes; ids may differ, but each must stand for one of the other drawing throughout."""
    if ours.startswith(_PNG) and theirs.startswith(_PNG):
        return _same_embedded(ours, theirs)
    if key == "id":
        return _same_id(ours, theirs, ids)
    if key.endswith("href") and ours[:1] == theirs[:1] == "#":
        return _same_id(ours[1:], theirs[1:], ids)
    mine, other = _TOKEN.split(ours), _TOKEN.split(theirs)
    return len(mine) == len(other) and all(_same_token(a, b, ids) for a, b in zip(mine, other, strict=True))


def _same_embedded(ours: str, theirs: str) -> bool:
    return ours == theirs or not _picture(*(base64.b64decode(text[len(_PNG) :]) for text in (ours, theirs)))


def _same_token(ours: str, theirs: str, ids: tuple[dict[str, str], dict[str, str]]) -> bool:
    if ours.startswith("url(#") and theirs.startswith("url(#"):
        return _same_id(ours[5:-1], theirs[5:-1], ids)
    return same_value(ours, theirs, relative=0, absolute=_COORDINATE)


def _same_id(ours: str, theirs: str, ids: tuple[dict[str, str], dict[str, str]]) -> bool:
    return ids[0].setdefault(ours, theirs) == theirs and ids[1].setdefault(theirs, ours) == ours


def _page(ours: bytes, theirs: bytes) -> str:
    mine, other = (_PAGE_TOKEN.split(data.decode()) for data in (ours, theirs))  # text and token by turns
    for number, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b and not _same_in_page(a, b):
            line = 1 + "".join(mine[:number]).count("\n")
            return f"line {line}: {a[:80]!r} and {b[:80]!r}"
    return "" if len(mine) == len(other) else "its length"


def _same_in_page(ours: str, theirs: str) -> bool:
    """True for PNGs that look the same, and for numbers within the tolerance.

    The same number written otherwise is another text, such as the 1.10 and 1.1 at the end of two addresses: the last
    bits of a machine change a number's value, or the sign of a zero.
    """
    if ours.startswith(_PNG) and theirs.startswith(_PNG):
        return _same_embedded(ours, theirs)
    return same_value(ours, theirs) and (float(ours) != float(theirs) or ours.lstrip("-") == theirs.lstrip("-"))


def _notebook(ours: bytes, theirs: bytes) -> str:
    return _node(json.loads(ours), json.loads(theirs), "")


def _node(ours, theirs, place: str) -> str:
    """Where two values of JSON differ, as the path of keys to it."""
    if place.endswith("/image/png") and isinstance(ours, str) and isinstance(theirs, str):
        same = ours == theirs or not _picture(base64.b64decode(ours), base64.b64decode(theirs))
    elif isinstance(ours, Mapping) and isinstance(theirs, Mapping) and ours.keys() == theirs.keys():
        return next(filter(None, (_node(ours[key], theirs[key], f"{place}/{key}") for key in ours)), "")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next(filter(None, (_node(a, b, f"{place}/{number}") for number, (a, b) in pairs)), "")
    else:
        same = ours == theirs
    return "" if same else place
