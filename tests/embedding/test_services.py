"""The two web services: what they are asked, and what becomes of each kind of answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from omnigraph.embedding import service as service_module
from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.gemini import Gemini
from omnigraph.embedding.openai import OpenAICompatible
from omnigraph.embedding.providers import embedder_of
from omnigraph.embedding.service import Service
from omnigraph.errors import EmbeddingError, UsageError
from omnigraph.settings import Settings
from tests.embedding.servers import Answer, Asked, FakeService, one_hot, serving
from tests.patience import PATIENCE

KEY = "sk-very-secret-0123456789"
Respond = Callable[[Asked, int], Answer]


def openai_vectors(vectors: list[Any]) -> Answer:
    data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    # Clients have to go by the index.
    return Answer(200, {"object": "list", "data": data[::-1], "model": "m"})


def gemini_vectors(vectors: list[Any]) -> Answer:
    return Answer(200, {"embeddings": [{"values": vector} for vector in vectors]})


def texts_of(asked: Asked) -> list[str]:
    if "input" in asked.body:
        return list(asked.body["input"])
    return [r["content"]["parts"][0]["text"] for r in asked.body["requests"]]


def size_of(asked: Asked) -> int:
    if "input" in asked.body:
        return int(asked.body.get("dimensions", 4))
    return int(asked.body["requests"][0]["outputDimensionality"])


@pytest.fixture(params=["openai-compatible", "gemini"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def vectors(provider: str) -> Callable[[list[Any]], Answer]:
    return openai_vectors if provider == "openai-compatible" else gemini_vectors


@pytest.fixture
def good(vectors: Callable[[list[Any]], Answer]) -> Respond:
    """Answers with a vector for each text that has a 1 at the place of the text's length."""

    def answer(asked: Asked, number: int) -> Answer:
        return vectors([one_hot(len(text), size_of(asked)) for text in texts_of(asked)])

    return answer


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Respond], FakeService]]:
    monkeypatch.setattr(service_module, "ATTEMPTS", 3)
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(serving(answer))


def embedder(provider: str, url: str, **options: Any) -> Embedder:
    """As the settings would make it, but with short pauses."""
    options = {"timeout": PATIENCE, "pause": 0.01, **options}
    if provider == "gemini":
        headers = {"x-goog-api-key": KEY}
        return Embedder(Gemini(Service(provider, url, headers, secret=KEY, **options)))
    headers = {"Authorization": f"Bearer {KEY}"}
    return Embedder(OpenAICompatible(Service(provider, url, headers, secret=KEY, **options)))


def failed(made: Embedder, *texts: str, **options: Any) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        made.embed(list(texts or ["a"]), 4, **options)
    message = caught.value.message
    assert KEY not in message and KEY not in repr(caught.value.to_dict())
    assert made.provider.name in message and made.provider.place in message
    return caught.value


# --- what is asked ---


def test_openai_is_asked_with_model_texts_and_size(start):
    def answer(asked: Asked, number: int) -> Answer:
        return openai_vectors([one_hot(len(t), 4) for t in asked.body["input"]])

    service = start(answer)
    settings = Settings(
        embed_provider="openai-compatible",
        embed_url=service.url + "/",
        embed_api_key=KEY,
        embed_model="tiny",
    )
    found = embedder_of(settings).embed(["a", "bb"], 4)
    (asked,) = service.asked
    assert asked.path == "/v1/embeddings"
    assert asked.body == {"model": "tiny", "input": ["a", "bb"], "dimensions": 4}
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert found.dtype == np.float32
    assert found.tolist() == [one_hot(1, 4), one_hot(2, 4)]


def test_a_service_of_ones_own_needs_no_key(start):
    service = start(lambda asked, n: openai_vectors([one_hot(0, 4)]))
    settings = Settings(embed_provider="openai-compatible", embed_url=service.url)
    embedder_of(settings).embed(["a"], 4)
    assert "authorization" not in service.asked[0].headers


