"""Training software of a platform and date: which runtime of the catalog a job takes where none is named."""

import re

from railcore import catalog
from railcore.catalog.arguments import checked
from railcore.catalog.checks import one_of
from railcore.training.machine import Machine, as_machine
from railcore.training.runtime import Runtime, catalog_runtime

MAKERS = ("NVIDIA", "AMD")
_LAST = "2099-12"


def gpu_maker(machine: Machine) -> str:
    """Maker of a machine's GPU: the catalog's row; without one AMD for a name such as MI300X, else NVIDIA."""
    by_name = "AMD" if machine.gpu.startswith("MI") else "NVIDIA"
    row = catalog.item("gpus", machine.gpu) if machine.gpu in catalog.names("gpus") else {}
    return one_of(f"maker of GPU {machine.gpu}", row.get("maker", by_name), MAKERS)


def _runtimes_for(maker: str) -> list[str]:
    """Runtimes of the catalog with a date, for a maker's GPUs. Raises ValueError for a wrong maker or date there."""
    runtimes = []
    for name in catalog.names("runtimes"):
        item = catalog.item("runtimes", name)
        if "maker" in item or "since" in item:
            one_of(f"maker of runtime {name}", item["maker"], MAKERS)
            _checked_month(f"since of runtime {name}", str(item["since"]))
            runtimes += [name] * (item["maker"] == maker)
    return runtimes


def _checked_month(name: str, month: str) -> None:
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", month):
        raise ValueError(f"{name} is {month!r}: give year and month, from 2000-01 on, such as 2025-09")


def dated_runtimes(platform: Machine | str) -> list[str]:
    """Runtimes of the catalog with a date that drive a platform's GPUs. platform: a machine, or a platform's name."""
    return _runtimes_for(gpu_maker(as_machine(platform)))


@checked
def runtime_of(platform: Machine | str, released: str) -> Runtime:
    """The training software of a platform at a date: the newest of the catalog's runtimes for its maker's GPUs.

    platform: a `Machine`, or a platform's name.
    released: year and month, such as "2025-09".

    Raises ValueError for a date in another form, and for one before the first runtime.

    Examples
    --------
    >>> import railcore as rc
    >>> rc.runtime_of("DGX H200", "2025-10").name
    'megatron-bridge2025'
    """
    _checked_month("released", released)
    return _newest(gpu_maker(as_machine(platform)), released)


def _newest(maker: str, released: str) -> Runtime:
    """The newest runtime for a maker's GPUs that a month has."""
    dated = sorted((str(catalog.item("runtimes", name)["since"]), name) for name in _runtimes_for(maker))
    before = [name for since, name in dated if since <= released]
    if not before:
        raise ValueError(f"released is {released!r}: the first runtime for GPUs of {maker} is of {dated[0][0]}")
    return catalog_runtime(before[-1])


def newest_runtime(platform: Machine | str) -> Runtime:
    """The newest training software of the catalog for a platform's GPUs. platform: a machine, or a platform's name."""
    return runtime_of(platform, _LAST)


def as_runtime(runtime: Runtime | str | None, machine: Machine | str | None = None) -> Runtime:
    """A runtime as it is, or `catalog_runtime` of its name; None for the newest for the machine's GPU.

    That is the default of every function, of plans and of notebooks. machine: a machine, or a platform's name; without
    one the newest is that for NVIDIA's GPUs. Raises ValueError for anything else.
    """
    if runtime is None:
        return newest_runtime(machine) if machine else _newest(MAKERS[0], _LAST)
    return runtime if isinstance(runtime, Runtime) else catalog_runtime(runtime)
