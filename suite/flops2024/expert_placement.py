"""Experts of a mixture sharded over the tensor group, spread over the groups of a rack, or spread over racks.

In the tensor group, every expert is sharded and no token leaves the group (flops2024, section 5). Over e places, each
holds E / e whole experts of a layer: a place needs less memory, fewer GPUs hold a layer, and fewer replicas sum the
gradients of an expert. But tokens travel to their experts and back, in the forward and the backward pass.
Symbols as in `exposed`; k experts of a token, E of a layer, e places; routing is uniform.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from railcore.datacenter import exposed
from railcore.datacenter.layouts import Layer, Layout, model_layer, rack_layout
from railcore.datacenter.sizing import DatacenterSite
from railcore.training import collectives
from suite.flops2024.training_case import TrainingCase

EXPERT_LOCATIONS = ("tensor group", "rack", "racks")


@dataclass(frozen=True)
class ExpertPlacement:
    """Where the experts of a layer are, and what that costs.

    location: one of `EXPERT_LOCATIONS`.
    places: e.
    micro_batch: sequences.
    device_bytes: state and activations of a GPU.
    laid: the racks in use.
    times: with the all-to-all of a pass in experts_s.
    """

    location: str
    places: int
    micro_batch: int
    device_bytes: float
    layer: Layer
    laid: Layout
    times: exposed.LayerTimes

    @property
    def name(self) -> str:
        """Such as "8 racks, t 4"."""
        kinds = {"tensor group": "tensor group", "rack": f"{self.places} groups of a rack"}
        name = f"{kinds.get(self.location, f'{self.places} racks')}, t {self.laid.tensor:.0f}"
        return name if self.micro_batch == 1 else f"{name}, b {self.micro_batch}"


def expert_placement(
    case: TrainingCase, location: str = "tensor group", places: int = 1, tensor: int = 0, micro_batch: int = 1
) -> ExpertPlacement:
    """A mixture with the experts of a layer over places, in the smallest tensor group that fits.

    Memory of a GPU: (shared + experts / e + activations) / t. Tokens: all-to-all of k s b h r / t a GPU among the e
    places, there and back in a pass, on the scale-up network in a rack and on the scale-out network between racks. A
    place gathers the k s b tokens that come to it, so that the feed-forward's half of T takes k times as long.
    Gradients: what all groups share as in `layer_times`; experts among g / e groups in a rack, or among y / e racks,
    where racks over whole multiples of e stay idle. Steps of both kinds of gradients follow one another.

    Parameters
    ----------
    case
        A mixture on a machine; its micro_batch and rule do not count.
    location, places
        One of `EXPERT_LOCATIONS`; e, a divisor of the experts and of the groups of a rack: 1 in the tensor group.
    tensor
        GPUs of a tensor group, 0 for the smallest that fits.
    micro_batch
        Sequences, b.

    Returns
    -------
    An `ExpertPlacement`.

    Raises
    ------
    ValueError
        For what does not fit.
    """
    model, bytes_of, site = case.model, case.precision, case.site
    whole = model_layer(model, bytes_of, micro_batch)
    expert_parameters, mixture_share = model.parameters()["experts"], model.mixture_share
    elsewhere = expert_parameters / model.total_parameters * (1 - 1 / places)
    held = replace(whole, parameters=whole.parameters * (1 - elsewhere))
    laid = _layout_in_groups(held, site, places if location == "rack" else 1, tensor)
    if location == "racks":
        y = laid.racks_per_layer_here // places * places
        if y < places:
            raise ValueError(f"places is {places}: give at most {laid.racks_per_layer_here:.0f}, the racks of a layer")
        laid = replace(laid, racks_per_layer_here=y)
    spread = "layers_per_rack" if location == "rack" else "racks_per_layer_here"
    holders = replace(laid, **{spread: getattr(laid, spread) / places})  # the groups that hold the same experts
    expert_bytes = expert_parameters / model.layers * bytes_of.gradients
    shared = replace(whole, gradient_bytes=whole.gradient_bytes - expert_bytes)
    experts = replace(whole, gradient_bytes=expert_bytes / places)
    kinds = ((shared, laid), (experts, holders))
    one, two = (exposed.layer_times(part, groups, site, **case.options) for part, groups in kinds)
    steps_s = [a + b for a, b in zip(one.steps_s, two.steps_s, strict=True)]
    steps_bytes = [a + b for a, b in zip(one.steps_bytes, two.steps_bytes, strict=True)]
    both_bytes = exposed.wan_gradient_bytes(whole, laid)  # the wide area takes both kinds at once
    steps_bytes[2], steps_s[2] = exposed.wide_area_exchange(both_bytes, site)
    sent = model.top_k * whole.tensor_bytes / laid.tensor * mixture_share
    dispatched = collectives.steps_and_bytes("all_to_all", "direct", sent, places)[1]
    gathered = 1 + (model.top_k - 1) * mixture_share if places > 1 else 1  # tensors before a feed-forward, on average
    times = replace(
        one,
        tensor_s=one.tensor_s * (1 + gathered) / 2,
        steps_s=tuple(steps_s),
        steps_bytes=tuple(steps_bytes),
        experts_s=2 * dispatched / (site.hb_Bps if location == "rack" else site.nic_Bps),
    )
    device_bytes = float((held.layer_state_bytes + whole.activation_bytes) / laid.tensor)
    return ExpertPlacement(location, places, micro_batch, device_bytes, whole, laid, times)


def fitting_placements(case: TrainingCase, micro_batches: Sequence[int]) -> list[ExpertPlacement]:
    """All placements that fit, with one sequence of a micro-batch; the tensor group with each of micro_batches too."""
    placements = [expert_placement(case, micro_batch=b) for b in micro_batches]
    experts = case.model.experts
    for location in EXPERT_LOCATIONS[1:]:
        for places in (e for e in range(2, experts + 1) if experts % e == 0):
            try:
                placements.append(expert_placement(case, location, places))
            except ValueError:  # does not fit
                continue
    return placements


def placements_by_speed(
    case: TrainingCase, hb_Bps: Sequence[float], nic_Bps: Sequence[float], micro_batches: Sequence[int] = (1,)
) -> pd.DataFrame:
    """Exposed share of every placement of `fitting_placements` on a grid of speeds.

    Parameters
    ----------
    case
        A mixture on a machine.
    hb_Bps, nic_Bps
        Scale-up and scale-out bandwidths of a GPU, one direction [bytes/s].
    micro_batches
        As in `fitting_placements`.

    Returns
    -------
    Columns hb_Bps, nic_Bps, placement, share, best (least share at these speeds).
    """
    hb, nic = (grid.ravel() for grid in np.meshgrid(hb_Bps, nic_Bps, indexing="ij"))
    swept = case.changed(site={"hb_Bps": hb, "nic_Bps": nic})
    parts = []
    for placement in fitting_placements(case, micro_batches):
        spread = expert_placement(
            swept, placement.location, placement.places, int(placement.laid.tensor), placement.micro_batch
        )
        columns = {"hb_Bps": hb, "nic_Bps": nic, "placement": placement.name, "share": spread.times.share(case.rule)}
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(best=table.share == table.groupby(["hb_Bps", "nic_Bps"]).share.transform("min"))


def _layout_in_groups(held: Layer, site: DatacenterSite, places: int, tensor: int) -> Layout:
    """Layout in the smallest tensor group that fits, or of `tensor` GPUs, a multiple of `places` in a rack."""
    size = int(np.max(site.rack_gpus))
    least = int(np.max(rack_layout(held, site, tensor).tensor))
    for t in [tensor] if tensor else range(least, size + 1):
        if size % t == 0 and size // t % places == 0:
            return rack_layout(held, site, t)
    raise ValueError(
        f"places is {places}: give a divisor of the tensor groups of a rack of {size} GPUs, {size // least} of {least}"
    )
