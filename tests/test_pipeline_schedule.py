import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore.photonics.timetable import schedule
from railcore.training.pipeline_schedule import (
    SCHEDULE_KINDS,
    TRANSFERS,
    critical_sends,
    microbatches_in_flight,
    pipeline_bubble_time,
)
from suite.charts import timelines
from suite.railonly2025 import pipeline
from suite.railonly2025.pipeline import formula_checks

SECONDS = st.floats(0.1, 10)
ALL_KINDS = pytest.mark.parametrize("kind", SCHEDULE_KINDS)
ALL_TRANSFERS = pytest.mark.parametrize("transfers", TRANSFERS)
FEW = settings(max_examples=9)


@st.composite
def cases(draw, even=False):
    """Sizes and times that fit every kind; see `arguments`."""
    stages, rounds, more = draw(st.integers(2, 6)), draw(st.integers(1, 4)), draw(st.integers(0, 5))
    listed = st.lists(SECONDS, min_size=stages, max_size=stages)
    forward, backward = (draw(SECONDS if even else listed) for _ in range(2))
    send = draw(st.sampled_from([0.01, 0.7, 20.0, 0.0]))
    return stages, rounds, more, forward, backward, send, draw(st.integers(2, 4))


def arguments(kind, case):
    """Arguments of `schedule` for a case: kind, stages, microbatches, forward_s, backward_s, send_s, chunks."""
    stages, rounds, more, *times, chunks = case
    if kind == "interleaved":
        return kind, stages, rounds * stages, *times, chunks
    return kind, stages, 2 * rounds + more, *times, 1


@ALL_KINDS
@ALL_TRANSFERS
@FEW
@given(case=cases())
def test_a_compute_waits_for_its_input(kind, transfers, case):
    case = arguments(kind, case)
    _, p, m, forward, backward, send, v = case
    table = schedule(*case, transfers)
    down = np.arange(p * v)
    stage = np.concatenate([down, down[::-1]]) % p  # of the positions that a micro-batch passes
    moved = (stage[1:] != stage[:-1])[:, None]
    slack = 1e-9 * table.total_s
    assert table.end_s.shape == (2 * p * v, m)
    assert (table.start_s[1:] >= table.end_s[:-1] + send * moved - slack).all()
    took = np.concatenate([np.take(forward, stage[: p * v]), np.take(backward, stage[p * v :])])[:, None] / v
    assert table.end_s - table.start_s == pytest.approx(np.broadcast_to(took, table.end_s.shape))
    for q in range(p * v):  # micro-batches of a chunk in their order, each way
        assert (np.diff(table.start_s[[q, -1 - q]], axis=1) > 0).all()


@ALL_KINDS
@ALL_TRANSFERS
@FEW
@given(case=cases())
def test_the_critical_path_has_no_gap_and_is_made_of_events(kind, transfers, case):
    case = arguments(kind, case)
    table = schedule(*case, transfers)
    path, keys = table.critical_path(), ["event", "direction", "stage", "chunk", "microbatch"]
    assert path.start_s.iloc[0] == 0 and path.end_s.iloc[-1] == pytest.approx(table.total_s)
    assert path.start_s.iloc[1:].to_numpy() == pytest.approx(path.end_s.iloc[:-1].to_numpy())
    assert not path.duplicated(keys).any()
    both = path.merge(table.events, on=keys, suffixes=("", "_event"))
    assert len(both) == len(path)
    assert both.start_s.to_numpy() == pytest.approx(both.start_s_event.to_numpy())


@ALL_KINDS
@ALL_TRANSFERS
@FEW
@given(case=cases())
def test_a_stage_does_one_thing_at_a_time(kind, transfers, case):
    case = arguments(kind, case)
    events = schedule(*case, transfers).events
    alone = {"overlapped": [["compute"], ["send"]], "duplex": [["compute", "send"], ["compute", "receive"]]}
    for together in alone.get(transfers, [["compute", "send", "receive"]]):
        for _, mine in events[events.event.isin(together)].groupby("stage"):
            mine = mine.sort_values(["start_s", "end_s"])
            assert (mine.start_s.to_numpy()[1:] >= mine.end_s.to_numpy()[:-1] - 1e-9).all()


