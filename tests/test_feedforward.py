"""Feedforward networks on emulated ranks: equal to one rank, bytes equal to the closed forms, times by their rules."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.photonics.timetable import schedule
from railcore.training.parallelism import DIMENSIONS, Strategy
from suite.emulator.comparison import emulated_run
from suite.emulator.feedforward import FeedForward, ShardedFeedForward, emulated_sizes, layer_stages, one_rank_step
from suite.emulator.ranks import EmulatedRanks
from suite.emulator.timeline import rank_timeline

ORDER = ("tensor", "context", "pipeline", "data")


@st.composite
def cases(draw, tensor=3):
    """A network, a strategy that splits it, and the samples of a step."""
    t, d, m = draw(st.integers(1, tensor)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    layers = draw(st.integers(1, 4))
    widths = [draw(st.integers(1, 5)), *(t * draw(st.integers(1, 3)) for _ in range(layers))]
    order = draw(st.permutations(DIMENSIONS))
    group = draw(st.integers(1, 2))
    strategy = Strategy(tensor=t, pipeline=draw(st.integers(1, layers)), data=d, micro_batch=group, order=order)
    return FeedForward(widths, draw(st.sampled_from(["relu", "linear"]))), strategy, d * m * group


def trained(network, strategy, samples, hb_domain_size=2, seed=0, **options):
    """The ranks after a step, the step, and the same step on one rank."""
    weights, (inputs, targets) = network.initial_weights(seed), network.samples(samples, seed)
    ranks = EmulatedRanks(strategy.gpus, hb_domain_size, **options)
    step = ShardedFeedForward(network, strategy, ranks, weights).train(inputs, targets, 0.5)
    return ranks, step, one_rank_step(network, weights, inputs, targets, 0.5)


@given(case=cases(), seed=st.integers(0, 99))
def test_every_strategy_equals_one_rank(case, seed):
    _, step, alone = trained(*case, seed=seed)
    assert step.loss == pytest.approx(alone.loss, abs=1e-12)
    pairs = []
    for name in ("outputs", "deltas", "gradients", "weights"):
        pairs += zip(getattr(step, name), getattr(alone, name), strict=True)
    for replica in step.replicas:
        pairs += zip(replica, alone.weights, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_gradients_are_the_slope_of_the_loss():
    network = FeedForward([3, 4, 2], "linear")
    weights, (inputs, targets) = network.initial_weights(1), network.samples(5, 1)
    alone = one_rank_step(network, weights, inputs, targets, 0.1)
    for layer, matrix in enumerate(weights):
        for place in np.ndindex(matrix.shape):
            moved = [matrix.copy() for matrix in weights]
            moved[layer][place] += 1e-6
            slope = (one_rank_step(network, moved, inputs, targets, 0.1).loss - alone.loss) / 1e-6
            assert alone.gradients[layer][place] == pytest.approx(slope, abs=1e-5)


def ring_bytes(operation, elements, n):
    """What all ranks of a ring send together; elements: of the whole buffer."""
    return (2 if operation == "all_reduce" else 1) * (n - 1) * elements


@given(case=cases(), element_bytes=st.sampled_from([2, 4]))
def test_logged_bytes_are_those_of_the_shapes(case, element_bytes):
    network, strategy, samples = case
    t, d, stages = strategy.tensor, strategy.data, layer_stages(network.layers, strategy.pipeline)
    wanted = Counter()
    for layer, (outputs, inputs) in enumerate(network.shapes, start=1):
        wanted["forward", "tensor", layer] += ring_bytes("all_gather", outputs * samples, t)
        wanted["backward", "tensor", layer] += ring_bytes("all_reduce", inputs * samples, t) if layer > 1 else 0
        crosses = layer < network.layers and stages[layer] > stages[layer - 1]
        for phase in ("forward", "backward"):
            wanted[phase, "pipeline", layer] += outputs * samples * t * crosses  # each tensor rank sends the whole
        wanted["after", "data", layer] += ring_bytes("all_reduce", outputs * inputs, d)
    ranks, _, _ = trained(network, strategy, samples, element_bytes=element_bytes)
    logged = ranks.log.groupby(["phase", "kind", "layer"])["bytes"].sum()
    assert logged.to_dict() == {key: element_bytes * count for key, count in wanted.items() if count}


@given(case=cases())
def test_the_size_of_a_step_is_known_before_it_runs(case):
    network, strategy, samples = case
    ranks, _, _ = trained(network, strategy, samples, element_bytes=1)
    sizes = emulated_sizes(network, strategy, samples)
    assert sizes["sends"] == len(ranks.sends)
    assert sizes["elements"] <= 2 * ranks.peak_total_bytes and ranks.peak_total_bytes <= 2 * sizes["elements"]


@pytest.mark.parametrize(
    ("widths", "strategy", "samples", "message"),
    [
        (
            [1024, 4096, 4096, 1024],
            Strategy(tensor=8, data=12),
            96,
            "25,165,824 weights.*elements.*Give 625,000 weights",
        ),
        ([64, 64], Strategy(micro_batch=2 * 10**6), 2 * 10**6, r"256,008,192 elements.* 117,187 samples or fewer"),
        (
            [2048, 2048],
            Strategy(micro_batch=10**3),
            10**3,
            r"12,582,912,000 multiplications.*Give 794 samples or fewer",
        ),
        ([256, 256], Strategy(tensor=256), 8, "522,240 sends.*Give fewer GPUs or fewer micro-batches"),
    ],
)
def test_what_is_too_large_to_emulate_is_refused_with_what_would_fit(widths, strategy, samples, message):
    with pytest.raises(ValueError, match=message):
        emulated_run(FeedForward(widths), strategy, samples, 8)


@given(case=cases(tensor=2))
def test_weights_alone_are_held_after_a_step(case):
    network, strategy, samples = case
    ranks, _, _ = trained(network, strategy, samples, element_bytes=1)
    assert ranks.current_bytes.sum() == network.weights * strategy.data
    assert (ranks.peak_bytes > ranks.current_bytes).all()


def test_sent_activations_are_dropped():
    network = FeedForward([3, 3, 3, 3, 3])
    strategy = Strategy(pipeline=4, micro_batch=1)
    ranks = EmulatedRanks(4, 2, element_bytes=1)
    ShardedFeedForward(network, strategy, ranks, network.initial_weights()).predict(network.samples(1)[0])
    assert list(ranks.current_bytes) == [9] * 4
    # Input and output of a layer at once, and never two layers'.
    assert list(ranks.peak_bytes) == [9 + 6] * 4
    assert list(ranks.log.link) == ["scale-up", "scale-out", "scale-up"]


@given(p=st.integers(1, 4), m=st.integers(1, 6), each=st.integers(1, 2), back=st.sampled_from([1.0, 2.0]))
def test_idle_share_is_the_closed_form(p, m, each, back):
    network, strategy = FeedForward([2] * (p * each + 1)), Strategy(pipeline=p)
    for train in (False, True):
        ranks = EmulatedRanks(p, p)
        sharded = ShardedFeedForward(network, strategy, ranks, network.initial_weights())
        inputs, targets = network.samples(m)
        _ = sharded.train(inputs, targets, 0.1) if train else sharded.predict(inputs)
        line = rank_timeline(ranks, backward_time=back)
        assert line.idle_share == pytest.approx((p - 1) / (m + p - 1), abs=1e-12)
        assert line.peak_active() == min(p, m)
        assert line.table["end"].max() == pytest.approx(each * (m + p - 1) * (1 + back * train))
    whole = schedule("gpipe", p, m, 1.0, back)
    assert line.table["end"].max() == pytest.approx(each * whole.total_s)


def test_transfers_wait_for_what_they_send_and_are_waited_for():
    network, strategy = FeedForward([4] * 5), Strategy(tensor=2, pipeline=2, data=2, order=ORDER)
    ranks, _, _ = trained(network, strategy, 4, 2)
    line = rank_timeline(ranks, scale_up_time=0.25, scale_out_time=0.5)
    table = line.computations
    for _, part in table.groupby("rank"):
        ordered = part.sort_values("start")
        assert (ordered.end.to_numpy()[:-1] <= ordered.start.to_numpy()[1:] + 1e-12).all()
    moved = line.table[line.table["what"] != "compute"]
    for row in moved[moved["kind"] != "data"].itertuples():
        same = table[(table.microbatch == row.microbatch) & (table.phase == row.phase)]
        layer = row.layer + (row.phase == "backward" and row.kind == "pipeline")
        made = same[(same.layer == layer) & same["rank"].isin(row.ranks)]
        assert made.end.max() <= row.start + 1e-12
        used = same[(same.layer == row.layer + 1) & same["rank"].isin(row.ranks[-1:])]
        if row.phase == "forward" and len(used):
            assert used.start.min() >= row.end - 1e-12
    for row in moved[moved["kind"] == "data"].itertuples():
        assert row.start >= table[table["rank"].isin(row.ranks)].end.max() - 1e-12
    assert line.idle_share > rank_timeline(ranks).idle_share


def test_uneven_stages_come_first():
    assert layer_stages(5, 3) == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FeedForward([3]), "the inputs and the neurons of one layer or more"),
        (lambda: trained(FeedForward([4, 3, 2]), Strategy(tensor=2), 2), "3 neurons do not divide by tensor 2"),
        (lambda: trained(FeedForward([4, 4]), Strategy(pipeline=2), 2), "at most the network's 1 layers"),
        (lambda: trained(FeedForward([4, 4]), Strategy(context=2), 2), "context is 2.*give 1"),
        (lambda: trained(FeedForward([4, 4]), Strategy(data=2, micro_batch=2), 6), "give a multiple of data x"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("tensor", "pipeline"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_a_replica_computes_with_its_own_weights_alone(tensor, pipeline):
    """Replicas with different weights: each has the outputs and deltas of one rank with those weights."""
    network, strategy = FeedForward([4] * 4), Strategy(tensor=tensor, pipeline=pipeline, data=2, order=ORDER)
    weights, (inputs, targets) = network.initial_weights(), network.samples(4)
    sharded = ShardedFeedForward(network, strategy, ranks := EmulatedRanks(strategy.gpus, 2), weights)
    for layer in range(1, 4):
        for rank in sharded.group(layer, 1):
            ranks.held(rank, f"weights {layer}")[:] *= 1 + layer / 4
    step = sharded.train(inputs, targets, 0.5)
    matrices = (weights, [(1 + layer / 4) * matrix for layer, matrix in enumerate(weights, start=1)])
    alone = [one_rank_step(network, matrices, inputs, targets, 0.5) for matrices in matrices]
    for name in ("outputs", "deltas"):
        for results, first, second in zip(*(getattr(run, name) for run in (step, *alone)), strict=True):
            np.testing.assert_allclose(results, np.hstack([first[:, :2], second[:, 2:]]), rtol=0, atol=1e-12)
