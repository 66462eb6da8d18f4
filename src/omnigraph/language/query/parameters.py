"""Binding values to a query's parameters, from JSON or Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from omnigraph.diagnostics import Diagnostic, Report, TooManyErrors, did_you_mean, near_names
from omnigraph.errors import QueryError
from omnigraph.language.query.compiled import CompiledQuery
from omnigraph.language.query.expressions import Parameter
from omnigraph.language.query.plan import Delete, WritePlan
from omnigraph.language.values import Value, ValueFault, coerce

_MOST_PROBLEMS = 100


def bind_parameters(query: CompiledQuery, arguments: Mapping[str, Any] | None) -> dict[str, Value]:
    """Check values against the declared parameters.

    Args:
        query: The query to be run.
        arguments: Values by parameter name, with or without the `$`. JSON values are enough for
            every type: 64-bit integers may be text, dates and times are ISO text, vectors are
            lists of numbers, blobs are `base64:…` text.

    Returns:
        A typed value for every declared parameter; optional ones that are not passed are None.

    Raises:
        QueryError: A required parameter is missing, a name is unknown or a value does not fit.
            All problems are listed.
    """
    values = _fitting(query, arguments)
    if values is not None:
        return values
    # Places are those of the declarations in the query's own text.
    report = Report(query.source, f"query {query.name}")
    try:
        values = _bind(query, arguments, report)
    except TooManyErrors:
        values = {}
    if report.has_errors:
        raise QueryError(report.diagnostics)
    return values


def bind_each(
    query: CompiledQuery, runs: Sequence[Mapping[str, Any] | None]
) -> list[dict[str, Value]]:
    """Bind several sets of values; see `bind_parameters`. Messages name the set, from 1 on."""
    bound: list[dict[str, Value]] = []
    problems: list[Diagnostic] = []
    for number, values in enumerate(runs, 1):
        try:
            bound.append(bind_parameters(query, values))
        except QueryError as error:
            problems += [
                replace(d, message=f"parameters {number}: {d.message}") for d in error.diagnostics
            ]
            if len(problems) >= _MOST_PROBLEMS:
                break
    if problems:
        raise QueryError(problems)
    return bound


def _fitting(query: CompiledQuery, arguments: Mapping[str, Any] | None) -> dict[str, Value] | None:
    """The values, if there is one for each parameter, by its plain name, and all of them fit.

    That is how most queries are called, and it takes a fraction of the time of telling why not.
    """
    arguments = {} if arguments is None else arguments
    if arguments.__class__ is not dict or len(arguments) != len(query.parameters):
        return None
    try:
        return {p.name: coerce(arguments[p.name], p.type) for p in query.parameters}
    except (KeyError, ValueFault):
        return None


def _bind(
    query: CompiledQuery, arguments: Mapping[str, Any] | None, report: Report
) -> dict[str, Value]:
    base = query.span[0]
    declared = {p.name: p for p in query.parameters}
    values: dict[str, Value] = {}
    plain: dict[str, Any] = {}
    #: What misspelt names stand for: those parameters are not missing as well.
    meant: set[str] = set()
    if arguments is not None and not isinstance(arguments, Mapping):
        report.error(
            "OG-PB-104",
            "parameters are passed as an object",
            _name_span(query),
            'write {"name": value, …}',
        )
        return values
    for key, value in (arguments or {}).items():
        name = key[1:] if isinstance(key, str) and key.startswith("$") else key
        if name not in declared:
            known = ", ".join(f"${n}" for n in declared)
            near = did_you_mean(str(name), declared)
            meant.update(near_names(str(name), declared))
            report.error(
                "OG-PB-102",
                f"query `{query.name}` has no parameter `{_shown(name)}`",
                _name_span(query),
                near or (f"its parameters are {known}" if known else "it has no parameters"),
            )
            continue
        if name in plain:
            report.error(
                "OG-PB-105",
                f"parameter `${name}` is passed twice",
                _name_span(query),
                f"give either `{name}` or `${name}`",
            )
        plain[name] = value
    for parameter in query.parameters:
        span = (parameter.span[0] - base, parameter.span[1] - base)
        if parameter.name not in plain:
            if parameter.type.nullable or parameter.name in meant:
                values[parameter.name] = None
            else:
                report.error(
                    "OG-PB-101",
                    f"parameter `${parameter.name}` is missing",
                    span,
                    f"pass {parameter.type.noun}, or declare it as `{parameter.type}?`",
                )
            continue
        try:
            values[parameter.name] = coerce(plain[parameter.name], parameter.type)
        except ValueFault as fault:
            where = _assigned_to(query, parameter.name)
            report.error(
                "OG-PB-103",
                f"parameter `${parameter.name}`{where}: {fault.message}",
                span,
                fault.hint,
            )
    return values


def _assigned_to(query: CompiledQuery, name: str) -> str:
    """Say which property of a mutation a parameter is assigned to, if any."""
    if not isinstance(query.plan, WritePlan):
        return ""
    for statement in query.plan.statements:
        for assignment in () if isinstance(statement, Delete) else statement.values:
            if isinstance(assignment.value, Parameter) and assignment.value.name == name:
                return f", assigned to `{assignment.property}` of {statement.type}"
    return ""


def _name_span(query: CompiledQuery) -> tuple[int, int]:
    start = query.source.find(query.name, len("query"))
    return start, start + len(query.name)


def _shown(name: object) -> str:
    shown = str(name)[:60]
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
