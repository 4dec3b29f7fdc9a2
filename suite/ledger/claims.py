"""The ledger: every quantitative claim of the documents, our value beside it, deviation and verdict.

Numbers of the documents stand in data/claims.csv and nowhere else.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from statistics import median, quantiles
from typing import Any, NamedTuple

from railcore.catalog import UnknownName, files
from railcore.catalog.tables import Markdown, MarkdownText, csv_text, folded, markdown_table, markdown_words, read_csv
from railcore.catalog.units import counted, number, show, significant
from railcore.catalog.units import unit as unit_of
from suite import workspace
from suite.ledger import causes, grounds
from suite.ledger.claim_rows import RELATIONS, Claim, claims, printed_digit

VERDICTS = ("reproduced", "close", "differs", "unavailable", "missing")
FAILED = ("close", "differs")
LEDGER_COLUMNS = (
    "id document where claim unit relation paper_value tolerance value low high deviation verdict cause reason basis "
    "evidence note notebook"
).split()
_NO_DATA = "at the date of the paper"  # in the note of a claim whose data are no longer to be had: it may have no value
_Texts = Mapping[str, str] | None  # by claim id
_ONE_FORMULA = ("railonly2025.table1.", "railonly2023.table2.")  # the switch tables
MAX_WORDS = 60  # of a reason: two sentences that are read once
RECORDED_COLUMNS = ("id", "value", "low", "high", "reason", "basis")  # low, high: `drawn_range`, if ours are draws
_NOISE = 1e-9  # of a value that should be 0
_LAST_BITS = 1e-12  # of a deviation: on another machine
MIN_DRAWS = 10  # of a claim that is one draw of the document


def claim(claim_id: str) -> Claim:
    """The claim with this id. Raises UnknownName listing the nearest ids."""
    return claims()[grounds.known_claim(claim_id)]


def matching_claims(text: str) -> list[Claim]:
    """Claims with all words of a text in id, place, claim, note or value, such as "0.705", "70.5%" or "6.9 MW"."""
    words = [re.escape(word) for word in text.lower().split()]
    words = [rf"(?<!\d)(?<!\d[.,]){word}" if word[0].isdigit() else word for word in words]
    patterns = [re.compile(rf"{word}(?![.,]?\d)" if word[-1].isdigit() else word) for word in words]
    return [entry for entry in claims().values() if all(pattern.search(_searched(entry)) for pattern in patterns)]


def _searched(entry: Claim) -> str:
    values = f"{entry.paper_value:.12g} {100 * entry.paper_value:.12g}% {paper_text(entry)}"
    return f"{entry.id} {entry.where} {entry.claim} {entry.note} {values}".lower()


def paper_value(claim_id: str) -> float:
    """The document's number, in the claim's unit: for a claim that starts from another's result, and for fits."""
    return claim(claim_id).paper_value


def ids(prefix: str) -> list[str]:
    """Ids of the claims below a prefix such as "railonly2025.table1", in file order. Raises UnknownName for none."""
    names = [claim_id for claim_id in claims() if claim_id.startswith(f"{prefix}.")]
    if not names:
        raise UnknownName("claims below", prefix, sorted({claim_id.rpartition(".")[0] for claim_id in claims()}))
    return names


def case(claim_id: str) -> dict[str, int]:
    """The case that an id names: {"n": 32768, "r": 64} of "railonly2025.table1.n32768.r64.cost_saving"."""
    parts = re.findall(r"\.([a-z]+)(\d+)(?=\.)", grounds.known_claim(claim_id).partition(".")[2])
    return {letter: int(digits) for letter, digits in parts}


def cases(prefix: str) -> list[dict[str, int]]:
    """The different cases of a document's table, in file order."""
    values = [case(claim_id) for claim_id in ids(prefix)]
    return [entry for i, entry in enumerate(values) if entry and entry not in values[:i]]


