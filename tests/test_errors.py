from __future__ import annotations

import inspect
import json
import re

import pytest

import omnigraph
from omnigraph import errors
from omnigraph.diagnostics import Report
from omnigraph.errors import (
    KeyConflict,
    LoadError,
    MergeConflicts,
    OmnigraphError,
    PreconditionFailed,
    QueryError,
    ReadSetConflict,
    RecoveryRequired,
    ResourceLimit,
    SchemaError,
    SourceError,
    StorageError,
    ValidationError,
    Violation,
)

CLASSES = [
    c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, OmnigraphError)
]


def _diagnostics():
    report = Report("node Persn {}", "schema.pg")
    report.warning("OG-XX-002", "a warning", (0, 4))
    report.error("OG-XX-001", "what is wrong", (5, 10), "what to do")
    return report.diagnostics


def _samples() -> list[OmnigraphError]:
    violation = Violation("Person", "ada", "age", -1, "range", "Person ada: age -1 is below 0")
    special: dict[type[OmnigraphError], OmnigraphError] = {
        SourceError: SourceError(_diagnostics()),
        SchemaError: SchemaError(_diagnostics()),
        QueryError: QueryError(_diagnostics()),
        ValidationError: ValidationError([violation], total=3),
        LoadError: LoadError([violation], {"range": 2}),
        KeyConflict: KeyConflict([violation]),
        ReadSetConflict: ReadSetConflict("changed", changed=["node:Person"]),
        MergeConflicts: MergeConflicts("disagree", conflicts=[violation]),
        PreconditionFailed: PreconditionFailed("moved", expected="a", actual="b"),
        RecoveryRequired: RecoveryRequired("look", operation_id="01"),
        ResourceLimit: ResourceLimit("too much", resource="memory", limit=10),
        StorageError: StorageError("disk", transient=True),
    }
    return [special.get(c) or c("it failed") for c in CLASSES]


SAMPLES = _samples()


@pytest.mark.parametrize("error", SAMPLES, ids=lambda e: type(e).__name__)
def test_every_error_has_a_code_a_message_and_a_json_form(error):
    data = json.loads(json.dumps(error.to_dict()))
    assert data["error"] == type(error).__name__
    assert data["code"] == error.code
    assert data["message"]
    assert str(error) == error.message


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_is_exported_and_documented(cls):
    assert getattr(omnigraph, cls.__name__) is cls
    assert cls.__doc__


def test_codes_are_distinct():
    codes = [c.default_code for c in CLASSES]
    assert len(set(codes)) == len(codes)


def test_exit_codes_are_those_of_the_command_line():
    other = {c.__name__: c.exit_code for c in CLASSES if c.exit_code != 1}
    assert other == {
        "UsageError": 2,
        "ConflictError": 3,
        "KeyConflict": 3,
        "ReadSetConflict": 3,
        "MergeConflicts": 3,
        "PreconditionFailed": 4,
    }


def test_the_tree_in_the_docstring_is_the_tree_of_classes():
    assert errors.__doc__ is not None
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line)
        if found:
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            drawn[found[2]] = path[depth - 1] if depth else None
    real = {c.__name__: None if c is OmnigraphError else c.__bases__[0].__name__ for c in CLASSES}
    assert drawn == real


def test_a_source_error_shows_its_errors_and_not_the_warnings():
    error = SchemaError(_diagnostics())
    assert error.code == "OG-XX-001"
    assert (error.line, error.column, error.span) == (1, 6, (5, 10))
    assert [d.code for d in error.diagnostics] == ["OG-XX-001"]
    assert str(error) == (
        "schema.pg:1:6: error OG-XX-001: what is wrong\n"
        " 1 | node Persn {}\n"
        "   |      ^^^^^\n"
        "   = what to do"
    )


def test_a_source_error_needs_an_error():
    with pytest.raises(ValueError, match="at least one"):
        SourceError(_diagnostics()[:1])


def test_a_validation_error_says_how_many_violations_there_are():
    message = str(next(e for e in SAMPLES if type(e) is ValidationError))
    assert message.startswith("3 violations")
    assert message.endswith("… and 2 more")
