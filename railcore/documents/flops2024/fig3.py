"""The points that Fig. 3 of flops2024 prints, under every rule of overlap and every way of counting.

Cases are named "dense" and "moe" (which a user may leave out).
"""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from railcore.documents.flops2024.specification import document_site
from railcore.documents.readings import claim_verdicts
from railcore.facts import claims
from railcore.facts.units import Gbps, show, significant
from railcore.systems.datacenter.exposed import NETWORK_NAMES, OVERLAP_RULES, TrainingCase

# By claim: the model, the speed of a GPU's network if it is not the document's, and the speed whose share is taken off.
PRINTED_POINTS: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    "flops2024.fig3.exposed_dense": ("dense", {}, {}),
    "flops2024.fig3.exposed_moe": ("moe", {}, {}),
    "flops2024.fig3a.dense_800g": ("dense", {"hb_Bps": 800 * Gbps}, {}),
    "flops2024.fig3a.moe_800g": ("moe", {"hb_Bps": 800 * Gbps}, {}),
    "flops2024.fig3b.dense_100g": ("dense", {"nic_Bps": 100 * Gbps}, {}),
    "flops2024.fig3b.moe_100g": ("moe", {"nic_Bps": 100 * Gbps}, {}),
    "flops2024.fig3b.dense_400g_gain": ("dense", {"nic_Bps": 400 * Gbps}, {"nic_Bps": 1600 * Gbps}),
    "flops2024.fig3b.moe_1600g": ("moe", {"nic_Bps": 1600 * Gbps}, {}),
    "flops2024.fig3b.moe_400g_gain": ("moe", {"nic_Bps": 400 * Gbps}, {"nic_Bps": 1600 * Gbps}),
}

CaseChange = Callable[[TrainingCase], TrainingCase]


def ways_of_counting(gpu_rates: Mapping[str, float]) -> dict[str, CaseChange]:
    """Ways to count that the document's text allows beside its own; gpu_rates: of a GPU by name [FLOP/s]."""
    scatter = {"reduce": "reduce_scatter"}
    ways: dict[str, CaseChange] = {
        "one recomputed pass of the scores": _with(options={"recomputed": 1.0}),
        "ReduceScatter in steps 1 and 2": _with(options=scatter),
        "ReduceScatter, busiest network": _with(options=scatter, rule="busiest network"),
        "one direction of the scale-up": lambda case: case.changed(site={"hb_Bps": case.site.hb_Bps / 2}),
    }
    return ways | {name: _with(site={"gpu_rate": rate}) for name, rate in gpu_rates.items()}


def printed_marks() -> pd.DataFrame:
    """Points of `PRINTED_POINTS` that are shares: columns network, speed_Bps, model, share (printed), relation.

    Those of the machine as it is stand at the document's own speeds.
    """
    site, rows = document_site(1), []
    for key, (model, speeds, faster) in PRINTED_POINTS.items():
        entry = claims.claim(key)
        at = speeds or {"hb_Bps": site.hb_Bps, "nic_Bps": site.nic_Bps}
        if not faster:
            rows += [(NETWORK_NAMES[net], speed, model, entry.paper_value, entry.relation) for net, speed in at.items()]
    return pd.DataFrame(rows, columns=["network", "speed_Bps", "model", "share", "relation"])


def shares_at_points(cases: Mapping[str, TrainingCase], way: CaseChange = lambda case: case) -> dict[str, float]:
    """Exposed share at each of `PRINTED_POINTS`, or how much it falls between two; way: of `ways_of_counting`."""
    found = {}
    for key, (model, speeds, faster) in PRINTED_POINTS.items():
        if model in cases:
            high = way(cases[model].changed(site=speeds)).share
            found[key] = float(high - way(cases[model].changed(site=faster)).share if faster else high)
    return found


def shares_under_rules(cases: Mapping[str, TrainingCase], ways: Mapping[str, CaseChange]) -> pd.DataFrame:
    """What each rule of overlap gives at the printed points, beside the printed value, and its verdict.

    ways: of `ways_of_counting`, under the rule of the cases. Columns reading, claim, paper_value, value, verdict.
    """
    rows = []
    for reading, way in {**{rule: _with(rule=rule) for rule in OVERLAP_RULES}, **ways}.items():
        for key, value in shares_at_points(cases, way).items():
            rows.append((reading, key, claims.paper_value(key), value, claim_verdicts({key: value})[key]))
    return pd.DataFrame(rows, columns=["reading", "claim", "paper_value", "value", "verdict"])


def rules_side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """`shares_under_rules` for people: a row a reading, a column a point, and how many claims it meets."""
    marks = {"reproduced": "✓", "close": "~", "differs": "✗"}
    text = table.value.map(significant).map("{:.1%} ".format) + table.verdict.map(marks)
    short = table.claim.str.split(".", n=1).str[1]
    wide = table.assign(text=text, point=short).pivot(index="reading", columns="point", values="text")
    wide = wide.loc[table.reading.unique(), short.unique()]
    met = table.verdict.eq("reproduced").groupby(table.reading).sum()
    wide["met"] = [str(met[reading]) for reading in wide.index]
    wide.loc["printed"] = [*map(_printed, table.claim.unique()), ""]
    return wide.loc[["printed", *table.reading.unique()]].reset_index()


def counting_table(cases: Mapping[str, TrainingCase], ways: Mapping[str, CaseChange]) -> pd.DataFrame:
    """The steps and the exposed share as the cases are, and by `ways_of_counting`.

    Columns reading, model, forward_s, backward_s, tensor_s, longest_reduce_s (of steps 1 and 2), longest_gather_s (of 4
    and 5), exchange_exposed_s, exposed_share.
    """
    rows = []
    for reading, way in {"as the document counts": _with(), **ways}.items():
        for name, case in cases.items():
            counted = way(case)
            t = counted.times
            one, two, _, four, five = t.steps_s
            rows.append(
                {
                    "reading": reading,
                    "model": name,
                    "forward_s": t.forward_s,
                    "backward_s": t.backward_s,
                    "tensor_s": t.tensor_s,
                    "longest_reduce_s": max(one, two),
                    "longest_gather_s": max(four, five),
                    "exchange_exposed_s": t.gradients_s(counted.rule),
                    "exposed_share": counted.share,
                }
            )
    table = pd.DataFrame(rows)
    return table.astype({name: float for name in table.columns[2:]})


def _with(**fields: Any) -> CaseChange:
    return lambda case: case.changed(**fields)


def _printed(key: str) -> str:
    entry = claims.claim(key)
    return f"{claims.RELATIONS[entry.relation]} {show(entry.paper_value * 100)}%"
