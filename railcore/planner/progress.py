"""Shows on standard error what a command is doing, and how far it is."""

import shutil
import sys
import threading
import time
from collections.abc import Callable

from railcore.catalog.letters import escaped

Progress = Callable[[str], object]  # takes a text: what is being done, or how far it is
_FIRST_S = 2.0  # what takes longer is told
_ON_TERMINAL_S, _IN_FILE_S = 0.5, 10.0  # from one line to the next


class Lasting(str):
    """A text that is to be read: it is shown at once, and the next one does not write over it."""


class ProgressLine:
    """While this context lasts, the last text that it was called with, from the third second on.

    On a terminal it is one line, with the seconds so far, which goes at the end; elsewhere a line from time to time. A
    thread of its own shows it, for a single step may take long.
    """

    def __init__(self, text: str = "reading the spec") -> None:
        self._text, self._shown = text, 0
        self._done, self._writing = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __call__(self, text: str) -> None:
        """Show a text, where nothing else comes before."""
        if isinstance(text, Lasting):
            with self._writing:
                self._clear()
                print(f"railcore: {escaped(text)}", file=sys.stderr, flush=True)
        else:
            self._text = text

    def __enter__(self) -> "ProgressLine":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._clear()

    def _show(self) -> None:
        began, on_terminal, wait_s = time.monotonic(), sys.stderr.isatty(), _FIRST_S
        while not self._done.wait(wait_s):
            line = f"railcore: {escaped(self._text)} ({time.monotonic() - began:.0f} s so far)"
            with self._writing:
                if on_terminal:
                    line = line[: shutil.get_terminal_size().columns - 1]  # a longer one would fill the screen
                    print(f"\r{line:<{self._shown}}", end="", file=sys.stderr, flush=True)
                    self._shown, wait_s = len(line), _ON_TERMINAL_S
                else:
                    print(line, file=sys.stderr, flush=True)
                    wait_s = _IN_FILE_S

    def _clear(self) -> None:
        if self._shown:
            print(f"\r{'':<{self._shown}}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0
