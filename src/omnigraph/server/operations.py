"""What an operation is: its address, what it takes, what it answers, and the call of a `Graph`.

Routes and `/openapi.json` are both made from the list of operations, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, field

from omnigraph.graph import Graph
from omnigraph.server.access import Access, Action
from omnigraph.server.problems import RequestError
from omnigraph.server.wire import NoParameters

Parameters = TypeVar("Parameters")
Body = TypeVar("Body")
Method = Literal["GET", "HEAD", "POST", "DELETE"]

JSON = "application/json"
NDJSON = "application/x-ndjson; charset=utf-8"
ARROW = "application/vnd.apache.arrow.stream"
IF_COMMIT = "omnigraph-if-graph-commit"
IDEMPOTENCY_KEY = "idempotency-key"


class Call(Struct, Generic[Parameters, Body], frozen=True):
    """One request, as an operation sees it.

    Attributes:
        graph: The graph; not of operations on all graphs.
        graph_id: The name under which it is served.
        actor: Who asks.
        access: What they may do.
        path: The parts of the address that have names, decoded.
        parameters: The query string.
        body: What was sent: the decoded request, or its bytes.
        headers: The headers, with names in lower case.
    """

    graph: Graph
    graph_id: str
    actor: str | None
    access: Access
    path: Mapping[str, str]
    parameters: Parameters
    body: Body
    headers: Mapping[str, str]

    @property
    def idempotency_key(self) -> str | None:
        """The key under which a write is done once, however often it is sent."""
        return self.headers.get(IDEMPOTENCY_KEY)

    @property
    def uri(self) -> str:
        """What answers call the graph: never where it is stored."""
        return f"/graphs/{self.graph_id}"

    def check(self, action: Action) -> None:
        """Refuse what needs a second permission, and is not allowed."""
        self.access.check(action)

    def accepts(self, type: str) -> bool:
        """True when the client asks for a type of content by its name."""
        accepted = self.headers.get("accept", "")
        return any(part.partition(";")[0].strip() == type for part in accepted.split(","))


class Answer(Struct, frozen=True):
    """An answer that is no JSON of a wire type.

    Attributes:
        content: Its bytes, or what makes them, portion by portion, in a thread.
        type: What they are.
        status: The status.
        headers: More headers.
    """

    content: bytes | Iterator[bytes]
    type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Served(Struct, frozen=True):
    """An operation.

    Attributes:
        method: The method.
        path: The address, as Starlette writes patterns.
        id: Its name in `/openapi.json`.
        summary: What it does, in a line.
        action: What one has to be allowed; None for what everybody may.
        run: Does it.
        parameters: The type of its query string.
        body: The type of its body; `bytes` for what is no JSON, None for none.
        answer: The type of its answer, or of its content.
        is_load: Its body may be as large as that of a load.
        conditional: It takes the header that names the head.
        successor: The operation that replaces it, if it is deprecated.
    """

    method: Method
    path: str
    id: str
    summary: str
    action: Action | None
    run: Callable[[Any], Any]
    parameters: type[Struct] = NoParameters
    body: type | None = None
    answer: Any = None
    is_load: bool = False
    conditional: bool = False
    successor: str | None = None


def decoded(type: Any, content: bytes) -> Any:
    """The body of a request.

    Raises:
        RequestError: It is no JSON, or is not of the type.
    """
    try:
        return msgspec.json.decode(content, type=type)
    except msgspec.ValidationError as error:
        raise RequestError(422, f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(400, f"the body is no JSON: {error}") from None


def parameters_of(type: type[Struct], pairs: list[tuple[str, str]]) -> Any:
    """The parameters of an address.

    Raises:
        RequestError: One is unknown where that matters, comes twice, or makes no sense.
    """
    fields = {info.encode_name: info for info in msgspec.structs.fields(type)}
    values: dict[str, Any] = {}
    for name, value in pairs:
        known = fields.get(name)
        if known is not None and _takes_many(known.type):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise RequestError(400, f"the parameter `{name}` comes twice")
        else:
            values[name] = value
    try:
        return msgspec.convert(values, type, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(400, f"the parameters do not fit: {error}") from None


def _takes_many(type: Any) -> bool:
    return any(get_origin(part) is list for part in (type, *get_args(type)))
