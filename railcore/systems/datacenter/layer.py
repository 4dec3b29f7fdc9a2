"""What one transformer layer asks of the GPUs that hold it: parameters, memory by kind, FLOPs and bytes to send.

Symbols: L layers, h hidden, s sequence length, b sequences of a micro-batch, r bytes of an activation element.
A layer has the proportions of a `Transformer` at any depth and width, so that arrays of model sizes are one call.
"""

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from railcore.facts import catalog, checks
from railcore.training.transformer import Transformer

RECOMPUTED = 1.0  # passes over the attention scores that selective recomputation adds: the forward one once more


@dataclass(frozen=True)
class Precision:
    """Bytes that training in a number format keeps.

    rate_format: of the matrix products ("fp4", "fp8", "bf16"). master, weights, gradients, optimizer: per parameter;
    element: of an activation kept or sent, r; mask: of an element of a dropout mask [bytes].
    Raises ValueError for bytes that are negative or not finite.
    """

    rate_format: str
    master: float
    weights: float
    gradients: float
    optimizer: float
    element: float
    mask: float

    def __post_init__(self) -> None:
        for name in ("master", "weights", "gradients", "optimizer", "element", "mask"):
            checks.at_least(name, getattr(self, name))

    @property
    def state(self) -> float:
        """Bytes of a parameter with its copies, gradient and optimizer states."""
        return self.master + self.weights + self.gradients + self.optimizer


def precision(name: str) -> Precision:
    """Precision of the catalog, such as "fp8" or "bf16". Raises UnknownName for another name."""
    item = catalog.item("precisions", name)
    return Precision(**{field: item[field] for field in Precision.__dataclass_fields__})


@dataclass(frozen=True)
class Layer:
    """One layer for one micro-batch, over all the GPUs that share it; fields are arrays of one shape.

    layers, hidden: L, h of the model. parameters: of the whole model; weights: of a layer, all experts.
    linear_flops, score_flops: forward pass, products with weights and attention scores [FLOP].
    tensor_bytes: s b h r, one activation tensor as sent. activation_bytes: kept for the backward pass, attention scores
    recomputed. gradient_bytes, layer_state_bytes: of a layer. state_bytes: of the model, by kind (embeddings included).
    exchanges: AllReduces of tensor_bytes over tensor ranks in a pass, after attention and feed-forward, or one
    for both where they run side by side. heads: attention heads. precision: bytes of everything. name: of the model.
    """

    layers: Any
    hidden: Any
    parameters: Any
    weights: Any
    linear_flops: Any
    score_flops: Any
    tensor_bytes: Any
    activation_bytes: Any
    gradient_bytes: Any
    exchanges: int
    heads: int
    precision: Precision
    name: str = ""

    @property
    def state_bytes(self) -> dict[str, Any]:
        """Training state of the model [bytes]: model (master and working copy), gradients, optimizer."""
        each = self.precision
        return {
            "model": self.parameters * (each.master + each.weights),
            "gradients": self.parameters * each.gradients,
            "optimizer": self.parameters * each.optimizer,
        }

    @property
    def layer_state_bytes(self) -> Any:
        """Training state of a layer and its share of the embeddings [bytes]."""
        return self.parameters * (self.precision.state / self.layers)

    def flops(self, recomputed: float = RECOMPUTED) -> Any:
        """A third of the FLOPs of forward and backward pass with selective recomputation: the forward's equivalent.

        (3 (linear + scores) + recomputed x scores) / 3. recomputed: passes over the scores done again; one suffices.
        Source: Korthikanti et al. 2022, arXiv:2205.05198, Eq. (9), which has s/3h: three passes in place of one.
        """
        return self.linear_flops + self.score_flops * (1 + recomputed / 3)


def layer(
    model: Transformer,
    bytes_of: Precision,
    micro_batch: ArrayLike = 1,
    layers: ArrayLike | None = None,
    hidden: ArrayLike | None = None,
) -> Layer:
    """One layer of a model; or, with arrays of layers L and hidden h, of models with the same proportions.

    Weights of a layer grow with h^2 (router, norms and biases with h), its scores with s^2 h, embeddings with h.
    Mixture layers and dense ones are averaged where a model has both.

    Parameters
    ----------
    model
        Proportions, sequence length and vocabulary.
    bytes_of
        Bytes that training keeps of a parameter and of an activation.
    micro_batch
        Sequences of a micro-batch, b.
    layers, hidden
        L and h of models of another size; by default the model's own.

    Returns
    -------
    A `Layer`, whose fields have the shape of the arrays given.

    Raises
    ------
    ValueError
        Naming an argument that is not positive.
    """
    depth = checks.positive("layers", model.layers if layers is None else layers)
    width = checks.positive("hidden", model.hidden if hidden is None else hidden)
    b = checks.positive("micro_batch", micro_batch)
    wider = width / model.hidden
    kinds, flops = model.parameters(), model.forward_flops()
    matrices = (kinds["attention"] + kinds["feed-forward"] + kinds["experts"]) / model.layers * wider**2
    edges = (kinds["embedding"] + kinds["positions"] + kinds["output"]) * wider
    vectors = (kinds["router"] + kinds["biases"] + kinds["norms"]) / model.layers * wider
    kept = model.layer_activation_bytes(sequence_parallel=True, recompute=1)
    element = bytes_of.element / 2  # the transformer counts elements of two bytes
    kept_bytes = kept["dropout"] * bytes_of.mask + (sum(kept.values()) - kept["dropout"]) * element
    linear = (flops["projections"] + flops["feed-forward"]) * wider**2 + flops["router"] * wider
    return Layer(
        layers=depth,
        hidden=width,
        parameters=depth * (matrices + vectors) + edges,
        weights=matrices + vectors,
        linear_flops=b * linear / model.layers,
        score_flops=b * flops["scores"] / model.layers * wider,
        tensor_bytes=model.sequence_length * b * width * bytes_of.element,
        activation_bytes=b * kept_bytes * wider,
        gradient_bytes=(matrices + vectors) * bytes_of.gradients,
        exchanges=1 if model.parallel_block else 2,
        heads=model.heads,
        precision=bytes_of,
        name=model.name,
    )
