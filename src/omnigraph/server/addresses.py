"""The parts of an address: each is decoded by itself, after the address was divided.

A branch `a/b` comes as `a%2Fb`, in one part. Until routes are found, a character that no address
may have stands for such a slash.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from omnigraph.server.problems import RequestError

_SLASH = "\0"


class EncodedParts:
    """Has routes see the slashes between parts only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            scope = {**scope, "path": _decoded(raw.partition(b"?")[0])}
        await self._app(scope, receive, send)


def _decoded(raw: bytes) -> str:
    parts = [unquote_to_bytes(part) for part in raw.split(b"/")]
    if any(b"\0" in part for part in parts):
        # No route has it.
        return _SLASH
    try:
        return "/".join(part.decode().replace("/", _SLASH) for part in parts)
    except UnicodeDecodeError:
        return _SLASH


def named_parts(request: Request) -> dict[str, str]:
    """The parts of the address that have names.

    Raises:
        RequestError: One is empty.
    """
    parts = {name: str(value).replace(_SLASH, "/") for name, value in request.path_params.items()}
    for name, value in parts.items():
        if not value:
            raise RequestError(404, f"there is no {name} without a name")
    return parts
