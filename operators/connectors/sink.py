"""The base of sinks, with writers in the subtasks and a commit of two rounds on the driver.

The input is bounded, so there is one commit, after all subtasks have finished: all sinks of the job prepare,
then all commit. A job that fails or is cancelled earlier aborts, and leaves nothing that a reader could see.

Source: org.apache.flink.api.connector.sink2.{Sink,SinkWriter,CommittingSinkWriter,Committer}.
"""

from __future__ import annotations

import copy
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Self

import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext, Timestamps, Values
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.formats.java_text import printed_text


@dataclass(frozen=True)
class Committable:
    """Data that a writer has written and that a commit makes visible, usually a file."""

    staged: str  #: its path until the commit
    target: str  #: its path after the commit
    size: int  #: bytes
    subtask: int
    details: dict[str, Any] = field(default_factory=dict)  #: other data for this sink's commit; JSON values


@dataclass(frozen=True)
class Recovery:
    """The data for a process without the sink to finish or undo its commit (see recover_sinks.py)."""

    kind: str  #: one of recover_sinks.KINDS
    folder: str  #: path or URI of the folder that the sink writes into
    arguments: dict[str, Any] = field(default_factory=dict)  #: other arguments; JSON values


class LostCommitError(ValueError):
    """A commit that can never succeed, because its target was replaced or changed permanently."""


class LostFilesError(LostCommitError, FileNotFoundError):
    """A commit that can never succeed, because files that the job wrote are gone."""


class SinkWriter:
    """Takes the records of one attempt of one subtask."""

    def write(self, values: Values, timestamps: Timestamps) -> None:
        """Write records as Python values; timestamps in milliseconds since the epoch."""
        raise NotImplementedError

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Write records as columns; only called if the sink's `columnar` is true."""
        raise NotImplementedError

    def finish(self) -> list[Committable]:
        """Write all records to the disk, since none follows. The driver commits the result."""
        raise NotImplementedError

    def abort(self) -> None:
        """Remove the attempt's files. Called instead of `finish`, or after it failed."""
        raise NotImplementedError


class Sink:
    """Base of sinks: made on the driver, pickled, written in the subtasks, committed on the driver.

    The driver calls `start` once per run, then `begin`; each attempt of a subtask calls `writer`; then the
    driver calls `prepare` with the committables of one attempt of each subtask and, when all sinks of the job
    have prepared, `commit` with its result; otherwise `abort`. Lost attempts leave staged files, which
    `commit` and `abort` remove.
    """

    #: Whether writers take record batches as well.
    columnar: bool = False
    #: Whether Flink may run several attempts of its writers at once (SupportsConcurrentExecutionAttempts).
    supports_concurrent_execution_attempts: ClassVar[bool] = False
    #: Identifies this run of the sink; set by `start`.
    write_id: str = ""
    #: Number of earlier calls of `commit` with these committables (CommitRequest.getNumberOfRetries in
    #: Flink): above 0 after a failure or a killed driver, when some of them may be visible already.
    commit_retries: int = 0

    def __init__(self, *java: Any) -> None:
        if type(self) is Sink or java:
            raise NoJavaError(
                "Sink: Penstock runs without Flink's JVM, so there are no sinks of Java classes; supported "
                "are FileSink, StreamingFileSink, print and the sinks of penstock.operators.connectors"
            )

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        """Return this sink for one run.

        Args:
            write_id: Id of the run (letters, digits, -), to commit once only although the run is repeated;
                default: a new one.
            type_info: Type of the records.

        Returns:
            Sink: For this run.

        Raises:
            TypeError: The sink does not take such records.
        """
        started = copy.copy(self)
        started.write_id = write_id or uuid.uuid4().hex
        return started

    def begin(self) -> None:
        """Create the staging area that subtasks write into; `commit` and `abort` remove it.

        Raises:
            OSError: It cannot be created.
        """

    def writer(self, context: OperatorContext) -> SinkWriter:
        """Return a writer for one attempt of one subtask.

        Args:
            context: The OperatorContext, with `attempt_number`.

        Returns:
            SinkWriter: Takes records.
        """
        raise NotImplementedError

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        """Make sure that `commit` will succeed.

        Nothing may become visible.

        Args:
            committables: Those of one attempt of each subtask.

        Returns:
            list[Committable]: For `commit`, all of it durable.

        Raises:
            Exception: Undoes the commit of all sinks of the job.
        """
        return committables

    def commit(self, committables: list[Committable]) -> None:
        """Make everything visible.

        Idempotent: it is repeated after a failure or a killed driver, perhaps in another process, on a sink
        that was started with the same `write_id`.

        Args:
            committables: From `prepare`.
        """

    def recovery(self) -> Recovery | None:
        """Return the data by which `penstock recover` finishes the commit.

        Returns:
            Recovery | None: None if only the job itself can finish it.
        """
        return None

    def abort(self, committables: list[Committable] | None = None) -> None:
        """Remove everything that this run has staged.

        Args:
            committables: Those known; None: unknown.
        """


class _DiscardingWriter(SinkWriter):
    def write(self, values: Values, timestamps: Timestamps) -> None:
        pass

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        pass

    def finish(self) -> list[Committable]:
        return []

    def abort(self) -> None:
        pass


class DiscardSink(Sink):
    """Discards all records.

    Source: org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink.
    """

    columnar = True
    supports_concurrent_execution_attempts = True

    def writer(self, context: OperatorContext) -> SinkWriter:
        return _DiscardingWriter()


class CollectSink(Sink):
    """Marks the end of a stream whose records the runtime sends to the driver; it has no writer.

    With a `limit` it takes that many records and then ends its producers; it must be the only end of its job.

    Source: org.apache.flink.streaming.api.operators.collect.CollectSinkOperator.
    """

    columnar = True

    def __init__(self, limit: int | None = None) -> None:
        super().__init__()
        self.limit = limit


class PrintSink(Sink):
    """Formats each record as a line; the runtime prints the lines to the driver's standard output.

    `type_info` is the type of the stream: it decides the form of a record (`printed_text`). The sink has no
    writer.

    Source: org.apache.flink.streaming.api.functions.sink.PrintSink, PrintSinkOutputWriter.
    """

    def __init__(
        self,
        sink_identifier: str | None = None,
        type_info: TypeInformation | None = None,
        to_stderr: bool = False,
    ) -> None:
        super().__init__()
        self.sink_identifier, self.type_info, self.to_stderr = sink_identifier or "", type_info, to_stderr

    def prefix(self, context: OperatorContext) -> str:
        """Return `identifier:N> `, `identifier> `, `N> ` or nothing; N counts subtasks from 1, if several."""
        parts = [self.sink_identifier] if self.sink_identifier else []
        if context.parallelism > 1:
            parts.append(str(context.subtask + 1))
        return ":".join(parts) + "> " if parts else ""

    def lines(self, values: Values, context: OperatorContext) -> list[str]:
        """Return one line per value, without a line end."""
        prefix = self.prefix(context)
        text = printed_text(self.type_info)
        return [prefix + text(value) for value in values]


# The common base of the connectors of PyFlink's API. Source: pyflink.datastream.connectors.base


class DeliveryGuarantee(Enum):
    """How often a record may arrive. Every sink here delivers exactly once, by its one commit."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class StreamTransformer(ABC):
    """Transforms a stream before a sink receives it."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Prepare a stream for the sink.

        Args:
            ds: The DataStream on which `sink_to` was called.

        Returns:
            DataStream: The stream that the sink receives.
        """


class SupportsPreprocessing(ABC):
    """A sink that receives a stream transformed by a StreamTransformer."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the transformer; None: the stream is not transformed."""
