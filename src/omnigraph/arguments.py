"""What kinds of values the public calls take; a value of another kind is a `UsageError`.

A parameter means the same in all calls that have it, so its name says what it takes; where a
call is different, the name has the call before it. None is taken where it is the default.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from reprlib import repr as shortened
from typing import ParamSpec, TypeVar

from msgspec import Struct

from omnigraph.errors import UsageError
from omnigraph.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


class Kind(Struct, frozen=True):
    """A kind of values.

    Attributes:
        description: What such a value is, for messages.
        fits: Tells whether a value is one.
    """

    description: str
    fits: Callable[[object], bool]


def _is_text(value: object) -> bool:
    """True for a text that can be stored: half of a surrogate pair is none."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_amount(value: object) -> bool:
    """True for a number that is 0 or more; not for NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_path(value: object) -> bool:
    if not isinstance(value, str | os.PathLike):
        return False
    path = os.fspath(value)
    return isinstance(path, str) and "\0" not in path


def _are_names(value: object) -> bool:
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        return False
    return all(isinstance(name, str) for name in value)


def _are_renamed(value: object) -> bool:
    return isinstance(value, Mapping) and _are_names([*value, *value.values()])


def _is_range(value: object) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return _is_integer(value[0]) and (value[1] is None or _is_integer(value[1]))


def _is_sink(value: object) -> bool:
    return callable(getattr(value, "write", None))


_TEXT = Kind("a text", _is_text)
#: Notes are stored as they are, the compiler checks queries, and files may have any names.
_ANY_TEXT = Kind("a text", lambda value: isinstance(value, str))
_FLAG = Kind("True or False", lambda value: isinstance(value, bool))
_INTEGER = Kind("a whole number", _is_integer)
_COUNT = Kind("a whole number above 0", lambda value: _is_integer(value) and value > 0)  # type: ignore[operator]
_SECONDS = Kind("a number of seconds, 0 or more", _is_amount)
_MIB = Kind("a number of MiB, 0 or more", lambda value: _is_integer(value) and _is_amount(value))
_PATH = Kind("a path", _is_path)
_SCHEMA = Kind("a path or the schema's text", _is_path)
_NAMES = Kind("a list of names", _are_names)
_FILTER = Kind(
    "a name or a list of names", lambda value: isinstance(value, str) or _are_names(value)
)
_RENAMED = Kind("a dictionary of names", _are_renamed)
_PARAMETERS = Kind("a dictionary", lambda value: isinstance(value, Mapping))
_PARAMETER_SETS = Kind(
    "a dictionary, or a list of them", lambda value: isinstance(value, Mapping | list | tuple)
)
_RANGE = Kind("the first byte and the one after the last", _is_range)
_STREAM = Kind("a stream with `write`", _is_sink)
_TARGET = Kind("a path or a binary stream", lambda value: _is_path(value) or _is_sink(value))
_RESOLUTIONS = Kind(
    "a file or a list of conflicts",
    lambda value: isinstance(value, Iterable | os.PathLike) and not isinstance(value, bytes),
)
_DURATION = Kind("a timedelta", lambda value: isinstance(value, dt.timedelta))
_PROGRESS = Kind(
    "an object with `stage` and `advance`",
    lambda value: all(callable(getattr(value, name, None)) for name in ("stage", "advance")),
)
_SETTINGS = Kind("a Settings", lambda value: isinstance(value, Settings))
_SPARK = Kind("a Spark session", lambda value: callable(getattr(value, "createDataFrame", None)))
_STATE = Kind(
    "a branch, a commit or a snapshot",
    lambda value: _TEXT.fits(value) or isinstance(getattr(value, "commit", None), str),
)
_REF = Kind(
    "a branch, commit, tag, version or time",
    lambda value: _is_text(value) or _is_integer(value) or isinstance(value, dt.datetime),
)
#: For what the call distinguishes by itself.
_ANY = Kind("anything", lambda _: True)

#: What the parameters take, by name. A call is named like the method, whatever its class.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        [
            "backup", "base", "branch", "commit", "cursor", "engine", "format", "granularity", "id",
            "if_commit", "if_schema", "into", "kind", "master", "mode", "name", "onto", "prefer",
            "property", "since", "source", "start", "type", "where",
        ],
        _TEXT,
    ),
    **dict.fromkeys(["actor", "idempotency_key", "message", "path", "text"], _ANY_TEXT),
    **dict.fromkeys(
        [
            "allow_data_loss", "analyze", "confirm", "create", "delete_branch", "dry_run", "force",
            "indexes", "ours", "overwrite", "since_base", "theirs",
        ],
        _FLAG,
    ),
    **dict.fromkeys(["keep", "limit", "max_errors", "version"], _INTEGER),
    **dict.fromkeys(["batch_rows", "rows"], _COUNT),
    **dict.fromkeys(["kinds", "ops", "types"], _FILTER),
    **dict.fromkeys(["place", "rejects"], _PATH),
    **dict.fromkeys(["a", "b", "batches", "ref", "snapshot"], _ANY),
    "branches": _NAMES,
    "columns": _NAMES,
    **dict.fromkeys(["grace", "leftovers_older_than", "older_than"], _DURATION),
    "memory_limit": _MIB,
    "params": _PARAMETERS,
    "progress": _PROGRESS,
    "range": _RANGE,
    "resolutions": _RESOLUTIONS,
    "schema": _SCHEMA,
    "settings": _SETTINGS,
    "spark": _SPARK,
    "stream": _STREAM,
    "target": _TARGET,
    "time_limit": _SECONDS,
    "backup.target": _PATH,
    "branch.source": _REF,
    "create.source": _REF,
    "embed.types": _NAMES,
    "export.types": _NAMES,
    "ingest.source": _ANY,
    "load.columns": _RENAMED,
    "load.source": _ANY,
    "merge.source": _STATE,
    "merge_into.target": _TEXT,
    "list_backups.source": _PATH,
    "mutate.params": _PARAMETER_SETS,
    "restore.source": _PATH,
    "verify_backups.source": _PATH,
}  # fmt: skip


def checks_arguments(cls: type[T]) -> type[T]:
    """Let every public method of a class refuse arguments of a wrong kind."""
    for name, value in list(vars(cls).items()):
        if callable(value) and hasattr(value, "__code__") and not name.startswith("_"):
            setattr(cls, name, checked(value))
    return cls


def checked(call: Callable[P, T]) -> Callable[P, T]:
    """A function that refuses arguments of a wrong kind, with a `UsageError`."""
    code = call.__code__
    positional: Sequence[str] = code.co_varnames[: code.co_argcount]
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = {name: _kind(call.__name__, name) for name in names if name != "self"}
    if not kinds:
        return call
    optional = _with_default_none(call, positional)

    fits = {name: kind.fits for name, kind in kinds.items()}

    def refuse(name: str, value: object) -> None:
        if not (value is None and name in optional):
            raise UsageError(f"{name} is {kinds[name].description}, not {shortened(value)}")

    # Every call pays for this, so it calls nothing but what tells whether a value fits.
    @wraps(call)
    def refusing(*args: P.args, **options: P.kwargs) -> T:
        for name, value in zip(positional, args, strict=False):
            if name in fits and not fits[name](value):
                refuse(name, value)
        for name, value in options.items():
            if name in fits and not fits[name](value):
                refuse(name, value)
        return call(*args, **options)

    return refusing


def _kind(call: str, name: str) -> Kind:
    return _KINDS.get(f"{call}.{name}") or _KINDS[name]


def _with_default_none(call: Callable[..., object], positional: Sequence[str]) -> frozenset[str]:
    defaults: tuple[object, ...] = call.__defaults__ or ()
    named: dict[str, object] = call.__kwdefaults__ or {}
    last = dict(zip(positional[::-1], defaults[::-1], strict=False))
    return frozenset(name for name, value in {**last, **named}.items() if value is None)
