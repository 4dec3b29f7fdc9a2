import csv
import errno
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from test_files import NO_FILES, not_a_file

from railcore import catalog
from railcore.catalog import files, items, tables, template, units
from railcore.network import cost, price_books
from suite.ledger import claims, grounds
from suite.railonly2025 import table1

GOOD = {
    "name": "X100",
    "parameter": "power",
    "value": "2",
    "low": "1",
    "high": "3",
    "unit": "kW",
    "kind": "assumed",
    "source": "a datasheet",
    "as_of": "2025",
    "note": "",
    "shape": "log",
}


@pytest.fixture
def overlay(monkeypatch, tmp_path):
    def lay(*rows, family="gpus", header=catalog.COLUMNS):
        folder = tmp_path / "mine"
        folder.mkdir()
        with (folder / f"{family}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(
                [header, *([{**GOOD, **row}[key] for key in catalog.COLUMNS[: len(header)]] for row in rows)]
            )
        monkeypatch.setenv("RAILCORE_CATALOG", str(folder))

    return lay


def test_every_row_of_every_file_is_there_in_si():
    written = 0
    for path in sorted((files.DATA / "catalog").glob("*.csv")):
        with path.open(newline="") as stream:
            for row in csv.DictReader(stream):
                written += 1
                ours = catalog.item(path.stem, row["name"]).row(row["parameter"])
                for key in ("value", "low", "high") if row["unit"] != "name" else ():
                    if row[key]:
                        shown = units.convert(getattr(ours, key), row["unit"])
                        assert shown == pytest.approx(float(row[key]), rel=1e-14)
                    else:
                        assert getattr(ours, key) is None
    assert written == len(catalog.values()) > 300
    assert {path.stem for path in (files.DATA / "catalog").glob("*.csv")} == set(catalog.families())


def test_assumed_rows_are_those_without_a_firm_source():
    assumed = catalog.values("assumed")
    assert assumed
    assert all(row.low <= row.value <= row.high for row in assumed)
    assert {row.kind for row in catalog.values()} == set(catalog.KINDS)
    with pytest.raises(ValueError, match="'guessed' is none of"):
        catalog.values("guessed")


@pytest.mark.parametrize("platform", catalog.names("platforms"))
def test_bandwidths_of_a_platform_are_those_of_its_links_one_way(platform):
    """PCI Express: 16 lanes, twice as fast with each generation."""
    item = catalog.item("platforms", platform)
    gpu = catalog.item("gpus", item["gpu"])
    assert item["hb_links"] * item["hb_link_bandwidth"] == item["hb_bandwidth"] == gpu["hb_bandwidth"]
    assert item["nics"] == item["gpus"]
    if "pcie_generation" in item:
        assert gpu["pcie_bandwidth"] == 16 * 2 ** item["pcie_generation"] * units.Gbps


def _table1():
    cases = pd.DataFrame(claims.cases("railonly2025.table1"))
    book = price_books.PriceBook(1, 1)
    return cases, cost.compare_rail_networks(cases.n, 256, cases.r, book, book)


@pytest.mark.parametrize(
    ("family", "what", "total", "size"),
    [("prices", "price", "cost_saving_min", 65536), ("powers", "power", "power_saving_max", None)],
)
def test_calibrated_book_follows_from_the_two_claims_it_names_and_predicts_the_others(family, what, total, size):
    cases, table = _table1()
    saved_ports = table.ports_rail_optimized - table.ports_rail_only
    assert (saved_ports == table.transceivers_rail_optimized - table.transceivers_rail_only).all()
    name = "cost" if what == "price" else "power"
    ids = [f"railonly2025.table1.n{n}.r{r}.{name}_saving" for n, r in cases.values]
    calibration = next(each for each in grounds.calibrations() if set(ids) & set(each.used))
    solved = [claim_id for claim_id in ids if claim_id in calibration.used]
    assert {*solved, f"railonly2025.text.{total}"} == set(calibration.used)
    assert len(solved) == 1
    printed = np.array([claims.paper_value(claim_id) for claim_id in ids])
    bounds = table1.ratio_bounds(table, printed - 0.005, printed + 0.005).iloc[ids.index(solved[0])]
    saved = saved_ports[table.gpus == size].min() if size else saved_ports.max()
    both = claims.paper_value(f"railonly2025.text.{total}") / saved

    item = catalog.item(family, "railonly2025")
    port, transceiver = item.row(f"port_{what}"), item.row(f"transceiver_{what}")
    ratios = (bounds.most, (bounds.least + bounds.most) / 2, bounds.least)
    ends = [(both / (1 + r), both * r / (1 + r)) for r in ratios]
    for row, expected in ((port, [end[0] for end in ends]), (transceiver, [end[1] for end in reversed(ends)])):
        assert [row.low, row.value, row.high] == pytest.approx(expected, rel=6e-4)  # written with three or four digits
    book = price_books.PriceBook(port.value, transceiver.value)
    ours = cost.compare_rail_networks(cases.n, 256, cases.r, book, book).cost_saving
    assert np.abs(ours - printed).max() < 0.005


