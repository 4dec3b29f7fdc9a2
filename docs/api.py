"""The API on the site: a page a name, from its signature and docstring, and an index of the names by subject."""

import ast
import doctest
import html
import inspect
import re
import sys
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import gallery
from numpy.typing import ArrayLike

import railcore
from railcore.catalog import units
from suite import answers, outputs

SUBJECTS = {
    "What a network costs": (
        "rail_only rail_optimized fat_tree PhotonicRails cluster_networks compare_rail_networks ownership_costs "
        "bill_table matching_books price_book power_book PriceBook"
    ),
    "How long an iteration takes": (
        "iteration_time iteration_times expected_error iteration_traffic stage_memory software_times Strategy "
        "Transformer catalog_model catalog_machine Runtime runtime_of megatron_run"
    ),
    "Which strategy is the fastest": "search",
    "Which network to buy": "plan sweep",
    "What failures cost": ("training_goodput failed_part_slowdowns fault_effects parts_at_risk expected_failures"),
    "What circuits that change cost": "photonic_overhead",
    "What a budget buys": "datacenter_size datacenter_site model_layer rack_layout layer_times scaling_law",
    "Where power is": "find_places find_split Area load_grid",
    "Numbers for people": "readable show",
}  # every name of the package once
PICTURES = {  # a figure of the suite with what a name gives
    "rail_only": "railonly2025.fig5",
    "rail_optimized": "railonly2025.fig2",
    "fat_tree": "railonly2023.fig1",
    "PhotonicRails": "photonic2025.fig1",
    "cluster_networks": "extra.11_cost",
    "compare_rail_networks": "extra.01_saving_map",
    "iteration_time": "railonly2025.fig7",
    "iteration_traffic": "railonly2025.fig3",
    "search": "extra.08_wrong_choice",
    "plan": "extra.20_networks",
    "sweep": "extra.20_winners",
    "fault_effects": "extra.02_faults",
    "photonic_overhead": "photonic2025.fig8",
    "scaling_law": "flops2024.fig1",
    "find_places": "extra.12_map",
    "find_split": "extra.12_places",
}
_UNIT = re.compile(r" \[((?!sweeps)[A-Za-z1][A-Za-z/]*)\]")
_UNITS = {"Bps": "bytes/s", "bytes": "bytes", "flops": "FLOP", "s": "s", "usd": "USD", "w": "W"}  # by a name's ending
_NAMED = ("Transformer", "Machine", "Runtime")  # of which the catalog has some by name
_MODULES = re.compile(r"(?:\w+\.)+(?=\w)")
_ANY_ARRAY = _MODULES.sub("", inspect.formatannotation(ArrayLike))
_SECTIONS = "Parameters|Returns|Raises|References|Examples"
_CONVERTED = (
    "A Quantity is a number in the SI unit in brackets, or a text with its own unit, which is converted: "
    f'``"400 Gbps"`` is {400 * units.Gbps:g} bytes/s. Bandwidth is one direction, per GPU.'
)


def pages() -> dict[str, str]:
    """Texts of the site's source by place: the index, and a page for each public name and for what functions give."""
    made = {name: _page(name) for name in railcore.__all__}
    made |= {name: _result_page(target) for name, target in results().items()}
    return {"api.md": _index(), **{f"api/{name}.rst": _linked(text) for name, text in made.items()}}


def results() -> dict[str, type]:
    """Classes of what the public functions give, by name, without those that are public themselves."""
    found = {}
    for function in (getattr(railcore, name) for name in railcore.__all__):
        given = inspect.signature(function).return_annotation
        if isinstance(given, str):
            given = getattr(sys.modules[inspect.unwrap(function).__module__], given, None)
        if (
            inspect.isclass(given)
            and given.__module__.startswith("railcore.")
            and not hasattr(railcore, given.__name__)
        ):
            found[given.__name__] = given
    return dict(sorted(found.items()))


def _linked(text: str) -> str:
    """A page whose names of results lead to their pages."""
    for name, target in results().items():
        place = f"{target.__module__}.{name}"
        text = re.sub(rf"(?<!`)`{name}`(?!`)", f"`~{place}`", text)
        text = text.replace(f" -> {name}\n", f" -> {place}\n")
    return text


