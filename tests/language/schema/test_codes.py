"""Every code of a schema diagnostic is documented, used and shown by a test."""

from __future__ import annotations

import re
from pathlib import Path

from omnigraph.language import codes as registry
from omnigraph.language.codes import CODES

TESTS = Path(__file__).parents[2]
SOURCE = Path(registry.__file__).parent
FAMILIES = ("OG-SC", "OG-ID", "OG-TY", "OG-LX", "OG-SY", "OG-LT-2")


def mentioned(folder: Path, *endings: str) -> set[str]:
    texts = (
        path.read_text()
        for path in folder.rglob("*")
        if path.suffix in endings and path.name not in ("codes.py", "test_codes.py")
    )
    return {code for text in texts for code in re.findall(r"OG-[A-Z]{2}-\d{3}", text)}


def test_codes_are_in_order() -> None:
    assert list(CODES) == sorted(CODES)


def test_every_code_of_the_schema_language_is_registered() -> None:
    used = mentioned(SOURCE / "schema", ".py") | mentioned(SOURCE, ".py")
    assert {c for c in used if c.startswith(FAMILIES)} <= set(CODES)


def test_every_registered_code_is_used() -> None:
    used = mentioned(SOURCE, ".py")
    assert {c for c in CODES if c.startswith(FAMILIES)} <= used


def test_every_code_has_a_case_or_a_test() -> None:
    shown = mentioned(TESTS, ".case", ".py")
    expected = {c for c in CODES if c.startswith(FAMILIES)} - {"OG-SY-003"}
    assert expected <= shown
