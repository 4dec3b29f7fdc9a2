"""The public surface of the floors: a good call of each callable, one argument made bad, and what came of it.

tests/surface/*.py are scripts of good calls: imports and names first, then a call a line, of a function, a class or a
method. Each argument of a call, given or left at its default, is replaced by bad values of the kinds that its
annotation allows. A case runs in a process of its own, with limits of CPU time and memory.
"""

import ast
import csv
import dataclasses
import importlib
import inspect
import itertools
import math
import numbers
import os
import pickle
import pkgutil
import resource
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from surface_commands import Line, lines

from railcore.facts import arguments

FLOORS = ("facts", "network", "training", "systems", "engines")
FOLDER = Path(__file__).with_name("surface")
CPU_S, MEMORY_BYTES = 6, 2 << 30  # of a case; memory beyond what the process has already
WHOLE = {"zero": 0, "negative": -1, "NaN": math.nan, "infinite": math.inf, "many": 10**9, "huge": 10**12}
REAL = {kind: value for kind, value in WHOLE.items() if kind != "many"} | {"huge": 1e300}
REFUSED = ("negative", "NaN", "infinite", "unknown name", "in the way")  # whatever the answer would be
_ARRAYS = set(get_args(ArrayLike))
NOT_CALLED = {  # public names that a user does not call, by module:name
    "railcore.facts.checks:*": "the checks themselves: name and message are their caller's",
    "railcore.facts.arguments:*": "the checks themselves: name and message are their caller's",
    "railcore.facts.compiled:*": "makes compiled loops, while modules are imported",
    "railcore.engines.search.kernel:*": "compiled, called by search with arrays that it has made",
    "railcore.engines.search.space:*": "a part of search, which checks what it is given",
    "railcore.engines.search.bounds:*": "a part of search",
    "railcore.engines.search.splits:*": "a part of search",
    "railcore.engines.search.parts:faster_parts": "a part of search",
    "railcore.engines.search.parts:SearchPart*": "a part of search",
    "railcore.engines.search.advice:*": "a part of search",
    "railcore.engines.strategies.layer_passes:*": "a part of iteration_times, called with columns that it has checked",
    "railcore.engines.strategies.layer_time:*": "a part of iteration_times",
    "railcore.engines.strategies.stage_costs:*": "a part of iteration_times",
    "railcore.engines.siting.search:*": "a part of find_places",
    "railcore.engines.siting.split_problem:*": "a part of find_places",
    "railcore.engines.siting.reasons:*": "a part of find_places",
    "railcore.engines.plan.answer:*": "a part of plan",
    "railcore.engines.plan.candidates:*": "a part of plan",
    "railcore.engines.plan.case:*": "a part of plan",
    "railcore.engines.plan.choice:*": "a part of plan",
    "railcore.engines.plan.page:*": "a part of plan",
    "railcore.engines.plan.planning:Shared*": "a part of plan",
    "railcore.engines.plan.report:*": "a part of plan",
    "railcore.engines.plan.sections:*": "a part of plan",
    "railcore.engines.plan.site:*": "a part of plan",
    "railcore.engines.plan.shown:*": "a part of plan",
    "railcore.engines.plan.uncertainty:*": "a part of plan",
    "railcore.engines.plan.evidence:*_of": "a part of plan",
    "railcore.engines.plan.evidence:rows_behind": "a part of plan",
    "railcore.engines.sweep.chunk:*": "a part of sweep",
    "railcore.engines.sweep.folder:SweepFolder*": "a part of sweep",
    "railcore.engines.sweep.folder:opened": "a part of sweep",
    "railcore.engines.sweep.points:Points*": "a part of sweep",
    "railcore.engines.photonics.*:*.*": "called by the loop of a simulation with its own numbers",
    "railcore.engines.photonics.circuit_lanes:*": "called by the loop of a simulation",
    "railcore.engines.steps.simulation:*.*": "called by the loop of a simulation",
    "railcore.engines.steps.simulation:Lane": "made by the loop of a simulation",
    "railcore.engines.steps.stage_program:*": "a part of training_step",
    "railcore.engines.steps.workload:Workload*": "made by training_step",
    "railcore.engines.emulator.ranks:*": "a part of emulated_run",
    "railcore.engines.emulator.timeline:*": "a part of emulated_run",
    "railcore.engines.siting.eia:*": "a part of the loader of EIA's files: tests/test_eia.py damages them",
    "railcore.systems.siting.nodes:densest_first": "a part of power_nodes",
    "railcore.systems.siting.nodes:complete_linkage": "a part of power_nodes",
    "railcore.systems.siting.geometry:*": "called with vectors and outlines that railcore has made",
    "railcore.systems.siting.supply:*": "called with groups that railcore has made",
    "railcore.facts.globe:degrees_of": "called with vectors that railcore has made",
    "railcore.facts.unique_rows:*": "called with columns that railcore has made",
    "railcore.facts.files:*": "writes, and is told by its callers what: tests/test_files.py",
    "railcore.facts.catalog_template:write_template": "writes: tests/test_catalog.py",
    "railcore.facts.grounds:deciding_inputs": "a part of claims.decided_by_assumed",
    "railcore.facts.sensitivity:*": "called with functions",
    "railcore.facts.units:*": "shows any number and any text",
    "railcore.facts.claims:table_values": "called with tables that railcore has made",
    "railcore.facts.claims:comparison_row": "called with rows that railcore has made",
    "railcore.engines.degraded.reach:rail_flow": "called with wiring that railcore has made",
    "railcore.engines.degraded.routed_flows:moved_to_other_rails": "a part of flow_times",
    "railcore.facts.derived:*": "a part of constructors: tests/test_graph.py, tests/test_segments.py",
    "railcore.network.topology.rails:default_bandwidth": "a part of HBDomains",
    "railcore.network.topology.graph:add_hb_domains": "a part of graph()",
    "railcore.network.topology.graph:check_size": "a check itself: tests/test_graph.py",
    "railcore.training.link_times:exposed_beside": "a part of iteration_time; exposed_time is checked",
    "railcore.training.layer:host_waits": "a part of iteration_time",
    "railcore.training.layer_traffic:*": "a part of iteration_time",
    "railcore.training.rank:*": "a part of iteration_time",
    "railcore.training.machine:Machine": "made by catalog_machine, whose values tests/test_arguments.py changes",
    "railcore.training.machine:Machine.places": "a part of iteration_time",
    "railcore.training.traffic:from_transfers": "a part of iteration_traffic",
    "railcore.training.rank_order:gpus_of": "called with columns that railcore has made",
    "railcore.engines.search.*:strategy_label": "called with rows that railcore has made",
    "railcore.engines.search.answers:machine_changes": "a part of SearchResult.robust",
    "railcore.engines.deployment.cabling:cost_over_budget": "called with tables that railcore has made",
    "railcore.engines.deployment.switch_configs:check_folder": "reads folders: tests/test_deployment.py",
    "railcore.engines.deployment.switch_configs:write_deployment": "writes: tests/test_deployment.py",
    "railcore.engines.deployment.design_build:designs_sizing": "called with designs that railcore has made",
    "railcore.engines.photonics.estimate:circuit_terms": "a part of photonic_overhead",
    "railcore.engines.plan.checks:*": "plans of the catalog's checks: tests/test_plan.py",
    "railcore.engines.plan.command:*": "the command line has cases of its own",
    "railcore.engines.sweep.command:*": "the command line has cases of its own",
    "railcore.engines.sweep.sweeping:sweep": "starts processes and writes: tests/test_sweep.py",
    "railcore.engines.sweep.folder:stored_sweep": "reads folders: tests/test_sweep.py",
    "railcore.engines.siting.counting:siting_sensitivity": "called with tables that railcore has made",
    "railcore.engines.siting.multisite:*": "called with sitings that railcore has made",
    "railcore.engines.siting.sitings:*": "called with sitings that railcore has made",
    "railcore.engines.siting.authorities:expected_values": "called with numbers that railcore has made",
    "railcore.engines.transport.runs:*": "reads and runs stored cases: tests/test_derived.py",
    "railcore.engines.validation:runtime_effect": "called with tables that railcore has made",
    "railcore.engines.plan.spec:check_draws": "a check itself, of the command line and of sweeps",
    "railcore.engines.plan.spec:read_value": "after check_key; what a spec would refuse is refused by the spec",
    "railcore.engines.emulator.feedforward:*": "a part of emulated_run",
}
RESULTS = frozenset(  # classes that railcore's functions make, and methods of them that need the whole
    """
    Answer BuiltDesign Calibration Candidates CircuitParts CircuitTerms Claim ClosLayout DomainRailBytes
    EmulatedRun Equipment ExpertPlacement FairRun FlowTimes FoundPlaces FoundSite Item ItemBook IterationEstimate
    IterationTime Layer LayerTime LeveledTimes Limits LinkLoads LinkMedium MarkdownText MegatronRun
    MixedIntegerProgramme MovingInput OverheadEstimate PacketRun PartBandwidth Parts Plan PlatformLinks Pods
    PowerGrid PowerNodes Rank RankTimeline ReroutedWorkload Room RowNeed ScalingLaw Schedule ScheduleBytes
    SearchResult SegmentSizing SharedLinks Sizing Split Stage StepTimeline SummaryCheck Timeline Timetable Traffic
    TrainingStep TransferLabel Value WireList Wiring
    """.split()
)


