import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from railcore.facts import catalog, claims
from railcore.facts.globe import great_circle_distance
from railcore.facts.units import Gbps, km, ms
from railcore.network import wide_area
from railcore.network.wide_area import ReedSolomon

TCP = catalog.item("wide_area", "TCP")
C, BETA = TCP["cubic_c"], TCP["cubic_beta"]
LOSS, RTT = st.floats(1e-10, 0.5), st.floats(1e-4, 0.5)
LINK, MSS = 800 * Gbps, 8960
SMALL = ReedSolomon(40, 30, 8)


# --- route


def test_distance_of_a_quarter_and_of_no_way():
    radius = catalog.item("wide_area", "Earth")["radius"]
    assert great_circle_distance(0, 0, 0, 90) == pytest.approx(math.pi / 2 * radius)
    assert great_circle_distance(90, 0, -90, 120) == pytest.approx(math.pi * radius)
    assert great_circle_distance(45, 7, 45, 7) == 0


@given(*[st.floats(-90, 90), st.floats(-180, 180)] * 2)
def test_distance_is_the_angle_between_two_vectors(phi_a, lambda_a, phi_b, lambda_b):
    def vector(phi, lam):
        phi, lam = math.radians(phi), math.radians(lam)
        return np.array([math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi)])

    a, b = vector(phi_a, lambda_a), vector(phi_b, lambda_b)
    angle = math.atan2(np.linalg.norm(np.cross(a, b)), a @ b)
    radius = catalog.item("wide_area", "Earth")["radius"]
    ours = great_circle_distance(phi_a, lambda_a, phi_b, lambda_b)
    assert ours == pytest.approx(angle * radius, abs=1)
    assert ours == pytest.approx(great_circle_distance(phi_b, lambda_b, phi_a, lambda_a))


def test_delay_of_the_coasts():
    coasts = wide_area.fibre_route("flops2024 east", "flops2024 west")
    assert coasts.distance_m == pytest.approx(3655 * km, rel=1e-3)
    assert coasts.delay_range_s[0] < coasts.delay_s < coasts.delay_range_s[1]
    assert coasts.round_trip_s == 2 * coasts.delay_s
    assert coasts.factor_for(coasts.delay_s) == pytest.approx(coasts.factor)
    claimed = claims.paper_value("flops2024.fig3c.one_way_delay")
    assert coasts.factor_low < coasts.factor_for(claimed) < coasts.factor_high
    light = 299_792_458
    assert coasts.fibre_delay * light == pytest.approx(1.4682, rel=1e-4)


# --- TCP


def cubic_sawtooth(loss, rtt):
    """Mean window of a flow that falls to beta of its largest window, grows back to it, and so sends 1 / loss.

    It grows as the cubic or as the standard's window does, whichever is larger at the time.
    """
    alpha = 3 * (1 - BETA) / (1 + BETA)

    def period(most):
        K = np.cbrt(most * (1 - BETA) / C)
        times = np.linspace(0, min(K, (1 - BETA) * most / alpha * rtt), 20_001)
        windows = np.maximum(C * (times - K) ** 3 + most, BETA * most + alpha * times / rtt)
        assert windows[0] == pytest.approx(BETA * most) and windows[-1] == pytest.approx(most)
        return windows.mean(), windows.mean() * times[-1] / rtt

    most = optimize.brentq(lambda most: period(most)[1] - 1 / loss, 1, 1e9)
    return period(most)[0]


@pytest.mark.parametrize("rtt", [0.1, 0.06, 0.001])
def test_cubic_window_is_that_of_its_sawtooth(rtt):
    losses = 10 ** np.arange(-2, -9.5, -0.5)
    found, ours = [cubic_sawtooth(loss, rtt) for loss in losses], wide_area.cubic_window(losses, rtt)
    assert ours == pytest.approx(found, rel=0.04)  # where growth changes over from one to the other
    assert (np.abs(ours / found - 1) < 0.005).sum() >= len(losses) - 4


