"""What earlier lives of a name leave behind never gets in the way of later ones."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import NotFound, PreconditionFailed, ValidationError
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, open
from omnigraph.storage.tables import Tables
from tests.crash import scenarios, workers
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import cities, content, make_graph, people


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "graph")
    make_graph(path)
    return path


def write_person(graph: Graph, branch: str, name: str) -> None:
    graph.write_batches({"Person": ("merge", people(graph, {name: 1}))}, branch=branch)


def names(graph: Graph, branch: str) -> list[object]:
    return [row[0] for row in content(graph, branch)["Person"]]


def test_forks_left_by_a_deleted_branch_do_not_hold_the_one_they_were_made_from(
    place: str,
) -> None:
    with open(place) as graph:
        graph.branches.create("x")
        write_person(graph, "x", "on-x")
        graph.branches.create("y", source="x")
        write_person(graph, "y", "on-y")
        with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
            graph.branches.delete("y")
        graph.branches.delete("x")
        for branch in ("x", "y"):
            graph.branches.create(branch)
            write_person(graph, branch, f"new-{branch}")
            assert names(graph, branch) == ["ada", "bob", f"new-{branch}"]
        assert graph.check().problems == ()


def test_a_name_below_a_left_fork_and_one_above_it_can_be_used(place: str) -> None:
    with open(place) as graph:
        for name in ("a", "a/b", "a", "a/b/c", "a/b"):
            graph.branches.create(name)
            write_person(graph, name, "new")
            assert names(graph, name) == ["ada", "bob", "new"]
            with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
                graph.branches.delete(name)
        assert graph.check().problems == ()


def test_a_branch_whose_maker_was_killed_before_it_was_listed_can_be_made_again(
    place: str,
) -> None:
    """Lance makes the files of a branch first and lists it then."""
    with open(place) as graph:
        graph.branches.create("x")
    os.remove(f"{place}/__manifest/_refs/branches/x.json")
    with open(place) as graph:
        assert "x" not in [b.name for b in graph.branches]
        graph.branches.create("x")
        write_person(graph, "x", "new")
        assert names(graph, "x") == ["ada", "bob", "new"]


def test_a_fork_whose_maker_was_killed_before_it_was_listed_can_be_made_again(
    place: str,
) -> None:
    with open(place) as graph:
        graph.branches.create("x")
        table = next(t for t in graph.snapshot().tables if t.name == "Person")
        graph._repository.tables.create_branch(table.ref, table.version, "x")
    os.remove(f"{place}/{table.path}/_refs/branches/x.json")
    with open(place) as graph:
        write_person(graph, "x", "new")
        assert names(graph, "x") == ["ada", "bob", "new"]
        assert graph.check().problems == ()


def test_a_half_deleted_branch_can_be_made_again(place: str) -> None:
    """Lance stops listing a branch first and deletes its files then."""
    with open(place) as graph:
        write_person(graph, "draft", "old")
        table = next(t for t in graph.snapshot("draft").tables if t.name == "Person")
    os.remove(f"{place}/__manifest/_refs/branches/draft.json")
    os.remove(f"{place}/{table.path}/_refs/branches/{table.branch}.json")
    with open(place) as graph:
        graph.branches.create("draft")
        write_person(graph, "draft", "new")
        assert names(graph, "draft") == ["ada", "bob", "new"]
        assert graph.check().problems == ()


def test_a_snapshot_never_shows_a_later_branch_of_the_same_name(place: str) -> None:
    reader = open(place, mode="r")
    with open(place) as graph:
        write_person(graph, "draft", "old")
        held = reader.snapshot("draft")
        by_commit = reader.snapshot(commit=held.commit)
        graph.branches.delete("draft")
        graph.branches.create("draft")
        write_person(graph, "draft", "new")
        for snapshot in (held, by_commit):
            assert sorted(snapshot.read("Person")["name"].to_pylist()) == ["ada", "bob", "old"]
        graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
        for snapshot in (held, by_commit):
            with pytest.raises(NotFound, match="branch `draft` of this snapshot was deleted"):
                snapshot.read("Person")
            # What it has from main is still what it was.
            assert len(snapshot.read("City")) == 1
        assert names(reader, "draft") == ["ada", "bob", "new"]


def test_a_sidecar_of_a_branch_that_was_deleted_and_made_anew_is_discarded(place: str) -> None:
    """It takes a second accident, but then the new branch must not get the old one's write."""
    assert run_child(workers.die_during, place, "working", "write.confirmed", 0) == KILLED
    sidecars = Path(place, "__recovery")
    kept = {p.name: p.read_bytes() for p in sidecars.glob("*.json")}
    assert len(kept) == 1
    with open(place) as graph:
        assert "eve" in names(graph, "working")
        graph.branches.delete("working")
        graph.branches.create("working")
        write_person(graph, "working", "new")
    for name, data in kept.items():
        (sidecars / name).write_bytes(data)
    with open(place) as graph:
        assert names(graph, "working") == ["ada", "bob", "new"]
        assert list(sidecars.glob("*.json")) == []
        assert graph.check().problems == ()