class Case(NamedTuple):
    """One argument of a good call made bad."""

    name: str
    parameter: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name}({self.parameter}={self.kind})"


# What is public


def public(module: ModuleType) -> dict[str, Any]:
    """Functions, classes and methods of a module whose names say that others may call them."""
    found = {}
    for name, each in vars(module).items():
        if name.startswith("_") or getattr(each, "__module__", None) != module.__name__:
            continue
        if not inspect.isclass(each):
            found[name] = each
        elif not issubclass(each, BaseException):
            found[name] = each
            found |= {f"{name}.{key}": value for key, value in vars(each).items() if not key.startswith("_")}
    return {name: each for name, each in found.items() if inspect.isclass(each) or _named(each) == name}


def _function(target: Any) -> Any:
    """The Python function behind a method, a cached and a checked one; None for what is none."""
    target = getattr(target, "__func__", target)
    target = inspect.unwrap(target) if callable(target) else target
    return target if inspect.isfunction(target) else None


def _named(target: Any) -> str:
    return getattr(_function(target), "__qualname__", "")


@cache
def surface() -> dict[str, str]:
    """Modules of the public callables of the floors that take a number, a text or a list, by name."""
    found = {}
    for floor in FLOORS:
        package = importlib.import_module(f"railcore.{floor}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, each in public(importlib.import_module(info.name)).items():
                takes = any(bad_values(parameter) for parameter in parameters_of(each).values())
                if takes and not why_not_called(info.name, name):
                    found[name] = info.name
    return found


def why_not_called(module: str, name: str) -> str:
    """Why a public name is no part of the surface; "" for one that is."""
    if name.partition(".")[0] in RESULTS:
        return "a result"
    return next((why for pattern, why in NOT_CALLED.items() if fnmatchcase(f"{module}:{name}", pattern)), "")


def parameters_of(target: Any) -> dict[str, inspect.Parameter]:
    """Parameters of a callable by name, without self and those that gather the rest."""
    function = _function(vars(target).get("__init__") if inspect.isclass(target) else target)
    if function is None:
        return {}
    given = inspect.signature(function).parameters
    gathered = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in given.items() if name not in ("self", "cls") and each.kind not in gathered}


