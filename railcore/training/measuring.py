"""What `railcore measure` does: the script with a model's shapes, runs it here, and turns what it wrote into rows."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railcore import catalog
from railcore.catalog import files, tables
from railcore.catalog.text_files import check_not_read
from railcore.catalog.units import convert, counted
from railcore.training import gpu_script
from railcore.training.measured_files import read_measurement
from railcore.training.own_gpu import own_rows
from railcore.training.transformer import Transformer, catalog_model

_MOST_TOKENS = 2**20
_JOB = re.compile(r"^JOB: .*?^\}$", re.MULTILINE | re.DOTALL)


def measured_job(model: str, tensor: int = 1, tokens: int = 8192) -> dict[str, Any]:
    """Sizes of a model's parts on one rank, as the script takes them.

    model: of the catalog. tensor: ranks that split it. tokens: of a micro-batch.
    Raises ValueError for ranks that do not divide the model, and a bad number of tokens.
    """
    if not 1 <= tokens <= _MOST_TOKENS:
        raise ValueError(f"--tokens is {tokens}: give 1 to {_MOST_TOKENS:,}, those of a micro-batch on one rank")
    sizes = catalog_model(catalog.listed_name(model, catalog.names("models")) or model)
    if tensor < 1 or sizes.heads % tensor or sizes.ffn_hidden % tensor:
        raise ValueError(f"--tensor is {tensor}: give a number that divides the {sizes.heads} heads of {sizes.name}")
    products = [*sizes.attention_products(tensor)]
    if sizes.mixture_share < 1:
        products += sizes.feed_forward_products(sizes.ffn_hidden / tensor)
    attention = {
        "heads": sizes.heads // tensor,
        "kv_heads": sizes.heads // tensor if sizes.kv_rank else int(sizes.kv_heads_of_rank(tensor)),
        "head_dim": sizes.query_dim,
        "value_dim": sizes.value_dim,
        "sequence": min(sizes.sequence_length, tokens),
    }
    return {
        "model": sizes.name,
        "tokens": tokens,
        "hidden": sizes.hidden,
        "ffn": int(_inner_width(sizes) / tensor),
        "vocabulary": sizes.vocabulary,
        "products": [[name, int(columns), int(inner)] for name, columns, inner in products],
        "experts": _experts(sizes, tokens),
        "attention": attention,
    }


def _inner_width(sizes: Transformer) -> int:
    return sizes.ffn_hidden if sizes.mixture_share < 1 else sizes.expert_hidden * sizes.top_k


def _experts(sizes: Transformer, tokens: int) -> list[list[int]]:
    """Experts, rows of each, columns and inner side: of both products of one rank's experts, 8 at most."""
    if not sizes.experts:
        return []
    count = min(sizes.experts, 8)
    rows = max(tokens * sizes.top_k // sizes.experts, 1)
    return [[count, rows, int(n), int(k)] for _, n, k in sizes.feed_forward_products(sizes.expert_hidden)]


def measure_script(model: str, tensor: int = 1, tokens: int = 8192) -> str:
    """The script that measures, with a model's sizes in it. Parameters and refusals are those of `measured_job`."""
    text = Path(gpu_script.__file__).read_text(encoding="utf-8")
    lines = [
        f"    {json.dumps(key)}: {json.dumps(value)},\n" for key, value in measured_job(model, tensor, tokens).items()
    ]
    job = f"JOB: dict[str, Any] = {{\n{''.join(lines)}}}"
    return _JOB.sub(lambda _: job, text, count=1)


def write_script(model: str, tensor: int, tokens: int, write: str | None) -> int:
    """Print the script, or write it into a file. Gives the exit status.

    Parameters
    ----------
    model, tensor, tokens
        As of `measured_job`.
    write
        Name of the file; None prints.

    Returns
    -------
    0.
    """
    text = measure_script(model, tensor, tokens)
    if write is None:
        print(text, end="")
    else:
        files.write_whole(_target(write), text)
        print(f"{write}: written; run it with the Python that has PyTorch, then `railcore measure read`")
    return 0


def run_here(model: str, tensor: int, tokens: int, out: str, seconds: float, device: str) -> int:
    """Measure with this Python's PyTorch. Gives the exit status of the script.

    Parameters
    ----------
    model, tensor, tokens
        As of `measured_job`.
    out, seconds, device
        As of the script.

    Returns
    -------
    0; 130 where it was stopped.

    Raises
    ------
    ValueError
        Where the script refuses, before anything is measured.
    """
    job = measured_job(model, tensor, tokens)
    try:
        gpu_script.time_gpu(job, Path(out), seconds, device, lambda text: print(text, flush=True))
    except gpu_script.Refused as refusal:
        raise ValueError(str(refusal)) from None
    except KeyboardInterrupt:
        print("railcore: stopped; nothing was written", file=sys.stderr)
        return 130
    return 0


def read_measured(paths: Sequence[str], platform: str, write: str | None) -> int:
    """Turn measured times into rows of the catalog; prints them, or writes them. Gives the exit status.

    Parameters
    ----------
    paths
        Of files that `read_measurement` reads.
    platform
        Of the catalog, whose GPU was measured.
    write
        Name of the CSV; None prints.

    Returns
    -------
    0.
    """
    target = None if write is None else _target(write)
    platform = catalog.listed_name(platform, catalog.names("platforms")) or platform
    found = own_rows(platform, [read_measurement(Path(path)) for path in paths])
    text = tables.csv_text(catalog.COLUMNS, found.rows)
    if target is None:
        print(text, end="")
    else:
        check_not_read("--write", target)
        files.write_whole(target, text)
        usual = catalog.item("efficiencies", found.rows[0]["name"])
        shown = [_shown(row, usual) for row in found.rows]
        print(tables.aligned_table(shown), end="")
        print(f"{write}: written. In a spec: [cluster] measured = {json.dumps(target.name)}")
    for kind, times, error in found.errors.itertuples(index=False):
        print(f"{kind}: the model is off by {error:.1%} on average of {counted(times, 'times')}", file=sys.stderr)
    for warning in found.warnings:
        print(f"note: {warning}", file=sys.stderr)
    return 0


def _shown(row: dict[str, str], usual: catalog.Item) -> dict[str, str]:
    """A row for a terminal, beside the catalog's."""
    item = usual if row["parameter"] in usual else catalog.item("efficiencies", "all")
    before = f"{convert(item[row['parameter']], row['unit']):.3g}" if row["parameter"] in item else ""
    unit = "" if row["unit"] == "1" else f" {row['unit']}"
    return {"row": row["parameter"], "measured": f"{row['value']}{unit}", "catalog": before, "from": row["note"]}


def _target(write: str) -> Path:
    if not write:
        raise ValueError("--write is '': give the name of a file")
    path = Path(write)
    files.regular_file(path)
    return path
