import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from railcore.__main__ import main
from railcore.facts import files
from railcore.workbench import explore, outputs, plotting

mpl.use("agg")
DATA = pd.DataFrame({"gpus": [1024, 2048], "cost_usd": [1234567.89, 0.1 + 0.2], "link": ["a", "b"]})


@pytest.fixture
def figure():
    plotting.house_style()
    figure, ax = plt.subplots(figsize=(8, 3))
    ax.plot([0, 1], [0, 1])
    yield figure
    plt.close(figure)


def written():
    return sorted(path.relative_to(files.out()).as_posix() for path in files.out().rglob("*") if path.is_file())


def test_a_figure_is_saved_in_all_its_forms_and_twice_the_same(figure):
    outputs.save("railonly2025.fig1", DATA, figure)
    names = [f"railonly2025/fig1.{end}" for end in ("csv", "png", "svg")]
    assert written() == names
    first = [(files.out() / name).read_bytes() for name in names]
    outputs.save("railonly2025.fig1", DATA, figure)
    assert [(files.out() / name).read_bytes() for name in names] == first
    assert plt.imread(files.out() / names[1]).shape[1] >= outputs.MIN_WIDTH_PX
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
        outputs.save("railonly2025.fig1", DATA, figure)
        plt.close(figure)
        drawn = (files.out() / "railonly2025/fig1.svg").read_text()
        ids.append(re.findall(r' id="([^"]*)"', drawn))
        used.append(re.findall(r'(?:href="#|url\(#)([^")]*)', drawn))
    assert ids[0] == ids[1] and used[0] == used[1]
    assert len(ids[0]) == len(set(ids[0])) and {*used[0]} <= {*ids[0]}
    assert {"p", "m", "h", "C"} <= {name[0] for name in used[0]}


def test_a_table_is_saved_as_numbers_and_as_people_read_it():
    shown = outputs.save("railonly2025.table1", DATA)
    assert written() == [f"railonly2025/table1.{end}" for end in ("csv", "md", "tex")]
    table = (files.out() / "railonly2025/table1.md").read_text()
    assert table.splitlines() == [
        "| GPUs | cost | link |",
        "| ---: | ---: | :--- |",
        "| 1,024 | 1.235 M USD | a |",
        "| 2,048 | 0.3 USD | b |",
    ]
    assert shown.text == table


@pytest.mark.parametrize(
    ("item", "data", "drawn", "message"),
    [
        (
            "railonly2025.fig11",
            DATA,
            True,
            r"figure or table .*'railonly2025.fig11' does not exist: the nearest are .*fig1'",
        ),
        ("extra.saving", DATA, True, "does not exist"),
        ("railonly2025.fig1", DATA, False, "give its matplotlib figure"),
        ("railonly2025.fig1", DATA.head(0), True, "has no data"),
    ],
)
def test_a_save_that_lacks_something_writes_nothing(figure, item, data, drawn, message):
    with pytest.raises(ValueError, match=message):
        outputs.save(item, data, figure if drawn else None)
    assert not written()


def test_a_narrow_picture_is_refused_before_anything_is_written(figure):
    figure.set_size_inches(5, 3)
    with pytest.raises(ValueError, match=r"800 pixels wide: draw it at least 7\.5 inches"):
        outputs.save("railonly2025.fig1", DATA, figure)
    assert not written()


def test_a_dense_vector_picture_is_refused(figure):
    rng = np.random.default_rng(0)
    figure.axes[0].scatter(*rng.random((2, 20000)))
    with pytest.raises(ValueError, match="rasterise"):
        outputs.save("railonly2025.fig1", DATA, figure)
    assert not written()


def test_one_process_answers_for_one_notebook(figure):
    outputs.save("extra.02_recovery", DATA)
    with pytest.raises(ValueError, match="belongs to notebook 01_network_cost, this is 02_topologies"):
        outputs.save("railonly2025.fig1", DATA, figure)


def test_the_gallery_links_what_is_there():
    gallery = outputs.gallery().set_index("item")
    assert set(outputs.items()) <= set(gallery.index)
    for links in gallery["files"]:
        for target in re.findall(r"\]\(\.\./(.*?)\)", links):
            assert (files.ROOT / target).is_file()


