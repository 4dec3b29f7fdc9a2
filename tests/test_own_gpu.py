"""A GPU of one's own: its script, what is read of others' tools, the rows that follow, and plans that they lie over."""

import dataclasses
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import railcore as rc
from railcore import catalog
from railcore.__main__ import main
from railcore.catalog import files, tables
from railcore.catalog.own_file import own_file_rows
from railcore.planner.sweep_folder import opened
from railcore.planner.sweep_grid import sweep_points
from railcore.training import gpu_script, measuring
from railcore.training.machine import catalog_machine
from railcore.training.measured_collectives import measured_collective_time
from railcore.training.measured_files import read_measurement
from railcore.training.measured_parts import timed_parts
from railcore.training.nccl_logs import read_nccl_log
from railcore.training.own_gpu import Measurement, amount_behind, own_rows, share_behind
from railcore.training.simumax_files import simumax_times

PARTS = pd.read_csv(files.data("measured/gpu_parts.csv"))
COLLECTIVES = pd.read_csv(files.ROOT / "data/measured/collectives.csv")
TINY = {
    "model": "tiny",
    "tokens": 32,
    "hidden": 64,
    "ffn": 128,
    "vocabulary": 128,
    "products": [["linear_qkv", 96, 64], ["linear_fc1", 128, 64]],
    "experts": [[2, 16, 32, 64]],
    "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16, "value_dim": 16, "sequence": 32},
}
PLAN = """[cluster]
platform = "DGX H100"
gpus = 64
{}
[job]
model = "Llama-3 8B"
tokens = 1e12
batch = 128
search = {{context = 1, micro_batch = 1}}
[network]
candidates = ["rail-only"]
[uncertainty]
draws = 20
"""


def rows_of(platform, **tables_of):
    """Rows by parameter of what was measured."""
    return {
        row["parameter"]: row for row in own_rows(platform, [Measurement("a.csv", "", "ours", "", **tables_of)]).rows
    }


def value(row):
    return float(row["value"])


# Solving


@given(st.floats(0.05, 1.0), st.floats(0.0, 0.3), st.floats(0.3, 0.9))
def test_a_share_is_that_of_the_time_that_it_gives(share, rest, usual):
    def time_at(x):
        return 1 / x + rest

    assert share_behind(time_at, time_at(share), usual) == pytest.approx(share, rel=1e-6)
    assert math.isinf(share_behind(time_at, time_at(1.0) / 1.01, usual))


def test_a_time_that_the_share_does_not_limit_says_nothing_of_it():
    assert math.isnan(share_behind(lambda x: max(1 / x, 10.0), 11.0, 0.5))
    assert math.isnan(share_behind(lambda x: 1 / x, 1e9, 0.5))
    assert amount_behind(lambda x: 2 + 3 * x, 11.0, 1.0) == pytest.approx(3.0)
    assert amount_behind(lambda x: 2 + 3 * x, 1.0, 1.0) == 0.0 and math.isnan(amount_behind(lambda x: 2.0, 3.0, 1.0))


OTHER = {  # of a card that is not the catalog's, by row, with the machine's fields
    "memory_fraction": (0.81, ("memory_fraction", "cast_fraction")),
    "matmul_sustained_bf16": (0.61, ("linear_fraction", "bf16_fraction")),
    "matmul_full_clock_bf16": (0.78, ("linear_full_clock", "bf16_full_clock")),
    "norm_share": (0.7, ("norm_share",)),
    "norm_backward_share": (0.5, ("norm_backward_share",)),
    "activation_backward_share": (0.9, ("activation_backward_share",)),
    "loss_share": (0.5, ("loss_share",)),
    "adam_extra_bytes": (2.5, ("adam_extra_bytes",)),
    "attention_fraction_flash2": (0.25, ()),
    "attention_fraction_cudnn": (0.41, ()),
    "attention_fraction": (0.41, ("attention_fraction",)),
}
KINDS = ("product", "product_between_copies", "attention", "elementwise", "adamw")


