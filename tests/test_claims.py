import csv
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.facts import claims, files, tables

COUNT = "railonly2025.text.r64_tiers_rail_only"  # = 2 tiers, tolerance 0
SHARE = "railonly2025.text.r64_switch_ratio"  # = 0.75, tolerance 0.0067
BOUND = "railonly2025.text.fault_parts_ratio"  # < 1
OTHER = "railonly2025.fig5.rail_bisection"  # notebook 02
ZERO = "railonly2025.text.fault_switch_difference"  # = 0, notebook 02
UNAVAILABLE = next(name for name in claims.claims() if name.startswith("flops2024.table1."))


def holds(value, relation, paper, tolerance):
    slack = tolerance * (abs(paper) or 1) + 1e-12 * (abs(paper) or 1)
    return {"<": value <= paper, ">": value >= paper}.get(relation, paper - slack <= value <= paper + slack)


def judged(value, relation, paper, tolerance):
    if holds(value, relation, paper, tolerance):
        return "reproduced"
    return "close" if paper != 0 and abs(value - paper) <= 0.1 * abs(paper) else "differs"


def written(tmp_path, notebook="01_network_cost"):
    with (tmp_path / "claims" / f"{notebook}.csv").open(newline="", encoding="utf-8") as stream:
        return {row["id"]: row for row in csv.DictReader(stream)}


