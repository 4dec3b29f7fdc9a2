"""The error that an answer has to expect: an interval from published runs and own ones, and what it rests on."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from railcore import catalog
from railcore.training import prediction_error as module
from railcore.training.error_spreads import with_places
from railcore.training.machine import catalog_machine
from railcore.training.prediction_error import (
    ANSWERS,
    choice_order,
    errors_of,
    expected_error,
    known_errors,
    own_errors,
    published_errors,
    published_spreads,
    scores,
)
from railcore.training.run_file import no_runs
from railcore.training.runs import YOURS, published_table
from railcore.training.transformer import catalog_model

BOTH = pytest.mark.parametrize("answer", ANSWERS)


@cache
def usual(model="Llama-3 70B", platform="DGX H100", gpus=1024, runtime=None, answer="best"):
    return expected_error(model, platform, gpus, runtime, answer)


def own_runs(factor, count=1, platform="DGX H100", gpus=512, **cells):
    """Own runs of Llama-3 70B that took `factor` times the modelled time, under any strategy."""
    table = published_errors()
    like = table[(table["gpu"] == "H100") & (table["model"] == "Llama-3 70B") & (table["precision"] == "bf16")]
    (row,) = like.dropna(subset=["best_s", "modelled_s"]).head(1).to_dict("records")
    batches = [512 + number for number in range(count)]
    rows = pd.DataFrame([row | {"global_batch": batch} for batch in batches])
    seconds = {"best_s": 10.0, "modelled_s": 10.0, "measured_iteration_s": 10.0 * factor}
    return with_places(rows.assign(use=YOURS, platform=platform, gpus=gpus, **seconds, **cells))


# The interval


@BOTH
@pytest.mark.parametrize("job", [(), ("DeepSeek-V3", "GB200 NVL72", 256), ("Llama-3 8B", "MI300X full mesh", 8)])
def test_an_interval_is_in_order_and_of_two_sides(answer, job):
    error = usual(*job, answer=answer)
    ends = np.log([error.low, error.lower, error.middle, error.upper, error.high])
    assert (np.diff(ends) > 0).all() and ends[2] == pytest.approx(error.log_middle)
    (lower, low), (upper, high) = scores(answer, (0.5, 0.9))
    sides = np.array([low, lower, 0, upper, high]) * error.log_spread
    assert ends - ends[2] == pytest.approx(sides, abs=1e-12)
    assert error.answer == answer and low < lower < 0 < upper < high and high != pytest.approx(-low, rel=0.01)


@BOTH
def test_intervals_are_those_of_the_covariances(answer):
    """The middle and spread are what the runs say of a run at a place of one's own."""
    known, error = known_errors(answer), usual(answer=answer)
    run = {"mixture": "dense", "model": "Llama-3 70B", "gpu": "H100", "precision": "bf16", "gpus": 1024, "flag": ""}
    run |= {"place": "yours, DGX H100", "runtime": module.as_runtime(None, catalog_machine("DGX H100")).name}
    middle, spread = known.expected(pd.DataFrame([run]))
    assert (error.log_middle, error.log_spread) == (pytest.approx(middle[0]), pytest.approx(spread[0]))
    least = np.hypot(published_spreads(answer).run, published_spreads(answer).place_model)
    assert error.log_spread > least


def test_places_left_out_are_within_the_scores_as_often_as_said():
    """By places, each of which has one vote, and one more vote is that of a place not seen."""
    for answer in ANSWERS:
        known = known_errors(answer)
        middle, spread = known.left_out(known.table["place"])
        for share in (0.5, 0.9):
            below, above = scores(answer, share)
            off, places = (known.logs - middle) / spread, known.table["place"].to_numpy()
            out = [pd.Series(beyond).groupby(places).mean() for beyond in (off < below - 1e-9, off > above + 1e-9)]
            for side in out:  # half of what is left out, less the share of a place not seen
                assert side.sum() <= (1 - share) / 2 * (len(side) + 1) + 1e-9
            assert share <= 1 - sum(side.mean() for side in out) < share + 0.1


