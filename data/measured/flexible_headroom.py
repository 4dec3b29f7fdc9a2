"""Makes flexible_headroom.csv from hours of demand that this project does not contain.

    RAILCORE_EIA_DIR=FOLDER python data/measured/flexible_headroom.py

FOLDER has ba_demand_hourly_2022-10_2024-10.parquet: ba (EIA's code), utc_end (end of the hour), demand_clean_mw.
"""

import os
from pathlib import Path

import pandas as pd

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from railcore.catalog.units import MW, unit
from railcore.siting.authorities import authority_table
from railcore.siting.flexible_load import Peaks, headroom_table

SHARES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05)
HOURS = "ba_demand_hourly_2022-10_2024-10.parquet"


def demand_hours(folder: Path) -> tuple[pd.DataFrame, str]:
    """Cleaned demand, as `hour_files.balance_series`, in the window of balancing_authorities.csv, and that window."""
    (window,) = authority_table()["window"].unique()
    first, last = map(pd.Timestamp, window.split("/"))
    read = pd.read_parquet(folder / HOURS, columns=["ba", "utc_end", "demand_clean_mw"])
    read = read[(read["utc_end"] > first) & (read["utc_end"] <= last)]
    demand_w = read["demand_clean_mw"].astype("Float64").astype(float) * MW
    series = {"authority": read["ba"].astype(str), "hour_utc": read["utc_end"], "demand_w": demand_w}
    return pd.DataFrame(series), window


def record_peaks_w() -> dict[str, Peaks]:
    """Summer and winter peak of nine years by authority [W], NaN where one is unknown."""
    rows = read_csv(files.data("measured/flexible_load_checks.csv"))
    peaks: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["quantity"].endswith("peak"):
            peaks.setdefault(row["authority"], {})[row["quantity"]] = float(row["value"]) * unit(row["unit"])[1]
    nan = float("nan")
    return {code: (each.get("summer peak", nan), each.get("winter peak", nan)) for code, each in peaks.items()}


def _in_mw(table: pd.DataFrame) -> pd.DataFrame:
    powers = {name: f"{name[:-2]}_mw" for name in table if name.endswith("_w")}
    table[[*powers]] = (table[[*powers]] / MW).round(3)
    return table.rename(columns=powers).round({"hours_per_year": 2})


def table(folder: Path) -> pd.DataFrame:
    """The stored table."""
    series, window = demand_hours(folder)
    own, record = (_in_mw(headroom_table(series, SHARES, peaks)) for peaks in (None, record_peaks_w()))
    known = own["authority"].isin(list(record_peaks_w()))
    return own.assign(record_headroom_mw=record["headroom_mw"].where(known), window=window)


if __name__ == "__main__":
    made = table(Path(os.environ["RAILCORE_EIA_DIR"]))
    made.to_csv(files.DATA / "measured" / "flexible_headroom.csv", index=False, lineterminator="\n")
