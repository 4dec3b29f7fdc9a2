"""Communication of one layer, and what of it computation does not hide.

Data-parallel gradients go through five steps (flops2024, section 4.1), each over what the one before left: (1) among
the g layers of a rack on the scale-up network, (2) among y racks of a datacenter on the scale-out network, (3) among
the datacenters, (4) and (5) back over the scale-out and the scale-up network. `OVERLAP_RULES` say what of them stays
exposed.
Symbols: F forward and B backward time, T tensor-parallel and P pipeline time of a pass, x1 to x5 the steps, m
micro-batches of an iteration, t tensor-parallel degree, G gradient bytes of a layer.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.catalog import checks
from railcore.catalog.arguments import NonNegative, PositiveArray, checked
from railcore.datacenter.layouts import RECOMPUTED_PASSES, Layer, Layout
from railcore.datacenter.sizing import DatacenterSite
from railcore.training import collectives


@dataclass(frozen=True)
class LayerTimes:
    """Times of one layer on the GPUs that hold it [s]; arrays of one shape.

    forward_s: F, of one micro-batch.
    backward_s: B = 2 F, recomputation included.
    tensor_s: T, collectives of tensor ranks in a pass.
    pipeline_s: P, the send to the next stage in a pass.
    steps_s: x1 to x5, the exchange of gradients, once an iteration.
    steps_bytes: that a GPU sends in each of these steps [bytes].
    experts_s: tokens to experts elsewhere and back, in a pass; 0 of `layer_times`, which places no experts.
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

    @checked
    def gradients_s(self, rule: str = "each network") -> Any:
        """Time of the gradient exchange that computation does not hide [s], by one of `OVERLAP_RULES`.

        The default sums over the networks how much longer each reduction takes than the last backward pass. Of the
        rules for reductions it exposes the most.
        """
        exposed = OVERLAP_RULES[checks.one_of("rule", rule, OVERLAP_RULES)]
        return exposed(self.steps_s, self.forward_s, self.backward_s, self.tensor_s, self.pipeline_s)

    @checked
    def exposed_s(self, rule: str = "each network", micro_batches: PositiveArray = 1) -> Any:
        """Communication that is not hidden [s]: 2 m `waits_s` + `gradients_s`."""
        return checks.at_least("micro_batches", micro_batches, 1) * 2 * self.waits_s + self.gradients_s(rule)

    @checked
    def steady_s(self, rule: str = "each network", micro_batches: PositiveArray = 1) -> Any:
        """Time of m micro-batches in steady state [s]: m (F + B) + `exposed_s`."""
        return np.asarray(micro_batches) * (self.forward_s + self.backward_s) + self.exposed_s(rule, micro_batches)

    @checked
    def share(self, rule: str = "each network", micro_batches: PositiveArray = 1) -> Any:
        """Exposed share of the time in steady state: `exposed_s` / `steady_s`."""
        return self.exposed_s(rule, micro_batches) / self.steady_s(rule, micro_batches)


def _over(time: Any, cover: Any) -> Any:
    """Part of a time that its cover does not hide: max(0, time - cover)."""
    return np.maximum(0.0, time - cover)


def _max(*times: Any) -> Any:
    return functools.reduce(np.maximum, times)


# Exposed part of the five steps x, by rule. The exchange runs under the last backward pass B; in "whole period", where
# gradients may be late, under all of a period. Traffic to experts keeps a network busy, so it hides nothing.
OVERLAP_RULES: dict[str, Callable[..., Any]] = {
    "scale-out reduce": lambda x, F, B, T, P: _over(x[1], B),
    "slowest reduce": lambda x, F, B, T, P: _over(_max(x[0], x[1], x[2]), B),
    "each network": lambda x, F, B, T, P: _over(x[0], B) + _over(x[1], B) + _over(x[2], B),
    "gathers under forward": lambda x, F, B, T, P: _over(_max(x[0], x[1], x[2]), B) + _over(_max(x[3], x[4]), F),
    "busiest network": lambda x, F, B, T, P: _over(_max(x[0] + x[4], x[1] + x[3], x[2]), B),
    "whole period": lambda x, F, B, T, P: _over(
        _max(x[0] + x[4] + 2 * T, x[1] + x[3] + 2 * P, x[2]), F + B + 2 * T + 2 * P
    ),
}


