"""JupyterLab on copies of the notebooks in build/lab: whatever it saves, notebooks/ stays as it is published.

A copy is refreshed from notebooks/ at each start, unless its sources were edited; outputs do not count.
"""

import hashlib
import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from railcore.catalog import files, full_name
from suite import answers, workspace
from suite.driver import publish
from suite.driver.kernels import kernel_environment
from suite.driver.run import load_notebook
from suite.outputs import PUBLISHED

_LAB = files.BUILD / "lab"
_COPIES = _LAB / "notebooks"
_COPIED = _LAB / ".copied.json"  # hash of the sources that each copy was made from
_SETTINGS = _LAB / ".settings"  # of this JupyterLab where the user has none of their own
_VIEWERS = {"@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}}}
_LINKED = "data docs figures railcore suite README.md CHANGELOG.md LICENSE CITATION.cff".split()  # what is linked to


def start() -> NoReturn:
    """Bring the copies up to date, say which are kept, where and how to stop, and become JupyterLab.

    It listens on this machine alone, and keeps its log to warnings, so that these lines stay in sight.
    """
    print("JupyterLab works on copies of the notebooks, in build/lab; notebooks/ stays as it is")
    for line in refresh():
        print(line)
    port = _free_port(wanted := _wanted_port(os.environ.get("JUPYTER_PORT") or "8888"))
    taken = f" ({wanted} is taken)" if port != wanted else ""
    print(f"JupyterLab: port {port} of this machine{taken}; to stop it: Ctrl-C twice here, or File > Shut Down there")
    sys.stdout.flush()
    files.write_whole(_SETTINGS / "overrides.json", json.dumps(_VIEWERS))
    # The root is the project: the server shows no picture behind a link that leads out of its root.
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", f"--ServerApp.root_dir={files.ROOT}"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--log-level=WARN"]
    command.append(f"--FileContentsManager.preferred_dir={_COPIES}")
    command.append(f"--LabApp.default_url=/lab/tree/{_relative(_COPIES)}/00_index.ipynb")  # also in what it prints
    command.append(f"--FileCheckpoints.checkpoint_dir={files.BUILD / 'checkpoints'}")
    command.append(f"--LabApp.app_settings_dir={_SETTINGS}")
    if os.geteuid() == 0:
        command.append("--allow-root")
    os.execve(sys.executable, command, kernel_environment())


def _wanted_port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) <= 65435):
        raise ValueError(f"JUPYTER_PORT is {text!r}: give a port of 1 to 65435")
    return int(text)


