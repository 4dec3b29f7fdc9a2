"""What the verdicts of flops2024 rest on: choices made from few claims, what they decide, and readings."""

import json
import os
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from railcore import datacenter as dc
from railcore.catalog import files, units
from railcore.catalog.units import km
from railcore.siting import plants
from railcore.siting.grid import load_grid
from railcore.siting.points import points_by_radius
from railcore.siting.rules import HEADROOM, RULES
from railcore.training import scaling_laws, transformer
from railcore.training.formats import catalog_precision
from suite import workspace
from suite.driver import parameters
from suite.flops2024 import (
    exposed_claims,
    nodes,
    scale_out,
    sizing_claims,
    specification,
    transport_cases,
    transport_claims,
)
from suite.flops2024 import scale_out_claims as networks
from suite.flops2024 import siting_claims as siting
from suite.flops2024.training_case import TrainingCase
from suite.ledger import claims, grounds, readings

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")
MODELS = {"dense": "flops2024 dense", "moe": "flops2024 MoE"}
SIZED, KEPT = specification.document_size(document="flops2024"), catalog_precision("flops2024")
DENSE_RATE = specification.document_site(1, document="flops2024", rate="fp4_dense_rate").gpu_rate
# What was free. The text speaks of dense operations; its references count the scores of selective recomputation again
# once or, in a closed form, three times; FP4 and FP8 are the formats that it names, and a copy of the weights may lack.
TIMES = [{"rate": rate, "recomputed": passes} for rate in ("fp4_sparse_rate", "fp4_dense_rate") for passes in (3, 0, 1)]
RULE = [{"rule": rule} for rule in dc.OVERLAP_RULES]
FORMATS = {"weights": (0, 0.5, 1), "gradients": (0.5, 1), "optimizer": (2 * 0.5, 2 * 1)}
BYTES = [dict(zip(FORMATS, sizes, strict=True)) for sizes in product(*FORMATS.values())]


def defaults(number):
    notebook = json.loads(next(workspace.NOTEBOOKS.glob(f"{number}_*.ipynb")).read_text())
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return parameters.defaults(notebook)


def calibration(claim_id):
    return next(row for row in grounds.calibrations() if claim_id in row.used)


@cache
def values(rate="fp4_sparse_rate", recomputed=3.0, rule="each network", tokens=32_000, racks=int(SIZED.racks), **kept):
    """Every claim on memory, layout and communication, at the printed tensor-parallel degree.

    The degree is the text's own; so that other bytes do not move it, a GPU has as much memory as it takes.
    """
    site = specification.document_site(racks, document="flops2024", rate=rate)
    degree = claims.paper_value("flops2024.layout.tensor_parallel")
    models = {key: replace(transformer.catalog_model(name), sequence_length=tokens) for key, name in MODELS.items()}
    cases, quantities = {}, {}
    for key, model in models.items():
        one = dc.model_layer(model, replace(KEPT, **kept))
        enough = float(one.layer_state_bytes + one.activation_bytes) / degree * (1 + 1e-9)
        where = replace(site, memory_bytes=enough)
        cases[key] = TrainingCase(model, one.precision, where, {"recomputed": recomputed}, rule)
        quantities[key] = specification.model_quantities(cases[key], site.memory_bytes)
        assert cases[key].layout.tensor == degree
    sections = dict.fromkeys(("model", "memory", "layout"), quantities["dense"]) | {"moe": quantities["moe"]}
    times = transport_claims.printed_times_s()
    slower = {
        transport_claims.EXPOSED[key]: transport_claims.share_with_slower_sends(
            case, times["single path"] - times["optimum"]
        )
        for key, case in cases.items()
    }
    exposed = exposed_claims.exposed_values(cases, 1.0) | exposed_claims.share_at_dense_rate(cases, DENSE_RATE)
    return specification.values_by_id(sections) | exposed | slower


def decided(alternatives):
    ours = values()
    return {claim_id for choice in alternatives for claim_id in readings.changed_verdicts(ours, values(**choice))}


