"""Connections of strangers and of browsers with the token: how many there are, and what of them is read."""

import io
import socket
import threading
import time
from contextlib import suppress
from typing import Any

MOST_STRANGERS = 256
"""Connections that have not sent the token, at a time."""

PATIENCE_SECONDS = 0.25
"""For so long no connection has to make room: one that is about to send its token is let in."""

LONGEST_HEAD_BYTES = 16 << 10
"""Limit for the head of a request: its first line and its headers."""
HEAD_SECONDS = 10.0
"""A connection that has not sent its head by then is closed."""

_END = b"\r\n\r\n"


class Places:
    """Who is connected. Strangers have places of their own, and of more the oldest makes room."""

    def __init__(self, most_known: int) -> None:
        self._most_known = most_known
        self._strangers: dict[Any, float] = {}  # since when, the oldest first
        self._known: set[Any] = set()
        self._changed = threading.Condition()

    def let_in(self, connection: socket.socket) -> None:
        """Take a connection for a stranger; of too many, the one that has had its time is closed."""
        with self._changed:
            while len(self._strangers) >= MOST_STRANGERS:
                oldest, since = next(iter(self._strangers.items()))
                remaining_seconds = since + PATIENCE_SECONDS - time.monotonic()
                if remaining_seconds <= 0:
                    del self._strangers[oldest]
                    with suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)  # its thread ends
                else:
                    self._changed.wait(remaining_seconds)
            self._strangers[connection] = time.monotonic()

    def admit(self, connection: socket.socket) -> bool:
        """A stranger that has sent the token is none any more; False if there are too many of these."""
        with self._changed:
            if self._strangers.pop(connection, None) is None or len(self._known) >= self._most_known:
                return False
            self._known.add(connection)
            self._changed.notify_all()
            return True

    def leave(self, connection: socket.socket) -> None:
        """Give the place of a connection that has ended back."""
        with self._changed:
            self._strangers.pop(connection, None)
            self._known.discard(connection)
            self._changed.notify_all()


def read_head(connection: socket.socket) -> tuple[bytes | None, bytes]:
    """The head of a request, with its end, and what has come after it; None if it is too long or too late."""
    received = bytearray()
    until = time.monotonic() + HEAD_SECONDS
    while (end := received.find(_END)) < 0:
        remaining_seconds = until - time.monotonic()
        if len(received) >= LONGEST_HEAD_BYTES or remaining_seconds <= 0:
            return None, b""
        connection.settimeout(remaining_seconds)
        try:
            chunk = connection.recv(LONGEST_HEAD_BYTES - len(received))
        except OSError:  # a timeout too
            return None, b""
        if not chunk:
            return None, b""
        received += chunk
    end += len(_END)
    return bytes(received[:end]), bytes(received[end:])


class Rest(io.RawIOBase):
    """What has been read of a connection, and then what comes."""

    def __init__(self, received: bytes, connection: socket.socket) -> None:
        self._received = memoryview(received)
        self._connection = connection

    def readable(self) -> bool:
        """True: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, as io.RawIOBase."""
        if not self._received:
            return self._connection.recv_into(buffer)
        taken = min(len(buffer), len(self._received))
        buffer[:taken] = self._received[:taken]
        self._received = self._received[taken:]
        return taken
