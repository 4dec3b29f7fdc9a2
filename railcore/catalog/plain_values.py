"""Values as a spec or a JSON file has them: which are nested too deep, too large, or of letters that no page shows."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import Any

from railcore.catalog.letters import unshown

MOST_DEEP = 40  # keys in a dotted key
_MOST_BITS = 1024  # of a whole number: a float holds no more
_MOST_FAULTS = 10  # told; values that hold themselves have no end of them
_LETTERS = 60  # of a key in a message


def plain_faults(values: Any, in_lines: str = "(?!)") -> list[str]:
    """Why values are not plain, each by its dotted key with the remedy; the first ten.

    in_lines: a pattern of the dotted keys whose texts may have several lines, by default of none.
    """
    return [*dict.fromkeys(islice(_faults("", values, re.compile(in_lines), MOST_DEEP), _MOST_FAULTS))]


def _faults(key: str, value: Any, in_lines: re.Pattern[str], deeper: int) -> Iterator[str]:
    if isinstance(value, str | PurePath):
        if fault := unshown(str(value), bool(in_lines.fullmatch(key))):
            yield f"{key} {fault}"
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            yield f"{key} is a number of more than 300 digits: give a smaller one"
    elif isinstance(value, Mapping | list | tuple):
        if not deeper:
            first = key.partition(".")[0]
            yield f"{first} is nested more than {MOST_DEEP} deep, or holds itself: give fewer tables or lists in others"
            return
        for name, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            if fault := unshown(str(name)):
                yield f"key {str(name)[:_LETTERS]!r}{f' of {key}' if key else ''} {fault}"
            else:
                yield from _faults(f"{key}.{name}" if key else str(name), part, in_lines, deeper - 1)