def _index() -> str:
    lines = [
        "# API\n",
        "`import railcore as rc` offers these names, loaded when they are used.",
        _CONVERTED.replace("``", "`"),
        "An [HB domain](glossary.md) is the GPUs that NVLink (or another scale-up link) joins: a server or a rack.\n",
    ]
    targets = {name: getattr(railcore, name) for name in railcore.__all__} | results()
    for subject, names in {**SUBJECTS, "What functions give": " ".join(results())}.items():
        lines += [f"## {subject}\n"]
        lines += [f"- [{name}](api/{name}.html): {_Docstring(targets[name]).summary}" for name in names.split()]
        entries = "\n".join(f"api/{name}" for name in names.split())
        lines += [f"\n```{{toctree}}\n:hidden:\n:caption: {subject}\n\n{entries}\n```\n"]
    return "\n".join(lines)


class _Docstring:
    """A docstring's parts, whether its parameters are a section or lines "name: text"."""

    def __init__(self, target: Any) -> None:
        head, *parts = re.split(rf"^({_SECTIONS})\n-+\n", f"{inspect.getdoc(target)}\n", flags=re.MULTILINE)
        self.sections = dict(zip(parts[::2], (part.strip("\n") for part in parts[1::2]), strict=True))
        self.parameters: dict[str, str] = {}
        known = inspect.signature(target).parameters | getattr(target, "__dataclass_fields__", {})
        kept, last = [], ""
        for line in head.splitlines():
            field = re.match(r"(\w+(?:, \w+)*): (?=\S)", line)
            if field and known.keys() >= {*field[1].split(", ")}:
                last = field[1]
                self.parameters[last] = line[field.end() :]
            elif last and line.startswith("    "):
                self.parameters[last] += f" {line.strip()}"
            else:
                kept += [""] * bool(last) + [line]
                last = ""
        self.summary, _, rest = "\n".join(kept).strip().partition("\n\n")
        self.summary, paragraphs = " ".join(self.summary.split()), rest.strip().split("\n\n")
        self.text = "\n\n".join(each.strip("\n") for each in paragraphs if not each.lstrip().startswith("Raises "))
        if errors := [each.lstrip() for each in paragraphs if each.lstrip().startswith("Raises ")]:
            self.sections["Raises"] = "\n\n".join(errors)
        for found in re.finditer(r"^(\w+)\n((?: +.*\n?)+)", self.sections.get("Parameters", ""), re.MULTILINE):
            self.parameters[found[1]] = " ".join(found[2].split())
        for names, meaning in list(self.parameters.items()):  # "gpus: all of them. rails: of a plane."
            self.parameters[names], *more = re.split(rf"(?<=[.;]) ({'|'.join(known)}): ", meaning)
            self.parameters |= zip(more[::2], more[1::2], strict=True)
        for base in filter(is_dataclass, getattr(target, "__mro__", ())[1:]):  # "gpus, nic_Bps: as in `HBDomains`."
            for names in [
                each for each, text in self.parameters.items() if text.startswith(f"as in `{base.__name__}`")
            ]:
                del self.parameters[names]
                self.parameters |= {name: _Docstring(base).parameters[name] for name in names.split(", ")}


def _page(name: str) -> str:
    target = getattr(railcore, name)
    docstring = _Docstring(target)
    sections = docstring.sections
    kind = "class" if inspect.isclass(target) else "function"
    listed, types = _listed(target, docstring)
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and (found := _options(target, parameter.name)):
            more, _ = _listed(found[0], _Docstring(found[0]), found[1])
            listed += ["", f".. rubric:: {_sentence(parameter.name)}", "", *more]
    content = [_equations(docstring.text), "", ".. rubric:: Parameters", "", *listed, ""]
    content += [_CONVERTED, ""] if any("Quantit" in each for each in "".join(listed).split()) else []
    for section, title in (("Returns", "Returns"), ("Raises", "Errors"), ("References", "Source")):
        if section in sections:
            content += [f".. rubric:: {title}", "", _equations(sections[section]), ""]
    if kind == "class":
        content += _members(target)
    anchor = f'   <span id="{target.__module__}.{name}"></span>'  # where its page of source leads back to
    lines = [name, "=" * len(name), "", ".. raw:: html", "", anchor, "", ".. py:currentmodule:: railcore", ""]
    lines += [docstring.summary, ""]
    lines += [*_example(sections["Examples"]), *_picture(name), f".. py:{kind}:: {name}{_signature(target, types)}", ""]
    lines += ["   " + line if line else "" for line in "\n".join(content).splitlines()]
    return "\n".join(lines) + "\n"


