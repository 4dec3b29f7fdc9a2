import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore.engines.photonics import circuits
from railcore.engines.photonics.estimate import (
    STEP_SOFTWARE,
    estimate_errors,
    estimates_of_runs,
    overhead_estimate,
    technology_overheads,
)
from railcore.engines.steps.stage_program import StepOptions, fsdp_options
from railcore.facts import files
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

TINY = Transformer("tiny", 16, 4096, 32, 8, 14336, 32000, 8192, ffn_matrices=3)
MACHINE = "DGX H100"
PLAIN = [name for name in STEP_SOFTWARE if name != "ZeRO-2"]


def strategy_of(software, **split):
    return Strategy(**{"tensor": 8, "sequence_parallel": True, **split}, sharding=STEP_SOFTWARE[software][0])


def estimated(software, d, m=8, early=False, model=TINY, **split):
    strategy = strategy_of(software, **split)
    return overhead_estimate(model, MACHINE, strategy.columns(m * strategy.data), d, early, STEP_SOFTWARE[software][1])


@pytest.mark.parametrize("p", [2, 4, 8, 16])
@pytest.mark.parametrize("m", [1, 4, 32])
def test_kept_weights_change_four_times_a_stage(p, m):
    """V before and after AllGathers and ReduceScatters, one before short AllReduces; 2 less if m is 1."""
    d = 1.0
    found = estimated("FSDP, weights kept", d, m, pipeline=p, data=4)
    assert (found.iteration_s - found.electrical_s) / d == pytest.approx(4 * p - 2 * (m == 1))


@pytest.mark.parametrize("p", [2, 4, 8])
def test_each_micro_batch_adds_changes_where_weights_are_freed(p):
    """An inner stage changes before and after the AllGathers of each pass, the two ends of a pipeline half as often."""
    d = 100.0
    few, many = (estimated("FSDP, resharded", d, m, pipeline=p, data=4).iteration_s / d for m in (8, 16))
    assert many - few == pytest.approx(8 * (2 if p == 2 else 4), rel=1e-2)


@pytest.mark.parametrize("software", STEP_SOFTWARE)
@pytest.mark.parametrize("split", [{"pipeline": 4}, {"data": 8}, {"pipeline": 1, "data": 1}])
def test_one_kind_of_traffic_on_the_rails_never_changes(software, split):
    assert (estimated(software, np.array([0.0, 1e-3, 10.0]), **split).overhead == 0).all()


def test_ports_for_both_kinds_of_traffic_never_change():
    columns = strategy_of("ZeRO-1", pipeline=4, data=4).columns(16)
    assert overhead_estimate(TINY, MACHINE, columns, 1.0).overhead > 0
    assert overhead_estimate(TINY, MACHINE, columns, 1.0, ports=4).overhead == 0


@given(st.sampled_from(PLAIN), st.sampled_from([2, 4]), st.integers(1, 6), st.floats(1e-6, 1.0), st.booleans())
@settings(max_examples=12)
def test_estimate_is_near_the_simulation(software, p, m, delay, early):
    """Without interleaving and context ranks; what windows hide in other passes than the estimate's are the rest."""
    d, strategy, options = 4, strategy_of(software, pipeline=p, data=4), STEP_SOFTWARE[software][1]
    run = circuits.photonic_overhead(TINY, MACHINE, strategy, delay, m * d, early, options).iloc[0]
    found = estimated(software, delay, m, early, pipeline=p, data=d)
    assert found.electrical_s == pytest.approx(run["electrical_s"], rel=0.05)
    assert found.iteration_s == pytest.approx(run["iteration_s"], rel=0.25)


@pytest.mark.parametrize("software", STEP_SOFTWARE)
@pytest.mark.parametrize("split", [{"interleave": 2}, {"context": 4}, {}])
def test_no_delay_is_the_electrical_network_and_provisioning_never_hurts(software, split):
    delays = np.geomspace(1e-6, 10, 29)
    late, early = (estimated(software, delays, 8, which, pipeline=4, data=4, **split) for which in (False, True))
    assert estimated(software, 0.0, 8, pipeline=4, data=4, **split).overhead == 0
    assert (early.iteration_s <= late.iteration_s * (1 + 1e-12)).all()
    assert late.overhead[-1] > 1


