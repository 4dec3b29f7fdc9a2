"""Charts of completion times: what is drawn is what they are given."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from suite.charts import completion_times as charts


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


RUNS = pd.DataFrame(
    [("NDP", 0, 1.05), *(("single path", seed, last) for seed, last in enumerate((5.9, 6.9, 7.9)))],
    columns=["transport", "seed", "last"],
).assign(last_s=lambda rows: rows["last"] * 1e-3, optimum_s=1e-3)


def test_every_seed_has_a_mark_and_every_printed_time_too():
    shares = pd.concat(
        RUNS[["transport", "seed", "last_s"]].assign(share=share, time_s=RUNS["last_s"] * (0.5 + share / 2))
        for share in (0.0, 0.5, 1.0)
    )
    document = pd.DataFrame(
        [
            ("optimum", 1e-3, "=", "reproduced", "1 ms"),
            ("single path", 7e-3, "=", "reproduced", "7 ms"),
            ("NDP", 1.02e-3, "<", "differs", "within 2%"),
        ],
        columns=["transport", "time_s", "relation", "verdict", "text"],
    )
    figure = charts.completion_time_curves(shares, RUNS, document, "on 8 hosts")
    upper, lower = figure.axes
    assert len(upper.lines) == 1 + 2 and figure.get_suptitle() == "on 8 hosts"
    marks = [line for line in lower.lines if line.get_linestyle() == "None" and len(line.get_xdata())]
    assert sorted(len(line.get_xdata()) for line in marks) == [1, 1, 1, 1, 3]  # NDP's seed and bound, two times, seeds
    assert {"1.05 ms", "median 6.9 ms", "7 ms", "within 2%"} <= set(texts(figure))
    named = figure.legends[0].get_texts()
    assert {text.get_text() for text in named} == {"document: reproduced", "document: ours differs"}
    assert "(3; NDP 1)" in lower.get_title("left")


def test_the_tail_over_load_has_a_line_for_each_transport():
    data = pd.concat(RUNS.assign(load=load) for load in (0.5, 1.0))
    ax = charts.tail_by_load(data, 1e-3, "on 8 hosts").axes[0]
    assert [line.get_label() for line in ax.lines][:2] == ["NDP", "single path"]
    assert np.allclose(ax.lines[1].get_ydata(), 6900)
    assert [text.get_text() for text in ax.texts] == ["optimum", "NDP", "best effort, single path"]  # from below


def test_draws_and_thresholds_show_what_is_printed():
    loads = pd.DataFrame({"load": [6.0] * 3 + [7.0] * 6 + [8.0]})
    chances = pd.DataFrame({"load": [5.0, 6, 7, 8, 9], "chance": [0, 0.3, 0.9, 0.98, 1]})
    settings = pd.DataFrame({"setting": ["3 / 2"] * 2 + ["15 / 12"] * 2, "slowdown": [8.0, 9, 7, 8]})
    printed = {
        "RoCEv2": (9e-3, "close", "9 ms"),
        "single path": (7e-3, "reproduced", "7 ms"),
        "NDP": (1e-3, "close", ""),
    }
    rows = [(name, *told) for name, told in printed.items()]  # in another order than the panels
    document = pd.DataFrame(rows, columns=["transport", "time_s", "verdict", "text"])
    figure = charts.last_flow_chances(loads, chances, settings, 1e-3, document)
    left, right = figure.axes
    assert [bar.get_height() for bar in left.patches] == pytest.approx([0.3, 0.6, 0.1])
    assert any(np.allclose(line.get_xdata(), 7) for line in left.lines)
    assert any(np.allclose(line.get_ydata(), 9) for line in right.lines)
    assert right.get_title("left").startswith("(b) RoCEv2")
    assert "document, single path, 7 ms: reproduced" in left.get_legend_handles_labels()[1]
    assert [label.get_text() for label in right.get_xticklabels()] == ["3 / 2", "15 / 12"]


def test_a_flow_without_an_end_is_named():
    data = pd.DataFrame(
        {
            "way": ["NDP", "NDP", "RoCEv2", "RoCEv2"],
            "links": ["up", "dead", "up", "dead"],
            "slowdown": [1.1, 7.7, 6.0, np.inf],
        }
    )
    figure = charts.slowdown_bars(data, "way", "links")
    assert sorted(texts(figure)) == ["1.1", "6", "7.7", "never"]


def test_cells_have_the_median_of_the_seeds():
    data = pd.DataFrame(
        [(name, 1, load, value) for name in ("a", "b") for load in (0.5, 1.0) for value in (2, 3, 9)],
        columns=["transport", "ratio", "load", "slowdown"],
    )
    figure = charts.slowdown_heatmaps(data, "transport", "ratio", "load", ("ratio", "load"))
    assert texts(figure) == ["3"] * 4


def test_errors_name_each_group_and_its_runs():
    data = pd.DataFrame({"ours": [0.1, 0.2, 0.3], "theirs": [1.0, 1, 1], "last_error": [0, 0.1, -0.1]})
    data["rule"], data["control"] = ["incast", "incast", ""], ["nscc", "rccc", "rccc"]
    data["retransmitted_share"], data["ours_retransmitted_share"] = [0.2, 0.0, 0.1], [0.1, 0.0, 0.3]
    figure = charts.errors_beside_baselines(data, {"ours": "model", "theirs": "optimum"}, {"incast": 0.05})
    labels = [label.get_text() for label in figure.axes[2].get_yticklabels()]
    assert labels == ["incast\n(2 runs)", "other runs, without a bound\n(1 run)"]
    assert "median 20%" in figure.axes[0].get_legend().get_texts()[0].get_text()
    again = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[1].lines[1:]}
    assert again["NSCC"] == [[0.2, 0.1]] and again["RCCC"][1] == [0.1, 0.3]
    assert 0 < again["RCCC"][0][0] < 1e-4  # none at all, at the axis's end
