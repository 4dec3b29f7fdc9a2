"""Power nodes: every plant in one, against slow ways to the same groups, lines and counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_grids import small_grid

from railcore.network.globe import great_circle_distance
from railcore.siting.grid import PowerGrid, load_grid
from suite.flops2024.nodes import METHODS, power_nodes

KM = 1e3
FUELS = ["coal", "gas", "nuclear", "oil", "wind"]


def small(seed: int, sites: int = 14) -> PowerGrid:
    """A random grid of 300 km by 270 km: some sites share a place, many powers are equal."""
    random = np.random.default_rng(seed)
    latitude, longitude = random.uniform(35, 37.7, sites), random.uniform(-100, -97, sites)
    latitude[-1], longitude[-1] = latitude[0], longitude[0]
    at, many = random.integers(0, sites, 2 * sites), 2 * sites
    power, fuels = random.integers(1, 5, many) * 1e8, random.choice(FUELS, many)
    names = {"state": random.choice(["Kansas", "Oklahoma"], many), "authority": random.choice(["SWPP", "ERCO"], many)}
    plants = zip(at + 100, latitude[at], longitude[at], fuels, power, power / 2, strict=True)
    ends = random.integers(0, 20, (40, 2))
    lines = [(a, b, random.integers(0, 9) * 1e8) for a, b in ends if a != b]
    places = [(random.uniform(35, 37.7), random.uniform(-100, -97)) for _ in range(50)]
    substations = [(i, *place) for i, place in enumerate(places[:20])]
    loads = [(*place, 1e8) for place in places[20:]]
    return small_grid(plants, lines, loads, substations, name=[f"S{i}" for i in at], **names)


@pytest.fixture(scope="module")
def embedded() -> PowerGrid:
    return load_grid()


SEEDS = st.integers(0, 10_000)
RADII = st.sampled_from([1.0, 10 * KM, 40 * KM, 80 * KM, 150 * KM, 5000 * KM])


def sets(found) -> set[frozenset[tuple]]:
    """The partition as sets of (site, fuel), whatever the order of rows and nodes."""
    keys = list(zip(found.grid.plants["sub_id"], found.grid.plants["fuel"], strict=True))
    return {frozenset(keys[i] for i in np.flatnonzero(found.of_plant == node)) for node in range(len(found))}


def by_hand(power_grid: PowerGrid, radius_m: float) -> set[frozenset[tuple]]:
    """Densest first with every circle counted anew for each node."""
    left = {}
    for row in power_grid.plants.itertuples():
        left.setdefault((row.sub_id, row.latitude, row.longitude), []).append((row.power_w, (row.sub_id, row.fuel)))
    at = np.array(sorted(left)).T
    apart = great_circle_distance(at[1][:, None], at[2][:, None], at[1][None], at[2][None])
    near = {tuple(s): {tuple(t) for t in at.T[row <= radius_m]} for s, row in zip(at.T, apart, strict=True)}
    found = set()
    while left:
        best, most = [], -1.0
        for seed in sorted(left):
            circle = [s for s in left if s in near[seed]]
            power = sum(p for s in circle for p, _ in left[s])
            if power > most:
                best, most = circle, power
        found.add(frozenset(key for s in best for _, key in left.pop(s)))
    return found


@given(SEEDS, RADII)
def test_densest_first_is_the_slow_way(seed, radius):
    power_grid = small(seed)
    assert sets(power_nodes(power_grid, radius)) == by_hand(power_grid, radius)


@settings(max_examples=15)
@given(SEEDS, RADII, st.sampled_from(list(METHODS)))
def test_every_plant_is_in_one_node_whatever_the_order_of_rows(seed, radius, method):
    power_grid = small(seed)
    found = power_nodes(power_grid, radius, method)
    assert found.plants.sum(axis=0) == pytest.approx(1)
    assert (found.plants.sum(axis=1) >= 1).all()
    shuffled = power_grid.with_plants(power_grid.plants.sample(frac=1, random_state=seed))
    again = power_nodes(shuffled, radius, method)
    assert sets(again) == sets(found)
    for name in ("latitude", "longitude"):
        assert getattr(again, name) == pytest.approx(getattr(found, name), rel=1e-12)
    assert again.supply.table().to_numpy() == pytest.approx(found.supply.table().to_numpy(), rel=1e-12)
    text = ["name", "state", "authority", "fuels"]
    assert again.table()[text].equals(found.table()[text])


@given(SEEDS, RADII)
def test_bounds_of_both_ways(seed, radius):
    power_grid = small(seed)
    place = power_grid.plants[["latitude", "longitude"]].to_numpy().T
    apart = great_circle_distance(*(axis[:, None] for axis in place), *(axis[None, :] for axis in place))
    found = power_nodes(power_grid, radius)
    centre = np.stack([found.latitude, found.longitude])[:, found.of_plant]
    assert (great_circle_distance(*centre, *place) <= radius * (1 + 1e-9) + 0.1).all()
    linked = power_nodes(power_grid, radius, "complete linkage")
    centre = np.stack([linked.latitude, linked.longitude])[:, linked.of_plant]
    assert (great_circle_distance(*centre, *place) <= 2 * radius * (1 + 1e-9) + 0.1).all()
    label = linked.of_plant
    widest = {
        (a, b): apart[np.ix_((label == a) | (label == b), (label == a) | (label == b))].max()
        for a in set(label)
        for b in set(label)
    }
    assert all((width <= 2 * radius * (1 + 1e-9) + 0.1) == (a == b) for (a, b), width in widest.items())


@pytest.mark.parametrize("method", METHODS)
def test_tiny_and_huge_radius(method):
    power_grid = small(7)
    places = power_grid.plants.groupby(["latitude", "longitude"]).ngroups
    assert len(power_nodes(power_grid, 1e-2, method)) == places
    one = power_nodes(power_grid, 5000 * KM, method)
    assert len(one) == 1
    assert one.supply.interconnect_w == pytest.approx(0)
    assert one.supply.load_w == pytest.approx(power_grid.loads["load_w"].sum())


@settings(max_examples=15)
@given(SEEDS, RADII, st.sampled_from(list(METHODS)))
def test_lines_and_loads_by_hand(seed, radius, method):
    power_grid = small(seed)
    found = power_nodes(power_grid, radius, method)
    subs = power_grid.substations
    of = {}
    for row in subs.itertuples():
        far = great_circle_distance(found.latitude, found.longitude, row.latitude, row.longitude)
        of[row.sub_id] = int(far.argmin()) if far.min() <= radius else -1
    boundary = np.zeros(len(found))
    for line in power_grid.lines.itertuples():
        a, b = sorted((of[line.from_sub], of[line.to_sub]))
        if a == b:
            continue
        for node in {a, b} - {-1}:
            boundary[node] += line.power_w
    assert found.supply.interconnect_w == pytest.approx(boundary)
    load = np.zeros(len(found))
    for row in power_grid.loads.itertuples():
        far = great_circle_distance(found.latitude, found.longitude, row.latitude, row.longitude)
        load[far.argmin()] += row.load_w * (far.min() <= radius)
    assert found.supply.load_w == pytest.approx(load)


def test_table_of_the_embedded_grid(embedded):
    found = power_nodes(embedded, 100 * KM)
    table = found.table()
    assert table["plants"].sum() == len(embedded.plants)
    assert (table["installed_w"] + table["coal_w"]).sum() == pytest.approx(embedded.plants["power_w"].sum())
    assert (table["installed_w"] + table["coal_w"]).is_monotonic_decreasing
    coulee = table[table["name"] == "GRAND COULEE, Washington"].iloc[0]
    assert (coulee["state"], coulee["interconnect"]) == ("Washington", "Western")
    assert coulee["fuels"].startswith("hydro 9")
    assert not table.isna().any(axis=None)
