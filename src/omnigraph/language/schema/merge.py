"""Three catalogs → one: what two branches have made of a schema, put together.

Everything is compared by ids and merged part by part: a part that one side has changed is taken
from it, one that both have changed differently is a conflict. Sets, such as the unique groups of a
type, are merged by element, and so are the values of an enum.

Numbers that are reserved once for all branches never meet. What both sides have added alike is one
thing, with the numbers of `ours`, also when it was merged before. Where both have used one number
for different things, that of `theirs` gets a new one. `renumbered` has all of these, and whoever
moves data has to follow: a number is part of a table's path and of the metadata of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType, Property, frozen
from omnigraph.language.schema.compiler import check_schema
from omnigraph.language.schema.parts import Parts, Path, Unplaced, catalog_of, parts_of, place
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.printer import print_schema

ConflictKind = Literal[
    "changed_differently", "dropped_and_changed", "added_differently", "does_not_fit"
]
Table = NodeType | EdgeType
Item = Table | Property

_ABSENT = object()
_OPEN = object()
_AGREE = "make both branches say the same, and merge again"


class SchemaConflict(Struct, frozen=True):
    """A part of a schema that two sides have made different things of.

    Attributes:
        kind: What is wrong.
        type: The type, or interface, that it is about; None when it is the schema as a whole.
        property: The property, or None when it is the type.
        part: What of it: `name`, `type`, `key`, …
        message: The conflict in one sentence.
        hint: What to do.
        path: Where the part is in what `parts_of` makes of a schema; empty if it is no one part.
    """

    kind: ConflictKind
    type: str | None
    property: str | None
    part: str | None
    message: str
    hint: str
    path: Path = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the conflict as plain JSON values."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "path"}


class MergedSchema(Struct, frozen=True):
    """What comes of two schemas.

    Attributes:
        catalog: The merged schema, or None when there are conflicts.
        conflicts: Everything that cannot be put together.
        renumbered: Ids of types and properties, and incarnations, of `theirs` and of the base that
            have another number in `catalog`.
        settled: The conflicts that the caller has settled.
    """

    catalog: Catalog | None
    conflicts: tuple[SchemaConflict, ...]
    renumbered: Mapping[int, int]
    settled: tuple[SchemaConflict, ...] = ()


#: Settles a conflict with a side, with any that can be taken, or does not.
Choose = Callable[[SchemaConflict], Literal["ours", "theirs", "any"] | None]


def merge_schemas(
    base: Catalog,
    ours: Catalog,
    theirs: Catalog,
    choose: Choose | None = None,
    *,
    unsure: Collection[Path] = (),
) -> MergedSchema:
    """Put the changes of two schemas together.

    Args:
        base: The schema that both come from.
        ours: The schema of the branch that is merged into.
        theirs: The schema of the branch that is merged.
        choose: Is asked about parts that both sides have changed. What one side has dropped can
            only stay dropped.
        unsure: The paths of parts of `base` of which nobody can tell what they were: both sides
            count as having changed them.

    Returns:
        The merged schema, in the order of `ours` with what `theirs` adds behind. What it means for
        the rows of a side is the plan from there, `plan_schema(ours, catalog, merged=True)`;
        `theirs` has to be renumbered for it.
    """
    renumbered, next_id = _numbers(base, ours, theirs)
    base, theirs = renumber(base, renumbered), renumber(theirs, renumbered)
    merge = _Merge(ours, theirs, choose or (lambda conflict: None))
    known = parts_of(base)
    for path in unsure:
        _forget(known, tuple(renumbered.get(each, each) for each in path))
    parts = merge.parts((), known, parts_of(ours), parts_of(theirs))
    catalog = None if merge.conflicts else merge.catalog(parts, next_id)
    return MergedSchema(catalog, tuple(merge.conflicts), renumbered, tuple(merge.settled))


def _forget(parts: Parts, path: Path) -> None:
    """Let a part be like no other one."""
    *above, name = path
    for each in above:
        parts = parts.get(each, _ABSENT)
        if not isinstance(parts, dict):
            return
    parts[name] = object()


class _Merge:
    """The conflicts of one merge; `theirs` has its numbers already."""

    def __init__(self, ours: Catalog, theirs: Catalog, choose: Choose) -> None:
        self.conflicts: list[SchemaConflict] = []
        self.settled: list[SchemaConflict] = []
        self._sides = (ours, theirs)
        self._choose = choose

    def parts(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        """Merge one part, and whatever it consists of."""
        if _same(ours, theirs) or _same(base, theirs):
            return ours
        if _same(base, ours):
            return theirs
        if isinstance(base, dict) and isinstance(ours, dict) and isinstance(theirs, dict):
            names = {**ours, **theirs}
            merged = {
                name: self.parts(
                    (*path, name), *(side.get(name, _ABSENT) for side in (base, ours, theirs))
                )
                for name in names
            }
            return {name: part for name, part in merged.items() if part is not _ABSENT}
        if all(isinstance(side, frozenset) for side in (base, ours, theirs)):
            return (ours & theirs) | (ours - base) | (theirs - base)
        return self._clash(path, base, ours, theirs)

    def _clash(self, path: Path, base: Any, ours: Any, theirs: Any) -> Any:
        """Note that two sides differ, or settle it."""
        kind: ConflictKind = "changed_differently"
        hint = f"settle it with a side, or {_AGREE}"
        where = place(path, *self._sides)
        message = f"both sides have changed {where.text}, differently"
        if ours is _ABSENT or theirs is _ABSENT:
            kind = "dropped_and_changed"
            who, other = ("ours", "theirs") if ours is _ABSENT else ("theirs", "ours")
            message = f"{who} has dropped {where.text}, which {other} has changed"
            hint = f"settle it with `{who}`, or undo the drop first"
        elif base is _ABSENT:
            kind = "added_differently"
            message = f"both sides have added {where.text}, differently"
        conflict = SchemaConflict(kind, where.type, where.property, where.part, message, hint, path)
        choice = self._choose(conflict)
        if choice == "any":
            choice = "theirs" if theirs is _ABSENT else "ours"
        chosen = {"ours": ours, "theirs": theirs}.get(choice or "", _OPEN)
        # What was dropped has no rows any more, and cannot come back without them.
        if chosen is _OPEN or (kind == "dropped_and_changed" and chosen is not _ABSENT):
            self.conflicts.append(conflict)
            return ours if theirs is _ABSENT else theirs
        self.settled.append(conflict)
        return chosen

    def _conflict(
        self,
        kind: ConflictKind,
        type: str | None,
        property: str | None,
        part: str | None,
        message: str,
        hint: str = _AGREE,
    ) -> None:
        self.conflicts.append(SchemaConflict(kind, type, property, part, message, hint))

    def catalog(self, parts: Parts, next_id: int) -> Catalog | None:
        """Make the schema of merged parts; None after a conflict."""
        for type, property in _namesakes(parts):
            whole = type if property is None else f"{type}.{property}"
            message = f"two things would be called `{whole}`"
            self._conflict("added_differently", type, property, "name", message)
        if self.conflicts:
            return None
        try:
            merged = catalog_of(parts, next_id)
        except Unplaced as error:
            self._conflict("dropped_and_changed", error.type, error.property, None, str(error))
            return None
        # What an interface says holds for all its node types, whichever side has added them.
        catalog, diagnostics = check_schema(print_schema(merged), accepted=merged)
        if catalog is None:
            for found in diagnostics:
                if found.severity == "error":
                    hint = found.hint or _AGREE
                    self._conflict("does_not_fit", None, None, None, found.message, hint)
            return None
        self._refuse_losses(merged, catalog)
        return None if self.conflicts else catalog

    def _refuse_losses(self, merged: Catalog, catalog: Catalog) -> None:
        kept = {p.id for t in catalog.tables() for p in t.properties.values()}
        for table in merged.tables():
            for p in table.properties.values():
                if p.id not in kept:
                    message = (
                        f"`{table.name}` would lose `{p.name}`, which it has from an interface"
                    )
                    hint = "declare the property in the type itself, or in the interface again"
                    self._conflict("does_not_fit", table.name, p.name, None, message, hint)
        if self.conflicts:
            return
        for side in self._sides:
            for step in plan_schema(side, catalog, merged=True).of_effect("refused"):
                self._conflict(
                    "does_not_fit", step.type, step.property, "type", step.message, step.hint or ""
                )


def _same(left: Any, right: Any) -> bool:
    """Compare parts: 1, 1.0 and true are different values, and the order of names is none."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return left == right
    return left is right or (left is not _ABSENT and repr(left) == repr(right))


