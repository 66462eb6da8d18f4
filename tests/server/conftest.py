from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.graph import init
from tests.server.process import Server

SCHEMA = """
node Person {
  name: String @key
  age: I64? @range(age, 0..150)
  score: F64?
  at: DateTime?
  photo: Blob?
}
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "team.omni"
    init(place, SCHEMA).close()
    return place


@pytest.fixture(scope="module", params=["1", "2"])
def server(
    place: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that is open to everybody, of one process and of two."""
    folder = tmp_path_factory.mktemp("server")
    place = folder / "team.omni"
    init(place, SCHEMA).close()
    server = Server(folder, str(place), "--unauthenticated", "--workers", request.param)
    yield server
    assert server.stop() == 0
