"""Sweeps: each row is a plan's, whoever computes it, in whatever order, however often it was stopped."""

import io
import json
import os
import pickle
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import tomllib
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.__main__ import main
from railcore.catalog import files
from railcore.catalog.libraries import needed_library
from railcore.planner import (
    answer,
    progress,
    sweep_chunk,
    sweep_dask,
    sweep_grid,
    sweep_part,
    sweep_processes,
    sweeping,
)
from railcore.planner.planning import Shared, plan
from railcore.planner.spec import Spec
from railcore.planner.spec_reading import check_key, read_spec
from railcore.planner.sweep_command import TEMPLATE
from railcore.planner.sweep_folder import stored_sweep
from railcore.planner.sweep_grid import sweep_points
from railcore.planner.sweep_part import read_part
from railcore.planner.sweeping import sweep
from railcore.planner.uncertainty import win_shares

BASE = {
    "cluster": {"platform": "DGX H100"},
    "job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512, "search": {"context": 1, "micro_batch": 1}},
    "network": {"candidates": ["rail-optimized", "rail-only", "photonic rails"]},
    "books": {"prices": {"port": "600 USD", "rate": "400 Gbps"}},
}
OVER = {"cluster.gpus": [64, 256], "books.prices.transceiver": ["200 USD", "900 USD"]}
TEXT = """
[cluster]
platform = "DGX H100"
[job]
model = "Llama-3 8B"
tokens = 1e12
batch = 512
search = {context = 1, micro_batch = 1}
[network]
candidates = ["rail-optimized", "rail-only", "photonic rails"]
[books.prices]
port = "600 USD"
rate = "400 Gbps"
"""
GRID = '[over]\ncluster.gpus = [64, 256]\nbooks.prices.transceiver = ["200 USD", "900 USD"]\n'


@pytest.fixture(scope="module")
def whole():
    return sweep(BASE, OVER)


@pytest.fixture
def fine(monkeypatch):
    """A chunk for each point."""
    monkeypatch.setattr(sweep_grid, "_CHUNK_S", 0.0)
    monkeypatch.setattr(sweep_grid, "_SEARCHES_S", 0.0)


def same(one, other):
    pd.testing.assert_frame_equal(one, other, check_exact=True)


def spec_at(gpus, transceiver):
    prices = BASE["books"]["prices"] | {"transceiver": transceiver}
    return BASE | {"cluster": BASE["cluster"] | {"gpus": gpus}, "books": {"prices": prices}}


def test_each_row_is_the_plans(whole):
    assert whole["point"].is_monotonic_increasing and whole.attrs["failed"] == {}
    for number, (gpus, transceiver) in enumerate((g, t) for g in (64, 256) for t in ("200 USD", "900 USD")):
        mine = whole[whole["point"] == number].reset_index(drop=True)
        alone = plan(spec_at(gpus, transceiver)).candidates
        assert list(mine["rank"]) == list(range(1, len(alone) + 1))
        assert set(mine["cluster.gpus"]) == {gpus}
        assert set(mine["books.prices.transceiver"]) == {float(transceiver.split()[0])}  # in SI units
        for name in alone:
            pd.testing.assert_series_equal(mine[name], alone[name], check_dtype=False, check_names=False)
    costs = whole[whole["candidate"] == "rail-only"].groupby("cluster.gpus")["network_usd"].agg(["min", "max"])
    assert (costs["max"] > costs["min"]).all()


SHARING = [
    {"cluster.gpus": [64, 128], "limits.days": [10, 1000]},
    {"network.candidates": [["rail-only"], ["photonic rails", "Clos"]], "network.nic_ports": [2, 4]},
    {"network.reconfiguration": ["1 ms", "1 s"], "job.search": [{"tensor": 8, "pipeline": 4}]},
    {"operation.checkpoint": ["10 s", "60 s"], "operation.failures": ["low", "high"]},
    {"job.batch": [256, 512], "cluster.use": ["all", "at most"]},
    {"cluster.hb_domain_size": [4, 8], "network.radix": [16, 64]},
    {"cluster.include": [[], ["storage"]], "cluster.nic": ["200 Gbps", "400 Gbps"]},
    {"job.precision": ["bf16", "fp8"]},
]


@pytest.mark.parametrize(
    "over",
    [pytest.param(over, marks=pytest.mark.slow if i % 2 else (), id=", ".join(over)) for i, over in enumerate(SHARING)],
)
def test_plans_that_share_are_those_that_do_not(over):
    base = BASE | {"cluster": {"platform": "DGX H100", "gpus": 64}, "books": {}}
    asked, shared = sweep_points(base, over), Shared()
    order = [*range(len(asked.rows)), *reversed(range(len(asked.rows)))]  # whoever comes first
    alone = [plan(asked.spec(point)).candidates for point in range(len(asked.rows))]
    for point in order:
        same(plan(asked.spec(point), shared=shared).candidates, alone[point])
    assert len({table.to_csv() for table in alone}) > 1  # the keys do change something


def test_what_points_share_is_computed_once(monkeypatch):
    calls = {"search": 0, "training_goodput": 0}

    def counting(name):
        real = getattr(answer, name)

        def counted(*given, **options):
            calls[name] += 1
            return real(*given, **options)

        monkeypatch.setattr(answer, name, counted)

    counting("search")
    counting("training_goodput")
    plan(spec_at(64, "200 USD"))
    one = dict(calls)
    assert min(one.values()) > 0
    sweep(BASE, {"cluster.gpus": [64], "books.prices.transceiver": [f"{usd} USD" for usd in range(100, 900, 100)]})
    assert calls == {name: 2 * count for name, count in one.items()}


