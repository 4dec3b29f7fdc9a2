"""Exposed share of several cases against the speed of each network, and over one or more datacenters."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from railcore.facts import catalog
from railcore.systems.datacenter.batches import tokens
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.scenario import Case

NETWORK_OF_FIELD = {"hb_Bps": "scale-up", "nic_Bps": "scale-out", "wan_Bps": "wide area"}


def share_by_speed(
    cases: Mapping[str, Case], speeds_Bps: Mapping[str, Sequence[float]], lost_rtts: float = 1
) -> pd.DataFrame:
    """Exposed share of every case against the speed of one network, the others as they are.

    speeds_Bps: by field of the site, hb_Bps, nic_Bps, wan_Bps [bytes/s]. The wide area is drawn lossless, and with
    lost_rtts round trips of loss at the tail too.
    Columns network, speed_Bps, model, case ("lossless" or with the round trips), share.
    """
    parts = []
    for field, speeds in speeds_Bps.items():
        losses = {"lossless": 0.0} | ({f"tail loss, {lost_rtts:g} RTT": lost_rtts} if field == "wan_Bps" else {})
        for loss, rtts in losses.items():
            for name, case in cases.items():
                swept = case.changed(site={"tail_loss_rtts": rtts, field: np.asarray(speeds, float)})
                columns = {"network": NETWORK_OF_FIELD[field], "speed_Bps": speeds, "model": name, "case": loss}
                parts.append(pd.DataFrame(columns | {"share": swept.share}))
    return pd.concat(parts, ignore_index=True)


def share_by_datacenters(cases: Mapping[str, Case], datacenters: Sequence[int], lost_rtts: float = 1) -> pd.DataFrame:
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
            laid = layout(here.layer, here.site, strict=False)
            if laid.tensor:
                needed = here.least_wan_Bps()
                row |= {
                    "racks_per_layer": laid.racks_per_layer_here,
                    "replicas": laid.replicas_here * count,
                    "tokens": tokens(here.layer, laid),
                    "exposed_share": here.share,
                    "wide_area_s": here.times.steps_s[2],
                    "needed_per_gpu_Bps": needed,
                    "needed_per_gpu_with_loss_Bps": here.changed(site={"tail_loss_rtts": lost_rtts}).least_wan_Bps(),
                    "needed_per_datacenter_Bps": needed * laid.gpus_here,
                    "fibre_pairs": np.ceil(needed * laid.gpus_here / pair_Bps),
                }
            rows.append(row)
    table = pd.DataFrame(rows)
    return table.astype({name: float for name in table.columns[2:]})