def table_values(prefix: str, table) -> dict[str, float]:
    """Values of a document's table claims from a DataFrame: the id's case picks the row, its last part the column.

    The case is `n` GPUs and switches of `r` ports, the columns gpus and radix. Claims whose last part is no column are
    left out. Raises KeyError for a case that the table lacks.
    """
    rows = table.set_index(["gpus", "radix"])
    values = {}
    for claim_id in ids(prefix):
        numbers, column = case(claim_id), claim_id.rpartition(".")[2]
        if column in rows and set(numbers) == {"n", "r"}:
            values[claim_id] = float(rows.loc[(numbers["n"], numbers["r"]), column])
    return values


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

    = and ~ hold when |deviation| <= tolerance, `cut` when 0 <= deviation < tolerance, < when value <= paper, > when
    value >= paper. Close: the relation fails, but value is within 10% of a paper value other than 0.
    Where the paper's value is one draw of a random experiment, = and ~ hold too when it lies in the range of our draws;
    of < and > our median decides alone.

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
    if value is None:
        return "unavailable"
    off = deviation(value, paper)
    among = drawn is not None and drawn[0] <= paper <= drawn[1]
    near = abs(off) <= tolerance + _LAST_BITS
    cut = -_LAST_BITS <= off < tolerance - _LAST_BITS
    holds = {"<": value <= paper, ">": value >= paper, "cut": cut}.get(relation, among or near)
    return "reproduced" if holds else "close" if paper and abs(off) <= 0.1 else "differs"


class Mark(NamedTuple):
    """A document's number in a figure: in the claim's unit, in words, with the verdict on ours."""

    value: float
    relation: str
    text: str
    ours: float
    verdict: str


def marks(values: Mapping[str, float], draws: Mapping[str, Sequence[float]] | None = None) -> dict[str, Mark]:
    """Marks of claims for their figure, by id; none in a run with the reader's own numbers.

    values: ours, in the claims' units. draws: as `record`.
    """
    if workspace.parameterized():
        return {}
    rows = {}
    for claim_id, ours in values.items():
        entry, judged = claim(claim_id), verdict_of(claim_id, ours, (draws or {}).get(claim_id, ()))
        rows[claim_id] = Mark(entry.paper_value, entry.relation, printed_text(entry), ours, judged)
    return rows


def printed_text(entry: Claim) -> str:
    """The document's value for a person, without a sign where it is equal: "117 M USD", "≥ 0.75"."""
    return paper_text(entry).removeprefix("= ")


def verdict_of(claim_id: str, value: float, draws: Sequence[float] = ()) -> str:
    """The verdict on our value of a claim, for its mark in a figure. draws: as `record`."""
    entry, drawn = claim(claim_id), drawn_range(draws) if len(draws) >= MIN_DRAWS else None
    return verdict(value, entry.paper_value, entry.relation, entry.tolerance, drawn)


def within_printed_digit(value: float, entry: Claim) -> bool:
    """Whether a value is not the document's, but rounds to it: 0.0349 where 0.03 is printed."""
    off = abs(value - entry.paper_value)
    if entry.relation not in ("=", "~") or not entry.paper_value:
        return False
    return 1e-9 * abs(entry.paper_value) < off <= printed_digit(entry.paper_value) / 2


def _checked(claim_id: str, value) -> float | None:
    entry = claim(claim_id)
    workspace.check_owner(entry.notebook, f"claim {claim_id!r}")
    if value is None:
        if _NO_DATA not in entry.note:
            raise ValueError(f"claim {claim_id!r} has value None: only one with {_NO_DATA!r} in its note may")
        return None
    if isinstance(value, str) or not math.isfinite(value := float(value)):
        raise ValueError(f"claim {claim_id!r} has value {value!r}: record a finite number in {entry.unit!r}")
    # Where the document says 0, rounding noise is 0: the same bytes on every machine.
    return 0.0 if entry.paper_value == 0 and abs(value) < _NOISE else float(f"{value:.12g}")


