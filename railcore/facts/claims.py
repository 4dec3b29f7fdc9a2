"""The ledger: every quantitative claim of the documents, our value beside it, deviation and verdict.

Numbers of the documents stand in data/claims.csv and nowhere else.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from statistics import median, quantiles
from typing import Any

from railcore.facts import files
from railcore.facts.catalog import UnknownName
from railcore.facts.tables import MarkdownText, csv_text, markdown_table, read_csv
from railcore.facts.units import counted, number, show, significant
from railcore.facts.units import unit as unit_of

RELATIONS = {"=": "=", "~": "≈", "<": "≤", ">": "≥"}
VERDICTS = ("reproduced", "close", "differs", "unavailable", "missing")
# What a value rests on; where several apply, the last of them counts.
BASES = {
    "stated": "all inputs are printed in the document or in a source that is cited",
    "reading": "a choice among readings of the text; the reason names the others and what they give",
    "predicted": "a parameter that was solved from other claims",
    "calibrated": "a parameter that was solved from this claim itself",
}
LEDGER_COLUMNS = (
    "id document where claim unit relation paper_value tolerance value low high deviation verdict reason basis note "
    "notebook"
).split()
_NO_DATA = "at the date of the paper"  # in the note of a claim whose data are no longer to be had: it may have no value
_Texts = Mapping[str, str] | None  # by claim id
MAX_WORDS = 60  # of a reason: two sentences that are read once
RECORDED_COLUMNS = ("id", "value", "low", "high", "reason", "basis")  # low, high: `drawn_range`, if ours are draws
MIN_DRAWS = 10  # of a claim that is one draw of the document


@dataclass(frozen=True)
class Claim:
    """One quantitative claim; `paper_value` is in `unit`, `tolerance` relative (absolute where paper_value is 0)."""

    id: str
    document: str
    where: str
    claim: str
    paper_value: float
    unit: str
    relation: str
    tolerance: float
    note: str
    notebook: str

    @property
    def place(self) -> str:
        """`where` for a person: "Section 4.1" of "4.1"."""
        return f"Section {self.where}" if self.where[:1].isdigit() else self.where


@cache
def claims() -> dict[str, Claim]:
    """All claims by id, in the order of data/claims.csv."""
    rows = read_csv(files.data("claims.csv"))
    numeric = ("paper_value", "tolerance")
    typed: list[dict[str, Any]] = [{**row, **{key: float(row[key] or 0) for key in numeric}} for row in rows]
    return {fields["id"]: Claim(**fields) for fields in typed}


_RUNS = "runs:"  # begins a word of `used` that names measured runs


@dataclass(frozen=True)
class Calibration:
    """A parameter that the documents do not print, solved from claims or measured runs: a row of data/calibrations.csv.

    free: numbers or readings that were free to choose.
    used: ids of the claims that they were chosen from.
    runs: sources or models of rows of data/measured/iterations.csv that they were chosen from.
    predicted: ids of other claims whose verdict may change with them.
    used_text: `used` as the file has it.
    """

    parameter: str
    free: int
    used: tuple[str, ...]
    runs: tuple[str, ...]
    predicted: tuple[str, ...]
    used_text: str
    note: str


@cache
def calibrations() -> tuple[Calibration, ...]:
    """All calibrated parameters, in the order of data/calibrations.csv; `*` in its ids stands for any text.

    A word of `used` that begins with runs: is part of a source or model of measured runs, with _ for a space.
    Raises ValueError for an id or a pattern that fits no claim, and for text that is in no run.
    """
    measured = [f"{run['source']}\n{run['model']}" for run in read_csv(files.data("measured/iterations.csv"))]
    found = []
    for row in read_csv(files.data("calibrations.csv")):
        words = row["used"].split()
        runs = tuple(_in_runs(word, row["parameter"], measured) for word in words if word.startswith(_RUNS))
        used = [_matching(word, row["parameter"]) for word in words if not word.startswith(_RUNS)]
        rest = [_matching(word, row["parameter"]) for word in row["predicted"].split()]
        mine = tuple(dict.fromkeys(name for ids_ in used for name in ids_))
        others = tuple(dict.fromkeys(name for ids_ in rest for name in ids_ if name not in mine))
        text = ", ".join(word for word in words if not word.startswith(_RUNS))
        text = "; ".join(part for part in (text, ", ".join(runs)) if part)
        found.append(Calibration(row["parameter"], int(row["free"]), mine, runs, others, text, row["note"]))
    return tuple(found)


def _in_runs(word: str, parameter: str, measured: list[str]) -> str:
    """Text that a word of `used` looks for. measured: source and model of each run."""
    text = word.removeprefix(_RUNS).replace("_", " ")
    if not any(text in run for run in measured):
        raise ValueError(
            f"data/calibrations.csv, {parameter}: {word!r} is in no source or model of data/measured/iterations.csv"
        )
    return text


def _matching(pattern: str, parameter: str) -> list[str]:
    found = [name for name in claims() if fnmatchcase(name, pattern)]
    if not found:
        raise ValueError(f"data/calibrations.csv, {parameter}: {pattern!r} fits no claim: write ids of data/claims.csv")
    return found


def calibrations_of(claim_id: str) -> dict[Calibration, str]:
    """Solved parameters that a claim depends on, with "calibrated" (solved from it) or "predicted" (from others)."""
    found = {each: "calibrated" for each in calibrations() if claim_id in each.used}
    return found | {each: "predicted" for each in calibrations() if claim_id in each.predicted}


def solved_texts(claim_id: str) -> list[str]:
    """What stands first in a claim's reason: each solved parameter that it depends on."""
    return [f"{how}: {each.parameter}" for each, how in calibrations_of(claim_id).items()]


