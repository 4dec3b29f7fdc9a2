import csv
import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog import files, tables
from suite import workspace
from suite.__main__ import main
from suite.ledger import causes, claim_rows, claims, grounds

COUNT = "railonly2025.text.r64_tiers_rail_only"  # = 2 tiers, tolerance 0
SHARE = "railonly2025.text.r64_switch_ratio"  # = 0.75, tolerance 0.0067
BOUND = "railonly2025.text.fault_parts_ratio"  # < 1
OTHER = "railonly2025.fig5.rail_bisection"  # notebook 02
SOLVED = "predicted: HB domain of railonly2025's Table 1"  # in the reasons of COUNT and BOUND
ZERO = "railonly2025.text.fault_switch_difference"  # = 0, notebook 02
UNAVAILABLE = next(name for name in claims.claims() if name.startswith("flops2024.table1."))


def written(tmp_path, notebook="01_network_cost"):
    with (tmp_path / "claims" / f"{notebook}.csv").open(newline="", encoding="utf-8") as stream:
        return {row["id"]: row for row in csv.DictReader(stream)}


def lines(shown):
    """Cells of each line of a Markdown table, what stands below the claim as the last, by the claim's words."""
    found = {}
    for line in shown.text.replace("\u00a0", " ").splitlines():
        if match := re.match(r"\| [^|]*?: \*\*(.*?)\*\*(?:<br>)?(.*?) \| (.*) \|", line):
            found[match[1]] = [*(cell.strip() for cell in match[3].split("|")), match[2]]
    return found


@pytest.mark.parametrize(
    ("value", "paper", "relation", "tolerance", "expected"),
    [
        (2560, 2560, "=", 0, "reproduced"),
        (0.385, 0.38, "=", 0.0132, "reproduced"),
        (0.3751, 0.38, "=", 0.0128, "close"),
        (6.6, 6, "~", 0.1, "reproduced"),
        (6.61, 6, "~", 0.1, "differs"),
        (110, 100, "=", 0, "close"),
        (110.1, 100, "=", 0, "differs"),
        (-110, -100, "=", 0, "close"),
        (-100, 100, "=", 0.5, "differs"),
        (1, 1, "<", 0, "reproduced"),
        (1.05, 1, "<", 0.5, "close"),
        (1.2, 1, "<", 0.5, "differs"),
        (1, 1, ">", 0, "reproduced"),
        (0.95, 1, ">", 0, "close"),
        (0.8, 1, ">", 0, "differs"),
        (0.545, 0.54, "cut", 1 / 54, "reproduced"),
        (0.54, 0.54, "cut", 1 / 54, "reproduced"),
        (0.55, 0.54, "cut", 1 / 54, "close"),
        (0.539, 0.54, "cut", 1 / 54, "close"),
        (0, 0, "=", 0, "reproduced"),
        (-1e-3, 0, "=", 1e-3, "reproduced"),
        (1.1e-3, 0, "=", 1e-3, "differs"),
        (-1e-6, 0, ">", 0, "differs"),
        (None, 5, "=", 0, "unavailable"),
    ],
)
def test_verdict(value, paper, relation, tolerance, expected):
    assert claims.verdict(value, paper, relation, tolerance) == expected


def test_a_draw_is_met_within_the_range_of_ours():
    assert claims.drawn_range(range(1, 22)) == pytest.approx((2, 20))
    assert claims.verdict(6, 9, "=", 0.05, (5.5, 9.5)) == "reproduced"
    assert claims.verdict(6, 9, "=", 0.05, (5.5, 8.9)) == "differs"
    assert claims.verdict(9.1, 9, "=", 0.05, (9.05, 9.2)) == "reproduced"  # the median itself is near enough
    assert claims.verdict(1.05, 1, "<", 0, (0.8, 1.2)) == "close"  # a bound is held against the median


