"""The claims of flops2024 on communication (sections 4, 4.1, 5, 6 and Fig. 3): values, readings, reasons, points.

Cases are named "dense" and "moe" (which a user may leave out). What rests on calibrated choices (rate, passes, rule of
overlap, bytes) is in data/calibrations.csv. At the points that Fig. 3 prints, every rule of overlap and every way of
counting is tried.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial

import numpy as np
import pandas as pd

from railcore.documents.flops2024.specification import communication_quantities, document_site, values_by_id
from railcore.documents.readings import claim_verdicts, hidden_value, joined_texts, verdict_readings
from railcore.facts import catalog, claims, files
from railcore.facts.units import Gbps, km, show, significant
from railcore.network.wide_area import Route, fibre_route
from railcore.systems.datacenter.exposed import NETWORK_NAMES, OVERLAP_RULES, TrainingCase

BYTES_PER_NODE, FLOW_RATE, ONE_WAY_DELAY = (
    f"flops2024.{name}" for name in ("wan.bytes_per_node", "wan.flow_rate", "fig3c.one_way_delay")
)
RACKS, RECOMPUTE_OVERHEAD = "flops2024.infra.racks", "flops2024.dense.recompute_overhead"
EXPOSED_SHARE = "flops2024.fig3.exposed_"  # and the model: claims of the machine as it is

Point = tuple[str, dict[str, float], dict[str, float]]  # model, speeds of the site, speeds whose share is taken off
_FIELD_OF_PANEL = {"a": "hb_Bps", "b": "nic_Bps"}
CaseChange = Callable[[TrainingCase], TrainingCase]


def ways_of_counting(gpu_rates: Mapping[str, float]) -> dict[str, CaseChange]:
    """Ways to count that the document's text allows beside its own; gpu_rates: of a GPU by name [FLOP/s]."""
    scatter = {"reduce": "reduce_scatter"}
    ways: dict[str, CaseChange] = {
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
    for panel, field in _FIELD_OF_PANEL.items():
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
        at = speeds or {field: getattr(printed, field) for field in _FIELD_OF_PANEL.values()}
        for field, speed in at.items() if not less else ():
            rows.append((NETWORK_NAMES[field], speed, model, entry.paper_value, entry.relation))
    return pd.DataFrame(rows, columns=["network", "speed_Bps", "model", "share", "relation"])


def shares_at_points(cases: Mapping[str, TrainingCase], way: CaseChange = lambda case: case) -> dict[str, float]:
    """Exposed share at each of `printed_points`, or how much it falls between two; way: of `ways_of_counting`."""
    found = {}
    for key, (model, speeds, less) in printed_points(cases).items():
        high = way(cases[model].changed(site=speeds)).share
        found[key] = float(high - way(cases[model].changed(site=less)).share if less else high)
    return found


def shares_under_rules(cases: Mapping[str, TrainingCase], ways: Mapping[str, CaseChange]) -> pd.DataFrame:
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


def _with(**parts: Mapping[str, object]) -> CaseChange:
    return lambda case: case.changed(**parts)


def _printed(key: str) -> str:
    entry = claims.claim(key)
    return f"{claims.RELATIONS[entry.relation]} {show(entry.paper_value * 100)}%"


def exposed_entries(
    cases: Mapping[str, TrainingCase],
    apart: TrainingCase,
    lost_rtts: float,
    rules: pd.DataFrame,
    dense_rate: float,
    other_tokens: int,
) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Values, reasons and readings of all claims on communication, for `claims.record`.

    Parameters
    ----------
    cases
        "dense" and "moe".
    apart
        The dense model over at least two datacenters.
    lost_rtts
        Round trips of tail loss.
    rules
        Of `shares_under_rules`.
    dense_rate
        Of a GPU without sparsity [FLOP/s].
    other_tokens
        Of a sequence: what "32k" may mean too.

    Returns
    -------
    Three tables by claim id.
    """
    values = exposed_values(cases, lost_rtts)
    reasons = joined_texts(
        layer_reasons(cases, dense_rate),
        point_reasons(cases, values, rules),
        assumption_reasons(cases, rules),
        wide_area_reasons(apart),
    )
    return values, reasons, exposed_readings(values, cases, lost_rtts, other_tokens)


def coasts_and_transfer_s() -> tuple[Route, float]:
    """The route between the two datacenters, and the time that section 6.3 gives a transfer between them [s]."""
    route = fibre_route("flops2024 east", "flops2024 west")
    return route, catalog.item("wide_area", "flops2024")["transfer_time"]


def exposed_values(cases: Mapping[str, TrainingCase], lost_rtts: float) -> dict[str, float]:
    """Our value of every claim on communication, in the claim's unit, by claim id.

    cases: "dense" and "moe". lost_rtts: round trips of tail loss.
    """
    coasts, within_s = coasts_and_transfer_s()
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
        | shares_at_points(cases)
        | of_the_mixture
        | {
            "flops2024.fig3c.wan_masked": 8 * max(each["wan_masked"] for each in found.values()),
            BYTES_PER_NODE: found["dense"]["wan_bytes"],
            FLOW_RATE: 8 * claims.paper_value(BYTES_PER_NODE) / within_s,
            ONE_WAY_DELAY: coasts.delay_s,
            "flops2024.dense.wan_rtt": coasts.round_trip_s,
        }
    )


def exposed_readings(
    ours: Mapping[str, float], cases: Mapping[str, TrainingCase], lost_rtts: float, other_tokens: int
) -> dict[str, str]:
    """Claims whose verdict depends on how the text is read: what was read, and what the other readings give.

    Parameters
    ----------
    ours
        Of `exposed_values`.
    cases, lost_rtts
        As there.
    other_tokens
        Of a sequence: what "32k" may mean too.

    Returns
    -------
    Texts by claim id.
    """
    if files.parameterized():
        return {}
    (coasts, within_s), dense, rtt = coasts_and_transfer_s(), cases["dense"], "flops2024.dense.wan_rtt"
    tokens, racks, fewer = dense.model.sequence_length, dense.site.racks, int(claims.paper_value(RACKS))
    longer = {name: case.changed(model={"sequence_length": other_tokens}) for name, case in cases.items()}
    smaller = {name: case.changed(site={"racks": fewer}) for name, case in cases.items()}
    ways = dict(zip((coasts.factor_low, coasts.factor_high), coasts.delays_s, strict=True))
    routes = {f"factor {factor:g}": {ONE_WAY_DELAY: delay, rtt: 2 * delay} for factor, delay in ways.items()}
    straight = coasts.delay_s / coasts.factor
    routes["great circle alone"] = {ONE_WAY_DELAY: straight, rtt: 2 * straight}
    again = {"three times, as the forward time counts them": 3 * ours[RECOMPUTE_OVERHEAD]}
    if "moe" in cases:
        mixture = cases["moe"].layer
        again["the mixture's scores over its products with weights"] = mixture.score_flops / mixture.linear_flops / 3
    kept = dense.layer.state_bytes
    states = (kept["gradients"] + kept["optimizer"]) / float(dense.layout.gpus_here)
    return verdict_readings(
        ours,
        {
            f"32k tokens are {tokens:,}, for k is a thousand elsewhere in the text": {
                f"{other_tokens:,}": exposed_values(longer, lost_rtts)
            },
            f"{racks:,} racks, which the budget's share buys": {
                "the printed 23.3K": exposed_values(smaller, lost_rtts)
            },
            f"ways of light {coasts.factor:g} times the great circle, the middle of what is assumed": routes,
            "the scores once more, over both passes": {
                name: {RECOMPUTE_OVERHEAD: value} for name, value in again.items()
            },
            "gradients alone, as in section 4.1": {"with optimizer states": {BYTES_PER_NODE: states}},
            "the bytes of the sentence before": {
                "those of section 4.1": {FLOW_RATE: 8 * ours[BYTES_PER_NODE] / within_s}
            },
        },
    )


def layer_reasons(cases: Mapping[str, TrainingCase], dense_rate: float) -> dict[str, str]:
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


def wide_area_reasons(dense: TrainingCase) -> dict[str, str]:
    """Reasons for bytes, rate and delay between the datacenters. dense: over at least two of them."""
    coasts, within_s = coasts_and_transfer_s()
    printed, rate, delay = map(claims.paper_value, (BYTES_PER_NODE, FLOW_RATE, ONE_WAY_DELAY))
    ours, each = float(dense.times.steps_bytes[2]), dense.precision
    size, needed = show(ours, "B", 3), printed / ours * each.gradients
    return {
        BYTES_PER_NODE: f"section 4.1's exchange is {size} a device; the printed number needs {needed:.3g} bytes per "
        f"parameter in place of {each.gradients:g}",
        FLOW_RATE: f"{show(printed, 'B', 3)} in {show(within_s, 's')} are {show(printed / within_s, 'bps', 3)}; the "
        f"printed rate moves {show(rate / 8 * within_s, 'B', 3)}, near the {size} of section 4.1",
        ONE_WAY_DELAY: f"{coasts.distance_m / km:,.0f} km of great circle; the printed delay needs a factor of "
        f"{coasts.factor_for(delay):.3g}",
    }


def point_reasons(cases: Mapping[str, TrainingCase], ours: Mapping[str, float], rules: pd.DataFrame) -> dict[str, str]:
    """Reasons for the claims at points that are not met: which speed, rule or other reading meets them.

    ours: values of the claims. rules: of `shares_under_rules`.
    """
    found = {}
    for key, (model, speeds, less) in printed_points(cases).items():
        if not less and claim_verdicts({key: ours[key]})[key] != "reproduced":
            meeting = rules[(rules.claim == key) & (rules.verdict == "reproduced")]
            others = [f"'{row.reading}' gives {row.value:.3g}" for row in meeting.itertuples()]
            speed = _speed_giving(cases[model].changed(site=speeds), claims.paper_value(key))
            found[key] = ", ".join([speed, *others])
    return found


def assumption_reasons(cases: Mapping[str, TrainingCase], rules: pd.DataFrame) -> dict[str, str]:
    """Least and most exposed share of each model's printed machine, over the rules and over other readings.

    rules: of `shares_under_rules`.
    """
    texts = {EXPOSED_SHARE + name: _ranges(rules, name) for name in cases}
    return {key: f"over the rules {ruled}, over other readings {read}" for key, (ruled, read) in texts.items()}


def exposed_answer(cases: Mapping[str, TrainingCase], rules: pd.DataFrame, timed: pd.DataFrame) -> str:
    """The exposed share of each model in a sentence: by the rule chosen, and over all that the tables assume.

    rules: of `shares_under_rules`. timed: of `timeline.exposed_by_assumption`.
    """
    texts = []
    for name, case in cases.items():
        ruled, _ = _ranges(rules, name)
        on_timelines = timed[timed.model == name].exposed_share
        texts.append(
            f"{case.model.name} spends {float(case.share):.1%} of its time on communication that nothing hides, by the "
            f"rule '{case.rule}'. Over all rules of overlap it is {ruled}; on timelines of chunks it is "
            f"{on_timelines.min():.1%} to {on_timelines.max():.1%}."
        )
    return " ".join(texts)


def _tokens_giving(case: TrainingCase, quantity: str, target: float) -> float:
    """Tokens of a sequence with which a quantity of `communication_quantities` is `target`."""
    return hidden_value(
        lambda tokens: communication_quantities(case.changed(model={"sequence_length": int(tokens)}))[quantity],
        target,
        case.model.sequence_length,
    )


def _speed_giving(case: TrainingCase, share: float) -> str:
    """Which one speed would give a share, the scale-out first; and the floor that tensor exchanges alone set."""
    for field in ("nic_Bps", "hb_Bps"):
        own = getattr(case.site, field)
        speed = hidden_value(partial(_share_at, case, field), share, own)
        if np.isfinite(speed):
            texts = [show(value, "bps", 3) for value in (speed, own)]
            floor = "" if field == "nic_Bps" else f"two tensor exchanges alone are {_tensor_floor(case):.2%}, and "
            network = NETWORK_NAMES[field]
            return f"{floor}a {network} speed of {texts[0]} in place of {texts[1]} would give the printed value"
    return "no speed of one network would give the printed value"


def _share_at(case: TrainingCase, field: str, speed_Bps: float) -> float:
    return float(case.changed(site={field: speed_Bps}).share)


def _ranges(rules: pd.DataFrame, model: str) -> tuple[str, str]:
    mine = rules[rules.claim == EXPOSED_SHARE + model]
    of_rule = mine.reading.isin(OVERLAP_RULES)
    return _ends(mine[of_rule]), _ends(mine[~of_rule])


def _ends(rows: pd.DataFrame) -> str:
    """Least and most of a column value, with the readings that give them."""
    least, most = rows.loc[rows.value.idxmin()], rows.loc[rows.value.idxmax()]
    if np.isclose(least.value, most.value, rtol=1e-6):
        return f"{least.value:.1%} in each"
    return f"{least.value:.1%} ({least.reading}) to {most.value:.1%} ({most.reading})"


def _tensor_floor(case: TrainingCase) -> float:
    t = case.times
    return float(2 * t.tensor_s / (t.forward_s + t.backward_s + 2 * t.tensor_s))
