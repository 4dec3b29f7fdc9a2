import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_link_bytes import jobs

from railcore.catalog.units import show
from railcore.training import collectives, traffic, transfers
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.transfers import Transfer
from railcore.training.transformer import Transformer, catalog_model
from suite.emulator.collective_schedules import (
    collective_schedule,
    count_bytes,
    domain_rail_bytes,
    hierarchical_schedule,
)
from suite.railonly2023.two_stage import TwoStage
from suite.railonly2023.two_stage_figures import two_stage_matrix
from suite.railonly2025 import dense_traffic

SMALL = Transformer("small", 8, 64, 8, 4, 96, 1000, 48, ffn_matrices=3, tied_embeddings=False)
TIED = dataclasses.replace(SMALL, tied_embeddings=True, positions=48, ffn_matrices=2)
PLAIN = Runtime(gradient_bytes=2, scatter_gather=False)
PAPER = TwoStage(96, 12288, 12 * 12288**2 * 2, 6, 8, 2, 1, 1, 1)


@st.composite
def runs(draw):
    """Steps of test_link_bytes.py whose tokens go to their experts straight."""
    model, strategy, batch, runtime, _ = draw(jobs().filter(lambda job: job[1].gpus > 1))
    return model, strategy, batch, dataclasses.replace(runtime, dispatcher="copies")


def dense(matrix):
    gpus = len(matrix.targets)
    whole = np.zeros((gpus, gpus))
    for source, (targets, size) in enumerate(zip(matrix.targets, matrix.bytes, strict=True)):
        assert len(set(targets[size > 0])) == np.count_nonzero(size)
        whole[source, targets] += size
    return whole


@given(runs(), st.sampled_from(["ring", "bidirectional_ring", "direct"]))
def test_rows_sum_to_the_bytes_sent(run, algorithm):
    strategy = run[1]
    kinds = ("tensor", "sequence", "context", "data", "pipeline")
    found = traffic.iteration_traffic(*run, dict.fromkeys(kinds, algorithm))
    stage = strategy.coordinates(np.arange(strategy.gpus))["pipeline"]
    for kind, part in found.matrices.items():
        rows = [row for row in transfers.step_transfers(*run) if row.kind == kind]
        expected = np.zeros(strategy.gpus)
        for row in rows:
            expected += row.calls * row.message_bytes * traffic_share(row) * row.stage_weights(strategy)[stage]
        whole = dense(part)
        assert whole.sum(axis=1) == pytest.approx(expected), kind
        if kind != "pipeline":  # symmetric collectives give every rank what it gives
            assert whole.sum(axis=0) == pytest.approx(expected), kind


def traffic_share(row):
    if row.operation == "send_receive":
        return 1.0
    return float(collectives.steps_and_bytes(row.operation, "direct", 1.0, row.ranks)[1])


@given(runs(), st.data())
def test_the_summary_is_the_dense_matrix_counted(run, data):
    gpus = run[1].gpus
    found = traffic.iteration_traffic(*run, {"data": data.draw(st.sampled_from(["ring", "direct"]))})
    size = data.draw(st.integers(1, gpus))
    rails = data.draw(st.integers(1, size))
    table = found.summary(size, rails).set_index("kind")
    whole = {kind: dense(part) for kind, part in found.matrices.items()}
    whole["all"] = sum(whole.values())
    rank = np.arange(gpus)
    within = rank[:, None] // size == rank // size
    aligned = (rank % size % rails)[:, None] == rank % size % rails
    for kind, matrix in whole.items():
        row = table.loc[kind]
        assert row.pairs == np.count_nonzero(matrix)
        assert row.share_of_pairs == pytest.approx(row.pairs / (gpus * (gpus - 1)))
        assert row.share_of_bytes == pytest.approx(matrix.sum() / whole["all"].sum())
        assert row.domain_pair_bytes == pytest.approx((matrix * within).max())
        assert row.network_pair_bytes == pytest.approx((matrix * ~within).max())
        assert row.domain_gpu_bytes == pytest.approx((matrix * within).sum(axis=1).max())
        assert row.nic_bytes == pytest.approx((matrix * ~within).sum(axis=1).max())
        assert row.network_bytes == pytest.approx((matrix * ~within).sum())
        assert row.cross_rail_bytes == pytest.approx((matrix * ~within * ~aligned).sum())
    kinds = sum(matrix > 0 for kind, matrix in whole.items() if kind != "all")
    assert found.shared_pairs == np.count_nonzero(kinds > 1)
    silent = traffic.traffic_summaries({"one": found}, size)["silent_pairs"]
    assert silent.to_numpy() == pytest.approx(1 - np.count_nonzero(kinds) / (gpus * (gpus - 1)))
    assert found.dense() == pytest.approx(whole["all"])
    last = data.draw(st.integers(1, gpus))
    drawn = found.entries(0, last).groupby(["source", "target"])["bytes"].sum()
    assert drawn.sum() == pytest.approx(whole["all"][:last, :last].sum())


