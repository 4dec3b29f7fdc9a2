from dataclasses import replace

import numpy as np
import pytest

from railcore import catalog
from railcore.catalog import distributions

RANGED = [row for row in catalog.values() if row.low is not None and row.high is not None and row.low < row.high]
FEW = RANGED[:: len(RANGED) // 30]
POWER = catalog.Value("gpus", "X100", "power", 2e3, 1e3, 8e3, "kW", "assumed", "a datasheet", "2025", "", "linear")
Q = np.linspace(0, 1, 1001)


def key(row):
    return row.family, row.name, row.parameter


def test_half_of_the_probability_is_on_each_side_of_the_value_and_densest_at_it():
    way = 1 - 0.5**0.5  # from the value to an end, at a quarter of the probability: s = 1 - sqrt(1 - |2q - 1|)
    linear = [1e3, 2e3 - way * 1e3, 2e3, 2e3 + way * 6e3, 8e3]
    assert distributions.quantile(POWER, [0, 0.25, 0.5, 0.75, 1]) == pytest.approx(linear)
    log = replace(POWER, shape="log")
    expected = [1e3, 2e3 / 2**way, 2e3, 2e3 * 4**way, 8e3]
    assert distributions.quantile(log, [0, 0.25, 0.5, 0.75, 1]) == pytest.approx(expected)
    whole = replace(POWER, value=4.0, low=2.0, high=8.0, shape="whole")
    found = distributions.quantile(whole, [0, 0.02, 0.2, 0.4, 0.5, 0.6, 0.7, 0.99, 1])
    assert found.tolist() == [2, 2, 3, 4, 4, 4, 5, 7, 8]
    one_sided = replace(POWER, value=1e3)
    assert distributions.quantile(one_sided, [0, 0.4, 0.5, 0.75]) == pytest.approx([1e3, 1e3, 1e3, 1e3 + way * 7e3])


def test_every_row_keeps_its_median_and_bounds_and_rises_with_q():
    assert {row.shape for row in RANGED} == set(catalog.SHAPES)
    for row in RANGED:
        found = distributions.quantile(row, Q)
        assert distributions.quantile(row, 0.5) == row.value == found[500], row
        assert row.low <= found.min() and found.max() <= row.high, row
        assert (np.diff(found) >= 0).all(), row
        assert [found[0], found[-1]] == pytest.approx([row.low, row.high], rel=1e-12), row
        assert row.shape != "whole" or (found % 1 == 0).all(), row


def test_a_row_without_a_range_has_its_value_everywhere():
    for change in ({"low": None}, {"high": None}, {"low": 2e3, "high": 2e3}):
        row = replace(POWER, **change, shape="")
        assert distributions.quantile(row, [[0, 0.5, 1]]).tolist() == [[2e3, 2e3, 2e3]]
        assert not distributions.draws([row], 4)
    assert distributions.quantile(catalog.item("platforms", "DGX H100").row("gpu"), 0.2) == "H100"


@pytest.mark.parametrize("n", [1, 7, 64])
def test_draws_take_one_value_of_each_part_of_the_probability(n):
    found = distributions.draws(FEW, n)
    assert set(found) == set(map(key, FEW))
    for row in FEW:
        edges = distributions.quantile(row, np.arange(n + 1) / n)
        drawn = np.sort(found[key(row)])
        assert drawn.shape == (n,)
        assert (edges[:-1] <= drawn * (1 + 1e-12)).all() and (drawn <= edges[1:] * (1 + 1e-12)).all(), row
        assert (drawn <= row.value).sum() >= n // 2 <= (drawn >= row.value).sum(), row
    drawn = distributions.draws([POWER], n)[key(POWER)]
    assert abs((drawn < POWER.value).sum() - n / 2) <= 0.5 and len(set(drawn)) == n


def test_draws_of_rows_are_in_another_order_each():
    """Stratified values of two rows are as good as uncorrelated; in the same order they would all be correlated."""
    ranks = [drawn.argsort().argsort() for drawn in distributions.draws(RANGED[:40], 400).values()]
    correlation = np.corrcoef(ranks)
    assert np.abs(correlation[~np.eye(len(ranks), dtype=bool)]).max() < 0.25


def test_draws_of_a_row_do_not_depend_on_the_other_rows_or_on_their_order():
    every = distributions.draws(RANGED, 16)
    assert len(every) == len(RANGED)
    for part in (FEW, FEW[::-1], iter(FEW[3:5]), FEW[:1]):
        for name, drawn in distributions.draws(part, 16).items():
            assert drawn.tolist() == every[name].tolist()
    moved = distributions.draws([replace(POWER, value=4e3, low=2e3, high=16e3)], 16)  # another range, the same case
    assert moved[key(POWER)] == pytest.approx(2 * distributions.draws([POWER], 16)[key(POWER)])


def test_draws_are_the_same_everywhere():
    found = distributions.draws([POWER], 5)[key(POWER)]
    assert found == pytest.approx([1378.28110936, 5520.03327461, 1842.09099346, 2128.31839261, 3759.93767958], rel=1e-9)
