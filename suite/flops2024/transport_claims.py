"""The claims of flops2024 on transports (section 6.3, Fig. 5 and 6): values, how the text is read, and reasons.

Completion times come as tables of `transport_runs.study_runs`. With one path a flow a printed time is one draw, and
ours are the draws of all seeds: `drawn_times`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.catalog.units import counted, number, show
from suite import workspace
from suite.flops2024.specification import Cases
from suite.flops2024.training_case import TrainingCase
from suite.flops2024.transport_cases import DRAWN, NAMED, SPRAYED, document_network, pipeline_send_bytes
from suite.ledger import claims
from suite.ledger.readings import Entries, verdict_readings

FIG5 = {  # completion time of the last flow, by transport
    "optimum": "flops2024.fig5.fct_optimal",
    "single path": "flops2024.fig5.fct_single_path",
    "RoCEv2": "flops2024.fig5.fct_roce",
}
GAP = "flops2024.fig5.roce_gap"  # RoCEv2 less single path
EXCESS = "flops2024.fig5.fct_spraying_overhead"
EXPOSED = {model: f"flops2024.transport.exposed_{model}_single_path" for model in ("dense", "moe")}
IDEAL = {model: f"flops2024.fig3.exposed_{model}" for model in EXPOSED}
ANY_SIZE, PARTIAL = "flops2024.transport.size_independence", "flops2024.transport.partial_load"


def printed_times_s() -> dict[str, float]:
    """Completion time of the last flow in Fig. 5, by transport [s]."""
    return {name: claims.paper_value(key) for name, key in FIG5.items()}


def drawn_times(runs: pd.DataFrame) -> dict[str, list[float]]:
    """Last flow of each seed where it is a draw of the hash [s], by claim: `draws` of `claims.record`.

    `GAP`: RoCEv2 less single path with the same partners and paths, of each seed that both have.
    runs: of Fig. 5, columns transport, seed, last_s.
    """
    last = runs[runs["transport"].isin(DRAWN)].pivot(index="seed", columns="transport", values="last_s")
    last = last.reindex(columns=DRAWN)
    times = {FIG5[name]: last[name].dropna().tolist() for name in DRAWN}
    return {**times, GAP: (last["RoCEv2"] - last["single path"]).dropna().tolist()}


def document_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Marks of the document's last flow by transport: columns transport, time_s, relation, verdict, text.

    runs: of Fig. 5, columns transport, last_s, optimum_s.
    """
    drawn, optimum_s = drawn_times(runs), float(runs["optimum_s"].median())
    ours = {key: float(np.median(drawn.get(key, [optimum_s]))) for key in FIG5.values()}
    over = runs.loc[runs["transport"] == NAMED, "last_s"].median() / optimum_s - 1
    marks = claims.marks(ours | {EXCESS: over}, drawn)
    rows = [
        (name, marks[key].value, marks[key].relation, marks[key].verdict, marks[key].text)
        for name, key in FIG5.items()
        if key in marks
    ]
    if most := marks.get(EXCESS):
        told = f"within {number(100 * most.value)}%"
        rows.append((NAMED, optimum_s * (1 + most.value), most.relation, most.verdict, told))
    return pd.DataFrame(rows, columns=["transport", "time_s", "relation", "verdict", "text"])


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
    Columns transport, model, send_bytes, send_s, least, share, most (over seeds); of the document's mark, where it has
    one, printed and verdict.
    """
    rows = []
    for model, case in cases.items():
        ideal_s = float(case.times.pipeline_s)
        for row in times.itertuples():
            sends = [ideal_s * last / row.optimum_s for last in (row.least_s, row.median_s, row.most_s)]
            shares = [share_with_slower_sends(case, send - ideal_s) for send in sends]
            key = {"optimum": IDEAL, "single path": EXPOSED}.get(row.transport, {}).get(model)
            mark = claims.marks({key: shares[1]}).get(key) if key else None
            told = (mark.value, mark.verdict) if mark else (np.nan, "")
            rows.append((row.transport, model, pipeline_send_bytes(case), sends[1], *shares, *told))
    return pd.DataFrame(rows, columns="transport model send_bytes send_s least share most printed verdict".split())


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
    drawn = drawn_times(runs)
    values = {key: float(times.loc[name, "median_s"]) for name, key in FIG5.items()}
    values[GAP] = float(np.median(drawn[GAP]))
    apart_s = values[FIG5["RoCEv2"]] - values[FIG5["single path"]]
    values |= {EXCESS: float(times.loc[NAMED, "over_optimum"] - 1), ANY_SIZE: float(ratios.median())}
    values |= {PARTIAL: float(tails.loc[0.5].median())}
    sends = exposed_by_transport(cases, times.reset_index()).query("transport == 'single path'")
    values |= {EXPOSED[row.model]: row.share for row in sends.itertuples()}
    later = {key: _reached(key, drawn[key]) for key in (FIG5["RoCEv2"], GAP)}
    reasons = {
        FIG5["RoCEv2"]: f"{later[FIG5['RoCEv2']]}. Its pause thresholds are not printed: {_thresholds(pauses)}",
        FIG5["single path"]: "a draw of the hash: the most loaded link decides",
        GAP: f"{later[GAP]}; the two medians differ by {show(apart_s, 's', 3)}. Pause thresholds are not printed",
        EXCESS: f"with its authors' queues of 8 packets {NAMED} sends trimmed packets again",
    }
    if len(ratios):
        ends = f"{number(ratios.min(), 3)} to {number(ratios.max(), 3)}"
        reasons[ANY_SIZE] = f"the same flows and paths in both; {len(ratios)} seeds give {ends}"
    reasons |= {EXPOSED[row.model]: _needed_sends(cases[row.model], row) for row in sends.itertuples()}
    return Entries(values, reasons, _readings(values, times, cases))


def _reached(claim_id: str, samples: Sequence[float]) -> str:
    """How many of our draws are the printed value or more, in words."""
    reached = sum(sample >= claims.paper_value(claim_id) for sample in samples)
    return f"{reached} of {counted(len(samples), 'seeds')} reach the printed value"


def _readings(values: Mapping[str, float], times: pd.DataFrame, cases: Cases) -> dict[str, str]:
    """Texts for claims whose verdict depends on how the text is read."""
    printed = printed_times_s()
    extra_s = printed["single path"] - printed["optimum"]
    alike = {EXPOSED[model]: round(share_with_slower_sends(case, extra_s), 4) for model, case in cases.items()}
    over = {name: round(float(times.loc[name, "over_optimum"] - 1), 3) for name in SPRAYED if name in times.index}
    others = {name: {EXCESS: share} for name, share in over.items() if name != NAMED}
    return verdict_readings(
        values,
        {
            "a send takes as many times its optimum as our median": {
                f"both models' sends {show(extra_s, 's')} longer, as the printed times differ": alike
            },
            f"{NAMED}, which the text names first": others,
        },
    ) | _dense_send(values, cases)


def _dense_send(values: Mapping[str, float], cases: Cases) -> dict[str, str]:
    """A sentence: the simulated send is the mixture's; the least time of the dense model's."""
    if workspace.parameterized() or "dense" not in cases:
        return {}
    size, sent = pipeline_send_bytes(cases["dense"]), document_network()["flow_bytes"]
    best_s = values[FIG5["optimum"]] * size / sent
    return {
        FIG5["optimum"]: f"'our 100T model' is the mixture, which sends {show(sent, 'B', 3)} (the dense one, "
        f"{show(size, 'B', 3)}: {show(best_s, 's', 3)})"
    }


def _thresholds(pauses: pd.DataFrame) -> str:
    """Median of the last flow with the least and the largest thresholds."""
    last = pauses.groupby("setting", sort=False)["last_s"].median()
    ends = (
        f"{show(time, 's', 3)} with {setting.split(' / ')[0]} packets" for setting, time in last.iloc[[0, -1]].items()
    )
    return f"medians from {' to '.join(ends)}"


def _needed_sends(case: TrainingCase, row) -> str:
    """How long a send takes with a single path, and what would give the printed share. row: of `exposed_by_transport`.

    The two sends of a step are exposed.
    """
    times, ideal_s, printed = case.times, float(case.times.pipeline_s), claims.paper_value(EXPOSED[row.model])
    compute_s = float(times.forward_s + times.backward_s)
    goal_s, ours_s = (compute_s * share / (1 - share) for share in (printed, float(case.share)))
    return (
        f"a send takes {show(row.send_s, 's', 3)} in place of {show(ideal_s, 's', 3)}; ours starts from "
        f"{float(case.share):.1%}, the document from {claims.paper_value(IDEAL[row.model]):.0%}; sends of "
        f"{show(ideal_s + (goal_s - ours_s) / 2, 's', 3)} would give {printed:.0%}"
    )


def transport_answer(times: pd.DataFrame) -> str:
    """Which transport's last flow ends first, how late one path a flow is, and what to take; sentences.

    times: of `last_flow_times`.
    """
    over = times.set_index("transport")["over_optimum"].drop("optimum")
    first = over.idxmin()
    advice = "Choose a transport that sprays packets" if first in SPRAYED else "One path a flow is enough here"
    bought = f", with {name} {over[name] - 1:.1%}" if (name := "UEC NSCC") in over.drop(first) else ""
    name, _, how = first.partition(", ")
    named = f"{name} ({how})" if how else name
    return (
        f"Where all hosts send at once, {named} ends first: its last flow comes {over[first] - 1:.1%} after the "
        f"optimum{bought.replace('UEC', 'Ultra Ethernet')}. With one path a flow it takes "
        f"{number(over['single path'], 2)} times the optimum, because a hash puts many flows on some links. {advice}."
    )
