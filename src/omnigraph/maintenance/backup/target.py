"""Where backups are: their manifests in `backups/`, and the files of all of them in `files/`.

A file that is the same in several backups is there once. Most files of a graph have names that no
other file ever has, and keep them; to the others a digest of their content is added. The manifest
of a backup is written last, and only once, so a backup is there as a whole or not at all. It lists
its files with their digests, or what has changed against the list of the backup before it.

A manifest may come from anywhere: nothing that it says leads to a path outside of a graph.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from omnigraph.compute.ulids import is_ulid
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, StorageError, UpgradeRequired, UsageError
from omnigraph.history.branch_state import MANIFEST
from omnigraph.maintenance.backup.moment import SCHEMA_FILES
from omnigraph.plain import Plain
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.writes.audit import TABLE as RECOVERIES

FORMAT = 1
BACKUPS = "backups"
FILES = "files"
#: Compiled schemas by their content, and what is known of them.
SCHEMAS = "__schemas"

_SUFFIX = ".json"
#: So many lists of changes are read to know the files of a backup; then one is complete again.
_LONGEST_CHAIN = 32
#: The folders of a graph that are backed up. Whatever else it has belongs to who uses it now.
_FOLDERS = ("nodes", "edges", MANIFEST, RECOVERIES, SCHEMAS)
_PART = re.compile(r"[\w.%+=@-]{1,255}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Files whose names are random numbers: what has the same name has the same content.
_UNIQUE = re.compile(r"(?:nodes|edges)/.+/(?:data|_deletions|_indices)/.+")
_UNIQUE_AT_TOP = re.compile(
    rf"(?:{MANIFEST}|{re.escape(RECOVERIES)})/(?:tree/.+/)?(?:data|_deletions|_indices)/.+"
)


class BackedUpFile(Struct, frozen=True, order=True):
    """A file of a graph in a backup."""

    path: str
    size: int
    sha256: str

    @property
    def stored(self) -> str:
        """Where it is in the target."""
        if is_unique(self.path):
            return f"{FILES}/{self.path}"
        return f"{FILES}/{self.path}.{self.sha256[:16]}"


def is_unique(path: str) -> bool:
    """True for a file whose name no other file ever has."""
    return bool(_UNIQUE.fullmatch(path) or _UNIQUE_AT_TOP.fullmatch(path))


class BackupManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup is, as it is stored.

    Attributes:
        id: A ULID: ids sort by time.
        graph: The id of the graph; early ones have none.
        time: When it was taken.
        omnigraph: The version of Omnigraph that took it.
        branches: By name their newest commits.
        parent: The backup that it was taken after, in the same target.
        tables: By path and fork (empty for the table itself) the newest version of it.
        since: The backup whose list of files this one continues; the list is complete without one.
        files: The files, by path; with `since` those that are new or another.
        removed: With `since`, the paths that are no longer there.
        total_files: How many files the whole list has.
        total_bytes: How large they are together.
        list_sha256: The digest of the whole list.
    """

    format: int
    id: str
    graph: str | None
    time: str
    omnigraph: str
    branches: dict[str, str]
    parent: str | None
    tables: dict[str, dict[str, int]]
    since: str | None = None
    files: list[BackedUpFile] = []
    removed: list[str] = []
    total_files: int = 0
    total_bytes: int = 0
    list_sha256: str = ""


@dataclass(frozen=True, slots=True)
class BackupInfo(Plain):
    """A backup in a target.

    Attributes:
        id: Its id; ids sort by time.
        time: When it was taken, UTC.
        graph: The id of the graph.
        branches: By name the commits that they were at.
        parent: The backup that it was taken after.
        files: How many files it has, those that it shares with others included.
        bytes: How large they are.
        omnigraph: The version of Omnigraph that took it.
    """

    id: str
    time: str
    graph: str | None
    branches: dict[str, str]
    parent: str | None
    files: int
    bytes: int
    omnigraph: str


def info_of(manifest: BackupManifest) -> BackupInfo:
    """A manifest as users see it."""
    return BackupInfo(
        manifest.id,
        manifest.time,
        manifest.graph,
        dict(manifest.branches),
        manifest.parent,
        manifest.total_files,
        manifest.total_bytes,
        manifest.omnigraph,
    )


