"""Streams whose records all go to every subtask, connected with another stream.

Source: pyflink.datastream.data_stream.{BroadcastStream,BroadcastConnectedStream};
org.apache.flink.streaming.api.transformations.{BroadcastStateTransformation,KeyedBroadcastStateTransformation}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.engine.common.typeinfo import TypeInformation
from penstock.engine.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.engine.datastream.operator_settings import as_output_type, check_methods
from penstock.engine.datastream.state import MapStateDescriptor
from penstock.engine.runtime.transformations import Call
from penstock.operators.process.broadcast_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)

if TYPE_CHECKING:
    from penstock.engine.datastream.data_stream import DataStream


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
        output_type: TypeInformation | None = None,
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
