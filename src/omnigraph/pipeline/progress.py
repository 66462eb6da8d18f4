"""Shows on a terminal how far a piece of work is: a bar per stage, with the time it has taken.

Nothing is written where nobody looks: when stderr is not a terminal, or when the caller says so.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Bars:
    """Progress as bars on stderr, between entering and leaving.

    Args:
        shown: False for no bars at all; omitted, there are bars if stderr is a terminal.
        console: Where to draw; stderr when omitted.

    Example:
        >>> with Bars(shown=False) as bars:
        ...     bars.stage("parse", 2)
        ...     bars.advance(2)
    """

    def __init__(self, shown: bool | None = None, console: Console | None = None) -> None:
        self._wanted = shown
        self._console = console
        self._bars: RichProgress | None = None
        self._stage: TaskID | None = None
        self._total = 0
        self._done = 0

    def __enter__(self) -> Bars:
        if _is_shown(self._wanted):
            self._bars = _bars(self._console)
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars is not None:
            if error[0] is None:
                self._finish()
            self._bars.stop()
            self._bars = None

    def stage(self, label: str, total: int) -> None:
        """See `Progress`; a stage of 0 tasks is one of an unknown number."""
        if self._bars is None:
            return
        self._finish()
        self._total, self._done = total, 0
        self._stage = self._bars.add_task(label, total=total or None)

    def advance(self, done: int) -> None:
        """See `Progress`."""
        if self._bars is None or self._stage is None:
            return
        self._done = max(self._done, done)
        self._bars.update(self._stage, completed=self._done)

    def _finish(self) -> None:
        """Leave the bar of the last stage full: what comes next shows that it is done."""
        if self._bars is not None and self._stage is not None:
            total = self._total or max(self._done, 1)
            self._bars.update(self._stage, total=total, completed=total)
            self._bars.stop_task(self._stage)
            self._stage = None


def _is_shown(wanted: bool | None) -> bool:
    if wanted is not None:
        return wanted
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _bars(console: Console | None) -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
        refresh_per_second=5,
    )
