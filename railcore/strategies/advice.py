"""What a search advises: calls with other GPUs, HB domains or batches, which work as printed, and what each costs.

More GPUs are not always faster: where they or the batch have few divisors, few strategies divide them. `result` and
`other` are each a `SearchResult`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from railcore import catalog
from railcore.catalog.units import show
from railcore.network.topology.rails import domain_warnings
from railcore.strategies.splits import allowed_values, divisors, used_of_domain
from railcore.training.machine import Machine, catalog_machine
from railcore.training.parallelism import LEVEL_NAMES
from railcore.training.software import as_runtime, newest_runtime
from railcore.training.transformer import as_model

_TRIED_DOMAINS = 200  # HB domains more or less, for a number of GPUs that fills them
_AS_WELL = 1.1  # times the GPU-seconds a sequence that such a number may take
_NONE = "No number from half to twice as many fills them and trains about as well a GPU."
_CLEARLY_FASTER = 1.05  # times as fast: worth HB domains of which some GPUs stay idle, or another batch
_FASTER = 1.01  # times as fast, on fewer GPUs
_NEAR_BATCH, _TRIED_BATCHES = 0.1, 3  # share that another batch may be off, and how many are tried


def warnings(result: Any, uneven: tuple[str, ...]) -> tuple[str, ...]:
    """What does not fill HB domains, and calls that are faster or worth comparing.

    uneven: texts on groups of the best strategy that lie unevenly in HB domains.
    """
    ragged = _ragged(result, uneven)
    return *ragged, *(text for text in result.faster if text not in ragged)


def faster(result: Any) -> tuple[str, ...]:
    """Calls that are faster on fewer GPUs, or with another batch near the given one."""
    texts = []
    if (fewer := _on_fewer(result)) and _speed(result, fewer) >= _FASTER:
        texts.append(_alternative(result, fewer))
    batches = [_searched(result, result.gpus, result.machine.hb_domain_size, batch) for batch in _batches(result)]
    best = max(batches, key=lambda other: _speed(result, other), default=None)
    if best is not None and _speed(result, best) >= _CLEARLY_FASTER:
        texts.append(_alternative(result, best))
    return tuple(texts)


def _on_fewer(result: Any) -> Any | None:
    """The same search on the GPUs of the fastest strategy of `splits_at_most`; None for all GPUs, or where none fits.

    A fast approximation of at_most=True: all GPUs of an HB domain are in use, or a power of 2 of them.
    """
    K = result.machine.hb_domain_size
    boxes = [result.machine.changed(hb_domain_size=used) for used in used_of_domain(K)]
    parts = [replace(part, hb_domain_size=K, top=1, only_best=True) for part in result.parts]
    fewer = type(result).merged(replace(part, machine=box).run() for box in boxes for part in parts)
    if fewer.best.empty or fewer.best["gpus"].iloc[0] == result.gpus:
        return None
    gpus = int(fewer.best["gpus"].iloc[0])
    return _searched(result, gpus, min(gpus, fewer.parts[fewer.fastest["part"][0]].machine.hb_domain_size))


def _batches(result: Any) -> list[int]:
    """Batches near the search's own that have more divisors in common with the GPUs, those with most first."""
    (batch, *others), gpus = _batches_of(result), result.gpus
    if others:
        return []
    multiples = np.unique([d * max(round(batch / d), 1) for d in divisors(gpus).tolist()])
    near = multiples[np.abs(multiples - batch) <= _NEAR_BATCH * batch]
    near = near[np.gcd(near, gpus) > math.gcd(batch, gpus)]
    return near[np.argsort(-np.gcd(near, gpus), kind="stable")][:_TRIED_BATCHES].tolist()


def _batches_of(result: Any) -> tuple[int, ...]:
    return dict(result.parts[0].allowed)["global_batch"]


def _ragged(result: Any, uneven: tuple[str, ...]) -> tuple[str, ...]:
    """What does not fill HB domains or lies unevenly in them, and calls to compare with."""
    gpus, K = result.gpus, result.machine.hb_domain_size
    if gpus % K == 0 and not uneven:
        return ()
    better = [_alternative(result, other) for other in _filling(result)] if gpus % K else []
    advice = "Compare the searches below." if better else _NONE
    smaller = divisors(gpus)
    smaller = smaller[(smaller > 1) & (smaller < K)]
    if smaller.size and len(result.best):
        other = _searched(result, gpus, int(smaller[-1]))
        if _speed(result, other) >= _CLEARLY_FASTER:
            better.append(_alternative(result, other))
    return (*domain_warnings(gpus, K, advice), *uneven, *better)


