"""Logs of training software: what each tool prints, in its own form with invented numbers, and what spoils a log."""

import io
import sqlite3

import numpy as np
import pandas as pd
import pytest

from railcore.__main__ import main
from railcore.catalog import files, tables
from railcore.training import run_file, runs
from railcore.training.logged_jobs import architecture_of
from railcore.training.step_logs import StepTimes, log_lines, log_settings, step_times

SECONDS = [30.0, 9.0, *(6.7 + 0.01 * (n % 5) for n in range(48))]
ARGUMENTS = {
    **{"bf16": "True", "context_parallel_size": "1", "data_parallel_size": "8", "ffn_hidden_size": "28672"},
    **{"fp8": "None", "global_batch_size": "256", "group_query_attention": "True", "hidden_size": "8192"},
    **{"micro_batch_size": "1", "num_attention_heads": "64", "num_experts": "None", "num_layers": "80"},
    **{"num_query_groups": "8", "padded_vocab_size": "128256", "pipeline_model_parallel_size": "4"},
    **{"recompute_granularity": "selective", "seq_length": "8192", "sequence_parallel": "True", "swiglu": "True"},
    **{
        "target_tensor_model_parallel_size": "2",
        "tensor_model_parallel_size": "4",
        "use_distributed_optimizer": "True",
    },
    **{"virtual_pipeline_model_parallel_size": "5", "world_size": "128"},
}


def megatron(seconds=SECONDS, arguments=ARGUMENTS, batch=256):
    lines = [
        "using world size: 128, data-parallel size: 8, context-parallel size: 1, hierarchical context-parallel sizes: "
        "Nonetensor-model-parallel size: 4, encoder-tensor-model-parallel size: 0, pipeline-model-parallel size: 4, "
        "encoder-pipeline-model-parallel size: 0",
        "------------------------ arguments ------------------------",
        *(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()),
        "-------------------- end of arguments ---------------------",
    ]
    for number, time in enumerate(seconds, start=1):
        lines.append(
            f" [2026-01-05 10:00:{number:02}] iteration {number:8d}/{len(seconds):8d} | consumed samples: {256:12d} | "
            f"elapsed time per iteration (ms): {1e3 * time:.1f} | throughput per GPU (TFLOP/s/GPU): 400.1 | "
            f"learning rate: 1.500000E-04 | global batch size: {batch:5d} | lm loss: 7.1E+00 | loss scale: 1.0 |"
        )
    return lines


def bridge(seconds=SECONDS):
    lines = [f"  {name}: {value}" for name, value in ARGUMENTS.items()]
    for line, time in zip(megatron(seconds, {})[3:], seconds, strict=True):
        lines += [f"Step Time : {time:.2f}s GPU utilization: 431.2MODEL_TFLOP/s/GPU", line]
    return lines


def nemo(seconds=SECONDS):
    return [
        "All distributed processes registered. Starting with 64 processes",
        *(
            f"Training epoch 0, iteration {number}/{len(seconds) - 1} | lr: 1.9e-06 | global_batch_size: 128 | "
            f"global_step: {number} | loss: 9.9 | train_step_timing in s: {time:.4g} | consumed_samples: 1"
            for number, time in enumerate(seconds)
        ),
    ]


def nemo_bar(seconds=SECONDS):
    """NeMo 1 prints one bar over another, with a return and no new line, and each several times."""
    bars = [
        f"Epoch 0: :  10%|█▉  | {number}/{len(seconds)} [01:0{again}<00:10, v_num=, reduced_train_loss=2.6, "
        f"global_step={number}.000, consumed_samples=1.28e+6, train_step_timing in s={time:.3f}]"
        for number, time in enumerate(seconds, start=1)
        for again in range(3)
    ]
    settings = "  micro_batch_size: 2\n  num_nodes: 8\n  devices: 8\n  tensor_model_parallel_size: 4\n"
    return [settings + "\r".join(bars)]


def titan(seconds=SECONDS, mesh="Building 2-D device mesh with ['dp_shard', 'tp'], [32, 4]"):
    rate = [64 * 8192 / (128 * time) for time in seconds]
    return [
        f"[titan] 2026-01-05 19:44:55,287 - root - INFO - {mesh}",
        "[titan] - root - INFO - CUDA capacity: NVIDIA H100 80GB HBM3 with 79.11GiB memory",
        "[titan] - root - INFO - Model llama3 70B size: 70,553,706,496 total parameters",
        "[titan] - root - INFO - Float8 tensorwise scaled training active",
        "[titan] - root - INFO - Trainer is initialized with local batch size 2, global batch size 64, gradient "
        "accumulation steps 1, sequence length 8192, total steps 50 (warmup 5)",
        *(
            f"[titan] - root - INFO - \x1b[31mstep: {number:2}  \x1b[32mloss:  8.0277  \x1b[38;2;180;60;0mgrad_norm:  "
            f"1.4604  \x1b[38;2;54;234;195mmemory: 40.21GiB(50.86%)  \x1b[34mtps: {round(tokens):,}  "
            f"\x1b[36mtflops: 400.41  \x1b[35mmfu: 40.04%\x1b[39m"
            for number, tokens in enumerate(rate, start=1)
        ),
        "[titan] - root - INFO - \x1b[33mvalidate step: 50  \x1b[32mloss:  8.0  \x1b[34mtps: 9\x1b[39m",
    ]


