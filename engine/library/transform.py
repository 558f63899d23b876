"""A stream between two DataFrames, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.engine.library.check_arguments import one_of, whole_number
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from penstock.engine.pyflink.common.time import Duration
    from penstock.engine.pyflink.datastream.data_stream import DataStream


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
            f"build: found {type(build).__name__}, allowed a function from stream to stream"
        )
    keyed: Any = {} if key is None else {"key": key}
    stream = build(env.from_dataframe(df, event_time=event_time, watermark=watermark, **keyed))
    if not isinstance(stream, DataStream):
        raise ConfigurationError(
            f"build: its result is {type(stream).__name__}, allowed a stream", "return what ends the pipeline"
        )
    return stream.to_dataframe(observe)
