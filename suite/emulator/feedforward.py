"""Feedforward networks trained on emulated ranks: tensor, pipeline, data and 3D parallelism.

Symbols: layer l = 1 ... L has n_l neurons and no biases; W_l [n_l, n_(l-1)] has a row for each neuron; a_0 is the
input [n_0, samples]; B samples of a step, m micro-batches.

    forward     z_l = W_l a_(l-1), a_l = relu(z_l); the last layer may be linear
    loss        mean of (a_L - target)^2 over samples and outputs
    backward    delta_L = 2 (a_L - target) / (B n_L) * relu'(z_L), delta_(l-1) = (W_l^T delta_l) * relu'(z_(l-1))
    update      W_l -= learning_rate * delta_l a_(l-1)^T, summed over samples

- Tensor: each rank has n_l / t rows of W_l. all_gather of the outputs a_l in the forward pass; all_reduce of
  W_l^T delta_l, to which each rank adds its rows' part, in the backward pass.
- Pipeline: runs of layers on stages; each tensor rank sends a_l, and in the backward pass delta_l, to its own place in
  the next stage. All micro-batches go forward, then all go backward (gpipe).
- Data: each replica has B / d samples; all_reduce of each layer's gradient after the last micro-batch.

relu'(z_l) = (a_l > 0) is known where a_l is: the next layer's ranks keep a_l as their input and send delta_l back. So a
stage drops the outputs that it has sent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from railcore.catalog import checks
from railcore.catalog.arguments import checked
from railcore.catalog.checks import Floats
from railcore.training.parallelism import Strategy
from suite.emulator.ranks import EmulatedRanks, TransferLabel

# all ranks are in the memory of one computer, one after the other: the most of each of `emulated_sizes` in a step
MOST_SIZES = {"elements": 3 * 10**7, "multiplications": 10**10, "sends": 3 * 10**5}


@checked
@dataclass(frozen=True)
class FeedForward:
    """A feedforward network.

    widths: inputs, then neurons of each layer.
    output: activation of the last layer; the others have "relu".

    Raises ValueError for fewer than two widths, and values out of range.
    """

    widths: Sequence[int]
    output: Literal["relu", "linear"] = "relu"

    def __post_init__(self) -> None:
        widths = tuple(int(width) for width in checks.whole("widths", list(self.widths)))
        if len(widths) < 2:
            raise ValueError(f"widths is {self.widths!r}: give the inputs and the neurons of one layer or more")
        object.__setattr__(self, "widths", widths)

    @property
    def layers(self) -> int:
        """Layers with weights, L."""
        return len(self.widths) - 1

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape of each layer's weights, neurons by inputs."""
        return [(after, before) for before, after in zip(self.widths, self.widths[1:], strict=False)]

    @property
    def weights(self) -> int:
        """Weights of all layers."""
        return sum(rows * columns for rows, columns in self.shapes)

    def initial_weights(self, seed: int = 0) -> list[Floats]:
        """Normal weights of variance 2 / inputs of a neuron."""
        rng = np.random.default_rng(seed)
        return [rng.normal(scale=np.sqrt(2 / shape[1]), size=shape) for shape in self.shapes]

    def samples(self, number: int, seed: int = 0) -> tuple[Floats, Floats]:
        """Inputs and targets from 0 to 1 [width, number]."""
        rng = np.random.default_rng(seed)
        return rng.random((self.widths[0], number)), rng.random((self.widths[-1], number))

    def activated(self, layer: int, z: Floats) -> Floats:
        """Outputs of a layer (1 to L) from its weighted sums."""
        return z if self._linear(layer) else np.maximum(z, 0)

    def slope(self, layer: int, outputs: Floats) -> Floats:
        """Derivative of a layer's activation, from its outputs."""
        return np.ones_like(outputs) if self._linear(layer) else (outputs > 0).astype(float)

    def _linear(self, layer: int) -> bool:
        return layer == self.layers and self.output == "linear"


@dataclass(frozen=True)
class TrainingStep:
    """What one training step computed. Lists have an entry for each layer.

    loss: before the update.
    outputs, deltas: [neurons, samples].
    gradients, weights: [neurons, inputs]; weights are those after the update.
    replicas: weights of each data-parallel replica.
    """

    loss: float
    outputs: list[Floats]
    deltas: list[Floats]
    gradients: list[Floats]
    weights: list[Floats]
    replicas: list[list[Floats]]