class BackupTarget:
    """A place that has backups of one graph, or will have."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.objects = Objects.at(location)

    # --- manifests ---

    def ids(self) -> list[str]:
        """The ids of the backups, oldest first."""
        names = (path.rpartition("/")[2] for path in self.objects.paths(BACKUPS))
        ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(id for id in ids if is_ulid(id))

    def manifest(self, id: str) -> BackupManifest:
        """The manifest of a backup.

        Raises:
            NotFound: There is no such backup.
            StorageError: Its manifest is damaged.
            UpgradeRequired: A newer Omnigraph wrote it.
        """
        address = self.location.child(_path(id))
        stored = self.objects.read(_path(id)) if is_ulid(id) else None
        if stored is None:
            raise NotFound(self._no_backup(id))
        manifest = _decoded(stored.data, address)
        if manifest.id != id:
            raise StorageError(f"{address} is damaged: it is the manifest of backup {manifest.id}")
        return manifest

    def chosen(self, id: str | None) -> BackupManifest:
        """The manifest of a backup; of the newest one without an id."""
        if id is not None:
            return self.manifest(id)
        ids = self.ids()
        if not ids:
            raise NotFound(self._no_backup(None))
        return self.manifest(ids[-1])

    def files(self, manifest: BackupManifest) -> dict[str, BackedUpFile]:
        """All files of a backup, by path.

        Raises:
            StorageError: The manifest of a backup before it is missing or damaged.
        """
        chain = [manifest]
        while (before := chain[-1].since) is not None:
            if before >= chain[-1].id:
                raise StorageError(
                    f"{self.location.child(_path(chain[-1].id))} is damaged: it continues the"
                    f" later backup {before}"
                )
            try:
                chain.append(self.manifest(before))
            except NotFound:
                raise StorageError(
                    f"{self.location.child(_path(before))} is missing: backup {manifest.id} refers"
                    " to it"
                ) from None
        files: dict[str, BackedUpFile] = {}
        for each in reversed(chain):
            for path in each.removed:
                files.pop(path, None)
            files.update((file.path, file) for file in each.files)
        if list_digest(files.values()) != manifest.list_sha256:
            raise StorageError(
                f"{self.location.child(_path(manifest.id))} is damaged: the files that it lists are"
                " not those of its digest"
            )
        return files

    def chain_length(self, manifest: BackupManifest) -> int:
        """How many manifests it takes to know the files of a backup."""
        length = 1
        while manifest.since is not None:
            manifest = self.manifest(manifest.since)
            length += 1
        return length

    def write(
        self,
        manifest: BackupManifest,
        files: Mapping[str, BackedUpFile],
        parent: tuple[BackupManifest, Mapping[str, BackedUpFile]] | None,
    ) -> BackupManifest:
        """Write the manifest of a backup whose files are all there; from here on it exists.

        Args:
            manifest: The manifest, without a list.
            files: The files.
            parent: The backup before it, if there is one, with its files.
        """
        since, removed = None, []
        listed = sorted(files.values())
        total_bytes = sum(file.size for file in listed)
        digest = list_digest(listed)
        if parent is not None and self.chain_length(parent[0]) < _LONGEST_CHAIN:
            since = parent[0].id
            removed = sorted(parent[1].keys() - files.keys())
            listed = [file for file in listed if parent[1].get(file.path) != file]
        whole = msgspec.structs.replace(
            manifest,
            since=since,
            files=listed,
            removed=removed,
            total_files=len(files),
            total_bytes=total_bytes,
            list_sha256=digest,
        )
        if not self.objects.create(_path(manifest.id), _encoded(whole)):
            raise StorageError(f"{self.location.child(_path(manifest.id))} is there already")
        return whole

    def _no_backup(self, id: str | None) -> str:
        ids = self.ids()
        if not ids:
            return f"there is no backup at {self.location}"
        hint = did_you_mean(id or "", ids) or f"the newest is {ids[-1]}"
        return f"there is no backup {id} at {self.location}; {hint}"


def list_digest(files: Iterable[BackedUpFile]) -> str:
    """A digest of a list of files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.sha256} {file.size} {file.path}\n".encode())
    return digest.hexdigest()


def _path(id: str) -> str:
    return f"{BACKUPS}/{id}{_SUFFIX}"


def _encoded(manifest: BackupManifest) -> bytes:
    """A manifest as JSON, with the digest of everything else in it at the end."""
    plain: dict[str, Any] = msgspec.to_builtins(manifest)
    digest = hashlib.sha256(msgspec.json.encode(plain)).hexdigest()
    return msgspec.json.format(msgspec.json.encode({**plain, "sha256": digest}), indent=1) + b"\n"


def _decoded(data: bytes, address: str) -> BackupManifest:
    try:
        plain = msgspec.json.decode(data)
        version = plain["format"]
        if isinstance(version, int) and version > FORMAT:
            raise UpgradeRequired(
                f"{address} has format {version}, this Omnigraph knows formats up to {FORMAT}:"
                " upgrade omnigraph first"
            )
        digest = plain.pop("sha256")
        if hashlib.sha256(msgspec.json.encode(plain)).hexdigest() != digest:
            raise StorageError(f"{address} is damaged: it does not have the content of its digest")
        manifest = msgspec.convert(plain, BackupManifest)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise StorageError(f"{address} is damaged: {error}") from error
    for path in (*(file.path for file in manifest.files), *manifest.removed):
        if not _is_of_a_graph(path):
            raise StorageError(f"{address} is damaged: it has a file {path!r}, which no graph has")
    for file in manifest.files:
        if file.size < 0 or not _SHA256.fullmatch(file.sha256):
            raise StorageError(f"{address} is damaged: it has no digest of {file.path}")
    return manifest


def _is_of_a_graph(path: str) -> bool:
    """True for the path of a file that a backup may have; none of them leads out of its folder."""
    if path in SCHEMA_FILES:
        return True
    parts = path.split("/")
    return (
        len(parts) > 1
        and parts[0] in _FOLDERS
        and all(_PART.fullmatch(part) and part.strip(".") for part in parts)
    )


def check_apart(one: Location, other: Location, what: str) -> None:
    """Refuse two places of which one is inside of the other.

    Raises:
        UsageError: They are not apart.
    """
    for outer, inner in ((one, other), (other, one)):
        if f"{inner}/".startswith(f"{outer}/"):
            raise UsageError(f"{inner} is {what} {outer}; give a place outside of it")
