"""What each way of parallelism splits, and rules of thumb held against the search over all strategies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts import files
from railcore.facts.tables import read_csv
from railcore.network.topology.rails import RailFabric
from railcore.training.degraded.slowdowns import dense_slowdown
from railcore.training.iteration.critical_path import STRATEGY
from railcore.training.iteration.layer import KEY, MODERN, Runtime, layer_times
from railcore.training.iteration.machine import ENDLESS, Machine
from railcore.training.parallelism import Strategy
from railcore.training.search import divisors, search, short
from railcore.training.traffic import step
from railcore.training.transformer import RECOMPUTE, SHARDING, WEIGHT_BYTES, Transformer

if TYPE_CHECKING:
    import pandas as pd

DEGREE = None  # stands for the number of GPUs
WAYS: Mapping[str, Mapping[str, Any]] = {
    "DP": {"data": DEGREE},
    "FSDP": {"data": DEGREE, "sharding": "weights"},
    "TP": {"tensor": DEGREE},
    "TP & SP": {"tensor": DEGREE, "sequence_parallel": True},
    "CP": {"context": DEGREE},
    "PP": {"pipeline": DEGREE},
    "EP": {"data": DEGREE, "expert": DEGREE},
}
EQUAL = 1e-3  # relative


def way(name: str, degree: int) -> Strategy:
    """The strategy that has one way of parallelism alone, over `degree` GPUs. Raises ValueError for an unknown one."""
    if name not in WAYS:
        raise ValueError(f"way {name!r} is none of {', '.join(WAYS)}")
    fields: dict[str, Any] = {key: degree if value is DEGREE else value for key, value in WAYS[name].items()}
    return Strategy(**fields)


def splits(model: Transformer, mixture: Transformer, machine: Machine, degree: int, batch: int) -> "pd.DataFrame":
    """What each of WAYS splits over `degree` GPUs, and what a GPU sends, beside one GPU that has the whole batch.

    A GPU takes its part of the batch at once, a pipeline as `degree` micro-batches; embeddings are left out.
    Columns strategy; weights_bytes, gradients_bytes, optimizer_bytes, experts_bytes (their weights), activations_bytes
    of a GPU; products_s, elementwise_s of a GPU in an iteration (rates alone); experts_run: of a mixture layer, on a
    GPU; sent_bytes of a GPU; memory, compute: what of these is 1 / degree of one GPU's; communication: pass and
    operation of the transfers; per. EP is shown on the mixture, without what its data ranks split and send; CP without
    the sum of gradients.
    batch [sequences]. Raises ValueError unless degree divides it.
    """
    import pandas as pd

    if batch % degree:
        raise ValueError(f"batch is {batch}: give a multiple of degree {degree}")
    rows = []
    for name in WAYS:
        shape = replace(mixture if name == "EP" else model, vocabulary=1, positions=0)
        strategy = way(name, degree)
        sizes, alone, data = (
            _sizes(shape, machine, plan, batch) for plan in (strategy, way("DP", 1), way("DP", degree))
        )
        split = [key for key in alone if alone[key] and abs(sizes[key] * degree / alone[key] - 1) < EQUAL]
        if name == "EP":
            split = [key for key in split if data[key] == alone[key]]
        table = step(shape, replace(strategy, micro_batch=1), batch)
        own = {"EP": "expert", "CP": "context"}.get(name)
        table = table[(table["kind"] == own) if own else ~table["stages"].isin(("first", "last", "ends"))]
        compute = " ".join(key.removesuffix("_s").removesuffix("_run") for key in split if key.endswith(("_s", "_run")))
        passes = table["pass"].replace("after", "backward") + ":" + table["operation"]
        rows.append(
            {"strategy": name, **sizes}
            | {"sent_bytes": float(table["sent_bytes"].sum())}
            | {"memory": " ".join(key.removesuffix("_bytes") for key in split if key.endswith("_bytes"))}
            | {"compute": compute}
            | {"communication": " ".join(dict.fromkeys(passes)), "per": "/".join(dict.fromkeys(table["per"]))}
        )
    return pd.DataFrame(rows)


def _sizes(model: Transformer, machine: Machine, strategy: Strategy, batch: int) -> dict[str, float]:
    t, c, p, d = strategy.tensor, strategy.context, strategy.pipeline, strategy.data
    columns = strategy.columns(batch) | {"micro_batch": batch // (d * p)}
    states = model.state_bytes(t, p, d * c, columns["sharding"], strategy.expert)
    places = (columns["micro_batch"], t, c, strategy.sequence_parallel, columns["recompute"])
    kept = sum(model.layer_activation_bytes(*places, fused_attention=True).values())
    key = {name: np.array([columns[name]]) for name in KEY}
    rates = layer_times(model, replace(machine, memory_Bps=ENDLESS, kernel_s=0.0, processors=1), MODERN, key)
    moves = layer_times(model, replace(machine, kernel_s=0.0), MODERN, key)
    layers = model.layers / p
    return {
        **{f"{name}_bytes": float(size) for name, size in states.items()},
        "experts_bytes": float(WEIGHT_BYTES * model.rank_parameters(t, p, strategy.expert)[1]),
        "activations_bytes": float(p * layers * kept),
        "products_s": float(p * layers * (rates.linear + rates.attention).item()),
        "elementwise_s": float(p * layers * moves.elementwise.item()),
        "experts_run": model.experts / strategy.expert,
    }


def broken(computed: "pd.DataFrame", columns: Iterable[str]) -> list[str]:
    """Strategies of Table 2 whose row of `splits` differs from the printed one in a column, words in any order.

    "a/b" in the printed row leaves the choice.
    """
    mine = computed.set_index("strategy")
    wrong = []
    for row in printed(2):
        for column in columns:
            ours, theirs = str(mine.loc[row["strategy"], column]).split(), row[column]
            if set(ours) != set(theirs.split()) and ours not in [[choice] for choice in theirs.split("/")]:
                wrong.append(row["strategy"])
    return list(dict.fromkeys(wrong))


def printed(table: int) -> list[dict[str, str]]:
    """The rows of photonic2025's Table 1 (rules of thumb) or Table 2 (what each way splits) as printed."""
    return read_csv(files.data(f"rules/photonic2025_table{table}.csv"))