def calibration_counts(rows: list[dict[str, str]]) -> list[dict[str, object]]:
    """Each calibrated parameter beside what it was solved from and what it predicts, from rows of the ledger."""
    held = {row["id"] for row in rows if row["verdict"] == "reproduced"}
    known = {row["id"] for row in rows if row["verdict"] != "missing"}
    table = []
    for each in calibrations():
        used = known.intersection(each.used)
        if used or each.runs:
            rest = known.intersection(each.predicted)
            counted = {"free": each.free, "claims or runs used": len(used) + len(each.runs), "predicted": len(rest)}
            counted["of these reproduced"] = len(rest & held)
            table.append({"parameter": each.parameter, **counted, "solved from": each.used_text, "how": each.note})
    return table


def claim(claim_id: str) -> Claim:
    """The claim with this id. Raises UnknownName listing the nearest ids."""
    if claim_id not in claims():
        raise UnknownName("claim", claim_id, list(claims()))
    return claims()[claim_id]


def matching_claims(text: str) -> list[Claim]:
    """Claims with all words of a text in id, place, claim, note or value, such as "0.705", "70.5%" or "6.9 MW"."""
    words = [re.escape(word) for word in text.lower().split()]
    words = [rf"(?<!\d)(?<!\d[.,]){word}" if word[0].isdigit() else word for word in words]
    patterns = [re.compile(rf"{word}(?![.,]?\d)" if word[-1].isdigit() else word) for word in words]
    return [entry for entry in claims().values() if all(each.search(_searched(entry)) for each in patterns)]


def _searched(entry: Claim) -> str:
    values = f"{entry.paper_value:.12g} {100 * entry.paper_value:.12g}% {paper_text(entry)}"
    return f"{entry.id} {entry.where} {entry.claim} {entry.note} {values}".lower()


def paper_value(claim_id: str) -> float:
    """The document's number, in the claim's unit: for a claim that starts from another's result, and for fits."""
    return claim(claim_id).paper_value


def ids(prefix: str) -> list[str]:
    """Ids of the claims below a prefix such as "railonly2025.table1", in file order. Raises UnknownName for none."""
    found = [claim_id for claim_id in claims() if claim_id.startswith(f"{prefix}.")]
    if not found:
        raise UnknownName("claims below", prefix, sorted({claim_id.rpartition(".")[0] for claim_id in claims()}))
    return found


def case(claim_id: str) -> dict[str, int]:
    """The case that an id names: {"n": 32768, "r": 64} of "railonly2025.table1.n32768.r64.cost_saving"."""
    parts = re.findall(r"\.([a-z]+)(\d+)(?=\.)", claim_id.partition(".")[2])
    return {letter: int(digits) for letter, digits in parts}


def cases(prefix: str) -> list[dict[str, int]]:
    """The different cases of a document's table, in file order."""
    found = [case(claim_id) for claim_id in ids(prefix)]
    return [entry for i, entry in enumerate(found) if entry and entry not in found[:i]]


