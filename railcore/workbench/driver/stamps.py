"""Which notebooks are up to date: hashes of what their last runs used and published, kept in build/stamps."""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railcore.facts import files

LAST_NOTEBOOKS = ("21", "00")  # these read what the others wrote, and run after them in this order


def sha256(path: Path) -> str:
    """Hash of a file, or "" where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def cell_sources(notebook: Mapping) -> list:
    """A notebook's sources: its cells without outputs and counts."""
    return [[cell["cell_type"], cell["source"], cell["metadata"], cell.get("id", "")] for cell in notebook["cells"]]


def _module_path(name: str) -> str:
    """Path of a module's file relative to the project, or "" where it is gone."""
    path = Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if (files.ROOT / candidate).is_file():
            return str(candidate)
    return ""


def source_hashes() -> dict[str, str]:
    """Hash of every file that a run may use, by path, as it is when the run begins."""
    folders = ((files.ROOT / "railcore", "*.py"), (files.DATA, "*"))
    paths = [path for folder, pattern in folders for path in folder.rglob(pattern) if path.is_file()]
    return {str(path.relative_to(files.ROOT)): sha256(path) for path in (*paths, files.ROOT / "constraints.txt")}


def _used_hash(name: str, notebook: Mapping, report: Mapping, known: Mapping[str, str]) -> str:
    """Hash of everything that the results of a notebook depend on; known: hashes to take for files as they are now."""
    used = ["constraints.txt", *map(_module_path, report["modules"]), *report["data"]]
    if name[:2] in LAST_NOTEBOOKS:
        used += [path for path in _figures_files() if not path.startswith(f"figures/extra/{name[:2]}_")]
    hashes = [(path, known.get(path) or sha256(files.ROOT / path)) for path in used]
    parts = [cell_sources(notebook), sys.version_info[:2], hashes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _figures_files() -> list[str]:
    """Files in figures/ relative to the project, sorted, hidden ones and the manifest left out."""
    found = (path.relative_to(files.ROOT) for path in files.FIGURES.rglob("*") if path.is_file())
    seen = (path for path in found if not any(part.startswith(".") for part in path.parts))
    return sorted(str(path) for path in seen if path.name != "MANIFEST.csv")


def stamp_path(name: str) -> Path:
    """Where a notebook's stamp is kept."""
    return files.BUILD / "stamps" / f"{name}.json"


def write_stamp(name: str, notebook: Mapping, report: Mapping, published: Mapping[str, str]) -> None:
    """Stamp a notebook.

    Parameters
    ----------
    name, notebook
        Of the suite, and its sources.
    report
        What its kernel reported (modules, data), and `before`, the hashes of all files when the run began.
    published
        Hash of everything that it published, by path.

    Returns
    -------
    Nothing: the stamp is written.
    """
    stamp = {
        "used": _used_hash(name, notebook, report, report["before"]),
        "modules": report["modules"],
        "data": report["data"],
        "published": dict(published),
    }
    files.write_whole(stamp_path(name), json.dumps(stamp, indent=1))


def read_stamp(name: str) -> dict[str, Any]:
    """A notebook's stamp, {} where there is none of the shape that `write_stamp` gives."""
    try:
        stamp = json.loads(stamp_path(name).read_text(encoding="utf-8"))
        texts = [stamp["used"], *stamp["modules"], *stamp["data"], *stamp["published"], *stamp["published"].values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return stamp if all(isinstance(text, str) for text in texts) else {}


def up_to_date(name: str, notebook: Mapping, rows: Mapping[str, str]) -> bool:
    """True when nothing that the last run used has changed and everything that it published is still there.

    rows: hash of the notebook's rows in each shared table as they stand.
    """
    stamp = read_stamp(name)
    if not stamp:
        return False
    there = {path: sha256(files.ROOT / path) for path in stamp["published"] if path not in rows}
    same = stamp["published"] == {**there, **rows}
    return same and stamp["used"] == _used_hash(name, notebook, stamp, {})
