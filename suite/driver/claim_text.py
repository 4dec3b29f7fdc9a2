"""What `suite claim` prints: what a document claims, what comes out, what it rests on, and its inputs."""

from collections.abc import Iterator

from railcore import catalog
from railcore.catalog.tables import read_csv
from railcore.catalog.units import convert, number
from suite import workspace
from suite.driver import publish
from suite.ledger import causes, claims, grounds

_BELOW = "\n          "  # begins what stands below a heading


def claim_text(asked: str) -> str:
    """A claim by its id, or the claims that hold words and values, one a line. Raises UnknownName for neither."""
    if asked not in claims.claims() and (entries := claims.matching_claims(asked)):
        return "\n".join(f"{entry.id}: {entry.claim}: {claims.paper_text(entry)}" for entry in entries)
    return "\n".join(_lines(claims.claim(asked)))


def _lines(entry) -> Iterator[str]:
    row = {row["id"]: row for row in read_csv(workspace.FIGURES / "reproduction.csv")}.get(entry.id, {})
    within = f"{number(100 * entry.tolerance)}%" if entry.paper_value else number(entry.tolerance)
    paper = claims.paper_text(entry) + (f" (within {within})" if entry.tolerance else "")
    ours = claims.claim_amount(float(row["value"]), entry.unit) if row.get("value") else "no value"
    judged = row.get("verdict") or "missing"
    if judged == "reproduced" and claims.within_printed_digit(float(row["value"]), entry):
        judged += ", within the printed digit"
    if judged == "missing" and (workspace.NOTEBOOKS / f"{entry.notebook}.ipynb").exists():
        judged += f", run `make figures NB={entry.notebook}`"
    texts = {
        "claim": entry.claim,
        "document": f"{entry.document}, {entry.place}: {paper}",
        "ours": f"{ours}: {judged}",
        "rests on": _basis_text(entry.id, row) if row.get("basis") else "",
        "evidence": _evidence_text(entry.id),
        "reason": row.get("reason", ""),
        "cause": _cause_text(row.get("cause", "")),
        "note": entry.note,
        "notebook": f"notebooks/{entry.notebook}.ipynb",
    }
    yield from (f"{key:<9} {value}" for key, value in texts.items() if value)
    settings = [f"{name} = {value}" for name, value in publish.published_parameters(entry.notebook).items()]
    inputs = [row for row in read_csv(workspace.FIGURES / "inputs.csv") if row["notebook"] == entry.notebook]
    moving = {(item.family, item.name, item.parameter) for item in grounds.moving_inputs(entry.id)}
    known = [row for row in inputs for at in ("", row["parameter"]) if (row["family"], row["name"], at) in moving]
    below = {
        "moved by  what is assumed, at its low and high end:": _moving_texts(entry, row),
        "inputs    numbers of the catalog that move it:": [_input_text(row) for row in known],
        "measured  files that the notebook reads:": [
            _input_text(row) for row in inputs if row["family"] == publish.MEASURED
        ],
        "settings  of the notebook:": settings,
    }
    yield from (_BELOW.join([heading, *listed]) for heading, listed in below.items() if listed)


def _basis_text(claim_id: str, row: dict[str, str]) -> str:
    """What a claim rests on, and the parameters that were solved, with what each was solved from."""
    solved = [
        f"{_BELOW}{how}: {calibration.parameter} from {calibration.used_text}: {calibration.note}"
        for calibration, how in grounds.calibrations_of(claim_id).items()
    ]
    return f"{row['basis']}: {grounds.BASES[row['basis']]}{''.join(solved)}"


def _evidence_text(claim_id: str) -> str:
    worth, why = grounds.evidence(claim_id), grounds.evidence_reason(claim_id)
    return f"{worth}: {why or grounds.EVIDENCE[worth]}"


def _cause_text(cause: str) -> str:
    return f"{cause}: {causes.CAUSES[cause]}" if cause else ""


def _moving_texts(entry, row: dict[str, str]) -> list[str]:
    """A line for each assumed input that moves a claim, those that decide its verdict first, and for stored numbers."""
    texts: dict[tuple[str, str, str], dict[str, float]] = {}
    stored = []
    for item in grounds.moving_inputs(entry.id):
        if item.end in grounds.ENDS:
            texts.setdefault((item.family, item.name, item.parameter), {})[item.end] = item.value
        elif item.family == "derived":
            stored.append(f"{item.name}: stored results, whose inputs cannot be varied in a notebook")
    decide = {
        (moving.family, moving.name, moving.parameter) for moving in claims.decided_by_assumed(entry.id, row["verdict"])
    }
    assumed = {(value.family, value.name, value.parameter): value for value in catalog.values("assumed")}
    lines = []
    for key in sorted(texts, key=lambda key: key not in decide):
        ends = [claims.claim_amount(value, entry.unit) for value in texts[key].values()]
        bounds = f", {_bounds(assumed[key])}" if key in assumed else ""
        words = " (decides the verdict)" if key in decide else ""
        name = ", ".join(filter(None, (f"{key[0]}: {key[1]}".removeprefix(": "), key[2])))
        lines.append(f"{name}{bounds}: ours {' to '.join(dict.fromkeys(ends))}{words}")
    return lines + stored


def _bounds(row) -> str:
    """The low and high end of a row of the catalog, in its unit."""
    unit = "" if row.unit == "1" else f" {row.unit}"
    return f"{convert(row.low, row.unit):g} to {convert(row.high, row.unit):g}{unit}"


def _input_text(row: dict[str, str]) -> str:
    """A row of figures/inputs.csv: a measured file, or a value of the catalog."""
    unit = "" if row["unit"] == "1" else f" {row['unit']}"
    what = f", {row['parameter']}: {row['value']}{unit}" if row["parameter"] else ""
    return f"{row['family']}: {row['name']}{what} ({row['kind']}; {row['source']})"
