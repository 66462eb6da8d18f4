"""One type as two schemas have it, and how steps about it are made.

Names mean nothing here: what a constraint names is compared by the ids of properties.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from omnigraph.language.schema.catalog import EdgeType, NodeType, Property
from omnigraph.language.schema.steps import Fill, Owner, Step, rule
from omnigraph.language.values import to_json

#: A property's id, or the name of an edge's end.
Member = int | str


class Pair(Struct, frozen=True):
    """A node or edge type before and after; None on the side that does not have it."""

    old: NodeType | EdgeType | None
    new: NodeType | EdgeType | None

    def step(
        self,
        kind: str,
        message: str,
        *,
        before: Any = None,
        after: Any = None,
        code: str | None = None,
        hint: str | None = None,
        properties: tuple[Property | None, Property | None] = (None, None),
        fill: Fill | None = None,
        target: Property | None = None,
    ) -> Step:
        """Make a step about this type, or about a property of it."""
        outcome = rule(kind, code)
        table = self.new or self.old
        assert table is not None
        owner: Owner = "node" if isinstance(table, NodeType) else "edge"
        old, new = properties
        named = new or old
        return Step(
            kind,
            outcome.effect,
            code,
            owner,
            table.name,
            self.old.name if self.old else None,
            table.id,
            named.name if named else None,
            old.name if old else None,
            named.id if named else None,
            before,
            after,
            message,
            hint,
            fill,
            target,
            outcome.needs_no_rows,
        )


def member(table: NodeType | EdgeType, name: str) -> Member:
    """What a constraint of a type names, independent of names."""
    property = table.properties.get(name)
    return name if property is None else property.id


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Names in a sentence: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names)


def same_json(left: Any, right: Any) -> bool:
    """Compare values as JSON does: 1, 1.0 and true are three different ones."""
    return _json(left) == _json(right)


def _json(value: Any) -> str:
    return json.dumps(to_json(list(value) if isinstance(value, tuple) else value))
