"""Queries on a social network of 100,000 persons, beside Ladybug and DuckDB in the same run.

Each engine has the same rows on disk in its own form, and answers in its own language, warm; the
answers have to be equal. Peers have integer keys, primary keys, and DuckDB an index on the source
of `Follows`, which is also sorted by it. Ours is limited to what the faster peer takes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness import Record, best_of, emit, environment
from social_data import Social, documents, generate

ENGINES = ("omnigraph", "ladybug", "duckdb")
#: Runs of each query: as many as fit into the time, within bounds.
SECONDS, LEAST, MOST = 1.0, 5, 50
WARM_UP = 2
COLD_RUNS = 7

SCHEMA = """
node Person {
  key: I64 @key
  name: String
  gender: enum(male, female)
  birthday: Date
  age: I32
  married: Bool
}
node City { key: I64 @key  name: String @index }
node State { key: I64 @key  name: String }
node Country { key: I64 @key  name: String @index }
node Interest { key: I64 @key  name: String @index }
edge Follows: Person -> Person
edge LivesIn: Person -> City
edge CityIn: City -> State
edge StateIn: State -> Country
edge HasInterest: Person -> Interest
"""
TYPES = {
    "key": "INT64", "name": "STRING", "gender": "STRING", "birthday": "DATE", "age": "INT32",
    "married": "BOOL",
}  # fmt: skip
ENDS = {
    "Follows": ("Person", "Person"), "LivesIn": ("Person", "City"), "CityIn": ("City", "State"),
    "StateIn": ("State", "Country"), "HasInterest": ("Person", "Interest"),
}  # fmt: skip

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """One question in three languages. Columns have to stand in the same order."""

    name: str
    gq: str
    cypher: str
    sql: str
    params: dict[str, Any] = field(default_factory=dict)


QUESTIONS = (
    Question(
        "1 most followed persons",
        """query q() {
          match { $f follows $p }
          return { $p.key as key, $p.name as name, count($f) as n }
          order { n desc, key } limit 3
        }""",
        """MATCH (f:Person)-[:Follows]->(p:Person)
        WITH p.key AS key, count(*) AS n ORDER BY n DESC, key LIMIT 3
        MATCH (q:Person) WHERE q.key = key RETURN key, q.name AS name, n ORDER BY n DESC, key""",
        """WITH top AS (SELECT dst, count(*) AS n FROM Follows GROUP BY dst
          ORDER BY n DESC, dst LIMIT 3)
        SELECT p.key, p.name, n FROM top JOIN Person p ON p.key = top.dst
        ORDER BY n DESC, p.key""",
    ),
    Question(
        "2 city of the most followed",
        """query q() {
          match { $f follows $p  $p livesIn $c  $c cityIn $s  $s stateIn $k }
          return { $p.key as key, count($f) as n, $c.name as city, $s.name as state,
            $k.name as country }
          order { n desc, key } limit 1
        }""",
        """MATCH (f:Person)-[:Follows]->(p:Person)
        WITH p.key AS key, count(*) AS n ORDER BY n DESC, key LIMIT 1
        MATCH (q:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
        WHERE q.key = key
        RETURN key, n, c.name AS city, s.name AS state, k.name AS country""",
        """WITH top AS (SELECT dst, count(*) AS n FROM Follows GROUP BY dst
          ORDER BY n DESC, dst LIMIT 1)
        SELECT top.dst, n, c.name, s.name, k.name FROM top JOIN LivesIn l ON l.src = top.dst
        JOIN City c ON c.key = l.dst JOIN CityIn ci ON ci.src = c.key JOIN State s ON s.key = ci.dst
        JOIN StateIn si ON si.src = s.key JOIN Country k ON k.key = si.dst""",
    ),
    Question(
        "3 youngest cities of a country",
        """query q($country: String) {
          match { $p livesIn $c  $c cityIn $s  $s stateIn $k  $k.name = $country }
          return { $c.key as key, $c.name as city, avg($p.age) as age }
          order { age, key } limit 5
        }""",
        """MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
        WHERE k.name = $country
        RETURN c.key AS key, c.name AS city, avg(p.age) AS age ORDER BY age, key LIMIT 5""",
        """WITH ages AS (SELECT l.dst, avg(p.age) AS age FROM Person p
          JOIN LivesIn l ON l.src = p.key GROUP BY l.dst)
        SELECT c.key, c.name, age FROM ages JOIN City c ON c.key = ages.dst
        JOIN CityIn ci ON ci.src = c.key JOIN StateIn si ON si.src = ci.dst
        JOIN Country k ON k.key = si.dst
        WHERE k.name = $country ORDER BY age, c.key LIMIT 5""",
        {"country": "United States"},
    ),
    Question(
        "4 persons of an age by country",
        """query q($low: I32, $high: I32) {
          match { $p livesIn $c  $c cityIn $s  $s stateIn $k  $p.age >= $low  $p.age <= $high }
          return { $k.name as country, count($p) as n }
          order { n desc, country } limit 3
        }""",
        """MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
        WHERE p.age >= $low AND p.age <= $high
        RETURN k.name AS country, count(p) AS n ORDER BY n DESC, country LIMIT 3""",
        """SELECT k.name, count(*) AS n FROM Person p
        JOIN LivesIn l ON l.src = p.key JOIN CityIn ci ON ci.src = l.dst
        JOIN StateIn si ON si.src = ci.dst JOIN Country k ON k.key = si.dst
        WHERE p.age BETWEEN $low AND $high GROUP BY k.name ORDER BY n DESC, k.name LIMIT 3""",
        {"low": 30, "high": 40},
    ),
    Question(
        "5 men in London who like fine dining",
        """query q($city: String, $country: String, $interest: String) {
          match {
            $p hasInterest $i  $i.name = $interest  $p.gender = "male"
            $p livesIn $c  $c.name = $city  $c cityIn $s  $s stateIn $k  $k.name = $country
          }
          return { count($p) as n }
        }""",
        """MATCH (p:Person)-[:HasInterest]->(i:Interest),
          (p)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
        WHERE i.name = $interest AND p.gender = 'male' AND c.name = $city AND k.name = $country
        RETURN count(p) AS n""",
        """SELECT count(*) FROM Person p JOIN HasInterest h ON h.src = p.key
        JOIN Interest i ON i.key = h.dst JOIN LivesIn l ON l.src = p.key
        JOIN City c ON c.key = l.dst JOIN CityIn ci ON ci.src = c.key
        JOIN StateIn si ON si.src = ci.dst JOIN Country k ON k.key = si.dst
        WHERE i.name = $interest AND p.gender = 'male' AND c.name = $city AND k.name = $country""",
        {"city": "London", "country": "United Kingdom", "interest": "Fine Dining"},
    ),
    Question(
        "6 city with most women who like tennis",
        """query q($interest: String) {
          match {
            $p hasInterest $i  $i.name = $interest  $p.gender = "female"  $p livesIn $c
            $c cityIn $s  $s stateIn $k
          }
          return { $c.key as key, $c.name as city, $k.name as country, count($p) as n }
          order { n desc, key } limit 1
        }""",
        """MATCH (p:Person)-[:HasInterest]->(i:Interest),
          (p)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country)
        WHERE i.name = $interest AND p.gender = 'female'
        RETURN c.key AS key, c.name AS city, k.name AS country, count(p) AS n
        ORDER BY n DESC, key LIMIT 1""",
        """SELECT c.key, any_value(c.name), any_value(k.name), count(*) AS n FROM Person p
        JOIN HasInterest h ON h.src = p.key JOIN Interest i ON i.key = h.dst
        JOIN LivesIn l ON l.src = p.key JOIN City c ON c.key = l.dst
        JOIN CityIn ci ON ci.src = c.key JOIN StateIn si ON si.src = ci.dst
        JOIN Country k ON k.key = si.dst WHERE i.name = $interest AND p.gender = 'female'
        GROUP BY c.key ORDER BY n DESC, c.key LIMIT 1""",
        {"interest": "Tennis"},
    ),
    Question(
        "7 state with most young photographers",
        """query q($country: String, $low: I32, $high: I32, $interest: String) {
          match {
            $p livesIn $c  $c cityIn $s  $s stateIn $k  $k.name = $country
            $p.age >= $low  $p.age <= $high  $p hasInterest $i  $i.name = $interest
          }
          return { $s.key as key, $s.name as state, count($p) as n }
          order { n desc, key } limit 1
        }""",
        """MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(k:Country),
          (p)-[:HasInterest]->(i:Interest)
        WHERE k.name = $country AND p.age >= $low AND p.age <= $high AND i.name = $interest
        RETURN s.key AS key, s.name AS state, count(p) AS n ORDER BY n DESC, key LIMIT 1""",
        """SELECT s.key, any_value(s.name), count(*) AS n FROM Person p
        JOIN HasInterest h ON h.src = p.key JOIN Interest i ON i.key = h.dst
        JOIN LivesIn l ON l.src = p.key JOIN CityIn ci ON ci.src = l.dst
        JOIN State s ON s.key = ci.dst JOIN StateIn si ON si.src = s.key
        JOIN Country k ON k.key = si.dst
        WHERE k.name = $country AND p.age BETWEEN $low AND $high AND i.name = $interest
        GROUP BY s.key ORDER BY n DESC, s.key LIMIT 1""",
        {"country": "United States", "low": 23, "high": 30, "interest": "Photography"},
    ),
    Question(
        "8 paths of two hops",
        "query q() { match { $a follows $b  $b follows $c } return { count($c) as n } }",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN count(*) AS n",
        "SELECT count(*) FROM Follows f JOIN Follows g ON g.src = f.dst",
    ),
    Question(
        "9 paths of two hops with filters",
        """query q($x: I32, $y: I32) {
          match { $a follows $b  $b follows $c  $b.age < $x  $c.age > $y }
          return { count($c) as n }
        }""",
        """MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
        WHERE b.age < $x AND c.age > $y RETURN count(*) AS n""",
        """SELECT count(*) FROM Follows f JOIN Person b ON b.key = f.dst
        JOIN Follows g ON g.src = b.key JOIN Person c ON c.key = g.dst
        WHERE b.age < $x AND c.age > $y""",
        {"x": 50, "y": 25},
    ),
    Question(
        "point lookup",
        """query q($key: I64) {
          match { $p: Person { key: $key } } return { $p.key, $p.name, $p.birthday, $p.age }
        }""",
        "MATCH (p:Person) WHERE p.key = $key RETURN p.key, p.name, p.birthday, p.age",
        "SELECT key, name, birthday, age FROM Person WHERE key = $key",
        {"key": 54_321},
    ),
    Question(
        "neighbours of one hop",
        """query q($key: I64) {
          match { $p: Person { key: $key }  $p follows $f }
          return { $f.key as key, $f.name as name, $f.age as age } order { key }
        }""",
        """MATCH (p:Person)-[:Follows]->(f:Person) WHERE p.key = $key
        RETURN DISTINCT f.key AS key, f.name AS name, f.age AS age ORDER BY key""",
        """SELECT f.key, f.name, f.age FROM Person f
        WHERE f.key IN (SELECT dst FROM Follows WHERE src = $key) ORDER BY f.key""",
        {"key": 54_321},
    ),
    Question(
        "neighbours of two hops",
        """query q($key: I64) {
          match { $p: Person { key: $key }  $p follows $a  $a follows $b }
          return { count(distinct $b) as n }
        }""",
        """MATCH (p:Person)-[:Follows]->(a:Person)-[:Follows]->(b:Person) WHERE p.key = $key
        RETURN count(DISTINCT b.key) AS n""",
        """SELECT count(DISTINCT g.dst) FROM Follows f JOIN Follows g ON g.src = f.dst
        WHERE f.src = $key""",
        {"key": 54_321},
    ),
    Question(
        "neighbours of three hops",
        """query q($key: I64) {
          match { $p: Person { key: $key }  $p follows $a  $a follows $b  $b follows $c }
          return { count(distinct $c) as n }
        }""",
        """MATCH (p:Person)-[:Follows]->(a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
        WHERE p.key = $key RETURN count(DISTINCT c.key) AS n""",
        """WITH two AS (SELECT DISTINCT g.dst FROM Follows f JOIN Follows g ON g.src = f.dst
          WHERE f.src = $key)
        SELECT count(DISTINCT h.dst) FROM two JOIN Follows h ON h.src = two.dst""",
        {"key": 54_321},
    ),
)  # fmt: skip


class Engine(Protocol):
    """Somebody who answers."""

    def prepare(self, question: Question) -> Callable[[], Rows]:
        """Give what is timed: asking once, and taking all rows as Python values."""


class Omnigraph:
    """Ours; ids are the decimal text of the keys."""

    def __init__(self, place: Path, social: Social | None = None) -> None:
        from omnigraph.graph import init
        from omnigraph.graph import open as open_graph
        from omnigraph.maintenance.indexes import ensure_indices

        if social is not None and not place.exists():
            graph = init(place, SCHEMA)
            graph.write_batches({**_keyed(social), **_between_ids(social)})
            ensure_indices(graph._repository, "main")
        self.graph = open_graph(place)

    def prepare(self, question: Question) -> Callable[[], Rows]:
        """See the protocol."""

        def ask() -> Rows:
            rows = self.graph.query(question.gq, params=question.params).to_rows()
            return [tuple(row.values()) for row in rows]

        return ask


class Ladybug:
    """An embedded graph database in C++."""

    def __init__(self, place: Path, social: Social) -> None:
        import ladybug

        made = place.exists()
        self.connection = ladybug.Connection(ladybug.Database(str(place)))
        if made:
            return
        with _parquet(social) as folder:
            for name, rows in social.nodes.items():
                columns = ", ".join(f"{c} {TYPES[c]}" for c in rows.column_names)
                self.run(f"CREATE NODE TABLE {name}({columns}, PRIMARY KEY (key))")
                self.run(f"COPY {name} FROM '{folder}/{name}.parquet'")
            for name, (start, end) in ENDS.items():
                self.run(f"CREATE REL TABLE {name}(FROM {start} TO {end})")
                self.run(f"COPY {name} FROM '{folder}/{name}.parquet'")

    def run(self, text: str) -> None:
        self.connection.execute(text)

    def prepare(self, question: Question) -> Callable[[], Rows]:
        """See the protocol."""

        def ask() -> Rows:
            result = self.connection.execute(question.cypher, question.params)
            assert not isinstance(result, list)
            return [tuple(row) for row in result.get_all()]

        return ask


class DuckDB:
    """An embedded SQL database; nodes have primary keys, edges are pairs of integers."""

    def __init__(self, place: Path, social: Social) -> None:
        import duckdb

        made = place.exists()
        self.connection = duckdb.connect(str(place))
        if made:
            return
        with _parquet(social) as folder:
            for name in (*social.nodes, *social.edges):
                order = "key" if name in social.nodes else "src, dst"
                read = f"FROM read_parquet('{folder}/{name}.parquet') ORDER BY {order}"
                self.connection.execute(f"CREATE TABLE {name} AS SELECT * {read}")
            for name in social.nodes:
                self.connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (key)")
            self.connection.execute("CREATE INDEX follows_src ON Follows (src)")
            self.connection.execute("CHECKPOINT")

    def prepare(self, question: Question) -> Callable[[], Rows]:
        """See the protocol."""
        given = question.params
        return lambda: self.connection.execute(question.sql, given or None).fetchall()


def _keyed(social: Social) -> dict[str, tuple[Any, pa.Table]]:
    return {name: ("append", rows) for name, rows in social.nodes.items()}


def _between_ids(social: Social) -> dict[str, tuple[Any, pa.Table]]:
    def ids(rows: pa.Table) -> pa.Table:
        return pa.table({end: pc.cast(rows[end], pa.utf8()) for end in ("src", "dst")})

    return {name: ("append", ids(rows)) for name, rows in social.edges.items()}


@contextmanager
def _parquet(social: Social) -> Iterator[str]:
    """The tables as Parquet files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in {**social.nodes, **social.edges}.items():
            pq.write_table(rows, f"{folder}/{name}.parquet")
        yield folder


# --- measuring -----------------------------------------------------------------------------------


def open_engines(names: Sequence[str], folder: Path) -> dict[str, Engine]:
    """Load the network into each engine, unless that was done in an earlier run."""
    made = {"omnigraph": Omnigraph, "ladybug": Ladybug, "duckdb": DuckDB}
    begun = time.perf_counter()
    social = generate()
    _say(f"generated in {time.perf_counter() - begun:.1f} s")
    engines: dict[str, Engine] = {}
    for name in names:
        begun = time.perf_counter()
        try:
            engines[name] = made[name](folder / name, social)
        except ImportError as error:
            _say(f"{name} is left out: {error}")
            continue
        _say(f"{name} loaded in {time.perf_counter() - begun:.1f} s")
    return engines


def timed(asks: dict[str, Callable[[], Rows]]) -> dict[str, list[float]]:
    """Times of each engine, taken in turns after warming up, slowest engines less often."""
    taken: dict[str, list[float]] = {name: [] for name in asks}
    for ask in asks.values():
        for _ in range(WARM_UP):
            ask()
    for number in range(MOST):
        for name, ask in asks.items():
            if number < LEAST or sum(taken[name]) < SECONDS:
                begun = time.perf_counter()
                ask()
                taken[name].append(time.perf_counter() - begun)
    return taken


def comparable(rows: Rows) -> Rows:
    """Rows without what an order of adding leaves in the last digits."""
    return [tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row) for row in rows]


