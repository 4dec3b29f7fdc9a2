"""Copies of tokens, bytes of a dispatch, and what the host starts for a mixture layer."""

import itertools

import numpy as np
import pytest

from railcore.training import expert_dispatch as dispatch


def drawn_copies(experts, top_k, places, groups=0, token_groups=0):
    """Mean places of every choice of a token's groups and experts."""
    sizes = range(groups or 1), experts // (groups or 1)
    found = []
    for chosen in itertools.combinations(sizes[0], token_groups or groups or 1):
        pool = [group * sizes[1] + i for group in chosen for i in range(sizes[1])]
        for picked in itertools.combinations(pool, top_k):
            found.append(len({expert * places // experts for expert in picked}))
    return np.mean(found)


@pytest.mark.parametrize(
    ("experts", "top_k", "places", "groups", "token_groups"),
    [
        (8, 2, 4, 0, 0),
        (12, 3, 3, 0, 0),
        (8, 3, 1, 0, 0),
        (12, 3, 4, 4, 2),  # a group is a place
        (12, 3, 2, 4, 2),  # places of two groups
        (12, 3, 6, 3, 2),  # two places in a group
        (12, 2, 12, 4, 1),
        (12, 4, 4, 4, 0),  # groups without a limit
    ],
)
def test_copies_are_those_of_all_choices(experts, top_k, places, groups, token_groups):
    counted = drawn_copies(experts, top_k, places, groups, token_groups)
    assert dispatch.copies_by_place(experts, top_k, places, groups, token_groups) == pytest.approx(counted, rel=1e-12)


def test_copies_are_bounded_and_grow_with_places_and_experts_of_a_token():
    top_k, places = np.arange(1, 17)[:, None], 2 ** np.arange(9)
    found = dispatch.copies_by_place(256, top_k, places)
    assert found.shape == (16, 9)
    assert np.all(found >= 1) and np.all(found <= np.minimum(top_k, places))
    assert np.all(np.diff(found, axis=0) >= 0) and np.all(np.diff(found, axis=1) >= 0)
    assert dispatch.copies_by_place(256, 8, 256) == 8 and dispatch.copies_by_place(256, 8, 1) == 1


def test_node_limited_routing_keeps_to_its_groups():
    free, limited = dispatch.copies_by_place(256, 8, 8), dispatch.copies_by_place(256, 8, 8, 8, 4)
    assert limited < 4 < free
    assert dispatch.copies_by_place(256, 8, 8, 8, 8) == pytest.approx(free, rel=1e-12)
    assert np.all(np.diff([dispatch.copies_by_place(256, 8, 8, 8, g) for g in range(1, 9)]) > 0)


def test_one_copy_a_domain_is_what_a_table_of_tokens_counts():
    draw = np.random.default_rng(7)
    tokens, experts, top_k, ranks, inside = 20_000, 64, 6, 16, 4
    chosen = draw.random((tokens, experts)).argpartition(top_k, axis=1)[:, :top_k] * ranks // experts
    rows = [set(row) for row in chosen.tolist()]
    nic = np.mean([len({rank // inside for rank in row} - {0}) for row in rows])
    hb = np.mean([sum(rank % inside != 0 for rank in row) for row in rows])  # the sender has rail 0 of domain 0
    sent = dispatch.dispatch_bytes(1, experts, top_k, ranks, inside)
    assert sent.nic_bytes == pytest.approx(nic, rel=0.01)
    assert sent.hb_bytes == pytest.approx(hb, rel=0.01)


def test_one_copy_a_domain_never_takes_more_of_the_nic_than_one_an_expert():
    inside = 2 ** np.arange(7)
    nodes = dispatch.dispatch_bytes(1.0, 256, 8, 64, inside)
    assert np.all(nodes.nic_bytes <= 8 * (1 - inside / 64) * (1 + 1e-12)) and np.all(np.diff(nodes.nic_bytes) < 0)
    assert nodes.nic_bytes[-1] == 0 and nodes.hb_bytes[0] == 0
