"""The Python API by hand: graphs, snapshots, branches, tags and writes as a user meets them."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import (
    AlreadyExists,
    ConflictError,
    Graph,
    KeyConflict,
    NotFound,
    PreconditionFailed,
    ReadSetConflict,
    SchemaError,
    StorageError,
    UsageError,
    ValidationError,
    WriteResult,
    failpoints,
)
from omnigraph.writes.batches import Batches
from omnigraph.writes.rules import Violations

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.omni", schema=SCHEMA, actor="ada")


def people(**ages: int | None) -> pa.Table:
    return pa.table(
        {"id": list(ages), "name": list(ages), "age": pa.array(list(ages.values()), pa.int32())}
    )


def write(graph: Graph, *, branch: str = "main", **ages: int | None) -> str:
    """Merge people into a branch; gives the commit's id."""
    result = graph.write_batches({"Person": ("merge", people(**ages))}, branch=branch)
    assert result.commit is not None
    return result.commit.id


def ages(graph: Graph, branch: str = "main", commit: str | None = None) -> dict[str, int | None]:
    rows = graph.snapshot(branch, commit=commit).read("Person").to_pylist()
    return {row["id"]: row["age"] for row in rows}


# --- creating and opening ---


def test_init_takes_the_schemas_text_or_a_path(tmp_path: Path):
    (tmp_path / "schema.pg").write_text(SCHEMA)
    for schema in (SCHEMA, tmp_path / "schema.pg", str(tmp_path / "schema.pg")):
        place = tmp_path / f"g{len(list(tmp_path.iterdir()))}.omni"
        with omnigraph.init(place, schema=schema) as graph:
            assert list(graph.catalog.nodes) == ["Person", "City"]


def test_init_begins_with_one_commit_and_empty_tables(graph: Graph):
    (commit,) = graph.commits()
    assert (commit.actor, commit.message, commit.branch, commit.parents) == (
        "ada",
        "init",
        "main",
        (),
    )
    assert [(t.name, t.rows) for t in graph.snapshot().tables] == [
        ("City", 0),
        ("Person", 0),
        ("LivesIn", 0),
    ]


def test_init_refuses_an_existing_graph_and_leaves_it_alone(graph: Graph):
    write(graph, ann=1)
    with pytest.raises(AlreadyExists):
        omnigraph.init(graph.location, schema=SCHEMA)
    assert ages(graph) == {"ann": 1}


def test_init_with_a_wrong_schema_creates_nothing(tmp_path: Path):
    with pytest.raises(SchemaError, match="unknown type"):
        omnigraph.init(tmp_path / "g.omni", schema="node Person { name: Strin @key }")
    assert not (tmp_path / "g.omni").exists()


def test_init_says_when_the_schema_is_no_file(tmp_path: Path):
    with pytest.raises(NotFound, match=r"missing\.pg: no such file"):
        omnigraph.init(tmp_path / "g.omni", schema="missing.pg")


def test_an_interrupted_init_is_finished_by_the_next(tmp_path: Path):
    place = tmp_path / "g.omni"
    with failpoints.active("init.table_created", "raise"), pytest.raises(RuntimeError):
        omnigraph.init(place, schema=SCHEMA)
    with pytest.raises(NotFound, match="run `omnigraph init` again"):
        omnigraph.open(place)
    assert omnigraph.init(place, schema=SCHEMA).check().problems == ()


def test_open_says_when_there_is_no_graph_and_creates_nothing(tmp_path: Path):
    for mode in ("r", "rw"):
        with pytest.raises(NotFound, match="omnigraph init"):
            omnigraph.open(tmp_path / "nowhere", mode=mode)
    assert list(tmp_path.iterdir()) == []


def test_open_refuses_an_unknown_mode(graph: Graph):
    with pytest.raises(UsageError, match="`rw` or `r`, not `w`"):
        omnigraph.open(graph.location, mode="w")  # type: ignore[arg-type]


def test_a_graph_is_a_context_manager(graph: Graph):
    with omnigraph.open(graph.location) as again:
        assert again.location == graph.location
        write(again, ann=1)
    assert ages(graph) == {"ann": 1}


