"""nwktimes2025: its servers, its two-node system and its delays."""

import pytest

from railcore.catalog.units import GB
from suite.nwktimes2025 import server_claims, servers


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


def test_what_is_short_or_shared_is_shown_in_red():
    assert servers.server_alerts(servers.shared_nic_server()) == [("NIC 1", "network")]
    assert servers.server_alerts(servers.nic_per_gpu_server()) == ["PCIe switch 1"]
