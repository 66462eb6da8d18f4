"""What a load leaves for the first queries: topologies and keys of the version that it has made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.pipeline.spark.engine import SparkEngine
from omnigraph.query.source import Source
from omnigraph.query.tables import policy, topology_cache
from omnigraph.query.tables.files import map_arrays
from omnigraph.settings import Settings
from omnigraph.storage.tables import TableSnapshot
from tests.patience import PATIENCE

SCHEMA = """
node Person { key: I64 @key  name: String }
edge Knows: Person -> Person
"""
KNOWN = """query q($key: I64) { match { $p: Person { key: $key }  $p knows $f }
  return { $f.key as key } order { $f.key } }"""
KNOWING = """query q($key: I64) { match { $p: Person { key: $key }  $f knows $p }
  return { $f.key as key } order { $f.key } }"""
NAME = "query q($key: I64) { match { $p: Person { key: $key } } return { $p.name as name } }"
PAIRS = [(1, 2), (1, 3), (2, 3), (3, 1), (3, 1)]


@pytest.fixture(autouse=True)
def every_load_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left after large loads is left after those of the tests, too."""
    monkeypatch.setattr(policy, "LOADED_EDGES", 1)
    monkeypatch.setattr(policy, "LARGE_TOPOLOGY_EDGES", 1)
    monkeypatch.setattr(policy, "MOST_CHANGES", 0)


def rows(keys: range, pairs: list[tuple[int, int]]) -> dict[str, pa.Table]:
    """Persons, and who knows whom."""
    persons = pa.table({"key": list(keys), "name": [f"person {key}" for key in keys]})
    sources, targets = ([str(pair[side]) for pair in pairs] for side in (0, 1))
    edges = pa.table({"from": pa.array(sources, pa.utf8()), "to": pa.array(targets, pa.utf8())})
    return {"Person": persons, "Knows": edges} if len(keys) else {"Knows": edges}


def check(graph: Graph, keys: range, pairs: list[tuple[int, int]], branch: str = "main") -> None:
    """Ask for all neighbours and all names."""
    for key in keys:
        for text, near, far in ((KNOWN, 0, 1), (KNOWING, 1, 0)):
            answer = [r["key"] for r in graph.query(text, params={"key": key}, branch=branch)]
            assert answer == sorted({pair[far] for pair in pairs if pair[near] == key})
        assert graph.query(NAME, params={"key": key}, branch=branch).scalar() == f"person {key}"


@pytest.fixture
def no_building(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """To be undone while something may be built."""

    def build(tables: Any) -> None:
        raise AssertionError("a topology is built from ids")

    monkeypatch.setattr(topology_cache, "build", build)
    return monkeypatch


def files(place: Path, folder: str) -> list[Path]:
    return [path for path in (place / "__cache" / folder).rglob("*") if path.is_file()]


_PATCHED = topology_cache.patched


def only_indexes_are_new(*base: Any) -> Any:
    """Take a topology as it is, of the version before its indexes.

    On a busy machine that one is so old when the indexes are there that it has got the file.
    """
    topology = _PATCHED(*base)
    assert topology is base[1]
    return topology


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("indexes", [True, False])
def test_a_new_process_reads_what_a_load_has_left(
    mode: Any, indexes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.writes._WORTH_INDEXES", 1)
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 3), [(2, 1)]))
        keys, pairs = range(1, 4), [*PAIRS, (2, 1)]
        loaded = range(3, 4) if mode == "append" else keys
        graph.load(rows(loaded, PAIRS), mode=mode, indexes=indexes)
    pairs = PAIRS if mode == "overwrite" else pairs
    with open(tmp_path / "g", mode="r") as graph:
        monkeypatch.setattr(topology_cache, "build", None)
        monkeypatch.setattr(topology_cache, "patched", only_indexes_are_new)
        check(graph, keys, pairs)
        source = Source(graph._repository, graph.snapshot()._state, graph._caches)
        assert source.columns("Person").find_in_order("key", 3) is not None


def test_a_load_on_spark_leaves_it_too(
    local_spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS), engine="spark", spark=local_spark_engine.session)
    with open(tmp_path / "g", mode="r") as graph:
        monkeypatch.setattr(topology_cache, "build", None)
        check(graph, range(1, 4), PAIRS)


def test_there_is_one_file_of_the_version_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.writes._WORTH_INDEXES", 1)
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS))
        source = Source(graph._repository, graph.snapshot()._state, graph._caches)
        keys = [source.key(name).to_list() for name in ("Knows", "Person", "Person")]
    (left,) = files(tmp_path / "g", "topology")
    verified = map_arrays(str(left))
    assert verified is not None
    assert verified[1]["keys"] == keys


def test_the_process_that_has_loaded_builds_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    build, built = topology_cache.build, []

    def slow(tables: Any) -> Any:
        built.append(threading.current_thread().name)
        began.set()
        assert may_go_on.wait(PATIENCE)
        return build(tables)

    monkeypatch.setattr(topology_cache, "build", slow)
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS), indexes=False)
        assert began.wait(PATIENCE)
        query = threading.Thread(target=lambda: check(graph, range(1, 4), PAIRS))
        query.start()
        may_go_on.set()
        query.join()
    assert built == ["omnigraph-cache"]


