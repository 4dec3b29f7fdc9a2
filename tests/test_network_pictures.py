"""Pictures of small networks: texts that can be read, legends that fit, circuits one to one, marks with their names."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from railcore.network.topology import faults, graph
from railcore.network.topology.rails import fat_tree, rail_only, rail_optimized
from railcore.training.parallelism import Strategy
from suite import drawing, legible, plotting
from suite.charts import tradeoffs
from suite.drawing import circuits, layers
from suite.photonic2025.circuit_pairs import circuit_pairs, domain_texts, panel_titles

PANELS = {"pipeline": "pipeline", "data": "data"}


@pytest.fixture(autouse=True)
def _house_style():
    plotting.house_style()
    yield
    plt.close("all")


@pytest.mark.parametrize("fabric", [fat_tree(16, 4, 4, planes=4), rail_optimized(16, 4, 8), rail_only(32, 4, 8)])
def test_a_drawn_network_can_be_read_by_itself(fabric):
    net = fabric.graph()
    route = graph.route(net, "D1.GPU1", "D2.GPU2")
    assert legible.faults(drawing.fabric_figure(net, [route], title="A network of 16 GPUs")) == []


def test_a_forwarded_route_says_its_hops_and_numbers_them():
    net = rail_only(32, 4, 8).graph()
    labels = [layers.route_label(net, graph.route(net, "D1.GPU1", f"D2.GPU{rank}"), "GPU", "Domain") for rank in (1, 2)]
    assert labels[0] == "GPU 1, Domain 1 to GPU 1, Domain 2: 1 switch"
    assert labels[1].endswith("GPU 2, Domain 2: 2 hops, (1) HB switch to GPU 2, Domain 1, (2) rail switch 2")
    ax = drawing.draw_fabric(net, plt.subplots()[1], [graph.route(net, "D1.GPU1", "D2.GPU2")])
    assert [text.get_text() for text in ax.texts if text.get_text().isdigit()] == ["1", "2"]


def test_pods_are_what_hangs_together_below_the_spines():
    net = fat_tree(16, 4).graph()
    ax = drawing.draw_fabric(net, plt.subplots()[1], pod="Pod")
    assert [text.get_text() for text in ax.texts if "Pod" in text.get_text()] == [f"Pod {i}" for i in range(1, 5)]


@pytest.mark.parametrize(("planes", "framed"), [(4, 1), (1, 0)])
def test_switches_of_all_planes_are_framed_as_one_box(planes, framed):
    net = fat_tree(16, 4, 4, planes=planes).graph()
    ax = drawing.fabric_figure(net, box="one box").axes[0]
    assert [text.get_text() for text in ax.texts].count("one box") == framed


def test_labels_shrink_to_eight_points_and_then_shorten():
    texts = [["Aggregation 1", "Aggregation 2"], ["A1", "A2"]]
    for room, labels in ((120, texts[0]), (60, texts[1])):
        fitted, size, all_fit = layers.fit_labels(texts, room, 0.8)
        assert (fitted, all_fit) == (labels, True) and size >= legible.MIN_TEXT_PT


def test_an_entry_that_is_wider_than_its_panel_is_wrapped():
    figure, axes = plt.subplots(1, 2, figsize=(10, 5))
    for ax, build in zip(axes, (rail_only, rail_optimized), strict=True):
        net = build(16, 4, 4, hb_switches=2).graph()
        left = faults.fail(net, "rail switch")
        drawing.draw_fabric(net, ax, [graph.route(left, "D1.GPU1", "D4.GPU1")], left, "a rail switch failed")
    figure.canvas.draw()
    for ax in axes:
        legend = ax.get_legend()
        entry = legend.get_texts()[0].get_text()
        assert "3 hops, (1) HB" in entry and "\n" in entry
        assert legend.get_window_extent().width <= figure.bbox.width / 2


def test_circuits_join_gpus_of_one_rail_one_to_one():
    job = Strategy(tensor=4, pipeline=2, data=2)
    pairs = circuit_pairs(job, 4)
    assert domain_texts(job, 4)[:3] == ["stage 0, replica 0", "stage 0, replica 1", "stage 1, replica 0"]
    assert pairs.groupby(["kind", "rail"]).size().unique().tolist() == [4, 2]
    first = pairs[pairs["rail"] == 0]
    ends = {kind: set(zip(rows["source"], rows["target"], strict=True)) for kind, rows in first.groupby("kind")}
    assert ends == {"pipeline": {(0, 2), (1, 3)}, "data": {(0, 1), (1, 0), (2, 3), (3, 2)}}
    titles = panel_titles(pairs, 2, 400e9 / 8)
    assert "1 of 2 ports of a NIC: 200 Gbps" in titles["pipeline"]
    assert "2 of 2 ports of a NIC: 400 Gbps" in titles["data"]
    alone = circuit_pairs(Strategy(tensor=4), 4)
    assert alone.empty


def test_circuits_are_drawn_at_ports_that_are_free():
    job = Strategy(tensor=4, pipeline=2, data=2)
    pairs, texts = circuit_pairs(job, 4), domain_texts(job, 4)
    figure = circuits.circuits_figure(pairs, 4, texts, 2, PANELS, "Photonic rails: 16 GPUs")
    assert legible.faults(figure) == [] and not legible.overlaps(figure)
    assert {str(rank) for rank in range(16)} <= {text.get_text() for text in figure.axes[0].texts}
    with pytest.raises(ValueError, match="has 1 port, and its circuits take more"):
        circuits.circuits_figure(pairs, 4, texts, 1, PANELS, "Photonic rails: 16 GPUs")


def test_candidates_stand_below_the_best_with_the_days_of_nine_of_ten_cases():
    data = pd.DataFrame({"network": ["rail-only", "Clos"], "days": [44.0, 50.0], "cost_usd": [1e7, 1.2e7]})
    data = data.assign(network_usd=[2e6, 3e6], iteration_s=2.0, iteration_low_s=1.0, iteration_high_s=4.0)
    figure = tradeoffs.candidates_by_cost(data, "A model on 1,024 GPUs")
    price, cost, days = figure.axes
    names = {label.get_position()[1]: label.get_text() for label in price.get_yticklabels()}
    assert names == {0: "rail-only (best)", -1: "Clos"} and not legible.faults(figure)
    assert [[bar.get_width() for bar in ax.patches] for ax in (price, cost)] == [[2, 3], [10, 12]]
    assert [line[:, 0].tolist() for line in days.collections[0].get_segments()] == [[22, 88], [25, 100]]
    assert [text.get_text() for text in days.texts] == ["44.0", "50.0"]
    limited = tradeoffs.candidates_by_cost(data, "A model", limit_days=200.0).axes[2]
    assert limited.get_xlim()[1] > 200 and limited.lines[0].get_xdata()[0] == 200
    assert limited.texts[-1].get_text() == "limit of 200 days"
