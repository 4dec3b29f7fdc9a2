"""nwktimes2025's claims of the primer on parallelism, read off the logs of emulated GPUs."""

import numpy as np
import pandas as pd

from railcore.catalog.units import number
from railcore.training.parallelism import Strategy
from suite.emulator.comparison import EmulatedRun, gradient_scopes, replica_scopes
from suite.emulator.feedforward import FeedForward, ShardedFeedForward
from suite.emulator.ranks import EmulatedRanks
from suite.emulator.timeline import rank_timeline
from suite.ledger import claims
from suite.ledger.readings import Entries, merge_entries, verdict_readings, with_prefix
from suite.nwktimes2025.primer import FP32_BYTES, LEARNING_RATE

_GRADIENT = 2.0  # of the example in the text
_FIRST_IDLE = (1 / 2, 1 / 3)  # of two stages at one and two micro-batches: the claim's note
_SLOW = 2.0  # time of a step of a slow transfer, over that of a layer


def layer_claims(chain: EmulatedRun, layers: EmulatedRun) -> Entries:
    """Fig. 1-7 to 1-9: transfers by link, weights, activations, and memory of a training step.

    chain, layers: training steps of `primer.chain_run` and `primer.layers_run`.
    """
    values: dict[str, float] = {}
    for phase, figure in (("forward", "fig1_7"), ("backward", "fig1_8")):
        links = chain.ranks.log["link"][chain.ranks.log["phase"] == phase]
        values |= {f"{figure}.scale_{way}_transfers": float((links == f"scale-{way}").sum()) for way in ("up", "out")}
    held = [layers.ranks.held(layers.sharded.group(layer)[0], f"weights {layer}").size for layer in (1, 2, 3)]
    log = layers.ranks.log
    sent = log["bytes"][log["phase"] == "forward"] / layers.ranks.element_bytes
    values |= {f"fig1_9.weights_layer{layer}": float(size) for layer, size in enumerate(held, start=1)}
    values |= {"fig1_9.weights": float(sum(held)), "fp32_bytes": float(FP32_BYTES)}
    values |= {f"fig1_9.activations_{i}_{i + 1}": float(count) for i, count in enumerate(sent, start=1)}
    values["training_memory_factor"] = layers.ranks.peak_total_bytes / layers.weight_bytes
    values["fig1_8.adjustment"] = weight_adjustment(_GRADIENT, LEARNING_RATE)
    peaks = layers.ranks.peak_bytes / np.array(held) / layers.ranks.element_bytes
    reasons = {
        "training_memory_factor": "the most that all GPUs hold at once; a GPU's own peak is "
        f"{peaks.min():.3g} to {peaks.max():.3g} times its weights"
    }
    return with_prefix("nwktimes2025", values, reasons, {})


def weight_adjustment(gradient: float, learning_rate: float) -> float:
    """Change of the weight of a network of one neuron in a training step, for a gradient of this value."""
    ranks, network = EmulatedRanks(1, 1), FeedForward([1, 1], "linear")
    weight = np.array([[gradient / 2]])  # gradient = 2 (w x - 0) x at x = 1
    step = ShardedFeedForward(network, Strategy(), ranks, [weight]).train(np.eye(1), np.zeros((1, 1)), learning_rate)
    return float(np.abs(step.weights[0] - weight).item())


def adjustment_note() -> list[str]:
    """The document's example of an update, and ours: a line for Fig. 1-8, or none without its mark."""
    marks = claims.marks({"nwktimes2025.fig1_8.adjustment": weight_adjustment(_GRADIENT, LEARNING_RATE)})
    return [
        f"document's example: gradient {_GRADIENT:.1f}, learning rate {LEARNING_RATE}: the weight changes by "
        f"{LEARNING_RATE} x {_GRADIENT:.1f} = {mark.text}; ours, one neuron trained with that gradient: "
        f"{number(mark.ours)}"
        for mark in marks.values()
    ]


def tensor_claims(run: EmulatedRun) -> Entries:
    """Fig. 1-10 and 1-11: what each GPU holds of the layer and of its outputs, and whom GPU0 sends to."""
    held = [run.ranks.held(rank, "weights 1") for rank in run.sharded.group(1)]
    memory = run.ranks.memory
    gathered = memory[(memory["name"] == "activation 1 of 0") & (memory["bytes"] > 0)]
    log = run.ranks.log
    values = {
        "fig1_11.tensor_peer": float(log.loc[log["source"] == 0, "target"].max()),
        "fig1_10.weights_per_gpu": float(max(rows.size for rows in held)),
        "fig1_10.neurons_per_gpu": float(max(len(rows) for rows in held)),
        "fig1_11.output_elements": float(gathered["bytes"].min() / run.ranks.element_bytes),
    }
    reasons = {"fig1_11.tensor_peer": "the other half of the weights, and so of the outputs, is on GPU1 in Fig. 1-10"}
    return with_prefix("nwktimes2025", values, reasons, {})


