import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.training.parallelism import DIMENSIONS, GROUP_KINDS, Strategy, indivisible
from railcore.training.transformer import catalog_model


@st.composite
def strategies(draw):
    sizes = {name: draw(st.integers(1, 4)) for name in DIMENSIONS}
    replica = sizes["context"] * sizes["data"]
    expert = draw(st.sampled_from([e for e in range(1, replica + 1) if replica % e == 0]))
    return Strategy(**sizes, expert=expert, order=tuple(draw(st.permutations(DIMENSIONS))))


@given(strategies())
def test_a_rank_and_its_coordinates_are_the_same_thing(strategy):
    ranks = np.arange(strategy.gpus)
    places = strategy.coordinates(ranks)
    expert = places.pop("expert")
    assert np.array_equal(strategy.rank_of(**places), ranks)
    assert set(places) == set(DIMENSIONS) and expert.max() == strategy.expert - 1
    assert strategy.coordinates(ranks.reshape(1, -1))["data"].shape == (1, strategy.gpus)


@given(strategies())
def test_the_first_of_the_order_varies_fastest(strategy):
    step = 1
    for name in strategy.order:
        if getattr(strategy, name) > 1:
            assert int(strategy.rank_of(**{name: 1})) == step
        step *= getattr(strategy, name)


@given(strategies())
def test_every_rank_is_in_one_group_of_each_kind(strategy):
    for kind in GROUP_KINDS:
        groups = strategy.groups(kind)
        assert np.array_equal(np.sort(groups.ravel()), np.arange(strategy.gpus)), kind
    for kind in DIMENSIONS:  # by the coordinates, without the grid
        members = strategy.coordinates(strategy.groups(kind))
        assert np.array_equal(members[kind], np.broadcast_to(np.arange(getattr(strategy, kind)), members[kind].shape))
        for other in set(DIMENSIONS) - {kind}:
            assert (members[other] == members[other][:, :1]).all()


@given(strategies())
def test_expert_groups_hold_each_expert_once_and_their_replicas_the_same(strategy):
    place = strategy.coordinates(strategy.groups("expert"))["expert"]
    assert np.array_equal(place, np.broadcast_to(np.arange(strategy.expert), place.shape))
    same = strategy.coordinates(strategy.groups("expert_replica"))["expert"]
    assert (same == same[:, :1]).all() and same.shape[1] == strategy.context * strategy.data // strategy.expert


def test_ranks_of_megatron_by_hand():
    groups = Strategy(tensor=2, pipeline=4, data=2)
    assert groups.groups("tensor").tolist()[:2] == [[0, 1], [2, 3]]
    assert groups.groups("data").tolist()[:2] == [[0, 2], [1, 3]]
    assert groups.groups("pipeline").tolist()[:2] == [[0, 4, 8, 12], [1, 5, 9, 13]]
    experts = Strategy(tensor=2, context=2, data=4, expert=4)  # runs of context and data together, as Megatron-LM has
    assert experts.groups("expert").tolist()[0] == [0, 2, 4, 6]
    assert experts.groups("expert_replica").tolist()[0] == [0, 8]
    assert experts.groups("replica").tolist()[0] == list(range(0, 16, 2))


