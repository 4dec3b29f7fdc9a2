"""What a person types: quantities with their unit and names of the catalog; what is wrong is refused by its name."""

import copy
import inspect
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike

import railcore
from railcore import datacenter as dc
from railcore.catalog.arguments import Watts, checked
from railcore.network import cost, price_books
from railcore.network.topology import faults
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized
from railcore.siting.areas import Area
from railcore.siting.grid import PowerGrid, load_grid
from railcore.siting.places import Survey, find_places
from railcore.siting.split import find_split
from railcore.strategies.parts import search
from railcore.strategies.space import strategy_blocks
from railcore.training import machine, scaling_laws, transformer
from railcore.training.formats import catalog_precision
from railcore.training.iteration import iteration_times
from railcore.training.parallelism import Strategy
from railcore.training.runtime import MODERN, Runtime, catalog_runtime
from railcore.transport.flows import permutation

PRICES = price_books.PriceBook(600, 400, dac=100, circuit_port=500, rate_Bps=5e10)
POWERS = price_books.PriceBook(20, 10, dac=0.1, circuit_port=0.4, rate_Bps=5e10)
LIMITS = {"power_w": 1e9, "gpus": 72_000, "racks": 1000}
SIZED = dc.datacenter_size(1e10, "GB200 NVL72", **LIMITS)
MODEL, BOX = transformer.catalog_model("Llama-3 70B"), machine.catalog_machine("DGX H100")
STRATEGY = Strategy(tensor=8, pipeline=4, data=2)
LAW = scaling_laws.scaling_law("Hoffmann 2")
LAYER, SITE = (
    dc.model_layer(MODEL, catalog_precision("fp8")),
    dc.datacenter_site(1000, "GB200 NVL72", "fp8_dense_rate"),
)
LAID = dc.rack_layout(LAYER, SITE)
FABRIC = rail_only(64, 8, 16)


def small_grid() -> PowerGrid:
    """The embedded grid around Ohio."""
    us = load_grid()
    near = us.plants[us.plants["state"] == "Ohio"].reset_index(drop=True)
    return PowerGrid("Ohio", near, us.lines.iloc[:0], us.substations.iloc[:50], us.loads.iloc[:50])


# Quantities as text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (lambda: rail_only(64, 8, 16, nic_Bps="400 Gbps").nic_Bps, 5e10),
        (lambda: rail_optimized(64, 8, 16, hb_Bps="900 GB/s").hb_Bps, 9e11),
        (lambda: fat_tree(64, 16, nic_Bps="100 GB/s").nic_Bps, 1e11),
        (lambda: PhotonicRails(64, 8, ocs_ports=64, nic_Bps="400 Gbps").nic_Bps, 5e10),
        (lambda: machine.catalog_machine("DGX H100", nic_Bps="800 Gbps").nic_Bps, 1e11),
        (lambda: machine.catalog_machine("DGX H100", memory_bytes="141 GB", kernel_s="2 us").memory_bytes, 141e9),
        (lambda: machine.catalog_machine("DGX H100", linear_rate="2 PFLOP/s").rates.linear_rate, 2e15),
        (lambda: price_books.PriceBook(port="600 USD", transceiver="0.4 k USD").transceiver, 400),
        (lambda: price_books.PriceBook(port="20 W", transceiver="8 W", dac="100 mW").dac, 0.1),
        (lambda: dc.datacenter_size(budget_usd="10 G USD").budget_usd, 1e10),
        (lambda: dc.datacenter_size("1e10 USD").budget_usd, 1e10),
        (lambda: dc.datacenter_size(power_w="1.2 GW").power_w, 1.2e9),
        (lambda: dc.datacenter_size(1e10, rack_usd="4 M USD").racks, dc.datacenter_size(1e10, rack_usd=4e6).racks),
        (lambda: dc.datacenter_site(100, "GB200 NVL72", "fp8_dense_rate", nic_Bps="800 Gbps").nic_Bps, 1e11),
        (lambda: float(LAW.parameters_after("365 days", "1 EFLOP/s")), float(LAW.parameters_after(365 * 86400, 1e18))),
        (lambda: rail_only("16,384", 8, "64").gpus, 16384),
        (lambda: float(LAW.tokens("1e25 FLOP")), float(LAW.tokens(1e25))),
        (lambda: rail_only(64, 8, 16, nic_Bps="400 gbps").nic_Bps, 5e10),
        (lambda: rail_only(64, 8, 16, nic_Bps="400G").nic_Bps, 5e10),
        (lambda: price_books.PriceBook(port="$600", transceiver="400 usd").transceiver, 400),
        (lambda: dc.datacenter_size(power_w="1,200,000 kW").power_w, 1.2e9),
    ],
)
def test_a_text_with_its_unit_is_the_number(text, number):
    assert text() == pytest.approx(number, rel=1e-12)


