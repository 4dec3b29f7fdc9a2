import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import Gbps, hour, year
from railcore.network import reliability
from railcore.network.reliability import (
    RATES,
    checkpoint_interval,
    cluster_failures,
    expected_failures,
    goodput,
    host_gpus,
    job_interruptions,
    mean_time_between_failures,
    parts_at_risk,
)
from railcore.network.switches import SwitchModel
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only
from suite.deployment.segments import SegmentFabric

KINDS = ("GPU", "NIC", "HB switch", "host", "software", "switch", "transceiver", "link", "circuit switch")
MTBF, CHECKPOINT = st.floats(1e3, 1e8), st.floats(1, 300)
COUNTS = st.lists(st.integers(0, 100_000), min_size=len(KINDS), max_size=len(KINDS))
CLUSTERS = st.tuples(st.integers(1, 400), st.integers(1, 12), st.sampled_from([4, 8, 16]))
H100, NVL72 = "DGX H100", "GB200 NVL72"


def table(counts, stopped=1.0, share=1.0):
    """Parts of each kind that stop so many GPUs."""
    taken = {"gpus_stopped": stopped, "gpus_slowed": stopped, "share_lost": share}
    return pd.DataFrame({"part": counts.keys(), "kind": counts.keys(), "count": counts.values()}).assign(**taken)


def at_risk(fabric, platform=""):
    return parts_at_risk(fabric, platform).set_index("part")


def test_parts_at_risk_are_those_of_the_fabric():
    fabric = rail_only(60, 8, 8, planes=2, hb_switches=4)
    counts = parts_at_risk(fabric).groupby("kind")["count"].sum().to_dict()
    assert counts == {
        "GPU": 60,
        "NIC": 60,
        "software": 60,
        "host": 8,
        "HB switch": 8 * 4,
        "switch": fabric.parts.switches,
        "transceiver": 2 * fabric.parts.links,
        "link": fabric.parts.links,
    }
    assert at_risk(fat_tree(8, 4))["count"]["HB switch"] == 0
    assert at_risk(fabric, NVL72)["count"][["host", "HB switch"]].tolist() == [15, 8 * 18]


@given(CLUSTERS, st.sampled_from([1, 2, math.inf]), st.integers(1, 4))
def test_one_plane_is_cut_off_by_what_several_only_lose_a_share_to(cluster, layer, planes):
    parts = at_risk(RailFabric(*cluster, layer, planes=planes))
    below = parts.loc[["tier-1 switch", "host link", "host transceiver"]]
    assert (below["share_lost"] == 1 / planes).all()
    assert (below["gpus_stopped"] == (below["gpus_slowed"] if planes == 1 else 0)).all()
    assert (below["gpus_slowed"].iloc[1:] == 1).all()
    if below["count"].any():  # every NIC hangs on one switch and one link of each plane
        taken = below["count"] * below["gpus_slowed"] * below["share_lost"]
        assert taken.tolist() == pytest.approx([cluster[0], cluster[0], 2 * cluster[0]])
    above = parts.loc[["upper switch", "trunk link", "trunk transceiver"]]
    assert not above["gpus_stopped"].any()
    tiers = RailFabric(*cluster, layer, planes=planes).tiers
    if tiers > 1:  # all parts of a tier carry all that passes it
        assert (above["count"] * above["share_lost"]).tolist() == pytest.approx([tiers - 1, tiers - 1, 2 * tiers - 2])


@given(CLUSTERS, st.integers(1, 4), st.sampled_from(RATES))
def test_failures_of_planes_slow_for_as_long_as_repair_takes(cluster, planes, rates):
    year_of = expected_failures(parts_at_risk(RailFabric(*cluster, planes=planes)), rates).set_index("part")
    link = year_of.loc["host link"]
    hours = link.events_per_year * link.repair_h
    assert hours == pytest.approx(link.parts_down * year / hour)
    assert link.slowed_hours_per_year == (pytest.approx(hours) if planes > 1 else 0)
    assert link.lost_gpu_hours_per_year == (pytest.approx(hours) if planes == 1 else 0)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 2]))
