"""Long answers, portion by portion, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

#: What waits for a client is a few portions, of at least this many bytes each.
_PORTION = 64 * 1024
_WAITING = 4
_LOOK_AGAIN = 0.5


class _Gone(Exception):
    """Nobody wants the rest."""


class _Sink:
    """Takes bytes, and passes them on in portions; waits while the client is slow."""

    def __init__(self, queue: Queue[bytes | BaseException | None], gone: Event) -> None:
        self._queue = queue
        self._gone = gone
        self._pending: list[bytes] = []
        self._size = 0

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        self._pending.append(content)
        self._size += len(content)
        if self._size >= _PORTION:
            self.flush()
        return len(content)

    def flush(self) -> None:
        content, self._pending, self._size = b"".join(self._pending), [], 0
        if content:
            self.put(content)

    def put(self, item: bytes | BaseException | None) -> None:
        while not self._gone.is_set():
            try:
                return self._queue.put(item, timeout=_LOOK_AGAIN)
            except Full:
                pass
        raise _Gone


def written_by(write: Callable[[_Sink], object]) -> Iterator[bytes]:
    """What a function writes to a binary stream, while it writes; it runs in a thread.

    What it raises is raised here, after what it wrote before. When nobody iterates any more, its
    next `write` fails.
    """
    queue: Queue[bytes | BaseException | None] = Queue(_WAITING)
    gone = Event()
    sink = _Sink(queue, gone)

    def run() -> None:
        try:
            try:
                write(sink)
                sink.flush()
            except _Gone:
                raise
            except BaseException as error:
                sink.put(error)
            else:
                sink.put(None)
        except _Gone:
            pass

    thread = Thread(target=run, name="omnigraph-stream", daemon=True)
    thread.start()
    try:
        while (item := _next(queue, thread)) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        gone.set()


def _next(queue: Queue[bytes | BaseException | None], thread: Thread) -> Any:
    while True:
        try:
            return queue.get(timeout=_LOOK_AGAIN)
        except Empty:
            if not thread.is_alive() and queue.empty():
                raise RuntimeError("what writes the stream has ended without a word") from None


def in_portions(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces, joined to portions that are worth sending."""
    pending: list[bytes] = []
    size = 0
    for piece in pieces:
        pending.append(piece)
        size += len(piece)
        if size >= _PORTION:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)
