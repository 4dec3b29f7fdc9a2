"""Hours of balancing authorities: what is missing and wrong in them, and disposable power; real hours where at hand."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import real_hours
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore.catalog.units import MW
from railcore.siting import data_quality, disposable_power, screen_spikes
from railcore.siting.authorities import authority_table

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")
real = pytest.mark.skipif(not FOLDER.is_dir(), reason="RAILCORE_EIA_DIR names no folder with EIA's files")


def load(hours=24 * 60, seed=1):
    """Demand with days, a slow season and noise [MW]."""
    t = np.arange(hours)
    season = 1 + 0.2 * np.sin(2 * np.pi * t / 2000)
    return 4000 * season * (1 + 0.25 * np.sin(2 * np.pi * t / 24)) + 40 * np.random.default_rng(seed).normal(size=hours)


def spikes(values):
    """Hours that the rule marks, of series in rows or of one."""
    rows = np.atleast_2d(values)
    frame = pd.concat([demand(row, code=f"{i:03d}") for i, row in enumerate(rows)])
    return screen_spikes(frame)["demand_spike"].to_numpy().reshape(np.shape(values))


@given(st.integers(0, 24 * 60 - 5), st.sampled_from([-1.0, 0.0, 2.0, 17.0]), st.integers(1, 4), st.floats(1e-3, 1e6))
def test_a_spike_is_found_wherever_it_stands_at_any_scale(at, factor, length, scale):
    values = load()
    values[at : at + length] *= factor
    wanted = np.zeros(len(values), bool)
    wanted[at : at + length] = True
    np.testing.assert_array_equal(spikes(values * scale), wanted)


def test_the_rule_is_local_and_deterministic_and_takes_series_in_rows():
    values = load()
    values[500] *= 5
    both = spikes(np.array([values, load(seed=2)]))
    np.testing.assert_array_equal(both[0], spikes(values))
    assert both.sum() == 1 and both[0, 500]
    gap = values.copy()
    gap[100:110] = np.nan
    np.testing.assert_array_equal(spikes(gap), both[0])


@given(st.integers(0, 24 * 60 - 50), st.sampled_from([-1.0, 0.0, 0.1, 10.0]), st.sampled_from([1, 25, 50]))
@settings(max_examples=15)
def test_a_gross_error_of_days_is_found_whole_and_nothing_else(at, factor, length):
    values = load()
    values[at : at + length] *= factor
    wanted = np.zeros(len(values), bool)
    wanted[at : at + length] = True
    np.testing.assert_array_equal(spikes(values), wanted)


def test_a_hot_week_and_a_lasting_change_are_no_errors():
    """An error of days that is not gross moves the level too, as the docstring says."""
    for factor, until in ((1.8, 300 + 7 * 24), (0.55, 300 + 7 * 24), (3.0, None)):
        values = load()
        values[300:until] *= factor
        assert not spikes(values)[330 : (until or len(values)) - 30].any()


def test_an_hour_alone_is_judged_more_strictly_than_one_among_others():
    level = 4000 * (1 + 0.01 * np.random.default_rng(1).normal(size=24 * 60))
    alone, among = level.copy(), level.copy()
    alone[700] *= 1.23
    among[700:703] *= 1.23
    assert list(np.flatnonzero(spikes(alone))) == [700] and not spikes(among).any()
    among[700:703] *= 1.1
    assert list(np.flatnonzero(spikes(among))) == [700, 701, 702]


def demand(values, code="SRP", start="2023-01-01"):
    at = pd.date_range(start, periods=len(values), freq="h")
    return pd.DataFrame({"authority": code, "hour_utc": at, "demand_w": np.asarray(values) * MW})


def test_quality_counts_what_is_missing_doubled_and_wrong():
    values = load(hours=24 * 20)
    values[200] = 90000
    values[50] = np.nan
    one = demand(values).drop(index=[10, 11])
    again = one[one["hour_utc"].isin(one["hour_utc"].iloc[[20, 21, 22]])].copy()
    again.iloc[0, 2] += 5 * MW
    blank = again.iloc[[1]].assign(demand_w=np.nan)
    two = demand(load(hours=5, seed=3), code="PJM", start="2023-01-03")
    none = demand([np.nan] * 4, code="AEC")
    found = data_quality(pd.concat([one, again, blank, two, none])).set_index("authority")
    srp = found.loc["SRP"]
    assert (srp["hours"], srp["missing"], srp["duplicated"], srp["differing"], srp["spikes"]) == (477, 3, 3, 1, 1)
    assert srp["first"] == pd.Timestamp("2023-01-01") and srp["last"] == pd.Timestamp("2023-01-20 23:00")
    assert list(found.loc["PJM", ["hours", "missing", "duplicated", "spikes"]]) == [5, 0, 0, 0]
    assert list(found.loc["AEC", ["hours", "missing", "spikes"]]) == [0, 4, 0]


def test_quality_looks_at_generation_as_at_demand():
    both = demand(load(hours=24 * 20)).assign(net_generation_w=load(hours=24 * 20, seed=4) * MW)
    both.loc[[5, 6, 7], "net_generation_w"] = np.nan
    both.loc[9, "net_generation_w"] = -1.0
    found = data_quality(both).set_index("total")
    assert list(found.index) == ["demand", "net generation"] and set(found["authority"]) == {"SRP"}
    columns = ["hours", "missing", "negative", "spikes"]
    assert list(found.loc["net generation", columns]) == [477, 3, 1, 1] and not found.loc["demand", columns[1:]].any()
    swapped = both.rename(columns={"demand_w": "net_generation_w", "net_generation_w": "demand_w"})
    again = data_quality(swapped).set_index("total").rename({"demand": "net generation", "net generation": "demand"})
    pd.testing.assert_frame_equal(again.sort_index(), found)
    with pytest.raises(ValueError, match="no column 'demand_w'"):
        data_quality(both[["authority", "hour_utc"]])


def test_a_spike_among_doubled_hours_is_found_in_either_row_and_in_any_order():
    one = demand(load(hours=24 * 20))
    wrong = one.iloc[[100]].assign(demand_w=9e11)
    for rows in (pd.concat([one, wrong]), pd.concat([wrong, one]).sample(frac=1, random_state=0)):
        found = screen_spikes(rows)
        assert list(found.loc[found["demand_spike"], "demand_w"]) == [9e11]
        assert np.isnan(found.loc[found["demand_spike"], "demand_screened_w"]).all()


def test_cleaned_keeps_the_rest_and_says_what_it_needs():
    frame = demand(load()).assign(net_generation_w=demand(load(seed=5))["demand_w"])
    found = screen_spikes(frame)
    pd.testing.assert_series_equal(found["demand_screened_w"], frame["demand_w"], check_names=False)
    assert {"net_generation_screened_w", "net_generation_spike"} <= set(found) and "demand_spike" not in frame


def frame(authority, generation, demand, start="2023-01-01"):
    at = pd.date_range(start, periods=len(generation), freq="h")
    columns = {"demand_w": demand, "net_generation_w": generation}
    return pd.DataFrame({"authority": authority, "hour_utc": at, **columns})


def series(hours=24 * 30, spike=0.0):
    t = np.arange(hours)
    demand = 3000 + 500 * np.sin(2 * np.pi * t / 24)
    generation = 4000 + 500 * np.sin(2 * np.pi * (t - 2) / 24)
    for values in (demand, generation):
        values[100] += spike
    return frame("SRP", generation * MW, demand * MW)


def test_disposable_power_is_the_difference_of_the_two_maxima():
    row = disposable_power(series()).iloc[0]
    assert row["disposable_raw_w"] == row["disposable_clean_w"] == pytest.approx(1000 * MW)
    assert (row["generation_raw_w"], row["demand_raw_w"], row["demand_spikes"]) == (4500 * MW, 3500 * MW, 0)
    with pytest.raises(ValueError, match=r"no column 'net_generation_w'.*pandas\.concat"):
        disposable_power(series().drop(columns="net_generation_w"))


def test_the_authority_with_most_to_give_is_first():
    smaller, equal = series().assign(authority="AEC"), series().assign(authority="ZZZ")
    smaller["net_generation_w"] -= 500 * MW
    found = disposable_power(pd.concat([smaller, equal, series()], ignore_index=True))
    assert found["authority"].tolist() == ["SRP", "ZZZ", "AEC"]


@settings(max_examples=15)
@given(st.floats(5e4, 1e6), st.booleans())
def test_a_spike_moves_the_raw_value_and_not_the_clean_one(spike, in_demand):
    both = disposable_power(series(spike=spike)).iloc[0]
    assert both["disposable_clean_w"] == pytest.approx(1000 * MW)
    assert (both["demand_spikes"], both["generation_spikes"]) == (1, 1)
    one = series()
    column, sign = ("demand_w", -1) if in_demand else ("net_generation_w", 1)
    one.loc[100, column] += spike * MW
    found = disposable_power(one).iloc[0]
    assert sign * found["disposable_raw_w"] > 0.9 * spike * MW
    assert found["disposable_clean_w"] == pytest.approx(1000 * MW)


def test_demand_and_generation_may_come_on_rows_of_their_own_and_in_any_order():
    whole = pd.concat([series(spike=9e4), frame("AEC", [np.nan] * 3, [np.nan] * 3)], ignore_index=True)
    parts = [whole.drop(columns="net_generation_w"), whole.drop(columns="demand_w")]
    apart = pd.concat(parts).sample(frac=1, random_state=2)
    found = disposable_power(apart)
    pd.testing.assert_frame_equal(found, disposable_power(whole), check_dtype=False)
    assert np.isnan(found.set_index("authority").loc["AEC", "disposable_raw_w"])


def test_the_maxima_are_of_the_same_hours():
    """Demand grows through a month: generation that is missing where demand peaks must not make D negative."""
    whole = series()
    whole["demand_w"] *= np.linspace(1, 2, len(whole))
    whole["net_generation_w"] *= np.linspace(1, 2, len(whole))
    part = whole.copy()
    part.loc[part.index[: len(part) // 2] + len(part) // 2, "net_generation_w"] = np.nan
    row, half = (disposable_power(frame).iloc[0] for frame in (part, whole.iloc[: len(whole) // 2]))
    for name in ("generation_raw_w", "demand_raw_w", "disposable_raw_w"):
        assert row[name] == half[name]
    assert row["note"] == "360 of 720 hours have both demand and generation: the other hours do not count"
    assert (row["generation_hours"], row["demand_hours"], row["matching_hours"]) == (360, 720, 360)
    loose = disposable_power(part, matching=False).iloc[0]
    assert loose["disposable_raw_w"] < 0 < row["disposable_raw_w"] and "different hours" in loose["note"]
    assert loose["demand_raw_w"] == disposable_power(whole).iloc[0]["demand_raw_w"] and half["note"] == ""


@given(st.lists(st.integers(0, 24 * 30 - 1), max_size=40), st.lists(st.integers(0, 24 * 30 - 1), max_size=40))
@settings(max_examples=15)
def test_matching_hours_need_no_choice_where_all_match(lost, also):
    gaps = series()
    gaps.loc[lost, "demand_w"], gaps.loc[also, "net_generation_w"] = np.nan, np.nan
    kept = gaps.dropna()
    row, whole, loose = (disposable_power(*args).iloc[0] for args in ((gaps,), (kept,), (kept, False)))
    assert row["matching_hours"] == len(kept) and row["note"] == ""
    assert row["disposable_raw_w"] == whole["disposable_raw_w"] == loose["disposable_raw_w"]


def test_hours_that_never_meet_leave_no_power():
    apart = series()
    apart.loc[:299, "net_generation_w"], apart.loc[300:, "demand_w"] = np.nan, np.nan
    row = disposable_power(apart).iloc[0]
    assert np.isnan(row["disposable_raw_w"]) and row["note"] == "no hour has both demand and generation"
    assert disposable_power(apart, matching=False).iloc[0]["disposable_raw_w"] == pytest.approx(1000 * MW)


# the real files


@real
def test_recall_and_false_positives_of_our_rule():
    screened = screen_spikes(real_hours.demand_hours())
    clean = screened["demand_clean_w"].to_numpy()
    off = np.abs(screened["demand_w"].to_numpy() - clean)
    found, some = screened["demand_spike"].to_numpy(), clean > 0
    large = some & (off > 0.5 * clean)
    # The clean series of LDWP keeps days at a tenth of the level, and CPLW was dark after hurricane Helene: both are
    # marked. SPA's demand is some tens of MW.
    small = (screened["authority"] == "SPA").to_numpy()
    same = some & (off <= 0.05 * clean) & ~screened["authority"].isin(["LDWP", "CPLW"]).to_numpy()
    assert (found & same).sum() / same.sum() < 1.5e-4 and large.sum() > 800
    assert (found & large).sum() / large.sum() > 0.9 and (found & large & ~small).sum() / (large & ~small).sum() > 0.95
    by = screened.groupby("authority", observed=True)
    above = some & (screened["demand_w"].to_numpy() > 1.05 * by["demand_clean_w"].transform("max").to_numpy())
    assert above.sum() == 61 and found[above].all()
    largest = by[["demand_screened_w", "demand_clean_w"]].max()
    assert largest.loc["SRP", "demand_clean_w"] == 8744 * MW
    assert largest.loc["SRP", "demand_screened_w"] == pytest.approx(8744 * MW, rel=0.02)


@real
def test_known_anomalies_are_found_in_demand():
    known = pd.read_csv(FOLDER / "eia930_anomaly_evidence.csv", parse_dates=["utc_end"])
    known = known[(known["demand_raw_mw"] / known["demand_clean_mw"] - 1).abs() > 0.15]
    screened = screen_spikes(real_hours.demand_hours()).astype({"authority": str})
    at = screened.merge(known, left_on=["authority", "hour_utc"], right_on=["ba", "utc_end"])
    assert len(at) == len(known) == 7 and at["demand_spike"].all()


@real
def test_fifty_hours_at_ten_times_the_level_are_found_in_every_authority():
    hours = real_hours.demand_hours().astype({"authority": str})
    hours["demand_w"] = hours["demand_clean_w"].where(hours["demand_clean_w"] > 0)
    hours = hours[hours.groupby("authority")["demand_w"].transform("count") > 10_000].reset_index(drop=True)
    wrong = hours.groupby("authority").cumcount().between(9000, 9049) & hours["demand_w"].notna()
    hours.loc[wrong, "demand_w"] *= 10
    assert wrong.sum() == 2600 and screen_spikes(hours).loc[wrong, "demand_spike"].all()


@real
def test_real_hours_give_raw_and_clean_side_by_side():
    rows = pd.concat([real_hours.demand_hours(), real_hours.generation_hours()])
    window = rows[rows["hour_utc"].between("2022-10-08 01:00", "2024-10-08")]
    apart = disposable_power(window, matching=False).set_index("authority")
    table = authority_table().set_index("authority")
    known = table.index[table["peak_demand_clean_w"].notna()]
    assert (apart.loc[known, "demand_raw_w"] == table.loc[known, "peak_demand_raw_w"]).all()
    cleaned = window.groupby("authority", observed=True)["demand_clean_w"].max()
    assert (cleaned[known] == table.loc[known, "peak_demand_clean_w"]).all()
    # Generation is at hand to 3 January 2023 alone: 87 days, in which the six have no spike.
    found = disposable_power(window).set_index("authority")
    six = found[found["generation_raw_w"].notna()]
    assert set(six.index) == {"PJM", "MISO", "ERCO", "ISNE", "CISO", "EPE"}
    assert (six["disposable_raw_w"] == six["disposable_clean_w"]).all() and six["note"].str.contains(
        "do not count"
    ).all()
    assert six.loc["PJM", "disposable_raw_w"] == pytest.approx(1742 * MW)
    assert apart.loc["PJM", "disposable_raw_w"] == pytest.approx(-16051 * MW)
