"""Parts of a user's own: what the catalog has, which rows a new one needs, and faults in the user's files."""

import csv
import io
import itertools
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pandas as pd
import pytest

from railcore import catalog, datacenter, planner
from railcore.__main__ import main
from railcore.catalog import files, lists, tables, template, units
from railcore.deploy import cabling, server
from railcore.network import price_books, reliability
from railcore.photonics import control_plane
from railcore.strategies.parts import search
from railcore.training import machine, transformer
from railcore.training.prediction_error import expected_error
from railcore.training.software import newest_runtime
from railcore.transport import delay, transports
from suite.flops2024 import scale_out
from suite.photonic2025 import photonic_cost, ring_limits
from suite.railonly2023 import rail_networks

NEW = "new"  # name of a new item in every family
LIKE = {  # items whose values a new one takes
    "platforms": "GB200 NVL72",
    "gpus": "GB200",
    "efficiencies": "GB200",
    "models": "GPT-3",
    "runtimes": "modern",
    "switches": "25.6T",
    "nics": "ConnectX-7",
    "transceivers": "400G DR4",
    "prices": "flops2024",
    "powers": "street2025",
    "sites": "flops2024",
    "circuit_switches": "Polatis 6000N",
    "control_planes": "host-driven",
    "pcie_switches": "PEX89144",
    "latencies": "SN5600",
    "transports": "spraying",
}
NIC = 50 * units.GB
HEAD = ",".join(catalog.COLUMNS)
USES = {  # what a user does with own parts, by the names in data/catalog_rows.csv
    "strategies": [lambda: machine.catalog_machine(NEW), lambda: transformer.catalog_model(NEW)],
    "strategies in fp8": [lambda: machine.catalog_machine(NEW, "fp8")],
    "faults": [
        lambda: planner.platform_fabric(NEW, 144, 64),
        lambda: reliability.cluster_failures(144, 72, 64, NEW),
        lambda: reliability.job_interruptions(144, 72, 64, NEW),
    ],
    "HB links": [lambda: rail_networks.platform_bandwidths([NEW])],
    "datacenter size": [lambda: datacenter.datacenter_size(1e9, NEW, NEW)],
    "exposed communication": [lambda: datacenter.datacenter_site(10, NEW, "bf16_dense_rate", NEW)],
    "published batch": [lambda: transformer.batch_sequences(NEW)],
    "network cost": [lambda: scale_out.catalog_equipment("51.2T", NIC, NEW, "400G DR4")],
    "network power": [lambda: price_books.power_book(NEW)],
    "scale-out networks": [
        lambda: scale_out.chip_modes(NEW, NIC),
        lambda: scale_out.catalog_equipment(NEW, NIC, "street2025", NEW),
    ],
    "cabling": [lambda: cabling.link_media(NIC)],
    "photonic rails": [
        lambda: photonic_cost.circuit_switch_plans([NEW], 64, 8, 64, *price_books.matching_books("flops2024"))
    ],
    "control plane": [lambda: control_plane.catalog_control_plane(NEW)],
    "ring limits": [lambda: ring_limits.nic_port_modes(NEW)],
    "servers": [lambda: server.catalog_server("DGX H100", NEW)],
    "packet simulation": [lambda: transports.transport(NEW)],
    "one-way delay": [lambda: delay.DelayPath("ConnectX-7", [NEW], NIC, 4096)],
}
ALSO = {"strategies in fp8": {"strategies"}}  # uses that another one builds on


@pytest.fixture
def own(monkeypatch, tmp_path):
    """Write rows of the user's own and lay them over the catalog: own({"gpus": [row, ...]}), own("gpus.csv", bytes)."""
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    ticks = itertools.count(10**9, 10**9)

    def write(what, content=None):
        for path in tmp_path.iterdir():
            path.unlink()
        for family, rows in what.items() if content is None else ():
            (tmp_path / f"{family}.csv").write_text(tables.csv_text(catalog.COLUMNS, rows), newline="")
        if content is not None:
            (tmp_path / what).write_bytes(content)
        for path in tmp_path.iterdir():  # as if each were written at another tick of the clock
            os.utime(path, ns=(next(ticks),) * 2)

    return write


