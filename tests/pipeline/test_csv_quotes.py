"""Quotes of CSV files: what is found does not depend on how the file is read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.pipeline.formats.csv_quotes import CheckedQuotes


def line_of_fault(data: bytes) -> int | None:
    """The line of the first quote that is wrong, one byte after the other."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    line = 1
    state, opened = "start", 0
    for place, byte in enumerate(data):
        sign = chr(byte)
        following = data[place + 1 : place + 2].decode("latin-1")
        if state == "skip":
            state = "quoted"
        elif state == "quoted":
            if sign == '"' and following == '"':
                state = "skip"
            elif sign == '"':
                if following not in ("", ",", "\n", "\r"):
                    return line
                state = "closed"
        elif sign in ",\n\r":
            state = "start"
        elif sign == '"':
            if state != "start":
                return line
            state, opened = "quoted", line
        else:
            state = "plain"
        line += sign == "\n"
    return opened if state in ("quoted", "skip") else None


def checked(data: bytes, size: int) -> int | None:
    quotes = CheckedQuotes(pa.BufferReader(data))
    while quotes.read(size):
        pass
    return None if quotes.fault is None else quotes.fault.line


@given(
    data=st.text('",\n\ra', max_size=40).map(str.encode),
    mark=st.booleans(),
    size=st.integers(1, 12),
)
@settings(max_examples=500, deadline=None)
def test_any_file_in_any_portions(data, mark, size):
    data = b"\xef\xbb\xbf" + data if mark else data
    # A mark of byte order comes in one portion: files are read in much larger ones.
    size = max(size, 3) if mark else size
    assert checked(data, size) == line_of_fault(data)


@pytest.mark.parametrize(
    "text,line",
    [
        ('a,b\n1,"x', 2),
        ('a,b\n1,"x\n2,y\n', 2),
        ('a,b\n"1","""x\n2,y\n', 2),
        ('a,b\n1,"x ""y"" z"\n', None),
        ('"a","b"\r\n"1",""\r\n', None),
        ('a,b\n1,x"\n', 2),
        ('a,b\n1,"x"y\n', 2),
        ("", None),
    ],
)
def test_the_line_of_the_quote(text, line):
    for size in (1, 2, 3, 100):
        assert checked(text.encode(), size) == line
