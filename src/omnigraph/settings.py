"""Every setting that Omnigraph takes from the environment.

`Settings` is one frozen `Struct`. Each field is declared with its environment variable, how to read
it and a line of documentation, so that `docs/settings.md` can be checked against it. A value that
makes no sense is an error that names the variable; it is never ignored.

    >>> Settings.from_env({"OMNIGRAPH_QUERY_CACHE_SIZE": "64"}).query_cache_size
    64
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from omnigraph.errors import UsageError

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
#: Who makes vectors of texts.
EMBED_PROVIDERS = ("local", "openai-compatible", "gemini", "mock")


def _switch(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("give 1 or 0 (or true, false, yes, no, on, off)")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError("give a whole number, 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise ValueError("give a number of seconds above 0")
    return value


def _path(text: str) -> str:
    return text


def _uri_prefixes(text: str) -> tuple[str, ...]:
    prefixes = tuple(part.strip() for part in text.split(","))
    for prefix in prefixes:
        # An empty prefix would let everything in.
        if not prefix.partition("://")[0] or "://" not in prefix:
            raise ValueError("give URI prefixes, such as s3://bucket/images/, with commas between")
    return prefixes


def _provider(text: str) -> str:
    if text not in EMBED_PROVIDERS:
        raise ValueError(f"give one of {', '.join(EMBED_PROVIDERS)}")
    return text


def _url(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise ValueError("give a URL like https://host/v1")
    return text


def _text(text: str) -> str:
    return text


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1e-6 <= value <= 1e6:
        raise ValueError("give a number of requests per second above 0")
    return value


class _Declared(Struct, frozen=True):
    env: str
    default: Any
    read: Callable[[str], Any]
    doc: str
    secret: bool


#: The arguments of `_setting`, in the order of the fields of `Settings`.
_DECLARED: list[_Declared] = []


def _setting(
    env: str, default: Any, read: Callable[[str], Any], doc: str, *, secret: bool = False
) -> Any:
    """Declare a setting; returns the default of its field."""
    _DECLARED.append(_Declared(env, default, read, doc, secret))
    return default


class Documented(Struct, frozen=True):
    """What the documentation says about one setting."""

    name: str
    env: str
    default: str
    doc: str


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of a process.

    Attributes:
        debug: Show tracebacks of errors on the command line.
        query_cache_size: How many compiled query files to keep in memory.
        schema: Schema file for commands that name none.
        store: The graph for commands that name none.
        lock_wait_seconds: How long a write waits for the effect lock.
        lease_seconds: How long a lease on an object store outlives its holder.
        query_seconds: How long a query may run.
        query_mib: How much memory a query may use, in MiB.
        cache_mib: How much is cached in memory, and on disk, in MiB.
        maintenance_concurrency: How many parts of tables are compacted at a time.
        external_blobs: Prefixes of the URIs that Blob values may refer to.
        embed_provider: Who makes vectors of texts.
        embed_model: The model that makes them.
        embed_url: Where the provider is asked.
        embed_api_key: What the provider knows the caller by; never shown.
        embed_seconds: How long one answer of the provider may take.
        embed_rate: How many requests a second the provider is sent at most.
        spark_master: Where Spark runs.
        spark_ship: Send this package to the executors of a cluster.
        server_tokens_file: A file of those who may ask the server, and their tokens.
        server_tokens_json: The same, as a text; never shown.
        server_token: One token, without a name; never shown.
    """

    debug: bool = _setting(
        "OMNIGRAPH_DEBUG",
        False,
        _switch,
        "Show the traceback of an error on the command line, like `--debug`.",
    )
    query_cache_size: int = _setting(
        "OMNIGRAPH_QUERY_CACHE_SIZE",
        512,
        _count,
        "How many compiled query files to keep in memory; 0 keeps none.",
    )
    schema: str | None = _setting(
        "OMNIGRAPH_SCHEMA",
        None,
        _path,
        "Schema file for `lint`, `explain`, `schema show` and `init` without `--schema`.",
    )
    store: str | None = _setting(
        "OMNIGRAPH_STORE",
        None,
        _path,
        "The graph that commands work on when none is named: a path or `s3://bucket/prefix`.",
    )
    lock_wait_seconds: float = _setting(
        "OMNIGRAPH_LOCK_WAIT_SECONDS",
        60.0,
        _seconds,
        "How long a write waits for its turn before it gives up.",
    )
    lease_seconds: float = _setting(
        "OMNIGRAPH_LEASE_SECONDS",
        15.0,
        _seconds,
        "On object stores: how long a writer's lease lasts after its process has died.",
    )
    query_seconds: float = _setting(
        "OMNIGRAPH_QUERY_SECONDS",
        300.0,
        _seconds,
        "How long a query may run.",
    )
    query_mib: int = _setting(
        "OMNIGRAPH_QUERY_MIB",
        1024,
        _count,
        "How much memory a query may use for its matches and its answer, in MiB.",
    )
    cache_mib: int = _setting(
        "OMNIGRAPH_CACHE_MIB",
        1024,
        _count,
        "How much an open graph caches in memory, of all kinds together, and in files, in MiB.",
    )
    maintenance_concurrency: int = _setting(
        "OMNIGRAPH_MAINTENANCE_CONCURRENCY",
        8,
        _count,
        "How many parts of tables `optimize` rewrites at a time; 0 is as 1.",
    )
    external_blobs: tuple[str, ...] = _setting(
        "OMNIGRAPH_EXTERNAL_BLOBS",
        (),
        _uri_prefixes,
        "URI prefixes that written `Blob` values may refer to, with commas between;"
        " without any, only bytes can be written.",
    )
    embed_provider: str = _setting(
        "OMNIGRAPH_EMBED_PROVIDER",
        "local",
        _provider,
        "Who makes vectors of texts: `local` (offline), `openai-compatible`, `gemini`, or `mock`"
        " (for tests).",
    )
    embed_model: str | None = _setting(
        "OMNIGRAPH_EMBED_MODEL",
        None,
        _text,
        "The model that makes vectors; every provider has one that it takes when none is named.",
    )
    embed_url: str | None = _setting(
        "OMNIGRAPH_EMBED_URL",
        None,
        _url,
        "Where the embedding service is, such as `https://host/v1`, when it is not the provider's"
        " own.",
    )
    embed_api_key: str | None = _setting(
        "OMNIGRAPH_EMBED_API_KEY",
        None,
        _text,
        "The key for the embedding service. It is in no message and no log.",
        secret=True,
    )
    embed_seconds: float = _setting(
        "OMNIGRAPH_EMBED_SECONDS",
        30.0,
        _seconds,
        "How long one answer of the embedding service may take.",
    )
    embed_rate: float | None = _setting(
        "OMNIGRAPH_EMBED_RATE",
        None,
        _rate,
        "How many requests a second a process sends to the embedding service at most.",
    )
    spark_master: str | None = _setting(
        "OMNIGRAPH_SPARK_MASTER",
        None,
        _text,
        "Where Spark runs: `local[2]`, `spark://host:7077`, `yarn`, `sc://host`; without it, what"
        " Spark is configured to, or this machine.",
    )
    spark_ship: bool = _setting(
        "OMNIGRAPH_SPARK_SHIP",
        True,
        _switch,
        "Send this package to the executors of a Spark cluster; 0 if it is installed there.",
    )
    server_tokens_file: str | None = _setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
        None,
        _path,
        "A file with a JSON object of those who may ask the server, and their tokens.",
    )
    server_tokens_json: str | None = _setting(
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON",
        None,
        _text,
        "The same object as a text. It is in no message and no log.",
        secret=True,
    )
    server_token: str | None = _setting(
        "OMNIGRAPH_SERVER_BEARER_TOKEN",
        None,
        _text,
        "One token, of the actor `default`. It is in no message and no log.",
        secret=True,
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from environment variables; an empty variable counts as not set.

        Args:
            environ: The variables; those of the process when left out.

        Raises:
            UsageError: A variable has a value that makes no sense.
        """
        source = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for name, item in _declared():
            text = source.get(item.env, "").strip()
            if not text:
                continue
            try:
                values[name] = item.read(text)
            except ValueError as fault:
                raise UsageError(f"{item.env}={text!r} makes no sense: {fault}") from None
        return cls(**values)

    @classmethod
    def documented(cls) -> tuple[Documented, ...]:
        """List every setting with its variable, its default and its documentation line."""
        return tuple(
            Documented(name, item.env, _shown(item.default), item.doc) for name, item in _declared()
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Settings({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name, item in _declared() if not item.secret]


def _declared() -> Iterator[tuple[str, _Declared]]:
    """The settings by the name of their field."""
    return zip(Settings.__struct_fields__, _DECLARED, strict=True)


def _shown(default: object) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, bool):
        return "1" if default else "0"
    return str(default)
