"""The exchange as a timeline, batches, points and thresholds, placements of experts."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore import catalog
from railcore import datacenter as dc
from railcore.datacenter.exposed import LayerTimes, least_wan_Bps, wide_area_exchange
from railcore.photonics.timetable import schedule
from railcore.training import transformer
from railcore.training.formats import catalog_precision
from suite import legible
from suite.charts import curves, timelines
from suite.flops2024 import expert_placement, exposed_claims, specification, timeline, training_case
from suite.flops2024.specification import communication_quantities, document_site
from suite.flops2024.training_case import TrainingCase
from suite.ledger import claims
from suite.ledger.readings import solve_for_target

SITE = document_site(23333, rate="fp4_sparse_rate")
NAMES = {"dense": "flops2024 dense", "moe": "flops2024 MoE"}
CASES = {
    key: TrainingCase(transformer.catalog_model(name), catalog_precision("flops2024"), SITE, {"recomputed": 3.0})
    for key, name in NAMES.items()
}
WAYS = exposed_claims.ways_of_counting({"dense rate": SITE.gpu_rate / 2})
TIMES = ("forward_s", "backward_s", "tensor_s", "pipeline_s", "steps_s")
seconds = st.floats(0.001, 1.0)
steps = st.tuples(seconds, seconds, seconds, seconds, seconds)
delays = st.floats(0.0, 0.3)


def made(x, delay=0.0, forward=0.5, tensor=0.0, pipeline=0.0):
    """Times whose third step carries x[2] at SITE's capacity, and its delay on top."""
    whole = (x[0], x[1], x[2] + delay, x[3], x[4])
    sent = (0.0, 0.0, x[2] * SITE.wan_Bps, 0.0, 0.0)
    return LayerTimes(forward, 2 * forward, tensor, pipeline, whole, sent)


def after_start(seen, times):
    return seen.end_s - (times.forward_s + times.tensor_s + times.pipeline_s)


@given(steps, delays)
def test_one_chunk_takes_the_sum_of_the_steps(x, delay):
    times = made(x, delay)
    assert after_start(timeline.timeline(times, SITE, 1, due=5), times) == pytest.approx(sum(x) + delay)


@given(steps, delays, st.integers(1, 12), st.sampled_from([0.0, 0.4, 1.0]), st.booleans())
def test_links_carry_everything_once_and_no_network_is_beaten(x, delay, chunks, spread, shared):
    times = made(x, delay, tensor=0.03, pipeline=0.02)
    seen = timeline.timeline(times, SITE, chunks, spread, 5, shared)
    exchange = seen.events[seen.events.chunk >= 0]
    busy = exchange[exchange.event != "propagation"]
    for step, (name, carried) in enumerate(zip(timeline.GRADIENT_EXCHANGE_STEPS, x, strict=True)):
        rows = exchange[exchange.event == name].sort_values("chunk")
        assert list(rows.chunk) == list(range(chunks))
        length = (rows.end_s - rows.start_s).sum()
        assert length >= carried - 1e-9 if shared else length == pytest.approx(carried)
        if step:  # a chunk's steps follow one another, after the delay where there is one
            before = exchange[exchange.event == timeline.GRADIENT_EXCHANGE_STEPS[step - 1]].sort_values("chunk")
            assert (rows.start_s.to_numpy() >= before.end_s.to_numpy() + (delay if step == 3 else 0) - 1e-9).all()
    for _, lane in busy.groupby("lane"):
        ordered = lane.sort_values("start_s")
        assert (ordered.start_s.to_numpy()[1:] >= ordered.end_s.to_numpy()[:-1] - 1e-9).all()
    assert seen.due_s == seen.end_s
    ready = times.forward_s + times.tensor_s + times.pipeline_s + spread * times.backward_s
    assert seen.end_s >= ready + sum(x) / chunks + delay - 1e-9


def test_an_idle_link_does_not_wait_and_traffic_of_the_passes_comes_first():
    times = made((0.01, 0.2, 0.01, 0.1, 0.01), 0.02, tensor=0.1, pipeline=0.04)
    alone, shared = (timeline.timeline(times, SITE, 8, 1.0, 5, shared=is_shared) for is_shared in (False, True))
    assert alone.end_s <= shared.end_s
    passes = shared.events[shared.events.event == "tensor"]
    reduce = shared.events[shared.events.event == "scale-up reduce"]
    for row in reduce.itertuples():
        under = sum(max(0, min(row.end_s, p.end_s) - max(row.start_s, p.start_s)) for p in passes.itertuples())
        assert row.end_s - row.start_s - under == pytest.approx(0.01 / 8)


