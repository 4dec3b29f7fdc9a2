import io
import json
import math
import re
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection
from PIL import Image

from railcore.catalog import files, tables
from railcore.catalog.tables import MarkdownText, markdown_table
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import fat_tree, rail_optimized
from suite import answers, drawing, explore, legible, outputs, plotting, workspace
from suite.__main__ import main
from suite.charts import bars, curves, heatmaps, routing, tradeoffs

mpl.use("agg")
DATA = pd.DataFrame({"gpus": [1024, 2048], "cost_usd": [1234567.89, 0.1 + 0.2], "link": ["a", "b"]})


@pytest.fixture
def figure():
    plotting.house_style()
    figure, ax = plt.subplots(figsize=(8, 3))
    ax.plot([0, 1], [0, 1])
    ax.set_title("cost of networks of H100 at 400 Gbps")
    yield figure
    plt.close(figure)


def written():
    return sorted(
        path.relative_to(workspace.output_folder()).as_posix()
        for path in workspace.output_folder().rglob("*")
        if path.is_file()
    )


def test_a_figure_is_saved_in_all_its_forms_and_twice_the_same(figure):
    outputs.save("railonly2025.fig1", DATA, figure)
    names = [f"railonly2025/fig1.{end}" for end in ("csv", "png", "svg")]
    assert written() == names
    first = [(workspace.output_folder() / name).read_bytes() for name in names]
    outputs.save("railonly2025.fig1", DATA, figure)
    assert [(workspace.output_folder() / name).read_bytes() for name in names] == first
    assert plt.imread(workspace.output_folder() / names[1]).shape[1] >= outputs.MIN_WIDTH_PX
    assert first[0].decode().splitlines() == ["gpus,cost_usd,link", "1024,1234567.89,a", "2048,0.3,b"]
    assert not re.search(rb"\d{4}-\d\d-\d\d", first[2])


def test_ids_of_an_svg_do_not_hang_on_the_last_bits_of_its_coordinates():
    ids, used = [], []
    for width in (0.7, np.nextafter(0.7, 1)):
        figure = plt.figure(figsize=(8, 3), layout="none")
        for left in (0.1, 0.1 + width / 2):
            ax = figure.add_axes((left, 0.15, width / 2 - 0.05, 0.75))
            ax.scatter(np.arange(9), np.arange(9) * width, c=np.arange(9), s=50 * width)
            ax.plot([0.2, width], "o-")
            ax.bar([0.3], [width], hatch="//")
            ax.imshow([[0, width], [1, 1.2 * width]], extent=(0, 1, 0, 1), aspect="auto")
        figure.suptitle("marks")
        outputs.save("railonly2025.fig1", DATA, figure)
        plt.close(figure)
        drawn = (workspace.output_folder() / "railonly2025/fig1.svg").read_text()
        ids.append(re.findall(r' id="([^"]*)"', drawn))
        used.append(re.findall(r'(?:href="#|url\(#)([^")]*)', drawn))
    assert ids[0] == ids[1] and used[0] == used[1]
    assert len(ids[0]) == len(set(ids[0])) and {*used[0]} <= {*ids[0]}
    assert {"p", "m", "h", "C"} <= {name[0] for name in used[0]}


def test_a_table_is_saved_as_numbers_and_as_people_read_it():
    shown = outputs.save("railonly2025.table1", DATA)
    assert written() == [f"railonly2025/table1.{end}" for end in ("csv", "md", "tex")]
    table = (workspace.output_folder() / "railonly2025/table1.md").read_text()
    assert table.splitlines() == [
        "| GPUs | cost | link |",
        "| ---: | ---: | :--- |",
        "| 1,024 | 1.235\u00a0M\u00a0USD | a |",
        "| 2,048 | 0.3\u00a0USD | b |",
    ]
    assert shown.text == table


@pytest.mark.parametrize(
    ("item", "data", "drawn", "message"),
    [
        ("railonly2025.fig11", DATA, True, r"figure, table or page .*fig11' does not exist: the nearest are .*fig1'"),
        ("railonly2025.fig1", DATA, False, "give its matplotlib figure"),
        ("railonly2025.fig1", DATA.head(0), True, "has no data"),
    ],
)
def test_a_save_that_lacks_something_writes_nothing(figure, item, data, drawn, message):
    with pytest.raises(ValueError, match=message):
        outputs.save(item, data, figure if drawn else None)
    assert not written()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda figure: figure.set_size_inches(5, 3), r"800 pixels wide: draw it at least 7\.5 inches"),
        (lambda figure: figure.axes[0].scatter(np.arange(2e4), np.sin(np.arange(2e4))), "rasterise"),
    ],
)
def test_a_narrow_or_dense_picture_is_refused_before_anything_is_written(figure, change, message):
    change(figure)
    with pytest.raises(ValueError, match=message):
        outputs.save("railonly2025.fig1", DATA, figure)
    assert not written()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda figure: figure.set_size_inches(12, 3), "12 inches wide, at most 10 fit a page"),
        (lambda figure: figure.axes[0].tick_params(labelsize=7), r"texts below 8 points: '0\.0'"),
        (lambda figure: figure.axes[0].set_xlabel("as printed"), "words of the code .*'as printed'"),
        (lambda figure: figure.axes[0].set_ylabel("cost_usd"), "words of the code .*'cost_usd'"),
        (lambda figure: figure.axes[0].text(0, 0, "7 us"), "words of the code .*'7 us'"),
        (lambda figure: figure.axes[0].set_title(""), "no title"),
        (lambda figure: figure.axes[0].legend(["a line"], loc=8, bbox_to_anchor=(0.5, 1)), "overlap .* over 'a line'"),
        (lambda figure: figure.text(1.0, 0.5, "beside"), "leave the page: \"'beside' over 'the page'"),
    ],
)
def test_a_picture_that_cannot_be_read_by_itself_is_refused(figure, change, message, monkeypatch):
    change(figure)
    with pytest.raises(ValueError, match=message):
        outputs.save("railonly2025.fig1", DATA, figure)
    assert not written()
    monkeypatch.setattr(workspace, "parameterized", lambda: True)
    outputs.save("railonly2025.fig1", DATA, figure)  # with the reader's own numbers