def test_rows_that_were_looked_up_are_recorded():
    """In every recording that is open, and in none that is not; what is only listed is not looked up."""
    gpu, energy = catalog.item("gpus", "H100"), catalog.item("prices", "energy")
    with catalog.recording() as outer:
        gpu["power"], "memory" in gpu, list(gpu), gpu.rows[0].value, gpu.get("none")
        with catalog.recording() as inner:
            energy.row("pue")
        with suppress(RuntimeError), catalog.recording() as failed:
            gpu.get("power")
            raise RuntimeError
        gpu["memory"]
    gpu["memory_bandwidth"]
    assert [set(used) for used in (outer, inner, failed)] == [
        {("gpus", "H100", "power"), ("gpus", "H100", "memory"), ("prices", "energy", "pue")},
        {("prices", "energy", "pue")},
        {("gpus", "H100", "power")},
    ]
    used = catalog.input_rows(outer)
    assert [(row["family"], row["name"], row["parameter"], row["value"], row["unit"]) for row in used] == [
        ("gpus", "H100", "memory", "80", "GB"),
        ("gpus", "H100", "power", "700", "W"),
        ("prices", "energy", "pue", "1.2", "1"),
    ]
    assert all(row["source"] for row in used)


def test_overlay_replaces_a_row_and_adds_others(overlay):
    before = catalog.item("gpus", "H100")
    new = {"name": "H100", "low": "", "high": "", "kind": "measured", "shape": ""}
    overlay({**new, "value": "0.65"}, {**new, "parameter": "power_mine", "unit": "dB"}, {"name": "X100"})
    after = catalog.item("gpus", "H100")
    assert after["power"] == 650
    assert (before["power"], before["memory"]) == (700, after["memory"])
    assert set(after) == {*before, "power_mine"}
    assert catalog.item("gpus", "X100")["power"] == 2000
    assert catalog.names("gpus")[-1] == "X100"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"value": ""}, "column 'value' is blank"),
        ({"unit": ""}, "column 'unit' is blank"),
        ({"name": ""}, "column 'name' is blank"),
        ({"low": "nan"}, "column 'low': 'nan' is no finite number"),
        ({"high": "1e400"}, "column 'high': '1e400' is no finite number"),
        ({"high": "9" * 500}, r"column 'high': '9{99}\.\.\. is no finite number"),
        ({"value": "9" * 5000}, "column 'value' has 5,000 letters: give at most 2,000"),
        ({"low": "2.1"}, "value 2 is not between low 2.1 and high 3"),
        ({"high": "1.9"}, "value 2 is not between low 1 and high 1.9"),
        ({"shape": "normal"}, "shape 'normal' is none of linear, log, whole"),
        ({"low": "0"}, "shape 'log' needs a low above 0, not 0: write linear"),
        ({"kind": "paper", "high": ""}, "shape 'log' needs low and high: give both, or leave it blank"),
        ({"value": "2.5", "unit": "W", "shape": "whole"}, "shape 'whole' needs whole numbers as value, low and high"),
    ],
)
def test_bad_row_is_named_by_file_and_line(overlay, row, complaint):
    overlay({"name": "fine"}, row)
    with pytest.raises(ValueError, match=complaint) as error:
        catalog.item("gpus", "H100")
    assert "gpus.csv line 3" in str(error.value)


def test_every_row_of_ours_with_a_range_has_a_shape_and_no_other_has_one():
    for path in sorted((files.DATA / "catalog").glob("*.csv")):
        with path.open(newline="") as stream:
            for row in csv.DictReader(stream):
                ranged = bool(row["low"] and row["high"]) and float(row["low"]) < float(row["high"])
                assert (row["shape"] in catalog.SHAPES) if ranged else not row["shape"], (path.stem, row)
                assert catalog.item(path.stem, row["name"]).row(row["parameter"]).shape == row["shape"]


