"""Who may ask a server, how it starts and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from omnigraph.errors import UsageError
from omnigraph.graph import open as open_graph
from omnigraph.server.access import Access
from omnigraph.server.access import access_of as access_of_settings
from omnigraph.server.problems import RequestError
from omnigraph.server.served_graphs import places_of
from omnigraph.settings import Settings
from tests.server.process import Server

TOKEN = "a-secret-of-ada"
FILE = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
JSON = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"
ONE = "OMNIGRAPH_SERVER_BEARER_TOKEN"
ADD = 'query q() { insert Person { name: "ada" } }'


def access_of(environment: dict[str, str]) -> Access | None:
    return access_of_settings(Settings.from_env(environment))


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnigraph", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_token_lets_read_and_nothing_else(place: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"ada": TOKEN}))
    server = Server(tmp_path, str(place), environment={FILE: str(tokens)})
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    try:
        assert server.http.get("/healthz").status_code == 200
        for path in ("/graphs/team/snapshot", "/graphs/nothing/snapshot", "/graphs"):
            missing = server.http.get(path)
            assert missing.status_code == 401 and missing.headers["www-authenticate"] == "Bearer"
            assert missing.json() == {"error": "missing bearer token", "code": "unauthorized"}
        wrong = server.get("/snapshot", headers={"Authorization": "Bearer wrong-token"})
        assert wrong.json() == {"error": "invalid bearer token", "code": "unauthorized"}
        assert server.get("/snapshot", headers=bearer).status_code == 200
        for answer in (
            server.post("/mutate", {"query": ADD}, headers=bearer),
            server.post("/export", headers=bearer),
            server.post("/branches", {"name": "b"}, headers=bearer),
            server.http.get("/graphs", headers=bearer),
        ):
            assert answer.status_code == 403 and answer.json()["code"] == "forbidden"
        assert server.http.get("/graphs/nothing/snapshot", headers=bearer).status_code == 404
    finally:
        assert server.stop(signal.SIGINT) == 0
    assert TOKEN not in server.log.read_text()


def test_what_was_answered_survives_a_kill(place: Path, tmp_path: Path) -> None:
    server = Server(tmp_path, str(place), "--unauthenticated")
    answer = server.post("/mutate", {"query": ADD}).json()
    server.stop(signal.SIGKILL)
    with open_graph(place, mode="r") as graph:
        assert graph.commits(limit=1)[0].id == answer["commit"]["graph_commit_id"]


def test_a_graph_that_is_gone_is_no_reason_to_name_its_place(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.omni"
    copytree(place, copy)
    server = Server(tmp_path, f"team={copy}", "--unauthenticated")
    try:
        rmtree(copy)
        assert server.http.get("/readyz").status_code == 503
        answer = server.get("/snapshot")
        assert answer.status_code == 503 and "copy.omni" not in answer.text
        assert answer.headers["x-request-id"] in server.log.read_text()
        assert server.http.get("/healthz").status_code == 200
    finally:
        assert server.stop() == 0


def test_a_server_says_why_it_does_not_start(place: Path, tmp_path: Path) -> None:
    for arguments, part in (
        ([str(place)], "there are no tokens"),
        ([], "name the graphs"),
        ([str(place), "--unauthenticated", "--bind", "nonsense"], "give an address and a port"),
        ([str(tmp_path / "none.omni"), "--unauthenticated"], "no graph"),
    ):
        answer = ran(*arguments)
        assert answer.returncode in (1, 2) and part in answer.stderr
        assert "Traceback" not in answer.stderr and answer.stdout == ""


def test_names_of_graphs() -> None:
    assert places_of(["a/team.omni", "x=s3://b/y.omni"]) == {
        "team": "a/team.omni",
        "x": "s3://b/y.omni",
    }
    with pytest.raises(UsageError, match="both called `team`"):
        places_of(["a/team.omni", "b/team.omni"])
    with pytest.raises(UsageError, match="name it: NAME="):
        places_of(["a/my team.omni"])


def test_tokens_are_digests_and_make_sense() -> None:
    access = access_of({JSON: json.dumps({"ada": TOKEN, "bob": "another-secret"})})
    assert access is not None and TOKEN not in repr(access)
    assert (
        access.actor(f"Bearer {TOKEN}") == "ada" and access.actor("bearer another-secret") == "bob"
    )
    for header in (None, "", "Basic x", "Bearer", "Bearer nope-nope"):
        with pytest.raises(RequestError):
            access.actor(header)
    one = access_of({ONE: TOKEN})
    assert one is not None and one.actor(f"Bearer {TOKEN}") == "default"
    assert access_of({}) is None
    for environment, part in (
        ({JSON: "{"}, "JSON object"),
        ({JSON: "{}"}, "no token"),
        ({JSON: '{"a": "short"}'}, "characters or more"),
        ({JSON: json.dumps({"a": TOKEN, "b": TOKEN})}, "the same token"),
        ({FILE: "/nothing/here"}, FILE),
        ({ONE: TOKEN, JSON: "{}"}, "both set"),
    ):
        with pytest.raises(UsageError, match=part):
            access_of(environment)
