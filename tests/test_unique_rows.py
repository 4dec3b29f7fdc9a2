"""Rows that differ, whose numbers fit into one code or do not."""

import numpy as np
import pytest

from railcore.facts.unique_rows import unique_places, unique_rows


@pytest.mark.parametrize("most", [2, 2**20, 2**40, 2**61])  # three columns of the last ones have no code of 64 bits
def test_places_are_those_of_the_rows_that_differ(most):
    rng = np.random.default_rng(0)
    values = rng.integers(0, most, 4)
    columns = {name: values[rng.integers(0, 4, 200)] for name in "abc"} | {"left out": np.arange(200)}
    rows = np.stack([columns[name] for name in "abc"], axis=1)
    first, index = unique_places(columns, "abc")
    assert np.array_equal(rows[first][index], rows)
    assert len(first) == len(np.unique(rows, axis=0)) and first.tolist() == sorted(first.tolist())
    assert all((rows[:place] != rows[place]).any(axis=1).all() for place in first.tolist())  # the first of its kind
    found, again = unique_rows(columns, "abc")
    assert list(found) == ["a", "b", "c"] and np.array_equal(again, index)
    assert np.array_equal(np.stack(list(found.values()), axis=1), rows[first])
