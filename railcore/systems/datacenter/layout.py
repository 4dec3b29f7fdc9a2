"""How a model is laid out over racks: tensor-parallel degree, layers of a rack, replicas, racks of a layer.

The layers in a rack are one and the same layer of different replicas (flops2024, section 4): pipeline stages are whole
racks, gradients are summed in the rack first. Symbols: t tensor-parallel degree, g = rack / t layers of a rack, y racks
that hold a layer in one datacenter, L layers, which is also the pipeline-parallel degree.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import checks
from railcore.facts.units import show
from railcore.systems.datacenter.layer import Layer
from railcore.systems.datacenter.site import Site


@dataclass(frozen=True)
class Layout:
    """A model on its racks; arrays of one shape. Where a model does not fit, `tensor` is 0 and the rest not a number.

    tensor: t. layers_per_rack: g. racks_per_layer: over all datacenters, L into the racks; racks_per_layer_here: y, in
    each datacenter. replicas: g racks_per_layer, some of which no datacenter may hold; replicas_here: g y.
    device_bytes: training state of a GPU; active_bytes: activations of the micro-batch that it computes.
    host_bytes: activations that a GPU of the first stage offloads to its host. That stage has the most micro-batches in
    flight: L where passes alternate (1F1B), for the last of L stages has one.
    warnings: what is odd but allowed: a degree that does not divide the heads, a layer that fills less than half a GPU.
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


def device_bytes(layer: Layer, tensor: ArrayLike) -> tuple[Any, Any]:
    """Training state and activations of one GPU [bytes]: a layer's over t."""
    return layer.layer_state_bytes / np.asarray(tensor), layer.activation_bytes / np.asarray(tensor)


def layout(layer: Layer, site: Site, tensor: int = 0, strict: bool = True) -> Layout:
    """Layout with the smallest tensor-parallel degree that divides a rack and whose share fits a GPU's memory.

    Parameters
    ----------
    layer, site
        What a layer needs, and the racks. Arrays in their fields make a sweep.
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
        _check_memory(t, needed, int(degrees.max()), layer, site)
        _check_racks(here, depth, layer, site)
    state, active = device_bytes(layer, share)
    return Layout(
        tensor=np.where(here >= 1, t, 0)[()],
        layers_per_rack=g[()],
        racks_per_layer=racks[()],
        racks_per_layer_here=np.where(here >= 1, here, np.nan)[()],
        datacenters=site.datacenters,
        device_bytes=state,
        active_bytes=active,
        host_bytes=active * depth,
        rack_gpus=size,
        layers=depth[()],
        warnings=_warnings(t, least, layer, racks, here, site),
    )


def _check_memory(t: Any, needed: Any, largest: int, layer: Layer, site: Site) -> None:
    if np.all(t > 0):
        return
    missing = np.max(needed - largest * np.asarray(site.memory_bytes))
    raise ValueError(
        f"{_named(layer)}tensor parallelism over the {largest} GPUs of a rack leaves {show(missing, 'B', 4)} of a "
        "layer without memory: give GPUs of more memory, larger racks, a narrower model or fewer bytes per parameter"
    )


def _check_racks(here: Any, depth: Any, layer: Layer, site: Site) -> None:
    if np.all(here >= 1):
        return
    need = np.max(depth * np.asarray(site.datacenters))
    over, fewer = (f" over {site.datacenters} datacenters", ", or fewer datacenters")
    if np.all(np.asarray(site.datacenters) == 1):
        over = fewer = ""
    raise ValueError(
        f"{_named(layer)}racks is {site.racks!r}{over}: give at least {need:,.0f}, one for each layer in each "
        f"datacenter{fewer}"
    )


def _named(layer: Layer) -> str:
    return f"{layer.name}: " if layer.name else ""


def _warnings(t: Any, least: Any, layer: Layer, racks: Any, here: Any, site: Site) -> tuple[str, ...]:
    """Oddities of a single layout; sweeps have none. least: memories of a GPU that a layer needs."""
    if np.ndim(t) or np.ndim(here) or not t or np.ndim(layer.hidden):
        return ()
    found = [
        f"tensor degree {t:.0f} does not divide {what} {value:,.0f}"
        for what, value in (("heads", layer.heads), ("hidden", layer.hidden))
        if value % t
    ]
    if least <= 0.5:
        used, whole = show(least * site.memory_bytes, "B", 3), show(site.memory_bytes, "B", 3)
        found.append(f"a layer needs {used} of a GPU's {whole}: {int(1 / least):,} layers could share one")
    left = site.racks - here * layer.layers * site.datacenters
    if left:
        found.append(f"{left:,.0f} of {site.racks:,} racks are left without a layer")
    if racks > here * site.datacenters:
        lost = racks - here * site.datacenters
        found.append(f"{show(lost)} of a layer's racks cannot be shared evenly by {site.datacenters} datacenters")
    return tuple(found)
