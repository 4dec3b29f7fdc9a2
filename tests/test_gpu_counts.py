"""Numbers of GPUs and batches on which a job divides: held to searches of each number, one by one."""

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_search import A100, DENSE, MIXTURE, random_at_most

from railcore.strategies.gpu_counts import Batches, job_sizes, near_batches
from railcore.strategies.parts import search
from railcore.training.machine import catalog_machine

KEY = ["gpus", "hb_domain_size", "global_batch"]
BOX = A100.changed(hb_domain_size=6)


def fastest(model, box, row, batch, **limits):
    """The fastest strategy on exactly the GPUs of a row: seconds per sequence."""
    used = box.changed(hb_domain_size=int(min(row.hb_domain_size, row.gpus)))
    return search(model, used, int(row.gpus), batch, top=1, only_best=True, **limits).best["sequence_s"].min()


# GPUs


@pytest.mark.parametrize("seed", range(8))
def test_a_search_on_the_first_numbers_is_within_twice_one_of_all_numbers(seed):
    """Jobs of under a millisecond, with odd numbers: a first round leaves out few data ranks and parts of domains."""
    model, gpu, gpus, batch, runtime = random_at_most(seed)
    batch = batch if isinstance(batch, int) else max(batch)
    found = job_sizes(model, gpu, gpus, batch, runtime)
    best = search(model, gpu, gpus, batch, runtime, top=1, only_best=True, at_most=True).best["sequence_s"].min()
    first = fastest(model, gpu, found.iloc[0], batch, runtime=runtime)
    assert best * (1 - 1e-12) <= first <= 2 * best  # nothing that all jobs pay once an iteration evens them out
    assert first <= found["sequence_s"][0] * (1 + 1e-12) and (found["gpus"] <= gpus).all()


@pytest.mark.parametrize(
    ("model", "platform", "gpus", "batch"),
    [
        ("Llama-3 8B", "DGX H100", 104, 512),
        ("Llama-3 8B", "GB200 NVL72", 144, 512),
        ("Llama-3 70B", "DGX H100", 200, 500),
        ("MoE-1.3B", "DGX H100", 120, 512),
    ],
)
def test_the_first_numbers_are_those_of_the_best_of_all(model, platform, gpus, batch):
    box, numbers = catalog_machine(platform), ["gpus", "hb_domain_size"]
    found = job_sizes(model, box, gpus, batch).iloc[0]
    best = search(model, box, gpus, batch, top=1, only_best=True, at_most=True).best.iloc[0]
    assert found[numbers].tolist() == best[numbers].tolist()
    assert fastest(model, box, found, batch) == pytest.approx(best["sequence_s"])


@pytest.mark.parametrize(
    ("model", "platform", "gpus"), [("Llama-3 8B", "DGX H100", 104), ("Llama-3 8B", "GB200 NVL72", 144)]
)
def test_any_batch_within_a_tenth_is_as_good_as_all_of_them_searched(model, platform, gpus):
    box, batches = catalog_machine(platform), Batches.near(250.0)
    limits = {"context": 1, "micro_batch": 1}
    found = job_sizes(model, box, gpus, 250.0, **limits).iloc[0]
    assert batches.low <= found["global_batch"] <= batches.high
    every = list(range(batches.low, batches.high + 1))
    best = search(model, box, gpus, every, top=1, only_best=True, at_most=True, **limits).best["sequence_s"].min()
    first = fastest(model, box, found, int(found["global_batch"]), **limits)
    assert best * (1 - 1e-12) <= first <= 1.02 * best


@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=["dense", "mixture"])
def test_no_row_is_faster_than_a_whole_search_on_its_numbers(model):
    found = job_sizes(model, BOX, 26, 28.0)
    assert found["sequence_s"].is_monotonic_increasing and not found.duplicated(KEY).any()
    assert {4, 6} == set(found["hb_domain_size"]) and found["global_batch"].between(26, 30).all()
    for row in found.head(12).itertuples():
        usable = 26 if row.hb_domain_size == 6 else 26 // 6 * 4
        assert row.gpus <= usable
        whole = fastest(model, BOX, row, int(row.global_batch))
        assert whole * (1 - 1e-12) <= row.sequence_s <= 3 * whole  # of jobs under a millisecond


