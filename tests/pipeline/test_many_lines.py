"""Fifty faults, no two alike, in very many lines: all are told, and that takes no longer."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import LoadError
from omnigraph.pipeline.load import inputs
from omnigraph.pipeline.load import run as load
from tests.pipeline.load_cases import SCHEMA
from tests.pipeline.steps import Fault, Row, edge, node, person

#: What is in the graph before: people and a team with an edge.
_BEFORE = [person("there", mail="taken"), node("Team", name="old"), edge("Leads", "old", "there")]
#: Lines with something wrong, and their faults: the kind, and the column.
_FAULTS: list[tuple[Row, str, str | None]] = [
    # the line
    ("{", "json", None),
    ("[1]", "json", None),
    ('{"type":"Team","data":{"name":"w"}} {}', "json", None),
    ('{"type":"Person","data":{"name":"w1","name":"w2"}}', "duplicate", "name"),
    ('{"type":"Person","data":{"name":"w3"},"more":1}', "member", "more"),
    ('{"data":{"name":"w4"}}', "member", None),
    ('{"type":"Person","edge":"Knows"}', "member", None),
    ('{"type":"Person","data":[]}', "type", "data"),
    # what it names
    (node("Nobody"), "type_name", "type"),
    (node("Knows"), "type_name", "type"),
    ({"edge": "Likes", "from": "n0", "to": "n1"}, "type_name", "edge"),
    (person("w5", agee=1), "property", "agee"),
    (edge("Knows", "n0", "n0", src="n0"), "property", "src"),
    # values of every type
    (person("w6", age="old"), "type", "age"),
    (person("w7", age=1 << 40), "type", "age"),
    (person("w8", mail=5), "type", "mail"),
    (person("w9", level=5), "type", "level"),
    (person("w10", score="high"), "type", "score"),
    ('{"type":"Person","data":{"name":"w11","score":1e999}}', "finite", "score"),
    (person("w12", born="2023-02-29"), "type", "born"),
    (person("w13", tags=["x", None]), "list", "tags"),
    (person("w14", marks=[1, "x"]), "type", "marks"),
    (person("w15", spot=[1]), "type", "spot"),
    (person("w16", id=5), "type", "id"),
    (node("Note", text="t", file="base64:@@"), "type", "file"),
    (node("Kit", no=-1), "type", "no"),
    (node("Kit", no=1, big=1 << 63), "type", "big"),
    (node("Kit", no=2, small=-1), "type", "small"),
    (node("Kit", no=3, half=1e39), "type", "half"),
    (node("Kit", no=4, flag=1), "type", "flag"),
    (node("Kit", no=5, at="noon"), "type", "at"),
    (node("Kit", no=6, longs=5), "type", "longs"),
    (node("Kit", no=7, days=["x"]), "type", "days"),
    (node("Spot", x=0.5, y=1), "type", "x"),
    (edge("Knows", "n1", "n1", weight="heavy"), "type", "weight"),
    # rules of single rows
    (node("Person", age=1), "required", "name"),
    (node("Note", text=None), "required", "text"),
    (person("w17", level="middle"), "enum", "level"),
    (person("w18", age=151), "range", "age"),
    (person("w19", code="abc"), "check", "code"),
    (node("Note", text="t", file="file:///etc/hosts"), "blob", "file"),
    (person("w20", id="other"), "key", "id"),
    ('{"edge":"Knows","from":"n0"}', "end", "to"),
    # rules that need all rows
    (edge("Knows", "nobody", "n1"), "end", "from"),
    (person("n0"), "repeated", "name"),
    (person("there"), "exists", "name"),
    (person("w21", mail="mail 0"), "unique", "mail"),
    (person("w22", mail="taken"), "unique", "mail"),
    (edge("Knows", "n0", "n1"), "unique", "from, to"),
    (node("Team", name="lonely"), "cardinality", "from"),
]


def _good(number: int) -> str:
    """A line without faults; two of five are edges to the person before."""
    if number % 5 < 3:
        data = {"name": f"n{number}", "age": number % 150, "mail": f"mail {number}"}
        return json.dumps({"type": "Person", "data": data}, separators=(",", ":"))
    last = number // 5 * 5
    source, target = f"n{last}", f"n{last + number % 5 - 2}"
    return f'{{"edge":"Knows","from":"{source}","to":"{target}"}}'


def _write(folder: Path, count: int) -> tuple[Path, Path, list[Fault]]:
    """Two files, one good and one with faults, and what is wrong with the second."""
    lines = [_good(number) for number in range(count)]
    (folder / "good.jsonl").write_text("\n".join(lines))
    step = (count - 11) // (len(_FAULTS) - 1)
    faults: list[Fault] = []
    lines[4] = lines[8] = ""
    for place, (row, kind, column) in enumerate(_FAULTS):
        # Never in the place of a person that edges begin or end at.
        at = (10 + place * step) // 5 * 5 + 4
        lines[at] = row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
        faults.append((kind, at + 1, column))
    (folder / "bad.jsonl").write_text("\n".join(lines))
    return folder / "good.jsonl", folder / "bad.jsonl", faults


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A graph with something in it."""
    text = "\n".join(json.dumps(line) for line in _BEFORE)
    (tmp_path / "before.jsonl").write_text(text)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load(tmp_path / "before.jsonl", engine="local")
    return tmp_path / "graph"