def _listed(target: Any, docstring: _Docstring, names: list[str] | None = None) -> tuple[list[str], dict[str, str]]:
    """Parameters or fields with type, unit, default and meaning, as a list; and their types with units.

    names: those wanted, by default all that the caller gives and all that have a meaning.
    """
    listed, types = [], {}
    parameters = dict(inspect.signature(target).parameters)
    computed = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=field.type)
        for name, field in getattr(target, "__dataclass_fields__", {}).items()
        if not field.init
    }
    groups = {name: group.split(", ") for group in docstring.parameters for name in group.split(", ")}
    meanings = {name: docstring.parameters[", ".join(group)] for name, group in groups.items()}
    last: tuple[list[str] | None, str] = (None, "")
    for name, each in (parameters | computed).items():
        if name.startswith("_") or name not in (names or (*parameters, *meanings)):
            continue
        meaning = meanings.get(name, "")
        unit = _UNIT.search(meaning)
        types[name] = _short(each.annotation)
        if re.match("Quantit|ArrayLike|float|int", types[name]):
            if unit:
                meaning = meaning.replace(unit[0], "", 1)
            if shown := unit[1] if unit else _UNITS.get(name.rpartition("_")[2], ""):
                types[name] = re.sub(r"^\w+", rf"\g<0>[{shown}]", types[name])
        told = _told(target, each, types) + "; computed" * (name in computed)
        if last == (groups.get(name), told):  # said once of several
            listed[-2] = listed[-2].replace(" : ", f", **{name}** : ", 1)
            continue
        last = (groups.get(name), told)
        listed += [f"**{_starred(each)}** : {told}".rstrip(" :"), "    " + (_sentence(meaning) or r"\ ")]
    return listed, types


def _options(target: Callable[..., Any], name: str) -> tuple[type, list[str]] | None:
    """The class that a function hands its other keywords to, and those of its fields that the function leaves."""
    code = inspect.unwrap(target)
    for call in ast.walk(ast.parse(inspect.getsource(code))):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        handed = [each for each in call.keywords if each.arg is None and getattr(each.value, "id", "") == name]
        made = code.__globals__.get(call.func.id)
        if handed and is_dataclass(made):
            fields = list(inspect.signature(made).parameters)[len(call.args) :]
            return made, [field for field in fields if field not in {each.arg for each in call.keywords}]
    return None


def _result_page(target: type) -> str:
    name, docstring = target.__name__, _Docstring(target)
    lines = [name, "=" * len(name), "", f".. py:currentmodule:: {target.__module__}", "", docstring.summary, ""]
    fields, types = _listed(target, docstring)
    quantity = [_CONVERTED, ""] if any("Quantit" in each for each in types.values()) else []
    content = [_equations(docstring.text), "", ".. rubric:: Fields", "", *fields, "", *quantity, *_members(target)]
    lines += [f".. py:class:: {name}", "", *("   " + line if line else "" for line in "\n".join(content).splitlines())]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    symbol = re.match(r"[a-z]\b(?! \w)|[b-z]\b", text)
    return text if symbol else text[:1].upper() + text[1:]


def _starred(parameter: inspect.Parameter) -> str:
    return {parameter.VAR_KEYWORD: r"\*\*", parameter.VAR_POSITIONAL: r"\*"}.get(parameter.kind, "") + parameter.name


def _short(annotation: Any) -> str:
    """A type as it is said: without modules and checks; "" where anything goes."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = _MODULES.sub("", text)
    text = re.sub(r"Annotated\[(.*?), Range\([^)]*\)\]", r"\1", text)
    text = re.sub(r"Optional\[(.*)\]", r"\1 | None", text)
    text = (
        text.replace(_ANY_ARRAY, "ArrayLike").replace("float | Any", "Quantity").replace("Mapping[str, object]", "dict")
    )
    return "" if text == "Any" else text


def _told(target: Any, parameter: inspect.Parameter, types: dict[str, str]) -> str:
    """A parameter's type, unit, example and default in words."""
    named = rf"\b({'|'.join(_NAMED)}) \| str"
    text = re.sub(named, r"\1 or name", types[parameter.name])
    text = re.sub(r"^(\w+)\[([A-Za-z1/]+)\]", r"\1 [\2]", text).replace(" | ", " or ")
    if example := _example_of(target, parameter.name):
        text = re.sub(r"^(Quantit\w+(?: \[.*?\])?)", rf'\1, such as "{example}",', text).rstrip(",")
    if parameter.default is parameter.empty or repr(parameter.default) == "<factory>":
        return text
    if parameter.default is None:
        text = text.removesuffix(" or None").rstrip(",")
    return f"{text}; by default ``{_default(parameter.default)}``".removeprefix("; ")


