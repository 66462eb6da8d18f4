"""The plan of a change of schema as text: the steps of each type, with what they mean for data.

Pure functions from a plan to lines. `+` adds, `~` changes, `-` takes away, and `!` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.cli.changes_text import Look
from omnigraph.cli.styled import Mark, Span, wrapped
from omnigraph.cli.text import one_line

if TYPE_CHECKING:
    from omnigraph.language.schema.steps import SchemaPlan, Step

_SIGNS: dict[str, tuple[str, Mark]] = {
    "add": ("+", "new"),
    "drop": ("-", "old"),
    "remove": ("-", "old"),
}
_EFFECTS: dict[str, tuple[str, Mark]] = {
    "safe": ("safe", ""),
    "data-dependent": ("depends on the data", "changed"),
    "destructive": ("loses data", "old"),
    "refused": ("refused", "old"),
}
_WORDS = {"interface": "interface", "node": "node type", "edge": "edge type"}


def plan_lines(plan: SchemaPlan, look: Look, *, is_done: bool = False) -> Iterator[str]:
    """The steps under the types that they are about, and how many of each effect there are.

    Args:
        plan: The steps.
        look: How wide it is, and with which colours.
        is_done: They were taken: nobody needs to know what to look out for.
    """
    types: dict[tuple[str, str, str | None], list[Step]] = {}
    for step in plan.steps:
        types.setdefault((step.owner, step.type, step.old_type), []).append(step)
    for (owner, name, old), steps in types.items():
        renamed = f", which was {old}" if old not in (None, name) else ""
        heading = [Span(f"{_WORDS[owner]} "), Span(one_line(name), "bold"), Span(renamed)]
        yield from (look.text(line) for line in wrapped(heading, look.width, hanging=2))
        for step in steps:
            yield from _step_lines(step, look, is_done)
        yield ""
    total = _counted(plan) if is_done else summary(plan)
    for line in wrapped([Span(total)], look.width, hanging=2):
        yield look.text(line)


def summary(plan: SchemaPlan) -> str:
    """How many steps there are, and what they mean for the data: `3 steps: 2 safe, 1 refused`."""
    parts = [
        f"{count:,} {_plural(effect, count)}" for effect, count in plan.counts.items() if count
    ]
    return f"{_counted(plan)}: {', '.join(parts)}" if parts else _counted(plan)


def _counted(plan: SchemaPlan) -> str:
    number = len(plan.steps)
    return f"{number:,} step{'s' if number > 1 else ''}" if number else "no changes"


def _plural(effect: str, count: int) -> str:
    if count == 1 or effect in ("safe", "refused"):
        return _EFFECTS[effect][0]
    return {"data-dependent": "depend on the data", "destructive": "lose data"}[effect]


def _step_lines(step: Step, look: Look, is_done: bool) -> Iterator[str]:
    sign, mark = _SIGNS.get(step.kind.partition("_")[0], ("~", "changed"))
    if step.effect == "refused":
        sign, mark = "!", "old"
    spans = [Span("  "), Span(sign, mark), Span(f" {one_line(step.message)}")]
    for line in wrapped(spans, look.width, hanging=4):
        yield look.text(line)
    if is_done:
        return
    effect, mark = _EFFECTS[step.effect]
    hint = one_line(step.hint) if step.hint else ""
    if step.code is not None:
        below = [Span("      "), Span(f"{step.code} {effect}", mark)]
        below += [Span(f": {hint}")] if hint else []
    elif hint:
        below = [Span("      "), Span(hint)]
    else:
        return
    for line in wrapped(below, look.width, hanging=6):
        yield look.text(line)
