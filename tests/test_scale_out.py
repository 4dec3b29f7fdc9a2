"""Scale-out networks: limits, whole against smooth, brute force, counted against closed forms, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from counted_parts import count_parts
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import Gbps
from railcore.deploy import cabling
from railcore.network.bill import bill_total
from railcore.network.price_books import PriceBook, price_book
from railcore.network.topology.clos import ideal_clos_parts
from railcore.network.topology.rails import RailFabric, fat_tree
from suite.charts import bars
from suite.flops2024 import locality, scale_out
from suite.flops2024.scale_out import Equipment

NIC = 800 * Gbps
PRICES, POWERS = PriceBook(800, 1000, rate_Bps=NIC), PriceBook(17, 15, rate_Bps=NIC)
EQUIPMENT = Equipment("51.2T", NIC, PRICES, POWERS)


def table(gpus, rails, planes, count="whole", chip="51.2T", **options):
    return scale_out.rail_plane_networks(gpus, rails, planes, replace(EQUIPMENT, chip=chip), count, **options)


# Parts


@given(st.integers(2, 10**6), st.sampled_from([4, 16, 64]), st.sampled_from([1, 2, 4, 8]))
def test_one_rail_is_the_fat_tree(gpus, radix, planes):
    ours, tree = scale_out.network_parts(gpus, 1, radix, planes), fat_tree(gpus, radix, planes=planes).parts
    assert ours.tiers == tree.tiers and np.array_equal(ours.switches_by_tier, tree.switches_by_tier)
    assert np.array_equal(ours.links_by_tier, tree.links_by_tier)
    smooth = scale_out.network_parts(gpus, 1, radix, 1, "smooth")
    tiers, switches, transceivers = ideal_clos_parts(gpus, radix)
    assert (smooth.tiers, smooth.link_ends) == (tiers, transceivers)
    assert smooth.switches == pytest.approx(switches, rel=1e-12)


@given(st.integers(100, 10**6), st.integers(1, 100), st.sampled_from([4, 8, 64]), st.sampled_from([1, 2, 4]))
def test_smooth_is_least_and_whole_is_most(gpus, rails, radix, planes):
    smooth, rounded, whole = (scale_out.network_parts(gpus, rails, radix, planes, c) for c in scale_out.COUNT_METHODS)
    assert smooth.switches <= rounded.switches + 1e-6 and rounded.switches <= whole.switches
    assert smooth.links == rounded.links <= whole.links
    assert smooth.tiers == rounded.tiers <= whole.tiers


@pytest.mark.parametrize(("rails", "planes"), [(1, 1), (1, 2), (4, 1), (4, 2), (2, 4)])
@pytest.mark.parametrize("domains", [4, 9, 16])
def test_whole_parts_are_those_of_the_wired_graph(rails, planes, domains):
    fabric = RailFabric(4 * domains, 4, 4, rails=rails, planes=planes)
    switches, links = count_parts(fabric.graph())
    parts = scale_out.network_parts(4 * domains, rails, 4, planes)
    assert list(switches.values()) == [n for n in parts.switches_by_tier if n]
    assert list(links.values()) == [n for n in parts.links_by_tier if n]


def test_planes_share_wires_and_boxes():
    one = table(4096, 8, [1, 2, 4, 8], "smooth")
    two_tiers = one[one.tiers == 2]
    assert len(two_tiers) > 1 and two_tiers.cables.nunique() == 1  # planes add logical links, not cables
    assert np.array_equal(two_tiers.switch_links, two_tiers.cables * two_tiers.planes)
    assert np.allclose(one.boxes * one.planes, one.chips)


def test_equipment_scales_its_books_to_the_nic(monkeypatch, tmp_path):
    head = "name,parameter,value,low,high,unit,kind,source,as_of,note"
    for family, exponent in (("prices", 0.8), ("powers", 0.7)):
        text = f"{head}\nscaling,rate_exponent,{exponent},,,1,measured,ours,2026,\n"
        (tmp_path / f"{family}.csv").write_text(text)
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    slow, book = scale_out.catalog_equipment("51.2T", NIC / 2, "flops2024", "800G DR8"), price_book("flops2024")
    assert slow.prices.port == pytest.approx(book.port / 2**0.8)
    full = scale_out.catalog_equipment("51.2T", NIC, "flops2024", "800G DR8")
    assert slow.powers.transceiver == pytest.approx(full.powers.transceiver / 2)  # its end of a twin-port module
    assert (slow.powers.ends_per_module, full.powers.ends_per_module) == (2, 1)
    assert slow.powers.port * slow.chip_ports == pytest.approx(full.powers.port * full.chip_ports)  # the chip's
    assert slow.warnings == ("Prices of flops2024 are of 800 Gbps links: they are scaled to 400 Gbps.",)
    assert EQUIPMENT.warnings == ()
    again = replace(slow, nic_Bps=NIC)
    assert again.prices.port == pytest.approx(book.port) and again.prices.label() == "flops2024"
    with pytest.raises(ValueError, match="book 'given' has no rate_Bps"):
        Equipment("51.2T", NIC, PriceBook(800, 1000), POWERS)


def test_cost_is_the_cost_of_the_parts_at_full_speed():
    row = table(50_000, 10, 4).iloc[0]
    parts = scale_out.network_parts(50_000, 10, 64, 4)
    total = bill_total(parts.bill(), PRICES) / 4
    assert row.cost_usd + row.host_links_usd == pytest.approx(total)
    assert row.chips_usd == pytest.approx(row.chips * 64 * PRICES.port)


@given(
    st.integers(100, 10**6), st.integers(1, 80), st.sampled_from([1, 2, 4, 8]), st.sampled_from(scale_out.COUNT_METHODS)
)
def test_power_is_of_the_parts_that_the_cost_is_of(gpus, rails, planes, count):
    """One book as prices and as powers gives one number: transceivers at the hosts are in neither."""
    row = scale_out.rail_plane_networks(gpus, rails, planes, replace(EQUIPMENT, prices=POWERS), count).iloc[0]
    assert row.power_w == pytest.approx(row.cost_usd)
    assert row.cost_usd == pytest.approx(row.chips * 64 * POWERS.port + row.transceivers * POWERS.transceiver)
    assert row.host_links_usd >= 2 * gpus * POWERS.transceiver * (1 - 1e-12)  # one link of a GPU, two ends


@given(st.integers(1000, 500_000), st.sampled_from([1, 2, 4, 8]))
def test_more_rails_never_need_more_tiers_and_fewest_is_the_edge(gpus, planes):
    rails = np.arange(1, 101)
    tiers = scale_out.network_parts(gpus, rails, 64, planes, "smooth").tiers
    assert np.all(np.diff(tiers) <= 0)
    for wanted in (1, 2, 3):
        fewest = int(scale_out.fewest_rails(gpus, 64, planes, wanted))
        assert np.array_equal(tiers <= wanted, rails >= fewest)


def test_cheapest_is_what_a_loop_finds():
    costs = scale_out.network_combinations(20_000, 12, [1, 2, 4, 8, 16], EQUIPMENT)
    alone = {(r, p): table(20_000, r, p).cost_usd[0] for r in range(1, 13) for p in (1, 2, 4, 8)}
    assert len(costs) == len(alone)
    marks = scale_out.notable_shapes(costs, 4, 12, 2, EQUIPMENT)
    assert marks["cheapest"] == min(alone, key=lambda shape: (alone[shape], *shape))
    whole = {shape: cost for shape, cost in alone.items() if 4 % shape[0] == 0}
    assert marks["cheapest that divides a rack"] == min(whole, key=lambda shape: (whole[shape], *shape))
    alike = costs.assign(cost_usd=1e9 + 1e-6 * np.arange(len(costs))[::-1])  # equal but for the last bits
    assert scale_out.notable_shapes(alike, 4, 12, 2, EQUIPMENT)["cheapest"] == (1, 1)


def test_arrays_equal_the_scalars():
    rng = np.random.default_rng(1)
    n, r, p = rng.integers(100, 10**6, 40), rng.integers(1, 80, 40), rng.choice([1, 2, 4, 8], 40)
    whole = table(n, r, p)
    for i in range(40):
        assert whole.chips[i] == table(int(n[i]), int(r[i]), int(p[i])).chips[0]


def test_levels_are_the_blocks_of_the_fabric():
    levels = scale_out.block_sizes(800_000, 72, scale_out.network_shapes(72, 76, 4), EQUIPMENT)
    assert list(levels) == ["fat tree", "4 planes", "72 rails", "72 rails, 4 planes"]  # 76 does not divide 72
    assert levels["fat tree"] == (72, (32, 1024, 32768)) and levels["72 rails, 4 planes"] == (1, (128,))


def test_shapes_of_one_plane_need_a_port_of_the_speed():
    assert len(scale_out.network_shapes(72, 76, 4)) == len(scale_out.network_shapes(72, 76, 4, {1: 64, 4: 256})) == 5
    left = scale_out.network_shapes(72, 76, 4, scale_out.chip_modes("51.2T", 2 * NIC))
    assert left == {"4 planes": (1, 4), "72 rails, 4 planes": (72, 4), "76 rails, 4 planes": (76, 4)}


def test_counts_beside_each_other_are_those_below_each_other():
    rows = scale_out.compare_shapes([1000, 2000], scale_out.network_shapes(8, 6, 2), EQUIPMENT)
    beside = scale_out.counts_side_by_side(rows)
    assert len(beside) == len(rows) / 3 and list(beside.gpus.unique()) == [1000, 2000]
    for row in rows.itertuples():
        side_by_side = beside[(beside.network == row.network) & (beside.gpus == row.gpus)].iloc[0]
        assert (side_by_side[f"chips_{row.count}"], side_by_side[f"cost_{row.count}_usd"]) == (row.chips, row.cost_usd)


@pytest.mark.parametrize(("chip", "ratio"), [("25.6T", 16.0), ("51.2T", 1.0), ("51.2T", 4.0)])
def test_costs_of_the_panel(chip, ratio):
    costs = scale_out.oversubscribed_leaf_costs(8000, 76, 4, ratio, replace(EQUIPMENT, chip=chip))
    assert ("fat tree" in set(costs.network)) == (1 in scale_out.chip_modes(chip, NIC))
    full, thin = (costs[costs.network == name].cost_usd.sum() for name in costs.network.unique()[-2:])
    row = table(8000, 76, 4, chip=chip).iloc[0]
    assert full == pytest.approx(row.cost_usd + row.host_links_usd)
    assert thin <= full and (ratio > 1 or thin == full)


def test_racks_on_more_rails_than_gpus():
    """Wired by leaving out R - K rails: brute force over the racks' sets of rails."""
    for k, r in ((72, 76), (6, 8), (6, 9), (4, 7)):
        row = scale_out.rack_rails(r, k).iloc[0]
        sets = [frozenset((d * (r - k) + i) % r for i in range(r - k)) for d in range(r)]
        rails = [frozenset(range(r)) - out for out in set(sets)]
        assert len(rails) == row.groups_of_racks_on_the_same_rails and all(
            len(one) == row.rails_of_a_rack for one in rails
        )
        shared = min(len(a & b) for a in rails for b in rails)
        assert shared >= row.rails_any_two_racks_share
    plain = [[(6 * d + j) % 8 for j in range(6)] for d in range(24)]
    meets = [d for d in range(1, 24) if plain[d][0] == plain[0][0]]
    assert meets[0] == scale_out.rack_rails(8, 6).racks_to_the_next_equal_rank[0]
    assert list(scale_out.rack_rails([24, 25], 72).divides_a_rack) == ["yes", "no"]


