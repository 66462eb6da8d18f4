"""Services with OpenAI's interface for embeddings: OpenAI, and many that run models themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.embedding.embedder import Purpose
from omnigraph.embedding.service import Service
from omnigraph.errors import EmbeddingError

NAME = "openai-compatible"
URL = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"


@dataclass
class OpenAICompatible:
    """Asks `{url}/embeddings`. The interface does not distinguish documents from queries."""

    service: Service
    model: str = MODEL
    name: str = NAME
    batch: int = 128
    #: False for a server that refuses a size; the answer's size is checked anyway.
    _sends_size: bool = field(default=True, init=False)

    @property
    def place(self) -> str:
        """The host that is asked."""
        return self.service.host

    def embed(
        self, texts: Sequence[str], purpose: Purpose, dimension: int, deadline: float | None
    ) -> npt.NDArray[np.float64]:
        """Make the vectors; see `Provider`."""
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self._sends_size:
            try:
                answer = self.service.post(
                    "/embeddings", {**body, "dimensions": dimension}, deadline
                )
            except EmbeddingError as error:
                if error.status not in (400, 422) or not _about_size(error.message):
                    raise
                self._sends_size = False
        if not self._sends_size:
            answer = self.service.post("/embeddings", body, deadline)
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.service.wrong("its answer has no list `data`")
        places = [item.get("index", place) for place, item in enumerate(items)]
        if any(type(p) is not int for p in places) or set(places) != set(range(len(items))):
            raise self.service.wrong("the vectors of its answer are not numbered from 0")
        ordered = sorted(zip(places, items, strict=True), key=lambda pair: pair[0])
        return self.service.numbers([item.get("embedding") for _, item in ordered])


def _about_size(message: str) -> bool:
    words = message.lower()
    return "dimension" in words or "matryoshka" in words
