"""The report on the reproduction: contradictions with our numbers, and the ledger as tables."""

import pytest

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from suite import workspace
from suite.charts import ledger as ledger_charts
from suite.ledger import causes, claims, reproduction

LEDGER = read_csv(workspace.FIGURES / "reproduction.csv")


def row(claim_id):
    return next(row for row in LEDGER if row["id"] == claim_id)


def test_what_does_not_come_out_has_one_cause_and_nothing_else_has():
    assert {row["cause"] for row in LEDGER} == {"", *causes.CAUSES}
    for entry in LEDGER:
        failed = entry["verdict"] in claims.FAILED
        assert bool(causes.cause(entry["id"])) == failed and causes.cause(entry["id"]) == entry["cause"], entry["id"]


def test_every_claim_that_was_put_to_a_model_has_its_part_of_a_bar():
    *documents, every = claims.evidence_counts(LEDGER)
    (ax,) = ledger_charts.claims_put_to_a_model(documents, "claims").axes
    assert sum(patch.get_width() for patch in ax.patches) == every["put to a model"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{other},guess", "cause is one of not printed, ours, and no cell is blank"),
        ("{other},contradiction", "cause is one of not printed, ours"),
        ("no.such,ours", "fits no claim"),
        ("{listed},ours", "stands in data/contradictions.csv too: name it once"),
        ("{other},ours\n{other},not printed", "is named by another row too"),
    ],
)
def test_damaged_causes_are_refused(text, message, tmp_path, monkeypatch):
    listed = causes.contradictions()[0].claim
    other = next(name for name in claims.claims() if not causes.cause(name))
    path, data = tmp_path / "claim_causes.csv", files.data
    path.write_text("claims,cause\n" + text.format(listed=listed, other=other) + "\n")
    monkeypatch.setattr(files, "data", lambda name: path if name == path.name else data(name))
    causes._causes.cache_clear()
    with pytest.raises(ValueError, match=message):
        causes.cause(other)
    monkeypatch.undo()
    causes._causes.cache_clear()


def test_contradictions_are_in_order_of_weight_with_our_numbers():
    table = reproduction.contradiction_table(LEDGER)
    assert table["weight"].is_monotonic_decreasing and (table["weight"] > 0).all()
    assert len(table) == len(causes.contradictions()) == table["claim"].nunique()
    ratio = table.set_index("claim").loc["railonly2025.text.r64_switch_ratio"]
    assert ratio["printed"] == "=\u00a00.75" and ratio["ours"] == "0.6" and ratio["weight"] == pytest.approx(0.2)
    formula = table.set_index("claim").loc["railonly2023.table1.hb_domain_product"]
    assert (formula["printed"], formula["ours"]) == ("a formula", "off by 300%")
    none = table.set_index("claim").loc["railonly2023.fault.rail_switch_difference"]
    assert none["weight"] == 1 and none["printed"] == "=\u00a00 GPUs"


def test_a_ledger_without_a_claims_value_is_refused():
    with pytest.raises(ValueError, match=r"the ledger has no value of .*: run make figures"):
        reproduction.contradiction_table(LEDGER[:5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no.such,a,b", "line 2: claim is 'no.such', which data/claims.csv has not"),
        ("{id},,b", "line 2: says is blank"),
        ("{id},a, ", "line 2: against is blank"),
        ("{id},a,b\n{id},c,d", "line 3: claim .* is given twice"),
        ("{id} {id},a,b", "line 2: claim .* is given twice"),
        ("{id} no.such,a,b", "line 2: claim is 'no.such', which data/claims.csv has not"),
    ],
)
def test_damaged_contradictions_are_refused_by_line(text, message, tmp_path, monkeypatch):
    path = tmp_path / "contradictions.csv"
    path.write_text("claim,says,against\n" + text.format(id=LEDGER[0]["id"]) + "\n")
    monkeypatch.setattr(files, "data", lambda name: path)
    causes.contradictions.cache_clear()
    with pytest.raises(ValueError, match=message):
        causes.contradictions()
    monkeypatch.undo()
    causes.contradictions.cache_clear()


def test_a_claim_that_repeats_an_error_has_its_cause_and_no_contradiction_of_its_own():
    rows = [row for row in causes.contradictions() if row.copies]
    assert rows and {causes.cause(name) for row in rows for name in row.copies} == {causes.CONTRADICTION}
    assert not {row.claim for row in causes.contradictions()} & {name for row in rows for name in row.copies}


def test_deviations_are_of_claims_that_print_a_number():
    table = reproduction.deviations(LEDGER).set_index("id")
    assert (table["off"] >= 0).all() and set(table["verdict"]) == {"reproduced", "close", "differs"}
    for name in table.index:
        entry = claims.claim(name)
        assert entry.paper_value and entry.relation in ("=", "~", "cut")
    assert (table.loc[table["verdict"] == "close", "off"] <= 0.1).all()
    assert (table.loc[table["verdict"] == "reproduced", "off"] <= table["tolerance"].max()).all()


def test_the_ledger_is_filtered_and_folded():
    every = reproduction.ledger_table(LEDGER)
    assert len(every) == len(LEDGER) == len(reproduction.ledger_table(LEDGER, document="all", basis="all"))
    some = reproduction.ledger_table(LEDGER, document="flops2024", verdict="differs")
    assert 0 < len(some) == sum(row["document"] == "flops2024" and row["verdict"] == "differs" for row in LEDGER)
    text = reproduction.folded_ledger(LEDGER, ["differs", "close"]).text
    documents = {row["document"] for row in LEDGER}
    assert text.count("<details>") == len(documents) == text.count("</details>")
    assert text.count("| differs |") == sum(row["verdict"] == "differs" for row in LEDGER)
    menus = reproduction.choices(LEDGER)
    assert menus["verdict"][0] == "differs" and all(value in values for value, values in menus.values())


def test_what_was_solved_is_counted():
    table = reproduction.solved_table(LEDGER)
    assert (table["of these reproduced"] <= table["predicted"]).all() and table["must be"].str.len().gt(5).all()
