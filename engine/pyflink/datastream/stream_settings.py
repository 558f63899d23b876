"""Settings of every operator of a stream: names, ids, parallelism, chaining, slots.

Source: org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator; pyflink.datastream.data_stream.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.engine.pyflink.common.execution_config import ExecutionConfig
from penstock.engine.pyflink.datastream.operator_settings import (
    PickledCopy,
    check_buffer_timeout,
    check_max_parallelism,
    check_parallelism,
    check_uid_hash,
    set_slot_sharing_group,
)
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.run.lowering.transformations import VIRTUAL_KINDS, Call, Transformation
from penstock.operators.common.arguments import require_text
from penstock.operators.common.arrow_types import arrow_type, is_bytes
from penstock.operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from penstock.operators.exchange.blocks import VALUE_COLUMN
from penstock.operators.records.key_selection import ColumnKeys

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream
    from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment


# Conversion of types of streams to Arrow schemas, and back.


def schema_of_type(type_info: TypeInformation | None) -> pa.Schema:
    """Return one column for each field of rows and tuples, else the one column `value`.

    The type of a declared schema decides which of its columns may be null. Raises TypeError if no type is
    declared.
    """
    if type_info is None:
        raise TypeError(
            "records without a declared type do not have columns: declare the output type of their operator"
        )
    kind = arrow_type(type_info)
    rows = isinstance(type_info, RowTypeInfo | TupleTypeInfo)
    fields = list(kind) if rows else [pa.field(VALUE_COLUMN, kind)]
    known = getattr(type_info, "spark_schema", None)
    if known is not None:
        fields = [
            field.with_nullable(column.nullable) for field, column in zip(fields, known.carried, strict=True)
        ]
    return pa.schema(fields)


def column_keys(
    type_info: TypeInformation | None, names: str | Sequence[str]
) -> tuple[ColumnKeys, TypeInformation]:
    """Return keys made of fields of a stream's records, and their type: the field's, or a tuple of them.

    Raises TypeError if the records do not have named fields, ValueError for a field that they lack.
    """
    if not isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        raise TypeError(f"keys by name need records with fields, got records of type {type_info}")
    schema = schema_of_type(type_info)
    wanted = [names] if isinstance(names, str) else list(names)
    missing = [name for name in wanted if name not in schema.names]
    if missing or not wanted:
        raise ValueError(
            f"key fields must be among {', '.join(schema.names)}, got {', '.join(missing) or 'none'}"
        )
    positions = [schema.names.index(name) for name in wanted]
    types = [type_as_key(type_info.get_field_types()[position]) for position in positions]
    return ColumnKeys(wanted, positions), types[0] if len(types) == 1 else TupleTypeInfo(types)


def type_as_key(type_info: TypeInformation) -> TypeInformation:
    """Return the type of keys made of a field: for bytes Spark's type, as Flink's arrays cannot be keys."""
    if not is_bytes(type_info):
        return type_info
    from pyspark.sql.types import BinaryType

    from penstock.operators.common.spark_types import SparkTypeInfo

    return SparkTypeInfo(BinaryType())


class StreamSettings:
    """A stream as the result of an operator: `transformation` of the environment `environment`.

    Streams of a virtual transformation (union, partition, side output) do not have an operator: methods that
    would set something on it raise TypeError.
    """

    def __init__(self, environment: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._environment = environment
        self._transformation = transformation
        self._non_parallel = False

    if TYPE_CHECKING:

        def _stream(self, transformation: Transformation) -> DataStream: ...

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._operator("get_name").name

    def name(self, name: str) -> Self:
        """Name the operator.

        Args:
            name: Appears in plans and messages.

        Returns:
            DataStream: This stream.
        """
        self._name_operator("name", require_text(name, "name"))
        return self

    def uid(self, uid: str) -> Self:
        """Give the operator an id that survives changes of the job.

        Args:
            uid: Unique in the job; its hash becomes the operator id.

        Returns:
            DataStream: This stream.
        """
        self._name_operator("uid", None if uid is None else require_text(uid, "uid"))
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the operator id itself.

        Args:
            uid_hash: 32 hex digits.

        Returns:
            DataStream: This stream.

        Raises:
            ValueError: Anything else.
        """
        self._name_operator("uid_hash", check_uid_hash(uid_hash))
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks.

        Args:
            parallelism: 1 or more; -1: the environment's.

        Returns:
            DataStream: This stream.

        Raises:
            ValueError: Out of range, or more than 1 for an operator with one subtask.
        """
        operator = self._operator("set_parallelism")
        operator.parallelism = check_parallelism(parallelism, self._can_be_parallel())
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups.

        Args:
            max_parallelism: 1 to 32768.

        Returns:
            DataStream: This stream.

        Raises:
            ValueError: Out of range.
        """
        operator = self._operator("set_max_parallelism")
        operator.max_parallelism = check_max_parallelism(max_parallelism, self._can_be_parallel())
        return self

    def force_non_parallel(self) -> Self:
        """Fix the parallelism at 1.

        Returns:
            DataStream: This stream.
        """
        operator = self._operator("force_non_parallel")
        operator.parallelism = operator.max_parallelism = 1
        self._non_parallel = True
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set how long a result may wait in a buffer.

        It appears in plans; runs ignore it.

        Args:
            timeout_millis: Milliseconds, 0 or more; -1: until the buffer is full.

        Returns:
            DataStream: This stream.
        """
        self._operator("set_buffer_timeout").buffer_timeout = check_buffer_timeout(timeout_millis)
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator to its inputs.

        Returns:
            DataStream: This stream.
        """
        self._operator("start_new_chain").chaining = "HEAD"
        return self

    def disable_chaining(self) -> Self:
        """Chain the operator to nothing.

        Returns:
            DataStream: This stream.
        """
        self._operator("disable_chaining").chaining = "NEVER"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Put the operator's subtasks into slots of a group.

        Args:
            slot_sharing_group: A name, or a SlotSharingGroup with resources, which is registered.

        Returns:
            DataStream: This stream.
        """
        set_slot_sharing_group(self._operator("slot_sharing_group"), slot_sharing_group)
        return self

    def set_description(self, description: str) -> Self:
        """Describe the operator, for plans.

        Args:
            description: A longer text than the name.

        Returns:
            DataStream: This stream.
        """
        self._operator("set_description").description = require_text(description, "description")
        return self

    def get_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the stream."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the environment's ExecutionConfig."""
        return self._environment.get_config()

    def _operator(self, method: str) -> Transformation:
        operator = self._transformation
        if operator.kind in VIRTUAL_KINDS:
            raise TypeError(f"{method}: a stream from {operator.name} does not have an operator")
        return operator

    def _name_operator(self, setting: str, value: str | None) -> None:
        operator = self._operator("set_uid_hash" if setting == "uid_hash" else setting)
        setattr(operator, setting, value)
        operator.set_at[setting] = line_of_script()

    def _is_keyed(self) -> bool:
        """Whether the stream's records reach Flink as Rows of key and record."""
        return self._transformation.call is Call.KEY_BY

    def _can_be_parallel(self) -> bool:
        return not self._non_parallel

    def _append_operator(
        self, name: str, operator: Any, output_type: TypeInformation | None, **settings: Any
    ) -> DataStream:
        """Register a new operator on this stream with the environment, and return its stream."""
        appended = self._environment.add_operator(
            Transformation(
                kind=settings.pop("kind", "one_input"),
                name=name,
                inputs=[self._transformation],
                operator=operator,
                pickled=None if operator is None else PickledCopy(operator, name),
                output_type=output_type,
                **settings,
            )
        )
        return self._stream(appended)


# The line of a script that calls a method.


_OWN = str(Path(__file__).parents[2])


def line_of_script() -> str:
    """Return `file:line` of the nearest caller outside Penstock; an empty string if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
