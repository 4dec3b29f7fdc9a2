"""The main job: run the notebooks that changed, side by side, with a line of progress each and a summary."""

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railcore import catalog
from railcore.catalog import files, letters, units
from suite import answers, outputs, workspace
from suite.driver import kernels, parameters, publish, stops
from suite.ledger import claims

_RUN_NAME, _LONG = re.compile(r"[A-Za-z0-9_-]{1,100}"), 60


def print_line(text: str) -> None:
    """Print a line at once, whole even where several threads do. Letters that no terminal shows are escaped."""
    sys.stdout.write(f"{letters.escaped(text)}\n")
    sys.stdout.flush()


def load_notebook(name: str, folder: Path | None = None) -> dict:
    """A notebook of the suite: its sources, without outputs and answer (nbformat takes a second to import, json none).

    folder: of the file, notebooks/ by default.
    """
    path = (folder or workspace.NOTEBOOKS) / f"{name}.ipynb"
    place = os.path.relpath(path, files.ROOT) if folder else f"notebooks/{path.name}"
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is no JSON in UTF-8 ({error}): restore it from git") from None
    if wrong := _format_fault(notebook):
        raise ValueError(f"{place} is no notebook: {wrong}; restore it from git")
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        for key in ("execution", "papermill", "jupyter", "collapsed"):  # of a run, and what a reader has folded
            cell["metadata"].pop(key, None)
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        else:
            cell["source"] = answers.headed(cell["source"], None)
    return notebook


def _format_fault(notebook) -> str:
    """Why the driver cannot read a file as a notebook of format 4, "" if it can."""
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        return "it is no object whose 'nbformat' is 4"
    if not isinstance(notebook.get("cells"), list) or not isinstance(notebook.get("metadata"), dict):
        return "it lacks its list 'cells' or its object 'metadata'"
    for number, cell in enumerate(notebook["cells"]):
        if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
            return f"cell {number} is neither code nor text"
        source, metadata = cell.get("source"), cell.get("metadata")
        if not isinstance(source, str) and not _is_list_of_texts(source):
            return f"'source' of cell {number} is no text"
        if not isinstance(metadata, dict) or not _is_list_of_texts(metadata.get("tags", [])):
            return f"'metadata' of cell {number} is no object, or its 'tags' are no list of texts"
    return ""