def test_points_come_in_many_forms(tmp_path):
    (tmp_path / "grid.toml").write_text(TEXT + GRID)
    wanted = sweep_points(BASE, OVER).rows
    assert sweep_points(tmp_path / "grid.toml").rows == wanted
    rows = [{"cluster.gpus": g, "books.prices.transceiver": t} for g in (64, 256) for t in ("200 USD", "900 USD")]
    assert sweep_points(BASE, rows).rows == wanted
    assert sweep_points(BASE, pd.DataFrame(rows)).rows == wanted
    assert (
        sweep_points(
            BASE, [{"cluster": {"gpus": row["cluster.gpus"]}, **dict([[*row.items()][1]])} for row in rows]
        ).rows
        == wanted
    )
    pd.DataFrame(rows).to_csv(tmp_path / "points.csv", index=False)
    assert sweep_points(BASE, tmp_path / "points.csv").rows == wanted
    (tmp_path / "table.toml").write_text('over = "points.csv"\n' + TEXT)  # beside the spec, wherever one stands
    assert sweep_points(tmp_path / "table.toml").rows == wanted
    tables = "".join(
        "[[over]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items()) for row in rows
    )
    (tmp_path / "rows.toml").write_text(TEXT + tables)
    assert sweep_points(tmp_path / "rows.toml").rows == wanted
    ends = {"from": "200 USD", "to": "900 USD", "steps": 2}
    assert sweep_points(BASE, {"cluster.gpus": np.array([64, 256]), "books.prices.transceiver": ends}).rows == wanted


def test_points_are_of_plain_types_which_other_processes_can_read():
    class Text(str):
        """Of this process alone."""

    base = BASE | {"job": {Text("model"): Text("Llama-3 8B"), "tokens": np.float64(1e12)}}
    for over in ({"cluster.platform": [Text("DGX H100")]}, [{"cluster.platform": Text("DGX H100")}]):
        found = pickle.loads(pickle.dumps(sweep_points(base, over)))
        assert found.spec(0) == base | {"cluster": {"platform": "DGX H100"}}
        assert {type(value) for value in found.base["job"].values()} == {str, float}
    for over in ({"cluster.gpus": [Text]}, [{"cluster": {"gpus": Text}}]):
        with pytest.raises(
            ValueError, match=r"cluster\.gpus is of type type: give a text, a number, a list, a table or"
        ):
            sweep_points(BASE, over)
    with pytest.raises(ValueError, match=r"job\.model is of type object: give a text"):
        sweep_points({"job": {"model": object()}}, OVER)


@pytest.mark.parametrize(
    ("over", "where"),
    [
        ([{"title": "a"}, {"title": "a\x1b"}], "point 1 of over: title has"),
        (pd.DataFrame({"title": ["a\x1b"]}), "point 0 of over: title has"),
        ({"title": ["a", "a\x1b"]}, "over: title has"),
        ({"title\x1b": ["a"]}, "over: key 'title\\x1b' has"),
        ({"cluster.gpus": [10**400]}, "over: cluster.gpus is a number of more than 300 digits"),
    ],
    ids=str,
)
def test_letters_that_no_page_shows_are_refused_in_every_form(over, where):
    with pytest.raises(ValueError, match=re.escape(where)):
        sweep_points(BASE, over)


def test_points_that_hold_themselves_are_refused():
    endless = {}
    endless["a"] = endless
    for over in ({"job": endless}, [{"job": endless}]):
        with pytest.raises(ValueError, match="over is nested more than 40 deep, or holds itself"):
            sweep_points(BASE, over)


def test_an_index_that_pandas_writes_is_passed_over(tmp_path):
    pd.DataFrame({"cluster.gpus": [64, 128]}).to_csv(tmp_path / "points.csv")
    assert sweep_points(BASE, tmp_path / "points.csv").rows == [{"cluster.gpus": 64}, {"cluster.gpus": 128}]


def test_a_table_may_leave_cells_blank():
    frame = pd.DataFrame(
        {"cluster.gpus": [64, np.nan], "cluster.racks": [np.nan, 8], "books.prices.transceiver": "1 USD"}
    )
    found = sweep_points(BASE, frame)
    assert found.rows[0].keys() == {"cluster.gpus", "books.prices.transceiver"}
    assert found.spec(1)["cluster"] == {"platform": "DGX H100", "racks": 8} and "gpus" not in BASE["cluster"]
    table = found.table()
    assert table["cluster.gpus"].dtype == "float64" and table["cluster.gpus"].isna().tolist() == [False, True]


def test_values_of_pandas_and_sets_are_plain_and_blanks_are_not_given():
    base = BASE | {"network": {"candidates": pd.Series(["rail-only"])}, "cluster": {"platform": np.str_("DGX H100")}}
    found = sweep_points(base, [{"cluster.gpus": np.int64(64), "cluster.racks": pd.NA}])
    assert found.base["network"]["candidates"] == ["rail-only"] and found.rows == [{"cluster.gpus": 64}]
    assert type(found.base["cluster"]["platform"]) is str
    assert sweep_points(BASE, {"network.candidates": [{"Clos", "rail-only"}]}).rows[0]["network.candidates"] == [
        "Clos",
        "rail-only",
    ]


def test_a_spec_holds_as_many_points_as_a_list_beside_it():
    rows = [{"cluster.gpus": 8 * n, "job.batch": 512, "job.precision": "bf16"} for n in range(1, 8001)]
    assert sweep_points(BASE | {"over": rows}).rows == sweep_points(BASE, rows).rows


def test_columns_are_numbers_or_texts():
    over = {"job.batch": [512, "16M tokens"], "network.candidates": [["Clos"], "all"], "cluster.nic": ["1 Tbps"]}
    table = sweep_points(BASE, over).table()
    assert table["job.batch"].tolist() == ["512", "512", "16M tokens", "16M tokens"]
    assert table["network.candidates"].tolist() == ['["Clos"]', "all"] * 2
    assert table["cluster.nic"].tolist() == [1.25e11] * 4


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 40), st.sampled_from(["even", "log"]))
def test_a_range_goes_from_one_end_to_the_other(low, high, steps, spacing):
    ends = {"from": low, "to": high, "steps": steps, "spacing": spacing}
    values = [row["cluster.gpus"] for row in sweep_points(BASE, {"cluster.gpus": ends}).rows]
    assert values[0] == low and values[-1] == high and len(values) <= steps
    assert len(set(values)) == len(values) and sorted(values, reverse=high < low) == values
    assert all(isinstance(value, int) for value in values)


def test_a_range_of_typed_counts_is_whole():
    points = sweep_points(BASE, {"cluster.gpus": {"from": "1,024", "to": "4,096", "steps": 4}})
    assert [row["cluster.gpus"] for row in points.rows] == [1024, 2048, 3072, 4096]
    assert all(isinstance(row["cluster.gpus"], int) for row in points.rows)


