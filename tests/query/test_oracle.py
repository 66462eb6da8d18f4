"""The oracle itself, on a graph that is small enough to know the answers by heart."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import QueryError
from omnigraph.language import compile_queries, compile_schema
from omnigraph.language.schema.arrow import table_schema
from tests.query.oracle import Answer, Oracle, Overflow, walk_pairs

SCHEMA = """
interface Named { name: String? }
node Person implements Named {
  handle: String @key
  age: I32?
  big: U64?
  height: F32?
  born: Date?
  seen: DateTime?
  skills: [String]?
}
node Team implements Named { slug: String @key  size: I64? }
edge Knows: Person -> Person { since: I32? }
edge MemberOf: Person -> Team
"""
DAY = dt.date(2000, 1, 2)
SEEN = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
#: ann knows ben twice, ben knows cat, cat knows ann, dan knows himself; eve knows nobody.
ROWS: dict[str, list[dict[str, Any]]] = {
    "Person": [
        {"id": "ann", "name": "Ann", "age": 30, "height": 0.1, "skills": ["sql", "c"], "big": 1},
        {"id": "ben", "name": "Ben", "age": 20, "born": DAY, "skills": [], "big": 2**64 - 1},
        {"id": "cat", "name": "Cat", "age": 30, "height": 1.5, "seen": SEEN},
        {"id": "dan", "name": None, "age": None, "skills": ["c"]},
        {"id": "eve", "name": "Eve", "age": 10},
    ],
    # A team with the id of a person is somebody else.
    "Team": [{"id": "red", "name": "Red", "size": 3}, {"id": "ann", "name": None, "size": None}],
    "Knows": [
        {"id": "k1", "src": "ann", "dst": "ben", "since": 2001},
        {"id": "k2", "src": "ann", "dst": "ben", "since": 2002},
        {"id": "k3", "src": "ben", "dst": "cat", "since": None},
        {"id": "k4", "src": "cat", "dst": "ann", "since": 2004},
        {"id": "k5", "src": "dan", "dst": "dan", "since": 2005},
    ],
    "MemberOf": [
        {"id": "m1", "src": "ann", "dst": "red"},
        {"id": "m2", "src": "ben", "dst": "red"},
        {"id": "m3", "src": "ben", "dst": "ann"},
    ],
}
CATALOG = compile_schema(SCHEMA)


def _table(name: str) -> pa.Table:
    type = CATALOG.table(name)
    assert type is not None
    schema = table_schema(type)
    keyed = [{**row, "handle": row["id"], "slug": row["id"]} for row in ROWS[name]]
    return pa.Table.from_pylist(keyed, schema)


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(CATALOG, {name: _table(name) for name in ROWS})


def answer(oracle: Oracle, body: str, head: str = "", **params: Any) -> Answer:
    text = f"query q({head}) {{ {body} }}"
    return oracle.answer(compile_queries(text, CATALOG).queries["q"], params)


def rows(oracle: Oracle, body: str, head: str = "", **params: Any) -> list[Any]:
    """The rows that are left after the cut; single columns as their values."""
    found = answer(oracle, body, head, **params)
    end = None if found.limit is None else found.offset + found.limit
    return [row if len(row) > 1 else row[0] for row in found.rows[found.offset : end]]


def unordered(oracle: Oracle, body: str, head: str = "", **params: Any) -> list[Any]:
    return sorted(rows(oracle, body, head, **params), key=repr)


def test_an_unbound_hop_finds_each_pair_once_and_a_bound_edge_each_edge(oracle):
    assert unordered(oracle, "match { $a knows $b } return { $a, $b }") == [
        ("ann", "ben"), ("ben", "cat"), ("cat", "ann"), ("dan", "dan"),
    ]  # fmt: skip
    assert unordered(oracle, "match { $a $k:knows $b  $b.age = 20 } return { $a, $k }") == [
        ("ann", "k1"), ("ann", "k2"),
    ]  # fmt: skip


def test_a_hop_between_unequal_types_is_followed_from_either_end(oracle):
    forwards = unordered(oracle, "match { $p memberOf $t } return { $p, $t }")
    assert forwards == [("ann", "red"), ("ben", "ann"), ("ben", "red")]
    assert unordered(oracle, "match { $t: Team  $t memberOf $p } return { $p, $t }") == forwards


def test_either_direction_finds_a_pair_both_ways_and_a_loop_once(oracle):
    found = unordered(oracle, "match { $a <knows> $b } return { $a, $b }")
    assert found == [
        ("ann", "ben"), ("ann", "cat"), ("ben", "ann"), ("ben", "cat"), ("cat", "ann"),
        ("cat", "ben"), ("dan", "dan"),
    ]  # fmt: skip
    edges = unordered(oracle, 'match { $a $k:<knows> $b  $b.id in ["ben", "dan"] } return {$a, $k}')
    assert edges == [("ann", "k1"), ("ann", "k2"), ("cat", "k3"), ("dan", "k5")]


def test_anybody_is_an_existence_check(oracle):
    assert unordered(oracle, "match { $a knows $_ } return { $a }") == ["ann", "ben", "cat", "dan"]
    assert unordered(oracle, "match { $_ knows $a } return { $a }") == ["ann", "ben", "cat", "dan"]
    assert rows(oracle, "match { $_ $k:knows $_ } return { count($k) as n }") == [5]
    assert rows(oracle, "match { $t: Team  $_ knows $_ } return { count($t) as n }") == [2]


def test_cycles_and_hops_between_bound_ends_check_existence(oracle):
    triangle = "match { $a knows $b  $b knows $c  $c knows $a } return { $a, $b, $c }"
    assert unordered(oracle, triangle) == [
        ("ann", "ben", "cat"), ("ben", "cat", "ann"), ("cat", "ann", "ben"), ("dan", "dan", "dan"),
    ]  # fmt: skip
    assert rows(oracle, "match { $a: Person  $a knows $a } return { $a }") == ["dan"]


def test_parts_that_are_not_connected_are_combined(oracle):
    assert rows(oracle, "match { $p: Person  $t: Team } return { count($p) as n }") == [10]


def test_walks_count_edges_and_do_not_come_back_to_their_start(oracle):
    def walk(bounds: str) -> list[Any]:
        return unordered(oracle, f"match {{ $a knows{bounds} $b }} return {{ $a, $b }}")

    two = [("ann", "cat"), ("ben", "ann"), ("cat", "ben")]
    one = [("ann", "ben"), ("ben", "cat"), ("cat", "ann"), ("dan", "dan")]
    assert walk("{1,1}") == one
    assert walk("{2,2}") == walk("{2,}") == walk("{2,9}") == two
    assert walk("{1,2}") == walk("{1,}") == sorted(one + two)
    people = ["ann", "ben", "cat", "dan", "eve"]
    assert walk("{0,1}") == sorted([*[(p, p) for p in people], *one[:3]])
    assert walk("{3,3}") == []


def test_walks_take_the_shortest_way():
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("b", "b")]
    assert walk_pairs("abc", edges, 2, 2) == set()
    assert walk_pairs("abc", edges, 1, 2) == {("a", "b"), ("a", "c"), ("b", "c"), ("b", "b")}
    assert walk_pairs("abc", [("a", "b"), ("b", "a"), ("b", "c")], 2, None) == {("a", "c")}


def test_walks_in_other_directions(oracle):
    back = "match { $b: Person { handle: $x }  $a knows{2,2} $b } return { $a }"
    assert rows(oracle, back, "$x: String", x="ann") == ["ben"]
    both = 'match { $a: Person { handle: "ann" }  $a <knows>{1,5} $b } return { $b }'
    assert unordered(oracle, both) == ["ben", "cat"]


def test_an_interface_matches_all_its_types_and_equal_ids_are_different_nodes(oracle):
    assert unordered(oracle, "match { $n: Named } return { $n, $n.name }") == sorted(
        [("ann", "Ann"), ("ben", "Ben"), ("cat", "Cat"), ("dan", None), ("eve", "Eve"),
         ("red", "Red"), ("ann", None)], key=repr
    )  # fmt: skip
    counted = "match { $n: Named } return { count(distinct $n) as n, count(distinct $n.id) as ids }"
    assert rows(oracle, counted) == [(7, 6)]
    same = "match { $n: Named  $m: Named  $n = $m } return { count($n) as n }"
    assert rows(oracle, same) == [7]
    narrowed = "match { $n: Named  $p memberOf $n  $p.handle = $n.id } return { $p, $n }"
    assert rows(oracle, narrowed) == []
    teams = "match { $n: Named  $p memberOf $n } return { $p, $n.size as size }"
    assert unordered(oracle, teams) == [("ann", 3), ("ben", 3), ("ben", None)]


def test_not_drops_what_its_clauses_find_and_sees_outer_variables(oracle):
    def lonely(inside: str) -> list[Any]:
        return unordered(oracle, f"match {{ $p: Person  not {{ {inside} }} }} return {{ $p }}")

    assert lonely("$p knows $_") == ["eve"]
    assert lonely("$t: Team  $t memberOf $p") == ["cat", "dan", "eve"]
    assert lonely("$p knows $q  $q.age < $p.age") == ["ben", "cat", "dan", "eve"]
    assert lonely("$p memberOf $t  not { $t.size > 1 }") == ["ann", "cat", "dan", "eve"]
    assert lonely("$q: Person  $q.age > 100") == ["ann", "ben", "cat", "dan", "eve"]
    assert lonely("$q: Person  $q.age > 20") == []


def test_optional_extends_what_it_can(oracle):
    body = "match { $p: Person  optional { $p memberOf $t } } return { $p, $t.name as team }"
    assert unordered(oracle, body) == sorted(
        [("ann", "Red"), ("ben", "Red"), ("ben", None), ("cat", None), ("dan", None),
         ("eve", None)], key=repr
    )  # fmt: skip
    filtered = "match { $p: Person  optional { $p knows $q  $q.age > 20 } } return { $p, $q }"
    assert unordered(oracle, filtered) == sorted(
        [("ann", None), ("ben", "cat"), ("cat", "ann"), ("dan", None), ("eve", None)], key=repr
    )


def test_optionals_are_in_order_and_late_filters_come_last(oracle):
    chain = """match { $p: Person
      optional { $p knows $q  $q.age > 20 }
      optional { $q memberOf $t }
      $p.age >= 20 } return { $p, $q, $t }"""
    found = [("ann", None, None), ("ben", "cat", None), ("cat", "ann", "red")]
    assert unordered(oracle, chain) == sorted(found, key=repr)
    nested = """match { $p: Person
      optional { $p knows $q  optional { $q memberOf $t  $t.size = 3 } }
      $q is not null } return { $p, $q, $t }"""
    assert unordered(oracle, nested) == sorted(
        [("ann", "ben", "red"), ("ben", "cat", None), ("cat", "ann", "red"), ("dan", "dan", None)],
        key=repr,
    )
    missing = "match { $p: Person  optional { $p memberOf $t } $t is null } return { $p }"
    assert unordered(oracle, missing) == ["cat", "dan", "eve"]
    kept = """match { $p: Person  optional { $p memberOf $t }  not { $t.size > 0 } }
      return { $p, $t }"""
    assert unordered(oracle, kept) == sorted(
        [("ben", "ann"), ("cat", None), ("dan", None), ("eve", None)], key=repr
    )


def test_null_never_matches_a_filter(oracle):
    def people(condition: str) -> list[Any]:
        return unordered(oracle, f"match {{ $p: Person  {condition} }} return {{ $p }}")

    assert people("$p.age != 30") == ["ben", "eve"]
    assert people("not ($p.age = 30)") == ["ben", "eve"]
    assert people("$p.age = 30 or $p.name is null") == ["ann", "cat", "dan"]
    assert people("not ($p.age > 15 and $p.height > 1)") == ["ann", "eve"]
    assert people('not ($p.skills contains "sql")') == ["ben", "dan"]
    assert people("$p.age in [10, 20]") == ["ben", "eve"]
    assert people("not ($p.age in [])") == ["ann", "ben", "cat", "eve"]
    assert people('$p.name starts_with "A" or $p.name contains "en"') == ["ann", "ben"]
    assert people("$p.age + 5 > 30") == ["ann", "cat"]
    assert people("$p.age / 0 is null") == ["ann", "ben", "cat", "dan", "eve"]
    assert people("$p.height = 0.1") == ["ann"]


def test_typed_parameters(oracle):
    body = "match { $p: Person  $p.born = $day or $p.seen < $at } return { $p }"
    given = {"day": "2000-01-02", "at": "2020-01-01T14:00:00+01:00"}
    assert unordered(oracle, body, "$day: Date, $at: DateTime", **given) == ["ben", "cat"]
    listed = "match { $p: Person { name: $n }  $p.age in $ages } return { $p }"
    assert rows(oracle, listed, "$n: String?, $ages: [I64]", n="Cat", ages=[30, "31"]) == ["cat"]
    assert rows(oracle, listed, "$n: String?, $ages: [I64]", ages=[30]) == []
    with pytest.raises(QueryError):
        rows(oracle, listed, "$n: String?, $ages: [I64]", n="Cat")


def test_values_keep_their_types(oracle):
    body = (
        "match { $p: Person { age: 30 } } return { $p.height, $p.seen, $p.skills, $p.age / 4 as q }"
    )
    assert unordered(oracle, body) == sorted(
        [(0.100000001, None, ("sql", "c"), 7.5), (1.5, SEEN, None, 7.5)], key=repr
    )
    compared = "match { $p: Person { age: 20 } } return { $p.age > 1 as more, $p.height > 1 as no }"
    assert rows(oracle, compared) == [("true", None)]


def test_aggregates_group_by_the_other_columns(oracle):
    body = """match { $p: Person } return { $p.age, count($p) as n, count($p.height) as heights,
      sum($p.height) as total, max($p.name) as last } order { $p.age desc }"""
    assert rows(oracle, body) == [
        (30, 2, 2, 1.6, "Cat"), (20, 1, 0, None, "Ben"), (10, 1, 0, None, "Eve"),
        (None, 1, 0, None, None),
    ]  # fmt: skip
    whole = """match { $p: Person } return { count($p) as n, sum($p.age) as s, avg($p.age) as a,
      min($p.born) as b, count(distinct $p.age) + 1 as d }"""
    assert rows(oracle, whole) == [(5, 90, 22.5, DAY, 4)]
    beside = "match { $p: Person } return { $p.age, $p.age + count($p) as n } order { n } limit 2"
    assert rows(oracle, beside) == [(None, None), (10, 11)]


def test_nothing_aggregates_to_one_row_without_keys_and_to_none_with_them(oracle):
    nothing = "match { $p: Person { age: 99 } } return"
    whole = f"{nothing} {{ count($p) as n, sum($p.age) as s, avg($p.age) as a, min($p.name) as m }}"
    assert rows(oracle, whole) == [(0, None, None, None)]
    assert rows(oracle, f"{nothing} {{ $p.age, count($p) as n }}") == []


def test_sums_of_integers_that_do_not_fit_are_errors(oracle):
    body = "match { $p: Person  $q: Person  $p.big is not null } return { sum($p.big) as s }"
    with pytest.raises(Overflow):
        rows(oracle, body)
    assert rows(oracle, "match { $p: Person { age: 20 } } return { sum($p.big) as s }") == [
        2**64 - 1
    ]


def test_distinct_drops_equal_rows_nulls_too(oracle):
    body = "match { $p: Person  $q: Person } return distinct { $p.age } order { $p.age }"
    assert rows(oracle, body) == [None, 10, 20, 30]


def test_nulls_are_first_ascending_and_last_descending_and_ids_break_ties(oracle):
    by = "match { $p: Person } return { $p } order"
    assert rows(oracle, f"{by} {{ $p.age }}") == ["dan", "eve", "ben", "ann", "cat"]
    assert rows(oracle, f"{by} {{ $p.age desc }}") == ["ann", "cat", "ben", "eve", "dan"]
    assert rows(oracle, f"{by} {{ $p.height desc, $p.age desc }}") == [
        "cat", "ann", "ben", "eve", "dan",
    ]  # fmt: skip
    cut = "match { $p: Person } return { $p } order { $p.age } limit $n offset $m"
    assert rows(oracle, cut, "$n: I32, $m: U64", n=2, m=3) == ["ann", "cat"]


def test_an_answer_tells_what_differs():
    free = Answer(("x",), ((1,), (2,), (3,)), ((), (), ()))
    assert free.difference([[3], [1], [2]]) is None
    assert free.difference([[3], [1], [1]]) is not None
    assert free.difference([[3], [1]]) == "2 rows instead of 3"
    ordered = Answer(("x",), ((1,), (2,), (3,)), ((0,), (1,), (1,)))
    assert ordered.difference([[1], [3], [2]]) is None
    assert ordered.difference([[2], [1], [3]]) is not None
    cut = Answer(("x",), ((1,), (2,), (3,)), ((0,), (1,), (1,)), offset=1, limit=1)
    assert cut.difference([[2]]) is None and cut.difference([[3]]) is None
    assert cut.difference([[1]]) is not None and cut.difference([]) is not None
    assert Answer(("x",), ((1,),), ((),), offset=7).difference([]) is None
