"""Folding: one spelling for letters with and without accents, of any case and width.

`Résumé`, in one code point per letter or with the accents behind the letters, becomes `resume`,
`İ` becomes `i`, `Straße` becomes `strasse`, and letters of full or half width become usual ones.
"""

from __future__ import annotations

import re
import unicodedata

#: Accents, the points of Hebrew and Arabic, and what chooses between forms of one ideograph. The
#: breve of the Cyrillic й stays: it is a letter of its own.
_ACCENTS = re.compile(
    "(?<![иИ])\u0306|[\u0300-\u0305\u0307-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u064b-\u065f\u0670\U000e0100-\U000e01ef]"
)
#: What chooses the form of an emoji separates words.
_SELECTORS = range(0xFE00, 0xFE10)
#: Latin letters that are not a plain letter with an accent.
_LETTERS = str.maketrans(
    {
        "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h",
        "ŧ": "t", "ŋ": "n", "ı": "i", "ƀ": "b", "ɓ": "b", "ɖ": "d", "ɗ": "d", "ƒ": "f", "ɠ": "g",
        "ɨ": "i", "ƙ": "k", "ɲ": "n", "ɔ": "o", "ɛ": "e", "ə": "e", "ʉ": "u", "ʋ": "v", "ƴ": "y",
        "ƶ": "z",
    }
)  # fmt: skip
#: Characters of Chinese and Japanese, which are written without spaces between words.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u3099-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]+"
)


def runs(text: str) -> list[str]:
    """What stands between separators: letters and digits, with marks behind them."""
    chars = []
    inside = False
    for char in text:
        inside = char.isalnum() or (inside and _is_mark(char))
        chars.append(char if inside else " ")
    return "".join(chars).split()


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M" and ord(char) not in _SELECTORS


def folded(run: str) -> str:
    """A run with plain letters in lower case; it may have become several runs."""
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", run)).casefold()
    # Lower letters of some capitals have accents.
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain).translate(_LETTERS))


def is_unspaced(text: str) -> bool:
    """True for characters of Chinese and Japanese."""
    return _UNSPACED.match(text) is not None


def by_script(run: str) -> list[str]:
    """A run in parts, so that Chinese and Japanese characters are parts of their own."""
    parts = []
    end = 0
    for match in _UNSPACED.finditer(run):
        parts += [run[end : match.start()], match.group()]
        end = match.end()
    return [part for part in (*parts, run[end:]) if part]
