"""Running the server: its socket, its processes and how they end."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
from collections.abc import Mapping
from functools import partial

import uvicorn
from uvicorn.supervisors import Multiprocess

from omnigraph.errors import UsageError
from omnigraph.server.access import Access
from omnigraph.server.app import Limits, create_app

#: Requests that are under way may take so many seconds when the server is told to stop.
_GRACE = 30
#: A worker that says nothing for so many seconds is replaced: one that is busy is not.
_SILENCE = 300
_BACKLOG = 2048
_LEVEL = logging.INFO


def serve(
    places: Mapping[str, str],
    access: Access,
    *,
    host: str,
    port: int,
    workers: int = 1,
    limits: Limits | None = None,
) -> None:
    """Serve graphs until SIGINT or SIGTERM.

    Once the port is taken, a line on stdout says which it is.

    Raises:
        UsageError: The address is taken, or is none of this machine.
    """
    _check_places(places)
    listener = _listener(host, port)
    bound = listener.getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    print(f"OMNIGRAPH_LISTEN_ADDR={shown}:{bound[1]}", flush=True)
    config = uvicorn.Config(
        partial(create_app, dict(places), access, limits),
        factory=True,
        workers=workers,
        timeout_graceful_shutdown=_GRACE,
        timeout_worker_healthcheck=_SILENCE,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
    )
    log_to_stderr()
    # uvicorn ends the process by the signal it got; it was asked to stop, and has.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        Multiprocess(config, sockets=[listener]).run()


def log_to_stderr() -> None:
    """Log as text on a terminal, and as a JSON object a line elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Text() if sys.stderr.isatty() else _Lines())
    logging.basicConfig(level=_LEVEL, handlers=[handler], force=True)


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _check_places(places: Mapping[str, str]) -> None:
    """Open each graph once for writing, so that what is wrong with one is said at the start."""
    from omnigraph.graph import open as open_graph

    for place in places.values():
        open_graph(place).close()


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # From here on clients that come early wait, and are not refused.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.set_inheritable(True)
    return listener