def railcore(*words, catalog_folder=""):
    """Run a command of railcore; gives exit status, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("RAILCORE_CATALOG", str(catalog_folder))
        status = main([*words])
    return status, out.getvalue(), err.getvalue()


def filled(family, rows, like=None):
    """Rows of a template as a user fills them in: with values of another item, in the template's units."""
    item, done = catalog.item(family, like or LIKE[family]), []
    for row in rows:
        value = row["value"]
        if not value and row["parameter"] in item:
            value = item[row["parameter"]]
            value = value if row["unit"] == "name" else f"{units.convert(value, row['unit']):.12g}"
        if value:
            done.append({**row, "value": value, "source": row["source"] or "our quote"})
    return done


def new_parts(keep):
    """Rows of a new item in every family, those of a platform with the new GPU, as far as `keep` has them."""
    needs = {(need.family, need.parameter): need for need in catalog.row_needs()}
    return {family: [row for row in rows if keep(needs[family, row["parameter"]])] for family, rows in PARTS.items()}


PARTS = {
    family: filled(family, template.template(family, NEW, NEW if family == "platforms" else "")[family])
    for family in LIKE
}


def test_declared_rows_are_of_families_and_fit_the_rows_that_we_have():
    assert {need.family for need in catalog.row_needs()} == set(LIKE)
    assert {use for need in catalog.row_needs() for use in need.uses} == set(USES)
    known = {(row.family, row.parameter) for row in catalog.values()}
    for need in catalog.row_needs():
        assert need.meaning and (not need.required or need.uses)
        if need.family != "runtimes":
            assert (need.family, need.parameter) in known or need.parameter in ("fp8_sparse_rate", "bandwidth")
        for row in catalog.values():
            if (row.family, row.parameter) == (need.family, need.parameter):
                kinds = [unit if unit == "name" else units.unit(unit)[0] for unit in (row.unit, need.unit)]
                assert kinds[0] == kinds[1], f"{row.family} {row.name} {row.parameter}"


@pytest.mark.parametrize("use", USES)
def test_the_rows_that_a_use_declares_are_those_that_it_asks(use, own):
    wanted = {use} | ALSO.get(use, set())
    own(new_parts(lambda need: wanted & set(need.uses)))
    for action in USES[use]:
        action()
    for lacking in [need for need in catalog.row_needs() if use in need.uses]:
        own(new_parts(lambda need, lacking=lacking: wanted & set(need.uses) and need != lacking))
        with pytest.raises(ValueError, match=f"{lacking.parameter}|book of {lacking.family}"):
            [action() for action in USES[use]]


_PUBLISHED = {"parameters", "batch", "active_parameters", "active_embedding", "training_tokens"}  # that are no fields


def test_a_model_needs_the_fields_that_have_no_default():
    needed = {need.parameter for need in catalog.row_needs("models") if "strategies" in need.uses}
    optional = {need.parameter for need in catalog.row_needs("models")} - needed - _PUBLISHED
    fields = transformer.Transformer.__dataclass_fields__
    assert needed == {name for name in fields if not hasattr(transformer.Transformer, name)} - {"name"}
    of_a_training = {"imbalance", "lora_rank", "lora_targets", "frozen_bytes"}
    assert optional == {name for name in fields if hasattr(transformer.Transformer, name)} - of_a_training


def test_a_new_gpu_takes_two_attempts(own, tmp_path, monkeypatch):
    own({})
    with pytest.raises(catalog.UnknownName) as first:
        machine.catalog_machine("HGX B400")
    text = str(first.value)
    for need in catalog.row_needs():
        if need.family in ("platforms", *catalog.GPU_FAMILIES) and need.required:
            assert f" {need.parameter}" in text.partition(f"{need.family}.csv")[2].partition("\n")[0]
    command = 'catalog template platforms "HGX B400" --gpu NAME'
    assert command in text

    folder = tmp_path / "mine"
    words = ["catalog", "template", "platforms", "HGX B400", "--gpu", "B400", "--write", str(folder)]
    status, said, _ = railcore(*words)
    assert status == 0 and said.count("rows added") == 3
    for family in ("platforms", "gpus", "efficiencies"):
        rows = filled(family, tables.read_csv(folder / f"{family}.csv"))
        (folder / f"{family}.csv").write_text(tables.csv_text(catalog.COLUMNS, rows))
    monkeypatch.setenv("RAILCORE_CATALOG", str(folder))
    box = machine.catalog_machine("HGX B400", "fp8")
    assert (box.gpu, box.hb_domain_size, box.rates.linear_rate) == ("B400", 72, 5e15)
    assert datacenter.datacenter_size(1e10, "HGX B400", "flops2024", network="shares").racks == 2333
    assert planner.platform_fabric("HGX B400", 144, 64).hb_domain_size == 72
    fewer = machine.catalog_machine("GB200 NVL72", hb_domain_size=64, nic_Bps="800 Gbps")
    fabric = planner.platform_fabric("GB200 NVL72", 128, 64, fewer)
    assert (fabric.hb_domain_size, fabric.nic_Bps, fabric.hb_switches) == (64, 1e11, 18) and not fabric.warnings


