"""The claims of flops2024 on communication (sections 4, 4.1, 5, 6 and Fig. 3): values, readings and reasons.

Cases are named "dense" and "moe" (which a user may leave out). What rests on calibrated choices (rate, passes, rule of
overlap, bytes) is in data/calibrations.csv.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.units import Gbps, km, number, show
from railcore.datacenter.exposed import OVERLAP_RULES
from railcore.network.wide_area import Route, fibre_route
from suite import workspace
from suite.flops2024.specification import Cases, communication_quantities, document_site, values_by_id
from suite.flops2024.timeline import TIMELINE_ASSUMPTIONS, timeline
from suite.flops2024.training_case import NETWORK_NAMES, TrainingCase
from suite.ledger import claims
from suite.ledger.claim_rows import RELATIONS
from suite.ledger.readings import Entries, claim_verdicts, joined_texts, solve_for_target, verdict_readings

BYTES_PER_NODE, FLOW_RATE = "flops2024.wan.bytes_per_node", "flops2024.wan.flow_rate"
ONE_WAY_DELAY, ROUND_TRIP = "flops2024.fig3c.one_way_delay", "flops2024.dense.wan_rtt"
RECOMPUTE_OVERHEAD = "flops2024.dense.recompute_overhead"
WAN_MASKED, LOSSLESS = "flops2024.fig3c.wan_masked", "flops2024.fig3c.lossless_20g_exposed"
COMPUTE_BOUND, AT_DENSE_RATE = "flops2024.dense.compute_bound", "flops2024.moe.exposed_dense_rate"
EXPOSED_SHARE = "flops2024.fig3.exposed_"  # and the model: claims of the machine as it is
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

# By event of a timeline: the last part of its claim's id; the delay is an input.
_PRINTED_TIMES = {"forward": "forward", "backward": "backward", "tensor": "tp_time", "pipeline": "pp_time"}
_PRINTED_TIMES |= {
    f"{network} {kind}": f"dp_{network.replace('-', '_')}_all_{kind}"
    for network in ("scale-up", "scale-out")
    for kind in ("reduce", "gather")
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


def printed_marks(cases: Cases) -> pd.DataFrame:
    """Marks at `PRINTED_POINTS` that are shares; those of the machine as it is at the document's own speeds.

    Columns network, speed_Bps, model, share (printed), relation, verdict (on ours, of the cases), text, over (whether
    ours is above the printed share).
    """
    site, rows = document_site(1), []
    for key, mark in claims.marks(shares_at_points(cases)).items():
        model, speeds, faster = PRINTED_POINTS[key]
        at = speeds or {"hb_Bps": float(site.hb_Bps), "nic_Bps": float(site.nic_Bps)}
        told = (model, mark.value, mark.relation, mark.verdict, _percent(mark), mark.ours > mark.value)
        rows += [] if faster else [(NETWORK_NAMES[net], speed, *told) for net, speed in at.items()]
    return pd.DataFrame(rows, columns=["network", "speed_Bps", "model", "share", "relation", "verdict", "text", "over"])


def _percent(mark: claims.Mark) -> str:
    """The document's share in words: "≥ 40%"."""
    return f"{RELATIONS[mark.relation]} {number(100 * mark.value)}%".removeprefix("= ")


def printed_speeds() -> dict[str, list[float]]:
    """Speeds that the document names, by network [bytes/s]."""
    site = document_site(1)
    named = {"hb_Bps": {float(site.hb_Bps)}, "nic_Bps": {float(site.nic_Bps)}}
    for _, *speeds in PRINTED_POINTS.values():
        for at in speeds:
            for field, speed_Bps in at.items():
                named[field].add(speed_Bps)
    named["wan_Bps"] = {claims.paper_value(WAN_MASKED) / 8}
    return {NETWORK_NAMES[field]: sorted(speeds) for field, speeds in named.items()}


def hidden_delay(cases: Cases) -> tuple[float, str, str] | None:
    """Wide-area speed from which the document hides the delay [bytes/s], our verdict, and both in words; or no mark."""
    least = {name: communication_quantities(case)["wan_masked"] for name, case in cases.items()}
    mark = claims.marks({WAN_MASKED: _masked_bps(cases)}).get(WAN_MASKED)
    if not mark:
        return None
    names = {"moe": "mixture"}
    ours = "\n".join(f"{show(speed, 'bps', 2)} ({names.get(name, name)})" for name, speed in least.items())
    delay = show(claims.paper_value(ONE_WAY_DELAY), "s")
    words = f"document: at least\n{mark.text} hide {delay}\nours: {ours}"
    return mark.value / 8, mark.verdict, words