def test_a_sidecar_of_a_deleted_branch_is_discarded(place: str) -> None:
    assert run_child(workers.die_during, place, "working", "write.table_committed", 0) == KILLED
    sidecars = Path(place, "__recovery")
    kept = {p.name: p.read_bytes() for p in sidecars.glob("*.json")}
    with open(place) as graph:
        graph.branches.delete("working")
    for name, data in kept.items():
        (sidecars / name).write_bytes(data)
    with open(place) as graph:
        assert list(sidecars.glob("*.json")) == []
        assert graph.check().problems == ()


@pytest.mark.parametrize(
    "key", ["it's", 'q"q', "back\\slash", "100%_", "é", "😀", "a\nb", "\\u00e9", "''", "x" * 5000]
)
def test_any_text_can_be_an_idempotency_key(key: str, place: str) -> None:
    with open(place) as graph:
        first = graph.write_batches(
            {"City": ("append", cities(graph, ["Rome"]))}, idempotency_key=key
        )
        other = graph.write_batches(
            {"City": ("append", cities(graph, ["Oslo"]))}, idempotency_key=key + "x"
        )
        again = open(place).write_batches(
            {"City": ("append", cities(graph, ["Rome"]))}, idempotency_key=key
        )
        assert first.commit is not None
        assert again.commit is not None
        assert not other.repeated
        assert again.repeated
        assert again.commit.id == first.commit.id
        assert graph.snapshot().count("City") == 3


def test_a_condition_that_breaks_while_the_write_is_prepared_is_a_failed_condition(
    place: str,
) -> None:
    with open(place) as graph, open(place) as other:
        head = graph.snapshot().commit

        def overtake() -> None:
            del failpoints._active["write.prepared"]
            write_person(other, "main", "faster")
            failpoints._active["write.prepared"] = lambda: None

        with (
            failpoints.active("write.prepared", overtake),
            pytest.raises(PreconditionFailed) as refusal,
        ):
            graph.write_batches({"Person": ("merge", people(graph, {"slower": 1}))}, if_commit=head)
        assert refusal.value.expected == head
        assert refusal.value.actual == graph.snapshot().commit
        assert names(graph, "main") == ["ada", "bob", "faster"]


def test_a_strict_write_that_is_asked_for_again_after_its_writer_died_is_done_once(
    place: str,
) -> None:
    """The dead writer's commit only becomes visible when the second one holds the lock."""
    batch = scenarios.batches

    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    with open(place) as graph, open(place) as other:
        with failpoints.active("write.confirmed", die), pytest.raises(Death):
            graph.write_batches(batch(graph, "overwrite_and_edges"), idempotency_key="once")
        answer = other.write_batches(batch(other, "overwrite_and_edges"), idempotency_key="once")
        assert answer.repeated
        assert [r.kind for r in other.recoveries()] == ["RolledForward"]
        assert answer.commit == other.commits()[0]