def compare(engines: dict[str, Engine]) -> tuple[bool, dict[str, float]]:
    """Ask every question of every engine; gives if all agree, and our best times."""
    agreed = True
    ours: dict[str, float] = {}
    for question in QUESTIONS:
        asks = {name: engine.prepare(question) for name, engine in engines.items()}
        answers = {name: comparable(ask()) for name, ask in asks.items()}
        first = next(iter(answers.values()))
        for name, answer in answers.items():
            if answer != first or not answer:
                agreed = False
                _say(f"{question.name}: {name} says {answer[:3]}, not {first[:3]}")
        taken = timed(asks)
        for name, times in taken.items():
            shown = f"best {min(times) * 1e3:9.2f} ms, median {statistics.median(times) * 1e3:9.2f}"
            _say(f"  {question.name:<38} {name:<10} {shown} ms")
        best = {name: min(times) for name, times in taken.items()}
        ours[question.name] = best.get("omnigraph", 0.0)
        report(question.name, best)
    return agreed, ours


def report(name: str, best: dict[str, float]) -> None:
    """Emit our time beside that of the faster peer, or the peers alone."""
    peers = {n: seconds for n, seconds in best.items() if n != "omnigraph"}
    if "omnigraph" not in best:
        for peer, seconds in peers.items():
            emit(Record("social", f"{name}, {peer}", seconds))
        return
    fastest = min(peers, key=lambda n: peers[n]) if peers else None
    limit = peers[fastest] if fastest else None
    emit(Record("social", name, best["omnigraph"], limit, fastest, limit))