def one_rank_step(
    network: FeedForward, weights: Sequence[Floats], inputs: Floats, targets: Floats, learning_rate: float
) -> TrainingStep:
    """One training step on one rank, sample by sample: what every strategy has to equal.

    Parameters
    ----------
    network, weights
        The network, and a matrix for each layer.
    inputs, targets
        [width, samples].
    learning_rate
        Of plain stochastic gradient descent.

    Returns
    -------
    The step.
    """
    gradients = [np.zeros(shape) for shape in network.shapes]
    deltas = [np.zeros((rows, inputs.shape[1])) for rows, _ in network.shapes]
    outputs, loss = [np.zeros_like(delta) for delta in deltas], 0.0
    for sample in range(inputs.shape[1]):
        signals = [inputs[:, sample]]
        for layer, matrix in enumerate(weights, start=1):
            signals.append(network.activated(layer, matrix.dot(signals[-1])))
        error = signals[-1] - targets[:, sample]
        loss += float(error @ error) / targets.size
        back = 2 * error / targets.size
        for layer in range(network.layers, 0, -1):
            delta = back * network.slope(layer, signals[layer])
            outputs[layer - 1][:, sample], deltas[layer - 1][:, sample] = signals[layer], delta
            gradients[layer - 1] += np.outer(delta, signals[layer - 1])
            back = delta.dot(weights[layer - 1])
    updated = [matrix - learning_rate * gradient for matrix, gradient in zip(weights, gradients, strict=True)]
    return TrainingStep(loss, outputs, deltas, gradients, updated, [updated])


