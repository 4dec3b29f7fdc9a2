import ast
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from railcore.catalog import files
from suite import workspace
from suite.driver.publish import published_parameters


def test_writes_text_and_bytes_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "table.csv"
    files.write_whole(path, "a,b\n1,µ\n")
    assert path.read_bytes() == "a,b\n1,µ\n".encode()
    files.write_whole(path, b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_users_permissions_and_an_old_one_keeps_its_own(tmp_path, mask):
    new, private, shared = (tmp_path / name for name in ("new", "private", "shared"))
    for path, mode in ((private, 0o600), (shared, 0o664)):
        path.write_text("old")
        path.chmod(mode)
    before = os.umask(mask)
    try:
        files.write_all(dict.fromkeys((new, private, shared), "prices"))
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (new, private, shared)]
    assert modes == [0o666 & ~mask, 0o600, 0o664] and private.read_text() == "prices"


def test_a_group_that_cannot_be_kept_may_not_see_the_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.touch()
    path.chmod(0o664)
    monkeypatch.setattr(files.os, "chown", lambda *_: None)
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda p, **how: Other(real(p, **how)) if p == path else real(p, **how))
    files.write_whole(path, "prices")
    monkeypatch.undo()
    assert path.stat().st_mode & 0o777 == 0o604


class Other:
    """A file's status, with another group."""

    def __init__(self, status):
        self.st_mode, self.st_uid, self.st_gid = status.st_mode, status.st_uid, status.st_gid + 1


def test_what_is_private_is_never_open_while_it_is_written(tmp_path, monkeypatch):
    path, seen = tmp_path / "page.html", []
    path.touch(0o600)
    monkeypatch.setattr(files.os, "fsync", lambda handle: seen.append(os.fstat(handle).st_mode & 0o777))
    monkeypatch.setattr(files.os, "chmod", lambda *_: None)  # it was made so, and not closed later
    files.write_whole(path, "prices")
    assert seen[0] == 0o600


def test_a_file_that_may_not_be_written_stays(tmp_path, monkeypatch):
    first, closed = tmp_path / "first.csv", tmp_path / "closed.csv"
    closed.write_text("old")
    monkeypatch.setattr(files.os, "access", lambda path, _: path != closed)  # the superuser may write all
    with pytest.raises(PermissionError, match=r"closed\.csv"):
        files.write_all({first: "new", closed: "new"})
    assert [path.name for path in tmp_path.iterdir()] == ["closed.csv"] and closed.read_text() == "old"


def test_contents_are_on_the_disk_before_names_and_then_the_names(tmp_path, monkeypatch):
    steps, sync, replace = [], os.fsync, os.replace
    folder = tmp_path / "made" / "below"

    def synced(handle):
        steps.append(("sync", os.fstat(handle).st_ino))
        sync(handle)

    def replaced(source, target):
        steps.append(("rename", source.stat().st_ino))
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", replaced)
    files.write_all({folder / "a": "1", folder / "b": "2"})
    made = [(folder / name).stat().st_ino for name in "ab"]
    names = {("sync", path.stat().st_ino) for path in (folder, folder.parent, tmp_path)}
    assert steps[:4] == [("sync", made[0]), ("sync", made[1]), ("rename", made[0]), ("rename", made[1])]
    assert set(steps[4:]) == names


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    files.write_whole(tmp_path / ("a" * 255), "new")
    assert (tmp_path / ("a" * 255)).read_text() == "new"


@pytest.mark.parametrize("step", ["open", "chmod", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch, step, error):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(files.os, step, fail)
        with pytest.raises(type(error)):
            files.write_whole(path, "new")
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"table.csv": "old"}


@pytest.fixture
def three(tmp_path):
    """Files a, b and c, each in a folder of its own with its name as text, and what is to be written over them."""
    paths = [tmp_path / name / "file.txt" for name in "abc"]
    for path in paths:
        files.write_whole(path, path.parent.name)
    return {path: f"new {path.parent.name}" for path in paths}


def texts(three):
    return ["".join(entry.read_text() for entry in path.parent.iterdir()) for path in three]


def test_several_files_are_written_and_removed_in_one(three):
    first, *_ = three
    files.write_all(three | {first: None})
    assert texts(three) == ["", "new b", "new c"]


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_disk_or_a_closed_folder_leaves_every_file_as_it_was(three, monkeypatch, fault):
    real, last = files.os.open, list(three)[-1]

    def fail(path, *terms, **named):
        if Path(path).parent == last.parent:
            raise OSError(fault, "no")
        return real(path, *terms, **named)

    monkeypatch.setattr(files.os, "open", fail)
    with pytest.raises(OSError, match="no") as caught:
        files.write_all(three)
    assert texts(three) == ["a", "b", "c"] and not isinstance(caught.value, files.HalfWritten)


def test_nothing_is_removed_from_a_folder_that_cannot_be_changed(three, monkeypatch):
    first, _, last = three
    monkeypatch.setattr(files.os, "access", lambda folder, _: folder != last.parent)
    with pytest.raises(PermissionError):
        files.write_all({first: "new", last: None})
    assert texts(three) == ["a", "b", "c"]


def test_a_rename_that_fails_after_others_names_what_is_new(three, monkeypatch):
    replace, (_, second, _) = files.os.replace, three

    def fail(source, target):
        if target == second:
            raise OSError(errno.EIO, "broken")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", fail)
    monkeypatch.setattr(files, "ROOT", Path(second.parents[1]))
    with pytest.raises(files.HalfWritten, match=r"broken; new: a/file\.txt; as before: b/file\.txt, c/file\.txt"):
        files.write_all(three)
    assert texts(three) == ["new a", "b", "c"]


