"""The memory that Spark's Python workers can have on their machines."""

import socket
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.machine.available_memory import Available, available_memory, resident_bytes
from penstock.engine.spark.foresee_spark_memory import BYTES_BESIDE_A_HEAP, heap_bytes


def memory_of_workers(spark: SparkSession) -> Available:
    """Memory that all workers together can have while all cores work, and what limits it.

    Of a local Spark, the JVM may still take its heap. On a cluster, where memory is what is free now, all
    machines count as the smallest.
    """
    context = spark.sparkContext
    if is_local(context):
        available = available_memory()
        return Available(max(0, available.size_bytes - _growth_of_the_jvm(context)), available.limited_by)
    cores = context.defaultParallelism
    workers = spark.range(cores, numPartitions=cores).mapInArrow(_look, "host string, bytes long").collect()
    hosts = {row["host"] for row in workers}
    return Available(min(row["bytes"] for row in workers) * len(hosts), "the smallest machine of the cluster")


def is_local(context: Any) -> bool:
    """Whether Spark is one JVM on this machine."""
    return str(context.master).startswith("local")


def _growth_of_the_jvm(context: Any) -> int:
    """By how much the JVM may still grow: to its heap and what it takes beside that."""
    process, heap = getattr(context._gateway, "proc", None), heap_bytes(context)
    if process is None or heap is None:
        return 0
    return max(0, heap + BYTES_BESIDE_A_HEAP // 2 - resident_bytes(process.pid))


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict(
            {"host": [socket.gethostname()], "bytes": [available_memory().size_bytes]}
        )
