"""Topologies in Spark's streams, and the state that they leave."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.engine.library.check_arguments import path, whole_number
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.operators.common.time import Duration

#: The function that Spark calls with each micro-batch and its number.
BatchFunction = Callable[["DataFrame", int], None]


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
        event_time: Column with the event time (timestamp, or milliseconds since the epoch).
        watermark: Allowed lateness: "10 seconds", a timedelta or a Duration; default 0.
        parallelism: Number of subtasks, 1 to 32768; default: the environment's.
        into: Called with the rows of the stream that `build` returns, and the batch's number, before the
            batch is committed. If the batch fails after it, it is called again.
        name: Name of the job; default "Flink Streaming Job".
        keep: Number of versions of the state to keep, 1 or more.
        new_query: Whether a query with another checkpoint location may go on with the state.
        allow_non_restored_state: Whether to drop state of operators that the topology no longer has.

    Returns:
        A function of a DataFrame and the batch's number.

    Raises:
        ConfigurationError: An argument is invalid.

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
    if not callable(build):
        raise ConfigurationError(f"build must be a function of a stream, got {type(build).__name__}")
    if into is not None and not callable(into):
        raise ConfigurationError(f"into must be a function of a DataFrame, got {type(into).__name__}")
    if parallelism is not None:
        whole_number("parallelism", parallelism)
    whole_number("keep", keep)
    folder = path("state", state)
    lock = threading.Lock()

    given: dict[str, Any] = {"event_time": event_time, "watermark": watermark, "key": key}
    given = {argument: value for argument, value in given.items() if value is not None}

    def run_one_batch(df: DataFrame, batch_id: int) -> None:
        from penstock.engine.run.runtime.run_on_spark import QUERY_ID
        from penstock.engine.run.runtime.spark_application import is_remote
        from penstock.engine.run.streams.run_batch import Batch, StateOptions
        from penstock.engine.run.streams.stream_of_batches import run_stream_batch

        if is_remote(df.sparkSession):
            raise ConfigurationError(
                "foreach_batch needs a classic session, got one of Spark Connect",
                "start the query in the driver of a classic session",
            )
        options = StateOptions(
            folder=folder,
            keep=keep,
            new_query=new_query,
            allow_non_restored_state=allow_non_restored_state,
        )
        query = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        with lock:
            run_stream_batch(
                Batch(batch_id=batch_id, query=query),
                lambda env: env.from_dataframe(df, **given),
                build,
                options,
                parallelism=parallelism,
                into=into,
                name=name,
            )

    return run_one_batch
