"""Balancing authorities: the embedded table, and what the paper's Table 1 implies."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog import UnknownName, files
from railcore.catalog.units import GW, MW
from railcore.siting import authorities
from suite.flops2024 import siting_claims
from suite.ledger import claims

CODES = ("PJM", "SRP", "NEVP", "BPAT")
PRINTED = {code: claims.paper_value(f"flops2024.table1.{code.lower()}") * MW for code in CODES}


def test_the_table_has_the_authorities_that_serve_load():
    table = authorities.authority_table().set_index("authority")
    assert len(table) == 54 and table["name"].notna().all()
    assert table.loc["NEVP", "peak_demand_raw_w"] == 68633 * MW and table.loc["NEVP", "capacity_w"] == 11158 * MW
    assert table.loc[["AEC", "SEC"], "bound_w"].isna().all() and table["bound_rank"].notna().sum() == 52
    assert (table["bound_w"].dropna() == (table["capacity_w"] - table["peak_demand_clean_w"]).dropna()).all()
    assert table["bound_w"].idxmax() == table["bound_rank"].idxmin() == "MISO"
    assert (table.loc[["SRP", "ERCO", "PJM"], "interconnect"] == ["Western", "Texas", "Eastern"]).all()


def test_an_unknown_authority_is_refused_with_the_nearest():
    assert authorities.authority_row("PJM")["capacity_w"] == 200847 * MW
    with pytest.raises(UnknownName, match=r"balancing authority 'NEVPP' does not exist: the nearest are .*'NEVP'"):
        authorities.authority_row("NEVPP")
    for use in (
        siting_claims.demand_side,
        lambda printed: siting_claims.feeders_by_region(printed, 1e9),
    ):
        with pytest.raises(UnknownName):
            use({"XYZ": 1e9})


def test_what_the_printed_values_imply(monkeypatch):
    found = siting_claims.demand_side(PRINTED).set_index("authority")
    assert list(found.index) == list(CODES)
    nevp = found.loc["NEVP"]
    assert nevp["implied_generation_clean_w"] == 12006 * MW > nevp["capacity_w"] == 11158 * MW
    assert list(found["possible_clean"]) == [True, True, False, True]
    assert list(found["possible_raw"]) == [True, False, False, True]
    assert (found["printed_w"] > found["bound_w"]).eq(~found["possible_clean"]).all()
    assert list(found["bound_rank"]) == [2, 13, 24, 6]
    shown = siting_claims.table1_shown(siting_claims.demand_side(PRINTED))
    assert len(shown.columns) == 8 and shown.iloc[0, 1:3].tolist() == [9915, "Mid-Atlantic"]
    assert shown.iloc[:, 3].tolist() == ["whole / whole", "half / half", "half / no", "half / no"]
    assert shown.iloc[2, 6] == f"{found.loc['NEVP', 'implied_over_capacity']:.0%}: impossible"
    rows = pd.DataFrame([siting_claims.authority_row(code) for code in CODES]).assign(window=list("aabb"))
    monkeypatch.setattr(siting_claims, "authority_row", rows.set_index("authority", drop=False).loc.__getitem__)
    with pytest.raises(ValueError, match="window"):
        siting_claims.table1_title(siting_claims.demand_side(PRINTED))
    monkeypatch.undo()
    silent = siting_claims.demand_side({"SEC": 1 * GW}).iloc[0]
    assert silent["possible_raw"] is None and silent["possible_clean"] is None


def test_who_may_exceed_the_papers_four():
    found = siting_claims.larger_bounds(PRINTED)
    assert len(found) == 18 and not set(found["authority"]) & set(CODES)
    assert (found["bound_w"] > min(PRINTED.values())).all() and found["bound_w"].is_monotonic_decreasing
    assert list(found["authority"][:3]) == ["MISO", "ERCO", "SWPP"]


LOW, HIGH = (claims.paper_value(f"flops2024.infra.total_power_{end}") for end in ("low", "high"))


def test_who_feeds_the_datacenter_alone_or_its_parts():
    low, high = (siting_claims.feeders_by_region(PRINTED, demand).set_index("parts") for demand in (LOW, HIGH))
    assert low.loc[1, "authorities"] == high.loc[1, "authorities"] == ("PJM",)
    assert low.loc[2, "authorities"] == CODES and low.loc[2, "northwest"] == 2
    assert high.loc[2, "authorities"] == ("PJM", "SRP") and high.loc[2, "northwest"] == 0
    assert siting_claims.fewest_even_parts(PRINTED, LOW) == 2 and siting_claims.fewest_even_parts(PRINTED, HIGH) == 3


@given(st.floats(1e8, 2e10), st.floats(1.0, 2.0))
def test_more_demand_is_never_easier_and_more_parts_never_harder(demand, more):
    counts = siting_claims.feeders_by_region(PRINTED, demand, most=8)["count"]
    assert counts.is_monotonic_increasing
    assert (siting_claims.feeders_by_region(PRINTED, demand * more, most=8)["count"] <= counts).all()


def test_room_counts_the_parts_that_fit_together():
    found = siting_claims.feeders_by_region({"PJM": 3.5 * GW, "BPAT": 1 * GW}, 4 * GW).set_index("parts")
    assert list(found["room"]) == [0, 1, 2, 4] and list(found["feasible"]) == [False, False, False, True]
    assert siting_claims.fewest_even_parts({"PJM": 3.5 * GW, "BPAT": 1 * GW}, 4 * GW) == 4
    assert siting_claims.fewest_even_parts({"PJM": 9 * GW, "BPAT": 9 * GW}, 4 * GW) == 2


def test_caps_are_the_capacity_that_counts_at_the_peak_less_demand():
    table = authorities.authority_table().set_index("authority")
    credit = {fuel: catalog.item("fuels", fuel)["peak_credit"] for fuel in ("solar", "wind")}
    bound = table["firm_w"] + sum(credit[kind] * table[f"{kind}_w"] for kind in credit) - table["peak_demand_clean_w"]
    caps = authorities.authority_caps()
    assert {code: caps[code] for code in ("BPAT", "PJM")} == pytest.approx(
        {code: bound[code] for code in ("BPAT", "PJM")}
    )
    whole = table[["firm_w", "solar_w", "wind_w"]].sum(axis=1)
    assert (whole <= table["capacity_w"] + 1 * MW).all()  # the file's capacity has whole MW
    assert all(cap <= table["bound_w"][code] + 1 * MW for code, cap in caps.items())
    assert caps["AECI"] < 0
    assert not {"", "SEC", "HGMA"} & set(caps)  # SEC reports no demand, HGMA has a plant and no load


def test_bounds_follow_the_reader_s_catalog(tmp_path, monkeypatch):
    before = authorities.authority_caps()
    head, *_ = (files.DATA / "catalog" / "fuels.csv").read_text().splitlines()
    row = 'wind,peak_credit,0,0,0.1,1,assumed,"a test",2026,,'
    (tmp_path / "fuels.csv").write_text(f"{head}\n{row}\n")
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    after, wind_w = authorities.authority_caps(), authorities.authority_table().set_index("authority")["wind_w"]
    credit = (before["ERCO"] - after["ERCO"]) / wind_w["ERCO"]
    assert 0 < credit < 1 and before["PJM"] - after["PJM"] == pytest.approx(credit * wind_w["PJM"])


def test_hours_bound_where_there_is_a_year_of_both():
    """Demand of 10 GW, generation of so much more in each hour: that bounds, or the capacity where it is less."""
    caps = authorities.authority_caps()

    def series(hours, **spare_w):
        at = pd.date_range("2023-01-01", periods=hours, freq="h")
        parts = [
            pd.DataFrame({"authority": code, "hour_utc": at, "demand_w": 10e9, "net_generation_w": 10e9 + spare})
            for code, spare in spare_w.items()
        ]
        return pd.concat(parts, ignore_index=True)

    year = authorities.authority_caps(series(8760, PJM=1e9, BPAT=1e12, TVA=-1e9))
    assert [year[code] for code in ("PJM", "BPAT", "TVA")] == pytest.approx([1e9, caps["BPAT"], -1e9])
    assert {code: cap for code, cap in year.items() if code not in ("PJM", "TVA")} == {
        code: cap for code, cap in caps.items() if code not in ("PJM", "TVA")
    }
    with pytest.raises(ValueError, match="series bounds no authority"):
        authorities.authority_caps(series(7800, PJM=1e9))


def test_a_demand_that_nobody_meets():
    assert np.isnan(siting_claims.fewest_even_parts(PRINTED, 900 * GW))
    # each feeds one of three parts, and nobody the third
    assert np.isnan(siting_claims.fewest_even_parts({"PJM": 1.4 * GW, "BPAT": 1.4 * GW}, 4 * GW))
