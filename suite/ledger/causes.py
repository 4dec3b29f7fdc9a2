"""Why a claim does not come out: data/contradictions.csv, and data/claim_causes.csv for the others."""

from functools import cache
from typing import NamedTuple

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from suite.ledger.claim_rows import claims
from suite.ledger.grounds import claims_by_pattern, known_claim

CONTRADICTION = "contradiction"
# In the order in which they are counted.
CAUSES = {
    CONTRADICTION: "the document contradicts itself or what it cites",
    "not printed": "the number needs what the document does not print",
    "ours": "our model or our reading is another one, or falls short",
}
_CONTRADICTIONS, _COLUMNS = "contradictions.csv", ("claim", "says", "against")


class Contradiction(NamedTuple):
    """A sentence of a document and what it contradicts.

    claim: its row of the ledger, which has our number. copies: other rows with the same error.
    """

    claim: str
    says: str
    against: str
    copies: tuple[str, ...] = ()


@cache
def contradictions() -> tuple[Contradiction, ...]:
    """All of data/contradictions.csv; its first column has a claim, then those that repeat the same error.

    Raises ValueError by line for a blank field, a claim given twice or unknown.
    """
    rows: list[Contradiction] = []
    listed: list[str] = []
    for line, row in enumerate(read_csv(files.data(_CONTRADICTIONS)), start=2):
        where = f"data/{_CONTRADICTIONS}, line {line}"
        if blank := [name for name in _COLUMNS if not (row.get(name) or "").strip()]:
            raise ValueError(f"{where}: {blank[0]} is blank: fill it in")
        claim, *copies = row["claim"].split()
        for name in (claim, *copies):
            if name not in claims():
                raise ValueError(f"{where}: claim is {name!r}, which data/claims.csv has not: give one of its ids")
            if name in listed:
                raise ValueError(f"{where}: claim {name!r} is given twice: join the rows")
            listed.append(name)
        rows.append(Contradiction(claim, row["says"], row["against"], tuple(copies)))
    return tuple(rows)


@cache
def _causes() -> dict[str, str]:
    named = claims_by_pattern("claim_causes.csv", "cause", [name for name in CAUSES if name != CONTRADICTION])
    listed = {name for row in contradictions() for name in (row.claim, *row.copies)}
    if twice := sorted(listed & set(named)):
        raise ValueError(f"data/claim_causes.csv: {twice[0]} stands in data/{_CONTRADICTIONS} too: name it once")
    return dict.fromkeys(listed, CONTRADICTION) | {claim_id: row["cause"] for claim_id, row in named.items()}


def cause(claim_id: str) -> str:
    """Why a claim does not come out, one of CAUSES; "" of a claim that neither file names.

    Raises ValueError for a row of the files that is wrong, and for a claim that two rows name.
    """
    return _causes().get(known_claim(claim_id), "")
