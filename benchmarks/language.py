"""How long compiling takes: a large schema, and a query of 30 lines, uncached and cached.

The peer is Ladybug (an embedded graph database in C++) doing what comes nearest in the same
run: creating the same tables in memory, and preparing the same query.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from harness import Record, best_of, emit
from omnigraph.language import QueryCache, check_queries, compile_queries, compile_schema

TYPES = 100
SCHEMA_LIMIT = 1.0
UNCACHED_LIMIT = 5e-3
CACHED_LIMIT = 50e-6


def schema_text() -> str:
    """A schema of 2,000 lines: 100 node types and 100 edge types."""
    lines: list[str] = []
    for n in range(TYPES):
        lines += [
            f"// Entities of kind {n}",
            f'node Kind{n} @description("Entities of kind {n}") {{',
            "  name: String @key",
            "  title: String? @index",
            "  count: I64",
            "  score: F64?",
            "  active: Bool @default(true)",
            "  status: enum(open, closed, waiting)",
            "  born: Date?",
            "  seen: DateTime?",
            "  tags: [String]?",
            "  vec: Vector(64)?",
            "  @range(count, 0..1000000)",
            '  @check(name, "^[a-z]")',
            "  @unique(title, born)",
            "}",
            f"edge Link{n}: Kind{n} -> Kind{(n + 1) % TYPES} @card(0..9) {{",
            "  since: Date?",
            "}",
            "",
        ]
    return "\n".join(lines)


QUERY = """query report($name: String, $since: Date, $least: I64, $words: String?)
  @description("What is connected with an entity")
{
  match {
    $a: Kind0 { name: $name }
    $a link0 $b
    $b link1 $c
    $c $w:link2 $d
    $d: Kind3 { active: true }
    $b.count > $least
    $b.status in ["open", "waiting"]
    $c.born >= $since and ($c.title is not null or $c.score > 0.5)
    not {
      $c link2 $other
      $other.status = "closed"
    }
    optional {
      $d link3 $e
      $e.name starts_with "x"
    }
    $w.since is not null
  }
  return {
    $b.name as entity
    count(distinct $d) as connected
    sum($c.count) as total
    max($c.seen) as newest
    avg($c.score) as score
  }
  order { connected desc, entity }
  limit 20 offset 10
}
"""

PEER_QUERY = """MATCH (a:Kind0 {name: $name})-[:Link0]->(b:Kind1)-[:Link1]->(c:Kind2),
  (c)-[w:Link2]->(d:Kind3)
WHERE d.active = true AND b.count > $least AND b.status IN ['open', 'waiting']
  AND c.born >= $since AND (c.title IS NOT NULL OR c.score > 0.5)
  AND NOT EXISTS { MATCH (c)-[:Link2]->(o:Kind3) WHERE o.status = 'closed' }
  AND w.since IS NOT NULL
OPTIONAL MATCH (d)-[:Link3]->(e:Kind4) WHERE starts_with(e.name, 'x')
RETURN b.name AS entity, count(DISTINCT d) AS connected, sum(c.count) AS total,
  max(c.seen) AS newest, avg(c.score) AS score
ORDER BY connected DESC, entity SKIP 10 LIMIT 20"""


def peer() -> tuple[float, float] | None:
    """Seconds that Ladybug takes for the tables and for preparing the query."""
    try:
        import ladybug
    except ImportError:
        return None
    columns = (
        "name STRING PRIMARY KEY, title STRING, count INT64, score DOUBLE, active BOOL,"
        " status STRING, born DATE, seen TIMESTAMP, tags STRING[], vec FLOAT[64]"
    )

    def create() -> ladybug.Connection:
        connection = ladybug.Connection(ladybug.Database(f"{folder}/peer{next(numbers)}"))
        for n in range(TYPES):
            connection.execute(f"CREATE NODE TABLE Kind{n}({columns})")
        for n in range(TYPES):
            connection.execute(
                f"CREATE REL TABLE Link{n}(FROM Kind{n} TO Kind{(n + 1) % TYPES}, since DATE)"
            )
        return connection

    numbers = iter(range(100))
    with tempfile.TemporaryDirectory() as folder:
        tables = best_of(create, 2)
        connection = create()
        prepare = best_of(lambda: connection.prepare(PEER_QUERY), 20)
    return tables, prepare


def main() -> None:
    """Measure and print one record per line."""
    text = schema_text()
    catalog = compile_schema(text)
    cache = QueryCache()
    cache.compile(QUERY, catalog)

    def uncached() -> None:
        _, found = check_queries(QUERY, catalog)
        assert not any(d.severity == "error" for d in found)

    peers = peer() or (None, None)
    measures: list[tuple[str, Callable[[], object], int, float, float | None]] = [
        (f"compile schema of {text.count(chr(10)) + 1} lines", lambda: compile_schema(text), 3,
         SCHEMA_LIMIT, peers[0]),
        (f"compile query of {QUERY.count(chr(10))} lines", uncached, 50, UNCACHED_LIMIT, peers[1]),
        ("compile query, cached", lambda: compile_queries(QUERY, catalog), 1000, CACHED_LIMIT,
         peers[1]),
    ]  # fmt: skip
    for name, work, times, limit, other in measures:
        emit(Record("language", name, best_of(work, times), limit, "ladybug", other))


if __name__ == "__main__":
    main()
