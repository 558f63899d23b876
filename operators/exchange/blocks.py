"""Blocks of many records of one channel as one byte string, in Arrow IPC if their type is known.

A block starts with nine bytes: the kind of its content, and the watermark that its channel had reached before
it.
"""

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.common.arrow_columns import from_arrow, to_arrow
from penstock.operators.common.pickles import dumps, is_pickled
from penstock.operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.operators.common.without_pandas import without_pandas

# The facts that a subtask needs to write to a JobEdge, and to read a gate


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """One JobEdge at its producing end."""

    source_node: int  #: the operator that writes to the edge
    tag: str | None  #: the side output; None: the main output
    edge: int  #: number of the JobEdge in the job
    partitioner: str  #: forward, rebalance, rescale, shuffle, broadcast, global, hash or custom
    type_info: TypeInformation | None
    consumers: int  #: subtasks of the consumer
    consumer_max_parallelism: int
    #: by subtask of the producer: the first subtask that reads it, and their number (ExecutionGraph)
    reading: tuple[tuple[int, int], ...]
    key_selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None
    custom_partitioner: Callable[[Any, int], int] | None = None
    consumer_name: str = ""  #: the operator that reads the edge
    limit: int | None = None  #: maximum of records that the consumer takes; None: all
    #: bytes after which a subtask ends and marks its output as cut off; None: no limit
    budget_bytes: int | None = None
    #: whether the driver reads it while the job runs: records leave soon, and none are stored on disk
    to_driver: bool = False
    #: whether the consumer needs the records of a key group together (BATCH, keyed)
    grouped: bool = False
    #: whether the consumer reads this edge before its others (broadcast state in any mode)
    first: bool = False


@dataclass(frozen=True, kw_only=True)
class GateSpec:
    """One JobEdge at its consuming end."""

    edge: int
    input_number: int  #: the input of the head operator, from 1
    target_node: int
    type_info: TypeInformation | None
    grouped: bool = False
    first: bool = False


# Conversion of records between Python values and columns, between operators on rows and on record batches


#: The only column of records that are neither rows nor tuples.
VALUE_COLUMN = "value"


def batch_of_values(values: Values, type_info: TypeInformation | None) -> pa.RecordBatch:
    """Return one column per field of a row or tuple type, else one column `value`.

    Raises TypeError if the type is not declared, or a row is null.
    """
    if is_pickled(type_info):
        raise TypeError("records without a declared type have no columns: declare the output type before")
    array = to_arrow(values, type_info)
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_arrays([array], [VALUE_COLUMN])
    if array.null_count:
        raise TypeError("a row that is null has no columns")
    return pa.RecordBatch.from_struct_array(array)


def values_of_batch(batch: pa.RecordBatch, type_info: TypeInformation | None) -> Values:
    """Return the records of a batch of `batch_of_values`."""
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return from_arrow(batch.to_struct_array(), type_info)
    return from_arrow(batch.column(0), type_info)


_HEADER = struct.Struct("<Bq")
_PICKLED, _VALUES, _BATCH, _STAMPED_BATCH = 0, 1, 2, 3
STAMPS = "$timestamp"


class Block(NamedTuple):
    """Either `values` or `batch`, with the timestamps of its records."""

    watermark: int
    values: Values | None
    batch: pa.RecordBatch | None
    timestamps: Any  #: a list for values, an Arrow array for a batch; None if no record has one

    @property
    def records(self) -> int:
        """Return the number of records in the block."""
        return len(self.values) if self.values is not None else self.batch.num_rows  # type: ignore[union-attr]


def encode_values(
    values: Values, timestamps: Timestamps, type_info: TypeInformation | None, watermark: int
) -> bytes:
    """Return a block of Python values. Raises TypeError or ValueError if one is not of the declared type."""
    if is_pickled(type_info):
        return _HEADER.pack(_PICKLED, watermark) + dumps((values, timestamps))
    columns, names = [to_arrow(values, type_info)], ["value"]
    if timestamps is not None:
        with without_pandas():
            columns.append(pa.array(timestamps, pa.int64()))
        names.append(STAMPS)
    return _HEADER.pack(_VALUES, watermark) + _ipc(pa.RecordBatch.from_arrays(columns, names))


def encode_batch(batch: pa.RecordBatch, timestamps: pa.Int64Array | None, watermark: int) -> bytes:
    """Return a block of records that are in columns already."""
    if timestamps is None:
        return _HEADER.pack(_BATCH, watermark) + _ipc(batch)
    return _HEADER.pack(_STAMPED_BATCH, watermark) + _ipc(batch.append_column(STAMPS, timestamps))


def decode(data: pa.Buffer, type_info: TypeInformation | None) -> Block:
    """Return the records of a block that `encode_values` or `encode_batch` made.

    `type_info`, which the plan has, decides whether the block may be a pickle. Raises ValueError if the block
    is marked as a pickle but its records have a declared type.
    """
    kind, watermark = _HEADER.unpack(data[: _HEADER.size])
    rest = data[_HEADER.size :]
    if kind == _PICKLED:
        if not is_pickled(type_info):
            raise ValueError(f"a block of records of type {type_info} is marked as a pickle")
        values, timestamps = pickle.loads(rest)
        return Block(watermark, values, None, timestamps)
    # a value of a binary column may start at any address; Arrow computes on aligned buffers
    batch = pa.ipc.open_stream(pa.py_buffer(rest.to_pybytes())).read_next_batch()
    stamps = None
    if kind == _STAMPED_BATCH or (kind == _VALUES and batch.num_columns > 1):
        last = batch.num_columns - 1
        stamps = batch.column(last)
        batch = batch.select(list(range(last)))
    if kind != _VALUES:
        return Block(watermark, None, batch, stamps)
    values = from_arrow(batch.column(0), type_info)
    return Block(watermark, values, None, None if stamps is None else stamps.to_pylist())


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
