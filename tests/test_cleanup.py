"""Cleaning up: leftovers go, and nothing that anybody can read does."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import RecoveryRequired, StorageError, UsageError
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, init, open
from omnigraph.history.archive import drop_deleted
from omnigraph.query.tables import policy
from omnigraph.query.tables.files import map_arrays
from omnigraph.storage.references import References
from omnigraph.writes import heartbeat
from tests.leftover_files import age, all_files, everything, listing, unreferenced
from tests.patience import PATIENCE, wait_until

NOW = timedelta(0)
DAY = 86_400.0
SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? @index }
node Note { text: String  file: Blob? }
edge Knows: Person -> Person
"""
#: A blob of this size lies in a file of its own.
LARGE = b"ABC" * 60_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    with init(place, SCHEMA) as graph:
        load(graph, 0, 5)
        graph.ensure_indices()
        graph.branches.create("draft")
        load(graph, 3, 6, branch="draft")
        graph.tags.create("start", graph.snapshot().commit)
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> str:
    shutil.copytree(template, tmp_path / "graph")
    with open(tmp_path / "graph"):
        return str(tmp_path / "graph")


def load(graph: Graph, first: int, last: int, **options: Any) -> None:
    people = [{"name": f"p{n}", "age": n, "bio": f"word{n} all"} for n in range(first, last)]
    notes = [{"id": f"n{first}", "text": "large", "file": LARGE}]
    knows = [{"id": f"k{n}", "from": f"p{n}", "to": f"p{first}"} for n in range(first, last)]
    rows = {"Person": people, "Note": notes, "Knows": knows}
    graph.load(rows, engine="local", **options)


def fail(graph: Graph, point: str, branch: str = "main") -> None:
    """Leave what a load leaves that fails at a point."""
    with failpoints.active(point, "raise"), pytest.raises(FailpointError):
        load(graph, 2, 8, branch=branch)


def test_what_failed_writes_have_left_goes_and_all_else_stays(place: str) -> None:
    with open(place) as graph:
        sound = unreferenced(place)
        fail(graph, "write.prepared")
        fail(graph, "write.prepared", "draft")
        with failpoints.active("write.prepared", "raise"), pytest.raises(FailpointError):
            graph.mutate('query q() { delete Person where name = "p1" }')
        left, before = unreferenced(place) - sound, everything(graph)
        assert sum("data/" in path for path in left) >= 6
        assert any(path.endswith(".blob") for path in left)
        assert any("_deletions/" in path for path in left)
        shown = graph.cleanup(leftovers_older_than=NOW)
        sizes = sum(os.path.getsize(f"{place}/{path}") for path in left | sound)
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert (done.files, done.bytes) == (len(left | sound), sizes)
        assert (shown.places, shown.confirmed, done.confirmed) == (done.places, False, True)
        assert {p.place for p in done.places} == {"node:Person", "node:Note", "edge:Knows"}
        assert done.errors == {} and done.younger == 0
        assert unreferenced(place) == set()
        assert everything(graph) == before
        assert graph.check().problems == ()
        assert graph.cleanup(leftovers_older_than=NOW).places == ()


def test_a_preview_changes_nothing_and_needs_no_right_to_write(place: str) -> None:
    with open(place) as graph:
        fail(graph, "write.prepared")
    before = listing(place)
    with open(place, mode="r") as reader:
        assert reader.cleanup(leftovers_older_than=NOW).files > 0
        with pytest.raises(UsageError, match="open for reading only"):
            reader.cleanup(confirm=True, leftovers_older_than=NOW)
    assert listing(place) == before


def test_only_what_is_old_goes(place: str) -> None:
    with open(place) as graph:
        fail(graph, "write.prepared")
        old = unreferenced(place)
        age(place, DAY - 60)
        assert graph.cleanup(confirm=True).files == 0
        assert graph.cleanup().younger == len(old)
        age(place, 120)
        fail(graph, "write.prepared")
        young = unreferenced(place) - old
        done = graph.cleanup(confirm=True)
        assert (done.files, done.younger) == (len(old), len(young))
        assert unreferenced(place) == young
        with pytest.raises(UsageError, match="0 or more"):
            graph.cleanup(leftovers_older_than=timedelta(seconds=-1))


def fork(graph: Graph, branch: str) -> str:
    """What a branch calls its forks of tables."""
    return str(graph._repository.history.read(branch).fork)


