"""Hours of balancing authorities as EIA published them, stored below RAILCORE_EIA_DIR, like `siting.balance_series`."""

import os
from pathlib import Path

import pandas as pd

from railcore.catalog.units import MW
from railcore.siting import balance_series

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")


def demand_hours() -> pd.DataFrame:
    """Demand as reported and as cleaned by EIA."""
    read = pd.read_parquet(FOLDER / "ba_demand_hourly_2022-10_2024-10.parquet")
    clean = read["demand_clean_mw"].astype("Float64").astype(float)
    raw = clean + read["raw_minus_clean_mw"].astype("Float64").astype(float)
    raw = raw.fillna(read["demand_raw_only_mw"].astype("Float64").astype(float))
    columns = {"demand_w": raw * MW, "demand_clean_w": clean * MW}
    code = read["ba"].astype(str).astype("category")
    return pd.DataFrame({"authority": code, "hour_utc": read["utc_end"].astype("datetime64[s]"), **columns})


def generation_hours() -> pd.DataFrame:
    """Net generation."""
    return balance_series(FOLDER / "ba_netgen_hourly_2019_2022.parquet").drop(columns="demand_w")
