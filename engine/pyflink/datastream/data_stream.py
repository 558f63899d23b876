"""Streams of records: PyFlink's module of this name.

Source: pyflink.datastream.data_stream; org.apache.flink.streaming.api.datastream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

from penstock.engine.pyflink.common.typeinfo import TypeInformation, Types
from penstock.engine.pyflink.common.watermark_strategy import WatermarkStrategy
from penstock.engine.pyflink.datastream.arrow_schemas import column_keys
from penstock.engine.pyflink.datastream.closeable_iterator import CloseableIterator
from penstock.engine.pyflink.datastream.connected_streams import ConnectedStreams
from penstock.engine.pyflink.datastream.functions import KeySelector, NullByteKeySelector, Partitioner
from penstock.engine.pyflink.datastream.keyed_stream import KeyedOperations
from penstock.engine.pyflink.datastream.operator_settings import as_output_type, check_key_type
from penstock.engine.pyflink.datastream.partitioning import (
    BroadcastConnectedStream,
    BroadcastStream,
    Partitioning,
    selector_of,
)
from penstock.engine.pyflink.datastream.pickled import Pickled
from penstock.engine.pyflink.datastream.state import MapStateDescriptor
from penstock.engine.pyflink.datastream.stream_joins import CoGroupedStreams, JoinedStreams, KeyedIntervalJoin
from penstock.engine.pyflink.datastream.stream_outputs import DataStreamSink, StreamOutputs
from penstock.engine.pyflink.datastream.unsettable_stream import UnsettableStream
from penstock.engine.pyflink.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    WindowAssigner,
)
from penstock.engine.pyflink.datastream.windowed_stream import AllWindowedStream, WindowedStream
from penstock.engine.run.runtime.transformations import Call, Transformation
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.records.key_selection import NestedKeys, typed_keys

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]


class DataStream(StreamOutputs, Partitioning):
    """Records of one type, on their way from one operator to the next."""

    def _stream(self, transformation: Transformation) -> DataStream:
        return DataStream(self._environment, transformation)

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str | Sequence[str],
        key_type: DeclaredType | None = None,
    ) -> KeyedStream:
        """Bring records of the same key to the same subtask, for what has state by key.

        Keys of no declared type are hashed by their pickled bytes. Penstock's own: names of fields as
        keys, whose types are the fields'; record batches then stay record batches.
        """
        if isinstance(key_selector, str | list | tuple):
            columns, of_columns = column_keys(self._transformation.output_type, key_selector)
            declared = check_key_type(of_columns)
            by_columns = self._partitioned("hash", key_selector=columns, key_type=declared)
            return KeyedStream(by_columns._transformation, self, columns)
        declared = check_key_type(as_output_type(key_type))
        selector: Any = Pickled(typed_keys(selector_of(key_selector), declared), "key_by")
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
        """The records of all the streams, which have the same type. TypeError where they have not."""
        mine = self._transformation.output_type
        for stream in streams:
            theirs = stream._transformation.output_type
            if theirs != mine:
                raise TypeError(
                    f"union of streams of different types: {self.get_type()} and {stream.get_type()}"
                )
        inputs = [stream._transformation for stream in (self, *streams)]
        if hasattr(mine, "spark_schema"):  # of a DataFrame: columns of the others may be null
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
        """This stream and another of any type: ConnectedStreams; with a BroadcastStream a
        BroadcastConnectedStream.
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """All records in windows, by one subtask."""
        return AllWindowedStream(self.key_by(NullByteKeySelector()), window_assigner)

    def cache(self) -> CachedDataStream:
        """This stream, computed by the first job that reads it and kept for the others of the environment."""
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
        """Pairs of records of the same key and window: `join(s).where(…).equal_to(…).window(…).apply(…)`."""
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """The records of both streams of a key and window: `co_group(s).where(…).equal_to(…)…apply(…)`."""
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
        """A new operator of two inputs, registered with the environment."""
        operator_of_both = Transformation(
            call=call,
            kind="two_input",
            name=name,
            inputs=[self._transformation, other._transformation],
            operator=operator,
            pickled=Pickled(operator, name),
            output_type=output_type,
            key_selectors=key_selectors,
        )
        return self._stream(self._environment.add_operator(operator_of_both))


class KeyedStream(KeyedOperations, UnsettableStream, DataStream):  # type: ignore[misc]
    """A stream whose records reach the subtask of their key; what reads it has state by key."""

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
        """By other keys, instead of these."""
        return self._origin_stream.key_by(key_selector, key_type)

    def interval_join(self, other: KeyedStream) -> KeyedIntervalJoin:
        """Pairs of records of the same key that are close in event time."""
        return KeyedIntervalJoin(self, other)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """The records of each key in windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of `size` records of a key, one every `slide` records; 0: one after the other."""
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
        """Raises TypeError."""
        self._keep_partitioning()

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> NoReturn:
        """Raises TypeError."""
        self._keep_partitioning()

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """As for other streams, of rows of key and record: what PyFlink's keyed streams consist of.

        TypeError for a strategy with a timestamp assigner, which PyFlink refuses, too.
        """
        if watermark_strategy.timestamp_assigner is not None:
            raise TypeError("a KeyedStream takes no timestamp assigner: assign timestamps before key_by")
        stamped = super().assign_timestamps_and_watermarks(watermark_strategy)
        self._give_rows(stamped._transformation)
        return stamped

    def cache(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("cache")

    def _set_written(self, sink: Transformation) -> None:
        """Rows of key and record, which is what PyFlink's keyed streams consist of."""
        self._give_rows(sink)

    def _give_rows(self, reader: Transformation) -> None:
        """Let `reader`, which reads this stream, emit rows of key and record."""
        key_type = self._transformation.key_type or Types.PICKLED_BYTE_ARRAY()
        reader.output_type = Types.ROW([key_type, self._origin_stream.get_type()])
        reader.key_selector = self._key_selector

    def _keep_partitioning(self) -> NoReturn:
        raise TypeError("the partitioning of a KeyedStream cannot be overridden: do it before key_by")

    def _key_selector_or_none(self) -> Callable[[Any], Any]:
        return self._key_selector


class CachedDataStream(UnsettableStream, DataStream):
    """A stream whose records are kept once a job has computed them."""

    def invalidate(self) -> None:
        """Forget the records; the next job that reads the stream computes them again."""
        self._environment.invalidate_cache(self._transformation)
