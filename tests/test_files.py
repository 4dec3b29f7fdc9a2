import pytest

from railcore.facts import files


def test_writes_text_and_bytes_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "table.csv"
    files.write_whole(path, "a,b\n1,µ\n")
    assert path.read_bytes() == "a,b\n1,µ\n".encode()
    files.write_whole(path, b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["table.csv"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("step", ["fdopen", "chmod", "replace"])
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


def test_data_file_is_noted_as_read():
    assert files.data("claims.csv").read_text().startswith("id,document")
    assert "data/claims.csv" in files.data_read()


@pytest.mark.parametrize("name", ["catalog/no_such.csv", "catalog", ""])
def test_missing_data_file_is_named(name):
    with pytest.raises(ValueError, match=f"data file '{name}' does not exist"):
        files.data(name)


def test_first_result_decides_which_notebook_this_is():
    files.answer_for("01_network_cost", "figure 'a'")
    files.answer_for("01_network_cost_renamed", "figure 'b'")
    with pytest.raises(ValueError, match="figure 'c' belongs to notebook 02_topologies, this is 01_network_cost"):
        files.answer_for("02_topologies", "figure 'c'")


def test_driver_decides_which_notebook_this_is(monkeypatch):
    monkeypatch.setenv("RAILCORE_NOTEBOOK", "02_topologies")
    with pytest.raises(ValueError, match="figure 'a' belongs to notebook 01_network_cost"):
        files.answer_for("01_network_cost", "figure 'a'")
    files.answer_for("02_topologies", "figure 'b'")


def test_where_results_go(monkeypatch, tmp_path):
    assert files.out() == tmp_path
    monkeypatch.setenv("RAILCORE_OUT", "")
    assert files.out() == files.BUILD / "local"


@pytest.mark.parametrize("name", ["RAILCORE_PARAMETERIZED", "RAILCORE_CATALOG"])
def test_a_users_numbers_are_told_from_the_documents(monkeypatch, name):
    assert not files.parameterized()
    monkeypatch.setenv(name, "1")
    assert files.parameterized()
