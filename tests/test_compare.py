import base64
import io
import json

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from suite.driver.compare import difference, same_value


@pytest.fixture(autouse=True, scope="module")
def matplotlib_defaults():
    """Whatever house style another test has set in this process."""
    with mpl.rc_context():
        mpl.rcdefaults()
        yield


def same(name, ours, theirs):
    alike, back = not difference(name, ours, theirs), not difference(name, theirs, ours)
    assert alike == back
    return alike


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("1", "1.000000001", True),
        ("1", "1.00000002", False),
        ("0", "9e-13", True),
        ("0", "1.1e-12", False),
        ("nan", "nan", True),
        ("inf", "-inf", False),
        ("a", "b", False),
        ("", "0", False),
        ("8", "8.0", True),
    ],
)
def test_cells_are_numbers_or_text(ours, theirs, expected):
    assert same_value(ours, theirs) == same_value(theirs, ours) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("2.5", "2.50000000001"), True),
        (("2.5", "2.500001"), False),
        (("fast", "slow"), False),
        (("fast", "fast,1"), False),
        (("fast", "fast\n3,x"), False),
        (("gbps,what", "Gbps,what"), False),
    ],
)
def test_tables_of_numbers(change, expected):
    table = "gbps,what\n2.5,fast\n"
    assert same("a.csv", table.encode(), table.replace(*change).encode()) == expected
    assert not same("a.md", table.encode(), table.replace(*change).encode())


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("<td>2.5</td>", "<td>2.500000001</td>", True),
        ("<td>2.5</td>", "<td>2.50000005</td>", False),
        ("<td>fast</td>", "<td>slow</td>", False),
        ("<td>2.5 s</td>", "<td>2.5 ms</td>", False),
        ("<td>2.5 s</td>", "<td> 2.5 s</td>", False),
        ("<td>2.5</td>", "<td>2.5</td><td>3</td>", False),
        ("<td>2.5</td>", "<td>-2.5</td>", False),
        ("<td>0.00 s</td>", "<td>-0.00 s</td>", True),
        ("[0, 1e-05]", "[9e-13, 1.000000001e-05]", True),
        ("[0, 1e-05]", "[0, 1e-06]", False),
        ('<path d="M10.5,20L-3e-2.5"/>', '<path d="M10.5000000001,20L-2.9999999999e-2.5"/>', True),
        ('<path d="M10.5,20L30.25"/>', '<path d="M10.5,20L30.250001"/>', False),
        ('<path d="M10.5,20L30.25"/>', '<path d="M10.5,20H30.25"/>', False),
        ('<b style="width:10.25px"/>', '<b style="width:10.2500000001px"/>', True),
        ('<b style="color:#00e000"/>', '<b style="color:#00e001"/>', False),
        ('<b style="color:#000"/>', '<b style="color:#000000"/>', False),
        ('<b id="a0e12"/>', '<b id="a0e13"/>', False),
        ("10.0.1.1 of NCCL 2.1", "10.0.1.10 of NCCL 2.1", False),
        ("10.0.1.1 of NCCL 2.1", "10.0.1.1 of NCCL 2.10", False),
        ("from 5.", "from 5", False),
        ("inf", "Infinity", False),
        ("<p>\n", "<p>\r\n", False),
    ],
)
def test_pages_are_text_with_numbers(ours, theirs, expected):
    assert same("a.html", ours.encode(), theirs.encode()) == expected


def test_where_pages_differ_is_said():
    assert difference("a.html", b"<p>1</p>\n<p>2</p>", b"<p>1</p>\n<p>3</p>") == "line 2: '2' and '3'"
    assert difference("a.html", b"<p>1</p>\n<p>2</p>", b"<p>1</p>\n<b>2</b>") == r"line 1: '</p>\n<p>' and '</p>\n<b>'"
    assert difference("a.html", b"<p>", b"<p>5") == difference("a.html", b"<p>5", b"<p>") == "its length"


def figure(level=1.0, label="line", colour="#0072b2", width=6.0, image=0.5):
    drawn = Figure(figsize=(width, 3), dpi=100)
    ax = drawn.add_subplot()
    ax.plot([0, 1], [0, level], "o-", color=colour)
    ax.imshow([[0.0, image], [0.25, 1.0]], extent=(0, 1, 0, 2), aspect="auto", interpolation="nearest")
    ax.set(ylim=(0, 2), title=label)
    return drawn


def png(**options):
    stream = io.BytesIO()
    FigureCanvasAgg(figure(**options)).print_png(stream)
    return stream.getvalue()


def svg(**options):
    stream = io.StringIO()  # without a fixed salt every id is new
    FigureCanvasSVG(figure(**options)).print_svg(stream, metadata={"Date": None})
    return stream.getvalue().encode()