def _example_of(target: Any, parameter: str) -> str:
    """A text that the parameter takes, of its range, if any."""
    code = inspect.unwrap(target.__init__ if inspect.isclass(target) else target)
    written = getattr(inspect.signature(code).parameters.get(parameter), "annotation", None)
    for each in (written, *typing.get_args(written)):
        for checked in getattr(each, "__metadata__", ()):
            if example := getattr(checked, "example", ""):  # other notes have none
                return example
    return ""


def _default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if type(value).__module__.startswith("railcore"):
        return f"{type(value).__name__}()"  # all of its fields by default
    return f"{value:g}" if isinstance(value, float) else repr(value).replace("'", '"')


def _signature(target: Any, types: dict[str, str]) -> str:
    """Parameters with type, unit and default, as Sphinx reads them; it puts each on a line of its own."""
    signature, told, named = inspect.signature(target), [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not named:
            told, named = [*told, "*"], True
        typed = f": {types[each.name]}" if types[each.name] else ""
        stars = {each.VAR_KEYWORD: "**", each.VAR_POSITIONAL: "*"}.get(each.kind, "")
        told.append(
            f"{stars}{each.name}{typed}" + ("" if each.default is each.empty else f" = {_default(each.default)}")
        )
    result = "" if inspect.isclass(target) else f" -> {_short(signature.return_annotation)}"
    text = f"({', '.join(told)}){result}"
    ast.parse(f"def f{text}: ...")  # or Sphinx takes it for a text
    return text


def _equations(text: str) -> str:
    """Paragraphs, of which those more to the right are equations as they are written."""
    return re.sub(r":\n\n(?= {4})", "::\n\n", text)


def _members(target: type) -> list[str]:
    """Methods and properties with the first paragraph about each."""
    fields = inspect.signature(target).parameters
    found = []
    for name in dict.fromkeys(
        each for base in target.__mro__ if base.__module__.startswith("railcore") for each in vars(base)
    ):
        value = inspect.getattr_static(target, name)
        if name.startswith("_") or name in fields or not (hasattr(value, "__get__") or callable(value)):
            continue
        told = inspect.getdoc(value)
        if not told:
            continue
        called = ""
        if callable(getattr(target, name)):
            taken = [
                each for each in inspect.signature(getattr(target, name)).parameters.values() if each.name != "self"
            ]
            called = f"({', '.join(_starred(each).replace(chr(92), '') for each in taken)})"
        found += [f"``{name}{called}``", "    " + " ".join(told.partition("\n\n")[0].split())]
    return [".. rubric:: Methods and properties", "", *found, ""] if found else []


def _example(text: str) -> list[str]:
    """What is typed, and below each what it prints."""
    lines, typed = [".. rubric:: Example", ""], ""
    for each in doctest.DocTestParser().get_examples(text):
        typed += each.source
        if each.want:
            lines += [*_block("python", typed), *_block("text", each.want)]
            typed = ""
    return lines + (_block("python", typed) if typed else [])


def _block(language: str, text: str) -> list[str]:
    output = ["   :class: printed"] if language == "text" else []
    return [f".. code-block:: {language}", *output, "", *(f"   {line}" for line in text.rstrip().splitlines()), ""]


def _picture(name: str) -> list[str]:
    """A figure of the suite, which leads to its notebook."""
    if name not in PICTURES:
        return []
    item = outputs.items()[PICTURES[name]]
    shows, question = html.escape(item["must_show"]), html.escape(answers.question(item["notebook"]))
    link = f'<a href="../../notebooks/{item["notebook"]}.ipynb">'
    image = f"{link}{gallery.image(item, '../../figures')}</a>"
    return [".. raw:: html", "", f"   <p>{image}<br>{link}{question}</a> shows {shows}.</p>", ""]
