"""One-way delay of a path: its parts, its limiting cases, and the cables at which a bound breaks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import Gbps, ns, us
from railcore.deploy import cabling
from railcore.transport import delay
from railcore.transport.delay import DelayPath

PATH = DelayPath("ConnectX-7", ["SN5600"] * 3, "400 Gbps", 4096)
switches = st.lists(st.sampled_from(catalog.names("latencies")), max_size=5)


def test_parts_add_up_and_the_last_row_is_all_of_them():
    table = PATH.table([2, 30, 30, 2])
    parts, whole = table.iloc[:-1], table.iloc[-1]
    assert whole["part"] == "in all" and parts["count"].to_list() == [2, 3, 4, 1, 1]
    for i, column in enumerate(delay.DELAYS):
        assert whole[column] == pytest.approx(parts[column].sum()) == PATH.delay_s(64)[i]
    assert whole["low_s"] < whole["delay_s"] < whole["high_s"]


def test_a_cable_alone_is_its_propagation():
    bare = DelayPath("ConnectX-7", [], 400 * Gbps, 1e-9, code="")
    ends = 2 * delay.latency("ConnectX-7")
    assert bare.delay_s(1000.0) - ends == pytest.approx(np.array([4897.4, 4876.7, 5000]) * ns)
    assert bare.delay_s(0.0) == pytest.approx(ends)


def test_packets_are_sent_once_by_cut_through_and_on_every_link_else():
    waits = DelayPath("ConnectX-7", ["SN5600"] * 3, 400 * Gbps, 4096, store_and_forward=True)
    assert waits.fixed_s - PATH.fixed_s == pytest.approx([3 * 4096 / (400 * Gbps)] * 3)


def test_error_correction_waits_for_its_codewords():
    waiting = delay.correction_delay(400 * Gbps) - delay.latency("KP4 decoder")
    assert waiting == pytest.approx(np.array([2, 2, 4]) * 514 * 10 / 400e9)
    without = DelayPath("ConnectX-7", ["SN5600"] * 3, 400 * Gbps, 4096, code="")
    assert PATH.fixed_s - without.fixed_s == pytest.approx(4 * delay.correction_delay(400 * Gbps))


@given(switches, st.floats(0, 5000), st.floats(64, 9000))
def test_delay_grows_with_switches_cables_and_packets(names, cables, packet):
    path = DelayPath("ConnectX-7", names, 400 * Gbps, packet)
    value, low, high = path.delay_s(cables)
    assert 0 < low <= value <= high
    assert all(path.delay_s(cables + 1) > path.delay_s(cables))
    assert all(DelayPath("ConnectX-7", [*names, "SN5600"], 400 * Gbps, packet).fixed_s > path.fixed_s)
    assert all(DelayPath("ConnectX-7", names, 800 * Gbps, packet).fixed_s < path.fixed_s)


@given(switches, st.floats(2, 50))
def test_the_longest_cables_just_keep_the_bound(names, bound_us):
    path = DelayPath("ConnectX-7", names, 400 * Gbps, 4096)
    for i, metres in enumerate(path.longest_cables_m(bound_us * us)):
        assert path.delay_s(metres)[i] == pytest.approx(max(bound_us * us, path.fixed_s[i]))


def test_a_hall_gives_cables_up_and_down_again():
    hall = cabling.catalog_floor("GPU hall")
    small, large = (delay.hall_cables(hall, racks, 4, [64]) for racks in (64, 1024))
    assert small == small[::-1] and len(small) == 4 and sum(large) > sum(small)
    lengths = cabling.rail_link_lengths(hall, 1024, 4, [64])
    assert large[:2] == [each.max() for each in lengths]