@pytest.mark.parametrize("many", [True, False])
def test_edges_of_a_later_load_are_added_to_the_topology(
    many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS))
    if many:
        monkeypatch.setattr(policy, "FEWEST_CHANGES", 0)
        monkeypatch.setattr(TableSnapshot, "appended", lambda *_: None)
    monkeypatch.setattr(topology_cache, "build", None)
    with open(tmp_path / "g") as graph:
        graph.load(rows(range(4, 5), [(4, 1), (1, 4)]), mode="append")
        check(graph, range(1, 5), [*PAIRS, (4, 1), (1, 4)])
    assert len(files(tmp_path / "g", "topology")) == 2


def test_a_later_commit_is_seen(tmp_path: Path) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS))
        graph.mutate('query q() { insert Knows { from: "2", to: "1" } }')
        check(graph, range(1, 4), [*PAIRS, (2, 1)])
    with open(tmp_path / "g") as graph:
        check(graph, range(1, 4), [*PAIRS, (2, 1)])


def test_a_branch_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS))
        graph.ingest(rows(range(0), [(2, 1)]), branch="draft", mode="append")
    monkeypatch.setattr(topology_cache, "build", None)
    with open(tmp_path / "g", mode="r") as graph:
        check(graph, range(1, 4), PAIRS)
        check(graph, range(1, 4), [*PAIRS, (2, 1)], branch="draft")


@pytest.mark.parametrize("folder", ["topology", "columns"])
def test_damaged_files_are_made_again(folder: str, tmp_path: Path) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS))
    assert files(tmp_path / "g", folder)
    for path in files(tmp_path / "g", folder):
        content = bytearray(path.read_bytes())
        content[-70] ^= 1
        path.write_bytes(content)
    with open(tmp_path / "g", mode="r") as graph:
        check(graph, range(1, 4), PAIRS)


def test_without_a_cache_nothing_is_left(tmp_path: Path) -> None:
    with init(tmp_path / "g", SCHEMA, settings=Settings(cache_mib=0)) as graph:
        graph.load(rows(range(1, 4), PAIRS))
        check(graph, range(1, 4), PAIRS)
    assert not files(tmp_path / "g", "topology")
    assert not files(tmp_path / "g", "columns")


def test_what_does_not_fit_into_the_cache_is_not_made(
    tmp_path: Path, no_building: pytest.MonkeyPatch
) -> None:
    no_building.setattr(policy, "EDGE_BYTES", 1 << 20)
    settings = Settings(cache_mib=len(PAIRS) - 1)
    with init(tmp_path / "g", SCHEMA, settings=settings) as graph:
        graph.load(rows(range(1, 4), PAIRS))
        graph._warm_up.finish()
        no_building.undo()
        check(graph, range(1, 4), PAIRS)


def test_small_loads_leave_the_work_to_queries(
    tmp_path: Path, no_building: pytest.MonkeyPatch
) -> None:
    no_building.setattr(policy, "LOADED_EDGES", 10)
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(rows(range(1, 4), PAIRS))
        graph._warm_up.finish()
        assert not graph._caches.topologies._cached


def test_a_load_stands_where_no_file_can_be_left(tmp_path: Path) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        # Not even root can make files below a file.
        (tmp_path / "g" / "__cache").write_bytes(b"")
        graph.load(rows(range(1, 4), PAIRS))
        check(graph, range(1, 4), PAIRS)
    with open(tmp_path / "g") as graph:
        check(graph, range(1, 4), PAIRS)


def test_a_load_stands_when_the_preparation_fails(
    tmp_path: Path, no_building: pytest.MonkeyPatch
) -> None:
    with init(tmp_path / "g", SCHEMA) as graph:
        result = graph.load(rows(range(1, 4), PAIRS))
        graph._warm_up.finish()
        assert not result.warnings
        no_building.undo()
        check(graph, range(1, 4), PAIRS)


KILLED = """
import os, signal, sys
from omnigraph.graph import open
from omnigraph.query.tables import disk, policy
from tests.pipeline.test_warm_up import PAIRS, rows

policy.LOADED_EDGES = policy.LARGE_TOPOLOGY_EDGES = 1
def write_arrays(file, arrays, **about):
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with __builtins__.open(file, "wb") as half:
        half.write(b"OMNI")
    os.kill(os.getpid(), signal.SIGKILL)
disk.write_arrays = write_arrays
open(sys.argv[1]).load(rows(range(1, 4), PAIRS))
"""


def test_a_load_stands_when_the_process_is_killed_while_it_writes_files(tmp_path: Path) -> None:
    init(tmp_path / "g", SCHEMA).close()
    root = Path(__file__).parents[2]
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "g")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    with open(tmp_path / "g") as graph:
        check(graph, range(1, 4), PAIRS)


def test_a_process_that_ends_waits_for_the_files(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    code = """
import sys
from omnigraph.graph import init
from omnigraph.query.tables import policy
from tests.pipeline.test_warm_up import PAIRS, SCHEMA, rows
policy.LOADED_EDGES = policy.LARGE_TOPOLOGY_EDGES = 1
init(sys.argv[1], SCHEMA).load(rows(range(1, 4), PAIRS))
"""
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "g")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        check=True,
    )
    assert len(files(tmp_path / "g", "topology")) == 1
    assert any(path.name == "key#order" for path in files(tmp_path / "g", "columns"))
