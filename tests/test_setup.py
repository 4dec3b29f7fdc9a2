"""What `make` says the first time, when it makes .venv. Python and pip are played: nothing is downloaded."""

import shutil
import subprocess
import sys

import pytest

from railcore.catalog import files

TOOLS = "cat chmod cp dirname grep make mkdir rm sh tee touch uname".split()
PIP = """#!/bin/sh
case "$*" in
*"-m pip install"*--group*)
  for number in 1 2 3 4 5 6; do for each in a b c d e f g h i j; do echo "Collecting $each$number"; done; done
  echo "Installing collected packages: a1, b1"
  if [ -n "$PLAYED_FAULT" ]; then echo "ERROR: $PLAYED_FAULT" >&2; exit 1; fi;;
esac
"""


@pytest.fixture
def make(tmp_path):
    """Run `make .venv/.stamp` in a folder of its own, without uv, with a played Python 3.13."""
    tools, folder = tmp_path / "tools", tmp_path / "project"
    tools.mkdir(), folder.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    for name in ("Makefile", "constraints.txt"):
        shutil.copy(files.ROOT / name, folder)
    (tools / "pip").write_text(PIP)
    (tools / "python3.13").write_text(f"""#!/bin/sh
case "$*" in
"-m venv .venv") mkdir -p .venv/bin; cp "{tools}/pip" .venv/bin/python; chmod +x .venv/bin/python;;
*print*) echo "{tools}/python3.13";;
*) exec "{sys.executable}" "$@";;
esac
""")
    (tools / "python3.13").chmod(0o755)

    def run(**variables: str) -> tuple[subprocess.CompletedProcess, bool]:
        environment = {"PATH": str(tools)} | variables
        command = [str(tools / "make"), ".venv/.stamp"]
        found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
        return found, (folder / ".venv/.stamp").exists()

    return run


def test_the_first_make_says_what_it_does_and_how_long_that_takes(make):
    found, made = make()
    lines = found.stdout.splitlines()
    assert (found.returncode, found.stderr, made) == (0, "", True)
    assert "minutes are normal" in lines[0] and lines[1].endswith("python3.13") and lines[2] == "  creating .venv"
    assert lines[3] == "  downloading packages with pip"
    assert lines[4:] == ["    25", "    50", "  installing and compiling them", "  done"]
    assert not make()[0].stdout.startswith("Setting up")  # it is there


def test_a_failure_of_the_installer_is_shown_whole_and_not_taken_for_done(make):
    found, made = make(PLAYED_FAULT="no space left on device")
    assert found.returncode == 2 and not made
    assert "Collecting j6\n" in found.stdout and "ERROR: no space left on device\n" in found.stdout
    assert "failed; pip says why above" in found.stdout.splitlines()[-1]
    assert make()[1]  # and the next make tries again


def test_without_a_python_that_fits_it_says_which_and_how(make, tmp_path):
    (tmp_path / "tools" / "python3.13").unlink()
    found, made = make()
    assert found.returncode == 2 and not made and "need Python 3.11 to 3.14" in found.stdout


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        ("figures", {"NB": "x; touch y"}, ["figures", "--", "x; touch y"]),
        ("figures", {"NB": "$(touch y)`touch y`"}, ["figures", "--", "$(touch y)`touch y`"]),
        ("figures", {"PARAMS": "-p ownership '7 years'"}, ["figures", "--params=-p ownership '7 years'"]),
        ("figures", {"NB": "01", "NAME": "it's"}, ["figures", "--name=it's", "--", "01"]),
        ("figures", {"NB": "", "PARAMS": ""}, ["figures"]),
        ("lab", {"KEEP": "01' ; touch 'y"}, ["lab", "--keep=01' ; touch 'y"]),
        ("lab", {"DISCARD": "$HOME"}, ["lab", "--discard=$HOME"]),
    ],
)
def test_what_make_is_given_reaches_the_command_as_it_is(tmp_path, target, given, words):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 2\n")
    python.chmod(0o755)
    command = ["make", "--no-print-directory", "-f", str(files.ROOT / "Makefile"), target, f"PYTHON={python}"]
    command += [f"{name}={value}" for name, value in given.items()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["-m", "suite", *words]
    assert done.returncode == 2 and [each.name for each in tmp_path.iterdir()] == ["python"]
