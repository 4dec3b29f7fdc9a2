"""Networks that a plan compares, held against what vendors publish of them, and what must hold for each."""

import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.network.reliability import parts_at_risk
from railcore.network.topology.failed_part import FailedPart, has_part
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fat_tree, fewest_switches, rail_only
from railcore.network.topology.wiring import wire_list
from railcore.planner.candidates import network_candidates, switch_books
from railcore.planner.case import case_of
from railcore.planner.fabrics import limiting_fabric
from railcore.planner.goodput import training_goodput
from railcore.planner.spec_reading import read_spec
from railcore.strategies.parts import search
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import as_model

SUPERPOD = "DGX SuperPOD reference architecture for "
PUBLISHED = [  # table, platform, network, its keys, and rows of GPUs, then switches of leaf, spine and core
    *(
        (
            f"{SUPERPOD}{gpu}, larger component counts",
            f"DGX {gpu}",
            "rail-optimized",
            {"switch": "QM9700"},
            [(512, 16, 8), (1024, 32, 16), (2048, 64, 32), (4096, 128, 128, 64), (8192, 256, 256, 128)]
            + [(16384, 512, 512, 256)],
        )
        for gpu in ("H100", "B200")
    ),
    (
        f"{SUPERPOD}B300 with Spectrum-4, Table 3",
        "DGX B300",
        "rail-optimized, 2 planes",
        {},
        [(512, 16, 8), (1024, 32, 16), (2048, 64, 32), (4096, 128, 64), (8192, 256, 128)],
    ),
    (
        f"{SUPERPOD}B300 with Quantum-X800, Table 3",
        "DGX B300",
        "rail-optimized",
        {"radix": 144},
        # It prints 9,216 GPUs in the last row, of 1,296 servers of 8 and 10,368 cables: 10,368.
        [(576, 8, 4), (1152, 16, 8), (2304, 32, 18), (4608, 64, 36), (10368, 144, 72)],
    ),
    (
        f"{SUPERPOD}GB200, RA-11338-001 V01, compute fabric of 2 to 16 scalable units",
        "GB200 NVL72",
        "rail-optimized",
        {"switch": "QM9700"},
        [(1152, 64, 48, 18), (2304, 128, 96, 36), (4608, 256, 192, 72), (9216, 512, 384, 144)],
    ),
]
TABLES = [(table[0], *table[1:4], row) for table in PUBLISHED for row in table[4]]
DEFAULTS = ["rail-optimized", "rail-optimized, 2 planes", "Clos", "rails + layer 2:1"]
DEFAULTS += ["Clos, leaves 2:1", "rail-only", "rail-only, 2 planes", "Clos, 102.4T switches", "photonic rails"]


@cache
def candidates(platform="GB200 NVL72", **network):
    """Candidates of a platform by name."""
    spec = {"cluster": {"platform": platform, "gpus": 576}, "network": network}
    spec["job"] = {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512}
    case = case_of(read_spec(spec))
    return {candidate.name: candidate for candidate in network_candidates(case)}


@pytest.mark.parametrize(("table", "platform", "name", "keys", "row"), TABLES)
def test_counts_of_published_tables(table, platform, name, keys, row):
    gpus, *switches = row
    fabric = candidates(platform, **keys)[name].build(gpus)
    assert list(fabric.switches_by_tier) == switches, table
    # One cable from each NIC, with all planes in it, and as many in each layer above.
    assert {links / fabric.planes for links in fabric.links_by_tier} == {gpus}, table
    assert fabric.nic_shares == (1.0, 1.0)


def test_a_node_less_keeps_the_cables_of_its_scalable_unit():
    """DGX SuperPOD of 127 H100 servers: 1,016 cables to GPUs (1,020 with those of its fabric manager), 1,024 above."""
    fabric = candidates("DGX H100", switch="QM9700")["rail-optimized"].build(1016)
    assert (fabric.switches_by_tier, fabric.links_by_tier) == ((32, 16), (1016, 1024))


def test_a_pod_of_alibaba_hpn():
    """SIGCOMM 2024: leaves of 128 ports of 200 Gbps down and 60 of 400 up, 16 a segment of 1,024; 60 spines a plane."""
    fabric = RailFabric(15360, 8, 128, 1.0, planes=2, tier_oversubscription=(128 / 120,), one_pod=True)
    assert fabric.switches_by_tier == (15 * 16, 2 * 60)
    assert fabric.links_by_tier == (2 * 15360, 240 * 60 * 2)  # of 200 Gbps: two for each of 400
    assert fabric.nic_shares[0] == pytest.approx(120 / 128)
    larger = RailFabric(15361, 8, 128, 1.0, planes=2, tier_oversubscription=(128 / 120,), one_pod=True)
    assert larger.parts.switches > fabric.parts.switches


