"""Runs of a feedforward network on emulated ranks; tables of bytes, memory and waiting by strategy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd

from railcore.catalog.arguments import Count, NonNegativeInt, Range, checked
from railcore.catalog.checks import Floats
from railcore.training.parallelism import Strategy
from suite.emulator.feedforward import (
    MOST_SIZES,
    FeedForward,
    ShardedFeedForward,
    TrainingStep,
    emulated_sizes,
    one_rank_step,
    refuse_too_large,
)
from suite.emulator.ranks import SCALE_UP, EmulatedRanks
from suite.emulator.timeline import rank_timeline


@dataclass(frozen=True)
class EmulatedRun:
    """A run of a network, and what it computed, sent and held.

    network, strategy: the network, and how it was split.
    weights: before the run, a matrix for each layer.
    inputs, targets: [width, samples].
    ranks: with the logs of the run.
    sharded: the network on its ranks, after the run.
    learning_rate, step: None after a forward pass alone.
    """

    network: FeedForward
    strategy: Strategy
    weights: list[Floats]
    inputs: Floats
    targets: Floats
    ranks: EmulatedRanks
    sharded: ShardedFeedForward
    learning_rate: float | None
    step: TrainingStep | None

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights that ranks hold, of all replicas."""
        return self.network.weights * self.strategy.data * self.ranks.element_bytes


@checked
def emulated_run(
    network: FeedForward,
    strategy: Strategy,
    samples: Count,
    hb_domain_size: Count,
    learning_rate: float | None = 0.1,
    seed: NonNegativeInt = 0,
    decimals: Annotated[int, Range(0, 300)] | None = None,
) -> EmulatedRun:
    """Run a network on random weights and samples: a training step, or a forward pass where learning_rate is None.

    Parameters
    ----------
    network, strategy, samples
        The network, how it is split, and the samples of the step.
    hb_domain_size
        Ranks of a node.
    learning_rate
        Of the step; None: a forward pass alone.
    seed, decimals
        Of weights and samples; the decimals to which they are rounded, None for all.

    Returns
    -------
    The run.
    """
    refuse_too_large(network, strategy, samples)
    ranks = EmulatedRanks(strategy.gpus, hb_domain_size)
    places = 15 if decimals is None else decimals
    weights = [np.round(matrix, places) for matrix in network.initial_weights(seed)]
    inputs, targets = (np.round(array, places) for array in network.samples(samples, seed))
    sharded = ShardedFeedForward(network, strategy, ranks, weights)
    step = None
    if learning_rate is None:
        sharded.predict(inputs)
    else:
        step = sharded.train(inputs, targets, learning_rate)
    return EmulatedRun(network, strategy, weights, inputs, targets, ranks, sharded, learning_rate, step)


