import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from railcore import catalog
from railcore.photonics import control_plane
from railcore.photonics.control_plane import CIRCUIT_STATES, ControlPlane
from suite.drawing.control import control_plane_figure

TIMES = "interception_s selection_s local_s message_s service_s configuration_s lookup_s command_s".split()
PLANE = ControlPlane(**dict.fromkeys(TIMES, 0.0), frontend_bytes=1e6)
planes = st.builds(ControlPlane, **dict.fromkeys(TIMES, st.floats(0, 1)), frontend_bytes=st.floats(0, 1e9))


@given(planes, st.integers(1, 64))
def test_overhead_is_the_sum_of_its_steps(plane, requests):
    first, cached, up = (plane.overhead_s(requests, state) for state in CIRCUIT_STATES)
    assert up == plane.interception_s + plane.selection_s
    assert first - cached == pytest.approx(plane.configuration_s - plane.lookup_s, abs=1e-9)
    expected = up + 4 * plane.message_s + 2 * plane.local_s + requests * plane.service_s + plane.command_s
    assert cached == pytest.approx(expected + plane.lookup_s)


@given(planes, st.floats(0, 1), st.integers(1, 6))
def test_sequence_of_ranks_that_call_at_once_takes_the_overhead_and_the_switch(plane, delay, ranks):
    table = control_plane.reconfiguration_sequence(plane, delay, {4 * rank: 0.5 for rank in range(ranks)})
    assert table["end_s"].max() - 0.5 == pytest.approx(plane.overhead_s(ranks, "first time") + delay)


@given(planes, st.lists(st.floats(0, 2), min_size=1, max_size=6))
def test_no_message_leaves_before_its_cause(plane, asked):
    table = control_plane.reconfiguration_sequence(plane, 0.01, dict(enumerate(asked)))
    by_rank = table.dropna(subset="rank").groupby("rank")
    assert len(by_rank) == len(asked)
    for _, steps in by_rank:
        early = steps[steps["number"] <= 5].sort_values("number")
        assert (early["start_s"].to_numpy()[1:] >= early["end_s"].to_numpy()[:-1]).all()
    served = table[table["number"] == 5].sort_values("start_s")
    assert (served["start_s"].to_numpy()[1:] >= served["end_s"].to_numpy()[:-1]).all(), "one request at a time"
    at = table.groupby("number")[["start_s", "end_s"]].agg(["min", "max"])
    assert at.loc[6, ("start_s", "min")] == at.loc[5, ("end_s", "max")], "the barrier waits for the last rank"
    assert at.loc[8, ("start_s", "min")] >= max(asked)
    assert np.ptp(table.loc[table["number"] == 12, "start_s"]) == 0, "all ranks start together"


def test_network_is_chosen_by_place_then_by_size():
    assert PLANE.network(1e9, within_domain=True) == "scale-up"
    assert [PLANE.network(size) for size in (0, 1e6 - 1, 1e6)] == ["frontend", "frontend", "circuits"]


def test_a_plane_of_the_catalog_and_its_bounds():
    low, value, high = (control_plane.catalog_control_plane(bound=bound) for bound in ("low", "value", "high"))
    rows = catalog.item("control_planes", "host-driven")
    assert value.message_s == rows["message_time"] and low.command_s == rows.row("command_time").low
    for state in CIRCUIT_STATES:
        assert low.overhead_s(2, state) < value.overhead_s(2, state) < high.overhead_s(2, state)
    with pytest.raises(catalog.UnknownName, match="host-driven"):
        control_plane.catalog_control_plane("host driven")


@given(planes, st.integers(1, 72), st.floats(0.5, 100), st.floats(0.1, 60))
def test_a_controller_is_busy_all_the_time_at_the_saturating_size(plane, domain, changes, iteration_s):
    work = plane.service_s + plane.lookup_s / 2
    assume(work == 0 or work > 1e-12)  # its inverse is a number
    for coalesced in (True, False):
        most = control_plane.saturating_gpus(plane, domain, changes, iteration_s, 2, coalesced)
        senders = most / (domain if coalesced else 1)
        assert most == np.inf if not work else senders * changes / iteration_s * work == pytest.approx(1)


@pytest.mark.parametrize("name", TIMES)
def test_negative_latency_is_named(name):
    with pytest.raises(ValueError, match=f"{name} is -1"):
        ControlPlane(**{**dict.fromkeys(TIMES, 0.0), name: -1}, frontend_bytes=0)


def test_drawing_has_every_message():
    plane = control_plane.catalog_control_plane()
    sequence = control_plane.reconfiguration_sequence(plane, 0.025, {0: 0.0, 4: 3e-4}, "AllGather")
    groups = {rank: [f"pipeline: {rank}, {rank + 8}, circuits"] for rank in (0, 4)}
    figure = control_plane_figure(sequence, groups, rails=4, title="one reconfiguration", source="times assumed")
    left, right = ([text.get_text() for text in ax.texts] for ax in figure.axes)
    assert set(map(str, sequence["number"])) <= set(left)
    assert sum(text.isdigit() for text in right) == sequence["number"].nunique()
    assert {"starts at\nrank 0; rank 4", "0 s; 300 µs", "27.526 ms"} <= set(right)
    moved = sequence.assign(number=sequence["number"] + 1)
    moved = control_plane_figure(moved, groups, rails=4, title="one reconfiguration", source="times assumed")
    stored = sequence.loc[sequence["message"] == "all ranks asked", "number"].iloc[0]
    assert f"in step {stored} the controller" in right[-1]
    assert f"in step {stored + 1} the controller" in moved.axes[1].texts[-1].get_text(), "no number is typed"
    shaded = [patch for patch in figure.axes[1].patches if patch.get_height() == 1]
    assert len(shaded) == 9, "steps 3 to 11 run ahead of the call"
    assert [sum(text.endswith(lines[0]) for text in left) for lines in groups.values()] == [1, 1], "each its own groups"
    plt.close(figure)
