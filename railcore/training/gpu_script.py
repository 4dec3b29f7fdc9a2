"""Times of the parts of a training step, measured on one GPU: a script that needs PyTorch, and not railcore.

    python measure_gpu.py --out parts.csv

It takes about three minutes and writes one CSV, which `railcore measure read` turns into rows of the catalog. It
measures products of a model's shapes (without a pause, and between copies in memory), fp8 and grouped products,
attention, a norm, an activation, the loss, the optimizer and a copy. A GPU that someone else uses is refused. No name
of a host or a person is written.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import os
import re
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Sizes of a model on one rank; `railcore measure script --model NAME` writes those of another.
# products: name, columns of the result, inner side. experts: how many, rows of each, columns, inner side.
JOB: dict[str, Any] = {
    "model": "Llama-3 8B",
    "tokens": 8192,
    "hidden": 4096,
    "ffn": 14336,
    "vocabulary": 128256,
    "products": [
        ["linear_qkv", 6144, 4096],
        ["linear_proj", 4096, 4096],
        ["linear_fc1", 28672, 4096],
        ["linear_fc2", 4096, 14336],
    ],
    "experts": [],
    "attention": {"heads": 32, "kv_heads": 8, "head_dim": 128, "value_dim": 128, "sequence": 8192},
}
COLUMNS = (
    *("gpu", "setup", "date", "kind", "name", "m", "n", "k"),
    *("experts", "heads", "kv_heads", "head_dim", "value_dim", "sequence", "batch"),
    *("forward_s", "input_gradient_s", "weight_gradient_s", "backward_s", "note"),
)
TIMES = COLUMNS[-5:-1]
BATCH_S = 0.02  # of repetitions that are timed together
LEAST_BATCHES = 3
COPIES = 3  # times that copies take of the product between them
COPIED = 2**28  # elements of a copy, and parameters of the optimizer, at most
IN_USE = 2 * 2**30  # bytes of a GPU in use from which someone else is thought to use it
MOST_USED = 0.85  # share of the free memory that a part may take
CPU_ROOM = 8 * 2**30  # bytes
GB, MINUTE = 1e9, 60


class Refused(Exception):
    """Nothing was measured; the message says why, and what to do."""


@dataclass
class Part:
    """A part of a step.

    kind, name, sizes: of its row.
    needs: bytes of the GPU's memory.
    make: gives what is timed, by column of the row.
    weight: share of the time that it gets, beside the other parts' weights.
    between: whether it is timed between copies that take COPIES times as long.
    """

    kind: str
    name: str
    sizes: dict[str, int]
    needs: float
    make: Callable[[], dict[str, Callable[[], Any]]]
    weight: float = 1.0
    between: bool = False
    note: str = ""
    less: dict[str, str] = field(default_factory=dict)  # columns, and the column whose time is taken off


@dataclass
class Clock:
    """Times of work on a device.

    elapsed: seconds of so many repetitions of a work, one after the other without a pause.
    elapsed_between: the same of the work alone, with other work between the repetitions.
    """

    elapsed: Callable[[Callable[[], Any], int], float]
    elapsed_between: Callable[[Callable[[], Any], Callable[[], Any], int], float]

    def seconds(self, work: Callable[[], Any], budget_s: float, other: Callable[[], Any] | None = None) -> float:
        """Median time of a repetition, the first third of the budget not counted: a GPU comes to its clock in it."""

        def timed(repeats: int) -> float:
            return self.elapsed(work, repeats) if other is None else self.elapsed_between(work, other, repeats)

        timed(1)  # compiles
        began = time.monotonic()
        once = max(timed(1), 1e-9)
        whole = once if other is None else max(time.monotonic() - began, once)  # with the other work
        repeats, batches = max(1, int(BATCH_S / whole)), list[float]()
        while len(batches) < LEAST_BATCHES or time.monotonic() - began < budget_s:
            batches.append(timed(repeats) / repeats)
        return statistics.median(batches[len(batches) // 3 :])


def parts_of(torch: Any, device: Any, job: dict[str, Any]) -> list[Part]:
    """All parts of a job on a device."""
    on_gpu, tokens = device.type == "cuda", int(job["tokens"])
    products = sorted(job["products"], key=lambda product: -product[1] * product[2])
    parts = [_copy(torch, device, min(COPIED, 32 * tokens * job["hidden"]))]
    parts += [_product(torch, device, name, tokens, n, k) for name, n, k in products]
    parts += [_product(torch, device, name, tokens, n, k, between=True) for name, n, k in products[:2]]
    if on_gpu and hasattr(torch, "_scaled_mm"):
        parts += [_product_fp8(torch, device, name, tokens, n, k) for name, n, k in products]
    if job["experts"]:
        parts += [_grouped(torch, device, *sizes) for sizes in job["experts"]]
    parts += [
        _attention(torch, device, kernel, job["attention"]) for kernel in (("flash", "cudnn") if on_gpu else ("flash",))
    ]
    parts += [_elementwise(torch, device, "rms_norm", tokens, job["hidden"])]
    parts += [_elementwise(torch, device, "swiglu", tokens, job["ffn"])]
    parts += [_loss(torch, device, tokens, job["vocabulary"])]
    return [*parts, _adam(torch, device, min(COPIED, 16 * tokens * job["hidden"]))]


def _normal(torch: Any, device: Any, *sides: int, **options: Any) -> Any:
    return torch.randn(*sides, device=device, dtype=options.pop("dtype", torch.bfloat16), **options)


def _copy(torch: Any, device: Any, n: int) -> Part:
    def make() -> dict[str, Callable[[], Any]]:
        source = _normal(torch, device, n)
        target = torch.empty_like(source)
        return {"forward_s": lambda: target.copy_(source)}

    return Part("copy", "bf16 elements", {"n": n}, 4 * n, make)


def _product(torch: Any, device: Any, name: str, m: int, n: int, k: int, between: bool = False) -> Part:
    def make() -> dict[str, Callable[[], Any]]:
        x, w, dy = (_normal(torch, device, *sides) for sides in ((m, k), (n, k), (m, n)))
        works = {"forward_s": lambda: x @ w.t()}
        if not between:
            works |= {"input_gradient_s": lambda: dy @ w, "weight_gradient_s": lambda: dy.t() @ x}
        return works

    kind = "product_between_copies" if between else "product"
    shown = f"copies take {COPIES} of the product's time" if between else name
    sizes = {"m": m, "n": n, "k": k}
    return Part(
        kind, shown, sizes, 6 * (m * k + n * k + m * n), make, 1.0 if between else 2.0, between, name if between else ""
    )


def _product_fp8(torch: Any, device: Any, name: str, m: int, n: int, k: int) -> Part:
    """Operands are cast before."""

    def make() -> dict[str, Callable[[], Any]]:
        x, w = (_normal(torch, device, *sides).to(torch.float8_e4m3fn) for sides in ((m, k), (n, k)))
        one = torch.ones((), device=device, dtype=torch.float32)
        options = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": True}
        return {"forward_s": lambda: torch._scaled_mm(x, w.t(), **options)}

    return Part("product_fp8", name, {"m": m, "n": n, "k": k}, 3 * (m * k + n * k) + 4 * m * n, make)


def _grouped(torch: Any, device: Any, experts: int, m: int, n: int, k: int) -> Part:
    """One kernel for the products of all experts, of m rows each."""

    def make() -> dict[str, Callable[[], Any]]:
        grouped = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
        x, w = _normal(torch, device, experts * m, k), _normal(torch, device, experts, n, k)
        ends = torch.arange(m, experts * m + 1, m, device=device, dtype=torch.int32)
        return {"forward_s": lambda: grouped(x, w.transpose(1, 2), offs=ends)}

    sizes = {"m": m, "n": n, "k": k, "experts": experts}
    return Part("experts_grouped", "experts", sizes, 4 * experts * (m * k + n * k + m * n), make)


def _attention(torch: Any, device: Any, kernel: str, job: dict[str, int]) -> Part:
    """Causal, by one kernel alone."""
    heads, kv_heads, sequence = job["heads"], job["kv_heads"], job["sequence"]

    def make() -> dict[str, Callable[[], Any]]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        dims = ((heads, job["head_dim"]), (kv_heads, job["head_dim"]), (kv_heads, job["value_dim"]))
        q, k, v = (_normal(torch, device, 1, count, sequence, dim, requires_grad=True) for count, dim in dims)
        dy = _normal(torch, device, 1, heads, sequence, job["value_dim"])
        backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": getattr(SDPBackend, "CUDNN_ATTENTION", None)}[kernel]

        def forward() -> Any:
            with sdpa_kernel([backend]):
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=True, enable_gqa=heads != kv_heads
                )

        return {"forward_s": forward, "backward_s": lambda: torch.autograd.grad(forward(), (q, k, v), dy)}

    elements = sequence * (
        heads * (job["head_dim"] + job["value_dim"]) + kv_heads * (job["head_dim"] + job["value_dim"])
    )
    return Part("attention", kernel, {**job, "batch": 1}, 12 * elements, make, 2.0, less={"backward_s": "forward_s"})


def _compiled(torch: Any, device: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as one kernel, as training software has it; on a CPU as it is."""
    return torch.compile(function) if device.type == "cuda" else function


