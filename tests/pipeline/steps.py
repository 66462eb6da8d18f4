"""What a case of loads is made of."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

#: A fault as (kind, line, column); a line of None is a fault without a place in the input.
Fault = tuple[str, int | None, str | None]
Row = dict[str, Any] | str


@dataclass(frozen=True)
class Step:
    """One load.

    Attributes:
        lines: Objects, or lines as they are.
        faults: What has to be wrong with it.
        rows: How many rows each type has afterwards, for those that matter.
        options: More of what `Graph.load` takes.
        file: The name of the file that has the lines.
        tables: Tables that are loaded instead of lines.
    """

    lines: Sequence[Row]
    mode: str = "merge"
    faults: Sequence[Fault] = ()
    rows: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    file: str = "input.jsonl"
    tables: Mapping[str, pa.Table] | None = None

    @property
    def text(self) -> bytes:
        lines = (x if isinstance(x, str) else json.dumps(x, ensure_ascii=False) for x in self.lines)
        return "".join(f"{line}\n" for line in lines).encode()


@dataclass(frozen=True)
class Case:
    """Loads into one graph, one after the other; None is the schema of most cases."""

    name: str
    steps: Sequence[Step]
    schema: str | None = None


def node(type: str, **data: Any) -> Row:
    return {"type": type, "data": data}


def edge(type: str, source: str, target: str, **data: Any) -> Row:
    return {"edge": type, "from": source, "to": target, "data": data}


def person(name: str, **data: Any) -> Row:
    return node("Person", name=name, **data)


def blob(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()
