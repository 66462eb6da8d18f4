"""How messages show their place, and which names they suggest."""

from __future__ import annotations

import json

import pytest

from omnigraph.diagnostics import (
    MAX_ERRORS,
    Diagnostic,
    Report,
    TooManyErrors,
    did_you_mean,
    near_names,
)


def at(text: str, part: str | tuple[int, int], path: str | None = None) -> Diagnostic:
    """A diagnostic that points at a part of a text."""
    if isinstance(part, str):
        start = text.index(part)
        part = (start, start + len(part))
    report = Report(text, path)
    report.error("OG-XX-001", "wrong", part)
    return report.diagnostics[0]


def excerpt(text: str, part: str | tuple[int, int]) -> list[str]:
    return at(text, part).excerpt.split("\n")


def test_a_message_has_place_line_caret_and_hint() -> None:
    report = Report("one\ntwo three\n", "file.gq")
    report.error("OG-XX-001", "wrong", (8, 13), "do it right")
    assert report.diagnostics[0].render() == (
        "file.gq:2:5: error OG-XX-001: wrong\n 2 | two three\n   |     ^^^^^\n   = do it right"
    )


def test_the_gutter_is_as_wide_as_the_line_number() -> None:
    assert excerpt("\n" * 122 + "abc", "b") == [" 123 | abc", "     |  ^"]


def test_a_tab_is_four_cells() -> None:
    assert excerpt("\ta\tb", "b") == [" 1 |     a    b", "   |          ^"]


def test_wide_characters_are_two_cells() -> None:
    assert excerpt("日本 x", "x") == [" 1 | 日本 x", "   |      ^"]
    assert excerpt("日本 x", "本") == [" 1 | 日本 x", "   |   ^^"]


def test_combining_characters_take_no_room() -> None:
    assert excerpt("e\u0301 x", "x") == [" 1 | e\u0301 x", "   |   ^"]


def test_control_characters_are_replaced() -> None:
    shown, caret = excerpt("a\x00\x1b[31m\u200bx", "x")
    assert shown == " 1 | a\ufffd\ufffd[31m\ufffdx"
    assert caret.index("^") == shown.index("x")


@pytest.mark.parametrize("start", [0, 1, 40, 79, 80, 100, 500, 990, 999])
def test_a_long_line_is_cut_around_the_mark(start: int) -> None:
    line = "".join(chr(ord("a") + n % 26) for n in range(1000))
    shown, caret = excerpt(line, (start, min(start + 5, 1000)))
    assert len(shown) < 80
    first = caret.index("^")
    marked = shown[first : first + caret.count("^")]
    assert line[start : start + 5].startswith(marked)
    assert marked


def test_a_mark_longer_than_the_window_ends_with_it() -> None:
    shown, caret = excerpt("a" * 500, (100, 400))
    assert len(caret) <= len(shown)


def test_a_mark_over_several_lines_stays_on_the_first() -> None:
    diagnostic = at("abc\ndef\nghi", (1, 10))
    assert diagnostic.excerpt == " 1 | abc\n   |  ^^"
    assert diagnostic.span == (1, 3)


def test_carriage_returns_are_not_shown() -> None:
    diagnostic = at("abc\r\ndef\r\n", "def")
    assert (diagnostic.line, diagnostic.column, diagnostic.source_line) == (2, 1, "def")


def test_an_empty_text_has_one_line() -> None:
    diagnostic = at("", (0, 0))
    assert (diagnostic.line, diagnostic.column) == (1, 1)
    assert diagnostic.excerpt == " 1 | \n   | ^"


def test_the_end_of_a_text_has_a_place() -> None:
    assert at("abc", (3, 3)).excerpt == " 1 | abc\n   |    ^"
    diagnostic = at("abc\n", (4, 4))
    assert (diagnostic.line, diagnostic.column) == (2, 1)


def test_a_place_outside_of_the_text_is_moved_into_it() -> None:
    assert at("abc", (10, 20)).span == (3, 3)
    assert at("abc", (-5, 2)).span == (0, 2)
    assert at("abc", (2, 1)).span == (2, 2)


def test_diagnostics_are_ordered_by_place() -> None:
    report = Report("abcdef")
    report.warning("OG-XX-002", "later", (4, 5))
    report.error("OG-XX-001", "earlier", (1, 2))
    assert [d.message for d in report.diagnostics] == ["earlier", "later"]
    assert report.has_errors
    assert report.error_count == 1


def test_warnings_can_be_dropped_again() -> None:
    report = Report("abcdef")
    report.warning("OG-XX-001", "kept", (0, 1))
    before = report.count
    report.warning("OG-XX-002", "dropped", (1, 2))
    report.error("OG-XX-003", "error", (2, 3))
    report.drop_warnings(before)
    assert [d.message for d in report.diagnostics] == ["kept", "error"]


def test_very_many_errors_are_given_up() -> None:
    report = Report("abc")
    with pytest.raises(TooManyErrors):
        for _ in range(MAX_ERRORS):
            report.error("OG-XX-001", "wrong", (0, 1))
    assert report.error_count == MAX_ERRORS


def test_a_diagnostic_is_plain_json() -> None:
    plain = at("one\ntwo", "two", "f.gq").to_dict()
    assert json.loads(json.dumps(plain)) == {
        "code": "OG-XX-001",
        "severity": "error",
        "message": "wrong",
        "hint": None,
        "path": "f.gq",
        "line": 2,
        "column": 1,
        "start": 4,
        "end": 7,
        "source_line": "two",
    }


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("nmae", ["name", "age"], ["name"]),
        ("Name", ["name"], ["name"]),
        ("name", ["name"], []),
        ("nam", ["name", "names"], ["name"]),
        ("p", ["q"], []),
        ("p", ["pq"], ["pq"]),
        ("Dok", ["Doc"], ["Doc"]),
        ("select", ["delete"], []),
        ("abcd", ["abcx", "abce", "xyz"], ["abce", "abcx"]),
        ("organisation", ["organization"], ["organization"]),
        ("zebra", ["name", "age"], []),
        ("", ["a"], []),
        ("x" * 100, ["x" * 99], []),
        ("STATUS", ["statsu", "status"], ["status"]),
        ("naïve", ["naive"], ["naive"]),
    ],
)
def test_near_names(name: str, candidates: list[str], expected: list[str]) -> None:
    assert near_names(name, candidates) == expected


def test_at_most_three_names_are_suggested() -> None:
    assert near_names("aaaa", ["aaab", "aaac", "aaad", "aaae"]) == ["aaab", "aaac", "aaad"]


def test_very_many_candidates_do_not_take_long() -> None:
    assert near_names("name", [f"other{n}" for n in range(1_000_000)]) == []


@pytest.mark.parametrize(
    ("candidates", "hint"),
    [
        ([], None),
        (["abcx"], "did you mean `abcx`?"),
        (["abcx", "abcy"], "did you mean `abcx` or `abcy`?"),
        (["abcx", "abcy", "abcz"], "did you mean `abcx`, `abcy` or `abcz`?"),
    ],
)
def test_did_you_mean(candidates: list[str], hint: str | None) -> None:
    assert did_you_mean("abcd", candidates) == hint


def test_did_you_mean_may_mark_its_names() -> None:
    assert did_you_mean("abcd", ["abcx"], "$") == "did you mean `$abcx`?"