def test_all_gpus_where_the_job_has_to_take_them():
    found = job_sizes(DENSE, BOX, 24, 24, use_all=True)
    assert (found["gpus"] == 24).all() and (found["hb_domain_size"] == 6).all()
    assert job_sizes(DENSE, BOX, 13, 12, use_all=True).empty  # 13 divide nothing
    assert job_sizes(DENSE, BOX, 13, 12)["gpus"].max() <= 12


def test_more_gpus_are_never_clearly_slower():
    times = [job_sizes(DENSE, BOX, gpus, 24)["sequence_s"][0] for gpus in range(6, 25, 3)]
    assert all(after <= before * 1.03 for before, after in pairwise(times))


def test_where_the_short_search_finds_nothing_all_strategies_are_tried():
    tight, data_only = (
        BOX.changed(memory_bytes=8e7),
        {"tensor": 1, "context": 1, "pipeline": 1, "sharding": "optimizer"},
    )
    short = {"micro_batch": 1, "placement": "tensor first"}
    assert search(DENSE, tight, 24, 24, top=1, at_most=True, **short, **data_only).best.empty
    limits = {name: value for name, value in data_only.items() if name != "sharding"}
    found = job_sizes(DENSE, tight, 24, 24, **limits)
    assert found["sequence_s"][0] == pytest.approx(fastest(DENSE, tight, found.iloc[0], 24, **limits))


def test_nothing_fits():
    found = job_sizes(DENSE, BOX.changed(memory_bytes=1e6), 12, 12)
    assert found.empty and list(found) == [*KEY, "sequence_s"]


def test_options_are_those_of_search():
    found = job_sizes(DENSE, BOX, 12, 24, tensor=2, micro_batch=[2, 4], sharding="weights")
    limits = {"tensor": 2, "micro_batch": [2, 4], "sharding": "weights"}
    assert (found["gpus"] % 2 == 0).all()
    assert all(row.sequence_s >= fastest(DENSE, BOX, row, 24, **limits) * (1 - 1e-12) for row in found.itertuples())


# Batches


@given(st.floats(0.6, 20_000) | st.integers(1, 20_000))
@example(1.5)
def test_allowed_batches_are_a_tenth_off_at_most_and_hold_the_nearest(asked):
    found = Batches.near(asked)
    assert 1 <= found.low <= max(round(asked), 1) <= found.high
    if isinstance(asked, int):
        assert found.low == found.high == asked
    else:
        assert found.low >= min(0.9 * asked, max(round(asked), 1)) and found.high <= max(1.1 * asked, math.ceil(asked))


@given(st.floats(0.6, 20_000), st.integers(1, 5000))
@example(1953.125, 1152)
@example(1.5, 64)
def test_batches_are_near_and_the_nearest_is_first(sequences, gpus):
    found = near_batches(sequences, gpus)
    off = [abs(batch - sequences) for batch in found]
    assert off == sorted(off) and len(set(found)) == len(found) <= 8
    assert all(isinstance(batch, int) and batch >= 1 for batch in found)
    assert off[0] <= 0.5 and all(each <= max(0.1 * sequences, 0.5) for each in off)


@given(st.integers(1, 40), st.integers(2, 60))
def test_a_multiple_of_the_gpus_that_is_near_is_among_them(times, gpus):
    found = near_batches(gpus * times * 1.02, gpus)
    assert any(batch % gpus == 0 for batch in found)


def test_batches_of_16_million_tokens():
    found = near_batches(16e6 / 8192, 1152)
    assert found[0] == 1953 and {1920, 2016, 2048} <= set(found) and len(found) == 8
    assert near_batches(2048, 1024)[0] == 2048
