from functools import cache

import numpy as np
import pandas as pd
import pytest

from railcore.strategies.hb_domains import best_times, increasing_returns_share
from railcore.strategies.parts import search
from railcore.training import machine, prediction_error, runs, runtime, transformer
from railcore.training.iteration import iteration_times
from railcore.training.parallelism import Strategy
from railcore.training.products import product_time
from suite import run_errors, run_tables
from suite.ledger import claims
from suite.railonly2025 import iteration_claims

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


def test_the_documents_error_is_that_of_its_formulas_on_runs_kept_aside():
    training = runs.TrainingDuration(5.0, 1e6, 86400 * 108.0, 0.25, 7e10, "feasible")
    model, aside = transformer.catalog_model("Llama-3 405B"), runs.published_runs("forward")
    whole = float(model.training_flops(causal=False) / model.training_flops())
    values, reasons, readings = iteration_claims.iteration_time_claims(training, model, predicted("fit"), aside)
    days, error = "railonly2025.intro.llama3_days", "railonly2025.fig7.mean_error"
    assert values[days] == pytest.approx(108) and f"54 days need {0.5 * whole:.0%}" in reasons[days]
    kept = iteration_claims.formula_runs(aside)
    assert set(kept["seen"]) == {"kept aside"} and set(kept["platform"]) == {"DGX A100"} and len(kept) > 30
    expected = abs(iteration_claims.formula_predictions(kept)["modelled_s"] / kept["measured_iteration_s"] - 1).mean()
    assert values[error] == pytest.approx(expected) and f"{len(kept)} dense runs" in readings[error]
    ours = abs(predicted("fit")["modelled_s"] / RUNS["measured_iteration_s"] - 1).mean()
    assert f"in sight: {ours:.1%}" in readings[error]
    assert claims.paper_value(days) == 54


def test_the_documents_formulas_neither_interleave_nor_hide_tensor_traffic():
    """Where a run did neither, they are our model with the gradients behind the backward pass."""
    plain = RUNS[(RUNS["runtime"] == "megatron2021") & (RUNS["interleave"] == 1) & (RUNS["tp"] == 8)]
    chunks = RUNS[(RUNS["runtime"] == "megatron2021") & (RUNS["interleave"] == 3)]
    hidden = RUNS[(RUNS["runtime"] == "megatron2022") & (RUNS["interleave"] == 1)]
    table = pd.concat([plain, chunks, hidden])
    theirs = iteration_claims.formula_predictions(table, gradient_bytes=2, accumulation_bytes=2)["modelled_s"]
    ours = runs.predictions(table, {"overlap_data": True, "gradient_bytes": 2, "accumulation_bytes": 2})["modelled_s"]
    assert len(plain) == 3  # a replica of each GPU of a domain, so that a collective has one phase
    assert (theirs[len(plain) :] > ours[len(plain) :] * 1.01).all()
    assert theirs[: len(plain)].to_numpy() == pytest.approx(ours[: len(plain)].to_numpy())


def curve(times, model="GPT-1T", gpus=64):
    """A curve of `best_times` over HB domains of 8 GPUs, of 16 and so on, the last the ideal."""
    sizes = [8 * 2**i for i in range(len(times))]
    table = pd.DataFrame({"hb_domain_size": sizes, "iteration_s": times}).assign(model=model, gpus=gpus)
    gain = 1 - table["iteration_s"] / table["iteration_s"].shift()
    return table.assign(slowdown=table["iteration_s"] / times[-1] - 1, gain=gain, batch=1, nic_Bps=5e10)


def test_a_trend_is_that_of_the_whole_curve():
    falls, bump, rises = [8.0, 4.0, 2.0, 1.0], [10.0, 6.0, 5.0, 3.5, 3.0], [8.0, 7.5, 6.0, 3.0]
    assert iteration_claims.rising_savings_share(curve(falls)) == 0
    assert iteration_claims.rising_savings_share(curve(bump)) == 0 < increasing_returns_share(curve(bump))
    assert iteration_claims.rising_savings_share(curve(rises)) == 1
    both = pd.concat([curve(falls), curve(rises, gpus=128)], ignore_index=True)
    assert iteration_claims.rising_savings_share(both) == 0.5
    assert np.isnan(iteration_claims.rising_savings_share(curve(falls[:2])))