def table_values(prefix: str, table) -> dict[str, float]:
    """Values of a document's table claims from a DataFrame: the id's case picks the row, its last part the column.

    The case is `n` GPUs and switches of `r` ports, the columns gpus and radix. Claims whose last part is no column are
    left out. Raises KeyError for a case that the table lacks.
    """
    rows = table.set_index(["gpus", "radix"])
    found = {}
    for claim_id in ids(prefix):
        numbers, column = case(claim_id), claim_id.rpartition(".")[2]
        if column in rows and set(numbers) == {"n", "r"}:
            found[claim_id] = float(rows.loc[(numbers["n"], numbers["r"]), column])
    return found


def deviation(value: float, paper: float) -> float:
    """(value - paper) / |paper|, or value - paper where the paper's value is 0."""
    return (value - paper) / abs(paper) if paper else value - paper


def drawn_range(draws: Sequence[float]) -> tuple[float, float]:
    """From the 5th to the 95th percentile of draws, with linear interpolation."""
    cuts = quantiles(draws, n=20, method="inclusive")
    return cuts[0], cuts[-1]


def verdict(
    value: float | None, paper: float, relation: str, tolerance: float, drawn: tuple[float, float] | None = None
) -> str:
    """Reproduced, close or differs; unavailable for no value.

    = and ~ hold when |deviation| <= tolerance, < when value <= paper, > when value >= paper. Close: the relation
    fails, but value is within 10% of a paper value other than 0.
    Where the paper's value is one draw of a random experiment, = and ~ hold too when it lies in the range of our draws.

    Parameters
    ----------
    value, paper
        Ours and the document's, in one unit.
    relation
        One of RELATIONS.
    tolerance
        Relative, absolute where the document's value is 0.
    drawn
        `drawn_range` of our draws, whose median is the value; None where nothing is drawn.

    Returns
    -------
    One of VERDICTS.
    """
    if relation not in RELATIONS:
        raise ValueError(f"relation {relation!r} is none of {' '.join(RELATIONS)}")
    if value is None:
        return "unavailable"
    off = deviation(value, paper)
    among = drawn is not None and drawn[0] <= paper <= drawn[1]
    holds = {"<": value <= paper, ">": value >= paper}.get(relation, among or abs(off) <= tolerance + 1e-12)
    return "reproduced" if holds else "close" if paper and abs(off) <= 0.1 else "differs"


def differs(claim_id: str, value: float, draws: Sequence[float] = ()) -> bool:
    """Whether our value of a claim does not keep the document's relation: for marks in a figure. draws: as `record`."""
    entry, drawn = claim(claim_id), drawn_range(draws) if len(draws) >= MIN_DRAWS else None
    return verdict(value, entry.paper_value, entry.relation, entry.tolerance, drawn) != "reproduced"


def within_printed_digit(value: float, entry: Claim) -> bool:
    """Whether a value is not the document's, but rounds to it: 0.0349 where 0.03 is printed."""
    half = 0.5 * 10.0 ** int(Decimal(f"{entry.paper_value:.12g}").as_tuple().exponent)
    off = abs(value - entry.paper_value)
    return entry.relation in "=~" and 1e-9 * abs(entry.paper_value) < off <= half


def _checked(claim_id: str, value) -> float | None:
    entry = claim(claim_id)
    files.check_owner(entry.notebook, f"claim {claim_id!r}")
    if value is None:
        if _NO_DATA not in entry.note:
            raise ValueError(f"claim {claim_id!r} has value None: only one with {_NO_DATA!r} in its note may")
        return None
    if isinstance(value, str) or not math.isfinite(value := float(value)):
        raise ValueError(f"claim {claim_id!r} has value {value!r}: record a finite number in {entry.unit!r}")
    # Where the document says 0, rounding noise is 0: the same bytes on every machine.
    return 0.0 if entry.paper_value == 0 and abs(value) < max(entry.tolerance, 1e-12) else float(f"{value:.12g}")


