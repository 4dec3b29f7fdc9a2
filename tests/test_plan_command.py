"""What `railcore plan` prints and writes, and its exit status."""

import csv
import json
import math
import os
import re
import sys
from datetime import date
from pathlib import Path

import pytest
from test_plan import numbers, spec

from railcore.__main__ import main
from railcore.planner import command, progress
from railcore.planner.planning import plan
from railcore.planner.spec import Spec
from railcore.planner.spec_template import spec_template

SMALL = {"candidates": ["rail-optimized", "photonic rails"], "job": {"search": {"context": 1, "micro_batch": 1}}}
TEXT = """
title = "Our <first> cluster"
[cluster]
platform = "DGX H100"
gpus = 64
[job]
model = "Llama-3 8B"
tokens = 1e12
batch = 512
search = {context = 1, micro_batch = 1}
[network]
candidates = ["rail-optimized", "photonic rails"]
"""


@pytest.fixture(autouse=True)
def no_progress(monkeypatch):
    """However slow the machine is."""
    monkeypatch.setattr(progress, "_FIRST_S", 600)


@pytest.fixture
def write(tmp_path):
    """A file with the small spec and more lines."""

    def written(more="", name="a.toml", text=TEXT):
        (tmp_path / name).write_text(text + more)
        return str(tmp_path / name)

    return written


def test_exit_status_says_whether_limits_are_met(write, capsys):
    assert main(["plan", write()]) == 0
    out, err = capsys.readouterr()
    assert re.match(
        r"Our <first> cluster\nBuy rail-optimized for 1\.83 M USD, of which the network 149\.5 k USD: it trains "
        r"Llama-3 8B in 16\.15 days \(between [\d.]+ and [\d.]+ days in ",
        out,
    )
    assert " for 36.79 k USD" in out and "published run" in out
    assert "rail-optimized *" in out and "Best strategy: DP64" in out and err == ""
    assert main(["plan", write("[limits]\ndays = 20\n")]) == 0
    assert "within 20 days" in capsys.readouterr().out
    assert main(["plan", write('[limits]\ndays = 5\npower = "110 kW"\n')]) == 3
    out = capsys.readouterr().out
    assert "Not reachable: no network meets 5 days and 110 kW" in out and " *" not in out
    assert "misses a limit: days 16.15 days, asked at most" in out
    assert main(["plan", write("[wishes]\ndays = 1\n")]) == 0
    assert main(["plan", write(), write("[limits]\ngpus = 32\n", "b.toml")]) == 3  # one of them is enough


