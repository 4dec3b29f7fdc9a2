"""Values, readings and reasons of flops2024's claims on communication (sections 4, 4.1, 5, 6 and Fig. 3), by claim.

Cases are named "dense" and "moe" (which a user may leave out). What rests on calibrated choices (rate, passes, rule of
overlap, bytes) is in data/calibrations.csv.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from railcore.documents.flops2024.exposed_points import Point, shares_at_points
from railcore.documents.flops2024.quantities import communication_quantities, values_by_id
from railcore.documents.readings import claim_verdicts, hidden_value, joined_texts
from railcore.documents.readings import verdict_readings as turning
from railcore.facts import claims, files
from railcore.facts.units import km, show
from railcore.network.wide_area import Route
from railcore.systems.datacenter.exposed import OVERLAP_RULES
from railcore.systems.datacenter.scenario import Case
from railcore.systems.datacenter.sweeps import NETWORK_OF_FIELD

NODE, FLOW, DELAY = (f"flops2024.{name}" for name in ("wan.bytes_per_node", "wan.flow_rate", "fig3c.one_way_delay"))
RACKS, OVERHEAD = "flops2024.infra.racks", "flops2024.dense.recompute_overhead"
EXPOSED = "flops2024.fig3.exposed_"  # and the model: claims of the machine as it is


def exposed_entries(
    cases: Mapping[str, Case],
    apart: Case,
    points: Mapping[str, Point],
    lost_rtts: float,
    coasts: Route,
    within_s: float,
    rules: pd.DataFrame,
    dense_rate: float,
    other_tokens: int,
) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Values, reasons and readings of all claims on communication, for `claims.record`.

    Parameters
    ----------
    cases, points, lost_rtts, coasts, within_s
        As in `exposed_values`.
    apart
        The dense model over at least two datacenters.
    rules
        Of `exposed_points.shares_under_rules`.
    dense_rate
        Of a GPU without sparsity [FLOP/s].
    other_tokens
        Of a sequence: what "32k" may mean too.

    Returns
    -------
    Three tables by claim id.
    """
    values = exposed_values(cases, points, lost_rtts, coasts, within_s)
    reasons = joined_texts(
        layer_reasons(cases, dense_rate),
        point_reasons(cases, points, values, rules),
        assumption_reasons(cases, rules),
        wide_area_reasons(apart, coasts, within_s),
    )
    return values, reasons, exposed_readings(values, cases, points, lost_rtts, coasts, within_s, other_tokens)


def exposed_values(
    cases: Mapping[str, Case], points: Mapping[str, Point], lost_rtts: float, coasts: Route, within_s: float
) -> dict[str, float]:
    """Our value of every claim on communication, in the claim's unit.

    Parameters
    ----------
    cases
        "dense" and "moe".
    points
        Of `exposed_points.printed_points`.
    lost_rtts
        Round trips of tail loss.
    coasts
        The route between them.
    within_s
        Time that section 6.3 gives the wide area [s].

    Returns
    -------
    Values by claim id.
    """
    found = {name: communication_quantities(case) for name, case in cases.items()}
    of_the_mixture = {}
    if "moe" in cases:
        lossy = communication_quantities(cases["moe"].changed(site={"tail_loss_rtts": lost_rtts}))
        of_the_mixture = {
            "flops2024.fig3c.lossless_20g_exposed": found["moe"]["wan_exposed"],
            "flops2024.fig3c.tail_loss_moe_exposed": lossy["wan_exposed"],
            "flops2024.fig3c.tail_loss_moe_capacity": 8 * lossy["wan_masked"],
        }
    return (
        values_by_id(found)
        | shares_at_points(cases, points)
        | of_the_mixture
        | {
            "flops2024.fig3c.wan_masked": 8 * max(each["wan_masked"] for each in found.values()),
            NODE: found["dense"]["wan_bytes"],
            FLOW: 8 * claims.paper_value(NODE) / within_s,
            DELAY: coasts.delay_s,
            "flops2024.dense.wan_rtt": coasts.round_trip_s,
        }
    )


