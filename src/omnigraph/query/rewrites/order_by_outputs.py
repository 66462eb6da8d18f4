"""An order by a column of the answer is one by the expression of that column."""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.language.query.plan import Ordering, ReadPlan


def order_by_outputs(plan: ReadPlan) -> ReadPlan:
    """Order by the expressions of outputs; the names stay."""
    outputs = {output.name: output.expression for output in plan.outputs}

    def resolved(ordering: Ordering) -> Ordering:
        if ordering.output is None:
            return ordering
        return replace(ordering, expression=outputs[ordering.output])

    return replace(plan, order=tuple(map(resolved, plan.order)))
