"""`omnigraph backup` and `omnigraph restore`: what they show, and their errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from tests.cli.conftest import SCHEMA, Ran

Run = Callable[..., Ran]
ID = r"[0-9A-Z]{26}"
SIZE = r"[\d.]+ (B|KiB)"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    graph.branches.create("draft")
    return graph


def test_a_backup_and_its_restore(run: Run, graph: Graph, tmp_path: Path) -> None:
    head = graph.snapshot().commit
    ran = run("backup", "g.omni", "target")
    assert ran.code == 0
    shown = f"branch  commit\ndraft   {head}\nmain    {head}\n\nbackup {ID}: .* files, {SIZE}; "
    assert re.fullmatch(f"{shown}{SIZE} copied\n", ran.out)
    assert ran.err == f"graph {tmp_path / 'g.omni'}, backup to target\n"
    again = run("backup", "--branch", "main", "g.omni", "target", "--json").json
    assert (again["branches"], again["copied_bytes"]) == ({"main": head}, 0)
    ran = run("restore", "target", "r.omni", "--backup", omnigraph.list_backups("target")[1].id)
    assert (ran.code, ran.err) == (0, "")
    shown = f"branch  commit\ndraft   {head}\nmain    {head}\n\nrestored backup {ID}: .* files"
    assert re.fullmatch(f"{shown}, {SIZE}\n", ran.out)
    assert run("check", "r.omni").code == 0
    assert run("restore", "target", "s.omni", "--json").json["branches"] == {"main": head}
    ran = run("restore", "target", "r.omni")
    assert ran.code == 1 and "there is a graph at" in ran.err


def test_the_list_of_backups_fits_a_terminal(run: Run, graph: Graph) -> None:
    run("backup", "g.omni", "target")
    run("backup", "create", "g.omni", "target", "--read-only")
    ran = run("backup", "list", "target")
    head, *rows = ran.out.splitlines()
    assert head.split() == ["backup", "time", "(UTC)", "branches", "files", "size"]
    assert len(rows) == 2 and rows[0] > rows[1]
    assert max(map(len, ran.out.splitlines())) <= 80
    listed = run("backup", "list", "target", "--json").json
    assert [each["id"] for each in listed] == [row.split()[0] for row in rows]
    ran = run("backup", "list", "nowhere")
    assert ran.code == 1 and "there is no backup at" in ran.err


def test_verify_names_what_is_damaged(run: Run, graph: Graph, tmp_path: Path) -> None:
    run("backup", "g.omni", "target")
    ran = run("backup", "verify", "target")
    assert ran.code == 0
    assert re.fullmatch(f"1 backup, .* files with {SIZE} verified: no problems\n", ran.out)
    damaged = min((tmp_path / "target/files/nodes").rglob("*.manifest.*"))
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    ran = run("backup", "verify", "target")
    assert ran.code == 1
    assert damaged.name in ran.out.replace("\n", "") and "verified: 1 problem\n" in ran.out
    result = run("backup", "verify", "target", "--json").json
    assert not result["ok"] and len(result["problems"]) == 1
    ran = run("restore", "target", "r.omni")
    assert ran.code == 1 and damaged.name in ran.err
    assert not (tmp_path / "r.omni").exists()


def test_what_is_missing_is_a_usage_error(run: Run, graph: Graph) -> None:
    for words in (("backup", "g.omni"), ("restore", "target"), ("backup", "list")):
        assert run(*words).code == 2
    ran = run("backup", "g.omni", "g.omni/inside")
    assert ran.code == 2 and "is inside of" in ran.err
    ran = run("backup", "g.omni", "target", "--branch", "drafd")
    assert ran.code == 1 and "did you mean `draft`" in ran.err


def test_ctrl_c_says_that_the_same_command_goes_on(
    run: Run, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph import failpoints

    def interrupt() -> None:
        raise KeyboardInterrupt

    with failpoints.active("backup.copied", interrupt):
        ran = run("backup", "g.omni", "target")
    assert ran.code == 130 and "no backup was made, and the same command goes on" in ran.err
    assert run("backup", "g.omni", "target").code == 0
    with failpoints.active("restore.tables_copied", interrupt):
        ran = run("restore", "target", "r.omni")
    assert ran.code == 130 and "the same command finishes it" in ran.err
    assert run("restore", "target", "r.omni").code == 0