def test_a_graph_and_a_snapshot_have_a_short_repr(graph: Graph):
    reader = omnigraph.open(graph.location, mode="r")
    assert repr(graph) == f"<Graph {graph.location}>"
    assert repr(reader) == f"<Graph {graph.location} (read-only)>"
    assert len(repr(graph.snapshot())) < 200


@pytest.mark.parametrize(
    "change",
    [
        lambda g: write(g, ann=1),
        lambda g: g.branches.create("draft"),
        lambda g: g.branches.delete("draft"),
        lambda g: g.tags.create("start", "x"),
        lambda g: g.tags.delete("start"),
    ],
    ids=["write", "branch create", "branch delete", "tag create", "tag delete"],
)
def test_a_read_only_graph_refuses_to_change(graph: Graph, change):
    reader = omnigraph.open(graph.location, mode="r")
    assert reader.read_only
    with pytest.raises(UsageError, match="for reading only"):
        change(reader)


def test_a_damaged_file_is_named(graph: Graph):
    (file,) = Path(graph.location, "__schemas").glob("*.json")
    written = file.read_text()
    for text, problem in (("nonsense", "is damaged"), (written.replace("Person", "Human"), "name")):
        file.write_text(text)
        with pytest.raises(StorageError, match=rf"__schemas/{file.name} .*{problem}"):
            omnigraph.open(graph.location)
    file.unlink()
    with pytest.raises(StorageError, match=rf"__schemas/{file.name} is missing"):
        omnigraph.open(graph.location)


def test_files_that_show_the_schema_are_written_again_by_the_next_open(graph: Graph):
    names = ("_schema.pg", "_schema.ir.json", "__schema_state.json")
    files = [Path(graph.location, name) for name in names]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.write_text("nonsense")
    assert omnigraph.open(graph.location, mode="r").catalog == graph.catalog
    assert files[0].read_text() == "nonsense"
    assert omnigraph.open(graph.location).catalog == graph.catalog
    assert [file.read_bytes() for file in files] == before


# --- snapshots and time travel ---


def test_a_snapshot_stays_as_it_is_while_others_write(graph: Graph):
    write(graph, ann=1)
    held = graph.snapshot()
    other = omnigraph.open(graph.location)
    write(other, ann=2, bob=3)
    other.write_batches({"Person": ("delete", "id = 'ann'")})
    assert held.read("Person")["age"].to_pylist() == [1]
    assert held.count("Person") == 1
    assert ages(graph) == {"bob": 3}


def test_a_reader_sees_a_commit_of_another_handle_in_its_next_snapshot(graph: Graph):
    reader = omnigraph.open(graph.location, mode="r")
    write(graph, ann=1)
    assert ages(reader) == {"ann": 1}


def test_a_reader_does_not_see_an_interrupted_write(graph: Graph):
    write(graph, ann=1)

    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    with failpoints.active("write.confirmed", die), pytest.raises(Death):
        write(graph, bob=2)
    reader = omnigraph.open(graph.location, mode="r")
    assert ages(reader) == {"ann": 1}
    assert reader.recoveries() == []
    writer = omnigraph.open(graph.location)
    assert ages(reader) == ages(writer) == {"ann": 1, "bob": 2}
    assert [r.kind for r in reader.recoveries()] == ["RolledForward"]


def test_time_travel_by_commit_and_tag(graph: Graph):
    first = write(graph, ann=1)
    second = write(graph, ann=2, bob=2)
    write(graph, eve=3)
    graph.tags.create("both", second)
    assert ages(graph, commit=first) == {"ann": 1}
    assert ages(graph, commit="both") == {"ann": 2, "bob": 2}
    assert graph.snapshot(commit="both").commit == second
    assert graph.commit("both").id == second


def test_an_unknown_commit_is_not_found_with_a_hint(graph: Graph):
    graph.tags.create("launch", graph.commits()[0].id)
    for look in (graph.commit, lambda id: graph.snapshot(commit=id)):
        with pytest.raises(NotFound, match="no commit or tag `lunch`; did you mean `launch`"):
            look("lunch")


def test_reading_takes_columns_and_a_predicate(graph: Graph):
    write(graph, ann=1, bob=2, eve=None)
    rows = graph.snapshot().read("Person", columns=["name"], where="age >= 2")
    assert rows.to_pylist() == [{"name": "bob"}]


