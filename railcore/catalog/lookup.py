"""Names that are looked up: what is not there is refused with those that are nearest to it."""

import difflib
import re
from collections.abc import Iterable

_NAMES_SHOWN = 16  # where none is near to what is asked for


class UnknownName(KeyError, ValueError):
    """A name that the catalog or the ledger does not have; the message lists the nearest ones, then `remedy`."""

    def __init__(self, what: str, name: object, choices: Iterable[str], remedy: str = ""):
        super().__init__(f"{what} {name!r} does not exist: the nearest are {nearest_names(name, choices)}{remedy}")

    def __str__(self) -> str:
        return self.args[0]


def full_name(what: str, name: str, choices: Iterable[str]) -> str:
    """The choice of this name (see `listed_name`), or the only one that begins with it: "01" is "01_network_cost".

    Raises UnknownName.
    """
    names = list(choices)
    if listed := listed_name(name, names):
        return listed
    fitting = [entry for entry in names if entry.startswith(name)]
    if len(fitting) != 1:
        raise UnknownName(what, name, names)
    return fitting[0]


def listed_name(name: object, choices: Iterable[str]) -> str | None:
    """The choice that is a name, else the only one that differs from it in case, spaces, hyphens and underscores alone.

    None for none: "gb200-nvl72" is "GB200 NVL72".
    """
    names = list(choices)
    if name in names:
        return str(name)
    alike = [entry for entry in names if _letters(entry) == _letters(str(name))]
    return alike[0] if len(alike) == 1 else None


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())


def near_names(name: object, choices: Iterable[str], alike: float = 0.4) -> list[str]:
    """Up to three of the choices that look like a name, the nearest first; small and capital letters are the same.

    alike: least similarity, 0 for any and 1 for the same.
    """
    names = {entry.lower(): entry for entry in sorted(choices)}
    return [names[near] for near in difflib.get_close_matches(str(name).lower(), names, n=3, cutoff=alike)]


def nearest_names(name: object, choices: Iterable[str]) -> str:
    """Quoted: the choices that look like a name, else those that begin with it, else the first ones."""
    names, text = sorted(choices), str(name).lower()
    near = near_names(name, names) or [entry for entry in names if text and entry.lower().startswith(text)]
    return ", ".join(map(repr, near or names[:_NAMES_SHOWN]))
