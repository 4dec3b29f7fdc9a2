import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.training.launch_lines import megatron_run
from railcore.training.parallelism import DIMENSIONS, GROUP_KINDS, Strategy, indivisible
from railcore.training.transformer import catalog_model

GPT_1T = "--num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 --vocab-size 51200 "
SPLIT = "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --world-size 3072 "
BATCH = "--micro-batch-size 1 --global-batch-size 3072 "


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


def test_a_launch_line_gives_strategy_model_and_batch():
    run = megatron_run(
        "torchrun pretrain_gpt.py " + GPT_1T + SPLIT + BATCH + "--sequence-parallel --lr 1e-4 -x \\\n --bf16"
    )
    assert run.strategy == Strategy(tensor=8, pipeline=64, data=6, sequence_parallel=True)
    assert dataclasses.replace(run.model, name="GPT-1T") == catalog_model("GPT-1T")
    assert run.global_batch == 3072
    assert run.warnings == run.strategy.warnings == ("--lr is not used", "--bf16 is not used")
    assert megatron_run((GPT_1T + SPLIT + BATCH).split()).strategy.sequence_parallel is False


def test_a_launch_line_of_a_gated_mixture():
    line = (
        "torchrun --nproc_per_node=8 --nnodes=4 --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 4096 --swiglu "
        "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8 --pipeline-model-parallel-size 4 "
        "--num-virtual-stages-per-pipeline-rank 8 --micro-batch-size 1 --global-batch-size 256 --disable-bias-linear "
        "--use-distributed-optimizer --untie-embeddings-and-output-weights --position-embedding-type rope "
        "--vocab-size 32000 --recompute-granularity full --use-tp-pp-dp-mapping"
    )
    run = megatron_run(line)
    expected = Strategy(pipeline=4, data=8, expert=8, interleave=8, recompute="full", sharding="optimizer")
    assert run.strategy == dataclasses.replace(expected, order=("tensor", "context", "pipeline", "data"))
    assert run.model.total_parameters == pytest.approx(46.7e9, rel=0.001)  # Mixtral 8x7B
    assert run.model.top_k == 2 and run.warnings == ()


def test_what_a_line_leaves_open_is_said():
    run = megatron_run("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --swiglu", gpus=4)
    assert run.strategy == Strategy(data=4) and run.global_batch == 4
    assert run.model.ffn_hidden == 128 and run.model.vocabulary == 50257
    assert len(run.warnings) == 2
    empty = megatron_run("")
    assert empty.model is None and empty.strategy == Strategy() and len(empty.warnings) == 3
    assert (
        megatron_run("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64", 1, 99).model.vocabulary
        == 99
    )


def test_what_may_change_the_result_is_said():
    run = megatron_run("--micro-batch-size 1 --lr 1e-4 --mtp-num-layers 1", gpus=8)
    assert "--lr is not used" in run.warnings
    assert any("mtp-num-layers" in text and "may change" in text for text in run.warnings)


DEEPSEEK = (
    "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --seq-length 4096 --swiglu "
    "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
    "--v-head-dim 128 --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 "
    "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq '([0]*3+[1]*58)' --moe-router-num-groups 8 "
    "--moe-router-group-topk 4 --position-embedding-type rope --disable-bias-linear "
    "--untie-embeddings-and-output-weights --vocab-size 129280 --micro-batch-size 1 "
)
SHORT = "--num-layers 12 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 99 --micro-batch-size 1 "
MIXED = SHORT + "--num-experts 4 --moe-router-topk 2 "


def test_a_launch_line_like_deepseek_v3s_gives_the_model_of_the_catalog():
    run = megatron_run(DEEPSEEK + "--expert-model-parallel-size 64", gpus=64)
    assert dataclasses.replace(run.model, name="DeepSeek-V3") == catalog_model("DeepSeek-V3")
    assert run.strategy == Strategy(data=64, expert=64) and run.warnings == ()


def test_ends_that_count_as_layers():
    ends = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
    line = SHORT.replace("12", "14") + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
    run = megatron_run(line + "--global-batch-size 4 " + ends, 4)
    assert run.strategy.ends_as_layers and run.strategy.interleave == 2 and run.model.layers == 14
    assert run.strategy.warnings == ()
    one = megatron_run(SHORT + ends.split()[0], 4).strategy
    assert not one.ends_as_layers
    assert one.warnings == ("--account-for-embedding-in-pipeline-split is not used without the other end's",)
    assert not megatron_run(SHORT, 4).strategy.ends_as_layers


