"""Kernels that die with the driver: their environment, start, end, and one notebook's execution."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from railcore.catalog import files
from suite import answers, workspace

if TYPE_CHECKING:
    from papermill import PapermillExecutionError

# Runs in the kernel before the first cell and leaves its names there: catalog rows that are looked up from here on.
_RECORD = """\
from railcore import catalog as _catalog
_recording = _catalog.recording()
_used = _recording.__enter__()"""
# Asked of the kernel after the last cell; not part of the notebook.
_REPORT = """\
import json, sys, time
ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("railcore", "suite")}
print(json.dumps({
    "modules": sorted(ours),
    "data": ours["railcore.catalog.files"].data_files_read(),
    "inputs": _catalog.input_rows(_used),
    "cpu_s": time.process_time(),
    "left": get_ipython().exit_now,
}))"""

_SOCKETS_ROOT = Path("/tmp")  # a socket's path may have about 100 characters
# Runs a kernel in a child, and ends that and its children when it ends or the driver is gone, however that went. A
# thread of the kernel's own would wait for a call into C; ipykernel's watch begins late, and misses a driver whose
# orphans another process than the first takes in.
_WATCHED_KERNEL = """\
import os, runpy, signal, sys, time
driver, kernel = int(sys.argv.pop(1)), os.fork()
if not kernel:
    runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
while kernel and os.getppid() == driver and not os.waitpid(kernel, os.WNOHANG)[0]:
    time.sleep(0.2)
if kernel:
    os.killpg(0, signal.SIGKILL)"""
_THREADS = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS VECLIB_MAXIMUM_THREADS".split()
DROPPED_VARIABLES = (
    "PYTHONDONTWRITEBYTECODE PYTHONSTARTUP PYTHONWARNINGS PYTHONOPTIMIZE MATPLOTLIBRC MPLBACKEND RAILCORE_PARAMETERIZED"
).split()

_live: set = set()
_sockets = Path()


def kernel_environment() -> dict[str, str]:
    """Environment of every kernel, whoever starts it: the driver, nbval or JupyterLab.

    One thread a kernel and a fixed hash seed, caches in build/, and neither startup files nor styles of the user's.
    """
    caches = {"IPYTHONDIR": "ipython", "MPLCONFIGDIR": "matplotlib"}
    kept = {key: value for key, value in os.environ.items() if key not in DROPPED_VARIABLES}
    if kept.get("RAILCORE_CATALOG"):  # kernels run in another folder
        kept["RAILCORE_CATALOG"] = os.path.abspath(kept["RAILCORE_CATALOG"])
    for folder in caches.values():
        (files.BUILD / folder).mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        **dict.fromkeys(_THREADS, "1"),
        **{key: str(files.BUILD / folder) for key, folder in caches.items()},
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        # This checkout's code, whatever another checkout has installed into the interpreter.
        "PYTHONPATH": os.pathsep.join(filter(None, [str(files.ROOT), os.environ.get("PYTHONPATH")])),
    }


def open_sockets() -> None:
    """Make the folder of the kernels' sockets, and remove those of drivers that were killed."""
    global _sockets
    for folder in _SOCKETS_ROOT.glob("railcore-*-*"):  # anybody may make folders there, of any name
        owner = re.fullmatch("railcore-([1-9][0-9]{0,6})-[a-z0-9_]{8}", folder.name)  # as mkdtemp names ours
        with suppress(OSError):
            if owner and folder.lstat().st_uid == os.getuid() and not _alive(int(owner[1])):
                shutil.rmtree(folder, ignore_errors=True)
    _sockets = Path(tempfile.mkdtemp(prefix=f"railcore-{os.getpid()}-", dir=_SOCKETS_ROOT))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def kill_all() -> None:
    """End every kernel at once and remove the sockets. May be called twice, and from a signal handler."""
    for manager in list(_live):
        _kill(manager)
    if _sockets.name:
        shutil.rmtree(_sockets, ignore_errors=True)


def _kill(manager) -> None:
    process = getattr(manager.provisioner, "process", None)
    if process is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    _live.discard(manager)


