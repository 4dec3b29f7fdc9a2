from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railcore.catalog import files
from railcore.photonics import circuits
from railcore.photonics.circuit_changes import RINGS, Rings, rail_ring
from railcore.photonics.circuit_search import best_on_circuits, technology_overheads
from railcore.photonics.estimate import STEP_SOFTWARE, estimate_errors, estimates_of_runs, overhead_estimate
from railcore.photonics.simulation import RAIL, ElectricalRails, simulate
from railcore.photonics.stage_program import StepOptions
from railcore.photonics.workload import training_step
from railcore.strategies.space import strategy_blocks
from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer

SIZES = {"layers": 16, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn_hidden": 14336, "vocabulary": 32000}
TINY = Transformer("tiny", **SIZES, sequence_length=8192, ffn_matrices=3, tied_embeddings=False)
MIXED = Transformer("mixed", **SIZES, sequence_length=8192, ffn_matrices=3, experts=16, top_k=2, expert_hidden=4096)
MACHINE = "DGX H100"
DELAYS = np.concatenate([[0.0], np.geomspace(1e-6, 10, 40)])
PLAIN = [name for name in STEP_SOFTWARE if name != "ZeRO-2"]


def strategy_of(software, **split):
    return Strategy(**{"tensor": 8, "sequence_parallel": True, **split}, sharding=STEP_SOFTWARE[software][0])


def estimated(software, d, m=8, early=False, model=TINY, **split):
    strategy, options = strategy_of(software, **split), STEP_SOFTWARE[software][1]
    return overhead_estimate(model, MACHINE, strategy, d, early, options, global_batch=m * strategy.data)


def simulated(software, d, m=8, early=False, model=TINY, **split):
    """What changes add in the simulation, and its electrical iteration."""
    strategy, options = strategy_of(software, **split), STEP_SOFTWARE[software][1]
    run = circuits.photonic_overhead(model, MACHINE, strategy, d, m * strategy.data, early, options).iloc[0]
    return run["iteration_s"] - run["electrical_s"], run["electrical_s"]


def columns_of(model, machine, gpus, batch, some=400, **limits):
    """Some of all strategies."""
    blocks = list(strategy_blocks(model, machine, gpus, batch, **limits))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in STRATEGY_COLUMNS}
    picked = np.random.default_rng(0).permutation(columns["tensor"].size)[:some]
    return {name: values[picked] for name, values in columns.items()}


@pytest.mark.parametrize("model", [TINY, MIXED])
@pytest.mark.parametrize("offload", ["none", ("optimizer", "activations")])
def test_the_electrical_time_is_that_of_all_other_models(model, offload):
    """With kept inputs, recompute, chunks, orders of ranks: to the last digit."""
    columns = columns_of(
        model, MACHINE, 64, 64, tensor=[1, 2, 4, 8], context=1, whole_experts=0, placement="tensor first"
    )
    columns = {
        name: values[(columns["expert"] == 1) | (columns["interleave"] == 1)] for name, values in columns.items()
    }
    found = overhead_estimate(model, MACHINE, columns, 1e-3, offload=offload)
    assert (found.electrical_s == iteration_times(model, MACHINE, columns, offload=offload).total_s).all()
    assert (found.iteration_s >= found.electrical_s).all() and (found.overhead > 0).any()
    kept, freed = (estimated("ZeRO-1", 1e-2, pipeline=4, data=4, keep_gathered=kept) for kept in (True, False))
    assert kept.electrical_s < freed.electrical_s


@pytest.mark.parametrize("model", [TINY, MIXED])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("ports", [2, 4])
def test_what_changes_add(model, after, ports):
    """Nothing without a delay, more with a longer one, no more where circuits change early."""
    columns = columns_of(model, MACHINE, 64, 64, tensor=[1, 2, 4, 8], whole_experts=0, placement="tensor first")
    kept = (columns["expert"] == 1) | ((columns["interleave"] == 1) & (columns["context"] == 1))
    columns = {name: values[kept] for name, values in columns.items()}
    asked = {"options": StepOptions(gradients_after_pass=after), "ports": ports}
    late, early = (
        overhead_estimate(model, MACHINE, columns, DELAYS[:, None], way, **asked).changes_s for way in (False, True)
    )
    rounding = 1e-9 * (1 + late)
    assert (late[0] == 0).all() and (early[0] == 0).all()
    assert (np.diff(late, axis=0) >= -rounding[1:]).all() and (np.diff(early, axis=0) >= -rounding[1:]).all()
    assert (early <= late + rounding).all() and (early[-1] < late[-1]).any()