# Rate, passes, rule and bytes


@pytest.mark.parametrize(
    ("claim_id", "free", "choices"),
    [("flops2024.moe.forward", 2, TIMES), ("flops2024.fig3a.moe_800g", 1, RULE)],
)
def test_one_claim_chooses_and_the_verdicts_that_turn_are_declared(claim_id, free, choices):
    row, chosen = calibration(claim_id), {name: defaults("10")[name] for name in choices[0]}
    meeting = [choice for choice in choices if readings.claim_verdicts(values(**choice))[claim_id] == "reproduced"]
    assert meeting == [chosen]
    assert (row.used, row.free) == ((claim_id,), free)
    by_several = {exposed_claims.AT_DENSE_RATE}  # which no choice turns alone
    assert set(row.predicted) - by_several == decided([choice for choice in choices if choice != chosen]) - set(
        row.used
    )


def test_bytes_follow_from_the_three_parts_and_what_they_decide_is_declared():
    parts = {"weights": "master", "gradients": "gradients", "optimizer": "optimizer"}
    row = calibration("flops2024.memory.master")
    assert set(row.used) == {f"flops2024.memory.{part}" for part in parts.values()} and row.free == len(FORMATS)
    params = transformer.catalog_model(MODELS["dense"]).total_parameters
    for name, part in parts.items():
        printed = claims.paper_value(f"flops2024.memory.{part}") / params - (KEPT.master if name == "weights" else 0)
        assert getattr(KEPT, name) == min(FORMATS[name], key=lambda size, printed=printed: abs(size - printed))
    chosen = {name: getattr(KEPT, name) for name in FORMATS}
    assert chosen in BYTES
    assert set(row.predicted) == decided([sizes for sizes in BYTES if sizes != chosen]) - set(row.used)


def test_two_relations_hold_under_every_combination_and_rest_on_none():
    stable = ("flops2024.dense.compute_bound", "flops2024.fig3c.lossless_20g_exposed")
    for times, kept in product(TIMES, BYTES):
        verdicts = readings.claim_verdicts(values(**times, **kept))  # no rule of overlap is in either
        assert all(verdicts[claim_id] == "reproduced" for claim_id in stable)
    assert not any(grounds.calibrations_of(claim_id) for claim_id in stable)


def test_what_only_a_combination_turns_is_declared_too():
    singles = decided([*TIMES, *RULE, *BYTES])
    some = [{**a, **b, **c} for a, b, c in product(TIMES[::2], RULE[::2], BYTES[::5])]
    assert decided(some) <= singles | {exposed_claims.AT_DENSE_RATE}
    assert grounds.calibrations_of(exposed_claims.AT_DENSE_RATE)


def test_the_training_time_is_four_years_of_360_days():
    row, law, flops = calibration("flops2024.scaling.params"), scaling_laws.scaling_law("Hoffmann 2"), SIZED.dense_flops
    days = units.parse(defaults("09")["training"]) / units.day
    year = "flops2024.scaling.params_one_year"
    assert days == 4 * 360 and (row.free, row.predicted) == (1, (year,))
    assert (
        readings.claim_verdicts({year: float(law.parameters_after(days / 4 * units.day, flops))})[year] == "reproduced"
    )

    def verdict(law, days):
        quantities = {"flops2024.scaling.params": float(law.parameters_after(days * units.day, flops))}
        return readings.claim_verdicts(quantities)["flops2024.scaling.params"]

    assert verdict(law, days) == "reproduced"
    for other in (law, scaling_laws.scaling_law("Hoffmann 2", "printed")):
        assert verdict(other, 4 * 365) == "close"


def test_the_send_that_is_simulated_is_chosen_by_the_optimum_alone():
    row, key = calibration("flops2024.fig5.fct_optimal"), "flops2024.fig5.fct_optimal"
    assert (row.used, row.free) == ((key,), 1)
    assert set(row.predicted) == {f"flops2024.fig5.{name}" for name in ("fct_roce", "fct_single_path", "roce_gap")}
    for model, name in MODELS.items():
        case = transport_cases.document_cases()[model]
        verdict = readings.claim_verdicts({key: float(case.times.pipeline_s)})[key]
        assert (verdict == "reproduced") == (model == "moe"), name