def test_an_unknown_type_or_column_is_not_found_with_a_hint(graph: Graph):
    snapshot = graph.snapshot()
    for look in (snapshot.read, snapshot.count):
        with pytest.raises(NotFound, match="no type `Persn`; did you mean `Person`"):
            look("Persn")
    with pytest.raises(NotFound, match="Person has no column `nmae`; did you mean `name`"):
        snapshot.read("Person", columns=["nmae"])


def test_a_copy_of_the_folder_is_the_same_graph(graph: Graph, tmp_path: Path):
    import shutil

    write(graph, ann=1)
    graph.branches.create("draft")
    write(graph, branch="draft", bob=2)
    copy = omnigraph.open(shutil.copytree(graph.location, tmp_path / "copy.omni"))
    assert ages(copy) == {"ann": 1}
    assert ages(copy, "draft") == {"ann": 1, "bob": 2}
    write(copy, branch="draft", eve=3)
    assert ages(graph, "draft") == {"ann": 1, "bob": 2}
    assert copy.check().problems == ()


# --- branches and tags ---


def test_a_branch_and_its_parent_do_not_see_each_other(graph: Graph):
    write(graph, ann=1)
    made = graph.branches.create("draft")
    assert (made.parent, made.head) == ("main", graph.commits()[0].id)
    write(graph, branch="draft", ann=10, bob=2)
    write(graph, eve=3)
    assert ages(graph) == {"ann": 1, "eve": 3}
    assert ages(graph, "draft") == {"ann": 10, "bob": 2}


def test_a_branch_of_a_branch_starts_with_its_content(graph: Graph):
    graph.branches.create("draft")
    write(graph, branch="draft", ann=1)
    graph.branches.create("deeper", source="draft")
    write(graph, branch="deeper", bob=2)
    assert ages(graph, "deeper") == {"ann": 1, "bob": 2}
    assert ages(graph, "draft") == {"ann": 1}
    with pytest.raises(ConflictError, match="`deeper` was created from it"):
        graph.branches.delete("draft")


def test_a_branch_made_again_starts_anew(graph: Graph):
    graph.branches.create("draft")
    write(graph, branch="draft", ann=1)
    graph.branches.delete("draft")
    with pytest.raises(NotFound):
        graph.snapshot("draft")
    graph.branches.create("draft")
    assert ages(graph, "draft") == {}
    write(graph, branch="draft", bob=2)
    assert ages(graph, "draft") == {"bob": 2}


def test_branches_list_main_first(graph: Graph):
    for name in ("b", "a/x"):
        graph.branches.create(name)
    assert [b.name for b in graph.branches] == ["main", "a/x", "b"]
    assert graph.branches.list()[1].to_dict()["parent"] == "main"


def test_the_commits_of_a_branch_go_on_with_those_of_its_parent(graph: Graph):
    first = write(graph, ann=1)
    graph.branches.create("draft")
    own = write(graph, branch="draft", bob=2)
    write(graph, eve=3)
    assert [c.id for c in graph.commits("draft")][:2] == [own, first]
    assert [c.branch for c in graph.commits("draft")] == ["draft", "main", "main"]
    assert graph.commit(own).parents == (first,)


def test_commits_can_be_chosen_by_actor_and_number(graph: Graph):
    for actor in ("bob", "eve", "bob"):
        graph.write_batches({"Person": ("merge", people(**{f"p{actor}": 1}))}, actor=actor)
    assert [c.actor for c in graph.commits()] == ["bob", "eve", "bob", "ada"]
    assert [c.actor for c in graph.commits(limit=2)] == ["bob", "eve"]
    assert len(graph.commits(actor="bob")) == 2
    assert len(graph.commits(actor="bob", limit=1)) == 1
    with pytest.raises(UsageError):
        graph.commits(limit=-1)


def test_tags_name_commits_until_they_are_deleted(graph: Graph):
    (commit,) = graph.commits()
    graph.tags.create("v1/start", commit.id)
    graph.tags.create("v1/start", commit.id)
    assert list(graph.tags) == [("v1/start", commit.id)]
    with pytest.raises(AlreadyExists, match="delete it first"):
        graph.tags.create("v1/start", write(graph, ann=1))
    graph.tags.delete("v1/start")
    assert graph.tags.list() == {}
    assert graph.commit(commit.id) == commit
    with pytest.raises(NotFound):
        graph.tags.delete("v1/start")