@checked
def layer_times(
    layer: Layer,
    laid: Layout,
    site: DatacenterSite,
    reduce: str = "all_reduce",
    recomputed: NonNegative = RECOMPUTED_PASSES,
) -> LayerTimes:
    """Times of a layer laid out on a site, in steady state.

    F = flops / (t rate), B = 2 F; T = two AllReduces of s b h r in rings of t over the scale-up network (two
    AllGathers and two ReduceScatters; one of each in a parallel block); P = s b h r / t over the scale-out network;
    x1 = AllReduce of G / t among g, x2 = AllReduce of G / (t g) among y, x4 and x5 their AllGathers; x3 as
    `wide_area_exchange` of G / (t g y).

    Parameters
    ----------
    layer
        What a layer needs (`model_layer`).
    laid
        Its layout on racks (`rack_layout`).
    site
        The racks (`datacenter_site`).
    reduce
        Of x1 and x2: "all_reduce", or "reduce_scatter", which suffices before a gather.
    recomputed
        Passes over the attention scores that are done again: `Layer.flops`.

    Returns
    -------
    A `LayerTimes`, not numbers where a model does not fit.

    References
    ----------
    flops2024, sections 4 and 4.1, has AllReduce in x1 and x2.

    Examples
    --------
    >>> import railcore as rc
    >>> site = rc.datacenter_site(1000, "GB200 NVL72", "fp8")
    >>> layer = rc.model_layer("Llama-3 405B", "fp8")
    >>> times = rc.layer_times(layer, rc.rack_layout(layer, site), site)
    >>> round(float(times.share()), 2)
    0.22
    """
    checks.one_of("reduce", reduce, ("all_reduce", "reduce_scatter"))
    fits, degrees = np.asarray(laid.tensor) > 0, (laid.tensor, laid.layers_per_rack, laid.racks_per_layer_here)
    t, g, y = (np.where(fits, value, 1.0)[()] for value in degrees)
    in_rack, in_site = layer.gradient_bytes / t, layer.gradient_bytes / (t * g)
    sizes = ((reduce, in_rack, g), (reduce, in_site, y), ("all_gather", in_site, y), ("all_gather", in_rack, g))
    one, two, four, five = (collectives.steps_and_bytes(kind, "ring", size, n)[1] for kind, size, n in sizes)
    three, wide_s = wide_area_exchange(in_site / y, site)
    tensor_bytes = collectives.steps_and_bytes("all_reduce", "ring", layer.tensor_bytes, t)[1]
    forward = np.where(fits, layer.flops(recomputed) / (t * site.gpu_rate), np.nan)[()]
    return LayerTimes(
        forward_s=forward,
        backward_s=2 * forward,
        tensor_s=layer.all_reduces_per_pass * tensor_bytes / site.hb_Bps,
        pipeline_s=layer.tensor_bytes / t / site.nic_Bps,
        steps_s=(one / site.hb_Bps, two / site.nic_Bps, wide_s, four / site.nic_Bps, five / site.hb_Bps),
        steps_bytes=(one, two, three, four, five),
    )


def wan_gradient_bytes(layer: Layer, laid: Layout) -> Any:
    """Gradients that a GPU exchanges with other datacenters [bytes]: G / (t g y)."""
    return layer.gradient_bytes / (laid.tensor * laid.layers_per_rack * laid.racks_per_layer_here)


def wan_delays_and_bytes(size_bytes: Any, site: DatacenterSite) -> list[tuple[Any, Any]]:
    """Two ways to exchange gradients with the D - 1 other datacenters: one-way delays, and bytes that a GPU sends.

    Send the whole to each of them at once (one delay, D - 1 times the bytes), or sum a share each and send that back
    (two delays, 2 (D - 1) / D times the bytes). A loss at the tail adds 2 tail_loss_rtts delays. 0 for one datacenter.
    """
    lost = np.where(np.asarray(site.datacenters) > 1, 2 * np.asarray(site.tail_loss_rtts), 0.0)
    ways = [
        collectives.steps_and_bytes("all_reduce", algorithm, size_bytes, site.datacenters)
        for algorithm in ("one_shot", "direct")
    ]
    return [(steps + lost, size) for steps, size in ways]


def wide_area_exchange(size_bytes: Any, site: DatacenterSite) -> tuple[Any, Any]:
    """Bytes that a GPU sends and time [s] of the faster way of `wan_delays_and_bytes`, at wan_Bps of a GPU."""
    (one, one_bytes), (two, two_bytes) = wan_delays_and_bytes(size_bytes, site)
    one_s = one_bytes / site.wan_Bps + one * site.one_way_delay_s
    two_s = two_bytes / site.wan_Bps + two * site.one_way_delay_s
    return np.where(one_s <= two_s, one_bytes, two_bytes)[()], np.minimum(one_s, two_s)


def least_wan_Bps(layer: Layer, laid: Layout, site: DatacenterSite, hidden_s: Any) -> Any:
    """Least wide-area capacity of a GPU at which the exchange between datacenters takes no longer than hidden_s.

    The least over `wan_delays_and_bytes` of bytes / (hidden_s - delays). The inverse of `wide_area_exchange`.

    Parameters
    ----------
    layer, laid, site
        The layer, its layout, and the machine, whose wan_Bps does not count.
    hidden_s
        Time that covers the exchange [s].

    Returns
    -------
    Bandwidth [bytes/s]; infinite where delay and loss alone take longer, 0 for one datacenter.
    """
    needed = []
    for delays, size in wan_delays_and_bytes(wan_gradient_bytes(layer, laid), site):
        slack = np.asarray(hidden_s - delays * site.one_way_delay_s)
        needed.append(np.where(slack > 0, size / np.where(slack > 0, slack, 1.0), np.inf))
    return np.where(np.asarray(site.datacenters) > 1, np.minimum(*needed), 0.0)[()]