def record(
    values: Mapping[str, float | None],
    reasons: _Texts = None,
    readings: _Texts = None,
    draws: Mapping[str, Sequence[float]] | None = None,
) -> MarkdownText:
    """Take our values of claims, each in its row's own unit, and return the comparison as a table to show.

    What a claim rests on (`grounds.BASES`) follows from readings, draws, data/calibrations.csv, whose parameters stand
    first in the reason, and data/derived/claim_inputs.csv.
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
        For an unknown or foreign id, a value that is not finite, too few draws, and a reason that is missing or long.
    """
    reasons, readings, drawn = dict(reasons or {}), dict(readings or {}), _ranges_of_draws(draws or {})
    values = {**values, **{claim_id: median(samples) for claim_id, samples in (draws or {}).items()}}
    readings |= {
        key: "; ".join(filter(None, (_draws_text(key, (draws or {})[key]), readings.get(key)))) for key in drawn
    }
    if stray := sorted((set(reasons) | set(readings)) - set(values)):
        raise ValueError(f"reason for {stray[0]!r} has no value: record the claim with it")
    custom = workspace.parameterized()
    rows = []
    for claim_id, amount in values.items():
        if custom and amount is not None and not math.isfinite(amount):
            continue  # what a claim asks for need not exist with the user's numbers
        value, entry = _checked(claim_id, amount), claim(claim_id)
        reason, reading = (" ".join(text.get(claim_id, "").split()) for text in (reasons, readings))
        ends = drawn.get(claim_id)
        judged = "" if custom else verdict(value, entry.paper_value, entry.relation, entry.tolerance, ends)
        if judged not in ("", "reproduced") and not reason:
            ours = "no value" if value is None else f"ours {value:.6g}"
            raise ValueError(f"claim {claim_id!r} is {judged!r} ({ours}, {_paper(entry)} expected): give a reason")
        basis, whole = ("", reason) if value is None else _basis(claim_id, reading, reason, judged)
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
        path = workspace.output_folder() / "claims" / f"{claim(rows[0]['id']).notebook}.csv"
        merged = {row["id"]: row for row in [*read_csv(path), *rows]}
        ordered = [merged[claim_id] for claim_id in claims() if claim_id in merged]
        files.write_whole(path, csv_text(RECORDED_COLUMNS, ordered))
    return MarkdownText(_comparison(rows, custom))


