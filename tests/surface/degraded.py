"""Good calls of what is public in railcore.engines.degraded."""

import numpy as np
import pandas as pd

from railcore.engines.degraded.expert_loads import LinkLoads, expert_demand, expert_load, link_loads
from railcore.engines.degraded.faults import fail, failed_part, rail_switch_survey, replace_gpu, wiring_left
from railcore.engines.degraded.goodput import lost_shares, training_goodput
from railcore.engines.degraded.job_networks import job_networks, network_shares
from railcore.engines.degraded.locality import (
    band_placement,
    best_band_count,
    chain_crossing,
    counted_crossing,
    oversubscribed_leaves,
    placement_bands,
    rack_placements,
    ring_crossing,
)
from railcore.engines.degraded.routed_flows import (
    domain_ring,
    fabric_loads,
    flow_times,
    gpu_names,
    moved_to_other_rails,
    nic_bandwidth_share,
    share_of_nic,
)
from railcore.engines.degraded.slowdowns import (
    checked_job,
    dense_slowdown,
    dense_slowdowns,
    failed_part_slowdowns,
    feasibility_warnings,
    mixture_slowdowns,
    platform_fabric,
)
from railcore.engines.deployment.scale_out import Equipment
from railcore.network.price_books import PriceBook, power_book, price_book
from railcore.network.topology.graph import build_graph
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import rail_only
from railcore.network.topology.wiring import whole_wiring
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import catalog_model

MODEL = catalog_model("Llama-3 8B")
MACHINE = catalog_machine("DGX H100")
STRATEGY = Strategy(tensor=2, pipeline=2, data=2)
FABRIC = rail_only(64, 8, 16)
PRICES = price_book("street2025")
POWERS = power_book("street2025")
FLOWS = pd.DataFrame({"source": [0], "target": [8], "bytes": [1000000000.0]})

LinkLoads(np.array([[[0.0]]]), np.array([[0.0]]), np.array([[0.0]]), np.array([0.0]), np.array([0.0]))
expert_demand(7.0, 2, 2.0)
expert_load(2, 2.0, "hot")
link_loads(expert_demand(1000000.0, 8, 4.0), 2, "two-hop")
fail(build_graph(FABRIC, None), "spine")
failed_part(build_graph(FABRIC, None), "spine")
wiring_left(whole_wiring(FABRIC), "NIC")
training_goodput(FABRIC, "Llama-3 405B", "DGX H100", STRATEGY, 8)
job_networks(MODEL, MACHINE, 512, 512, 16, PRICES, POWERS, tokens=1000000000000.0, pipeline=1)
band_placement(7, 5, 7)
best_band_count(5, 3, 5)
chain_crossing(2, 5, 2, 1, 13)
counted_crossing(band_placement(3, 3, 3), 1, 9)
oversubscribed_leaves(
    2048,
    4,
    1,
    [1, 1.5, 2, 3, 4, 8],
    32,
    16,
    Equipment(
        "51.2T",
        100000000000.0,
        PriceBook(800, 1000, rate_Bps=100000000000.0),
        PriceBook(17, 15, rate_Bps=100000000000.0),
    ),
)
placement_bands(8, 2, 4)
rack_placements(8, 2, 4)
ring_crossing(5, 3, 2, 16)
domain_ring(4, 4)
gpu_names(range(0, 24), 4)
checked_job(PhotonicRails(8, 8, 64, 4, planes=4), MODEL, STRATEGY, 8)
dense_slowdown(FABRIC, MODEL, MACHINE, Strategy(data=64, sharding="weights"), 64)
failed_part_slowdowns(FABRIC, "Llama-3 405B", "DGX H100", Strategy(tensor=8, data=8), 8)
feasibility_warnings("memory")
network_shares({"rail-only": FABRIC}, MODEL, MACHINE, STRATEGY, 8)
platform_fabric("GB200 NVL72", 144, 64)
dense_slowdowns(FABRIC, {"8B": MODEL}, MACHINE, 64, 2)
mixture_slowdowns(catalog_model("DeepSeek-V3"), MACHINE, Strategy(pipeline=2, data=32, expert=32), 64, [8], [1.0], 64)
moved_to_other_rails(FABRIC, FLOWS, np.array([0]))
rail_switch_survey(pd.DataFrame({"gpus": [64], "radix": [16]}), 8)
replace_gpu(FABRIC.graph(), "D1.GPU1", "D1.GPU2")
lost_shares(
    pd.DataFrame({"stops": [True], "tokens_share": [1.0], "events_per_year": [12.0], "parts_down": [0.01]}), 60.0, 600.0
)
fabric_loads(FABRIC, FLOWS)
flow_times(FABRIC, FLOWS)
share_of_nic(FABRIC, FLOWS, flow_times(FABRIC, FLOWS))
nic_bandwidth_share(FABRIC, [FLOWS])