def test_deviation():
    pairs = [(110, 100), (90, 100), (-90, -100), (0.5, 0), (-0.5, 0)]
    assert [claims.deviation(*pair) for pair in pairs] == pytest.approx([0.1, -0.1, 0.1, 0.5, -0.5])


def test_record_takes_values_and_shows_them(tmp_path):
    shown = claims.record({COUNT: 2, SHARE: 0.6, BOUND: 2 / 3}, {SHARE: "against\n  the table"})
    table = lines(shown)
    assert "2 of 3 claims are reproduced" in shown.text
    assert "1 of 1 claims is reproduced" in claims.record({COUNT: 2}).text
    assert table[claims.claim(COUNT).claim] == ["= 2 tiers", "2 tiers", "exact", "predicted", SOLVED]
    expected = ["= 0.75", "0.6", "-20.00%", "differs", "stated", "against the table"]
    assert table[claims.claim(SHARE).claim] == expected
    assert table[claims.claim(BOUND).claim] == ["≤ 1", "0.667", "-33.33%", "predicted", SOLVED]
    assert written(tmp_path)[SHARE] == {
        "id": SHARE,
        "value": "0.6",
        "low": "",
        "high": "",
        "reason": "against the table",
        "basis": "stated",
    }
    assert float(written(tmp_path)[BOUND]["value"]) == pytest.approx(2 / 3, rel=1e-11)


def test_figures_have_marks_of_documents_but_with_the_readers_own_numbers(monkeypatch):
    entry = claims.claim(BOUND)
    (mark,) = claims.marks({BOUND: entry.paper_value / 2}).values()
    assert (mark.value, mark.relation, mark.ours) == (entry.paper_value, entry.relation, entry.paper_value / 2)
    assert mark.text == claims.printed_text(entry) and not mark.text.startswith("=")
    assert mark.verdict == claims.verdict_of(BOUND, mark.ours)
    monkeypatch.setattr("suite.workspace.parameterized", lambda: True)
    assert claims.marks({BOUND: 1.0}) == {}


def test_draws_are_recorded_by_their_median_and_range(tmp_path, monkeypatch):
    seeds = [0.5, 0.55, 0.6, 0.6, 0.62, 0.64, 0.7, 0.74, 0.78, 0.8]
    claims.record({COUNT: 2}, {}, {SHARE: "the slow switch"}, {SHARE: seeds})
    row = written(tmp_path)[SHARE]
    assert (row["value"], row["low"], row["high"]) == ("0.63", "0.5225", "0.791")
    told = "reading: the document's number is one draw; 5 to 95% of 10 seeds give 0.522 to 0.791; the slow switch"
    assert (row["reason"], row["basis"]) == (told, "reading")
    kept = {entry["id"]: entry for entry in claims.ledger([row])}[SHARE]
    assert kept["verdict"] == "reproduced" and kept["low"] == "0.5225"
    assert (claims.verdict_of(SHARE, 0.63), claims.verdict_of(SHARE, 0.63, seeds)) == ("differs", "reproduced")
    with pytest.raises(ValueError, match=r"is 'differs' .*ours 0.6,"):
        claims.record({}, {}, {}, {SHARE: [0.6] * 10})
    with pytest.raises(ValueError, match="has 9 draws: give at least 10"):
        claims.record({}, {}, {}, {SHARE: seeds[1:]})
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")
    assert "0.6" in claims.record({}, {}, {}, {SHARE: [0.6, 0.5, 0.7]}).text


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
    assert lines(shown)[claims.claim(UNAVAILABLE).claim][1:] == ["unavailable", "needs the maker's data"]
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
    assert lines(shown)[claims.claim(SHARE).claim] == ["= 0.75", "0.1", ""]
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
    assert all(claim_id.startswith("railonly2025.table1.") for claim_id in claims.ids("railonly2025.table1"))


