from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import Gbps
from railcore.training import transfers, transformer
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from suite import workspace
from suite.railonly2025.expert_job import ExpertJob
from suite.railonly2025.expert_loads import expert_demand
from suite.railonly2025.expert_routing import expert_all_to_all_time
from suite.railonly2025.moe import (
    ROUTING_LOADS,
    entry_sizes,
    formula_error,
    iteration_overheads,
    moe_claims,
    platform_links,
    platform_routing_slowdowns,
    printed_slowdowns,
    routing_slowdowns,
    share_mark,
    share_readings,
)

MODEL = transformer.catalog_model("MoE-1.3B")
JOB = ExpertJob(MODEL, 128, 8, 4)
HB, NIC = 3600 * Gbps, 400 * Gbps


def test_static_parameters_are_the_dense_model_s_without_every_other_feed_forward_and_with_the_routers():
    dense = replace(MODEL, experts=0)
    one_layer = (dense.total_parameters - replace(dense, layers=MODEL.layers - 1).total_parameters) - (
        MODEL.attention_weights + MODEL.hidden * (4 + 4)  # biases of attention, two norms
    )
    expected = dense.total_parameters - MODEL.mixture_layers * (one_layer - MODEL.hidden * MODEL.experts)
    assert JOB.shared_gradient_bytes == pytest.approx(2 * expected)
    assert JOB.shared_gradient_bytes == pytest.approx(2 * (MODEL.total_parameters - MODEL.expert_parameters))
    assert replace(JOB, runtime=Runtime(gradient_bytes=4)).shared_gradient_bytes == pytest.approx(4 * expected)


def test_matrices_sum_to_what_is_sent():
    sent = JOB.iteration_traffic
    exchanged = replace(sent, matrices={"expert": sent.matrices["expert"]}).dense()
    reduced = sent.dense() - exchanged
    for axis in (0, 1):
        assert reduced.sum(axis=axis) == pytest.approx(np.full(128, 2 * JOB.shared_gradient_bytes * 127 / 128))
    assert (JOB.exchanges, JOB.exchange_bytes) == (48, 4 * 2048 * 2048 * 2)
    demand = 48 * expert_demand(JOB.exchange_bytes, 128, experts=128)
    assert exchanged == pytest.approx(demand * (1 - np.eye(128)))
    assert exchanged == pytest.approx(exchanged.T)


def test_the_job_sends_what_the_step_of_its_strategy_does():
    table = transfers.transfer_table(MODEL, Strategy(data=128, expert=128, micro_batch=4), 512, JOB.runtime)
    sent = table.groupby("kind")["sent_bytes"].sum()
    volumes = JOB.volumes().groupby("kind")["bytes"].sum() / 128
    assert volumes["AllReduce"] == pytest.approx(sent["data"])
    assert volumes["all-to-all"] == pytest.approx(sent["expert"])


def test_readings_of_the_share_follow_from_the_bytes():
    shares, static, sent = share_readings(JOB), JOB.shared_gradient_bytes, 48 * JOB.exchange_bytes
    assert shares["gradients of 4 bytes"] == pytest.approx(sent / (sent + 4 * static))
    assert shares["forward pass recomputed: 6 exchanges"] == pytest.approx(1.5 * sent / (1.5 * sent + 2 * static))
    assert shares["both of these"] == pytest.approx(1.5 * sent / (1.5 * sent + 4 * static))
    untied = static + 2 * MODEL.vocabulary * MODEL.hidden
    assert shares["output embedding not tied to the input's"] == pytest.approx(sent / (sent + 2 * untied))
    away, reduced = 15 * 7 / 127, 2 * static
    assert shares["of the all-to-all only what changes rails"] == pytest.approx(away * sent / (away * sent + reduced))


def test_the_all_reduce_stays_on_its_rails_and_the_share_is_that_of_the_bytes():
    volumes = JOB.volumes().set_index(["kind", "path"]).bytes
    assert volumes["AllReduce", "NIC, other rail"] == 0
    assert volumes["all-to-all"].sum() / volumes.sum() == pytest.approx(JOB.all_to_all_share, rel=1e-9)
    away = volumes["all-to-all"] / volumes["all-to-all"].sum() * 127
    assert list(away) == pytest.approx([7, 15, 15 * 7])


@given(st.floats(0.01, 0.99))
def test_the_solved_batch_gives_the_share(share):
    solved = replace(JOB, sequences_per_gpu=JOB.sequences_for_share(share))
    assert solved.all_to_all_share == pytest.approx(share)


def test_one_domain_sends_nothing_outside():
    small = ExpertJob(transformer.catalog_model("MoE-1.3B", experts=8), 8, 8, 4)
    volumes = small.volumes()
    assert volumes[volumes.path != "HB domain"].bytes.sum() == 0


def test_times_are_sums_of_exchanges_and_of_a_hierarchical_all_reduce():
    times = JOB.times(HB, NIC, 1e15)
    link = (JOB.exchange_bytes, 128, 8, HB, NIC)
    assert times["all-to-all, rail-only"] == pytest.approx(48 * expert_all_to_all_time(*link))
    assert times["all-to-all, rail-optimized"] == pytest.approx(48 * JOB.exchange_bytes * 15 / 16 / NIC)
    halves = 2 * JOB.shared_gradient_bytes * (7 / 8 / HB + 15 / 16 / 8 / NIC)
    assert times["AllReduce"] == pytest.approx(halves)
    assert times["compute"] == pytest.approx(float(MODEL.training_flops(4, causal=False)) / 1e15)


