"""Text → compiled queries, cached by text and schema."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from types import MappingProxyType

from omnigraph.diagnostics import Diagnostic, Report, TooManyErrors
from omnigraph.errors import QueryError
from omnigraph.language.query.check import check_file
from omnigraph.language.query.compiled import QueryFile
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.stream import TokenStream

#: How many texts a cache holds by default.
DEFAULT_CACHE_SIZE = 512


class QueryCache:
    """Keeps the compiled form of the texts used last. Safe to share between threads."""

    def __init__(self, size: int = DEFAULT_CACHE_SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[str, str, str | None], QueryFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def compile(self, text: str, catalog: Catalog, *, path: str | None = None) -> QueryFile:
        """Compile a text, or give what compiling it against the same schema gave before."""
        # The path is part of the key because warnings show it.
        key = (text, catalog.identity_hash, path)
        with self._lock:
            file = self._files.get(key)
            if file is not None:
                self._files.move_to_end(key)
                return file
        file = _compile(text, catalog, path)
        with self._lock:
            self._files[key] = file
            while len(self._files) > self._size:
                self._files.popitem(last=False)
        return file


_cache = QueryCache()


def compile_queries(text: str, catalog: Catalog, *, path: str | None = None) -> QueryFile:
    """Compile a `.gq` text against a schema.

    Args:
        text: One or more queries.
        catalog: The compiled schema.
        path: Name of the text in messages.

    Raises:
        QueryError: The text has mistakes; all of them are listed.
    """
    return _cache.compile(text, catalog, path=path)


def check_queries(
    text: str, catalog: Catalog, *, path: str | None = None
) -> tuple[QueryFile, tuple[Diagnostic, ...]]:
    """Compile what can be compiled; give it with every error and warning. Never raises."""
    report = Report(text, path)
    queries = {}
    with suppress(TooManyErrors):
        queries = check_file(parse_queries(TokenStream(report)), report, catalog)
    diagnostics = report.diagnostics
    warnings = tuple(d for d in diagnostics if d.severity == "warning")
    return QueryFile(MappingProxyType(queries), warnings), diagnostics


def _compile(text: str, catalog: Catalog, path: str | None) -> QueryFile:
    file, diagnostics = check_queries(text, catalog, path=path)
    if any(d.severity == "error" for d in diagnostics):
        raise QueryError(diagnostics)
    return file
