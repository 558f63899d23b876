"""Outputs of a stream: sinks, side outputs, this process, a DataFrame.

Source: pyflink.datastream.data_stream.{DataStream,CloseableIterator};
org.apache.flink.streaming.api.datastream.DataStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, overload

from penstock.engine.pyflink.datastream.environment_options import EnvironmentOptions
from penstock.engine.pyflink.datastream.operator_settings import (
    check_parallelism,
    check_uid_hash,
    set_slot_sharing_group,
    side_output_type,
)
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings
from penstock.engine.run.lowering.transformations import (
    VIRTUAL_KINDS,
    Call,
    Transformation,
    effective_parallelism,
)
from penstock.operators.common.arguments import require_text
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    Convert,
    ExternalTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
    part_converter,
)
from penstock.operators.connectors.sink import CollectSink, PrintSink, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.pyflink.datastream.data_stream import DataStream


class Closeable(Protocol):
    """An iterator that can be closed."""

    def __iter__(self) -> Iterator[Any]: ...

    def __next__(self) -> Any: ...

    def close(self) -> None:
        """Discard the remaining results."""


class CloseableIterator:
    """Iterates over `results`; closed, it has none."""

    def __init__(self, results: Closeable) -> None:
        self._results = results

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    def next(self) -> Any:
        """The next result. StopIteration where there is none."""
        return next(self._results)

    def close(self) -> None:
        """Give up the rest: a job that is still running is cancelled."""
        self._results.close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Records as `execute_and_collect` returns them; functions get arrays of bytes in another form.
#
# Source: pyflink.datastream.utils.pickled_bytes_to_python_obj.


def collected_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """Convert records of type `type_info`: arrays of BYTE, at any depth, become lists of -128 to 127."""
    convert = part_converter(type_info, _bytes_converter)
    return values if convert is None else list(map(convert, values))


def _bytes_converter(type_info: TypeInformation) -> Convert | None:
    if isinstance(type_info, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)):
        element_type = type_info._element_type
    elif isinstance(type_info, ListTypeInfo):
        element_type = type_info.elem_type
    else:
        return None
    if isinstance(element_type, BasicTypeInfo) and element_type._basic_type is BasicType.BYTE:
        return lambda value: list(memoryview(value).cast("b")) if isinstance(value, bytes) else value
    return None


#: Flink's names of jobs and sinks (DataStream.executeAndCollect, CollectStreamSink).
COLLECT_JOB = "DataStream Collect"
COLLECT_SINK = "Data stream collect sink"


class StreamOutputs(StreamSettings):
    """add_sink, sink_to, print, execute_and_collect, to_dataframe, get_side_output."""

    def add_sink(self, sink_func: Sink) -> DataStreamSink:
        """Write the records to a sink function.

        Args:
            sink_func: A sink of penstock.connectors; each is a sink function, too.

        Returns:
            DataStreamSink: To name and place the sink.
        """
        return self._sink_to(sink_func, "Unnamed", Call.ADD_SINK, 1 + self._is_keyed())

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records to a sink.

        Args:
            sink: A sink of penstock.connectors.

        Returns:
            DataStreamSink: To name and place the sink.
        """
        transformer = sink.get_transformer() if hasattr(sink, "get_transformer") else None
        stream = self if transformer is None else transformer.apply(self)
        return stream._sink_to(sink, "Sink", Call.SINK_TO)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print one line per record on the driver's standard output.

        Args:
            sink_identifier: Beginning of each line; with several subtasks, their number from 1 follows.

        Returns:
            DataStreamSink: To name and place the sink.
        """
        if sink_identifier is not None:
            require_text(sink_identifier, "sink_identifier")
        output_type = self._transformation.output_type
        as_text = output_type is None or isinstance(output_type, RowTypeInfo | ExternalTypeInfo)
        printed = PrintSink(sink_identifier, Types.STRING() if as_text else output_type)
        return self._sink_to(printed, "Print to Std. Out", Call.PRINT, 1 + self._is_keyed() + as_text)

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None) -> CloseableIterator: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the streams that lead to this one, and return its records.

        As in PyFlink, other registered streams run only if python.operator-chaining.enabled is false; sinks
        that are omitted are named. Without `limit`, the job waits for its reader: the iterator raises its
        errors, and closing it cancels the job.

        Args:
            job_execution_name: Name of the job.
            limit: Return at most this many records, 1 or more, as a list; the job ends with the last of them
                if nothing else is registered.

        Returns:
            CloseableIterator | list: Read it in a `with` block; a list if `limit` is given.

        Raises:
            ValueError: The limit is below 1.
            JobExecutionError: A function raised; the message names vertex, operator and record.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        sink = self._collect_sink(limit)
        self._set_written(sink)
        self._environment.add_operator(sink)
        name = job_execution_name or COLLECT_JOB
        if limit is None:
            return CloseableIterator(self._environment.collect(name, sink))
        return self._environment.collect_first(name, sink)[:limit]

    def to_dataframe(self, observe: Observation | None = None) -> DataFrame:
        """Return this stream as a Spark DataFrame, which runs when it is read.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink. Columns of `from_dataframe` that no function has touched are unchanged. Operators that
        lead only to this stream leave the environment: `execute` does not run them.

        Args:
            observe: A new pyspark.sql.Observation; after the first action it holds the metrics of functions,
                by name.

        Returns:
            DataFrame: One column per field, or one column `value`, pickled without a declared type
            (docs/inside-spark.md).

        Raises:
            TypeError: `observe` is not an Observation.
        """
        return self._environment.dataframe_of(self._dataframe_sink(), observe)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return the records that the operator has put out with a tag.

        Args:
            output_tag: The OutputTag.

        Returns:
            DataStream: Records of the tag's type.

        Raises:
            TypeError: The stream comes from no operator, or the tag's id had another type before.
        """
        operator = self._transformation
        if operator.kind in VIRTUAL_KINDS:
            raise TypeError(f"get_side_output: a stream from {operator.name} does not have side outputs")
        output_type = side_output_type(self._environment.side_output_types, operator, output_tag)
        return self._append_operator(
            "Map", None, output_type, call=Call.SIDE_OUTPUT, made_at_once=2, tag=output_tag.tag_id
        )

    def _sink_to(self, sink: Any, name: str, call: Call, made_at_once: int = 1) -> DataStreamSink:
        if not isinstance(sink, Sink):
            raise TypeError(
                f"sink must be a sink of Penstock, got {type(sink).__name__}: sinks of Java classes cannot "
                "run here"
            )
        sink_operator = self._ending(sink, name, call, made_at_once)
        if call is Call.SINK_TO:
            self._set_written(sink_operator)
        return DataStreamSink(self._environment, self._environment.add_operator(sink_operator))

    def _set_written(self, sink: Transformation) -> None:
        """Change the records that `sink` writes, if they differ from the stream's: see KeyedStream."""

    def _collect_sink(self, limit: int | None = None) -> Transformation:
        sink = self._ending(CollectSink(limit), COLLECT_SINK, Call.COLLECT, 0)
        sink.parallelism = 1
        return sink

    def _dataframe_sink(self) -> Transformation:
        """Make a sink with the stream's parallelism: a DataFrame that has enough rows stops its subtasks."""
        sink = self._ending(CollectSink(), COLLECT_SINK, Call.OWN, 1)
        sink.parallelism = effective_parallelism(self._transformation)
        return sink

    def _ending(self, sink: Sink, name: str, call: Call, made_at_once: int) -> Transformation:
        return Transformation(
            call=call,
            made_at_once=made_at_once,
            kind="sink",
            name=name,
            inputs=[self._transformation],
            operator=sink,
            output_type=self._transformation.output_type,
        )


