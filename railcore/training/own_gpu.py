"""Rows of the catalog for a GPU of one's own: what its measured times say that kernels and collectives reach on it.

A row is the median of what each of its times says alone: the value at which the model gives just that time. A time that
hardly depends on the value is left out: a product that the memory limits says nothing of the processors. Values are
solved one after the other, the memory's bandwidth first, so that each stands on those before it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from railcore import catalog
from railcore.catalog.units import counted, us
from railcore.network.reliability import host_gpus
from railcore.training.machine import Machine, catalog_machine
from railcore.training.measured_collectives import measured_collective_time
from railcore.training.measured_parts import ATTENTION, timed_parts

_LEAST, _PRECISE = 1e-3, 1e-8  # of a share: the least one, and how near it is solved
_FELT = 0.5  # least relative change of a time over that of the share, for the time to say something of it
_NEAR = 1.1  # factor by which that is tried
_FAR = 2.0  # factor from the catalog's value that is warned of
_DIGITS = 3
_QUARTILES_FROM = 4  # times, from which a row has quartiles as its low and high
_SMALL, _LARGE, _LARGE_BETWEEN = 2**16, 2**26, 2**28  # bytes of messages: inside an HB domain, and between domains
_RINGS = ("all_gather", "reduce_scatter")


class Measurement(NamedTuple):
    """What a file holds.

    file: its name. card: GPU that was measured, as its driver calls it; "" where the file does not say.
    source, date: of the rows. parts: times of parts, in the columns of data/measured/gpu_parts.csv. collectives: times
    of collectives: collective, gpus, hosts, message_bytes, seconds.
    """

    file: str
    card: str
    source: str
    date: str
    parts: pd.DataFrame = pd.DataFrame()
    collectives: pd.DataFrame = pd.DataFrame()


class OwnRows(NamedTuple):
    """What measured times say of a GPU.

    rows: of `catalog.COLUMNS`, as texts.
    errors: of the model with these rows: kind of time, times, and mean absolute error.
    warnings: what is odd but allowed, and rows that no time says a value of.
    """

    rows: list[dict[str, str]]
    errors: pd.DataFrame
    warnings: tuple[str, ...]


class _Collective(NamedTuple):
    """A measured time of a collective of `inside` ranks in each of `domains` HB domains."""

    kind: str
    message_bytes: float
    inside: int
    domains: int
    measured_s: float

    def modelled_s(self, machine: Machine) -> float:
        """The model's time [s]."""
        return float(measured_collective_time(machine, self.kind, self.message_bytes, self.inside, self.domains))


class _Wanted(NamedTuple):
    """A row that is solved.

    parameter, unit: of the row.
    chosen: whether a measured time says something of it.
    changes: fields of a machine with a value.
    share: whether the value is a share of what there is; else an amount that adds to the time.
    precisions: of the machines that take it; the first one's times are asked.
    """

    parameter: str
    chosen: Callable[[Any], bool]
    changes: Callable[[float], dict[str, Any]]
    share: bool = True
    unit: str = "1"
    precisions: tuple[str, ...] = ("bf16",)


def share_behind(time_at: Callable[[float], float], measured_s: float, usual: float) -> float:
    """The share at which a time that falls with it is the measured one.

    Parameters
    ----------
    time_at
        Time at a share [s].
    measured_s
        The measured time [s].
    usual
        A share near which the time must fall with it.

    Returns
    -------
    The share, from 0.001 to 1; infinity where all of it would take longer than the measured time. NaN where the time
    hardly depends on the share, and where no share is so slow.
    """
    less, more = usual / _NEAR, min(usual * _NEAR, 1.0)
    if math.log(time_at(less) / time_at(more)) < _FELT * math.log(more / less) or measured_s > time_at(_LEAST):
        return math.nan
    if measured_s <= (whole_s := time_at(1.0)):
        return 1.0 if measured_s == whole_s else math.inf
    # In the inverse of the share times are nearly lines, so that few of them are asked for.
    return 1 / brentq(lambda inverse: time_at(1 / inverse) - measured_s, 1.0, 1 / _LEAST, rtol=_PRECISE)