def test_what_is_missing_of_a_platform_its_gpu_and_its_efficiencies_is_said_at_once(own):
    rows = new_parts(lambda need: need.required)
    rows["platforms"] = [row for row in rows["platforms"] if row["parameter"] not in ("nic_bandwidth", "price")]
    rows["gpus"] = [row for row in rows["gpus"] if row["parameter"] != "memory"]
    rows["efficiencies"] = []
    own(rows)
    with pytest.raises(catalog.UnknownName) as refusal:
        catalog.item("gpus", NEW)["memory"]
    lines = str(refusal.value).splitlines()
    shares = "processors, matmul_fraction_bf16, attention_fraction, memory_fraction, hb_fraction, nic_fraction"
    assert lines[1:] == [
        "  platforms.csv, 'new': nic_bandwidth, price",
        "  gpus.csv, 'new': memory",
        f"  efficiencies.csv, 'new': {shares}",
        '`python -m railcore catalog template platforms "new"` prints them to fill in, with units',
    ]


def test_a_rate_that_a_gpu_lacks_is_refused_with_those_that_it_has():
    for ask in (
        lambda: machine.catalog_machine("DGX A100", "fp8"),
        lambda: datacenter.datacenter_size(1e9, "DGX A100", "flops2024", rate_format="fp8"),
    ):
        with pytest.raises(catalog.UnknownName, match=r"(?s)no row 'fp8_dense_rate'.*it has.*'bf16_dense_rate'") as no:
            ask()
        assert ": give one of these as the rate, or add it. Rows to add:" in str(no.value)
        assert "efficiencies.csv, 'A100': matmul_fraction_fp8" in str(no.value)
        assert 'catalog template gpus "A100"' in str(no.value)


# --- template


def test_template_prints_each_file_with_units_and_the_shares_of_another_gpu_as_assumed():
    status, out, err = railcore("catalog", "template", "gpus", "B400")
    assert status == 0
    assert "RAILCORE_CATALOG" in err
    first, second = out.removeprefix("# gpus.csv\n").split("# efficiencies.csv\n")
    gpu, shares = ({row["parameter"]: row for row in csv.DictReader(text.splitlines())} for text in (first, second))
    assert list(gpu["memory"]) == list(catalog.COLUMNS)
    assert (gpu["memory"]["name"], gpu["memory"]["value"], gpu["memory"]["unit"]) == ("B400", "", "GB")
    assert "optional" in gpu["fp8_dense_rate"]["note"] and "optional" not in gpu["bf16_dense_rate"]["note"]
    optional = ["optional" in row["note"] for row in gpu.values()]
    assert optional == sorted(optional)
    share = shares["memory_fraction"]
    assert (share["kind"], share["value"]) == ("assumed", "0.85")
    assert float(share["low"]) == 0.73 and float(share["high"]) == 0.949
    assert "B300" in share["source"]
    assert shares["processors"]["value"] == ""  # the maker prints it


def _clone(own, platform, gpu="X1"):
    """The platform "X box" of a GPU modelled on another platform's, with its datasheet alone filled in; its machine."""
    like = str(catalog.item("platforms", platform)["gpu"])
    rows = template.template("platforms", "X box", gpu=gpu, like=like)
    printed = [row for row in rows["efficiencies"] if row["value"] or row["parameter"] == "processors"]
    rows = rows | {"efficiencies": printed}
    own({family: filled(family, rows[family], platform if family == "platforms" else like) for family in rows})
    return like


def _rounded(value):
    """Numbers to nine digits: units are converted once more for the clone."""
    if isinstance(value, dict | tuple):
        return [_rounded(each) for each in (value.values() if isinstance(value, dict) else value)]
    return float(f"{value:.9g}") if isinstance(value, float) else value