# The end of a stream.
#
# Source: org.apache.flink.streaming.api.datastream.DataStreamSink.


class DataStreamSink:
    """A registered sink; its methods name and place it.

    Args:
        environment: The environment of the job.
        transformation: The sink.
    """

    def __init__(self, environment: EnvironmentOptions, transformation: Transformation) -> None:
        self._environment = environment
        self._transformation = transformation

    def name(self, name: str) -> DataStreamSink:
        """Name the sink.

        Args:
            name: Appears in plans and messages.

        Returns:
            DataStreamSink: This sink.
        """
        self._transformation.name = require_text(name, "name")
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink an id that survives changes of the job.

        Args:
            uid: Unique in the job.

        Returns:
            DataStreamSink: This sink.
        """
        self._transformation.uid = None if uid is None else require_text(uid, "uid")
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set the operator id itself.

        Args:
            uid_hash: 32 hex digits.

        Returns:
            DataStreamSink: This sink.

        Raises:
            ValueError: Anything else.
            TypeError: A sink of `sink_to`, whose operators have ids of their own, as in Flink.
        """
        if self._transformation.call is Call.SINK_TO:
            raise TypeError(
                "set_uid_hash: only sink functions (add_sink) can have a uid hash; after sink_to use uid"
            )
        self._transformation.uid_hash = check_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set the number of subtasks.

        Args:
            parallelism: 1 or more; -1: the environment's.

        Returns:
            DataStreamSink: This sink.

        Raises:
            ValueError: Out of range.
        """
        self._transformation.parallelism = check_parallelism(parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Describe the sink, for plans.

        Args:
            description: A longer text than the name.

        Returns:
            DataStreamSink: This sink.
        """
        self._transformation.description = require_text(description, "description")
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Do not chain the sink to its input.

        Returns:
            DataStreamSink: This sink.
        """
        self._transformation.chaining = "NEVER"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Put the sink's subtasks into slots of a group.

        Args:
            slot_sharing_group: A name, or a SlotSharingGroup with resources.

        Returns:
            DataStreamSink: This sink.
        """
        set_slot_sharing_group(self._transformation, slot_sharing_group)
        return self