def test_texts_in_a_list_are_an_array():
    speeds = dc.datacenter_site(100, "GB200 NVL72", "fp8_dense_rate", nic_Bps=["400 Gbps", "800 Gbps", 2e11]).nic_Bps
    assert isinstance(speeds, np.ndarray) and speeds.tolist() == [5e10, 1e11, 2e11]
    assert dc.datacenter_size(["1 G USD", "20 G USD"]).racks.tolist() == dc.datacenter_size([1e9, 2e10]).racks.tolist()


def test_places_are_found_for_quantities_as_text():
    asked = {"rule": "installed", "survey": Survey(1.0, reserve="none", most_coal=1.0)}
    typed = find_places(small_grid(), "1 GW", "75 km", **asked, k=2, apart_m="160 km")
    given = find_places(small_grid(), 1e9, 75e3, **asked, k=2, apart_m=160e3)
    pd.testing.assert_frame_equal(typed.places, given.places)
    apart = [find_split(small_grid(), "1 GW", "75 km", **asked, least_separation_m=far) for far in ("160 km", 160e3)]
    pd.testing.assert_frame_equal(apart[0].places, apart[1].places)
    caps = [find_split(small_grid(), 1e9, 75e3, 1, **asked, authority_caps={"PJM": cap}) for cap in ("2 GW", 2e9)]
    pd.testing.assert_frame_equal(caps[0].places, caps[1].places)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rail_only(64, 8, 16, nic_Bps="2 GW"), r"nic_Bps is '2 GW': give a number in B/s.*'400 Gbps'"),
        (lambda: rail_only(64, 8, 16, nic_Bps="fast"), "nic_Bps is 'fast': give a number in B/s"),
        (lambda: rail_only(64, 8, 16, nic_Bps="400"), "nic_Bps is '400': give a number in B/s"),
        (lambda: machine.catalog_machine("DGX H100", memory_bytes="141 Gbps"), "memory_bytes is '141 Gbps'"),
        (
            lambda: price_books.PriceBook("600 USD", "8 W"),
            "mixes USD and W .port '600 USD', transceiver '8 W'.: give all in",
        ),
        (lambda: dc.datacenter_size("10 GW"), "budget_usd is '10 GW': give a number in USD"),
        (lambda: dc.datacenter_size(["1 G USD", "1 GW"]), r"budget_usd is \['1 G USD', '1 GW'\]"),
        (lambda: dc.datacenter_size(["1 G USD", [1e9, 2e9]]), r"budget_usd is \['1 G USD', \[1000"),
        (lambda: dc.datacenter_size(["1 G USD", None]), "budget_usd is"),
        (lambda: dc.datacenter_size(power_w="1 GB"), "power_w is '1 GB': give a number in W.*'1.2 GW'"),
        (lambda: rail_only("16k", 8, 64), "is '16k': give '16,000' or '16,384', as it may mean each"),
        (lambda: dc.datacenter_size(["1 G USD", True]), "budget_usd is"),
        (
            lambda: dc.datacenter_size(power_w="40.000 MW"),
            "power_w is '40.000 MW': give '40 MW' or '40,000 MW', as it may",
        ),
        (
            lambda: machine.catalog_machine("DGX H100", memory_bytes="141 gb"),
            "is '141 gb': give '141 GB' or '141 Gbit'",
        ),
        (lambda: LAW.parameters_after("1 GW", 1e18), "time is '1 GW': give a number in s, or a text such as '30 days'"),
    ],
)
def test_another_dimension_or_no_quantity_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Names in place of objects


