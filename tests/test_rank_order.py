"""Where groups of ranks lie: ranks counted one by one, the closed form, and all models that read it, for any order."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jobs import DENSE, MIXTURE, TIED

from railcore.photonics import circuits
from railcore.photonics.estimate import circuit_terms, overhead_estimate
from railcore.photonics.simulation import RAIL
from railcore.photonics.stage_program import StepOptions
from railcore.photonics.workload import training_step
from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import DIMENSIONS, Strategy
from railcore.training.rank_order import GroupLevels, group_levels
from railcore.training.runtime import MODERN
from railcore.training.traffic import iteration_traffic
from railcore.training.transformer import SHARDING

BOX = catalog_machine("DGX H100")
NEAR = ("tensor", "context", "pipeline", "data")
STEP = StepOptions(sync_groups=(), detail=True)


@st.composite
def layouts(draw):
    """Any strategy as to where its ranks lie, and an HB domain."""
    sizes = {name: draw(st.sampled_from((1, 2, 3, 4, 6))) for name in DIMENSIONS}
    whole = draw(st.booleans())
    spread = sizes["context"] * sizes["data"] * (sizes["tensor"] if whole else 1)
    expert = draw(st.sampled_from([e for e in range(1, spread + 1) if spread % e == 0]))
    order = tuple(draw(st.permutations(DIMENSIONS)))
    return Strategy(**sizes, expert=expert, whole_experts=whole, order=order), draw(st.integers(1, 40))


@given(layouts())
@example((Strategy(context=4, data=3, pipeline=2, expert=6, order=NEAR), 8))
@example((Strategy(2, context=2, data=2, order=("context", "pipeline", "tensor", "data")), 4))
def test_the_closed_form_counts_the_ranks_in_domains(case):
    strategy, K = case
    for kind, group in strategy.group_levels().items():
        found = [Counter(rank // K for rank in ranks) for ranks in strategy.groups(kind).tolist()]
        inside, domains = (int(each) for each in group.in_domains(K))
        assert inside * domains == group.ranks == sum(found[0].values())
        if not group.lie_unevenly(K):
            assert {(*counts.values(),) for counts in found} == {(inside,) * domains}, kind
        if domains == 1 and not K % group.inner_stride and not K % group.outer_stride:
            assert max(map(len, found)) == 1, kind  # never nearer than it is


@given(st.lists(layouts(), min_size=1, max_size=6))
def test_arrays_of_strategies_have_the_groups_of_each(cases):
    strategies = [strategy for strategy, _ in cases]
    several = [strategy.columns(8) for strategy in strategies]
    levels = group_levels({name: np.array([each[name] for each in several]) for name in several[0]})
    for place, (strategy, K) in enumerate(cases):
        assert Strategy.from_columns(several[place]) == strategy
        for kind, alone in strategy.group_levels().items():
            one = GroupLevels(*(np.broadcast_to(values, len(cases))[place] for values in levels[kind]))
            assert [int(x) for x in one.in_domains(K)] == [int(x) for x in alone.in_domains(K)]
            assert bool(one.lie_unevenly(K)) == bool(alone.lie_unevenly(K))


@st.composite
def small_jobs(draw):
    """A job that all models take, of any order, whose groups lie evenly in HB domains with tensor ranks in one."""
    model = draw(st.sampled_from((DENSE, TIED, MIXTURE)))
    t, c, d, p = (draw(st.sampled_from((1, 2, 4))) for _ in range(4))
    assume(t * c * d * p <= 32)
    experts = [e for e in (1, 2, 4) if c * d % e == 0] if model.experts else [1]
    strategy = Strategy(
        t,
        c,
        p,
        d,
        draw(st.sampled_from(experts)),
        sequence_parallel=t > 1,
        sharding=draw(st.sampled_from(SHARDING)),
        order=tuple(draw(st.permutations(DIMENSIONS))),
    )
    K = draw(st.sampled_from((1, 2, 4, 8, 16)))
    levels = strategy.group_levels()
    assume(levels["tensor"].in_domains(K)[1] == 1 and not any(group.lie_unevenly(K) for group in levels.values()))
    return model, strategy, d * p * draw(st.sampled_from((1, 2))), K


@given(small_jobs())
@example((DENSE, Strategy(4, pipeline=2, data=2, order=NEAR, sequence_parallel=True), 4, 8))
@example((TIED, Strategy(2, 2, 2, 2, order=("pipeline", "tensor", "data", "context"), sequence_parallel=True), 4, 4))
def test_all_models_send_the_same_bytes_between_domains(case):
    """The step's graph, traffic, the iteration and the estimate of photonic rails, against ranks counted one by one."""
    model, strategy, batch, K = case
    box = BOX.changed(hb_domain_size=K)
    step = training_step(model, box, strategy, batch, STEP)
    far = {
        kind
        for kind in strategy.group_levels()
        if any(len({rank // K for rank in ranks}) > 1 for ranks in strategy.groups(kind).tolist())
    }
    names = {"pipeline": "pipeline", "context": "context", "expert": "expert", "replica": "data"}
    names["expert_replica"] = "data"
    on_rails = {step.operation(op).kind for op, link in enumerate(step.link) if link == 2}
    assert on_rails <= {names[kind] for kind in far}
    for kind in {"pipeline", "context", "replica"} & far:
        assert names[kind] in on_rails
    groups = {kind: set(map(tuple, strategy.groups(kind).tolist())) for kind in (*names, "tensor")}
    neighbours = {pair for ranks in groups["pipeline"] for pair in pairwise(ranks)}
    crossing = Counter()
    for op, ranks in enumerate(step.ranks):
        what = step.operation(op)
        if what.group == "hop":
            assert ranks in neighbours or ranks[::-1] in neighbours
        assert what.group not in groups or ranks in groups[what.group]
        if step.link[op] == 2:
            each = step.sent_bytes if what.kind == "expert" else step.ring_bytes
            crossing[what.kind] += each[op] * (1 if what.group == "hop" else len(ranks))
    if strategy.gpus > 1:
        domain = np.arange(strategy.gpus) // K
        for kind, part in iteration_traffic(model, strategy, batch).matrices.items():
            away = part.bytes[domain[part.targets] != domain[:, None]].sum()
            assert kind in ("tensor", "sequence") or crossing.pop(kind, 0.0) == pytest.approx(away, rel=1e-9), kind
        assert sum(crossing.values()) == 0
    links = iteration_times(model, box, strategy, global_batch=batch)
    latency = iteration_times(model, box.changed(nic_latency_s=1.0), strategy, global_batch=batch)
    for kind, name in {"pipeline": "pipeline", "context": "context", "replica": "data"}.items():
        later = (latency.links[f"{name}_link_s"] - links.links[f"{name}_link_s"]).item() > 0.5
        assert later == (kind in far or (name == "data" and "expert_replica" in far)), kind


@given(small_jobs())
def test_the_estimate_of_photonic_rails_has_the_kinds_on_the_rails(case):
    """Circuits change where the first rank's NIC takes part in exchanges of more than one kind of circuits."""
    model, strategy, batch, K = case
    box, kinds = BOX.changed(hb_domain_size=K), {}
    step = training_step(model, box, strategy, batch)
    for op, ranks in enumerate(step.ranks):
        if step.link[op] == RAIL and 0 in ranks:
            kind = "hop" if step.operation(op).group == "pipeline" else step.operation(op).group
            kinds.setdefault(kind, set()).update(pair for pair in step.transfers(op, forwarded=True) if 0 in pair)
    if strategy.pipeline == 2:
        kinds.pop("ends", None)  # those of the hops
    terms = circuit_terms(model, box, MODERN, (), {name: np.array(n) for name, n in strategy.columns(batch).items()})
    assert (terms.changes_s(1e3, False) > 0) == (len({frozenset(pairs) for pairs in kinds.values()}) > 1)


def test_a_pipeline_of_neighbours_needs_no_circuits():
    """Llama-3 8B on two DGX H100: hops of the default order go over the rails, with pipeline ranks near they do not."""
    box = BOX.changed(hb_domain_size=8)
    for order, idle in ((NEAR, True), (DIMENSIONS, False)):
        strategy = Strategy(4, pipeline=2, data=4, order=order)
        run = circuits.photonic_overhead("Llama-3 8B", box, strategy, 1e-2, 16)
        estimate = float(overhead_estimate("Llama-3 8B", box, strategy.columns(16), 1e-2).overhead)
        assert (run["overhead"] == 0).all() == idle == (estimate == 0)
        assert (run["reconfigurations"] == 0).all() == idle