def test_a_range_of_quantities_keeps_its_unit():
    ends = {"from": "100 USD", "to": "1600 USD", "steps": 5, "spacing": "log"}
    values = [row["books.server"] for row in sweep_points(BASE, {"books.server": ends}).rows]
    assert values == ["100 USD", "200 USD", "400 USD", "800 USD", "1600 USD"]


@pytest.mark.parametrize(
    ("low", "high", "middle"),
    [("1 MW", "1.25 MW", "1.1250 MW"), ("1,000 kW", "3,000 kW", "2000 kW"), ("1MW", "3 MW", "2 MW")],
)
def test_a_range_of_quantities_is_typed_and_written_with_one_meaning(low, high, middle):
    points = sweep_points(BASE, {"books.server_power": {"from": low, "to": high, "steps": 3}})
    assert points.rows[1]["books.server_power"] == middle
    read = points.table()["books.server_power"]
    assert read[1] == pytest.approx((read[0] + read[2]) / 2)


def test_quantities_are_plain_numbers_where_nothing_is_of_toml_or_a_file(tmp_path):
    (tmp_path / "points.csv").write_text("books.server\n250000\n")
    text = '[cluster]\nplatform = "dgx h100"\ngpus = 64\n[job]\nmodel = "Llama-3 8B"\ntokens = "1T"\nbatch = 512\n'
    text += '[network]\ncandidates = ["rail-only"]\n'
    base = tomllib.loads(text)
    rows = sweep(base, {"books.server": [250e3]})
    pd.testing.assert_frame_equal(rows, sweep(text, {"books.server": ["250,000 USD"]}), check_dtype=False)
    for spec, over in ((text, {"books.server": [250e3]}), (base, tmp_path / "points.csv")):
        with pytest.raises(ValueError, match=r"point 0: .*books\.server is 250000: give a text with its unit, such as"):
            sweep(spec, over)


BAD = [
    ({}, "over gives no values"),
    (None, "over is missing"),
    ([3], "over has 3: give a list of which each is a dictionary"),
    ({"cluster.gpu": [1]}, "cluster.gpu is unknown: give 'gpus'"),
    ({"cluster": 3}, "over.cluster is 3: give a list"),
    ({"books.prices.transceivers": ["1 USD"]}, "books.prices.transceivers is unknown: give 'transceiver'"),
    ({"job": [3]}, "job is a section: give its keys, such as job.model"),
    ({"cluster.gpus": []}, "over.cluster.gpus is an empty list"),
    ({"cluster.gpus": "64"}, "over.cluster.gpus is '64': give a list"),
    ({"cluster.gpus": [64, 64]}, "over.cluster.gpus has a value twice"),
    ({"cluster.platform.x": [1]}, "cluster.platform.x"),
    ({"books.prices": ["street2025"], "books.prices.port": ["1 USD"]}, "over gives books.prices and books.prices.port"),
    ({"cluster.gpus": {"from": 1, "to": 2, "steps": 1}}, "over.cluster.gpus.steps is 1"),
    ({"cluster.gpus": {"from": 1, "to": 2, "steps": 2, "by": 1}}, "over.cluster.gpus.by is unknown"),
    ({"cluster.gpus": {"from": 0, "to": 2, "steps": 2, "spacing": "log"}}, "above 0 for spacing log"),
    ({"cluster.gpus": {"from": "1 W", "to": "2 USD", "steps": 2}}, "give both in one unit"),
    ({"cluster.power": {"from": "1.500 MW", "to": "2 MW", "steps": 2}}, "give '1.5' or '1,500', as it may mean each"),
    ({"cluster.gpus": {"from": True, "to": 2, "steps": 2}}, "give numbers, or both with a unit"),
    ({"cluster.gpus": {"from": "x", "to": "2 USD", "steps": 2}}, "give numbers, or both with a unit"),
    ({"cluster.gpus": range(2000), "job.tokens": range(1, 2000)}, "over has 3,998,000 points: give at most"),
    ("no_such.csv", "no_such.csv', which is no file"),
]


@pytest.mark.parametrize(("over", "message"), BAD, ids=[message for _, message in BAD])
def test_keys_and_values_that_mean_nothing_are_refused(over, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep(BASE, over, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_points_are_counted_before_they_are_expanded(tmp_path, monkeypatch):
    path = tmp_path / "points.csv"
    rows = [{"cluster.gpus": gpus} for gpus in (8, 16, 24, 32)]
    path.write_text("cluster.gpus\n8\n\n16\n24\n")
    monkeypatch.setattr(sweep_grid, "MOST_POINTS", 3)
    assert sweep_points(BASE, path).rows == sweep_points(BASE, rows[:3]).rows == rows[:3]
    path.write_text("cluster.gpus\n8\n16\n24\n32\n")
    for over in (path, rows, pd.DataFrame(rows), {"cluster.gpus": range(4)}):
        with pytest.raises(ValueError, match=r"over has 4 points: give at most 3$"):
            sweep_points(BASE, over)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfec\0l\0", "points.csv is no text in UTF-8, but in UTF-16"),
        (
            b"cluster.gpus\n" + b"8" * 200_000,
            "points.csv line 1: field larger than field limit (131072): is the file cut",
        ),
        (b"cluster.gpus\n8\n1,024\n", "points.csv line 3 has more cells than columns: quote cells with a comma"),
    ],
    ids=["UTF-16", "long", "commas"],
)
def test_a_csv_that_means_nothing_is_refused(content, message, tmp_path):
    (tmp_path / "points.csv").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep_points(BASE, tmp_path / "points.csv")


def test_a_cell_that_is_no_json_is_text(tmp_path):
    deep = "[" * 100_000
    (tmp_path / "points.csv").write_text(f"job.model\n{deep}\n")
    assert sweep_points(BASE, tmp_path / "points.csv").rows == [{"job.model": deep}]


