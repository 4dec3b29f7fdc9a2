"""A plan's own interval: modelled times with the error of measured runs, and what a user's own runs change."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_plan import spec

import railcore as rc
from railcore.planner.case import case_of
from railcore.planner.planning import plan
from railcore.planner.report import document, error_texts, headline, terminal_text
from railcore.planner.shown_numbers import interval
from railcore.planner.spec_reading import read_spec
from railcore.planner.uncertainty import NO_DIFFERENCE, Situation, flips
from railcore.training.error_spreads import LARGEST_LOG
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
    assert document(found, False)["error"] is None and error_texts(found) == []
    assert found.software.empty


def test_the_days_of_the_headline_are_those_of_the_draws():
    for found in (usual(), with_runs()):
        low, high = found.days_interval
        assert (low, high) == found.uncertainty.interval(found.best.name, "days")
        error, days = found.expected_error, found.best.numbers["days"]
        over, words = found.case.time_scale(512), interval("days", low, high).replace(" to ", " and ")
        assert [low, high] == pytest.approx([days * end / over for end in (error.low, error.high)], rel=0.05)
        for draws in (False, True):
            assert f"(between {words} in nine of ten cases)" in headline(found, draws)
        assert f"between {words}" in terminal_text(found)


def test_all_candidates_share_the_draws_of_the_error():
    found = usual()
    days = {name: found.uncertainty.samples[name]["days"] for name in ("rail-optimized", "Clos, leaves 2:1")}
    logs = [np.log(each) for each in days.values()]
    assert np.corrcoef(*logs)[0, 1] > 0.95 and np.std(logs[0] - logs[1]) < 0.3 * np.std(logs[0])
    factors = found.expected_error.draws(200, 1)
    seconds = found.situation.scaled_times(found.best.name, factors)
    assert seconds == pytest.approx(found.best.design.iteration_s * factors)
    assert set(found.situation.time_scales().values()) == {1.0}


def test_the_errors_numbers_are_in_the_document_and_are_json():
    for found in (usual(), with_runs()):
        numbers = document(found, False)["error"]
        assert json.loads(json.dumps(numbers)) == numbers
        modelled, error = found.best.design.iteration_s, found.expected_error
        assert numbers["iteration_modelled_s"] == modelled and numbers["text"] == error_texts(found)
        for end in ENDS:
            assert numbers[f"iteration_{end}_s"] == pytest.approx(modelled * getattr(error, end))
        for name in ("runs", "largest", "places", "own", "pairs", "order"):
            assert numbers[name] == getattr(error, name)
        assert error.evidence in numbers["text"][0] and error.nearest["software"] in numbers["text"][1]
        assert numbers["group"] == error.group and numbers["missing"] == list(error.missing)
        assert document(found, False)["rests_on"] == numbers["text"]


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


def test_own_runs_scale_the_times_under_each_software():
    found = with_runs()
    for row in found.software.itertuples():
        estimate = iteration_times(found.case.model, found.best.design.machine, found.best.design.strategy, row.runtime)
        error, modelled_s = found.case.expected_error(found.best.design.gpus, row.runtime), estimate.total_s.item()
        assert error.own == 1
        ends = [modelled_s * end for end in (error.low, error.middle, error.high)]
        assert [row.low_s, row.iteration_s, row.high_s] == pytest.approx(ends), row.runtime


def test_own_runs_scale_every_candidate_alike():
    before, after = usual(), with_runs()
    scale = after.case.time_scale(512)
    assert after.expected_error.own == 1 and scale == pytest.approx(after.expected_error.middle)
    published = expected_error(after.case.model, after.case.machine, 512, after.case.runtime, "strategy")
    assert published.middle < scale < 1.4 and before.case.time_scale(512) == 1
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
    (text, _), (alone, _) = error_texts(after), error_texts(before)
    assert "of yours" in text and "Before your runs" in text and "Before your runs" not in alone


def test_own_runs_leave_modelled_times_and_scale_the_own_mapping():
    before, after = usual(mapped=True), with_runs(mapped=True)
    scale = after.case.time_scale(512)
    assert after.times["iteration_s"].tolist() == pytest.approx(before.times["iteration_s"].tolist())
    for old, new in zip(before.own_strategy.itertuples(), after.own_strategy.itertuples(), strict=True):
        assert new.over_best * scale == pytest.approx(old.over_best * after.case.time_scale(64), rel=1e-9)
        assert new.iteration_s == pytest.approx(old.iteration_s * after.case.time_scale(64))


def test_two_own_runs_of_one_job_both_count():
    slow, fast = run_of(1.5), run_of(1.3)
    both, one = (
        case_of(read_spec(spec("DGX H100", 512, job=JOB, measured=runs))) for runs in ([slow, fast], [fast, fast])
    )
    assert both.own_errors["measured_iteration_s"].tolist() == pytest.approx([slow["seconds"], fast["seconds"]])
    assert both.expected_error(512).own == one.expected_error(512).own == 2
    alone = with_runs().expected_error
    assert both.expected_error(512).middle > one.expected_error(512).middle >= alone.middle
    assert one.expected_error(512).log_spread < alone.log_spread


def test_own_runs_are_held_against_their_own_strategy():
    (run,) = with_runs(1.0, 256).case.own_errors.to_dict("records")
    case = usual().case
    strategy = rc.Strategy(**{"micro_batch": 1, **run_of(1.0)["strategy"]})
    times = iteration_times(case.model, case.machine, strategy, case.runtime, global_batch=256)
    assert run["modelled_s"] == pytest.approx(times.total_s.item())
    assert run["measured_iteration_s"] == pytest.approx(run_of(1.0, batch=256)["seconds"])
    assert run["place"] == "yours, DGX H100" and "best_s" not in run
    assert with_runs().expected_error.answer == "strategy" and usual().expected_error.answer == "best"
    assert with_runs().case.published_error(512).answer == "best"


def test_a_bad_mapping_measured_as_modelled_says_that_the_model_is_right():
    """Its ratio is 1, however much slower it is than the best strategy: times hardly change, and get surer."""
    slow = {"tensor": 8, "pipeline": 4, "data": 2}
    batch, machine = 128, usual().case.machine
    times = iteration_times("Llama-3 8B", machine, rc.Strategy(**{"micro_batch": 1, **slow}), global_batch=batch)
    seconds = times.total_s.item()
    assert seconds > 1.3 * run_of(1.0)["seconds"]
    run = {"seconds": seconds, "strategy": slow, "batch": batch}
    case = case_of(read_spec(spec("DGX H100", 512, job=JOB, measured=[run])))
    ratio = case.own_errors["measured_iteration_s"] / case.own_errors["modelled_s"]
    assert ratio.tolist() == pytest.approx([1.0]) and case.run_warnings == ()
    assert case.time_scale(512) == pytest.approx(1, abs=0.1)
    published = expected_error(case.model, case.machine, 512, case.runtime, "strategy")
    assert abs(case.expected_error(512).log_middle) <= abs(published.log_middle) + 1e-9
    assert case.expected_error(512).log_spread < published.log_spread


def test_a_run_that_is_far_off_is_told_and_counts_for_little():
    cases = [case_of(read_spec(spec("DGX H100", 512, job=JOB, measured=[run_of(factor)]))) for factor in (1.2, 2, 4)]
    for case, far in zip(cases, (False, True, True), strict=True):
        logs = np.log(case.own_errors["measured_iteration_s"] / case.own_errors["modelled_s"])
        assert (np.abs(logs) > LARGEST_LOG).tolist() == [far] and len(case.run_warnings) == far
    (warning,) = cases[-1].run_warnings
    assert warning.startswith("Run 1 of yours takes ")
    assert warning in terminal_text(replace(with_runs(), case=cases[-1]))
    assert cases[-1].time_scale(512) < cases[1].time_scale(512)


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
