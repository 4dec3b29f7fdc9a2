"""Servers as graphs: bandwidth between parts by max-flow, flows at the same time, PCIe lanes, catalog servers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_sharing import fair_rates

from railcore.catalog.units import GB
from railcore.deploy import server
from railcore.deploy.server import Server, flow_bandwidths, part_bandwidth

HB = ("hb",)
TWO_BOARDS = Server(8, 25 * GB, 1, "200 Gbps", 5, (5, 4, 4, 5), 2, (4, 4, 4, 4), switch_lanes=144)
CROSSING = [(f"GPU {i}", f"GPU {i + 4}") for i in range(4)]
links = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@st.composite
def servers(draw):
    chips = draw(links)
    boards = draw(st.sampled_from([1, 2]))
    pairs = [draw(st.integers(0, 6)) for _ in chips] if boards == 2 else []
    nics, switches = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    nic = draw(st.sampled_from([12.5e9, 25e9, 50e9]))
    return Server(4, 25 * GB, nics, nic, 5, chips, boards, pairs, pcie_switches=switches, host_lanes=16)


def test_pcie_is_lanes_times_transfers_times_coding():
    assert server.pcie_bandwidth(5) == pytest.approx(32e9 * 16 / 8 * 128 / 130)
    assert server.pcie_bandwidth(5, 8) == pytest.approx(server.pcie_bandwidth(4, 16)) == server.pcie_bandwidth(5) / 2
    assert server.pcie_bandwidth(6) == 121 * GB


@given(servers(), st.data())
def test_flow_is_the_same_both_ways_and_at_most_what_both_ends_have(box, data):
    graph = box.graph()
    a, b = data.draw(st.permutations([f"GPU {i}" for i in range(4)] + ["network"]))[:2]
    there, back = (part_bandwidth(graph, *ends).value_Bps for ends in ((a, b), (b, a)))
    assert there == pytest.approx(back)
    for end in (a, b):
        assert there <= sum(at["bandwidth_Bps"] for *_, at in graph.edges(end, data=True)) * (1 + 1e-12)
    assert there == pytest.approx(flow_bandwidths(graph, [(a, b)])["bandwidth_Bps"].iloc[0])  # by linear programming


@given(servers(), st.integers(0, 3))
def test_more_links_are_never_less(box, chip):
    more = [n + (i == chip) for i, n in enumerate(box.chip_links)]
    pairs = [n + 1 for n in box.pair_links]
    for ends in (("GPU 0", "GPU 1"), ("GPU 0", "GPU 3"), ("GPU 0", "network")):
        before = part_bandwidth(box.graph(), *ends).value_Bps
        for other in (replace(box, chip_links=more), replace(box, pair_links=pairs), replace(box, nics=box.nics + 1)):
            assert part_bandwidth(other.graph(), *ends).value_Bps >= before - 1


@given(servers(), st.lists(st.sampled_from([(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)]), min_size=1, max_size=4))
def test_flows_together_fit_the_links_and_none_is_faster_than_alone(box, pairs):
    graph, flows = box.graph(), [(f"GPU {a}", f"GPU {b}") for a, b in pairs]
    found = flow_bandwidths(graph, flows)["bandwidth_Bps"]
    for flow, rate in zip(flows, found, strict=True):
        assert rate <= part_bandwidth(graph, *flow).value_Bps * (1 + 1e-9)
    for gpu in range(4):
        sent = sum(rate for (a, _), rate in zip(pairs, found, strict=True) if a == gpu)
        assert sent <= (box.hb_Bps + box.pcie_Bps) * (1 + 1e-9)


@given(st.lists(st.floats(1, 9), min_size=4, max_size=4), st.lists(st.permutations(range(4)), min_size=1, max_size=6))
def test_flows_with_one_way_each_get_what_filling_their_links_gives(speeds, pairs):
    graph = Server(4, 25 * GB, 1, "200 Gbps", 5, (1,)).graph()
    for gpu, speed in enumerate(speeds):
        graph.edges[f"GPU {gpu}", "NVSwitch 1-1"]["bandwidth_Bps"] = speed * GB
    flows = [(f"GPU {a}", f"GPU {b}") for a, b, *_ in pairs]
    out_and_in = np.array([(a, 4 + b) for a, b, *_ in pairs])
    plain = fair_rates(out_and_in, np.array(speeds * 2) * GB)
    assert flow_bandwidths(graph, flows, HB)["bandwidth_Bps"].to_numpy() == pytest.approx(plain, rel=1e-5)


def test_a_pair_across_baseboards_gets_its_pair_links_and_four_pairs_share_them():
    graph = TWO_BOARDS.graph()
    assert part_bandwidth(graph, "GPU 0", "GPU 3", HB).value_Bps == 18 * 25 * GB
    alone = part_bandwidth(graph, "GPU 0", "GPU 4", HB)
    assert alone.value_Bps == 16 * 25 * GB
    assert alone.bottleneck == tuple((f"NVSwitch 1-{i}", f"NVSwitch 2-{i}") for i in range(1, 5))
    assert alone.text == "NVSwitch 1-1 to NVSwitch 2-1 and 3 more, 16 links"
    assert flow_bandwidths(graph, CROSSING, HB)["bandwidth_Bps"].to_list() == pytest.approx([100 * GB] * 4)


def test_a_shared_nic_is_shared_and_fair_rates_leave_nothing_behind():
    graph = TWO_BOARDS.graph()
    found = flow_bandwidths(graph, [(f"GPU {i}", "network") for i in range(8)])
    assert found["bandwidth_Bps"].to_list() == pytest.approx([25 * GB / 8] * 8)
    assert set(found["bottleneck"]) == {"NIC 1 to network, 1 link"}
    mixed = flow_bandwidths(
        graph, [("GPU 0", "network"), ("GPU 1", "network"), ("GPU 0", "GPU 1")], ("pcie", "ethernet")
    )
    assert mixed["bandwidth_Bps"].to_list() == pytest.approx([12.5e9, 12.5e9, TWO_BOARDS.pcie_Bps - 12.5e9])


def test_gpus_pass_nothing_on():
    mesh = Server(4, 50 * GB, 1, 25 * GB, 5, mesh_links=2).graph()
    assert part_bandwidth(mesh, "GPU 0", "GPU 1", HB).value_Bps == 100 * GB  # not over GPU 2 as well
    alone = Server(2, 50 * GB, 2, 25 * GB, 5, pcie_switches=2).graph()
    assert part_bandwidth(alone, "GPU 0", "GPU 1") == server.PartBandwidth(0.0, (), "not joined")  # nor the network


def test_lanes_of_a_pcie_switch():
    eight = replace(TWO_BOARDS, nics=8)
    assert server.pcie_lane_use(eight)["needed"].to_list() == [256] and server.pcie_switches_needed(eight) == 2
    assert "needs 256 PCIe lanes and has 144: take 2 switches" in eight.warnings[0]
    assert not replace(eight, pcie_switches=2).warnings and not replace(eight, pcie_lanes=8).warnings
    assert server.pcie_switches_needed(TWO_BOARDS) == 1 and not TWO_BOARDS.warnings  # nine links of 16 are 144


def test_servers_of_the_catalog():
    box = server.catalog_server("DGX H100", "PEX89144")
    assert box.chip_links == (5, 4, 4, 5) and not box.warnings
    graph, crossing = box.graph(), [*CROSSING, *((b, a) for a, b in CROSSING)]
    assert flow_bandwidths(graph, crossing, HB)["bandwidth_Bps"].to_list() == pytest.approx([box.hb_Bps] * 8)
    mesh = server.catalog_server("MI300X full mesh")
    assert mesh.mesh_links == 1 and part_bandwidth(mesh.graph(), "GPU 0", "GPU 5", HB).value_Bps == mesh.hb_link_Bps
    assert mesh.hb_Bps == 7 * mesh.hb_link_Bps
    assert server.catalog_server("DGX H100", nics=2).nics == 2


def test_cases_of_a_server_are_those_of_its_links_by_hand():
    found = server.compare_servers([TWO_BOARDS]).set_index("case")["bandwidth_Bps"]
    assert found.to_dict() == pytest.approx(
        {
            "a GPU to its neighbour": 18 * 25 * GB,
            "a GPU to one of the other half": 16 * 25 * GB,
            "all GPUs to the other half at once": 16 * 25 * GB / 4,
            "a GPU to the network over all NICs": 25 * GB,
            "all GPUs to the network at once": 25 * GB / 8,
        }
    )
    alone = server.compare_servers([Server(1, 25 * GB, 1, "200 Gbps", 5, (2,))])
    assert list(alone["case"]) == ["a GPU to the network over all NICs", "all GPUs to the network at once"]
