"""Text → tokens, for both languages.

One pass of one regular expression, linear in the length of the text. Comments are kept aside
with their places, so that the formatter can put them back. Errors are recorded in the report
and lexing goes on: the parser sees the rest of the text.
"""

from __future__ import annotations

import re

from msgspec import Struct

from omnigraph.diagnostics import Report

NAME = "name"
VARIABLE = "variable"
INTEGER = "integer"
FLOAT = "float"
STRING = "string"
END = "end"


class Token(Struct, frozen=True):
    """One token. Punctuation has its own text as `kind`.

    `value` is the meaning: the decoded string, the number, or the variable's name without `$`.
    """

    kind: str
    text: str
    start: int
    end: int
    value: str | int | float | None = None


class Comment(Struct, frozen=True):
    """A comment and its place; `text` includes the comment marks."""

    text: str
    start: int
    end: int


_MASTER = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\ufeff]++)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*+)
  | (?P<variable>\$[A-Za-z_][A-Za-z0-9_]*+)
  | (?P<number>[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
  | (?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")
  | (?P<comment>//[^\n]*+)
  | (?P<block>/\*)
  | (?P<punct>->|\.\.|!=|<=|>=|[{}()\[\]:,.=<>+\-*/?@])
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z0-9_]++")
# What follows is for rare texts: `re` compiles each when it is first needed, and keeps it.
_BROKEN_STRING = r'"[^\n]*+'
#: Text in quotes of other languages, or in those that word processors make.
_SINGLE_QUOTED = r"'[^'\n]*+'|[“„][^“”\n]*+[“”]|‘[^’\n]*+’|«[^»\n]*+»"
_STRANGE = r"""[^\sA-Za-z0-9_$"/{}()\[\]:,.=<>+\-*?@]++"""
_ESCAPE = r"\\(?:u([0-9A-Fa-f]{4})|(.))"
_SURROGATE = "[\ud800-\udfff]"
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"
}  # fmt: skip

_LARGEST_INTEGER_DIGITS = 20
_STRANGE_HINTS = {
    **dict.fromkeys("'“”„‘’«»", 'write text in double quotes: "…"'),
    "#": "comments start with `//`",
    ";": "statements need no semicolon; a new line is enough",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `!=` for unequal and `not ( … )` for negation",
    "%": "there is no `%` operator",
    "$": "a variable is `$` and a name, such as `$person`",
}


def tokenize(report: Report) -> tuple[list[Token], list[Comment]]:
    """Cut the report's text into tokens (ending in one `END` token) and comments."""
    text = report.text
    tokens: list[Token] = []
    comments: list[Comment] = []
    size = len(text)
    at = 0
    match = _MASTER.match
    add = tokens.append
    if not text.isascii() and (bad := re.search(_SURROGATE, text)):
        report.error(
            "OG-LX-006",
            "the text is not valid Unicode",
            bad.span(),
            "save the file as UTF-8",
        )
        text = re.sub(_SURROGATE, "\N{REPLACEMENT CHARACTER}", text)
    while at < size:
        matched = match(text, at)
        if matched is None:
            at = _strange(report, text, at)
            continue
        kind = matched.lastgroup
        start, at = at, matched.end()
        if kind == "space":
            continue
        if kind == "name":
            add(Token(NAME, matched[0], start, at))
        elif kind == "punct":
            word = matched[0]
            add(Token(word, word, start, at))
        elif kind == "variable":
            word = matched[0]
            add(Token(VARIABLE, word, start, at, word[1:]))
        elif kind == "number":
            if at < size and (word_tail := _WORD.match(text, at)):
                at = word_tail.end()
                report.error(
                    "OG-LX-005",
                    f"`{_short(text[start:at])}` is not a number",
                    (start, at),
                    "names start with a letter",
                )
            add(_number(report, matched[0], start, at))
        elif kind == "string":
            add(Token(STRING, matched[0], start, at, _unescape(report, matched[0], start)))
        elif kind == "comment":
            comments.append(Comment(matched[0].rstrip(), start, at))
        else:
            close = text.find("*/", at)
            if close < 0:
                report.error(
                    "OG-LX-003", "the comment is never closed", (start, at), "close it with `*/`"
                )
                at = size
            else:
                at = close + 2
                comments.append(Comment(text[start:at], start, at))
    add(Token(END, "", size, size))
    return tokens, comments


def _number(report: Report, word: str, start: int, end: int) -> Token:
    if word.isdigit():
        if len(word) > _LARGEST_INTEGER_DIGITS or int(word) >= 1 << 64:
            report.error(
                "OG-LX-005",
                f"`{_short(word)}` does not fit into 64 bits",
                (start, end),
                "the largest integer is 18446744073709551615 (U64)",
            )
            return Token(INTEGER, word, start, end, 0)
        return Token(INTEGER, word, start, end, int(word))
    value = float(word)
    if value == float("inf"):
        report.error(
            "OG-LX-005",
            f"`{_short(word)}` is too large for a 64-bit float",
            (start, end),
            "the largest float is about 1.8e308",
        )
        value = 0.0
    return Token(FLOAT, word, start, end, value)


def _unescape(report: Report, quoted: str, start: int) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    body = quoted[1:-1]
    parts: list[str] = []
    last = 0
    for escape in re.finditer(_ESCAPE, body, re.DOTALL):
        parts.append(body[last : escape.start()])
        last = escape.end()
        code, char = escape.groups()
        if code is not None:
            parts.append(chr(int(code, 16)))
        elif char in _ESCAPES:
            parts.append(_ESCAPES[char])
        else:
            place = start + 1 + escape.start()
            report.error(
                "OG-LX-004",
                f"unknown escape `{escape[0]}` in a string",
                (place, place + len(escape[0])),
                r"use \" \\ \/ \n \t \r \b \f or \uXXXX; a backslash itself is \\",
            )
    parts.append(body[last:])
    value = "".join(parts)
    if not value.isascii() and re.search(_SURROGATE, value):
        # A pair of escaped surrogates is one character; a lone one is not text.
        try:
            value = value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            report.error(
                "OG-LX-004",
                "half of a surrogate pair in a string",
                (start, start + len(quoted)),
                r"write both halves, such as \ud83d\ude00, or the character itself",
            )
            value = re.sub(_SURROGATE, "\N{REPLACEMENT CHARACTER}", value)
    return value


def _strange(report: Report, text: str, at: int) -> int:
    """Report what no token starts with; give the place to go on from."""
    char = text[at]
    if char == '"':
        broken = re.compile(_BROKEN_STRING).match(text, at)
        assert broken is not None
        report.error(
            "OG-LX-002",
            "the string is not closed on its line",
            broken.span(),
            r'close it with `"`; write a line break inside a string as \n',
        )
        return broken.end()
    run = re.compile(_SINGLE_QUOTED).match(text, at) or re.compile(_STRANGE).match(text, at)
    end = run.end() if run else at + 1
    shown = _short(text[at:end])
    report.error(
        "OG-LX-001",
        f"unexpected character{'s' if end - at > 1 else ''} `{shown}`",
        (at, end),
        _STRANGE_HINTS.get(char),
    )
    return end


def _short(text: str) -> str:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:24])
    return shown + "…" if len(text) > 24 else shown
