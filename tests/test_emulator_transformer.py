"""The transformer on simulated ranks: trains as one rank does, and sends what `transfers` and `traffic` say."""

import dataclasses

import numpy as np
import pytest
from emulated_block import ShardedTransformer, one_rank_step, transformer_transfers
from emulated_parts import random_tokens, starting_weights, unit_shapes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railcore.training.formats import WEIGHT_BYTES
from railcore.training.parallelism import DIMENSIONS, Strategy
from railcore.training.pipeline_schedule import microbatches_in_flight
from railcore.training.runtime import MODERN, Runtime
from railcore.training.traffic import iteration_traffic
from railcore.training.transfers import step_transfers
from railcore.training.transformer import RECOMPUTE, SHARDING, Transformer

GPT = Transformer("gpt", 4, 16, 4, 4, 32, 24, 8, ffn_matrices=2, head_dim=8, positions=8)
LLAMA = dataclasses.replace(
    GPT, name="llama", kv_heads=2, ffn_matrices=3, biases=False, tied_embeddings=False, positions=0
)
PALM = dataclasses.replace(GPT, name="palm", kv_heads=1, parallel_block=True, biases=False, positions=12)
FALCON = dataclasses.replace(GPT, name="falcon", kv_heads=2, ffn_matrices=3, parallel_block=True)
SWITCH = dataclasses.replace(GPT, name="switch", sequence_length=16, positions=16, experts=2)
MIXTRAL = dataclasses.replace(LLAMA, name="mixtral", sequence_length=16, experts=4, top_k=2, expert_layer_interval=2)
EACH_LAYER = dataclasses.replace(MIXTRAL, expert_layer_interval=1)
MODELS = (GPT, LLAMA, PALM, FALCON, SWITCH, MIXTRAL)
THREES = Transformer("threes", 2, 36, 6, 3, 36, 36, 18, head_dim=18, ffn_matrices=3)
PLAIN = Runtime(gradient_bytes=2, scatter_gather=False)


@st.composite
def runs(draw):
    """A model, a strategy of at most 16 ranks, a batch, software, and whether the ends count."""
    t, c, d = (draw(st.sampled_from(sizes)) for sizes in ((1, 2, 4), (1, 2), (1, 2)))
    p = draw(st.sampled_from([p for p in (1, 2, 4) if t * c * d * p <= 16]))
    v = draw(st.sampled_from((1, 2))) if p == 2 else 1
    model = draw(st.sampled_from(MODELS if p * v < 4 else (*MODELS[:-1], EACH_LAYER)))
    strategy = Strategy(
        tensor=t,
        context=c,
        pipeline=p,
        data=d,
        expert=draw(st.sampled_from([e for e in (1, 2, 4) if c * d % e == 0 and max(model.experts, 1) % e == 0])),
        interleave=v,
        micro_batch=draw(st.sampled_from((1, 2))),
        recompute=draw(st.sampled_from(RECOMPUTE)),
        sequence_parallel=t > 1 and draw(st.booleans()),
        sharding=draw(st.sampled_from(SHARDING)),
        keep_gathered=draw(st.booleans()),
        order=tuple(draw(st.permutations(DIMENSIONS))),
    )
    runtime = Runtime(gradient_bytes=draw(st.sampled_from((2, 4))), scatter_gather=draw(st.booleans()))
    batch = d * strategy.micro_batch * p * draw(st.sampled_from((1, 2)))
    return model, strategy, batch, runtime, draw(st.booleans())


def trained(model, strategy, batch, runtime=MODERN, embeddings=True, hb_domain_size=2):
    """Runs of two steps: with the strategy, and on one rank with all sequences at once."""
    weights, alone = starting_weights(model, 1), Strategy(micro_batch=batch)
    runs = [
        ShardedTransformer(model, each, batch, weights, runtime, embeddings, hb_domain_size)
        for each in (strategy, alone)
    ]
    for seed in range(2):
        loss, wanted = (run.step(random_tokens(model, batch, seed)) for run in runs)
        assert loss == pytest.approx(wanted, rel=1e-12)
    for what in ("summed", "shard"):
        assert worst(*(run.collected(what) for run in runs)) < 1e-12
    return runs[0]


