import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog, datacenter
from railcore.datacenter.rack_network import most_that_fit
from railcore.datacenter.sizing import Sizing, narrowest_format
from railcore.network import cost, price_books
from railcore.training import transformer
from railcore.training.formats import catalog_precision
from suite.flops2024 import specification
from suite.flops2024.specification import document_site, document_size
from suite.flops2024.training_case import TrainingCase

PARTS = ("racks", "gpus", "racks_w", "it_w", "total_w", "dense_flops", "sparse_flops", "memory_bytes", "network_usd")
PRICED = [name for name in catalog.names("platforms") if {"price", "power"} <= set(catalog.item("platforms", name))]
BASE = {"rack_usd": 3e6, "rack_w": 130e3, "rack_gpus": 72, "gpu_dense_flops": 1e16, "gpu_memory_bytes": 192e9}
size = partial(document_size, document="")  # by the catalog's own rows
SHARE, BUDGET = st.floats(0.01, 1), st.floats(1e9, 1e13)


@given(BUDGET, SHARE, st.floats(0, 2), st.floats(1, 3))
def test_totals_are_their_parts(budget, share, others, pue):
    found = Sizing(budget, **BASE, compute_share=share, other_power_share=others, pue=pue)
    assert found.racks == math.floor(found.racks)
    assert found.racks * 3e6 <= budget * share * (1 + 1e-9) < (found.racks + 1) * 3e6 * (1 + 1e-9)
    assert found.gpus == 72 * found.racks
    assert found.racks_w == pytest.approx(130e3 * found.racks)
    assert found.it_w - found.racks_w == pytest.approx(others * found.racks_w, abs=1)
    assert found.total_w == pytest.approx(pue * found.it_w) and found.total_w >= found.it_w >= found.racks_w
    assert found.dense_flops == pytest.approx(1e16 * found.gpus) and np.isnan(found.sparse_flops)
    assert found.memory_bytes == pytest.approx(192e9 * found.gpus)


@given(BUDGET, st.floats(1, 100))
def test_more_money_never_buys_less(budget, more):
    few, many = (size(each, network="shares") for each in (budget, budget * more))
    assert all(getattr(many, part) >= getattr(few, part) for part in PARTS)
    assert few.network_usd == pytest.approx(few.network_share * budget) and np.isnan(few.network_w)


@given(BUDGET, st.floats(2e6, 1e12))
def test_racks_and_their_network_share_what_is_left_and_one_more_is_too_many(budget, power):
    bought, fed = datacenter.datacenter_size(budget), datacenter.datacenter_size(power_w=power)
    share, network = bought.compute_share + bought.network_share, bought.network
    assert bought.racks_usd + bought.network_usd <= budget * share * (1 + 1e-9)
    more = bought.racks + 1
    assert more * bought.rack_usd + network.price_usd(more) > budget * share
    assert fed.total_w == pytest.approx(fed.pue * (fed.racks_w * (1 + fed.other_power_share) + fed.network_w))
    more = fed.racks + 1
    assert fed.total_w <= power * (1 + 1e-9)
    assert fed.pue * (more * fed.rack_w * (1 + fed.other_power_share) + network.power_w(more)) > power


def test_the_network_of_racks_is_that_of_the_bill():
    prices, powers = price_books.matching_books("street2025")
    table = cost.cluster_networks(4096, 8, 128, 1, prices, powers).set_index("network")
    found = datacenter.datacenter_size(gpus=4096, platform="DGX H100")
    assert found.network_usd == pytest.approx(table.cost_usd["rail-optimized"])
    assert found.network_w == pytest.approx(table.power_w["rail-optimized"])


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_halving_finds_the_most_that_fit(most, fitting):
    assert most_that_fit(lambda racks: racks <= fitting, np.array([most])).tolist() == [min(most, fitting)]


def test_limits_broadcast_and_each_element_says_which_binds():
    budgets, powers = np.array([1e9, 1e10, 1e11]), np.array([[1e8], [1e9]])
    found = datacenter.datacenter_size(budgets, power_w=powers)
    assert found.racks.shape == found.binding.shape == found.total_usd.shape == (2, 3)
    for (i, j), binds in np.ndenumerate(found.binding):
        alone = datacenter.datacenter_size(budgets[j], power_w=powers[i, 0])
        assert (binds, found.racks[i, j], found.total_usd[i, j]) == (alone.binding, alone.racks, alone.total_usd)
    ten = datacenter.datacenter_size(racks=10)
    exact = datacenter.datacenter_size(ten.total_usd, power_w=ten.total_w)
    assert exact.binding == "budget and power" and exact.racks == 10
    swept = datacenter.datacenter_size(1e10, gpus=np.array([72, 720, 7200]), racks=np.array([[5], [50]]))
    assert swept.table()["racks"].tolist() == [1, 5, 5, 1, 10, 50] and str(swept).count("\n") == 6
    assert swept.binding.tolist() == [["gpus", "racks", "racks"], ["gpus", "gpus", "racks"]]


