"""A user's own training runs: the template, blanks and their defaults, and a broken file for each fault."""

import io

import pandas as pd
import pytest

from railcore.__main__ import main
from railcore.catalog import files
from railcore.training import run_file, runs
from railcore.training.software import newest_runtime
from railcore.training.transformer_memory import EVERY_OPERATOR, RECOMPUTE_MODULES
from suite import run_errors

NEEDED = {"platform": "DGX H100", "precision": "bf16", "gpus": "64", "global_batch": "128"}
RUN = NEEDED | {"measured_iteration_s": "14.7", "architecture": "Llama-3 70B", "tp": "4", "pp": "4"}
SIZES = {"layers": "80", "hidden": "8192", "heads": "64", "kv_heads": "8", "ffn_hidden": "28672"}
SIZES |= {"ffn_matrices": "3", "seq_len": "8192", "vocab": "128256"}


@pytest.fixture
def written(tmp_path):
    def write(*rows):
        path = tmp_path / "mine.csv"
        pd.DataFrame(rows).to_csv(path, index=False)
        return str(path)

    return write


def test_the_template_is_read_without_its_meanings_and_has_a_published_run(tmp_path):
    path = tmp_path / "mine.csv"
    run_file.write_run_template(path)
    (run,) = run_file.own_runs(str(path)).itertuples()
    assert (run.use, run.group, run.seen) == ("yours",) * 3
    published = runs.published_runs("check")
    same = ["precision", "layers", "hidden", "gpus", "tp", "cp", "pp", "dp", "global_batch", "measured_iteration_s"]
    assert (published[same] == [getattr(run, name) for name in same]).all(axis=1).any()
    with pytest.raises(ValueError, match="is there already"):
        run_file.write_run_template(path)


def test_the_columns_are_those_of_the_published_runs():
    published = pd.read_csv(files.data("measured/iterations.csv"), nrows=1)
    assert set(published) <= {*run_file.run_columns(), "use"}
    assert run_file.run_columns()["recompute_modules"].values.split() == [*RECOMPUTE_MODULES, EVERY_OPERATOR]
    for column in run_file.run_columns().values():
        assert column.needed in ("yes", "no", "without architecture") and column.meaning


def test_published_runs_given_as_own_ones_come_out_the_same(tmp_path):
    every = runs.joined_runs(*map(runs.published_runs, ("check", "forward")))
    some = every[~every["software"].str.startswith("llm-foundry")].iloc[::9].reset_index(drop=True)
    path = tmp_path / "mine.csv"
    some.drop(columns=["mixture", "group", "size", "seen"]).to_csv(path, index=False)
    ours, theirs = (runs.predictions(table) for table in (run_file.own_runs(str(path)), some))
    assert ours["modelled_s"].tolist() == theirs["modelled_s"].tolist()
    assert ours["fit_in_memory"].tolist() == theirs["fit_in_memory"].tolist()


def test_blanks_take_what_the_columns_say(written):
    (run,) = run_file.own_runs(written(RUN)).itertuples()
    newest = newest_runtime(run.platform).name
    assert (run.dp, run.cp, run.interleave, run.sequence_parallel) == (4, 1, 1, 1)
    assert (run.runtime, run.sharding, run.recompute, run.pipeline_layout) == (newest, "optimizer", "none", "even")
    named = runs.predictions(run_file.own_runs(written(RUN)))["modelled_s"].item()
    plain = {name: text for name, text in RUN.items() if name != "architecture"} | SIZES
    assert runs.predictions(run_file.own_runs(written(plain)))["modelled_s"].item() == pytest.approx(named)
    with pytest.raises(
        ValueError, match="line 2: ffn_matrices is blank, without an architecture: give weight matrices"
    ):
        run_file.own_runs(written({name: text for name, text in plain.items() if name != "ffn_matrices"}))