def test_every_key_of_a_spec_is_known_and_no_other():
    for name in ("title", "cluster.gpus", "job.model.layers", "books.powers.port", "site.near", "uncertainty.seed"):
        check_key(name)
    with pytest.raises(ValueError, match="clusters"):
        check_key("clusters.gpus")
    with pytest.raises(ValueError, match="over is given twice"):
        sweep({**BASE, "over": OVER}, OVER)


def test_points_that_fail_do_not_stop_the_others(tmp_path, whole):
    over = {"cluster.gpus": [64, 0, 256], "books.prices.transceiver": ["200 USD", "900 USD", "cheap"]}
    found = sweep(BASE, over, tmp_path / "out")
    failed = pd.read_csv(tmp_path / "out/failed.csv")
    assert failed["point"].tolist() == [2, 3, 4, 5, 8] == list(found.attrs["failed"])
    assert failed["reason"].str.contains("cluster.gpus is 0").tolist() == [False, True, True, True, False]
    assert failed.loc[0, "books.prices.transceiver"] == "cheap"
    assert found["point"].unique().tolist() == [0, 1, 6, 7]
    columns = [name for name in whole if name not in ("point", "books.prices.transceiver")]
    same(found[columns], whole[columns])
    with pytest.raises(
        ValueError, match=r"no point of the sweep could be planned; point 0: spec has 1 fault: .*gpus is 0"
    ):
        sweep(BASE, {"cluster.gpus": [0], "books.prices.transceiver": ["1 USD", "2 USD"]})


def test_a_fault_of_the_code_fails_its_point_alone(monkeypatch):
    real = sweep_chunk.plan

    def broken(spec, **options):
        if spec.cluster.gpus == 64:
            raise ZeroDivisionError("by nothing")
        return real(spec, **options)

    monkeypatch.setattr(sweep_chunk, "plan", broken)
    found = sweep(BASE, OVER)
    assert found.attrs["failed"] == dict.fromkeys((0, 1), "ZeroDivisionError: by nothing")


