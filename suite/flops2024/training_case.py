"""A model on a machine under one set of assumptions, and its exposed share against speeds, datacenters, micro-batches.

Symbols as in `datacenter.exposed`: F, B forward and backward time, T tensor-parallel and P pipeline time of a
pass, m micro-batches of an iteration, L stages of one layer each, which take a whole rack or more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import checks
from railcore.catalog.arguments import Count, checked
from railcore.datacenter.exposed import OVERLAP_RULES, LayerTimes, layer_times, least_wan_Bps
from railcore.datacenter.layouts import Layer, Layout, model_layer, rack_layout
from railcore.datacenter.sizing import DatacenterSite
from railcore.training.formats import Precision
from railcore.training.pipeline_schedule import pipeline_bubble_time
from railcore.training.transformer import Transformer

NETWORK_NAMES = {"hb_Bps": "scale-up", "nic_Bps": "scale-out", "wan_Bps": "wide area"}


@checked
@dataclass(frozen=True)
class TrainingCase:
    """All that the exposed share of a model depends on; an array in a field of `site` makes a sweep.

    model, precision, site: what trains, in which number format, where.
    options: of `layer_times`: reduce, recomputed.
    rule: of `OVERLAP_RULES`.
    micro_batch: sequences.

    `layer`, `layout` and `times` are computed when they are asked for.
    """

    model: Transformer
    precision: Precision
    site: DatacenterSite
    options: Mapping[str, Any] = field(default_factory=dict)
    rule: str = "each network"
    micro_batch: Count = 1

    def __post_init__(self) -> None:
        checks.one_of("rule", self.rule, OVERLAP_RULES)

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
        return layer_times(self.layer, self.layout, self.site, **self.options)

    @property
    def share(self) -> Any:
        """Exposed share of the time, not a number where the model does not fit."""
        one = self.layer
        laid = rack_layout(one, self.site, strict=False)
        return layer_times(one, laid, self.site, **self.options).share(self.rule)

    def changed(self, **fields: Any) -> "TrainingCase":
        """The case with other fields, such as changed(site={"nic_Bps": 5e10}, rule="whole period").

        A dictionary changes some fields of a part and leaves its others.
        """
        new: dict[str, Any] = {}
        for name, value in fields.items():
            now = getattr(self, name)
            if name == "options":
                new[name] = {**now, **value}
            else:
                new[name] = replace(now, **value) if isinstance(value, Mapping) else value
        return replace(self, **new)


def tokens_per_micro_batch(layer: Layer, laid: Layout) -> float:
    """Tokens of one micro-batch of every replica that works: s b g y in each datacenter."""
    sequence_tokens = layer.tensor_bytes / (layer.hidden * layer.precision.element)
    return sequence_tokens * laid.replicas_here * laid.datacenters


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
