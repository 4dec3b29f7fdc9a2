"""What [site] asks of siting: the area, the grid with tables of one's own, and what a flexible demand gains."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pandas as pd

from railcore import catalog
from railcore.catalog.files import content_hash
from railcore.planner.spec import SiteSpec
from railcore.siting.areas import Area
from railcore.siting.authorities import authority_caps, authority_table, bounds_of_hours
from railcore.siting.flexible_load import authority_flexible_headroom
from railcore.siting.grid import PowerGrid, load_grid
from railcore.siting.hour_files import balance_series
from railcore.siting.own_lines import line_table
from railcore.siting.plant_files import plants

_MOST_LISTED = 8  # authorities that a sentence names
_KEYS = {"near_m": "within", "people_m": "people_within", "radius_m": "radius", "k": "places"}  # by siting's arguments


def in_words_of_the_spec(text: str) -> str:
    """A refusal of siting with the keys of [site] in place of its arguments."""
    return re.sub(rf"\b({'|'.join(_KEYS)})\b", lambda argument: _KEYS[argument[0]], text)


def check_site(spec: SiteSpec) -> None:
    """Raises ValueError by dotted key for a place, a file or a share that siting refuses."""
    with _blamed("site"):
        area_of(spec)
    grid_of(spec)
    with _blamed("site.flexible"):
        flexible_power_w(spec.flexible)


@contextmanager
def _blamed(key: str) -> Iterator[None]:
    """Puts a dotted key before the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def area_of(spec: SiteSpec) -> Area:
    """Where places may be. Raises ValueError for a place that is not known."""
    near_m = None if spec.near is None else spec.within
    return Area(spec.near, near_m, spec.states, spec.most_people, spec.people_within, spec.authorities)


def grid_of(spec: SiteSpec) -> tuple[PowerGrid, tuple[str, ...]]:
    """The embedded grid with the spec's own plants, lines and hours, and what its files leave out, in sentences.

    Raises ValueError by dotted key for files that cannot be read.
    """
    if spec.plants is None and spec.lines is None and not spec.hours:
        return load_grid(), ()
    own = (_as_items([table] if table else []) for table in (spec.plants, spec.lines))
    return _own_grid(*own, _as_items(spec.hours), catalog.own_version("fuels"))


_Files = tuple[tuple[str, str], ...]  # names and hashes


def _as_items(tables: list[dict[str, str]]) -> _Files:
    return tuple((table["file"], table["sha256"]) for table in tables)


@lru_cache(maxsize=4)  # points of a sweep share it
def _own_grid(
    of_plants: _Files, of_lines: _Files, of_hours: _Files, _fuels: tuple[Path | None, int]
) -> tuple[PowerGrid, tuple[str, ...]]:
    """The grid and sentences of `grid_of`. _fuels: version of the catalog's fuels, whose unit sizes plants take."""
    grid, warnings = load_grid(), list[str]()
    if of_plants:
        own = _read("site.plants", plants, of_plants)
        grid, warnings = grid.with_plants(own), [f"site.plants: {text}" for text in own.attrs.get("warnings", ())]
    if of_lines:
        grid = grid.with_lines(_read("site.lines", line_table, of_lines))
    if of_hours:
        series = _read("site.hours", balance_series, of_hours)
        with _blamed("site.hours"):
            bounded = _bounded(series)
            grid = replace(grid, authority_caps=authority_caps(series))
        warnings.append(f"site.hours: {_bounded_words(series, bounded)}")
    return grid, tuple(warnings)


def _bounded(series: pd.DataFrame) -> list[str]:
    """Codes of authorities that hours bound. Raises ValueError where they bound none."""
    if (bounds := bounds_of_hours(series)).empty:
        raise ValueError("no authority has a year of hours of both demand and generation: give more files")
    return sorted(bounds.index)


def _bounded_words(series: pd.DataFrame, bounded: list[str]) -> str:
    """Which authorities the hours bound."""
    codes = set(series["authority"].astype(str))
    many = ", ".join(bounded) if len(bounded) <= _MOST_LISTED else f"{len(bounded)} of {len(codes)} authorities"
    few = "; the others have less than a year of hours with both demand and generation"
    return f"the hours bound {many}" + (few if len(bounded) < len(codes) else "")


def _read(key: str, read: Callable[..., pd.DataFrame], of_files: _Files) -> pd.DataFrame:
    """What a reader makes of files. Raises ValueError with the dotted key."""
    with _blamed(key):
        for path, sha256 in of_files:
            if content_hash(path) != sha256:
                raise ValueError(f"{path} has changed since the spec was read: read the spec again")
        return read(*(path for path, _ in of_files))


def flexible_power_w(share: float) -> Mapping[str, float]:
    """What each authority has more for a demand that gives way for a share of a year's energy [W], by code."""
    if not share:
        return {}
    return authority_flexible_headroom(authority_table()["authority"], share)
