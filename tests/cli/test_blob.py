"""`omnigraph blob`: get and stat."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph, StorageError
from omnigraph.cli import blob as module
from omnigraph.language.schema.arrow import table_schema
from omnigraph.storage.blobs import BlobStream
from tests.cli.conftest import Ran

Run = Callable[..., Ran]
SCHEMA = """
node Doc { name: String @key  file: Blob? }
edge Cites: Doc -> Doc { proof: Blob? }
"""
#: No text in any encoding that a terminal would have.
BYTES = bytes(range(256)) * 20_000


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """At `g.omni` in the current directory of `run`: a text, bytes and a null; a branch; a tag."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    files = [{"data": b"hello world"}, {"data": BYTES}, None]
    ids = ["text", "bytes", "none"]
    docs = pa.table(
        {"id": ids, "name": ids, "file": files}, schema=table_schema(graph.catalog.nodes["Doc"])
    )
    cites = pa.table(
        {"id": ["c1"], "src": ["text"], "dst": ["bytes"], "proof": [{"data": b"page 7"}]},
        schema=table_schema(graph.catalog.edges["Cites"]),
    )
    graph.write_batches({"Doc": ("merge", docs), "Cites": ("merge", cites)})
    graph.tags.create("first", graph.commits()[0].id)
    graph.branches.create("draft")
    new = docs.slice(0, 1).set_column(
        2, docs.schema.field("file"), pa.array([{"data": b"draft"}], docs.schema.field("file").type)
    )
    graph.write_batches({"Doc": ("merge", new)}, branch="draft")
    return graph


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "g.omni")


# --- get ---


def test_get_writes_the_bytes_and_nothing_else_to_stdout(graph: Graph):
    ran = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", "blob", "get", graph.location, "Doc", "bytes",
         "file"],
        capture_output=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == BYTES


@pytest.mark.parametrize("option", [(), ("--output", "-"), ("-o", "-")], ids=" ".join)
def test_get_takes_the_kind_from_the_type(run: Run, graph: Graph, option):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", *option)
    assert (ran.code, ran.out, ran.err) == (0, "hello world", "")
    assert run("blob", "get", "g.omni", "Cites", "c1", "proof", *option).out == "page 7"


def test_get_writes_a_file(run: Run, graph: Graph, tmp_path: Path):
    ran = run("blob", "get", "g.omni", "Doc", "bytes", "file", "--output", "b.bin")
    assert (ran.code, ran.out) == (0, "wrote 5,120,000 bytes to b.bin\n")
    assert Path("b.bin").read_bytes() == BYTES
    assert leftovers(tmp_path) == ["b.bin"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat("b.bin").st_mode) == 0o666 & ~umask


def test_get_replaces_a_file_and_keeps_its_permissions_and_links(run: Run, graph: Graph):
    Path("real.txt").write_text("old")
    os.chmod("real.txt", 0o640)
    os.symlink("real.txt", "link.txt")
    assert run("blob", "get", "g.omni", "Doc", "text", "file", "--output", "link.txt").code == 0
    assert os.path.islink("link.txt")
    assert Path("real.txt").read_text() == "hello world"
    assert stat.S_IMODE(os.stat("real.txt").st_mode) == 0o640


def test_get_with_json_tells_what_it_wrote(run: Run, graph: Graph):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", "--output", "t", "--json")
    assert ran.json == {
        "type": "Doc", "id": "text", "property": "file", "output": "t", "bytes": 11
    }  # fmt: skip
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", "--json")
    assert ran.code == 2
    assert "--output FILE" in ran.json["message"]


def test_get_writes_to_what_is_no_file_as_it_is(run: Run, graph: Graph):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", "--output", "/dev/null")
    assert ran.code == 0
    assert not os.path.isfile("/dev/null")


@pytest.mark.parametrize(
    "part,expected",
    [
        ("0:5", "hello"),
        ("6:", "world"),
        (":5", "hello"),
        (":", "hello world"),
        ("3:3", ""),
        ("11:", ""),
    ],
)
def test_get_takes_a_range(run: Run, graph: Graph, part, expected):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", "--range", part)
    assert (ran.code, ran.out) == (0, expected)


@pytest.mark.parametrize("part", ["5", "a:b", "-1:5", "1:2:3", "", "²:", "1 :2", "9" * 30 + ":"])
def test_a_range_without_sense_is_a_usage_error(run: Run, graph: Graph, part):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", f"--range={part}")
    assert (ran.code, ran.out) == (2, "")
    assert "write START:END" in ran.err


@pytest.mark.parametrize("part", ["5:4", "0:12", "12:"])
def test_a_range_outside_of_the_value_is_a_usage_error_and_writes_no_file(run, graph, part):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", "--range", part, "--output", "t")
    assert (ran.code, ran.out) == (2, "")
    assert f"the range {part} is not within the value, which has 11 bytes" in ran.err
    assert not Path("t").exists()


