"""What holds the project together: floors, sizes, notebooks, one list of dependencies, figures with their owners."""

import ast
import csv
import hashlib
import importlib
import json
import os
import re
import runpy
import symtable
import tomllib
from functools import cache
from itertools import chain

import networkx as nx
import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement
from PIL import Image

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from suite import answers, legible, outputs, workspace
from suite.driver import parameters

SUBJECTS = "catalog compiled network deploy training strategies photonics datacenter siting transport planner".split()
TREES = ("railcore", "suite")
GENERAL = ("deployment", "emulator")  # models that only notebooks use: no document either
DOCUMENTS = sorted({row["document"] for row in read_csv(files.data("figures.csv"))})
MODULES = sorted(path for name in TREES for path in (files.ROOT / name).rglob("*.py"))
NOTEBOOKS = sorted(workspace.NOTEBOOKS.glob("*.ipynb"))
READINGS = {f"suite.{document}" for document in DOCUMENTS}
READ_BY = {"railcore", "suite.workspace", "suite.ledger", *(f"suite.{name}" for name in GENERAL), *READINGS}
MADE_WITH = {
    "railcore.catalog",
    *(f"suite.{name}" for name in ("colours", "explore", "legible", "outputs", "plotting", "workspace")),
}
ALONE = {  # what these may import of the project
    "railcore": {"railcore"},
    **dict.fromkeys(MADE_WITH - {"railcore.catalog"}, MADE_WITH),
    "suite.colours": {"railcore.catalog"},
    "suite.plotting": {"railcore.catalog", "suite.colours"},
    "suite.charts": {"railcore.catalog", "railcore.network.globe", "suite.colours", "suite.plotting", "suite.charts"},
    "suite.drawing": {"railcore.catalog", "suite.colours", "suite.plotting", "suite.drawing"},
    "suite.ledger": {"railcore.catalog", "suite.workspace", "suite.ledger"},
    "suite.driver": {
        "railcore.catalog",
        "suite.answers",
        "suite.outputs",
        "suite.workspace",
        "suite.ledger",
        "suite.driver",
    },
    **{f"suite.{name}": {"railcore", f"suite.{name}"} for name in GENERAL},
    **{name: READ_BY for name in READINGS},
}


def name_of(path):
    parts = path.relative_to(files.ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def imports(path):
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names if alias.name.split(".")[0] in TREES)
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path} imports relatively")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in TREES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.append(inner if inner in NAMES else node.module)
    return found


NAMES = {name_of(module) for module in MODULES}


def subject_of(name):
    return next((part for part in name.split(".")[1:2] if name.startswith("railcore.")), None)


def test_a_module_imports_its_own_subject_and_those_before_it():
    for path in MODULES:
        name = name_of(path)
        if (subject := subject_of(name)) in SUBJECTS:
            before = SUBJECTS[: SUBJECTS.index(subject) + 1]
            for imported in imports(path):
                assert (subject_of(imported) or "catalog") in before, f"{name} imports {imported}"
        for part, allowed in ALONE.items():
            if f"{name}.".startswith(f"{part}."):
                for imported in imports(path):
                    assert any(f"{imported}.".startswith(f"{each}.") for each in allowed), f"{name} imports {imported}"
    assert re.findall(r"`(\w+)`", importlib.import_module("railcore").__doc__)[: len(SUBJECTS)] == SUBJECTS


def test_a_notebook_asks_a_subject_of_railcore():
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            tree = ast.parse("".join(cell["source"]) if cell["cell_type"] == "code" else "")
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("railcore"):
                    assert node.module.count(".") <= 1, f"{path.stem} imports {node.module}"


def test_imports_have_no_circle():
    graph = nx.DiGraph((name_of(path), imported) for path in MODULES for imported in imports(path))
    graph.remove_edges_from(
        [(a, b) for a, b in graph.edges if a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")]
    )
    assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)


def texts_and_names(path):
    """Names of a module, and its strings that are no docstrings."""
    tree = parsed(path)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
        for field in ("id", "attr", "name", "arg"):
            if isinstance(name := getattr(node, field, None), str):
                yield getattr(node, "lineno", 0), name


def test_a_general_model_names_no_document():
    found = [
        f"{path.relative_to(files.ROOT)}:{line} {text!r}"
        for path in MODULES
        if path.is_relative_to(files.PACKAGE) or path.parent.name in GENERAL
        for line, text in texts_and_names(path)
        if any(document in text for document in DOCUMENTS)
    ]
    assert not found, "\n".join(found)


def code_lines(source):
    tree = ast.parse(source)
    strings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = source.splitlines()
    return sum(bool(line.strip()) and number not in strings for number, line in enumerate(lines, start=1))


