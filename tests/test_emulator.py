"""Emulated ranks: collectives against NumPy, the log against the closed forms, memory against what is held."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.training.collectives import steps_and_bytes
from suite.emulator.ranks import EmulatedRanks, TransferLabel

LABEL = TransferLabel("forward", "tensor", layer=1, microbatch=0)
EXPECTED = {  # what NumPy says that each rank of a group gets
    "all_gather": lambda arrays: [np.concatenate(arrays)] * len(arrays),
    "reduce_scatter": lambda arrays: np.split(sum(arrays), len(arrays)),
    "all_reduce": lambda arrays: [sum(arrays)] * len(arrays),
    "all_to_all": lambda arrays: [
        np.concatenate([np.split(array, len(arrays))[t] for array in arrays]) for t in range(len(arrays))
    ],
}


@pytest.mark.parametrize("operation", EXPECTED)
@given(n=st.integers(1, 6), columns=st.integers(1, 3), element_bytes=st.sampled_from([2, 4]))
def test_collectives_equal_numpy_and_their_log_the_closed_form(operation, n, columns, element_bytes):
    ranks = EmulatedRanks(n + 1, 2, element_bytes)
    group, rng = list(range(n, 0, -1)), np.random.default_rng(n)
    arrays = [rng.normal(size=(2 * n, columns)) for _ in group]
    results = getattr(ranks, operation)(group, arrays, LABEL)
    for one, other in zip(results, EXPECTED[operation](arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    log = ranks.log
    if n == 1:
        assert log.empty
        return
    message = element_bytes * (results if operation == "all_gather" else arrays)[0].size
    algorithm = "direct" if operation == "all_to_all" else "ring"
    steps, size = steps_and_bytes(operation, algorithm, message, n)
    ports = [log.groupby(end).bytes.sum().max() for end in ("source", "target")]
    assert max(ports) == pytest.approx(float(size), rel=1e-12)
    (whole,) = ranks.logged_operations()
    assert log.step.max() + 1 == steps == whole.steps and whole.bytes == log.bytes.sum()
    near = log.source // 2 == log.target // 2
    assert ((log.link == "scale-up") == near).all()
    assert whole.link == ("scale-up" if near.all() else "scale-out")


@given(n=st.integers(2, 5), elements=st.integers(1, 12))
def test_what_does_not_divide_is_summed_without_padding(n, elements):
    ranks = EmulatedRanks(n, n, element_bytes=1)
    arrays = [np.arange(elements) * 10.0**r for r in range(n)]
    for total in ranks.all_reduce(range(n), arrays, LABEL):
        np.testing.assert_array_equal(total, sum(arrays))
    assert ranks.log.bytes.sum() == 2 * (n - 1) * elements


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