def printed_durations(cases: Cases) -> dict[str, dict[str, tuple[float, str]]]:
    """By model, marks of a timeline's events: the document's time [s] and our verdict, by event."""
    printed: dict[str, dict[str, tuple[float, str]]] = {}
    for model, case in cases.items():
        ours, keys = communication_quantities(case), {"propagation": ONE_WAY_DELAY}
        keys |= {event: f"flops2024.{model}.{name}" for event, name in _PRINTED_TIMES.items()}
        values = {key: _delay_s(case) if key == ONE_WAY_DELAY else ours[key.split(".")[2]] for key in keys.values()}
        marks = claims.marks(values)
        printed[model] = {event: (marks[key].value, marks[key].verdict) for event, key in keys.items() if key in marks}
    return printed


def printed_shares(cases: Cases) -> dict[str, str]:
    """Marks of the exposed share of each model on the machine as it is, in words."""
    marks = claims.marks({EXPOSED_SHARE + name: float(case.share) for name, case in cases.items()})
    return {key.removeprefix(EXPOSED_SHARE): _percent(mark) for key, mark in marks.items()}


def _delay_s(case: TrainingCase) -> float:
    return float(case.site.one_way_delay_s)


def shares_at_points(cases: Cases, way: CaseChange = lambda case: case) -> dict[str, float]:
    """Exposed share at each of `PRINTED_POINTS`, or how much it falls between two; way: of `ways_of_counting`."""
    shares = {}
    for key, (model, speeds, faster) in PRINTED_POINTS.items():
        if model in cases:
            high = way(cases[model].changed(site=speeds)).share
            shares[key] = float(high - way(cases[model].changed(site=faster)).share if faster else high)
    return shares


def shares_under_rules(cases: Cases, ways: Mapping[str, CaseChange]) -> pd.DataFrame:
    """What each rule of overlap gives at the printed points, beside the printed value, and its verdict.

    ways: of `ways_of_counting`, under the rule of the cases. Columns reading, claim, paper_value, value, verdict.
    """
    rows = []
    for reading, way in {**{rule: _with(rule=rule) for rule in OVERLAP_RULES}, **ways}.items():
        for key, value in shares_at_points(cases, way).items():
            rows.append((reading, key, claims.paper_value(key), value, claim_verdicts({key: value})[key]))
    return pd.DataFrame(rows, columns=["reading", "claim", "paper_value", "value", "verdict"])


def exposed_entries(
    cases: Cases, apart: TrainingCase, lost_rtts: float, rules: pd.DataFrame, dense_rate: float, other_tokens: int
) -> Entries:
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
    values = exposed_values(cases, lost_rtts) | share_at_dense_rate(cases, dense_rate)
    reasons = joined_texts(
        layer_reasons(cases, dense_rate),
        point_reasons(cases, values, rules),
        assumption_reasons(cases, rules),
        wide_area_reasons(apart),
        masking_reasons(cases),
    )
    return Entries(values, reasons, exposed_readings(values, cases, lost_rtts, other_tokens))


def _masked_bps(cases: Cases) -> float:
    """Least wide-area capacity of a GPU that hides step 3 in every case [bit/s]."""
    return 8 * max(communication_quantities(case)["wan_masked"] for case in cases.values())


def coasts_and_transfer_s() -> tuple[Route, float]:
    """The route between the two datacenters, and the time that section 6.3 gives a transfer between them [s]."""
    route = fibre_route("flops2024 east", "flops2024 west")
    return route, catalog.item("wide_area", "flops2024")["transfer_time"]