@pytest.mark.parametrize("p", [2, 4, 8, 16])
@pytest.mark.parametrize("m", [1, 4, 32])
def test_kept_weights_change_four_times_a_stage(p, m):
    """V before and after AllGathers and ReduceScatters, one before short AllReduces; 2 less if m is 1."""
    d = 1.0
    assert estimated("FSDP, weights kept", d, m, pipeline=p, data=4).changes_s / d == pytest.approx(
        4 * p - 2 * (m == 1)
    )


@pytest.mark.parametrize("software", STEP_SOFTWARE)
@pytest.mark.parametrize("split", [{"pipeline": 4}, {"data": 8}, {"pipeline": 1, "data": 1}])
def test_one_kind_of_traffic_on_the_rails_never_changes(software, split):
    found = estimated(software, DELAYS, **split)
    assert (found.overhead == 0).all() and (found.iteration_s == found.electrical_s).all()


@pytest.mark.parametrize(
    ("model", "split", "ports"), [(TINY, {}, 4), (MIXED, {"expert": 4}, 4), (MIXED, {"expert": 2}, 8)]
)
def test_ports_for_all_kinds_of_traffic_never_change(model, split, ports):
    strategy = strategy_of("ZeRO-1", pipeline=2, data=4, **split)
    few, enough = (
        overhead_estimate(model, MACHINE, strategy, 1.0, ports=n, global_batch=16) for n in (ports - 2, ports)
    )
    assert few.changes_s > 0 and enough.changes_s == 0


@given(st.sampled_from(PLAIN), st.sampled_from([2, 4]), st.integers(1, 6), st.floats(1e-6, 1.0), st.booleans())
@settings(max_examples=12)
def test_changes_add_what_they_add_in_the_simulation(software, p, m, delay, early):
    """Without chunks and context ranks."""
    split = {"pipeline": p, "data": 4}
    added_s, electrical_s = simulated(software, delay, m, early, **split)
    found = float(estimated(software, delay, m, early, **split).changes_s)
    assert found == pytest.approx(added_s, rel=0.3, abs=0.02 * electrical_s)


@given(
    st.sampled_from([*STEP_SOFTWARE]),
    st.sampled_from([(1, 4, 2), (1, 4, 4), (2, 4, 2), (2, 8, 4), (4, 4, 4), (4, 4, 2)]),
    st.sampled_from([1, 4]),
    st.floats(1e-4, 0.1),
    st.booleans(),
    st.sampled_from(["none", "full"]),
)
@settings(max_examples=12)
def test_changes_of_experts_add_what_they_add_in_the_simulation(software, sizes, m, delay, early, recompute):
    """Groups of experts with circuits of their own, and with those of the data ranks."""
    p, d, e = sizes
    split = {"pipeline": p, "data": d, "expert": e, "recompute": recompute, "model": MIXED}
    added_s, electrical_s = simulated(software, delay, m, early, **split)
    found = float(estimated(software, delay, m, early, **split).changes_s)
    assert found == pytest.approx(added_s, rel=0.45, abs=0.02 * electrical_s)


@pytest.mark.parametrize("software", ["ZeRO-1", "FSDP, resharded"])
@pytest.mark.parametrize("model", ["context", "every other layer", "parallel block", "tied embeddings"])
def test_changes_of_other_steps_add_what_they_add_in_the_simulation(software, model):
    """At 10 ms, which no window hides."""
    of_model = {"every other layer": {"expert_layer_interval": 2}, "parallel block": {"parallel_block": True}}
    kind = replace(TINY, tied_embeddings=True) if model == "tied embeddings" else TINY
    kind = replace(MIXED, **of_model[model]) if model in of_model else kind
    split = {"expert": 2} if model in of_model else {"context": 2} if model == "context" else {}
    for p in (2, 4):
        added_s, _ = simulated(software, 1e-2, 4, model=kind, pipeline=p, data=4, **split)
        found = float(estimated(software, 1e-2, 4, model=kind, pipeline=p, data=4, **split).changes_s)
        assert found == pytest.approx(added_s, rel=0.2), p