def test_numbers_of_figure_8_are_those_of_one_cluster_and_name_the_others():
    summary = pd.DataFrame({"model": ["GPT-1T"] * 3 + ["GPT-146B"] * 3, "gpus": [16384, 32768, 65536] * 2})
    summary = summary.assign(slowdown=[0.009, 0.02, 0.03, 0.041, 0.2, 0.1], plateau=[16, 32, 128, 256, 512, 512])
    table = curve([4.0, 3.0, 2.9, 2.8], gpus=32768)
    settings = summary.assign(setting=0)[["setting", "model", "gpus", "slowdown"]]
    computing = pd.DataFrame({"gpus": 32768, "hb_domain_size": [8, 32, 64], "alone": [0.2, 0.3, 0.4]})
    computing = computing.assign(share=computing["alone"] * 2)
    found = iteration_claims.fig8_claims(table, summary, 32768, settings, computing)
    ends = {"gpt1t_k256_slowdown": 0.02, "gpt146b_k256_slowdown": 0.2, "gpt1t_plateau": 32}
    ends |= {"diminishing": 0, "gpt1t_compute_share": 0.6}
    assert found.values == {f"railonly2025.fig8.{name}": value for name, value in ends.items()}
    slowdown, plateau = (f"railonly2025.fig8.{name}" for name in ("gpt1t_k256_slowdown", "gpt1t_plateau"))
    assert "(16,384: 0.9%, 65,536: 3.0%)" in found.readings[slowdown]
    assert "2.5%: 64, 10.0%: 16" in found.readings[plateau]
    assert "one gives both" in found.reasons[slowdown]  # 0.9 and 4.1% at 16,384 GPUs
    apart = settings.assign(slowdown=[0.009, 0.02, 0.03, 0.2, 0.041, 0.1])
    assert "none gives both" in iteration_claims.fig8_claims(table, summary, 32768, apart, computing).reasons[slowdown]
    marks = iteration_claims.slowdown_marks(found, 0.05, 32768)
    assert marks.hb_domain_size.tolist() == [256, 256, 32]
    assert marks.verdict.tolist() == ["differs", "differs", "reproduced"]
    assert marks.share.tolist()[:2] == [0.009, 0.041] and marks.share.isna()[2]  # the plateau is a size alone
    assert all("32,768" in text for text in marks.text) and "(within 5%" in marks.text[2]


def test_settings_of_figure_8_are_every_combination_and_the_first_is_the_described_one():
    models = {"Llama-3 8B": transformer.catalog_model("Llama-3 8B")}
    box, options = iteration_claims.fig8_options(machine.catalog_machine("DGX H100"))
    options |= {"batches": {"Llama-3 8B": [64]}}
    choices = {"best_rate_share": [1.0, 0.4], "hb_Bps": [box.hb_Bps], "gradient_bytes": [4, 2], "overlap_data": [True]}
    table = iteration_claims.fig8_settings(models, box, [32], 8, choices, **options)
    assert len(table) == table["setting"].nunique() == 4
    described = best_times(models, box, [32], [8], **options)
    assert table["slowdown"].iloc[0] == described["slowdown"].iloc[0] > 0
    slow = table.set_index(["gradient_bytes", "best_rate_share"])["slowdown"]
    assert (slow.xs(0.4, level=1) < slow.xs(1.0, level=1)).all()  # links matter less


def test_computation_is_all_of_a_single_gpu_and_the_bubbles_counts_as_the_last_stages():
    model, one = transformer.catalog_model("Llama-3 8B"), machine.catalog_machine("DGX H100")
    box, options = iteration_claims.fig8_options(one.changed(memory_bytes=1e12))
    single = iteration_claims.compute_shares(model, box, [1], [1], 8, **options)
    assert single["alone"].item() == single["share"].item() > 0.85  # the rest: optimizer, loss and waiting
    staged = iteration_claims.compute_shares(model, box, [4], [4], 8, **options | {"tensor": [1], "data": [1]})
    micro = search(model, box, 4, 8, top=1, hb_domain_size=4, tensor=[1], data=[1], **options).best["micro_batch"]
    assert (staged["share"] / staged["alone"]).item() == pytest.approx(1 + 3 * micro.iloc[0] / 8)


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
