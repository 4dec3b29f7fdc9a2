"""Times of parts of a step that were measured alone, beside the model's: data/measured/gpu_parts.csv."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog import checks
from railcore.training.formats import ELEMENT_BYTES, FORMATS
from railcore.training.layer_work import (
    NORM_KERNELS,
    activation_bytes,
    fused_attention_times,
    logits_seconds,
    loss_time,
    norm_bytes,
)
from railcore.training.machine import Machine, machine_of_gpu
from railcore.training.products import expert_way, product_passes, product_time
from railcore.training.runtime import MODERN, Runtime
from railcore.training.stage import adam_time

_FP8 = FORMATS["fp8"]._replace(cast_bytes=0.0)  # operands cast before
ATTENTION = {"flash": "flash2", "cudnn": "cudnn", "fused": ""}  # names of rows, and kernels; fused: of any kernel
_ADAM = {
    "fused, all states bfloat16": Runtime(moment_bytes=2, master_bytes=0, gradient_bytes=2, accumulation_bytes=2),
    "fused, all states float32": Runtime(fp32_shards=True),
}
# For each expert: take its matrices and multiply them; over streams also change the stream.
_PYTHON_OPERATORS = {"grouped": 0, "loop": 2, "streams": 3}
_EXPERT_KINDS = ("experts_grouped", "experts_loop", "experts_streams4")
_PRODUCT_PASSES = ("forward_s", "input_gradient_s", "weight_gradient_s")
_COLUMNS = ("name", *"m n k experts heads head_dim value_dim sequence batch".split(), *_PRODUCT_PASSES, "backward_s")
_LEFT_OUT = ("add", "experts_bmm")
_Passes = Iterator[tuple[str, Any]]  # column of the measured time, and seconds


def part_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Errors of the model's times of products, experts, attention, norms, activations, loss and Adam.

    Parameters
    ----------
    table
        In the columns of data/measured/gpu_parts.csv. The GPU is one of the catalog, by the first word of `gpu`. Kinds
        that are not modelled are left out: sums in memory, and batched products of experts.

    Returns
    -------
    A row for each measured time: gpu, kind, name, pass ("forward", "input gradient", "weight gradient", "backward";
    "forward" too where one time is of all), measured_s, modelled_s, and error = modelled / measured - 1.

    Raises
    ------
    ValueError
        For a GPU that no platform of the catalog has, an unknown kind or name, and a row without its sizes.

    Examples
    --------
    >>> import pandas as pd
    >>> from railcore import training
    >>> square = {"gpu": "H100", "kind": "product_fp8", "name": "square", "m": 8192, "n": 8192, "k": 8192}
    >>> error = training.part_errors(pd.DataFrame([square | {"forward_s": 8.76e-4}]))["error"].item()
    >>> abs(error) < 0.05
    True
    """
    rows = list[tuple[Any, ...]]()
    for gpu, of_gpu in table.groupby("gpu", sort=False):
        parts = timed_parts(of_gpu)
        machines = {each: machine_of_gpu(str(gpu).split()[0], each) for each in {part.precision for part in parts}}
        for part in parts:
            seconds = part.modelled_s(machines[part.precision])
            name = part.column.removesuffix("_s").replace("_", " ")
            rows.append((gpu, part.kind, part.name, name, part.measured_s, seconds))
    errors = pd.DataFrame(rows, columns=["gpu", "kind", "name", "pass", "measured_s", "modelled_s"])
    return errors.assign(error=errors["modelled_s"] / errors["measured_s"] - 1)


class MeasuredPart(NamedTuple):
    """A measured time of a part.

    row: of the table. column: that has the time. measured_s: the time [s].
    """

    row: Any
    column: str
    measured_s: float

    @property
    def kind(self) -> str:
        """Kind of the row."""
        return self.row.kind

    @property
    def name(self) -> str:
        """Name of the row."""
        return self.row.name

    @property
    def precision(self) -> str:
        """Number format of the machine whose part it is."""
        return "fp8" if self.kind == "product_fp8" else "bf16"

    def modelled_s(self, machine: Machine) -> float:
        """The model's time on a machine [s]. Raises ValueError for a row without its sizes, and an unknown name."""
        seconds = dict(_TIMES[self.kind](self.row, machine))[self.column]
        if not np.isfinite(seconds):
            raise ValueError(
                f"table has {self.kind} {self.name!r} without its sizes: fill in what data/README.md names"
            )
        return float(seconds)


