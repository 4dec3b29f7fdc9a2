"""photonic2025's rules of thumb held against the search over all strategies, and its table of what each way splits."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from railcore.documents.readings import Entries, with_prefix
from railcore.engines.search import search, strategy_label
from railcore.engines.search.splits import divisors
from railcore.facts import claims, files
from railcore.facts.tables import read_csv
from railcore.training.machine import Machine
from railcore.training.transformer import Transformer


def printed_rows(table: int) -> list[dict[str, str]]:
    """The rows of photonic2025's Table 1 (rules of thumb) or Table 2 (what each way splits) as printed."""
    return read_csv(files.data(f"rules/photonic2025_table{table}.csv"))


def rules_of_thumb(
    models: Mapping[str, Transformer], machine: Machine, gpus: Sequence[int], batch: int
) -> pd.DataFrame:
    """Every rule of Table 1 on each model and GPU count that it covers: the best strategy that obeys it, and of all.

    Rules name tensor, pipeline and data ranks: context ranks, which are for long sequences, are left out of both.

    Parameters
    ----------
    models
        By name.
    machine
        A GPU and its links; its HB domain is no larger than the cluster.
    gpus
        Of the clusters.
    batch
        [sequences].

    Returns
    -------
    Columns id, model, gpus, practices; best_strategy, best_s; obeying_strategy, obeying_s; excess = obeying_s / best_s
    - 1, infinite where no strategy that obeys fits. Cases where nothing fits at all are left out, and single GPUs.
    """
    rows = []
    for rule in printed_rows(1):
        low, high = float(rule["parameters_above"]), float(rule["parameters_below"] or np.inf)
        least, most = max(float(rule["gpus_above"]), 1.0), float(rule["gpus_most"] or np.inf)  # one GPU splits nothing
        practices = [practice.split("+") for practice in rule["practices"].split("/")]
        for name, model in models.items():
            for n in (n for n in gpus if least < n <= most and low < model.total_parameters < high):
                best = _fastest(model, machine, n, batch)
                tried = [_fastest(model, machine, n, batch, **_limits(ways, n)) for ways in practices]
                rows.append((rule["id"], name, n, rule["practices"], *best, *min(tried, key=itemgetter(1))))
    columns = "id model gpus practices best_strategy best_s obeying_strategy obeying_s".split()
    table = pd.DataFrame(rows, columns=columns)
    table = table[np.isfinite(table["best_s"])]
    return table.assign(excess=table["obeying_s"] / table["best_s"] - 1)


def _fastest(model: Transformer, machine: Machine, gpus: int, batch: int, **limits: Any) -> tuple[str, float]:
    """Label and iteration time [s] of the fastest strategy within limits; infinite where none fits."""
    box = machine.changed(hb_domain_size=min(machine.hb_domain_size, gpus))
    rows = search(model, box, gpus, batch, top=1, only_best=True, context=1, **limits).best.to_dict("records")
    return (strategy_label(rows[0]), rows[0]["total_s"]) if rows else ("none fits", np.inf)


def _limits(ways: Sequence[str], gpus: int) -> dict[str, Any]:
    """Limits of a search: more than one rank in these ways, one in the others."""
    more = [int(n) for n in divisors(gpus) if n > 1]
    return {name: more if name in ways else [1] for name in ("tensor", "pipeline", "data")}


def worst_cases(rules: pd.DataFrame) -> pd.DataFrame:
    """The row of largest excess of each rule."""
    return rules.loc[rules.groupby("id")["excess"].idxmax()]


def rule_claims(rules: pd.DataFrame) -> Entries:
    """Values, reasons and readings of the claims on Table 1. rules: of `rules_of_thumb`."""
    worst = worst_cases(rules).set_index("id")
    reasons = {
        row.Index: f"{row.model} on {row.gpus:,} GPUs: {row.best_strategy} takes {row.best_s:.4g} s, "
        f"{row.obeying_strategy}, the best that obeys, {row.obeying_s:.4g} s"
        for row in worst.itertuples()
        if row.excess > claims.paper_value(f"photonic2025.table1.{row.Index}")
    }
    models, clusters = rules["model"].nunique(), rules["gpus"].nunique()
    text = f"worst of {models} models on {clusters} clusters that are ours, not the document's"
    return with_prefix("photonic2025.table1", worst["excess"].to_dict(), reasons, dict.fromkeys(worst.index, text))


def split_claims(splits: pd.DataFrame) -> Entries:
    """Values, reasons and readings of the claims on Table 2. splits: of `parallelism_comparison`."""
    ours = splits.set_index("strategy")
    columns = {  # that a claim compares, and how a reason names them
        "communication": ("communication", "per", "{}: {} per {}"),
        "reduction": ("memory", "compute", "{}, which splits {} and {}"),
    }
    texts = {
        claim: [words.format(name, ours[one][name], ours[other][name]) for name in broken_rows(splits, (one, other))]
        for claim, (one, other, words) in columns.items()
    }
    values = {claim: len(broken) / len(ours) for claim, broken in texts.items()}
    reasons = {claim: f"broken by {'; '.join(broken)}" for claim, broken in texts.items()}
    return with_prefix("photonic2025.table2", values, reasons, {})


def broken_rows(computed: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """Strategies of Table 2 whose row of `parallelism_comparison` differs from the printed one in one of the columns.

    The order of words does not count. "a/b" in the printed row allows both.
    """
    mine = computed.set_index("strategy")
    wrong = []
    for row in printed_rows(2):
        for column in columns:
            ours, theirs = str(mine.loc[row["strategy"], column]).split(), row[column]
            if set(ours) != set(theirs.split()) and ours not in [[choice] for choice in theirs.split("/")]:
                wrong.append(row["strategy"])
    return list(dict.fromkeys(wrong))