def one(operation, ranks):
    return Transfer("tensor", "forward", operation, "layer", "tensor", "every", 1, 1.0, ranks)


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("algorithm", ["ring", "bidirectional_ring", "direct"])
@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
def test_entries_are_those_of_the_counted_schedule(operation, algorithm, ranks):
    form = "direct" if operation == "all_to_all" else algorithm
    found = traffic.from_transfers(Strategy(tensor=ranks), [one(operation, ranks)], {"tensor": algorithm})
    schedule = collective_schedule(operation, form, ranks)
    # In an all-to-all the message is what one rank sends, ranks x parts of the schedule's blocks.
    counted = count_bytes(schedule, 1 / (ranks * schedule.parts)).pairs
    expected = np.zeros((ranks, ranks))
    for (source, target), sent in counted.items():
        expected[source, target] = sent
    matrix = dense(found.matrices["tensor"])
    if form == "bidirectional_ring":  # the schedule may begin the other way
        expected, matrix = expected + expected.T, matrix + matrix.T
    assert matrix == pytest.approx(expected)


def test_a_tree_carries_the_buffer_up_and_down():
    for ranks in (2, 3, 7, 8):
        found = traffic.from_transfers(Strategy(tensor=ranks), [one("all_reduce", ranks)], {"tensor": "tree"})
        counted = count_bytes(collective_schedule("all_reduce", "tree", ranks), 1 / ranks).pairs
        matrix = dense(found.matrices["tensor"])
        assert {pair: matrix[pair] for pair in counted} == pytest.approx(counted)
        assert np.count_nonzero(matrix) == len(counted) == 2 * (ranks - 1)


@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "all_reduce"])
def test_a_hierarchical_collective_is_its_counted_schedule(operation):
    for x, y in ((2, 3), (4, 2), (3, 3)):
        row = one(operation, x * y)._replace(kind="data", group="data")
        found = traffic.from_transfers(Strategy(data=x * y), [row], {"data": "hierarchical"}, x)
        schedule = hierarchical_schedule(operation, x, y)
        counted = domain_rail_bytes(schedule, 1.0, x)
        table = found.summary(x).set_index("kind")
        assert table.loc["data within", "bytes"] == pytest.approx(counted.by_domain.sum())
        assert table.loc["data between", "bytes"] == pytest.approx(counted.by_rail.sum())
        assert table.loc["all", "cross_rail_bytes"] == counted.across_rails == 0


