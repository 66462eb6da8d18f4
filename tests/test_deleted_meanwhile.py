"""A branch may be deleted by another process while a graph is checked or cleaned up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError, UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.history.store import History
from omnigraph.maintenance import cleanup
from omnigraph.storage.location import Location
from omnigraph.storage.references import References
from omnigraph.storage.tables import TableRef, Tables
from tests.storage.people import SCHEMA as PEOPLE
from tests.storage.people import append

SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "graph", SCHEMA)
    graph.branches.create("t")
    graph.write_batches({"Person": ("append", pa.table({"name": ["ada"]}))}, branch="t")
    return graph


def deleting_after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, graph: Graph) -> None:
    """Let another handle delete the branch right after a function has first returned."""
    function, other = getattr(owner, name), open(graph.location)

    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        monkeypatch.setattr(owner, name, function)
        other.branches.delete("t")
        return found

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("function", ["branch_names", "read"])
def test_a_check_leaves_out_what_is_gone(graph, monkeypatch, function):
    if function == "read":
        read = History.read
        monkeypatch.setattr(
            History, "read", lambda self, *a: _then_delete(read, self, graph.location, *a)
        )
    else:
        deleting_after(monkeypatch, History, function, graph)
    found = graph.check()
    assert (found.branches, found.problems) == (1, ())


def _then_delete(read: Any, history: History, location: str, *arguments: Any) -> Any:
    found = read(history, *arguments)
    if arguments == ("t",) and "t" in Tables(history.location).branches("__manifest"):
        # By hand: a handle would read the branch, too.
        Tables(history.location).delete_branch("__manifest", "t")
        for table in found.state.tables.values():
            Tables(history.location).delete_branch(table.path, "t")
    return found


@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("function", ["branch_states", "_places"])
def test_a_cleanup_goes_on_without_what_is_gone(graph, monkeypatch, function, confirm):
    deleting_after(monkeypatch, cleanup, function, graph)
    assert graph.cleanup(confirm=confirm).errors == {}
    assert graph.snapshot().count("Person") == 0
    assert graph.check().problems == ()


def test_what_could_not_be_read_of_a_fork_is_no_reason_to_fail_later(tmp_path):
    tables = Tables(Location.of(tmp_path / "graph"))
    tables.create("nodes/people", PEOPLE)
    append(tables, TableRef("nodes/people"), 0, 3)
    tables.create_branch(TableRef("nodes/people"), 2, "t")
    references = References(tables, "nodes/people")
    forks = tables.branches("nodes/people")
    tables.delete_branch("nodes/people", "t")
    with pytest.raises(StorageError):
        references.refresh(forks)
    references.refresh({})


def test_no_graph_is_created_inside_of_another(graph, tmp_path):
    for place in ("graph/inner", "graph/nodes/deeper/inner", "graph/__scratch"):
        with pytest.raises(UsageError, match=f"is inside of the graph at {tmp_path}/graph; give a"):
            init(tmp_path / place, SCHEMA)
    assert not (tmp_path / "graph/inner").exists()
    init(tmp_path / "graph.omni", SCHEMA)