def test_columns_and_delays_broadcast():
    columns = {
        name: np.array([value, value]) for name, value in strategy_of("ZeRO-1", pipeline=4, data=4).columns(16).items()
    }
    columns["pipeline"] = np.array([2, 4])
    delays = np.array([[0.0], [1e-3], [1e-2]])
    found = overhead_estimate(TINY, MACHINE, columns, delays)
    assert found.overhead.shape == (3, 2)
    one = estimated("ZeRO-1", 1e-2, 4, pipeline=2, data=4)
    assert found.iteration_s[2, 0] == pytest.approx(float(one.iteration_s), rel=1e-12)


def test_bad_input_is_refused():
    columns = strategy_of("ZeRO-1", pipeline=4, data=4).columns(16)
    with pytest.raises(ValueError, match="reconfiguration_s is"):
        overhead_estimate(TINY, MACHINE, columns, -1.0)
    with pytest.raises(ValueError, match="ports is 1"):
        overhead_estimate(TINY, MACHINE, columns, 1.0, ports=1)
    with pytest.raises(ValueError, match="expert is more than 1"):
        overhead_estimate(TINY, MACHINE, columns | {"expert": 2}, 1.0)
    with pytest.raises(ValueError, match="software is 'ZeRO-9'"):
        technology_overheads(["Llama-3 8B"], MACHINE, [64], 1e-3, 64, ["ZeRO-9"])


def test_options_of_the_software_count():
    """Without the short AllReduces of the pipeline its change goes, and so does the one into the next step."""
    columns = strategy_of("FSDP, weights kept", pipeline=4, data=4).columns(32)
    both, one = (
        overhead_estimate(TINY, MACHINE, columns, 1.0, options=fsdp_options(**changes))
        for changes in ({}, {"sync_groups": ("replica",)})
    )
    assert both.iteration_s - one.iteration_s == pytest.approx(2, abs=0.01)


def test_larger_clusters_and_slower_switches_cost_more_of_the_same_strategy():
    split = {"tensor": 8, "pipeline": 4, "interleave": 1, "micro_batch": 1, "recompute": "none", "sequence_parallel": 1}
    table = technology_overheads(["Llama-3 70B"], "DGX H200", [256, 512, 1024], [1e-3, 1e-2, 1e-1], 1024, **split)
    cells = table.pivot(index="gpus", columns="reconfiguration_s", values="overhead").to_numpy()
    assert (np.diff(cells[:, 1:], axis=0) > 0).all() and (np.diff(cells, axis=1) > 0).all()
    none = technology_overheads(["Llama-3 405B"], "DGX H200", [16], [1e-3], 16)
    assert none["strategy"].item() == "none fits" and none["overhead"].isna().all()


@pytest.fixture(scope="module")
def runs():
    return pd.read_csv(files.data("derived/photonic_runs.csv"))


def test_errors_of_the_estimate(runs):
    """What the docstring says of pipelines without chunks and of context ranks."""
    errors = estimate_errors(estimates_of_runs(runs)).set_index(["rails", "software"])
    plain, exact = errors.loc["plain"], errors.loc["plain"].loc[["ZeRO-1", "FSDP, weights kept", "FSDP, resharded"]]
    assert plain["time_error"].max() < 0.03 and plain["median_error"].max() < 0.01
    assert plain["low"].min() > 0.5 and plain["high"].max() < 2.2
    assert exact["median_error"].max() < 0.001 and exact["low"].min() > 0.85 and exact["high"].max() < 1.25
    context = errors.loc["context ranks"]
    assert context["low"].min() > 1 and context["high"].max() < 1.55


def test_error_table_counts():
    row = {"rails": "plain", "software": "x", "electrical_s": 2.0, "estimated_electrical_s": 2.1}
    table = pd.DataFrame([row | {"overhead": 0.1, "estimated": 0.2}, row | {"overhead": 0.001, "estimated": 0.0}])
    found = estimate_errors(table).iloc[0]
    assert found[["runs", "low", "high"]].tolist() == [2, 2.0, 2.0]
    assert found["time_error"] == pytest.approx(0.05) and found["largest_error"] == pytest.approx(0.1)


def test_accumulated_gradients_are_exchanged_once():
    options = StepOptions(accumulate_gradients=True)
    columns = strategy_of("ZeRO-2", pipeline=4, data=4).columns(64)
    once = strategy_of("ZeRO-1", pipeline=4, data=4).columns(64)
    same = [overhead_estimate(TINY, MACHINE, each, 1e-2, options=options).iteration_s for each in (columns, once)]
    assert same[0] == pytest.approx(float(same[1]), rel=1e-12)
