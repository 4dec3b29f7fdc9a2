"""Loops compiled by Numba at their first call, kept on disk, or run as plain Python where there is no Numba.

Numba compiles a function anew when its own file changes, and not when the file of a function that it calls does: so
code is kept in a folder named by a hash of all sources that hold such functions, _SOURCES, and any change compiles all
of it once. A folder that the variable NUMBA_CACHE_DIR names is used as it is.
"""

import hashlib
import importlib
import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

from railcore.catalog import files

_SOURCES = (  # files and folders of the package with functions that are compiled
    *("compiled.py", "training/pipeline_schedule.py", "training/critical_path.py"),
    *("strategies/kernel.py", "transport"),
)


class CompiledLoop:
    """A function that Numba compiles when it is first called; other compiled functions may call it.

    It runs as plain Python while the variable RAILCORE_NO_JIT is set (and not "0"), or where Numba is not installed.
    """

    def __init__(self, function: Callable, options: dict[str, Any]) -> None:
        self.plain, self.options = function, options
        self.py_func, self.targetoptions = function, options  # where Numba looks before it inlines a call
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run it on these arguments."""
        plain = os.environ.get("RAILCORE_NO_JIT", "0") not in ("", "0")
        return (self.plain if plain else self.compiled)(*arguments)

    @cached_property
    def compiled(self) -> Callable:
        """The function as Numba calls it, or the plain one where there is no Numba."""
        if "NUMBA_CACHE_DIR" not in os.environ:  # Numba reads it at its import
            os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())
        try:
            numba = importlib.import_module("numba")
        except ImportError:
            return self.plain
        try:
            return numba.njit(cache=True, error_model="numpy", _nrt=False, **self.options)(self.plain)
        except RuntimeError:  # no folder that can be written to
            return numba.njit(error_model="numpy", _nrt=False, **self.options)(self.plain)

    @property
    def _numba_type_(self) -> Any:
        """What Numba sees where a compiled function calls this one."""
        return self.compiled._numba_type_  # type: ignore[attr-defined]


def njit(function: Callable, **options: Any) -> CompiledLoop:
    """Decorate a loop over numbers and arrays."""
    return CompiledLoop(function, options)


def inlined(function: Callable) -> CompiledLoop:
    """Decorate a small part of compiled loops that is called for every packet: it becomes a part of its caller."""
    return njit(function, inline="always")


class Arithmetic(CompiledLoop):
    """A function of numbers or of arrays: Python calls it as it is, and compiled loops compile it for numbers.

    array_form: what Python calls instead, such as np.maximum, where numbers are better written otherwise.
    """

    def __init__(self, function: Callable, array_form: Callable | None = None) -> None:
        super().__init__(function, {"forceinline": True})
        self.array_form = array_form or function

    def __call__(self, *arguments: Any) -> Any:
        """Run it on numbers or arrays."""
        return self.array_form(*arguments)


def _larger_number(a: Any, b: Any) -> Any:
    return a if a > b else b


def _smaller_number(a: Any, b: Any) -> Any:
    return a if a < b else b


larger, smaller = Arithmetic(_larger_number, np.maximum), Arithmetic(_smaller_number, np.minimum)


class _Prefetch:
    """Ask the processor for an element of an array before it is needed: loops wait less, and no result changes.

    The place may be beyond the array. For an array of one dimension the column is not used.
    """

    def __call__(self, array: Any, row: Any, column: Any) -> None:
        """Plain Python does not need it."""

    @cached_property
    def _numba_type_(self) -> Any:
        """What Numba sees in a compiled function: an instruction of its own."""
        numba, cgutils, ir = map(importlib.import_module, ("numba", "numba.core.cgutils", "llvmlite.ir"))

        def compose(context, builder, signature, arguments):
            kind, place = signature.args[0], arguments[1 : 1 + signature.args[0].ndim]
            array = context.make_array(kind)(context, builder, arguments[0])
            place = cgutils.get_item_pointer(context, builder, kind, array, place)
            place = builder.bitcast(place, cgutils.voidptr_t)
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
            builder.call(hint, [place, number(1), number(3), number(1)])
            return context.get_dummy_value()

        def place_of(context, array, row, column):
            return numba.types.void(array, numba.types.intp, numba.types.intp), compose

        hint = numba.extending.intrinsic(place_of)
        typing = importlib.import_module("numba.core.registry").cpu_target.typing_context
        typing.refresh()
        return typing.resolve_value_type(hint)


prefetch = _Prefetch()


def cache_folder() -> Path:
    """Where compiled code is kept: build/ of the project, or the user's cache for an installed package."""
    sources = hashlib.sha256()
    for source in _SOURCES:
        path = files.PACKAGE / source
        for each in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            sources.update(each.read_bytes())
    kept = files.BUILD
    if files.INSTALLED:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "railcore"
    return kept / "numba" / sources.hexdigest()[:16]
