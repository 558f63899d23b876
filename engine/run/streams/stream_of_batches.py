"""The job of one batch of a stream, made from the user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.engine.pyflink.common import Configuration
from penstock.engine.pyflink.datastream import DataStream, StreamExecutionEnvironment
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.spark_application import is_remote
from penstock.engine.run.streams.run_batch import (
    Batch,
    StateOptions,
    is_done,
    last_manifest,
    read_rows,
    run_batch,
)
from penstock.operators.files.filesystem import filesystem_of
from penstock.plans.errors import ConfigurationError

_QUERY_ID = "sql.streaming.queryId"


def run_stream_batch(
    df: DataFrame,
    batch_id: int,
    build: Callable[[Any], Any],
    options: StateOptions,
    *,
    source: Mapping[str, Any],
    parallelism: int | None,
    into: Callable[[DataFrame, int], object] | None,
    name: str | None,
) -> None:
    """Run the topology of `build` over the rows of a batch, and commit rows and state as one.

    `source`: the arguments of `from_dataframe`. Raises as `run_batch` does.
    """
    if is_remote(df.sparkSession):
        raise ConfigurationError(
            "foreach_batch: the session is of Spark Connect, where the function runs on the server, got a "
            "DataFrame without a Spark driver",
            "start the query in a classic session",
        )
    query = df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    batch = Batch(batch_id=batch_id, query=query)
    before = last_manifest(options.folder)
    if is_done(before, batch, options):
        return
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", "STREAMING")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if parallelism is not None:
        env.set_parallelism(parallelism)
    most = {operator["max_parallelism"] for operator in ([] if before is None else before["operators"])}
    if len(most) == 1 and env.get_max_parallelism() <= 0:
        env.set_max_parallelism(most.pop())
    given = {name: value for name, value in source.items() if value is not None}
    result = build(env.from_dataframe(df, **given))
    roots = list(env._registered)
    env._registered.clear()
    read = read_rows
    if into is not None:
        if not isinstance(result, DataStream):
            raise ConfigurationError(
                f"build must return the stream for into=, got {type(result).__name__}",
                "return the last stream of the pipeline",
            )
        raise NotImplementedError
    if isinstance(result, DataStream):
        raise ConfigurationError(
            "build must end in sinks, got a stream that nobody reads",
            "end it in a sink (sink_to, print), or pass into= a function that takes its rows",
        )
    if not roots:
        raise ConfigurationError("build must end in a sink, got a topology without operators")
    job = env._job_to_run(roots, name)
    run_batch(job, batch, options, read)
