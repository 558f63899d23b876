"""The rows of a Spark DataFrame as a source, read from Spark's partitions and never collected."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from penstock.operators.chain.operator import MIN_WATERMARK, OperatorContext
from penstock.operators.common.adapt_columns import as_arrow_type, relabelled_batch, same_layout
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.source import Source
from penstock.operators.files.filesystem import identify_files
from penstock.operators.formats.csv_files import Chunk, StampedBatch

_MILLIS_PER_DAY = 86_400_000


class EventTime(NamedTuple):
    """The column of rows' event time, and the maximum lateness of rows.

    A position beyond the records' columns means an additional column, which holds a nested field.
    """

    position: int
    column: str
    lag_milliseconds: int


class DataFrameSource(Source):
    """Yields the DataFrame's record batches, with the columns and types of `schema`.

    `type_info` and `schema` describe the same records. On the driver `dataframe()` returns the DataFrame;
    the subtasks have none, and the runtime passes the batches of the Spark partition to `stamped`. Rows
    with an `event_time` are ordered by it, within a subtask and from one subtask to the next.
    """

    columnar = True
    has_batches = True
    reads_dataframe = True

    def __init__(
        self,
        dataframe: Any,
        type_info: TypeInformation,
        schema: pa.Schema,
        event_time: EventTime | None = None,
    ) -> None:
        super().__init__()
        self._dataframe = dataframe
        self.type_info, self.schema, self.event_time = type_info, schema, event_time
        if not schema.names:
            self.columnar = self.has_batches = False  # a record batch without columns cannot have rows

    def dataframe(self) -> Any:
        """Return the DataFrame; on the driver only."""
        return self._dataframe

    def fingerprint(self) -> str | None:
        """Return a digest of its plan and of the current data that it reads; see `identify_dataframe`."""
        return identify_dataframe(self._dataframe)

    def read(self, split: Any, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """Raise NotImplementedError.

        The runtime passes the batches of Spark's partitions to `stamped` instead.
        """
        raise NotImplementedError

    def splits(self, parallelism: int) -> list[list[Any]]:
        """Return no splits, which Spark's partitions replace."""
        return [[] for _ in range(parallelism)]

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `batch` with the declared names and types, column by column.

        Raises ValueError for another number of columns, ArrowInvalid if a value does not fit.
        """
        if batch.schema.equals(self.schema):
            return batch
        if batch.num_columns != len(self.schema):
            raise ValueError(
                f"a batch must have {len(self.schema)} columns as declared, got {batch.num_columns}"
            )
        if same_layout(batch.schema, self.schema):
            return relabelled_batch(batch, self.schema)
        columns = [
            as_arrow_type(column, field.type) for column, field in zip(batch, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def stamped(self, batch: pa.RecordBatch) -> StampedBatch:
        """Return a batch from Spark as `checked` does, with the event time of its rows.

        Raises ValueError for a row without event time.
        """
        if self.event_time is None:
            return StampedBatch(self.checked(batch), None)
        column = batch.column(self.event_time.position)
        if column.null_count:
            raise ValueError(f"event_time: the column {self.event_time.column!r} must have no null, got one")
        records = batch.select(range(len(self.schema))) if batch.num_columns > len(self.schema) else batch
        return StampedBatch(self.checked(records), milliseconds(column))

    def values(self, count: int) -> Chunk:
        """Return a chunk of `count` rows without columns."""
        return Chunk([Row() for _ in range(count)], None)

    def watermark(self, timestamp: int) -> int:
        """Return the watermark after a row with this timestamp, below which no row follows."""
        assert self.event_time is not None
        return max(MIN_WATERMARK, timestamp - self.event_time.lag_milliseconds - 1)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_dataframe": None}


def milliseconds(column: pa.Array) -> pa.Int64Array:
    """Return timestamps (UTC if without time zone), dates or integers as milliseconds since the epoch."""
    if kinds.is_date32(column.type):
        return pa.array(column.cast(pa.int32()).to_numpy().astype(np.int64) * _MILLIS_PER_DAY)
    longs = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return pa.array(np.floor_divide(longs, 1000) if kinds.is_timestamp(column.type) else longs)


# The identity of a Spark DataFrame's rows: its plan, and the data that the plan reads


_ALL_FIELDS = 2**31 - 1
_SPARK = "org.apache.spark.sql."
_DELTA = f"{_SPARK}delta."
_HADOOP_RELATION = f"{_SPARK}execution.datasources.HadoopFsRelation"  # or Delta's own kind of it
_CLOCK_FUNCTIONS = ("current_timestamp", "current_date", "localtimestamp", "now")
_FIXED = (f"{_SPARK}catalyst.plans.logical.Range", f"{_SPARK}catalyst.plans.logical.OneRowRelation$")


def identify_dataframe(dataframe: Any) -> str | None:
    """Return a digest of the analysed plan, with the rows, files or version of each table that it reads.

    Return None if a part cannot be identified: another kind of table (an RDD, JDBC), values that differ from
    run to run (`rand`, `current_timestamp`), a user's function, a session by Spark Connect.
    """
    try:
        plan = dataframe._jdf.queryExecution().analyzed()
        parts = [plan.canonicalized().treeString(True, False, _ALL_FIELDS, False, False)]
        if not plan.deterministic() or "pythonUDF" in parts[0] or "UDF(" in parts[0]:
            return None
        if any(f"{name}(" in parts[0] for name in _CLOCK_FUNCTIONS):
            return None
        for leaf in _leaves(plan):
            identity = _identify_leaf(leaf)
            if identity is None:
                return None
            parts.append(identity)
    except Exception:  # of py4j or Spark, or from another form of plan: no identity
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _leaves(plan: Any) -> Iterator[Any]:
    """Yield the leaves of a plan and of its subqueries, which `collectLeaves` skips."""
    subqueries = plan.subqueriesAll()
    for part in (plan, *(subqueries.apply(number) for number in range(subqueries.size()))):
        leaves = part.collectLeaves()
        yield from (leaves.apply(number) for number in range(leaves.size()))


def _identify_leaf(leaf: Any) -> str | None:
    name = leaf.getClass().getName()
    if name in _FIXED:
        return str(name)
    if name == f"{_SPARK}catalyst.plans.logical.LocalRelation":
        return f"{leaf.data().size()} rows, {leaf.data().hashCode()}"
    if name != f"{_SPARK}execution.datasources.LogicalRelation":
        return None
    relation = leaf.relation()
    if _HADOOP_RELATION not in (relation.getClass().getName(), relation.getClass().getSuperclass().getName()):
        return None
    location = relation.location()
    kind = location.getClass().getName()
    if kind.startswith(_DELTA):
        snapshot = location.getSnapshot()
        return f"{snapshot.metadata().id()} {snapshot.version()}"
    return identify_files(sorted(map(_path, location.inputFiles())))


def _path(uri: str) -> str:
    """Return a path in the form that pyarrow's file systems take."""
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
