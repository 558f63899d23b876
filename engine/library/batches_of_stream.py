"""The job of one batch of a stream, made from the user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.engine.planning.remembered_plans import Plans, remembering
from penstock.engine.pyflink.common import Configuration
from penstock.engine.pyflink.datastream import DataStream, StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.stream_execution_environment import is_captured
from penstock.engine.run.lowering.transformations import Job, Transformation, ids_from_one
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.dataframe_of_job import dataframe_of_blocks, ending_in_blocks
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.run_context import current_context
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
from penstock.plans.topology.fingerprint import STREAM_STATE

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
    plans: Plans | None = None,
) -> Manifest | None:
    """Run the topology of `build` over the stream of `source`, and commit rows and state as one.

    `plans` are those of earlier batches, for topologies that are equal. Return the manifest of the new state;
    None if the batch was done before. Raises as `run_batch` does.
    """
    if is_done(last_manifest(options.folder), batch, options):
        return None
    with remembering({} if plans is None else plans), ids_from_one():
        with batch.timed("queryPlanning"):
            job, ending = _job_of_batch(batch, source, build, parallelism, into, name)
        return run_batch(job, batch, options, ending)


def _job_of_batch(
    batch: Batch,
    source: Callable[[StreamExecutionEnvironment], DataStream],
    build: Callable[[Any], Any],
    parallelism: int | None,
    into: Into | None,
    name: str | None,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Job, Ending]:
    """Return the job of a batch, and how its rows end; `notes` become part of its configuration."""
    env = _environment(parallelism, notes)
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
    return env._job_to_run(roots, name), ending


def _environment(parallelism: int | None, notes: Mapping[str, str]) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in {"execution.runtime-mode": "STREAMING", **notes}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if parallelism is not None:
        env.set_parallelism(parallelism)
    return env


def _require_sinks(result: Any, roots: list[Transformation]) -> None:
    if isinstance(result, DataStream):
        raise ConfigurationError(
            "build must end in sinks, got a stream that nobody reads",
            "end it in a sink (sink_to, print), or pass into= a function that takes its rows",
        )
    if not any(root.kind == "sink" for root in roots):
        raise ConfigurationError("build must end in a sink, got a topology without one")


# Scripts whose jobs are only planned: their queries do not start.


class PlannedWriter:
    """A DataStreamWriter whose `start` plans the topology of a function of foreach_batch."""

    def __init__(self, df: DataFrame, plan: Callable[[DataFrame], None]) -> None:
        self._df, self._plan = df, plan

    def __getattr__(self, name: str) -> Callable[..., PlannedWriter]:
        if name not in vars(DataStreamWriter):
            raise AttributeError(name)
        return lambda *args, **kwargs: self

    def start(self, *args: Any, **kwargs: Any) -> PlannedQuery:
        """Plan the topology over a batch without rows."""
        self._plan(self._df.sparkSession.createDataFrame([], self._df.schema))
        return PlannedQuery()


class PlannedQuery:
    """A StreamingQuery that has ended without a batch."""

    id = runId = name = lastProgress = None
    isActive = False
    recentProgress: ClassVar[list[Any]] = []

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Return True, because it has ended."""
        return True

    def exception(self) -> None:
        """Return None."""

    def processAllAvailable(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


def plan_started_queries(plan_of: Callable[[Any], Callable[[DataFrame], None] | None]) -> None:
    """Have queries planned instead of started from now on, unless `plan_of` their function is None."""
    foreach_batch = DataStreamWriter.foreachBatch
    await_any = StreamingQueryManager.awaitAnyTermination
    if foreach_batch.__module__ == __name__:
        return

    def plan_or_run(writer: DataStreamWriter, func: Any) -> Any:
        plan = plan_of(func)
        return foreach_batch(writer, func) if plan is None else PlannedWriter(writer._df, plan)

    def await_started(manager: StreamingQueryManager, timeout: int | None = None) -> bool | None:
        if current_context().environment_settings().captured is not None:
            return True  # no query has started, and none would ever end
        return await_any(manager, timeout)

    DataStreamWriter.foreachBatch = plan_or_run  # type: ignore[method-assign, assignment]
    StreamingQueryManager.awaitAnyTermination = await_started  # type: ignore[method-assign, assignment]


def plan_batch(
    source: Callable[[StreamExecutionEnvironment], DataStream],
    build: Callable[[Any], Any],
    folder: str,
    *,
    parallelism: int | None = None,
    into: Into | None = None,
    name: str | None = None,
) -> None:
    """Capture the job of a batch. Raises JobCaptured if the script ends with it."""
    batch = Batch(batch_id=0, query=None)
    job, _ = _job_of_batch(batch, source, build, parallelism, into, name, {STREAM_STATE: folder})
    is_captured(job, current_context())


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