def test_look_up_finds_the_row_of_each_case():
    cases = claims.cases("railonly2025.table1")
    table = pd.DataFrame(
        {"gpus": case["n"], "radix": case["r"], "cost_saving": case["n"] + case["r"]} for case in cases
    )
    values_here = claims.table_values("railonly2025.table1", table[::-1])
    assert values_here == {
        f"railonly2025.table1.n{case['n']}.r{case['r']}.cost_saving": case["n"] + case["r"] for case in cases
    }
    with pytest.raises(KeyError):
        claims.table_values("railonly2025.table1", table[1:])


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


def test_counts_of_the_ledger(facts):
    facts("claim_evidence", "claims,evidence,why", f"{COUNT},arithmetic,a product", f"{BOUND},given,typed in")
    mine = [(SHARE, "0.75", "reading"), (COUNT, "2", "stated"), (BOUND, "2", "stated")]
    rows = claims.ledger([{"id": name, "value": value, "reason": "x", "basis": basis} for name, value, basis in mine])
    verdicts, worth, bases = (
        {row["document"]: row for row in counts(rows)}
        for counts in (claims.verdict_counts, claims.evidence_counts, claims.basis_counts)
    )
    assert verdicts["all"]["claims"] == len(claims.claims())
    for document, row in verdicts.items():
        mine = document in ("railonly2025", "all")
        assert sum(row[name] for name in claims.VERDICTS) == row["claims"]
        assert row["reproduced"] == 2 * mine
        # put to a model is the ratio alone, and its reading came out; of the others one of two holds
        assert worth[document]["came out"] == bases[document]["reading"] == mine
        put = [row for row in rows if row["evidence"] == "model" and document in ("all", row["document"])]
        columns = ("came out", "set a parameter", "came within 10%", "did not come out", "no data")
        missing = sum(row["verdict"] == "missing" for row in put)
        assert sum(worth[document][name] for name in columns) + missing == worth[document]["put to a model"] == len(put)
        assert worth[document]["looked up or multiplied"].startswith("1 of " if mine else "0 of ")
        assert worth[document]["missing"] == row["missing"]
    for column in ("claims", "missing"):
        assert sum(row[column] for name, row in verdicts.items() if name != "all") == verdicts["all"][column]
    assert "missing" not in claims.evidence_counts([row | {"verdict": "close"} for row in rows])[0]


def test_a_claim_that_set_a_parameter_counts_as_that_alone():
    claim = {"document": "railonly2025", "evidence": "model", "cause": ""}
    verdicts = {"reproduced": "came out", "close": "came within 10%", "differs": "did not come out"}
    rows = [claim | {"verdict": name, "basis": basis} for name in verdicts for basis in ("calibrated", "stated")]
    counts = claims.evidence_counts(rows)[-1]
    assert (counts["put to a model"], counts["set a parameter"]) == (6, 3)
    assert all(counts[column] == 1 for column in verdicts.values())


def test_what_the_counts_say_in_sentences():
    rows = reproduction()
    text, counts = claims.evidence_text(rows), claims.evidence_counts(rows)[-1]
    used = [row for row in rows if row["evidence"] == "model" and row["basis"] == "calibrated"]
    failed = sum(row["verdict"] in claims.FAILED and row not in used for row in rows)
    verdicts = claims.verdict_counts(rows)[-1]
    short = sum(verdicts[name] for name in ("differs", "close", "unavailable"))
    for words in (
        f"Of {len(rows)} claims, {counts['put to a model']} were put to a model. {counts['came out']} of these came",
        f"{counts['came within 10%']} came within 10%, {counts['did not come out']} did not come out",
        f"{counts['no data']} have no data, and {counts['set a parameter']} set a parameter",
        f"{short} are not reproduced: ",
        f"and {short - failed} have no data or set a parameter.",
    ):
        assert words in text
    why = claims.cause_counts(rows)
    assert sum(why[-1][name] for name in causes.CAUSES) == failed
    assert all(sum(row[name] for row in why[:-1]) == why[-1][name] for name in causes.CAUSES)