def test_a_bad_spec_writes_nothing_and_says_all(write, tmp_path, capsys):
    bad, good = write("[limit]\ndays = 1\n[operation]\npue = 0.5\n"), write(name="good.toml")
    there = sorted(path.name for path in tmp_path.iterdir())
    into = ["--html", str(tmp_path / "x.html"), "--json", str(tmp_path / "x.json"), "--csv", str(tmp_path / "tables")]
    for specs in ([bad], [good, bad]):
        assert main(["plan", *specs, *into, "--markdown", str(tmp_path / "x.md")]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("railcore: a.toml has 2 faults:") and "operation.pue" in err
        assert "limit is unknown: give 'limits'" in err and "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == there


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "plan needs a spec: give a TOML file; `railcore plan --init` prints one to fill in"),
        (["nowhere.toml"], "spec 'nowhere.toml' cannot be read"),
        (["SPEC", "--draws", "5"], "--draws is 5: give a number from 20 to 100000, or 0 for none"),
    ],
)
def test_refusals(words, complaint, write, capsys):
    assert main(["plan", *(write() if word == "SPEC" else word for word in words)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"railcore: {complaint}")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--html", "x", "--json", "sub/../x"], "x is given twice: give each form a file of its own"),
        (["--html", "x", "--json", "link"], "x is given twice"),
        (["--html", "t/bill.csv", "--csv", "t"], "t/bill.csv is in the folder of --csv: give --html another place"),
        (["--json", "/dev/stdout"], "--json is '/dev/stdout': give a file, or - for the terminal"),
        (["--json", "sub"], "sub is a folder"),
        (["--html", "sub/../a.toml"], "--html would write over a.toml, which was read: give another place"),
        (["--markdown", "prices"], "--markdown would write over bill.csv, which was read"),
        (["--csv", "."], "--csv would write over bill.csv, which was read"),
        (["--json", "pipe"], "pipe is "),
    ],
)
def test_files_that_cannot_be_written_or_would_be_lost_are_refused_first(
    words, complaint, write, tmp_path, monkeypatch, capsys
):
    spec = write('[books]\nfile = "bill.csv"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "plan", pytest.fail)
    Path("bill.csv").write_text("part,price_usd\nserver,300000\n")
    Path("prices").symlink_to("bill.csv")
    Path("sub").mkdir()
    Path("link").symlink_to("x")
    os.mkfifo("pipe")
    before = sorted(os.listdir())
    assert main(["plan", spec, *words]) == 2
    assert complaint in capsys.readouterr().err and sorted(os.listdir()) == before


def test_json_has_the_page_and_every_table(write, tmp_path, capsys):
    path = tmp_path / "x.json"
    more = '[[network.candidate]]\nname = "mine"\nlayout = "Clos"\n[books.prices]\nport = "600 USD"\n'
    more += 'transceiver = "400 USD"\nrate = "400 Gbps"\n[limits]\ngpus = 8\n[site]\nnear = "Houston"\n'
    assert main(["plan", write(more), "--json", str(path), "--draws", "20"]) == 3
    assert f"{path}: written" in capsys.readouterr().err
    (told,) = json.loads(path.read_text(), parse_constant=pytest.fail)  # no NaN, which JSON has not
    found = plan(write(more))
    best = next(each for each in told["candidates"] if each["name"] == found.best.name)
    assert {name: each["value"] for name, each in best["numbers"].items()} == pytest.approx(found.best.numbers)
    low, value, high = (best["numbers"]["cost_usd"][name] for name in ("low", "value", "high"))
    assert low < value < high and best["numbers"]["cost_usd"]["grade"] == "assumed"
    rows = {row["candidate"]: row for row in told["tables"]["candidates"]}
    assert rows.keys() == {answer.name for answer in found.answers}
    assert rows[found.best.name]["cost_usd"] == pytest.approx(found.best.numbers["cost_usd"])
    given = {row["key"]: row["value"] for row in told["tables"]["defaults"] if row["given"]}
    assert given["books.prices"]["port"] == 600 and given["network.candidate"][0]["name"] == "mine"
    assert told["title"] == "Our <first> cluster"


def test_all_forms_say_the_same_and_are_written_whole(write, tmp_path, capsys):
    names = {"--html": "deep/x.html", "--json": "x.json", "--markdown": "x.md", "--csv": "tables", "--xlsx": "x.xlsx"}
    words = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    assert main(["plan", write(), *words, "--draws", "20"]) == 0
    out, err = capsys.readouterr()
    headline = out.splitlines()[1]
    page, told, text = (tmp_path / names[name] for name in ("--html", "--json", "--markdown"))
    assert headline in page.read_text() and headline in text.read_text()
    assert json.loads(told.read_text())[0]["headline"] == headline
    assert "<h1>Our &lt;first&gt; cluster</h1>" in page.read_text() and page.read_text().rstrip().endswith("</html>")
    assert text.read_text().startswith("# Our &lt;first&gt; cluster\n")
    assert err.count(": written") == 5
    tables = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert {"candidates.csv", "designs.csv", "times.csv", "bill.csv", "failures.csv", "sources.csv"} <= set(tables)
    with (tmp_path / "tables" / "candidates.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    own = numbers(spec(**SMALL))
    assert [row["candidate"] for row in rows] == ["rail-optimized", "photonic rails"]
    assert {name: float(rows[0][name]) for name in own} == pytest.approx(own)
    left = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".csv", ".toml")]
    assert sorted(left) == ["x.html", "x.json", "x.md", "x.xlsx"]  # no part of a file