def _free_port(wanted: int) -> int:
    """The first port from `wanted` on that nothing listens on. Raises ValueError where a hundred are taken."""
    for port in range(wanted, wanted + 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise ValueError(f"port {wanted} and the hundred after it are taken: give another in JUPYTER_PORT")


def refresh() -> list[str]:
    """Copy what was not edited, link the folders beside it; gives a line about each copy that is kept."""
    _COPIES.mkdir(parents=True, exist_ok=True)
    for name in _LINKED:
        if not os.path.lexists(_LAB / name):
            (_LAB / name).symlink_to(os.path.relpath(files.ROOT / name, _LAB))
    lines = []
    for name in _notebooks():
        if not is_edited(name):
            _copy(name)
            continue
        since = "" if _is_base(name) else ", and notebooks/ has changed since"
        keep, drop = f"make lab KEEP={name}", f"make lab DISCARD={name}"
        lines.append(f"{name}: your edited copy is kept{since}: {keep} writes it into notebooks/, {drop} drops it")
    copied = _copied()
    for name in set(copied) - set(_notebooks()):  # gone from notebooks/
        if is_edited(name):
            gone = f"{name}: gone from notebooks/; your edited copy is kept in build/lab/notebooks"
            lines.append(f"{gone}: make lab DISCARD={name} drops it")
        else:
            _forget(name)
    return lines


def keep(name: str, forced: bool = False) -> str:
    """Write the sources of an edited copy over its notebook, which keeps its outputs and answer; says what was done.

    Raises ValueError for an unknown notebook, a copy that is no notebook, and, unless forced, where the notebook has
    changed since it was copied.
    """
    name = full_name("notebook", name, _notebooks())
    target, copy = (folder / f"{name}.ipynb" for folder in (workspace.NOTEBOOKS, _COPIES))
    if not is_edited(name):
        return f"{name}: its copy in build/lab has the sources of notebooks/{target.name}: nothing to bring back"
    if not _is_base(name) and not forced:
        raise ValueError(
            f"notebooks/{target.name} has changed since it was copied: compare it with {_relative(copy)}, then "
            f"make lab KEEP={name} FORCE=1 writes the copy over it"
        )
    import nbformat

    load_notebook(name)  # refuses what is no notebook
    stored = json.loads(target.read_text(encoding="utf-8"))
    outputs = {cell.get("id"): cell for cell in stored["cells"] if cell["cell_type"] == "code"}
    cells = load_notebook(name, _COPIES)["cells"]
    for cell in cells:
        if cell["cell_type"] == "code" and cell.get("id") in outputs:
            cell["outputs"] = outputs[cell["id"]].get("outputs", [])
            cell["execution_count"] = outputs[cell["id"]].get("execution_count")
    if not publish.parameter_changes(name, {"cells": cells}):
        for cell in cells[:1]:
            cell["source"] = answers.headed(cell["source"], answers.stored(name, workspace.FIGURES), PUBLISHED)
    files.write_whole(target, nbformat.writes(nbformat.from_dict(stored | {"cells": cells})) + "\n")
    _remember(_copied() | {name: _sources(name, workspace.NOTEBOOKS)})
    done = f"{name}: notebooks/{target.name} has the sources of your copy"
    return f"{done}; make figures runs it (PUBLISH=1 for parameters that you edited)"


def discard(name: str) -> str:
    """Copy a notebook anew over its edited copy; says what was done. Raises ValueError for an unknown notebook.

    The copy of a notebook that is gone goes too.
    """
    name = full_name("notebook", name, {*_copied(), *_notebooks()})
    if name not in _notebooks():
        _forget(name)
        return f"{name}: its copy in build/lab is gone, as its notebook is"
    _copy(name)
    return f"{name}: its copy in build/lab is that of notebooks/ again"


def own_files() -> list[str]:
    """Files that only build/lab holds: edited copies, and files that somebody made there."""
    paths = [path for path in sorted(_LAB.rglob("*")) if path.is_file() and not path.is_symlink()]
    shown = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(_LAB).parts)]
    copies = {_COPIES / f"{name}.ipynb": name for name in {*_notebooks(), *_copied()}}
    return [_relative(path) for path in shown if path not in copies or is_edited(copies[path])]


def is_edited(name: str) -> bool:
    """True for a copy whose sources are neither those that were copied nor the notebook's own."""
    if not (_COPIES / f"{name}.ipynb").exists():
        return False
    return _sources(name, _COPIES) not in (_copied().get(name), _sources(name, workspace.NOTEBOOKS))


def _is_base(name: str) -> bool:
    """True where a notebook has still the sources that its copy was made from."""
    return _sources(name, workspace.NOTEBOOKS) == _copied().get(name)


def _notebooks() -> list[str]:
    return sorted(path.stem for path in workspace.NOTEBOOKS.glob("[!.]*.ipynb"))


def _sources(name: str, folder: Path) -> str:
    """Hash of a notebook's sources and tags, without outputs and counts; of the file where it is no notebook."""
    try:
        notebook_cells = load_notebook(name, folder)["cells"]
        cells = [[cell["cell_type"], cell["source"], cell["metadata"].get("tags", [])] for cell in notebook_cells]
        return hashlib.sha256(json.dumps(cells).encode()).hexdigest()
    except ValueError:
        return hashlib.sha256((folder / f"{name}.ipynb").read_bytes()).hexdigest()
    except OSError:
        return ""


def _copied() -> dict[str, str]:
    try:
        copies = json.loads(_COPIED.read_text(encoding="utf-8"))
        return copies if isinstance(copies, dict) else {}
    except (OSError, ValueError):
        return {}


def _remember(copied: dict[str, str]) -> None:
    files.write_whole(_COPIED, json.dumps(copied, indent=1))


def _copy(name: str) -> None:
    files.write_whole(_COPIES / f"{name}.ipynb", (workspace.NOTEBOOKS / f"{name}.ipynb").read_bytes())
    _remember(_copied() | {name: _sources(name, workspace.NOTEBOOKS)})


def _forget(name: str) -> None:
    (_COPIES / f"{name}.ipynb").unlink(missing_ok=True)
    _remember({key: value for key, value in _copied().items() if key != name})


def _relative(path: Path) -> str:
    return os.path.relpath(path, files.ROOT)