def test_the_way_to_count_parts_is_chosen_by_the_switches_and_the_verdicts_that_turn_are_declared():
    equipment = scale_out.catalog_equipment("51.2T", 800 * units.Gbps, "flops2024", "800G DR8")
    shapes = scale_out.network_shapes(72, 76, 4)
    table = scale_out.compare_shapes([800_000, 836_000], shapes, equipment)
    ways = {
        way: networks.scale_out_entries(table, 800_000, 836_000, way, list(shapes), 5e9, (25e3, 50e3, 90e3)).values
        for way in table["count"].unique()
    }
    row = calibration("flops2024.fattree.switches")
    assert "whole" in ways and readings.claim_verdicts(ways["whole"])[row.used[0]] != "reproduced"
    turned = {key for way in ways.values() for key in readings.changed_verdicts(ways["smooth"], way)}
    assert set(row.predicted) == turned - set(row.used)


def test_the_pue_of_the_split_is_chosen_by_it(accounts):
    row, low, high = calibration("flops2024.siting.datacenters"), SIZED.total_w.min(), SIZED.total_w.max()
    ours, other = (siting.siting_values(total_w, high, "idle fuelled", accounts[5 * km]) for total_w in (low, high))
    key = row.used[0]
    assert row.predicted == () and (ours[key], other[key]) == (2, 3)


def test_ten_claims_of_the_document_are_calibrated():
    used = [claim_id for row in grounds.calibrations() for claim_id in row.used if claim_id.startswith("flops2024.")]
    assert len(used) == len(set(used)) == 10


# Siting


@pytest.fixture(scope="module")
def accounts():
    """`siting_claims.siting_account` by radius of a single place."""
    grid, need = load_grid(), float(SIZED.total_w.min())
    *points, near = points_by_radius(grid, [5 * km, 25 * km, 100 * km], [True])
    groups = [nodes.power_nodes(grid, 100 * km, method) for method in nodes.METHODS]
    return {place.radius_m: siting.siting_account(place, near, groups, need, 150 * km) for place in points}


def counted(**changes):
    """Parameters of notebook 12 as it stands, by the names of `siting_claims.COUNTED_WITH`."""
    cell = defaults("12")
    lengths = {"radius_m": "radius", "point_radius_m": "point_radius", "anchors_m": "intertie_reach"}
    asked = {name: units.parse(cell[text], "m") for name, text in lengths.items()}
    asked |= {name: cell[name] for name in ("oil", "coal_basis", "most_coal", "reserve")}
    return (
        asked | {"demand_w": float(SIZED.total_w.min()), "grid": load_grid().name, "step_deg": cell["step"]} | changes
    )


def sited(accounts, rule, radius_m):
    return siting.siting_values(*SIZED.total_w[[0, -1]], rule, accounts[radius_m])


def test_one_claim_chooses_rule_and_radius_and_the_verdicts_that_turn_are_declared(accounts):
    row = calibration("flops2024.siting.single_site")
    cell = defaults("12")
    chosen = (
        siting.answering_rule(cell["rule"], cell["demand"]),
        units.parse(cell["point_radius"], "m"),
    )
    readings_of_it = [rule for rule in RULES if rule != HEADROOM]  # which is ours, not a reading of the document
    every = {(rule, radius): sited(accounts, rule, radius) for rule in readings_of_it for radius in accounts}
    meeting = [key for key, entries in every.items() if readings.claim_verdicts(entries)[row.used[0]] == "reproduced"]
    assert meeting == [chosen] and len(row.used) == 1 and row.free == 2
    turned = {claim_id for entries in every.values() for claim_id in readings.changed_verdicts(every[chosen], entries)}
    assert set(row.predicted) == turned - set(row.used)
    assert every["installed", 5 * km]["flops2024.siting.datacenters"] == 1  # a single place has it all


