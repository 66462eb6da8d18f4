"""The cache of compiled queries: what it shares, what it forgets, and that threads may use it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.query.compiled import QueryFile
from omnigraph.language.query.compiler import QueryCache, compile_queries
from omnigraph.language.schema.compiler import compile_schema

CATALOG = compile_schema("node Person { name: String @key }")
OTHER = compile_schema("node Person { name: String @key  age: I32? }")


def text(number: int) -> str:
    return f"query q{number}() {{ match {{ $p: Person }} return {{ $p }} }}"


def test_the_same_text_and_schema_give_the_same_object() -> None:
    assert compile_queries(text(1), CATALOG) is compile_queries(text(1), CATALOG)


def test_an_equal_schema_compiled_again_gives_the_same_object() -> None:
    again = compile_schema("node Person { name: String @key }")
    assert compile_queries(text(1), again) is compile_queries(text(1), CATALOG)


def test_another_schema_is_compiled_again() -> None:
    cache = QueryCache()
    everything = "query q() { match { $p: Person } return { $p.name } }"
    first = cache.compile(everything, CATALOG)
    assert cache.compile(everything, OTHER) is not first
    assert len(cache) == 2


def test_an_error_is_not_cached_and_is_raised_every_time() -> None:
    cache = QueryCache()
    for _ in range(2):
        with pytest.raises(QueryError):
            cache.compile("query q() { match { $p: Nobody } return { $p } }", CATALOG)
    assert len(cache) == 0


def test_warnings_show_the_path_that_was_asked_for() -> None:
    cache = QueryCache()
    warned = "query q($x: I32) { match { $p: Person } return { $p } }"
    for path in ("a.gq", "b.gq", None):
        (warning,) = cache.compile(warned, CATALOG, path=path).warnings
        assert warning.path == path


def test_the_least_recently_used_text_is_forgotten_first() -> None:
    cache = QueryCache(size=2)
    first = cache.compile(text(1), CATALOG)
    second = cache.compile(text(2), CATALOG)
    assert cache.compile(text(1), CATALOG) is first
    cache.compile(text(3), CATALOG)
    assert len(cache) == 2
    assert cache.compile(text(1), CATALOG) is first
    assert cache.compile(text(2), CATALOG) is not second


def test_threads_may_share_a_cache() -> None:
    cache = QueryCache(size=8)
    start = threading.Barrier(8)

    def work(seed: int) -> list[QueryFile]:
        start.wait()
        return [cache.compile(text((seed * 7 + n) % 16), CATALOG) for n in range(100)]

    with ThreadPoolExecutor(8) as pool:
        for seed, files in enumerate(pool.map(work, range(8))):
            assert [list(f.queries) for f in files] == [
                [f"q{(seed * 7 + n) % 16}"] for n in range(100)
            ]
    assert len(cache) == 8


def test_compiled_queries_cannot_be_changed() -> None:
    file = compile_queries(text(1), CATALOG)
    with pytest.raises(TypeError):
        file.queries["q2"] = file.queries["q1"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        file.queries["q1"].name = "other"  # type: ignore[misc]
