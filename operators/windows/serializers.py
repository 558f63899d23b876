"""The byte forms of windows, as in PyFlink: big-endian 64-bit integers, one byte for the global window.

Source: pyflink.fn_execution.coder_impl_slow.{TimeWindowCoderImpl,CountWindowCoderImpl,GlobalWindowCoderImpl}.
"""

from io import BytesIO
from struct import Struct

from penstock.operators.common.serializer import TypeSerializer
from penstock.operators.windows.window import CountWindow, GlobalWindow, TimeWindow

_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """16 bytes: start, end."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        """Write the window. Raises struct.error if a bound does not fit 64 bits."""
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        """Read a window. Raises struct.error at the end of the stream."""
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """8 bytes: the id."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        """Write the window. Raises struct.error if the id does not fit 64 bits."""
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        """Read a window. Raises struct.error at the end of the stream."""
        return CountWindow(_LONG.unpack(stream.read(8))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One byte, 0."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()