def test_an_overhead_thins_with_what_it_is_a_share_of():
    table = iteration_overheads(JOB, ["DGX A100", "DGX H100"])
    for row in table.itertuples():
        assert row.bandwidth_ratio > row.all_to_all > row.communication > row.iteration > 0
        assert row.by_volume == pytest.approx(JOB.all_to_all_share * row.all_to_all)
        assert row.all_to_all == pytest.approx(row.bandwidth_ratio * (7 / 8) / (15 / 16))
        assert row.iteration_at_once == 0  # the NIC is the slower one
    spent = table.set_index("platform").loc["DGX A100"]
    extra = spent["all-to-all, rail-only_s"] - spent["all-to-all, rail-optimized_s"]
    whole = spent[["all-to-all, rail-optimized_s", "AllReduce_s", "compute_s"]].sum()
    assert spent["iteration"] == pytest.approx(extra / whole)


def test_links_of_a_platform_are_its_catalog_rows():
    mesh = catalog.item("platforms", "MI300X full mesh")
    links = platform_links("MI300X full mesh")
    assert (links.hb_domain_size, links.hb_Bps, links.nic_Bps) == (8, mesh["hb_bandwidth"], mesh["nic_bandwidth"])
    assert links.mesh and not platform_links("DGX H100").mesh


def test_a_mesh_stands_beside_its_switched_twin():
    links = {name: platform_links(name) for name in ("DGX H100", "MI300X full mesh")}
    table = platform_routing_slowdowns(1e6, 64, links, 4.0)
    assert list(table.load.unique()) == list(ROUTING_LOADS)
    assert len(table) == len(ROUTING_LOADS) * 3 * 4
    wide = table.pivot_table(index=["load", "routing", "phases"], columns="platform", values="slowdown")
    gap = wide["MI300X full mesh"] - wide["MI300X full mesh, if switched"]
    by_load = gap.groupby("load").max()
    assert by_load.pop("a favourite for each GPU") > 1e-3
    assert list(by_load) == pytest.approx([0] * 3, abs=1e-9)
    uniform = table[(table.load == "uniform") & (table.phases == "pipelined")]
    assert list(uniform.slowdown) == [0.0] * len(uniform)


def test_routing_times_are_the_closed_forms():
    links = platform_links("DGX H100")
    table = routing_slowdowns(expert_demand(1e6, 64, 4.0), links)
    for row in table.itertuples():
        time = expert_all_to_all_time(
            1e6, 64, 8, links.hb_Bps, links.nic_Bps, row.routing, imbalance=4.0, pipelined=row.phases == "pipelined"
        )
        assert row.time_s == pytest.approx(time, rel=1e-9)


def test_bad_jobs_are_named():
    with pytest.raises(ValueError, match="experts"):
        ExpertJob(transformer.catalog_model("GPT-3"), 128, 8, 4)
    with pytest.raises(ValueError, match="gpus 96"):
        ExpertJob(MODEL, 96, 8, 4)
    for size in (12, 0):
        with pytest.raises(ValueError, match="hb_domain_size"):
            ExpertJob(MODEL, 128, size, 4)
    with pytest.raises(ValueError, match="gpus is 1"):  # one GPU sends nothing
        ExpertJob(MODEL, 1, 1, 4)


@pytest.mark.parametrize(("size", "domains"), [(8, 16), (16, 8)])
def test_the_documents_factor_is_off_by_the_shares_that_stay_and_exact_for_as_many_domains_as_gpus(size, domains):
    links = platform_links("DGX H100", size)
    expected = (1 - 1 / domains) / (1 - 1 / size) - 1
    assert formula_error(ExpertJob(MODEL, 128, size, 4), links) == pytest.approx(abs(expected))
    square = ExpertJob(transformer.catalog_model("MoE-1.3B", experts=64), 64, 8, 4)
    assert formula_error(square, platform_links("DGX H100")) == pytest.approx(0, abs=1e-12)


def test_what_is_forwarded_goes_to_another_rail_of_another_domain():
    values, _, readings = moe_claims(JOB)
    assert values["railonly2025.fig4.forwarded_share"] == pytest.approx(15 * 7 / 127)
    assert values["railonly2025.moe.forwarding_formula"] == pytest.approx((15 / 16) / (7 / 8) - 1)
    assert "phases in turn" in readings["railonly2025.moe.forwarding_formula"]


def test_entries_are_named_by_what_a_pair_sends():
    """Silent rings leave the all-to-all alone; one HB domain for all has no ring on a rail."""
    sizes, matrix = entry_sizes(JOB), JOB.iteration_traffic.dense()
    ring = "all-to-all and a ring"
    assert list(sizes) == ["all-to-all alone", f"{ring} in an HB domain", f"{ring} on a rail"]
    assert [matrix[0, 12], matrix[0, 1], matrix[0, 8]] == pytest.approx(list(sizes.values()))
    assert f"{ring} on a rail" not in entry_sizes(ExpertJob(MODEL, 128, 128, 4))


def test_the_documents_marks_are_there_with_its_own_numbers_alone(monkeypatch):
    values = {"railonly2025.moe.slowdown_a100": 0.08, "railonly2025.moe.slowdown_h100": 0.11}
    share = {"railonly2025.fig4.all_to_all_share": 0.3}
    assert printed_slowdowns(values) == {"DGX A100": "8.2%", "DGX H100": "11.2%"}
    assert share_mark(share) == {"all-to-all": (0.27, "differs")}
    monkeypatch.setattr(workspace, "parameterized", lambda: True)
    assert printed_slowdowns(values) == share_mark(share) == {}
