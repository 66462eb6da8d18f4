"""A real HTTP server on this machine that answers as a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    """A request as the server got it."""

    path: str
    headers: dict[str, str]
    body: Any
    time: float


@dataclass
class Answer:
    """What the server answers; a body that is not text becomes JSON."""

    status: int
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    #: Seconds before the answer begins, unless the server is closed before.
    delay: float = 0.0
    #: How many bytes less are sent than announced.
    missing: int = 0


@dataclass
class FakeService:
    url: str
    #: Answers a request; gets its number, from 0 on, too.
    answer: Callable[[Asked, int], Answer]
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def serving(answer: Callable[[Asked, int], Answer]) -> Iterator[FakeService]:
    service = FakeService("", answer)
    guard, closed = threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.path, headers, json.loads(raw), time.monotonic())
            with guard:
                number = len(service.asked)
                service.asked.append(asked)
            answered = service.answer(asked, number)
            closed.wait(answered.delay)
            body = answered.body if isinstance(answered.body, str) else json.dumps(answered.body)
            data = body.encode()
            try:
                self.send_response(answered.status)
                for name, value in answered.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data) + answered.missing))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                # The client did not wait.
                self.close_connection = True

        def do_GET(self) -> None:
            # What a redirected POST would become.
            with guard:
                service.asked.append(Asked(self.path, {}, None, time.monotonic()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        closed.set()
        server.shutdown()
        thread.join()
        server.server_close()


def one_hot(number: int, size: int) -> list[float]:
    """A vector that is told from others by the place of its 1."""
    return [float(n == number % size) for n in range(size)]
