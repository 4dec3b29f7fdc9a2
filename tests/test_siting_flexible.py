"""Flexible load: limits and algebra of the curtailed share, the stored headroom, and what a study of nine years has."""

import doctest
import os
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog import UnknownName, files
from railcore.catalog.units import GW
from railcore.siting import flexible_load as flexible
from railcore.siting.hours import screen_spikes
from suite import legible
from suite.charts import headroom as charts
from suite.flops2024 import siting_claims

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")
powers = st.integers(0, 1000).map(lambda power: power * 1e6)
margins = st.lists(powers, min_size=1, max_size=40).map(np.array)
shares = st.floats(0.0, 0.9)
YEAR = pd.date_range("2023-01-01 01:00", "2024-01-01 00:00", freq="h")


def series(demand_w, code="PJM", hours=YEAR):
    return pd.DataFrame({"authority": code, "hour_utc": hours, "demand_w": demand_w})


def seasonal_year(seed=0):
    return np.random.default_rng(seed).uniform(50, 100, len(YEAR)) * GW


def test_the_examples_of_the_docstrings_run():
    failed, tried = doctest.testmod(flexible)
    assert not failed and tried >= 6


def test_no_load_gives_up_nothing_and_an_endless_one_all():
    cut = flexible.curtailed_load([1e9, 2e9, 3e9], [0.0, 1e9, 1e15])
    assert cut.share[0] == cut.share[1] == cut.hours_per_year[1] == cut.longest_hours[1] == 0
    assert cut.share[2] == pytest.approx(1, abs=1e-5) and cut.longest_hours[2] == 3


def test_a_flat_demand_has_no_room():
    assert flexible.flexible_headroom(np.zeros(24), [0.0, 0.01, 0.9]).tolist() == [0, 0, 0]
    assert flexible.curtailed_load(np.zeros(24), [5e6]).share.tolist() == [1]
    below = np.nextafter(5 / 6, 0)  # five hours of six have no room: 5 - 6 q rounds to 0
    assert flexible.flexible_headroom([0, 0, 0, 0, 0, 1e9], [below, 5 / 6]).tolist() == [0, 1e9]


@given(margins, st.lists(powers, min_size=2, max_size=6).map(sorted))
def test_a_larger_load_gives_up_more(margin, loads):
    cut = flexible.curtailed_load(margin, loads)
    for values in (cut.share, cut.hours_per_year, cut.longest_hours):
        assert (np.diff(values) >= -1e-12).all()
    assert ((cut.share >= 0) & (cut.share <= 1)).all() and (cut.share * 8760 <= cut.hours_per_year + 1e-6).all()


@given(margins, shares)
def test_headroom_is_the_largest_load_within_the_share(margin, share):
    (load,) = flexible.flexible_headroom(margin, share)
    at, above = flexible.curtailed_load(margin, [load, load * (1 + 1e-6) + 1.0]).share
    assert load >= margin.min() and at <= share + 1e-9 and above > share - 1e-12
    assert load in (0, pytest.approx(margin.min())) or at == pytest.approx(share, abs=1e-9)


@given(margins, st.integers(1, 2000).map(lambda power: power * 1e6))
def test_share_and_headroom_are_inverse(margin, load):
    (share,) = flexible.curtailed_load(margin, [load]).share
    if 0 < share < 0.99 and margin.min() > 0:
        assert flexible.flexible_headroom(margin, share)[0] == pytest.approx(load)


@given(margins)
def test_without_curtailment_the_least_margin_is_the_headroom(margin):
    assert flexible.flexible_headroom(margin, 0.0)[0] == pytest.approx(margin.min())


@given(margins, powers, shares, st.sampled_from([0.5, 4.0]))
def test_demand_and_load_scale_alike(margin, load, share, factor):
    one, other = flexible.curtailed_load(margin, [load]), flexible.curtailed_load(factor * margin, [factor * load])
    assert one.share[0] == pytest.approx(other.share[0]) and one.hours_per_year[0] == other.hours_per_year[0]
    twice = flexible.flexible_headroom(factor * margin, share)
    assert twice[0] == pytest.approx(factor * flexible.flexible_headroom(margin, share)[0])


@given(st.integers(0, 50), shares)
def test_the_order_of_hours_counts_for_runs_alone(seed, share):
    rng = np.random.default_rng(seed)
    margin = rng.uniform(0, 1e9, 48)
    mixed = rng.permutation(margin)
    assert flexible.flexible_headroom(margin, share) == pytest.approx(flexible.flexible_headroom(mixed, share))
    one, other = (flexible.curtailed_load(hours, [5e8]) for hours in (margin, mixed))
    assert one.share == pytest.approx(other.share) and one.hours_per_year == other.hours_per_year


