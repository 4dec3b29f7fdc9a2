from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import DENSE, FREE_LINKS, H100, IDEAL_DOMAIN, MIXTURE, SOFTWARE, TIED, jobs, llama_8b

from railcore import catalog
from railcore.photonics.simulation import simulate
from railcore.photonics.stage_program import StageProgram, StepOptions, fsdp_options
from railcore.photonics.timetable import schedule
from railcore.photonics.workload import LINKS, RING_KINDS, WORKLOAD_KINDS, differing_replicas, training_step
from railcore.training import transfers
from railcore.training.layer import layer_costs
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.pipeline_schedule import pipeline_bubble_time
from railcore.training.runtime import MODERN, Runtime, catalog_runtime

NO_SYNC = StepOptions(sync_groups=())
SLOW_NODES = catalog_machine("DGX A100", hb_domain_size=4)
EACH_LAYER_MIXED = replace(MIXTURE, expert_layer_interval=1)  # else `iteration` gives dense layers a part of the tokens


def one_of_each_stage(strategy):
    """Ranks of one replica."""
    return set(range(0, strategy.gpus, strategy.gpus // strategy.pipeline))


def message_bytes(workload, kind):
    """Bytes of a kind's messages over one replica's ranks; of a hop once."""
    ranks, total = one_of_each_stage(workload.strategy), 0.0
    for op in range(len(workload.program)):
        what, members = workload.operation(op), workload.ranks[op]
        if what.kind == kind:
            total += what.message_bytes * (
                members[0] in ranks if what.group == "hop" else len(ranks.intersection(members))
            )
    return total


@given(jobs(), st.sampled_from((2, 4)), st.booleans(), st.booleans())
def test_bytes_are_those_of_the_transfers(job, gradient_bytes, scatter_gather, fp8_weights):
    model, strategy, batch = job
    sent = Runtime(gradient_bytes=gradient_bytes, scatter_gather=scatter_gather, fp8_weights=fp8_weights)
    box = H100.changed(precision="fp8")
    workload = training_step(model, box, strategy, batch, StepOptions(sync_groups=(), detail=True), sent)
    rows = transfers.step_transfers(model, strategy, batch, sent, "fp8")
    for kind in ("context", "expert", "pipeline", "data"):
        wanted = sum(
            row.calls * row.message_bytes * row.stage_weights(strategy).sum() for row in rows if row.kind == kind
        )
        assert message_bytes(workload, kind) == pytest.approx(wanted, rel=1e-12)
    # Of tensor ranks what operators exchange; what they exchange for hops, embedding and logits is part of computes.
    wanted = sum(
        row.calls * row.message_bytes * row.stage_weights(strategy).sum() for row in rows if row.per == "operator"
    )
    assert message_bytes(workload, "tensor") == pytest.approx(wanted, rel=1e-12)


def test_bytes_of_the_llama_8b_run_equal_its_trace():
    """957.375 MiB are gathered on each rank of the first stage, 3,829.5 MiB reduced; a message is 16 MiB a rank."""
    workload = training_step("Llama-3 8B", SLOW_NODES, llama_8b(), 4, fsdp_options(), MODERN)
    table = workload.table
    first = table[(table["kind"] == "data") & (table["stage"] == 0) & (table["group"] == "replica 0")]
    gathered = first.loc[first["operation"] == "all_gather", "message_bytes"].sum()
    assert gathered / 2 == 957.375 * 2**20
    assert first.loc[first["operation"] == "reduce_scatter", "message_bytes"].sum() == 3829.5 * 2**20
    assert set(table.loc[table["operation"] == "send_receive", "message_bytes"]) == {16 * 2**20}
    norms = table[table["phase"] == "after"]
    assert list(norms.loc[[0 in ranks for ranks in norms["ranks"]], ["kind", "operation"]].agg(" ".join, axis=1)) == [
        "data all_reduce",
        "pipeline all_reduce",
        "compute optimizer",
    ]


@given(jobs(), st.sampled_from(catalog.names("runtimes")))
def test_compute_of_a_rank_is_that_of_the_iteration(job, runtime):
    """In one HB domain all but hops and the exchange of weights is compute, as long as `iteration` says."""
    model, strategy, batch = job
    runtime, machine = catalog_runtime(runtime), H100.changed(hb_domain_size=strategy.gpus)
    workload = training_step(model, machine, strategy, batch, NO_SYNC, runtime)
    columns = {name: np.asarray(value) for name, value in strategy.columns(batch).items()}
    layer, m = layer_costs(model, machine, runtime, columns), strategy.microbatches(batch)
    p, v = strategy.pipeline, strategy.interleave
    compute = np.zeros(strategy.gpus)
    for op in range(len(workload.program)):
        if workload.operation(op).operation in ("forward", "backward"):
            compute[workload.ranks[op][0]] += workload.seconds[op]
    wanted = np.full(p, m * model.layers / p * float(layer.forward_s + layer.backward_s))
    if p > 1:  # inputs of the forward and backward passes that come from another stage
        inputs = 2 * v - np.isin(np.arange(p), (0,)) - np.isin(np.arange(p), (p - 1,))
        wanted += m * inputs * float(layer.boundary_gather.time_s)
    wanted[-1] += m * float(layer.logits_s)
    assert compute.reshape(p, -1) == pytest.approx(np.repeat(wanted[:, None], strategy.gpus // p, axis=1), rel=1e-9)


@given(jobs((DENSE, EACH_LAYER_MIXED)), st.sampled_from(("modern", "megatron2021")))
def test_detail_takes_as_long_where_nothing_leaves_the_domain(job, runtime):
    model, strategy, batch = job
    if strategy.recompute == "selective" and runtime != "modern":
        return  # what is computed again hides keys and values on their way, which `iteration` does not count
    # What hides slows no compute here; a longer exchange of keys would begin beside the layer before.
    machine = H100.changed(hb_domain_size=strategy.gpus, collective_processors=0, call_latency_s=0.0, **IDEAL_DOMAIN)
    plain, detailed = (
        simulate(training_step(model, machine, strategy, batch, StepOptions(detail=detail), catalog_runtime(runtime)))
        for detail in (False, True)
    )
    assert detailed.total_s == pytest.approx(plain.total_s, rel=1e-9)
    kinds = set(detailed.table["kind"])
    assert ("tensor" in kinds) == (strategy.tensor > 1) and ("context" in kinds) == (strategy.context > 1)
    assert ("expert" in kinds) == (strategy.expert > 1)


@pytest.mark.parametrize(("p", "v", "m"), [(1, 1, 3), (2, 1, 4), (4, 1, 8), (4, 1, 3), (2, 2, 4), (4, 2, 8), (4, 4, 4)])
def test_time_with_free_links_is_that_of_the_schedule(monkeypatch, p, v, m):
    """Without logits all stages are alike, and the bubble has its closed form."""
    read = StageProgram._read_times
    monkeypatch.setattr(StageProgram, "_read_times", lambda self: (read(self), setattr(self, "logits_s", 0.0)))
    model, machine = replace(DENSE, layers=16), H100.changed(**FREE_LINKS)
    strategy = Strategy(pipeline=p, interleave=v)
    timeline = simulate(training_step(model, machine, strategy, m, NO_SYNC, MODERN))
    columns = {name: np.asarray(value) for name, value in strategy.columns(m).items()}
    layer = layer_costs(model, machine, MODERN, columns)
    forward_s, backward_s = (16 / p * float(time) for time in (layer.forward_s, layer.backward_s))
    table = timeline.table
    optimizer_s = (table["end_s"] - table["start_s"])[table["operation"] == "optimizer"].max()
    wanted = schedule("interleaved" if v > 1 else "1f1b", p, m, forward_s, backward_s, chunks=v)
    assert timeline.total_s - optimizer_s == pytest.approx(wanted.total_s, rel=1e-9)
    bubble_s = float(pipeline_bubble_time(p, m, forward_s, backward_s, v))
    if m >= p:
        assert timeline.total_s - optimizer_s == pytest.approx(m * (forward_s + backward_s) + bubble_s, rel=1e-9)
    passes = table[table["operation"].isin(["forward", "backward"])].sort_values("start_s")
    for stage in range(p):  # the order of computes is the schedule's
        mine = passes[passes["stage"] == stage]
        virtual = mine["chunk"] * p + stage
        position = np.where(mine["operation"] == "forward", virtual, 2 * p * v - 1 - virtual)
        assert np.array_equal(position * m + mine["microbatch"], wanted.order[stage])


@pytest.mark.parametrize("v", [1, 2])
@pytest.mark.parametrize(("sharding", "reshard"), [(s, r) for s in ("none", "optimizer", "weights") for r in (0, 1)])
def test_weights_are_gathered_in_every_pass_or_once(sharding, reshard, v):
    strategy, m = replace(llama_8b(interleave=v), sharding=sharding), 4
    options = StepOptions(reshard_after_forward=bool(reshard))
    table = training_step(DENSE, H100, strategy, 2 * m, options).table
    layers, passes = DENSE.layers // 2, 2 * m if sharding == "weights" and reshard else 1
    gathers = table[(table["operation"] == "all_gather") & (table["group"] == "replica 0")]
    assert len(gathers) == layers * (0 if sharding == "none" else passes)
    if sharding == "weights" and reshard:
        assert (gathers.groupby("phase").size() == layers * m).all()
    reduces = table[(table["phase"] == "backward") & (table["kind"] == "data") & (table["group"] == "replica 0")]
    reduces = reduces[reduces["operation"] != "all_gather"]
    assert len(reduces) == layers * (m if sharding == "weights" else 1)
    assert set(reduces["operation"]) == {"all_reduce" if sharding == "none" else "reduce_scatter"}
    last = reduces if sharding == "weights" else reduces[reduces["microbatch"] == m - 1]
    assert len(last) == len(reduces)


@given(jobs(), st.sampled_from(SOFTWARE))
def test_the_graph_is_whole(job, options):
    """No cycle; every group has all its ranks; what a rank computes is one after another; iterations follow."""
    model, strategy, batch = job
    workload = training_step(model, H100, strategy, batch, options, iterations=2)
    assert sorted(in_order(workload)) == list(range(len(workload.program)))
    groups = {kind: {tuple(row) for row in strategy.groups(kind)} for kind in ("tensor", "context", "replica")}
    groups |= {kind: {tuple(row) for row in strategy.groups(kind)} for kind in ("expert", "expert_replica", "pipeline")}
    table = workload.table
    assert list(table["op"]) == list(range(len(table))) and set(table["kind"]) <= set(WORKLOAD_KINDS)
    assert set(table["link"]) <= set(LINKS) and set(workload.rail_rings) <= set(RING_KINDS)
    for op, ranks in enumerate(workload.ranks):
        kind = workload.operation(op).group
        assert kind not in groups or ranks in groups[kind]
    twice = table.groupby("iteration").size()
    assert twice[0] == twice[1]
    alike = table.groupby("burst")[["group", "kind", "operation", "phase", "chunk", "microbatch", "iteration"]]
    assert (alike.nunique() == 1).all().all()


@given(jobs(), st.sampled_from(SOFTWARE))
def test_one_replica_has_its_part_of_the_whole(job, options):
    model, strategy, batch = job
    if differing_replicas(H100, strategy):
        return
    one, whole = (training_step(model, H100, strategy, batch, options, one_replica=yes) for yes in (True, False))
    every = {(whole.program[op], whole.ranks[op]): op for op in range(len(whole.program))}
    assert one.simulated == one_of_each_stage(strategy)
    for op, ranks in enumerate(one.ranks):
        twin = every[one.program[op], ranks]
        for name in ("link", "seconds", "least_s", "sent_bytes", "ring_bytes", "steps", "ring_steps"):
            assert getattr(one, name)[op] == getattr(whole, name)[twin]
        mine = {(one.program[each], one.ranks[each]) for each in one.after[op]}
        all_of_it = {(whole.program[each], whole.ranks[each]) for each in whole.after[twin]}
        assert mine == {each for each in all_of_it if one.simulated.intersection(each[1])}


def in_order(workload):
    """Operations, each after those that it waits for; a cycle is an error."""
    return TopologicalSorter(dict(enumerate(workload.after))).static_order()


def ancestors(workload):
    """What each operation waits for, also through others."""
    found = [set() for _ in workload.after]
    for op in in_order(workload):
        for before in workload.after[op]:
            found[op] |= found[before] | {before}
    return found


def stage_step(options, strategy=None, batch=8, runtime=MODERN):
    """Rows of a small step of one replica by what they are, and what each waits for."""
    strategy = strategy or llama_8b()
    workload = training_step(replace(DENSE, layers=8), H100, strategy, batch, options, runtime, one_replica=True)
    return workload.table, ancestors(workload)


def ops(table, **wanted):
    """Numbers of the operations that are so."""
    return table.loc[(table[list(wanted)] == pd.Series(wanted)).all(axis=1), "op"].tolist()


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_layer_waits_for_its_weights_and_these_for_the_input(phase):
    table, before = stage_step(StepOptions())
    for op in ops(table, kind="compute", operation=phase):
        row = table.loc[op]
        of_pass = {"stage": row["stage"], "microbatch": row["microbatch"], "phase": phase}
        gathers = ops(table, operation="all_gather", **of_pass)
        (own,) = ops(table.loc[gathers], layer=row["layer"])
        assert own in before[op]
        assert all(a in before[b] for a, b in pairwise(gathers))  # one after another
        from_stage = row["stage"] + (-1 if phase == "forward" else 1)
        hop = {"operation": "send_receive", "stage": from_stage, "microbatch": row["microbatch"], "phase": phase}
        assert all(each in before[own] for each in ops(table, **hop))


@pytest.mark.parametrize(("v", "overlap"), [(1, True), (1, False), (2, True), (2, False)])
def test_a_hop_waits_for_its_receiver_but_for_interleaved_chunks_that_overlap(v, overlap):
    runtime = replace(MODERN, overlap_pipeline=overlap)
    table, before = stage_step(NO_SYNC, llama_8b(interleave=v), 8, runtime)
    early = 0
    for hop in ops(table, operation="send_receive"):
        sender = table.loc[hop, "stage"]
        computes = [op for stage in (0, 1) for op in ops(table, kind="compute", stage=stage) if op in before[hop]]
        assert {table.loc[op, "stage"] for op in computes} >= {sender}
        takes = min(op for op in ops(table, kind="compute", stage=1 - sender) if hop in before[op])
        own = [op for op in ops(table, kind="compute", stage=1 - sender) if op < takes]
        early += any(op not in before[hop] for op in own)
    assert bool(early) == (v > 1 and overlap)


@pytest.mark.parametrize("after_pass", [True, False])
def test_gradients_follow_their_layer_or_their_pass(after_pass):
    """After a pass they go before its output; behind it, each when its layer is computed."""
    table, before = stage_step(StepOptions(reshard_after_forward=False, gradients_after_pass=after_pass))
    for stage in (0, 1):
        for microbatch in range(4):
            of_pass = {"stage": stage, "microbatch": microbatch, "phase": "backward"}
            sums, computes = ops(table, kind="data", **of_pass), ops(table, kind="compute", **of_pass)
            assert table.loc[sums, "layer"].tolist() == sorted(table.loc[sums, "layer"], reverse=True)
            assert all(a in before[b] for a, b in pairwise(sums))
            for op in sums:
                layer = table.loc[op, "layer"]
                missing = [each for each in computes if each not in before[op]]
                assert all(0 <= table.loc[each, "layer"] < layer for each in missing)
                assert not (after_pass and missing)
            for hop in ops(table, operation="send_receive", **of_pass):
                assert computes[-1] in before[hop]
                assert (sums[-1] in before[hop]) == after_pass


@pytest.mark.parametrize("groups", [("replica", "pipeline"), ("pipeline", "replica"), ("pipeline",), ("replica",), ()])
def test_the_optimizer_waits_for_gradients_and_for_sums_of_norms_in_their_order(groups):
    table, before = stage_step(StepOptions(sync_groups=groups))
    norms = [op for op in ops(table, phase="after") if table.loc[op, "kind"] != "compute"]
    kinds = ["data" if group == "replica" else "pipeline" for group in groups]
    assert list(dict.fromkeys(table.loc[norms, "kind"])) == kinds
    for optimizer in ops(table, operation="optimizer"):
        stage = table.loc[optimizer, "stage"]
        last = [ops(table, kind=kind, stage=stage, phase="backward")[-1] for kind in ("compute", "data")]
        assert before[optimizer].issuperset(last)
        mine = [op for op in norms if table.loc[op, "kind"] == "pipeline" or table.loc[op, "stage"] == stage]
        assert before[optimizer].issuperset(mine) and all(a in before[b] for a, b in pairwise(mine))
        for op in norms:  # one over the pipeline waits for all stages
            own = (stage,) if table.loc[op, "kind"] == "data" else (0, 1)
            needed = [ops(table, kind="data", stage=each, phase="backward")[-1] for each in own]
            assert op not in mine or before[op].issuperset(needed)


@pytest.mark.parametrize(("sharding", "parts"), [("none", 1), ("optimizer", 1), ("gradients", 2), ("weights", 2)])
def test_tied_embeddings_are_summed_over_both_ends(sharding, parts):
    """Whole, or shard by shard where gradients are sharded as they come."""
    strategy = Strategy(tensor=2, pipeline=4, data=2, sharding=sharding)
    table = training_step(TIED, H100, strategy, 8, NO_SYNC, MODERN).table
    ends = table[table["group"].str.startswith("ends")]
    assert set(ends["ranks"]) == {(rank, 12 + rank) for rank in range(4)}
    assert set(ends["message_bytes"]) == {TIED.vocabulary * TIED.hidden / 2 / parts * MODERN.gradient_bytes}
    assert training_step(TIED, H100, Strategy(data=8), 8).table["group"].str.startswith("ends").sum() == 0


def test_odd_steps_are_told():
    assert (
        "9 layers do not fill 4 chunks: the step has 12, 33.3% more."
        in training_step(replace(DENSE, layers=9), H100, Strategy(pipeline=4), 4).warnings
    )
    box = H100.changed(hb_domain_size=12)
    uneven = Strategy(tensor=4, data=4)
    assert any("replica ranks lie unevenly" in text for text in training_step(DENSE, box, uneven, 4).warnings)
    assert differing_replicas(box, uneven) and not differing_replicas(H100, uneven)
    assert not training_step(DENSE, H100, uneven, 4).warnings
    small = H100.changed(memory_bytes=1e9)
    assert any("a GPU has 1 GB" in text for text in training_step(DENSE, small, uneven, 4).warnings)
