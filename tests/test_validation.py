from functools import cache

import numpy as np
import pandas as pd
import pytest

from railcore.training import machine, prediction_error, runs, runtime, transformer
from railcore.training.iteration import iteration_times
from railcore.training.parallelism import Strategy
from railcore.training.products import product_time
from suite import run_errors, run_tables
from suite.ledger import claims
from suite.railonly2025.iteration_claims import fig8_claims, iteration_time_claims, slowdown_marks

RUNS = runs.published_runs()


@cache
def predicted(use):
    return runs.predictions(runs.published_runs(use))


@cache
def all_runs():
    return runs.joined_runs(*map(predicted, runs.MODELLED))


def test_model_is_as_near_to_the_measured_runs_as_it_claims():
    errors = runs.error_summary(predicted("fit")).set_index("source")["mean_absolute_error"]
    # Norms have the shares of H100, where those of 2022 on A100 are not measured.
    assert errors.filter(like="Korthikanti").item() < 0.065 and errors.filter(like="Narayanan").item() < 0.05
    assert predicted("fit")["error"].abs().max() < 0.12
    assert (predicted("fit")["error"] > 0).any() and (predicted("fit")["error"] < 0).any()
    check = predicted("check")
    nemo = check[(check["software"] == "NeMo") & (check["experts"] == 0)]
    by_precision = nemo.groupby("precision")["error"].agg(lambda error: error.abs().mean())
    assert by_precision["bf16"] < 0.08 and by_precision["fp8"] < 0.1


def test_a_mechanism_is_switched_off_by_fields_of_the_machine_of_the_software_or_by_its_part():
    two = RUNS.tail(2)
    off = {
        "spread": {"rank_spread": 0.0},
        "hiding": {"overlap_tensor": False},
        "both": {"rank_spread": 0.0, "overlap_tensor": False},
        "optimizer": "optimizer_s",
    }
    effects = run_errors.mechanism_effects(two, off).set_index("mechanism")
    whole, measured = runs.predictions(two), two["measured_iteration_s"]
    expected = {
        "nothing": whole["modelled_s"],
        "spread": runs.predictions(two, rank_spread=0.0)["modelled_s"],
        "hiding": runs.predictions(two, {"overlap_tensor": False})["modelled_s"],
        "both": runs.predictions(two, {"overlap_tensor": False}, rank_spread=0.0)["modelled_s"],
        "optimizer": whole["modelled_s"] - whole["optimizer_s"],
    }
    for name, times in expected.items():
        error = (times / measured - 1).abs().mean()
        assert effects.loc[name, "mean_absolute_error"] == pytest.approx(error)
        assert effects.loc[name, "gained"] == pytest.approx(error - whole["error"].abs().mean())


@pytest.mark.parametrize("platform", ["DGX A100", "DGX H100", "MI300X full mesh"])
def test_switching_a_mechanism_off_leaves_the_others_as_they_are(platform):
    box = machine.catalog_machine(platform)
    smooth = box.changed(**run_errors.MECHANISMS["whole waves of tiles"])
    for software in (runtime.MODERN, runtime.catalog_runtime("fsdp-eager")):
        assert software.interference(smooth) == pytest.approx(software.interference(box)) and software.interference(box)
        none = box.changed(**run_errors.MECHANISMS["compute lost to collectives beside it"])
        assert software.interference(none) == 0
    assert (product_time(smooth, 5000, 5000, 4096) < product_time(box, 5000, 5000, 4096)) == box.rates.whole_waves