def test_a_table_of_more_columns_than_a_page_has_is_refused():
    wide = pd.DataFrame({f"column {i}": [i] for i in range(9)})
    with pytest.raises(ValueError, match="shows 9 columns: give `shown` with the 8"):
        outputs.save("railonly2025.table1", wide)
    outputs.save("railonly2025.table1", wide, shown=wide.iloc[:, :8])


def test_a_sum_of_money_is_not_parted_from_its_unit():
    assert "from\u00a0" not in (text := markdown_table([{"a": "from 86.4 M to 1.24 B USD, 5 B of them"}]))
    assert "1.24\u00a0B\u00a0USD, 5\u00a0B of" in text


def test_sentences_stand_below_the_cell_that_they_explain_and_files_are_not_folded(tmp_path):
    table = pd.DataFrame({"rule": ["a*b", "c"], "why": ["it costs $1 < $2", ""], "gpus": [1, 2]})
    shown = outputs.save("railonly2025.table1", table, rows="rules", below={"rule": ["why"]})
    assert shown.text.startswith("<details><summary>2 rules</summary>\n\n| rule | GPUs |")
    stored = (tmp_path / "railonly2025/table1.md").read_text()
    assert "<details>" not in stored and "**a\\*b**<br>why: it costs" in stored and "$" not in stored
    assert "| **c** | 2 |" in stored and "why" in (tmp_path / "railonly2025/table1.csv").read_text()
    assert outputs.show_table(table, "rules").text.endswith("</details>\n")


def test_columns_with_one_value_are_not_shown():
    table = pd.DataFrame({"same": [1, 1], "other": [1, 2], "none": [math.nan, math.nan]})
    assert list(outputs.varying(table)) == ["other"] and list(outputs.varying(table[:1])) == list(table)
    assert outputs.said_once(table.assign(cost_usd=3e6)) == "Same for all: same 1; none –; cost 3 M USD."
    assert outputs.said_once(table[:1]) == ""


def test_marks_of_the_document_are_hollow_and_say_the_verdict_by_shape_and_colour(figure):
    ax = figure.axes[0]
    plotting.document_marks(ax, [0.2, 0.4, 0.5], [0.5, 0.5, 0.6], ["reproduced", "differs", "close"])
    plotting.document_marks(ax, 0.6, 0.5, relation="<", text="at most 0.5", shift=(-9, 0))
    plotting.document_marks(ax, 0.7, 0.5, relation=">", axis="x")
    lines = ax.get_lines()[1:]
    assert {line.get_markerfacecolor() for line in lines} == {"none"}
    looks = [(line.get_marker(), line.get_markeredgecolor()) for line in lines]
    assert len(set(looks)) == len({shape for shape, _ in looks}) == 3 and looks[3] == looks[4] == looks[0]
    assert looks[2][1] == plotting.VERDICTS["differs"] and not {shape for shape, _ in looks} & set(plotting.MARKERS)
    names = ax.get_legend_handles_labels()[1]
    assert names == ["document: reproduced", "document: close (ours within 10%)", "document: ours differs"]
    assert [text.xyann for text in ax.texts] == [(0, -20), (-9, 0), (20, 0)]  # an arrow, a text, an arrow
    written = ax.texts[1]
    assert (written.get_ha(), written.get_color()) == ("right", plotting.VERDICTS["reproduced"])


def test_one_process_answers_for_one_notebook(figure):
    outputs.save("extra.02_failures_a_year", DATA)
    with pytest.raises(ValueError, match="belongs to notebook 01_network_cost, this is 02_topologies"):
        outputs.save("railonly2025.fig1", DATA, figure)


def links(shown):
    """Files that a table of the index names, from the folder of the notebooks."""
    return re.findall(r'(?:\]\(|src=")\.\./(.*?)[")]', shown.text)


def test_the_gallery_shows_every_picture_and_lists_every_table():
    text = outputs.gallery().text
    pictures, folded = text.split("<details>")
    listed = [item for item in outputs.items().values() if item["kind"] not in ("answer", "page")]
    for item in listed:
        place = f"../figures/{item['document']}/{item['item']}"
        assert (f'<img src="{place}.png"' in pictures) == ("png" in item["files"]), item["id"]
        assert f"[csv]({place}.csv)" in (pictures if "png" in item["files"] else folded), item["id"]
        assert item["must_show"].replace("$", "<span>&#36;</span>") in text.replace("\u00a0", " ")
    assert f"<summary>{sum('png' not in item['files'] for item in listed)} tables</summary>" in folded
    assert "**Fig. 13-6** [19](19_rail_designs.ipynb)" in pictures and "railonly2025, Table 1 |" in folded
    assert all((files.ROOT / target).is_file() for target in links(outputs.gallery()))


def test_the_gallery_says_what_is_not_there_yet(index):
    text = outputs.gallery().text
    assert "<img" not in text and "](../figures" not in text and "**Fig. 1** not\u00a0yet<br>network cost (USD)" in text


PAGE = {
    "id": "plans.h100_1024",
    "document": "plans",
    "item": "h100_1024",
    "kind": "page",
    "must_show": "a cluster of 1,024 H100",
    "notebook": "20_plan_your_cluster",
    "files": "html",
}


@pytest.fixture
def paged(monkeypatch):
    """The lists of data/ with a page in them."""
    listed = {item_id: item for item_id, item in outputs.items().items() if item["kind"] != "page"}
    monkeypatch.setattr(outputs, "items", lambda: listed | {PAGE["id"]: PAGE})


