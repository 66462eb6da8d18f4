"""Changes as text: inline, side by side, with words marked, and cut to the width."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from omnigraph.cli.changes_text import (
    Look,
    changes_lines,
    inline_lines,
    property_lines,
    side_by_side_lines,
    summary_lines,
)
from omnigraph.cli.styled import Span, rendered, wrapped
from omnigraph.cli.values_text import value_text
from omnigraph.cli.word_diff import text_parts
from omnigraph.merge.diff import EntityChange
from omnigraph.results.terminal import cell_width

PLAIN = Look()
COLOURED = Look(coloured=True)
LONG = " ".join(f"word{number}" for number in range(200))


def updated(before: dict[str, Any], after: dict[str, Any], id: str = "ada") -> EntityChange:
    return EntityChange("node", "Person", id, "update", before, after)


def inserted(after: dict[str, Any], id: str = "ada") -> EntityChange:
    return EntityChange("node", "Person", id, "insert", None, after)


def knows(operation: Any, before: Any, after: Any) -> EntityChange:
    return EntityChange("edge", "Knows", "e1", operation, before, after)


# --- values ---


@pytest.mark.parametrize(
    "value,text",
    [
        (None, "null"),
        (True, "true"),
        (36, "36"),
        (1.0, "1.0"),
        (0.10000000149011612, "0.1"),  # the 32-bit 0.1
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (float("nan"), "nan"),
        (dt.date(2026, 1, 31), "2026-01-31"),
        (dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), "2026-01-31T12:00:00Z"),
        ("Ada", '"Ada"'),
        ("a\nb\t\x1b[31m", '"a\\nb\\t\\u001b[31m"'),
        ("👩‍💻", '"👩‍💻"'),
        ([], "[]"),
        (["a", "b"], '["a", "b"]'),
        ([1.5, 2.5], "[1.5, 2.5]"),
        ([0.5] * 128, "[0.5, 0.5, 0.5, …] (128 numbers)"),
        (list(range(100)), f"[{', '.join(map(str, range(18)))}, … 82 more]"),
        ("sha256:" + "0123456789abcdef" * 4, "sha256:0123456789ab…"),
    ],
    ids=range(19),
)
def test_a_value_as_text(value, text):
    assert value_text(value) == text


def test_a_long_text_is_cut_at_a_word_and_says_how_long_it_is():
    assert value_text(LONG, 20) == f'"word0 word1 word2…" ({len(LONG):,} characters)'
    assert value_text(LONG, None) == f'"{LONG}"'


# --- the words of two texts ---


def marked(before: str, after: str, longest: int | None = None) -> str | None:
    parts = text_parts(before, after, longest=longest)
    if parts is None:
        return None
    shapes = {"": "{}", "old": "[-{}-]", "new": "{{+{}+}}"}
    return "".join(shapes[part.change].format(part.text) for part in parts)


@pytest.mark.parametrize(
    "before,after,text",
    [
        ("the quick brown fox", "the quick red fox", "the quick [-brown-]{+red+} fox"),
        ("the quick brown fox", "the quick fox", "the quick [-brown-] fox"),
        ("the quick fox", "the quick brown fox", "the quick {+brown+} fox"),
        ("one two", "one two three", "one two {+three+}"),
        ("is (a) b", "is [a] b", "is [-(a)-]{+[a]+} b"),
        (
            "I saw a red fox there",
            "I saw the blue fox there",
            "I saw [-a red-]{+the blue+} fox there",
        ),
        ("two  spaces here", "two spaces here", "[-two -]{+two+} spaces here"),
        ("数学を教える", "物理学を教える", "[-数-]{+物理+}学を教える"),
        ("eat 🇫🇷 food", "eat 🇮🇹 food", "eat [-🇫🇷-]{+🇮🇹+} food"),
        ("a 👩‍💻 codes", "a 👨‍💻 codes", "a [-👩‍💻-]{+👨‍💻+} codes"),
        ("Rome", "Oslo", None),
        ("", "Oslo", None),
        ("all of it is different", "nothing remained the same", None),
    ],
)
def test_words_that_have_changed_are_marked(before, after, text):
    assert marked(before, after) == text


def test_only_what_is_near_a_change_is_shown():
    shown = marked(LONG, LONG.replace("word100 ", "other "), longest=60)
    assert shown == (
        "…word95 word96 word97 word98 word99 [-word100-]{+other+}"
        " word101 word102 word103 word104 word105…"
    )


def test_very_long_texts_are_compared_by_lines():
    lines = [f"this is line {number} of many" for number in range(600)]
    changed = [*lines]
    changed[0], changed[-1] = "a new beginning", "a new end"
    parts = text_parts("\n".join(lines), "\n".join(changed), longest=None)
    assert parts is not None
    assert [part.text.strip() for part in parts if part.change] == [
        lines[0],
        changed[0],
        lines[-1],
        changed[-1],
    ]


def test_texts_with_too_many_different_lines_are_not_compared():
    old, new = ("\n".join(f"{side} {n}" for n in range(3000)) for side in "ab")
    assert text_parts(old, new, longest=None) is None


# --- inline ---


def test_an_update_shows_each_property_before_and_after():
    change = updated(
        {"name": "ada", "age": 36, "city": "Rome", "bio": "wrote many letters", "tags": None},
        {"name": "ada", "age": 37, "city": None, "bio": "wrote many programs", "tags": []},
    )
    assert inline_lines(change, PLAIN) == [
        "~ ada",
        "    age: 36 → 37",
        '    city: "Rome" → null',
        '    bio: "wrote many [-letters-]{+programs+}"',
        "    tags: null → []",
    ]


def test_an_insert_shows_what_is_not_null_and_not_told_by_the_id():
    change = inserted({"name": "ada", "age": 36, "city": None})
    assert inline_lines(change, PLAIN) == ["+ ada  age: 36"]


def test_an_insert_that_needs_more_than_a_line_has_its_values_below():
    change = inserted({"name": "ada", "age": 36, "bio": LONG})
    assert inline_lines(change, PLAIN) == [
        "+ ada",
        '    age: 36, bio: "word0 word1 word2 word3 word4 word5 word6 word7 word8 word9…"',
        "    (1,489 characters)",
    ]


def test_a_delete_shows_what_was_there():
    change = EntityChange("node", "Person", "ada", "delete", {"age": 36}, None)
    assert inline_lines(change, PLAIN) == ["- ada  age: 36"]


def test_an_edge_is_told_by_its_ends():
    values = {"from": "ada", "to": "bob", "since": 1}
    assert inline_lines(knows("insert", None, values), PLAIN) == ["+ ada → bob (e1)  since: 1"]
    moved = knows("update", values, {**values, "to": "cy"})
    assert inline_lines(moved, PLAIN) == ["~ ada → cy (e1)", '    to: "bob" → "cy"']


def test_elements_of_lists_are_marked():
    assert property_lines("tags", ["a", "b", "c"], ["a", "c", "d"], PLAIN) == [
        '    tags: ["a", [-"b"-], "c", {+"d"+}]'
    ]
    assert property_lines("tags", ["a"], ["b"], PLAIN) == ['    tags: ["a"] → ["b"]']
    numbers = list(range(50))
    assert property_lines("tags", numbers, [*numbers, 50], PLAIN) == [
        "    tags: [… 48 more, 48, 49, {+50+}]"
    ]


def test_vectors_tell_how_many_numbers_differ():
    before = [0.5] * 64
    after = [0.25, *before[1:]]
    assert property_lines("v", before, after, PLAIN) == [
        "    v: [0.5, 0.5, 0.5, …] → [0.25, 0.5, 0.5, …] (1 of 64 numbers)"
    ]


def test_values_that_do_not_fit_on_a_line_stand_below_each_other():
    before, after = "x" * 50, "y" * 50
    assert property_lines("code", before, after, PLAIN) == [
        f'    code: "{before}"',
        f'        → "{after}"',
    ]


def test_full_cuts_nothing():
    text = " ".join(property_lines("bio", None, LONG, Look(full=True)))
    assert "word199" in text and "…" not in text


def test_types_have_headings():
    lines = changes_lines(
        [
            inserted({"age": 1}),
            inserted({"age": 2}, "bob"),
            knows("delete", {"from": "a", "to": "b"}, None),
        ],
        PLAIN,
    )
    assert list(lines) == [
        "Person",
        "+ ada  age: 1",
        "+ bob  age: 2",
        "",
        "Knows",
        "- a → b (e1)",
    ]


def test_the_summary():
    assert summary_lines(
        [("Person", 3, 2, 1), ("Note", 0, 0, 0), ("Knows", 1200, 0, 0)], PLAIN
    ) == ["+3 ~2 -1 Person, +1,200 Knows"]
    assert summary_lines([], PLAIN) == ["no changes"]


# --- side by side ---


def test_side_by_side_has_before_at_the_left_and_after_at_the_right():
    change = updated(
        {"age": 36, "bio": "the quick brown fox jumps over the lazy dog", "tags": ["a", "b"]},
        {"age": 37, "bio": "the quick red fox jumps over the lazy dog", "tags": ["a", "c"]},
    )
    assert side_by_side_lines(change, Look(width=60)) == [
        "~ ada",
        "  age   36                       │ 37",
        '  bio   "the quick [-brown-] fox │ "the quick {+red+} fox',
        '        jumps over the lazy dog" │ jumps over the lazy dog"',
        '  tags  ["a", [-"b"-]]           │ ["a", {+"c"+}]',
    ]


def test_side_by_side_leaves_the_side_empty_that_is_not_there():
    lines = side_by_side_lines(inserted({"age": 36}), Look(width=40))
    assert lines == ["+ ada", "  age                  │ 36"]
    change = EntityChange("node", "Person", "ada", "delete", {"age": 36}, None)
    assert side_by_side_lines(change, Look(width=40)) == ["- ada", "  age  36              │"]


# --- colours and widths ---


def test_colours_take_the_place_of_brackets():
    assert property_lines("bio", "the quick brown fox", "the quick red fox", COLOURED) == [
        '    \x1b[2mbio: \x1b[0m"the quick \x1b[31mbrown\x1b[0m \x1b[32mred\x1b[0m fox"'
    ]
    assert inline_lines(inserted({"age": 36}), COLOURED) == [
        "\x1b[32m+ ada\x1b[0m  \x1b[2mage: \x1b[0m36"
    ]


@pytest.mark.parametrize("width", [40, 61, 80])
@pytest.mark.parametrize("layout", [inline_lines, side_by_side_lines], ids=["inline", "side"])
@pytest.mark.parametrize(
    "value",
    [LONG, "x" * 300, "数学を教える。" * 40, "👩‍💻🎉 " * 60, [LONG] * 3, ["数学"] * 50],
    ids=range(6),
)
def test_no_line_is_wider_than_the_terminal(width, layout, value):
    more = value + value[:1] if isinstance(value, list) else f"{value} more"
    for change in (updated({"bio": value}, {"bio": more}), inserted({"bio": value}, "山田 " * 30)):
        for look in (Look(width), Look(width, full=True)):
            assert max(map(cell_width, layout(change, look))) <= width


def test_wrapping_keeps_all_of_the_text():
    lines = wrapped([Span("one two "), Span("three", "old"), Span(" " + "x" * 25)], 10, hanging=2)
    assert [rendered(line, coloured=False) for line in lines] == [
        "one two",
        "  three",
        "  " + "x" * 8,
        "  " + "x" * 8,
        "  " + "x" * 8,
        "  x",
    ]
