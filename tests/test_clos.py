import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.network.topology.clos import clos_reach, ideal_clos_parts, rail_parts
from railcore.network.topology.collapse import collapse_warning, takes_no_less
from railcore.network.topology.rails import RailFabric, fat_tree, rail_optimized
from suite.ledger import claims

RADIX = st.integers(2, 64).map(lambda half: 2 * half)
SIZES = {"gpus": st.integers(1, 50_000), "hb_domain_size": st.integers(1, 600), "radix": RADIX}
COUNTS = {
    f"{part}_{network}": (part, network)
    for part in ("switches", "transceivers")
    for network in ("rail_optimized", "rail_only")
}
HB_DOMAIN_SIZE = 256  # inferred: of 128, 256 and 512 only this gives the tables' counts


def counted_claims():
    found = [*claims.ids("railonly2025.table1"), *claims.ids("railonly2023.table2")]
    return [claim_id for claim_id in found if claim_id.rpartition(".")[2] in COUNTS]


def test_tables_hold_52_counts():
    assert len(counted_claims()) == 52


@pytest.mark.parametrize("claim_id", counted_claims())
def test_count_of_the_tables_by_formula_and_in_whole_parts(claim_id):
    case, (part, network) = claims.case(claim_id), COUNTS[claim_id.rpartition(".")[2]]
    n, radix, paper = case["n"], case["r"], claims.paper_value(claim_id)
    alone = network == "rail_only"
    rails = HB_DOMAIN_SIZE if alone else 1
    _, switches, transceivers = ideal_clos_parts(n // rails, radix)
    assert rails * {"switches": switches, "transceivers": transceivers}[part] == paper

    parts = rail_parts(n, HB_DOMAIN_SIZE, radix, math.inf if alone else 1, rails_per_switch=None)
    assert getattr(parts, {"transceivers": "link_ends"}.get(part, part)) == paper  # one for each end


@given(RADIX, st.integers(1, 4))
def test_one_endpoint_beyond_the_reach_takes_another_tier(radix, tiers):
    reach = int(clos_reach(radix, tiers))
    assert reach == 2 * (radix // 2) ** tiers
    tiers_at, switches, transceivers = ideal_clos_parts([reach, reach + 1], radix)
    assert list(tiers_at) == [tiers, tiers + 1]
    assert (switches[0], transceivers[0]) == ((2 * tiers - 1) * reach / radix, 2 * tiers * reach)
    for hb_domain_size in (1, 4):
        whole = [rail_parts(hb_domain_size * n, hb_domain_size, radix) for n in (reach, reach + 1)]
        assert [parts.tiers for parts in whole] == [tiers, tiers + 1]
        assert whole[0].switches == hb_domain_size * switches[0]
        assert whole[0].links == hb_domain_size * tiers * reach


@given(**SIZES)
def test_whole_parts_are_never_below_the_formula(gpus, hb_domain_size, radix):
    for layer, rails in ((1, hb_domain_size), (math.inf, 1)):
        parts = rail_parts(gpus, hb_domain_size, radix, layer, rails=rails)
        tiers, switches, transceivers = ideal_clos_parts(gpus, radix)
        if gpus > hb_domain_size:
            assert parts.tiers >= tiers
            assert parts.switches >= switches
            assert parts.link_ends >= transceivers
        assert (parts.switches_by_tier[0] * radix >= 2 * gpus) | (parts.tiers <= 1)


@given(SIZES["hb_domain_size"], RADIX)
def test_one_hb_domain_needs_no_rails(hb_domain_size, radix):
    parts = rail_parts([hb_domain_size, 1, hb_domain_size + 1], hb_domain_size, radix)
    assert list(parts.tiers[:2]) == list(parts.switches[:2]) == list(parts.links[:2]) == [0, 0]
    assert parts.links[2] >= hb_domain_size + 1


@given(
    st.lists(
        st.tuples(*SIZES.values(), st.sampled_from([1, 1.5, 2, 3, math.inf]), st.integers(1, 3)), min_size=1, max_size=8
    )
)
def test_arrays_give_what_the_elements_give(rows):
    gpus, domains, radix, layer, planes = (np.array(column) for column in zip(*rows, strict=True))
    together = rail_parts(gpus, domains, radix, layer, planes=planes)
    for i, row in enumerate(rows):
        one = rail_parts(*row[:4], planes=row[4])
        used = len(one.switches_by_tier)
        assert list(together.switches_by_tier[:used, i]) == list(one.switches_by_tier)
        assert list(together.links_by_tier[:used, i]) == list(one.links_by_tier)
        assert not together.links_by_tier[used:, i].any()
        assert (together.tiers[i], together.ports[i]) == (one.tiers, one.ports)


def test_tiers_above_the_rails_are_full_whatever_is_below():
    """It is of the tiers within a rail; leaves that hold whole rails stand under the layer's oversubscription."""
    plain, thin = (rail_parts(512, 64, 16, 1, tier_oversubscription=tiers) for tiers in ((), (1, 3)))
    assert list(plain.switches_by_tier) == list(thin.switches_by_tier)
    assert list(plain.links_by_tier) == list(thin.links_by_tier)


@given(st.integers(1, 200), st.integers(1, 12), RADIX.filter(lambda k: k <= 16), st.sampled_from([1.01, 2, 4, 7]))
def test_oversubscription_takes_parts_away_or_says_why_not(domains, hb_domain_size, radix, ratio):
    gpus = domains * hb_domain_size
    layer = RailFabric(gpus, hb_domain_size, radix, min(ratio, radix - 1.0))
    leaves = fat_tree(gpus, radix, hb_domain_size, tier_oversubscription=(min(ratio, radix - 1.0),))
    for fabric, full in ((layer, rail_optimized(gpus, hb_domain_size, radix)), (leaves, fat_tree(gpus, radix))):
        same = (fabric.parts.switches, fabric.parts.links) == (full.parts.switches, full.parts.links)
        said = collapse_warning(fabric)
        assert same == (not fabric.is_oversubscribed) == bool(said)
        assert collapse_warning(full) == ""
        at = {"gpus": r"([\d,]+) GPUs \((\d)", "radix": r"(\d+) ports of a switch \((\d)"}
        for name, pattern in at.items():
            nearest = re.findall(pattern, said)  # none before it, one on each side
            assert len({int(value.replace(",", "")) > getattr(fabric, name) for value, _ in nearest}) == len(nearest)
            for value, tiers in nearest:
                there, here = int(value.replace(",", "")), getattr(fabric, name)
                other = replace(fabric, **{name: there})
                assert other.is_oversubscribed and other.tiers == int(tiers)
                step = {"gpus": hb_domain_size, "radix": 2}[name] * (1 if there > here else -1)
                between = [replace(fabric, **{name: each}) for each in range(here, there, step)]
                assert not any(each.is_oversubscribed for each in between[:: max(1, len(between) // 20)])


@given(SIZES["hb_domain_size"], RADIX, st.integers(0, 2**32 - 1))
def test_rail_only_with_fewer_tiers_never_takes_more(hb_domain_size, radix, seed):
    """What leaves the top tier of rail-optimized out; rails that need as many tiers as the whole may take more."""
    gpus = np.exp(np.random.default_rng(seed).uniform(0, np.log(1e6), 2000)).astype(int) + 1
    only = rail_parts(gpus, hb_domain_size, radix, rails_per_switch=None)
    optimized = rail_parts(gpus, hb_domain_size, radix, 1)
    assert (only.tiers <= optimized.tiers).all()
    fewer = only.tiers < optimized.tiers
    assert (only.switches <= optimized.switches)[fewer].all() and (only.links <= optimized.links)[fewer].all()
    assert not (takes_no_less(only, optimized) & fewer & (only.tiers > 0)).any()


@given(**SIZES, planes=st.integers(1, 8), layer=st.sampled_from([1, 2, math.inf]))
def test_planes_are_networks_of_finer_ports(gpus, hb_domain_size, radix, planes, layer):
    split = rail_parts(gpus, hb_domain_size, radix, layer, planes=planes)
    one = rail_parts(gpus, hb_domain_size, radix * planes, layer)
    assert split.tiers == one.tiers
    assert list(split.switches_by_tier) == list(planes * one.switches_by_tier)
    assert list(split.links_by_tier) == list(planes * one.links_by_tier)


@pytest.mark.parametrize(("name", "rails"), [("multiplane", 1), ("multirail4p", 72)])
def test_planes_lower_a_fabric(name, rails):
    # ports of 800G split in four: 256 on a chip that has 64 whole ones
    one, four = (rail_parts(800_000, rails, 64, rails=rails, planes=planes) for planes in (1, 4))
    assert four.tiers == claims.paper_value(f"flops2024.{name}.tiers")
    assert one.tiers == four.tiers + 1
    assert four.switches < one.switches
