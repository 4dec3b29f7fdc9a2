import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from railcore.photonics import circuits, control_plane
from railcore.photonics.circuits import PhotonicCircuits
from railcore.photonics.simulation import ElectricalRails, StaticPartition, simulate
from railcore.photonics.stage_program import fsdp_options
from railcore.photonics.workload import training_step
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from suite import legible, plotting
from suite.charts import reconfiguration as charts
from suite.photonic2025 import circuit_lanes as policies
from suite.photonic2025 import reconfiguration as document
from suite.photonic2025 import trace

SPLIT = {"tensor": 4, "data": 2, "recompute": "selective", "sharding": "weights", "sequence_parallel": True}
RUN = ("Llama-3 8B", "Perlmutter GPU node")
RATES = trace.measured_rates()
FSDP = fsdp_options()
NETWORK = PhotonicCircuits(reconfiguration_s=0.1, rates_Bps=RATES)


def step(pipeline=2, micro_batches=2, chunks=1, iterations=2, one_replica=True, options=FSDP, **split):
    strategy = Strategy(pipeline=pipeline, interleave=chunks, **(SPLIT | split))
    batch = strategy.data * micro_batches
    return training_step(*RUN, strategy, batch, options, iterations=iterations, one_replica=one_replica)


ONE, WHOLE = step(), step(one_replica=False)
SIMULATED = circuits.photonic_overhead(
    *RUN, Strategy(pipeline=2, **SPLIT), [0, 0.1, 0.5, 1], 4, options=fsdp_options(), rates_Bps=RATES
)


def test_all_windows_are_left_where_no_message_is_tiny():
    measured, left = trace.measured_windows(), document.windows_on_circuits(0)
    assert (left["window"].to_numpy() == measured["window"].to_numpy()).all()
    assert left["duration_s"].to_numpy() == pytest.approx(measured["duration_s"].to_numpy(), abs=1e-6)


def test_tiny_messages_on_the_frontend_leave_changes_between_parallelisms_only():
    left = document.windows_on_circuits(1e6)
    pairs = set(zip(left["before"], left["after"], strict=True))
    assert pairs == {("AG", "PP"), ("PP", "AG"), ("PP", "RS"), ("RS", "PP")}
    assert set(left["iteration"].value_counts()) == {6}
    assert document.windows_on_circuits(1e12).empty
    every = trace.measured_windows()
    between = every.merge(left, on=["iteration", "window"], suffixes=("", "_left"))
    assert between["duration_s_left"].to_numpy() == pytest.approx(between["duration_s"].to_numpy(), abs=1e-6)


def test_replay_is_its_closed_form():
    table = document.replayed_fig8([0.0, 0.1, 1.0]).pivot(
        index="reconfiguration_s", columns="requests", values="iteration_s"
    )
    base, windows = trace.measured_run()["iteration_time"], trace.measured_windows()
    for delay, row in table.iterrows():
        assert row["on demand"] == pytest.approx(base + 8 * delay)
        stall = sum(max(0, delay - window) for window in windows["duration_s"]) / 10
        assert row["provisioned"] == pytest.approx(base + stall)


def test_the_slowest_rail_costs_at_least_as_much_as_each():
    *others, slowest = document._replayed_rails()
    every = [document._replayed(0.1, True), *others]
    assert len(every) == 4 and max(every) <= slowest <= document._replayed(0.1, False)


def test_simulated_step_at_no_delay_is_electrical_and_then_pays_every_window():
    on_demand, early = (SIMULATED[SIMULATED["provisioning"] == flag].set_index("reconfiguration_s") for flag in (0, 1))
    assert SIMULATED.loc[SIMULATED["reconfiguration_s"] == 0, "overhead"].abs().max() == 0
    added = on_demand["iteration_s"] - on_demand["electrical_s"]
    assert added.to_numpy() == pytest.approx(8 * added.index.to_numpy()), "as many changes as measured windows"
    assert (early["iteration_s"].iloc[1:] < on_demand["iteration_s"].iloc[1:]).all()


