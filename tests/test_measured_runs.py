"""Runs of a spec's own: a table of runs of [[measured]] or of a CSV, whose model is that of the plan."""

import json
import re
from dataclasses import replace

import pandas as pd
import pytest

import railcore as rc
from railcore.catalog import files
from railcore.planner.case import case_of
from railcore.planner.spec import Spec
from railcore.planner.spec_reading import read_spec
from railcore.planner.spec_template import spec_template
from railcore.planner.sweep_grid import sweep_points
from railcore.training import run_cells, run_file, runs
from railcore.training.iteration import iteration_times
from railcore.training.software import newest_runtime

CLUSTER = {"platform": "DGX H100", "gpus": 512}
JOB = {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512}
RUN = {"seconds": 2.5, "strategy": {"tensor": 2}, "gpus": 64, "batch": 128}
SIZES = {"layers": 16, "hidden": 2048, "heads": 16, "kv_heads": 8, "ffn_hidden": 8192, "ffn_matrices": 3}
SIZES |= {"vocabulary": 32000, "sequence_length": 4096}
LINE = "--tensor-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 64"
OF_LINE = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
    "--ffn-hidden-size 14336 --swiglu --untie-embeddings-and-output-weights --disable-bias-linear "
    "--position-embedding-type rope --normalization RMSNorm --vocab-size 128256 "
)


def case(*measured, job=JOB, cluster=CLUSTER):
    return case_of(read_spec({"cluster": cluster, "job": job, "measured": list(measured)}))


def row(*measured, **sections):
    (run,) = case(*measured, **sections).measured_runs.itertuples()
    return run


def test_a_spec_without_runs_has_an_empty_table():
    table = case().measured_runs
    assert table.empty and {*table} == {*case(RUN).measured_runs}


@pytest.mark.parametrize("seconds", [2.5, "2.5 s", "2500 ms", "2.5"])
def test_a_run_takes_what_it_leaves_out_of_the_job(seconds):
    run = row(RUN | {"seconds": seconds})
    assert run.measured_iteration_s == pytest.approx(2.5)
    assert (run.model, run.platform, run.precision, run.seq_len) == ("Llama-3 8B", "DGX H100", "bf16", 8192)
    assert (run.gpus, run.tp, run.dp, run.global_batch, run.use, run.seen) == (64, 2, 32, 128, "yours", "yours")


@pytest.mark.parametrize(
    ("job", "strategy"),
    [
        (JOB, {"tensor": 2, "sequence_parallel": True, "recompute": "full", "recomputed_layers": 5}),
        (JOB | {"runtime": "fsdp2-compile"}, {"sharding": "weights", "recompute": "selective"}),
        (JOB | {"sequence_length": 4096, "lora_rank": 16, "frozen_bytes": 1}, {"tensor": 2, "pipeline": 2}),
        (JOB | {"model": SIZES}, {"pipeline": 4, "interleave": 2, "ends_as_layers": True}),
        (JOB | {"model": "Qwen3-30B-A3B"}, {"expert": 8, "tensor": 2, "whole_experts": True}),
        (JOB | {"model": "Qwen3-30B-A3B", "runtime": "deepseek2024"}, {"expert": 8, "pipeline": 2}),
        (JOB | {"model": SIZES | {"experts": 8, "top_k": 2, "expert_hidden": 1024}}, {"expert": 8}),
        (JOB | {"model": SIZES | {"mtp_layers": 1}}, {"tensor": 2}),
    ],
)
def test_the_modelled_time_of_a_run_is_that_of_its_objects(job, strategy):
    found = case(RUN | {"strategy": strategy}, job=job)
    modelled = runs.predictions(found.measured_runs, models=found.run_models)["modelled_s"].item()
    degrees = rc.Strategy(**{key: strategy[key] for key in ("tensor", "pipeline") if key in strategy})
    split = rc.Strategy(**strategy, data=64 // degrees.gpus)
    alone = iteration_times(found.model, found.machine, split, found.runtime, global_batch=128).total_s.item()
    assert modelled == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    ("strategy", "changes"),
    [
        (rc.Strategy(tensor=2, data=8, expert=4, whole_experts=True, sharding="gradients"), {"capacity": 1.25}),
        (rc.Strategy(pipeline=4, data=4, expert=4, interleave=2, ends_as_layers=True, micro_batch=2), {}),
        (rc.Strategy(tensor=4, data=4, sequence_parallel=True, recompute="full", recomputed_layers=3), {}),
    ],
)
@pytest.mark.parametrize("name", ["deepseek2024", "megatron-bridge2025"])
def test_cells_of_objects_say_all_of_them(strategy, changes, name):
    runtime, model = replace(rc.training.as_runtime(name), **changes), rc.catalog_model("Mixtral 8x7B")
    cells = {"platform": "DGX H100", "precision": "bf16", "global_batch": "64", "measured_iteration_s": "1"}
    cells |= run_cells.strategy_cells(strategy) | run_cells.runtime_cells(runtime) | run_cells.model_cells(model)
    (run,) = run_file.checked_runs([("here", cells)]).itertuples()
    assert (runs.strategy_of_run(run), runs._runtime(run), runs._model(run)) == (strategy, runtime, model)


