"""Results as plain values: dictionaries, lists, texts and numbers, ready for JSON."""

from __future__ import annotations

from typing import Any

import msgspec


class Plain:
    """A result whose plain form is its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}