def test_step_of_the_measured_run_comes_near_the_replay():
    machine, rates, runtime = document.step_settings(RUN[1], True)
    strategy, how = Strategy(pipeline=2, **SPLIT), {"options": fsdp_options(), "runtime": runtime}
    table = circuits.photonic_overhead(RUN[0], machine, strategy, [0.0, 0.1], 4, rates_Bps=rates, **how)
    assert table["electrical_s"].iloc[0] == pytest.approx(trace.measured_run()["iteration_time"], rel=0.05)
    replay = document.replayed_fig8([0.1])["iteration_s"] - trace.measured_run()["iteration_time"]
    added = (table["iteration_s"] - table["electrical_s"])[table["reconfiguration_s"] > 0]
    assert added.to_numpy() == pytest.approx(replay.to_numpy(), rel=0.05)
    plain, none, _ = document.step_settings(RUN[1], False)
    assert plain == catalog_machine(RUN[1]) != machine and not none


def test_emulation_has_a_run_without_control_plane_and_gives_slopes():
    summary = document.emulation_summary().set_index(["gpus", "requests"])
    for (gpus, way), row in summary.iterrows():
        runs = document.emulated_runs(gpus)
        mine = runs[(runs["requests"] == way) & (runs["reconfiguration_s"] <= 1)].set_index("reconfiguration_s")
        line = np.polynomial.Polynomial.fit(mine.index, mine["iteration_s"], 1).convert()
        assert row["changes"] == pytest.approx(line.coef[1])
        assert row["control_plane"] == pytest.approx(mine["iteration_s"][0.0] / row["without_s"] - 1)


@pytest.mark.parametrize("work", [ONE, WHOLE])
def test_changes_of_a_rank_are_those_of_the_log(work):
    run = simulate(work, NETWORK)
    log = run.reconfigurations.merge(work.table[["op", "ranks", "iteration"]], on="op")
    members = log.loc[log["iteration"] == 1, "ranks"].explode()
    counts = [(members == rank).sum() for rank in work.simulated]
    assert policies.changes_of_a_rank(run) == pytest.approx(np.mean(counts))
    assert min(counts) >= 6, "as many as a rank's windows without the tiny calls"


def test_ranks_on_rails_are_of_the_same_data_group_and_of_the_next_stage():
    assert policies.ranks_on_rails_with(WHOLE, 0) == [0, 4, 8]
    assert policies.ranks_on_rails_with(WHOLE, 13) == [13, 5, 9]
    with pytest.raises(ValueError, match="rank is 0, which sends nothing over the rails"):
        policies.ranks_on_rails_with(step(1, 2, one_replica=False, data=1), 0)


def test_ports_in_a_static_partition_have_what_circuits_of_a_port_have():
    one_port = simulate(ONE, PhotonicCircuits(bandwidth="per port")).iteration_s
    whole_nic = simulate(ONE, PhotonicCircuits()).iteration_s
    assert simulate(ONE, StaticPartition(ports=4)).iteration_s == one_port
    assert simulate(ONE, ElectricalRails()).iteration_s == whole_nic < one_port
    with pytest.raises(ValueError, match="ports is 2"):
        simulate(ONE, StaticPartition(ports=2))


@pytest.mark.parametrize("provisioning", [False, True])
def test_lanes_hold_traffic_inside_circuits(provisioning):
    run = simulate(WHOLE, replace(NETWORK, provisioning=provisioning))
    lanes = policies.rank_lanes(run, [0, 4])
    assert lanes[["start_s", "end_s"]].min().min() == 0
    assert lanes["end_s"].max() == pytest.approx(run.iteration_s)
    assert 0 < policies.warm_up_end_s(lanes) < run.iteration_s
    for _, mine in lanes.groupby("rank"):
        circuits = mine[mine["lane"].isin(["out circuit", "in circuit"])]
        for row in mine[mine["lane"] == "traffic"].itertuples():
            inside = (circuits["start_s"] <= row.start_s + 1e-9) & (circuits["end_s"] >= row.end_s - 1e-9)
            assert inside.any()
        for _, side in circuits.groupby("lane"):
            ordered = side.sort_values("start_s")
            assert (ordered["start_s"].to_numpy()[1:] >= ordered["end_s"].to_numpy()[:-1] - 1e-9).all()
    if not provisioning:
        assert (lanes.loc[lanes["lane"] == "change", "start_s"] >= 0).all()


