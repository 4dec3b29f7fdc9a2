"""nwktimes2025: its servers, its two-node system and its delays."""

import pytest

from railcore.catalog.units import GB
from suite.ledger import claims
from suite.ledger.readings import claim_verdicts
from suite.nwktimes2025 import server_claims, servers
from suite.nwktimes2025.cluster import cluster_claims, document_cluster


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


def test_every_claim_of_the_notebook_has_a_value_and_what_fails_a_reason():
    ours = server_claims.all_server_claims(server_claims.baseboard_crossings())
    wanted = {name for name, entry in claims.claims().items() if entry.notebook == "18_cluster_networks"}
    assert ours.values.keys() | cluster_claims(document_cluster()).values.keys() == wanted
    failed = {name for name, verdict in claim_verdicts(ours.values).items() if verdict != "reproduced"}
    assert failed <= ours.reasons.keys() and "nwktimes2025.fig13_3.gpus_405b" not in failed
    assert "in powers of ten: 11 GPUs" in ours.readings["nwktimes2025.fig13_3.gpus_405b"]
    assert "(over 1,480 m: more than the bound)" in ours.readings["nwktimes2025.fig14_1.scale_out_delay"]
    assert "256" in ours.readings["nwktimes2025.fig13_2.pcie_switches"]


def test_grok_has_the_parameters_of_its_shapes():
    """By hand: queries, keys and values, output; eight experts of three matrices; the embedding, used twice."""
    layer = 6144 * (6144 + 2 * 8 * 128 + 6144) + 8 * 3 * 6144 * 32768
    ours = server_claims.grok_claims().values["nwktimes2025.grok1_parameters"]
    assert ours == pytest.approx(64 * layer + 131072 * 6144, rel=1e-4)  # routers and norms are small


def test_what_is_short_or_shared_is_shown_in_red():
    assert list(servers.server_alerts(servers.shared_nic_server())) == [("NIC 1", "network")]
    assert list(servers.server_alerts(servers.nic_per_gpu_server())) == ["PCIe switch 1"]
