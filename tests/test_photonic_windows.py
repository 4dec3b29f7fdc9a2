"""photonic2025's measured windows, the limits of few ports, and the windows of computed schedules."""

from dataclasses import replace

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore import catalog
from railcore.network.topology.photonic import rings_of_ports
from railcore.photonics.simulation import simulate
from railcore.training import transformer
from railcore.training.parallelism import Strategy
from suite import legible, plotting, workspace
from suite.charts import rails, window_lengths
from suite.charts.rail_operations import OPERATIONS
from suite.photonic2025 import ring_limits, run, trace, window_claims, windows


@pytest.fixture(autouse=True)
def _house_style():
    plotting.house_style()
    yield
    plt.close("all")


def test_bytes_of_the_trace_are_those_of_the_model():
    """Stage 0: embedding and 16 layers of 218,103,808 weights over 4 tensor ranks, and 32 norms that are not split."""
    first, last = ((128256 * 4096 + 16 * 218_103_808) // 4 + 4096 * norms for norms in (32, 33))
    volumes = trace.measured_windows(None).groupby("after")["volume_after_bytes"].unique()
    gathered = {int(x) for x in volumes["AG"]} - {16}  # after the last iteration nothing is gathered
    assert gathered == {first, last}  # 2 bytes over two ranks
    assert {int(x) for x in volumes["RS"]} == {4 * last, 4 * first + 8}
    assert {int(x) for x in volumes["PP"]} == {4 * 8192 * 4096 * 2 // 4}


@given(st.floats(0, 10), st.floats(0, 10))
def test_replay_without_provisioning_is_linear_and_with_it_never_slower(one, other):
    low, high = sorted((one, other))
    base = trace.measured_run()["iteration_time"]
    for provisioning in (False, True):
        times = trace.replayed_iteration_times([0.0, low, high], provisioning)
        assert times[0] == base and times[1] <= times[2]
    plain = trace.replayed_iteration_times(low, False)
    assert plain == pytest.approx(base + 8 * low)
    longest = trace.measured_windows()["duration_s"].max()
    saved = plain - trace.replayed_iteration_times(low, True)
    assert -1e-9 <= saved <= 8 * min(low, longest) + 1e-9


@given(st.integers(1, 10).map(lambda k: 2**k))
def test_a_ring_never_takes_fewer_steps_than_recursive_doubling(ranks):
    ratio = ring_limits.ring_step_ratio(ranks)
    assert ratio == pytest.approx(2 * (ranks - 1) / np.log2(ranks))
    assert ratio > 1


def test_rings_take_the_ports_of_their_neighbours():
    assert ring_limits.ring_ports([1, 2, 3, 1024]).tolist() == [0, 1, 2, 2]
    assert [rings_of_ports(ports) for ports in (0, 1, 2, 4, 5)] == [0, 0, 1, 2, 2]


@given(st.integers(1, 16), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_static_partition_hands_out_no_port_twice(ports, members):
    groups = {f"group {i}": size for i, size in enumerate(members)}
    table = ring_limits.static_port_partition(groups, ports, 1.0)
    assert table["ports"].sum() <= ports and table["bandwidth_Bps"].sum() <= 1.0 + 1e-12
    assert ((table["ports"] == 0) | (table["ports"] >= table["needed_ports"])).all()
    if table["needed_ports"].sum() <= ports:
        assert ((table["ports"] > 0) == (table["members"] > 1)).all()


@given(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4]), st.booleans())
def test_neighbours_of_a_rank_by_the_sizes_of_its_groups(tensor, data, pipeline, ring):
    strategy = Strategy(tensor=tensor, data=data, pipeline=pipeline, interleave=2 if ring and pipeline > 1 else 1)
    table = ring_limits.ring_neighbours(strategy, tensor)
    other = {1: 0, 2: 1}
    assert (table["tensor"] == other.get(tensor, 2)).all() and (table["data"] == other.get(data, 2)).all()
    chain = {1: [0], 2: [1]}.get(pipeline, [2] if ring else [1, 2])
    assert sorted(table["pipeline"].unique()) == chain
    assert (table["neighbours"] == table[["tensor", "context", "data", "pipeline"]].sum(axis=1)).all()
    assert (table["on_rail"] == table["data"] + table["pipeline"]).all()  # the tensor ranks fill the HB domain


def test_every_mode_of_a_nic_has_its_rate():
    for nic in catalog.names("nics"):
        modes = ring_limits.nic_port_modes(nic)
        assert len(modes) and (modes["over_rate"] == 1).all()
    with pytest.raises(ValueError, match="'ConnectX-9' does not exist"):
        ring_limits.nic_port_modes("ConnectX-9")


@pytest.fixture(scope="module")
def solved():
    return run.solved_machine()


@pytest.fixture(scope="module")
def timeline(solved):
    return run.run_timeline(run.run_workload(run.run_strategy(), machine=solved))


def test_the_definition_equals_a_count_tick_by_tick():
    assert windows.definition_error() == 0
    apart = windows.window_lengths([[1.0, 3.0], [9.0, np.nan]], [5.0, 12.0], [0, 1], [0, 1])
    assert apart.tolist() == [4.0]
    same_group = windows.window_lengths([[0.0], [6.0], [9.0]], [5.0, 7.0, 12.0], [0, 1, 1], [0, 0, 1])
    assert same_group.tolist() == [4.0]  # the group of the first phase does not open the second


@given(
    st.sampled_from([2, 3, 4, 5, 7, 8]),
    st.sampled_from([1, 2, 3, 5, 8]),
    st.integers(1, 3),
)
@settings(max_examples=15)
def test_counted_windows_are_those_of_the_closed_form(stages, chunks, rounds):
    if stages * chunks * rounds > 60:
        rounds = 1
    batches = {stages * rounds} if chunks > 1 else {1, 2, stages - 1, stages * rounds}
    table = run.window_count_table([(stages, chunks, m) for m in batches if m])
    assert (table["closed_form"] == table["counted"]).all(), table


def test_counted_windows_of_long_pipelines():
    table = run.window_count_table([(16, 1, 16), (16, 2, 16), (9, 7, 9), (12, 1, 30)])
    assert (table["closed_form"] == table["counted"]).all(), table
    assert (table["by_ends"] > table["closed_form"]).all()
    assert windows.window_count([16, 16, 9, 1], [2, 8, 7, 1]).tolist() == [128, 512, 252, 0]


def test_computed_windows_are_those_of_the_trace_in_order_kind_and_volume(timeline):
    measured = trace.measured_windows().query("iteration == 10").reset_index(drop=True)
    for rail in range(4):
        computed = windows.rail_windows(timeline, rail)
        assert computed.equals(windows.rail_windows(timeline, rail, by_ends=True))
        assert computed[["window", "before", "after"]].equals(measured[["window", "before", "after"]])
        assert (computed["volume_after_bytes"] == measured["volume_after_bytes"]).all()


def test_one_solved_bandwidth_gives_the_other_lengths(timeline, solved):
    fast = simulate(run.run_workload(run.run_strategy()))
    lengths = run.window_lengths_table(timeline, fast).set_index("window")
    assert (lengths["datasheet_s"] <= lengths["computed_s"] + 1e-9).all()
    assert fast.iteration_s < timeline.iteration_s / 5
    optimizer = lengths.loc[8]  # it computes, and sends next to nothing
    assert optimizer["datasheet_s"] == pytest.approx(optimizer["computed_s"])
    assert lengths.loc[4, "computed_s"] == pytest.approx(lengths.loc[4, "measured_s"], rel=1e-9)
    assert lengths.loc[3, "computed_s"] == pytest.approx(lengths.loc[3, "measured_s"], rel=0.05)
    assert lengths.loc[1, "computed_s"] == pytest.approx(lengths.loc[1, "least_s"], rel=0.05)
    times = run.run_times_table(timeline).set_index("quantity")
    assert (times["difference"].abs() < 0.09).all()
    nvlink = catalog.item("platforms", run.PLATFORM)["hb_bandwidth"]
    assert solved.hb_Bps < 0.05 * nvlink  # the run had switched it off


def test_windows_in_the_picture_have_their_lengths_and_exchanges_their_messages(solved):
    pictures = run.own_schedule(2, 1, 2, 1e-3, solved) | run.own_schedule(3, 1, 3, 1e-3, solved)
    figure = rails.rail_timelines(pictures, "Llama-3 8B on a cluster")
    first, second = ([text.get_text() for text in ax.texts] for ax in figure.axes)
    assert {"1: 47 ms\n2: 0", "3: 1.29 s", "4: 1.99 s", "7: 0\n8: 15 ms", "2 AllReduces:\nFSDP, then PP"} <= set(first)
    assert first.count("×2") == 4, "the steady exchange, on each rank of the rail"
    messages = pictures[next(iter(pictures))]["traffic"].query("label == 'PP' and rank == 0")["messages"]
    assert messages.sum() == 4, "two activations, two gradients"
    named = [any("stage 2: can be concurrent" in text for text in texts) for texts in (first, second)]
    assert named == [False, True]
    assert "PP Send/Recv, ×2: both ways at once" in [text.get_text() for text in figure.legends[0].texts]
    assert legible.faults(figure) == []


@pytest.mark.parametrize("stages", [3, 4, 5])
def test_the_pair_in_the_picture_has_no_order_and_other_stages(solved, stages):
    step = run.run_workload(run.run_strategy(stages), stages, solved, iterations=1)
    timeline = run.run_timeline(step)
    pair = run.unordered_example(timeline).iloc[0]
    table = step.table.assign(start_s=timeline.table["start_s"], end_s=timeline.table["end_s"])
    gathers, sends = (table["operation"] == name for name in ("all_gather", "send_receive"))
    gathers &= np.isclose(table["start_s"], pair["gather_s"])
    gather = [row.op for row in table[gathers].itertuples() if pair["gather_rank"] in row.ranks]
    sends &= np.isclose(table["end_s"], pair["send_s"])
    send = [row.op for row in table[sends].itertuples() if pair["send_rank"] in row.ranks]
    pairs = run.unordered_pairs(step, stages - 1)
    assert [(a, b) for a in gather for b in send if (a, b) in pairs]
    graph = nx.DiGraph((before, op) for op, waits in enumerate(step.after) for before in waits)
    assert not any(nx.has_path(graph, *ends) or nx.has_path(graph, *ends[::-1]) for ends in pairs)


def test_words_in_the_picture_follow_what_is_drawn():
    base = {"stage": 0, "messages": 1}
    rows = [base | {"rank": r, "kind": "data", "label": "RS", "start_s": 0.0, "end_s": 0.5} for r in (0, 4)]
    sums = {"pipeline": 9.98, "data": 9.99}
    rows += [base | {"rank": 4, "kind": k, "label": "AR", "start_s": s, "end_s": s + 0.01} for k, s in sums.items()]
    hop = base | {"kind": "pipeline", "label": "PP"}
    rows += [hop | {"rank": 0, "messages": 2, "start_s": s, "end_s": s + 0.1} for s in (2.0, 2.2, 5.0)]
    parts = {"part": ["steady"], "start_s": [0.0], "end_s": [10.0]}
    picture = {
        "traffic": pd.DataFrame(rows),
        "windows": pd.DataFrame({"window": [1], "start_s": [0.5], "duration_s": [0.0]}),
        "circuits": pd.DataFrame({"kind": ["data"], "circuits": ["0-4"], "start_s": [0.0], "end_s": [10.0]}),
        "unordered": pd.DataFrame(),
        "parts": pd.DataFrame(parts),
    }
    texts = [text.get_text() for text in rails.rail_timelines({"A run": picture}, "x").axes[0].texts]
    assert texts.count("×2") == 2, "where the next send is near there is no room"
    assert "2 AllReduces:\nPP, then FSDP" in texts
    together = picture["traffic"].assign(start_s=picture["traffic"]["start_s"].replace(9.98, 9.99), messages=1)
    figure = rails.rail_timelines({"A run": picture | {"traffic": together}}, "x")
    assert "2 AllReduces:\nPP and FSDP" in [text.get_text() for text in figure.axes[0].texts]
    assert "PP Send/Recv" in [text.get_text() for text in figure.legends[0].texts]


def test_charts_label_operations_as_the_trace_does():
    assert {name: called.short for name, called in OPERATIONS.items()} == windows._LABELS


def test_the_enlarged_pass_has_arrows_between_dimensions_only(solved):
    small = replace(transformer.catalog_model(run.MODEL), layers=6)
    step = run.run_workload(run.run_strategy(), machine=solved, iterations=1, detail=True, model=small)
    operations, dependencies = run.traffic_picture(run.run_timeline(step), (0, 8))
    forward = operations.query("rank == 0 and phase == 'forward' and microbatch == 0")
    drawn = rails._crossings(forward, dependencies)
    assert (drawn["lane_from"] != drawn["lane_to"]).all() and set(drawn["rank_from"]) == {0}
    gathers = drawn[(drawn["lane_from"] == "data") & (drawn["start_s_to"] <= forward["end_s"].max())]
    assert len(gathers) == 3, "a gather before each of the stage's three layers"
    assert len(drawn[drawn["lane_to"] == "compute"]) == 6, "two computes of each layer"
    figure = rails.traffic_by_dimension(operations, dependencies, "Llama-3 8B on a cluster", "NVLink off")
    assert legible.faults(figure) == []
    assert {"AG", "RS"} <= {text.get_text() for text in figure.axes[1].texts}


def test_the_lengths_of_windows_stand_beside_the_documents_unless_the_numbers_are_the_readers(timeline, monkeypatch):
    tables = run.lengths_side_by_side(windows.all_rail_windows(timeline))
    values = window_claims.measured_claims([]).values | window_claims.volume_claims(timeline).values
    words = "Llama-3 8B", window_claims.solved_note()
    figure = window_lengths.window_lengths_figure(*tables, *words, *window_claims.marked_windows(values))
    left, _, right = ([text.get_text() for text in ax.texts] for ax in figure.axes)
    assert "longer than 1 ms: document more than 75%, against measured" in left and "document\n1,000 ms" in right
    assert any(text.startswith("measured: 74.1% (rail 0 76.2%, ") for text in left)
    below = [label.get_text().split("\n")[1] for label in figure.axes[1].get_xticklabels()]
    assert below == ["< 1 MB", "64 MB", "957 MB", "3,829 MB"]
    assert legible.faults(figure) == []
    monkeypatch.setattr(workspace, "parameterized", lambda: True)
    figure = window_lengths.window_lengths_figure(*tables, *words, *window_claims.marked_windows(values))
    assert not any("document" in text.get_text() for ax in figure.axes for text in (*ax.texts, ax.xaxis.label))


def test_a_change_hides_in_the_windows_that_are_no_shorter():
    windows_s = pd.Series([0.0, 1e-3, 2e-3, 0.5])
    (ax,) = window_lengths.hidden_changes(windows_s, [1e-3, 2e-3], "run").axes
    assert [text.get_text() for text in ax.texts] == ["1 ms hides in 75%", "2 ms hides in 50%"]
    x, y = ax.lines[0].get_data()
    for delay in (1e-4, 1e-3, 1.5e-3, 0.4):
        assert y[np.searchsorted(x, delay)] == (windows_s >= delay).mean()
    assert legible.faults(ax.figure) == []


def test_a_change_without_length_is_drawn_at_the_left_end_and_no_windows_are_refused():
    (ax,) = window_lengths.hidden_changes(pd.Series([0.0, 0.5]), [0.0], "run").axes
    assert ax.lines[-1].get_xydata().tolist() == [[window_lengths.SHORTEST_S, 1.0]]
    assert legible.faults(ax.figure) == []
    with pytest.raises(ValueError, match="windows_s is empty: give"):
        window_lengths.hidden_changes(pd.Series(dtype=float), [0.0], "run")


def test_phases_and_windows_of_a_rail_do_not_overlap(timeline):
    phases = windows.rail_phases(timeline)
    computed = windows.rail_windows(timeline)
    assert (phases["kind"] != phases["kind"].shift()).all()
    assert (phases["start_s"].to_numpy()[1:] >= phases["end_s"].to_numpy()[:-1] - 1e-12).all()
    first = phases[phases["iteration"] == 0]
    assert first["volume_bytes"].sum() == pytest.approx(computed["volume_after_bytes"].sum())
    assert len(windows.all_rail_windows(timeline)) == 4 * len(computed)


def test_rails_differ_more_in_single_windows_than_in_their_means():
    rows = [(0, 1, 1.0), (0, 2, 3.0), (1, 1, 3.0), (1, 2, 1.0)]
    table = pd.DataFrame(rows, columns=["rail", "window", "duration_s"])
    assert windows.largest_rail_difference(table) == 0 and windows.largest_difference_of_a_window(table) == 1
    measured = trace.measured_windows(None)
    assert windows.largest_difference_of_a_window(measured) > 10 * windows.largest_rail_difference(measured)


def test_the_sentence_on_overlap_holds_for_pp_and_fails_for_tp(solved):
    entries = window_claims.concurrency_claims(solved)
    name = "photonic2025.fig3.dp_tp_overlap"
    assert entries.values[name] == entries.values["photonic2025.fig3.pp_dp_sequence"] == 0
    assert "as printed: 0.16" in entries.readings[name]


def test_overlap_of_traffic(timeline, solved):
    assert run.overlapped_share(timeline, "data", "data") == 1
    assert run.overlapped_share(timeline, "pipeline", "tensor") == 0  # no tensor operations without detail
    detailed = run.run_timeline(run.run_workload(run.run_strategy(), machine=solved, iterations=1, detail=True))
    assert 0 < run.overlapped_share(detailed, "data", "tensor") < 1
    assert run.overlapped_share(detailed, "data", "pipeline") == 0
    assert run.wait_after_activation(detailed) == pytest.approx(0, abs=1e-9)


def test_only_from_three_stages_on_is_there_traffic_without_order(solved):
    step = run.run_workload(run.run_strategy(3), 3, solved, iterations=1)
    assert [len(run.unordered_pairs(step, stage)) for stage in range(3)] == [0, 0, 2]
    assert run.unordered_pairs(run.run_workload(run.run_strategy(), machine=solved), 1) == []
    one = run.run_workload(run.run_strategy(), 1, solved, iterations=1)  # one micro-batch: the norms' sums alone
    assert 0 < run.unordered_share(one, "data", "pipeline") < 0.02 < run.unordered_share(step, "data", "pipeline") < 0.2
    followers = [[1], [2], [], [2]]
    assert run._reached(followers, [0]) == {1, 2} and run._reached(followers, [2]) == set()


def test_an_own_schedule_counts_its_windows_in_its_title(solved):
    ((title, picture),) = run.own_schedule(4, 2, 8, 1e9, solved, "Llama-3 70B").items()
    assert title.startswith("PP=4, FSDP=2, 2 chunks a stage, 8 micro-batches: 32 windows in ")
    assert title.endswith(" 0 of 1,000,000,000 s or longer") and len(picture["windows"]) == 32
    ((_, ragged),) = run.own_schedule(3, 1, 3, 1e-3, solved).items()
    assert "32 layers" in ragged["traffic"].attrs["warnings"][0]
    with pytest.raises(ValueError, match="seeds is 0"):
        run.jittered_windows(solved, 0.02, 0)
    with pytest.raises(ValueError, match=r"pipeline is 1, .*: give 2 or more stages"):
        run.own_schedule(1, 1, 2, 1e-3, solved)
