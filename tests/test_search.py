import functools
import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import strategies as search_package
from railcore.catalog import units
from railcore.strategies.bounds import least_sequence_s
from railcore.strategies.kernel import TIME_EDGES_S
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search, search_parts
from railcore.strategies.result import SearchResult
from railcore.strategies.space import KEY, strategy_blocks
from railcore.strategies.splits import all_splits_at_most, divisors
from railcore.training import iteration, machine
from railcore.training.critical_path import critical_path
from railcore.training.iteration import OBSTACLES, iteration_time, iteration_times
from railcore.training.layer import layer_costs
from railcore.training.parallelism import LEVEL_NAMES, Strategy
from railcore.training.rank_order import PLACEMENTS, group_levels
from railcore.training.runtime import MODERN, Runtime
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.traffic import iteration_traffic
from railcore.training.transformer import Transformer

DENSE = Transformer("dense", 6, 512, 8, 2, 2048, 4000, 64, ffn_matrices=2)
MIXTURE = Transformer("mixture", 4, 512, 4, 4, 1024, 4000, 24, ffn_matrices=2, experts=4, top_k=2, imbalance=1.5)
A100 = machine.catalog_machine("DGX A100").changed(reserved_bytes=0.0)
GROUPED = replace(MIXTURE, name="grouped", experts=12, expert_groups=4, token_groups=2, sequence_length=6)
NODES = Runtime("nodes", dispatcher="nodes", overlap_expert=True, dispatch_bytes=1)
UNFUSED = Runtime("unfused", attention="unfused", overlap_data=False)
CASES = [  # model, GPUs, batches, runtime, limits
    (DENSE, 16, [8, 12], MODERN, {"context": 1, "placement": "tensor first"}),
    (DENSE, 24, 24, UNFUSED, {"context": [1, 2, 3]}),
    (MIXTURE, 16, [16, 32], MODERN, {"context": [1, 2, 4]}),
    (MIXTURE, 16, 16, UNFUSED, {"context": [2, 8], "recompute": [0, 2], "tensor": 2, "placement": "all"}),
    (DENSE, 64, [64, 128], MODERN, {"sharding": 1, "sequence_parallel": 1, "pipeline": [2, 3, 6, 8]}),
    (DENSE, 16, 16, MODERN, {"interleave": [2, 3], "micro_batch": [1, 2], "data": 4, "recompute": "selective"}),
    (DENSE, 8, 8, MODERN, {"placement": ["data first", "tensor first"], "sharding": [2, 3], "ends_as_layers": 1}),
    (DENSE, 16, [8, 16], MODERN, {}),
    (MIXTURE, 32, 16, MODERN, {"micro_batch": [1, 2], "sharding": 1}),
    (GROUPED, 24, 24, NODES, {"sharding": [0, 3], "recompute": "none", "interleave": 1}),
    (MIXTURE, 16, 16, MODERN, {"placement": [0, 7, 20], "sharding": 1, "context": [1, 2], "recompute": "none"}),
]
NUMBERS = ["sequence_s", "total_s", "memory_bytes"]
ROW = [*STRATEGY_COLUMNS, *NUMBERS]


def every_strategy(*case):
    """Columns of all strategies."""
    blocks = list(strategy_blocks(*case))
    return {name: np.concatenate([block[name] for block in blocks]) for name in STRATEGY_COLUMNS}


def rows_of(blocks):
    columns = [[block[name].tolist() for name in STRATEGY_COLUMNS] for block in blocks]
    return [tuple(row) for block in columns for row in zip(*block, strict=True)]


def listed(name, values):
    names = {"recompute": ("none", "selective", "full"), "placement": PLACEMENTS}.get(name, ())
    values = names if values == "all" else values
    values = [values] if isinstance(values, int | str) else values
    return sorted(names.index(value) if value in names else value for value in values)


def spread(gpu, columns):
    """Ranks of each kind of group in an HB domain, and domains that it is in."""
    return {kind: levels.in_domains(gpu.hb_domain_size) for kind, levels in group_levels(columns).items()}


def parts_groups(model, x, y):
    """Whether an HB domain or a rank has parts of several groups of experts."""
    return any(model.expert_groups % n and n % model.expert_groups for n in (x * y, y))


