import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.facts import units
from railcore.training import machine
from railcore.training.iteration import REASONS, STRATEGY_COLUMNS, iteration_times
from railcore.training.layer_time import RUNTIMES
from railcore.training.search import (
    TIME_EDGES_S,
    _block_of_all,
    divisors,
    pareto_front,
    search,
    strategy_blocks,
    strategy_label,
)
from railcore.training.transformer import Transformer

DENSE = Transformer("dense", 6, 512, 8, 2, 2048, 4000, 64)
MIXTURE = Transformer("mixture", 4, 512, 4, 4, 1024, 4000, 24, experts=4, top_k=2, imbalance=1.5)
A100 = replace(machine.catalog_machine("DGX A100"), reserved_bytes=0.0)
CASES = [
    (DENSE, 16, [8, 12], {}),
    (DENSE, 24, 24, {"context": [1, 2, 3]}),
    (MIXTURE, 16, [16, 32], {"context": [1, 2, 4]}),
    (MIXTURE, 16, 16, {"context": [2, 8], "recompute": [0, 2], "tensor": 2}),
    (DENSE, 64, [64, 128], {"sharding": 1, "sequence_parallel": 1, "pipeline": [2, 3, 6]}),
    (DENSE, 16, 16, {"interleave": [2, 3], "micro_batch": [1, 2], "data": 4}),
]


def rows_of(blocks):
    blocks = list(blocks)
    columns = [[block[name].tolist() for name in STRATEGY_COLUMNS] for block in blocks]
    return [tuple(row) for block in columns for row in zip(*block, strict=True)]