def amount_behind(time_at: Callable[[float], float], measured_s: float, usual: float) -> float:
    """The amount at which a time that is a line in it is the measured one; 0 where the time is less than at 0.

    time_at: time at an amount [s]. measured_s: the measured time [s]. usual: an amount up to which the line goes.
    """
    start_s = time_at(0.0)
    more_s = time_at(usual) - start_s
    return max((measured_s - start_s) / more_s * usual, 0.0) if more_s > 0 else math.nan


def own_rows(platform: str, measurements: Sequence[Measurement]) -> OwnRows:
    """Rows of efficiencies for the GPU of a platform, from what was measured on it.

    Parameters
    ----------
    platform
        Of the catalog: it has the GPU's peaks and links.
    measurements
        Of files.

    Returns
    -------
    `OwnRows`.

    Raises
    ------
    ValueError
        For a file of another GPU, for a share above 1, and where no time says anything.
    """
    box = catalog_machine(platform)
    times = [(each, time) for each in measurements for time in _times(each, platform, box)]
    precisions = {precision for _, time in times if (precision := getattr(time, "precision", ""))}
    machines = {"bf16": box} | {precision: catalog_machine(platform, precision) for precision in precisions}
    solved, warnings = dict[str, dict[str, str]](), list[str]()
    for wanted in _WANTED:
        of_row = [(each, time) for each, time in times if wanted.chosen(time)]
        if wanted.parameter == "hb_fraction" and math.isinf(box.domain.multicast_latency_s):
            of_row += [(each, time) for each, time in times if _large(time, "all_reduce")]
        if wanted.parameter == "multicast_share" and math.isinf(box.domain.multicast_latency_s):
            of_row = []
        if of_row:
            row, warning = _solved(wanted, of_row, machines, box.gpu)
            solved |= {wanted.parameter: row} if row else {}
            warnings += [warning] if warning else []
    if not solved:
        files = ", ".join(each.file for each in measurements)
        raise ValueError(f"{files}: no time says anything of {box.gpu}: give parts, or larger collectives")
    best, flash2 = (solved.get(f"attention_fraction{name}") for name in ("", "_flash2"))
    if best and flash2 and float(flash2["value"]) > float(best["value"]):
        solved["attention_fraction"] = flash2 | {"parameter": "attention_fraction"}
    return OwnRows(list(solved.values()), _errors([time for _, time in times], machines, solved), tuple(warnings))


def _errors(times: list[Any], machines: dict[str, Machine], solved: dict[str, dict[str, str]]) -> pd.DataFrame:
    """Mean absolute error of the model's times by kind; of attention those of shapes of heads that have a row."""
    rows = []
    for time in times:
        machine = machines[getattr(time, "precision", "bf16")]
        for wanted in _WANTED:  # those of attention alone stand in no machine: each kernel and shape has its own
            if time.kind == "attention" and wanted.parameter in solved and wanted.chosen(time):
                machine = machine.changed(**wanted.changes(float(solved[wanted.parameter]["value"])))
        rows.append((time.kind, abs(time.modelled_s(machine) / time.measured_s - 1)))
    table = pd.DataFrame(rows, columns=["kind", "error"]).groupby("kind", sort=False)["error"].agg(["size", "mean"])
    return table.reset_index().set_axis(["kind", "times", "mean_error"], axis=1)


def _times(measured: Measurement, platform: str, box: Machine) -> Iterator[Any]:
    """Times of a file. Raises ValueError where it is of another GPU than the platform's."""
    words = "".join(sign if sign.isalnum() else " " for sign in measured.card).upper().split()
    if measured.card and box.gpu.split()[0].upper() not in words:
        raise ValueError(
            f"{measured.file} was measured on {measured.card!r}, and {platform} has {box.gpu}: give its own platform"
        )
    if len(measured.parts):
        yield from timed_parts(measured.parts)
    for row in measured.collectives.itertuples():
        inside, domains = _place(measured.file, int(row.gpus), int(row.hosts), platform, box.hb_domain_size)
        yield _Collective(str(row.collective), float(row.message_bytes), inside, domains, float(row.seconds))


