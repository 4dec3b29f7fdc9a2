"""Block diagrams: text fits its box or is refused, and texts that collide are found."""

import pytest

from suite import legible
from suite.drawing.diagram import LEAST_FONT, Box, Diagram


def test_text_shrinks_to_its_box_and_is_refused_below_the_least_size():
    page = Diagram(4, 2)
    page.box(0.1, 0.1, 3, 0.5, "a text of some length")
    page.box(0.1, 1.0, 1.1, 0.5, "a text of some length")
    wide, narrow = (text.get_fontsize() for text in page.ax.texts)
    assert wide == 8 > narrow >= LEAST_FONT
    with pytest.raises(ValueError, match=r"does not fit 0.50 x 0.50 inches: give"):
        page.box(0.1, 0.1, 0.5, 0.5, "a text of some length")


def test_texts_that_collide_or_leave_the_page_are_found():
    page = Diagram(4, 2, "A title")
    page.box(0.1, 0.1, 1, 0.5, "one")
    assert legible.overlaps(page.figure) == []
    page.text(0.6, 0.35, "other")
    page.text(4, 1, "outside")
    assert legible.overlaps(page.figure) == [("one", "other"), ("outside", "the page")]


def test_lines_of_one_artist_are_texts_too():
    page = Diagram(4, 2)
    page.lines([(1.0, 1.0, "one line", 8.0, "#000000"), (1.0, 0.5, "two", 8.0, "#000000")])
    assert legible.overlaps(page.figure) == []
    page.text(1.0, 1.0, "other")
    page.lines([(3.9, 1.5, "leaves", 8.0, "#000000"), (2.0, 1.0, "", 8.0, "#000000")], left=True)
    assert legible.overlaps(page.figure) == [("other", "one line"), ("leaves", "the page")]


@pytest.mark.parametrize("bold", [False, True])
def test_a_line_stands_where_a_text_of_matplotlib_does(bold):
    page, text = Diagram(4, 2), "Segment 1 of 2"
    page.figure.dpi = 1000  # letters on screen stand on whole pixels
    page.text(0.5, 1.0, text, font=9, ha="left", weight="bold" if bold else "normal")
    page.lines([(0.5, 1.0, text, 9.0, "#000000")], left=True, bold=bold)
    (written,), (marks,) = page.ax.texts, page.ax.collections
    there, (path,) = written.get_window_extent(), marks.get_paths()
    here = path.get_extents(marks.get_transform())
    (shift,) = marks.get_offset_transform().transform(marks.get_offsets())
    assert here.x0 + shift[0] == pytest.approx(there.x0, abs=20)  # of 1000 an inch
    assert here.width == pytest.approx(there.width, rel=0.03)


def test_cells_are_equal_and_inside():
    whole = Box(1, 2, 3, 1)
    cells = whole.cells(4, 2)
    assert len(cells) == 8 and len({(round(cell.width, 9), round(cell.height, 9)) for cell in cells}) == 1
    assert all(whole.left < cell.left and cell.right < whole.right + 1e-9 for cell in cells)
    assert cells[0].top > cells[4].top and cells[0].left == cells[4].left


@pytest.mark.parametrize(("arrow", "heads"), [("", 0), ("->", 1), ("<->", 2)])
def test_links_have_the_arrows_that_are_asked_for(arrow, heads):
    page = Diagram(4, 2)
    page.link([(0, 0), (1, 1), (2, 1)], arrow=arrow)
    assert len(page.ax.texts) == heads