def loops(model, gpus, batches, runtime, limits, gpu=A100):
    """Every strategy that divides and is not another one by another name, by plain loops over all numbers."""
    limits = {name: listed(name, values) for name, values in ({"placement": "all"} | limits).items()}
    every = range(1, gpus + 1)
    batches = [batches] if isinstance(batches, int) else batches

    def some(name, values):
        return [value for value in values if value in limits.get(name, [value])]

    for t, c, p in itertools.product(some("tensor", every), some("context", every), some("pipeline", every)):
        if gpus % (t * c * p) or model.sequence_length % c:
            continue
        if model.heads % t or model.ffn_hidden % t or (model.kv_heads % t and t % model.kv_heads):
            continue
        d = gpus // (t * c * p)
        sizes, seen = {"tensor": t, "context": c, "data": d, "pipeline": p}, set()
        for e, whole, place in itertools.product(some("expert", every), (0, 1), limits["placement"]):
            ranks = c * d * (t if whole else 1)
            if max(model.experts, 1) % e or ranks % e or (whole and (t == 1 or not model.experts)):
                continue
            if d not in some("data", [d]) or whole not in some("whole_experts", [whole]):
                continue
            lies = spread(gpu, sizes | {"expert": e, "whole_experts": whole, "placement": place})
            near = {kind: int(x) for kind, (x, _) in lies.items()}
            near |= {"expert ranks": e, "whole": whole}
            parted = runtime.dispatcher == "nodes" and parts_groups(model, *map(int, lies["expert"]))
            if tuple(near.items()) in seen or parted:
                continue
            seen.add(tuple(near.items()))
            for ends in some("ends_as_layers", (0, 1) if p > 1 else (0,)):
                many = model.layers + 2 * ends
                chunks = [v for v in range(1, many + 1) if v == 1 or (p > 1 and many % (p * v) == 0)]
                if "interleave" in limits:
                    chunks = [v for v in limits["interleave"] if v == 1 or p > 1]
                shardings = some("sharding", range(4))
                if c * d == 1 and ranks // e <= 1:
                    shardings = shardings[:1]
                levels = some("recompute", range(3))
                if runtime.fused_attention and 0 in levels:
                    levels = [level for level in levels if level != 1]
                for v, sharding, b, batch in itertools.product(chunks, shardings, range(1, max(batches) + 1), batches):
                    if p * v > many or batch % (d * b) or (v > 1 and batch // (d * b) < p):
                        continue
                    if b not in some("micro_batch", [b]):
                        continue
                    for sp, level, keep in itertools.product((0, 1), levels, (0, 1)):
                        if sp and (t == 1 or model.sequence_length % (c * t)):
                            continue
                        if sp not in some("sequence_parallel", [sp]):
                            continue
                        if (keep and (not sp or level == 2)) or (whole and not sp):
                            continue
                        row = {"micro_batch": b, "tensor": t, "context": c, "expert": e, "pipeline": p, "data": d}
                        row |= {"interleave": v, "sequence_parallel": sp, "recompute": level, "sharding": sharding}
                        row |= {"keep_gathered": keep, "ends_as_layers": ends, "whole_experts": whole}
                        row |= {"placement": place, "recomputed_layers": 0, "recompute_group": 1}
                        row |= {"global_batch": batch}
                        yield tuple(row[name] for name in STRATEGY_COLUMNS)


@functools.cache
def enumerated(case):
    """Strategies in the order of KEY."""
    rows = np.array(list(loops(*CASES[case])))
    columns = dict(zip(STRATEGY_COLUMNS, rows.T, strict=True))
    order = np.lexsort([columns[name] for name in reversed(KEY)])
    return {name: values[order] for name, values in columns.items()}


def estimated(case, gpu, columns, offload="none"):
    return iteration_times(CASES[case][0], gpu, columns, CASES[case][3], offload)


def evaluated(case, gpu, offload="none"):
    """Strategies with their estimates; full recompute is of as few layers of a stage as fit, all where none must be."""
    model, runtime, columns = CASES[case][0], CASES[case][3], dict(enumerated(case))
    full, v = columns["recompute"] == 2, columns["interleave"]
    layers = np.ceil((model.layers + 2 * columns["ends_as_layers"]) / columns["pipeline"]).astype(int)
    without = estimated(case, gpu, columns | {"recompute": 0 * v}, offload).memory_bytes
    needed = without + layer_costs(model, gpu, runtime, columns).working_bytes > gpu.memory_bytes
    chosen = np.zeros_like(v)
    for count in range(model.layers, 0, -1) if "activations" not in offload else ():
        some = columns | {"recomputed_layers": np.where(full, np.minimum(count * v, layers), 0)}
        fits = estimated(case, gpu, some, offload).memory_bytes <= gpu.memory_bytes
        chosen = np.where(full & needed & fits & (count * v < layers), count * v, chosen)
    columns["recomputed_layers"] = chosen
    return columns, estimated(case, gpu, columns, offload)


@functools.cache
def small(case):
    """A GPU in which every other strategy fits."""
    median = float(np.median(estimated(case, A100, enumerated(case)).memory_bytes))
    return A100.changed(memory_bytes=median * (1 + 1e-6))  # none fits by its last bits


def space(case, **options):
    model, gpus, batches, runtime, limits = CASES[case]
    return strategy_blocks(model, A100, gpus, batches, runtime, **(limits | options))


def found_in(case, gpu=None, **options):
    model, gpus, batches, runtime, limits = CASES[case]
    return search(model, gpu or small(case), gpus, batches, **({"runtime": runtime} | limits | options))


def same_results(one, other):
    assert one.best.equals(other.best)
    assert one.counts == other.counts and one.splits == other.splits and one.parts == other.parts
    assert np.array_equal(one.histogram, other.histogram) and one.least_memory_bytes == other.least_memory_bytes
    assert all(np.array_equal(one.leaders[name], other.leaders[name]) for name in one.leaders)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_space_is_what_nested_loops_find(case):
    found = rows_of(space(case))
    wanted = list(zip(*(enumerated(case)[name].tolist() for name in STRATEGY_COLUMNS), strict=True))
    assert len(found) == len(set(found)) >= 40
    assert found == wanted


@pytest.mark.parametrize("block", [1, 7, 64, 10**6])
@pytest.mark.parametrize("case", [0, 2])
def test_blocks_of_the_space_change_nothing(case, block, monkeypatch):
    whole = rows_of(space(case))
    monkeypatch.setattr("railcore.strategies.space._BLOCK_ROWS", block)
    parts = list(space(case))
    assert rows_of(parts) == whole and (len(parts) == 1) == (block == 10**6)


@pytest.mark.parametrize("offload", ["none", ("optimizer", "activations")], ids=["", "offloaded"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_answer_is_that_of_all_strategies_bit_for_bit(case, offload, monkeypatch):
    paths = []
    monkeypatch.setattr(iteration, "critical_path", lambda *values: paths.append(critical_path(*values)) or paths[-1])
    columns, all_ = evaluated(case, small(case), offload)
    found = found_in(case, top=1000, offload=offload)
    good = np.flatnonzero(all_.feasible)
    memory = paths[-1].memory_bytes  # an estimate has it in parts
    time = all_.total_s / columns["global_batch"]
    order = good[np.lexsort((memory[good], time[good]))]  # stable: of equal ones the first by KEY
    pairs = np.column_stack([time, memory])[order]
    new = np.ones(len(order), bool)
    new[1:] = np.any(pairs[1:] != pairs[:-1], axis=1)
    fastest = order[new][:1000]
    for name in STRATEGY_COLUMNS:
        assert np.array_equal(found.fastest[name], columns[name][fastest]), name
        names = LEVEL_NAMES.get(name)
        named = np.asarray(names)[columns[name][fastest]] if names else columns[name][fastest]
        assert np.array_equal(found.best[name], named), name
    assert np.array_equal(found.best["sequence_s"], time[fastest])
    assert np.array_equal(found.best["total_s"], all_.total_s[fastest])
    assert np.array_equal(found.best["memory_bytes"], memory[fastest])
    assert np.allclose(found.best["memory_bytes"], all_.memory_bytes[fastest], rtol=1e-12)
    assert found.counts == {name: int(np.sum(all_.limits == name)) for name in found.counts}
    assert found.evaluated == all_.total_s.size and found.least_memory_bytes == memory.min()
    assert np.array_equal(found.histogram, np.histogram(time[good], TIME_EDGES_S)[0])
    assert found.histogram.sum() == found.counts["feasible"] == good.size > 0
    assert (found.gpus, found.model, found.machine) == (CASES[case][1], CASES[case][0], small(case))
    assert found_in(case, top=7, offload=offload).best.equals(found.best.head(7))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_parts_merge_to_the_whole_in_any_groups(case):
    model, gpus, batches, runtime, limits = CASES[case]
    whole = found_in(case, top=50)
    parts = search_parts(model, small(case), gpus, batches, runtime, top=50, shares=3, **limits)
    assert pickle.loads(pickle.dumps(parts)) == parts and len(parts) == 3
    a, b, c = (part.run() for part in parts)
    merged = SearchResult.merged
    for found in (merged([a, b, c]), merged([merged([a, b]), c]), merged([a, merged([b, c])]), merged([c, a, b])):
        same_results(found, whole)


def test_workers_find_the_same():
    same_results(found_in(2, workers=2, top=40), found_in(2, top=40))
    assert found_in(2, workers=2, only_best=True).best.equals(found_in(2).best)


@pytest.mark.parametrize(
    ("name", "value"), [("parts._AT_A_TIME", 50), ("space._PIECE_ROWS", 1), ("space._PIECE_ROWS", 50)]
)
def test_pieces_of_the_space_and_looks_at_the_clock_change_nothing(name, value, monkeypatch):
    whole = found_in(2, top=40)
    monkeypatch.setattr(f"railcore.strategies.{name}", value)
    same_results(found_in(2, top=40), whole)


@pytest.mark.parametrize("case", [1, 4])
def test_plain_python_finds_the_same(case, monkeypatch):
    compiled = found_in(case, micro_batch=1)
    monkeypatch.setenv("RAILCORE_NO_JIT", "1")
    same_results(found_in(case, micro_batch=1), compiled)


def test_several_runtimes_and_offloads_are_each_of_them():
    runtimes = [MODERN, replace(MODERN, name="no overlap", overlap_data=False)]
    offloads = ["none", "optimizer", ("optimizer", "activations")]
    found = found_in(0, runtime=runtimes, offload=offloads, top=60)
    each = [found_in(0, runtime=runtime, offload=away) for runtime in runtimes for away in offloads]
    assert found.evaluated == sum(one.evaluated for one in each) and len(found.parts) == 6
    assert set(found.best["runtime"]) == {"modern", "no overlap"}
    offloads_seen = set(found.designs(50)["offload"])
    assert len(offloads_seen) > 1 and offloads_seen <= {"none", "optimizer", "optimizer and activations"}
    assert found.best["sequence_s"].iloc[0] == min(one.best["sequence_s"].iloc[0] for one in each)
    assert found.least_memory_bytes == min(one.least_memory_bytes for one in each)
    same_results(found_in(0, runtime=runtimes, offload=offloads, top=60, workers=2), found)


def random_at_most(seed):
    """A model, a machine whose HB domains the GPUs do not fill, GPUs, batch, runtime."""
    rng = np.random.default_rng(seed)
    sizes = {"experts": int(rng.choice([4, 6, 8])), "top_k": 2, "imbalance": 1.5, "dense_layers": seed % 2}
    heads, layers, tokens = int(rng.choice([3, 6, 8, 12])), int(rng.choice([3, 4, 6])), int(rng.choice([24, 768]))
    model = Transformer(
        "small", layers, 1536, heads, heads, 6144, 4000, tokens, ffn_matrices=2, **(sizes if seed % 4 else {})
    )
    gpu = A100.changed(hb_domain_size=int(rng.choice([4, 6])), nic_Bps=float(rng.choice([1e9, 5e9, 25e9])))
    runtime = (MODERN, UNFUSED, Runtime("from both ends", schedule="dualpipe", overlap_expert=True))[seed % 3]
    return model, gpu, int(rng.choice([7, 9, 11, 13])), int(rng.choice([12, 16, 18])), runtime


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))])
def test_the_best_of_fewer_gpus_is_that_of_all_searches_with_fewer(seed):
    model, gpu, gpus, batch, runtime = random_at_most(seed)
    limits, K, best = {"sharding": [0, 3], "recompute": "none", "micro_batch": [1, 2]}, gpu.hb_domain_size, math.inf
    for used in range(1, K + 1):
        for fewer in range(1, (gpus if used == K else gpus // K * used) + 1):
            box = gpu.changed(hb_domain_size=min(used, fewer))
            rows = search(model, box, fewer, batch, runtime, top=1000, **limits).best
            if used < K:  # tensor ranks are in whole part-filled domains, or domains in tensor ranks
                rows = rows[(used % rows["tensor"] == 0) | (rows["tensor"] % used == 0)]
            best = min(best, rows["sequence_s"].min())
    options = {"at_most": True, "top": 3, **limits}
    found = search(model, gpu, gpus, batch, runtime, **options)
    assert found.best["sequence_s"].iloc[0] == pytest.approx(best, rel=1e-12)
    if seed == 0:
        same_results(search(model, gpu, gpus, batch, runtime, workers=2, **options), found)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 8))])
