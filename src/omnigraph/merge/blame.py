"""Which commit has last set each property of a node or edge.

It is told from the entity's history. Of what came with a merge, the commit on the merged side is
the one that has set it, as long as that side can be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from omnigraph.compute.equality import unequal
from omnigraph.compute.keys import property_name
from omnigraph.errors import NotFound, StorageError
from omnigraph.history.manifest import Commit
from omnigraph.history.repository import Repository
from omnigraph.language.values import to_json
from omnigraph.merge.changes import GraphState, Type, compared_columns, state_at
from omnigraph.merge.entity_history import (
    Step,
    changed_columns,
    head_state,
    never_there,
    steps,
    values_of,
)


@dataclass(frozen=True, slots=True)
class BlamedProperty:
    """A property of a node or edge, or an end of an edge, and who has set it.

    Attributes:
        property: Its name.
        value: Its value. A Blob is told by its digest, or by the file that it refers to.
        commit: The commit that has last set it.
        or_earlier: A cleanup has removed what was before the commit: it may have
            been an earlier one.
    """

    property: str
    value: Any
    commit: Commit
    or_earlier: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Give the property as plain values."""
        return {
            "property": self.property,
            "value": to_json(self.value),
            "commit": self.commit.to_dict(),
            "or_earlier": self.or_earlier,
        }


#: The commit that has last set a column, and whether it may have been an earlier one.
_Setter = tuple[Commit, bool]


def blame(repository: Repository, name: str, id: str, branch: str) -> list[BlamedProperty]:
    """Tell who has set each property of a node or edge, as it is now on a branch.

    Args:
        repository: The graph.
        name: The type of the entity.
        id: Which one.
        branch: The branch.

    Raises:
        NotFound: There is no such branch, type or entity.
    """
    with head_state(repository, branch) as state:
        type = state.catalog.type(name)
        newest_first = steps(state, type, id)
        newest = next(newest_first, None)
        if newest is None:
            raise never_there(state, type, id)
        if newest.after is None:
            by = "" if newest.commit.actor is None else f" by {newest.commit.actor}"
            raise NotFound(
                f"there is no {type.name} `{id}` on branch `{branch}` any more: commit"
                f" {newest.commit.id}{by} has deleted it; Graph.history tells what it was"
            )
        set_by = _set_by(state, type, id, compared_columns(type), chain([newest], newest_first))
    values = values_of(type, newest.after)
    names = {column: property_name(column, type) for column in set_by}
    return [BlamedProperty(names[c], values[names[c]], *set_by[c]) for c in compared_columns(type)]


def _set_by(
    state: GraphState, type: Type, id: str, columns: Collection[str], changes: Iterable[Step]
) -> dict[str, _Setter]:
    """By column, the commit that has last set it in a state that has the entity."""
    set_by: dict[str, _Setter] = {}
    left = list(columns)
    for step in changes:
        assert step.after is not None
        changed = set(left)
        if step.before is not None:
            changed &= set(changed_columns(type, step.before, step.after))
        if changed:
            set_by |= dict.fromkeys(changed, (step.commit, step.is_cut_off))
            # What was there before a merge may have come from either side.
            if len(step.commit.parents) > 1 and not step.is_cut_off:
                set_by |= _on_merged_side(state, type, id, step.commit, step.after, changed)
            left = [column for column in left if column not in changed]
        if not left:
            break
    return set_by


def _on_merged_side(
    state: GraphState,
    type: Type,
    id: str,
    merge: Commit,
    row: pa.Table,
    columns: Collection[str],
) -> dict[str, _Setter]:
    """Of what a merge has set, the commits of the merged side that have set it the same."""
    try:
        side = state_at(state.repository, merge.parents[1])
        rows = side.rows(type, pa.array([id], pa.utf8()))
        if not rows.num_rows:
            return {}
        same = [column for column in columns if not unequal(rows[column], row[column]).any()]
        return _set_by(side, type, id, same, steps(side, type, id)) if same else {}
    except (NotFound, StorageError):
        # Its branch is deleted: nothing but the merge is left to tell.
        return {}