def test_mathis_window_is_that_of_its_sawtooth():
    window, periods = 64.0, []
    for _ in range(40):
        sent, rounds = 0.0, 0
        while sent < 1e5:
            sent, rounds, window = sent + window, rounds + 1, window + 1
        periods.append(sent / rounds)
        window /= 2
    assert wide_area.mathis_window(1e-5, 0.1) == pytest.approx(np.mean(periods[20:]), rel=0.01)


def test_cubic_window_of_the_standard():
    # RFC 8312, Tables 1 and 2, C = 0.4
    losses = 10.0 ** -np.arange(4, 9)
    assert wide_area.cubic_window(losses, 0.1) == pytest.approx([187, 1054, 5926, 33325, 187400], rel=3e-3)
    assert wide_area.cubic_window([1e-7, 1e-8], 0.01) == pytest.approx([5926, 33325], rel=3e-3)
    assert wide_area.cubic_window([1e-4, 1e-5, 1e-6], 0.01) == pytest.approx([120, 379, 1200], rel=0.03)  # Reno's


@given(LOSS, RTT)
def test_laws_agree_where_they_must(loss, rtt):
    mathis, cubic = (law(loss, rtt) for law in wide_area.WINDOW_LAWS.values())
    assert mathis <= cubic
    assert wide_area.mathis_window(loss / 100, rtt) == pytest.approx(10 * mathis)


@pytest.mark.parametrize("law", wide_area.WINDOW_LAWS)
@given(st.floats(1e6, 1e10), st.floats(1e-3, 0.2))
@settings(max_examples=20)
def test_tolerable_loss_is_the_inverse(law, rate, rtt):
    loss = wide_area.tolerable_loss(rate, rtt, MSS, law)
    if loss < 0.9:
        assert wide_area.WINDOW_LAWS[law](loss, rtt) * MSS / rtt == pytest.approx(rate, rel=1e-6)
    if law == "Mathis" and loss < 0.9:
        assert loss == pytest.approx(1.5 * (MSS / (rate * rtt)) ** 2)


def test_cold_start_and_recovery():
    window = int(TCP["initial_window"])
    assert list(
        wide_area.slow_start_rounds(np.array([1, window, window + 1, 3 * window, 3 * window + 1]) * MSS, MSS)
    ) == [
        1,
        1,
        2,
        2,
        3,
    ]
    rate, rtt = 5 * Gbps, 0.06
    segments = rate * rtt / MSS
    assert wide_area.recovery_time(rate, rtt, MSS, "Mathis") == pytest.approx(segments / 2 * rtt)
    K = wide_area.recovery_time(rate, rtt, MSS)
    assert C * (0 - K) ** 3 + segments == pytest.approx(BETA * segments)  # the curve begins at beta of the window
    alpha = 3 * (1 - BETA) / (1 + BETA)
    assert wide_area.recovery_time(rate, 1e-4, MSS) == pytest.approx((1 - BETA) * rate * 1e-4 / MSS / alpha * 1e-4)


# --- bit errors


@given(st.floats(1e-15, 1e-6), st.integers(64, 9018))
def test_packet_loss_and_bit_error_rate_are_inverse(ber, packet):
    loss = -math.expm1(8 * packet * math.log1p(-ber))
    assert wide_area.bit_error_rate(loss, packet) == pytest.approx(ber, rel=1e-9)


def coded_loss(code, ber, packet_bytes):
    """Probability that a codeword of the packet fails."""
    return -math.expm1(code.codewords(packet_bytes) * math.log1p(-code.codeword_loss(ber)))


def exact_tail(n, t, p):
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(t + 1, n + 1))


@pytest.mark.parametrize("ber", [1e-5, 2.4e-4, 1e-3, 1e-2])
def test_codeword_loss_is_the_binomial_tail(ber):
    kp4 = wide_area.catalog_code("KP4")
    assert kp4.correctable == 15
    wrong = 1 - (1 - ber) ** 10
    assert kp4.codeword_loss(ber) == pytest.approx(exact_tail(544, 15, wrong), rel=1e-8)
    assert kp4.codeword_loss(ber) == pytest.approx(stats.binom.sf(15, 544, wrong), rel=1e-8)


