"""Random reads of random graphs: the engine answers what the oracle answers.

Tables are written in several commits and have deleted rows; some graphs have indexes. Rows are
compared in their order as far as a query fixes it, and as many as they are.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, init
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.maintenance.indexes import ensure_indices
from tests.language.generators import Source, from_random, run_many
from tests.query.oracle import Oracle, Overflow
from tests.query.programs import Program, random_program, random_rows, random_schema

TESTS = 10
GRAPHS = 2
QUERIES = 60


def make_graph(source: Source, place: Path) -> Graph:
    """A graph of random rows, written bit by bit."""
    graph = init(place, random_schema(source))
    first, second = (random_rows(source, graph.catalog) for _ in range(2))
    nodes = {name: first[name] for name in graph.catalog.nodes}
    graph.write_batches({n: ("append", rows) for n, rows in nodes.items() if rows.num_rows})
    edges = {name: first[name] for name in graph.catalog.edges}
    graph.write_batches({n: ("append", rows) for n, rows in edges.items() if rows.num_rows})
    if source.chance(50):
        changed = {n: second[n] for n in graph.catalog.nodes if second[n].num_rows}
        graph.write_batches({n: ("merge", rows) for n, rows in changed.items()})
    if source.chance(50):
        table = source.pick([*nodes, *edges])
        ids = [id for id in first[table]["id"].to_pylist() if source.chance(25)]
        text = f"query q($ids: [String]) {{ delete {table} where id in $ids }}"
        graph.mutate(text, params={"ids": ids})
    if source.chance(30):
        ensure_indices(graph._repository, "main")
    return graph


def rows_of(graph: Graph) -> dict[str, pa.Table]:
    snapshot = graph.snapshot()
    return {table.name: snapshot.read(table.name) for table in snapshot.tables}


def compare(graph: Graph, oracle: Oracle, program: Program) -> None:
    try:
        expected = oracle.answer(program.query, program.params)
    except Overflow:
        with pytest.raises(OmnigraphError):
            graph.query(program.text, params=program.params)
        return
    result = graph.query(program.text, params=program.params)
    found = result.to_arrow()
    assert tuple(found.column_names) == expected.columns
    assert found.schema.types == [arrow_type(f.type) for f in program.query.fields]
    rows = [tuple(row[name] for name in expected.columns) for row in result.to_rows()]
    difference = expected.difference(rows)
    assert difference is None, difference


def compare_many(rng: random.Random, folder: Path, queries: int) -> None:
    """Make a graph and compare answers."""
    source = from_random(rng)
    with make_graph(source, folder) as graph:
        oracle = Oracle(graph.catalog, rows_of(graph))
        for _ in range(queries):
            program = random_program(source, graph.catalog)
            try:
                compare(graph, oracle, program)
            except BaseException as error:
                error.add_note(f"{program}\n{program.query.explain()}")
                raise


@pytest.mark.parametrize("number", range(TESTS))
def test_random_queries_are_answered_as_by_the_oracle(number: int, tmp_path: Path) -> None:
    def check(graph: int, rng: random.Random) -> None:
        compare_many(rng, tmp_path / f"graph{graph}", QUERIES)

    run_many(f"queries {number}", check, count=GRAPHS)


@pytest.mark.soak
def test_random_queries_are_answered_as_by_the_oracle_for_long(tmp_path: Path) -> None:
    def check(graph: int, rng: random.Random) -> None:
        compare_many(rng, tmp_path / f"graph{graph}", QUERIES)

    run_many("queries, for long", check)