def test_nothing_is_written_where_one_of_the_files_cannot_be(write, tmp_path, capsys):
    path, into = write(), tmp_path / "x.json"
    assert main(["plan", path, "--json", str(into), "--markdown", f"{path}/x.md", "--draws", "0"]) == 2
    assert not into.exists() and "a.toml" in capsys.readouterr().err


def test_a_form_for_the_terminal_stands_alone_there(write, capsys):
    assert main(["plan", write(), "--json", "-", "--draws", "0"]) == 0
    out, err = capsys.readouterr()
    (told,) = json.loads(out)
    assert err == "" and told["candidates"][0]["numbers"]["cost_usd"]["low"] is None
    assert "uncertainty" not in {section["id"] for section in told["sections"]}
    assert main(["plan", write(), "--markdown", "-"]) == 0
    assert capsys.readouterr().out.startswith("# Our &lt;first&gt; cluster\n\nBuy rail-optimized for")


def test_several_specs_stand_side_by_side(write, tmp_path, capsys):
    specs = [write(), write("[operation]\ncontingency = 0.5\n", "b.toml")]
    into = ["--html", str(tmp_path / "x.html"), "--csv", str(tmp_path / "tables"), "--json", str(tmp_path / "x.json")]
    assert main(["plan", *specs, *into, "--draws", "20"]) == 0
    assert capsys.readouterr().out.count("Buy rail-optimized for") == 2
    days = [each["candidates"][0]["numbers"]["days"]["value"] for each in json.loads((tmp_path / "x.json").read_text())]
    assert days[1] == pytest.approx(1.5 * days[0]) and math.isfinite(days[0])
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"scenario_1", "scenario_2"}
    assert (tmp_path / "x.html").read_text().count("Buy rail-optimized for") >= 2


def test_two_specs_are_compared_key_by_key(write, tmp_path, capsys):
    specs = [write(), write("[operation]\ncontingency = 0.5\n", "b.toml")]
    assert main(["plan", *specs, "--html", str(tmp_path / "x.html"), "--draws", "20"]) == 0
    out = capsys.readouterr().out
    assert "The second plan against the first: training +50%" in out and "operation.contingency" in out
    assert "What differs in the spec" in (tmp_path / "x.html").read_text()
    assert main(["plan", *specs, specs[0]]) == 0
    assert "What differs" not in capsys.readouterr().out


def test_a_page_has_who_made_it_and_when(write, tmp_path):
    named = write("[limits]\ndays = 20\n", text=f'author = "A. Planner"\ndate = "2026-02-03"\n{TEXT}')
    for spec_file, made in ((named, "Made by A. Planner on 2026-02-03 with railcore "), (write(name="b.toml"), None)):
        assert main(["plan", spec_file, "--html", str(tmp_path / "x.html"), "--draws", "20"]) == 0
        wanted = made or f"Made on {date.today().isoformat()} with railcore "
        assert wanted in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(("option", "library"), [("--html", "Matplotlib"), ("--xlsx", "openpyxl")])
def test_a_form_whose_library_is_missing_is_refused_first(option, library, write, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, library.lower(), None)
    assert main(["plan", write(), option, str(tmp_path / "x")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and library in err and "pip install" in err


def test_a_template_and_a_schema_are_printed(capsys):
    assert main(["plan", "--init"]) == 0
    assert capsys.readouterr().out.rstrip() == spec_template().rstrip()
    assert main(["plan", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"].keys() == Spec.model_fields.keys()


def test_support_is_printed(capsys):
    assert main(["support", "DGX H100", "Llama-3 8B"]) == 0
    assert "published runs of Llama-3 8B" in capsys.readouterr().out
    assert main(["support", "DGX H10", "Llama-3 8B"]) == 2
    assert "'DGX H100'" in capsys.readouterr().err