@pytest.mark.parametrize("verb", ["get", "stat"])
def test_a_branch_or_a_commit_is_read(run: Run, graph: Graph, verb):
    def about(*options: str) -> str:
        return run("blob", verb, "g.omni", "Doc", "text", "file", *options).out

    shown = {"get": ("draft", "hello world"), "stat": ("5 bytes", "11 bytes")}[verb]
    assert shown[0] in about("--branch", "draft")
    assert shown[1] in about("--branch", "main")
    assert shown[1] in about("--snapshot", "first")
    ran = run("blob", verb, "g.omni", "Doc", "text", "file", "--branch", "main", "--snapshot", "x")
    assert ran.code == 2
    assert "not both" in ran.err


def test_get_does_not_write_bytes_to_a_terminal_unless_asked(run: Run, graph: Graph, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ran = run("blob", "get", "g.omni", "Doc", "text", "file")
    assert (ran.code, ran.out) == (2, "")
    assert "--output FILE" in ran.err and "--output -" in ran.err
    assert run("blob", "get", "g.omni", "Doc", "text", "file", "--output", "-").out == "hello world"
    assert run("blob", "get", "g.omni", "Doc", "text", "file", "--output", "t").code == 0


def test_get_that_fails_half_way_leaves_the_file_as_it_was(
    run: Run, graph: Graph, monkeypatch, tmp_path: Path
):
    Path("b.bin").write_text("old")
    real = BlobStream.read

    def fail(self: BlobStream, size: int | None = -1, /) -> bytes:
        if self.tell() > 2_000_000:
            raise StorageError("the disk is gone")
        return real(self, size)

    monkeypatch.setattr(BlobStream, "read", fail)
    for target in ("b.bin", "new.bin"):
        ran = run("blob", "get", "g.omni", "Doc", "bytes", "file", "--output", target)
        assert (ran.code, ran.out) == (1, "")
        assert "the disk is gone" in ran.err
    assert Path("b.bin").read_text() == "old"
    assert leftovers(tmp_path) == ["b.bin"]


@pytest.mark.parametrize(
    "target,code,message",
    [
        ("g.omni", 2, "g.omni is a directory"),
        ("no/such/file", 1, "no/such/file: cannot be written: No"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(run: Run, graph: Graph, target, code, message):
    ran = run("blob", "get", "g.omni", "Doc", "text", "file", "--output", target)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_get_passes_the_value_on_in_portions(run: Run, graph: Graph, monkeypatch):
    asked: list[int | None] = []
    real = BlobStream.read

    def read(self: BlobStream, size: int | None = -1, /) -> bytes:
        asked.append(size)
        return real(self, size)

    monkeypatch.setattr(BlobStream, "read", read)
    run("blob", "get", "g.omni", "Doc", "bytes", "file", "--output", "b.bin")
    assert set(asked) == {module._PORTION}
    assert len(asked) == 6


# --- stat ---


def test_stat_shows_size_and_place(run: Run, graph: Graph):
    assert run("blob", "stat", "g.omni", "Doc", "bytes", "file").out.splitlines() == [
        "type      Doc",
        "id        bytes",
        "property  file",
        "size      5,120,000 bytes",
        "stored    in the graph",
    ]


def test_stat_as_json(run: Run, graph: Graph):
    assert run("blob", "stat", "g.omni", "Cites", "c1", "proof", "--json").json == {
        "type": "Cites",
        "id": "c1",
        "property": "proof",
        "size": 6,
        "is_external": False,
        "uri": None,
    }


# --- both ---


@pytest.mark.parametrize("verb", ["get", "stat"])
@pytest.mark.parametrize(
    "words,code,message",
    [
        (("Dok", "text", "file"), 1, "no type `Dok`; did you mean `Doc`?"),
        (("Doc", "text", "fil"), 1, "Doc has no property `fil`; did you mean `file`?"),
        (("Doc", "text", "name"), 2, "`name` of Doc is not a Blob"),
        (("Doc", "nobody", "file"), 1, "there is no Doc with the id `nobody`"),
        (("Doc", "none", "file"), 1, "`file` of the Doc `none` is null"),
        (("Doc", "text", "file", "more"), 2, "too many arguments"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_what_is_not_there_is_said(run: Run, graph: Graph, verb, words, code, message):
    ran = run("blob", verb, "g.omni", *words)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


@pytest.mark.parametrize("verb", ["get", "stat"])
def test_the_graph_may_be_named_by_the_option(run: Run, graph: Graph, verb):
    assert run("blob", verb, "Doc", "text", "file", "--store", "g.omni").code == 0
    ran = run("blob", verb, "text", "file")
    assert ran.code == 2
    assert "PROPERTY is missing" in ran.err