@ALL_KINDS
@ALL_TRANSFERS
@FEW
@given(case=cases())
def test_what_is_received_was_sent(kind, transfers, case):
    case = arguments(kind, case)
    _, p, m, _, _, _, v = case
    table = schedule(*case, transfers)
    events = table.events
    sends = events[events.event == "send"]
    matrix = table.peer_to_peer_bytes(3.0)
    assert matrix.sum(axis=1) == pytest.approx(3.0 * np.bincount(sends.stage, minlength=p))
    assert (matrix == matrix.T).all()  # a gradient comes back for every activation
    assert len(sends) == (2 * m * (p * v - 1) if p > 1 else 0)
    assert (events.event == "receive").sum() == (0 if transfers == "overlapped" else len(sends))


@ALL_KINDS
@FEW
@given(case=cases())
def test_peaks_are_those_of_the_closed_form_and_of_the_clock(kind, case):
    case = arguments(kind, case)
    _, p, m, _, _, _, v = case
    table = schedule(*case)
    closed = np.full(p, m) if kind == "gpipe" else microbatches_in_flight(p, m, v, np.arange(p))
    assert list(table.peak_microbatches) == list(closed)
    computes = table.events[table.events.event == "compute"]
    for i, mine in computes.groupby("stage"):
        begun = mine.start_s[mine.direction == "forward"].to_numpy()
        ended = mine.end_s[mine.direction == "backward"].to_numpy()
        held = [(begun <= t).sum() - (ended <= t).sum() for t in begun]
        assert max(held) / v == table.peak_microbatches[i]


@ALL_KINDS
@ALL_TRANSFERS
@FEW
@given(case=cases(even=True))
def test_closed_forms_bound_the_timetable_and_meet_it_where_they_say(kind, transfers, case):
    case = arguments(kind, case)
    _, p, m, forward, backward, send, v = case
    if kind == "interleaved" and transfers != "overlapped":
        return
    exact = {"overlapped": min(forward, backward) / v, "duplex": np.inf, "blocking": min(forward, backward) / 2}[
        transfers
    ]
    for c in (send, 0.0, 0.3 * min(forward, backward) / v, exact if np.isfinite(exact) else 3.0):
        table = schedule(kind, p, m, forward, backward, c, v, transfers)
        total, bubble = table.total_s, pipeline_bubble_time(p, m, forward, backward, v, c, kind, transfers)
        closed = m * (forward + backward) + bubble
        assert total >= closed - 1e-9 * total
        if c == 0:
            assert table.bubble_s == pytest.approx(bubble) and bubble == pytest.approx(
                (p - 1) * (forward + backward) / v
            )
            assert table.bubble_share == pytest.approx((p - 1) / (v * m + p - 1), abs=1e-12)
        if c <= exact or (kind == "gpipe" and transfers == "blocking"):
            assert total == pytest.approx(closed)


@ALL_KINDS
@ALL_TRANSFERS
@FEW
@given(case=cases(), scale=st.floats(0.1, 10))
def test_time_has_no_scale_and_a_longer_stage_never_helps(kind, transfers, case, scale):
    case = arguments(kind, case)
    _, p, m, forward, backward, send, v = case
    table = schedule(*case, transfers)
    scaled = schedule(kind, p, m, scale * np.array(forward), scale * np.array(backward), scale * send, v, transfers)
    assert scaled.total_s == pytest.approx(scale * table.total_s)
    slower = schedule(kind, p, m, np.array(forward) + np.eye(p)[0], backward, send, v, transfers)
    assert slower.total_s >= table.total_s - 1e-9 * table.total_s
    assert (table.bubble_s >= -1e-9 * table.total_s).all()


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
def test_one_stage_has_no_bubble_and_sends_nothing(kind):
    table = schedule(kind, 1, 5, 1, 2, send_s=9, transfers="blocking")
    assert table.total_s == 15 and table.bubble_s == [0] and not table.peer_to_peer_bytes(1).any()
    assert pipeline_bubble_time(1, 5, 1, 2, send_s=9) == 0


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
def test_the_path_of_even_stages_is_fill_last_stage_and_drain(kind):
    path = schedule(kind, 4, 8, 1, 2).critical_path()
    computes = path[path.event == "compute"].groupby("part", sort=False)
    assert {part: list(rows.stage) for part, rows in computes} == {
        "fill": [0, 1, 2],
        "last stage": [3] * 16,
        "drain": [2, 1, 0],
    }
    assert list(path[path.event == "send"].part) == ["fill"] * 3 + ["drain"] * 3


