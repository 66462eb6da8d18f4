"""No text may crash, hang or confuse the languages, however broken it is.

Inputs are garbage, token soup, and valid texts that were damaged. A failure names the seed of its
input; `input_of(random.Random(seed))` gives the text again.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial

import pytest

from omnigraph.diagnostics import MAX_ERRORS, Diagnostic, Report
from omnigraph.errors import QueryError, SchemaError
from omnigraph.language import (
    Catalog,
    check_queries,
    check_schema,
    compile_schema,
    format_queries,
    format_schema,
    lint,
)
from omnigraph.language.codes import CODES
from omnigraph.language.tokens import tokenize
from tests.language.generators import comments, from_random, run_many, without_places
from tests.language.query_generators import RICH_SCHEMA, query_text
from tests.language.schema_generators import schema_model
from tests.language.timing import cpu_seconds, is_within

INPUTS = 10_000
SLOWEST = 2.0

_WORDS = """
node edge interface implements enum Vector String Blob Bool I32 I64 U32 U64 F32 F64 Date DateTime
key unique index range check card embed description instruction rename_from default model query
match return distinct order limit offset not optional and or in is null contains starts_with insert
update delete set where as asc desc count sum avg min max search fuzzy match_text bm25 nearest rrf
now date datetime true false from to id Person Company City Named Knows knows WorksAt worksAt likes
name email age face bio status tags x $p $q $_ $x _rowid
"""
_SIGNS = r"""
{ } ( ) [ ] : , . = < > + - * / ? @ -> .. != <= >= 0 1 42 1.5 1e5 99999999999999999999 1e999 0x1
"text" "" "2026-01-31" "\n" "\x" "\ud800" "open // /* */ /**/ //x ' # ; & | ! % $ $$ \
"""
_SPACES = ("\n", "\n", "\n", " ", "\t", "\r\n", "\f", "\ufeff", "\x00", "\x85", "\u2028", "é", "🎉")
WORDS = tuple(_WORDS.split())
SIGNS = (*_SIGNS.split(), *_SPACES)
STRANGE = "\x00\x01\x7f\x85\xa0\u200b\u200d\u202e\u2028\ufeff\ufffe\ud800\udfffé漢🎉´“”…\u0301"


@cache
def rich() -> Catalog:
    return compile_schema(RICH_SCHEMA)


# --- inputs --------------------------------------------------------------------------------------


def garbage(rng: random.Random) -> str:
    size = rng.choice((0, 1, 2, 5, 20, 100, 300))
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(size).decode("latin-1")
    if kind == 1:
        chars = (rng.choice((rng.randrange(128), rng.randrange(0x110000))) for _ in range(size))
        return "".join(map(chr, chars))
    return "".join(rng.choice(STRANGE + 'ab \n{}"$/*') for _ in range(size))


def soup(rng: random.Random) -> str:
    """Tokens of both languages in any order."""
    signs = rng.choice((1, 2, 4))
    parts: list[str] = []
    for _ in range(rng.choice((1, 3, 10, 30, 80))):
        parts.append(rng.choice(WORDS if rng.randrange(signs + 1) == 0 else SIGNS))
        parts.append(rng.choice((" ", " ", " ", "", "\n")))
    text = "".join(parts)
    frame = rng.randrange(8)
    if frame == 0:
        return f"query q($x: String) {{ match {{ $p: Person {text} }} return {{ $p }} }}"
    if frame == 1:
        return f"query q() {{ match {{ $p: Person }} return {{ {text} }} order {{ {text} }} }}"
    if frame == 2:
        return f"query q() {{ update Person set {{ {text} }} where {text} }}"
    if frame == 3:
        return f"node A {{ {text} }}\nedge E: A -> A {{ b: String {text} }}"
    return text


_VALID: list[str] = []


def valid(rng: random.Random) -> str:
    """A valid text; making them is slow, so a pool of them is used again."""
    if len(_VALID) < 120 or rng.randrange(500) == 0:
        maker = random.Random(len(_VALID))
        source = from_random(maker)
        if len(_VALID) % 2:
            _VALID.append(schema_model(source, size=2).write(source))
        else:
            _VALID.append(query_text(source, rich(), most=1))
        if len(_VALID) > 1000:
            del _VALID[:500]
    return _VALID[rng.randrange(len(_VALID))]


