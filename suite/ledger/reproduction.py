"""The report on the reproduction: contradictions found in the documents, and the ledger as tables to read."""

from collections.abc import Mapping, Sequence

import pandas as pd

from railcore.catalog.tables import MarkdownText, folded, markdown_table
from suite.ledger import causes, claims, grounds

LedgerRows = Sequence[Mapping[str, str]]
FILTERS = ("document", "verdict", "cause", "basis", "evidence")
_RULES = {  # units of claims that print no number: what they print, and ours
    "relative error": ("a formula", "off by {}%"),
    "share broken": ("a rule", "broken in {}%"),
}


def weight(row: Mapping[str, str]) -> float:
    """How far a document's number is from ours, as a share of its own; 1 of a 0, and of a rule the share broken.

    row: of the ledger.
    """
    entry, off = claims.claim(row["id"]), abs(float(row["deviation"]))
    return off if entry.paper_value or entry.unit in _RULES else float(off > 0)


def contradiction_table(ledger: LedgerRows) -> pd.DataFrame:
    """Contradictions, the heaviest first.

    ledger: rows of figures/reproduction.csv. Columns document, where, says, against, printed, ours, weight, claim.
    Raises ValueError for a claim that the ledger has not.
    """
    recorded, rows = {row["id"]: row for row in ledger}, []
    for contradiction in causes.contradictions():
        row = recorded.get(contradiction.claim)
        if row is None or not row["value"]:
            raise ValueError(f"the ledger has no value of {contradiction.claim}: run make figures")
        shown, off = claims.comparison_row(row), weight(row)
        printed, ours = _RULES.get(claims.claim(contradiction.claim).unit, (shown["document"], shown["ours"]))
        numbers = {"printed": printed, "ours": ours.format(f"{100 * off:.3g}"), "weight": off}
        place = {"document": row["document"], "where": row["where"]}
        rows.append(
            {
                **place,
                "says": contradiction.says,
                "against": contradiction.against,
                **numbers,
                "claim": contradiction.claim,
            }
        )
    return pd.DataFrame(rows).sort_values(["weight", "claim"], ascending=[False, True], ignore_index=True)


def deviations(ledger: LedgerRows) -> pd.DataFrame:
    """Deviations of claims that print a number which is no bound and not 0.

    ledger: rows of figures/reproduction.csv. Columns id, document, verdict, evidence, off (the absolute deviation, a
    share of the printed number), tolerance.
    """
    rows = []
    for row in ledger:
        entry = claims.claim(row["id"])
        if row["value"] and entry.paper_value and entry.relation not in ("<", ">"):
            told = {name: row[name] for name in ("id", "document", "verdict", "evidence")}
            rows.append({**told, "off": abs(float(row["deviation"])), "tolerance": entry.tolerance})
    return pd.DataFrame(rows)


def ledger_table(ledger: LedgerRows, **wanted: str) -> list[dict[str, str]]:
    """Claims as people read them, a row each.

    ledger: rows of figures/reproduction.csv. wanted: values of FILTERS; "all" or none for any.
    """
    rows = []
    for row in ledger:
        if all(value in ("all", row[name]) for name, value in wanted.items()):
            shown = claims.comparison_row(row)
            name = f"{row['where']}: {row['claim']}"
            told = {"claim": name, "document has": shown["document"], "ours": shown["ours"]}
            told |= {"deviation": shown["deviation"], "verdict": row["verdict"]}
            rows.append(told | {"cause": row["cause"], "rests on": row["basis"], "evidence": row["evidence"]})
    return rows


def folded_ledger(ledger: LedgerRows, verdicts: Sequence[str]) -> MarkdownText:
    """The claims of each document with these verdicts, folded away under their counts."""
    groups = []
    for document in dict.fromkeys(row["document"] for row in ledger):
        mine = [row for row in ledger if row["document"] == document]
        counts = [f"{sum(row['verdict'] == verdict for row in mine)} {verdict}" for verdict in verdicts]
        told = [_with_grounds(row) for verdict in verdicts for row in mine if row["verdict"] == verdict]
        groups.append(folded(f"{document}: {', '.join(counts)}", markdown_table(told)))
    return MarkdownText("\n".join(groups))


def _with_grounds(row: Mapping[str, str]) -> dict[str, str]:
    """A claim as people read it, with why it does not come out and what it rests on below it."""
    grounds_of = " · ".join(filter(None, (row["cause"], row["basis"], row["evidence"])))
    (told,) = ledger_table([row])
    shown = {name: told[name] for name in ("document has", "ours", "deviation", "verdict")}
    return {"claim": claims.claim_cell(claims.claim(row["id"]).place, row["claim"], grounds_of), **shown}


def choices(ledger: LedgerRows) -> dict[str, tuple[str, list[str]]]:
    """Menus over FILTERS: what each stands at, and what it can be."""
    choices = {name: sorted({row[name] for row in ledger} - {""}) for name in FILTERS}
    return {name: ("all" if name != "verdict" else "differs", ["all", *values]) for name, values in choices.items()}


def solved_table(ledger: LedgerRows) -> pd.DataFrame:
    """Parameters that no document prints: what each had to be, from what it was solved, and what rests on it."""
    rows = grounds.calibration_counts([dict(row) for row in ledger])
    return pd.DataFrame(rows).drop(columns="solved from").rename(columns={"how": "must be"})
