"""Characters that neither a page nor a terminal shows: controls, and marks that hide or turn what is read."""

import re

# C0 and C1, what turns the direction of writing or hides, ends of lines and of paragraphs, halves of a pair (UTF-16),
# tags, and what XML does not allow. Not: spaces of any kind, and the joiners of Persian words and of emoji.
_OF_LINES = r"\t\n\r"
_OTHERS = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_IN_A_LINE = re.compile(f"[{_OF_LINES}{_OTHERS}]")
_IN_LINES = re.compile(f"[{_OTHERS}]")
_ESCAPED = re.compile(rf"[\r{_OTHERS}]")


def hidden_character_fault(text: str, lines: bool = False) -> str:
    """The first control or invisible character of a text, with the remedy; "" where there is none.

    lines: whether tabs and ends of lines are allowed.
    """
    found = (_IN_LINES if lines else _IN_A_LINE).search(text)
    if found is None:
        return ""
    what = f"has a control or invisible character, {found[0]!r}, at place {found.start() + 1}"
    return f"{what}: write plain text{'' if lines else ' in one line'}"


def check_visible(what: str, text: str) -> None:
    """Raises ValueError that begins with `what` for a text with a control or invisible character."""
    if fault := hidden_character_fault(text):
        raise ValueError(f"{what} {fault}")


def escaped(text: str) -> str:
    r"""A message of one or more lines, with such characters as Python writes them: \x1b."""
    return _ESCAPED.sub(lambda letter: repr(letter[0])[1:-1], text)
