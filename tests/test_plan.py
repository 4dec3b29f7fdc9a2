"""A plan's numbers are those of the models asked alone; what changes when one key changes; which candidate wins."""

import math
import random
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import day, show, year
from railcore.datacenter.operation import OperatingPrices
from railcore.datacenter.ownership import ADDED, ITEMS, cost_rates, ownership_terms
from railcore.datacenter.sizing import datacenter_size
from railcore.deploy.cluster import Cluster
from railcore.deploy.cluster_cost import cluster_network_parts
from railcore.network.bill import bill_total
from railcore.network.cost import fabric_cost, total_cost
from railcore.network.price_books import PriceBook, matching_books
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fewest_switches
from railcore.photonics.circuit_search import best_on_circuits
from railcore.planner.answer import Answer
from railcore.planner.choice import merged, missed_limits, ranked
from railcore.planner.goals import GOALS, NO_DIFFERENCE, RANKS
from railcore.planner.goodput import training_goodput
from railcore.planner.planning import plan
from railcore.planner.report import headline, summary_rows
from railcore.planner.shown_numbers import NUMBERS, shown
from railcore.planner.spec import FindSpec, GoalsSpec, Spec, WishesSpec
from railcore.strategies.parts import search
from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.software import newest_runtime
from railcore.training.transformer import as_model, model_flops_utilization
from suite.legible import answer_faults
from suite.plan_answer import bought_words

OWNED = {"ownership_usd", "cost_usd", "token_usd", "gpu_hour_usd"}
PRICED = {"purchase_usd", *OWNED}
TIMED = {"days", "energy_J", "cost_usd", "token_usd"}
JOBS = {  # of the catalog, with limits that keep a search short
    "Llama-3 8B": {"context": 1, "micro_batch": 1},
    "Llama-3 70B": {"context": 1, "micro_batch": 1, "placement": "tensor first"},
    "MoE-1.3B": {"context": 1, "tensor": 1, "micro_batch": [1, 4]},
}
NAMES = ["rail-optimized", "rail-optimized, 2 planes", "Clos", "rails + layer 2:1"]
NAMES += ["Clos, leaves 2:1", "rail-only", "rail-only, 2 planes", "Clos, 102.4T switches"]


def spec(platform="DGX H100", gpus=64, model="Llama-3 8B", candidates="all", **sections):
    """A small spec; sections are laid over it. gpus: None for another size."""
    base = {
        "cluster": {"platform": platform} | ({} if gpus is None else {"gpus": gpus}),
        "job": {"model": model, "tokens": 1e12, "batch": 512, "search": JOBS.get(str(model), {})},
        "network": {"candidates": candidates},
    }
    tables = {name: part for name, part in sections.items() if isinstance(part, dict)}
    return sections | {name: {**base.get(name, {}), **tables.get(name, {})} for name in {**base, **tables}}


@cache
def usual(platform="DGX H100", gpus=512):
    """A plan of all candidates that several tests look at."""
    return plan(spec(platform, gpus, job={"batch": max(gpus, 512)}))


def numbers(given, name=None):
    """Numbers of the best candidate of a spec, or of one by name."""
    found = plan(given)
    return dict((found.best if name is None else found.answer(name)).numbers)


def changed(one, other):
    """Names of numbers that differ."""
    assert one.keys() == other.keys()
    return {name for name in one if not math.isclose(one[name], other[name], rel_tol=1e-9)}


# Every number is what its model gives alone.


