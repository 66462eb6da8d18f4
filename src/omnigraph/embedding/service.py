"""Requests to a web service: JSON in, JSON out, with time limits, retries and a rate limit.

Failures that may be temporary are retried a few times, with growing pauses; all others are errors
at once. Messages name the host and what to do, and never contain the key.
"""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingError, UsageError

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 5
#: How long a service may ask to be left alone.
LONGEST_WAIT_SECONDS = 60.0
_LARGEST_ANSWER = 256 << 20
_LARGEST_ERROR = 64 << 10
#: How much of what a service says about an error is shown.
_EXCERPT = 300
_HINTS = {
    400: "check OMNIGRAPH_EMBED_MODEL, and that no text is too long for it",
    401: "check OMNIGRAPH_EMBED_API_KEY",
    403: "check OMNIGRAPH_EMBED_API_KEY",
    404: "check OMNIGRAPH_EMBED_URL and OMNIGRAPH_EMBED_MODEL",
    429: "try again later, or lower OMNIGRAPH_EMBED_RATE",
}


@dataclass
class _Retry(Exception):
    """A failure that may be temporary; `wait` is how many seconds the service asks to wait."""

    what: str
    status: int | None = None
    wait: float = 0.0


class Service:
    """A web service that answers JSON with JSON. Safe to share between threads.

    Args:
        name: What messages call it.
        url: What its paths begin with.
        headers: Sent with every request.
        secret: What must not appear in messages.
        timeout: How many seconds one answer may take.
        rate: How many requests are sent in a second at most; no limit by default.
        pause: How many seconds to wait before the second attempt; doubled for each further one.

    Raises:
        UsageError: The URL or the key cannot be used.
    """

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        secret: str | None = None,
        timeout: float = 30.0,
        rate: float | None = None,
        pause: float = 0.5,
    ) -> None:
        if secret is not None and not (secret.isascii() and secret.isprintable()):
            raise UsageError("OMNIGRAPH_EMBED_API_KEY has characters that no key has")
        self.name = name
        self.host = _host(url)
        self._url = url.rstrip("/")
        self._headers = {**headers, "Content-Type": "application/json", "User-Agent": "omnigraph"}
        self._secret = secret
        self._timeout = timeout
        self._gap = 0.0 if rate is None else 1 / rate
        self._pause = pause
        self._next = 0.0
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"<Service {self.name} at {self.host}>"

    def post(self, path: str, body: object, deadline: float | None = None) -> Any:
        """Send a request, more than once if need be, and return the answer.

        Args:
            path: Added to the URL.
            body: What is sent as JSON.
            deadline: When to give up, as `time.monotonic()` counts.

        Raises:
            EmbeddingError: The service cannot be reached, or refuses the request.
        """
        data = json.dumps(body).encode()
        attempt = 1
        while True:
            self._sleep(self._turn(), deadline, "its turn at the limit of the rate")
            try:
                return self._ask(path, data, deadline)
            except _Retry as failure:
                what, status = failure.what, failure.status
                wait = self._pause * 2 ** (attempt - 1) * random.uniform(1, 1.25)
                wait = max(wait, failure.wait)
                if attempt == ATTEMPTS:
                    raise self._failed(f"{what}, {ATTEMPTS} times", status, True) from None
                if wait > LONGEST_WAIT_SECONDS:
                    what += f", and asks to wait {wait:.0f} s"
                    raise self._failed(what, status, True) from None
                self._sleep(wait, deadline, what)
                attempt += 1

    def wrong(self, what: str) -> EmbeddingError:
        """The error for an answer that does not have the expected form."""
        return EmbeddingError(
            f"{self.name} at {self.host}: {what}; check that OMNIGRAPH_EMBED_URL is that of"
            f" a service for the provider `{self.name}`"
        )

    def numbers(self, rows: Sequence[Any]) -> npt.NDArray[np.float64]:
        """Turn rows of an answer into an array.

        Raises:
            EmbeddingError: They are not lists of numbers, all of the same size.
        """
        for row in rows:
            if not isinstance(row, list) or not all(type(n) in (int, float) for n in row):
                raise self.wrong("a vector of its answer is not a list of numbers")
        if len({len(row) for row in rows}) > 1:
            raise self.wrong("the vectors of its answer differ in size")
        try:
            return np.asarray(rows, np.float64)
        except OverflowError:
            raise self.wrong("a number of its answer is too large") from None

    # --- one request ---

    @cached_property
    def _client(self) -> httpx.Client:
        # Imported by the first request: nothing else needs it.
        import httpx

        try:
            return httpx.Client(
                base_url=self._url,
                headers=self._headers,
                # The machine's certificates, which may include those of a company.
                verify=ssl.create_default_context(),
                # Another host must not get the key.
                follow_redirects=False,
                # Nobody closes a service, so no connection stays open.
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise UsageError(
                f"{self.name} at {self.host} cannot be asked: {error}; check OMNIGRAPH_EMBED_URL,"
                " and HTTPS_PROXY and ALL_PROXY if they are set"
            ) from None

    def _ask(self, path: str, data: bytes, deadline: float | None) -> Any:
        client = self._client
        import httpx

        until = time.monotonic() + self._timeout
        if deadline is not None:
            until = min(until, deadline)
        left = max(until - time.monotonic(), 0.001)
        try:
            with client.stream("POST", path, content=data, timeout=left) as response:
                body = self._read(response, until)
        except (httpx.TimeoutException, TimeoutError):
            raise _Retry("gave no answer in time") from None
        except httpx.RequestError as error:
            raise self._unreachable(error) from None
        if not response.is_success:
            raise self._refused(response, body)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise self.wrong("its answer is not JSON") from None

    def _read(self, response: httpx.Response, until: float) -> bytes:
        body = bytearray()
        for part in response.iter_bytes():
            body += part
            if time.monotonic() > until:
                raise TimeoutError
            if response.is_success and len(body) > _LARGEST_ANSWER:
                raise self.wrong("its answer is too long")
            if not response.is_success and len(body) > _LARGEST_ERROR:
                break
        return bytes(body)

    def _unreachable(self, error: BaseException) -> Exception:
        """The error for a request without an answer; the system's reason is the innermost one."""
        text = str(error)
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return self._failed(f"cannot be trusted: {cause.verify_message}")
            if isinstance(cause, OSError):
                text = cause.strerror or text
            cause = cause.__cause__ or cause.__context__
        return _Retry(f"cannot be reached ({text or type(error).__name__})")

    def _refused(self, response: httpx.Response, body: bytes) -> Exception:
        status = response.status_code
        what = f"answered {status} {response.reason_phrase}".rstrip()
        if response.is_redirect:
            host = urlsplit(response.headers.get("Location", "")).hostname
            return self._failed(f"{what}, and redirects to {host or 'nowhere'}", status)
        if message := self._excerpt(body):
            what += f" ({message})"
        if status in (408, 425, 429) or status >= 500:
            return _Retry(what, status, _retry_after(response.headers.get("Retry-After", "")))
        return self._failed(what, status)

    def _excerpt(self, body: bytes) -> str:
        """What the service says about an error, on one line."""
        text = body.decode("utf-8", "replace")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, list) and answer:
            answer = answer[0]
        for name in ("error", "message", "detail"):
            if isinstance(answer, dict) and name in answer:
                answer = answer[name]
        if isinstance(answer, str):
            text = answer
        if self._secret:
            text = text.replace(self._secret, "…")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"

    def _failed(
        self, what: str, status: int | None = None, transient: bool = False
    ) -> EmbeddingError:
        hint = "try again later" if transient else "check OMNIGRAPH_EMBED_URL"
        message = f"{self.name} at {self.host} {what}; {_HINTS.get(status or 0, hint)}"
        return EmbeddingError(message, transient=transient, status=status)

    # --- time ---

    def _turn(self) -> float:
        """How long to wait until the next request may be sent."""
        with self._guard:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._gap
            return start - now

    def _sleep(self, seconds: float, deadline: float | None, why: str) -> None:
        if deadline is not None and time.monotonic() + seconds >= deadline:
            raise EmbeddingError(
                f"{self.name} at {self.host} gave no vectors within the time limit (waiting for:"
                f" {why}); allow more time",
                transient=True,
            )
        if seconds > 0:
            time.sleep(seconds)


def _retry_after(text: str) -> float:
    """The seconds that a `Retry-After` header asks for: a number, or a date."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _host(url: str) -> str:
    """The host, with the port if there is one; checks that paths can be added to the URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    plain = url.isascii() and url.isprintable() and " " not in url
    if not host or not plain or parts.scheme not in ("http", "https"):
        raise UsageError("OMNIGRAPH_EMBED_URL is not a URL; use one like https://host/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "OMNIGRAPH_EMBED_URL has more than host and path; use one like https://host/v1, and"
            " put the key in OMNIGRAPH_EMBED_API_KEY"
        )
    return host if port is None else f"{host}:{port}"