def test_families_and_goals_split_what_was_looked_at_from_the_rest():
    every = run_errors.with_families(all_runs())
    assert set(every["family"][every["experts"] > 0]) == {"mixtures"}
    assert set(every["family"][every["experts"] == 0]) >= {
        "dense, bf16, Hopper",
        "dense, fp8, Hopper",
        "dense, Blackwell",
    }
    reached = run_errors.goals_reached(all_runs())
    assert list(reached["goal"].unique()) == list(run_errors.goals()["goal"]) and len(reached) == 2 * len(
        run_errors.goals()
    )
    for row in reached.itertuples():
        assert row.reached == ("no runs" if not row.runs else "yes" if row.error < row.below else "no")
        assert bool(row.model) == (row.goal.endswith(("each model", "each size")) and row.runs > 0)
    hopper = every[(every["family"] == "dense, bf16, Hopper") & (every["seen"] != "looked at")]
    (row,) = reached[(reached["goal"] == "dense bf16 on Hopper") & (reached["seen"] != "looked at")].itertuples()
    assert (row.runs, row.error) == (len(hopper), pytest.approx(hopper["error"].abs().mean()))


def test_stored_errors_are_those_of_today():
    """After a change: python data/derived/rebuild.py --write iteration_errors error_spreads mechanism_effects."""
    stored = prediction_error.published_errors().set_index("use")["modelled_s"]
    for use in runs.MODELLED:
        assert stored[use].to_numpy() == pytest.approx(predicted(use)["modelled_s"].to_numpy(), rel=1e-7)
    assert stored[stored.index == "outside"].isna().all()
    whole = run_errors.stored_effects().query("mechanism == 'nothing'").set_index("family")["mean_absolute_error"]
    families = (
        run_errors.with_families(all_runs()).assign(error=all_runs()["error"].abs()).groupby("family")["error"].mean()
    )
    assert whole.to_dict() == pytest.approx(families.to_dict(), rel=1e-7)
    assert set(run_errors.stored_effects()["mechanism"]) == {"nothing", *run_errors.MECHANISMS}
    wide = run_errors.effects_by_family(run_errors.stored_effects())
    assert list(wide["mechanism"]) == ["error of the whole model, %", *run_errors.MECHANISMS]


def test_a_schedule_measured_twice_is_compared_at_the_same_work():
    twice = run_tables.schedules_measured_twice(predicted("fit"))
    assert len(twice) == 2 and twice["measured_ratio"].between(1.05, 1.15).all()
    assert (twice["modelled_ratio"] < twice["measured_ratio"]).all()


def test_a_run_is_labelled_by_what_was_run():
    modelled = pd.DataFrame({name: ["x"] for name in ("source", "group", "software", "platform", "precision")})
    numbers = dict.fromkeys("cp ep interleave microbatch measured_iteration_s modelled_s error memory_bytes".split(), 1)
    run = {"model": "GPT-3 175B", "gpus": 1024, "tp": 8, "pp": 4, "dp": 32, "recompute": "full", "limit": ""}
    shown = run_tables.labelled_runs(modelled.assign(**numbers, **run, global_batch=64))
    assert shown["label"].item() == "GPT-3 175B, 1,024 GPUs TP8 PP4 DP32 full"


def test_a_training_takes_its_iterations():
    model, gpu = transformer.catalog_model("Llama-3 405B"), machine.catalog_machine("DGX H100")
    plan = Strategy(8, 1, 16, 128, 1, 8, sequence_parallel=True, sharding="optimizer", ends_as_layers=True)
    run = runs.training_duration(model, gpu, plan, 2048, 3e12, 16384)
    found = iteration_times(model, gpu, plan.columns(2048))
    assert (run.iteration_s, run.memory_bytes) == (found.total_s.item(), found.memory_bytes.item())
    assert run.limit == found.limits.item()
    assert "layers" not in run.limit  # 126 layers, embedding and loss in 128 places
    assert run.training_s == pytest.approx(run.iteration_s * 3e12 / (2048 * 8192))
    done = float(model.training_flops(2048)) / run.iteration_s
    assert run.model_flops_utilization == pytest.approx(done / (16384 * gpu.rates.bf16_rate))


