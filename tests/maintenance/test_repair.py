"""Repair: what another program did to a table is shown, checked, and published or refused."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired, ValidationError
from omnigraph.graph import Graph, init, open
from omnigraph.storage import drift
from omnigraph.writes.sidecar import FOLDER
from tests.crash.children import KILLED, run_child
from tests.maintenance.graphs import add, folder_of, one_by_one, repair_with, rows, table_of


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    one_by_one(place).close()
    return place


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Any:
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        yield graph


class Death(BaseException):
    """The writer's process dies: nothing in it handles this."""


def die() -> None:
    raise Death


def raw(graph: Graph, name: str) -> lance.LanceDataset:
    return lance.dataset(str(folder_of(graph, name)))


def append(graph: Graph, name: str, /, **values: Any) -> None:
    """Add a row past Omnigraph, like one that is there."""
    table = raw(graph, name)
    row = table.to_table(limit=1).to_pylist()[0] | values
    table.insert(pa.Table.from_pylist([row], table.schema))


def heads(graph: Graph) -> set[str | None]:
    return {problem.table for problem in graph.check().problems if problem.rule == "head"}


def skipped(graph: Graph) -> set[str]:
    return {t.table for t in graph.optimize().tables if "omnigraph repair" in (t.skipped or "")}


def needs(graph: Graph, **options: Any) -> dict[str, str]:
    return {table.table: table.needs for table in graph.repair(**options).tables}


def test_a_compaction_is_published_when_confirmed(graph: Graph) -> None:
    before = rows(graph)
    raw(graph, "Person").optimize.compact_files()
    assert heads(graph) == {"node:Person"} == skipped(graph)
    head = graph.snapshot().commit
    (shown,) = graph.repair().tables
    assert [version.kind for version in shown.versions] == ["reservation", "compaction"]
    assert (shown.branch, shown.needs, shown.commit) == ("main", "confirm", None)
    assert shown.rows == shown.head_rows == len(before["Person"])
    assert graph.snapshot().commit == head
    (done,) = graph.repair(confirm=True, actor="ada", message="nightly").tables
    (commit,) = graph.commits(limit=1)
    assert done.commit == commit.id == graph.snapshot().commit != head
    assert (commit.actor, commit.message) == ("ada", "nightly")
    assert rows(graph) == before == rows(graph, commit=head)
    assert len(table_of(graph, "Person").fragment_ids) == 1
    assert list(graph.diff(head, done.commit)) == []
    add(graph, "eve", 5)
    assert graph.check().problems == () and graph.repair().tables == ()


def test_rows_that_were_added_need_force(graph: Graph) -> None:
    append(graph, "Person", id="eve", name="eve", age=5)
    raw(graph, "Knows").optimize.compact_files()
    assert heads(graph) == {"node:Person", "edge:Knows"} == skipped(graph)
    with pytest.raises(RecoveryRequired, match="omnigraph repair"):
        add(graph, "bob", 6)
    assert needs(graph) == {"node:Person": "force", "edge:Knows": "confirm"}
    done = {table.table: table.commit for table in graph.repair(confirm=True).tables}
    assert done == {"node:Person": None, "edge:Knows": graph.snapshot().commit}
    assert len(rows(graph)["Person"]) == 11 and heads(graph) == {"node:Person"}
    assert needs(graph, force=True) == {"node:Person": "force"}
    head = graph.snapshot().commit
    (forced,) = graph.repair(confirm=True, force=True).tables
    assert forced.commit == graph.snapshot().commit != head
    assert (forced.rows, forced.head_rows) == (11, 12)
    assert len(rows(graph)["Person"]) == 12 and len(rows(graph, commit=head)["Person"]) == 11
    (change,) = graph.diff(head, forced.commit)
    assert (change.id, change.operation) == ("eve", "insert")
    add(graph, "bob", 6)
    graph.optimize()
    assert graph.check().problems == () and graph.repair().tables == ()