def _is_list_of_texts(value) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def notebook_names() -> list[str]:
    """Notebooks of the suite, by number; a second one of the same number, such as a copy, is left alone."""
    listed = _listed_names()
    suite: dict[str, str] = {}
    for stem in sorted(
        (path.stem for path in workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")), key=lambda n: (len(n), n)
    ):
        if stem in listed or stem[:2] not in suite:
            suite[stem[:2]] = stem
    return sorted(suite.values())


def _listed_names() -> set[str]:
    """Notebooks that data/ names."""
    return {entry.notebook for entry in claims.claims().values()} | {i["notebook"] for i in outputs.items().values()}


def _refuse_renamed(suite: list[str]) -> None:
    """Raise ValueError for a notebook that data/ names otherwise: what is published of it would go."""
    listed = _listed_names()
    for name in set(suite) - listed:
        if stems := [other for other in listed if other[:2] == name[:2]]:
            raise ValueError(
                f"notebooks/{name}.ipynb is {stems[0]} in data/: give it that name, or write its new name into "
                "claims.csv, figures.csv and extras.csv there"
            )


def make_figures(
    only: str | None = None,
    texts: list[list[str]] | None = None,
    publishing: bool = False,
    run_name: str | None = None,
) -> int:
    """Bring notebooks, figures and ledger up to date; gives the exit status.

    Results of a run with `texts` or with RAILCORE_CATALOG stay in build/custom/<notebook>/<name of the run>, and so do
    those of a notebook whose parameters are not the published ones.
    Raises ValueError for an unknown notebook, a parameter or a name that does not fit, before anything runs.

    Parameters
    ----------
    only
        Name of the one notebook to run, or how it alone begins, such as "01".
    texts
        Pairs of parameter and value, for a run of that notebook.
    publishing
        The parameters that stand in the notebooks become the published ones.
    run_name
        Of a run with own numbers: letters, digits, - and _. By default made of what was changed.

    Returns
    -------
    0, or 1 where a notebook failed.
    """
    suite = notebook_names()
    _refuse_renamed(suite)
    if only is not None:
        only = catalog.full_name("notebook", only, suite)
    if run_name is not None and not _RUN_NAME.fullmatch(run_name):
        raise ValueError(f"NAME is {run_name!r}: write up to 100 letters, digits, - and _")
    if texts and only is None:
        raise ValueError("parameters need one notebook: add NB=<name>")
    if publishing and (texts or workspace.parameterized()):
        raise ValueError(
            "only what stands in the notebooks and in data/ is published: leave out PUBLISH, or PARAMS and "
            "RAILCORE_CATALOG (write new parameters into the notebook's parameters cell)"
        )
    values = parameters.read_parameters(texts or [], load_notebook(only), only) if only and texts else {}
    catalog.values()  # refuses a folder in RAILCORE_CATALOG that is none, and files with faults
    files.BUILD.mkdir(exist_ok=True)
    for name in ("MATPLOTLIBRC", "MPLBACKEND"):  # pictures are compared with matplotlib, whatever the user's styles
        os.environ.pop(name, None)
    os.environ["MPLCONFIGDIR"] = str(files.BUILD / "matplotlib")
    with files.locked(files.BUILD / "driver.lock", "another `make figures` is running in this folder"), stops.obeyed():
        wanted = [only] if only else suite
        has_parameters = bool(values) or workspace.parameterized()
        own_runs = {name: run_name or _run_name(name, values) for name in wanted}
        custom = (
            own_runs if has_parameters else {name: own_runs[name] for name in _edited(wanted, own_runs, publishing)}
        )
        if run_name and not custom:
            raise ValueError(
                "NAME is for results with your own numbers, and none are given: add PARAMS or leave it out"
            )
        if only and not custom:
            publish.refuse_lost_rows(set(suite) - {only})
        kernels.open_sockets()
        try:
            return _run(wanted, _Plan(values, has_parameters, publishing, custom))
        finally:
            kernels.kill_all()


def _run_name(name: str, texts: Mapping[str, object]) -> str:
    """Name of a notebook's run by what differs from the published one, such as "gpus-12288_nic-800-Gbps".

    A long one is cut, with a hash of the whole behind it.
    """
    changed: dict[str, object] = {}
    if own_catalog := os.environ.get("RAILCORE_CATALOG"):
        changed["catalog"] = Path(own_catalog).name
    with suppress(OSError, ValueError):  # a notebook that cannot be read: its run will say so
        changed |= publish.own_parameters(name, load_notebook(name))
    whole = "_".join(f"{key}-{value}" for key, value in (changed | dict(texts)).items()) or "edited"
    short = re.sub(r"[^A-Za-z0-9_]+", "-", whole).strip("-")
    return short if len(short) <= _LONG else f"{short[:_LONG]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _edited(wanted: list[str], own_runs: Mapping[str, str], publishing: bool) -> list[str]:
    """After a line about each notebook whose parameters are not the published ones: those not to be published."""
    edited = []
    for name in wanted:
        with suppress(OSError, ValueError):  # a notebook that cannot be read: its run will say so
            if not (why := publish.parameter_changes(name, load_notebook(name))):
                continue
            if publishing:
                print_line(f"{name}: {why}: those in the notebook become the published ones")
                continue
            edited.append(name)
            remedy = f"make figures NB={name} PUBLISH=1 makes them the published ones"
            print_line(f"{name}: {why}: results go to {_relative(_folder(name, own_runs[name]))}; {remedy}")
    return edited


@dataclass(frozen=True)
class _Plan:
    """What becomes of a run's results.

    values: parameters of its one notebook.
    has_parameters: it uses numbers that stand neither in notebooks nor in data/.
    publishing: parameters that stand in notebooks become the published ones.
    custom: notebooks whose results stay in build/custom, with the names of their runs.
    """

    values: Mapping[str, object]
    has_parameters: bool
    publishing: bool
    custom: Mapping[str, str]


def _run(wanted: list[str], plan: _Plan) -> int:
    started, before = time.monotonic(), publish.files_of_people()
    failed: dict[str, Exception] = {}
    ran: set[str] = set()
    new = 0
    published = not plan.custom.keys() >= set(wanted)
    if published:
        _tidy()
    with ThreadPoolExecutor(_cores()) as pool:
        for group in filter(None, _groups(wanted)):
            rows = publish.rows_hashes(group)
            due = [
                name
                for name in group
                if plan.has_parameters or not _up_to_date(name, rows[name], plan.custom.get(name))
            ]
            due.sort(key=_size, reverse=True)  # so that no long one runs alone at the end
            running = {pool.submit(_execute, name, plan): name for name in due}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=running.__getitem__):
                    ran.add(name := running.pop(future))
                    try:
                        new += _finish(name, future, plan)
                    except Exception as error:
                        failed[name] = error
                        _say_failed(name, error, _folder(name, None))
    for stray in publish.find_strays(before, ran):
        print_line(f"warning: {stray}")
    if published:
        counts = Counter(row["verdict"] for row in claims.ledger(publish.published_rows()))
        verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in claims.VERDICTS)
        what = f"{units.counted(len(ran), 'notebooks')} run, {units.counted(new, 'files')} changed"
        what = what if ran else "nothing to do: every notebook is up to date"
        print_line(f"{what}, {time.monotonic() - started:.1f} s; claims: {verdicts}")
    if made := [name for name in wanted if name in plan.custom and name not in failed]:
        where = ", ".join(_relative(_folder(name, plan.custom[name])) for name in made)
        state = "" if ran & plan.custom.keys() else ", up to date"
        again = "the next run of that name replaces them (NAME=another keeps both); figures/ is untouched"
        print_line(f"results with your own numbers are in {where}{state}; {again}")
    if failed:
        half = [name for name, error in failed.items() if isinstance(error, files.HalfWritten)]
        left = f"half published, as said above: {', '.join(half)}" if half else "earlier results are unchanged"
        print_line(f"FAILED: {', '.join(failed)}; {left}")
    return 1 if failed else 0


