"""A model on a machine under one set of assumptions, to be changed one field at a time."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from railcore.facts import checks
from railcore.systems.datacenter.exposed import WIDE_AREA, Times, chunk_bytes, exposed_share, times
from railcore.systems.datacenter.layer import Layer, Precision, layer
from railcore.systems.datacenter.layout import Layout, layout
from railcore.systems.datacenter.site import Site
from railcore.training import collectives
from railcore.training.transformer import Transformer

CASE_PARTS = ("model", "precision", "site", "options", "case")


@dataclass(frozen=True)
class Case:
    """All that the exposed share of a model depends on.

    options: of `exposed.times`. rule: of `exposed.OVERLAP_RULES`. micro_batch: sequences. layer, layout and times are
    computed when asked for; an array in a field of `site` makes a sweep of them.
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
        """Compute and communication of the layer. Raises ValueError where it does not fit."""
        one = self.layer
        return times(one, layout(one, self.site), self.site, **self.options)

    @property
    def share(self) -> Any:
        """Exposed share of the time, not a number where the model does not fit."""
        return exposed_share(self.layer, self.site, self.rule, **self.options)

    def changed(self, **parts: Mapping[str, Any]) -> "Case":
        """The case with other fields: changed(site={"nic_Bps": 5e10}, options={"recomputed": 1.0}, case={"rule": ...}).

        Raises ValueError for a part that is none of `CASE_PARTS`.
        """
        for name in parts:
            checks.one_of("part", name, CASE_PARTS)
        new = dict(parts.get("case", {}))
        for name in ("model", "precision", "site"):
            if name in parts:
                new[name] = replace(getattr(self, name), **parts[name])
        return replace(self, options={**self.options, **parts.get("options", {})}, **new)

    def least_wan_Bps(self) -> Any:
        """`least_wan_Bps` at which the backward pass covers the exchange between datacenters [bytes/s]."""
        one = self.layer
        laid = layout(one, self.site)
        return least_wan_Bps(one, laid, self.site, times(one, laid, self.site, **self.options).backward_s)


def least_wan_Bps(layer: Layer, laid: Layout, site: Site, hidden_s: Any) -> Any:
    """Least wide-area capacity of a GPU at which the exchange between datacenters takes no longer than hidden_s.

    The least over the two ways of the exchange of bytes / (hidden_s - steps d - lost round trips), d the one-way delay.
    The inverse of `exposed.wide_area`.

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
    for form in WIDE_AREA:
        steps, size = collectives.steps_and_bytes("all_reduce", form, chunk_bytes(layer, laid), site.datacenters)
        slack = np.asarray(hidden_s - (steps + 2 * np.asarray(site.tail_loss_rtts)) * site.one_way_delay_s)
        needed.append(np.where(slack > 0, size / np.where(slack > 0, slack, 1.0), np.inf))
    return np.where(np.asarray(site.datacenters) > 1, np.minimum(*needed), 0.0)[()]
