"""The claims of flops2024 on transports (section 6.3, Fig. 5 and 6): values, how the text is read, and reasons.

Completion times come as tables of `transport_runs.study_runs`. With one path a flow a printed time is one draw, and
ours are the draws of all seeds: `drawn_times`.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.catalog.units import number, show
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
EXCESS = "flops2024.fig5.fct_spraying_overhead"
EXPOSED = {model: f"flops2024.transport.exposed_{model}_single_path" for model in ("dense", "moe")}
IDEAL = {model: f"flops2024.fig3.exposed_{model}" for model in EXPOSED}
ANY_SIZE, PARTIAL = "flops2024.transport.size_independence", "flops2024.transport.partial_load"


def printed_times_s() -> dict[str, float]:
    """Completion time of the last flow in Fig. 5, by transport [s]."""
    return {name: claims.paper_value(key) for name, key in FIG5.items()}


def drawn_times(runs: pd.DataFrame) -> dict[str, list[float]]:
    """Last flow of each seed where it is a draw of the hash [s], by claim: `draws` of `claims.record`.

    runs: of Fig. 5, columns transport, last_s.
    """
    return {FIG5[name]: runs.loc[runs["transport"] == name, "last_s"].tolist() for name in DRAWN}


def document_times(runs: pd.DataFrame) -> pd.DataFrame:
    """Last flow by transport as the document has it: columns transport, time_s, relation, differs (from ours).

    runs: of Fig. 5, columns transport, last_s, optimum_s.
    """
    drawn, optimum_s, rows = drawn_times(runs), float(runs["optimum_s"].median()), []
    for name, key in FIG5.items():
        mine = drawn.get(key, [optimum_s])
        rows.append(
            (name, claims.paper_value(key), "=", claims.differs(key, float(np.median(mine)), drawn.get(key, ())))
        )
    over = runs.loc[runs["transport"] == NAMED, "last_s"].median() / optimum_s - 1
    rows.append((NAMED, optimum_s * (1 + claims.paper_value(EXCESS)), "<", claims.differs(EXCESS, over)))
    return pd.DataFrame(rows, columns=["transport", "time_s", "relation", "differs"])


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
    Columns transport, model, send_bytes, send_s, least, share, most (over seeds), printed, differs (from the share).
    """
    rows = []
    for model, case in cases.items():
        ideal_s = float(case.times.pipeline_s)
        for row in times.itertuples():
            sends = [ideal_s * last / row.optimum_s for last in (row.least_s, row.median_s, row.most_s)]
            shares = [share_with_slower_sends(case, send - ideal_s) for send in sends]
            key = {"optimum": IDEAL, "single path": EXPOSED}.get(row.transport, {}).get(model)
            printed = claims.paper_value(key) if key else np.nan
            off = claims.differs(key, shares[1]) if key else False
            rows.append((row.transport, model, pipeline_send_bytes(case), sends[1], *shares, printed, off))
    return pd.DataFrame(rows, columns="transport model send_bytes send_s least share most printed differs".split())


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
    reasons = {
        FIG5["RoCEv2"]: f"the thresholds of its pauses are not printed: {_thresholds(pauses)}",
        FIG5["single path"]: "a draw of the hash: the most loaded link decides",
        EXCESS: _other_ways(times),
    }
    if len(ratios):
        ends = f"{number(ratios.min(), 3)} to {number(ratios.max(), 3)}"
        reasons[ANY_SIZE] = f"the same flows and paths in both; {len(ratios)} seeds give {ends}"
    reasons |= {EXPOSED[model]: _from_printed_start(model, case, extra_s) for model, case in cases.items()}
    return Entries(values, reasons, _readings(values, times, cases, extra_s))


def _readings(values: Mapping[str, float], times: pd.DataFrame, cases: Cases, extra_s: float) -> dict[str, str]:
    """Texts for claims whose verdict depends on how the text is read."""
    sends = exposed_by_transport(cases, times.reset_index()).query("transport == 'single path'")
    ours = {EXPOSED[row.model]: row.share for row in sends.itertuples()}
    return verdict_readings(
        values,
        {
            f"every send takes {show(extra_s, 's')} longer, as the printed times differ": {
                "our median, in proportion": ours
            },
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


def _other_ways(times: pd.DataFrame) -> str:
    """Excess of the last flow with other ways of spraying packets."""
    above = {name: times.loc[name, "over_optimum"] - 1 for name in SPRAYED if name in times.index and name != NAMED}
    others = ", ".join(f"{name} {share:.1%}" for name, share in above.items())
    return f"with its authors' queues of 8 packets {NAMED} sends trimmed packets again; other ways to spray: {others}"


def _thresholds(pauses: pd.DataFrame) -> str:
    """Median of the last flow with the least and the largest thresholds."""
    last = pauses.groupby("setting", sort=False)["last_s"].median()
    ends = (
        f"{show(time, 's', 3)} with {setting.split(' / ')[0]} packets" for setting, time in last.iloc[[0, -1]].items()
    )
    return f"medians from {' to '.join(ends)}"


def _from_printed_start(model: str, case: TrainingCase, extra_s: float) -> str:
    """The share that slower sends give from the document's starting share, and what would give the printed one."""
    start, goal = claims.paper_value(IDEAL[model]), claims.paper_value(EXPOSED[model])
    times = case.times
    compute_s = float(times.forward_s + times.backward_s)
    printed_s, goal_s, ours_s = (compute_s * share / (1 - share) for share in (start, goal, float(case.share)))
    later_s, needed_s = printed_s + 2 * extra_s, (goal_s - ours_s) / 2  # two sends, both exposed
    return (
        f"ours starts from {float(case.share):.1%}, the document from {start:.0%}, which becomes "
        f"{later_s / (compute_s + later_s):.1%}; sends {show(needed_s, 's', 3)} longer would give {goal:.0%}"
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
    least = sprayed.idxmin()
    excess = f"{sprayed[least]:.1%} ({least}) to {sprayed.max():.1%} ({sprayed.idxmax()})"
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
