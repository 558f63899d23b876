"""The job of one batch of a stream, made from the user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.engine.pyflink.common import Configuration
from penstock.engine.pyflink.datastream import DataStream, StreamExecutionEnvironment
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.dataframe_of_job import dataframe_of_blocks, ending_in_blocks
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.transformations import Job, Transformation
from penstock.engine.run.streams.restore_state import Manifest
from penstock.engine.run.streams.run_batch import (
    Batch,
    Ending,
    StateOptions,
    is_done,
    last_manifest,
    run_batch,
)
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.spark_schemas import free, unless_ended

Into = Callable[[DataFrame, int], object]


def run_stream_batch(
    batch: Batch,
    source: Callable[[StreamExecutionEnvironment], DataStream],
    build: Callable[[Any], Any],
    options: StateOptions,
    *,
    parallelism: int | None = None,
    into: Into | None = None,
    name: str | None = None,
) -> Manifest | None:
    """Run the topology of `build` over the stream of `source`, and commit rows and state as one.

    Return the manifest of the new state; None if the batch was done before. Raises as `run_batch` does.
    """
    before = last_manifest(options.folder)
    if is_done(before, batch, options):
        return None
    env = _environment(parallelism, before)
    result = build(source(env))
    roots = list(env._registered)
    env._registered.clear()
    ending = Ending()
    if into is None:
        _require_sinks(result, roots)
    else:
        if not isinstance(result, DataStream):
            raise ConfigurationError(
                f"build must return a stream for into=, got {type(result).__name__}",
                "return the last stream of the pipeline",
            )
        sink = result._dataframe_sink()
        roots.append(sink)
        ending = _RowsInto(sink, into, batch.batch_id)
    return run_batch(env._job_to_run(roots, name), batch, options, ending)


def _environment(parallelism: int | None, before: Manifest | None) -> StreamExecutionEnvironment:
    """Return an environment, with the max parallelism of the state unless the configuration sets another.

    Source: org.apache.flink.runtime.checkpoint.StateAssignmentOperation, which does so.
    """
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", "STREAMING")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if parallelism is not None:
        env.set_parallelism(parallelism)
    most = {operator["max_parallelism"] for operator in ([] if before is None else before["operators"])}
    if len(most) == 1 and env.get_max_parallelism() <= 0:
        env.set_max_parallelism(most.pop())
    return env


def _require_sinks(result: Any, roots: list[Transformation]) -> None:
    if isinstance(result, DataStream):
        raise ConfigurationError(
            "build must end in sinks, got a stream that nobody reads",
            "end it in a sink (sink_to, print), or pass into= a function that takes its rows",
        )
    if not any(root.kind == "sink" for root in roots):
        raise ConfigurationError("build must end in a sink, got a topology without one")


class _RowsInto(Ending):
    """Hands the rows of a stream to the caller's function, as a DataFrame, before the commit of the batch."""

    def __init__(self, sink: Transformation, into: Into, batch_id: int) -> None:
        self._sink, self._into, self._batch_id = sink, into, batch_id

    def compiled(self, job: Job, compiled: CompiledJob) -> CompiledJob:
        """Return the job with rows in place of the sink."""
        compiled, self._edge, self._schema = ending_in_blocks(job, self._sink, compiled)
        return compiled

    def read(self, frames: JobFrames) -> pa.Table:
        """Run the job, call the function, and return the other rows."""
        rows = frames.checkpointed_terminal()
        try:
            table = rows.where(rows["edge"] != self._edge).toArrow()
            self._into(dataframe_of_blocks(rows, self._edge, self._schema), self._batch_id)
        finally:
            with unless_ended(rows.sparkSession):
                free(rows)
        return table
