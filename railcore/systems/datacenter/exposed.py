"""Communication of one layer, what of it computation does not hide, and what that exposed share depends on.

Data-parallel gradients go through five steps (flops2024, section 4.1), each over what the one before left: (1) among
the g layers of a rack on the scale-up network, (2) among y racks of a datacenter on the scale-out network, (3) among
the datacenters, (4) and (5) back over the scale-out and the scale-up network. `OVERLAP_RULES` say what of them stays
exposed. A `TrainingCase` is a model on a machine under one set of assumptions; the tables show cases against speeds,
datacenters, micro-batches and each assumption.
Symbols: F forward and B backward time, T tensor-parallel and P pipeline time of a pass, x1 to x5 the steps, m
micro-batches of an iteration, t tensor-parallel degree, G gradient bytes of a layer; L stages of one layer each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks
from railcore.facts.arguments import checked
from railcore.facts.sensitivity import tornado_table
from railcore.facts.units import show
from railcore.systems.datacenter.layouts import RECOMPUTED_PASSES, Layer, Layout, Precision, model_layer, rack_layout
from railcore.systems.datacenter.sizing import Site
from railcore.training import collectives
from railcore.training.pipeline_schedule import pipeline_bubble_time
from railcore.training.transformer import Transformer

NETWORK_NAMES = {"hb_Bps": "scale-up", "nic_Bps": "scale-out", "wan_Bps": "wide area"}


@dataclass(frozen=True)
class LayerTimes:
    """Times of one layer on the GPUs that hold it [s]; arrays of one shape.

    forward_s: F, of one micro-batch.
    backward_s: B = 2 F, recomputation included.
    tensor_s: T, collectives of tensor ranks in a pass.
    pipeline_s: P, the send to the next stage in a pass.
    steps_s: x1 to x5, the exchange of gradients, once an iteration.
    steps_bytes: that a GPU sends in each of these steps [bytes].
    experts_s: tokens to experts elsewhere and back, in a pass.
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
        """Time of the gradient exchange that computation does not hide [s], by one of `OVERLAP_RULES`.

        Each network alone is the default: what its reduction takes beyond the last backward pass, summed. Of the rules
        for reductions it exposes the most.
        """
        return OVERLAP_RULES[checks.one_of("rule", rule, OVERLAP_RULES)](self)

    def exposed_s(self, rule: str = "each network", micro_batches: ArrayLike = 1) -> Any:
        """Communication that is not hidden [s]: 2 m `waits_s` + `gradients_s`."""
        return checks.at_least("micro_batches", micro_batches, 1) * 2 * self.waits_s + self.gradients_s(rule)

    def steady_s(self, rule: str = "each network", micro_batches: ArrayLike = 1) -> Any:
        """Time of m micro-batches in steady state [s]: m (F + B) + `exposed_s`."""
        return np.asarray(micro_batches) * (self.forward_s + self.backward_s) + self.exposed_s(rule, micro_batches)

    def share(self, rule: str = "each network", micro_batches: ArrayLike = 1) -> Any:
        """Exposed share of the time in steady state: `exposed_s` / `steady_s`."""
        exposed = self.exposed_s(rule, micro_batches)
        return exposed / (np.asarray(micro_batches) * (self.forward_s + self.backward_s) + exposed)


def _over(time: Any, cover: Any) -> Any:
    return np.maximum(0.0, time - cover)


def _slowest_reduce(x: LayerTimes) -> Any:
    return _over(np.maximum(np.maximum(x.steps_s[0], x.steps_s[1]), x.steps_s[2]), x.backward_s)


def _busiest_network(x: LayerTimes, traffic_s: Any, cover: Any) -> Any:
    """traffic_s: how long the passes' own traffic keeps the scale-up and the scale-out network."""
    one, two, three, four, five = x.steps_s
    return _over(np.maximum(np.maximum(one + five + traffic_s[0], two + four + traffic_s[1]), three), cover)


def _whole_period(x: LayerTimes) -> Any:
    up, out = 2 * x.tensor_s, 2 * x.pipeline_s  # experts_s keeps a network busy all the while
    return _busiest_network(x, (up, out), x.forward_s + x.backward_s + up + out)


