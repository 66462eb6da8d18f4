"""Quotes of CSV files, checked as RFC 4180 has them while the bytes pass by.

A reader of CSV takes everything after a quote that is never closed for one field, and so loses
the rest of the file without a word. Here every quote opens a field, closes one or is doubled, or
its line is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'
#: For each byte, whether fields begin after it and end before it.
_IS_END = np.zeros(256, bool)
_IS_END[[_COMMA, _NEWLINE, _RETURN]] = True
_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class QuoteFault:
    """A quote that is wrong: the line of the file that it is in, from 1 on, and why."""

    line: int
    reason: str


class CheckedQuotes:
    """A stream of CSV that is read through, whose quotes are checked.

    Attributes:
        fault: The first quote that is wrong; whether the last one is closed is known at the end.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
        self.fault: QuoteFault | None = None
        self.closed = False
        self._stream = stream
        self._lines = 0
        #: The byte before those that come next; the start of the file is as good as a new line.
        self._last = _NEWLINE
        self._is_start = True
        self._is_open = False
        #: The line in which the last field with quotes begins.
        self._begun = 0

    def read(self, size: int = -1) -> bytes:
        """Read bytes, as from any file."""
        data: bytes = self._stream.read(None if size < 0 else size)
        if self.fault is None:
            self._check(data) if data else self._end()
        return data

    def drain(self) -> QuoteFault | None:
        """Read to the end, unless a fault is known already; returns the first one."""
        while self.fault is None and self.read(_CHUNK):
            pass
        return self.fault

    def close(self) -> None:
        """Close the stream."""
        self.closed = True
        self._stream.close()

    def _end(self) -> None:
        if self._is_open:
            self.fault = QuoteFault(self._begun, "the quote that begins here is never closed")

    def _check(self, data: bytes) -> None:
        skipped = len(_MARK) if self._is_start and data.startswith(_MARK) else 0
        self._is_start = False
        bytes_ = np.frombuffer(data, np.uint8)[skipped:]
        if not len(bytes_):
            return
        quotes = np.flatnonzero(bytes_ == _QUOTE)
        just_closed = self._last == _QUOTE and not self._is_open
        if just_closed and bytes_[0] != _QUOTE and not _IS_END[bytes_[0]]:
            self._refuse(bytes_, 0, _AFTER)
        elif len(quotes):
            self._check_quotes(bytes_, quotes)
        self._last = int(bytes_[-1])
        self._lines += int(np.count_nonzero(bytes_ == _NEWLINE))

    def _check_quotes(self, data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]) -> None:
        # Quotes open and close in turn; doubled ones close a field and open it again.
        opening = np.arange(len(quotes)) % 2 == (1 if self._is_open else 0)
        before = data[quotes - 1]
        after = data[np.minimum(quotes + 1, len(data) - 1)]
        if quotes[0] == 0:
            before[0] = self._last
        if quotes[-1] == len(data) - 1:
            # What comes after it is looked at when it comes.
            after[-1] = _COMMA
        starts = opening & _IS_END[before]
        stray = opening & ~starts & (before != _QUOTE)
        loose = ~opening & (after != _QUOTE) & ~_IS_END[after]
        wrong = np.flatnonzero(stray | loose)
        if len(wrong):
            first = wrong[0]
            self._refuse(data, int(quotes[first]), _INSIDE if stray[first] else _AFTER)
            return
        self._is_open = bool(opening[-1])
        if len(begun := np.flatnonzero(starts)):
            self._begun = self._line_of(data, int(quotes[begun[-1]]))

    def _refuse(self, data: npt.NDArray[np.uint8], place: int, reason: str) -> None:
        self.fault = QuoteFault(self._line_of(data, place), reason)

    def _line_of(self, data: npt.NDArray[np.uint8], place: int) -> int:
        return self._lines + int(np.count_nonzero(data[:place] == _NEWLINE)) + 1


_HINT = "put the whole field into quotes, and double those that belong to it"
_INSIDE = f"a quote inside of a field that does not begin with one; {_HINT}"
_AFTER = f"text after the quote that closes a field; {_HINT}"
