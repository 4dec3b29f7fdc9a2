"""The packet model held against published runs of htsim, a public packet simulator: every row, with its error.

Two files: data/measured/transport_reference.csv has permutations with several transports, their slowdown over one flow
alone; data/measured/transport_uec.csv has Ultra Ethernet's two congestion controls, first and last flow of each run.
Draws differ: only distributions and sizes of effects can agree. What a file does not print of a run cannot be compared.
"""

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import files
from railcore.catalog.units import Gbps, number
from railcore.transport import levels
from railcore.transport.optimum import Framing
from suite.flops2024.transport_runs import case_grid, runs_of_cases

NAMES = {  # of the files, and ours
    "roce": "RoCEv2",
    "single_path": "single path",
    "spraying": "spraying",
    "ndp": "NDP",
    "nscc": "UEC NSCC",
    "rccc": "UEC RCCC of July 2024",
}
SINGLE_SEEDS = 6  # times as many where one seed is published: it is held against our range
SEEDS = 10  # of ours, for each row of the first file; the second takes one
STATISTICS = {"mean": "mean_s", "p50": "p50_s", "p99": "p99_s", "last": "last_s"}
TOLERANCES = {  # of the reference's mean over its seeds, by statistic; single path and lossless are the last two
    "mean": {"spraying": 0.05, "ndp": 0.05, "single_path": 0.10, "roce": 0.10},
    "p99": {"spraying": 0.10, "ndp": 0.10, "single_path": 0.15, "roce": 0.15},
    "last": dict.fromkeys(("spraying", "ndp", "single_path", "roce"), 0.10),
}
STANDARD_ERRORS = 2  # of the reference's own spread, where that is wider
RANGE = (0.05, 0.95)  # of our seeds, for a row that has no others
ROUNDING = 1e-9
ORDER_DIFFERENCE = 0.05  # rows of the reference that differ by more must come in the same order
MTU_BYTES, HEADER_BYTES = 4086, 64  # of the second file: 4,150 bytes on the wire
ROUND_TRIP_S = 4e-6  # of the second file, for each tier: two cables of 1 us and back
LONG_PRODUCTS = 40  # of link rate and round trip, from which on a flow is long
UEC_RULES = {  # tolerance of the last flow's time, and the share of the rows that must meet it
    "nscc, full bisection": (0.25, 0.80),
    "rccc, full bisection": (0.10, 0.80),
    "nscc, oversubscribed, long flows": (0.10, 1.0),
    "rccc, oversubscribed, long flows": (0.10, 1.0),
    "incast, below 8 senders": (0.05, 1.0),
    "incast, from 8 senders": (0.03, 1.0),
}


@cache
def _rows(name: str) -> pd.DataFrame:
    return pd.read_csv(files.data(f"measured/{name}.csv"))


def reference_rows() -> pd.DataFrame:
    """Published permutations by transport, hosts and seed: slowdowns over one flow alone; data/README.md."""
    return _rows("transport_reference").copy()


def uec_rows() -> pd.DataFrame:
    """Published runs of Ultra Ethernet's congestion controls, with the optimum of each.

    optimum_s: packets of a flow on the wire at the rate of a link, and one round trip; times the oversubscription in a
    permutation, times the senders in an incast. Columns otherwise as data/README.md has them, times in s.
    """
    rows = _rows("transport_uec").copy()
    for name in ("first", "last", "start_spread"):
        rows[f"{name}_s"] = rows.pop(f"{name}_us") / 1e6
    rows["link_Bps"] = rows.pop("link_gbps") * Gbps
    shared = np.where(rows["pattern"] == "incast", rows["senders"], rows["oversubscription"])
    wire_s = Framing(MTU_BYTES, HEADER_BYTES).wire_bytes(rows["flow_bytes"]) / rows["link_Bps"]
    return rows.assign(optimum_s=wire_s * shared + ROUND_TRIP_S * rows["tiers"])