# What of the five steps stays exposed. The exchange runs under the last backward pass B.
OVERLAP_RULES: dict[str, Callable[[LayerTimes], Any]] = {
    "scale-out reduce": lambda x: _over(x.steps_s[1], x.backward_s),  # (x2 - B)+
    "slowest reduce": _slowest_reduce,  # (max(x1, x2, x3) - B)+
    # (x1 - B)+ + (x2 - B)+ + (x3 - B)+
    "each network": lambda x: sum(_over(step, x.backward_s) for step in x.steps_s[:3]),
    # (max(x1, x2, x3) - B)+ + (max(x4, x5) - F)+
    "gathers under forward": lambda x: _slowest_reduce(x) + _over(np.maximum(*x.steps_s[3:]), x.forward_s),
    # (max(x1 + x5, x2 + x4, x3) - B)+
    "busiest network": lambda x: _busiest_network(x, (0, 0), x.backward_s),
    # (max(x1 + x5 + 2 T, x2 + x4 + 2 P, x3) - (F + B + 2 T + 2 P))+: late gradients
    "whole period": _whole_period,
}


@checked
def layer_times(
    layer: Layer, laid: Layout, site: Site, reduce: str = "all_reduce", recomputed: float = RECOMPUTED_PASSES
) -> LayerTimes:
    """Times of a layer laid out on a site, in steady state.

    F = flops / (t rate), B = 2 F; T = two AllReduces of s b h r in rings of t over the scale-up network (two
    AllGathers and two ReduceScatters; one of each in a parallel block); P = s b h r / t over the scale-out network;
    x1 = AllReduce of G / t among g, x2 = AllReduce of G / (t g) among y, x4 and x5 their AllGathers; x3 as
    `wide_area_exchange` of G / (t g y).

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
    A `LayerTimes`, not numbers where a model does not fit.

    References
    ----------
    flops2024, sections 4 and 4.1, has AllReduce in x1 and x2.
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


def wan_delays_and_bytes(size_bytes: Any, site: Site) -> list[tuple[Any, Any]]:
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


def wide_area_exchange(size_bytes: Any, site: Site) -> tuple[Any, Any]:
    """Bytes that a GPU sends and time [s] of the faster way of `wan_delays_and_bytes`, at wan_Bps of a GPU."""
    (one, one_bytes), (two, two_bytes) = wan_delays_and_bytes(size_bytes, site)
    one_s = one_bytes / site.wan_Bps + one * site.one_way_delay_s
    two_s = two_bytes / site.wan_Bps + two * site.one_way_delay_s
    return np.where(one_s <= two_s, one_bytes, two_bytes)[()], np.minimum(one_s, two_s)


def least_wan_Bps(layer: Layer, laid: Layout, site: Site, hidden_s: Any) -> Any:
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


def tokens_per_micro_batch(layer: Layer, laid: Layout) -> float:
    """Tokens of one micro-batch of every replica that works: s b g y in each datacenter."""
    sequence_tokens = layer.tensor_bytes / (layer.hidden * layer.precision.element)
    return sequence_tokens * laid.replicas_here * laid.datacenters


@checked
def exposed_share(layer: Layer, site: Site, rule: str = "each network", **options: Any) -> Any:
    """Exposed share of layers on a site, each with its own layout.

    Parameters
    ----------
    layer, site
        Any field of them may be an array: a sweep is one call.
    rule
        Of `OVERLAP_RULES`: what of the gradient exchange stays exposed.
    **options
        Of `layer_times`.

    Returns
    -------
    Shares of the time, not a number where a model does not fit.
    """
    return layer_times(layer, rack_layout(layer, site, strict=False), site, **options).share(rule)


@dataclass(frozen=True)
class TrainingCase:
    """All that the exposed share of a model depends on; an array in a field of `site` makes a sweep.

    model, precision, site: what trains, in which number format, where.
    options: of `layer_times`.
    rule: of `OVERLAP_RULES`.
    micro_batch: sequences.

    `layer`, `layout` and `times` are computed when they are asked for.
    """

    model: Transformer
    precision: Precision
    site: Site
    options: Mapping[str, Any] = field(default_factory=dict)
    rule: str = "each network"
    micro_batch: int = 1

    @property
    def layer(self) -> Layer:
        """One layer of the model."""
        return model_layer(self.model, self.precision, self.micro_batch)

    @property
    def layout(self) -> Layout:
        """The layer on its racks. Raises ValueError where it does not fit."""
        return rack_layout(self.layer, self.site)

    @cached_property
    def times(self) -> LayerTimes:
        """Compute and communication of the layer. Raises ValueError where it does not fit."""
        one = self.layer
        return layer_times(one, rack_layout(one, self.site), self.site, **self.options)

    @property
    def share(self) -> Any:
        """Exposed share of the time, not a number where the model does not fit."""
        return exposed_share(self.layer, self.site, self.rule, **self.options)

    def changed(self, **fields: Any) -> "TrainingCase":
        """The case with other fields, such as changed(site={"nic_Bps": 5e10}, rule="whole period").

        A dictionary changes some fields of a part and leaves its others. Raises ValueError for an unknown field.
        """
        new: dict[str, Any] = {}
        for name, value in fields.items():
            now = getattr(self, checks.one_of("field", name, self.__dataclass_fields__))
            if name == "options":
                new[name] = {**now, **value}
            else:
                new[name] = replace(now, **value) if isinstance(value, Mapping) else value
        return replace(self, **new)


def pipelined_iteration(
    times: LayerTimes, stages: int, micro_batches: Sequence[int], rule: str = "each network"
) -> pd.DataFrame:
    """An iteration with its pipeline filled and drained, and one exchange of gradients at its end.

    time = (m + L - 1) (F + B + 2 T + 2 P) + X, X `LayerTimes.gradients_s` of the stage that ends last. L - 1 passes
    are the bubble, (L - 1) / (m + L - 1) of the time without X. A stage waits for the send of a pass, as it does for T.

    Parameters
    ----------
    times
        Of a layer, which is a stage.
    stages, micro_batches
        L; values of m.
    rule
        Of `OVERLAP_RULES`.

    Returns
    -------
    Columns micro_batches, time_s, computing, exposed, idle (shares of time_s, which sum to 1), steady_share: exposed
    without fill and drain, with an exchange for each micro-batch.
    """
    m = np.asarray(micro_batches)
    idle_s = pipeline_bubble_time(stages, m, times.forward_s + times.waits_s, times.backward_s + times.waits_s)
    whole_s = times.steady_s(rule, m) + idle_s
    exposed, idle = times.exposed_s(rule, m) / whole_s, idle_s / whole_s
    columns = {"micro_batches": m, "time_s": whole_s, "computing": 1 - exposed - idle, "exposed": exposed, "idle": idle}
    return pd.DataFrame(columns).assign(steady_share=float(times.share(rule)))


def iterations_by_micro_batches(cases: Mapping[str, TrainingCase], micro_batches: Sequence[int]) -> pd.DataFrame:
    """`pipelined_iteration` of several cases under their rules: columns model, tokens (of an iteration), its columns,
    host_bytes.

    host_bytes: activations offloaded from a GPU of the first stage, of min(m, L) micro-batches in flight (1F1B).
    """
    parts = []
    for name, case in cases.items():
        laid = case.layout
        table = pipelined_iteration(case.times, int(laid.layers), micro_batches, case.rule)
        table.insert(0, "tokens", tokens_per_micro_batch(case.layer, laid) * np.asarray(micro_batches))
        table.insert(0, "model", name)
        in_flight = np.minimum(micro_batches, laid.layers) / laid.layers
        parts.append(table.assign(host_bytes=laid.host_bytes * in_flight))
    return pd.concat(parts, ignore_index=True)


def share_by_speed(
    cases: Mapping[str, TrainingCase], speeds_Bps: Mapping[str, Sequence[float]], lost_rtts: float = 1
) -> pd.DataFrame:
    """Exposed share of every case against the speed of one network, the others as they are.

    speeds_Bps: by field of the site, hb_Bps, nic_Bps, wan_Bps [bytes/s]. The wide area is drawn lossless, and with
    lost_rtts round trips of loss at the tail too.
    Columns network, speed_Bps, model, case ("lossless" or with the round trips), share.
    """
    parts = []
    for network, speeds in speeds_Bps.items():
        losses = {"lossless": 0.0} | ({f"tail loss, {lost_rtts:g} RTT": lost_rtts} if network == "wan_Bps" else {})
        for loss, rtts in losses.items():
            for name, case in cases.items():
                swept = case.changed(site={"tail_loss_rtts": rtts, network: np.asarray(speeds, float)})
                columns = {"network": NETWORK_NAMES[network], "speed_Bps": speeds, "model": name, "case": loss}
                parts.append(pd.DataFrame(columns | {"share": swept.share}))
    return pd.concat(parts, ignore_index=True)


def share_by_datacenters(
    cases: Mapping[str, TrainingCase], datacenters: Sequence[int], lost_rtts: float = 1
) -> pd.DataFrame:
    """The same racks in one or more datacenters, all as far apart as the site says.

    Columns datacenters, model, racks_per_layer (in each), replicas (of all), tokens (of a micro-batch), exposed_share,
    wide_area_s (step 3 at the site's capacity), needed_per_gpu_Bps and needed_per_gpu_with_loss_Bps: the least
    wide-area rate of a GPU at which the backward pass covers step 3, lossless and with lost_rtts, infinite where none
    does; needed_per_datacenter_Bps: of all GPUs of a datacenter together, lossless [bytes/s], and in fibre_pairs of
    the catalog. Not a number where a datacenter does not hold the model.
    """
    pair_Bps = catalog.item("wide_area", "fibre pair")["capacity"]
    rows = []
    for count in datacenters:
        for name, case in cases.items():
            row = {"datacenters": count, "model": name}
            here = case.changed(site={"datacenters": count})
            laid = rack_layout(here.layer, here.site, strict=False)
            if laid.tensor:
                t = here.times
                needed, lossy = (
                    least_wan_Bps(here.layer, laid, replace(here.site, tail_loss_rtts=rtts), t.backward_s)
                    for rtts in (0.0, lost_rtts)
                )
                row |= {
                    "racks_per_layer": laid.racks_per_layer_here,
                    "replicas": laid.replicas_here * count,
                    "tokens": tokens_per_micro_batch(here.layer, laid),
                    "exposed_share": here.share,
                    "wide_area_s": t.steps_s[2],
                    "needed_per_gpu_Bps": needed,
                    "needed_per_gpu_with_loss_Bps": lossy,
                    "needed_per_datacenter_Bps": needed * laid.gpus_here,
                    "fibre_pairs": np.ceil(needed * laid.gpus_here / pair_Bps),
                }
            rows.append(row)
    table = pd.DataFrame(rows)
    return table.astype({name: float for name in table.columns[2:]})


@dataclass(frozen=True)
class Assumption:
    """Field of a case, name in it, its unit, and the values to try: by default half and twice the case's own value."""

    field: str
    name: str = ""
    unit: str = ""
    values: tuple[Any, ...] = ()

    def ends(self, case: TrainingCase) -> tuple[Any, Any]:
        """Low and high; of more than two values those that expose least and most."""
        if len(self.values) > 2:
            ranked = sorted(self.values, key=lambda value: (self.share(case, value), value))
            return ranked[0], ranked[-1]
        if self.values:
            return self.values[0], self.values[1]
        now = getattr(getattr(case, self.field), self.name)
        return type(now)(now * 0.5), type(now)(now * 2.0)

    def share(self, case: TrainingCase, value: Any) -> float:
        """Exposed share of the case with the value."""
        return float(case.changed(**{self.field: {self.name: value} if self.name else value}).share)


ASSUMPTIONS = {
    "scale-up bandwidth of a GPU": Assumption("site", "hb_Bps", "bps"),
    "scale-out bandwidth of a GPU": Assumption("site", "nic_Bps", "bps"),
    "wide-area capacity of a GPU": Assumption("site", "wan_Bps", "bps"),
    "delay between datacenters": Assumption("site", "one_way_delay_s", "s"),
    "round trips lost at the tail": Assumption("site", "tail_loss_rtts", values=(0.0, 1.0)),
    "datacenters": Assumption("site", "datacenters", values=(1, 4)),
    "racks": Assumption("site", "racks"),
    "GPUs of a rack": Assumption("site", "rack_gpus"),
    "rate of a GPU": Assumption("site", "gpu_rate", "FLOP/s"),
    "memory of a GPU": Assumption("site", "memory_bytes", "B"),
    "bytes of a gradient": Assumption("precision", "gradients", "B"),
    "bytes of an activation": Assumption("precision", "element", "B"),
    "sequence length": Assumption("model", "sequence_length", "tokens"),
    "sequences of a micro-batch": Assumption("micro_batch", values=(1, 2)),
    "recomputed passes": Assumption("options", "recomputed", values=(0.0, 3.0)),
    "steps 1 and 2": Assumption("options", "reduce", values=("reduce_scatter", "all_reduce")),
    "rule of overlap": Assumption("rule", values=tuple(OVERLAP_RULES)),
}


def exposed_sensitivity(cases: Mapping[str, TrainingCase]) -> pd.DataFrame:
    """Exposed share of each case with one of `ASSUMPTIONS` at its low and at its high, all others as they are.

    An end at which the model does not fit leaves the share where it is and says so. Columns of `tornado_table`, and
    model.
    """
    tables = []
    for model, case in cases.items():
        ends = {name: each.ends(case) for name, each in ASSUMPTIONS.items()}
        table = tornado_table(ends, partial(_share_with, case), float(case.share), _text)
        for side in ("low", "high"):
            misfits = table[f"at_{side}"].isna()
            table.loc[misfits, side] += " does not fit"
            table.loc[misfits, f"at_{side}"] = table["centre"]
        tables.append(table.assign(model=model))
    return pd.concat(tables)


def _share_with(case: TrainingCase, name: str, value: Any) -> float:
    return ASSUMPTIONS[name].share(case, value)


def _text(name: str, value: Any) -> str:
    return value if isinstance(value, str) else show(value, ASSUMPTIONS[name].unit, 5)
