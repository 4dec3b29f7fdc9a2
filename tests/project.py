"""A copy of the project with small notebooks, for tests that run and stop the driver."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from railcore.catalog import files

TIMEOUT = 1800  # of whatever ends by itself: no test hangs on how busy the machine is
FIRST, SECOND = "01_network_cost", "02_topologies"
CHANGED = ("figures", "notebooks", "build")  # by runs
DRAW = """
import pandas as pd, time
from suite.ledger import claims
from suite import outputs
claim = "railonly2025.text.r64_tiers_rail_only"
claims.record({claim: tiers}, {claim: "a test"})
for i in range(6):
    time.sleep(0.05)
    outputs.save(f"extra.01_part{i}", pd.DataFrame({"x": range(200), "part": i, "tiers": tiers}))
print("made", tiers)
"""
OTHER = """
import pandas as pd
from railcore import catalog
from railcore.catalog import units
from suite import outputs
ports = catalog.item("switches", "12.8T")["ports"]
outputs.show_warnings(*["the speed is a crawl"] * (units.parse(speed, "bps") < 1e6))
outputs.save("extra.02_table", pd.DataFrame({"speed": [units.parse(speed, "bps")]}))
"""
TIERS, SPEED = "tiers: int = 2  # tiers of a rail", 'speed: str = "400 Gbps"  # of a link'
INDEX = """
from suite import workspace
print(len(list(workspace.FIGURES.rglob("*.csv"))))
"""


def cell(source: str, number: int, *tags: str) -> dict:
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "metadata": {"tags": list(tags)} if tags else {},
        "execution_count": None,
        "outputs": [],
        "source": source,
    }


def write_notebook(folder: Path, name: str, parameters: str, *sources: str) -> None:
    cells = [cell(parameters, 0, "parameters")] if parameters else []
    cells += [cell(source, i + 1) for i, source in enumerate(sources)]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (folder / "notebooks" / f"{name}.ipynb").write_text(text)


def make(folder: Path) -> Path:
    for name in ("railcore", "suite", "data"):
        shutil.copytree(files.ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(files.ROOT / "constraints.txt", folder)
    made = [(f"01_part{i}", FIRST) for i in range(6)] + [("02_table", SECOND)]
    with (folder / "data" / "extras.csv").open("a") as extras:
        extras.writelines(f"extra.{name},extra,{name},table,numbers,{notebook},csv md tex\n" for name, notebook in made)
    (folder / "notebooks").mkdir()
    (folder / "figures").mkdir()
    write_notebook(folder, FIRST, TIERS, DRAW)
    write_notebook(folder, SECOND, SPEED, OTHER)
    write_notebook(folder, "00_index", "", INDEX)
    return folder


def environment(project: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAILCORE_", "PYTEST_", "COV_"))}
    return kept | {"PYTHONPATH": str(project)}


def start(project: Path, *arguments: str, patch: str = "", **variables: str) -> subprocess.Popen:
    """The driver in a process of its own; patch: code that runs before it, variables: of its environment."""
    code = f"{patch}\nimport sys\nfrom suite.__main__ import main\nsys.exit(main(['figures', *sys.argv[1:]]))"
    command = ["-c", code] if patch else ["-m", "suite", "figures"]
    return subprocess.Popen(
        [sys.executable, *command, *arguments],
        cwd=project,
        env=environment(project) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )


def made_and_kept(folders) -> tuple[Path, Path]:
    """A project that is up to date, and a copy of all that a run may change; folders: pytest's tmp_path_factory."""
    folder, kept = make(folders.mktemp("project")), folders.mktemp("kept")
    status, printed = run(folder)
    assert status == 0, printed
    for name in CHANGED:
        shutil.copytree(folder / name, kept / name)
    return folder, kept


def put_back(folder: Path, kept: Path) -> Path:
    """The project of `made_and_kept`, up to date again whatever was done to it."""
    for name in CHANGED:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(kept / name, folder / name)
    return folder


def run(project: Path, *arguments: str, **options: str) -> tuple[int, str]:
    process = start(project, *arguments, **options)
    printed, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, printed


def ran(printed: str) -> set[str]:
    """Notebooks that a run has started, by what it printed."""
    return set(re.findall(r"^(\S+): started", printed, re.MULTILINE))


def wait_for(condition: Callable[[], object]) -> bool:
    """Wait until a condition holds; False where it does not even on a very busy machine."""
    deadline = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def snapshot(project: Path) -> dict[str, bytes]:
    folders = (project / "figures", project / "notebooks")
    paths = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(project)): path.read_bytes() for path in paths}