@pytest.mark.parametrize(("d", "e"), [(4, 2), (4, 4), (8, 8)])
def test_all_to_alls_go_around_rings(d, e):
    """Where all share one ring, its longer way is all that circuits cost; on two domains it is none."""
    strategy = strategy_of("data parallel", data=d, expert=e)
    found = overhead_estimate(MIXED, MACHINE, strategy, 0.0, global_batch=2 * d)
    step = training_step(MIXED, MACHINE, strategy, 2 * d, one_replica=True)
    ring, direct = (simulate(step, ElectricalRails(algorithm=way)).iteration_s for way in ("ring", "fewest steps"))
    assert float(found.detour_s) == pytest.approx(ring - direct, rel=0.05, abs=1e-3)
    assert (found.detour_s > 0) == (e > 2) and found.changes_s == 0


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([2, 4, 8]),
)
@settings(max_examples=40)
def test_rings_with_equal_domains_have_the_same_circuits(t, c, d, e, size):
    assume((c * d) % e == 0 and t <= size and t * c * d > size)
    strategy, machine = Strategy(tensor=t, context=c, data=d, expert=e), catalog_machine(MACHINE, hb_domain_size=size)
    step, groups = training_step(MIXED, machine, strategy, d), strategy.group_levels()
    assume(not any(groups[kind].lie_unevenly(size) for kind in RINGS))
    found = {}
    for op, link in enumerate(step.link):
        kind = step.operation(op).group
        if link == RAIL and 0 in step.ranks[op] and kind in RINGS:
            found[kind] = frozenset(pair for pair in step.transfers(op, forwarded=True) if 0 in pair)
    joined = {kind: rail_ring(groups[kind], size) for kind in RINGS}
    for one in found:
        assert joined[one][0] > 1
        for other in found:
            assert (found[one] == found[other]) == (joined[one] == joined[other]).all(), (one, other)
    assert Rings.of(groups, size).kinds == len(set(found.values()))


@pytest.mark.parametrize("provisioning", [False, True])
@pytest.mark.parametrize(("model", "sharding"), [(TINY, "weights"), (MIXED, "optimizer")])
def test_the_best_strategy_on_circuits_is_the_best_of_all(model, sharding, provisioning):
    delays, limits = (
        np.array([0.0, 1e-4, 2e-3, 0.05, 1.0]),
        {"sharding": sharding, "tensor": [4, 8], "pipeline": [2, 4, 8]},
    )
    limits |= {"context": 1, "interleave": 1, "whole_experts": 0, "placement": "tensor first"}
    found = best_on_circuits(model, MACHINE, 64, 128, delays, provisioning, **limits)
    assert not found.attrs["warnings"]
    columns = columns_of(model, MACHINE, 64, 128, None, **limits)
    fits = iteration_times(model, MACHINE, columns).feasible
    columns = {name: values[fits] for name, values in columns.items()}
    every = overhead_estimate(model, MACHINE, columns, delays[:, None], provisioning)
    assert found["iteration_s"].to_numpy() == pytest.approx(every.iteration_s.min(axis=1), rel=1e-12)
    assert (found["best_electrical_s"] == every.electrical_s.min()).all()
    assert found["overhead"].is_monotonic_increasing and found["strategy"].nunique() > 1
    again = overhead_estimate(model, MACHINE, found, delays, provisioning)
    assert found["iteration_s"].to_numpy() == pytest.approx(again.iteration_s, rel=1e-12)
    assert (found["overhead"] <= every.overhead[:, np.argmin(every.electrical_s[0])] + 1e-12).all()


def test_what_was_left_out_is_said():
    found = best_on_circuits(MIXED, MACHINE, 64, 64, 1.0, tensor=16, placement="tensor first")
    assert found["strategy"].item() == "none fits" and np.isnan(found["overhead"].item())
    assert any("tensor ranks leave" in text for text in found.attrs["warnings"])


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
    """What the docstring says, of the largest errors and of most."""
    table = estimates_of_runs(runs)
    errors = estimate_errors(table).set_index(["rails", "software"])
    bounds = {"data parallel": (0.55, 2.2), "ZeRO-2": (0.55, 1.11)}
    for software, row in errors.loc["plain"].iterrows():
        low, high = bounds.get(software, (0.75, 1.75))
        assert row["low"] > low and row["high"] < high and row["median_error"] < 0.005, software
    context, chunks = errors.loc["context ranks"], errors.loc["interleaved"]
    assert context["low"].min() > 0.95 and context["high"].max() < 1.15
    assert chunks["low"].min() > 0.35 and chunks["high"].max() < 2.1
    some = table[(table["rails"] == "plain") & (table["overhead"] >= 0.01) & ~table["software"].isin(bounds)]
    assert ((some["estimated"] / some["overhead"]).between(0.9, 1.25)).mean() > 0.95
