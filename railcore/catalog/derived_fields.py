"""Fields of a frozen dataclass that follow from its other fields.

Such a field holds what follows, and remembers what was given in its place: `dataclasses.replace` hands it on, and
the new object finds the field anew from its own other fields.
"""

from typing import Any


class _Derived:
    """What follows from other fields; `given` stood in its place."""

    given: Any = None


class _DerivedInt(_Derived, int):
    pass


class _DerivedFloat(_Derived, float):
    pass


class _DerivedText(_Derived, str):
    pass


_KINDS = {int: _DerivedInt, float: _DerivedFloat, str: _DerivedText}


def given(instance: object, name: str) -> Any:
    """What was given for a field, also where `dataclasses.replace` hands on what followed from other fields."""
    value = getattr(instance, name)
    return value.given if isinstance(value, _Derived) else value


def derive(instance: object, name: str, value: Any) -> None:
    """Set a field to what follows from the others, in the `__post_init__` of its dataclass."""
    stood = given(instance, name)
    if value != stood:
        value = next(derived(value) for plain, derived in _KINDS.items() if isinstance(value, plain))
        value.given = stood
    object.__setattr__(instance, name, value)
