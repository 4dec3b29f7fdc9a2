"""Exposed communication against the speed of each network, at the points that a document prints, and over sites."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts import catalog, claims
from railcore.facts.units import Gbps, parse, show, significant
from railcore.systems.datacenter.batches import tokens
from railcore.systems.datacenter.exposed import RULES
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.scenario import Case
from railcore.systems.datacenter.site import site

if TYPE_CHECKING:
    import pandas as pd

Point = tuple[str, dict[str, float], dict[str, float]]  # model, speeds of the site, speeds whose share is taken off
NETWORKS = {"hb_Bps": "scale-up", "nic_Bps": "scale-out", "wan_Bps": "wide area"}
PANELS = {"a": "hb_Bps", "b": "nic_Bps"}
OTHERS: dict[str, dict[str, Any]] = {  # readings beside the rules, as `Case.changed` takes them
    "one recomputed pass of the scores": {"options": {"recomputed": 1.0}},
    "ReduceScatter in steps 1 and 2": {"options": {"reduce": "reduce_scatter"}},
    "ReduceScatter, busiest network": {"options": {"reduce": "reduce_scatter"}, "case": {"rule": "busiest network"}},
    "one direction of the scale-up": {"hb_factor": 0.5},
}


def curves(
    cases: Mapping[str, Case], speeds_Bps: Mapping[str, Sequence[float]], lost_rtts: float = 1
) -> "pd.DataFrame":
    """Exposed share of every case against the speed of one network, the others as they are.

    speeds_Bps: by field of the site, hb_Bps, nic_Bps, wan_Bps [bytes/s]. The wide area is drawn lossless, and with
    lost_rtts round trips of loss at the tail too.
    Columns network, speed_Bps, model, case ("lossless" or with the round trips), share.
    """
    import pandas as pd

    parts = []
    for field, speeds in speeds_Bps.items():
        lost = {"lossless": 0.0} | ({f"tail loss, {lost_rtts:g} RTT": lost_rtts} if field == "wan_Bps" else {})
        for loss, rtts in lost.items():
            for name, case in cases.items():
                at: dict[str, Any] = {"tail_loss_rtts": rtts, field: np.asarray(speeds, float)}
                share = case.changed(site=at).share
                columns = {"network": NETWORKS[field], "speed_Bps": speeds, "model": name, "case": loss, "share": share}
                parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def printed_points(models: Collection[str] = ("dense", "moe"), prefix: str = "flops2024") -> dict[str, Point]:
    """Points of these models in Fig. 3 a and b by claim, read from the ids.

    fig3a.moe_800g is the mixture, scale-up at 800 Gbps. An id that ends in _gain is the fall from that speed to the one
    that the claim names; fig3.exposed_* are the machine as it is.
    """
    found: dict[str, Point] = {}
    for panel in ("", "a", "b"):
        for key in claims.ids(f"{prefix}.fig3{panel}"):
            last = key.rpartition(".")[2]
            if match := re.fullmatch(r"(\w+)_(\d+)g(_gain)?", last):
                model, speed, gain = match.groups()
                field, text = PANELS[panel], claims.claim(key).claim
                less = {field: parse(re.findall(r"to (\S+ \wbps)", text)[0], "bps")} if gain else {}
                found[key] = (model, {field: int(speed) * Gbps}, less)
            else:
                found[key] = (last.removeprefix("exposed_"), {}, {})
    return {key: point for key, point in found.items() if point[0] in models}


def printed_marks(document: str = "flops2024") -> "pd.DataFrame":
    """Points of `printed_points` that are shares: columns network, speed_Bps, model, share (printed), relation.

    Those of the machine as it is stand at the document's own speeds.
    """
    import pandas as pd

    printed, rows = site(1, document=document), []
    for key, (model, speeds, less) in printed_points(prefix=document).items():
        entry = claims.claim(key)
        at = speeds or {field: getattr(printed, field) for field in PANELS.values()}
        for field, speed in at.items() if not less else ():
            rows.append((NETWORKS[field], speed, model, entry.paper_value, entry.relation))
    return pd.DataFrame(rows, columns=["network", "speed_Bps", "model", "share", "relation"])


def at_points(cases: Mapping[str, Case], points: Mapping[str, Point], hb_factor: float = 1.0) -> dict[str, float]:
    """Exposed share at each point, or how much it falls between two of them; scale-up speeds times hb_factor."""
    found = {}
    for key, (model, speeds, less) in points.items():
        case = cases[model]
        ends = [{"hb_Bps": case.site.hb_Bps} | at for at in (speeds, less or speeds)]
        high, low = (case.changed(site=at | {"hb_Bps": at["hb_Bps"] * hb_factor}).share for at in ends)
        found[key] = float(high - low) if less else float(high)
    return found


def under_rules(
    cases: Mapping[str, Case], points: Mapping[str, Point], others: Mapping[str, Mapping[str, Any]]
) -> tuple["pd.DataFrame", "pd.DataFrame"]:
    """What each rule of overlap gives at points that are claims, beside the printed value, and its verdict.

    others: further readings under the rule of the cases, each as `Case.changed` takes it; "hb_factor" in one
    multiplies the scale-up speeds, of the points too.
    The first table has columns reading, claim, paper_value, value, verdict; the second is for people: a row for each
    reading, a column for each point, and how many claims it meets.
    """
    import pandas as pd

    rows = []
    for reading, change in {**{rule: {"case": {"rule": rule}} for rule in RULES}, **others}.items():
        parts = {part: values for part, values in change.items() if part != "hb_factor"}
        read = {name: case.changed(**parts) for name, case in cases.items()}
        for key, value in at_points(read, points, change.get("hb_factor", 1.0)).items():
            entry = claims.claim(key)
            verdict = claims.verdict(value, entry.paper_value, entry.relation, entry.tolerance)
            rows.append((reading, key, entry.paper_value, value, verdict))
    table = pd.DataFrame(rows, columns=["reading", "claim", "paper_value", "value", "verdict"])
    return table, _side_by_side(table)


def variants(cases: Mapping[str, Case], others: Mapping[str, Mapping[str, Any]]) -> "pd.DataFrame":
    """The steps and the exposed share as the cases are, and under other readings (as in `under_rules`).

    Columns reading, model, forward_s, backward_s, tensor_s, longest_reduce_s (of steps 1 and 2), longest_gather_s (of 4
    and 5), exchange_exposed_s, exposed_share.
    """
    import pandas as pd

    rows = []
    for reading, change in {"as the document counts": {}, **others}.items():
        parts = {part: values for part, values in change.items() if part != "hb_factor"}
        for name, case in cases.items():
            faster = {"hb_Bps": case.site.hb_Bps * change.get("hb_factor", 1.0)}
            read = case.changed(**parts).changed(site=faster)
            t = read.times
            one, two, _, four, five = t.steps_s
            row = (reading, name, t.forward_s, t.backward_s, t.tensor_s, max(one, two), max(four, five))
            rows.append((*row, t.gradients_s(read.rule), read.share))
    columns = ["reading", "model", "forward_s", "backward_s", "tensor_s", "longest_reduce_s", "longest_gather_s"]
    columns += ["exchange_exposed_s", "exposed_share"]
    return pd.DataFrame(rows, columns=columns).astype({name: float for name in columns[2:]})


def over_datacenters(cases: Mapping[str, Case], datacenters: Sequence[int], lost_rtts: float = 1) -> "pd.DataFrame":
    """The same racks in one or more datacenters, all as far apart as the site says.

    Columns datacenters, model, racks_per_layer (in each), replicas (of all), tokens (of a micro-batch), exposed_share,
    wide_area_s (step 3 at the site's capacity), needed_per_gpu_Bps and needed_per_gpu_with_loss_Bps: the least
    wide-area rate of a GPU at which the backward pass covers step 3, lossless and with lost_rtts, infinite where none
    does; needed_per_datacenter_Bps: of all GPUs of a datacenter together, lossless [bytes/s], and in fibre_pairs of
    the catalog. Not a number where a datacenter does not hold the model.
    """
    import pandas as pd

    pair_Bps = catalog.item("wide_area", "fibre pair")["capacity"]
    rows: list[tuple] = []
    for count in datacenters:
        for name, case in cases.items():
            here = case.changed(site={"datacenters": count})
            laid = layout(here.layer, here.site, strict=False)
            if not laid.tensor:
                rows.append((count, name, *[np.nan] * 9))
                continue
            lossy = here.changed(site={"tail_loss_rtts": lost_rtts})
            least, more = (at.quantities()["wan_masked"] for at in (here, lossy))
            replicas = laid.replicas_here * count
            row = (count, name, laid.racks_per_layer_here, replicas, tokens(here.layer, laid), here.share)
            together = least * laid.gpus_here
            rows.append((*row, here.times.steps_s[2], least, more, together, np.ceil(together / pair_Bps)))
    columns = ["datacenters", "model", "racks_per_layer", "replicas", "tokens", "exposed_share", "wide_area_s"]
    columns += ["needed_per_gpu_Bps", "needed_per_gpu_with_loss_Bps", "needed_per_datacenter_Bps", "fibre_pairs"]
    return pd.DataFrame(rows, columns=columns).astype({name: float for name in columns[2:]})


def _side_by_side(table: "pd.DataFrame") -> "pd.DataFrame":
    marks = {"reproduced": "✓", "close": "~", "differs": "✗"}
    text = table.value.map(significant).map("{:.1%} ".format) + table.verdict.map(marks)
    short = table.claim.str.split(".", n=1).str[1]
    wide = table.assign(text=text, point=short).pivot(index="reading", columns="point", values="text")
    wide = wide.loc[table.reading.unique(), short.unique()]
    met = table.verdict.eq("reproduced").groupby(table.reading).sum()
    wide["met"] = [str(met[reading]) for reading in wide.index]
    wide.loc["printed"] = [*map(_printed, table.claim.unique()), ""]
    return wide.loc[["printed", *table.reading.unique()]].reset_index()


def _printed(key: str) -> str:
    entry = claims.claim(key)
    return f"{claims.RELATIONS[entry.relation]} {show(entry.paper_value * 100)}%"
