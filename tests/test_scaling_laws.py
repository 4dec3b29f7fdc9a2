import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.training import scaling_laws
from railcore.training.scaling_laws import SCALING_LAWS, fit_power_law, scaling_law

GOPHER = 5.76e23
COMPUTE, SIZE = st.floats(1e18, 1e32), st.floats(1e6, 1e16)


@pytest.mark.parametrize(
    ("name", "compute", "parameters", "tolerance"),
    [
        ("Hoffmann 1", GOPHER, 67e9, 0.015),  # Hoffmann et al., sections 3.1 to 3.3: projections for Gopher's compute
        ("Hoffmann 2", GOPHER, 63e9, 0.01),
        ("Hoffmann 3", GOPHER, 40e9, 0.0125),
        ("Hoffmann 1", 1e21, 2.86e9, 0.002),  # their section D.4, with Kaplan et al. at the critical batch size
        ("Kaplan", 1e21, 4.68e9, 0.002),
        ("Besiroglu", GOPHER, 70e9, 0.04),  # Besiroglu et al.: close to Chinchilla's 20 tokens for a parameter
    ],
)
def test_laws_give_what_their_papers_print(name, compute, parameters, tolerance):
    assert float(scaling_law(name).parameters(compute)) == pytest.approx(parameters, rel=tolerance)


def test_kaplans_tokens_are_those_printed_for_the_critical_batch_size():
    item, kaplan = catalog.item("scaling_laws", "Kaplan"), scaling_law("Kaplan")
    least = item["compute_scale"] * 3.0  # C_min of three PF-days
    assert float(kaplan.parameters(2 * least)) == pytest.approx(
        item["parameters_scale"] * 3.0 ** item["parameters_exponent"]
    )
    printed = item["tokens_scale"] * 3.0 ** item["tokens_exponent"]
    assert float(kaplan.tokens(2 * least)) == pytest.approx(printed, rel=0.12)  # 2.2e10 C^0.27, printed 2e10


@pytest.mark.parametrize(("approach", "exponent"), [(1, 0.50), (2, 0.49)])
def test_a_table_becomes_a_law_by_least_squares_in_logs(approach, exponent):
    table = scaling_laws.hoffmann_table(approach)
    scale, slope = fit_power_law(table["compute_flop"], table["parameters"])
    assert round(slope, 2) == exponent
    fitted, level = np.polyfit(np.log(table["compute_flop"]), np.log(table["parameters"]), 1)
    assert slope == pytest.approx(fitted, rel=1e-9) and scale == pytest.approx(math.exp(level), rel=1e-9)
    found = scaling_law(f"Hoffmann {approach}")
    assert np.allclose(found.parameters(table["compute_flop"]), table["parameters"], rtol=0.035)  # 67B of approach 2
    assert np.allclose(found.tokens(table["compute_flop"]), table["tokens"], rtol=0.06)  # 67B has 1.5T for 1.43T


def test_unrounded_coefficients_give_the_printed_table_and_rounded_ones_do_not():
    table = scaling_laws.hoffmann_table(3).drop(4)  # without the misprint
    fitted, rounded = (
        scaling_law(name).parameters(table["compute_flop"]) / table["parameters"]
        for name in ("Hoffmann 3", "Hoffmann 3, rounded")
    )
    assert fitted.between(0.92, 1).all() and rounded.between(0.69, 0.82).all()


@given(st.floats(-3, 3), st.floats(0.01, 3), st.integers(2, 12))
def test_power_law_returns_the_law_that_made_the_table(exponent, scale, points):
    x = np.geomspace(1e3, 1e9, points)
    found = fit_power_law(x, scale * x**exponent)
    assert found == (pytest.approx(scale, rel=1e-6), pytest.approx(exponent, abs=1e-7))


@pytest.mark.parametrize("name", ["Hoffmann 3", "Hoffmann 3, rounded", "Besiroglu"])
@pytest.mark.parametrize("compute", [1e20, GOPHER, 2e30])
def test_closed_form_is_the_least_loss_under_6_n_d(name, compute):
    found = scaling_law(name)
    best = float(found.parameters(compute))
    tried = best * np.geomspace(0.2, 5, 20_001)
    losses = found.loss(tried, compute / (6 * tried))
    assert tried[np.argmin(losses)] == pytest.approx(best, rel=1e-3)
    assert float(found.loss(best, found.tokens(compute))) <= losses.min() + 1e-15