def record(
    values: Mapping[str, float | None],
    reasons: _Texts = None,
    readings: _Texts = None,
    draws: Mapping[str, Sequence[float]] | None = None,
) -> MarkdownText:
    """Take our values of claims, each in its row's own unit, and return the comparison as a table to show.

    What a claim rests on (BASES) follows from readings, draws and data/calibrations.csv. It stands first in the reason.
    Results go below the folder RAILCORE_OUT; nothing is written when one row is refused. In a run with the user's own
    parameters or catalog there is no verdict, and a value that is not finite is left out.

    Parameters
    ----------
    values
        By claim id; None without data.
    reasons
        Of every claim that is not reproduced, and of any other.
    readings
        Of claims that rest on a choice among readings of the text: which one was taken and what the others give.
    draws
        Of claims whose number in the document is one draw of a random experiment: ours, one of each seed, in place of
        a value. Their median is recorded. Such a claim is reproduced, as a reading, where the document's draw lies in
        their `drawn_range`.

    Returns
    -------
    The comparison.

    Raises
    ------
    ValueError
        For an unknown or foreign id, a value that is not finite, too few draws, and a missing reason.
    """
    reasons, readings, drawn = dict(reasons or {}), dict(readings or {}), _ranges_of_draws(draws or {})
    values = {**values, **{claim_id: median(each) for claim_id, each in (draws or {}).items()}}
    readings |= {
        key: "; ".join(filter(None, (_draws_text(key, (draws or {})[key]), readings.get(key)))) for key in drawn
    }
    if stray := sorted((set(reasons) | set(readings)) - set(values)):
        raise ValueError(f"reason for {stray[0]!r} has no value: record the claim with it")
    custom = files.parameterized()
    rows = []
    for claim_id, given in values.items():
        if custom and given is not None and not math.isfinite(given):
            continue  # what a claim asks for need not exist with the user's numbers
        value, entry = _checked(claim_id, given), claim(claim_id)
        reason, reading = (" ".join(text.get(claim_id, "").split()) for text in (reasons, readings))
        ends = drawn.get(claim_id)
        judged = "" if custom else verdict(value, entry.paper_value, entry.relation, entry.tolerance, ends)
        if judged not in ("", "reproduced") and not reason:
            ours = "no value" if value is None else f"ours {value:.6g}"
            raise ValueError(f"claim {claim_id!r} is {judged!r} ({ours}, {_paper(entry)} expected): give a reason")
        basis, whole = ("", reason) if value is None else _basis(claim_id, reading, reason)
        if len(whole.split()) > MAX_WORDS:
            raise ValueError(
                f"claim {claim_id!r} has a reason of {len(whole.split())} words, {whole!r}: "
                f"say in at most {MAX_WORDS} what differs, why, and what would give the document's number"
            )
        text = "" if value is None else f"{value:.12g}"
        low, high = ("", "") if ends is None else (f"{end:.12g}" for end in ends)
        row = {"id": claim_id, "value": text, "low": low, "high": high, "verdict": judged}
        rows.append(row | {"reason": whole, "basis": basis})
    if rows:  # all of one notebook
        path = files.output_folder() / "claims" / f"{claim(rows[0]['id']).notebook}.csv"
        merged = {row["id"]: row for row in [*read_csv(path), *rows]}
        ordered = [merged[claim_id] for claim_id in claims() if claim_id in merged]
        files.write_whole(path, csv_text(RECORDED_COLUMNS, ordered))
    return MarkdownText(_comparison(rows, custom))