def test_readings_of_places_name_the_real_plants_the_nodes_and_the_other_pue(accounts):
    rule, account = "idle fuelled", accounts[5 * km]
    ours, high = sited(accounts, rule, 5 * km), SIZED.total_w[-1]
    real = siting.real_account(counted())
    read = siting.siting_readings(ours, high, rule, account, real)
    assert set(read) == {siting.NEAR_WASHINGTON, siting.DATACENTERS, siting.NORTHWEST_HALF}
    bare = siting.siting_readings(ours, high, rule, account, siting.real_account(counted(demand_w=30e6)))
    assert "2 sites" in bare[siting.NEAR_WASHINGTON] and "EIA-860M" not in bare[siting.NEAR_WASHINGTON]
    for text in (f"on plants of {real.plants.iloc[0]}: 1 site", "circles around any point: 2 sites"):
        assert text in read[siting.NEAR_WASHINGTON]
    assert "the highest: 3 sites" in read[siting.DATACENTERS] and "Table 1: 1 site" in read[siting.DATACENTERS]
    assert "the highest: 0" in read[siting.NORTHWEST_HALF]


def test_the_stored_account_of_real_plants_has_the_form_of_ours(accounts):
    ours, real = accounts[5 * km], siting.real_account(counted())
    assert [*real] == ["plants", *ours, "source", "as_of"] and list(real["rule"]) == list(RULES)
    assert real["demand_w"].tolist() == pytest.approx(ours["demand_w"].tolist())
    ours, real = (table.set_index("rule").western_candidates["idle fuelled"] for table in (ours, real))
    assert (ours, real) == (3, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"demand_w": 30e6},
        {"demand_w": 4.186e9},  # prints alike
        {"grid": "my grid"},
        {"grid": f"{load_grid().name}, plants of your own"},
        {"radius_m": 75e3},
        {"point_radius_m": 10e3},
        {"anchors_m": 200e3},
        {"step_deg": 0.5},
        {"oil": False},
        {"coal_basis": "energy"},
        {"most_coal": 0.4},
        {"reserve": "site"},
    ],
)
def test_stored_counts_stand_only_beside_those_of_the_same_parameters(change):
    assert set(counted()) == set(siting.COUNTED_WITH) >= set(change)
    same, other = siting.real_account(counted()), siting.real_account(counted(**change))
    assert len(same) == len(RULES) and other.empty
    shown, left_out = (siting.counts_on_real(real, "installed") for real in (same, other))
    assert shown["single_places"] == " (3 on the plants of EIA-860M of May 2023)"
    assert shown.keys() == left_out.keys() and set(left_out.values()) == {""}


def test_stored_counts_rest_on_the_project_s_fuels(tmp_path, monkeypatch):
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    head, *rows = (files.DATA / "catalog" / "fuels.csv").read_text().splitlines()
    (tmp_path / "gpus.csv").write_text((files.DATA / "catalog" / "gpus.csv").read_text())
    assert len(siting.real_account(counted())) == len(RULES)
    (tmp_path / "fuels.csv").write_text(f"{head}\n{rows[0]}\n")
    assert siting.real_account(counted()).empty


@pytest.mark.skipif(not FOLDER.is_dir(), reason="RAILCORE_EIA_DIR names no folder with EIA's files")
def test_the_stored_account_is_that_of_the_real_plants():
    real, stored = load_grid().with_plants(plants(FOLDER / "plants.csv.gz")), siting.real_account(counted())
    point, near = points_by_radius(real, [5 * km, 100 * km], [True])
    groups = [nodes.power_nodes(real, 100 * km, method) for method in nodes.METHODS]
    account = siting.siting_account(point, near, groups, float(SIZED.total_w.min()), 150 * km)
    pd.testing.assert_frame_equal(account, stored[[*account]], check_dtype=False, rtol=1e-9)


# Readings