@cache
def reference_cases(seeds: int = SEEDS) -> tuple[dict[str, Any], ...]:
    """Each transport and size of `reference_rows` with so many seeds of ours, and more where one seed is published."""
    cases = []
    for _, group in reference_rows().groupby(["transport", "hosts"], sort=False):
        row: Any = next(group.itertuples())
        cases += case_grid(
            transport=NAMES[row.transport],
            hosts=row.hosts,
            hosts_per_leaf=row.hosts_per_leaf,
            link_Bps=row.link_gbps * Gbps,
            flow_bytes=row.flow_bytes,
            mtu_bytes=row.payload_bytes,
            header_bytes=row.header_bytes,
            link_latency_s=row.link_latency_us / 1e6,
            seed=range(seeds * (SINGLE_SEEDS if len(group) == 1 else 1)),
        )
    return tuple(cases)


@cache
def uec_cases() -> tuple[dict[str, Any], ...]:
    """A case for every row of `uec_rows`, in their order."""
    same = ("hosts", "hosts_per_leaf", "tiers", "link_Bps", "flow_bytes", "pattern", "start_spread_s",
            "oversubscription", "entropies", "balancing", "queue_packets", "mark_low_packets", "mark_high_packets",
            "start_packets", "sack_bytes")  # fmt: skip
    rows = uec_rows().rename(columns={"paths": "entropies"})
    cases = rows[list(same)].to_dict("records")
    for case, row in zip(cases, rows.itertuples(), strict=True):
        senders = row.senders if row.pattern == "incast" else 0
        case |= {"transport": NAMES[str(row.control)], "senders": senders}
        case |= {"mtu_bytes": MTU_BYTES, "header_bytes": HEADER_BYTES}
    return tuple(cases)


def compare_with_reference(runs: pd.DataFrame | None = None, seeds: int = SEEDS) -> pd.DataFrame:
    """Slowdown by transport, hosts and statistic beside the published ones.

    runs, seeds: of `reference_cases`; by default what is stored. Columns transport, hosts, statistic, reference (mean
    over its seeds), reference_low, reference_high, seeds, ours (mean over our seeds of the seed's statistic), ours_low
    and ours_high (`RANGE`), error, tolerance (of the rule, or the reference's spread where wider; none for one seed,
    which must lie in our range), within. The median has no rule.
    """
    rows = reference_rows()
    ours = runs_of_cases(reference_cases(seeds), runs)
    table = []
    for (transport, hosts), group in rows.groupby(["transport", "hosts"], sort=False):
        simulated = ours[(ours["transport"] == NAMES[transport]) & (ours["hosts"] == hosts)]
        for statistic, column in STATISTICS.items():
            theirs, values = group[f"{statistic}_over_optimum"], simulated[column] / (group["optimum_us"].iloc[0] / 1e6)
            low, high = values.quantile(RANGE)
            error, tolerance = values.mean() / theirs.mean() - 1, np.nan
            within: Any = pd.NA
            if statistic in TOLERANCES and len(theirs) == 1:
                within = bool(low - ROUNDING <= theirs.iloc[0] <= high + ROUNDING)
            elif statistic in TOLERANCES:
                spread = STANDARD_ERRORS * theirs.std() / np.sqrt(len(theirs)) / theirs.mean()
                tolerance = max(TOLERANCES[statistic][str(transport)], spread)
                within = bool(abs(error) <= tolerance)
            table.append(
                {
                    "transport": transport,
                    "hosts": hosts,
                    "statistic": statistic,
                    "reference": theirs.mean(),
                    "reference_low": theirs.min(),
                    "reference_high": theirs.max(),
                    "seeds": len(theirs),
                    "ours": values.mean(),
                    "ours_low": low,
                    "ours_high": high,
                    "error": error,
                    "tolerance": tolerance,
                    "within": within,
                }
            )
    return pd.DataFrame(table)


