import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rerouted import moved_to_other_rails, share_left
from test_graph import fabrics

from railcore import catalog, planner
from railcore.network import reliability
from railcore.network.topology import faults, routed_flows
from railcore.network.topology.graph import route
from railcore.network.topology.rails import RailFabric, rail_only, rail_optimized
from railcore.network.topology.wiring import whole_wiring
from railcore.training import machine
from railcore.training.iteration import iteration_times
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer
from suite.railonly2025 import expert_loads
from suite.railonly2025.expert_routing import expert_all_to_all_time

MODEL = Transformer("small", 8, 1152, 24, 24, 4608, 32000, 512, ffn_matrices=2)
MIXED = replace(MODEL, experts=16, top_k=2)
H100 = machine.catalog_machine("DGX H100")
ALIGNED = Strategy(tensor=8, pipeline=4, data=4, sequence_parallel=True)
NARROW = Strategy(tensor=4, pipeline=4, data=8, sequence_parallel=True)
BATCH = 32


def table(*rows, size=4):
    """Flows between GPUs by name, in HB domains of `size`."""
    flows = pd.DataFrame(rows, columns=["source", "target", "bytes"])
    places = {name: gpu for gpu, name in enumerate(routed_flows.gpu_names(range(512), size))}
    return flows.assign(source=flows["source"].map(places), target=flows["target"].map(places))


def wiring_without(fault, fabric):
    return faults.wiring_left(whole_wiring(fabric), fault)


def flows_of(matrix):
    source, target = np.nonzero(matrix)
    return pd.DataFrame({"source": source, "target": target, "bytes": matrix[source, target]})


@pytest.mark.parametrize("build", [rail_only, rail_optimized])
@pytest.mark.parametrize(("gpus", "size", "radix"), [(64, 8, 16), (64, 4, 8), (128, 8, 16)])
def test_a_ring_of_domains_has_the_share_of_its_routes_one_by_one(build, gpus, size, radix):
    fabric, ring = build(gpus, size, radix), routed_flows.domain_ring(gpus, size)
    assert set(ring["source"]) == set(ring["target"]) and len(ring) == gpus
    assert ring["target"].iloc[[0, -1]].tolist() == [size, size - 1]
    graph, counted = fabric.graph(), Counter()
    for ends in zip(*(routed_flows.gpu_names(ring[end], size) for end in ("source", "target")), strict=True):
        counted.update(pairwise(route(graph, *ends, forward=False)))
    slowest = max(flows / graph.edges[link]["bandwidth_Bps"] for link, flows in counted.items())
    assert routed_flows.nic_bandwidth_share(fabric, ring) == pytest.approx(1 / fabric.nic_rate_Bps / slowest)


@pytest.mark.parametrize(
    ("build", "route", "skew"), [(rail_only, "two-hop", "zipf"), (rail_optimized, "direct", "hot")]
)
def test_fabrics_carry_an_all_to_all_as_its_routing_counts(build, route, skew):
    demand = expert_loads.expert_demand(1e9, 32, 3.0, skew)
    counted = expert_loads.link_loads(demand, 4, route)
    loads = routed_flows.fabric_loads(build(32, 4, 8), flows_of(demand * (1 - np.eye(32))))
    for end, kind, expected in (
        ("from", "host", counted.nic_egress_bytes),
        ("to", "host", counted.nic_ingress_bytes),
        ("from", "hb", counted.hb_egress_bytes),
        ("to", "hb", counted.hb_ingress_bytes),
    ):
        by_gpu = loads[loads["kind"] == kind].groupby(end)["bytes"].sum()
        np.testing.assert_allclose(by_gpu[routed_flows.gpu_names(range(32), 4)], expected.ravel())


