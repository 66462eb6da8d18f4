"""What a read means, answered by DuckDB from the logical plan: the engine has to agree.

A pattern becomes joins of whole tables, each `optional` a left join of what it finds, each `not`
an anti-join; nothing is rewritten, reordered or left out. Walks are searched node by node in
Python. It is meant to be obviously right, and knows nothing of the engine.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph.language import Catalog, CompiledQuery, bind_parameters
from omnigraph.language.query.expressions import Checked, Constant, Parameter, PropertyOf, walk
from omnigraph.language.query.plan import Hop, NodePattern, Pattern, ReadPlan
from omnigraph.language.types import Scalar, ValueType
from tests.query.oracle_expressions import Columns, Expressions, literal, quoted


class Overflow(Exception):
    """A number of the answer does not fit into its type: the query has to fail."""


@dataclass(frozen=True)
class Answer:
    """All rows of an answer before it is cut, in order.

    Attributes:
        keys: What each row is ordered by. Rows with equal keys may stand in any order.
        offset: How many rows are left away at the start.
        limit: How many rows there are at most.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    keys: tuple[tuple[Any, ...], ...]
    offset: int = 0
    limit: int | None = None

    def difference(self, got: Sequence[Sequence[Any]]) -> str | None:
        """Say what is wrong with rows that somebody else gives; None if nothing is."""
        found = [comparable(row) for row in got]
        end = len(self.rows) if self.limit is None else self.offset + self.limit
        length = max(0, min(end, len(self.rows)) - self.offset)
        if len(found) != length:
            return f"{len(found)} rows instead of {length}"
        for start, stop in self._ties():
            here = Counter(found[max(0, start - self.offset) : max(0, stop - self.offset)])
            alike = Counter(self.rows[start:stop])
            if here - alike:
                return (
                    f"rows {start} to {stop - 1} have {list((here - alike).elements())}"
                    f" instead of {list((alike - here).elements())}"
                )
        return None

    def _ties(self) -> Iterator[tuple[int, int]]:
        """The first row of each run of equal keys, and the one after its last."""
        start = 0
        for stop in range(1, len(self.keys) + 1):
            if stop == len(self.keys) or self.keys[stop] != self.keys[start]:
                yield start, stop
                start = stop


def comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row in a form that compares and hashes; floats without what an order of adding leaves."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, bool):
        # Python thinks that True equals 1.
        return "true" if value else "false"
    return value


class Oracle:
    """Answers reads of one graph.

    Args:
        catalog: The schema.
        tables: The rows of every node and edge type, by its name.
        now: What `now()` is.
    """

    def __init__(
        self, catalog: Catalog, tables: Mapping[str, pa.Table], now: dt.datetime | None = None
    ) -> None:
        self.catalog = catalog
        self.now = now or dt.datetime.now(dt.UTC)
        self.database = duckdb.connect(config={"threads": 1})
        self.walks: dict[tuple[str, str, int, int | None], str] = {}
        for name, rows in tables.items():
            self.database.register("given", _without_zones(rows))
            self.database.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")
            self.database.unregister("given")

    def answer(self, query: CompiledQuery, params: Mapping[str, Any] | None = None) -> Answer:
        """Answer a read.

        Raises:
            Overflow: An integer does not fit.
        """
        plan = query.plan
        assert isinstance(plan, ReadPlan)
        values = bind_parameters(query, params)
        statement = _Statement(self, Expressions(values, self.now))
        text, keys = statement.read(plan)
        try:
            found = self.database.execute(text).fetchall()
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            raise Overflow(str(error)) from error
        width = len(plan.outputs)
        types = [o.expression.type for o in plan.outputs]
        rows = [[_typed(v, t) for v, t in zip(row, types, strict=False)] for row in found]

        def number(given: Constant | Parameter | None) -> Any:
            return values[given.name] if isinstance(given, Parameter) else given and given.value

        return Answer(
            tuple(o.name for o in plan.outputs),
            tuple(comparable(row) for row in rows),
            tuple(comparable(row[width : width + keys]) for row in found),
            number(plan.offset) or 0,
            number(plan.limit),
        )

    def walk(self, hop: Hop) -> str:
        """A table of the pairs that a walk joins."""
        how = (hop.edge, hop.direction, hop.low, hop.high)
        if how not in self.walks:
            name = self.walks[how] = quoted(f"walk {len(self.walks)}")
            edge = self.catalog.edges[hop.edge]
            pairs = self.database.execute(f"SELECT src, dst FROM {quoted(edge.name)}").fetchall()
            nodes = self.database.execute(f"SELECT id FROM {quoted(edge.source)}").fetchall()
            if hop.direction == "in":
                pairs = [(b, a) for a, b in pairs]
            elif hop.direction == "both":
                pairs += [(b, a) for a, b in pairs]
            found = walk_pairs([n for (n,) in nodes], pairs, hop.low, hop.high)
            self.database.execute(f"CREATE TABLE {name} (l VARCHAR, r VARCHAR)")
            if found:
                shown = ", ".join(f"({literal(a)}, {literal(b)})" for a, b in sorted(found))
                self.database.execute(f"INSERT INTO {name} VALUES {shown}")
        return self.walks[how]


