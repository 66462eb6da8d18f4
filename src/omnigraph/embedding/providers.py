"""Which provider the settings choose."""

from __future__ import annotations

from pathlib import Path

from omnigraph.embedding import gemini, local, mock, openai
from omnigraph.embedding.cache import VectorCache
from omnigraph.embedding.embedder import Embedder, Provider
from omnigraph.embedding.service import Service
from omnigraph.errors import UsageError
from omnigraph.settings import EMBED_PROVIDERS, Settings


def embedder_of(settings: Settings, folder: Path | None = None) -> Embedder:
    """Make the embedder that the settings describe. Nothing is loaded or asked yet.

    Args:
        settings: Their `embed_` part chooses the provider and its model.
        folder: Where vectors of services are cached from run to run; nowhere by default. What the
            local model computes is computed again faster than it is read.

    Raises:
        UsageError: The settings do not fit together.

    Example:
        >>> embedder_of(Settings()).identifier
        'local/wordllama-l2-supercat'
    """
    provider = _provider(settings)
    return Embedder(provider, VectorCache(folder if provider.place else None))


def _provider(settings: Settings) -> Provider:
    model = settings.embed_model
    match settings.embed_provider:
        case "local":
            if model not in (None, local.MODEL):
                raise UsageError(
                    f"OMNIGRAPH_EMBED_MODEL is `{model}`, but the provider `local` has only"
                    f" `{local.MODEL}`; leave it out, or set OMNIGRAPH_EMBED_PROVIDER"
                )
            return local.Local()
        case "mock":
            return mock.Mock(model or mock.MODEL)
        case "openai-compatible":
            key = settings.embed_api_key
            if settings.embed_url is None and key is None:
                raise _no_key(openai.NAME)
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            service = _service(settings, openai.NAME, openai.URL, headers)
            return openai.OpenAICompatible(service, model or openai.MODEL)
        case "gemini":
            key = settings.embed_api_key
            if key is None:
                raise _no_key(gemini.NAME)
            service = _service(settings, gemini.NAME, gemini.URL, {"x-goog-api-key": key})
            name = (model or gemini.MODEL).removeprefix("models/")
            return gemini.Gemini(service, name)
        case other:
            names = ", ".join(EMBED_PROVIDERS)
            raise UsageError(f"there is no embedding provider `{other}`; there are {names}")


def _service(settings: Settings, name: str, url: str, headers: dict[str, str]) -> Service:
    return Service(
        name,
        settings.embed_url or url,
        headers,
        secret=settings.embed_api_key,
        timeout=settings.embed_seconds,
        rate=settings.embed_rate,
    )


def _no_key(name: str) -> UsageError:
    return UsageError(
        f"the embedding provider `{name}` needs a key: set OMNIGRAPH_EMBED_API_KEY, or choose"
        " another provider with OMNIGRAPH_EMBED_PROVIDER"
    )
