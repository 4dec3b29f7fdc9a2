"""The claims of flops2024 on transports (section 6.3, Fig. 5 and 6): values, how the text is read, and reasons.

Completion times come as tables of `runs.study_runs`. A printed time is one draw; ours is the median over seeds.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.documents.flops2024.specification import Cases
from railcore.documents.flops2024.transport_cases import SPRAYED, pipeline_send_bytes
from railcore.documents.readings import Entries, verdict_readings
from railcore.engines.datacenter.training_case import TrainingCase
from railcore.facts import claims
from railcore.facts.units import number, show

FIG5 = {  # completion time of the last flow, by transport
    "optimum": "flops2024.fig5.fct_optimal",
    "single path": "flops2024.fig5.fct_single_path",
    "RoCEv2": "flops2024.fig5.fct_roce",
}
EXCESS = "flops2024.fig5.fct_spraying_overhead"
EXPOSED = {model: f"flops2024.transport.exposed_{model}_single_path" for model in ("dense", "moe")}
IDEAL = {model: f"flops2024.fig3.exposed_{model}" for model in EXPOSED}
ANY_SIZE, PARTIAL = "flops2024.transport.size_independence", "flops2024.transport.partial_load"
NAMED = next(iter(SPRAYED))  # of those that spray, the one that stands for them


def printed_times_s() -> dict[str, float]:
    """Completion time of the last flow in Fig. 5, by transport [s]."""
    return {name: claims.paper_value(key) for name, key in FIG5.items()}


def last_flow_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Completion time of the last flow over seeds: the optimum, then a row for each transport as the runs have them.

    Columns transport, seeds, optimum_s, least_s, median_s, most_s, over_optimum (median), printed_s,
    seeds_up_to_printed (share of the seeds that end no later than the document's draw).
    """
    rows, printed = [], printed_times_s()
    ideal = runs[runs["transport"] == runs["transport"].iloc[0]]
    ideal = ideal.assign(transport="optimum", last_s=ideal["optimum_s"])
    for name, part in pd.concat([ideal, runs]).groupby("transport", sort=False):
        last, one = part["last_s"], printed.get(str(name), np.nan)
        over = (last / part["optimum_s"]).median()
        times = (part["optimum_s"].median(), last.min(), last.median(), last.max())
        rows.append((name, len(part), *times, over, one, (last <= one).mean() if np.isfinite(one) else np.nan))
    columns = "transport seeds optimum_s least_s median_s most_s over_optimum printed_s seeds_up_to_printed"
    return pd.DataFrame(rows, columns=columns.split())


def share_with_slower_sends(case: TrainingCase, extra_s: float) -> float:
    """Exposed share where each send to the next stage takes `extra_s` longer [s], by the case's rule of overlap."""
    times = case.times
    return float(replace(times, pipeline_s=times.pipeline_s + extra_s).share(case.rule))


def exposed_by_transport(cases: Cases, times: pd.DataFrame) -> pd.DataFrame:
    """Exposed share of each model with each transport: a stage waits for the last flow of all.

    times: of `last_flow_times`. A send of another size takes as many times its optimum.
    Columns transport, model, send_bytes, send_s, least, share, most (over seeds), printed.
    """
    rows = []
    for model, case in cases.items():
        ideal_s = float(case.times.pipeline_s)
        for row in times.itertuples():
            sends = [ideal_s * last / row.optimum_s for last in (row.least_s, row.median_s, row.most_s)]
            shares = (share_with_slower_sends(case, send - ideal_s) for send in sends)
            key = {"optimum": IDEAL, "single path": EXPOSED}.get(row.transport, {}).get(model)
            printed = claims.paper_value(key) if key else np.nan
            rows.append((row.transport, model, pipeline_send_bytes(case), sends[1], *shares, printed))
    return pd.DataFrame(rows, columns="transport model send_bytes send_s least share most printed".split())


def transport_claims(runs: pd.DataFrame, small: pd.DataFrame, pauses: pd.DataFrame, cases: Cases) -> Entries:
    """Values, reasons and readings of the claims on transports, for `claims.record`.

    Parameters
    ----------
    runs, small, pauses
        Runs of Fig. 5, of Fig. 6, and of `transport_cases.pause_settings`. A seed draws the same paths for the same
        flows in all of them.
    cases
        "dense" and "moe".

    Returns
    -------
    Three tables by claim id.
    """
    times = last_flow_times(runs).set_index("transport")
    one_path = small[small["transport"] == "single path"]
    tails = one_path.assign(over=one_path["last_s"] / one_path["optimum_s"])
    tails = tails.pivot(index="load", columns="seed", values="over").reindex([0.5, 1.0])
    large = runs[runs["transport"] == "single path"].set_index("seed")
    ratios = (tails.loc[1.0] / (large["last_s"] / large["optimum_s"])).dropna()
    printed = printed_times_s()
    extra_s = printed["single path"] - printed["optimum"]
    values = {key: float(times.loc[name, "median_s"]) for name, key in FIG5.items()}
    values |= {EXCESS: float(times.loc[NAMED, "over_optimum"] - 1), ANY_SIZE: float(ratios.median())}
    values |= {PARTIAL: float(tails.loc[0.5].median())}
    values |= {EXPOSED[model]: share_with_slower_sends(case, extra_s) for model, case in cases.items()}
    reasons = {FIG5[name]: _draws(times.loc[name]) for name in ("single path", "RoCEv2")}
    reasons[FIG5["RoCEv2"]] += f"; its pause thresholds are not printed: {_thresholds(pauses)}"
    above = {name: times.loc[name, "over_optimum"] - 1 for name in SPRAYED if name in times.index}
    excesses = ", ".join(f"{name} {each:.1%}" for name, each in above.items())
    reasons[EXCESS] = f"the way of spraying and the queues are not printed; last flow, median of the seeds: {excesses}"
    if len(ratios):
        ends = f"{number(ratios.min(), 3)} to {number(ratios.max(), 3)}"
        reasons[ANY_SIZE] = f"the same flows and paths in both; {len(ratios)} seeds give {ends}"
    reasons |= {EXPOSED[model]: _from_printed_start(model, case, extra_s) for model, case in cases.items()}
    return Entries(values, reasons, _readings(values, times, cases, extra_s))


