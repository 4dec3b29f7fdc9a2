"""Bad input to what a user calls or makes: it is refused by the argument's name, or answered with sense.

Each argument of the good calls of tests/surface_calls.py and of the lines of tests/surface_commands.toml, given or left
at its default, is replaced by what a person may type there, and by bad values of the kinds that its annotation allows.
"""

import dataclasses
import inspect
import itertools
import math
import numbers
import os
import pickle
import re
import resource
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike
from surface_calls import CALLS
from surface_commands import commands, lines

import railcore
from railcore.catalog import UnknownName, arguments
from railcore.siting.places import NoPlaces

CASE_S, MEMORY_BYTES = 20, 2 << 30  # of a case; memory beyond what the process has already
TYPED = {"text": "abc", "rate": "400 Gbps", "no value": None, "list": [], "truth": True, "table": {}, "huge 30": 1e30}
WHOLE = {"zero": 0, "negative": -1, "NaN": math.nan, "infinite": math.inf, "many": 10**9, "huge": 10**12}
REAL = {kind: value for kind, value in WHOLE.items() if kind != "many"} | {"huge": 1e300}
REFUSED = ("negative", "NaN", "infinite", "unknown name", "in the way")  # whatever the answer would be
_ARRAYS = set(get_args(ArrayLike))
NAME, MORE = ("unknown name",), ("many", "huge")
MEANT = {  # what is accepted, or answered as the good call is, and why
    ("railcore catalog template", "name"): NAME,  # of an item that the catalog lacks still
    ("railcore catalog template", "--gpu"): NAME,
    ("railcore catalog template", "--like"): ("empty",),  # the default: the nearest GPU that the catalog has
    ("suite figures 2", "--params"): ("empty",),  # none: it runs the notebooks that changed
    ("railcore sweep", "--workers"): ("zero",),  # all cores
    ("railcore sweep 2", "--out"): ("in the way",),  # as in the first line, after it has looked for the scheduler
    ("Area", "authorities"): NAME,  # held against the plants of the grid, in find_places
    **dict.fromkeys([("PriceBook", f"{each}name") for each in ("", "circuit_", "copper_")], NAME),  # labels
    **dict.fromkeys(
        [("Transformer", "name"), ("Runtime", "name"), ("Sizing", "price_book"), ("Sizing", "rate_format")], NAME
    ),
    ("template", "name"): NAME,
    ("megatron_run", "vocabulary"): ("zero", *MORE),  # the line's own counts
    ("readable", "digits"): MORE,  # all that there are
    ("cluster_networks", "gpus"): ("many",),  # a saving may be a loss, and no radix has such domains
    ("cluster_networks", "hb_domain_size"): ("many",),
    ("search", "gpus"): ("many",),  # where no strategy divides, the fastest takes for ever
    ("show", "digits"): MORE,
    ("show", "value"): ("negative", "NaN", "infinite"),  # shows any number
    ("stage_memory", "global_batch"): MORE,  # a larger batch needs no more memory at a time
    ("training_goodput", "global_batch"): MORE,  # shares of the time
    ("training_goodput", "spares"): MORE,  # more than fail are of no use
    ("iteration_traffic", "hb_domain_size"): MORE,  # one domain holds all GPUs
}


