"""The flow-level model against the textbook, the definition of max-min fairness, and cases known by hand."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_sharing import finish_s

from railcore import compiled
from railcore.catalog import files
from railcore.catalog.units import Gbps
from railcore.transport.fabric import leaf_spine, three_tier
from railcore.transport.flows import Flows, incast, permutation
from railcore.transport.hashing import ecmp_paths
from railcore.transport.optimum import Framing, optimum_s
from railcore.transport.sharing import SharedLinks, fair_sharing, ideal_spraying
from suite.driver.kernels import kernel_environment

LINK = 100 * Gbps


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """The same loops as plain Python: these cases are small."""
    monkeypatch.setenv("RAILCORE_NO_JIT", "1")


@st.composite
def cases(draw):
    """A small fabric, perhaps with dead or slow cables, and flows of several sizes that start at several times."""
    if draw(st.booleans()):
        fabric = leaf_spine(12, 4, LINK, draw(st.sampled_from([1, 2])), planes=draw(st.integers(1, 2)))
    else:
        fabric = three_tier(12, 4, LINK, draw(st.sampled_from([1, 2])))
    fabric = fabric.degraded(draw(st.sampled_from([0, 0.2])), draw(st.integers(0, 9)), 0.25)
    count = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    source = rng.integers(0, 12, count)
    destination = (source + rng.integers(1, 12, count)) % 12
    sizes = rng.choice([1e5, 2e5, 7e5], count) if draw(st.booleans()) else 3e5
    starts = rng.choice([0, 1e-5, 3e-5], count) if draw(st.booleans()) else 0.0
    return fabric, Flows(source, destination, sizes, starts)


def runs(fabric, flows, **options):
    """Single path and ideal spraying."""
    return [fair_sharing(fabric, flows, ecmp_paths(fabric, flows), **options), ideal_spraying(fabric, flows, **options)]


# --- against the textbook and the definition


@given(cases())
def test_settling_port_by_port_agrees_with_progressive_filling(case):
    for run in runs(*case):
        assert run.links.finish_s() == pytest.approx(finish_s(run.links), rel=1e-9)


@given(cases())
def test_none_is_faster_than_alone_and_the_last_not_before_the_optimum(case):
    fabric, flows = case
    later = Flows(flows.source, flows.destination, flows.size_bytes, flows.start_s + 1)
    for run, same in zip(runs(*case), runs(fabric, later), strict=True):
        assert np.all(run.slowdown >= 1)
        assert (flows.start_s + run.completion_s).max() >= optimum_s(fabric, flows) * (1 - 1e-9)
        assert same.completion_s == pytest.approx(run.completion_s, abs=1e-12)


def test_compiled_loops_give_what_plain_ones_give(monkeypatch):
    fabric = leaf_spine(48, 8, LINK, 2).degraded(0.2, 1, 0.5)
    flows = Flows(np.arange(24), np.arange(47, 23, -1), np.linspace(1e5, 1e6, 24), np.linspace(0, 1e-4, 24))
    plain = runs(fabric, flows)
    monkeypatch.delenv("RAILCORE_NO_JIT")
    for quick, slow in zip(runs(fabric, flows), plain, strict=True):
        assert quick.completion_s == pytest.approx(slow.completion_s, rel=1e-12)


# --- cases known by hand


def test_a_long_flow_over_two_links_gets_half_of_each():
    port = np.array([[0, 1], [0, -1], [1, -1]])
    links = SharedLinks(port, np.array([1.0, 1.0]), np.array([2.0, 1.0, 2.0]), np.zeros(3))
    assert links.finish_s() == pytest.approx([4, 2, 4])  # the second link stays full after the short one has ended
    uneven = SharedLinks(port, np.array([1.0, 3.0]), np.array([2.0, 1.0, 2.5]), np.zeros(3))
    assert uneven.finish_s() == pytest.approx([3, 2, 1])


def test_a_flow_that_starts_later_takes_half_from_then_on():
    links = SharedLinks(np.zeros((2, 1), int), np.ones(1), np.array([1.0, 1.0]), np.array([0, 0.5]))
    assert links.finish_s() == pytest.approx([1.5, 2.0])
    apart = SharedLinks(np.zeros((2, 1), int), np.ones(1), np.array([1.0, 1.0]), np.array([0, 5.0]))
    assert apart.finish_s() == pytest.approx([1, 6])


def test_an_incast_takes_the_time_of_all_its_bytes_into_one_port():
    fabric, flows = leaf_spine(64, 8, LINK), incast(20, 0, 1e6, 64)
    wire = Framing().wire_bytes(1e6)
    run = ideal_spraying(fabric, flows)
    assert run.links.finish_s() == pytest.approx(20 * wire / LINK)
    least = optimum_s(fabric, flows)  # which counts the way of a near sender for the last byte
    assert least <= run.completion_s.max() < 1.01 * least


@pytest.mark.parametrize(
    ("fabric", "flows"),
    [
        (leaf_spine(64, 8, LINK, planes=2), permutation(64, 1e6)),
        (three_tier(54, 6, LINK), permutation(54, 1e6)),
        (leaf_spine(64, 8, LINK, 4), Flows(np.arange(64), (np.arange(64) + 8) % 64, 1e6)),  # of oversubscribed leaves
    ],
)
def test_ideal_spraying_of_a_permutation_is_the_optimum(fabric, flows):
    assert ideal_spraying(fabric, flows).completion_s.max() == pytest.approx(optimum_s(fabric, flows))


def test_the_last_flow_of_a_permutation_waits_for_the_most_loaded_link():
    fabric, flows = leaf_spine(128, 16, LINK), permutation(128, 97e6)
    for seed in range(3):
        path = ecmp_paths(fabric, flows, seed)
        ports = fabric.port_table(flows.source, flows.destination, path)[:, 1:3]
        most = np.bincount(ports[ports >= 0]).max()
        worst = fair_sharing(fabric, flows, path).slowdown.max()
        assert worst <= most * (1 + 1e-9)  # each of them gets its share of this link or more
        assert worst > 0.8 * most


def test_a_flow_over_a_dead_link_never_ends_and_the_others_do():
    fabric, flows = leaf_spine(64, 8, LINK).degraded(0.1, 1), permutation(64, 1e6)
    path = ecmp_paths(fabric, flows, converged=False)
    ports = fabric.port_table(flows.source, flows.destination, path)
    stuck = ((ports >= 0) & (fabric.rates[np.maximum(ports, 0)] == 0)).any(1)
    run = fair_sharing(fabric, flows, path)
    assert stuck.any() and np.array_equal(np.isinf(run.completion_s), stuck)
    assert np.isfinite(fair_sharing(fabric, flows, ecmp_paths(fabric, flows)).completion_s).all()


def test_the_acknowledgement_counts_where_it_is_asked_for():
    fabric, flows = leaf_spine(64, 8, LINK), Flows([0], [63], 1e6)
    back = 4 * (1e-6 + 64 / LINK)
    for one_way, there_and_back in zip(
        runs(fabric, flows), runs(fabric, flows, framing=Framing(acknowledged=True)), strict=True
    ):
        assert there_and_back.completion_s - one_way.completion_s == pytest.approx(back)
        assert there_and_back.slowdown == pytest.approx(1)


# --- compiled code


def run_python(code, tmp_path, **variables):
    """Run code in a process of its own, with compiled code in a folder of its own."""
    environment = {"PYTHONPATH": str(files.ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "compiled"), "PATH": ""}
    command = [sys.executable, "-c", f"import sys, numpy as np\n{code}"]
    done = subprocess.run(command, env=environment | variables, capture_output=True, encoding="utf-8", cwd=tmp_path)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def test_numba_is_imported_where_a_loop_runs_and_its_code_is_kept(tmp_path):
    code = """