def test_a_mixture_takes_its_experts_from_its_architecture(written):
    run = RUN | {"architecture": "Qwen3-30B-A3B", "tp": "1", "pp": "1", "ep": "8"}
    (row,) = run_file.own_runs(written(run)).itertuples()
    assert (row.experts, row.mixture, row.dispatch) == (128, "experts", "dropless")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"platform": "DGX H1000"}, r"line 2: platform is 'DGX H1000': give a known one, the nearest are .*'DGX H100'"),
        ({"architecture": "Llama-3 71B"}, r"line 2: architecture is 'Llama-3 71B': .*nearest are .*'Llama-3 70B'"),
        ({"dp": "5"}, r"line 2: gpus is 64, but tp 4 x cp 1 x pp 4 x dp 5 = 80: change one of them"),
        ({"global_batch": "130"}, r"line 2: global_batch is 130: give a multiple"),
        ({"tp": "four"}, r"line 2: tp is 'four': give a whole number of at least 1"),
        ({"measured_iteration_s": "14.7 s"}, r"line 2: measured_iteration_s is '14.7 s': give a number above 0"),
        ({"measured_iteration_s": ""}, r"line 2: measured_iteration_s is blank: give measured time"),
        ({"recompute": "some"}, r"line 2: recompute is 'some': give one of none, selective, full, or leave it blank"),
        ({"architecture": ""}, r"line 2: layers is blank, without an architecture: give transformer layers"),
        ({"hidden": "4096"}, r"line 2: hidden is 4096, but Llama-3 70B has 8192: leave it blank"),
        ({"interleave": "5", "pp": "1"}, r"line 2: interleave is 5 with pipeline 1.*are the columns tp, cp, pp"),
        ({"precision": "fp8", "platform": "DGX A100"}, r"line 2: .*A100.* has no row 'fp8_dense_rate'"),
        ({"recompute_modules": "mlp moe_acct"}, r"line 2: recompute_modules has 'moe_acct': give of core_attn"),
        ({"recompute_modules": "mlp,moe"}, r"line 2: recompute_modules has 'mlp,moe': give of .*space between them"),
        ({"pipeline_layout": "end"}, r"line 2: pipeline_layout is 'end': give even, ends where .*or leave it blank"),
        ({"released": "2025-9"}, r"line 2: released is '2025-9': give year and month"),
        ({"tensor": "4"}, r"line 1: column 'tensor' is not known: the nearest are"),
    ],
)
def test_a_row_that_does_not_fit_is_named(written, changes, says):
    with pytest.raises(ValueError, match=f"mine.csv, {says}"):
        run_file.own_runs(written(RUN | changes))


def test_the_line_is_that_of_the_file(written):
    with pytest.raises(ValueError, match=r"line 4: gpus is blank"):
        run_file.own_runs(written(RUN, RUN, RUN | {"gpus": ""}))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1: column 'platform' is missing"),
        (b"platform;precision\nDGX H100;bf16\n", "column 'platform;precision' is not known"),
        (b"gpus,gpus\n8,8\n", "column 'gpus' is there twice"),
        (b"note\n\xff\xfe\n", "is no text in UTF-8"),
        (",".join(RUN).encode() + b"\n", "has no runs"),
        (
            ",".join(RUN).encode() + b'\n"' + b"x" * 200_000,
            "line [12]: field larger.*a quote not closed",
        ),
        (",".join(RUN).encode() + b"\n" + ",".join(RUN.values()).encode() + b",1\n", "'1'|1 stands behind the last"),
    ],
)
def test_a_file_that_is_no_table_of_runs_is_refused(tmp_path, content, says):
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        run_file.own_runs(str(path))


def test_a_file_that_is_not_there_is_named_and_a_relative_one_is_the_projects(written, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"runs is 'no\.csv': no such file"):
        run_file.own_runs("no.csv")
    written(RUN)
    monkeypatch.setattr(files, "ROOT", tmp_path)
    assert len(run_file.own_runs("mine.csv")) == 1
    none = run_file.own_runs(None)
    assert none.empty and runs.predictions(none).empty


def test_own_runs_are_a_family_of_their_own_and_no_goal_counts_them(written):
    mine = run_file.own_runs(written(RUN))
    effects = run_errors.mechanism_effects(mine)
    assert set(effects["family"]) == {"yours"}
    assert run_errors.goals_reached(runs.predictions(mine))["reached"].eq("no runs").all()


def test_the_command_prints_and_writes_a_template(tmp_path, capsys):
    assert main(["runs", "template"]) == 0
    printed = capsys.readouterr()
    assert list(pd.read_csv(io.StringIO(printed.out))) == list(run_file.run_columns())
    assert 'PARAMS="-p runs FILE"' in printed.err
    path = tmp_path / "mine.csv"
    assert main(["runs", "template", "--write", str(path)]) == 0 and path.read_text() == printed.out
    assert main(["runs", "template", "--write", str(path)]) == 2
    assert "is there already" in capsys.readouterr().err