def loops(model, gpus, batches, limits):
    """Every strategy that divides, by plain loops over all numbers."""
    every = range(1, gpus + 1)
    batches = [batches] if isinstance(batches, int) else batches
    for t, c, p in itertools.product(every, every, range(1, min(gpus, model.layers) + 1)):
        if gpus % (t * c * p) or model.layers % p or model.sequence_length % c:
            continue
        if model.heads % t or model.ffn_hidden % t or (model.kv_heads % t and t % model.kv_heads):
            continue
        d = gpus // (t * c * p)
        for batch, b, v, e in itertools.product(batches, range(1, max(batches) + 1), range(1, model.layers + 1), every):
            if batch % (d * b) or model.layers % (p * v) or max(model.experts, 1) % e or d * c % e:
                continue
            if v > 1 and (p == 1 or batch // (d * b) % p):
                continue
            for parallel in (0, 1) if t > 1 and model.sequence_length % (c * t) == 0 else (0,):
                for recompute, sharding in itertools.product(range(3), range(4)):
                    row = (b, t, c, e, parallel, recompute, p, d, v, sharding, batch)
                    yield dict(zip(STRATEGY_COLUMNS, row, strict=True))


def allowed(row, limits):
    limits = {"context": 1, **limits}
    return all(row[name] in np.atleast_1d(values) for name, values in limits.items())


@functools.cache
def enumerated(case):
    model, gpus, batches, limits = CASES[case]
    return [tuple(row.values()) for row in loops(model, gpus, batches, limits) if allowed(row, limits)]


def evaluated(case, gpu=A100, **options):
    columns = dict(zip(STRATEGY_COLUMNS, np.array(enumerated(case)).T, strict=True))
    return columns, iteration_times(CASES[case][0], gpu, columns, **options)


@functools.cache
def small(case):
    """A GPU in which every other strategy fits."""
    return replace(A100, memory_bytes=float(np.median(evaluated(case)[1].memory_bytes)))


def plain_front(time, memory):
    """Places that nothing is better than in one and as good in the other, the first of equals."""
    front = []
    for i in range(len(time)):
        better = (time <= time[i]) & (memory <= memory[i]) & ((time < time[i]) | (memory < memory[i]))
        same = (time[:i] == time[i]) & (memory[:i] == memory[i])
        if not better.any() and not same.any():
            front.append(i)
    return sorted(front, key=lambda i: time[i])


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_space_is_what_nested_loops_find(case):
    model, gpus, batches, limits = CASES[case]
    found = rows_of(strategy_blocks(model, gpus, batches, **limits))
    assert len(found) == len(set(found)) >= 48
    assert set(found) == set(enumerated(case))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_every_row_divides(case):
    model, gpus, batches, limits = CASES[case]
    for block in strategy_blocks(model, gpus, batches, **limits):
        assert set(block) == set(STRATEGY_COLUMNS)
        ranks = block["tensor"] * block["context"] * block["pipeline"] * block["data"]
        assert np.all(ranks == gpus)
        reasons = np.unique(iteration_times(model, A100, block).reason)
        assert {REASONS[i] for i in reasons} <= {"feasible", "memory"}


def test_what_the_space_leaves_out_does_not_divide():
    model, gpus, batch = MIXTURE, 8, 8
    inside = {row for row in rows_of(strategy_blocks(model, gpus, batch, context=divisors(8))) if row[5] == row[9] == 0}
    values = [range(1, 9)] * 4 + [(0, 1), (0,), range(1, 9), range(1, 9), range(1, 5), (0,), (batch,)]
    columns = dict(zip(STRATEGY_COLUMNS, (x.ravel() for x in np.meshgrid(*values)), strict=True))
    whole = columns["tensor"] * columns["context"] * columns["pipeline"] * columns["data"] == gpus
    columns = {name: column[whole] for name, column in columns.items()}
    reason = iteration_times(model, A100, columns).reason
    divides = np.isin(reason, [REASONS.index("feasible"), REASONS.index("memory")])
    assert set(zip(*(columns[name][divides].tolist() for name in STRATEGY_COLUMNS), strict=True)) == inside
    assert not divides.all()


@pytest.mark.parametrize("block", [1, 7, 64, 10**6])
@pytest.mark.parametrize("case", [0, 2])
def test_blocks_of_the_space_change_nothing(case, block, monkeypatch):
    model, gpus, batches, limits = CASES[case]
    whole = rows_of(strategy_blocks(model, gpus, batches, **limits))
    monkeypatch.setattr("railcore.training.search._BLOCK_ROWS", block)
    parts = list(strategy_blocks(model, gpus, batches, **limits))
    assert rows_of(parts) == whole
    sizes = [part["tensor"].size for part in parts]
    assert sizes[:-1] == [block] * (len(sizes) - 1) and 1 <= sizes[-1] <= block


@pytest.mark.parametrize(
    "options", [{}, {"offload": "optimizer", "runtime": RUNTIMES["megatron2021"]}], ids=["", "2021"]
)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_best_and_the_front_are_those_of_all(case, options):
    model, gpus, batches, limits = CASES[case]
    found = search(model, small(case), gpus, batches, top=300, **options, **limits)
    columns, all_ = evaluated(case, small(case), **options)
    good = np.flatnonzero(all_.reason == 0)
    time, memory = (all_.total_s / columns["global_batch"])[good], all_.memory_bytes[good]
    fastest = np.unique(np.column_stack([time, memory]), axis=0)[:300]
    assert np.allclose(found.best[["sequence_s", "memory_bytes"]], fastest, rtol=1e-12)
    front = plain_front(time, memory)
    assert np.allclose(found.pareto["sequence_s"], time[front], rtol=1e-12)
    assert np.allclose(found.pareto["memory_bytes"], memory[front], rtol=1e-12)
    assert found.best["sequence_s"].iloc[0] == found.pareto["sequence_s"].iloc[0] == time.min()
    assert found.pareto["memory_bytes"].iloc[-1] == memory.min()
    assert found.counts == {name: int(np.sum(all_.reason == i)) for i, name in enumerate(REASONS)}
    assert found.evaluated == all_.total_s.size and (options or found.counts["memory"] > 0)
    assert found.least_memory_bytes == all_.memory_bytes.min()
    assert found.histogram.sum() == found.counts["feasible"] == good.size
    assert np.array_equal(found.histogram, np.histogram(time, TIME_EDGES_S)[0])
    assert (found.gpus, found.model, found.machine) == (gpus, model, small(case))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_splits_are_counted_by_what_stops_them(case):
    model, gpus, batches, limits = CASES[case]
    counted = dict.fromkeys(REASONS, 0)
    for t, c, p, d in itertools.product([n for n in range(1, gpus + 1) if gpus % n == 0], repeat=4):
        split = {"tensor": t, "context": c, "pipeline": p, "data": d}
        if t * c * p * d != gpus or not allowed(split, {k: x for k, x in limits.items() if k in split}):
            continue
        wrong = {
            "heads": model.heads % t or model.ffn_hidden % t or (model.kv_heads % t and t % model.kv_heads),
            "layers": model.layers % p,
            "batch": all(batch % d for batch in np.atleast_1d(batches)),
            "sequence": model.sequence_length % c,
        }
        counted[next((name for name in REASONS if wrong.get(name)), "feasible")] += 1
    assert search(model, A100, gpus, batches, **limits).splits == {name: n for name, n in counted.items() if n}


@pytest.mark.parametrize("case", [0, 2])
def test_rows_kept_are_rows_of_the_space_with_their_own_estimates(case):
    model, gpus, batches, limits = CASES[case]
    found = search(model, small(case), gpus, batches, **limits)
    for table in (found.best, found.pareto):
        assert set(table[list(STRATEGY_COLUMNS)].itertuples(index=False, name=None)) <= set(enumerated(case))
        estimate = iteration_times(found.model, found.machine, table, found.runtime, found.offload)
        assert np.all(estimate.reason == 0)
        assert np.allclose(estimate.total_s, table["total_s"], rtol=1e-12)
        assert np.allclose(estimate.total_s / table["global_batch"], table["sequence_s"], rtol=1e-12)
        assert np.allclose(estimate.memory_bytes, table["memory_bytes"], rtol=1e-12)
    best = found.strategy()
    assert best == {name: int(found.best.iloc[0][name]) for name in STRATEGY_COLUMNS}
    alone = iteration_times(model, small(case), best)
    assert float(alone.total_s) == pytest.approx(found.best["total_s"].iloc[0], rel=1e-12)
    assert found.estimate().total_s.shape == (10,)


@pytest.mark.parametrize("top", [3, 1000])
@pytest.mark.parametrize(("case", "block"), [(0, 7), (0, 64), (3, 7), (4, 50)])
def test_blocks_of_a_search_change_nothing(case, block, top, monkeypatch):
    model, gpus, batches, limits = CASES[case]
    one = search(model, small(case), gpus, batches, top=top, **limits)
    monkeypatch.setattr("railcore.training.search._BLOCK_ROWS", block)
    _block_of_all.cache_clear()
    monkeypatch.setattr("railcore.training.iteration._BLOCK_ROWS", block // 2)
    many = search(model, small(case), gpus, batches, top=top, **limits)
    assert many.pareto["sequence_s"].tolist() == one.pareto["sequence_s"].tolist()
    assert many.pareto["memory_bytes"].tolist() == one.pareto["memory_bytes"].tolist()
    assert many.counts == one.counts and np.array_equal(many.histogram, one.histogram)
    assert many.least_memory_bytes == one.least_memory_bytes
    assert many.best["sequence_s"].tolist() == one.best["sequence_s"].tolist()


@pytest.mark.parametrize("case", [0, 2])
def test_the_distribution_is_how_many_are_that_fast(case):
    model, gpus, batches, limits = CASES[case]
    columns, all_ = evaluated(case, small(case))
    times = np.sort((all_.total_s / columns["global_batch"])[all_.reason == 0])
    table = search(model, small(case), gpus, batches, **limits).distribution()
    assert table["times_best"].is_monotonic_increasing and table["share"].iloc[-1] == 1
    counted = np.searchsorted(times, table["times_best"] * times[0] * (1 + 1e-12)) / times.size
    assert np.allclose(table["share"], counted, rtol=1e-12)
    slowest = times[-1] / times[0]
    assert slowest <= table["times_best"].iloc[-1] <= slowest * TIME_EDGES_S[1] / TIME_EDGES_S[0]
    assert search(model, replace(A100, memory_bytes=1.0), gpus, batches, **limits).distribution().empty


def test_top_says_how_many():
    for top in (1, 4):
        assert len(search(DENSE, small(0), 16, 8, top=top).best) == top
    few = search(DENSE, small(0), 16, 16, top=1000, tensor=2, sharding=3, recompute=0)
    assert len(few.best) == few.counts["feasible"] < 1000
    assert few.best["sequence_s"].is_monotonic_increasing


def test_several_batches_are_each_batch():
    several = search(DENSE, small(0), 16, [8, 12, 48])
    each = [search(DENSE, small(0), 16, batch) for batch in (8, 12, 48)]
    assert several.evaluated == sum(found.evaluated for found in each)
    assert several.counts == {name: sum(found.counts[name] for found in each) for name in REASONS}
    assert several.best["sequence_s"].iloc[0] == min(found.best["sequence_s"].iloc[0] for found in each)
    assert search(DENSE, small(0), 16, [12, 8, 48, 8]).counts == several.counts


def test_a_limit_only_leaves_out():
    whole = search(MIXTURE, small(2), 16, 16, context=[1, 2])
    assert set(whole.best["context"]) <= {1, 2}
    for name, value in (("tensor", 2), ("expert", [1, 4]), ("sharding", [0, 3]), ("sequence_parallel", 0), ("data", 8)):
        some = search(MIXTURE, small(2), 16, 16, **{"context": [1, 2], name: value})
        assert 0 < some.evaluated < whole.evaluated
        assert set(some.best[name]) <= set(np.atleast_1d(value).tolist())
        assert some.best["sequence_s"].iloc[0] >= whole.best["sequence_s"].iloc[0]
        assert some.least_memory_bytes >= whole.least_memory_bytes
    assert search(MIXTURE, small(2), 16, 16).evaluated == search(MIXTURE, small(2), 16, 16, context=1).evaluated


def test_more_memory_is_never_slower():
    times = [
        search(DENSE, replace(A100, memory_bytes=size), 16, 48).best["sequence_s"].min() for size in (8e7, 2e8, 1e9)
    ]
    assert times[0] >= times[1] >= times[2]


def test_nothing_that_fits_is_an_answer():
    tiny = replace(A100, memory_bytes=1e6)
    found = search(DENSE, tiny, 16, 8)
    assert len(found.best) == len(found.pareto) == found.histogram.sum() == 0
    assert found.counts["memory"] == found.evaluated > 0
    columns = dict(zip(STRATEGY_COLUMNS, np.array(rows_of(strategy_blocks(DENSE, 16, 8))).T, strict=True))
    assert found.least_memory_bytes == iteration_times(DENSE, tiny, columns).memory_bytes.min()
    need = f"{units.show(found.least_memory_bytes, 'B', 4)} of a GPU's 1 MB"
    with pytest.raises(ValueError, match=f"dense fits no strategy of 16 GPUs: the least needs {need}"):
        found.strategy()
    enough = replace(A100, memory_bytes=found.least_memory_bytes)
    assert search(DENSE, enough, 16, 8).counts["feasible"] > 0
    assert list(found.best.columns) == [*STRATEGY_COLUMNS, "sequence_s", "total_s", "memory_bytes"]


def test_nothing_that_divides_is_an_answer():
    found = search(DENSE, replace(A100, hb_domain_size=1), 7, 3)
    assert found.evaluated == 0 and set(found.counts.values()) == {0} and found.least_memory_bytes == math.inf
    with pytest.raises(ValueError, match=r"of 7 GPUs divides dense and its batch .*'heads': 1"):
        found.strategy()
    assert list(strategy_blocks(DENSE, 7, 3)) == []
    assert search(DENSE, A100, 16, 8, tensor=3).evaluated == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gpus": 4}, "hb_domain_size is 8, more than gpus 4: give at most 4"),
        ({"gpus": 16.5}, "gpus is 16.5"),
        ({"global_batch": 0}, "global_batch is 0: give whole numbers from 1"),
        ({"global_batch": [4, 8.5]}, "global_batch is"),
        ({"global_batch": []}, "global_batch is"),
        ({"tensor": 0}, "tensor is 0"),
        ({"sharding": -1}, "sharding is -1: give none, optimizer, gradients, weights, or whole numbers from 0 to 3"),
        ({"recompute": "half"}, "recompute is 'half': give none, selective, full, or whole numbers from 0 to 2"),
        ({"tensors": 4}, "limit 'tensors' is unknown: name one of micro_batch, tensor"),
        ({"top": 0}, "top is 0"),
        ({"top": 2.5}, "top is 2.5: give whole numbers"),
        ({"offload": "weights"}, "offload is 'weights'"),
    ],
)
def test_errors_name_the_argument(changes, named):
    options = {"gpus": 16, "global_batch": 8} | changes
    with pytest.raises(ValueError, match=named):
        search(DENSE, A100, **options)