@pytest.fixture
def facts(monkeypatch, tmp_path):
    """Write a file of data/ in place of the project's: its name without the ending, header and rows."""
    caches = (claims.claims, grounds.calibrations, grounds._evidence, grounds._moving, causes._causes)

    def write(name, *lines):
        replaced[f"{name}.csv"] = tmp_path / f"own_{name.replace('/', '_')}.csv"
        content = lines[0] if isinstance(lines[0], bytes) else "\n".join(lines).encode()
        replaced[f"{name}.csv"].write_bytes(content)
        for cached in caches:
            cached.cache_clear()

    replaced = {}
    monkeypatch.setattr(files, "data", lambda name: replaced.get(name, files.DATA / name))
    yield write
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def calibrations(facts):
    return lambda *rows: facts("calibrations", "parameter,free,used,predicted,note", *rows)


def test_basis_is_the_strongest_that_applies_and_stands_first_in_the_reason(calibrations, tmp_path):
    calibrations(f"p,2,{SHARE},railonly2025.text.r64_*,solved", f"q,1,{OTHER},{SHARE},solved")
    claims.record({SHARE: 0.75, COUNT: 2, BOUND: 0.5}, {BOUND: "plain"}, {COUNT: "this, not that", BOUND: "a, not b"})
    rows = written(tmp_path)
    assert (rows[SHARE]["basis"], rows[COUNT]["basis"], rows[BOUND]["basis"]) == ("calibrated", "predicted", "reading")
    assert rows[SHARE]["reason"] == "calibrated: p; predicted: q"
    assert rows[COUNT]["reason"] == "predicted: p; reading: this, not that"
    assert rows[BOUND]["reason"] == "reading: a, not b; plain"
    claims.record({BOUND: 0.5})
    assert written(tmp_path)[BOUND]["basis"] == "stated"


MOVED = "notebook,family,name,parameter,end,id,value"


def test_an_assumed_input_that_decides_the_verdict_is_what_a_claim_rests_on(facts, calibrations, tmp_path):
    facts(
        "derived/claim_inputs",
        MOVED,
        f"01_network_cost,books,b,price,low,{BOUND},0.9",
        f"01_network_cost,books,b,price,high,{BOUND},1.05",
        f"01_network_cost,books,c,price,high,{SHARE},0.751",  # moves, and decides nothing
        f"01_network_cost,derived,data/derived/x.csv,,+1%,{COUNT},3",  # stored results have no ends
        f"01_network_cost,,all of these together,,high,{OTHER},9",
    )
    calibrations(f"q,1,{OTHER},railonly2025.text.r64_switch_ratio,solved")
    claims.record({BOUND: 0.95, COUNT: 2, SHARE: 0.75}, {}, {BOUND: "a, not b"})
    rows = written(tmp_path)
    assert (rows[BOUND]["basis"], rows[COUNT]["basis"], rows[SHARE]["basis"]) == ("assumed", "stated", "predicted")
    assert [moved.end for moved in claims.decided_by_assumed(BOUND, "reproduced")] == ["high"]
    assert [moved.end for moved in claims.decided_by_assumed(BOUND, "close")] == ["low"]
    assert claims.decided_by_assumed(OTHER, "reproduced")[0].name == "all of these together"
    assert not claims.decided_by_assumed(SHARE, "reproduced") and not claims.decided_by_assumed(COUNT, "reproduced")
    assert [moved.value for moved in grounds.moving_inputs(COUNT)] == [3]


