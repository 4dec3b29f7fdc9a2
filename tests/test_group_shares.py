"""Shares of a NIC by kind of traffic: held to flows that are routed one by one, and to what they must be at limits."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from graph_faults import lost_on_the_wiring
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rerouted import share_left
from test_graph import fabrics

from railcore.network.bill import bill_total
from railcore.network.cost import cluster_fabrics
from railcore.network.price_books import PriceBook, power_book, price_book
from railcore.network.topology import faults, routed_flows
from railcore.network.topology.blocks import rail_blocks
from railcore.network.topology.failed_part import FailedPart, has_part, lost_gpus
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized
from railcore.network.topology.wiring import whole_wiring
from railcore.planner.goodput import training_goodput
from railcore.planner.job_comparison import job_networks
from railcore.planner.slowdowns import failed_part_slowdowns
from railcore.strategies.parts import search
from railcore.strategies.space import strategy_blocks
from railcore.training.group_shares import group_shares
from railcore.training.iteration import iteration_time, iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import DIMENSIONS, Strategy
from railcore.training.rank_order import group_levels
from railcore.training.transformer import Transformer
from suite.railonly2025.expert_routing import expert_all_to_all_time

H100 = catalog_machine("DGX H100")
DENSE = Transformer("dense", 8, 1152, 24, 24, 4608, 32000, 512, ffn_matrices=2)
MIXTURE = replace(DENSE, name="mixture", experts=16, top_k=2)
DOMAINS = st.sampled_from([2, 3, 4, 6, 8, 12, 16])
RATIOS = st.sampled_from([1.0, 1.5, 2.0, 4.0])


@st.composite
def cases(draw, domains=DOMAINS):
    """A fabric whose HB domains are full, and a strategy on all its GPUs."""
    K = draw(st.sampled_from([1, 2, 4, 6, 8]))
    gpus, radix = K * draw(domains), draw(st.sampled_from([4, 8, 16]))
    rails = draw(st.sampled_from([0, 0, 1, 1, 2]))
    layer = draw(st.sampled_from([math.inf, 1.0, 1.5, 3.0])) if rails != 1 else math.inf
    options = {"planes": draw(st.sampled_from([1, 1, 2])), "rails": rails if K % max(rails, 1) == 0 else 0}
    within = draw(st.sampled_from([(), (draw(RATIOS),), (draw(RATIOS), draw(RATIOS))]))
    options |= {"fan_in": draw(st.sampled_from([(), (), (3,), (16, 2), (2, 3)])), "one_pod": layer == 1}
    options["one_pod"] &= draw(st.booleans())
    fabric = RailFabric(gpus, K, radix, layer, tier_oversubscription=within, **options)
    sizes, left = {}, gpus
    for name in draw(st.permutations(DIMENSIONS)):
        sizes[name] = draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
        left //= sizes[name]
    sizes["data"] *= left
    ranks = sizes["context"] * sizes["data"]
    sizes["expert"] = draw(st.sampled_from([n for n in range(1, ranks + 1) if ranks % n == 0]))
    order = draw(st.permutations(DIMENSIONS))
    return fabric, Strategy(**sizes, order=tuple(order))


def shares_of(fabric, strategy, K=None):
    return group_shares(fabric, strategy.group_levels(), K or fabric.hb_domain_size, strategy.gpus)


def routed_share(fabric, source, target):
    """Share of a NIC that flows of one byte get, routed one by one; None without flows between domains."""
    across = source // fabric.hb_domain_size != target // fabric.hb_domain_size
    flows = pd.DataFrame({"source": source[across], "target": target[across], "bytes": 1.0})
    return routed_flows.nic_bandwidth_share(fabric, flows) if len(flows) else None


def pairs(kind, ranks, K):
    """Who sends to whom at a time in groups of a kind: the next on each of the group's rails, or all others on it."""
    if kind == "pipeline":  # forwarded to the rail of its target
        source, target = ranks.ravel(), np.roll(ranks, -1, axis=1).ravel()
        return np.where(source // K == target // K, source, source // K * K + target % K), target
    if kind == "expert":
        source, target = (np.repeat(ranks, ranks.shape[1], axis=1), np.tile(ranks, (1, ranks.shape[1])))
        return source[source % K == target % K], target[source % K == target % K]
    rails = [members[members % K == place] for members in ranks for place in np.unique(members % K)]
    return np.concatenate(rails), np.concatenate([np.roll(rail, -1) for rail in rails])


def even(group, K):
    """Whether groups lie evenly in HB domains, and each of their ranks at one place in all of them."""
    runs = group.joined()
    strides = ((runs.inner, runs.inner_stride), (runs.outer, runs.outer_stride))
    return not group.lie_unevenly(K) and all(n == 1 or stride < K or stride % K == 0 for n, stride in strides)


@given(cases())
@settings(max_examples=150)
@example((fat_tree(64, 8, 8, tier_oversubscription=(2.0,)), Strategy(tensor=4, pipeline=4, data=4)))
@example((RailFabric(48, 4, 8, 3.0), Strategy(tensor=2, data=24, expert=24)))
@example((fat_tree(96, 8, 8, tier_oversubscription=(3.0,)), Strategy(tensor=8, context=3, data=4, expert=2)))
@example((fat_tree(768, 16, 8, tier_oversubscription=(4.0,)), Strategy(tensor=8, context=3, data=32, expert=2)))
def test_shares_are_those_of_flows_routed_one_by_one(case):
    fabric, strategy = case
    K, found = fabric.hb_domain_size, shares_of(*case)
    # Of stages that share a domain only some GPUs send: exact where leaves do not end within domains.
    ends = [tier.last * fabric.rails % K for tier in rail_blocks(fabric)]
    ends_within = fabric.rails not in (1, K) or any(end.any() for end in ends)
    for kind, group in strategy.group_levels().items():
        if not even(group, K) or (kind == "pipeline" and ends_within):
            continue
        expected = routed_share(fabric, *pairs(kind, strategy.groups(kind), K))
        if expected is not None:
            assert found.by_kind[kind] == pytest.approx(expected, rel=1e-9), kind
    rails_meet = fabric.rails == 1 or math.isfinite(fabric.oversubscription)
    assert rails_meet or found.direct == 0
    if rails_meet and even(strategy.group_levels()["expert"], K):
        ranks = strategy.groups("expert")
        every = np.repeat(ranks, ranks.shape[1], axis=1).ravel(), np.tile(ranks, (1, ranks.shape[1])).ravel()
        expected = routed_share(fabric, *every)
        if expected is not None and fabric.rails in (1, K):
            assert found.direct == pytest.approx(expected, rel=1e-9)


@given(st.lists(cases(st.just(12)), min_size=1, max_size=5))
def test_arrays_of_strategies_have_the_shares_of_each(several):
    fabric = several[0][0]
    strategies = [strategy for other, strategy in several if other.gpus == fabric.gpus]
    columns = [each.columns(8) for each in strategies]
    levels = group_levels({name: np.array([each[name] for each in columns]) for name in columns[0]})
    many = group_shares(fabric, levels, fabric.hb_domain_size, fabric.gpus)
    for place, strategy in enumerate(strategies):
        one = shares_of(fabric, strategy)
        for kind in levels:
            assert np.broadcast_to(many.by_kind[kind], len(strategies))[place] == one.by_kind[kind]
        assert np.broadcast_to(many.direct, len(strategies))[place] == one.direct


@given(cases(), st.sampled_from([DENSE, MIXTURE]))
@settings(max_examples=20)
def test_a_full_fabric_is_todays_time_and_less_of_it_is_never_faster(case, model):
    fabric, strategy = case
    box, row = H100.changed(hb_domain_size=fabric.hb_domain_size), strategy.columns(strategy.data * 4)
    box = box if fabric.hb_domain_size > 1 else box.changed(hb_Bps=box.nic_Bps)

    def total_s(network):
        return iteration_times(model, box, row, fabric=network).total_s.item()

    alone = total_s(None)
    rails = replace(fabric, oversubscription=math.inf, tier_oversubscription=())
    assert total_s(rails) == alone
    assert total_s(rails.with_layer(1.0)) <= alone
    assert total_s(fabric) >= total_s(replace(fabric, tier_oversubscription=())) * (1 - 1e-12)
    layered = [total_s(rails.with_layer(ratio)) for ratio in (1.0, 2.0, 8.0)]
    assert layered == sorted(layered) and layered[-1] <= alone * (1 + 1e-12)
    if fabric.planes == 1 and fabric.tiers and fabric.hb_domain_size > 1:
        assert total_s(FailedPart(fabric, "NIC")) >= total_s(fabric) * (1 - 1e-12)


@given(cases(), st.booleans())
@settings(max_examples=60)
def test_more_uplinks_never_lower_a_share(case, layer):
    fabric, strategy = case
    if layer:
        assume(math.isfinite(fabric.oversubscription) and not fabric.tier_oversubscription)
        more = fabric.with_layer(max(fabric.oversubscription / 2, 1.0))
        assert shares_of(more, strategy).direct >= shares_of(fabric, strategy).direct - 1e-12
        return
    full = shares_of(replace(fabric, tier_oversubscription=()), strategy)
    for kind, share in shares_of(fabric, strategy).by_kind.items():
        assert 0 < share <= full.by_kind[kind] == 1


def test_a_symmetric_all_to_all_on_rail_only_is_the_closed_form_of_two_hops():
    strategy = Strategy(data=64, expert=64)
    place = H100.on(rail_only(64, 8, 16)).places({"expert": strategy.group_levels()["expert"]}, 64)["expert"]
    assert place == (8, 8, 1.0, 0.0)
    links = H100.changed(hb_latency_s=0.0, nic_latency_s=0.0)
    hb, nic = links.collective_hb_Bps, links.collective_nic_Bps
    for pipelined in (True, False):
        box = links.changed(pipelined=pipelined)
        expected = expert_all_to_all_time(1e9, 64, 8, hb, nic, "two-hop", pipelined=pipelined)
        assert box.all_to_all_links(1e9, *place).time_s == pytest.approx(float(expected), rel=1e-12)


def test_experts_go_straight_to_their_rails_where_that_is_faster():
    job = MIXTURE, H100.changed(pipelined=False), Strategy(data=256, expert=16).columns(256)
    times = {s: iteration_times(*job, fabric=RailFabric(256, 8, 64, s)).total_s.item() for s in (1.0, 64.0, math.inf)}
    assert times[1.0] < times[64.0] == times[math.inf]


def test_a_job_on_a_part_of_the_fabric_and_of_each_domain():
    """Idle GPUs leave their uplinks to the others."""
    fabric = fat_tree(288, 128, 72, tier_oversubscription=(3.0,))
    few, all_ = (shares_of(fabric, Strategy(tensor=t, data=36), K) for t, K in ((4, 36), (8, 72)))
    assert few.by_kind["replica"] > all_.by_kind["replica"]


def test_planes_carry_equal_parts_and_a_plane_that_fails_leaves_the_others():
    strategy = Strategy(tensor=8, pipeline=2, data=4)
    whole = rail_only(64, 8, 8, planes=4)
    assert set(shares_of(whole, strategy).by_kind.values()) == {1.0}
    for part in ("plane", "host link", "rail switch"):
        assert set(shares_of(FailedPart(whole, part), strategy).by_kind.values()) == {0.75}


@pytest.mark.parametrize(
    "fabric",
    [
        rail_only(128, 8, 16),
        rail_optimized(128, 8, 16),
        rail_optimized(128, 8, 64),
        rail_only(128, 8, 32, rails_per_switch=2),
        rail_only(512, 4, 16),
        fat_tree(64, 8, 4),
        rail_only(64, 8, 8, planes=4),
    ],
    ids=lambda fabric: f"{fabric.rails} rails of {fabric.radix} ports, {fabric.oversubscription:g}",
)
@pytest.mark.parametrize("part", ["NIC", "host link", "rail switch", "trunk link", "spine"])
def test_a_failed_part_leaves_what_rerouted_flows_get(fabric, part):
    """Rings of all domains: each of them leaves every block of switches."""
    K = fabric.hb_domain_size
    strategy = Strategy(tensor=K, data=fabric.gpus // K, order=("tensor", "data", "context", "pipeline"))
    if not has_part(fabric, part) or lost_gpus(fabric, part).size:
        return
    left = FailedPart(fabric, part)
    found = shares_of(left, strategy).by_kind["replica"]
    flows = routed_flows.domain_ring(fabric.gpus, K)
    assert found == pytest.approx(share_left(fabric, flows, part), rel=1e-9)
    one = FailedPart(fabric, part, "one other rail")
    expected = share_left(fabric, flows, part, one_neighbour=True)
    assert shares_of(one, strategy).by_kind["replica"] == pytest.approx(expected, rel=1e-9)


def test_photonic_rails_have_no_uplinks_and_lose_rings():
    strategy, rails = Strategy(tensor=8, pipeline=2, data=4), PhotonicRails(64, 8, 32, nic_ports=4)
    assert set(shares_of(rails, strategy).by_kind.values()) == {1.0}
    assert shares_of(FailedPart(rails, "host link"), strategy).by_kind["replica"] == 0.5  # one of two rings
    assert shares_of(FailedPart(rails, "circuit switch"), strategy).by_kind["replica"] == 0.5  # two rails on one


def test_an_hb_switch_less_slows_what_stays_in_the_domain():
    fabric, strategy = rail_only(64, 8, 16, hb_switches=4), Strategy(tensor=8, pipeline=2, data=4)
    times = [
        iteration_time(DENSE, H100, strategy, 32, fabric=network)
        for network in (fabric, FailedPart(fabric, "HB switch"))
    ]
    ratio = times[1].links["tensor_link_s"] / times[0].links["tensor_link_s"]
    assert 1 < ratio < 4 / 3 and times[1].links["data_link_s"] == times[0].links["data_link_s"]


@given(fabrics(gpus=st.integers(2, 60)))
@settings(max_examples=60)
def test_parts_and_the_gpus_that_they_take_are_those_of_the_wiring(fabric):
    assume(fabric.gpus % fabric.hb_domain_size == 0 and fabric.domains > 2)
    assume(fabric.hb_switches or fabric.hb_domain_size != 2)  # of a mesh of two, one alone has no HB domain either
    for part in set(faults.FAULT_KINDS) - {"spine"}:  # one that is the only one leaves several parts of a rail
        there = faults.wiring_left(whole_wiring(fabric), part) is not None
        assert has_part(fabric, part) == there
        if there:
            assert lost_gpus(fabric, part).tolist() == lost_on_the_wiring(fabric, part).tolist(), part


def test_goodput_of_a_published_run_and_what_its_parts_add_up_to():
    """Llama 3: over 90% of the time effective on 16,384 GPUs, by the defaults."""
    strategy = Strategy(tensor=8, pipeline=16, data=128, interleave=7, sequence_parallel=True, sharding="optimizer")
    job = "Llama-3 405B", "DGX H100", strategy, 2048, "DGX H100"
    rails = rail_optimized(16384, 8, 64)
    for fabric in (rails, replace(rails, planes=2), fat_tree(16384, 64, 8), PhotonicRails(16384, 8, 4096)):
        table = training_goodput(fabric, *job)
        parts, whole = table.iloc[:-1], table.iloc[-1]
        assert 0.9 < whole["tokens_share"] < 0.95 and whole["part"] == "all"
        assert whole["lost"] == pytest.approx(parts["lost"].sum()) == pytest.approx(1 - whole["tokens_share"])
        assert (parts["tokens_share"][parts["stops"]] == 0).all() and (parts["tokens_share"] < 1).all()
        assert (parts["lost"] > 0).all()
    fewer_stops, planes = (training_goodput(each, *job).set_index("part") for each in (rails, replace(rails, planes=2)))
    assert fewer_stops.loc["host link", "stops"] and not planes.loc["host link", "stops"]
    assert planes.loc["all", "events_per_year"] < fewer_stops.loc["all", "events_per_year"]
    slow = training_goodput(rails, *job, checkpoint_time="5 min", restart_time="20 min").iloc[-1]
    assert slow["tokens_share"] < 0.75


@pytest.fixture(scope="module")
def by_network():
    books = price_book("street2025"), power_book("street2025")
    job = replace(DENSE, name="ours"), "DGX H100", 512, 512, 16, *books
    return job, job_networks(*job, tokens=1e12, pipeline=[1, 2, 4]).set_index("network")


def test_every_network_has_the_time_of_its_own_best_strategy_and_its_bill(by_network):
    (model, platform, gpus, batch, radix, prices, _), table = by_network
    fabrics = cluster_fabrics(gpus, 8, radix, (2, 4), planes=2)
    assert list(table.index) == [*fabrics, "photonic rails"]
    for name, fabric in fabrics.items():
        if not table.loc[name, "note"]:
            found = search(model, platform, gpus, batch, fabric=fabric, pipeline=[1, 2, 4])
            assert table.loc[name, "iteration_s"] == found.best["total_s"].iloc[0]
        if fabric.planes == 1 and not table.loc[name, "note"]:
            assert table.loc[name, "cost_usd"] == pytest.approx(float(bill_total(fabric.parts.bill(), prices)))
    assert (table["slowdown"].dropna() >= 0).all() and table["slowdown"].min() == 0
    days = table["iteration_s"] * 1e12 / (batch * model.sequence_length) / 86400
    pd.testing.assert_series_equal(table["days"], days, check_names=False)
    assert table.loc["Clos, leaves 4:1", "days"] > table.loc["Clos, leaves 2:1", "days"] > table.loc["Clos", "days"]


def test_networks_that_are_not_there_say_why_and_books_without_a_rate_price_no_planes(by_network):
    job, _ = by_network
    books = PriceBook("600 USD", "400 USD", circuit_port="520 USD"), PriceBook("10 W", "10 W", circuit_port="1 W")
    table = job_networks(*job[:2], 4096, 512, 16, *books, tokens=1e12, circuit_switch="SiP (Lightmatter)", pipeline=1)
    rows = table.set_index("network")
    gone = rows[rows["note"] != ""]
    assert "photonic rails" in gone.index and gone[["cost_usd", "power_w", "iteration_s", "days"]].isna().all().all()
    assert any("photonic rails is left out: ocs_ports is 32" in text for text in table.attrs["warnings"])
    assert np.isnan(rows.loc["rail-only, 2 planes", "cost_usd"]) and rows.loc["rail-only", "cost_usd"] > 0


@pytest.mark.parametrize("fabric", [rail_optimized(8, 8, 16), fat_tree(8, 16, 8), PhotonicRails(8, 8, 64, 4, planes=4)])
def test_one_domain_loses_nothing_with_its_network(fabric):
    strategy = Strategy(tensor=8)
    table = failed_part_slowdowns(fabric, DENSE, "DGX H100", strategy, 8)
    assert set(table["fault"]) == {"none", "GPU", "HB domain", "HB switch"}
    assert training_goodput(fabric, DENSE, "DGX H100", strategy, 8).iloc[-1]["tokens_share"] > 0.99


@pytest.mark.parametrize("run", [failed_part_slowdowns, training_goodput])
def test_jobs_that_do_not_fit_are_said(run):
    strategy = Strategy(tensor=8, data=8)
    other = 128 if run is failed_part_slowdowns else 32
    with pytest.raises(ValueError, match=f"fabric has {other} GPUs, the strategy takes 64"):
        run(rail_only(other, 8, 16), DENSE, "DGX H100", strategy, 8)
    (text,) = run(rail_only(64, 8, 16), "Llama-3 405B", "DGX H100", strategy, 8).attrs["warnings"]
    assert text.startswith("The job is not feasible even with nothing failed (memory)")


def test_a_part_without_which_gpus_have_no_way_is_refused():
    with pytest.raises(ValueError, match="fabric has lost its HB switch: GPUs have no way left"):
        iteration_time(DENSE, H100, Strategy(tensor=8, data=8), 8, fabric=FailedPart(rail_only(64, 8, 16), "HB switch"))


def test_a_machine_on_a_fabric_is_searched_as_with_the_fabric():
    clos, limits = fat_tree(256, 8, 8, tier_oversubscription=(4.0, 2.0)), {"micro_batch": 1, "recompute": "none"}
    with_it, on_it = (
        sum(block["tensor"].size for block in strategy_blocks(DENSE, box, 256, 256, fabric=fabric, **limits))
        for box, fabric in ((H100, clos), (H100.on(clos), None))
    )
    assert with_it == on_it == search(DENSE, H100, 256, 256, fabric=clos, **limits).evaluated


def test_networks_are_priced_at_the_rate_of_the_nics():
    books = price_book("street2025"), power_book("street2025")
    slow, fast = (
        job_networks(DENSE, box, 512, 512, 16, *books, tokens=1e12, pipeline=1).set_index("network")
        for box in (H100.changed(nic_Bps=25e9), H100)
    )
    assert slow.loc["rail-only", "cost_usd"] < fast.loc["rail-only", "cost_usd"]
    assert slow.loc["photonic rails", "cost_usd"] < fast.loc["photonic rails", "cost_usd"]
    texts = job_networks(DENSE, H100.changed(nic_Bps=25e9), 64, 64, 16, *books, tokens=1e12).attrs["warnings"]
    assert any("are of 400 Gbps links: they are scaled to 200 Gbps" in text for text in texts)