class Call:
    """A good call and its arguments by parameter."""

    def __init__(self, good: partial) -> None:
        self.target, self.name = good.func, good.func.__qualname__
        function = inspect.unwrap(vars(good.func)["__init__"] if inspect.isclass(good.func) else good.func)
        signature = inspect.signature(function)  # what is checked shows its annotations as texts
        if "self" in signature.parameters:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        self._bound = signature.bind(*good.args, **good.keywords)
        gathered = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        self.parameters = {name: each for name, each in signature.parameters.items() if each.kind not in gathered}
        self.further = [name for name in good.keywords if name not in self.parameters]  # gathered by **
        self.reads = hasattr(good.func, "__wrapped__") or inspect.isclass(good.func)  # what is typed: `checked`
        placed = self._bound.arguments | {name: good.keywords[name] for name in self.further}
        self.given = {name: placed.get(name, each.default) for name, each in self.parameters.items()}
        self.given |= {name: placed[name] for name in self.further}

    def good(self) -> Any:
        return self.answer()

    def answer(self, **changed: Any) -> Any:
        """What the call gives, with arguments changed. Iterators are read."""
        bound = inspect.BoundArguments(self._bound.signature, dict(self._bound.arguments))
        further = {name: self.given[name] for name in self.further}
        for name, value in changed.items():
            if name in further:
                further[name] = value
            else:
                bound.arguments[name] = value
        found = self.target(*bound.args, **(bound.kwargs | further))
        return list(itertools.islice(found, 1000)) if isinstance(found, Iterator) else found

    def bad(self, parameter: str) -> dict[str, Any]:
        """Bad values by kind."""
        bad = bad_values(self.parameters[parameter]) if parameter in self.parameters else {}
        return TYPED | bad if self.reads else bad


def bad_values(parameter: inspect.Parameter) -> dict[str, Any]:
    """Bad values by kind that an annotation lets a caller try; what its range or its name allows is not bad."""
    members = _members(parameter.annotation)
    found: dict[str, Any] = {}
    if arrays := members >= _ARRAYS:
        members -= _ARRAYS
    plain = {get_origin(each) or each for each in members}
    if int in plain:
        found |= WHOLE
    if arrays or float in plain or np.ndarray in plain:
        found |= REAL
    if arrays or plain & {np.ndarray, list, tuple, Sequence, Iterable}:
        found["empty"] = []
    if str in plain:
        found |= {"empty": "", "unknown name": "no such name"}
    if plain & {dict, Mapping}:
        found["empty"] = {}
    reader = arguments._Reader(parameter.name, parameter.annotation)
    if found.keys() & REAL.keys():
        found.pop("negative" if reader.allowed.least < 0 else "", None)
        found.pop("infinite" if reader.allowed.infinite else "", None)
    return found


def _members(annotation: Any) -> set[Any]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return {str}
    if get_origin(annotation) is Union or isinstance(annotation, UnionType):
        return set().union(*map(_members, get_args(annotation)))
    return {annotation}


def placed(bad: Any, good: Any) -> Any:
    """A bad value in the form of the good one: an array or a list has it in its first place."""
    if isinstance(good, np.ndarray | list | tuple | range) and np.ndim(bad) == 0 and len(good):
        plain = np.asarray(good)
        if plain.dtype.kind in "iuf" and isinstance(bad, int | float):
            changed = plain.astype(float)
            changed.flat[0] = bad
            return changed if isinstance(good, np.ndarray) else type(good)(changed.tolist())
    if isinstance(good, np.ndarray) and isinstance(bad, list):
        return np.array([])
    if isinstance(bad, str) and isinstance(good, list) and set(map(type, good)) == {str}:
        return [bad, *good[1:]]
    return () if isinstance(good, tuple) and bad == [] else bad


def wrong(call):
    """What is wrong with the answers of a call whose arguments are made bad, one after the other.

    In a process of its own, which a case that takes too long ends.
    """
    reading, writing = os.pipe()
    if not (child := os.fork()):
        with os.fdopen(writing, "w", buffering=1, encoding="utf-8") as told:
            try:
                limit_memory()
                _judge(call, told)
            except BaseException as error:
                told.write(f"\nthe judge failed: {error!r}")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        *found, last = pipe.read().split("\n")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        found.append(f"{last}: {signal.Signals(os.WTERMSIG(status)).name}, after {CASE_S} s if that is an alarm")
    elif last:
        found.append(last)
    return [line for line in found if ": " in line]