def test_circuit_switches_take_the_rings_of_their_ports(each, planes, per_port, modules):
    ports = each * planes
    fabric = PhotonicRails(32, 4, 1024, ports, planes, per_port, transceivers_per_gpu=0 if modules == 1 else 1)
    parts = at_risk(fabric)
    assert parts["count"]["circuit switch"] == fabric.parts.switches == 4 * planes
    assert parts["count"][["host link", "host transceiver"]].tolist() == [fabric.parts.used_ports, fabric.transceivers]
    switch = parts.loc["circuit switch"]
    assert switch["count"] * switch.gpus_slowed == 32 * planes  # every GPU is on one switch of each plane
    assert switch.share_lost >= parts.loc["host link", "share_lost"]
    assert (switch.gpus_stopped > 0) == (switch.share_lost == 1)
    if planes == 1 or modules > 1:
        part = "circuit switch" if planes == 1 else "host transceiver"
        assert parts.loc[part, "gpus_stopped"] == parts.loc[part, "gpus_slowed"] > 0
    if per_port > 1 and modules == 1:
        assert parts.loc["host transceiver", "share_lost"] == pytest.approx(1 / ports)


@given(COUNTS, COUNTS, st.floats(0, 64))
def test_failures_grow_with_the_parts(some, others, stopped):
    sums = [a + b for a, b in zip(some, others, strict=True)]
    one, two, both = (
        expected_failures(table(dict(zip(KINDS, counts, strict=True)), stopped)) for counts in (some, others, sums)
    )
    for column in ("events_per_year", "parts_down", "lost_gpu_hours_per_year", "slowed_hours_per_year"):
        assert list(both[column]) == pytest.approx(list(one[column] + two[column]))


def test_a_years_failures_by_hand():
    row = expected_failures(table({"GPU": 1000}, 8)).iloc[0]
    item = catalog.item("failure_rates", "GPU")
    a_year, hours = item["failure_rate"] * year, item["repair_time"] / hour
    assert row.events_per_year == pytest.approx(1000 * a_year)
    assert row.parts_down == pytest.approx(1000 * a_year * hours / (365 * 24))
    assert row.lost_gpu_hours_per_year == pytest.approx(1000 * a_year * hours * 8)
    assert mean_time_between_failures(row.events_per_year) == pytest.approx(year / (1000 * a_year))
    # Llama 3: GPU causes alone interrupted 16,384 GPUs 268 times in 54 days
    assert 16_384 * item["failure_rate_llama3"] * year * 54 / 365 == pytest.approx(268, rel=1e-4)


def test_rates_have_bounds():
    parts = table(dict.fromkeys(KINDS, 100))
    low, value, high = (expected_failures(parts, rates).lost_gpu_hours_per_year for rates in RATES)
    assert ((low < value) & (value < high)).all()


# The same cluster has the same failures through every entry point


@pytest.mark.parametrize("cluster", [(16_384, 8, 64, H100), (12_288, 72, 64, NVL72), (60, 8, 8, H100)])
@pytest.mark.parametrize("planes", [1, 4])
def test_all_failures_of_a_cluster_are_the_stops_of_its_job(cluster, planes):
    yearly, stops = cluster_failures(*cluster, planes), job_interruptions(*cluster, planes)
    wide = yearly[yearly["part"] == "all"].set_index("fabric").rename(columns={"events": "events_value"})
    for row in stops[stops["stops"] == "every part"].itertuples():
        assert row.events_per_year == pytest.approx(wide.loc[row.fabric, f"events_{row.rates}"])
    for name, fabric in reliability.platform_fabrics(*cluster, planes).items():
        parts = parts_at_risk(fabric, cluster[3])
        cut = expected_failures(parts[parts["gpus_stopped"] > 0])["events_per_year"].sum()
        here = stops[(stops["fabric"] == name) & (stops["rates"] == "value")].set_index("stops")["events_per_year"]
        assert here["what cuts GPUs off"] == pytest.approx(cut)