def test_names_of_the_catalog_stand_for_models_and_machines():
    few = {"gpus": 64, "global_batch": 64, "pipeline": 4, "tensor": 8}
    assert search("Llama-3 70B", "DGX H100", **few).best.equals(search(MODEL, BOX, **few).best)
    columns = STRATEGY.columns(global_batch=64)
    typed, given = iteration_times("Llama-3 70B", "DGX H100", columns), iteration_times(MODEL, BOX, columns)
    assert typed.total_s == given.total_s
    assert dc.model_layer("Llama-3 70B", "fp8") == dc.model_layer(MODEL, catalog_precision("fp8"))
    blocks = (list(strategy_blocks(model, BOX, 16, 16)) for model in ("Llama-3 70B", MODEL))
    assert all(np.array_equal(a[name], b[name]) for a, b in zip(*blocks, strict=True) for name in a)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: search("Llama-3 40B", BOX, 16, 16), "models item 'Llama-3 40B' does not exist: .*405B"),
        (
            lambda: search(MODEL, "DGX H1000", 16, 16),
            r"(?s)platforms item 'DGX H1000' does not exist: the nearest are .*'DGX H100'.*Rows to add:.*hb_switches",
        ),
        (
            lambda: iteration_times(["Llama-3 70B"], BOX, {}),
            r"model is .*: give Transformer\(\.\.\.\), or the name",
        ),
        (
            lambda: search(MODEL, MODEL, 16, 16),
            "machine is Transformer.*: give catalog_machine",
        ),
        (lambda: dc.model_layer("Llama-4", "fp8"), "models item 'Llama-4' does not exist"),
        (
            lambda: faults.fault_effects("rail-only"),
            r"fabric is 'rail-only': give rail_only\(gpus, hb_domain_size, radix\)",
        ),
        (lambda: dc.rack_layout("Llama-3 70B", SITE), r"layer is 'Llama-3 70B': give model_layer\(model, bytes_of\)"),
        (
            lambda: cost.cluster_networks(64, 8, 16, 4, "street2025", POWERS),
            r"prices is 'street2025': give .*price_book\(",
        ),
        (lambda: find_places("us", 1e9, 5e4, "installed"), r"grid is 'us': give load_grid\(\)"),
    ],
)
def test_another_name_or_kind_of_thing_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_missing_argument_is_pythons_own_error():
    for call in (lambda: rail_only(64, 8), lambda: search(MODEL)):
        with pytest.raises(TypeError, match="argument"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dc.datacenter_size(1e10, powr_w=3),
            "argument of Sizing 'powr_w' does not exist: the nearest are .*'power_w'",
        ),
        (
            lambda: machine.catalog_machine("DGX H100", hb_domain=8),
            "of Machine 'hb_domain' .*'hb_domain_size'",
        ),
        (lambda: rail_only(64, 8, 16, plane=2), "argument of RailFabric 'plane' does not exist: .*'planes'"),
        (lambda: Strategy(tensors=8), "argument of Strategy 'tensors' does not exist: the nearest are .*'tensor'"),
        (lambda: find_split(small_grid(), 1e9, 75e3, objectiv="spare"), "of find_split 'objectiv' .* 'objective'"),
        (lambda: Survey(oill=True), "argument of Survey 'oill' does not exist: the nearest are 'oil'"),
        (lambda: Area(state="IL"), "argument of Area 'state' does not exist: the nearest are 'states'"),
        (
            lambda: dc.datacenter_size(1e10, price_book="ours"),
            "price_book 'ours' .*: the nearest are 'flops2024', 'street2025'",
        ),
        (lambda: dc.datacenter_size(1e10, rate_format="fp5"), "rate_format is 'fp5': give one of fp4, fp8, bf16"),
        (lambda: Strategy.from_columns({"tensor": 8}), "strategy lacks context, pipeline, .*sequence_parallel: give"),
        (
            lambda: cost.ownership_costs(64, 8, 16, PRICES, POWERS, 4, "0.1 EUR", 1.2),
            "electricity_price is '0.1 EUR': give a number in USD/J, or a text such as '0.1 USD/kWh'",
        ),
        (lambda: machine.catalog_machine("DGX H100", nic_Bps=[1e9, 2e9]), r"nic_Bps is \[.*: give a number in B/s"),
        (
            lambda: find_split(
                small_grid(), 1e9, 75e3, 2, "installed", survey=Survey(1.0), authority_caps={"PJM": "2 GB"}
            ),
            r"authority_caps\['PJM'\] is '2 GB': give a number in W, or a text such as '2 GW'",
        ),
    ],
)
def test_what_is_unknown_or_of_another_shape_is_refused_by_its_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("number", [2.0**63, 2**63, 1e300, math.inf])
def test_a_seed_that_63_bits_do_not_hold_is_refused(number):
    """The next float would be the smallest number of all."""
    with pytest.raises(ValueError, match=r"seed is .*: give whole numbers"):
        permutation(8, 1e6, seed=number)


