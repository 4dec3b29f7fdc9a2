"""A user's files: what is no text file, is nested without end or has control characters is refused."""

import os
import unicodedata

import numpy as np
import pandas as pd
import pytest

from railcore.__main__ import main, run_command
from railcore.catalog.letters import escaped, hidden_character_fault
from railcore.catalog.own_file import own_file
from railcore.catalog.text_files import read_text
from railcore.planner.price_list import read_price_list
from railcore.planner.spec_reading import read_spec
from railcore.planner.sweep_grid import sweep_points
from railcore.siting import eia
from railcore.siting.hour_files import balance_series
from railcore.siting.own_lines import line_table
from railcore.siting.plant_files import plants
from railcore.training.hugging_face import KEYS, config_fields, read_config
from railcore.training.measured_files import read_measurement
from railcore.training.run_file import own_runs, read_runs, run_columns, runs_of_text
from railcore.training.step_logs import step_times
from suite.__main__ import main as suite_main

SPEC = {"cluster": {"platform": "DGX H100", "gpus": 8}, "job": {"model": "Llama-3 8B"}}
TOML = '[cluster]\nplatform = "DGX H100"\ngpus = 8\n[job]\nmodel = "Llama-3 8B"\n'
SIZES = ("layers", "hidden", "heads", "ffn_hidden", "vocabulary", "sequence_length")
DOORS = {
    "a spec": read_spec,
    "own runs": read_runs,
    "a config.json": read_config,
    "a price list": read_price_list,
    "own rows": own_file,
    "measured times": read_measurement,
    "a log": step_times,
    "lines": line_table,
    "hours": balance_series,
    "plants": plants,
    "points of a sweep": lambda path: sweep_points(SPEC, path),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_is_no_text_file(door, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"mine\.csv.*no text in UTF-8, but in UTF-16, as PowerShell's > writes it"):
        DOORS[door](path)
    path.write_bytes("a,b\n1,2\n".encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"mine\.csv.* has a NUL, as UTF-16 and binary files have"):
        DOORS[door](path)
    path.unlink()
    path.symlink_to(os.devnull)  # would end where it is read; others do not
    with pytest.raises(ValueError, match=r"mine\.csv.*(a pipe or a device: give a file|no file)"):
        DOORS[door](path)


@pytest.mark.parametrize("key", ["books.file", "measured", "cluster.measured", "job.config", "site.plants"])
def test_a_home_of_no_user_is_refused_by_key(key):
    section, _, last = key.partition(".")
    given = {section: {**SPEC.get(section, {}), last: "~nobody-here/x"} if last else "~nobody-here/x"}
    with pytest.raises(ValueError, match=rf"^{key} is '~nobody-here/x', in the home of no user: give the full path"):
        read_spec(SPEC | given)


@pytest.mark.parametrize("read", [step_times, read_config, own_runs], ids=lambda read: read.__name__)
def test_a_home_of_no_user_is_refused_by_argument(read):
    with pytest.raises(ValueError, match=r"^(path|config|runs) is '~nobody-here/x', in the home of no user"):
        read("~nobody-here/x")


def test_a_file_is_text_in_utf_8_and_no_more_than_is_meant(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, why in ((tmp_path, "a folder"), (tmp_path / "pipe", "a pipe or a device")):
        with pytest.raises(ValueError, match=f"{path.name} is {why}: give a file"):
            read_text(path)
    path = tmp_path / "a.txt"
    for content, why in (
        (b"a\n\xe9", r"a\.txt line 2 is no text in UTF-8: save the file in UTF-8"),
        ("a\nb".encode("utf-16-le"), r"a\.txt line 1 has a NUL, as UTF-16"),
        (b"x" * 1_000_001, r"a\.txt has more than 1 MB: give a smaller file"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=why):
            read_text(path, most=1_000_000)
    path.write_bytes("\ufeffé\r\nb\rc".encode())
    assert read_text(path) == "é\nb\nc"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = " + "[" * 100_000 + "\n", "nested more than 40 deep"),
        ("x = " + "[" * 50 + "]" * 50 + "\n", "x is nested more than 40 deep"),
        ("\n" + "a." * 200_000 + "a = 1\n", "line 2: a key has more than 40 parts"),
        ('"a" . ' * 50 + "a = 1\n", "line 1: a key has more than 40 parts"),
        ('x = "#\\""  # "\n' + "a." * 50 + "a = 1\n", "line 2: a key has more than 40 parts"),
        ("\nx = " + "9" * 5_000 + "\n", "line 2 has a number of more than 4,000 digits"),
        ("x.y = 0x" + "f" * 5_000 + "\n", r"x\.y is a number of more than 300 digits"),
        ("".join(f"x{place} = 1\n" for place in range(150)), "150 faults(?s:.*) and 50 more"),
        (f"{'x' * 9_000} = 1\n", r"x{300}\.\.\. is unknown"),
        ("x = [" + "0," * 20_000 + "]\n", "it has more than 20,000 values, in all its tables and lists: give fewer"),
        ("#" * 1_000_000 + "\n", "more than 1 MB"),
    ],
)
def test_a_spec_without_an_end_is_refused_with_line_or_key(text, why, tmp_path):
    (tmp_path / "mine.toml").write_text(text + TOML)
    with pytest.raises(ValueError, match=rf"mine\.toml.*{why}"):
        read_spec(tmp_path / "mine.toml")


def test_a_dictionary_that_holds_itself_is_refused():
    endless = dict(SPEC)
    endless["limits"] = endless["wishes"] = [endless, endless]
    with pytest.raises(ValueError, match="limits is nested more than 40 deep, or holds itself: give fewer"):
        read_spec(endless)


def test_a_value_that_is_held_often_counts_each_time():
    nested = [1]
    for _ in range(38):
        nested = [nested, nested]
    with pytest.raises(ValueError, match="it has more than 20,000 values"):
        read_spec(SPEC | {"limits": nested})


IN_TEXTS = ["'{}'", '"\\"{}"', "'''\n'{}'''", '"""\\"""\n{}"""', "1  # {}", "1  # it's\n# {}"]


@pytest.mark.parametrize("text", IN_TEXTS)
def test_words_with_points_in_texts_and_comments_are_no_key(text):
    with pytest.raises(ValueError, match=r"x (is unknown|has a control)"):
        read_spec(f"x = {text.format('No. ' * 50)}\n{TOML}")


def test_letters_are_refused_by_what_unicode_says_of_them():
    for letter in map(chr, range(0x10000)):
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(letter) in ("LRO", "RLO", "RLE", "LRI", "PDI"):
            assert hidden_character_fault(letter), hex(ord(letter))
        elif kind[0] in "LMNPS" or kind == "Zs":
            assert not hidden_character_fault(letter), hex(ord(letter))


TITLES = ["计划　一", "Coût\u00a0: 5 €", "👨\u200d👩\u200d👧 ☁️", "عنوان", "می\u200cخواهم", "q̃ 𝛼"]


@pytest.mark.parametrize("title", TITLES)
def test_any_script_is_read(title):
    assert read_spec(SPEC | {"title": title, "author": title}).title == title


@pytest.mark.parametrize("letter", "\n \t \x00 \x1b \x7f \x9b \u200b \u202e \u2028 \ud800".split(" "), ids=ascii)
def test_a_control_or_invisible_character_is_refused_in_any_text_and_key(letter):
    bad = f"a{letter}b"
    given = {"title": bad, "network": {"candidate": [{"name": bad, "layout": "Clos"}]}, bad: 1, "job": {bad: 1}}
    with pytest.raises(ValueError, match="spec has 4 faults") as found:
        read_spec(SPEC | given)
    for key in ("title", "network.candidate.0.name", f"key {bad!r}", f"key {bad!r} of job"):
        fault = f"  {key} has a control or invisible character, {letter!r}, at place 2: write plain text in one line"
        assert fault in str(found.value).splitlines()


def test_a_launch_line_has_several_lines_and_no_other_such_letters():
    job = SPEC["job"] | {"launch": "torchrun x.py \\\n\t--num-layers 32\x1b"}
    with pytest.raises(
        ValueError, match=r"job\.launch has a control or invisible character, '\\x1b', at place \d+: write plain text$"
    ):
        read_spec(SPEC | {"job": job})


def test_cells_and_names_of_other_files_are_plain(tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv, line 2: source has a control or invisible character, '\\x1b'"):
        runs_of_text("a.csv", "source,gpus\na\x1b,8\n", dict.fromkeys(run_columns(), "1"))
    path = tmp_path / "over.csv"
    path.write_text("title\na\x1b\n")
    with pytest.raises(ValueError, match=r"over\.csv line 2: title has a control"):
        sweep_points(SPEC, path)
    for config, why in (('{"a": ' * 100 + "1" + "}" * 100, "nested more"), ('{"a": ' * 9_999, "no JSON")):
        path.write_text(config)
        with pytest.raises(ValueError, match=why):
            read_config(path)
    sizes = dict.fromkeys((keys[0] for field, keys in KEYS.items() if field in SIZES), 8)
    with pytest.raises(ValueError, match="_name_or_path of config has a control"):
        config_fields({"model_type": "llama", "_name_or_path": "a\nb"} | sizes, {})


def test_names_of_plants_are_shown_escaped(tmp_path):
    path = tmp_path / "plants.csv"
    fuels = eia.code_meanings("plant column")
    head = ["plant_code", "name", "state", "ba", "lat", "lon", *(f"{fuel}_mw" for fuel in fuels)]
    path.write_text(f"{','.join(head)}\n1,a\x1b[31m\u202e,IL,PJM,41,-88{',5' * len(fuels)}\n")
    assert plants(path)["name"].unique().tolist() == ["a\\x1b[31m\\u202e"]


def test_the_command_line_shows_such_letters_escaped(capsys):
    for command, name in ((main, "railcore"), (suite_main, "suite")):
        assert command(["plan", "a\x1b[31m"]) == 2
        wanted = f"{name}: argument 'a\\x1b[31m' has a control or invisible character"
        assert capsys.readouterr().err.startswith(wanted)

    def refuse(_options):
        raise ValueError("a\x1b\u202e\nb")

    parser = type("Parser", (), {"parse_args": lambda self, _: type("Options", (), {"command": "x"})})()
    assert run_command("x", parser, {"x": refuse}) == 2 and capsys.readouterr().err == "x: a\\x1b\\u202e\nb\n"
    assert escaped("a\rb\té") == "a\\rb\té"


def test_what_pandas_and_numpy_hold_is_looked_at_too():
    names = np.array([{"name": "a\x1b[31mX", "layout": "Clos"}])
    for candidates in (names, pd.Series(names), {"a\x1b": 1}.keys()):
        with pytest.raises(ValueError, match=r"has a control or invisible character, '\\x1b'"):
            read_spec(SPEC | {"network": {"candidate": candidates}})
    assert read_spec(SPEC | {"title": "one line\n"}).title == "one line"  # as TOML's longer strings end
    assert read_spec(SPEC | {"network": {"candidates": pd.Series(["rail-only"])}}).network.candidates == ["rail-only"]