def limit_memory():
    """For this process: memory beyond what it has, and no output."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)


def _judge(call, told):
    warnings.simplefilter("ignore")
    answer = call.good()
    for parameter, good in call.given.items():
        for kind, value in call.bad(parameter).items():
            bad = placed(value, good)
            meant = kind in MEANT.get((call.name, parameter), ())
            if meant or same(good, bad) or (kind in ("zero", "empty") and nothing(good)):
                continue
            told.write(f"{call.name}({parameter}={kind})")
            told.flush()
            signal.alarm(CASE_S)
            verdict = _verdict(call, parameter, kind, bad, answer)
            signal.alarm(0)
            told.write(f": {verdict[:300]!r}\n" if verdict else "\n")


def _verdict(call, parameter, kind, bad, good):
    """ "" where a case was refused by its name or answered with sense; else what is wrong."""
    try:
        answer = call.answer(**{parameter: bad})
    except NoPlaces:  # an answer
        return ""
    except ValueError as error:
        others = call.given if isinstance(bad, int | float) else ()  # a number may be too large for another's
        named = any(re.search(rf"\b{each.lstrip('-')}\b", str(error)) for each in (parameter, *others))
        known = isinstance(error, UnknownName) and repr(bad) in str(error)
        return "" if named or known or kind in MORE or not call.reads else f"refused without its name: {error}"
    except Exception as error:
        if not call.reads and isinstance(error, TypeError | OSError | ImportError):
            return ""
        return f"{type(error).__name__}: {error}"
    if kind in REFUSED:
        return f"accepted: {answer!r}"
    if kind in TYPED:
        return ""
    if found := nonsense(answer, good):
        return f"nonsense: {found}"
    return "silence: the good answer" if same(answer, good) else ""


def nothing(good):
    """Whether a good value is 0, empty or not given."""
    return good is None or (len(good) == 0 if isinstance(good, Sized) else bool(np.size(good) == 1 and not good))


def nonsense(answer, good):
    """A NaN, an infinity or a number below 0 in an answer, of a kind that the good answer has none of."""
    allowed = set(map(_sort, _numbers(good)))
    return ", ".join(sorted({_sort(each) for each in _numbers(answer)} - allowed - {""}))


def _sort(number):
    return "NaN" if number != number else "infinite" if math.isinf(number) else "negative" if number < 0 else ""


def _numbers(found, depth=0):
    """Numbers of an answer, of arrays the least, the largest and a NaN."""
    if isinstance(found, bool | np.bool_ | str) or found is None or depth > 6:
        return
    if isinstance(found, numbers.Real):
        yield float(found)
    elif isinstance(found, np.ndarray | pd.Series):
        values = np.asarray(found)
        if values.dtype.kind in "iuf" and values.size:
            known = values[values == values]  # a NaN is unlike itself
            yield from map(float, (np.min(values), *((known.min(), known.max()) if known.size else ())))
    else:
        if isinstance(found, pd.DataFrame):
            inner = [found[name] for name in found.columns]
        elif isinstance(found, Mapping):
            inner = found.values()
        elif isinstance(found, list | tuple | set | frozenset):
            inner = found
        else:
            named = dataclasses.fields(found) if dataclasses.is_dataclass(found) else ()
            inner = [getattr(found, each.name, None) for each in named]
        for each in itertools.islice(inner, 1000):
            yield from _numbers(each, depth + 1)


def same(a, b):
    try:
        return pickle.dumps(a) == pickle.dumps(b)
    except Exception:
        return a is b


def test_everything_that_railcore_exports_has_a_good_call():
    exported = {name for name in railcore.__all__ if callable(getattr(railcore, name))}
    exported -= {"sweep"}  # starts processes and writes; the command line has its bad words, test_sweep.py the rest
    assert exported <= {call.func.__name__ for call in CALLS}


def test_every_option_of_every_command_has_a_good_line():
    given = {(line.command, parameter) for line in lines().values() for parameter in line.parameters}
    assert given == {(command, parameter) for command, actions in commands().items() for parameter in actions}


@pytest.mark.parametrize("good", CALLS, ids=lambda good: good.func.__qualname__)
def test_bad_input_is_refused_or_answered_with_sense(good):
    assert not wrong(Call(good))


@pytest.mark.parametrize("name", [name for name, line in lines().items() if line.given])
def test_a_bad_word_of_a_command_is_refused_or_answered_with_sense(name):
    assert not wrong(lines()[name])