_CLONED = ("DGX A100", "GB200 NVL72", "MI300X full mesh")


@pytest.mark.parametrize("platform", _CLONED)
def test_a_clone_equals_its_original_but_for_its_name_and_what_is_known_of_it(platform, own):
    """Whose datasheet is filled in, and nothing else. What the original reads is in the template."""
    like = _clone(own, platform)
    with catalog.recording() as used:
        for precision, number_format in machine.FORMATS.items():
            if number_format.rate in catalog.item("gpus", like):
                boxes = [machine.catalog_machine(name, precision) for name in ("X box", platform)]
                of_original = boxes[1].values | {"platform": "X box", "gpu": "X1"}
                assert _rounded(boxes[0].values) == _rounded(of_original)
                assert newest_runtime(boxes[0]) == newest_runtime(boxes[1])
                error = expected_error("Llama-3 8B", boxes[0], 64)
                assert error.runs == 0 and "none on X1 in any precision" in error.missing
    read = {(family, parameter) for family, name, parameter in used if name in (platform, like)}
    assert len(read) > 15 and read <= {(need.family, need.parameter) for need in catalog.row_needs()}
    job = ("Llama-3 8B", 144, 144, newest_runtime("X box"))
    tables = [search(job[0], name, *job[1:], top=5).best for name in ("X box", platform)]
    pd.testing.assert_frame_equal(*tables)


def test_the_template_has_every_row_that_a_gpu_of_ours_has():
    asked = {need.parameter for need in catalog.row_needs("efficiencies")}
    assert {
        row for name in catalog.names("efficiencies") for row in catalog.item("efficiencies", name) if name != "all"
    } <= asked


def test_template_of_a_platform_with_a_known_gpu_is_the_platform_alone():
    assert list(template.template("platforms", "HGX B200", gpu="B200")) == ["platforms"]
    assert list(template.template("platforms", "HGX B400", gpu="B400")) == ["platforms", "gpus", "efficiencies"]
    books = template.template("prices", "ours")
    assert list(books) == ["prices", "powers"]
    assert all(row["note"].startswith("optional: ") for row in books["powers"])  # a book may leave them out
    assert not books["prices"][0]["note"].startswith("optional: ")
    assert template.template("platforms", "GH200")["platforms"][0]["parameter"] == "price"


def test_template_of_a_family_without_one_names_those_with():
    status, _, err = railcore("catalog", "template", "gpu", "B400")
    assert status == 2 and "'gpus'" in err
    status, _, err = railcore("catalog", "template", "gpus", " ")
    assert status == 2 and "name is blank" in err
    status, _, err = railcore("catalog", "template", "models", "mine", "--gpu", "H100")
    assert status == 2 and "gpu is 'H100': give it for a platform alone" in err


def test_write_leaves_rows_that_are_there(tmp_path):
    words = ["catalog", "template", "prices", "ours", "--write", str(tmp_path)]
    mine = f"\ufeff{HEAD}\r\nours,port_price,600,,,USD,measured,q,2026,"
    (tmp_path / "prices.csv").write_bytes(mine.encode())
    assert railcore(*words)[0] == 0
    rows = tables.read_csv(tmp_path / "prices.csv")
    assert [row["value"] for row in rows if row["parameter"] == "port_price"] == ["600"]
    assert {need.parameter for need in catalog.row_needs("prices")} == {row["parameter"] for row in rows}
    status, again, _ = railcore(*words)
    assert status == 0 and again.count("there already") == 2
    assert tables.read_csv(tmp_path / "prices.csv") == rows
    (tmp_path / "prices.csv").write_text("name,cost\nours,3\n")
    status, _, err = railcore(*words)
    assert status == 2 and "other columns" in err
    assert (tmp_path / "prices.csv").read_text() == "name,cost\nours,3\n"


def test_rows_that_are_not_filled_in_count_as_not_there(own):
    own(template.template("transceivers", NEW))
    assert NEW not in catalog.names("transceivers")


def test_a_platform_of_which_only_the_gpu_is_given_is_not_there_yet(own, tmp_path):
    words = ["catalog", "template", "platforms", "HGX B400", "--gpu", "B400", "--write", str(tmp_path)]
    assert railcore(*words)[0] == 0
    status, out, err = railcore("list", "platforms", catalog_folder=tmp_path)
    assert (status, err) == (0, "") and "GB200 NVL72" in out and "HGX B400" not in out
    rows = template.template("platforms", "HGX B200", gpu="B200")
    own({"platforms": filled("platforms", rows["platforms"])})
    row = catalog.item("platforms", "HGX B200").row("gpu")
    assert (row.value, row.source) == ("B200", "given on the command line")