def rules_of_thumb(
    models: Mapping[str, Transformer], machine: Machine, gpus: Sequence[int], batch: int, runtime: Runtime = MODERN
) -> "pd.DataFrame":
    """Every rule of Table 1 on each model and GPU count that it covers: the best strategy that obeys it, and of all.

    Columns id, model, gpus, practices; best_strategy, best_s; obeying_strategy, obeying_s; excess = obeying_s / best_s
    - 1, infinite where no strategy that obeys fits. Cases where nothing fits at all are left out.
    """
    import pandas as pd

    rows = []
    for rule in printed(1):
        low, high = float(rule["parameters_above"]), float(rule["parameters_below"] or np.inf)
        least, most = float(rule["gpus_above"]), float(rule["gpus_most"] or np.inf)
        for name, model in models.items():
            for n in (n for n in gpus if least < n <= most and low < model.total_parameters < high):
                box = replace(machine, hb_domain_size=min(machine.hb_domain_size, n))
                best = search(model, box, n, batch, runtime, top=1).best
                if best.empty:
                    continue
                tried = [
                    search(model, box, n, batch, runtime, top=1, **_only(practice.split("+"), n)).best
                    for practice in rule["practices"].split("/")
                    if n > 1
                ]
                kept = pd.concat([best.head(0), *tried]).sort_values("total_s", kind="stable").head(1)
                least_s = float(kept["total_s"].iloc[0]) if len(kept) else np.inf
                best_s = float(best["total_s"].iloc[0])
                row = (rule["id"], name, n, rule["practices"], short(best.iloc[0]), best_s)
                rows.append((*row, short(kept.iloc[0]) if len(kept) else "none fits", least_s, least_s / best_s - 1))
    columns = "id model gpus practices best_strategy best_s obeying_strategy obeying_s excess".split()
    return pd.DataFrame(rows, columns=columns)


def _only(ways: Sequence[str], gpus: int) -> dict[str, Any]:
    """Limits of a search: more than one rank in these ways, one in the others."""
    more = [int(n) for n in divisors(gpus) if n > 1]
    return {name: more if name in ways else [1] for name in ("tensor", "pipeline", "data")}


def dense_slowdowns(
    fabric: RailFabric, models: Mapping[str, Transformer], machine: Machine, batch: int, splits: int = 4
) -> "pd.DataFrame":
    """`fabrics.dense_slowdown` of each model's best strategies, of the best of each way to split the GPUs.

    splits: ways to split the GPUs over tensor, context, pipeline and data ranks, the fastest first. Models that fit no
    strategy are left out. batch [sequences]. Columns model, strategy, times_best (its time over the best strategy's),
    and those of `fabrics.dense_slowdown`, a row for each network.
    """
    import pandas as pd

    found = []
    for name, model in models.items():
        best = search(model, machine, fabric.gpus, batch, top=500).best
        each = best.drop_duplicates(["tensor", "context", "pipeline", "data"]).head(splits)
        for row in each.to_dict("records"):
            fields: dict[str, Any] = {str(key): int(row[key]) for key in STRATEGY if key != "global_batch"}
            fields |= {"recompute": RECOMPUTE[fields["recompute"]], "sharding": SHARDING[fields["sharding"]]}
            plan = Strategy(**fields | {"sequence_parallel": bool(row["sequence_parallel"])})
            table = dense_slowdown(fabric, model, machine, plan, batch)
            over = row["sequence_s"] / best["sequence_s"].iloc[0]
            found.append(table.assign(model=name, strategy=short(row), times_best=over))
    table = pd.concat(found, ignore_index=True)
    return table[["model", "strategy", "times_best", *table.columns[:-3]]]
