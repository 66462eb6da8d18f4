"""What `@index` may say about an index: its kind, and how a vector index is laid out.

Without options a property gets the kinds that fit its type. The names and numbers are checked here,
so that building an index never meets one that it does not know.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from omnigraph.diagnostics import did_you_mean
from omnigraph.language.types import Scalar, ValueType

#: What a text property is indexed by: the words in it.
FULL_TEXT = "full_text"
VECTOR_KINDS = ("ivf_flat", "ivf_sq", "ivf_pq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq")
KINDS = ("btree", "bitmap", FULL_TEXT, "label_list", *VECTOR_KINDS)


class _Option(Struct, frozen=True):
    """A number that vector indexes take.

    Attributes:
        most: The highest value; 1 is the lowest.
        of: What the names of its kinds contain.
    """

    most: int
    of: str


_OPTIONS = {
    "partitions": _Option(65_536, "ivf"),
    "sub_vectors": _Option(65_536, "pq"),
    "neighbors": _Option(1_024, "hnsw"),
    "ef_construction": _Option(65_536, "hnsw"),
}


class OptionFault(Struct, frozen=True):
    """What is wrong with an option, and what to write instead."""

    option: str
    message: str
    hint: str | None


def usual_kinds(type: ValueType) -> tuple[str, ...]:
    """The kinds of a property's indexes when nothing is said; none of vectors: see their number."""
    if type.is_vector:
        return ()
    if type.is_list:
        return ("label_list",)
    if type.scalar is Scalar.BOOL or type.is_enum:
        return ("bitmap",)
    return ("btree", FULL_TEXT) if type.is_text else ("btree",)


def possible_kinds(type: ValueType) -> tuple[str, ...]:
    """The kinds of indexes that a property can have."""
    if type.is_vector:
        return VECTOR_KINDS
    if type.is_list:
        return ("label_list",)
    return ("btree", "bitmap", *((FULL_TEXT,) if type.is_text and not type.is_enum else ()))


def option_fault(type: ValueType, options: dict[str, Any]) -> OptionFault | None:
    """The first fault among the options of an index, or None."""
    kind = options.get("kind")
    possible = possible_kinds(type)
    if "kind" in options and kind not in possible:
        choice = " or ".join(f'`kind="{name}"`' for name in possible)
        if kind in KINDS:
            message = f"{type.noun} cannot have an index of kind `{kind}`"
            return OptionFault("kind", message, f"write {choice}")
        near = did_you_mean(kind, possible) if isinstance(kind, str) else None
        shown = f"`{kind}`" if isinstance(kind, str) else "this"
        return OptionFault("kind", f"{shown} is no kind of index", near or f"write {choice}")
    taken = list(_OPTIONS) if type.is_vector else []
    for name, value in options.items():
        if name == "kind":
            continue
        if name not in taken:
            if name in _OPTIONS:
                return OptionFault(name, f"`{name}` is for indexes of vectors", "leave it out")
            hint = did_you_mean(name, ["kind", *taken])
            known = ", ".join(f"`{known}`" for known in ["kind", *taken])
            message = f"`@index` has no option `{name}`"
            return OptionFault(name, message, hint or f"options here: {known}")
        if (fault := _number_fault(type, name, value, kind)) is not None:
            return fault
    return None


def _number_fault(type: ValueType, name: str, value: Any, kind: Any) -> OptionFault | None:
    option = _OPTIONS[name]
    if option.of != "ivf" and (kind is None or option.of not in kind):
        kinds = " or ".join(f'`kind="{k}"`' for k in VECTOR_KINDS if option.of in k)
        return OptionFault(name, f"`{name}` belongs to another kind of index", f"add {kinds}")
    if value.__class__ is not int or not 1 <= value <= option.most:
        message = f"`{name}` is a whole number from 1 to {option.most:,}"
        return OptionFault(name, message, None)
    if name == "sub_vectors":
        assert type.dimension is not None
        if type.dimension % value:
            return OptionFault(
                name,
                f"a vector of {type.dimension} numbers cannot be cut into {value} equal parts",
                f"give a divisor of {type.dimension}",
            )
    return None
