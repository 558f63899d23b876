"""Streams of records: PyFlink's module of this name.

Source: pyflink.datastream.data_stream; org.apache.flink.streaming.api.datastream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

from penstock.engine.pyflink.datastream.keyed_stream import AllWindowedStream, KeyedOperations, WindowedStream
from penstock.engine.pyflink.datastream.operator_settings import (
    PickledCopy,
    as_output_type,
    check_function,
    check_key_type,
    check_methods,
)
from penstock.engine.pyflink.datastream.record_operations import (
    ConnectedStreams,
    RecordOperations,
    UnsettableStream,
)
from penstock.engine.pyflink.datastream.stream_joins import CoGroupedStreams, JoinedStreams, KeyedIntervalJoin
from penstock.engine.pyflink.datastream.stream_outputs import CloseableIterator, DataStreamSink, StreamOutputs
from penstock.engine.pyflink.datastream.stream_settings import column_keys
from penstock.engine.run.lowering.lower_calls import KEYED_VALUES
from penstock.engine.run.lowering.transformations import Call, Transformation
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.common.time import WatermarkStrategy
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.functions.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeySelector,
    NullByteKeySelector,
    Partitioner,
)
from penstock.operators.process.keyed_process_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from penstock.operators.records.key_selection import NestedKeys, OpenedMethod, typed_keys
from penstock.operators.state.interfaces import MapStateDescriptor
from penstock.operators.windows.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.operators.windows.trigger import WindowAssigner

# Partitioning: the distribution of a stream's records to the subtasks of the next operator.
#
# Source: org.apache.flink.streaming.api.datastream.DataStream.setConnectionType;
# org.apache.flink.streaming.runtime.partitioner.


class Partitioning(RecordOperations):
    """shuffle, rebalance, rescale, forward, broadcast, global_ and partition_custom."""

    def shuffle(self) -> DataStream:
        """Send each record to a random subtask.

        The draws are the same in each run of a job.

        Returns:
            DataStream: The same records.
        """
        return self._partitioned("shuffle")

    def rebalance(self) -> DataStream:
        """Send records to all subtasks in turn.

        Returns:
            DataStream: The same records.
        """
        return self._partitioned("rebalance")

    def rescale(self) -> DataStream:
        """Send records in turn to some subtasks, a share of them for each upstream subtask.

        Returns:
            DataStream: The same records.
        """
        return self._partitioned("rescale")

    def forward(self) -> DataStream:
        """Send each record to the subtask of the same number.

        Returns:
            DataStream: The same records. The next operator must have the same parallelism.
        """
        return self._partitioned("forward")

    def global_(self) -> DataStream:
        """Send all records to the first subtask;

        Java's `global`.

        Returns:
            DataStream: The same records.
        """
        return self._partitioned("global")

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send each record to all subtasks.

        Args:
            broadcast_state_descriptor: Describes broadcast state; the result is then for `connect`.
            *other_broadcast_state_descriptors: More of them.

        Returns:
            DataStream | BroadcastStream: The latter with descriptors.
        """
        everywhere = self._partitioned("broadcast")
        if broadcast_state_descriptor is None:
            return everywhere
        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(
                    f"broadcast state must have a MapStateDescriptor, got {type(descriptor).__name__}"
                )
        return BroadcastStream(everywhere, descriptors)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Choose the subtask of each record by its key.

        Args:
            partitioner: A function of a key and the number of subtasks that returns a number below it, or a
                Partitioner.
            key_selector: A function of a record, or a KeySelector.

        Returns:
            DataStream: The same records.
        """
        check_function(partitioner, Partitioner, "partitioner")
        return self._append_operator(
            KEYED_VALUES,
            None,
            self._transformation.output_type,
            call=Call.PARTITION_CUSTOM,
            made_at_once=3,
            key_selector=PickledCopy(_selector_of(key_selector), "partition_custom"),
            custom_partitioner=PickledCopy(opened(partitioner, Partitioner, "partition"), "partition_custom"),
        )

    def _partitioned(self, partitioner: str, call: Call = Call.PARTITION, **settings: Any) -> DataStream:
        return self._stream(
            Transformation(
                call=call,
                kind="partition",
                name="Partition",
                inputs=[self._transformation],
                output_type=self._transformation.output_type,
                partitioner=partitioner,
                **settings,
            )
        )


def _selector_of(key_selector: Any) -> Callable[[Any], Any]:
    """Return the function from record to key. Raises TypeError unless it is a KeySelector or a callable."""
    check_function(key_selector, KeySelector, "key_selector")
    return opened(key_selector, KeySelector, "get_key")


def opened(function: Any, kind: type, method: str) -> Callable[..., Any]:
    """Return `method` of a function object; the plain callable `function` if it is not of class `kind`.

    The function object is opened and closed if its class overrides `open` or `close`.
    """
    if not isinstance(function, kind):
        return function  # type: ignore[no-any-return]
    if any(getattr(type(function), name) is not getattr(kind, name) for name in ("open", "close")):
        return OpenedMethod(function, method)
    return getattr(function, method)  # type: ignore[no-any-return]


# Broadcast streams: every record goes to every subtask of an operator that also reads another stream.
#
# Source: pyflink.datastream.data_stream.{BroadcastStream,BroadcastConnectedStream};
# org.apache.flink.streaming.api.transformations.{BroadcastStateTransformation,
# KeyedBroadcastStateTransformation}.


class BroadcastStream:
    """A stream that goes to every subtask, and the broadcast state made from it.

    Args:
        input_stream: The records.
        broadcast_state_descriptors: The states made from them, each under its name.
    """

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: list[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, connected with a BroadcastStream.

    Args:
        non_broadcast_stream: The stream whose records each go to one subtask.
        broadcast_stream: The stream whose records go to all subtasks.
        broadcast_state_descriptors: The states made from the broadcast stream.
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """Process the records of both streams; in BATCH mode all broadcast records come first.

        Args:
            func: A KeyedBroadcastProcessFunction for a keyed stream, else a BroadcastProcessFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.

        Raises:
            TypeError: The function is of the other kind.
        """
        stream = self.non_broadcast_stream
        selector = stream._key_selector_or_none()
        if selector is None:
            _check(func, BroadcastProcessFunction, KeyedBroadcastProcessFunction, "a stream without keys")
            return stream._connected_with(
                self.broadcast_stream.input_stream,
                "Co-Process-Broadcast",
                BroadcastProcessOperator(func, self.broadcast_state_descriptors),
                as_output_type(output_type),
                call=Call.BROADCAST_PROCESS,
            )
        _check(func, KeyedBroadcastProcessFunction, BroadcastProcessFunction, "a keyed stream")
        return stream._connected_with(
            self.broadcast_stream.input_stream,
            "Keyed-Co-Process-Broadcast",
            KeyedBroadcastProcessOperator(func, selector, self.broadcast_state_descriptors),
            as_output_type(output_type),
            key_selectors=(selector,),
            call=Call.BROADCAST_PROCESS,
        )


def _check(func: Any, kind: type, other: type, stream: str) -> None:
    if isinstance(func, other):
        raise TypeError(f"the function of {stream} must be a {kind.__name__}, got a {other.__name__}")
    check_methods(func, kind, f"the function of {stream}")


__all__ = [
    "AllWindowedStream", "BroadcastConnectedStream", "BroadcastStream", "CachedDataStream",
    "CloseableIterator", "ConnectedStreams", "DataStream", "DataStreamSink", "KeyedStream",
    "WindowedStream"
]  # fmt: skip


class DataStream(StreamOutputs, Partitioning):
    """A stream of records of one type.

    Transformations return new streams and register their operator; nothing runs before `execute`.

    Args:
        environment: The environment of the job.
        transformation: The operator whose output this stream is.

    Examples:
        >>> from penstock.common import Types
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to", "be"], Types.STRING())
        >>> pairs = words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        >>> counts = pairs.key_by(lambda pair: pair[0]).sum(1)
        >>> [node["name"] for node in env.get_stream_graph()["nodes"]]
        ['Source: Collection Source', 'Reduce', 'Map, _stream_key_by_map_operator']
    """

    def _stream(self, transformation: Transformation) -> DataStream:
        return DataStream(self._environment, transformation)

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | Sequence[str],
        key_type: DeclaredType | None = None,
    ) -> KeyedStream:
        """Partition the stream by a key: records of equal keys go to the same subtask.

        Penstock's own: PyFlink lacks it.

        Of fields, keys have the fields' types.

        Args:
            key_selector: A function of a record, or a KeySelector. Not in PyFlink: a field's name or several;
                record batches then stay record batches.
            key_type: Type of the keys; default: pickled Python objects, hashed by their bytes.

        Returns:
            KeyedStream: The same records.
        """
        if isinstance(key_selector, str | list | tuple):
            columns, column_type = column_keys(self._transformation.output_type, key_selector)
            declared = check_key_type(column_type)
            by_columns = self._partitioned("hash", key_selector=columns, key_type=declared)
            return KeyedStream(by_columns._transformation, self, columns)
        declared = check_key_type(as_output_type(key_type))
        selector: Any = PickledCopy(typed_keys(_selector_of(key_selector), declared), "key_by")
        keyed = self._partitioned(
            "hash",
            call=Call.KEY_BY,
            made_at_once=2,
            default_parallelism=self._environment.get_parallelism(),
            key_selector=selector,
            key_type=declared,
        )
        self._environment.add_operator(keyed._transformation)
        row = None
        if not isinstance(key_selector, NestedKeys):
            row = Types.ROW([declared or Types.PICKLED_BYTE_ARRAY(), self.get_type()])
        return KeyedStream(keyed._transformation, self, selector, row)

    def union(self, *streams: DataStream) -> DataStream:
        """Merge streams of one type.

        Args:
            *streams: Other streams.

        Returns:
            DataStream: The records of all of them.

        Raises:
            TypeError: The types differ.
        """
        mine = self._transformation.output_type
        for stream in streams:
            theirs = stream._transformation.output_type
            if theirs != mine:
                raise TypeError(
                    f"the streams of a union must have the same type, got {self.get_type()} and "
                    f"{stream.get_type()}"
                )
        inputs = [stream._transformation for stream in (self, *streams)]
        if hasattr(mine, "spark_schema"):  # from a DataFrame: columns of the others may be null
            from penstock.operators.common.spark_schemas import with_any_nulls

            mine = with_any_nulls([transformation.output_type for transformation in inputs])
        keyed = sum(transformation.call is Call.KEY_BY for transformation in inputs)
        united = Transformation(
            call=Call.UNION,
            kind="union",
            name="Union",
            inputs=inputs,
            output_type=mine,
            made_at_once=1 + keyed,
            environment_parallelism=self._environment.get_parallelism(),
        )
        if keyed:
            self._environment.add_operator(united)
        return self._stream(united)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect this stream with another, whose type may differ.

        Args:
            ds: A DataStream, or a BroadcastStream.

        Returns:
            ConnectedStreams | BroadcastConnectedStream: The latter for a BroadcastStream.
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Cut the whole stream into windows, in one subtask.

        Args:
            window_assigner: A WindowAssigner.

        Returns:
            AllWindowedStream: Its methods transform the windows.
        """
        return AllWindowedStream(self.key_by(NullByteKeySelector()), window_assigner)

    def cache(self) -> CachedDataStream:
        """Compute this stream once: by the first job that reads it, for all jobs of the environment.

        Returns:
            CachedDataStream: The same records.
        """
        cached = Transformation(
            call=Call.CACHE,
            kind="union",
            name="Cache",
            inputs=[self._transformation],
            output_type=self._transformation.output_type,
        )
        self._environment.register_cache(cached)
        return CachedDataStream(self._environment, cached)

    def join(self, other: DataStream) -> JoinedStreams:
        """Join with another stream, by key and window:

        `join(other).where(…).equal_to(…).window(…).apply(…)`. Not in PyFlink.

        Args:
            other: A DataStream.

        Returns:
            JoinedStreams: The next step of the call.
        """
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """Group two streams by key and window:

        `co_group(other).where(…).equal_to(…).window(…).apply(…)`. Not in PyFlink.

        Args:
            other: A DataStream.

        Returns:
            CoGroupedStreams: The next step of the call.
        """
        return CoGroupedStreams(self, other)

    def _key_selector_or_none(self) -> Callable[[Any], Any] | None:
        return None

    def _connected_with(
        self,
        other: DataStream,
        name: str,
        operator: Any,
        output_type: TypeInformation | None,
        key_selectors: tuple[Callable[[Any], Any], ...] = (),
        call: Call = Call.OWN,
    ) -> DataStream:
        """Register a new operator of two inputs with the environment, and return its stream."""
        connected = Transformation(
            call=call,
            kind="two_input",
            name=name,
            inputs=[self._transformation, other._transformation],
            operator=operator,
            pickled=PickledCopy(operator, name),
            output_type=output_type,
            key_selectors=key_selectors,
        )
        return self._stream(self._environment.add_operator(connected))