def exposed_readings(
    ours: Mapping[str, float],
    cases: Mapping[str, Case],
    points: Mapping[str, Point],
    lost_rtts: float,
    coasts: Route,
    within_s: float,
    other_tokens: int,
) -> dict[str, str]:
    """Claims whose verdict depends on how the text is read: what was read, and what the other readings give.

    Parameters
    ----------
    ours
        Of `exposed_values`, as the next five are.
    cases, points, lost_rtts, coasts, within_s
        As there.
    other_tokens
        Of a sequence: what "32k" may mean too.

    Returns
    -------
    Texts by claim id.
    """
    if files.parameterized():
        return {}
    dense, rtt = cases["dense"], "flops2024.dense.wan_rtt"
    tokens, racks, fewer = dense.model.sequence_length, dense.site.racks, int(claims.paper_value(RACKS))
    longer = {name: case.changed(model={"sequence_length": other_tokens}) for name, case in cases.items()}
    smaller = {name: case.changed(site={"racks": fewer}) for name, case in cases.items()}
    longer_values, smaller_values = (
        exposed_values(changed, points, lost_rtts, coasts, within_s) for changed in (longer, smaller)
    )
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
            f"32k tokens are {tokens:,}, for k is a thousand elsewhere in the text": {
                f"{other_tokens:,}": longer_values
            },
            f"{racks:,} racks, which the budget's share buys": {"the printed 23.3K": smaller_values},
            f"ways of light {coasts.factor:g} times the great circle, the middle of what is assumed": routes,
            "the scores once more, over both passes": {name: {OVERHEAD: value} for name, value in again.items()},
            "gradients alone, as in section 4.1": {"with optimizer states": {NODE: states}},
            "the bytes of the sentence before": {"those of section 4.1": {FLOW: 8 * ours[NODE] / within_s}},
        },
    )


def layer_reasons(cases: Mapping[str, Case], dense_rate: float) -> dict[str, str]:
    """Reasons for times of a layer, none without the mixture. dense_rate: of a GPU without sparsity [FLOP/s]."""
    if "moe" not in cases:
        return {}
    dense = cases["dense"]
    paper = {
        last: claims.paper_value(f"flops2024.dense.{last}")
        for last in ("forward", "recompute_overhead", "dp_scale_out_all_reduce")
    }
    mixed = claims.paper_value("flops2024.moe.dp_scale_out_all_reduce")
    slow = dense.changed(site={"gpu_rate": dense_rate}).times.forward_s
    tokens = {last: f"{_tokens_giving(dense, last, paper[last]):,.0f}" for last in ("forward", "recompute_overhead")}
    reasons = {
        "dense.forward": f"the dense rate, of which the text speaks, gives {show(slow, 's', 4)}, and a sequence of "
        f"{tokens['forward']} tokens in place of {dense.model.sequence_length:,} the printed digits",
        "dense.recompute_overhead": f"a sequence of {tokens['recompute_overhead']} tokens would give the printed value",
        "dense.dp_scale_out_all_gather": "half of step 2; half of the printed, rounded step 2 is "
        f"{show(paper['dp_scale_out_all_reduce'] / 2, 's')}",
        "moe.dp_scale_out_all_gather": "an AllGather takes half of an AllReduce of the same data, and half of the "
        f"printed step 2 is {show(mixed / 2, 's', 3)}: no bandwidth gives both, so one digit looks misprinted",
    }
    return {f"flops2024.{key}": text for key, text in reasons.items()}


def wide_area_reasons(dense: Case, coasts: Route, within_s: float) -> dict[str, str]:
    """Reasons for bytes, rate and delay between the datacenters; arguments as in `exposed_values`."""
    printed, rate, delay = map(claims.paper_value, (NODE, FLOW, DELAY))
    ours, each = float(dense.times.steps_bytes[2]), dense.precision
    size, needed = show(ours, "B", 3), printed / ours * each.gradients
    return {
        NODE: f"section 4.1's exchange is {size} a device; the printed number needs {needed:.3g} bytes per parameter "
        f"in place of {each.gradients:g}",
        FLOW: f"{show(printed, 'B', 3)} in {show(within_s, 's')} are {show(printed / within_s, 'bps', 3)}; the printed "
        f"rate moves {show(rate / 8 * within_s, 'B', 3)}, near the {size} of section 4.1",
        DELAY: f"{coasts.distance_m / km:,.0f} km of great circle; the printed delay needs a factor of "
        f"{coasts.factor_for(delay):.3g}",
    }


