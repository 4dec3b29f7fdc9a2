"""Two plans side by side: what differs, and which input made it."""

import math

import pytest

import railcore as rc
from railcore.planner.differences import Differences, differences_text
from railcore.planner.spec_reading import read_spec

SPEC = {
    "cluster": {"platform": "DGX H100", "gpus": 64},
    "job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512, "search": {"context": 1, "micro_batch": 1}},
    "network": {"candidates": ["rail-optimized"]},
}


SIZE = "cluster.gpus and cluster.racks"


def _changed(**sections):
    return SPEC | {name: SPEC.get(name, {}) | keys for name, keys in sections.items()}


def _between(one, other):
    return Differences(rc.plan(one), rc.plan(other))


@pytest.fixture(scope="module")
def larger():
    books = {"prices": {"port": 1200.0, "transceiver": 219.0, "rate": 5e10}}
    return _between(SPEC, _changed(cluster={"gpus": 128}, operation={"contingency": 0.5}, books=books))


def test_equal_specs_have_no_differences():
    same = _between(SPEC | {"title": "ours"}, SPEC | {"author": "us", "date": "today"})
    assert same.spec.empty and same.text == "The two specs are the same."
    assert (same.answer["change"] == 0).all() and same.causes["key"].tolist() == ["all of them"]


def test_keys_that_differ_are_told_with_their_values(larger):
    rows = {row.key: (row.before, row.after) for row in larger.spec.itertuples()}
    assert rows.keys() == {"cluster.gpus", "operation.contingency", "books.prices"}
    assert rows["cluster.gpus"] == ("64", "128") and rows["operation.contingency"] == ("0", "0.5")
    assert "rate 400 Gbps" in rows["books.prices"][1]


def test_the_change_of_each_number_is_that_of_the_two_plans(larger):
    for row in larger.answer.itertuples():
        one, other = (side.best.numbers[row.number] for side in (larger.before, larger.after))
        assert (row.before, row.after) == (one, other)
        assert row.change == pytest.approx(other / one - 1, abs=5e-4)


def test_a_key_alone_changes_what_a_plan_with_it_alone_says(larger):
    causes = larger.causes.set_index("key")
    assert causes.index[-1] == "all of them" and len(causes) == 4
    only = rc.plan(_changed(operation={"contingency": 0.5})).best.numbers
    assert causes["days"]["operation.contingency"] == pytest.approx(0.5)
    for name in ("days", "cost_usd", "purchase_usd"):
        before = larger.before.best.numbers[name]
        assert causes[name]["operation.contingency"] == pytest.approx(only[name] / before - 1, abs=5e-4)
    assert causes["days"]["books.prices"] == 0 and causes["cost_usd"]["books.prices"] > 0
    effects = causes["cost_usd"].abs().tolist()[:-1]
    assert effects == sorted(effects, reverse=True)
    assert f"Training cost: most by {causes.index[0]} (" in larger.text
    shorter = causes["days"].iloc[:-1].astype(float).idxmin()  # the whole is shorter; what makes it longer is not told
    assert causes["days"].iloc[-1] < 0 and f"Training: most by {shorter} (" in larger.text


def test_inputs_that_act_apart_multiply():
    # Contingency scales the days alone, and the price of electricity the energy alone.
    between = _between(SPEC, _changed(operation={"contingency": 0.2}, job={"tokens": 2e12}))
    alone, whole = between.causes["days"].tolist()[:-1], between.causes["days"].tolist()[-1]
    assert math.prod(1 + change for change in alone) == pytest.approx(1 + whole, rel=1e-9)


def test_a_size_takes_the_place_of_another_kind_of_size():
    between = _between(SPEC, _changed(cluster={"gpus": None, "racks": 16}, operation={"contingency": 0.5}))
    rows = between.causes.set_index("key")
    assert rows["purchase_usd"][SIZE] == pytest.approx(rows["purchase_usd"]["all of them"], rel=1e-9)
    assert rows["purchase_usd"][SIZE] > 0.5 and rows["purchase_usd"]["operation.contingency"] == 0


def test_the_number_that_decides_is_among_the_changes():
    one = SPEC | {"wishes": {"rank": "power"}}
    both = {"wishes": {"rank": "power"}, "operation": {"pue": 1.5, "contingency": 0.5}}
    between = _between(one, SPEC | both)
    rows = between.causes.set_index("key")
    assert rows["power_w"]["operation.pue"] == pytest.approx(rows["power_w"]["all of them"]) != 0
    assert rows.index[0] == "operation.pue" and "Facility power: most by operation.pue" in between.text


def test_a_key_that_cannot_stand_alone_says_why():
    other = _changed(cluster={"platform": "GB200 NVL72"}, job={"precision": "nvfp4"})
    rows = _between(SPEC, other).causes.set_index("key")
    assert rows["note"]["job.precision"].startswith("not alone: ") and math.isnan(rows["days"]["job.precision"])
    assert rows["days"]["cluster.platform"] < 0


def test_a_plan_without_a_network_is_told():
    none = _changed(job={"model": "Llama-3 70B", "batch": 8}, cluster={"gpus": 8})
    between = _between(none, SPEC)
    assert "no network" in between.text and between.answer.empty
    assert "What differs in the answer" in differences_text(between.document())


def test_a_terminal_has_all_tables(larger):
    text = differences_text(larger.document())
    for words in (
        "What differs in the spec:",
        "What differs in the answer:",
        "Which input makes it:",
        "+50%",
        "all of",
    ):
        assert words in text


def test_specs_given_as_objects_are_compared_too():
    one, other = read_spec(SPEC), read_spec(_changed(operation={"contingency": 0.5}))
    assert _between(one, other).spec["key"].tolist() == ["operation.contingency"]