def test_several_authorities_are_as_each_alone():
    margin = np.random.default_rng(1).uniform(0, 1e9, (3, 50))
    margin[0, 7] = np.nan
    loads, levels = [1e8, 6e8], [0.0, 0.01, 0.3]
    together, cut = flexible.flexible_headroom(margin, levels), flexible.curtailed_load(margin, loads)
    assert together.shape == (3, 3) and cut.share.shape == (3, 2)
    for i, row in enumerate(margin):
        alone = flexible.curtailed_load(row, loads)
        assert together[i] == pytest.approx(flexible.flexible_headroom(row, levels))
        for name in ("share", "hours_per_year", "longest_hours"):
            assert getattr(cut, name)[i] == pytest.approx(getattr(alone, name))
    assert together[0] == pytest.approx(flexible.flexible_headroom(np.delete(margin[0], 7), levels))


def test_a_gap_ends_a_run():
    margin = np.array([0, 0, np.nan, 0, 0, 0, 9e9, 0])
    assert flexible.curtailed_load(margin, [1e6]).longest_hours.tolist() == [3]


def test_an_hour_that_a_series_lacks_ends_a_run():
    demand = np.full(len(YEAR), 50 * GW)
    demand[100:110], demand[[105, 4000]] = 95 * GW, 100 * GW
    whole = series(demand)
    runs = [flexible.headroom_table(hours, [0.0005])["longest_hours"].iloc[0] for hours in (whole, whole.drop(104))]
    assert runs == [10, 5]


def test_an_hour_counts_in_the_month_of_its_beginning():
    ends = np.array(["2023-04-01T00", "2023-04-01T01", "2023-11-01T00", "2023-11-01T01"], "datetime64[h]")
    assert flexible.in_summer(ends).tolist() == [False, True, True, False]


def test_each_season_has_its_own_peak():
    demand = np.where(flexible.in_summer(YEAR), 90.0, 60.0)
    demand[100] = np.nan
    peaks = flexible.season_peaks(YEAR, demand)
    assert peaks == (90, 60) and np.nanmax(flexible.demand_margin(YEAR, demand, peaks)) == 0
    assert np.nanmin(flexible.demand_margin(YEAR, demand, (95.0, 70.0))) == 5  # the lesser of both seasons' room
    with pytest.raises(ValueError, match=r"up to 10 W above it; give peaks"):
        flexible.demand_margin(YEAR, demand, (80.0, 70.0))
    assert np.isnan(flexible.season_peaks(ends := YEAR[:10], np.ones(10))[0]) and flexible.in_summer(ends).sum() == 0


def test_the_table_has_a_row_for_each_authority_and_share():
    both = pd.concat([series(seasonal_year(0)), series(seasonal_year(1) / 2, "ERCO"), series(0.0, "AEC")])
    table = flexible.headroom_table(both, [0.0, 0.01])
    assert table["authority"].tolist() == ["ERCO", "ERCO", "PJM", "PJM"] and table["headroom_w"].iloc[0] == 0
    alone = flexible.headroom_table(series(seasonal_year(0)), [0.01])
    assert alone["headroom_w"].iloc[0] == table["headroom_w"].iloc[3]
    shuffled = flexible.headroom_table(both.sample(frac=1, random_state=0), [0.0, 0.01])
    pd.testing.assert_frame_equal(table, shuffled)
    margin = flexible.demand_margin(YEAR, seasonal_year(0), flexible.season_peaks(YEAR, seasonal_year(0)))
    assert alone["headroom_w"].iloc[0] == flexible.flexible_headroom(margin, 0.01)[0]


def test_a_longer_record_raises_the_peak_and_never_lowers_it():
    hours = series(seasonal_year())
    usual, lower, higher = (
        flexible.headroom_table(hours, [0.0, 0.01], record)
        for record in (None, {"PJM": (1.0, np.nan)}, {"PJM": (120 * GW, 120 * GW)})
    )
    pd.testing.assert_frame_equal(usual, lower)
    assert (higher["headroom_w"] > usual["headroom_w"] + 19 * GW).all() and higher["summer_peak_w"].iloc[0] == 120 * GW


def test_screened_demand_is_taken_where_it_is_there():
    wrong = seasonal_year()
    wrong[4000] = 900 * GW
    screened = screen_spikes(series(wrong))
    raw = flexible.headroom_table(series(wrong), [0.01])["summer_peak_w"].iloc[0]
    assert raw == 900 * GW > 105 * GW > flexible.headroom_table(screened, [0.01])["summer_peak_w"].iloc[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda year: year.drop(columns="hour_utc"), "no column 'hour_utc'.*balance_series"),
        (lambda year: pd.concat([year, year.head(1)]), r"2023-01-01 01:00:00 of PJM twice: keep one"),
        (lambda year: year[year["hour_utc"].dt.month != 7], "no hour of PJM in month 7: give whole years"),
        (lambda year: year.assign(demand_w=0.0), "no hour with demand: give one or more years"),
    ],
)
def test_a_series_that_is_no_year_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        flexible.headroom_table(change(series(seasonal_year())), [0.01])