def test_updates_and_deletions_are_published_by_force(graph: Graph) -> None:
    raw(graph, "Person").update({"age": "77"}, where="name = 'p5'")
    raw(graph, "Knows").delete("since = 5")
    kinds = {t.table: [v.kind for v in t.versions] for t in graph.repair().tables}
    assert kinds == {"node:Person": ["update"], "edge:Knows": ["delete"]}
    assert set(needs(graph, confirm=True).values()) == {"force"}
    graph.repair(confirm=True, force=True)
    ages = {row["name"]: row["age"] for row in graph.snapshot().read("Person").to_pylist()}
    assert ages["p5"] == 77 and 5 not in graph.snapshot().read("Knows")["since"].to_pylist()
    assert graph.check().problems == ()


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("Person", {}, "duplicate"),
        ("Knows", {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "dst": "nobody"}, "nobody"),
    ],
)
def test_rows_that_break_a_rule_are_refused(
    graph: Graph, name: str, values: dict[str, Any], rule: str
) -> None:
    append(graph, name, **values)
    head = graph.snapshot().commit
    for confirm in (False, True):
        with pytest.raises(ValidationError, match=rule) as refused:
            graph.repair(confirm=confirm, force=True)
        assert refused.value.total == 1 and "delete the files that sort" in refused.value.message
    assert graph.snapshot().commit == head
    assert set(needs(graph, confirm=True).values()) == {"force"}


def test_other_columns_cannot_be_published(graph: Graph) -> None:
    raw(graph, "Person").add_columns({"more": "age + 1"})
    head = graph.snapshot().commit
    (left,) = graph.repair(confirm=True, force=True).tables
    assert (left.needs, left.commit) == ("drop", None)
    assert "columns" in left.reason and "delete the files that sort" in left.reason
    assert graph.snapshot().commit == head