CHANGES = [
    ({"level": 1 + 1e-6}, True),
    ({"level": 1.05}, False),
    ({"label": "lane"}, False),
    ({"colour": "#0072c2"}, False),
    ({"width": 6.01}, False),
    ({"image": 0.501}, True),
    ({"image": 0.6}, False),
]


@pytest.mark.parametrize(("change", "expected"), [pair for pair in CHANGES if "colour" not in pair[0]])
def test_pictures_by_their_colours(change, expected):
    assert same("a.png", png(), png(**change)) == expected


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_drawings_by_all_but_ids_and_last_digits(change, expected):
    assert svg() != svg()
    assert same("a.svg", svg(), svg(**change)) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ('<a id="x"/><b href="#x"/>', '<a id="y"/><b href="#y"/>', True),
        ('<a id="x"/><a id="y"/><b href="#x"/>', '<a id="x"/><a id="y"/><b href="#y"/>', False),
        ('<a id="x"/><a id="y"/>', '<a id="x"/><a id="x"/>', False),
        ('<a id="x"/><b clip="url(#x)"/>', '<a id="y"/><b clip="url(#y)"/>', True),
        ('<a id="x"/><a id="y"/><b clip="url(#x)"/>', '<a id="x"/><a id="y"/><b clip="url(#y)"/>', False),
        ('<b d="M 1 2.0001 L -3e2 4"/>', '<b d="M 1.0002 2 L -300.0009 4"/>', True),
        ('<b d="M 1 2 L 3 4"/>', '<b d="M 1 2 L 3 4.002"/>', False),
        ('<b d="M 1 2 L 3 4"/>', '<b d="M 1 2 M 3 4"/>', False),
        ('<b d="M 1 2 L 3 4"/>', '<b d="M 1 2 L 3 4 5"/>', False),
        ('<b t="translate(1 2) scale(0.1)"/>', '<b t="translate(1 2.0001) scale(0.1)"/>', True),
        ('<b t="translate(1 2) scale(0.1)"/>', '<b t="translate(1 2) scale(0.1001)"/>', False),
        ('<b style="fill: #0e0000"/>', '<b style="fill: #0e1000"/>', False),
        ("<!-- 1 --><b/>", "<!-- 1.0001 --><b/>", False),
        ("<b>1</b>", "<b>1.0001</b>", False),
        ("<a><b/></a><b/>", "<a/><b/><b/>", False),
        ("<a/>", "<a/><a/>", False),
        ("<a/>", "<a", False),
    ],
)
def test_what_counts_in_a_drawing(ours, theirs, expected):
    assert same("a.svg", f"<svg>{ours}</svg>".encode(), f"<svg>{theirs}</svg>".encode()) == expected


def page(picture=b""):
    return f'<img src="data:image/png;base64,{base64.b64encode(picture or png()).decode()}">'.encode()


def test_pictures_in_pages_by_their_colours():
    near, far = png(level=1 + 1e-6, image=0.501), png(level=1.05)
    assert same("a.html", page(), page(near)) and not same("a.html", page(), page(far))
    assert difference("a.html", page(), b'<img src="data:image/png;base64,">')


def notebook(picture=b"", text="2", count=1, source="x", **metadata):
    data = {"text/plain": text, "image/png": base64.b64encode(picture or png()).decode() + "\n"}
    cell = {"source": source, "metadata": metadata, "execution_count": count, "outputs": [{"data": data}]}
    return json.dumps({"cells": [cell]}).encode()


def test_notebooks_by_their_texts_and_pictures():
    near, far = png(level=1 + 1e-6, image=0.501), png(level=1.05)
    assert near != png()
    assert same("a.ipynb", notebook(), notebook(near))
    assert difference("a.ipynb", notebook(), notebook(far)) == "/cells/0/outputs/0/data/image/png"
    for change in ({"text": "2.0"}, {"count": 2}, {"source": "y"}, {"tags": ["a"]}):
        assert not same("a.ipynb", notebook(), notebook(near, **change))


@pytest.mark.parametrize("name", ["a.csv", "a.png", "a.svg", "a.ipynb", "a.html", "a.md"])
@pytest.mark.parametrize("spoilt", [b"", b"\xff\x00", b"{"])
def test_what_cannot_be_read_differs(name, spoilt):
    text = {"a.csv": b"a\n1\n", "a.html": page(), "a.md": b"1"}
    good = (text | {"a.png": png(), "a.svg": svg(), "a.ipynb": notebook()})[name]
    assert difference(name, spoilt, good)
    assert difference(name, good[: len(good) // 2], good)


def test_a_comparison_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert not same("a.png", png(), png(level=1.5))
    assert not list(tmp_path.iterdir())
