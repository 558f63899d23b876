"""A collection of the driver's as a source.

Source: pyflink.datastream.StreamExecutionEnvironment.from_collection, which reads it in one subtask.
"""

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.operators.chain.copies import never_change
from penstock.operators.chain.operator import OperatorContext, Values
from penstock.operators.common.arrow_columns import from_arrow, to_arrow
from penstock.operators.common.identify_value import UnidentifiableError, identify_value
from penstock.operators.common.pickles import dumps
from penstock.operators.common.typeinfo import (
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.connectors.given_values import given_values
from penstock.operators.connectors.source import Source
from penstock.operators.formats.chunks import CHUNK_VALUES, Chunk, StampedBatch


class CollectionSource(Source):
    """The values of a collection in their order; all of them are subtask 0's.

    `values` are as a user's function would see them; they are taken at once, and travel as Arrow columns of
    `type_info`, or pickled where it is None or PICKLED_BYTE_ARRAY. TypeError or ValueError where a value is
    not of the type; PicklingError where it cannot be pickled.
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
        """Its values, and their type; None where a value cannot be told from others."""
        found = hashlib.sha256(str(self.type_info).encode())
        for column in self._columns:
            batch = pa.RecordBatch.from_arrays([column], ["value"])
            found.update(batch.serialize())
        for part in self._pickles:
            if isinstance(part, bytes):
                found.update(part)
                continue
            try:  # pickles of what may be changed differ from process to process
                found.update(identify_value([pickle.loads(one) for one in part]).encode())
            except UnidentifiableError:
                return None
        return found.hexdigest()

    def splits(self, parallelism: int) -> list[list[int]]:
        """The numbers of the collection's parts, for subtask 0."""
        parts = list(range(len(self._columns) or len(self._pickles)))
        return [parts, *([] for _ in range(parallelism - 1))]

    def read(self, split: int, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """A part of the collection."""
        if self.columnar:
            yield StampedBatch(_batch(self._columns[split], self.type_info))
        elif self.has_batches:
            yield Chunk(from_arrow(self._columns[split], self.type_info))
        else:
            pickled = self._pickles[split]
            if isinstance(pickled, list):
                yield Chunk([pickle.loads(one) for one in pickled])
            else:
                yield Chunk(pickle.loads(pickled))


def _column(values: Values, type_info: TypeInformation | None) -> pa.Array:
    return to_arrow(given_values(values, type_info), type_info)


def _pickled(values: Values) -> bytes | list[bytes]:
    """One pickle, or one for each value: two values that share an object are to have one each when read."""
    return dumps(values) if never_change(values) else list(map(dumps, values))


def _batch(column: pa.Array, type_info: TypeInformation | None) -> pa.RecordBatch:
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_struct_array(column)
    return pa.RecordBatch.from_arrays([column], ["value"])
