"""Folders of figures and notebooks; whether a run has the user's own numbers; which notebook owns a result."""

import ast
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from railcore.catalog import files
from railcore.catalog.tables import read_csv

FIGURES = files.ROOT / "figures"
NOTEBOOKS = files.ROOT / "notebooks"

_notebook: str | None = None


def output_folder() -> Path:
    """Folder that results are written below: the variable RAILCORE_OUT, or build/local."""
    return Path(os.environ.get("RAILCORE_OUT") or files.BUILD / "local")


def parameterized() -> bool:
    """True in a run whose numbers are the user's and not the documents': results then carry no verdict.

    The driver tells its kernels by the variable RAILCORE_PARAMETERIZED. In any other kernel, such as JupyterLab's, what
    the names of the parameters cell hold tells it: figures/parameters.csv has other values.
    """
    if os.environ.get("RAILCORE_PARAMETERIZED") or os.environ.get("RAILCORE_CATALOG"):
        return True
    return "RAILCORE_NOTEBOOK" not in os.environ and _holds_own_parameters(vars(sys.modules["__main__"]))


def _holds_own_parameters(names: Mapping[str, object]) -> bool:
    """True where names of a kernel hold other values than the published parameters of its notebook.

    Its notebook is the one with the most parameters of all whose parameters are all among the names.
    """
    published: dict[str, dict[str, str]] = defaultdict(dict)
    for row in read_csv(FIGURES / "parameters.csv"):
        published[row["notebook"]][row["parameter"]] = row["value"]
    here = max((value for value in published.values() if value.keys() <= names.keys()), key=len, default={})
    return any(not _is_value(names[name], text) for name, text in here.items())


def _is_value(value: object, literal: str) -> bool:
    try:
        return bool(value == ast.literal_eval(literal))
    except (ValueError, SyntaxError):  # an array in place of a list, or a damaged record
        return False


def check_owner(notebook: str, what: str) -> None:
    """Refuse a result that belongs to another notebook. The two digits tell notebooks apart.

    The running notebook is the variable RAILCORE_NOTEBOOK where the driver set it, else the one that the first
    result of this process belongs to. Raises ValueError naming `what`.
    """
    global _notebook
    running = os.environ.get("RAILCORE_NOTEBOOK") or _notebook or notebook
    if running[:2] != notebook[:2]:
        raise ValueError(f"{what} belongs to notebook {notebook}, this is {running}: save or record it there")
    _notebook = running
