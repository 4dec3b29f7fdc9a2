"""Which verdicts turn on a choice among readings of a text, and what the other readings give."""

from collections.abc import Mapping

from railcore.facts import claims, files

Values = Mapping[str, float | None]


def verdicts(values: Values) -> dict[str, str]:
    """Verdict of each claim's value."""
    found = {}
    for claim_id, value in values.items():
        entry = claims.claim(claim_id)
        found[claim_id] = claims.verdict(value, entry.paper_value, entry.relation, entry.tolerance)
    return found


def turned(ours: Values, others: Values) -> list[str]:
    """Claims whose verdict is another one with other values, in the order of ours; those that others lack do not turn.

    Verdicts are compared, not values: a relation that holds either way rests on neither.
    """
    mine, theirs = verdicts(ours), verdicts(others)
    return [claim_id for claim_id in mine if theirs.get(claim_id, mine[claim_id]) != mine[claim_id]]


def readings(ours: Values, choices: Mapping[str, Mapping[str, Values]]) -> dict[str, str]:
    """Texts for `claims.record`, of the claims whose verdict a choice among readings decides.

    choices: for each reading taken, in words, what the other readings give, by their names:
    {"32k is 32,000": {"32,768": {claim: value}}} gives {claim: "32k is 32,000 (32,768: 8.003 GB)"}. None in a run with
    the user's own numbers, which has no verdicts.
    """
    if files.parameterized():
        return {}
    texts = []
    for taken, others in choices.items():
        deciding = {claim_id for values in others.values() for claim_id in turned(ours, values)}
        texts.append({key: f"{taken} ({_listed(key, others)})" for key in ours if key in deciding})
    return joined(*texts)


def _listed(claim_id: str, others: Mapping[str, Values]) -> str:
    entry, given = claims.claim(claim_id), {name: values.get(claim_id) for name, values in others.items()}
    shown = {name: claims.amount(value, entry.unit) for name, value in given.items() if value is not None}
    return ", ".join(f"{name}: {text}" for name, text in shown.items())


def joined(*parts: Mapping[str, str]) -> dict[str, str]:
    """Texts for one claim in several tables as one sentence, in their order."""
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: "; ".join(part[key] for part in parts if key in part) for key in keys}
