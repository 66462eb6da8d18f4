"""Values of every scalar type, and their JSON and literal forms."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from omnigraph.language.types import INTEGER_BOUNDS, Scalar, ValueType
from omnigraph.language.values import (
    ValueFault,
    coerce,
    float_text,
    literal_text,
    quote,
    show,
    to_json,
)

UTC = dt.UTC

GOOD: dict[Scalar, list[tuple[object, object]]] = {
    Scalar.STRING: [("", ""), ("a\x00b", "a\x00b"), ("é", "é")],
    Scalar.BLOB: [(b"", b""), ("base64:", b""), ("base64:/+8=", b"\xff\xef")],
    Scalar.BOOL: [(True, True), (False, False)],
    Scalar.F32: [(0, 0.0), (-3.4e38, -3.4e38), (1e-50, 1e-50)],
    Scalar.F64: [(1.7e308, 1.7e308), (2**53, float(2**53)), (-0.0, -0.0)],
    Scalar.DATE: [
        ("0001-01-01", dt.date(1, 1, 1)),
        ("2024-02-29", dt.date(2024, 2, 29)),
        ("9999-12-31", dt.date(9999, 12, 31)),
    ],
    Scalar.DATETIME: [
        ("2026-01-31T12:00Z", dt.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", dt.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00+0230", dt.datetime(2026, 1, 31, 9, 30, tzinfo=UTC)),
        ("2026-01-31T12:00:00.1Z", dt.datetime(2026, 1, 31, 12, 0, 0, 100_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789Z", dt.datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC)),
        ("2026-01-01T00:00:00+14:00", dt.datetime(2025, 12, 31, 10, tzinfo=UTC)),
    ],
}
for scalar, (low, high) in INTEGER_BOUNDS.items():
    GOOD[scalar] = [(low, low), (high, high), (str(low), low), (str(high), high), ("007", 7)]

BAD: dict[Scalar, list[object]] = {
    Scalar.STRING: [1, True, b"x", ["x"], {}, "\udc00", 1.5],
    Scalar.BLOB: [1, True, [1], "base64:a", "base64:a b=", 1.5],
    Scalar.BOOL: [0, 1, "true", "", [], 1.0],
    Scalar.F32: ["1", True, 3.5e38, float("inf"), float("nan"), 10**400, [1.0]],
    Scalar.F64: ["1", False, float("-inf"), float("nan"), 10**400, {}],
    Scalar.DATE: [
        "2026-02-29", "2026-13-01", "0000-01-01", "20260131", "2026-01-31T00:00:00Z", 0, True,
        "2026-01-31 ", "+2026-01-31", "２０２６-01-31",
    ],
    Scalar.DATETIME: [
        "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T25:00:00Z", "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:60Z", "2026-02-30T12:00:00Z", "2026-01-31T12Z", "now", 0, 1.5,
        "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-01-31T12:00:00+25:00",
        "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00.1234567890Z",
    ],
}  # fmt: skip
for scalar, (low, high) in INTEGER_BOUNDS.items():
    BAD[scalar] = [
        low - 1, high + 1, str(high + 1), True, 1.0, "1.0", "", "-", "0x1", "1_000", "1e3",
        "١", [1], None.__class__,
    ]  # fmt: skip


def test_the_tables_have_every_scalar() -> None:
    assert set(GOOD) == set(BAD) == set(Scalar)


@pytest.mark.parametrize(("scalar", "given", "expected"), [(s, *p) for s in GOOD for p in GOOD[s]])
def test_a_good_value_is_taken_in_every_kind_of_type(
    scalar: Scalar, given: object, expected: object
) -> None:
    assert coerce(given, ValueType(scalar)) == expected
    assert coerce(given, ValueType(scalar, nullable=True)) == expected
    assert coerce([given], ValueType(scalar, is_list=True)) == [expected]


@pytest.mark.parametrize(("scalar", "given"), [(s, v) for s in BAD for v in BAD[s]])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_bad_value_is_refused_also_when_null_is_allowed(
    scalar: Scalar, given: object, nullable: bool
) -> None:
    with pytest.raises(ValueFault) as caught:
        coerce(given, ValueType(scalar, nullable=nullable))
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 150
    caught.value.message.encode()


@pytest.mark.parametrize("scalar", list(Scalar))
def test_null_needs_a_nullable_type(scalar: Scalar) -> None:
    assert coerce(None, ValueType(scalar, nullable=True)) is None
    with pytest.raises(ValueFault, match="null"):
        coerce(None, ValueType(scalar))
    with pytest.raises(ValueFault, match="element 0 is null"):
        coerce([None], ValueType(scalar, is_list=True))


@pytest.mark.parametrize(("scalar", "given"), [(s, p[0]) for s in GOOD for p in GOOD[s]])
def test_values_survive_json(scalar: Scalar, given: object) -> None:
    type = ValueType(scalar)
    value = coerce(given, type)
    assert coerce(json.loads(json.dumps(to_json(value))), type) == value


def test_enum_values_are_exact() -> None:
    type = ValueType(Scalar.STRING, values=("high", "low"))
    assert coerce("low", type) == "low"
    for wrong in ("Low", "low ", "", "medium", 1, ["low"]):
        with pytest.raises(ValueFault):
            coerce(wrong, type)
    with pytest.raises(ValueFault) as caught:
        coerce("lwo", type)
    assert caught.value.hint == "did you mean `low`?"
    with pytest.raises(ValueFault) as caught:
        coerce("zzz", type)
    assert caught.value.hint == "allowed are high, low"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-3, "-3"),
        (1.0, "1.0"),
        (1e300, "1e+300"),
        ('a"b\\\n\x7f\u2028', '"a\\"b\\\\\\n\\u007f\u2028"'),
        (dt.date(2026, 1, 31), 'date("2026-01-31")'),
        (dt.datetime(2026, 1, 31, 12, tzinfo=UTC), 'datetime("2026-01-31T12:00:00Z")'),
        (
            dt.datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC),
            'datetime("2026-01-31T12:00:00.005Z")',
        ),
        ([1, "a", [True]], '[1, "a", [true]]'),
        (b"\x00", '"base64:AA=="'),
    ],
)
def test_literals_are_written_as_the_languages_read_them(value: Any, text: str) -> None:
    assert literal_text(value) == text


@pytest.mark.parametrize("value", [0.1, 1e22, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, 100.0])
def test_floats_read_back_as_the_same_float(value: float) -> None:
    assert repr(float(float_text(value))) == repr(value)
    assert set(float_text(value)) & set(".e")


def test_quoted_text_has_no_control_characters() -> None:
    quoted = quote("".join(map(chr, range(128))))
    assert all(" " <= c <= "~" for c in quoted)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("a", '"a"'),
        ("a\nb", "'a\\nb'"),
        ("x" * 100, '"' + "x" * 58 + "…"),
        (10**100, "the number"),
        pytest.param(10**5000, "the number", id="huge"),
        ([10**5000], "the list"),
        (dt.date(2026, 1, 31), 'date("2026-01-31")'),
        (dt.datetime(2026, 1, 31), "datetime.datetime(2026, 1, 31, 0, 0)"),
    ],
)
def test_values_are_shown_on_one_short_line(value: object, text: str) -> None:
    assert show(value) == text
