"""photonic2025's rules of thumb held against the search over all strategies, and its table of what each way splits."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import files, units
from railcore.catalog.tables import read_csv
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.strategies.splits import divisors
from railcore.training.machine import Machine
from railcore.training.transformer import Transformer
from suite.ledger import claims
from suite.ledger.readings import Entries, joined_texts, verdict_readings


def printed_rows(table: int) -> list[dict[str, str]]:
    """The rows of photonic2025's Table 1 (rules of thumb) or Table 2 (what each way splits) as printed."""
    return read_csv(files.data(f"rules/photonic2025_table{table}.csv"))


def rules_of_thumb(
    models: Mapping[str, Transformer], machine: Machine, gpus: Sequence[int], batch: int, runtime: str, **limits: Any
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
    runtime
        The software, of the catalog.
    limits
        Of both searches, as for `search`.

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
                fastest = partial(_fastest, model, machine, n, batch, runtime=runtime, **limits)
                best, tried = fastest(), [fastest(**_limits(ways, n)) for ways in practices]
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
    """The case of each rule with the largest excess."""
    return rules.loc[rules.groupby("id")["excess"].idxmax()]


_WAYS = {"tensor": "TP", "data": "DP", "pipeline": "PP"}


def rules_in_words(rules: pd.DataFrame) -> pd.DataFrame:
    """The document's Table 1 with what comes out, a row for each rule, as people read it.

    rules: of `rules_of_thumb`. A rule holds where its best strategy takes no longer than the claim allows.
    """
    worst, rows = worst_cases(rules).set_index("id"), []
    for rule in printed_rows(1):
        mine = rules[rules["id"] == rule["id"]]
        allowed = _allowed(rule["id"])
        case = worst.loc[rule["id"]]
        rows.append(
            {
                "model size": _between(rule["parameters_above"], rule["parameters_below"], units.giga, "B parameters"),
                "GPUs": _between(rule["gpus_above"], rule["gpus_most"], 1, ""),
                "practice": units.either(
                    [" + ".join(_WAYS[way] for way in practice.split("+")) for practice in rule["practices"].split("/")]
                ),
                f"within {percent_text(allowed)} of the best": f"{sum(mine['excess'] <= allowed)} of {len(mine)} cases",
                "worst loss": percent_text(case["excess"]),
                "where": f"{case['model']} on {case['gpus']:,} GPUs",
            }
        )
    return pd.DataFrame(rows)


def _between(low: str, high: str, size: float, noun: str) -> str:
    """A range in words: "up to 8", "over 1,024", "8 to 512"."""
    ends = [units.number(float(end or 0) / size) for end in (low, high)]
    text = f"over {ends[0]}" if not high else f"up to {ends[1]}" if not float(low) else f"{ends[0]} to {ends[1]}"
    return f"{text} {noun}".strip()


def percent_text(share: float) -> str:
    """A share in percent, without bound where nothing fits."""
    return f"{100 * share:.3g}%" if np.isfinite(share) else "none fits"


def cases_in_words(rules: pd.DataFrame) -> pd.DataFrame:
    """Every case of `rules_of_thumb` as people read it: both strategies, and how much longer the rule's takes."""
    sizes = dict(zip((rule["id"] for rule in printed_rows(1)), rules_in_words(rules).to_dict("records"), strict=True))
    return pd.DataFrame(
        {
            "model": rules["model"],
            "GPUs": rules["gpus"],
            "practice": [sizes[case]["practice"] for case in rules["id"]],
            "best strategy": rules["best_strategy"],
            "iteration_s": rules["best_s"],
            "best that obeys": rules["obeying_strategy"],
            "takes longer by": rules["excess"].map(percent_text),
        }
    )


def splits_in_words(splits: pd.DataFrame, case: str) -> pd.DataFrame:
    """The document's Table 2 with what a GPU holds, computes and sends, and where the document has something else.

    splits: of `parallelism_comparison`. case: model, ranks and batch, in the header of the first column.
    """
    held = ["weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"]
    document = {row["strategy"]: row for row in printed_rows(2)}
    communication = [
        f"{_operations(row.communication)}; each {row.per.replace('microbatch', 'micro-batch')}"
        for row in splits.itertuples()
    ]
    others = []
    for name in splits["strategy"]:
        theirs = [
            document[name]["memory"].replace(" ", ", ") if name in broken_rows(splits, ("memory",)) else "",
            _operations(document[name]["communication"]) if name in broken_rows(splits, ("communication",)) else "",
        ]
        others.append("; ".join(filter(None, theirs)))
    return pd.DataFrame(
        {
            case: splits["strategy"],
            "memory of a GPU_bytes": splits[held].sum(axis=1),
            "memory: what is split": splits["memory"].str.replace(" ", ", "),
            "compute of a GPU_s": splits["products_s"] + splits["elementwise_s"],
            "compute: what is split": splits["compute"].str.replace(" ", ", "),
            "sent by a GPU_bytes": splits["sent_bytes"],
            "communication": communication,
            "the document has": others,
        }
    )


def _operations(text: str) -> str:
    """ "forward AllGather, backward ReduceScatter" of "forward:all_gather backward:reduce_scatter"."""
    named = [operation.split(":") for operation in text.split()]
    return ", ".join(f"{phase} {''.join(part.title() for part in name.split('_'))}" for phase, name in named)


def rule_claims(rules: pd.DataFrame, whole: pd.DataFrame) -> Entries:
    """Values, reasons and readings of the claims on Table 1.

    rules: of `rules_of_thumb`; whole: the same where full recompute is of all layers of a stage.
    """
    prefix, worst = "photonic2025.table1", worst_cases(rules).set_index("id")
    holds = (rules["excess"] <= rules["id"].map(_allowed)).groupby(rules["id"]).agg(["sum", "size"])
    reasons = {
        row.Index: f"{row.model} on {row.gpus:,} GPUs: {_degrees(row.best_strategy)} takes {row.best_s:.4g} s, "
        f"{_degrees(row.obeying_strategy)}, the best that obeys, {row.obeying_s:.4g} s; "
        f"{holds['sum'][row.Index]} of {holds['size'][row.Index]} cases hold"
        for row in worst.itertuples()
        if row.excess > _allowed(row.Index)
    }
    models, clusters = rules["model"].nunique(), rules["gpus"].nunique()
    text = f"worst of {models} models on {clusters} clusters that are ours, not the document's"
    excess = {f"{prefix}.{key}": value for key, value in worst["excess"].items()}
    others = {f"{prefix}.{row.id}": row.excess for row in worst_cases(whole).itertuples()}
    turned = verdict_readings(excess, {"recompute of as few layers as fit": {"all of a stage or none": others}})
    texts = joined_texts(dict.fromkeys(excess, text), turned)
    return Entries(excess, {f"{prefix}.{key}": reason for key, reason in reasons.items()}, texts)


def _allowed(rule: str) -> float:
    """The largest excess with which a rule holds."""
    return claims.paper_value(f"photonic2025.table1.{rule}")


def _degrees(label: str) -> str:
    """The degrees that a strategy's label begins with: "TP4 PP8 DP16"."""
    return label.partition(",")[0]


def split_claims(splits: pd.DataFrame, again: pd.DataFrame) -> Entries:
    """Values, reasons and readings of the claims on Table 2.

    splits, again: of `parallelism_comparison`, with what is gathered kept for the backward pass, and gathered again.
    """
    prefix, ours = "photonic2025.table2", splits.set_index("strategy")
    columns = {  # that a claim compares, and how a reason names them
        "communication": ("communication", "per", "{}: {} per {}"),
        "reduction": ("memory", "compute", "{}, which splits {} and {}"),
    }
    values, others, reasons = {}, {}, {}
    for claim, (one, other, words) in columns.items():
        broken = broken_rows(splits, (one, other))
        values[f"{prefix}.{claim}"] = len(broken) / len(ours)
        others[f"{prefix}.{claim}"] = len(broken_rows(again, (one, other))) / len(ours)
        if broken:
            texts = [words.format(name, ours[one][name], ours[other][name]) for name in broken]
            reasons[f"{prefix}.{claim}"] = f"broken by {'; '.join(texts)}"
    taken = "FSDP and context ranks keep what they gathered, as the document's run does its weights"
    return Entries(values, reasons, verdict_readings(values, {taken: {"gathered again in the backward pass": others}}))


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