def timed_parts(table: pd.DataFrame) -> list[MeasuredPart]:
    """The times of a table that are modelled, by kind. table: as of `part_errors`.

    Raises ValueError for an unknown kind.
    """
    kinds = [checks.one_of("kind", kind, [*_TIMES, *_LEFT_OUT]) for kind in table["kind"].unique()]
    table = table.reindex(columns=[*dict.fromkeys((*table.columns, *_COLUMNS))])
    return [
        MeasuredPart(row, column, seconds)
        for kind in kinds
        for row in table[table["kind"] == kind].itertuples()
        for column in _PASSES.get(kind, ())
        if (seconds := getattr(row, column)) > 0
    ]


def _product(row: Any, machine: Machine) -> _Passes:
    yield from zip(_PRODUCT_PASSES, product_passes(machine, row.m, row.n, row.k), strict=True)


def _product_fp8(row: Any, machine: Machine) -> _Passes:
    yield "forward_s", product_time(machine, row.m, row.n, row.k, form=_FP8)


def _between_copies(row: Any, machine: Machine) -> _Passes:
    """name: "copies take C of the product's time". A copy lasts C times as long as the product comes to take.

    Then `at_spare_power` is T = T0 - s C T, solved for T.
    """
    share = machine.rates.spare_power * float(row.name.split()[2])
    without_pause, full_clock = (product_time(box, row.m, row.n, row.k) for box in (machine, machine.at_full_clock))
    yield "forward_s", np.maximum(full_clock, without_pause / (1 + share))


def _experts(way: str) -> Callable[[Any, Machine], _Passes]:
    """Times of experts as a kernel for all, or one after another from Python: then the host may be the slower one."""

    def times(row: Any, machine: Machine) -> _Passes:
        passes = product_passes(machine, row.m, row.n, row.k, **expert_way(way, row.experts))
        host_s = row.experts * _PYTHON_OPERATORS[way] * machine.host.launch_s
        for column, seconds in zip(_PRODUCT_PASSES, passes, strict=True):
            yield column, np.maximum(seconds, host_s)

    return times


def _attention(row: Any, machine: Machine) -> _Passes:
    sizes = row.heads * row.batch, row.sequence, row.sequence, row.head_dim, row.value_dim
    kernel = ATTENTION[checks.one_of("name", row.name, ATTENTION)]
    times = fused_attention_times(machine, kernel, *sizes)
    yield from zip(("forward_s", "backward_s"), times, strict=True)


def _elementwise(row: Any, machine: Machine) -> _Passes:
    norm = row.name == "rms_norm"
    moved = norm_bytes(MODERN, machine) if norm else activation_bytes(MODERN, machine, 3)
    kernels = NORM_KERNELS if norm else (1, 1)
    for column, size, starts in zip(("forward_s", "backward_s"), moved, kernels, strict=True):
        yield column, size * row.m * row.n / machine.hbm_Bps + starts * machine.host.kernel_s


def _logits(row: Any, machine: Machine) -> _Passes:
    yield "forward_s", logits_seconds(machine, MODERN, row.m, row.n, row.k)


def _loss(row: Any, machine: Machine) -> _Passes:
    yield "forward_s", loss_time(MODERN, machine, row.m * row.n)


def _copy(row: Any, machine: Machine) -> _Passes:
    yield "forward_s", 2 * ELEMENT_BYTES * row.n / machine.hbm_Bps


def _adam(row: Any, machine: Machine) -> _Passes:
    yield "forward_s", adam_time(_ADAM[checks.one_of("name", row.name, _ADAM)], machine) * row.n


_TIMES: dict[str, Callable[[Any, Machine], _Passes]] = {
    "product": _product,
    "product_fp8": _product_fp8,
    "product_between_copies": _between_copies,
    "experts_grouped": _experts("grouped"),
    "experts_loop": _experts("loop"),
    "experts_streams4": _experts("streams"),
    "attention": _attention,
    "elementwise": _elementwise,
    "logits_and_loss": _logits,
    "loss": _loss,
    "copy": _copy,
    "adamw": _adam,
}
# Columns of the times of a kind: products have three passes, attention and the like two, others one.
_PASSES = {kind: ("forward_s",) for kind in _TIMES} | {
    **dict.fromkeys(("product", *_EXPERT_KINDS), _PRODUCT_PASSES),
    **dict.fromkeys(("attention", "elementwise"), ("forward_s", "backward_s")),
}