def _ranges_of_draws(draws: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Range of the draws of each claim; none in a run with the user's own numbers, which may have few seeds."""
    if workspace.parameterized():
        return {}
    for claim_id, samples in draws.items():
        if len(samples) < MIN_DRAWS:
            raise ValueError(
                f"claim {claim_id!r} has {len(samples)} draws: give at least {MIN_DRAWS}, one of each seed"
            )
    return {claim_id: drawn_range(samples) for claim_id, samples in draws.items()}


def _draws_text(claim_id: str, draws: Sequence[float]) -> str:
    low, high = (claim_amount(float(f"{end:.3g}"), claim(claim_id).unit) for end in drawn_range(draws))
    return f"the document's number is one draw; 5 to 95% of {counted(len(draws), 'seeds')} give {low} to {high}"


def _basis(claim_id: str, reading: str, reason: str, judged: str) -> tuple[str, str]:
    """What a claim rests on, and its reason with that in front."""
    parts = grounds.solved_texts(claim_id) + ([f"reading: {reading}"] if reading else [])
    hows = {"stated", *grounds.calibrations_of(claim_id).values(), *(["reading"] if reading else [])}
    hows |= {"assumed"} if decided_by_assumed(claim_id, judged) else set()
    return max(hows, key=list(grounds.BASES).index), "; ".join(parts + ([reason] if reason else []))


def decided_by_assumed(claim_id: str, judged: str) -> list[grounds.MovingInput]:
    """Assumed inputs of the catalog at whose low or high end a claim has another verdict than `judged`."""
    entry = claim(claim_id)
    terms = entry.paper_value, entry.relation, entry.tolerance
    assumed = [moved for moved in grounds.moving_inputs(claim_id) if moved.end in grounds.ENDS]
    return [moved for moved in assumed if verdict(moved.value, *terms) != judged]


def _comparison(rows: list[dict[str, str]], custom: bool) -> str:
    """Claims that are not reproduced with their reasons, then the others folded away."""
    if custom:
        note = "Computed with your numbers; claim and document are worded for the document's own.\n\n"
        return note + _comparison_table(rows, "document", "ours")
    agree = [row for row in rows if row["verdict"] == "reproduced"]
    differ = [row for row in rows if row["verdict"] != "reproduced"]
    columns = ("document", "ours", "deviation")
    count = {basis: _count(rows, verdict="reproduced", basis=basis) for basis in grounds.BASES}
    rest = ", ".join(f"{count[basis]} {basis}" for basis in grounds.BASES if count[basis])
    others = f" The others:\n\n{_comparison_table(differ, *columns, 'verdict', 'basis')}" if differ else "\n"
    verb = "is" if len(agree) == 1 else "are"
    told = f"**{len(agree)} of {len(rows)} claims {verb} reproduced{f' ({rest})' if rest else ''}.**{others}\n"
    return told + folded(f"{len(agree)} reproduced", _comparison_table(agree, *columns, "basis"))


def _comparison_table(rows: list[dict[str, str]], *columns: str) -> str:
    """Claims with these columns of `comparison_row`, as far as one of them has something there."""
    shown = [comparison_row(row) for row in rows]
    table = [
        {"claim": claim_cell(cells["where"], cells["claim"], markdown_words(cells["reason"]))}
        | {name: cells[name] for name in columns if any(other[name] for other in shown)}
        for cells in shown
    ]
    return markdown_table(table)


def claim_cell(place: str, text: str, *below: str) -> Markdown:
    """A claim in one cell of a table: its place, its words, and what is to be said of it on lines of their own.

    A reason of sixty words has the breadth of this cell; in a narrow column of its own it makes a row a page high.
    """
    return Markdown("<br>".join([f"{markdown_words(place)}: **{markdown_words(text)}**", *filter(None, below)]))


def comparison_row(row: Mapping[str, str]) -> dict[str, str]:
    """A recorded row (id, value, verdict, reason, basis) for a person, beside what the document says."""
    entry, ours = claim(row["id"]), row["value"]
    return {
        "where": f"{entry.document}, {entry.place}",
        "claim": entry.claim,
        "document": _paper(entry),
        "ours": claim_amount(_rounded(float(ours), entry, row), entry.unit) if ours else "",
        "deviation": _deviation_text(ours, entry),
        **{key: row[key] for key in ("verdict", "basis", "reason")},
    }


def _rounded(value: float, entry: Claim, row: Mapping[str, str]) -> float:
    """Ours with one digit more than the document has, three at least, and as many more as its verdict needs."""
    if value.is_integer() and abs(value) < 1e6:
        return value  # a count
    drawn = (float(row["low"]), float(row["high"])) if row.get("low") else None
    told = (entry.paper_value, entry.relation, entry.tolerance, drawn)
    printed = len(Decimal(f"{entry.paper_value:.12g}").normalize().as_tuple().digits)
    choices = [significant(value, digits) for digits in range(max(3, printed + 1), 6)]
    return next((short for short in choices if verdict(short, *told) == verdict(value, *told)), value)


def claim_amount(value: float, unit: str) -> str:
    """A number in a claim's unit for a person, such as claim_amount(3.6e12, "bit/s") = "3.6 Tbps"."""
    if unit in ("parameters", "tokens"):  # M, B and T of them, as of money
        return f"{show(value, 'USD').removesuffix('USD')}{unit}"
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
    return "exact" if abs(off) < 1e-9 else f"{significant(off):+.2%}" if entry.paper_value else number(off, 3)


_Rows = list[dict[str, str]]  # of the ledger


def _by_document(rows: _Rows) -> Iterator[tuple[str, _Rows]]:
    """Each document with its rows, and "all" with all."""
    for document in [*dict.fromkeys(row["document"] for row in rows), "all"]:
        yield document, [row for row in rows if document in ("all", row["document"])]


def verdict_counts(rows: _Rows) -> list[dict[str, object]]:
    """Claims of each document and of all by verdict."""
    return [
        {"document": document, "claims": len(mine), **{name: _count(mine, verdict=name) for name in VERDICTS}}
        for document, mine in _by_document(rows)
    ]


def evidence_counts(rows: _Rows) -> list[dict[str, Any]]:
    """Claims of each document and of all: what became of those that were put to a model, and how many others hold.

    A claim that set a parameter counts as that alone. The column missing is there where a claim is.
    """
    table = []
    for document, mine in _by_document(rows):
        put = [row for row in mine if row["evidence"] == "model"]
        free = [row for row in put if not _set_a_parameter(row)]
        rest = [row for row in mine if row["evidence"] != "model"]
        counts = {
            "put to a model": len(put),
            "came out": _count(free, verdict="reproduced"),
            "set a parameter": len(put) - len(free),
            "came within 10%": _count(free, verdict="close"),
            "did not come out": _count(free, verdict="differs"),
            "no data": _count(free, verdict="unavailable"),
            "looked up or multiplied": f"{_count(rest, verdict='reproduced')} of {len(rest)}",
        }
        missing = {"missing": _count(mine, verdict="missing")} if _count(rows, verdict="missing") else {}
        table.append({"document": document, **counts, **missing})
    return table


def cause_counts(rows: _Rows) -> list[dict[str, Any]]:
    """Claims of each document and of all that do not come out, by cause; those that set a parameter are left out."""
    return [
        {"document": document, **{name: _count(mine, cause=name) for name in causes.CAUSES}}
        for document, mine in _by_document([row for row in rows if not _set_a_parameter(row)])
    ]


def _set_a_parameter(row: Mapping[str, str]) -> bool:
    return row["evidence"] == "model" and row["basis"] == "calibrated"


def evidence_text(rows: _Rows) -> str:
    """What `evidence_counts` and `cause_counts` say, in sentences."""
    (*_, counts), (*_, why) = evidence_counts(rows), cause_counts(rows)
    names = ("put to a model", "came out", "set a parameter", "came within 10%", "did not come out", "no data")
    put, out, used, near, far, none = map(counts.__getitem__, names)
    held = [row for row in rows if row["verdict"] == "reproduced" and row["evidence"] == "model"]
    tables = sum(row["id"].startswith(_ONE_FORMULA) and not _set_a_parameter(row) for row in held)
    contradicted, unprinted, ours = (why[name] for name in causes.CAUSES)
    failed = sum(_count(rows, verdict=name) for name in (*FAILED, "unavailable"))
    return (
        f"Of {len(rows)} claims, {put} were put to a model. {out} of these came out; {tables} of them are the rows of "
        f"two tables of switches, from one formula. {near} came within 10%, {far} did not come out, {none} have no "
        f"data, and {used} set a parameter, which proves nothing. In all, with those looked up, {failed} are not "
        f"reproduced: for {contradicted} the document contradicts itself or what it cites "
        f"({len(causes.contradictions())} contradictions, some in several claims), for {unprinted} it does not print "
        f"what the number needs, {ours} are our model or reading, and {failed - contradicted - unprinted - ours} have "
        "no data or set a parameter."
    )


def basis_counts(rows: _Rows) -> list[dict[str, object]]:
    """Reproduced claims of each document and of all that were put to a model, by what they rest on."""
    return [
        {
            "document": document,
            **{name: _count(mine, verdict="reproduced", evidence="model", basis=name) for name in grounds.BASES},
        }
        for document, mine in _by_document(rows)
    ]


def _count(rows: _Rows, **wanted: str) -> int:
    return sum(all(row[key] == value for key, value in wanted.items()) for row in rows)


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
        mine["evidence"] = grounds.evidence(entry.id)
        mine["cause"] = causes.cause(entry.id) if judged in FAILED else ""
        paper = {"paper_value": f"{entry.paper_value:.12g}", "tolerance": f"{entry.tolerance:.12g}"}
        result.append({**vars(entry), **paper, **mine, **{key: row[key] if row else "" for key in ("reason", "basis")}})
    return result
