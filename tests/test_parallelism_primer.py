"""The primer on parallelism: the document's networks, what strategies send, and the pictures of both."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest

from railcore.training.parallelism import DIMENSIONS, Strategy
from suite import legible
from suite.charts import rank_timelines
from suite.drawing import neural
from suite.emulator import comparison
from suite.emulator.feedforward import FeedForward
from suite.emulator.ranks import EmulatedRanks, TransferLabel
from suite.emulator.timeline import rank_timeline
from suite.ledger import claims
from suite.nwktimes2025 import primer, primer_claims

SEED = 3565  # of notebook 17
WRONG = {"nwktimes2025.fig1_11.tensor_peer"}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def three_d():
    return primer.three_d_run(4, 4, SEED)


def test_all_claims_of_the_primer_hold_but_one(three_d):
    runs = (primer.chain_run((3, 3, 3, 1), SEED), primer.layers_run(3, SEED), primer.tensor_run(SEED), three_d)
    idle = comparison.emulated_idle_shares(range(2, 5), range(1, 5))
    values = primer_claims.primer_claims(*runs, idle, primer.all_reduce_identity(range(2, 6)))
    listed = {claim_id for claim_id, claim in claims.claims().items() if claim.notebook == "17_parallelism_primer"}
    assert set(values.values) == listed
    for claim_id, value in values.values.items():
        claim = claims.claim(claim_id)
        verdict = claims.verdict(value, claim.paper_value, claim.relation, claim.tolerance)
        assert verdict == ("differs" if claim_id in WRONG else "reproduced"), claim_id
    assert set(values.reasons) >= WRONG


def test_an_idle_share_that_does_not_fall_breaks_the_rule():
    idle = comparison.emulated_idle_shares((2, 3), (1, 2, 3))
    assert primer_claims.idle_rule_broken(idle) == 0
    idle.loc[idle["microbatches"] == 3, "idle_share"] = 0.9
    assert primer_claims.idle_rule_broken(idle) == pytest.approx(2 / 6)


@pytest.mark.parametrize(("gradient", "rate"), [(2.0, 0.1), (0.5, 0.3)])
def test_an_adjustment_is_gradient_times_learning_rate(gradient, rate):
    assert primer_claims.weight_adjustment(gradient, rate) == pytest.approx(gradient * rate)


def test_numbers_in_the_diagrams_follow_by_hand():
    run = primer.chain_run((3, 3, 3, 1), SEED, learning_rate=0.1)
    table = primer.neuron_table(run)
    cells, names = primer.chain_cells(run, "forward", primer.node_names(run)), primer.node_names(run)
    assert list(dict.fromkeys(cells["gpu"])) == names
    before = run.inputs[:, 0]
    for _, part in table.groupby("layer"):
        assert np.allclose(part["z"], [np.dot(weights, before) for weights in part["weights"]])
        assert np.allclose(part["y"], np.maximum(part["z"], 0))
        for row in part.itertuples():
            assert np.allclose(row.gradient, row.delta * before)
            assert np.allclose(row.updated, row.weights - 0.1 * row.gradient)
        before = part["y"].to_numpy()


def test_gradients_are_summed_where_the_same_weights_are():
    assert list(comparison.gradient_scopes(primer.three_d_run(4, 4))) == ["across replicas"]
    alone = comparison.emulated_run(FeedForward([4] * 5), Strategy(tensor=2, pipeline=2), 2, 2)
    assert comparison.gradient_scopes(alone) == {}
    run = primer.three_d_run(4, 4)
    run.ranks.all_reduce((0, 1), [np.zeros(2)] * 2, TransferLabel("after", "data", 1))  # a sum of tensor ranks too
    assert list(comparison.gradient_scopes(run)) == ["within a replica", "across replicas"]


def test_gpus_that_compute_at_once_are_those_of_the_pass():
    ranks = EmulatedRanks(2, 2)
    for rank, phase in ((0, "forward"), (0, "backward"), (1, "backward")):
        ranks.compute(rank, phase, 1, rank)
    ranks.all_reduce((0, 1), [np.ones(2)] * 2, TransferLabel("after", "data", 1))
    line = rank_timeline(ranks, backward_time=2.0, scale_up_time=5.0)
    assert line.table["end"].max() == 13 and line.idle_share == pytest.approx(1 / 6)  # up to the last computation
    assert [line.peak_active(phase) for phase in ("forward", "backward", "recompute", None)] == [1, 2, 0, 2]


def test_every_possible_strategy_trains_alike_and_has_its_bytes_in_the_table():
    network, samples = FeedForward([8, 8, 8, 8], "linear"), 16
    ways = comparison.possible_strategies(network, 8, samples, 2, DIMENSIONS)
    shapes = {(way.tensor, way.pipeline, way.data) for way in ways.values()}
    assert shapes == {(t, p, 8 // (t * p)) for t in (1, 2, 4, 8) for p in (1, 2) if t * p <= 8}
    for way in ways.values():
        run = comparison.emulated_run(network, way, samples, 4, learning_rate=0.5)
        assert comparison.largest_difference(run) < 1e-12
    traffic = comparison.strategy_traffic(network, ways, samples, 4)
    run = comparison.emulated_run(network, way, samples, 4)
    assert traffic[traffic["strategy"] == list(ways)[-1]]["bytes"].sum() == run.ranks.log["bytes"].sum()


def test_a_split_that_fits_no_strategy_is_refused_with_what_would_fit():
    with pytest.raises(ValueError, match="give 35 samples, or fewer GPUs"):
        comparison.possible_strategies(FeedForward([4, 4]), 7, 16, 5, DIMENSIONS)
    with pytest.raises(ValueError, match="60 or 75"):
        comparison.sized_strategy(64, 5, 1, 1, 3, DIMENSIONS)
    with pytest.raises(ValueError, match="give those of 4 layers"):
        primer.chain_run((3, 3, 1))


def test_the_gather_ends_with_everything_everywhere():
    slots, sends = primer.gather_states(primer.tensor_run(SEED))
    last = slots[slots["stage"] == "parts freed"]
    assert (last["text"] != "").all() and last.groupby("gpu").size().eq(4).all()
    first = slots[slots["stage"] == "partial outputs"]
    assert (first.groupby("gpu")["text"].agg(lambda text: (text != "").sum()) == 2).all()
    assert sends["bytes"].to_list() == [8, 8]
    held = slots[slots["twice"]].groupby(["stage", "gpu"])["slot"].agg(list)
    assert held.to_list() == [["n1", "n2"], ["n3", "n4"]] and set(slots[slots["twice"]]["stage"]) == {"after step 1"}
    four = comparison.emulated_run(FeedForward([4, 4]), Strategy(tensor=4), 1, 4, learning_rate=None)
    slots, _ = primer.gather_states(four)
    held = slots[slots["text"] != ""].groupby(["stage", "gpu"], sort=False).size().groupby("stage", sort=False).unique()
    assert [array.tolist() for array in held] == [[1], [2], [3], [4], [4]]


def test_steps_of_the_forward_pass_are_those_of_the_document(three_d):
    events = primer.step_events(rank_timeline(three_d.ranks), ["forward"])
    computed = events[events["what"] == "compute"].groupby("rank")["text"].agg(list)
    for rank in (0, 1, 4, 5):
        assert computed[rank] == ["1a", "2a", "3a", "4a"]
    for rank in (2, 3, 6, 7):
        assert computed[rank] == ["3a", "4a", "5a", "6a"]
    passed = events[(events["text"] == "2c")]
    assert set(passed["rank"]) == {0, 1, 4, 5} and (passed["layer"] == 2).all()


def test_boxes_say_the_inputs_and_the_chart_when_all_compute(three_d):
    events = primer.step_events(rank_timeline(three_d.ranks), ["forward"])
    texts = primer.with_inputs(events, three_d).groupby("rank")["text"].agg(list)
    assert texts[0][0] == "1a L1: x1-x4" and texts[4][0] == "1a L1: x9-x12" and "1b" in texts[0]
    assert [text for text in texts[7] if text.startswith("5a")] == ["5a L3: x13-x16"]
    assert [[text for text in texts[rank] if text.endswith("c")] for rank in (0, 7)] == [
        ["2c", "4c", "1c", "3c"],  # those to other GPUs, then those that stay
        ["3c", "5c"],
    ]
    title, groups = primer.three_d_title(three_d, "Forward pass", "Fig. 1-12"), primer.three_d_groups(three_d)
    assert title.endswith("8 GPUs on 2 nodes, 2 tensor ranks x 2 pipeline stages x 2 replicas (Fig. 1-12)")
    names, drawn = primer.three_d_names(three_d), primer.with_inputs(events, three_d)
    with plt.rc_context({"figure.constrained_layout.use": True}):
        figure = rank_timelines.rank_gantt(drawn, names, title, groups=groups)
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert {"Node 2", "DP group 2: x9-x16", "5a L3: x13-x16", "1c"} <= set(shown) and shown.count("Node 1") == 1
    assert legible.faults(figure) == []
    assert "all 8 GPUs compute" in [text.get_text() for text in figure.legends[0].get_texts()]
    alone = rank_timelines.rank_gantt(events[events["rank"] < 4], primer.three_d_names(three_d), title)
    assert not any("GPUs compute" in text.get_text() for text in alone.legends[0].get_texts())


def test_a_port_serves_what_is_ready_first():
    ranks = EmulatedRanks(3, 1)
    early, late = (TransferLabel("forward", "pipeline", 1, m) for m in (1, 0))
    ranks.compute(0, "forward", 1, 0)
    ranks.compute(0, "forward", 2, 0)
    ranks.send(0, 2, np.ones(1), late)  # logged first, ready last
    ranks.compute(1, "forward", 1, 1)
    ranks.send(1, 2, np.ones(1), early)
    table = rank_timeline(ranks, scale_out_time=1.5).table.set_index("order")
    assert table["start"].to_list() == [0, 1, 2.5, 0, 1]


def test_a_computation_waits_for_all_that_it_is_sent():
    ranks, label = EmulatedRanks(3, 2), TransferLabel("forward", "pipeline", 1, 0)
    for rank in (2, 0):
        ranks.compute(rank, "forward", 1, 0)
    ranks.send(2, 1, np.ones(1), label)  # slower, over the scale-out network
    ranks.send(0, 1, np.ones(1), label)
    ranks.compute(1, "forward", 2, 0)
    line = rank_timeline(ranks, scale_out_time=2.0, scale_up_time=0.5)
    assert line.table["start"].to_list() == [0, 0, 1, 1, 3]
    assert line.table["step"].to_list() == [1, 1, 1, 1, 2]


def diagrams():
    """Every diagram of the primer, by name, with the least that it must say."""
    chain, layers = primer.chain_run((3, 3, 3, 1), SEED), [primer.layers_run(n, SEED) for n in (3, 1)]
    names, few = primer.node_names(chain), ["GPU 1", "GPU 2", "GPU 3"]
    forward = (primer.chain_cells(chain, "forward", names), primer.stage_transfers(chain, "forward", names))
    backward = (primer.chain_cells(chain, "backward", names), primer.stage_transfers(chain, "backward", names))
    cells = primer.chain_cells(layers[0], "forward", few, nodes=False)
    tensor = primer.tensor_run(SEED)
    inputs, text = primer.input_texts(chain), primer.prediction_text(chain)
    yield (
        neural.chain_diagram(*forward, inputs, text, "Forward", primer.forward_key(chain)),
        ["3 activations, 12 B", "x3", "scale-out (RDMA)", "GPU1: layer 4", "= max(z, 0)", "n10", "- target)²"],
    )
    yield (
        neural.chain_diagram(
            *backward, inputs, text, "Backward", [*primer.backward_key(chain), *primer_claims.adjustment_note()]
        ),
        ["3 deltas, 12 B", "rate 0.1", "w' = w", "0.1 x 2.0 = 0.2", "y  1.08   δ  0.865\nw  1.1, -0.2, 1.5"],
    )
    placed = primer.placed_transfers(layers, few)
    yield (
        neural.chain_diagram(cells, placed, primer.input_texts(layers[0]), text),
        ["weights 3 x 4 (48 B)", "2 activations", "weights 1 x 2 (8 B)"],
    )
    yield (
        neural.split_matrix_diagram(primer.split_weights(tensor)),
        [
            "4 x 8",
            "GPU1 (TP Rank 2): weights 2 x 8",
            "n4: y = 0.85",
            "z = 0.85",
        ],
    )
    gather = neural.gather_diagram(*primer.gather_states(tensor), note=primer.peer_note(tensor))
    yield gather, ["after step 1", "holds 16 B", "GPU1", "document: GPU0 synchronizes with GPU3"]


@pytest.mark.parametrize("number", range(5))
def test_diagrams_are_legible_and_say_what_they_must(number):
    figure, words = list(diagrams())[number]
    assert not legible.overlaps(figure)
    texts = [text for ax in figure.axes for text in ax.texts]
    assert min(text.get_fontsize() for text in texts) >= legible.MIN_TEXT_PT
    written = "\n".join(text.get_text() for text in texts)
    assert all(word in written for word in words), written


@pytest.mark.parametrize("neurons", [(6, 5, 4, 2), (1, 1, 1, 1), (9, 3, 3, 3)])
def test_other_widths_fit_their_boxes(neurons):
    run = primer.chain_run(neurons, SEED)
    names = primer.node_names(run)
    for phase in ("forward", "backward"):
        parts = primer.chain_cells(run, phase, names), primer.stage_transfers(run, phase, names)
        assert not legible.overlaps(neural.chain_diagram(*parts, primer.input_texts(run)))


def test_charts_draw_every_box_and_bar(three_d):
    line = rank_timeline(three_d.ranks, scale_up_time=0.25, scale_out_time=0.5)
    events = primer.step_events(line, ["backward", "after"])
    figure = rank_timelines.rank_gantt(events, primer.three_d_names(three_d), note=primer.LAYER_NOTE)
    assert figure.legends[0].get_title().get_text() == "number in a box: layer"
    assert sum(len(collection.get_paths()) for collection in figure.axes[0].collections) == len(events)
    ways = {"one": Strategy(), "two": Strategy(data=2)}
    table = comparison.strategy_traffic(FeedForward([4, 4]), ways, 4, 1)
    second = table["strategy"].unique()[1]
    marked = rank_timelines.strategy_bytes(table, marked=second).axes[0].get_yticklabels()
    assert [label.get_text() for label in marked if label.get_fontweight() == "bold"] == [second]
    bars = rank_timelines.strategy_bytes(table)
    widths = [patch.get_width() for patch in bars.axes[0].patches]
    assert sum(widths) == pytest.approx(table["bytes"].sum() / 1e3)
    far = sum(patch.get_width() for patch in bars.axes[0].patches if patch.get_hatch())
    assert far == pytest.approx(table["bytes"][table["link"] == "scale-out"].sum() / 1e3) and far > 0
    assert rank_timelines.rank_gantt(*primer.own_timeline(three_d, 0.25, 0.5)).axes[0].texts


def test_a_run_in_words(three_d):
    text = primer.run_text(three_d)
    assert "the same weights as" in text and "8 GPUs" in text and "tensor parallelism sends most (62.5%)" in text
    assert text.endswith(" Keep the ranks that send most in a node.")
    assert "differ" in primer.run_text(dataclasses.replace(three_d, learning_rate=0.2))
    alone = comparison.emulated_run(FeedForward([2, 2]), Strategy(), 1, 1)
    text = primer.run_text(alone)
    assert "sends nothing" in text and "over 1 GPU, the small network ends" in text and "in a node" not in text