def test_the_formulas_of_the_document_against_their_counts():
    checks = formula_checks((2, 3, 7), (1, 4, 9), (0.5, 2.0), (2, 5))
    tensor = checks.formula == "pls_tp_time"
    assert checks.error[~tensor].max() < 1e-12
    assert (checks.counted / checks.printed)[tensor].to_numpy() == pytest.approx(4 * checks.microbatches[tensor])
    assert len(checks) == 3 * 3 * 2 * 2 * 5 + 2


@pytest.mark.parametrize("sync_s", [1.0, 5.0])
def test_synchronization_starts_with_the_last_backward_pass_and_shows_what_is_longer(sync_s):
    table = schedule("1f1b", 4, 8, 1.0, 2.0)
    events, path = pipeline.with_synchronization(table, sync_s)
    sync = events[events.event == "sync"].set_index("stage")
    assert list(sync.index.sort_values()) == [0, 1, 2, 3]
    assert (sync.end_s - sync.start_s).to_numpy() == pytest.approx([max(0.0, sync_s - 2.0)] * 4)
    assert sync.start_s[0] == pytest.approx(table.total_s) and path.end_s.max() == pytest.approx(sync.end_s[0])
    phases = pipeline.path_phases(path)
    assert list(phases) == ["bubble: fill", "last stage", "bubble: drain", "sync"][: 4 if sync_s > 2 else 3]
    ends = list(phases.values())
    assert ends[0][0] == 0 and all(a[1] == pytest.approx(b[0]) for a, b in itertools.pairwise(ends))


def test_tables_of_schedules_and_of_transfers_are_those_of_the_timetables():
    tables, events = pipeline.schedule_tables(4, 8, 0.01, 0.02, 2)
    assert [table.kind for table in tables.values()] == list(SCHEDULE_KINDS)
    assert all(f"bubble {table.bubble_share:.1%}" in title for title, table in tables.items())
    assert len(events) == sum(len(table.events) for table in tables.values())
    costs = pipeline.transfer_costs(4, 8, 0.01, 0.02, 1e-3, 2)
    added = costs.set_index(["schedule", "transfers"])["transfers that lengthen it"]
    for kind, name in {"gpipe": "GPipe", "1f1b": "1F1B"}.items():
        for transfers in TRANSFERS:
            assert added[name, transfers] == pytest.approx(critical_sends(4, 8, 1, kind, transfers))
    assert added["1F1B", "the document's sum"] == 2 * (4 - 1 + 8)
    free = pipeline.transfer_costs(4, 8, 0.01, 0.02, 0.0, 2)["transfers that lengthen it"]
    assert (free[:-1] == 0).all() and free.iloc[-1] == 2 * (4 - 1 + 8)


def test_panels_of_schedules_are_lettered_in_the_order_drawn():
    tables, _ = pipeline.schedule_tables(2, 2, 0.01, 0.02, 2)
    parts = [(title, table.events, table.peak_microbatches) for title, table in tables.items()][1:]
    titles = [ax.get_title("left") for ax in timelines.pipeline_gantts(parts).axes]
    assert [title[:8] for title in titles] == ["(a) 1F1B", "(b) inte"]
    plt.close("all")
