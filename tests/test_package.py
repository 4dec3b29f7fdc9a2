"""What a user of another project gets: the wheel installed apart, with the packages that it asks for and no others."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import railcore
from railcore.catalog import files

README = (files.ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = "".join(path.read_text(encoding="utf-8") for path in sorted((files.ROOT / "docs").rglob("*.md")))
EXAMPLES = [textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", README + GUIDE, re.M | re.S)]
IMPORT_ALL = """
import importlib, pathlib, railcore
for path in pathlib.Path(railcore.__file__).parent.rglob("*.py"):
    parts = path.relative_to(pathlib.Path(railcore.__file__).parents[1]).with_suffix("").parts
    importlib.import_module(".".join(parts).removesuffix(".__init__"))
print(railcore.__version__)
"""
RUN_ALL = """
for number, example in enumerate({examples!r}):
    print(end=chr(12) * (number > 0))
    exec(compile(example, example.splitlines()[0], "exec"), {{"__name__": "__main__"}})
"""


def build(project: Path, kind: str, folder: Path) -> Path:
    """Build a wheel or an sdist as pip does, without its download of the build backend."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return next(folder.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


def needed(requirements: list[str]) -> set[str]:
    """Names of the packages that requirements without an extra ask for, and those that these ask for, and so on."""
    found: set[str] = set()
    for entry in map(Requirement, requirements):
        if entry.name not in found and (entry.marker is None or entry.marker.evaluate({"extra": ""})):
            found |= {entry.name} | needed(metadata.requires(entry.name) or [])
    return found


