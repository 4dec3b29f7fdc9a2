"""What our value of a claim rests on and what it is worth: solved parameters, assumed inputs, evidence.

data/calibrations.csv has the parameters that were solved, data/derived/claim_inputs.csv what each input of the catalog
does to a claim, and data/claim_evidence.csv which values no model could have failed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from railcore.catalog import UnknownName, files
from railcore.catalog.tables import read_csv
from suite.ledger.claim_rows import claims

# What a value rests on; where several apply, the last of them counts.
BASES = {
    "stated": "all inputs are printed in the document or in a source that is cited",
    "reading": "a choice among readings of the text; the reason names the others and what they give",
    "assumed": "an input that the catalog assumes: at its low or high end the verdict is another one",
    "predicted": "a parameter that was solved from other claims or from measured runs",
    "calibrated": "a parameter or a reading that was chosen so that this claim comes out",
}
# What a value is worth as evidence for the document.
EVIDENCE = {
    "model": "computed by a model of railcore, which could have given another number",
    "construction": "true by how the model is built, or the same number as another claim's",
    "measured": "a statistic of the authors' own data",
    "arithmetic": "a product or a look-up of numbers that the document or a source prints",
    "given": "the value is an input",
}
ENDS = ("low", "high")  # of an assumed row of the catalog
CLAIM_INPUTS = "derived/claim_inputs.csv"
_MEASURED = files.DATA / "measured"  # not by files.data: it is no input of the notebooks that look names up here
_RUNS, _FILE = "runs:", "file:"  # begin words of `used` that name measured runs, and a file of data/measured


@dataclass(frozen=True)
class Calibration:
    """A parameter that the documents do not print, solved from claims or measured runs: a row of data/calibrations.csv.

    free: numbers or readings that were free to choose.
    used: ids of the claims that they were chosen from.
    runs: sources or models of rows of data/measured/iterations.csv, and files of data/measured, that they were chosen
        from.
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

    A word of `used` that begins with runs: is part of a source or model of measured runs, with _ for a space; one that
    begins with file: is a file of data/measured.
    Raises ValueError for an id or a pattern that fits no claim, text that is in no run, and a file that is not there.
    """
    measured = [f"{run['source']}\n{run['model']}" for run in read_csv(_MEASURED / "iterations.csv")]
    rows = []
    for row in read_csv(files.data("calibrations.csv")):
        where, words = f"data/calibrations.csv, {row['parameter']}", row["used"].split()
        runs = tuple(_measured(word, where, measured) for word in words if word.startswith((_RUNS, _FILE)))
        used = [matching_ids(word, where) for word in words if not word.startswith((_RUNS, _FILE))]
        rest = [matching_ids(word, where) for word in row["predicted"].split()]
        mine = tuple(dict.fromkeys(name for ids_ in used for name in ids_))
        others = tuple(dict.fromkeys(name for ids_ in rest for name in ids_ if name not in mine))
        text = ", ".join(word for word in words if not word.startswith((_RUNS, _FILE)))
        text = "; ".join(part for part in (text, ", ".join(runs)) if part)
        rows.append(Calibration(row["parameter"], int(row["free"]), mine, runs, others, text, row["note"]))
    return tuple(rows)


def _measured(word: str, where: str, measured: list[str]) -> str:
    """The file, or the text of a run, that a word of `used` names. measured: source and model of each run."""
    if word.startswith(_FILE):
        path = _MEASURED / word.removeprefix(_FILE)
        if not path.is_file():
            raise ValueError(f"{where}: {word!r} names no file of data/measured")
        return path.relative_to(files.DATA).as_posix()
    text = word.removeprefix(_RUNS).replace("_", " ")
    if not any(text in run for run in measured):
        raise ValueError(f"{where}: {word!r} is in no source or model of data/measured/iterations.csv")
    return text


def matching_ids(pattern: str, where: str) -> list[str]:
    """Ids of the claims that a pattern fits. where: of the pattern, for the ValueError if it fits none."""
    names = [name for name in claims() if fnmatchcase(name, pattern)]
    if not names:
        raise ValueError(f"{where}: {pattern!r} fits no claim: write ids of data/claims.csv")
    return names


def known_claim(claim_id: str) -> str:
    """The id of a claim. Raises UnknownName listing the nearest ids."""
    if claim_id not in claims():
        raise UnknownName("claim", claim_id, list(claims()))
    return claim_id


def calibrations_of(claim_id: str) -> dict[Calibration, str]:
    """Solved parameters that a claim depends on, with "calibrated" (solved from it) or "predicted" (from others)."""
    known_claim(claim_id)
    texts = {calibration: "calibrated" for calibration in calibrations() if claim_id in calibration.used}
    return texts | {calibration: "predicted" for calibration in calibrations() if claim_id in calibration.predicted}


def solved_texts(claim_id: str) -> list[str]:
    """What stands first in a claim's reason: each solved parameter that it depends on."""
    return [f"{how}: {calibration.parameter}" for calibration, how in calibrations_of(claim_id).items()]