# Locality


def test_crossing_of_a_ring_averaged_over_its_offsets_is_exact():
    for n, g, e, b in ((5, 1, 1, 7), (5, 3, 2, 16), (1, 1, 1, 4), (9, 1, 4, 8)):
        shares = []
        for start in range(b):
            at = (start + e * g * np.arange(n)) // b
            shares.append(np.mean(at != np.roll(at, -1)))
        assert locality.ring_crossing(n, g, e, b) == pytest.approx(np.mean(shares))


def test_bands_join_the_two_extremes():
    for stages, members in ((7, 5), (1, 4), (6, 1)):
        stage, member = np.mgrid[:stages, :members]
        assert np.array_equal(locality.band_placement(stages, members, stages), stage * members + member)
        assert np.array_equal(locality.band_placement(stages, members, 1), member * stages + stage)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 30))
def test_the_best_bands_are_the_best_of_all(stages, members, block):
    def worse(bands):
        ring = locality.ring_crossing(members, stages / bands, 1, block)
        return max(ring, locality.chain_crossing(stages, members, bands, 1, block))

    best = locality.best_band_count(stages, members, block)
    assert worse(best) == min(worse(bands) for bands in range(1, stages + 1))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12))
def test_every_placement_gives_every_rack_one_place(stages, members, block):
    for place in locality.rack_placements(stages, members, block).values():
        assert sorted(place.ravel()) == list(range(stages * members))
        inside = locality.counted_crossing(place, 1, stages * members)
        assert inside.ring == inside.chain == 0