def damaged(rng: random.Random) -> str:
    text = valid(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        text = rng.choice(DAMAGES)(rng, text)
    return text


def _delete(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.choice((1, 1, 1, 3, 20)) :]


def _duplicate(rng: random.Random, text: str) -> str:
    at, size = rng.randrange(len(text) + 1), rng.choice((1, 1, 5, 60))
    return text[: at + size] + text[at:]


def _swap(rng: random.Random, text: str) -> str:
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    size = rng.choice((1, 4))
    if b - a < size:
        return text
    first, second = text[a : a + size], text[b : b + size]
    return text[:a] + second + text[a + size : b] + first + text[b + size :]


def _insert(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return f"{text[:at]}{rng.choice((*SIGNS, *WORDS, *STRANGE))}{text[at:]}"


def _truncate(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] if rng.randrange(2) else text[at:]


def _splice(rng: random.Random, text: str) -> str:
    other = valid(rng)
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]


def _tokens(rng: random.Random, text: str) -> str:
    """Delete, double, swap or replace whole tokens."""
    tokens, _ = tokenize(Report(text))
    if len(tokens) < 3:
        return text
    a, b = sorted(rng.sample(range(len(tokens) - 1), 2)) if len(tokens) > 3 else (0, 1)
    first, second = tokens[a], tokens[b]
    kind = rng.randrange(4)
    if kind == 0:
        return text[: first.start] + text[first.end :]
    if kind == 1:
        return text[: first.end] + " " + text[first.start :]
    if kind == 2:
        middle = text[first.end : second.start]
        return f"{text[: first.start]}{second.text}{middle}{first.text}{text[second.end :]}"
    return f"{text[: first.start]}{rng.choice((*SIGNS, *WORDS))}{text[first.end :]}"


DAMAGES: tuple[Callable[[random.Random, str], str], ...] = (
    _delete, _duplicate, _swap, _insert, _truncate, _splice, _tokens, _tokens, _tokens,
)  # fmt: skip


def _limited(rng: random.Random) -> str:
    return rng.choice((garbage, soup, soup, damaged, damaged, damaged))(rng)


def input_of(rng: random.Random) -> str:
    return _limited(rng)[:4000]


# --- what has to hold ----------------------------------------------------------------------------


def check_diagnostics(text: str, found: tuple[Diagnostic, ...]) -> None:
    assert sum(d.severity == "error" for d in found) <= MAX_ERRORS
    for d in found:
        start, end = d.span
        assert 0 <= start <= end <= len(text), d
        assert d.line == text.count("\n", 0, start) + 1, d
        assert d.column == start - text.rfind("\n", 0, start), d
        assert d.code in CODES, d.code
        rendered = d.render()
        assert rendered.count("\n") == (3 if d.hint else 2), d
        shown = rendered.replace("\n", "")
        assert shown.isprintable(), f"{d.code}: {rendered!a}"
        assert d.message and len(d.message) < 2000, d.code
        json.dumps(d.to_dict())


def codes(found: tuple[Diagnostic, ...]) -> Counter[str]:
    return Counter(d.code for d in found)


def has_errors(found: tuple[Diagnostic, ...]) -> bool:
    return any(d.severity == "error" for d in found)


def check_as_schema(text: str) -> None:
    catalog, found = check_schema(text)
    check_diagnostics(text, found)
    assert (catalog is None) == has_errors(found)
    try:
        formatted = format_schema(text)
    except SchemaError as error:
        check_diagnostics(text, error.diagnostics)
        assert catalog is None
        return
    assert format_schema(formatted) == formatted
    assert comments(formatted) == comments(text)
    again, found_again = check_schema(formatted)
    assert codes(found_again) == codes(found)
    if catalog is not None:
        assert again is not None
        assert again.to_json() == catalog.to_json()


def check_as_queries(text: str) -> None:
    file, found = check_queries(text, rich())
    check_diagnostics(text, found)
    for query in file.queries.values():
        query.explain()
        query.describe()
    try:
        formatted = format_queries(text)
    except QueryError as error:
        check_diagnostics(text, error.diagnostics)
        assert has_errors(found)
        return
    assert format_queries(formatted) == formatted
    assert comments(formatted) == comments(text)
    again, found_again = check_queries(formatted, rich())
    assert codes(found_again) == codes(found)
    assert list(again.queries) == list(file.queries)
    for name, query in file.queries.items():
        assert repr(without_places(again.queries[name])) == repr(without_places(query))


def check_input(number: int, rng: random.Random) -> None:
    text = input_of(rng)
    started = time.process_time()
    try:
        check_as_schema(text)
        check_as_queries(text)
        if number % 4 == 0:
            lint(text, [("a.gq", text), (None, "")])
        if number % 40 == 0:
            result = lint(RICH_SCHEMA, [("a.gq", text)], schema_path="s.pg")
            check_diagnostics(text, tuple(d for d in result.diagnostics if d.path == "a.gq"))
            json.dumps(result.to_dict())
    except BaseException as error:
        error.add_note(f"text: {text!r}")
        raise
    assert time.process_time() - started < SLOWEST, f"too slow: {text!r}"


@pytest.mark.parametrize("part", range(8))
def test_broken_texts(part: int) -> None:
    run_many(f"fuzz {part}", check_input, count=INPUTS // 8)


@pytest.mark.soak
def test_broken_texts_for_long() -> None:
    run_many("fuzz", check_input, share=2)


# --- repetitive texts ----------------------------------------------------------------------------

READ = "query q() { match { "
SHAPES: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n,
    "brackets": lambda n: "[" * n,
    "braces": lambda n: "{" * n,
    "closing": lambda n: "}" * n,
    "not_blocks": lambda n: READ + "not {" * n,
    "not_blocks_closed": lambda n: READ + "not { $a: Person " * n + "}" * n,
    "optional_lines": lambda n: READ + "optional {\n" * n,
    "parentheses_in_filter": lambda n: READ + "$p: Person " + "(" * n,
    "parentheses_closed": lambda n: READ + "(" * n + "1" + ")" * n,
    "lists": lambda n: READ + "$p.x in " + "[" * n,
    "calls": lambda n: READ + "count(" * n,
    "minuses": lambda n: READ + "-" * n,
    "minuses_apart": lambda n: READ + "1 - " * n,
    "nots": lambda n: READ + "not (" * n,
    "traversals": lambda n: READ + "$a knows $b\n" * n + "} return { $a } }",
    "traversal_chain": lambda n: (
        READ + "\n".join(f"$v{i} knows $v{i + 1}" for i in range(n)) + "} return { $v0 } }"
    ),
    "traversal_chain_backwards": lambda n: (
        READ
        + "\n".join(f"$v{i} knows $v{i + 1}" for i in reversed(range(n)))
        + "\n$v0: Person } return { $v0 } }"
    ),
    "bindings": lambda n: (
        READ + "\n".join(f"$v{i}: Person" for i in range(n)) + "} return { $v0 } }"
    ),
    "duplicate_bindings": lambda n: READ + "$v: Person\n" * n + "} return { $v } }",
    "filters": lambda n: READ + "$p: Person\n" + "$p.age = 1\n" * n + "} return { $p } }",
    "ands": lambda n: READ + "$p: Person\n" + "$p.age = 1 and " * n + "true } return { $p } }",
    "projections": lambda n: (
        READ
        + "$p: Person } return { "
        + "\n".join(f"$p.age as c{i}" for i in range(n))
        + " } order { "
        + ", ".join(f"c{i}" for i in range(n))
        + " } }"
    ),
    "orderings": lambda n: (
        READ
        + "$p: Person } return { "
        + ", ".join(f"$p.age + {i} as c{i}" for i in range(n))
        + " } order { "
        + ", ".join(f"$p.age + {i}" for i in range(n))
        + " } }"
    ),
    "groups": lambda n: (
        READ
        + "$p: Person } return { "
        + ", ".join(f"$p.age as c{i}, count($p) + $p.age as d{i}" for i in range(n))
        + " } }"
    ),
    "parameters": lambda n: (
        "query q("
        + ", ".join(f"$p{i}: String" for i in range(n))
        + ") { match { $p: Person } return { $p } }"
    ),
    "queries": lambda n: "\n".join(
        f"query q{i}() {{ match {{ $p: Person }} return {{ $p }} }}" for i in range(n)
    ),
    "same_queries": lambda n: "query q() { match { $p: Person } return { $p } }\n" * n,
    "queries_on_a_line": lambda n: "query " * n,
    "inserts": lambda n: "query q() {\n" + 'insert City { title: "x" }\n' * n + "}",
    "list_literal": lambda n: READ + "$p: Person $p.age in [" + "1, " * n + "] } return { $p } }",
    "properties": lambda n: "node A {\n" + "a: String\n" * n,
    "different_properties": lambda n: (
        "node A {\n" + "".join(f"a{i}: String @index\n" for i in range(n)) + "}"
    ),
    "properties_without_owner": lambda n: "a: String\n" * n,
    "broken_properties": lambda n: "node A {\n" + "a String\n" * n + "}",
    "constraints": lambda n: (
        "node A {\n a: I64\n" + "".join(f"@index(a, k={i})\n" for i in range(n)) + "}"
    ),
    "unclosed_bodies": lambda n: "node A {\n" * n,
    "unclosed_annotations": lambda n: "@x(" * n,
    "annotations": lambda n: "node A " + "".join(f"@x{i}(1) " for i in range(n)) + "{}",
    "enum": lambda n: "node A { a: enum(" + ", ".join(f"v{i}" for i in range(n)) + ") }",
    "nodes": lambda n: "node A {}" * n,
    "different_nodes": lambda n: "".join(f"node A{i} {{}}\n" for i in range(n)),
    "implementers": lambda n: (
        "interface I { a: String }\n" + "".join(f"node A{i} implements I {{}}\n" for i in range(n))
    ),
    "edges": lambda n: "node A {}\n" + "".join(f"edge E{i}: A -> A\n" for i in range(n)),
    "edges_to_nothing": lambda n: "".join(f"edge E{i}: A{i} -> B{i}\n" for i in range(n)),
    "unknown_names": lambda n: " ".join(f"name{i}" for i in range(n)),
    "unclosed_strings": lambda n: '"abc\n' * n,
    "unclosed_string": lambda n: '"' + "a" * n,
    "quotes": lambda n: '"' * n,
    "escapes": lambda n: '"' + "\\n" * n + '"',
    "backslashes": lambda n: "\\" * n,
    "single_quotes": lambda n: "'" * n,
    "unclosed_comment": lambda n: "/*" + "*" * n,
    "unclosed_comments": lambda n: "/* " * n,
    "comments_on_a_line": lambda n: "/* c */" * n,
    "comments_on_a_line_of_a_node": lambda n: "node A {" + "/* c */" * n + "}",
    "comments_behind_a_property": lambda n: "node A { a: String " + "/* c */" * n + "}",
    "comments_in_a_property": lambda n: "node A { a: " + "/* c */" * n + " String }",
    "line_comments": lambda n: "// c\n" * n,
    "comments_in_a_query": lambda n: READ + "/* c */\n" * n + "$p: Person } return { $p } }",
    "block_comment_of_lines": lambda n: "/*" + " a\n" * n + "*/",
    "blank_lines": lambda n: "node A {}" + "\n" * n + "node B {}",
    "spaces": lambda n: "node A {" + " " * n + "}",
    "dollars": lambda n: "$" * n,
    "digits": lambda n: "1" * n,
    "dots": lambda n: "." * n,
    "slashes": lambda n: "/" * n,
    "stars": lambda n: "/ * " * n,
    "letters": lambda n: "a" * n,
    "ats": lambda n: "@" * n,
    "snowmen": lambda n: "☃" * n,
    "warnings_on_a_line": lambda n: (
        "\nnode A { " + " ".join(f"a{i}: String @kye" for i in range(n)) + " }\n"
    ),
    "surrogates": lambda n: "\ud800" * n,
    "zeros": lambda n: "\0" * n,
}


def run_all(text: str) -> None:
    check_schema(text)
    check_queries(text, rich())
    for format in (format_schema, format_queries):
        try:
            format(text)
        except (SchemaError, QueryError) as error:
            for d in error.diagnostics:
                d.render()


@pytest.mark.parametrize("shape", SHAPES)
def test_time_is_linear(shape: str) -> None:
    make, size = SHAPES[shape], 250
    # Find a size that takes long enough to be measured.
    while cpu_seconds(partial(run_all, make(size)), 3) < 0.008 and size < 120_000:
        size *= 4
    # Four times as much would take 16 times as long if it grew by the square.
    assert is_within(8, partial(run_all, make(size)), partial(run_all, make(4 * size)), 0.005)


@pytest.mark.parametrize("shape", SHAPES)
def test_repetition_breaks_nothing(shape: str) -> None:
    for size in (0, 1, 2, 60, 70, 300):
        text = SHAPES[shape](size)
        check_as_schema(text)
        check_as_queries(text)


def test_deep_nesting_is_an_error() -> None:
    for text in ("(" * 5000, "not (" * 5000, "[" * 5000, "-" * 5000, "count(" * 5000):
        found = check_queries(f"{READ} $p: Person ({text}", rich())[1]
        assert "OG-SY-002" in codes(found)
    assert "OG-SY-002" in codes(check_queries(READ + "not { " * 5000, rich())[1])
    assert "OG-SY-002" in codes(check_schema("node A @x(" + "[" * 5000)[1])
