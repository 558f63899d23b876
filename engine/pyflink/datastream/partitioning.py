"""How the records of a stream reach the subtasks of the next operator.

Source: org.apache.flink.streaming.api.datastream.DataStream.setConnectionType;
org.apache.flink.streaming.runtime.partitioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from penstock.engine.pyflink.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeySelector,
    Partitioner,
)
from penstock.engine.pyflink.datastream.operator_settings import as_output_type, check_function, check_methods
from penstock.engine.pyflink.datastream.pickled import Pickled
from penstock.engine.pyflink.datastream.record_operations import RecordOperations
from penstock.engine.pyflink.datastream.state import MapStateDescriptor
from penstock.engine.run.lowering.lower_calls import KEYED_VALUES
from penstock.engine.run.runtime.transformations import Call, Transformation
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.process.broadcast_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from penstock.operators.records.key_selection import OpenedMethod

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream


class Partitioning(RecordOperations):
    """shuffle, rebalance, rescale, forward, broadcast, global_ and partition_custom."""

    def shuffle(self) -> DataStream:
        """Each record to a subtask drawn at random; the draws are the same in every run of a job."""
        return self._partitioned("shuffle")

    def rebalance(self) -> DataStream:
        """To the subtasks in turn."""
        return self._partitioned("rebalance")

    def rescale(self) -> DataStream:
        """In turn to some of the subtasks; every upstream subtask has its own share of them."""
        return self._partitioned("rescale")

    def forward(self) -> DataStream:
        """To the subtask of the same number; the next operator needs the same parallelism."""
        return self._partitioned("forward")

    def global_(self) -> DataStream:
        """To the first subtask. Java's `global`, a keyword in Python."""
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
        """To every subtask; with descriptors of broadcast state a BroadcastStream for `connect`."""
        everywhere = self._partitioned("broadcast")
        if broadcast_state_descriptor is None:
            return everywhere
        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(
                    f"broadcast state needs a MapStateDescriptor, not {type(descriptor).__name__}"
                )
        return BroadcastStream(everywhere, descriptors)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """To the subtask whose number `partitioner` gives for the record's key and the number of subtasks."""
        check_function(partitioner, Partitioner, "partitioner")
        return self._append_operator(
            KEYED_VALUES,
            None,
            self._transformation.output_type,
            call=Call.PARTITION_CUSTOM,
            made_at_once=3,
            key_selector=Pickled(selector_of(key_selector), "partition_custom"),
            custom_partitioner=Pickled(opened(partitioner, Partitioner, "partition"), "partition_custom"),
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


def selector_of(key_selector: Any) -> Callable[[Any], Any]:
    """The key of a record. TypeError unless it is a KeySelector or a callable."""
    check_function(key_selector, KeySelector, "key_selector")
    return opened(key_selector, KeySelector, "get_key")


def opened(function: Any, kind: type, method: str) -> Callable[..., Any]:
    """`method` of a function object, which is opened and closed where it has an `open` or `close` of its own;
    or the plain callable `function`.
    """
    if not isinstance(function, kind):
        return function  # type: ignore[no-any-return]
    if any(getattr(type(function), name) is not getattr(kind, name) for name in ("open", "close")):
        return OpenedMethod(function, method)
    return getattr(function, method)  # type: ignore[no-any-return]


# Streams whose records all go to every subtask, connected with another stream.
#
# Source: pyflink.datastream.data_stream.{BroadcastStream,BroadcastConnectedStream}; org.apache.flink.stream
# ing.api.transformations.{BroadcastStateTransformation,KeyedBroadcastStateTransformation}.


class BroadcastStream:
    """A stream that goes to every subtask, and the broadcast state made from it."""

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: list[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, connected with a BroadcastStream."""

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
        """Records of both streams through `func`; in BATCH mode all broadcast records come first.

        TypeError unless a keyed stream gets a KeyedBroadcastProcessFunction and another a
        BroadcastProcessFunction.
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
        raise TypeError(f"the function of {stream} must be a {kind.__name__}, not a {other.__name__}")
    check_methods(func, kind, f"the function of {stream}")
