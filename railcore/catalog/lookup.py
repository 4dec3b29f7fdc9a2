"""Names that are looked up: what is not there is refused with those that are nearest to it."""

import difflib
from collections.abc import Iterable

_NAMES_SHOWN = 16  # where none is near to what is asked for


class UnknownName(KeyError, ValueError):
    """A name that the catalog or the ledger does not have; the message lists the nearest ones, then `remedy`."""

    def __init__(self, what: str, name: object, known: Iterable[str], remedy: str = ""):
        super().__init__(f"{what} {name!r} does not exist: the nearest are {nearest_names(name, known)}{remedy}")

    def __str__(self) -> str:
        return self.args[0]


def known_name(what: str, name: str, known: Iterable[str]) -> str:
    """The known name that is given, whole or by how it alone begins: "01" of "01_network_cost". Raises UnknownName."""
    names = list(known)
    found = [name] if name in names else [entry for entry in names if entry.startswith(name)]
    if len(found) != 1:
        raise UnknownName(what, name, names)
    return found[0]


def near_names(name: object, known: Iterable[str], alike: float = 0.4) -> list[str]:
    """Up to three known names that look like one, the nearest first, small and capital letters alike.

    alike: least similarity, 0 for any and 1 for the same.
    """
    names = {entry.lower(): entry for entry in sorted(known)}
    return [names[near] for near in difflib.get_close_matches(str(name).lower(), names, n=3, cutoff=alike)]


def nearest_names(name: object, known: Iterable[str]) -> str:
    """Names near to one that is not there, else those that it begins, else the first that are known: quoted."""
    names, text = sorted(known), str(name).lower()
    near = near_names(name, names) or [entry for entry in names if text and entry.lower().startswith(text)]
    return ", ".join(map(repr, near or names[:_NAMES_SHOWN]))