@pytest.mark.parametrize("header", [catalog.COLUMNS, catalog.OLD_COLUMNS])
@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ({}, "log"),
        ({"low": "0"}, "linear"),
        ({"parameter": "power_mine", "unit": "1"}, "linear"),
        ({"parameter": "power_mine", "unit": "switches"}, "linear"),
        ({"parameter": "power_mine", "unit": "1/year"}, "log"),
        ({"low": "2", "high": "2"}, ""),
        ({"high": "", "kind": "paper"}, ""),
    ],
)
def test_a_rule_gives_the_shape_that_a_user_leaves_out(overlay, header, row, shape):
    overlay({"shape": "", **row}, header=header)
    assert catalog.item("gpus", "X100").rows[0].shape == shape


def test_the_example_of_the_guide_is_read_though_it_has_no_shapes(monkeypatch, tmp_path):
    lines = (files.ROOT / "docs/guide/own_prices.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip() == ",".join(catalog.OLD_COLUMNS))
    example = [line.strip() for line in lines[first : lines.index("```", first)]]
    (tmp_path / "prices.csv").write_text("\n".join(example) + "\n")
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    book = catalog.item("prices", "ours")
    assert len(book) == len(example) - 1
    assert [book.row(name).shape for name in ("port_price", "transceiver_price")] == ["", "log"]


@pytest.mark.parametrize("header", [catalog.COLUMNS, catalog.OLD_COLUMNS])
def test_a_template_is_added_to_a_file_with_and_without_the_column(monkeypatch, tmp_path, header):
    path = tmp_path / "prices.csv"
    for there in ([], [{**GOOD, "name": "ours", "parameter": "port_price", "unit": "USD"}]):
        path.write_text(tables.csv_text(header, there))
        added = template.write_template(template.template("prices", "mine"), tmp_path)
        assert added[path] and path.read_text().startswith(",".join(header) + "\n")
        assert all(None not in row and None not in row.values() for row in tables.read_csv(path))
    assert tables.read_csv(tmp_path / "powers.csv")[0].keys() == set(catalog.COLUMNS)  # a new file has it
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    assert catalog.item("prices", "ours").row("port_price").shape == "log"


def test_a_template_keeps_the_line_ends_and_the_mark_of_a_file(tmp_path):
    path, rows = tmp_path / "prices.csv", {"prices": template.template("prices", "mine")["prices"]}
    head = ",".join(catalog.COLUMNS)
    for before in (
        f"\ufeff{head}\r\nours,a,1,,,USD,paper,x,,,\r\n",
        f"{head}\rours,a,1,,,USD,paper,x,,,",
        "\ufeff\r\n",
        "",
    ):
        path.write_bytes(before.encode())
        template.write_template(rows, tmp_path)
        after, end = path.read_bytes().decode(), next((end for end in ("\r\n", "\r") if end in before), "\n")
        assert after.startswith(before.rstrip("\r\n")) and after.count("\ufeff") == before.count("\ufeff")
        lines = after.removeprefix("\ufeff").split(end)
        assert lines[0] == head and lines[-2].startswith("mine,") and lines[-1] == ""
        assert not any("\r" in line or "\n" in line for line in lines)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("\n\nHEAD\n", "other columns"),
        ('HEAD\nours,"a,1\n', "line 2: unexpected end of data: is the file cut, or a quote"),
    ],
)
def test_a_template_is_not_added_to_a_file_that_the_catalog_does_not_read(tmp_path, before, why):
    path = tmp_path / "prices.csv"
    path.write_text(text := before.replace("HEAD", ",".join(catalog.COLUMNS)))
    with pytest.raises(ValueError, match=rf"prices\.csv.*{why}"):
        template.write_template(template.template("prices", "mine"), tmp_path)
    assert path.read_text() == text and [path] == list(tmp_path.iterdir())


def test_overlay_that_is_no_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"RAILCORE_CATALOG is .*nowhere"):
        catalog.item("gpus", "H100")


