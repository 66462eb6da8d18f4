"""The embedder: texts in, vectors of unit length out, whichever provider makes them.

It sends each different text once, in batches that providers accept, checks every answer, and
caches the vectors. What is finished before a later batch fails is cached as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.embedding.cache import VectorCache
from omnigraph.errors import EmbeddingError, UsageError

#: What a vector is for. Some models make different ones of what is stored and what is asked.
Purpose = Literal["document", "query"]
Floats = npt.NDArray[np.float32]

#: How many characters of texts are sent in one request, unless a single text is longer.
_CHARACTERS = 200_000


class Provider(Protocol):
    """Something that makes vectors of texts.

    Attributes:
        name: What the setting calls it.
        model: The model that it uses.
        place: Where it is asked, for messages; empty when that is this process.
        batch: How many texts it takes at a time.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def model(self) -> str: ...  # noqa: D102

    @property
    def place(self) -> str: ...  # noqa: D102

    @property
    def batch(self) -> int: ...  # noqa: D102

    def embed(
        self, texts: Sequence[str], purpose: Purpose, dimension: int, deadline: float | None
    ) -> npt.NDArray[np.float64] | Floats:
        """Make the vectors of texts that are not empty, in their order.

        Args:
            texts: At most `batch` of them.
            purpose: What the vectors are for.
            dimension: How many numbers a vector is to have.
            deadline: When to give up, as `time.monotonic()` counts.

        Raises:
            UsageError: The provider cannot make such vectors, or is not set up.
            EmbeddingError: It failed.
        """


@dataclass
class Embedder:
    """Makes vectors of texts. Safe to share between threads.

    Attributes:
        provider: What makes the vectors.
        cache: The vectors that were computed before.
    """

    provider: Provider
    cache: VectorCache = field(default_factory=VectorCache)

    @property
    def identifier(self) -> str:
        """The provider and its model, such as `local/wordllama-l2-supercat`."""
        return f"{self.provider.name}/{self.provider.model}"

    def is_model(self, name: str) -> bool:
        """True when a name is that of the model, with or without the provider before it."""
        return name in (self.provider.model, self.identifier)

    def embed(
        self,
        texts: Sequence[str],
        dimension: int,
        purpose: Purpose = "document",
        deadline: float | None = None,
    ) -> Floats:
        """Make the vectors of texts.

        Args:
            texts: Any number of texts; the same text may come more than once.
            dimension: How many numbers a vector has.
            purpose: What the vectors are for: to be stored, or to search with.
            deadline: When to give up, as `time.monotonic()` counts; never by default.

        Returns:
            One row per text, in their order, each of length 1.

        Raises:
            UsageError: A text is empty, or the provider cannot make such vectors.
            EmbeddingError: The provider failed, or answered what cannot be right.

        Example:
            >>> embedder_of(Settings()).embed(["a cat", "a dog"], 256).shape
            (2, 256)
        """
        for place, text in enumerate(texts):
            if not text.strip():
                raise UsageError(f"text {place + 1} of {len(texts)} is empty: it has no vector")
        keys = [self._key(text, purpose, dimension) for text in texts]
        by_key = self.cache.get(keys, dimension)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in by_key}
        for part in _batches(missing, self.provider.batch):
            wanted = [missing[key] for key in part]
            answer = self.provider.embed(wanted, purpose, dimension, deadline)
            vectors = self._checked(answer, len(wanted), dimension)
            new = dict(zip(part, vectors, strict=True))
            self.cache.put(new)
            by_key.update(new)
        whole = np.empty((len(texts), dimension), np.float32)
        for row, key in enumerate(keys):
            whole[row] = by_key[key]
        return whole

    def _key(self, text: str, purpose: Purpose, dimension: int) -> bytes:
        about = (self.identifier, self.provider.place, purpose, str(dimension), text)
        return hashlib.sha256("\0".join(about).encode("utf-8", "surrogatepass")).digest()

    def _checked(
        self, vectors: npt.NDArray[np.float64] | Floats, count: int, dimension: int
    ) -> Floats:
        """The vectors with length 1, if they are what was asked for."""
        if len(vectors) != count:
            raise self._wrong(f"gave {len(vectors)} vectors for {count} texts")
        if vectors.shape != (count, dimension):
            raise self._wrong(
                f"gave vectors of {vectors.shape[1]} numbers, not {dimension}",
                f"declare the property with the model's size, or choose a model that can give"
                f" {dimension} numbers",
            )
        wide = vectors.astype(np.float64)
        if not np.isfinite(wide).all():
            raise self._wrong("gave a vector with a number that is not finite")
        largest = np.abs(wide).max(axis=1, keepdims=True)
        if not largest.all():
            raise self._wrong("gave a vector of zeros, which has no direction")
        # By the largest number first: squares of very large ones would be infinite.
        wide /= largest
        wide /= np.sqrt((wide * wide).sum(axis=1, keepdims=True))
        return wide.astype(np.float32)

    def _wrong(self, what: str, hint: str | None = None) -> EmbeddingError:
        where = self.provider.name + (f" at {self.provider.place}" if self.provider.place else "")
        hint = hint or "check that the model is one for embedding"
        return EmbeddingError(f"{where} {what} (model `{self.provider.model}`); {hint}")


def _batches(texts: Mapping[bytes, str], most: int) -> Iterator[list[bytes]]:
    """The keys of texts, as many together as may be sent at a time."""
    part: list[bytes] = []
    size = 0
    for key, text in texts.items():
        if part and (len(part) == most or size + len(text) > _CHARACTERS):
            yield part
            part, size = [], 0
        part.append(key)
        size += len(text)
    if part:
        yield part
