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


FOREVER = "sum(range(10**10))"  # one call into C, which keeps the interpreter and looks for no signal, for minutes
IN_C = f"import pathlib\npathlib.Path('../build/begun').touch()\n{FOREVER}"


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


@pytest.mark.parametrize("code", [project.DRAW, pytest.param(IN_C, marks=pytest.mark.slow)], ids=["early", "in C"])
def test_a_kernel_ends_with_its_driver_even_where_orphans_are_taken_in(suite, code):
    folder, _, _ = suite
    project.write_notebook(folder, project.FIRST, "tiers: int = 3", code)
    adopt = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(36, 1)"  # PR_SET_CHILD_SUBREAPER
    code = f"{adopt}; subprocess.Popen([sys.executable, '-m', 'suite', 'figures', '--publish']); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    surroundings = project.environment(folder)
    process = subprocess.Popen(command, cwd=folder, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    begun = folder / "build" / "begun"
    assert project.wait_for(begun.exists if code == IN_C else lambda: kernels(folder))  # before its own watch begins
    psutil.Process(process.pid).children()[0].kill()
    assert project.wait_for(lambda: not kernels(folder))
    process.communicate(timeout=project.TIMEOUT)


def test_after_stops_the_next_run_completes_and_tidies(suite):
    folder, states, _ = suite
    set_tiers(folder, 2)
    (folder / "figures" / ".railcore-123.tmp").write_text("half")
    status, printed = project.run(folder, "--publish")
    assert status == 0, printed
    assert project.snapshot(folder) == states[1]


def test_signals_end_a_driver_that_cannot_answer():
    code = "import signal\nfor number in (1, 2, 15):\n    signal.signal(number, signal.SIG_DFL)\n"  # under nohup too
    code += "stops._PATIENCE_S = 0.1\nwith stops.obeyed():\n    print('in C', flush=True)\n    "
    command = [sys.executable, "-c", f"from suite.driver import stops\n{code}{FOREVER}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    surroundings = {"cwd": project.files.ROOT, "env": project.environment(project.files.ROOT)}
    runs = {name: subprocess.Popen(command, **pipes, **surroundings) for name in ("SIGINT", "SIGTERM", "SIGHUP")}
    try:
        assert [run.stdout.readline() for run in runs.values()] == ["in C\n"] * 3
        time.sleep(0.3)  # until they are
        for name, run in runs.items():
            run.send_signal(signal.Signals[name])
            _, said = run.communicate(timeout=project.TIMEOUT)
            assert run.returncode == -signal.SIGKILL
            assert said == f"killed: it had not ended 0.1 s after {name}; the next run completes it\n"
    finally:
        for run in runs.values():
            run.kill()
