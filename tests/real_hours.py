"""Hours of balancing authorities as EIA published them, stored below RAILCORE_EIA_DIR, like `eia.balance_series`."""

import os
from pathlib import Path

import pandas as pd

from railcore.catalog.units import MW

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")


def demand_hours() -> pd.DataFrame:
    """Demand as reported and as cleaned by EIA."""
    read = pd.read_parquet(FOLDER / "ba_demand_hourly_2022-10_2024-10.parquet")
    clean = read["demand_clean_mw"].astype("Float64").astype(float)
    raw = clean + read["raw_minus_clean_mw"].astype("Float64").astype(float)
    raw = raw.fillna(read["demand_raw_only_mw"].astype("Float64").astype(float))
    return _series(read["ba"], read["utc_end"], demand_w=raw * MW, demand_clean_w=clean * MW)


def generation_hours() -> pd.DataFrame:
    """Net generation."""
    read = pd.read_parquet(FOLDER / "ba_netgen_hourly_2019_2022.parquet")
    made = read["net_gen_mw"].astype("Float64").astype(float)
    return _series(read["ba"], read["utc"], net_generation_w=made * MW)


def _series(code: pd.Series, hour: pd.Series, **columns: pd.Series) -> pd.DataFrame:
    hours = pd.to_datetime(hour, utc=True).dt.tz_localize(None).astype("datetime64[s]")
    return pd.DataFrame({"authority": code.astype(str).astype("category"), "hour_utc": hours, **columns})
