"""Where the records of a stream end: sinks, this process, side outputs, a DataFrame.

Source: pyflink.datastream.data_stream.DataStream; org.apache.flink.streaming.api.datastream.DataStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, overload

from penstock.engine.pyflink.common.typeinfo import ExternalTypeInfo, RowTypeInfo, Types
from penstock.engine.pyflink.datastream.environment_options import EnvironmentOptions
from penstock.engine.pyflink.datastream.operator_settings import (
    check_parallelism,
    check_uid_hash,
    set_slot_sharing_group,
)
from penstock.engine.pyflink.datastream.output_tag import OutputTag
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.pyflink.datastream.source_checks import side_output_type
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings
from penstock.engine.run.runtime.transformations import (
    VIRTUAL_KINDS,
    Call,
    Transformation,
    effective_parallelism,
)
from penstock.operators.common.arguments import require_text
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    Convert,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TypeInformation,
    part_converter,
)
from penstock.operators.connectors.sink import CollectSink, PrintSink, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.pyflink.datastream.data_stream import DataStream


# Results of a job, one by one. Source: pyflink.datastream.data_stream.CloseableIterator.


class Closeable(Protocol):
    """An iterator that can be closed."""

    def __iter__(self) -> Iterator[Any]: ...

    def __next__(self) -> Any: ...

    def close(self) -> None:
        """Give up the rest."""


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


# Records as `execute_and_collect` gives them, which differs from how functions see them for arrays of
# bytes.
#
# Source: pyflink.datastream.utils.pickled_bytes_to_python_obj.


def collected_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """The records of type `type_info`; arrays of BYTE become lists of ints from -128 to 127, at any depth."""
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
        """Write the records to a sink function; Penstock's sinks are both sinks and sink functions."""
        return self._sink_to(sink_func, "Unnamed", Call.ADD_SINK, 1 + self._is_keyed())

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records to a sink, after the transformer that the sink may bring."""
        transformer = sink.get_transformer() if hasattr(sink, "get_transformer") else None
        stream = self if transformer is None else transformer.apply(self)
        return stream._sink_to(sink, "Sink", Call.SINK_TO)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print one line for each record on the driver's standard output.

        Each line begins with `sink_identifier` and, if there are several subtasks, their number from 1.
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
        """Run what this stream reads, and give its records.

        As in PyFlink, what else is registered with the environment runs, too, only where
        `python.operator-chaining.enabled` is false; otherwise it is left out, which is said of sinks.

        Without `limit`, records are read while the job runs: it waits for its reader, what it fails with is
        raised by the iterator, and closing or losing the iterator cancels it. With `limit`, the call gives a
        list of at most that many records; if nothing else is registered, the job ends as soon as it has
        them. Raises ValueError for a limit below 1, and what `execute` raises.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit {limit}: at least 1")
        sink = self._collect_sink(limit)
        self._set_written(sink)
        self._environment.add_operator(sink)
        name = job_execution_name or COLLECT_JOB
        if limit is None:
            return CloseableIterator(self._environment.collect(name, sink))
        return self._environment.collect_first(name, sink)[:limit]

    def to_dataframe(self, observe: Observation | None = None) -> DataFrame:
        """This stream as a Spark DataFrame, lazily: it runs when the DataFrame does.

        Penstock's own. One column for each field, or one column `value`, pickled if no type is declared.
        Columns of `from_dataframe` that no function has touched are as they were there. The operators that
        lead to the stream leave the environment: execute does not run them too, unless others still read
        them. Several results of one run: `env.to_dataframes`.

        `observe`, a new `pyspark.sql.Observation`, gets the metrics of the functions that run with the
        DataFrame: once its first action has ended, `observe.get` has their values by name. TypeError for
        anything else.
        """
        return self._environment.dataframe_of(self._dataframe_sink(), observe)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The records that the operator before put out with this tag, after a map that settings are for.

        TypeError where the stream comes from no operator, or gave the tag's id with another type before.
        """
        operator = self._transformation
        if operator.kind in VIRTUAL_KINDS:
            raise TypeError(f"get_side_output: a stream that comes from {operator.name} has no side outputs")
        output_type = side_output_type(self._environment.side_output_types, operator, output_tag)
        return self._append_operator(
            "Map", None, output_type, call=Call.SIDE_OUTPUT, made_at_once=2, tag=output_tag.tag_id
        )

    def _sink_to(self, sink: Any, name: str, call: Call, made_at_once: int = 1) -> DataStreamSink:
        if not isinstance(sink, Sink):
            raise TypeError(
                f"{type(sink).__name__} is no sink of Penstock: sinks of Java classes have no meaning here"
            )
        sink_operator = self._ending(sink, name, call, made_at_once)
        if call is Call.SINK_TO:
            self._set_written(sink_operator)
        return DataStreamSink(self._environment, self._environment.add_operator(sink_operator))

    def _set_written(self, sink: Transformation) -> None:
        """Let `sink` read what it is to write, where that is not the stream's records: see KeyedStream."""

    def _collect_sink(self, limit: int | None = None) -> Transformation:
        sink = self._ending(CollectSink(limit), COLLECT_SINK, Call.COLLECT, 0)
        sink.parallelism = 1
        return sink

    def _dataframe_sink(self) -> Transformation:
        """Where the records are, as many subtasks: a DataFrame that has enough rows then stops them."""
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
        """Name the sink."""
        self._transformation.name = require_text(name, "name")
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink an id that stays the same when the job changes; unique in the job."""
        self._transformation.uid = None if uid is None else require_text(uid, "uid")
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set the sink's id itself: 32 hex digits. ValueError for anything else.

        TypeError for a sink of `sink_to`, as in Flink: it becomes operators with ids of their own.
        """
        if self._transformation.call is Call.SINK_TO:
            raise TypeError(
                "set_uid_hash: only sink functions (add_sink) take a uid hash, not sink_to; use uid"
            )
        self._transformation.uid_hash = check_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Number of subtasks, -1 for the environment's. ValueError below."""
        self._transformation.parallelism = check_parallelism(parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """A longer text about the sink, for plans."""
        self._transformation.description = require_text(description, "description")
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Do not chain the sink to its input."""
        self._transformation.chaining = "NEVER"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Put the sink's subtasks into slots of this group."""
        set_slot_sharing_group(self._transformation, slot_sharing_group)
        return self
