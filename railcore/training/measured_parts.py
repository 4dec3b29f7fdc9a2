"""Times of kernels that were measured alone, beside the model's: data/measured/gpu_parts.csv."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from railcore.training.layer_work import (
    NORM_KERNELS,
    activation_bytes,
    fused_attention_times,
    loss_time,
    norm_bytes,
)
from railcore.training.machine import Machine, as_machine
from railcore.training.products import product_passes
from railcore.training.runtime import MODERN, Runtime
from railcore.training.stage import adam_time

_KERNELS = {"flash": "flash2", "cudnn": "cudnn"}
_ADAM = {
    "fused, all states bfloat16": Runtime(moment_bytes=2, master_bytes=0, gradient_bytes=2, accumulation_bytes=2),
    "fused, all states float32": Runtime(fp32_shards=True),
}


def kernel_errors(table: pd.DataFrame, machine: Machine | str = "DGX H100") -> pd.DataFrame:
    """Errors of the model's times of attention, norms, activations, loss and Adam, a row for each measured pass.

    Parameters
    ----------
    table
        In the columns of data/measured/gpu_parts.csv; other kinds are left out.
    machine
        With the GPU that they were measured on, or its platform.

    Returns
    -------
    Columns name, kind, pass ("forward", "backward", or "both" where they are one time), measured_s, modelled_s, and
    error = modelled / measured - 1.
    """
    box, rows = as_machine(machine), list[tuple[Any, ...]]()
    for row in table.itertuples():
        if row.kind not in _TIMES:
            continue
        for which, seconds in _TIMES[row.kind](row, box):
            measured = row.backward_s if which == "backward" else row.forward_s
            rows.append((row.name, row.kind, which, measured, float(seconds), float(seconds) / measured - 1))
    return pd.DataFrame(rows, columns=["name", "kind", "pass", "measured_s", "modelled_s", "error"])


_Passes = Iterator[tuple[str, Any]]


def _attention(row: Any, machine: Machine) -> _Passes:
    sizes = row.heads * row.batch, row.sequence, row.sequence, row.head_dim, row.value_dim
    yield from zip(("forward", "backward"), fused_attention_times(machine, _KERNELS[row.name], *sizes), strict=True)


def _elementwise(row: Any, machine: Machine) -> _Passes:
    norm = row.name == "rms_norm"
    moved = norm_bytes(MODERN, machine) if norm else activation_bytes(MODERN, machine, 3)
    for which, size, kernels in zip(("forward", "backward"), moved, NORM_KERNELS if norm else (1, 1), strict=True):
        yield which, size * row.m * row.n / machine.hbm_Bps + kernels * machine.host.kernel_s


def _logits(row: Any, machine: Machine) -> _Passes:
    products = sum(product_passes(machine, row.m, row.n, row.k, aligned=True))
    yield "both", products + loss_time(MODERN, machine, row.m * row.n)


def _adam(row: Any, machine: Machine) -> _Passes:
    yield "forward", adam_time(_ADAM[row.name], machine) * row.n


_TIMES = {"attention": _attention, "elementwise": _elementwise, "logits_and_loss": _logits, "adamw": _adam}