def refused(place: Path, file: Path, **options: Any) -> tuple[list[Fault], dict[str, int]]:
    with omnigraph.open(place) as graph:
        before = graph.snapshot().commit
        with pytest.raises(LoadError) as caught:
            graph.load(file, mode="append", **options)
        assert graph.snapshot().commit == before
    told = [(fault.rule, fault.line, fault.property) for fault in caught.value.violations]
    return told, caught.value.totals


def totals(faults: list[Fault]) -> dict[str, int]:
    return dict(sorted(Counter(kind for kind, _, _ in faults).items()))


def test_no_two_of_the_faults_are_alike(place: Path, tmp_path: Path) -> None:
    _, bad, faults = _write(tmp_path, 2000)
    with omnigraph.open(place) as graph, pytest.raises(LoadError) as caught:
        graph.load(bad, mode="append", engine="local")
    assert (
        len(faults) == len({(f.rule, f.property, f.message) for f in caught.value.violations}) == 50
    )


@pytest.mark.parametrize("parts", [1, 7])
def test_fifty_faults_in_many_lines(
    parts: int, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, bad, faults = _write(tmp_path, 100_000)
    size = bad.stat().st_size // parts + 1
    monkeypatch.setattr(inputs, "LEAST_BYTES", size)
    monkeypatch.setattr(inputs, "MOST_BYTES", size)
    monkeypatch.setattr(load, "_ONE_BUCKET", 0)
    assert refused(place, bad, engine="local") == (faults, totals(faults))


def quickest(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest time that something takes, and what it gives."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        made = work()
        found.append(time.perf_counter() - began)
    return min(found), made


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_fifty_faults_in_a_million_lines(
    engine: str, place: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    good, bad, faults = _write(tmp_path, 1_000_000)
    options: dict[str, Any] = {"engine": engine}
    if engine == "spark":
        options["spark"] = request.getfixturevalue("local_spark_engine").session

    def load_good() -> None:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(place, tmp_path / "copy")
        with omnigraph.open(tmp_path / "copy") as graph:
            graph.load(good, mode="append", **options)

    load_good()
    of_good, _ = quickest(2, load_good)
    of_bad, told = quickest(2, lambda: refused(place, bad, **options))
    assert told == (faults, totals(faults))
    print(f"{engine}: good {of_good:.2f} s, with faults {of_bad:.2f} s")
    assert of_bad <= 1.5 * of_good, f"{of_bad:.2f} s against {of_good:.2f} s"