def exposed_values(cases: Cases, lost_rtts: float) -> dict[str, float]:
    """Our value of every claim on communication, in the claim's unit, by claim id.

    cases: "dense" and "moe". lost_rtts: round trips of tail loss.
    """
    coasts, within_s = coasts_and_transfer_s()
    quantities = {name: communication_quantities(case) for name, case in cases.items()}
    values = values_by_id(quantities) | shares_at_points(cases)
    if "moe" in cases:
        lossy = communication_quantities(cases["moe"].changed(site={"tail_loss_rtts": lost_rtts}))
        values |= {
            LOSSLESS: quantities["moe"]["wan_exposed"],
            "flops2024.fig3c.tail_loss_moe_exposed": lossy["wan_exposed"],
            "flops2024.fig3c.tail_loss_moe_capacity": 8 * lossy["wan_masked"],
        }
    return values | {
        WAN_MASKED: _masked_bps(cases),
        BYTES_PER_NODE: quantities["dense"]["wan_bytes"],
        FLOW_RATE: 8 * claims.paper_value(BYTES_PER_NODE) / within_s,
        ONE_WAY_DELAY: coasts.delay_s,
        ROUND_TRIP: coasts.round_trip_s,
    }


def share_at_dense_rate(cases: Cases, dense_rate: float) -> dict[str, float]:
    """The mixture's exposed share at the rate of a GPU without sparsity [FLOP/s], none without the mixture."""
    return {AT_DENSE_RATE: float(cases["moe"].changed(site={"gpu_rate": dense_rate}).share)} if "moe" in cases else {}


def exposed_readings(ours: Mapping[str, float], cases: Cases, lost_rtts: float, other_tokens: int) -> dict[str, str]:
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
    if workspace.parameterized():  # the printed racks may not hold the user's models
        return {}
    (coasts, within_s), dense = coasts_and_transfer_s(), cases["dense"]
    racks, printed_racks = dense.site.racks, int(claims.paper_value("flops2024.infra.racks"))
    longer = {name: case.changed(model={"sequence_length": other_tokens}) for name, case in cases.items()}
    smaller = {name: case.changed(site={"racks": printed_racks}) for name, case in cases.items()}
    factors = dict(zip((coasts.factor_low, coasts.factor_high), coasts.delay_range_s, strict=True))
    delays = {f"factor {factor:g}": delay for factor, delay in factors.items()}
    delays["great circle alone"] = coasts.delay_s / coasts.factor
    overheads = {"three times, as the forward time counts them": 3 * ours[RECOMPUTE_OVERHEAD]}
    if "moe" in cases:
        one = cases["moe"].layer
        overheads["the mixture's scores over its products with weights"] = float(one.score_flops / one.linear_flops / 3)
    state = dense.layer.state_bytes
    with_optimizer = (state["gradients"] + state["optimizer"]) / float(dense.layout.gpus_here)
    return verdict_readings(
        ours,
        {
            f"32k tokens are {dense.model.sequence_length:,}, as k is a thousand elsewhere": {
                f"{other_tokens:,}": exposed_values(longer, lost_rtts)
            },
            f"{racks:,} racks, which the budget's share buys": {
                "the printed 23.3K": exposed_values(smaller, lost_rtts)
            },
            f"ways of light {coasts.factor:g} times the great circle, the middle of what is assumed": {
                name: {ONE_WAY_DELAY: delay, ROUND_TRIP: 2 * delay} for name, delay in delays.items()
            },
            "the scores once more, over both passes": {
                name: {RECOMPUTE_OVERHEAD: share} for name, share in overheads.items()
            },
            "gradients alone, as in section 4.1": {"with optimizer states": {BYTES_PER_NODE: with_optimizer}},
            "the bytes of the sentence before": {
                "those of section 4.1": {FLOW_RATE: 8 * ours[BYTES_PER_NODE] / within_s}
            },
            "30 ms of propagation, as the sentence has it": {
                "the round trip of section 4.1": {WAN_MASKED: _masked_bps(_as_far_again(cases))}
            },
            "the exchange of section 4.1": {"the 300 MB of section 6.3": _with_more_bytes(cases)},
            "the longest step": {"all five in turn, with the 300 MB of section 6.3": _in_turn(dense)},
        },
    )


def _as_far_again(cases: Cases) -> Cases:
    return {name: case.changed(site={"one_way_delay_s": 2 * case.site.one_way_delay_s}) for name, case in cases.items()}


def _printed_wide_s(case: TrainingCase) -> float:
    """Step 3 with the bytes that section 6.3 prints [s]."""
    return float(claims.paper_value(BYTES_PER_NODE) / case.site.wan_Bps + case.site.one_way_delay_s)


