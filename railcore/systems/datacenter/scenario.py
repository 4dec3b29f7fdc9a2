"""A model on a machine under one set of assumptions: its quantities by name, and what would give a printed one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from railcore.systems.datacenter.exposed import WIDE_AREA, Times, exposed_share, times
from railcore.systems.datacenter.layer import Layer, Precision, layer
from railcore.systems.datacenter.layout import Layout, layout
from railcore.systems.datacenter.site import Site
from railcore.training.collectives import algorithms
from railcore.training.transformer import Transformer

PARTS = ("model", "precision", "site", "options", "case")


@dataclass(frozen=True)
class Case:
    """All that the exposed share of a model depends on.

    options: of `exposed.times`. rule: of `exposed.RULES`. micro_batch: sequences. layer, layout and times are computed
    when asked for; an array in a field of `site` makes a sweep of them.
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
        return layer(self.model, self.precision, self.micro_batch)

    @property
    def layout(self) -> Layout:
        """The layer on its racks. Raises ValueError where it does not fit."""
        return layout(self.layer, self.site)

    @property
    def times(self) -> Times:
        """Compute and communication of the layer."""
        return times(self.layer, self.layout, self.site, **self.options)

    @property
    def share(self) -> Any:
        """Exposed share of the time, not a number where the model does not fit."""
        return exposed_share(self.layer, self.site, self.rule, **self.options)

    def changed(self, **parts: Mapping[str, Any]) -> "Case":
        """The case with other fields: changed(site={"nic_Bps": 5e10}, options={"recomputed": 1.0}, case={"rule": ...}).

        Raises ValueError for a part that is none of `PARTS`.
        """
        if stray := set(parts) - set(PARTS):
            raise ValueError(f"part {stray.pop()!r} does not exist: choose from {', '.join(PARTS)}")
        new = dict(parts.get("case", {}))
        for name in ("model", "precision", "site"):
            if name in parts:
                new[name] = replace(getattr(self, name), **parts[name])
        return replace(self, options={**self.options, **parts.get("options", {})}, **new)

    def quantities(self) -> dict[str, float]:
        """What flops2024 prints of a layer, by the last part of its claims' ids, in SI units.

        recompute_overhead: the scores once more over forward and backward pass. tp_bytes: 2 s b h r. dp_*: steps of the
        exchange; dp_chunk_gradients: of a rack's share, G / g. dp_masked, dp_exposed: of step 2, by the backward pass;
        compute_bound, network_bound: step 2 over the backward pass. wan_exposed: of step 3. wan_masked: least
        capacity of a GPU that hides step 3 [bytes/s]. exposed: the share.
        """
        mine = self.layer
        laid = layout(mine, self.site)
        t = times(mine, laid, self.site, **self.options)
        one, two, three, four, five = t.steps_s
        found = {
            "forward": t.forward_s,
            "backward": t.backward_s,
            "recompute_overhead": mine.score_flops / (3 * (mine.linear_flops + mine.score_flops)),
            "tp_bytes": mine.exchanges * mine.tensor_bytes,
            "tp_input_bytes": mine.tensor_bytes,
            "tp_time": t.tensor_s,
            "pp_bytes": mine.tensor_bytes / laid.tensor,
            "pp_time": t.pipeline_s,
            "layer_gradients": mine.gradient_bytes,
            "dp_scale_up_all_reduce": one,
            "dp_scale_out_all_reduce": two,
            "dp_scale_out_all_gather": four,
            "dp_scale_up_all_gather": five,
            "dp_chunk_gradients": mine.gradient_bytes / laid.layers_per_rack,
            "wan_bytes": t.steps_bytes[2],
            "scale_up_peers": laid.layers_per_rack - 1,
            "scale_out_peers": laid.racks_per_layer_here - 1,
            "compute_bound": two / t.backward_s,
            "network_bound": two / t.backward_s,
            "dp_masked": min(two, t.backward_s),
            "dp_exposed": max(0.0, two - t.backward_s),
            "wan_exposed": max(0.0, three - t.backward_s),
            "wan_masked": least_wan_Bps(mine, laid, self.site, t.backward_s),
            "exposed": t.share(self.rule),
        }
        return {name: float(value) for name, value in found.items()}

    def would_give(self, name: str, target: float, part: str, of: str, span: float = 16.0) -> float:
        """Value of one field with which a quantity of `quantities` is `target`, NaN where none within the span is.

        part, of: as in `changed`, such as "site", "nic_Bps". span: the field's own value is multiplied and divided by
        it; a whole number is searched as one. Bisection in the logarithm.
        """
        own = (
            dict(self.options).get(of)
            if part == "options"
            else getattr(self if part == "case" else getattr(self, part), of)
        )
        if not own:
            raise ValueError(f"{of} is {own!r}: give a field of {part} that is not 0")
        whole = isinstance(own, int | np.integer)
        low, high = -np.log(span), np.log(span)

        def off(power: float) -> float:
            value = own * np.exp(power)
            return self.changed(**{part: {of: int(value) if whole else value}}).quantities()[name] - target

        left = off(low)
        if not np.isfinite(left) or left * off(high) > 0:
            return float("nan")
        for _ in range(26):  # seven digits of the span
            middle = (low + high) / 2
            low, high = (middle, high) if off(middle) * left > 0 else (low, middle)
        return own * float(np.exp(high))


def least_wan_Bps(layer: Layer, laid: Layout, site: Site, hidden_s: Any) -> Any:
    """Least wide-area capacity of a GPU at which step 3 takes no longer than hidden_s [bytes/s], in closed form.

    Smallest over the forms of the exchange of bytes / (hidden_s - steps d - lost round trips); infinite where delay
    and loss alone take longer, 0 for one datacenter. The inverse of `exposed.wide_area`.
    """
    chunk = layer.gradient_bytes / (laid.tensor * laid.layers_per_rack * laid.racks_per_layer_here)
    needed = []
    for form in WIDE_AREA:
        steps, size = algorithms.steps_and_bytes("all_reduce", form, chunk, site.datacenters)
        slack = np.asarray(hidden_s - (steps + 2 * np.asarray(site.tail_loss_rtts)) * site.one_way_delay_s)
        needed.append(np.where(slack > 0, size / np.where(slack > 0, slack, 1.0), np.inf))
    return np.where(np.asarray(site.datacenters) > 1, np.minimum(*needed), 0.0)[()]
