"""`nearest` with a text: it is embedded with the model of the settings, or refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.embedding import local
from omnigraph.embedding.providers import embedder_of
from omnigraph.errors import EmbeddingError, UsageError
from omnigraph.graph import Graph, init
from omnigraph.settings import Settings
from tests.embedding.servers import Answer, Asked, one_hot, serving

SCHEMA = """
interface Readable { vec: Vector(64)? }
node Doc implements Readable {
  key: String @key
  body: String
  vec: Vector(64)? @embed("body", model="wordllama-l2-supercat")
  plain: Vector(128)?
}
node Note implements Readable {
  key: String @key
  body: String
  vec: Vector(64)? @embed("body")
}
node Person { key: String @key }
edge Wrote: Person -> Doc { remark: String? vec: Vector(64)? }
"""
MOCK = Settings(embed_provider="mock", embed_model="wordllama-l2-supercat")
BODIES = {
    "cat": "the cat sleeps on the sofa",
    "kitten": "a young kitten naps in its basket",
    "bank": "central banks raise interest rates",
    "bonds": "prices of bonds fall at the stock exchange",
}
Make = Callable[..., Graph]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:

        def made(settings: Settings | None = None, schema: str = SCHEMA) -> Graph:
            place = tmp_path / f"g{len(list(tmp_path.iterdir()))}"
            return stack.enter_context(init(place, schema, settings=settings or Settings()))

        yield made


def fill(graph: Graph, type: str = "Doc", **bodies: str) -> None:
    """Add nodes with the vectors of their texts."""
    bodies = bodies or BODIES
    made = embedder_of(graph._settings)
    vectors = made.embed(list(bodies.values()), 64)
    add = (
        "query add($key: String, $body: String, $vec: Vector(64)) {"
        f" insert {type} {{ key: $key, body: $body, vec: $vec }} }}"
    )
    rows = [
        {"key": key, "body": body, "vec": vector.tolist()}
        for (key, body), vector in zip(bodies.items(), vectors, strict=True)
    ]
    graph.mutate(add, params=rows)


def ask(graph: Graph, text: str, *, head: str = "$q: String", **params: Any) -> list[Any]:
    found = graph.query(f"query q({head if params else ''}) {{ {text} }}", params=params)
    return [tuple(row.values()) for row in found.to_rows()]


NEAREST = "match { $d: Doc } return { $d.key } order { nearest($d.vec, $q) } limit 9"


def test_a_text_finds_what_is_like_it(make):
    graph = make()
    fill(graph)
    found = [key for (key,) in ask(graph, NEAREST, q="pets such as cats")]
    assert set(found[:2]) == {"cat", "kitten"}
    found = [key for (key,) in ask(graph, NEAREST, q="finance and money")]
    assert set(found[:2]) == {"bank", "bonds"}


def test_a_text_in_quotes_and_a_parameter_and_its_vector_give_the_same(make):
    graph = make()
    fill(graph)
    tail = "return { $d.key, nearest($d.vec, %s) as far } order { far } limit 9"
    quoted = ask(graph, "match { $d: Doc } " + tail % '"a cat"')
    given = ask(graph, "match { $d: Doc } " + tail % "$q", q="a cat")
    vector = embedder_of(Settings()).embed(["a cat"], 64, "query")[0].tolist()
    as_vector = ask(graph, "match { $d: Doc } " + tail % "$v", head="$v: Vector(64)", v=vector)
    assert quoted == given == as_vector
    assert len(quoted) == 4


def test_distances_are_those_of_the_embedded_text(make):
    graph = make(MOCK)
    fill(graph, a="one", b="two")
    one, two, three = embedder_of(MOCK).embed(["one", "two", "three"], 64)
    found = ask(graph, NEAREST.replace("{ $d.key }", "{ nearest($d.vec, $q) as d }"), q="three")
    expected = sorted([1 - float(one @ three), 1 - float(two @ three)])
    assert [d for (d,) in found] == pytest.approx(expected, abs=1e-6)
    assert ask(graph, NEAREST, q="two")[0] == ("b",)


def test_a_text_is_fused_with_words(make):
    graph = make()
    fill(graph, wool="the cat plays with wool", cat="a cat", felines="felines purr", tax="taxes")
    tail = (
        "return { $d.key, rrf(nearest($d.vec, $q), bm25($d.body, $q), 1) as s }"
        " order { s desc } limit 3"
    )
    found = ask(graph, f"match {{ $d: Doc }} {tail}", q="cat")
    # The first of both rankings, then the second of both, then the third by distance alone.
    assert found == [
        ("cat", pytest.approx(1 / 2 + 1 / 2)),
        ("wool", pytest.approx(1 / 3 + 1 / 3)),
        ("felines", pytest.approx(1 / 4)),
    ]


def test_two_texts_and_two_sizes_in_one_query(make):
    graph = make(MOCK)
    one, two = (embedder_of(MOCK).embed([t], n)[0] for t, n in (("one", 64), ("two", 128)))
    graph.mutate(
        "query add($v: Vector(64), $w: Vector(128)) {"
        ' insert Doc { key: "a", body: "x", vec: $v, plain: $w } }',
        params={"v": one.tolist(), "w": two.tolist()},
    )
    found = ask(
        graph,
        'match { $d: Doc } return { nearest($d.vec, "one") as a, nearest($d.plain, "two") as b,'
        ' nearest($d.vec, "two") as c }',
    )
    assert found[0][:2] == pytest.approx((0, 0), abs=1e-6)
    assert found[0][2] > 0.1


def test_edges_and_variables_that_may_be_missing_take_texts(make):
    graph = make(MOCK)
    fill(graph, a="one")
    near = embedder_of(MOCK).embed(["two"], 64)[0].tolist()
    graph.mutate(
        "query add($v: Vector(64)) {"
        ' insert Person { key: "ada" } insert Person { key: "bob" }'
        ' insert Wrote { from: "ada", to: "a", vec: $v } }',
        params={"v": near},
    )
    text = (
        "match { $p: Person optional { $p $w: wrote $d } }"
        ' return { $p.key, nearest($w.vec, "two") as e, nearest($d.vec, "one") as n }'
        " order { $p.key }"
    )
    assert ask(graph, text) == [
        ("ada", pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6)),
        ("bob", None, None),
    ]


def test_a_null_text_gives_no_distance(make):
    graph = make()
    fill(graph, a="one")
    tail = "return { nearest($d.vec, $q) as far }"
    found = ask(graph, f"match {{ $d: Doc }} {tail}", head="$q: String?", q=None)
    assert found == [(None,)]


# --- the model ---


def test_another_model_than_the_schema_names_is_refused(make):
    graph = make(Settings(embed_provider="mock", embed_model="small"))
    with pytest.raises(UsageError) as caught:
        ask(graph, NEAREST, q="cat")
    message = caught.value.message
    assert message.startswith("nearest(d.vec, $q): the vectors of Doc are made with the model ")
    assert "`wordllama-l2-supercat`" in message and "`mock/small`" in message
    assert "set OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_MODEL" in message
    assert "pass a vector" in message


def test_another_model_does_not_matter_to_a_vector(make):
    graph = make(Settings(embed_provider="mock", embed_model="small"))
    text = NEAREST.replace("$q", "$v")
    assert ask(graph, text, head="$v: Vector(64)", v=[1.0] * 64) == []


@pytest.mark.parametrize("name", ["m1", "mock/m1"])
def test_a_model_is_known_with_and_without_its_provider(make, name):
    schema = SCHEMA.replace("wordllama-l2-supercat", name)
    graph = make(Settings(embed_provider="mock", embed_model="m1"), schema)
    fill(graph, a="one", b="two")
    assert ask(graph, NEAREST, q="two")[0] == ("b",)


@pytest.mark.parametrize(
    "match",
    [
        "$d: Note } return { nearest($d.vec, $q) as d }",
        "$d: Doc } return { nearest($d.plain, $q) }",
    ],
    ids=["no model named", "no @embed"],
)
def test_without_a_model_in_the_schema_that_of_the_settings_is_taken(make, match):
    graph = make(Settings(embed_provider="mock", embed_model="small"))
    graph.mutate('query a() { insert Note { key: "n", body: "x" } }')
    assert len(ask(graph, f"match {{ {match}", q="one")) == ("Note" in match)


def test_an_interface_takes_texts_for_all_its_types(make):
    graph = make()
    fill(graph, "Doc", cat=BODIES["cat"], bank=BODIES["bank"])
    fill(graph, "Note", kitten=BODIES["kitten"], bonds=BODIES["bonds"])
    text = "match { $x: Readable } return { $x.id } order { nearest($x.vec, $q) } limit 2"
    assert {id for (id,) in ask(graph, text, q="pets such as cats")} == {"cat", "kitten"}


def test_each_type_of_an_interface_has_its_model_checked(make):
    schema = SCHEMA.replace('@embed("body")', '@embed("body", model="other")')
    graph = make(schema=schema)
    text = "match { $x: Readable } return { $x.id } order { nearest($x.vec, $q) } limit 2"
    with pytest.raises(UsageError, match="the vectors of Note are made with the model `other`"):
        ask(graph, text, q="cat")


# --- what cannot be embedded ---


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_refused(make, text):
    with pytest.raises(UsageError, match=r"nearest\(d.vec, \$q\): an empty text"):
        ask(make(), NEAREST, q=text)


def test_a_size_that_the_model_cannot_give_is_refused(make):
    graph = make(schema="node Doc { key: String @key vec: Vector(3)? }")
    with pytest.raises(UsageError, match="64, 128 or 256 numbers, not 3; declare"):
        ask(graph, NEAREST, q="cat")


def test_without_the_package_the_message_says_how_to_install_it(make, monkeypatch):
    graph = make()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    local._model.cache_clear()
    with pytest.raises(UsageError, match=r"pip install 'omnigraph\[embed\]'"):
        ask(graph, NEAREST, q="cat")
    assert ask(graph, NEAREST.replace("$q", "$v"), head="$v: Vector(64)", v=[1.0] * 64) == []


def test_explaining_a_query_embeds_nothing_unless_it_runs(make):
    graph = make(Settings(embed_provider="mock", embed_model="small"))
    text = f"query q($q: String) {{ {NEAREST} }}"
    assert graph.explain(text, params={"q": "cat"}).steps
    with pytest.raises(UsageError, match="mock/small"):
        graph.explain(text, params={"q": "cat"}, analyze=True)


# --- services ---


def answer(asked: Asked, number: int) -> Answer:
    data = [{"index": n, "embedding": one_hot(n, 64)} for n in range(len(asked.body["input"]))]
    return Answer(200, {"data": data})


def test_a_service_is_asked_once_for_a_text_and_once_for_a_query(make):
    with serving(answer) as service:
        settings = Settings(embed_provider="openai-compatible", embed_url=service.url)
        graph = make(settings, SCHEMA.replace(', model="wordllama-l2-supercat"', ""))
        text = (
            'match { $d: Doc } return { nearest($d.vec, $q) as a, nearest($d.vec, "other") as b,'
            " rrf(nearest($d.vec, $q), bm25($d.body, $q)) as c } order { a } limit 1"
        )
        for _ in range(2):
            ask(graph, text, q="cat")
        assert [asked.body["input"] for asked in service.asked] == [["cat", "other"]]
        # The next process finds it on disk.
        again = omnigraph.open(graph.location, mode="r", settings=settings)
        ask(again, NEAREST, q="cat")
        assert len(service.asked) == 1


def test_the_time_limit_of_a_query_holds_for_the_service(make):
    with serving(lambda asked, number: Answer(503, headers={"Retry-After": "60"})) as service:
        settings = Settings(embed_provider="openai-compatible", embed_url=service.url)
        graph = make(settings, SCHEMA.replace(', model="wordllama-l2-supercat"', ""))
        text = f"query q($q: String) {{ {NEAREST} }}"
        with pytest.raises(EmbeddingError, match="within the time limit"):
            graph.query(text, params={"q": "cat"}, time_limit=55)
        assert len(service.asked) == 1


# --- start-up ---


def test_only_a_query_with_a_text_loads_what_embeds(tmp_path):
    script = (
        "import sys, omnigraph\n"
        "def loaded():\n"
        "    names = {m.partition('.')[0] for m in sys.modules} | set(sys.modules)\n"
        "    return names & {'omnigraph.embedding', 'tokenizers', 'safetensors'}\n"
        "graph = omnigraph.init(sys.argv[1], 'node D { k: String @key v: Vector(64)? }')\n"
        "text = 'query q($q: %s) { match { $d: D } return { $d.k }'\n"
        "text += ' order { nearest($d.v, $q) } limit 1 }'\n"
        "graph.query(text % 'Vector(64)', params={'q': [1.0] * 64})\n"
        "print(*loaded())\n"
        "graph.query(text % 'String', params={'q': 'cat'})\n"
        "print(*sorted(loaded()))\n"
    )
    path = str(Path(omnigraph.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "g")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path},
        check=True,
    )
    assert ran.stdout == "\nomnigraph.embedding safetensors tokenizers\n"