def other_card():
    """The table of parts as the model has it of another card."""
    changes = {field: number for number, fields in OTHER.values() for field in fields}
    kernels = (("flash2", 0.25), ("cudnn", 0.41))
    card = catalog_machine("DGX H100").changed(**changes, attention_kernels=kernels, attention_shapes=())
    ordinary = (PARTS["kind"] != "attention") | ((PARTS["head_dim"] == 128) & (PARTS["value_dim"] == 128))
    table = PARTS[PARTS["kind"].isin(KINDS) & ordinary]
    more = pd.DataFrame(
        [
            {"kind": "copy", "name": "bf16", "n": 2**28, "forward_s": 1.0},
            {"kind": "loss", "name": "both passes", "m": 8192, "n": 128256, "forward_s": 1.0},
        ]
    )
    table = pd.concat([table, more], ignore_index=True)
    for part in timed_parts(table):
        table.loc[part.row.Index, part.column] = part.modelled_s(card)
    return table


def test_every_row_is_that_of_the_card_whose_times_are_given():
    found = rows_of("DGX H100", parts=other_card())
    assert set(found) == set(OTHER)
    for parameter, (number, _) in OTHER.items():
        assert value(found[parameter]) == pytest.approx(number, rel=0.006), parameter
    assert found["matmul_sustained_bf16"]["low"] and found["memory_fraction"]["low"] == ""


def test_the_catalogs_own_measurements_give_the_catalogs_rows():
    some = PARTS[(PARTS["kind"] != "product") | (PARTS.index % 4 == 0)]
    measured = own_rows("DGX H100", [Measurement("a.csv", "NVIDIA H100", "", "", parts=some)])
    found, shares = {row["parameter"]: row for row in measured.rows}, catalog.item("efficiencies", "H100")
    common = catalog.item("efficiencies", "all")
    assert len(found) >= 12
    for parameter, row in found.items():
        stored = shares.get(parameter, common.get(parameter))
        assert value(row) == pytest.approx(stored, rel=0.04), parameter
    errors = measured.errors.set_index("kind")
    assert errors.loc["attention", "times"] == 42 and (errors.loc[["product", "attention"], "mean_error"] < 0.03).all()


@pytest.mark.parametrize(("gpu", "platform"), [("A100", "DGX A100"), ("H100", "DGX H100"), ("B200", "DGX B200")])
def test_measured_collectives_give_the_catalogs_rows(gpu, platform):
    of_gpu = COLLECTIVES[COLLECTIVES["gpu"] == gpu]
    table = of_gpu.assign(hosts=1, message_bytes=2.0 * of_gpu["message"])
    found, stored = rows_of(platform, collectives=table), catalog.item("efficiencies", gpu)
    assert {"hb_fraction", "all_to_all_share", "domain_call_latency"} <= set(found)
    assert ("multicast_share" in found) == (gpu != "A100")
    for parameter, row in found.items():
        scale = 1e-6 if row["unit"] == "us" else 1.0
        usual = stored.get(parameter, catalog.item("efficiencies", "all").get(parameter))
        assert scale * value(row) == pytest.approx(usual, rel=0.1), parameter


def test_a_group_of_several_domains_says_the_share_of_the_nic():
    box = catalog_machine("DGX H100").changed(nic_fraction=0.8)
    seconds = [measured_collective_time(box, "all_gather", size, 8, 4) for size in (2.0**29, 2.0**31)]
    table = pd.DataFrame({"collective": "all_gather", "gpus": 32, "hosts": 4, "message_bytes": [2.0**29, 2.0**31]})
    found = rows_of("DGX H100", collectives=table.assign(seconds=seconds))
    assert set(found) == {"nic_fraction"} and value(found["nic_fraction"]) == pytest.approx(0.8, abs=0.002)
    with pytest.raises(ValueError, match="32 GPUs on 3 hosts"):
        rows_of("DGX H100", collectives=table.assign(seconds=seconds, hosts=3))