def test_what_is_due_by_hand():
    """One chunk at 0.2 s: steps end at 0.3, 0.5, 0.55, arrive at 0.85, then 0.95 and 0.97; the passes at 0.6 s."""
    times = made((0.1, 0.2, 0.05, 0.1, 0.02), 0.3, forward=0.2)
    left = {2: 0.97 - 0.6 - 0.2, 3: 0.85 - 0.6, 5: 0.97 - 0.6}  # where nothing waits, what the next forward pass leaves
    for due, late in left.items():
        seen = timeline.timeline(times, SITE, 1, due=due)
        assert seen.exchange_s == pytest.approx(late)
        assert seen.share == pytest.approx(late / (0.6 + late))


def test_a_step_that_comes_under_traffic_of_the_passes_by_hand():
    """Backward pass from 0.4 s, tensor exchange from 0.6 to 0.7 s; the last step comes at 0.67 s."""
    times = made((0.1, 0.1, 0.05, 0.02, 0.1), forward=0.2, tensor=0.2)
    assert timeline.timeline(times, SITE, 1, due=5, shared=True).end_s == pytest.approx(0.8)
    assert timeline.timeline(times, SITE, 1, due=5).end_s == pytest.approx(0.77)


@pytest.mark.parametrize(("case", "chunks", "spread"), [("dense", 16, 1.0), ("moe", 16, 1.0), ("whole", 6, 0.0)])
def test_the_order_of_events_does_not_hang_on_the_last_bit(case, chunks, spread):
    times = made((36.0, 30.0, 6.0, 24.0, 36.0), 1.0) if case == "whole" else CASES[case].times
    orders = set()
    for factor in (1, 0.1, 1 / 3, 0.7, 1.1, np.pi):  # the same in another unit of time, rounded otherwise
        scaled = {name: np.multiply(getattr(times, name), factor) for name in TIMES}
        site = replace(SITE, wan_Bps=SITE.wan_Bps / factor)
        shared = case != "whole"
        events = timeline.timeline(replace(times, **scaled), site, chunks, spread, 3, shared).events
        orders.add(tuple(events[["lane", "event", "chunk"]].itertuples(index=False, name=None)))
    assert len(orders) == 1


@given(steps)
@settings(max_examples=20)
def test_without_delay_the_rules_are_limits_of_the_timeline(x):
    one, two, wide, four, five = x
    two, four = two + one + wide, four + five
    times = made((one, two, wide, four, five), forward=0.2)
    slack = 3 * (one + two + wide + four + five) / 100
    whole, late = (timeline.timeline(times, SITE, 100, due=due).exchange_s for due in (5, 3))
    assert times.gradients_s("busiest network") - 1e-9 <= whole <= times.gradients_s("busiest network") + slack
    assert late <= times.gradients_s("gathers under forward") + slack
    if two > times.backward_s:
        assert late >= times.gradients_s("slowest reduce") - 1e-9


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_may_come_later_exposes_less(case):
    shares = [timeline.timeline(case.times, SITE, 32, due=due).share for due in (2, 3, 5)]
    assert shares == sorted(shares)
    assert timeline.timeline(case.times, SITE, 32, 1.0).share >= shares[1]
    slow = replace(case.times, forward_s=10.0, backward_s=20.0)
    assert timeline.timeline(slow, SITE, 32).exchange_s == 0
    ends = [timeline.timeline(case.times, SITE, chunks).end_s for chunks in (1, 8, 64)]
    assert ends == sorted(ends, reverse=True)


