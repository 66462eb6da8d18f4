"""What expressions mean on columns, one rule a test."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from omnigraph.compute import texts
from omnigraph.compute.evaluate import Bindings, ComputeFault, evaluate, fit, matches, value
from omnigraph.language.query.expressions import (
    Aggregate,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Entity,
    IsNull,
    ListOf,
    Logic,
    Negate,
    Not,
    Now,
    Parameter,
    PropertyOf,
    Rank,
    TextMatch,
)
from omnigraph.language.query.operand_types import arithmetic_type, literal_type
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import BOOL, DATETIME, F64, I64, STRING, U64, Scalar, ValueType
from tests.compute.expressions import GIVEN, NOW

MAX = (1 << 63) - 1
MIN = -(1 << 63)
F32 = ValueType(Scalar.F32)


def t(name):
    """A type by its name: `I64`, `[String]`."""
    if name.startswith("["):
        return ValueType(Scalar(name[1:-1]), nullable=True, is_list=True)
    return ValueType(Scalar(name), nullable=True)


def column(name, type):
    return Column(name, t(type))


def const(plain):
    if isinstance(plain, list):
        return Constant(plain, ValueType((literal_type(plain[0]) or STRING).scalar, is_list=True))
    return Constant(plain, literal_type(plain))


def calculate(operator, left, right):
    return Arithmetic(operator, left, right, arithmetic_type(operator, left.type, right.type))


def run(expression, given=GIVEN, rows=None, **data):
    """The value of an expression for columns that are given as `name=(type, values)`."""
    arrays = {n: pa.array(values, arrow_type(t(type))) for n, (type, values) in data.items()}
    rows = len(next(iter(arrays.values()))) if rows is None else rows
    made = evaluate(expression, lambda c: arrays[str(c)], rows, given)
    assert len(made) == rows
    assert made.type == arrow_type(expression.type)
    return made.to_pylist()


def fault(expression, **data):
    with pytest.raises(ComputeFault) as raised:
        run(expression, **data)
    assert str(raised.value) == raised.value.message
    return raised.value.message, raised.value.row


# --- null and logic ---


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_null_on_either_side_of_a_comparison_gives_null(operator):
    a, b = column("a", "I64"), column("b", "U64")
    got = run(Compare(operator, a, b), a=("I64", [1, None, None]), b=("U64", [None, 1, None]))
    assert got == [None, None, None]


def test_logic_is_three_valued():
    a, b = column("a", "Bool"), column("b", "Bool")
    every = [(x, y) for x in (True, False, None) for y in (True, False, None)]
    data = {"a": ("Bool", [x for x, _ in every]), "b": ("Bool", [y for _, y in every])}
    both = run(Logic("and", (a, b)), **data)
    assert both == [True, False, None, False, False, False, None, False, None]
    either = run(Logic("or", (a, b)), **data)
    assert either == [True, True, True, True, False, None, True, None, None]
    assert run(Not(a), **data)[::3] == [False, True, None]


def test_is_null_is_never_null():
    a = column("a", "String")
    assert run(IsNull(a, False), a=("String", ["", None])) == [False, True]
    assert run(IsNull(a, True), a=("String", ["", None])) == [True, False]
    assert run(IsNull(const(None), False), rows=2) == [True, True]


def test_only_what_is_true_matches():
    a = column("a", "Bool")
    array = pa.array([True, False, None])
    assert matches(a, lambda _: array, 3, GIVEN).to_pylist() == [True, False, False]
    assert matches(Not(a), lambda _: array, 3, GIVEN).to_pylist() == [False, True, False]
    unknown = Parameter("p", BOOL.as_nullable())
    got = matches(unknown, lambda _: array, 3, Bindings({"p": None}, NOW))
    assert got.to_pylist() == [False, False, False]


# --- numbers ---


def test_integers_of_different_signs_compare_by_value():
    u, i = column("u", "U64"), column("i", "I64")
    data = {"u": ("U64", [(1 << 64) - 1, 0, 5, 1 << 63]), "i": ("I64", [-1, -1, 5, MIN])}
    assert run(Compare("=", u, i), **data) == [False, False, True, False]
    assert run(Compare("!=", i, u), **data) == [True, True, False, True]
    assert run(Compare("<", u, i), **data) == [False] * 4
    assert run(Compare("<=", i, u), **data) == [True] * 4


def test_integers_compare_with_literals_outside_of_their_range():
    small, large = column("a", "I32"), column("a", "U64")
    assert run(Compare("<", small, const((1 << 64) - 1)), a=("I32", [MIN >> 32, 0])) == [True] * 2
    assert run(Compare(">", large, const(-1)), a=("U64", [0, None])) == [True, None]
    assert run(Compare("in", large, const([-1, 3])), a=("U64", [(1 << 64) - 1, 3])) == [False, True]
    assert run(Compare("in", small, const([1 << 40, 3])), a=("I32", [0, 3])) == [False, True]


def test_an_integer_and_a_float_compare_as_f64():
    a = column("a", "I64")
    data = ("I64", [(1 << 53) + 1, 2])
    assert run(Compare("=", a, const(2.0**53)), a=data) == [True, False]
    assert run(Compare("<", a, const(2.5)), a=data) == [False, True]
    assert run(Compare("in", a, const([2.0, 0.5])), a=data) == [False, True]


def test_an_f32_column_compares_with_a_known_float_as_f32():
    w, f = column("w", "F32"), column("f", "F64")
    data = {"w": ("F32", [0.1, 0.2]), "f": ("F64", [0.1, 0.2])}
    assert run(Compare("=", w, const(0.1)), **data) == [True, False]
    assert run(Compare("in", w, const([0.1, 0.3])), **data) == [True, False]
    lists = column("ws", "[F32]")
    assert run(Compare("contains", lists, const(0.1)), ws=("[F32]", [[0.5, 0.1], []])) == [
        True,
        False,
    ]
    assert run(Compare("=", w, f), **data) == [False, False]


def test_known_floats_compare_as_f64():
    given = Bindings({"w": 0.1, "ws": [0.1]}, NOW)
    assert value(Compare("=", Parameter("w", F32), const(0.1)), given) is False
    many = Parameter("ws", ValueType(Scalar.F32, is_list=True))
    assert value(Compare("contains", many, const(0.1)), given) is False
    assert value(Compare("in", Parameter("w", F32), const([0.1])), given) is False
    assert value(Compare("=", many, const([0.1])), given) is False
    assert value(Compare("=", many, many), given) is True


def test_zero_has_no_sign():
    a = column("a", "F64")
    assert run(Compare("in", a, const([0.0])), a=("F64", [-0.0, 0.0])) == [True, True]
    assert run(Compare("=", a, const(-0.0)), a=("F64", [-0.0, 0.0])) == [True, True]


# --- texts, dates and entities ---


def test_texts_are_ordered_by_code_point():
    a = column("a", "String")
    got = run(Compare("<", a, const("é")), a=("String", ["z", "Z", "ê", "😀", "é"]))
    assert got == [True, True, False, False, False]


def test_an_enum_compares_as_text():
    kind = Column("kind", ValueType(Scalar.STRING, values=("red", "green")))
    assert run(Compare("=", kind, const("red")), kind=("String", ["red", "green"])) == [True, False]


def test_contains_and_starts_with_are_exact():
    a = column("a", "String")
    data = ("String", ["a.c", "abc", "A.C", None])
    assert run(Compare("contains", a, const(".")), a=data) == [True, False, True, None]
    assert run(Compare("starts_with", a, const("a.")), a=data) == [True, False, False, None]
    assert run(Compare("starts_with", a, const("")), a=data) == [True, True, True, None]


def test_each_row_may_have_its_own_pattern(monkeypatch):
    monkeypatch.setattr(texts, "_BLOCK", 7)
    a, b = column("a", "String"), column("b", "String")
    data = {
        "a": ("String", ["banana", "aab", "é😀", "", "abc", None, "x" * 20, "ab"]),
        "b": ("String", ["nana", "ab", "😀", "", "abcd", "a", "x" * 19 + "y", None]),
    }
    got = run(Compare("contains", a, b), **data)
    assert got == [True, True, True, True, False, None, False, None]
    got = run(Compare("starts_with", a, b), **data)
    assert got == [False, False, False, True, False, None, False, None]
    assert run(Compare("contains", const("an ab"), b), **data)[:2] == [False, True]


def test_dates_and_times_compare_by_moment():
    d, at = column("d", "Date"), column("at", "DateTime")
    day, before = dt.date(2026, 7, 1), dt.date(1, 1, 1)
    assert run(Compare("<", d, const(day)), d=("Date", [day, before])) == [False, True]
    earlier = NOW - dt.timedelta(milliseconds=1)
    assert run(Compare("<", at, Now()), at=("DateTime", [NOW, earlier])) == [False, True]


def test_entities_compare_by_their_ids():
    a, b = (Entity(n, "node", ("Person",), STRING) for n in "ab")
    ids = {"a": pa.array(["x", "y", None]), "b": pa.array(["x", "z", "w"])}
    made = evaluate(Compare("=", a, b), lambda e: ids[str(e)], 3, GIVEN)
    assert made.to_pylist() == [True, False, None]


# --- lists ---


def test_membership_in_a_known_list():
    a = column("a", "String")
    data = ("String", ["x", "y", None])
    assert run(Compare("in", a, const(["x", "z"])), a=data) == [True, False, None]
    empty = Constant([], ValueType(Scalar.STRING, is_list=True))
    assert run(Compare("in", a, empty), a=data) == [False, False, None]
    assert run(Compare("in", column("n", "I64"), empty), n=("I64", [1, None])) == [False, None]
    given = Bindings({"p": ["y"]}, NOW)
    assert run(Compare("in", a, Parameter("p", t("[String]"))), given, a=data) == [
        False,
        True,
        None,
    ]
    unknown = Bindings({"p": None}, NOW)
    assert run(Compare("in", a, Parameter("p", t("[String]"))), unknown, a=data) == [None] * 3


def test_membership_in_the_list_of_the_row():
    a, many = column("a", "I64"), column("many", "[I64]")
    data = {"a": ("I64", [1, 2, None, 4]), "many": ("[I64]", [[3, 1], [], [1], None])}
    assert run(Compare("in", a, many), **data) == [True, False, None, None]
    assert run(Compare("contains", many, a), **data) == [True, False, None, None]
    assert run(Compare("contains", many, const(1)), **data) == [True, False, True, None]


def test_membership_in_a_list_with_columns_compares_each_element():
    a, b = column("a", "I64"), column("b", "F64")
    members = ListOf((const(1), b), ValueType(Scalar.I64, is_list=True))
    data = {"a": ("I64", [1, 2, 3, 1]), "b": ("F64", [0.5, 2.0, 0.5, None])}
    assert run(Compare("in", a, members), **data) == [True, True, False, True]


def test_an_unknown_element_leaves_membership_unknown():
    a, b = column("a", "I64"), column("b", "I64")
    members = ListOf((b,), ValueType(Scalar.I64, is_list=True))
    condition = Compare("in", a, members)
    assert run(condition, a=("I64", [1]), b=("I64", [None])) == [None]


def test_lists_are_equal_when_their_elements_are():
    a, b = column("a", "[I64]"), column("b", "[U64]")
    data = {
        "a": ("[I64]", [[1, 2], [2, 1], [-1], [], [], None]),
        "b": ("[U64]", [[1, 2], [1, 2], [(1 << 64) - 1], [], [1], []]),
    }
    assert run(Compare("=", a, b), **data) == [True, False, False, True, False, None]
    assert run(Compare("!=", a, b), **data) == [False, True, True, False, True, None]
    assert run(Compare("=", a, const([2, 1])), **data) == [False, True, False, False, False, None]


def test_a_list_is_made_of_the_values_of_its_row():
    a = column("a", "I64")
    made = ListOf((a, const(7), a), ValueType(Scalar.I64, is_list=True))
    assert run(made, a=("I64", [1, 2])) == [[1, 7, 1], [2, 7, 2]]
    assert run(made, a=("I64", [])) == []


def test_a_list_cannot_hold_null():
    made = ListOf((const(7), column("a", "I64")), ValueType(Scalar.I64, is_list=True))
    assert fault(made, a=("I64", [1, 2, None])) == (
        "element 1 is null, and a list cannot hold null",
        2,
    )


# --- arithmetic ---


def test_integers_stay_integers():
    a = column("a", "I32")
    assert run(calculate("*", a, const(1 << 40)), a=("I32", [3, None])) == [3 << 40, None]
    assert run(calculate("+", column("a", "U64"), column("a", "U32")), a=("U64", [1])) == [2]


@pytest.mark.parametrize(
    "operator,right,values,message",
    [
        ("+", 1, [5, None, MAX, MAX], "9223372036854775807 + 1 does not fit into I64"),
        ("-", 1, [5, 5, MIN], "-9223372036854775808 - 1 does not fit into I64"),
        ("*", -1, [5, 5, MIN], "-9223372036854775808 * -1 does not fit into I64"),
    ],
)
def test_overflow_is_a_fault_of_its_row(operator, right, values, message):
    expression = calculate(operator, column("a", "I64"), const(right))
    assert fault(expression, a=("I64", values)) == (message, 2)


def test_a_u64_that_does_not_fit_is_a_fault():
    expression = calculate("-", column("a", "U64"), const(1))
    assert fault(expression, a=("U64", [1, (1 << 64) - 1])) == (
        "18446744073709551615 does not fit into I64",
        1,
    )
    unsigned = calculate("+", column("a", "U64"), column("a", "U64"))
    assert unsigned.type == U64.as_nullable()
    message, row = fault(unsigned, a=("U64", [1 << 63]))
    assert message == "9223372036854775808 + 9223372036854775808 does not fit into U64"
    assert row == 0


def test_division_gives_floats_and_null_for_zero():
    a = column("a", "I64")
    assert run(calculate("/", const(3), a), a=("I64", [2, 0, None])) == [1.5, None, None]
    assert run(calculate("/", const(3.0), const(-0.0)), rows=2) == [None, None]


def test_a_float_that_is_not_finite_is_a_fault():
    expression = calculate("*", column("a", "F64"), const(10.0))
    assert fault(expression, a=("F64", [1.0, None, 1e308])) == (
        "1e+308 * 10.0 does not fit into F64",
        2,
    )
    assert fault(calculate("/", const(1e308), const(1e-10)), rows=1)[1] is None


def test_negation_is_checked():
    a = column("a", "I64")
    assert run(Negate(column("a", "U32"), I64), a=("U32", [1, None])) == [-1, None]
    assert fault(Negate(a, I64), a=("I64", [0, MIN])) == (
        "-(-9223372036854775808) does not fit into I64",
        1,
    )


def test_a_fault_of_values_alone_has_no_row():
    expression = Compare("=", column("a", "I64"), calculate("+", const(MAX), const(1)))
    assert fault(expression, a=("I64", [1, 2]))[1] is None


def test_the_row_of_a_fault_is_found_in_a_long_column():
    values = [0] * 10_007
    values[7_331] = values[9_000] = MAX
    expression = calculate("+", column("a", "I64"), const(1))
    assert fault(expression, a=("I64", values))[1] == 7_331


def test_values_are_fitted_into_a_narrower_type():
    assert fit(pa.array([1, None]), t("I32")).to_pylist() == [1, None]
    with pytest.raises(ComputeFault, match="2147483648 does not fit into I32") as raised:
        fit(pa.array([1, 1 << 31]), t("I32"))
    assert raised.value.row == 1
    with pytest.raises(ComputeFault, match=r"1e\+300 does not fit into F32"):
        fit(pa.array([1e300]), t("F32"))


# --- values, parameters and columns ---


def test_a_value_alone_is_plain():
    given = Bindings({"w": 0.1, "blob": b"x"}, NOW)
    assert value(const("x"), given) == "x"
    assert value(const(None), given) is None
    assert value(Constant([1, 2.5], ValueType(Scalar.F64, is_list=True)), given) == [1.0, 2.5]
    assert value(Parameter("w", F64), given) == 0.1
    assert value(Parameter("w", F32), given) == pa.scalar(0.1, pa.float32()).as_py()
    assert value(Parameter("blob", ValueType(Scalar.BLOB)), given) == b"x"
    assert value(Now(), given) is NOW
    assert value(calculate("+", const(1), const(2)), given) == 3
    moments = value(ListOf((Now(),), ValueType(Scalar.DATETIME, is_list=True)), given)
    assert moments == [NOW] and moments[0].tzinfo is dt.UTC


def test_a_value_alone_has_no_columns():
    with pytest.raises(TypeError, match="`age` has no single value"):
        value(calculate("+", column("age", "I64"), const(1)), GIVEN)


@pytest.mark.parametrize(
    "plain,type",
    [
        ("x", STRING),
        (None, STRING.as_nullable()),
        ([1.0, 2.0], ValueType(Scalar.F32, dimension=2)),
        ([NOW], ValueType(Scalar.DATETIME, is_list=True)),
        (NOW, DATETIME),
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_a_parameter_is_repeated_for_each_row(plain, type, rows):
    made = evaluate(Parameter("p", type), lambda _: None, rows, Bindings({"p": plain}, NOW))
    assert made.type == arrow_type(type)
    assert made.to_pylist() == [plain] * rows


@pytest.mark.parametrize("plain,field", [(b"x", "data"), ("s3://b/x", "uri")])
def test_a_blob_becomes_its_storage_form(plain, field):
    given = Bindings({"p": plain}, NOW)
    made = evaluate(Parameter("p", ValueType(Scalar.BLOB)), lambda _: None, 1, given)
    assert made.to_pylist()[0] == {
        "data": None,
        "uri": None,
        "position": None,
        "size": None,
        field: plain,
    }


@pytest.mark.parametrize("type", [pa.utf8(), pa.large_utf8()])
def test_columns_may_be_chunked_and_of_large_texts(type):
    texts = pa.chunked_array([["x"], [], ["y", None]], type)
    values = evaluate(Column("a", STRING), lambda _: texts, 3, GIVEN)
    assert values.type == type and values.to_pylist() == ["x", "y", None]


def test_columns_may_be_of_a_wider_kind():
    kinds = pa.array(["x", "y"]).dictionary_encode()
    condition = Compare("=", Column("a", STRING), const("y"))
    assert matches(condition, lambda _: kinds, 2, GIVEN).to_pylist() == [False, True]


def test_properties_are_asked_for_by_variable():
    prop = PropertyOf("p", "age", I64)
    asked = []

    def columns(named):
        asked.append(named)
        return pa.array([1])

    assert evaluate(prop, columns, 1, GIVEN).to_pylist() == [1]
    assert asked == [prop]


@pytest.mark.parametrize(
    "expression",
    [
        Aggregate("sum", Column("a", I64), False, I64),
        TextMatch("search", PropertyOf("p", "a", STRING), Constant("x", STRING)),
        Rank("bm25", PropertyOf("p", "a", STRING), Constant("x", STRING)),
    ],
)
def test_aggregates_and_search_are_refused_by_name(expression):
    with pytest.raises(TypeError, match=type(expression).__name__):
        evaluate(expression, lambda _: pa.array([1]), 1, GIVEN)