def _tidy() -> None:
    """Remove half-written files of a killed driver, and files of notebooks that no longer exist."""
    folders = (workspace.FIGURES, workspace.NOTEBOOKS, files.BUILD / "stamps", files.BUILD / "custom_stamps")
    below = (path for folder in folders for path in folder.rglob(files.TEMPORARY))
    for leftover in (*files.ROOT.glob(files.TEMPORARY), *below):
        if leftover.is_file():
            leftover.unlink()
    for fault in publish.find_damage():
        print_line(f"warning: {fault}")
    publish.rewrite_shared_tables(notebook_names())


def _groups(wanted: list[str]) -> list[list[str]]:
    """Notebooks that may run side by side, group after group: those that read figures/ come last, one by one."""
    early = [name for name in wanted if name[:2] not in publish.LAST_NOTEBOOKS]
    return [early, *([name] for number in publish.LAST_NOTEBOOKS for name in wanted if name[:2] == number)]


def _size(name: str) -> int:
    path = workspace.NOTEBOOKS / f"{name}.ipynb"
    return path.stat().st_size if path.is_file() else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _up_to_date(name: str, rows: dict[str, str], run_name: str | None) -> bool:
    try:
        return publish.up_to_date(name, load_notebook(name), rows, run_name)
    except (OSError, ValueError):  # no notebook: its run will say so
        return False


def _folder(name: str, run_name: str | None) -> Path:
    """Where results of a run stay: below build/custom, by its name, with the user's own numbers, else below build/run.

    Every run writes below build/run first, so that a failed one leaves earlier results as they are.
    """
    return files.BUILD / "custom" / name / run_name if run_name else files.BUILD / "run" / name


def _relative(path: Path) -> str:
    return str(path.relative_to(files.ROOT))


def _execute(name: str, plan: _Plan) -> tuple:
    folder = _folder(name, None)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print_line(f"{name}: started")
    started, before = time.monotonic(), publish.source_hashes()
    notebook = load_notebook(name)
    parameters.defaults(notebook)  # a cell that cannot be read is refused before it runs
    environment = {"RAILCORE_OUT": str(folder), "RAILCORE_NOTEBOOK": name}
    if name in plan.custom:
        environment["RAILCORE_PARAMETERIZED"] = "1"
    report = kernels.execute(name, notebook, folder, plan.values, environment)
    return notebook, folder, report | {"before": before}, time.monotonic() - started


def _publish(name: str, folder: Path, notebook: dict, report: dict) -> tuple[dict[str, str], int]:
    """Publish and stamp, as `publish.publish`."""
    published, new = publish.publish(name, folder, notebook, report)
    try:
        publish.write_stamp(name, notebook, report, published)
    except (OSError, ValueError) as error:
        raise files.HalfWritten(f"{error}; new: all that it publishes, but not its stamp in build/") from None
    return published, new


def _finish(name: str, future: Future, plan: _Plan) -> int:
    """Publish a notebook that passed, unless it is custom; gives the number of its figures and tables that are new."""
    notebook, folder, report, seconds = future.result()
    new = 0
    if name in plan.custom:
        folder = _moved(folder, _folder(name, plan.custom[name]))
        made = [path for path in folder.rglob("*.*") if path.is_file()]
        published = {path.relative_to(folder).as_posix(): "" for path in made}
        if not plan.has_parameters:  # a stamp knows all that it used
            hashes = {_relative(path): publish.sha256(path) for path in made}
            publish.write_stamp(name, notebook, report, hashes, plan.custom[name])
    elif load_notebook(name) != notebook or (not plan.publishing and publish.parameter_changes(name, notebook)):
        raise ValueError("it was edited while this run was under way: nothing is published, run it again")
    else:
        with stops.put_off():
            published, new = _publish(name, folder, notebook, report)
    count = len([path for path in published if "/" in path and not path.startswith(("notebooks/", "claims/"))])
    print_line(f"{name}: done in {seconds:.1f} s ({report['cpu_s']:.1f} s of CPU), {count} files")
    for text in outputs.kept_warnings(folder):
        print_line(f"{name}: warning: {text}")
    return new


def _moved(folder: Path, target: Path) -> Path:
    """A run's folder in its place, where an earlier one of that name goes only when this one is there."""
    replaced = folder.with_suffix(".replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.rename(replaced)
    folder.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def _say_failed(name: str, error: Exception, folder: Path) -> None:
    where = folder / f"{name}.ipynb"
    kind = "half published" if isinstance(error, files.HalfWritten) else type(error).__name__
    text = str(error) if isinstance(error, kernels.CellError | ValueError) else f"{kind}: {error}"
    if isinstance(error, OSError):
        text += "; put this right and run `make figures` again"
    seen = f" (see {_relative(where)})" if where.exists() else ""
    print(letters.escaped(f"{name}: FAILED, {text}{seen}"), file=sys.stderr, flush=True)
    for text in outputs.kept_warnings(where.parent):  # which may say why
        print_line(f"{name}: warning: {text}")