def lines(shown):
    """Cells of each line of a Markdown table, by the claim's words."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in shown.text.splitlines() if "|" in line]
    return {cells[1]: [cell.replace("\u00a0", " ") for cell in cells[2:]] for cells in rows if len(cells) > 2}


@pytest.mark.parametrize(
    ("value", "paper", "relation", "tolerance", "expected"),
    [
        (2560, 2560, "=", 0, "reproduced"),
        (2561, 2560, "=", 0, "close"),
        (0.385, 0.38, "=", 0.0132, "reproduced"),
        (0.3751, 0.38, "=", 0.0128, "close"),
        (6.6, 6, "~", 0.1, "reproduced"),
        (5.4, 6, "~", 0.1, "reproduced"),
        (6.61, 6, "~", 0.1, "differs"),
        (6.61, 6, "~", 0.11, "reproduced"),
        (110, 100, "=", 0, "close"),
        (90, 100, "=", 0, "close"),
        (110.1, 100, "=", 0, "differs"),
        (-110, -100, "=", 0, "close"),
        (-100, 100, "=", 0.5, "differs"),
        (1, 1, "<", 0, "reproduced"),
        (-50, 1, "<", 0, "reproduced"),
        (1.05, 1, "<", 0.5, "close"),
        (1.2, 1, "<", 0.5, "differs"),
        (1, 1, ">", 0, "reproduced"),
        (50, 1, ">", 0, "reproduced"),
        (0.95, 1, ">", 0, "close"),
        (0.8, 1, ">", 0, "differs"),
        (0, 0, "=", 0, "reproduced"),
        (1e-3, 0, "=", 1e-3, "reproduced"),
        (-1e-3, 0, "=", 1e-3, "reproduced"),
        (1.1e-3, 0, "=", 1e-3, "differs"),
        (1e-6, 0, "=", 0, "differs"),
        (-1e-6, 0, ">", 0, "differs"),
        (None, 5, "=", 0, "unavailable"),
    ],
)
def test_verdict(value, paper, relation, tolerance, expected):
    assert claims.verdict(value, paper, relation, tolerance) == expected


@given(
    st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from(list(claims.RELATIONS)), st.sampled_from([0, 0.01, 0.3])
)
def test_verdict_by_another_formula(value, paper, relation, tolerance):
    edges = [abs(abs(value - paper) - share * (abs(paper) or 1)) for share in (tolerance, 0.1)]
    if value == paper or min(edges) > 1e-9 * max(1, abs(paper)):
        assert claims.verdict(value, paper, relation, tolerance) == judged(value, relation, paper, tolerance)


def test_unknown_relation():
    with pytest.raises(ValueError, match="relation '<=' is none of"):
        claims.verdict(1, 1, "<=", 0)


def test_deviation():
    pairs = [(110, 100), (90, 100), (-90, -100), (0.5, 0), (-0.5, 0)]
    assert [claims.deviation(*pair) for pair in pairs] == pytest.approx([0.1, -0.1, 0.1, 0.5, -0.5])


def test_record_takes_values_and_shows_them(tmp_path):
    shown = claims.record({COUNT: 2, SHARE: 0.6, BOUND: 2 / 3}, {SHARE: "against\n  the table"})
    table = lines(shown)
    assert "2 of 3 claims are reproduced" in shown.text
    assert "1 of 1 claims is reproduced" in claims.record({COUNT: 2}).text
    assert table[claims.claim(COUNT).claim] == ["= 2 tiers", "2 tiers", "exact", "reproduced", "stated", ""]
    expected = ["= 0.75", "0.6", "-20.00%", "differs", "stated", "against the table"]
    assert table[claims.claim(SHARE).claim] == expected
    assert table[claims.claim(BOUND).claim] == ["≤ 1", "0.666667", "-33.33%", "reproduced", "stated", ""]
    assert written(tmp_path)[SHARE] == {
        "id": SHARE,
        "value": "0.6",
        "reason": "against the table",
        "basis": "stated",
    }
    assert float(written(tmp_path)[BOUND]["value"]) == pytest.approx(2 / 3, rel=1e-11)


def test_records_of_several_cells_come_together_in_file_order(tmp_path):
    order = [name for name in claims.claims() if name in (COUNT, SHARE, BOUND)]
    for name in reversed(order):
        claims.record({name: claims.paper_value(name)})
    claims.record({SHARE: 0.751})
    assert list(written(tmp_path)) == order
    assert written(tmp_path)[SHARE]["value"] == "0.751"


@pytest.mark.parametrize(
    ("values", "reasons", "complaint"),
    [
        ({"railonly2025.text.r64_tier_rail_only": 2}, {}, f"does not exist: the nearest are .*'{COUNT}'"),
        ({OTHER: 1}, {}, f"claim '{OTHER}' belongs to notebook 02_topologies, this is 01_network_cost"),
        ({BOUND: math.nan}, {}, f"claim '{BOUND}' has value nan: record a finite number in 'x'"),
        ({BOUND: math.inf}, {}, f"claim '{BOUND}' has value inf"),
        ({BOUND: -math.inf}, {}, f"claim '{BOUND}' has value -inf"),
        ({BOUND: "0.5"}, {}, f"claim '{BOUND}' has value '0.5'"),
        ({BOUND: None}, {BOUND: "no data"}, f"claim '{BOUND}' has value None: only one with .* in its note"),
        ({SHARE: 0.6}, {}, f"claim '{SHARE}' is 'differs' .*ours 0.6, =.0.75 expected.*: give a reason"),
        ({SHARE: 0.7}, {SHARE: " \n"}, f"claim '{SHARE}' is 'close'"),
        ({BOUND: 0.5}, {ZERO: "stray"}, f"reason for '{ZERO}' has no value"),
    ],
)
def test_a_refused_row_writes_nothing(tmp_path, values, reasons, complaint):
    claims.record({COUNT: 2})
    before = written(tmp_path)
    with pytest.raises(ValueError, match=complaint):
        claims.record({COUNT: claims.paper_value(COUNT), SHARE: 0.75, **values}, reasons)
    assert written(tmp_path) == before
    assert [path.name for path in tmp_path.rglob("*.csv")] == ["01_network_cost.csv"]


def test_only_unpublished_data_are_unavailable(tmp_path):
    shown = claims.record({UNAVAILABLE: None}, {UNAVAILABLE: "needs the maker's data"})
    assert lines(shown)[claims.claim(UNAVAILABLE).claim][-3:] == ["unavailable", "", "needs the maker's data"]
    assert written(tmp_path, claims.claim(UNAVAILABLE).notebook)[UNAVAILABLE]["value"] == ""


@pytest.mark.parametrize("noise", [3e-13, -3e-13, 0.0, -0.0])
def test_noise_where_the_document_says_zero(tmp_path, noise):
    claims.record({ZERO: noise})
    assert written(tmp_path, "02_topologies")[ZERO]["value"] == "0"


def test_no_noise_is_taken_for_zero_elsewhere(tmp_path):
    claims.record({ZERO: 64, OTHER: 1e-13}, dict.fromkeys((ZERO, OTHER), "far off"))
    assert {name: row["value"] for name, row in written(tmp_path, "02_topologies").items()} == {
        ZERO: "64",
        OTHER: "1e-13",
    }


@pytest.mark.parametrize("name", ["RAILCORE_PARAMETERIZED", "RAILCORE_CATALOG"])
def test_a_users_numbers_get_no_verdict(monkeypatch, tmp_path, name):
    monkeypatch.setenv(name, str(tmp_path))
    shown = claims.record({SHARE: 0.1, COUNT: 7})
    assert lines(shown)[claims.claim(SHARE).claim] == ["= 0.75", "0.1"]
    assert not any(verdict in shown.text for verdict in ("reproduced", "differs", "close", "expected"))
    assert "your numbers" in shown.text
    assert claims.claim(SHARE).claim not in claims.record({SHARE: math.nan, COUNT: 7}).text


def test_unknown_ids_list_the_nearest():
    for ask in (claims.claim, claims.paper_value):
        with pytest.raises(KeyError, match=COUNT):
            ask("railonly2025.text.r64_tiers_railonly")
    with pytest.raises(ValueError, match=r"'railonly2025\.table1\.n32768\.r64'|'railonly2025\.table"):
        claims.ids("railonly2025.table9")


def test_cases_of_a_table():
    name = "railonly2025.table1.n32768.r64.cost_saving"
    assert claims.case(name) == {"n": 32768, "r": 64}
    assert claims.case(COUNT) == claims.case("railonly2025.fig1.cost_65536_400g") == {}
    cases = claims.cases("railonly2025.table1")
    assert len(cases) == 6
    assert cases[:2] == [{"n": 32768, "r": 64}, {"n": 32768, "r": 128}]
    assert name in claims.ids("railonly2025.table1")
    assert all(found.startswith("railonly2025.table1.") for found in claims.ids("railonly2025.table1"))


def test_look_up_finds_the_row_of_each_case():
    cases = claims.cases("railonly2025.table1")
    table = pd.DataFrame(
        {"gpus": case["n"], "radix": case["r"], "cost_saving": case["n"] + case["r"]} for case in cases
    )
    found = claims.table_values("railonly2025.table1", table[::-1])
    assert found == {
        f"railonly2025.table1.n{case['n']}.r{case['r']}.cost_saving": case["n"] + case["r"] for case in cases
    }
    with pytest.raises(KeyError):
        claims.table_values("railonly2025.table1", table[1:])


def test_every_claim_is_well_formed():
    entries = claims.claims().values()
    assert len(entries) == len({entry.id for entry in entries}) > 400
    assert {entry.relation for entry in entries} <= set(claims.RELATIONS)
    for entry in entries:
        assert entry.id.startswith(f"{entry.document}.")
        assert math.isfinite(entry.paper_value)
        assert 0 <= entry.tolerance < 1
        assert entry.unit
        assert entry.notebook[:2].isdigit()


def test_ledger_has_a_row_for_each_claim():
    reason = "against the table"
    rows = claims.ledger(
        [
            {"id": SHARE, "value": "0.6", "reason": reason, "basis": "stated"},
            {"id": UNAVAILABLE, "value": "", "reason": "no data", "basis": ""},
        ]
    )
    assert [row["id"] for row in rows] == list(claims.claims())
    assert [set(claims.LEDGER_COLUMNS) <= set(row) for row in rows] == [True] * len(rows)
    by_id = {row["id"]: row for row in rows}
    assert {name for name, row in by_id.items() if row["verdict"] != "missing"} == {SHARE, UNAVAILABLE}
    row = by_id[SHARE]
    assert (row["value"], row["deviation"], row["verdict"], row["reason"]) == ("0.6", "-0.2", "differs", reason)
    assert (by_id[UNAVAILABLE]["verdict"], by_id[UNAVAILABLE]["deviation"]) == ("unavailable", "")
    assert (by_id[COUNT]["value"], by_id[COUNT]["deviation"], by_id[COUNT]["reason"]) == ("", "", "")
    assert by_id[SHARE]["paper_value"] == "0.75"


def test_counts_of_the_ledger():
    rows = claims.ledger([{"id": SHARE, "value": "0.75", "reason": "reading: x, not y", "basis": "reading"}])
    table = {row["document"]: row for row in claims.claim_counts(rows)}
    assert table["all"]["claims"] == len(claims.claims())
    for row in table.values():
        assert sum(row[name] for name in claims.VERDICTS) == row["claims"]
        assert row["reproduced"] == sum(row[f"reproduced, {basis}"] for basis in claims.BASES)
        assert row["reproduced, reading"] == (row["document"] in ("railonly2025", "all"))
    for column in ("claims", "missing"):
        assert sum(row[column] for name, row in table.items() if name != "all") == table["all"][column]


@pytest.fixture
def calibrations(monkeypatch, tmp_path):
    def write(*rows):
        (tmp_path / "calibrations.csv").write_text("\n".join(["parameter,free,used,predicted,note", *rows]))

    monkeypatch.setattr(files, "data", lambda name: tmp_path / name if "calib" in name else files.DATA / name)
    claims.calibrations.cache_clear()
    yield write
    claims.calibrations.cache_clear()


def test_basis_is_the_strongest_that_applies_and_stands_first_in_the_reason(calibrations, tmp_path):
    calibrations(f"p,2,{SHARE},railonly2025.text.r64_*,solved", f"q,1,{OTHER},{SHARE},solved")
    claims.record({SHARE: 0.75, COUNT: 2, BOUND: 0.5}, {BOUND: "plain"}, {COUNT: "this, not that", BOUND: "a, not b"})
    rows = written(tmp_path)
    assert (rows[SHARE]["basis"], rows[COUNT]["basis"], rows[BOUND]["basis"]) == ("calibrated", "predicted", "reading")
    assert rows[SHARE]["reason"] == f"calibrated: p from {SHARE}; predicted: q from {OTHER}"
    assert rows[COUNT]["reason"] == f"predicted: p from {SHARE}; reading: this, not that"
    assert rows[BOUND]["reason"] == "reading: a, not b; plain"
    claims.record({BOUND: 0.5})
    assert written(tmp_path)[BOUND]["basis"] == "stated"


def test_calibrated_parameters_beside_what_they_use_and_predict(calibrations):
    calibrations(f"p,2,{SHARE},railonly2025.text.r64_*,solved from one", f"q,1,{OTHER},{BOUND},not computed yet")
    rows = [{"id": SHARE, "verdict": "reproduced"}, {"id": COUNT, "verdict": "differs"}]
    (row,) = claims.calibration_counts(rows)
    assert (row["parameter"], row["free"], row["claims or runs used"], row["predicted"]) == ("p", 2, 1, 1)
    assert row["of these reproduced"] == 0
    rows[1]["verdict"] = "reproduced"
    assert claims.calibration_counts(rows)[0]["of these reproduced"] == 1


def test_a_calibration_names_claims_that_exist(calibrations):
    calibrations("p,1,railonly2025.no_such_*,,x")
    with pytest.raises(ValueError, match=r"calibrations.csv, p: 'railonly2025.no_such_\*' fits no claim"):
        claims.calibrations()


def test_every_calibration_is_well_formed():
    for each in claims.calibrations():
        assert each.free >= 1
        assert each.used or each.runs
        assert each.note
        assert not set(each.used) & set(each.predicted)


def test_tables_as_text():
    rows = [{"a": 1, "b": "x|y"}, {"a": "2,5", "b": ""}]
    table = tables.markdown_table(rows).splitlines()
    assert [table[0], *table[2:]] == ["| a | b |", "| 1 | x/y |", "| 2,5 |  |"]
    assert table[1] == "| ---: | :--- |"  # numbers to the right
    assert tables.csv_text(("b", "a"), [{**row, "c": 0} for row in rows]) == 'b,a\nx|y,1\n,"2,5"\n'


def test_a_number_in_a_table_does_not_part_from_its_unit():
    cells = {"cost": "305.2 M USD", "parts": "32,768 GPUs, radix 64", "found": "2 of 3 places", "rate": "≤ 3.4 GB/s"}
    _, right, row = tables.markdown_table([cells]).splitlines()
    assert row == "| 305.2~M~USD | 32,768~GPUs, radix 64 | 2 of 3 places | ≤ 3.4~GB/s |".replace("~", "\u00a0")
    assert right == "| ---: | :--- | :--- | ---: |"


def reproduction():
    with (files.FIGURES / "reproduction.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_published_ledger_holds_every_claim_as_the_data_have_it():
    rows = reproduction()
    assert list(rows[0]) == claims.LEDGER_COLUMNS
    with files.data("claims.csv").open(newline="", encoding="utf-8") as stream:
        for row, source in zip(rows, csv.DictReader(stream), strict=True):
            for column in ("id", "document", "where", "claim", "unit", "relation", "note", "notebook"):
                assert row[column] == source[column]
            for column in ("paper_value", "tolerance"):
                assert float(row[column]) == pytest.approx(float(source[column] or 0), rel=1e-11)


def test_every_published_verdict_follows_from_value_relation_and_tolerance():
    found = {}
    for row in reproduction():
        paper, tolerance = float(row["paper_value"]), float(row["tolerance"])
        found.setdefault(row["verdict"], []).append(row)
        if row["value"]:
            value = float(row["value"])
            off = (value - paper) / abs(paper) if paper else value
            assert row["verdict"] == judged(value, row["relation"], paper, tolerance), row["id"]
            assert float(row["deviation"]) == pytest.approx(off, rel=1e-5, abs=1e-11)
        else:
            assert row["verdict"] in ("missing", "unavailable")
            assert row["deviation"] == ""
    assert set(found) <= set(claims.VERDICTS)
    assert found["reproduced"]
    for verdict, rows in found.items():
        if verdict not in ("reproduced", "missing"):
            assert [row["id"] for row in rows if not row["reason"].strip()] == []
    assert all(row["id"].startswith("flops2024.table1.") for row in found.get("unavailable", []))
    assert all(row["value"] == row["reason"] == "" for row in found.get("missing", []))


def test_every_published_basis_follows_from_the_calibrations_and_stands_in_the_reason():
    order = list(claims.BASES)
    for row in reproduction():
        if row["verdict"] in ("missing", "unavailable"):
            assert row["basis"] == ""
            continue
        hows = claims.calibrations_of(row["id"]).values()
        assert row["basis"] in order
        assert (row["basis"] in ("calibrated", "predicted")) == bool(hows), row["id"]
        assert row["basis"] == max([row["basis"], *hows], key=order.index)
        assert (row["basis"] == "stated") or row["reason"].startswith(tuple(f"{how}: " for how in [*hows, "reading"]))


def test_unavailable_needs_a_reason():
    with pytest.raises(ValueError, match=f"claim '{UNAVAILABLE}' is 'unavailable'"):
        claims.record({UNAVAILABLE: None})


def test_recording_nothing(tmp_path):
    assert "0 of 0 claims" in claims.record({}).text
    assert not (tmp_path / "claims").exists()


@pytest.mark.parametrize(("value", "deviation"), [("1536", "exact"), ("1536.00000001", "exact"), ("1540", "+0.26%")])
def test_the_last_digits_of_a_machine_leave_a_value_exact(value, deviation):
    row = {"id": "railonly2025.table1.n32768.r64.switches_rail_only", "value": value}
    assert claims.comparison_row({**row, "verdict": "", "basis": "", "reason": ""})["deviation"] == deviation


def test_a_rate_is_no_count():
    assert claims.claim_amount(1, "1/s") == "1 1/s" and claims.claim_amount(1, "racks") == "1 rack"


@given(st.floats(-0.02, 0.02))
def test_a_value_is_within_the_printed_digit_when_it_rounds_to_what_is_printed(off):
    entry = claims.claim("photonic2025.intro.iteration_overhead")  # 0.03
    assert entry.relation == "=" and not claims.within_printed_digit(entry.paper_value, entry)
    if abs(abs(off) - 0.005) > 1e-6 and abs(off) > 1e-6:
        rounds = float(f"{entry.paper_value + off:.2f}") == entry.paper_value
        assert claims.within_printed_digit(entry.paper_value + off, entry) == rounds


def test_claims_are_found_by_value_note_and_words():
    found = {
        text: [entry.id for entry in claims.matching_claims(text)] for text in ("70.5%", "0.705", "0.70", "61 of 80")
    }
    assert "photonic2025.fig7.cost_saving_max" in found["70.5%"] and not found["0.70"]
    assert found["0.705"] == ["photonic2025.fig7.cost_saving_max"]
    assert found["61 of 80"] == ["photonic2025.fig4.windows_over_1ms"]
