"""Power grids of a few plants for tests of siting."""

from dataclasses import replace
from itertools import combinations

import pandas as pd

from railcore.catalog.units import GW
from railcore.siting.grid import PowerGrid

# Gas plants: near Washington twice, at Celilo, Phoenix and Austin [latitude, longitude, GW, state, authority]
GAS_PLANTS = [
    (38.9, -77.0, 9.0, "Maryland", "PJM"),
    (39.3, -76.6, 5.0, "Maryland", "PJM"),
    (45.6, -121.1, 4.0, "Oregon", "BPAT"),
    (33.4, -112.0, 6.0, "Arizona", "SRP"),
    (30.3, -97.7, 3.0, "Texas", "ERCO"),
]


def small_grid(plants, lines=(), loads=((40.0, -80.0, 100e6),), substations=None, **columns):
    """A grid of (site, latitude, longitude, fuel, power, largest unit), of lines (from, to, power) and of loads.

    substations: (site, latitude, longitude) that lines join, by default those of the plants; columns: of the plants.
    """
    table = pd.DataFrame(plants, columns="sub_id latitude longitude fuel power_w largest_unit_w".split())
    usual = {"name": "plant", "state": "Ohio", "interconnect": "Eastern", "authority": "PJM", "units": 1}
    table = table.assign(**usual | columns).drop_duplicates(["sub_id", "fuel"], ignore_index=True)
    if substations is None:
        sites = table.drop_duplicates("sub_id")
    else:
        sites = pd.DataFrame(substations, columns=["sub_id", "latitude", "longitude"]).assign(name="S", state="Ohio")
    wires = pd.DataFrame([(a, b, 345, 1, power, 1e3, "AC") for a, b, power in lines], columns=range(7))
    wires.columns = "from_sub to_sub kv circuits power_w length_m type".split()
    ends = sites[["sub_id", "name", "state", "latitude", "longitude"]]
    return PowerGrid("small", table, wires, ends, pd.DataFrame(loads, columns=["latitude", "longitude", "load_w"]))


def gas_grid():
    """`GAS_PLANTS`, lines between every two, load far from all, and no bound of an authority."""
    latitude, longitude, power, states, authorities = zip(*GAS_PLANTS, strict=True)
    plants = [(i, latitude[i], longitude[i], "gas", power[i] * GW, 0.1 * GW) for i in range(5)]
    lines = [(a, b, 1 * GW) for a, b in combinations(range(5), 2)]
    owners = {"state": states, "authority": authorities, "name": list("abcde"), "units": 10}
    owners["interconnect"] = ["Eastern", "Eastern", "Western", "Western", "Texas"]
    return replace(small_grid(plants, lines, [(40.0, -100.0, 1 * GW)], **owners), authority_caps={})
