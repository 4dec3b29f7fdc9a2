"""Collectives inside an HB domain: against NCCL's measured times, and at their limits."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import IDEAL_DOMAIN

from railcore.catalog import files
from railcore.training import collective_errors
from railcore.training.machine import catalog_machine

GPUS = ("A100", "H100", "H200", "B200", "B300", "GB200", "GB300")
PLATFORMS = ("DGX A100", "DGX H100", "DGX B200", "GB300 NVL72", "MI300X full mesh")
SIZES = np.geomspace(1, 1e11, 200)
RANKS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 36, 72, 256])


def kinds(box):
    """Times of a gather, an AllReduce and an all-to-all inside a domain, by size and ranks."""
    return {
        "gather": lambda size, n: box.gather_links(size, n, 1).time_s,
        "all_reduce": lambda size, n: box.all_reduce_links(size, n, 1).time_s,
        "all_to_all": lambda size, n: box.all_to_all_links(size, n, 1).time_s,
    }


@pytest.fixture(scope="module")
def errors():
    table = collective_errors(pd.read_csv(files.ROOT / "data/measured/collectives.csv"))
    return table.assign(absolute=table["error"].abs(), large=2 * table["message"] >= 65536)


@pytest.mark.parametrize("by", ["gpu", "collective", "gpus", ["gpu", "collective"]], ids=str)
def test_mean_error_is_below_a_tenth_from_64_kilobytes_up(errors, by):
    means = errors[errors["large"]].groupby(by)["absolute"].mean()
    assert (means < 0.1).all(), means
    assert set(errors["gpu"]) == set(GPUS)


def test_small_messages_are_within_an_eighth(errors):
    assert (errors[~errors["large"]].groupby("gpu")["absolute"].mean() < 0.125).all()
    assert abs(errors["error"].mean()) < 0.03


def test_rows_of_ones_own():
    rows = pd.DataFrame(
        {"gpu": "H100", "collective": ["all_reduce", "alltoall"], "gpus": 8, "message": 2**28, "seconds": 1e-3},
        index=[5, 3],
    )
    table = collective_errors(rows)
    box = catalog_machine("DGX H100")
    wanted = [kinds(box)[kind](2.0**29, 8) for kind in ("all_reduce", "all_to_all")]
    assert table["modelled_s"].tolist() == pytest.approx(wanted) and table.index.tolist() == [5, 3]
    assert table["error"].tolist() == pytest.approx([1e3 * seconds - 1 for seconds in wanted])
    with pytest.raises(ValueError, match="no platform"):
        collective_errors(rows.assign(gpu="H9"))
    with pytest.raises(ValueError, match="broadcast"):
        collective_errors(rows.assign(collective="broadcast"))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_time_grows_with_size_and_ranks_and_one_rank_takes_none(platform):
    box = catalog_machine(platform)
    rings = kinds(box.changed(multicast_latency_s=math.inf))  # switches that reduce send (n + 1) / n, less with ranks
    for kind, time_s in kinds(box).items():
        table = time_s(SIZES[:, None], RANKS)
        assert np.all(table[:, 0] < 1e-300) and np.all(table[:, 1:] > 0), kind
        assert np.all(np.diff(table, axis=0)[:, 1:] > 0), kind
        # The more peers, the smaller the messages of an all-to-all: small ones take the protocol LL for longer.
        sizes = SIZES[120:] if kind == "all_to_all" else SIZES
        assert np.all(np.diff(rings[kind](sizes[:, None], RANKS), axis=1) > -1e-12), kind


@pytest.mark.parametrize("platform", PLATFORMS)
def test_limits_are_latency_and_bandwidth(platform):
    box = catalog_machine(platform)
    part, rate = box.domain, box.collective_hb_Bps
    call, step, own = part.domain_call_latency_s, part.domain_step_latency_s, part.local_step
    for n in (2, 4, 8):
        small = {kind: float(time_s(1e-6, n)) for kind, time_s in kinds(box).items()}
        assert small["gather"] == pytest.approx(call + (n - 1) * step)
        assert small["all_reduce"] == pytest.approx(call + 2 * (n - 1) * step)
        assert small["all_to_all"] == pytest.approx(call + step)
        large = {kind: float(time_s(1e15, n)) * rate / 1e15 for kind, time_s in kinds(box).items()}
        ring, switch = (2 * (n - 1) + own) / n, (n + 1) / n / part.multicast_share
        assert large["gather"] == pytest.approx((n - 1 + own) / n)
        assert large["all_to_all"] == pytest.approx((n - 1 + own) / n / part.all_to_all_share)
        assert large["all_reduce"] == pytest.approx(
            min(ring, switch) if math.isfinite(part.multicast_latency_s) else ring
        )


@given(st.floats(1, 1e12), st.sampled_from((2, 4, 8, 72)), st.integers(1, 64))
def test_calls_divide_the_message_and_links_are_busy_no_longer_than_they_take(size, n, calls):
    box = catalog_machine("DGX H100")
    for links in (box.gather_links, box.all_reduce_links):
        one, many = links(size / calls, n, 1), links(size, n, 1, calls)
        assert float(many.time_s) == pytest.approx(calls * float(one.time_s))
        assert many.hb_s <= many.time_s and many.nic_s == pytest.approx(0)
    ideal = box.changed(**IDEAL_DOMAIN)
    assert float(ideal.gather_links(size, n, 1).time_s) == pytest.approx(size * (n - 1) / n / box.collective_hb_Bps)


def test_between_domains_nothing_inside_one_counts():
    box = catalog_machine("DGX H100")
    other = box.changed(**IDEAL_DOMAIN)
    for size in (1e3, 1e6, 1e9):
        for name in ("gather_links", "all_reduce_links", "all_to_all_links"):
            pair = [getattr(machine, name)(size, 8, 4) for machine in (box, other)]
            assert pair[0] == pytest.approx(pair[1])
