"""Compute and communication times of one layer, and the share of them that computation does not hide.

Data-parallel gradients go through five steps (flops2024, section 4.1), each over what the one before left: (1) among
the g layers of a rack on the scale-up network, (2) among y racks of a datacenter on the scale-out network, (3) among
the datacenters, (4) and (5) back over the scale-out and the scale-up network.
Symbols: F forward and B backward time, T tensor-parallel and P pipeline time of a pass, x1 to x5 the steps, m
micro-batches of an iteration, t tensor-parallel degree, G gradient bytes of a layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import checks
from railcore.systems.datacenter.layer import RECOMPUTED, Layer
from railcore.systems.datacenter.layout import Layout, layout
from railcore.systems.datacenter.site import Site
from railcore.training import collectives

REDUCE = ("all_reduce", "reduce_scatter")
WIDE_AREA = ("one_shot", "direct")
EXCHANGE_STEPS = ("scale-up reduce", "scale-out reduce", "wide area", "scale-out gather", "scale-up gather")


@dataclass(frozen=True)
class Times:
    """Times of one layer on the GPUs that hold it [s]; arrays of one shape.

    forward_s, backward_s: of one micro-batch, F and B = 2 F (recomputation included). tensor_s: T, collectives of a
    pass; pipeline_s: P, the send to the next stage in a pass. steps_s: x1 to x5 of the gradients, once an iteration.
    steps_bytes: that a GPU sends in each. experts_s: of tokens to experts elsewhere and back, in a pass.
    """

    forward_s: Any
    backward_s: Any
    tensor_s: Any
    pipeline_s: Any
    steps_s: tuple[Any, ...]
    steps_bytes: tuple[Any, ...]
    experts_s: Any = 0.0

    @property
    def waits_s(self) -> Any:
        """What a pass waits for on the networks [s]: T + P + experts, which nothing hides."""
        return self.tensor_s + self.pipeline_s + self.experts_s

    def gradients_s(self, rule: str = "each network") -> Any:
        """Time of the gradient exchange that the last backward pass does not hide [s], by one of `OVERLAP_RULES`."""
        return OVERLAP_RULES[checks.one_of("rule", rule, OVERLAP_RULES)](self)

    def exposed_s(self, rule: str = "each network", micro_batches: ArrayLike = 1) -> Any:
        """Communication that is not hidden [s]: 2 m `waits_s` + `gradients_s`."""
        return checks.at_least("micro_batches", micro_batches, 1) * 2 * self.waits_s + self.gradients_s(rule)

    def share(self, rule: str = "each network", micro_batches: ArrayLike = 1) -> Any:
        """Exposed share of the time in steady state: exposed / (m (F + B) + exposed)."""
        exposed = self.exposed_s(rule, micro_batches)
        return exposed / (np.asarray(micro_batches) * (self.forward_s + self.backward_s) + exposed)


def _over(time: Any, cover: Any) -> Any:
    return np.maximum(0.0, time - cover)


def _scale_out(x: Times) -> Any:
    return _over(x.steps_s[1], x.backward_s)


def _slowest_reduce(x: Times) -> Any:
    return _over(np.maximum(np.maximum(x.steps_s[0], x.steps_s[1]), x.steps_s[2]), x.backward_s)


def _each_network(x: Times) -> Any:
    return sum(_over(step, x.backward_s) for step in x.steps_s[:3])


def _busiest_network(x: Times) -> Any:
    one, two, three, four, five = x.steps_s
    return _over(np.maximum(np.maximum(one + five, two + four), three), x.backward_s)


def _gathers_forward(x: Times) -> Any:
    return _slowest_reduce(x) + _over(np.maximum(x.steps_s[3], x.steps_s[4]), x.forward_s)


def _whole_period(x: Times) -> Any:
    one, two, three, four, five = x.steps_s
    up, out = one + five + 2 * x.tensor_s, two + four + 2 * x.pipeline_s
    waits = x.forward_s + x.backward_s + 2 * (x.tensor_s + x.pipeline_s)  # experts_s keeps a network busy all the while
    return _over(np.maximum(np.maximum(up, out), three), waits)


# What of the five steps stays exposed. The exchange runs under the last backward pass B.
OVERLAP_RULES: dict[str, Callable[[Times], Any]] = {
    "scale-out reduce": _scale_out,  # (x2 - B)+
    "slowest reduce": _slowest_reduce,  # (max(x1, x2, x3) - B)+
    "each network": _each_network,  # (x1 - B)+ + (x2 - B)+ + (x3 - B)+
    "gathers under forward": _gathers_forward,  # (max(x1, x2, x3) - B)+ + (max(x4, x5) - F)+
    "busiest network": _busiest_network,  # (max(x1 + x5, x2 + x4, x3) - B)+
    "whole period": _whole_period,  # (max(x1 + x5 + 2 T, x2 + x4 + 2 P, x3) - (F + B + 2 T + 2 P))+: late gradients
}


def times(layer: Layer, laid: Layout, site: Site, reduce: str = "all_reduce", recomputed: float = RECOMPUTED) -> Times:
    """Times of a layer laid out on a site, in steady state.

    F = flops / (t rate), B = 2 F; T = two AllReduces of s b h r in rings of t over the scale-up network (two
    AllGathers and two ReduceScatters; one of each in a parallel block); P = s b h r / t over the scale-out network;
    x1 = AllReduce of G / t among g, x2 = AllReduce of G / (t g) among y, x4 and x5 their AllGathers; x3 as
    `wide_area` of G / (t g y).

    Parameters
    ----------
    layer, laid, site
        The layer, its layout, and the machine.
    reduce
        Of x1 and x2: "all_reduce", or "reduce_scatter", which suffices before a gather.
    recomputed
        Passes over the attention scores that are done again: `Layer.flops`.

    Returns
    -------
    A `Times`, not numbers where a model does not fit.

    References
    ----------
    flops2024, sections 4 and 4.1, has AllReduce in x1 and x2.
    """
    checks.one_of("reduce", reduce, REDUCE)
    fits = np.asarray(laid.tensor) > 0
    t, g, y = (_fitting(fits, value, 1.0) for value in (laid.tensor, laid.layers_per_rack, laid.racks_per_layer_here))
    in_rack, in_site = layer.gradient_bytes / t, layer.gradient_bytes / (t * g)
    sizes = ((reduce, in_rack, g), (reduce, in_site, y), ("all_gather", in_site, y), ("all_gather", in_rack, g))
    one, two, four, five = (collectives.steps_and_bytes(kind, "ring", size, n)[1] for kind, size, n in sizes)
    three, wide_s = wide_area(in_site / y, site)
    tensor_bytes = collectives.steps_and_bytes("all_reduce", "ring", layer.tensor_bytes, t)[1]
    forward = _fitting(fits, layer.flops(recomputed) / (t * site.gpu_rate))
    return Times(
        forward_s=forward,
        backward_s=2 * forward,
        tensor_s=layer.exchanges * tensor_bytes / site.hb_Bps,
        pipeline_s=layer.tensor_bytes / t / site.nic_Bps,
        steps_s=(one / site.hb_Bps, two / site.nic_Bps, wide_s, four / site.nic_Bps, five / site.hb_Bps),
        steps_bytes=(one, two, three, four, five),
    )


def chunk_bytes(layer: Layer, laid: Layout) -> Any:
    """Gradients that a GPU exchanges with other datacenters [bytes]: G / (t g y)."""
    return layer.gradient_bytes / (laid.tensor * laid.layers_per_rack * laid.racks_per_layer_here)


def wide_area(size_bytes: Any, site: Site) -> tuple[Any, Any]:
    """Bytes that a GPU sends and time [s] of the exchange of its chunk with its peers in the other datacenters.

    Two ways, and the faster counts: send the whole chunk to each of D - 1 peers at once (D - 1 chunks, one delay), or
    sum a share each and send that back (2 (D - 1) / D chunks, two delays), at wan_Bps of a GPU. A loss at the tail adds
    tail_loss_rtts round trips. With one datacenter both numbers are 0.
    """
    one, two = (collectives.steps_and_bytes("all_reduce", form, size_bytes, site.datacenters) for form in WIDE_AREA)
    (one_s, two_s) = (size / site.wan_Bps + steps * site.one_way_delay_s for steps, size in (one, two))
    lost = np.where(np.asarray(site.datacenters) > 1, 2 * np.asarray(site.one_way_delay_s) * site.tail_loss_rtts, 0.0)
    return np.where(one_s <= two_s, one[1], two[1])[()], np.minimum(one_s, two_s) + lost


def exposed_share(
    layer: Layer, site: Site, rule: str = "each network", micro_batches: ArrayLike = 1, **options: Any
) -> Any:
    """Exposed share of layers on a site, each with its own layout.

    Parameters
    ----------
    layer, site
        Any field of them may be an array: a sweep is one call.
    rule
        Of `OVERLAP_RULES`: what of the gradient exchange stays exposed.
    micro_batches
        Of an iteration.
    **options
        Of `times`.

    Returns
    -------
    Shares of the time, not a number where a model does not fit.
    """
    return times(layer, layout(layer, site, strict=False), site, **options).share(rule, micro_batches)


def _fitting(fits: Any, value: Any, other: float = np.nan) -> Any:
    return value if np.all(fits) else np.where(fits, value, other)
