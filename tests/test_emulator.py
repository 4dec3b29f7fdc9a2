"""Emulated ranks: collectives against NumPy, the log against the closed forms, memory against what is held."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.engines.emulator.ranks import SWITCH_RANK, EmulatedRanks, TransferLabel
from railcore.training.collectives import ALGORITHM_COSTS, steps_and_bytes

LABEL = TransferLabel("forward", "tensor", layer=1, microbatch=0)
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all")
CASES = [(op, name, cost) for op in COLLECTIVES for name, cost in ALGORITHM_COSTS[op].items()]


def performed(ranks, operation, group, arrays, axis):
    """What a collective gives each rank, and what NumPy says it should give."""
    n, total = len(group), sum(arrays)
    if operation == "broadcast":
        return ranks.broadcast(group, arrays[0], LABEL), [arrays[0]] * n
    if operation == "all_reduce":
        return ranks.all_reduce(group, arrays, LABEL), [total] * n
    found = getattr(ranks, operation)(group, arrays, LABEL, axis=axis)
    if operation == "all_gather":
        return found, [np.concatenate(arrays, axis=axis)] * n
    if operation == "reduce_scatter":
        return found, np.split(total, n, axis=axis)
    slices = [np.split(array, n, axis=axis) for array in arrays]
    return found, [np.concatenate([own[t] for own in slices], axis=axis) for t in range(n)]


@pytest.mark.parametrize(("operation", "algorithm", "cost"), CASES)
@given(n=st.integers(1, 6), columns=st.integers(1, 3), axis=st.integers(0, 1), element_bytes=st.sampled_from([2, 4]))
def test_collectives_equal_numpy_and_their_log_the_closed_form(
    operation, algorithm, cost, n, columns, axis, element_bytes
):
    if cost.powers_of_two and n & (n - 1):
        n = 4
    ranks = EmulatedRanks(n + 1, 2, element_bytes=element_bytes, algorithms={operation: algorithm})
    group, rng = list(range(n, 0, -1)), np.random.default_rng(n)
    arrays = [rng.normal(size=(2 * n, 2 * n * columns)) for _ in group]
    found, wanted = performed(ranks, operation, group, arrays, axis)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    log = ranks.log
    if n == 1:
        assert log.empty
        return
    message = element_bytes * (found if operation == "all_gather" else arrays)[0].size
    steps, size = steps_and_bytes(operation, algorithm, message, n)
    ports = [log[log[end] != SWITCH_RANK].groupby(end).bytes.sum().max() for end in ("source", "target")]
    assert max(ports) == pytest.approx(float(size), rel=1e-12)
    assert log.step.max() + 1 == steps
    assert set(log.message_bytes) == {message}


@given(n=st.integers(2, 5), elements=st.integers(1, 12))
def test_what_does_not_divide_is_summed_without_padding(n, elements):
    ranks = EmulatedRanks(n, n, element_bytes=1)
    arrays = [np.arange(elements) * 10.0**r for r in range(n)]
    for found in ranks.all_reduce(range(n), arrays, LABEL):
        np.testing.assert_array_equal(found, sum(arrays))
    assert ranks.log.bytes.sum() == 2 * (n - 1) * elements


def test_links_are_those_of_the_placement():
    ranks = EmulatedRanks(4, nodes=[0, 1, 0, 1])
    for target in (1, 2, 3):
        ranks.send(0, target, np.zeros(3), LABEL)
    assert list(ranks.log.link) == ["scale-out", "scale-up", "scale-out"]
    ring = EmulatedRanks(4, 2)
    ring.all_gather([0, 1, 2, 3], [np.zeros(1)] * 4, LABEL)
    near = ring.log.source // 2 == ring.log.target // 2
    assert ((ring.log.link == "scale-up") == near).all() and near.sum() == 2 * 3
    assert list(ring.operations.link) == ["scale-out"]
    switched = EmulatedRanks(4, 2, algorithms={"all_reduce": "in_network"})
    switched.all_reduce([0, 1], [np.zeros(2)] * 2, LABEL)
    switched.all_reduce([1, 2], [np.zeros(2)] * 2, LABEL)
    assert switched.log.groupby("order").link.unique().map(list).to_list() == [["scale-up"], ["scale-out"]]


def test_what_arrives_is_a_copy():
    ranks, array = EmulatedRanks(2, 2), np.ones(2)
    arrived = ranks.send(0, 1, array, LABEL)
    array += 1
    np.testing.assert_array_equal(arrived, [1, 1])


def test_memory_is_what_is_held():
    ranks = EmulatedRanks(2, 2, element_bytes=2)
    ranks.hold(0, "weights", np.zeros((3, 4)))
    ranks.hold(1, "output", np.zeros(5))
    ranks.hold(0, "weights", np.zeros(2))  # in place of the first
    ranks.free(1, "output")
    assert list(ranks.current_bytes) == [4, 0]
    assert list(ranks.peak_bytes) == [24, 10]
    assert ranks.peak_total_bytes == 34
    ranks.hold(1, "velocity", np.zeros(3), element_bytes=4)
    assert ranks.current_bytes[1] == 12
    table = ranks.memory
    assert list(table.total_bytes) == list(table.bytes.cumsum())
    ranks.free(1, "velocity")
    with pytest.raises(ValueError, match="rank 1 does not hold it; it holds nothing"):
        ranks.held(1, "output")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EmulatedRanks(4), "give one of the two"),
        (lambda: EmulatedRanks(4, nodes=[0]), "one for each of 4 ranks"),
        (lambda: EmulatedRanks(4, 2, algorithms={"all_reduce": "star"}), "ring"),
        (lambda: EmulatedRanks(4, 2, algorithms={"gather": "ring"}), "all_gather"),
        (lambda: TransferLabel("sideways", "tensor"), "forward"),
        (lambda: TransferLabel("forward", "gossip"), "pipeline"),
        (lambda: EmulatedRanks(4, 2).send(0, 0, np.zeros(1), LABEL), "different ranks from 0 to 3"),
        (lambda: EmulatedRanks(4, 2).reduce_scatter([0, 1], [np.zeros(3)] * 2, LABEL), "a multiple of the group's 2"),
        (lambda: EmulatedRanks(4, 2).all_gather([0, 1], [np.zeros(3), np.zeros(2)], LABEL), "same shape"),
        (
            lambda: EmulatedRanks(2, 2, algorithms={"all_gather": "bidirectional_ring"}).all_gather(
                [0, 1], [np.zeros(3)] * 2, LABEL
            ),
            "give a multiple, or algorithms=.*'ring'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