from railcore.transport import SharedLinks
print("numba" in sys.modules)
links = SharedLinks(np.zeros((2, 1), int), np.ones(1), np.ones(2), np.zeros(2))
print(links.finish_s().max(), "numba" in sys.modules)
"""
    assert run_python(code, tmp_path, RAILCORE_NO_JIT="1") == ["False", "2.0", "False"]
    assert not (tmp_path / "compiled").exists()
    without = "sys.modules['numba'] = None\n" + code.replace('"numba" in sys.modules', "sys.modules['numba']")
    assert run_python(without, tmp_path) == ["None", "2.0", "None"]
    assert run_python(code, tmp_path) == ["False", "2.0", "True"]
    assert list((tmp_path / "compiled").rglob("*.nbi"))


def test_code_is_kept_in_build_or_in_the_cache_of_a_user(monkeypatch, tmp_path):
    folder = compiled.cache_folder()
    assert folder.parent == files.BUILD / "numba"
    monkeypatch.setattr(files, "INSTALLED", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiled.cache_folder() == tmp_path / "railcore" / "numba" / folder.name


def test_a_kernel_keeps_code_by_its_sources_too(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert "NUMBA_CACHE_DIR" not in kernel_environment()  # else changed sources would meet old code


def test_code_is_kept_apart_from_that_of_other_sources(monkeypatch, tmp_path):
    copied = shutil.copytree(files.PACKAGE, tmp_path / "railcore", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(files, "PACKAGE", copied)
    folders = [compiled.cache_folder()]
    for name in (
        *("compiled.py", "transport/kernel/ports.py", "transport/sharing.py"),
        *("training/critical_path.py", "strategies/kernel.py"),
    ):
        with (copied / name).open("a") as stream:
            stream.write("first = 1\n")
        folders.append(compiled.cache_folder())
    assert compiled.cache_folder() == folders[-1] and len(set(folders)) == 6
    with (copied / "strategies/labels.py").open("a") as stream:
        stream.write("first = 1\n")
    assert compiled.cache_folder() == folders[-1]  # holds nothing that is compiled


def test_whatever_is_compiled_counts_in_the_name_of_its_folder():
    for path in files.PACKAGE.rglob("*.py"):
        if "railcore.compiled import" in path.read_text():
            folders = [files.PACKAGE / source for source in compiled._SOURCES]
            assert any(path.is_relative_to(folder) for folder in folders), path
