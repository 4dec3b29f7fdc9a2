"""How sure a plan is: draws around its own numbers, what flips its answer, and the rows behind each number."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_plan import spec

from railcore import catalog
from railcore.catalog.distributions import draws, quantile
from railcore.catalog.tables import csv_text
from railcore.catalog.units import convert
from railcore.datacenter.ownership import ADDED, term_keys
from railcore.planner.evidence import GRADES, grade_of, rows_behind, source_text, support
from railcore.planner.planning import plan
from railcore.planner.report import verdicts
from railcore.planner.shown_numbers import NUMBERS
from railcore.planner.uncertainty import DRAWN, NO_DIFFERENCE, TIE, key_of
from railcore.training.prediction_error import expected_error

QUICK = {"micro_batch": 1, "context": 1, "pipeline": 1, "placement": "tensor first"}
TWO, NEAR = ["rail-optimized", "rail-only"], ["rail-only", "rail-only, 2 planes", "photonic rails"]
FEW = {"draws": 200}
STREET = {"prices": "street2025"}
PLAIN = {"leave_out": ADDED}
LLAMA = "Llama-3 8B", "DGX H100", 8  # as many GPUs as an HB domain has
SIZES = {"DGX H100": 512, "GB200 NVL72": 576}
PRICES = {"port": "600 USD", "transceiver": "400 USD", "dac": "90 USD", "circuit_port": "300 USD", "rate": "400 Gbps"}
POWERS = {"port": "30 W", "transceiver": "9 W", "dac": "1 W", "circuit_port": "1 W", "rate": "400 Gbps"}


def asked(platform, candidates=TWO, **sections):
    job = {"batch": SIZES[platform], "search": QUICK}
    return spec(platform, SIZES[platform], candidates=candidates, job=job, **{"uncertainty": FEW, **sections})


@cache
def usual(platform):
    return plan(asked(platform))


@cache
def point(platform):
    """The situation of a plan and its own times."""
    found = usual(platform)
    return found.situation, {answer.name: answer.numbers["iteration_s"] for answer in found.possible}


BOTH = pytest.mark.parametrize("platform", SIZES)


# Draws


@BOTH
def test_without_draws_all_numbers_are_the_plans_own(platform):
    situation, times = point(platform)
    found = situation.numbers({}, times)
    for answer in usual(platform).possible:
        for name in DRAWN:
            if name in answer.numbers:
                assert found[answer.name][name] == pytest.approx(answer.numbers[name]), name
    own = situation.modelled_times([{}, {key_of(row): row.value for row in situation.machine_rows()}])
    for name, seconds in own.items():
        assert seconds == pytest.approx([times[name]] * 2)


def test_what_circuits_add_is_in_every_draw():
    job = {"batch": 512, "search": {"tensor": 8, "context": 1, "micro_batch": 1, "pipeline": 4, "data": 16}}
    found = plan(spec("DGX H100", 512, candidates=NEAR, job=job, network={"reconfiguration": "1 s"}))
    own = found.situation.modelled_times([{}])
    (photonic,) = (answer for answer in found.possible if answer.name == "photonic rails")
    assert photonic.design.added_s > 0
    for answer in found.possible:
        assert own[answer.name] == pytest.approx([answer.numbers["iteration_s"]])


def with_row(item, value, asked, monkeypatch, folder):
    """A plan with another value of a row of the catalog, laid over ours."""
    texts = ("name", "parameter", "unit", "kind", "source", "as_of", "note", "shape")
    line = {name: getattr(item, name) for name in texts}
    numbers = {"value": value, "low": min(value, item.low), "high": max(value, item.high)}
    line |= {name: repr(float(convert(number, item.unit))) for name, number in numbers.items()}
    folder.mkdir()
    (folder / f"{item.family}.csv").write_text(csv_text(catalog.COLUMNS, [line]))
    with monkeypatch.context() as patch:
        patch.setenv("RAILCORE_CATALOG", str(folder))
        return plan(asked)


@pytest.mark.parametrize(
    ("key", "moved"),
    [
        ("prices/ethernet2026/port_price", "network_usd"),
        ("powers/ethernet2026/transceiver_power", "power_w"),
        ("platforms/GB200 NVL72/price", "purchase_usd"),
        ("platforms/GB200 NVL72/power", "power_w"),
        ("prices/energy/pue", "energy_J"),
        ("operation/machine/useful_life", "cost_usd"),
        ("ownership/building/price", "cost_usd"),
        ("ownership/building/useful_life", "cost_usd"),
        ("ownership/capital/interest_rate", "gpu_hour_usd"),
        ("ownership/staff/cost", "cost_usd"),
        ("ownership/maintenance/rate", "cost_usd"),
        ("ownership/spares/share", "cost_usd"),
        ("ownership/cluster/busy_share", "cost_usd"),
        ("failure_rates/HB switch/failure_rate", "goodput"),
        ("failure_rates/transceiver/failure_rate", "days"),
        ("failure_rates/job/checkpoint_time", "goodput"),
        ("failure_rates/job/restart_time", "token_usd"),
    ],
)
def test_a_drawn_row_moves_numbers_as_a_plan_with_that_row_has_them(key, moved, monkeypatch, tmp_path):
    situation, times = point("GB200 NVL72")
    row = next(row for row in situation.cost_rows() if "/".join(key_of(row)) == key)
    value = row.low + 0.7 * (row.high - row.low)
    others = {key_of(each): np.full(2, each.value) for each in situation.cost_rows()}
    drawn = situation.numbers(others | {key_of(row): np.full(2, value)}, times)
    given = with_row(row, value, asked("GB200 NVL72"), monkeypatch, tmp_path / "mine")
    for name in TWO:
        own, base = given.answer(name).numbers, usual("GB200 NVL72").answer(name).numbers
        found = {number: np.broadcast_to(values, 2)[1] for number, values in drawn[name].items()}
        assert found == pytest.approx({number: own[number] for number in found}, rel=1e-9)
        assert abs(own[moved] / base[moved] - 1) > 1e-6


@BOTH
def test_draws_of_one_row_have_the_plans_own_number_as_their_median(platform):
    situation, times = point(platform)
    rows, n, moved = situation.cost_rows(), 41, 0
    assert len(rows) > 10
    others = {key_of(row): np.full(n, row.value) for row in rows}
    for row in rows:
        found = situation.numbers(others | draws([row], n), times)
        for answer in usual(platform).possible:
            for name, values in found[answer.name].items():
                own, drawn = answer.numbers[name], np.broadcast_to(values, n)
                near = 1e-9 * own
                assert np.mean(drawn <= own + near) >= 0.5 - 1 / n, (row.parameter, name)
                assert np.mean(drawn >= own - near) >= 0.5 - 1 / n, (row.parameter, name)
                moved += np.ptp(drawn) > near
    assert moved > 50


@BOTH
def test_the_plans_own_number_is_in_the_middle_half_of_its_draws(platform):
    table = usual(platform).uncertainty.table
    assert len(table) == 2 * (len(DRAWN) - 1)  # no carbon
    inner = table[table["number"].isin(["purchase_usd", "power_w"])]
    assert len(inner) == 4 and inner["below"].between(0.25, 0.75).all(), inner
    middle = usual(platform).expected_error.middle  # of an iteration's time, by which days and cost are drawn
    for row in table[table["number"].isin(["days", "cost_usd"])].itertuples():
        own = usual(platform).answer(row.candidate).numbers[row.number]
        assert row.median == pytest.approx(own * middle, rel=0.05 if row.number == "days" else 0.15)
    for row in table.itertuples():
        own = usual(platform).answer(row.candidate).numbers[row.number]
        drawn = usual(platform).uncertainty.samples[row.candidate][row.number]
        assert row.low < row.median < row.high and row.low <= own <= row.high
        assert [row.low, row.high] == pytest.approx(np.quantile(drawn, [0.05, 0.95]), rel=0.02)
        assert row.below == pytest.approx(np.mean(drawn < own), abs=0.01) and row.lost == 0


@BOTH
def test_all_candidates_see_the_same_draws(platform):
    """Rail-only is rail-optimized without some of its parts: it costs less in every draw."""
    found = usual(platform).uncertainty
    for name in ("network_usd", "purchase_usd", "power_w", "cost_usd"):
        more, less = (found.samples[candidate][name] for candidate in TWO)
        assert (less < more).all(), name
    assert found.better("rail-optimized", "cost_usd") == 0 == found.better("rail-only", "cost_usd")
    network, whole = (found.samples["rail-only"][name] for name in ("network_usd", "purchase_usd"))
    other = found.samples["rail-optimized"]["purchase_usd"] - found.samples["rail-optimized"]["network_usd"]
    assert whole - network == pytest.approx(other)  # servers of the same price
    assert np.unique(found.samples["rail-only"]["days"]).size > 100


def test_draws_and_seed_are_those_of_the_spec():
    found = usual("DGX H100").uncertainty
    same, other = (
        plan(asked("DGX H100", uncertainty={"draws": 200, "seed": seed})).uncertainty.samples for seed in (1, 2)
    )
    for name in ("cost_usd", "days", "network_usd"):
        one = found.samples["rail-only"][name]
        assert one.shape == (200,) and one.tolist() == same["rail-only"][name].tolist()
        assert one.tolist() != other["rail-only"][name].tolist()
    few = plan(asked("DGX H100", uncertainty={"draws": 25})).uncertainty.samples
    assert few["rail-only"]["cost_usd"].shape == (25,)


def test_a_stored_table_stands_for_new_draws():
    found = usual("DGX H100").with_draws(usual("DGX H100").uncertainty.table)
    assert found.uncertainty.samples == {} and found.ties == usual("DGX H100").ties
    assert found.document()["candidates"] == usual("DGX H100").document()["candidates"]


@pytest.mark.parametrize(
    ("section", "key", "value", "parameter"),
    [
        ("books", "server", "300 kUSD", ("platforms", "DGX H100", "price")),
        ("books", "server", "300 kUSD", ("price_bases", "reseller", "volume_share")),
        ("books", "basis", "reseller", ("price_bases", "reseller", "volume_share")),
        ("operation", "leave_out", "interest", ("ownership", "capital", "interest_rate")),
        ("operation", "spares", 8, ("ownership", "spares", "share")),
        ("operation", "pue", 1.2, ("prices", "energy", "pue")),
        ("operation", "years", 5, ("operation", "machine", "useful_life")),
        ("operation", "checkpoint", "5 s", ("failure_rates", "job", "checkpoint_time")),
        ("operation", "failures", "low", ("failure_rates", "switch", "failure_rate")),
        ("books", "prices", PRICES, ("prices", "ethernet2026", "port_price")),
        ("books", "powers", POWERS, ("powers", "ethernet2026", "transceiver_power")),
    ],
)
def test_what_the_spec_gives_is_not_drawn_and_has_no_source(section, key, value, parameter):
    default = usual("DGX H100")
    numbers = [name for name in default.best.numbers if parameter in map(key_of, behind(default, name))]
    assert parameter in map(key_of, default.situation.cost_rows()) and numbers
    given = plan(asked("DGX H100", ["rail-only"], **{section: {key: value}}))
    assert parameter not in map(key_of, given.situation.cost_rows())
    if value != "low":
        assert not [name for name in numbers if parameter in map(key_of, behind(given, name))]


def test_draws_span_the_conversion_of_a_platforms_price_and_every_cost():
    """Prices of a reseller are converted by a row with a range; a price in volume is not."""
    keys = {platform: set(map(key_of, usual(platform).situation.cost_rows())) for platform in SIZES}
    assert all(set(term_keys().values()) <= each for each in keys.values())
    basis = ("price_bases", "reseller", "volume_share")
    assert basis in keys["DGX H100"] and basis not in keys["GB200 NVL72"]
    row, (situation, times) = catalog.item(*basis[:2]).row(basis[2]), point("DGX H100")
    drawn = situation.numbers({basis: np.array([row.low, row.value, row.high])}, times)["rail-only"]
    servers = drawn["purchase_usd"] - drawn["network_usd"]
    assert servers == pytest.approx(64 * 3e5 * np.array([row.low, row.value, row.high]))


def test_a_kept_strategy_that_fits_in_no_draw_is_told():
    situation = usual("DGX H100").situation
    row = next(row for row in situation.machine_rows() if row.parameter == "fragmentation_memory")
    times = situation.modelled_times([{key_of(row): 1e12}])
    assert all(np.isinf(each).all() for each in times.values())
    found = situation.numbers({}, times)["rail-only"]
    assert np.isinf(found["days"]).all() and np.isinf(found["cost_usd"]).all() and np.isfinite(found["power_w"])


# What flips the answer


@cache
def close():
    """A plan whose best network, by wear and electricity alone, is nearly another one."""
    return plan(asked("GB200 NVL72", NEAR, operation=PLAIN, books=STREET))


def test_a_flip_makes_the_other_network_the_best_and_a_step_before_does_not(monkeypatch, tmp_path):
    table, best = close().flips, close().best.name
    assert len(table) >= 2 and (table["best"] != best).all()
    for place, row in enumerate(table.head(3).itertuples()):
        item = catalog.item(row.family, row.name).row(row.parameter)
        steps = quantile(item, 0.5 + np.sign(row.at - item.value) * np.arange(9) / 16)
        step = int(np.argmin(np.abs(steps - row.at)))
        assert steps[step] == pytest.approx(row.at) and row.value == item.value and step > 0
        for name, value, first in (("at", row.at, row.best), ("before", steps[step - 1], best)):
            again = asked("GB200 NVL72", NEAR, operation=PLAIN, books=STREET)
            found = with_row(item, float(value), again, monkeypatch, tmp_path / f"{name}{place}")
            by = found.answer(best).numbers["cost_usd"] / found.best.numbers["cost_usd"] - 1
            assert found.best.name == first or (name == "before" and by < NO_DIFFERENCE), (item.parameter, name)
            assert name == "before" or by >= NO_DIFFERENCE * 0.999


def test_flips_are_in_order_and_only_of_those_that_may_win():
    table = close().flips
    ways = []
    for row in table.itertuples():
        item = catalog.item(row.family, row.name).row(row.parameter)
        end, scale = item.high if row.at > row.value else item.low, np.log if item.shape == "log" else float
        ways.append((scale(row.at) - scale(row.value)) / (scale(end) - scale(row.value)))
    assert ways == pytest.approx(sorted(ways), abs=1e-9) and ways[0] > 0 and ways[-1] <= 1 + 1e-9
    assert not usual("DGX H100").flips["best"].isin(["rail-only"]).any()
    alone = plan(asked("DGX H100", ["rail-only"]))
    assert alone.flips.empty and "No single price" in str(alone)


def test_within_limits_a_flip_is_what_makes_the_best_one_miss_them():
    watts = close().best.numbers["power_w"]
    limits = {"power": f"{watts * 0.99} W"}
    limited = plan(asked("GB200 NVL72", ["rail-only", "photonic rails"], operation=PLAIN, books=STREET, limits=limits))
    assert limited.best.name == "photonic rails" and limited.met
    flips = {(row.name, row.parameter): row.best for row in limited.flips.itertuples(index=False) if row.at > row.value}
    assert flips["energy", "pue"] == flips["GB200 NVL72", "power"] == "none"  # both draw too much then
    assert ("machine", "useful_life") not in flips
    met = limited.uncertainty.met("photonic rails")
    draws = limited.uncertainty.samples["photonic rails"]["power_w"] <= watts * 0.99
    assert met == pytest.approx(np.mean(draws)) and 0.2 < met < 0.9
    assert "meets the limits in" in limited._writers.terminal(limited, True)
    missed = plan(asked("GB200 NVL72", ["rail-only"], limits={"power": "1 W"}))
    assert missed.flips.empty and missed.uncertainty.met("rail-only") == 0


def test_ties_are_those_that_draws_cannot_tell_from_the_best():
    found = close()
    share = {answer.name: found.uncertainty.better(answer.name, "cost_usd") for answer in found.possible}
    assert share[found.best.name] == 0 and found.ties
    assert found.ties == [answer.name for answer in found.possible if share[answer.name] >= TIE]
    assert usual("DGX H100").ties == []
    states = {each["name"]: each["state"] for each in found.document()["candidates"]}
    assert states[found.best.name] == "best" and all(states[name] == "tie" for name in found.ties)
    told = [[each["text"] for each in verdicts(found, draws) if "a tie" in each["text"]] for draws in (True, False)]
    assert told[1] == [] and all(name in told[0][0].lower() for name in map(str.lower, found.ties))
    assert not [each for each in verdicts(usual("DGX H100"), True) if "a tie" in each["text"]]


# Where numbers come from


def behind(found, number):
    return rows_behind(found.case, found.best, number)


@BOTH
def test_a_row_that_moves_a_number_is_behind_it(platform):
    situation, times = point(platform)
    found, base = usual(platform), situation.numbers({}, times)
    for row in situation.cost_rows():
        end = row.high if row.high != row.value else row.low
        moved = situation.numbers({key_of(row): end}, times)[found.best.name]
        for name, value in moved.items():
            if not np.allclose(value, base[found.best.name][name], rtol=1e-9, atol=0):
                assert key_of(row) in map(key_of, behind(found, name)), (name, key_of(row))


def test_every_number_has_a_grade_that_is_the_weakest_kind_behind_it():
    found = usual("DGX H100")
    for name in found.best.numbers:
        rows = behind(found, name)
        kinds = {row.kind for row in rows}
        assert kinds <= set(GRADES) and found.grades[name] in {*kinds, "derived", "given"}
        assert all(GRADES.index(kind) <= GRADES.index(found.grades[name]) for kind in kinds)
        assert name in NUMBERS
    assert found.grades["switches"] == "derived" and found.grades["cost_usd"] == "assumed"
    given = {"server": "300 kUSD", "prices": PRICES}
    whole = plan(asked("DGX H100", ["rail-only"], books=given))
    assert whole.grades["purchase_usd"] == whole.grades["network_usd"] == "given"
    assert whole.grades["power_w"] == "assumed"


def test_grades_and_sources_of_rows():
    row = catalog.item("platforms", "DGX H100").row("price")
    sheet = replace(row, kind="datasheet", source="a datasheet", parameter="power")
    assert grade_of("power_w", [sheet]) == "datasheet" and grade_of("power_w", [sheet, row]) == "assumed"
    assert grade_of("switches", []) == "derived" and grade_of("purchase_usd", []) == "given"
    text = source_text([sheet, row])
    assert text.startswith("DGX H100 price: assumed, ") and text.endswith("DGX H100 power: datasheet, a datasheet")
    assert source_text([sheet] * 7).endswith("; and 3 more rows")


def test_the_price_of_a_site_is_no_row_of_the_catalog():
    found = plan(asked("DGX H100", ["rail-only"], site={"near": "Houston"}))
    assert "electricity_price" not in set(found.sources["parameter"])
    assert "electricity_price" in set(usual("DGX H100").sources["parameter"])


def test_support_of_a_platform_and_a_model():
    table = support("DGX H100", "Llama-3 8B").set_index("what")
    assert support("dgx-h100", "llama 3 8b").set_index("what").equals(table)
    for words, answer in (("the best strategy", "best"), ("a given strategy", "strategy")):
        row, error = (
            table.loc[f"measured over modelled time of {words} on 8 GPUs"],
            expected_error(*LLAMA, answer=answer),
        )
        assert row["evidence"] == str(error) and row["grade"] == "measured" and error.runs > 50
    assert table.loc["published runs of dense models on DGX H100", "grade"] == "measured"
    assert table.loc["price of DGX H100", "grade"] == "assumed"
    assert table.loc["tokens of Llama-3 8B", "evidence"] == "none: give job.tokens"
    rows = catalog.item("platforms", "DGX H100").rows
    sheets = sum(row.kind == "datasheet" for row in rows)
    assert table.loc["platform DGX H100", "evidence"].startswith(f"{sheets} datasheet, ")
    mixture = support("GB200 NVL72", "DeepSeek-V3", "fp8").set_index("what")
    assert "mixtures" in mixture.loc["measured over modelled time of the best strategy on 72 GPUs", "evidence"]
    unseen = support("HGX H20", "Llama-3 8B").set_index("what")
    assert unseen.loc["measured over modelled time of the best strategy on 8 GPUs", "grade"] == "none"
    assert "no published run" in unseen.loc["measured over modelled time of a given strategy on 8 GPUs", "evidence"]
    assert mixture.loc["tokens of DeepSeek-V3", "evidence"] == "1.48e+13"
    assert set(mixture["grade"]) <= {*GRADES, "none"}