def test_a_killed_sweep_goes_on(tmp_path, whole, fine):
    (tmp_path / "grid.toml").write_text(TEXT + GRID)
    program = """
        from railcore.planner import sweep, sweep_grid
        sweep_grid._CHUNK_S = sweep_grid._SEARCHES_S = 0.0
        sweep("grid.toml", None, "out", progress=lambda text: print(text, flush=True))
    """
    environment = os.environ | {"PYTHONPATH": str(files.ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline().startswith("1 of 4")
        with pytest.raises(ValueError, match=r"another sweep is running in .*out: wait for it or stop it"):
            sweep(BASE, OVER, tmp_path / "out")
        running.send_signal(signal.SIGKILL)
    before = len(list((tmp_path / "out/plans").glob("part-*")))
    assert 1 <= before <= 4
    texts = []
    same(sweep(tmp_path / "grid.toml", None, tmp_path / "out", progress=texts.append), whole)
    assert texts[0] == f"{before} of 4 points are there already"
    same(stored_sweep(tmp_path / "out"), whole)
    same(pd.read_parquet(tmp_path / "out/plans"), whole)


# A part is believed only when it proves itself.


SOME_FAIL = {"cluster.gpus": [64, 0], "books.prices.transceiver": ["200 USD", "900 USD"]}  # points 2 and 3
PART = "plans/part-00000.parquet"


def from_memory(patch, planned):
    """A chunk for each point. What was planned once is not planned again."""
    real = sweeping.planned_chunk

    def remembered(*terms):
        if str(terms) not in planned:
            planned[str(terms)] = real(*terms)
        return planned[str(terms)]

    patch.setattr(sweep_grid, "_CHUNK_S", 0.0)
    patch.setattr(sweep_grid, "_SEARCHES_S", 0.0)
    patch.setattr(sweeping, "planned_chunk", remembered)
    for module in (sweeping, sweep_chunk):
        patch.setattr(module, "inputs_hash", lambda: "of this catalog")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder, planned = tmp_path_factory.mktemp("stored") / "out", {}
    with pytest.MonkeyPatch.context() as patch:
        from_memory(patch, planned)
        return folder, planned, sweep(BASE, SOME_FAIL, folder)


@pytest.fixture
def kept(tmp_path, monkeypatch, stored):
    """The folder of a stored sweep of four points, a part each."""
    from_memory(monkeypatch, stored[1])
    return shutil.copytree(stored[0], tmp_path / "out")


def test_a_chunk_that_no_worker_could_plan_is_tried_again(kept, stored, monkeypatch):
    real = sweeping._here

    def losing(*terms):
        yield from ((each, "no worker could plan it: KilledWorker") for each, _ in real(*terms))

    (kept / PART).unlink()
    monkeypatch.setattr(sweeping, "_here", losing)
    assert sweep(BASE, SOME_FAIL, kept).attrs["failed"][0] == "no worker could plan it: KilledWorker"
    assert stored_sweep(kept).attrs["missing"] == [0]
    assert pd.read_csv(kept / "failed.csv")["point"].tolist() == [0, 2, 3]
    monkeypatch.setattr(sweeping, "_here", real)
    same(sweep(BASE, SOME_FAIL, kept), stored[-1])
    assert pd.read_csv(kept / "failed.csv")["point"].tolist() == [2, 3]


def test_a_catalog_that_changes_while_the_sweep_runs_is_told(kept, monkeypatch):
    (kept / PART).unlink()
    real = sweeping.planned_chunk
    monkeypatch.setattr(sweeping, "planned_chunk", lambda *terms: real(*terms)._replace(inputs="of another catalog"))
    for out in (kept, None):
        with pytest.raises(ValueError, match=r"not those that the sweep began with, .* on a worker: put them back, or"):
            sweep(BASE, SOME_FAIL, out)
    assert stored_sweep(kept).attrs["missing"] == [0]


def test_keys_in_another_order_are_another_sweep(kept):
    with pytest.raises(ValueError, match="of the same points, with their keys in another order: give a new folder"):
        sweep(BASE, [dict(reversed(row.items())) for row in sweep_points(BASE, SOME_FAIL).rows], kept)
    assert len(stored_sweep(kept)) and not (kept / "set_aside").exists()


def test_failed_points_are_reported_once_however_the_sweep_ends(kept, monkeypatch):
    def stop(text):
        if text.startswith("4 of 4"):
            raise KeyboardInterrupt

    written, real = [], files.write_all
    monkeypatch.setattr(files, "write_all", lambda contents: (written.extend(contents), real(contents)))
    shutil.rmtree(kept / "plans")
    with pytest.raises(KeyboardInterrupt):
        sweep(BASE, SOME_FAIL, kept, progress=stop)
    assert [path.name for path in written].count("failed.csv") == 2  # removed at first
    assert pd.read_csv(kept / "failed.csv")["point"].tolist() == [2, 3]


@pytest.mark.parametrize(
    "proof", [None, {}, {"sweep": "x", "chunk": 0, "failed": []}, {"sweep": "x", "chunk": "a", "failed": {}}]
)
def test_a_hash_over_junk_proves_nothing(tmp_path, proof):
    from pyarrow import parquet, table

    path, blank = tmp_path / "part-00000.parquet", {"sha256": "0" * 64}
    if proof is None:
        path.write_text(json.dumps(blank))
    else:
        parquet.write_table(table({}).replace_schema_metadata({"railcore": json.dumps(proof | blank)}), path)
    before, after, sha256 = sweep_part._hashed(path.read_bytes())
    path.write_bytes(before + sha256 + after)
    with pytest.raises(ValueError, match=r"^part-00000\.parquet is not as railcore wrote it$"):
        read_part(path, "x")


def cut(part):
    pd.read_parquet(part)[:1].to_parquet(part, index=False)


def of_another_sweep(part):
    sweep(BASE, {"cluster.gpus": [64], "books.prices.transceiver": ["200 USD"]}, part.parents[2] / "other")
    shutil.copy(part.parents[2] / "other" / PART, part)


def folder(part):
    part.unlink()
    part.mkdir()


def truncated(part):
    part.write_bytes(part.read_bytes()[:-100])


def flipped(part):
    part.write_bytes(part.read_bytes().replace(b"rail-only", b"rail-onlz", 1))


SPOILED = [
    (cut, "part-00000.parquet is not as railcore wrote it"),
    (truncated, "part-00000.parquet is not as railcore wrote it"),
    (flipped, "part-00000.parquet is not as railcore wrote it"),
    (lambda part: os.truncate(part, 20 * 10**9), "part-00000.parquet is not as railcore wrote it"),  # sparse
    (lambda part: part.write_bytes(b""), "part-00000.parquet is not as railcore wrote it"),
    (lambda part: shutil.copy(part.with_name("part-00001.parquet"), part), "is a copy of part-00001.parquet"),
    (lambda part: part.rename(part.with_name("part-99999.parquet")), "part-99999.parquet is a copy of part-00000"),
    (of_another_sweep, "part-00000.parquet is of another sweep"),
    (folder, "part-00000.parquet is no file"),
    (lambda part: part.rename(part.with_name("mine.txt")), "mine.txt is a copy of part-00000.parquet"),
]


@pytest.mark.parametrize(("spoil", "told"), SPOILED, ids=[f"{i} {told}" for i, (_, told) in enumerate(SPOILED)])
def test_a_part_that_is_not_whole_is_named_and_planned_again(kept, stored, spoil, told):
    whole = stored[-1]
    spoil(kept / PART)
    with pytest.warns(
        UserWarning, match=rf"out/plans has 1 file that cannot be trusted: .*{told}.*; left out: the same"
    ):
        found = stored_sweep(kept)
    same(found, whole[whole["point"] > 0].reset_index(drop=True))
    assert found.attrs["missing"] == [0] and told in found.attrs["left_out"][0]
    assert found.attrs["failed"] == whole.attrs["failed"] and found.attrs["points"] == 4
    texts = []
    same(sweep(BASE, SOME_FAIL, kept, progress=texts.append), whole)
    assert told in texts[0] and "out/set_aside, and what is missing is planned again" in texts[0]
    assert texts[1] == "3 of 4 points are there already" and len(list((kept / "set_aside").iterdir())) == 1
    same(pd.read_parquet(kept / "plans"), whole)


def test_every_byte_of_a_part_counts(kept):
    sweep_hash = json.loads((kept / "sweep.json").read_text())["hash"]
    content = (kept / PART).read_bytes()
    assert read_part(kept / PART, sweep_hash).failed == {}
    for at in range(0, len(content), 499):
        (kept / PART).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(ValueError, match=r"part-00000\.parquet is not as railcore wrote it"):
            read_part(kept / PART, sweep_hash)


def test_what_was_set_aside_before_stays(kept):
    for text in ("first", "second"):
        (kept / PART).write_text(text)
        with pytest.warns(UserWarning, match="has 1 file that cannot be trusted: part-00000.parquet") as warned:
            sweep(BASE, SOME_FAIL, kept)
        assert warned[0].filename == __file__
    assert sorted(path.read_text() for path in (kept / "set_aside").iterdir()) == ["first", "second"]


def test_a_part_that_changes_while_the_sweep_runs_is_told(kept):
    (kept / "plans/part-00003.parquet").unlink()  # so that there is something left to plan
    with pytest.raises(ValueError, match=r"part-00000.parquet was changed while the sweep ran: leave the folder alone"):
        sweep(BASE, SOME_FAIL, kept, progress=lambda text: truncated(kept / PART))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "[]",
        lambda text: "",
        lambda text: text[:200],
        lambda text: "\udcff" + text,
        lambda text: "[" * 100_000,
        lambda text: text.replace('"points": 4', '"points": "4"'),
        lambda text: text.replace('"hash"', '"hush"').replace('"points_hash"', '"points"'),
    ],
    ids=["a list", "empty", "cut", "not UTF-8", "deep", "another type", "no hash"],
)
def test_a_damaged_record_of_a_sweep_is_refused(kept, spoil):
    about = kept / "sweep.json"
    about.write_bytes(spoil(about.read_text()).encode(errors="surrogateescape"))
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    for read in (stored_sweep, lambda folder: sweep(BASE, SOME_FAIL, folder)):
        with pytest.raises(ValueError, match=r"out/sweep.json is not as railcore wrote it: put back a copy"):
            read(kept)
    assert before == {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}


