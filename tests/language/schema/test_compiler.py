"""Compiling: what is raised, and that time grows with the length of the text only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import SchemaError
from omnigraph.language.schema.compiler import check_schema, compile_schema
from omnigraph.language.schema.formatter import format_schema
from omnigraph.language.schema.printer import print_schema
from tests.language.timing import is_within


def large(types: int) -> str:
    lines = ['interface Named {\n  name: String @key @description("the name")\n}']
    for i in range(types):
        lines.append(f"node Type{i} implements Named {{")
        lines += [f'  property{j}: String? @description("number {j}") @index' for j in range(7)]
        lines.append("  @unique(property0, property1)\n}")
        lines.append(f"edge Edge{i}: Type{i} -> Type{max(0, i - 1)} @card(0..5)")
    return "\n".join(lines)


def test_all_errors_are_raised_together() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("node A { x: Foo }\nnode B { y I64 }\nnode a {}", path="my.pg")
    assert [d.code for d in caught.value.diagnostics] == ["OG-TY-001", "OG-SY-001", "OG-SC-101"]
    assert str(caught.value).startswith("my.pg:1:13: error OG-TY-001")


def test_very_many_errors_stop_at_a_hundred() -> None:
    catalog, said = check_schema("node A {\n" + "  x: Foo\n" * 1000 + "}")
    assert catalog is None
    assert len(said) == 100


def test_text_that_is_not_unicode_is_an_error() -> None:
    catalog, said = check_schema('node A @description("\ud83d") {}')
    assert catalog is None
    assert [d.code for d in said] == ["OG-LX-006"]


def test_a_schema_of_two_thousand_lines_compiles() -> None:
    text = large(200)
    assert text.count("\n") > 1900
    assert len(compile_schema(text).nodes) == 200


@pytest.mark.parametrize(
    "make",
    [
        large,
        lambda n: "node A {\n" + "\n".join(f"  p{i}: I64" for i in range(n * 10)) + "}",
        lambda n: "node A { x: enum(" + ",".join(f"v{i}" for i in range(n * 20)) + ") }",
        lambda n: "}" * n * 20,
        lambda n: "node A {" * n * 5,
        lambda n: "node A { x: enum(" + "(" * n * 20,
        lambda n: "@" * n * 20,
        lambda n: "/* x */ // y\n" * n * 10,
        lambda n: "node A { x: I64 " + "@a(" * n * 5,
    ],
)
def test_time_grows_with_length_only(make: Callable[[int], str]) -> None:
    short, long = make(50), make(400)
    # Eight times the text may take eight times as long; a quadratic pass would take 64 times.
    assert is_within(32, lambda: check_schema(short), lambda: check_schema(long), 0.001)


_WORDS = (
    "node edge interface implements A B I x y : -> { } ( ) [ ] , @key @key( @unique( @range(x, "
    '0..1 .. @check(x, "a" @card( @default( @embed( @description("d") String I64 Vector(2) '
    'enum(a,b) ? " // /* */ \n 1 -1 2.5 = null date("2026-01-01") [String] é ; $v'
)


@given(st.lists(st.sampled_from(_WORDS.split(" ")), max_size=60).map(" ".join))
def test_any_text_gives_diagnostics_or_a_catalog_that_prints(text: str) -> None:
    catalog, said = check_schema(text)
    assert (catalog is None) == any(d.severity == "error" for d in said)
    if catalog is not None:
        printed = print_schema(catalog)
        assert compile_schema(printed, accepted=catalog) == catalog
        assert format_schema(printed) == printed
        assert compile_schema(format_schema(text)) == catalog