def test_no_strategy_of_a_split_is_faster_than_its_bound(seed):
    model, gpu, gpus, batch, runtime = random_at_most(seed)
    if seed in (2, 3):
        gpu, runtime = gpu.changed(nic_Bps=gpu.hb_Bps, nic_fraction=1.0), replace(runtime, dispatcher="nodes")
    for part in search_parts(model, gpu, gpus, [batch, 2 * batch], runtime, at_most=True):
        splits = all_splits_at_most(model, gpus, part.allowed, gpu.hb_domain_size, True)
        least = least_sequence_s(part, splits)
        close = 0.0
        for split, bound in zip(splits, least, strict=True):
            limits = dict(zip(("tensor", "context", "pipeline", "data"), split.tolist(), strict=True))
            n = int(np.prod(split))
            box = gpu.changed(hb_domain_size=min(gpu.hb_domain_size, n), memory_bytes=1e15)
            best = search(model, box, n, [batch, 2 * batch], runtime, top=1, **limits).best["sequence_s"]
            assert best.min() >= bound * (1 - 1e-9), limits
            close = max(close, bound / best.min())
        assert close > 0.1


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("top", [1, 7])
def test_what_is_passed_over_is_slower(case, top):
    every, some = found_in(case, top=top), found_in(case, top=top, only_best=True)
    assert some.best.equals(every.best)
    assert some.evaluated < every.evaluated or case == 5  # few, whose passes are alike


