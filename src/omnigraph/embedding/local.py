"""The offline model: token vectors of WordLlama, averaged over a text.

The package `wordllama` brings the model in its wheel; it is read from there, and nothing is ever
downloaded. The package's own code is not imported: that takes most of a second and sets up logging
for the whole process.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from omnigraph.embedding.embedder import Purpose
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL = "wordllama-l2-supercat"
#: The model is trained so that the first 64 and 128 numbers of a vector are good vectors, too.
DIMENSIONS = (64, 128, 256)
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"
#: How many tokens are added up at a time, so that a long text takes little memory.
_BLOCK = 4096
_guard = threading.Lock()


@dataclass(frozen=True)
class Local:
    """Makes vectors in this process, the same for both purposes."""

    name: str = "local"
    model: str = MODEL
    place: str = ""
    batch: int = 1024

    def embed(
        self, texts: Sequence[str], purpose: Purpose, dimension: int, deadline: float | None
    ) -> npt.NDArray[np.float64]:
        """Make the vectors; see `Provider`."""
        if dimension not in DIMENSIONS:
            raise UsageError(
                f"the local model `{MODEL}` makes vectors of 64, 128 or 256 numbers, not"
                f" {dimension}; declare the property as Vector(256), or choose another provider"
                " with OMNIGRAPH_EMBED_PROVIDER"
            )
        with _guard:
            tokenizer, weights = _model()
        rows = np.zeros((len(texts), dimension))
        for row, text in enumerate(texts):
            # One by one: encoding in batches starts threads, and pads to the longest text.
            ids = np.asarray(tokenizer.encode(text, add_special_tokens=False).ids, np.int64)
            for start in range(0, len(ids), _BLOCK):
                block = weights[ids[start : start + _BLOCK], :dimension]
                rows[row] += block.sum(axis=0, dtype=np.float64)
            rows[row] /= max(len(ids), 1)
        return rows


@lru_cache(maxsize=1)
def _model() -> tuple[Tokenizer, npt.NDArray[Any]]:
    """The tokenizer, and a vector for each token."""
    package = importlib.util.find_spec("wordllama")
    try:
        from safetensors import safe_open
        from tokenizers import Tokenizer
    except ImportError:
        package = None
    if package is None or not package.submodule_search_locations:
        raise UsageError(
            "the local embedding model is not installed: run `pip install 'omnigraph[embed]'`, or"
            " choose another provider with OMNIGRAPH_EMBED_PROVIDER"
        )
    folder = Path(package.submodule_search_locations[0])
    for file in (_WEIGHTS, _TOKENS):
        if not (folder / file).is_file():
            raise UsageError(
                f"the installed `wordllama` has no file {file}; run `pip install --upgrade"
                " --force-reinstall 'omnigraph[embed]'`"
            )
    tokenizer = Tokenizer.from_file(str(folder / _TOKENS))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with safe_open(str(folder / _WEIGHTS), framework="np") as file:
        weights = file.get_tensor("embedding.weight")
    return tokenizer, weights
