"""Why a printed number of flops2024 on communication differs from ours, and what would give it.

Values by claim of notebook 10, from cases named "dense" and "moe" (which a user may leave out) and the route between
the coasts, the readings that their verdicts turn on, and the reasons, with numbers computed from the same. What rests
on calibrated choices (rate, passes, rule of overlap, bytes) stands in data/calibrations.csv.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from railcore.documents.flops2024.curves import NETWORKS, Point, at_points
from railcore.documents.readings import readings as turning
from railcore.facts import claims, files
from railcore.facts.units import km, show
from railcore.network.wide_area import Route
from railcore.systems.datacenter.exposed import RULES
from railcore.systems.datacenter.scenario import Case

if TYPE_CHECKING:
    import pandas as pd

NODE, FLOW, DELAY = (f"flops2024.{name}" for name in ("wan.bytes_per_node", "wan.flow_rate", "fig3c.one_way_delay"))
RACKS, OVERHEAD = "flops2024.infra.racks", "flops2024.dense.recompute_overhead"
EXPOSED = "flops2024.fig3.exposed_"  # and the model: claims of the machine as it is


def values(
    cases: Mapping[str, Case], points: Mapping[str, Point], lost_rtts: float, coasts: Route, within_s: float
) -> dict[str, float]:
    """Our value of every claim on communication, in the claim's unit.

    points: of `curves.printed_points`. lost_rtts: round trips of tail loss. within_s: time that section 6.3 gives the
    wide area [s].
    """
    found = {name: case.quantities() for name, case in cases.items()}
    every = {f"flops2024.{name}.{last}": value for name, each in found.items() for last, value in each.items()}
    of_the_mixture = {}
    if "moe" in cases:
        lossy = cases["moe"].changed(site={"tail_loss_rtts": lost_rtts}).quantities()
        of_the_mixture = {
            "flops2024.fig3c.lossless_20g_exposed": found["moe"]["wan_exposed"],
            "flops2024.fig3c.tail_loss_moe_exposed": lossy["wan_exposed"],
            "flops2024.fig3c.tail_loss_moe_capacity": 8 * lossy["wan_masked"],
        }
    return (
        {key: value for key, value in every.items() if key in claims.claims()}
        | at_points(cases, points)
        | of_the_mixture
        | {
            "flops2024.fig3c.wan_masked": 8 * max(each["wan_masked"] for each in found.values()),
            NODE: found["dense"]["wan_bytes"],
            FLOW: 8 * claims.paper_value(NODE) / within_s,
            DELAY: coasts.delay_s,
            "flops2024.dense.wan_rtt": coasts.round_trip_s,
        }
    )


def readings(
    ours: Mapping[str, float],
    cases: Mapping[str, Case],
    points: Mapping[str, Point],
    lost_rtts: float,
    coasts: Route,
    within_s: float,
    other_tokens: int,
) -> dict[str, str]:
    """Claims whose verdict turns on a reading of the text, each with what was read and what the other readings give.

    ours: of `values`, as the other arguments are. other_tokens: of a sequence, what "32k" may mean too.
    """
    if files.parameterized():
        return {}

    def of(changed: Mapping[str, Case]) -> dict[str, float]:
        return values(changed, points, lost_rtts, coasts, within_s)

    dense, rtt = cases["dense"], "flops2024.dense.wan_rtt"
    tokens, racks, fewer = dense.model.sequence_length, dense.site.racks, int(claims.paper_value(RACKS))
    longer = {name: case.changed(model={"sequence_length": other_tokens}) for name, case in cases.items()}
    smaller = {name: case.changed(site={"racks": fewer}) for name, case in cases.items()}
    ways = dict(zip((coasts.factor_low, coasts.factor_high), coasts.delays_s, strict=True))
    routes = {f"factor {factor:g}": {DELAY: delay, rtt: 2 * delay} for factor, delay in ways.items()}
    straight = coasts.delay_s / coasts.factor
    routes["great circle alone"] = {DELAY: straight, rtt: 2 * straight}
    again = {"three times, as the forward time counts them": 3 * ours[OVERHEAD]}
    if "moe" in cases:
        mixture = cases["moe"].layer
        again["the mixture's scores over its products with weights"] = mixture.score_flops / mixture.linear_flops / 3
    kept = dense.layer.state_bytes
    states = (kept["gradients"] + kept["optimizer"]) / float(dense.layout.gpus_here)
    return turning(
        ours,
        {
            f"32k tokens are {tokens:,}, for k is a thousand elsewhere in the text": {f"{other_tokens:,}": of(longer)},
            f"{racks:,} racks, which the budget's share buys": {"the printed 23.3K": of(smaller)},
            f"ways of light {coasts.factor:g} times the great circle, the middle of what is assumed": routes,
            "the scores once more, over both passes": {name: {OVERHEAD: value} for name, value in again.items()},
            "gradients alone, as in section 4.1": {"with optimizer states": {NODE: states}},
            "the bytes of the sentence before": {"those of section 4.1": {FLOW: 8 * ours[NODE] / within_s}},
        },
    )


def of_a_layer(cases: Mapping[str, Case], dense_rate: float) -> dict[str, str]:
    """Reasons for times of a layer, none without the mixture. dense_rate: of a GPU without sparsity [FLOP/s]."""
    if "moe" not in cases:
        return {}
    dense = cases["dense"]
    paper = {
        last: claims.paper_value(f"flops2024.dense.{last}")
        for last in ("forward", "recompute_overhead", "dp_scale_out_all_reduce")
    }
    mixed = claims.paper_value("flops2024.moe.dp_scale_out_all_reduce")
    slow = dense.changed(site={"gpu_rate": dense_rate}).quantities()["forward"]
    tokens = {
        last: f"a sequence of {dense.would_give(last, paper[last], 'model', 'sequence_length'):,.0f} tokens"
        for last in ("forward", "recompute_overhead")
    }
    reasons = {
        "dense.forward": f"the dense rate, of which the text speaks, gives {show(slow, 's', 4)}, "
        f"and {tokens['forward']} in place of {dense.model.sequence_length:,} the printed digits",
        "dense.recompute_overhead": f"{tokens['recompute_overhead']} would give the printed value",
        "dense.dp_scale_out_all_gather": "half of step 2; half of the printed, rounded step 2 is "
        f"{show(paper['dp_scale_out_all_reduce'] / 2, 's')}",
        "moe.dp_scale_out_all_gather": "an AllGather takes half of an AllReduce of the same data, and half of the "
        f"printed step 2 is {show(mixed / 2, 's', 3)}: no bandwidth gives both, one digit looks misprinted",
    }
    return {f"flops2024.{key}": text for key, text in reasons.items()}


def of_the_wide_area(dense: Case, coasts: Route, within_s: float) -> dict[str, str]:
    """Reasons for bytes, rate and delay between the datacenters; arguments as in `values`."""
    printed, rate, delay = map(claims.paper_value, (NODE, FLOW, DELAY))
    ours, each = dense.quantities()["wan_bytes"], dense.precision
    size, needed = show(ours, "B", 3), printed / ours * each.gradients
    return {
        NODE: f"section 4.1's exchange is {size} a device; the printed number needs {needed:.3g} bytes per parameter "
        f"in place of {each.gradients:g}",
        FLOW: f"{show(printed, 'B', 3)} in {show(within_s, 's')} are {show(printed / within_s, 'bps', 3)}; the printed "
        f"rate moves {show(rate / 8 * within_s, 'B', 3)}, near the {size} of section 4.1",
        DELAY: f"{coasts.distance_m / km:,.0f} km of great circle; the printed delay needs a factor of "
        f"{coasts.factor_for(delay):.3g}",
    }


def at_speeds(
    cases: Mapping[str, Case], points: Mapping[str, Point], ours: Mapping[str, float], rules: "pd.DataFrame"
) -> dict[str, str]:
    """Reasons for the claims at points that are not met: what meets them, which speed or another rule or reading.

    ours: of `values`. rules: first table of `curves.under_rules`.
    """
    found = {}
    for key, (model, speeds, less) in points.items():
        entry = claims.claim(key)
        met = claims.verdict(ours[key], entry.paper_value, entry.relation, entry.tolerance) == "reproduced"
        if not (met or less):
            meeting = rules[(rules.claim == key) & (rules.verdict == "reproduced")]
            others = [f"'{row.reading}' gives {row.value:.3g}" for row in meeting.itertuples()]
            found[key] = ", ".join([_speed_for(cases[model].changed(site=speeds), entry.paper_value), *others])
    return found


def over_assumptions(cases: Mapping[str, Case], rules: "pd.DataFrame") -> dict[str, str]:
    """How far the exposed share of each model's printed machine goes over the rules and over other readings, named.

    rules: as in `at_speeds`.
    """
    texts = {EXPOSED + name: _ranges(rules, name) for name in cases}
    return {key: f"over the rules {ruled}, over other readings {read}" for key, (ruled, read) in texts.items()}


def answer(
    cases: Mapping[str, Case], rules: "pd.DataFrame", timed: "pd.DataFrame", drawn: Sequence[float]
) -> "pd.DataFrame":
    """The exposed share in short, texts: a row for each kind of assumption, a column for each model.

    rules: as in `at_speeds`. timed: of `timeline.readings`. drawn: shares of the models' timelines in Fig. 2.
    """
    import pandas as pd

    columns: dict[str, list[str]] = {"exposed share of the time": [
        "by the rule chosen", "over all rules", "over other readings", "over timelines", "as Fig. 2 is drawn",
        "odd about the layout",
    ]}  # fmt: skip
    for (name, case), share in zip(cases.items(), drawn, strict=True):
        mine = timed[timed.model == name].rename(columns={"exposed_share": "value"})
        ends = (f"{float(case.share):.1%} ({case.rule})", *_ranges(rules, name), _ends(mine), f"{share:.1%}")
        columns[name] = [*ends, "; ".join(case.layout.warnings) or "nothing"]
    return pd.DataFrame(columns)


def _speed_for(case: Case, share: float) -> str:
    """Which one speed would give a share, the scale-out first; and the floor that tensor exchanges alone set."""
    for field in ("nic_Bps", "hb_Bps"):
        speed, own = case.would_give("exposed", share, "site", field), getattr(case.site, field)
        if np.isfinite(speed):
            texts = [show(value, "bps", 3) for value in (speed, own)]
            floor = "" if field == "nic_Bps" else f"two tensor exchanges alone are {_tensor_floor(case):.2%}, and "
            return f"{floor}a {NETWORKS[field]} speed of {texts[0]} in place of {texts[1]} would give the printed value"
    return "no speed of one network would give the printed value"


def _ranges(rules: "pd.DataFrame", model: str) -> tuple[str, str]:
    mine = rules[rules.claim == EXPOSED + model]
    of_rule = mine.reading.isin(RULES)
    return _ends(mine[of_rule]), _ends(mine[~of_rule])


def _ends(rows: "pd.DataFrame") -> str:
    """Least and most of a column value, with the readings that give them."""
    least, most = rows.loc[rows.value.idxmin()], rows.loc[rows.value.idxmax()]
    if np.isclose(least.value, most.value, rtol=1e-6):
        return f"{least.value:.1%}, whichever"
    return f"{least.value:.1%} ({least.reading}) to {most.value:.1%} ({most.reading})"


def _tensor_floor(case: Case) -> float:
    t = case.times
    return float(2 * t.tensor_s / (t.forward_s + t.backward_s + 2 * t.tensor_s))
