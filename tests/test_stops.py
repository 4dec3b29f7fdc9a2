"""Stop the driver at random moments: figures/ stays whole, no kernel stays, the next run completes."""

import os
import random
import signal
import time

import project
import psutil
import pytest

STOPS = int(os.environ.get("RAILCORE_STOPS", "3"))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def kernels(folder):
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if "ipykernel_launcher" in " ".join(process.info["cmdline"] or []):
            try:
                if process.cwd().startswith(str(folder)):
                    found.append(process.pid)
            except psutil.Error:
                continue
    return found


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = project.make(tmp_path_factory.mktemp("stopped"))
    started = time.monotonic()
    status, printed = project.run(folder)
    assert status == 0, printed
    return folder, project.snapshot(folder), time.monotonic() - started


@pytest.mark.parametrize("number", range(STOPS))
def test_a_stopped_run_loses_nothing(suite, number):
    folder, whole, length = suite
    for stamp in (folder / "build" / "stamps").glob("*.json"):
        stamp.unlink()
    process = project.start(folder)
    time.sleep(random.Random(number).uniform(0.1, 1.0) * length)
    process.send_signal(SIGNALS[number % 3])
    process.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while kernels(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not kernels(folder)
    left = project.snapshot(folder)
    assert {path: left.get(path) for path in whole} == whole
    assert not [path for path in left if path not in whole and not path.endswith(".tmp")]


def test_after_stops_the_next_run_completes(suite):
    folder, whole, _ = suite
    status, printed = project.run(folder)
    assert status == 0, printed
    assert project.snapshot(folder) == whole
