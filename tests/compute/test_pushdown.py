"""Filters for Lance: what is pushed, and that real Lance tables agree with `matches`."""

from __future__ import annotations

import random
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings

from omnigraph.compute.evaluate import Bindings, ComputeFault, matches
from omnigraph.compute.pushdown import Pushed, push_down
from omnigraph.language.query.expressions import (
    Arithmetic,
    Checked,
    Column,
    Compare,
    Constant,
    Entity,
    IsNull,
    ListOf,
    Logic,
    Not,
    Parameter,
    PropertyOf,
    TextMatch,
)
from omnigraph.language.query.operand_types import literal_type
from omnigraph.language.types import BOOL, FLOATS, I64, STRING, Scalar, ValueType
from tests.compute.expressions import (
    COLUMNS,
    GIVEN,
    NOW,
    arrow,
    columns_of,
    conditions,
    name_of,
    table,
)

AGE = Column("age", I64)
NAME = Column("name", STRING)
WEIGHT = Column("weight", ValueType(Scalar.F32))
TAGS = Column("tags", ValueType(Scalar.STRING, is_list=True))
MAX = (1 << 63) - 1


def const(plain):
    return Constant(plain, literal_type(plain))


def pushed(expression, given=GIVEN):
    made = push_down(expression, given, name_of)
    return made and (made.sql, made.exact)


def is_(column, plain, operator="="):
    return Compare(operator, column, const(plain))


UNPUSHED = is_(WEIGHT, 0.1)


@pytest.mark.parametrize(
    "expression,sql",
    [
        (is_(AGE, 3), "`age` = 3"),
        (Compare("<", const(3), AGE), "`age` > 3"),
        (Not(is_(AGE, 3, "<")), "`age` >= 3"),
        (is_(AGE, 2.5, "<"), "`age` < 3"),
        (is_(AGE, 2.5, "<="), "`age` <= 2"),
        (is_(AGE, 2.5), "false"),
        (is_(AGE, 2.5, "!="), "`age` is not null"),
        (is_(AGE, 1 << 63, "<"), "`age` is not null"),
        (Not(is_(AGE, 1 << 63, "<")), "false"),
        (is_(NAME, "o'neil", ">="), "`name` >= 'o''neil'"),
        (is_(NAME, "a", "starts_with"), "starts_with(`name`, 'a')"),
        (Not(is_(NAME, "a", "contains")), "not contains(`name`, 'a')"),
        (is_(TAGS, "a", "contains"), "array_has(`tags`, 'a')"),
        (Compare("in", const("a"), TAGS), "array_has(`tags`, 'a')"),
        (IsNull(NAME, False), "`name` is null"),
        (Not(IsNull(NAME, False)), "`name` is not null"),
        (Column("flag", BOOL), "`flag` = true"),
        (Not(Column("flag", BOOL)), "`flag` = false"),
    ],
)
def test_a_column_against_a_value_is_pushed(expression, sql):
    assert pushed(expression) == (sql, True)


@pytest.mark.parametrize(
    "expression",
    [
        UNPUSHED,
        is_(AGE, 2.0**53),
        is_(Column("floats", ValueType(Scalar.F64, is_list=True)), 0.0, "contains"),
        Compare("=", AGE, AGE),
        Compare("=", Arithmetic("+", AGE, const(1), I64), const(3)),
        Compare("=", TAGS, Constant(["a"], ValueType(Scalar.STRING, is_list=True))),
        IsNull(is_(AGE, 3), False),
        TextMatch("search", PropertyOf("p", "name", STRING), const("x")),
    ],
)
def test_what_may_mean_something_else_is_not_pushed(expression):
    assert pushed(expression) is None
    assert pushed(Not(expression)) is None