def test_tokens_a_second_are_the_same_as_seconds():
    rate = 128 * 8192 / (64 * 2.5)
    by_rate = {key: value for key, value in RUN.items() if key != "seconds"} | {"tokens_per_s": rate}
    assert row(by_rate).measured_iteration_s == pytest.approx(2.5)


def test_a_batch_in_tokens_is_of_whole_sequences():
    assert row(RUN | {"batch": f"{128 * 8192} tokens"}).global_batch == 128
    assert row(RUN | {"batch": f"{128 * 4096} tokens", "sequence_length": 4096}).global_batch == 128
    with pytest.raises(ValueError, match=r"measured\.0: batch is 122\.07 sequences .* give 122 or 123 sequences"):
        case(RUN | {"batch": "1M tokens"})


def test_a_launch_line_says_the_strategy_and_the_batch():
    run = row({"seconds": 3, "launch": LINE, "gpus": 32})
    assert (run.tp, run.dp, run.microbatch, run.global_batch, run.model) == (4, 8, 2, 64, "Llama-3 8B")
    same = row({"seconds": 3, "launch": f"{OF_LINE} {LINE} --seq-length 4096", "gpus": 32})
    assert (same.model, same.seq_len) == ("Llama-3 8B", 4096)
    other = f"{OF_LINE} {LINE} --seq-length 4096".replace("--num-layers 32", "--num-layers 16")
    found = case({"seconds": 3, "launch": other, "gpus": 32})
    assert found.run_models["measured.0"].layers == 16 and found.measured_runs["layers"].item() == 16
    with pytest.raises(ValueError, match=r"measured\.0: launch: layers is 16 in the line and 32 in Llama-3 8B"):
        case({"seconds": 3, "launch": other, "gpus": 32, "model": "Llama-3 8B"})


def test_another_platform_brings_its_own_software_and_links():
    there = CLUSTER | {"nic": "200 Gbps"}
    assert float(row(RUN, cluster=there).nic_gbps) == 200
    run = row(RUN | {"platform": "GB200 NVL72", "precision": "mxfp8"}, cluster=there)
    assert (run.platform, run.precision, run.nic_gbps) == ("GB200 NVL72", "mxfp8", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": None}, "measured.0 has no time: give seconds or tokens_per_s"),
        ({"tokens_per_s": 7000}, "measured.0.seconds is given beside tokens_per_s"),
        ({"launch": LINE}, "measured.0.strategy is given beside launch"),
        ({"strategy": None}, "measured.0 has no strategy: give strategy or launch"),
        ({"secnds": 3}, "measured.0.secnds is unknown: give 'seconds'"),
        ({"seconds": "3 kg"}, "measured.0.seconds is '3 kg': give seconds, or a text with its unit"),
        ({"seconds": 0}, "measured.0.seconds is 0: give"),
        ({"strategy": {"tensr": 2}}, "measured.0: .*'tensr'.*'tensor'"),
        ({"strategy": {"tensor": 3}}, "strategy has no data, and the run has 64 GPUs, no multiple of 3: give data"),
        ({"strategy": {"data": 8}}, "gpus is 64, and the strategy takes 8: change one of them"),
        ({"gpus": None}, "the run has no gpus: give data"),
        ({"batch": 33}, "measured.0: global_batch is 33: give a multiple of data"),
        ({"strategy": {"tensor": 2, "keep_gathered": True}}, "keep_gathered is True, which a measured run cannot say"),
        ({"model": "Llama-3 9B"}, "measured.0.model is 'Llama-3 9B'"),
    ],
)
def test_bad_runs_are_refused_by_key(change, message):
    with pytest.raises(ValueError, match=message):
        case({key: value for key, value in (RUN | change).items() if value is not None})


@pytest.fixture
def beside(tmp_path):
    """A spec beside a CSV of runs."""

    def write(*rows, job="model = 'Llama-3 8B'"):
        pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
        spec = tmp_path / "plan.toml"
        spec.write_text(
            f"measured = 'runs.csv'\n[cluster]\nplatform = 'DGX H100'\ngpus = 512\n[job]\n{job}\ntokens = 1e12\n"
            "batch = 512\n"
        )
        return spec

    return write


