"""From the tables and outlines of four packages to the rows of the embedded grid."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from pandas import DataFrame

from railcore import catalog
from railcore.network.wide_area import great_circle_distance

Rings = list[np.ndarray]
FUELS = {"ng": "gas", "dfo": "oil"}  # the source's short names; others stay
LEAST_KV = 200
LEAST_LOAD_MW = 0.5  # of a cell
LEAST_POPULATION = 50_000
CELLS_PER_DEGREE = 10
OUTLINE_DEG = 0.02
EARTH_KM = 6371.0
OVERSEAS = {"AK", "HI", "02", "15", "60", "66", "69", "72", "78"}  # postal codes, and state codes of the Census


def merged(rows: DataFrame, keys: list[str], **columns: tuple[str, str]) -> DataFrame:
    """Rows of equal keys as one, in the order of the keys; columns as in DataFrame.agg, such as mw=("Pmax", "sum").

    A sum adds its rows one after the other, so that its last digit does not depend on how a library adds.
    """
    groups = rows.groupby(keys, sort=True)
    made = groups.agg(**columns)
    for column, (source, how) in columns.items():
        if how == "sum":
            made[column] = np.bincount(groups.ngroup(), rows[source])
    return made.reset_index()


def rounded(frame: DataFrame, digits: Mapping[str, int]) -> DataFrame:
    """Columns rounded to so many digits after the point, each value to the nearer of its neighbours in decimals."""
    return frame.assign(**{name: [round(float(value), n) for value in frame[name]] for name, n in digits.items()})


def buses(bus: DataFrame, bus2sub: DataFrame, zone: DataFrame, rto: pd.Series, neem: pd.Series) -> DataFrame:
    """Every bus by its id, with substation, voltage, load, zone, state and the regions of two planning models."""
    columns = ["bus_id", "Pd", "zone_id", "baseKV", "interconnect"]
    joined = (
        bus[columns]
        .merge(bus2sub[["bus_id", "sub_id"]], on="bus_id")
        .merge(zone.rename(columns={"zone_name": "zone"})[["zone_id", "zone", "state"]], on="zone_id")
    )
    joined = joined.set_index("bus_id")
    return joined.assign(reeds_rto=rto.reindex(joined.index), neem=neem.reindex(joined.index))


def generators(plant: DataFrame, bus: DataFrame) -> DataFrame:
    """Generating units with the columns of their bus; online_mw and dispatch_mw are 0 for units off.

    dispatch = min(Pg, Pmax), for the source sets some units above their capacity.
    """
    on = plant["status"] == 1
    joined = plant[["bus_id", "Pmax"]].join(bus, on="bus_id")
    return joined.assign(
        fuel=plant["type"].replace(FUELS), online=plant["Pmax"] * on, dispatch=plant[["Pg", "Pmax"]].min(axis=1) * on
    )


def plants(units: DataFrame, substations: DataFrame) -> DataFrame:
    """Units merged by substation and fuel; what has 0 MW is dropped."""
    same = {name: (name, "first") for name in ("state", "zone", "interconnect", "reeds_rto", "neem")}
    made = merged(
        units,
        ["sub_id", "fuel"],
        **same,
        units=("Pmax", "size"),
        mw=("Pmax", "sum"),
        largest_unit_mw=("Pmax", "max"),
        online_mw=("online", "sum"),
        dispatch_mw=("dispatch", "sum"),
    )
    made = made[made["mw"] > 0].merge(substations[["sub_id", "name", "lat", "lon"]], on="sub_id")
    return rounded(made, {"lat": 4, "lon": 4, "mw": 1, "largest_unit_mw": 1, "online_mw": 1, "dispatch_mw": 1})


def lines(
    branch: DataFrame, dcline: DataFrame, bus: DataFrame, substations: DataFrame, least_kv: float = LEAST_KV
) -> DataFrame:
    """Circuits of least_kv and more merged by pair of substations and voltage, and after them the DC lines.

    A circuit with rating 0 is one whose rating is not given: counted in `unrated`, and as 0 MW in the sum.
    """
    ends = np.stack([bus["sub_id"].reindex(branch[name]) for name in ("from_bus_id", "to_bus_id")])
    circuit = branch[["rateA"]].assign(from_sub=ends.min(axis=0), to_sub=ends.max(axis=0), none=branch["rateA"] == 0)
    circuit["kv"] = bus["baseKV"].reindex(branch["from_bus_id"]).to_numpy()
    circuit = circuit[(ends[0] != ends[1]) & (circuit["kv"] >= least_kv).to_numpy()]
    columns = {"circuits": ("rateA", "size"), "unrated": ("none", "sum"), "mw": ("rateA", "sum")}
    ac = merged(circuit, ["from_sub", "to_sub", "kv"], **columns).assign(type="AC")
    dc = dcline.rename(columns={"Pmax": "mw"}).assign(kv=0, circuits=1, unrated=0, type="DC")
    for end, of_bus in (("from_sub", "from_bus_id"), ("to_sub", "to_bus_id")):
        dc[end] = bus["sub_id"].reindex(dc[of_bus]).to_numpy()
    made = pd.concat([ac, dc], ignore_index=True)
    place = substations.set_index("sub_id")[["lat", "lon"]]
    start, end = (place.reindex(made[name]).to_numpy().T for name in ("from_sub", "to_sub"))
    radii = great_circle_distance(*start, *end) / catalog.item("wide_area", "Earth")["radius"]
    return rounded(made.assign(km=EARTH_KM * radii), {"mw": 1, "km": 2})


def line_ends(line: DataFrame, bus: DataFrame, substations: DataFrame) -> DataFrame:
    """Substations where a line ends, with the highest voltage and the load of their buses."""
    own = {"state": ("state", "first"), "max_kv": ("baseKV", "max"), "load_mw": ("Pd", "sum")}
    made = substations.merge(merged(bus, ["sub_id"], **own), on="sub_id")
    made = made[made["sub_id"].isin({*line["from_sub"], *line["to_sub"]})]
    return rounded(made, {"lat": 4, "lon": 4, "load_mw": 1})


def loads(bus: DataFrame, substations: DataFrame) -> DataFrame:
    """Loads of substations summed in cells of a tenth of a degree, each at its load-weighted centre.

    Cell (i, j) = (floor(10 latitude), floor(10 longitude)); centre = sum(load x place) / sum(load).
    """
    load = merged(bus, ["sub_id"], mw=("Pd", "sum")).merge(substations, on="sub_id")
    for name in ("lat", "lon"):
        load[f"cell_{name}"] = np.floor(load[name] * CELLS_PER_DEGREE)
        load[name] *= load["mw"]
    cell = merged(load, ["cell_lat", "cell_lon"], lat=("lat", "sum"), lon=("lon", "sum"), load_mw=("mw", "sum"))
    cell = cell[cell["load_mw"] >= LEAST_LOAD_MW]
    centred = cell.assign(lat=cell["lat"] / cell["load_mw"], lon=cell["lon"] / cell["load_mw"])
    return rounded(centred, {"lat": 2, "lon": 2, "load_mw": 0})


def albers(latitude: np.ndarray, longitude: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """California Albers (EPSG:3310, ellipsoid of GRS80) x and y [m] of degrees; the plane of the regions' outlines.

    rho(phi) = a sqrt(C - n q(phi)) / n; theta = n (lambda + 120 deg)
    x = rho sin theta; y = rho(0) - rho cos theta - 4e6
    Source: Snyder 1987, Map Projections: A Working Manual, Albers equal-area conic, equations 14-1 to 14-6 and 3-12.
    """
    a, flattening, (south, north) = 6378137.0, 1 / 298.257222101, np.radians((34, 40.5))
    e = np.sqrt(flattening * (2 - flattening))

    def q(phi: np.ndarray) -> np.ndarray:
        s = np.sin(phi)
        return (1 - e**2) * (s / (1 - (e * s) ** 2) + np.arctanh(e * s) / e)

    m_south, m_north = (np.cos(phi) / np.sqrt(1 - (e * np.sin(phi)) ** 2) for phi in (south, north))
    n = (m_south**2 - m_north**2) / (q(north) - q(south))
    c = m_south**2 + n * q(south)
    rho, theta = a * np.sqrt(c - n * q(np.radians(latitude))) / n, n * np.radians(longitude + 120)
    return rho * np.sin(theta), a * np.sqrt(c) / n - rho * np.cos(theta) - 4e6


def polygons(geometry: Mapping) -> list:
    """Polygons of a GeoJSON or TopoJSON geometry, each a list of rings, the outer one first."""
    parts = geometry["arcs" if "arcs" in geometry else "coordinates"]
    return [parts] if geometry["type"] == "Polygon" else parts


def inside(x: np.ndarray, y: np.ndarray, rings: Rings) -> np.ndarray:
    """Whether a ray to the right of each point crosses the closed rings an odd number of times."""
    odd = np.zeros(len(x), bool)
    for ring in rings:
        (x0, y0), (x1, y1) = ring[:-1].T, ring[1:].T
        near = np.flatnonzero((y >= y0.min()) & (y <= y0.max()) & (x <= x0.max()))
        crosses = (y0 > y[near, None]) != (y1 > y[near, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            odd[near] ^= (crosses & (x[near, None] < x0 + (y[near, None] - y0) * (x1 - x0) / (y1 - y0))).sum(1) % 2 == 1
    return odd


def regions(x: np.ndarray, y: np.ndarray, outlines: Mapping[str, Rings]) -> np.ndarray:
    """Name of the region that each point lies in; off the coast and in gaps, of the one with the nearest corner.

    Of regions that share that corner it is the first.
    """
    from scipy.spatial import KDTree

    found = np.full(len(x), "", dtype=object)
    for name, rings in outlines.items():
        found[inside(x, y, rings)] = name
    owner = np.repeat(list(outlines), [sum(len(ring) for ring in rings) for rings in outlines.values()])
    corners, first = np.unique(np.concatenate([*map(np.concatenate, outlines.values())]), axis=0, return_index=True)
    lost = found == ""
    found[lost] = owner[first[KDTree(corners).query(np.column_stack([x, y])[lost])[1]]]
    return found


def region_rings(collection: Mapping) -> dict[str, Rings]:
    """Rings of each region of the planning model IPM, from its GeoJSON."""
    shapes = {feature["properties"]["IPM_Region"]: polygons(feature["geometry"]) for feature in collection["features"]}
    return {name: [np.array(ring) for polygon in shape for ring in polygon] for name, shape in shapes.items()}


def simplified(points: np.ndarray, tolerance: float) -> np.ndarray:
    """Points of a line that stay when it is simplified after Douglas and Peucker (1973).

    The point furthest from the straight line through both ends stays while that is more than the tolerance.
    """
    if len(points) < 3:
        return points
    (x, y), (dx, dy) = (points - points[0]).T, points[-1] - points[0]
    length = np.hypot(dx, dy)
    away = np.abs(x * dy - y * dx) / length if length else np.hypot(x, y)
    far = int(away.argmax())
    if away[far] <= tolerance:
        return points[[0, -1]]
    return np.concatenate([simplified(points[: far + 1], tolerance)[:-1], simplified(points[far:], tolerance)])


def arcs(topology: Mapping) -> Rings:
    """Lines of a quantized TopoJSON in degrees: steps added up, then scaled and moved."""
    scale, move = topology["transform"]["scale"], topology["transform"]["translate"]
    return [np.cumsum(np.array(steps), axis=0) * scale + move for steps in topology["arcs"]]


def stitched(lines: Rings, numbers: Iterable[int]) -> np.ndarray:
    """One ring of several arcs, an arc of number ~i being arc i backwards; what two share is one point."""
    parts = [lines[i] if i >= 0 else lines[~i][::-1] for i in numbers]
    return np.concatenate([parts[0][:1], *(part[1:] for part in parts)])


def outlines(topology: Mapping, tolerance: float = OUTLINE_DEG) -> list[dict]:
    """GeoJSON features of the states, simplified arc by arc, so that two neighbours keep one border.

    Outer rings only (no state has a hole); islands left with fewer than three corners are dropped.
    """
    border = [simplified(arc, tolerance) for arc in arcs(topology)]
    made = []
    for state in sorted(topology["objects"]["states"]["geometries"], key=lambda state: state["id"]):
        if state["id"] not in OVERSEAS:
            rings = [stitched(border, polygon[0]) for polygon in polygons(state)]
            parts = [[[[round(float(v), 3) for v in point] for point in ring]] for ring in rings if len(ring) > 3]
            shape = {"type": "MultiPolygon", "coordinates": parts}
            name = {"name": state["properties"]["name"]}
            made.append({"type": "Feature", "id": state["id"], "properties": name, "geometry": shape})
    return made


def cities(places: Iterable[Mapping], least: int = LEAST_POPULATION) -> DataFrame:
    """Cities of the contiguous states by falling population, those of equal population by name."""
    found = [place for place in places if place["countrycode"] == "US" and place["admin1code"] not in OVERSEAS]
    names = {"name": "city", "admin1code": "state", "latitude": "lat", "longitude": "lon", "population": "population"}
    made = DataFrame(found).rename(columns=names)[list(names.values())]
    made = made[made["population"] >= least].sort_values(["population", "city"], ascending=[False, True])
    return rounded(made, {"lat": 4, "lon": 4})
