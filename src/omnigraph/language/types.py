"""The value types of both languages: what a property, parameter or expression can hold."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class Scalar(StrEnum):
    """The scalar types, by the name a schema writes."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"


SCALAR_NAMES: tuple[str, ...] = tuple(s.value for s in Scalar)

#: Smallest and largest value of each integer type.
INTEGER_BOUNDS: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(1 << 31), (1 << 31) - 1),
    Scalar.I64: (-(1 << 63), (1 << 63) - 1),
    Scalar.U32: (0, (1 << 32) - 1),
    Scalar.U64: (0, (1 << 64) - 1),
}
FLOATS = frozenset({Scalar.F32, Scalar.F64})
MAX_DIMENSION = 65_536


class ValueType(Struct, frozen=True):
    """The type of a value.

    A vector is a `dimension` of F32; an enum is a String with a set of allowed `values`.
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    dimension: int | None = None
    values: tuple[str, ...] | None = None

    def __str__(self) -> str:
        if self.dimension is not None:
            text = f"Vector({self.dimension})"
        elif self.values is not None:
            text = f"enum({', '.join(enum_value_text(v) for v in self.values)})"
        else:
            text = f"[{self.scalar}]" if self.is_list else str(self.scalar)
        return text + "?" if self.nullable else text

    @property
    def noun(self) -> str:
        """The type with its article, as messages write it: `an I64`, `a String?`."""
        text = str(self)
        return f"an {text}" if text.startswith(("I", "F", "enum")) else f"a {text}"

    @property
    def is_vector(self) -> bool:
        """True for `Vector(n)`."""
        return self.dimension is not None

    @property
    def is_enum(self) -> bool:
        """True for `enum(…)`."""
        return self.values is not None

    @property
    def is_scalar(self) -> bool:
        """True for one plain value, enums included."""
        return not self.is_list and self.dimension is None

    @property
    def is_text(self) -> bool:
        """True for one String or enum value."""
        return self.is_scalar and self.scalar is Scalar.STRING

    @property
    def is_integer(self) -> bool:
        """True for one integer."""
        return self.is_scalar and self.scalar in INTEGER_BOUNDS

    @property
    def is_float(self) -> bool:
        """True for one float."""
        return self.is_scalar and self.scalar in FLOATS

    @property
    def is_number(self) -> bool:
        """True for one integer or float."""
        return self.is_integer or self.is_float

    @property
    def is_blob(self) -> bool:
        """True for `Blob`."""
        return self.scalar is Scalar.BLOB

    @property
    def element(self) -> ValueType:
        """The type of a list's elements (of a vector: F32)."""
        return ValueType(self.scalar)

    def as_nullable(self, nullable: bool = True) -> ValueType:
        """The same type with another nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def to_dict(self) -> dict[str, Any]:
        """Return the type as plain JSON-ready values; `from_dict` reads them back."""
        kind: dict[str, Any]
        if self.dimension is not None:
            kind = {"kind": "vector", "dimension": self.dimension}
        elif self.values is not None:
            kind = {"kind": "enum", "values": list(self.values)}
        else:
            kind = {"kind": "list" if self.is_list else "scalar", "scalar": self.scalar.value}
        return {**kind, "nullable": self.nullable}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> ValueType:
        """Read a type back from `to_dict`'s form."""
        nullable = bool(data["nullable"])
        match data["kind"]:
            case "vector":
                return ValueType(Scalar.F32, nullable, dimension=int(data["dimension"]))
            case "enum":
                return ValueType(Scalar.STRING, nullable, values=tuple(data["values"]))
            case "list":
                return ValueType(Scalar(data["scalar"]), nullable, is_list=True)
            case "scalar":
                return ValueType(Scalar(data["scalar"]), nullable)
            case other:
                raise ValueError(f"unknown kind of type {other!r}")


STRING = ValueType(Scalar.STRING)
BOOL = ValueType(Scalar.BOOL)
I64 = ValueType(Scalar.I64)
U64 = ValueType(Scalar.U64)
F64 = ValueType(Scalar.F64)
DATE = ValueType(Scalar.DATE)
DATETIME = ValueType(Scalar.DATETIME)


def enum_value_text(value: str) -> str:
    """Write an enum value as a schema does: bare when it is a plain name, else quoted."""
    from omnigraph.language.values import quote

    plain = value.isascii() and value.replace("_", "a").isalnum() and not value[0].isdigit()
    return value if plain else quote(value)