@given(st.sampled_from(SCALING_LAWS), COMPUTE, st.floats(1.001, 1e3))
def test_every_law_keeps_its_algebra(name, compute, more):
    found = scaling_law(name)
    n, d = float(found.parameters(compute)), float(found.tokens(compute))
    assert 6 * n * d == pytest.approx(compute)
    assert float(found.compute(n)) == pytest.approx(compute, rel=1e-9)
    assert found.parameters(more * compute) > n and found.tokens(more * compute) > d
    assert float(found.parameters(more * compute)) / n == pytest.approx(more**found.exponent)
    seconds = float(found.training_time(n, 1e18, 0.4))
    assert float(found.parameters_after(seconds, 1e18, 0.4)) == pytest.approx(n, rel=1e-9)
    assert seconds * 0.4e18 == pytest.approx(compute, rel=1e-9)


@given(st.sampled_from(["Kaplan", "Hoffmann 3", "Besiroglu"]), SIZE, st.floats(1e8, 1e17))
def test_loss_falls_with_parameters_and_tokens_to_its_limits(name, n, d):
    found = scaling_law(name)
    loss = float(found.loss(n, d))
    assert loss > found.loss(2 * n, d) > 0 and loss > found.loss(n, 2 * d)
    item = catalog.item("scaling_laws", name)
    if name == "Kaplan":
        assert float(found.loss(n, 1e59)) == pytest.approx((item["N_c"] / n) ** item["alpha_N"])
        assert float(found.loss(1e59, d)) == pytest.approx((item["D_c"] / d) ** item["alpha_D"])
    else:
        assert float(found.loss(1e59, 1e59)) == pytest.approx(item["E"])


def test_warnings_say_what_is_extrapolated_and_keep_still_inside():
    found = scaling_law("Hoffmann 2")
    assert found.warnings(1e20) == ()
    (text,) = found.warnings(2e30)
    assert text.startswith("Hoffmann 2 extrapolated to 2e+30 FLOP") and "1.6e+10" in text and "tokens" in text
    (text,) = found.warnings([1e20, 2e30])
    assert "1e+20 to 2e+30 FLOP" in text
    table = scaling_laws.optimal_models(["Hoffmann 2"], np.array([1e-6, 1e3]), 1e21)
    assert list(table["warning"].astype(bool)) == [False, True]
    assert table["times_trained"].to_numpy() * 1.6e10 == pytest.approx(table["parameters"].to_numpy())


@given(st.floats(1.0, 1e25))
def test_depth_and_width_solve_both_equations(parameters):
    item, shape = catalog.item("scaling_laws", "Levine"), scaling_laws.depth_and_width(parameters)
    assert 12 * float(shape.layers) * float(shape.hidden) ** 2 == pytest.approx(parameters)
    assert math.log(shape.hidden) == pytest.approx(item["a"] + item["b"] * float(shape.layers), abs=1e-9)
    assert float(scaling_laws.parameters_at_depth(shape.layers)) == pytest.approx(parameters, rel=1e-7)


def test_depth_and_width_have_the_rules_own_example():
    shape = scaling_laws.depth_and_width(1e12)  # Levine et al., section 5.2: 95 layers and a width of 30K
    assert round(float(shape.layers)) == 95 and float(shape.hidden) == pytest.approx(30e3, rel=0.015)
    assert shape.warnings[0].startswith("Levine extrapolated to 1e+12 parameters")
    assert scaling_laws.depth_and_width(1e8).warnings == ()


@given(SIZE, st.sampled_from([1, 64, 128, 256]))
def test_whole_shapes_are_whole_and_near(parameters, multiple):
    rule, shape = scaling_laws.depth_and_width(parameters), scaling_laws.whole_shape(parameters, multiple)
    assert abs(shape.layers - rule.layers) <= 0.5 or shape.layers == 1
    assert shape.hidden % multiple == 0 and shape.hidden >= multiple
    if shape.hidden > multiple:
        most = math.sqrt(parameters / (12 * shape.layers))
        assert most - multiple < shape.hidden <= most
