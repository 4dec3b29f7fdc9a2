"""Values of a spec as texts with their units."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from railcore.catalog.units import convert, counted, number, show

_UNITS = {  # of keys of the spec that are quantities
    **dict.fromkeys(("budget", "server", "purchase", "cost"), "USD"),
    **dict.fromkeys(("power", "server_power"), "W"),
    **dict.fromkeys(("reconfiguration", "checkpoint", "checkpoint_interval", "restart"), "s"),
    **dict.fromkeys(("within", "people_within", "radius"), "m"),
    **{"nic": "bps", "electricity": "USD/kWh", "carbon": "kg/kWh"},
}


def value_text(key: str, value: Any) -> str:
    """A value of the spec with its unit."""
    if isinstance(value, dict) and "file" in value:
        return Path(value["file"]).name
    if isinstance(value, list | tuple) and any(isinstance(part, dict) for part in value):
        return ", ".join(value_text(key, part) for part in value)
    if key == "job.config":
        return f"{value.get('model_type', 'of a model')}, {counted(len(value), 'keys')}"
    unit = _UNITS.get(key.rpartition(".")[2])
    if unit is None or not isinstance(value, float):
        return _text(value)
    return f"{number(float(convert(value, unit)), 6)} {unit}" if "/" in unit else show(value, unit)


def _text(value: Any) -> str:
    if isinstance(value, BaseModel):
        parts = value.model_dump(exclude_none=True).items()
        return ", ".join(f"{name} {show(part, 'bps') if name == 'rate' else _text(part)}" for name, part in parts)
    if isinstance(value, float):
        return number(value, 6)
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