def test_flows_that_leave_a_leaf_are_counted():
    """Two stages of two racks with two endpoints each, under leaves of two racks."""
    apart = locality.counted_crossing(np.array([[0, 2], [1, 3]]), 2, 4)  # a ring lies over both leaves
    assert apart == (1.0, 0.0, 1.0, 0.0)
    together = locality.counted_crossing(np.array([[0, 1], [2, 3]]), 2, 4)
    assert together == (0.0, 1.0, 0.0, 1.0)
    mixed = locality.counted_crossing(np.array([[0, 1], [3, 2], [4, 5]]), 2, 6)
    assert mixed == pytest.approx((0.0 + 2 / 6, 2 / 4, 2 / 6, 2 / 3))


def test_thinner_leaves_cost_less_and_fit_where_flows_do():
    thin = locality.oversubscribed_leaves(4 * 512, 4, 1, [1, 1.5, 2, 3, 4, 8], 32, 16, EQUIPMENT)
    for _, rows in thin.groupby("placement"):
        assert np.all(np.diff(rows.cost_usd) <= 0)
        assert rows.fits.iloc[0] and np.all(rows.fits == (rows.most_leaving <= rows.uplinks + 1e-9))
    assert thin.saved.iloc[0] == 0
    most = locality.largest_oversubscription(thin).set_index("placement").oversubscription
    assert most["bands"] > most["random"]
    away = locality.oversubscribed_leaves(4 * 512, 4, 1, [1, 2], 32, 16, EQUIPMENT, outside=1.0)
    assert np.all(away.most_leaving == away.leaf_gpus) and np.array_equal(away.fits, away.oversubscription == 1)


