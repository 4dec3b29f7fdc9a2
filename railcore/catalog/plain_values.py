"""Values as a spec or a JSON file has them: too many, nested too deep, too large, or with invisible characters."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from railcore.catalog.letters import hidden_character_fault

MOST_DEEP = 40  # keys in a dotted key
_MOST_VALUES = 20_000  # in all
_MOST_BITS = 1024  # of a whole number: a float holds no more
_MOST_FAULTS = 10  # told
_LETTERS = 60  # of a key in a message


def plain_faults(values: Any, in_lines: str = "(?!)", most: int = _MOST_VALUES) -> list[str]:
    """Why values are not plain, each by its dotted key with the remedy; the first ten.

    in_lines: a pattern of the dotted keys whose texts may have several lines, by default of none.
    most: values that are allowed in all. One that is held in several places counts in each: others read it so, too.
    """
    faults = dict[str, None]()
    for seen, fault in enumerate(_faults("", values, re.compile(in_lines), MOST_DEEP)):
        if seen > most:
            faults[f"it has more than {most:,} values, in all its tables and lists: give fewer"] = None
        elif fault:
            faults[fault] = None
        if seen > most or len(faults) == _MOST_FAULTS:
            break
    return [*faults]


def _faults(key: str, value: Any, in_lines: re.Pattern[str], deeper: int) -> Iterator[str]:
    """Faults, and "" for each value."""
    yield ""
    if hasattr(value, "tolist"):  # an array, or a column of a table
        value = value.tolist()
    if isinstance(value, str | PurePath):
        if fault := hidden_character_fault(str(value).strip(), bool(in_lines.fullmatch(key))):
            yield f"{key} {fault}"
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            yield f"{key} is a number of more than 300 digits: give a smaller one"
    elif isinstance(value, Collection) and not isinstance(value, bytes):
        if not deeper:
            first = key.partition(".")[0]
            yield f"{first} is nested more than {MOST_DEEP} deep, or holds itself: give fewer tables or lists in others"
            return
        for name, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            if fault := hidden_character_fault(str(name)):
                yield f"key {str(name)[:_LETTERS]!r}{f' of {key}' if key else ''} {fault}"
            else:
                yield from _faults(f"{key}.{name}" if key else str(name), part, in_lines, deeper - 1)
