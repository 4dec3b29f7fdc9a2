"""Data that takes longer than a notebook may: each recipe of data/derived starts, and gives what is stored."""

import runpy
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

from railcore import compiled
from railcore.catalog import files

REBUILD = runpy.run_path(str(files.DATA / "derived/rebuild.py"))
TABLES = REBUILD["TABLES"]


@pytest.fixture
def sound_timelines():
    """Not here, in place of the fixture of all tests: these are hundreds, whose check takes a minute."""


@pytest.fixture
def recipe(monkeypatch, tmp_path):
    """The command with its arguments, with no case kept from an earlier run."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(compiled.cache_folder()))
    monkeypatch.setattr(files, "BUILD", tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["rebuild.py", *arguments])
        return REBUILD["main"]()

    return run


def test_every_recipe_is_a_table():
    here = files.DATA / "derived"
    assert set(TABLES) == {path.stem for path in here.glob("*.csv")} == {path.stem for path in here.glob("*.sha256")}
    assert set(TABLES) == {path.stem for path in here.glob("*.py")} - {"rebuild"}


# 4 to 10 s each; the smallest case of the first is the errors of all runs, as iteration_errors has them.
SLOW = {"error_spreads", "mechanism_effects", "plan_draws", "transport_runs"}


@pytest.mark.parametrize(
    "table", [pytest.param(table, marks=[pytest.mark.slow] if table in SLOW else []) for table in TABLES]
)
def test_the_smallest_cases_come_out_again(table, recipe):
    """`make slow` has all of them; the hash is of all. Worth its 6 s: only here stored numbers are computed again."""
    few = {"level_errors": "6", "transport_runs": "6"}  # quick ones
    assert recipe("--smallest", few.get(table, "1"), table) == 0


def test_another_result_and_other_inputs_are_said(recipe, monkeypatch, tmp_path, capsys):
    table = TABLES["transport_runs"]
    run = table.run
    monkeypatch.setattr(table, "CODE", ())  # quick to hash
    with monkeypatch.context() as patch:
        patch.setattr(table, "run", lambda case: (rows := run(case)).assign(mean_s=rows["mean_s"] * (1 + 1e-6)))
        assert recipe("--smallest", "1", "transport_runs") == 1
    assert "is not what comes out" in capsys.readouterr().out
    for kept in tmp_path.rglob("*.csv"):
        kept.unlink()
    monkeypatch.setattr(table, "key", repr)
    assert recipe("--smallest", "1", "transport_runs") == 1 and "of other inputs" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--smallest", "0"], ["--smallest", "1", "--write"]])
def test_some_cases_are_never_stored_as_all(arguments, recipe, capsys):
    with pytest.raises(SystemExit):
        recipe(*arguments)
    assert "give 1 or more, without --write" in capsys.readouterr().err


def test_code_that_has_moved_is_named(monkeypatch):
    monkeypatch.setattr(TABLES["transport_runs"], "CODE", ("railcore/catalog", "railcore/network/no_such.py"))
    with pytest.raises(ValueError, match=r"CODE of transport_runs has 'railcore/network/no_such\.py'"):
        REBUILD["code_hash"]("transport_runs")


def test_finished_cases_are_not_run_again(tmp_path, monkeypatch):
    ran = []

    def run(case):
        ran.append(case)
        if case == 3 and len(ran) == 3:
            raise KeyboardInterrupt
        return pd.DataFrame({"case": [case], "twice": [2 * case]})

    table = SimpleNamespace(CODE=(), __file__=__file__, run=run, key=str)
    monkeypatch.setitem(REBUILD["TABLES"], "mine", table)
    monkeypatch.setattr(files, "BUILD", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        list(REBUILD["finished"]("mine", [1, 2, 3]))
    found = list(REBUILD["finished"]("mine", [1, 2, 3]))
    assert ran == [1, 2, 3, 3] and [kept for _, _, kept in found] == [True, True, False]
    assert [rows["twice"].item() for _, rows, _ in found] == [2, 4, 6]


def test_words_do_not_count_as_code(tmp_path):
    one, two, three = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    one.write_text('def f(x):\n    """Twice."""\n    return 2 * x\n')
    two.write_text('def f(x):\n    """Two times."""\n    return 2 * x  # so\n')
    three.write_text("def f(x):\n    return 3 * x\n")
    texts = [REBUILD["_without_words"](path) for path in (one, two, three)]
    assert texts[0] == texts[1] != texts[2]
