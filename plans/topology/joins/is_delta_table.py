"""Whether a path is a Delta table, also where the session does not know Delta."""

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Whether there is a log of Delta's below `path`, on any file system that Spark reads."""
    try:
        log = spark._jvm.org.apache.hadoop.fs.Path(f"{path.rstrip('/')}/_delta_log")  # type: ignore[union-attr]
        files = log.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return bool(files.exists(log))
    except Py4JJavaError:  # no such file system, or no path: for the reader of files to say
        return False
