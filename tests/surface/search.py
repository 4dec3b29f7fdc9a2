"""Good calls of what is public in railcore.engines.search."""

import numpy as np

from railcore.engines.search.answers import designs, robust, runner_up_wins
from railcore.engines.search.gpu_counts import gpu_counts, near_batches
from railcore.engines.search.hb_domains import (
    best_times,
    hb_domain_summary,
    slowdown_by_sustained_rate,
    smallest_hb_domain_near_ideal,
)
from railcore.engines.search.labels import strategy_label
from railcore.engines.search.parts import search, search_parts
from railcore.engines.search.result import fastest_of
from railcore.engines.search.space import strategy_blocks
from railcore.engines.search.splits import (
    all_splits_at_most,
    allowed_values,
    among,
    divisors,
    exact_splits,
    splits_at_most,
)
from railcore.training.machine import catalog_machine
from railcore.training.runtime import catalog_runtime
from railcore.training.transformer import catalog_model

MODEL = catalog_model("Llama-3 8B")
MACHINE = catalog_machine("DGX H100")
RUNTIME = catalog_runtime("modern")
FOUND = search(MODEL, MACHINE, 16, 16, tensor=8, pipeline=2)
SIZES = best_times({"8B": MODEL}, MACHINE, gpus=[16], hb_domain_sizes=[2, 4, 8], batches={"8B": [16]})
WIDE = search(MODEL, MACHINE, 16, 16)

gpu_counts(MODEL, MACHINE, 6, 24)
near_batches(2.04, 2)
best_times({"Llama-3 8B": MODEL}, MACHINE, [64], [2, 8, 16], {"Llama-3 8B": [64, 128]}, [50000000000.0, 100000000000.0])
slowdown_by_sustained_rate(["Llama-3 8B"], "DGX H100", [64], 24, [0.5, 1.0], batches={"Llama-3 8B": [64]}, tensor=8)
strategy_label(
    {
        "micro_batch": 1,
        "tensor": 2,
        "context": 1,
        "expert": 1,
        "pipeline": 2,
        "data": 16,
        "interleave": 16,
        "sequence_parallel": True,
        "recompute": "none",
        "sharding": "none",
        "keep_gathered": True,
        "ends_as_layers": False,
        "whole_experts": False,
        "placement": "tensor first",
        "global_batch": 512,
    }
)
search("GPT-3", MACHINE, 256, 384, context=1, placement="tensor first")
search_parts(
    "GPT-3",
    MACHINE,
    256,
    384,
    runtime=RUNTIME,
    offload="none",
    top=2,
    at_most=False,
    shares=1,
    hb_domain_size=None,
    only_best=False,
    fabric=None,
    context=1,
    placement="tensor first",
)
fastest_of(np.array([]), np.array([]), 50)
strategy_blocks("GPT-3", MACHINE, 256, 384, context=1, placement="tensor first")
all_splits_at_most(
    MODEL,
    13,
    (
        ("micro_batch", None),
        ("tensor", (1, 2, 4)),
        ("context", None),
        ("expert", None),
        ("pipeline", None),
        ("data", None),
        ("interleave", None),
        ("sequence_parallel", None),
        ("recompute", None),
        ("sharding", None),
        ("keep_gathered", None),
        ("ends_as_layers", None),
        ("whole_experts", None),
        ("placement", (0, 1, 2)),
        ("global_batch", (12,)),
    ),
    6,
    True,
)
allowed_values(24, {"context": [1, 2, 3]})
among(divisors(8), None)
divisors(8)
exact_splits(
    MODEL,
    16,
    (
        ("micro_batch", None),
        ("tensor", None),
        ("context", (1,)),
        ("expert", None),
        ("pipeline", None),
        ("data", None),
        ("interleave", None),
        ("sequence_parallel", None),
        ("recompute", None),
        ("sharding", None),
        ("keep_gathered", None),
        ("ends_as_layers", None),
        ("whole_experts", None),
        ("placement", (0,)),
        ("global_batch", (8, 12)),
    ),
)
splits_at_most(
    MODEL,
    16,
    (
        ("micro_batch", None),
        ("tensor", None),
        ("context", None),
        ("expert", None),
        ("pipeline", None),
        ("data", None),
        ("interleave", None),
        ("sequence_parallel", None),
        ("recompute", None),
        ("sharding", None),
        ("keep_gathered", None),
        ("ends_as_layers", None),
        ("whole_experts", None),
        ("placement", (0, 1, 2)),
        ("global_batch", (8,)),
    ),
    8,
    True,
)
designs(FOUND, 3)
robust(FOUND, 3)
smallest_hb_domain_near_ideal(SIZES, 0.1)
hb_domain_summary(SIZES, 8, 0.1)
runner_up_wins(WIDE, 2)
