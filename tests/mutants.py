"""Break single statements by seed, each against the tests of its module, and count what is caught.

    python tests/mutants.py [--root FOLDER] [--count 200] [--seed 0] [--jobs 2] [--limit 120] [--out FILE]

A break is one operator, comparison, number or condition changed, or a statement left out. It is caught where a test
file that imports the module fails, or hangs where it does not hang unbroken. Every finished break is a line of the
file, so that a run that was stopped goes on where it was; a break whose code has changed since is done again. Breaks
that change no answer, tests/equivalents.csv, do not count. FOLDER is a checkout, by default this one: it is copied,
never changed. The exit status is 1 where fewer than LEAST are caught.
"""

import argparse
import ast
import csv
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

FLOORS = ("facts", "network", "training", "systems", "engines")
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "ceil": "floor", "floor": "ceil"}
LEAST = 0.93  # of the breaks that change an answer
EQUIVALENTS = Path(__file__).with_name("equivalents.csv")
COLUMNS = ("module", "line", "before", "after", "caught")


def sites(tree):
    """Nodes that can be broken, in the bodies of functions; annotations, decorators and messages are left out."""
    skipped = set()
    for node in ast.walk(tree):
        parts = []
        if isinstance(node, ast.FunctionDef):
            parts = [*node.decorator_list, node.args, *filter(None, [node.returns])]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.Raise | ast.JoinedStr):
            parts = [node]
        skipped |= {id(inner) for part in parts for inner in ast.walk(part)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if id(node) not in skipped and breaks(node):
                skipped.add(id(node))
                yield node


def breaks(node):
    """Whether `broken` knows what to do with a node."""
    match node:
        case ast.BinOp(op=op):
            return type(op) in OPERATORS
        case ast.Compare(ops=[op]):
            return type(op) in COMPARISONS
        case ast.Constant(value=bool()):
            return True
        case ast.Constant(value=int() | float()):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in NAMES
        case ast.If() | ast.AugAssign():
            return True
    return False


def broken(node):
    """Change a node in place."""
    match node:
        case ast.BinOp(op=op):
            node.op = OPERATORS[type(op)]()
        case ast.Compare(ops=[op]):
            node.ops = [COMPARISONS[type(op)]()]
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=value):
            node.value = value + 1
        case ast.Name(id=name):
            node.id = NAMES[name]
        case ast.Attribute(attr=name):
            node.attr = NAMES[name]
        case ast.If(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.AugAssign():
            node.value = ast.Constant(0)


def tests_of(root, module):
    """Test files that import a module, or where none does those that import its folder."""
    folder = module.rpartition(".")[0]
    found = {module: [], folder: []}
    for path in sorted((root / "tests").glob("test_*.py")):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for wanted in found:
            if wanted in names or any(wanted == folder and name.startswith(f"{folder}.") for name in names):
                found[wanted].append((len(names), path))
    return [path for _, path in sorted(found[module] or found[folder])]  # those that import little first


def site(root, path, number):
    """The tree of a module, one of its sites, and its text."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    node = next(itertools.islice(sites(tree), number, None))
    return tree, node, ast.unparse(node).splitlines()[0]


def name_of(path):
    """The dotted name of a module."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def chosen(root, count, seed):
    """Breaks of all modules of FLOORS: (path, number of the site), by seed."""
    every = []
    for floor in FLOORS:
        for path in sorted((root / "railcore" / floor).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            every += [(path.relative_to(root), number) for number, _ in enumerate(sites(tree))]
    return random.Random(seed).sample(every, min(count, len(every)))


def run(place, path, number, limit):
    """Break one site in a copy, run its tests, and put the file back."""
    target, module = place / path, name_of(path)
    source = target.read_text(encoding="utf-8")
    tree, node, before = site(place, path, number)
    broken(node)
    wanted = tests_of(place, module)
    target.write_text(ast.unparse(tree), encoding="utf-8")
    try:
        caught = fails(place, wanted, limit)
    finally:
        target.write_text(source, encoding="utf-8")
    if caught is None:  # a hang, or are these tests as slow unbroken?
        caught = fails(place, wanted, limit) is not None
    return dict(zip(COLUMNS, (module, node.lineno, before, ast.unparse(node).splitlines()[0], caught), strict=True))


def fails(place, wanted, limit):
    """Whether test files fail, or could not even be collected; None where they take longer than the limit."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *map(str, wanted)]
    variables = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=place, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            return process.wait(limit) in (1, 2) and bool(wanted)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=here)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=here / "build" / "mutants.csv")
    asked = parser.parse_args(arguments)
    root = asked.root.resolve()
    todo = chosen(root, asked.count, asked.seed)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    if not asked.out.exists():
        asked.out.write_text(",".join(["number", *COLUMNS]) + "\n", encoding="utf-8")
    with asked.out.open(newline="", encoding="utf-8") as stream:
        known = {int(row["number"]): row for row in csv.DictReader(stream)}
    texts = [site(root, path, number)[2] for path, number in todo]
    done = {
        number: row
        for number, row in known.items()
        if number < len(todo) and (row["module"], row["before"]) == (name_of(todo[number][0]), texts[number])
    }
    with TemporaryDirectory() as folder, asked.out.open("a", newline="", encoding="utf-8") as stream:
        places = Queue()
        for job in range(asked.jobs):
            place = Path(folder, str(job))
            kept = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", ".hypothesis")
            shutil.copytree(root, place, ignore=kept)
            places.put(place)
        writer = csv.writer(stream)

        def one(number):
            place = places.get()
            try:
                return number, run(place, *todo[number], asked.limit)
            finally:
                places.put(place)

        with ThreadPoolExecutor(asked.jobs) as pool:
            for number, row in pool.map(one, [number for number in range(len(todo)) if number not in done]):
                writer.writerow([number, *row.values()])
                stream.flush()
                done[number] = row | {"caught": str(row["caught"])}
                where = f"{row['module']}:{row['line']}"
                print(
                    "caught:" if row["caught"] else "NOT CAUGHT:", where, row["before"], "->", row["after"], flush=True
                )
    with EQUIVALENTS.open(newline="", encoding="utf-8") as stream:
        alike = {(row["module"], row["before"], row["after"]) for row in csv.DictReader(stream)}
    counted = [row for row in done.values() if (row["module"], row["before"], row["after"]) not in alike]
    caught = sum(row["caught"] == "True" for row in counted)
    print(
        f"{caught} of {len(counted)} are caught ({caught / len(counted):.1%}), beside {len(done) - len(counted)} alike"
    )
    return 0 if caught >= LEAST * len(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