def _filling(result: Any) -> list[Any]:
    """Searches with the nearest numbers of GPUs, fewer and more, that fill HB domains and train about as well a GPU."""
    K = result.machine.hb_domain_size
    full = result.gpus // K
    fewer, more = range(full, full // 2, -1)[:_TRIED_DOMAINS], range(full + 1, 2 * full + 2)[:_TRIED_DOMAINS]
    tried = ((_searched(result, n * K, K) for n in domains) for domains in (fewer, more))
    nearest = (next((other for other in others if _trains_as_well(result, other)), None) for others in tried)
    return [other for other in nearest if other]


def _searched(result: Any, gpus: int, hb_domain_size: int, batch: int = 0) -> Any:
    """The best of the same search with other GPUs, in all and in use of an HB domain, or another batch."""
    boxes = [part.machine.changed(hb_domain_size=hb_domain_size) for part in result.parts]
    changes: dict[str, Any] = {"gpus": gpus, "only_best": True}
    if batch:
        allowed = dict(result.parts[0].allowed) | {"global_batch": (batch,)}
        changes["allowed"] = tuple(allowed.items())
    parts = [replace(part, machine=box, **changes) for part, box in zip(result.parts, boxes, strict=True)]
    return type(result).merged(part.run() for part in parts)


def _speed(result: Any, other: Any) -> float:
    """Times as fast a sequence as in `result`, of the best strategies; 0 where nothing fits, infinite over nothing."""
    if other.best.empty:
        return 0.0
    return math.inf if result.best.empty else result.best["sequence_s"].iloc[0] / other.best["sequence_s"].iloc[0]


def _trains_as_well(result: Any, other: Any) -> bool:
    return _speed(result, other) * _AS_WELL >= other.gpus / result.gpus


def _alternative(result: Any, other: Any) -> str:
    """The call of another search, the HB domains that it needs, what they cost, and its time, as a text."""
    box, K = result.machine, other.machine.hb_domain_size
    domains = math.ceil(other.gpus / K)
    used = f", {K:,} of the {box.hb_domain_size:,} GPUs of each in use" if box.hb_domain_size > K else ""
    cost = _difference(domains - math.ceil(result.gpus / box.hb_domain_size), _price_usd(box))
    speed = _speed(result, other)
    compared = f", {_times(speed)}" if speed < math.inf else ""
    takes = f"{_call_text(other, box)}: {show(other.best['total_s'].iloc[0], 's', 3)} an iteration"
    batch = _batches_of(other)[0]
    if batch != _batches_of(result)[0]:
        return f"{takes} of {batch:,} sequences{compared}{' a sequence' if compared else ''}."
    return f"{takes}{compared}, on {domains:,} HB domain{'s' * (domains != 1)}{used} ({cost})."


def _times(speed: float) -> str:
    """How many times as fast, or as long, in words."""
    ratio = f"{max(speed, 1 / speed):.3g}"
    return "as fast" if ratio == "1" else f"{ratio} times as {'fast' if speed > 1 else 'long'}"


def _difference(domains: int, price_usd: float) -> str:
    """How many HB domains more or fewer, and what they cost."""
    if not domains:
        return "as many"
    word = "more" if domains > 0 else "fewer"
    cost = f", {show(abs(domains) * price_usd, 'USD', 3)} by the catalog" if price_usd else ""
    return f"{abs(domains):,} {word}{cost}"


def _price_usd(machine: Machine) -> float:
    """Price of an HB domain as the catalog has it for the machine's platform, 0 where it has none [USD]."""
    if machine.platform not in catalog.names("platforms"):
        return 0.0
    box = catalog.item("platforms", machine.platform)
    return box.get("price", 0.0) if box["gpus"] == machine.hb_domain_size else 0.0


def _call_text(result: Any, machine: Machine) -> str:
    """The call that makes a search again, for a user who has this machine.

    What is no entry of the catalog is shown as `model`, `machine` or `runtime`.
    """
    first, runtimes = result.parts[0], list(dict.fromkeys(part.runtime for part in result.parts))
    offloads = list(dict.fromkeys(part.offload or "none" for part in result.parts))
    platform, K = first.machine.platform, first.machine.hb_domain_size
    alone = first.machine.changed(fabric=None)
    box = _named("machine", platform, "platforms", partial(catalog_machine, hb_domain_size=K), alone)
    default = catalog.item("platforms", platform)["gpus"] if box != "machine" else machine.hb_domain_size
    limits = dict(first.allowed)
    usual = dict(allowed_values(limits["global_batch"], {}))
    shown = {"gpus": repr(result.gpus), "global_batch": repr(_one(limits["global_batch"]))}
    shown |= {"hb_domain_size": repr(K)} if default != K else {}
    shown |= {"fabric": "fabric"} if first.machine.links.fabric else {}
    if runtimes != [newest_runtime(first.machine)]:
        names = [_named("runtime", runtime.name, "runtimes", as_runtime, runtime) for runtime in runtimes]
        shown["runtime"] = "runtime" if "runtime" in names else names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    if offloads != ["none"]:
        shown["offload"] = repr(offloads[0] if len(offloads) == 1 else offloads)
    changed = {name: values for name, values in limits.items() if name not in shown and values != usual[name]}
    shown |= {name: repr(_one(_named_levels(name, values))) for name, values in changed.items() if values}
    model = _named("model", first.model.name, "models", as_model, first.model)
    return f"search({', '.join([model, box, *(f'{name}={text}' for name, text in shown.items())])})"


def _named_levels(name: str, values: Any) -> list[Any]:
    """Values of a limit, by name where they have one."""
    return [LEVEL_NAMES[name][value] for value in values] if name in LEVEL_NAMES else list(values)


def _one(values: Any) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _named(argument: str, name: str, family: str, read: Callable[[str], Any], value: Any) -> str:
    """An argument as it is written: the name in the catalog where that has the same value, else the argument's name."""
    return repr(name) if name in catalog.names(family) and read(name) == value else argument