@pytest.fixture
def written(tmp_path):
    def write(lines, end="\n", name="train.log", last=True):
        path = tmp_path / name
        path.write_bytes((end.join(lines) + end * last).encode())
        return path

    return write


@pytest.mark.parametrize(
    ("tool", "lines"),
    [("Megatron-LM", megatron), ("Megatron-Bridge", bridge), ("NeMo", nemo), ("NeMo", nemo_bar), ("torchtitan", titan)],
)
def test_each_tool_is_told_by_what_it_prints_and_its_median_is_of_steps_after_the_warm_up(tool, lines, written):
    (times,) = step_times(written(lines()))
    assert times.tool == tool and len(times.seconds) == 50 and len(times.kept) == 40
    assert times.median_s == pytest.approx(6.72, rel=1e-3)
    assert times.seconds == pytest.approx(SECONDS, rel=5e-3)
    assert 6.69 < times.spread_s[0] < times.median_s < times.spread_s[1] < 6.75


def test_the_warm_up_is_a_fifth_of_the_steps_at_least_one_and_at_most_ten():
    left = {count: count - len(StepTimes("", "", (1.0,) * count).kept) for count in (1, 2, 9, 10, 49, 50, 51, 500)}
    assert left == {1: 0, 2: 1, 9: 1, 10: 2, 49: 9, 50: 10, 51: 10, 500: 10}
    assert np.isnan(StepTimes("", "", ()).median_s)


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda lines: [f"[rank0]:{line}" for line in lines],
        lambda lines: [f" 12: {line}" for line in lines],
        lambda lines: [line for line in lines for _ in range(8)],
        lambda lines: [f"\x1b[32m{line}\x1b[0m" for line in lines],
        lambda lines: ["\ufffd noise", "x" * 200_000, *lines, "Traceback (most recent call last):"],
        lambda lines: [*lines, lines[-1][: lines[-1].index("6700.0") + 2] if "6700.0" in lines[-1] else ""],
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_spoils_a_log_changes_nothing(spoiled, end, written):
    (clean,) = step_times(written(megatron()))
    (times,) = step_times(written(spoiled(megatron()), end))
    assert (times.seconds, dict(times.job)) == (clean.seconds, dict(clean.job))


def test_a_log_that_is_cut_anywhere_has_no_number_of_its_own(written):
    text = "\n".join(megatron([6.5, 6.6, 6.7], {}))
    for cut in range(len(megatron([6.7], {})[-1])):
        (times,) = step_times(written([text[: len(text) - cut]], last=False))
        assert times.job["global_batch"] == "256"
        assert times.seconds in (pytest.approx((6.5, 6.6, 6.7)), pytest.approx((6.5, 6.6)))


@pytest.mark.parametrize(
    ("place", "number"),
    [("1000.0 |", f"{'9' * 5000} |"), ("1000.0 |", f"{'9' * 18} |"), ("  3/", f"  {'3' * 5000}/")],
)
def test_a_line_with_a_number_that_no_job_has_is_left_out_and_counted(place, number, written):
    *good, last = megatron([1.0, 2.0, 1.0], {})
    assert place in last
    (times,) = step_times(written([*good, last.replace(place, number)]))
    assert times.seconds == (1.0, 2.0)
    assert times.notes == ("1 line with a number that no job has left out",)


def test_an_exponent_that_no_job_has_is_left_out(written):
    (times,) = step_times(written(nemo([30.0, 9.0, np.inf, 1.0])))
    assert max(times.seconds) == 30 and not times.notes  # "inf" is no number of a step
    (times,) = step_times(written([line.replace("30 |", "1e400 |") for line in nemo([30.0, 9.0])]))
    assert times.seconds == (9.0,) and times.notes == ("1 line with a number that no job has left out",)


def test_of_a_setting_that_is_there_twice_the_first_value_counts(written):
    lines = ["  fp8: null", *bridge(), "  hidden_size: 64", "  fp8: hybrid", "  target_micro_batch_size: 7"]
    (times,) = step_times(written(lines))
    assert {name: times.job[name] for name in ("architecture", "tp", "microbatch", "precision", "gpus", "dp")} == {
        **{"architecture": "Llama-3 70B", "tp": "4", "microbatch": "1", "precision": "fp8", "gpus": "128", "dp": "8"}
    }
    (bar,) = step_times(written(nemo_bar()))
    assert dict(bar.job) == {"microbatch": "2", "gpus": "64", "tp": "4"}