def test_a_membership_in_values_is_pushed():
    members = Constant([1, 2, 1 << 63], ValueType(Scalar.U64, is_list=True))
    assert pushed(Compare("in", AGE, members)) == ("`age` in (1, 2)", True)
    assert pushed(Not(Compare("in", AGE, members))) == ("not (`age` in (1, 2))", True)
    nothing = Parameter("p", ValueType(Scalar.I64, is_list=True))
    given = Bindings({"p": []}, NOW)
    assert pushed(Compare("in", AGE, nothing), given) == ("false", True)
    assert pushed(Not(Compare("in", AGE, nothing)), given) == ("`age` is not null", True)
    written = ListOf((Parameter("a", I64), const(2)), ValueType(Scalar.I64, is_list=True))
    either = pushed(Compare("in", AGE, written), Bindings({"a": 1}, NOW))
    assert either == ("(`age` = 1) or (`age` = 2)", True)


def test_null_matches_nothing_even_under_not():
    unknown = Compare("=", NAME, Parameter("p", STRING.as_nullable()))
    given = Bindings({"p": None}, NOW)
    assert pushed(unknown, given) == ("false", True)
    assert pushed(Not(unknown), given) == ("false", True)
    some = Logic("or", (unknown, is_(AGE, 3)))
    assert pushed(some, given) == ("`age` = 3", True)


def test_and_pushes_the_parts_it_can():
    assert pushed(Logic("and", (is_(AGE, 3), UNPUSHED))) == ("`age` = 3", False)
    assert pushed(Logic("and", (UNPUSHED, UNPUSHED))) is None
    nested = Logic("and", (is_(AGE, 3), Logic("and", (is_(NAME, "a"), is_(NAME, "b", "!=")))))
    assert pushed(nested) == ("(`age` = 3) and (`name` = 'a') and (`name` != 'b')", True)


def test_or_pushes_all_or_nothing():
    assert pushed(Logic("or", (is_(AGE, 3), UNPUSHED))) is None
    half = Logic("and", (is_(NAME, "a"), UNPUSHED))
    assert pushed(Logic("or", (is_(AGE, 3), half))) == ("(`age` = 3) or (`name` = 'a')", False)


def test_not_moves_inwards():
    both = Not(Logic("and", (is_(AGE, 3), Not(is_(NAME, "a")))))
    assert pushed(both) == ("(`age` != 3) or (`name` = 'a')", True)
    assert pushed(Not(Logic("or", (is_(AGE, 3), UNPUSHED)))) == ("`age` != 3", False)


def test_what_is_known_is_decided_at_once():
    true, false = Compare("=", const(1), const(1)), Compare("=", const(1), const(2))
    assert pushed(true) == ("true", True)
    assert pushed(Not(true)) == ("false", True)
    assert pushed(Logic("and", (true, is_(AGE, 3)))) == ("`age` = 3", True)
    assert pushed(Logic("and", (false, UNPUSHED))) == ("false", True)
    assert pushed(Logic("or", (true, UNPUSHED))) == ("true", True)
    assert pushed(Logic("and", (true, UNPUSHED))) is None


def test_a_column_of_another_table_is_not_pushed():
    mine, other = PropertyOf("a", "age", I64), PropertyOf("b", "age", I64)
    names = {"a": "age"}

    def name(named):
        return names.get(named.variable)

    condition = Logic("and", (is_(mine, 3), is_(other, 4)))
    assert push_down(condition, GIVEN, name) == Pushed("`age` = 3", exact=False)
    entity = Entity("b", "node", ("Person",))
    assert push_down(IsNull(entity, False), GIVEN, name) is None
    assert push_down(IsNull(entity, False), GIVEN, lambda _: "id") == Pushed(
        "`id` is null", exact=True
    )


def test_a_fault_in_a_known_value_is_raised():
    beyond = Arithmetic("+", const(MAX), const(1), I64)
    with pytest.raises(ComputeFault, match="does not fit"):
        pushed(Compare("=", AGE, beyond))


def test_a_name_is_pushed_as_the_caller_spells_it():
    end = Column("from", STRING)
    assert push_down(is_(end, "x"), GIVEN, lambda _: "src") == Pushed("`src` = 'x'", exact=True)


