"""The branches of a table by name, from the files in which Lance describes them.

Lance can only list all branches of a table, and reads one file for each to do so. What is asked
for most is whether one of them is there, and since when: that is a single file here. The files
never change; a branch that is deleted and recreated has another identifier.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import MsgspecError, Struct, json

from omnigraph.errors import StorageError
from omnigraph.storage.objects import Objects

_SUFFIX = ".json"
#: Whatever is no name of a branch has no file, and may be no name of a file, either.
_NAME = re.compile(r"[\w./-]{1,240}")


class _Identifier(Struct, frozen=True):
    version_mapping: list[tuple[int, str]]


class _Description(Struct, frozen=True, rename="camel"):
    parent_branch: str | None
    identifier: _Identifier
    parent_version: int


def branch_names(objects: Objects, path: str) -> list[str]:
    """The names of all branches of a table. Reads none of their files."""
    folder = _folder(path)
    return sorted(
        file.removeprefix(folder).removesuffix(_SUFFIX).replace("%2F", "/")
        for file in objects.paths(folder.rstrip("/"))
        if file.endswith(_SUFFIX)
    )


def branch_file(path: str, name: str) -> str:
    """Where Lance describes a branch of a table."""
    return f"{_folder(path)}{name.replace('/', '%2F')}{_SUFFIX}"


def branch_details(objects: Objects, path: str, name: str) -> dict[str, Any] | None:
    """What Lance lists about a branch: the one it was created from, and what tells it from others.

    Returns:
        `parent_branch`, `parent_version` and `branch_identifier`; None when there is no branch of
        this name.
    """
    stored = objects.read(branch_file(path, name)) if _NAME.fullmatch(name) else None
    if stored is None:
        return None
    try:
        described = json.decode(stored.data, type=_Description)
    except (MsgspecError, UnicodeDecodeError) as error:
        address = objects.location.child(branch_file(path, name))
        raise StorageError(f"{address} is damaged: {error}") from error
    return {
        "parent_branch": described.parent_branch,
        "parent_version": described.parent_version,
        "branch_identifier": described.identifier.version_mapping,
    }


def _folder(path: str) -> str:
    return f"{path}/_refs/branches/"