def bad_values(parameter: inspect.Parameter) -> dict[str, Any]:
    """Bad values by kind that a parameter lets a caller try; what its range or its name allows is not bad."""
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
    if parameter.name == "seed":
        found = {kind: value for kind, value in found.items() if kind not in ("many", "huge")}
    reader = arguments._Reader(parameter.name, parameter.annotation, parameter.default)
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


# Good calls


class Call:
    """A good call: its callable, its arguments by parameter, and its answer."""

    def __init__(self, node: ast.Call, names: dict[str, Any], file: str = "") -> None:
        def value(each: ast.expr) -> Any:
            return eval(compile(ast.Expression(each), "surface", "eval"), names)

        self.target = value(node.func)
        self.name = getattr(self.target, "__qualname__", "")
        self.file = file
        owner = _function(vars(self.target)["__init__"] if inspect.isclass(self.target) else self.target)
        signature = inspect.signature(owner)
        own = "self" in signature.parameters or "cls" in signature.parameters
        places = [value(each) for each in node.args]
        given = {each.arg: value(each.value) for each in node.keywords if each.arg}
        self._bound = signature.bind(*[None] * own, *places, **given)
        self._own = own
        self.parameters = parameters_of(self.target)

    @cached_property
    def good(self) -> Any:
        """The good answer."""
        return self.answer()

    def bad(self, parameter: str) -> dict[str, Any]:
        """Bad values of an argument, by kind."""
        return bad_values(self.parameters[parameter])

    def value(self, parameter: str) -> Any:
        return self._bound.arguments.get(parameter, self.parameters[parameter].default)

    def answer(self, **changed: Any) -> Any:
        """What the call gives, with arguments changed. Iterators are read."""
        bound = inspect.BoundArguments(self._bound.signature, dict(self._bound.arguments) | changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.target(*bound.args[self._own :], **bound.kwargs)
            return list(itertools.islice(found, 1000)) if isinstance(found, Iterator) else found


@cache
def calls() -> dict[str, Call | Line]:
    """Good calls by the name of what they call, and good lines by their command."""
    found: dict[str, Call | Line] = dict(lines())
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        good = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        rest = [node for node in tree.body if node not in good]
        names: dict[str, Any] = {}
        exec(compile(ast.Module(rest, []), str(path), "exec"), names)
        for node in good:
            call = Call(node.value, names, path.stem)
            if call.name in surface():
                found[call.name] = call
    return found


def cases() -> list[Case]:
    """Every case, sorted; a bad value that is the good one is none."""
    found = []
    for name, call in calls().items():
        for parameter in call.parameters:
            for kind, bad in call.bad(parameter).items():
                good = call.value(parameter)
                if not (_same(good, _placed(bad, good)) or (kind in ("zero", "empty") and _nothing(good))):
                    found.append(Case(name, parameter, kind))
    return sorted(found)


def _nothing(good: Any) -> bool:
    """Whether a good value is 0, empty or not given."""
    return good is None or (len(good) == 0 if isinstance(good, Sized) else bool(np.size(good) == 1 and not good))


@cache
def meant() -> list[dict[str, list[str]]]:
    with (FOLDER / "meant.csv").open(newline="", encoding="utf-8") as stream:
        return [{name: cell.split("|") for name, cell in row.items()} for row in csv.DictReader(stream)]


def why_meant(case: Case) -> int | None:
    """The row of meant.csv that says why a case is answered as a good call is, if one does."""
    kind = "huge" if case.kind == "many" else case.kind
    found = (
        number
        for number, row in enumerate(meant())
        if case.name in row["call"] and case.parameter in row["parameter"] and kind in row["kinds"]
    )
    return next(found, None)


def _placed(bad: Any, good: Any) -> Any:
    """A bad value in the form of the good one: an array or a list has it in its first place."""
    if isinstance(good, np.ndarray | list | tuple | range) and np.ndim(bad) == 0 and len(good):
        plain = np.asarray(good)
        if plain.dtype.kind in "iuf" and isinstance(bad, int | float):
            changed = plain.astype(float)
            changed.flat[0] = bad
            return (
                changed
                if isinstance(good, np.ndarray)
                else type(good if good.__class__ is not range else [])(changed.tolist())
            )
    if isinstance(good, np.ndarray) and isinstance(bad, list):
        return np.array([])
    if isinstance(good, list) and isinstance(bad, str):  # values of an option
        return [bad, *good[1:]]
    return () if isinstance(good, tuple) and bad == [] else bad


# What came of a case


def verdict(case: Case) -> str:
    """ "" where a case was refused or answered with sense; else what is wrong."""
    call = calls()[case.name]
    good = call.good
    bad = _placed(call.bad(case.parameter)[case.kind], call.value(case.parameter))
    reading, writing = os.pipe()
    if not (child := os.fork()):
        _limited()
        try:
            told = _told(call, case, bad, good)
        except BaseException as error:
            told = f"the judge failed: {error!r}"
        os.write(writing, told.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"hang: more than {CPU_S} s" if name in ("SIGXCPU", "SIGKILL", "SIGALRM") else f"crash: {name}"
    return told


def _limited() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    spent = math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (spent + CPU_S, spent + CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(10 * CPU_S)  # of one that waits
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)


def _told(call: Call, case: Case, bad: Any, good: Any) -> str:
    try:
        answer = call.answer(**{case.parameter: bad})
    except (ValueError, TypeError, OSError, ImportError):
        return ""
    except MemoryError:
        return "memory"
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"[:200]
    if case.kind in REFUSED:
        return f"accepted: {answer!r}"[:200]
    if found := nonsense(answer, good):
        return f"nonsense: {found}"
    return "silence: the good answer" if _same(answer, good) else ""


def nonsense(answer: Any, good: Any) -> str:
    """A NaN, an infinity or a number below 0 in an answer, of a kind that the good answer has none of."""
    allowed = set(map(_sort, _numbers(good)))
    wrong = sorted({_sort(each) for each in _numbers(answer)} - allowed - {""})
    return ", ".join(wrong)


def _sort(number: float) -> str:
    return "NaN" if number != number else "infinite" if math.isinf(number) else "negative" if number < 0 else ""


def _numbers(found: Any, depth: int = 0) -> Iterator[float]:
    """Numbers of an answer, of arrays the least, the largest and a NaN."""
    if isinstance(found, bool | np.bool_ | str) or found is None or depth > 6:
        return
    if isinstance(found, numbers.Real):
        yield float(found)
    elif isinstance(found, pd.DataFrame):
        for name in found.columns:
            yield from _numbers(found[name], depth + 1)
    elif isinstance(found, np.ndarray | pd.Series):
        values = np.asarray(found)
        if values.dtype.kind in "iuf" and values.size:
            yield from (float(np.nanmin(values)), float(np.nanmax(values)), float(np.min(values)))
    elif isinstance(found, Mapping):
        for each in itertools.islice(found.values(), 1000):
            yield from _numbers(each, depth + 1)
    elif isinstance(found, list | tuple | set | frozenset):
        for each in itertools.islice(found, 1000):
            yield from _numbers(each, depth + 1)
    elif dataclasses.is_dataclass(found):
        for each in dataclasses.fields(found):
            yield from _numbers(getattr(found, each.name, None), depth + 1)


def _same(a: Any, b: Any) -> bool:
    try:
        return pickle.dumps(a) == pickle.dumps(b)
    except Exception:
        return a is b
