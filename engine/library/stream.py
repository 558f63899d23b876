"""Topologies in Spark's streams, and the state that they leave."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.engine.library.check_arguments import path as as_path
from penstock.engine.library.check_arguments import whole_number
from penstock.engine.run.runtime.run_context import current_context
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.engine.planning.remembered_plans import Plans
    from penstock.engine.run.streams.stream_records import RecordedStream
    from penstock.operators.common.time import Duration

__all__ = ["BatchFunction", "State", "foreach_batch", "open_state"]

#: Batches whose progress a function holds, like spark.sql.streaming.numRecentProgressUpdates.
_MOST_PROGRESS = 100


class BatchFunction:
    """A function for `writeStream.foreachBatch`, with the progress of its batches.

    Attributes:
        build: The function that makes the topology.
        state: Folder of the state.
    """

    def __init__(
        self,
        build: Callable[[Any], Any],
        state: str,
        source: Mapping[str, Any],
        job: Mapping[str, Any],
        restore: Mapping[str, Any],
    ) -> None:
        self.build, self.state = build, state
        self._source, self._job, self._restore = source, job, restore
        # a script that is only planned does not start its query
        self._plans_only = current_context().environment_settings().captured is not None
        if self._plans_only:
            from penstock.engine.library.batches_of_stream import plan_started_queries

            plan_started_queries(_plan_of)
        self._lock = threading.Lock()
        self._plans: Plans = {}
        self._progress: deque[dict[str, Any]] = deque(maxlen=_MOST_PROGRESS)
        self._record: RecordedStream | None = None

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The progress of the last batch, with the field names of StreamingQueryProgress; None: no batch."""
        return self._progress[-1] if self._progress else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """The progress of the last 100 batches, oldest first."""
        return list(self._progress)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Run the topology over a batch.

        Args:
            df: The rows.
            batch_id: The number of the batch.

        Raises:
            JobCompileError: The topology cannot run in a stream, or cannot take over the state.
            JobExecutionError: A function raised; the message names operator, subtask and record.
            CommitError: The batch is not committed; the next try finishes or repeats it.
        """
        from penstock.engine.library.batches_of_stream import run_stream_batch
        from penstock.engine.output.redaction import redact
        from penstock.engine.run.runtime.run_environment import QUERY_ID
        from penstock.engine.run.runtime.spark_application import is_remote
        from penstock.engine.run.streams.run_batch import Batch, StateOptions
        from penstock.engine.run.streams.stream_records import RecordedStream, progress_of_batch

        if is_remote(df.sparkSession):
            raise _not_on_connect()
        batch = Batch(batch_id=batch_id, query=df.sparkSession.sparkContext.getLocalProperty(QUERY_ID))
        with self._lock:
            if self._record is None:
                self._record = RecordedStream(self.state, self._job["name"] or "")
            self._record.begin(batch_id, batch.query)
            try:
                with batch.timed("triggerExecution"):
                    manifest = run_stream_batch(
                        batch,
                        self._source_of(df),
                        self.build,
                        StateOptions(folder=self.state, **self._restore),
                        **self._job,
                        plans=self._plans,
                    )
            except BaseException as error:
                self._record.fail(redact(str(error)) or type(error).__name__)
                raise
            progress = None if manifest is None else progress_of_batch(manifest, batch.duration_ms)
            if progress is not None:
                self._progress.append(progress)
            self._record.end(progress)

    def _plan(self, df: DataFrame) -> None:
        from penstock.engine.library.batches_of_stream import plan_batch

        plan_batch(self._source_of(df), self.build, self.state, **self._job)

    def _source_of(self, df: DataFrame) -> Callable[[Any], Any]:
        return lambda env: env.from_dataframe(df, **self._source)

    def __reduce__(self) -> NoReturn:
        raise _not_on_connect()

    def __repr__(self) -> str:
        return f"<penstock.foreach_batch, state {self.state}>"


def _plan_of(function: object) -> Callable[[DataFrame], None] | None:
    """Return how the query of a function is planned; None if it starts."""
    if isinstance(function, BatchFunction) and function._plans_only:
        return function._plan
    return None


def _not_on_connect() -> ConfigurationError:
    return ConfigurationError(
        "foreach_batch needs a classic session, got one of Spark Connect",
        "start the query in the driver of a classic session",
    )


def foreach_batch(
    build: Callable[[Any], Any],
    *,
    state: str | os.PathLike[str],
    key: str | Sequence[str] | None = None,
    event_time: str | None = None,
    watermark: str | timedelta | Duration | None = None,
    parallelism: int | None = None,
    into: Callable[[DataFrame, int], object] | None = None,
    name: str | None = None,
    keep: int = 10,
    new_query: bool = False,
    allow_non_restored_state: bool = False,
) -> BatchFunction:
    """Return a function for `writeStream.foreachBatch` that runs a topology whose state lasts.

    Keyed state, timers, windows and watermarks go on from batch to batch. The topology's sinks get each row
    exactly once, and `into` at least once, also if drivers and workers are killed.

    Args:
        build: Takes the stream of a batch's rows. It ends in sinks, or returns a stream for `into`.
        state: Folder of the state; one stream's own.
        key: Column or columns to key the stream by.
        event_time: Column with the event time (timestamp, date, or bigint: milliseconds since the epoch).
        watermark: Largest delay of a row: "10 seconds", a timedelta or a Duration; default 0.
        parallelism: Number of subtasks, 1 to 32768; default: as for `transform`.
        into: Called with the rows of the stream that `build` returns, and the batch's number, before the
            batch is committed. If the batch fails after it, it is called again.
        name: Name of the job; default "Flink Streaming Job".
        keep: Number of versions of the state to keep, 1 or more.
        new_query: Whether a query with another checkpoint location may go on with the state.
        allow_non_restored_state: Whether to drop state of operators that the topology no longer has.

    Returns:
        BatchFunction: A function of a DataFrame and the batch's number. `lastProgress` and `recentProgress`
        hold the progress of its batches.

    Raises:
        ConfigurationError: An argument is invalid.
        StoreError: `state` is the name of a version, such as state@3.

    Examples:
        >>> from penstock.common import Types
        >>> from penstock.connectors import JsonLinesSink
        >>> count = Types.TUPLE([Types.STRING(), Types.INT()])
        >>> def build(clicks):
        ...     ones = clicks.map(lambda click: (click.user, 1), count).key_by(lambda one: one[0])
        ...     ones.reduce(lambda a, b: (a[0], a[1] + b[1])).sink_to(JsonLinesSink("counts"))
        >>> counts = penstock.foreach_batch(build, state="state")
        >>> query = clicks.writeStream.foreachBatch(counts).start()  # doctest: +SKIP
    """
    from penstock.engine.store.store_location import require_no_version

    if not callable(build):
        raise ConfigurationError(f"build must be a function of a stream, got {type(build).__name__}")
    if into is not None and not callable(into):
        raise ConfigurationError(f"into must be a function of a DataFrame, got {type(into).__name__}")
    if parallelism is not None:
        whole_number("parallelism", parallelism)
    whole_number("keep", keep)
    if watermark is not None and event_time is None:
        raise ConfigurationError("watermark needs event_time, the name of the column with the rows' time")
    folder = as_path("state", state)
    require_no_version(folder, None if "://" in folder else folder)
    folder = folder if "://" in folder else os.path.abspath(folder)  # workers may run in another folder
    source = {"event_time": event_time, "watermark": watermark, "key": key}
    return BatchFunction(
        build,
        folder,
        {argument: value for argument, value in source.items() if value is not None},
        {"parallelism": parallelism, "into": into, "name": name},
        {"keep": keep, "new_query": new_query, "allow_non_restored_state": allow_non_restored_state},
    )


def open_state(path: str | os.PathLike[str], *, version: int | None = None) -> State:
    """Open the state that a stream has left, as tables.

    Args:
        path: The folder of the state, as `foreach_batch` got it.
        version: A version, as `penstock state list` shows them; default: the last one.

    Returns:
        State: Its tables, as they were at the end of a batch.

    Raises:
        StoreError: There is no state, or not this version of it.

    Examples:
        >>> penstock.open_state("state").table("counts")  # doctest: +SKIP
    """
    from penstock.engine.run.streams.open_state import manifest_of

    folder = as_path("path", path)
    return State(folder, manifest_of(folder, version))


class State:
    """The state of a stream at the end of a batch."""

    def __init__(self, folder: str, manifest: dict[str, Any]) -> None:
        self._folder, self._manifest = folder, manifest

    @property
    def version(self) -> int:
        """The version: 1 after the first batch."""
        return int(self._manifest["version"])

    @property
    def batch_id(self) -> int:
        """The number of the batch that made it."""
        return int(self._manifest["batch_id"])

    def batches(self) -> pa.Table:
        """Return the batches whose versions are kept, oldest first.

        Returns:
            pyarrow.Table: One row per version: version, batch_id, query, job, started_at, rows, watermark
            (milliseconds since the epoch), run_seconds, and state_bytes.
        """
        from penstock.engine.run.streams.open_state import table_of_batches

        return table_of_batches(self._folder)

    def tables(self) -> pa.Table:
        """Return the states of all operators.

        Returns:
            pyarrow.Table: One row per state: operator_id, uid, operator, state, kind, key_type, type, and
            rows and bytes of its files, in which an entry may stand more than once.
        """
        from penstock.engine.run.streams.open_state import list_tables

        return list_tables(self._manifest)

    def table(self, name: str, *, operator: str | None = None) -> pa.Table:
        """Return the entries of a state.

        Args:
            name: Name of the state, such as its descriptor's; `event_timers` are timers.
            operator: Uid, id or name of its operator, if several have a state of this name.

        Returns:
            pyarrow.Table: One row per entry: operator_id, uid, operator, state, key_group, key, namespace (of
            windows), value or (for timers) time. Values without a declared type are pickles.

        Raises:
            ConfigurationError: There is no such state, or there are several.
            StoreError: A file of it is damaged.
        """
        from penstock.engine.run.streams.open_state import read_state

        return read_state(self._folder, self._manifest, name, operator)

    def __repr__(self) -> str:
        return f"<state {self._folder}, version {self.version}, after batch {self.batch_id}>"
