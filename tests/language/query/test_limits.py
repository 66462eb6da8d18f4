"""Hostile texts: deep nesting and large inputs give an answer or an error, soon."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph.diagnostics import MAX_ERRORS, Diagnostic
from omnigraph.errors import QueryError
from omnigraph.language.query.compiler import check_queries
from omnigraph.language.query.formatter import format_queries
from omnigraph.language.schema.compiler import compile_schema
from tests.language.timing import is_within

CATALOG = compile_schema(
    "node P { name: String @key  age: I64?  ok: Bool  tags: [String]? } edge Knows: P -> P"
)
DEEP = 10_000


def read(clause: str = "", output: str = "$p") -> str:
    return f"query q() {{ match {{ $p: P  {clause} }} return {{ {output} as c }} }}"


def check(text: str) -> tuple[Diagnostic, ...]:
    _, found = check_queries(text, CATALOG)
    for diagnostic in found:
        assert len(diagnostic.render()) < 1000
    try:
        format_queries(text)
    except QueryError as error:
        assert any(d.severity == "error" for d in found), error
    return found


def codes(text: str) -> set[str]:
    return {d.code for d in check(text)}


TOO_DEEP = {
    "parentheses": read("(" * DEEP + "$p.ok" + ")" * DEEP),
    "open parentheses": read("(" * DEEP),
    "not": read("not (" * DEEP + "$p.ok" + ")" * DEEP),
    "not blocks": read("not { $p knows $_ " * DEEP + "}" * DEEP),
    "open optional blocks": read("optional {" * DEEP),
    "lists": read("$p.ok = " + "[" * DEEP + "]" * DEEP),
    "open lists": read("$p.ok = " + "[" * DEEP),
    "sums in parentheses": read("$p.age = " + "1 + (" * DEEP + "1" + ")" * DEEP),
    "minus": read(output="-" * DEEP + "$p.age"),
    "minus with space": read(output="- " * DEEP + "1"),
    "calls": read(output="count(" * DEEP + "$p" + ")" * DEEP),
    "sum": read(output="$p.age" + " + 1" * DEEP),
    "product": read(output="$p.age" + " * 1" * DEEP),
}


@pytest.mark.parametrize("text", TOO_DEEP.values(), ids=TOO_DEEP)
def test_nesting_too_deep_is_an_error(text: str) -> None:
    assert "OG-SY-002" in codes(text)


@pytest.mark.parametrize("word", ["and", "or"])
def test_very_many_conditions_are_fine(word: str) -> None:
    assert check(read(f" {word} ".join(["$p.ok"] * DEEP))) == ()


LONG = {
    "filters": read("$p.ok " * DEEP),
    "edges": read("$p knows $p " * DEEP),
    "not blocks": read("not { $p.ok } " * DEEP),
    "list": read("$p.age in [" + ", ".join(["1"] * DEEP) + "]"),
    "computed list": read("$p.age in [" + ", ".join(["$p.age"] * DEEP) + "]"),
    "parentheses": read(output="(" * 50 + "$p.age" + ")" * 50),
    "difference": read(output="$p.age" + " - 1" * 99),
    "mutations": "query q() { " + 'insert P { name: "a", ok: true } ' * DEEP + "}",
    "logic": read("$p.ok and ($p.ok or (" * 20 + "$p.ok" + "))" * 20),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_texts_are_fine(text: str) -> None:
    assert not [d for d in check(text) if d.severity == "error"]


def test_half_a_character_in_the_text_is_an_error() -> None:
    (found,) = check(read('$p.name = "\ud83d"'))
    assert found.code == "OG-LX-006"


def test_mistakes_are_given_up_after_very_many() -> None:
    found = check("query q() { match { $p: P } return { " + "$p.x\n" * 10_000 + "} }")
    assert len(found) == MAX_ERRORS


def _binding(size: int) -> str:
    return read("\n".join('$p.name = "abcdefgh"' for _ in range(size // 21)))


def _chain(size: int) -> str:
    return read("\n".join(f"$v{n} knows $v{n + 1}" for n in range(size // 21)))


def _queries(size: int) -> str:
    one = "query q{}() {{\n  match {{ $p: P }}\n  return {{ $p.name as name }}\n}}\n"
    return "".join(one.format(n) for n in range(size // 62))


def _logic(size: int) -> str:
    return read(" or ".join("$p.age = 12345" for _ in range(size // 18)))


def _list(size: int) -> str:
    return read("$p.age in [" + ", ".join("12345" for _ in range(size // 7)) + "]")


def _comments(size: int) -> str:
    return "// a comment\n" * (size // 13) + read()


def _one_string(size: int) -> str:
    return read('$p.name = "' + "a" * size + '"')


def _outputs(size: int) -> str:
    items = "\n".join(f"$p.age as column{n}" for n in range(size // 20))
    return f"query q() {{ match {{ $p: P }} return {{ {items} }} }}"


def _unclosed(size: int) -> str:
    return "query q() { match { $p: P " + "{ " * (size // 2)


def _strange(size: int) -> str:
    return read("\u00a7" * size)


def _broken_lines(size: int) -> str:
    return "query q() {\n match {\n" + "  $p knows\n" * 90 + "  // filler\n" * (size // 12)


@pytest.mark.parametrize(
    "make",
    [
        _binding,
        _chain,
        _queries,
        _logic,
        _list,
        _comments,
        _one_string,
        _outputs,
        _unclosed,
        _strange,
        _broken_lines,
    ],
)
def test_time_grows_with_the_length_of_the_text_and_not_faster(make: Callable[[int], str]) -> None:
    small, large = make(20_000), make(80_000)
    assert len(large) > 3 * len(small)
    # Four times the text takes about four times as long; growth by the square would take 16.
    assert is_within(12, lambda: check(small), lambda: check(large))


def test_time_grows_evenly_up_to_a_megabyte() -> None:
    def only_check(text: str) -> None:
        _, found = check_queries(text, CATALOG)
        assert not found

    small, large = _queries(200_000), _queries(800_000)
    assert is_within(12, lambda: only_check(small), lambda: only_check(large))
