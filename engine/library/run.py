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
    """The DataFrame of the stream that `build` makes of the stream of the rows of `df`; nothing runs yet.

    `df.transform(penstock.transform, build, key="user")` is the same. `event_time`, `watermark` and `key` are
    those of `env.from_dataframe`, `observe` is that of `stream.to_dataframe`; `parallelism` is the number of
    subtasks (None: the environment's default), `mode` STREAMING or BATCH. Raises ConfigurationError for
    another argument, TypeError for a column whose type no function can get, and what `build` raises.
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
    """Run a PyFlink or Penstock script on Spark as `penstock run` does, and give the result of each of its
    jobs.

    `arguments` become sys.argv; `parallelism` is the default of its jobs (None: the number of cores),
    `master` a Spark master URL (None: local[*]), `config` options by key or a directory of YAML files (see
    library_configuration), `conf` Spark settings, `py_files`
    what its functions import. With `to`, each run and its plan are a version of that store. Unless
    `real_pyflink`, the script's `import pyflink` means Penstock.

    Raises InputError (no such script), ScriptError (the script raised), ConfigurationError (a wrong
    argument).
    """
    from penstock.engine.library.run_script import run_script
    from penstock.engine.library.what_if_of_script import with_python_files
    from penstock.engine.output.redaction import remember_secrets
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.pyflink.datastream.environment_options import EnvironmentSettings
    from penstock.engine.run.commits.commit_run import runs_acknowledged_at_end
    from penstock.engine.run.runtime.job_monitor import write_run
    from penstock.engine.run.runtime.receive_results import collects_closed_at_end
    from penstock.engine.run.runtime.run_control import run_listeners
    from penstock.engine.run.runtime.run_environment import use_session_settings

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

    run_listeners.append(ended)
    try:
        spark = {**configuration.spark, **settings}
        with use_session_settings(master, spark), runs_acknowledged_at_end(), collects_closed_at_end():
            run_script(
                place,
                [str(argument) for argument in arguments],
                environment,
                real_pyflink=real_pyflink,
            )
    finally:
        run_listeners.remove(ended)
    return results