@pytest.mark.parametrize("n_m", [1, 2, 8])
@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_two_stages_send_the_terms_of_equation_1(n_m, algorithm):
    n, k, b = 64, 8, 1e6
    found = two_stage_matrix(PAPER, n, k, b, n_m, algorithm)
    seconds = PAPER.iteration(n, k, b, n_m)  # its bandwidths are 1 byte/s
    terms = {"tensor": "model_parallel_s", "data within": "second_dp_s", "data between": "first_dp_s"}
    for kind, term in terms.items():
        expected = float(getattr(seconds, term))
        sent = found.matrices[kind].bytes.sum(axis=1) if kind in found.matrices else np.zeros(n)
        assert sent == pytest.approx(np.full(n, expected)), kind
    table = found.summary(k).set_index("kind")
    assert found.shared_pairs == 0 and table.loc["all", "cross_rail_bytes"] == 0
    if algorithm == "direct":
        assert table.loc["all", "pairs"] == n * (n_m - 1 + k // n_m - 1 + n // k - 1)


def test_gpt_1t_by_hand():
    model, strategy = catalog_model("GPT-1T"), Strategy(tensor=8, pipeline=64, data=6, sequence_parallel=True)
    u = 2048 * 25600 * 2
    strategy = dataclasses.replace(strategy, keep_gathered=True)
    table = transfers.transfer_table(model, strategy, 3072, PLAIN, embeddings=False)
    inside = table[table["kind"] == "sequence"]
    assert inside["calls"].sum() == 8 * 2 * 512 and (inside["message_bytes"] == u).all()
    assert inside["sent_bytes"].sum() == 8 * 2 * 512 * u * 7 / 8
    anew = dataclasses.replace(strategy, keep_gathered=False)
    again = transfers.transfer_table(model, anew, 3072, PLAIN, embeddings=False)
    assert again.loc[again["kind"] == "sequence", "calls"].sum() == 10 * 2 * 512


def test_what_is_kept_is_gathered_once():
    strategy = Strategy(context=2, data=2, sharding="weights", recompute="full")
    anew, kept = (
        transfers.transfer_table(SMALL, strategy, 8, PLAIN, embeddings=False, kept=names).set_index(
            ["kind", "pass", "operation"]
        )["calls"]
        for names in ((), ("weights", "keys"))
    )
    assert kept["data", "forward", "all_gather"] == anew["data", "forward", "all_gather"] / 4  # micro-batches
    assert kept["context", "forward", "all_gather"] == anew["context", "forward", "all_gather"]
    gone = set(anew.index) - set(kept.index)
    passes = {("data", "backward"), ("context", "backward"), ("context", "recompute")}
    assert gone == {(*where, "all_gather") for where in passes}
    rest = kept.drop([("data", "forward", "all_gather")])
    assert rest.equals(anew[rest.index])
    zero1 = Strategy(data=4, sharding="optimizer")  # weights for the next step
    tables = [transfers.transfer_table(SMALL, zero1, 8, PLAIN, kept=names) for names in ((), ("weights",))]
    assert tables[0].equals(tables[1])
    with pytest.raises(ValueError, match="kept is 'gradients': give one of weights, keys"):
        transfers.transfer_table(SMALL, zero1, 8, PLAIN, kept=["gradients"])


def sent(model, strategy, kind, gradient_bytes=2):
    runtime = Runtime(gradient_bytes=gradient_bytes)
    table = transfers.transfer_table(model, strategy, 16, runtime, embeddings=False)
    return table.loc[table["kind"] == kind, "sent_bytes"].sum()


def test_sharding_moves_what_zero_says():
    every = {name: Strategy(data=4, sharding=name) for name in ("none", "optimizer", "gradients", "weights")}
    plain = sent(SMALL, every["none"], "data")
    assert sent(SMALL, every["optimizer"], "data") == pytest.approx(plain)  # stage 1 costs no byte more
    m = 16 // 4
    assert sent(SMALL, every["gradients"], "data") == pytest.approx(plain / 2 * (m + 1))
    assert sent(SMALL, every["weights"], "data") == pytest.approx(plain / 2 * 3 * m)
    assert sent(SMALL, every["none"], "data", gradient_bytes=4) == pytest.approx(2 * plain)


def test_experts_talk_to_all_of_their_group_alike():
    model = catalog_model("MoE-1.3B")
    found = traffic.iteration_traffic(model, Strategy(data=128, expert=128), 512)
    assert repr(found) == repr(traffic.iteration_traffic("MoE-1.3B", Strategy(data=128, expert=128), 512))
    part = found.matrices["expert"]
    assert "128 GPUs" in repr(found) and f"expert {show(part.bytes.sum(), 'B', 4)}" in repr(found)
    assert np.count_nonzero(part.bytes) == 128 * 127 and np.ptp(part.bytes) == 0
    # 12 mixture layers, there and back, forward and backward, 4 micro-batches, a 128th of 2,048 tokens each
    assert part.bytes[0, 0] == pytest.approx(12 * 4 * 4 * 2048 * 2048 * 2 / 128)
    rings = traffic.iteration_traffic(model, Strategy(data=128, expert=64), 512)
    assert np.count_nonzero(rings.matrices["data"].bytes[0]) == 2  # of shared parameters, and of the experts' replicas


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_tensor_ranks_keep_equal_a_table_of_tokens_together(tensor):
    """Their slices of the embedding's gradients sum to the whole embedding, at both ends; the norm is on each."""
    table = transfers.transfer_table(TIED, Strategy(tensor=tensor, pipeline=2, data=2), 16, PLAIN)
    ends = table[(table["kind"] == "data") & (table["stages"] != "every")].set_index("stages")["message_bytes"]
    words, places, norm = 1000 * 64, 48 * 64, 2 * 64
    assert ends["first"] * tensor == (words + places) * 2 and ends["last"] * tensor == (words + tensor * norm) * 2
    tied = table[(table["kind"] == "pipeline") & (table["operation"] == "all_reduce")]
    assert tied["message_bytes"].item() * tensor == words * 2


def test_an_interleaved_pipeline_wraps():
    plain = traffic.iteration_traffic(SMALL, Strategy(pipeline=4), 8, embeddings=False).matrices["pipeline"]
    turned = traffic.iteration_traffic(SMALL, Strategy(pipeline=4, interleave=2), 8, embeddings=False)
    u = 48 * 64 * 2
    line, loop = dense(plain), dense(turned.matrices["pipeline"])
    assert line[0, 1] == line[1, 0] == 8 * u and line[3, 0] == line[0, 3] == 0
    assert loop[0, 1] == loop[1, 0] == 16 * u and loop[3, 0] == loop[0, 3] == 8 * u


def test_a_large_iteration_is_never_dense():
    found = two_stage_matrix(PAPER, 32768, 256, 32e6, 4)
    held = sum(part.targets.nbytes for part in found.matrices.values())
    assert held < 32768**2 / 10 and found.gpus == 32768
    assert found.summary(256)["share_of_pairs"].iloc[-1] == pytest.approx((3 + 63 + 127) / 32767)


def test_readings_of_the_largest_entry_are_halves_and_doubles_of_each_other():
    strategy = Strategy(tensor=4, data=4, pipeline=2, sequence_parallel=True)
    found = dense_traffic.entry_readings(SMALL, strategy, 16, 4, ["sequence", "data"])
    one, both, again = (found.loc[f"ring, {case}"] for case in ("one pass", "both passes", "inputs gathered again"))
    assert both.domain_pair_bytes == 2 * one.domain_pair_bytes
    assert again.domain_pair_bytes == pytest.approx(2.5 * one.domain_pair_bytes)
    ways = found.loc["bidirectional ring, both passes"]
    assert ways.domain_pair_bytes == pytest.approx(both.domain_pair_bytes / 2)
    assert ways.data_pair_bytes == pytest.approx(both.data_pair_bytes / 2)
    assert (found.filter(like="with the ends", axis=0).nic_bytes >= one.nic_bytes).all()
    counted = dense_traffic.counted_transfers(SMALL, strategy, 16, ["forward"], False)
    whole = traffic.from_transfers(strategy, counted)
    assert len(set(dense_traffic.stage_entries(whole, strategy, 1)["source"])) == 16
    assert set(dense_traffic.stage_entries(whole, strategy, 2)["source"]) == set(range(32))


def test_all_gathers_are_counted_as_printed_but_for_the_network_of_all_rails():
    table = dense_traffic.counted_all_gathers([(2, 2), (4, 3), (5, 7)])
    assert table["one_rail"].to_numpy() == pytest.approx(table["D(y-1)/x"])
    assert table["network"].to_numpy() == pytest.approx(table["x"] * table["one_rail"])
    assert table["domain"].to_numpy() == pytest.approx(table["D(x-1)"]) and not table["across_rails"].any()