WIDER = [
    (("Llama-3 70B", "HGX H20"), "none on H20 in any precision"),
    (("Llama-3 70B", "DGX H100", 1024, "primus2026"), "none there with the software primus2026, but with "),
    (("PaLM-540B",), "none of PaLM-540B"),
    (("Llama-3 70B", "DGX H100", 1 << 18), "none on nearly as many as 262,144 GPUs"),
]


@pytest.mark.parametrize(("job", "words"), WIDER)
def test_what_has_no_runs_widens_the_interval_and_is_said(job, words):
    first, error = usual(), usual(*job)
    assert error.log_spread > 1.005 * first.log_spread and error.high / error.low > first.high / first.low
    assert any(text.startswith(words) for text in error.missing) and words in error.evidence
    assert first.missing == () and first.evidence.endswith("GPUs")


def test_a_precision_without_runs_on_a_gpu_that_has_others_widens_the_interval():
    first, error = usual(), usual("Llama-3 70B", "GB300 NVL72")
    assert error.log_spread > 1.005 * first.log_spread and (error.runs, error.missing) == (0, ())
    assert error.evidence == "no published run like it (dense models in bf16 on GB300)"


def test_software_that_has_runs_on_the_gpu_is_named_where_the_asked_one_has_none():
    table = errors_of(published_errors(), "best")
    names = sorted(set(table[(table["gpu"] == "H100") & (table["mixture"] == "dense")]["runtime"]))
    (text,) = usual(runtime="primus2026").missing
    assert text.endswith(f"but with {', '.join(names)}") and len(names) > 1
    assert not any("but with" in text for text in usual("Llama-3 70B", "HGX H20").missing)


def test_the_widening_is_the_more_the_farther_the_gpus():
    spreads = [usual(gpus=1 << n).log_spread for n in range(10, 20)]
    assert (np.diff(spreads) > 0).all()
    at_largest = usual(gpus=2 * usual().largest)
    assert at_largest.missing == () and usual(gpus=2 * usual().largest + 1).missing


def test_mixtures_are_expected_less_exactly_than_dense_models():
    for platform in ("DGX H100", "GB200 NVL72", "DGX H200"):
        mixture, dense = (usual(model, platform, 256) for model in ("DeepSeek-V3", "Llama-3 70B"))
        assert mixture.log_spread > 1.1 * dense.log_spread
        assert "mixtures of experts" in mixture.group and "dense models" in dense.group
        assert mixture.nearest["mixture"] == "experts" and dense.nearest["mixture"] == "dense"


def test_models_with_adapters_are_a_kind_of_their_own():
    tuned = replace(catalog_model("Llama-3 70B"), lora_rank=16)
    error = expected_error(tuned, "DGX H100", 8)
    assert "adapters" in error.group and error.nearest["mixture"] == "adapters"


def test_runs_like_it_are_of_its_kind_gpu_and_precision():
    table, error = errors_of(published_errors(), "best"), usual()
    like = table[(table["gpu"] == "H100") & (table["precision"] == "bf16") & (table["mixture"] == "dense")]
    assert (error.runs, error.largest, error.places) == (len(like), like["gpus"].max(), like["place"].nunique())
    name = module.as_runtime(None, catalog_machine("DGX H100")).name
    with_it = table[(table["gpu"] == "H100") & (table["mixture"] == "dense") & (table["runtime"] == name)]
    assert error.with_software == (len(with_it), with_it["gpus"].max()) and len(with_it)
    none = usual("Llama-3 70B", "HGX H20")
    assert (none.runs, none.largest, none.places, none.with_software) == (0, 0, 0, (0, 0))
    assert "no published run like it" in none.evidence and f"{error.runs} published runs" in error.evidence


def test_every_platform_of_the_catalog_has_an_expected_error():
    gpus = catalog.names("efficiencies")
    for platform in catalog.names("platforms"):
        if str(catalog.item("platforms", platform).get("gpu", "")) in gpus:
            for model in ("Llama-3 8B", "DeepSeek-V3"):
                error = expected_error(model, platform, 64)
                assert 0.5 < error.low < 1.2 and 0.8 < error.middle < 1.6 and error.high < 4, (platform, model)
                assert error.runs or "no published run like it" in error.evidence


