"""Asking a web service: JSON in, JSON out, with time limits, retries and a limit of the rate.

What may pass by itself is tried again a few times, later each time; all else is an error at once.
Messages name the host and what to do, and never have the key.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingError, UsageError

ATTEMPTS = 5
#: How long a service may ask to be left alone.
LONGEST_WAIT_SECONDS = 60.0
_LARGEST_ANSWER = 256 << 20
#: How much of what a service says about an error is shown.
_EXCERPT = 300
_HINTS = {
    400: "check OMNIGRAPH_EMBED_MODEL, and that no text is too long for it",
    401: "check OMNIGRAPH_EMBED_API_KEY",
    403: "check OMNIGRAPH_EMBED_API_KEY",
    404: "check OMNIGRAPH_EMBED_URL and OMNIGRAPH_EMBED_MODEL",
    429: "try again later, or lower OMNIGRAPH_EMBED_RATE",
}


class _TryAgain(Exception):
    """What happened may pass by itself; `wait` is how long the service asks to wait."""

    def __init__(self, what: str, status: int | None = None, wait: float | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.status = status
        self.wait = wait


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed: another host must not get the key."""

    def redirect_request(self, *given: Any) -> None:
        return None


class Service:
    """A web service that answers JSON with JSON. Safe to share between threads.

    Args:
        name: What messages call it.
        url: What its paths begin with.
        headers: Sent with every request.
        secret: What must not be in messages.
        timeout: How many seconds one answer may take.
        rate: How many requests are sent in a second at most; any number unless given.
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
        self._opener = urllib.request.build_opener(_NoRedirects)

    def __repr__(self) -> str:
        return f"<Service {self.name} at {self.host}>"

    def post(self, path: str, body: object, deadline: float | None = None) -> Any:
        """Send a request, more than once if need be; gives the answer.

        Args:
            path: Added to the URL.
            body: What is sent as JSON.
            deadline: When to give up, as `time.monotonic()` counts.

        Raises:
            EmbeddingError: There is no good answer.
        """
        data = json.dumps(body).encode()
        attempt = 1
        while True:
            self._sleep(self._turn(), deadline, "its turn at the limit of the rate")
            try:
                return self._ask(path, data, deadline)
            except _TryAgain as again:
                if attempt == ATTEMPTS:
                    raise self._failed(
                        f"{again.what}, {ATTEMPTS} times", again.status, transient=True
                    ) from None
                wait = self._pause * 2 ** (attempt - 1) * random.uniform(1, 1.25)
                if again.wait is not None:
                    wait = max(wait, again.wait)
                if wait > LONGEST_WAIT_SECONDS:
                    raise self._failed(
                        f"{again.what}, and asks to wait {wait:.0f} s",
                        again.status,
                        transient=True,
                    ) from None
                self._sleep(wait, deadline, again.what)
                attempt += 1

    def wrong(self, what: str) -> EmbeddingError:
        """The error for an answer that is not as it has to be."""
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

    def _ask(self, path: str, data: bytes, deadline: float | None) -> Any:
        until = time.monotonic() + self._timeout
        if deadline is not None:
            until = min(until, deadline)
        request = urllib.request.Request(self._url + path, data, self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=_left(until)) as response:
                raw = _read(response, until)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise self.wrong("its answer is not JSON") from None

    def _unreachable(self, error: Exception) -> Exception:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            return self._failed(f"cannot be trusted: {reason.verify_message}")
        if isinstance(reason, TimeoutError):
            return _TryAgain("gave no answer in time")
        said = reason.strerror if isinstance(reason, OSError) else None
        return _TryAgain(f"cannot be reached ({said or reason or type(reason).__name__})")

    def _refused(self, error: urllib.error.HTTPError) -> Exception:
        what = f"answered {error.code} {error.reason or ''}".rstrip()
        if 300 <= error.code < 400:
            host = urlsplit(error.headers.get("Location") or "").hostname
            return self._failed(f"{what}, and redirects to {host or 'nowhere'}", error.code)
        said = self._excerpt(error)
        if said:
            what += f" ({said})"
        if error.code in (408, 425, 429) or error.code >= 500:
            return _TryAgain(what, error.code, _retry_after(error.headers.get("Retry-After")))
        return self._failed(what, error.code)

    def _excerpt(self, error: urllib.error.HTTPError) -> str:
        """What the service says about an error, on one line."""
        try:
            text = error.read(1 << 16).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return ""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list) and found:
            found = found[0]
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and name in found:
                found = found[name]
        if isinstance(found, str):
            text = found
        if self._secret:
            text = text.replace(self._secret, "…")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"

    def _failed(
        self, what: str, status: int | None = None, *, transient: bool = False
    ) -> EmbeddingError:
        hint = _HINTS.get(status or 0, "try again later" if transient else "")
        if not hint:
            hint = "check OMNIGRAPH_EMBED_URL"
        message = f"{self.name} at {self.host} {what}; {hint}"
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


def _read(response: http.client.HTTPResponse, until: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > _LARGEST_ANSWER:
            raise http.client.HTTPException("the answer is too long")
        if time.monotonic() > until:
            raise TimeoutError
    if response.length:
        raise http.client.HTTPException("the answer broke off")
    return b"".join(parts)


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)


def _retry_after(text: str | None) -> float | None:
    """The seconds that a `Retry-After` header asks for: a number, or a moment."""
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _host(url: str) -> str:
    """The host, with the port if it is told; checks that paths can be added to the URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    plain = url.isascii() and url.isprintable() and " " not in url
    if not host or not plain or parts.scheme not in ("http", "https"):
        raise UsageError("OMNIGRAPH_EMBED_URL is no URL; give one like https://host/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "OMNIGRAPH_EMBED_URL has more than host and path; give one like https://host/v1, and"
            " the key in OMNIGRAPH_EMBED_API_KEY"
        )
    return host if port is None else f"{host}:{port}"