def test_a_slider_changes_the_picture_and_bad_values_become_words():
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


def test_a_panel_that_cannot_draw_its_own_defaults_stops_the_notebook(monkeypatch):
    def draw(gpus):
        raise ValueError("gpus: none of these")

    assert "none of these" in explore.panel(draw, gpus=(2, 1, 9, 1)).children[1].value
    monkeypatch.setenv("RAILCORE_NOTEBOOK", "01_network_cost")
    with pytest.raises(ValueError, match="none of these"):
        explore.panel(draw, gpus=(2, 1, 9, 1))
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")  # the user's numbers may lie outside of what draws
    assert "none of these" in explore.panel(draw, gpus=(2, 1, 9, 1)).children[1].value


@pytest.mark.parametrize("control", [(3, [1, 2]), (9, 1, 5, 1), 3, ("a",)])
def test_a_control_of_another_form_is_refused(control):
    with pytest.raises(ValueError, match="control 'gpus' is"):
        explore.panel(lambda gpus: None, gpus=control)


def test_stacked_bars_stand_on_each_other():
    data = pd.DataFrame({"network": ["x", "x", "y"], "part": ["ports", "optics", "ports"], "usd": [1.0, 2.0, 4.0]})
    ax = plotting.stacked(data, "network", "usd", "part", plt.subplots()[1], "USD")
    tops = {round(bar.get_x() + bar.get_width() / 2): 0.0 for bar in ax.patches}
    for bar in ax.patches:
        tops[round(bar.get_x() + bar.get_width() / 2)] += bar.get_height()
    assert tops == {0: 3.0, 1: 4.0}
    plt.close("all")


def test_a_tornado_has_the_widest_bar_on_top():
    data = pd.DataFrame({"input": ["little", "much"], "low": ["1", "2"], "high": ["3", "4"]})
    data = data.assign(at_low=[0.4, 0.1], at_high=[0.6, 0.9], centre=0.5)
    ax = plotting.tornado(data, plt.subplots()[1], "share")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["little", "much"]
    plt.close("all")


def test_a_tornado_with_both_ends_on_one_side_shows_both_bars_and_texts():
    data = pd.DataFrame({"input": ["sites"], "low": ["one"], "high": ["four"], "at_low": 0.3, "at_high": 0.6})
    ax = plotting.tornado(data.assign(centre=0.2), plt.subplots()[1], "share")
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.4, 0.1])  # the shorter one in front
    assert {text.get_text(): text.xy[0] for text in ax.texts} == {"four": 0.6, "one": 0.2}
    plt.close("all")


def test_columns_that_differ_in_their_unit_alone_both_stay():
    table = outputs.readable(pd.DataFrame({"best": ["t8"], "best_s": [2.5], "size_bytes": [3e9]}))
    assert table.to_dict("records") == [{"best": "t8", "best s": "2.5 s", "size": "3 GB"}]


def test_readable_tables_write_hours_and_what_is_not_known():
    hours = pd.to_datetime(["2023-01-21 02:00", None])
    table = outputs.readable(pd.DataFrame({"peak_at": hours, "rank": pd.array([2, None], dtype="Int64")}))
    assert table.to_dict("list") == {"peak at": ["2023-01-21 02:00", "–"], "rank": ["2", "–"]}


def test_a_claim_is_shown_with_settings_and_inputs_and_found_by_words(capsys):
    assert main(["claim", "railonly2025.text.r64_switch_ratio"]) == 0
    shown = capsys.readouterr().out
    for text in (
        "document  railonly2025",
        "within 0.67%",
        "gpus =",
        "inputs    of the whole notebook",
        "(assumed; modelled",
    ):
        assert text in shown, text
    assert main(["claim", "Switches radix 64 rail-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2 and all("radix 64" in line and "switches" in line for line in lines)
    assert main(["claim", "no such claim"]) == 2
    assert "does not exist: the nearest are" in capsys.readouterr().err
