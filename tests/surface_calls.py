"""Good calls of what a user calls or makes first: what `railcore` exports, the catalog's loader, parts of the guide.

A call is a partial of its arguments. tests/test_surface.py makes each argument bad, given or left at its default.
"""

import math
from dataclasses import fields
from functools import partial as call
from typing import Any

import pandas as pd

import railcore as rc
from railcore import catalog
from railcore.catalog.arguments import checked
from railcore.catalog.template import template
from railcore.network.topology.failed_part import FailedPart
from railcore.network.topology.rails import RailFabric
from railcore.siting.grid import PowerGrid
from railcore.siting.places import Survey

MODEL, BOX = rc.catalog_model("Llama-3 8B"), rc.catalog_machine("DGX H100")
STRATEGY = rc.Strategy(tensor=2, pipeline=2, data=2)
JOB = (MODEL, BOX, STRATEGY)
FABRIC = rc.rail_only(64, 8, 16)
PRICES = rc.PriceBook(600, 400, dac=100, circuit_port=500, rate_Bps=5e10)
POWERS = rc.PriceBook(20, 10, dac=0.1, circuit_port=0.4, rate_Bps=5e10)
LAW = rc.scaling_law("Hoffmann 2")
LAYER, SITE = rc.model_layer(MODEL, "fp8"), rc.datacenter_site(1000, "GB200 NVL72", "fp8_dense_rate")
LAID = rc.rack_layout(LAYER, SITE)
SIZED = rc.datacenter_size(1e10, "GB200 NVL72", power_w=1e9, gpus=72_000, racks=1000)
SPEC = {
    "cluster": {"platform": "DGX H100", "gpus": 64},
    "job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 72, "search": {"context": 1, "micro_batch": 1}},
    "network": {"candidates": ["rail-only"]},
}


@checked
def times_of_columns(**columns: Any) -> Any:
    return rc.iteration_times(MODEL, BOX, columns)


def ohio() -> PowerGrid:
    us = rc.load_grid()
    near = us.plants[us.plants["state"] == "Ohio"].reset_index(drop=True)
    return PowerGrid("Ohio", near, us.lines.iloc[:0], us.substations.iloc[:50], us.loads.iloc[:50])


CALLS = [
    call(catalog.item, "gpus", "H20"),
    call(catalog.names, "gpus"),
    call(catalog.values, "assumed"),
    call(template, "prices", "mine"),
    call(rc.show, 0.375),
    call(rc.readable, pd.DataFrame({"network": ["rail-only", "Clos"], "cost_usd": [1e6, 2e6]}), 4),
    # networks
    call(rc.rail_only, 64, 8, 16, nic_Bps=5e10, hb_Bps=1e11),
    call(RailFabric, 64, 8, 16, math.inf),
    call(rc.rail_optimized, 32, 4, 4),
    call(rc.fat_tree, 64, 16, hb_domain_size=8),
    call(rc.PhotonicRails, 64, 8, 64, nic_ports=2, planes=2, fibres_per_port=1, rails_per_switch=2),
    call(FailedPart, rc.rail_only(64, 8, 8, planes=4), "plane"),
    call(rc.PriceBook, 600, 400, dac=100, circuit_port=500),
    call(rc.price_book, "street2025"),
    call(rc.power_book, "street2025"),
    call(rc.matching_books, "street2025"),
    call(rc.bill_table, FABRIC.parts.bill(), PRICES, POWERS),
    call(rc.cluster_networks, 4096, 16, 32, 4.0, PRICES, POWERS),
    call(rc.compare_rail_networks, [64, 128], 8, [[16], [64]], PRICES, POWERS),
    call(rc.ownership_costs, 64, 8, 16, PRICES, POWERS, 4, 2e-8, 1.2),
    call(rc.parts_at_risk, FABRIC, ""),
    call(rc.expected_failures, rc.parts_at_risk(FABRIC, ""), "value"),
    call(rc.fault_effects, FABRIC),
    call(rc.failed_part_slowdowns, FABRIC, MODEL, BOX, rc.Strategy(tensor=8, data=8), 8),
    call(rc.training_goodput, FABRIC, MODEL, BOX, rc.Strategy(tensor=8, data=8), 8),
    call(rc.photonic_overhead, MODEL, BOX, STRATEGY, "1 ms", 4, True),
    # training
    call(rc.Transformer, "dense", 8, 512, 8, 4, 2048, 4000, 64, ffn_matrices=2),
    call(rc.catalog_model, "Llama-3 70B", sequence_length=4096),
    call(rc.catalog_machine, "DGX H100", "fp8", nic_Bps=5e10),
    call(BOX.changed, **BOX.values),
    call(rc.Runtime, overlap_data=False),
    call(rc.runtime_of, "DGX H100", "2021-04"),
    call(rc.Strategy, tensor=8, pipeline=4, data=2),
    call(STRATEGY.columns, 64),
    call(rc.megatron_run, "--micro-batch-size 1", 8, 50000),
    call(rc.iteration_times, MODEL, BOX, STRATEGY.columns(8)),
    call(times_of_columns, **STRATEGY.columns(8)),
    call(rc.iteration_time, *JOB, 8),
    call(rc.stage_memory, *JOB, 8),
    call(rc.iteration_traffic, MODEL, STRATEGY, 8),
    call(rc.software_times, *JOB, 8),
    call(rc.expected_error, MODEL, BOX, 64),
    call(rc.search, MODEL, BOX, 16, 16, runtime="modern", tensor=8, pipeline=2, recompute="none"),
    call(rc.scaling_law, "Hoffmann 2", "table"),
    call(LAW.parameters_after, 1e6, 1e18, 0.4),
    call(LAW.warnings, 1e25),
    # datacenters
    call(
        rc.datacenter_size, 1e10, "GB200 NVL72", "street2025", rate_format="fp8", power_w=1e9, gpus=72_000, racks=1000
    ),
    call(type(SIZED), **{each.name: getattr(SIZED, each.name) for each in fields(SIZED) if each.init}),
    call(rc.datacenter_site, 1000, "GB200 NVL72", "fp8_dense_rate", nic_Bps=5e10),
    call(type(SITE), **vars(SITE)),
    call(rc.model_layer, MODEL, "fp8", layers=80, hidden=8192),
    call(rc.rack_layout, LAYER, SITE, tensor=8),
    call(rc.layer_times, LAYER, LAID, SITE),
    call(rc.load_grid),
    call(rc.Area, "Houston", 3e5, [], 1e5, 5e4, []),
    call(Survey, 0.5),
    call(
        rc.find_places,
        *(ohio(), 1e9, 75e3, "installed", 2),
        survey=Survey(1.0, reserve="none", most_coal=1.0),
        apart_m=160e3,
    ),
    call(
        rc.find_split,
        *(ohio(), 1e9, 75e3, 1, "installed"),
        survey=Survey(1.0, reserve="none", most_coal=1.0),
        **{"least_separation_m": 160e3, "place_cap_w": 1e10, "objective": "spare", "least_share": 0.5},
        authority_caps={},
    ),
    call(rc.plan, SPEC),
]