def test_numbers_out_of_range_are_refused():
    for call, words in (
        (lambda: flexible.curtailed_load([1.0], [-1.0]), "load_w is"),
        (lambda: flexible.curtailed_load([-1.0], [1.0]), "margin_w has a value below 0"),
        (lambda: flexible.curtailed_load([np.nan], [1.0]), "margin_w has no hour"),
        (lambda: flexible.flexible_headroom([1.0], 1.0), "share is 1.0"),
        (lambda: flexible.authority_flexible_headroom(["PJM"], 0.2), "share is 0.2: give 0, or a share from 0.001 to"),
        (lambda: flexible.authority_flexible_headroom(["PJM"], 1e-4), "share is 0.0001"),
        (lambda: flexible.authority_flexible_headroom(["PJM"], np.nan), "share is nan"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(UnknownName, match="PJN"):
        flexible.authority_flexible_headroom(["PJN"], 0.01)


def test_stored_headroom_rises_with_the_share_and_is_met_between():
    table = flexible.stored_headroom()
    assert (table.groupby("authority")["headroom_w"].diff().dropna() > 0).all()
    assert (table["hours_per_year"] >= table["share"] * 8760 - 1e-6).all()
    assert flexible.authority_flexible_headroom(["PJM", "", "SEC", "HGMA"], 0.0) == {
        "PJM": 0.0
    }  # no hours of the others
    stored = table[table["authority"] == "PJM"].set_index("share")["headroom_w"]
    for share, power in stored.items():
        assert flexible.authority_flexible_headroom(["PJM"], share)["PJM"] == pytest.approx(power)
    middle = flexible.authority_flexible_headroom(["PJM"], 0.0075)["PJM"]
    assert middle == pytest.approx((stored[0.005] + stored[0.01]) / 2)


def test_the_study_sums_what_it_says_of_each_authority():
    """Its rounded 22 values sum to its total, so the rows are those of its list."""
    table = flexible.published_headroom()
    single = table[table["authority"] != ""]
    assert len(single) == 22 and single["published"].sum() == pytest.approx(98 * GW, rel=0.01)
    total = table[(table["authority"] == "") & (table["share"] == 0.005) & (table["quantity"] == "headroom")]
    assert total["ours"].iloc[0] == pytest.approx(single["ours"].sum())


def test_two_years_leave_less_room_than_the_nine_of_the_study():
    """A longer record has higher peaks: with them most of the difference goes. No number was chosen for this."""
    table = flexible.published_headroom()
    sums = table[(table["authority"] == "") & (table["quantity"] == "headroom")]
    assert (sums["error"] < 0).all() and (sums["error"] > -0.4).all()
    assert (sums["record_error"] < 0).all() and (sums["record_error"] > sums["error"] / 2).all()
    hours = table[table["quantity"] == "hours"]
    assert (hours["error"].abs() < 0.2).all()


@pytest.mark.skipif(not FOLDER.is_dir(), reason="RAILCORE_EIA_DIR names no folder with EIA's files")
def test_the_stored_headroom_is_that_of_the_real_hours():
    script = runpy.run_path(str(files.DATA / "measured" / "flexible_headroom.py"))
    stored = pd.read_csv(files.data("measured/flexible_headroom.csv"), keep_default_na=False, na_values=[""])
    pd.testing.assert_frame_equal(script["table"](FOLDER), stored, rtol=1e-8)
    between = (0.0015, 0.0035, 0.0075, 0.015, 0.03, 0.04)
    exact = flexible.headroom_table(script["demand_hours"](FOLDER)[0], between)
    for share, part in exact.groupby("share"):
        line = flexible.authority_flexible_headroom(part["authority"], share)
        error = part["authority"].map(line) / part["headroom_w"] - 1
        assert error.max() < 0.005 and error.min() > (-0.08 if share < 0.0025 else -0.04)


def test_the_picture_can_be_read():
    judged = siting_claims.judged_headroom(flexible.published_headroom())
    near = (judged["error"].abs() <= 0.01) == (judged["verdict"] == "reproduced")
    assert near.all()
    figure = charts.headroom_by_curtailed_share(flexible.stored_headroom(), judged)
    assert not legible.faults(figure)
    plt.close(figure)