def _elementwise(torch: Any, device: Any, name: str, m: int, n: int) -> Part:
    def norm(x: Any, w: Any) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w

    def gated(x: Any, w: Any) -> Any:
        return torch.nn.functional.silu(x) * w

    def make() -> dict[str, Callable[[], Any]]:
        function = _compiled(torch, device, norm if name == "rms_norm" else gated)
        x = _normal(torch, device, m, n, requires_grad=True)
        w = _normal(torch, device, *((n,) if name == "rms_norm" else (m, n)), requires_grad=True)
        dy = _normal(torch, device, m, n)
        return {
            "forward_s": lambda: function(x, w),
            "backward_s": lambda: torch.autograd.grad(function(x, w), (x, w), dy),
        }

    return Part("elementwise", name, {"m": m, "n": n}, 24 * m * n, make, less={"backward_s": "forward_s"})


def _loss(torch: Any, device: Any, m: int, n: int) -> Part:
    """Cross entropy in fp32 and its gradient, without the product before it."""

    def loss(logits: Any, words: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits.float(), words)

    def make() -> dict[str, Callable[[], Any]]:
        function = _compiled(torch, device, loss)
        logits = _normal(torch, device, m, n, requires_grad=True)
        words = torch.randint(n, (m,), device=device)
        return {"forward_s": lambda: torch.autograd.grad(function(logits, words), logits)}

    return Part("loss", "cross entropy, both passes", {"m": m, "n": n}, 12 * m * n, make)


