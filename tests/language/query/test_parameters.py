"""Binding Python objects to parameters; JSON values are in `tests/cases/query/params_*`."""

from __future__ import annotations

import datetime as dt
import re
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from omnigraph.errors import QueryError
from omnigraph.language.query.compiled import CompiledQuery
from omnigraph.language.query.compiler import check_queries
from omnigraph.language.query.parameters import bind_parameters
from omnigraph.language.schema.compiler import compile_schema

CATALOG = compile_schema("node N { key: String @key  data: Blob?  vector: Vector(3)? }")
UTC = dt.UTC


def query(type: str) -> CompiledQuery:
    if type.startswith("Blob"):
        text = f'query q($x: {type}) {{ insert N {{ key: "a", data: $x }} }}'
    else:
        text = f"query q($x: {type}) {{ match {{ $n: N }} return {{ $n, $x }} }}"
    return check_queries(text, CATALOG)[0].queries["q"]


def bind(type: str, value: object) -> Any:
    return bind_parameters(query(type), {"x": value})["x"]


def refused(type: str, value: object) -> str:
    with pytest.raises(QueryError) as caught:
        bind(type, value)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "OG-PB-103"
    # A mutation also says which property the value is assigned to.
    return re.sub(r"^parameter `\$x`(, assigned to `data` of N)?: ", "", diagnostic.message)


@pytest.mark.parametrize(
    ("type", "given", "expected"),
    [
        ("I32", np.int8(-3), -3),
        ("U64", np.uint64(2**64 - 1), 2**64 - 1),
        ("I64", 2**63 - 1, 2**63 - 1),
        ("I64", -(2**63), -(2**63)),
        ("F64", np.float32(0.5), 0.5),
        ("F64", np.int64(3), 3.0),
        ("F32", 3, 3.0),
        ("Bool", np.bool_(True), True),
        ("String", np.str_("a"), "a"),
        ("String", "\N{GRINNING FACE}", "\N{GRINNING FACE}"),
        ("[I64]", np.array([1, 2]), [1, 2]),
        ("[I64]", (1, np.int32(2), "3"), [1, 2, 3]),
        ("[String]", [], []),
        ("Vector(3)", np.array([1, 2, 3], dtype=np.float32), [1.0, 2.0, 3.0]),
        ("Vector(3)", [np.float32(1), 2, np.int64(3)], [1.0, 2.0, 3.0]),
        ("Date", dt.date(2026, 1, 31), dt.date(2026, 1, 31)),
        (
            "DateTime",
            dt.datetime(2026, 1, 31, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            dt.datetime(2026, 1, 31, 12, tzinfo=UTC),
        ),
        (
            "DateTime",
            dt.datetime(2026, 1, 31, 12, 0, 0, 123_999, tzinfo=UTC),
            dt.datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC),
        ),
        ("Blob", b"\x00\x01", b"\x00\x01"),
        ("Blob", bytearray(b"ab"), b"ab"),
        ("Blob", memoryview(b"ab"), b"ab"),
        ("Blob", "base64:AAE=", b"\x00\x01"),
    ],
)
def test_a_python_object_is_taken(type: str, given: object, expected: object) -> None:
    bound = bind(type, given)
    assert bound == expected
    assert bound.__class__ is expected.__class__


@pytest.mark.parametrize(
    ("type", "given", "message"),
    [
        ("I32", True, "true is not an I32"),
        ("F64", False, "false is not an F64"),
        ("Bool", 1, "1 is not a Bool"),
        ("Bool", "true", '"true" is not a Bool'),
        ("I64", 2**63, "9223372036854775808 is out of range for I64"),
        ("U64", -1, "-1 is out of range for U64"),
        pytest.param("I64", 10**5000, "the number is out of range for I64", id="huge"),
        ("I64", 1.0, "1.0 is not an I64"),
        ("I64", " 1", '" 1" is not an I64'),
        ("I64", "١", '"١" is not an I64'),
        ("F64", float("nan"), "nan is not a finite number"),
        ("F64", 10**400, "the number is not a finite number"),
        ("F32", 1e39, "1e+39 is out of range for F32"),
        ("Vector(3)", [1, 2], "the vector has 2 numbers, Vector(3) needs 3"),
        ("Vector(3)", [1, float("nan"), 3], "element 1: nan is not a finite 32-bit number"),
        ("Vector(3)", np.array([1, 2, np.inf]), "element 2: inf is not a finite 32-bit number"),
        ("Vector(3)", [1, 2, 10**400], "element 2: the number is not a finite 32-bit number"),
        ("Vector(3)", [1, True, 3], "element 1: true is not a number"),
        ("Vector(3)", np.ones((3, 1)), "element 0: [1.0] is not a number"),
        ("Vector(3)", "123", '"123" is not a Vector(3)'),
        ("[I64]", [1, [2]], "element 1: [2] is not an I64"),
        ("[I64]", {1, 2}, "{1, 2} is not a [I64]"),
        ("String", b"a", "b'a' is not a String"),
        ("String", "\ud800", "the text is not valid Unicode"),
        ("String", [10**5000], "the list is not a String"),
        (
            "Date",
            dt.datetime(2026, 1, 31, tzinfo=UTC),
            'datetime("2026-01-31T00:00:00Z") is not a Date',
        ),
        ("DateTime", dt.datetime(2026, 1, 31), "the time has no zone"),
        ("DateTime", dt.date(2026, 1, 31), 'date("2026-01-31") is not a DateTime'),
        (
            "DateTime",
            dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=1))),
            "9999-12-31T23:59:59.999999-01:00 is out of range for DateTime",
        ),
        ("Blob", 3, "3 is not a Blob"),
        ("Blob", "base64:%%", "the text after base64: is not base64"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(type: str, given: object, message: str) -> None:
    assert refused(type, given) == message


def test_a_value_of_deep_lists_is_refused_without_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert refused("String", deep) == "the list is not a String"
    while deep:
        deep = deep[0]  # Freeing it at once would recurse as deep.


def test_names_may_have_their_dollar() -> None:
    assert bind_parameters(query("I32"), {"$x": 1}) == {"x": 1}


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType])
def test_any_mapping_is_taken(kind: Any) -> None:
    assert bind_parameters(query("I32"), kind({"x": 1})) == {"x": 1}


@pytest.mark.parametrize("key", [1, None, ("x",), "", "$", "x\n", "\ud800", "x" * 1000])
def test_a_strange_name_is_refused_with_a_message_on_one_line(key: object) -> None:
    with pytest.raises(QueryError) as caught:
        bind_parameters(query("I32?"), {key: 1})  # type: ignore[dict-item]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "OG-PB-102"
    assert "\n" not in diagnostic.message
    str(caught.value).encode()


def test_very_many_mistakes_are_one_error() -> None:
    with pytest.raises(QueryError) as caught:
        bind_parameters(query("I32"), {f"y{n}": 1 for n in range(1000)})
    assert len(caught.value.diagnostics) == 100


def test_the_given_values_are_not_changed() -> None:
    numbers = [1, 2, 3]
    bound = bind("Vector(3)", numbers)
    bound[0] = 9.0
    assert numbers == [1, 2, 3]


def test_places_are_those_of_the_declaration_wherever_the_query_stands() -> None:
    text = "query a() { match { $n: N } return { $n } }\n\n" + (
        "query b(\n  $x: I32\n) { match { $n: N } return { $n, $x } }"
    )
    compiled = check_queries(text, CATALOG)[0].queries["b"]
    with pytest.raises(QueryError) as caught:
        bind_parameters(compiled, {})
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert caught.value.diagnostics[0].source_line == "  $x: I32"