# --- writing ---


def test_a_write_says_what_it_did(graph: Graph):
    write(graph, ann=1)
    cities = pa.table({"id": ["x"], "name": ["x"]})
    result = graph.write_batches(
        {"Person": ("merge", people(ann=2, bob=3)), "City": ("append", cities)},
        actor="bob",
        message="More",
    )
    assert result.commit == graph.commits()[0]
    assert (result.commit.actor, result.commit.message) == ("bob", "More")
    assert result.to_dict() == {
        "commit": result.commit.id,
        "repeated": False,
        "tables": {
            "Person": {"inserted": 1, "replaced": 1, "deleted": 0},
            "City": {"inserted": 1, "replaced": 0, "deleted": 0},
        },
    }


def test_overwrite_replaces_all_rows_and_may_leave_none(graph: Graph):
    write(graph, ann=1, bob=2)
    graph.write_batches({"Person": ("overwrite", people(eve=3))})
    assert ages(graph) == {"eve": 3}
    graph.write_batches({"Person": ("overwrite", people())})
    assert ages(graph) == {}


def test_delete_takes_a_predicate(graph: Graph):
    write(graph, ann=1, bob=2, eve=3)
    result = graph.write_batches({"Person": ("delete", "age > 1")})
    assert result.tables["Person"].deleted == 2
    assert ages(graph) == {"ann": 1}


@pytest.mark.parametrize(
    "batches",
    [{}, {"Person": ("merge", people())}, {"Person": ("delete", "id = 'nobody'")}],
    ids=["nothing", "no rows", "no match"],
)
def test_a_write_that_changes_nothing_makes_no_commit(graph: Graph, batches: Batches):
    write(graph, ann=1)
    before = graph.commits()
    assert graph.write_batches(batches) == WriteResult(None, {})
    assert graph.commits() == before


def test_columns_that_may_be_null_may_be_left_out(graph: Graph):
    graph.write_batches({"Person": ("merge", pa.table({"id": ["ann"], "name": ["ann"]}))})
    assert ages(graph) == {"ann": None}


def test_validation_lists_every_violation_of_every_type_and_writes_nothing(graph: Graph):
    before = graph.commits()
    wrong = pa.table({"id": ["a", None], "age": ["old", "1"], "colour": ["red", "blue"]})
    edges = pa.table({"id": ["e"], "src": ["a"]})
    with pytest.raises(ValidationError) as caught:
        graph.write_batches({"Person": ("merge", wrong), "LivesIn": ("append", edges)})
    found = {(v.type, v.property, v.rule) for v in caught.value.violations}
    assert found == {
        ("Person", "colour", "column"),
        ("Person", "name", "column"),
        ("Person", "age", "type"),
        ("LivesIn", "to", "column"),
    }
    assert caught.value.total == 4
    assert all(v.message in str(caught.value) for v in caught.value.violations)
    assert graph.commits() == before


def test_an_id_given_twice_is_a_violation(graph: Graph):
    rows = pa.table({"id": ["ann", "ann"], "name": ["ann", "ann"]})
    with pytest.raises(ValidationError, match='duplicate key "ann"'):
        graph.write_batches({"Person": ("merge", rows)})


@pytest.mark.parametrize(
    "batches,error,message",
    [
        ({"Persn": ("merge", people(a=1))}, NotFound, "did you mean `Person`"),
        ({"Person": ("upsert", people(a=1))}, UsageError, "append, merge, overwrite or delete"),
        ({"Person": ("merge", [{"id": "a"}])}, UsageError, "pyarrow Table"),
        ({"Person": people(a=1)}, UsageError, "as a pair"),
        ({"Person": ("delete", "")}, UsageError, "needs a predicate"),
    ],
    ids=["type", "mode", "rows", "no pair", "predicate"],
)
def test_a_call_that_makes_no_sense_says_what_to_pass(graph: Graph, batches, error, message):
    with pytest.raises(error, match=message):
        graph.write_batches(batches)