@pytest.mark.parametrize("limit", [{"recompute": 3}, {"sharding": [0, 4]}, {"sequence_parallel": 2}])
def test_limits_above_the_last_are_refused(limit):
    with pytest.raises(ValueError, match=next(iter(limit))):
        search(DENSE, A100, 16, 8, **limit)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_strategy_without_a_route_is_not_feasible():
    found = search(MIXTURE, replace(A100, routing="direct", oversubscription=math.inf), 16, 16)
    assert found.counts["feasible"] == found.histogram.sum() < found.evaluated


def test_the_space_refuses_a_cluster_of_none():
    with pytest.raises(ValueError, match="gpus is 0: give whole numbers from 1"):
        next(strategy_blocks(DENSE, 0, 8))


@given(st.integers(1, 5000))
def test_divisors_are_those(n):
    assert divisors(n).tolist() == [k for k in range(1, n + 1) if n % k == 0]


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), max_size=30))
def test_a_pareto_front_is_what_its_definition_says(pairs):
    time, memory = (np.array([pair[i] for pair in pairs], float) for i in (0, 1))
    front = pareto_front(time, memory)
    assert front.tolist() == plain_front(time, memory)


def test_limits_take_names_too():
    names, places = (search(DENSE, A100, 16, 8, **limits) for limits in ({"recompute": ["full"]}, {"recompute": 2}))
    assert names.best.equals(places.best) and names.counts == places.counts


def test_a_breakdown_names_the_best_and_leaves_out_what_none_has():
    found = search(DENSE, A100, 16, 16, top=3)
    table = found.breakdown()
    assert list(table.columns[:3]) == ["strategy", "total_s", "memory_bytes"] and len(table) == 3
    parts = table.iloc[:, 3:]
    assert np.allclose(parts.sum(axis=1), table["total_s"]) and (parts.max() > 0).all() and "expert_s" not in parts
    assert table["strategy"].tolist() == [strategy_label(row) for row in found.best.to_dict("records")]
