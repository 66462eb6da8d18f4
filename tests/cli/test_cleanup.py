"""`omnigraph cleanup`: what it shows, what it removes, and the spans it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import click
import pytest

import omnigraph
from omnigraph import Graph, failpoints
from omnigraph.cli.cleanup import size
from omnigraph.cli.spans import span
from omnigraph.failpoints import FailpointError
from tests.cli.conftest import SCHEMA, Ran

Run = Callable[..., Ran]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni` with what a failed write, a dead branch and a dead load have left."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    graph.branches.create("gone")
    add = 'query q() { insert Person { name: "ann" } }'
    graph.mutate(add, branch="gone")
    with failpoints.active("branch.deleted", "raise"), pytest.raises(FailpointError):
        graph.branches.delete("gone")
    with failpoints.active("write.prepared", "raise"), pytest.raises(FailpointError):
        graph.mutate(add)
    (tmp_path / "g.omni/__scratch/01ARZ3NDEKTSV4RRFFQ69G5FAV").mkdir(parents=True)
    (tmp_path / "g.omni/__scratch/01ARZ3NDEKTSV4RRFFQ69G5FAV/keys").write_bytes(b"x" * 5000)
    return graph


def test_a_preview_says_what_to_do_next(run: Run, graph: Graph):
    ran = run("cleanup", "g.omni", "--leftovers-older-than", "0s")
    shown = re.sub(r"\d\.\d KiB", "N.N KiB", ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert shown == (
        "place        files     size\n"
        "node:Person      7  N.N KiB\n"
        "    of deleted branches: gone\n"
        "scratch          1  N.N KiB\n"
        "\n"
        "commits of deleted branches that cannot be read any more then: gone\n"
        "8 files, N.N KiB to remove; run it again with --confirm to do so\n"
    )
    assert run("cleanup", "g.omni", "--leftovers-older-than", "0s").out == ran.out


def test_young_leftovers_are_told_and_kept(run: Run, graph: Graph):
    ran = run("cleanup", "g.omni", "--confirm")
    assert (ran.code, ran.out) == (0, "nothing to remove\n")
    assert "2 more files are too young, or of a load that runs: left alone" in ran.err


def test_confirmed_it_removes_them(run: Run, graph: Graph):
    ran = run("cleanup", "g.omni", "--leftovers-older-than", "0s", "--confirm")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("removed 8 files, ")
    assert run("cleanup", "g.omni", "--leftovers-older-than", "0s").out == "nothing to remove\n"
    assert run("check", "g.omni").code == 0


def test_as_json(run: Run, graph: Graph):
    found = run("cleanup", "g.omni", "--leftovers-older-than", "0s", "--json").json
    assert (found["confirmed"], found["files"], found["errors"]) == (False, 8, {})
    places = {p["place"]: (p["files"], len(p["forks"])) for p in found["places"]}
    assert places == {"node:Person": (7, 1), "scratch": (1, 0)}
    assert found["branches"] == ["gone"]


def test_a_table_that_cannot_be_read_is_an_error_and_the_rest_is_done(
    run: Run, graph: Graph, tmp_path: Path
):
    person = next(t for t in graph.snapshot().tables if t.name == "Person")
    newest = min((tmp_path / "g.omni" / person.path / "_versions").glob("1*.manifest"))
    newest.write_bytes(b"damaged")
    ran = run("cleanup", "g.omni", "--leftovers-older-than", "0s", "--confirm")
    assert ran.code == 1
    assert "error: node:Person: table nodes/" in ran.err
    assert "removed 1 file, " in ran.out


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0s", timedelta(0)),
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        (" 7d ", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_span_of_time(text: str, meant: timedelta):
    assert span(text) == meant


@pytest.mark.parametrize("text", ["", "7", "d", "7x", "-1d", "1.5h", "1d12h", "٣d", "999999999w"])
def test_what_is_no_span_of_time(text: str):
    with pytest.raises(click.BadParameter, match=f"^`{text}` is "):
        span(text)


def test_a_wrong_span_is_told_with_what_to_write(run: Run, graph: Graph):
    ran = run("cleanup", "g.omni", "--leftovers-older-than", "7x")
    assert ran.code == 2
    assert "`7x` is no span of time; write a number and s, m, h, d or w, as in 30m" in ran.err


def test_sizes():
    assert [size(n) for n in (0, 1023, 1024, 1536, 5 << 20, 3 << 40, 5000 << 40)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 TiB", "5,000.0 TiB"
    ]  # fmt: skip


def test_a_preview_of_old_versions_has_the_manifest_as_well(run: Run, graph: Graph):
    for number in range(5):
        graph.mutate(f'query q() {{ insert Person {{ name: "p{number}" }} }}')
    old = ("cleanup", "g.omni", "--keep", "3", "--grace", "0s")
    shown, done = (run(*old, *more).out.splitlines() for more in ((), ("--confirm",)))
    assert shown[0].split() == ["place", "versions", "files", "size"]
    counts = [[line.split()[:3] for line in lines[1:3]] for lines in (shown, done)]
    assert [line[0] for line in counts[0]] == ["node:Person", "manifest"]
    assert counts[0] == counts[1] and max(map(len, shown)) <= 80
    assert shown[-2].endswith("cannot be read any more then")
    assert run(*old).out == "nothing to remove\n"