def test_a_machine_says_its_platform_and_precision():
    machine = catalog_machine("DGX H100", "fp8")
    by_names = expected_error("Llama-3 8B", "DGX H100", 64)
    assert expected_error(catalog_model("Llama-3 8B"), catalog_machine("DGX H100"), 64)[:8] == by_names[:8]
    assert "fp8" in expected_error("Llama-3 8B", machine, 64).group and "bf16" in by_names.group
    own = expected_error("Llama-3 8B", machine.changed(gpu="mine"), 64, "modern")
    assert "none on mine in any precision" in own.missing and own.runs == 0
    assert own.log_spread > expected_error("Llama-3 8B", machine, 64, "modern").log_spread


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="answer"):
        expected_error("Llama-3 8B", "DGX H100", 64, answer="fastest")
    with pytest.raises(ValueError, match="gpus"):
        expected_error("Llama-3 8B", "DGX H100", 0)
    for terms in (("Llama-3 9B", "DGX H100"), ("Llama-3 8B", "DGX H1000"), ("Llama-3 8B", "DGX H100", 64, "none")):
        with pytest.raises(catalog.UnknownName):
            expected_error(*terms, *([64] if len(terms) == 2 else []))


# A user's own runs


def test_own_runs_move_the_middle_toward_theirs_and_narrow_it():
    before = usual(gpus=512, answer="strategy")
    middles, widths = [before.middle], [before.log_spread]
    for count in (1, 12):
        error = expected_error("Llama-3 70B", "DGX H100", 512, own=own_runs(1.3, count))
        assert error.own == count and f"{count} run" in error.evidence and "of yours" in error.evidence
        assert (error.runs, error.largest) == (before.runs, before.largest)  # published ones
        middles.append(error.middle)
        widths.append(error.log_spread)
    toward = np.abs(np.log(middles) - np.log(1.3))
    assert (np.diff(toward) < 0).all() and (np.diff(widths) < 0).all()
    assert toward[-1] < 0.35 * toward[0]
    assert expected_error("Llama-3 70B", "DGX H100", 512, own=own_runs(0.9)).middle < before.middle
    with pytest.raises(ValueError, match="leave it out"):
        expected_error("Llama-3 70B", "DGX H100", 512, answer="best", own=own_runs(1.3))


def test_own_runs_say_little_of_another_gpu():
    here = expected_error("Llama-3 70B", "DGX H100", 1024, own=own_runs(1.4, 5))
    there = expected_error("Llama-3 70B", "DGX B200", 1024, own=own_runs(1.4, 5))
    before = [usual(platform=platform, answer="strategy") for platform in ("DGX H100", "DGX B200")]
    moved = [np.log(new.middle / old.middle) for new, old in zip((here, there), before, strict=True)]
    assert 0 < moved[1] < 0.5 * moved[0]
    assert there.log_spread < before[1].log_spread


def test_every_own_run_counts_against_its_own_strategy():
    twice = pd.concat([own_runs(1.3), own_runs(1.2)], ignore_index=True)
    error = expected_error("Llama-3 70B", "DGX H100", 512, answer="strategy", own=twice)
    assert error.own == 2 and error.answer == "strategy"
    ends = [
        expected_error("Llama-3 70B", "DGX H100", 512, answer="strategy", own=own_runs(factor, 2)).middle
        for factor in (1.2, 1.3)
    ]
    assert ends[0] < error.middle < ends[1]
    unlike = own_runs(1.3).assign(modelled_s=np.nan)  # a strategy that the model has no time of
    assert expected_error("Llama-3 70B", "DGX H100", 512, answer="strategy", own=unlike).own == 0


