"""Whatever another program does to a table: nobody sees it, no write loses or publishes it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import RecoveryRequired
from omnigraph.graph import Graph, open
from tests.maintenance.graphs import add, one_by_one, rows, table_of

EVE = {"id": "eve", "name": "eve", "age": 5, "bio": "new"}
QUERY = (
    "query q() { match { $p: Person } return { $p.name as name, $p.age as age } order { $p.name } }"
)
AGES = "query q() { match { $p: Person $p.age >= 0 } return { $p.name as name } order { $p.name } }"


def like_them(table: lance.LanceDataset, values: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(values, table.schema)


def compact(table: lance.LanceDataset) -> None:
    table.optimize.compact_files()


def append(table: lance.LanceDataset) -> None:
    table.insert(like_them(table, [EVE]))


def delete(table: lance.LanceDataset) -> None:
    table.delete("name = 'solo'")


def update(table: lance.LanceDataset) -> None:
    table.update({"age": "77"}, where="name = 'p10'")


def merge(table: lance.LanceDataset) -> None:
    changed = {"id": "p10", "name": "p10", "age": 50, "bio": None}
    merging = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merging.execute(like_them(table, [changed, EVE]))


def replace(table: lance.LanceDataset) -> None:
    rows = [row for row in table.to_table().to_pylist() if row["name"] != "solo"]
    lance.write_dataset(like_them(table, [*rows, EVE]), table, mode="overwrite")


def go_back(table: lance.LanceDataset) -> None:
    table.checkout_version(table.version - 1).restore()


def index(table: lance.LanceDataset) -> None:
    table.create_scalar_index("name", "BITMAP", name="theirs")


def extend_indexes(table: lance.LanceDataset) -> None:
    table.create_scalar_index("age", "BTREE", name="age_btree", replace=True)


def index_zones(table: lance.LanceDataset) -> None:
    table.create_scalar_index("age", "ZONEMAP", name="zones")


def settings(table: lance.LanceDataset) -> None:
    table.update_config({"theirs": "yes"})


def new_column(table: lance.LanceDataset) -> None:
    table.add_columns({"more": "age + 1"})


def lost_column(table: lance.LanceDataset) -> None:
    table.drop_columns(["bio"])


def other_name(table: lance.LanceDataset) -> None:
    table.alter_columns({"path": "bio", "name": "story"})  # type: ignore[dict-item]


def other_type(table: lance.LanceDataset) -> None:
    table.drop_index("age_btree")
    table.alter_columns({"path": "age", "data_type": pa.int64()})  # type: ignore[dict-item]


def notes(table: lance.LanceDataset) -> None:
    table.update_schema_metadata({"theirs": "yes"})


Act = Callable[[lance.LanceDataset], None]
#: What another program does, and what it takes to publish it.
ACTS: list[tuple[Act, str]] = [
    (compact, "confirm"),
    (append, "force"),
    (delete, "force"),
    (update, "force"),
    (merge, "force"),
    (replace, "force"),
    (go_back, "force"),
    (index, "force"),
    (extend_indexes, "force"),
    (index_zones, "force"),
    (settings, "force"),
    (notes, "force"),
    (new_column, "drop"),
    (lost_column, "drop"),
    (other_name, "drop"),
    (other_type, "drop"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    with one_by_one(place) as graph:
        add(graph, "solo", 1)
        graph.ensure_indices()
        add(graph, "last", 2)
        graph.branches.create("draft")
        add(graph, "zed", 26, "draft")
        add(graph, "zoe", 27, "draft")
        graph.mutate('query q() { delete Person where name = "p4" }', branch="draft")
    return place


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Any:
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        yield graph


def raw(graph: Graph, branch: str) -> lance.LanceDataset:
    ref = table_of(graph, "Person", branch).ref
    table = lance.dataset(str(Path(graph.location) / ref.path))
    return table if ref.branch is None else table.checkout_version((ref.branch, None))


def content(table: lance.LanceDataset) -> list[str]:
    return sorted(json.dumps(row) for row in table.to_table().to_pylist())


def answers(graph: Graph, branch: str) -> list[Any]:
    return [graph.query(text, branch=branch).to_arrow().to_pylist() for text in (QUERY, AGES)]


#: Lance writes the indexes that a fork has from main to where it does not look for them.
LOST_INDEXES = (compact, "draft")
SAMPLE = [(append, "draft"), (go_back, "main"), (replace, "draft"), (index_zones, "main")]
CASES = [
    pytest.param(
        act,
        "drop" if (act, branch) == LOST_INDEXES else needs,
        branch,
        id=f"{act.__name__}-{branch}",
        marks=() if (act, branch) in SAMPLE else pytest.mark.soak,
    )
    for act, needs in ACTS
    for branch in ("main", "draft")
]


@pytest.mark.parametrize(("act", "needs", "branch"), CASES)
def test_foreign_work_is_reported_and_published_only_when_asked(
    graph: Graph, act: Act, needs: str, branch: str
) -> None:
    before, asked = rows(graph, branch), answers(graph, branch)
    head = graph.snapshot(branch).commit
    act(raw(graph, branch))

    # Nobody sees it, and everybody who looks after the graph says so.
    assert (rows(graph, branch), answers(graph, branch)) == (before, asked)
    (problem,) = graph.check().problems
    assert (problem.branch, problem.table, problem.rule) == (branch, "node:Person", "head")
    (optimized,) = [t for t in graph.optimize(branch).tables if t.table == "node:Person"]
    assert "omnigraph repair" in (optimized.skipped or "")

    # No write loses it, or publishes it.
    (tmp := Path(graph.location).parent / "new.jsonl").write_text(
        '{"type": "Person", "data": {"name": "joe", "age": 1}}\n'
    )
    graph.branches.create("side", source=branch)
    add(graph, "sid", 6, "side")
    for write in (
        lambda: add(graph, "bob", 6, branch),
        lambda: graph.load(tmp, branch=branch, engine="local"),
        lambda: graph.merge("side", into=branch),
    ):
        with pytest.raises(RecoveryRequired, match="omnigraph repair"):
            write()
    graph.mutate('query q() { insert City { name: "Oslo" } }', branch=branch)
    assert rows(graph, branch)["Person"] == before["Person"]
    assert "eve" not in {row["name"] for row in answers(graph, "side")[0]}
    assert len(rows(graph, "side")["Person"]) == len(before["Person"]) + 1
    head = graph.snapshot(branch).commit

    # It is published only when somebody says so.
    found = content(raw(graph, branch))
    for confirm, force in ((False, False), (False, True), (True, False)):
        (shown,) = graph.repair(confirm=confirm, force=force).tables
        assert (shown.branch, shown.table, shown.needs) == (branch, "node:Person", needs), shown
        assert (shown.commit is None) == (needs != "confirm" or not confirm)
    repaired = graph.repair(confirm=True, force=True).tables
    if needs == "drop":
        (left,) = repaired
        assert left.commit is None and "delete the files that sort" in left.reason
        assert rows(graph, branch)["Person"] == before["Person"]
        return
    assert content(raw(graph, branch)) == found
    for each in (graph, open(graph.location, mode="r")):
        assert rows(each, branch)["Person"] == found
        assert [row["name"] for row in answers(each, branch)[0]] == sorted(
            json.loads(row)["name"] for row in found
        )
        assert rows(each, commit=head)["Person"] == before["Person"]
    changes = {change.id: change.operation for change in graph.diff(head, branch)}
    was = {json.loads(row)["id"]: row for row in before["Person"]}
    now = {json.loads(row)["id"]: row for row in found}
    assert changes == {
        **dict.fromkeys(now.keys() - was.keys(), "insert"),
        **dict.fromkeys(was.keys() - now.keys(), "delete"),
        **{id: "update" for id in now.keys() & was.keys() if now[id] != was[id]},
    }
    graph.repair(confirm=True)
    assert graph.check().problems == ()
    add(graph, "bob", 6, branch)
    graph.merge("side", into=branch, prefer="ours")
    graph.optimize(branch)
    assert graph.check().problems == () and graph.repair().tables == ()
    assert {"bob", "sid"} <= {row["name"] for row in answers(graph, branch)[0]}