def _place(file: str, gpus: int, hosts: int, platform: str, hb_domain_size: int) -> tuple[int, int]:
    """Ranks in each HB domain, and how many domains, of a group on so many hosts."""
    domains = math.ceil(hosts / max(hb_domain_size // host_gpus(platform), 1))
    if gpus % domains or gpus // domains > hb_domain_size:
        raise ValueError(
            f"{file} is of {gpus} GPUs on {hosts} hosts, and {platform} has HB domains of {hb_domain_size}: "
            "give a log of as many GPUs on each"
        )
    return gpus // domains, domains


def _solved(
    wanted: _Wanted, times: list[tuple[Measurement, Any]], machines: dict[str, Machine], gpu: str
) -> tuple[dict[str, str] | None, str]:
    """The row of a parameter, which the machines then have, and a warning. None where no time says anything of it."""
    parameter, machine = wanted.parameter, machines[wanted.precisions[0]]
    usual = next((item[parameter] for item in _items(gpu) if parameter in item), 0.5)

    def value_of(time: Any) -> float:
        def time_at(value: float) -> float:
            return time.modelled_s(machine.changed(**wanted.changes(value)))

        behind = share_behind if wanted.share else amount_behind
        return behind(time_at, time.measured_s, usual)

    found = [(each, value) for each, time in times if not math.isnan(value := value_of(time))]
    if not found:
        return None, f"{parameter}: none of its {len(times)} times says a value."
    values, files = [value for _, value in found], {each.file: each for each, _ in found}
    middle = float(np.quantile(values, 0.5, method="closest_observation" if math.inf in values else "linear"))
    if math.isinf(middle):
        raise ValueError(
            f"{', '.join(files)}: {values.count(middle)} of {len(values)} times are shorter than with a {parameter} of "
            f"1, which is all that {gpu} has: give the platform that was measured"
        )
    middle = _rounded(middle)
    for precision in wanted.precisions:
        if precision in machines:
            machines[precision] = machines[precision].changed(**wanted.changes(middle))
    unit = us if wanted.unit == "us" else 1.0
    row = dict.fromkeys(catalog.COLUMNS, "") | {"name": gpu, "parameter": parameter, "value": f"{middle / unit:.6g}"}
    row |= {"unit": wanted.unit, "kind": "measured", "note": f"median of {counted(len(values), 'times')}"}
    row |= {"source": "; ".join(dict.fromkeys(each.source for each in files.values()))}
    row |= {"as_of": max(each.date for each in files.values())}
    if len(values) >= _QUARTILES_FROM:
        low, high = (
            _rounded(end) for end in np.quantile(np.minimum(values, 1.0) if wanted.share else values, [0.25, 0.75])
        )
        ends = min(low, middle), max(high, middle)
        row |= {name: f"{end / unit:.6g}" for name, end in zip(("low", "high"), ends, strict=True)}
        row |= {"note": f"{row['note']}; low and high are quartiles", "shape": "linear" if ends[0] < ends[1] else ""}
    far = usual > 0 and not 1 / _FAR <= middle / usual <= _FAR
    warning = f"{parameter} is {row['value']} and {usual / unit:.3g} in the catalog: is the GPU in order?"
    return row, warning if far else ""


def _items(gpu: str) -> list[catalog.Item]:
    return [catalog.item("efficiencies", name) for name in (gpu, "all")]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _fields(*names: str) -> Callable[[float], dict[str, Any]]:
    return lambda value: dict.fromkeys(names, value)


def _of_kind(kind: str, name: str = "", column: str = "") -> Callable[[Any], bool]:
    """Whether a time is of a kind, and of a name and a column where these are given."""
    return lambda time: (
        time.kind == kind and name in ("", getattr(time, "name", "")) and column in ("", getattr(time, "column", ""))
    )


def _of_attention(shape: str, *kernels: str) -> Callable[[Any], bool]:
    """Whether a time is of attention by one of these kernels, with heads of a shape: "head64", "mla" or others, ""."""

    def chosen(time: Any) -> bool:
        if time.kind != "attention" or ATTENTION.get(time.name) not in kernels:
            return False
        query, value = time.row.head_dim, time.row.value_dim
        return shape == ("head64" if query <= 64 else "mla" if query != value else "")

    return chosen


def _attention(kernel: str = "") -> Callable[[float], dict[str, Any]]:
    """A machine's share of attention with one kernel, or with all, whatever the shape of the heads."""

    def changes(value: float) -> dict[str, Any]:
        kernels = ((kernel, value),) if kernel else ()
        return {"attention_shapes": (), "attention_kernels": kernels} | (
            {} if kernel else {"attention_fraction": value}
        )

    return changes


def _large(time: Any, *collectives: str) -> bool:
    return time.kind in collectives and time.domains == 1 and time.message_bytes >= _LARGE


def _large_between(time: Any) -> bool:
    return time.kind in (*_RINGS, "all_reduce") and time.domains > 1 and time.message_bytes >= _LARGE_BETWEEN


def _small(time: Any) -> bool:
    return time.kind in (*_RINGS, "all_reduce") and time.domains == 1 and time.message_bytes <= _SMALL


_BOTH = ("bf16", "fp8")
_WANTED = (
    _Wanted("memory_fraction", _of_kind("copy"), _fields("memory_fraction", "cast_fraction"), precisions=_BOTH),
    _Wanted("matmul_sustained_bf16", _of_kind("product"), _fields("linear_fraction", "bf16_fraction")),
    _Wanted(
        "matmul_full_clock_bf16", _of_kind("product_between_copies"), _fields("linear_full_clock", "bf16_full_clock")
    ),
    _Wanted("matmul_sustained_fp8", _of_kind("product_fp8"), _fields("linear_fraction"), precisions=("fp8",)),
    _Wanted("attention_fraction", _of_attention("", "cudnn", ""), _attention()),
    _Wanted("attention_fraction_cudnn", _of_attention("", "cudnn"), _attention("cudnn")),
    _Wanted("attention_fraction_flash2", _of_attention("", "flash2"), _attention("flash2")),
    _Wanted("attention_fraction_head64", _of_attention("head64", "cudnn", ""), _attention()),
    _Wanted("attention_fraction_flash2_head64", _of_attention("head64", "flash2"), _attention("flash2")),
    _Wanted("attention_fraction_mla", _of_attention("mla", "cudnn", ""), _attention()),
    _Wanted("norm_share", _of_kind("elementwise", "rms_norm", "forward_s"), _fields("norm_share")),
    _Wanted("norm_backward_share", _of_kind("elementwise", "rms_norm", "backward_s"), _fields("norm_backward_share")),
    _Wanted(
        "activation_backward_share",
        _of_kind("elementwise", "swiglu", "backward_s"),
        _fields("activation_backward_share"),
    ),
    _Wanted("loss_share", _of_kind("loss"), _fields("loss_share")),
    _Wanted("adam_extra_bytes", _of_kind("adamw"), _fields("adam_extra_bytes"), share=False, unit="B"),
    _Wanted("hb_fraction", lambda time: _large(time, *_RINGS), _fields("hb_fraction")),
    _Wanted("multicast_share", lambda time: _large(time, "all_reduce"), _fields("multicast_share")),
    _Wanted("all_to_all_share", lambda time: _large(time, "alltoall"), _fields("all_to_all_share")),
    _Wanted("nic_fraction", _large_between, _fields("nic_fraction")),
    _Wanted("domain_call_latency", _small, _fields("domain_call_latency_s"), share=False, unit="us"),
)