COUNT, SHARE = "railonly2025.text.r64_tiers_rail_only", "railonly2025.text.r64_switch_ratio"  # = 2 tiers, = 0.75


def test_verdicts_turn_where_a_relation_holds_and_another_does_not(monkeypatch):
    ours = {COUNT: 2, SHARE: 0.75}
    assert readings.claim_verdicts(ours | {SHARE: 0.7}) == {COUNT: "reproduced", SHARE: "close"}
    assert readings.changed_verdicts(ours, {COUNT: 3, SHARE: 0.751}) == [COUNT]
    assert readings.changed_verdicts(ours, {SHARE: 0.7}) == [SHARE]
    choices = {"two": {"three": {COUNT: 3}, "four": {COUNT: 4}}, "all": {"half": {SHARE: 0.375, COUNT: 2}}}
    texts = readings.verdict_readings(ours, choices)
    assert texts == {COUNT: "two (three: 3 tiers, four: 4 tiers)", SHARE: "all (half: 0.375)"}
    assert readings.joined_texts(texts, {COUNT: "more"})[COUNT] == f"{texts[COUNT]}; more"
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")
    assert readings.verdict_readings(ours, choices) == {}


def named(texts, words):
    return {claim_id for claim_id, text in texts.items() if words in text}


def test_readings_of_time_and_bytes_are_those_whose_verdict_turns():
    cases = {
        key: TrainingCase(
            transformer.catalog_model(name), KEPT, specification.document_site(int(SIZED.racks), document="flops2024")
        )
        for key, name in MODELS.items()
    }
    fast = specification.document_site(1, document="flops2024", rate="fp4_sparse_rate").gpu_rate
    cases = {key: case.changed(site={"gpu_rate": fast}, options={"recomputed": 3.0}) for key, case in cases.items()}
    ours = exposed_claims.exposed_values(cases, 1.0)
    texts = exposed_claims.exposed_readings(ours, cases, 1.0, 32_768)
    assert named(texts, "32k tokens") == decided([{"tokens": 32_768}])
    assert named(texts, "23,333 racks") == {key for key in decided([{"racks": 23_300}]) if key in ours}
    assert named(texts, "great circle") == {"flops2024.fig3c.one_way_delay", "flops2024.dense.wan_rtt"}
    for claim_id, text in texts.items():
        assert claims.claim_amount(ours[claim_id], claims.claim(claim_id).unit) not in text.partition("(")[2]