def calibration_counts(rows: list[dict[str, str]]) -> list[dict[str, object]]:
    """Each calibrated parameter beside what it was solved from and what it predicts, from rows of the ledger."""
    held = {row["id"] for row in rows if row["verdict"] == "reproduced"}
    recorded = {row["id"] for row in rows if row["verdict"] != "missing"}
    table = []
    for calibration in calibrations():
        used = recorded.intersection(calibration.used)
        if used or calibration.runs:
            rest = recorded.intersection(calibration.predicted)
            counted = {
                "free": calibration.free,
                "claims or runs used": len(used) + len(calibration.runs),
                "predicted": len(rest),
            }
            counted["of these reproduced"] = len(rest & held)
            table.append(
                {
                    "parameter": calibration.parameter,
                    **counted,
                    "solved from": calibration.used_text,
                    "how": calibration.note,
                }
            )
    return table


def claims_by_pattern(name: str, column: str, known: Collection[str]) -> dict[str, dict[str, str]]:
    """Rows of a file of data/ by the ids of the claims that fit their column claims.

    column: of the file, with one of `known`.

    Raises ValueError for a row with another value there or a blank, and for a claim that two rows name.
    """
    rows: dict[str, dict[str, str]] = {}
    for row in read_csv(files.data(name)):
        where = f"data/{name}, {row['claims']}"
        if row[column] not in known or not all(cell.strip() for cell in row.values()):
            raise ValueError(f"{where}: {column} is one of {', '.join(known)}, and no cell is blank")
        for claim_id in matching_ids(row["claims"], where):
            if claim_id in rows:
                raise ValueError(f"{where}: {claim_id} is named by another row too: name it once")
            rows[claim_id] = row
    return rows


@cache
def _evidence() -> dict[str, tuple[str, str]]:
    """Evidence and why, by id, of the claims that data/claim_evidence.csv names."""
    named = claims_by_pattern("claim_evidence.csv", "evidence", EVIDENCE)
    return {claim_id: (row["evidence"], row["why"]) for claim_id, row in named.items()}


def evidence(claim_id: str) -> str:
    """What a claim's value is worth, one of EVIDENCE: "model" where data/claim_evidence.csv has no other.

    Raises ValueError for a row of that file with an unknown evidence, without a reason, or that fits no claim, and for
    a claim that two rows name.
    """
    return _evidence().get(known_claim(claim_id), ("model", ""))[0]


def evidence_reason(claim_id: str) -> str:
    """Why a value is worth what `evidence` says, "" for a model's."""
    return _evidence().get(known_claim(claim_id), ("", ""))[1]


@dataclass(frozen=True)
class MovingInput:
    """An input that moves a claim: what was changed and our value of the claim there, in the claim's unit.

    family, name, parameter: the catalog's row, with "" of all rows of an item. Of stored results "derived", a path and
        ""; of all assumed rows "", words, "".
    end: "low" or "high" of an assumed row, or of the claim with all of them; "larger" of others; "+1%" of stored
        results.
    """

    family: str
    name: str
    parameter: str
    end: str
    value: float


@cache
def _moving() -> dict[str, tuple[MovingInput, ...]]:
    moving: dict[str, list[MovingInput]] = {}
    for row in read_csv(files.data(CLAIM_INPUTS)):
        if row["id"]:
            where = {key: row[key] for key in ("family", "name", "parameter", "end")}
            moved = MovingInput(**where, value=float(row["value"]))
            moving.setdefault(row["id"], []).append(moved)
    return {claim_id: tuple(moved) for claim_id, moved in moving.items()}


def moving_inputs(claim_id: str) -> tuple[MovingInput, ...]:
    """Rows of the catalog and stored numbers that move a claim's value: data/derived/claim_inputs.csv (`make slow`)."""
    return _moving().get(known_claim(claim_id), ())
