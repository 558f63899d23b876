"""Converts values of one type to a column and back. One codec per type; see arrow_columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

NONE_TYPE = type(None)
_LONGEST_REPR = 200


class Codec(ABC):
    """Lists of values of one type, None among them, to columns of `arrow_type` and back."""

    arrow_type: pa.DataType

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> pa.Array:
        """The column. TypeError, OverflowError or ValueError that name a value that is not of the type."""

    @abstractmethod
    def decode(self, column: pa.Array) -> list[Any]:
        """The values of a column that `encode` made."""

    @abstractmethod
    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        """The result of `decode` after `encode`; `values` itself if that is the same. Errors as `encode`."""


class NullableCodec(Codec):
    """A codec whose `…_present` methods see no None."""

    @abstractmethod
    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        """`encode` of values that are not None."""

    @abstractmethod
    def decode_present(self, column: pa.Array) -> list[Any]:
        """`decode` of a column without nulls."""

    @abstractmethod
    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        """`coerce` of values that are not None."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """The column."""
        if NONE_TYPE not in set(map(type, values)):
            return self.encode_present(values)
        present = [value for value in values if value is not None]
        places = iter(range(len(present)))
        return self.encode_present(present).take(
            pa.array([None if value is None else next(places) for value in values], pa.int64())
        )

    def decode(self, column: pa.Array) -> list[Any]:
        """The values of a column."""
        if not column.null_count:
            return self.decode_present(column)
        present = iter(self.decode_present(column.drop_null()))
        return [next(present) if valid else None for valid in column.is_valid().to_pylist()]

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        """What comes back from a trip through a column."""
        if NONE_TYPE not in set(map(type, values)):
            return self.coerce_present(values)
        present = [value for value in values if value is not None]
        coerced = self.coerce_present(present)
        if coerced is present:
            return values
        rest = iter(coerced)
        return [None if value is None else next(rest) for value in values]


def mismatch(value: Any, type_info: object, why: str = "") -> str:
    """The message for a value that is not of the type."""
    try:
        text = repr(value)
    except Exception:
        text = "a value without repr"
    short = text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 1] + "…"
    return f"{short} of class {type(value).__name__} is no {type_info}{why and ': ' + why}"