FREQUENCY, WINDOW = "--moe-layer-freq ", "--window-size 15,0 "


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (MIXED + FREQUENCY + "1", {"dense_layers": 0, "expert_layer_interval": 1, "mixture_layers": 12}),
        (MIXED + FREQUENCY + "'([0] * 2 + [1] * 10)'", {"dense_layers": 2, "expert_layer_interval": 1}),
        (MIXED + FREQUENCY + "2*([1]+3*[0])+[1,0,0,0]", {"expert_layer_interval": 4, "mixture_layers": 3}),
        (MIXED + FREQUENCY + "[0]*2+([1]+[0])*5", {"dense_layers": 2, "expert_layer_interval": 2}),
        (SHORT + WINDOW, {"window": 16, "full_attention_interval": 0}),
        (SHORT + WINDOW + "--window-attn-skip-freq 2", {"window": 16, "full_attention_interval": 2}),
        (SHORT + WINDOW + "--window-attn-skip-freq [1,1,1,0]*3", {"window": 16, "full_attention_interval": 4}),
        (SHORT + "--window-attn-skip-freq 2", {"window": 0, "full_attention_interval": 0}),
        (SHORT + "--multi-latent-attention --v-head-dim 48", {"query_rank": 0, "kv_rank": 32, "head_dim": 128}),
        (SHORT + "--multi-latent-attention", {"rope_dim": 64, "value_dim": 128}),
    ],
)
def test_a_line_gives_the_models_fields(line, fields):
    model = megatron_run(line, gpus=1).model
    assert {name: getattr(model, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("--use-torch-fsdp2", "sharding", "weights"),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "sharding", "gradients"),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy no_shard", "sharding", "none"),
        ("--use-distributed-optimizer", "sharding", "optimizer"),
        ("--recompute-activations", "sharding", "none"),
        ("--recompute-activations", "recompute", "selective"),
        ("--recompute-activations --recompute-granularity selective", "recompute", "selective"),
    ],
)
def test_a_line_gives_the_strategys_fields(line, field, value):
    assert getattr(megatron_run(line, gpus=4).strategy, field) == value


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("--tensor-model-parallel-size 8 --world-size 12", "world size"),
        ("--world-size 16 --nnodes 4 --nproc-per-node 8", "one number of GPUs"),
        ("--recompute-activations --recompute-granularity full", "contradict"),
        ("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3 --num-layers 8", "divide"),
        ("--num-layers-per-virtual-pipeline-stage 3 --num-virtual-stages-per-pipeline-rank 2", "both"),
        ("--tensor-model-parallel-size 2 --tensor-model-parallel-size 4", "twice"),
        ("--recompute-granularity some", "recompute-granularity.*'some'.*selective.*full"),
        ("--use-torch-fsdp2 --pipeline-model-parallel-size 2", "fsdp2"),
        ("--expert-tensor-parallel-size 1 --tensor-model-parallel-size 2", "expert-tensor"),
        ("--expert-model-parallel-size 2 --world-size 8 --num-layers 4", "num-experts"),
        ("--tp 8", "is unknown: Megatron-LM has --tensor-model"),
        ("--tensor-parallel-size 8", "is unknown: Megatron-LM has --tensor-model"),
        (GPT_1T + "--num-query-groups 8", "group-query"),
        (GPT_1T + "--tensor-model-parallel-size 7 --world-size 7", "heads"),
        (SHORT + "--kv-lora-rank 8", "--kv-lora-rank needs --multi-latent-attention"),
        (SHORT + "--multi-latent-attention --group-query-attention", "drop one"),
        (SHORT + "--window-size 15", "window-size is 15: give tokens before and after"),
        (SHORT + WINDOW + "--window-attn-skip-freq [1,0,0]*4", "no pattern"),
        (MIXED + "--moe-router-num-groups 3 --moe-router-group-topk 2", "expert_groups is 3: give a divisor"),
        (MIXED + FREQUENCY + "[1]*3+[0]*9", "moe-layer-freq.*give 12, after"),
        (MIXED + FREQUENCY + "[1]*10**9", "moe-layer-freq.*give a whole number, or a list"),
        (MIXED + FREQUENCY + "__import__('os')", "moe-layer-freq"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(line, word):
    with pytest.raises(ValueError, match=word):
        megatron_run(line)
