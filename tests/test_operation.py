from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore import datacenter as dc
from railcore.catalog.units import day, hour, show, year
from railcore.datacenter import operation
from railcore.datacenter.operation import largest_parameters, layer_of_size, models_by_budget
from railcore.datacenter.sizing import datacenter_size
from railcore.network import reliability
from railcore.network.cost import total_cost
from railcore.training.formats import catalog_precision
from railcore.training.scaling_laws import scaling_law
from railcore.training.transformer import catalog_model
from suite.flops2024 import recovery
from suite.flops2024.specification import document_site, document_size

NVL72 = "GB200 NVL72"
DENSE = catalog_model("flops2024 dense")
SITE = document_site(23333, rate="fp4_dense_rate")
LAYER = dc.model_layer(DENSE, catalog_precision("flops2024"))
LAID = dc.rack_layout(LAYER, SITE)
BOX = document_size(1e11, NVL72, pue=1.2)
JOB = recovery.replica_grid(LAID)
SHARES = st.floats(0.01, 1)


def blast(job=JOB, **options):
    return recovery.blast_radius(job, NVL72, **options)


def with_shares(table, **shares):
    """A blast radius in which the named parts are out of service for these shares of time, the others never."""
    return table.assign(out_of_service=[shares.get(part.replace(" ", "_"), 0.0) for part in table["part"]])


# The training run


@given(SHARES, st.floats(0, 0.9), SHARES)
def test_a_run_does_its_flops_in_its_time(utilization, exposed, goodput):
    run = operation.training_run(1e12, 2e13, BOX, operation.operating_prices(), utilization, exposed, goodput)
    done = BOX.dense_flops * run.time_s * utilization * (1 - exposed) * goodput
    assert done == pytest.approx(6 * 1e12 * 2e13) and run.flops == pytest.approx(done)
    assert run.token_usd * 2e13 == pytest.approx(run.energy_usd + run.wear_usd)


def test_energy_costs_what_owning_the_machine_for_that_time_costs():
    costs = operation.operating_prices()
    run = operation.training_run(1e13, 1e14, BOX, costs, 0.4)
    years = run.time_s / year
    owned = total_cost(0, BOX.it_w, float(years), costs.electricity_price, 1.2, costs.mean_load)
    assert run.energy_usd == pytest.approx(owned["energy_usd"])
    assert run.energy_J == pytest.approx(float(BOX.total_w) * costs.mean_load * run.time_s)
    assert run.wear_usd == pytest.approx(1e11 * run.time_s / costs.useful_life)


def test_runs_from_the_ideal_to_the_measured():
    table = operation.training_runs({"dense": DENSE}, {"dense": 0.05}, 0.9, BOX, scaling_law("Hoffmann 2"), "GB200")
    assert table["time_days"].is_monotonic_increasing and table["total_usd"].is_monotonic_increasing
    assert (table["total_low_usd"] < table["total_usd"]).all() and (table["total_usd"] < table["total_high_usd"]).all()
    ideal = table.iloc[0]
    assert ideal["time_days"] == pytest.approx(
        float(scaling_law("Hoffmann 2").training_time(DENSE.total_parameters, BOX.dense_flops)) / day
    )
    x, u = 0.05, table["utilization"][2]
    assert list(table["exposed_share"]) == pytest.approx([0, x, 1 / (1 + (1 - x) / u / x), 0, 0, 0])
    assert list(table["goodput"]) == [1] + 5 * [0.9]


# Failures


def test_the_grid_is_that_of_the_layout():
    assert (JOB.replicas, JOB.gpus, JOB.spares) == (LAID.replicas_here * 2, LAID.gpus_here * 2, 0)
    assert recovery.replica_grid(LAID, 17).spares == 4 and recovery.replica_grid(LAID, 16).spares == 8
    assert JOB.groups_per_block(4) == pytest.approx(20 / 18)  # 2 of 18 trays lie across two groups of 18 GPUs
    assert JOB.groups_per_block(72) == 4 and JOB.groups_per_block(1) == 1


def test_blast_radius_is_confined_to_the_rack():
    table = blast().set_index("part")
    assert table["replicas"]["GPU"] == 1 and table["replicas"]["HB switch"] == 4
    assert table["count"]["host"] * 4 == table["count"]["GPU"] == JOB.gpus
    assert not {"link", "transceiver", "switch"} & set(blast(planes=4)["part"])