@given(BUDGET, st.floats(2e6, 1e12), st.integers(72, 10**7), st.integers(1, 10**6))
def test_the_least_of_all_limits_binds(budget, power, gpus, racks):
    limits = {"budget_usd": budget, "power_w": power, "gpus": gpus, "racks": racks}
    alone = {
        name.partition("_")[0]: datacenter.datacenter_size(**{name: limit}).racks for name, limit in limits.items()
    }
    found = datacenter.datacenter_size(**limits)
    assert found.racks == min(alone.values())
    assert found.binding.split(" and ") == [name for name, most in alone.items() if most == found.racks]
    assert found.gpus <= gpus and found.total_w <= power * (1 + 1e-9) and found.racks_usd <= budget * (1 + 1e-9)
    in_budget = "budget" in found.binding
    spent = (found.racks_usd + found.network_usd) / (found.compute_share + found.network_share)
    assert found.total_usd == (budget if in_budget else pytest.approx(spent))


def test_bare_machine_is_the_limit_of_no_other_costs():
    bare = Sizing(3e6, **BASE)
    assert (bare.racks, bare.total_w, bare.network_usd) == (1, 130e3, 0)
    racks = np.arange(1, 5000)
    exact = Sizing(racks * BASE["rack_usd"] / 0.7, **BASE, compute_share=0.7)
    assert np.array_equal(exact.racks, racks)  # exact money buys the last rack


@pytest.mark.parametrize("platform", PRICED)
def test_every_platform_with_a_price_and_power_can_be_sized(platform):
    box, found = catalog.item("platforms", platform), size(1e10, platform)
    assert found.rack_usd == box["price"] and found.rack_w == box["power"] and found.rack_gpus == box["gpus"]
    gpu = catalog.item("gpus", box["gpu"])
    rates = [gpu[f"{form}_dense_rate"] for form in ("fp4", "fp8", "bf16") if f"{form}_dense_rate" in gpu]
    assert found.gpu_dense_flops == max(rates) == gpu[f"{narrowest_format(gpu.name)}_dense_rate"]


def test_a_documents_own_rows_replace_the_catalogs():
    own, ours = document_size(), size()
    assert own.rack_w == 130e3 != ours.rack_w and own.gpu_memory_bytes == 192e9 != ours.gpu_memory_bytes
    assert np.shape(own.pue) == (2,) and np.shape(ours.pue) == ()
    assert own.sparse_flops == 2 * own.dense_flops
    assert size(rack_usd=6e6, network="shares").racks == size(network="shares").racks // 2
    assert size(rate_format="bf16").gpu_dense_flops == ours.gpu_dense_flops / 4


@pytest.mark.parametrize("budget", [855e6, 1e11])
def test_a_book_of_ones_own_takes_the_documents_place(budget):
    """Without the document, and with another book than its own, it is the catalog's datacenter."""
    assert document_size(budget, document="") == datacenter.datacenter_size(budget)
    assert document_size(budget, price_book="street2025") == datacenter.datacenter_size(budget, price_book="street2025")
    shares = document_size(budget, document="", price_book="flops2024")
    assert (
        shares == datacenter.datacenter_size(budget, price_book="flops2024")
        and shares.rack_w == datacenter.datacenter_size(budget).rack_w
    )
    own = specification.book_of_document("flops2024", None)
    assert own == specification.book_of_document("flops2024", "flops2024") == ("flops2024", "flops2024")
    assert specification.book_of_document("", None) == ("", "street2025")
    assert document_size(budget).price_book == "flops2024" and np.shape(document_size(budget).pue) == (2,)


