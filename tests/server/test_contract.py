"""The published contract, asked with plain HTTP of a real server."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import httpx
import pytest

from tests.server.process import Server

ADD = "query add($n: String, $a: I64?) { insert Person { name: $n, age: $a } }"
AGES = "query ages() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
COMMIT = {
    "graph_commit_id", "graph_branch", "parent_commit_id", "merged_parent_commit_id",
    "graph_manifest_version", "actor_id", "created_at",
}  # fmt: skip
_numbers = count()


def new(prefix: str = "p") -> str:
    """A name that nobody has."""
    return f"{prefix}{next(_numbers)}"


def added(server: Server, branch: str | None = None, **params: Any) -> dict[str, Any]:
    body = {"query": ADD, "params": {"n": new(), **params}, "branch": branch}
    answer = server.post("/mutate", body)
    assert answer.status_code == 200, answer.text
    written: dict[str, Any] = answer.json()
    return written


def refused(answer: httpx.Response, status: int, code: str | None) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    problem: dict[str, Any] = answer.json()
    assert problem.get("code") == code and problem["error"]
    assert "Traceback" not in answer.text and "team.omni" not in answer.text
    return problem


def test_health_and_the_list_of_graphs(server: Server) -> None:
    health = server.http.get("/healthz").json()
    assert (health["status"], health["version"]) == ("ok", "0.10")
    assert isinstance(health["internal_schema_version"], int)
    assert server.http.get("/readyz").json() == {"status": "ready", "graphs": {"team": "ready"}}
    graphs = server.http.get("/graphs").json()
    assert graphs == {"graphs": [{"graph_id": "team", "uri": "/graphs/team"}]}


def test_a_snapshot_lists_the_tables(server: Server) -> None:
    added(server)
    snapshot = server.get("/snapshot").json()
    assert snapshot["graph_branch"] == "main" and snapshot["graph_manifest_version"] > 1
    person, knows = snapshot["datasets"]
    assert (person["entity_kind"], person["type_name"]) == ("node", "Person")
    assert (knows["entity_kind"], knows["type_name"]) == ("edge", "Knows")
    assert person["entity_count"] >= 1 and person["published_dataset_version"] > 1
    assert person["native_dataset_branch"] is None and person["dataset_path"]
    assert "node Person" in server.get("/schema").json()["schema_source"]


def test_a_mutation_is_one_commit(server: Server) -> None:
    name = new()
    answer = server.post("/mutate", {"query": ADD, "params": {"n": name, "a": 3}}).json()
    assert (answer["branch"], answer["query_name"]) == ("main", "add")
    assert (answer["affected_nodes"], answer["affected_edges"]) == (1, 0)
    assert answer["actor_id"] is None and set(answer["commit"]) == COMMIT
    id = answer["commit"]["graph_commit_id"]
    assert server.get(f"/commits/{id}").json() == answer["commit"]
    assert answer["commit"]["graph_branch"] is None
    nothing = "query q($n: String) { update Person set { age: 1 } where name = $n }"
    unchanged = server.post("/mutate", {"query": nothing, "params": {"n": "nobody"}}).json()
    assert unchanged["commit"] is None and unchanged["affected_nodes"] == 0


def test_a_query_answers_rows_of_one_commit(server: Server) -> None:
    name = new()
    first = added(server, n=name, a=1)["commit"]["graph_commit_id"]
    body = {
        "query": f'query q() {{ match {{ $p: Person {{ name: "{name}" }} }} return {{ $p.age }} }}'
    }
    answer = server.post("/query", body).json()
    assert answer["query_name"] == "q" and answer["columns"] == ["p.age"]
    assert answer["rows"] == [{"p.age": 1}] and answer["row_count"] == 1
    assert answer["target"] == {"branch": "main", "snapshot": None}
    set_age = f'query s() {{ update Person set {{ age: 2 }} where name = "{name}" }}'
    server.post("/mutate", {"query": set_age})
    assert server.post("/query", body).json()["rows"] == [{"p.age": 2}]
    then = server.post("/query", {**body, "snapshot": first}).json()
    assert then["rows"] == [{"p.age": 1}] and then["graph_commit_id"] == first
    assert then["target"] == {"branch": None, "snapshot": first}


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({}, 422, "query"),
        ({"query": 5}, 422, "str"),
        ({"query": "query q() { match { $p: Persn } return { $p.name } }"}, 400, "Person"),
        ({"query": "query q( {"}, 400, "OG-SY"),
        ({"query": AGES, "name": "nothing"}, 400, "nothing"),
        ({"query": f"{AGES} {AGES.replace('ages', 'more')}"}, 400, "which query"),
        ({"query": AGES, "branch": "main", "snapshot": "x"}, 400, "not both"),
        ({"query": AGES, "params": {"x": 1}}, 400, "x"),
        ({"query": "query q() { delete Person where name = \"x\" }"}, 400, "mutate"),
    ],
)  # fmt: skip
def test_a_query_that_makes_no_sense_is_refused(
    server: Server, body: dict[str, Any], status: int, part: str
) -> None:
    assert part in refused(server.post("/query", body), status, "bad_request")["error"]


def test_what_is_not_there_is_404(server: Server) -> None:
    for answer in (
        server.http.get("/graphs/other/snapshot"),
        server.get("/snapshot", params={"branch": "nothing"}),
        server.get("/commits/01K1F5J2Z3B4N5M6P7Q8R9S0T1"),
        server.post("/query", {"query": AGES, "branch": "nothing"}),
        server.post("/mutate", {"query": ADD, "params": {"n": "x"}, "branch": "nothing"}),
        server.http.delete("/graphs/team/branches/nothing"),
        server.get("/nothing"),
        server.http.get("/graphs/team%2Fsnapshot"),
        server.http.get("/graphs/%2e%2e/snapshot"),
        server.http.get("/graphs/%ff/snapshot"),
        server.http.get("/graphs/team/branches/%00"),
        server.post("/queries/nothing"),
    ):
        refused(answer, 404, "not_found")
    refused(server.http.put("/graphs/team/query"), 405, "method_not_allowed")


def test_bodies_that_are_no_json_or_too_large(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    post = server.http.post
    for content in (b"{", b'{"query": "\xff"}', b""):
        refused(post("/graphs/team/query", content=content, headers=headers), 400, "bad_request")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused(post("/graphs/team/query", content=b"a=b", headers=form), 415, "bad_request")
    large = b" " * ((1 << 20) + 1)
    sent: tuple[Any, ...] = (large, iter([large]))
    for whole_or_chunked in sent:
        answer = post("/graphs/team/query", content=whole_or_chunked, headers=headers)
        limit = refused(answer, 413, "bad_request")["resource_limit"]
        assert limit["limit"] == 1 << 20 and limit["actual"] > 1 << 20


def test_rules_of_the_schema_are_kept(server: Server) -> None:
    body = {"query": ADD, "params": {"n": new(), "a": 999}}
    assert "0..150" in refused(server.post("/mutate", body), 400, "bad_request")["error"]


def test_a_write_at_a_commit(server: Server) -> None:
    path, name = "/mutate/if-graph-commit", "Omnigraph-If-Graph-Commit"
    old = added(server)["commit"]["graph_commit_id"]
    head = added(server)["commit"]["graph_commit_id"]
    body = {"query": ADD, "params": {"n": new()}}
    late = refused(server.post(path, body, headers={name: old}), 412, None)
    assert late["precondition_failure"] == {"expected": old, "actual": head}
    assert server.post(path, body, headers={name: head}).status_code == 200
    for value in ("*", f'"{head}"', f"W/{head}", f"{head}, {head}", ""):
        refused(server.post(path, body, headers={name: value}), 400, "bad_request")
    twice = httpx.Headers([(name, head), (name, head)])
    refused(server.post(path, body, headers=twice), 400, "bad_request")
    refused(server.post(path, body), 400, "bad_request")
    refused(server.post("/mutate", body, headers={name: head}), 400, "bad_request")


def test_a_write_with_a_key_is_done_once(server: Server) -> None:
    body, headers = {"query": ADD, "params": {"n": new()}}, {"Idempotency-Key": new("key")}
    first = server.post("/mutate", body, headers=headers).json()
    again = server.post("/mutate", body, headers=headers).json()
    assert again["commit"] == first["commit"]


def line(name: str, **properties: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **properties}})


def test_loads_in_a_text_and_as_lines(server: Server) -> None:
    ada, bob = new("ada"), new("bob")
    knows = json.dumps({"edge": "Knows", "from": ada, "to": bob, "data": {"since": "2020-01-01"}})
    answer = server.post("/load", {"data": "\n".join([line(ada, age=36), line(bob), knows])}).json()
    assert answer["nodes"] == [{"name": "Person", "entities_loaded": 2}]
    assert answer["edges"] == [{"name": "Knows", "entities_loaded": 1}]
    assert (answer["total_entities"], answer["mode"]) == (3, "merge")
    assert answer["uri"] == "/graphs/team" and set(answer["commit"]) == COMMIT
    assert (answer["branch"], answer["base_branch"], answer["branch_created"]) == (
        "main", None, False,
    )  # fmt: skip
    headers, draft = {"Content-Type": "application/x-ndjson"}, new("draft")
    options: dict[str, Any] = {
        "params": {"branch": draft, "from": "main", "mode": "append"},
        "headers": headers,
        "content": line(new()) + "\n",
    }
    lines = server.http.post("/graphs/team/load/ndjson", **options).json()
    assert lines["branch_created"] and lines["base_branch"] == "main" and "uri" not in lines
    options["content"] = line(ada) + "\n"
    taken = server.http.post("/graphs/team/load/ndjson", **options)
    conflict = refused(taken, 409, "conflict")["key_conflict"]
    assert conflict == {"entity_kind": "node", "type_name": "Person", "entity_id": ada}
    taken_edge = {"edge": "Knows", "from": ada, "to": bob, "data": {"id": new("e")}}
    options["content"] = json.dumps(taken_edge)
    assert server.http.post("/graphs/team/load/ndjson", **options).status_code == 200
    again = server.http.post("/graphs/team/load/ndjson", **options)
    conflict = refused(again, 409, "conflict")["key_conflict"]
    assert (conflict["entity_kind"], conflict["type_name"]) == ("edge", "Knows")
    options["content"] = '{"type": "Person", "data": {"nam'
    refused(server.http.post("/graphs/team/load/ndjson", **options), 400, "bad_request")


def test_branches_with_slashes_are_one_part(server: Server) -> None:
    name = f"agents/{new()}"
    created = server.post("/branches", {"name": name}).json()
    assert created == {"uri": "/graphs/team", "from": "main", "name": name, "actor_id": None}
    assert name in server.get("/branches").json()["branches"]
    refused(server.post("/branches", {"name": name}), 409, "conflict")
    refused(server.post("/branches", {"name": "a b"}), 400, "bad_request")
    path = f"/graphs/team/branches/{name.replace('/', '%2F')}"
    deleted = server.http.delete(path).json()
    assert deleted == {"uri": "/graphs/team", "name": name, "actor_id": None}
    assert name not in server.get("/branches").json()["branches"]
    refused(server.http.delete("/graphs/team/branches/main"), 400, "bad_request")


def test_merges_and_their_conflicts(server: Server) -> None:
    draft, person = new("draft"), new()
    added(server, n=person, a=1)
    server.post("/branches", {"name": draft})
    merge = {"source": draft, "target": "main"}
    same = server.post("/branches/merge", merge).json()
    assert same == {**merge, "outcome": "already_up_to_date", "actor_id": None}
    added(server, branch=draft)
    assert server.post("/branches/merge", merge).json()["outcome"] == "fast_forward"
    for branch, age in ((draft, 7), ("main", 8)):
        text = f'query s() {{ update Person set {{ age: {age} }} where name = "{person}" }}'
        server.post("/mutate", {"query": text, "branch": branch})
    (conflict,) = refused(server.post("/branches/merge", merge), 409, "conflict")["merge_conflicts"]
    assert conflict["message"] and {k: v for k, v in conflict.items() if k != "message"} == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": person,
        "kind": "DivergentUpdate",
    }
    other = new("draft")
    server.post("/branches", {"name": other})
    added(server, branch=other)
    added(server)
    merged = server.post("/branches/merge", {"source": other, "delete_branch": True}).json()
    assert (merged["outcome"], merged["branch_deleted"]) == ("merged", True)
    assert "branch_delete_error" not in merged
    head = server.get("/commits", params={"limit": 1}).json()["commits"][0]
    assert head["merged_parent_commit_id"] and head["graph_branch"] is None
    refused(server.post("/branches/merge", {"source": "nothing"}), 404, "not_found")


def test_changes_of_a_commit_in_pages(server: Server) -> None:
    names = sorted(new("many") for _ in range(5))
    loaded = server.post("/load", {"data": "\n".join(line(name) for name in names)}).json()
    path = f"/commits/{loaded['commit']['graph_commit_id']}/changes"
    token: dict[str, Any] = {}
    ids: list[str] = []
    for _ in range(3):
        page = server.get(path, params={"limit": 2, **token}).json()
        ids += [change["id"] for change in page["changes"]]
        token = {"page_token": page.get("next_page_token")}
    assert ids == names and token == {"page_token": None}
    change = page["changes"][0]
    assert (change["kind"], change["op"], change["type"]["name"]) == ("node", "insert", "Person")
    assert "before" not in change and change["after"]["properties"]["name"] == names[-1]
    assert page["cause"]["authored_branch"] == "main"
    assert "merged_parent_commit_id" not in page["cause"]
    first = server.get("/commits").json()["commits"][-1]["graph_commit_id"]
    refusal = refused(server.get(f"/commits/{first}/changes"), 409, "conflict")
    assert refusal["change_diff_refusal"]["reason"] == "parentless_commit"
    refused(server.get(path, params={"page_token": "zz"}), 400, "bad_request")
    refused(server.get(path, params={"unknown": "1"}), 400, "bad_request")


def test_the_feed_is_read_to_its_end_and_goes_on(server: Server) -> None:
    cursor = server.get("/changes", params={"start": "now"}).json()["cursor"]
    one = added(server)["commit"]["graph_commit_id"]
    two = added(server)["commit"]["graph_commit_id"]
    page = server.get("/changes", params={"cursor": cursor, "limit": 1}).json()
    assert [b["cause"]["graph_commit_id"] for b in page["blocks"]] == [one]
    assert "cursor" not in page and "caught_up" not in page
    last = server.get("/changes", params={"page_token": page["next_page_token"]}).json()
    assert [b["cause"]["graph_commit_id"] for b in last["blocks"]] == [two]
    assert last["caught_up"] is True and "next_page_token" not in last
    bad = refused(server.get("/changes", params={"cursor": "bad"}), 400, "bad_request")
    assert bad["error"].startswith("change cursor rejected: ")
    both = {"cursor": cursor, "start": "now"}
    refused(server.get("/changes", params=both), 400, "bad_request")
    many = server.get(
        "/changes", params=[("start", "beginning"), ("kind", "node"), ("kind", "edge")]
    )
    assert many.status_code == 200 and many.json()["blocks"]


def test_exports_and_baselines_are_lines(server: Server) -> None:
    name = added(server, n=new(), a=4) and new()
    added(server, n=name, a=5)
    export = server.post("/export", {"type_names": ["Person"]})
    assert export.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    rows = [json.loads(text) for text in export.text.splitlines()]
    assert {"type": "Person", "data": {"name": name, "age": 5}} in rows
    refused(server.post("/export", {"type_names": ["Nobody"]}), 404, "not_found")
    *entities, last = map(json.loads, server.post("/changes/baseline").text.splitlines())
    assert any(e["id"] == name and e["after"]["properties"]["age"] == 5 for e in entities)
    cursor = last["baseline"]["resume_cursor"]
    assert server.get("/changes", params={"cursor": cursor}).json()["blocks"] == []
    snapshot = last["baseline"]["snapshot_commit_id"]
    assert server.get("/commits").json()["commits"][0]["graph_commit_id"] == snapshot


def test_blob_values_in_ranges(server: Server) -> None:
    name = new("pic")
    server.post("/load", {"data": line(name, photo="base64:aGVsbG8gd29ybGQ=")})
    where = {"entity": "node", "type": "Person", "id": name, "property": "photo"}

    def blob(method: str = "GET", **headers: str) -> httpx.Response:
        return server.http.request(
            method,
            "/graphs/team/blob",
            params=where,
            headers={k.replace("_", "-"): v for k, v in headers.items()},
        )

    whole = blob()
    assert (whole.status_code, whole.content) == (200, b"hello world")
    assert whole.headers["accept-ranges"] == "bytes" and whole.headers["omnigraph-snapshot-id"]
    tag = whole.headers["etag"]
    part = blob(Range="bytes=2-4")
    assert (part.status_code, part.content) == (206, b"llo")
    assert part.headers["content-range"] == "bytes 2-4/11"
    assert blob(Range="bytes=-5").content == b"world"
    assert blob(Range="bytes=2-4", If_Range='"other"').content == b"hello world"
    outside = blob(Range="bytes=50-")
    assert refused(outside, 416, "bad_request")["blob_range"]["length"] == 11
    assert outside.headers["content-range"] == "bytes */11"
    assert blob(If_None_Match=tag).status_code == 304
    assert blob(If_Match='"other"').status_code == 412
    head = blob("HEAD")
    assert head.headers["content-length"] == "11" and head.content == b""
    where["id"] = "nobody"
    refused(blob(), 404, "not_found")


def test_deprecated_routes_name_their_successors(server: Server) -> None:
    answer = server.post("/read", {"query_source": AGES})
    assert answer.headers["deprecation"] == "true"
    assert answer.headers["link"] == '</graphs/team/query>; rel="successor-version"'
    assert answer.json()["rows"] and "graph_commit_id" not in answer.json()
    change = server.post("/change", {"query_source": ADD, "params": {"n": new()}})
    assert change.json()["affected_nodes"] == 1 and "mutate" in change.headers["link"]
    ingest = server.post("/ingest", {"data": line(new())})
    assert ingest.json()["total_entities"] == 1 and "load" in ingest.headers["link"]


def test_requests_have_ids(server: Server) -> None:
    assert server.http.get("/healthz").headers["x-request-id"]
    given = server.http.get("/healthz", headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    odd = server.http.get("/healthz", headers={"X-Request-Id": "a b"})
    assert odd.headers["x-request-id"] != "a b"


def test_a_large_answer_is_whole(server: Server) -> None:
    lines = "\n".join(line(f"row{i:05}", age=i % 100) for i in range(3000))
    server.post("/load", {"data": lines})
    text = 'query q() { match { $p: Person $p.name starts_with "row" } return { $p.name, $p.age } }'
    answer = server.post("/query", {"query": text}).json()
    assert answer["row_count"] == len(answer["rows"]) == 3000


def test_openapi_has_every_operation(server: Server) -> None:
    document = server.http.get("/openapi.json").json()
    operations = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(set(operations)) == len(operations)
    assert {"cluster_query", "cluster_mutate", "cluster_changes", "health"} <= set(operations)
    assert "Problem" in document["components"]["schemas"]