def test_a_module_is_one_thing():
    assert not {name_of(path): lines for path in MODULES if (lines := code_lines(path.read_text())) > 400}


def test_public_functions_and_classes_have_names_of_their_own():
    owners = {}
    for path in (each for each in MODULES if each.stem != "__main__"):
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(name_of(path))
    assert not {name: modules for name, modules in owners.items() if len(modules) > 1}


def test_no_subject_offers_a_name_that_is_a_module_of_it():
    for stub in files.PACKAGE.rglob("__init__.pyi"):
        modules = {path.stem for path in stub.parent.iterdir()}
        assert not modules & {node.names[0].name for node in parsed(stub).body if isinstance(node, ast.ImportFrom)}, (
            stub
        )


def public_functions(tree):
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for function in inside if not getattr(node, "name", "_").startswith("_") else []:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                yield function


def test_functions_of_many_parameters_describe_each():
    for function in chain(*map(public_functions, map(parsed, MODULES))):
        every = function.args
        named = [*every.posonlyargs, *every.args, *every.kwonlyargs, *filter(None, [every.vararg, every.kwarg])]
        names = [argument.arg for argument in named if argument.arg not in ("self", "cls")]
        if len(names) > 3:
            text = ast.get_docstring(function) or ""
            sections = re.split(r"\n([A-Z][a-z]+)\n-+\n", text)
            described = dict(zip(sections[1::2], sections[2::2], strict=True)).get("Parameters", "")
            listed = {name.strip("* ") for line in re.findall(r"^(\S.*)$", described, re.M) for name in line.split(",")}
            assert set(names) <= listed, f"{function.name} describes no {sorted(set(names) - listed)}"
            assert "Returns" in sections or function.name in ("__init__",), f"{function.name} has no section Returns"