def test_a_part_is_out_of_service_while_it_is_repaired():
    """A part works 1 / f on average, then stands for its repair r: it is out r / (1 / f + r) of the time."""
    table = blast()
    works = year / table["failures_per_year"]
    stands = table["repair_h"] * hour
    assert np.allclose(table["out_of_service"], stands / (works + stands), rtol=1e-12)
    assert np.allclose(table["events_per_day"], table["count"] * day / works, rtol=1e-12)


def test_interruptions_add_up_to_the_published_rate():
    software = catalog.item("failure_rates", "job")
    table = blast().set_index("part")
    table.loc["host", "events_per_day"] /= 2  # the rate is of servers with twice the GPUs of a tray
    ours = table["events_per_day"].sum() * 365 / JOB.gpus
    assert ours == pytest.approx(software["interruption_rate_llama3"] * year, rel=0.1)
    gpus = table.loc["GPU", "events_per_day"]
    assert gpus * year / day == pytest.approx(JOB.gpus * catalog.item("failure_rates", "GPU")["failure_rate"] * year)
    assert recovery.mean_time_between_interruptions(blast()) == pytest.approx(day / blast()["events_per_day"].sum())


@pytest.mark.parametrize(("tensor", "planes"), [(18, 1), (18, 4), (16, 1)])
def test_a_rack_scale_job_is_stopped_as_often_as_its_cluster(tensor, planes):
    job = recovery.replica_grid(LAID, tensor)
    cluster = job.gpus, tensor * job.groups_per_rack, 64, NVL72, planes
    stops = reliability.job_interruptions(*cluster).query("fabric == 'rail-optimized'").set_index(["stops", "rates"])
    for rates in ("low", "value", "high"):
        stopped = blast(job, planes=planes, rates=rates)["events_per_day"].sum() * year / day
        assert stopped == pytest.approx(stops["events_per_year"]["what cuts GPUs off", rates])


def test_without_failures_everything_works():
    none = with_shares(blast())
    whole = [recovery.share_of_paired_groups(none, JOB, same_rail=same) for same in (True, False)]
    shares = [recovery.replica_availability(none, JOB), recovery.share_of_groups_with_spares(none, JOB), *whole]
    assert shares == pytest.approx([1] * 4, rel=1e-12)
    curves = recovery.restart_curves(JOB, 1e15, 100, JOB.gpus, {"store": 1.0}, 1e9, np.array([1.0, 600.0]))
    assert curves["goodput"].to_numpy() == pytest.approx(1, abs=1e-6)


def test_the_last_host_of_a_rack_may_have_fewer_gpus():
    job = recovery.ReplicaGrid(layers=1, tensor=2, groups_per_rack=4, rack_gpus=9, racks=1)
    u = 0.03
    table = with_shares(blast(job), host=u)  # hosts of four
    lost = 2 * 3 * u * (1 - u) ** 2 + 4 * 3 * u**2 * (1 - u) + 4 * u**3  # of four groups, with one GPU to spare
    assert recovery.share_of_groups_with_spares(table, job) == pytest.approx(1 - lost / 4)


def test_replicas_of_fixed_groups_against_a_draw_of_every_part():
    job = recovery.ReplicaGrid(layers=3, tensor=6, groups_per_rack=2, rack_gpus=12, racks=2)
    table = with_shares(blast(job, planes=2), GPU=0.01, NIC=0.005, host=0.03, HB_switch=0.002)
    random, draws = np.random.default_rng(1), 40_000
    shape = (draws, job.layers, job.racks)
    gpu = (random.random((*shape, 12)) > 0.01) & (random.random((*shape, 12)) > 0.005)
    gpu &= np.repeat(random.random((*shape, 3)) > 0.03, 4, axis=-1)  # hosts of four GPUs, one of them across the groups
    gpu &= (random.random((*shape, 18)) > 0.002).all(-1, keepdims=True)
    whole = gpu.reshape(*shape, 2, 6).all(-1).all(1)
    assert recovery.replica_availability(table, job) == pytest.approx(whole.mean(), rel=0.01)


def test_paired_groups_against_a_draw():
    job = recovery.ReplicaGrid(layers=20, tensor=4, groups_per_rack=2, rack_gpus=8, racks=24)
    table = with_shares(blast(job, radix=16), GPU=0.004, switch=0.003)
    random, draws = np.random.default_rng(2), 20_000
    leaves = job.gpus / 8 * 8 / (job.layers * 2 * 24) * 24 / 8  # of a pool, each of which takes 8 groups out
    out = random.binomial(24, 1 - (1 - 0.004) ** 4, (draws, 20)) + 8 * random.poisson(leaves * 0.003, (draws, 20))
    drawn = 1 - np.minimum(out, 24).max(1).mean() / 24
    assert recovery.share_of_paired_groups(table, job) == pytest.approx(drawn, abs=0.004)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.integers(1, 3))