def point_reasons(
    cases: Mapping[str, Case], points: Mapping[str, Point], ours: Mapping[str, float], rules: pd.DataFrame
) -> dict[str, str]:
    """Reasons for the claims at points that are not met: which speed, rule or other reading meets them.

    Parameters
    ----------
    cases, points
        As in `exposed_values`.
    ours
        Values of the claims.
    rules
        Of `exposed_points.shares_under_rules`.

    Returns
    -------
    Texts by claim id.
    """
    found = {}
    for key, (model, speeds, less) in points.items():
        if not less and claim_verdicts({key: ours[key]})[key] != "reproduced":
            meeting = rules[(rules.claim == key) & (rules.verdict == "reproduced")]
            others = [f"'{row.reading}' gives {row.value:.3g}" for row in meeting.itertuples()]
            speed = _speed_giving(cases[model].changed(site=speeds), claims.paper_value(key))
            found[key] = ", ".join([speed, *others])
    return found


def assumption_reasons(cases: Mapping[str, Case], rules: pd.DataFrame) -> dict[str, str]:
    """Least and most exposed share of each model's printed machine, over the rules and over other readings.

    rules: of `exposed_points.shares_under_rules`.
    """
    texts = {EXPOSED + name: _ranges(rules, name) for name in cases}
    return {key: f"over the rules {ruled}, over other readings {read}" for key, (ruled, read) in texts.items()}


def exposed_answer(cases: Mapping[str, Case], rules: pd.DataFrame, timed: pd.DataFrame) -> str:
    """The exposed share of each model in a sentence: by the rule chosen, and over all that the tables assume.

    rules: of `exposed_points.shares_under_rules`. timed: of `timeline.exposed_by_assumption`.
    """
    texts = []
    for name, case in cases.items():
        ruled, _ = _ranges(rules, name)
        on_timelines = timed[timed.model == name].exposed_share
        texts.append(
            f"{case.model.name} spends {float(case.share):.1%} of its time on communication that nothing hides, by the "
            f"rule '{case.rule}'; over all rules {ruled}; on timelines of chunks {on_timelines.min():.1%} to "
            f"{on_timelines.max():.1%}."
        )
    return " ".join(texts)


def _tokens_giving(case: Case, quantity: str, target: float) -> float:
    """Tokens of a sequence with which a quantity of `communication_quantities` is `target`."""
    return hidden_value(
        lambda tokens: communication_quantities(case.changed(model={"sequence_length": int(tokens)}))[quantity],
        target,
        case.model.sequence_length,
    )


def _speed_giving(case: Case, share: float) -> str:
    """Which one speed would give a share, the scale-out first; and the floor that tensor exchanges alone set."""
    for field in ("nic_Bps", "hb_Bps"):
        own = getattr(case.site, field)
        speed = hidden_value(partial(_share_at, case, field), share, own)
        if np.isfinite(speed):
            texts = [show(value, "bps", 3) for value in (speed, own)]
            floor = "" if field == "nic_Bps" else f"two tensor exchanges alone are {_tensor_floor(case):.2%}, and "
            network = NETWORK_OF_FIELD[field]
            return f"{floor}a {network} speed of {texts[0]} in place of {texts[1]} would give the printed value"
    return "no speed of one network would give the printed value"


def _share_at(case: Case, field: str, speed_Bps: float) -> float:
    return float(case.changed(site={field: speed_Bps}).share)


def _ranges(rules: pd.DataFrame, model: str) -> tuple[str, str]:
    mine = rules[rules.claim == EXPOSED + model]
    of_rule = mine.reading.isin(OVERLAP_RULES)
    return _ends(mine[of_rule]), _ends(mine[~of_rule])


def _ends(rows: pd.DataFrame) -> str:
    """Least and most of a column value, with the readings that give them."""
    least, most = rows.loc[rows.value.idxmin()], rows.loc[rows.value.idxmax()]
    if np.isclose(least.value, most.value, rtol=1e-6):
        return f"{least.value:.1%} in each"
    return f"{least.value:.1%} ({least.reading}) to {most.value:.1%} ({most.reading})"


def _tensor_floor(case: Case) -> float:
    t = case.times
    return float(2 * t.tensor_s / (t.forward_s + t.backward_s + 2 * t.tensor_s))