def _adam(torch: Any, device: Any, n: int) -> Part:
    def make() -> dict[str, Callable[[], Any]]:
        weights = torch.nn.Parameter(_normal(torch, device, n, dtype=torch.float32))
        weights.grad = _normal(torch, device, n, dtype=torch.float32)
        return {"forward_s": torch.optim.AdamW([weights], fused=True).step}

    return Part("adamw", "fused, all states float32", {"n": n}, 16 * n, make)


def measured(
    parts: list[Part],
    clock: Clock,
    seconds: float,
    say: Callable[[str], Any],
    copies: Callable[[float], Callable[[], Any]],
    room: float,
    clean: Callable[[], Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows of the parts that could be measured; what could not is said.

    Parameters
    ----------
    parts, clock, seconds
        What is measured, by which clock, and the time of all together.
    say
        Called with a line when a part is done or left out.
    copies
        Gives copies in memory that take so many seconds.
    room
        Free memory of the GPU [bytes].
    clean
        Called after each part: gives its memory back.

    Returns
    -------
    A row for each part that could be measured.
    """
    rows, whole = list[dict[str, Any]](), sum(part.weight for part in parts)
    for number, part in enumerate(parts, start=1):
        title = f"{number} of {len(parts)}: {part.kind} {part.note or part.name}"
        if part.needs > MOST_USED * room:
            say(f"{title}: left out, it needs {part.needs / GB:.0f} GB and {room / GB:.0f} GB are free")
            continue
        try:
            times = _times(part, clock, seconds * part.weight / whole, copies)
        except (RuntimeError, NotImplementedError, AttributeError, ImportError, TypeError) as error:
            first = next(iter(str(error).strip().splitlines()), "")[:160]
            say(f"{title}: left out, {type(error).__name__}: {first}")
            continue
        finally:
            if clean:
                clean()
        say(f"{title}: {', '.join(f'{1e3 * value:.4g} ms' for value in times.values())}")
        shown = {name: f"{value:.6g}" for name, value in times.items()}
        rows.append({"kind": part.kind, "name": part.name, "note": part.note, **part.sizes, **shown})
    return rows


def _times(part: Part, clock: Clock, budget_s: float, copies: Callable[[float], Callable[[], Any]]) -> dict[str, float]:
    """Seconds by column."""
    works = part.make()
    each_s, times = budget_s / len(works), dict[str, float]()
    for column, work in works.items():
        other = copies(COPIES * clock.seconds(work, 0.0)) if part.between else None
        times[column] = clock.seconds(work, each_s, other)
    for column, before in part.less.items():
        times[column] = times[column] - times[before]
    return {column: value for column, value in times.items() if value > 0}


def times_text(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV with a header."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def write_times(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the permissions of the one that it replaces, else the umask's."""
    temporary = path.parent / f".railcore-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as stream:
            if path.exists():
                os.chmod(temporary, path.stat().st_mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def nvidia_smi(query: str) -> list[str]:
    """Lines that nvidia-smi gives for a query; none where there is no nvidia-smi."""
    try:
        words = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.splitlines() if line.strip()]


def check_free(programs: list[str], used: float) -> None:
    """Refuse a GPU that someone else uses.

    programs: on it, a line each. used: bytes of its memory that are in use before the script takes any.
    """
    other = "wait, or choose another GPU with --device cuda:1"
    if programs:
        raise Refused(
            f"the GPU is in use by {len(programs)} program(s), the first (GPU, process, memory) {programs[0]}: {other}"
        )
    if used > IN_USE:
        raise Refused(f"{used / GB:.1f} GB of the GPU's memory are in use: {other}")


def cuda_clock(torch: Any, device: Any) -> Clock:
    """Times by events of the GPU."""

    def event() -> Any:
        return torch.cuda.Event(enable_timing=True)

    def elapsed(work: Callable[[], Any], repeats: int) -> float:
        start, end = event(), event()
        start.record()
        for _ in range(repeats):
            work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def elapsed_between(work: Callable[[], Any], other: Callable[[], Any], repeats: int) -> float:
        pairs = [(event(), event()) for _ in range(repeats)]
        for start, end in pairs:
            other()
            start.record()
            work()
            end.record()
        torch.cuda.synchronize(device)
        return sum(start.elapsed_time(end) for start, end in pairs) / 1e3

    return Clock(elapsed, elapsed_between)


def _cpu_elapsed(work: Callable[[], Any], repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return time.perf_counter() - began


def _cpu_elapsed_between(work: Callable[[], Any], other: Callable[[], Any], repeats: int) -> float:
    spent = 0.0
    for _ in range(repeats):
        other()
        spent += _cpu_elapsed(work, 1)
    return spent


CPU_CLOCK = Clock(_cpu_elapsed, _cpu_elapsed_between)


def _copies(torch: Any, device: Any, n: int, clock: Clock) -> Callable[[float], Callable[[], Any]]:
    """Copies in memory that take so many seconds."""

    def of(seconds: float) -> Callable[[], Any]:
        source = _normal(torch, device, n)
        target = torch.empty_like(source)
        once = clock.seconds(lambda: target.copy_(source), 0.0)
        whole, rest = int(seconds // once), int(n * (seconds % once) / once)

        def copy() -> None:
            for _ in range(whole):
                target.copy_(source)
            if rest:
                target[:rest].copy_(source[:rest])

        return copy

    return of


def time_gpu(job: dict[str, Any], out: Path, seconds: float, device_name: str, say: Callable[[str], Any]) -> int:
    """Measure the parts of a job and write them.

    Parameters
    ----------
    job
        Sizes, as JOB has them.
    out
        The CSV to write; it may not be there yet.
    seconds
        Of all measurements.
    device_name
        As PyTorch names it.
    say
        Called with what will be done, and with a line for each part.

    Returns
    -------
    How many parts were measured.

    Raises
    ------
    Refused
        Before anything is measured, and where no part could be.
    """
    if not 1 <= seconds <= 3600:
        raise Refused(f"--seconds is {seconds:g}: give 1 to 3600")
    if not re.fullmatch(r"cuda(:\d+)?|cpu", device_name):
        raise Refused(f"--device is {device_name!r}: give cuda, cuda:1, ... or cpu")
    if out.exists():
        raise Refused(f"{out} is there already: give another name with --out, or remove it")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise Refused(f"{out.parent} cannot be written to: give another place with --out")
    # Asked before PyTorch takes the GPU: inside a container the script's own process has another number.
    programs, drivers = nvidia_smi("compute-apps=gpu_uuid,pid,used_memory"), nvidia_smi("gpu=driver_version")
    try:
        import torch
    except ImportError:
        raise Refused("PyTorch is not installed for this Python: run the script with the one that trains") from None
    device = torch.device(device_name)
    setup = [f"PyTorch {torch.__version__.partition('+')[0]}"]
    if device.type == "cuda":
        if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
            raise Refused(f"PyTorch sees no GPU {device_name}: check the driver, or give --device")
        device = torch.device("cuda", device.index or 0)
        properties = torch.cuda.get_device_properties(device)
        uuid = str(getattr(properties, "uuid", ""))  # of older versions "": then a program on any GPU counts
        check_free([line for line in programs if uuid in line], 0.0)
        torch.cuda.set_device(device)
        room, total = torch.cuda.mem_get_info(device)
        check_free([], total - room)
        toolkit = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}"
        setup = [*(f"driver {version}" for version in drivers[:1]), *setup, toolkit]
        card, clock, clean = properties.name, cuda_clock(torch, device), torch.cuda.empty_cache
    else:
        card, clock, clean, room = "CPU", CPU_CLOCK, None, CPU_ROOM
    parts = parts_of(torch, device, job)
    most = max((part.needs for part in parts if part.needs <= MOST_USED * room), default=0.0)
    minutes = max(1, round(1.2 * seconds / MINUTE))  # with what is made and compiled
    say(f"{card}, {', '.join(setup)}: {len(parts)} parts of {job['model']} in about {minutes} min, at full power")
    say(f"takes up to {most / GB:.0f} of {room / GB:.0f} GB; writes {out} at the end, and nothing if stopped (Ctrl-C)")
    copied = parts[0].sizes["n"] // 4
    rows = measured(parts, clock, seconds, say, _copies(torch, device, copied, clock), room, clean)
    if not rows:
        raise Refused("no part could be measured: the lines above say why")
    common = {"gpu": card, "setup": ", ".join(setup), "date": datetime.date.today().isoformat()}
    write_times(out, times_text([common | row for row in rows]))
    say(f"{out}: {len(rows)} of {len(parts)} parts")
    return len(rows)


def main(arguments: list[str] | None = None, job: dict[str, Any] | None = None) -> int:
    """The command; gives the exit status: 2 where it refuses, 130 where it was stopped."""
    parser = argparse.ArgumentParser(description="Time the parts of a training step on one GPU.")
    parser.add_argument("--out", default="parts.csv", help="the CSV to write")
    parser.add_argument("--seconds", type=float, default=180.0, help="of all measurements")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ...; cpu to try the script")
    options = parser.parse_args(arguments)
    try:
        time_gpu(job or JOB, Path(options.out), options.seconds, options.device, lambda text: print(text, flush=True))
    except Refused as refusal:
        print(f"measure: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("measure: stopped; nothing was written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
