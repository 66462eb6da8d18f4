"""The schemas of a graph: every state has one, and each is stored once, by its content.

The manifest says which schema a branch has, and every commit says which one it was made with, by
its identity hash. What is stored under a hash never changes, so it is read once per process.

The files `_schema.pg`, `_schema.ir.json` and `__schema_state.json` show the schema of main to who
looks at the folder. Commits that were made before graphs could have several schemas name none:
they have the one that is called the origin.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import MappingProxyType

from msgspec import Struct, structs

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.history.manifest import Commit, TableIdentity
from omnigraph.language import Catalog, EdgeType, NodeType, check_schema
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects

SCHEMA_TEXT = "_schema.pg"
SCHEMA_COMPILED = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
FOLDER = "__schemas"
_ORIGIN = f"{FOLDER}/origin"
_IDS = f"{FOLDER}/ids"
_FORMAT = 1


class Schema(Struct, frozen=True, dict=True):
    """A schema as it was written, and compiled."""

    text: str
    catalog: Catalog


class Schemas:
    """The schemas of one graph. Safe to share between threads."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._known: dict[str, Schema] = {}
        self._tables: dict[str, Mapping[TableIdentity, str]] = {}

    @property
    def _objects(self) -> Objects:
        return Objects.at(self._location)

    def catalog(self, hash: str) -> Catalog:
        """A compiled schema; without a hash, the one that the graph was created with.

        Raises:
            StorageError: It is missing or damaged; the message names the file.
        """
        return self.schema(hash).catalog

    def schema(self, hash: str) -> Schema:
        """A schema by its hash; see `catalog`."""
        schema = self._known.get(hash)
        if schema is None:
            schema = self._known[hash] = self._read(hash) if hash else self._origin()
        return schema

    def applied(self, before: Catalog, hash: str) -> Catalog:
        """A schema as it was compiled when it followed another one, with its backfills."""
        schema = self.schema(hash)
        known = {number for type in before.tables() for number in _numbers(type)}
        new = {number for type in schema.catalog.tables() for number in _numbers(type)} - known
        if "@backfill" not in schema.text or not new:
            return schema.catalog
        accepted = structs.replace(before, next_id=min(new))
        catalog, _ = check_schema(schema.text, accepted=accepted)
        is_same = catalog is not None and catalog.identity_hash == hash
        return catalog if catalog is not None and is_same else schema.catalog

    def before(self, commit: Commit) -> Catalog:
        """The schema before a commit; before the first one there is nothing in it."""
        return self.catalog(commit.parent_schema) if commit.parents else Catalog({}, {}, {}, 1)

    def tables(self, hash: str) -> Mapping[TableIdentity, str]:
        """The tables of a schema and what the manifest calls them."""
        tables = self._tables.get(hash)
        if tables is None:
            types = self.catalog(hash).tables()
            named = {TableIdentity(type.id, type.incarnation): type.table_key for type in types}
            tables = self._tables[hash] = MappingProxyType(named)
        return tables

    def store(self, text: str, catalog: Catalog) -> str:
        """Store a schema, which belongs to no state yet; returns its hash."""
        hash = catalog.identity_hash
        content = {"format": _FORMAT, "text": text, "schema": catalog.to_dict()}
        self._objects.create(_path(hash), json.dumps(content, separators=(",", ":")).encode())
        return hash

    def store_origin(self) -> None:
        """Store the schema of the files that show main's as the origin, if there is none yet."""
        shown = self._shown()
        self._objects.create(_ORIGIN, self.store(shown.text, shown.catalog).encode())

    def reserve_ids(self, first: int, count: int) -> int:
        """Reserve ids for types and properties, which no other schema of the graph gets.

        Args:
            first: They are not below this one.
            count: How many.

        Returns:
            The first of them.
        """
        while True:
            for path in self._objects.paths(_IDS)[-1:]:
                stored = self._objects.read(path)
                first = max(first, 0 if stored is None else int(stored.data))
            if self._objects.create(f"{_IDS}/{first:016x}", str(first + count).encode()):
                return first

    def shown_hash(self) -> str | None:
        """The hash of the schema that the files of main show; None when it cannot be told."""
        stored = self._objects.read(SCHEMA_STATE)
        try:
            return None if stored is None else str(json.loads(stored.data)["identity_hash"])
        except (ValueError, KeyError, TypeError):
            return None

    def show(self, hash: str) -> None:
        """Let the files of main show a schema. The caller holds the effect lock."""
        show_schema(self._objects, self.schema(hash))

    def wrongly_shown(self, hash: str) -> list[str]:
        """Which of the files of main do not show a schema as they should."""
        if not hash:
            return []
        wrong = []
        for path, content in _shown_files(self.schema(hash)).items():
            stored = self._objects.read(path)
            if stored is None or stored.data != content:
                wrong.append(path)
        return wrong

    def damage(self, hash: str) -> list[str]:
        """What is wrong with what is stored under a hash, or with the origin, read anew."""
        from omnigraph.language import compile_schema

        try:
            schema = self._read(hash) if hash else self._origin()
        except StorageError as error:
            return [error.message]
        try:
            is_same = compile_schema(schema.text).shape_hash == schema.catalog.shape_hash
        except OmnigraphError:
            is_same = False
        if is_same:
            return []
        return [f"{self._location.child(_path(hash))} is damaged: its text is of another schema"]

    def wrong_ids(self, hashes: Collection[str]) -> list[str]:
        """What is wrong with the note of the ids that are given out to all of some schemas."""
        next_ids = []
        for hash in hashes:
            with suppress(StorageError):
                next_ids.append(self.catalog(hash).next_id)
        # What a graph is created with is given out without a note.
        first = max(next_ids) if len(set(next_ids)) > 1 else 0
        noted, path = 0, _IDS
        for path in self._objects.paths(_IDS)[-1:]:
            stored = self._objects.read(path)
            noted = int(stored.data) if stored is not None and stored.data.isdigit() else 0
            if not noted:
                return [f"{self._location.child(path)} is damaged: it has no number"]
        if noted >= first:
            return []
        return [f"{self._location.child(path)} is missing or damaged: ids up to {first} are in use"]

    def _read(self, hash: str) -> Schema:
        path = _path(hash)
        data = self._required(path)
        try:
            content = json.loads(data)
            schema = Schema(content["text"], Catalog.from_dict(content["schema"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{self._location.child(path)} is damaged: {error!r}") from error
        if schema.catalog.identity_hash != hash:
            raise StorageError(
                f"{self._location.child(path)} does not have the content that its name vouches"
                " for: it was changed by hand or is damaged"
            )
        return schema

    def _origin(self) -> Schema:
        stored = self._objects.read(_ORIGIN)
        # A graph of an earlier Omnigraph that was not opened for writing yet has no origin.
        return self._shown() if stored is None else self.schema(stored.data.decode())

    def _shown(self) -> Schema:
        """The schema that the files of main show."""
        files = {path: self._required(path) for path in (SCHEMA_COMPILED, SCHEMA_STATE)}
        path = SCHEMA_COMPILED
        try:
            catalog = Catalog.from_json(files[SCHEMA_COMPILED].decode())
            path = SCHEMA_STATE
            wanted = json.loads(files[SCHEMA_STATE])["identity_hash"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{self._location.child(path)} is damaged: {error!r}") from error
        if catalog.identity_hash != wanted:
            raise StorageError(
                f"{self._location.child(SCHEMA_COMPILED)} does not have the content that"
                f" {SCHEMA_STATE} vouches for: one of them was changed by hand or is damaged"
            )
        text = self._objects.read(SCHEMA_TEXT)
        if text is None:
            from omnigraph.language import print_schema

            return Schema(print_schema(catalog), catalog)
        return Schema(text.data.decode(errors="replace"), catalog)

    def _required(self, path: str) -> bytes:
        stored = self._objects.read(path)
        if stored is None:
            raise StorageError(f"{self._location.child(path)} is missing from the graph")
        return stored.data


def _numbers(type: NodeType | EdgeType) -> list[int]:
    return [type.id, *(property.id for property in type.properties.values())]


def show_schema(objects: Objects, schema: Schema) -> None:
    """Write the files that show the schema of main."""
    for path, content in _shown_files(schema).items():
        objects.write(path, content)


def _shown_files(schema: Schema) -> Mapping[str, bytes]:
    catalog = schema.catalog
    state = {
        "format": _FORMAT,
        "shape_hash": catalog.shape_hash,
        "identity_hash": catalog.identity_hash,
    }
    return {
        SCHEMA_TEXT: schema.text.encode(),
        SCHEMA_COMPILED: catalog.to_json().encode(),
        # The state comes last: it vouches for the other two.
        SCHEMA_STATE: json.dumps(state, indent=2).encode(),
    }


def _path(hash: str) -> str:
    return f"{FOLDER}/{hash}.json"
