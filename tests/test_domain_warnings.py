"""GPUs that do not fill HB domains: whoever gives them is told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.network.topology import PhotonicRails, domain_warnings, fat_tree, rail_only, rail_optimized


def test_the_text_has_the_nearest_numbers_that_fill():
    assert domain_warnings(8192, 72) == (
        "8,192 GPUs do not fill HB domains of 72: the last of 114 has 56. 8,136 or 8,208 do.",
    )
    assert domain_warnings(64, 72) == ("64 GPUs do not fill an HB domain of 72. 72 do.",)


@given(st.integers(1, 10**6), st.integers(1, 600))
def test_numbers_that_are_offered_fill(gpus, hb_domain_size):
    texts = domain_warnings(gpus, hb_domain_size)
    assert bool(texts) == (gpus % hb_domain_size > 0)
    for offered in re.findall(r"[\d,]*\d", texts[0].rpartition(". ")[2]) if texts else ():
        near = int(offered.replace(",", ""))
        assert domain_warnings(near, hb_domain_size) == () and 0 < abs(near - gpus) < hb_domain_size


def test_arguments_out_of_range_are_named():
    with pytest.raises(ValueError, match="hb_domain_size is 0"):
        domain_warnings(64, 0)


@pytest.mark.parametrize(
    "fabric",
    [
        rail_only(8192, 72, 128),
        rail_optimized(8192, 72, 128),
        rail_only(8192, 72, 128).with_layer(2.0),
        fat_tree(8192, 128, hb_domain_size=72),
        PhotonicRails(8192, 72, ocs_ports=320),
    ],
    ids=lambda fabric: type(fabric).__name__,
)
def test_a_fabric_says_so(fabric):
    assert fabric.warnings == domain_warnings(8192, 72)


def test_a_fabric_of_whole_domains_and_one_smaller_than_a_domain():
    assert rail_only(8208, 72, 128).warnings == ()
    assert rail_only(64, 72, 128).warnings == domain_warnings(64, 72)
