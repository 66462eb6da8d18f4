"""A proxy in front of an S3 server that fails, delays or repeats the request a test names."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from tests.patience import PATIENCE

Fault = Literal["refuse", "lose_answer", "repeat", "slow"]

_REFUSED = (
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code>'
    b"<Message>injected fault</Message></Error>"
)


class FaultyProxy:
    """Forwards to 127.0.0.1:`port`; one request can be made to go wrong.

    refuse       the request never arrives and is answered with an error
    lose_answer  the request is carried out, but answered with an error
    repeat       the request is carried out twice, the second answer is given
    slow         the request is carried out after a pause
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._guard = threading.Lock()
        self._count = 0
        self._fault: tuple[int, Fault] | None = None
        self.log: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()

    def arm(self, number: int, fault: Fault) -> None:
        """Let the request with this number, counted from now on, go wrong."""
        with self._guard:
            self._count = 0
            self._fault = (number, fault)
            self.log.clear()

    def disarm(self) -> int:
        """Let everything pass again; gives how many requests there were since `arm`."""
        with self._guard:
            self._fault = None
            return self._count

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self._guard:
            self._count += 1
            due = self._fault is not None and self._fault[0] == self._count
            fault = self._fault[1] if due and self._fault is not None else None
            self.log.append(f"{request.command} {request.path}")
        if fault == "refuse":
            return self._answer(request, 403, [], _REFUSED)
        if fault == "slow":
            time.sleep(0.5)
        status, headers, content = self._forward(request, body)
        if fault == "repeat":
            status, headers, content = self._forward(request, body)
        if fault == "lose_answer":
            return self._answer(request, 403, [], _REFUSED)
        return self._answer(request, status, headers, content)

    def _forward(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._upstream, timeout=PATIENCE)
        try:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request(request.command, request.path, body, dict(request.headers.items()))
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
    ) -> None:
        dropped = ("transfer-encoding", "connection", "date", "server")
        kept = [(k, v) for k, v in headers if k.lower() not in dropped]
        request.send_response_only(status)
        for key, value in kept:
            request.send_header(key, value)
        if not any(k.lower() == "content-length" for k, _ in kept):
            request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)