@pytest.mark.parametrize("case", range(len(CASES)))
def test_splits_are_counted_by_what_stops_them(case):
    model, gpus, batches, _, limits = CASES[case]
    counted = {}
    limits = {name: listed(name, values) for name, values in limits.items()}
    for t, c, p, d in itertools.product([n for n in range(1, gpus + 1) if gpus % n == 0], repeat=4):
        split = {"tensor": t, "context": c, "pipeline": p, "data": d}
        if t * c * p * d != gpus or any(value not in limits.get(name, [value]) for name, value in split.items()):
            continue
        ends = limits.get("ends_as_layers", [0, 1])
        wrong = {
            "heads": model.heads % t or model.ffn_hidden % t or (model.kv_heads % t and t % model.kv_heads),
            "layers": all(model.layers + 2 * end < p or (end and p == 1) for end in ends),
            "batch": all(batch % d for batch in np.atleast_1d(batches)),
            "sequence": model.sequence_length % c,
        }
        name = next((name for name in OBSTACLES if wrong.get(name)), "feasible")
        counted[name] = counted.get(name, 0) + 1
    assert found_in(case).splits == counted


@pytest.mark.parametrize("case", [0, 2])
def test_the_distribution_is_how_many_are_that_fast(case):
    columns, all_ = evaluated(case, small(case))
    times = np.sort((all_.total_s / columns["global_batch"])[all_.feasible])
    table = found_in(case).distribution()
    assert table["times_best"].is_monotonic_increasing and table["share"].iloc[-1] == 1
    counted = np.searchsorted(times, table["times_best"] * times[0] * (1 + 1e-12)) / times.size
    assert np.allclose(table["share"], counted, rtol=1e-12)
    slowest = times[-1] / times[0]
    assert slowest <= table["times_best"].iloc[-1] <= slowest * TIME_EDGES_S[1] / TIME_EDGES_S[0]
    assert found_in(case, A100.changed(memory_bytes=1.0)).distribution().empty