def test_code_against_random_bits():
    ber, packets, words = 0.02, 4000, 3
    bits = np.random.default_rng(1).random((packets * words, 40, 8)) < ber
    bad = bits.any(axis=2).sum(axis=1) > SMALL.correctable
    assert SMALL.codeword_loss(ber) == pytest.approx(bad.mean(), rel=0.05)
    lost = bad.reshape(packets, words).any(axis=1).mean()
    touched = SMALL.codewords((words - 1) * 30 + 1 / 8)  # aligned anyhow, so many on average
    assert touched == words
    assert coded_loss(SMALL, ber, (words - 1) * 30 + 1 / 8) == pytest.approx(lost, rel=0.05)


def test_codewords_touched_by_a_packet_anywhere():
    code, packet = ReedSolomon(40, 30, 8, interleaved=2), 100
    starts = np.arange(2 * 30 * 8)
    blocks = (starts + 8 * packet - 1) // (2 * 30 * 8) + 1
    assert code.codewords(packet) == pytest.approx(2 * blocks.mean())


@given(st.floats(1e-14, 0.5))
def test_code_has_an_inverse(loss):
    kp4 = wide_area.catalog_code("KP4")
    ber = kp4.bit_error_rate(loss, 9018)
    assert coded_loss(kp4, ber, 9018) == pytest.approx(loss, rel=1e-6)
    assert ber > wide_area.bit_error_rate(loss, 9018)


def test_standard_links_lose_next_to_nothing():
    # the frame loss ratio of 64-octet frames that IEEE 802.3bs sets beside this bit error rate
    kp4 = wide_area.catalog_code("KP4")
    worst = catalog.item("wide_area", "KP4")["bit_error_rate"]
    assert coded_loss(kp4, worst, 64) == pytest.approx(1.7e-12, rel=0.02)


# --- tables, bad input


def test_tables_say_what_the_functions_do():
    needs = wide_area.flow_needs({"57": 57e6}, 100 * ms, {"coasts": 0.06, "metro": 0.001})
    assert len(needs) == 2 * len(wide_area.WINDOW_LAWS) and set(needs.rate_Bps) == {57e7}
    first = needs.iloc[0]
    assert first.loss == pytest.approx(float(wide_area.tolerable_loss(57e7, 0.06, MSS, "Mathis")))
    assert coded_loss(wide_area.catalog_code("KP4"), first.bit_error_rate_before_fec, 9018) == pytest.approx(first.loss)
    assert np.all(needs.bit_error_rate_before_fec > 1e3 * needs.bit_error_rate)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wide_area.tolerable_loss(0, 0.06, MSS), "rate is 0"),
        (lambda: great_circle_distance(91, 0, 0, 0), "latitude_a is 91"),
        (lambda: great_circle_distance(0, 0, 0, 181), "longitude_b is 181"),
        (lambda: wide_area.one_way_delay(-1, 1.5, 5e-9), "distance is -1"),
        (lambda: wide_area.one_way_delay(1e6, 0.9, 5e-9), "route_factor is 0.9.*1 or more"),
        (lambda: wide_area.fibre_route("flops2024 east", "flops2024 west").factor_for(0), "delay is 0"),
        (lambda: ReedSolomon(514, 544, 10), "message_symbols is 544.*fewer than 514"),
        (lambda: ReedSolomon(544, 514, 10, 0), "interleaved is 0"),
        (lambda: wide_area.catalog_code("KP4").bit_error_rate(0, 9018), "loss is 0.*above 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("rounds", range(1, 12))
def test_a_cold_start_doubles_its_window_every_round(rounds):
    sent = int(TCP["initial_window"]) * (2**rounds - 1)
    assert [float(wide_area.slow_start_rounds(n * MSS, MSS)) for n in (sent, sent + 1)] == [rounds, rounds + 1]
