"""Cities of the United States, and places named after the nearest one."""

from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from railcore.catalog import files, units
from railcore.network.globe import chord_distance, unit_vectors


@cache
def cities() -> pd.DataFrame:
    """Cities of more than 50,000 people: city, state, latitude, longitude, population."""
    return pd.read_csv(files.data("grid/cities.csv.gz")).rename(columns={"lat": "latitude", "lon": "longitude"})


def nearest_city(latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """Nearest of `cities` to each place: "Baltimore, MD", or from 10 km on "68 km N of Vancouver, WA"."""
    table, at = cities(), unit_vectors(latitude, longitude)
    far, nearest = cKDTree(unit_vectors(table["latitude"], table["longitude"])).query(at)
    km = chord_distance(far) / units.km
    city = table.iloc[nearest]
    north = np.atleast_1d(latitude) - city["latitude"].to_numpy()
    east = (np.atleast_1d(longitude) - city["longitude"].to_numpy()) * np.cos(np.radians(np.atleast_1d(latitude)))
    way = np.array("N NE E SE S SW W NW".split())[np.rint(np.degrees(np.arctan2(east, north)) / 45).astype(int) % 8]
    near = zip(km, way, city["city"] + ", " + city["state"], strict=True)
    return np.array([f"{units.significant(d):.0f} km {w} of {n}" if d >= 10 else n for d, w, n in near], object)