def test_a_sweep_of_an_earlier_railcore_is_refused(kept):
    about = json.loads((kept / "sweep.json").read_text())
    del about["hash"]
    (kept / "sweep.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"out is of an earlier railcore, .*: sweep into a new folder"):
        stored_sweep(kept)


def test_the_report_of_failed_points_is_written_and_never_read(kept, stored):
    path, failed = kept / "failed.csv", stored[-1].attrs["failed"]
    text = path.read_text()
    assert len(text.splitlines()) == 3
    for spoiled in ("point,reason\nx,y,z\n3\n", "", "\0"):
        path.write_text(spoiled)
        assert stored_sweep(kept).attrs["failed"] == failed == sweep(BASE, SOME_FAIL, kept).attrs["failed"]
        assert path.read_text() == text
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match=r"failed.csv is a folder: give a file"):
        sweep(BASE, SOME_FAIL, kept)


def test_what_a_killed_sweep_left_is_in_nobodys_way(kept):
    new = kept.parent / "new"
    for name in (".railcore-1.tmp", "plans/.railcore-2.tmp"):
        for place in (kept, new):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("half")
    (new / "plans/.railcore-2.tmp").unlink()
    (new / "plans").rmdir()
    for place in (kept, new):
        sweep(BASE, SOME_FAIL, place)
        assert not list(place.rglob("*.tmp"))
    shutil.rmtree(new / "plans")
    (new / "plans").write_text("mine")
    for read in (stored_sweep, lambda folder: sweep(BASE, SOME_FAIL, folder)):
        with pytest.raises(ValueError, match=r"new/plans: .*: a file stands where a folder is needed"):
            read(new)


def test_a_terminal_keeps_what_is_to_be_read(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "_FIRST_S", 0.01)
    monkeypatch.setenv("COLUMNS", "20")
    with progress.ProgressLine("one point of many") as tell:
        time.sleep(0.05)
        tell(progress.Lasting("two"))
    shown = "railcore: one point"
    assert capsys.readouterr().err == f"\r{shown}\r{'':<19}\rrailcore: two\n"


def test_a_folder_of_something_else_is_refused(tmp_path, monkeypatch):
    out, small = tmp_path / "out", {"cluster.gpus": [64], "books.prices.transceiver": ["200 USD"]}
    sweep(BASE, small, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="holds a sweep of other points, or another spec: give a new folder"):
        sweep(BASE, OVER, out)
    with pytest.raises(ValueError, match="holds a sweep of 0 draws in place of 20: give a new folder"):
        sweep(BASE, small, out, draws=20)
    monkeypatch.setattr(sweeping, "inputs_hash", lambda: "of another catalog")
    with pytest.raises(ValueError, match="another state of railcore's models, data or catalog: give a new folder"):
        sweep(BASE, small, out)
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"mine holds other files, such as letter.txt: give a new folder"):
        sweep(BASE, small, tmp_path / "mine")
    with pytest.raises(ValueError, match="cannot be made"):
        sweep(BASE, small, tmp_path / "mine/letter.txt/out")
    with pytest.raises(ValueError, match="folder is None: give the folder that"):
        stored_sweep(None)
    with pytest.raises(ValueError, match="holds no sweep"):
        stored_sweep(tmp_path / "mine")


def test_the_inputs_of_a_sweep_are_code_data_and_the_own_catalog(tmp_path, monkeypatch):
    before = sweep_chunk.inputs_hash()
    (tmp_path / "gpus.csv").write_text("name,parameter,value,low,high,unit,kind,source,as_of,note\n")
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    assert sweep_chunk.inputs_hash() != before


def test_draws_say_how_sure_each_point_is():
    over = {"cluster.gpus": [64], "books.prices.transceiver": ["200 USD", "900 USD"]}
    found = sweep(BASE, over, draws=40)
    assert (found["low"] <= found["cost_usd"]).all() and (found["cost_usd"] <= found["high"]).all()
    assert (found["met"] == 1).all() and np.allclose(found.groupby("point")["wins"].sum(), 1)
    alone = plan(Spec.model_validate(spec_at(64, "200 USD") | {"uncertainty": {"draws": 40}}))
    mine = found[found["point"] == 0]
    for name, low, wins in zip(mine["candidate"], mine["low"], mine["wins"], strict=True):
        assert low == alone.uncertainty.interval(name, "cost_usd")[0] and wins == alone.wins[name]
    same(found[[name for name in found if name not in ("low", "high", "met", "wins")]], sweep(BASE, over))


def test_the_winner_of_a_draw_is_the_least_and_the_first_of_equals():
    standing = {"a": np.array([1.0, 2.0, np.inf, 1.0]), "b": np.array([2.0, 1.0, np.inf, 1.0]), "c": np.full(4, 3.0)}
    standing["c"][2] = np.inf
    assert win_shares(standing, ["a", "b", "c"]) == {"a": 0.5, "b": 0.25, "c": 0.0}
    assert win_shares(standing, ["b", "a"]) == {"b": 0.5, "a": 0.25}
    assert win_shares(standing, []) == {}


@given(st.lists(st.sampled_from([0, 1, 2, 3, 5, 9]), min_size=1, max_size=40), st.integers(0, 200))
def test_chunks_hold_each_point_once(groups, draws):
    rows = [{"cluster.gpus": 8 * (1 + gpus), "books.prices.transceiver": f"{n} USD"} for n, gpus in enumerate(groups)]
    found = sweep_points(BASE, rows).chunks(draws)
    assert sorted(point for each in found for point in each.points) == list(range(len(rows)))
    assert [each.number for each in found] == list(range(len(found)))
    assert all(each.points and each.cost_s > 0 for each in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 1.5}, "workers is 1.5"),
        ({"draws": 5}, "draws is 5: give a number from 20"),
        ({"draws": True}, "draws is True"),
        ({"workers": 2, "scheduler": "tcp://127.0.0.1:1"}, "workers is 2 beside a scheduler"),
    ],
    ids=str,
)
def test_numbers_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sweep(BASE, OVER, **options)