def test_a_page_is_saved_as_text_and_shown_as_a_link(paged):
    shown = outputs.save_page(PAGE["id"], "<p>5 µs</p>\r\n<p>$1</p>\r")
    assert written() == ["plans/h100_1024.html"]
    assert (workspace.output_folder() / "plans/h100_1024.html").read_bytes() == "<p>5 µs</p>\n<p>$1</p>\n".encode()
    assert isinstance(shown, MarkdownText) and shown.text == "[h100_1024](../figures/plans/h100_1024.html)"
    with pytest.raises(ValueError, match="belongs to notebook 02_topologies, this is 20_plan_your_cluster"):
        outputs.save("extra.02_failures_a_year", DATA)


def test_a_page_of_own_numbers_is_linked_where_it_is(paged, tmp_path, monkeypatch):
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")
    monkeypatch.setenv("RAILCORE_OUT", str(tmp_path / "local"))
    (tmp_path / "lab").mkdir()
    monkeypatch.chdir(tmp_path / "lab")
    assert outputs.save_page(PAGE["id"], "<p>").text == "[h100_1024](../local/plans/h100_1024.html)"
    monkeypatch.setenv("RAILCORE_NOTEBOOK", PAGE["notebook"])  # the driver keeps the notebook beside what it writes
    assert outputs.save_page(PAGE["id"], "<p>").text == "[h100_1024](./plans/h100_1024.html)"


