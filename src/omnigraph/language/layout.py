"""Prints formatted lines and puts the comments of the source back between them.

A formatter walks its tree in the order of the source and passes the layout one *item* per line of
output, with the place the item has in the source. From the places the layout knows where each
comment and each blank line goes, so formatters never deal with either:

    out = Layout(report.text, comments)
    out.item((0, 13), "node Person {", 0, apart=True)   # span in the source, text, indent
    out.item((18, 30), "name: String", 1)
    out.close(31, "}", 0)                               # offset of the brace in the source
    text = out.finish()

The rules:

- A comment before an item stands on lines of its own before it, at the item's indent.
- A comment inside an item is lifted out, to lines of its own before the item.
- A comment behind an item on the same source line stays behind it. A block comment that has a
  line break cannot: it moves to lines of its own after the item.
- A comment before a closing brace stands on lines of its own, one level deeper than the brace.
- Of blank lines between items one is kept; none at the start or the end of a block. An item that
  is `apart` has a blank line before it (before its comments) in any case.

Formatting formatted text changes nothing. Everything is linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from omnigraph.diagnostics import Span
from omnigraph.language.tokens import Comment

_INDENT = "  "
_BLANK_LINE = re.compile(r"\n[ \t\r\f]*\n")
#: What may stand between an item and a comment that belongs to it.
_BESIDE = re.compile(r"[ \t\r\f,]*")


class Layout:
    """A page of formatted text in the making; see the module for the rules."""

    __slots__ = ("_at_start", "_comments", "_end", "_lines", "_next", "_text")

    def __init__(self, text: str, comments: Sequence[Comment]) -> None:
        self._text = text
        self._comments = comments
        self._next = 0
        self._lines: list[str] = []
        #: Where in the source the thing printed last ends.
        self._end = 0
        #: True at the start of the text and of a block, where no blank line may stand.
        self._at_start = True

    def item(
        self, span: Span, text: str, indent: int, *, apart: bool = False, opens: bool | None = None
    ) -> None:
        """Print a line.

        Args:
            span: Where the item stands in the source.
            text: The line to print, without indentation. It may have line breaks of its own.
            indent: How many levels deep it stands.
            apart: Whether a blank line has to be before it.
            opens: Whether it opens a block; by default, when it ends in an opening bracket.
        """
        start, end = span
        pending = self._take(end)
        starts = [min(c.start, start) for c in pending] + [start]
        blanks: list[bool] = []
        at = self._end
        for begin, comment_end in zip(starts, [c.end for c in pending] + [end], strict=True):
            blanks.append(begin >= at and self._blank_between(at, begin))
            at = comment_end
        if apart and not any(blanks):
            blanks[0] = True
        for comment, blank in zip(pending, blanks, strict=False):
            self._comment(comment, indent, blank)
        self._line(text, indent, blanks[-1])
        self._end = end
        self._trailing(end)
        self._at_start = text.endswith(("{", "(", "[")) if opens is None else opens

    def close(self, offset: int, text: str, indent: int, *, end: int | None = None) -> None:
        """Print the line that closes a block.

        Args:
            offset: Where the closing bracket stands in the source.
            text: The line to print, without indentation.
            indent: How many levels deep it stands.
            end: Where in the source the line ends, when more than the bracket stands on it.
        """
        self._own_lines(self._take(offset if end is None else end), indent + 1)
        self._line(text, indent, blank=False)
        self._end = offset + 1 if end is None else end
        self._trailing(self._end)
        self._at_start = False

    def has_comments(self, start: int, end: int) -> bool:
        """True when a comment stands between two places of the source."""
        first = bisect_left(self._comments, start, key=lambda c: c.start)
        return first < len(self._comments) and self._comments[first].start < end

    def finish(self) -> str:
        """Print the comments that are left, and give the whole text."""
        self._own_lines(self._take(len(self._text) + 1), 0)
        return "\n".join(self._lines) + "\n" if self._lines else ""

    def _take(self, before: int) -> list[Comment]:
        """The comments not printed yet that start before a place."""
        first = self._next
        while self._next < len(self._comments) and self._comments[self._next].start < before:
            self._next += 1
        return list(self._comments[first : self._next])

    def _blank_between(self, start: int, end: int) -> bool:
        return _BLANK_LINE.search(self._text, start, end) is not None

    def _own_lines(self, comments: list[Comment], indent: int) -> None:
        for comment in comments:
            self._comment(comment, indent, self._blank_between(self._end, comment.start))

    def _comment(self, comment: Comment, indent: int, blank: bool) -> None:
        first, *rest = comment.text.replace("\r\n", "\n").split("\n")
        # Only comments of several lines look for their column: others may share one long line.
        column = comment.start - (self._text.rfind("\n", 0, comment.start) + 1) if rest else 0
        lines = [first.rstrip()]
        # The lines of a block comment keep their places relative to each other.
        for line in rest:
            cut = min(column, len(line) - len(line.lstrip(" \t")))
            lines.append((_INDENT * indent + line[cut:]).rstrip())
        self._line("\n".join(lines), indent, blank)
        self._end = comment.end

    def _line(self, text: str, indent: int, blank: bool) -> None:
        if blank and not self._at_start:
            self._lines.append("")
        self._lines.append(_INDENT * indent + text)
        self._at_start = False

    def _trailing(self, end: int) -> None:
        """Put comments that stand behind the last line in the source behind it here, too."""
        comments: list[str] = []
        while self._next < len(self._comments):
            comment = self._comments[self._next]
            beside = _BESIDE.match(self._text, end)
            if beside is None or beside.end() < comment.start or "\n" in comment.text:
                break
            comments.append(comment.text.rstrip())
            self._next += 1
            end = self._end = comment.end
        if comments:
            self._lines[-1] = " ".join([self._lines[-1], *comments])
