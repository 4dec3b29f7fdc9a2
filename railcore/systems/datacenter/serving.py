"""How many copies of a model a machine serves, at which speed and cost.

A copy is p stages, each a rack of t GPUs; p batches of b sequences are in flight, one on each stage, so that a stage
keeps b caches of the whole model. Symbols: W bytes of weights, K bytes of the cache of a sequence, L layers, h hidden,
c tokens of context, B bandwidth of a GPU's memory, R its rate, e bytes of an activation.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks
from railcore.systems.datacenter.sizing import Site
from railcore.training import collectives
from railcore.training.transformer import Transformer

_SERVING_COLUMNS = (
    "model weight_bits context stages copy_gpus copies batch sequences "
    "token_s user_tokens_per_s tokens_per_s prefill_s bound cost_per_million_tokens_usd"
).split()
_ALL_REDUCE_ALGORITHMS = ("direct", "one_shot", "tree", "ring")  # those without reductions in the switch


def cache_bytes(model: Transformer, context: ArrayLike, element: ArrayLike = 1.0) -> Any:
    """Keys and values of a sequence [bytes]: 2 L k d c e with k key-value heads of size d."""
    size = 2.0 * model.layers * model.kv_heads * model.head_dim
    return size * np.asarray(context, float) * np.asarray(element, float)


def serving_performance(
    model: Transformer,
    machine: Site,
    memory_Bps: float,
    stages: ArrayLike,
    weight: float,
    cache: float = 1.0,
    context: float = 0.0,
    batch: ArrayLike | None = None,
) -> pd.DataFrame:
    """A model decoded on a machine.

    A stage takes max((W'/p + b K/p) / (t B), b f / (p t R)) + 2 L / p AllReduces of b h e + b h e / t to the next, and
    a token p of them; W' are the weights that b tokens meet, of E experts a share 1 - (1 - k/E)^b; f = 2 N + 4 c a d L
    FLOPs of a token. Prefill: c tokens through all stages at the GPUs' rate, one sequence alone.

    Parameters
    ----------
    model, machine
        A machine's racks of t GPUs each are the stages.
    memory_Bps
        Bandwidth of a GPU's memory as reached, B [bytes/s].
    stages
        p, at most one for each layer.
    weight, cache
        Bytes of a parameter and of an element of the cache; activations are sent as the latter.
    context
        Tokens of a sequence, c; 0 for the model's.
    batch
        b, by default what memory has room for.

    Returns
    -------
    A row for each number of stages; columns stages, copy_gpus (p t), copies (that the machine holds), batch (of a
    stage), sequences (in flight on the machine), weight_bytes W, cache_bytes K, memory_s, compute_s, collectives_s and
    sends_s of a token, token_s (between two tokens of a sequence: the longer of memory and compute, and
    communication), tokens_per_s (of the machine), prefill_s (of a whole context on an empty machine). From batch on not
    numbers where a stage has no room for one sequence.

    Raises
    ------
    ValueError
        For more stages than layers, and numbers that are not positive.
    """
    p, t = np.atleast_1d(checks.positive("stages", stages)), int(machine.rack_gpus)
    c = context or float(model.sequence_length)
    for name, value in (("memory_Bps", memory_Bps), ("weight", weight), ("cache", cache), ("context", c)):
        checks.positive(name, value)
    if np.any(p > model.layers):
        raise ValueError(f"stages is {stages!r}: give at most one for each of {model.layers} layers")
    usable = float(machine.memory_bytes) - catalog.item("efficiencies", "all")["reserved_memory"]
    held, each = model.total_parameters * weight, cache_bytes(model, c, cache)
    room = np.maximum(np.floor((t * usable - held / p) / each), 0)
    asked = room if batch is None else np.asarray(batch, float)
    b = np.where((asked >= 1) & (asked <= room), asked, np.nan)
    latency, send = (catalog.item("efficiencies", "all")[name] for name in ("hb_latency", "nic_latency"))
    sent = b * model.hidden * cache
    sums = collectives.collective_time(
        "all_reduce", np.nan_to_num(sent), t, machine.hb_Bps, latency, _ALL_REDUCE_ALGORITHMS
    )
    scores = 4 * c * model.heads * model.head_dim * model.layers
    flops, rate = 2 * model.active_parameters + scores, t * machine.gpu_rate
    table = pd.DataFrame(
        {
            "stages": p,
            "copy_gpus": p * t,
            "copies": np.floor(np.floor(machine.racks / machine.datacenters) / p) * machine.datacenters,
            "batch": b,
            "weight_bytes": held,
            "cache_bytes": each,
            "memory_s": (_parameters_read(model, b) * weight + b * each) / (t * memory_Bps),
            "compute_s": b * flops / rate,
            "collectives_s": 2 * model.layers * sums,
            "sends_s": p * (send + sent / t / machine.nic_Bps),
            "prefill_s": c * (flops - scores / 2) / rate,
        }
    )
    table["sequences"] = table.copies * table.stages * table.batch
    table["token_s"] = table[["memory_s", "compute_s"]].max(axis=1, skipna=False) + table.collectives_s + table.sends_s
    return table.assign(tokens_per_s=table.sequences / table.token_s)


def serving_table(
    models: Mapping[str, Transformer],
    machines: Mapping[float, Site],
    memory_Bps: float,
    stages: Sequence[int],
    contexts: Sequence[float],
    usd_per_s: float,
) -> pd.DataFrame:
    """`serving_performance` for each model, bytes of a parameter, context and number of stages, where a sequence fits.

    Parameters
    ----------
    models
        By name.
    machines
        By bytes of a parameter, with the GPUs' rate in that format.
    memory_Bps
        Bandwidth of a GPU's memory as reached [bytes/s].
    stages, contexts
        Of a copy, more than layers are left out; tokens of a sequence, computed already.
    usd_per_s
        Cost of the whole machine, which all copies together bear.

    Returns
    -------
    Columns model, weight_bits, context, stages, copy_gpus, copies, batch, sequences, token_s, user_tokens_per_s,
    tokens_per_s, prefill_s, bound (memory, compute or network), cost_per_million_tokens_usd.
    """
    tables = []
    for (name, model), (weight, machine), context in product(models.items(), machines.items(), contexts):
        possible = np.array([p for p in stages if p <= model.layers])
        found = serving_performance(model, machine, memory_Bps, possible, weight, context=context)
        waits = found[["memory_s", "compute_s"]].assign(network_s=found.collectives_s + found.sends_s)
        found["bound"] = waits.set_axis(["memory", "compute", "network"], axis=1).fillna(0).idxmax(axis=1)
        found["cost_per_million_tokens_usd"] = usd_per_s / found.tokens_per_s * 1e6
        found["user_tokens_per_s"] = 1 / found.token_s
        tables.append(found.assign(model=name, weight_bits=8 * weight, context=context))
    return pd.concat(tables).query("copies > 0").dropna(subset="batch").reset_index(drop=True)[_SERVING_COLUMNS]


def sustained_memory_bandwidth(gpu: str) -> float:
    """Bandwidth of a catalog GPU's memory as streams reach it [bytes/s]."""
    return catalog.item("gpus", gpu)["memory_bandwidth"] * catalog.item("efficiencies", gpu)["memory_fraction"]


def _parameters_read(model: Transformer, tokens: Any) -> Any:
    """Parameters that `tokens` tokens meet in a pass, experts chosen evenly."""
    experts = model.parameters()["experts"]
    share = 1 - (1 - model.top_k / model.experts) ** tokens if model.experts else 0.0
    return model.total_parameters - experts + experts * share