def single_draws(compared: pd.DataFrame) -> str:
    """In a sentence: which published single draws lie outside the range of our seeds.

    compared: of `compare_with_reference`.
    """
    single = compared[(compared["seeds"] == 1) & compared["within"].notna()]
    outside = single[~single["within"].astype(bool)]
    parts = []
    for (transport, hosts), rows in outside.groupby(["transport", "hosts"], sort=False):
        told = (
            f"{row.statistic} {number(row.reference, 3)} (ours {number(row.ours_low, 3)} to {number(row.ours_high, 3)})"
            for row in rows.itertuples()
        )
        parts.append(f"{NAMES.get(str(transport), transport)} at {hosts:,} hosts, {' and '.join(told)}")
    ends = " to ".join(f"{share:.0%}" for share in RANGE)
    inside = f"{len(single) - len(outside)} of {len(single)} published values of one draw lie in our {ends} range"
    return f"{inside}. Not in it: {'; '.join(parts)} times the optimum." if parts else f"{inside}."


def compare_with_uec(runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """Every published run of Ultra Ethernet's congestion controls beside ours.

    runs: of `uec_cases`; by default what is stored. Columns of `uec_rows`, and: rule (of `UEC_RULES`, blank where none
    bounds the error), ours_first_s, ours_last_s, last_error, within, excess_error (of last_s - optimum_s), and the same
    error of two baselines, optimum_error (the optimum itself) and constant_error (one constant times the optimum, the
    best of all for the median of its own error); retransmitted_share and ours_retransmitted_share of the packets.
    """
    rows, ours = uec_rows(), runs_of_cases(uec_cases(), runs)
    last, optimum = rows["last_s"], rows["optimum_s"]
    excess = (last - optimum).abs()
    constants = (last / optimum).to_numpy()
    errors = np.abs(constants[:, None] * optimum.to_numpy() - last.to_numpy()) / excess.to_numpy()
    best = constants[np.argmin(np.median(errors, axis=1))]
    table = rows.assign(
        rule=_rules(rows),
        ours_first_s=ours["first_s"],
        ours_last_s=ours["last_s"],
        last_error=ours["last_s"] / last - 1,
        excess_error=(ours["last_s"] - last).abs() / excess,
        optimum_error=(optimum - last).abs() / excess,
        constant_error=(best * optimum - last).abs() / excess,
        retransmitted_share=rows["retransmitted_packets"] / rows["packets"],
        ours_retransmitted_share=ours["retransmitted"] / ours["packets"],
    )
    allowed = table["rule"].map({name: tolerance for name, (tolerance, _) in UEC_RULES.items()})
    table["within"] = (table["last_error"].abs() <= allowed).astype(object).where(allowed.notna(), None)
    table.attrs["constant"] = float(best)
    return table


def _rules(rows: pd.DataFrame) -> Any:
    incast, small = rows["pattern"] == "incast", rows["hosts"] < rows["hosts"].max()
    product = rows["link_Bps"] * ROUND_TRIP_S * rows["tiers"]
    oversubscribed, late = rows["oversubscription"] > 1, rows["flow_bytes"] >= (1 - ROUNDING) * LONG_PRODUCTS * product
    rules = {
        "incast, from 8 senders": incast & (rows["senders"] >= 8),
        "incast, below 8 senders": incast,
        "": small | (oversubscribed & ~late),
        "nscc, oversubscribed, long flows": oversubscribed & (rows["control"] == "nscc"),
        "rccc, oversubscribed, long flows": oversubscribed,
        "nscc, full bisection": rows["control"] == "nscc",
    }
    return np.select(list(rules.values()), list(rules), "rccc, full bisection")


def level_table() -> pd.DataFrame:
    """Where `levels.completion_times` may take the flow level, and how near it was to packets in stored runs.

    A row for each kind of `levels.LIMITS`, in words: its limits and stated error, then runs and their largest error.
    """
    runs = pd.read_csv(files.data("derived/level_errors.csv")).dropna(subset="stated")
    by_kind = (100 * runs["error"].abs()).groupby(runs["kind"]).agg(["size", "max"]).reindex(list(levels.LIMITS))
    table = levels.limits_table().replace(0, np.nan)
    return table.assign(**{"stored runs": by_kind["size"].to_numpy(),
                           "largest error of these [%]": by_kind["max"].to_numpy()})  # fmt: skip


def pairs_in_order(compared: pd.DataFrame) -> pd.DataFrame:
    """Pairs of Ultra Ethernet's runs, alike but for paths or load balancing, that differ by over `ORDER_DIFFERENCE`.

    compared: of `compare_with_uec`. Columns rule ("fewer paths, longer" for NSCC at full bisection, or "load
    balancing"), first and second (rows of `compared`; of paths, the fewer first), reference and ours as last_s of the
    first over the second, within: the same of both is longer.
    """
    sprayed = compared[compared["rule"] == "nscc, full bisection"].sort_values("paths")
    groups = [("fewer paths, longer", rows) for _, rows in sprayed.groupby(["link_Bps", "flow_bytes"])]
    pairs = []
    for rule, rows in [*groups, ("load balancing", compared[compared["hosts"] < compared["hosts"].max()])]:
        for one, other in combinations(rows.itertuples(), 2):
            theirs, ours = one.last_s / other.last_s, one.ours_last_s / other.ours_last_s
            if abs(np.log(theirs)) > np.log1p(ORDER_DIFFERENCE):
                pairs.append((rule, one.Index, other.Index, theirs, ours, (theirs > 1) == (ours > 1)))
    return pd.DataFrame(pairs, columns=["rule", "first", "second", "reference", "ours", "within"])


def accuracy_rules(compared: pd.DataFrame, uec: pd.DataFrame) -> pd.DataFrame:
    """Every rule of accuracy, and how much of what it speaks of meets it.

    compared, uec: of `compare_with_reference` and of `compare_with_uec`. Columns rule, rows (what is counted: published
    values, pairs or orders), within (share of them), asked (share), met; median_error and largest_error of our value.
    The last two rules: for how many runs the error of what lies above the optimum is smaller than a baseline's; met
    where its median is.
    """
    ruled = compared[compared["within"].notna()]
    parts = [(f"permutations: {name}", rows, 1.0, "error") for name, rows in ruled[ruled["seeds"] > 1].groupby(
        "statistic", sort=False)]  # fmt: skip
    parts += [("permutations: one draw, in our range", ruled[ruled["seeds"] == 1], 1.0, "error")]
    parts += [("permutations: order of the transports", _orders(compared), 1.0, "")]
    parts += [(name, uec[uec["rule"] == name], asked, "last_error") for name, (_, asked) in UEC_RULES.items()]
    parts += [(str(name), rows, 1.0, "") for name, rows in pairs_in_order(uec).groupby("rule", sort=False)]
    rules = []
    for rule, rows, asked, column in parts:
        error, share = rows[column].abs() if column else pd.Series(dtype=float), float(rows["within"].mean())
        rules.append((rule, len(rows), share, asked, share >= asked, error.median(), error.max()))
    for name, column in {"the optimum": "optimum_error", "a constant": "constant_error"}.items():
        nearer, met = (uec["excess_error"] < uec[column]).mean(), uec["excess_error"].median() < uec[column].median()
        rules.append((f"error above the optimum: below that of {name}", len(uec), nearer, np.nan, met, np.nan, np.nan))
    return pd.DataFrame(rules, columns="rule rows within asked met median_error largest_error".split())


def _orders(compared: pd.DataFrame) -> pd.DataFrame:
    """Whether the transports come in the same order, from fast to slow, by hosts and statistic."""
    orders = []
    for key, group in compared.groupby(["hosts", "statistic"], sort=False):
        theirs, ours = (group.sort_values(name)["transport"].tolist() for name in ("reference", "ours"))
        orders.append((*key, theirs == ours))
    return pd.DataFrame(orders, columns=["hosts", "statistic", "within"])
