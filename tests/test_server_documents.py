"""nwktimes2025: servers, models, two-node system. Every claim has a value, contradictions come out as they are."""

import pytest

from railcore.documents.nwktimes2025 import server_claims, servers
from railcore.documents.readings import claim_verdicts
from railcore.facts import claims
from railcore.facts.units import GB

PLACES = ("fig1_2", "fig13_1", "fig13_2", "fig13_3", "fig14_1")


@pytest.fixture(scope="module")
def entries():
    return server_claims.all_server_claims(server_claims.baseboard_crossings())


def test_every_claim_has_a_value_and_what_does_not_come_out_a_reason(entries):
    wanted = [name for place in PLACES for name in claims.ids(f"nwktimes2025.{place}")]
    assert set(entries.values) == set(wanted)
    differs = {name for name, verdict in claim_verdicts(entries.values).items() if verdict != "reproduced"}
    assert differs <= set(entries.reasons)
    assert {name.removeprefix("nwktimes2025.") for name in differs} == {
        "fig13_1.pcie_bandwidth",
        "fig13_1.pcie_one_direction",
        "fig13_1.cross_baseboard_bandwidth",
        "fig13_2.gpu_pcie_bandwidth",
        "fig13_2.pcie_switches",
    }


def test_what_crosses_the_baseboards_grows_with_their_links_until_the_gpus_limit_it():
    table = server_claims.baseboard_crossings()
    rates = table["bandwidth_Bps"].to_list()
    assert rates == pytest.approx([400 * GB, 100 * GB, 450 * GB, 112.5 * GB] + [450 * GB] * 4)
    assert table["bottleneck"].iloc[0] == "NVSwitch 1-1 to NVSwitch 2-1 and 3 more, 16 links"


def test_planes_are_the_two_of_the_figure():
    table = servers.two_node_system().table()
    assert table.groupby("plane")["fep"].agg(list).to_list() == [["FEP 111", "FEP 122"], ["FEP 211", "FEP 222"]]
    assert len(servers.two_node_system().delivery_contexts()) == 4


def test_delays_stay_within_the_bounds_at_the_value_of_each_latency():
    path, cables = servers.scale_out_path(), servers.scale_out_cables()
    assert len(cables) == path.links == 4
    assert path.delay_s(sum(cables))[2] < 1e-5 < path.delay_s(path.longest_cables_m(1e-5)[0] + 1)[0]
    assert servers.scale_up_path().delay_s(1.0)[2] > 1e-6  # at the high end of its latencies the bound breaks


def test_both_directions_are_twice_what_the_links_carry_in_one(entries):
    values = {name.removeprefix("nwktimes2025."): value for name, value in entries.values.items()}
    pcie = 16 * 32e9 / 8 * 128 / 130
    assert values["fig13_1.cross_baseboard_bandwidth"] == 2 * 4 * 4 * 25 * GB
    assert values["fig13_1.pcie_bandwidth"] == 2 * values["fig13_1.pcie_one_direction"] == pytest.approx(2 * pcie)
    assert values["fig13_2.gpu_pcie_bandwidth"] == pytest.approx(2 * pcie)


def test_what_is_short_or_shared_is_shown_in_red():
    assert servers.server_alerts(servers.shared_nic_server()) == [("NIC 1", "network")]
    assert servers.server_alerts(servers.nic_per_gpu_server()) == ["PCIe switch 1"]