@pytest.mark.parametrize(
    ("item", "html", "message"),
    [
        (PAGE["id"], "é" * (outputs.MAX_PAGE_B // 2) + "e", "is a page of 2000001 bytes: at most 2000000 may be"),
        (PAGE["id"], " \n", "'plans.h100_1024' has no html"),
        ("railonly2025.fig1", "<p>", r"'railonly2025\.fig1' is a \w+ and no page: give it to outputs\.save"),
        ("plans.h100_1023", "<p>", r"figure, table or page .* does not exist: the nearest are .*'plans\.h100_1024'"),
    ],
)
def test_what_is_no_page_writes_nothing(paged, item, html, message):
    with pytest.raises(ValueError, match=message):
        outputs.save_page(item, html)
    assert not written()


def test_a_page_of_another_notebook_and_a_page_as_a_table_write_nothing(paged, monkeypatch):
    with pytest.raises(ValueError, match=r"is a page: give its HTML to outputs\.save_page"):
        outputs.save(PAGE["id"], DATA)
    monkeypatch.setenv("RAILCORE_NOTEBOOK", "01_network_cost")
    with pytest.raises(
        ValueError, match=r"page 'plans\.h100_1024' belongs to notebook 20_plan_your_cluster, this is 01"
    ):
        outputs.save_page(PAGE["id"], "<p>")
    assert not written()


def test_the_gallery_links_to_pages(index, paged):
    row = (
        "### Pages\n\n| page | shows | files |\n| :--- | :--- | :--- |\n| h100 1024 | a cluster of 1,024 H100 | {} |\n"
    )
    text = outputs.gallery().text
    assert row.format("not\u00a0yet") in text
    outputs.save_page(PAGE["id"], "<p>")
    links_of_page = "[20](20_plan_your_cluster.ipynb)\u00a0[html](../figures/plans/h100_1024.html)"
    shown = outputs.gallery()
    assert row.format(links_of_page) in shown.text.partition("<details>")[0] and "<img" not in shown.text
    assert links(shown) == ["figures/plans/h100_1024.html"]
    tables = re.compile(r"<summary>(\d+) tables")
    listed = [item for item in outputs.items().values() if item["kind"] not in ("answer", "page")]
    assert int(tables.search(text)[1]) == sum("png" not in item["files"] for item in listed)


@pytest.mark.parametrize(
    "shown",
    [
        lambda text: MarkdownText(text).text,
        lambda text: markdown_table([{"a": text, "b": text}]),
        lambda text: MarkdownText(markdown_table([{text: text}])).text,
        lambda text: outputs.answer(text, "railonly2025.fig1").text,
        lambda text: outputs.show_table(pd.DataFrame({"claim": [text]})).text,
    ],
)
def test_amounts_in_dollars_are_no_formula(shown):
    text = shown("from $1B to $1T")
    assert "from <span>&#36;</span>1B to <span>&#36;</span>1T" in text and "$" not in text


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A project with two notebooks, and the folder of what they publish."""
    for name in ("01_network_cost", "02_topologies"):
        (tmp_path / "notebooks").mkdir(exist_ok=True)
        cell = {"cell_type": "markdown", "source": "# What is saved?\n\nmore"}
        (tmp_path / f"notebooks/{name}.ipynb").write_text(json.dumps({"cells": [cell]}))
    monkeypatch.setattr(workspace, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(workspace, "FIGURES", tmp_path / "figures")
    monkeypatch.setenv("RAILCORE_OUT", str(tmp_path / "figures"))
    return tmp_path


def test_the_index_shows_answers_with_their_pictures(index, figure):
    assert answers.index().text == "none\n"
    answer = outputs.answer("Rail-only saves **38%** of the\ncost | power.", "railonly2025.fig1")
    assert answer.text.startswith("Rail-only saves")
    (line,) = answers.index().text.splitlines()[2:]
    assert "[What is saved?](01_network_cost.ipynb)**<br>Rail-only saves **38%** of the cost / power." in line
    outputs.save("railonly2025.fig1", DATA, figure)
    assert links(answers.index()) == ["figures/railonly2025/fig1.png"]
    assert (index / links(answers.index())[0]).is_file()
    assert '<a href="01_network_cost.ipynb"><img' in answers.index().text


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        ("railonly2025.fig11", "does not exist: the nearest are"),
        ("railonly2025.table1", "'railonly2025.table1' has no PNG: name a figure"),
    ],
)
def test_an_answer_without_a_picture_writes_nothing(picture, message):
    with pytest.raises(ValueError, match=message):
        outputs.answer("so it is", picture)
    assert not written()


def test_warnings_are_shown_each_time_and_kept_once(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("RAILCORE_OUT", str(tmp_path))
    outputs.show_warnings()
    assert not capsys.readouterr().out and not list(tmp_path.iterdir()) and outputs.kept_warnings(tmp_path) == []
    outputs.show_warnings("one", "two", "one")
    outputs.show_warnings("two", "three")
    assert capsys.readouterr().out == "Warning: one\nWarning: two\nWarning: two\nWarning: three\n"
    assert outputs.kept_warnings(tmp_path) == ["one", "two", "three"]


def test_a_slider_changes_the_picture_and_bad_values_become_words():
    plt.close("all")  # of other tests

    def draw(gpus, book):
        if gpus > 5:
            raise ValueError(f"gpus is {gpus}: too many <for this>")
        return plt.subplots()[1].plot([0, gpus])

    panel = explore.panel(draw, gpus=(2, 1, 9, 1), book=("a", ["a", "b"]))
    slider, menu, message, image = panel.children
    first = bytes(image.value)
    assert first.startswith(b"\x89PNG") and menu.value == "a"
    slider.value = 4
    assert bytes(image.value) != first and not message.value
    slider.value = 7
    assert "too many &lt;for this&gt;" in message.value
    assert not plt.get_fignums()


def test_no_text_of_a_sliders_picture_is_cut():
    def draw(words):
        figure, ax = plt.subplots(figsize=(3, 2))
        ax.set_title("word " * words)
        return figure

    shown = [explore.panel(draw, words=(n, 1, 40, 1)).children[-1].value for n in (1, 40)]
    short, long = (Image.open(io.BytesIO(bytes(png))).convert("L") for png in shown)
    assert long.width > 2 * short.width and np.asarray(long)[:, [0, -1]].min() == 255


def test_a_map_of_one_price_holds_its_legend():
    networks = ("rail-only", "photonic rails", "rail-only, 2 planes", "Clos, leaves 2:1")
    cells = [(1024 * n, 8 * m, network, 0.5) for n in (1, 2) for m, network in enumerate(networks, 1)]
    data = pd.DataFrame(cells, columns=["gpus", "hb_domain_size", "network", "wins"]).assign(price=400.0)
    title = "Network of the least training cost"
    with mpl.rc_context({"figure.constrained_layout.use": True}):
        assert not legible.faults(heatmaps.winner_maps(data, {"transceiver of 400 USD": 400.0}, title))
    plt.close("all")


def test_a_panel_that_cannot_draw_its_own_defaults_stops_the_notebook(monkeypatch):
    def draw(gpus):
        raise ValueError("gpus: none of these")

    assert "none of these" in explore.panel(draw, gpus=(2, 1, 9, 1)).children[1].value
    monkeypatch.setenv("RAILCORE_NOTEBOOK", "01_network_cost")
    with pytest.raises(ValueError, match="none of these"):
        explore.panel(draw, gpus=(2, 1, 9, 1))
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")  # the user's numbers may lie outside of what draws
    assert "none of these" in explore.panel(draw, gpus=(2, 1, 9, 1)).children[1].value


@pytest.mark.parametrize("control", [(9, 1, 5, 1), 3, ("a",), ([3], [1, 2])])
def test_a_control_of_another_form_is_refused(control):
    with pytest.raises(ValueError, match="control 'gpus' is"):
        explore.panel(lambda gpus: None, gpus=control)


def test_a_panel_adds_a_default_to_its_choices():
    panel = explore.panel(lambda gpus, book: plt.subplots()[1], gpus=(3, [4, 1]), book=("c", ["b", "a"]))
    slider, menu, *_ = panel.children
    assert [value for _, value in slider.options] == [1, 3, 4] and slider.value == 3
    assert menu.options == ("c", "b", "a") and menu.value == "c"


def test_a_control_may_be_left_to_the_platform():
    drawn = []

    def draw(**values):
        drawn.append(values)
        return plt.subplots()[1]

    panel = explore.panel(draw, hb_domain_size=(None, [64, 8]), nic=("1 Gbps", [None, "2 Gbps"]))
    slider, menu, *_ = panel.children
    assert [label for label, _ in slider.options] == ["the platform's", "8", "64"]
    assert menu.options == ("the platform's", "1 Gbps", "2 Gbps")
    slider.value, menu.value = 64, "the platform's"
    assert drawn[0] == {"hb_domain_size": None, "nic": "1 Gbps"}
    assert drawn[-1] == {"hb_domain_size": 64, "nic": None}


def test_a_tornado_has_the_widest_bar_on_top():
    data = pd.DataFrame({"input": ["little", "much"], "low": ["1", "2"], "high": ["3", "4"]})
    data = data.assign(at_low=[0.4, 0.1], at_high=[0.6, 0.9], centre=0.5)
    ax = bars.tornado_chart(data, plt.subplots()[1], "share")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["little", "much"]
    plt.close("all")


@pytest.mark.parametrize("towards", [0.0, 1.0])
def test_a_tornado_does_not_hang_on_the_last_bit(towards):
    data = pd.DataFrame({"input": ["one", "other"], "low": ["1", "2"], "high": ["3", "4"]})
    data = data.assign(at_low=[0.25, 0.25], at_high=[np.nextafter(0.75, towards), 0.75], centre=0.5)
    ax = bars.tornado_chart(data, plt.subplots()[1], "share")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "other"]
    assert [text.get_text() for text in ax.texts] == ["1", "3", "2", "4"]  # of equal bars the low one first
    plt.close("all")


def test_a_tornado_with_both_ends_on_one_side_shows_both_bars_and_texts():
    data = pd.DataFrame({"input": ["sites"], "low": ["one"], "high": ["four"], "at_low": 0.3, "at_high": 0.6})
    ax = bars.tornado_chart(data.assign(centre=0.2), plt.subplots()[1], "share")
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.4, 0.1])  # the shorter one in front
    assert {text.get_text(): text.xy[0] for text in ax.texts} == {"four": 0.6, "one": 0.2}
    plt.close("all")


def test_errors_of_a_model_stand_beside_those_of_the_documents_formulas_with_both_means():
    data = pd.DataFrame({"label": ["a", "b"], "source": "x", "global_batch": 8, "measured_iteration_s": 2.0})
    data = data.assign(modelled_s=[2.1, 1.9], error=[0.05, -0.05], formula_s=[2.2, np.nan], formula_error=[0.1, np.nan])
    ax = bars.measured_runs(data, "runs", (0.1, "close", "reproduced"), (0.07, 42)).axes[1]
    texts = ["ours", "5%", "+5%", "-5%", "formulas", "10%", "+10%", "7%"]
    assert [text.get_text() for text in ax.texts if text.get_text()] == texts
    assert "within 10% on average" in str(ax.get_legend_handles_labels()[1])
    assert bars._to_a_tenth(0.0964) == "9.6%" and bars._to_a_tenth(-1e-5, "+") == "0%"
    assert bars.measured_runs(data, "runs").axes[1].get_legend_handles_labels()[1] == []
    alone = bars.measured_runs(data, "runs", others=(0.07, 42)).axes[1]
    assert alone.texts[-1].get_text() == "7%" and alone.get_legend_handles_labels()[1] == []
    plt.close("all")


def test_longer_iterations_are_two_bars_a_platform():
    data = pd.DataFrame({"platform": ["A100", "H100"], "iteration": [0.1, 0.2], "iteration_at_once": [0.05, 0.08]})
    (ax,) = routing.longer_iterations(data, "longer").axes
    assert [bar.get_width() for bar in ax.patches] == [0.1, 0.2, 0.05, 0.08]
    assert [text.get_text() for text in ax.texts] == ["10%", "20%", "5%", "8%"]
    plt.close("all")


def test_slowdowns_by_routing_are_cells_with_the_documents_number_beside_their_platform():
    data = pd.DataFrame({"load": ["uniform", "hot"], "platform": "A100", "routing": "two-hop", "phases": "in turn"})
    figure = routing.slowdown_by_routing(data.assign(slowdown=[0.1, -0.7], bandwidth_ratio=0.08), "", {"A100": "8.2%"})
    cells = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert cells == [["10%", "8%"], ["-70%", "8%"]]
    assert figure.axes[0].get_yticklabels()[0].get_text() == "A100\n(document: 8.2%)"
    plain = routing.slowdown_by_routing(data.assign(slowdown=0.1, bandwidth_ratio=0.08))
    assert ["document" in drawn.get_supxlabel() for drawn in (figure, plain)] == [True, False]
    plt.close("all")


def test_a_line_under_another_is_broader():
    rows = [(g, x, x * (1 + (g == "c"))) for g in "abc" for x in (1.0, 2.0, 4.0)]
    data = pd.DataFrame(rows, columns=["link", "gpus", "cost"])
    for nested, widths in ((True, [3.3, 1.5, 1.5]), (False, [1.5] * 3)):
        ax = plotting.plot_lines(data, "gpus", "cost", "link", plt.subplots()[1], nested=nested)
        assert [line.get_linewidth() for line in ax.get_lines()] == pytest.approx(widths)
    plt.close("all")


GROUPS = ("TRAFFIC", "PASSES", "NETWORKS", "LINKS", "TRANSPORTS", "FUELS")
DEUTERANOPIA = np.array(  # Machado, Oliveira and Fernandes 2009, severity 1, linear RGB
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, seen_with):
    """CIE L*a*b* of a colour after a matrix of linear RGB."""
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    white = TO_XYZ.sum(axis=1)
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ np.clip(seen_with @ linear, 0, 1) / white, 0.009))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen_with", [np.eye(3), DEUTERANOPIA], ids=["all", "deuteranopia"])
def test_colours_of_one_group_are_told_apart(seen_with):
    for group in (*(getattr(plotting, name) for name in GROUPS), dict(enumerate(plotting.COLOURS))):
        seen = {colour: lab(colour, seen_with) for colour in group.values()}
        for (one, a), (other, b) in combinations(seen.items(), 2):
            assert np.linalg.norm(a - b) > 12, f"{one} and {other} of {group}"


def test_a_thing_has_one_colour_in_every_chart():
    assert sum(len(getattr(plotting, name)) for name in GROUPS if name != "NETWORKS") == len(plotting._THINGS)
    colours = plotting.colours_of(["a", "rail-only", "b", "NDP", "NDP, queues of 32"])
    assert colours["rail-only"] == plotting.NETWORKS["rail-only"]
    assert colours["NDP"] == colours["NDP, queues of 32"] == plotting.TRANSPORTS["NDP"]
    assert (colours["a"], colours["b"]) == (plotting.COLOURS[0], plotting.COLOURS[3])  # of those that are free
    data = pd.DataFrame({"x": [1.0, 2.0] * 2, "y": range(4), "network": ["own", "own", "rail-only", "rail-only"]})
    lines = plotting.plot_lines(data, "x", "y", "network", plt.subplots()[1]).get_lines()
    assert [line.get_color() for line in lines] == [plotting.COLOURS[0], plotting.NETWORKS["rail-only"]]
    plt.close("all")


def lightness(colours):
    return np.atleast_2d(colours)[:, :3] @ [0.299, 0.587, 0.114]


def test_dark_is_high_in_every_heat_map():
    assert (np.diff(lightness(plotting.heat_colours()(np.linspace(0, 1, 50)))) < 0).all()
    assert lightness(plotting.heat_colours()(0.0)) < 0.8  # still seen on white
    entries = pd.DataFrame({"source": [0, 2, 0], "target": [1, 3, 2], "bytes": [9e9, 9e9, 1e6]})
    matrix = np.zeros((4, 4))
    matrix[entries["source"], entries["target"]] = entries["bytes"]
    volumes = pd.DataFrame({"kind": ["a"], "path": ["b"], "bytes": [1e9]})
    pictures = [heatmaps.traffic_matrices({"one": entries}, 2), heatmaps.traffic_volume_and_matrix(volumes, matrix, 2)]
    for figure in pictures:
        (ax,) = [ax for ax in figure.axes if ax.get_xlabel() == "to GPU"]
        shown = ax.get_images()[0].get_array() / 255
        assert lightness(shown[0, 1]) < 0.3 < lightness(shown[0, 2]) < 0.9 and shown[1, 0, 3] == 0
        assert ax.get_xlim() == (0.5, 4.5) and ax.get_xticklabels()[-1].get_text() == "4"
    table = pd.DataFrame({"few": [0.0, 0.375], "many": [0.5, 0.8]})
    ax = heatmaps.heatmap(table, plt.subplots()[1], "share", 0, 0.8)
    ax.figure.canvas.draw()
    cells = lightness(ax.collections[0].get_facecolors())
    assert cells.argmax() == 0 and cells.argmin() == 3
    plt.close("all")


def test_a_heat_map_with_shares_below_0_has_its_middle_at_0():
    data = pd.DataFrame({"over": ["a"] * 3 + ["b"] * 3, "k": 8, "n": [1, 2, 3] * 2})
    for values, ends in (([0.1, 0.72, np.nan, 0.2, 0.3, 0.4], (0, 0.8)), ([-0.23, 0.72, np.nan, 0, 0, 0], (-0.8, 0.8))):
        figure = heatmaps.share_heatmaps(data.assign(share=values), "over", "k", "n", "share", "saved")
        assert figure.axes[0].collections[0].get_clim() == pytest.approx(ends)
        assert [text.get_text() for text in figure.axes[0].texts] == [f"{100 * x:.2g}%" for x in values[:2]]
    outlined = heatmaps.share_heatmaps(data.assign(share=0.1), "over", "k", "n", "share", "saved", outlined=("b", 8, 3))
    assert [[patch.get_xy() for patch in ax.patches] for ax in outlined.axes[:2]] == [[], [(2, 0)]]
    plt.close("all")


def test_more_gpus_than_cells_share_them_and_say_so():
    source = np.arange(1024)
    entries = pd.DataFrame({"source": source, "target": source[::-1], "bytes": 1e9})
    ax = heatmaps.traffic_matrices({"all": entries}, 1024).axes[0]
    assert ax.get_xlabel() == "to GPU (a cell: largest of 4 × 4)" and len(ax.patches) == 1
    part = heatmaps.traffic_matrices({"part": pd.DataFrame({"source": [0], "target": [3], "bytes": [1e9]})}, 1024).axes[
        0
    ]
    assert part.get_xlabel() == "to GPU" and not part.patches  # a part of an HB domain has no box
    plt.close("all")


def test_a_change_of_the_groups_is_marked_where_lines_bend():
    sizes = [512.0, 768.0, 1024.0]
    data = pd.DataFrame({"batch_sequences": sizes * 2, "hb_domain_size": [256] * 3 + [512] * 3})
    data = data.assign(iteration_s=1.0, ideal_s=0.5, relative=0.5, batch_tokens=data["batch_sequences"] * 2048)
    for groups, marks in (([32, 16, 16], 1), ([16, 16, 16], 0)):
        none = pd.DataFrame(columns=["batch_sequences", "relative", "verdict", "text"])
        ax = curves.iteration_time_by_batch(data.assign(group_size=groups * 2), "a model", none).axes[0]
        verticals = [line.get_xdata()[0] for line in ax.get_lines() if list(line.get_ydata()) == [0, 1]]
        assert verticals == [640] * marks
        assert [text.get_text() for text in ax.texts] == ["groups\nof 32", "model-parallel groups\nof 16 GPUs"][
            : 2 * marks
        ]
    plt.close("all")


def test_shares_of_an_iteration_stand_under_it_with_the_documents_marks():
    data = pd.DataFrame({"model": "GPT-1T", "gpus": 64, "hb_domain_size": [8, 16, 64], "iteration_s": [3.0, 2.5, 2.0]})
    data = data.assign(ideal_s=2.0, slowdown=data.iteration_s / 2 - 1, batch="8 sequences")
    marks = [("GPT-1T", 16, 0.1, "differs", "10%"), ("GPT-1T", 8, np.nan, "close", "plateau")]
    marks = [*marks, ("another", 8, 0.2, "close", "20%")]
    marks = pd.DataFrame(marks, columns=["model", "hb_domain_size", "share", "verdict", "text"]).assign(gpus=64)
    figure = curves.iteration_time_by_domain_size(data, "slowdown", "GPT-1T", marks)
    top, bottom = figure.axes
    assert [ax.get_title()[:3] for ax in (top, bottom)] == ["(a)", "(b)"]
    ours, mark, all_clusters, plateau = bottom.get_lines()
    assert ours.get_xydata().tolist() == [[8, 0.5], [16, 0.25]]  # one HB domain for all is the dashed line
    ((beside, share),) = mark.get_xydata().tolist()
    assert 8 < beside < 16 and share == 0.1 and mark.get_markeredgecolor() == plotting.VERDICTS["differs"]
    assert all_clusters.get_ydata() == [0.1, 0.1] and plateau.get_xdata() == [8, 8]
    assert [text.get_text() for text in bottom.texts] == ["10%", "", "25%", "plateau"]
    assert bottom.texts[1].xy == (16, 0.25)  # the arrow from the document's share to ours
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["64 GPUs", "ideal: one HB domain for all GPUs", "document: ours differs"]
    assert top.get_yscale() == "linear"
    wide = curves.iteration_time_by_domain_size(data.assign(ideal_s=0.5), "slowdown", "GPT-1T", marks[:0])
    assert wide.axes[0].get_yscale() == "log"
    plt.close("all")


def test_an_excess_has_a_line_for_each_cluster_and_what_is_near():
    data = pd.DataFrame({"model": "GPT-1T", "gpus": 64, "hb_domain_size": [8, 16, 64], "slowdown": [0.5, 0.25, 0.0]})
    figure = curves.excess_by_domain_size(pd.concat([data, data.assign(gpus=32, model="another")]), 0.05, "t")
    line, near = figure.axes[0].get_lines()
    assert line.get_xydata().tolist() == [[8, 0.5], [16, 0.25]] and near.get_ydata() == [0.05, 0.05]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["64 GPUs", "5% longer"]
    plt.close("all")


def test_any_number_of_oversubscriptions_is_drawn_in_shades_of_one_colour():
    ways = [("rail-optimized", float(ratio)) for ratio in range(1, 9)] + [("rail-only, at once", np.inf)]
    data = pd.DataFrame([(way, ratio, k) for way, ratio in ways for k in (8, 16)])
    data = data.set_axis(["way", "oversubscription", "hb_domain_size"], axis=1).assign(iteration_s=1.0, slowdown=0.1)
    lines = curves.expert_iteration_times(data, "t").axes[0].get_lines()
    shades = lightness(mpl.colors.to_rgba_array([line.get_color() for line in lines[:8]]))
    assert (np.diff(shades) > 0).all() and lines[8].get_label() == "rail-only, at once"
    plt.close("all")


def test_a_training_time_of_any_length_has_words():
    assert [tradeoffs._duration(days) for days in (1000, 0.5, 1 / 48, 1e-4)] == [
        "2.7 years",
        "12 hours",
        "30 minutes",
        "8.6 seconds",
    ]


def test_a_network_that_was_not_laid_out_is_named():
    rows = [("optics", "tree"), ("optics", "76 rails, 4 planes"), ("copper", "tree")]
    data = pd.DataFrame(rows, columns=["links", "network"]).assign(part="switch chips", cost_usd=4e9)
    optics, copper = bars.network_costs(data, 5e9).axes
    ticks = ["tree", "76 rails,\n4 planes"]
    assert all([label.get_text() for label in ax.get_xticklabels()] == ticks for ax in (optics, copper))
    named = [[text.get_text() for text in ax.texts if "not laid" in text.get_text()] for ax in (optics, copper)]
    assert named == [[], ["not laid\nout in\nracks"]]
    plt.close("all")


@pytest.mark.parametrize(
    "fabric", [fat_tree(16, 4, 4, planes=2), rail_optimized(32, 8, 8), PhotonicRails(32, 8, 16, 2, nic_Bps=5e10)]
)
def test_no_link_crosses_the_label_of_another_node(fabric):
    net = fabric.graph()
    ax = drawing.fabric_figure(net).axes[0]
    ax.figure.canvas.draw()
    links = [
        segment for lines in ax.collections if isinstance(lines, LineCollection) for segment in lines.get_segments()
    ]
    boxes = [
        (box, place)
        for marks in ax.collections
        if isinstance(marks, PathCollection) and marks.get_zorder() == 5
        for place in ax.transData.transform(marks.get_offsets())
        for box in [marks.get_paths()[0].get_extents(marks.get_transform())]
    ]
    assert len(links) == net.number_of_edges() and len(boxes) == net.number_of_nodes()
    for ends in (ax.transData.transform(segment) for segment in links):
        points = ends[0] + np.linspace(0, 1, 201)[:, None] * (ends[1] - ends[0])
        for box, place in boxes:
            x, y = (points - place).T
            hit = (box.x0 < x) & (x < box.x1) & (box.y0 < y) & (y < box.y1)
            at_end = any(abs(end[0] - place[0]) < 1 and abs(end[1] - place[1]) < box.height for end in ends)
            assert at_end or not hit.any()
    plt.close("all")


def test_columns_that_differ_in_their_unit_alone_both_stay():
    table = tables.readable(pd.DataFrame({"best": ["t8"], "best_s": [2.5], "size_bytes": [3e9]}))
    assert table.to_dict("records") == [{"best": "t8", "best s": "2.5 s", "size": "3 GB"}]
    table = tables.readable(
        pd.DataFrame({"cost_usd_rail_only": [2e6], "power_w": [5e3], "m": [3], "share_of_bytes": [1]})
    )
    assert table.to_dict("records") == [{"cost rail only": "2 M USD", "power": "5 kW", "m": "3", "share of bytes": "1"}]


def test_readable_tables_write_hours_and_what_is_not_known():
    hours = pd.to_datetime(["2023-01-21 02:00", None])
    table = tables.readable(pd.DataFrame({"peak_at": hours, "rank": pd.array([2, None], dtype="Int64")}))
    assert table.to_dict("list") == {"peak at": ["2023-01-21 02:00", "–"], "rank": ["2", "–"]}


def test_shares_in_percent_write_what_is_not_known_and_what_is_without_bound():
    table = pd.DataFrame({"share": [0.0648, math.nan, math.inf, 0.0], "gpus": [1, 2, 3, 4]})
    shown = outputs.in_percent(table, "share")
    assert shown["share"].tolist() == ["6.48%", "–", "∞", "0%"] and shown["gpus"].tolist() == [1, 2, 3, 4]


def test_a_claim_is_shown_with_settings_and_inputs_and_found_by_words(capsys):
    assert main(["claim", "railonly2025.text.r64_switch_ratio"]) == 0
    shown = capsys.readouterr().out
    for text in (
        "document  railonly2025",
        "within 0.67%",
        "gpus =",
        "cause     contradiction: the document contradicts itself",
    ):
        assert text in shown, text
    assert "move it" not in shown  # counts of parts rest on no number of the catalog
    assert main(["claim", "railonly2025.fig1.power_65536_400g"]) == 0
    shown = capsys.readouterr().out
    listed = shown.partition("inputs    numbers of the catalog that move it:")[2].partition("settings")[0]
    assert "powers: railonly2025, port_power: " in listed and "prices" not in listed
    assert main(["claim", "railonly2025.text.power_saving_max"]) == 0
    assert "document  railonly2025, Network Cost and Power Analysis: = 6.9 MW" in capsys.readouterr().out
    assert main(["claim", "railonly2023.fault.rail_switch_difference"]) == 0
    assert "document  railonly2023, Section " in capsys.readouterr().out
    assert main(["claim", "Switches radix 64 rail-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("radix 64" in line and "switches" in line for line in lines) > 2  # one more has the words in its note
    assert main(["claim", "70.5%"]) == 0 and "fig7.cost_saving_max" in capsys.readouterr().out
    assert main(["claim", "no such claim"]) == 2
    assert "does not exist: the nearest are" in capsys.readouterr().err


def test_a_button_draws_the_slower_picture_until_a_slider_moves():
    def draw(gpus):
        return plt.subplots()[1].plot([0, gpus])

    told = []

    def slower(progress, gpus):
        progress(f"{gpus} of them")
        told.append(gpus)
        if gpus > 5:
            raise ValueError(f"gpus is {gpus}: too many")
        return plt.subplots(figsize=(2, 2))[1].plot([gpus, 0])

    panel = explore.panel(draw, button=("the slower one", slower), gpus=(2, 1, 9, 1))
    slider, button, message, image = panel.children
    first = bytes(image.value)
    assert button.description == "the slower one" and not told
    button.click()
    assert told == [2] and bytes(image.value) != first and not message.value
    slider.value = 7
    button.click()
    assert "too many" in message.value
    slider.value = 2
    assert bytes(image.value) == first and not message.value


def test_the_scale_of_a_traffic_matrix_names_entries_and_the_documents():
    entries = {
        "kind": ["sequence", "data", "pipeline"],
        "source": 0,
        "target": [1, 2, 3],
        "bytes": [4e11, 6.5e9, 6.7e9],
    }
    entries = pd.DataFrame(entries)
    larger = entries.assign(bytes=entries["bytes"] * [2, 1, 1])
    names = heatmaps.entry_names({"A": entries, "B": larger})
    assert list(names) == [
        "data parallel",
        "pipeline",
        "tensor and sequence parallel, A",
        "tensor and sequence parallel, B",
    ]
    document = {3e11: ("differs", "about 300 GB")}
    bar = heatmaps.traffic_matrices({"one": entries}, 2, 1, "t", names, document).axes[-1]
    ticks = [text.get_text() for text in bar.get_yticklabels()]
    assert "6.7: pipeline\n6.5: data parallel" in ticks and {"10", "100"} <= set(ticks)
    assert [text.get_text() for text in bar.texts] == ["document:\nabout 300 GB"]
    plt.close("all")


def test_bounds_of_the_document_stand_beside_sums_of_traffic():
    kinds = ["tensor", "data within", "data between"]
    data = pd.DataFrame({"case": "A", "kind": [*kinds, "all"], "silent_pairs": 0.99, "share_of_pairs": [1, 2, 4, 7]})
    data = data.assign(share_of_pairs=data.share_of_pairs / 1000, share_of_bytes=[0.5, 0.42, 0.08, 1])
    marks = [("volume", 0.9, ">", "close", "over 90%")]
    marks = pd.DataFrame(marks, columns="panel share relation verdict text".split())
    figure = bars.traffic_shares(data, "t", marks, {"tensor": "model parallel"})
    left, right = figure.axes
    assert "model parallel" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert [text.get_text() for text in left.texts] == ["no traffic:\n99%", "↓ 0.3%"]
    arrow, words = right.texts[1:]
    assert right.texts[0].get_text() == "↓ 92%" and right.texts[0].xy[1] == 0.9  # below the bound's line
    assert words.get_text() == "document:\nover 90%" and arrow.arrow_patch
    plt.close("all")


def test_runs_are_a_line_for_each_group_and_those_beyond_the_axis_are_triangles():
    data = pd.DataFrame({"group": ["a", "a", "b"], "modelled_s": [1.1, 0.2, 1.7], "measured_iteration_s": 1.0})
    ax = tradeoffs.modelled_over_measured(data, "group", "t").axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a (2): 45%", "b (1): 70%"]
    marks = {(line.get_marker(), *line.get_xydata()[:1].ravel()) for line in ax.get_lines()}
    assert marks >= {("o", 1.1, 0), ("<", 0.5, 0), (">", 1.5, 1)}
    plt.close("all")


def test_networks_are_compared_with_the_fastest():
    data = pd.DataFrame(
        {"job": "A", "network": ["Clos", "rail-only", "Clos, leaves 4:1"], "cost_usd": [2e6, 1e6, np.nan]}
    )
    figure = tradeoffs.days_by_network_price(data.assign(days=[10.0, 11.0, np.nan]), "t")
    marks = [line.get_xydata()[0].tolist() for line in figure.axes[0].get_lines()]
    assert marks[:2] == [[2, 0], [1, pytest.approx(0.1)]] and "10 days" in figure.axes[0].get_title()
    assert figure.legends[0].get_texts()[2].get_text() == "Clos, leaves 4:1 (none)"
    plt.close("all")
