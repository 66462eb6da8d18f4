"""`/openapi.json`: the operations and their types, as OpenAPI 3.1 describes them."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from omnigraph import __version__
from omnigraph.server import wire
from omnigraph.server.operations import JSON, NDJSON, Served
from omnigraph.server.routes import OPERATIONS

_REFERENCE = "#/components/schemas/{name}"
_BEARER: list[dict[str, list[str]]] = [{"bearer": []}]
_FAILURES = {
    "400": "The request makes no sense",
    "401": "There is no valid token",
    "403": "It is not allowed",
    "404": "There is no such thing",
    "409": "It conflicts with what is there",
    "410": "What comes next is gone",
    "412": "The branch is at another commit",
    "413": "It is too large",
    "415": "It is content of another type",
    "416": "The range is outside",
    "422": "The body does not fit",
    "500": "The server failed",
    "503": "Not now",
}


@cache
def document() -> bytes:
    """The document, as JSON."""
    types: list[Any] = [wire.Problem, wire.Health, wire.Readiness, wire.GraphList]
    for operation in OPERATIONS:
        types += [t for t in (operation.body, operation.answer) if _is_struct(t)]
    _, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for path, id, summary, type in _FLAT:
        about = {"operationId": id, "summary": summary}
        paths[path] = {"get": {**about, "responses": _responses(type)}}
    for operation in OPERATIONS:
        path = f"/graphs/{{graph_id}}{operation.path}"
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Omnigraph",
                "version": wire.CONTRACT,
                "x-omnigraph-version": __version__,
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


_FLAT: tuple[tuple[str, str, str, Any], ...] = (
    ("/healthz", "health", "Whether the server is there", wire.Health),
    ("/readyz", "ready", "Whether each graph can be asked", wire.Readiness),
    ("/graphs", "list_graphs", "The graphs that are served", wire.GraphList),
)


def _described(operation: Served) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "security": _BEARER,
        "parameters": _parameters(operation),
        "responses": _responses(operation.answer),
    }
    if operation.successor is not None:
        described["deprecated"] = True
    if operation.body is bytes:
        content = {NDJSON.partition(";")[0]: {"schema": {"type": "string"}}}
        described["requestBody"] = {"required": True, "content": content}
    elif operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": _ref(operation.body)}},
        }
    return described


def _parameters(operation: Served) -> list[dict[str, Any]]:
    names = ["graph_id", *_named_parts(operation.path)]
    text = {"type": "string"}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in names
    ]
    if operation.conditional:
        name = "Omnigraph-If-Graph-Commit"
        parameters.append({"name": name, "in": "header", "required": True, "schema": text})
    parameters += [
        {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            "schema": msgspec.json.schema(field.type),
        }
        for field in msgspec.structs.fields(operation.parameters)
    ]
    return parameters


def _named_parts(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _responses(answer: Any) -> dict[str, Any]:
    if _is_struct(answer):
        content = {JSON: {"schema": _ref(answer)}}
    elif isinstance(answer, str):
        content = {answer.partition(";")[0]: {"schema": {"type": "string"}}}
    else:
        content = {JSON: {"schema": {"type": "object"}}}
    problem = {JSON: {"schema": _ref(wire.Problem)}}
    failures = {s: {"description": d, "content": problem} for s, d in _FAILURES.items()}
    return {"200": {"description": "Done", "content": content}, **failures}


def _ref(type: Any) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=type.__name__)}


def _is_struct(type: Any) -> bool:
    return inspect.isclass(type) and issubclass(type, Struct)