@pytest.mark.parametrize("lines", [megatron, nemo, nemo_bar, titan])
def test_a_long_log_is_read_piece_by_piece(lines, written, monkeypatch):
    log = written([line.removesuffix(" | consumed_samples: 1") for line in lines()])  # NeMo's time may be the last
    (whole,) = step_times(log)
    for block in (7, 64, 1000):
        monkeypatch.setattr("railcore.training.step_logs._BLOCK", block)
        (times,) = step_times(log)
        assert times == whole and len(times.seconds) == 50


def test_arguments_of_megatron_become_a_run(written):
    (times,) = step_times(written(megatron()))
    cells = {name: text for name, text in times.cells().items() if name not in ("source", "software", "note")}
    assert cells == {
        **{"architecture": "Llama-3 70B", "precision": "bf16", "gpus": "128", "tp": "4", "cp": "1", "pp": "4"},
        **{"dp": "8", "interleave": "5", "microbatch": "1", "global_batch": "256", "seq_len": "8192", "layers": "80"},
        **{"vocab": "128256", "recompute": "selective", "sequence_parallel": "1", "sharding": "optimizer"},
        **{"measured_iteration_s": "6.72"},
    }
    assert run_file.cells_to_fill(times.cells()) == ["platform"]


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        ({"fp8": "hybrid"}, {"precision": "fp8"}),
        ({"fp8": "e4m3", "fp8_recipe": "mxfp8"}, {"precision": "mxfp8"}),
        ({"fp4": "e2m1"}, {"precision": "nvfp4"}),
        ({"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": "3"},
         {"recompute": "full", "recomputed_layers": "3"}),
        ({"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": "1"},
         {"recompute": "full", "recomputed_layers": None}),
        ({"padded_vocab_size": "32768"}, {"architecture": "Llama-2 70B", "vocab": "32768"}),
        ({"num_layers": "8"}, {"architecture": "Llama-3 70B", "layers": "8"}),
        ({"hidden_size": "6400", "num_query_groups": "1", "group_query_attention": "False", "swiglu": "False"},
         {"hidden": "6400", "ffn_matrices": "2", "kv_heads": None, "architecture": None}),
        ({"hidden_size": "7168", "num_attention_heads": "128", "num_layers": "61", "num_experts": "256",
          "moe_router_topk": "8", "ffn_hidden_size": "18432", "moe_ffn_hidden_size": "2048",
          "multi_latent_attention": "True", "expert_tensor_parallel_size": "1", "swiglu": "True"},
         {"architecture": "DeepSeek-V3", "expert_tensor": "1", "hidden": None}),
    ],
)  # fmt: skip
def test_what_the_arguments_say(changes, cells, written):
    (times,) = step_times(written(megatron(arguments=ARGUMENTS | changes)))
    assert {name: times.job.get(name) for name in cells} == cells


def test_of_batches_that_grow_the_last_counts(written):
    grown = megatron(SECONDS[2:22], batch=128)[-20:] + megatron([12.0] * 60)[-40:]
    (times,) = step_times(written(grown))
    assert times.job["global_batch"] == "256" and set(times.seconds) == {12.0}
    assert times.notes == ("20 steps of other batches left out",)


@pytest.mark.parametrize(
    ("mesh", "cells"),
    [
        ("Building 2-D device mesh with ['dp_shard', 'tp'], [32, 4]", {"tp": "4", "dp": "32", "microbatch": "2"}),
        ("Building 3-D device mesh with ['pp', 'dp_shard', 'tp'], [2, 16, 4]", {"pp": "2", "microbatch": None}),
        (
            "Building device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=16, cp=1, tp=4, ep=8, etp=1",
            {"tp": "4", "dp": "32", "ep": "8", "sharding": "weights"},
        ),
        ("Building 2-D device mesh with ['dp_replicate', 'tp'], [32, 4]", {"sharding": "none"}),
    ],
)
def test_torchtitan_says_its_job(mesh, cells, written):
    (times,) = step_times(written(titan(mesh=mesh)))
    expected = {"gpus": "128", "global_batch": "64", "precision": "fp8", "architecture": "Llama-3 70B"} | cells
    assert {name: times.job.get(name) for name in expected} == expected
    assert any("H100" in note for note in times.notes)
    assert ("weights are sharded over 16 of 32 data-parallel ranks" in times.notes) == ("dp_replicate=2" in mesh)


def test_tokens_a_second_without_a_job_are_no_time(written):
    (times,) = step_times(written(titan()[5:]))
    assert times.seconds == () and "needs global_batch and seq_len and gpus" in times.notes[0]
    assert "measured_iteration_s" in run_file.cells_to_fill(times.cells())


