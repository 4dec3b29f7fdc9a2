"""Reading a spec from a TOML file, a text or a dictionary: one message has all its faults."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from railcore import catalog
from railcore.catalog import files, units
from railcore.catalog.checks import LARGEST, short
from railcore.catalog.own_file import own_file
from railcore.catalog.plain_values import MOST_DEEP, plain_faults
from railcore.catalog.text_files import check_file, read_text
from railcore.planner.spec import SI_NUMBERS, Spec, nearest, section_at
from railcore.training.hugging_face import read_config
from railcore.training.run_file import read_runs

_MOST_BYTES = 1_000_000  # of a file
IN_LINES = r"job\.config\..*|cluster\.measured\.text|measured|(job|measured\.\d+)\.launch"  # keys of texts of several
_TEXTS = re.compile(  # strings of several lines and of one, and comments; without an end up to where one could be
    r'"""(?:[^"\\]|\\.?|"(?!""))*+(?:""")?'
    r"|'''(?:[^']|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]|\\[^\n]?)*+"?'
    r"|'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_PART = r'(?:(?<![\w-])[\w-]++|"")[ \t]*+'
_LONG_KEY = re.compile(rf"{_PART}(?:\.[ \t]*+{_PART}){{{MOST_DEEP}}}")  # tomllib's time is the square of its length
_MOST_FAULTS, _MOST_LETTERS = 100, 300  # in a message, and of a key or a value there
_LONG_NUMBER = re.compile(r"[\d_]{4000}")
# A member of a union in pydantic's locations: a type, or one of our sections that stand beside a name.
_OF_UNION = re.compile(r"(str|int|dict|PriceSpec|PowerSpec)$|(literal|list|dict|tuple|function-\w+|constrained-\w+)\b")


def read_spec(spec: Spec | Mapping[str, Any] | str | Path, si_numbers: bool = True) -> Spec:
    """A spec of a TOML file, a text in TOML, or a dictionary.

    si_numbers: whether quantities of a dictionary may be plain numbers in SI units, which those of TOML never are: 40
    there would be 40 W.
    Raises ValueError with all faults, each by its dotted key, with its value and what to write.
    """
    if isinstance(spec, Spec):
        return spec
    name, values = _named_values(spec)
    faults = list(_contradictions(values))
    try:
        read = Spec.model_validate(values, context={SI_NUMBERS: si_numbers and isinstance(spec, Mapping)})
    except ValidationError as error:
        faults = [*_faults(error), *faults]
    else:
        faults += _too_large(read)
    if faults:
        raise ValueError(_message(name, faults))
    return read


def _too_large(spec: Spec) -> Iterator[str]:
    """Faults of numbers whose products need not be finite."""
    for key, value, _ in spec.entries():
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, int | float) and abs(number) > LARGEST:
                yield f"{key} is {number:g}: give {LARGEST:g} at most"


def _named_values(spec: Mapping[str, Any] | str | Path) -> tuple[str, dict[str, Any]]:
    """What messages call a spec, and its values."""
    name, values, folder = "spec", spec, Path()
    if not isinstance(values, Mapping):
        text = str(spec)
        if "\n" not in text:
            path = Path(text)
            name, folder = path.name, path.parent
            try:
                text = read_text(path, name, _MOST_BYTES)
            except OSError as error:
                raise ValueError(f"spec {str(path)!r} cannot be read ({error.strerror}): give a TOML file") from None
        values = _toml(name, text)
    of_plan = {key: value for key, value in values.items() if key != "over"}  # which a sweep looks at
    if faults := plain_faults(of_plan, IN_LINES):
        raise ValueError(_message(name, faults))
    return name, _with_files(values, folder)


def _toml(name: str, text: str) -> dict[str, Any]:
    """Values of a text. Raises ValueError, with the line where it is known, for what is no TOML or has no end."""
    keys = _TEXTS.sub(_without_letters, text)
    if found := _LONG_KEY.search(keys):
        raise ValueError(f"{name} line {_line(keys, found)}: a key has more than {MOST_DEEP} parts: give it fewer")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is no TOML: {error}: check that line") from None
    except RecursionError:
        raise ValueError(f"{name} is nested more than {MOST_DEEP} deep: give fewer lists or tables in others") from None
    except ValueError:  # of Python's int
        found = _LONG_NUMBER.search(text)
        line = f" line {_line(text, found)}" if found else ""
        raise ValueError(f"{name}{line} has a number of more than 4,000 digits: give a smaller one") from None


def _without_letters(found: re.Match[str]) -> str:
    """What stands for a string or a comment where only keys are looked for."""
    return "" if found[0].startswith("#") else '""' + "\n" * found[0].count("\n")


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1


def _with_files(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Values of a spec with what its files hold (_FILES), which stand in the folder of the spec."""
    whole = dict(values)
    for dotted in _FILES:
        name, _, key = dotted.partition(".")
        section = whole.get(name)
        if isinstance(section, Mapping) and isinstance(section.get(key), str | Path | list):
            whole[name] = {**section, key: file_value(dotted, section[key], folder)}
    books = whole.get("books")
    if isinstance(books, Mapping) and isinstance(books.get("file"), str | Path):
        whole["books"] = {**_price_list(folder / files.user_path("books.file", books["file"])), **books}
    if "measured" in whole:
        whole["measured"] = file_value("measured", whole["measured"], folder)
    return whole


def file_value(key: str, value: Any, folder: Path) -> Any:
    """What the file holds that a key names, or each of a list; a value of another key as it is. folder: of the spec.

    Raises ValueError for a file that cannot be read, and for faults in it.
    """
    if isinstance(value, list) and key in FILE_KEYS:
        return [file_value(key, part, folder) for part in value]
    read = _FILES.get(key)
    if read is None or not isinstance(value, str | Path) or "\n" in str(value):  # the text of a file
        return value
    path = folder / files.user_path(key, value)
    try:
        return read(path)
    except ValueError as error:
        said = {"job.config": f"job.{error}", "measured": f"measured is {str(value)!r}: {error}"}
        raise ValueError(said.get(key, f"{key}: {error}")) from None


def _measured(path: Path) -> dict[str, str]:
    return {"file": path.name, "text": own_file(path)}


def _own_table(path: Path) -> dict[str, str]:
    """Path and hash of a file that siting reads when the plan is made; it may be a workbook."""
    if not files.regular_file(path):
        raise ValueError(f"{path} does not exist: give a file beside the spec")
    check_file(path, str(path))
    return {"file": str(path), "sha256": files.content_hash(path)}


def _price_list(path: Path) -> dict[str, Any]:
    from railcore.planner.price_list import read_price_list  # only for who has one

    try:
        return read_price_list(path)
    except ValueError as error:
        raise ValueError(f"books.file: {error}") from None


_FILES: dict[str, Callable[[Path], Any]] = {
    "job.config": read_config,
    "cluster.measured": _measured,
    "measured": read_runs,
    "site.plants": _own_table,
    "site.lines": _own_table,
    "site.hours": _own_table,
}
FILE_KEYS = tuple(key for key, read in _FILES.items() if read in (_measured, _own_table))  # values keep the file's name


def spec_values(spec: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], Path]:
    """Values of a spec as they are written, and the folder of its file. Raises ValueError for what is no TOML."""
    in_file = not isinstance(spec, Mapping) and "\n" not in str(spec)
    return _named_values(spec)[1], Path(str(spec)).parent if in_file else Path()


def check_key(key: str) -> None:
    """Raises ValueError with the nearest keys for a dotted key that a spec does not have."""
    *sections, last = key.split(".")
    for depth, name in enumerate(key.split(".")):
        section = section_at(tuple(sections[:depth]))
        if section is None:  # in a table of one's own, such as job.model
            return
        if name not in section.model_fields:
            raise ValueError(f"{key} is unknown: {nearest(name, section.model_fields)}")
    if last in Spec.model_fields and not sections and last not in ("title", "author", "date"):
        raise ValueError(f"{key} is a section: give its keys, such as {key}.{_first_key(last)}")


def _first_key(section: str) -> str:
    inside = section_at((section,))
    return next(iter(inside.model_fields)) if inside else "..."


def read_value(key: str, value: Any) -> Any:
    """A value of a dotted key as a spec reads it, quantities in SI units; unchanged where a spec would refuse it."""
    *sections, last = key.split(".")
    section = section_at(tuple(sections))
    field = section.model_fields.get(last) if section else None
    if field is None:
        return value
    kind: Any = Annotated[field.annotation, field]
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return value


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    """Faults of keys that do not go together, whatever their values are."""
    sections = {
        name: {key: value for key, value in section.items() if value is not None}
        for name, section in values.items()
        if isinstance(section, Mapping)
    }
    cluster, find, limits = (sections.get(name, {}) for name in ("cluster", "find", "limits"))
    operation, job, network = (sections.get(name, {}) for name in ("operation", "job", "network"))
    sizes = [key for key in ("gpus", "racks", "budget", "power") if key in cluster]
    if isinstance(values.get("find"), Mapping) and len(find) != 1:
        has = " and ".join(find) or "nothing"
        yield f'find has {has}: give one of gpus = "fewest", cost = "least" and days = "fewest"'
    if not sizes and values.get("find") is None and isinstance(values.get("cluster"), Mapping):
        yield "cluster has no size: give gpus, racks, budget or power, or [find] with limits"
    if sizes and find:
        yield f"cluster.{sizes[0]} is given beside find: give one of them"
    if {"gpus", "racks"} <= set(sizes):
        yield "cluster.gpus is given beside cluster.racks: give one of them"
    if "gpus" in find and not {"days", "cost"} & set(limits):
        yield "find.gpus needs limits.days or limits.cost: without them one rack would do"
    if "days" in find and not {"power", "purchase", "gpus"} & set(limits):
        yield "find.days needs limits.power, limits.purchase or limits.gpus: without them it never ends"
    if find and "carbon" in limits and "carbon" not in operation:
        yield "limits.carbon beside find needs operation.carbon: the site is not known before the cluster is"
    if find and "cost" in limits and "site" in values and "electricity" not in operation:
        yield "limits.cost beside find and site needs operation.electricity: the site is not known before it"
    models = [key for key in ("model", "config") if key in job]
    if isinstance(values.get("job"), Mapping) and not models and "launch" not in job:
        yield 'job has no model: give model, such as "Llama-3 405B", or config, or a launch line with its sizes'
    if len(models) > 1:
        yield "job.model is given beside job.config: give one of them"
    if "mapping" in job and "launch" in job:
        yield "job.mapping is given beside job.launch: give one of them"
    yield from _network_contradictions(network)
    yield from _measured_contradictions(values.get("measured"))


def _measured_contradictions(measured: Any) -> Iterator[str]:
    runs = measured if isinstance(measured, list) else []
    for place, run in enumerate(run for run in runs if isinstance(run, Mapping)):
        for keys, what in ((("seconds", "tokens_per_s"), "time"), (("strategy", "launch"), "strategy")):
            given = [key for key in keys if run.get(key) is not None]
            if len(given) > 1:
                yield f"measured.{place}.{given[0]} is given beside {given[1]}: give one of them"
            if not given:
                yield f"measured.{place} has no {what}: give {' or '.join(keys)}"


def _network_contradictions(network: Mapping[str, Any]) -> Iterator[str]:
    tables = network.get("candidate", [])
    candidates = [table for table in tables if isinstance(table, Mapping)] if isinstance(tables, list) else []
    names = [str(candidate.get("name")) for candidate in candidates]
    if isinstance(network.get("candidates"), list) and not network["candidates"] and not candidates:
        yield "network.candidates is []: give names, or networks of your own in [[network.candidate]]"
    for name in (name for name, times in Counter(names).items() if times > 1):
        yield f"network.candidate {name!r} is given more than once: give each a name of its own"
    unused: dict[str, tuple[str, ...]] = {
        "photonic rails": ("oversubscription", "planes", "rails", "switch", "radix"),
        "rail-only": ("oversubscription",),
        "Clos": ("rails",),
    }
    for candidate in candidates:
        layout = catalog.listed_name(candidate.get("layout"), unused)
        for key in unused[layout] if layout else ():
            if key in candidate:
                yield f"network.candidate {candidate.get('name')!r}: {layout} takes no {key}: leave it out"
        if "switch" in candidate and "radix" in candidate:
            yield f"network.candidate {candidate.get('name')!r}: radix is given beside switch: give one of them"


def _message(name: str, faults: list[str]) -> str:
    head = f"{name} has {units.counted(len(faults), 'faults')}:"
    more = [f"and {len(faults) - _MOST_FAULTS:,} more"] if len(faults) > _MOST_FAULTS else []
    return f"{head} {faults[0]}" if len(faults) == 1 else "\n  ".join([head, *faults[:_MOST_FAULTS], *more])


def _faults(refusal: ValidationError) -> list[str]:
    """All faults, a line each. Where a value may be of several kinds, only the faults of the kind that it is."""
    keys, wrong_kinds, wrong_values = [], dict[str, list[str]](), dict[str, list[str]]()
    for error in refusal.errors():
        key = ".".join(str(part) for part in error["loc"] if not _is_of_union(part))
        key = key if len(key) <= _MOST_LETTERS else f"{key[:_MOST_LETTERS]}..."
        keys.append(key)
        faults = wrong_kinds if error["type"].endswith("_type") else wrong_values
        faults.setdefault(key, []).append(_fault(key, error))
    lines: list[str] = []
    sections = {key[:place] for key in keys for place, sign in enumerate(key) if sign == "."}
    for key in dict.fromkeys(keys):
        below = key in sections
        of_kind = [] if below else wrong_kinds.get(key, [])[:1]
        lines += dict.fromkeys(wrong_values.get(key, of_kind))
    return lines


def _fault(key: str, error: Any) -> str:
    """A fault that pydantic found, in a line: dotted key, value, remedy and the nearest names."""
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        section = section_at(error["loc"][:-1])
        return f"{key} is unknown: {nearest(str(error['loc'][-1]), section.model_fields if section else [])}"
    if kind == "missing":
        return f"{key} is missing: give it"
    if kind == "literal_error":
        allowed = [word.strip("' ") for word in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return f"{key} is {short(value)}: {nearest(str(value), allowed)}"
    text = error["msg"].removeprefix("Value error, ").replace("Input should be", "give", 1)
    text = text.partition(". Rows to add")[0].rpartition("does not exist: ")[2]
    text = text.replace(", unable to parse string as a number", ", without a unit").replace("a valid ", "a ")
    text = re.sub(r"a integer.*", "a whole number", text).replace("a tuple", "a list")
    text = re.sub(r"a dictionary or instance of \w+", "a table of keys", text)
    return f"{key} is {short(value)}: {text}"


def _is_of_union(part: Any) -> bool:
    """Whether a part of pydantic's location names a member of a union, and is no key."""
    return isinstance(part, str) and bool(_OF_UNION.match(part))
