"""Google's Gemini API, which makes different vectors of documents and of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from omnigraph.embedding.embedder import Purpose
from omnigraph.embedding.service import Service

NAME = "gemini"
URL = "https://generativelanguage.googleapis.com/v1beta"
MODEL = "gemini-embedding-001"
_TASKS = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}


@dataclass
class Gemini:
    """Asks `{url}/models/{model}:batchEmbedContents`."""

    service: Service
    model: str = MODEL
    name: str = NAME
    batch: int = 100

    @property
    def place(self) -> str:
        """The host that is asked."""
        return self.service.host

    def embed(
        self, texts: Sequence[str], purpose: Purpose, dimension: int, deadline: float | None
    ) -> npt.NDArray[np.float64]:
        """Make the vectors; see `Provider`."""
        requests = [
            {
                "model": f"models/{self.model}",
                "content": {"parts": [{"text": text}]},
                "taskType": _TASKS[purpose],
                "outputDimensionality": dimension,
            }
            for text in texts
        ]
        path = f"/models/{quote(self.model, safe='')}:batchEmbedContents"
        answer = self.service.post(path, {"requests": requests}, deadline)
        items = answer.get("embeddings") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.service.wrong("its answer has no list `embeddings`")
        return self.service.numbers([item.get("values") for item in items])