def test_pipelines_against_every_outcome(weights, layers):
    out = np.array(weights) / sum(weights)
    n = len(out) - 1
    grids = np.meshgrid(*[np.arange(n + 1)] * layers)
    chance = np.prod([out[grid] for grid in grids], axis=0)
    assert recovery.share_of_complete_pipelines(out, layers) == pytest.approx(
        1 - np.sum(chance * np.max(grids, axis=0)) / n
    )


def test_pairing_beats_fixed_replicas_and_wider_pools_beat_narrow_ones():
    table = blast(planes=4)
    fixed, rails = recovery.replica_availability(table, JOB), recovery.share_of_paired_groups(table, JOB)
    assert fixed < rails < recovery.share_of_paired_groups(table, JOB, same_rail=False) < 1


def test_groups_of_a_rack_with_spares_against_a_draw():
    job = recovery.ReplicaGrid(layers=5, tensor=16, groups_per_rack=4, rack_gpus=72, racks=2)
    table = with_shares(blast(job, planes=2), GPU=0.06, host=0.04, HB_switch=0.001)
    random, draws = np.random.default_rng(3), 100_000
    out = random.binomial(72, 0.06, draws) + 4 * random.binomial(18, 0.04, draws)
    lost = np.minimum(np.ceil(np.maximum(out - 8, 0) / 16), 4)
    drawn = (1 - lost.mean() / 4) * (1 - 0.001) ** 18
    assert recovery.share_of_groups_with_spares(table, job) == pytest.approx(drawn, abs=0.002)


@given(st.integers(1, 2000), st.floats(0, 0.99), st.floats(0.5, 0.9999), st.integers(1, 300))
def test_spares_are_enough_and_one_less_is_not(needed, share, probability, pools):
    from scipy.stats import binom

    k = recovery.spares_needed(needed, share, probability, pools)
    assert binom.cdf(k, needed + k, share) ** pools >= probability * (1 - 1e-9)
    assert k == 0 or binom.cdf(k - 1, needed + k - 1, share) ** pools < probability * (1 + 1e-9)


def test_recoveries_get_worse_with_rates_and_stay_shares():
    table = recovery.recovery_goodput(LAID, NVL72, {"storage": 2.8, "memory": 1.2}, 110, 1.6, planes=4)
    by = table.pivot(index="way", columns="rates", values="goodput")
    assert (by["low"] > by["value"]).all() and (by["value"] > by["high"]).all()
    assert table["goodput"].between(0, 1).all() and table["working_share"].between(0, 1).all()
    without, m = table["in_use_share"] * table["working_share"], table["interruption_s"]
    assert np.allclose(table["goodput"], without * np.exp(-table["stall_s"] / m))
    assert (table["longest_stall_s"].isna() == (without < 0.9)).all()
    assert np.allclose((without * np.exp(-table["longest_stall_s"] / m)).dropna(), 0.9)
    stalls = table[table["rates"] == "value"].set_index("way")["stall_s"]
    assert stalls["spare racks of a datacenter"] - stalls["leave the replica out"] == pytest.approx(1.6)


def test_spare_gpus_are_those_beside_groups_of_one_or_two_fewer():
    ways = [way for way in recovery.recovery_goodput(LAID, NVL72, {})["way"].unique() if "spare GPUs" in way]
    assert [way.split(",")[0] for way in ways[::2]] == ["4 spare GPUs in a rack", "8 spare GPUs in a rack"]
    alone = dc.rack_layout(LAYER, replace(SITE, memory_bytes=4e12))
    assert alone.tensor == 1 and not recovery.recovery_goodput(alone, NVL72, {})["way"].str.contains("spare GPUs").any()


def test_a_job_that_restarts_has_the_goodput_of_reliability():
    table = recovery.recovery_goodput(LAID, NVL72, {"storage": 2.8}, 110).query("rates == 'value'").iloc[0]
    m, restart = table["interruption_s"], catalog.item("failure_rates", "job")["restart_time"]
    assert table["goodput"] == pytest.approx(float(reliability.goodput(m, 2.8, restart, 110)))