def test_a_sizing_names_its_book_and_its_number_format():
    by_share = {"platform": "DGX H200", "network": "shares"}
    ours, theirs = (
        datacenter.datacenter_size(1e9, **by_share),
        datacenter.datacenter_size(1e9, price_book="flops2024", rate_format="bf16", **by_share),
    )
    assert "price_book='street2025', rate_format='fp8'" in repr(ours)
    assert "price_book='flops2024', rate_format='bf16'" in repr(theirs)
    assert ours.gpus / theirs.gpus == pytest.approx(ours.compute_share / theirs.compute_share, rel=1e-2)
    assert datacenter.datacenter_size(1e9, "DGX A100").rate_format == "bf16"
    assert datacenter.datacenter_size(1e9, gpu_dense_flops=1e15).rate_format == Sizing(3e6, **BASE).price_book == ""


def test_a_site_takes_the_number_format_for_its_dense_rate():
    assert datacenter.datacenter_site(100, "DGX H200", "fp8") == datacenter.datacenter_site(
        100, "DGX H200", "fp8_dense_rate"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget_usd": None}, "budget_usd, power_w, gpus and racks are None: give one of them"),
        ({"budget_usd": 4.2e6}, "give at least 4,285,714 USD for one"),
        ({"power_w": 1e5}, "power_w is 100000.0, which feeds no rack: give at least 151.2 kW for one"),
        ({"gpus": 71}, "gpus is 71, which fills no rack: give rack_gpus, 72"),
        ({"platform": "GH200"}, "no row 'price', needed for datacenter size"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        datacenter.datacenter_size(**{"budget_usd": 1e11} | changes)


def test_quantities_follow_from_machine_model_and_layout():
    machine = document_size()
    bought = specification.machine_quantities(machine)
    assert bought["total_power_low"] < bought["total_power_high"] == pytest.approx(1.3 * bought["it_power"])
    model, kept = transformer.catalog_model("flops2024 dense"), catalog_precision("flops2024")
    place = document_site(int(machine.racks), rate="fp4_sparse_rate")
    one = datacenter.model_layer(model, kept)
    plan = datacenter.rack_layout(one, place)
    found = specification.model_quantities(TrainingCase(model, kept, place), place.memory_bytes)
    assert found["memory"] == pytest.approx(kept.state * model.total_parameters)
    assert found["replicas_per_dc"] == found["layers_per_rack"] * found["racks_per_layer_per_dc"]
    assert found["gpus_per_dc"] == found["replicas_per_dc"] * plan.tensor * found["pipeline_parallel"]
    held = found["memory"] / model.layers + found["residual"]
    assert found["device_memory"] * plan.tensor == pytest.approx(found["memory"] / model.layers)  # state alone
    least = found["tensor_parallel"]  # of all degrees, one that divides no rack of 72 here
    assert held / least <= place.memory_bytes < held / (least - 1) and 72 % least
    view = specification.memory_chart_arguments("dense", one, 1e11, "GB200 NVL72", 2)
    by_degree = view["data"]
    fits = by_degree[by_degree["bytes"] <= place.memory_bytes]["tensor"].min()
    assert fits == plan.tensor
    assert np.allclose(by_degree["bytes"] * by_degree["tensor"], by_degree["bytes"][0])
    assert by_degree["bytes"][0] == pytest.approx(one.layer_state_bytes + one.activation_bytes)


def test_activation_formula_holds_for_dense_layers_and_not_for_experts():
    kept = catalog_precision("flops2024")
    errors = {
        name: specification.activation_formula_error(transformer.catalog_model(name), kept, (1, 3))
        for name in ("flops2024 dense", "flops2024 MoE")
    }
    assert errors["flops2024 dense"] < 1e-12
    assert errors["flops2024 MoE"] > 0.1


@pytest.mark.parametrize(
    ("model", "budget", "platform", "sites", "says"),
    [
        ("Llama-3 405B", 1e10, "GB200 NVL72", 2, "replicas in each datacenter"),
        ("flops2024 dense", 1e9, "GB200 NVL72", 4, "does not fit: 536 racks needed"),
        ("flops2024 dense", 1e11, "DGX H100", 4, "does not fit: a layer needs more memory than a rack has"),
    ],
)
def test_a_chart_of_memory_says_how_many_replicas_train_or_why_none(model, budget, platform, sites, says):
    one = datacenter.model_layer(model, "flops2024")
    view = specification.memory_chart_arguments("one", one, budget, platform, sites)
    assert view["limit_bytes"] == catalog.item("gpus", catalog.item("platforms", platform)["gpu"])["memory"]
    assert view["title"].startswith(f"{size(budget, platform).racks:,.0f} racks, ") and view["title"].endswith(says)
