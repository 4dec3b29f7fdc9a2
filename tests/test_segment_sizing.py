"""The smallest fabric for a demand: closed forms of a Clos, every fabric of small switches, refusals."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import Gbps
from railcore.network.switches import SwitchModel, switch_model
from railcore.network.topology.clos import clos_reach, ideal_clos_parts
from suite.deployment.segment_sizing import SegmentDemand, smallest_segment_fabric
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

SMALL = SwitchModel("small", 8, 400 * Gbps)
SN5600 = switch_model("SN5600")  # 128 ports of 400 Gbps


def size(fabric):
    return fabric.tiers, sum(fabric.switches_by_tier), sum(fabric.links_by_tier)


def small_demand(gpus, **options):
    return SegmentDemand(gpus, SMALL, **{"gpus_per_server": 2, **options})


@pytest.mark.parametrize("rails_per_switch", [8, 4, 2, 1])
@pytest.mark.parametrize("tiers", [2, 3])
def test_a_full_fabric_is_the_clos_of_its_radix(rails_per_switch, tiers):
    reach = int(clos_reach(128, tiers))
    parts = {"rails_per_switch": rails_per_switch, "uplink_Bps": "400 Gbps", "rails_apart": False}
    fabric = smallest_segment_fabric(SegmentDemand(reach, SN5600, **parts)).fabric
    ideal_tiers, switches, transceivers = ideal_clos_parts(reach, 128)
    assert (fabric.gpus, fabric.tiers, sum(fabric.switches_by_tier)) == (reach, ideal_tiers, switches)
    assert 2 * sum(fabric.links_by_tier) == transceivers
    above = SegmentDemand(reach + 1, SN5600, **parts)
    if tiers == 2:
        assert smallest_segment_fabric(above).fabric.tiers == 3
    else:
        with pytest.raises(ValueError, match=rf"gpus is {reach + 1:,}: three tiers .* hold {reach:,} at most"):
            smallest_segment_fabric(above)


@pytest.mark.parametrize("rails_per_switch", [8, 4, 2, 1])
def test_a_segment_without_spines_holds_the_ports_of_its_switches(rails_per_switch):
    most = 128 // rails_per_switch * 8
    for homing, port in ((1, 400 * Gbps), (2, 200 * Gbps)):
        nic = {"rails_per_switch": rails_per_switch, "nic_ports": homing, "port_Bps": port}
        full = smallest_segment_fabric(SegmentDemand(homing * most, SN5600, **nic)).fabric
        assert full.tiers == 1 and full.switches_by_tier == (8 // rails_per_switch * homing,)
        assert full.interfaces_used == ((64, 0),)
        assert smallest_segment_fabric(SegmentDemand(homing * most + 1, SN5600, **nic)).fabric.tiers == 2


demands = st.builds(
    small_demand,
    st.integers(1, 200),
    rails_per_switch=st.sampled_from([1, 2]),
    nic_ports=st.sampled_from([1, 2]),
    homing=st.just(0),
    oversubscription=st.sampled_from([1.0, 1.5, 3.0]),
    spine_oversubscription=st.sampled_from([1.0, 2.0]),
    rails_apart=st.booleans(),
)


@given(demands)
def test_a_sized_fabric_holds_what_is_asked_and_no_link_is_overbooked(demand):
    try:
        sizing = smallest_segment_fabric(demand)
    except ValueError:
        return  # three tiers are too few: refusals have tests of their own
    fabric, allowed = sizing.fabric, (demand.oversubscription, demand.spine_oversubscription)
    assert fabric.gpus >= demand.gpus and sizing.spare_gpus == fabric.gpus - demand.gpus
    assert all(ratio <= most + 1e-9 for ratio, most in zip(fabric.oversubscription, allowed, strict=False))
    assert (fabric.servers - 1) * fabric.segments * fabric.pods < demand.servers, "servers are spread evenly"
    assert len(sizing.reasons) == fabric.tiers
    assert all(
        reason.startswith(name) for reason, name in zip(sizing.reasons, ("rail", "spine", "super"), strict=False)
    )
    joined = fabric.tiers > 1 or fabric.rails_per_switch == fabric.rails
    assert joined or demand.rails_apart
    if demand.gpus > 1:
        one_fewer = smallest_segment_fabric(replace(demand, gpus=demand.gpus - 1))
        assert size(one_fewer.fabric)[:2] <= size(fabric)[:2]


def every_fabric(demand):
    """Every fabric of up to three tiers of the small switch whose links are not overbooked."""
    one, ports = demand.one_server, range(1, SMALL.ports + 1)
    shapes = [{}, *({"spines": s, "spine_links": k} for s, k in product(ports, ports) if s * k < 8)]
    for pod, tops, k in product(shapes[1:], range(1, 17), (1, 2)):
        for planes in (q for q in range(1, pod["spines"] + 1) if pod["spines"] % q == 0 == tops % q):
            shapes.append({**pod, "super_spines": tops, "super_spine_links": k, "super_spine_planes": planes})
    r, leaves = one.rails_per_switch, one.rail_switches_of_segment
    held = ((a, b, c) for a, b, c in product(range(1, 9), repeat=3) if a * b * (c - 1) < demand.servers <= a * b * c)
    for servers, segments, pods in held:
        for shape in shapes:
            k, up = shape.get("spine_links", 0), shape.get("spines", 0) * shape.get("spine_links", 0)
            if (segments > 1 and not shape) or (pods > 1 and "super_spines" not in shape):
                continue
            if servers * r + up > SMALL.ports or segments * leaves * k > SMALL.ports:
                continue
            try:
                yield SegmentFabric(
                    servers, SMALL, one.gpus_per_server, segments, pods, rails_per_switch=one.rails_per_switch, **shape
                )
            except ValueError:
                continue


@pytest.mark.parametrize(("gpus", "rails_per_switch"), [(20, 1), (33, 2)])
def test_no_fabric_at_all_is_smaller(gpus, rails_per_switch):
    demand = small_demand(gpus, rails_per_switch=rails_per_switch)
    whole = (fabric for fabric in every_fabric(demand) if max(fabric.oversubscription, default=0) <= 1)
    assert size(smallest_segment_fabric(demand).fabric) == min(map(size, whole))


def test_links_between_switches_take_the_speed_that_saves_a_tier():
    """64 ports of 800 Gbps join 4,096 GPUs in two tiers; broken out to 400 Gbps they join twice as many."""
    fast, slow = (smallest_segment_fabric(SegmentDemand(gpus, SN5600)).fabric for gpus in (4096, 8192))
    assert (fast.tiers, fast.uplink_Bps) == (2, 800 * Gbps)
    assert (slow.tiers, slow.uplink_Bps) == (2, 400 * Gbps)
    without = smallest_segment_fabric(SegmentDemand(8192, SN5600, breakout=False, uplink_Bps="800 Gbps")).fabric
    assert without.tiers == 3


@pytest.mark.parametrize("spare", [0, 2, 10])
def test_interfaces_kept_free_are_free(spare):
    nic = {"nic_ports": 2, "port_Bps": "200 Gbps", "rails_per_switch": 2, "spare_interfaces": spare}
    for gpus in (512, 4096):
        fabric = smallest_segment_fabric(SegmentDemand(gpus, SN5600, **nic)).fabric
        assert sum(fabric.interfaces_used[0]) <= 64 - spare
    plan = AddressPlan(fabric, bundling="mlag", peer_links=max(spare, 1)) if spare else None
    assert plan is None or (plan.trunks["kind"] == "peer").any(), "a pair has its peer links there"


def test_oversubscription_saves_spines():
    fabrics = [smallest_segment_fabric(SegmentDemand(4096, SN5600, oversubscription=s)).fabric for s in (1, 2, 4)]
    assert [fabric.oversubscription[0] for fabric in fabrics] == sorted(f.oversubscription[0] for f in fabrics)
    spines = [fabric.switches_by_tier[1] for fabric in fabrics]
    assert spines == sorted(spines, reverse=True) and spines[0] > spines[-1]


def test_the_reasons_name_the_limits():
    small = smallest_segment_fabric(SegmentDemand(256, SN5600, rails_per_switch=1))
    assert "128 servers make the largest segment" in small.reasons[0] and "HB domains" in small.reasons[0]
    large = smallest_segment_fabric(SegmentDemand(65_536, SN5600))
    assert "8,192 servers are more than 16" in large.reasons[1]
    assert "65,536 GPUs are more than the 8,192 of one pod" in large.reasons[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus_per_server": 12}, "servers is 1: .* 12 host ports .* no number of servers fits"),
        ({"spare_interfaces": 8}, "spare_interfaces is 8: give whole numbers from 0 to 7"),
        ({"gpus": 1000}, "hold 128 at most. Give 128 GPUs or fewer, switches with more ports"),
    ],
)
def test_what_no_design_holds_is_refused_with_what_would(options, message):
    with pytest.raises(ValueError, match=message):
        smallest_segment_fabric(small_demand(**{"gpus": 6, **options}))
