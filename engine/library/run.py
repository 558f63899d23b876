"""Run scripts by a library call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.engine.library.check_arguments import (
    Config,
    library_configuration,
    one_of,
    path,
    require_store,
    strings,
    whole_number,
)
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.pyflink.datastream.data_stream import DataStream
    from penstock.engine.run.runtime.job_monitor import JobResult
    from penstock.operators.common.time import Duration

__all__ = ["run", "transform"]


# Run a stream between two DataFrames by one call.


def transform(
    df: DataFrame,
    build: Callable[[Any], DataStream],
    *,
    event_time: str | None = None,
    watermark: str | timedelta | Duration | None = None,
    key: str | Sequence[str] | None = None,
    parallelism: int | None = None,
    mode: str = "STREAMING",
    observe: Observation | None = None,
) -> DataFrame:
    """Put a stream between two DataFrames; `df.transform(penstock.transform, build)`.

    Nothing runs before the result is read.

    Args:
        df: A DataFrame of a classic session or of Spark Connect.
        build: Takes the stream of the rows of `df` and returns a stream.
        event_time: Column with the event time (timestamp, date, or bigint: milliseconds since the epoch).
        watermark: Largest delay of a row: "10 seconds", a timedelta or a Duration; default 0.
        key: Column or columns to key the stream by.
        parallelism: Number of subtasks, 1 to 32768; default: the option parallelism.default, else the number
            of this machine's cores.
        mode: "STREAMING" (default) or "BATCH".
        observe: A pyspark.sql.Observation that receives metrics of the run.

    Returns:
        DataFrame: The records of the stream; columns follow from its type (docs/inside-spark.md). A `map` or
        `process` without an output type yields one column of pickles.

    Raises:
        ConfigurationError: An argument is invalid.
        TypeError: A column has a type that functions cannot get.

    Examples:
        >>> from penstock.common import Types
        >>> clicks = spark.createDataFrame([("ann", 3), ("bob", 5)], "user string, amount int")
        >>> doubled = penstock.transform(clicks, lambda s: s.map(lambda row: row.amount * 2, Types.INT()))
        >>> sorted(row.value for row in doubled.collect())
        [6, 10]
    """
    from penstock.engine.pyflink.common import Configuration
    from penstock.engine.pyflink.datastream import DataStream, StreamExecutionEnvironment

    runtime_mode = one_of("mode", mode.upper() if isinstance(mode, str) else mode, ("STREAMING", "BATCH"))
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", runtime_mode)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if parallelism is not None:
        env.set_parallelism(whole_number("parallelism", parallelism))
    if not callable(build):
        raise ConfigurationError(
            f"build must be a function from stream to stream, got {type(build).__name__}"
        )
    keyed: Any = {} if key is None else {"key": key}
    stream = build(env.from_dataframe(df, event_time=event_time, watermark=watermark, **keyed))
    if not isinstance(stream, DataStream):
        raise ConfigurationError(
            f"build must return a stream, got {type(stream).__name__}",
            "return the last stream of the pipeline",
        )
    return stream.to_dataframe(observe)


def run(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    parallelism: int | None = None,
    master: str | None = None,
    config: Config = None,
    conf: Mapping[str, str] | None = None,
    py_files: Sequence[str | os.PathLike[str]] = (),
    to: str | os.PathLike[str] | None = None,
    real_pyflink: bool = False,
) -> list[JobResult]:
    """Run a PyFlink or Penstock script on Spark, as `penstock run` does.

    Args:
        script: Path of a Python script. It runs as code, with sys.argv.
        arguments: Arguments of the script.
        parallelism: Default of its jobs, 1 to 32768; default: the number of cores.
        master: Spark's master URL; default local[*].
        config: Options by key, or a directory of YAML files.
        conf: Spark's settings by key.
        py_files: Modules, folders and archives that functions of the script import in workers.
        to: A store; each run and its plan become a version of it.
        real_pyflink: `import pyflink` in the script means the installed PyFlink instead of Penstock.

    Returns:
        list[JobResult]: One result per job, in the order in which they finished.

    Raises:
        InputError: There is no such script.
        PenstockError: The script raised, or a job failed.
        ConfigurationError: Another argument is invalid.

    Examples:
        >>> from importlib.resources import files
        >>> script = files("penstock.engine") / "examples" / "word_count.py"
        >>> [result.state for result in penstock.run(script, parallelism=1)]  # doctest: +SKIP
        ['FINISHED']
    """
    from penstock.engine.library.run_script import run_script, with_python_files
    from penstock.engine.output.redaction import remember_secrets
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.run.runtime.job_monitor import write_run
    from penstock.engine.run.runtime.list_jobs_of_script import running_script
    from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext, SessionSettings

    place = path("script", script)
    files = [path("py_files", file) for file in py_files]
    target = None if to is None else path("to", to)
    if parallelism is not None:
        whole_number("parallelism", parallelism)
    if isinstance(arguments, str):
        raise ConfigurationError("arguments must be a list of strings, got a string")
    configuration = library_configuration(config)
    settings = strings("conf", conf)
    remember_secrets(settings)
    environment = EnvironmentSettings(
        parallelism=parallelism,
        config=with_python_files(configuration, ",".join(files)),
        plan_options=plan_options(cluster=configuration.cluster),
    )
    if target is not None:
        require_store(target)
    results: list[JobResult] = []

    def ended(result: JobResult) -> None:
        results.append(result)
        if target is not None:
            write_run(target, result)

    context = RunContext(
        settings=environment,
        spark=SessionSettings(master, {**configuration.spark, **settings}),
        run_listeners=[ended],
    )
    with running_script(context):
        run_script(place, [str(argument) for argument in arguments], context, real_pyflink=real_pyflink)
    return results
