"""The words of a launch line: which arguments of Megatron-LM, torchrun and srun are read, and what the others change.

The names are rows of data/launch_arguments.csv.
"""

import argparse
import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from railcore.catalog import files, near_names, tables
from railcore.training.shell_words import MOST_LETTERS, shell_words, with_dashes

MOST_LAYERS = 10**4  # that a list in the line may have
_MOST_DIGITS = 15
_ALIKE = 0.85  # from which an unknown name counts as a misspelt one
_WITH_SHORT = ("srun", "sbatch", "mpirun", "mpiexec")
_COMMANDS = (*_WITH_SHORT, "numactl", "torchrun", "python", "python3")
_MANY = re.compile(r"\[[@*]\]|(ARGS|ARGUMENTS|OPTS|OPTIONS)\W*$")  # of a variable that holds arguments
_SHORT = {"-N": "--nodes", "-n": "--ntasks", "-np": "--ntasks"}  # of _WITH_SHORT


class LaunchArgument(NamedTuple):
    """An argument by its name without dashes: a row of data/launch_arguments.csv.

    effect: "used", "none", "cost" (it may change time or memory), "refused" (what it asks for is not modelled), "gone"
        (from Megatron-LM) or "launcher" (of torchrun or srun).
    reads: of one that is read: count, whole (0 too, as if it were not there), switch, list, text, or its words.
    usual: of "cost" and "refused": the values that change nothing.
    note: what is not modelled, or what stands in place of one that is gone.
    """

    argument: str
    effect: str
    reads: str
    usual: str
    note: str


@cache
def launch_arguments() -> dict[str, LaunchArgument]:
    """All known arguments by name."""
    rows = [LaunchArgument(**row) for row in tables.read_csv(files.data("launch_arguments.csv"))]
    return {row.argument: row for row in rows}


