"""The table of one input at a time, against a result whose slopes are known."""

import math

from suite.railonly2023.sensitivity import tornado_table

INPUTS = {"a": 2.0, "b": 3.0, "c": 5.0}


def linear(name, value):
    changed = INPUTS | {name: value}
    return changed["a"] + 10 * changed["b"] - 100 * changed["c"]


def test_a_tornado_table_moves_one_input_and_leaves_the_others():
    table = tornado_table({"a": (1, 4), "b": (2, 4), "c": (4.5, 6)}, linear, linear("a", 2.0)).set_index("input")
    assert list(table.index) == ["c", "b", "a"]  # widest swing first
    assert table.swing.to_dict() == {"c": 150, "b": 20, "a": 3}
    assert table.at_low["c"] == 2 + 30 - 450 and table.at_high["a"] == 4 + 30 - 500
    assert set(table.centre) == {2 + 30 - 500}
    assert list(table.loc["c", ["low", "high"]]) == ["4.5", "6"]


def test_an_end_without_a_result_leaves_the_swing_of_the_other():
    table = tornado_table(
        {"a": ("less", 4.0)}, lambda name, value: math.nan if value == "less" else 7.0, 5.0, "{}{}".format
    )
    assert math.isnan(table.at_low[0]) and table.swing[0] == 2
    assert (table.low[0], table.high[0]) == ("aless", "a4.0")


def test_inputs_of_equal_swing_keep_their_order():
    table = tornado_table({name: (0, 1) for name in "zyx"}, lambda name, value: value, 0)
    assert list(table.input) == ["z", "y", "x"]
    swings = {"z": 0.1 + 0.2, "y": 0.3, "x": math.nextafter(0.1 + 0.2, 1.0)}  # equal but for the last bit
    table = tornado_table(dict.fromkeys(swings, (0, 1)), lambda name, value: value * swings[name], 0)
    assert list(table.input) == ["z", "y", "x"]