@pytest.mark.parametrize("radix", [32, 64])
def test_network_parts_of_segments_are_those_of_their_design(radix):
    from suite.deployment.part_counts import design_parts, parts_that_fail

    switch = SwitchModel("any", radix, 400 * Gbps)
    for options in ({"nic_ports": 1}, {"nic_ports": 2, "homing": 2}, {"nic_ports": 2, "homing": 1}):
        fabric = SegmentFabric(2, switch, 4, segments=2, spines=2, port_Bps=200 * Gbps, **options)
        ours, theirs = at_risk(fabric), parts_that_fail(fabric, design_parts(fabric))
        for part, named in (("tier-1 switch", "rail switch"), ("host link", "host link"), ("trunk link", "spine link")):
            row = theirs.set_index("part").loc[named]
            assert (ours["count"][part], ours["gpus_stopped"][part]) == (row["count"], pytest.approx(row["nic_lost"]))
        assert ours["count"]["host transceiver"] + ours["count"]["trunk transceiver"] == (
            theirs.loc[theirs["kind"] == "transceiver", "count"].sum()
        )


def test_hosts_are_the_platforms_own_or_those_whose_failures_were_counted():
    assert "host_gpus" not in catalog.item("platforms", H100)
    assert [host_gpus(name) for name in (H100, NVL72, "")] == [8, 4, 8]


@pytest.mark.parametrize("times", [(1e30, 1.0), (1.0, 1e30), (1e30, 1e30)])
def test_goodput_is_0_where_a_stretch_takes_for_ever(times):
    """Without a warning of NumPy's."""
    with warnings.catch_warnings(action="error"):
        assert goodput(1e5, *times) == 0


@given(MTBF, CHECKPOINT, st.floats(0, 3600), st.floats(10, 1e5))
def test_goodput_is_a_share_that_reliability_raises(mtbf, checkpoint, restart, interval):
    shares = goodput(np.array([mtbf, 1.01 * mtbf, 2 * mtbf]), checkpoint, restart, interval)
    assert (shares >= 0).all()
    assert (shares <= interval / (interval + checkpoint)).all()  # reached without failures
    if shares[0] > 1e-200:
        assert (np.diff(shares) > 0).all()
    assert goodput(mtbf, checkpoint, restart + 60, interval) <= shares[0]


@given(CHECKPOINT, st.floats(0, 3600), st.floats(10, 1e5))
def test_goodput_without_failures(checkpoint, restart, interval):
    assert goodput(1e14, checkpoint, restart, interval) == pytest.approx(interval / (interval + checkpoint), rel=1e-6)
    # first order: a failure loses the restart and half of the stretch since the last checkpoint
    m, stretch = 1e9, interval + checkpoint
    lost = 1 - goodput(m, checkpoint, restart, interval) * stretch / interval
    assert lost == pytest.approx((restart + stretch / 2) / m, rel=1e-2)


@given(st.floats(1, 60), st.floats(300, 1e5), st.floats(0, 3600))
def test_checkpoint_interval_loses_least(checkpoint, ratio, restart):
    mtbf = ratio * checkpoint
    tau = float(checkpoint_interval(mtbf, checkpoint))
    assert tau == pytest.approx(math.sqrt(2 * checkpoint * mtbf) - checkpoint)
    best = goodput(mtbf, checkpoint, restart)
    assert best == goodput(mtbf, checkpoint, restart, tau)
    assert best >= goodput(mtbf, checkpoint, restart, tau * np.array([0.5, 0.8, 1.25, 2])).max()
    others = goodput(mtbf, checkpoint, restart, tau * np.geomspace(0.5, 2, 401))
    assert best == pytest.approx(others.max(), rel=1e-3)
