"""Codecs of tuples and rows: one column per field, handled column by column.

Source: pyflink.fn_execution.coder_impl_fast.{TupleCoderImpl,RowCoderImpl}.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from penstock.operators.common.arrow_types import ROW_KIND_FIELD, arrow_type
from penstock.operators.common.codec import NONE_TYPE, Codec, NullableCodec, mismatch
from penstock.operators.common.composite_types import RowTypeInfo, TupleTypeInfo, row_values
from penstock.operators.common.row import Row, RowKind, rows_of_columns, set_kind, set_names

_KINDS = list(RowKind)
Columns = list[list[Any]]


class FieldsCodec(NullableCodec):
    """The common base of codecs for tuples and rows."""

    def __init__(self, type_info: RowTypeInfo | TupleTypeInfo, fields: list[Codec]) -> None:
        self.type_info = type_info
        self.arrow_type = arrow_type(type_info)
        self._fields = fields

    @abstractmethod
    def sequences(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """The fields of each value, in order. TypeError or ValueError for values that have other fields."""

    def columns(self, values: Sequence[Any]) -> Columns:
        rows = self.sequences(values)
        width = len(self._fields)
        if not set(map(len, rows)) <= {width}:
            at = next(at for at, row in enumerate(rows) if len(row) != width)
            raise ValueError(mismatch(values[at], self.type_info, f"it has {len(rows[at])} fields"))
        return [[row[at] for row in rows] for at in range(width)]

    def encoded(self, columns: Columns) -> list[pa.Array]:
        arrays = []
        for codec, field, values in zip(self._fields, self.arrow_type, columns, strict=True):
            try:
                arrays.append(codec.encode(values))
            except (TypeError, ValueError, OverflowError) as error:
                raise _in_field(error, field.name) from error
        return arrays

    def coerced(self, columns: Columns) -> list[Sequence[Any]]:
        """The values of each field as they come back."""
        fields = []
        for codec, field, values in zip(self._fields, self.arrow_type, columns, strict=True):
            try:
                fields.append(codec.coerce(values))
            except (TypeError, ValueError, OverflowError) as error:
                raise _in_field(error, field.name) from error
        return fields

    def decoded(self, column: pa.StructArray) -> list[list[Any]]:
        return [codec.decode(column.field(at)) for at, codec in enumerate(self._fields)]


class TupleCodec(FieldsCodec):
    """Tuples; lists and rows come back as tuples."""

    def sequences(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """The fields of each value."""
        if set(map(type, values)) <= {tuple}:
            return values
        for value in values:
            if not isinstance(value, (tuple, list, Row)):
                raise TypeError(mismatch(value, self.type_info))
        return values

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        if not self._fields:
            return pa.array([{} for _ in values], self.arrow_type)
        columns = self.encoded(self.columns(values))
        return pa.StructArray.from_arrays(columns, names=[field.name for field in self.arrow_type])

    def decode_present(self, column: pa.Array) -> list[Any]:
        if not self._fields:
            return [()] * len(column)
        return list(zip(*self.decoded(column), strict=True))

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        columns = self.columns(values)
        coerced = self.coerced(columns)
        if _same(columns, coerced):
            return values if set(map(type, values)) <= {tuple} else [tuple(value) for value in values]
        return list(zip(*coerced, strict=True))


class RowCodec(FieldsCodec):
    """Rows; tuples, lists, dicts and other objects come back as rows."""

    def __init__(self, type_info: RowTypeInfo, fields: list[Codec]) -> None:
        super().__init__(type_info, fields)
        self._row_type = type_info
        self._names = type_info.get_field_names()
        declared = getattr(type_info, "spark_schema", None)
        fields_of_schema = () if declared is None else declared.given
        self._never_null = [at for at, field in enumerate(fields_of_schema) if not field.nullable]

    def sequences(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """The fields of each value."""
        names = self._names
        if _are_rows(values):
            return [
                row._values if row._names is None or row._names == names else self._by_name(row)
                for row in values
            ]
        return [self._by_name(value) for value in values]

    def columns(self, values: Sequence[Any]) -> Columns:
        columns = super().columns(values)
        for at in self._never_null:
            if NONE_TYPE in set(map(type, columns[at])):
                raise ValueError(f"field {self._names[at]}: got None, but the field is declared as not null")
        return columns

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        """The column, with a last field for the kinds of rows where some are no inserts."""
        kinds = _kinds(values)
        names = list(self._names)
        columns = self.encoded(self.columns(values))
        if kinds is not None:
            columns.append(pa.array([kind.value for kind in kinds], pa.int8()))
            names.append(ROW_KIND_FIELD)
        if not columns:
            return pa.array([{} for _ in values], self.arrow_type)
        return pa.StructArray.from_arrays(columns, names=names)

    def decode_present(self, column: pa.Array) -> list[Any]:
        count = len(column)
        if self._fields:
            rows = rows_of_columns(self._names, self.decoded(column))
        else:
            rows = [Row() for _ in range(count)]
            deque(map(set_names, rows, repeat(self._names, count)), 0)
        if column.type.num_fields > len(self._fields):
            kinds = column.field(len(self._fields)).to_pylist()
            deque(map(set_kind, rows, map(_KINDS.__getitem__, kinds)), 0)
        return rows

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        columns = self.columns(values)
        coerced = self.coerced(columns)
        if _same(columns, coerced) and _are_rows(values):
            names = self._names
            if all(row._names == names for row in values):
                return values
        if not self._fields:
            coerced_rows = [Row() for _ in values]
            deque(map(set_names, coerced_rows, repeat(self._names)), 0)
        else:
            coerced_rows = rows_of_columns(self._names, coerced)
        kinds = _kinds(values)
        if kinds is not None:
            deque(map(set_kind, coerced_rows, kinds), 0)
        return coerced_rows

    def _by_name(self, value: Any) -> list[Any]:
        try:
            return row_values(value, self._row_type)
        except ValueError as error:
            kind = ValueError if isinstance(value, Row) else TypeError
            raise kind(mismatch(value, self.type_info, str(error))) from error


def _kinds(values: Sequence[Any]) -> list[RowKind] | None:
    # None: all are inserts
    insert = RowKind.INSERT
    kinds = [value._row_kind if isinstance(value, Row) else insert for value in values]
    return None if set(kinds) <= {insert} else kinds


def _same(columns: Columns, coerced: Sequence[Sequence[Any]]) -> bool:
    return all(before is after for before, after in zip(columns, coerced, strict=True))


def _in_field(error: Exception, name: str) -> Exception:
    for kind in (TypeError, OverflowError):
        if isinstance(error, kind):
            return kind(f"field {name}: {error}")
    return ValueError(f"field {name}: {error}")


def _are_rows(values: Sequence[Any]) -> bool:
    return all(issubclass(kind, Row) for kind in set(map(type, values)))
