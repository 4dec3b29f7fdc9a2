"""The words of a launch line: which arguments of Megatron-LM, torchrun and srun are read, and what the others change.

The names are rows of data/launch_arguments.csv.
"""

import argparse
import ast
import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from railcore.catalog import files, near_names, tables

_MOST_LAYERS = 10**4  # that a list in the line may have
_MOST_LETTERS = 2**16
_ALIKE = 0.85  # from which an unknown name counts as a misspelt one
_SHORT = {"N": "nodes", "n": "ntasks"}  # of srun


class LaunchArgument(NamedTuple):
    """An argument by its name without dashes: a row of data/launch_arguments.csv.

    effect: "used", "none", "cost" (it may change time or memory) or "model" (it makes another model).
    reads: of one that is used: whole, switch, list, text, or the words that it takes.
    usual: of a cost: the value that changes nothing.
    feature: of a model: what is not modelled.
    """

    argument: str
    effect: str
    reads: str
    usual: str
    feature: str


@cache
def launch_arguments() -> dict[str, LaunchArgument]:
    """All known arguments by name."""
    rows = [LaunchArgument(**row) for row in tables.read_csv(files.data("launch_arguments.csv"))]
    return {row.argument: row for row in rows}


def read_line(args: str | Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Arguments that are used, by name, and texts about what is not used and may matter.

    Raises ValueError for an argument of a model that is not modelled, a misspelt one, and a value of another kind.
    """
    words = _words(args)
    try:
        used, _ = _parser().parse_known_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name} {error.message}") from None
    script = next((place for place, word in enumerate(words) if word.endswith(".py")), -1)
    return vars(used), _not_used(words[script + 1 :])  # what stands before is the launcher's


def _words(args: str | Sequence[str]) -> list[str]:
    """Words of a line, those of a command in quotes too, with dashes in the names."""
    text = args if isinstance(args, str) else " ".join(map(str, args))
    if len(text) > _MOST_LETTERS:
        raise ValueError(f"args has {len(text):,} letters: give a launch line of {_MOST_LETTERS:,} at most")
    if text.strip() and "--" not in text:
        raise ValueError(f"args is {text[:60]!r}: give a line with options, such as --tensor-model-parallel-size 8")
    try:
        words = shlex.split(args.replace("\\\n", " "), comments=True) if isinstance(args, str) else list(map(str, args))
        words = [part for word in words for part in (shlex.split(word) if " --" in word else [word])]
    except ValueError as error:
        raise ValueError(f"args cannot be split into words ({error}): look for an open quote") from None
    return [re.sub("^--[^=]+", lambda name: name[0].replace("_", "-"), word) for word in words]


def _not_used(words: Sequence[str]) -> list[str]:
    """A text about arguments that may change time or memory, and unknown ones; none where there are none."""
    costs, unknown = dict[str, None](), dict[str, None]()
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if not word.startswith("--"):
            continue
        name, _, value = word[2:].partition("=")
        row = launch_arguments().get(name)
        if row is None:
            _check_spelling(name)
            unknown[word] = None
        elif row.effect == "model":
            raise ValueError(f"--{name} is of a model with {row.feature}, which is not modelled: drop it, or the line")
        elif row.effect == "cost":
            costs.pop(f"--{name}", None)  # the last one of several counts
            if not row.usual or (value or following) != row.usual:
                costs[f"--{name}"] = None
    why = {"may change time or memory: precision and runtime are given apart": costs, "no name of Megatron-LM": unknown}
    texts = [f"{', '.join(names)} ({reason})" for reason, names in why.items() if names]
    return [f"not used: {'; '.join(texts)}"] if texts else []


def _check_spelling(name: str) -> None:
    """Raises ValueError for a name that is nearly that of an argument that is used."""
    used = [row.argument for row in launch_arguments().values() if row.effect == "used"]
    initials = [size for size in used if "parallel-size" in size and name == f"{size[0]}p"]  # tp, pp, cp, ep
    if near := near_names(name, used, alike=_ALIKE) or initials:
        raise ValueError(f"--{name} is unknown: Megatron-LM has --{near[0]}")


class _Once(argparse.Action):
    """Stores a value; a second, different one is refused."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        before = getattr(namespace, self.dest, values)
        if before != values:
            raise argparse.ArgumentError(self, f"is given twice, as {before} and {values}: keep one")
        setattr(namespace, self.dest, values)


@cache
def _parser() -> argparse.ArgumentParser:
    """A parser of the arguments that are used; those that a line does not have are not in the result."""
    settings: dict[str, Any] = {"add_help": False, "allow_abbrev": False, "exit_on_error": False}
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, **settings)
    kinds: dict[str, dict[str, Any]] = {"whole": {"type": _whole}, "list": {"type": _pattern}, "text": {"type": str}}
    for name, row in launch_arguments().items():
        flags = [f"-{letter}" for letter, meant in _SHORT.items() if meant == name] + [f"--{name}"]
        if row.reads == "switch":
            parser.add_argument(*flags, dest=name, action="store_true")
        elif row.effect == "used":
            kind = kinds.get(row.reads) or {"choices": row.reads.split()}
            parser.add_argument(*flags, dest=name, action=_Once, **kind)
    return parser


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"is {text!r}: give a positive whole number (a variable's value, not its name)"
        )
    return int(text)


def _pattern(text: str) -> int | list[int]:
    """A whole number, or the numbers of a Python expression of lists with + and *, such as ([0]*3+[1]*58)."""
    try:
        pattern = _listed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError):
        pattern = []
    if not pattern or (isinstance(pattern, list) and not all(isinstance(number, int) for number in pattern)):
        raise argparse.ArgumentTypeError(f"is {text!r}: give a whole number, or a list such as ([0]*3+[1]*58)")
    return pattern


def _listed(node: ast.expr) -> Any:
    """Value of a whole number, a list, or a sum or product of these. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _MOST_LAYERS:
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_listed(node.operand)
    if isinstance(node, ast.List | ast.Tuple):
        return [_listed(element) for element in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_listed(node.left), *_listed(node.right)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _listed(node.left), _listed(node.right)
        part, times = (left, right) if isinstance(left, list) else (right, left)
        if len(part) * times <= _MOST_LAYERS:
            return part * times
    raise ValueError("neither a number nor a list")
