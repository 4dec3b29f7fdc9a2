"""Software as a choice: the runtime of a platform and date, and the band that other runtimes make."""

import pytest

from railcore.training.parallelism import Strategy
from railcore.training.runs import software_times
from railcore.training.runtime import catalog_runtime
from railcore.training.software import runtime_of

PLAN = Strategy(4, 1, 8, 2, interleave=5, sequence_parallel=True, sharding="optimizer")


def test_the_newest_runtime_that_a_date_has():
    assert runtime_of("DGX H100", "2021-04").name == "megatron2021"
    assert runtime_of("GB200 NVL72", "2025-10").name == "megatron-bridge2025"
    assert runtime_of("GB200 NVL72", "2031-01").name == "megatron-bridge2026"
    assert runtime_of("MI300X full mesh", "2026-01").name == "nemo2025-rocm"


@pytest.mark.parametrize(
    ("platform", "released", "message"),
    [
        ("DGX H100", "2025", "released is '2025': give year and month, from 2000-01 on"),
        ("DGX H100", "2025-13", "released is '2025-13'"),
        ("DGX H100", "2020-01", "the first runtime for GPUs of NVIDIA is of 2021-04"),
        ("MI300X full mesh", "2024-01", "the first runtime for GPUs of AMD is of"),
    ],
)
def test_a_date_that_has_no_runtime_is_refused(platform, released, message):
    with pytest.raises(ValueError, match=message):
        runtime_of(platform, released)


def test_other_software_makes_a_band():
    table = software_times("Llama-3 70B", "DGX H100", PLAN, 128)
    assert table["iteration_s"].is_monotonic_increasing and table["over_best"].iloc[0] == 1
    assert {"megatron2021", "megatron-bridge2026"} <= set(table["runtime"]) and "nemo2025-rocm" not in set(
        table["runtime"]
    )
    assert table.set_index("runtime")["over_best"]["megatron2021"] > 1.3
    two = software_times("Llama-3 70B", "DGX H100", PLAN, 128, ["modern", "deepspeed"])
    assert set(two["runtime"]) == {"modern", "deepspeed"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("gradient_bytes,2.5,,,B", "gradient_bytes of mine is 2.5: give whole numbers"),
        ("overlap_data,0.5,,,1", "overlap_data of mine is 0.5: give one of 0, 1"),
        ("recompute_modules,mlp moo,,,name", "recompute_modules is 'moo': give one of core_attn"),
        ("graphs,part,,,name", "graphs is 'part': give one of none, parts, whole"),
    ],
)
def test_a_runtime_of_ones_own_with_a_value_of_no_use_is_refused(tmp_path, monkeypatch, rows, message):
    written(tmp_path, monkeypatch, rows)
    with pytest.raises(ValueError, match=message):
        catalog_runtime("mine")


@pytest.mark.parametrize(
    ("maker", "since", "message"),
    [("Nvidia", "2025-09", "maker of runtime mine is 'Nvidia'"), ("NVIDIA", "2025-9", "since of runtime mine is")],
)
def test_a_runtime_of_ones_own_that_no_date_would_find_is_refused(tmp_path, monkeypatch, maker, since, message):
    written(tmp_path, monkeypatch, f"maker,{maker},,,name", f"since,{since},,,name")
    with pytest.raises(ValueError, match=message):
        runtime_of("DGX H100", "2026-01")


def written(folder, monkeypatch, *rows):
    head = "name,parameter,value,low,high,unit,kind,source,as_of,note"
    lines = [head, *(f"mine,{row},paper,a report of mine,2025," for row in rows)]
    (folder / "runtimes.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("RAILCORE_CATALOG", str(folder))