def test_networks_of_deepseeks_table():
    """arXiv:2505.09343, Table 3: switches and links between them; its eight planes that do not meet are rail-only."""
    for fabric, switches, links in (
        (fat_tree(2048, 64), 96, 2048),
        (rail_only(16384, 8, 64), 768, 16384),
        (fat_tree(65536, 64), 5120, 131072),
    ):
        same = fewest_switches(fabric)
        assert (same.parts.switches, sum(same.links_by_tier[1:])) == (switches, links)


def test_the_usual_candidates_say_what_they_are_and_what_is_published():
    found = candidates()
    assert list(found) == DEFAULTS
    for candidate in found.values():
        assert 40 < len(candidate.about) < 180 and candidate.about.endswith("."), candidate.name
        assert "ounts" in candidate.about
    assert found["rail-optimized"].about.startswith("4 rails")
    assert candidates("DGX H100")["rail-optimized"].about.startswith("8 rails")


# What must hold for each.


@given(st.integers(2, 300), st.sampled_from(["GB200 NVL72", "DGX H100"]))
def test_full_networks_limit_nothing_and_cost_no_less_than_what_leaves_parts_out(racks, platform):
    size = {"GB200 NVL72": 72, "DGX H100": 8}[platform]
    found, dense = candidates(platform), as_model("Llama-3 8B")
    fabrics = {name: found[name].build(racks * size) for name in DEFAULTS[:-1]}
    for name, fabric in fabrics.items():
        thin = "2:1" in name and fabric.is_oversubscribed
        assert fabric.rails in (4 if size == 72 else 8, 1, size)
        if not thin:
            assert limiting_fabric(fabric, dense) is None
        if name.startswith(("rail-optimized", "Clos")) and not thin:
            assert set(fabric.nic_shares) == {1.0}
        for links in fabric.links_by_tier[1:]:
            assert links >= fabric.links_by_tier[0] or thin or math.isinf(fabric.oversubscription)
    switches = {name: int(fabric.parts.switches) for name, fabric in fabrics.items()}
    assert switches["Clos"] <= switches["rail-optimized"]  # whose leaves are of one rail
    assert switches["Clos, 102.4T switches"] <= switches["Clos"]
    assert switches["Clos, leaves 2:1"] <= switches["Clos"]


@given(st.integers(2, 4000), st.sampled_from([8, 16, 72]), st.sampled_from([16, 32, 64, 128]))
def test_few_rails_that_meet_take_no_more_than_one_for_each_gpu(domains, size, radix):
    """The same leaves or fewer: a rail of more hosts fills its leaves better."""
    ours = fewest_switches(RailFabric(domains * size, size, radix, 1.0, rails=4, one_pod=True))
    private = RailFabric(domains * size, size, radix, 1.0)
    if private.layout.pod_tier > 1:
        assert ours.switches_by_tier[0] <= private.switches_by_tier[0]


def test_blocks_of_any_rails_fill_spines_that_pods_of_whole_rails_leave_half_empty():
    """Four rails of 33 leaves each, below spines with 64 ports down."""
    pods, any_rails = (RailFabric(8208, 72, 128, 1.0, rails=4, one_pod=one_pod) for one_pod in (False, True))
    assert (pods.switches_by_tier, any_rails.switches_by_tier) == ((132, 252, 126), (132, 189, 126))
    assert fewest_switches(any_rails).switches_by_tier == (132, 153, 72)
    with pytest.raises(ValueError, match=r"one_pod is True at oversubscription 2.0: give 1, or pods of whole rails"):
        RailFabric(8208, 72, 128, 2.0, one_pod=True)
    assert not any_rails.with_layer(math.inf).one_pod and any_rails.with_layer(1.0).one_pod


@given(st.integers(2, 40), st.sampled_from([8, 16, 72]), st.sampled_from([8, 16, 32]))
def test_groups_take_no_more_switches_and_are_wired_as_counted(domains, size, radix):
    for fabric in (
        RailFabric(domains * size, size, radix, 1.0, rails=4, one_pod=True),
        fat_tree(domains * size, radix, size),
    ):
        ours = fewest_switches(fabric)
        assert ours.parts.switches <= fabric.parts.switches and set(ours.nic_shares) == {1.0}
        assert limiting_fabric(ours, as_model("Llama-3 8B")) is None
        wires, used = wire_list(ours), {}
        for lower, upper, links in wires.trunks:
            used[lower], used[upper] = used.get(lower, 0) + links, used.get(upper, 0) + links
        for leaf, hosts in wires.hosts:
            used[leaf] = used.get(leaf, 0) + len(hosts)
        assert max(used.values()) <= radix and len(used) == len(wires.switches) == ours.parts.switches
        tiers = [switch.tier for switch in wires.switches]
        assert [tiers.count(tier + 1) for tier in range(ours.tiers)] == list(ours.switches_by_tier)