def test_forks_that_no_branch_has_go(place: str) -> None:
    names: dict[str, str] = {}
    with open(place) as graph:
        for name, source in (("x", "main"), ("x/y", "main"), ("z", "draft")):
            if name == "x/y":
                with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
                    graph.branches.delete("x")
            graph.branches.create(name, source=source)
            load(graph, 1, 3, branch=name)
            names[name] = fork(graph, name)
        with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
            graph.branches.delete("z")
        # One whose maker was killed before Lance listed it, and one that lost its entry.
        table = next(t for t in graph.snapshot().tables if t.name == "Person")
        graph._repository.tables.create_branch(table.ref, table.version, "half")
        os.remove(f"{place}/{table.path}/_refs/branches/half.json")
        os.remove(f"{place}/{table.path}/_refs/branches/{names['x']}.json")
        before = everything(graph)
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        forks = {p.place: set(p.forks) for p in done.places}
        assert done.branches == ("x", "z")
        assert forks["node:Person"] == {names["x"], names["z"], "half"}
        assert forks["edge:Knows"] == {names["x"], names["z"]}
        assert unreferenced(place) == set()
        assert set(lance.dataset(f"{place}/{table.path}").branches.list()) == {
            fork(graph, "draft"),
            names["x/y"],
        }
        assert everything(graph) == before
        graph.branches.create("z")
        load(graph, 1, 3, branch="z")
        assert graph.check().problems == ()


def test_a_young_fork_keeps_the_one_that_it_was_made_from(place: str) -> None:
    names: dict[str, str] = {}
    with open(place) as graph:
        for name, source in (("x", "main"), ("y", "x")):
            graph.branches.create(name, source=source)
            load(graph, 1, 3, branch=name)
            names[name] = fork(graph, name)
        for name in ("y", "x"):
            with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
                graph.branches.delete(name)
        age(place, 2 * DAY)
        # The branches were deleted just now: their commits stay for a day.
        assert graph.cleanup(confirm=True).files == 0
        drop_deleted(graph._repository.history, names.values())
        for path in Path(place).rglob(f"tree/{names['y']}/**/*.manifest"):
            os.utime(path)
        assert graph.cleanup(confirm=True).files == 0
        age(place, 2 * DAY)
        assert set(graph.cleanup(confirm=True).places[0].forks) == set(names.values())
        assert unreferenced(place) == set()


def test_indexes_that_only_a_branch_still_has_stay(place: str) -> None:
    """A fork reads the indexes of what it was made from; Lance does not list them with the fork."""
    search = 'query q() { match { $p: Person search($p.bio, "word4") } return { $p.name as n } }'
    with open(place) as graph:
        graph.branches.create("old")
        load(graph, 10, 12, branch="old", mode="append")
        with failpoints.active("write.prepared", "raise"), pytest.raises(FailpointError):
            load(graph, 20, 30)
            graph.ensure_indices()
        for first in (20, 30):
            load(graph, first, first + 3, mode="append")
            graph.ensure_indices()
        before = everything(graph)
        graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert unreferenced(place) == set()
        assert everything(graph) == before
        for branch in ("main", "old", "draft"):
            assert graph.query(search, branch=branch).to_rows() == [{"n": "p4"}]
    again = open(place, mode="r")
    assert again.query(search, branch="old").to_rows() == [{"n": "p4"}]


def test_files_that_were_not_finished_go(place: str) -> None:
    with open(place) as graph:
        table = graph.snapshot().tables[1].path
    made = [
        f"{table}/data/.tmpAb12Cd",
        f"{table}/tree/draft/data/.tmpAb12Cd",
        f"{table}/_indices/0b51cb14-a0f1-4dcd-a04f-bd2a4a6b0c11/staging/.tmpAb12Cd",
        f"{table}/_indices/0b51cb14-a0f1-4dcd-a04f-bd2a4a6b0c11/part_0_docs.lance",
        f"{table}/_versions/18446744073709551600.manifest#1",
        f"{table}/_versions/d10820806778322309301.manifest",
        f"{table}/_versions/.tmpAb12Cd",
        f"{table}/_refs/branches/w.json.tmp.fc9f8fc7a97d42f8b1b864f6051bb7d4",
        "__manifest/_refs/branches/w.json.tmp.fc9f8fc7a97d42f8b1b864f6051bb7d4#1",
        "__manifest/tree/gone/_versions/18446744073709551610.manifest",
        "__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json#1",
        "__schema_state.json#2",
        "__scratch/01ARZ3NDEKTSV4RRFFQ69G5FAV/keys-0-abc",
        "__cache/.tmpx",
        "__cache/topology/.tmpx",
        "__cache/columns/nodes-1-2@3/.tmpx",
        "__cache/columns/nodes-1-2@3/half",
    ]
    for path in made:
        Path(place, path).parent.mkdir(parents=True, exist_ok=True)
        Path(place, path).write_bytes(b"half")
    with open(place) as graph:
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert done.errors == {} and done.files == len(made)
        assert graph.check().problems == ()
    assert unreferenced(place) == set()
    assert not Path(place, "__scratch/01ARZ3NDEKTSV4RRFFQ69G5FAV").exists()
    assert not list(Path(place, table, "_indices").glob("0b51*"))


