"""Break single statements by seed, each against the tests of its module, and count what is caught.

    python tests/mutants.py [--root FOLDER] [--count 200] [--seed 0] [--jobs 2] [--files 40] [--limit 300] [--out FILE]
        [--again]

A break is one operator, comparison, number or condition changed, or a statement left out. It is caught where one of
the test files nearest to the module fails, or never ends: cut off at the limit of seconds, where it ends in a third of
it without the break. Every finished break is a line of the file, so that a run that was stopped goes on where it was;
--again tries those that were not caught once more. Breaks that change no answer, tests/equivalents.csv, do not count.
FOLDER is a checkout, by default this one: it is copied, never changed. The exit status is 1 where fewer than LEAST are
caught.
"""

import argparse
import ast
import csv
import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "ceil": "floor", "floor": "ceil"}
LEAST = 0.93  # of the breaks that change an answer
FAILED, NOT_COLLECTED = 1, 2  # exit statuses of pytest
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
    """Test files that import a module, then those of its packages: those named like it first, then the short ones."""
    parents = [module.rsplit(".", up)[0] for up in range(1, module.count("."))]
    found = {name: [] for name in (module, *parents)}
    for path in sorted((root / "tests").glob("test_*.py")):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for wanted in found:
            if wanted in names or any(wanted in parents and name.startswith(f"{wanted}.") for name in names):
                found[wanted].append((len(names), path))
    words = [set(part.split("_")) for part in module.split(".")[-2:]]

    def far(each):
        named = set(each[1].stem.split("_"))
        return (-len(words[1] & named), -len(words[0] & named), *each)

    return list(dict.fromkeys(path for near in found.values() for _, path in sorted(near, key=far)))


def chosen(root, count, seed):
    """Breaks of all modules of railcore: number of the site and path, by a key that changes elsewhere do not change."""
    found = {}
    for path in sorted((root / "railcore").rglob("*.py")):
        module, seen = path.relative_to(root), Counter()
        for number, node in enumerate(sites(ast.parse(path.read_text(encoding="utf-8")))):
            text = f"{seed} {module} {ast.unparse(node).splitlines()[0]}"
            seen[text] += 1
            found[hashlib.sha256(f"{text} {seen[text]}".encode()).hexdigest()[:12]] = module, number
    return dict(sorted(found.items())[:count])


def run(place, path, number, files, limit):
    """Break one site in a copy, run its tests, and put the file back."""
    target, module = place / path, ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    source = target.read_text(encoding="utf-8")
    tree = ast.parse(source)
    node = next(itertools.islice(sites(tree), number, None))
    before = ast.unparse(node).splitlines()[0]
    broken(node)

    def catches(test):
        target.write_text(ast.unparse(tree), encoding="utf-8")
        try:
            status = status_of(place, test, limit)
        finally:
            target.write_text(source, encoding="utf-8")
        if status is None:  # cut off: endless, where the file ends soon without the break
            return status_of(place, test, limit / 3) == 0
        return status in (FAILED, NOT_COLLECTED)

    caught = any(catches(test) for test in tests_of(place, module)[:files])
    return dict(zip(COLUMNS, (module, node.lineno, before, ast.unparse(node).splitlines()[0], caught), strict=True))


def status_of(place, test, limit):
    """Exit status of pytest for a test file, None where it does not end within the limit of seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(test)]
    variables = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=place, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            return process.wait(limit)
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
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=here / "build" / "mutants.csv")
    asked = parser.parse_args(arguments)
    root = asked.root.resolve()
    todo = chosen(root, asked.count, asked.seed)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    if not asked.out.exists():
        asked.out.write_text(",".join(["key", *COLUMNS]) + "\n", encoding="utf-8")
    with asked.out.open(newline="", encoding="utf-8") as stream:
        done = {row["key"]: row for row in csv.DictReader(stream) if row["key"] in todo}  # the last line counts
    with EQUIVALENTS.open(newline="", encoding="utf-8") as stream:
        alike = {row["key"] for row in csv.DictReader(stream)}
    tried = {key for key, row in done.items() if row["caught"] == "True" or key in alike or not asked.again}
    with TemporaryDirectory() as folder, asked.out.open("a", newline="", encoding="utf-8") as stream:
        places = Queue()
        for job in range(asked.jobs):
            place = Path(folder, str(job))
            kept = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", ".hypothesis")
            shutil.copytree(root, place, ignore=kept)
            places.put(place)
        writer = csv.writer(stream)

        def one(key):
            place = places.get()
            try:
                return key, run(place, *todo[key], asked.files, asked.limit)
            finally:
                places.put(place)

        with ThreadPoolExecutor(asked.jobs) as pool:
            running = [pool.submit(one, key) for key in todo if key not in tried]
            for key, row in (each.result() for each in as_completed(running)):
                writer.writerow([key, *row.values()])
                stream.flush()
                done[key] = row | {"caught": str(row["caught"])}
                where = f"{row['module']}:{row['line']}"
                print(
                    "caught:" if row["caught"] else "NOT CAUGHT:", where, row["before"], "->", row["after"], flush=True
                )
    counted = [row for key, row in done.items() if key not in alike]
    caught = sum(row["caught"] == "True" for row in counted)
    left = len(done) - len(counted)
    print(f"{caught} of {len(counted)} are caught ({caught / len(counted):.1%}); {left} more change no answer")
    return 0 if caught >= LEAST * len(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