# Lengths


def test_lengths_of_a_small_hall():
    hall = cabling.Floor(1.0, 2.0, 4, 1.0, 0.5, 0.3, 0.0)
    at = hall.rack_positions(8)
    assert at.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0], [0, 2], [1, 2], [2, 2], [3, 2]]
    host, top = cabling.rail_link_lengths(hall, 8, 1, [4])
    assert host.tolist() == [0.3, 0.3, 2, 2, 2, 2, 3, 3]  # to racks 1 and 5, next to the centres of their blocks
    assert top.tolist() == [2.5] * 8  # racks 1 and 5 to (1.5, 1)
    host, top = cabling.rail_link_lengths(hall, 8, 1, [8])
    assert host.max() == 1 + 3 + 1  # a block of both rows: the farthest rack is 3 along and 2 across, less is not there


def test_numbers_of_racks_turn_back_at_the_end_of_a_column():
    hall = cabling.catalog_floor("GPU hall")
    at = hall.rack_positions(3000)
    steps = np.abs(np.diff(at, axis=0)).sum(axis=1)
    row = hall.racks_per_row * hall.rack_pitch_m
    assert steps.max() <= row + max(hall.row_pitch_m, hall.cross_aisle_m) + 1e-9
    assert len(np.unique(at.round(6), axis=0)) == 3000
    assert 0.5 < np.ptp(at[:, 0]) / np.ptp(at[:, 1]) < 2


