"""Cases drawn from a seed: calls, command lines and specs, with good, bad, odd, extreme and wrong values together.

A case is drawn from its seed and its number alone, so that one that fails can be run again by itself:
python tests/drawn_cases.py SEED NUMBER
"""

import contextlib
import copy
import dataclasses
import math
import random
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from surface_calls import BOX, CALLS, FABRIC, LAID, LAW, LAYER, MODEL, SITE, SPEC, STRATEGY
from surface_commands import NOT_RUN, commands, folder_of_files, lines, said
from test_surface import Call, nonsense

import railcore as rc
from railcore.planner.spec import Spec, section_in
from railcore.planner.spec_reading import read_spec
from railcore.siting.places import NoPlaces

BOOK = rc.price_book("street2025")
NUMBERS = (0, 1, -1, 2, 7, 64, 0.5, 1.5, 1e-300, 1e300, 10**9, 10**400, math.nan, math.inf, -math.inf, True)
TEXTS = ("", " ", "abc", "nan", "64", "1e9", "16k", "50%", "400 Gbps", "40 MW", "600 USD", "25 ms", "75 km", "3 years")
ODD_TEXTS = ("-1", "inf", "é\n", "=1+1", "<b>", "0x10", "1_000", "--help", "10" * 300)
NAMES = ("DGX H100", "GB200 NVL72", "Llama-3 8B", "street2025", "fp8", "rail-only", "none", "all", "full", "Texas")
WRONG = (None, [], [1], [None], ["a"], (), {}, {"x": 1}, {1}, b"x", object(), len, dict, type(MODEL), math, 3 + 4j)
ARRAYS = (np.array([]), np.array([1.0, math.nan]), np.arange(6).reshape(2, 3), np.array("a"), np.float64(3), range(3))
TABLES = (pd.DataFrame(), pd.DataFrame({"a": [1]}), pd.DataFrame({"part": ["GPU"], "count": [-1.0]}), pd.Series([1, 2]))
NOT_DRAWN = (*NOT_RUN, "suite coverage")  # which checks every claim
SLOW_LINES = ("railcore plan", "railcore support", "railcore sweep", "suite claim")
FILES = ("", "\n", "a,b\n1,2,3\n", "[cluster]\n", "x" * 5000, "[[[", "gpu;date\n\ufeff1;2\n", "null", "\0", "[1]")
QUICK = ("show", "readable", "rail_only", "rail_optimized", "fat_tree", "PhotonicRails", "PriceBook", "price_book")
QUICK += ("matching_books", "Transformer", "catalog_model", "catalog_machine", "Runtime", "Strategy", "bill_table")
QUICK += (
    "parts_at_risk",
    "expected_failures",
    "megatron_run",
    "scaling_law",
    "Area",
    "Machine.changed",
)
QUICK += ("PriceBook.at_rate", "PriceBook.times", "Strategy.rank_of", "Strategy.groups", "RailFabric.with_layer")
_REMEDY = re.compile(
    r"\b(give|make|write|leave|add|change|remove|nearest|too many|larger|needs?|lacks?|writes|check|has no)\b"
)


class Case(NamedTuple):
    """What is done, as a text, and the doing: it gives what is wrong with the answer."""

    text: str
    run: Callable[[], str]


def drawn(seed: int, number: int, quick: bool = False) -> Case:
    """Case of a number. quick: of those that take milliseconds."""
    chance = random.Random(f"{seed} {number}")
    return chance.choice((_drawn_call, _drawn_call, _drawn_line, _drawn_spec))(chance, quick)


