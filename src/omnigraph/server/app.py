"""The application: from a request to a call of an operation, and from its answer to bytes.

Each request goes the same way: its id, its token, its graph, its permission, its body within the
limit, then the operation in a thread. What is wrong is answered as a `Problem`; what is wrong with
the server is logged with the request's id, and only the id leaves.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.history.manifest import FORMAT
from omnigraph.server import wire
from omnigraph.server.access import Access
from omnigraph.server.addresses import EncodedParts, named_parts
from omnigraph.server.openapi import document
from omnigraph.server.operations import (
    IF_COMMIT,
    JSON,
    Answer,
    Call,
    Served,
    decoded,
    parameters_of,
)
from omnigraph.server.problems import Failure, RequestError, failure, failure_of
from omnigraph.server.routes import OPERATIONS
from omnigraph.server.served_graphs import ServedGraphs

_LOG = logging.getLogger("omnigraph.server")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+-]{1,128}")
_NDJSON_TYPES = ("application/x-ndjson", "application/jsonl", "application/octet-stream")


class Limits(Struct, frozen=True):
    """What a server takes on at most.

    Attributes:
        body: Bytes of a request.
        load: Bytes of a request that loads.
        threads: How many operations run at a time; others wait.
    """

    body: int = 1 << 20
    load: int = 32 << 20
    threads: int = 16


def create_app(
    places: Mapping[str, str], access: Access, limits: Limits | None = None
) -> Starlette:
    """The application that serves graphs.

    Args:
        places: Where each graph is, by its name.
        access: Who may do what.
        limits: What it takes on at most.
    """
    return _Server(ServedGraphs(places), access, limits or Limits()).app()


class _Server:
    def __init__(self, graphs: ServedGraphs, access: Access, limits: Limits) -> None:
        self._graphs = graphs
        self._access = access
        self._limits = limits
        self._threads = anyio.CapacityLimiter(limits.threads)

    def app(self) -> Starlette:
        """The application."""
        routes: list[BaseRoute] = [
            Route("/healthz", self._plain(self._health, None)),
            Route("/readyz", self._plain(self._ready, None)),
            Route("/openapi.json", self._plain(self._document, None)),
            Route("/graphs", self._plain(self._list, "graph_list")),
        ]
        for operation in OPERATIONS:
            route = Route(
                f"/graphs/{{graph}}{operation.path}",
                self._endpoint(operation),
                methods=[operation.method],
            )
            # Starlette adds HEAD to GET by itself; operations say what they have.
            route.methods = {operation.method}
            routes.append(route)
        app = Starlette(
            routes=routes, lifespan=self._lifespan, middleware=[Middleware(EncodedParts)]
        )
        app.add_exception_handler(HTTPException, _unknown)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(self._graphs.close)

    # --- operations that are about the server ---

    def _health(self) -> Any:
        return wire.Health("ok", wire.CONTRACT, FORMAT)

    def _ready(self) -> Any:
        problems = {name: self._graphs.problem(name) for name in self._graphs}
        for name, error in problems.items():
            if error is not None:
                _LOG.error("graph %s cannot be asked: %s", name, error.message)
        states = {n: "ready" if e is None else e.code for n, e in problems.items()}
        if any(problems.values()):
            content = msgspec.json.encode(wire.Readiness("not_ready", states))
            return Answer(content, status=503)
        return wire.Readiness("ready", states)

    def _document(self) -> Any:
        return Answer(document())

    def _list(self) -> Any:
        rows = [wire.ServedGraphRow(name, f"/graphs/{name}") for name in self._graphs]
        return wire.GraphList(rows)

    def _plain(self, run: Any, action: Any) -> Any:
        async def serve(request: Request, id: str) -> Response:
            if action is not None:
                self._access.actor(request.headers.get("authorization"))
                self._access.check(action)
            answer = await anyio.to_thread.run_sync(run, limiter=self._threads)
            return _response(answer)

        return self._guarded(serve)

    # --- operations on a graph ---

    def _endpoint(self, operation: Served) -> Any:
        async def serve(request: Request, id: str) -> Response:
            actor = self._access.actor(request.headers.get("authorization"))
            parts = named_parts(request)
            name = parts.pop("graph")
            if name not in self._graphs:
                raise RequestError(404, f"there is no graph `{name}`")
            self._access.check(operation.action)
            content = await self._body(request, operation)
            headers = _headers(request, operation)
            pairs = list(request.query_params.multi_items())

            def run() -> Any:
                body = content
                if operation.body not in (None, bytes):
                    body = decoded(operation.body, content)
                call = Call(
                    self._opened(name, id),
                    name,
                    actor,
                    self._access,
                    parts,
                    parameters_of(operation.parameters, pairs),
                    body,
                    headers,
                )
                return _encoded(operation.run(call))

            answer = await anyio.to_thread.run_sync(run, limiter=self._threads)
            response = _response(answer)
            if operation.successor is not None:
                successor = f'</graphs/{name}/{operation.successor}>; rel="successor-version"'
                response.headers["Deprecation"] = "true"
                response.headers["Link"] = successor
            return response

        return self._guarded(serve)

    def _opened(self, name: str, id: str) -> Graph:
        try:
            return self._graphs.graph(name)
        except OmnigraphError as error:
            # The message names its place.
            _LOG.error("request %s: graph %s cannot be opened: %s", id, name, error.message)
            text = f"the graph cannot be opened; the server's log says why, at request {id}"
            raise RequestError(503, text) from error

    async def _body(self, request: Request, operation: Served) -> bytes:
        if operation.body is None:
            return b""
        limit = self._limits.load if operation.is_load else self._limits.body
        _check_type(request, operation)
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            raise _too_large(limit, int(declared))
        content = bytearray()
        async for portion in request.stream():
            content += portion
            if len(content) > limit:
                raise _too_large(limit, len(content))
        return bytes(content)

    def _guarded(self, serve: Callable[[Request, str], Awaitable[Response]]) -> Any:
        async def endpoint(request: Request) -> Response:
            id = request.headers.get("x-request-id", "")
            if not _REQUEST_ID.fullmatch(id):
                id = new_ulid()
            try:
                response = await serve(request, id)
            except ClientDisconnect:
                # Nobody reads it.
                response = Response(status_code=400)
            except Exception as error:
                response = _failed(error, request, id)
            response.headers["X-Request-Id"] = id
            return response

        return endpoint


def _headers(request: Request, operation: Served) -> dict[str, str]:
    """The headers, of which those that matter may come only once."""
    values = request.headers.getlist(IF_COMMIT)
    if not operation.conditional:
        if values:
            raise RequestError(400, f"{IF_COMMIT} does not belong to this operation")
    elif len(values) != 1 or not values[0].isalnum():
        raise RequestError(400, f"{IF_COMMIT} is the id of one commit, as it is")
    return dict(request.headers.items())


def _check_type(request: Request, operation: Served) -> None:
    type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if operation.body is bytes and type in ("", *_NDJSON_TYPES):
        return
    if type == JSON or (type.startswith("application/") and type.endswith("+json")):
        return
    wanted = _NDJSON_TYPES[0] if operation.body is bytes else JSON
    raise RequestError(415, f"send {wanted}, not `{type}`")


def _too_large(limit: int, actual: int) -> RequestError:
    details = {"resource": "request body", "limit": limit, "actual": actual}
    text = f"the body has more than the {limit:,} bytes that it may have"
    return RequestError(413, text, resource_limit=details)


def _encoded(answer: Any) -> Answer:
    return answer if isinstance(answer, Answer) else Answer(msgspec.json.encode(answer))


def _response(answer: Any) -> Response:
    made = _encoded(answer)
    headers = {"Content-Type": made.type, **made.headers}
    if isinstance(made.content, bytes):
        return Response(made.content, made.status, headers)
    return StreamingResponse(_portions(made.content), made.status, headers)


async def _portions(content: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The portions of an answer, each made in a thread; what is left is let go at the end."""

    def following() -> bytes | None:
        return next(content, None)

    try:
        while (portion := await anyio.to_thread.run_sync(following)) is not None:
            yield portion
    finally:
        close = getattr(content, "close", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(close)


def _failed(error: Exception, request: Request, id: str) -> Response:
    failed: Failure | None = None
    if isinstance(error, RequestError):
        failed = error.failure
    elif isinstance(error, OmnigraphError):
        failed = failure_of(error)
    if failed is None:
        _LOG.error("request %s: %s %s failed", id, request.method, request.url.path, exc_info=error)
        failed = failure(500, f"internal error; the server's log has it as request {id}")
    return _failure_response(failed)


def _failure_response(failed: Failure) -> Response:
    headers = {"Content-Type": JSON, **failed.headers}
    return Response(msgspec.json.encode(failed.problem), failed.status, headers)


async def _unknown(request: Request, error: Exception) -> Response:
    """An address or a method that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    text = "there is no such address" if status == 404 else f"not with {request.method}"
    headers = getattr(error, "headers", None)
    return _failure_response(structs.replace(failure(status, text), headers=headers or {}))
