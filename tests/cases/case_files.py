"""Reading and writing text cases.

A case is a file: the first line is `# what it shows`, and each section is introduced by a line
`--- name`. A section's text ends in exactly one line break, or is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_SECTION = re.compile(r"(?m)^--- (\w+)\n")


def read_case(path: Path) -> tuple[str, dict[str, str]]:
    """Give a case's title line and its sections by name."""
    # No newline translation: a case may be about line ends.
    text = path.read_bytes().decode()
    title, *parts = _SECTION.split(text)
    assert title.startswith("# "), f"{path}: a case starts with `# what it shows`"
    bodies = (part.rstrip("\n") + "\n" if part.strip("\n") else "" for part in parts[1::2])
    return title, dict(zip(parts[::2], bodies, strict=True))


def write_case(path: Path, title: str, sections: Mapping[str, str]) -> None:
    """Write a case in the form that `read_case` reads."""
    blocks = [f"--- {name}\n{text}" for name, text in sections.items()]
    path.write_bytes((title + "".join(blocks)).encode())


def compare_or_update(
    path: Path, given: tuple[str, ...], actual: Mapping[str, str], update: bool
) -> None:
    """Compare a case's expected sections with the actual ones, or write those into the case.

    Args:
        path: The case.
        given: Names of the sections that are input.
        actual: The sections that the code gives now.
        update: Write instead of comparing.
    """
    title, sections = read_case(path)
    every = {**{name: text for name, text in sections.items() if name in given}, **actual}
    if update:
        write_case(path, title, every)
    else:
        assert every == sections
