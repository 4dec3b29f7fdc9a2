"""Hours of balancing authorities as EIA published them, stored below RAILCORE_EIA_DIR, like `eia.balance_series`."""

import os
from pathlib import Path

import pandas as pd

from railcore.engines.siting import eia
from railcore.facts.units import MW

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")


def demand_hours() -> pd.DataFrame:
    """Demand as reported and as cleaned by EIA."""
    read = pd.read_parquet(FOLDER / "ba_demand_hourly_2022-10_2024-10.parquet")
    clean = read["demand_clean_mw"].astype("Float64").astype(float)
    raw = clean + read["raw_minus_clean_mw"].astype("Float64").astype(float)
    raw = raw.fillna(read["demand_raw_only_mw"].astype("Float64").astype(float))
    return _series(read["ba"], read["utc_end"], demand_w=raw * MW, demand_clean_w=clean * MW)


def generation_hours() -> pd.DataFrame:
    """Net generation, and its part of each source."""
    read = pd.read_parquet(FOLDER / "ba_netgen_hourly_2019_2022.parquet")
    names = {"net_gen_mw": "net_generation"} | dict(eia.code_meanings("hourly column"))
    columns = {f"{ours}_w": read[name].astype("Float64").astype(float) * MW for name, ours in names.items()}
    return _series(read["ba"], read["utc"], **columns)


def _series(code: pd.Series, hour: pd.Series, **columns: pd.Series) -> pd.DataFrame:
    hours = pd.to_datetime(hour, utc=True).dt.tz_localize(None).astype("datetime64[s]")
    return pd.DataFrame({"authority": code.astype(str).astype("category"), "hour_utc": hours, **columns})