CELLS = {"gpus": "64", "tp": "2", "global_batch": "128", "measured_iteration_s": "2.5"}


def test_a_file_of_runs_beside_the_spec_is_taken(beside):
    found = case_of(read_spec(beside(CELLS, CELLS | {"platform": "DGX A100", "architecture": "Llama-2 7B"})))
    ours, other = found.measured_runs.itertuples()
    assert (ours.model, ours.platform, ours.runtime) == ("Llama-3 8B", "DGX H100", found.runtime.name)
    assert (other.model, other.seq_len, other.runtime) == ("Llama-2 7B", 4096, newest_runtime("DGX A100").name)
    in_spec = case(
        RUN | {"strategy": {"tensor": 2, "sequence_parallel": True, "sharding": "optimizer"}}
    ).measured_runs  # as blanks of a CSV say
    both = [runs.predictions(table)["modelled_s"].item() for table in (found.measured_runs[:1], in_spec)]
    assert both[0] == pytest.approx(both[1])


def test_a_file_of_runs_may_be_of_a_model_of_ones_own(beside):
    job = "\n".join(f"model.{key} = {value}" for key, value in SIZES.items())
    found = case_of(read_spec(beside(CELLS, CELLS | {"hidden": ""}, job=job)))
    assert (found.measured_runs["hidden"] == 2048).all()
    assert (runs.predictions(found.measured_runs, models=found.run_models)["modelled_s"] > 0).all()


def test_a_file_of_runs_is_part_of_the_spec(beside, tmp_path):
    """So a sweep with another file is another sweep."""
    spec = read_spec(beside(CELLS))
    assert Spec.model_validate(json.loads(spec.model_dump_json(by_alias=True)), context={"SI numbers": True})
    assert "measured_iteration_s" in spec.measured
    swept = beside(CELLS)
    swept.write_text(swept.read_text() + "[over]\ncluster.gpus = [64, 128]\n")
    assert "measured_iteration_s" in sweep_points(swept).spec(0)["measured"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (CELLS | {"gpus": "65"}, "measured, line 2: gpus is 65"),
        (CELLS | {"measured_iteration_s": ""}, "measured, line 2: measured_iteration_s is blank"),
        (CELLS | {"architecture": "Llama-3 9B"}, "measured, line 2: architecture is 'Llama-3 9B'"),
        (CELLS | {"gups": "8"}, "measured, line 1: column 'gups' is not known"),
    ],
)
def test_bad_files_of_runs_are_refused_by_line(cells, message, beside):
    with pytest.raises(ValueError, match=message):
        case_of(read_spec(beside(cells)))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"measured is 'no\.csv': .*No such file"):
        read_spec({"cluster": CLUSTER, "job": JOB, "measured": "no.csv"})
    with pytest.raises(ValueError, match="measured is 5: give a list"):
        read_spec({"cluster": CLUSTER, "job": JOB, "measured": 5})


def test_the_template_shows_runs_as_an_array_of_tables():
    assert "\n# [[measured]]" in spec_template() and "tokens_per_s" in spec_template()


def test_models_of_ones_own_are_known_to_a_file_of_runs():
    own = rc.Transformer(name="ours", **SIZES)
    text = f"platform,precision,architecture,{','.join(CELLS)}\nDGX H100,bf16,ours,{','.join(CELLS.values())}\n"
    table = run_file.runs_of_text("runs.csv", text, models={"ours": own})
    assert runs.predictions(table, models={"ours": own})["modelled_s"].item() > 0
    with pytest.raises(ValueError, match="architecture is 'ours'"):
        run_file.runs_of_text("runs.csv", text)


def test_the_spec_of_the_guide_is_read():
    text = (files.ROOT / "docs/guide/own_runs.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (run,) = case_of(read_spec(example)).measured_runs.itertuples()
    assert (run.dp, run.interleave, run.measured_iteration_s) == (8, 5, 6.74)


def test_defaults_of_a_gpu_are_not_those_of_another():
    defaults = {"platform": "DGX H100", "precision": "bf16", "nic_gbps": "200", "runtime": "nemo2024"}
    cells = CELLS | {"architecture": "Llama-3 8B"}
    table = run_file.checked_runs([("a", cells), ("b", cells | {"platform": "DGX A100"})], defaults)
    assert table["nic_gbps"].tolist() == [200, ""]
    assert table["runtime"].tolist() == ["nemo2024", newest_runtime("DGX A100").name]
