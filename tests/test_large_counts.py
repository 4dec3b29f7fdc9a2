"""Very large counts: answered, or refused with the reason, before memory and time run out."""

import time
from dataclasses import replace

import numpy as np
import pytest

from railcore.catalog.arguments import MOST_ENDS
from railcore.network.topology import blocks
from railcore.network.topology.blocks import rail_blocks
from railcore.network.topology.rails import fat_tree, rail_only
from railcore.planner import progress
from railcore.planner.planning import plan
from railcore.strategies import bounds, gpu_counts
from railcore.strategies.parts import search, search_parts
from railcore.strategies.splits import all_splits_at_most
from railcore.training.group_shares import group_shares
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

SMALL = Transformer("small", 8, 1152, 24, 24, 4608, 32000, 512, ffn_matrices=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [("gpus", 10**9), ("gpus", 1e300), ("racks", 10**9), ("racks", 1e300), ("budget", "1e15 USD"), ("power", "1 PW")],
)
def test_a_cluster_larger_than_a_plan_looks_at_is_refused_by_key(key, value):
    spec = {"cluster": {"platform": "DGX H100", key: value}, "job": {"model": "GPT-3", "tokens": 1e12, "batch": 512}}
    with pytest.raises(ValueError, match=rf"cluster\.{key} is .*give (at most .*4,194,304|1e\+60 at most)"):
        plan(spec)


def test_what_is_looked_at_one_by_one_has_a_bound():
    fabric = rail_only(2 * MOST_ENDS, 8, 64)  # parts are counted in closed form
    for listed in (
        lambda: rail_blocks(fabric),
        lambda: fabric.endpoints(1),
        lambda: Strategy(data=2**30).groups("data"),
    ):
        with pytest.raises(ValueError, match="one by one: give one of at most 16,777,216"):
            listed()


def test_blocks_beyond_the_job_change_no_share_and_are_not_looked_at(monkeypatch):
    fabric = fat_tree(65536, 64, 8, tier_oversubscription=(2,))
    strategy, looked_at = Strategy(tensor=8, pipeline=2, data=24), []
    arguments = fabric, strategy.group_levels(), 8, strategy.gpus
    in_use = blocks.Blocks.in_use
    monkeypatch.setattr(
        blocks.Blocks, "in_use", lambda tier, used: looked_at.append(in_use(tier, used)) or looked_at[-1]
    )
    few = group_shares(*arguments)
    assert max(tier.first.size for tier in looked_at) <= 10 < rail_blocks(fabric)[0].first.size
    monkeypatch.setattr(blocks.Blocks, "in_use", lambda tier, used: tier)
    assert few == group_shares(*arguments) and min(few.by_kind.values()) < 1


def test_the_blocks_in_use_keep_all_their_pieces():
    tier = blocks.Blocks(1, np.arange(5), np.arange(5) + 1, np.array([0, 2, 3]), np.array([1.0, 2.0, 3.0]))
    kept = tier.in_use(np.array([False, False, False, True, False]))
    assert (kept.first.tolist(), kept.starts.tolist(), kept.uplinks.tolist()) == ([3, 4], [0], [3.0])


def test_data_ranks_are_thinned_only_where_batches_are_very_large():
    for batch, least, most in ((1e6, 1000, 8192), (1e4, 1, 4096)):
        data, batches = gpu_counts._data_and_batches(int(batch), 1, gpu_counts.Batches.near(batch))
        assert least < data.size < most and np.all(batches % data == 0)
    data, _ = gpu_counts._data_and_batches(1000, 1, gpu_counts.Batches.near(1e4))
    assert {*data} == {*range(799, 1001)}


def test_bounds_of_splits_do_not_depend_on_how_many_are_looked_at_at_a_time(monkeypatch):
    (part,) = search_parts(SMALL, "DGX H100", 64, 48, at_most=True)
    splits = all_splits_at_most(SMALL, 64, part.allowed, 8, False)
    whole = bounds.least_sequence_s(part, splits)
    monkeypatch.setattr(bounds, "_AT_A_TIME", 40)
    assert np.array_equal(bounds.least_sequence_s(part, splits), whole)


def test_more_batches_than_are_searched_are_refused():
    with pytest.raises(ValueError, match="global_batch has 999,999,999 values: give at most 16,384"):
        search("Llama-3 8B", "DGX H100", 64, range(1, 10**9))


def test_more_experts_than_can_be_listed_are_refused():
    with pytest.raises(ValueError, match="experts is 1000000000: give whole numbers from 0 to 4194304"):
        replace(SMALL, experts=10**9)


def test_a_long_plan_says_what_it_does_where_errors_go_to_a_file_too(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_FIRST_S", 0.01)
    with progress.ProgressLine() as tell:
        tell("Clos")
        time.sleep(0.05)
    assert capsys.readouterr().err == "railcore: Clos (0 s so far)\n"
