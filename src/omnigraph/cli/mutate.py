"""`omnigraph mutate`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import writing
from omnigraph.cli.options import commit_options, common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.queries import graph_and_name, query_options, read_parameter_sets, read_query
from omnigraph.cli.text import table
from omnigraph.errors import ValidationError, Violation

if TYPE_CHECKING:
    from omnigraph.writes.mutate import MutationResult

#: How many violations are printed: in all, and of one rule about one property.
_MOST_SHOWN = 20
_MOST_ALIKE = 5


@click.command(
    epilog="""\b
Examples:
  omnigraph mutate team.omni --query people.gq add_person \\
    --params '{"name": "Ada", "born": "1815-12-10"}' --as ada
  omnigraph mutate team.omni --branch draft \\
    -e 'query q() { delete Person where name = "Ada" }'
  omnigraph mutate team.omni --query people.gq rename --params @rename.json \\
    --if-commit 01JCQ5XGEE4V1M7CH5VZ1E5W2B"""
)
@query_options
@click.option("--branch", metavar="BRANCH", default="main", show_default=True)
@commit_options("Who writes", "Write only", "write")
@common_options
def mutate(
    output: Output,
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    parameters: str | None,
    branch: str,
    **options: Any,
) -> None:
    """Insert, update or delete, in one commit.

    Runs all statements of one query. Nothing is written unless the whole change
    keeps the rules of the schema; the error lists everything that does not. NAME
    picks one query of the file. With an array of objects as --params the query
    runs once for each, in order; all of it is still one commit.
    """
    place, name = graph_and_name(words, store)
    source = read_query(path, text)
    values = read_parameter_sets(parameters)
    with writing(place, output, f"branch {branch}") as graph:
        try:
            result = graph.mutate(
                source, name=name, params=values, branch=branch, path=path, **options
            )
        except ValidationError as error:
            raise (error if output.json else _shortened(error)) from None
    if output.json:
        output.data(result.to_dict())
    else:
        print_mutation(output, result)


def _shortened(error: ValidationError) -> ValidationError:
    """The error with fewer violations, but some of each kind: they have to fit on a screen."""
    if len(error.violations) <= _MOST_SHOWN:
        return error
    alike: Counter[tuple[str | None, str | None, str]] = Counter()
    shown: list[Violation] = []
    for violation in error.violations:
        kind = (violation.type, violation.property, violation.rule)
        alike[kind] += 1
        if alike[kind] <= _MOST_ALIKE and len(shown) < _MOST_SHOWN:
            shown.append(violation)
    short = ValidationError(shown, total=error.total)
    listed = len(error.violations)
    short.message += f"; --json lists {'all' if listed == error.total else f'the first {listed}'}"
    return short


def print_mutation(output: Output, result: MutationResult) -> None:
    """Show what a mutation has done."""
    if result.repeated:
        assert result.commit is not None
        output.result(f"done before, in commit {result.commit.id}")
        return
    if result.commit is None:
        output.result("nothing to change")
        return
    rows = [
        [name, *(str(n) if n else "" for n in counts.to_dict().values())]
        for name, counts in (*result.nodes.items(), *result.edges.items())
    ]
    head = ["type", "inserted", "replaced", "updated", "deleted"]
    used = [i for i, _ in enumerate(head) if i == 0 or any(row[i] for row in rows)]
    output.table(
        table([head[i] for i in used], [[row[i] for i in used] for row in rows], right=head[1:])
    )
    total = f"{counted(result.affected_nodes, 'node')}, {counted(result.affected_edges, 'edge')}"
    output.result(f"{total} in commit {result.commit.id}")
    for warning in result.warnings:
        output.warning(warning)