def test_a_change_before_it_is_asked_for_is_marked_where_circuits_are_provisioned():
    machine, _, runtime = document.step_settings(RUN[1], True)
    work = training_step(RUN[0], machine, Strategy(pipeline=2, **SPLIT), 4, FSDP, runtime, iterations=2)
    parts = {
        way: policies.rank_lanes(simulate(work, replace(NETWORK, provisioning=early)), [0, 4, 8], 0.15)
        for way, early in document.REQUESTS.items()
    }
    until = policies.warm_up_end_s(parts["on demand"])
    figure = charts.circuit_timelines(parts, until)
    marked = [
        [text.get_text() for text in ax.texts if re.search("before it is asked for|can change when", text.get_text())]
        for ax in figure.axes
    ]
    assert not marked[0] and marked[1][1].startswith("can change when rank 8's AllGather\nhas ended")
    assert [ax.get_title("left") for ax in figure.axes] == ["(a) without provisioning", "(b) with provisioning"]
    assert min(lanes["start_s"].min() for lanes in parts.values()) == pytest.approx(-0.15)
    plt.close(figure)


def test_the_increases_of_the_document_stand_beside_ours_in_the_enlarged_panel():
    plotting.house_style()
    table, base_s = document.fig8_table([0.0, 0.1, 0.2, 1.0], SIMULATED)
    names = {"on demand": "overhead_100ms_no_provisioning", "provisioned": "overhead_100ms_provisioning"}
    values = dict(zip((f"photonic2025.fig8.{name}" for name in names.values()), (0.0648, 0.0349), strict=True))
    increases = document.overhead_marks(values)
    figure = charts.iteration_time_by_reconfiguration(table, base_s, 0.1, "A run", increases)
    texts = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert texts[1] == [
        "without provisioning:\ndocument +6.5%, ours +6.48%",
        "with provisioning:\ndocument +3.5%, ours +3.49%",
    ]
    assert texts[0][0] == "without provisioning, 100 ms: +6.48%" and figure.axes[1].get_xlim()[1] < 0.25
    assert legible.faults(figure) == []
    plt.close(figure)


def test_manager_knows_its_groups():
    plane = control_plane.catalog_control_plane()
    rows = document.group_rows(WHOLE, 0, plane)
    assert rows[0] == "tensor: 0–3, scale-up"
    assert {"data: 0, 4, circuits", "pipeline: 0, 8, circuits", "small: 0, 4, frontend"} <= set(rows)


def test_table_of_the_control_plane_grows_with_its_latencies():
    table = document.control_plane_table("host-driven", 2, 8, 8, 12.3, document.table3_delays())
    for column in ("first_time_s", "cached_s", "up_s", "faster_switches"):
        assert table[column].is_monotonic_increasing
    assert table["full_at_gpus"].is_monotonic_decreasing


def test_what_a_delay_costs_is_said_and_drawn_with_the_switches_of_its_range():
    measured = document.measured_overheads([0.0, 0.05, 0.1])
    shares = measured["overhead"].tolist()
    assert shares[0] == 0 and shares == sorted(shares)
    both = document.overhead_words(0.1, "A on B", 0.475, shares[-1])
    assert both.startswith("3.49% longer in the measured run") and "the same changes add 47.5%. Buy a switch" in both
    assert document.overhead_words(0.1, "A on B", 0.0).endswith("Any circuit switch is fast enough.")
    assert "Buy a switch" in document.overhead_words(0.0, "A on B", 0.0)
    figure = charts.overhead_by_reconfiguration(measured, 0.1, {"near": 0.06, "far": 9.0}, "run")
    assert {text.get_text() for text in figure.axes[0].texts} == {"100 ms: +3.49%", "near"}
    assert figure.axes[0].get_xlabel().endswith("switches of Table 3")


def test_changes_of_nanoseconds_are_told_apart_and_may_add_nothing():
    table = pd.DataFrame({"network": "run", "reconfiguration_s": [5e-9, 1e-8, 2e-8], "overhead": [0.0, 0.1, 0.2]})
    figure = charts.overhead_by_reconfiguration(table, 1e-8, {}, "run")
    assert [text.get_text() for text in figure.axes[0].texts] == ["10 ns: +10%"]
    figure = charts.overhead_by_reconfiguration(table.assign(overhead=0.0), 1e-8, {}, "run")  # a warning is an error
    assert figure.axes[0].get_ylim() == (0, 0.01)
    table = table.assign(source="run", requests="on demand", iteration_s=1 + table["overhead"], measured=False)
    figure = charts.iteration_time_by_reconfiguration(table, {"run": 1.0}, 1e-8, "run", {})
    assert [text.get_text() for text in figure.axes[0].texts] == ["without provisioning, 10 ns: +10%"]
