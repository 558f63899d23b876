"""Blocks: many records of one channel as one byte string, Arrow IPC where their type is known.

A block starts with nine bytes: what it holds, and the watermark that its channel had reached before it.
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

# The facts that a subtask needs to write to a JobEdge, and to read a gate.


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """One JobEdge at its producing end."""

    source_node: int  #: the operator of the chain that writes to it
    tag: str | None  #: side output; None: the main one
    edge: int  #: number of the JobEdge in the job
    partitioner: str  #: forward, rebalance, rescale, shuffle, broadcast, global, hash or custom
    type_info: TypeInformation | None
    consumers: int  #: subtasks of the consumer
    consumer_max_parallelism: int
    #: of each subtask of the producer: first subtask that reads it, and how many do (ExecutionGraph)
    reading: tuple[tuple[int, int], ...]
    key_selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None
    custom_partitioner: Callable[[Any, int], int] | None = None
    consumer_name: str = ""  #: the operator that reads it
    limit: int | None = None  #: the consumer takes no more records than these; None: all
    #: records after which a subtask ends and tells its readers that it was cut off; None: no limit
    budget_bytes: int | None = None
    #: the driver reads it while the job runs: what there is leaves soon, and nothing is kept on the disk
    to_driver: bool = False
    #: the consumer wants the records of a key group together (BATCH, keyed)
    grouped: bool = False
    #: the consumer reads this one before its others (broadcast state in any mode)
    first: bool = False


@dataclass(frozen=True, kw_only=True)
class GateSpec:
    """One JobEdge at its consuming end."""

    edge: int
    input_number: int  #: of the head operator, from 1
    target_node: int
    type_info: TypeInformation | None
    grouped: bool = False
    first: bool = False


# Records as Python values and as columns: where an operator on rows meets one on record batches.


#: The one column of records that are no rows or tuples.
VALUE_COLUMN = "value"


def batch_of_values(values: Values, type_info: TypeInformation | None) -> pa.RecordBatch:
    """One column per field of a row or tuple type, else one column `value`. TypeError: no declared type."""
    if is_pickled(type_info):
        raise TypeError("records of no declared type have no columns: declare the output type before")
    array = to_arrow(values, type_info)
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_arrays([array], [VALUE_COLUMN])
    if array.null_count:
        raise TypeError("a row that is null has no columns")
    return pa.RecordBatch.from_struct_array(array)


def values_of_batch(batch: pa.RecordBatch, type_info: TypeInformation | None) -> Values:
    """The inverse of `batch_of_values`."""
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
    timestamps: Any  #: a list for values, an Arrow array for a batch; None: no record has one

    @property
    def records(self) -> int:
        """Number of records in it."""
        return len(self.values) if self.values is not None else self.batch.num_rows  # type: ignore[union-attr]


def encode_values(
    values: Values, timestamps: Timestamps, type_info: TypeInformation | None, watermark: int
) -> bytes:
    """A block of Python values; TypeError or ValueError if one is not of the declared type."""
    if is_pickled(type_info):
        return _HEADER.pack(_PICKLED, watermark) + dumps((values, timestamps))
    columns, names = [to_arrow(values, type_info)], ["value"]
    if timestamps is not None:
        with without_pandas():
            columns.append(pa.array(timestamps, pa.int64()))
        names.append(STAMPS)
    return _HEADER.pack(_VALUES, watermark) + _ipc(pa.RecordBatch.from_arrays(columns, names))


def encode_batch(batch: pa.RecordBatch, timestamps: pa.Int64Array | None, watermark: int) -> bytes:
    """A block of records that are in columns already."""
    if timestamps is None:
        return _HEADER.pack(_BATCH, watermark) + _ipc(batch)
    return _HEADER.pack(_STAMPED_BATCH, watermark) + _ipc(batch.append_column(STAMPS, timestamps))


def decode(data: pa.Buffer, type_info: TypeInformation | None) -> Block:
    """The input of `encode_values` or `encode_batch`, decoded.

    Whether it is a pickle is for `type_info` to say, which the plan has: ValueError if the block says so
    of records of a declared type.
    """
    kind, watermark = _HEADER.unpack(data[: _HEADER.size])
    rest = data[_HEADER.size :]
    if kind == _PICKLED:
        if not is_pickled(type_info):
            raise ValueError(f"a block of records of type {type_info} says that it is a pickle")
        values, timestamps = pickle.loads(rest)
        return Block(watermark, values, None, timestamps)
    # a value of a binary column starts anywhere; Arrow computes on aligned buffers
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
