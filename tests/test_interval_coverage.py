"""Coverage and width of intervals of iteration times, and what own runs gain: algebra, drawn and published runs."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from railcore.training import prediction_error
from railcore.training.error_spreads import ErrorSpreads, KnownErrors, covariance, own_shares, vote_interval
from suite import __main__ as suite_command
from suite import interval_coverage, own_run_gain
from suite.charts import intervals

SPREADS = ErrorSpreads(0.03, 0.05, 0.05, 0.02, 0.08, 0.05, 0.05, 0.01, 0.06, 0.02, 0.03)
KINDS = ("dense", "experts", "adapters")
PLACES, FEW, EACH = 60, 15, 6


@cache
def drawn(places=PLACES, each=EACH, seed=1):
    """Runs whose errors have the spreads SPREADS: places of one kind of model, GPU and software each, two models."""
    at = np.repeat(np.arange(places), each)
    i = np.tile(np.arange(each), places)
    table = pd.DataFrame(
        {
            "mixture": np.array(KINDS)[at % 3],
            "runtime": np.char.add("software ", (at % 10).astype(str)),
            "gpu": np.char.add("GPU ", (at % 7).astype(str)),
            "precision": np.where(i % 2, "fp8", "bf16"),
            "place": np.char.add("place ", at.astype(str)),
            "model": np.char.add("model ", (2 * (at % 5) + i // 2 % 2).astype(str)),
            "gpus": 64 * 2 ** (i % 3),
            "flag": np.where(at % 11 == 5, "batch?", ""),
            "source": np.char.add("page ", at.astype(str)),
            "seen": np.where(at // 3 % 2, "looked at", "kept aside"),
            "use": "check",
        }
    )
    whole = covariance(table, table, SPREADS)
    np.fill_diagonal(whole, np.square(SPREADS) @ own_shares(table))
    return KnownErrors(table, np.random.default_rng(seed).multivariate_normal(np.zeros(len(table)), whole), SPREADS)


def of_runs(monkeypatch, known):
    """The suite's functions on these runs in place of the published ones."""
    for module in (interval_coverage, own_run_gain):
        monkeypatch.setattr(module, "known_errors", lambda *_: known)
    middle, spread = known.left_out(known.table["place"])
    votes = (known.logs - middle) / spread, known.table["place"]
    monkeypatch.setattr(own_run_gain, "scores", lambda _, share: vote_interval(*votes, share))


def coverage_of(monkeypatch, known, **more):
    of_runs(monkeypatch, known)
    return interval_coverage.interval_coverage(["strategy"], **more)


def ours(table, seen=interval_coverage.ALL):
    return table[(table["method"] == interval_coverage.OURS) & (table["seen"] == seen)]


@cache
def drawn_coverage():
    with pytest.MonkeyPatch.context() as patch:
        return coverage_of(patch, drawn())


def test_drawn_runs_are_held_as_often_as_stated_whatever_is_left_out():
    table = drawn_coverage()
    off = ours(table).groupby(["left_out", "share"])["held"].mean().reset_index()
    assert set(off["left_out"]) == {"place", "GPU", "software"}
    assert (off["held"] - off["share"]).between(-0.03, 0.1).all()  # a place not seen has a vote on each side
    aside = ours(table, interval_coverage.ASIDE).groupby("share")["held"].mean()
    assert (aside - aside.index).abs().max() < 0.1


