"""What `import railcore` offers: every name has an example that runs, and types that say what is meant.

Checks stand at this edge alone: what the facade offers, what the guide calls, and the objects that these make.
"""

import ast
import doctest
import inspect
import re
import textwrap
import tomllib

import pytest

import railcore
from railcore.catalog import files

NAMES = sorted(name for name in railcore.__all__ if callable(getattr(railcore, name)))
GUIDE = [files.ROOT / "README.md", *sorted((files.ROOT / "docs").rglob("*.md"))]


def code(name):
    """The function, or what makes an object of a class."""
    target = getattr(railcore, name)
    return inspect.unwrap(target.__init__ if inspect.isclass(target) else target)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_docstring_runs(name):
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(railcore, name), name, globs={})
    assert test.examples, f"{name} has no example"
    told = []
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert not told, "".join(told)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_line_of_its_own_and_a_type(name):
    target = inspect.unwrap(getattr(railcore, name))
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(target))).body
    if isinstance(node, ast.ClassDef):
        types = {line.target.id: line.annotation for line in node.body if isinstance(line, ast.AnnAssign)}
    else:
        types = {each.arg: each.annotation for each in (*node.args.args, *node.args.kwonlyargs)}
    text, written = inspect.getdoc(target), {key: ast.unparse(each) for key, each in types.items()}
    assert not [
        key
        for key in inspect.signature(code(name)).parameters
        if not re.search(rf"^{key}(:|$)", text, re.M) and key != "self"
    ]
    assert not {key: each for key, each in written.items() if "Any" in each and "ClassVar" not in each}


def test_the_modules_of_the_facade_are_typed_strictly():
    settings = tomllib.loads((files.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (strict,) = settings["tool"]["mypy"]["overrides"]
    assert strict["module"] == sorted({getattr(railcore, name).__module__ for name in NAMES})


def called_in_the_guide():
    """Names in the Python examples of README and guide."""
    names = set()
    for path in GUIDE:
        for block in re.findall(r"^ *```python\n(.*?)^ *```", path.read_text(encoding="utf-8"), re.M | re.S):
            for node in ast.walk(ast.parse(textwrap.dedent(block))):
                names |= {getattr(node, key) for key in ("attr", "id") if hasattr(node, key)}
    return names


def test_functions_are_checked_at_the_edge_alone():
    edge, inside = {*railcore.__all__} | called_in_the_guide(), []
    for path in sorted((files.ROOT / "railcore").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            checked = [each for each in getattr(node, "decorator_list", []) if ast.unparse(each) == "checked"]
            if checked and isinstance(node, ast.FunctionDef) and node.name not in edge:
                inside.append(node.name)
    assert not inside