def _manager(name: str, extra: Mapping[str, str]):
    """Manager of a kernel of this interpreter, with sockets of its own, in the notebooks' folder."""
    from jupyter_client.manager import AsyncKernelManager

    environment = kernel_environment() | dict(extra)
    started = {"env": environment, "cwd": str(workspace.NOTEBOOKS), "stdout": subprocess.DEVNULL}

    class Manager(AsyncKernelManager):  # type: ignore[misc]
        def format_kernel_cmd(self, extra_arguments=None):
            watched = [sys.executable, "-c", _WATCHED_KERNEL, str(os.getpid()), "-f", self.connection_file]
            options = ["--HistoryManager.enabled=False", f"--IPKernelApp.exec_lines={_RECORD}"]
            return [*watched, *options, *(extra_arguments or [])]

        async def start_kernel(self, **options):  # type: ignore[override]
            await super().start_kernel(**options | started)

    place = _sockets / name[:2]
    return Manager(transport="ipc", ip=str(place), connection_file=f"{place}.json", kernel_name="python3")


_LONGEST = 2000  # of an error's text
_ENDED = "its kernel ended before the notebook did, by exit(), quit() or os._exit(), or for want of memory"


class CellError(Exception):
    """A cell of a notebook failed; the message names the cell and the error."""


def execute(name: str, notebook, folder: Path, values: Mapping, environment: Mapping[str, str]) -> dict:
    """Run a notebook with papermill in a kernel of its own.

    Parameters
    ----------
    name, notebook
        Of the suite, and as `run.load_notebook` gives it; a copy is run.
    folder
        Where the executed copy is written, as <name>.ipynb.
    values, environment
        Parameters in place of the notebook's own; variables for the kernel.

    Returns
    -------
    What the kernel reports: modules, data (files) and inputs (catalog rows) used, cpu_s; and the executed notebook.

    Raises
    ------
    CellError
        When a cell fails or the kernel dies.
    """
    # papermill imports jsonschema's formats, and these a grammar that takes over a second; nothing here uses it.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError

    from suite.driver import client

    logging.getLogger("papermill").addHandler(logging.NullHandler())  # says without a name what CellError says with it
    copy = nbformat.from_dict({**notebook, "cells": [*notebook["cells"], nbformat.v4.new_code_cell(_REPORT)]})
    manager = _manager(name, environment)
    _live.add(manager)
    try:
        done = papermill.execute_notebook(
            copy,
            str(folder / f"{name}.ipynb"),
            parameters=dict(values),
            kernel_name="python3",
            language="python",
            progress_bar=False,
            request_save_on_cell_execute=False,
            engine_name=client.ENGINE,
            km=manager,
        )
    except papermill.PapermillExecutionError as error:
        raise CellError(f"cell {error.cell_index} ({_line(error)}): {error.ename}: {error.evalue[:_LONGEST]}") from None
    except client.TooMuchShown as error:
        raise CellError(str(error)) from None
    except DeadKernelError:
        raise CellError(_ENDED) from None
    except OSError as error:  # of the executed copy
        raise CellError(f"kernel: {files.refusal(error)}") from None
    except Exception as error:
        raise CellError(f"kernel: {type(error).__name__}: {error}") from None
    finally:
        _kill(manager)
    report = _report(done.cells.pop().outputs, done.cells)
    if "RAILCORE_PARAMETERIZED" in environment:  # else it is published with the answer
        for cell in done.cells[:1]:
            cell.source = answers.headed(cell.source, answers.stored(name, folder), ".")
    nbformat.write(done, folder / f"{name}.ipynb")
    return report | {"notebook": done}


def _report(printed: list, cells: list) -> dict:
    """What the kernel reported; raises CellError where a cell ended the notebook, which papermill takes for success."""
    if not printed:
        ending = (n for n, cell in enumerate(cells) for output in cell.get("outputs", ()) if "ename" in output)
        raise CellError(f"cell {next(ending, '?')}: SystemExit: it left the notebook before its last cell")
    report = json.loads("".join(printed[0]["text"]))
    if report.pop("left"):
        raise CellError(_ENDED)
    return report


def _line(error: "PapermillExecutionError") -> str:
    """The line of a cell that failed, by IPython's traceback, else its first one."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))
    at = re.search(r"Cell In\[\d+\], line (\d+)", plain)
    source = error.source.lstrip("\n").splitlines()  # as IPython counts them
    number = int(at[1]) if at else 1
    return source[number - 1].strip() if number <= len(source) else ""
