"""The best common ancestors, compared with all paths through random histories."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from omnigraph.history.ancestry import Parents, common_ancestors
from omnigraph.merge.ancestors import independent


def best_common_ancestors(
    parents: Parents, ours: str, theirs: str, is_readable: Callable[[str], bool]
) -> list[str]:
    return independent(parents, common_ancestors(parents, ours, theirs, is_readable)[0])


def closure(parents: dict[str, tuple[str, ...]], id: str) -> set[str]:
    found = {id}
    for parent in parents[id]:
        found |= closure(parents, parent)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_is_every_common_ancestor_that_no_other_one_comes_from(seed):
    chance = random.Random(seed)
    # Names do not sort by age: clocks differ.
    names = [f"{chance.randrange(100):02}-{number}" for number in range(14)]
    parents: dict[str, tuple[str, ...]] = {names[0]: ()}
    for number, name in enumerate(names[1:], 1):
        older = names[:number]
        count = min(len(older), chance.choice((1, 1, 2)))
        parents[name] = tuple(chance.sample(older[-5:], min(count, len(older[-5:]))))
    unreadable = set(chance.sample(names[1:], 3)) if seed % 2 else set()
    for ours in names:
        for theirs in names:
            common = closure(parents, ours) & closure(parents, theirs) - unreadable
            best = {
                id
                for id in common
                if not any(id != other and id in closure(parents, other) for other in common)
            }
            found = best_common_ancestors(
                parents.__getitem__, ours, theirs, lambda id: id not in unreadable
            )
            assert set(found) == best
            assert len(found) == len(best)


def test_only_commits_back_to_the_answer_are_looked_at():
    parents: dict[str, tuple[str, ...]] = {
        f"{number:05}": (f"{number - 1:05}",) for number in range(1, 1000)
    }
    parents |= {"00000": (), "x": ("00990",), "y": ("00995",)}
    asked: list[str] = []

    def look(id: str) -> tuple[str, ...]:
        asked.append(id)
        return parents[id]

    assert best_common_ancestors(look, "x", "y", lambda _: True) == ["00990"]
    assert len(asked) < 20