def test_the_documents_error_is_that_of_the_runs_it_cites():
    training = runs.TrainingDuration(5.0, 1e6, 86400 * 108.0, 0.25, 7e10, "feasible")
    model = transformer.catalog_model("Llama-3 405B")
    whole = float(model.training_flops(causal=False) / model.training_flops())
    values, reasons, readings = iteration_time_claims(training, model, predicted("fit"))
    assert values["railonly2025.intro.llama3_days"] == pytest.approx(108)
    measured = RUNS["measured_iteration_s"].to_numpy()
    expected = sum(abs(predicted("fit")["modelled_s"].to_numpy() / measured - 1)) / len(RUNS)
    assert values["railonly2025.fig7.mean_error"] == pytest.approx(expected)
    assert f"54 days need {0.5 * whole:.0%}" in reasons["railonly2025.intro.llama3_days"]
    assert claims.paper_value("railonly2025.intro.llama3_days") == 54 and set(readings) < set(values)


def test_a_slowdown_is_the_largest_over_the_clusters_whatever_the_document_has():
    summary = pd.DataFrame({"model": ["GPT-1T"] * 3 + ["GPT-146B"] * 3, "gpus": [16384, 32768, 65536] * 2})
    summary = summary.assign(slowdown=[0.009, 0.01, 0.03, 0.041, 0.2, 0.1], plateau=[16, 32, 128, 256, 512, 512])
    table = pd.DataFrame({"hb_domain_size": [8, 16, 32], "iteration_s": [4.0, 3.5, 2.0]})
    table = table.assign(model="GPT-1T", gpus=65536, batch=4096, nic_Bps=5e10)
    rates = pd.DataFrame({"share_of_best_rate": [0.5, 1.0], "GPT-1T": [0.009, 0.03], "GPT-146B": [0.05, 0.2]})
    found = fig8_claims(table, summary, rates)
    ends = {"gpt1t_k256_slowdown": 0.03, "gpt146b_k256_slowdown": 0.2, "gpt1t_plateau": 128, "diminishing": 1}
    assert found.values == {f"railonly2025.fig8.{name}": value for name, value in ends.items()} and not found.readings
    assert "0.9% at 16,384 GPUs" in found.reasons["railonly2025.fig8.gpt1t_k256_slowdown"]
    assert "50% of their best rate" in found.reasons["railonly2025.fig8.gpt1t_k256_slowdown"]
    marks = slowdown_marks(found, 0.05)
    assert marks.hb_domain_size.tolist() == [256, 256, 32] and marks.differs.all()
    assert marks.share.tolist() == [0.009, 0.041, 0.05]


def test_the_spare_power_of_a_layer_is_that_of_the_runs_it_was_solved_from():
    table = runs.published_runs("solve")
    table = table[table["source"].str.contains("llama3.1/README.md@741c886", regex=False)]
    solved = machine.catalog_machine("DGX H100").rates.layer_spare_power
    squares = [
        (np.log1p(runs.predictions(table, layer_spare_power=share)["error"]) ** 2).mean()
        for share in (solved - 0.01, solved, solved + 0.01)
    ]
    assert squares[1] == min(squares) and len(table) == 34


def test_runs_that_a_number_was_solved_from_are_no_evidence():
    assert "solve" not in runs.MODELLED and "solved from" not in set(prediction_error.published_errors()["seen"])
    assert set(runs.published_runs("solve")["seen"]) == {"solved from"}


def test_the_price_of_odd_sides_is_that_of_the_pair_it_was_solved_from():
    pair = predicted("solve")
    pair = pair[pair["model"].str.startswith("BLOOM")].set_index("hidden")
    measured, modelled = (
        pair.loc[14400, name] / pair.loc[13824, name] for name in ("measured_iteration_s", "modelled_s")
    )
    assert modelled == pytest.approx(measured, rel=0.005)


def test_generations_are_read_from_names():
    names = {"V100": "Volta", "A100": "Ampere", "H20": "Hopper", "GH200": "Hopper", "GB300": "Blackwell"}
    assert {name: run_errors.gpu_generation(name) for name in names} == names
    assert run_errors.gpu_generation("MI300X") == "CDNA" and run_errors.gpu_generation("TPU v5p") == "TPU v5p"