def largest_difference(run: EmulatedRun) -> float:
    """Largest absolute difference between a training step on its ranks and the same step on one rank.

    Of loss, outputs, deltas, gradients, and the weights of every replica.
    """
    assert run.step is not None
    assert run.learning_rate is not None
    alone = one_rank_step(run.network, run.weights, run.inputs, run.targets, run.learning_rate)
    pairs = [(np.array(run.step.loss), np.array(alone.loss))]
    for name in ("outputs", "deltas", "gradients"):
        pairs += zip(getattr(run.step, name), getattr(alone, name), strict=True)
    for replica in run.step.replicas:
        pairs += zip(replica, alone.weights, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


def sized_strategy(
    samples: int, microbatches: int, tensor: int, pipeline: int, data: int, order: Sequence[str]
) -> Strategy:
    """A strategy whose replicas cut the samples of a step into so many micro-batches.

    Parameters
    ----------
    samples
        Of a step, over all replicas.
    microbatches
        Of a replica.
    tensor, pipeline, data, order
        As in `Strategy`.

    Returns
    -------
    The strategy.

    Raises
    ------
    ValueError
        Where the samples do not divide.
    """
    parts = data * microbatches
    if samples % parts:
        fits = sorted({max(1, samples // parts) * parts, -(-samples // parts) * parts})
        raise ValueError(
            f"samples is {samples}: give a multiple of data x microbatches, {data} x {microbatches}, such as "
            f"{' or '.join(map(str, fits))}"
        )
    return Strategy(tensor=tensor, pipeline=pipeline, data=data, micro_batch=samples // parts, order=tuple(order))


def possible_strategies(
    network: FeedForward, gpus: int, samples: int, microbatches: int, order: Sequence[str]
) -> dict[str, Strategy]:
    """All ways to split a network over GPUs with tensor, pipeline and data parallelism, by name.

    Parameters
    ----------
    network, samples
        As in `emulated_run`.
    gpus
        t p d.
    microbatches
        Of a replica.
    order
        As in `Strategy`.

    Returns
    -------
    By "tensor t, pipeline p, data d"; the largest tensor first. Ways that are too large to emulate are left out.

    Raises
    ------
    ValueError
        Where no way fits.
    """
    strategies = {}
    for t in range(gpus, 0, -1):
        for p in range(min(network.layers, gpus), 0, -1):
            d = gpus // (t * p)
            fits = t * p * d == gpus and samples % (d * microbatches) == 0
            if fits and not any(width % t for width in network.widths[1:]):
                strategy = sized_strategy(samples, microbatches, t, p, d, order)
                sizes = emulated_sizes(network, strategy, samples)
                if all(sizes[limit] <= most for limit, most in MOST_SIZES.items()):
                    strategies[f"tensor {t}, pipeline {p}, data {d}"] = strategy
    if not strategies:
        raise ValueError(
            f"gpus is {gpus}: no tensor x pipeline x data splits widths {network.widths} and {samples} samples in "
            f"{microbatches} micro-batches; give {gpus * microbatches} samples, or fewer GPUs"
        )
    return strategies


def strategy_traffic(
    network: FeedForward, strategies: Mapping[str, Strategy], samples: int, hb_domain_size: int
) -> pd.DataFrame:
    """Bytes of a training step by strategy, kind and link, with the memory and the waiting that come with them.

    Parameters
    ----------
    network, samples, hb_domain_size
        As in `emulated_run`.
    strategies
        By name.

    Returns
    -------
    Columns strategy, kind, link ("scale-up", "scale-out"), bytes (all ranks send), peak_bytes (the rank that holds
    most), idle_share (no time for transfers), gpus. A strategy that sends nothing has one row of 0 bytes.
    """
    tables = []
    for name, strategy in strategies.items():
        run = emulated_run(network, strategy, samples, hb_domain_size)
        sent = run.ranks.log.groupby(["kind", "link"], as_index=False, sort=False)["bytes"].sum()
        if sent.empty:
            sent = pd.DataFrame({"kind": ["none"], "link": [SCALE_UP], "bytes": [0.0]})
        idle = rank_timeline(run.ranks).idle_share
        more = {"peak_bytes": run.ranks.peak_bytes.max(), "idle_share": idle, "gpus": strategy.gpus}
        tables.append(sent.assign(strategy=name, **more))
    columns = ["strategy", "kind", "link", "bytes", "peak_bytes", "idle_share", "gpus"]
    return pd.concat(tables, ignore_index=True)[columns]


def emulated_idle_shares(stages: Iterable[int], microbatches: Iterable[int]) -> pd.DataFrame:
    """Idle share of the forward pass of pipelines of one layer a stage, transfers free, from emulated runs.

    Columns stages, microbatches, idle_share, a row for each pair.
    """
    rows = []
    for p, m in product(stages, microbatches):
        run = emulated_run(FeedForward([1] * (p + 1)), Strategy(pipeline=p), m, 1, learning_rate=None)
        rows.append((p, m, rank_timeline(run.ranks).idle_share))
    return pd.DataFrame(rows, columns=["stages", "microbatches", "idle_share"])


def gradient_scopes(run: EmulatedRun) -> dict[str, float]:
    """Bytes of gradients sent within a replica and across replicas, without scopes that have none.

    They are what `kind` "data" logs: sums of the same weights' gradients.
    """
    log = run.ranks.log
    return {name: size for name, size in replica_scopes(run, log[log["kind"] == "data"]).items() if size > 0}


def replica_scopes(run: EmulatedRun, sends: pd.DataFrame) -> dict[str, float]:
    """Bytes of some rows of a run's log "within a replica" and "across replicas"."""
    replica = run.strategy.coordinates(np.arange(run.strategy.gpus))["data"]
    across = replica[sends["source"].to_numpy(int)] != replica[sends["target"].to_numpy(int)]
    size = sends["bytes"].to_numpy(float)
    return {"within a replica": float(size[~across].sum()), "across replicas": float(size[across].sum())}
