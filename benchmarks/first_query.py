"""The first queries after a load, and of a new process, beside Ladybug after its COPY.

Both load the same Parquet files; then the process that has loaded asks for the neighbours of one
person, two hops away, once, and for one person by key, many times. Then a new process opens the
database, and asks the same once; there, the time from its first statement on is measured, with
all imports. Answers have to be equal. With `--large`, 15 million edges are loaded after 2.4
million.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Record, emit, emit_amount, environment

#: Persons.
QUICK, SMALL, LARGE = 10_000, 100_000, 300_000
MOST_MEMORY = 3 << 30
#: What the first traversal may take: after a load, and in a new process with all imports.
AFTER_LOAD, NEW_PROCESS = 0.5, 1.0
NEW_PROCESSES = 3
LOOKUPS = 200
ENGINES = ("omnigraph", "ladybug")

TRAVERSAL = """query q($key: I64) {
  match { $p: Person { key: $key }  $p follows $a  $a follows $b }
  return { count(distinct $b) as n }
}"""
TRAVERSAL_CYPHER = """MATCH (p:Person)-[:Follows]->(a:Person)-[:Follows]->(b:Person)
WHERE p.key = $key RETURN count(DISTINCT b.key) AS n"""
LOOKUP = """query q($key: I64) {
  match { $p: Person { key: $key } } return { $p.key, $p.name, $p.birthday, $p.age }
}"""
LOOKUP_CYPHER = "MATCH (p:Person) WHERE p.key = $key RETURN p.key, p.name, p.birthday, p.age"

Ask = Callable[[str, int], list[tuple[Any, ...]]]


def ask_ours(place: Path) -> Ask:
    """Open a graph; returns what asks it."""
    from omnigraph.graph import open

    return _asks_graph(open(place, mode="r"))


def _asks_graph(graph: Any) -> Ask:
    texts = {"traversal": TRAVERSAL, "lookup": LOOKUP}

    def ask(name: str, key: int) -> list[tuple[Any, ...]]:
        rows = graph.query(texts[name], params={"key": key}).to_rows()
        return [tuple(row.values()) for row in rows]

    return ask


def ask_ladybug(place: Path) -> Ask:
    """Open a database; returns what asks it."""
    import ladybug

    connection = ladybug.Connection(ladybug.Database(str(place)))
    texts = {"traversal": TRAVERSAL_CYPHER, "lookup": LOOKUP_CYPHER}

    def ask(name: str, key: int) -> list[tuple[Any, ...]]:
        result = connection.execute(texts[name], {"key": key})
        assert not isinstance(result, list)
        return [tuple(row) for row in result.get_all()]

    return ask


def load_ours(source: Path, place: Path) -> tuple[float, Ask]:
    """Load into a new graph; returns the seconds, and what asks it."""
    from omnigraph.graph import init
    from social import SCHEMA

    graph = init(place, SCHEMA)
    begun = time.perf_counter()
    graph.load(source, engine="local")
    return time.perf_counter() - begun, _asks_graph(graph)


def load_theirs(source: Path, place: Path) -> tuple[float, Ask]:
    """Copy into a new database; returns the seconds, and what asks it."""
    from load_parquet import load_ladybug

    seconds = load_ladybug(source, place)
    return seconds, ask_ladybug(place)


def run_load(engine: str, source: Path, place: Path, key: int) -> None:
    """Load in this process, ask, and print what it took."""
    load = load_ours if engine == "omnigraph" else load_theirs
    seconds, ask = load(source, place)
    begun, processor = time.perf_counter(), time.process_time()
    answer = ask("traversal", key)
    first, first_processor = time.perf_counter() - begun, time.process_time() - processor
    begun = time.perf_counter()
    person = ask("lookup", key)
    lookup = time.perf_counter() - begun
    taken = []
    for number in range(LOOKUPS):
        begun = time.perf_counter()
        ask("lookup", key + number)
        taken.append(time.perf_counter() - begun)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    _print(
        load=seconds, traversal=first, processor=first_processor, first_lookup=lookup,
        lookup=min(taken), memory=memory, answer=answer, person=repr(person),
    )  # fmt: skip


def run_new(engine: str, place: Path, key: int, begun: float) -> None:
    """Open in this process, ask once, and print what it took from the first statement on."""
    ask = ask_ours(place) if engine == "omnigraph" else ask_ladybug(place)
    answer = ask("traversal", key)
    _print(
        traversal=time.perf_counter() - begun, processor=time.process_time(), answer=answer
    )  # fmt: skip


def _print(**measured: Any) -> None:
    print(json.dumps(measured), flush=True)


def apart(*arguments: object) -> dict[str, Any]:
    """What another process has measured."""
    command = [sys.executable, __file__, *map(str, arguments)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment())
    measured: dict[str, Any] = json.loads(run.stdout)
    return measured


def measure(folder: Path, persons: int) -> bool:
    """Measure both on a network of some size; returns whether their answers are equal."""
    from load_parquet import write_parquet
    from social_data import generate

    source, key = folder / str(persons), persons // 2
    edges = write_parquet(generate(persons), source)
    loaded, new = {}, {}
    for engine in ENGINES:
        place = folder / f"{engine}-{persons}"
        loaded[engine] = apart("--load", engine, source, place, key)
        runs = [apart("--new", engine, source, place, key) for _ in range(NEW_PROCESSES)]
        new[engine] = min(runs, key=lambda run: run["traversal"])
    ours, peer = (loaded[engine] for engine in ENGINES)
    size = f"{edges:,} edges"

    def record(name: str, measured: str, limit: float | None, **memory: Any) -> None:
        emit(Record("first_query", f"{name}, {size}", ours[measured], limit, "ladybug",
                    peer[measured], **memory))  # fmt: skip

    record("load", "load", None, memory=ours["memory"], memory_limit=MOST_MEMORY,
           peer_memory=peer["memory"])  # fmt: skip
    record("first traversal after a load", "traversal", AFTER_LOAD)
    record("first key look-up after a load", "first_lookup", None)
    record("key look-up", "lookup", peer["lookup"])
    name = f"first traversal after a load, {size}: processor time"
    emit_amount("first_query", name, ours["processor"], "s", peer="ladybug",
                peer_value=peer["processor"])  # fmt: skip
    emit(Record("first_query", f"first traversal of a new process, {size}",
                new["omnigraph"]["traversal"], NEW_PROCESS, "ladybug",
                new["ladybug"]["traversal"]))  # fmt: skip
    name = f"first traversal of a new process, {size}: processor time"
    emit_amount("first_query", name, new["omnigraph"]["processor"], "s", peer="ladybug",
                peer_value=new["ladybug"]["processor"])  # fmt: skip
    answers = [one["answer"] for one in (*loaded.values(), *new.values())]
    persons_read = [one["person"] for one in loaded.values()]
    return all(a == answers[0] for a in answers) and persons_read[0] == persons_read[1]


def main() -> int:
    """Measure and print one record per line; 1 when answers differ."""
    begun = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="load a small network only")
    parser.add_argument("--large", action="store_true", help="load 15 million edges as well")
    for step in ("--load", "--new"):
        parser.add_argument(step, nargs=4, metavar=("ENGINE", "SOURCE", "PLACE", "KEY"),
                            help="a step of it, in this process")  # fmt: skip
    options = parser.parse_args()
    if options.load or options.new:
        engine, source, place, key = options.load or options.new
        if options.load:
            run_load(engine, Path(source), Path(place), int(key))
        else:
            run_new(engine, Path(place), int(key), begun)
        return 0
    sizes = (QUICK,) if options.quick else (SMALL, LARGE) if options.large else (SMALL,)
    with tempfile.TemporaryDirectory(prefix="omnigraph-first-") as folder:
        agreed = [measure(Path(folder), persons) for persons in sizes]
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
