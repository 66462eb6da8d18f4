"""The edit distance between words."""

from __future__ import annotations

import pytest

from omnigraph.storage.fuzzy import is_within


@pytest.mark.parametrize(
    "first,second,distance",
    [
        ("fox", "fox", 0), ("fox", "foxx", 1), ("fox", "ox", 1), ("fox", "fix", 1),
        ("quick", "qiuck", 2), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "xyz", 3),
    ],
)  # fmt: skip
def test_letters_are_added_removed_and_replaced(first, second, distance):
    for edits in range(4):
        assert is_within(first, second, edits) == (distance <= edits)
        assert is_within(second, first, edits) == (distance <= edits)