#: What a cold process runs: it imports nothing but Omnigraph.
IMPORT = """
import json, sys
from omnigraph.graph import open
place, text, params = json.load(sys.stdin)
"""
LANCE = "import lance, pyarrow"
COLD = f"""{IMPORT}
with open(place, mode="r") as graph:
    graph.query(text, params=params).to_rows()
"""


def measure_cold(place: Path, warm: dict[str, float]) -> None:
    """Answer single questions in new processes, beside processes that only import.

    The limit is what importing Omnigraph takes, and three times the warm query. The peer is what a
    program on Lance has to import before it can do anything.
    """
    for question in QUESTIONS:
        given = json.dumps([str(place), question.gq, question.params])
        taken: dict[str, list[float]] = {IMPORT: [], COLD: [], LANCE: []}
        for _ in range(COLD_RUNS):
            for code, times in taken.items():
                begun = time.perf_counter()
                command = [sys.executable, "-c", code]
                subprocess.run(command, input=given, text=True, check=True, env=environment())
                times.append(time.perf_counter() - begun)
        importing = min(taken[IMPORT])
        limit = importing + 3 * warm[question.name]
        emit(
            Record(
                "social",
                f"{question.name}, cold process",
                min(taken[COLD]),
                limit,
                "import lance, pyarrow",
                min(taken[LANCE]),
            )
        )