@pytest.mark.parametrize(
    ("ask", "nearest"),
    [
        (lambda: catalog.item("platforms", "dgx h10"), "'DGX H100'"),
        (lambda: catalog.item("platform", "DGX H100"), "'platforms'"),
        (lambda: catalog.item("gpus", "H100")["powr"], "'power'"),
        (lambda: price_books.price_book("railonly2024"), "'railonly2025'"),
        (lambda: price_books.power_book("zzzz"), "'railonly2025'"),
    ],
)
@pytest.mark.parametrize("kind", [KeyError, ValueError])
def test_unknown_name_lists_the_nearest(ask, nearest, kind):
    with pytest.raises(kind) as error:
        ask()
    assert "does not exist: the nearest are" in str(error.value)
    assert nearest in str(error.value)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        *((name, "GB200 NVL72") for name in ("GB200 NVL72", "gb200-nvl72", "GB200_NVL72", "gb200nvl72")),
        *((name, None) for name in ("GB200", "GB300 NVL72", "a b", "", None, 5)),
        ("A B", "A B"),
    ],
)
def test_a_name_is_known_in_any_spelling_that_only_one_has(name, listed):
    assert catalog.listed_name(name, ["GB200 NVL72", "DGX H100", "A B", "A-B"]) == listed


@pytest.mark.parametrize("family", ["prices", "latencies"])
def test_a_file_that_is_cut_in_a_row_is_refused(tmp_path, family):
    """At every place within its middle and its last row; the last comma ends a row whose shape is blank."""
    whole = (files.DATA / "catalog" / f"{family}.csv").read_bytes()
    path = tmp_path / f"{family}.csv"
    last, middle = whole.rindex(b"\n", 0, -1) + 1, whole.index(b"\n", len(whole) // 2) + 1
    for start in (middle, last):
        row = whole[start : whole.index(b"\n", start)]
        for cut in range(1, row.rindex(b",") + 1):
            path.write_bytes(whole[: start + cut])
            for own in (False, True):
                with pytest.raises(ValueError, match=rf"{family}\.csv line \d+.*is the file cut"):
                    items._rows(path, own)


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("name", ["gpus.csv", "transports.csv"])
def test_an_own_file_that_cannot_be_read_is_refused_and_not_left_out(monkeypatch, tmp_path, kind, name):
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    catalog.names("gpus")
    not_a_file(tmp_path / name, kind)
    with pytest.raises(ValueError, match=rf"{name} is (a link that leads nowhere|a folder|a pipe or a device): "):
        catalog.names("gpus")


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_template_neither_waits_on_what_is_no_file_nor_replaces_it(tmp_path, kind):
    not_a_file(tmp_path / "gpus.csv", kind)
    before = (tmp_path / "gpus.csv").lstat()
    entries = sorted(tmp_path.iterdir())
    command = [sys.executable, "-m", "railcore", "catalog", "template", "gpus", "B300", "--write", str(tmp_path)]
    done = subprocess.run(command, cwd=files.ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "gpus.csv is " in done.stderr and done.stderr.count("\n") == 1
    after = (tmp_path / "gpus.csv").lstat()
    # Not the whole stat: reading a link moves its time of access.
    assert (after.st_mode, after.st_ino, after.st_mtime_ns) == (before.st_mode, before.st_ino, before.st_mtime_ns)
    assert sorted(tmp_path.iterdir()) == entries


def test_a_closed_folder_and_a_long_name_are_refused_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("RAILCORE_CATALOG", "a" * 300)
    with pytest.raises(ValueError, match=r"RAILCORE_CATALOG .*File name too long: give a shorter name"):
        catalog.names("gpus")
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path / "closed"))
    (tmp_path / "closed").mkdir()

    def closed(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(items.Path, "iterdir", closed)
    with pytest.raises(ValueError, match=r"closed: Permission denied: open its permissions"):
        catalog.names("gpus")


def test_a_platform_its_gpu_and_that_gpus_efficiencies_stand_together():
    pair = [("gpus", "H100"), ("efficiencies", "H100")]
    assert catalog.related_items("platforms", "DGX H100") == [("platforms", "DGX H100"), *pair]
    boxes = [
        ("platforms", name) for name in catalog.names("platforms") if catalog.item("platforms", name)["gpu"] == "H100"
    ]
    for family in ("gpus", "efficiencies"):
        assert catalog.related_items(family, "H100") == [*boxes, *pair] and len(boxes) > 0
    assert catalog.related_items("platforms", "HGX mine", "X100")[1:] == [("gpus", "X100"), ("efficiencies", "X100")]
    assert catalog.related_items("models", "GPT-3") == [("models", "GPT-3")]