def test_a_refusal_says_that_no_folder_of_own_rows_is_set(own, monkeypatch):
    own({})
    for name, said in (("ours", False), ("ours", True)):
        if said:
            monkeypatch.delenv("RAILCORE_CATALOG")
        with pytest.raises(catalog.UnknownName) as refusal:
            price_books.price_book(name)
        assert ("RAILCORE_CATALOG, the folder of your own rows, is not set" in str(refusal.value)) == said


# --- list


@pytest.mark.parametrize(
    ("family", "head", "row"),
    [
        ("gpus", ["bf16 [TFLOP/s]", "memory [GB]", "memory bandwidth [TB/s]", "power [W]"], "H100 989.5 1,979 - 80"),
        (
            "books",
            ["port [USD]", "transceiver [W]", "source"],
            "railonly2023 400 748 374 120 - - - - - - paper: railonly",
        ),
        ("fuels", ["parameter", "value"], "coal capacity_factor 0.422"),
    ],
)
def test_list_shows_the_main_columns_with_units(family, head, row):
    status, out, err = railcore("list", family)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert all(name in lines[0] for name in head)
    assert any(" ".join(line.split()).startswith(row) for line in lines)
    assert "*" not in out


def test_list_marks_own_items(own, tmp_path):
    own(new_parts(lambda need: need.required))
    status, out, _ = railcore("list", "books", catalog_folder=tmp_path)
    assert status == 0
    starred = [line.split()[0] for line in out.splitlines()[:-1] if "*" in line]
    assert starred == [NEW]
    assert out.splitlines()[-1] == f"* with rows of {tmp_path}"


def test_list_of_no_family_lists_them_and_an_unknown_one_is_refused():
    status, out, _ = railcore("list")
    assert status == 0
    assert {line.split()[0] for line in out.splitlines()[1:]} == set(lists.listed_families())
    assert railcore("list", "gpu") == railcore("list", "gpus")  # where one family alone begins so
    status, _, err = railcore("list", "gpuss")
    assert (
        status == 2
        and err == "railcore: family 'gpuss' does not exist: the nearest are 'gpus', 'sites', 'precisions'\n"
    )
    assert railcore("list", "scaling")[2].startswith("railcore: family 'scaling' does not exist: the nearest are 'sc")


