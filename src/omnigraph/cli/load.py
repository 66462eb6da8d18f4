"""`omnigraph load` and `omnigraph ingest`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import graph_and, graph_words, writing
from omnigraph.cli.interrupts import interruptible
from omnigraph.cli.options import (
    check_engine_options,
    commit_options,
    common_options,
    engine_options,
    in_order,
)
from omnigraph.cli.output import Output, counted
from omnigraph.cli.text import one_line, some_of_each, table, width
from omnigraph.errors import LoadError, Violation

if TYPE_CHECKING:
    from omnigraph.pipeline.load.run import LoadResult

_STDIN = "-"
#: How many faults are printed.
_MOST_SHOWN = 20
#: How many faults are printed of lines that were left out knowingly.
_MOST_SKIPPED = 5


def _columns(
    context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str]:
    columns: dict[str, str] = {}
    for text in pairs:
        column, _, property = text.rpartition("=")
        if not column or not property:
            raise click.BadParameter(f"`{text}` is not of the form FILE_COLUMN=PROPERTY")
        if column in columns:
            raise click.BadParameter(f"duplicate column `{column}`")
        columns[column] = property
    return columns


#: What both verbs have.
_load_options = in_order(
    graph_words("[GRAPH] SOURCE..."),
    click.option(
        "--mode",
        metavar="MODE",
        type=click.Choice(("append", "merge", "overwrite")),
        default="merge",
        help="merge: replace rows with the same id, the default; append: refuse them;"
        " overwrite: replace all rows of the types in SOURCE.",
    ),
    click.option("--type", metavar="TYPE", help="The type of the rows of CSV or Parquet files."),
    click.option(
        "--column",
        "columns",
        metavar="COLUMN=PROPERTY",
        multiple=True,
        callback=_columns,
        help="Which property a column of the files is; may be repeated.",
    ),
    click.option(
        "--format",
        metavar="FORMAT",
        type=click.Choice(("jsonl", "parquet", "csv")),
        help="One of jsonl, parquet, csv. Default: by the names of the files.",
    ),
    engine_options(),
    commit_options("Who loads", "Load only", "load"),
    click.option(
        "--max-errors",
        metavar="N",
        type=int,
        default=0,
        help="Leave out bad lines, if they have up to N faults. Default: 0.",
    ),
    click.option("--rejects", metavar="DIR", help="Keep the bad lines in this folder."),
    click.option("--no-indexes", is_flag=True, help="Build no indexes after a large load."),
    common_options,
)


@click.command(
    epilog="""\b