def test_gemini_gets_the_purpose_of_the_vectors(start):
    service = start(lambda asked, n: gemini_vectors([one_hot(0, 4)] * len(texts_of(asked))))
    settings = Settings(embed_provider="gemini", embed_url=service.url, embed_api_key=KEY)
    made = embedder_of(settings)
    made.embed(["a", "bb"], 4)
    made.embed(["a"], 4, "query")
    stored, searched = service.asked
    assert stored.path == "/v1/models/gemini-embedding-001:batchEmbedContents"
    assert stored.headers["x-goog-api-key"] == KEY
    assert [r["taskType"] for r in stored.body["requests"]] == ["RETRIEVAL_DOCUMENT"] * 2
    assert [r["taskType"] for r in searched.body["requests"]] == ["RETRIEVAL_QUERY"]
    assert stored.body["requests"][1] == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "bb"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 4,
    }


def test_vectors_come_in_the_order_of_texts_with_length_one(provider, vectors, start):
    service = start(lambda asked, n: vectors([[len(t), 0, 0, len(t)] for t in texts_of(asked)]))
    found = embedder(provider, service.url).embed(["a", "bb", "a"], 4)
    half = np.float32(np.sqrt(0.5))
    assert found.tolist() == [[half, 0, 0, half]] * 3


def test_many_texts_go_in_several_requests_each_text_once(provider, good, start):
    service = start(good)
    texts = [f"{n}-" + "x" * (n % 4) for n in range(300)]
    made = embedder(provider, service.url)
    found = made.embed(texts + texts, 4)
    sent = [texts_of(asked) for asked in service.asked]
    assert [text for part in sent for text in part] == texts
    assert max(map(len, sent)) == made.provider.batch
    assert found.tolist() == [one_hot(len(text), 4) for text in texts + texts]


def test_long_texts_go_in_smaller_requests(provider, good, start):
    service = start(good)
    embedder(provider, service.url).embed([c * 90_000 for c in "abcde"], 4)
    assert [len(texts_of(asked)) for asked in service.asked] == [2, 2, 1]


def test_a_server_that_refuses_a_size_is_asked_without(start):
    def answer(asked: Asked, number: int) -> Answer:
        if "dimensions" in asked.body:
            message = "Model does not support matryoshka representation"
            return Answer(400, {"object": "error", "message": message})
        return openai_vectors([one_hot(0, 4) for _ in asked.body["input"]])

    service = start(answer)
    made = embedder("openai-compatible", service.url)
    made.embed(["a"], 4)
    made.embed(["b"], 4)
    assert ["dimensions" in asked.body for asked in service.asked] == [True, False, False]
    with pytest.raises(EmbeddingError, match="gave vectors of 4 numbers, not 8"):
        made.embed(["a"], 8)


# --- trying again ---


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(provider, good, start, status):
    service = start(lambda asked, n: Answer(status, {"error": "busy"}) if n < 2 else good(asked, n))
    assert embedder(provider, service.url).embed(["abc"], 4).tolist() == [one_hot(3, 4)]
    assert len(service.asked) == 3


def test_a_service_that_keeps_failing_is_given_up(provider, start):
    service = start(lambda asked, n: Answer(500, {"error": {"message": f"broken, {KEY}"}}))
    error = failed(embedder(provider, service.url))
    assert "answered 500 Internal Server Error (broken, …), 3 times" in error.message
    assert error.transient and error.status == 500
    assert len(service.asked) == 3


def test_pauses_grow(provider, good, start):
    service = start(lambda asked, n: Answer(503) if n < 2 else good(asked, n))
    embedder(provider, service.url, pause=0.1).embed(["a"], 4)
    first, second, third = (asked.time for asked in service.asked)
    assert second - first >= 0.1
    assert third - second >= 0.2


def test_the_service_says_how_long_to_wait(provider, good, start):
    def answer(asked: Asked, number: int) -> Answer:
        return Answer(429, headers={"Retry-After": "0.3"}) if number == 0 else good(asked, number)

    service = start(answer)
    embedder(provider, service.url).embed(["a"], 4)
    assert service.asked[1].time - service.asked[0].time >= 0.3


def test_a_wait_may_be_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < service_module._retry_after(later) <= 30
    assert service_module._retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert service_module._retry_after("soon") == 0