@pytest.mark.parametrize("wrong", [{"chunks": 0}, {"spread": 1.2}])
def test_a_timeline_names_what_is_out_of_range(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        timeline.timeline(CASES["moe"].times, SITE, **wrong)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_fill_and_drain_are_the_pipelines(case):
    m = [1, 4, 100, 10**7]
    table = training_case.pipelined_iteration(case.times, 134, m, "each network")
    assert np.allclose(table[["computing", "exposed", "idle"]].sum(axis=1), 1)
    without = table.time_s - case.times.gradients_s()
    assert np.allclose(table.idle * table.time_s / without, [133 / (n + 133) for n in m])
    t = case.times
    lasting = 2 * (t.tensor_s + t.pipeline_s)
    assert table.exposed.iloc[-1] == pytest.approx(lasting / (t.forward_s + t.backward_s + lasting), rel=1e-4)
    small = training_case.pipelined_iteration(t, 3, [5]).time_s[0] - t.gradients_s()
    wait = t.tensor_s + t.pipeline_s
    run = schedule("1f1b", 3, 5, float(t.forward_s + wait), float(t.backward_s + wait))
    assert small == pytest.approx(run.total_s)


def test_tokens_are_counted():
    case, laid = CASES["dense"], CASES["dense"].layout
    replicas = laid.layers_per_rack * laid.racks_per_layer_here * 2
    assert training_case.tokens_per_micro_batch(case.layer, laid) == pytest.approx(32000 * replicas)
    table = training_case.iterations_by_micro_batches(CASES, [1, 3, 500])
    assert table.tokens[1] == pytest.approx(3 * table.tokens[0])
    kept = case.layer.activation_bytes / laid.tensor  # of a micro-batch; the schedule counts those in flight
    stages = schedule("1f1b", 134, 3, 1.0, 2.0).peak_microbatches.max()
    assert list(table.host_bytes[:3] / kept) == pytest.approx([1, stages, 134])


def test_points_are_read_from_the_claims_and_every_rule_judges_them():
    points = exposed_claims.PRINTED_POINTS
    assert set(points) == {key for part in ("", "a", "b") for key in claims.ids(f"flops2024.fig3{part}")}
    slow, fast = (CASES["dense"].changed(site={"nic_Bps": nic}).share for nic in (5e10, 2e11))
    assert exposed_claims.shares_at_points(CASES)["flops2024.fig3b.dense_400g_gain"] == pytest.approx(slow - fast)
    table = exposed_claims.shares_under_rules(CASES, WAYS)
    assert len(table) == len(points) * (len(dc.OVERLAP_RULES) + len(WAYS))
    halved = CASES["moe"].changed(site={"hb_Bps": 0.5e11}).share
    of = table.set_index(["reading", "claim"]).value
    assert of["one direction of the scale-up", "flops2024.fig3a.moe_800g"] == pytest.approx(halved)


def test_reduce_scatter_and_gather_carry_what_the_documents_all_reduce_does():
    late = {"options": {"reduce": "reduce_scatter"}, "rule": "busiest network"}
    for case in CASES.values():
        for nic in (1.25e10, 1e11):
            point = case.changed(site={"nic_Bps": nic})
            ours = point.changed(rule="slowest reduce").share
            assert point.changed(**late).share == pytest.approx(ours)


def test_curves_are_the_cases_and_marks_stand_at_the_documents_speeds():
    drawn = training_case.share_by_speed(CASES, {"nic_Bps": [1e10, 1e11], "wan_Bps": [1e9]}, 1)
    one = drawn[(drawn.network == "scale-out") & (drawn.model == "moe")]
    assert one.share.iloc[1] == pytest.approx(CASES["moe"].share)
    assert set(drawn[drawn.network == "wide area"].case) == {"lossless", "tail loss, 1 RTT"}
    marks = exposed_claims.printed_marks(CASES).set_index(["network", "model", "share"]).speed_Bps
    for key in NAMES:
        share = claims.paper_value(f"flops2024.fig3.exposed_{key}")
        assert marks["scale-up", key, share] == SITE.hb_Bps and marks["scale-out", key, share] == SITE.nic_Bps


def test_pictures_have_the_documents_numbers_beside_ours():
    shares, printed = exposed_claims.printed_shares(CASES), exposed_claims.printed_durations(CASES)
    views = timeline.titled_timelines(CASES, shares, chunks=4)
    figure = timelines.exchange_timelines(dict(reversed(views.items())), "a GPU", printed)  # times go by the name
    assert "(document: 5%)" in figure.axes[1].get_title("left")
    figure = timelines.exchange_timelines(views, "a GPU", printed)
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert {"45.18", "18.9", "112.23", "66.1", "9.4", "56.11"} <= set(texts)
    assert "(document: 20%)" in figure.axes[1].get_title("left")
    drawn = training_case.share_by_speed(CASES, {"hb_Bps": [1e11], "nic_Bps": [1e10, 1e11], "wan_Bps": [1e9, 1e10]}, 1)
    marks = exposed_claims.printed_marks(CASES), exposed_claims.hidden_delay(CASES)
    figure = curves.exposed_share_by_speed(drawn, "a machine", exposed_claims.printed_speeds(), *marks)
    assert {"≥ 40%", "75%"} <= {text.get_text() for text in figure.axes[0].texts}
    assert "20 Gbps" in figure.axes[2].texts[0].get_text() and {100, 400, 800} <= set(figure.axes[1].get_xticks())
    plain = curves.exposed_share_by_speed(drawn, "a machine", exposed_claims.printed_speeds())
    assert not any(ax.texts for ax in plain.axes)
    noted = curves.exposed_share_by_speed(drawn, "a machine", exposed_claims.printed_speeds(), note="as computed")
    assert noted.legends[0].get_title().get_text() == "as computed"
    plt.close("all")


def test_with_own_numbers_no_builder_has_marks(monkeypatch):
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")
    marks = exposed_claims.printed_marks(CASES), exposed_claims.hidden_delay(CASES)
    assert marks[0].empty and marks[1] is None
    assert exposed_claims.printed_shares(CASES) == {}
    assert not any(exposed_claims.printed_durations(CASES).values())
    drawn = training_case.share_by_speed(CASES, {"hb_Bps": [1e11], "nic_Bps": [1e11], "wan_Bps": [1e9]}, 1)
    figure = curves.exposed_share_by_speed(drawn, "a machine", exposed_claims.printed_speeds(), *marks)
    assert not any(ax.texts for ax in figure.axes)
    plt.close(figure)


@given(st.integers(2, 6), st.floats(0, 1), st.floats(0.05, 2))
def test_the_least_capacity_just_hides_the_wide_area(sites, rtts, hidden):
    site = replace(SITE, datacenters=sites, tail_loss_rtts=rtts)
    case = replace(CASES["moe"], site=site)
    laid = case.layout
    least = least_wan_Bps(case.layer, laid, site, hidden)
    if np.isinf(least):
        assert hidden <= (1 + 2 * rtts) * site.one_way_delay_s + 1e-12
        return
    chunk = case.layer.gradient_bytes / (laid.tensor * laid.layers_per_rack * laid.racks_per_layer_here)
    assert wide_area_exchange(chunk, replace(site, wan_Bps=least))[1] == pytest.approx(hidden)


def test_one_datacenter_needs_no_wide_area_and_more_need_more():
    table = training_case.share_by_datacenters(CASES, [1, 2, 3, 4])
    for _, part in table.groupby("model"):
        assert part.needed_per_gpu_Bps.iloc[0] == part.wide_area_s.iloc[0] == part.fibre_pairs.iloc[0] == 0
        assert part.needed_per_gpu_Bps.is_monotonic_increasing
        assert (part.needed_per_gpu_with_loss_Bps >= part.needed_per_gpu_Bps).all()
    lossy = {name: case.changed(site={"tail_loss_rtts": 1.0}) for name, case in CASES.items()}
    assert training_case.share_by_datacenters(lossy, [2]).needed_per_gpu_Bps.tolist() == pytest.approx(
        table[table.datacenters == 2].needed_per_gpu_Bps.tolist()
    )
    devices = table.replicas / table.datacenters * table.model.map({"dense": 134, "moe": 118}) * 18  # of a datacenter
    assert np.allclose(table.needed_per_datacenter_Bps, table.needed_per_gpu_Bps * devices)
    pair_Bps = catalog.item("wide_area", "fibre pair")["capacity"]
    spare = table.fibre_pairs * pair_Bps - table.needed_per_datacenter_Bps
    assert ((spare >= 0) & (spare < pair_Bps)).all()


def test_datacenters_that_do_not_hold_a_model_are_left_empty():
    few = {name: case.changed(site={"racks": 4 * 118}) for name, case in CASES.items()}  # 134 layers fit three times
    table = training_case.share_by_datacenters(few, [3, 4]).set_index(["datacenters", "model"])
    assert table.loc[4, "dense"].isna().all() and table.drop((4, "dense")).notna().all(axis=None)
    far = {"moe": CASES["moe"].changed(site={"one_way_delay_s": 1.0})}
    assert np.isinf(training_case.share_by_datacenters(far, [2]).needed_per_gpu_Bps[0])


def test_the_answer_has_the_most_that_any_count_gives_and_the_network_that_helps_most():
    text = exposed_claims.exposed_answer(CASES, "GB200 NVL72", 12)
    assert "4.9% with a dense model and 19% with a mixture of experts" in text
    assert "up to 39%" in text and "on the scale-out network" in text and legible.answer_faults(text) == []
    slow = {"dense": CASES["dense"].changed(site={"wan_Bps": 1e8})}
    text = exposed_claims.exposed_answer(slow, "them", 12)
    assert "on the wide area network: twice its speed helps the dense model most" in text and "mixture" not in text


def test_without_a_mixture_its_claims_are_left_out():
    alone = {"dense": CASES["dense"]}
    dense_points = {key for key, (model, *_) in exposed_claims.PRINTED_POINTS.items() if model == "dense"}
    assert set(exposed_claims.shares_at_points(alone)) == dense_points
    with_both = exposed_claims.exposed_values(CASES, 1.0)
    ours = exposed_claims.exposed_values(alone, 1.0)
    rest = {key for key in with_both if "moe" in key} | {"flops2024.fig3c.lossless_20g_exposed"}
    assert set(ours) == set(with_both) - rest
    assert exposed_claims.layer_reasons(alone, SITE.gpu_rate / 2) == {}
    assert set(exposed_claims.exposed_readings(ours, alone, 1.0, 32_768)) < set(ours)


@pytest.mark.parametrize("lost_rtts", [0.0, 0.5, 1.0])
def test_the_capacity_that_hides_tail_loss_hides_the_late_bytes_too(lost_rtts):
    """At the capacity quoted the lossy exchange between the coasts just fits the backward pass; with a loss it is more
    than without, and it exposes what is lost: the same bytes, `lost_rtts` round trips later.
    """
    ours = exposed_claims.exposed_values(CASES, lost_rtts)
    capacity = ours["flops2024.fig3c.tail_loss_moe_capacity"] / 8
    case = CASES["moe"].changed(site={"tail_loss_rtts": lost_rtts})
    at, below = (
        communication_quantities(case.changed(site={"wan_Bps": rate}))["wan_exposed"]
        for rate in (capacity, capacity / 1.01)
    )
    assert at == pytest.approx(0, abs=1e-9) and below > 1e-7
    lossless = communication_quantities(CASES["moe"])
    assert (capacity > lossless["wan_masked"]) == (lost_rtts > 0)
    times, later = CASES["moe"].times, lost_rtts * 2 * SITE.one_way_delay_s
    exposed = max(0.0, float(times.steps_s[2] + later - times.backward_s))
    assert ours["flops2024.fig3c.tail_loss_moe_exposed"] == pytest.approx(exposed)
    assert ours["flops2024.fig3c.lossless_20g_exposed"] == pytest.approx(lossless["wan_exposed"])


def test_quantities_of_a_case_agree_with_each_other_and_with_the_transformer():
    case = CASES["moe"]
    quantities = communication_quantities(case)
    assert quantities["dp_masked"] + quantities["dp_exposed"] == pytest.approx(quantities["dp_scale_out_all_reduce"])
    assert quantities["dp_scale_out_all_gather"] == pytest.approx(quantities["dp_scale_out_all_reduce"] / 2)
    once, none = (case.model.training_flops(recompute=recompute, causal=False) for recompute in ("selective", "none"))
    logits = 3 * case.model.forward_flops(causal=False)["logits"]
    assert quantities["recompute_overhead"] == pytest.approx((once - none) / (none - logits))


def placed(location="tensor group", places=1, tensor=0, site=SITE, **options):
    case = CASES["moe"]
    return expert_placement.expert_placement(replace(case, site=site), location, places, tensor, **options)


def test_experts_in_the_tensor_group_are_the_documents_layout():
    times, document = placed().times, CASES["moe"].times
    assert times.share() == pytest.approx(document.share())
    assert times.steps_s == pytest.approx(document.steps_s)
    assert times.experts_s == 0


def test_only_mixture_layers_gather_more_tokens():
    case = CASES["moe"]
    mixed = replace(case.model, expert_layer_interval=2)  # half of the layers
    all_layers, half = (
        expert_placement.expert_placement(replace(case, model=model), "rack", 4, 18).times
        for model in (case.model, mixed)
    )
    alone = placed(tensor=18).times.tensor_s
    assert all_layers.tensor_s == pytest.approx(alone * 1.5)
    assert half.tensor_s == pytest.approx(alone * 1.25)
    assert half.experts_s == pytest.approx(all_layers.experts_s / 2)


def test_traffic_of_experts_covers_no_late_gradients():
    times, more = CASES["moe"].times, placed("racks", 8).times
    late = replace(times, experts_s=more.experts_s).gradients_s("whole period")
    assert more.experts_s > 0 and late == pytest.approx(times.gradients_s("whole period"))
    none = replace(more, experts_s=0.0)  # each pass of each micro-batch waits for them
    assert more.exposed_s(micro_batches=3) == pytest.approx(none.exposed_s(micro_batches=3) + 6 * more.experts_s)


@pytest.mark.parametrize(("where", "places"), [("rack", 4), ("rack", 8), ("racks", 2), ("racks", 8)])
def test_experts_elsewhere_conserve_gradients_memory_and_tokens(where, places):
    case, spread = CASES["moe"], placed(where, places)
    t, laid, model = spread.laid.tensor, spread.laid, case.model
    bank = model.parameters()["experts"] / model.layers * case.precision.state
    held = spread.device_bytes * t - case.layer.activation_bytes  # of a place
    assert held == pytest.approx(case.layer.layer_state_bytes - bank * (1 - 1 / places))
    # tokens counted one by one: each of the k copies goes to each of e places alike
    copies = model.top_k * case.layer.tensor_bytes / t
    link_Bps = SITE.hb_Bps if where == "rack" else SITE.nic_Bps
    dispatched_bytes = copies * (places - 1) / places
    assert spread.times.experts_s == pytest.approx(2 * dispatched_bytes / link_Bps)  # there and back
    y = laid.racks_per_layer_here
    assert y % (places if where == "racks" else 1) == 0
    # the exchange between racks, GPU by GPU: what a rack keeps of a layer, in rings over the racks that share it
    G, E = case.layer.gradient_bytes, model.parameters()["experts"] / model.layers * case.precision.gradients
    racks = y / places if where == "racks" else y
    held_experts = E / places if where == "racks" else E
    expected = 2 * ((G - E) / 72 * (y - 1) / y + held_experts / 72 * (racks - 1) / racks)
    assert spread.times.steps_bytes[1] == pytest.approx(expected)
    assert spread.times.steps_s[1] == pytest.approx(expected / SITE.nic_Bps)


def test_placements_are_compared_on_a_grid_as_alone():
    case = CASES["moe"]
    placements = expert_placement.fitting_placements(case, (1, 2))
    grid = expert_placement.placements_by_speed(case, [SITE.hb_Bps, 1e11], [SITE.nic_Bps, 1e10], (1, 2))
    here = grid[(grid.hb_Bps == SITE.hb_Bps) & (grid.nic_Bps == SITE.nic_Bps)].set_index("placement").share
    alone = {placement.name: float(placement.times.share(case.rule)) for placement in placements}
    assert np.allclose(here[list(alone)], list(alone.values()))
    assert grid[grid.best].groupby(["hb_Bps", "nic_Bps"]).size().ge(1).all()
    assert grid.best.sum() >= 4
    assert all(placement.device_bytes <= SITE.memory_bytes for placement in placements)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"location": "rack", "places": 8, "tensor": 18}, "places"),
        ({"location": "rack", "places": 4, "tensor": 12}, "places"),
        ({"location": "racks", "places": 8, "site": replace(SITE, racks=1400)}, "places"),
        ({"site": replace(SITE, memory_bytes=1e9)}, "rack"),
    ],
)
def test_a_placement_names_what_cannot_be(change, text):
    with pytest.raises(ValueError, match=text):
        placed(**change)