#: One more edge, and the question that is asked after it.
ONE_EDGE = "query q($a: String, $b: String) { insert Follows { from: $a, to: $b } }"
COMMITS = 15


def measure_after_commits(place: Path) -> None:
    """Count paths of two hops right after a commit of one edge, beside a count without one."""
    copied = place.with_name("omnigraph-written")
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(place, copied)
    # Else the copy is written to the disk while times are taken.
    os.sync()
    engine = Omnigraph(copied)
    ask = engine.prepare(next(q for q in QUESTIONS if q.name.startswith("8 ")))
    for _ in range(WARM_UP):
        ask()
    after, warm = [], []
    for number in range(COMMITS):
        (before,) = ask()[0]
        ends = {"a": str(100 + number), "b": str(5000 + number)}
        engine.graph.mutate(ONE_EDGE, params=ends)
        after.append(best_of(ask, 1))
        warm += [best_of(ask, 1) for _ in range(5)]
        assert ask()[0][0] > before
    shutil.rmtree(copied)
    usual = statistics.median(warm)
    name = "8 after a commit of one edge"
    emit(Record("social", name, statistics.median(after), 3 * usual, "without it", usual))


# --- hybrid search -------------------------------------------------------------------------------

DIMENSION = 64
DOCUMENTS = f"""
node Document {{ key: I64 @key  body: String @index  embedding: Vector({DIMENSION}) @index }}
"""
HYBRID = f"""query q($text: String, $v: Vector({DIMENSION})) {{
  match {{ $d: Document }}
  return {{ $d.key, rrf(nearest($d.embedding, $v), bm25($d.body, $text)) as score }}
  order {{ score desc }} limit 10
}}"""