def test_a_compaction_in_name_only_needs_force(graph: Graph, monkeypatch: Any) -> None:
    raw(graph, "Person").update({"age": "77"}, where="name = 'p5'")
    monkeypatch.setitem(drift._KINDS, 108, "compaction")
    (shown,) = graph.repair(confirm=True).tables
    assert [version.kind for version in shown.versions] == ["compaction"]
    assert (shown.needs, shown.commit) == ("force", None) and "rows have changed" in shown.reason
    monkeypatch.setitem(drift._KINDS, 100, "compaction")
    append(graph, "Knows", id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert needs(graph, confirm=True) == {"node:Person": "force", "edge:Knows": "force"}


def test_tables_of_branches_are_repaired_in_commits_of_their_own(graph: Graph) -> None:
    graph.branches.create("draft")
    add(graph, "eve", 5, "draft")
    ref = table_of(graph, "Person", "draft").ref
    raw(graph, "Person").checkout_version((ref.branch, None)).optimize.compact_files()
    raw(graph, "Knows").optimize.compact_files()
    main, draft = rows(graph), rows(graph, "draft")
    assert [(t.branch, t.table) for t in graph.repair("draft").tables] == [("draft", "node:Person")]
    done = graph.repair(confirm=True).tables
    assert [(t.branch, t.table) for t in done] == [("main", "edge:Knows"), ("draft", "node:Person")]
    assert [t.commit for t in done] == [graph.snapshot(b).commit for b in ("main", "draft")]
    assert (rows(graph), rows(graph, "draft")) == (main, draft)
    add(graph, "joe", 6, "draft")
    assert graph.check().problems == ()


def test_it_is_refused_while_a_write_is_not_resolved(graph: Graph) -> None:
    raw(graph, "Person").optimize.compact_files()
    sidecar = Path(graph.location) / FOLDER / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    sidecar.parent.mkdir(exist_ok=True)
    sidecar.write_text("{}")
    head = graph.snapshot().commit
    with pytest.raises(RecoveryRequired, match="next write"):
        graph.repair(confirm=True)
    assert graph.snapshot().commit == head
    sidecar.unlink()
    assert needs(graph) == {"node:Person": "confirm"}


def test_what_an_interrupted_write_has_left_is_not_published(graph: Graph) -> None:
    with failpoints.active("write.confirmed", die), pytest.raises(Death):
        add(graph, "eve", 5)
    with open(graph.location, mode="r") as reader:
        assert needs(reader, force=True) == {"node:Person": "write"}
        append(graph, "Person", id="bob", name="bob")
        (mixed,) = reader.repair(force=True).tables
        assert mixed.needs == "drop" and "interrupted write" in mixed.reason
    with pytest.raises(RecoveryRequired):
        graph.repair(confirm=True, force=True)
    assert len(rows(graph)["Person"]) == 11


@pytest.mark.parametrize("point", ["write.armed", "write.table_committing"])
def test_what_came_below_an_interrupted_write_does_not_stop_others(
    graph: Graph, point: str
) -> None:
    def interfere() -> None:
        append(graph, "Person", id="bob", name="bob")
        raise Death

    with failpoints.active(point, interfere), pytest.raises(Death):
        add(graph, "eve", 5)
    with open(graph.location) as other:
        other.mutate('query q() { insert City { name: "Oslo" } }')
        assert needs(other) == {"node:Person": "force"} and heads(other) == {"node:Person"}
        with pytest.raises(RecoveryRequired, match="omnigraph repair"):
            add(other, "joe", 6)
        assert len(rows(other)["Person"]) == 11
        other.repair(confirm=True, force=True)
        assert {json.loads(row)["name"] for row in rows(other)["Person"]} >= {"bob", "p11"}
        add(other, "joe", 6)
        assert len(rows(other)["Person"]) == 13 and other.check().problems == ()


def test_blobs_are_compared_by_their_content(tmp_path: Path) -> None:
    with init(tmp_path / "graph", "node Doc { name: String @key  file: Blob? }") as graph:
        for number in range(3):
            value = base64.b64encode(bytes([number]) * 5).decode()
            line = {"type": "Doc", "data": {"name": f"d{number}", "file": f"base64:{value}"}}
            (tmp_path / "docs.jsonl").write_text(json.dumps(line))
            graph.load(tmp_path / "docs.jsonl")
        raw(graph, "Doc").optimize.compact_files()
        (done,) = graph.repair(confirm=True).tables
        assert done.needs == "confirm" and done.commit is not None
        with graph.read_blob("node", "Doc", "d1", "file") as blob:
            assert blob.read() == b"\x01" * 5
        assert graph.check().problems == ()


def test_what_comes_while_rows_are_compared_is_looked_at_again(graph: Graph) -> None:
    raw(graph, "Person").optimize.compact_files()
    seen: list[int] = []

    def meanwhile() -> None:
        seen.append(1)
        if len(seen) == 1:
            append(graph, "Person", id="eve", name="eve")

    with failpoints.active("repair.checked", meanwhile):
        (left,) = graph.repair(confirm=True).tables
    assert (left.needs, left.commit) == ("force", None)
    assert [version.kind for version in left.versions][-1] == "append"
    assert len(rows(graph)["Person"]) == 11


def test_a_write_meanwhile_is_checked_with_it(graph: Graph) -> None:
    append(graph, "Knows", id="01ARZ3NDEKTSV4RRFFQ69G5FAV", src="p4", dst="p6")
    once: list[int] = []

    def meanwhile() -> None:
        if not once:
            once.append(1)
            add(graph, "zoe", 3)

    with failpoints.active("repair.checked", meanwhile):
        (done,) = graph.repair(confirm=True, force=True).tables
    assert done.commit == graph.snapshot().commit and once
    assert graph.check().problems == ()


@pytest.mark.parametrize("point", ["repair.checked", "repair.publishing", "repair.published"])
def test_killed_anywhere_it_is_done_or_not(graph: Graph, point: str) -> None:
    append(graph, "Person", id="eve", name="eve")
    assert run_child(repair_with, str(graph.location), point) == KILLED
    is_done = point == "repair.published"
    assert len(rows(graph)["Person"]) == 11 + is_done
    assert needs(graph, confirm=True, force=True) == ({} if is_done else {"node:Person": "force"})
    add(graph, "bob", 6)
    assert len(rows(graph)["Person"]) == 13 and graph.check().problems == ()