def test_data_file_is_noted_as_read():
    assert files.data("claims.csv").read_text().startswith("id,document")
    assert "data/claims.csv" in files.data_files_read()


@pytest.mark.parametrize("name", ["catalog/no_such.csv", "catalog", ""])
def test_missing_data_file_is_named(name):
    with pytest.raises(ValueError, match=f"data file '{name}' does not exist"):
        files.data(name)


def test_first_result_decides_which_notebook_this_is():
    workspace.check_owner("01_network_cost", "figure 'a'")
    workspace.check_owner("01_network_cost_renamed", "figure 'b'")
    with pytest.raises(ValueError, match="figure 'c' belongs to notebook 02_topologies, this is 01_network_cost"):
        workspace.check_owner("02_topologies", "figure 'c'")


def test_driver_decides_which_notebook_this_is(monkeypatch):
    monkeypatch.setenv("RAILCORE_NOTEBOOK", "02_topologies")
    with pytest.raises(ValueError, match="figure 'a' belongs to notebook 01_network_cost"):
        workspace.check_owner("01_network_cost", "figure 'a'")
    workspace.check_owner("02_topologies", "figure 'b'")


def test_where_results_go(monkeypatch, tmp_path):
    assert workspace.output_folder() == tmp_path
    monkeypatch.setenv("RAILCORE_OUT", "")
    assert workspace.output_folder() == files.BUILD / "local"


@pytest.mark.parametrize("name", ["RAILCORE_PARAMETERIZED", "RAILCORE_CATALOG"])
def test_a_users_numbers_are_told_from_the_documents(monkeypatch, name):
    assert not workspace.parameterized()
    monkeypatch.setenv(name, "1")
    assert workspace.parameterized()


def hold_parameters(monkeypatch, notebook, **edited):
    """Names as a kernel holds them that has run a notebook's parameters cell."""
    published = {name: ast.literal_eval(value) for name, value in published_parameters(notebook).items()}
    for name, value in (published | edited).items():
        monkeypatch.setattr(sys.modules["__main__"], name, value, raising=False)


@pytest.mark.parametrize("notebook", ["01_network_cost", "11_scale_out_networks", "15_photonic_cost"])
def test_a_kernel_with_other_parameters_has_the_users_numbers(monkeypatch, notebook):
    hold_parameters(monkeypatch, notebook)
    assert not workspace.parameterized()
    hold_parameters(monkeypatch, notebook, gpus=12288)
    assert workspace.parameterized()
    monkeypatch.setenv("RAILCORE_NOTEBOOK", notebook)  # the driver knows what it has given
    assert not workspace.parameterized()


@pytest.mark.parametrize(
    ("edited", "own"),
    [
        ({"oversubscription": 4}, False),
        ({"gpu_counts": np.array([1024, 2048])}, True),
        ({"hb_domain_sizes": [72]}, True),
        ({"price_book": "street2025"}, True),
        ({"ownership": "5  years"}, True),  # judged as a text
        ({"another": 1}, False),
    ],
)
def test_parameters_of_a_kernel_are_compared_as_values(monkeypatch, edited, own):
    hold_parameters(monkeypatch, "01_network_cost", **edited)
    assert workspace.parameterized() == own


def test_a_lock_empties_nothing_and_follows_no_link(tmp_path):
    mine, lock = tmp_path / "mine.txt", tmp_path / ".lock"
    mine.write_text("mine")
    with files.locked(mine, "held"):
        assert mine.read_text() == "mine"
        with pytest.raises(ValueError, match="held: wait for it or stop it"), files.locked(mine, "held"):
            pass
    for target in ("mine.txt", "gone"):
        lock.symlink_to(target)
        with pytest.raises(ValueError, match=r"\.lock is a link, .*: remove it"), files.locked(lock, "held"):
            pass
        lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(ValueError, match=r"\.lock is a pipe or a device"), files.locked(lock, "held"):
        pass
    assert mine.read_text() == "mine" and not (tmp_path / "gone").exists()


def not_a_file(path, kind):
    """Something in a file's place."""
    match kind:
        case "a link that leads nowhere":
            path.symlink_to(path.parent / "gone")
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)


NO_FILES = ["a link that leads nowhere", "a folder", "a pipe"]


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path, kind):
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    not_a_file(second, kind)
    before = second.lstat()
    with pytest.raises(ValueError, match=r"second\.csv is (a link that leads nowhere|a folder|a pipe or a device): "):
        files.write_all({first: "new", second: "new"})
    assert second.lstat() == before and not first.exists() and len(list(tmp_path.iterdir())) == 1


def test_a_link_stays_and_its_file_is_written(tmp_path):
    files.write_whole(tmp_path / "kept" / "mine.csv", "old")
    link = tmp_path / "mine.csv"
    link.symlink_to("kept/mine.csv")
    files.write_whole(link, "new")
    assert link.is_symlink() and (tmp_path / "kept" / "mine.csv").read_text() == "new"
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["mine.csv"]


@pytest.mark.parametrize(
    ("path", "told"),
    [("a" * 300, "File name too long: give a shorter name"), ("file/mine.csv", "a file stands where a folder is")],
)
def test_what_the_system_refuses_is_one_line_with_the_remedy(tmp_path, path, told):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=told) as caught:
        files.write_whole(tmp_path / path, "new")
    assert "\n" not in str(caught.value)
    closed = PermissionError(errno.EACCES, "Permission denied", "folder/mine.csv")
    told = "folder/mine.csv: Permission denied: open its permissions, or name another place"
    assert files.refusal(closed) == told
    assert files.refusal(OSError("what no system says")) == "what no system says"