def test_a_claim_is_shown_with_what_moves_it_first(facts, capsys):
    published = {row["id"]: row for row in reproduction()}
    entry = claims.claim("nwktimes2025.fig14_1.scale_up_delay")
    facts(
        "derived/claim_inputs",
        MOVED,
        f"18_cluster_networks,latencies,NVSwitch 3,latency,low,{entry.id},4e-7",
        f"18_cluster_networks,latencies,NVSwitch 3,latency,high,{entry.id},6e-7",
        f"18_cluster_networks,latencies,H100 NVLink port,latency,high,{entry.id},2e-6",
        f"18_cluster_networks,derived,data/derived/x.csv,,+1%,{entry.id},5e-7",
        f"18_cluster_networks,platforms,DGX H100,nic_bandwidth,larger,{entry.id},5e-7",
        f"18_cluster_networks,pcie,Gen5,,larger,{entry.id},5e-7",
    )
    assert published[entry.id]["verdict"] == "reproduced"
    assert main(["claim", entry.id]) == 0
    printed = capsys.readouterr().out
    decides, moves, stored = (printed.index(text) for text in ("NVLink port, latency", "NVSwitch 3, latency", "x.csv"))
    assert decides < moves < stored < printed.index("settings")
    _, listed = printed.split("numbers of the catalog that move it:")
    assert "platforms: DGX H100, nic_bandwidth" in listed and "DGX H100, gpus" not in listed
    assert "pcie: Gen5, lane_rate" in listed and "pcie: Gen5, coding_line" in listed and "Gen4" not in listed
    assert "ours 2 µs (decides the verdict)" in printed and "ours 400 ns to 600 ns" in printed
    assert "stored results, whose inputs cannot be varied" in printed


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("railonly2025.no_such,given,x", "claim_evidence.csv, railonly2025.no_such: .* fits no claim"),
        (f"{COUNT},guess,x", "evidence is one of model, construction, measured, arithmetic, given"),
        (f"{COUNT},given, ", "no cell is blank"),
        ("railonly2025.text.r64_tiers_*,given,x", f"{COUNT} is named by another row too"),
    ],
)
def test_evidence_that_cannot_be_read_is_refused(facts, row, message):
    facts("claim_evidence", "claims,evidence,why", f"{COUNT},arithmetic,a product", row)
    with pytest.raises(ValueError, match=message):
        grounds.evidence(COUNT)


def test_a_long_reason_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"'{SHARE}' has a reason of 61 words, .*say in at most 60"):
        claims.record({SHARE: 0.6}, {SHARE: "word " * 61})
    assert not (tmp_path / "claims").exists()
    claims.record({SHARE: 0.6}, {SHARE: "word " * 60})


HEADER = "id,document,where,claim,paper_value,unit,relation,tolerance,note,notebook"
FIRST = "railonly2025.a.b,railonly2025,Fig. 1,words,3,GPUs,=,0,,01_network_cost"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({4: ""}, "line 3, column paper_value is '': it may not be blank"),
        ({4: "nan"}, "line 3, column paper_value is 'nan': write a finite number"),
        ({4: "many"}, "column paper_value is 'many': write a finite number"),
        ({7: "-0.1"}, "column tolerance is '-0.1': write 0 or more"),
        ({7: ""}, "column tolerance is '': it may not be blank"),
        ({7: "0.1"}, "column tolerance is '0.1': the digits give 0.167: write it, or say why: tolerance: ..."),
        ({4: "2.5"}, "column tolerance is '0': the digits give 0.02"),  # no whole count
        ({5: "s"}, "column tolerance is '0': the digits give 0.167"),
        ({5: "furlongs"}, "column unit is 'furlongs': it is unknown"),
        ({6: "=="}, "column relation is '=='"),
        ({0: "railonly2025.a.b"}, "column id is 'railonly2025.a.b': it is there twice"),
        ({0: "railonly2023.a.b"}, "column id is .*begin it with the document"),
        ({9: "99_no_such"}, "column notebook is '99_no_such'"),
        ({9: "01_network_cost,more"}, "more or fewer cells"),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused_by_line_and_column(facts, changed, message):
    cells = "railonly2025.a.c,railonly2025,Fig. 1,words,3,GPUs,=,0,,01_network_cost".split(",")
    facts("claims", HEADER, FIRST, ",".join(changed.get(i, cell) for i, cell in enumerate(cells)))
    with pytest.raises(ValueError, match=f"data/claims.csv, line 3.*{message}|{message}"):
        claims.claims()


