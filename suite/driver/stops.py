"""Signals that end the driver: at once, or when what is being published is whole, and within 5 s whatever runs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from suite.driver import kernels

# A process of its own: Python answers a signal only between two steps of its main thread, and a call into C may keep
# that waiting for minutes. The signal's number comes at once, through the pipe that is its standard input.
_WATCHER = """\
import os, signal, sys, time
driver, seconds = int(sys.argv[1]), float(sys.argv[2])
number = sys.stdin.buffer.read(1)
ends = time.monotonic() + seconds
while number and os.getppid() == driver:
    if time.monotonic() > ends:
        os.kill(driver, signal.SIGKILL)  # first: standard error may be a pipe that nobody reads
        name = signal.Signals(number[0]).name
        print(f"killed: it had not ended {seconds:g} s after {name}; the next run completes it", file=sys.stderr)
        break
    time.sleep(0.05)"""
_PATIENCE_S = 4

_busy, _pending = False, 0


@contextmanager
def obeyed() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the driver while this lasts."""
    command = [sys.executable, "-I", "-S", "-c", _WATCHER, str(os.getpid()), str(_PATIENCE_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as watcher:
        pipe = watcher.stdin.fileno()  # type: ignore[union-attr]
        os.set_blocking(pipe, False)
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ending) != signal.SIG_IGN:  # nohup stays in force
                signal.signal(ending, _stop)
        signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)


@contextmanager
def put_off() -> Iterator[None]:
    """A signal waits until this is done, but not beyond the watcher's patience, so that figures/ is of one run."""
    global _busy
    _busy = True
    try:
        yield
    finally:
        _busy = False
        if _pending:
            _stop(_pending, None)


def _stop(number: int, _frame) -> None:
    """End at once, or as soon as the notebook that is being published is whole. Do not wait for the kernels."""
    global _pending
    if _busy:
        _pending = number
        return
    try:
        kernels.kill_all()
        text = f"stopped by {signal.Signals(number).name}: what had finished is published, the rest is as it was\n"
        os.write(1, text.encode())
    except OSError:
        pass  # nobody reads our output any more
    finally:
        os._exit(128 + number)
