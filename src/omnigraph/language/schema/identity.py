"""Checked types → catalog: giving every type and property its stable identity.

One counter mints type ids, incarnations and property ids and never uses a number twice. A type
or property keeps its numbers as long as its name stays or `@rename_from` says where it came from;
dropped and declared anew, it gets new ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from omnigraph.diagnostics import Report, Span, did_you_mean
from omnigraph.language.query.expressions import Checked
from omnigraph.language.schema.backfill import check_backfill
from omnigraph.language.schema.catalog import (
    ENDS,
    Catalog,
    EdgeType,
    NodeType,
    Property,
    frozen,
)
from omnigraph.language.schema.draft import Backfill, Rename, SchemaDraft, TableDraft

_Table = TypeVar("_Table", NodeType, EdgeType)


def identify(report: Report, draft: SchemaDraft, accepted: Catalog | None) -> Catalog:
    """Build the catalog of a checked schema.

    Args:
        report: Where a wrong `@rename_from` is recorded; the catalog is then of no use.
        draft: The checked schema.
        accepted: The catalog the graph has now, or None for a new graph.
    """
    builder = _Identities(report, accepted)
    nodes = [(d, d.table) for d in draft.tables if isinstance(d.table, NodeType)]
    edges = [(d, d.table) for d in draft.tables if isinstance(d.table, EdgeType)]
    old_nodes: Mapping[str, NodeType] = accepted.nodes if accepted else {}
    old_edges: Mapping[str, EdgeType] = accepted.edges if accepted else {}
    node_types = builder.tables(nodes, "node", old_nodes, old_edges)
    edge_types = builder.tables(edges, "edge", old_edges, old_nodes)
    builder.report_idle_backfills()
    return Catalog(
        frozen(draft.interfaces),
        frozen(node_types),
        frozen(edge_types),
        next(builder.ids),
        builder.backfills,
    )


class _Identities:
    def __init__(self, report: Report, accepted: Catalog | None) -> None:
        self.ids: Iterator[int] = count(accepted.next_id if accepted else 1)
        self.backfills: dict[int, Checked] = {}
        self._report = report
        self._accepted = accepted
        self._is_new_graph = accepted is None
        self._idle: set[Span] = set()
        # An interface's backfill is idle when it is for all node types.
        self._idle_backfills: dict[Span, str] = {}
        self._needed_backfills: set[Span] = set()

    def tables(
        self,
        drafts: list[tuple[TableDraft, _Table]],
        kind: str,
        accepted: Mapping[str, _Table],
        other_kind: Collection[str],
    ) -> list[_Table]:
        wanted = [(table.name, draft.rename) for draft, table in drafts]
        came_from = self._matches(wanted, accepted, f"{kind} type", other_kind)
        return [
            self._table(draft, table, accepted.get(came_from.get(table.name, "")))
            for draft, table in drafts
        ]

    def _table(self, draft: TableDraft, table: _Table, old: _Table | None) -> _Table:
        id, incarnation = (old.id, old.incarnation) if old else (next(self.ids), next(self.ids))
        came_from: dict[str, str] = {}
        if old is not None:
            wanted = [(name, draft.property_renames.get(name)) for name in table.properties]
            came_from = self._matches(wanted, old.properties, f"property of `{old.name}`")
        elif not self._is_new_graph and draft.rename is None:
            for rename in draft.property_renames.values():
                if rename.inherited:
                    continue
                self._no_effect(rename, f"`{table.name}` is a new type and has no old properties")
        properties = [
            replace(p, id=old.properties[came_from[p.name]].id)
            if old is not None and p.name in came_from
            else replace(p, id=next(self.ids))
            for p in table.properties.values()
        ]
        by_name = frozen(properties)
        for name, backfill in draft.property_backfills.items():
            self._backfill(backfill, table, by_name[name], old, came_from)
        key = sorted(
            table.key,
            key=lambda n: (-1, ENDS.index(n)) if n not in by_name else (0, by_name[n].id),
        )
        return replace(table, id=id, incarnation=incarnation, properties=by_name, key=tuple(key))

    def _backfill(
        self,
        backfill: Backfill,
        table: NodeType | EdgeType,
        property: Property,
        old: NodeType | EdgeType | None,
        came_from: Mapping[str, str],
    ) -> None:
        if self._accepted is None:
            return
        why = None
        if old is None:
            why = f"`{table.name}` is a new type and has no rows"
        elif property.name in came_from:
            before = old.properties[came_from[property.name]].type
            if not before.nullable or property.type.nullable:
                why = f"the rows have values of `{property.name}` already"
                if property.type.nullable:
                    why = f"`{property.name}` is there already and can be null"
        if old is None or why is not None:
            self._idle_backfills.setdefault(backfill.span, why or "")
            return
        self._needed_backfills.add(backfill.span)
        checked = check_backfill(
            self._report, backfill, property, table.name, self._accepted, old, came_from
        )
        if checked is not None:
            self.backfills[property.id] = checked

    def report_idle_backfills(self) -> None:
        """Warn of backfills that nothing needs."""
        for span, why in self._idle_backfills.items():
            if span not in self._needed_backfills:
                message = f"`@backfill` has no effect: {why}"
                self._report.warning("OG-LT-203", message, span, "remove it")

    def _matches(
        self,
        wanted: Iterable[tuple[str, Rename | None]],
        accepted: Collection[str],
        what: str,
        other_kind: Collection[str] = (),
    ) -> dict[str, str]:
        """For each name that was there before: the name it had."""
        if self._is_new_graph:
            return {}
        wanted = list(wanted)
        old_names = {name: name for name, _ in wanted if name in accepted}
        unchanged = frozenset(old_names)
        claims: dict[str, Rename] = {}
        for name, rename in wanted:
            if rename is None:
                continue
            if name in unchanged:
                self._no_effect(rename, f"`{name}` has this name already")
                continue
            if self._may_claim(name, rename, accepted, unchanged, claims, what, other_kind):
                claims[rename.old] = rename
                old_names[name] = rename.old
        return old_names

    def _may_claim(
        self,
        name: str,
        rename: Rename,
        accepted: Collection[str],
        unchanged: Collection[str],
        claims: Mapping[str, Rename],
        what: str,
        other_kind: Collection[str],
    ) -> bool:
        old = rename.old
        if old in accepted and old not in unchanged and old not in claims:
            return True
        if rename.inherited:
            # An interface speaks for all its node types; one that never had the old name is fine.
            return False
        if old in unchanged:
            code, problem = "OG-ID-102", f"`{old}` is still declared, so `{name}` cannot be it"
            hint = f"remove the declaration of `{old}`, or `@rename_from`"
        elif old in claims:
            line = self._report.position(claims[old].span[0])[0]
            code, problem = "OG-ID-103", f"`{old}` is renamed twice; the first time on line {line}"
            hint = "only one of them can be the old one; remove the other `@rename_from`"
        elif old in other_kind:
            article = "an" if what.startswith("edge") else "a"
            code, problem = "OG-ID-104", f"`{old}` is not {article} {what} in the graph's schema"
            hint = "a node type cannot become an edge type, nor the other way round"
        else:
            code, problem = "OG-ID-101", f"the graph's schema has no {what} called `{old}`"
            if what.startswith("property"):
                problem = f"the graph's schema has no {what} that is called `{old}`"
            hint = did_you_mean(old, accepted) or "write the name it has in the graph now"
        self._report.error(code, problem, rename.span, hint)
        return False

    def _no_effect(self, rename: Rename, why: str) -> None:
        if rename.span in self._idle:
            return
        self._idle.add(rename.span)
        self._report.warning(
            "OG-LT-202",
            f"`@rename_from` has no effect: {why}",
            rename.span,
            "remove it",
        )
