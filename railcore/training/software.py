"""Software as a choice: the runtime of a platform and date, and what the other runtimes of the catalog would take."""

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from railcore.facts import catalog
from railcore.facts.arguments import checked
from railcore.facts.checks import one_of
from railcore.training.iteration import iteration_time
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime, as_runtime, catalog_runtime
from railcore.training.transformer import Transformer

MAKERS = ("NVIDIA", "AMD")


def gpu_maker(machine: Machine) -> str:
    """Maker of a machine's GPU: the catalog's row; without one AMD for a name such as MI300X, else NVIDIA."""
    by_name = "AMD" if machine.gpu.startswith("MI") else "NVIDIA"
    known = catalog.item("gpus", machine.gpu) if machine.gpu in catalog.names("gpus") else {}
    return one_of(f"maker of GPU {machine.gpu}", known.get("maker", by_name), MAKERS)


def _runtimes_for(maker: str) -> list[str]:
    """Runtimes of the catalog with a date that drive its GPUs. Raises ValueError for a maker or date of no use."""
    found = []
    for name in catalog.names("runtimes"):
        item = catalog.item("runtimes", name)
        if "maker" in item or "since" in item:
            one_of(f"maker of runtime {name}", item["maker"], MAKERS)
            _checked_month(f"since of runtime {name}", str(item["since"]))
            found += [name] * (item["maker"] == maker)
    return found


def _checked_month(name: str, month: str) -> None:
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", month):
        raise ValueError(f"{name} is {month!r}: give year and month, from 2000-01 on, such as 2025-09")


@checked
def dated_runtimes(platform: Machine | str) -> list[str]:
    """Runtimes of the catalog with a date that drive a platform's GPUs. platform: a machine, or a platform's name."""
    return _runtimes_for(gpu_maker(as_machine(platform)))


@checked
def runtime_of(platform: Machine | str, released: str) -> Runtime:
    """The training software of a platform at a date: the newest of the catalog's runtimes for its maker's GPUs.

    platform: a machine, or a platform's name. released: year and month, such as "2025-09".
    Raises ValueError for a date in another form, and for one before the first runtime.
    """
    _checked_month("released", released)
    maker = gpu_maker(as_machine(platform))
    dated = sorted((str(catalog.item("runtimes", name)["since"]), name) for name in _runtimes_for(maker))
    before = [name for since, name in dated if since <= released]
    if not before:
        raise ValueError(f"released is {released!r}: the first runtime for GPUs of {maker} is of {dated[0][0]}")
    return catalog_runtime(before[-1])


@checked
def newest_runtime(platform: Machine | str) -> Runtime:
    """The newest training software of the catalog for a platform's GPUs. platform: a machine, or a platform's name."""
    return runtime_of(platform, "2099-12")


@checked
def software_times(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping,
    global_batch: int,
    runtimes: Sequence[str] = (),
) -> pd.DataFrame:
    """Iteration time of one strategy under each runtime: the band that software alone makes.

    Parameters
    ----------
    model, machine, strategy, global_batch
        As for `iteration_time`.
    runtimes
        Of the catalog; by default all that have a date (`runtime_of`) and drive the machine's GPU.

    Returns
    -------
    Columns runtime, iteration_s, limit and over_best, the fastest first; the best is the fastest that is feasible, if
    any is.
    """
    machine = as_machine(machine)
    names = runtimes or dated_runtimes(machine)
    rows = []
    for name in names:
        found = iteration_time(model, machine, strategy, global_batch, as_runtime(name))
        rows.append({"runtime": name, "iteration_s": found.total_s, "limit": ", ".join(found.obstacles) or "feasible"})
    table = pd.DataFrame(rows).sort_values("iteration_s", ignore_index=True)
    fits = table["iteration_s"][table["limit"] == "feasible"]
    return table.assign(over_best=table["iteration_s"] / (fits if len(fits) else table["iteration_s"]).min())