def worst(found, wanted):
    """Largest difference of tensors, over the largest value in the unit."""
    assert found.keys() == wanted.keys()
    errors = []
    for unit, tensors in wanted.items():
        assert found[unit].keys() == tensors.keys()
        largest = max(abs(each).max() for each in tensors.values())
        errors += [abs(found[unit][name] - each).max() / largest for name, each in tensors.items()]
    return max(errors)


def dense(part):
    gpus = len(part.targets)
    found = np.zeros((gpus, gpus))
    np.add.at(found, (np.arange(gpus)[:, None], part.targets), part.bytes)
    return found


@given(runs())
@example((GPT, Strategy(2, 1, 2, 2), 8, PLAIN, True))
@example((GPT, Strategy(2, 2, 2, 2, interleave=2, sequence_parallel=True, sharding="gradients"), 8, PLAIN, True))
@example((PALM, Strategy(4, 1, 4, 1, recompute="full"), 4, MODERN, True))
@example((LLAMA, Strategy(4, 1, 2, 2, sequence_parallel=True, sharding="weights", recompute="full"), 4, PLAIN, True))
@example((THREES, Strategy(3, 1, 2, 3, sequence_parallel=True, sharding="gradients"), 6, PLAIN, True))
@example((MIXTRAL, Strategy(2, 2, 1, 2, 4, sequence_parallel=True, sharding="weights"), 4, PLAIN, True))
@example((SWITCH, Strategy(2, 1, 2, 2, 2, recompute="full", sharding="optimizer"), 4, PLAIN, True))
@settings(max_examples=10)
def test_every_strategy_trains_as_one_rank_and_sends_what_is_predicted(run):
    model, strategy, batch, runtime, embeddings = run
    sharded = trained(*run)
    table = sharded.comparison()
    counted = table[
        ~table["kind"].isin(["copies", "loss", "ends"])  # what `transfers` leaves out
    ]
    assert counted["emulated_bytes"].tolist() == pytest.approx(counted["predicted_bytes"].tolist(), rel=1e-14)
    assert (counted["predicted_bytes"] > 0).all()
    if strategy.gpus > 1:
        for kind, part in iteration_traffic(model, strategy, batch, runtime, embeddings=embeddings).matrices.items():
            assert sharded.matrix(kind) == pytest.approx(dense(part), rel=1e-12), kind


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_gradients_are_finite_differences(model):
    model = dataclasses.replace(model, layers=2, hidden=8, ffn_hidden=12, vocabulary=10, head_dim=2, sequence_length=6)
    weights, tokens = starting_weights(model), random_tokens(model, 3)
    assert sum(each.size for unit in weights.values() for each in unit.values()) == model.total_parameters
    gradients, rng, step = one_rank_step(model, weights, tokens)[1], np.random.default_rng(0), 1e-4
    for unit, tensors in weights.items():
        for name, each in tensors.items():
            place = tuple(rng.integers(each.shape))
            start, slope = each[place], 0.0
            for steps, share in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
                each[place] = start + steps * step
                slope += share * one_rank_step(model, weights, tokens)[0] / (12 * step)
            each[place] = start
            assert gradients[unit][name][place] == pytest.approx(slope, abs=1e-10), (unit, name, place)


@pytest.mark.parametrize("sharding", SHARDING)
def test_all_copies_of_weights_stay_equal(sharding):
    strategy = Strategy(2, 2, 2, 2, sequence_parallel=True, sharding=sharding)
    run = trained(GPT, strategy, 4)
    weights = run.collected("shard")
    for replica in range(4):
        whole = run.parameters.collected("shard", replica)
        assert all(np.array_equal(whole[unit][name], each) for unit in weights for name, each in weights[unit].items())
        assert np.array_equal(whole["output"]["output"], whole["embedding"]["embedding"])
    if sharding != "weights":  # what is gathered is what each rank computes with
        for group in strategy.groups("replica").tolist():
            for unit in ("layer 0", "layer 3"):
                if group[0] in run.parameters.unit_ranks(unit):
                    one, *others = [run.ranks.held(rank, f"weights {unit}") for rank in group]
                    assert all(np.array_equal(one, other) for other in others)