def walk_pairs(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], low: int, high: int | None
) -> set[tuple[str, str]]:
    """From each node to all that are `low` to `high` edges away, by the shortest way.

    The start has been visited from the beginning, so no way around leads back to it; but an edge
    from it to itself is one edge.
    """
    following: dict[str, set[str]] = {}
    for a, b in edges:
        following.setdefault(a, set()).add(b)
    pairs: set[tuple[str, str]] = set()
    for start in nodes:
        if low == 0 or (low == 1 and start in following.get(start, ())):
            pairs.add((start, start))
        visited, frontier, length = {start}, {start}, 0
        while frontier and (high is None or length < high):
            frontier = {b for a in frontier for b in following.get(a, ())} - visited
            visited |= frontier
            length += 1
            if length >= low:
                pairs |= {(start, b) for b in frontier}
    return pairs


class _Statement:
    """One SQL statement: a list of named results, each built on earlier ones."""

    def __init__(self, oracle: Oracle, expressions: Expressions) -> None:
        self.oracle = oracle
        self.catalog = oracle.catalog
        self.expressions = expressions
        self.steps: list[tuple[str, str]] = [("start", 'SELECT 0 AS "#row"')]
        #: Properties that some expression of the query names, of whatever variable.
        self.named: set[str] = {"id"}

    def read(self, plan: ReadPlan) -> tuple[str, int]:
        """The statement, and how many columns behind those of the answer are order keys."""
        expressions = [*_conditions(plan.pattern), *(o.expression for o in plan.outputs)]
        expressions += [o.expression for o in plan.order]
        parts = (part for expression in expressions for part in walk(expression))
        self.named |= {part.property for part in parts if isinstance(part, PropertyOf)}
        matches, variables = self.matches(plan.pattern, "start", ())
        columns: Columns = {v: quoted(v) for v in variables}
        names = [o.name for o in plan.outputs]
        shown = [
            f"{self.expressions.output(o.expression, columns, plan.grouped)} AS o{n}"
            for n, o in enumerate(plan.outputs)
        ]
        if plan.grouped or plan.distinct:
            groups = ", ".join(str(names.index(k) + 1) for k in plan.keys)
            what = f"SELECT {', '.join(shown)} FROM {matches}"
            rows = self.step(what + (f" GROUP BY {groups}" if groups else ""))
            if plan.distinct:
                rows = self.step(f"SELECT DISTINCT * FROM {rows}")
            found = [(f"o{names.index(k.output or '')}", k.descending) for k in plan.order]
            shown = [f"o{n}" for n in range(len(names))]
        else:
            rows = matches
            found = [
                (self.expressions.sql(k.expression, columns), k.descending) for k in plan.order
            ]
            if plan.order:
                # What is equal in all keys is ordered by the ids of what was matched.
                found += [(f"{columns[v]}['id']", False) for v in variables]
        keys = [f"{sql} AS k{n}" for n, (sql, _) in enumerate(found)]
        text = f"SELECT {', '.join([*shown, *keys])} FROM {rows}"
        if found:
            order = (
                f"k{n} {'DESC NULLS LAST' if descending else 'ASC NULLS FIRST'}"
                for n, (_, descending) in enumerate(found)
            )
            text += f" ORDER BY {', '.join(order)}"
        steps = ",\n".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in self.steps)
        return f"WITH {steps}\n{text}", len(found)

    def step(self, sql: str) -> str:
        name = f"step{len(self.steps)}"
        self.steps.append((name, sql))
        return name

    def matches(
        self, pattern: Pattern, source: str, outer: tuple[str, ...]
    ) -> tuple[str, tuple[str, ...]]:
        """The matches of a pattern for each row of `source`, which has the outer variables.

        The result has a number for each of its rows, `#row`, and that of the row of `source` which
        it extends, `#from`.
        """
        columns: Columns = {v: f"source.{quoted(v)}" for v in outer}
        tables = [f"{source} AS source"]
        conditions: list[str] = []
        for number, node in enumerate(pattern.nodes):
            tables.append(f"({self.nodes(node)}) AS n{number}")
            columns[node.variable] = f"n{number}.item"
        for number, hop in enumerate(pattern.hops):
            tables.append(f"({self.pairs(hop)}) AS h{number}")
            if hop.variable is not None:
                columns[hop.variable] = f"h{number}.item"
            ends = ((hop.source, "l"), (hop.target, "r"))
            for (variable, end), type in zip(ends, self.end_types(hop), strict=True):
                if variable is not None:
                    conditions.append(f"{columns[variable]}['#type'] = {literal(type)}")
                    conditions.append(f"{columns[variable]}['id'] = h{number}.{end}")
        conditions += [self.expressions.sql(f, columns) for f in pattern.filters]
        shown = ", ".join(
            ['row_number() OVER () AS "#row"', 'source."#row" AS "#from"']
            + [f"{sql} AS {quoted(v)}" for v, sql in columns.items()]
        )
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        found = self.step(f"SELECT {shown} FROM {', '.join(tables)}{where}")
        variables = tuple(columns)
        for inner in pattern.optional:
            found, variables = self.extended(inner, found, variables)
        for inner in pattern.absent:
            there, _ = self.matches(inner, found, variables)
            found = self.step(
                f'SELECT * FROM {found} WHERE "#row" NOT IN (SELECT "#from" FROM {there})'
            )
        if pattern.late_filters:
            columns = {v: quoted(v) for v in variables}
            late = (f"({self.expressions.sql(f, columns)})" for f in pattern.late_filters)
            found = self.step(f"SELECT * FROM {found} WHERE {' AND '.join(late)}")
        return found, variables

    def extended(
        self, pattern: Pattern, source: str, variables: tuple[str, ...]
    ) -> tuple[str, tuple[str, ...]]:
        """Each row of `source` with what a pattern finds for it, or with nulls."""
        there, names = self.matches(pattern, source, variables)
        shown = ['row_number() OVER () AS "#row"', 'source."#from"']
        shown += [f"source.{quoted(v)}" for v in variables]
        shown += [f"there.{quoted(v)}" for v in names if v not in variables]
        joined = f'{source} AS source LEFT JOIN {there} AS there ON there."#from" = source."#row"'
        return self.step(f"SELECT {', '.join(shown)} FROM {joined}"), names

    def nodes(self, node: NodePattern) -> str:
        """All nodes of a pattern's types, each as one value."""
        if len(node.types) == 1:
            columns: Sequence[str] = list(self.catalog.nodes[node.types[0]].columns)
        else:
            columns = ["id", *self.catalog.interfaces[node.declared].properties]
        parts = (self.items(type, {c: quoted(c) for c in columns}) for type in node.types)
        return " UNION ALL ".join(f"SELECT {item} AS item FROM {table}" for item, table in parts)

    def items(self, type: str, columns: Mapping[str, str]) -> tuple[str, str]:
        fields = [("#type", literal(type))]
        fields += [(name, sql) for name, sql in columns.items() if name in self.named]
        item = ", ".join(f"{literal(name)}: {sql}" for name, sql in fields)
        return f"{{{item}}}", quoted(type)

    def pairs(self, hop: Hop) -> str:
        """What a hop joins: its left and right ends, and the edge if it is bound."""
        edge = self.catalog.edges[hop.edge]
        if (hop.low, hop.high) != (1, 1):
            pairs = f"SELECT l, r FROM {self.oracle.walk(hop)}"
        else:
            stored = {"from": "src", "to": "dst"}
            columns = {c: quoted(stored.get(c, c)) for c in edge.columns}
            item, table = self.items(edge.name, columns)
            what = f", {item} AS item" if hop.variable is not None else ""
            out = f"SELECT src AS l, dst AS r{what} FROM {table}"
            back = f"SELECT dst AS l, src AS r{what} FROM {table}"
            # UNION drops the second finding of an edge from a node to itself.
            pairs = {"out": out, "in": back, "both": f"{out} UNION {back}"}[hop.direction]
        if hop.variable is not None:
            return pairs
        ends = [e for e, v in (("l", hop.source), ("r", hop.target)) if v is not None]
        return f"SELECT DISTINCT {', '.join(ends) or '1 AS one'} FROM ({pairs})"

    def end_types(self, hop: Hop) -> tuple[str, str]:
        edge = self.catalog.edges[hop.edge]
        return (edge.target, edge.source) if hop.direction == "in" else (edge.source, edge.target)


def _conditions(pattern: Pattern) -> Iterator[Checked]:
    yield from (*pattern.filters, *pattern.late_filters)
    for inner in (*pattern.optional, *pattern.absent):
        yield from _conditions(inner)


def _without_zones(rows: pa.Table) -> pa.Table:
    """Times without their zone, which is always UTC."""

    def plain(type: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(type):
            return pa.timestamp("us")
        return pa.list_(plain(type.value_type)) if pa.types.is_list(type) else type

    return rows.cast(pa.schema([pa.field(f.name, plain(f.type)) for f in rows.schema]))


def _typed(value: Any, type: ValueType | None) -> Any:
    if isinstance(value, list):
        return [_typed(v, type) for v in value]
    if type is not None and type.scalar is Scalar.DATETIME and value is not None:
        return value.replace(tzinfo=dt.UTC)
    return value
