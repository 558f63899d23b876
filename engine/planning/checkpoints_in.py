"""Tables between passes are kept in a folder that every executor reaches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.spark_schemas import unless_ended


@contextmanager
def checkpoints_in(spark: SparkSession, folder: str | None) -> Iterator[None]:
    """Inside the block, `plans.joins.spark_schemas` writes to a folder of its own in `folder`.

    With None, executors keep the tables, or the checkpoint directory that the context has. Raises
    ConfigurationError where the folder cannot be made.
    """
    if folder is None:
        yield
        return
    context: Any = spark.sparkContext
    scala_context, jvm = context._jsc.sc(), context._jvm
    before = scala_context.checkpointDir()
    try:
        context.setCheckpointDir(folder)
    except Py4JError as error:
        raise ConfigurationError(
            f"--checkpoint-dir: {describe_spark_error(error)}", "a folder that all executors can write to"
        ) from None
    path = jvm.org.apache.hadoop.fs.Path(context.getCheckpointDir())
    try:
        yield
    finally:
        with unless_ended(spark):
            getattr(scala_context, "checkpointDir_$eq")(before)
            path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)
