import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.training.collectives import (
    OPERATIONS,
    algorithm_names,
    collective_time,
    hierarchical_phase_times,
    hierarchical_time,
    steps_and_bytes,
)
from suite.emulator.collective_schedules import (
    Schedule,
    collective_schedule,
    count_bytes,
    domain_rail_bytes,
    hierarchical_schedule,
    run_schedule,
)


def pipelined_schedule(plan, chunks):
    """The same schedule with every block cut into chunks, each of which starts a step after the one before."""
    steps = [[] for _ in range(len(plan) + chunks - 1 if len(plan) else 0)]
    for chunk in range(chunks):
        for number, step in enumerate(plan):
            steps[number + chunk] += [
                send._replace(blocks=tuple(block * chunks + chunk for block in send.blocks)) for send in step
            ]
    return Schedule(plan.operation, plan.ranks, plan.parts * chunks, tuple(steps))


FORMS = [(operation, name) for operation in OPERATIONS for name in algorithm_names(operation)]
GROUPS = (1, 2, 3, 4, 5, 6, 7, 8, 13, 16)
IN_SWITCH = ("in_network", "nvls")
GRIDS = [(1, 1), (4, 1), (1, 4), (2, 2), (3, 2), (2, 3), (4, 4), (3, 5)]
GRID_OPERATIONS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "point_to_point")
SIZES, BANDWIDTHS = st.floats(1, 1e12), st.floats(1e6, 1e13)


def powers_only(operation, name):
    return name == "recursive_doubling" or (name == "recursive" and operation != "broadcast")


def cases():
    for operation, name in FORMS:
        for n in GROUPS:
            if not powers_only(operation, name) or n & (n - 1) == 0:
                yield operation, name, n


def inputs(plan, rows, seed=0):
    """Random integers, `rows` for each block of the plan."""
    rng = np.random.default_rng(seed)
    each = plan.parts if plan.operation == "all_gather" else plan.blocks
    return [rng.integers(-(10**9), 10**9, (each * rows, 2)) for _ in range(plan.ranks)]


def defined_result(operation, arrays):
    """What an operation gives to each rank, by NumPy alone."""
    n, empty = len(arrays), arrays[0][:0]
    if operation in ("all_gather", "all_reduce"):
        return [np.concatenate(arrays) if operation == "all_gather" else sum(arrays[1:], arrays[0])] * n
    if operation == "all_to_all":
        return [np.concatenate([np.split(array, n)[t] for array in arrays]) for t in range(n)]
    if operation == "reduce_scatter":
        return np.split(sum(arrays[1:], arrays[0]), n)
    ends = {"broadcast": [arrays[0]] * n, "point_to_point": [empty] * (n - 1) + [arrays[0]]}
    return ends[operation] if operation in ends else np.split(arrays[0], n)


def exact(plan, rows=1):
    arrays = inputs(plan, rows)
    before = [array.copy() for array in arrays]
    got, wanted = run_schedule(plan, arrays), defined_result(plan.operation, arrays)
    same = [np.array_equal(a, b) for a, b in zip(got, wanted, strict=True)]
    return all(same) and all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))


@pytest.mark.parametrize(("operation", "name"), FORMS)
def test_every_schedule_gives_the_exact_result_and_costs_what_the_formula_says(operation, name):
    for _, _, n in [case for case in cases() if case[:2] == (operation, name)]:
        plan = collective_schedule(operation, name, n)
        assert exact(plan, rows=2) and exact(pipelined_schedule(plan, 3))
        message = 840.0 * plan.blocks
        counted = count_bytes(plan, message / plan.blocks)
        assert (counted.steps, counted.bytes) == pytest.approx(steps_and_bytes(operation, name, message, n))


@pytest.mark.parametrize(("operation", "name"), FORMS)
def test_bytes_out_are_bytes_in_and_no_form_beats_its_bound(operation, name):
    for _, _, n in [case for case in cases() if case[:2] == (operation, name) and case[2] > 1]:
        plan = collective_schedule(operation, name, n)
        counted = count_bytes(plan, 1 / plan.blocks)
        if name not in IN_SWITCH:
            assert counted.sent.sum() == pytest.approx(counted.received.sum())
        assert sum(counted.pairs.values()) == pytest.approx(
            counted.sent.sum() + sum(v for (source, _), v in counted.pairs.items() if not isinstance(source, int))
        )
        assert all(source != target for source, target in counted.pairs)
        twice = operation == "all_reduce" and name not in IN_SWITCH
        bound = 1 if operation in ("broadcast", "point_to_point") else (1 + twice) * (n - 1) / n
        assert counted.bytes >= bound * (1 - 1e-12)
        symmetric = operation in ("all_gather", "reduce_scatter", "all_to_all") or name in ("ring", "one_shot")
        if symmetric and operation != "broadcast":
            assert np.ptp(counted.sent) == pytest.approx(0) and np.ptp(counted.received) == pytest.approx(0)


def test_arrays_are_the_scalar_loop():
    sizes, ranks = np.array([[0.0], [1e3], [1e9]]), np.array([1, 2, 8, 64])
    for operation, name in FORMS:
        table = collective_time(operation, sizes, ranks, 5e10, 1e-6, name)
        assert table.shape == (3, 4)
        loop = [[collective_time(operation, d, n, 5e10, 1e-6, name) for n in ranks] for d in sizes[:, 0]]
        assert table == pytest.approx(np.array(loop))
        assert (table[:, 0] == 0).all() and (table[:, 1:] > 0).all()