def measure_search(folder: Path) -> None:
    """Vectors and texts of 100,000 documents, each ranking alone and both fused."""
    from omnigraph.graph import init
    from omnigraph.graph import open as open_graph
    from omnigraph.maintenance.indexes import ensure_indices

    place = folder / "documents"
    rows = documents(dimension=DIMENSION)
    if not place.exists():
        graph = init(place, DOCUMENTS)
        graph.write_batches({"Document": ("append", rows)})
        ensure_indices(graph._repository, "main")
    graph = open_graph(place)
    like = rows.slice(777, 1).to_pylist()[0]
    noise = np.random.default_rng(7).normal(scale=0.1, size=DIMENSION)
    params = {
        "text": " ".join(like["body"].split()[:4]),
        "v": (np.array(like["embedding"]) + noise).tolist(),
    }

    def ask() -> Rows:
        return [tuple(row.values()) for row in graph.query(HYBRID, params=params).to_rows()]

    assert len(ask()) == 10
    best = min(timed({"omnigraph": ask})["omnigraph"])
    emit(Record("social", f"hybrid search of {rows.num_rows:,} documents", best))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure and print one record per line; 1 when answers differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES), help="whom to measure")
    parser.add_argument("--place", type=Path, help="keep the databases there for the next run")
    parser.add_argument("--search", action="store_true", help="measure hybrid search, too")
    options = parser.parse_args()
    folder = options.place or Path(tempfile.mkdtemp(prefix="omnigraph-social-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        engines = open_engines(options.engines.split(","), folder)
        agreed, ours = compare(engines)
        if "omnigraph" in engines:
            measure_after_commits(folder / "omnigraph")
            measure_cold(folder / "omnigraph", ours)
            if options.search:
                measure_search(folder)
    finally:
        if options.place is None:
            shutil.rmtree(folder)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
