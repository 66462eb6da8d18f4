"""What the statements of a mutation mean, alone and together."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import (
    NotFound,
    PreconditionFailed,
    QueryError,
    UsageError,
    ValidationError,
)
from omnigraph.graph import Graph

from .graphs import PEOPLE, make, rows, run, versions


@pytest.fixture
def social(tmp_path: Path) -> Graph:
    graph = make(tmp_path)
    graph.mutate(PEOPLE)
    return graph


class TestInsert:
    def test_counts_what_it_inserted(self, tmp_path: Path) -> None:
        graph = make(tmp_path)
        result = graph.mutate(PEOPLE, actor="ada", message="first")
        assert (result.affected_nodes, result.affected_edges) == (4, 3)
        assert result.nodes["Person"].inserted == 4 and result.edges["Knows"].inserted == 3
        assert result.commit is not None and result.commit.actor == "ada"
        assert graph.snapshot().commit == result.commit.id
        assert rows(graph, "Knows", "src", "dst") == [
            ("Alice", "Bob"), ("Alice", "Charlie"), ("Bob", "Charlie"),
        ]  # fmt: skip

    def test_with_a_key_replaces_the_whole_row(self, social: Graph) -> None:
        result = run(social, 'insert Person { name: "Alice" }', 'insert Person { name: "Zoe" }')
        counts = result.nodes["Person"]
        assert (counts.inserted, counts.replaced, counts.updated) == (1, 1, 0)
        assert rows(social, "Person", "name", "age")[0] == ("Alice", None)

    def test_without_a_key_makes_a_new_row_each_time(self, social: Graph) -> None:
        for _ in range(2):
            run(social, 'insert Note { text: "same" }')
        found = rows(social, "Note", "id", "text", "stars")
        assert len({id for id, _, _ in found}) == 2
        assert [(text, stars) for _, text, stars in found] == [("same", 1)] * 2

    def test_ids_are_the_canonical_text_of_the_key(self, tmp_path: Path) -> None:
        graph = make(
            tmp_path,
            "node Seat { row: I64  open: Bool  day: Date  @key(row, open, day) }"
            " node Tick { at: DateTime @key } edge Of: Tick -> Seat { n: I32 @key }",
        )
        run(
            graph,
            'insert Seat { row: -7, open: true, day: date("2026-01-31") }',
            'insert Tick { at: datetime("2026-01-31T12:00:00.250+01:00") }',
            'insert Tick { at: datetime("2026-01-31T12:00:00Z") }',
            'insert Of { from: "2026-01-31T12:00:00Z",'
            ' to: "[\\"-7\\",\\"true\\",\\"2026-01-31\\"]", n: 3 }',
        )
        assert rows(graph, "Seat", "id") == ['["-7","true","2026-01-31"]']
        assert rows(graph, "Tick", "id") == ["2026-01-31T11:00:00.250Z", "2026-01-31T12:00:00Z"]
        assert rows(graph, "Of", "id") == ["3"]

    def test_edges_may_join_nodes_of_the_same_query_in_any_order(self, tmp_path: Path) -> None:
        graph = make(tmp_path)
        run(
            graph,
            'insert Knows { from: "a", to: "b", since: date("2020-02-29") }',
            'insert Person { name: "a" }',
            'insert Person { name: "b" }',
        )
        assert rows(graph, "Knows", "src", "dst") == [("a", "b")]

    def test_takes_values_from_parameters_and_arithmetic(self, tmp_path: Path) -> None:
        graph = make(tmp_path)
        run(
            graph,
            "insert Person { name: $name, age: $age + 1, email: $email }",
            head="$name: String, $age: I32, $email: String?",
            params={"name": "x", "$age": "41"},
        )
        assert rows(graph, "Person", "name", "age", "email") == [("x", 42, None)]

    def test_of_the_same_key_twice_is_refused(self, social: Graph) -> None:
        with pytest.raises(ValidationError) as caught:
            run(social, 'insert Person { name: "x" }', 'insert Person { name: "x", age: 3 }')
        (violation,) = caught.value.violations
        assert (violation.type, violation.id, violation.rule) == ("Person", "x", "repeated")


class TestUpdate:
    def test_rewrites_the_rows_that_match(self, social: Graph) -> None:
        result = run(social, "update Person set { age: age + 1 } where age >= 28")
        assert result.nodes["Person"].updated == 3 and result.affected_edges == 0
        assert rows(social, "Person", "name", "age") == [
            ("Alice", 31), ("Bob", 25), ("Charlie", 36), ("Dana", 29),
        ]  # fmt: skip

    def test_sees_the_rows_of_the_same_query_instead_of_the_committed_ones(
        self, social: Graph
    ) -> None:
        result = run(
            social,
            'insert Person { name: "Alice", age: 90 }',
            'insert Person { name: "Eve", age: 90 }',
            'update Person set { age: 1, email: "old" } where age = 30',
            'update Person set { age: age + 1 } where age = 90 or name = "Bob"',
            "update Person set { age: age + 1 } where age = 91",
        )
        counts = result.nodes["Person"]
        assert (counts.inserted, counts.replaced, counts.updated) == (1, 1, 1)
        assert rows(social, "Person", "name", "age", "email") == [
            ("Alice", 92, None), ("Bob", 26, None), ("Charlie", 35, None), ("Dana", 28, None),
            ("Eve", 92, None),
        ]  # fmt: skip

    def test_an_insert_after_an_update_replaces_what_the_update_made(self, social: Graph) -> None:
        result = run(
            social,
            'update Person set { email: "a@x" } where name = "Alice"',
            'insert Person { name: "Alice", age: 1 }',
        )
        assert (result.nodes["Person"].replaced, result.nodes["Person"].updated) == (1, 0)
        assert ("Alice", 1, None) in rows(social, "Person", "name", "age", "email")

    def test_a_row_that_several_statements_touch_counts_once(self, social: Graph) -> None:
        result = run(
            social,
            "update Person set { age: 1 } where age > 0",
            "update Person set { age: 2 } where age = 1",
        )
        assert result.affected_nodes == 4
        assert rows(social, "Person", "age") == [2, 2, 2, 2]

    def test_null_never_matches(self, social: Graph) -> None:
        run(social, 'insert Person { name: "Zoe" }')
        assert run(social, "update Person set { age: 1 } where not (age = 30)").affected_nodes == 3
        assert run(social, "update Person set { age: 5 } where age is null").affected_nodes == 1
        assert ("Zoe", 5) in rows(social, "Person", "name", "age")

    def test_of_edges_can_move_their_ends(self, social: Graph) -> None:
        result = run(
            social,
            'update Knows set { to: "Dana", since: date("2024-01-01") }'
            ' where from = "Alice" and to = "Bob"',
        )
        assert result.edges["Knows"].updated == 1
        assert rows(social, "Knows", "src", "dst")[:2] == [("Alice", "Charlie"), ("Alice", "Dana")]

    def test_by_key_of_several_properties(self, tmp_path: Path) -> None:
        graph = make(tmp_path, "node P { a: String  b: I64  n: I64?  @key(a, b) }")
        run(graph, *(f'insert P {{ a: "x\\"{i}", b: {i} }}' for i in range(3)))
        done = run(
            graph, 'update P set { n: 7 } where b in [1, 2, 9] and a = "x\\"1" and n is null'
        )
        assert done.affected_nodes == 1
        assert rows(graph, "P", "b", "n") == [(0, None), (1, 7), (2, None)]

    def test_keeps_stable_ids_of_edges_and_nodes(self, social: Graph) -> None:
        before = rows(social, "Knows", "id")
        run(social, 'update Knows set { since: date("2024-01-01") } where from = "Alice"')
        assert rows(social, "Knows", "id") == before


class TestDelete:
    def test_cascades_over_every_incident_edge_type(self, social: Graph) -> None:
        run(social, 'insert Note { text: "n" }')
        (note,) = rows(social, "Note", "id")
        run(
            social,
            'insert Wrote { from: "Bob", to: $n }',
            head="$n: String",
            params={"n": note},
        )
        result = run(social, 'delete Person where name = "Bob"')
        assert result.nodes["Person"].deleted == 1
        assert {n: c.deleted for n, c in result.edges.items()} == {"Knows": 2, "Wrote": 1}
        assert rows(social, "Knows", "src", "dst") == [("Alice", "Charlie")]
        assert rows(social, "Wrote", "id") == []

    def test_overlapping_statements_count_each_row_once(self, social: Graph) -> None:
        # Alice (30) matches both; three edges touch Alice or Charlie.
        result = run(social, 'delete Person where name = "Alice"', "delete Person where age > 29")
        assert (result.affected_nodes, result.affected_edges) == (2, 3)
        assert rows(social, "Person", "name") == ["Bob", "Dana"]
        assert rows(social, "Knows", "id") == []

    def test_a_cascade_and_a_delete_of_the_same_edges_count_once(self, social: Graph) -> None:
        result = run(
            social, 'delete Knows where from = "Alice"', 'delete Person where name = "Alice"'
        )
        assert (result.affected_nodes, result.affected_edges) == (1, 2)

    def test_a_null_column_keeps_no_row_alive_and_no_edge_loose(self, social: Graph) -> None:
        run(
            social,
            'insert Person { name: "Zoe" }',
            'insert Knows { from: "Zoe", to: "Charlie" }',
        )
        result = run(social, "delete Person where age > 30", 'delete Person where name = "Zoe"')
        assert (result.affected_nodes, result.affected_edges) == (2, 3)
        assert "Zoe" not in rows(social, "Person", "name")
        assert social.check().problems == ()

    def test_of_nodes_without_edges_moves_no_edge_table(self, social: Graph) -> None:
        before = versions(social)
        run(social, 'delete Person where name = "Dana"')
        after = versions(social)
        assert {n for n in before if before[n] != after[n]} == {"Person"}
        run(social, 'delete Person where name = "Bob"')
        assert social.check().problems == ()

    def test_that_matches_nothing_makes_no_commit(self, social: Graph) -> None:
        before, head = versions(social), social.snapshot().commit
        result = run(social, 'delete Person where name = "Nobody"', "delete Knows where from = to")
        assert result.commit is None and result.affected_nodes == 0 and result.nodes == {}
        assert versions(social) == before and social.snapshot().commit == head

    def test_a_self_loop_counts_once(self, social: Graph) -> None:
        run(social, 'insert Knows { from: "Dana", to: "Dana" }')
        assert run(social, 'delete Person where name = "Dana"').affected_edges == 1

    def test_everything(self, social: Graph) -> None:
        result = run(social, "delete Person where name is not null")
        assert (result.affected_nodes, result.affected_edges) == (4, 3)
        assert rows(social, "Person", "id") == rows(social, "Knows", "id") == []

    def test_cannot_be_mixed_with_inserts_or_updates(self, social: Graph) -> None:
        for other in ('insert Person { name: "x" }', "update Person set { age: 1 } where age = 2"):
            with pytest.raises(QueryError, match="split it into two queries") as caught:
                run(social, other, 'delete Person where name = "Bob"')
            assert "branch" in str(caught.value)


class TestConditions:
    def test_a_branch_is_written_alone(self, social: Graph) -> None:
        social.branches.create("draft")
        run(social, 'delete Person where name = "Bob"', branch="draft")
        run(social, "update Person set { age: 0 } where age > 0", branch="draft")
        assert rows(social, "Person", "name", "age", branch="draft") == [
            ("Alice", 0), ("Charlie", 0), ("Dana", 0),
        ]  # fmt: skip
        assert rows(social, "Person", "age") == [25, 28, 30, 35]
        assert len(rows(social, "Knows", "id")) == 3

    def test_if_commit(self, social: Graph) -> None:
        head = social.snapshot().commit
        run(social, 'insert Person { name: "x" }', if_commit=head)
        with pytest.raises(PreconditionFailed):
            run(social, 'insert Person { name: "y" }', if_commit=head)
        assert "y" not in rows(social, "Person", "name")

    def test_idempotency_key(self, social: Graph) -> None:
        first = run(social, 'insert Note { text: "once" }', idempotency_key="k")
        again = run(social, 'insert Note { text: "once" }', idempotency_key="k")
        assert again.repeated and again.commit == first.commit and again.nodes == {}
        assert rows(social, "Note", "text") == ["once"]

    def test_which_query(self, social: Graph) -> None:
        text = (
            'query a() { insert Person { name: "from a" } }'
            " query bee($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
        )
        with pytest.raises(UsageError, match="a, bee"):
            social.mutate(text)
        with pytest.raises(NotFound, match="did you mean `bee`"):
            social.mutate(text, name="be")
        with pytest.raises(UsageError, match="reads"):
            social.mutate(text, name="bee")
        social.mutate(text, name="a")
        assert "from a" in rows(social, "Person", "name")

    def test_a_read_only_graph_is_not_written(self, social: Graph) -> None:
        from omnigraph.graph import open

        with pytest.raises(UsageError, match="reading only"):
            run(open(social.location, mode="r"), 'insert Person { name: "x" }')

    def test_an_unknown_branch(self, social: Graph) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            run(social, 'insert Person { name: "x" }', branch="nowhere")


class TestManyRuns:
    ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"

    def test_a_query_runs_once_with_each_set_of_parameters_in_one_commit(
        self, social: Graph
    ) -> None:
        before = len(social.commits())
        result = social.mutate(self.ADD, params=[{"n": f"p{i}", "a": i} for i in range(100)])
        assert result.nodes["Person"].inserted == 100
        assert len(social.commits()) == before + 1
        assert ("p99", 99) in rows(social, "Person", "name", "age")

    def test_later_runs_see_earlier_ones(self, social: Graph) -> None:
        text = "query up($n: String) { update Person set { age: age + 1 } where name = $n }"
        assert social.mutate(text, params=[{"n": "Bob"}] * 3).affected_nodes == 1
        assert ("Bob", 28) in rows(social, "Person", "name", "age")

    def test_no_sets_change_nothing(self, social: Graph) -> None:
        assert social.mutate(self.ADD, params=[]).commit is None

    def test_wrong_values_tell_their_set(self, social: Graph) -> None:
        with pytest.raises(QueryError) as caught:
            social.mutate(self.ADD, params=[{"n": "x"}, {"n": 5}, {"a": 1}])
        text = str(caught.value)
        assert "parameters 2: parameter `$n`" in text and "parameters 3: parameter `$n`" in text

    def test_a_violation_of_one_refuses_all(self, social: Graph) -> None:
        with pytest.raises(ValidationError):
            social.mutate(self.ADD, params=[{"n": "x"}, {"n": "y"}, {"n": "x"}])
        assert "y" not in rows(social, "Person", "name")
