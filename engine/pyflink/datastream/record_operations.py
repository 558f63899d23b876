"""Operations on the single records of a stream.

Source: pyflink.datastream.data_stream.DataStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, overload

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.pyflink.datastream.environment_options import EnvironmentOptions
from penstock.engine.pyflink.datastream.operator_settings import (
    PickledCopy,
    as_output_type,
    check_function,
    check_methods,
    check_parallelism,
    check_uid_hash,
    set_slot_sharing_group,
    side_output_type,
)
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings, schema_of_type
from penstock.engine.run.runtime.transformations import (
    VIRTUAL_KINDS,
    Call,
    Transformation,
    effective_parallelism,
)
from penstock.operators.common.arguments import require_text
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.time import WatermarkStrategy
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
    TupleTypeInfo,
    TypeInformation,
    Types,
    part_converter,
)
from penstock.operators.connectors.sink import CollectSink, PrintSink, Sink
from penstock.operators.functions.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from penstock.operators.process.keyed_process_operators import (
    KeyedCoFlatMapOperator,
    KeyedCoMapOperator,
    KeyedCoProcessOperator,
)
from penstock.operators.process.process_operators import CoProcessOperator, ProcessOperator
from penstock.operators.records.key_selection import KeyedRow
from penstock.operators.records.map_records import FilterOperator, FlatMapOperator, MapOperator
from penstock.operators.records.record_batches import (
    CoFlatMapOperator,
    CoMapOperator,
    ExtractTimestampsOperator,
    FilterBatchesOperator,
    MapBatchesOperator,
    Projection,
    TimestampsAndWatermarksOperator,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.pyflink.datastream.data_stream import DataStream


# Outputs of a stream: sinks, this process, side outputs, a DataFrame.
#
# Source: pyflink.datastream.data_stream.{DataStream,CloseableIterator};
# org.apache.flink.streaming.api.datastream.DataStream.


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
    """A registered sink; its methods name and place it."""

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


# Two streams that one operator reads.
#
# Source: pyflink.datastream.data_stream.ConnectedStreams.


_Selectors = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class ConnectedStreams:
    """Two streams that one function reads; keyed if both are keyed.

    If only one is, its records are rows of key and record, without state per key.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: DeclaredType | None = None,
    ) -> ConnectedStreams:
        """Partition both streams by keys of one type.

        Args:
            key_selector1: Key of the first stream: a function or KeySelector.
            key_selector2: Key of the second stream.
            key_type: Type of the keys; default: pickled Python objects.

        Returns:
            ConnectedStreams: Both keyed.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Transform each record into at most one result.

        Args:
            func: A CoMapFunction; a result of None is omitted.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_methods(func, CoMapFunction, "map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoMapOperator(func, *selectors) if selectors else CoMapOperator(func)
        return self._result("Co-Map", operator, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Transform each record into any number of results.

        Args:
            func: A CoFlatMapFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_methods(func, CoFlatMapFunction, "flat_map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoFlatMapOperator(func, *selectors) if selectors else CoFlatMapOperator(func)
        return self._result("Co-Flat Map", operator, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into any number of results, also to side outputs.

        On keyed streams, the function has state and timers.

        Args:
            func: A CoProcessFunction or KeyedCoProcessFunction; either fits either kind of streams, as in
                PyFlink.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_methods(func, (CoProcessFunction, KeyedCoProcessFunction), "process's function")
        selectors = self._selectors()
        if selectors is None:
            return self._result("Co-Process", CoProcessOperator(func), output_type)
        return self._result("Keyed Co-Process", KeyedCoProcessOperator(func, *selectors), output_type)

    def _selectors(self) -> _Selectors | None:
        first, second = self.stream1._key_selector_or_none(), self.stream2._key_selector_or_none()
        if first is None or second is None:
            return None
        types = [stream._transformation.key_type for stream in (self.stream1, self.stream2)]
        if types[0] != types[1]:
            raise TypeError(f"connected keyed streams must have one key type, got {types[0]} and {types[1]}")
        return first, second

    def _result(self, name: str, operator: Any, output_type: TypeInformation | None) -> DataStream:
        selectors = self._selectors()
        if selectors is None:
            operator.rows = tuple(
                None if (selector := stream._key_selector_or_none()) is None else KeyedRow(selector)
                for stream in (self.stream1, self.stream2)
            )
        return self.stream1._connected_with(
            self.stream2,
            name,
            operator,
            as_output_type(output_type),
            key_selectors=selectors or (),
            call=Call.CO_PROCESS,
        )


# Streams without an operator that could be named, placed or chained.
#
# Source: pyflink.datastream.data_stream.{KeyedStream,CachedDataStream}.


class UnsettableStream(StreamSettings):
    """A stream without an operator of its own: each method that would set something raises TypeError."""

    def _refuse(self, operation: str) -> NoReturn:
        raise TypeError(
            f"{operation} of a {type(self).__name__} is not supported, because it has no operator: "
            "call it on the stream before or after it"
        )

    def get_name(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("get_name")

    def name(self, name: str) -> NoReturn:
        """Refuse a name: the stream has no operator.

        Args:
            name: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("name")

    def uid(self, uid: str) -> NoReturn:
        """Refuse an id: the stream has no operator.

        Args:
            uid: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Refuse an operator id: the stream has no operator.

        Args:
            uid_hash: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Refuse a parallelism: the stream has no operator.

        Args:
            parallelism: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Refuse a number of key groups: the stream has no operator.

        Args:
            max_parallelism: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Refuse a buffer timeout: the stream has no operator.

        Args:
            timeout_millis: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        """Refuse a slot sharing group: the stream has no operator.

        Args:
            slot_sharing_group: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("slot_sharing_group")

    def set_description(self, description: str) -> NoReturn:
        """Refuse a description: the stream has no operator.

        Args:
            description: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_description")


#: A pyarrow RecordBatch to another, or to several.
BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]]


class RecordOperations(StreamSettings):
    """map, flat_map, filter, process, project, timestamps."""

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into one result.

        Args:
            func: A function of a record, or a MapFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_function(func, MapFunction, "map's function")
        return self._append_operator("Map", MapOperator(func), as_output_type(output_type), call=Call.PROCESS)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into any number of results.

        Args:
            func: A function of a record that returns or yields results, or a FlatMapFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_function(func, FlatMapFunction, "flat_map's function")
        return self._append_operator(
            "FlatMap", FlatMapOperator(func), as_output_type(output_type), call=Call.PROCESS
        )

    def filter(self, func: Callable[[Any], Any] | FilterFunction | pc.Expression) -> DataStream:
        """Keep the records for which a condition is true.

        Args:
            func: A function of a record, a FilterFunction, or a pyarrow compute expression over the fields.

        Returns:
            DataStream: The records that are kept, of the same type.
        """
        if isinstance(func, pc.Expression):
            return self._append_operator(
                "Filter", FilterBatchesOperator(func), self._transformation.output_type
            )
        check_function(func, FilterFunction, "filter's function")
        return self._append_operator(
            "Filter", FilterOperator(func), self._transformation.output_type, call=Call.PROCESS
        )

    def process(
        self, func: ProcessFunction | KeyedProcessFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into any number of results, also to side outputs.

        Args:
            func: A ProcessFunction; as in PyFlink, a KeyedProcessFunction that uses neither key nor timers
                will do.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results; `get_side_output` returns the others.
        """
        check_methods(func, (ProcessFunction, KeyedProcessFunction), "process's function")
        return self._append_operator(
            "PROCESS", ProcessOperator(func), as_output_type(output_type), call=Call.PROCESS
        )

    def map_batches(
        self, func: BatchFunction, schema: pa.Schema | TypeInformation | str | None = None
    ) -> DataStream:
        """Transform record batches, vectorised.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink. The stream must have a declared type of rows, tuples or basic values: a batch has one
        column per field, or the one column `value`. Columns are cast to the schema's types if nothing is
        lost; decimals are rounded.

        Args:
            func: A function of a pyarrow.RecordBatch that returns one or yields several.
            schema: A pyarrow.Schema or Spark type of the results; default: the columns of the input.

        Returns:
            DataStream: Rows with the columns of `schema`.
        """
        if not callable(func):
            raise TypeError(f"map_batches's function must be a callable, got {type(func).__name__}")
        input_type = self._transformation.output_type
        output_type = input_type if schema is None else as_output_type(schema)
        operator = MapBatchesOperator(
            func,
            schema_of_type(input_type),
            schema_of_type(output_type),
            schema.names if isinstance(schema, pa.Schema) else None,
        )
        return self._append_operator("Map Batches", operator, output_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of a stream of tuples.

        Args:
            *field_indexes: Numbers of fields, from 0, in the order of the result.

        Returns:
            DataStream: Tuples of these fields.

        Raises:
            TypeError: The stream has no tuple type.
        """
        input_type = self._transformation.output_type
        if not isinstance(input_type, TupleTypeInfo):
            raise TypeError(f"project: the stream must have a tuple type, got {self.get_type()}")
        types = input_type.get_field_types()
        if not 1 <= len(field_indexes) <= 24:
            raise ValueError(f"project must get 1 to 24 fields, got {len(field_indexes)}")
        for index in field_indexes:
            if not 0 <= index < len(types):
                raise IndexError(f"project: a field must be from 0 to {len(types) - 1}, got {index}")
        output_type = TupleTypeInfo([types[index] for index in field_indexes])
        return self._append_operator(
            "Projection",
            MapOperator(Projection(field_indexes)),
            output_type,
            call=Call.PROJECT,
            made_at_once=1 + self._is_keyed(),
        )

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the records event time and watermarks.

        With a timestamp assigner, three operators do it, as in PyFlink; the last has the environment's
        parallelism.

        Args:
            watermark_strategy: A WatermarkStrategy.

        Returns:
            DataStream: The same records.
        """
        assigner = watermark_strategy.timestamp_assigner
        operator = TimestampsAndWatermarksOperator(replace(watermark_strategy, timestamp_assigner=None))
        settings: dict[str, Any] = {"call": Call.TIMESTAMPS}
        name = "Timestamps/Watermarks"
        if assigner is None:
            settings["default_parallelism"] = effective_parallelism(self._transformation)
        else:
            extract = ExtractTimestampsOperator(assigner)
            settings |= {"timestamp_extractor": PickledCopy(extract, "Extract-Timestamp"), "made_at_once": 3}
            name = "Remove-Timestamp"
        return self._append_operator(name, operator, self._transformation.output_type, **settings)