def three_d_claims(run: EmulatedRun, idle: pd.DataFrame, identity: pd.DataFrame) -> Entries:
    """Fig. 1-12 and 1-13, and the AllReduce identity.

    run: a training step of `primer.three_d_run`. idle: of `emulated_idle_shares`, forward passes. identity: of
    `primer.all_reduce_identity`.
    """
    log, strategy = run.ranks.log, run.strategy
    forward = log[log["phase"] == "forward"]
    places = strategy.coordinates(np.arange(strategy.gpus))
    same = places["tensor"] + strategy.tensor * places["pipeline"]
    source, target = (forward[end].to_numpy(int) for end in ("source", "target"))
    other = float(forward["bytes"][same[source] != same[target]].sum())
    memory = run.ranks.memory
    inputs = memory[memory["name"].str.startswith("activation 0 of") & (memory["bytes"] > 0) & (memory["rank"] == 0)]
    samples = inputs["bytes"] / run.ranks.element_bytes / run.network.widths[0]
    first = run.sharded.weights(0)
    difference = max(
        float(np.abs(one - weights).max())
        for r in range(1, strategy.data)
        for one, weights in zip(first, run.sharded.weights(r), strict=True)
    )
    sums = log[(log["phase"] != "forward") & (log["kind"] != "pipeline")]  # deltas, and gradients of weights
    scopes = [name for name, size in replica_scopes(run, sums).items() if size > 0]
    values = {
        "fig1_12.mini_batch": float(samples.sum()),
        "fig1_12.micro_batch": float(samples.max()),
        "fig1_12.peak_active_gpus": float(rank_timeline(run.ranks).peak_active("forward")),
        "fig1_12.cross_dp_forward_bytes": replica_scopes(run, forward)["across replicas"],
        "fig1_12.dp_group_gpus": float(len(_reached(source, target))),
        "fig1_12.idle_rule": idle_rule_broken(idle),
        "fig1_13.replica_difference": difference,
        "fig1_13.gradient_sync_scopes": float(len(scopes)),
        "allreduce_identity": identity_error(identity),
    }
    ours = with_prefix("nwktimes2025", values, {}, {})
    return Entries(ours.values, ours.reasons, verdict_readings(ours.values, _three_d_choices(run, other)))


def _three_d_choices(run: EmulatedRun, other: float) -> dict[str, dict[str, dict[str, float]]]:
    """How the text of Fig. 1-12 and 1-13 is read, and what other readings give: `choices` of `verdict_readings`.

    other: forward bytes between ranks of other weights.
    """
    slow = rank_timeline(run.ranks, scale_up_time=_SLOW, scale_out_time=_SLOW).peak_active("forward")
    groups = {"fig1_12.cross_dp_forward_bytes": other, "fig1_12.dp_group_gpus": float(run.strategy.data)}
    weights = {"fig1_13.gradient_sync_scopes": float(len(gradient_scopes(run)))}
    choices = (
        ("a DP group is one replica, GPU0 to GPU3", "ranks with the same weights, GPU0 and GPU4", groups),
        (
            "transfers take no time",
            f"a step of them as long as {_SLOW:g} layers",
            {"fig1_12.peak_active_gpus": float(slow)},
        ),
        (
            "gradients 'propagated backward' are deltas, which tensor ranks sum within a replica",
            "gradients of weights alone, summed across replicas",
            weights,
        ),
    )
    return {
        taken: {name: {f"nwktimes2025.{key}": value for key, value in values.items()}}
        for taken, name, values in choices
    }


def _reached(source: np.ndarray, target: np.ndarray) -> set[int]:
    """Ranks that rank 0 exchanges data with, directly or through others."""
    reached, before = {0}, 0
    while len(reached) > before:
        before = len(reached)
        linked = np.isin(source, list(reached)) | np.isin(target, list(reached))
        reached |= {*source[linked].tolist(), *target[linked].tolist()}
    return reached


def idle_rule_broken(idle: pd.DataFrame) -> float:
    """Share of the cases in which one more micro-batch does not lower the idle share, or a printed share is missed.

    idle: columns stages (2 or more), microbatches (1, 2, ...) and idle_share.
    """
    table = idle.pivot_table("idle_share", "microbatches", "stages").sort_index()
    falls = (table.diff().iloc[1:] >= -1e-12).to_numpy().ravel()
    first = np.abs(table.loc[[1, 2], 2].to_numpy() - _FIRST_IDLE) > 1e-12
    return float(np.concatenate([falls, first]).mean())


def identity_error(identity: pd.DataFrame) -> float:
    """Largest relative error of result and bytes, of a table of `primer.all_reduce_identity`."""
    sizes = identity[["sent_bytes", "all_reduce_bytes"]].to_numpy()
    formula = identity[["formula_bytes"]].to_numpy()
    return float(max(np.abs(sizes / formula - 1).max(), identity["result_error"].max()))


def primer_claims(
    chain: EmulatedRun,
    layers: EmulatedRun,
    tensor: EmulatedRun,
    three_d: EmulatedRun,
    idle: pd.DataFrame,
    identity: pd.DataFrame,
) -> Entries:
    """All claims of the primer.

    Parameters
    ----------
    chain, layers, tensor, three_d
        Runs of `primer.chain_run`, `layers_run`, `tensor_run` and `three_d_run`.
    idle, identity
        As in `three_d_claims`.

    Returns
    -------
    Values, reasons and readings for `claims.record`.
    """
    return merge_entries(layer_claims(chain, layers), tensor_claims(tensor), three_d_claims(three_d, idle, identity))
