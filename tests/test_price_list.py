"""A price list of your own: read from CSV and workbooks, written with what a plan used, and refused in words."""

import io
import sys
from datetime import datetime

import pandas as pd
import pytest
from openpyxl import Workbook

import railcore as rc
from railcore import siting
from railcore.planner.price_list import COLUMNS, price_list, read_price_list, workbook
from railcore.planner.spec_reading import read_spec

SPEC = """
[cluster]
platform = "DGX H100"
gpus = 64
[job]
model = "Llama-3 8B"
tokens = 1e12
batch = 512
search = {context = 1, micro_batch = 1}
[network]
candidates = ["rail-optimized"]
"""
LIST = "part,price_usd,power_w,rate_gbps\nport,600,30,400\ntransceiver,400,12,400\nserver,300000,10000,\n"


def _plan(folder, name, more=""):
    path = folder / "spec.toml"
    path.write_text(f'{SPEC}[books]\nfile = "{name}"\n{more}')
    return rc.plan(str(path))


def test_a_list_gives_prices_powers_and_the_server(tmp_path):
    (tmp_path / "ours.csv").write_text(LIST)
    read = read_price_list(tmp_path / "ours.csv")
    assert read == {
        "prices": {"port": "600 USD", "transceiver": "400 USD", "rate": "400 Gbps", "name": "ours"},
        "powers": {"port": "30 W", "transceiver": "12 W", "rate": "400 Gbps", "name": "ours"},
        "server": "300000 USD",
        "server_power": "10000 W",
    }
    noted = LIST.replace("gbps\n", "gbps,note\n").replace("400\n", "400,asked twice\n")
    (tmp_path / "noted" / "ours.csv").parent.mkdir()
    (tmp_path / "noted" / "ours.csv").write_text(noted)
    assert "asked twice" in noted and read_price_list(tmp_path / "noted" / "ours.csv") == read
    (tmp_path / "powers.csv").write_text("part,price_usd,power_w\nserver,,10000\n")
    assert read_price_list(tmp_path / "powers.csv") == {"server_power": "10000 W"}
    planned = _plan(tmp_path, "ours.csv")
    assert planned.case.prices.port == 600 and planned.case.powers.transceiver == 12
    assert planned.case.rack_costs({})["rack_usd"] == 300000
    assert _plan(tmp_path, "ours.csv", 'server = "1 MUSD"\n').case.rack_costs({})["rack_usd"] == 1e6  # the spec's own


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_what_a_plan_writes_it_reads_again(tmp_path, ending):
    (tmp_path / "ours.csv").write_text(LIST)
    first = _plan(tmp_path, "ours.csv")
    table = price_list(first)
    assert list(table) == list(COLUMNS)
    if ending == "csv":
        table.to_csv(tmp_path / "again.csv", index=False)
    else:
        (tmp_path / "again.xlsx").write_bytes(workbook([first], ("candidates", "bill")))
    again = _plan(tmp_path, f"again.{ending}")
    assert again.best.numbers == pytest.approx(first.best.numbers)


@pytest.mark.parametrize("technology", ["Ethernet", "InfiniBand"])
def test_the_books_of_the_catalog_can_be_given_back(tmp_path, technology):
    network = f'candidates = ["rail-optimized", "photonic rails"]\ntechnology = "{technology}"'
    text = SPEC.replace('candidates = ["rail-optimized"]', network)
    (tmp_path / "first.toml").write_text(text)
    first = rc.plan(str(tmp_path / "first.toml"))
    (tmp_path / "again.xlsx").write_bytes(workbook([first], ("bill",)))
    (tmp_path / "again.toml").write_text(f'{text}[books]\nfile = "again.xlsx"\n')
    again = rc.plan(str(tmp_path / "again.toml"))
    for answer in first.possible:  # circuit ports of another book too
        assert again.answer(answer.name).numbers == pytest.approx(dict(answer.numbers))


