"""Who asks, and what they may do.

Tokens are kept as digests only, and compared in constant time. Without a policy, somebody who has a
token may read; a server that is open to everybody allows everything.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from omnigraph.errors import UsageError
from omnigraph.server.problems import RequestError
from omnigraph.settings import Settings

Action = Literal[
    "graph_list",
    "read",
    "export",
    "change",
    "schema_apply",
    "branch_create",
    "branch_delete",
    "branch_merge",
]
#: The settings that have tokens.
_SOURCES = ("server_tokens_file", "server_tokens_json", "server_token")
#: Whose token it is that has no name.
DEFAULT_ACTOR = "default"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_LEAST_LENGTH = 8


class Access(Struct, frozen=True):
    """Who may do what.

    Attributes:
        actors: The digest of each token, and whose it is; None when everybody may do everything.
    """

    actors: Mapping[bytes, str] | None

    @property
    def is_open(self) -> bool:
        """True when nobody has to say who they are."""
        return self.actors is None

    def actor(self, authorization: str | None) -> str | None:
        """Whose token a request has; None on a server that is open to everybody.

        Raises:
            RequestError: It has none, or one that nobody has.
        """
        if self.actors is None:
            return None
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RequestError(401, "missing bearer token", _CHALLENGE)
        asked = sha256(token.strip().encode()).digest()
        actor = None
        # All are compared, so that the time says nothing about which one is near.
        for digest, name in self.actors.items():
            if hmac.compare_digest(digest, asked):
                actor = name
        if actor is None:
            raise RequestError(401, "invalid bearer token", _CHALLENGE)
        return actor

    def check(self, action: Action | None) -> None:
        """Refuse what may not be done.

        Raises:
            RequestError: It may not.
        """
        if action is None or self.is_open or action == "read":
            return
        raise RequestError(403, f"no policy grants `{action}`: with a token alone you may read")


def access_of(settings: Settings) -> Access | None:
    """The tokens that the settings name; None when they name none.

    Raises:
        UsageError: They name them in two ways, or what they name makes no sense.
    """
    named = {item.name: item.env for item in Settings.documented() if item.name in _SOURCES}
    chosen = [name for name in _SOURCES if getattr(settings, name) is not None]
    if len(chosen) > 1:
        first, second = (named[name] for name in chosen[:2])
        raise UsageError(f"{first} and {second} are both set; set one of them")
    if not chosen:
        return None
    variable, value = named[chosen[0]], getattr(settings, chosen[0])
    if chosen[0] == "server_token":
        return Access(_digests({DEFAULT_ACTOR: value}, variable))
    text = value.encode()
    if chosen[0] == "server_tokens_file":
        try:
            text = Path(value).read_bytes()
        except OSError as error:
            raise UsageError(f"{variable}: {value}: {error.strerror}") from error
    try:
        tokens = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        # What is wrong with it could show a part of a token.
        raise UsageError(
            f'{variable}: give a JSON object of actors and tokens: {{"ada": "…"}}'
        ) from None
    return Access(_digests(tokens, variable))


def _digests(tokens: Mapping[str, str], name: str) -> dict[bytes, str]:
    if not tokens:
        raise UsageError(f"{name}: there is no token in it")
    actors: dict[bytes, str] = {}
    for actor, token in tokens.items():
        if len(token) < _LEAST_LENGTH or token != token.strip() or not actor.strip():
            raise UsageError(
                f"{name}: the token of `{actor}` has to have {_LEAST_LENGTH} characters or more,"
                " and no spaces around it"
            )
        digest = sha256(token.encode()).digest()
        if digest in actors:
            raise UsageError(f"{name}: `{actors[digest]}` and `{actor}` have the same token")
        actors[digest] = actor
    return actors
