"""`omnigraph blob`: the values of Blob properties.

The bytes are passed on in portions, so a value may be larger than the memory.
"""

from __future__ import annotations

import re
import sys
from typing import IO, TYPE_CHECKING

import click

from omnigraph.cli.files import replaced
from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.states import State, state_options
from omnigraph.cli.text import columns, one_line
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.graph.blob_values import EntityKind
    from omnigraph.graph.snapshots import Snapshot
    from omnigraph.storage.blobs import BlobStream

_NAMES = ("TYPE", "ID", "PROPERTY")
_STDOUT = "-"
_PORTION = 1 << 20
_NUMBER = re.compile("[0-9]{0,18}")


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph blob stat team.omni Doc handbook file
  omnigraph blob get team.omni Doc handbook file --output handbook.pdf""",
)
def blob() -> None:
    """Read the values of Blob properties."""


@blob.command(
    epilog="""\b
Examples:
  omnigraph blob get team.omni Doc handbook file --output handbook.pdf
  omnigraph blob get team.omni Doc handbook file --range 0:4 | xxd
  omnigraph blob get team.omni Doc handbook file --snapshot launch > old.pdf"""
)
@graph_arguments(*_NAMES)
@click.option(
    "--output", "-o", "target", metavar="FILE", help="Write to this file; - is stdout, the default."
)
@click.option(
    "--range",
    "part",
    metavar="START:END",
    help="Only the bytes from START up to and without END; either may be left out.",
)
@state_options()
@common_options
def get(
    output: Output,
    place: str,
    type: str,
    id: str,
    property: str,
    target: str | None,
    part: str | None,
    state: State,
) -> None:
    """Write the value of a Blob property to a file or to stdout.

    TYPE is a node or edge type, ID the id of a node or edge. A file appears when
    all of it is written: when something fails, it is as it was. Bytes are not
    written to a terminal unless you ask for it with `--output -`.
    """
    range = None if part is None else _range(part)
    to_stdout = target is None or target == _STDOUT
    if to_stdout and output.json:
        raise UsageError("with --json, the value goes to a file: pass --output FILE")
    if target is None and sys.stdout.isatty():
        raise UsageError(
            "the value is bytes, which can garble a terminal; pass --output FILE,"
            " or --output - to print it anyway"
        )
    with reading(place) as graph:
        chosen = state.of(graph)
        kind = _kind(graph.snapshot(**chosen), type)
        with graph.read_blob(kind, type, id, property, range=range, **chosen) as value:
            if to_stdout:
                sys.stdout.flush()
                _copy(value, sys.stdout.buffer)
                return
            assert target is not None
            with replaced(target) as file:
                _copy(value, file)
    if output.json:
        output.data({"type": type, "id": id, "property": property, "output": target,
                     "bytes": value.size})  # fmt: skip
        return
    output.result(f"wrote {counted(value.size, 'byte')} to {target}")


@blob.command(
    epilog="""\b
Examples:
  omnigraph blob stat team.omni Doc handbook file
  omnigraph blob stat team.omni Doc handbook file --branch draft --json"""
)
@graph_arguments(*_NAMES)
@state_options()
@common_options
def stat(
    output: Output,
    place: str,
    type: str,
    id: str,
    property: str,
    state: State,
) -> None:
    """Show the size of a Blob value and where it is stored.

    Reads nothing of the value itself.
    """
    with reading(place) as graph:
        chosen = state.of(graph)
        kind = _kind(graph.snapshot(**chosen), type)
        info = graph.stat_blob(kind, type, id, property, **chosen)
    if output.json:
        output.data(info.to_dict())
        return
    about = [
        ("type", info.type),
        ("id", info.id),
        ("property", info.property),
        ("size", counted(info.size, "byte")),
        ("stored", "in the graph" if info.uri is None else f"outside, at {info.uri}"),
    ]
    output.result(columns([(name, one_line(text)) for name, text in about]))


def _kind(state: Snapshot, type: str) -> EntityKind:
    return "edge" if type in state.catalog.edges else "node"


def _range(text: str) -> tuple[int, int | None]:
    start, colon, end = text.partition(":")
    if not colon or not all(_NUMBER.fullmatch(number) for number in (start, end)):
        raise UsageError(f"--range {text} makes no sense; write START:END, such as 0:100 or 100:")
    return int(start or 0), int(end) if end else None


def _copy(value: BlobStream, file: IO[bytes]) -> None:
    while portion := value.read(_PORTION):
        file.write(portion)
    file.flush()