@given(st.integers(1, 999), st.integers(-6, 9), st.sampled_from(["=", "~", "cut"]))
def test_a_tolerance_is_that_of_the_last_printed_digit_that_is_not_0(digits, power, relation):
    unit = 10.0**power * (100 if digits % 100 == 0 else 10 if digits % 10 == 0 else 1)
    width = unit * (1 if relation == "cut" else 0.5) / (digits * 10.0**power)
    row = dict(zip(HEADER.split(","), FIRST.split(","), strict=True))
    row |= {"paper_value": f"{digits}e{power}", "unit": "s", "relation": relation}
    entry = claim_rows._checked(2, row | {"tolerance": f"{width:.4g}"}, {row["notebook"]})
    for other in (0.8 * width, 1.2 * width, 0.0):
        with pytest.raises(ValueError, match="the digits give"):
            claim_rows._checked(2, row | {"tolerance": str(other)}, {row["notebook"]})
    for share, holds in ((0.49, True), (-0.49, relation != "cut"), (0.51, relation == "cut"), (1.01, False)):
        value = entry.paper_value + share * unit
        judged = claims.verdict(value, entry.paper_value, entry.relation, entry.tolerance)
        assert (judged == "reproduced") == holds


def test_another_tolerance_has_its_reason(facts):
    facts("claims", HEADER, FIRST.replace(",=,0,,", ",=,0.2,tolerance: read off a curve,"))
    assert claims.claim("railonly2025.a.b").tolerance == 0.2


@pytest.mark.parametrize("relation", ["<", ">"])
def test_a_bound_needs_no_tolerance(facts, relation):
    facts("claims", HEADER, FIRST.replace(",=,0,", f",{relation},,"))
    assert claims.claim("railonly2025.a.b").tolerance == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER.replace("unit", "units").encode(), "data/claims.csv has the columns .*units.*: it must have"),
        (f"{HEADER}\n{FIRST}".encode("utf-16"), "data/claims.csv is no CSV text in UTF-8"),
        (f"{HEADER}\n{FIRST.replace('words', 'Zürich')}".encode("latin-1"), "data/claims.csv is no CSV text in UTF-8"),
        (bytes(range(256)), "data/claims.csv is no CSV text in UTF-8"),
        (f"{HEADER}\n{FIRST.replace('words', chr(34) + 'open')}".encode(), "data/claims.csv is no CSV text in UTF-8"),
    ],
)
def test_a_file_that_is_no_table_of_claims_is_named(facts, content, message):
    facts("claims", content)
    with pytest.raises(ValueError, match=message):
        claims.claims()


def test_the_documents_claims_and_their_evidence_can_be_read():
    assert len(claims.claims()) > 430
    assert {grounds.evidence(name) for name in claims.claims()} == set(grounds.EVIDENCE)


def test_calibrated_parameters_beside_what_they_use_and_predict(calibrations):
    calibrations(f"p,2,{SHARE},railonly2025.text.r64_*,solved from one", f"q,1,{OTHER},{BOUND},not computed yet")
    rows = [{"id": SHARE, "verdict": "reproduced"}, {"id": COUNT, "verdict": "differs"}]
    (row,) = grounds.calibration_counts(rows)
    assert (row["parameter"], row["free"], row["claims or runs used"], row["predicted"]) == ("p", 2, 1, 1)
    assert row["of these reproduced"] == 0
    rows[1]["verdict"] = "reproduced"
    assert grounds.calibration_counts(rows)[0]["of these reproduced"] == 1


def test_a_calibration_names_claims_that_exist(calibrations):
    calibrations("p,1,railonly2025.no_such_*,,x")
    with pytest.raises(ValueError, match=r"calibrations.csv, p: 'railonly2025.no_such_\*' fits no claim"):
        grounds.calibrations()