def test_what_cannot_be_is_refused_and_what_is_odd_is_told():
    table = other_card()
    fast = table.assign(**{column: table[column] / 3 for column in gpu_script.TIMES})
    with pytest.raises(ValueError, match="shorter than with a matmul_sustained_bf16 of 1"):
        rows_of("DGX H100", parts=fast[fast["kind"] == "product"])
    with pytest.raises(ValueError, match="measured on 'NVIDIA A100-SXM4-80GB', and DGX H100 has H100"):
        own_rows("DGX H100", [Measurement("a.csv", "NVIDIA A100-SXM4-80GB", "", "", parts=table)])
    slow = table[table["kind"] == "copy"].assign(forward_s=2e-3)
    warned = own_rows("DGX H100", [Measurement("a.csv", "", "", "", parts=slow)]).warnings
    assert len(warned) == 1 and warned[0].startswith("memory_fraction is 0.16")
    with pytest.raises(ValueError, match="no time says anything of H100"):
        rows_of("DGX H100", parts=table[:0])


# Files of other tools

TIMED = "time   algbw   busbw  #wrong"
HEAD = """# nccl-tests version 2.17.9 nccl-headers=22903 nccl-library=22903
# Collective test starting: {program}
# Using devices
{ranks}
#
#       size         count      type   redop    root     {timed}     {timed}
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
ROW = "  {size}  268435456  float  sum  -1  {time}   98.44  184.57       0  11220.1   95.70  179.43       0\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 184.6\n"


def log(program="all_gather_perf", gpus=16, hosts=2, rows=((2**30, 5000.5), (2**31, 9876.0))):
    rank = "#  Rank {0:2} Group  0 Pid {0:6} on node-{1} device {2:2} [0000:0f:00] NVIDIA H100 80GB HBM3"
    ranks = "\n".join(rank.format(each, each * hosts // gpus, each % 8) for each in range(gpus))
    text = HEAD.format(program=program, ranks=ranks, timed=TIMED) + "".join(
        ROW.format(size=size, time=time) for size, time in rows
    )
    return text + END


def as_json(program="all_gather_perf", key="time", wrong=0.0):
    devices = [{"rank": each, "hostname": f"node-{each // 8}", "device_info": "NVIDIA H100"} for each in range(16)]
    rows = [{"size": 2**30, "out_of_place": {key: 5000.5, "nwrong": wrong}, "in_place": {key: 5100.0, "nwrong": wrong}}]
    about = {"version": 2, "start_time": "2026-11-20 10:00:00", "args": [f"./build/{program}"], "nccl_version": 22903}
    return json.dumps({**about, "config": {"devices": devices}, "results": rows})


def test_a_log_of_nccl_tests_is_read_as_text_and_as_json():
    text = read_nccl_log(log(), "x.log")
    assert text[:5] == ("all_gather", 16, 2, "NVIDIA H100 80GB HBM3", "")
    assert text.times.to_numpy().tolist() == [[2.0**30, pytest.approx(5000.5e-6)], [2.0**31, pytest.approx(9876e-6)]]
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in log().splitlines())
    assert read_nccl_log(tagged, "x.log").times.equals(text.times)
    document = read_nccl_log(as_json(), "x.json")
    assert document[:3] == text[:3] and document.date == "2026-11-20"
    assert document.times.to_numpy().tolist() == [[2.0**30, pytest.approx(5000.5e-6)]]
    old = (
        log()
        .replace("# Collective test starting: all_gather_perf\n", "")
        .replace("    root", "")
        .replace("  -1  ", "  ")
    )
    assert read_nccl_log(old, "all_gather_perf.txt").times.equals(text.times)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "is no log of nccl-tests"),
        (log("sendrecv_perf"), "is of sendrecv_perf: give a log of all_reduce_perf"),
        (log().replace("    time", "cputime"), "times of the CPU"),
        (log().replace("5000.5   98.44  184.57       0", "5000.5   98.44  184.57       7"), "line 23: 7 wrong results"),
        (log().replace("values : 0 OK", "values : 3 FAILED"), "wrong results .Out of bounds values : 3"),
        (log()[: log().index("9876")], "line 24 has 5 cells of 13: is the log cut"),
        (log().replace("9876.0", "abc"), "time 'abc'"),
        (log().replace("#  Rank  5", "#  Rnk   5"), "lists 15 of 16 ranks"),
        (log(gpus=1, hosts=1), "is of one GPU"),
        (log(rows=()), "a row without a time, or none"),
        (
            log().split("# Using")[0]
            + HEAD.partition("{ranks}")[2].replace("{timed}", TIMED)
            + ROW.format(size=8, time=9),
            "no list of devices",
        ),
        (as_json("hypercube_perf"), "is of hypercube_perf"),
        (as_json(key="cpu_time"), "result 1 has times of the CPU"),
        (as_json(wrong=2.0), "2 wrong results"),
        (as_json()[:-30], "is no JSON"),
        ('{"results": 1}', "has no config and results"),
    ],
)
def test_a_log_that_says_nothing_sure_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        read_nccl_log(text, "x.log")


def simumax(**operators):
    return {"sys_name": "ours", "accelerator": {"op": operators}}


def shares(tflops, **by_shape):
    return {"tflops": tflops, "efficient_factor": 0.5, "accurate_efficient_factor": by_shape}


SHAPE = "b=1, m=4096, k=8192, n=10240, layout=TN, accumulate=False, out_dtype=bf16"
SDP = "batch=2, seq_len=4096, head_num=32, kv_head_num=8, qk_head_dim=128, v_head_dim=128, qkv_contiguous=True"


def test_simumax_says_times_whatever_peak_stands_beside_its_shares():
    added = SHAPE.replace("False", "True").replace("out_dtype=bf16", "out_dtype=fp32")
    one, other = (
        simumax_times(
            simumax(
                matmul=shares(peak, **{SHAPE: 600 / peak, added: 0.1}),
                sdp_fwd=shares(peak, **{SDP: 800 / peak}),
                sdp_bwd=shares(peak, **{SDP: 500 / peak}),
            ),
            "s.json",
        )
        for peak in (1000, 2000)
    )
    pd.testing.assert_frame_equal(one, other)
    assert one["kind"].tolist() == ["product", "attention", "attention"]
    pairs = 2 * 4096**2 * 32 * 256
    wanted = [2 * 4096 * 8192 * 10240 / 600e12, 2 * pairs / 800e12, 5 * pairs / 500e12]
    assert [*one["forward_s"].dropna(), *one["backward_s"].dropna()] == pytest.approx(wanted)


def test_shares_of_simumax_become_rows(tmp_path):
    box = catalog_machine("DGX H100").changed(linear_fraction=0.66, bf16_fraction=0.66)
    table = pd.DataFrame([{"kind": "product", "name": "", "m": 4096, "n": 10240, "k": 8192, "forward_s": 1.0}])
    (part,) = timed_parts(table)
    reached = 2 * 4096 * 10240 * 8192 / part.modelled_s(box) / 1e12
    (tmp_path / "s.json").write_text(json.dumps(simumax(matmul=shares(989, **{SHAPE: reached / 989}))))
    (row,) = own_rows("DGX H100", [read_measurement(tmp_path / "s.json")]).rows
    assert (row["parameter"], value(row)) == ("matmul_sustained_bf16", pytest.approx(0.66, abs=0.001))
    assert "SimuMax (sys_name ours)" in row["source"]


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ({"matmul": {"tflops": 989, "efficient_factor": 0.7}}, "typed, not measured"),
        ({"matmul": shares(989, **{SHAPE: "fast"})}, "share 'fast' of 989"),
        ({"matmul": shares(989, **{SHAPE: 0})}, "gives no time"),
        ({"matmul": shares(989, **{SHAPE.replace("m=4096", "m=many"): 0.5})}, "m is 'many'"),
    ],
)
def test_a_system_file_without_measured_shapes_is_refused(operators, message):
    with pytest.raises(ValueError, match=message):
        simumax_times(simumax(**operators), "s.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"\xff\xfe", "is no text in UTF-8"),
        (b'{"a": 1}', "is no CSV of the script"),
        (b"gpu,setup,date,kind,n\n", "has no rows"),
        (b"gpu,setup,date,kind,n,forward_s\nH100,,,copy,4,fast\n", "line 2, forward_s: 'fast' is no number above 0"),
        (b"gpu,setup,date,kind,n,forward_s\nH100,,,copy,4,-1\n", "line 2, forward_s: '-1' is no number above 0"),
        (b"gpu,setup,date,kind,n,forward_s\nH100,,,copy\n", "line 2 has other columns"),
        (b"gpu,setup,date,kind,n,forward_s\nH100,,,copy,4,1\nA100,,,copy,4,1\n", "is of A100 and H100"),
    ],
)
def test_a_file_that_is_none_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_measurement(tmp_path / "a.csv")


# The script


class FakeClock(gpu_script.Clock):
    """A clock of work that says how long it takes."""

    def __init__(self):
        super().__init__(lambda work, repeats: repeats * work(), lambda work, other, repeats: repeats * work())


def part(kind="product", needs=1.0, seconds=1e-3, **options):
    return gpu_script.Part(kind, "a", {"m": 1}, needs, lambda: {"forward_s": lambda: seconds}, **options)


def test_parts_are_timed_left_out_and_written(tmp_path):
    def broken():
        raise RuntimeError("no such kernel\nmore")

    said, cleaned = [], []
    parts = [part(), part("attention", needs=1e12), part("loss", between=True), part("adamw")]
    parts[3].make = broken
    rows = gpu_script.measured(
        parts, FakeClock(), 0.0, said.append, lambda seconds: lambda: None, 1e10, lambda: cleaned.append(1)
    )
    assert [row["kind"] for row in rows] == ["product", "loss"] and len(said) == 4 and len(cleaned) == 3
    assert "it needs 1000 GB and 10 GB are free" in said[1] and said[3].endswith("RuntimeError: no such kernel")
    assert float(rows[0]["forward_s"]) == pytest.approx(1e-3)
    gpu_script.write_times(tmp_path / "p.csv", gpu_script.times_text(rows))
    assert [row["forward_s"] for row in tables.read_csv(tmp_path / "p.csv")] == ["0.001", "0.001"]
    assert os.listdir(tmp_path) == ["p.csv"]


def test_the_time_of_another_work_is_taken_off():
    works = {"forward_s": lambda: 1.0, "backward_s": lambda: 3.5}
    whole = gpu_script.Part("attention", "flash", {}, 0, lambda: works, less={"backward_s": "forward_s"})
    (row,) = gpu_script.measured([whole], FakeClock(), 0.0, lambda text: None, lambda seconds: lambda: None, 1e9)
    assert (row["forward_s"], row["backward_s"]) == ("1", "2.5")


def test_a_gpu_in_use_is_refused():
    gpu_script.check_free([], 1e9)
    with pytest.raises(gpu_script.Refused, match=r"in use by 1 program\(s\), .*4242"):
        gpu_script.check_free(["GPU-1, 4242, 900 MiB"], 0.0)
    with pytest.raises(gpu_script.Refused, match=r"30\.0 GB of the GPU's memory are in use"):
        gpu_script.check_free([], 30e9)


def test_what_was_stopped_leaves_nothing(tmp_path, monkeypatch, capsys):
    def stopped(*terms):
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_script, "time_gpu", stopped)
    assert gpu_script.main(["--out", str(tmp_path / "p.csv")]) == 130
    assert main(["measure", "run", "--out", str(tmp_path / "p.csv")]) == 130
    assert "nothing was written" in capsys.readouterr().err and not os.listdir(tmp_path)
    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        gpu_script.write_times(tmp_path / "p.csv", "a")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", "nan"], "--seconds is nan"),
        (["--device", "tpu"], "--device is 'tpu'"),
        (["--out", "{folder}"], "is there already"),
        (["--out", "{folder}/none/p.csv"], "cannot be written to"),
    ],
)
def test_the_script_refuses_before_it_begins(options, message, tmp_path, capsys):
    words = [word.replace("{folder}", str(tmp_path)) for word in options]
    assert gpu_script.main(["--out", str(tmp_path / "p.csv"), *words]) == 2
    assert message in capsys.readouterr().err and not os.listdir(tmp_path)


@pytest.mark.parametrize(("model", "tensor"), [("Llama-3 8B", 2), ("DeepSeek-V3", 1), ("Mixtral 8x7B", 4)])
def test_the_script_has_a_models_sizes_and_imports_nothing_of_railcore(model, tensor, monkeypatch):
    text = measuring.measure_script(model, tensor, 4096)
    names = {"__name__": "script"}
    monkeypatch.setitem(sys.modules, "script", sys)  # where its dataclasses look
    exec(compile(text, "script", "exec"), names)
    assert names["JOB"] == measuring.measured_job(model, tensor, 4096) and names["JOB"]["model"] == model
    assert "import railcore" not in text and "from railcore" not in text
    sizes = rc.catalog_model(model)
    columns = sum(n for _, n, k in names["JOB"]["products"] if k == sizes.hidden)
    assert columns > 0 and (names["JOB"]["experts"] != []) == (sizes.experts > 0)
    assert set(gpu_script.COLUMNS) >= set(PARTS.columns)


def test_ranks_and_tokens_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="--tensor is 3"):
        measuring.measured_job("Llama-3 8B", 3)
    with pytest.raises(ValueError, match="--tokens is 0"):
        measuring.measured_job("Llama-3 8B", 1, 0)


def torch_python():
    """An interpreter that has PyTorch: of RAILCORE_TORCH_PYTHON, or this one; "" for none."""
    return os.environ.get("RAILCORE_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else "")


@pytest.mark.skipif(not torch_python(), reason="no PyTorch: name a Python that has it in RAILCORE_TORCH_PYTHON")
def test_the_script_runs_on_a_cpu_and_its_times_are_read(tmp_path):
    """It takes 6 s: PyTorch is imported, and small parts are timed."""
    script = Path(gpu_script.__file__).read_text()
    job = f"JOB: dict[str, Any] = {json.dumps(TINY, indent=4)}"
    (tmp_path / "m.py").write_text(measuring._JOB.sub(lambda _: job, script, count=1))
    words = [torch_python(), "m.py", "--device", "cpu", "--seconds", "1", "--out", "p.csv"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    measured = read_measurement(tmp_path / "p.csv")
    kinds = {"copy", "product", "product_between_copies", "attention", "elementwise", "loss", "adamw"}
    assert measured.card == "CPU" and kinds <= set(measured.parts["kind"])
    for each in timed_parts(measured.parts):
        assert each.measured_s > 0 and each.modelled_s(catalog_machine("DGX H100")) > 0
    assert sorted(os.listdir(tmp_path)) == ["m.py", "p.csv"]


# Plans over one's own rows


def own_csv(path, share="0.5", gpu="H100", parameter="matmul_sustained_bf16"):
    row = {"name": gpu, "parameter": parameter, "value": share, "unit": "1", "kind": "measured", "source": "ours"}
    path.write_text(tables.csv_text(catalog.COLUMNS, [dict.fromkeys(catalog.COLUMNS, "") | row]))
    return path


def test_a_plan_takes_the_rows_and_no_other_plan_does(tmp_path):
    own_csv(tmp_path / "my_gpu.csv")
    (tmp_path / "a.toml").write_text(PLAN.format('measured = "my_gpu.csv"'))
    own, usual = rc.plan(tmp_path / "a.toml"), rc.plan(PLAN.format(""))
    assert own.case.machine.rates.bf16_fraction == 0.5 and usual.case.machine.rates.bf16_fraction == 0.725
    assert own.best.numbers["days"] > 1.1 * usual.best.numbers["days"]
    for planned, kind in ((own, "measured"), (usual, "derived")):  # asked after both were planned
        rows = planned.sources[planned.sources["parameter"] == "matmul_sustained_bf16"]
        assert set(rows["kind"]) == {kind} and len(rows)
    name = own.best.name
    ends = zip(own.uncertainty.interval(name, "days"), usual.uncertainty.interval(name, "days"), strict=True)
    assert all(mine > 1.1 * other for mine, other in ends)  # drawn about its own rows
    shown = own.defaults.set_index("key").loc["cluster.measured", "value"]
    assert shown["file"] == "my_gpu.csv" and "my_gpu.csv" in json.dumps(own.document(False), default=str)
    assert catalog.item("efficiencies", "H100")["matmul_sustained_bf16"] == 0.725


def test_the_same_file_in_a_folder_of_ones_own_is_the_same_machine(tmp_path, monkeypatch):
    path = own_csv(tmp_path / "efficiencies.csv", "0.51")
    with catalog.laid_over(own_file_rows(path.read_text(), path.name)):
        laid = catalog_machine("DGX H100")
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    assert dataclasses.asdict(catalog_machine("DGX H100").rates) == dataclasses.asdict(laid.rates)
    assert laid.rates.bf16_fraction == 0.51


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": "1.2"}, "line 2, H100 matmul_sustained_bf16, value is 1.2: give a share above 0"),
        ({"share": "fast"}, "line 2, H100 matmul_sustained_bf16: column 'value': 'fast' is no finite number"),
        ({"parameter": "matmul_sustaned"}, "unknown parameter"),
        ({"gpu": "H9"}, "no GPU of the catalog has this name"),
        ({"gpu": "B200"}, "has rows of B200, and DGX H100 has H100"),
    ],
)
def test_a_bad_file_is_refused_by_its_key(options, message, tmp_path):
    own_csv(tmp_path / "my_gpu.csv", **options)
    (tmp_path / "a.toml").write_text(PLAN.format('measured = "my_gpu.csv"'))
    with pytest.raises(ValueError, match=rf"cluster\.measured: .*my_gpu\.csv.*{message}"):
        rc.plan(tmp_path / "a.toml")
    with pytest.raises(ValueError, match=r"cluster\.measured: .*none\.csv does not exist"):
        rc.plan(PLAN.format('measured = "none.csv"'))


def test_a_sweep_takes_files_and_is_another_one_when_they_change(tmp_path):
    spec = {"cluster": {"platform": "DGX H100", "gpus": 64}, "job": {"model": "Llama-3 8B"}}
    path = own_csv(tmp_path / "my_gpu.csv")
    over = {"cluster.measured": [str(path)]}
    points = sweep_points(spec, over)
    assert points.table()["cluster.measured"].tolist() == ["my_gpu.csv"]
    assert points.spec(0)["cluster"]["measured"]["text"] == path.read_text()
    with opened(tmp_path / "out", points, [], 0, "inputs"):
        pass
    own_csv(path, "0.6")
    with (
        pytest.raises(ValueError, match="holds a sweep of other points"),
        opened(tmp_path / "out", sweep_points(spec, over), [], 0, "inputs"),
    ):
        pass


def test_the_command_turns_files_into_a_spec_that_plans(tmp_path, capsys):
    table = other_card().drop(columns="gpu")
    table = table[table["kind"].isin(("copy", "attention", "elementwise")) | (table["m"] == 16384) | (table.index < 9)]
    table = table.assign(gpu="NVIDIA H100 80GB HBM3", setup="PyTorch 2.11", date="2026-11-28")
    table[[*gpu_script.COLUMNS]].to_csv(tmp_path / "parts.csv", index=False)
    (tmp_path / "all_gather.log").write_text(log(gpus=8, hosts=1, rows=((2**30, 2700.0),)))
    target = tmp_path / "my_gpu.csv"
    words = ["measure", "read", str(tmp_path / "parts.csv"), str(tmp_path / "all_gather.log"), "--platform", "dgx h100"]
    assert main([*words, "--write", words[2]]) == 2
    assert "--write would write over parts.csv, which was read: give another place" in capsys.readouterr().err
    assert main([*words, "--write", str(target)]) == 0
    said = capsys.readouterr()
    assert "matmul_sustained_bf16" in said.out and '[cluster] measured = "my_gpu.csv"' in said.out
    assert "product: the model is off by 0." in said.err
    rows = {row["parameter"]: row for row in tables.read_csv(target)}
    assert {"memory_fraction", "attention_fraction", "hb_fraction"} < set(rows) and rows["hb_fraction"]["as_of"] == ""
    assert rows["memory_fraction"]["source"] == "railcore measure on one NVIDIA H100 80GB HBM3, PyTorch 2.11"
    assert "node-0" not in target.read_text()
    assert main(words) == 0 and capsys.readouterr().out == target.read_text()
    assert len(own_file_rows(target.read_text(), "my_gpu.csv")) == len(rows)
    assert main([*words[:-1], "DGX B200"]) == 2
