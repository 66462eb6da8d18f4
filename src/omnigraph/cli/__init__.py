"""The `omnigraph` command.

`main` runs the command line and turns every error into a message and an exit code: 0 fine,
1 error, 2 usage, 3 conflict, 4 precondition failed, 130 interrupted. A traceback is shown only
with `--debug`. Each verb lives in a module of its own that is imported when the verb is used,
so that `omnigraph --help` answers at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

import click

from omnigraph import __version__
from omnigraph.cli.lazy import LazyGroup
from omnigraph.cli.output import Output
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.settings import Settings

_INTERRUPTED = 130
#: So many new objects are made before Python looks for garbage; it is 700 otherwise.
_LOOK_FOR_GARBAGE = 50_000

#: Verb → where its command is, and the line about it in `omnigraph --help`.
VERBS = {
    "init": ("omnigraph.cli.init:init", "Create a graph."),
    "query": ("omnigraph.cli.query:query", "Run a query and show its answer."),
    "mutate": ("omnigraph.cli.mutate:mutate", "Insert, update or delete, in one commit."),
    "load": ("omnigraph.cli.load:load", "Load files, in one commit or not at all."),
    "ingest": ("omnigraph.cli.load:ingest", "Load files into a branch, created if need be."),
    "embed": ("omnigraph.cli.embed:embed", "Make the vectors that are missing, in one commit."),
    "export": ("omnigraph.cli.export:export", "Write all nodes and edges to files."),
    "snapshot": ("omnigraph.cli.snapshot:snapshot", "Show the tables of a branch or commit."),
    "branch": ("omnigraph.cli.branch:branch", "Create, list, merge and delete branches."),
    "diff": ("omnigraph.cli.diff:diff", "Compare two states of a graph: what leads from A to B."),
    "commit": ("omnigraph.cli.commit:commit", "Look at the history of a graph."),
    "history": ("omnigraph.cli.history:history", "Show all versions of a node or an edge."),
    "blame": ("omnigraph.cli.history:blame", "Show which commit set each property, and who."),
    "revert": ("omnigraph.cli.revert:revert", "Undo a commit, in a new commit."),
    "cherry-pick": ("omnigraph.cli.revert:cherry_pick", "Do what a commit did on another branch."),
    "changes": ("omnigraph.cli.changes:changes", "Follow the changes of a branch."),
    "tag": ("omnigraph.cli.tag:tag", "Give commits lasting names."),
    "blob": ("omnigraph.cli.blob:blob", "Read the values of Blob properties."),
    "check": ("omnigraph.cli.check:check", "Check that a graph is whole."),
    "optimize": ("omnigraph.cli.optimize:optimize", "Make a branch fast to read."),
    "repair": ("omnigraph.cli.repair:repair", "Publish what another program has written."),
    "cleanup": (
        "omnigraph.cli.cleanup:cleanup",
        "Remove what failed and killed writes have left, and old versions.",
    ),
    "backup": ("omnigraph.cli.backup:backup", "Copy a graph to a safe place, while others write."),
    "restore": ("omnigraph.cli.restore:restore", "Make a graph from a backup."),
    "serve": ("omnigraph.cli.serve:serve", "Serve graphs over HTTP."),
    "recovery": ("omnigraph.cli.recovery:recovery", "See what became of interrupted writes."),
    "lint": ("omnigraph.cli.lint:lint", "Check a schema and the queries written for it."),
    "fmt": ("omnigraph.cli.fmt:fmt", "Format schema and query files in the canonical style."),
    "explain": (
        "omnigraph.cli.explain:explain",
        "Show what a query takes, returns and does.",
    ),
    "schema": ("omnigraph.cli.schema:schema", "Look at a schema, and change it."),
    "completion": ("omnigraph.cli.completion:completion", "Print a shell completion script."),
    "version": ("omnigraph.cli.version:version", "Show the versions of Omnigraph and its parts."),
}


@click.group(
    cls=LazyGroup,
    lazy=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="""\b
Examples:
  omnigraph lint schema.pg queries.gq
  omnigraph init team.omni --schema schema.pg
  omnigraph commit list team.omni
  omnigraph explain --schema schema.pg --query queries.gq find_person
\b
`omnigraph VERB --help` explains a verb and shows examples.""",
)
@click.version_option(__version__, prog_name="omnigraph", message="%(prog)s %(version)s")
def cli() -> None:
    """A typed property-graph database on Lance, with branches and merges.

    Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 error,
    2 usage, 3 conflict, 4 precondition failed.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    Args:
        arguments: What follows the command's name; taken from `sys.argv` when left out.
    """
    if arguments is None:
        # Nothing that is loaded at the start is ever garbage, and looking for some takes a while.
        gc.set_threshold(_LOOK_FOR_GARBAGE)
        code = _run(sys.argv[1:])
        _leave_computations(code)
        return code
    return _run(list(arguments))


def _leave_computations(code: int) -> None:
    """End the process at once if it would wait for what the user has interrupted."""
    budget = sys.modules.get("omnigraph.query.budget")
    if budget is not None and budget.is_computing():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)


def _run(words: list[str]) -> int:
    options = words[: words.index("--")] if "--" in words else words
    output = Output(json="--json" in options)
    try:
        debug = Settings.from_env().debug or "--debug" in options
    except UsageError as error:
        output.error(error)
        return error.exit_code
    try:
        code = cli.main(words, prog_name="omnigraph", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.Abort:
        return _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        output.error(UsageError(error.format_message()), usage=_usage(error))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone. Python must not notice again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        expected = isinstance(error, OmnigraphError)
        shown = error if isinstance(error, OmnigraphError) else _surprise(error)
        if not debug or output.json or not expected:
            output.error(shown)
        return shown.exit_code


def _usage(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    return f"{context.get_usage()}\nTry '{context.command_path} --help' for help."


def _surprise(error: Exception) -> OmnigraphError:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return OmnigraphError(f"{place}{error.strerror}", code="os_error")
    return OmnigraphError(
        f"internal error: {type(error).__name__}: {error}\n"
        "This is a fault of Omnigraph, not of yours. `--debug` shows where it happened; "
        "please report it.",
        code="internal",
    )
