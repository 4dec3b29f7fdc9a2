"""The inverse of a plan: the racks that meet limits with the least GPUs, cost or days, held to all numbers of racks."""

from functools import cache

import pytest
from test_plan import spec

from railcore.planner.planning import plan
from railcore.strategies.gpu_counts import Batches
from railcore.strategies.parts import search

QUICK = {"micro_batch": 1, "context": 1, "pipeline": 1, "placement": "tensor first"}
MOST = 16  # racks that are gone through one by one
BATCH = 360  # which has many divisors, so that cost over racks has teeth
NUMBERS = {"days": "days", "cost": "cost_usd", "power": "power_w", "purchase": "purchase_usd", "gpus": "gpus"}
NUMBERS["goodput"] = "goodput"
SENSE = {"goodput": -1}  # of a limit that is a least
UNITS = {"cost": "USD", "purchase": "USD", "power": "W"}


def asked(limits=None, find=None, **sections):
    job = {"batch": BATCH, "search": QUICK}
    sections |= {"limits": limits} if limits else {}
    sections |= {"find": find} if find else {}
    return spec(gpus=None, candidates=["rail-only"], job=job, **sections)


@cache
def on(racks):
    """Numbers with so many racks."""
    return plan(asked(cluster={"racks": racks})).best.numbers


def meets(numbers, limits):
    return all(SENSE.get(key, 1) * (numbers[NUMBERS[key]] - limit) <= 0 for key, limit in limits.items())


def met_by(limits, most=MOST):
    """Numbers of racks that meet limits, one by one."""
    return {racks: on(racks) for racks in range(1, most + 1) if meets(on(racks), limits)}


def just(racks, *keys):
    """Limits that so many racks just meet."""
    loose = {key: 1e-4 * SENSE.get(key, 1) * (key != "gpus") for key in keys}
    return {key: on(racks)[NUMBERS[key]] * (1 + loose[key]) for key in keys}


def found_by(limits, find):
    told = {key: f"{limit!r} {UNITS[key]}" if key in UNITS else limit for key, limit in limits.items()}
    return plan(asked(told, find))


LIMITS = [(8, ("days",)), (9, ("days", "cost")), (15, ("days", "power")), (11, ("cost", "purchase"))]


@pytest.mark.parametrize(("racks", "keys"), LIMITS)
def test_the_fewest_gpus_meet_the_limits_and_no_fewer_do(racks, keys):
    limits = just(racks, *keys)
    found = found_by(limits, {"gpus": "fewest"})
    assert found.met and found.best.racks == min(met_by(limits))
    assert found.best.numbers == pytest.approx(on(found.best.racks))


@pytest.mark.parametrize(("racks", "keys"), [*LIMITS, (6, ("days",)), (3, ("days",))])
def test_the_least_cost_is_that_of_all_racks(racks, keys):
    limits = just(racks, *keys)
    found = found_by(limits, {"cost": "least"})
    costs = {each: n["cost_usd"] for each, n in met_by(limits).items()}
    assert found.met and found.best.numbers["cost_usd"] <= 1.001 * min(costs.values())


DAYS = [
    (14, ("power",), 14, ()),
    (14, ("gpus", "cost"), 14, ()),
    (15, ("cost",), 28, ("purchase",)),
    (9, ("goodput",), 16, ("power",)),
    (21, ("goodput",), 28, ("power",)),
]


@pytest.mark.parametrize(("racks", "keys", "most", "looser"), DAYS)
def test_the_fewest_days_are_those_of_all_racks_on_no_more_than_it_takes(racks, keys, most, looser):
    limits = just(racks, *keys) | just(most, *looser)
    found = found_by(limits, {"days": "fewest"})
    allowed = met_by(limits, most)
    fewest = min(n["days"] for n in allowed.values())
    assert found.met and found.best.numbers["days"] <= 1.001 * fewest
    assert found.best.racks == min(racks for racks, n in allowed.items() if n["days"] <= 1.001 * fewest)


def test_a_looser_limit_never_takes_more_gpus():
    days = [on(racks)["days"] * 1.0001 for racks in (20, 9, 2)]
    gpus = [found_by({"days": limit}, {"gpus": "fewest"}).best.numbers["gpus"] for limit in days]
    assert 128 < gpus[0] <= 240 and gpus[0] > gpus[1] > gpus[2]


@pytest.mark.parametrize(
    ("limits", "find", "told"),
    [
        ({"days": 3.0, "power": 2e5}, {"gpus": "fewest"}, "days, asked at most 3 days"),
        ({"days": 3.0, "purchase": 2e6}, {"cost": "least"}, "days, asked at most 3 days"),
        ({"power": 1e3}, {"days": "fewest"}, "kW, asked at most 1 kW"),
        ({"power": 2e5, "cost": 10.0}, {"days": "fewest"}, "USD, asked at most 10 USD"),
    ],
)
def test_limits_that_nothing_meets_are_a_note_that_says_the_nearest(limits, find, told):
    found = found_by(limits, find)
    (answer,) = found.answers
    assert not found.met and found.best is None and not answer.numbers
    assert [*found.bill] == [*found.failures] == ["candidate"] and found.bill.empty
    assert answer.note.startswith("no number of GPUs meets the limits: the nearest, ") and told in answer.note
    assert answer.note in str(found)