def test_readings_of_size_and_layout():
    models = {name: transformer.catalog_model(name) for name in MODELS.values()}
    where = specification.document_site(int(SIZED.racks), document="flops2024", rate="fp4_sparse_rate")
    rule = scaling_laws.depth_and_width(103.8e12)
    cases = {name: TrainingCase(model, KEPT, where) for name, model in models.items()}
    ours = sizing_claims.layout_values(cases) | sizing_claims.machine_values(SIZED)
    ours |= sizing_claims.shape_values(cases, 256) | {"flops2024.model.layers": float(rule.layers)}
    read = sizing_claims.sizing_readings(ours, cases, SIZED)
    degree, memory = "flops2024.layout.tensor_parallel", "flops2024.moe.device_memory"
    assert ours[degree] == 16 and "divides a rack: 18 GPUs" in read[degree]
    if readings.claim_verdicts(ours)[memory] == "reproduced":
        assert read[memory].endswith("(with those of one micro-batch: 184.439 GB)")
    assert "flops2024.layout.device_memory" not in read  # holds with both
    power, rate = "flops2024.infra.total_power_low", "flops2024.infra.fp4_dense"
    assert ours[power] == pytest.approx(4.161e9, rel=1e-4) and "4.18594 GW" in read[power]
    assert named(read, "the printed 1.67 million GPUs (") == {power}
    turned = decided([{"racks": 23_300}, {"racks": 1_670_000 // 72}])
    assert named(read, "23,333 racks") == {key for key in turned if key in ours} | {power, rate}
    assert "39.0758 GB" in read["flops2024.memory.residual"] and "254,563" in read["flops2024.model.hidden"]
    texts = sizing_claims.sizing_reasons(SIZED, "Hoffmann 2", cases, 256)
    low, high = (texts[f"flops2024.infra.total_power_{end}"] for end in ("low", "high"))
    assert low == "these draw 3.015 GW, x 1.2 = 3.618, x 1.15 = 4.161 GW"
    assert "x 1.3 = 4.704 GW; from 1.670" in high and high.endswith("printed alike, it comes out")
    unmet = {key for key, verdict in readings.claim_verdicts(ours).items() if verdict != "reproduced"}
    assert unmet <= set(texts)


def test_one_number_of_gpus_and_one_count_for_all_networks():
    nic = 800 * units.Gbps
    equipment = scale_out.catalog_equipment("51.2T", nic, "flops2024", "800G DR8")
    table = scale_out.compare_shapes([800_000, 835_000, 836_000], scale_out.network_shapes(72, 76, 4), equipment)
    names = list(scale_out.network_shapes(72, 76, 4))
    chip_usd = (25e3, 50e3, 90e3)
    ours, texts, read = networks.scale_out_entries(table, 800_000, 836_000, "smooth", names, 5e9, chip_usd)
    rows = table[(table.gpus == 800_000) & (table["count"] == "smooth")].set_index("network")
    assert ours["flops2024.fattree.cost_over_budget"] == pytest.approx(rows.cost_usd["fat tree"] / 5e9)
    more, *_ = networks.scale_out_entries(table, 835_000, 836_000, "smooth", names, 5e9, chip_usd)
    assert named(read, "800,000 GPUs, as") == set(readings.changed_verdicts(ours, more))
    assert "the wires alone, whose price the section prints: 0.96" in read["flops2024.fattree.cost_over_budget"]
    chips, fewer = (
        "flops2024.multirail4p.chips",
        networks.scale_out_entries(table, 800_000, 800_000, "smooth", names, 5e9, chip_usd)[0],
    )
    assert fewer[chips] == rows.chips[names[-1]] and ours[chips] == pytest.approx(fewer[chips] * 836 / 800)
    assert (readings.claim_verdicts(fewer)[chips], readings.claim_verdicts(ours)[chips]) == ("close", "reproduced")
    assert "800,000 GPUs in all: 37,500 chips" in read[chips]
    assert [
        key for key in ours if key not in (chips, chips.replace("chips", "cables")) and fewer[key] != ours[key]
    ] == []
    unmet = {key for key, verdict in readings.claim_verdicts(ours).items() if verdict != "reproduced"}
    assert unmet <= set(texts)


def test_the_own_choice_may_be_a_rail_for_each_gpu_of_a_rack():
    equipment = scale_out.catalog_equipment("51.2T", 800 * units.Gbps, "flops2024", "800G DR8")
    shapes = scale_out.network_shapes(72, 72, 4)
    names, table = list(shapes), scale_out.compare_shapes([10_000], shapes, equipment)
    assert len(names) == 4 and not table.duplicated(["network", "gpus", "count"]).any()
    asked = 10_000, 10_000, "smooth", [*names, names[-1]], 5e9, (25e3, 50e3, 90e3)
    ours, texts, _ = networks.scale_out_entries(table, *asked)
    chosen = table[table["count"] == "smooth"].set_index("network").loc[names[-1]]
    assert ours["flops2024.multirail4p.chips"] == chosen.chips
    assert f"to {chosen.chips:,.0f} chips; the section" in texts["flops2024.multirail4p.chip_cost_reduction"]


def test_a_mask_takes_a_byte_and_the_printed_formula_follows():
    model = transformer.catalog_model(MODELS["dense"])
    counted = dc.model_layer(model, KEPT).activation_bytes / (model.sequence_length * model.hidden)
    assert (KEPT.mask, KEPT.element) == (1, 0.5) and counted == 10
    thin = dc.model_layer(model, replace(KEPT, mask=0.5)).activation_bytes / (model.sequence_length * model.hidden)
    assert thin == 9
