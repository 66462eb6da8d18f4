"""Conflicts of a merge: what they are, and the file in which a person settles them.

A resolution names the side that is right (`base`, `ours` or `theirs`), or gives a value.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct

from omnigraph.errors import MergeConflicts, NotFound, UsageError
from omnigraph.language.values import show, to_json
from omnigraph.merge.three_way import SIDES, Choice, NewValue

ConflictKind = Literal[
    "DivergentInsert",
    "DivergentUpdate",
    "DeleteVsUpdate",
    "OrphanEdge",
    "UniqueViolation",
    "CardinalityViolation",
    "ValueConstraintViolation",
    "SchemaConflict",
]
KINDS: tuple[ConflictKind, ...] = get_args(ConflictKind)
#: What tells a conflict from others: kind, type, id and property.
Key = tuple[str, str, str, str | None]
#: How conflicts are settled, by what tells them.
Resolutions = Mapping[Key, Choice]
_SHOWN = 5
_HEAD = """\
# Settle each conflict: put `base`, `ours` or `theirs` behind `resolution`, or a value of your own,
# as in `resolution: {value: 42}`. Conflicts without a resolution stay conflicts.
"""


class Conflict(Struct, frozen=True):
    """One thing that two states of the graph disagree on.

    Attributes:
        kind: What is wrong, such as `DivergentUpdate`.
        entity: `node` or `edge`; of a `SchemaConflict` also `interface` or `schema`.
        type: The node or edge type.
        id: Which one; of a `CardinalityViolation` the node that the edges come from, of a
            `SchemaConflict` the part of the type or property that it is about.
        property: The property, or the end of an edge; None for the whole entity.
        base: What it was before both changes: a value, all properties, or None.
        ours: What it is on the branch that is merged into.
        theirs: What it is on the branch that is merged.
        message: What is wrong, in a sentence.
    """

    kind: ConflictKind
    entity: Literal["node", "edge", "interface", "schema"]
    type: str
    id: str
    property: str | None
    base: Any
    ours: Any
    theirs: Any
    message: str

    @builtins.property
    def key(self) -> Key:
        """What tells it from other conflicts of the merge."""
        return self.kind, self.type, self.id, self.property

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """Give the conflict as plain values."""
        return {
            "kind": self.kind,
            "entity": self.entity,
            "type": self.type,
            "id": self.id,
            "property": self.property,
            "base": _plain(self.base),
            "ours": _plain(self.ours),
            "theirs": _plain(self.theirs),
            "message": self.message,
        }


def describe(kind: str, type: str, id: str, property: str | None, ours: Any, theirs: Any) -> str:
    """Say what two sides disagree on."""
    where = f"{type} {show(id)}" + ("" if property is None else f", `{property}`")
    if kind == "DeleteVsUpdate":
        gone, changed = ("ours", "theirs") if ours is None else ("theirs", "ours")
        return f"{where}: deleted on {gone}, changed on {changed}"
    what = "inserted" if kind == "DivergentInsert" else "changed"
    if property is None:
        return f"{where}: {what} differently on both sides"
    return f"{where}: {what} to {show(ours)} on ours and to {show(theirs)} on theirs"


def refusal(action: str, conflicts: Sequence[Conflict]) -> MergeConflicts:
    """The error for conflicts that nobody has settled; `action` is what has met them."""
    count = len(conflicts)
    lines = [f"{action}: {count:,} conflict{'' if count == 1 else 's'}; nothing was written"]
    lines += [f"  {conflict}" for conflict in conflicts[:_SHOWN]]
    if count > _SHOWN:
        lines.append(f"  … and {count - _SHOWN:,} more")
    return MergeConflicts("\n".join(lines), conflicts=conflicts)


# --- resolution files ---


def write_resolutions(path: str | os.PathLike[str], conflicts: Iterable[Conflict]) -> None:
    """Write conflicts to a YAML file in which they can be settled, for `read_resolutions`."""
    import yaml

    entries = [{**conflict.to_dict(), "resolution": None} for conflict in conflicts]
    text = yaml.safe_dump({"conflicts": entries}, sort_keys=False, allow_unicode=True)
    Path(path).write_text(_HEAD + text, encoding="utf-8")


def read_resolutions(
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
) -> dict[Key, Choice]:
    """Read how conflicts are settled.

    Args:
        source: The path of a YAML or JSON file as `write_resolutions` makes it, or what such a
            file has under `conflicts`: for each conflict its kind, type, id and property, and the
            `resolution`.

    Raises:
        NotFound: There is no such file.
        UsageError: It cannot be understood.
    """
    entries: Iterable[Any]
    if isinstance(source, str | os.PathLike):
        entries, place = read_entries(source), f"{source}: "
    elif isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        entries, place = source, ""
    else:
        raise UsageError(
            f"resolutions are a file or a list of conflicts, not {show(source)};"
            " see `write_resolutions`"
        )
    choices: dict[Key, Choice] = {}
    for number, entry in enumerate(entries, 1):
        where = f"{place}conflict {number}"
        if not isinstance(entry, Mapping):
            raise UsageError(f"{where} is no mapping with kind, type, id and resolution")
        choice = _choice(entry.get("resolution"), where)
        if choice is None:
            continue
        key = _key(entry, where)
        if choices.setdefault(key, choice) != choice:
            raise UsageError(f"{where}: {describe_key(key)} has another resolution already")
    return choices


def describe_key(key: Key) -> str:
    """Say which conflict a key is about."""
    kind, type, id, property = key
    if kind == "SchemaConflict":
        return f"{kind} of {type}" + ("" if property is None else f".{property}")
    return f"{kind} of {type} {show(id)}" + ("" if property is None else f", `{property}`")


def read_entries(path: str | os.PathLike[str]) -> list[Any]:
    """Read what a resolution file has under `conflicts`.

    Raises:
        NotFound: There is no such file.
        UsageError: It cannot be understood.
    """
    import yaml

    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file; give the file with the resolutions") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path}: this is not YAML: {error}") from error
    entries = data.get("conflicts") if isinstance(data, Mapping) else data
    if not isinstance(entries, list):
        raise UsageError(f"{path}: it has no list of `conflicts`; see `write_resolutions`")
    return entries


def _key(entry: Mapping[str, Any], where: str) -> Key:
    kind, property = entry.get("kind"), entry.get("property")
    if kind not in KINDS:
        raise UsageError(f"{where}: `kind` is one of {', '.join(KINDS)}, not {show(kind)}")
    for name in ("type", "id"):
        if not isinstance(entry.get(name), str):
            raise UsageError(
                f"{where}: `{name}` is a text, not {show(entry.get(name))}; put it in quotes"
            )
    if property is not None and not isinstance(property, str):
        raise UsageError(f"{where}: `property` is a text, not {show(property)}; put it in quotes")
    return kind, entry["type"], entry["id"], property


def _choice(resolution: Any, where: str) -> Choice | None:
    if resolution is None or (isinstance(resolution, str) and resolution in SIDES):
        choice: Choice | None = resolution
        return choice
    if isinstance(resolution, Mapping) and set(resolution) == {"value"}:
        return NewValue(resolution["value"])
    raise UsageError(
        f"{where}: a resolution is `base`, `ours`, `theirs` or {{value: …}}, not {show(resolution)}"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return to_json(value)