def test_a_wait_that_is_too_long_is_not_waited(provider, start):
    service = start(lambda asked, n: Answer(429, "quota", {"Retry-After": "3600"}))
    error = failed(embedder(provider, service.url))
    assert "answered 429 Too Many Requests (quota), and asks to wait 3600 s" in error.message
    assert "OMNIGRAPH_EMBED_RATE" in error.message
    assert error.transient
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "status,hint",
    [(400, "_MODEL"), (401, "_API_KEY"), (403, "_API_KEY"), (404, "_URL"), (418, "_URL")],
)
def test_what_does_not_pass_is_not_tried_again(provider, start, status, hint):
    service = start(lambda asked, n: Answer(status, {"error": {"message": f"no: {KEY}"}}))
    error = failed(embedder(provider, service.url))
    assert f"answered {status} " in error.message and "(no: …)" in error.message
    assert f"OMNIGRAPH_EMBED{hint}" in error.message
    assert not error.transient and error.status == status
    assert len(service.asked) == 1


def test_what_a_service_says_is_cut_and_harmless(provider, start):
    service = start(lambda asked, n: Answer(400, "\x1b[31mred\n" + "long " * 500))
    message = failed(embedder(provider, service.url)).message
    assert "[31mred long long" in message
    assert "\x1b" not in message and "\n" not in message
    assert len(message) < 500


def test_redirects_are_not_followed(provider, good, start):
    elsewhere = start(good)
    service = start(lambda asked, n: Answer(302, "", {"Location": elsewhere.url}))
    error = failed(embedder(provider, service.url))
    assert "redirects to 127.0.0.1" in error.message
    assert elsewhere.asked == []


def test_an_answer_that_breaks_off_is_asked_for_again(provider, good, start):
    service = start(lambda asked, n: Answer(200, "{", missing=9) if n == 0 else good(asked, n))
    embedder(provider, service.url).embed(["a"], 4)
    assert len(service.asked) == 2


def test_a_service_that_is_not_there(provider):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    error = failed(embedder(provider, url, pause=0.001))
    assert "cannot be reached (Connection refused), 5 times; try again later" in error.message
    assert error.transient


@pytest.mark.parametrize("proxy", ["nonsense://host:1", "http://[::1", "socks5://host:1"])
def test_a_proxy_that_cannot_be_used_is_an_error(provider, monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UsageError, match=r"cannot be asked: .*; check OMNIGRAPH_EMBED_URL, and"):
        embedder(provider, "https://host/v1").embed(["a"], 4)


def test_requests_go_through_a_proxy(provider, good, start, monkeypatch):
    proxy = start(good)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    embedder(provider, "http://nowhere.invalid/v1").embed(["a"], 4)
    assert proxy.asked[0].path.startswith("http://nowhere.invalid/v1/")


# --- time ---


def test_an_answer_that_takes_too_long_is_not_waited_for(provider, start):
    service = start(lambda asked, n: Answer(200, delay=PATIENCE))
    error = failed(embedder(provider, service.url, timeout=0.05))
    assert "gave no answer in time, 3 times" in error.message
    assert error.transient


def test_the_deadline_of_the_caller_holds_for_all_attempts(provider, start):
    service = start(lambda asked, n: Answer(503))
    made = embedder(provider, service.url, pause=30)
    error = failed(made, deadline=time.monotonic() + 25)
    assert "within the time limit" in error.message and "503" in error.message
    assert len(service.asked) == 1


def test_requests_keep_the_rate(provider, good, start):
    service = start(good)
    made = embedder(provider, service.url, rate=10)
    began = time.monotonic()
    for text in ("a", "b", "c", "d"):
        made.embed([text], 4)
    assert time.monotonic() - began >= 0.3


# --- answers that cannot be right ---


@pytest.mark.parametrize(
    "rows,message",
    [
        ([[1, 0, 0, 0]], "gave 1 vectors for 2 texts"),
        ([[1, 0, 0, 0]] * 3, "gave 3 vectors for 2 texts"),
        ([], "gave 0 vectors for 2 texts"),
        ([[1, 0, 0]] * 2, "gave vectors of 3 numbers, not 4"),
        ([[]] * 2, "gave vectors of 0 numbers, not 4"),
        ([[1, 0, 0, 0], [1, 0, 0]], "differ in size"),
        ([[1, 0, 0, float("nan")]] * 2, "not finite"),
        ([[1, 0, 0, float("inf")]] * 2, "not finite"),
        ([[1, 0, 0, 10**400]] * 2, "too large"),
        ([[0, 0, 0, 0]] * 2, "a vector of zeros"),
        ([[1, 0, 0, "0"]] * 2, "not a list of numbers"),
        ([[1, 0, 0, True]] * 2, "not a list of numbers"),
        (["AAAA"] * 2, "not a list of numbers"),
        ([None] * 2, "not a list of numbers"),
    ],
)
def test_a_wrong_answer_is_an_error(provider, vectors, start, rows, message):
    service = start(lambda asked, n: vectors(rows))
    error = failed(embedder(provider, service.url), "a", "b")
    assert message in error.message
    assert not error.transient
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "body", ["<html>Welcome</html>", "", '{"data": ', "[" * 100_000], ids=lambda b: b[:8]
)
def test_an_answer_that_is_not_json_is_an_error(provider, start, body):
    service = start(lambda asked, n: Answer(200, body))
    error = failed(embedder(provider, service.url))
    assert "its answer is not JSON; check that OMNIGRAPH_EMBED_URL" in error.message


