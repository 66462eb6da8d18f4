"""A real S3 server process (moto) on 127.0.0.1, behind a proxy that can misbehave."""

from __future__ import annotations

import http.client
import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.scenarios import make_graph
from tests.patience import PATIENCE
from tests.s3.faulty_proxy import FaultyProxy

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.s3.server", str(port)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                _make_bucket(port, "graphs")
                break
            except OSError:
                assert server.poll() is None, "the S3 server did not start"
                assert time.monotonic() < deadline, "the S3 server does not answer"
                time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait()


def _make_bucket(port: int, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.fixture(scope="session")
def proxy(s3_server: int) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(s3_server)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph in a folder, to be uploaded."""
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    return place


@pytest.fixture
def place(s3_server: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh `s3://` address."""
    return _address(s3_server, s3_server, monkeypatch)


@pytest.fixture
def faulty_place(s3_server: int, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh `s3://` address; everything that opens it goes through the proxy."""
    return _address(s3_server, proxy.port, monkeypatch)


def _address(server: int, port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address in a bucket of its own: the server looks at all keys of a bucket to list some."""
    bucket = f"graphs-{next(_numbers)}"
    _make_bucket(server, bucket)
    address = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ENDPOINT": address,
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "OMNIGRAPH_LOCK_WAIT_SECONDS": str(PATIENCE),
    }.items():
        monkeypatch.setenv(name, value)
    return f"s3://{bucket}/graph"
