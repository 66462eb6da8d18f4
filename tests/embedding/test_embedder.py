"""The embedder and its cache, with providers that count what they are asked."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph
from omnigraph.embedding.cache import FILE, VectorCache
from omnigraph.embedding.embedder import Embedder, Purpose
from omnigraph.embedding.mock import Mock
from omnigraph.embedding.providers import embedder_of
from omnigraph.errors import EmbeddingError, UsageError
from omnigraph.settings import Settings
from tests.embedding.servers import Answer, Asked, one_hot, serving


@dataclass
class Counting:
    """A mock that notes the texts it is asked for."""

    model: str = "counting"
    name: str = "mock"
    place: str = "here"
    batch: int = 10
    #: The text that it fails at.
    fails_at: str | None = None
    asked: list[str] = field(default_factory=list)

    def embed(
        self, texts: Sequence[str], purpose: Purpose, dimension: int, deadline: float | None
    ) -> Any:
        if self.fails_at in texts:
            raise EmbeddingError("no more")
        self.asked += texts
        return Mock().embed(texts, purpose, dimension, deadline)


# --- the mock ---


def test_the_mock_gives_each_text_its_own_vector_always():
    made = embedder_of(Settings(embed_provider="mock"))
    found = made.embed(["a", "b", "a"], 5)
    assert found[0].tolist() == found[2].tolist() != found[1].tolist()
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)
    assert found[0].tolist() == made.embed(["a"], 5, "query")[0].tolist()
    # Not a different one with the next version, the next process or another machine.
    expected = [0.2783675, 0.531711, -0.7330136, 0.1675489, -0.2727881]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dimension", [1, 3, 1536])
def test_the_mock_makes_any_size_under_any_name(dimension):
    made = embedder_of(Settings(embed_provider="mock", embed_model="test"))
    assert made.embed(["a"], dimension).shape == (1, dimension)
    assert made.is_model("test")


# --- in memory ---


def test_a_text_is_asked_for_once():
    provider = Counting()
    made = Embedder(provider)
    first = made.embed(["a", "b", "a"], 4)
    again = made.embed(["b", "a", "c"], 4)
    assert provider.asked == ["a", "b", "c"]
    assert again[:2].tolist() == [first[1].tolist(), first[0].tolist()]


def test_size_purpose_and_model_are_told_apart():
    provider = Counting()
    made = Embedder(provider)
    made.embed(["a"], 4)
    made.embed(["a"], 8)
    made.embed(["a"], 4, "query")
    other = Counting(model="other")
    Embedder(other, made.cache).embed(["a"], 4)
    elsewhere = Counting(place="there")
    Embedder(elsewhere, made.cache).embed(["a"], 4)
    assert provider.asked == ["a"] * 3
    assert other.asked == elsewhere.asked == ["a"]


def test_what_a_caller_changes_stays_out_of_the_cache():
    made = Embedder(Counting())
    first = made.embed(["a"], 4)
    kept = first.tolist()
    first[:] = 0
    assert made.embed(["a"], 4).tolist() == kept


def test_memory_keeps_what_was_used_last():
    provider = Counting()
    made = Embedder(provider, VectorCache(memory_bytes=3 * 4 * 4))
    made.embed(["a", "b", "c"], 4)
    made.embed(["a"], 4)
    made.embed(["d"], 4)
    provider.asked.clear()
    made.embed(["a", "c", "d"], 4)
    assert provider.asked == []
    made.embed(["b"], 4)
    assert provider.asked == ["b"]


def test_what_was_made_before_a_failure_is_kept(tmp_path):
    texts = [str(n) for n in range(25)]
    with pytest.raises(EmbeddingError, match="no more"):
        Embedder(Counting(fails_at="22"), VectorCache(tmp_path)).embed(texts, 4)
    again = Counting()
    Embedder(again, VectorCache(tmp_path)).embed(texts, 4)
    assert again.asked == texts[20:]


def test_an_empty_text_is_refused_before_anything_is_asked():
    provider = Counting()
    with pytest.raises(UsageError, match="text 3 of 3 is empty"):
        Embedder(provider).embed(["a", "b", " "], 4)
    assert provider.asked == []


def test_very_large_and_very_small_numbers_keep_their_direction():
    class Extreme(Counting):
        def embed(self, texts: Any, *given: Any) -> Any:
            return np.array([[3e300, 4e300], [3e-300, 4e-300]])

    found = Embedder(Extreme()).embed(["a", "b"], 2)
    assert found == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8]]))


# --- on disk ---


def test_a_folder_serves_the_next_process(tmp_path):
    folder = tmp_path / "new" / "folder"
    first = Embedder(Counting(), VectorCache(folder)).embed(["a", "b"], 4)
    provider = Counting()
    again = Embedder(provider, VectorCache(folder)).embed(["b", "c", "a"], 4)
    assert provider.asked == ["c"]
    assert again[[2, 0]].tolist() == first.tolist()


def test_many_texts_are_found_again(tmp_path):
    texts = [f"text {n}" for n in range(1700)]
    first = Embedder(Counting(), VectorCache(tmp_path)).embed(texts, 4)
    provider = Counting()
    again = Embedder(provider, VectorCache(tmp_path)).embed(texts[::-1], 4)
    assert provider.asked == []
    assert again[::-1].tolist() == first.tolist()


def test_the_texts_are_not_on_disk(tmp_path):
    Embedder(Counting(), VectorCache(tmp_path)).embed(["very private words"], 4)
    assert b"private" not in (tmp_path / FILE).read_bytes()


def test_the_oldest_make_room_on_disk(tmp_path):
    cache = VectorCache(tmp_path, disk_bytes=200_000, memory_bytes=0)
    made = Embedder(Counting(), cache)
    for start in range(0, 1000, 50):
        made.embed([str(n) for n in range(start, start + 50)], 100)
    assert (tmp_path / FILE).stat().st_size < 300_000
    provider = Counting()
    Embedder(provider, VectorCache(tmp_path)).embed([str(n) for n in range(950, 1000)], 100)
    assert provider.asked == []
    Embedder(provider, VectorCache(tmp_path)).embed(["0"], 100)
    assert provider.asked == ["0"]


def test_a_damaged_file_is_replaced(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database" * 1000)
    Embedder(Counting(), VectorCache(tmp_path)).embed(["a"], 4)
    provider = Counting()
    Embedder(provider, VectorCache(tmp_path)).embed(["a"], 4)
    assert provider.asked == []


def test_a_vector_of_the_wrong_size_is_made_again(tmp_path):
    Embedder(Counting(), VectorCache(tmp_path)).embed(["a"], 4)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("UPDATE vectors SET vector = x'0000'")
    provider = Counting()
    assert Embedder(provider, VectorCache(tmp_path)).embed(["a"], 4).shape == (1, 4)
    assert provider.asked == ["a"]


def test_a_damaged_vector_is_made_again(tmp_path):
    expected = Embedder(Counting(), VectorCache(tmp_path)).embed(["a"], 4)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        (stored,) = connection.execute("SELECT vector FROM vectors").fetchone()
        damaged = bytes([stored[0] ^ 1, *stored[1:]])
        connection.execute("UPDATE vectors SET vector = ?", (damaged,))
    for asked in (["a"], []):
        provider = Counting()
        found = Embedder(provider, VectorCache(tmp_path)).embed(["a"], 4)
        assert found.tolist() == expected.tolist()
        assert provider.asked == asked


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    provider = Counting()
    made = Embedder(provider, VectorCache(tmp_path / "file" / "folder"))
    assert made.embed(["a"], 4).shape == (1, 4)


def test_a_file_that_is_locked_for_long_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setattr("omnigraph.embedding.cache._PATIENCE_SECONDS", 0.05)
    made = Embedder(Counting(), VectorCache(tmp_path))
    made.embed(["a"], 4)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert made.embed(["b"], 4).shape == (1, 4)
        connection.rollback()
    assert (tmp_path / FILE).exists()


LOADER = """
import pathlib, sys
from omnigraph.embedding.cache import VectorCache
from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.mock import Mock