def read_line(args: str | Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Arguments that are read, by name, and texts about what is not used and may matter.

    Raises ValueError for what is not modelled, for a misspelt name, and for a value of another kind.
    """
    words = _words(args)
    script = _script_place(words)
    for word in words[:script]:
        if word.startswith("--") and (name := word[2:].partition("=")[0]) not in launch_arguments():
            _check_spelling(name)
    try:
        used, _ = _parser().parse_known_args([*_launcher_words(words[:script]), *words[script:]])
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name} {error.message}") from None
    options = {name: value for name, value in vars(used).items() if value != 0 or isinstance(value, bool)}
    return options, _not_used(words[script:])


def _words(args: str | Sequence[str]) -> list[str]:
    """Words of a line, with dashes in the names."""
    text = args if isinstance(args, str) else " ".join(map(str, args))
    if len(text) > MOST_LETTERS:
        raise ValueError(f"args has {len(text):,} letters: give a launch line of {MOST_LETTERS:,} at most")
    words = shell_words(args) if isinstance(args, str) else [with_dashes(str(word)) for word in args]
    # An option may stand with its value in one word, as members of arrays do.
    words = [part for word in words for part in (shlex.split(word) if re.match(r"--[\w-]+\s", word) else [word])]
    if words and not any(word.startswith("--") for word in words):
        raise ValueError(f"args is {text[:60]!r}: give a line with options, such as --tensor-model-parallel-size 8")
    return [re.sub("^--[^=]+", lambda name: name[0].replace("_", "-"), word) for word in words]


def _script_place(words: Sequence[str]) -> int:
    """Place behind the script that is launched; 0 where an argument of Megatron-LM stands before any."""
    for place, word in enumerate(words):
        row = launch_arguments().get(word[2:].partition("=")[0]) if word.startswith("--") else None
        if word.endswith(".py"):
            return place + 1
        if row and row.effect != "launcher":
            break
    return 0


def _launcher_words(words: Sequence[str]) -> list[str]:
    """Options of launchers: short names in full where they are srun's or mpirun's; none where one is a variable."""
    command, full = "", list[str]()
    for word in words:
        command = word if word in _COMMANDS else command
        short = re.fullmatch(r"(-N|-np?)(\d*)", word) if command in _WITH_SHORT else None
        if short:
            full += [_SHORT[short[1]], *filter(None, [short[2]])]
        elif word.startswith("--") or (full and full[-1].startswith("--")):
            full.append(word)
    sizes = [f"--{row.argument}" for row in launch_arguments().values() if row.effect == "launcher" and row.reads]
    pairs = zip(full, [*full[1:], ""], strict=True) if full else ()
    if any(option.partition("=")[0] in sizes and "$" in f"{option} {value}" for option, value in pairs):
        return []
    return full


def _not_used(words: Sequence[str]) -> list[str]:
    """A text about arguments that may change time or memory, and unknown ones; none where there are none."""
    costs, unknown = dict[str, None](), dict[str, None]()
    for name, value in _given(words):
        row = launch_arguments().get(name)
        if row is None:
            _check_spelling(name)
            unknown[f"--{name}"] = None
        elif row.effect == "gone":
            raise ValueError(f"--{name} is gone from Megatron-LM: give --{row.note}")
        elif row.effect in ("cost", "refused"):
            costs.pop(f"--{name}", None)  # the last one of several counts
            if row.usual and value in row.usual.split(","):
                continue
            if row.effect == "refused":
                raise ValueError(f"--{name} ({row.note}) is not modelled: drop it, or give another model")
            costs[f"--{name}"] = None
    why = {"may change time or memory: precision and runtime are given apart": costs, "no name of Megatron-LM": unknown}
    texts = [f"{', '.join(names)} ({reason})" for reason, names in why.items() if names]
    return [f"not used: {'; '.join(texts)}"] if texts else []


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names of all arguments with their values, one space between several.

    Raises ValueError for a variable that stands for arguments, and for a name behind one dash.
    """
    name, values = "", list[str]()
    for word in [*words, "--"]:
        if word.startswith("--"):
            if name:
                yield name, " ".join(values)
            name, _, value = word[2:].partition("=")
            values = [value] if value else []
            continue
        reads = row.reads if (row := launch_arguments().get(name)) else ""
        has_value = bool(values) or reads == "switch"
        if re.match(r"\$\{?\w", word) and (_MANY.search(word) or not name or (reads and has_value)):
            raise ValueError(f"{word} is a variable that the line does not set: give its arguments")
        if re.fullmatch(r"-[A-Za-z][\w-]{2,}", word):
            _check_spelling(word[1:])
        values.append(word)


def _check_spelling(name: str) -> None:
    """Raises ValueError for a name that is nearly that of an argument that is used."""
    used = [row.argument for row in launch_arguments().values() if row.effect in ("used", "launcher") and row.reads]
    initials = [size for size in used if "parallel-size" in size and name == f"{size[0]}p"]  # tp, pp, cp, ep
    if near := near_names(name, used, alike=_ALIKE) or initials:
        maker = "the launcher" if launch_arguments()[near[0]].effect == "launcher" else "Megatron-LM"
        raise ValueError(f"--{name} is unknown: {maker} has --{near[0]}")


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
    kinds: dict[str, dict[str, Any]] = {"list": {"type": _pattern}}
    kinds |= {"count": {"type": partial(_number, least=1)}, "whole": {"type": partial(_number, least=0)}}
    for name, row in launch_arguments().items():
        if row.reads == "switch":
            parser.add_argument(f"--{name}", dest=name, action="store_true")
        elif row.reads == "text":
            parser.add_argument(f"--{name}", dest=name)  # the last one counts, as in Megatron-LM
        elif row.reads:
            kind = kinds.get(row.reads) or {"choices": row.reads.split()}
            parser.add_argument(f"--{name}", dest=name, action=_Once, **kind)
    return parser


def _number(text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < least:
        wanted = "a positive whole number" if least else "a whole number"
        raise argparse.ArgumentTypeError(
            f"is {text[:40]!r}: give {wanted}" + " (a variable's value)" * text.startswith("$")
        )
    return int(text)


def _pattern(text: str) -> int | list[int]:
    """A whole number, or the numbers of a Python expression of lists with + and *, such as ([0]*3+[1]*58)."""
    try:
        pattern = _listed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError):
        pattern = []
    if not pattern or (isinstance(pattern, list) and not all(isinstance(number, int) for number in pattern)):
        raise argparse.ArgumentTypeError(f"is {text!r}: give a whole number, or a list such as ([0]*3+[1]*58)")
    return pattern


def _listed(node: ast.expr) -> Any:
    """Value of a whole number, a list, or a sum or product of these. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= MOST_LAYERS:
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
        if len(part) * times <= MOST_LAYERS:
            return part * times
    raise ValueError("neither a number nor a list")