def test_a_limit_only_leaves_out():
    whole = search(MIXTURE, small(2), 16, 16, context=[1, 2], placement="all")
    assert set(whole.best["context"]) <= {1, 2}
    limits = [("tensor", 2), ("expert", [1, 4]), ("sharding", [0, 3]), ("sequence_parallel", 0), ("data", 8)]
    limits += [("keep_gathered", 0), ("whole_experts", 1), ("ends_as_layers", 0), ("placement", "pipeline near")]
    for name, value in limits:
        some = search(MIXTURE, small(2), 16, 16, **{"context": [1, 2], "placement": "all", name: value})
        assert 0 < some.evaluated < whole.evaluated
        assert set(some.fastest[name].tolist()) <= set(listed(name, value))
        assert some.best["sequence_s"].iloc[0] >= whole.best["sequence_s"].iloc[0]
        assert some.least_memory_bytes >= whole.least_memory_bytes
    assert search(MIXTURE, small(2), 16, 16).evaluated > whole.evaluated  # all of both is the default


def test_nothing_that_fits_is_an_answer():
    tiny = A100.changed(memory_bytes=1e6)
    found = search(DENSE, tiny, 16, 8)
    assert len(found.best) == found.histogram.sum() == 0
    assert found.counts["memory"] == found.evaluated > 0
    need = f"{units.show(found.least_memory_bytes, 'B', 4)} of a GPU's 1 MB"
    empty, full = found.designs(), search(DENSE, A100, 16, 8).designs()
    assert len(empty) == 0 and {"strategy", *ROW, "times_best"} <= {*empty}
    assert list(empty) == [name for name in full if name in {*empty}]
    for ask in (found.strategy, found.runner_up_wins, found.robust):
        with pytest.raises(ValueError, match=f"dense fits no strategy of 16 GPUs: the least needs {need}"):
            ask()
    assert repr(found).endswith(f"fits no strategy of 16 GPUs: the least needs {need}: take more GPUs or larger ones")
    enough = A100.changed(memory_bytes=found.least_memory_bytes)
    assert search(DENSE, enough, 16, 8).counts["feasible"] > 0
    assert list(found.best.columns) == ROW
    fits = search(DENSE, A100, 16, 8)
    lines = repr(fits).splitlines()
    assert f"{fits.evaluated:,} strategies, {fits.counts['feasible']:,} feasible" in lines[0]
    assert all(line.strip().startswith(name) for line, name in zip(lines[2:7], full["strategy"], strict=True))