def test_larger_shares_have_wider_intervals_that_hold_more():
    table = drawn_coverage()
    for _, rows in table.groupby(["left_out", "seen", "kind", "method"]):
        assert rows["held"].is_monotonic_increasing and rows["width"].is_monotonic_increasing
    assert set(table["places"][table["seen"] == interval_coverage.ALL]) == {PLACES // 3}


def test_more_that_is_left_out_widens_and_what_runs_share_is_narrower_than_votes():
    table = drawn_coverage()
    table = table[(table["share"] == 0.9) & (table["seen"] == interval_coverage.ALL)]
    widths = table.groupby(["method", "left_out"])["width"].mean()
    one = widths[interval_coverage.OURS]
    assert one["place"] < one["GPU"] and one["place"] < one["software"]
    assert one["place"] < widths[interval_coverage.VOTED]["place"]


def test_a_place_is_predicted_without_its_own_runs(monkeypatch):
    """By hand: the last place is the only one of its kind."""
    table, logs = drawn(FEW).table.copy(), drawn(FEW).logs
    mine = (table["place"] == f"place {FEW - 1}").to_numpy()
    table["mixture"] = np.where(mine, "adapters", "dense")
    known = KnownErrors(table, logs, SPREADS)
    others = KnownErrors(table[~mine], known.logs[~mine], SPREADS)
    middle, spread = others.expected(table[mine])
    scores_at, scores_spread = known.left_out(table["place"])
    scores = ((known.logs - scores_at) / scores_spread)[~mine]
    below, above = vote_interval(scores, table["place"][~mine], [0.5, 0.9])
    widths = np.median(np.expm1(np.outer(above - below, spread)), axis=1)
    found = ours(coverage_of(monkeypatch, known, left_out=["place"]))
    found = found[found["kind"] == interval_coverage.KINDS["adapters"]].set_index("share").loc[[0.5, 0.9]]
    assert found["width"].tolist() == pytest.approx(widths, rel=1e-4)
    off = known.logs[mine] - middle
    held = ((np.outer(below, spread) <= off) & (off <= np.outer(above, spread))).mean(axis=1)
    assert found["held"].tolist() == pytest.approx(held)
    # Without other runs of the kind the plain rules say nothing.
    plain = interval_coverage.interval_coverage(["strategy"], ["place"])
    plain = plain[(plain["kind"] == interval_coverage.KINDS["adapters"]) & (plain["method"] != interval_coverage.OURS)]
    assert plain[["held", "width"]].isna().all(axis=None)


def test_the_order_of_runs_does_not_matter(monkeypatch):
    one = coverage_of(monkeypatch, drawn(FEW), left_out=["place"])
    order = np.random.default_rng(2).permutation(len(drawn(FEW).table))
    mixed = KnownErrors(drawn(FEW).table.iloc[order], drawn(FEW).logs[order], SPREADS)
    other = coverage_of(monkeypatch, mixed, left_out=["place"])
    pd.testing.assert_frame_equal(one, other, rtol=1e-9)


@cache
def published():
    return interval_coverage.interval_coverage(left_out=["place"])


def test_intervals_of_published_runs_hold_what_they_state_and_are_narrower_than_votes():
    table = published()
    at = table[(table["share"] == 0.9) & (table["left_out"] == "place") & (table["seen"] == interval_coverage.ALL)]
    at = at.pivot(index=["answer", "kind"], columns="method", values=["held", "width"])
    assert at["held"][interval_coverage.OURS].between(0.85, 0.95).all()
    assert (at["width"][interval_coverage.OURS] < at["width"][interval_coverage.VOTED]).all()
    assert (at["held"][interval_coverage.POOLED] < 0.87).all()  # too narrow
    aside = ours(table, interval_coverage.ASIDE).query("share == 0.9")
    assert len(aside) == 6 and aside["held"].ge(0.85).all()


def test_places_and_runs_are_those_of_the_published_table():
    table = prediction_error.errors_of(prediction_error.published_errors(), "strategy")
    rows = ours(published()).query("answer == 'strategy' and left_out == 'place' and share == 0.9").set_index("kind")
    for kind, words in interval_coverage.KINDS.items():
        mine = table[table["mixture"] == kind]
        assert (rows.loc[words, "places"], rows.loc[words, "runs"]) == (mine["place"].nunique(), len(mine))


def test_the_command_prints_coverage_and_width(capsys, monkeypatch):
    monkeypatch.setattr(interval_coverage, "interval_coverage", published)
    assert suite_command.main(["coverage"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if "dense models" in line and interval_coverage.OURS in line)
    row = ours(published()).query("share == 0.9").iloc[0]
    assert first.split("  ")[-1].strip() == f"{row['held']:.0%}, {row['width']:.0%}"
    assert any("width: median" in line for line in lines)


def test_picture_of_coverage():
    rows = published().query("answer == 'strategy' and left_out == 'place'")
    figure = intervals.coverage_and_width(rows, interval_coverage.METHODS, "Published runs")
    left, right = figure.axes
    assert [line.get_label() for line in left.get_lines()[2:]] == list(interval_coverage.KINDS.values())
    assert len(right.get_lines()) == len(rows[(rows["share"] == 0.9) & (rows["seen"] == rows["seen"].iloc[0])].dropna())
    intervals.plt.close(figure)


def test_own_runs_of_a_page_are_counted_as_those_of_a_user_are(monkeypatch):
    """The same as all other places' runs and the own ones in one table."""
    known, here = drawn(), np.arange(EACH, 2 * EACH)
    middle, inside = known.without(here)
    own, others = np.array([0, 3]), np.array([1, 2, 5])
    found = own_run_gain.with_own_runs(known.logs[here], middle, inside, own, others)
    kept = np.concatenate([np.setdiff1d(np.arange(len(known.table)), here), here[own]])
    whole = KnownErrors(known.table.iloc[kept], known.logs[kept], SPREADS)
    wanted = whole.expected(known.table.iloc[here[others]])
    assert found[0] == pytest.approx(wanted[0]) and found[1] == pytest.approx(wanted[1], rel=1e-4)


def test_without_own_runs_nothing_changes_and_without_noise_one_run_says_all():
    y, middle = np.array([0.3, 0.3, 0.1]), np.zeros(3)
    inside = np.array([[0.04, 0.04, 0.0], [0.04, 0.04 + 1e-12, 0.0], [0.0, 0.0, 0.09]])
    none = own_run_gain.with_own_runs(y, middle, inside, np.array([], int), np.arange(3))
    assert none[0].tolist() == [0, 0, 0] and none[1] == pytest.approx([0.2, 0.2, 0.3])
    one = own_run_gain.with_own_runs(y, middle, inside, np.array([0]), np.array([1, 2]))
    assert one[0] == pytest.approx([0.3, 0], abs=1e-4) and one[1] == pytest.approx([0, 0.3], abs=2e-3)


def test_an_own_run_that_is_far_off_says_little():
    inside = np.array([[0.04, 0.03], [0.03, 0.04]])
    near, far = (
        own_run_gain.with_own_runs(np.array([log, 0.0]), np.zeros(2), inside, np.array([0]), np.array([1]))
        for log in (0.4, 4.0)
    )
    assert 0 < far[0][0] < near[0][0] == pytest.approx(0.3, rel=1e-3)
    assert near[1][0] < far[1][0] == pytest.approx(0.2, rel=1e-2)


def test_own_runs_gain_most_where_most_is_shared(monkeypatch):
    of_runs(monkeypatch, drawn(each=8))
    gains = own_run_gain.own_run_gains()
    table = own_run_gain.gain_summary(gains.assign(seen="drawn")).set_index(["likeness", "own_runs"])
    same, precision, model = (table.loc[(name, 1)] for name in own_run_gain.LIKENESS)
    assert same["after"] < min(precision["after"], model["after"]) and model["after"] < model["before"]
    assert same["width_after"] < precision["width_after"] < model["width_after"] < model["width_before"]
    several = table.loc[own_run_gain.ANY]
    assert several.index.tolist() == list(own_run_gain.NUMBERS)
    assert several["width_after"].is_monotonic_decreasing and several["within_after"].between(0.84, 0.97).all()
    assert several["after"].iloc[-1] < several["after"].iloc[1] < several["after"].iloc[0]
    assert several["width_after"].iloc[0] == pytest.approx(several["width_before"].iloc[0])
    pd.testing.assert_frame_equal(gains, own_run_gain.own_run_gains())


@cache
def published_gains():
    return own_run_gain.own_run_gains()


def test_own_runs_bring_published_ones_nearer_and_intervals_narrower_that_still_hold():
    gains = own_run_gain.gain_summary(published_gains()).set_index(["likeness", "own_runs", "seen"])
    for seen in ("looked at", "kept aside"):
        same = gains.loc[(own_run_gain.LIKENESS[0], 1, seen)]
        assert same["after"] < 0.7 * same["before"] and same["better"] > 0.7
        assert same["width_after"] < 0.8 * same["width_before"] and same["within_after"] > 0.85
        several = gains.xs((own_run_gain.ANY, seen), level=("likeness", "seen"))
        assert several["after"].iloc[-1] < several["after"].iloc[1] < several["before"].iloc[1]
    assert (gains["width_after"] <= gains["width_before"] * (1 + 1e-9)).all()
    assert gains["within_after"].between(0.8, 1).all() and gains.xs(own_run_gain.ANY)["within_after"].min() > 0.85


def test_a_page_is_one_source_on_one_platform():
    pages = published_gains()["page"]
    table = prediction_error.known_errors("strategy").table
    several = table.groupby(["source", "place"]).size()
    assert pages.nunique() == (several > 1).sum()


def test_own_runs_are_one_page_and_are_reported_alone():
    table = prediction_error.published_errors()
    some = table[(table["model"] == "Llama-3 70B") & (table["gpu"] == "H100")].head(3)
    mine = some.assign(use="yours", seen="yours", place="yours, DGX H100", source=["a", "b", "c"])
    gains = own_run_gain.own_run_gains(mine)
    assert set(gains["page"]) == {"yours, yours, DGX H100"} and set(gains["seen"]) == {"yours"}
    assert own_run_gain.own_run_gains(mine.head(1)).empty
    empty = own_run_gain.gains_as_text(own_run_gain.gain_summary(own_run_gain.own_run_gains(mine.head(1))))
    assert empty.empty


def test_table_and_picture_of_gains():
    gains = published_gains()
    shown = own_run_gain.gains_as_text(own_run_gain.gain_summary(gains))
    assert shown.shape[1] <= 8
    figure = intervals.errors_after_own_runs(gains, "Published runs")
    left, right = figure.axes
    assert [text.get_text().split("\n")[-1] for text in left.get_yticklabels()][:2] == ["before", "after"]
    assert len(left.get_yticks()) == 2 * len(own_run_gain.LIKENESS)
    assert right.get_lines()[0].get_ydata()[0] > right.get_lines()[0].get_ydata()[-1]
    intervals.plt.close(figure)


def test_the_declared_spreads_are_those_in_use():
    table = pd.read_csv(prediction_error.files.data("derived/error_spreads.csv")).set_index("answer")
    rows = pd.read_csv(prediction_error.files.data("calibrations.csv"))
    (row,) = rows[rows["note"].str.contains("error_spreads.csv", regex=False)].itertuples()
    assert row.free == table[list(ErrorSpreads._fields)].size
    assert all(str(count) in row.note for count in table["runs"])
