"""Stop the driver at random moments: figures/ stays whole, no kernel stays, the next run completes."""

import os
import random
import signal
import subprocess
import sys
import time

import project
import psutil
import pytest

STOPS = int(os.environ.get("RAILCORE_STOPS", "1"))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def kernels(folder):
    pids = []
    for process in psutil.process_iter(["cmdline"]):
        if "ipykernel_launcher" in " ".join(process.info["cmdline"] or []):
            try:
                if process.cwd().startswith(str(folder)):
                    pids.append(process.pid)
            except psutil.Error:
                continue
    return pids


def set_tiers(folder, tiers):
    project.write_notebook(folder, project.FIRST, f"tiers: int = {tiers}", project.DRAW)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A project, what it publishes with 2 and with 3 tiers, and how long that takes."""
    folder, states = project.make(tmp_path_factory.mktemp("stopped")), []
    for tiers in (3, 2):
        set_tiers(folder, tiers)
        started = time.monotonic()
        status, printed = project.run(folder, "--publish")
        assert status == 0, printed
        states.append(project.snapshot(folder))
    return folder, states, time.monotonic() - started


@pytest.mark.parametrize("number", range(STOPS))
def test_a_stopped_run_leaves_each_file_whole_and_old_or_new(suite, number):
    """Worth its 9 s: nothing that was there is lost, wherever a run is stopped; `make slow` stops 40."""
    folder, states, length = suite
    before = project.snapshot(folder)
    set_tiers(folder, 3 - number % 2)
    process = project.start(folder, "--publish")
    time.sleep(random.Random(number).uniform(0.1, 1.0) * length)
    process.send_signal(SIGNALS[number % 3])
    process.communicate(timeout=project.TIMEOUT)
    left = project.snapshot(folder)
    assert project.wait_for(lambda: not kernels(folder))
    mixed = ("figures/MANIFEST.csv", f"notebooks/{project.FIRST}.ipynb")  # the test itself has rewritten the notebook
    for path in set(states[0]) - set(mixed):
        assert left.get(path) in [state[path] for state in states], path
    if number % 3 < 2:  # publishing is never cut in two
        made = [path for path in states[0] if "/01_part" in path]
        assert any(all(left[path] == state[path] for path in made) for state in (before, *states))
    assert not [path for path in left if path not in states[0] and not path.endswith(".tmp")]


def test_a_kernel_ends_with_its_driver_even_where_orphans_are_taken_in(suite):
    folder, _, _ = suite
    set_tiers(folder, 3)
    adopt = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(36, 1)"  # PR_SET_CHILD_SUBREAPER
    code = f"{adopt}; subprocess.Popen([sys.executable, '-m', 'suite', 'figures', '--publish']); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    surroundings = project.environment(folder)
    process = subprocess.Popen(command, cwd=folder, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert project.wait_for(lambda: kernels(folder))  # before its own watch begins
    psutil.Process(process.pid).children()[0].kill()
    assert project.wait_for(lambda: not kernels(folder))
    process.communicate(timeout=project.TIMEOUT)


def test_after_stops_the_next_run_completes_and_tidies(suite):
    folder, states, _ = suite
    set_tiers(folder, 2)
    (folder / "figures" / ".fig.csv.123.tmp").write_text("half")
    status, printed = project.run(folder, "--publish")
    assert status == 0, printed
    assert project.snapshot(folder) == states[1]
