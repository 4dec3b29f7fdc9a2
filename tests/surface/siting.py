"""Good calls of what is public in railcore.engines.siting."""

from pathlib import Path

import numpy as np
import pandas as pd

from railcore.engines.datacenter.training_case import TrainingCase
from railcore.engines.siting.areas import Area, city_point, people_within, state_names
from railcore.engines.siting.authorities import authority_caps, authority_row, expected_values, feeders_of_parts
from railcore.engines.siting.cities import nearest_city
from railcore.engines.siting.counting import best_by_rule, room_for
from railcore.engines.siting.direct_lines import direct_lines, distances_to_ends, nearest_direct_line, places_near_line
from railcore.engines.siting.distances import (
    diameter_m,
    distance_to_place,
    fibre_delays_s,
    index_pairs,
    pair_distances_m,
    pairwise_links,
)
from railcore.engines.siting.eia import (
    as_numbers,
    check_authorities,
    check_has_rows,
    code_meanings,
    existing_file,
    find_columns,
)
from railcore.engines.siting.multisite import multisite_times, training_cases
from railcore.engines.siting.reasons import mix_diversity, user_latency
from railcore.engines.siting.search import MixedIntegerProgramme, bits_of, members_of
from railcore.engines.siting.sitings import even_shares, power_mix, shares_or_nan
from railcore.engines.siting.split import (
    Split,
    Survey,
    best_split,
    find_places,
    nearest_to_anchors,
    sitings_by_objective,
    splits,
)
from railcore.engines.siting.split_problem import SplitTerms, site_options
from railcore.systems.datacenter.sizing import Site
from railcore.systems.siting.candidates import candidates
from railcore.systems.siting.grid import load_grid
from railcore.systems.siting.nodes import power_nodes
from railcore.training.formats import Precision
from railcore.training.transformer import catalog_model

MIXTURE = catalog_model("DeepSeek-V3")
GRID = load_grid()
NODES = power_nodes(GRID, 100000.0)
NEAR = candidates(GRID, 50000.0, step_deg=1.0, oil=False)
OPTIONS = site_options(NEAR, "installed", 0.5, "unit")