class ShardedFeedForward:
    """A network split over emulated ranks by a strategy; `ranks` logs what it sends and holds.

    Ranks hold arrays named "weights 1", "activation 0 of 2" (of layer and micro-batch, both as counted in the log),
    "delta ...", "gradient ..." and "partial output ...".

    Parameters
    ----------
    network
        The network.
    strategy
        tensor, pipeline and data; order places the ranks; micro_batch [samples].
    ranks
        As many as the strategy's GPUs.
    weights
        A matrix [neurons, inputs] for each layer.

    Raises
    ------
    ValueError
        Where widths do not divide by tensor, stages outnumber layers, or the strategy has what a feedforward network
        cannot use.
    """

    def __init__(
        self, network: FeedForward, strategy: Strategy, ranks: EmulatedRanks, weights: Sequence[Floats]
    ) -> None:
        _check_split(network, strategy)
        refuse_too_large(network, strategy)
        self.network, self.strategy, self.ranks = network, strategy, ranks
        self.stages = layer_stages(network.layers, strategy.pipeline)
        places = np.arange(strategy.tensor)
        self._groups = [
            [strategy.rank_of(places, 0, d, stage).tolist() for stage in self.stages] for d in range(strategy.data)
        ]
        for groups in self._groups:
            for layer, group in enumerate(groups, start=1):
                for rank, rows in zip(group, np.split(np.array(weights[layer - 1], float), len(group)), strict=True):
                    ranks.hold(rank, f"weights {layer}", rows.copy())

    def group(self, layer: int, replica: int = 0) -> list[int]:
        """Ranks that hold a layer (1 to L) in a data-parallel replica, in the order of their rows."""
        return self._groups[replica][layer - 1]

    def weights(self, replica: int = 0) -> list[Floats]:
        """Weights of a replica, a whole matrix for each layer."""
        return [self._whole(f"weights {layer}", layer, replica) for layer in range(1, self.network.layers + 1)]

    def predict(self, inputs: Floats) -> Floats:
        """Outputs [width, samples] of a forward pass that keeps nothing for a backward pass."""
        batches, last = self._cut(inputs), self.network.layers
        outputs = {}
        for m in range(len(batches[0])):
            for replica, part in enumerate(batches):
                outputs[replica, m] = self._forward(replica, m, part[m], keep=False)
                for rank in self.group(last, replica):
                    self.ranks.free(rank, f"activation {last} of {m}")
        return _joined(outputs, last)

    def train(self, inputs: np.ndarray, targets: np.ndarray, learning_rate: float) -> TrainingStep:
        """One training step: forward and backward of all micro-batches, gradients summed, weights updated.

        inputs, targets [width, samples]; learning_rate: of plain stochastic gradient descent. The loss is read by
        the emulator: it is not sent.
        """
        last, d = self.network.layers, self.strategy.data
        batches, wanted = self._cut(inputs), self._cut(targets)
        number = len(batches[0])
        states = {(r, m): self._forward(r, m, batches[r][m], keep=True) for m in range(number) for r in range(d)}
        errors = {key: outputs[last] - wanted[key[0]][key[1]] for key, outputs in states.items()}
        deltas = {
            (r, m): self._backward(r, m, 2 * errors[r, m] / targets.size) for m in range(number) for r in range(d)
        }
        gradients = self._update(learning_rate)
        return TrainingStep(
            float(sum((error**2).sum() for error in errors.values())) / targets.size,
            [_joined(states, layer) for layer in range(1, last + 1)],
            [_joined(deltas, layer) for layer in range(1, last + 1)],
            gradients,
            self.weights(),
            [self.weights(r) for r in range(d)],
        )

    def _whole(self, name: str, layer: int, replica: int = 0) -> Floats:
        return np.concatenate([self.ranks.held(rank, name) for rank in self._groups[replica][layer - 1]])

    def _cut(self, samples: Floats) -> list[list[Floats]]:
        """Samples of each replica, cut into micro-batches."""
        refuse_too_large(self.network, self.strategy, samples.shape[1])
        number = self.strategy.microbatches(samples.shape[1])
        return [np.split(part, number, axis=1) for part in np.split(samples, self.strategy.data, axis=1)]

    def _forward(self, replica: int, m: int, inputs: Floats, keep: bool) -> dict[int, Floats]:
        """Outputs of a micro-batch by layer. keep: ranks keep those that the backward pass needs."""
        states = {}
        for rank in self._groups[replica][0]:
            self.ranks.hold(rank, f"activation 0 of {m}", inputs)
        for layer in range(1, self.network.layers + 1):
            group, before, name = self._groups[replica][layer - 1], f"activation {layer - 1} of {m}", f"of {m}"
            parts = []
            for rank in group:
                self.ranks.compute(rank, "forward", layer, m)
                z = self.ranks.held(rank, f"weights {layer}") @ self.ranks.held(rank, before)
                parts.append(self.ranks.hold(rank, f"partial output {layer} {name}", self.network.activated(layer, z)))
                if not keep:
                    self.ranks.free(rank, before)
            whole = self.ranks.all_gather(group, parts, TransferLabel("forward", "tensor", layer, m))
            for rank, outputs in zip(group, whole, strict=True):
                self._replace(rank, f"partial output {layer} {name}", f"activation {layer} {name}", outputs)
            states[layer] = whole[0]
            if layer < self.network.layers:
                self._move(group, self._groups[replica][layer], f"activation {layer} {name}", "forward", layer, m)
        return states

    def _backward(self, replica: int, m: int, error: Floats) -> dict[int, Floats]:
        """Deltas of a micro-batch by layer, from the derivative of the loss; gradients are added to those held."""
        last, gradients = self.network.layers, {}
        for rank in self._groups[replica][-1]:
            outputs = self.ranks.held(rank, f"activation {last} of {m}")
            self._replace(
                rank, f"activation {last} of {m}", f"delta {last} of {m}", error * self.network.slope(last, outputs)
            )
        for layer in range(last, 0, -1):
            group = self._groups[replica][layer - 1]
            below, before = f"delta {layer - 1} of {m}", f"activation {layer - 1} of {m}"
            gradients[layer] = self.ranks.held(group[0], f"delta {layer} of {m}")
            parts = [self._layer_gradient(rank, place, layer, m) for place, rank in enumerate(group)]
            inputs = [self.ranks.free(rank, before) for rank in group]
            if layer > 1:
                summed = self.ranks.all_reduce(group, parts, TransferLabel("backward", "tensor", layer, m))
                for rank, total, signal in zip(group, summed, inputs, strict=True):
                    self.ranks.hold(rank, below, total * self.network.slope(layer - 1, signal))
                self._move(group, self._groups[replica][layer - 2], below, "backward", layer - 1, m)
        return gradients

    def _layer_gradient(self, rank: int, place: int, layer: int, m: int) -> Floats:
        """Add to a rank's gradient. Returns its rows' part of W^T delta, held as the delta of the layer before."""
        self.ranks.compute(rank, "backward", layer, m)
        weights, name = self.ranks.held(rank, f"weights {layer}"), f"gradient {layer}"
        rows = slice(place * len(weights), (place + 1) * len(weights))
        delta = self.ranks.held(rank, f"delta {layer} of {m}")[rows]
        gradient = delta @ self.ranks.held(rank, f"activation {layer - 1} of {m}").T
        if m:
            gradient += self.ranks.held(rank, name)
        self.ranks.hold(rank, name, gradient)
        part = weights.T @ delta
        if layer > 1:
            self.ranks.hold(rank, f"delta {layer - 1} of {m}", part)
        self.ranks.free(rank, f"delta {layer} of {m}")
        return part

    def _update(self, learning_rate: float) -> list[Floats]:
        """Sum gradients over replicas and update the weights; the gradients."""
        sums = []
        for layer in range(self.network.layers, 0, -1):
            name = f"gradient {layer}"
            for members in zip(*(groups[layer - 1] for groups in self._groups), strict=True):
                held = [self.ranks.held(rank, name) for rank in members]
                summed = self.ranks.all_reduce(members, held, TransferLabel("after", "data", layer))
                for rank, part, gradient in zip(members, held, summed, strict=True):
                    part[:] = gradient
                    self.ranks.held(rank, f"weights {layer}")[:] -= learning_rate * gradient
            sums.append(self._whole(name, layer))
            for groups in self._groups:
                for rank in groups[layer - 1]:
                    self.ranks.free(rank, name)
        return sums[::-1]

    def _replace(self, rank: int, old: str, new: str, array: Floats) -> None:
        """Hold a new array in place of another, which is freed."""
        self.ranks.hold(rank, new, array)
        self.ranks.free(rank, old)

    def _move(self, sources: Sequence[int], targets: Sequence[int], name: str, phase: str, layer: int, m: int) -> None:
        """Copy an array to the ranks of the next stage, and remove it here; nothing where the stage is the same."""
        if list(sources) == list(targets):
            return
        for source, target in zip(sources, targets, strict=True):
            label = TransferLabel(phase, "pipeline", layer, m)
            self.ranks.hold(target, name, self.ranks.send(source, target, self.ranks.held(source, name), label))
            self.ranks.free(source, name)