def test_a_standstill_that_failures_begin_anew_against_a_draw():
    table = recovery.recovery_goodput(LAID, NVL72, {}).query("rates == 'high'").iloc[0]
    m, c = table["interruption_s"], table["stall_s"]
    gaps = np.random.default_rng(4).exponential(m, 100_000)  # one shorter than c ends within the standstill
    drawn = np.maximum(gaps - c, 0).sum() / gaps.sum() * table["in_use_share"] * table["working_share"]
    assert table["goodput"] == pytest.approx(drawn, rel=0.02)


def test_checkpoints_move_the_whole_state():
    saves, load = recovery.checkpoint_and_load_times(LAYER, LAID, SITE, 1e8)
    moved = [
        saves["storage"] * 1e8 * SITE.gpus,
        *(18 * 134 * s for s in (saves["host memory"] * SITE.host_Bps, load * SITE.nic_Bps)),
    ]
    assert moved == pytest.approx(3 * [sum(LAYER.state_bytes.values())])


def test_cases_and_stores_of_restarts_say_what_they_assume():
    saves, _ = recovery.checkpoint_and_load_times(LAYER, LAID, SITE, 1e8)
    curves = recovery.restart_curves(JOB, 104.0, 110.0, JOB.gpus // 2, saves, 1e8 * float(SITE.gpus), [5.0])
    expected = []
    for m, iteration_s in [(208.0, 0), (104.0, 0), (104.0, 110.0)]:
        for delta in saves.values():
            tau = max(float(reliability.checkpoint_interval(m, delta)), iteration_s)
            expected.append((5.0, tau, float(reliability.goodput(m, delta, 5.0, tau))))
    assert curves[["restart_s", "interval_s", "goodput"]].to_numpy() == pytest.approx(np.array(expected))
    assert curves.case.nunique() == 3
    stored = sum(LAYER.state_bytes.values()) / saves["storage"]  # everything in that time is what storage takes
    assert [show(stored, "B/s", 3) in name for name in curves.checkpoint.unique()] == [True, False]


# Budgets


def test_budgets_train_the_optimum_or_the_largest_that_fits():
    table = models_by_budget([NVL72, "DGX H100"], [1e9, 1e11], DENSE, 365, "flops2024", "flops2024")
    timed = table[table["limit"] == "time"]
    assert (timed["parameters"] == timed["optimal_parameters"]).all() and (timed["time_days"] > 365).all()
    short = table[table["limit"] != "time"]
    assert (short["parameters"] == short["largest_parameters"]).all() and short["limit"].str.contains(
        "a rack has"
    ).all()
    assert (table["parameters"] <= table["optimal_parameters"]).all() and (table["tensor_degree"] > 0).all()
    assert (table["hidden"] % DENSE.heads == 0).all() and list(table["limit"] == "time") == [True, True, True, False]
    each = scaling_law("Hoffmann 2").parameters_after(
        365 * 86400, datacenter_size(1e11, NVL72, "flops2024").dense_flops
    )
    assert table["optimal_parameters"][1] == pytest.approx(float(each))
    assert (timed["time_days"] * (1 - timed["exposed_share"])).to_numpy() == pytest.approx(365)


@pytest.mark.parametrize("racks", [40, 100, 3000])  # held back by layers, layers, and by memory
@pytest.mark.parametrize(
    ("platform", "rate", "kept"), [("DGX H100", "fp8_dense_rate", "fp8"), (None, None, "flops2024")]
)
def test_the_largest_model_is_within_a_step_of_what_a_rack_holds(racks, platform, rate, kept):
    """A model fits where a rack holds a layer and there are racks for all layers; 3% more parameters do not."""
    machine = replace(SITE, racks=racks, datacenters=1)
    if platform:
        machine = dc.datacenter_site(racks, platform, rate)
    kept = catalog_precision(kept)
    largest = float(largest_parameters(DENSE, kept, machine))
    each = layer_of_size(DENSE, kept, largest * np.array([1, 1.03, 2, 4, 8]))
    fits = (each.layer_state_bytes + each.activation_bytes <= machine.memory_bytes * machine.rack_gpus) & (
        each.layers <= racks
    )
    assert fits.tolist() == [True, False, False, False, False]
    many = replace(machine, racks=np.array([1, racks]))
    assert largest_parameters(DENSE, kept, many).tolist() == [0, largest]


def test_a_training_takes_its_iterations():
    assert operation.training_time(2.0, 1e6, 1e9) == pytest.approx(2000.0)
    assert operation.training_time(2.0, 1e6, 1e9, 0.8, 0.1) == pytest.approx(2000.0 * 1.1 / 0.8)