def test_what_is_checked_looks_the_same():
    assert list(inspect.signature(rail_only).parameters)[:3] == ["gpus", "hb_domain_size", "radix"]
    assert list(inspect.signature(find_places).parameters)[:2] == ["grid", "demand_w"]
    assert "Raises" in (search.__doc__ or "") and search.__name__ == "search"


def test_help_shows_annotations_in_few_letters():
    """Signatures were up to 2,300 letters long."""
    functions = [getattr(railcore, name) for name in railcore.__all__ if inspect.isfunction(getattr(railcore, name))]
    assert max(len(str(inspect.signature(function))) for function in functions) < 520
    shown = str(inspect.signature(search))
    assert shown.startswith(
        "(model: Transformer | str, machine: Machine | str, gpus: int, global_batch: int | Sequence[int], "
    )
    assert "runtime: Runtime | str | Sequence[Runtime | str] | None = None" in shown
    assert "gpus: ArrayLike" in str(inspect.signature(cost.compare_rail_networks))
    assert "nic_Bps: Quantity | None = None" in str(inspect.signature(RailFabric))


def test_a_runtime_shows_what_it_is_made_of():
    eager = replace(MODERN, name="ours", eager=True, attention="unfused")
    assert repr(eager) == "Runtime('ours', attention='unfused', eager=True)"
    for each in (MODERN, eager, catalog_runtime("megatron2022")):
        assert eval(repr(each), {"Runtime": Runtime}) == each


def test_a_number_of_a_quantity_stays_what_it_is():
    @checked
    def same(power_w: Watts, nics: int | None = None, names_m: str = "") -> object:
        return power_w, nics, names_m

    @checked
    def every(power_w: ArrayLike) -> object:
        return power_w

    powers = np.array([1.0, 2.0])
    assert every(powers) is powers and same(5)[0] == 5 and same(1.0, None) == (1.0, None, "")
    assert same(1.0, 8.0, "5 km") == (1.0, 8, "5 km")
    with pytest.raises(ValueError, match=r"nics is \[8\]: give a whole number"):
        same(1.0, [8])
    with pytest.raises(ValueError, match=r"power_w is array.*: give a number in W"):
        same(powers)


# Wrong objects