@pytest.fixture
def history(tmp_path):
    def write(jobs, table="jobs"):
        path = tmp_path / "jobs.sqlite3"
        with sqlite3.connect(path) as stream:
            stream.execute(
                f"CREATE TABLE {table} (job_id INTEGER PRIMARY KEY, model_name TEXT, model_size TEXT, dtype TEXT, "
                "scale INTEGER, profile_enabled INTEGER, proxy INTEGER, log_dir TEXT, train_step_time_seconds REAL, "
                "perf_parse_status TEXT)"
            )
            stream.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", jobs)
        stream.close()
        return path

    return write


def test_a_history_gives_its_valid_jobs(history):
    job = ("llama3.1", "405b", "fp8", 512, 0, 0, "logs/11", 9.25, "success")
    others = [(*job[:4], 1, *job[5:]), (*job[:5], 1, *job[6:]), (*job[:7], None, "incomplete")]
    others += [(*job[:7], time, "success") for time in (np.inf, "9.25 s")]
    path = history([(number, *row) for number, row in enumerate([job, *others], start=11)])
    (times,) = step_times(path)
    assert (times.tool, times.source, times.median_s) == ("llmb-run", "jobs.sqlite3, job 11", 9.25)
    assert dict(times.job) == {
        **{"model": "llama3.1 405b", "architecture": "Llama-3 405B", "precision": "fp8", "gpus": "512"}
    }
    path.unlink()
    with pytest.raises(ValueError, match="has 1 jobs, none with a valid time"):
        step_times(history([(1, *others[0])]))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("llama3.1 8b", "Llama-3 8B"), ("llama3.2 1b", "Llama-3.2 1B"), ("llama3 70B", "Llama-3 70B"),
        ("deepseek_v3 671b", "DeepSeek-V3"), ("qwen3 30b_a3b", "Qwen3-30B-A3B"), ("llama3 debugmodel", ""),
        ("nemotronh 56b", ""), ("gpt_oss 120b", "GPT-OSS 120B"),
    ],
)  # fmt: skip
def test_names_of_models(name, model):
    assert architecture_of(name) == model


@pytest.mark.parametrize("content", [b"", b"step 1 loss 3\n", b"\xff" * 99, b"SQLite format 3\0 and no more"])
def test_what_is_no_log_is_refused_with_the_forms_that_are_read(content, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.log is no .*Megatron-LM .*Megatron-Bridge .*NeMo .*torchtitan .*sqlite3"):
        step_times(path)
    other = tmp_path / "other.sqlite3"
    with sqlite3.connect(other) as stream:
        stream.execute("CREATE TABLE works (a)")
    stream.close()
    with pytest.raises(ValueError, match="is no job history"):
        step_times(other)
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(ValueError, match=r"is not there|is a folder"):
            step_times(place)


def test_the_command_writes_a_file_of_runs_that_is_read_back(written, tmp_path, capsys):
    log, out = str(written(megatron())), tmp_path / "runs.csv"
    assert main(["runs", "read", log, str(written(titan(), name="t.log")), "-o", str(out)]) == 0
    said = capsys.readouterr().err
    assert "line 2: train.log (Megatron-LM), 6.72 s, median of 40 of 50 steps (6.7 to 6.74 s)" in said
    assert said.count("still to fill in: platform\n") == 2
    with pytest.raises(ValueError, match="platform"):
        run_file.own_runs(str(out))
    table = pd.read_csv(out, dtype=str, keep_default_na=False).assign(platform="DGX H100")
    table.to_csv(out, index=False)
    first, second = run_file.own_runs(str(out)).itertuples()
    assert (first.tp, first.dp, first.interleave, first.measured_iteration_s) == (4, 8, 5, 6.72)
    assert (second.tp, second.sharding, second.precision) == (4, "weights", "fp8")
    assert (runs.predictions(run_file.own_runs(str(out)))["modelled_s"] > 0).all()
    assert main(["runs", "read", log, "-o", str(out)]) == 2 and "is there already" in capsys.readouterr().err
    assert main(["runs", "read", log]) == 0
    assert list(tables.read_csv(out)[0]) == list(pd.read_csv(io.StringIO(capsys.readouterr().out)))


def test_patterns_have_known_groups_and_settings_known_meanings():
    steps = {"iteration", "epoch", "seconds", "milliseconds", "tokens_per_s", "tflops"}
    own = {"local_batch", "mesh", "mesh_sizes", "degrees", "float8", "gpu"}
    for mark, patterns in log_lines().items():
        assert mark and all({*pattern.groupindex} <= {*run_file.run_columns()} | steps | own for _, pattern in patterns)
    assert len(tables.read_csv(files.data("log_settings.csv"))) == len(log_settings())
