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


def rules_title(platform: str, batch: int) -> str:
    """What `rules_in_words` shows: on which GPUs of a platform, with how many sequences in an iteration."""
    allowed = units.either(list(dict.fromkeys(percent_text(_allowed(rule["id"])) for rule in printed_rows(1))))
    return (
        f"The document's rules (first three columns) on our cases: one model on N GPUs of {platform}, {batch:,} "
        f"sequences in an iteration. A rule holds where the best strategy that obeys takes at most {allowed} longer "
        "than the best of all; this bound is ours."
    )


def rules_in_words(rules: pd.DataFrame) -> pd.DataFrame:
    """The document's Table 1 with what comes out, a row for each rule, as people read it.

    rules: of `rules_of_thumb`. A rule holds where its best strategy takes no longer than the claim allows.
    """
    worst, rows = worst_cases(rules).set_index("id"), []
    for rule in printed_rows(1):
        mine = rules[rules["id"] == rule["id"]]
        row = {
            "document: model size [parameters]": _sizes_text(rule["parameters_above"], rule["parameters_below"]),
            "document: GPUs N": _gpus_text(rule["gpus_above"], rule["gpus_most"]),
            "document: practice": _practice(rule),
            "rule holds in": f"{sum(mine['excess'] <= _allowed(rule['id']))} of {units.counted(len(mine), 'cases')}",
        }
        others = ("worst case", "best that obeys, iteration", "best of all, iteration", "longer than best of all by")
        texts = ["–"] * len(others)
        if len(mine):
            case = worst.loc[rule["id"]]
            texts = [f"{case['model']} on {case['gpus']:,} GPUs", _timed(case["obeying_strategy"], case["obeying_s"])]
            texts += [_timed(case["best_strategy"], case["best_s"]), percent_text(case["excess"])]
        rows.append(row | dict(zip(others, texts, strict=True)))
    return pd.DataFrame(rows)


def _practice(rule: Mapping[str, str]) -> str:
    """A rule's practices in words: "TP + PP, TP + DP or DP"."""
    return units.either(
        [" + ".join(_WAYS[way] for way in practice.split("+")) for practice in rule["practices"].split("/")]
    )


def _sizes_text(low: str, high: str) -> str:
    """A range of parameters as the document writes it: "< 10 B", "> 10 B"."""
    return f"< {units.number(float(high) / units.giga)} B" if high else f"> {units.number(float(low) / units.giga)} B"


def _gpus_text(low: str, high: str) -> str:
    """A range of GPUs as the document writes it: "N ≤ 8", "N > 1,024", "8 < N ≤ 512"."""
    least, most = (units.number(float(end or 0)) for end in (low, high))
    return f"N > {least}" if not high else f"{least} < N ≤ {most}" if float(low) else f"N ≤ {most}"


def _timed(label: str, seconds: float) -> str:
    """A strategy's degrees and its time: "TP4 PP8 DP16, 16.3 s"."""
    return f"{_degrees(label)}, {units.show(seconds, 's', 3)}" if np.isfinite(seconds) else label


def percent_text(share: float) -> str:
    """A share in percent, without bound where nothing fits."""
    return f"{units.number(100 * share, 3)}%" if np.isfinite(share) else "none fits"


def cases_in_words(rules: pd.DataFrame) -> pd.DataFrame:
    """Every case of `rules_of_thumb` as people read it: both strategies, and how much longer the rule's takes."""
    practices = {rule["id"]: _practice(rule) for rule in printed_rows(1)}
    return pd.DataFrame(
        {
            "model": rules["model"],
            "GPUs": rules["gpus"],
            "practice": [practices[case] for case in rules["id"]],
            "best strategy": rules["best_strategy"],
            "iteration_s": rules["best_s"],
            "best that obeys": rules["obeying_strategy"],
            "takes longer by": rules["excess"].map(percent_text),
        }
    )


_TERMS = {"weights": "params", "gradients": "grads", "optimizer": "optims", "activations": "activs"}  # of Table 2


def splits_in_words(splits: pd.DataFrame, case: str, dense: str, mixture: str, memory_bytes: float) -> pd.DataFrame:
    """The document's Table 2 beside what a GPU holds, computes and sends, and where our step splits something else.

    Parameters
    ----------
    splits
        Of `parallelism_comparison`.
    case
        GPUs and batch, in the header of the first column.
    dense, mixture
        Names of the dense model and of the mixture: each has a row for one GPU with nothing split.
    memory_bytes
        Of a GPU; what is larger is marked.

    Returns
    -------
    The table.
    """
    document, rows = {row["strategy"]: row for row in printed_rows(2)}, []
    held = splits[["weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"]].sum(axis=1)
    for i, (row, held_bytes) in enumerate(zip(splits.itertuples(), held, strict=True)):
        theirs, seconds = document[row.strategy], row.products_s + row.elementwise_s
        name = mixture if row.strategy == "EP" else dense
        if i == 0 or row.strategy == "EP":
            one = [f"{name}, one GPU: nothing split", _held(row.one_gpu_bytes, memory_bytes)]
            rows.append([*one, "–", units.show(row.one_gpu_s, "s", 4), "–", "–", "–", "–"])
        split = ", ".join(_TERMS.get(word, word) for word in str(row.memory).split())
        held_text = f"{_held(held_bytes, memory_bytes)}; split: {split or 'nothing'}"
        ours = [f"{name}, {row.strategy}", held_text, theirs["memory_printed"]]
        ours += [units.show(seconds, "s", 4), theirs["compute_printed"], units.show(row.sent_bytes, "B", 4)]
        rows.append([*ours, theirs["communication_printed"], _difference(splits, row, theirs)])
    columns = [case, "memory of a GPU", "document: memory reduction", "compute of a GPU"]
    columns += ["document: compute reduction", "sent by a GPU", "document: communication", "ours differs in"]
    return pd.DataFrame(rows, columns=columns)


def _held(size_bytes: float, most_bytes: float) -> str:
    """A size, with a word where a GPU has less memory."""
    return units.show(size_bytes, "B", 4) + ", does not fit" * (size_bytes > most_bytes)


def _difference(splits: pd.DataFrame, row: Any, theirs: Mapping[str, str]) -> str:
    """What our step splits or sends where that is not what a row of the document says, else "nothing"."""
    clauses = []
    for column in ("memory", "compute"):
        if row.strategy in broken_rows(splits, (column,)):
            ours, printed = str(getattr(row, column)).split(), theirs[column].split()
            more = [_TERMS.get(word, word) for word in ours if word not in printed]
            less = [f"not {_TERMS.get(word, word)}" for word in printed if word not in ours]
            clauses.append(f"{column}: {', '.join(more + less)}" + " too" * bool(more))
    if row.strategy in broken_rows(splits, ("communication", "per")):
        clauses.append(f"communication: {_operations(row.communication)}, each {row.per}")
    return "; ".join(clauses) or "nothing"


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
