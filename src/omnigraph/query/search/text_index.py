"""Full-text indexes: which rows they find, and for which rows they cannot answer.

Lance stems words before it removes accents, and takes a run of Chinese characters for one word. So
an index answers for texts whose letters and digits are ASCII: it splits them as the tokenizer does.
All other texts, and rows that it does not cover, are left to postings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from omnigraph.compute.arrays import as_numpy, distinct
from omnigraph.compute.sql import quoted
from omnigraph.query.search.folding import is_unspaced
from omnigraph.query.search.postings import Postings
from omnigraph.query.search.sorted_sets import among
from omnigraph.query.search.text_query import Mode, TextQuery
from omnigraph.query.tables.columns import Positions
from omnigraph.storage.table_ref import ROW_ID

if TYPE_CHECKING:
    from omnigraph.storage.tables import TableSnapshot

#: Texts with letters, digits or marks that are not ASCII, or with characters that are not known.
#: Selectors of a form, as behind emojis, separate words for an index and for the tokenizer.
_NOT_PLAIN = r"[[\p{L}\p{M}\p{N}\p{Alphabetic}\p{Cn}]&&[^\x00-\x7F\x{FE00}-\x{FE0F}]]"


def not_plain(column: str) -> str:
    """The predicate of rows whose text an index may split in another way than the tokenizer."""
    name = quoted(column)
    # Comparing lengths is several times faster, and enough for nearly all English texts.
    is_ascii = f"octet_length({name}) = character_length({name})"
    return f"not ({is_ascii}) and regexp_like({name}, '{_NOT_PLAIN}')"


class TextIndex(Struct):
    """The full-text index of a column of one version of a table.

    Attributes:
        column: What is indexed.
        others: The rows for which it cannot answer.
        is_exact: False when it may also find rows by texts that they had before an update.
        postings: The postings of the other rows, once they are built.
    """

    column: str
    others: Positions
    is_exact: bool
    postings: Postings | None = None

    @staticmethod
    def of(table: TableSnapshot, column: str) -> TextIndex | None:
        """The index of a column; None when there is none, or several."""
        indexes = [i for i in table.indices() if i.kind == "full_text" and i.column == column]
        if len(indexes) != 1:
            return None
        covered = [id for id in table.fragment_ids if id in indexes[0].fragments]
        uncovered = [id for id in table.fragment_ids if id not in indexes[0].fragments]
        others = [np.zeros(0, np.int64)]
        for fragments, where in ((uncovered, None), (covered, not_plain(column))):
            if fragments:
                rows = table.read([], where, places=True, fragments=fragments)
                others.append(as_numpy(rows[ROW_ID]).astype(np.int64))
        return TextIndex(column, distinct(*others), indexes[0].segments == 1)

    def can_answer(self, query: TextQuery) -> bool:
        """False when a query has to be decided by all texts."""
        # Lance counts the bytes in which words differ, and not the letters.
        return query.mode != "fuzzy" or all(
            term.isascii() or is_unspaced(term) for term in query.terms
        )

    def hits(self, table: TableSnapshot, query: TextQuery) -> Positions:
        """The rows that match, without the others."""
        plain = query.in_plain_texts()
        if query.mode == "fuzzy" and query.edits:
            terms = [term for term in query.terms if term.isascii()]
            return self._search(table, " ".join(terms), "fuzzy", query.edits)
        if query.mode == "phrase":
            return self._search(table, query.plain_text if all(plain) else "", "phrase")
        words = [word for word, is_plain in zip(query.words, plain, strict=True) if is_plain]
        return self._search(table, " ".join(words), "any")

    def frequencies(self, table: TableSnapshot, query: TextQuery) -> list[int]:
        """In how many rows each term is, without the others."""
        return [
            len(self._search(table, word if is_plain else "", "any"))
            for word, is_plain in zip(query.words, query.in_plain_texts(), strict=True)
        ]

    def _search(self, table: TableSnapshot, text: str, mode: Mode, edits: int = 0) -> Positions:
        if not text:
            return np.zeros(0, np.int64)
        rows = table.search(
            self.column, text, mode=mode, edits=edits, columns=[ROW_ID], indexed_only=True
        )
        hits = distinct(as_numpy(rows[ROW_ID]).astype(np.int64))
        return hits[~among(hits, self.others)]
