"""The words of a command as a person pastes it: a line, or a script whose variables and arrays hold the arguments."""

import re
import shlex

MOST_LETTERS = 2**16  # of a command, its variables in place
_QUOTED = r"""'[^']*' | "(?:\\.|[^"\\])*" """
_COMMENT = re.compile(rf"(?mxs) (?P<kept>{_QUOTED}) | (?:^|(?<=\s)) \#[^\n]*")
_ASSIGNED = re.compile(
    rf"""(?mx) ^ [ \t]* (?:export [ \t]+)? (?P<name>[A-Za-z_]\w*) (?P<more>\+?) =
    (?P<value>
        \( (?: [^()'"] | {_QUOTED} )* \) |
        (?: \$\{{[^}}\n$]*\}} | \$\(\([^\n()]*\)\) | {_QUOTED} | [^\s;'"()] )+
    )"""
)
_ARRAY_IN_QUOTES = re.compile(r'"(\$\{\w+\[@\]\})"')  # whose members are words each
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?:\[[@*]\])?(?::[-=](?P<default>[^}$]*))?\}|(?P<plain>[A-Za-z_]\w*))")
_DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"  # that a word processor makes of two


def shell_words(text: str) -> list[str]:
    """Words of a command, without comments and with its own variables in place.

    A variable or an array that the text sets is put where it is used, and stays where it stands if it is not used. A
    command in quotes behind `-c` is words too. A variable that is not set stays as it is written.

    Raises ValueError for an open quote, a variable that is set to different values, and too many letters.
    """
    text = _COMMENT.sub(lambda found: found["kept"] or "", text).replace("\\\n", " ")
    text = _ARRAY_IN_QUOTES.sub(r"\1", text)
    used = {found["braced"] or found["plain"] for found in _VARIABLE.finditer(text)}
    values: dict[str, str] = {}
    for found in _ASSIGNED.finditer(text):
        name, own = found["name"], _bare(found["value"])
        value, before = _with_variables(own, values), values.get(found["name"])
        if found["more"]:
            value = f"{before or ''} {value}"
        elif before not in (None, value) and name in used and not _uses(own, name):
            raise ValueError(f"{name} is set twice, to {before!r} and {value!r}: keep one")
        values[name] = value

    def in_place(found: re.Match[str]) -> str:
        return " " if found["name"] in used or "--" not in found["value"] else f" {_bare(found['value'])} "

    text = _with_variables(_ASSIGNED.sub(in_place, text), values)
    try:
        words = shlex.split(text)
        return [
            part
            for before, word in zip(["", *words], words, strict=False)
            for part in (shlex.split(word) if re.fullmatch("-[a-z]*c", before) else [with_dashes(word)])
        ]
    except ValueError as error:
        raise ValueError(f"the words cannot be told apart ({error}): look for an open quote") from None


def with_dashes(word: str) -> str:
    """A word with two dashes for a long one before a name."""
    plain = word.lstrip(_DASHES)
    return f"--{plain}" if plain != word and plain[:1].isalpha() else word


def _bare(value: str) -> str:
    """A value without the brackets of an array or its quotes."""
    return value[1:-1] if value[:1] == "(" or re.fullmatch(_QUOTED, value, re.X | re.S) else value


def _uses(text: str, name: str) -> bool:
    return any(name in (found["braced"], found["plain"]) for found in _VARIABLE.finditer(text))


def _with_variables(text: str, values: dict[str, str]) -> str:
    """A text with the values of its variables; without a value, a default or the variable itself."""
    letters = len(text)

    def value(found: re.Match[str]) -> str:
        nonlocal letters
        default = found[0] if found["default"] is None else found["default"].strip("'\"")
        put = values.get(found["braced"] or found["plain"], default)
        letters += len(put)
        if letters > MOST_LETTERS:
            raise ValueError(
                f"the command has more than {MOST_LETTERS:,} letters with its variables: give a shorter one"
            )
        return put

    return _VARIABLE.sub(value, text)