def _namesakes(parts: Parts) -> Iterator[tuple[str, str | None]]:
    """Types, and properties of a type, that have the name of another one."""
    seen = set(parts["interfaces"])
    for table in parts["types"].values():
        if table["name"] in seen:
            yield table["name"], None
        seen.add(table["name"])
        folded: set[str] = set()
        for property in table["properties"].values():
            if property["name"].lower() in folded:
                yield table["name"], property["name"]
            folded.add(property["name"].lower())


# --- numbers ---


def renumber(catalog: Catalog, numbers: Mapping[int, int]) -> Catalog:
    """Return a schema with other numbers for some of its types and properties."""
    if not numbers:
        return catalog

    def table(item: Any) -> Any:
        properties = [replace(p, id=numbers.get(p.id, p.id)) for p in item.properties.values()]
        return replace(
            item,
            id=numbers.get(item.id, item.id),
            incarnation=numbers.get(item.incarnation, item.incarnation),
            properties=frozen(properties),
        )

    return Catalog(
        catalog.interfaces,
        frozen([table(n) for n in catalog.nodes.values()]),
        frozen([table(e) for e in catalog.edges.values()]),
        max([catalog.next_id, *(n + 1 for n in numbers.values())]),
    )


def _numbers(base: Catalog, ours: Catalog, theirs: Catalog) -> tuple[dict[int, int], int]:
    """New numbers for what `theirs` has, and the next one."""
    known = {n for t in base.tables() for n in _numbers_of(t)}
    taken = known | {n for t in ours.tables() for n in _numbers_of(t)}
    fresh = count(max(ours.next_id, theirs.next_id))
    numbers: dict[int, int] = {}

    def settle(number: int, same: int | None) -> None:
        if same is not None:
            if same != number:
                numbers[number] = same
        elif number not in known and number in taken:
            numbers[number] = next(fresh)

    for table in theirs.tables():
        twin = _twin(table, ours.tables(), theirs.tables(), known)
        settle(table.id, twin.id if twin else None)
        settle(table.incarnation, twin.incarnation if twin else None)
        mine, others = (t.properties.values() if t else () for t in (twin, table))
        for property in others:
            alike = _twin(property, mine, others, known)
            settle(property.id, alike.id if alike else None)
    return numbers, next(fresh)