def tree(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """What is packed, in a folder with links to it in build/, as `make lab` leaves them."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("railcore", "data"):
        shutil.copytree(files.ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "build" / "lab").mkdir(parents=True, exist_ok=True)
        (folder / "build" / "lab" / name).symlink_to(folder / name)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(files.ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(project, tmp_path_factory) -> Path:
    return build(project, "wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    """A folder with the wheel unpacked, beside links to what it requires and to nothing else."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    wanted = metadata.PathDistribution(next(folder.glob("*.dist-info"))).requires
    for name in needed(wanted or []):
        package = metadata.distribution(name)
        for top in {path.parts[0] for path in package.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(package.locate_file(top))
    return folder


@pytest.fixture
def installed(site, tmp_path):
    """Run Python in another folder with the packages of `site` only, then check that nothing was written to it."""
    before = tree(site / "railcore")

    def run(*arguments: str, text: str = "", **variables: str) -> subprocess.CompletedProcess:
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        return subprocess.run(
            [sys.executable, "-S", "-B", *arguments],
            cwd=tmp_path,
            env=kept | {"PYTHONPATH": str(site)} | variables,
            input=text,
            capture_output=True,
            encoding="utf-8",
        )

    yield run
    assert tree(site / "railcore") == before


def test_every_model_imports_with_what_the_package_requires(installed):
    found = installed("-", text=IMPORT_ALL)
    assert (found.stdout, found.stderr) == (f"{railcore.__version__}\n", "")
    assert "No module named 'matplotlib'" in installed("-c", "import matplotlib").stderr


def test_every_name_that_the_package_offers_is_there_and_documented():
    stub = ast.parse((files.PACKAGE / "__init__.pyi").read_text())
    offered = [node.names[0].name for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert 30 <= len(offered) <= 46 and sorted(offered) == sorted(railcore.__all__)
    assert set(offered) <= set(dir(railcore))
    for name in offered:
        assert inspect.getdoc(getattr(railcore, name)), name
    with pytest.raises(AttributeError, match="no_such_name"):
        railcore.no_such_name  # noqa: B018


def test_importing_the_package_loads_no_model(installed):
    code = (
        "import sys, railcore; print(*sorted(name for name in sys.modules if name.startswith(('railcore', 'numpy'))))"
    )
    assert installed("-c", code).stdout == "railcore\n"


# What no plan needs; pandas imports pyarrow where it is installed.
HEAVY = ["networkx", "scipy.special", "scipy.optimize", "scipy.sparse", "scipy.spatial", "matplotlib", "jinja2"]
HEAVY += ["dask", "distributed", "tqdm", "jsonschema", "railcore.siting.points", "railcore.planner.sweeping"]
JOB = '[cluster]\nplatform = "DGX H100"\ngpus = 64\n[job]\nmodel = "Llama-3 8B"\nbatch = 64\n'
JOB += 'search = {context = 1, placement = "tensor first", micro_batch = 1}\n'
SEARCHING = ["numba", "pandas", "pydantic", "railcore.strategies.parts"]


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"], ["plan", "job.toml"]], ids=" ".join)
def test_a_command_imports_what_it_uses(tmp_path, arguments):
    (tmp_path / "job.toml").write_text(JOB)
    code = "import sys, railcore.__main__ as program\ntry:\n    program.main(sys.argv[1:])\nfinally:\n"
    code += "    print('imported', *(name for name in sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", code, *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")} | {"RAILCORE_NO_JIT": "1"}
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=env | {"PYTHONPATH": str(files.ROOT)}
    )
    imported = set(run.stderr.partition("imported ")[2].split())
    assert "railcore" in imported
    assert not imported & {*HEAVY, *(SEARCHING if "--help" in arguments else [])}


def test_readme_is_short_and_has_short_examples():
    typed = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", README, flags=re.S)  # not what the driver writes
    assert len([word for word in typed.split() if re.search(r"\w", word)]) <= 720
    short = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert len(short) == 3 and all(block.strip().count("\n") < 8 for block in short)
    assert len(EXAMPLES) >= 14


def test_readme_prints_what_plan_prints():
    spec = re.search(r"```toml\n(# cluster.toml\n.*?)```", README, re.S)[1]
    shown = re.search(r"\$ .*? plan cluster.toml.*?\n(.*?)\.\.\.\n```", README, re.S)[1]
    printed = str(railcore.plan(spec))
    *paragraphs, table = shown.split("\n\n")
    assert [" ".join(text.split()) for text in paragraphs] == printed.splitlines()[:2]
    for line in table.splitlines():
        assert any(other.startswith(line) for other in printed.splitlines()), line


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_examples_of_readme_and_guide_run_in_another_folder(compiled, installed, site, tmp_path):
    """Worth its 15 s: what a reader copies runs, in one process. compiled: with code of the checkout, a minute less."""
    examples = [each for each in EXAMPLES if ("import transport\n" in each) == compiled and "suite" not in each]
    surroundings = {"PYTHONPATH": f"{files.ROOT}:{site}"} if compiled else {}
    found = installed("-", text=RUN_ALL.format(examples=examples), **surroundings)
    assert not found.stderr
    shown = dict(zip(examples, found.stdout.split("\f"), strict=True))
    for example, printed in shown.items():
        assert printed.count("\n") >= example.count("print("), example
        assert not re.search(r"(?<=  )\d{7,}\.\d", printed)  # bytes or USD of a table, as they are computed
    assert not list(tmp_path.iterdir())


def test_the_examples_of_the_suite_run_in_a_clone(tmp_path):
    examples = [each for each in EXAMPLES if "suite" in each]
    code = RUN_ALL.format(examples=examples)
    done = subprocess.run(
        [sys.executable, "-"], cwd=tmp_path, input=code, capture_output=True, encoding="utf-8", env={**os.environ}
    )
    assert examples and not done.stderr and done.stdout.count("\n") >= code.count("print(")
    assert not list(tmp_path.iterdir())


def test_the_command_line_says_what_an_installed_package_has_not(installed):
    assert "No module named suite" in installed("-m", "suite", "figures").stderr
    assert installed("-m", "railcore", "assumptions").stdout.count("\n") > 20


def test_what_needs_an_extra_says_so(installed, tmp_path):
    (tmp_path / "plants.xlsx").write_bytes(b"")
    code = "from railcore.siting import plants; plants('plants.xlsx')"
    assert re.search(r"Error: .* needs .*pip install 'railcore\[workbooks\]'", installed("-c", code).stderr)


def test_a_message_of_the_catalog_names_a_file_as_in_the_project(installed, tmp_path):
    (tmp_path / "prices.csv").write_text("name\n")
    code = "from railcore.catalog import files, names; names('gpus'); print(files.data_files_read())"
    assert installed("-c", code).stdout == "['data/catalog/gpus.csv']\n"
    code = "from railcore import catalog; catalog.names('prices')"
    assert "prices.csv: columns are" in installed("-c", code, RAILCORE_CATALOG=str(tmp_path)).stderr


def test_the_wheel_carries_the_data_that_models_read_and_nothing_of_the_suite(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    read = re.findall(
        r'(?:files\.data\(|_TABLE = )"([^"]+)"', "".join(map(Path.read_text, files.PACKAGE.rglob("*.py")))
    )
    assert len(read) > 10 and {f"railcore/data/{name}" for name in read} <= names
    assert {"railcore/__init__.pyi", "railcore/py.typed", "railcore/planner/templates/plan.html.j2"} <= names
    assert not [name for name in names if name.startswith(("data/", "tests/", "figures/", "suite/"))]
    assert not [name for name in names if re.search(r"data/.*(\.py|claim|figures|contradictions|_runs)", name)]


def test_the_sdist_builds_the_same_wheel(project, wheel, tmp_path):
    with tarfile.open(build(project, "sdist", tmp_path)) as packed:
        packed.extractall(tmp_path, filter="data")
    again = build(next(tmp_path.glob("railcore-*/")), "wheel", tmp_path / "dist")
    read = [{info.filename: info.CRC for info in zipfile.ZipFile(path).infolist()} for path in (wheel, again)]
    assert read[0] == read[1]
    assert next(tmp_path.glob("railcore-*/data/grid/rebuild.py")).is_file()


def test_there_is_one_version(wheel):
    assert wheel.name.split("-")[1] == railcore.__version__
    assert yaml.safe_load((files.ROOT / "CITATION.cff").read_text())["version"] == railcore.__version__
    released = re.findall(r"^## (\d\S*)", (files.ROOT / "CHANGELOG.md").read_text(), re.M)
    assert released[0] == railcore.__version__
