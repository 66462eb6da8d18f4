"""What `branch merge`, `revert` and `cherry-pick` share: options, the run, and what is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

from omnigraph.cli.diff import terminal_look
from omnigraph.cli.graphs import reading, writing
from omnigraph.cli.options import check_engine_options, commit_options, engine_options, in_order
from omnigraph.cli.output import Output, counted
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    MergeConflicts,
    OmnigraphError,
    UsageError,
)

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.merge.apply import MergeResult
    from omnigraph.merge.conflicts import Conflict


#: What the conflicts are written to in examples.
_EXAMPLE_FILE = "conflicts.yaml"
_SECOND_EXAMPLE_FILE = "more-conflicts.yaml"


@dataclass(frozen=True, slots=True)
class Wording:
    """What a verb has done, would do, or need not do."""

    done: str
    would: str
    nothing: str
    theirs: str = "what {source} has wins"


MERGE = Wording(
    "merged {source} into {into}",
    "would merge {source} into {into}",
    "{into} has everything of {source} already; nothing to merge",
)
REVERT = Wording(
    "reverted {source} on {into}",
    "would revert {source} on {into}",
    "{into} has nothing of {source}; nothing to revert",
    "what was there before {source} wins",
)
PICK = Wording(
    "picked {source} onto {into}",
    "would pick {source} onto {into}",
    "{into} has everything of {source} already; nothing to pick",
)


#: What all verbs that merge take.
merge_options = in_order(
    click.option(
        "--granularity",
        metavar="GRANULARITY",
        type=click.Choice(("property", "row")),
        default="property",
        help="property, the default; or row: what both sides have changed is a conflict"
        " even if they have changed different properties.",
    ),
    click.option("--ours", is_flag=True, help="The branch that is written to wins conflicts."),
    click.option("--theirs", is_flag=True, help="What is merged wins conflicts."),
    click.option(
        "--resolutions",
        metavar="FILE",
        multiple=True,
        help="How single conflicts are settled, as --write-conflicts makes it; may be repeated.",
    ),
    click.option(
        "--write-conflicts",
        metavar="FILE",
        help="Write the conflicts to a new file, to be settled there.",
    ),
    click.option("--dry-run", is_flag=True, help="Tell what would happen; write nothing."),
    engine_options(),
    commit_options("Who merges", "Write only", "call"),
)


@dataclass(frozen=True)
class MergeCall:
    """One merge, revert or cherry-pick that was asked for on the command line.

    Attributes:
        output: Where to print.
        source: What is merged, as people know it.
        into: The branch that is written to.
        flags: The values of `merge_options`.
        wording: What it is called.
        delete: Delete the branch `source` afterwards.
    """

    output: Output
    source: str
    into: str
    flags: dict[str, Any]
    wording: Wording = MERGE
    delete: bool = False

    def run(self, place: str, call: Callable[[Graph, dict[str, Any]], MergeResult]) -> int:
        """Do it, print what came of it, and give the exit code.

        Args:
            place: The graph.
            call: Calls the method of the library with its options.
        """
        output, dry_run = self.output, self.flags["dry_run"]
        options = self._library_options()
        check_engine_options(options)
        graph = reading(place) if dry_run else writing(place, output, f"branch {self.into}")
        from omnigraph.pipeline.progress import Bars

        with graph:
            try:
                with Bars() as bars:
                    result = call(graph, {**options, "progress": bars})
            except MergeConflicts as error:
                self._write_conflicts(error.conflicts)
                raise (error if output.json else self._readable(error)) from None
            if self.delete and not dry_run:
                self._delete_source(graph, result)
        self._write_conflicts(result.conflicts)
        self._print(result)
        return ConflictError.exit_code if result.conflicts else 0

    def _library_options(self) -> dict[str, Any]:
        options = dict(self.flags)
        ours, theirs = options.pop("ours"), options.pop("theirs")
        if ours and theirs:
            raise UsageError("pass --ours or --theirs, not both: only one side can win")
        path = options.pop("write_conflicts")
        if path is not None and os.path.exists(path):
            raise AlreadyExists(
                f"{path} is there already; name a new file for --write-conflicts,"
                f" or settle with --resolutions {path}"
            )
        options["resolutions"] = _resolutions(options["resolutions"])
        options["prefer"] = "ours" if ours else "theirs" if theirs else None
        return options

    def _delete_source(self, graph: Graph, result: MergeResult) -> None:
        try:
            graph.branches.delete(self.source)
        except OmnigraphError as error:
            if result.commit is not None:
                error.message = (
                    f"{self.source} was merged in commit {result.commit.id}, but not deleted:"
                    f" {error.message}"
                )
            raise

    # --- conflicts ---

    def _write_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        path = self.flags["write_conflicts"]
        if path is None:
            return
        if not conflicts:
            self.output.note(f"there are no conflicts: {path} was not written")
            return
        from omnigraph.merge.conflicts import write_resolutions

        write_resolutions(path, conflicts)
        self.output.note(f"wrote {counted(len(conflicts), 'conflict')} to {path}")

    def _readable(self, error: MergeConflicts) -> MergeConflicts:
        """The error as it fits on a screen: tables, and what to do."""
        head, _, _ = error.message.partition("\n")
        lines = [head, "", *self._conflict_lines(error.conflicts, sys.stderr)]
        return MergeConflicts("\n".join(lines), conflicts=error.conflicts)

    def _conflict_lines(self, conflicts: Sequence[Conflict], stream: IO[str]) -> list[str]:
        from omnigraph.cli.conflicts_text import advice_lines, conflict_lines

        look = terminal_look(stream)
        settled, path = self.flags["resolutions"], self.flags["write_conflicts"]
        example = path or (_SECOND_EXAMPLE_FILE if settled else _EXAMPLE_FILE)
        rows = [
            ("--ours", f"what {self.into} has wins"),
            ("--theirs", self.wording.theirs.format(source=self.source)),
            (f"--write-conflicts {example}", "put them in a file, and decide there"),
            (
                " ".join(f"--resolutions {each}" for each in (*settled, example)),
                f"take what {'the files say' if settled else 'the file says'}",
            ),
        ]
        if path is not None:
            rows = rows[-1:]
        return [*conflict_lines(conflicts, look), *advice_lines(rows, look)]

    # --- what was done ---

    def _print(self, result: MergeResult) -> None:
        output, dry_run = self.output, self.flags["dry_run"]
        names = {"source": self.source, "into": self.into}
        if output.json:
            more = {"deleted_branch": None if dry_run else self.source} if self.delete else {}
            output.data({**result.to_dict(), "dry_run": dry_run, **more})
            return
        if result.outcome == "conflicts":
            if result.tables:
                self._print_summary(result)
            number = counted(len(result.conflicts), "conflict")
            output.result(f"{number}; nothing would be written\n")
            output.result("\n".join(self._conflict_lines(result.conflicts, sys.stdout)))
            return
        if result.outcome == "already_up_to_date":
            output.result(self.wording.nothing.format(**names))
        elif result.commit is not None and not result.tables and not result.bases:
            output.result(f"done before, in commit {result.commit.id}")
        else:
            self._print_summary(result)
            done = (self.wording.would if dry_run else self.wording.done).format(**names)
            way = " (fast-forward)" if result.outcome == "fast_forward" else ""
            end = "" if result.commit is None else f", commit {result.commit.id}"
            output.result(f"{done}{way}{end}")
        if result.settled:
            output.result(f"settled {counted(len(result.settled), 'conflict')}")
        if self.delete:
            output.result(f"{'would delete' if dry_run else 'deleted'} branch {self.source}")

    def _print_summary(self, result: MergeResult) -> None:
        from omnigraph.cli.changes_text import summary_lines

        counts = [(name, t.inserted, t.replaced, t.deleted) for name, t in result.tables.items()]
        for line in summary_lines(counts, terminal_look()):
            self.output.result(line)


def _resolutions(paths: tuple[str, ...]) -> Any:
    """The file that settles conflicts, or what several files have."""
    if len(paths) <= 1:
        return paths[0] if paths else None
    from omnigraph.merge.conflicts import read_entries

    return [entry for path in paths for entry in read_entries(path)]