class KeyedStream(KeyedOperations, UnsettableStream, DataStream):  # type: ignore[misc]
    """A stream partitioned by key; operators that read it have state and timers per key.

    Args:
        partitioned: The stream after its exchange by key.
        origin: The stream before `key_by`.
        key_selector: Gives a record's key.
        row_type: What `get_type` returns; default: the type of the records.
    """

    def __init__(
        self,
        partitioned: Transformation,
        origin: DataStream,
        key_selector: Callable[[Any], Any],
        row_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(origin._environment, partitioned)
        self._origin_stream = origin
        self._key_selector = key_selector
        self._row_type = row_type

    def get_type(self) -> TypeInformation:
        """The type of rows of key and record, as in PyFlink; if keys are fields by name, of the records."""
        return self._row_type or super().get_type()

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | Sequence[str],
        key_type: DeclaredType | None = None,
    ) -> KeyedStream:
        """By other keys, instead of these.

        Args:
            key_selector: A function of a record, or a KeySelector. Not in PyFlink: a field's name or several.
            key_type: Type of the keys; default: pickled Python objects, hashed by their bytes.

        Returns:
            KeyedStream: The same records.
        """
        return self._origin_stream.key_by(key_selector, key_type)

    def interval_join(self, other: KeyedStream) -> KeyedIntervalJoin:
        """Join with another keyed stream: pairs of equal keys that are close in event time.

        Args:
            other: A KeyedStream.

        Returns:
            KeyedIntervalJoin: `between(…).process(…)` goes on.
        """
        return KeyedIntervalJoin(self, other)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Cut the records of each key into windows.

        Args:
            window_assigner: A WindowAssigner.

        Returns:
            WindowedStream: Its methods transform the windows.
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Cut the records of each key into windows by their number.

        Args:
            size: Records in a window, 1 or more.
            slide: Records from one start to the next; default 0: windows do not overlap.

        Returns:
            WindowedStream: Its methods transform the windows.
        """
        if slide == 0:
            return WindowedStream(self, CountTumblingWindowAssigner(size))
        return WindowedStream(self, CountSlidingWindowAssigner(size, slide))

    def shuffle(self) -> NoReturn:
        """Raises TypeError, as does everything that would separate records from their key."""
        self._keep_partitioning()

    def rebalance(self) -> NoReturn:
        """Raises TypeError."""
        self._keep_partitioning()

    def rescale(self) -> NoReturn:
        """Raises TypeError."""
        self._keep_partitioning()

    def forward(self) -> NoReturn:
        """Raises TypeError."""
        self._keep_partitioning()

    def global_(self) -> NoReturn:
        """Raises TypeError."""
        self._keep_partitioning()

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> NoReturn:
        """Raises TypeError.

        Args:
            broadcast_state_descriptor: Any.
            *other_broadcast_state_descriptors: Any.

        Raises:
            TypeError: Always: a keyed stream cannot be broadcast. Broadcast the stream before `key_by`.
        """
        self._keep_partitioning()

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> NoReturn:
        """Raises TypeError.

        Args:
            partitioner: Any.
            key_selector: Any.

        Raises:
            TypeError: Always: a keyed stream is partitioned by its key.
        """
        self._keep_partitioning()

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """As for other streams, of rows of key and record: what PyFlink's keyed streams consist of.

        TypeError for a strategy with a timestamp assigner, which PyFlink refuses, too.

        Args:
            watermark_strategy: A strategy without timestamp assigner.

        Returns:
            DataStream: Rows of key and record.

        Raises:
            TypeError: The strategy has a timestamp assigner.
        """
        if watermark_strategy.timestamp_assigner is not None:
            raise TypeError("a KeyedStream cannot have a timestamp assigner: assign timestamps before key_by")
        stamped = super().assign_timestamps_and_watermarks(watermark_strategy)
        self._give_rows(stamped._transformation)
        return stamped

    def cache(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("cache")

    def _set_written(self, sink: Transformation) -> None:
        """Let `sink` write rows of key and record, the records of PyFlink's keyed streams."""
        self._give_rows(sink)

    def _give_rows(self, reader: Transformation) -> None:
        """Let `reader`, an operator on this stream, emit rows of key and record."""
        key_type = self._transformation.key_type or Types.PICKLED_BYTE_ARRAY()
        reader.output_type = Types.ROW([key_type, self._origin_stream.get_type()])
        reader.key_selector = self._key_selector

    def _keep_partitioning(self) -> NoReturn:
        raise TypeError("the partitioning of a KeyedStream cannot be overridden: repartition before key_by")

    def _key_selector_or_none(self) -> Callable[[Any], Any]:
        return self._key_selector


class CachedDataStream(UnsettableStream, DataStream):
    """A stream whose records are kept once a job has computed them."""

    def invalidate(self) -> None:
        """Forget the records; the next job that reads the stream computes them again."""
        self._environment.invalidate_cache(self._transformation)
