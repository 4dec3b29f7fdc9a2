"""The points that flops2024 prints of Fig. 3, and what each rule of overlap and each way of counting gives there."""

import re
from collections.abc import Callable, Collection, Mapping

import pandas as pd

from railcore.documents.flops2024.specification import document_site
from railcore.documents.readings import claim_verdicts
from railcore.facts import claims
from railcore.facts.units import Gbps, show, significant
from railcore.systems.datacenter.exposed import NETWORK_OF_FIELD, OVERLAP_RULES, Case

Point = tuple[str, dict[str, float], dict[str, float]]  # model, speeds of the site, speeds whose share is taken off
FIELD_OF_PANEL = {"a": "hb_Bps", "b": "nic_Bps"}
Change = Callable[[Case], Case]


def ways_of_counting(gpu_rates: Mapping[str, float]) -> dict[str, Change]:
    """Ways to count that the document's text allows beside its own; gpu_rates: of a GPU by name [FLOP/s]."""
    scatter = {"reduce": "reduce_scatter"}
    ways: dict[str, Change] = {
        "one recomputed pass of the scores": _with(options={"recomputed": 1.0}),
        "ReduceScatter in steps 1 and 2": _with(options=scatter),
        "ReduceScatter, busiest network": _with(options=scatter, case={"rule": "busiest network"}),
        "one direction of the scale-up": lambda case: case.changed(site={"hb_Bps": case.site.hb_Bps / 2}),
    }
    return ways | {name: _with(site={"gpu_rate": rate}) for name, rate in gpu_rates.items()}


def printed_points(models: Collection[str] = ("dense", "moe")) -> dict[str, Point]:
    """Points of these models in Fig. 3 a and b by claim, from the claims' ids.

    fig3a.moe_800g is the mixture, scale-up at 800 Gbps. fig3b.moe_400g_gain is the fall from that speed to the fastest
    that the panel prints. fig3.exposed_* are the machine as it is.
    """
    found: dict[str, Point] = {}
    for key in claims.ids("flops2024.fig3"):
        model = key.rpartition("_")[2]
        found[key] = (model, {}, {})
    for panel, field in FIELD_OF_PANEL.items():
        matches = {key: re.search(r"\.(\w+)_(\d+)g(_gain)?$", key) for key in claims.ids(f"flops2024.fig3{panel}")}
        parts = {key: match.groups() for key, match in matches.items() if match}
        fastest = max(int(speed) for _, speed, _ in parts.values()) * Gbps
        for key, (model, speed, gain) in parts.items():
            found[key] = (model, {field: int(speed) * Gbps}, {field: fastest} if gain else {})
    return {key: point for key, point in found.items() if point[0] in models}


def printed_marks() -> pd.DataFrame:
    """Points of `printed_points` that are shares: columns network, speed_Bps, model, share (printed), relation.

    Those of the machine as it is stand at the document's own speeds.
    """
    printed, rows = document_site(1), []
    for key, (model, speeds, less) in printed_points().items():
        entry = claims.claim(key)
        at = speeds or {field: getattr(printed, field) for field in FIELD_OF_PANEL.values()}
        for field, speed in at.items() if not less else ():
            rows.append((NETWORK_OF_FIELD[field], speed, model, entry.paper_value, entry.relation))
    return pd.DataFrame(rows, columns=["network", "speed_Bps", "model", "share", "relation"])


def shares_at_points(cases: Mapping[str, Case], way: Change = lambda case: case) -> dict[str, float]:
    """Exposed share at each of `printed_points`, or how much it falls between two; way: of `ways_of_counting`."""
    found = {}
    for key, (model, speeds, less) in printed_points(cases).items():
        high = way(cases[model].changed(site=speeds)).share
        found[key] = float(high - way(cases[model].changed(site=less)).share if less else high)
    return found


def shares_under_rules(cases: Mapping[str, Case], ways: Mapping[str, Change]) -> pd.DataFrame:
    """What each rule of overlap gives at the printed points, beside the printed value, and its verdict.

    ways: of `ways_of_counting`, under the rule of the cases. Columns reading, claim, paper_value, value, verdict.
    """
    rows = []
    for reading, way in {**{rule: _with(case={"rule": rule}) for rule in OVERLAP_RULES}, **ways}.items():
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


def counting_table(cases: Mapping[str, Case], ways: Mapping[str, Change]) -> pd.DataFrame:
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


def _with(**parts: Mapping[str, object]) -> Change:
    return lambda case: case.changed(**parts)


def _printed(key: str) -> str:
    entry = claims.claim(key)
    return f"{claims.RELATIONS[entry.relation]} {show(entry.paper_value * 100)}%"
