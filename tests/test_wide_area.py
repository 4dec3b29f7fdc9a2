import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import km
from railcore.network import wide_area
from railcore.network.globe import great_circle_distance
from suite.ledger import claims


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
