"""Where places may be: near a city or a point, in some states or balancing authorities, away from many people."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog import UnknownName
from railcore.catalog.arguments import Metres, NonNegative, checked
from railcore.catalog.units import counted, km, number
from railcore.network.globe import great_circle_distance, unit_vectors
from railcore.siting import eia
from railcore.siting.cities import cities
from railcore.siting.geometry import within_radius
from railcore.siting.grid import PowerGrid
from railcore.siting.points import MapPoints, lattice, points_around

Point = tuple[float, float]  # latitude and longitude [degrees]
_MOST_LISTED = 8  # names that a refusal lists


def city_point(name: str) -> tuple[str, Point]:
    """Full name and place of a city of `cities`: "Chicago", "Portland, OR", "Portland, Oregon", or of "New York" City.

    Raises UnknownName with the nearest names, and ValueError with the choices for a name that several cities have.
    """
    table = cities()
    full = (table["city"] + ", " + table["state"]).tolist()
    city, _, state = name.replace("D.C.", "DC").partition(",")
    names, wanted = table["city"].str.casefold(), city.strip().casefold()
    alike = names == wanted
    if not alike.any() and (longer := names.str.startswith(f"{wanted} ")).sum() == 1:
        alike = longer
    if state.strip():
        alike &= table["state"].map(eia.code_meanings("state")) == state_names(state.strip())[0]
    rows = np.flatnonzero(alike)  # the largest first, as in the table
    if not len(rows):
        raise UnknownName("near: city of 50,000 people or more, or (latitude, longitude),", name, full)
    if len(rows) > 1:
        people = table["population"].to_numpy()
        choices = ", ".join(f"{full[row]!r} ({people[row]:,} people)" for row in rows)
        raise ValueError(f"near is {name!r}: {len(rows)} cities have this name, give one of {choices}")
    place = table.iloc[rows[0]]
    return full[rows[0]], (float(place["latitude"]), float(place["longitude"]))


def state_names(states: str | Iterable[str]) -> tuple[str, ...]:
    """Names of states given by name or postal code. Raises UnknownName with the nearest ones."""
    by_code = {code: name for code, name in eia.code_meanings("state").items() if name}
    spellings = {key.casefold(): name for code, name in by_code.items() for key in (code, name)}
    return _as_spelled("state", states, spellings, list(by_code.values()))


def listed_authorities(codes: str | Iterable[str], grid: PowerGrid | None = None) -> tuple[str, ...]:
    """Codes of balancing authorities as EIA or the plants of a grid spell them. Raises UnknownName with the nearest."""
    of_plants = () if grid is None else sorted(set(grid.plants["authority"].dropna().astype(str)) - {""})
    spellings = {code.casefold(): code for code in (*eia.authority_codes(), *of_plants)}
    return _as_spelled("authorities: balancing authority", codes, spellings, list(of_plants or eia.authority_codes()))


def _as_spelled(
    what: str, names: str | Iterable[str], spellings: dict[str, str], choices: list[str]
) -> tuple[str, ...]:
    """Names as `spellings` has them by lower-case text, each once; a refusal lists the nearest choices."""
    keys = {str(name).strip().casefold(): name for name in _texts(names)}
    for key, name in keys.items():
        if key not in spellings:
            raise UnknownName(what, name, choices)
    return tuple(dict.fromkeys(spellings[key] for key in keys))


def people_within(latitude: ArrayLike, longitude: ArrayLike, distance_m: float) -> np.ndarray:
    """People in `cities` within a distance of each point.

    Places of fewer than 50,000 people are not in the list, and boroughs of New York City count twice.
    """
    table = cities()
    here, there = unit_vectors(latitude, longitude), unit_vectors(table["latitude"], table["longitude"])
    return within_radius(here, there, distance_m) @ table["population"].to_numpy(float)


@checked
@dataclass(frozen=True)
class Area:
    """Conditions on the point of a place; its plants may lie a radius farther. Without any: the whole country.

    near: a city (see `city_point`) or a point (latitude, longitude).
    near_m: largest distance to it [m].
    states: by name or postal code; all where none is given.
    most_people: in cities within people_m of the point (see `people_within`).
    people_m: radius in which they count [m].
    authorities: codes, of which one has most of the power around the point.

    Points lie on land in any case: seas and the Great Lakes are outside of the outlines of the states, smaller lakes
    are not. Slope, zoning and price of land are not in the data.

    Raises ValueError for near without near_m or the reverse and for numbers out of range, UnknownName for a name.

    Examples
    --------
    >>> import railcore as rc
    >>> area = rc.Area(near="Chicago", near_m="300 km", states=["IL", "WI"])
    >>> area.states
    ('Illinois', 'Wisconsin')
    """

    near: str | Point | None = None
    near_m: Metres | None = None
    states: str | Sequence[str] = ()
    most_people: NonNegative | None = None
    people_m: Metres = 50e3
    authorities: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.near is not None and self.near_m is None:
            raise ValueError(f"near is {self.near!r}: give near_m too, how far from it in metres, such as near_m=300e3")
        if self.near_m is not None and self.near is None:
            raise ValueError(f"near_m is {self.near_m!r}: give near too, such as near='Chicago' or (41.9, -87.6)")
        _ = self.place  # refuses what is no city and no point
        object.__setattr__(self, "states", state_names(self.states))
        object.__setattr__(self, "authorities", _texts(self.authorities))

    @cached_property
    def place(self) -> tuple[str, Point]:
        """Name and point of `near`."""
        match self.near:
            case None:
                return "", (np.nan, np.nan)
            case str():
                return city_point(self.near)
            case (float() | int() as latitude, float() | int() as longitude) if (
                abs(latitude) <= 90 and abs(longitude) <= 180
            ):
                return f"{latitude:g}, {longitude:g}", (float(latitude), float(longitude))
        raise ValueError(f"near is {self.near!r}: give a city such as 'Chicago', or (latitude, longitude) in degrees")

    def distance_m(self, latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
        """Great circle from `near` to places [m], NaN where no place is asked."""
        return np.asarray(great_circle_distance(latitude, longitude, *self.place[1]))

    @property
    def words(self) -> list[str]:
        """The conditions as people say them."""
        words = [condition.words for condition in self._conditions()]
        return words + [f"with most power of {' or '.join(self.authorities)}"] * bool(self.authorities)

    def _conditions(self) -> Iterator["_Condition"]:
        """Conditions that the point alone decides."""
        if self.near is not None and self.near_m is not None:
            most_m = self.near_m
            yield _Condition(
                f"within {number(most_m / km)} km of {self.place[0]}",
                lambda lat, lon, _: self.distance_m(lat, lon) <= most_m,
                lambda lat, lon, _: (
                    f"the nearest is {number(self.distance_m(lat, lon).min() / km, 3)} km away, give a larger near_m"
                ),
            )
        if self.states:
            yield _Condition(
                f"in {' or '.join(self.states)}",
                lambda lat, lon, state: np.isin(state, self.states),
                lambda lat, lon, state: f"they are in {_listed(state)}, give one of these states or a smaller step_deg",
            )
        if self.most_people is not None:

            def people(lat: np.ndarray, lon: np.ndarray, _: np.ndarray) -> np.ndarray:
                return people_within(lat, lon, self.people_m)

            yield _Condition(
                f"with at most {number(self.most_people)} people within {number(self.people_m / km)} km",
                lambda *at: people(*at) <= self.most_people,
                lambda *at: f"the fewest are {number(people(*at).min())}, give a larger most_people",
            )

    def points(
        self, grid: PowerGrid, radius_m: float, step_deg: float = 0.25, oil: bool = True, coal_basis: str = "capacity"
    ) -> MapPoints:
        """Points that meet the conditions.

        Parameters
        ----------
        grid, radius_m, step_deg, oil, coal_basis
            As in `points.points_around`.

        Returns
        -------
        `MapPoints`, at least one where there are conditions.

        Raises
        ------
        ValueError
            Where none is left: which condition left how many, and what there was to choose from.
        UnknownName
            For an authority that neither the grid nor EIA has.
        """
        authorities = listed_authorities(self.authorities, grid)
        at = lattice(grid, step_deg)
        said = counted(len(at[0]), "points")
        for condition in self._conditions():
            keep = np.flatnonzero(condition.meets(*at))
            said += f", of these {number(len(keep))} {condition.words}"
            if not len(keep):
                raise ValueError(f"no place is left: {said}; {condition.remedy(*at)}")
            at = (at[0][keep], at[1][keep], at[2][keep])
        allowed = points_around(grid, radius_m, step_deg, oil, coal_basis, at)
        said += f", of these {number(len(allowed))} with plants within {number(radius_m / km)} km"
        if self.words and not len(allowed):
            raise ValueError(f"no place is left: {said}; give a larger radius_m or a larger area")
        if authorities:
            codes = allowed.most_of("authority")
            allowed = allowed[np.flatnonzero(np.isin(codes, authorities))]
            if not len(allowed):
                raise ValueError(
                    f"no place is left: {said}, of these 0 {self.words[-1]}; authorities there are {_listed(codes)}, "
                    "give some of them or a larger area"
                )
        return allowed


@dataclass(frozen=True)
class _Condition:
    """A condition on points (latitude, longitude, state).

    words: as people say it.
    meets: True for the points that meet it.
    remedy: what to do where none does.
    """

    words: str
    meets: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    remedy: Callable[[np.ndarray, np.ndarray, np.ndarray], str]


def _texts(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names as a tuple: one text is one name."""
    return (names,) if isinstance(names, str) else tuple(names)


def _listed(names: np.ndarray) -> str:
    """Different names, the most frequent first."""
    values, counts = np.unique(names.astype(str), return_counts=True)
    first = values[np.argsort(-counts, kind="stable")]
    return ", ".join(first[:_MOST_LISTED]) + (", ..." if len(first) > _MOST_LISTED else "")