def test_a_case_under_settings_as_a_person_gives_them():
    case = CASES["moe"]
    speeds = {"hb_gbps": 14_400.0, "nic_gbps": 800.0, "wan_gbps": 20.0}
    same = specification.case_with_settings(case, "GB200 NVL72", case.rule, "fp4_sparse_rate", "flops2024", 2, **speeds)
    assert same.share == pytest.approx(case.share)
    half = {name: speed / 2 for name, speed in speeds.items()}
    other = specification.case_with_settings(case, "GB200 NVL72", "slowest reduce", "fp4_dense_rate", "fp8", 1, **half)
    assert (other.site.hb_Bps, other.site.nic_Bps, other.site.wan_Bps) == (9e11, 5e10, 1.25e9)
    assert other.site.gpu_rate == case.site.gpu_rate / 2 and other.site.datacenters == 1
    assert other.rule == "slowest reduce" and other.precision == catalog_precision("fp8")


@pytest.mark.parametrize("power", [-1.7, -0.5, 1.0, 2.4])
def test_a_value_is_found_up_to_16_times_off_and_nowhere_else(power):
    quantity, target = (lambda x: 5 * (x / 2) ** power), 5 * 3.0**power
    for near in (6 / 15.9, 4.0, 6 * 15.9):
        assert solve_for_target(quantity, target, near) == pytest.approx(6.0)
    for near in (6 / 16.1, 6 * 16.1):
        assert np.isnan(solve_for_target(quantity, target, near))
