"""Fields of a frozen dataclass that follow from its other fields.

Such a field holds the derived value and remembers the argument that it replaced: `dataclasses.replace` hands that on,
and the new object derives the field anew from its other fields.
"""

from typing import Any


class _Derived:
    """A derived value; `given` is the argument that it replaced."""

    given: Any = None


class _DerivedInt(_Derived, int):
    pass


class _DerivedFloat(_Derived, float):
    pass


class _DerivedText(_Derived, str):
    pass


_KINDS = {int: _DerivedInt, float: _DerivedFloat, str: _DerivedText}


def given(instance: object, name: str) -> Any:
    """The argument of a field, also where `dataclasses.replace` hands on its derived value."""
    value = getattr(instance, name)
    return value.given if isinstance(value, _Derived) else value


def derive(instance: object, name: str, value: Any) -> None:
    """Set a field to its derived value, in the `__post_init__` of its dataclass."""
    argument = given(instance, name)
    if value != argument:
        value = next(derived(value) for plain, derived in _KINDS.items() if isinstance(value, plain))
        value.given = argument
    object.__setattr__(instance, name, value)