@pytest.mark.parametrize(
    "changes",
    [{}, {"sequence_parallel": True, "recompute": "full"}, {"context": 2, "sharding": "none"}, {"pipeline": 1}],
    ids=str,
)
@pytest.mark.parametrize("model", [GPT, MIXTRAL], ids=lambda model: model.name)
def test_a_replica_computes_with_its_own_weights_alone(model, changes):
    """Replicas with different weights: loss and gradients are the mean of those of one rank with each of them."""
    strategy = Strategy(**{"tensor": 2, "pipeline": 2, "data": 2} | changes)
    run, tokens = ShardedTransformer(model, strategy, 4), random_tokens(model, 4)
    each = [starting_weights(model, seed) for seed in (0, 1)]
    other = ShardedTransformer(model, strategy, 4, each[1])
    replica = strategy.coordinates(np.arange(strategy.gpus))["data"]
    for unit in (*unit_shapes(model), run.parameters.output_unit):
        for rank in run.parameters.unit_ranks(unit):
            if replica[rank] == 1:
                run.ranks.held(rank, f"weights {unit}")[:] = other.ranks.held(rank, f"weights {unit}")
    loss = run.step(tokens)
    alone = [one_rank_step(model, own, half) for own, half in zip(each, np.split(tokens, 2), strict=True)]
    assert loss == pytest.approx((alone[0][0] + alone[1][0]) / 2, rel=1e-12)
    found = run.parameters.collected("summed")
    wanted = {u: {n: (alone[0][1][u][n] + alone[1][1][u][n]) / 2 for n in tensors} for u, tensors in each[0].items()}
    assert worst({unit: found[unit] for unit in wanted}, wanted) < 1e-12


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("model", [GPT, LLAMA, PALM], ids=lambda model: model.name)
def test_kept_activations_are_those_of_the_formula(model, recompute, sequence_parallel):
    """Each of the pipeline's stages but the last, which keeps the logits too, at its peak and in the end."""
    strategy = Strategy(2, 2, 2, recompute=recompute, sequence_parallel=sequence_parallel)
    run = ShardedTransformer(model, strategy, 4)
    run.step(random_tokens(model, 4))
    one = model.layer_activation_bytes(1, 2, 2, sequence_parallel, RECOMPUTE.index(recompute), dropout=False)
    layers = model.layers // 2 * sum(float(each) for each in one.values())
    tokens = model.sequence_length // 2
    narrow = 2 * model.hidden / (2 if sequence_parallel else 1)
    peaks = run.peak_activation_bytes()
    for rank, stage in enumerate(strategy.coordinates(np.arange(strategy.gpus))["pipeline"]):
        held = microbatches_in_flight(2, 4, 1, stage) * layers
        logits = 2 * tokens * (narrow + model.vocabulary / 2) if stage == 1 else 0
        assert peaks[rank] == held + logits
        names = run.ranks.memory[run.ranks.memory["rank"] == rank].groupby("name")["bytes"].sum()
        assert set(names[names > 0].index.str.split().str[0]) == {"weights", "shard", "summed"}


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_mixture_keeps_what_came_back_and_chances_beside_the_formula(sequence_parallel):
    run = ShardedTransformer(EACH_LAYER, Strategy(2, data=2, expert=2, sequence_parallel=sequence_parallel), 2)
    run.step(random_tokens(EACH_LAYER, 2))
    one = EACH_LAYER.layer_activation_bytes(1, 2, 1, sequence_parallel, dropout=False)
    layer = float(sum(one.values())) + 2 * 16 * (2 * 16 + 4) / (2 if sequence_parallel else 1)
    kept = run.ranks.memory[run.ranks.memory["name"].str.startswith("kept 0 layer 2 ")]
    assert (kept[kept["bytes"] > 0].groupby("rank")["bytes"].sum() == layer).all()


def test_peaks_of_an_interleaved_pipeline_are_those_of_its_schedule():
    strategy = Strategy(pipeline=2, interleave=2)
    run = ShardedTransformer(LLAMA, strategy, 8)
    run.step(random_tokens(LLAMA, 8))
    one = sum(float(each) for each in LLAMA.layer_activation_bytes(dropout=False).values())
    assert run.peak_activation_bytes()[0] == microbatches_in_flight(2, 8, 2, 0) * 2 * one


