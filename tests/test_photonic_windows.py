"""photonic2025's measured windows, the limits of few ports, and the windows of computed schedules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.documents.photonic2025 import trace
from railcore.facts import catalog
from railcore.systems import ring_limits
from railcore.training.parallelism import Strategy


def test_the_measured_windows_are_those_that_the_authors_tell_of():
    table = trace.measured_windows(None)
    assert table.groupby(["rail", "iteration"]).size().eq(8).all() and len(table) == 4 * 10 * 8
    first = trace.measured_windows()
    assert (first["duration_s"] > 1e-3).sum() == 61
    classes = trace.window_classes(first).set_index("after")
    assert classes["windows"].to_dict() == {"PP": 3, "AG": 2, "RS": 2, "AR": 1}
    assert classes.loc["RS", "duration_s"] == pytest.approx(0.99752, abs=1e-5)
    assert (trace.measured_phases(None)["duration_s"] > 0).all()  # windows and traffic take turns


def test_bytes_of_the_trace_are_those_of_the_model():
    """Stage 0: embedding and 16 layers of 218,103,808 weights over 4 tensor ranks, and 32 norms that are not split."""
    first, last = ((128256 * 4096 + 16 * 218_103_808) // 4 + 4096 * norms for norms in (32, 33))
    volumes = trace.measured_windows(None).groupby("after")["volume_after_bytes"].unique()
    gathered = {int(x) for x in volumes["AG"]} - {16}  # after the last iteration nothing is gathered
    assert gathered == {first, last}  # 2 bytes over two ranks
    assert {int(x) for x in volumes["RS"]} == {4 * last, 4 * first + 8}
    assert {int(x) for x in volumes["PP"]} == {4 * 8192 * 4096 * 2 // 4}


@given(st.floats(0, 10), st.floats(0, 10))
def test_replay_without_provisioning_is_linear_and_with_it_never_slower(one, other):
    low, high = sorted((one, other))
    base = trace.measured_run()["iteration_time"]
    for provisioning in (False, True):
        times = trace.replayed_iteration_times([0.0, low, high], provisioning)
        assert times[0] == base and times[1] <= times[2]
    plain = trace.replayed_iteration_times(low, False)
    assert plain == pytest.approx(base + 8 * low)
    longest = trace.measured_windows()["duration_s"].max()
    saved = plain - trace.replayed_iteration_times(low, True)
    assert -1e-9 <= saved <= 8 * min(low, longest) + 1e-9


def test_replay_of_given_windows():
    windows = trace.measured_windows(1)
    assert trace.replayed_iteration_times(0.1, False, windows, 10.0) == pytest.approx(10.8)
    assert trace.replayed_iteration_times(1e6, True, windows, 10.0) == pytest.approx(
        10 + 8e6 - windows["duration_s"].sum() / 10
    )
    with pytest.raises(ValueError, match="delays_s is"):
        trace.replayed_iteration_times(-1.0, True)
    with pytest.raises(ValueError, match="rail is 4"):
        trace.measured_windows(4)


@given(st.integers(1, 10).map(lambda k: 2**k))
def test_a_ring_never_takes_fewer_steps_than_recursive_doubling(ranks):
    ratio = ring_limits.ring_step_ratio(ranks)
    assert ratio == pytest.approx(2 * (ranks - 1) / np.log2(ranks))
    assert ratio > 1


def test_rings_take_the_ports_of_their_neighbours():
    assert ring_limits.ring_ports([1, 2, 3, 1024]).tolist() == [0, 1, 2, 2]
    assert ring_limits.most_ring_groups([0, 1, 2, 4, 5]).tolist() == [0, 0, 1, 2, 2]


@given(st.integers(1, 16), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_static_partition_hands_out_no_port_twice(ports, members):
    groups = {f"group {i}": size for i, size in enumerate(members)}
    table = ring_limits.static_port_partition(groups, ports, 1.0)
    assert table["ports"].sum() <= ports and table["bandwidth_Bps"].sum() <= 1.0 + 1e-12
    assert ((table["ports"] == 0) | (table["ports"] >= table["needed_ports"])).all()
    if table["needed_ports"].sum() <= ports:
        assert ((table["ports"] > 0) == (table["members"] > 1)).all()


@given(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4]), st.booleans())
def test_neighbours_of_a_rank_by_the_sizes_of_its_groups(tensor, data, pipeline, ring):
    strategy = Strategy(tensor=tensor, data=data, pipeline=pipeline, interleave=2 if ring and pipeline > 1 else 1)
    table = ring_limits.ring_neighbours(strategy, tensor)
    each = {1: 0, 2: 1}
    assert (table["tensor"] == each.get(tensor, 2)).all() and (table["data"] == each.get(data, 2)).all()
    chain = {1: [0], 2: [1]}.get(pipeline, [2] if ring else [1, 2])
    assert sorted(table["pipeline"].unique()) == chain
    assert (table["neighbours"] == table[["tensor", "context", "data", "pipeline"]].sum(axis=1)).all()
    assert (table["on_rail"] == table["data"] + table["pipeline"]).all()  # the tensor ranks fill the HB domain


def test_every_mode_of_a_nic_has_its_rate():
    for nic in catalog.names("nics"):
        modes = ring_limits.nic_port_modes(nic)
        assert len(modes) and (modes["over_rate"] == 1).all()
    with pytest.raises(ValueError, match="'ConnectX-9' does not exist"):
        ring_limits.nic_port_modes("ConnectX-9")
