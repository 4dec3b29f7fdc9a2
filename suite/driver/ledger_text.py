"""The ledger for people, figures/reproduction.md: a table for each document and verdict."""

from collections.abc import Mapping

from railcore.catalog import units
from railcore.catalog.tables import Markdown, folded, markdown_table, markdown_words
from suite.ledger import causes, claims, grounds

_MEANINGS = {  # in the order in which somebody who doubts reads
    "differs": "off by more than 10% of the document's value, or beyond the tolerance of a 0",
    "close": "within 10% of the document's value",
    "unavailable": "needs data that the project does not carry",
    "reproduced": "the relation holds within the tolerance of the printed digits",
    "missing": "no notebook computes it yet",
}
_FOLDED = ("reproduced", "missing")
_DOCUMENTS = "../docs/glossary.md#documents"
_SOLVED = "parameters solved from claims"  # lower case: JupyterLab keeps the case of anchors, GitHub does not


def ledger_text(ledger: list[dict[str, str]]) -> str:
    """The ledger as Markdown: counts that lead to the tables, what they mean, solved parameters, and the tables."""
    documents = list(dict.fromkeys(row["document"] for row in ledger))
    rows_of = {
        (document, verdict): [row for row in ledger if (row["document"], row["verdict"]) == (document, verdict)]
        for document in documents
        for verdict in _MEANINGS
    }
    return "\n".join(
        [
            "# Claims of the documents, and what comes out\n",
            "Made by `make figures`, with the numbers in [reproduction.csv](reproduction.csv). "
            f"Titles, authors and links of [the documents]({_DOCUMENTS}).\n",
            "First the claims that a model could have got wrong. A claim is put to a model where the model could have "
            "given another number, and came out where it is reproduced (below). The last column has the others, and "
            "how many of them are reproduced.\n",
            markdown_table(claims.evidence_counts(ledger)),
            f"{claims.evidence_text(ledger)}\n",
            "All claims by verdict. A count leads to its claims.\n",
            _contents(ledger),
            *(f"- **{verdict}**: {_MEANINGS[verdict]}" for verdict in _verdicts(ledger)),
            "\nThe tolerance is half a unit of the last printed digit that is not 0. Where a document cuts digits "
            "off, it is a whole unit. A whole count has none. A claim with another one says why in its note. A number "
            "that is one draw of a random experiment is reproduced within 5 to 95% of our draws; our median alone "
            "decides about a bound.\n",
            "Under a claim stand its reason, its name (`python -m suite claim <document>.<name>` shows its inputs), "
            "what ours rests on, its evidence where no model was asked, the cause where it is not reproduced, and the "
            "notebook. The deviation is relative to the document's value; where that is 0, it is the difference.\n",
            "What a verdict is worth as evidence:\n",
            *(f"- **{evidence}**: {meaning}" for evidence, meaning in grounds.EVIDENCE.items()),
            "",
            "Why claims are not reproduced. Not counted here: those without data, and those that set a parameter.\n",
            *(f"- **{cause}**: {meaning}" for cause, meaning in causes.CAUSES.items()),
            f"\n{markdown_table(claims.cause_counts(ledger))}",
            "What a value rests on; where several apply, the last one counts. The table counts reproduced claims that "
            "were put to a model.\n",
            *(f"- **{basis}**: {meaning}" for basis, meaning in grounds.BASES.items()),
            f"\n{markdown_table(claims.basis_counts(ledger))}",
            *_solved(ledger),
            *(_section(document, verdict, rows) for (document, verdict), rows in rows_of.items() if rows),
        ]
    )


def _verdicts(ledger: list[dict[str, str]]) -> list[str]:
    """The verdicts to tell of: missing where a claim is."""
    given = {row["verdict"] for row in ledger}
    return [verdict for verdict in _MEANINGS if verdict != "missing" or verdict in given]


def _contents(ledger: list[dict[str, str]]) -> str:
    """Counts by document and verdict, each with a link to its table."""
    rows = []
    for row in claims.verdict_counts(ledger):
        document = row["document"]
        linked = {verdict: row[verdict] for verdict in _verdicts(ledger)}
        if document != "all":
            linked |= {
                verdict: Markdown(f"[{count}](#{document}-{verdict})") for verdict, count in linked.items() if count
            }
        rows.append({"document": document, "claims": row["claims"], **linked})
    return markdown_table(rows)


def _numbers() -> dict[str, str]:
    """Short names of the solved parameters."""
    return {calibration.parameter: f"P{number}" for number, calibration in enumerate(grounds.calibrations(), 1)}


def _solved(ledger: list[dict[str, str]]) -> list[str]:
    """The parameters that were solved from claims, with what they predict."""
    rows = []
    for row in grounds.calibration_counts(ledger):
        name, used, how = str(row["parameter"]), str(row.pop("solved from")), row.pop("how")
        ids = ", ".join(f"`{claim_id}`" for claim_id in used.split(", "))
        text = Markdown(f"**{markdown_words(name)}**<br>{how}<br>from {ids}")
        rows.append({"": _numbers()[name], **row, "parameter": text})
    return [f"## {_SOLVED}\n\n{markdown_table(rows)}"] if rows else []


def _section(document: str, verdict: str, rows: list[dict[str, str]]) -> str:
    table = markdown_table([_line(row) for row in rows])
    if verdict in _FOLDED:
        state = "that no notebook computes" if verdict == "missing" else "that are reproduced"
        table = folded(f"{units.counted(len(rows), 'claims')} of {document} {state}", table)
    return f"## {document} {verdict}\n\n{table}"


def _line(row: Mapping[str, str]) -> dict[str, str]:
    """A claim for a person, its reason below it in the same cell."""
    shown = claims.comparison_row(row)
    reason = row["reason"]
    for solved in grounds.solved_texts(row["id"]):
        reason = reason.removeprefix(solved).removeprefix("; ")
    missing, notebook = row["verdict"] == "missing", f"notebook {row['notebook'][:2]}"
    linked = notebook if missing else f"[{notebook}](../notebooks/{row['notebook']}.ipynb)"
    cause = f"cause: {row['cause']}" if row["cause"] else ""
    below = " · ".join(filter(None, [f"`{row['id'].partition('.')[2]}`", _basis(row), cause, linked]))
    cell = claims.claim_cell(claims.claim(row["id"]).place, row["claim"], markdown_words(reason), below)
    line = {"claim": cell, "document": shown["document"]}
    return line if missing else line | {"ours": shown["ours"], "deviation": shown["deviation"]}


def _basis(row: Mapping[str, str]) -> str:
    """What a claim rests on, with the short names of the parameters that were solved for."""
    named: dict[str, list[str]] = {row["basis"]: []}
    for calibration, how in grounds.calibrations_of(row["id"]).items() if row["basis"] else ():
        named.setdefault(how, []).append(f"[{_numbers()[calibration.parameter]}](#{_SOLVED.replace(' ', '-')})")
    if row["basis"] and (deciding := claims.decided_by_assumed(row["id"], row["verdict"])):
        single = [f"{units.words(value.parameter)} of {value.name}" for value in deciding if value.parameter]
        inputs = dict.fromkeys(map(markdown_words, single or ["all assumed inputs together"]))
        named["assumed"] = [f"({', '.join(inputs)})"]
    worth = grounds.evidence(row["id"])
    texts = [" ".join([how, *numbers]) for how, numbers in named.items() if how]
    return ", ".join(texts) + ("" if worth == "model" else f" · {worth}: {grounds.evidence_reason(row['id'])}")