def test_what_is_no_leftover_for_sure_stays(place: str) -> None:
    kept = ["notes.txt", "nodes/README.md", "__cache/embeddings/vectors-2.sqlite"]
    kept += ["__cache/embeddings/vectors-2.sqlite-journal"]
    for path in kept:
        Path(place, path).parent.mkdir(parents=True, exist_ok=True)
        Path(place, path).write_bytes(b"mine")
    with open(place) as graph:
        graph.cleanup(confirm=True, leftovers_older_than=NOW)
    assert set(kept) <= all_files(place)


def test_topologies_of_branches_that_are_gone_go(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LARGE_TOPOLOGY_EDGES", 0)
    query = "query q() { match { $p: Person  $p knows $f } return { count($f) as n } }"
    folder = Path(place, "__cache/topology")
    with open(place) as graph:
        graph.query(query)
        graph.query(query, branch="draft")
        graph._caches.writer.finish()
        assert len(list(folder.iterdir())) == 2
        assert graph.cleanup(leftovers_older_than=NOW).files == 0
        graph.branches.delete("draft")
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert "cache" in [p.place for p in done.places]
        assert len(list(folder.iterdir())) == 1
        (kept,) = folder.iterdir()
        found = map_arrays(str(kept))
        assert found is not None and [key[1] for key in found[1]["keys"]] == [None] * 3


def test_a_table_that_cannot_be_read_does_not_stop_the_others(place: str) -> None:
    with open(place) as graph:
        fail(graph, "write.prepared")
        note = next(t for t in graph.snapshot().tables if t.name == "Note")
        newest = min(Path(place, note.path, "_versions").glob("1844*.manifest"))
        newest.write_bytes(b"damaged")
        before = {path for path in all_files(place) if path.startswith(note.path)}
    with open(place) as graph:
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert list(done.errors) == ["node:Note"]
        assert note.path in done.errors["node:Note"]
        assert {p.place for p in done.places} == {"node:Person", "edge:Knows"}
    assert before == {path for path in all_files(place) if path.startswith(note.path)}


def test_a_list_of_lance_that_lacks_something_is_not_believed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(place) as graph:
        fail(graph, "write.prepared")
        before = all_files(place)
        monkeypatch.setattr(References, "_referenced", lambda *_: {"data/in-use"})
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert "Lance does not list data/in-use" in done.errors["node:Person"]
    assert all_files(place) == before


def test_a_fork_that_a_branch_reads_but_lance_does_not_list_stops_it(place: str) -> None:
    with open(place) as graph:
        path, name = graph.snapshot().tables[1].path, fork(graph, "draft")
    os.remove(f"{place}/{path}/_refs/branches/{name}.json")
    before = all_files(place)
    with open(place) as graph:
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
    assert f"has no fork {name}, which a branch reads" in done.errors["node:Person"]
    assert all_files(place) == before


def test_a_pending_recovery_stops_it(place: str) -> None:
    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    with open(place) as graph, open(place) as other:
        with failpoints.active("write.confirmed", die), pytest.raises(Death):
            load(graph, 2, 4)
        Path(place, "__schema_state.json#1").touch()
        with pytest.raises(RecoveryRequired, match="Open the graph for writing"):
            other.cleanup(confirm=True, leftovers_older_than=NOW)
    with open(place) as graph:
        graph.cleanup(confirm=True, leftovers_older_than=NOW)
        assert graph.check().problems == ()
    assert unreferenced(place) == set()


# --- while others write ---


def test_a_write_that_loses_its_files_starts_over(place: str) -> None:
    with open(place) as graph, open(place) as other:
        times: list[int] = []

        def clean() -> None:
            if not times:
                times.append(other.cleanup(confirm=True, leftovers_older_than=NOW).files)

        for point in ("load.merged", "write.prepared"):
            times.clear()
            with failpoints.active(point, clean):
                load(graph, 2, 9, mode="merge")
            assert times[0] > 0
        times.clear()
        with failpoints.active("write.prepared", clean):
            assert graph.ensure_indices().commit is not None
        assert times[0] > 0
        assert graph.snapshot().count("Person") == 9
        assert graph.check().problems == ()
        assert unreferenced(place) == set()
        times.clear()
        # Nothing was published meanwhile, so that this means the same, too.
        with failpoints.active("write.prepared", clean):
            load(graph, 2, 9, mode="overwrite")
        assert times[0] > 0
        assert graph.snapshot().count("Person") == 7
        assert graph.check().problems == ()


def test_a_load_that_loses_its_files_before_it_forks_a_table_fails_without_effect(
    place: str,
) -> None:
    with open(place) as graph, open(place) as other:
        graph.branches.create("fresh")

        def clean() -> None:
            other.cleanup(confirm=True, leftovers_older_than=NOW)

        with failpoints.active("write.prepared", clean), pytest.raises(StorageError):
            load(graph, 2, 9, branch="fresh")
        assert graph.snapshot("fresh").count("Person") == 5
        assert graph.check().problems == ()
        load(graph, 2, 9, branch="fresh")
        clean()
        assert graph.check().problems == ()
    assert unreferenced(place) == set()


def test_a_commit_between_looking_and_removing_keeps_its_files(place: str) -> None:
    staged, go = threading.Event(), threading.Event()

    def wait() -> None:
        staged.set()
        assert go.wait(PATIENCE)

    with open(place) as graph, open(place) as other:
        fail(graph, "write.prepared")
        left = unreferenced(place)
        writer = threading.Thread(target=load, args=(graph, 30, 33), kwargs={"mode": "append"})

        def commit() -> None:
            go.set()
            writer.join(PATIENCE)

        with failpoints.active("write.prepared", wait):
            writer.start()
            assert staged.wait(PATIENCE)
            both = unreferenced(place)
            with failpoints.active("cleanup.found", commit):
                done = other.cleanup(confirm=True, leftovers_older_than=NOW)
        assert len(both) > len(left) == done.files
        assert graph.snapshot().count("Person") == 8
        assert graph.check().problems == ()
    assert unreferenced(place) == set()


def test_nothing_younger_than_a_writer_that_gives_signs_of_life_goes(place: str) -> None:
    with open(place) as graph:
        fail(graph, "write.prepared")
        old = unreferenced(place)
        age(place, 4 * DAY)
        fail(graph, "write.prepared")
        young = unreferenced(place) - old
        age(place, 2 * DAY)
        # A writer began three days ago, and gave its last sign just now.
        sign = f"{heartbeat.SCRATCH}/{new_ulid(time.time() - 3 * DAY)}/{heartbeat.HEARTBEAT}"
        graph._repository.objects.write(sign, b"")
        for span in (timedelta(days=1), NOW):
            graph.cleanup(confirm=True, leftovers_older_than=span)
            assert unreferenced(place) == young | {sign}
        os.utime(f"{place}/{sign}", (0, time.time() - heartbeat.LASTS - 1))
        assert graph.cleanup().files == 0
        graph.cleanup(confirm=True, leftovers_older_than=NOW)
    assert unreferenced(place) == set()


def test_a_load_whose_folder_is_young_keeps_what_is_younger_than_itself(place: str) -> None:
    """The rows of a Spark job are staged by tasks; each leaves something in the folder."""
    with open(place) as graph:
        fail(graph, "write.prepared")
        age(place, 2 * DAY)
        left = unreferenced(place)
        begun = new_ulid(time.time() - 3 * DAY)
        graph._repository.objects.write(f"{heartbeat.SCRATCH}/{begun}/keys-0-abc", b"")
        assert graph.cleanup().files == 0
        age(place, 2 * DAY)
        assert graph.cleanup().files == len(left) + 1


def test_a_short_write_gives_no_sign_and_a_long_one_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "graph"
    with init(place, "node P { name: String @key }") as graph:
        graph.load({"P": [{"name": "a"}]}, engine="local")
        assert not (place / heartbeat.SCRATCH).exists()
        monkeypatch.setattr(heartbeat, "INTERVAL", 0.01)
        monkeypatch.setattr(heartbeat, "_pulse", heartbeat._Pulse())
        seen: list[Path] = []

        def wait() -> None:
            wait_until(
                lambda: any((place / heartbeat.SCRATCH).glob(f"*/{heartbeat.HEARTBEAT}")), "no sign"
            )
            seen.extend((place / heartbeat.SCRATCH).glob(f"*/{heartbeat.HEARTBEAT}"))

        with failpoints.active("write.prepared", wait):
            graph.load({"P": [{"name": "b"}]}, engine="local")
        assert seen and not list((place / heartbeat.SCRATCH).iterdir())


# --- any life ---

_BRANCHES = ("main", "a", "a/b", "c")
_POINTS = ("load.staged", "write.prepared", "write.armed", "write.forked", "write.table_committed")
_steps = st.one_of(
    st.tuples(
        st.just("load"),
        st.sampled_from(_BRANCHES),
        st.sampled_from(["append", "merge", "overwrite"]),
        st.sampled_from([None, None, *_POINTS]),
    ),
    st.tuples(st.just("delete"), st.sampled_from(_BRANCHES), st.sampled_from([None, *_POINTS])),
    st.tuples(st.just("index"), st.sampled_from(_BRANCHES), st.sampled_from([None, *_POINTS])),
    st.tuples(st.just("branch"), st.sampled_from(_BRANCHES[1:]), st.sampled_from(_BRANCHES)),
    st.tuples(st.just("unbranch"), st.sampled_from(_BRANCHES[1:]), st.booleans()),
    st.tuples(st.just("tag"), st.sampled_from(_BRANCHES)),
    st.tuples(st.just("clean")),
)


class _Dead(BaseException):
    """The end of a process, as far as the code can tell."""


def _die() -> None:
    raise _Dead


def _step(place: str, step: tuple[Any, ...], number: int) -> None:
    """Do something that may fail in any way; a process of its own each time."""
    verb, *given = step
    point = given[-1] if verb in ("load", "delete", "index") else None
    if verb == "unbranch" and given[1]:
        point = "branch.deleted"
    with open(place) as graph:
        try:
            if point is None:
                _do(graph, verb, given, number)
            else:
                with failpoints.active(point, _die):
                    _do(graph, verb, given, number)
        except (_Dead, StorageError, UsageError):
            pass
        except Exception as error:
            if type(error).__module__ != "omnigraph.errors":
                raise


def _do(graph: Graph, verb: str, given: list[Any], number: int) -> None:
    match verb:
        case "load":
            load(graph, number, number + 3, branch=given[0], mode=given[1])
        case "delete":
            graph.mutate(f"query q() {{ delete Person where age = {number % 5} }}", branch=given[0])
        case "index":
            graph.ensure_indices(given[0])
        case "branch":
            graph.branches.create(given[0], source=given[1])
        case "unbranch":
            graph.branches.delete(given[0])
        case "tag":
            graph.tags.create(f"t{number}", graph.snapshot(given[0]).commit)
        case "clean":
            graph.cleanup(confirm=True, leftovers_older_than=NOW)


def live(template: Path, steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-cleanup-") as folder:
        place = f"{folder}/graph"
        shutil.copytree(template, place)
        for number, step in enumerate(steps):
            _step(place, step, number)
        with open(place) as graph:
            before = everything(graph)
            done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
            assert done.errors == {}
        with open(place) as graph:
            assert everything(graph) == before
            assert graph.check().problems == ()
            assert graph.cleanup(leftovers_older_than=NOW).places == ()
        assert unreferenced(place) == set()


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_steps, min_size=3, max_size=9))
def test_any_life_of_a_graph_can_be_cleaned(template: Path, steps: list[tuple[Any, ...]]) -> None:
    live(template, steps)


@pytest.mark.soak
def test_any_life_of_a_graph_can_be_cleaned_for_long(template: Path) -> None:
    until = time.monotonic() + float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 300)

    @settings(max_examples=20)
    @given(steps=st.lists(_steps, min_size=3, max_size=25))
    def lives(steps: list[tuple[Any, ...]]) -> None:
        live(template, steps)

    while time.monotonic() < until:
        lives()