def _readings(values: Mapping[str, float], times: pd.DataFrame, cases: Cases, extra_s: float) -> dict[str, str]:
    """Texts for claims whose verdict depends on how the text is read."""
    ends = {
        f"the {word} of the seeds": {FIG5[name]: float(times.loc[name, f"{word}_s"]) for name in list(FIG5)[1:]}
        for word in ("least", "most")
    }
    others = {
        name: {EXCESS: float(times.loc[name, "over_optimum"] - 1)}
        for name in SPRAYED
        if name in times.index and name != NAMED
    }
    sends = exposed_by_transport(cases, times.reset_index()).query("transport == 'single path'")
    ours = {EXPOSED[row.model]: row.share for row in sends.itertuples()}
    return verdict_readings(
        values,
        {
            f"median of {int(times.loc['single path', 'seeds'])} seeds, for the printed time is one draw": ends,
            f"{NAMED}, for the text says all": others,
            f"every send takes {show(extra_s, 's')} longer, the difference of the printed times": {
                "our median, in proportion to the send": ours
            },
        },
    )


def _draws(row: pd.Series) -> str:
    """How a printed completion time lies among our seeds."""
    below, seeds = round(row["seeds_up_to_printed"] * row["seeds"]), int(row["seeds"])
    ends = " to ".join(show(row[end], "s", 3) for end in ("least_s", "most_s"))
    return f"the printed time is one draw: our {seeds} seeds give {ends}; {below} of them end by then"


def _thresholds(pauses: pd.DataFrame) -> str:
    """Range of the last flow over the seeds with the least and the largest thresholds."""
    told = []
    last = pauses.groupby("setting", sort=False)["last_s"].agg(["size", "min", "max"])
    for setting, seeds, least, most in last.iloc[[0, -1]].itertuples():
        pause, resume = setting.split(" / ")
        ends = f"{seeds} seeds give {show(least, 's', 3)} to {show(most, 's', 3)}"
        told.append(f"pausing at {pause} packets and going on at {resume}, {ends}")
    return "; ".join(told)


def _from_printed_start(model: str, case: TrainingCase, extra_s: float) -> str:
    """What the slower sends make of the share that the document starts from, and what would give the printed one."""
    start, goal = claims.paper_value(IDEAL[model]), claims.paper_value(EXPOSED[model])
    times = case.times
    compute_s = float(times.forward_s + times.backward_s)
    printed_s, goal_s, ours_s = (compute_s * share / (1 - share) for share in (start, goal, float(case.share)))
    later_s, needed_s = printed_s + 2 * extra_s, (goal_s - ours_s) / 2  # two sends, both exposed
    return (
        f"with an ideal transport ours is {float(case.share):.1%}, and {start:.0%} is printed; from the printed one, "
        f"the slower sends give {later_s / (compute_s + later_s):.1%}; from ours, sends that take "
        f"{show(needed_s, 's', 3)} longer give the printed {goal:.0%}"
    )


def exposed_text(exposed: pd.DataFrame) -> str:
    """What transports cost the document's training steps, in a sentence. exposed: of `exposed_by_transport`."""
    shares = exposed.set_index(["model", "transport"])["share"]
    cost = "; ".join(
        f"{words} {shares[model, 'optimum']:.1%} with an ideal transport, {shares[model, 'single path']:.1%} with a "
        f"single path, {shares[model, 'RoCEv2']:.1%} with RoCEv2"
        for model, words in (("dense", "dense"), ("moe", "mixture"))
        if (model, "optimum") in shares.index
    )
    return f"Exposed share of a training step: {cost}."


def transport_answer(times: pd.DataFrame, loads: pd.DataFrame, network: Mapping[str, float]) -> str:
    """The answer in a few sentences.

    times: of `last_flow_times`. loads: draws of the hash, column load: flows on the most loaded link. network: hosts,
    hosts_per_leaf, link_Bps and flow_bytes.
    """
    rows = times.set_index("transport")
    shown = {name: show(row["median_s"], "s", 3) for name, row in rows.iterrows()}
    sprayed = rows["over_optimum"][[name for name in rows.index if name in SPRAYED]] - 1
    least, most = sprayed.idxmin(), sprayed.idxmax()
    excess = f"{sprayed[least]:.1%} ({least}) to {sprayed[most]:.1%} ({most})"
    drawn = ", ".join(
        f"{name} {shown[name]} ({show(rows.loc[name, 'least_s'], 's', 3)} to {show(rows.loc[name, 'most_s'], 's', 3)})"
        for name in ("single path", "RoCEv2")
    )
    hosts, size, link = network["hosts"], show(network["flow_bytes"], "B", 3), show(network["link_Bps"], "bps")
    return (
        f"{hosts:,} hosts send {size} each over {link}. The last flow ends after {shown['optimum']} at best, and "
        f"{excess} later where packets are sprayed. With one path a flow it is a draw of the hash: {drawn}, median and "
        f"range of {int(rows.loc['single path', 'seeds'])} seeds. In half of {len(loads):,} draws the most loaded link "
        f"has {number(loads['load'].median())} flows or more."
    )
