"""What a Python worker of Spark can have of its machine's memory, found out on the machines."""

import socket
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.machine.available_memory import available_memory


def memory_of_a_worker(spark: SparkSession) -> int:
    """Bytes that each of the workers can have if all cores have one: the smallest of all machines."""
    cores = spark.sparkContext.defaultParallelism
    found = spark.range(cores, numPartitions=cores).mapInArrow(_look, "host string, bytes long").collect()
    hosts = {row["host"] for row in found}
    return int(min(row["bytes"] for row in found) * len(hosts) // cores)


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict(
            {"host": [socket.gethostname()], "bytes": [available_memory().size_bytes]}
        )