def test_what_docstrings_refer_to_is_there():
    """`module.name` is in that module, and `name` somewhere in railcore's code."""
    code = {path: re.sub(r"`[^`]*`", "", path.read_text()) for path in MODULES}
    words = {word for text in code.values() for word in re.findall(r"\w+", text)}
    words |= {part for path in MODULES for part in name_of(path).split(".")}
    modules = {}
    for path, text in code.items():
        package = path.stem == "__init__"
        inside = [each.stem for each in path.parent.iterdir()] if package else []
        modules.setdefault(path.parent.name if package else path.stem, set()).update(inside, re.findall(r"\w+", text))
    lost = []
    for path in MODULES:
        for text in re.findall(r"`([A-Za-z_][\w.]*)`", path.read_text()):
            *_, module, name = ["", *text.split(".")]
            if name not in modules.get(module, words):
                lost.append(f"{name_of(path)}: `{text}`")
    assert not lost


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_rules(path):
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    tags = [cell["metadata"].get("tags", []) for cell in code]
    assert not any(isinstance(node, ast.FunctionDef) for cell in code for node in ast.walk(ast.parse(cell["source"])))
    assert all(cell["execution_count"] == i for i, cell in enumerate(code, start=1)), "store it executed"
    assert path.stat().st_size < 3e6
    folded = [cell["metadata"].get("jupyter", {}).get("source_hidden", False) for cell in code]
    assert folded == ["parameters" not in each for each in tags], "run it by make figures, which folds its code"
    made = [output for cell in code for output in cell["outputs"] if "image/png" in output.get("data", {})]
    assert all(output["metadata"].get("image/png", {}).get("alt") for output in made), "name what the picture shows"
    if not path.stem.startswith(("00", "21")):
        assert tags[0] == ["parameters"] and parameters.defaults(notebook)
        assert set(tags[-1]) == {"explore", "nbval-ignore-output"} and not code[-1]["outputs"]
        heads = [cell["source"] for cell in notebook["cells"]]
        (short,) = (i for i, text in enumerate(heads) if text.startswith("## In short"))
        recorded = [i for i, text in enumerate(heads) if "claims.record(" in text]
        drawn = [i for i, text in enumerate(heads) if "outputs.save(" in text]
        assert max(recorded, default=0) < short < min(drawn), "record every claim, then answer, then draw"
        assert "outputs.answer(" in heads[short + 1], "give the answer below In short"
        (disagrees,) = [text for text in heads if "## What disagrees" in text] or ["hold for the document"]
        assert "hold for the document" in disagrees, "say that what disagrees does so with the document's parameters"
        asked = "workspace.parameterized()" in "\n".join(heads)
        assert asked or not re.search(r"papers|Fig\. \d|authors'|document's", heads[short + 1]), (
            "with own parameters the answer speaks of those alone"
        )
        first = heads[next(i for i, cell in enumerate(notebook["cells"]) if cell is code[0])].partition("\n#")[0]
        assert len(parameters.defaults({"cells": [{**code[0], "source": first}]})) <= 6, (
            "leave the rest below a comment"
        )
    for text in (answers.headed(cell["source"], None) for cell in notebook["cells"] if cell["cell_type"] == "markdown"):
        assert not [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")]
    words = "\n".join(cell["source"] for cell in notebook["cells"])
    assert not re.search(r"\./shared|(^|[^\w.])/(home|tmp|root|Users)/", words)


@pytest.mark.parametrize("path", [*NOTEBOOKS, *sorted(workspace.FIGURES.rglob("*.md"))], ids=lambda path: path.stem)
def test_no_amount_in_dollars_becomes_a_formula(path):
    texts = [path.read_text()]
    if path.suffix == ".ipynb":
        cells = json.loads(texts[0])["cells"]
        words = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
        made = [output.get("data", {}).get("text/markdown", "") for cell in cells for output in cell.get("outputs", [])]
        assert not any("$" in line for text in made for line in text), "show it by MarkdownText or a table"
        texts = map("".join, words)
    assert not any(text.count("$") > 1 for text in texts), "two bare $ in one text are a formula"


def tables_of(path):
    """Tables of a notebook's outputs or of a file of figures/: rows of cells, without the line below the header."""
    texts = [path.read_text()]
    if path.suffix == ".ipynb":
        made = [output.get("data", {}) for cell in json.loads(texts[0])["cells"] for output in cell.get("outputs", [])]
        texts = ["".join(data.get("text/markdown", "")) for data in made]
    for text in texts:
        blocks = re.findall(r"(?:^\|.*\n)+", text if text.endswith("\n") else text + "\n", re.MULTILINE)
        for rows in ([line.strip("|").split(" | ") for line in block.splitlines()] for block in blocks):
            yield [rows[0], *rows[2:]]


@pytest.mark.parametrize("path", [*NOTEBOOKS, *sorted(workspace.FIGURES.rglob("*.md"))], ids=lambda path: path.stem)
def test_a_table_has_what_a_reader_compares(path):
    for header, *rows in tables_of(path):
        assert len(header) <= legible.MAX_COLUMNS, header
        if path.suffix == ".md" and path.parent != workspace.FIGURES and len(rows) > 2:
            same = [name for name, *cells in zip(header, *rows, strict=True) if len(set(cells)) == 1]
            assert not same, f"{same} is the same in every row: say it once, beside the table"


def test_colours_stand_in_one_place():
    """Those of charts alone are the suite's. Greys, which mark no thing, may be typed anywhere."""
    named = re.compile(r'color="(?:red|green|blue|orange|purple|tab:\w+)"')
    homes = {files.PACKAGE / "catalog" / "colours.py", files.ROOT / "suite" / "colours.py"}
    for path in {*MODULES} - homes:
        text = path.read_text()
        typed = [bytes.fromhex(digits) for digits in re.findall(r'"#([0-9A-Fa-f]{6})"', text)]
        tinted = [colour.hex() for colour in typed if max(colour) - min(colour) > 8]
        assert not tinted and not named.search(text), f"{path.name}: give {tinted} its place in colours.py"


def test_a_notebook_links_to_the_index_and_to_its_neighbours():
    for before, path, after in zip([None, *NOTEBOOKS[:-1]], NOTEBOOKS, [*NOTEBOOKS[1:], None], strict=True):
        first = "".join(json.loads(path.read_text())["cells"][0]["source"])
        for other in {NOTEBOOKS[0], before, after} - {path, None}:
            assert f"({other.name})" in first, f"{path.stem} lacks a link to {other.name}"


def test_benchmarks_import_what_is_there():
    for path in sorted((files.ROOT / "benchmarks").glob("*.py")):
        runpy.run_path(str(path), run_name="imported")


def test_other_scripts_import_what_is_there():
    for path in [*files.ROOT.glob("notebooks/*.py"), *files.ROOT.glob("data/**/*.py")]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in TREES:
                module = importlib.import_module(node.module)
                for alias in node.names:
                    there = hasattr(module, alias.name) or f"{node.module}.{alias.name}" in map(name_of, MODULES)
                    assert there, f"{path}: {node.module} has no {alias.name}"


def bound_names(path):
    """Names that a notebook's cells bind: its parameters cell, and the others."""
    found = {True: set(), False: set()}
    for cell in json.loads(path.read_text())["cells"]:
        table = symtable.symtable("".join(cell["source"]) if cell["cell_type"] == "code" else "", path.stem, "exec")
        names = {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()}
        found["parameters" in cell["metadata"].get("tags", [])] |= names
    return found[True], found[False]


def test_the_names_of_a_kernel_tell_its_notebook_and_its_parameters():
    given = {path.stem: bound_names(path) for path in NOTEBOOKS}
    for name, (mine, others) in given.items():
        assert not mine & others, f"{name}: keep parameters as the reader gave them"
        for other, (theirs, _) in given.items():
            assert name == other or len(theirs) < len(mine) or not theirs <= mine | others, f"{name} looks like {other}"


def requirements(*without):
    """Packages of the project, its extras and groups, but those named, and the Python that it needs."""
    read = tomllib.loads((files.ROOT / "pyproject.toml").read_text())
    project = read["project"]
    more = project["optional-dependencies"] | read["dependency-groups"]
    others = chain(*(each for name, each in more.items() if name not in without))
    return [*project["dependencies"], *{each for each in others if isinstance(each, str)}], project["requires-python"]


def test_environment_yml_lists_the_packages_of_pyproject():
    wanted, python = requirements("sweeps", "site", "measure")  # which `make figures` does without
    listed = yaml.safe_load((files.ROOT / "environment.yml").read_text())["dependencies"]
    assert listed[0] == f"python {python}" and listed[-1] == {"pip": ["-e ."]}
    conda = [Requirement(entry.replace(" ", "")) for entry in listed[1:-1]]
    assert sorted(map(str, conda)) == sorted(str(Requirement(entry)) for entry in wanted)


def test_requirements_txt_lists_the_packages_of_the_notebooks():
    lines = [line for line in (files.ROOT / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    suite = tomllib.loads((files.ROOT / "pyproject.toml").read_text())["dependency-groups"]["suite"]
    assert lines == ["-c constraints.txt", "-e .", *suite]
    assert (files.ROOT / ".binder" / "requirements.txt").read_text() == "-r ../requirements.txt\n"


def test_the_lock_satisfies_pyproject_and_names_no_address():
    text = (files.ROOT / "constraints.txt").read_text()
    assert "://" not in text and "@" not in text
    locked = {}
    for line in text.splitlines():
        entry = Requirement(line)
        locked[entry.name.replace("_", "-").lower()] = next(iter(entry.specifier)).version
    for entry in map(Requirement, requirements("measure")[0]):  # PyTorch depends on the driver: it is not locked
        assert entry.specifier.contains(locked[entry.name.lower()]), entry


def test_the_workflow_runs_the_checks_on_the_oldest_and_the_newest_python():
    (path,) = (files.ROOT / ".github" / "workflows").glob("*.yml")
    job = yaml.safe_load(path.read_text())["jobs"]["checks"]
    locked = re.search(
        r"not \((3), (\d+)\) <= sys\.version_info\[:2\] <= \((3), (\d+)\)", (files.ROOT / "Makefile").read_text()
    )
    assert job["strategy"]["matrix"]["python"] == [f"{locked[1]}.{locked[2]}", f"{locked[3]}.{locked[4]}"]
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"
    assert os.access(files.ROOT / ".ci" / "run", os.X_OK)


def manifest():
    with (workspace.FIGURES / "MANIFEST.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_figures_holds_what_the_manifest_lists():
    found = {path.relative_to(workspace.FIGURES).as_posix() for path in workspace.FIGURES.rglob("*") if path.is_file()}
    found = {name for name in found if not any(part.startswith(".") for part in name.split("/"))}
    assert found - {"MANIFEST.csv"} == {row["file"] for row in manifest()}
    for row in manifest():
        assert hashlib.sha256((workspace.FIGURES / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]


def test_no_picture_is_cut_off_at_its_edge():
    for row in manifest():
        if row["file"].endswith(".png"):
            picture = np.asarray(Image.open(workspace.FIGURES / row["file"]).convert("RGB"))
            edges = (picture[0], picture[-1], picture[:, 0], picture[:, -1])
            assert all((edge > 0.98 * 255).all() for edge in edges), f"{row['file']} has ink on its edge"


def test_every_notebook_of_the_suite_made_all_that_is_listed_for_it():
    made = {path.stem for path in NOTEBOOKS}
    listed = [row for row in outputs.items().values() if row["notebook"] in made]
    assert listed
    for row in listed:
        for extension in row["files"].split():
            assert (workspace.FIGURES / row["document"] / f"{row['item']}.{extension}").exists(), row["id"]
    with (workspace.FIGURES / "reproduction.csv").open(newline="") as stream:
        missing = [
            row["id"] for row in csv.DictReader(stream) if row["notebook"] in made and row["verdict"] == "missing"
        ]
    assert not missing


def test_no_file_names_a_machine():
    for path in [*MODULES, *sorted(files.ROOT.glob("[!.]*.*")), *sorted((files.ROOT / "tests").rglob("*.py"))]:
        if path.is_file() and path.name != "test_structure.py":
            assert not re.search(r"(^|[^\w.:])/(work|root|home)/", path.read_text(errors="ignore")), path
