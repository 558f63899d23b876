"""Sends records of a subtask to the driver, which reads them while the job runs.

One connection for each attempt: a line of JSON with the token and whose records follow, then blocks, each
after its edge and length, then a block of no edge. A driver that does not read makes the subtask wait.
"""

import json
import secrets
import socket
import struct

from penstock.operators.exchange.channel_writer import ChannelRow
from penstock.operators.task.task_spec import ResultsAddress

#: Edge and length in bytes of the block that follows.
BLOCK_HEADER = struct.Struct("<iq")
#: The edge of what follows the last block.
NO_EDGE = -(2**31)
#: The edge of a row for Spark that names the attempt which has sent records. Spark counts one attempt only.
ATTEMPT_EDGE = -(2**31) + 1

_CONNECT_SECONDS = 60.0


class ResultSender:
    """Sends the rows of one attempt of one subtask. OSError if the driver does not take them."""

    def __init__(self, address: ResultsAddress, vertex: int, subtask: int) -> None:
        self.edges, self.attempt = address.edges, secrets.token_hex(8)
        self._socket = socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS)
        self._socket.settimeout(None)
        greeting = {"token": address.token, "vertex": vertex, "subtask": subtask, "attempt": self.attempt}
        self._socket.sendall(json.dumps(greeting).encode() + b"\n")

    def send(self, row: ChannelRow) -> None:
        """Send a row's block; returns when the driver has room for it."""
        if row.payload:  # else it only greets its reader
            self._socket.sendall(BLOCK_HEADER.pack(row.edge, len(row.payload)))
            self._socket.sendall(row.payload)

    def finish(self) -> None:
        """No row follows."""
        self._socket.sendall(BLOCK_HEADER.pack(NO_EDGE, 0))

    def close(self) -> None:
        self._socket.close()
