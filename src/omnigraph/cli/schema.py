"""`omnigraph schema`: the verbs about schemas."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.graphs import graph_arguments, graph_words, reading, writing
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import commit_options, common_options, schema_option
from omnigraph.cli.output import Output, coloured
from omnigraph.cli.schemas import graph_or_schema
from omnigraph.cli.states import State, state_options
from omnigraph.cli.text import moment, one_line
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.language.schema.steps import SchemaPlan

_branch_option = click.option(
    "--branch", metavar="BRANCH", default="main", show_default=True, help="Whose schema."
)


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph schema show team.omni
  omnigraph schema plan team.omni schema.pg
  omnigraph schema apply team.omni schema.pg
  omnigraph schema history team.omni""",
)
def schema() -> None:
    """Look at a schema, and change it."""


@schema.command(
    epilog="""\b
Examples:
  omnigraph schema show team.omni
  omnigraph schema show team.omni --format pg
  omnigraph schema show team.omni --branch draft
  omnigraph schema show team.omni --at 2026-01-31T12:00Z
  omnigraph schema show --schema schema.pg --json"""
)
@graph_words()
@schema_option
@state_options("--commit")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "pg"]),
    default="table",
    show_default=True,
    help="A table, or the schema's canonical text.",
)
@common_options
def show(
    output: Output,
    words: tuple[str, ...],
    store: str | None,
    schema_path: str | None,
    state: State,
    form: str,
) -> None:
    """Show node types, edge types and their properties.

    Of the schema that a graph has, on any branch and at any commit, or of the file
    that --schema names.

    With --json: the compiled schema with its two hashes. `shape_hash` covers what
    the schema says, `identity_hash` also the stable ids of types and properties.
    """
    from omnigraph.cli.schema_table import plain, print_rich
    from omnigraph.language import compile_schema, print_schema

    place, path = graph_or_schema(words, store, schema_path)
    if path is not None:
        if any(state):
            raise UsageError("a file has no branches and commits; name a graph to read one")
        catalog = compile_schema(read_source(path), path=path)
    else:
        assert place is not None
        with reading(place) as graph:
            catalog = graph.snapshot(**state.of(graph)).catalog
    if output.json:
        output.data(
            {
                "shape_hash": catalog.shape_hash,
                "identity_hash": catalog.identity_hash,
                "schema": catalog.to_dict(),
            }
        )
    elif form == "pg":
        output.result(print_schema(catalog).removesuffix("\n"))
    elif coloured(sys.stdout):
        print_rich(catalog)
    else:
        output.result(plain(catalog))


@schema.command(
    epilog="""\b
Examples:
  omnigraph schema plan team.omni schema.pg
  omnigraph schema plan team.omni schema.pg --branch draft --json"""
)
@graph_arguments("FILE")
@_branch_option
@common_options
def plan(output: Output, place: str, file: str, branch: str) -> int:
    """Show what a new schema would change.

    FILE is a .pg file with the whole schema. Each step is safe, depends on the data,
    loses data, or is refused. Nothing is changed, and no data is read.
    Exits with 1 when a step is refused.
    """
    read_source(file)
    with reading(place) as graph:
        steps = graph.schema.plan(file, branch=branch)
    if output.json:
        output.data(steps.to_dict())
    else:
        _print_plan(output, steps)
    return int(steps.effect == "refused")


@schema.command(
    epilog="""\b
Examples:
  omnigraph schema apply team.omni schema.pg
  omnigraph schema apply team.omni schema.pg --yes --as ada -m "more cities"
  omnigraph schema apply team.omni schema.pg --branch draft --allow-data-loss"""
)
@graph_arguments("FILE")
@_branch_option
@click.option("--allow-data-loss", is_flag=True, help="Also drop what has rows, or values in rows.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@commit_options("Who changes it", "Apply only", "apply")
@common_options
def apply(
    output: Output,
    place: str,
    file: str,
    branch: str,
    allow_data_loss: bool,
    yes: bool,
    **about: Any,
) -> int:
    """Change the schema of a branch, in one commit or not at all.

    FILE is a .pg file with the whole schema. Shows the steps and asks first; without
    a terminal, pass --yes. Other branches keep their schemas. What is dropped can
    be read at earlier commits until a cleanup. Exits with 1 when it is not applied.
    """
    read_source(file)
    if not yes and (output.json or not sys.stdin.isatty()):
        raise UsageError(
            "changing the schema has to be confirmed, and there is nobody to ask; pass --yes"
        )
    with writing(place, output, f"schema of {branch}") as graph:
        if not (yes or _is_confirmed(output, graph, file, branch, allow_data_loss, about)):
            output.note("the schema stays as it is")
            return 1
        result = graph.schema.apply(file, branch=branch, allow_data_loss=allow_data_loss, **about)
    if output.json:
        output.data(result.to_dict())
        return 0
    if yes:
        _print_plan(output, result.plan, is_done=True)
    if result.commit is None:
        return 0
    done = "was applied before" if result.repeated else "applied"
    output.result(output.style(f"{done}: commit {result.commit.id}", fg="green"))
    return 0


def _is_confirmed(
    output: Output,
    graph: Graph,
    file: str,
    branch: str,
    allow_data_loss: bool,
    about: dict[str, Any],
) -> bool:
    """Show the steps and ask; what is applied then is what was shown.

    Nobody is asked about what is refused: applying it says why.
    """
    steps = graph.schema.plan(file, branch=branch)
    _print_plan(output, steps)
    about["if_schema"] = steps.accepted.identity_hash
    is_refused = steps.effect == "refused" or not (
        allow_data_loss or _loses_nothing(graph, branch, steps)
    )
    return not steps.steps or is_refused or click.confirm("Apply it?", err=True)


def _loses_nothing(graph: Graph, branch: str, steps: SchemaPlan) -> bool:
    """True when what is dropped has no rows."""
    state = graph.snapshot(branch)
    return not any(state.count(step.old_type or "") for step in steps.of_effect("destructive"))


@schema.command(
    epilog="""\b
Examples:
  omnigraph schema history team.omni
  omnigraph schema history team.omni --branch draft --limit 3 --json"""
)
@graph_arguments()
@_branch_option
@click.option("--limit", "-n", metavar="N", type=click.IntRange(min=1), help="At most so many.")
@common_options
def history(output: Output, place: str, branch: str, limit: int | None) -> None:
    """List the commits that changed the schema, newest first, with the steps.

    The last one listed has created the graph. Times are in UTC.
    """
    with reading(place) as graph:
        changes = graph.schema.history(branch, limit=limit)
    if output.json:
        output.data([change.to_dict() for change in changes])
        return
    for number, change in enumerate(changes):
        if number:
            output.result("")
        commit = change.commit
        about = [moment(commit.time), *([commit.actor] if commit.actor else [])]
        output.result(output.style(f"commit {commit.id}", fg="yellow"))
        output.result(f"  {', '.join(about)}")
        if commit.message:
            output.result(f"  {one_line(commit.message)}")
        _print_plan(output, change.plan, is_done=True)


def _print_plan(output: Output, steps: SchemaPlan, *, is_done: bool = False) -> None:
    from omnigraph.cli.diff import terminal_look
    from omnigraph.cli.schema_plan_text import plan_lines

    for line in plan_lines(steps, terminal_look(), is_done=is_done):
        output.result(line)
