import ast
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

# One thread as in the kernels, before anything imports NumPy: BLAS threads of two workers wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "RAILCORE_ULP" in os.environ:  # before any test imports railcore
    import ulp

    ulp.install(os.environ["RAILCORE_ULP"])

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=15)
settings.register_profile("thorough", settings.get_profile("fixed"), max_examples=100)  # of `make slow`
settings.load_profile("fixed")


def pytest_addoption(parser):
    parser.addoption("--only", metavar="SUBJECT", help="tests of one folder of railcore, such as training or search")


def pytest_configure(config):
    if subject := config.getoption("--only"):
        homes = {path: home_of(path) for path in Path(__file__).parent.glob("test_*.py")}
        if subject not in (known := {part for home in homes.values() for part in home}):
            raise pytest.UsageError(f"ONLY is {subject!r}: give one of {', '.join(sorted(known))}")
        config.of_another_subject = {path for path, home in homes.items() if subject not in home}


def pytest_ignore_collect(collection_path, config):
    return collection_path in getattr(config, "of_another_subject", ()) or None


def home_of(path):
    """The folder of railcore or of the suite, by its parts, that a test file is named by or else imports most from.

    `catalog` where it imports nothing else: nearly all do. `driver` of tests that run the driver in a project.
    """
    root, counts = Path(__file__).parents[1], Counter()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
        for name in names:
            place = root / "suite" / "driver" if name == "project" else root.joinpath(*name.split("."))
            while not place.is_dir():
                place = place.parent
            if place != root and place.relative_to(root).parts[0] in ("railcore", "suite"):
                counts[place.relative_to(root).parts] += 1
    del counts["railcore",], counts["suite",]
    counts["railcore", "catalog"] = min(counts["railcore", "catalog"], 0.5)
    return max(counts, key=lambda home: (home[-1] in path.stem.split("_"), counts[home]))


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch, tmp_path):
    for name in ("RAILCORE_CATALOG", "RAILCORE_PARAMETERIZED", "RAILCORE_NOTEBOOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAILCORE_OUT", str(tmp_path))
    monkeypatch.setattr("suite.workspace._notebook", None)


@pytest.fixture(autouse=True)
def sound_timelines(monkeypatch):
    """Every timeline that a test simulates, however deep in a function, is checked as it is made."""
    if simulation := sys.modules.get("railcore.photonics.simulation"):
        from timelines import check

        made = simulation.StepTimeline.__init__

        def make(timeline, *args, **fields):
            made(timeline, *args, **fields)
            check(timeline, jitter=1.0)  # of the computes, whatever it was

        monkeypatch.setattr(simulation.StepTimeline, "__init__", make)
