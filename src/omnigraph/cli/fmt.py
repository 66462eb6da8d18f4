"""`omnigraph fmt`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import click

from omnigraph.cli.files import QUERIES, SCHEMA, kind_of, read_source, read_stdin, replaced
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.errors import OmnigraphError, UsageError


@dataclass
class _Outcome:
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    failed: list[tuple[str, OmnigraphError]] = field(default_factory=list)
    diffs: list[str] = field(default_factory=list)


@click.command(
    epilog="""\b
Examples:
  omnigraph fmt schema.pg queries.gq
  omnigraph fmt --check --diff queries/*.gq
  omnigraph fmt --type gq - < queries.gq"""
)
@click.argument("files", nargs=-1, metavar="[FILES]...", type=click.Path(allow_dash=True))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option(
    "--type",
    "kind",
    type=click.Choice([SCHEMA, QUERIES]),
    help="What stdin holds: a schema (pg) or queries (gq).",
)
@common_options
def fmt(output: Output, files: tuple[str, ...], check: bool, diff: bool, kind: str | None) -> int:
    """Format schema and query files in the canonical style.

    Rewrites the .pg and .gq files in place, and only those that change. `-` reads
    stdin and prints the formatted text. A file that does not parse is reported and
    left alone; the others are still formatted, and the exit code is 1.
    """
    if files == ("-",):
        return _stdin(output, kind, check, diff)
    if not files:
        raise UsageError("nothing to format; name .pg and .gq files, or `-` for stdin")
    if "-" in files:
        raise UsageError("`-` (stdin) cannot be mixed with files")
    if kind is not None:
        raise UsageError("--type is for stdin; a file's extension says what it is")
    files = tuple(dict.fromkeys(files))
    kinds = {path: kind_of(path) for path in files}
    outcome = _Outcome()
    for path in files:
        try:
            _file(path, kinds[path], outcome, write=not check and not diff)
        except OmnigraphError as error:
            outcome.failed.append((path, error))
    _report(output, outcome, dry=check or diff, diff=diff)
    return int(bool(outcome.failed) or (check and bool(outcome.changed)))


def _file(path: str, kind: str, outcome: _Outcome, *, write: bool) -> None:
    before = read_source(path)
    after = _formatted(before, kind, path)
    if after == before:
        outcome.unchanged.append(path)
        return
    if write:
        with replaced(path) as file:
            file.write(after.encode())
    outcome.changed.append(path)
    outcome.diffs.append(_diff(before, after, path))


def _stdin(output: Output, kind: str | None, check: bool, diff: bool) -> int:
    if kind is None:
        raise UsageError("say what stdin holds: --type pg or --type gq")
    before = read_stdin()
    after = _formatted(before, kind, "<stdin>")
    changed = after != before
    if output.json:
        output.data({"changed": changed, "text": after})
    elif diff:
        if changed:
            output.result(_diff(before, after, "<stdin>").rstrip("\n"))
    elif not check:
        output.result(after.removesuffix("\n"))
    return int(check and changed)


def _report(output: Output, outcome: _Outcome, *, dry: bool, diff: bool) -> None:
    if output.json:
        output.data(
            {
                "changed": outcome.changed,
                "unchanged": outcome.unchanged,
                "failed": [{"path": path, **error.to_dict()} for path, error in outcome.failed],
                **({"diff": "".join(outcome.diffs)} if diff else {}),
            }
        )
        return
    for _, error in outcome.failed:
        output.error(error)
        output.note("")
    if diff:
        for text in outcome.diffs:
            output.result(text.rstrip("\n"))
    else:
        for path in outcome.changed:
            output.result(f"{'would format' if dry else 'formatted'} {path}")
    parts = []
    if outcome.changed:
        done = "to format" if dry else "formatted"
        parts.append(f"{counted(len(outcome.changed), 'file')} {done}")
    if outcome.unchanged:
        parts.append(f"{counted(len(outcome.unchanged), 'file')} left as is")
    if outcome.failed:
        parts.append(f"{counted(len(outcome.failed), 'file')} failed")
    output.note(", ".join(parts))


def _formatted(text: str, kind: str, path: str) -> str:
    from omnigraph.language import format_queries, format_schema

    return format_schema(text, path) if kind == SCHEMA else format_queries(text, path)


def _diff(before: str, after: str, path: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        path,
        f"{path} (formatted)",
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
