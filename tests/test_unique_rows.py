"""Rows that differ, whose numbers fit into one code or do not."""

import numpy as np
import pytest

from railcore.training.unique_rows import unique_places, unique_rows


@pytest.mark.parametrize("most", [2, 2**20, 2**40, 2**61])  # three columns of the last ones have no code of 64 bits
@pytest.mark.parametrize("different", [(4, 4, 4), (32, 1, 32), (1, 32, 32)])
def test_places_are_those_of_the_rows_that_differ(most, different):
    rng = np.random.default_rng(0)
    columns = {"left out": np.arange(200)}
    for name, count in zip("abc", different, strict=True):
        values = np.append(rng.integers(0, most, count - 1), most - 1)  # numbers that wrap around would meet
        columns[name] = values[rng.integers(0, count, 200)]
    rows = np.stack([columns[name] for name in "abc"], axis=1)
    first, index = unique_places(columns, "abc")
    assert np.array_equal(rows[first][index], rows)
    assert len(first) == len(np.unique(rows, axis=0)) and first.tolist() == sorted(first.tolist())
    assert all((rows[:place] != rows[place]).any(axis=1).all() for place in first.tolist())  # the first of its kind
    found, again = unique_rows(columns, "abc")
    assert list(found) == ["a", "b", "c"] and np.array_equal(again, index)
    assert np.array_equal(np.stack(list(found.values()), axis=1), rows[first])