def test_without_dask_and_pyarrow_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"a scheduler needs Dask, which is not .*: pip install 'railcore\[sweeps\]'"):
        sweep(BASE, OVER, scheduler="tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for read in (stored_sweep, lambda folder: sweep(BASE, OVER, folder)):
        with pytest.raises(ValueError, match="stored with pyarrow, which is not installed"):
            read(tmp_path / "out")


def test_a_broken_library_is_told_as_broken(monkeypatch, tmp_path):
    (tmp_path / "half_there.py").write_text("import its_other_half")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"a cake needs it, whose installation is broken .*'its_other_half'"):
        needed_library("half_there", "a cake needs it", "cakes")


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(TEXT + GRID.replace("256]", "256, 0]"))
    assert main(["sweep", "grid.toml", "--out", "out"]) == 3
    out, err = capsys.readouterr()
    assert "rows of 4 points: out/plans" in out and "2 points failed: out/failed.csv says why" in err
    assert sum(int(line.rpartition("best of ")[2].split()[0]) for line in out.splitlines() if "best of" in line) == 4
    (tmp_path / "good.toml").write_text(TEXT + GRID)
    assert main(["sweep", "good.toml", "--out", "good"]) == 0
    (tmp_path / "good/plans/mine.txt").write_text("dear")
    assert main(["sweep", "good.toml", "--out", "good"]) == 0
    assert "good/plans has 1 file that cannot be trusted: mine.txt is not as" in capsys.readouterr().err
    assert main(["sweep", "good.toml"]) == 2 and "needs a spec and --out FOLDER" in capsys.readouterr().err
    assert main(["sweep", "none.toml", "--out", "x"]) == 2 and "cannot be read" in capsys.readouterr().err
    assert main(["sweep", "--init"]) == 0
    (tmp_path / "init.toml").write_text(capsys.readouterr().out)
    assert len(sweep_points("init.toml").rows) == 15 and (tmp_path / "init.toml").read_text() == TEMPLATE
    about = json.loads((tmp_path / "good/sweep.json").read_text())
    assert about["points"] == 4 and about["keys"] == ["cluster.gpus", "books.prices.transceiver"]


def test_a_stopped_command_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("railcore.planner.sweep_command.sweep", stopped)
    assert main(["sweep", "a.toml", "--out", "out"]) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_the_example_is_a_sweep():
    found = sweep_points(files.data("sweeps/winners.toml"))
    assert len(found.rows) == 6 * 7 * 5
    Spec.model_validate(found.spec(0))


def specs_of_the_guide(page):
    text = (files.ROOT / "docs/guide" / page).read_text(encoding="utf-8")
    return re.findall(r"```toml\n(.*?)```", text, re.DOTALL)


def test_the_specs_of_the_guide_are_read():
    spec, find, site, grid = specs_of_the_guide("plan.md")
    read_spec(spec)
    read_spec(spec.replace("gpus = 12312\n", "") + find)
    for key in tomllib.loads(site)["site"]:  # it names files that are not there
        check_key(f"site.{key}")
    found = sweep_points(grid)
    assert len(found.rows) == 6 * 3 * 3 and found.rows[9]["cluster.gpus"] == 2304
    read_spec(found.spec(0))


def test_what_the_guide_adds_to_its_first_plan_is_read():
    (first,) = specs_of_the_guide("first_plan.md")
    for page in ("own_prices.md", "own_network.md"):
        assert read_spec(first + specs_of_the_guide(page)[0]) != read_spec(first), page


# Several processes.


def test_another_process_gives_the_same_rows_though_one_dies(tmp_path, whole, monkeypatch):
    """Worth its seconds: a process that imports railcore. No other user of the machine can reach it."""
    dies = f"import os, pathlib, sys; here = pathlib.Path({str(tmp_path / 'dead')!r}); "
    dies += "here.exists() or here.touch() or os.kill(os.getpid(), 9); "
    monkeypatch.setattr(sweep_processes, "_START", dies + sweep_processes._START)
    seen = []

    def look(text):
        seen.extend((len(one.net_connections()), one.is_running()) for one in psutil.Process().children())

    found = sweep(BASE, OVER, tmp_path / "two", workers=2, progress=look)
    same(found, whole)
    assert (tmp_path / "dead").exists() and seen == [(0, True)] and not psutil.Process().children()
    same(stored_sweep(tmp_path / "two"), whole)


def test_a_process_that_worked_may_die_in_any_way(monkeypatch, fine):
    lines = ["import pickle, sys", "read, write = sys.stdin.buffer, sys.stdout.buffer", "pickle.load(read)"]
    lines += ["pickle.dump('no worker could plan it: so', write)", "write.flush()", "pickle.load(read)", "sys.exit(1)"]
    monkeypatch.setattr(sweep_processes, "_START", "; ".join(lines))
    with pytest.raises(ValueError, match=r"point 0: no worker could plan it: so"):
        sweep(BASE, OVER, workers=2)