def random_spec(seed):
    """A small cluster and job, and what of it is not the catalog's."""
    rng = random.Random(seed)
    platform = ("DGX H100", "DGX H200", "GB200 NVL72")[seed % 3]
    model = list(JOBS)[seed // 3 % 3]
    gpus = rng.randint(64, 1152) if seed else 64
    names = rng.sample(NAMES, 2) + ["photonic rails"] * (seed % 2)
    own = {
        "years": rng.choice([3, 5]),
        "pue": rng.choice([1.1, 1.3]),
        "load": rng.choice([0.6, 1.0]),
        "contingency": rng.choice([0, 0.2]),
        "electricity": rng.choice(["0.05 USD/kWh", "0.1 USD/kWh"]),
        "checkpoint": rng.choice(["5 s", "60 s"]),
        "restart": rng.choice(["120 s", "600 s"]),
        "failures": rng.choice(["value", "low", "high"]),
    }
    given = {name: value for name, value in own.items() if rng.random() < 0.5}
    sections = {"operation": given, "job": {"batch": rng.choice([512, 768, "4M tokens"])}}
    if model == "Llama-3 70B" and platform != "GB200 NVL72":
        gpus = max(gpus, 256)
    if seed % 3 == 1:
        given["leave_out"] = rng.sample(ADDED, 3)
    if seed % 3 == 2:
        given["leave_out"] = ADDED
        sections["books"] = {"basis": rng.choice(["reseller", "list"])}
    if seed % 4 == 1:
        sections["cluster"] = {"include": ["frontend", "management"]}
    if seed % 4 == 2:
        gpus, sections["cluster"] = 576, {"use": "all"}
    return spec(platform, gpus, model, names, **sections)


def usual_fabric(name, gpus, platform, **links):
    """A network of packet switches as a plan builds it, by its name."""
    K, host = ((72, 4) if platform == "GB200 NVL72" else (8, 8)) if gpus >= 72 else (8, 8)
    shape = {"planes": 2 if "2 planes" in name else 1, "rails_per_switch": None, **links}
    radix = 256 if "102.4T" in name else 128
    if name.startswith("Clos"):
        ratios = (2.0,) if "2:1" in name else ()
        return fewest_switches(RailFabric(gpus, K, radix, rails=1, tier_oversubscription=ratios, **shape))
    if name.startswith("rail-only"):
        return fewest_switches(RailFabric(gpus, K, radix, **shape))
    built = [RailFabric(gpus, K, radix, 1.0, rails=host, one_pod=one_pod, **shape) for one_pod in (True, False)]
    full = min(map(fewest_switches, built), key=lambda fabric: int(fabric.parts.switches))
    layered = RailFabric(gpus, K, radix, 2.0, rails=host, **shape)
    if name.startswith("rail-optimized"):
        return full
    return layered if layered.is_oversubscribed else RailFabric(gpus, K, radix, 2.0, host, fan_in=full.fan_in, **shape)


def of_large_switch(books):
    """Books whose ports are as dear, and draw as much, as those of 102.4T beside 51.2T, on which it is modelled."""
    large, plans = (catalog.item("switches", name) for name in ("102.4T", "51.2T"))
    ratios = [large[n] / plans[n] * plans["capacity"] / large["capacity"] for n in ("price", "power")]
    return [book.times({"port": ratio}) for book, ratio in zip(books, ratios, strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_every_number_is_what_its_model_gives_alone(seed):
    given = random_spec(seed)
    found = plan(given)
    assert found.possible
    own, job = given["operation"], given["job"]
    platform, model = given["cluster"]["platform"], as_model(job["model"])
    box, rack = catalog_machine(platform), catalog.item("platforms", platform)
    runtime, books = newest_runtime(box), matching_books("ethernet2026", rate_Bps=box.nic_Bps)
    for answer in found.possible:
        n, fabric = answer.numbers, answer.fabric
        assert all(math.isfinite(value) for value in n.values()) and n.keys() <= NUMBERS.keys()
        racks = math.ceil(given["cluster"]["gpus"] / rack["gpus"])
        assert answer.racks == racks and n["gpus"] == fabric.gpus == racks * rack["gpus"]
        # parts
        links = {"nic_Bps": box.nic_Bps, "hb_Bps": box.hb_Bps, "hb_switches": int(rack["hb_switches"])}
        if isinstance(fabric, PhotonicRails):
            ports = int(catalog.item("circuit_switches", "Piezo (Polatis)")["ports"])
            sizes = (fabric.gpus, box.hb_domain_size, ports, 2)
            assert fabric == PhotonicRails(*sizes, planes=2, rails_per_switch=None, **links)
        else:
            assert fabric == usual_fabric(answer.name, fabric.gpus, platform, **links)
        of_switch = of_large_switch(books) if "102.4T" in answer.name else books
        alone = fabric_cost(fabric, *of_switch)
        if fabric.nic_ports == 1:
            assert alone["cost_usd"] == pytest.approx(bill_total(fabric.parts.bill(), of_switch[0]))
        for kind in given["cluster"].get("include", ()):
            host = int(rack.get("host_gpus", rack["gpus"]))
            side = cluster_network_parts(
                Cluster(fabric.gpus // host, host),
                *matching_books("ethernet2026"),
                books={"management": matching_books("management2025")},
            ).query(f"network == {kind!r}")
            alone = {name: alone[name] + side[name].sum() for name in alone}
        assert [n["network_usd"], n["network_w"]] == pytest.approx([alone["cost_usd"], alone["power_w"]])
        assert n["switches"] == fabric.parts.switches
        # purchase and power
        sized = datacenter_size(platform=platform, racks=racks)
        basis = given.get("books", {}).get("basis", "volume")
        # 0.7 of a price of a reseller or a list is the price in volume, which GB200 NVL72 has
        racks_usd = float(sized.racks_usd) * (platform == "GB200 NVL72" or 0.7) / (basis == "volume" or 0.7)
        assert n["purchase_usd"] == pytest.approx(racks_usd + alone["cost_usd"])
        pue = own.get("pue", catalog.item("prices", "energy")["pue"])
        assert n["power_w"] == pytest.approx((float(sized.racks_w) + alone["power_w"]) * pue)
        # strategy and time
        strategy, batch, used = answer.design.strategy, int(n["batch"]), answer.design.machine.hb_domain_size
        part = box.changed(hb_domain_size=used)
        if isinstance(fabric, PhotonicRails):
            delay = catalog.item("circuit_switches", "Piezo (Polatis)")["reconfiguration_time"]
            limits = (model, part, int(n["gpus_used"]), batch, delay)
            row = best_on_circuits(*limits, runtime=runtime, **job["search"]).iloc[0]
            assert n["iteration_s"] == pytest.approx(row["iteration_s"])
            on = {}
        else:
            on = {"fabric": fabric}
            best = search(
                model, box, int(n["gpus_used"]), batch, runtime, top=1, hb_domain_size=used, **on, **job["search"]
            ).best
            assert n["iteration_s"] == pytest.approx(best["total_s"].iloc[0])
            assert n["circuits_s"] == 0
        times = iteration_times(model, part, strategy, runtime, global_batch=batch, **on)
        assert times.limits.item() == "feasible"
        assert n["iteration_s"] - n["circuits_s"] == pytest.approx(times.total_s.item())
        flops = model.training_flops(batch)
        peak = catalog.item("gpus", box.gpu)["bf16_dense_rate"]
        assert n["mfu"] == pytest.approx(
            float(model_flops_utilization(flops, n["iteration_s"], int(n["gpus_used"]), peak))
        )
        # failures
        terms = {"checkpoint_time": own.get("checkpoint"), "restart_time": own.get("restart"), "runtime": runtime}
        table = training_goodput(
            fabric, model, part, strategy, batch, platform=platform, rates=own.get("failures", "value"), **terms
        )
        assert n["goodput"] == pytest.approx(table["tokens_share"].iloc[-1])
        assert n["stopped"] + n["slowed"] == pytest.approx(1 - n["goodput"])
        # the training
        iterations = 1e12 / (batch * model.sequence_length)
        days = iterations * n["iteration_s"] * (1 + own.get("contingency", 0)) / n["goodput"] / 86400
        assert n["days"] == pytest.approx(days)
        load = own.get("load", catalog.item("operation", "machine")["mean_load"])
        assert n["energy_J"] == pytest.approx(n["power_w"] * load * days * 86400)
        per_J = catalog.item("prices", "energy")["electricity_price"]
        if "electricity" in own:
            per_J = float(own["electricity"].split()[0]) / 3.6e6
        years = own.get("years", 5)
        bought = {"racks_usd": racks_usd, "network_usd": alone["cost_usd"], "it_w": n["power_w"] / pue}
        machine = SimpleNamespace(**bought, total_w=n["power_w"], total_usd=n["purchase_usd"])
        left_out = own.get("leave_out", ())
        rates = cost_rates(machine, OperatingPrices(per_J, years * year, load), ownership_terms(left_out))
        assert n["cost_usd"] == pytest.approx(float(sum(rates.values())) * days * day)
        assert n["token_usd"] == pytest.approx(n["cost_usd"] / 1e12)
        assert n["gpu_hour_usd"] == pytest.approx(n["cost_usd"] / (n["gpus"] * days * 24))
        if left_out == ADDED:
            assert n["cost_usd"] == pytest.approx(n["energy_J"] * per_J + n["purchase_usd"] * days / 365 / years)
            owned = total_cost(n["purchase_usd"], n["power_w"], years, per_J, 1.0, load)["total_usd"]
            assert n["ownership_usd"] == pytest.approx(float(owned))
        if given["cluster"].get("use") == "all":
            assert n["gpus_used"] == n["gpus"]


def test_own_networks_switches_and_books():
    candidate = [
        {"name": "thin", "layout": "Clos", "oversubscription": 3},
        {"name": "rails", "layout": "rail-optimized", "oversubscription": 2},
        {"name": "wide", "layout": "rail-only", "planes": 4},
        {"name": "small", "layout": "rail-only", "radix": 32},
        {"name": "few", "layout": "rail-optimized", "rails": 2},
        {"name": "pairs", "layout": "rail-only", "rails": 4},
        {"name": "next", "layout": "Clos", "switch": "102.4T"},
        {"name": "light", "layout": "photonic rails"},
    ]
    network = {"candidates": ["Clos"], "radix": 64, "candidate": candidate, "nic_ports": 4}
    prices = {"port": "600 USD", "transceiver": "400 USD", "rate": "400 Gbps", "circuit_port": "300 USD"}
    powers = {"port": "20 W", "transceiver": "10 W", "rate": "400 Gbps", "dac": "1 W"}
    found = plan(spec(gpus=1024, network=network, books={"prices": prices, "powers": powers}))
    box = catalog_machine("DGX H100")
    links = {"nic_Bps": box.nic_Bps, "hb_Bps": box.hb_Bps, "hb_switches": 4, "rails_per_switch": None}
    expected = {
        "Clos": RailFabric(1024, 8, 64, rails=1, oversubscription=1.0, **links),
        "thin": RailFabric(1024, 8, 64, rails=1, tier_oversubscription=(3.0,), **links),
        "rails": RailFabric(1024, 8, 64, oversubscription=2.0, **links),
        "few": RailFabric(1024, 8, 64, 1.0, rails=2, one_pod=True, **links),
        "pairs": RailFabric(1024, 8, 64, rails=4, **links),
        "next": RailFabric(1024, 8, 256, rails=1, **links),
        "wide": RailFabric(1024, 8, 64, planes=4, **links),
        "small": RailFabric(1024, 8, 32, **links),
        "light": PhotonicRails(1024, 8, 576, 4, planes=4, **links),
    }
    books = (
        PriceBook(600, 400, 120, circuit_port=300, rate_Bps=5e10, unit="USD"),
        PriceBook(20, 10, 1, circuit_port=0.390625, rate_Bps=5e10, unit="W"),
    )
    for name, fabric in expected.items():
        answer = found.answer(name)
        assert type(answer.fabric) is type(fabric) and answer.fabric.parts.bill() == fabric.parts.bill()
        if answer.name == name:  # not merged with another of the same parts
            assert getattr(answer.fabric, "rails", None) == getattr(fabric, "rails", None)
        alone = fabric_cost(fabric, *(of_large_switch(books) if name == "next" else books))
        ours = [answer.numbers["network_usd"], answer.numbers["network_w"]]
        assert ours == pytest.approx([alone["cost_usd"], alone["power_w"]])


def test_an_answer_says_how_many_parameters_the_model_has():
    """Sizes of Qwen2.5-72B; with two matrices in a feed-forward they would be 53 B, which no other number shows."""
    sizes = {"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn_hidden": 29568, "vocabulary": 152064}
    sizes |= {"sequence_length": 4096, "tied_embeddings": False, "biases": False, "ffn_matrices": 3}
    found = plan(spec(gpus=64, candidates=["rail-only"], job={"model": sizes, "search": {"context": 1, "tensor": 8}}))
    told = "72.71 B parameters with 3 matrices in a feed-forward"
    assert told in str(found) and told in found.document(draws=False)["subtitle"] and told in found.html()
    assert (found.candidates["parameters"] == found.case.model.total_parameters).all()


def test_tables_and_searches_agree_with_the_answers():
    found = usual()
    table = found.candidates.set_index("candidate")
    for answer in found.possible:
        assert table.loc[answer.name, list(answer.numbers)].tolist() == pytest.approx(list(answer.numbers.values()))
        bill = found.bill[found.bill["candidate"] == answer.name]
        assert bill["cost_usd"].sum() == pytest.approx(answer.numbers["network_usd"])
        assert bill["power_w"].sum() == pytest.approx(answer.numbers["network_w"])
        failed = found.failures[found.failures["candidate"] == answer.name]
        assert failed["tokens_share"].iloc[-1] == answer.numbers["goodput"]
        first = found.designs[found.designs["candidate"] == answer.name].iloc[0]
        assert first["total_s"] + answer.numbers["circuits_s"] == pytest.approx(answer.numbers["iteration_s"])
        row = found.times.set_index("candidate").loc[answer.name]
        assert row["iteration_s"] == answer.numbers["iteration_s"]
        if isinstance(answer.fabric, RailFabric):
            again = found.search(answer.name).best
            assert again["total_s"].iloc[0] == pytest.approx(answer.numbers["iteration_s"])
    assert found.memory["fits"].all()
    with pytest.raises(catalog.UnknownName, match="'rail-only'"):
        found.answer("rail-onli")
    with pytest.raises(ValueError, match="photonic rails: give best_on_circuits"):
        found.search("photonic rails")


def test_parts_of_an_iteration_add_up():
    table = usual("GB200 NVL72", 576).times.set_index("candidate")
    parts = [name for name in table if name.endswith("_s") and name != "iteration_s"]
    assert table[parts].sum(axis=1).to_numpy() == pytest.approx(table["iteration_s"].to_numpy())


def test_a_mapping_of_ones_own_is_timed_on_each_network():
    mapping = {"tensor": 8, "data": 8, "sharding": "optimizer"}
    found = plan(spec(candidates=["rail-optimized"], job={"mapping": {**mapping, "global_batch": 256}}))
    (row,) = found.own_strategy.itertuples()
    box = catalog_machine("DGX H100")
    alone = iteration_times("Llama-3 8B", box, Strategy(**mapping), newest_runtime(box), global_batch=256)
    assert row.iteration_s == pytest.approx(alone.total_s.item()) and row.limit == "feasible"
    assert row.over_best == pytest.approx(alone.total_s.item() * 2 / found.best.numbers["iteration_s"])
    assert row.over_best >= 1 and usual().own_strategy.empty


# One key changes.


def test_a_dearer_server_changes_prices_and_nothing_else():
    base, dearer = (
        numbers(spec(candidates=["rail-only"], books={"server": price})) for price in ("300 kUSD", "600 kUSD")
    )
    assert changed(base, dearer) == PRICED
    assert dearer["purchase_usd"] - base["purchase_usd"] == pytest.approx(8 * 3e5)
    of_catalog = numbers(spec(candidates=["rail-only"], books={"basis": "reseller"}))
    assert of_catalog == pytest.approx(base)


def test_prices_of_platforms_stand_on_the_basis_that_is_asked_for():
    """What a reseller asks is 1 / 0.7 of the price in volume, and none of it touches a price that the spec gives."""
    given = {basis: numbers(spec(candidates=["rail-only"], books={"basis": basis})) for basis in ("volume", "reseller")}
    assert changed(*given.values()) == PRICED
    servers = [n["purchase_usd"] - n["network_usd"] for n in given.values()]
    assert servers == pytest.approx([8 * 2.1e5, 8 * 3e5])
    text = str(plan(spec(candidates=["rail-only"])))
    told = "DGX H100: price of a reseller, 300 k USD. Counted is the price in volume, 210 k USD: 0.7 times that (0.5 to"
    assert told in text
    own = [{"server": "300 kUSD", "basis": basis} for basis in ("volume", "reseller")]
    assert len({numbers(spec(candidates=["rail-only"], books=books))["purchase_usd"] for books in own}) == 1
    assert "DGX H100: price given in the spec, 300 k USD." in str(plan(spec(candidates=["rail-only"], books=own[0])))
    rack = numbers(spec("GB200 NVL72", 72, candidates=["rail-only"], books={"basis": "reseller"}))
    assert rack["purchase_usd"] - rack["network_usd"] == pytest.approx(3e6 / 0.7)


@pytest.mark.parametrize("item", ADDED)
def test_each_cost_can_be_left_out(item):
    """Without it the training costs less, and only its row of the table is gone; idle time bears a share of each."""
    whole, without = (
        plan(spec(gpus=512, candidates=["rail-only"], operation=operation)) for operation in ({}, {"leave_out": item})
    )
    assert changed(whole.best.numbers, without.best.numbers) == OWNED
    tables = [found.ownership.set_index("item") for found in (whole, without)]
    assert set(tables[0].index) == set(ITEMS) and set(tables[1].index) == set(ITEMS) - {item}
    rates = [table["usd_per_year"] for table in tables]
    moved = {"building": {"interest", "maintenance"}, "interest": {"spares"}}.get(item, set()) | {"idle time"}
    for name in set(ITEMS) - {item}:
        same = rates[1][name] == pytest.approx(rates[0][name])
        assert same != (name in moved) or (item, name) == ("idle time", "idle time")
    assert item in str(without).rpartition("Not counted")[2]


def test_items_of_ownership_add_up_to_the_cost():
    found = usual()
    table, n = found.ownership, found.best.numbers
    assert table["share"].sum() == pytest.approx(1) and (table["share"] > 0).all() and table["source"].all()
    assert table["training_usd"].sum() == pytest.approx(n["cost_usd"])
    assert table["usd_per_gpu_hour"].sum() == pytest.approx(n["gpu_hour_usd"])
    assert table["usd_per_year"].sum() * n["days"] / 365 == pytest.approx(n["cost_usd"])
    spared = plan(spec(gpus=576, candidates=["rail-only"], operation={"spares": 64}))
    assert "spares" not in set(spared.ownership["item"])  # they are among the GPUs that are bought


@pytest.mark.parametrize(
    ("key", "value", "moved"),
    [
        ("operation.contingency", 0.1, TIMED),
        ("operation.pue", 1.5, {"power_w", "energy_J"} | OWNED),
        ("operation.load", 0.5, {"energy_J"} | OWNED),
        ("operation.electricity", "0.3 USD/kWh", OWNED),
        ("operation.years", 7, OWNED),
        ("operation.leave_out", ["interest", "staff"], OWNED),
        ("books.basis", "reseller", PRICED),
        ("operation.checkpoint", "200 s", TIMED | {"goodput", "stopped"}),
        ("operation.restart", "50 s", TIMED | {"goodput", "stopped"}),
        ("operation.failures", "high", TIMED | {"goodput", "stopped", "gpus_down", "gpus_spare"}),
        ("operation.checkpoint_interval", "3 h", TIMED | {"goodput", "stopped"}),
        ("operation.stops", 3, TIMED | {"goodput", "stopped"}),
        ("books.server_power", "12 kW", {"power_w", "energy_J"} | OWNED),
        ("job.tokens", 2e12, TIMED - {"token_usd"}),
        ("cluster.include", ["storage"], {"network_usd", "network_w", "power_w", "energy_J"} | PRICED),
        ("limits.days", 1, set()),
        ("wishes.rank", "power", set()),
        ("uncertainty.draws", 50, set()),
    ],
)
def test_a_key_changes_what_it_is_about_and_nothing_else(key, value, moved):
    section, _, name = key.partition(".")
    base = usual().answer("rail-only").numbers
    one = numbers(spec(gpus=512, candidates=["rail-only"], **{section: {name: value}}))
    assert changed(base, one) == moved


@pytest.mark.parametrize(("asked", "bought"), [(1, 8), (64, 64), (65, 72), (72, 72)])
def test_gpus_are_rounded_up_to_whole_racks(asked, bought):
    found = plan(spec(gpus=asked, candidates=["rail-only"], job={"batch": 72}))
    assert found.best.numbers["gpus"] == bought
    assert (f"{asked:,} GPUs are {bought} in whole racks" in str(found)) == (asked != bought)
    racks = numbers(spec(gpus=None, candidates=["rail-only"], cluster={"racks": bought // 8}, job={"batch": 72}))
    assert racks == pytest.approx(found.best.numbers)


def test_a_budget_and_a_power_buy_the_most_racks_within_them():
    def bought(**cluster):
        return plan(spec(gpus=None, candidates=["rail-only"], job={"batch": 360}, cluster=cluster)).best

    limits = {"budget": 4e6, "power": 180e3}
    for keys in (["power"], ["budget", "power"]):
        texts = {key: f"{limits[key]} {'USD' if key == 'budget' else 'W'}" for key in keys}
        every, few = bought(**texts, use="all"), bought(**texts)
        more = bought(racks=every.racks + 1).numbers
        assert any(more[{"budget": "purchase_usd", "power": "power_w"}[key]] > limits[key] for key in keys)
        for key, name in (("budget", "purchase_usd"), ("power", "power_w")):
            assert key not in keys or few.numbers[name] <= every.numbers[name] <= limits[key]
        assert few.numbers["gpus"] - few.numbers["gpus_used"] < 8  # no idle servers
        assert few.numbers["days"] <= 1.002 * bought(racks=every.racks).numbers["days"]
    assert bought(gpus=16, budget="9 MUSD").racks == 2


def test_all_gpus_are_used_where_the_job_has_to():
    most, every = (
        numbers(spec("GB200 NVL72", 1152, candidates=["rail-only"], cluster={"use": use}, job={"batch": "4M tokens"}))
        for use in ("at most", "all")
    )
    assert every["gpus_used"] == every["gpus"] == 1152 > most["gpus_used"]
    by_sequence = [each["iteration_s"] / each["batch"] for each in (most, every)]
    assert by_sequence[0] <= by_sequence[1] * 1.03  # batches within 3% are equal


def test_a_batch_in_tokens_is_near_and_networks_of_equal_times_have_the_same():
    found = plan(
        spec("GB200 NVL72", 576, candidates=["Clos", "rail-only", "photonic rails"], job={"batch": "4M tokens"})
    )
    batches = {answer.numbers["batch"] for answer in found.possible}
    assert all(abs(batch / (4e6 / 8192) - 1) <= 0.1 for batch in batches)
    assert len({found.answer(name).numbers["batch"] for name in ("Clos", "rail-only")}) == 1
    assert "The batch is" in str(found)
    assert usual().best.numbers["batch"] == 512


# Which candidates there are.


def test_all_candidates_contain_each_alone():
    every = usual()
    names = [name for answer in every.answers for name in (answer.name, *answer.also)]
    assert sorted(names) == sorted([*NAMES, "photonic rails"])
    for name in names[::2]:
        alone = plan(spec(gpus=512, candidates=[name]))
        assert [answer.name for answer in alone.answers] == [name]
        assert alone.best.numbers == pytest.approx(every.answer(name).numbers)


def test_equal_networks_are_one_row_with_all_names_and_a_reason():
    found = usual("DGX H100", 64)
    answer = found.answer("rail-optimized")
    assert {"Clos", "rail-only", "Clos, leaves 2:1"} <= set(answer.also)
    assert found.answer("rail-only") is answer
    assert "one switch joins all GPUs" in answer.why_same and "no tier is left out" in answer.why_same
    assert "rail-optimized = Clos" in str(found)
    assert [answer.name for answer in usual().answers if "rail-only" in answer.also] == []


def test_a_plan_says_what_each_network_is():
    found = usual("DGX H100", 64)
    told = {name: found.about(name) for answer in found.answers for name in (answer.name, *answer.also)}
    assert told.keys() == {*NAMES, "photonic rails"} and told["rail-optimized"].startswith("8 rails")
    document = found.document(draws=False)
    assert {row["name"]: row["is"] for row in document["candidates"]}.items() <= told.items()
    (parts,) = (section for section in document["sections"] if section["title"] == "Parts and prices")
    (table,) = (table for table in parts["tables"] if table["caption"] == "What each network is")
    assert sorted(table["rows"]) == sorted(map(list, told.items()))


def test_networks_with_the_same_parts_but_other_times_are_not_merged():
    fabric = usual().answer("rail-only").fabric
    one = Answer("a", fabric=fabric, numbers={"days": 1.0})
    assert len(merged([one, Answer("b", fabric=fabric, numbers={"days": 1.0})])) == 1
    for other in (
        Answer("b", fabric=fabric, numbers={"days": 1.001}),
        Answer("b", fabric=fabric, numbers={"days": 1.0, "slowed": 0.0}),
        Answer("b", fabric=fabric, numbers={"days": 1.0}, racks=1),
        Answer("b", note="no network"),
    ):
        assert len(merged([one, other])) == 2
    assert len(merged([Answer("a", note="x"), Answer("b", note="x")])) == 2


def test_a_network_that_cannot_be_built_is_a_note_without_numbers():
    found = plan(spec(gpus=8, candidates=["photonic rails", "rail-only"]))
    assert [answer.name for answer in found.answers] == ["rail-only", "photonic rails"]
    none = found.answers[1]
    assert none.note == "one HB domain holds all GPUs, which need no network" and not none.numbers
    assert none.design is None and "Photonic rails is not there: one HB domain" in str(found)
    assert (
        found.candidates.iloc[1]
        .drop(["candidate", "also", "strategy", "limits_missed", "wishes_missed"])["gpus":"token_usd"]
        .isna()
        .all()
    )
    with pytest.raises(ValueError, match="photonic rails is not there: one HB domain"):
        found.fabric("photonic rails")


def test_a_job_that_fits_nowhere_says_why():
    found = plan(spec(gpus=8, model="Llama-3 70B", candidates=["rail-only"], job={"search": {"tensor": 1}}))
    assert found.best is None and not found.met and "the least needs 154.9 GB of a GPU's" in found.answers[0].note
    text = str(found)
    assert text.startswith("Llama-3 70B does not fit on 8 H100: the fewest is 16 GPUs, with ") and "GPU's" not in text
    assert found.answers[0].numbers["purchase_usd"] > 0  # what it would cost is known
    assert found.uncertainty is None and found.flips.empty and found.memory.empty


# Which one wins.

SIZES = st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, 8.0])
ROWS = st.fixed_dictionaries({name: SIZES for name in GOALS.values()})
GIVEN = st.fixed_dictionaries({}, optional={key: SIZES for key in GOALS if key != "goodput"})


def answers_of(rows):
    rows = [{**row, "goodput": row["goodput"] / 10} for row in rows]
    return [Answer(f"n{i}", design=SimpleNamespace(), numbers=row) for i, row in enumerate(rows)]


def asking(limits, wishes=None, rank="cost"):
    """A spec with limits and wishes in SI units."""
    none = dict.fromkeys(GOALS)
    limits = GoalsSpec.model_construct(**{**none, **limits})
    wishes = WishesSpec.model_construct(**{**none, **(wishes or {}), "rank": rank})
    return Spec.model_construct(limits=limits, wishes=wishes, find=None)


@given(st.lists(ROWS, min_size=1, max_size=5), GIVEN, GIVEN, st.sampled_from(list(RANKS)))
def test_limits_come_first_then_wishes_then_the_rank(rows, limits, wishes, rank):
    asked = asking(limits, wishes, rank)
    order = ranked([Answer("none"), *answers_of(rows)], asked)
    assert order[-1].name == "none" and len(order) == len(rows) + 1
    for one, other in pairwise(order[:-1]):
        missed = [missed_limits(answer, asked.limits) for answer in (one, other)]
        far = [max(each.values(), default=0) for each in missed]
        assert far[0] <= far[1] + 1e-3  # as far off as that is the same
        if not missed[0] and not missed[1]:
            wished = [len(missed_limits(answer, asked.wishes)) for answer in (one, other)]
            assert wished[0] <= wished[1]
            if wished[0] == wished[1]:
                assert one.numbers[RANKS[rank]] <= (1 + NO_DIFFERENCE) * other.numbers[RANKS[rank]]


@given(st.lists(ROWS, min_size=1, max_size=5), GIVEN, st.data())
def test_looser_limits_never_make_the_best_worse(rows, limits, data):
    answers = answers_of(rows)
    looser = {name: value * data.draw(st.sampled_from([1.0, 2.0, 10.0])) for name, value in limits.items()}
    for name in data.draw(st.sets(st.sampled_from(sorted(looser)))) if looser else ():
        del looser[name]
    tight, loose = asking(limits), asking(looser)
    one, other = (ranked(answers, each)[0] for each in (tight, loose))
    if not missed_limits(one, tight.limits):
        assert not missed_limits(other, loose.limits)
        assert other.numbers["cost_usd"] <= (1 + NO_DIFFERENCE) * one.numbers["cost_usd"]


@pytest.mark.parametrize(("find", "first"), [(None, "n0"), ({"cost": "least"}, "n0"), ({"gpus": "fewest"}, "n2")])
def test_of_those_that_are_no_different_the_one_that_is_built_more_comes_first(find, first):
    near, far = 1 + 0.9 * NO_DIFFERENCE, 1 + 1.1 * NO_DIFFERENCE
    rows = [dict.fromkeys(GOALS.values(), number) for number in (near, far, 1.0, 1 + 0.5 * NO_DIFFERENCE)]
    asked = asking({}).model_copy(update={"find": FindSpec.model_construct(**(find or {}))} if find else {})
    names = [answer.name for answer in ranked(answers_of(rows), asked)]
    assert names == (["n0", "n2", "n3", "n1"] if first == "n0" else ["n2", "n3", "n0", "n1"])


def test_limits_of_a_plan():
    books = {"prices": "street2025"}
    plain = {"leave_out": ADDED}
    whole = plan(spec(gpus=512, operation=plain, books=books))
    table = whole.candidates.set_index("candidate")
    best, leanest = whole.best.name, table["power_w"].idxmin()
    assert best != leanest and whole.met
    two, watts = [best, leanest], table["power_w"].min()
    assert plan(spec(gpus=512, candidates=two, books=books, wishes={"rank": "power"})).best.name == leanest
    within = plan(spec(gpus=512, candidates=two, operation=plain, books=books, limits={"power": f"{watts * 1.0001} W"}))
    assert within.best.name == leanest and within.met
    assert within.candidates.set_index("candidate")["limits_missed"][best] == "power"
    wished = plan(spec(gpus=512, candidates=two, operation=plain, books=books, wishes={"power": f"{watts * 1.0001} W"}))
    assert wished.best.name == leanest and wished.met
    below = plan(spec(gpus=512, candidates=two, books=books, limits={"power": f"{watts / 2} W", "gpus": 512}))
    assert below.best.name == leanest and not below.met and str(below).startswith("Not reachable: no network meets")


def test_a_missed_number_of_days_is_told_with_the_gpus_that_would_do():
    few = plan(spec(candidates=["rail-only"], limits={"days": 10, "power": "1 MW"}))
    assert not few.met and few.gpus_that_would_do == "128 GPUs would do."
    assert few.gpus_that_would_do in str(few)
    assert plan(spec(gpus=128, candidates=["rail-only"], limits={"days": 10, "power": "1 MW"})).met
    assert plan(spec(candidates=["rail-only"], limits={"days": 20})).gpus_that_would_do == ""


def test_equal_networks_keep_one_name_whatever_the_order_of_the_candidates():
    own = [{"name": name, "layout": "Clos"} for name in ("one", "another")]
    first = None
    for names in permutations(["rail-optimized", "Clos", "rail-only"]):
        for tables in permutations(own):
            found = plan(spec(candidates=list(names), network={"candidate": list(tables)}))
            table = found.candidates[["candidate", "also"]]
            assert len(table) < 5 and (first is None or table.equals(first))
            first = table


# What is signed for.


def test_the_first_sentence_has_what_is_bought_and_what_that_saves():
    found = usual()
    assert found.best.name == "rail-only"
    n, usual_one = found.best.numbers, found.answer("rail-optimized").numbers
    text = headline(found)
    assert text.startswith(f"Buy rail-only for {shown('purchase_usd', n['purchase_usd'])}, of which the network ")
    assert f"of which the network {shown('network_usd', n['network_usd'])}: it trains Llama-3 8B in " in text
    saved = show(usual_one["purchase_usd"] - n["purchase_usd"], "USD", 3)
    assert f" It saves {saved} of purchase against rail-optimized, and " in text
    assert len(re.findall(r"\.(?= |$)", text)) <= 3
    other = plan(spec(gpus=512, candidates=["rail-optimized", "Clos, leaves 2:1"], limits={"days": 1000}))
    best, second = (answer.numbers["purchase_usd"] for answer in other.possible)
    assert other.best.name == "rail-optimized" or best < second
    dearer = replace(other, answers=tuple(reversed(other.answers)))
    clauses = [headline(each) for each in (other, dearer)]
    assert (
        sum("It saves" in clause for clause in clauses) == sum("more to buy than" in clause for clause in clauses) == 1
    )
    alone = headline(plan(spec(candidates=["rail-only"])))
    assert alone.startswith("Buy rail-only for ") and "against" not in alone and "to buy" not in alone


def test_what_to_buy_in_words_has_its_direction():
    found = usual()
    less = found.answer("rail-optimized").numbers["network_usd"] - found.best.numbers["network_usd"]
    text = bought_words(found)
    assert text.startswith(f"Buy {found.best.name}: ") and f"on rail-optimized, for {show(less, 'USD', 3)} less" in text
    for share, told in ((1.01, ", within your limit"), (0.99, ". It should end within your limit, but may take")):
        limits = GoalsSpec(days=share * found.days_interval[1])
        asked = replace(found, spec=found.spec.model_copy(update={"limits": limits}))
        assert told in bought_words(asked)
    assert "rail-optimized" not in bought_words(plan(spec(candidates=["rail-only"])))


def test_what_to_buy_names_what_flips_it_and_then_equal_offers_within_the_limits():
    found = usual()
    flip, same = "first: it most easily makes another one best", "other networks cost the same"
    text = bought_words(found)
    assert not found.flips.empty and 0 < text.index(flip) < text.index(same) and not answer_faults(text)
    best, *others = found.answers
    days = best.numbers["days"]
    late = tuple(replace(each, numbers={**each.numbers, "days": 2 * days}) for each in others)
    limited = found.spec.model_copy(update={"limits": GoalsSpec(days=1.5 * days)})
    assert same not in bought_words(replace(found, answers=(best, *late), spec=limited))


def test_the_terminal_has_speed_energy_and_cost_of_the_best():
    found = usual()
    n, lines = found.best.numbers, str(found).splitlines()
    (line,) = (line for line in lines if line.startswith("Rail-only: "))
    tokens = n["batch"] * found.case.model.sequence_length / n["iteration_s"] / n["gpus_used"]
    told = re.search(r": (\S+ m?s) an iteration, MFU (\S+)%, (\S+) tokens/s a GPU, (\S+ \S+) for the training, ", line)
    assert told[1] == shown("iteration_s", n["iteration_s"]) and told[4] == shown("energy_J", n["energy_J"])
    assert float(told[2]) == pytest.approx(100 * n["mfu"], rel=1e-2)
    assert float(told[3].replace(",", "")) == pytest.approx(tokens, rel=1e-2)
    assert f", {shown('gpu_hour_usd', n['gpu_hour_usd'], 3)} a GPU-hour; published rents of H100: " in line
    for each in (found, plan(spec(gpus=None, cluster={"power": "400 kW"}, candidates=["rail-only"]))):
        assert all(len(row) <= 8 for row in summary_rows(each))
    cost = next(part for part in found.document(draws=False)["sections"] if part["id"] == "cost")
    items, rents = cost["tables"]
    assert [row[0] for row in items["rows"]] == list(ITEMS) and "B200" in {row[0] for row in rents["rows"]}