@pytest.mark.parametrize("anew", [False, True])
def test_a_branch_deleted_while_a_write_is_staged_gives_a_clear_answer(
    anew: bool, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(place) as graph, open(place) as other:
        stage = Tables.stage_patch

        def overtaken(tables: Tables, *arguments: Any) -> Any:
            monkeypatch.setattr(Tables, "stage_patch", stage)
            other.branches.delete("working")
            if anew:
                other.branches.create("working")
            return stage(tables, *arguments)

        monkeypatch.setattr(Tables, "stage_patch", overtaken)
        if anew:
            write_person(graph, "working", "new")
            assert names(graph, "working") == ["ada", "bob", "new"]
        else:
            with pytest.raises(NotFound, match="no branch `working`"):
                write_person(graph, "working", "new")
        assert graph.check().problems == ()


def test_a_tag_set_while_a_write_is_prepared_does_not_disturb_it(place: str) -> None:
    with open(place) as graph, open(place) as other:
        head = graph.snapshot().commit

        def set_tag() -> None:
            other.tags.create("v1", head)

        with failpoints.active("write.prepared", set_tag):
            answer = graph.write_batches({"City": ("append", cities(graph, ["Rome"]))})
        assert answer.tables["City"].inserted == 1
        assert graph.recoveries() == []


def test_odd_ids_can_be_written_replaced_and_deleted(place: str) -> None:
    odd = ["it's", 'q"q', "back\\slash", "100%_", "é", "e\u0301", "😀", " ", "", "a\nb", "NULL"]
    with open(place) as graph:
        graph.write_batches({"Person": ("append", people(graph, dict.fromkeys(odd, 1)))})
        graph.write_batches({"Person": ("merge", people(graph, dict.fromkeys(odd, 2)))})
        rows = {r["id"]: r["age"] for r in graph.snapshot().read("Person").to_pylist()}
        assert {id: rows[id] for id in odd} == dict.fromkeys(odd, 2)
        for id in odd:
            quoted = id.replace("'", "''")
            graph.write_batches({"Person": ("delete", f"id = '{quoted}'")})
        assert names(graph, "main") == ["ada", "bob"]
        assert graph.check().problems == ()


def test_an_id_given_twice_in_one_batch_is_refused(place: str) -> None:
    with open(place) as graph:
        rows = people(graph, {"eve": 1})
        head = graph.snapshot().commit
        with pytest.raises(ValidationError, match='duplicate key "eve"'):
            graph.write_batches({"Person": ("merge", pa.concat_tables([rows, rows]))})
        assert graph.snapshot().commit == head


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("branch", ["main", "draft", "working"])
def test_an_empty_batch_makes_no_commit(mode: str, branch: str, place: str) -> None:
    with open(place) as graph:
        head = graph.snapshot(branch).commit
        empty = people(graph, {})
        answer = graph.write_batches({"Person": (mode, empty)}, branch=branch)  # type: ignore[dict-item]
        assert answer.commit is None
        answer = graph.write_batches({"Person": ("delete", "id = 'nobody'")}, branch=branch)
        assert answer.commit is None
        assert graph.snapshot(branch).commit == head


@pytest.mark.parametrize("branch", ["main", "draft", "working"])
def test_a_table_can_be_emptied_and_filled_again(branch: str, place: str) -> None:
    with open(place) as graph:
        for change in (("delete", "true"), ("overwrite", people(graph, {}))):
            graph.write_batches({"Person": change, "Knows": ("delete", "true")}, branch=branch)
            assert names(graph, branch) == []
            write_person(graph, branch, "new")
            assert names(graph, branch) == ["new"]
        assert graph.check().problems == ()