def _joined(arrays: Mapping[tuple[int, int], Mapping[int, Floats]], layer: int) -> Floats:
    """Arrays of a layer from all replicas and micro-batches, samples in order."""
    return np.concatenate([arrays[key][layer] for key in sorted(arrays)], axis=1)


def emulated_sizes(network: FeedForward, strategy: Strategy, samples: int = 0) -> dict[str, int]:
    """Sizes of a training step in the emulator, by the names of MOST_SIZES, from shapes alone.

    elements: weights and gradients of all replicas, and inputs and outputs of all layers on every tensor rank.
    multiplications: 3 for each weight and sample. sends: of rings, those of one rank to another.
    """
    t, p, d = strategy.tensor, strategy.pipeline, strategy.data
    calls = strategy.microbatches(samples) * d if samples else 0
    rings = calls * (3 * network.layers - 2) * t * (t - 1) + network.layers * 2 * t * d * (d - 1)
    return {
        "elements": 2 * network.weights * d + samples * sum(network.widths) * t,
        "multiplications": 3 * network.weights * samples,
        "sends": rings + 2 * calls * t * (p - 1),
    }


def refuse_too_large(network: FeedForward, strategy: Strategy, samples: int = 0) -> None:
    """Raise ValueError for a step of more than MOST_SIZES, and say what would fit. Nothing is held before."""
    for name, size in emulated_sizes(network, strategy, samples).items():
        if size > (most := MOST_SIZES[name]):
            t, p, d = strategy.tensor, strategy.pipeline, strategy.data
            room = most // (2 * t * sum(network.widths))
            remedy = {
                "elements": f"{most // (4 * d):,} weights and {room:,} samples or fewer",
                "multiplications": f"{most // (3 * network.weights):,} samples or fewer",
                "sends": "fewer GPUs or fewer micro-batches",
            }[name]
            raise ValueError(
                f"widths {list(network.widths)} ({network.weights:,} weights) on tensor {t} x pipeline {p} x data {d} "
                f"ranks, {samples:,} samples, is too large to emulate: {size:,} {name} in a step, of at most {most:,}. "
                f"Give {remedy}"
            )


def layer_stages(layers: int, stages: int) -> list[int]:
    """Pipeline stage of each layer: runs of layers, the first stages have one more where they do not divide."""
    if stages > layers:
        raise ValueError(f"pipeline is {stages}: give at most the network's {layers} layers")
    return [stage for stage, stage_layers in enumerate(np.array_split(np.arange(layers), stages)) for _ in stage_layers]


def _check_split(network: FeedForward, strategy: Strategy) -> None:
    layer_stages(network.layers, strategy.pipeline)
    uneven = [width for width in network.widths[1:] if width % strategy.tensor]
    if uneven:
        raise ValueError(
            f"widths is {network.widths}: {uneven[0]} neurons do not divide by tensor {strategy.tensor}; give layers "
            f"of a multiple of {strategy.tensor} neurons, or as tensor a divisor of {math.gcd(*network.widths[1:])}"
        )
    plain = {"context": 1, "expert": 1, "interleave": 1, "recompute": "none", "sequence_parallel": False}
    for name, value in (plain | {"sharding": "none"}).items():
        if getattr(strategy, name) != value:
            raise ValueError(
                f"{name} is {getattr(strategy, name)!r}: a feedforward network has none of it, give {value!r}"
            )