@pytest.mark.parametrize("name", DEFAULTS)
def test_failures_of_each_network(name):
    """72 GPUs in each of 32 racks: a leaf of a rail takes 18 NICs of a rack, one of a Clos all of it, a plane none."""
    fabric = candidates()[name].build(2304)
    parts = parts_at_risk(fabric, "GB200 NVL72").set_index("part")
    assert parts.loc["GPU", "count"] == 2304 and parts.loc["host link", "count"] == 2304 * fabric.nic_ports
    if not isinstance(fabric, PhotonicRails):
        in_planes = "2 planes" in name
        stopped, cut = parts.loc["tier-1 switch", "gpus_stopped"], FailedPart(fabric, "rail switch").nics_cut
        assert stopped == (0 if in_planes else 2304 / fabric.switches_by_tier[0])
        on_rail = 72 if fabric.rails == 1 else 18 if fabric.rails == 4 else 72 * 32 // 18 // 32
        assert cut == (0 if in_planes else min(on_rail, math.ceil(stopped)))
        links = fabric.links_by_tier
        assert parts.loc["trunk link", "count"] == sum(links[1:]) and links[0] == 2304 * fabric.planes
    for part in ("NIC", "host link", "rail switch", "trunk link", "spine", "circuit switch"):
        if has_part(fabric, part):
            cut = part == "rail switch" and FailedPart(fabric, part).nics_cut == 72
            assert (FailedPart(fabric, part).nic_share > 0) != cut
    strategy = Strategy(tensor=8, pipeline=4, data=72)
    goodput = training_goodput(fabric, "Llama-3 70B", "GB200 NVL72", strategy, 1152)
    assert 0.5 < goodput["tokens_share"].iloc[-1] < 1


@pytest.mark.parametrize("model", ["Llama-3 8B", "MoE-1.3B"])
def test_one_search_serves_all_full_networks(model):
    """Of a mixture too: where rails meet at full bandwidth, tokens go straight to their experts' rails at full rate."""
    found, times = candidates("DGX H100"), {}
    options = {"context": 1, "tensor": 1, "micro_batch": 1, "pipeline": 1}
    for name in ("rail-optimized", "rail-optimized, 2 planes", "Clos", "Clos, 102.4T switches"):
        fabric = found[name].build(256)
        limits = limiting_fabric(fabric, as_model(model))
        times[limits] = {
            float(search(model, catalog_machine("DGX H100"), 256, 512, fabric=each, **options).best["total_s"].iloc[0])
            for each in (fabric, limits)
        }
    assert len(times) == 1 and len(next(iter(times.values()))) == 1
    thin, layered = found["Clos, leaves 2:1"].build(256), RailFabric(512, 8, 16, 2.0)
    assert limiting_fabric(thin, as_model(model)) == thin
    assert limiting_fabric(layered, as_model(model)) == (layered if "MoE" in model else None)


@pytest.mark.parametrize("gpus", [64, 256, 512, 1024])
def test_rails_that_are_less_than_a_leaf_take_no_more_than_a_clos(gpus):
    case = case_of(
        read_spec(
            {
                "cluster": {"platform": "DGX H100", "gpus": gpus},
                "job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512},
            }
        )
    )
    switches = {it.name: int(it.build(gpus).parts.switches) for it in network_candidates(case)}
    assert switches["rail-optimized"] <= switches["Clos"]


def test_a_switch_of_another_technology_is_refused_in_a_network_of_ones_own():
    network = {"candidate": [{"name": "mine", "layout": "Clos", "switch": "QM9700"}]}
    given = {
        "cluster": {"platform": "DGX H100", "gpus": 64},
        "job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512},
        "network": network,
    }
    with pytest.raises(ValueError, match=r"'mine': switch QM9700 is of InfiniBand, and links are Ethernet"):
        network_candidates(case_of(read_spec(given)))
    given["network"] |= {"technology": "InfiniBand"}
    assert network_candidates(case_of(read_spec(given)))[-1].name == "mine"


def test_a_switch_without_a_price_has_ports_as_dear_as_others():
    given = {
        "cluster": {"platform": "DGX H100", "gpus": 64},
        "job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512},
    }
    case = case_of(read_spec(given | {"network": {"technology": "InfiniBand"}}))
    assert "price" not in catalog.item("switches", "Q3400-RA")
    assert switch_books(case, "Q3400-RA", {})[0].port == case.prices.port