def test_a_moved_flow_avoids_the_cut_nic_and_keeps_its_bytes():
    fabric = rail_only(16, 4, 4)
    flows = table(("D1.GPU1", "D2.GPU1", 6.0), ("D1.GPU2", "D2.GPU2", 6.0))
    spread = moved_to_other_rails(fabric, flows, [0])
    across = spread[spread["source"] // 4 != spread["target"] // 4]
    assert across["bytes"].sum() == 12.0 and not across["source"].eq(0).any()
    assert across.groupby("source")["bytes"].sum().to_dict() == {1: 8.0, 2: 2.0, 3: 2.0}
    assert (across["source"] % 4 == across["target"] % 4).all()
    assert spread.groupby("flow")["bytes"].sum()[1] == 6.0
    one = moved_to_other_rails(fabric, flows, [0, 1, 5], True)
    loads = routed_flows.fabric_loads(fabric, one)
    assert loads[loads["kind"] == "host"].groupby("from")["bytes"].sum()["D1.GPU3"] == 12.0
    next_one = moved_to_other_rails(fabric, table(("D1.GPU2", "D2.GPU2", 6.0)), [5], True)
    assert set(next_one["source"]) == {1, 2, 6}
    last = moved_to_other_rails(fabric, table(("D1.GPU4", "D2.GPU4", 6.0)), [3], True)
    assert 0 in set(last["source"])


def some_flows(gpus, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(1, 9, (gpus, gpus)) * (rng.random((gpus, gpus)) < rng.choice([0.02, 0.2]))
    return flows_of(matrix * (1 - np.eye(gpus)))


def wired_loads(graph, flows, size):
    """Bytes of every used link, by the graph alone: nodes split what they hold over all shortest ways to its target.

    Flows inside an HB domain take its links, the others the network; HB domains forward only what has no other way,
    the source's where either would do.
    """
    loads, domain = Counter(), graph.nodes(data="domain")
    names = {end: routed_flows.gpu_names(flows[end], size) for end in ("source", "target")}
    inside = flows["source"] // size == flows["target"] // size
    groups = flows.assign(**names, inside=inside).groupby(["target", "inside"])
    for (target, within), group in groups:

        def cost(a, b, link, within=within, home=domain[target]):
            if link["kind"] != "hb":
                return 1.0
            return 0.4 if within else 100.1 if domain[a] == home else 100.0

        left = nx.single_source_dijkstra_path_length(graph, target, weight=cost)
        held = Counter()
        for source, amount in zip(group["source"], group["bytes"], strict=True):
            held[source] += amount
        for node in sorted(left, key=left.get, reverse=True):
            if node != target and held[node]:
                links = {b: link for b, link in graph[node].items() if b in left}
                ways = {b: at for b, at in links.items() if abs(left[node] - left[b] - cost(node, b, at)) < 1e-6}
                rate = sum(at["bandwidth_Bps"] for at in ways.values())
                for b, at in ways.items():
                    loads[node, b] += held[node] * at["bandwidth_Bps"] / rate
                    held[b] += held[node] * at["bandwidth_Bps"] / rate
        if not set(group["source"]) <= set(left):
            return None  # cut off from each other
    return loads


def assert_as_on_the_graph(fabric, flows, fault):
    graph = fabric.graph()
    if fault is None or any(faults.failed_part(graph, fault)):
        left = graph if fault is None else faults.fail(graph, fault)
        works = fabric if fault is None else wiring_without(fault, fabric)
        expected = wired_loads(left, flows, fabric.hb_domain_size)
        if expected is None:
            with pytest.raises(ValueError, match="cut off from each other"):
                routed_flows.fabric_loads(works, flows)
            return
        loads = routed_flows.fabric_loads(works, flows)
        ends = [*zip(loads["from"], loads["to"], strict=True)]
        assert dict(zip(ends, loads["bytes"], strict=True)) == pytest.approx(dict(expected), rel=1e-9)
        assert [left.edges[pair]["bandwidth_Bps"] for pair in ends] == loads["bandwidth_Bps"].tolist()
        np.testing.assert_allclose(loads["time_s"], loads["bytes"] / loads["bandwidth_Bps"])
        assert loads["time_s"].is_monotonic_decreasing


FAULTS = st.sampled_from([None, "NIC", "host link", "rail switch", "trunk link", "spine", "HB switch"])


@given(fabrics(gpus=st.sampled_from([24, 48])), FAULTS, st.integers(0, 2**32 - 1))
def test_links_carry_what_routing_every_flow_gives(fabric, fault, seed):
    if fabric.gpus % fabric.hb_domain_size == 0 and fabric.rails in (1, fabric.hb_domain_size):
        assert_as_on_the_graph(fabric, some_flows(fabric.gpus, seed), fault)


@given(fabrics(gpus=st.integers(2, 50)), st.integers(0, 2**32 - 1))
def test_flows_that_no_domain_forwards_in_any_fabric(fabric, seed):
    flows, K = some_flows(fabric.gpus, seed), fabric.hb_domain_size
    rails = [flows[end] % K % fabric.rails for end in ("source", "target")]
    assert_as_on_the_graph(fabric, flows[(rails[0] == rails[1]) | (flows["source"] // K == flows["target"] // K)], None)


def test_where_the_source_has_no_rank_of_the_rail_the_target_forwards():
    half = rail_only(18, 4, 8)  # the last domain has ranks 1 and 2 only
    loads = routed_flows.fabric_loads(half, table(("D5.GPU1", "D1.GPU3", 6.0)))
    assert [name for name in loads["to"] if "HB" in name] == ["D1.HB1"]


WIDE = [rail_only(128, 8, 16, hb_switches=4), rail_optimized(128, 8, 16, hb_switches=4)]
WIDE += [rail_optimized(128, 8, 64), rail_only(128, 8, 32, rails_per_switch=2)]


@pytest.mark.parametrize("fabric", WIDE, ids=lambda fabric: f"{fabric.oversubscription} {fabric.radix}")
@pytest.mark.parametrize("fault", ["NIC", "rail switch"])
def test_traffic_moved_to_all_rails_gets_what_is_left_of_the_domains_nics(fabric, fault):
    ring = routed_flows.domain_ring(fabric.gpus, 8)
    (effect,) = faults.fault_effects(fabric).query("fault == @fault").to_dict("records")
    assert routed_flows.nic_bandwidth_share(fabric, ring) == pytest.approx(1.0)
    assert share_left(fabric, ring, fault) == pytest.approx(effect["domain_nic_bandwidth"])
    cut = round(8 * (1 - effect["domain_nic_bandwidth"]))
    assert share_left(fabric, ring, fault, one_neighbour=True) == pytest.approx(1 / (1 + cut))


def test_what_a_nic_itself_limits_is_no_loss():
    into_one = table(*((f"D{d}.GPU1", "D1.GPU1", 1e9) for d in range(2, 9)), size=8)
    assert routed_flows.nic_bandwidth_share(rail_only(64, 8, 16), into_one) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("strategy", "radix"), [(ALIGNED, 16), (NARROW, 16), (replace(ALIGNED, sharding="weights"), 64), (NARROW, 64)]
)
def test_dense_models_run_as_fast_on_rail_only(strategy, radix):
    found = planner.dense_slowdown(rail_only(128, 8, radix), MODEL, H100, strategy, 128)
    assert found["fabric"].tolist() == ["rail-only", "rail-optimized"]
    np.testing.assert_allclose(found["slowdown"], 0, atol=1e-12)
    assert found["busiest_link_s"].iloc[0] == pytest.approx(found["busiest_link_s"].iloc[1])
    assert (found["busiest_link_s"] > 0).all()
    row = strategy.columns(128)
    fabric = rail_only(128, 8, radix)
    plain = iteration_times(MODEL, H100.on(fabric), row).total_s
    np.testing.assert_allclose(found["iteration_s"], float(plain))


def test_aligned_groups_need_no_forwarding_and_others_do():
    aligned = planner.dense_slowdown(rail_only(128, 8, 16), MODEL, H100, ALIGNED, BATCH)
    narrow = planner.dense_slowdown(rail_only(128, 8, 16), MODEL, H100, NARROW, BATCH)
    assert aligned["hb_forwarded_bytes"].tolist() == narrow["hb_forwarded_bytes"].tolist() == [0, 0]
    hops = planner.dense_slowdown(rail_only(32, 8, 16), MODEL, H100, replace(NARROW, pipeline=8, data=1), BATCH)
    assert hops["hb_forwarded_bytes"].iloc[0] > 0 and hops["hb_forwarded_bytes"].iloc[1] == 0


def test_one_domain_has_no_network():
    box = H100.changed(hb_domain_size=128)
    found = planner.dense_slowdown(rail_only(128, 128, 16), MODEL, box, ALIGNED, BATCH)
    assert (found[["busiest_link_s", "hb_forwarded_bytes", "slowdown"]] == 0).all().all()
    slow = planner.dense_slowdown(rail_only(128, 128, 16), MODEL, box.changed(nic_Bps=1e3), ALIGNED, BATCH)
    np.testing.assert_allclose(slow["iteration_s"], found["iteration_s"])


@pytest.fixture(scope="module")
def broken():
    return pd.concat(
        [planner.failed_part_slowdowns(fabric, MODEL, H100, ALIGNED, BATCH) for fabric in WIDE[:2]], ignore_index=True
    )


def test_no_fault_leaves_the_iteration_as_it_is(broken):
    whole = broken[broken["fault"] == "none"]
    assert whole["tokens_share"].tolist() == [1.0, 1.0] and whole["job"].tolist() == ["whole", "whole"]
    plain = iteration_times(MODEL, H100.on(WIDE[0]), ALIGNED.columns(BATCH)).total_s
    np.testing.assert_allclose(whole["iteration_s"], float(plain))
    spare = broken[broken["job"] == "spare GPUs take over"]
    assert set(spare["fault"]) == {"GPU", "HB domain"} and (spare["tokens_share"] == 1).all()


def test_every_fault_has_a_row_and_none_speeds_the_job_up(broken):
    for name, part in broken.groupby("fabric"):
        fabric = WIDE[name == "rail-optimized"]
        assert set(part["fault"]) - {"none"} == set(faults.fault_effects(fabric)["fault"])
    assert (broken["tokens_share"] <= 1 + 1e-12).all() and (broken["tokens_share"] > 0).all()
    pair = broken.pivot_table("tokens_share", ["fabric", "fault"], "job")
    assert (pair["moved to one other rail"].dropna() < pair["moved to all other rails"].dropna()).all()


def test_a_job_that_does_not_fit_is_a_warning_and_loses_no_less_with_a_domain_than_with_a_gpu():
    fabric, strategy = rail_only(64, 8, 16), Strategy(data=64)
    small = H100.changed(memory_bytes=1e9)
    table = planner.failed_part_slowdowns(fabric, MODEL, small, strategy, 64)
    assert set(table["limit"]) == {"memory"}
    (text,) = table.attrs["warnings"]
    assert "not feasible even with nothing failed (memory)" in text
    kept = table[table["job"] == "replicas dropped, less batch"].set_index("fault")["tokens_share"]
    assert kept["GPU"] >= kept["HB domain"]
    fits = planner.failed_part_slowdowns(fabric, MODEL, H100, strategy, 64)
    assert set(fits["limit"]) == {"feasible"} and fits.attrs["warnings"] == ()
    pd.testing.assert_series_equal(fits["data"], table["data"])


def test_a_job_drops_more_replicas_rather_than_fill_domains_unevenly():
    strategy = Strategy(tensor=4, data=64, sharding="weights")  # two ranks of a ring in each domain
    slow = H100.changed(nic_Bps=1e9)
    found = planner.failed_part_slowdowns(rail_only(256, 8, 64), MODEL, slow, strategy, 64)
    less = found[found["job"] == "replicas dropped, less batch"].set_index("fault")
    assert less.loc["GPU", ["data", "gpus_idle"]].tolist() == [62, 7]
    assert less.loc["HB domain", ["data", "gpus_idle"]].tolist() == [62, 0]


def test_bandwidth_shares_give_the_iteration_time(broken):
    moved = broken[(broken["fault"] == "rail switch") & (broken["job"] == "moved to one other rail")]
    slower = H100.on(WIDE[0]).changed(nic_Bps=H100.nic_Bps / 2)
    expected = iteration_times(MODEL, slower, ALIGNED.columns(BATCH)).total_s
    np.testing.assert_allclose(moved["iteration_s"], float(expected))
    hb = broken[broken["fault"] == "HB switch"]
    assert hb["hb_share"].tolist() == [0.75, 0.75] and (hb["job"] == "HB domain on its other switches").all()
    slower = H100.on(WIDE[0]).changed(hb_Bps=H100.hb_Bps * 0.75)
    expected = iteration_times(MODEL, slower, ALIGNED.columns(BATCH)).total_s
    np.testing.assert_allclose(hb["iteration_s"], float(expected))


def test_a_lost_gpu_takes_its_replica(broken):
    lost = broken[broken["fault"].isin(["GPU", "HB domain"]) & broken["job"].str.startswith("replicas")]
    assert (lost["data"] == 3).all() and (lost["gpus_idle"] + lost["gpus_failed"] == 32).all()
    for row in lost.itertuples():
        times = iteration_times(MODEL, H100.on(WIDE[0]), ALIGNED.columns(24 if "less" in row.job else 33) | {"data": 3})
        assert row.iteration_s == pytest.approx(float(times.total_s))
        assert row.global_batch == (24 if "less" in row.job else 32)
        whole = broken["iteration_s"].iloc[0] / BATCH
        assert row.tokens_share == pytest.approx(whole * row.global_batch / row.iteration_s)
        assert 8 / 11 < row.tokens_share < 1  # 11 micro-batches in place of 8, fill and drain as before


def test_replicas_that_share_experts_go_together_and_the_last_leaves_none():
    spread = Strategy(tensor=2, pipeline=2, data=16, expert=4)
    found = planner.failed_part_slowdowns(rail_only(64, 8, 16), MIXED, H100, spread, 64).set_index(["fault", "job"])
    assert found.loc[("GPU", "replicas dropped, less batch"), ["data", "global_batch"]].tolist() == [12, 48]
    assert found.loc[("HB domain", "replicas dropped, less batch"), "data"] == 12
    alone = planner.failed_part_slowdowns(rail_only(64, 8, 16), MIXED, H100, replace(spread, expert=16), 64)
    ended = alone[alone["data"] == 0]
    assert set(ended["fault"]) == {"GPU", "HB switch", "HB domain"} and (ended["limit"] == "no replica left").all()
    assert (ended["tokens_share"] == 0).all() and np.isinf(ended["iteration_s"]).all()


def test_interleaving_takes_micro_batches_that_fill_no_turn():
    inter = replace(ALIGNED, interleave=2)
    found = planner.failed_part_slowdowns(WIDE[0], MODEL, H100, inter, BATCH).set_index(["fault", "job"])
    row = found.loc[("GPU", "replicas dropped, whole batch")]  # 32 / 3 micro-batches: two turns of 4 stages, and 3
    expected = iteration_times(MODEL, H100.on(WIDE[0]), inter.columns(33) | {"data": 3})
    assert row["iteration_s"] == pytest.approx(float(expected.total_s)) and row["limit"] == "feasible"


def test_fabrics_beside_each_other(broken):
    wide = planner.fabrics_side_by_side(broken)
    rows = broken[["fault", "job"]].drop_duplicates()
    assert wide[["fault", "job"]].to_numpy().tolist() == rows.to_numpy().tolist()
    only = broken[broken["fabric"] == "rail-only"].set_index(["fault", "job"])["tokens_share"]
    found = wide.set_index(["fault", "job"])["rail-only_tokens_share"]
    assert found.dropna().to_dict() == only.to_dict()
    assert found.isna().sum() == 2  # a rail of one switch has neither trunk nor spine


def test_rail_only_has_fewer_parts_to_stop_a_job_but_as_many_that_cut_gpus_off():
    found = reliability.job_interruptions(4096, 8, 64, "DGX H100").pivot_table(
        "events_per_year", ["stops", "rates"], "fabric"
    )
    cut, every = (found.loc[name] for name in ("what cuts GPUs off", "every part"))
    np.testing.assert_allclose(cut["rail-only"], cut["rail-optimized"], rtol=1e-3)
    assert (every["rail-only"] < every["rail-optimized"]).all() and (cut < every).all().all()


def test_parts_and_software_add_up_to_the_interruptions_of_a_published_run():
    found = reliability.job_interruptions(16384, 8, 64, "DGX H100").query("rates == 'value'")["events_per_year"]
    rate = catalog.item("failure_rates", "job")["interruption_rate_llama3"]
    counted = 16384 * rate * 365 * 86400
    assert (abs(found / counted - 1) < 0.1).all()


def test_faults_take_the_runtime_of_the_job():
    fabric = rail_only(128, 8, 16)
    table = planner.failed_part_slowdowns(fabric, MODEL, H100, ALIGNED, BATCH, runtime="megatron2021")
    alone = iteration_times(MODEL, H100.on(fabric), ALIGNED.columns(BATCH), "megatron2021").total_s.item()
    assert table["iteration_s"].iloc[0] == pytest.approx(alone)


EXPERTS = Strategy(data=64, expert=16, tensor=1)


def test_leaves_slow_a_mixture_and_a_wider_domain_needs_no_network():
    found = planner.mixture_slowdowns(MIXED, H100, EXPERTS, 64, [4, 8, 16, 64], [2.0, 8.0], 16)
    assert (found["slowdown"] >= 0).all()
    held = found[(found["hb_domain_size"] >= 16) & (found["way"] != "Clos")]  # a token's experts are in one domain
    assert (held["slowdown"] == 0).all() and (held["expert_s"] > 0).all()
    some = found[found["hb_domain_size"] == 4].set_index(["way", "oversubscription"])["slowdown"]
    assert 0 < some[("Clos", 2.0)] < some[("Clos", 8.0)]
    in_turn, at_once = (some[(f"rail-only, forwarding {how}", math.inf)] for how in ("before sending", "at once"))
    assert in_turn > at_once == 0


def test_the_layer_slows_an_exchange_as_the_wired_fabric_does():
    """Closed form against links: uniform all-to-all of all GPUs, direct under a layer of 2:1."""
    fabric = RailFabric(32, 4, 12, 2.0)  # a leaf for each rail: 8 ports down, 4 up
    demand = expert_loads.expert_demand(1e9, 32)
    loads = routed_flows.fabric_loads(fabric, flows_of(demand * (1 - np.eye(32))))
    busiest = loads[loads["kind"] != "hb"]["time_s"].max()
    direct = expert_all_to_all_time(1e9, 32, 4, fabric.hb_rate_Bps, fabric.nic_rate_Bps, "direct", 2.0)
    assert busiest == pytest.approx(float(direct))
