"""Balancing authorities: demand, capacity, and the bound on the power that each has to spare.

Disposable power D = max G - max L over a window, with net generation G and demand L [W]. Where the hourly generation of
a window is not at hand, only L, the capacity C and the bound D <= C - max L can be given; the bound holds as far as an
authority generates no more than the net summer capacity of the plants that are counted as its own.
Source: flops2024, section 2 and Table 1 (no equation number).

At the hour of largest demand wind and sun give a part of their capacity. What an authority has to spare then is at
most sum of k c - max L, with capacity c and peak credit k of each fuel (catalog family fuels, `peak_credit`). Storage,
imports and the reserve that an authority must keep are not in it.
"""

from collections.abc import Mapping
from functools import cache

import pandas as pd

from railcore import catalog
from railcore.catalog import files, units
from railcore.siting import eia
from railcore.siting.hours import disposable_power

# of capacity in the file: a fuel that has the credit of each
_KINDS = {"firm": "gas", "solar": "solar", "wind": "wind"}
_LEAST_HOURS = 0.9 * 8760  # of a year: a few may be blank


@cache
def authority_table() -> pd.DataFrame:
    """The 54 balancing authorities that serve load: name, region of EIA-930, interconnect, peaks, capacity and bound.

    Columns authority, name, region, interconnect, peak_demand_raw_w and peak_demand_clean_w (largest hourly demand in
    the window, as reported and without spikes), capacity_w (net summer), bound_w = capacity_w - peak_demand_clean_w,
    bound_rank (1 is largest), firm_w, solar_w and wind_w (of the capacity; the rest is storage), window,
    capacity_as_of.
    NaN where an authority reported no demand.
    Source: data/grid/balancing_authorities.csv and authorities.csv.
    """
    read = pd.read_csv(files.data("grid/balancing_authorities.csv"), keep_default_na=False, na_values=[""])
    about = pd.DataFrame.from_dict(eia.authority_codes(), orient="index")
    peaks = {f"peak_demand_{kind}_w": read[f"max_demand_{kind}_mw"] * units.MW for kind in ("raw", "clean")}
    result = (
        read[["ba"]]
        .rename(columns={"ba": "authority"})
        .join(about[["name", "region", "interconnect"]], on="authority")
        .assign(**{name: peak.where(peak > 0) for name, peak in peaks.items()})
        .assign(capacity_w=read["net_summer_capacity_mw"] * units.MW)
        .assign(**{f"{kind}_w": read[f"{kind}_mw"] * units.MW for kind in _KINDS})
    )
    result["bound_w"] = result["capacity_w"] - result["peak_demand_clean_w"]
    result["bound_rank"] = result["bound_w"].rank(ascending=False, method="min").astype("Int64")
    return result.assign(window=read["window"], capacity_as_of=read["capacity_as_of"].astype(str))


@cache
def authority_row(code: str) -> pd.Series:
    """The row of `authority_table` of one authority. Raises UnknownName listing the nearest codes."""
    rows = authority_table().set_index("authority", drop=False)
    if code not in rows.index:
        raise catalog.UnknownName("balancing authority", code, list(rows.index))
    return rows.loc[code]


def _peak_credit(fuel: str) -> float:
    return catalog.item("fuels", fuel)["peak_credit"]


def authority_caps(series: pd.DataFrame | None = None) -> dict[str, float]:
    """Bound on the power that each authority has to spare [W] by code, below 0 where it lacks power at its peak.

    Sum of k c - max L, as in the module's text. series: hours, as `balance_series` gives them, which bound the
    authorities of `bounds_of_hours`, and the capacity does where that is less.
    Authorities without known demand, such as those that have plants alone, have no bound and are left out.
    Raises ValueError for a series that bounds no authority.
    """
    table = authority_table().set_index("authority")
    credited_w = sum(_peak_credit(fuel) * table[f"{kind}_w"] for kind, fuel in _KINDS.items())
    bounds = (credited_w - table["peak_demand_clean_w"]).dropna()
    if series is not None:
        of_hours = bounds_of_hours(series)
        if of_hours.empty:
            raise ValueError(
                "series bounds no authority: none has a year of hours of both demand and generation; give more files"
            )
        bounds = pd.concat([of_hours, bounds]).groupby(level=0).min()
    return bounds.to_dict()


def bounds_of_hours(series: pd.DataFrame) -> pd.Series:
    """Disposable power max G - max L of hours, without spikes [W], by authority.

    Only of authorities with nine tenths of a year or more in hours of both demand and generation: fewer may lack the
    peak. series: as `balance_series` gives it.
    """
    by_hours = disposable_power(series).set_index("authority")
    whole = (by_hours["note"] == "") & (by_hours["matching_hours"] >= _LEAST_HOURS)
    return by_hours.loc[whole, "disposable_clean_w"].dropna()


def bound_words(own_caps: Mapping[str, float] | None = None) -> str:
    """A sentence on the bounds of authorities. own_caps: `PowerGrid.authority_caps`."""
    if own_caps is not None and not own_caps:
        return "no place is bounded by its balancing authority: the grid was given no bounds"
    first, last = authority_table()["window"].iloc[0].split("/")
    as_of = authority_table()["capacity_as_of"].iloc[0]
    wind, solar = (f"{_peak_credit(fuel):.0%}" for fuel in ("wind", "solar"))
    of_these = f"; given with the grid for {units.counted(len(own_caps), 'authorities')}" if own_caps else ""
    return (
        f"no place has more than its balancing authority, where a bound is known: capacity of its plants ({as_of}; of "
        f"wind {wind} and of sun {solar} count, no storage, no imports) less its largest hour of demand ({first} to "
        f"{last}), without the reserve that it must keep{of_these}"
    )
