"""Batch, GPUs and racks as one, on whole clusters: sizes next to a plan's, jumps of the price, jobs that do not fit."""

from functools import cache

import pytest
from test_plan import spec

from railcore.planner.planning import plan

H100, GB200 = "DGX H100", "GB200 NVL72"
TOKENS = "16M tokens"
BOOKS = {  # of these tests, so that the catalog's may move
    "server": "300000 USD",
    "server_power": "10.2 kW",
    "prices": {"port": "600 USD", "transceiver": "200 USD", "rate": "400 Gbps"},
}
RACKS = {**BOOKS, "server": "3 MUSD", "server_power": "120 kW"}


@cache
def planned(platform, networks=("rail-only",), batch=TOKENS, model="Llama-3 405B", switch=None, **cluster):
    """A plan of a large cluster."""
    books = BOOKS if platform == H100 else RACKS
    job = {"batch": batch, "tokens": 15.6e12, "search": {}}
    cluster = {"platform": platform, **cluster}
    network = {"network": {"switch": switch}} if switch else {}
    return plan(
        spec(gpus=None, model=model, candidates=list(networks), job=job, cluster=cluster, books=books, **network)
    )


def test_a_budget_is_filled_with_the_batch_that_suits_the_gpus():
    found = planned(H100, budget="700 MUSD", power="30 MW").best.numbers
    fixed = planned(H100, racks=2048).best.numbers  # 16,384 GPUs, which a power of 2 divides
    assert found["purchase_usd"] <= 700e6 and found["power_w"] <= 30e6
    assert found["gpus"] >= 17_000 and found["days"] < 0.97 * fixed["days"]


def test_the_fewest_gpus_are_found_with_the_batch_that_suits_them():
    job = {"batch": TOKENS, "tokens": 15e12, "search": {}}
    given = spec(gpus=None, model="Llama-3 405B", candidates=["rail-only"], job=job, books=RACKS, limits={"days": 60})
    found = plan({**given, "cluster": {"platform": GB200}, "find": {"gpus": "fewest"}})
    assert found.met and found.best.racks <= 90 and abs(found.best.numbers["batch"] / 1953 - 1) <= 0.1
    fewer = {**given, "cluster": {"platform": GB200, "racks": found.best.racks - 1}}
    assert not plan(fewer).met


def test_nearly_all_gpus_are_used():
    numbers = planned(H100, gpus=17_280).best.numbers
    assert numbers["gpus_used"] >= 0.99 * numbers["gpus"]


def test_a_batch_that_divides_badly_is_said_with_a_better_one():
    found = planned(H100, batch=3001, gpus=16_384)
    row = found.neighbours.set_index("what").loc["batch that divides better"]
    better = planned(H100, batch=int(row["batch"]), gpus=16_384).best.numbers
    assert abs(row["batch"] / 3001 - 1) <= 0.1 and row["days"] < 0.8 * found.best.numbers["days"]
    assert row["days"] == pytest.approx(better["days"], rel=0.01)
    assert "The batch of 3,001 sequences divides badly: with " in str(found)
    even = planned(H100, batch=2048, gpus=16_384)
    assert "divides badly" not in str(even)


@pytest.mark.parametrize(
    ("platform", "network", "racks", "job"),
    [
        (GB200, "rail-only", 114, {}),
        (GB200, "photonic rails", 16, {"batch": 512}),
        (H100, "rail-only", 81, {"model": "Llama-3 70B", "batch": "4M tokens"}),  # a step of the tables of sizes
    ],
)
def test_neighbours_are_their_own_plans(platform, network, racks, job):
    found = planned(platform, (network,), racks=racks, **job)
    table, word = found.neighbours.set_index("what"), "rack" if platform == GB200 else "server"
    assert table.loc["this plan", "days"] == found.best.numbers["days"]
    for what, count in ((f"one {word} less", racks - 1), (f"one {word} more", racks + 1)):
        alone, row = planned(platform, (network,), racks=count, **job).best.numbers, table.loc[what]
        exact = ["racks", "gpus", "gpus_used", "batch", "network_usd", "purchase_usd"]
        assert row[exact].tolist() == [count, *(alone[name] for name in exact[1:])]
        assert row["days"] == pytest.approx(alone["days"], rel=1e-9)
        assert row["cost_usd"] == pytest.approx(alone["cost_usd"], rel=0.01)


def test_whole_racks_that_need_a_third_tier_are_said():
    found = planned(GB200, ("Clos",), gpus=8192)
    prices = [planned(GB200, ("Clos",), racks=racks).best.numbers["network_usd"] for racks in (113, 114)]
    tiers = [planned(GB200, ("Clos",), racks=racks).best.fabric.tiers for racks in (113, 114)]
    assert tiers == [2, 3] and prices[1] > 1.5 * prices[0]
    jump = f"+{(prices[1] - prices[0]) / 1e6:.1f} M USD; 113 racks do not."
    assert found.cliffs[0].startswith(
        "Clos: 8,192 GPUs are 8,208 in whole racks. 114 racks (8,208 GPUs) need a third tier"
    )
    assert found.cliffs[0].endswith(jump)
    below = planned(GB200, ("Clos",), racks=113)
    assert below.cliffs[0].startswith("Clos: 114 racks (8,208 GPUs) need a third tier") and jump in below.cliffs[0]
    assert planned(GB200, ("Clos",), racks=40).cliffs == []


def test_a_tier_that_scalable_units_bring_is_not_one_that_ports_need():
    names, small = ("rail-optimized", "Clos"), {"model": "Llama-3 70B", "batch": 1024}
    found = planned(GB200, names, racks=15, switch="QM9700", **small)
    above = planned(GB200, names, racks=16, switch="QM9700", **small)
    tiers = [{answer.name: answer.fabric.tiers for answer in each.answers} for each in (found, above)]
    assert tiers == [{"rail-optimized": 2, "Clos": 2}, {"rail-optimized": 3, "Clos": 2}]
    (text,) = found.cliffs
    assert text.startswith(
        "Rail-optimized: 16 racks (1,152 GPUs) are built in the vendor's scalable units, with a third"
    )
    assert text.endswith("; 15 racks are not.")


def test_a_job_that_does_not_fit_says_so_once_with_the_fewest_gpus_that_do():
    found = planned(H100, ("rail-only", "Clos", "rail-optimized"), gpus=16)
    text = str(found)
    fewest = int(text.partition("the fewest is ")[2].split()[0])
    assert text.count("does not fit") == 1 and "not there:" not in text
    assert planned(H100, gpus=fewest).best is not None and planned(H100, gpus=fewest - 8).best is None


def test_a_job_that_is_small_for_its_gpus_says_so():
    found = planned(H100, model="Llama-3 8B", batch=1024, gpus=32_768)
    half = planned(H100, model="Llama-3 8B", batch=1024, gpus=16_384)
    assert found.best.numbers["days"] > 0.65 * half.best.numbers["days"]
    assert any("Llama-3 8B is small for 32,768 GPUs: " in text for text in found.size_texts)
    assert not any("is small for" in text for text in planned(H100, gpus=17_280).size_texts)