def test_a_job_that_needs_many_racks():
    large = {"model": "Llama-3 70B", "batch": 512, "search": {"tensor": 8, "context": 1, "micro_batch": 1}}
    given = spec(gpus=None, candidates=["rail-only"], job=large, limits={"days": 1e4}, find={"gpus": "fewest"})
    found = plan(given).best
    fewer = spec(gpus=None, candidates=["rail-only"], job=large, cluster={"racks": found.racks - 1})
    assert found.racks > 1 and plan(fewer).best is None


def test_each_network_has_its_own_number_of_racks():
    given = asked({"power": f"{on(5)['power_w']} W"}, {"days": "fewest"})
    given["network"]["candidates"] = ["Clos", "photonic rails"]
    found = plan(given)
    for answer in found.possible:
        alone = plan({**given, "network": {"candidates": [answer.name]}}).best
        assert alone.numbers == pytest.approx(answer.numbers)
    assert f"on {found.best.numbers['gpus']:.0f} GPUs" in str(found) and found.gpus_that_would_do == ""
    assert found.rank == "days" and found.best.numbers["days"] == min(a.numbers["days"] for a in found.possible)


@pytest.mark.parametrize("cluster", [{"platform": "GB200 NVL72"}, {"platform": "DGX H100", "hb_domain_size": 64}])
def test_racks_of_72_and_domains_of_several_servers(cluster):
    given = spec(gpus=None, candidates=["rail-only"], job={"batch": 96, "search": QUICK}, cluster=cluster)
    sized = [plan({**given, "cluster": {**given["cluster"], "racks": racks}}).best.numbers for racks in range(1, 6)]
    gpus = int(sized[-1]["gpus"])
    for number, find in (("days", {"days": "fewest"}), ("cost_usd", {"cost": "least"})):
        found = plan({**given, "limits": {"gpus": gpus, "days": 1e3}, "find": find}).best.numbers
        assert found[number] <= 1.001 * min(n[number] for n in sized)
    days = sized[3]["days"] * 1.0001
    fewest = plan({**given, "limits": {"days": days}, "find": {"gpus": "fewest"}}).best.numbers
    assert fewest["gpus"] == min(n["gpus"] for n in sized if n["days"] <= days)


def test_a_price_that_falls_where_the_vendor_builds_otherwise_hides_no_racks():
    job = {"batch": 2340, "search": {"tensor": 8, "pipeline": 1, "context": 1, "micro_batch": 1}}
    given = spec(gpus=None, candidates=["rail-optimized"], job=job, network={"switch": "QM9700"})
    gb200 = {"platform": "GB200 NVL72"}
    of_racks = {n: plan({**given, "cluster": {**gb200, "racks": n}}).best.numbers["purchase_usd"] for n in (128, 130)}
    assert of_racks[130] < of_racks[128]
    limits = {"purchase": f"{of_racks[130] * 1.0001} USD"}
    found = plan({**given, "cluster": gb200, "limits": limits, "find": {"days": "fewest"}})
    assert found.met and 128 < found.best.racks <= 130


# Racks, GPUs in use and batch as one, held to a whole search of every number of racks with every batch that is allowed.

TOKENS = "2.95M tokens"  # 360 sequences


@cache
def least_s(racks):
    """Least time of a sequence on so many racks, of all numbers of GPUs in use and all batches within a tenth [s]."""
    batches = Batches.near(2.95e6 / 8192)
    every = list(range(batches.low, batches.high + 1))
    options = {"top": 1, "only_best": True, "at_most": True, **QUICK}
    return search("Llama-3 8B", "DGX H100", 8 * racks, every, **options).best["sequence_s"].min()


def with_batch_in_tokens(limits, find):
    given = asked(limits, find)
    return plan(given | {"job": given["job"] | {"batch": TOKENS}})


def test_sizes_that_suit_circuits_badly_hide_no_fewer_gpus():
    job, h100 = {"batch": TOKENS, "search": QUICK}, {"platform": "DGX H100"}
    given = spec(gpus=None, candidates=["photonic rails"], job=job)
    days = {racks: plan({**given, "cluster": {**h100, "racks": racks}}).best.numbers["days"] for racks in (16, 17, 18)}
    found = plan({**given, "limits": {"days": days[18] * 1.0001}, "find": {"gpus": "fewest"}})
    assert days[18] < 0.99 * min(days[16], days[17]) and found.met and found.best.racks == 18


def sequence_s(found):
    return found.best.numbers["iteration_s"] / found.best.numbers["batch"]


@pytest.mark.parametrize("most", [7, 11, 13, MOST])
def test_the_fewest_days_are_within_a_hundredth_of_every_batch_on_every_number_of_racks(most):
    found = with_batch_in_tokens({"gpus": 8 * most}, {"days": "fewest"})
    least = min(least_s(racks) for racks in range(1, most + 1))
    assert least * (1 - 1e-9) <= sequence_s(found) <= 1.01 * least


@pytest.mark.parametrize("racks", [6, 9, 13])
def test_the_fewest_gpus_are_those_of_every_batch_on_every_number_of_racks(racks):
    found = with_batch_in_tokens({"gpus": 8 * racks}, {"days": "fewest"})
    days = found.best.numbers["days"] * 1.0001
    fewest = with_batch_in_tokens({"days": days}, {"gpus": "fewest"})
    days_of_s = found.best.numbers["days"] / sequence_s(found)
    enough = [count for count in range(1, MOST + 1) if least_s(count) * days_of_s <= days * 1.001]
    surely = [count for count in range(1, MOST + 1) if least_s(count) * days_of_s <= days / 1.015]
    assert fewest.met and min(enough) <= fewest.best.racks <= min([racks, *surely])