def test_writing_to_an_unknown_branch_gives_a_hint(graph: Graph):
    graph.branches.create("draft")
    with pytest.raises(NotFound, match="no branch `drafd`; did you mean `draft`"):
        write(graph, branch="drafd", ann=1)


def test_a_conditional_write_happens_at_its_commit_only(graph: Graph):
    first = write(graph, ann=1)
    batches: Batches = {"Person": ("merge", people(ann=2))}
    done = graph.write_batches(batches, if_commit=first)
    assert done.commit is not None
    with pytest.raises(PreconditionFailed) as caught:
        graph.write_batches({"Person": ("merge", people(ann=3))}, if_commit=first)
    assert (caught.value.expected, caught.value.actual) == (first, done.commit.id)
    assert ages(graph) == {"ann": 2}


def test_a_known_idempotency_key_gives_the_first_commit_and_writes_nothing(graph: Graph):
    batches: Batches = {"Person": ("merge", people(ann=1))}
    first = graph.write_batches(batches, idempotency_key='it\'s "one"')
    again = graph.write_batches(batches, idempotency_key='it\'s "one"')
    assert (first.repeated, again.repeated) == (False, True)
    assert again.commit == first.commit
    assert graph.snapshot().count("Person") == 1
    assert not graph.write_batches(batches, idempotency_key="it").repeated


def test_an_idempotency_key_belongs_to_its_branch(graph: Graph):
    batches: Batches = {"Person": ("merge", people(ann=1))}
    graph.branches.create("draft")
    graph.write_batches(batches, idempotency_key="k")
    assert not graph.write_batches(batches, branch="draft", idempotency_key="k").repeated


def test_a_merge_that_was_overtaken_is_repeated(graph: Graph):
    other = omnigraph.open(graph.location)
    with failpoints.active("write.prepared", _once(lambda: write(other, bob=2))):
        write(graph, ann=1)
    assert ages(graph) == {"ann": 1, "bob": 2}


def test_a_delete_that_was_overtaken_is_a_conflict_that_names_what_changed(graph: Graph):
    write(graph, ann=1)
    other = omnigraph.open(graph.location)
    with (
        failpoints.active("write.prepared", _once(lambda: write(other, bob=2))),
        pytest.raises(ReadSetConflict) as caught,
    ):
        graph.write_batches({"Person": ("delete", "id = 'ann'")})
    assert caught.value.changed == ("node:Person",)
    assert ages(graph) == {"ann": 1, "bob": 2}


def _once(action):
    """An action for a failpoint that would otherwise meet itself."""
    done: list[bool] = []

    def act() -> None:
        if not done:
            done.append(True)
            action()

    return act


def test_threads_may_share_a_graph(graph: Graph):
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(3):
                write(graph, branch="main", **{f"p{number}_{step}": step})
                graph.snapshot().read("Person")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(ages(graph)) == 12
    assert len(graph.commits()) == 13
    assert graph.check().problems == ()


def test_check_finds_edges_without_ends(graph: Graph, monkeypatch: pytest.MonkeyPatch):
    write(graph, ann=1)
    monkeypatch.setattr(Violations, "refuse", lambda _: None)
    edges = pa.table({"id": ["e"], "src": ["ann"], "dst": ["nowhere"]})
    graph.write_batches({"LivesIn": ("append", edges)})
    (problem,) = graph.check().problems
    assert (problem.branch, problem.table, problem.rule) == ("main", "edge:LivesIn", "end")
    assert graph.check().to_dict()["problems"] == [problem.to_dict()]


def test_an_append_is_strict_and_changes_nothing_when_an_id_is_there(graph: Graph):
    graph.write_batches({"Person": ("append", people(ann=1))})
    head = graph.commits()[0].id
    with pytest.raises(KeyConflict, match='the key "ann" already exists; use merge'):
        graph.write_batches({"Person": ("append", people(ann=2, bob=3))})
    many = people(**{f"p{n}": n for n in range(2000)}, ann=9)
    with pytest.raises(KeyConflict) as caught:
        graph.write_batches({"Person": ("append", many)})
    assert caught.value.ids == ("ann",)
    assert graph.commits()[0].id == head
    assert graph.snapshot().read("Person")["age"].to_pylist() == [1]