@given(st.integers(2, 2**40), SIZES)
def test_large_groups_by_hand(n, size):
    up, down = (n - 1).bit_length(), n.bit_length() - 1
    for operation, name, steps in (
        ("all_gather", "bruck", up),
        ("all_reduce", "double_binary_tree", 2 * up),
        ("broadcast", "tree", down),
        ("all_reduce", "ring", 2 * (n - 1)),
    ):
        assert steps_and_bytes(operation, name, size, n)[0] == steps
    if n < 2000:
        ones = sum(j.bit_count() for j in range(n))
        assert steps_and_bytes("all_to_all", "bruck", size, n)[1] == pytest.approx(size * ones / n)
    assert steps_and_bytes("all_to_all", "bruck", size, 2**up)[1] == pytest.approx(size * up / 2)


@given(SIZES, st.integers(1, 64), BANDWIDTHS, st.floats(0, 1e-3))
def test_all_reduce_is_reduce_scatter_then_all_gather(size, n, bandwidth, latency):
    for name in ("ring", "bidirectional_ring", "bruck", "direct"):
        parts = [collective_time(o, size, n, bandwidth, latency, name) for o in ("reduce_scatter", "all_gather")]
        assert collective_time("all_reduce", size, n, bandwidth, latency, name) == pytest.approx(sum(parts))


# Hierarchical


def grid_cases():
    for operation in GRID_OPERATIONS:
        for x, y in GRIDS:
            yield operation, x, y, {}
            if operation in ("all_to_all", "point_to_point"):
                yield operation, x, y, {"hb_first": True}
            elif operation != "broadcast":
                yield operation, x, y, {"hb_algorithm": "nvls", "nic_algorithm": "in_network"}
                yield operation, x, y, {"hb_algorithm": "bruck", "nic_algorithm": "bidirectional_ring"}
                yield operation, x, y, {"hb_algorithm": "bidirectional_ring", "nic_algorithm": "direct"}
    for x, y in GRIDS:
        yield "all_reduce", x, y, {"nic_algorithm": "double_binary_tree"}
        yield "broadcast", x, y, {"nic_algorithm": "tree"}
        yield "all_to_all", x, y, {"hb_algorithm": "bidirectional_ring", "nic_algorithm": "bruck", "hb_first": True}


@pytest.mark.parametrize("operation", GRID_OPERATIONS)
def test_hierarchical_schedules_are_exact_stay_on_rails_and_cost_what_the_formula_says(operation):
    for _, x, y, options in [case for case in grid_cases() if case[0] == operation]:
        plan = hierarchical_schedule(operation, x, y, **options)
        assert exact(plan)
        split = domain_rail_bytes(plan, plan.blocks, x)
        assert split.across_rails == 0
        assert split.by_domain.sum() + split.network == pytest.approx(sum(count_bytes(plan).pairs.values()))
        names = {key: name for key, name in options.items() if key != "hb_first"}
        steps = hierarchical_phase_times(operation, 0, x, y, 1, 1, 1, 1, **names)
        assert sum(steps.values()) == len(plan)
        phases = hierarchical_phase_times(operation, plan.blocks, x, y, 1, 1, **names)
        for where, kind in (("hb", 0), ("nic", 1)) if x > 1 and y > 1 else ():
            wanted = sum(time for name, time in phases.items() if name.startswith(where))
            assert busiest(plan, x)[kind] == pytest.approx(wanted), (x, y, options, where)


def busiest(plan, x):
    """Bytes through the busiest port inside HB domains and on rails: a phase's, added up over the phases."""
    totals = [0.0, 0.0]
    phases = []
    for step in plan:
        kind = int(any(not inside(send, x) for send in step))
        if not phases or phases[-1][0] != kind:
            phases.append((kind, []))
        phases[-1][1].append(step)
    for kind, steps in phases:
        totals[kind] += count_bytes(Schedule(plan.operation, plan.ranks, plan.parts, tuple(steps))).bytes
    return totals


def inside(send, x):
    ends = (send.source, send.target)
    if all(isinstance(end, int) for end in ends):
        return ends[0] // x == ends[1] // x
    return any(not isinstance(end, int) and end[0] == "hb" for end in ends)


@given(SIZES, st.integers(1, 64), BANDWIDTHS, BANDWIDTHS, st.floats(0, 1e-3), st.floats(0, 1e-3))
def test_one_domain_or_one_gpu_a_domain_is_flat(size, n, hb, nic, hb_latency, nic_latency):
    for operation in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
        name = "direct" if operation == "all_to_all" else "ring"
        one_domain = hierarchical_phase_times(operation, size, n, 1, hb, nic, hb_latency, nic_latency)
        assert sum(one_domain.values()) == pytest.approx(collective_time(operation, size, n, hb, hb_latency, name))
        one_gpu = hierarchical_phase_times(operation, size, 1, n, hb, nic, hb_latency, nic_latency)
        assert sum(one_gpu.values()) == pytest.approx(collective_time(operation, size, n, nic, nic_latency, name))
    assert hierarchical_time("all_reduce", size, 1, 1, hb, nic) == 0
    alone = collective_time("point_to_point", size, 2, hb)
    assert hierarchical_time("point_to_point", size, 2, 1, hb, nic) == pytest.approx(alone)