def test_a_process_ends_where_its_task_cannot_be_read(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with pytest.raises(AttributeError, match="no_such"):
        sweep_processes._take(io.BytesIO(b"cos\nno_such\n."), queue.SimpleQueue())
    assert ended == [0]


@pytest.mark.parametrize(("end", "told"), [("os.kill(os.getpid(), 9)", "signal 9"), ("os._exit(0)", "exit status 0")])
def test_a_chunk_that_three_processes_die_at_is_given_up(monkeypatch, end, told):
    monkeypatch.setattr(sweep_processes, "_START", f"import os, pickle, sys; pickle.load(sys.stdin.buffer); {end}")
    with pytest.raises(ValueError, match=rf"no worker could plan it: 3 processes died at it, the last by {told}"):
        sweep(BASE, OVER, workers=2)


def test_a_process_that_cannot_start_is_told(monkeypatch):
    monkeypatch.setattr(sweep_processes, "_START", "import sys; sys.exit(5)")
    with pytest.raises(ValueError, match=r"a process of the sweep ended with status 5.*give workers=1"):
        sweep(BASE, OVER, workers=2)


FINE = """
import sys
from railcore.__main__ import main
from railcore.planner import progress, sweep_grid
sweep_grid._CHUNK_S = sweep_grid._SEARCHES_S = 0.0
progress._FIRST_S = progress._IN_FILE_S = 0.05
sys.exit(main())
"""


def sweeping_command(folder, *options):
    """The command in a process of its own, with a chunk and a line for each point."""
    (folder / "grid.toml").write_text(TEXT + GRID.replace("64, 256", "64, 128, 256, 512"))
    command = [sys.executable, "-c", FINE, "sweep", "grid.toml", "--out", "out", *options]
    environment = os.environ | {"PYTHONPATH": str(files.ROOT)}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_stopped_leaves_no_process(number, tmp_path):
    with sweeping_command(tmp_path, "--workers", "2") as running:
        assert next(line for line in running.stderr if " of 8 points" in line)
        found = psutil.Process(running.pid).children()
        running.send_signal(number)
        _, alive = psutil.wait_procs(found, timeout=10)
        assert len(found) == 2 and not alive
        *_, last = running.stderr.read().splitlines() or [""]
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    assert last.endswith("the same command goes on") == (number == signal.SIGINT)


# A Dask cluster.


@pytest.fixture(scope="module")
def dask():
    return pytest.importorskip("distributed", reason="Dask is not installed: pip install 'railcore[sweeps]'")


@pytest.fixture(scope="module")
def cluster(dask):
    """A scheduler with two workers of one process each, and the worker's processes."""
    with dask.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as found:
        yield found


def test_a_cluster_gives_the_same_rows_though_a_worker_dies(cluster, whole, fine, tmp_path):
    killed = []

    def kill(text):
        if not killed:
            worker = next(iter(cluster.workers.values()))
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    found = sweep(BASE, OVER, tmp_path / "out", scheduler=cluster.scheduler_address, progress=kill)
    assert killed
    same(found, whole)


def test_tls_without_certificates_is_refused(dask):
    with pytest.raises(ValueError, match="takes TLS: name the certificates in Dask's settings"):
        sweep(BASE, OVER, scheduler="tls://127.0.0.1:1")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:8786", "tcp://here"])
def test_what_is_no_address_is_refused(dask, address, tmp_path):
    with pytest.raises(ValueError, match=r"is no address: give one such as 'tcp://10.0.0.1:8786'"):
        sweep(BASE, OVER, tmp_path / "out", scheduler=address)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_does_not_answer_is_told_at_once(dask, monkeypatch, tmp_path):
    monkeypatch.setattr(sweep_dask, "_CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (silent.getsockname()[1], 1):
            with pytest.raises(ValueError, match=rf"scheduler 'tcp://127.0.0.1:{port}' cannot be reached"):
                sweep(BASE, OVER, tmp_path / "out", scheduler=f"tcp://127.0.0.1:{port}")
    assert not (tmp_path / "out").exists()


def test_missing_workers_and_a_lost_scheduler_are_told(dask, monkeypatch, tmp_path, fine):
    def stop(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(BASE, OVER, tmp_path / "out", progress=stop)
    monkeypatch.setattr(sweep_dask, "_LOOK_S", 0.01)
    monkeypatch.setattr(sweep_dask, "_WORKERS_S", 0.02)
    texts = []
    with dask.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address

        def lose(text):
            texts.append(text)
            if "workers" in text:
                cluster.close()

        message = rf"'{address}' has ended, or .*: 1 of 4 points are in .*/out; the same command goes on"
        with pytest.raises(sweep_dask.SchedulerLost, match=message):
            sweep(BASE, OVER, tmp_path / "out", scheduler=address, progress=lose)
    assert texts[-1] == f"the scheduler '{address}' has no workers: start some with `dask worker {address}`"
    assert isinstance(texts[-1], progress.Lasting)


def test_a_scheduler_that_falls_silent_is_lost(monkeypatch):
    class Silent:
        status = "running"
        scheduler = SimpleNamespace(address="tcp://here:1", ncores=None)

        def submit(self, *_, **__):
            return Mock()

        def sync(self, *_, callback_timeout):
            raise TimeoutError

    monkeypatch.setattr(sweep_dask, "_LOOK_S", 0.0)
    monkeypatch.setattr(sweeping, "needed_library", lambda *_: None)
    monkeypatch.setattr(sweeping, "scheduler_client", lambda scheduler: nullcontext(Silent()))
    with pytest.raises(sweep_dask.SchedulerLost, match="no longer answers: nothing is kept; give a folder as out"):
        sweep(BASE, OVER, scheduler="tcp://here:1")


def test_a_scheduler_that_ends_while_a_chunk_is_fetched_is_lost(monkeypatch):
    client = Mock(status="running", scheduler=SimpleNamespace(address="tcp://here:1"))

    def fetch():
        client.status = "connecting"
        raise OSError("closed")

    def submit(*_, **__):
        future = Mock(cancelled=lambda: False, result=fetch)
        future.add_done_callback = lambda put: put(future)
        return future

    client.submit = submit
    monkeypatch.setattr(sweeping, "needed_library", lambda *_: None)
    monkeypatch.setattr(sweeping, "scheduler_client", lambda scheduler: nullcontext(client))
    with pytest.raises(sweep_dask.SchedulerLost, match="'tcp://here:1' has ended, or no longer answers: nothing is"):
        sweep(BASE, OVER, scheduler="tcp://here:1")


@pytest.mark.slow
def test_a_killed_scheduler_ends_the_command_in_one_line(dask, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    host, port = address.removeprefix("tcp://").split(":")
    command = [sys.executable, "-m", "dask"]
    options = {"env": os.environ | {"PYTHONPATH": str(files.ROOT)}, "stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen([*command, "scheduler", "--host", host, "--port", port, "--no-dashboard"], **options) as first,
        subprocess.Popen([*command, "worker", address, "--no-nanny", "--no-dashboard"], **options) as worker,
    ):
        try:
            for _ in range(100):
                with suppress(ValueError), sweep_dask.scheduler_client(address):
                    break
            with sweeping_command(tmp_path, "--scheduler", address) as running:
                assert next(line for line in running.stderr if " of 8 points" in line)
                first.kill()
                *before, last = running.stderr.read().splitlines()
        finally:
            first.kill()
            worker.kill()
    assert running.returncode == 4 and all(" of 8 points" in line for line in before)
    assert re.fullmatch(rf"railcore: the scheduler '{address}' has ended.* of 8 points are in out; the same .*", last)
