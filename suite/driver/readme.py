"""What the driver writes into README: the questions with their answers, and the counts of the ledger."""

import re
import textwrap
from collections.abc import Iterable

from railcore.catalog.tables import markdown_table
from suite import answers
from suite.ledger import claims

PARTS = ("answers", "ledger")  # each stands between <!-- its name --> and <!-- /its name -->
_ASKED = ("20", "01", "07", "06", "08", "14", "11", "16", "12", "21")  # numbers of notebooks, in README's order


def lacking(text: str) -> list[str]:
    """Names of the parts whose markers a text lacks."""
    return [part for part in PARTS if not _between(part).search(text)]


def written(text: str, ledger: list[dict[str, str]], answered: Iterable[answers.NotebookAnswer]) -> str:
    """README's text with its parts as they are now."""
    by_number = {answer.notebook[:2]: answer for answer in answered}
    told = textwrap.fill(claims.evidence_text(ledger), 120, break_on_hyphens=False)
    parts = {
        "answers": answers.overview(by_number[number] for number in _ASKED if number in by_number),
        "ledger": f"{markdown_table(claims.evidence_counts(ledger))}\n{told}\n",
    }
    for part, now in parts.items():
        text = _between(part).sub("\n" + now.replace("\\", r"\\"), text, count=1)
    return text


def _between(part: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {part} -->).*?(?=<!-- /{part} -->)", re.DOTALL)
