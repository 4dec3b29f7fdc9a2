"""A plan's own interval: modelled times with the error of measured runs, and what a user's own runs change."""

import json
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_plan import spec

import railcore as rc
from railcore.planner import case as case_module
from railcore.planner.case import case_of
from railcore.planner.planning import plan
from railcore.planner.report import document, error_text, headline, terminal_text
from railcore.planner.shown_numbers import interval
from railcore.planner.spec_reading import read_spec
from railcore.planner.uncertainty import NO_DIFFERENCE, Situation, flips
from railcore.training.iteration import iteration_times
from railcore.training.prediction_error import expected_error

QUICK = {"micro_batch": 1, "context": 1, "pipeline": 1, "placement": "tensor first"}
JOB = {"batch": 512, "search": QUICK}
NAMES = ["rail-optimized", "Clos, leaves 2:1", "photonic rails"]
MAPPING = {"tensor": 2, "data": 32, "sequence_parallel": True}
ENDS = ("low", "lower", "middle", "upper", "high")


def run_of(factor, gpus=64, batch=128):
    """An own run that took `factor` times what the best strategy of its job takes, by the model."""
    best = rc.search("Llama-3 8B", "DGX H100", gpus, batch, top=1, only_best=True).best["total_s"].iloc[0]
    strategy = {"tensor": 2, "data": gpus // 2, "sequence_parallel": True}
    return {"seconds": factor * float(best), "strategy": strategy, "batch": batch}


@cache
def usual(names=tuple(NAMES), draws=200, **mapping):
    job = JOB | ({"mapping": MAPPING} if mapping else {})
    return plan(spec("DGX H100", 512, candidates=[*names], job=job, uncertainty={"draws": draws}))


@cache
def with_runs(factor=1.3, batch=128, mapped=False):
    job = JOB | ({"mapping": MAPPING} if mapped else {})
    sections = {"job": job, "uncertainty": {"draws": 200}, "measured": [run_of(factor, batch=batch)]}
    return plan(spec("DGX H100", 512, candidates=NAMES, **sections))


# Without own runs


def test_times_without_own_runs_are_the_models_and_the_error_is_beside_them():
    found = usual()
    for answer in found.possible:
        assert answer.numbers["iteration_s"] == answer.design.iteration_s
    best = found.best.design
    alone = expected_error(found.case.model, found.case.machine, best.gpus, found.case.runtime)
    assert found.expected_error[:8] == alone[:8] and found.expected_error.own == 0
    assert found.case.time_scale(512) == 1


@pytest.mark.parametrize("made", [usual, with_runs])
def test_candidates_have_the_ends_of_an_iteration(made):
    found = made()
    table = found.candidates.set_index("candidate")
    names = [*table.columns]
    assert names.index("iteration_low_s") == names.index("iteration_s") + 1
    for answer in found.possible:
        row, error = table.loc[answer.name], found.case.expected_error(answer.design.gpus)
        ends = [answer.design.iteration_s * end for end in (error.low, error.high)]
        assert [row["iteration_low_s"], row["iteration_high_s"]] == pytest.approx(ends)
        assert row["iteration_low_s"] < row["iteration_s"] < row["iteration_high_s"]


def test_a_candidate_that_is_not_there_has_no_interval():
    found = plan(spec("DGX H100", 64, candidates=["rail-only"], job={"search": {"tensor": 3}}))
    assert found.best is None and "iteration_low_s" not in found.candidates
    assert document(found, False)["error"] is None and error_text(found) == ""
    assert found.software.empty


def test_the_days_of_the_headline_are_those_of_the_draws():
    for found in (usual(), with_runs()):
        low, high = found.days_interval
        assert (low, high) == found.uncertainty.interval(found.best.name, "days")
        error, days = found.expected_error, found.best.numbers["days"]
        over = found.best.numbers["iteration_s"] / found.best.design.iteration_s
        assert [low, high] == pytest.approx([days * end / over for end in (error.low, error.high)], rel=0.05)
        for draws in (False, True):
            assert interval("days", low, high) in headline(found, draws)
        assert interval("days", low, high) in terminal_text(found)


def test_all_candidates_share_the_draws_of_the_error():
    found = usual()
    days = {name: found.uncertainty.samples[name]["days"] for name in ("rail-optimized", "Clos, leaves 2:1")}
    logs = [np.log(each) for each in days.values()]
    assert np.corrcoef(*logs)[0, 1] > 0.95 and np.std(logs[0] - logs[1]) < 0.3 * np.std(logs[0])
    seconds = found.situation.best_times(found.best.name, found.expected_error, 200, 1)
    assert seconds == pytest.approx(found.best.design.iteration_s * found.expected_error.draws(200, 1))


def test_the_errors_numbers_are_in_the_document_and_are_json():
    for found in (usual(), with_runs()):
        numbers = document(found, False)["error"]
        assert json.loads(json.dumps(numbers)) == numbers
        modelled, error = found.best.design.iteration_s, found.expected_error
        assert numbers["iteration_modelled_s"] == modelled and numbers["text"] == error_text(found)
        for end in ENDS:
            assert numbers[f"iteration_{end}_s"] == pytest.approx(modelled * getattr(error, end))
        for name in ("runs", "largest", "places", "own", "pairs", "order"):
            assert numbers[name] == getattr(error, name)
        assert error.evidence in numbers["text"] and error.nearest["software"] in numbers["text"]
        assert document(found, False)["verdicts"][0]["text"] == numbers["text"]


def test_software_is_the_best_strategy_under_each_runtime():
    found = usual()
    table, best = found.software.set_index("runtime"), found.best
    assert found.case.runtime.name in table.index and len(table) > 2 and table.index.is_unique
    assert (table["limit"] == "feasible").any()
    for runtime, row in table.iterrows():
        machine, batch = best.design.machine.changed(fabric=None), int(best.numbers["batch"])
        times = iteration_times(found.case.model, machine, best.design.strategy, runtime, global_batch=batch)
        assert row["iteration_s"] == pytest.approx(times.total_s.item()), runtime
        error = expected_error(found.case.model, machine, best.design.gpus, runtime)
        assert [row["low_s"], row["high_s"]] == pytest.approx(
            [row["iteration_s"] * end for end in (error.low, error.high)]
        )
        assert (row["runs"], row["largest"]) == error.with_software
    assert table["iteration_s"].is_monotonic_increasing and (table["runs"] > 0).any() and (table["runs"] == 0).any()


# Own runs


def test_own_runs_scale_every_candidate_alike():
    before, after = usual(), with_runs()
    scale = after.case.time_scale(512)
    assert after.expected_error.own == 1 and scale == pytest.approx(after.expected_error.middle)
    assert before.expected_error.middle < scale < 1.3
    assert [answer.name for answer in after.possible] == [answer.name for answer in before.possible]
    for answer in after.possible:
        old = before.answer(answer.name)
        assert answer.design.iteration_s == pytest.approx(old.design.iteration_s)
        assert answer.numbers["iteration_s"] == pytest.approx(scale * old.numbers["iteration_s"])
        assert answer.numbers["mfu"] == pytest.approx(old.numbers["mfu"] / scale)
        assert answer.numbers["days"] == pytest.approx(scale * old.numbers["days"], rel=0.02)
        for name in ("network_usd", "power_w", "gpus", "goodput"):
            assert answer.numbers[name] == pytest.approx(old.numbers[name], rel=0.01), name
    assert after.best.numbers["energy_J"] == pytest.approx(scale * before.best.numbers["energy_J"], rel=0.02)


def test_own_runs_narrow_the_interval_and_are_said():
    before, after = usual(), with_runs()
    ratio = [error.high / error.low for error in (before.expected_error, after.expected_error)]
    assert ratio[1] < ratio[0] and after.case.published_error(512)[:8] == before.expected_error[:8]
    days = [found.days_interval[1] / found.days_interval[0] for found in (before, after)]
    assert days[1] < days[0]
    text = error_text(after)
    assert "yours" in text and "Before your runs" in text and "Before your runs" not in error_text(before)


def test_own_runs_leave_modelled_times_and_scale_the_own_mapping():
    before, after = usual(mapped=True), with_runs(mapped=True)
    scale = after.case.time_scale(512)
    assert after.times["iteration_s"].tolist() == pytest.approx(before.times["iteration_s"].tolist())
    for old, new in zip(before.own_strategy.itertuples(), after.own_strategy.itertuples(), strict=True):
        assert new.over_best * scale == pytest.approx(old.over_best * after.case.time_scale(64), rel=1e-9)
        assert new.iteration_s == pytest.approx(old.iteration_s * after.case.time_scale(64))


def test_two_own_runs_of_one_job_count_as_their_best():
    slow, fast = run_of(1.5), run_of(1.3)
    both = case_of(read_spec(spec("DGX H100", 512, job=JOB, measured=[slow, fast])))
    alone = with_runs().case
    assert both.expected_error(512).middle == pytest.approx(alone.expected_error(512).middle)
    assert both.expected_error(512, "strategy").own == 2 and len(both.own_errors) == 2
    assert both.own_errors["measured_iteration_s"].tolist() == pytest.approx([slow["seconds"], fast["seconds"]])


def test_own_runs_that_the_model_has_no_time_for_scale_nothing(monkeypatch):
    """Nothing fits in memory for their job: then they are not counted."""
    monkeypatch.setattr(case_module, "best_of_runs", lambda table, models: np.full(len(table), np.nan))
    case = case_of(read_spec(spec("DGX H100", 512, job=JOB, measured=[run_of(1.3)])))
    assert case.expected_error(512).own == 0 and case.time_scale(512) == 1


def test_the_best_of_runs_is_that_of_a_search():
    case = with_runs(1.0, 256).case
    (best,) = case.own_errors["best_s"]
    found = rc.search(case.model, "DGX H100", 64, 256, runtime=case.runtime, top=1)
    assert best == pytest.approx(found.best["total_s"].iloc[0])
    assert case.own_errors["modelled_s"].item() >= best * (1 - 1e-9)
    assert case.own_errors["measured_iteration_s"].item() == pytest.approx(best)
    assert case.own_errors["place"].tolist() == ["yours, DGX H100"]


def test_own_runs_of_one_job_are_searched_once(monkeypatch):
    module = sys.modules["railcore.strategies.best_of_runs"]
    searched, search = [], module.search
    monkeypatch.setattr(module, "search", lambda *terms, **options: searched.append(terms) or search(*terms, **options))
    runs = case_of(read_spec(spec("DGX H100", 512, job=JOB, measured=[run_of(1), run_of(2), run_of(1, batch=256)])))
    times = module.best_of_runs(runs.measured_runs, runs.run_models)
    assert len(searched) == 2 and times[0] == times[1] and times[2] > 1.5 * times[0]
    too_large = runs.measured_runs.head(1).assign(architecture="Llama-3 405B", gpus=8, tp=2, dp=4, layers=126)
    assert np.isnan(module.best_of_runs(too_large)).all()


# No difference


def nearly(by):
    """A plan of two networks, the second dearer by this share."""
    found = plan(spec("DGX H100", 512, candidates=NAMES[:2], job=JOB, uncertainty={"draws": 50}))
    rank = found.rank
    first, second = found.possible[:2]
    dearer = replace(second, numbers={**second.numbers, rank: first.numbers[rank] / (1 - by)})
    return replace(found, answers=(first, dearer))


@pytest.mark.parametrize(("by", "told"), [(0.0, True), (0.009, True), (0.011, False), (0.2, False)])
def test_networks_within_a_percent_are_no_difference(by, told):
    found = nearly(by)
    text = headline(found)
    assert ("no difference" in text) == told and found.possible[1].name in text
    assert ("% less" in text) == (not told)


def test_ties_of_all_draws_are_no_difference(monkeypatch):
    found = nearly(0.1)
    monkeypatch.setattr(type(found), "ties", property(lambda self: [self.possible[1].name]))
    assert "no difference" in headline(found, True) and "no difference" not in headline(found, False)


def test_a_better_network_by_less_than_that_is_no_flip(monkeypatch):
    """Another network that costs less by a fixed share in every case: half a percent flips nothing."""
    found = usual()
    best, other, numbers = found.best.name, found.possible[1].name, Situation.numbers

    def with_other(factor):
        def drawn(self, *terms):
            of_best = numbers(self, *terms)[best]
            return {best: of_best, other: {key: value * factor for key, value in of_best.items()}}

        return drawn

    for less, flipped in ((NO_DIFFERENCE / 2, False), (2 * NO_DIFFERENCE, True)):
        monkeypatch.setattr(Situation, "numbers", with_other(1 - less))
        assert flips(found.situation, "cost_usd", [best, other]).empty == (not flipped)


def test_the_winner_by_wishes_is_not_said_to_cost_less():
    """A second one that costs less than the best misses more wishes."""
    found = nearly(-0.05)
    assert "% more than" in headline(found) and "misses more wishes" in headline(found)