def test_own_errors_are_of_the_runs_own_strategy():
    """A bad mapping that takes what the model says of it is no error: how slow it is does not matter."""
    rows = published_table()
    rows = rows[(rows["use"] == "check") & (rows["platform"] == "DGX H100") & (rows["model"] == "Llama-3 70B")].head(1)
    slow = rows.assign(use=YOURS, recompute="full")
    runs = own_errors(pd.concat([rows.assign(use=YOURS), slow], ignore_index=True))
    usual_s, slow_s = runs["modelled_s"]
    assert slow_s > 1.05 * usual_s and set(runs["place"]) == {"yours, DGX H100"} and set(runs["gpu"]) == {"H100"}
    as_modelled = runs.assign(measured_iteration_s=runs["modelled_s"])
    assert errors_of(as_modelled, "strategy")["log_error"].tolist() == [0, 0]
    gpus = int(rows["gpus"].item())
    fast, bad = (
        expected_error("Llama-3 70B", "DGX H100", gpus, answer="strategy", own=as_modelled.iloc[[row]])
        for row in range(2)
    )
    assert bad.middle == pytest.approx(fast.middle) and bad.log_spread == pytest.approx(fast.log_spread)
    assert abs(bad.log_middle) < abs(usual(gpus=gpus, answer="strategy").log_middle)
    assert own_errors(no_runs()).empty


def test_no_own_runs_change_nothing():
    for none in (own_runs(1.3).iloc[:0], own_errors(no_runs())):
        assert expected_error("Llama-3 70B", "DGX H100", 1024, own=none)[:8] == usual()[:8]


# Draws


@BOTH
def test_draws_have_the_intervals_ends(answer):
    for job in ((), ("DeepSeek-V3", "GB200 NVL72", 256)):
        error = usual(*job, answer=answer)
        drawn = error.draws(20_000, 1)
        ends = [error.low, error.lower, error.middle, error.upper, error.high]
        assert np.quantile(drawn, [0.05, 0.25, 0.5, 0.75, 0.95]) == pytest.approx(ends, rel=0.02)
        assert (drawn > 0).all() and np.mean(drawn < error.middle) == pytest.approx(0.5, abs=0.06)


def test_draws_are_stratified_and_those_of_their_seed():
    error = usual()
    drawn = error.draws(400, 3)
    assert drawn.shape == (400,) and drawn.tolist() == error.draws(400, 3).tolist()
    assert drawn.tolist() != error.draws(400, 4).tolist()
    for share, end in zip((0.05, 0.25, 0.75, 0.95), (error.low, error.lower, error.upper, error.high), strict=True):
        assert abs(np.sum(drawn < end * (1 - 1e-12)) - 400 * share) <= 10  # ties at steps of the scores
    assert np.corrcoef(np.arange(400), drawn)[0, 1] == pytest.approx(0, abs=0.15)
    assert sorted(error.draws(4, 0) > error.middle) == [False, False, True, True]


# Runs that answers are held against


def test_the_best_leaves_one_run_a_job_at_a_place():
    table = published_errors()
    best, given = (errors_of(table, answer) for answer in ("best", "strategy"))
    assert (best.groupby([best[name].astype(str) for name in module._JOB]).size() == 1).all()
    assert len(best) < table["best_s"].notna().sum() and len(given) == table["modelled_s"].notna().sum()
    assert best.index.is_monotonic_increasing and set(best.index) <= set(table.index)
    assert best["log_error"].to_numpy() == pytest.approx(np.log(best["measured_iteration_s"] / best["best_s"]))
    assert given["log_error"].to_numpy() == pytest.approx(np.log(given["measured_iteration_s"] / given["modelled_s"]))
    fits = table.dropna(subset=["best_s"])
    for key, runs in list(fits.groupby([fits[name].astype(str) for name in module._JOB], sort=False))[:60]:
        (left,) = set(runs.index) & set(best.index)
        assert table.loc[left, "measured_iteration_s"] == runs["measured_iteration_s"].min(), key


def test_the_best_of_all_is_no_slower_than_the_own_strategy():
    table = published_errors().dropna(subset=["best_s", "modelled_s"])
    assert len(table) > 500 and np.mean(table["best_s"] <= table["modelled_s"] * (1 + 1e-6)) > 0.95


def test_spreads_of_both_answers_are_stored():
    best, given = map(published_spreads, ("best", "strategy"))
    assert best != given and min(*best, *given) > 0
    with pytest.raises(ValueError, match="answer"):
        published_spreads("other")


# The nearest run