def test_a_workbook_has_the_bill_and_its_sum(tmp_path):
    (tmp_path / "ours.csv").write_text(LIST)
    planned = _plan(tmp_path, "ours.csv")
    sheets = pd.read_excel(io.BytesIO(workbook([planned], ("candidates", "bill"))), sheet_name=None)
    assert list(sheets) == ["candidates", "bill", "prices"]
    assert sheets["bill"]["cost_usd"].sum() == pytest.approx(planned.best.numbers["network_usd"])
    twice = pd.read_excel(io.BytesIO(workbook([planned, planned], ("bill",))), sheet_name=None)
    assert list(twice) == ["1 bill", "1 prices", "2 bill", "2 prices"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("item,price_usd\nport,600\n", "has no column part: give part, price_usd, power_w, rate_gbps"),
        ("part,price_usd,rate_gbps\nswitch,600,400\n", "line 2: part is 'switch': give port, transceiver"),
        ("part,price_usd,rate_gbps\nport,600,400\nport,700,400\n", "line 3: port is there twice"),
        ("part,price_usd,rate_gbps\nport,600 USD,400\n", "price_usd of port is '600 USD': give a number above 0"),
        ("part,price_usd,rate_gbps\nport,-1,400\n", "price_usd of port is '-1'"),
        ("part,price_usd\nport,600\n", "has no rate_gbps: give all parts of the network"),
        ("part,price_usd,rate_gbps\nport,600,400\ntransceiver,400,800\n", "rate_gbps of 400 and 800"),
        (
            LIST.replace("power_w", "power"),
            "column 'power' is unknown: give part, price_usd, power_w, rate_gbps, and note",
        ),
        (LIST.replace("power_w", "price_usd"), "column 'price_usd' is there twice"),
        (LIST.replace(",10000,", ",10000,n/a"), "line 4: rate_gbps of server is 'n/a': give a number"),
        (LIST.replace(",10000,", ",10000,,7"), "line 4: '7' stands in a column without a name"),
        (LIST.replace("server", "sever"), "line 4: part is 'sever': the nearest is 'server', give port"),
        (LIST.replace("server", '"server'), "line 4: unexpected end of data: is the file cut, or a quote not closed?"),
        (LIST.replace("600", "9" * 5000), "9...: give a number"),
        (LIST.partition("\n")[0], "has no price: give each part its price_usd"),
        (LIST.replace("server", "\n" * 9_999 + "server"), "more than 10,000 rows"),
    ],
)
def test_a_list_with_faults_is_refused(tmp_path, text, complaint):
    (tmp_path / "ours.csv").write_text(text)
    with pytest.raises(ValueError, match="ours") as refused:
        read_price_list(tmp_path / "ours.csv")
    assert complaint in str(refused.value)
    (tmp_path / "spec.toml").write_text(f'{SPEC}[books]\nfile = "ours.csv"\n')
    with pytest.raises(ValueError, match=r"books\.file: ours"):
        read_spec(str(tmp_path / "spec.toml"))


def test_what_is_no_list_is_refused(tmp_path):
    (tmp_path / "text.xlsx").write_text("no workbook")
    pd.DataFrame({"part": ["port"]}).to_excel(tmp_path / "other.xlsx", sheet_name="ours", index=False)
    for name, why in (
        ("text.xlsx", r'text\.xlsx cannot be read .* a workbook with a sheet "prices"$'),
        ("other.xlsx", r"""other\.xlsx has no sheet "prices", but 'ours': name the list's so$"""),
    ):
        with pytest.raises(ValueError, match=why):
            read_price_list(tmp_path / name)
    with pytest.raises(ValueError, match=r"none\.csv"):
        read_price_list(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("=5000000*2", r"'=5000000\*2' \(a formula that no spreadsheet has worked out\)"),
        (datetime(2026, 1, 5), "'2026-01-05 00:00:00'"),
        (True, "'True'"),
    ],
)
def test_a_cell_of_a_workbook_that_is_no_number_is_refused(tmp_path, cell, complaint):
    path = tmp_path / "ours.xlsx"
    pd.DataFrame({"part": ["port", "server"], "price_usd": [None, cell]}).to_excel(
        path, sheet_name="prices", index=False
    )
    with pytest.raises(
        ValueError, match=rf"^ours\.xlsx, line 3: price_usd of server is {complaint}: give a number above"
    ):
        read_price_list(path)


def test_a_workbook_without_an_end_is_not_read(tmp_path, monkeypatch):
    path, book = tmp_path / "ours.xlsx", Workbook()
    book.active.title = "prices"
    book.active.append(["part", "price_usd"])
    book.active["XFD1048576"] = 1
    book.save(path)
    with pytest.raises(ValueError, match=r"ours\.xlsx has more than 10,000 rows"):
        read_price_list(path)
    for most in ("railcore.planner.price_list._MOST_UNPACKED", "railcore.siting.plant_files._MOST_UNPACKED"):
        monkeypatch.setattr(most, 1)
    for read in (read_price_list, siting.plants):
        with pytest.raises(ValueError, match=r"^ours\.xlsx has 0 MB when it is unpacked, more than 0: give"):
            read(path)


def test_a_reason_to_refuse_a_workbook_is_told_once(tmp_path):
    (tmp_path / "folder.xlsx").mkdir()
    with pytest.raises(ValueError, match=r"^folder\.xlsx is a folder: give a file$"):
        read_price_list(tmp_path / "folder.xlsx")


def test_without_its_library_a_workbook_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    told = r"^ours\.xlsx: a workbook, unlike a CSV, needs openpyxl, which is not .*: pip .*\[workbooks\]'"
    with pytest.raises(ValueError, match=told):
        read_price_list(tmp_path / "ours.xlsx")
