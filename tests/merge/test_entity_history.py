"""`Graph.history`: every version of a node or edge, and what is none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import NotFound, UsageError
from omnigraph.graph import Graph, init
from omnigraph.history.store import History
from omnigraph.storage import patch
from omnigraph.storage.tables import Tables
from omnigraph.writes import landing, prepared
from tests.merge.graphs import make, run

SCHEMA = "node Item { name: String @key  n: I32? }"


def story(graph: Graph, id: str, branch: str = "main", type: str = "Person") -> list[Any]:
    """The versions of an entity: operations, properties and commits."""
    found = graph.history(type, id, branch=branch)
    return [(v.operation, v.properties, v.commit.id) for v in found]


def age(graph: Graph, value: int, branch: str = "main") -> str:
    return run(graph, f'update Person set {{ age: {value} }} where name = "ada"', branch)


def test_every_change_is_a_version_with_its_commit_and_its_values(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        inserted = graph.commits()[0].id
        query = 'query q() { update Person set { age: 37, city: "Oslo" } where name = "ada" }'
        updated = graph.mutate(query, actor="eve", message="older").commit
        assert updated is not None
        newest, first = graph.history("Person", "ada")
        assert newest.commit == updated and newest.commit.actor == "eve"
        assert (newest.operation, newest.properties) == ("update", ("age", "city"))
        assert newest.values == {"name": "ada", "age": 37, "city": "Oslo", "email": None}
        assert (first.commit.id, first.operation, first.properties) == (inserted, "insert", ())
        assert first.values == {"name": "ada", "age": 36, "city": "Rome", "email": None}
        told = newest.to_dict()
        assert told["commit"]["id"] == updated.id and told["commit"]["message"] == "older"
        assert told["properties"] == ["age", "city"] and told["values"]["age"] == 37


def test_there_and_back_again_are_versions_and_the_same_value_is_none(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        start = graph.commits()[0].id
        there = age(graph, 1)
        age(graph, 1)
        back = age(graph, 36)
        assert story(graph, "ada") == [
            ("update", ("age",), back), ("update", ("age",), there), ("insert", (), start),
        ]  # fmt: skip


def test_what_was_deleted_and_inserted_again_has_all_its_versions(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        start = graph.commits()[0].id
        (edge,) = graph.snapshot().read("Knows")["id"].to_pylist()
        gone = run(graph, 'delete Person where name = "ada"')
        run(graph, 'insert Person { name: "dan" }')
        assert story(graph, "ada") == [("delete", (), gone), ("insert", (), start)]
        assert graph.history("Person", "ada")[0].values is None
        again = run(graph, 'insert Person { name: "ada", age: 1 }')
        gone_again = run(graph, 'delete Person where name = "ada"')
        assert story(graph, "ada") == [
            ("delete", (), gone_again), ("insert", (), again),
            ("delete", (), gone), ("insert", (), start),
        ]  # fmt: skip
        # Its edge went with it.
        assert story(graph, edge, type="Knows") == [("delete", (), gone), ("insert", (), start)]
        assert graph.history("Knows", edge)[1].values == {"from": "ada", "to": "bob", "since": 1}


def test_a_branch_has_the_versions_from_before_it_was_made(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        start = graph.commits()[0].id
        first = age(graph, 1)
        graph.branches.create("team/one")
        on_main = age(graph, 2)
        on_one = age(graph, 3, "team/one")
        graph.branches.create("two", source="team/one")
        later_on_one = age(graph, 4, "team/one")
        graph.branches.create("three", source="two")
        on_three = age(graph, 5, "three")
        below = [first, start]
        assert [c for *_, c in story(graph, "ada")] == [on_main, *below]
        assert [c for *_, c in story(graph, "ada", "team/one")] == [later_on_one, on_one, *below]
        assert [c for *_, c in story(graph, "ada", "two")] == [on_one, *below]
        assert [c for *_, c in story(graph, "ada", "three")] == [on_three, on_one, *below]


def test_a_merge_is_a_version_of_what_it_changed_and_of_nothing_else(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        graph.branches.create("draft")
        age(graph, 1, "draft")
        graph.branches.create("other")
        run(graph, 'update Person set { age: 2 } where name = "bob"', "other")
        merged = graph.merge("draft").commit
        assert merged is not None
        graph.merge("other")
        assert story(graph, "ada")[0] == ("update", ("age",), merged.id)
        assert len(story(graph, "ada")) == len(story(graph, "bob")) == 2


@pytest.mark.parametrize("forked", [False, True])
def test_loads_are_versions_only_where_they_change_something(tmp_path: Path, forked: bool) -> None:
    with make(
        tmp_path, SCHEMA, 'insert Item { name: "a", n: 1 } insert Item { name: "b" }'
    ) as graph:
        start = graph.commits()[0].id
        branch = "draft" if forked else "main"
        if forked:
            graph.branches.create(branch)

        def load(mode: Any, **rows: int | None) -> str:
            made = [{"name": name, "n": n} for name, n in rows.items()]
            return graph.load(made, type="Item", mode=mode, branch=branch).commit or ""

        load("overwrite", a=1, b=None)
        load("merge", a=1, c=3)
        changed = load("overwrite", a=2, c=3)
        graph.ensure_indices(branch)
        load("overwrite", c=3)
        back = load("merge", a=2)
        found = story(graph, "a", branch, "Item")
        assert [(op, props) for op, props, _ in found] == [
            ("insert", ()), ("delete", ()), ("update", ("n",)), ("insert", ()),
        ]  # fmt: skip
        assert [found[0][2], found[2][2], found[3][2]] == [back, changed, start]
        assert [op for op, *_ in story(graph, "b", branch, "Item")] == ["delete", "insert"]
        assert [op for op, *_ in story(graph, "c", branch, "Item")] == ["insert"]


@pytest.mark.parametrize("forked", [False, True])
def test_rows_that_many_others_made_room_for_have_their_versions(
    tmp_path: Path, forked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(
        tmp_path, SCHEMA, 'insert Item { name: "a", n: 1 } insert Item { name: "b" }'
    ) as graph:
        start = graph.commits()[0].id
        branch = "draft" if forked else "main"
        if forked:
            graph.branches.create(branch)
        monkeypatch.setattr(patch, "SEVERAL_ROWS", 0)
        monkeypatch.setattr(prepared, "MANY_ROWS", 0)
        rows = [{"name": name, "n": n} for name, n in (("a", 2), ("b", None), ("new", 3))]
        made = graph.commit(graph.load(rows, type="Item", branch=branch).commit or "")
        # One version of the table was made for room, and not published.
        assert made.changes[graph.snapshot(branch).tables[0].identity][0] == 4
        graph.load(rows, type="Item", branch=branch)
        last = run(graph, 'update Item set { n: 9 } where name = "new"', branch)
        assert story(graph, "a", branch, "Item") == [
            ("update", ("n",), made.id), ("insert", (), start),
        ]  # fmt: skip
        assert story(graph, "b", branch, "Item") == [("insert", (), start)]
        assert story(graph, "new", branch, "Item") == [
            ("update", ("n",), last), ("insert", (), made.id),
        ]  # fmt: skip


def test_what_was_rolled_back_is_no_version(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        start = graph.commits()[0].id
        note = 'insert Note { text: "x" }'
        for text in (
            f'update Person set {{ age: 1 }} where name = "ada" {note}',
            f'insert Person {{ name: "dan" }} {note}',
            'delete Person where name = "bob"',
        ):
            # One of two tables is committed, and put back.
            with (
                failpoints.active("write.table_committed", "raise"),
                pytest.raises(failpoints.FailpointError),
            ):
                run(graph, text)
            assert graph.commits()[0].actor == "omnigraph:recovery"
        later = age(graph, 2)
        assert story(graph, "ada") == [("update", ("age",), later), ("insert", (), start)]
        assert story(graph, "bob") == [("insert", (), start)]
        with pytest.raises(NotFound, match="nor in its history"):
            graph.history("Person", "dan")
        inserted = run(graph, 'insert Person { name: "dan" }')
        assert story(graph, "dan") == [("insert", (), inserted)]


def test_what_recovery_has_finished_is_a_version(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        for text, id in (
            ('update Person set { age: 1 } where name = "ada"', "ada"),
            ('delete Person where name = "cy"', "cy"),
        ):
            with failpoints.active("write.publishing", "raise"):
                made = run(graph, text)
            assert graph.commit(made).touched is None
            run(graph, f'insert Person {{ name: "{id}2" }}')
            assert story(graph, id)[0][2] == made


def test_each_of_several_writes_that_landed_together_is_a_version(tmp_path: Path) -> None:
    names = [f"i{n}" for n in range(6)]
    start = " ".join(f'insert Item {{ name: "{name}", n: 0 }}' for name in names)
    with make(tmp_path, SCHEMA, start) as graph, ThreadPoolExecutor(len(names)) as pool:

        def write(name: str) -> list[str]:
            text = f'update Item set {{ n: %d }} where name = "{name}"'
            return [run(graph, text % n) for n in range(1, 5)]

        written = dict(zip(names, pool.map(write, names), strict=True))
        for name in names:
            assert [c for *_, c in story(graph, name, type="Item")][-2::-1] == written[name]


def test_blobs_and_lists_are_compared_by_their_content(tmp_path: Path) -> None:
    schema = "node Doc { name: String @key  body: Blob?  tags: [String]? }"
    with init(tmp_path / "graph", schema) as graph:
        for body, tags in ((b"1", ["a"]), (b"1", ["a"]), (b"2", ["a"]), (b"2", [])):
            graph.load([{"name": "d", "body": body, "tags": tags}], type="Doc")
        found = graph.history("Doc", "d")
        assert [(v.operation, v.properties) for v in found] == [
            ("update", ("tags",)), ("update", ("body",)), ("insert", ()),
        ]  # fmt: skip


def test_a_limit_gives_the_newest_versions(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        commits = [age(graph, n) for n in range(3)]
        found = graph.history("Person", "ada", limit=2)
        assert [v.commit.id for v in found] == commits[:0:-1]
        assert graph.history("Person", "ada", limit=0) == []
        assert len(graph.history("Person", "ada", limit=9)) == 4
        with pytest.raises(UsageError, match="limit is 0 or more, not -1"):
            graph.history("Person", "ada", limit=-1)


def test_what_is_not_there_is_told_with_a_suggestion(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        with pytest.raises(NotFound, match="no type `Persn`; did you mean `Person`"):
            graph.history("Persn", "ada")
        with pytest.raises(NotFound, match="no branch `mian`; did you mean `main`"):
            graph.history("Person", "ada", branch="mian")
        with pytest.raises(
            NotFound, match="no Person `nobody` on branch `main`, nor in its history"
        ):
            graph.history("Person", "nobody")


@pytest.mark.parametrize("marked", [True, False])
def test_the_cost_does_not_grow_with_the_number_of_commits(
    tmp_path: Path, marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted are the versions of tables that are opened, and the reads of the manifest."""
    if not marked:
        # As if each commit had touched many rows.
        monkeypatch.setattr(landing, "id_marks", lambda ids: None)
    counts = {"versions": 0, "manifest": 0}

    def counting(owner: type, name: str, what: str) -> None:
        inner = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            counts[what] += 1
            return inner(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    def cost(graph: Graph, id: str) -> dict[str, int]:
        counts.update(versions=0, manifest=0)
        assert [v.operation for v in graph.history("Item", id)] == ["update", "update", "insert"]
        return dict(counts)

    with make(tmp_path, SCHEMA, "") as graph:
        counting(Tables, "open", "versions")
        counting(History, "rows", "manifest")
        number = 0

        def others(count: int) -> None:
            nonlocal number
            for _ in range(count):
                number += 1
                run(graph, f'insert Item {{ name: "other{number}" }}')

        def three_versions(id: str, apart: int) -> None:
            run(graph, f'insert Item {{ name: "{id}", n: 0 }}')
            for n in (1, 2):
                others(apart)
                run(graph, f'update Item set {{ n: {n} }} where name = "{id}"')
            others(apart)

        three_versions("a", 4)
        few = cost(graph, "a")
        three_versions("b", 24)
        many = cost(graph, "a"), cost(graph, "b")
    assert few["manifest"] == 1
    if marked:
        assert many == (few, few) and few["versions"] <= 6
    else:
        # Rows that were merged with others say less exactly when they were written: with four times
        # as many commits after them, there is one more version to look at.
        assert all(each["versions"] <= 3 * 5 and each["manifest"] == 1 for each in many)


def test_what_a_cleanup_has_cut_off_is_no_insert(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        commits = [age(graph, value) for value in range(5)]
        graph.cleanup(confirm=True, keep=2, grace=timedelta(0), leftovers_older_than=timedelta(0))
        assert story(graph, "ada") == [
            ("update", ("age",), commits[4]), (None, (), commits[3]),
        ]  # fmt: skip
        assert graph.history("Person", "ada")[-1].to_dict()["operation"] is None
        blamed = {each.property: each for each in graph.blame("Person", "ada")}
        assert (blamed["age"].commit.id, blamed["age"].or_earlier) == (commits[4], False)
        assert (blamed["city"].commit.id, blamed["city"].or_earlier) == (commits[3], True)
        assert blamed["city"].to_dict()["or_earlier"] is True
