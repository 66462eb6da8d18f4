"""A process that follows a branch, and dies at any moment that a test picks."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from omnigraph.graph import open
from tests.merge.feeds import Copy


def follow(place: str, folder: str, die_at: int, limit: int) -> None:
    """Apply what is new to a log, and keep the cursor beside it.

    Args:
        place: The graph.
        folder: Where the log and the cursor are.
        die_at: At which call of a function it is killed; 0 is never.
        limit: The size of pages.
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    log, kept = Path(folder, "log.jsonl"), Path(folder, "cursor")
    with open(place, mode="r") as graph:
        if die_at:
            sys.setprofile(count)
        cursor = kept.read_text() if kept.exists() else None
        while True:
            start = "beginning" if cursor is None else None
            page = graph.changes(start=start, cursor=cursor, limit=limit)
            with log.open("a") as file:
                for part in page.commits:
                    for change in part.changes:
                        entry = {"commit": part.commit.id, **change.to_dict()}
                        # One call of the system for each: a line is there whole or not at all.
                        file.write(json.dumps(entry) + "\n")
                        file.flush()
            cursor = page.cursor
            new = kept.with_suffix(".new")
            new.write_text(cursor)
            new.replace(kept)
            if not page.has_more:
                return


def entries(folder: Path) -> list[dict[str, Any]]:
    """What was applied, in order."""
    log = folder / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def applied(folder: Path) -> Copy:
    """What the log makes of an empty graph."""
    copy: Copy = {}
    for entry in entries(folder):
        key = (entry["type"], entry["id"])
        if entry["after"] is None:
            copy.pop(key, None)
        else:
            copy[key] = entry["after"]
    return copy
