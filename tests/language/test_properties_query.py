"""What holds for every well-typed query: it compiles, survives formatting, and takes parameters."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings

from omnigraph.errors import QueryError
from omnigraph.language import (
    Catalog,
    CompiledQuery,
    bind_parameters,
    check_queries,
    compile_queries,
    compile_schema,
    format_queries,
    lint,
)
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.values import coerce, to_json
from tests.language.generators import (
    Source,
    comments,
    from_random,
    json_value,
    run_many,
    sources,
    without_places,
)
from tests.language.query_generators import RICH_SCHEMA, query_text
from tests.language.schema_generators import schema_model

PROFILE = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@cache
def rich() -> Catalog:
    return compile_schema(RICH_SCHEMA)


def drawn_catalog(source: Source) -> Catalog:
    """The rich schema, or sometimes a random one."""
    if source.chance(70):
        return rich()
    return compile_schema(schema_model(source, size=3).write(source, noise=0))


def compiled(text: str, catalog: Catalog) -> dict[str, CompiledQuery]:
    file, found = check_queries(text, catalog)
    errors = [d.render() for d in found if d.severity == "error"]
    assert not errors, "\n".join([*errors, text])
    return dict(file.queries)


def check_compiling(source: Source) -> None:
    catalog = drawn_catalog(source)
    text = query_text(source, catalog)
    queries = compiled(text, catalog)
    assert list(compile_queries(text, catalog).queries) == list(queries)
    for query in queries.values():
        described = json.loads(json.dumps(query.describe()))
        assert described["kind"] == ("mutation" if query.is_mutation else "read")
        assert query.explain()
        assert text[query.span[0] : query.span[1]] == query.source
        assert query.source.startswith("query") and query.source.endswith("}")
        for parameter in query.parameters:
            start, end = parameter.span
            assert text[start] == "$" and query.span[0] < start < end < query.span[1]
        assert set(query.reads) | set(query.writes) <= {*catalog.nodes, *catalog.edges}
        if isinstance(query.plan, ReadPlan):
            assert [f.name for f in query.fields] == [o.name for o in query.plan.outputs]
            assert query.reads and not query.writes
        else:
            assert query.writes and not query.fields
        # A query alone means the same as in its file.
        (alone,) = compiled(query.source, catalog).values()
        assert repr(without_places(alone)) == repr(without_places(query))


def check_formatting(source: Source) -> None:
    catalog = drawn_catalog(source)
    text = query_text(source, catalog)
    formatted = format_queries(text)
    assert format_queries(formatted) == formatted
    before, after = compiled(text, catalog), compiled(formatted, catalog)
    assert list(before) == list(after)
    for name, query in before.items():
        assert without_places(query) == without_places(after[name])
        # Unlike `==`, the text tells 1 from 1.0 and from true.
        assert repr(without_places(query)) == repr(without_places(after[name]))
    assert comments(formatted) == comments(text)
    assert not any(line != line.rstrip() for line in formatted.split("\n"))
    assert formatted.endswith(("}\n", "*/\n", "// the end\n", "//\n"))


def check_binding(source: Source) -> None:
    catalog = drawn_catalog(source)
    for query in compiled(query_text(source, catalog, noise=0), catalog).values():
        given_values = {}
        for parameter in query.parameters:
            if parameter.type.nullable and source.chance(30):
                continue
            dollar = "$" if source.chance(20) else ""
            given_values[dollar + parameter.name] = json_value(source, parameter.type)
        plain = json.loads(json.dumps(given_values))
        values = bind_parameters(query, plain)
        assert list(values) == [p.name for p in query.parameters]
        for parameter in query.parameters:
            value = values[parameter.name]
            again = coerce(json.loads(json.dumps(to_json(value))), parameter.type)
            assert repr(again) == repr(value)
        required = [p for p in query.parameters if not p.type.nullable]
        if required:
            with pytest.raises(QueryError) as caught:
                bind_parameters(query, {"never heard of": 1})
            assert len(caught.value.diagnostics) == len(required) + 1
            for found in caught.value.diagnostics:
                assert 0 <= found.span[0] <= found.span[1] <= len(query.source)
                assert found.render()


def check_linting(source: Source) -> None:
    schema = RICH_SCHEMA
    if source.chance(30):
        schema = schema_model(source, size=3).write(source)
    catalog = compile_schema(schema)
    texts = [(f"{n}.gq", query_text(source, catalog)) for n in range(source.integer(0, 3))]
    result = lint(schema, texts)
    assert [d.render() for d in result.diagnostics if d.severity == "error"] == []
    json.dumps(result.to_dict())
    assert all(d.render() for d in result.diagnostics)


CHECKS: tuple[Callable[[Source], None], ...] = (
    check_compiling,
    check_formatting,
    check_binding,
    check_linting,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_property(check: Callable[[Source], None]) -> None:
    @PROFILE
    @given(sources())
    def run(source: Source) -> None:
        check(source)

    run()


def check_number(number: int, rng: random.Random) -> None:
    CHECKS[number % len(CHECKS)](from_random(rng))


def test_many() -> None:
    run_many("query properties", check_number, count=1200)


@pytest.mark.soak
def test_soak() -> None:
    run_many("query properties", check_number, share=4)