def test_the_nearest_run_is_of_the_model_then_the_gpu_then_the_precision():
    table = errors_of(published_errors(), "best")
    models = {name for name in catalog.names("models") if (table["model"] == name).any()}
    assert len(models) > 5
    for model in sorted(models):
        for platform in ("DGX H100", "GB200 NVL72"):
            nearest = usual(model, platform, 64).nearest
            of_model = table[(table["model"] == model) & (table["mixture"] == nearest["mixture"])]
            assert nearest["model"] == model or of_model.empty
            here = of_model[of_model["gpu"] == catalog.item("platforms", platform)["gpu"]]
            assert (nearest["gpu"] in set(here["gpu"])) or here.empty
            if (here["precision"] == "bf16").any():
                assert nearest["precision"] == "bf16"
    other = usual("PaLM-540B").nearest
    assert (other["gpu"], other["precision"], other["mixture"]) == ("H100", "bf16", "dense")


def test_the_nearest_run_is_without_a_flag_and_near_in_gpus():
    table = errors_of(published_errors(), "best")
    like = table[(table["gpu"] == "H100") & (table["precision"] == "bf16") & (table["mixture"] == "dense")]
    clean = like[like["flag"] == ""]
    assert len(clean) < len(like)
    for gpus in (8, 100, 1000, 30_000):
        nearest = usual("PaLM-540B", gpus=gpus).nearest  # of which there is no run
        away = np.abs(np.log2(clean["gpus"] / gpus))
        assert abs(np.log2(nearest["gpus"] / gpus)) == pytest.approx(away.min()) and nearest.name in set(clean.index)


def test_the_nearest_run_in_words_has_our_times_beside_it():
    error = usual()
    run = error.nearest.copy()
    run["measured_iteration_s"], run["best_s"], run["flag"] = 10.0, 8.0, ""
    text = error._replace(nearest=run).nearest_run()
    assert "10.0 s" in text or "10 s" in text
    assert "(-20%)" in text and "+" not in text and run["software"] in text and "open" not in text
    assert "(+50%)" in error._replace(nearest=run).nearest_run(15.0)
    run["flag"] = "how many GPUs"
    assert "how many GPUs" in error._replace(nearest=run).nearest_run()


def test_an_interval_of_a_time_is_that_of_its_ends():
    error = usual()._replace(low=0.5, high=2.0)
    text = error.between(10.0, "s")
    assert "5" in text and "20" in text and "nine of ten" in text
    assert "0.5" in str(error) and str(error.evidence) in str(error)


# The order of choices


def test_pairs_of_one_job_are_mostly_in_order():
    share, pairs = choice_order()
    assert 0.5 < share <= 1 and pairs > 200
    kinds = [choice_order(kind) for kind in ("dense", "experts", "adapters")]
    assert sum(count for _, count in kinds) == pairs and (usual().order, usual().pairs) == kinds[0]
    assert all(0 <= share <= 1 for share, count in kinds if count)


@pytest.fixture
def small(monkeypatch):
    """The order of pairs of given runs: (place, measured, modelled)."""
    (row,) = published_errors().dropna(subset=["modelled_s"]).head(1).to_dict("records")

    def order(*rows, kind=""):
        names = ("place", "measured_iteration_s", "modelled_s")
        table = pd.DataFrame([row | dict(zip(names, each, strict=True)) for each in rows])
        monkeypatch.setattr(module, "published_errors", lambda: table)
        return choice_order.__wrapped__(kind)

    return order


def test_each_place_counts_once_in_the_order(small):
    right, wrong = [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], [("b", 1, 2), ("b", 2, 1)]
    assert small(*right) == (1.0, 3) and small(*wrong) == (0.0, 1)
    assert small(*right, *wrong) == (0.5, 4)
    assert small(("a", 1, 1), ("a", 2, 3), ("a", 3, 2)) == (pytest.approx(2 / 3), 3)


def test_equal_times_are_no_pair(small):
    assert small(("a", 1, 1), ("a", 2, 1 + 1e-12), ("a", 3, 2))[1] == 2
    assert small(("a", 1, 1), ("a", 1, 2), ("a", 3, 3))[1] == 2