# --- real tables ---

ROWS = 90
INDEXED = 60
#: What storage makes: stable row ids and this file version.
LAYOUT: dict[str, Any] = {"data_storage_version": "2.2", "enable_stable_row_ids": True}


@pytest.fixture(scope="module")
def data():
    """Random rows; a third of them comes after the indexes were made."""
    made = arrow(table(random.Random(7).choice, ROWS))
    return made.append_column("row", pa.array(range(ROWS), pa.int32()))


@pytest.fixture(scope="module")
def datasets(data, tmp_path_factory):
    """The same rows without indexes and with those of two kinds."""
    made = []
    for kind in (None, "BTREE", "BITMAP"):
        path = str(tmp_path_factory.mktemp("table"))
        dataset = lance.write_dataset(data.slice(0, INDEXED), path, **LAYOUT)
        for name, type in COLUMNS.items():
            if kind is None or type.scalar is Scalar.F32:
                continue
            if not type.is_list:
                dataset.create_scalar_index(name, kind)
            elif kind == "BITMAP" and type.scalar not in FLOATS:
                dataset.create_scalar_index(name, "LABEL_LIST")
        lance.write_dataset(data.slice(INDEXED), path, mode="append", **LAYOUT)
        made.append(lance.dataset(path))
    return made


def agree(condition: Checked, given_: Bindings, data: pa.Table, datasets: list) -> Pushed | None:
    """Check that Lance's rows contain those that match, or are the same."""
    try:
        made = push_down(condition, given_, name_of)
        wanted = set(
            data["row"].filter(matches(condition, columns_of(data), ROWS, given_)).to_pylist()
        )
    except ComputeFault:
        return None
    if made is None:
        return None
    for dataset in datasets:
        found = set(dataset.to_table(columns=["row"], filter=made.sql)["row"].to_pylist())
        assert found >= wanted, made
        assert not made.exact or found == wanted, made
    return made


@settings(max_examples=400)
@given(drawn=conditions(against_values=True))
def test_lance_finds_the_rows_that_match(data, datasets, drawn):
    condition, given_ = drawn
    agree(condition, given_, data, datasets)


@settings(max_examples=100)
@given(drawn=conditions())
def test_lance_finds_the_rows_that_any_condition_matches(data, datasets, drawn):
    condition, given_ = drawn
    agree(condition, given_, data, datasets)


def test_null_is_in_neither_of_two_lists(data, datasets):
    column = Column("i64", COLUMNS["i64"])
    lists = [Constant([number], ValueType(Scalar.I64, is_list=True)) for number in (1, 2)]
    either = Logic("and", tuple(Compare("in", column, known) for known in lists))
    made = agree(Not(either), Bindings({}, NOW), data, datasets)
    assert made is not None and not made.exact


@pytest.mark.parametrize("operator", ["and", "or"])
def test_deep_nesting_is_cut_before_lance_refuses_it(data, datasets, operator):
    column = Column("i64", COLUMNS["i64"])
    condition: Checked = is_(column, 1)
    for depth in range(60):
        other = "or" if operator == "and" else "and"
        inner = Not(Logic(other, (condition, is_(column, depth, "!="))))
        condition = Logic(operator, (is_(column, depth, ">="), inner))
    agree(condition, GIVEN, data, datasets)


def test_very_many_terms_are_cut_before_lance_falls_over(data, datasets):
    column = Column("i64", COLUMNS["i64"])
    many = tuple(is_(column, n, "!=") for n in range(3, 5_000))
    made = agree(Logic("and", many), GIVEN, data, datasets)
    assert made is not None and not made.exact
    assert agree(Logic("or", many), GIVEN, data, datasets) is None
    few = tuple(is_(column, n) for n in range(400))
    made = agree(Logic("or", few), GIVEN, data, datasets)
    assert made is not None and made.exact