@given(strategies(), st.data())
def test_places_of_groups_agree_with_a_count_by_hand(strategy, data):
    size = data.draw(st.integers(1, strategy.gpus))
    rails = data.draw(st.integers(1, size))
    kind = data.draw(st.sampled_from(GROUP_KINDS))
    table = strategy.group_places(kind, size, rails)
    for row, group in zip(table.itertuples(), strategy.groups(kind).tolist(), strict=True):
        domains = [rank // size for rank in group]
        rail = [rank % size % rails for rank in group]
        ring = list(zip(group, group[1:] + group[:1], strict=True))
        stray = [(a, b) for a, b in ring if a // size != b // size and a % size % rails != b % size % rails]
        assert row.domains == len(set(domains))
        assert row.largest_share == max(map(domains.count, domains))
        assert row.rail == (rail[0] if len(set(rail)) == 1 else -1)
        assert row.neighbours_on_rail == (not stray)


def test_placement_of_gpt_1t_keeps_tensor_inside_and_the_rest_on_its_rail():
    table = Strategy(tensor=8, pipeline=64, data=6).placement(8).set_index("kind")
    assert table.loc["tensor", ["groups", "within", "leaving"]].tolist() == [384, 384, 0]
    for kind in ("data", "pipeline"):
        row = table.loc[kind]
        assert row.within == 0 and row.leaving == row.groups == row.on_one_rail == row.neighbours_on_rail
        assert row.rails == 8
    whole = Strategy(data=32).placement(32)
    assert (whole["leaving"] == 0).all()


def test_the_step_divides_or_says_what_does_not():
    model = catalog_model("GPT-1T")
    strategy = Strategy(tensor=8, pipeline=64, data=6)

    def with_heads(kv_heads):
        return dataclasses.replace(model, heads=96, kv_heads=kv_heads, head_dim=1)

    assert strategy.check(model, 3072, 3072) == () and strategy.microbatches(3072) == 512
    refused = [
        (strategy, model, 3072, 3000, "gpus"),
        (Strategy(tensor=8, ends_as_layers=True), model, 64, None, "more than one stage for ends as layers"),
        (Strategy(tensor=64), model, 64, None, "tensor is 64: give a divisor of heads 160"),
        (Strategy(pipeline=8, interleave=2), model, 7, None, "one for each micro-batch, not 8"),
        (Strategy(data=8, expert=8), model, 64, None, "expert is 8, but GPT-1T has no experts: give 1"),
        (Strategy(tensor=3), with_heads(96), 64, None, "tensor is 3: give a divisor of ffn_hidden"),
        (Strategy(tensor=4), with_heads(6), 64, None, "tensor is 4: give a divisor or a multiple of kv_heads 6"),
    ]
    for plan, net, batch, gpus, word in refused:
        with pytest.raises(ValueError, match=word):
            plan.check(net, batch, gpus)
    odd = Strategy(tensor=8, pipeline=2).check(catalog_model("GPT-3"), 1)
    assert any("vocabulary" in text for text in odd) and any("idle" in text for text in odd)
    assert any("copied" in text for text in Strategy(tensor=12).check(catalog_model("PaLM-540B"), 1))


def test_what_does_not_divide_is_found_for_many_strategies_at_once():
    mixture, rng = dataclasses.replace(catalog_model("MoE-1.3B"), kv_heads=4), np.random.default_rng(3)
    sizes = {name: rng.choice([1, 2, 3, 8], 400) for name in (*DIMENSIONS, "expert", "interleave", "micro_batch")}
    sizes |= {"sequence_parallel": rng.integers(0, 2, 400), "global_batch": rng.choice([8, 24, 96], 400)}
    wrong = indivisible(mixture, sizes)
    fits = ~np.any(list(wrong.values()), axis=0)
    assert 0 < fits.sum() < 200 and all(broken.any() for broken in wrong.values())
    words = {"heads": "heads", "layers": "layers", "batch": "global_batch", "interleave": "interleave"}
    words |= {"sequence": "sequence", "experts": "expert"}
    for i in range(400):
        row = {name: int(column[i]) for name, column in sizes.items()}
        batch, named = row.pop("global_batch"), "|".join(words[reason] for reason in wrong if wrong[reason][i])
        if fits[i]:
            Strategy(**row).check(mixture, batch)
        else:
            with pytest.raises(ValueError, match=named):
                Strategy(**row).check(mixture, batch)
    some = indivisible(mixture, {name: sizes[name] for name in ("tensor", "context", "sequence_parallel")})
    assert np.array_equal(some["heads"], wrong["heads"]) and np.array_equal(some["sequence"], wrong["sequence"])
    assert not some["layers"] and not some["batch"] and not some["interleave"] and not some["experts"].any()