def changed_by_hand(target, field, value):
    """A copy of an object that is frozen, with one field changed behind its back."""
    changed = copy.copy(target)
    object.__setattr__(changed, field, value)
    return changed


PARTS = pd.DataFrame({"part": ["GPU"], "kind": ["GPU"], "count": [1]})
TWO_ROWS = {name: np.array([value, value]) for name, value in STRATEGY.columns(8).items()}
TYPED = changed_by_hand(MODEL, "lora_rank", "1,000")
OTHER_LINKS = changed_by_hand(BOX, "links", changed_by_hand(BOX.links, "nic_Bps", math.nan))


def test_a_column_of_a_table_is_a_list():
    states = ["Texas", "Ohio"]
    assert [*railcore.Area(states=pd.Series(states)).states] == [*railcore.Area(states=states).states]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: railcore.readable(None), "table is None: give a table, a DataFrame of pandas"),
        (lambda: railcore.readable([1]), "table is .1.: give a table"),
        (lambda: railcore.readable(type("DataFrame", (), {"keys": list})()), "give a table, a DataFrame of pandas"),
        (lambda: railcore.show(None), "value is None: give a number"),
        (lambda: railcore.show([1, 2]), "value is an array: give one number"),
        (lambda: railcore.show(1, 3), "symbol is 3: give a unit"),
        (lambda: railcore.plan({}, progress=3), "progress is 3: give a function"),
        (lambda: railcore.parts_at_risk("rail-only"), "fabric is 'rail-only': give a "),
        (lambda: railcore.bill_table([1], PRICES), "bill has 1: give a list of which each is a BillLine"),
        (lambda: railcore.expected_failures(PARTS), "parts has no column 'gpus_stopped': give a table with part, kind"),
        (lambda: railcore.expected_error(MODEL, BOX, 8, own=PARTS), "own has no column 'mixture': give own_errors"),
        (lambda: railcore.iteration_time(type(MODEL), BOX, STRATEGY, 8), "model is <class .*give Transformer"),
        (lambda: railcore.iteration_time(MODEL, MODEL, STRATEGY, 8), "machine is Transformer.*give catalog_machine"),
        (
            lambda: railcore.iteration_time(MODEL, BOX, TWO_ROWS, 8),
            "strategy has several values of .*: give one row of",
        ),
        (lambda: railcore.iteration_time(MODEL, BOX, dict, 8), "strategy is <class 'dict'>: give Strategy"),
        (lambda: railcore.iteration_time(TYPED, BOX, STRATEGY, 8), "model.lora_rank is '1,000', changed by hand: give"),
        (lambda: railcore.iteration_time(MODEL, OTHER_LINKS, STRATEGY, 8), "machine.links.nic_Bps is nan: give"),
        (lambda: railcore.photonic_overhead(MODEL, BOX, STRATEGY, PARTS, 4), "reconfiguration_s is a table: give"),
        (lambda: rail_only(10**400, 8, 64), "gpus is 1000.*more than a float holds: give a whole number"),
        (
            lambda: search(MODEL, BOX, 16, 16, offload=[1]),
            "offload has 1: give a list of which each is a list or a tex",
        ),
        (lambda: price_books.PriceBook(None, 400), "port is None: give a number"),
        (lambda: price_books.PriceBook(600, 400, name=3), "name is 3: give a text"),
        (lambda: replace(PRICES, dac=math.inf), "dac is inf: give a finite number"),
        (lambda: PRICES.times({"prot": 2.0}), "'prot' does not exist: the nearest are 'port'"),
        (
            lambda: cost.compare_rail_networks([64, 128], [8, 8, 8], 16, PRICES, POWERS),
            "radix are of shapes .2,., .3,., ..: give ones that broadcast",
        ),
        (lambda: STRATEGY.groups([1]), "kind is .1.: give a text"),
        (lambda: STRATEGY.placement("many"), "hb_domain_size is 'many'"),
    ],
)
def test_a_wrong_object_is_refused_by_the_name_of_its_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
