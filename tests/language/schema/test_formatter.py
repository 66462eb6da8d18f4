"""The formatter: one style, every comment kept, and formatting twice changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import SchemaError
from omnigraph.language.schema.formatter import format_schema

MESSY = """// head

/* multi
   line */
node   Person@description("p")implements Named,Other{ // trailing open
  // own
  name:String@key,// after name


  age : I32 ? /* x */ , b:enum( b , "a b", // why b
   c, ) /* two
     lines */
  @range( age , - 5 .. 120 )
  @range( age , .. 1e3 )

  // last
} // after close
// alone
edge Knows:Person->Person @description("x")@card( 0 .. 1 ){}
edge E:A->B { /* nothing */ }
node X { } node Y {// c
}


// end"""

TIDY = """// head

/* multi
   line */
node Person @description("p") implements Named, Other { // trailing open
  // own
  name: String @key // after name

  age: I32? /* x */
  // why b
  b: enum(b, "a b", c)
  /* two
  lines */
  @range(age, -5..120)
  @range(age, ..1e3)

  // last
} // after close

// alone
edge Knows: Person -> Person @card(0..1) @description("x")

edge E: A -> B { /* nothing */
}

node X {}

node Y { // c
}

// end
"""


def test_the_one_style() -> None:
    assert format_schema(MESSY) == TIDY


def test_formatting_twice_changes_nothing() -> None:
    assert format_schema(TIDY) == TIDY


def test_text_that_breaks_rules_is_formatted() -> None:
    assert format_schema("node a{x:String@key y:F64@key}") == (
        "node a {\n  x: String @key\n  y: F64 @key\n}\n"
    )


def test_text_that_does_not_parse_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"my\.pg:1:8"):
        format_schema("node A [", path="my.pg")


def test_no_text_stays_no_text() -> None:
    assert format_schema("") == ""
    assert format_schema("\n\n") == ""
    assert format_schema("// only") == "// only\n"


def test_windows_line_ends_become_plain() -> None:
    text = "node A {\r\n  /* a\r\n     b */\r\n\r\n\r\n  x: I64 // c\r\n}\r\n"
    assert format_schema(text) == "node A {\n  /* a\n     b */\n\n  x: I64 // c\n}\n"


def test_the_spelling_of_literals_and_the_order_of_enums_stay() -> None:
    text = 'node A {\n  x: enum(z, a)\n  y: F64 @default(1e3) @note("\\u00e9", [1, -2])\n}\n'
    assert format_schema(text) == text


def test_hyphens_of_enum_values_stand_without_spaces() -> None:
    text = "node A {\n  x: enum(data-eng, tier-2) @default(data-eng)\n  @range(y, -5..-1)\n}\n"
    assert format_schema(text) == text


def test_the_ends_of_an_edge_have_one_spelling() -> None:
    text = "edge E: A -> A { w: I64 @unique(src, dst) @key(w,dst) }"
    assert format_schema(text) == (
        "edge E: A -> A {\n  w: I64\n  @unique(from, to)\n  @key(w, to)\n}\n"
    )


def test_edges_on_one_line_get_a_line_each() -> None:
    text = "edge E: A -> A edge F: A -> A @card(0..1) node B {}"
    assert format_schema(text) == ("edge E: A -> A\n\nedge F: A -> A @card(0..1)\n\nnode B {}\n")


def test_block_comments_keep_their_shape_when_they_move() -> None:
    text = "node A {\n      /* a\n           b\n\n       c */\n      x: I64\n}\n"
    assert format_schema(text) == "node A {\n  /* a\n       b\n\n   c */\n  x: I64\n}\n"


_COMMENTS = ["// c1\n", "/* c2 */", "/* c3\n    more */", "\n", "\n\n\n", "  ", "\t"]


@given(st.lists(st.sampled_from(_COMMENTS), min_size=12, max_size=12))
def test_comments_anywhere_are_kept_and_settle_at_once(fillers: list[str]) -> None:
    pieces = [
        "node A", "{", "x: I64", "@note(1,", "2)", ",", "@key(x)", "}",
        "edge E: A", "-> A", "{ }",
    ]  # fmt: skip
    text = fillers[0] + " ".join(p + " " + f for p, f in zip(pieces, fillers[1:], strict=True))
    once = format_schema(text)
    assert format_schema(once) == once
    for comment in ("// c1", "/* c2 */", "/* c3"):
        assert once.count(comment) == text.count(comment)
    assert all(line == line.rstrip() for line in once.split("\n"))
    assert "\n\n\n" not in once


def test_a_backfill_is_written_as_queries_write_expressions() -> None:
    text = "node A{x:I64@backfill( age-1*(2+b) ) y:Bool @backfill(not(age is  null))@unique}"
    assert format_schema(text) == (
        "node A {\n"
        "  x: I64 @backfill(age - 1 * (2 + b))\n"
        "  y: Bool @backfill(not (age is null)) @unique\n"
        "}\n"
    )
