import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.facts import catalog
from railcore.facts.units import hour, year
from railcore.network import reliability
from railcore.network.reliability import checkpoint_interval, expected_failures, goodput, mean_time_between_failures
from railcore.network.topology import fat_tree, rail_only

PARTS = ("GPU", "NIC", "HB switch", "switch", "transceiver", "link")
MTBF, CHECKPOINT = st.floats(1e3, 1e8), st.floats(1, 300)
COUNTS = st.lists(st.integers(0, 100_000), min_size=len(PARTS), max_size=len(PARTS))


def test_parts_at_risk_are_those_of_the_fabric():
    fabric = rail_only(60, 8, 8, planes=2, hb_switches=4)
    assert reliability.parts_at_risk(fabric) == {
        "GPU": 60,
        "NIC": 60,
        "HB switch": 8 * 4,
        "switch": fabric.parts.switches,
        "transceiver": 2 * fabric.parts.links,
        "link": fabric.parts.links,
    }
    assert reliability.parts_at_risk(fat_tree(8, 4))["HB switch"] == 0


@given(COUNTS, COUNTS, st.floats(0, 64))
def test_failures_grow_with_the_parts(some, others, stopped):
    sums = [a + b for a, b in zip(some, others, strict=True)]
    one, two, both = (
        expected_failures(dict(zip(PARTS, counts, strict=True)), dict.fromkeys(PARTS, stopped))
        for counts in (some, others, sums)
    )
    for column in ("events_per_year", "parts_down", "lost_gpu_hours_per_year"):
        assert list(both[column]) == pytest.approx(list(one[column] + two[column]))


def test_a_years_failures_by_hand():
    row = expected_failures({"GPU": 1000}, {"GPU": 8}).iloc[0]
    item = catalog.item("failure_rates", "GPU")
    a_year, hours = item["failure_rate"] * year, item["repair_time"] / hour
    assert row.events_per_year == pytest.approx(1000 * a_year)
    assert row.parts_down == pytest.approx(1000 * a_year * hours / (365 * 24))
    assert row.lost_gpu_hours_per_year == pytest.approx(1000 * a_year * hours * 8)
    assert mean_time_between_failures(row.events_per_year) == pytest.approx(year / (1000 * a_year))
    # Llama 3: GPU causes alone interrupted 16,384 GPUs 268 times in 54 days
    seen = expected_failures({"GPU": 16_384}, {"GPU": 0}).events_per_year[0] * 54 / 365
    assert seen == pytest.approx(268, rel=1e-4)


def test_rates_have_bounds():
    counts, stopped = dict.fromkeys(PARTS, 100), dict.fromkeys(PARTS, 1)
    low, value, high = (
        expected_failures(counts, stopped, rates).lost_gpu_hours_per_year for rates in ("low", "value", "high")
    )
    assert ((low < value) & (value < high)).all()
    with pytest.raises(ValueError, match="rates is 'mean'"):
        expected_failures(counts, stopped, "mean")
    with pytest.raises(ValueError, match=r"failure_rates item 'swich' does not exist: .*'switch'"):
        expected_failures({"swich": 1}, {"swich": 1})


@given(MTBF, CHECKPOINT, st.floats(0, 3600), st.floats(10, 1e5))
def test_goodput_is_a_share_that_reliability_raises(mtbf, checkpoint, restart, interval):
    shares = goodput(np.array([mtbf, 1.01 * mtbf, 2 * mtbf]), checkpoint, restart, interval)
    assert (shares >= 0).all()
    assert (shares <= interval / (interval + checkpoint)).all()  # reached without failures
    if shares[0] > 1e-200:
        assert (np.diff(shares) > 0).all()
    assert goodput(mtbf, checkpoint, restart + 60, interval) <= shares[0]


@given(CHECKPOINT, st.floats(0, 3600), st.floats(10, 1e5))
def test_goodput_without_failures(checkpoint, restart, interval):
    assert goodput(1e14, checkpoint, restart, interval) == pytest.approx(interval / (interval + checkpoint), rel=1e-6)
    # first order: a failure loses the restart and half of the stretch since the last checkpoint
    m, stretch = 1e9, interval + checkpoint
    lost = 1 - goodput(m, checkpoint, restart, interval) * stretch / interval
    assert lost == pytest.approx((restart + stretch / 2) / m, rel=1e-2)


@given(st.floats(1, 60), st.floats(300, 1e5), st.floats(0, 3600))
def test_checkpoint_interval_loses_least(checkpoint, ratio, restart):
    mtbf = ratio * checkpoint
    tau = float(checkpoint_interval(mtbf, checkpoint))
    assert tau == pytest.approx(math.sqrt(2 * checkpoint * mtbf) - checkpoint)
    best = goodput(mtbf, checkpoint, restart)
    assert best == goodput(mtbf, checkpoint, restart, tau)
    assert best >= goodput(mtbf, checkpoint, restart, tau * np.array([0.5, 0.8, 1.25, 2])).max()
    others = goodput(mtbf, checkpoint, restart, tau * np.geomspace(0.5, 2, 401))
    assert best == pytest.approx(others.max(), rel=1e-3)


def test_checkpoints_are_never_closer_than_they_take():
    assert list(checkpoint_interval([1.0, 100.0, 1e6], [60.0, 60.0, 50.0])) == [60, 60, 9950]


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_times_are_positive(value):
    with pytest.raises(ValueError, match=r"mtbf is .*: give a positive number of seconds"):
        goodput(value, 10, 10)
    with pytest.raises(ValueError, match=r"checkpoint_time is .*: give a positive number of seconds"):
        checkpoint_interval([1e5, 1e5], [10, value])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: goodput(1e5, 10, -1), "restart_time"),
        (lambda: mean_time_between_failures(0), "events_per_year"),
        (lambda: mean_time_between_failures(math.nan), "events_per_year"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"{name} is "):
        call()


@pytest.mark.parametrize(("restart", "interval", "name"), [(10, -5, "interval"), (math.nan, 60, "restart_time")])
def test_bad_interval_is_named(restart, interval, name):
    with pytest.raises(ValueError, match=f"{name} is "):
        goodput(1e5, 10, restart, interval)


@pytest.mark.parametrize(("count", "stopped"), [(-5, {"GPU": 1}), (5, {})])
def test_bad_counts_are_named(count, stopped):
    with pytest.raises(ValueError, match="GPU"):
        expected_failures({"GPU": count}, stopped)