Area(states="TX")
Area().candidates(load_grid(), 75000.0, 1.0)
city_point("Houston")
people_within([40.7], [-74.0], 300000.0)
state_names("NY")
authority_caps(["", "HGMA"])
authority_row("PJM")
feeders_of_parts(
    {"PJM": 9920000000.0, "SRP": 2630000000.0, "NEVP": 2210000000.0, "BPAT": 2140000000.0}, 4160000000.0, 2
)
nearest_city(np.array([38.9]), np.array([-77.0]))
best_by_rule(candidates(load_grid(), 50000.0, step_deg=1.0, oil=False))
distances_to_ends(direct_lines(load_grid()), 45.6, -121.0)
nearest_direct_line(load_grid(), "flops2024 west")
diameter_m(
    site_options(
        Area(near_m=40000.0, near="Manhattan, NY").candidates(load_grid(), 25000.0, 0.5, True, "capacity"),
        "installed",
        0.5,
        "unit",
    ),
    np.array([7]),
)
distance_to_place(power_nodes(load_grid(), 100000.0, "densest first"), "flops2024 east")
fibre_delays_s(3660000.0)
index_pairs([31])
pair_distances_m(
    Area(near_m=40000.0, near="Manhattan, NY").candidates(load_grid(), 25000.0, 0.5, True, "capacity"), np.array([])
)
pairwise_links(Area(near_m=40000.0, near="Manhattan, NY").candidates(load_grid(), 25000.0, 0.5, True, "capacity"), [7])
check_authorities(["", "HGMA"], "codes")
code_meanings("state")
find_columns(
    [
        "Plant  Code",
        "Plant Name",
        "State",
        "Balancing Authority Code",
        "Generator ID",
        "Nameplate Capacity (MW)",
        "Net Summer Capacity (MW)",
        "Energy Source Code",
        "Prime Mover Code",
        "STATUS",
        " latitude",
        "Longitude",
    ],
    {"": ("Nameplate Capacity (MW)",)},
    "may_generator2023.xlsx, sheet 'Operating'",
)
multisite_times(
    {
        "flops2024 MoE": TrainingCase(
            model=MIXTURE,
            precision=Precision(
                rate_format="fp4", master=1.0, weights=0.5, gradients=0.5, optimizer=2.0, element=0.5, mask=1.0
            ),
            site=Site(
                racks=23333,
                rack_gpus=72,
                gpu_rate=2e16,
                memory_bytes=192000000000.0,
                hb_Bps=1800000000000.0,
                nic_Bps=100000000000.0,
                host_Bps=128000000000.0,
                wan_Bps=2500000000.0,
                datacenters=2,
                one_way_delay_s=0.03,
            ),
            options={"recomputed": 3.0},
        )
    },
    0.01,
    [np.array([0.3, 0.7])],
)
training_cases(
    ("flops2024 dense", "flops2024 MoE"),
    Site(
        racks=55,
        rack_gpus=72,
        gpu_rate=2e16,
        memory_bytes=192000000000.0,
        hb_Bps=1800000000000.0,
        nic_Bps=100000000000.0,
        host_Bps=128000000000.0,
        wan_Bps=2500000000.0,
        datacenters=2,
        one_way_delay_s=0.03,
    ),
    bytes_of="flops2024",
    options={"recomputed": 3.0},
)
mix_diversity(np.array([[0.01, 0.01, 0.01, 0.01]]))
user_latency(np.array([38.9]), np.array([-77.0]))
MixedIntegerProgramme(worth=np.array([2760.0]), high=np.array([1.0]), whole=np.array([1.0]))
MixedIntegerProgramme(worth=np.array([2760.0]), high=np.array([1.0]), whole=np.array([1.0])).add_rows(
    np.array([2760.0]), low=1380.0
)
bits_of(np.array([False, True, False, False]))
members_of(8)
even_shares([0.001], 1e-05)
shares_or_nan(np.array([9130000000.0]), 820000.0)
Split(
    SplitTerms(1000000.0, 2, "shortest", resolution_m=75000.0, least_separation_m=151000.0),
    np.array([94, 134]),
    power_w=np.array([500000.0, 500000.0]),
    usable_w=np.array([833000000.0, 109000000.0]),
    longest_m=153000.0,
    spare_w=941000000.0,
    candidates=111,
    strong_enough=111,
    undominated=18,
)
Survey(0.5)
best_split(
    site_options(Area().candidates(load_grid(), 75000.0, 1.0, True, "capacity"), "idle fuelled", 0.5, "unit"),
    1000000000.0,
    2,
    least_separation_m=151000.0,
)
find_places(
    load_grid(), 1000000.0, 75000.0, "headroom after load", 2, Area("Houston", 300000.0, [], 100000.0, 50000.0, [])
)
SplitTerms(1000000.0, 2, "shortest", resolution_m=75000.0, least_separation_m=151000.0)
site_options(
    Area(near_m=40000.0, near="Manhattan, NY").candidates(load_grid(), 25000.0, 0.5, True, "capacity"),
    "installed",
    0.5,
    "unit",
)
expected_values(np.array([0.2, 0.3]))
room_for(NEAR, 1000000000.0, "installed")
places_near_line(NODES, direct_lines(GRID).iloc[0], 100000000.0, 200000.0)
power_mix(NODES, "fuel")
splits(OPTIONS, 1000000000.0, [1, 2])
sitings_by_objective(OPTIONS, 1000000000.0, [1, 2])
nearest_to_anchors(NODES, NODES.supply.installed_w, 1000000000.0, 200000.0, ["flops2024 east"])
existing_file(Path("README.md"))
check_has_rows(pd.DataFrame({"a": [1]}), "a file")
as_numbers(pd.DataFrame({"a": ["1", "2"]}), "a", "a file")
