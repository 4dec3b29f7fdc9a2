"""Speed of what users sweep; `make bench` prints minimum, median and maximum, and README.md keeps the figures."""

import resource
import subprocess
import sys

import numpy as np
import pytest

from railcore.network.cost import compare, power_book, price_book
from railcore.network.topology import rail_only, rail_optimized, rail_parts

CLUSTER = "from railcore.network.topology import {0}; {0}(65536, 256, 64).graph()"


@pytest.fixture(scope="module")
def million():
    rng = np.random.default_rng(0)
    gpus, domains = rng.integers(1024, 131072, 10**6), 2 ** rng.integers(3, 10, 10**6)
    return gpus, domains, 2 * rng.integers(16, 129, 10**6)


@pytest.mark.parametrize("oversubscription", [np.inf, 4.0, 1.0], ids=["rail-only", "layer 4:1", "rail-optimized"])
def test_parts_of_a_million_fabrics(benchmark, million, oversubscription):
    parts = benchmark.pedantic(rail_parts, (*million, oversubscription), rounds=5, warmup_rounds=1)
    assert parts.switches.shape == (10**6,)


def test_costs_of_a_hundred_thousand_pairs(benchmark, million):
    some = [array[: 10**5] for array in million]
    table = benchmark.pedantic(compare, (*some, price_book("street2025"), power_book("street2025")), rounds=5)
    assert len(table) == 10**5


@pytest.mark.parametrize("fabric", [rail_only, rail_optimized])
def test_graph_of_65536_gpus(benchmark, fabric):
    command = [sys.executable, "-c", CLUSTER.format(fabric.__name__)]
    subprocess.run(command, check=True)
    benchmark.extra_info["peak_MB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    graph = benchmark.pedantic(lambda: fabric(65536, 256, 64).graph(), rounds=5, warmup_rounds=1)
    assert sum(kind == "gpu" for _, kind in graph.nodes(data="kind")) == 65536
