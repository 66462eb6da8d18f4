"""A server in a process of its own, on loopback, and plain requests to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

_LINE = "OMNIGRAPH_LISTEN_ADDR="


class Server:
    """`omnigraph serve`; what it logs goes to a file."""

    def __init__(
        self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        command = [sys.executable, "-m", "omnigraph", "serve", *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--bind", "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(_LINE), self.log.read_text()
        self.address = f"http://{line.removeprefix(_LINE).strip()}"
        self.http = httpx.Client(base_url=self.address, timeout=300, trust_env=False)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Ask for an address below the graph."""
        return self.http.get(f"/graphs/team{path}", **options)

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Send JSON to an address below the graph."""
        return self.http.post(f"/graphs/team{path}", json={} if body is None else body, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        self.http.close()
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait()
