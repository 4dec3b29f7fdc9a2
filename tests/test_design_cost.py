"""CapEx of a fabric item by item, media that reach, and designs that are comparable by counting."""

import pytest
from test_addressing import LARGE, SN5600, every_kind

from railcore.catalog.units import Gbps
from railcore.network.switches import SwitchModel, switch_model
from suite.deployment.cables import CABLE_KINDS, link_medium, ports_at_ends
from suite.deployment.design_comparison import compare_designs
from suite.deployment.part_counts import cost_of_parts, design_parts
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan


@every_kind
def test_items_are_what_the_design_has(plan):
    fabric = plan.fabric
    table = design_parts(plan)
    switches = table[table["part"] == "switches"]
    assert switches["count"].tolist() == list(fabric.switches_by_tier)
    assert table.loc[table["part"] == "NICs", "count"].sum() == fabric.gpus * -(-fabric.nic_Bps // (800 * Gbps))
    links = dict(zip(CABLE_KINDS, [*fabric.links_by_tier, 0, 0][:3], strict=False))
    links["peer"] = (plan.trunks["kind"] == "peer").sum()
    for kind, count in links.items():
        part = table[(table["part"] == "links") & (table["where"] == kind)]
        if not count:
            assert part.empty
        elif ports_at_ends(fabric, kind) == (1, 1):
            (_, _, side), _ = link_medium(fabric, kind, None).ends
            assert part["count"].sum() == 2 * side * count
        else:
            assert count <= part["count"].sum() <= 2 * count


@pytest.mark.parametrize(
    ("speed", "breakout", "length", "text"),
    [
        ("400 Gbps", True, 1.5, "800G DAC for 2"),
        ("400 Gbps", True, 100, "400G DR4 to 800G DR8 for 2"),
        ("200 Gbps", True, 1.5, "800G DAC for 4"),
        ("200 Gbps", False, 3, "200G DAC"),
        ("800 Gbps", True, 40, "800G SR8"),
    ],
)
def test_a_host_link_takes_the_cheapest_medium_that_reaches(speed, breakout, length, text):
    fabric = SegmentFabric(2, switch_model("51.2T"), port_Bps=speed, breakout=breakout)
    assert link_medium(fabric, "host", length).text == text


def test_a_splitter_cable_is_bought_once_for_its_links():
    fabric = SegmentFabric(8, SN5600, segments=2, spines=2, spine_links=4, uplink_Bps="400 Gbps")
    costs = cost_of_parts(design_parts(fabric, {"host": 1.5, "spine": 2}))
    assert (costs["low_usd"] <= costs["cost_usd"]).all() and (costs["cost_usd"] <= costs["high_usd"]).all()
    assert costs["cost_usd"].tolist() == pytest.approx((costs["count"] * costs["unit_usd"]).tolist())
    table = costs.query("part == 'links'").set_index("where")
    assert table.loc["host", "cost_usd"] == pytest.approx(128 * link_medium(fabric, "host", 1.5).link_usd)
    assert table.loc["host", ["item", "count"]].tolist() == ["800G DAC", 64]
    assert table.loc["spine", ["item", "count"]].tolist() == ["800G DAC", 8]
    slower = SegmentFabric(4, switch_model("25.6T"), segments=2, spines=2, spine=SN5600, spine_links=4)
    table = design_parts(slower, {"spine": 2}).query("part == 'links'").set_index("where")
    assert table.loc["spine", ["item", "count"]].tolist() == ["800G DAC", 8]  # split at the spine alone


def test_a_copper_cable_joins_two_interfaces_not_four():
    """Lanes of one interface that go to different spines cannot meet another interface's lanes in one copper cable."""
    spread = SegmentFabric(4, SN5600, segments=2, spines=3, uplink_Bps="400 Gbps")
    assert "DAC" not in link_medium(spread, "spine", 2).text
    together = SegmentFabric(4, SN5600, segments=2, spines=3, spine_links=2, uplink_Bps="400 Gbps")
    assert link_medium(together, "spine", 2).text == "800G DAC for 2"
    assert link_medium(spread, "host", 2).text == "800G DAC for 2"


def test_what_has_no_price_or_medium_is_refused():
    fabric = SegmentFabric(2, SwitchModel("ours", 64, 800 * Gbps))
    with pytest.raises(ValueError, match=r"'ours' of switches has no price: give prices={'ours': 30000}"):
        cost_of_parts(design_parts(fabric))
    with pytest.raises(ValueError, match=r"lengths_m of host is 9000\.0: no medium of 400 Gbps reaches that far"):
        design_parts(fabric, {"host": 9000})


def test_the_smallest_nic_that_has_the_bandwidth():
    for ports, speed, nic, nics in ((1, 400, "ConnectX-7", 1), (2, 400, "ConnectX-8", 1), (4, 400, "ConnectX-8", 2)):
        fabric = SegmentFabric(2, LARGE, nic_ports=ports, port_Bps=speed * Gbps)
        row = design_parts(fabric).set_index("part").loc["NICs"]
        assert (row["item"], row["count"]) == (nic, nics * fabric.gpus)


def test_comparable_is_counted():
    base = {"servers": 8, "rail_switch": switch_model("51.2T"), "segments": 2, "spines": 4}
    whole = SegmentFabric(**base)
    designs = {
        "multi-rail": whole,
        "single-rail": SegmentFabric(**base, rails_per_switch=1, uplink_Bps="100 Gbps", breakout=False),
        "half uplinks": SegmentFabric(**{**base, "spines": 2}),
        "two ports": AddressPlan(SegmentFabric(**base, nic_ports=2, port_Bps="200 Gbps")),
        "more servers": SegmentFabric(**{**base, "segments": 3}),
        "no spines": SegmentFabric(16, base["rail_switch"], port_Bps="400 Gbps"),
    }
    table = compare_designs(designs).set_index("design")
    assert table.loc["multi-rail", "oversubscription"] == 8 and table.loc["multi-rail", "comparable"]
    assert table["differs_in"].to_dict() == {
        "multi-rail": "",
        "single-rail": "",
        "half uplinks": "oversubscription",
        "two ports": "oversubscription, nic_switches",
        "more servers": "gpus",
        "no spines": "oversubscription, reach",
    }
    assert table.loc["single-rail", "gpus_lost"] == 8 < table.loc["multi-rail", "gpus_lost"] == 64
    assert (table["comparable"] == (table["differs_in"] == "")).all()
    assert table.loc["single-rail", "cost_usd"] > table.loc["multi-rail", "cost_usd"]
    assert "cost_usd" not in compare_designs({"one": SegmentFabric(2, LARGE)}, cost=False)