def _ranges_of_draws(draws: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Range of the draws of each claim; none in a run with the user's own numbers, which may have few seeds."""
    if files.parameterized():
        return {}
    for claim_id, each in draws.items():
        if len(each) < MIN_DRAWS:
            raise ValueError(f"claim {claim_id!r} has {len(each)} draws: give at least {MIN_DRAWS}, one of each seed")
    return {claim_id: drawn_range(each) for claim_id, each in draws.items()}


def _draws_text(claim_id: str, draws: Sequence[float]) -> str:
    low, high = (claim_amount(float(f"{end:.3g}"), claim(claim_id).unit) for end in drawn_range(draws))
    return f"the document's number is one draw; 5 to 95% of {counted(len(draws), 'seeds')} give {low} to {high}"


def _basis(claim_id: str, reading: str, reason: str) -> tuple[str, str]:
    """What a claim rests on, and its reason with that in front."""
    parts = solved_texts(claim_id) + ([f"reading: {reading}"] if reading else [])
    hows = {"stated", *calibrations_of(claim_id).values(), *(["reading"] if reading else [])}
    return max(hows, key=list(BASES).index), "; ".join(parts + ([reason] if reason else []))


def _comparison(rows: list[dict[str, str]], custom: bool) -> str:
    """Claims that are not reproduced with their reasons, then the others folded away."""
    table = [comparison_row(row) for row in rows]
    if custom:
        shown = ("where", "claim", "document", "ours")
        note = "Computed with your numbers; where, claim and document are worded for the document's own.\n\n"
        return note + markdown_table([{key: cells[key] for key in shown} for cells in table])
    agree = [cells for cells in table if cells["verdict"] == "reproduced"]
    differ = [cells for cells in table if cells["verdict"] != "reproduced"]
    count = Counter(row["basis"] for row in rows if row["verdict"] == "reproduced")
    rest = ", ".join(f"{count[basis]} {basis}" for basis in BASES if count[basis])
    folded = f"<details><summary>{len(agree)} reproduced</summary>\n\n{markdown_table(agree)}\n</details>\n"
    others = f" The others:\n\n{markdown_table(differ)}" if differ else "\n"
    verb = "is" if len(agree) == 1 else "are"
    return f"**{len(agree)} of {len(rows)} claims {verb} reproduced{f' ({rest})' if rest else ''}.**{others}\n{folded}"


def comparison_row(row: Mapping[str, str]) -> dict[str, str]:
    """A recorded row (id, value, verdict, reason, basis) for a person, beside what the document says."""
    entry, ours = claim(row["id"]), row["value"]
    return {
        "where": f"{entry.document}, {entry.place}",
        "claim": entry.claim,
        "document": _paper(entry),
        "ours": claim_amount(float(ours), entry.unit) if ours else "",
        "deviation": _deviation_text(ours, entry),
        **{key: row[key] for key in ("verdict", "basis", "reason")},
    }


def claim_amount(value: float, unit: str) -> str:
    """A number in a claim's unit for a person, such as claim_amount(3.6e12, "bit/s") = "3.6 Tbps"."""
    symbol = {"bit/s": "bps"}.get(unit, unit)
    if symbol in ("bps", "B/s", "B", "s", "W", "USD", "FLOP/s"):
        return show(value * unit_of(unit)[1], symbol)
    if "/" in unit:
        return f"{number(value)} {unit}"
    return number(value) if unit in ("fraction", "x", "1", "relative error") else counted(value, unit)


def paper_text(entry: Claim) -> str:
    """The document's value for a person, such as "≥ 0.75"."""
    return f"{RELATIONS[entry.relation]} {claim_amount(entry.paper_value, entry.unit)}"


def _paper(entry: Claim) -> str:
    return paper_text(entry).replace(" ", "\u00a0", 1)


def _deviation_text(value: str, entry: Claim) -> str:
    if not value:
        return ""
    off = deviation(float(value), entry.paper_value)
    return "exact" if abs(off) < 1e-9 else f"{significant(off):+.2%}" if entry.paper_value else number(off)


def claim_counts(rows: list[dict[str, str]]) -> list[dict[str, object]]:
    """Claims of each document and of all by verdict, and the reproduced ones by what they rest on."""
    documents = list(dict.fromkeys(row["document"] for row in rows))
    table = []
    for document in [*documents, "all"]:
        mine = [row for row in rows if document in ("all", row["document"])]
        by_verdict = {name: sum(row["verdict"] == name for row in mine) for name in VERDICTS}
        held = Counter(row["basis"] for row in mine if row["verdict"] == "reproduced")
        rest = {f"reproduced, {basis}": held[basis] for basis in BASES}
        table.append({"document": document, "claims": len(mine), **by_verdict, **rest})
    return table


def ledger(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Every claim with what was recorded for it (RECORDED_COLUMNS): the rows of figures/reproduction.csv.

    low and high may be missing.
    """
    by_id = {row["id"]: row for row in rows}
    result = []
    for entry in claims().values():
        row = by_id.get(entry.id)
        value = float(row["value"]) if row and row["value"] else None
        ends = {key: (row or {}).get(key) or "" for key in ("low", "high")}
        drawn = (float(ends["low"]), float(ends["high"])) if ends["low"] else None
        judged = verdict(value, entry.paper_value, entry.relation, entry.tolerance, drawn) if row else "missing"
        off = "" if value is None else f"{significant(deviation(value, entry.paper_value)):.6g}"
        mine = {"value": row["value"] if row else "", **ends, "deviation": off, "verdict": judged}
        paper = {"paper_value": f"{entry.paper_value:.12g}", "tolerance": f"{entry.tolerance:.12g}"}
        result.append({**vars(entry), **paper, **mine, **{key: row[key] if row else "" for key in ("reason", "basis")}})
    return result
