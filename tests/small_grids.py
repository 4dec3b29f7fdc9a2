"""Power grids of a few plants for tests of siting."""

import pandas as pd

from railcore.siting.grid import PowerGrid


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