def test_nothing_that_divides_is_an_answer():
    found = search(DENSE, A100.changed(hb_domain_size=1), 7, 3, pipeline=1)
    assert found.evaluated == 0 and set(found.counts.values()) == {0} and found.least_memory_bytes == math.inf
    with pytest.raises(ValueError, match=r"of 7 GPUs divides dense and its batch .*'heads': 1"):
        found.strategy()
    assert list(strategy_blocks(DENSE, A100, 7, 3, pipeline=1)) == []
    none = search(DENSE, A100, 16, 8, tensor=3)
    assert none.evaluated == 0 and "none has the degrees allowed" in repr(none)


@pytest.mark.filterwarnings("ignore:invalid value")  # of infinite times in arrays
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("runtime", [MODERN, NODES, "megatron-bridge2025", "fsdp-eager"], ids=str)
def test_a_time_that_is_no_number_is_not_feasible(runtime):
    slow = A100.changed(hb_domain_size=2, nic_Bps=1e-305)
    model = replace(MIXTURE, hidden=1024, sequence_length=64)
    found = search(model, slow, 16, 16, runtime, top=1000)
    every = iteration_times(model, slow, every_strategy(model, slow, 16, 16, runtime), runtime)
    assert found.counts == {name: int(np.sum(every.limits == name)) for name in found.counts}
    assert found.counts["network"] == found.evaluated > 0 == found.histogram.sum() and found.best.empty


