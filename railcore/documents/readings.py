"""Which verdicts depend on how a text is read, and what the other readings give."""

from collections.abc import Mapping
from typing import Any

from railcore.facts import claims, files

Values = Mapping[str, float | None]
Entries = tuple[dict[str, float], dict[str, str], dict[str, str]]  # values, reasons and readings for `claims.record`


def with_prefix(prefix: str, values: Mapping, reasons: Mapping[str, str], taken: Mapping[str, str]) -> Entries:
    """Values, reasons and readings by whole claim ids, for `claims.record`.

    Parameters
    ----------
    prefix
        What the ids begin with, such as "railonly2023" or "railonly2025.fig8".
    values, reasons, taken
        By the rest of the id.

    Returns
    -------
    The three tables, in this order.
    """
    found: list[dict[str, Any]] = [
        {f"{prefix}.{name}": x for name, x in part.items()} for part in (values, reasons, taken)
    ]
    return found[0], found[1], found[2]


def entries_together(*groups: Entries) -> Entries:
    """Values, reasons and readings of several groups of claims as one."""
    values, reasons, taken = (
        {key: x for part in parts for key, x in part.items()} for parts in zip(*groups, strict=True)
    )
    return values, reasons, taken


def claim_verdicts(values: Values) -> dict[str, str]:
    """Verdict of each claim's value."""
    found = {}
    for claim_id, value in values.items():
        entry = claims.claim(claim_id)
        found[claim_id] = claims.verdict(value, entry.paper_value, entry.relation, entry.tolerance)
    return found


def turned(ours: Values, others: Values) -> list[str]:
    """Claims whose verdict changes with other values, in the order of ours; claims that `others` lacks stay.

    Verdicts are compared, not values: a relation that holds with both readings depends on neither.
    """
    mine, theirs = claim_verdicts(ours), claim_verdicts(others)
    return [claim_id for claim_id in mine if theirs.get(claim_id, mine[claim_id]) != mine[claim_id]]


def verdict_readings(ours: Values, choices: Mapping[str, Mapping[str, Values]]) -> dict[str, str]:
    """Texts for `claims.record`, of the claims whose verdict depends on how the text is read.

    choices: for each reading that was taken, in words, the values of the other readings by their names:
    {"32k is 32,000": {"32,768": {claim: value}}} gives {claim: "32k is 32,000 (32,768: 8.003 GB)"}. Empty in a run with
    the user's own numbers, which has no verdicts.
    """
    if files.parameterized():
        return {}
    texts = []
    for taken, others in choices.items():
        deciding = {claim_id for values in others.values() for claim_id in turned(ours, values)}
        texts.append({key: f"{taken} ({_listed(key, others)})" for key in ours if key in deciding})
    return joined_texts(*texts)


def _listed(claim_id: str, others: Mapping[str, Values]) -> str:
    entry, given = claims.claim(claim_id), {name: values.get(claim_id) for name, values in others.items()}
    shown = {name: claims.amount(value, entry.unit) for name, value in given.items() if value is not None}
    return ", ".join(f"{name}: {text}" for name, text in shown.items())


def joined_texts(*parts: Mapping[str, str]) -> dict[str, str]:
    """Texts for one claim in several tables as one sentence, in their order."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: "; ".join(part[key] for part in parts if key in part) for key in keys}