@given(st.integers(1, 3), st.integers(2, 300), st.sampled_from([(), (4,), (3, 24)]))
def test_lengths_equal_a_loop_over_endpoints(endpoints, racks, blocks):
    hall = cabling.catalog_floor("GPU hall")
    at, n = hall.rack_positions(racks), racks * endpoints
    lengths_by_tier = cabling.rail_link_lengths(hall, racks, endpoints, blocks)
    assert [lengths.size for lengths in lengths_by_tier] == [n] * (len(blocks) + 1)
    lower = [g // endpoints for g in range(n)]
    for lengths, block in zip(lengths_by_tier, blocks, strict=False):
        members = [lower[start : start + block] for start in range(0, n, block)]
        middle = [min(m, key=lambda r, m=m: np.abs(at[r] - at[m].mean(axis=0)).sum().round(6)) for m in members]
        upper = [middle[g // block] for g in range(n)]
        lengths_here = [
            hall.in_rack_m if a == b else (np.abs(at[a] - at[b]).sum() + 2 * hall.drop_m) * (1 + hall.slack)
            for a, b in zip(lower, upper, strict=True)
        ]
        assert lengths == pytest.approx(sorted(lengths_here))
        lower = upper


def test_switches_stand_about_where_links_are_shortest():
    hall = cabling.catalog_floor("GPU hall")
    at, host = hall.rack_positions(640), cabling.rail_link_lengths(hall, 640, 1, [128])[0]
    apart = np.abs(at[:, None] - at[None]).sum(axis=2)
    wanted = np.where(apart == 0, hall.in_rack_m, (apart + 2 * hall.drop_m) * (1 + hall.slack))
    least = sum(wanted[start : start + 128, start : start + 128].sum(axis=0).min() for start in range(0, 640, 128))
    assert least <= host.sum() * (1 + 1e-9) and host.sum() <= 1.01 * least


def test_cost_over_budget_at_the_ends_of_a_price():
    parts = ["switch chips", "switch-to-switch links", "host links"]
    split = pd.DataFrame({"links": "optics", "network": "a", "part": parts, "cost_usd": [40.0, 30.0, 20.0]})
    over = scale_out.cost_over_budget(split, 100.0, (5.0, 10.0, 20.0)).set_index("counted")
    share = "cost_divided_by_budget"
    shares = [f"{share}_at_low_chip_price", share, f"{share}_at_high_chip_price"]
    assert list(over.loc["between switches", shares]) == [0.5, 0.7, 1.1]
    assert list(over.loc["with host links", shares]) == [0.7, 0.9, 1.3]
    for row in over.itertuples():  # at the price found the budget is spent
        assert row.cost_divided_by_budget + 4 * (row.highest_chip_price_within_budget_usd - 10) / 100 == pytest.approx(
            1
        )
    assert (
        scale_out.cost_over_budget(split, 25.0, (5.0, 10.0, 20.0)).highest_chip_price_within_budget_usd.isna()
    ).all()


def test_whiskers_reach_the_totals_at_the_ends_of_the_price():
    import matplotlib.pyplot as plt

    split = pd.DataFrame(
        {"links": "optics", "network": "a", "part": ["switch chips", "host links"], "cost_usd": [4e9, 2e9]}
    )
    ax = bars.network_costs(split, 5e9, (1.0, 2.0, 4.0)).axes[0]
    (whisker,) = [segment for bars in ax.collections for segment in bars.get_segments()]
    assert whisker[:, 1].tolist() == [4.0, 10.0]
    plt.close("all")


def test_links_cost_what_the_cheapest_medium_that_reaches_does():
    hall, media, blocks = cabling.catalog_floor("GPU hall"), cabling.link_media(NIC, 1000.0), {"a": (4, (8, 64))}
    media_here = cabling.cheapest_link_costs(hall, 100, blocks, 400, media)
    for tier, lengths in enumerate(cabling.rail_link_lengths(hall, 100, *blocks["a"]), start=1):
        usd = [media.price_usd[media.reach_m >= length].min() for length in lengths]
        assert media_here["a", tier] == pytest.approx(sum(usd) * 400 / len(usd))
    assert (media_here <= 400 * media.price_usd[~media.copper].min()).all()
    assert not media.copper[media.reach_m > 10].any()


def test_cost_by_part_is_that_of_the_network_with_optics_and_of_the_links_with_the_cheapest_media():
    drawn = scale_out.compare_shapes([1000], {"4 rails": (4, 1)}, EQUIPMENT).query("count == 'smooth'")
    links = pd.Series({("4 rails", 1): 7.0, ("4 rails", 2): 5.0, ("4 rails", 3): 1.0})
    split = scale_out.cost_by_part(drawn, links).pivot(index="links", columns="part", values="cost_usd")
    optics, row = scale_out.cost_with_optics(drawn).set_index("part")["cost_usd"], drawn.iloc[0]
    assert split.loc["all optics"].to_dict() == optics.to_dict()
    cheapest = {"switch chips": row.chips_usd, "switch-to-switch links": 6.0, "host links": 7.0}
    assert split.loc["cheapest medium that reaches"].to_dict() == cheapest


@pytest.mark.parametrize("price", [None, 100.0])
def test_a_faster_nic_takes_media_side_by_side(price):
    one, two = cabling.link_media(NIC, price), cabling.link_media(2 * NIC, price and 2 * price)
    assert two.item.equals(one.item) and (two.side == 2 * one.side).all() and two.reach_m.equals(one.reach_m)
    assert np.allclose(two.price_usd, 2 * one.price_usd)


# What is refused


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: table(1000, 10, 3), "planes is 3, but with a NIC of 800 Gbps 51.2T has modes for 1, 2, 4, 8"),
        (lambda: table(10, 11, 1), "rails is 11, more than the 10 GPUs"),
        (lambda: scale_out.chip_modes("51.2T", 150 * Gbps), "nic_Bps is .*150 Gbps.*ports of 100, 200, 400, 800 Gbps"),
        (lambda: cabling.link_media(123.0), "nic_Bps is 123.0"),
        (
            lambda: cabling.cheapest_link_costs(
                cabling.catalog_floor("GPU hall"), 100, {"a": (4, ())}, 400, cabling.link_media(NIC).iloc[:1]
            ),
            "no medium of the table reaches",
        ),
    ],
)
def test_bad_input(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()
