"""How alike errors of runs are: what runs say of another answer, spreads solved from runs, and votes of places."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore.training import error_spreads as module
from railcore.training.error_spreads import (
    FEW_GPUS,
    LARGEST_LOG,
    ErrorSpreads,
    KnownErrors,
    covariance,
    far_variance,
    own_shares,
    shared,
    solved_spreads,
    vote_interval,
    vote_quantiles,
    with_places,
)
from railcore.training.runs import published_table

COLUMNS = ["mixture", "runtime", "gpu", "precision", "place", "model", "gpus", "flag"]
RUN = dict(zip(COLUMNS, ("dense", "nemo", "H100", "bf16", "mine, H100", "8B", 64, ""), strict=True))
OTHER = dict(zip(COLUMNS, ("experts", "torch", "B200", "fp8", "yours, B200", "70B", 128, "how many GPUs"), strict=True))
SPREADS = ErrorSpreads(0.2, 0.09, 0.06, 0.04, 0.08, 0.05, 0.02, 0.01, 0.05, 0.1, 0.07)
NONE = dict.fromkeys(ErrorSpreads._fields, 0.0)


def table(*rows):
    return pd.DataFrame([*rows], columns=COLUMNS)


@st.composite
def tables(draw, most=8):
    """Runs that share some of their names."""
    names = {name: st.sampled_from([RUN[name], OTHER[name]]) for name in COLUMNS}
    names["gpus"] = st.sampled_from([8, 64, 512, 4096])
    rows = draw(st.lists(st.fixed_dictionaries(names), max_size=most))
    return table(*rows, RUN)


@st.composite
def spreads(draw):
    return ErrorSpreads(*(draw(st.floats(0.01, 0.5)) for _ in ErrorSpreads._fields))


def whole_covariance(runs, answers, known):
    """Covariance of runs and answers, from what the parts of an error are, one entry at a time."""
    everything = pd.concat([runs, answers], ignore_index=True).to_dict("records")
    matrix = np.zeros((len(everything),) * 2)
    for i, one in enumerate(everything):
        for j, other in enumerate(everything):
            same = {name: one[name] == other[name] for name in COLUMNS}
            both = np.prod([max(np.log2(run["gpus"] / FEW_GPUS), 0) for run in (one, other)])
            shares = {
                "kind": same["mixture"],
                "software": same["runtime"],
                "gpu": same["gpu"],
                "precision": same["gpu"] and same["precision"] and same["mixture"],
                "place": same["place"] and same["mixture"],
                "model": same["model"],
                "place_model": same["place"] and same["model"] and same["precision"],
                "growth": same["place"] * both,
                "run": i == j,
                "mixture": i == j and one["mixture"] == "experts",
                "flagged": i == j and one["flag"] != "",
            }
            matrix[i, j] = sum(getattr(known, name) ** 2 * share for name, share in shares.items())
    return matrix


# What runs say of another answer


@settings(max_examples=15, deadline=None)
@given(tables(), tables(3), spreads(), st.integers(0, 99))
def test_expected_is_what_conditioning_a_gaussian_gives(runs, answers, known, seed):
    y, n = np.random.default_rng(seed).normal(0, 0.1, len(runs)), len(runs)
    both = whole_covariance(runs, answers, known)
    inverse = np.linalg.inv(both[:n, :n] + module._JITTER * np.eye(n))
    toward, middle_spread = both[n:, :n], KnownErrors(runs, y, known).expected(answers)
    assert middle_spread[0] == pytest.approx(toward @ inverse @ y, abs=1e-7)
    left = np.diag(both[n:, n:] - toward @ inverse @ toward.T)
    assert middle_spread[1] == pytest.approx(np.sqrt(left), rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(tables(), spreads())
def test_covariances_are_those_of_the_parts_of_an_error(runs, known):
    matrix = whole_covariance(runs, runs.iloc[:0], known)
    assert (
        np.allclose(matrix, matrix.T)
        and np.linalg.eigvalsh(matrix).min() > 0
        and np.allclose(matrix, whole(runs, known))
    )
    between = covariance(runs, runs, known)
    assert np.allclose(between, between.T) and np.linalg.eigvalsh(between).min() > -1e-9
    alone = np.square(known) @ own_shares(runs)
    assert alone == pytest.approx(np.diag(matrix)) and (np.diag(between) < alone).all()
    apart = ~np.eye(len(runs), dtype=bool)
    assert between[apart] == pytest.approx(matrix[apart])
    assert shared(runs, runs[:2]).shape == (len(known), len(runs), min(2, len(runs)))


def test_each_part_is_shared_by_what_its_name_says():
    """The runs that differ in one column alone share all parts but those of this column."""
    doublings = {"gpus": 512}
    lost = {
        "mixture": {"kind", "precision", "place"},
        "runtime": {"software"},
        "gpu": {"gpu", "precision"},
        "precision": {"precision", "place_model"},
        "place": {"place", "place_model", "growth"},
        "model": {"model", "place_model"},
    }
    one = table(RUN | doublings)
    for column, parts in lost.items():
        found = shared(one, table(RUN | doublings | {column: OTHER[column]}))[:, 0, 0]
        zeros = {name for name, share in zip(ErrorSpreads._fields, found, strict=True) if share == 0}
        assert zeros == parts | {"run", "mixture", "flagged"}, column


@settings(max_examples=12, deadline=None)
@given(tables(), spreads(), st.integers(0, 99))
def test_runs_left_out_are_expected_as_without_them(runs, known, seed):
    y = np.random.default_rng(seed).normal(0, 0.1, len(runs))
    found = KnownErrors(runs, y, known)
    places = [f"{number % 3}" for number in range(len(runs))]
    middle, spread = found.left_out(places)
    for place in set(places):
        rows = np.array([number for number, other in enumerate(places) if other == place])
        others = np.setdiff1d(np.arange(len(runs)), rows)
        if len(others):
            alone = KnownErrors(runs.iloc[others], y[others], known).expected(runs.iloc[rows])
        else:
            alone = 0.0, np.sqrt(np.square(known) @ own_shares(runs.iloc[rows]))
        assert middle[rows] == pytest.approx(alone[0], abs=1e-6)
        assert spread[rows] == pytest.approx(alone[1], rel=1e-5)
        assert found.without(rows)[1] == pytest.approx(found.without(rows)[1].T)


@settings(max_examples=12, deadline=None)
@given(tables(), tables(4), spreads())
def test_more_runs_never_widen(runs, more, known):
    answers, both = table(RUN, OTHER), pd.concat([runs, more], ignore_index=True)
    before, after = (KnownErrors(each, np.zeros(len(each)), known).expected(answers)[1] for each in (runs, both))
    assert (after <= before * (1 + 1e-9)).all()


def test_more_runs_like_it_narrow_to_what_no_run_tells():
    counts = [1, 2, 5, 50, 500]
    found = [KnownErrors(table(*[RUN] * n), np.full(n, 0.1), SPREADS).expected(table(RUN)) for n in counts]
    middles, widths = (np.concatenate(each) for each in zip(*found, strict=True))
    assert (np.diff(widths) < 0).all() and (np.diff(middles) > 0).all()
    assert widths[-1] == pytest.approx(SPREADS.run, rel=0.01) and middles[-1] == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("run", [RUN, OTHER])
def test_an_answer_that_shares_nothing_is_as_before_any_run(run):
    """Of GPUs a place alone knows how they grow; runs of mixtures spread more, and those with a flag."""
    answer = table(OTHER if run is RUN else RUN)
    middle, spread = KnownErrors(table(run, run), [0.3, 0.2], SPREADS).expected(answer)
    numbers = SPREADS._asdict() | ({} if answer["mixture"][0] == "experts" else {"mixture": 0, "flagged": 0})
    numbers["growth"] *= np.log2(answer["gpus"][0] / FEW_GPUS)
    assert middle[0] == 0 and spread[0] == pytest.approx(np.linalg.norm(list(numbers.values())))


def test_a_run_that_is_known_exactly_pins_what_is_like_it():
    exact = SPREADS._replace(run=0.0, mixture=0.0, flagged=0.0)
    for one in (RUN, OTHER):
        middle, spread = KnownErrors(table(one), [0.2], exact).expected(table(one))
        assert middle[0] == pytest.approx(0.2, rel=1e-4) and spread[0] < 2e-3
    kind_alone = ErrorSpreads(**NONE | {"kind": 0.3})
    middle, spread = KnownErrors(table(RUN), [0.2], kind_alone).expected(table(OTHER | {"mixture": "dense"}, OTHER))
    assert middle == pytest.approx([0.2, 0], abs=1e-4) and spread == pytest.approx([0, 0.3], abs=2e-3)


def test_the_spread_grows_with_doublings_beyond_the_runs():
    runs = table(RUN, RUN | {"gpus": 128})
    known = KnownErrors(runs, [0.0, 0.1], SPREADS._replace(growth=0.05))
    middle, spread = known.expected(table(*(RUN | {"gpus": 64 * 2**n} for n in range(9))))
    assert (np.diff(spread[1:]) > 0).all() and np.diff(middle) == pytest.approx(np.full(8, middle[1] - middle[0]))
    assert middle[1] > middle[0]
    far = known.expected(table(RUN | {"gpus": 64 * 2**9, "place": "another"}))
    alone = KnownErrors(runs, [0.0, 0.1], SPREADS._replace(growth=0)).expected(table(RUN | {"place": "another"}))
    assert far[1][0] ** 2 - alone[1][0] ** 2 == pytest.approx((9 * 0.05) ** 2, abs=5e-4)


def test_below_few_gpus_the_spread_does_not_grow():
    known = KnownErrors(table(RUN), [0.1], SPREADS._replace(growth=0.05))
    for place in ("mine, H100", "another"):
        middle, spread = known.expected(table(*(RUN | {"gpus": gpus, "place": place} for gpus in (1, 8, FEW_GPUS, 96))))
        assert middle[:3].tolist() == [middle[2]] * 3 and spread[:3].tolist() == [spread[2]] * 3
        assert spread[3] > spread[2]


def test_a_run_with_a_flag_says_less():
    """Its extra variance is its own: an answer like it has none."""
    answer = table(RUN)
    clean, flagged, none = (
        KnownErrors(table(RUN | {"flag": flag}), [0.2], spreads).expected(answer)
        for flag, spreads in (("", SPREADS), ("batch?", SPREADS), ("batch?", SPREADS._replace(flagged=0.0)))
    )
    assert flagged[0] < clean[0] and flagged[1] > clean[1]
    assert none[0] == pytest.approx(clean[0]) and none[1] == pytest.approx(clean[1])
    alone = np.square(SPREADS) @ own_shares(table(RUN, RUN | {"flag": "batch?"}))
    assert alone[1] - alone[0] == pytest.approx(SPREADS.flagged**2)


def test_a_run_far_off_says_less_than_one_near():
    """Its extra variance is the square of what is beyond the largest error that counts whole."""
    logs = np.array([0.0, LARGEST_LOG, -LARGEST_LOG, LARGEST_LOG + 0.3, -LARGEST_LOG - 0.3])
    assert far_variance(logs) - module._JITTER == pytest.approx([0, 0, 0, 0.09, 0.09])

    def found(log):
        middle, spread = KnownErrors(table(RUN), [log], SPREADS).expected(table(RUN))
        return middle[0], spread[0]

    near, edge, far = found(0.1), found(LARGEST_LOG), found(3.0)
    assert near[1] == pytest.approx(edge[1]) and far[1] > edge[1]
    assert 0 < far[0] < edge[0]
    two = KnownErrors(table(RUN, RUN), [0.1, 3.0], SPREADS)
    alone = KnownErrors(table(RUN), [0.1], SPREADS).expected(table(RUN))
    middle, inside = two.without(np.array([1]))  # of the run itself, as it would be without its own size
    assert (middle[0], np.sqrt(inside[0, 0])) == (pytest.approx(alone[0][0]), pytest.approx(alone[1][0]))


def test_places_are_whose_runs_on_which_platform():
    runs = published_table().head(40)
    theirs, ours = (with_places(runs.assign(**change)) for change in ({}, {"use": "yours"}))
    assert theirs["place"].tolist() == (runs["software"] + ", " + runs["platform"]).tolist()
    assert ours["place"].tolist() == ("yours, " + runs["platform"]).tolist()
    assert set(theirs["gpu"]) <= {"H100", "A100", "H200", "B200", "GB200", "H800", "V100", "GB300", "B300"}


# Spreads from runs


def simulated(known, seed=0, places=10):
    """Runs at places, and their errors."""
    rng = np.random.default_rng(seed)
    rows = [
        {"mixture": "experts" if place % 3 == 0 else "dense", "runtime": f"r{place % 4}", "gpu": f"g{place % 5}"}
        | {"precision": f"p{run % 2}", "place": f"place {place}", "model": f"m{rng.integers(3)}"}
        | {"gpus": int(2 ** rng.integers(3, 13)), "flag": "" if rng.random() < 0.7 else "batch?"}
        for place in range(places)
        for run in range(10)
    ]
    runs = table(*rows)
    return runs, rng.multivariate_normal(np.zeros(len(runs)), whole(runs, known))


def whole(runs, known):
    return np.tensordot(np.square(known), module._with_itself(runs), 1)


def test_spreads_of_simulated_runs_are_found_again():
    one = ErrorSpreads(**NONE | {"place": 0.1, "run": 0.03, "mixture": 0.04, "growth": 0.02, "flagged": 0.06})
    found = solved_spreads(*simulated(one, 1, 30))
    assert found.run == pytest.approx(0.03, rel=0.25) and found.mixture == pytest.approx(0.04, rel=0.5)
    assert found.place == pytest.approx(0.1, rel=0.5) and found.growth == pytest.approx(0.02, rel=0.5)
    assert found.flagged == pytest.approx(0.06, rel=0.3)
    assert all(spread == round(spread, 3) and 0.001 <= spread <= 1 for spread in found)


def test_no_other_spreads_are_likelier():
    runs, y = simulated(SPREADS._replace(kind=0.05), 1)
    y = np.clip(y, -LARGEST_LOG, LARGEST_LOG)

    def unlikeliness(known):
        K = whole(runs, known) + module._JITTER * np.eye(len(y))
        return np.linalg.slogdet(K)[1] + y @ np.linalg.solve(K, y)

    found = solved_spreads(runs, y)
    least = unlikeliness(found)
    for name, spread in found._asdict().items():
        for factor in (0.7, 1.4) if spread > 0.001 else (10,):
            assert unlikeliness(found._replace(**{name: spread * factor})) > least, name


def test_a_run_far_off_counts_as_one_and_a_half_times():
    runs, y = simulated(SPREADS._replace(kind=0.05), 2, 4)
    far, farther = (np.append(y[1:], error) for error in (0.4, 9.0))
    assert solved_spreads(runs, far) == solved_spreads(runs, -farther)  # the parts have no sign
    assert solved_spreads(runs, far) != solved_spreads(runs, np.append(y[1:], 0.2))


# Votes of places


def test_simple_votes():
    """Of three places a quarter of the votes is each one's, and the last that of a place not seen."""
    values, places = [3.0, 1.0, 2.0], ["c", "a", "b"]
    found = vote_quantiles(values, places, [0.0, 0.25, 0.26, 0.5, 0.51, 0.75, 0.76, 1.0])
    assert found.tolist() == [1, 1, 2, 2, 3, 3, 3, 3]
    assert vote_quantiles([5.0], ["a"], [0.1, 0.5, 0.9]).tolist() == [5, 5, 5]
    halves = vote_quantiles([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"], [1 / 6, 0.17, 1 / 3, 0.5, 2 / 3, 0.9])
    assert halves.tolist() == [1, 2, 2, 3, 4, 4]
    tenths = vote_quantiles(np.arange(12.0), ["a"] * 10 + ["b", "c"], [0.25])  # which add up to a little less than 1
    assert tenths.tolist() == [9]


def test_intervals_leave_out_as_much_below_as_above():
    """The upper end is the votes' quantile, and the lower one that of the values with the sign turned."""
    values, places = [-3.0, 1.0, 5.0, 2.0], ["a", "a", "b", "c"]
    ends = vote_interval(values, places, [0.2, 0.5, 0.9])
    turned = vote_interval([-value for value in values], places, [0.2, 0.5, 0.9])
    assert ends.shape == (2, 3) and (ends == -turned[::-1]).all()
    assert ends[1].tolist() == vote_quantiles(values, places, [0.6, 0.75, 0.95]).tolist()
    assert (ends[0] <= ends[1]).all() and (np.diff(ends[0]) <= 0).all() and (np.diff(ends[1]) >= 0).all()
    assert ends[:, -1].tolist() == [-3, 5]
    many = np.append(np.zeros(38), [-1.0, 9.0])
    assert vote_interval(many, np.arange(40), [0.9, 0.99]).T.tolist() == [[0, 0], [-1, 9]]


groups = st.lists(st.lists(st.floats(0, 9), min_size=1, max_size=5), min_size=1, max_size=6)


def spread_out(places, copies=1):
    names = [name for name, runs in enumerate(places) for _ in range(copies * len(runs))]
    return np.concatenate([np.tile(runs, copies) for runs in places]), names


@settings(max_examples=40, deadline=None)
@given(groups, st.integers(2, 4), st.randoms())
def test_each_place_has_one_vote(places, copies, random):
    shares = np.linspace(0.013, 0.993, 40)
    once = vote_quantiles(*spread_out(places), shares)
    assert once.tolist() == vote_quantiles(*spread_out(places, copies), shares).tolist()
    assert (np.diff(once) >= 0).all() and set(once) <= {value for runs in places for value in runs}
    mixed = random.sample(range(len(places)), len(places))
    assert once.tolist() == vote_quantiles(*spread_out([places[k] for k in mixed]), shares).tolist()
    values, names = spread_out(places)
    for share, bound in zip(shares, once, strict=True):
        votes = [np.mean(np.asarray(runs) <= bound) for runs in places]
        enough = sum(votes) >= share * (len(places) + 1) * (1 - 1e-9)
        assert enough or bound == max(values), (share, names)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
def test_a_new_place_is_held_at_least_as_often_as_said(share):
    """Places are alike, runs of one place too: what 12 of them tell holds in so many of the runs of a 13th."""
    rng, held, tries = np.random.default_rng(3), [], 600
    for _ in range(tries):
        sizes = rng.integers(1, 9, 13)
        own = rng.normal(0, 1, 13)
        runs = [np.abs(level + rng.normal(0, 0.5, size)) for level, size in zip(own, sizes, strict=True)]
        bound = vote_quantiles(*spread_out(runs[:12]), [share])[0]
        held.append(np.mean(runs[12] <= bound))
    error = 2 * np.std(held) / np.sqrt(tries)
    assert share - error <= np.mean(held) <= share + 1 / 13 + error