def _with_more_bytes(cases: Cases) -> dict[str, float]:
    if "moe" not in cases:
        return {}
    return {LOSSLESS: max(0.0, _printed_wide_s(cases["moe"]) - float(cases["moe"].times.backward_s))}


def _in_turn(dense: TrainingCase) -> dict[str, float]:
    reduces, gathers = dense.times.steps_s[:2], dense.times.steps_s[3:]
    return {COMPUTE_BOUND: float((sum(reduces) + _printed_wide_s(dense) + sum(gathers)) / dense.times.backward_s)}


def masking_reasons(cases: Cases) -> dict[str, str]:
    """Reasons for what the mixture's backward pass hides, none without the mixture."""
    if "moe" not in cases:
        return {}
    case = cases["moe"]
    times, site = case.times, case.site
    wide_s, printed_Bps = float(times.steps_s[2]), claims.paper_value(WAN_MASKED) / 8
    delay_s, wan_Bps = float(np.max(site.one_way_delay_s)), float(np.max(site.wan_Bps))
    enough_s = float(times.backward_s - times.steps_bytes[2] / printed_Bps)
    return {
        WAN_MASKED: f"the mixture's {show(times.steps_bytes[2], 'B', 3)} and {show(delay_s, 's')} end "
        f"within its backward pass of {show(times.backward_s, 's', 3)}; at {show(wan_Bps, 'bps')} they take "
        f"{show(wide_s, 's', 3)}; {show(enough_s, 's', 3)} of propagation would give the printed value",
        AT_DENSE_RATE: f"section 2's dense rate doubles the passes and hides the AllReduce of "
        f"{show(times.steps_s[1], 's', 3)}; at the sparse rate, which gives the printed times, the share is "
        f"{float(case.share):.1%}",
        "flops2024.dense.backward": "twice the forward pass, as section 6 says; it cuts the digits off first: 132 ms",
    }


def layer_reasons(cases: Cases, dense_rate: float) -> dict[str, str]:
    """Reasons for times of a layer, none without the mixture. dense_rate: of a GPU without sparsity [FLOP/s]."""
    if "moe" not in cases:
        return {}
    dense, printed = cases["dense"], claims.paper_value
    slow = dense.changed(site={"gpu_rate": dense_rate}).times.forward_s
    half, mixture_half = (printed(f"flops2024.{model}.dp_scale_out_all_reduce") / 2 for model in ("dense", "moe"))
    return {
        "flops2024.dense.forward": f"the dense rate, of which the text speaks, gives {show(slow, 's', 4)}, and a "
        f"sequence of {_tokens_giving(dense, 'forward')} tokens in place of {dense.model.sequence_length:,} the "
        "printed digits",
        RECOMPUTE_OVERHEAD: f"a sequence of {_tokens_giving(dense, 'recompute_overhead')} tokens would give the "
        "printed value",
        "flops2024.dense.dp_scale_out_all_gather": "half of step 2; half of the printed, rounded step 2 is "
        f"{show(half, 's')}",
        "flops2024.moe.dp_scale_out_all_gather": "an AllGather takes half of an AllReduce of the same data, and "
        f"half of the printed step 2 is {show(mixture_half, 's', 3)}: no bandwidth gives both, so one digit looks "
        "misprinted",
    }


def wide_area_reasons(dense: TrainingCase) -> dict[str, str]:
    """Reasons for bytes, rate and delay between the datacenters. dense: over at least two of them."""
    coasts, within_s = coasts_and_transfer_s()
    printed, rate, delay = map(claims.paper_value, (BYTES_PER_NODE, FLOW_RATE, ONE_WAY_DELAY))
    ours, step = float(dense.times.steps_bytes[2]), dense.precision
    size, needed = show(ours, "B", 3), printed / ours * step.gradients
    return {
        BYTES_PER_NODE: f"section 4.1's exchange is {size} a device; the printed number needs {needed:.3g} bytes per "
        f"parameter in place of {step.gradients:g}",
        FLOW_RATE: f"{show(printed, 'B', 3)} in {show(within_s, 's')} are {show(printed / within_s, 'bps', 3)}; the "
        f"printed rate moves {show(rate / 8 * within_s, 'B', 3)}, near the {size} of section 4.1",
        ONE_WAY_DELAY: f"{coasts.distance_m / km:,.0f} km of great circle; the printed delay needs a factor of "
        f"{coasts.factor_for(delay):.3g}",
    }


