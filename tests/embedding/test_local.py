"""The offline model: what it makes, and that it needs nothing but its package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from omnigraph.embedding import local
from omnigraph.embedding.providers import embedder_of
from omnigraph.errors import UsageError
from omnigraph.settings import Settings

TEXTS = [
    "The cat sleeps on the sofa.",
    "A kitten naps on the couch.",
    "Central banks raise interest rates.",
]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch):
    """Nothing is loaded, before and after."""
    local._model.cache_clear()
    yield monkeypatch
    local._model.cache_clear()


@pytest.mark.parametrize("dimension", [64, 128, 256])
def test_similar_texts_are_nearer(dimension):
    cat, kitten, bank = embedder_of(Settings()).embed(TEXTS, dimension)
    assert cat @ kitten > cat @ bank + 0.2
    assert cat @ kitten > kitten @ bank + 0.2


def test_vectors_have_length_one_and_the_type_of_stored_ones():
    found = embedder_of(Settings()).embed(TEXTS, 128)
    assert found.shape == (3, 128)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)


def test_vectors_are_those_of_the_package(tmp_path):
    """The package is run apart: importing it sets up logging for the whole process."""
    script = (
        "import sys, pathlib, numpy, wordllama\n"
        "folder = pathlib.Path(wordllama.__file__).parent\n"
        "model = wordllama.WordLlama.load(cache_dir=folder, trunc_dim=64, disable_download=True)\n"
        "numpy.save(sys.argv[1], model.embed(sys.argv[2:], norm=True))\n"
    )
    file = tmp_path / "theirs.npy"
    subprocess.run([sys.executable, "-c", script, str(file), *TEXTS], check=True)
    ours = embedder_of(Settings()).embed(TEXTS, 64)
    assert ours == pytest.approx(np.load(file), abs=1e-6)


def test_a_shorter_vector_is_the_beginning_of_a_longer_one():
    made = embedder_of(Settings())
    cut = made.embed(TEXTS, 256)[:, :64]
    cut /= np.linalg.norm(cut, axis=1, keepdims=True)
    assert made.embed(TEXTS, 64) == pytest.approx(cut, abs=1e-6)


def test_a_text_has_the_same_vector_in_any_company():
    (alone,) = embedder_of(Settings()).embed(TEXTS[:1], 256)
    among = embedder_of(Settings()).embed([*TEXTS[1:], "x " * 3000, TEXTS[0]], 256)
    assert among[-1].tolist() == alone.tolist()


def test_a_long_text_is_taken_whole(monkeypatch):
    text = "cat " * 50 + "bank " * 50
    (whole,) = embedder_of(Settings()).embed([text], 64)
    monkeypatch.setattr(local, "_BLOCK", 7)
    (in_parts,) = embedder_of(Settings()).embed([text], 64)
    assert in_parts == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("text", ["\0", "☃", "日本語のテキスト", "a\n\tb", "x" * 10_000])
def test_any_text_has_a_vector(text):
    assert np.isfinite(embedder_of(Settings()).embed([text], 64)).all()


@pytest.mark.parametrize("text", ["", " \t\n"])
def test_an_empty_text_is_refused(text):
    with pytest.raises(UsageError, match="text 2 of 2 is empty"):
        embedder_of(Settings()).embed(["a", text], 64)


def test_no_texts_have_no_vectors():
    assert embedder_of(Settings()).embed([], 64).shape == (0, 64)


@pytest.mark.parametrize("dimension", [1, 3, 100, 512, 1024])
def test_other_sizes_are_refused(dimension):
    with pytest.raises(UsageError, match=f"64, 128 or 256 numbers, not {dimension}; declare"):
        embedder_of(Settings()).embed(["a"], dimension)


@pytest.mark.parametrize("package", ["wordllama", "tokenizers", "safetensors"])
def test_without_the_package_the_message_says_how_to_install_it(fresh, package):
    fresh.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"run `pip install 'omnigraph\[embed\]'`"):
        embedder_of(Settings()).embed(["a"], 64)


def test_a_package_without_the_model_is_told(fresh, tmp_path):
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama" / "__init__.py").write_text("")
    fresh.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="has no file weights/"):
        embedder_of(Settings()).embed(["a"], 64)


def test_nothing_is_asked_of_the_network_and_no_logging_is_set_up():
    script = (
        "import logging, socket, sys\n"
        "def refuse(*given): raise AssertionError(given)\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from omnigraph.embedding.providers import embedder_of\n"
        "from omnigraph.settings import Settings\n"
        "made = embedder_of(Settings())\n"
        "assert not {'tokenizers', 'safetensors'} & set(sys.modules)\n"
        "assert made.embed(['a cat'], 256).shape == (1, 256)\n"
        "assert not {'wordllama', 'requests', 'huggingface_hub'} & set(sys.modules)\n"
        "assert logging.getLogger().handlers == []\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(local.__file__).parents[2]), "HOME": "/nowhere"},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