def test_wide_dense_layers_are_searched_as_they_are_estimated():
    """The longer time and the larger memory of both ends of a pipeline."""
    model = replace(MIXTURE, layers=8, dense_layers=3, ffn_hidden=16384, expert_hidden=512)
    every = iteration_times(model, A100, every_strategy(model, A100, 16, 16))
    found = search(model, A100, 16, 16, top=1000)
    assert found.counts["feasible"] == every.feasible.sum() == every.total_s.size
    assert found.best["total_s"].tolist() == iteration_times(model, A100, found.best).total_s.tolist()
    assert found.best["memory_bytes"].to_numpy() == pytest.approx(iteration_times(model, A100, found.best).memory_bytes)
    assert found.best["total_s"].iloc[0] == every.total_s.min()


@given(st.integers(1, 5000))
def test_divisors_are_those(n):
    assert divisors(n).tolist() == [k for k in range(1, n + 1) if n % k == 0]


@pytest.mark.parametrize("named", [False, True])
def test_a_label_names_all_choices(named):
    row = dict.fromkeys(STRATEGY_COLUMNS, 1) | {"tensor": 8, "context": 2, "expert": 8, "pipeline": 4, "data": 16}
    row |= {"interleave": 2, "recompute": 2, "placement": 1, "recomputed_layers": 0}
    row |= {"recompute": "full", "sharding": "optimizer", "placement": "pipeline near"} if named else {}
    assert strategy_label(row) == (
        "TP8 CP2 EP8 PP4 DP16, 2 chunks, micro-batch 1, sequence parallel, keeps gathered inputs, full recompute, "
        "ZeRO-1, ends as layers, whole experts, pipeline near"
    )
    assert strategy_label(Strategy(micro_batch=2).columns(2)) == "one GPU, micro-batch 2"
    some, groups = Strategy(recompute="full", recomputed_layers=3), Strategy(recompute="full", recompute_group=4)
    assert strategy_label(some.columns(1)) == "one GPU, micro-batch 1, recompute of 3 layers a stage"
    assert strategy_label(groups.columns(1)) == "one GPU, micro-batch 1, full recompute of 4 layers together"


def test_what_a_search_found_can_be_given_back():
    """Names and switches as `best`, `designs` and `strategy` have them: the whole table, or a row of it."""
    model, _, batch, runtime, _ = CASES[3]
    gpu, found = small(3), found_in(3, top=1000)
    assert set(found.best["recompute"]) == {"none", "full"} and set(found.best["placement"]) <= {*PLACEMENTS}
    assert len(set(found.best["sharding"])) > 1 and found.best["keep_gathered"].dtype == bool
    for table in (found.best, found.designs(50), found.best.to_dict("list")):
        assert np.array_equal(iteration_times(model, gpu, table, runtime).total_s, table["total_s"])
    for _, row in found.best.iloc[:: len(found.best) // 20].iterrows():
        strategy = Strategy.from_columns(row)
        assert strategy_label(strategy.columns(batch)) == strategy_label(row)
        assert iteration_times(model, gpu, row, runtime).total_s == row["total_s"]
        assert iteration_time(model, gpu, row, batch, runtime).total_s == pytest.approx(row["total_s"], rel=1e-12)
    first = found.best.iloc[0]
    assert found.strategy() == {name: first[name] for name in STRATEGY_COLUMNS}
    sent = [iteration_traffic(model, each, batch).entries() for each in (first, found.strategy())]
    assert sent[0].equals(sent[1])


def test_a_bar_is_shown_where_it_is_asked_for_and_the_search_is_long(monkeypatch, capsys):
    monkeypatch.setattr(search_package.parts, "_SHOWN_AFTER_S", 0)
    found_in(0)
    assert not capsys.readouterr().err
    found_in(0, progress=True)
    assert "strategies" in capsys.readouterr().err