def point_reasons(cases: Cases, ours: Mapping[str, float], rules: pd.DataFrame) -> dict[str, str]:
    """Reasons for the claims at points that are not met: which speed, rule or other reading meets them.

    ours: values of the claims. rules: of `shares_under_rules`.
    """
    shares = {}
    for key, (model, speeds, faster) in PRINTED_POINTS.items():
        if model in cases and not faster and claim_verdicts({key: ours[key]})[key] != "reproduced":
            meeting = rules[(rules.claim == key) & (rules.verdict == "reproduced")]
            others = [f"'{row.reading}' gives {row.value:.3g}" for row in meeting.head(1).itertuples()]
            speed = _speed_giving(cases[model].changed(site=speeds), claims.paper_value(key))
            shares[key] = "; ".join([speed, *others])
    return shares


def assumption_reasons(cases: Cases, rules: pd.DataFrame) -> dict[str, str]:
    """Least and most exposed share of each model's printed machine over the rules.

    rules: of `shares_under_rules`.
    """
    ruled = rules[rules.reading.isin(OVERLAP_RULES)].groupby("claim").value
    least, most = ruled.min(), ruled.max()
    return {
        key: f"over all rules {least[key]:.1%} to {most[key]:.1%}" for key in (EXPOSED_SHARE + name for name in cases)
    }


def exposed_answer(cases: Cases, machine: str, chunks: int) -> str:
    """The exposed share of each model, the most that another count of the overlap gives, and the network to speed up.

    machine: in words. chunks: of the gradients, on the timelines.
    """
    names = {"dense": "dense model", "moe": "mixture of experts"}
    shares = {name: float(case.share) for name, case in cases.items()}
    told = " and ".join(f"{number(100 * share, 2)}% with a {names[key]}" for key, share in shares.items())
    others = [float(case.changed(rule=rule).share) for case in cases.values() for rule in OVERLAP_RULES]
    timed = [timeline(c.times, c.site, chunks, **options) for c in cases.values() for options in TIMELINE_ASSUMPTIONS]
    most = max(*others, *(float(view.share) for view in timed))
    longest = max(shares, key=lambda name: shares[name])
    case = cases[longest]
    best = min(NETWORK_NAMES, key=lambda field: _share_at(case, field, 2 * getattr(case.site, field)))
    return (
        f"On {machine}, training waits for communication for this share of its time: {told}; other ways to count the "
        f"overlap give up to {number(100 * most, 2)}%. "
        f"Spend first on the {NETWORK_NAMES[best]} network: twice its speed helps the {names[longest]} most."
    )


def _tokens_giving(dense: TrainingCase, name: str) -> str:
    """Tokens of a sequence with which one of `communication_quantities` is as printed for the dense model."""

    def quantity(tokens: float) -> float:
        return communication_quantities(dense.changed(model={"sequence_length": int(tokens)}))[name]

    printed = claims.paper_value(f"flops2024.dense.{name}")
    return f"{solve_for_target(quantity, printed, dense.model.sequence_length):,.0f}"


def _speed_giving(case: TrainingCase, share: float) -> str:
    """Which one speed would give a share, the scale-out first; and the floor that tensor exchanges alone set."""
    t = case.times
    floor = float(2 * t.tensor_s / (t.forward_s + t.backward_s + 2 * t.tensor_s))
    for field, words in (("nic_Bps", ""), ("hb_Bps", f"two tensor exchanges alone are {floor:.2%}; ")):
        default = getattr(case.site, field)
        speed = solve_for_target(partial(_share_at, case, field), share, default)
        if np.isfinite(speed):
            return f"{words}{NETWORK_NAMES[field]} of {show(speed, 'bps', 3)} would give the printed value"
    return "no speed of one network would give the printed value"


def _share_at(case: TrainingCase, field: str, speed_Bps: float) -> float:
    return float(case.changed(site={field: speed_Bps}).share)


def _with(**fields: Any) -> CaseChange:
    return lambda case: case.changed(**fields)