Examples:
  omnigraph load team.omni people.jsonl --as ada -m 'people of 2026'
  omnigraph load team.omni exports/*.jsonl.gz --mode append
  omnigraph load team.omni s3://lake/exports/2026/
  omnigraph load team.omni staff.csv --type Person --column full_name=name
  omnigraph load team.omni people.jsonl --max-errors 10 --rejects bad
  zcat big.jsonl.gz | omnigraph load team.omni -"""
)
@click.option("--branch", metavar="BRANCH", default="main", help="Where to. Default: main.")
@_load_options
def load(branch: str, **options: Any) -> None:
    """Load files, in one commit or not at all.

    SOURCE is a file, a folder or a pattern, here or at s3://bucket/key; JSON
    lines (also .gz and .zst), CSV or Parquet; - is stdin. CSV and Parquet files
    are named after the type of their rows, or --type names it. All of the input
    is read and checked before anything is written; the error counts all faults
    and lists the first.
    """
    _run(branch, None, **options)


@click.command(
    epilog="""\b
Examples:
  omnigraph ingest team.omni people.jsonl --branch import
  omnigraph ingest team.omni people.jsonl --branch import --from draft \\
    --idempotency-key import-17"""
)
@click.option(
    "--branch", metavar="BRANCH", required=True, help="Where to; created if it does not exist."
)
@click.option(
    "--from",
    "base",
    metavar="BRANCH",
    default="main",
    help="What the branch is created from. Default: main.",
)
@_load_options
def ingest(branch: str, base: str, **options: Any) -> None:
    """Load files into a branch, created if need be.

    Like `omnigraph load`. When the load fails, a branch that was created for it is
    gone again.
    """
    _run(branch, base, **options)


def _run(
    branch: str,
    base: str | None,
    *,
    output: Output,
    words: tuple[str, ...],
    store: str | None,
    rejects: str | None,
    no_indexes: bool,
    **options: Any,
) -> None:
    place, sources = _graph_and_sources(words, store)
    _check(sources, options)
    options |= {"rejects": rejects, "indexes": not no_indexes}
    source = sources[0] if len(sources) == 1 else sources
    graph = writing(place, output, f"branch {branch}")
    from omnigraph.pipeline.progress import Bars

    try:
        with graph, interruptible(output, graph, branch), Bars() as bars:
            if base is None:
                result = graph.load(source, branch=branch, progress=bars, **options)
            else:
                result = graph.ingest(source, branch=branch, base=base, progress=bars, **options)
    except LoadError as error:
        raise (error if output.json else _readable(error, rejects)) from None
    if output.json:
        faults = [fault.to_dict() for fault in result.faults]
        output.data({"graph": graph.location, **result.to_dict(), "faults": faults})
    else:
        _print(output, result, [type.name for type in graph.catalog.tables()], rejects)


def _graph_and_sources(words: Sequence[str], store: str | None) -> tuple[str, list[str]]:
    """Which words are what: a file is no graph, so the first one may be a source."""
    if len(words) > 1 and store is not None:
        return store, list(words)
    if len(words) > 1 and not _is_file(words[0]):
        return words[0], list(words[1:])
    place, *_ = graph_and(words[:1], store, "SOURCE")
    return place, list(words)


def _is_file(word: str) -> bool:
    """True for what is surely no graph: a file here, or an object whose name shows what it is."""
    if "://" not in word:
        return Path(word).is_file()
    from omnigraph.pipeline.load.files import format_of

    return format_of(word) is not None


def _check(sources: Sequence[str], options: dict[str, Any]) -> None:
    """Refuse what makes no sense before anything is opened."""
    check_engine_options(options)
    if _STDIN in sources:
        if len(sources) > 1:
            raise click.UsageError("stdin (-) is loaded alone; leave the other files out")
        if options["format"] in ("csv", "parquet") and options["type"] is None:
            raise click.UsageError("of which type are the rows of stdin? Pass --type TYPE")


# --- what went wrong ---


def _readable(error: LoadError, rejects: str | None) -> LoadError:
    """The error as it fits on a screen: how many faults of each kind, and some of each."""
    total = sum(error.totals.values())
    lines = [f"the input has {counted(total, 'fault')}; nothing was written"]
    if len(error.totals) > 1:
        rows = [[kind, f"{count:,}"] for kind, count in error.totals.items()]
        kinds = table(["rule", "faults"], rows, right=("faults",))
        lines += ["", textwrap.indent(kinds, "  ")]
    shown = some_of_each(error.violations, attrgetter("rule"), _MOST_SHOWN)
    lines += ["", *(_fault(fault) for fault in shown)]
    if total > len(shown):
        lines.append(f"  … and {total - len(shown):,} more; --json lists the first 100")
    where = _where_rejects(rejects) or "--rejects DIR keeps the bad lines in a folder"
    lines += ["", textwrap.fill(where, width(), break_long_words=False, break_on_hyphens=False)]
    readable = LoadError(error.violations, error.totals)
    readable.message = "\n".join(lines)
    return readable


def _fault(fault: Violation) -> str:
    # A path stays in one piece, whatever its length: it can be copied then.
    return textwrap.fill(
        one_line(str(fault)),
        width(),
        initial_indent="  ",
        subsequent_indent="      ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _where_rejects(rejects: str | None) -> str | None:
    """Where the bad lines are; tables have no lines, but what is wrong is reported."""
    if rejects is None:
        return None
    lines, faults = Path(rejects) / "rejected.jsonl", Path(rejects) / "faults.jsonl"
    if not faults.exists():
        return None
    if not lines.exists() or not lines.stat().st_size:
        return f"what is wrong is in {faults}"
    return f"the bad lines are in {lines}, what is wrong with them in {faults}"


# --- what was done ---


def _print(output: Output, result: LoadResult, types: Sequence[str], rejects: str | None) -> None:
    if result.branch_created:
        output.result(f"created branch {result.branch} from {result.base_branch}")
    if result.repeated:
        output.result(f"done before, in commit {result.commit}")
        return
    if result.commit is None:
        output.result("nothing to load")
    else:
        head = ["type", "inserted", "replaced", "deleted"]
        done = [(name, result.tables[name]) for name in types if name in result.tables]
        counts = [
            [name, *(f"{n:,}" if n else "" for n in (t.inserted, t.replaced, t.deleted))]
            for name, t in done
        ]
        output.table(table(head, counts, right=head[1:]))
        written = sum(t.inserted + t.replaced for t in result.tables.values())
        rows = counted(written, "row")
        output.result(f"{rows} in commit {result.rows_commit}, on {result.base_commit}")
        if result.commit != result.rows_commit:
            output.result(f"indexes in commit {result.commit}")
    for warning in result.warnings:
        output.warning(warning)
    if result.skipped:
        _print_skipped(output, result, rejects)


def _print_skipped(output: Output, result: LoadResult, rejects: str | None) -> None:
    output.note(f"left out {result.skipped:,} of {counted(result.lines, 'line')}:")
    shown = some_of_each(result.faults, attrgetter("rule"), _MOST_SKIPPED)
    for fault in shown:
        output.note(_fault(fault))
    if len(result.faults) > len(shown):
        output.note("  …")
    if where := _where_rejects(rejects):
        output.note(where)