def test_every_calibration_is_well_formed():
    for calibration in grounds.calibrations():
        assert calibration.free >= 1
        assert calibration.used or calibration.runs
        assert calibration.note
        assert not set(calibration.used) & set(calibration.predicted)


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
    with (workspace.FIGURES / "reproduction.csv").open(newline="", encoding="utf-8") as stream:
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
    rows_by_verdict = {}
    for row in reproduction():
        paper, tolerance = float(row["paper_value"]), float(row["tolerance"])
        rows_by_verdict.setdefault(row["verdict"], []).append(row)
        if row["value"]:
            value = float(row["value"])
            off = (value - paper) / abs(paper) if paper else value
            drawn = (float(row["low"]), float(row["high"])) if row["low"] else None
            assert row["verdict"] == claims.verdict(value, paper, row["relation"], tolerance, drawn), row["id"]
            assert bool(row["low"]) == bool(row["high"]) == ("the document's number is one draw" in row["reason"])
            assert float(row["deviation"]) == pytest.approx(off, rel=1e-5, abs=1e-11)
        else:
            assert row["verdict"] in ("missing", "unavailable")
            assert row["deviation"] == ""
    assert set(rows_by_verdict) <= set(claims.VERDICTS)
    assert rows_by_verdict["reproduced"]
    for verdict, rows in rows_by_verdict.items():
        if verdict not in ("reproduced", "missing"):
            assert [row["id"] for row in rows if not row["reason"].strip()] == []
    assert all(row["id"].startswith("flops2024.table1.") for row in rows_by_verdict.get("unavailable", []))
    assert all(row["value"] == row["reason"] == "" for row in rows_by_verdict.get("missing", []))


def test_every_published_basis_follows_from_the_calibrations_and_stands_in_the_reason():
    order = list(grounds.BASES)
    for row in reproduction():
        if row["verdict"] in ("missing", "unavailable"):
            assert row["basis"] == ""
            continue
        hows = grounds.calibrations_of(row["id"]).values()
        assert row["basis"] in order
        assert (row["basis"] in ("calibrated", "predicted")) == bool(hows), row["id"]
        assert row["basis"] == max([row["basis"], *hows], key=order.index)
        assumed = claims.decided_by_assumed(row["id"], row["verdict"])
        assert row["basis"] == "assumed" or not assumed or order.index(row["basis"]) > order.index("assumed")
        assert row["basis"] != "assumed" or assumed, row["id"]
        told = row["reason"].startswith(tuple(f"{how}: " for how in [*hows, "reading"]))
        assert told or row["basis"] in ("stated", "assumed"), row["id"]


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


@pytest.mark.parametrize(
    ("claim_id", "value", "shown"),
    [
        (SHARE, 0.765277, "0.765"),  # beside 0.75
        ("railonly2025.table1.n32768.r64.switches_rail_only", 1540, "1,540 switches"),
        ("photonic2025.intro.iteration_overhead", 0.034999, "0.035"),
        ("photonic2025.intro.iteration_overhead", 0.035012, "0.035012"),  # 0.035 would be within the tolerance
        ("flops2024.scaling.params", 103.7808e12, "103.78 T parameters"),
    ],
)
def test_ours_has_the_digits_that_are_compared(claim_id, value, shown):
    row = {"id": claim_id, "value": f"{value}", "verdict": "", "basis": "", "reason": ""}
    assert claims.comparison_row(row)["ours"] == shown


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
    ids = {
        text: [entry.id for entry in claims.matching_claims(text)] for text in ("70.5%", "0.705", "0.70", "61 of 80")
    }
    assert "photonic2025.fig7.cost_saving_max" in ids["70.5%"] and not ids["0.70"]
    assert ids["0.705"] == ["photonic2025.fig7.cost_saving_max"]
    assert ids["61 of 80"] == ["photonic2025.fig4.windows_over_1ms"]