def _twin(item: Item, ours: Iterable[Item], theirs: Iterable[Item], known: Collection[int]) -> Any:
    """What on our side is the same as something on theirs; None when there is nothing.

    What both sides have added under one name is. It is still when one of them has come into the
    base since: then the other side has none with that number.

    Args:
        item: A type or a property of their side.
        ours: All of our side.
        theirs: All of their side.
        known: The numbers of the base.
    """
    ours = list(ours)
    same = next((each for each in ours if each.id == item.id), None)
    if item.id in known and same is not None:
        return same if type(same) is type(item) else None
    named = next((each for each in ours if each.name == item.name), None)
    if named is None or type(named) is not type(item):
        return None
    if item.id not in known and named.id not in known:
        return named
    is_another = item.id in known and named.id in known
    is_another |= any(each.id == named.id for each in theirs)
    return named if not is_another and _are_alike(named, item) else None


def _are_alike(left: Item, right: Item) -> bool:
    """True when values of one can be values of the other."""
    if isinstance(left, Property) or isinstance(right, Property):
        assert isinstance(left, Property) and isinstance(right, Property)
        return left.type.as_nullable() == right.type.as_nullable()
    both = left.properties.keys() & right.properties.keys()
    return left.key == right.key and all(
        _are_alike(left.properties[name], right.properties[name]) for name in both
    )


def _numbers_of(table: Table) -> list[int]:
    return [table.id, table.incarnation, *(p.id for p in table.properties.values())]
