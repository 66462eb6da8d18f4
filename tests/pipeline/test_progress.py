"""Bars on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from omnigraph.pipeline.engine import LocalEngine
from omnigraph.pipeline.progress import Bars


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_stages_are_bars():
    console = terminal()
    with Bars(shown=True, console=console) as bars:
        LocalEngine().map(abs, [1, 2, 3], "parse", bars)
        LocalEngine().map(abs, [1, 2], "check", bars)
    last = drawn(console).rsplit("parse", 1)[1]
    assert "3/3" in last
    assert "check" in last
    assert "2/2" in last
    assert "0:00:00" in last


def test_a_stage_of_unknown_length_ends_with_what_was_done():
    console = terminal()
    with Bars(shown=True, console=console) as bars:
        bars.stage("rows", 0)
        bars.advance(5)
        bars.advance(3)
    assert "5/5" in drawn(console).rsplit("rows", 1)[1]


def test_an_error_leaves_the_bar_where_it_was():
    console = terminal()
    with pytest.raises(ValueError), Bars(shown=True, console=console) as bars:
        bars.stage("parse", 4)
        bars.advance(1)
        raise ValueError
    assert "1/4" in drawn(console).rsplit("parse", 1)[1]


def test_nothing_is_drawn_where_stderr_is_no_terminal(capfd):
    with Bars() as bars:
        LocalEngine().map(abs, [1, 2, 3], "parse", bars)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_drawn_when_told_so(capfd, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Bars(shown=False) as bars:
        bars.stage("parse", 1)
        bars.advance(1)
    assert capfd.readouterr() == ("", "")
