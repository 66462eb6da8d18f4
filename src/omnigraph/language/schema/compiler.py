"""Schema text → catalog: the stages in order.

`check_schema` never raises on bad text and is what `lint` uses; `compile_schema` returns the
catalog or raises one error with everything that is wrong.
"""

from __future__ import annotations

from omnigraph.diagnostics import Diagnostic, Report, TooManyErrors
from omnigraph.errors import SchemaError
from omnigraph.language.schema.catalog import Catalog


def check_schema(
    text: str, *, path: str | None = None, accepted: Catalog | None = None
) -> tuple[Catalog | None, tuple[Diagnostic, ...]]:
    """Compile a schema and give everything there is to say about it.

    Args:
        text: The schema.
        path: What messages call the text, usually the name of its file.
        accepted: The catalog the graph has now: names it has keep their identities.

    Returns:
        The catalog, or None when there are errors; and all errors and warnings.
    """
    # Loaded here, because a graph that exists is opened without compiling its schema.
    from omnigraph.language.schema.check import check
    from omnigraph.language.schema.identity import identify
    from omnigraph.language.schema.parser import parse_schema
    from omnigraph.language.stream import TokenStream

    report = Report(text, path)
    catalog = None
    try:
        schema = parse_schema(TokenStream(report))
        draft = check(report, schema)
        if not report.has_errors:
            catalog = identify(report, draft, accepted)
    except TooManyErrors:
        pass
    return (None if report.has_errors else catalog), report.diagnostics


def compile_schema(
    text: str, *, path: str | None = None, accepted: Catalog | None = None
) -> Catalog:
    """Compile a schema.

    Args:
        text: The schema.
        path: What messages call the text, usually the name of its file.
        accepted: The catalog the graph has now: names it has keep their identities.

    Raises:
        SchemaError: The schema is wrong; it lists every error.
    """
    catalog, diagnostics = check_schema(text, path=path, accepted=accepted)
    if catalog is None:
        raise SchemaError(diagnostics)
    return catalog