def verdict(case: Case) -> str:
    """ "" where a case is refused with a remedy, or answered with sense; else what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # of NumPy: a number without sense
        try:
            return case.run()
        except NoPlaces:  # an answer
            return ""
        except ValueError as error:
            return "" if _REMEDY.search(str(error)) else f"refused without a remedy: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"


@cache
def _calls(quick: bool) -> list[Call]:
    """Good calls: of the facade, and of methods of what it gives."""
    calls = [call for call in CALLS if call.func.__name__ in rc.__all__]
    calls += [
        partial(BOOK.at_rate, 1e11),
        partial(BOOK.times, {"port": 2.0}),
        partial(STRATEGY.rank_of, 1),
    ]
    calls += [partial(STRATEGY.groups, "data"), partial(BOX.changed, nic_Bps=5e10), partial(FABRIC.with_layer, 2.0)]
    if quick:
        return [Call(each) for each in calls if each.func.__qualname__ in QUICK]
    traffic, found = rc.iteration_traffic(MODEL, STRATEGY, 8), rc.search(MODEL, BOX, 16, 16, context=1)
    planned, times = rc.plan(SPEC), rc.layer_times(LAYER, LAID, SITE)
    calls += [partial(traffic.entries, 0, 4), partial(traffic.summary, 4, 4), partial(found.designs, 2)]
    calls += [partial(found.runner_up_wins, 2), partial(found.table, found.fastest)]
    calls += [partial(found.estimates, found.fastest, nic_Bps=5e10)]
    calls += [partial(each, planned.answers[0].name) for each in (planned.answer, planned.about, planned.fabric)]
    calls += [partial(each, "each network", 4) for each in (times.exposed_s, times.steady_s, times.share)]
    calls += [partial(STRATEGY.placement, 4, 4), partial(STRATEGY.group_places, "data", 4, 4)]
    calls += [partial(STRATEGY.check, MODEL, 8), partial(STRATEGY.microbatches, 8), partial(MODEL.forward_flops, 2)]
    calls += [partial(MODEL.training_flops, 2, "full"), partial(BOX.on, FABRIC), partial(BOOK.of_ports, 2)]
    calls += [partial(BOOK.label, True), partial(LAW.parameters, 1e24)]
    return [Call(each) for each in calls]


@cache
def _good(call: Call) -> Any:
    return call.good()


def warm() -> None:
    """Work out every good answer, which cases are held against."""
    for call in _calls(False):
        _good(call)


def _drawn_call(chance: random.Random, quick: bool) -> Case:
    """A good call with one to three arguments that are others: also answers and arguments of other calls."""
    call = chance.choice(_calls(quick))
    names = chance.sample([*call.given], min(len(call.given), chance.choice((1, 1, 2, 3))))
    changed = {name: _argument(chance, call.given[name], name, quick) for name in names}

    def run() -> str:
        answer = call.answer(**changed)
        if isinstance(answer, pd.DataFrame):
            # A saving may be a loss, and a share is blank where no GPU has another to send to.
            answer = answer[[name for name in answer if not re.search("saved|share_", str(name))]]
        if isinstance(answer, pd.DataFrame) and "note" in answer:
            answer = answer[answer["note"] == ""]  # the note of a row says why it has no numbers
        return nonsense(answer, [_good(call), math.inf])

    return Case(f"{call.name}({', '.join(f'{name}={_short(value)}' for name, value in changed.items())})", run)


def _argument(chance: random.Random, good: Any, name: str, quick: bool) -> Any:
    kind = chance.choice(("odd", "odd", "another's", "like", "changed", "answer"))
    other = chance.choice(_calls(quick))
    if kind == "another's":
        return chance.choice([*other.given.values(), None])
    if kind == "answer":
        return _good(other)
    alike = [each.given[name] for each in _calls(quick) if name in each.given]
    if kind == "like" and alike:
        return chance.choice(alike)
    if kind == "changed" and hasattr(type(good), "_read_again"):  # of a class that users make
        changed = copy.copy(good)
        object.__setattr__(changed, chance.choice(dataclasses.fields(good)).name, chance.choice(_odd()))
        return changed
    if kind == "changed" and isinstance(good, pd.DataFrame) and len(good.columns):
        column = chance.choice([*good.columns])
        return good.drop(columns=column) if chance.random() < 0.5 else good.assign(**{column: math.nan})
    if kind == "changed" and isinstance(good, int | float) and not isinstance(good, bool):
        return chance.choice((good * 2, good + 1, good / 2, -good, [good], np.array([good, good]), str(good)))
    return chance.choice(_odd())


@cache
def _odd() -> list[Any]:
    return [*NUMBERS, *TEXTS, *ODD_TEXTS, *NAMES, *WRONG, *ARRAYS, *TABLES]


def _short(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:80]
    except ValueError:  # more digits than Python writes
        return type(value).__name__


def _drawn_line(chance: random.Random, quick: bool) -> Case:
    """A line of a command with options in any order, some left out, others with odd values, and odd files."""
    left_out = (*NOT_DRAWN, *SLOW_LINES) if quick else NOT_DRAWN
    line = chance.choice([line for name, line in lines().items() if name not in left_out])
    values = {name: value for name, value in line.given.items() if chance.random() < 0.8}
    for name in chance.sample([*values], min(len(values), chance.choice((0, 1, 1, 2)))):
        odd = (*TEXTS, *ODD_TEXTS, *NAMES, *map(str, NUMBERS), "{folder}/odd", "{folder}/none/x", "{folder}")
        values[name] = chance.choice(odd)
    if chance.random() < 0.2:
        values |= {chance.choice([*chance.choice([*commands().values()])] or ["--x"]): chance.choice(TEXTS)}
    words, content = line.in_order(dict(chance.sample([*values.items()], len(values)))), chance.choice(FILES)
    target = chance.choice(("odd", "odd", "plan.toml", "train.log", "parts.csv", "sweep.toml"))

    def run() -> str:
        with folder_of_files() as folder, contextlib.chdir(folder):  # where odd words are files
            Path(folder, target).write_text(content, encoding="utf-8")
            before = _tree(folder)
            status, _, told = said(line.program, [word.replace("{folder}", folder) for word in words])
            if status in (None, 0, 3):
                return ""
            if status not in (1, 2):
                return f"exit status {status}"
            if "Traceback" in told or not told.strip():
                return f"told: {told}"
            return (
                "" if _tree(folder) == before else f"refused, and wrote {sorted({*_tree(folder)} - {*before})}: {told}"
            )

    return Case(f"{line.program} {' '.join(map(repr, words))}, with {target} {content[:20]!r}", run)


def _tree(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in Path(folder).rglob("*")}


@cache
def _keys() -> list[tuple[str, str, tuple]]:
    """Section and name of each key of a spec, with the words that it may be."""
    sections = {name: section_in(field.annotation) for name, field in Spec.model_fields.items()}
    return [
        (name, key, tuple(_listed(field.annotation)))
        for name, section in sections.items()
        for key, field in (section.model_fields.items() if section else {"": Spec.model_fields[name]}.items())
    ]


def _listed(annotation: Any) -> Iterator[str]:
    for part in get_args(annotation):
        yield from [part] if isinstance(part, str) else _listed(part)


def _drawn_spec(chance: random.Random, quick: bool) -> Case:
    """A good spec with one to four keys drawn, which is read, and planned if it may take longer."""
    spec: dict[str, Any] = {name: dict(section) for name, section in SPEC.items()}
    for name, key, words in chance.sample(_keys(), chance.choice((1, 1, 2, 3, 4))):
        plain = [each for each in WRONG if not isinstance(each, types.ModuleType)]
        pools = (NUMBERS, TEXTS, ODD_TEXTS, NAMES, plain, words or TEXTS, words or NUMBERS)
        value = chance.choice(chance.choice(pools))
        if not key:
            spec[name] = value
        elif isinstance(spec.setdefault(name, {}), dict):
            spec[name] |= {key: [value] if chance.random() < 0.1 else value}

    def run() -> str:
        if quick:
            read_spec(spec)
            return ""
        planned = rc.plan(spec)
        str(planned)
        numbers = [answer.numbers for answer in planned.answers]
        return nonsense(numbers, [math.inf])

    return Case(f"plan({_short_spec(spec)})", run)


def _short_spec(spec: dict[str, Any]) -> str:
    drawn_keys = {
        f"{name}.{key}": _short(value)
        for name, section in spec.items()
        for key, value in (section.items() if isinstance(section, dict) else [("", section)])
        if not isinstance(SPEC.get(name), dict) or SPEC[name].get(key) is not value
    }
    return ", ".join(f"{key} = {value}" for key, value in drawn_keys.items())


if __name__ == "__main__":
    chosen = drawn(int(sys.argv[1]), int(sys.argv[2]))
    print(chosen.text)
    print(verdict(chosen) or "as it should be")