@pytest.mark.parametrize(
    "body",
    [{}, [], "null", {"data": 1, "embeddings": 1}, {"data": [1], "embeddings": [1]}],
    ids=str,
)
def test_json_of_another_kind_is_an_error(provider, start, body):
    service = start(lambda asked, n: Answer(200, body))
    assert "its answer has no list" in failed(embedder(provider, service.url)).message


@pytest.mark.parametrize("places", [[0, 0], [1, 2], [0, "1"], [0, [1]], [0, None]], ids=str)
def test_vectors_that_are_numbered_wrongly_are_an_error(start, places):
    data = [{"index": place, "embedding": one_hot(0, 4)} for place in places]
    service = start(lambda asked, n: Answer(200, {"data": data}))
    made = embedder("openai-compatible", service.url)
    assert "not numbered from 0" in failed(made, "a", "b").message


# --- settings ---


def test_the_key_is_not_shown_with_the_settings():
    settings = Settings.from_env({"OMNIGRAPH_EMBED_API_KEY": KEY})
    assert settings.embed_api_key == KEY
    assert KEY not in repr(settings) and KEY not in str(settings)


def test_the_key_is_not_shown_with_the_embedder():
    settings = Settings(embed_provider="gemini", embed_api_key=KEY)
    assert KEY not in repr(embedder_of(settings))


@pytest.mark.parametrize("provider", ["openai-compatible", "gemini"])
def test_a_service_without_a_key_is_refused_before_it_is_asked(provider):
    with pytest.raises(UsageError, match="needs a key: set OMNIGRAPH_EMBED_API_KEY"):
        embedder_of(Settings(embed_provider=provider))


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https://host:port/v1",
        "ftp://host/",
        "https://host/v 1",
        "https://user:pa55@host/v1",
        "https://host/v1?key=pa55",
        "https://host/v1#pa55",
        "https://host/\n",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_not_shown(url):
    settings = Settings(embed_provider="gemini", embed_api_key=KEY, embed_url=url)
    with pytest.raises(UsageError, match="OMNIGRAPH_EMBED_URL") as caught:
        embedder_of(settings)
    assert "pa55" not in caught.value.message


def test_a_key_with_a_line_break_is_refused_and_not_shown():
    settings = Settings(embed_provider="gemini", embed_api_key="sk-1\nX-Other: 2")
    with pytest.raises(UsageError, match="OMNIGRAPH_EMBED_API_KEY") as caught:
        embedder_of(settings)
    assert "sk-1" not in caught.value.message


def test_a_model_that_the_local_provider_does_not_have_is_refused():
    with pytest.raises(UsageError, match="`big`, but the provider `local` has only"):
        embedder_of(Settings(embed_model="big"))


def test_a_provider_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="no embedding provider `cohere`; there are local, "):
        embedder_of(Settings(embed_provider="cohere"))


@pytest.mark.parametrize(
    "settings,identifier",
    [
        (Settings(), "local/wordllama-l2-supercat"),
        (Settings(embed_provider="mock"), "mock/mock"),
        (
            Settings(embed_provider="openai-compatible", embed_api_key="k"),
            "openai-compatible/text-embedding-3-small",
        ),
        (
            Settings(embed_provider="gemini", embed_api_key="k", embed_model="models/new"),
            "gemini/new",
        ),
    ],
)
def test_the_model_in_use_has_an_identifier(settings, identifier):
    made = embedder_of(settings)
    assert made.identifier == identifier
    assert made.is_model(identifier) and made.is_model(identifier.partition("/")[2])
    assert not made.is_model("other")
