"""The critical path against timetables of its schedule, event by event, and what no arithmetic may break."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.photonics.timetable import schedule
from railcore.training.critical_path import LAYER_ROW, SETTING, STAGE_ROW, critical_path
from railcore.training.iteration import iteration_time, iteration_times, stage_memory
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

H100 = catalog_machine("DGX H100")
DENSE = Transformer("dense", 8, 512, 8, 4, 2048, 4000, 64, ffn_matrices=2)
MIXTURE = Transformer("mixture", 8, 512, 8, 4, 1024, 4000, 64, ffn_matrices=2, experts=8, top_k=2, imbalance=1.5)
SIZES = st.tuples(st.integers(2, 8), st.sampled_from((2, 3, 4, 8)), st.integers(1, 4))


def record(kind, **values):
    row = np.zeros(1, kind).view(np.recarray)
    for name, value in values.items():
        row[name] = value
    return row[0]


def pipeline(p, v, m, forward_s=1.0, backward_s=2.0, layers=1e9, on_nic=1.0, **exchanges):
    """A stage of that time whose links are busy with nothing but the exchanges given."""
    layer = record(LAYER_ROW, forward_s=forward_s / layers, backward_s=backward_s / layers, logits_s=1e-30)
    filling = {
        "fill_passes": (p - 1) / v,
        "fill_backward": (p - 1) / v,
        "fill_hops": p - 1 / v,
        "hops_hide": v > 1,
        "logits_share": 1.0,
    }
    stage = record(STAGE_ROW, layers=layers, hop_Bps=1.0, hop_on_nic=on_nic, **filling, **exchanges)
    setting = record(SETTING, overlap_data=1.0, memory_bytes=1e9, host_Bps=1.0)
    return critical_path(layer, stage, setting, 1.0, float(p), 1.0, float(v), float(m), layers)


def exchanged(timetable, direction, link_s):
    """When each stage's gradients have left, or how much later its weights let it start: chunk after chunk.

    A chunk's gradients come while its last backward pass runs. Its weights are needed while its first forward pass
    runs: the same, the other way round in time.
    """
    events = timetable.events
    events = events[(events["event"] == "compute") & (events["direction"] == direction)]
    late = []
    for _, stage in events.groupby("stage"):
        end, v = timetable.total_s, timetable.chunks
        if direction == "backward":
            passes = [(row.start_s, row.end_s) for row in stage.groupby("chunk").tail(1).itertuples()]
        else:
            passes = [(end - row.end_s, end - row.start_s) for row in stage.groupby("chunk").head(1).itertuples()]
        free = 0.0
        for start, stop in sorted(passes):
            free = max(max(free, start) + link_s / v, stop)
        late.append(free - end)
    return max(late)


@pytest.mark.parametrize(("direction", "place"), [("backward", "after"), ("forward", "before")])
@given(SIZES, st.floats(0.05, 30.0))
def test_gradients_and_weights_hide_as_in_the_timetable(direction, place, sizes, link_s):
    """exposed = max((L - b) / v, L - b (1 + (v - 1) p) / v), to the last digit, on the stage that is worst off."""
    p, v, groups = sizes
    m = p * groups
    timetable = schedule("interleaved", p, m, 1.0, 2.0, chunks=v)
    found = pipeline(p, v, m, **{f"{place}_s": link_s, f"{place}_nic_s": link_s})
    assert found.data_once_s == pytest.approx(max(exchanged(timetable, direction, link_s), 0.0), abs=1e-6)


@given(SIZES, st.floats(0.0, 1.0))
def test_hops_behind_other_chunks_are_those_of_the_timetable(sizes, share):
    """p v - 1 hops there and as many back fill and drain the pipeline; the others hide, up to t_f / v each."""
    p, v, groups = sizes
    send_s = share / v
    timetable = schedule("interleaved", p, p * groups, 1.0, 2.0, send_s, v)
    found = pipeline(p, v, p * groups, hop_latency_s=send_s)
    assert found.total_s == pytest.approx(timetable.total_s, rel=1e-9)


def test_a_busy_link_hides_less():
    """The gradients of a stage with half of its NIC left take twice the window."""
    free = pipeline(4, 2, 8, after_s=5.0, after_nic_s=5.0)
    layer_nic = {"in_forward_nic_s": 0.5, "in_backward_nic_s": 1.0}
    busy = pipeline(4, 2, 8, after_s=5.0, after_nic_s=5.0, **layer_nic)
    other = pipeline(4, 2, 8, after_s=5.0, after_hb_s=5.0, **layer_nic)
    window = 2.0 * (1 + 4) / 2
    assert free.data_once_s == pytest.approx(max(5.0 - window, (5.0 - 2.0) / 2))
    assert busy.data_once_s == pytest.approx(max(5.0 - window / 2, (5.0 - 1.0) / 2))
    assert other.data_once_s == pytest.approx(free.data_once_s)
    assert busy.nic_s <= busy.total_s


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("offload", ["none", "activations", "optimizer", "weights"])
@pytest.mark.parametrize(("p", "v", "m"), [(1, 1, 4), (2, 1, 4), (4, 1, 8), (4, 2, 8), (4, 2, 7), (2, 2, 2)])
def test_the_fullest_stage_is_the_memory_of_the_iteration(p, v, m, offload, ends):
    if ends and p == 1:
        return
    model = replace(DENSE, layers=14 if ends else 16, vocabulary=64_000)
    strategy = Strategy(2, pipeline=p, interleave=v, data=2, ends_as_layers=ends, sharding="optimizer")
    table = stage_memory(model, H100, strategy, 2 * m, offload=offload)
    found = iteration_times(model, H100, strategy, offload=offload, global_batch=2 * m)
    assert table["total"].max() == pytest.approx(found.memory_bytes.item(), rel=1e-9)
    assert table["layers"].sum() == model.layers


def test_a_strategy_prints_as_a_table_with_units():
    found = iteration_times(
        "GPT-3", "DGX A100", Strategy(8, pipeline=8, data=8, sequence_parallel=True), global_batch=256
    )
    text = str(found)
    for word in ("iteration", " s", "NIC busy", "memory of the fullest GPU", "GB", "limit", "%"):
        assert word in text
    assert "<table" in found._repr_html_()
    several = iteration_times("GPT-3", "DGX A100", [Strategy(8, data=8), Strategy(4, data=16)], global_batch=256)
    assert len(several.table()) == 2 and "nic_utilization" in several.table()


def test_a_slower_host_is_never_faster_where_hops_hide_and_the_last_stage_has_fewer_layers():
    """What a slower host adds hides hops; the layer that the loss replaces must not save it once more."""
    layer = record(LAYER_ROW, forward_s=1.0, backward_s=2.0, kept_bytes=1.0, logits_s=30.0, boundary_bytes=1.0)
    stage = record(STAGE_ROW, layers=2.0, spare_layers=1.0, hop_Bps=0.2, hop_on_nic=1.0, hops_hide=1.0)
    stage["logits_share"] = 1.0
    times = []
    for rate in (10.0, 1.0, 0.6, 0.5, 0.4, 0.3, 0.2, 0.05):
        setting = record(SETTING, memory_bytes=1e9, host_Bps=rate, offload_activations=1.0)
        times.append(critical_path(layer, stage, setting, 1.0, 2.0, 1.0, 2.0, 8.0, stage.layers).total_s)
    assert np.all(np.diff(times) >= -1e-9) and times[0] < times[-1] - 1


def test_wide_dense_first_layers_count_at_two_stages():
    """Of 8 layers the first 4 are dense and eight times as wide as what a mixture layer computes."""
    wide = replace(MIXTURE, ffn_hidden=64 * 1024, expert_hidden=512, dense_layers=4, hidden=2048, sequence_length=2048)
    alone = replace(wide, experts=0, top_k=1, expert_hidden=0, dense_layers=0, imbalance=1.0)
    split = Strategy(pipeline=2, data=2)
    for model, machine in ((wide, H100), (replace(wide, dense_layers=2), H100)):
        found, dense = (iteration_times(each, machine, split, global_batch=16) for each in (model, alone))
        share = model.dense_layers / 4  # of the first stage
        assert found.breakdown["linear_s"] >= share * dense.breakdown["linear_s"] * (1 - 1e-9)
        assert found.total_s == pytest.approx(iteration_time(model, machine, split, 16).total_s, rel=1e-9)
    narrow = replace(wide, ffn_hidden=1024)  # the last stage, of mixture layers, is the slower one
    later = replace(narrow, dense_layers=0)
    times = [iteration_times(each, H100, split, global_batch=16).breakdown["linear_s"] for each in (narrow, later)]
    assert times[0] == times[1]
