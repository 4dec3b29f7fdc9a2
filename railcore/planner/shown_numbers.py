"""The numbers of a plan: what each is called, what it means, and how it is shown."""

import math
from typing import NamedTuple

from railcore.catalog.units import kWh, number, show


class Number(NamedTuple):
    """label: in a table's head. unit: "USD", "W", "s", "days", "%", "GPUs", "" for counts, ... meaning: in words."""

    label: str
    unit: str
    meaning: str


NUMBERS = {
    "gpus": Number("GPUs bought", "", "whole racks"),
    "gpus_used": Number("GPUs used", "", "by the best strategy; the others are spares"),
    "batch": Number("batch", "sequences", "of an iteration"),
    "switches": Number("switches", "", "of the scale-out network"),
    "link_ends": Number("optical ends", "", "ends of optical links, hosts' included"),
    "modules": Number("optical modules", "", "that serve these ends"),
    "network_usd": Number("network price", "USD", "of all networks that are counted: switches, optics at both ends"),
    "network_w": Number("network power", "W", "listed maxima of switches and optics"),
    "purchase_usd": Number("cluster price", "USD", "purchase: servers with NICs, and networks"),
    "power_w": Number("facility power", "W", "servers and networks at full load, times PUE"),
    "ownership_usd": Number("ownership", "USD", "all costs that are counted, over the years of use"),
    "iteration_s": Number("iteration", "s", "of the best strategy on this network"),
    "circuits_s": Number("circuits", "s", "what changes of circuits add to an iteration"),
    "mfu": Number(
        "MFU, causal",
        "%",
        "share of the peak rate in bf16 that the model's own FLOPs use; of causal attention what is computed, half",
    ),
    "goodput": Number("goodput", "%", "share of the time that advances the job"),
    "stopped": Number("stops", "%", "share of the time that failures which stop the job take"),
    "slowed": Number("slow time", "%", "share of the time lost while parts that only slow it are down"),
    "gpus_down": Number("GPUs out of service", "", "on average: the whole host of a part until it is repaired"),
    "gpus_spare": Number("GPUs to spare", "", "whole hosts that stand for those out of service in 99% of the time"),
    "days": Number("training", "days", "wall time of the whole training, failures and contingency included"),
    "energy_J": Number("energy", "Wh", "of the training, at the facility"),
    "cost_usd": Number("training cost", "USD", "of owning the cluster while it trains: all items that are counted"),
    "token_usd": Number("a billion tokens", "USD", "training cost over tokens"),
    "gpu_hour_usd": Number("a GPU-hour", "USD", "training cost over hours of all GPUs that are bought"),
    "carbon_kg": Number("carbon", "t", "of the training's energy, at the stack"),
    "failed_switch_gpus": Number("GPUs that a failed leaf stops", "", "mean; 0 where it only slows them"),
    "failed_switch_tokens_share": Number("speed with a failed leaf", "%", "tokens/s until it is repaired"),
}
FIRST = ("days", "cost_usd", "purchase_usd", "network_usd", "power_w", "goodput")  # the first screen
_DIGITS = 4


def shown(name: str, value: float, digits: int = _DIGITS) -> str:
    """A number of NUMBERS with its unit."""
    unit = NUMBERS[name].unit
    if name == "token_usd":
        return f"{number(value * 1e9, digits)} USD"
    if unit == "%":
        return f"{number(100 * value, digits)}%"
    if name == "energy_J":
        return show(value, "Wh", digits) if value < 1e9 * kWh else f"{number(value / kWh / 1e6, digits)} GWh"
    if unit == "t":
        return f"{number(value / 1e3, digits)} t"
    if unit in ("USD", "W", "s"):
        return show(value, unit, digits)
    return f"{number(value, digits if unit else 12)}{f' {unit}' if unit else ''}"


def interval(name: str, low: float, high: float) -> str:
    """A range with its unit once; "" without a low end, and "from ..." without a high one."""
    if not math.isfinite(low):
        return ""
    if not math.isfinite(high):
        return f"from {shown(name, low, 3)}"
    ends = [shown(name, end, 3) for end in (low, high)]
    first, last = (end.rpartition(" ") for end in ends)
    return f"{first[0]} to {ends[1]}" if first[2] == last[2] and first[0] else f"{ends[0]} to {ends[1]}"