first = int(sys.argv[2])
texts = [f"text {n}" for n in range(first, first + 180)]
made = Embedder(Mock(place="here"), VectorCache(pathlib.Path(sys.argv[1]), memory_bytes=0))
expected = Embedder(Mock()).embed(texts, 16).tolist()
print("ready", flush=True)
sys.stdin.readline()
for begin in range(0, len(texts), 5):
    part = slice(begin, begin + 5)
    assert made.embed(texts[part], 16).tolist() == expected[part]
"""


def test_several_processes_share_a_folder(tmp_path):
    # They begin at different places and overlap.
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", LOADER, str(tmp_path), str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(omnigraph.__file__).parents[1])},
        )
        for first in (0, 60, 120)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    texts = [f"text {n}" for n in range(300)]
    provider = Counting(model="mock")
    Embedder(provider, VectorCache(tmp_path)).embed(texts, 16)
    assert provider.asked == []
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (300,)


# --- which providers use the disk ---


def test_vectors_of_a_service_are_kept_on_disk(tmp_path):
    def answer(asked: Asked, number: int) -> Answer:
        data = [{"index": n, "embedding": one_hot(1, 4)} for n in range(len(asked.body["input"]))]
        return Answer(200, {"data": data})

    with serving(answer) as service:
        settings = Settings(embed_provider="openai-compatible", embed_url=service.url)
        for _ in range(2):
            embedder_of(settings, tmp_path).embed(["a"], 4, "query")
        assert len(service.asked) == 1


def test_vectors_of_the_local_model_are_not_kept_on_disk(tmp_path):
    embedder_of(Settings(), tmp_path).embed(["a"], 64)
    assert list(tmp_path.iterdir()) == []
