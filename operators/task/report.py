"""Report states, record counts and failures of a subtask to the driver, as JSON lines over a socket.

Reports only inform: results never depend on them. If the driver cannot be reached, its reports are lost, and
the job goes on.

Source: org.apache.flink.runtime.taskmanager.TaskExecutionState and
TaskManagerActions.updateTaskExecutionState, for the content of reports.
"""

import json
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.operators.common.without_pandas import without_pandas
from penstock.operators.exchange.channel_writer import EXCHANGE_SCHEMA, ChannelRow
from penstock.operators.state.stored_state import OperatorRecord
from penstock.operators.task.build_chain import ChainSpec

# The description of a subtask, made on the driver and sent to the Spark task with its function


@dataclass(frozen=True, kw_only=True)
class ReportAddress:
    """The socket of the driver to which a task reports its states."""

    host: str
    port: int
    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ResultsAddress:
    """The address for records that the driver reads while the job runs, and the vertices that send them."""

    host: str
    port: int
    token: str = field(repr=False)
    vertices: frozenset[int]  #: the vertices that send records
    edges: frozenset[int]
    here: int | None  #: the vertex that runs in the driver
    attempts: bool = False  #: also name the attempts that sent records to Spark


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """State and watermarks from which a batch of a stream goes on."""

    folder: str  #: the store of state
    version: int  #: the version that the batch makes
    key: bytes = field(repr=False)  #: authenticates segments with pickles
    operators: Mapping[int, OperatorRecord]  #: operators with state, by node
    watermarks: Mapping[int, int]  #: by node


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Settings that all tasks of a job share."""

    job_id: str
    job_name: str
    batch: bool
    seed: int = 0
    block_bytes: int = 1 << 20
    sort_memory_bytes: int = 64 << 20
    state_memory_bytes: int = 256 << 20
    auto_watermark_interval_milliseconds: int = 200
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)  #: name to its name among Spark's files
    reports: ReportAddress | None = None
    results: ResultsAddress | None = None
    observed: bool = False  #: metrics of functions travel with the records to an Observation of Spark
    #: The first attempt number of each subtask, by vertex, of a job that was started again.
    first_attempts: Mapping[int, Sequence[int]] = field(default_factory=dict)
    stream: StreamSettings | None = None  #: the job is a batch of a stream, whose state lasts


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One JobVertex of one job."""

    chain: ChainSpec
    settings: TaskSettings


# Sends records of a subtask to the driver, which reads them while the job runs
#
# Each attempt has its own connection: a line of JSON with the token, vertex, subtask and attempt, then
# blocks, each after its edge and length, then a block without an edge. If the driver does not read, the
# subtask waits.


#: Edge and length in bytes of the block that follows.
BLOCK_HEADER = struct.Struct("<iq")
#: The edge that ends the blocks.
NO_EDGE = -(2**31)
#: The edge of a row for Spark that names the attempt which has sent records: Spark counts only one attempt.
ATTEMPT_EDGE = -(2**31) + 1

_CONNECT_SECONDS = 60.0


class ResultSender:
    """Sends the rows of one attempt of one subtask. Raises OSError if the driver does not take them."""

    def __init__(self, address: ResultsAddress, vertex: int, subtask: int) -> None:
        self.edges, self.attempt = address.edges, secrets.token_hex(8)
        self._socket = socket.create_connection((address.host, address.port), timeout=_CONNECT_SECONDS)
        self._socket.settimeout(None)
        greeting = {"token": address.token, "vertex": vertex, "subtask": subtask, "attempt": self.attempt}
        self._socket.sendall(json.dumps(greeting).encode() + b"\n")

    def send(self, row: ChannelRow) -> None:
        """Send a row's block; return when the driver has room for it."""
        if row.payload:  # an empty row only greets its reader
            self._socket.sendall(BLOCK_HEADER.pack(row.edge, len(row.payload)))
            self._socket.sendall(row.payload)

    def finish(self) -> None:
        """Announce that no row follows."""
        self._socket.sendall(BLOCK_HEADER.pack(NO_EDGE, 0))

    def close(self) -> None:
        self._socket.close()


# Rows on their way from operators to Spark, in batches of a bounded size


_BATCH_BYTES = 8 << 20


class OutgoingRows:
    """Collects rows and passes them to `put`, which returns when the reader wants more.

    Sends rows of the edges of `sender` there instead, at once.
    """

    def __init__(self, put: Callable[[pa.RecordBatch], None], sender: ResultSender | None = None) -> None:
        self._put, self._sender = put, sender
        self._rows: list[ChannelRow] = []
        self._bytes = 0

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Pass on a batch of results of a vertex that ends in a DataFrame."""
        self._put(batch)

    def append(self, row: ChannelRow) -> None:
        if self._sender is not None and row.edge in self._sender.edges:
            self._sender.send(row)
            return
        self._rows.append(row)
        self._bytes += len(row.payload)
        if self._bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Pass on all collected rows."""
        if self._rows:
            rows, self._rows, self._bytes = self._rows, [], 0
            self._put(_batch(rows))


@without_pandas()
def _batch(rows: list[ChannelRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, EXCHANGE_SCHEMA, strict=True)],
        schema=EXCHANGE_SCHEMA,
    )


#: Seconds between two reports of record counts.
PROGRESS_SECONDS = 0.5

LONGEST_REPORT = 1 << 18
"""Bytes of a line that the driver reads; a longer report is sent with its texts cut."""


class Reporter:
    """The connection of one attempt to the driver."""

    def __init__(self, address: ReportAddress | None, vertex: int, subtask: int, attempt_number: int) -> None:
        self._who = {"vertex": vertex, "subtask": subtask, "attempt_number": attempt_number}
        self._socket: socket.socket | None = None
        self._last_progress = time.monotonic()
        if address is not None:
            try:
                self._socket = socket.create_connection((address.host, address.port), timeout=5)
            except OSError:
                return
            self._send({"token": address.token})

    def state(self, state: str, **details: Any) -> None:
        """Report that the attempt has entered the ExecutionState `state`."""
        self._send({"state": state, "at": time.time_ns() // 1_000_000, **details})

    def progress(self, records_in: int, records_out: int) -> None:
        """Report the record counts so far, at most every PROGRESS_SECONDS."""
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_SECONDS:
            self._last_progress = now
            self._send({"records_in": records_in, "records_out": records_out})

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: dict[str, Any]) -> None:
        if self._socket is not None:
            try:
                self._socket.sendall(_line({**self._who, **message}) + b"\n")
            except OSError:
                self.close()


def _line(message: dict[str, Any]) -> bytes:
    """Return `message` as JSON of at most LONGEST_REPORT bytes; long texts lose their middle."""
    line, longest = json.dumps(message), LONGEST_REPORT // 2
    while len(line) > LONGEST_REPORT:
        line = json.dumps({key: _cut(value, longest) for key, value in message.items()})
        longest //= 2
    return line.encode()


def _cut(value: Any, longest: int) -> Any:
    if not isinstance(value, str) or len(value) <= longest:
        return value
    return f"{value[: longest // 2]} … {value[-(longest // 2) :]}"
