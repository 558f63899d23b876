"""A collection of the driver as a source.

Source: pyflink.datastream.StreamExecutionEnvironment.from_collection, which reads it in one subtask.
"""

import datetime
import hashlib
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext, Values, never_change
from penstock.operators.common.arrow_columns import from_arrow, to_arrow
from penstock.operators.common.basic_types import BasicType
from penstock.operators.common.composite_codecs import INTEGER_BITS, mismatch
from penstock.operators.common.pickles import UnidentifiableError, dumps, identify_value
from penstock.operators.common.typeinfo import (
    BasicTypeInfo,
    Convert,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    part_converter,
)
from penstock.operators.connectors.source import Source
from penstock.operators.formats.csv_files import CHUNK_VALUES, Chunk, StampedBatch


class CollectionSource(Source):
    """The values of a collection in their order, all read by subtask 0.

    `values` are in the form that a user's function takes. They are copied at once, and travel as Arrow
    columns of `type_info`, or pickled if it is None or PICKLED_BYTE_ARRAY. Raises TypeError or ValueError if
    a value is not of the type; PicklingError if it cannot be pickled.
    """

    def __init__(self, values: Iterable[Any], type_info: TypeInformation | None = None) -> None:
        super().__init__()
        self.type_info = None if isinstance(type_info, PickledBytesTypeInfo) else type_info
        self.has_batches = self.type_info is not None
        taken = list(values)
        parts = [taken[start : start + CHUNK_VALUES] for start in range(0, len(taken), CHUNK_VALUES)]
        self._columns = [_column(part, self.type_info) for part in parts] if self.has_batches else []
        self._pickles = [] if self.has_batches else [_pickled(part) for part in parts]

    def fingerprint(self) -> str | None:
        """Return a digest of the values and their type; None if a value cannot be identified."""
        hasher = hashlib.sha256(str(self.type_info).encode())
        for column in self._columns:
            batch = pa.RecordBatch.from_arrays([column], ["value"])
            hasher.update(batch.serialize())
        for part in self._pickles:
            if isinstance(part, bytes):
                hasher.update(part)
                continue
            try:  # pickles of changeable values differ from process to process
                hasher.update(identify_value([pickle.loads(pickled) for pickled in part]).encode())
            except UnidentifiableError:
                return None
        return hasher.hexdigest()

    def splits(self, parallelism: int) -> list[list[int]]:
        """Return the numbers of the collection's parts, for subtask 0."""
        parts = list(range(len(self._columns) or len(self._pickles)))
        return [parts, *([] for _ in range(parallelism - 1))]

    def read(self, split: int, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """Yield a part of the collection."""
        if self.columnar:
            yield StampedBatch(_batch(self._columns[split], self.type_info))
        elif self.has_batches:
            yield Chunk(from_arrow(self._columns[split], self.type_info))
        else:
            pickled = self._pickles[split]
            if isinstance(pickled, list):
                yield Chunk([pickle.loads(part) for part in pickled])
            else:
                yield Chunk(pickle.loads(pickled))


def _column(values: Values, type_info: TypeInformation | None) -> pa.Array:
    return to_arrow(given_values(values, type_info), type_info)


def _pickled(values: Values) -> bytes | list[bytes]:
    """Return one pickle, or one for each value if values could share an object when read."""
    return dumps(values) if never_change(values) else list(map(dumps, values))


def _batch(column: pa.Array, type_info: TypeInformation | None) -> pa.RecordBatch:
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_struct_array(column)
    return pa.RecordBatch.from_arrays([column], ["value"])


# Conversion of a collection's values as in PyFlink, with an error for values that would lose a part
#
# Moments and times of day with a time zone become local ones, and integers that are too large for BYTE, SHORT
# and INT are cut to their lowest bits. PyFlink turns numbers of another kind, such as 1.5 under INT, into
# nulls; here they are an error unless their value is in the type.
#
# Source: pyflink.common.typeinfo.{TimestampTypeInfo,TimeTypeInfo}.to_internal_type;
# org.apache.flink.streaming.api.utils.PythonTypeUtils, whose converters take a Java Number's byteValue,
# shortValue or intValue.


_LONG = range(-(2**63), 2**63)
_DAY = 24 * 60 * 60 * 10**6


def given_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """Return `values`, converted at any depth. Raises TypeError if a number would lose a part of its value.

    Integers of more than 64 bits, and values that do not fit their type, are returned unchanged.
    """
    convert = part_converter(type_info, _converter)
    if convert is None or (isinstance(type_info, BasicTypeInfo) and _is_plain(values, type_info._basic_type)):
        return values
    return list(map(convert, values))


def _is_plain(values: list[Any], basic: BasicType) -> bool:
    if set(map(type, values)) == {int}:
        most = 1 << INTEGER_BITS.get(basic, 1) - 1
        return bool(-most <= min(values) and max(values) < most)
    return False


def _converter(type_info: TypeInformation) -> Convert | None:
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in INTEGER_BITS:
        return lambda value: _integer(value, type_info)
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type is BasicType.BOOLEAN:
        return lambda value: _boolean(value, type_info)
    if isinstance(type_info, TimestampTypeInfo):
        return _local_moment
    if isinstance(type_info, TimeTypeInfo):
        return _local_time
    if isinstance(type_info, MapTypeInfo):
        return _map_converter(
            part_converter(type_info._key_type_info, _converter) or _same,
            part_converter(type_info._value_type_info, _converter) or _same,
        )
    return None


def _integer(value: Any, type_info: BasicTypeInfo) -> Any:
    if type(value) is int:
        bits = INTEGER_BITS[type_info._basic_type]
        half = 1 << (bits - 1)
        if -half <= value < half or value not in _LONG:
            return value
        return (value + half & (1 << bits) - 1) - half
    if hasattr(value, "__int__") and not isinstance(value, str) and value == value and value != int(value):
        raise TypeError(mismatch(value, type_info, "it is not a whole number"))
    return value


def _boolean(value: Any, type_info: BasicTypeInfo) -> Any:
    if type(value) is not bool and hasattr(value, "__int__") and value not in (0, 1):
        raise TypeError(mismatch(value, type_info))
    return value


def _local_moment(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    return value


def _local_time(value: Any) -> Any:
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        microseconds = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        offset = (value.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
        local = (microseconds - offset + TimeTypeInfo.EPOCH_ORDINAL) % _DAY
        return (datetime.datetime.min + datetime.timedelta(microseconds=local)).time()
    return value


def _map_converter(convert_key: Convert, convert_value: Convert) -> Convert:
    return lambda value: (
        {convert_key(key): convert_value(item) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )


def _same(value: Any) -> Any:
    return value