def test_list_needs_no_notebooks_installed():
    absent = "papermill nbformat nbclient nbconvert IPython jupyterlab ipywidgets matplotlib dask pandas".split()
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); from railcore.__main__ import main\n"
    code += "main(['list', 'gpus']), main(['catalog', 'template', 'gpus', 'B400'])"
    environment = {"PYTHONPATH": str(files.ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.count("bf16") > 2, done.stderr


# --- faults in a user's files


def test_every_fault_of_a_file_is_told_at_once_with_its_line(own):
    own(
        "platforms.csv",
        f"""{HEAD}
X,gpu,B4000,,,name,datasheet,q,,
X,power,"10,2",,,kW,datasheet,q,,
X,price,350000,,,USD,assumed,q,,
X,nic_bandwidth,400,,,furlong,datasheet,q,,
X,hb_bandwidth,450,,,GB,datasheet,q,,
X,gpus,8,,,GPUs,datasheet,,,
X,gpus,8,,,GPUs,guess,q,,
X,hb_links,18,,,links,datasheet,page 1, of two,2026,,
""".encode(),
    )
    with pytest.raises(ValueError, match=r"platforms\.csv has 9 faults:") as refusal:
        catalog.item("platforms", "DGX H100")
    text = str(refusal.value)
    for line, fault in {
        2: "X gpu: 'B4000' is no GPU of gpus.csv: the nearest are 'B300', 'B200'",
        3: "X power: column 'value': '10,2' is no finite number: write a decimal point and no separators",
        4: "X price: kind 'assumed' needs low and high",
        5: "X nic_bandwidth: unit 'furlong' is unknown",
        6: "X hb_bandwidth: unit 'GB' does not fit hb_bandwidth: write GB/s",
        7: "X gpus: column 'source' is blank: fill it in",
        8: "X gpus: kind 'guess' is none of datasheet",
        9: "X hb_links: a comma too many: quote texts that hold commas",
    }.items():
        assert f"\n  line {line}, {fault}" in text
    assert "\n  line 8, X gpus: duplicate row: delete one" in text
    assert 'catalog template gpus "B4000"' in text and "efficiencies.csv, 'B4000': processors" in text


def test_a_parameter_that_nothing_reads_is_a_fault_of_its_line(own):
    rows = [f"ours,{name},90,,,USD,measured,q,," for name in ("dac_prize", "prot_price", "port_price_flops2024")]
    own("prices.csv", "\n".join([HEAD, *rows, ""]).encode())
    with pytest.raises(ValueError, match=r"prices\.csv has 2 faults") as refusal:
        catalog.names("prices")
    text = str(refusal.value)
    assert "line 2, ours dac_prize: unknown parameter 'dac_prize': the nearest are 'dac_price'" in text
    assert "line 3, ours prot_price: unknown parameter 'prot_price'" in text and "'port_price'" in text
    own("scaling_tables.csv", f"{HEAD}\nmine,anything,1,,,1,measured,q,,\n".encode())  # asks for no certain rows
    assert catalog.item("scaling_tables", "mine")["anything"] == 1


def test_the_first_ten_faults_are_told(own):
    own("gpus.csv", "\n".join([HEAD, *(f"X,p{i},?,,,W,datasheet,q,," for i in range(25))]).encode())
    with pytest.raises(ValueError, match=r"(?s)has 25 faults:\n  line 2,.*line 11, [^\n]*\n  and 15 more$"):
        catalog.names("gpus")


ROW = "X,memory,80,,,GB,datasheet,Täuschung 1,2026,"


@pytest.mark.parametrize(
    "content",
    [
        f"{HEAD}\r\n{ROW}\r\n",
        f"\ufeff{HEAD}\r\n{ROW},",
        f"{HEAD}\n\n{ROW}\n{',' * 9}\n",  # a blank line, and a row that a spreadsheet has left empty
    ],
)
def test_what_spreadsheets_write_is_read(own, content):
    own("gpus.csv", content.encode())
    assert catalog.item("gpus", "X")["memory"] == 80e9


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (f"{HEAD}\n{ROW}\n".replace(",", ";").encode(), r"divided by ';': save it with commas, and points in numbers"),
        (f"{HEAD}\n{ROW}\n".replace(",", "\t").encode(), r"divided by '\\t'"),
        (f"sep=;\n{HEAD}\n{ROW}\n".encode(), r"divided by ';'"),
        (f"{HEAD}\n{ROW}\n".encode("cp1252"), r"gpus.csv line \d+ is no text in UTF-8: save the file in UTF-8"),
        (f"{HEAD}\n{ROW}\n".encode("utf-16"), r"is no text in UTF-8"),
        (b"", r"columns are \[\]: write name,parameter"),
        (f"{HEAD},more\n".encode(), r"columns are .*'more'.*write name,parameter"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(own, content, complaint):
    own("gpus.csv", content)
    with pytest.raises(ValueError, match=complaint):
        catalog.item("gpus", "H100")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("price.csv", r"price.csv is read by nothing: name it after a family, the nearest are .*'prices'"),
        ("Prices.csv", r"the nearest are .*'prices'"),
        ("prices.CSV", r"save it as prices.csv"),
        ("prices.xlsx", r"save it as prices.csv, with commas"),
    ],
)
def test_a_file_that_nothing_reads_is_refused(own, tmp_path, name, complaint):
    own(name, f"{HEAD}\n".encode())
    for ask in (lambda: catalog.item("gpus", "H100"), catalog.families):
        with pytest.raises(ValueError, match=complaint):
            ask()
    status, _, err = railcore("list", "gpus", catalog_folder=tmp_path)
    assert status == 2 and err.startswith("railcore: ")


def test_a_file_that_was_edited_is_read_again(monkeypatch, tmp_path):
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    path = tmp_path / "gpus.csv"
    for size in ("80", "96"):
        path.write_text(f"{HEAD}\nX,memory,{size},,,GB,datasheet,q,,\n")
        os.utime(path, ns=(int(size), int(size)))
        assert catalog.item("gpus", "X")["memory"] == float(size) * 1e9
