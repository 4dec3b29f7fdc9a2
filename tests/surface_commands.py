"""The command line as part of the surface: a good line of each command, and what its values are replaced by.

tests/surface_commands.toml has a table for each command: its options and positional values, by their names.
"""

import argparse
import contextlib
import io
import re
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from railcore import __main__ as railcore_command
from suite import __main__ as suite_command

FILE = Path(__file__).with_name("surface_commands.toml")
PLAN = """[cluster]
platform = "DGX H100"
gpus = 64
[job]
model = "Llama-3 8B"
tokens = 1e12
batch = 128
search = {context = 1, micro_batch = 1}
[network]
candidates = ["rail-only"]
"""
LOG = " iteration 1/ 2 | elapsed time per iteration (ms): 6700.5 | global batch size: 64 |\n"
PARTS = "gpu,setup,date,kind,name,n,forward_s\nNVIDIA H100 80GB HBM3,,2026-11,copy,a copy,536870912,7.1e-4\n"
# Lines that write into notebooks/, or need a scheduler or PyTorch: a good answer is not asked for
NOT_RUN = ("suite figures", "suite figures 2", "suite lab", "suite lab 2", "railcore sweep 2", "railcore measure run")
PROGRAMS = {"railcore": railcore_command, "suite": suite_command}
NUMBERS = {"zero": "0", "negative": "-1", "NaN": "nan", "infinite": "inf", "huge": str(10**12)}
TEXTS = {"empty": "", "unknown name": "no such name"}
IN_THE_WAY = {"FILE": "folder", "FOLDER": "file"}  # what stands where a command is to write


class Line:
    """A good line: a command and its values by option or position."""

    reads = False  # every refusal is asked for by its name in `answer`

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name, self.command, self.given = name, name.rstrip(" 0123456789"), values
        self.program, *self.words = self.command.split()
        actions = commands()[self.command]
        self.parameters = {parameter: actions[parameter] for parameter in values}

    def good(self) -> Any:
        """The good answer."""
        return None if self.name in NOT_RUN else self.answer()

    def bad(self, parameter: str) -> dict[str, Any]:
        """Bad values by kind that an option or a positional value is replaced by."""
        action = self.parameters[parameter]
        if action.type is int:
            return NUMBERS
        way = IN_THE_WAY.get(str(action.metavar))
        return {"empty": "", "in the way": "{folder}/" + way} if way else TEXTS

    def answer(self, **changed: Any) -> Any:
        """What the line prints, and its numbers that are none. Raises ValueError where it is refused in one line."""
        with folder_of_files() as folder:
            words = [word.replace("{folder}", folder) for word in self.in_order(self.given | changed)]
            status, printed, told = said(self.program, words)
            if status in (1, 2) and re.search(rf"^{self.program}: .|: error: .", told, re.MULTILINE):
                given = [word for value in changed.values() for word in ([value] if isinstance(value, str) else value)]
                named = [word.replace("{folder}", folder).lstrip("-") for word in (*changed, *given)]
                if not changed or any(word in told for word in named):
                    raise ValueError(told)
                raise RuntimeError(f"refused without its name: {told}")
            printed = printed.replace(folder, "")
        return {"printed": printed, "none": [float(word) for word in re.findall(r"\b(?:nan|inf)\b", printed, re.I)]}

    def in_order(self, values: dict[str, Any]) -> list[str]:
        """Words of a line."""
        words = list(self.words)
        for parameter, value in values.items():
            if not parameter.startswith("-"):
                words.append(value)
            else:
                words += [parameter, *value] if isinstance(value, list) else [f"{parameter}={value}"]
        return words


@contextlib.contextmanager
def folder_of_files() -> Iterator[str]:
    """A folder with what the good lines read."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "plan.toml").write_text(PLAN, encoding="utf-8")
        (place / "sweep.toml").write_text(PLAN + '[over]\n"cluster.gpus" = [64, 128]\n', encoding="utf-8")
        (place / "train.log").write_text(LOG, encoding="utf-8")
        (place / "parts.csv").write_text(PARTS, encoding="utf-8")
        (place / "file").touch()
        (place / "folder").mkdir()
        yield folder


def said(program: str, words: list[str]) -> tuple[Any, str, str]:
    """Exit status of a line, and what it writes on its output and beside it."""
    told, asked = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(asked), contextlib.redirect_stderr(told):
        try:
            status = PROGRAMS[program].main(words)
        except SystemExit as stop:  # argparse
            status = stop.code
    return status, asked.getvalue(), told.getvalue()


@cache
def commands(parser: argparse.ArgumentParser | None = None, name: str = "") -> dict[str, dict[str, Any]]:
    """Options and positional values that take a value, by command."""
    if parser is None:
        return {
            key: value
            for program, module in PROGRAMS.items()
            for key, value in commands(module.command_parser(), program).items()
        }
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if inner:
        return {
            key: value
            for word, each in inner[0].choices.items()
            for key, value in commands(each, f"{name} {word}").items()
        }
    taking = [each for each in parser._actions if each.nargs != 0]
    return {name: {(each.option_strings or [each.dest])[0]: each for each in taking}}


@cache
def lines() -> dict[str, Line]:
    """Good lines by command."""
    return {name: Line(name, values) for name, values in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}