@pytest.mark.parametrize("model", [MIXTRAL, dataclasses.replace(MIXTRAL, dense_layers=2)], ids=("", "dense first"))
def test_stages_with_other_counts_of_mixture_layers_send_as_much_in_all(model):
    run = trained(model, Strategy(2, pipeline=4, data=2, expert=2, sequence_parallel=True), 4, hb_domain_size=16)
    table = run.comparison().set_index("kind").drop(["copies", "loss"])
    assert table["emulated_bytes"].tolist() == pytest.approx(table["predicted_bytes"].tolist())


@pytest.mark.parametrize("strategy", [Strategy(2, 2, 2, 2, sequence_parallel=True), Strategy(4, 1, 4)])
def test_ends_that_are_not_counted_have_a_kind_of_their_own(strategy):
    tables = {ends: transformer_transfers(GPT, strategy, 8, PLAIN, ends, 4) for ends in (True, False)}
    total = {ends: table.groupby("kind")["emulated_bytes"].sum() for ends, table in tables.items()}
    assert total[True].sum() == total[False].sum() and "ends" not in total[True]
    rows = {ends: step_transfers(GPT, strategy, 8, PLAIN, embeddings=ends) for ends in (True, False)}
    stages = {
        ends: sum(row.sent_bytes * row.stage_weights(strategy).sum() for row in some) for ends, some in rows.items()
    }
    assert total[False]["ends"] == pytest.approx((stages[True] - stages[False]) * strategy.gpus / strategy.pipeline)


def test_tensor_traffic_stays_in_a_domain_of_the_tensor_ranks():
    table = transformer_transfers(LLAMA, Strategy(4, 1, 2, 2, sequence_parallel=True), 4, hb_domain_size=4)
    links = table.groupby("kind")["link"].agg(set)
    assert links["sequence"] == {"scale-up"} and links["data"] == links["pipeline"] == {"scale-out"}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_rank_holds_the_parameters_that_are_counted(model):
    strategy = Strategy(4, pipeline=2, data=2, expert=2 if model.experts else 1, sequence_parallel=True)
    run, held = ShardedTransformer(model, strategy, 4), model.rank_parameters(4, strategy.expert)
    per_stage = model.layers // 2
    for rank, stage in enumerate(strategy.coordinates(np.arange(strategy.gpus))["pipeline"]):
        mixed = sum(model.has_experts(layer) for layer in range(stage * per_stage, (stage + 1) * per_stage))
        wanted = held.layers(per_stage - mixed, mixed) + mixed * held.experts + (held.last(2) if stage else held.first)
        names = run.ranks.memory[run.ranks.memory["rank"] == rank].groupby("name")["bytes"].sum()
        assert names[names.index.str.startswith("weights ")].sum() == WEIGHT_BYTES * wanted


def test_what_is_left_out_is_small_sums():
    """Gradients of copied heads of keys and values; with sequence parallelism those of norms too."""
    strategy = Strategy(4, data=2)
    plain = transformer_transfers(LLAMA, strategy, 2, PLAIN).groupby(["kind", "operation"])["emulated_bytes"].sum()
    heads = 2 * LLAMA.hidden * LLAMA.head_dim * 2 * LLAMA.layers  # 2 ranks have a head of keys and one of values
    assert plain["copies", "all_reduce"] == 2 * strategy.gpus * 2 * heads / 2 / 2
    sliced = dataclasses.replace(strategy, sequence_parallel=True)
    both = transformer_transfers(LLAMA, sliced, 2, PLAIN).groupby(["kind", "operation"])["emulated_bytes"].sum()
    norms = 2 * 3 / 4 * 9 * LLAMA.hidden
    assert both["copies", "all_reduce"] == 2 * strategy.gpus * norms + plain["copies", "all_reduce"]


def test_what_replicas_do_not_divide_is_filled_with_zeros():
    model, strategy = (
        dataclasses.replace(LLAMA, hidden=10, ffn_hidden=7, vocabulary=9),
        Strategy(data=3, sharding="weights"),
    )
    table = trained(model, strategy, 3).comparison()
    assert (table["emulated_bytes"] >= table["predicted_bytes"]).all()
