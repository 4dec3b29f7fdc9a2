"""One transformer layer, and how a model of such layers is laid out over racks.

A layer asks its GPUs for parameters, memory by kind, FLOPs and bytes to send. It has the proportions of a
`Transformer` at any depth and width, so that arrays of model sizes are one call. A layout gives the tensor-parallel
degree, replicas in all and in a rack, and racks of a layer. A rack holds one layer of the model, for g replicas
(flops2024, section 4). Pipeline stages are whole racks; gradients are summed in the rack first.
Symbols: L layers, which is also the pipeline-parallel degree, h hidden, s sequence length, b sequences of a
micro-batch, r bytes of an activation element, t tensor-parallel degree, g = rack / t replicas of the layer in a rack, y
racks that hold a layer in one datacenter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.catalog import checks
from railcore.catalog.arguments import (
    BytesArray,
    CountArray,
    FlopArray,
    Listed,
    NonNegative,
    NonNegativeInt,
    checked,
)
from railcore.catalog.units import counted, show
from railcore.datacenter.sizing import DatacenterSite
from railcore.training.formats import ELEMENT_BYTES, Precision, catalog_precision
from railcore.training.transformer import Transformer, as_model

RECOMPUTED_PASSES = 1.0  # passes over the attention scores that selective recomputation adds: the forward one once more


@checked
@dataclass(frozen=True)
class Layer:
    """One layer for one micro-batch, over all the GPUs that share it; fields are arrays of one shape.

    layers: L of the model.
    hidden: h of the model.
    parameters: of the whole model.
    linear_flops, score_flops: forward pass, products with weights and attention scores [FLOP].
    tensor_bytes: s b h r, one activation tensor as sent.
    activation_bytes: kept for the backward pass; attention scores are computed again.
    gradient_bytes: of the layer.
    all_reduces_per_pass: of tensor_bytes over tensor ranks: 2, after attention and after feed-forward; 1 where both
        run side by side.
    heads: attention heads.
    precision: bytes of everything.
    name: of the model.

    `layer_state_bytes` and `state_bytes` are the training state of a layer and of the model, by kind.
    """

    layers: Any
    hidden: Any
    parameters: Any
    linear_flops: FlopArray
    score_flops: FlopArray
    tensor_bytes: BytesArray
    activation_bytes: BytesArray
    gradient_bytes: BytesArray
    all_reduces_per_pass: NonNegativeInt
    heads: Listed
    precision: Precision
    name: str = ""
    made_by = "model_layer(model, bytes_of)"

    @property
    def state_bytes(self) -> dict[str, Any]:
        """Training state of the model [bytes]: model (master and working copy), gradients, optimizer."""
        bytes_of = self.precision
        return {
            "model": self.parameters * (bytes_of.master + bytes_of.weights),
            "gradients": self.parameters * bytes_of.gradients,
            "optimizer": self.parameters * bytes_of.optimizer,
        }

    @property
    def layer_state_bytes(self) -> Any:
        """Training state of a layer and its share of the embeddings [bytes]."""
        return self.parameters * (self.precision.state / self.layers)

    @checked
    def flops(self, recomputed: NonNegative = RECOMPUTED_PASSES) -> Any:
        """A third of the FLOPs of forward and backward pass with selective recomputation: the forward's equivalent.

        (3 (linear + scores) + recomputed x scores) / 3. recomputed: passes over the scores that are done again; one
        suffices. Source: Korthikanti et al. 2022, arXiv:2205.05198, Eq. (9), which has s/3h: three passes.
        """
        return self.linear_flops + self.score_flops * (1 + recomputed / 3)


@checked
def model_layer(
    model: Transformer | str,
    bytes_of: Precision | str,
    micro_batch: CountArray = 1,
    layers: CountArray | None = None,
    hidden: CountArray | None = None,
) -> Layer:
    """One layer of a model; or, with arrays of layers L and hidden h, of models with the same proportions.

    Weights of a layer grow with h^2 (router, norms and biases with h), its scores with s^2 h, embeddings with h.
    Mixture layers and dense ones are averaged where a model has both.

    Parameters
    ----------
    model
        Proportions, sequence length and vocabulary, or its name in the catalog.
    bytes_of
        Bytes that training keeps of a parameter and of an activation, or their name in the catalog's precisions.
    micro_batch
        Sequences of a micro-batch, b.
    layers
        Layers L of a model of another size; by default the model's own.
    hidden
        Hidden width h of a model of another size; by default the model's own.

    Returns
    -------
    A `Layer`, whose fields have the shape of the arrays given.

    Raises
    ------
    ValueError
        Naming an argument that is not positive.

    Examples
    --------
    >>> import railcore as rc
    >>> layer = rc.model_layer("Llama-3 405B", "fp8")
    >>> int(layer.layers), int(layer.hidden)
    (126, 16384)
    """
    model = as_model(model)
    if model.lora_rank:
        raise ValueError(f"lora_rank is {model.lora_rank}: sizing is of models whose weights are all trained, give 0")
    bytes_of = catalog_precision(bytes_of) if isinstance(bytes_of, str) else bytes_of
    depth = checks.positive("layers", model.layers if layers is None else layers)
    width = checks.positive("hidden", model.hidden if hidden is None else hidden)
    b = checks.positive("micro_batch", micro_batch)
    wider = width / model.hidden
    kinds, flops = model.parameters(), model.forward_flops(causal=False)  # all scores, as flops2024 counts
    square = sum(kinds[kind] for kind in ("attention", "feed-forward", "experts", "shared experts"))
    matrices = square / model.layers * wider**2
    edges = (kinds["embedding"] + kinds["positions"] + kinds["output"]) * wider
    vectors = (kinds["router"] + kinds["biases"] + kinds["norms"]) / model.layers * wider
    kept = model.layer_activation_bytes(sequence_parallel=True, recompute=1)
    element = bytes_of.element / ELEMENT_BYTES  # layer_activation_bytes has ELEMENT_BYTES an element
    kept_bytes = kept["dropout"] * bytes_of.mask + (sum(kept.values()) - kept["dropout"]) * element
    linear = (flops["projections"] + flops["feed-forward"]) * wider**2 + flops["router"] * wider
    return Layer(
        layers=depth,
        hidden=width,
        parameters=depth * (matrices + vectors) + edges,
        linear_flops=b * linear / model.layers,
        score_flops=b * flops["scores"] / model.layers * wider,
        tensor_bytes=model.sequence_length * b * width * bytes_of.element,
        activation_bytes=b * kept_bytes * wider,
        gradient_bytes=(matrices + vectors) * bytes_of.gradients,
        all_reduces_per_pass=1 if model.parallel_block else 2,
        heads=model.heads,
        precision=bytes_of,
        name=model.name,
    )


@dataclass(frozen=True)
class Layout:
    """A model on its racks; arrays of one shape. Where a model does not fit, `tensor` is 0 and the rest NaN.

    tensor: t [ranks].
    layers_per_rack: g, the replicas of one layer that share a rack.
    racks_per_layer: racks for a layer in all datacenters together.
    racks_per_layer_here: y, racks for a layer in each datacenter. Other racks hold no replica.
    datacenters: that share the racks.
    device_bytes: training state of a GPU.
    active_bytes: activations of the micro-batch that a GPU computes.
    host_bytes: activations that a GPU of the first stage keeps in its host. That stage has the most micro-batches in
        flight: L with alternating passes (1F1B).
    rack_gpus: GPUs of a rack.
    layers: L of the model.
    warnings: such as a degree that does not divide the heads, or a layer that fills less than half a GPU.
    """

    tensor: Any
    layers_per_rack: Any
    racks_per_layer: Any
    racks_per_layer_here: Any
    datacenters: Any
    device_bytes: Any
    active_bytes: Any
    host_bytes: Any
    rack_gpus: Any
    layers: Any
    warnings: tuple[str, ...] = ()
    made_by = "rack_layout(layer, site)"

    @property
    def replicas(self) -> Any:
        """Data-parallel replicas that the racks hold, wherever they stand."""
        return self.layers_per_rack * self.racks_per_layer

    @property
    def replicas_here(self) -> Any:
        """Replicas in one datacenter."""
        return self.layers_per_rack * self.racks_per_layer_here

    @property
    def gpus_here(self) -> Any:
        """GPUs that work in one datacenter."""
        return self.racks_per_layer_here * self.layers * self.rack_gpus


@checked
def rack_layout(layer: Layer, site: DatacenterSite, tensor: NonNegativeInt = 0, strict: bool = True) -> Layout:
    """Layout with the smallest tensor-parallel degree that divides a rack and whose share fits a GPU's memory.

    Parameters
    ----------
    layer
        What a layer needs (`model_layer`); arrays in its fields make a sweep.
    site
        The racks (`datacenter_site`).
    tensor
        A degree of your own, a divisor of the rack's GPUs; 0 for the smallest that fits.
    strict
        Raise ValueError where a model does not fit; else mark such elements as `Layout` says.

    Returns
    -------
    A `Layout`.

    Raises
    ------
    ValueError
        Where no degree fits (it says how many bytes are missing), or the racks hold no replica.

    Examples
    --------
    >>> import railcore as rc
    >>> site = rc.datacenter_site(1000, "GB200 NVL72", "fp8")
    >>> layer = rc.model_layer("Llama-3 405B", "fp8")
    >>> int(rc.rack_layout(layer, site).tensor)
    1
    """
    size = int(np.max(site.rack_gpus))
    if np.any(np.asarray(site.rack_gpus) != size):
        raise ValueError(f"rack_gpus is {site.rack_gpus!r}: give one size of rack")
    divisors = [t for t in range(1, size + 1) if size % t == 0]
    degrees = np.array([checks.one_of("tensor", tensor, divisors)] if tensor else divisors, float)
    needed = layer.layer_state_bytes + layer.activation_bytes
    least = needed / site.memory_bytes
    t = np.append(degrees, 0.0)[np.searchsorted(degrees, least)]
    share = np.where(t > 0, t, np.nan)
    g, depth = size / share, np.ceil(layer.layers)
    racks, here = np.floor(site.racks / depth), np.floor(site.racks / (depth * site.datacenters))
    if strict:
        _check_fit(t, needed, int(degrees.max()), here, depth, layer, site)
    active = layer.activation_bytes / share
    return Layout(
        tensor=np.where(here >= 1, t, 0)[()],
        layers_per_rack=g[()],
        racks_per_layer=racks[()],
        racks_per_layer_here=np.where(here >= 1, here, np.nan)[()],
        datacenters=site.datacenters,
        device_bytes=layer.layer_state_bytes / share,
        active_bytes=active,
        host_bytes=active * depth,
        rack_gpus=size,
        layers=depth[()],
        warnings=_warnings(t, least, layer, racks, here, site),
    )


def _check_fit(t: Any, needed: Any, largest: int, here: Any, depth: Any, layer: Layer, site: DatacenterSite) -> None:
    named = f"{layer.name}: " if layer.name else ""
    if not np.all(t > 0):
        missing, most = np.max(needed - largest * np.asarray(site.memory_bytes)), counted(largest, "GPUs")
        raise ValueError(
            f"{named}tensor parallelism over the {most} of a rack leaves {show(missing, 'B', 4)} of a layer "
            "without memory: give GPUs of more memory, larger racks, a narrower model or fewer bytes per parameter"
        )
    if not np.all(here >= 1):
        need, several = np.max(depth * np.asarray(site.datacenters)), np.any(np.asarray(site.datacenters) > 1)
        over = f" over {site.datacenters} datacenters" if several else ""
        fewer = ", or fewer datacenters" if several else ""
        remedy = f"give at least {need:,.0f}, one for each layer in each datacenter{fewer}"
        raise ValueError(f"{named}racks is {site.racks!r}{over}: {remedy}")


def _warnings(t: Any, least: Any, layer: Layer, racks: Any, here: Any, site: DatacenterSite) -> tuple[str, ...]:
    """Warnings of a single layout; sweeps have none. least: memory of a layer over that of a GPU."""
    if np.ndim(t) or np.ndim(here) or not t or np.ndim(layer.hidden):
        return ()
    warnings = [
        f"tensor degree {t:.0f} does not divide {what} {value:,.0f}"
        for what, value in (("heads", layer.heads), ("hidden", layer.hidden))
        if value % t
    ]
    if least <= 0.5:
        memory = float(site.memory_bytes)
        used, whole = show(least * memory, "B", 3), show(memory, "B", 3)
        warnings.append(f"a layer needs {used} of a GPU's {whole}: {int(1 / least):,} layers could share one")
    left = site.racks - here * layer.layers * site.datacenters
    if left:
        warnings.append(f"{left:,.0f} of {site.racks:,} racks are left without a layer")
    if racks > here * site.datacenters:
        lost = racks - here * site.datacenters
        warnings.append(f"{show(lost)} of a layer's racks cannot be shared evenly by {site.datacenters} datacenters")
    return tuple(warnings)
