"""The words of a command as a person pastes it: a line, or a script whose variables and arrays hold the arguments."""

import re
import shlex

_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_ASSIGNED = re.compile(
    r"""(?mx) ^ [ \t]* (?:export [ \t]+)? (?P<name>[A-Za-z_]\w*) (?P<more>\+?) =
    (?P<value> \( (?: [^()'"] | '[^']*' | "[^"]*" )* \) | "[^"]*" | '[^']*' | [^\s;'"()]+ ) """
)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?:\[[@*]\])?(?::[-=](?P<default>[^}]*))?\}|(?P<plain>[A-Za-z_]\w*))")
_DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"  # that a word processor makes of two


def shell_words(text: str) -> list[str]:
    """Words of a command, without comments and with its own variables in place.

    A variable or an array that the text sets is put where it is used, and stays where it stands if it is not used. What
    a command has in quotes after `bash -c` is words too. A variable that is not set stays as it is written.

    Raises ValueError for an open quote.
    """
    text = _COMMENT.sub("", text).replace("\\\n", " ")
    values: dict[str, str] = {}
    for found in _ASSIGNED.finditer(text):
        name, value = found["name"], _with_variables(_bare(found["value"]), values)
        values[name] = f"{values.get(name, '')} {value}" if found["more"] else value
    used = {found["braced"] or found["plain"] for found in _VARIABLE.finditer(text)}

    def in_place(found: re.Match[str]) -> str:
        return " " if found["name"] in used or "--" not in found["value"] else f" {_bare(found['value'])} "

    text = _with_variables(_ASSIGNED.sub(in_place, text), values)
    try:
        words = shlex.split(text)
        return [part for word in words for part in parts_of_word(word)]
    except ValueError as error:
        raise ValueError(f"the words cannot be told apart ({error}): look for an open quote") from None


def parts_of_word(word: str) -> list[str]:
    """The words of a command in quotes, or a word as it is; long dashes before it become two."""
    if re.search(r"\s", word) and re.search(r"(^|\s)--\w", word):
        return [part for inner in shlex.split(word) for part in parts_of_word(inner)]
    plain = word.lstrip(_DASHES)
    return [f"--{plain}" if plain != word and plain[:1].isalpha() else word]


def _bare(value: str) -> str:
    """A value without the brackets of an array or its quotes."""
    return value[1:-1] if value[:1] in ("(", '"', "'") else value


def _with_variables(text: str, values: dict[str, str]) -> str:
    """A text with the values of its variables; without a value, a default or the variable itself."""

    def value(found: re.Match[str]) -> str:
        default = found[0] if found["default"] is None else found["default"]
        return values.get(found["braced"] or found["plain"], default)

    return _VARIABLE.sub(value, text)
