"""GPUs out of service against a public trace, spares, and goodput on what is known of a cluster."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from railcore import catalog
from railcore.catalog.units import hour, words, year
from railcore.network import reliability
from railcore.network.reliability import expected_failures, hosts_to_spare, parts_at_risk
from railcore.network.topology.rails import rail_only
from railcore.planner.goodput import training_goodput
from railcore.planner.planning import plan
from railcore.training.parallelism import Strategy

FABRIC, JOB = rail_only(512, 8, 64), ("Llama-3 8B", "DGX H100", Strategy(tensor=8, data=64), 512, "DGX H100")
SERVERS, FAULTS, HARDWARE = 400, 584, 298  # of the trace


def rates_of(name, parameter):
    return catalog.item("failure_rates", name).row(parameter)


def out_of_service(rates, monkeypatch):
    """Share of the GPUs of 400 servers, one link a NIC, with rates and repair times by kind; others do not fail."""
    usual = reliability.rate_and_repair
    with monkeypatch.context() as patch:
        patch.setattr(
            reliability,
            "rate_and_repair",
            lambda kind: [
                replace(row, value=new) for row, new in zip(usual(kind), rates.get(kind, (0, 0)), strict=True)
            ],
        )
        parts = parts_at_risk(rail_only(8 * SERVERS, 8, 1024), "DGX H100")
        return float((expected_failures(parts)["parts_down"] * parts["gpus_out"]).sum()) / (8 * SERVERS)


def test_the_models_servers_are_out_of_service_as_long_as_the_traces(monkeypatch):
    """A failed GPU, NIC, cable or other part took its server out: 1.7% by hardware, 2.3% by all faults."""
    rates = {
        kind: (rates_of(kind, "failure_rate_trace").value, rates_of(kind, "repair_time").value)
        for kind in ("GPU", "NIC", "host")
    }
    rates["link"] = rates_of("link", "failure_rate_trace").value, rates_of("link", "repair_time").high
    hardware = out_of_service(rates, monkeypatch)
    assert hardware == pytest.approx(rates_of("server", "out_of_service_trace_hardware").value, rel=2e-3)
    assert hardware == pytest.approx(0.017, abs=5e-4)
    # the other 286 faults are the servers' own: 132.8 h of all less 188.7 h of hardware
    others = rates_of("server", "stop_rate_trace").value * (1 - HARDWARE / FAULTS)
    others_s = (FAULTS * 132.8 - HARDWARE * 188.7) / (FAULTS - HARDWARE) * hour
    rate, repair_s = rates["host"]
    rates["host"] = rate + others, (rate * repair_s + others * others_s) / (rate + others)
    every = out_of_service(rates, monkeypatch)
    assert every == pytest.approx(rates_of("server", "out_of_service_trace").value, rel=2e-3)
    assert every == pytest.approx(0.023, abs=5e-4)


def test_a_failed_part_takes_its_host_out_where_it_cuts_a_gpu_off():
    parts = parts_at_risk(FABRIC, "DGX H100").set_index("part")
    out = parts["gpus_out"]
    assert (out[["GPU", "NIC", "host", "host link", "host transceiver", "HB switch"]] == 8).all()
    assert out["software"] == 0 and out["tier-1 switch"] == parts["gpus_stopped"]["tier-1 switch"] == 64
    planes = parts_at_risk(replace(FABRIC, planes=2), "DGX H100").set_index("part")["gpus_out"]
    assert not planes[["host link", "host transceiver", "tier-1 switch", "software"]].any() and planes["GPU"] == 8
    rack = parts_at_risk(rail_only(576, 72, 64), "GB200 NVL72").set_index("part")["gpus_out"]
    assert (rack["GPU"], rack["host"], rack["HB switch"]) == (4, 4, 72)


@given(st.floats(0, 1e4), st.floats(0.01, 0.9999))
def test_spares_cover_the_hosts_that_are_down_and_one_less_does_not(down, covered):
    spares = hosts_to_spare(down, covered)
    assert poisson.cdf(spares, down) >= covered * (1 - 1e-9)
    assert spares == 0 or poisson.cdf(spares - 1, down) < covered * (1 + 1e-9)


@pytest.mark.parametrize(("down", "covered"), [(-1, 0.99), (math.nan, 0.99), (1, 1), (1, 0)])
def test_bad_spares_are_refused(down, covered):
    with pytest.raises(ValueError, match=r"down|covered"):
        hosts_to_spare(down, covered)


def whole(**known):
    return training_goodput(FABRIC, *JOB, **known)


def test_a_job_stands_still_where_more_hosts_are_out_than_spares():
    usual = whole().iloc[-1]
    hosts = usual["gpus_out"] / 8
    for spares in (0, 7, 8, 40):  # seven GPUs are no host
        share = poisson.cdf(spares // 8, hosts)
        assert whole(spares=spares).iloc[-1]["tokens_share"] == pytest.approx(usual["tokens_share"] * share)
    assert whole(spares=512).iloc[-1]["tokens_share"] == pytest.approx(usual["tokens_share"])
    assert hosts == pytest.approx((whole()["parts_down"] * whole()["gpus_out"]).iloc[:-1].sum() / 8)


def test_stops_that_were_measured_say_how_often_a_job_stops_and_nothing_of_repairs():
    usual, rate = whole(), whole().iloc[-1]["events_per_year"] / 512 / year
    assert whole(stop_rate=rate)["lost"].to_numpy() == pytest.approx(usual["lost"].to_numpy())
    twice = whole(stop_rate=2 * rate)
    stops = usual["stops"].to_numpy(bool)
    assert twice["events_per_year"].to_numpy() == pytest.approx(
        np.where(stops, 2, 1) * usual["events_per_year"].to_numpy()
    )
    assert twice["parts_down"].to_numpy() == pytest.approx(usual["parts_down"].to_numpy())
    assert twice.iloc[-1]["tokens_share"] < usual.iloc[-1]["tokens_share"]


def test_no_interval_between_checkpoints_is_better_than_the_best():
    best_s = float(reliability.checkpoint_interval(year / whole().iloc[-1]["events_per_year"], 5))
    usual = whole(checkpoint_time=5).iloc[-1]["tokens_share"]
    shares = [whole(checkpoint_time=5, checkpoint_interval=x * best_s).iloc[-1]["tokens_share"] for x in (0.3, 1, 3)]
    assert shares[1] == pytest.approx(usual) and max(shares[0], shares[2]) < usual


# In a plan


@cache
def planned(gpus=4096, **known):
    spec = {"cluster": {"platform": "DGX H100", "gpus": gpus}, "network": {"candidates": ["rail-only"]}}
    job = {"model": "Llama-3 8B", "tokens": 1e12, "batch": 4096, "search": {"micro_batch": 1, "context": 1}}
    return plan({**spec, "job": job, "operation": known, "uncertainty": {"draws": 200}})


def spread(**known):
    low, high = planned(**known).uncertainty.interval("rail-only", "goodput")
    return high - low


def test_what_is_known_narrows_goodput():
    """Each fact does, and all of them leave little to draw."""
    times = {"checkpoint": "5 s", "restart": "10 min"}
    nothing, both = spread(), spread(**times)
    assert both < min(spread(checkpoint="5 s"), spread(restart="10 min")) and spread(checkpoint="5 s") < nothing
    assert spread(stops=0.2) < nothing
    known = {**times, "stops": 0.2, "checkpoint_interval": "30 min", "spares": 512}
    assert spread(**known) < 0.1 * nothing


@pytest.mark.parametrize("known", [{}, {"spares": 256, "stops": 0.5, "checkpoint_interval": "1 h"}])
def test_without_draws_goodput_is_the_plans_own(known):
    found = planned(**known)
    assert found.situation._goodput(found.best, {}) == pytest.approx(found.best.numbers["goodput"])
    draws = found.uncertainty.samples["rail-only"]["goodput"]
    assert np.isfinite(draws).all() and (draws >= 0).all() and (draws < 1).all()


def test_spares_are_left_by_the_job():
    few, none = planned(spares=256).best.numbers, planned().best.numbers
    assert few["gpus"] == none["gpus"] == none["gpus_used"] == 4096 and few["gpus_used"] <= 4096 - 256
    assert few["gpus_down"] < none["gpus_down"]
    assert planned(spares=4096).best is None and "operation.spares" in planned(spares=4096).answers[0].note
    assert any("GPUs that are bought" in text for text in planned().warnings)
    assert not any("GPUs that are bought" in text for text in planned(spares=256).warnings)


def test_the_page_says_which_rows_goodput_hangs_on():
    found = planned()
    (row, low, high), *others = found.situation.widest(found.best)
    assert len(others) == 2 and all(low <= found.best.numbers["goodput"] <= high for _, low, high in others)
    assert high - low == max(high - low for _, low, high in (*others, (row, low, high)))
    lead = next(part["lead"] for part in found.document()["sections"] if part["id"] == "failures")
    assert f"{row.name} {words(row.parameter)} (" in lead and "[operation]" in lead
    given_rows = {(each.name, each.parameter) for each, *_ in planned(checkpoint="5 s").situation.widest(found.best)}
    assert ("job", "checkpoint_time") not in given_rows
