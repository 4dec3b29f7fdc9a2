import pytest

from railcore.facts import catalog
from railcore.training import validation
from railcore.training.iteration import RUNTIMES
from railcore.training.iteration.critical_path import TIMES
from railcore.training.transformer import RECOMPUTE, SHARDING

RUNS = validation.runs()
MODELLED = validation.predictions(RUNS)


def test_rows_are_whole_and_divide():
    for use, count in (("fit", 18), ("check", 180)):
        table = validation.runs(use)
        assert (
            len(table) >= count and (table["measured_iteration_s"] > 0).all() and table["source"].str.len().gt(10).all()
        )
        assert (table["gpus"] == table["tp"] * table["cp"] * table["pp"] * table["dp"]).all()
        assert (table["global_batch"] % (table["dp"] * table["microbatch"]) == 0).all()
        assert set(table["platform"]) <= set(catalog.names("platforms"))
        for name, known in (("recompute", RECOMPUTE), ("sharding", SHARDING), ("runtime", RUNTIMES)):
            assert set(table[name]) <= set(known)


def test_catalog_has_the_fitted_value_and_the_range_of_both_halves():
    row = catalog.item("efficiencies", "all").row(validation.FITTED)
    assert row.kind == "derived"
    assert validation.fitted(RUNS) == pytest.approx(row.value, abs=2e-5)
    halves = validation.halves(RUNS)
    assert sorted(halves["fitted"].unique()) == pytest.approx([row.low, row.high], abs=2e-5)
    limits = halves["source"].str.startswith("Korthikanti").map({True: 1.5 * 0.035, False: 1.5 * 0.06})
    assert (halves["mean_absolute_error"] < limits).all()


def test_model_is_as_near_to_the_measured_runs_as_it_claims():
    errors = validation.summary(MODELLED).set_index("source")["mean_absolute_error"]
    assert errors.filter(like="Korthikanti").item() < 0.035 and errors.filter(like="Narayanan").item() < 0.06
    assert MODELLED["error"].abs().max() < 0.12
    assert (MODELLED["error"] > 0).any() and (MODELLED["error"] < 0).any()
    check = validation.predictions(validation.runs("check"))
    nemo = check[(check["software"] == "NeMo") & (check["experts"] == 0)]
    by_precision = nemo.groupby("precision")["error"].agg(lambda error: error.abs().mean())
    assert by_precision["bf16"] < 0.04 and by_precision["fp8"] < 0.1


def test_breakdown_adds_up_and_every_term_takes_time():
    assert MODELLED[list(TIMES)].sum(axis=1).to_numpy() == pytest.approx(MODELLED["modelled_s"].to_numpy())
    worth = validation.worth(RUNS).set_index("term")
    assert worth.loc["nothing", "time_share"] == 0
    hiding = worth.pop("time_share").drop(["nothing", "hiding of tensor traffic"])
    assert (hiding > 0).all()
    least = worth.loc["nothing", "mean_absolute_error"]
    assert (worth["mean_absolute_error"] >= least).all()


def test_a_schedule_measured_twice_is_compared_at_the_same_work():
    twice = validation.measured_twice(MODELLED)
    assert len(twice) == 2 and twice["measured_ratio"].between(1.05, 1.15).all()
    assert (twice["modelled_ratio"] < twice["measured_ratio"]).all()


def test_errors():
    with pytest.raises(ValueError, match=r"use is 'all'.*check, fit"):
        validation.runs("all")
    with pytest.raises(ValueError, match="table has no runs"):
        validation.fitted(RUNS.head(0))
