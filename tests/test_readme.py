"""The Python examples of README run, print what they say, and leave figures/ alone."""

import re
import textwrap

import pytest

from railcore.facts import files

EXAMPLES = [
    textwrap.dedent(block)
    for block in re.findall(r"^ *```python\n(.*?)^ *```", (files.ROOT / "README.md").read_text(), re.M | re.S)
]


def stored():
    return {path: path.stat().st_mtime_ns for path in files.FIGURES.rglob("*") if path.is_file()}


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.splitlines()[0][:60])
def test_an_example_runs_as_it_stands(example, capsys):
    before = stored()
    exec(compile(example, "README.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.count("\n") >= example.count("print(")
    assert stored() == before
